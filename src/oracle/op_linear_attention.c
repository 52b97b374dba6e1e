/* op_linear_attention.c -- LinearAttention 27: a state updated token by token, read by the queries.
 *
 * Claim ATTN-4. Values with errors are carried through the recurrence exactly as the standard writes it (RNN-2's rules for products and sums,
 * all second-order terms): state * exp(g) (2 t u more), retrieved = sum over d_k in any order, g(d_k) T + sum of carried errors,
 * beta (v - retrieved), state + k v, output scale * sum, g(d_k + 1) T. Chunked evaluations reorder the same recurrence; their triangular
 * solves are another arithmetic and not covered. State kept in the accumulator's format.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"
#include "oracle/recurrent.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

typedef struct linear {
    vn_eval_t *e;
    int64_t batch, length, heads, kv_heads, dk, dv, decays, betas; /* decays: per token and head, 1 or dk; betas: heads, or 1 */
    const double *q, *k, *v, *past, *decay, *beta;
    bool gated, delta, bound;
    double scale, u, eta, t_exp;
    int failed; /* atomic */
} linear_t;

static vn_status_t plan(vn_eval_t *e, linear_t *j) {
    const vn_tensor_t *q = e->in[QUERY].t, *k = e->in[KEY].t, *v = e->in[VALUE].t;
    const char *rule = vn_node_string(e->node, "update_rule", "gated_delta");
    *j = (linear_t){.e = e, .heads = vn_node_int(e->node, "q_num_heads", 0), .kv_heads = vn_node_int(e->node, "kv_num_heads", 0)};
    j->gated = strcmp(rule, "gated") == 0 || strcmp(rule, "gated_delta") == 0;
    j->delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    if (!j->gated && !j->delta && strcmp(rule, "linear")) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "update_rule '%s'", rule);
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || j->heads < 1 || j->kv_heads < 1 || j->heads % j->kv_heads ||
        q->dims[2] % j->heads || k->dims[2] % j->kv_heads || v->dims[2] % j->kv_heads)
        return vn_eval_fail(e, VN_ERR_SHAPE, "query, key and value must be [batch, length, heads * size] with heads in groups");
    j->batch = q->dims[0];
    j->length = q->dims[1];
    j->dk = q->dims[2] / j->heads;
    j->dv = v->dims[2] / j->kv_heads;
    if (k->dims[2] / j->kv_heads != j->dk || k->dims[0] != j->batch || v->dims[0] != j->batch || k->dims[1] != j->length ||
        v->dims[1] != j->length)
        return vn_eval_fail(e, VN_ERR_SHAPE, "query, key and value do not fit");
    if (vn_has(e, PAST) && e->in[PAST].t->count != j->batch * j->kv_heads * j->dk * j->dv)
        return vn_eval_fail(e, VN_ERR_SHAPE, "past_state does not fit");
    if (j->gated != vn_has(e, DECAY) || j->delta != vn_has(e, BETA))
        return vn_eval_fail(e, VN_ERR_SHAPE, "decay and beta do not belong to update_rule '%s'", rule);
    if (j->gated) {
        const vn_tensor_t *d = e->in[DECAY].t;
        if (d->rank != 3 || d->dims[0] != j->batch || d->dims[1] != j->length ||
            (d->dims[2] != j->kv_heads && d->dims[2] != j->kv_heads * j->dk))
            return vn_eval_fail(e, VN_ERR_SHAPE, "decay does not fit");
        j->decays = d->dims[2] == j->kv_heads ? 1 : j->dk;
    }
    if (j->delta) {
        const vn_tensor_t *b = e->in[BETA].t;
        if (b->rank != 3 || b->dims[0] != j->batch || b->dims[1] != j->length || (b->dims[2] != j->kv_heads && b->dims[2] != 1))
            return vn_eval_fail(e, VN_ERR_SHAPE, "beta does not fit");
        j->betas = b->dims[2];
    }
    const double scale = vn_node_float(e->node, "scale", 0);
    j->scale = scale != 0 ? scale : 1 / sqrt((double)j->dk);
    return VN_OK;
}

/* Sum over d of w[d] * column[d * stride], any order. */
static vn_tri_t dot(const linear_t *j, const double *w, const vn_tri_t *column, int64_t stride) {
    vn_tri_t r = {0, 0, 0};
    double T = 0, q = 0;
    for (int64_t d = 0; d < j->dk; ++d) {
        const vn_tri_t s = column[d * stride];
        const double term = w[d] * s.v;
        r.v += term;
        T += fabs(w[d]) * (fabs(s.v) + s.e);
        r.e += fabs(w[d]) * s.e;
        r.s += w[d] * w[d] * s.s;
        q += term * term;
    }
    const double n = (double)j->dk;
    r.e += vn_gamma(n, j->u) * T + n * j->eta / 2;
    r.s += 0.18 * j->u * j->u * ((n + 1) * (q / 6 + r.v * r.v / 3) + q);
    return r;
}

static void put(vn_ref_t *r, int64_t at, vn_tri_t y) {
    if (!r->value) return;
    r->value[at] = y.v;
    if (r->bound) r->bound[at] = isfinite(y.v) ? (isnan(y.e) ? INFINITY : y.e) : 0;
    if (r->var) r->var[at] = isfinite(y.s) ? y.s : 0;
}

static void step(const linear_t *j, int64_t b, int64_t h, int64_t t, vn_tri_t *state) {
    const int64_t dk = j->dk, dv = j->dv, token = b * j->length + t;
    const double *k = j->k + (token * j->kv_heads + h) * dk, *v = j->v + (token * j->kv_heads + h) * dv, u = j->u;
    for (int64_t d = 0; j->gated && d < dk; ++d) {
        const double g = exp(j->decay[(token * j->kv_heads + h) * j->decays + (j->decays == 1 ? 0 : d)]);
        const vn_tri_t factor = {.v = g, .e = 2 * j->t_exp * u * g, .s = 0.5 * u * u * g * g};
        for (int64_t m = 0; m < dv; ++m) state[d * dv + m] = vn_tri_mul(u, j->eta, state[d * dv + m], factor);
    }
    for (int64_t m = 0; m < dv; ++m) {
        vn_tri_t x = {.v = v[m]};
        if (j->delta) {
            vn_tri_t got = dot(j, k, state + m, dv);
            got.v = -got.v;
            x = vn_tri_mul(u, j->eta, (vn_tri_t){.v = j->beta[token * j->betas + (j->betas == 1 ? 0 : h)]}, vn_tri_add(u, x, got));
        }
        for (int64_t d = 0; d < dk; ++d)
            state[d * dv + m] = vn_tri_add(u, state[d * dv + m], vn_tri_mul(u, j->eta, (vn_tri_t){.v = k[d]}, x));
    }
    const int64_t group = j->heads / j->kv_heads;
    for (int64_t q = h * group; q < (h + 1) * group; ++q)
        for (int64_t m = 0; m < dv; ++m) {
            const vn_tri_t o = dot(j, j->q + (token * j->heads + q) * dk, state + m, dv);
            put(&j->e->out[0], (token * j->heads + q) * dv + m,
                vn_tri_mul(2 * u, j->eta, o, (vn_tri_t){.v = j->scale})); /* the scale, rounded, and its product */
        }
}

static void heads_range(void *ctx, int64_t begin, int64_t end) {
    linear_t *j = ctx;
    const int64_t cells = j->dk * j->dv;
    vn_tri_t *state = vn_alloc((size_t)cells + 1, sizeof *state);
    if (!state) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t g = begin; g < end; ++g) {
        for (int64_t i = 0; i < cells; ++i) state[i] = (vn_tri_t){.v = j->past ? j->past[g * cells + i] : 0};
        for (int64_t t = 0; t < j->length; ++t) step(j, g / j->kv_heads, g % j->kv_heads, t, state);
        for (int64_t i = 0; j->e->n_out > 1 && i < cells; ++i) put(&j->e->out[1], g * cells + i, state[i]);
    }
    vn_free(state);
}

vn_status_t vn_infer_linear_attention(vn_eval_t *e) {
    linear_t j;
    VN_TRY(plan(e, &j));
    vn_infer_put(e, 0, e->in[QUERY].t->dtype, 3, (int64_t[]){j.batch, j.length, j.heads * j.dv});
    vn_infer_put(e, 1, vn_has(e, PAST) ? e->in[PAST].t->dtype : e->in[QUERY].t->dtype, 4, (int64_t[]){j.batch, j.kv_heads, j.dk, j.dv});
    return VN_OK;
}

vn_status_t vn_eval_linear_attention(vn_eval_t *e) {
    linear_t j;
    VN_TRY(plan(e, &j));
    const double **planes[] = {&j.q, &j.k, &j.v, &j.past, &j.decay, &j.beta};
    for (int k = 0; k < 6; ++k)
        if (vn_has(e, k) && !(*planes[k] = vn_arg_f64(e, k))) return VN_ERR_NOMEM;
    j.u = vn_u(e);
    j.eta = e->contract->ftz ? vn_tau(e) : vn_eta(e);
    j.t_exp = vn_budget(e, "exp");
    VN_TRY(vn_out_float(e, 0, e->in[QUERY].t->dtype, 3, (int64_t[]){j.batch, j.length, j.heads * j.dv}));
    if (e->n_out > 1 && *e->node->outputs[1])
        VN_TRY(vn_out_float(e, 1, vn_has(e, PAST) ? e->in[PAST].t->dtype : e->in[QUERY].t->dtype, 4,
                            (int64_t[]){j.batch, j.kv_heads, j.dk, j.dv}));
    e->out[0].terms = j.dk;
    vn_parallel(j.batch * j.kv_heads, 1, heads_range, &j);
    return j.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a state of %lld x %lld", (long long)j.dk, (long long)j.dv) : VN_OK;
}
