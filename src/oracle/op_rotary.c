/* op_rotary.c -- RotaryEmbedding of ai.onnx 23 and of com.microsoft.
 *
 * Claim ATTN-2. real = c x1 - s x2, imaginary = s x1 + c x2: two products and one addition, with or without fma:
 * g(2) (|c x1| + |s x2|) + eta. Components outside the rotated part are moved: bound 0.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"

typedef struct rotary {
    vn_eval_t *e;
    const double *x, *err, *var, *cosine, *sine;
    const int64_t *position; /* row of the caches for token (b, t); NULL: caches are per token */
    int64_t batch, heads, length, size, rotated;
    int64_t sb, sh, st; /* strides of sample, head, token */
    bool interleaved;
    double u, eta;
    vn_format_t acc;
} rotary_t;

static void tokens(void *ctx, int64_t begin, int64_t end) {
    const rotary_t *j = ctx;
    vn_ref_t *r = &j->e->out[0];
    const int64_t half = j->rotated / 2;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / (j->heads * j->length), h = i / j->length % j->heads, t = i % j->length;
        const int64_t base = b * j->sb + h * j->sh + t * j->st, row = j->position ? j->position[b * j->length + t] : b * j->length + t;
        const double *c = j->cosine + row * half, *s = j->sine + row * half;
        for (int64_t k = 0; k < j->size; ++k) {
            const int64_t at = base + k;
            if (k >= j->rotated) {
                r->value[at] = j->x[at];
                if (r->bound) r->bound[at] = j->err ? j->err[at] : 0;
                if (r->var && j->var) r->var[at] = j->var[at];
                continue;
            }
            const int64_t p = j->interleaved ? k / 2 : k % half;
            const bool imaginary = j->interleaved ? k % 2 : k >= half;
            const int64_t a1 = base + (j->interleaved ? 2 * p : p), a2 = base + (j->interleaved ? 2 * p + 1 : half + p);
            const double w1 = imaginary ? s[p] : c[p], w2 = imaginary ? c[p] : -s[p], m1 = w1 * j->x[a1], m2 = w2 * j->x[a2], y = m1 + m2;
            r->value[at] = y;
            if (!r->bound || !isfinite(y)) continue;
            const double size = fabs(m1) + fabs(m2), u = j->u, doubt = j->err ? fabs(w1) * j->err[a1] + fabs(w2) * j->err[a2] : 0;
            r->bound[at] = vn_gamma(2, u) * (size + doubt) + doubt + (size > 0 ? j->eta : 0);
            if (m1 == 0 || m2 == 0) /* one product: a single rounding */
                r->bound[at] = fmin(r->bound[at], u * (fabs(y) + doubt) + doubt + (y != 0 ? j->eta / 2 : 0));
            if (r->own) r->own[at] = 0x1p-51 * size;
            if (r->var)
                r->var[at] = vn_node_variance(j->acc, m1) + vn_node_variance(j->acc, m2) + vn_node_variance(j->acc, y) +
                             (j->var ? w1 * w1 * j->var[a1] + w2 * w2 * j->var[a2] : 0);
        }
    }
}

static vn_status_t shape(vn_eval_t *e, rotary_t *j, int64_t heads) {
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank == 4) {
        j->batch = x->dims[0], j->heads = x->dims[1], j->length = x->dims[2], j->size = x->dims[3];
        j->sb = j->heads * j->length * j->size, j->sh = j->length * j->size, j->st = j->size;
    } else if (x->rank == 3 && heads > 0 && x->dims[2] % heads == 0) {
        j->batch = x->dims[0], j->length = x->dims[1], j->heads = heads, j->size = x->dims[2] / heads;
        j->sb = j->length * x->dims[2], j->sh = j->size, j->st = x->dims[2];
    } else {
        return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 must have rank 4, or rank 3 with num_heads dividing its last dimension");
    }
    j->rotated = vn_node_int(e->node, "rotary_embedding_dim", 0);
    if (j->rotated == 0) j->rotated = j->size;
    if (j->rotated < 0 || j->rotated > j->size || j->rotated % 2)
        return vn_eval_fail(e, VN_ERR_RANGE, "rotary_embedding_dim %lld of a head of %lld", (long long)j->rotated, (long long)j->size);
    j->interleaved = vn_node_int(e->node, "interleaved", 0) != 0;
    return VN_OK;
}

static vn_status_t run(vn_eval_t *e, rotary_t *j, int k_cos, int k_sin) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    j->e = e;
    j->x = vn_arg_f64(e, 0);
    j->cosine = vn_arg_f64(e, k_cos);
    j->sine = vn_arg_f64(e, k_sin);
    if (!j->x || !j->cosine || !j->sine) return VN_ERR_NOMEM;
    j->err = vn_arg_err(e, 0);
    j->var = e->in[0].var;
    j->u = vn_u(e);
    j->eta = e->contract->ftz ? 2 * vn_tau(e) : vn_eta(e);
    j->acc = e->contract->accumulator;
    e->out[0].terms = 2;
    if (e->want >= VN_WANT_BOUND && j->acc == VN_FMT_F64) VN_TRY(vn_out_own(e, 0));
    vn_parallel(j->batch * j->heads * j->length, 256, tokens, j);
    const bool doubt = vn_arg_err(e, k_cos) || vn_arg_err(e, k_sin);
    for (int64_t i = 0; doubt && e->out[0].bound && i < e->out[0].count; ++i) e->out[0].bound[i] = INFINITY;
    return VN_OK;
}

/* Checks a table of rows and copies the positions of all tokens. */
static vn_status_t positions(vn_eval_t *e, const rotary_t *j, int k_ids, int k_cos, int k_sin, int64_t **out) {
    const vn_tensor_t *c = e->in[k_cos].t, *s = e->in[k_sin].t, *ids = e->in[k_ids].t;
    if (c->rank != 2 || s->rank != 2 || c->dims[1] != j->rotated / 2 || s->dims[1] != j->rotated / 2 || c->dims[0] != s->dims[0])
        return vn_eval_fail(e, VN_ERR_SHAPE, "caches must be [positions, %lld]", (long long)(j->rotated / 2));
    const int64_t n = j->batch * j->length;
    const bool start = ids->count == 1 && n != 1; /* contrib: one number, the position of the first token */
    if (!start && ids->count != n)
        return vn_eval_fail(e, VN_ERR_SHAPE, "position_ids has %lld entries for %lld tokens", (long long)ids->count, (long long)n);
    *out = vn_alloc((size_t)n + 1, sizeof **out);
    if (!*out) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < n; ++i) {
        const int64_t p = start ? vn_arg_int(e, k_ids, 0) + i % j->length : vn_arg_int(e, k_ids, i);
        const int64_t at = p < 0 ? p + c->dims[0] : p;
        if (at < 0 || at >= c->dims[0]) {
            vn_free(*out);
            *out = NULL;
            return vn_eval_fail(e, VN_ERR_RANGE, "position %lld outside the %lld rows of the caches", (long long)p, (long long)c->dims[0]);
        }
        (*out)[i] = at;
    }
    return VN_OK;
}

vn_status_t vn_eval_rotary(vn_eval_t *e) {
    rotary_t j = {0};
    VN_TRY(shape(e, &j, vn_node_int(e->node, "num_heads", 0)));
    if (!vn_has(e, 3)) {
        for (int k = 1; k <= 2; ++k) {
            const vn_tensor_t *t = e->in[k].t;
            if (t->rank != 3 || t->dims[0] != j.batch || t->dims[1] != j.length || t->dims[2] != j.rotated / 2)
                return vn_eval_fail(e, VN_ERR_SHAPE, "without position_ids, input %d must be [batch, length, %lld]", k,
                                    (long long)(j.rotated / 2));
        }
        return run(e, &j, 1, 2);
    }
    int64_t *ids = NULL;
    VN_TRY(positions(e, &j, 3, 1, 2, &ids));
    j.position = ids;
    vn_status_t s = run(e, &j, 1, 2);
    vn_free(ids);
    return s;
}

vn_status_t vn_eval_rotary_contrib(vn_eval_t *e) {
    rotary_t j = {0};
    int64_t heads = vn_node_int(e->node, "num_heads", 0);
    const vn_tensor_t *x = e->in[0].t, *c = e->in[2].t;
    /* is_packed_batching only lifts the check of lengths against the caches: each token is rotated by its own position all the same. */
    if (vn_node_float(e->node, "scale", 1) != 1)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a scale other than 1: the operator's text does not say what is scaled");
    if (heads == 0 && x->rank == 3 && c->rank == 2 && c->dims[1] > 0)
        heads = x->dims[2] / (2 * c->dims[1]); /* full heads of twice the cache's width */
    VN_TRY(shape(e, &j, heads));
    int64_t *ids = NULL;
    VN_TRY(positions(e, &j, 1, 2, 3, &ids));
    j.position = ids;
    vn_status_t s = run(e, &j, 2, 3);
    vn_free(ids);
    return s;
}

vn_status_t vn_infer_rotary(vn_eval_t *e) {
    vn_infer_put(e, 0, e->in[0].t->dtype, e->in[0].t->rank, e->in[0].t->dims);
    return VN_OK;
}
