/* vjp_emit.c -- writing the backward nodes of a gradient: constants, reshapes, sums, in the operator set that the model imports. */
#include "oracle/vjp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Takes a status into the sticky one; true while all is well. */
static bool ok(vn_vjp_t *v, vn_status_t s) {
    if (v->status == VN_OK) v->status = s;
    return v->status == VN_OK;
}

void vn_vjp_fail(vn_vjp_t *v, vn_status_t s, const char *fmt, ...) {
    char text[400];
    if (v->status != VN_OK) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *where = v->node.path && *v->node.path ? v->node.path : v->node.name;
    v->status = vn_fail(v->err, s, "gradient of node %s (%s%s%s): %s", where ? where : "?", v->node.domain ? v->node.domain : "",
                        v->node.domain && *v->node.domain ? "." : "", v->node.op ? v->node.op : "?", text);
}

static const char *fresh(vn_vjp_t *v) {
    const char *name = vn_arena_printf(v->arena, "gradient/%d", v->fresh++);
    if (!name) vn_vjp_fail(v, VN_ERR_NOMEM, "no memory");
    return name ? name : "";
}

const char *vn_vjp_emit(vn_vjp_t *v, const char *op, int n, const char *const *inputs, vn_node_t **node) {
    if (node) *node = NULL;
    if (v->status != VN_OK) return "";
    if (!vn_registry_find("", op, v->version))
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "it needs operator %s, which opset %lld does not have; convert the model to a newer opset", op,
                    (long long)v->version);
    const char *out = fresh(v);
    if (v->status != VN_OK) return "";
    vn_node_t *made;
    if (!ok(v, vn_graph_add_node(v->graph, out, op, "", n, inputs, 1, &out, &made, v->err))) return "";
    if (node) *node = made;
    return out;
}

const char *vn_vjp_1(vn_vjp_t *v, const char *op, const char *a) { return vn_vjp_emit(v, op, 1, &a, NULL); }

const char *vn_vjp_2(vn_vjp_t *v, const char *op, const char *a, const char *b) {
    return vn_vjp_emit(v, op, 2, (const char *const[]){a, b}, NULL);
}

const char *vn_vjp_3(vn_vjp_t *v, const char *op, const char *a, const char *b, const char *c) {
    return vn_vjp_emit(v, op, 3, (const char *const[]){a, b, c}, NULL);
}

void vn_vjp_int(vn_vjp_t *v, vn_node_t *n, const char *name, int64_t x) {
    if (v->status == VN_OK) ok(v, vn_node_set_int(v->model, n, name, x, v->err));
}

void vn_vjp_ints(vn_vjp_t *v, vn_node_t *n, const char *name, const int64_t *x, int64_t count) {
    if (v->status == VN_OK) ok(v, vn_node_set_ints(v->model, n, name, x, count, v->err));
}

/* ---- constants ---- */

static const char *constant(vn_vjp_t *v, vn_tensor_t *t) {
    const char *name = fresh(v);
    if (v->status == VN_OK) ok(v, vn_graph_add_init(v->graph, name, t, v->err));
    vn_tensor_free(t);
    return v->status == VN_OK ? name : "";
}

const char *vn_vjp_scalar(vn_vjp_t *v, vn_dtype_t type, double x) {
    vn_tensor_t *t;
    if (v->status != VN_OK || !ok(v, vn_tensor_new(type, 0, NULL, &t, v->err))) return "";
    vn_tensor_set_f64(t, 0, x);
    return constant(v, t);
}

const char *vn_vjp_list(vn_vjp_t *v, const int64_t *x, int n) {
    vn_tensor_t *t;
    const int64_t dims = n;
    if (v->status != VN_OK || !ok(v, vn_tensor_new(VN_I64, 1, &dims, &t, v->err))) return "";
    for (int k = 0; k < n; ++k) vn_tensor_set_i64(t, k, x[k]);
    return constant(v, t);
}

const char *vn_vjp_filled(vn_vjp_t *v, const vn_inferred_value_t *like, double x) {
    vn_tensor_t *t;
    if (v->status != VN_OK || !ok(v, vn_tensor_new(like->dtype, like->rank, like->dims, &t, v->err))) return "";
    for (int64_t i = 0; x != 0 && i < t->count; ++i) vn_tensor_set_f64(t, i, x);
    return constant(v, t);
}

/* ---- shapes ---- */

const char *vn_vjp_reshape(vn_vjp_t *v, const char *x, int rank, const int64_t *dims) {
    vn_node_t *n;
    bool zero = false;
    for (int d = 0; d < rank; ++d) zero |= dims[d] == 0;
    const char *const in[] = {x, vn_vjp_list(v, dims, rank)};
    const char *y = vn_vjp_emit(v, "Reshape", 2, in, &n);
    if (zero && v->version >= 14) vn_vjp_int(v, n, "allowzero", 1);
    else if (zero) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "a tensor without elements needs opset 14 or newer");
    return y;
}

const char *vn_vjp_expand(vn_vjp_t *v, const char *x, int rank, const int64_t *dims) {
    return vn_vjp_2(v, "Expand", x, vn_vjp_list(v, dims, rank));
}

const char *vn_vjp_transpose(vn_vjp_t *v, const char *x, int rank, const int64_t *perm) {
    vn_node_t *n;
    const char *y = vn_vjp_emit(v, "Transpose", 1, &x, &n);
    vn_vjp_ints(v, n, "perm", perm, rank);
    return y;
}

const char *vn_vjp_slice(vn_vjp_t *v, const char *x, int n, const int64_t *starts, const int64_t *ends, const int64_t *axes,
                         const int64_t *steps) {
    const char *const in[] = {x, vn_vjp_list(v, starts, n), vn_vjp_list(v, ends, n), vn_vjp_list(v, axes, n), vn_vjp_list(v, steps, n)};
    return vn_vjp_emit(v, "Slice", 5, in, NULL);
}

const char *vn_vjp_sum(vn_vjp_t *v, const char *x, int rank, const bool *along, bool keep) {
    int64_t axes[VN_MAX_RANK];
    int n = 0;
    vn_node_t *node;
    for (int d = 0; d < rank; ++d)
        if (along[d]) axes[n++] = d;
    if (n == 0) return x;
    const char *y;
    if (v->version >= 13) {
        const char *const in[] = {x, vn_vjp_list(v, axes, n)};
        y = vn_vjp_emit(v, "ReduceSum", 2, in, &node);
    } else {
        y = vn_vjp_emit(v, "ReduceSum", 1, &x, &node);
        vn_vjp_ints(v, node, "axes", axes, n);
    }
    vn_vjp_int(v, node, "keepdims", keep);
    return y;
}

const char *vn_vjp_unbroadcast(vn_vjp_t *v, const char *x, int rank, const int64_t *from, const vn_inferred_value_t *to) {
    bool along[VN_MAX_RANK] = {false}, any = false;
    if (v->status != VN_OK) return "";
    for (int d = 0; d < rank; ++d) {
        const int k = d - (rank - to->rank);
        along[d] = k < 0 || (to->dims[k] == 1 && from[d] != 1);
        any |= along[d];
    }
    if (any) x = vn_vjp_sum(v, x, rank, along, false);
    bool same = rank == to->rank && !any;
    return same ? x : vn_vjp_reshape(v, x, to->rank, to->dims);
}

int vn_vjp_axis(vn_vjp_t *v, const char *name, int64_t fallback, int rank) {
    const int64_t axis = vn_node_int(&v->node, name, fallback);
    if (axis < -(int64_t)rank || axis >= rank) {
        vn_vjp_fail(v, VN_ERR_RANGE, "axis %lld outside a tensor of rank %d", (long long)axis, rank);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}
