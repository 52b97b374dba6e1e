/* semantic_recurrent.c -- LSTM, GRU, RNN: states and lengths that were not read, gates in another order, weights of the other direction, steps in
 * processing order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES };

typedef struct net {
    vn_variant_t *v;
    int gates;
    int64_t directions, hidden, steps, batch;
    bool batch_first, backward[2];
} net_t;

static bool read_net(vn_variant_t *v, net_t *n) {
    *n = (net_t){.v = v};
    n->gates = vn_variant_is(v, "", "LSTM") ? 4 : vn_variant_is(v, "", "GRU") ? 3 : vn_variant_is(v, "", "RNN") ? 1 : 0;
    const vn_tensor_t *r = vn_variant_operand(v, R);
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    if (!n->gates || !r || r->rank != 3 || r->dims[1] % n->gates || !vn_variant_shape(v, X, &type, &rank, dims) || rank != 3) return false;
    const char *direction = vn_node_string(v->node, "direction", "forward");
    n->directions = r->dims[0];
    n->hidden = r->dims[1] / n->gates;
    n->batch_first = vn_node_int(v->node, "layout", 0) != 0;
    n->steps = dims[n->batch_first ? 1 : 0];
    n->batch = dims[n->batch_first ? 0 : 1];
    n->backward[0] = strcmp(direction, "reverse") == 0;
    n->backward[1] = n->directions == 2;
    return n->directions >= 1 && n->directions <= 2 && n->hidden > 0 && n->steps > 0 && n->batch > 0;
}

static vn_status_t dropped(const net_t *n, int k, int also, const char *cause, const char *words, vn_error_t *err) {
    if (!vn_variant_operand(n->v, k) || (also >= 0 && !vn_variant_operand(n->v, also))) return VN_OK;
    VN_TRY(vn_variant_drop_input(n->v, k, err));
    if (also >= 0) VN_TRY(vn_variant_drop_input(n->v, also, err));
    return vn_variant_ask(n->v, VN_BUG, cause, NULL, err, "The whole result comes out %s.", words);
}

static vn_status_t operands(const net_t *n, vn_error_t *err) {
    VN_TRY(dropped(n, LENGTHS, -1, "mask-ignored", "if sequence_lens is ignored: padding steps take part", err));
    VN_TRY(dropped(n, INITIAL_H, -1, "state-ignored", "from a hidden state of zeros: initial_h is ignored", err));
    VN_TRY(dropped(n, INITIAL_C, -1, "state-ignored", "from a cell state of zeros: initial_c is ignored", err));
    VN_TRY(dropped(n, INITIAL_H, INITIAL_C, "state-ignored", "from states of zeros: initial_h and initial_c are ignored", err));
    VN_TRY(dropped(n, PEEPHOLES, -1, "term-dropped", "without the peephole weights", err));
    return dropped(n, B, -1, "bias-missing", "without the biases", err);
}

/* A copy of operand k with zeros in half `half` of the biases of each direction. */
static vn_status_t half_bias(const net_t *n, int half, vn_error_t *err) {
    const vn_tensor_t *b = vn_variant_operand(n->v, B);
    vn_tensor_t *t;
    const int64_t part = n->gates * n->hidden;
    if (!b || b->count != n->directions * 2 * part) return VN_OK;
    VN_TRY(vn_tensor_copy(b, &t, err));
    for (int64_t i = 0; i < t->count; ++i)
        if (i / part % 2 == half) vn_tensor_set_f64(t, i, 0);
    VN_TRY(vn_variant_input(n->v, B, t, err));
    return vn_variant_ask(n->v, VN_BUG, "bias-missing", NULL, err, "The whole result comes out without the %s half of the biases (%s).",
                          half ? "second" : "first", half ? "Rb" : "Wb");
}

/* Operand k with its gate blocks of `hidden` rows in another order, or with those of direction `from` in both directions. */
static vn_status_t reorder(const net_t *n, int k, const int *order, int from, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(n->v, k);
    vn_tensor_t *out;
    if (!t) return VN_OK;
    VN_TRY(vn_tensor_copy(t, &out, err));
    const int64_t line = k == B ? 1 : t->dims[2], per = t->count / n->directions, rows = per / line;
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t d = i / per, row = i / line % rows, gate = row / n->hidden, group = gate / n->gates * n->gates;
        const int64_t source = from >= 0 ? from : d, to_row = order ? (group + order[gate % n->gates]) * n->hidden + row % n->hidden : row;
        vn_tensor_set_f64(out, i, vn_tensor_get_f64(t, source * per + to_row * line + i % line));
    }
    return vn_variant_input(n->v, k, out, err);
}

static vn_status_t gate_orders(const net_t *n, vn_error_t *err) {
    static const char *const names[2] = {"iofc", "zrh"};
    int order[4];
    const int all = n->gates == 4 ? 256 : n->gates == 3 ? 27 : 0;
    for (int code = 0; code < all; ++code) {
        int seen = 0, moved = 0;
        char text[8] = "";
        for (int g = 0, rest = code; g < n->gates; ++g, rest /= n->gates) {
            order[g] = rest % n->gates;
            seen |= 1 << order[g];
            moved += order[g] != g;
            text[g] = names[n->gates == 3][order[g]];
        }
        if (seen != (1 << n->gates) - 1 || !moved) continue;
        for (int k = W; k <= B; ++k) VN_TRY(reorder(n, k, order, -1, err));
        VN_TRY(vn_variant_ask(n->v, VN_BUG, "gate-order", NULL, err,
                              "The whole result comes out if the blocks of weights are taken as %s in the places of gates %s.", text,
                              names[n->gates == 3]));
    }
    return VN_OK;
}

static vn_status_t one_direction(const net_t *n, vn_error_t *err) {
    for (int from = 0; n->directions == 2 && from < 2; ++from) {
        for (int k = W; k <= B; ++k) VN_TRY(reorder(n, k, NULL, from, err));
        VN_TRY(vn_variant_ask(n->v, VN_BUG, "group-index", NULL, err,
                              "The whole result comes out with the weights of the %s direction in both.", from ? "backward" : "forward"));
    }
    return VN_OK;
}

/* ---- steps in processing order ---- */

static int64_t length_of(const net_t *n, int64_t b) {
    const vn_tensor_t *t = vn_variant_operand(n->v, LENGTHS);
    const int64_t l = t && b < t->count ? vn_tensor_get_i64(t, b) : n->steps;
    return l < 1 || l > n->steps ? n->steps : l;
}

/* Element of Y for step t, direction d, sample b, unit h. */
static int64_t of_y(const net_t *n, int64_t t, int64_t d, int64_t b, int64_t h) {
    return n->batch_first ? ((b * n->steps + t) * n->directions + d) * n->hidden + h
                          : ((t * n->directions + d) * n->batch + b) * n->hidden + h;
}

static vn_status_t processing_order(const net_t *n, vn_error_t *err) {
    vn_explain_t *e = n->v->e;
    if (!n->v->e->c->q->node || e->c->k != 0 || !e->x || (!n->backward[0] && !n->backward[1]) ||
        e->n != n->steps * n->directions * n->batch * n->hidden)
        return VN_OK;
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2), *room = vn_alloc((size_t)e->n, sizeof *room);
    if (!y2 || !room) {
        vn_free(y2);
        vn_free(room);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
    }
    for (int64_t t = 0; t < n->steps; ++t)
        for (int64_t d = 0; d < n->directions; ++d)
            for (int64_t b = 0; b < n->batch; ++b)
                for (int64_t h = 0; h < n->hidden; ++h) {
                    const int64_t to = of_y(n, t, d, b, h), last = length_of(n, b),
                                  from = n->backward[d] && t < last ? of_y(n, last - 1 - t, d, b, h) : to;
                    y2[to] = e->y[from];
                    room[to] = vn_room(e->c->ref, from);
                }
    vn_explain_plane(e, y2, room, VN_BUG, "time-reversed", NULL,
                     "The steps of the backward direction stand in the order in which they were computed, not in that of the sequence.");
    vn_free(y2);
    vn_free(room);
    return VN_OK;
}

/* Y_h from another step than the last that was computed: needs Y of the same node. */
static vn_status_t last_state(const net_t *n, vn_error_t *err) {
    vn_explain_t *e = n->v->e;
    const vn_question_t *q = e->c->q;
    const vn_ref_t *y = q->n_outputs > 1 && e->c->k == 1 ? &q->refs[0] : NULL;
    if (!q->node || !y || !y->value || !e->x || e->n * n->steps != y->count) return VN_OK;
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2), *room = vn_alloc((size_t)e->n, sizeof *room);
    vn_status_t s = y2 && room ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
    static const char *const what[] = {"the first step in the order of the sequence", "the last step of the padded sequence"};
    for (int way = 0; s == VN_OK && way < 2; ++way) {
        for (int64_t d = 0; d < n->directions; ++d)
            for (int64_t b = 0; b < n->batch; ++b)
                for (int64_t h = 0; h < n->hidden; ++h) {
                    const int64_t to = n->batch_first ? (b * n->directions + d) * n->hidden + h : (d * n->batch + b) * n->hidden + h;
                    const int64_t from = of_y(n, way == 0 ? 0 : n->steps - 1, d, b, h);
                    y2[to] = y->value[from];
                    room[to] = vn_room(y, from);
                }
        vn_explain_plane(e, y2, room, VN_BUG, way == 1 && vn_variant_operand(n->v, LENGTHS) ? "mask-ignored" : "time-reversed", NULL,
                         "The last state is that of %s.", what[way]);
    }
    vn_free(y2);
    vn_free(room);
    return s;
}

static vn_status_t recurrent(vn_variant_t *v, vn_error_t *err) {
    net_t n;
    if (!read_net(v, &n)) return VN_OK;
    VN_TRY(processing_order(&n, err));
    VN_TRY(last_state(&n, err));
    VN_TRY(operands(&n, err));
    VN_TRY(half_bias(&n, 0, err));
    VN_TRY(half_bias(&n, 1, err));
    VN_TRY(one_direction(&n, err));
    return gate_orders(&n, err);
}

vn_status_t vn_name_recurrent(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, recurrent, err); }
