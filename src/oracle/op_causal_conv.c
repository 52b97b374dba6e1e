/* op_causal_conv.c -- CausalConvWithState 27 and SwiGLU 28: the pieces around gated attention layers.
 *
 * Claims:
 *   ATTN-5  z = sum of at most k taps + bias: (n - e + b) u T + n eta/2, e = 1 where products are exact; SiLU: z sigma(z) with
 *           1.1 E + (2 t u) |y| + u |y|, second tier "tail-cancellation" + 4 u |z|, and for 16-bit types "16-bit-function-body"
 *           + u_T (1.1 (n+1) T + 3 |y|): convolution, sigmoid and product each stored in the type. The state is moved.
 *   ATTN-6  SwiGLU: a sigma(alpha a) b within |a b| (2 t u s + u |alpha a| s (1-s)) + 3 u |y| + 2 eta, second tier + 4 u |a b|.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"

static double sigmoid(double z) { return z >= 0 ? 1 / (1 + exp(-z)) : exp(z) / (1 + exp(z)); }

static bool second_tier(const vn_eval_t *e) { return e->want >= VN_WANT_BOUND && e->contract->tier != VN_TIER_IEEE; }

enum { INPUT, WEIGHT, BIAS, PAST };

typedef struct conv {
    vn_eval_t *e;
    int64_t batch, channels, length, k;
    const double *x, *w, *bias, *past;
    bool silu;
    double u, eta, t, e_exact, u_body; /* u_body: roundoff of a 16-bit type, else 0 */
} conv_t;

static vn_status_t conv_plan(vn_eval_t *e, conv_t *c) {
    const vn_tensor_t *x = e->in[INPUT].t, *w = e->in[WEIGHT].t;
    const char *a = vn_node_string(e->node, "activation", "none");
    *c = (conv_t){.e = e, .silu = strcmp(a, "silu") == 0 || strcmp(a, "swish") == 0};
    if (!c->silu && strcmp(a, "none")) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "activation '%s'", a);
    if (x->rank != 3 || w->rank != 3 || w->dims[0] != x->dims[1] || w->dims[1] != 1 || w->dims[2] < 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input [N, C, L] and weight [C, 1, k] do not fit");
    c->batch = x->dims[0], c->channels = x->dims[1], c->length = x->dims[2], c->k = w->dims[2];
    if (vn_has(e, BIAS) && e->in[BIAS].t->count != c->channels) return vn_eval_fail(e, VN_ERR_SHAPE, "bias does not fit");
    if (vn_has(e, PAST) && e->in[PAST].t->count != c->batch * c->channels * (c->k - 1))
        return vn_eval_fail(e, VN_ERR_SHAPE, "past_state does not fit");
    return VN_OK;
}

/* Position at of the sequence past ++ input of channel g = b * C + c; *present says whether there is anything. */
static double at(const conv_t *c, int64_t g, int64_t i, bool *present) {
    *present = i >= c->k - 1 || c->past;
    if (i >= c->k - 1) return c->x[g * c->length + i - (c->k - 1)];
    return c->past ? c->past[g * (c->k - 1) + i] : 0;
}

static void conv_range(void *ctx, int64_t begin, int64_t end) {
    const conv_t *c = ctx;
    vn_ref_t *r = &c->e->out[0];
    for (int64_t i = begin; i < end; ++i) {
        const int64_t g = i / c->length, t = i % c->length, channel = g % c->channels;
        const double b = c->bias ? c->bias[channel] : 0, u = c->u;
        double z = b, T = fabs(b), n = 0, q = b * b;
        for (int64_t j = 0; j < c->k; ++j) {
            bool present;
            const double term = c->w[channel * c->k + j] * at(c, g, t + j, &present);
            if (!present) continue;
            z += term;
            T += fabs(term);
            q += term * term;
            n += 1;
        }
        const double y = c->silu ? z * sigmoid(z) : z;
        r->value[i] = y;
        if (!r->bound || !isfinite(y)) continue;
        double E = fmax(n - c->e_exact + (c->bias != NULL), 0) * u * T + n * c->eta / 2 * (1 + n * u),
               v = 0.18 * u * u * ((n + 1) * (q / 6 + z * z / 3) + q);
        if (c->silu) {
            const double s = sigmoid(z);
            if (r->wide)
                r->wide[i] =
                    1.1 * E + (2 * c->t + 1) * u * fabs(y) + 4 * u * fabs(z) + c->eta + c->u_body * (1.1 * (n + 1) * T + 3 * fabs(y));
            E = 1.1 * E + (2 * c->t + 1) * u * fabs(y) + c->eta;
            v = v * (s + z * s * (1 - s)) * (s + z * s * (1 - s)) + 0.5 * u * u * y * y;
        }
        r->bound[i] = E;
        if (r->var) r->var[i] = v;
    }
}

vn_status_t vn_infer_causal_conv(vn_eval_t *e) {
    conv_t c;
    VN_TRY(conv_plan(e, &c));
    vn_infer_put(e, 0, e->in[INPUT].t->dtype, 3, e->in[INPUT].t->dims);
    vn_infer_put(e, 1, e->in[INPUT].t->dtype, 3, (int64_t[]){c.batch, c.channels, c.k - 1});
    return VN_OK;
}

vn_status_t vn_eval_causal_conv(vn_eval_t *e) {
    conv_t c;
    const vn_tensor_t *x = e->in[INPUT].t;
    VN_TRY(conv_plan(e, &c));
    c.x = vn_arg_f64(e, INPUT);
    c.w = vn_arg_f64(e, WEIGHT);
    c.bias = vn_has(e, BIAS) ? vn_arg_f64(e, BIAS) : NULL;
    c.past = vn_has(e, PAST) ? vn_arg_f64(e, PAST) : NULL;
    if (!c.x || !c.w || (vn_has(e, BIAS) && !c.bias) || (vn_has(e, PAST) && !c.past)) return VN_ERR_NOMEM;
    c.u = vn_u(e);
    c.eta = e->contract->ftz ? vn_tau(e) : vn_eta(e);
    c.t = vn_budget(e, "sigmoid");
    const vn_format_info_t *type = vn_format_info(vn_format_of(x->dtype));
    c.u_body = type->u > c.u ? type->u : 0;
    c.e_exact = 2 * vn_format_info(vn_format_of(x->dtype))->p <= vn_format_info(e->contract->accumulator)->p;
    VN_TRY(vn_out_float(e, 0, x->dtype, 3, x->dims));
    e->out[0].terms = c.k;
    if (c.silu && second_tier(e)) VN_TRY(vn_out_wide(e, 0, c.u_body > 0 ? "16-bit-function-body" : "tail-cancellation"));
    vn_parallel(x->count, 1 << 12, conv_range, &c);
    if (e->n_out < 2 || !*e->node->outputs[1]) return VN_OK;
    VN_TRY(vn_out_exact(e, 1, x->dtype, 3, (int64_t[]){c.batch, c.channels, c.k - 1}));
    for (int64_t g = 0; g < c.batch * c.channels; ++g)
        for (int64_t i = 0; i < c.k - 1; ++i) {
            bool present;
            vn_tensor_set_f64(e->out[1].tensor, g * (c.k - 1) + i, at(&c, g, c.length + i, &present));
        }
    return VN_OK;
}

/* ---- SwiGLU ---- */

typedef struct glu {
    vn_eval_t *e;
    const double *a, *b;
    double alpha, u, eta, t;
} glu_t;

static void glu_range(void *ctx, int64_t begin, int64_t end) {
    const glu_t *j = ctx;
    vn_ref_t *r = &j->e->out[0];
    for (int64_t i = begin; i < end; ++i) {
        const double a = j->a[i], b = j->b[i], z = j->alpha * a, s = sigmoid(z), y = a * s * b, u = j->u, ab = fabs(a * b);
        r->value[i] = y;
        if (!r->bound || !isfinite(y)) continue;
        r->bound[i] = ab * (2 * j->t * u * s + u * fabs(z) * s * (1 - s)) + 3 * u * fabs(y) + 2 * j->eta * (1 + fabs(b));
        if (r->wide) r->wide[i] = r->bound[i] + 4 * u * ab;
        if (r->var) r->var[i] = 0.8 * u * u * y * y;
    }
}

vn_status_t vn_infer_swiglu(vn_eval_t *e) {
    vn_infer_put(e, 0, e->in[0].t->dtype, e->in[0].t->rank, e->in[0].t->dims);
    return VN_OK;
}

vn_status_t vn_eval_swiglu(vn_eval_t *e) {
    const vn_tensor_t *a = e->in[0].t;
    bool same = a->rank == e->in[1].t->rank;
    for (int d = 0; same && d < a->rank; ++d) same = a->dims[d] == e->in[1].t->dims[d];
    if (!same) return vn_eval_fail(e, VN_ERR_SHAPE, "A and B have different shapes");
    glu_t j = {.e = e,
               .a = vn_arg_f64(e, 0),
               .b = vn_arg_f64(e, 1),
               .alpha = vn_node_float(e->node, "alpha", 1),
               .u = vn_u(e),
               .eta = vn_eta(e),
               .t = vn_budget(e, "sigmoid")};
    if (!j.a || !j.b) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, a->dtype, a->rank, a->dims));
    if (second_tier(e)) VN_TRY(vn_out_wide(e, 0, "tail-cancellation"));
    vn_parallel(a->count, 1 << 13, glu_range, &j);
    return VN_OK;
}
