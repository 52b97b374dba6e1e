/* escalate.c -- elements whose float64 value does not decide the rounding to the declared type: found, asked again, mended, counted.
 *
 * Claim PREC-2: an element is decided if both ends of [value + lo - own, value + lo + own] round to the same number; rounding is monotone, so
 *   the exact value rounds to it too. Ends are computed in f64 and moved outwards by 2^-52 |value|, more than their rounding; where own
 *   is 0 and there is no lo, the value is exact and nothing is asked.
 * Claim PREC-3: what a row finds out in 113 bits is rounded once: value + rest is rounded to odd in 113 bits, then to odd in f64, then to the
 *   type; each step has two digits more than the next, so that no tie is made or lost (Boldo and Melquiond 2008).
 * An element of an f64 tensor is asked again too where own exceeds 2^-11 of its bound (claim PREC-4).
 */
#include "oracle/escalate.h"

#include <stdlib.h>

#include "oracle/frame.h"
#include "tensor/clones.h"

enum { BLOCK = 512, CHUNK = 1 << 14 };

/* ---- one rounding of value + rest ---- */

static bool quad_even(vn_quad_t q) {
    uint64_t low;
    memcpy(&low, &q, sizeof low);
    return (low & 1) == 0;
}

static bool double_even(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 1) == 0;
}

double vn_exact_round(vn_format_t f, vn_quad_t value, vn_quad_t rest) {
    vn_quad_t left, s = vn_quad_two_sum(value, rest, &left);
    if (!vn_quad_finite(s)) return (double)s;
    if (left != 0 && quad_even(s)) s = vn_qnext(s, left > 0 ? (vn_quad_t)INFINITY : -(vn_quad_t)INFINITY);
    double d = (double)s;
    if (f == VN_FMT_F64) return d;
    if (isfinite(d) && (vn_quad_t)d != s && double_even(d)) d = nextafter(d, s > d ? INFINITY : -INFINITY);
    return vn_round_to(f, d, VN_RNE, false);
}

/* Both ends of what is known of an element. */
static void ends(vn_format_t f, const vn_exact_t *x, double *low, double *high) {
    const vn_quad_t own = x->own > 0 ? x->own * (1 + 4 * VN_QUAD_U) + vn_qabs(x->rest) * (4 * VN_QUAD_U) : 0;
    *low = vn_exact_round(f, x->value, x->rest - own);
    *high = vn_exact_round(f, x->value, x->rest + own);
}

static bool same(double a, double b) { return a == b; }

bool vn_exact_decided(vn_format_t f, const vn_exact_t *x) {
    double low, high;
    ends(f, x, &low, &high);
    return same(low, high);
}

/* ---- finding them ---- */

typedef struct search {
    const vn_ref_t *r;
    vn_format_t format;
    double rel, abs;      /* own error where there is no plane */
    const uint8_t *marks; /* per VN_OPEN_PIECE elements: some of them may be open */
    int64_t *counts;      /* per chunk */
    int64_t *found;       /* second pass: from start[chunk] on */
    const int64_t *start;
} search_t;

/* Half widths of the intervals, moved outwards. */
VN_CLONES static void widths(const double *v, const double *own, const double *lo, double rel, double abs, int64_t n, double *w) {
    if (own)
        for (int64_t i = 0; i < n; ++i) w[i] = own[i];
    else
        for (int64_t i = 0; i < n; ++i) w[i] = abs + rel * fabs(v[i]);
    if (lo)
        for (int64_t i = 0; i < n; ++i) w[i] += fabs(lo[i]);
    for (int64_t i = 0; i < n; ++i) w[i] += w[i] > 0 ? 0x1p-52 * fabs(v[i]) : 0.0;
}

/* v - w and v + w differ in f32; they are compared as doubles, so that the loop over it stays in vectors. */
static inline int64_t is_open(double v, double w) {
    const double a = (double)(float)(v - w), b = (double)(float)(v + w);
    return a != b ? (fabs(v) <= DBL_MAX ? INT64_C(1) : INT64_C(0)) : INT64_C(0);
}

static inline double plain_width(double v, double rel, double abs) {
    const double own = abs + rel * fabs(v);
    return own + (own > 0 ? 0x1p-52 * fabs(v) : 0.0);
}

VN_CLONES static int64_t count_f32(const double *v, const double *w, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += is_open(v[i], w[i]);
    return count;
}

/* The same where the own error is two numbers: the usual case. */
VN_CLONES static int64_t count_f32_plain(const double *v, double rel, double abs, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += is_open(v[i], plain_width(v[i], rel, abs));
    return count;
}

/* w NULL: plain. open[] is written only where something is. */
static int64_t open_f32(const double *v, const double *w, double rel, double abs, int64_t n, uint8_t *open) {
    const int64_t count = w ? count_f32(v, w, n) : count_f32_plain(v, rel, abs, n);
    for (int64_t i = 0; count && i < n; ++i) open[i] = is_open(v[i], w ? w[i] : plain_width(v[i], rel, abs)) != 0;
    return count;
}

static int64_t open_narrow(vn_format_t f, const double *v, const double *w, int64_t n, uint8_t *open) {
    double a[BLOCK], b[BLOCK];
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        a[i] = v[i] - w[i];
        b[i] = v[i] + w[i];
    }
    vn_round_array(f, VN_RNE, a, n);
    vn_round_array(f, VN_RNE, b, n);
    for (int64_t i = 0; i < n; ++i) {
        open[i] = a[i] != b[i] && fabs(v[i]) <= DBL_MAX;
        count += open[i];
    }
    return count;
}

/* value + lo must round to value, and own must be small against the bound. */
static int64_t open_f64(const search_t *s, int64_t at, int64_t n, uint8_t *open) {
    const vn_ref_t *r = s->r;
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double v = r->value[at + i], lo = r->lo ? r->lo[at + i] : 0;
        double own = r->own ? r->own[at + i] : s->abs + s->rel * fabs(v);
        const bool large = own > 0 && r->bound && !r->demand_equal && own > 0x1p-11 * r->bound[at + i];
        if (own > 0) own = own * (1 + 0x1p-50) + 0x1p-52 * fabs(lo);
        open[i] = fabs(v) <= DBL_MAX && (large || v + (lo - own) != v || v + (lo + own) != v);
        count += open[i];
    }
    return count;
}

static int64_t open_block(const search_t *s, int64_t at, int64_t n, uint8_t *open) {
    const vn_ref_t *r = s->r;
    double w[BLOCK];
    if (s->format == VN_FMT_F64) return open_f64(s, at, n, open);
    if (s->format == VN_FMT_F32 && !r->own && !r->lo) return open_f32(r->value + at, NULL, s->rel, s->abs, n, open);
    widths(r->value + at, r->own ? r->own + at : NULL, r->lo ? r->lo + at : NULL, s->rel, s->abs, n, w);
    return s->format == VN_FMT_F32 ? open_f32(r->value + at, w, 0, 0, n, open) : open_narrow(s->format, r->value + at, w, n, open);
}

static void search_chunk(void *ctx, int64_t begin, int64_t end) {
    search_t *s = ctx;
    uint8_t open[BLOCK];
    int64_t count = 0, to = s->found ? s->start[begin / CHUNK] : 0;
    if (s->found && s->counts[begin / CHUNK] == 0) return;
    for (int64_t at = begin; at < end; at += BLOCK) {
        if (!s->marks[at / VN_OPEN_PIECE]) continue;
        const int64_t n = end - at < BLOCK ? end - at : BLOCK, c = open_block(s, at, n, open);
        count += c;
        for (int64_t i = 0; s->found && c && i < n; ++i)
            if (open[i]) s->found[to++] = at + i;
    }
    s->counts[begin / CHUNK] = count;
}

/* *found: ascending; NULL if there are none. */
static vn_status_t search(vn_eval_t *e, search_t *s, int64_t **found, int64_t *n) {
    const int64_t count = s->r->count, chunks = count / CHUNK + 1;
    *found = NULL;
    *n = 0;
    s->counts = vn_alloc((size_t)chunks, 2 * sizeof *s->counts);
    if (!s->counts) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_parallel(count, CHUNK, search_chunk, s);
    int64_t *start = s->counts + chunks;
    for (int64_t c = 0; c < chunks; ++c) {
        start[c] = *n;
        *n += s->counts[c];
    }
    vn_status_t st = VN_OK;
    if (*n) {
        s->start = start;
        s->found = *found = vn_alloc((size_t)*n, sizeof **found);
        if (*found) vn_parallel(count, CHUNK, search_chunk, s);
        else st = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements to be evaluated again", (long long)*n);
    }
    vn_free(s->counts);
    return st;
}

/* ---- asking again ---- */

static vn_status_t ask(vn_eval_t *e, const vn_op_t *row, vn_refine_t *q) {
    vn_eval_t sub = *e;
    for (int k = 0; k < e->n_in && !(row->flags & VN_OP_LEAN); ++k) /* before threads ask for them */
        if (e->in[k].t && e->in[k].t->data && vn_dtype_is_float(e->in[k].t->dtype) && !vn_arg_f64(e, k)) return VN_ERR_NOMEM;
    sub.out = vn_alloc((size_t)(e->n_out ? e->n_out : 1), sizeof *sub.out);
    if (!sub.out) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    sub.refine = q;
    sub.want = VN_WANT_VALUE;
    const vn_status_t s = row->eval(&sub);
    for (int k = 0; k < e->n_out; ++k) vn_ref_free(&sub.out[k]);
    vn_free(sub.out);
    return s;
}

/* Planes that hold what is found out about an f64 tensor. */
static vn_status_t planes_f64(vn_eval_t *e, int k, double rel, double abs) {
    vn_ref_t *r = &e->out[k];
    VN_TRY(vn_out_lo(e, k));
    if (r->own) return VN_OK;
    VN_TRY(vn_out_own(e, k));
    for (int64_t i = 0; i < r->count; ++i) r->own[i] = abs + rel * fabs(r->value[i]);
    return VN_OK;
}

static vn_exact_t known(const vn_ref_t *r, int64_t i, double rel, double abs) {
    return (vn_exact_t){
        .value = r->value[i], .rest = r->lo ? r->lo[i] : 0, .own = r->own ? r->own[i] : (vn_quad_t)(abs + rel * fabs(r->value[i]))};
}

/* What was found out, as planes. */
static void take(vn_ref_t *r, int64_t i, const vn_exact_t *x) {
    const double hi = vn_exact_round(VN_FMT_F64, x->value, x->rest);
    if (!isfinite(hi)) return;
    const vn_quad_t low = (x->value - hi) + x->rest;
    const double lo = (double)low;
    double own = (double)x->own * (1 + 0x1p-52);
    if ((vn_quad_t)lo != low || x->own > 0) own += 0x1p-105 * fabs(hi) + 0x1p-1074;
    r->value[i] = hi;
    if (r->lo) r->lo[i] = lo;
    if (r->own) r->own[i] = r->lo ? own : own + fabs(lo) * (1 + 0x1p-52);
}

/* Both ends of an element that was not asked again, in f64 and moved outwards as in the search (claim PREC-2). */
static void ends_known(const vn_ref_t *r, const search_t *s, int64_t at, double *low, double *high, double *best) {
    double w, v = r->value[at];
    widths(&v, r->own ? r->own + at : NULL, r->lo ? r->lo + at : NULL, s->rel, s->abs, 1, &w);
    *low = vn_round_to(s->format, v - w, VN_RNE, false);
    *high = vn_round_to(s->format, v + w, VN_RNE, false);
    *best = vn_round_to(s->format, v, VN_RNE, false);
}

/* best: the more likely of both. A choice that the row itself left is kept: that element has two results already. */
static vn_status_t leave_open(vn_eval_t *e, int k, int64_t i, double low, double high, double best) {
    vn_ref_t *r = &e->out[k];
    const bool chosen = r->either && !same(vn_tensor_get_f64(r->tensor, i), vn_tensor_get_f64(r->either, i));
    r->undecided++;
    if (!r->either) VN_TRY(vn_tensor_copy(r->tensor, &r->either, e->err));
    if (chosen) return VN_OK;
    vn_tensor_set_f64(r->tensor, i, best);
    vn_tensor_set_f64(r->either, i, same(best, low) ? high : low);
    return VN_OK;
}

/* The declared type, or the narrower one that the contract names (eval.c rounds to it). */
static vn_format_t result_format(const vn_eval_t *e, const vn_ref_t *r) {
    const vn_format_t type = vn_format_of(r->dtype), named = e->contract->result;
    return named != VN_FMT_NONE && type != VN_FMT_NONE && vn_format_info(named)->p < vn_format_info(type)->p ? named : type;
}

static bool nothing_open(const vn_eval_t *e, const vn_op_t *row, const vn_ref_t *r) {
    if (!r->value || !r->count || (e->run && e->run->region)) return true;
    if (r->demand_equal && (!r->lo || r->dtype == VN_F64)) return true; /* claim ELEM-1 */
    for (int k = 0; k < e->n_in; ++k)
        if (e->in[k].err) return true;
    const bool moved =
        row->cls == VN_CLASS_MOVEMENT || row->cls == VN_CLASS_EXACT || row->cls == VN_CLASS_RANDOM || row->cls == VN_CLASS_CONTROL;
    return !r->own && !r->lo && (moved || row->cls == VN_CLASS_ROUNDED);
}

static search_t search_of(const vn_eval_t *e, const vn_ref_t *r) {
    return (search_t){.r = r,
                      .format = result_format(e, r),
                      .rel = r->demand_equal && !r->own ? 0
                             : r->own_rel > 0           ? r->own_rel
                                                        : 0x1p-52,
                      .abs = r->own_abs};
}

bool vn_escalate_asks(const vn_eval_t *e, const vn_op_t *row, int k) {
    return !(e->run && e->run->plain) && !nothing_open(e, row, &e->out[k]);
}

bool vn_escalate_any(const vn_eval_t *e, int k, int64_t begin, int64_t n) {
    const search_t s = search_of(e, &e->out[k]);
    uint8_t open[BLOCK];
    for (int64_t at = begin; at < begin + n; at += BLOCK)
        if (open_block(&s, at, begin + n - at < BLOCK ? begin + n - at : BLOCK, open)) return true;
    return false;
}

vn_status_t vn_escalate(vn_eval_t *e, const vn_op_t *row, int k, const uint8_t *marks) {
    vn_ref_t *r = &e->out[k];
    search_t s = search_of(e, r);
    s.marks = marks;
    const vn_format_t format = s.format;
    const double rel = s.rel, abs = s.abs;
    vn_refine_t q = {.k = k, .format = format};
    int64_t *found = NULL;
    VN_TRY(search(e, &s, &found, &q.n));
    if (!found) return VN_OK;
    q.at = found;
    q.out = vn_alloc((size_t)q.n, sizeof *q.out);
    vn_status_t st = q.out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)q.n);
    for (int64_t i = 0; i < q.n && q.out; ++i) q.out[i].own = INFINITY;
    if (st == VN_OK && format == VN_FMT_F64) st = planes_f64(e, k, rel, abs);
    if (st == VN_OK && (row->flags & VN_OP_REFINES)) st = ask(e, row, &q);
    for (int64_t i = 0; i < q.n && st == VN_OK; ++i) {
        const int64_t at = found[i];
        const bool again = q.out[i].own < (vn_quad_t)INFINITY, plain = !again && format != VN_FMT_F64;
        double low, high, best;
        r->escalated += again;
        if (plain) {
            ends_known(r, &s, at, &low, &high, &best);
        } else {
            const vn_exact_t x = again ? q.out[i] : known(r, at, rel, abs);
            ends(format, &x, &low, &high);
            best = vn_exact_round(format, x.value, x.rest);
            if (again) take(r, at, &x);
        }
        if (isnan(low) || isnan(high)) continue;
        if (same(low, high)) vn_tensor_set_f64(r->tensor, at, signbit(r->value[at]) && low == 0 ? -0.0 : low);
        else st = leave_open(e, k, at, low, high, best);
    }
    vn_free(q.out);
    vn_free(found);
    return st;
}

/* ---- for the rows ---- */

typedef struct each {
    const vn_refine_t *q;
    vn_refine_fn fn;
    void *ctx;
} each_t;

static void each_range(void *ctx, int64_t begin, int64_t end) {
    const each_t *j = ctx;
    for (int64_t i = begin; i < end; ++i) j->fn(j->ctx, j->q->at[i], &j->q->out[i]);
}

void vn_refine_each(vn_eval_t *e, vn_refine_fn fn, void *ctx) {
    each_t j = {.q = e->refine, .fn = fn, .ctx = ctx};
    vn_parallel(e->refine->n, 64, each_range, &j);
}

typedef struct place {
    int64_t row, k, i;
} place_t;

static int by_row(const void *a, const void *b) {
    const place_t *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->k < y->k ? -1 : x->k > y->k;
}

/* Index among the axes of one kind of the element at flat position `at`. */
static int64_t index_of(int n, const int64_t *dim, const int64_t *step, int64_t at) {
    int64_t r = 0;
    for (int d = 0; d < n; ++d) r = r * dim[d] + at / step[d] % dim[d];
    return r;
}

typedef struct grouped {
    const place_t *places;
    const int64_t *first; /* of group g: places[first[g] .. first[g+1]) */
    const int64_t *k;
    vn_exact_t **out;
    int64_t n;
    vn_refine_row_fn fn;
    void *ctx;
} grouped_t;

static void group_range(void *ctx, int64_t begin, int64_t end) {
    const grouped_t *g = ctx;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = g->first[i];
        const vn_refine_row_t row = {
            .index = g->places[at].row, .n = g->n, .count = g->first[i + 1] - at, .k = g->k + at, .out = g->out + at};
        g->fn(g->ctx, &row);
    }
}

vn_status_t vn_refine_rows(vn_eval_t *e, const vn_rows_t *s, vn_refine_row_fn fn, void *ctx) {
    const vn_refine_t *q = e->refine;
    const size_t n = (size_t)q->n;
    place_t *places = vn_alloc(n, sizeof *places);
    int64_t *first = vn_alloc(n + 1, sizeof *first), *k = vn_alloc(n, sizeof *k);
    vn_exact_t **out = vn_alloc(n, sizeof *out);
    vn_status_t st = places && first && k && out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)q->n);
    if (st == VN_OK) {
        int64_t groups = 0;
        for (int64_t i = 0; i < q->n; ++i)
            places[i] = (place_t){.row = index_of(s->n_outer, s->outer_dim, s->outer_step, q->at[i]),
                                  .k = index_of(s->n_inner, s->inner_dim, s->inner_step, q->at[i]),
                                  .i = i};
        qsort(places, n, sizeof *places, by_row);
        for (int64_t i = 0; i < q->n; ++i) {
            if (i == 0 || places[i].row != places[i - 1].row) first[groups++] = i;
            k[i] = places[i].k;
            out[i] = &q->out[places[i].i];
        }
        first[groups] = q->n;
        grouped_t g = {.places = places, .first = first, .k = k, .out = out, .n = s->n, .fn = fn, .ctx = ctx};
        vn_parallel(groups, 1, group_range, &g);
    }
    vn_free(places);
    vn_free(first);
    vn_free(k);
    vn_free(out);
    return st;
}

vn_quad_expsum_t vn_quad_expsum(const double *x, int64_t n) {
    vn_quad_expsum_t s = {.max = -INFINITY};
    int64_t top = 0;
    for (int64_t k = 0; k < n; ++k) {
        if (isnan(x[k])) s.max = NAN;
        if (x[k] > s.max) s.max = x[k], top = k;
    }
    if (!isfinite(s.max)) return s;
    vn_quad_t wrong = 0; /* of each term 8 units and the rounding of its argument */
    for (int64_t k = 0; k < n; ++k) {
        if (k == top || x[k] == -INFINITY) continue;
        const vn_quad_t d = (vn_quad_t)x[k] - s.max, w = vn_qexp(d);
        s.others += w;
        wrong += w * (8 - d);
    }
    if (s.others > 0) s.relative = (wrong / s.others + (double)n) * VN_QUAD_U;
    s.log = vn_qlog1p(s.others);
    s.log_own = s.log * (s.relative + VN_QUAD_ERROR(1));
    return s;
}
