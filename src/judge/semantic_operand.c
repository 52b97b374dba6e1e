/* semantic_operand.c -- an operand read in another layout, spread along another axis, exchanged with its neighbour, or not read at all.
 *
 * Each is the same question with one operand changed, so claim NAME-1 decides. Only operands whose values are known can be changed: those of a
 * node question, inputs and initialisers of a region.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"
#include "judge/names.h"

enum { MOST_RANK = 6, MOST_LAYOUTS = 64 };

/* ---- which operands ---- */

/* Operators that only move elements give a moved result for a moved operand: the patterns say that better. Where chooses. */
static bool moves(const vn_variant_t *v, vn_op_class_t cls) {
    return (cls == VN_CLASS_MOVEMENT || cls == VN_CLASS_CONTROL) && !vn_variant_is(v, "", "Where");
}

/* Operators of several operands broadcast against each other; `from`, `to`: which of them. */
static const struct {
    const char *op;
    int from, to;
} broadcasting[] = {
    {"Add", 0, 1},        {"Sub", 0, 1},         {"Mul", 0, 1},
    {"Div", 0, 1},        {"Pow", 0, 1},         {"Mod", 0, 1},
    {"PRelu", 1, 1},      {"And", 0, 1},         {"Or", 0, 1},
    {"Xor", 0, 1},        {"Equal", 0, 1},       {"Less", 0, 1},
    {"Greater", 0, 1},    {"LessOrEqual", 0, 1}, {"GreaterOrEqual", 0, 1},
    {"BitShift", 0, 1},   {"BitwiseAnd", 0, 1},  {"BitwiseOr", 0, 1},
    {"BitwiseXor", 0, 1}, {"Where", 0, 2},       {"Max", 0, VN_VARIANT_INPUTS - 1},
    {"Min", 0, 15},       {"Sum", 0, 15},        {"Mean", 0, 15},
    {"Gemm", 2, 2},       {"Expand", 0, 0},
};

static bool spreads(const vn_variant_t *v, int k) {
    if (*v->node->domain) return false;
    for (size_t i = 0; i < sizeof broadcasting / sizeof *broadcasting; ++i)
        if (strcmp(v->node->op, broadcasting[i].op) == 0) return k >= broadcasting[i].from && k <= broadcasting[i].to;
    return false;
}

/* Shape of the node's result; a region's inner nodes: not known. */
static const vn_tensor_t *result(const vn_variant_t *v) {
    const vn_question_t *q = v->e->c->q;
    if (q->node || v->node->n_outputs == 0) return v->e->c->actual;
    return strcmp(v->node->outputs[0], q->model->graph->outputs[v->e->c->k].name) == 0 ? v->e->c->actual : NULL;
}

static vn_status_t put(vn_variant_t *v, int k, vn_status_t s, vn_tensor_t *t, vn_error_t *err) {
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    return vn_variant_input(v, k, t, err);
}

/* ---- another layout ---- */

static bool next_permutation(int *p, int n) {
    int i = n - 2;
    while (i >= 0 && p[i] > p[i + 1]) --i;
    if (i < 0) return false;
    int j = n - 1;
    while (p[j] < p[i]) --j;
    const int keep = p[i];
    p[i] = p[j];
    p[j] = keep;
    for (int a = i + 1, b = n - 1; a < b; ++a, --b) {
        const int other = p[a];
        p[a] = p[b];
        p[b] = other;
    }
    return true;
}

static int moved_axes(const int *p, int n) {
    int moved = 0;
    for (int i = 0; i < n; ++i) moved += p[i] != i;
    return moved;
}

/* A layout that leaves the elements where they are: only axes of one element change places. */
static bool idle(const vn_tensor_t *t, const int *p) {
    int last = -1;
    for (int i = 0; i < t->rank; ++i) {
        if (t->dims[p[i]] <= 1) continue;
        if (p[i] < last) return false;
        last = p[i];
    }
    return true;
}

static vn_status_t layouts(vn_variant_t *v, int k, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (!t || t->rank < 2 || t->rank > MOST_RANK || t->count < 4 || t->count > VN_EDIT_MOST) return VN_OK;
    int p[MOST_RANK], asked = 0;
    bool held = false;
    for (int most = 2; most <= t->rank && !held; ++most) { /* exchanges of two axes first */
        for (int i = 0; i < t->rank; ++i) p[i] = i;
        do {
            const bool two = most == 2, fits = moved_axes(p, t->rank) == most;
            if (!fits || idle(t, p) || asked >= MOST_LAYOUTS || (!two && t->rank > 4)) continue;
            char which[48] = "", *at = which;
            for (int i = 0; i < t->rank; ++i) at += snprintf(at, sizeof which - (size_t)(at - which), "%s%d", i ? "," : "", p[i]);
            vn_tensor_t *copy = NULL;
            vn_error_t why;
            vn_status_t s = vn_edit_layout(t, p, &copy, &why);
            s = put(v, k, s, copy, &why);
            if (vn_edit_refused(v, &s)) {
                if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
                continue;
            }
            asked++;
            VN_TRY(vn_variant_ask(v, VN_BUG, "transposed", &held, err,
                                  "%s with operand %d transposed (its memory read with the axes in the order %s) gives the whole result.",
                                  v->node->op, k, which));
        } while (!held && next_permutation(p, t->rank));
    }
    return VN_OK;
}

/* ---- another axis ---- */

static vn_status_t spread(vn_variant_t *v, int k, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k), *y = result(v);
    if (!t || !y || !spreads(v, k) || t->count < 2 || t->count > VN_EDIT_MOST || y->rank > MOST_RANK || t->rank > y->rank) return VN_OK;
    int64_t padded[MOST_RANK], dims[MOST_RANK];
    const int lead = y->rank - t->rank;
    for (int d = 0; d < y->rank; ++d) padded[d] = d < lead ? 1 : t->dims[d - lead];
    int p[MOST_RANK];
    for (int i = 0; i < y->rank; ++i) p[i] = i;
    bool held = false;
    while (!held && next_permutation(p, y->rank)) {
        bool fits = true, same = true, ordered = true;
        int last = -1;
        for (int d = 0; d < y->rank; ++d) {
            dims[d] = padded[p[d]];
            fits = fits && (dims[d] == 1 || dims[d] == y->dims[d]);
            same = same && dims[d] == padded[d];
            if (dims[d] == 1) continue;
            ordered = ordered && p[d] > last;
            last = p[d];
        }
        if (!fits || same || !ordered) continue;
        for (int q = 0; q < y->rank && p[q] >= 0; ++q) /* of equal shapes only the first is asked */
            if (padded[p[q]] == 1)
                for (int r = q + 1; r < y->rank; ++r) fits = fits && (padded[p[r]] != 1 || p[r] > p[q]);
        if (!fits) continue;
        vn_tensor_t *copy = NULL;
        vn_error_t why;
        vn_status_t s = vn_edit_shape(t, y->rank, dims, &copy, &why);
        s = put(v, k, s, copy, &why);
        if (vn_edit_refused(v, &s)) {
            if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
            continue;
        }
        char was[96] = "", shape[96] = "", *a = was, *b = shape;
        for (int d = 0; d < y->rank; ++d) {
            a += snprintf(a, sizeof was - (size_t)(a - was), "%s%lld", d ? "," : "", (long long)padded[d]);
            b += snprintf(b, sizeof shape - (size_t)(b - shape), "%s%lld", d ? "," : "", (long long)dims[d]);
        }
        VN_TRY(vn_variant_ask(v, VN_BUG, "broadcast-axis", &held, err,
                              "%s with operand %d spread as [%s] instead of [%s] gives the whole result.", v->node->op, k, shape, was));
    }
    /* One slice for all: the operand's own axis is not followed. */
    for (int d = 0; d < t->rank && !held && t->count == y->count; ++d) {
        if (t->dims[d] < 2) continue;
        int64_t *zero = vn_alloc((size_t)t->dims[d], sizeof *zero);
        if (!zero) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
        vn_tensor_t *copy = NULL;
        vn_error_t why;
        vn_status_t s = vn_edit_lines(t, d, zero, &copy, &why);
        vn_free(zero);
        s = put(v, k, s, copy, &why);
        if (vn_edit_refused(v, &s)) {
            if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
            continue;
        }
        VN_TRY(vn_variant_ask(v, VN_BUG, "broadcast-axis", &held, err,
                              "%s with slice 0 of operand %d along axis %d used for all of them gives the whole result.", v->node->op, k,
                              d));
    }
    return VN_OK;
}

/* ---- exchanged, dropped ---- */

static const struct {
    const char *op;
    int a, b;
    const char *words;
} exchanged[] = {
    {"Div", 0, 1, "the quotient is upside down"},
    {"Pow", 0, 1, "base and exponent are exchanged"},
    {"Mod", 0, 1, "the operands are exchanged"},
    {"Less", 0, 1, "the comparison is turned round"},
    {"Greater", 0, 1, "the comparison is turned round"},
    {"LessOrEqual", 0, 1, "the comparison is turned round"},
    {"GreaterOrEqual", 0, 1, "the comparison is turned round"},
    {"BitShift", 0, 1, "the operands are exchanged"},
    {"Where", 1, 2, "the condition is inverted"},
    {"MatMul", 0, 1, "the product is taken in the other order"},
    {"Gemm", 0, 1, "the product is taken in the other order"},
};

static vn_status_t exchange(vn_variant_t *v, vn_error_t *err) {
    for (size_t i = 0; i < sizeof exchanged / sizeof *exchanged; ++i) {
        if (!vn_variant_is(v, "", exchanged[i].op)) continue;
        const vn_tensor_t *a = vn_variant_operand(v, exchanged[i].a), *b = vn_variant_operand(v, exchanged[i].b);
        if (!a || !b || a->dtype != b->dtype) return VN_OK;
        const bool product = strcmp(exchanged[i].op, "MatMul") == 0 || strcmp(exchanged[i].op, "Gemm") == 0;
        if (product && (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0))
            return VN_OK; /* another shape, perhaps a very large one */
        VN_TRY(vn_variant_input(v, exchanged[i].a, vn_tensor_retain(b), err));
        VN_TRY(vn_variant_input(v, exchanged[i].b, vn_tensor_retain(a), err));
        return vn_variant_ask(v, VN_BUG, "operands-exchanged", NULL, err,
                              "%s with operands %d and %d exchanged gives the whole result: %s.", v->node->op, exchanged[i].a,
                              exchanged[i].b, exchanged[i].words);
    }
    return VN_OK;
}

/* Max, Min, Sum of three and more: one operand does not count, everywhere or in the wrong elements alone. */
static vn_status_t dropped(vn_variant_t *v, vn_error_t *err) {
    const bool sum = vn_variant_is(v, "", "Sum"), max = vn_variant_is(v, "", "Max"), min = vn_variant_is(v, "", "Min");
    if ((!sum && !max && !min) || v->node->n_inputs < 3) return VN_OK;
    for (int k = 0; k < v->node->n_inputs; ++k) {
        const vn_tensor_t *t = vn_variant_operand(v, k), *other = vn_variant_operand(v, k ? 0 : 1);
        if (!t || !other || (sum && !vn_dtype_is_float(t->dtype) && !vn_dtype_is_int(t->dtype))) continue;
        vn_tensor_t *copy = NULL;
        if (sum) VN_TRY(vn_edit_fill(t, 0, &copy, err));
        else copy = vn_tensor_retain(other);
        VN_TRY(vn_variant_input(v, k, copy, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "term-dropped", NULL, err, "%s without its operand %d gives the whole result.", v->node->op, k));
    }
    return VN_OK;
}

static vn_status_t operands(vn_variant_t *v, vn_error_t *err) {
    vn_op_info_t info;
    const vn_model_t *m = v->model ? v->model : v->e->c->q->model;
    if (!vn_oracle_knows(m, v->node, &info) || moves(v, info.cls)) return VN_OK;
    const bool lone = v->node->n_inputs == 1 && info.cls <= VN_CLASS_ELEMENTARY;
    for (int k = 0; k < v->node->n_inputs && !lone; ++k)
        if (!(info.shape_like >> k & 1)) VN_TRY(spread(v, k, err));
    for (int k = 0; k < v->node->n_inputs && !lone; ++k)
        if (!(info.shape_like >> k & 1)) VN_TRY(layouts(v, k, err));
    VN_TRY(exchange(v, err));
    return dropped(v, err);
}

vn_status_t vn_name_operands(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, operands, err); }
