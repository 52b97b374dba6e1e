/* op_ms_standard.c -- operators of com.microsoft whose meaning is that of a standard operator in a named version, seen from other operands.
 *
 * Claim MS-1: value, bound and readings are those of the standard row, for
 *   QuantizeLinear, DequantizeLinear (21, no blocks), Pad (18; pads may be [1, 2 rank]), Range (11; numbers may be [1], delta may be absent),
 *   Trilu (14), GatherND (11), GridSample (16), ExpandDims = Unsqueeze (13), Unique (11, order of occurrence; inverse indices and counts),
 *   QLinearConv (10; with channels_last the result is that of the transposed image), NhwcMaxPool = MaxPool (12) of the transposed image.
 */
#include <string.h>

#include "oracle/move.h"
#include "oracle/ms.h"
#include "oracle/require.h"

/* ---- a node as its standard counterpart sees it ---- */

typedef struct loan {
    vn_node_t node;
    vn_eval_t sub;
    const vn_op_t *row;
} loan_t;

/* The loan shares operands and outputs with e. */
static vn_status_t borrow(vn_eval_t *e, const char *op, int64_t version, loan_t *l) {
    l->row = vn_registry_find("", op, version);
    if (!l->row) return vn_eval_fail(e, VN_ERR_INTERNAL, "no row for %s in version %lld", op, (long long)version);
    l->node = *e->node;
    l->node.domain = "";
    l->node.op = op;
    l->sub = *e;
    l->sub.node = &l->node;
    l->sub.version = version;
    return VN_OK;
}

static vn_status_t finish(loan_t *l, bool data) { return data ? l->row->eval(&l->sub) : l->row->infer(&l->sub); }

static vn_status_t as_standard(vn_eval_t *e, const char *op, int64_t version, bool data) {
    loan_t l;
    VN_TRY(borrow(e, op, version, &l));
    return finish(&l, data);
}

/* Operand k as one of another shape with as many elements; the caller puts the old tensor back. */
static const vn_tensor_t *dressed(vn_eval_t *e, int k, vn_tensor_t *header, int rank, const int64_t *dims) {
    const vn_tensor_t *kept = e->in[k].t;
    *header = *kept;
    header->rank = rank;
    for (int d = 0; d < rank; ++d) {
        header->dims[d] = dims[d];
        header->strides[d] = d == rank - 1 ? 1 : 0;
    }
    e->in[k].t = header;
    return kept;
}

/* ---- quantisation ---- */

static vn_status_t no_blocks(vn_eval_t *e) {
    if (!vn_has(e, 1)) return vn_eval_fail(e, VN_ERR_USAGE, "input 1 is missing");
    if (vn_node_attr(e->node, "block_size") || vn_node_attr(e->node, "output_dtype"))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "block_size and output_dtype belong to the standard's operator, not to com.microsoft's");
    return VN_OK;
}

vn_status_t vn_eval_ms_quantize(vn_eval_t *e) {
    VN_TRY(no_blocks(e));
    return as_standard(e, "QuantizeLinear", 21, true);
}
vn_status_t vn_infer_ms_quantize(vn_eval_t *e) {
    VN_TRY(no_blocks(e));
    return as_standard(e, "QuantizeLinear", 21, false);
}
vn_status_t vn_eval_ms_dequantize(vn_eval_t *e) {
    VN_TRY(no_blocks(e));
    return as_standard(e, "DequantizeLinear", 21, true);
}
vn_status_t vn_infer_ms_dequantize(vn_eval_t *e) {
    VN_TRY(no_blocks(e));
    return as_standard(e, "DequantizeLinear", 21, false);
}

/* ---- movement ---- */

static vn_status_t pad(vn_eval_t *e, bool data) {
    VN_TRY(vn_move_need(e, 1));
    if (e->n_in > 3) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "Pad of com.microsoft has no axes");
    vn_tensor_t flat;
    const vn_tensor_t *t = e->in[1].t;
    if (t->rank != 2 || t->dims[0] != 1) return as_standard(e, "Pad", 18, data);
    const vn_tensor_t *kept = dressed(e, 1, &flat, 1, &t->dims[1]);
    const vn_status_t s = as_standard(e, "Pad", 18, data);
    e->in[1].t = kept;
    return s;
}
vn_status_t vn_eval_ms_pad(vn_eval_t *e) { return pad(e, true); }
vn_status_t vn_infer_ms_pad(vn_eval_t *e) { return pad(e, false); }

static vn_status_t range(vn_eval_t *e, bool data) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    if (vn_has(e, 2)) return as_standard(e, "Range", 11, data);
    vn_tensor_t *one;
    VN_TRY(vn_tensor_new(e->in[0].t->dtype, 0, NULL, &one, e->err));
    if (vn_dtype_is_float(one->dtype)) vn_tensor_set_f64(one, 0, 1);
    else vn_tensor_set_i64(one, 0, 1);
    vn_arg_t in[3] = {e->in[0], e->in[1], {.t = one}};
    loan_t l;
    vn_status_t s = borrow(e, "Range", 11, &l);
    if (s == VN_OK) {
        l.sub.in = in;
        l.sub.n_in = 3;
        s = finish(&l, data);
        e->in[0] = in[0]; /* planes made on the way stay with their operands */
        e->in[1] = in[1];
        if (in[2].owned) vn_free(in[2].value);
    }
    vn_tensor_free(one);
    return s;
}
vn_status_t vn_eval_ms_range(vn_eval_t *e) { return range(e, true); }
vn_status_t vn_infer_ms_range(vn_eval_t *e) { return range(e, false); }

vn_status_t vn_eval_ms_trilu(vn_eval_t *e) { return as_standard(e, "Trilu", 14, true); }
vn_status_t vn_infer_ms_trilu(vn_eval_t *e) { return as_standard(e, "Trilu", 14, false); }
vn_status_t vn_eval_ms_gather_nd(vn_eval_t *e) { return as_standard(e, "GatherND", 11, true); }
vn_status_t vn_infer_ms_gather_nd(vn_eval_t *e) { return as_standard(e, "GatherND", 11, false); }
vn_status_t vn_eval_ms_grid_sample(vn_eval_t *e) { return as_standard(e, "GridSample", 16, true); }
vn_status_t vn_infer_ms_grid_sample(vn_eval_t *e) { return as_standard(e, "GridSample", 16, false); }

static vn_status_t expand_dims(vn_eval_t *e, bool data) {
    VN_TRY(vn_move_need(e, 1));
    if (e->in[1].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "axis holds %lld numbers", (long long)e->in[1].t->count);
    return as_standard(e, "Unsqueeze", 13, data);
}
vn_status_t vn_eval_ms_expand_dims(vn_eval_t *e) { return expand_dims(e, true); }
vn_status_t vn_infer_ms_expand_dims(vn_eval_t *e) { return expand_dims(e, false); }

/* Values in order of occurrence, inverse indices, counts: outputs 0, 2 and 3 of the standard's operator with sorted = 0. */
vn_status_t vn_eval_ms_unique(vn_eval_t *e) {
    static const int from[3] = {0, 2, 3};
    VN_TRY(vn_move_need(e, 0));
    if (e->in[0].t->rank != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "an input of rank %d; one dimension is needed", e->in[0].t->rank);
    vn_attr_t unsorted = {.name = "sorted", .kind = VN_ATTR_INT, .i = 0};
    const char *names[4] = {"", "", "", ""};
    vn_ref_t out[4] = {0};
    loan_t l;
    VN_TRY(borrow(e, "Unique", 11, &l));
    for (int k = 0; k < 3; ++k)
        if (vn_move_wanted(e, k)) names[from[k]] = e->node->outputs[k];
    l.node.outputs = names;
    l.node.n_outputs = 4;
    l.node.attrs = &unsorted;
    l.node.n_attrs = 1;
    l.sub.out = out;
    l.sub.n_out = 4;
    const vn_status_t s = finish(&l, true);
    for (int k = 0; k < 3; ++k) {
        if (s != VN_OK || k >= e->n_out || !vn_move_wanted(e, k)) continue;
        vn_ref_free(&e->out[k]);
        e->out[k] = out[from[k]];
        out[from[k]] = (vn_ref_t){0};
    }
    for (int k = 0; k < 4; ++k) vn_ref_free(&out[k]);
    return s;
}

/* ---- images with channels last ---- */

/* [N, spatial..., C] to [N, C, spatial...] (forth) or back, as a fresh tensor. */
static vn_status_t turned(vn_eval_t *e, const vn_tensor_t *t, bool forth, vn_tensor_t **out) {
    int axes[VN_MAX_RANK];
    vn_tensor_t *view;
    axes[0] = 0;
    for (int d = 1; d < t->rank; ++d) axes[d] = forth ? (d == 1 ? t->rank - 1 : d - 1) : (d == t->rank - 1 ? 1 : d + 1);
    VN_TRY(vn_tensor_permute(t, axes, &view, e->err));
    const vn_status_t s = vn_tensor_contiguous(view, out, e->err);
    vn_tensor_free(view);
    return s;
}

static void turn_dims(vn_ref_t *r) {
    const int64_t channels = r->dims[1];
    for (int d = 1; d < r->rank - 1; ++d) r->dims[d] = r->dims[d + 1];
    r->dims[r->rank - 1] = channels;
}

static vn_status_t turn_back(vn_eval_t *e, vn_tensor_t **t) {
    if (!*t) return VN_OK;
    vn_tensor_t *back;
    VN_TRY(turned(e, *t, false, &back));
    vn_tensor_free(*t);
    *t = back;
    return VN_OK;
}

/* Integer results only: an exact tensor and its second codes. */
static vn_status_t channels_last(vn_eval_t *e, const char *op, int64_t version, bool data) {
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank < 3) return vn_eval_fail(e, VN_ERR_SHAPE, "an image of rank %d", x->rank);
    if (!vn_dtype_is_int(x->dtype)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "channels last with %s", vn_dtype_name(x->dtype));
    vn_tensor_t *front = NULL, bare = *x;
    vn_status_t s = VN_OK;
    if (data) {
        s = turned(e, x, true, &front);
    } else { /* dimensions only */
        bare.dims[1] = x->dims[x->rank - 1];
        for (int d = 2; d < x->rank; ++d) bare.dims[d] = x->dims[d - 1];
    }
    if (s == VN_OK) {
        const vn_arg_t kept = e->in[0];
        e->in[0] = (vn_arg_t){.t = data ? front : &bare};
        s = as_standard(e, op, version, data);
        if (e->in[0].owned) vn_free(e->in[0].value);
        e->in[0] = kept;
    }
    vn_tensor_free(front);
    VN_TRY(s);
    if (e->out[0].value) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "channels last with a result of floats");
    if (data) {
        VN_TRY(turn_back(e, &e->out[0].tensor));
        VN_TRY(turn_back(e, &e->out[0].either));
        for (int k = 0; k < e->out[0].n_readings; ++k) VN_TRY(turn_back(e, &e->out[0].readings[k].value));
    }
    turn_dims(&e->out[0]);
    return VN_OK;
}

static vn_status_t qlinear_conv(vn_eval_t *e, bool data) {
    VN_TRY(vn_require(e, 8));
    if (vn_node_int(e->node, "channels_last", 0)) return channels_last(e, "QLinearConv", 10, data);
    return as_standard(e, "QLinearConv", 10, data);
}
vn_status_t vn_eval_ms_qlinear_conv(vn_eval_t *e) { return qlinear_conv(e, true); }
vn_status_t vn_infer_ms_qlinear_conv(vn_eval_t *e) { return qlinear_conv(e, false); }

static vn_status_t nhwc_max_pool(vn_eval_t *e, bool data) {
    VN_TRY(vn_require(e, 1));
    return channels_last(e, "MaxPool", 12, data);
}
vn_status_t vn_eval_ms_nhwc_max_pool(vn_eval_t *e) { return nhwc_max_pool(e, true); }
vn_status_t vn_infer_ms_nhwc_max_pool(vn_eval_t *e) { return nhwc_max_pool(e, false); }
