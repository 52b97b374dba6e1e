/* op_recurrent.c -- LSTM, GRU, RNN with their usual activations: every step two products of sums.c, every operation rounded. */
#include <string.h>

#include "mutant.h"

enum { RNN, GRU, LSTM };

typedef struct layer {
    int kind, gates;
    bool wide, before_reset;
    int64_t length, batch, input, hidden, directions;
    const double *w, *r, *b; /* of one direction: [gates hidden][input], [gates hidden][hidden], [2 gates hidden] or NULL */
} layer_t;

static double biased(const call_t *c, const layer_t *l, double x, double bias) {
    const int times = faulty(c, F_BIAS_MISSING) ? 0 : faulty(c, F_BIAS_TWICE) ? 2 : 1;
    for (int t = 0; l->b && t < times; ++t) x = settle(l->wide, x + bias);
    return x;
}

/* out[batch][rows] = x[batch][k] m[rows][k]^T */
static vn_status_t times_transposed(const call_t *c, const layer_t *l, const double *x, const double *m, int64_t rows, int64_t k,
                                    double *out) {
    double *a = room_for(c, l->batch * k), *b = room_for(c, k * rows);
    vn_status_t s = a && b ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK) {
        memcpy(a, x, (size_t)(l->batch * k) * sizeof *a);
        for (int64_t i = 0; i < rows * k; ++i) b[i % k * rows + i / k] = m[i];
        s = product(c, l->wide, l->batch, k, rows, a, b, out);
    }
    vn_free(a);
    vn_free(b);
    return s;
}

static double gate_sum(const call_t *c, const layer_t *l, const double *gx, const double *gh, int64_t i, int gate) {
    const int64_t n = l->hidden, row = i / n * l->gates * n + gate * n + i % n, at = gate * n + i % n;
    const double wb = l->b ? l->b[at] : 0, rb = l->b ? l->b[l->gates * n + at] : 0;
    return settle(l->wide, biased(c, l, gx[row], wb) + biased(c, l, gh[row], rb));
}

static void lstm_step(const call_t *c, const layer_t *l, const double *gx, const double *gh, double *h, double *cell) {
    for (int64_t i = 0; i < l->batch * l->hidden; ++i) { /* gates i o f c */
        const double in = fn_sigmoid(c, l->wide, gate_sum(c, l, gx, gh, i, 0)), out = fn_sigmoid(c, l->wide, gate_sum(c, l, gx, gh, i, 1)),
                     keep = fn_sigmoid(c, l->wide, gate_sum(c, l, gx, gh, i, 2)), fresh = fn_tanh(c, l->wide, gate_sum(c, l, gx, gh, i, 3));
        cell[i] = settle(l->wide, settle(l->wide, keep * cell[i]) + settle(l->wide, in * fresh));
        h[i] = settle(l->wide, out * fn_tanh(c, l->wide, cell[i]));
    }
}

static void rnn_step(const call_t *c, const layer_t *l, const double *gx, const double *gh, double *h) {
    for (int64_t i = 0; i < l->batch * l->hidden; ++i) h[i] = fn_tanh(c, l->wide, gate_sum(c, l, gx, gh, i, 0));
}

/* Gates z r h. The candidate's recurrent part is r . (H R^T + b), or (r . H) R^T + b. */
static vn_status_t gru_step(const call_t *c, const layer_t *l, const double *gx, const double *gh, double *h) {
    const int64_t n = l->hidden, count = l->batch * n;
    double *reset = room_for(c, count), *part = room_for(c, count);
    vn_status_t s = reset && part ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        const double r = fn_sigmoid(c, l->wide, gate_sum(c, l, gx, gh, i, 1));
        reset[i] = l->before_reset ? r : settle(l->wide, r * h[i]);
    }
    if (s == VN_OK && !l->before_reset) s = times_transposed(c, l, reset, l->r + 2 * n * n, n, n, part);
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        const int64_t row = i / n * 3 * n + 2 * n + i % n, at = 2 * n + i % n;
        const double wb = l->b ? l->b[at] : 0, rb = l->b ? l->b[3 * n + at] : 0;
        const double recurrent = l->before_reset ? settle(l->wide, reset[i] * biased(c, l, gh[row], rb)) : biased(c, l, part[i], rb);
        const double fresh = fn_tanh(c, l->wide, settle(l->wide, biased(c, l, gx[row], wb) + recurrent)),
                     z = fn_sigmoid(c, l->wide, gate_sum(c, l, gx, gh, i, 0));
        part[i] = settle(l->wide, settle(l->wide, settle(l->wide, 1 - z) * fresh) + settle(l->wide, z * h[i]));
    }
    if (s == VN_OK) memcpy(h, part, (size_t)count * sizeof *h);
    vn_free(reset);
    vn_free(part);
    return s;
}

/* One direction over all steps; y[length][directions][batch][hidden] from this direction's first element on. */
static vn_status_t run_steps(const call_t *c, const layer_t *l, bool backwards, const double *x, double *h, double *cell, double *y) {
    const int64_t rows = l->gates * l->hidden, count = l->batch * l->hidden;
    double *gx = room_for(c, l->batch * rows), *gh = room_for(c, l->batch * rows);
    vn_status_t s = gx && gh ? VN_OK : VN_ERR_NOMEM;
    for (int64_t t = 0; s == VN_OK && t < l->length; ++t) {
        const int64_t at = backwards ? l->length - 1 - t : t, to = faulty(c, F_TIME_REVERSED) ? t : at;
        s = times_transposed(c, l, x + at * l->batch * l->input, l->w, rows, l->input, gx);
        if (s == VN_OK) s = times_transposed(c, l, h, l->r, rows, l->hidden, gh);
        if (s != VN_OK) break;
        if (l->kind == LSTM) lstm_step(c, l, gx, gh, h, cell);
        else if (l->kind == GRU) s = gru_step(c, l, gx, gh, h);
        else rnn_step(c, l, gx, gh, h);
        if (s == VN_OK) memcpy(y + to * l->directions * count, h, (size_t)count * sizeof *y);
    }
    vn_free(gx);
    vn_free(gh);
    return s;
}

static vn_status_t read_layer(const call_t *c, layer_t *l) {
    static const int gates[] = {[RNN] = 1, [GRU] = 3, [LSTM] = 4};
    l->kind = c->param;
    l->gates = gates[c->param];
    const vn_tensor_t *x = c->in[0], *w = c->in[1], *r = c->in[2];
    if (given(c, 4) || given(c, 7) || vn_node_attr(c->node, "clip") || vn_node_attr(c->node, "activations") ||
        vn_node_int(c->node, "layout", 0) || vn_node_int(c->node, "input_forget", 0))
        return refuse(c, "lengths, peepholes, clipping, other activations or another layout");
    if (x->rank != 3 || w->rank != 3 || r->rank != 3) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks", c->node->path);
    l->wide = is_wide(x->dtype);
    l->length = x->dims[0];
    l->batch = x->dims[1];
    l->input = x->dims[2];
    l->directions = w->dims[0];
    l->hidden = r->dims[2];
    l->before_reset = attr_int(c, "linear_before_reset", 0) != 0;
    if (w->dims[1] != l->gates * l->hidden || w->dims[2] != l->input || r->dims[0] != l->directions || r->dims[1] != w->dims[1] ||
        (given(c, 3) && c->in[3]->count != l->directions * 2 * l->gates * l->hidden) ||
        (given(c, 5) && c->in[5]->count != l->directions * l->batch * l->hidden) ||
        (given(c, 6) && c->in[6]->count != l->directions * l->batch * l->hidden))
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: weights or states do not fit", c->node->path);
    return VN_OK;
}

static vn_status_t run_recurrent(call_t *c) {
    for (int k = 0; k < 3; ++k) VN_TRY(need_float(c, k));
    layer_t l = {0};
    VN_TRY(read_layer(c, &l));
    const char *direction = vn_node_string(c->node, "direction", "forward");
    const bool reverse = strcmp(direction, "reverse") == 0;
    const int64_t count = l.batch * l.hidden, rows = l.gates * l.hidden;
    double *x = plane(c, c->in[0]), *w = plane(c, c->in[1]), *r = plane(c, c->in[2]), *b = given(c, 3) ? plane(c, c->in[3]) : NULL,
           *h = given(c, 5) ? plane(c, c->in[5]) : room_for(c, l.directions * count),
           *cell = given(c, 6) && l.kind == LSTM ? plane(c, c->in[6]) : room_for(c, l.directions * count),
           *y = room_for(c, l.length * l.directions * count);
    vn_status_t s = x && w && r && (b || !given(c, 3)) && h && cell && y ? VN_OK : VN_ERR_NOMEM;
    for (int64_t d = 0; s == VN_OK && d < l.directions; ++d) {
        l.w = w + d * rows * l.input;
        l.r = r + d * rows * l.hidden;
        l.b = b ? b + d * 2 * rows : NULL;
        s = run_steps(c, &l, reverse || d == 1, x, h + d * count, cell + d * count, y + d * count);
    }
    vn_free(x);
    vn_free(w);
    vn_free(r);
    vn_free(b);
    const int64_t dims[4] = {l.length, l.directions, l.batch, l.hidden};
    double *const planes[] = {y, h, cell};
    for (int k = 0; k < 3; ++k) {
        if (s != VN_OK || k >= c->n_out || (k == 2 && l.kind != LSTM)) vn_free(planes[k]);
        else s = put_plane(c, k, c->in[0]->dtype, k ? 3 : 4, k ? dims + 1 : dims, planes[k]);
    }
    return s;
}

static const op_row_t rows[] = {{"RNN", run_recurrent, RNN}, {"GRU", run_recurrent, GRU}, {"LSTM", run_recurrent, LSTM}};
const op_table_t recurrent_ops = {rows, sizeof rows / sizeof *rows};
