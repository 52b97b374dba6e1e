/* op_norm_contrib.c -- com.microsoft SkipLayerNormalization, SkipSimplifiedLayerNormalization, EmbedLayerNormalization: sums of two or three
 * tensors, normalised over the last axis.
 *
 * Claim NORM-7. The sum x = a + b (+ c) is itself computed: |x^ - x| <= u |a + b| (two terms) or 2 u (|a| + |b| + |c|) (three, any order);
 * this enters NORM-1 or NORM-3 as uncertainty of the operand. The sum, where it is an output, has that bound.
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/norm.h"

typedef struct total {
    double *x, *err;
    double *lo; /* what x leaves behind: only where single elements are asked for in more digits */
    int64_t count;
    int last; /* output of the sum, -1: none */
} total_t;

static void total_free(total_t *t) {
    vn_free(t->x);
    vn_free(t->err);
    vn_free(t->lo);
}

static vn_status_t total_new(vn_eval_t *e, int64_t count, total_t *t) {
    const size_t n = (size_t)(count ? count : 1);
    *t = (total_t){.x = vn_alloc(n, sizeof(double)), .err = vn_alloc(n, sizeof(double)), .count = count, .last = -1};
    if (e->refine) t->lo = vn_alloc(n, sizeof(double));
    if (t->x && t->err && (t->lo || !e->refine)) return VN_OK;
    total_free(t);
    return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)count);
}

static void refine_total(void *ctx, int64_t at, vn_exact_t *out) {
    const total_t *t = ctx;
    *out = (vn_exact_t){.value = t->x[at], .rest = t->lo[at], .own = fabs(t->lo[at]) * 0x1p-52};
}

/* t.x[at] = a + b + c. */
static void add_up(total_t *t, int64_t at, double a, double b, double c) {
    double hi = a, lo = 0;
    vn_two_sum_add(&hi, &lo, b);
    vn_two_sum_add(&hi, &lo, c);
    t->x[at] = hi;
    if (t->lo) t->lo[at] = lo;
}

static vn_status_t put_total(vn_eval_t *e, const total_t *t, int k, vn_dtype_t type, int rank, const int64_t *dims) {
    if (!vn_out_named(e, k)) return VN_OK;
    VN_TRY(vn_out_float(e, k, type, rank, dims));
    if (e->refine) {
        if (e->refine->k == k) vn_refine_each(e, refine_total, (void *)(uintptr_t)t);
        return VN_OK;
    }
    e->out[k].own_rel = 0x1p-52;
    for (int64_t i = 0; i < t->count; ++i)
        e->out[k].own_abs = fmax(e->out[k].own_abs, 0x1p-52 * t->err[i] / vn_u(e)); /* three terms: err is 2 u of their size */
    memcpy(e->out[k].value, t->x, (size_t)t->count * sizeof(double));
    if (e->out[k].bound) memcpy(e->out[k].bound, t->err, (size_t)t->count * sizeof(double));
    for (int64_t i = 0; e->out[k].var && i < t->count; ++i) e->out[k].var[i] = t->err[i] * t->err[i] / 3;
    return VN_OK;
}

static vn_status_t normalise(vn_eval_t *e, const total_t *t, bool mean, int k_gamma, int k_beta, int k_mean, vn_dtype_t type, int rank,
                             const int64_t *dims) {
    if (rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is a scalar");
    vn_norm_job_t j = {.rule = vn_norm_rule(e, vn_node_float(e->node, "epsilon", 1e-12f), mean),
                       .x = t->x,
                       .err = t->err,
                       .x_lo = t->lo,
                       .summed = true,
                       .k_mean = k_mean,
                       .k_inv = k_mean < 0 ? -1 : k_mean + 1,
                       .stash = VN_F32,
                       .stat_rank = rank,
                       .note = mean ? "one-pass-variance" : "cast-before-scale"};
    const vn_format_info_t *f = vn_format_info(vn_format_of(type));
    j.rule.u_store = f && f->p < j.rule.a->p ? f->u : 0; /* input 0 may be indices */
    bool along[VN_MAX_RANK] = {false};
    along[rank - 1] = true;
    memcpy(j.stat_dims, dims, (size_t)rank * sizeof *dims);
    j.stat_dims[rank - 1] = 1;
    vn_rows_plan(rank, dims, along, &j.rows);
    double *owned[2] = {NULL, NULL};
    vn_status_t s = vn_norm_affine(e, &j, k_gamma, k_beta, rank, dims, rank - 1, owned);
    if (s == VN_OK) s = vn_norm_run(e, &j, type, rank, dims);
    vn_free(owned[0]);
    vn_free(owned[1]);
    return s;
}

/* input, skip (same shape, or without or with a batch of one), gamma, [beta,] bias */
static vn_status_t skip(vn_eval_t *e, bool mean) {
    const vn_tensor_t *x = e->in[0].t, *s = e->in[1].t;
    const int k_bias = mean ? 4 : 3;
    const double *a = vn_arg_f64(e, 0), *b = vn_arg_f64(e, 1), *c = vn_has(e, k_bias) ? vn_arg_f64(e, k_bias) : NULL;
    if (!a || !b || (vn_has(e, k_bias) && !c)) return VN_ERR_NOMEM;
    if (x->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is a scalar");
    const int64_t hidden = x->dims[x->rank - 1];
    if (s->count == 0 ? x->count != 0 : x->count % s->count != 0 || (c && e->in[k_bias].t->count != hidden))
        return vn_eval_fail(e, VN_ERR_SHAPE, "skip of %lld elements or bias do not fit an input of %lld", (long long)s->count,
                            (long long)x->count);
    total_t t;
    VN_TRY(total_new(e, x->count, &t));
    const double u = vn_u(e), *ea = vn_arg_err(e, 0), *eb = vn_arg_err(e, 1);
    for (int64_t i = 0; i < x->count; ++i) {
        const double p = a[i], q = b[i % s->count], r = c ? c[i % hidden] : 0;
        add_up(&t, i, p, q, r);
        t.err[i] =
            (c ? 2 * u * (fabs(p) + fabs(q) + fabs(r)) : u * fabs(t.x[i])) + ((ea ? ea[i] : 0) + (eb ? eb[i % s->count] : 0)) * (1 + 2 * u);
    }
    vn_status_t st = normalise(e, &t, mean, 2, mean ? 3 : -1, mean ? 1 : -1, x->dtype, x->rank, x->dims);
    if (st == VN_OK && !mean && (vn_out_named(e, 1) || vn_out_named(e, 2)))
        st = vn_eval_fail(e, VN_ERR_UNSUPPORTED, "outputs mean and inv_std_var of this operator are training outputs without a definition");
    if (st == VN_OK) st = put_total(e, &t, 3, x->dtype, x->rank, x->dims);
    total_free(&t);
    return st;
}

vn_status_t vn_eval_skip_norm(vn_eval_t *e) { return skip(e, true); }
vn_status_t vn_eval_skip_rms(vn_eval_t *e) { return skip(e, false); }

enum { IDS, SEGMENTS, WORD, POSITION, SEGMENT, GAMMA, BETA, MASK, POSITIONS };

static vn_status_t table_row(vn_eval_t *e, int k, int64_t index, int64_t hidden, const double *plane, const double **row) {
    const vn_tensor_t *t = e->in[k].t;
    if (t->rank != 2 || t->dims[1] != hidden)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is not a table of rows of %lld", k, (long long)hidden);
    if (index < 0 || index >= t->dims[0])
        return vn_eval_fail(e, VN_ERR_RANGE, "index %lld outside the %lld rows of input %d", (long long)index, (long long)t->dims[0], k);
    *row = plane + index * hidden;
    return VN_OK;
}

static vn_status_t embed_total(vn_eval_t *e, int64_t batch, int64_t length, int64_t hidden, total_t *t) {
    const bool segments = vn_has(e, SEGMENTS) && vn_has(e, SEGMENT);
    const double *word = vn_arg_f64(e, WORD), *position = vn_arg_f64(e, POSITION), *segment = segments ? vn_arg_f64(e, SEGMENT) : NULL,
                 u = vn_u(e);
    if (!word || !position || (segments && !segment)) return VN_ERR_NOMEM;
    if (segments && e->in[SEGMENTS].t->count != batch * length) return vn_eval_fail(e, VN_ERR_SHAPE, "segment_ids do not fit input_ids");
    for (int64_t i = 0; i < batch * length; ++i) {
        const double *w, *p, *s = NULL;
        int64_t at = i % length;
        if (vn_has(e, POSITIONS)) {
            const int64_t n = e->in[POSITIONS].t->count;
            if (n != length && n != batch * length) return vn_eval_fail(e, VN_ERR_SHAPE, "position_ids do not fit input_ids");
            at = vn_arg_int(e, POSITIONS, n == length ? i % length : i);
        }
        VN_TRY(table_row(e, WORD, vn_arg_int(e, IDS, i), hidden, word, &w));
        VN_TRY(table_row(e, POSITION, at, hidden, position, &p));
        if (segments) VN_TRY(table_row(e, SEGMENT, vn_arg_int(e, SEGMENTS, i), hidden, segment, &s));
        for (int64_t k = 0; k < hidden; ++k) {
            const double a = w[k], b = p[k], c = s ? s[k] : 0;
            add_up(t, i * hidden + k, a, b, c);
            t->err[i * hidden + k] = s ? 2 * u * (fabs(a) + fabs(b) + fabs(c)) : u * fabs(a + b);
        }
    }
    return VN_OK;
}

/* mask_index: how many tokens of each sample the mask keeps; zeros where mask_index_type is 0 or there is no mask. */
static vn_status_t mask_index(vn_eval_t *e, int64_t batch, int64_t length) {
    if (!vn_out_named(e, 1)) return VN_OK;
    VN_TRY(vn_out_exact(e, 1, VN_I32, 1, &batch));
    if (!vn_has(e, MASK) || !vn_node_int(e->node, "mask_index_type", 1)) return VN_OK;
    if (e->in[MASK].t->count != batch * length) return vn_eval_fail(e, VN_ERR_SHAPE, "mask does not fit input_ids");
    for (int64_t b = 0; b < batch; ++b) {
        int64_t n = 0;
        for (int64_t k = 0; k < length; ++k) n += vn_arg_int(e, MASK, b * length + k) == 1;
        vn_tensor_set_i64(e->out[1].tensor, b, n);
    }
    return VN_OK;
}

vn_status_t vn_eval_embed_norm(vn_eval_t *e) {
    const vn_tensor_t *ids = e->in[IDS].t, *word = e->in[WORD].t;
    if (ids->rank != 2 || word->rank != 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input_ids [batch, length] and a table [tokens, hidden] are needed");
    const int64_t batch = ids->dims[0], length = ids->dims[1], hidden = word->dims[1], dims[3] = {batch, length, hidden};
    int64_t count;
    if (!vn_i64_mul(batch * length, hidden, &count)) return vn_eval_fail(e, VN_ERR_RANGE, "the result has too many elements");
    total_t t;
    VN_TRY(total_new(e, count, &t));
    vn_status_t s = embed_total(e, batch, length, hidden, &t);
    if (s == VN_OK) s = normalise(e, &t, true, GAMMA, BETA, -1, word->dtype, 3, dims);
    if (s == VN_OK) s = put_total(e, &t, 2, word->dtype, 3, dims);
    total_free(&t);
    return s == VN_OK ? mask_index(e, batch, length) : s;
}

vn_status_t vn_infer_skip_norm(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t stats[VN_MAX_RANK];
    if (x->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is a scalar");
    memcpy(stats, x->dims, sizeof stats);
    stats[x->rank - 1] = 1;
    vn_infer_put(e, 0, x->dtype, x->rank, x->dims);
    vn_infer_put(e, 1, VN_F32, x->rank, stats);
    vn_infer_put(e, 2, VN_F32, x->rank, stats);
    vn_infer_put(e, 3, x->dtype, x->rank, x->dims);
    return VN_OK;
}

vn_status_t vn_infer_embed_norm(vn_eval_t *e) {
    const vn_tensor_t *ids = e->in[IDS].t, *word = e->in[WORD].t;
    if (ids->rank != 2 || word->rank != 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input_ids [batch, length] and a table [tokens, hidden] are needed");
    const int64_t dims[3] = {ids->dims[0], ids->dims[1], word->dims[1]};
    vn_infer_put(e, 0, word->dtype, 3, dims);
    vn_infer_put(e, 1, VN_I32, 1, dims);
    vn_infer_put(e, 2, word->dtype, 3, dims);
    return VN_OK;
}
