/* op_control.c -- the control family: If, Loop, Scan, SequenceMap. Bodies are run by the executor (vn_run_body); here stands only which
 * body runs, with which operands, how often, and how its results are put together.
 *
 * Claim CONTROL-1: the branch taken, the number of iterations and the values carried are those of the standard's pseudo-code on the
 * reference trajectory. Scan outputs are the bodies' tensors joined along their axis, bit for bit.
 * Loop without `cond` ignores the body's condition, as the pseudo-code says.
 */
#include <stdio.h>
#include <string.h>

#include "oracle/move.h"

/* A loop that has not ended by then is refused: a model must not be able to hold the oracle for ever. */
#define MAX_ITERATIONS ((int64_t)1 << 24)

static vn_status_t body_of(vn_eval_t *e, const char *name, const vn_graph_t **g) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    *g = a ? a->g : NULL;
    return *g ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "attribute %s is missing", name);
}

static vn_status_t scalar_value(vn_eval_t *e, vn_dtype_t t, int64_t x, vn_value_t **out) {
    vn_tensor_t *one;
    VN_TRY(vn_tensor_new(t, 0, NULL, &one, e->err));
    vn_tensor_set_i64(one, 0, x);
    *out = vn_value_tensor(one);
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t truth(vn_eval_t *e, const vn_value_t *v, const char *what, bool *out) {
    if (!v || v->kind != VN_VALUE_TENSOR || v->tensor->dtype != VN_BOOL || v->tensor->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%s must be one bool", what);
    *out = vn_tensor_get_i64(v->tensor, 0) != 0;
    return VN_OK;
}

static void values_free(vn_value_t **v, int64_t n) {
    for (int64_t i = 0; v && i < n; ++i) vn_value_free(v[i]);
    vn_free(v);
}

static vn_status_t values_new(vn_eval_t *e, int64_t n, vn_value_t ***out) {
    *out = vn_alloc((size_t)(n > 0 ? n : 1), sizeof **out);
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld values", (long long)n);
}

/* ---- what bodies produce, iteration by iteration ---- */

typedef struct series {
    vn_tensor_t **parts;
    int64_t n, room;
} series_t;

static vn_status_t series_add(vn_eval_t *e, series_t *s, const vn_value_t *v) {
    if (v->kind != VN_VALUE_TENSOR) return vn_eval_fail(e, VN_ERR_DTYPE, "a scan output must be a tensor");
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 16;
        vn_tensor_t **more = vn_realloc(s->parts, (size_t)room, sizeof *more);
        if (!more) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld iterations", (long long)room);
        s->parts = more;
        s->room = room;
    }
    VN_TRY(vn_tensor_contiguous(v->tensor, &s->parts[s->n], e->err));
    ++s->n;
    return VN_OK;
}

static void series_free(series_t *s) {
    for (int64_t i = 0; i < s->n; ++i) vn_tensor_free(s->parts[i]);
    vn_free(s->parts);
    *s = (series_t){.n = 0};
}

static void series_reverse(series_t *s) {
    for (int64_t i = 0; i < s->n / 2; ++i) {
        vn_tensor_t *t = s->parts[i];
        s->parts[i] = s->parts[s->n - 1 - i];
        s->parts[s->n - 1 - i] = t;
    }
}

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

static vn_status_t series_join(vn_eval_t *e, const series_t *s, const vn_value_info_t *info, int64_t axis, vn_tensor_t **out) {
    *out = NULL;
    if (s->n == 0) return series_empty(e, info, axis, out);
    return vn_move_join(e, (int)s->n, (const vn_tensor_t *const *)s->parts, axis, true, out);
}

/* ---- If ---- */

static vn_status_t eval_if(vn_eval_t *e) {
    const vn_graph_t *g;
    vn_value_t *cond, **out;
    bool yes = false;
    if (!vn_has(e, 0)) return vn_eval_fail(e, VN_ERR_SHAPE, "cond is missing");
    cond = vn_move_value(&e->in[0]);
    vn_status_t s = truth(e, cond, "cond", &yes);
    vn_value_free(cond);
    VN_TRY(s);
    VN_TRY(body_of(e, yes ? "then_branch" : "else_branch", &g));
    VN_TRY(values_new(e, e->n_out, &out));
    s = vn_run_body(e, g, yes ? "then" : "else", 0, NULL, e->n_out, out);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k)
        if (vn_move_wanted(e, k)) s = vn_move_out_value(e, k, vn_value_retain(out[k]));
    values_free(out, e->n_out);
    return s;
}

/* ---- Loop ---- */

typedef struct loop {
    const vn_graph_t *body;
    int carried, scans; /* values carried; scan outputs */
    int64_t trips;      /* -1: no limit */
    bool has_cond, going;
    vn_value_t **state; /* carried values */
    series_t *series;   /* scans entries */
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
    VN_TRY(values_new(e, l->carried, &l->state));
    for (int k = 0; k < l->carried; ++k) {
        if (!vn_has(e, k + 2)) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing", k + 2);
        if (!(l->state[k] = vn_move_value(&e->in[k + 2]))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    l->series = vn_alloc((size_t)(l->scans ? l->scans : 1), sizeof *l->series);
    return l->series ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

static vn_status_t loop_step(vn_eval_t *e, loop_t *l, int64_t i, vn_value_t **in, vn_value_t **out) {
    char where[40];
    snprintf(where, sizeof where, "body[%lld]", (long long)i);
    vn_status_t s = scalar_value(e, VN_I64, i, &in[0]);
    if (s == VN_OK) s = scalar_value(e, VN_BOOL, l->going, &in[1]);
    for (int k = 0; k < l->carried; ++k) in[k + 2] = l->state[k];
    if (s == VN_OK) s = vn_run_body(e, l->body, where, 2 + l->carried, (const vn_value_t *const *)in, l->body->n_outputs, out);
    vn_value_free(in[0]);
    vn_value_free(in[1]);
    in[0] = in[1] = NULL;
    VN_TRY(s);
    bool going = true;
    s = truth(e, out[0], "the body's condition", &going);
    if (l->has_cond) l->going = going;
    for (int k = 0; k < l->carried; ++k) {
        vn_value_free(l->state[k]);
        l->state[k] = out[1 + k];
        out[1 + k] = NULL;
    }
    for (int k = 0; k < l->scans && s == VN_OK; ++k) s = series_add(e, &l->series[k], out[1 + l->carried + k]);
    for (int k = 0; k < l->body->n_outputs; ++k) {
        vn_value_free(out[k]);
        out[k] = NULL;
    }
    return s;
}

static vn_status_t loop_run(vn_eval_t *e, loop_t *l) {
    vn_value_t **in, **out;
    VN_TRY(values_new(e, 2 + l->carried, &in));
    vn_status_t s = values_new(e, l->body->n_outputs, &out);
    for (int64_t i = 0; s == VN_OK && l->going && (l->trips < 0 || i < l->trips); ++i) {
        if (i >= MAX_ITERATIONS) s = vn_eval_fail(e, VN_ERR_UNSUPPORTED, "more than %lld iterations", (long long)MAX_ITERATIONS);
        if (s == VN_OK) s = loop_step(e, l, i, in, out);
    }
    vn_free(in); /* holds nothing: the carried values are the state's */
    if (out) values_free(out, l->body->n_outputs);
    return s;
}

static vn_status_t eval_loop(vn_eval_t *e) {
    loop_t l = {.trips = -1};
    vn_status_t s = loop_open(e, &l);
    if (s == VN_OK) s = loop_run(e, &l);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        if (k < l.carried) {
            s = vn_move_out_value(e, k, vn_value_retain(l.state[k]));
            continue;
        }
        vn_tensor_t *t;
        s = series_join(e, &l.series[k - l.carried], &l.body->outputs[1 + k], 0, &t);
        if (s == VN_OK) s = vn_out_tensor(e, k, t);
    }
    for (int k = 0; l.series && k < l.scans; ++k) series_free(&l.series[k]);
    vn_free(l.series);
    values_free(l.state, l.carried);
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
    for (int k = c->first; k < e->n_in; ++k) VN_TRY(vn_move_need(e, k));
    if (e->version < 9) return flags_attr(e, "directions", c->inputs, NULL, c->back_in);
    VN_TRY(flags_attr(e, "scan_input_axes", c->inputs, c->axis_in, NULL));
    VN_TRY(flags_attr(e, "scan_output_axes", c->outputs, c->axis_out, NULL));
    VN_TRY(flags_attr(e, "scan_input_directions", c->inputs, NULL, c->back_in));
    return flags_attr(e, "scan_output_directions", c->outputs, NULL, c->back_out);
}

/* Runs `steps` iterations. state: replaced by the final values. sources: the scan inputs with their axes. */
static vn_status_t scan_run(vn_eval_t *e, const scan_t *c, int64_t steps, const char *prefix, vn_value_t **state,
                            const vn_tensor_t *const *sources, const int *axes, series_t *series) {
    vn_value_t **in, **out = NULL;
    char where[64];
    VN_TRY(values_new(e, c->states + c->inputs, &in));
    vn_status_t s = values_new(e, c->body->n_outputs, &out);
    for (int64_t i = 0; i < steps && s == VN_OK; ++i) {
        snprintf(where, sizeof where, "body[%s%lld]", prefix, (long long)i);
        for (int k = 0; k < c->states; ++k) in[k] = state[k];
        for (int k = 0; k < c->inputs && s == VN_OK; ++k) {
            vn_tensor_t *part;
            s = vn_move_part(e, sources[k], axes[k], c->back_in[k] ? steps - 1 - i : i, 1, true, &part);
            if (s == VN_OK && !(in[c->states + k] = vn_value_tensor(part))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        }
        if (s == VN_OK) s = vn_run_body(e, c->body, where, c->states + c->inputs, (const vn_value_t *const *)in, c->body->n_outputs, out);
        for (int k = 0; k < c->states && s == VN_OK; ++k) {
            vn_value_free(state[k]);
            state[k] = out[k];
            out[k] = NULL;
        }
        for (int k = 0; k < c->outputs && s == VN_OK; ++k) s = series_add(e, &series[k], out[c->states + k]);
        for (int k = 0; k < c->states; ++k) in[k] = NULL;
        for (int k = 0; k < c->inputs; ++k) {
            vn_value_free(in[c->states + k]);
            in[c->states + k] = NULL;
        }
        for (int k = 0; k < c->body->n_outputs; ++k) {
            vn_value_free(out[k]);
            out[k] = NULL;
        }
    }
    vn_free(in);
    if (out) values_free(out, c->body->n_outputs);
    return s;
}

static vn_status_t scan_whole(vn_eval_t *e, const scan_t *c) {
    const vn_tensor_t *sources[64];
    int axes[64];
    series_t series[64] = {{.n = 0}};
    vn_value_t **state;
    int64_t steps = -1;
    VN_TRY(values_new(e, c->states, &state));
    vn_status_t s = VN_OK;
    for (int k = 0; k < c->states && s == VN_OK; ++k)
        if (!(state[k] = vn_move_value(&e->in[k]))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < c->inputs && s == VN_OK; ++k) {
        sources[k] = e->in[c->states + k].t;
        s = vn_eval_axis(e, c->axis_in[k], sources[k]->rank, &axes[k]);
        if (s == VN_OK && steps >= 0 && sources[k]->dims[axes[k]] != steps)
            s = vn_eval_fail(e, VN_ERR_SHAPE, "scan input %d has another length", k);
        if (s == VN_OK) steps = sources[k]->dims[axes[k]];
    }
    if (s == VN_OK) s = scan_run(e, c, steps, "", state, sources, axes, series);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        if (k < c->states) {
            s = vn_move_out_value(e, k, vn_value_retain(state[k]));
            continue;
        }
        vn_tensor_t *t;
        if (c->back_out[k - c->states]) series_reverse(&series[k - c->states]);
        s = series_join(e, &series[k - c->states], &c->body->outputs[k], c->axis_out[k - c->states], &t);
        if (s == VN_OK) s = vn_out_tensor(e, k, t);
    }
    for (int k = 0; k < 64; ++k) series_free(&series[k]);
    values_free(state, c->states);
    return s;
}

/* ---- Scan of opset 8: axis 0 is the batch, axis 1 the sequence, lengths may differ ---- */

/* Appends zero tensors until `steps` parts are there. */
static vn_status_t pad_series(vn_eval_t *e, series_t *s, int64_t steps) {
    while (s->n && s->n < steps) {
        vn_tensor_t *zero;
        VN_TRY(vn_tensor_new(s->parts[0]->dtype, s->parts[0]->rank, s->parts[0]->dims, &zero, e->err));
        vn_value_t *v = vn_value_tensor(zero);
        if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        const vn_status_t status = series_add(e, s, v);
        vn_value_free(v);
        VN_TRY(status);
    }
    return VN_OK;
}

/* One sample: final states and padded scan outputs go to the per-output series. */
static vn_status_t scan_sample(vn_eval_t *e, const scan_t *c, int64_t b, int64_t length, int64_t steps, series_t *all) {
    vn_tensor_t *hold[64] = {NULL};
    int axes[64] = {0};
    series_t series[64] = {{.n = 0}};
    vn_value_t **state;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%lld,", (long long)b);
    VN_TRY(values_new(e, c->states, &state));
    vn_status_t s = VN_OK;
    for (int k = 0; k < c->states && s == VN_OK; ++k) {
        vn_tensor_t *part;
        s = vn_move_part(e, e->in[c->first + k].t, 0, b, 1, true, &part);
        if (s == VN_OK && !(state[k] = vn_value_tensor(part))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    for (int k = 0; k < c->inputs && s == VN_OK; ++k) s = vn_move_part(e, e->in[c->first + c->states + k].t, 0, b, 1, true, &hold[k]);
    if (s == VN_OK) s = scan_run(e, c, length, prefix, state, (const vn_tensor_t *const *)hold, axes, series);
    for (int k = 0; k < c->states && s == VN_OK; ++k) s = series_add(e, &all[k], state[k]);
    for (int k = 0; k < c->outputs && s == VN_OK; ++k) {
        vn_tensor_t *t;
        s = pad_series(e, &series[k], steps);
        if (s == VN_OK) s = series_join(e, &series[k], &c->body->outputs[c->states + k], 0, &t);
        if (s != VN_OK) break;
        vn_value_t *v = vn_value_tensor(t);
        s = v ? series_add(e, &all[c->states + k], v) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        vn_value_free(v);
    }
    for (int k = 0; k < 64; ++k) {
        series_free(&series[k]);
        vn_tensor_free(hold[k]);
    }
    values_free(state, c->states);
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
    series_t *all = vn_alloc((size_t)(n ? n : 1), sizeof *all);
    vn_status_t s = all ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < batch && s == VN_OK; ++b) s = scan_sample(e, c, b, lengths ? lengths[b] : steps, steps, all);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        vn_tensor_t *t;
        s = series_join(e, &all[k], &c->body->outputs[k], 0, &t);
        if (s == VN_OK) s = vn_out_tensor(e, k, t);
        if (s != VN_OK || k < c->states || !lengths) continue;
        s = vn_out_flags(e, k); /* the text does not say what padding holds */
        const int64_t inner = s == VN_OK && steps ? e->out[k].count / (batch * steps) : 0;
        for (int64_t b = 0; b < batch && s == VN_OK; ++b)
            memset(e->out[k].flags + (b * steps + lengths[b]) * inner, VN_EL_VOID, (size_t)((steps - lengths[b]) * inner));
    }
    for (int k = 0; all && k < n; ++k) series_free(&all[k]);
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
static vn_status_t map_operands(vn_eval_t *e, int64_t n, int64_t i, vn_value_t **in) {
    for (int k = 0; k < e->n_in; ++k) {
        const vn_value_t *v = e->in[k].v;
        const bool list = v && v->kind == VN_VALUE_SEQUENCE;
        if (list && v->count != n)
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld samples, input 0 has %lld", k, (long long)v->count, (long long)n);
        in[k] = list ? vn_value_retain(v->items[i]) : vn_move_value(&e->in[k]);
        if (!in[k]) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing", k);
    }
    return VN_OK;
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
    if (!vn_i64_mul(n, e->n_out, &cells)) return vn_eval_fail(e, VN_ERR_RANGE, "too many samples");
    vn_value_t **cell, **in = NULL, **out = NULL; /* cell[k * n + i]: output k of sample i */
    VN_TRY(values_new(e, cells, &cell));
    vn_status_t s = values_new(e, e->n_out, &out);
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        char where[40];
        snprintf(where, sizeof where, "body[%lld]", (long long)i);
        s = values_new(e, e->n_in, &in);
        if (s == VN_OK) s = map_operands(e, n, i, in);
        if (s == VN_OK) s = vn_run_body(e, body, where, e->n_in, (const vn_value_t *const *)in, e->n_out, out);
        for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
            cell[k * n + i] = out[k];
            out[k] = NULL;
        }
        values_free(in, e->n_in);
        in = NULL;
    }
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        const vn_value_t *lead = n ? cell[k * n] : NULL;
        const vn_dtype_t elem = !lead ? body->outputs[k].type.dtype : lead->kind == VN_VALUE_TENSOR ? lead->tensor->dtype : lead->elem;
        if (vn_move_wanted(e, k)) s = vn_move_out_value(e, k, vn_value_list(VN_VALUE_SEQUENCE, elem, cell + k * n, n));
    }
    values_free(out, e->n_out);
    values_free(cell, cells);
    return s;
}

static const vn_op_t rows[] = {
    {"", "If", 1, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_if, NULL, 0},
    {"", "Loop", 1, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_loop, NULL, 0},
    {"", "Scan", 8, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_scan, NULL, 0},
    {"", "SequenceMap", 17, 0, VN_CLASS_CONTROL, 0, "CONTROL-1", eval_sequence_map, NULL, 0},
};

const vn_family_t vn_family_control = {"control", rows, sizeof rows / sizeof *rows};
