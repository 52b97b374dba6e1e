/* op_einsum.c -- Einsum: any equation, by gathering operands into batched matrix products.
 *
 * Two operands are one batched product under CONTRACT-1: labels in both and in the result number the batch, labels of one operand that
 * stay are its matrix dimension, all summed labels together are the inner dimension.
 * Claim CONTRACT-14: with r operands each term is a product of r factors (r - 1 roundings) and the n terms are added in any association:
 * E = g(n + r - 2) T + (n + r) eta, T = sum of products of magnitudes; uncertain operands add sum prod(|x| + dx) - sum prod |x|.
 * One operand: products by 1 are exact, E = (n - 1) u T.
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/matmul.h"
#include "oracle/require.h"

enum { LETTERS = 52, LABELS = LETTERS + VN_MAX_RANK, MAX_OPERANDS = 64 };

/* An operand as seen through labels. Repeated labels have been merged (their strides add: the diagonal). */
typedef struct view {
    int n;
    int label[LABELS];
    int64_t stride[LABELS];
} view_t;

typedef struct equation {
    int operands;
    view_t in[MAX_OPERANDS];
    int n_out;
    int out[LABELS];
    int64_t dims[LABELS]; /* 0 extents are real; -1: unused */
} equation_t;

/* ---- parsing ---- */

static int letter(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1; }

/* One side of the equation: labels with -1 for the ellipsis. */
static vn_status_t parse_term(vn_eval_t *e, const char **at, int *labels, int *n) {
    *n = 0;
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        int l;
        if (**at == ' ') continue;
        if (strncmp(*at, "...", 3) == 0) {
            l = -1;
            *at += 2;
        } else if ((l = letter(**at)) < 0) {
            return vn_eval_fail(e, VN_ERR_PARSE, "equation: character '%c' is neither a letter nor an ellipsis", **at);
        }
        if (*n == LABELS) return vn_eval_fail(e, VN_ERR_RANGE, "equation: a term of more than %d labels", LABELS);
        labels[(*n)++] = l;
    }
    return VN_OK;
}

static vn_status_t bind(vn_eval_t *e, equation_t *q, int k, const int *labels, int n, int *ellipsis_rank) {
    const vn_tensor_t *t = e->in[k].t;
    int dots = 0;
    for (int i = 0; i < n; ++i) dots += labels[i] < 0;
    const int hidden = t->rank - (n - dots);
    if (dots > 1 || hidden < 0 || (dots == 0 && hidden != 0))
        return vn_eval_fail(e, VN_ERR_SHAPE, "equation: term %d has %d labels for a tensor of rank %d", k, n - dots, t->rank);
    if (dots && hidden > *ellipsis_rank) *ellipsis_rank = hidden;
    int64_t stride[VN_MAX_RANK], s = 1;
    for (int d = t->rank - 1; d >= 0; --d) {
        stride[d] = s;
        s *= t->dims[d] > 0 ? t->dims[d] : 1;
    }
    view_t *v = &q->in[k];
    for (int i = 0, d = 0; i < n; ++i) {
        const int span = labels[i] < 0 ? hidden : 1;
        for (int x = 0; x < span; ++x, ++d) {
            /* ellipsis dimensions are numbered from the last, so that different ranks broadcast */
            const int l = labels[i] < 0 ? LABELS - (hidden - x) : labels[i];
            int at = 0;
            while (at < v->n && v->label[at] != l) ++at;
            if (at == v->n) {
                v->label[v->n++] = l;
                v->stride[at] = 0;
            }
            const int64_t extent = t->dims[d];
            if (q->dims[l] < 0 || q->dims[l] == 1) q->dims[l] = extent;
            else if (extent != 1 && extent != q->dims[l])
                return vn_eval_fail(e, VN_ERR_SHAPE, "equation: one label means %lld and %lld", (long long)q->dims[l], (long long)extent);
            if (extent != 1) v->stride[at] += stride[d];
        }
    }
    return VN_OK;
}

static vn_status_t parse(vn_eval_t *e, equation_t *q) {
    const char *text = vn_node_string(e->node, "equation", ""), *at = text;
    memset(q, 0, sizeof *q);
    for (int l = 0; l < LABELS; ++l) q->dims[l] = -1;
    VN_TRY(vn_require(e, e->n_in > 0 ? e->n_in : 1));
    if (e->n_in > MAX_OPERANDS) return vn_eval_fail(e, VN_ERR_RANGE, "more than %d operands", MAX_OPERANDS);
    int count[LETTERS] = {0}, dots = 0;
    bool any_dots = false;
    for (;;) {
        int labels[LABELS], n;
        VN_TRY(parse_term(e, &at, labels, &n));
        if (q->operands >= e->n_in || !vn_has(e, q->operands))
            return vn_eval_fail(e, VN_ERR_SHAPE, "equation: more terms than the %d operands", e->n_in);
        VN_TRY(bind(e, q, q->operands, labels, n, &dots));
        for (int i = 0; i < n; ++i) {
            if (labels[i] >= 0) count[labels[i]]++;
            else any_dots = true;
        }
        q->operands++;
        if (*at != ',') break;
        ++at;
    }
    if (q->operands != e->n_in) return vn_eval_fail(e, VN_ERR_SHAPE, "equation: %d terms for %d operands", q->operands, e->n_in);
    if (*at == '-') {
        if (at[1] != '>') return vn_eval_fail(e, VN_ERR_PARSE, "equation: '-' without '>'");
        at += 2;
        int labels[LABELS], n;
        VN_TRY(parse_term(e, &at, labels, &n));
        if (*at) return vn_eval_fail(e, VN_ERR_PARSE, "equation: text after the result term");
        for (int i = 0; i < n; ++i) {
            if (labels[i] >= 0 && q->dims[labels[i]] < 0)
                return vn_eval_fail(e, VN_ERR_PARSE, "equation: a result label that no operand has");
            for (int d = 0; labels[i] < 0 && d < dots; ++d) q->out[q->n_out++] = LABELS - dots + d;
            if (labels[i] < 0) continue;
            for (int x = 0; x < q->n_out; ++x)
                if (q->out[x] == labels[i]) return vn_eval_fail(e, VN_ERR_PARSE, "equation: a label twice in the result");
            q->out[q->n_out++] = labels[i];
        }
    } else {
        for (int d = 0; any_dots && d < dots; ++d) q->out[q->n_out++] = LABELS - dots + d;
        for (int l = 0; l < LETTERS; ++l)
            if (count[l] == 1) q->out[q->n_out++] = l;
    }
    if (q->n_out > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "result of rank %d", q->n_out);
    return VN_OK;
}

static void out_dims(const equation_t *q, int64_t *dims) {
    for (int i = 0; i < q->n_out; ++i) dims[i] = q->dims[q->out[i]];
}

vn_status_t vn_infer_einsum(vn_eval_t *e) {
    equation_t *q = vn_alloc(1, sizeof *q);
    if (!q) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const vn_status_t s = parse(e, q);
    if (s == VN_OK) {
        e->out[0].dtype = e->in[0].t->dtype;
        e->out[0].rank = q->n_out;
        out_dims(q, e->out[0].dims);
    }
    vn_free(q);
    return s;
}

/* ---- gathering: any view into row-major order of a list of labels; elements of 8 bytes ---- */

static int find(const view_t *v, int label) {
    for (int i = 0; i < v->n; ++i)
        if (v->label[i] == label) return i;
    return -1;
}

static bool volume(const equation_t *q, const int *labels, int n, int64_t *out) {
    *out = 1;
    for (int i = 0; i < n; ++i)
        if (!vn_i64_mul(*out, q->dims[labels[i]], out)) return false;
    return *out <= INT64_MAX / 16;
}

static void gather(const equation_t *q, const void *from, const view_t *v, const int *order, int n, void *to) {
    const uint64_t *src = from;
    uint64_t *dst = to;
    int64_t total, at[LABELS] = {0}, step[LABELS], offset = 0;
    if (!volume(q, order, n, &total)) return;
    for (int i = 0; i < n; ++i) {
        const int f = find(v, order[i]);
        step[i] = f < 0 ? 0 : v->stride[f];
    }
    for (int64_t x = 0; x < total; ++x) {
        dst[x] = src[offset];
        for (int d = n - 1; d >= 0; --d) {
            offset += step[d];
            if (++at[d] < q->dims[order[d]]) break;
            offset -= step[d] * q->dims[order[d]];
            at[d] = 0;
        }
    }
}

/* Labels of a pair, in the order [batch, rows] x [cols] with the summed ones inside. */
typedef struct pair {
    int batch[LABELS], rows[LABELS], cols[LABELS], sum[LABELS], result[LABELS];
    int n_batch, n_rows, n_cols, n_sum, n_result;
    int64_t batches, m, n, k;
} pair_t;

static vn_status_t plan_pair(vn_eval_t *e, const equation_t *q, const view_t *a, const view_t *b, const bool *keep, pair_t *p) {
    *p = (pair_t){0};
    for (int i = 0; i < a->n; ++i) {
        const int l = a->label[i];
        if (!keep[l]) p->sum[p->n_sum++] = l;
        else if (find(b, l) >= 0) p->batch[p->n_batch++] = l;
        else p->rows[p->n_rows++] = l;
    }
    for (int i = 0; i < b->n; ++i) {
        const int l = b->label[i];
        if (find(a, l) >= 0) continue;
        if (keep[l]) p->cols[p->n_cols++] = l;
        else p->sum[p->n_sum++] = l;
    }
    const int *parts[] = {p->batch, p->rows, p->cols};
    const int counts[] = {p->n_batch, p->n_rows, p->n_cols};
    for (int x = 0; x < 3; ++x)
        for (int i = 0; i < counts[x]; ++i) p->result[p->n_result++] = parts[x][i];
    int64_t bm, bk, size;
    if (!volume(q, p->batch, p->n_batch, &p->batches) || !volume(q, p->rows, p->n_rows, &p->m) || !volume(q, p->cols, p->n_cols, &p->n) ||
        !volume(q, p->sum, p->n_sum, &p->k) || !vn_i64_mul(p->batches, p->m, &bm) || !vn_i64_mul(bm, p->k, &size) ||
        size > INT64_MAX / 16 || !vn_i64_mul(p->batches, p->k, &bk) || !vn_i64_mul(bk, p->n, &size) || size > INT64_MAX / 16 ||
        !vn_i64_mul(bm, p->n, &size) || size > INT64_MAX / 16)
        return vn_eval_fail(e, VN_ERR_RANGE, "the equation's sizes overflow");
    return VN_OK;
}

static void *packed(const equation_t *q, const void *from, const view_t *v, const int *x, int nx, const int *y, int ny, const int *z,
                    int nz, int64_t count) {
    int order[3 * LABELS], n = 0;
    for (int i = 0; i < nx; ++i) order[n++] = x[i];
    for (int i = 0; i < ny; ++i) order[n++] = y[i];
    for (int i = 0; i < nz; ++i) order[n++] = z[i];
    void *out = vn_alloc((size_t)(count ? count : 1), 8);
    if (out && count) gather(q, from, v, order, n, out);
    return out;
}

static void *pack_left(const equation_t *q, const pair_t *p, const void *x, const view_t *v) {
    return packed(q, x, v, p->batch, p->n_batch, p->rows, p->n_rows, p->sum, p->n_sum, p->batches * p->m * p->k);
}
static void *pack_right(const equation_t *q, const pair_t *p, const void *x, const view_t *v) {
    return packed(q, x, v, p->batch, p->n_batch, p->sum, p->n_sum, p->cols, p->n_cols, p->batches * p->k * p->n);
}

static view_t contiguous(const equation_t *q, const int *labels, int n) {
    view_t v = {.n = n};
    int64_t s = 1;
    for (int i = n - 1; i >= 0; --i) {
        v.label[i] = labels[i];
        v.stride[i] = s;
        s *= q->dims[labels[i]] > 0 ? q->dims[labels[i]] : 1;
    }
    return v;
}

static bool batch_offsets(const pair_t *p, int64_t **a, int64_t **b, vn_batch_t *g) {
    const size_t n = (size_t)(p->batches ? p->batches : 1);
    *a = vn_alloc(n, sizeof **a);
    *b = vn_alloc(n, sizeof **b);
    if (!*a || !*b) return false;
    for (int64_t i = 0; i < p->batches; ++i) {
        (*a)[i] = i * p->m * p->k;
        (*b)[i] = i * p->k * p->n;
    }
    *g = (vn_batch_t){.count = p->batches, .m = p->m, .n = p->n, .k = p->k, .a_off = *a, .b_off = *b, .lda = p->k, .ldb = p->n};
    return true;
}

/* ---- one or two operands: the product engine ---- */

/* Moves every plane of `from` (shape of p->result) into output 0, whose labels stand in another order. */
static vn_status_t reorder(vn_eval_t *e, const equation_t *q, const pair_t *p, vn_ref_t *from) {
    vn_ref_t *to = &e->out[0];
    const view_t v = contiguous(q, p->result, p->n_result);
    double **src[] = {&from->value, &from->lo, &from->bound, &from->var, &from->own},
           **dst[] = {&to->value, &to->lo, &to->bound, &to->var, &to->own};
    if (from->lo) VN_TRY(vn_out_lo(e, 0));
    if (from->own) VN_TRY(vn_out_own(e, 0));
    for (int i = 0; i < 5; ++i)
        if (*src[i] && *dst[i] && to->count) gather(q, *src[i], &v, q->out, q->n_out, *dst[i]);
    if (from->flags) {
        VN_TRY(vn_out_flags(e, 0));
        int64_t *index = vn_alloc((size_t)(to->count ? to->count : 1), sizeof *index),
                *order = vn_alloc((size_t)(to->count ? to->count : 1), sizeof *order);
        if (!index || !order) {
            vn_free(index);
            vn_free(order);
            return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        }
        for (int64_t i = 0; i < to->count; ++i) index[i] = i;
        if (to->count) gather(q, index, &v, q->out, q->n_out, order);
        for (int64_t i = 0; i < to->count; ++i) to->flags[i] = from->flags[order[i]];
        vn_free(index);
        vn_free(order);
    }
    to->terms = from->terms;
    return VN_OK;
}

static vn_status_t factor_of(vn_eval_t *e, const equation_t *q, const pair_t *p, int k, bool left, vn_factor_t *out) {
    vn_factor_t f = {0};
    vn_status_t s = vn_factor_input(e, k, k, &f);
    void *(*pack)(const equation_t *, const pair_t *, const void *, const view_t *) = left ? pack_left : pack_right;
    const int64_t n = p->batches * p->k * (left ? p->m : p->n);
    double *x = NULL, *err = NULL;
    if (s == VN_OK) {
        x = pack(q, p, f.x, &q->in[k]);
        err = f.err ? pack(q, p, f.err, &q->in[k]) : NULL;
        if (!x || (f.err && !err)) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory to gather operand %d", k);
    }
    vn_factor_plane(x, err, NULL, n, f.format, out);
    out->owned_x = x;
    out->owned_err = err;
    vn_factor_free(&f);
    return s;
}

static vn_status_t eval_pair(vn_eval_t *e, const equation_t *q, const bool *keep) {
    static const double one = 1;
    const view_t scalar = {0};
    pair_t p;
    VN_TRY(plan_pair(e, q, &q->in[0], q->operands > 1 ? &q->in[1] : &scalar, keep, &p));
    vn_ref_t temporary = {0};
    vn_eval_t sub = *e;
    sub.out = &temporary;
    sub.n_out = 1;
    const int64_t shape[3] = {p.batches, p.m, p.n};
    vn_factor_t a = {0}, b = {0};
    int64_t *ao = NULL, *bo = NULL;
    vn_batch_t g;
    vn_status_t s = vn_out_float(&sub, 0, e->in[0].t->dtype, 3, shape);
    if (s == VN_OK) s = factor_of(e, q, &p, 0, true, &a);
    if (s == VN_OK && q->operands > 1) s = factor_of(e, q, &p, 1, false, &b);
    if (s == VN_OK && q->operands == 1) {
        b.owned_x = pack_right(q, &p, &one, &scalar); /* ones */
        if (!b.owned_x) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        double *ones = b.owned_x;
        vn_factor_plane(ones, NULL, NULL, p.batches * p.k * p.n, VN_FMT_F4E2M1, &b);
        b.owned_x = ones;
    }
    if (s == VN_OK && !batch_offsets(&p, &ao, &bo, &g)) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) {
        vn_product_t product;
        s = vn_product_begin(&product, &sub, &a, &b, p.k, 1, 1, NULL);
        if (q->operands == 1) {
            product.exact_products = !product.uncertain; /* by one */
            product.no_underflow = !e->contract->ftz;    /* additions underflow exactly */
        }
        if (s == VN_OK) s = vn_product_batch(&product, &g);
        vn_product_end(&product);
    }
    if (s == VN_OK) s = reorder(e, q, &p, &temporary);
    vn_factor_free(&a);
    vn_factor_free(&b);
    vn_free(ao);
    vn_free(bo);
    vn_ref_free(&temporary);
    return s;
}

/* ---- three operands and more: contracted from the left, planes of values, magnitudes and squares side by side ---- */

enum { X, MAG, ABS, SQ, PLANES }; /* ABS: |x| without the uncertainty */

typedef struct chain {
    view_t v;
    double *plane[PLANES];
} chain_t;

static void chain_free(chain_t *c) {
    for (int i = 0; i < PLANES; ++i) vn_free(c->plane[i]);
    *c = (chain_t){0};
}

static vn_status_t chain_input(vn_eval_t *e, const equation_t *q, int k, chain_t *c) {
    vn_factor_t f = {0};
    vn_status_t s = vn_factor_input(e, k, k, &f);
    *c = (chain_t){.v = q->in[k]};
    for (int i = 0; s == VN_OK && i < PLANES; ++i) {
        c->plane[i] = vn_alloc((size_t)(f.count ? f.count : 1), sizeof(double));
        if (!c->plane[i]) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    for (int64_t i = 0; s == VN_OK && i < f.count; ++i) {
        const double x = f.x[i], m = fabs(x);
        c->plane[X][i] = x;
        c->plane[MAG][i] = f.err ? (m + f.err[i]) * (1 + 0x1p-52) : m;
        c->plane[ABS][i] = m;
        c->plane[SQ][i] = x * x;
    }
    vn_factor_free(&f);
    return s;
}

static vn_status_t chain_step(vn_eval_t *e, const equation_t *q, chain_t *a, const chain_t *b, const bool *keep, double *own_terms) {
    pair_t p;
    VN_TRY(plan_pair(e, q, &a->v, &b->v, keep, &p));
    const int64_t count = p.batches * p.m * p.n;
    vn_status_t s = VN_OK;
    for (int i = 0; i < PLANES && s == VN_OK; ++i) {
        double *x = pack_left(q, &p, a->plane[i], &a->v), *y = pack_right(q, &p, b->plane[i], &b->v);
        double *c = vn_alloc((size_t)(count ? count : 1), sizeof *c);
        if (x && y && c) {
            for (int64_t z = 0; z < p.batches; ++z)
                vn_dgemm(p.m, p.n, p.k, x + z * p.m * p.k, p.k, false, y + z * p.k * p.n, p.n, false, c + z * p.m * p.n, p.n, false);
            vn_free(a->plane[i]);
            a->plane[i] = c;
        } else {
            s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a partial result of %lld elements", (long long)count);
            vn_free(c);
        }
        vn_free(x);
        vn_free(y);
    }
    *own_terms += (double)p.k + 2;
    a->v = contiguous(q, p.result, p.n_result);
    return s;
}

static vn_status_t eval_chain(vn_eval_t *e, const equation_t *q) {
    chain_t a = {0}, b = {0};
    double own_terms = 2;
    vn_status_t s = chain_input(e, q, 0, &a);
    for (int k = 1; k < q->operands && s == VN_OK; ++k) {
        bool keep[LABELS] = {0};
        for (int i = 0; i < q->n_out; ++i) keep[q->out[i]] = true;
        for (int later = k + 1; later < q->operands; ++later)
            for (int i = 0; i < q->in[later].n; ++i) keep[q->in[later].label[i]] = true;
        s = chain_input(e, q, k, &b);
        if (s == VN_OK) s = chain_step(e, q, &a, &b, keep, &own_terms);
        chain_free(&b);
    }
    if (s == VN_OK && e->want >= VN_WANT_BOUND) s = vn_out_own(e, 0);
    if (s == VN_OK) {
        double n = 1;
        for (int l = 0; l < LABELS; ++l) {
            bool kept = q->dims[l] < 0;
            for (int i = 0; i < q->n_out; ++i) kept = kept || q->out[i] == l;
            if (!kept) n *= (double)q->dims[l];
        }
        vn_ref_t *r = &e->out[0];
        const double u = vn_u(e), eta = e->contract->ftz ? vn_tau(e) : vn_eta(e), roundings = n + q->operands - 2;
        bool uncertain = false;
        for (int k = 0; k < q->operands; ++k) uncertain = uncertain || vn_arg_err(e, k);
        double *plane[PLANES] = {0};
        for (int i = 0; i < PLANES && s == VN_OK; ++i)
            if (!(plane[i] = packed(q, a.plane[i], &a.v, q->out, q->n_out, NULL, 0, NULL, 0, r->count)))
                s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        for (int64_t i = 0; s == VN_OK && i < r->count; ++i) {
            const double t = plane[MAG][i] * (1 + (own_terms + 4) * 0x1p-52), y = plane[X][i];
            r->value[i] = y;
            if (!r->bound) continue;
            const double moved = uncertain ? t - plane[ABS][i] * (1 - (own_terms + 4) * 0x1p-52) : 0;
            const double b_i = t == 0 ? 0 : vn_gamma(roundings, u) * t * (1 + 0x1p-50) + (n + q->operands) * eta + moved;
            r->bound[i] = isfinite(y) ? (isnan(b_i) ? INFINITY : b_i) : 0;
            r->own[i] = own_terms * 0x1p-53 * t;
            if (r->var)
                r->var[i] =
                    t == 0 ? 0
                           : 0.18 * u * u *
                                 ((n + 1) / 2 * plane[SQ][i] + (n + 1) / 3 * fmax(y * y - plane[SQ][i], 0) + q->operands * plane[SQ][i]);
        }
        r->terms = (int64_t)(n < 0x1p62 ? n : 0x1p62);
        for (int i = 0; i < PLANES; ++i) vn_free(plane[i]);
    }
    chain_free(&a);
    return s;
}

/* ---- integers: exact modulo 2^64, so the order of contraction is free ---- */

static vn_status_t eval_integers(vn_eval_t *e, const equation_t *q) {
    const view_t scalar = {0};
    static const int64_t one = 1;
    view_t av = q->in[0];
    int64_t *a = vn_alloc((size_t)(e->in[0].t->count ? e->in[0].t->count : 1), sizeof *a);
    vn_status_t s = a ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (a) vn_tensor_to_i64(e->in[0].t, a);
    for (int k = 1; k < (q->operands > 1 ? q->operands : 2) && s == VN_OK; ++k) {
        bool keep[LABELS] = {0};
        for (int i = 0; i < q->n_out; ++i) keep[q->out[i]] = true;
        for (int later = k + 1; later < q->operands; ++later)
            for (int i = 0; i < q->in[later].n; ++i) keep[q->in[later].label[i]] = true;
        const bool real = k < q->operands;
        const view_t *bv = real ? &q->in[k] : &scalar;
        int64_t *b = real ? vn_alloc((size_t)(e->in[k].t->count ? e->in[k].t->count : 1), sizeof *b) : NULL;
        if (b) vn_tensor_to_i64(e->in[k].t, b);
        pair_t p;
        s = real && !b ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory") : plan_pair(e, q, &av, bv, keep, &p);
        if (s == VN_OK) {
            const int64_t count = p.batches * p.m * p.n;
            int64_t *x = pack_left(q, &p, a, &av), *y = pack_right(q, &p, real ? b : &one, bv),
                    *c = vn_alloc((size_t)(count ? count : 1), sizeof *c);
            int64_t *ao = NULL, *bo = NULL;
            vn_batch_t g;
            if (x && y && c && batch_offsets(&p, &ao, &bo, &g)) {
                vn_integer_batch(&g, x, y, c);
                vn_free(a);
                a = c;
                c = NULL;
                av = contiguous(q, p.result, p.n_result);
            } else {
                s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
            }
            vn_free(x);
            vn_free(y);
            vn_free(c);
            vn_free(ao);
            vn_free(bo);
        }
        vn_free(b);
    }
    int64_t dims[VN_MAX_RANK];
    out_dims(q, dims);
    if (s == VN_OK) s = vn_out_exact(e, 0, e->in[0].t->dtype, q->n_out, dims);
    if (s == VN_OK) {
        int64_t *c = packed(q, a, &av, q->out, q->n_out, NULL, 0, NULL, 0, e->out[0].count);
        if (!c) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        for (int64_t i = 0; c && i < e->out[0].count; ++i) vn_tensor_set_i64(e->out[0].tensor, i, c[i]);
        vn_free(c);
    }
    vn_free(a);
    return s;
}

/* ---- single elements again, in 113 bits (claim PREC-3) ---- */

typedef struct again {
    const equation_t *q;
    const double *x[MAX_OPERANDS];
    int n_summed, summed[LABELS];
} again_t;

/* The sum over all summed labels of the products of the operands. Two factors are exact in 113 bits, the last one is added
 * without loss, those between round once each. */
static void cell(void *ctx, int64_t element, vn_exact_t *out) {
    const again_t *j = ctx;
    const equation_t *q = j->q;
    int64_t coordinate[LABELS] = {0};
    for (int i = q->n_out - 1; i >= 0; --i) {
        coordinate[q->out[i]] = element % q->dims[q->out[i]];
        element /= q->dims[q->out[i]];
    }
    vn_quad_sum_t sum = {0};
    vn_quad_t rounded = 0;
    for (;;) {
        vn_quad_t term = 1;
        const int last = q->operands - 1;
        double factor = 1;
        for (int k = 0; k < q->operands; ++k) {
            int64_t offset = 0;
            for (int i = 0; i < q->in[k].n; ++i) offset += coordinate[q->in[k].label[i]] * q->in[k].stride[i];
            if (k < last) term *= j->x[k][offset];
            else factor = j->x[k][offset];
        }
        if (last > 2) rounded += vn_qabs(term * factor) * ((last - 2) * (2 * VN_QUAD_U));
        vn_quad_add_product(&sum, term, factor);
        int level = 0;
        while (level < j->n_summed && ++coordinate[j->summed[level]] == q->dims[j->summed[level]]) coordinate[j->summed[level++]] = 0;
        if (level == j->n_summed) break;
    }
    sum.lost += rounded;
    *out = vn_exact_sum(&sum);
}

static vn_status_t refine(vn_eval_t *e, const equation_t *q) {
    vn_factor_t factor[MAX_OPERANDS] = {0};
    again_t j = {.q = q};
    bool empty = false;
    vn_status_t s = VN_OK;
    for (int l = 0; l < LABELS; ++l) {
        bool kept = q->dims[l] < 0;
        for (int i = 0; i < q->n_out; ++i) kept = kept || q->out[i] == l;
        if (!kept) j.summed[j.n_summed++] = l;
        empty = empty || (!kept && q->dims[l] == 0);
    }
    for (int k = 0; k < q->operands && s == VN_OK; ++k) {
        s = vn_factor_input(e, k, k, &factor[k]);
        j.x[k] = factor[k].x;
    }
    if (s == VN_OK && !empty) vn_refine_each(e, cell, &j); /* sums of nothing are 0 and never asked for */
    for (int k = 0; k < q->operands; ++k) vn_factor_free(&factor[k]);
    return s;
}

vn_status_t vn_eval_einsum(vn_eval_t *e) {
    equation_t *q = vn_alloc(1, sizeof *q);
    if (!q) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_status_t s = parse(e, q);
    const vn_dtype_t t = s == VN_OK ? e->in[0].t->dtype : VN_UNDEFINED;
    for (int k = 1; s == VN_OK && k < q->operands; ++k)
        if (e->in[k].t->dtype != t)
            s = vn_eval_fail(e, VN_ERR_DTYPE, "operands are %s and %s", vn_dtype_name(t), vn_dtype_name(e->in[k].t->dtype));
    if (s == VN_OK && !vn_dtype_is_float(t) && !vn_dtype_is_int(t)) s = vn_eval_fail(e, VN_ERR_DTYPE, "no sums of %s", vn_dtype_name(t));
    if (s == VN_OK && !vn_dtype_is_float(t)) {
        s = eval_integers(e, q);
    } else if (s == VN_OK) {
        int64_t dims[VN_MAX_RANK];
        bool keep[LABELS] = {0};
        out_dims(q, dims);
        for (int i = 0; i < q->n_out; ++i) keep[q->out[i]] = true;
        s = vn_out_float(e, 0, t, q->n_out, dims);
        if (s == VN_OK && e->refine) s = refine(e, q);
        else if (s == VN_OK) s = q->operands <= 2 ? eval_pair(e, q, keep) : eval_chain(e, q);
    }
    vn_free(q);
    return s;
}
