/* op_recurrent.c -- family "recurrent": RNN, GRU, LSTM of ai.onnx, DynamicQuantizeLSTM of com.microsoft.
 *
 * Claims RNN-1, RNN-4 (recurrent_gate.c), RNN-2, RNN-3, RNN-5 (recurrent_run.c), RNN-6 (recurrent_exact.c). Reverse directions read each sample backwards from its own length; results stand
 * at the original time. Past a sample's length Y is 0 and Y_h, Y_c keep the last state. Clipping applies to the arguments of gates; reading
 * "clip-cell": also to the cell before h.
 * DynamicQuantizeLSTM: the value is the exact function of the dequantised weights. Back ends quantise the activations too (8 bits per
 * tensor): second tier "quantised-activations", each x within range/510, each h within the range 2/510 of a state in [-1, 1].
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/recurrent.h"

enum { BIASES = 4 }; /* bit of contract.operand_mask */

typedef struct spec {
    char kind;
    int gates, bias_rows, functions;
    bool quantised;
} spec_t;

typedef struct plan {
    spec_t spec;
    int directions;
    bool reverse_first, batch_first;
    int64_t steps, batch, in, hidden;
    vn_gate_t gate[2][3];
} plan_t;

static spec_t spec_of(const vn_node_t *n) {
    if (strcmp(n->op, "RNN") == 0) return (spec_t){'R', 1, 2, 1, false};
    if (strcmp(n->op, "GRU") == 0) return (spec_t){'G', 3, 6, 2, false};
    return (spec_t){'L', 4, 8, 3, strcmp(n->op, "LSTM") != 0};
}

static vn_status_t functions(vn_eval_t *e, plan_t *p) {
    static const char *const defaults[][3] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    const vn_attr_t *names = vn_node_attr(e->node, "activations");
    int64_t n_alpha = 0, n_beta = 0, a = 0, b = 0;
    const float *alpha = vn_node_floats(e->node, "activation_alpha", &n_alpha), *beta = vn_node_floats(e->node, "activation_beta", &n_beta);
    const double clip = vn_node_float(e->node, "clip", INFINITY); /* absent: none; 0 is a threshold too */
    const int per = p->spec.functions;
    if (names && names->count < (int64_t)per * p->directions)
        return vn_eval_fail(e, VN_ERR_RANGE, "%lld activations, %d are needed", (long long)names->count, per * p->directions);
    for (int d = 0; d < p->directions; ++d)
        for (int k = 0; k < per; ++k) {
            vn_gate_t *g = &p->gate[d][k];
            const char *name = names ? names->strings[d * per + k].text : defaults[per - 1][k];
            if (!vn_gate_find(name, g)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "activation %s", name);
            const bool takes_alpha = g->kind == VN_GATE_AFFINE || g->kind == VN_GATE_LEAKY || g->kind == VN_GATE_THRESHOLDED ||
                                     g->kind == VN_GATE_SCALED_TANH || g->kind == VN_GATE_HARD_SIGMOID || g->kind == VN_GATE_ELU;
            const bool takes_beta = g->kind == VN_GATE_AFFINE || g->kind == VN_GATE_SCALED_TANH || g->kind == VN_GATE_HARD_SIGMOID;
            if (takes_alpha && a < n_alpha) g->alpha = alpha[a++];
            if (takes_beta && b < n_beta) g->beta = beta[b++];
            g->clip = clip >= 0 && !(p->spec.kind == 'L' && k == 2) ? clip : INFINITY;
        }
    return VN_OK;
}

static vn_status_t expect(vn_eval_t *e, int k, int rank, const int64_t *dims) {
    if (!vn_has(e, k)) return VN_OK;
    const vn_tensor_t *t = e->in[k].t;
    bool fits = t->rank == rank;
    for (int d = 0; fits && d < rank; ++d) fits = t->dims[d] == dims[d];
    char text[120];
    vn_tensor_describe(t, text, sizeof text);
    return fits ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "input %d is %s, which does not fit the other operands", k, text);
}

static vn_status_t plan(vn_eval_t *e, plan_t *p) {
    const vn_tensor_t *x = e->in[0].t, *w = e->in[1].t, *r = e->in[2].t;
    *p = (plan_t){.spec = spec_of(e->node)};
    const char *direction = vn_node_string(e->node, "direction", "forward");
    p->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    p->reverse_first = strcmp(direction, "reverse") == 0;
    if (p->directions == 1 && !p->reverse_first && strcmp(direction, "forward"))
        return vn_eval_fail(e, VN_ERR_RANGE, "direction '%s'", direction);
    p->batch_first = vn_node_int(e->node, "layout", 0) != 0;
    if (x->rank != 3 || w->rank != 3 || r->rank != 3) return vn_eval_fail(e, VN_ERR_SHAPE, "X, W and R must have rank 3");
    p->steps = x->dims[p->batch_first];
    p->batch = x->dims[!p->batch_first];
    p->in = x->dims[2];
    p->hidden = p->spec.quantised ? r->dims[1] : r->dims[2];
    const int64_t D = p->directions, H = p->hidden, G = p->spec.gates;
    int64_t cells;
    if (!vn_i64_mul(H, 8, &cells) || !vn_i64_mul(cells, p->steps, &cells) || !vn_i64_mul(cells, p->batch, &cells) || cells > INT64_MAX / 64)
        return vn_eval_fail(e, VN_ERR_RANGE, "hidden size %lld is too large", (long long)H);
    if (p->spec.quantised) {
        VN_TRY(expect(e, 1, 3, (int64_t[]){D, p->in, G * H}));
        VN_TRY(expect(e, 2, 3, (int64_t[]){D, H, G * H}));
    } else {
        VN_TRY(expect(e, 1, 3, (int64_t[]){D, G * H, p->in}));
        VN_TRY(expect(e, 2, 3, (int64_t[]){D, G * H, H}));
    }
    VN_TRY(expect(e, 3, 2, (int64_t[]){D, p->spec.bias_rows * H}));
    VN_TRY(expect(e, 4, 1, &p->batch));
    const int64_t state[3] = {p->batch_first ? p->batch : D, p->batch_first ? D : p->batch, H};
    VN_TRY(expect(e, 5, 3, state));
    if (p->spec.kind == 'L') {
        VN_TRY(expect(e, 6, 3, state));
        VN_TRY(expect(e, 7, 2, (int64_t[]){D, 3 * H}));
    }
    return functions(e, p);
}

static void output_dims(const plan_t *p, int k, int *rank, int64_t *dims) {
    const int64_t D = p->directions;
    const int64_t y[2][4] = {{p->steps, D, p->batch, p->hidden}, {p->batch, p->steps, D, p->hidden}},
                  s[2][3] = {{D, p->batch, p->hidden}, {p->batch, D, p->hidden}};
    *rank = k == 0 ? 4 : 3;
    memcpy(dims, k == 0 ? y[p->batch_first] : s[p->batch_first], (size_t)*rank * sizeof *dims);
}

static vn_status_t infer(vn_eval_t *e) {
    plan_t p;
    VN_TRY(plan(e, &p));
    for (int k = 0; k < e->n_out; ++k) {
        e->out[k].dtype = e->in[0].t->dtype;
        output_dims(&p, k, &e->out[k].rank, e->out[k].dims);
    }
    return VN_OK;
}

/* ---- operands in layout 0 ---- */

typedef struct bag { /* what eval owns */
    void *items[32];
    int n;
} bag_t;

static void *keep(bag_t *b, void *p) {
    if (p && b->n < 32) b->items[b->n++] = p;
    return p;
}

static double *buffer(bag_t *b, int64_t n) { return keep(b, vn_alloc((size_t)(n ? n : 1), sizeof(double))); }

/* [a, b, c] to [b, a, c]. */
static double *swap_axes(bag_t *bag, const double *x, int64_t a, int64_t b, int64_t c) {
    double *y = buffer(bag, a * b * c);
    for (int64_t i = 0; y && i < a; ++i)
        for (int64_t j = 0; j < b; ++j) memcpy(y + (j * a + i) * c, x + (i * b + j) * c, (size_t)c * sizeof *y);
    return y;
}

/* (q - zero) * scale; scale and zero point per direction or per column. */
static vn_status_t dequantise(vn_eval_t *e, bag_t *bag, const plan_t *p, int k, int k_scale, int k_zero, const double **out) {
    const vn_tensor_t *t = e->in[k].t;
    const int64_t D = p->directions, columns = p->spec.gates * p->hidden, rows = D && columns ? t->count / D / columns : 0;
    if (!vn_has(e, k_scale)) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d (a scale) is missing", k_scale);
    const int64_t ns = e->in[k_scale].t->count, nz = vn_has(e, k_zero) ? e->in[k_zero].t->count : 0;
    if ((ns != D && ns != D * columns) || (nz && nz != D && nz != D * columns))
        return vn_eval_fail(e, VN_ERR_SHAPE, "scale or zero point of input %d", k);
    double *y = buffer(bag, t->count);
    if (!y) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t d = 0; d < D; ++d)
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
                const int64_t at = (d * rows + r) * columns + c, wide = d * columns + c;
                const double zero = nz ? (double)vn_arg_int(e, k_zero, nz == D ? d : wide) : 0;
                y[at] = ((double)vn_arg_int(e, k, at) - zero) * vn_tensor_get_f64(e->in[k_scale].t, ns == D ? d : wide);
            }
    *out = y;
    return VN_OK;
}

static vn_status_t operand(vn_eval_t *e, bag_t *bag, int position, const double *plane, int64_t count, vn_dtype_t type,
                           const double **out) {
    double *owned;
    vn_status_t s = vn_read_operand(e, position, plane, count, type, out, &owned);
    keep(bag, owned);
    return s;
}

typedef struct common {
    const double *x, *x_err, *w, *r, *b, *h0, *c0, *peep;
    const double *given; /* [D, T, B, H] */
    int64_t *lens;
} common_t;

/* Output 0 as it was returned, one direction after the other. Not given, or not of the due form: no states to take. */
static vn_status_t gather_given(vn_eval_t *e, bag_t *bag, const plan_t *p, common_t *c) {
    const vn_value_t *v = e->given && e->n_out > 0 ? e->given[0] : NULL;
    const int64_t T = p->steps, B = p->batch, H = p->hidden, D = p->directions;
    if (!e->given) return VN_OK;
    if (!v || v->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(v->tensor->dtype) || v->tensor->count != T * B * H * D)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "the states of the steps were not returned");
    double *flat = buffer(bag, v->tensor->count), *given = buffer(bag, v->tensor->count);
    vn_tensor_t *whole;
    if (!flat || !given) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    VN_TRY(vn_tensor_contiguous(v->tensor, &whole, e->err));
    vn_tensor_to_f64(whole, flat);
    vn_tensor_free(whole);
    for (int64_t d = 0; d < D; ++d)
        for (int64_t t = 0; t < T; ++t)
            for (int64_t b = 0; b < B; ++b)
                memcpy(given + ((d * T + t) * B + b) * H, flat + (p->batch_first ? (b * T + t) * D + d : (t * D + d) * B + b) * H,
                       (size_t)H * sizeof *flat);
    c->given = given;
    return VN_OK;
}

static vn_status_t gather(vn_eval_t *e, bag_t *bag, const plan_t *p, common_t *c) {
    const vn_dtype_t type = e->in[0].t->dtype;
    const int64_t D = p->directions, H = p->hidden;
    c->x = vn_arg_f64(e, 0);
    c->x_err = vn_arg_err(e, 0);
    if (!c->x) return VN_ERR_NOMEM;
    if (p->batch_first) {
        c->x = swap_axes(bag, c->x, p->batch, p->steps, p->in);
        if (c->x_err) c->x_err = swap_axes(bag, c->x_err, p->batch, p->steps, p->in);
        if (!c->x) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    VN_TRY(operand(e, bag, 0, c->x, e->in[0].t->count, type, &c->x));
    if (p->spec.quantised) {
        VN_TRY(dequantise(e, bag, p, 1, 8, 9, &c->w));
        VN_TRY(dequantise(e, bag, p, 2, 10, 11, &c->r));
    } else {
        VN_TRY(operand(e, bag, 1, vn_arg_f64(e, 1), e->in[1].t->count, type, &c->w));
        VN_TRY(operand(e, bag, 1, vn_arg_f64(e, 2), e->in[2].t->count, type, &c->r));
    }
    if (vn_has(e, 3) && !(c->b = vn_arg_f64(e, 3))) return VN_ERR_NOMEM;
    const int states = p->spec.kind == 'L' ? 2 : 1;
    for (int k = 0; k < states; ++k) {
        if (!vn_has(e, 5 + k)) continue;
        const double *s = vn_arg_f64(e, 5 + k);
        if (s && p->batch_first) s = swap_axes(bag, s, p->batch, D, H);
        if (!s) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        *(k ? &c->c0 : &c->h0) = s;
    }
    if (p->spec.kind == 'L' && vn_has(e, 7) && !(c->peep = vn_arg_f64(e, 7))) return VN_ERR_NOMEM;
    c->lens = keep(bag, vn_alloc((size_t)(p->batch ? p->batch : 1), sizeof *c->lens));
    if (!c->lens) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < p->batch; ++b) {
        c->lens[b] = vn_has(e, 4) ? vn_arg_int(e, 4, b) : p->steps;
        if (c->lens[b] < 0 || c->lens[b] > p->steps)
            return vn_eval_fail(e, VN_ERR_RANGE, "sequence length %lld of sample %lld is not in 0..%lld", (long long)c->lens[b],
                                (long long)b, (long long)p->steps);
    }
    return VN_OK;
}

/* ---- results ---- */

enum { PLAIN, WIDE, OWN }; /* what a run is for: value and bound, second tier, own error */

static void put(vn_ref_t *r, int64_t at, vn_tri_t v, int plane, double own_scale) {
    if (!r->value) return;
    if (plane == WIDE) r->wide[at] = v.e;
    if (plane == OWN) r->own[at] = isnan(v.e) ? INFINITY : v.e;
    if (plane != PLAIN) return;
    r->value[at] = v.v;
    if (r->bound) r->bound[at] = isnan(v.e) ? INFINITY : v.e;
    if (r->var) r->var[at] = isfinite(v.s) ? v.s : 0;
    if (r->own) r->own[at] = v.e * own_scale;
}

/* Element of Y for step t, direction d, sample b; of Y_h and Y_c. */
static int64_t of_y(const plan_t *p, int64_t t, int64_t d, int64_t b) {
    return (p->batch_first ? (b * p->steps + t) * p->directions + d : (t * p->directions + d) * p->batch + b) * p->hidden;
}
static int64_t of_state(const plan_t *p, int64_t d, int64_t b) {
    return (p->batch_first ? b * p->directions + d : d * p->batch + b) * p->hidden;
}

static void put_direction(vn_eval_t *e, const plan_t *p, int d, const vn_rnn_layer_t *l, int plane) {
    const int64_t T = p->steps, B = p->batch, H = p->hidden;
    const double scale = 0x1p-53 / l->rule.u;
    for (int64_t b = 0; b < B; ++b) {
        for (int64_t t = 0; t < T && e->n_out > 0 && l->y; ++t)
            for (int64_t k = 0; k < H; ++k) put(&e->out[0], of_y(p, t, d, b) + k, l->y[(t * B + b) * H + k], plane, scale);
        const int64_t at = of_state(p, d, b);
        for (int64_t k = 0; k < H; ++k) {
            if (e->n_out > 1) put(&e->out[1], at + k, l->h[b * H + k], plane, scale);
            if (e->n_out > 2 && l->c) put(&e->out[2], at + k, l->c[b * H + k], plane, scale);
        }
    }
}

static vn_status_t outputs(vn_eval_t *e, const plan_t *p) {
    for (int k = 0; k < e->n_out; ++k) {
        if (!*e->node->outputs[k]) continue;
        int rank;
        int64_t dims[4];
        output_dims(p, k, &rank, dims);
        VN_TRY(vn_out_float(e, k, e->in[0].t->dtype, rank, dims));
        e->out[k].terms = p->in + p->hidden + 2;
        if (e->refine) continue;
        if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, k));
        if (e->want >= VN_WANT_BOUND && p->spec.quantised) VN_TRY(vn_out_wide(e, k, "quantised-activations"));
    }
    return VN_OK;
}

/* A second run's values of direction d into planes that become a reading. */
static void put_reading(const vn_eval_t *e, const plan_t *p, int d, const vn_rnn_layer_t *l, double *const planes[3]) {
    const int64_t T = p->steps, B = p->batch, H = p->hidden;
    for (int64_t b = 0; b < B; ++b)
        for (int64_t k = 0; k < H; ++k) {
            for (int64_t t = 0; t < T && planes[0]; ++t) planes[0][of_y(p, t, d, b) + k] = l->y[(t * B + b) * H + k].v;
            const int64_t at = of_state(p, d, b) + k;
            if (e->n_out > 1 && planes[1]) planes[1][at] = l->h[b * H + k].v;
            if (e->n_out > 2 && planes[2]) planes[2][at] = l->c[b * H + k].v;
        }
}

static vn_status_t finish_reading(vn_eval_t *e, double *const planes[3]) {
    for (int k = 0; k < e->n_out && k < 3; ++k) {
        vn_tensor_t *t;
        if (!planes[k]) continue;
        VN_TRY(vn_tensor_new_raw(e->out[k].dtype, e->out[k].rank, e->out[k].dims, &t, e->err));
        vn_tensor_from_f64(t, planes[k], VN_RNE, false);
        VN_TRY(vn_out_reading(e, k, "clip-cell", t));
    }
    return VN_OK;
}

static double range_with_zero(const double *x, int64_t n) {
    double lo = 0, hi = 0;
    for (int64_t i = 0; i < n; ++i) lo = fmin(lo, x[i]), hi = fmax(hi, x[i]);
    return hi - lo;
}

/* ---- one direction ---- */

static vn_rnn_layer_t layer_of(vn_eval_t *e, const plan_t *p, const common_t *c, int d) {
    const int64_t H = p->hidden, G = p->spec.gates, B = p->batch;
    const vn_format_t type = vn_format_of(e->in[0].t->dtype), kept = e->contract->result != VN_FMT_NONE ? e->contract->result : type;
    const vn_format_info_t *store = vn_format_info(type), *acc = vn_format_info(e->contract->accumulator),
                           *hidden = vn_format_info(e->contract->intermediate), *given = vn_format_info(kept);
    const bool narrow = store && store->p < acc->p;
    vn_rnn_layer_t l = {.e = e,
                        .kind = p->spec.kind,
                        .gates = (int)G,
                        .steps = p->steps,
                        .batch = B,
                        .in = p->in,
                        .hidden = H,
                        .x = c->x,
                        .x_err = c->x_err,
                        .w = c->w + d * G * H * p->in,
                        .r = c->r + d * G * H * H,
                        .w_turned = p->spec.quantised,
                        .lens = c->lens,
                        .reverse = d == 1 || p->reverse_first,
                        .linear_before_reset = vn_node_int(e->node, "linear_before_reset", 0) != 0,
                        .input_forget = vn_node_int(e->node, "input_forget", 0) != 0,
                        .bound = e->want >= VN_WANT_BOUND,
                        .variance = e->want >= VN_WANT_VARIANCE,
                        .h_format = vn_read_format(e, 0, e->in[0].t->dtype),
                        .mid_format = hidden && hidden->p < acc->p ? e->contract->intermediate : VN_FMT_NONE,
                        .mid_open = e->contract->operand_mask == 0 || (e->contract->operand_mask & BIASES),
                        .u_state = narrow ? store->u : 0,
                        .eta_state = narrow ? store->eta : 0};
    l.rule = (vn_gate_rule_t){.u = acc->u,
                              .eta = e->contract->ftz ? acc->tau : acc->eta,
                              .t_tanh = vn_budget(e, "tanh"),
                              .t_sigmoid = vn_budget(e, "sigmoid"),
                              .t_exp = vn_budget(e, "exp"),
                              .log_max = log(acc->max)};
    memcpy(l.gate, p->gate[d], sizeof l.gate);
    if (c->given) l.given = c->given + d * p->steps * B * H;
    if (c->given && given && given->p < acc->p) l.u_given = given->u, l.eta_given = given->eta, l.given_format = kept;
    if (c->b) {
        l.wb = c->b + (int64_t)d * p->spec.bias_rows * H;
        l.rb = l.wb + G * H;
    }
    if (c->peep) l.peep = c->peep + (int64_t)d * 3 * H;
    if (c->h0) l.h0 = c->h0 + d * B * H;
    if (c->c0) l.c0 = c->c0 + d * B * H;
    return l;
}

static vn_status_t run_again(vn_rnn_layer_t *l) {
    memset(l->y, 0, (size_t)(l->batch * l->hidden * l->steps) * sizeof *l->y);
    return vn_rnn_run(l);
}

/* Bounds are convex in u while no error reaches the range of its function, so 2^-53 / u of them holds for float64 itself (claim RNN-6): up to
 * arguments known within this. */
static double convex_up_to(const vn_rnn_layer_t *l) {
    double steepest = 1;
    for (int k = 0; k < 3; ++k) {
        if (l->gate[k].kind == VN_GATE_THRESHOLDED) return 0;
        steepest = fmax(steepest, fmax(fabs(l->gate[k].alpha), fabs(l->gate[k].beta)));
    }
    return 0.25 / steepest;
}

/* The run in float64's own roundoff. */
static vn_status_t own_error(vn_eval_t *e, const plan_t *p, int d, const vn_rnn_layer_t *layer) {
    vn_rnn_layer_t l = *layer;
    l.variance = false;
    l.u_state = l.eta_state = l.u_given = l.eta_given = 0;
    l.rule.u = 0x1p-53;
    l.rule.eta = 0x1p-1074;
    l.rule.t_tanh = fmax(l.rule.t_tanh, 2);
    l.rule.t_sigmoid = fmax(l.rule.t_sigmoid, 2);
    l.rule.t_exp = fmax(l.rule.t_exp, 2);
    VN_TRY(run_again(&l));
    put_direction(e, p, d, &l, OWN);
    return VN_OK;
}

static vn_status_t direction(vn_eval_t *e, const plan_t *p, const common_t *c, int d, double *const second[3]) {
    vn_rnn_layer_t l = layer_of(e, p, c, d);
    const size_t n = (size_t)(p->batch * p->hidden > 0 ? p->batch * p->hidden : 1);
    l.h = vn_alloc(n, sizeof *l.h);
    l.c = l.kind == 'L' ? vn_alloc(n, sizeof *l.c) : NULL;
    l.y = vn_alloc(n * (size_t)(p->steps ? p->steps : 1), sizeof *l.y);
    vn_status_t s = l.h && l.y && (l.c || l.kind != 'L') ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_rnn_run(&l);
    if (s == VN_OK) put_direction(e, p, d, &l, PLAIN);
    /* An infinite argument is that infinity in every arithmetic. */
    if (s == VN_OK && l.bound && l.rule.u > 0x1p-53 && isfinite(l.most) && l.most >= convex_up_to(&l)) s = own_error(e, p, d, &l);
    if (s == VN_OK && p->spec.quantised && l.bound) {
        l.quantised_x = range_with_zero(c->x, e->in[0].t->count) / 510 * (1 + 0x1p-20);
        l.quantised_h = 2.0 / 510 * (1 + 0x1p-20);
        l.variance = false;
        s = run_again(&l);
        if (s == VN_OK) put_direction(e, p, d, &l, WIDE);
    }
    if (s == VN_OK && (second[0] || second[1] || second[2])) {
        l.gate[2].clip = l.gate[0].clip;
        l.bound = l.variance = false;
        s = run_again(&l);
        if (s == VN_OK) put_reading(e, p, d, &l, second);
    }
    vn_free(l.h);
    vn_free(l.c);
    vn_free(l.y);
    return s;
}

/* ---- elements that float64 leaves open ---- */

/* Where an element stands: in y (t, d, b) or (b, t, d), of states (d, b) or (b, d). */
typedef struct place {
    int64_t t, d, b, k;
} place_t;

static place_t place_of(const plan_t *p, const vn_refine_t *q, int64_t i) {
    const int64_t B = p->batch, D = p->directions, row = q->at[i] / p->hidden;
    return (place_t){.t = q->k > 0         ? 0
                          : p->batch_first ? row / D % p->steps
                                           : row / B / D,
                     .d = p->batch_first ? row % D : row / B % D,
                     .b = !p->batch_first ? row % B
                          : q->k == 0     ? row / D / p->steps
                                          : row / D,
                     .k = q->at[i] % p->hidden};
}

/* Steps of each sample up to the last one that is asked for. Returns whether there are any. */
static bool steps_asked(const plan_t *p, const vn_rnn_layer_t *l, int d, const vn_refine_t *q, int64_t *steps) {
    bool any = false;
    for (int64_t b = 0; b < p->batch; ++b) steps[b] = 0;
    for (int64_t i = 0; i < q->n; ++i) {
        const place_t at = place_of(p, q, i);
        if (at.d != d) continue;
        const int64_t all = l->lens[at.b], due = q->k > 0 ? all : (l->reverse ? all - 1 - at.t : at.t) + 1;
        if (due > steps[at.b] && due <= all) steps[at.b] = due;
        any = true;
    }
    return any;
}

/* Those of direction d among the elements that are asked for. */
static void answer(const plan_t *p, int d, const vn_refine_t *q, const vn_sharp_t *y, const vn_sharp_t *h, const vn_sharp_t *c) {
    const int64_t B = p->batch, H = p->hidden;
    for (int64_t i = 0; i < q->n; ++i) {
        const place_t at = place_of(p, q, i);
        if (at.d != d) continue;
        const vn_sharp_t *from = q->k == 0 ? &y[(at.t * B + at.b) * H + at.k] : q->k == 1 ? &h[at.b * H + at.k] : &c[at.b * H + at.k];
        if (isfinite(from->e) && vn_quad_finite(from->v)) q->out[i] = (vn_exact_t){.value = from->v, .own = from->e};
    }
}

/* Where states or products are rounded to a format on the way the value near a tie is one of two, and stays so. */
static vn_status_t refine(vn_eval_t *e, const plan_t *p, const common_t *c) {
    const int64_t n = p->batch * p->hidden;
    const size_t room = (size_t)(n > 0 ? n : 1);
    int64_t *steps = vn_alloc(room, sizeof *steps);
    vn_status_t s = steps ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int d = 0; d < p->directions && s == VN_OK; ++d) {
        const vn_rnn_layer_t l = layer_of(e, p, c, d);
        if (l.h_format != VN_FMT_NONE || l.mid_format != VN_FMT_NONE || l.x_err) break;
        if (!steps_asked(p, &l, d, e->refine, steps)) continue;
        vn_sharp_t *y = vn_alloc(room * (size_t)(p->steps ? p->steps : 1), sizeof *y), *h = vn_alloc(room, sizeof *h),
                   *cell = l.kind == 'L' ? vn_alloc(room, sizeof *cell) : NULL;
        s = y && h && (cell || l.kind != 'L') ? vn_rnn_exact(&l, steps, vn_format_info(e->refine->format)->u, y, h, cell)
                                              : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        if (s == VN_OK) answer(p, d, e->refine, y, h, cell);
        vn_free(y);
        vn_free(h);
        vn_free(cell);
    }
    vn_free(steps);
    return s;
}

static vn_status_t run(vn_eval_t *e, bag_t *bag, const plan_t *p) {
    common_t c = {0};
    VN_TRY(gather(e, bag, p, &c));
    VN_TRY(gather_given(e, bag, p, &c));
    VN_TRY(outputs(e, p));
    if (e->refine) return refine(e, p, &c);
    const bool clips = p->spec.kind == 'L' && vn_node_attr(e->node, "clip") != NULL;
    double *second[3] = {NULL, NULL, NULL};
    for (int k = 0; clips && k < e->n_out && k < 3; ++k)
        if (e->out[k].value && !(second[k] = buffer(bag, e->out[k].count))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int d = 0; d < p->directions; ++d) VN_TRY(direction(e, p, &c, d, second));
    return clips ? finish_reading(e, second) : VN_OK;
}

static vn_status_t eval(vn_eval_t *e) {
    plan_t p;
    bag_t bag = {.n = 0};
    if (!vn_dtype_is_float(e->in[0].t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "X is %s, not a float type", vn_dtype_name(e->in[0].t->dtype));
    VN_TRY(plan(e, &p));
    vn_status_t s = run(e, &bag, &p);
    for (int i = 0; i < bag.n; ++i) vn_free(bag.items[i]);
    bool doubt = false; /* weights or states with uncertainty: no statement */
    for (int k = 1; k < e->n_in; ++k) doubt |= vn_arg_err(e, k) != NULL;
    for (int k = 0; s == VN_OK && doubt && k < e->n_out; ++k)
        for (int64_t i = 0; e->out[k].bound && i < e->out[k].count; ++i) e->out[k].bound[i] = INFINITY;
    return s;
}

enum { FLAGS = VN_OP_PROPAGATES | VN_OP_STATES | VN_OP_REFINES };

static const vn_op_t rows[] = {
    {"", "RNN", 7, 0, VN_CLASS_COMPOSITE, FLAGS, "RNN-2", eval, infer, 0},
    {"", "GRU", 7, 0, VN_CLASS_COMPOSITE, FLAGS, "RNN-2", eval, infer, 0},
    {"", "LSTM", 7, 0, VN_CLASS_COMPOSITE, FLAGS, "RNN-2", eval, infer, 0},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, 0, VN_CLASS_COMPOSITE, FLAGS, "RNN-2", eval, infer, 0},
};

const vn_family_t vn_family_recurrent = {"recurrent", rows, sizeof rows / sizeof *rows};
