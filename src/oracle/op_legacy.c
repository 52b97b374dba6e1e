/* op_legacy.c -- operators of opset 6 and before that opset 7 gave another broadcast: the second operand lay over the first from an axis on, and
 * only if the node said broadcast = 1.
 *
 * Claim LEGACY-1: with the second operand's shape padded by ones (up to the first one's rank, from `axis` on; the end of the shape without axis),
 * the result is that of the operator of opset 7, and so are bound and variance. PRelu: a slope of C > 1 elements belongs to the channels.
 * Gemm: C broadcasts as in opset 7.
 */
#include <string.h>

#include "oracle/move.h"

static bool pairs(const vn_eval_t *e) { return strcmp(e->node->op, "PRelu") != 0 && strcmp(e->node->op, "Gemm") != 0; }

/* Dims of the second operand as opset 7 would have to see them. */
static vn_status_t aligned(vn_eval_t *e, vn_shape_t *out) {
    const vn_tensor_t *a = e->in[0].t, *b = e->in[1].t;
    *out = vn_shape_of(b);
    if (strcmp(e->node->op, "Gemm") == 0) return VN_OK;
    int axis = a->rank - b->rank;
    if (!pairs(e)) {
        if (b->count == 1 || b->rank != 1 || a->rank < 2) return VN_OK;
        axis = 1;
    } else if (!vn_node_int(e->node, "broadcast", 0)) {
        bool same = a->rank == b->rank;
        for (int d = 0; same && d < a->rank; ++d) same = a->dims[d] == b->dims[d];
        return same ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "shapes differ, and before opset 7 only broadcast = 1 allows that");
    } else if (b->count == 1 && b->rank <= 1) {
        *out = (vn_shape_t){.rank = 0};
        return VN_OK;
    } else if (vn_node_attr(e->node, "axis")) {
        VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), a->rank, &axis));
    }
    if (axis < 0 || axis + b->rank > a->rank)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input 1 of rank %d does not fit input 0 of rank %d at axis %d", b->rank, a->rank, axis);
    for (int d = 0; d < b->rank; ++d)
        if (b->dims[d] != a->dims[axis + d] && b->dims[d] != 1)
            return vn_eval_fail(e, VN_ERR_SHAPE, "dimension %d of input 1 does not fit dimension %d of input 0", d, axis + d);
    while (out->rank < a->rank - axis) out->d[out->rank++] = 1;
    return VN_OK;
}

/* The node as opset 7 sees it; `view` stands for the second operand. */
static vn_status_t forward(vn_eval_t *e, vn_tensor_t *view, bool infer) {
    const vn_op_t *row = vn_registry_find(e->node->domain, e->node->op, 7);
    vn_arg_t in[3] = {{.t = NULL}};
    if (!row || e->n_in > 3) return vn_eval_fail(e, VN_ERR_INTERNAL, "no row of opset 7");
    memcpy(in, e->in, (size_t)e->n_in * sizeof *in);
    in[1].t = view;
    vn_eval_t later = *e;
    later.version = 7;
    later.in = in;
    const vn_status_t s = infer ? row->infer(&later) : row->eval(&later);
    for (int k = 0; k < e->n_in; ++k) { /* planes made on the way are the operands' own */
        e->in[k].value = in[k].value;
        e->in[k].owned = in[k].owned;
    }
    return s;
}

static vn_status_t eval_legacy(vn_eval_t *e) {
    vn_shape_t shape;
    vn_tensor_t *view;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    VN_TRY(aligned(e, &shape));
    VN_TRY(vn_tensor_reshape(e->in[1].t, shape.rank, shape.d, &view, e->err));
    const vn_status_t s = forward(e, view, false);
    vn_tensor_free(view);
    return s;
}

static vn_status_t infer_legacy(vn_eval_t *e) {
    vn_shape_t shape;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    VN_TRY(aligned(e, &shape));
    vn_tensor_t header = *e->in[1].t; /* shape and type only: a rule of inference keeps no operand */
    header.rank = shape.rank;
    memcpy(header.dims, shape.d, sizeof header.dims);
    return forward(e, &header, true);
}

#define LEGACY(name, cls, flags) \
    { "", name, 1, 6, cls, flags, "LEGACY-1", eval_legacy, infer_legacy, 0 }

static const vn_op_t rows[] = {
    LEGACY("Add", VN_CLASS_ROUNDED, VN_OP_PROPAGATES),
    LEGACY("Sub", VN_CLASS_ROUNDED, VN_OP_PROPAGATES),
    LEGACY("Mul", VN_CLASS_ROUNDED, VN_OP_PROPAGATES),
    LEGACY("Div", VN_CLASS_ELEMENTARY, VN_OP_PROPAGATES),
    LEGACY("Pow", VN_CLASS_ELEMENTARY, VN_OP_PROPAGATES),
    LEGACY("PRelu", VN_CLASS_ROUNDED, VN_OP_PROPAGATES),
    LEGACY("Gemm", VN_CLASS_CONTRACTION, VN_OP_PROPAGATES),
    LEGACY("And", VN_CLASS_EXACT, 0),
    LEGACY("Or", VN_CLASS_EXACT, 0),
    LEGACY("Xor", VN_CLASS_EXACT, 0),
    LEGACY("Equal", VN_CLASS_EXACT, VN_OP_PROPAGATES),
    LEGACY("Greater", VN_CLASS_EXACT, VN_OP_PROPAGATES),
    LEGACY("Less", VN_CLASS_EXACT, VN_OP_PROPAGATES),
};

const vn_family_t vn_family_legacy = {.name = "legacy", .rows = rows, .count = sizeof rows / sizeof *rows};
