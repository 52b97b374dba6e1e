/* op_quantise.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: per tensor, per axis, blocked; integers and 8-bit floats. */
#include <math.h>
#include <string.h>

#include "codes.h"

double round_code(const call_t *c, double x) {
    if (faulty(c, F_TRUNCATED_STORE)) return trunc(x);
    return faulty(c, F_HALF_AWAY) ? round(x) : faulty(c, F_HALF_UP) ? floor(x + 0.5) : rint(x);
}

void code_range(const call_t *c, vn_dtype_t t, double *least, double *most) {
    const int bits = vn_dtype_bits(t);
    const bool sign = vn_dtype_kind(t) == VN_KIND_SIGNED;
    *most = ldexp(1, sign ? bits - 1 : bits) - 1;
    *least = sign ? -*most - 1 : 0;
    if (t == VN_U8 && faulty(c, F_CLAMP_U8)) *most = 127;
}

/* Where the scale of an element stands. */
typedef struct scales {
    int64_t inner, length, block, blocks; /* of the axis: elements behind it, its length, elements a scale, scales on it */
    bool one;
} scales_t;

static vn_status_t read_scales(const call_t *c, const vn_tensor_t *x, scales_t *q) {
    const vn_tensor_t *scale = c->in[1];
    *q = (scales_t){.one = scale->count == 1 && scale->rank <= 1};
    if (q->one) return VN_OK;
    int64_t axis = attr_int(c, "axis", 1), block = vn_node_int(c->node, "block_size", 0);
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    q->inner = product_of(x->dims + axis + 1, x->rank - (int)axis - 1);
    q->length = x->dims[axis];
    q->block = scale->rank == 1 ? 1 : block;
    q->blocks = scale->rank == 1 ? scale->count : q->block > 0 ? (q->length + q->block - 1) / q->block : 0;
    const int64_t outer = scale->rank == 1 ? 1 : product_of(x->dims, (int)axis);
    if (q->block < 1 || (scale->rank == 1 ? scale->count != q->length : scale->count != outer * q->blocks * q->inner))
        return refuse(c, "scales that do not fit the operand");
    if (ignored(c, "block_size")) q->block *= 2;
    return VN_OK;
}

static int64_t scale_of(const call_t *c, const scales_t *q, int64_t i) {
    if (q->one) return 0;
    const int64_t along = i / q->inner % q->length, outer = i / q->inner / q->length;
    int64_t at = along / q->block;
    if (faulty(c, F_GROUP_INDEX) || faulty(c, F_CHANNEL_SCALE)) at = q->blocks < 1 ? 0 : (at + 1) % q->blocks;
    return c->in[1]->rank == 1 ? at : (outer * q->blocks + at) * q->inner + i % q->inner;
}

static vn_status_t run_quantise(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need_float(c, 1));
    const vn_tensor_t *x = c->in[0];
    const int64_t wanted = vn_node_int(c->node, "output_dtype", 0);
    const vn_dtype_t t = given(c, 2) ? c->in[2]->dtype : wanted > 0 && wanted < VN_DTYPE_COUNT ? (vn_dtype_t)wanted : VN_U8;
    scales_t q;
    VN_TRY(read_scales(c, x, &q));
    double *v = plane(c, x), *scale = plane(c, c->in[1]), *zero = given(c, 2) ? plane(c, c->in[2]) : NULL;
    vn_status_t s = v && scale && (zero || !given(c, 2)) ? VN_OK : VN_ERR_NOMEM;
    double least = 0, most = 0;
    const bool floats = vn_dtype_is_float(t), saturate = attr_int(c, "saturate", 1) != 0;
    if (!floats) code_range(c, t, &least, &most);
    if (s == VN_OK && !floats && !vn_dtype_is_int(t)) s = refuse(c, "this type of code");
    const bool wide = is_wide(x->dtype);
    if (s == VN_OK) s = vn_tensor_new(t, x->rank, x->dims, &c->out[0], c->err);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        const int64_t at = scale_of(c, &q, i);
        const double y = settle(wide, v[i] / scale[at]);
        if (floats) {
            vn_tensor_set_f64(c->out[0], i, vn_round_to(vn_format_of(t), y, faulty(c, F_TRUNCATED_STORE) ? VN_RZ : VN_RNE, saturate));
            continue;
        }
        double code = round_code(c, y) + (zero ? zero[at] : 0);
        code = code < least ? least : code > most ? most : code;
        vn_tensor_set_i64(c->out[0], i, (int64_t)code);
    }
    vn_free(v);
    vn_free(scale);
    vn_free(zero);
    return s;
}

/* A code as a kernel with the other signedness, or with its halves exchanged, reads it. */
static double misread(const call_t *c, const vn_tensor_t *x, int64_t i, double v) {
    const vn_dtype_t t = x->dtype;
    const double span = ldexp(1, vn_dtype_bits(t));
    if (faulty(c, F_NIBBLE_ORDER) && vn_dtype_bits(t) == 4) return vn_tensor_get_f64(x, (i ^ 1) < x->count ? i ^ 1 : i);
    if (faulty(c, F_ZERO_POINT_SIGN) && vn_dtype_kind(t) == VN_KIND_UNSIGNED) return v >= span / 2 ? v - span : v;
    if ((faulty(c, F_ZERO_POINT_SIGN) || faulty(c, F_SIGN_EXTENSION)) && vn_dtype_kind(t) == VN_KIND_SIGNED) return v < 0 ? v + span : v;
    return v;
}

static vn_status_t run_dequantise(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need_float(c, 1));
    const vn_tensor_t *x = c->in[0];
    const int64_t wanted = vn_node_int(c->node, "output_dtype", 0);
    const vn_dtype_t t = wanted > 0 && wanted < VN_DTYPE_COUNT ? (vn_dtype_t)wanted : c->in[1]->dtype;
    scales_t q;
    VN_TRY(read_scales(c, x, &q));
    double *v = plane(c, x), *scale = plane(c, c->in[1]), *zero = given(c, 2) ? plane(c, c->in[2]) : NULL;
    vn_status_t s = v && scale && (zero || !given(c, 2)) ? VN_OK : VN_ERR_NOMEM;
    const bool wide = is_wide(t), misreads = c->fault && !vn_dtype_is_float(x->dtype);
    for (int64_t i = 0; s == VN_OK && misreads && i < x->count; ++i) v[i] = misread(c, x, i, v[i]);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        const int64_t at = scale_of(c, &q, i);
        v[i] = settle(wide, (v[i] - (zero ? zero[at] : 0)) * scale[at]);
    }
    vn_free(scale);
    vn_free(zero);
    if (s == VN_OK) return put_plane(c, 0, t, x->rank, x->dims, v);
    vn_free(v);
    return s;
}

/* u8 codes with one scale; the range holds zero. */
static vn_status_t run_dynamic(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    double *v = plane(c, x), low = 0, high = 0;
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    const double scale = settle(false, settle(false, high - low) / 255), zero = scale > 0 ? rint(settle(false, -low / scale)) : 0,
                 offset = zero < 0     ? 0
                          : zero > 255 ? 255
                                       : zero;
    for (int64_t i = 0; i < x->count; ++i) {
        const double code = scale > 0 ? round_code(c, settle(false, v[i] / scale)) + offset : offset;
        v[i] = code < 0 ? 0 : code > 255 ? 255 : code;
    }
    VN_TRY(put_plane(c, 0, VN_U8, x->rank, x->dims, v));
    for (int k = 1; k < 3 && k < c->n_out; ++k) {
        double *one = room_for(c, 1);
        if (!one) return VN_ERR_NOMEM;
        one[0] = k == 1 ? scale : offset;
        VN_TRY(put_plane(c, k, k == 1 ? VN_F32 : VN_U8, 0, NULL, one));
    }
    return VN_OK;
}

static const op_row_t rows[] = {
    {"QuantizeLinear", run_quantise, 0}, {"DequantizeLinear", run_dequantise, 0}, {"DynamicQuantizeLinear", run_dynamic, 0}};
const op_table_t quantise_ops = {rows, sizeof rows / sizeof *rows};
