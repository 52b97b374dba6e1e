/* verify.c -- the proof: every element of a product replayed on several distributions, and what to try next where bits differ. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "schedule/draft.h"
#include "schedule/reveal.h"

enum { NORMAL, SPREAD, TINY, DISTRIBUTIONS };

/* The sum of three uniform numbers of 21 bits times a number that is no power of two, deviation 0.87: as good as N(0,1) for telling orders apart. */
static double near_normal(vn_rng_t *g) {
    const uint64_t x = vn_rng_u64(g), part = (1 << 21) - 1;
    const int64_t sum = (int64_t)(x >> 43) + (int64_t)(x >> 22 & part) + (int64_t)(x >> 1 & part);
    return ((double)sum - 1.5 * (double)part) * 0x1.bb67ae8584caap-21;
}

/* Near normal; the same times 2^-12..2^12 (f16: 2^-4..2^4); near underflow of the products. scale: [25], 2^-spread..2^spread. */
static double draw(vn_gemm_t *p, int distribution, uint32_t spread, const double *scale) {
    vn_rng_t *g = &p->r->rng;
    const vn_dtype_t t = p->r->op->dtype;
    double x = near_normal(g);
    if (distribution == SPREAD) x *= scale[(vn_rng_u64(g) >> 32) * (2 * spread + 1) >> 32];
    if (distribution == TINY) x *= t == VN_F16 ? 0x1p-10 : vn_rng_u64(g) >> 62 ? 0x1p-63 : 0x1p-62;
    return t == VN_F32 ? (double)(float)x : vn_round_to(vn_format_of(t), x, VN_RNE, false);
}

/* rows: of a, the others are 0. */
static vn_status_t random_run(vn_gemm_t *p, int distribution, int32_t rows, vn_error_t *err) {
    const uint32_t spread = p->r->op->dtype == VN_F16 ? 4 : 12;
    double scale[25];
    for (uint32_t k = 0; k <= 2 * spread; ++k) scale[k] = ldexp(1, (int)k - (int)spread);
    for (int64_t e = 0; e < (int64_t)rows * p->k; ++e) vn_gemm_put_a(p, e, draw(p, distribution, spread, scale));
    for (int64_t e = (int64_t)rows * p->k; e < (int64_t)p->m * p->k; ++e) vn_gemm_put_a(p, e, 0);
    for (int64_t e = 0; e < (int64_t)p->k * p->n; ++e) vn_gemm_put_b(p, e, draw(p, distribution, spread, scale));
    vn_gemm_settle(p, distribution == SPREAD);
    const float size = distribution == TINY ? 0x1p-62f : 1; /* of the size of the products */
    for (int64_t e = 0; p->c && e < (int64_t)p->m * p->n; ++e)
        p->c[e] = p->r->op->addend_rows <= 1 && e >= p->n ? p->c[e % p->n] : (float)draw(p, distribution, spread, scale) * size;
    return vn_gemm_run(p, err);
}

static bool same(double a, double b) { return a == b ? !signbit(a) == !signbit(b) : isnan(a) && isnan(b); }

/* ---- f64: a row at a time ---- */

typedef struct wide {
    const vn_gemm_t *p;
    const vn_replay_t *r;
    const double *b;
    double *out;
    atomic_int status;
} wide_t;

static void wide_rows(void *context, int64_t begin, int64_t end) {
    wide_t *w = context;
    const int64_t k = w->p->k, n = w->p->n;
    double *a = vn_alloc((size_t)k * (size_t)n, sizeof *a);
    vn_status_t st = a ? VN_OK : VN_ERR_NOMEM;
    for (int64_t row = begin; row < end && st == VN_OK; ++row) {
        for (int64_t t = 0; t < k; ++t) {
            const double x = (double)w->p->a[row * k + t] + w->p->low_a[row * k + t];
            for (int64_t c = 0; c < n; ++c) a[t * n + c] = x;
        }
        st = vn_replay_terms_f64(w->r, n, a, w->b, n, 1, w->out + row * n, NULL);
    }
    vn_free(a);
    if (st != VN_OK) atomic_store(&w->status, (int)st);
}

static vn_status_t replay_f64(const vn_gemm_t *p, const vn_replay_t *r, int32_t rows, double *out, vn_error_t *err) {
    const int64_t count = (int64_t)p->k * p->n;
    double *b = vn_alloc((size_t)count, sizeof *b);
    if (!b) return vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    for (int64_t e = 0; e < count; ++e) b[e] = (double)p->b[e] + p->low_b[e];
    wide_t w = {.p = p, .r = r, .b = b, .out = out};
    vn_parallel(rows, 4, wide_rows, &w);
    vn_free(b);
    const int st = atomic_load(&w.status);
    return st == VN_OK ? VN_OK : vn_fail(err, (vn_status_t)st, "replay in f64 failed: %s", vn_status_name((vn_status_t)st));
}

/* ---- f32 and narrower ---- */

typedef struct attempt {
    vn_tree_t **tree; /* by class */
    const vn_arithmetic_t *a;
    uint8_t *differs;     /* [m*n] or NULL */
    int32_t rows;         /* of the first so many rows */
    int64_t equal, zeros; /* zeros: those that differ in the sign of a zero only */
} attempt_t;

static vn_status_t one_class(vn_gemm_t *p, const vn_replay_t *r, const vn_arithmetic_t *a, int32_t rows, double *out, float *narrow,
                             vn_error_t *err) {
    const int64_t count = (int64_t)rows * p->n;
    if (a->accumulator == VN_FMT_F64 && p->low_a) {
        if (p->c) return vn_fail(err, VN_ERR_UNSUPPORTED, "replay: f64 sums with an addend");
        return replay_f64(p, r, rows, out, err);
    }
    const vn_plane_t pa = {p->a, p->k, 1}, pb = {p->b, p->n, 1}, pc = {p->c, p->n, 1};
    VN_TRY(vn_replay_product(r, rows, p->n, pa, pb, pc, narrow, p->n, err));
    for (int64_t e = 0; e < count; ++e) out[e] = narrow[e];
    return VN_OK;
}

/* Elements that equal their replay on the data of the last run. */
static vn_status_t compare(vn_gemm_t *p, const vn_classes_t *classes, attempt_t *q, vn_error_t *err) {
    const int64_t count = (int64_t)q->rows * p->n;
    double *out = vn_alloc((size_t)count, sizeof *out);
    float *narrow = vn_alloc((size_t)count, sizeof *narrow);
    vn_status_t st = out && narrow ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    q->equal = q->zeros = 0;
    for (int c = 0; c < classes->count && st == VN_OK; ++c) {
        vn_replay_t *r = NULL;
        if (!q->tree[c]) continue;
        st = vn_replay_compile(q->tree[c], q->a, &r, err);
        if (st == VN_OK) st = one_class(p, r, q->a, q->rows, out, narrow, err);
        for (int64_t e = 0; st == VN_OK && e < count; ++e) {
            if (classes->of[e] != c) continue;
            if (same(p->out[e], out[e])) {
                ++q->equal;
                continue;
            }
            q->zeros += p->out[e] == 0 && out[e] == 0;
            if (q->differs) q->differs[e] = 1;
        }
        vn_replay_free(r);
    }
    vn_free(out);
    vn_free(narrow);
    return st;
}

/* ---- what the probes may have missed ---- */

/* Variants of the arithmetic, in the order in which they were met on back ends. False: no such variant of this one. */
static bool variant(const vn_arithmetic_t *a, int k, const vn_gemm_t *p, vn_arithmetic_t *out) {
    *out = *a;
    switch (k) {
    case 0: out->zero_start = !a->zero_start; return true;
    case 1: out->ftz = out->daz = true; return !(a->ftz && a->daz);
    case 2: out->ftz = out->daz = false; return a->ftz || a->daz;
    case 3: out->daz = !a->daz; return true;
    case 4: out->ftz = !a->ftz; return true;
    case 5: out->fma = !a->fma; return true;
    default: break;
    }
    /* the sum narrowed before the addend comes; the addend and what is written narrowed or not */
    const int form = k - 6;
    out->initial = form & 1 ? VN_FMT_BF16 : VN_FMT_NONE;
    out->store = form & 2 ? VN_FMT_BF16 : VN_FMT_NONE;
    if (form & 4) {
        out->narrow_every = p->k;
        out->narrow_format = VN_FMT_BF16;
    }
    return p->c != NULL && p->r->op->dtype == VN_F32;
}
enum { VARIANTS = 14 };

/* Pairs of leaves the other way round in every tree. */
static vn_status_t turned(const vn_classes_t *classes, const vn_schedule_t *s, vn_tree_t **out, vn_error_t *err) {
    for (int c = 0; c < classes->count; ++c)
        if (s->classes[c].tree) VN_TRY(vn_tree_turn_pairs(s->classes[c].tree, &out[c], err));
    return VN_OK;
}

/* Keeps the variant that gives the most equal elements on the last run's data. best: how many. */
static vn_status_t improve(vn_gemm_t *p, const vn_classes_t *classes, vn_tree_t **tree, int32_t rows, int64_t *best, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    const int64_t count = (int64_t)rows * p->n;
    vn_tree_t *other[64] = {0};
    vn_status_t st = VN_OK;
    for (int k = 0; k < VARIANTS && *best < count && st == VN_OK; ++k) {
        vn_arithmetic_t a;
        attempt_t q = {.tree = tree, .a = &a, .rows = rows};
        if (!variant(&s->arithmetic, k, p, &a)) continue;
        st = compare(p, classes, &q, err);
        if (st == VN_ERR_UNSUPPORTED) st = VN_OK; /* no program, no variant */
        else if (st == VN_OK && q.equal > *best) {
            *best = q.equal;
            s->arithmetic = a;
        }
    }
    if (st != VN_OK || *best == count) return st;
    attempt_t q = {.tree = other, .a = &s->arithmetic, .rows = rows};
    st = turned(classes, s, other, err);
    if (st == VN_OK) st = compare(p, classes, &q, err);
    const bool better = st == VN_OK && q.equal > *best;
    if (better) *best = q.equal;
    for (int c = 0; c < classes->count; ++c) {
        if (better && other[c]) {
            vn_tree_free(s->classes[c].tree);
            s->classes[c].tree = tree[c] = other[c];
        } else {
            vn_tree_free(other[c]);
        }
    }
    return st;
}

/* Subnormal arithmetic takes a hundred times as long, and how it is done is no matter of the single element: near underflow, large products are
 * judged by their first rows. */
enum { ALL_PRODUCTS = 1 << 25, SLOW_PRODUCTS = 1 << 23 };
static int32_t rows_of(const vn_gemm_t *p, int distribution) {
    const int64_t row = (int64_t)p->k * p->n;
    if (distribution != TINY || row * p->m <= ALL_PRODUCTS) return p->m;
    return row >= SLOW_PRODUCTS ? 1 : (int32_t)(SLOW_PRODUCTS / row);
}

/* The reason, on the data of the last run. differs NULL: subnormals are a matter of arithmetic, not of order. */
static vn_status_t say_differences(vn_gemm_t *p, const vn_classes_t *classes, vn_tree_t **tree, int32_t rows, uint8_t *differs,
                                   int distribution, int64_t odd, vn_error_t *err) {
    static const char *const names[DISTRIBUTIONS] = {"normal data", "spread exponents", "data near underflow"};
    vn_schedule_t *s = p->r->s;
    const int64_t count = (int64_t)rows * p->n;
    attempt_t last = {.tree = tree, .a = &s->arithmetic, .rows = rows, .differs = differs};
    VN_TRY(compare(p, classes, &last, err));
    vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld elements differ from the replay%s", names[distribution], (long long)odd,
                  (long long)count, last.zeros == count - last.equal ? ", all in the sign of a zero" : "");
    return VN_OK;
}

/* What was changed for small data must still hold on normal data: elements that do not are taken off what was replayed. */
static vn_status_t prove_again(vn_gemm_t *p, const vn_classes_t *classes, vn_tree_t **tree, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    const int64_t count = (int64_t)p->m * p->n;
    attempt_t q = {.tree = tree, .a = &s->arithmetic, .rows = p->m};
    VN_TRY(random_run(p, NORMAL, p->m, err));
    VN_TRY(compare(p, classes, &q, err));
    if (q.equal == count) return VN_OK;
    s->replayed -= count - q.equal < s->replayed ? count - q.equal : s->replayed;
    vn_reveal_say(s->reason, sizeof s->reason, "what fits small data leaves %lld of %lld elements of normal data",
                  (long long)(count - q.equal), (long long)count);
    return VN_OK;
}

vn_status_t vn_gemm_replay(vn_gemm_t *p, const vn_classes_t *classes, uint8_t *differs, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    const int distributions = p->r->op->dtype == VN_F64 ? TINY : DISTRIBUTIONS; /* f64's underflow is out of the planes' range */
    vn_tree_t *tree[64] = {0};
    s->elements = s->replayed = 0;
    for (int c = 0; c < classes->count; ++c) tree[c] = s->classes[c].tree;
    for (int d = 0; d < distributions; ++d) {
        vn_error_t why = {0};
        const int32_t rows = rows_of(p, d);
        const int64_t count = (int64_t)rows * p->n;
        attempt_t q = {.tree = tree, .a = &s->arithmetic, .rows = rows};
        VN_TRY(random_run(p, d, rows, err));
        const vn_status_t st = compare(p, classes, &q, &why);
        s->elements += count;
        if (st == VN_ERR_UNSUPPORTED) {
            if (d == 0) vn_reveal_say(s->reason, sizeof s->reason, "%s", why.text);
            continue;
        }
        if (st != VN_OK) return vn_fail(err, st, "%s", why.text);
        const int64_t as_measured = q.equal;
        if (q.equal < count && q.zeros < count - q.equal && d != SPREAD) VN_TRY(improve(p, classes, tree, rows, &q.equal, err));
        s->replayed += q.equal;
        if (q.equal < count) VN_TRY(say_differences(p, classes, tree, rows, d == TINY ? NULL : differs, d, count - q.equal, err));
        if (d == TINY && q.equal > as_measured) VN_TRY(prove_again(p, classes, tree, err));
    }
    return VN_OK;
}
