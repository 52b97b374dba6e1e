/* op_control.c -- the control family: If, Loop, Scan, SequenceMap. Bodies are run by the executor (vn_run_items); here stands only which
 * body runs, with which operands, how often, and how its results are put together. What bodies give carries its uncertainty: items.h.
 *
 * Claim CONTROL-1: the branch taken, the number of iterations and the values carried are those of the standard's pseudo-code on the
 * reference trajectory. Scan outputs are the bodies' tensors joined along their axis, bit for bit.
 * Loop without `cond` ignores the body's condition, as the pseudo-code says.
 */
#include <stdio.h>
#include <string.h>

#include "oracle/frame.h"
#include "oracle/items.h"
#include "oracle/move.h"

/* A loop that has not ended by then is refused: a model must not be able to hold the oracle for ever. */
#define MAX_ITERATIONS ((int64_t)1 << 24)

static vn_status_t body_of(vn_eval_t *e, const char *name, const vn_graph_t **g) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    *g = a ? a->g : NULL;
    return *g ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "attribute %s is missing", name);
}

static vn_status_t scalar_item(vn_eval_t *e, vn_dtype_t t, int64_t x, vn_item_t *out) {
    vn_tensor_t *one;
    *out = (vn_item_t){.value = NULL};
    VN_TRY(vn_tensor_new(t, 0, NULL, &one, e->err));
    vn_tensor_set_i64(one, 0, x);
    out->value = vn_value_tensor(one);
    return out->value ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t truth(vn_eval_t *e, const vn_value_t *v, const char *what, bool *out) {
    if (!v || v->kind != VN_VALUE_TENSOR || v->tensor->dtype != VN_BOOL || v->tensor->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%s must be one bool", what);
    *out = vn_tensor_get_i64(v->tensor, 0) != 0;
    return VN_OK;
}

/* ---- what bodies produce, iteration by iteration ---- */

/* Without an iteration only the body's declaration knows type and shape; open dimensions count as 0. */
static vn_status_t series_empty(vn_eval_t *e, const vn_value_info_t *info, int64_t axis, vn_tensor_t **out) {
    const vn_type_t *t = &info->type;
    if (t->kind != VN_TYPE_TENSOR || t->dtype == VN_UNDEFINED)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "no iteration runs and body output %s has no declared type", info->name);
    vn_shape_t s = {.rank = 0};
    int at;
    for (int k = 0; k < t->rank; ++k) VN_TRY(vn_shape_add(e, &s, t->dims[k].value < 0 ? 0 : t->dims[k].value));
    VN_TRY(vn_shape_add(e, &s, 0));
    VN_TRY(vn_eval_axis(e, axis, s.rank, &at));
    for (int k = s.rank - 1; k > at; --k) s.d[k] = s.d[k - 1];
    s.d[at] = 0;
    VN_TRY(vn_shape_check(e, t->dtype, &s));
    return vn_tensor_new(t->dtype, s.rank, s.d, out, e->err);
}

static vn_status_t series_join(vn_eval_t *e, const vn_series_t *s, const vn_value_info_t *info, int64_t axis, vn_item_t *out) {
    *out = (vn_item_t){.value = NULL};
    if (s->n) return vn_series_join(e, s, axis, out);
    vn_tensor_t *t;
    VN_TRY(series_empty(e, info, axis, &t));
    out->value = vn_value_tensor(t);
    return out->value ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t series_out(vn_eval_t *e, int k, const vn_series_t *s, const vn_value_info_t *info, int64_t axis) {
    vn_item_t all;
    VN_TRY(series_join(e, s, info, axis, &all));
    return vn_item_out(e, k, &all);
}

static vn_status_t item_out_copy(vn_eval_t *e, int k, const vn_item_t *i) {
    vn_item_t copy = vn_item_copy(i);
    return vn_item_out(e, k, &copy);
}

/* ---- If ---- */

static vn_status_t eval_if(vn_eval_t *e) {
    const vn_graph_t *g;
    vn_item_t *out;
    bool yes = false;
    if (!vn_has(e, 0)) return vn_eval_fail(e, VN_ERR_SHAPE, "cond is missing");
    vn_value_t *cond = vn_move_value(&e->in[0]);
    vn_status_t s = truth(e, cond, "cond", &yes);
    vn_value_free(cond);
    VN_TRY(s);
    VN_TRY(body_of(e, yes ? "then_branch" : "else_branch", &g));
    VN_TRY(vn_items_new(e, e->n_out, &out));
    s = vn_run_items(e, g, yes ? "then" : "else", 0, NULL, e->n_out, out);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k)
        if (vn_move_wanted(e, k)) s = vn_item_out(e, k, &out[k]);
    vn_items_free(out, e->n_out);
    return s;
}

/* ---- Loop ---- */

typedef struct loop {
    const vn_graph_t *body;
    int carried, scans; /* values carried; scan outputs */
    int64_t trips;      /* -1: no limit */
    bool has_cond, going;
    bool open;           /* some condition of the body was uncertain: so is the number of iterations */
    vn_item_t *state;    /* carried values */
    vn_series_t *series; /* scans entries */
} loop_t;

static vn_status_t loop_open(vn_eval_t *e, loop_t *l) {
    VN_TRY(body_of(e, "body", &l->body));
    l->trips = -1;
    l->going = true;
    l->has_cond = vn_has(e, 1);
    l->carried = e->n_in > 2 ? e->n_in - 2 : 0;
    l->scans = l->body->n_outputs - 1 - l->carried;
    if (l->scans < 0 || l->body->n_inputs < 2 + l->carried || e->n_out > l->carried + l->scans)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the body takes %d and gives %d values; the node carries %d and has %d outputs",
                            l->body->n_inputs, l->body->n_outputs, l->carried, e->n_out);
    if (vn_has(e, 0)) {
        VN_TRY(vn_move_scalar(e, 0, &l->trips));
        if (l->trips < 0) l->trips = 0;
    }
    if (l->has_cond) {
        vn_value_t *c = vn_move_value(&e->in[1]);
        const vn_status_t s = truth(e, c, "cond", &l->going);
        vn_value_free(c);
        VN_TRY(s);
    }
    if (l->trips < 0 && !l->has_cond) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "neither trip count nor condition: the loop never ends");
    VN_TRY(vn_items_new(e, l->carried, &l->state));
    for (int k = 0; k < l->carried; ++k) {
        if (!vn_has(e, k + 2)) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing", k + 2);
        VN_TRY(vn_item_of_arg(e, k + 2, &l->state[k]));
    }
    l->series = vn_alloc((size_t)(l->scans ? l->scans : 1), sizeof *l->series);
    return l->series ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t loop_step(vn_eval_t *e, loop_t *l, int64_t i, vn_item_t *in, vn_item_t *out) {
    char where[40];
    snprintf(where, sizeof where, "body[%lld]", (long long)i);
    vn_status_t s = scalar_item(e, VN_I64, i, &in[0]);
    if (s == VN_OK) s = scalar_item(e, VN_BOOL, l->going, &in[1]);
    for (int k = 0; k < l->carried; ++k) in[k + 2] = l->state[k];
    if (s == VN_OK) s = vn_run_items(e, l->body, where, 2 + l->carried, in, l->body->n_outputs, out);
    vn_item_clear(&in[0]);
    vn_item_clear(&in[1]);
    VN_TRY(s);
    bool going = true;
    s = truth(e, out[0].value, "the body's condition", &going);
    if (l->has_cond) {
        l->going = going;
        l->open |= vn_item_uncertain(&out[0]);
    }
    for (int k = 0; k < l->carried; ++k) {
        vn_item_clear(&l->state[k]);
        l->state[k] = out[1 + k];
        out[1 + k] = (vn_item_t){.value = NULL};
    }
    for (int k = 0; k < l->scans && s == VN_OK; ++k) s = vn_series_add(e, &l->series[k], &out[1 + l->carried + k]);
    for (int k = 0; k < l->body->n_outputs; ++k) vn_item_clear(&out[k]);
    return s;
}

static vn_status_t loop_run(vn_eval_t *e, loop_t *l) {
    vn_item_t *in, *out = NULL;
    VN_TRY(vn_items_new(e, 2 + l->carried, &in));
    vn_status_t s = vn_items_new(e, l->body->n_outputs, &out);
    for (int64_t i = 0; s == VN_OK && l->going && (l->trips < 0 || i < l->trips); ++i) {
        if (i >= MAX_ITERATIONS) s = vn_eval_fail(e, VN_ERR_UNSUPPORTED, "more than %lld iterations", (long long)MAX_ITERATIONS);
        if (s == VN_OK) s = loop_step(e, l, i, in, out);
    }
    vn_free(in); /* holds nothing: the carried values are the state's */
    vn_items_free(out, l->body->n_outputs);
    return s;
}

static vn_status_t eval_loop(vn_eval_t *e) {
    loop_t l = {.trips = -1};
    vn_status_t s = loop_open(e, &l);
    if (s == VN_OK) s = loop_run(e, &l);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        if (k < l.carried) {
            s = item_out_copy(e, k, &l.state[k]);
            continue;
        }
        s = series_out(e, k, &l.series[k - l.carried], &l.body->outputs[1 + k], 0);
    }
    if (s == VN_OK && l.open) s = vn_frame_void(e);
    for (int k = 0; l.series && k < l.scans; ++k) vn_series_free(&l.series[k]);
    vn_free(l.series);
    vn_items_free(l.state, l.carried);
    return s;
}

/* ---- Scan ---- */

typedef struct scan {
    const vn_graph_t *body;
    int first; /* operand of the first state: 1 in opset 8 (sequence_lens), else 0 */
    int states, inputs, outputs;
    int64_t axis_in[64], axis_out[64];
    bool back_in[64], back_out[64];
} scan_t;

static vn_status_t flags_attr(vn_eval_t *e, const char *name, int n, int64_t *axes, bool *flags) {
    int64_t count;
    const int64_t *v = vn_node_ints(e->node, name, &count);
    if (v && count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld entries instead of %d", name, (long long)count, n);
    for (int k = 0; k < n; ++k) {
        if (axes) axes[k] = v ? v[k] : 0;
        if (flags) flags[k] = v && v[k] != 0;
    }
    return VN_OK;
}

static vn_status_t scan_open(vn_eval_t *e, scan_t *c) {
    VN_TRY(body_of(e, "body", &c->body));
    c->first = e->version < 9 ? 1 : 0;
    const int64_t m = vn_node_int(e->node, "num_scan_inputs", 0);
    if (m < 1 || m > 64 || m > e->n_in - c->first) return vn_eval_fail(e, VN_ERR_RANGE, "num_scan_inputs is %lld", (long long)m);
    c->inputs = (int)m;
    c->states = e->n_in - c->first - c->inputs;
    c->outputs = c->body->n_outputs - c->states;
    if (c->outputs < 0 || c->outputs > 64 || c->body->n_inputs < c->states + c->inputs || e->n_out > c->states + c->outputs)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the body takes %d and gives %d values; the node has %d states, %d scan inputs and %d outputs",
                            c->body->n_inputs, c->body->n_outputs, c->states, c->inputs, e->n_out);
    for (int k = c->first; k < e->n_in; ++k) VN_TRY(vn_move_need(e, k)); /* before them, in opset 8: sequence_lens, optional */
    if (e->version < 9) return flags_attr(e, "directions", c->inputs, NULL, c->back_in);
    VN_TRY(flags_attr(e, "scan_input_axes", c->inputs, c->axis_in, NULL));
    VN_TRY(flags_attr(e, "scan_output_axes", c->outputs, c->axis_out, NULL));
    VN_TRY(flags_attr(e, "scan_input_directions", c->inputs, NULL, c->back_in));
    return flags_attr(e, "scan_output_directions", c->outputs, NULL, c->back_out);
}

/* Runs `steps` iterations. state: replaced by the final values. sources: the scan inputs with their axes. */
static vn_status_t scan_run(vn_eval_t *e, const scan_t *c, int64_t steps, const char *prefix, vn_item_t *state, const vn_item_t *sources,
                            const int *axes, vn_series_t *series) {
    const vn_item_t none = {.value = NULL};
    vn_item_t *in, *out = NULL;
    char where[64];
    VN_TRY(vn_items_new(e, c->states + c->inputs, &in));
    vn_status_t s = vn_items_new(e, c->body->n_outputs, &out);
    for (int64_t i = 0; i < steps && s == VN_OK; ++i) {
        snprintf(where, sizeof where, "body[%s%lld]", prefix, (long long)i);
        for (int k = 0; k < c->states; ++k) in[k] = state[k];
        for (int k = 0; k < c->inputs && s == VN_OK; ++k)
            s = vn_item_part(e, &sources[k], axes[k], c->back_in[k] ? steps - 1 - i : i, &in[c->states + k]);
        if (s == VN_OK) s = vn_run_items(e, c->body, where, c->states + c->inputs, in, c->body->n_outputs, out);
        for (int k = 0; k < c->states && s == VN_OK; ++k) {
            vn_item_clear(&state[k]);
            state[k] = out[k];
            out[k] = none;
        }
        for (int k = 0; k < c->outputs && s == VN_OK; ++k) s = vn_series_add(e, &series[k], &out[c->states + k]);
        for (int k = 0; k < c->states; ++k) in[k] = none;
        for (int k = 0; k < c->inputs; ++k) vn_item_clear(&in[c->states + k]);
        for (int k = 0; k < c->body->n_outputs; ++k) vn_item_clear(&out[k]);
    }
    vn_free(in);
    vn_items_free(out, c->body->n_outputs);
    return s;
}

static vn_status_t scan_whole(vn_eval_t *e, const scan_t *c) {
    vn_item_t sources[64] = {{.value = NULL}}, *state;
    int axes[64];
    vn_series_t series[64] = {{.n = 0}};
    int64_t steps = -1;
    VN_TRY(vn_items_new(e, c->states, &state));
    vn_status_t s = VN_OK;
    for (int k = 0; k < c->states && s == VN_OK; ++k) s = vn_item_of_arg(e, k, &state[k]);
    for (int k = 0; k < c->inputs && s == VN_OK; ++k) {
        const vn_tensor_t *t = e->in[c->states + k].t;
        s = vn_eval_axis(e, c->axis_in[k], t->rank, &axes[k]);
        if (s == VN_OK && steps >= 0 && t->dims[axes[k]] != steps) s = vn_eval_fail(e, VN_ERR_SHAPE, "scan input %d has another length", k);
        if (s == VN_OK) steps = t->dims[axes[k]];
        if (s == VN_OK) s = vn_item_of_arg(e, c->states + k, &sources[k]);
    }
    if (s == VN_OK) s = scan_run(e, c, steps, "", state, sources, axes, series);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        if (k < c->states) {
            s = item_out_copy(e, k, &state[k]);
            continue;
        }
        if (c->back_out[k - c->states]) vn_series_reverse(&series[k - c->states]);
        s = series_out(e, k, &series[k - c->states], &c->body->outputs[k], c->axis_out[k - c->states]);
    }
    for (int k = 0; k < 64; ++k) {
        vn_series_free(&series[k]);
        vn_item_clear(&sources[k]);
    }
    vn_items_free(state, c->states);
    return s;
}

/* ---- Scan of opset 8: axis 0 is the batch, axis 1 the sequence, lengths may differ ---- */

/* Appends zero tensors until `steps` parts are there. */
static vn_status_t pad_series(vn_eval_t *e, vn_series_t *s, int64_t steps) {
    while (s->n && s->n < steps) {
        const vn_tensor_t *lead = s->parts[0].value->tensor;
        vn_tensor_t *zero;
        VN_TRY(vn_tensor_new(lead->dtype, lead->rank, lead->dims, &zero, e->err));
        vn_item_t pad = {.value = vn_value_tensor(zero)};
        if (!pad.value) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        const vn_status_t status = vn_series_add(e, s, &pad);
        vn_item_clear(&pad);
        VN_TRY(status);
    }
    return VN_OK;
}

/* Sample b of operand k. */
static vn_status_t sample_of(vn_eval_t *e, int k, int64_t b, vn_item_t *out) {
    vn_item_t whole;
    VN_TRY(vn_item_of_arg(e, k, &whole));
    const vn_status_t s = vn_item_part(e, &whole, 0, b, out);
    vn_item_clear(&whole);
    return s;
}

/* One sample: final states and padded scan outputs go to the per-output series. */
static vn_status_t scan_sample(vn_eval_t *e, const scan_t *c, int64_t b, int64_t length, int64_t steps, vn_series_t *all) {
    vn_item_t sources[64] = {{.value = NULL}}, *state;
    int axes[64] = {0};
    vn_series_t series[64] = {{.n = 0}};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%lld,", (long long)b);
    VN_TRY(vn_items_new(e, c->states, &state));
    vn_status_t s = VN_OK;
    for (int k = 0; k < c->states && s == VN_OK; ++k) s = sample_of(e, c->first + k, b, &state[k]);
    for (int k = 0; k < c->inputs && s == VN_OK; ++k) s = sample_of(e, c->first + c->states + k, b, &sources[k]);
    if (s == VN_OK) s = scan_run(e, c, length, prefix, state, sources, axes, series);
    for (int k = 0; k < c->states && s == VN_OK; ++k) s = vn_series_add(e, &all[k], &state[k]);
    for (int k = 0; k < c->outputs && s == VN_OK; ++k) {
        vn_item_t joined;
        s = pad_series(e, &series[k], steps);
        if (s == VN_OK) s = series_join(e, &series[k], &c->body->outputs[c->states + k], 0, &joined);
        if (s != VN_OK) break;
        s = vn_series_add(e, &all[c->states + k], &joined);
        vn_item_clear(&joined);
    }
    for (int k = 0; k < 64; ++k) {
        vn_series_free(&series[k]);
        vn_item_clear(&sources[k]);
    }
    vn_items_free(state, c->states);
    return s;
}

static vn_status_t scan_batched(vn_eval_t *e, const scan_t *c) {
    const vn_tensor_t *lead = e->in[c->first + c->states].t;
    int64_t *lengths = NULL;
    for (int k = c->first; k < e->n_in; ++k) {
        const vn_tensor_t *t = e->in[k].t;
        const bool scanned = k >= c->first + c->states;
        if (t->rank < (scanned ? 2 : 1) || t->dims[0] != lead->dims[0] || (scanned && t->dims[1] != lead->dims[1]))
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d does not have the common batch and sequence length", k);
    }
    const int64_t batch = lead->dims[0], steps = lead->dims[1];
    if (batch < 1) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "an empty batch");
    if (vn_has(e, 0)) {
        VN_TRY(vn_move_i64(e, 0, &lengths));
        bool fits = e->in[0].t->count == batch;
        for (int64_t b = 0; fits && b < batch; ++b) fits = lengths[b] >= 0 && lengths[b] <= steps;
        if (!fits) {
            vn_free(lengths);
            return vn_eval_fail(e, VN_ERR_RANGE, "sequence_lens does not hold one length up to %lld per sample", (long long)steps);
        }
    }
    const int n = c->states + c->outputs;
    vn_series_t *all = vn_alloc((size_t)(n ? n : 1), sizeof *all);
    vn_status_t s = all ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < batch && s == VN_OK; ++b) s = scan_sample(e, c, b, lengths ? lengths[b] : steps, steps, all);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        s = series_out(e, k, &all[k], &c->body->outputs[k], 0);
        if (s != VN_OK || k < c->states || !lengths) continue;
        if (!e->out[k].flags) s = vn_out_flags(e, k); /* the text does not say what padding holds */
        const int64_t inner = s == VN_OK && steps ? e->out[k].count / (batch * steps) : 0;
        for (int64_t b = 0; b < batch && s == VN_OK; ++b)
            memset(e->out[k].flags + (b * steps + lengths[b]) * inner, VN_EL_VOID, (size_t)((steps - lengths[b]) * inner));
    }
    for (int k = 0; all && k < n; ++k) vn_series_free(&all[k]);
    vn_free(all);
    vn_free(lengths);
    return s;
}

static vn_status_t eval_scan(vn_eval_t *e) {
    scan_t c = {.first = 0};
    VN_TRY(scan_open(e, &c));
    return e->version < 9 ? scan_batched(e, &c) : scan_whole(e, &c);
}

/* ---- SequenceMap ---- */

/* Operands of sample i: items of sequences, tensors as they are. */
static vn_status_t map_operands(vn_eval_t *e, int64_t n, int64_t i, vn_item_t *in) {
    for (int k = 0; k < e->n_in; ++k) {
        const vn_value_t *v = e->in[k].v;
        if (!v || v->kind != VN_VALUE_SEQUENCE) {
            VN_TRY(vn_item_of_arg(e, k, &in[k]));
            continue;
        }
        if (v->count != n)
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld samples, input 0 has %lld", k, (long long)v->count, (long long)n);
        in[k] = (vn_item_t){.value = vn_value_retain(v->items[i])};
    }
    return VN_OK;
}

static vn_status_t map_sample(vn_eval_t *e, const vn_graph_t *body, int64_t n, int64_t i, vn_item_t *out) {
    char where[40];
    vn_item_t *in;
    snprintf(where, sizeof where, "body[%lld]", (long long)i);
    VN_TRY(vn_items_new(e, e->n_in, &in));
    vn_status_t s = map_operands(e, n, i, in);
    if (s == VN_OK) s = vn_run_items(e, body, where, e->n_in, in, e->n_out, out);
    vn_items_free(in, e->n_in);
    return s;
}

/* cell[i * outputs + k]: output k of sample i. */
static vn_status_t map_out(vn_eval_t *e, int k, const vn_graph_t *body, const vn_item_t *cell, int64_t n) {
    const vn_value_t *lead = n ? cell[k].value : NULL;
    const vn_dtype_t elem = !lead ? body->outputs[k].type.dtype : lead->kind == VN_VALUE_TENSOR ? lead->tensor->dtype : lead->elem;
    vn_value_t **items = vn_alloc((size_t)(n ? n : 1), sizeof *items);
    if (!items) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_item_t list = {.value = NULL};
    for (int64_t i = 0; i < n; ++i) {
        items[i] = cell[i * e->n_out + k].value;
        list.open |= vn_item_uncertain(&cell[i * e->n_out + k]);
    }
    list.value = vn_value_list(VN_VALUE_SEQUENCE, elem, items, n);
    vn_free(items);
    return list.value ? vn_item_out(e, k, &list) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t eval_sequence_map(vn_eval_t *e) {
    const vn_graph_t *body;
    VN_TRY(body_of(e, "body", &body));
    if (!vn_has(e, 0) || !e->in[0].v || e->in[0].v->kind != VN_VALUE_SEQUENCE)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is not a sequence");
    if (e->n_out > body->n_outputs)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the body gives %d values, the node has %d outputs", body->n_outputs, e->n_out);
    const int64_t n = e->in[0].v->count;
    int64_t cells;
    vn_item_t *cell;
    if (!vn_i64_mul(n, e->n_out, &cells)) return vn_eval_fail(e, VN_ERR_RANGE, "too many samples");
    VN_TRY(vn_items_new(e, cells, &cell));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) s = map_sample(e, body, n, i, cell + i * e->n_out);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k)
        if (vn_move_wanted(e, k)) s = map_out(e, k, body, cell, n);
    vn_items_free(cell, cells);
    return s;
}

static const vn_op_t rows[] = {
    {"", "If", 1, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_if, NULL, 0},
    {"", "Loop", 1, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_loop, NULL, 0},
    {"", "Scan", 8, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_scan, NULL, 0},
    {"", "SequenceMap", 17, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_sequence_map, NULL, 0},
};

const vn_family_t vn_family_control = {"control", rows, sizeof rows / sizeof *rows};
