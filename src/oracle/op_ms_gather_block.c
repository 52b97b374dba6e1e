/* op_ms_gather_block.c -- GatherBlockQuantized: Gather of block-quantised data, dequantised on the way.
 *
 * Data along quantize_axis share a scale (and a zero point) per block; codes are i4, u4, u8, or 2 or 4 bits in bytes, low bits first, packed
 * along the last dimension; or small floats without a zero point. An index outside the axis gives zeros (the operator's text).
 * Claim MS-10: q - z is an integer of at most 9 bits (or q a float of at most 4), so (q - z) s is exact in f64 and one rounding in the type of
 * the scales: the result is demanded.
 */
#include <string.h>

#include "oracle/move.h"
#include "oracle/ms.h"

enum { DATA, INDICES, SCALES, ZEROS };

typedef struct gather_block {
    vn_shape_t codes, out; /* codes: unpacked shape of the data */
    int gather, quantize, bits;
    int64_t block, packed; /* codes per element of the last dimension */
    bool small_float;
} gather_block_t;

static vn_status_t scales_fit(vn_eval_t *e, const gather_block_t *g) {
    const vn_tensor_t *s = e->in[SCALES].t;
    for (int d = 0; d < g->codes.rank; ++d) {
        const int64_t need = d == g->quantize ? (g->codes.d[d] + g->block - 1) / g->block : g->codes.d[d];
        const bool repeated = g->small_float && d != g->quantize && s->dims[d] == 1;
        if (s->dims[d] != need && !repeated)
            return vn_eval_fail(e, VN_ERR_SHAPE, "dimension %d of the scales is %lld, not %lld", d, (long long)s->dims[d], (long long)need);
        if (!vn_has(e, ZEROS)) continue;
        const vn_tensor_t *z = e->in[ZEROS].t;
        const int64_t zeros = d == g->quantize ? (need + g->packed - 1) / g->packed : need;
        if (z->rank != s->rank || z->dims[d] != zeros)
            return vn_eval_fail(e, VN_ERR_SHAPE, "dimension %d of the zero points is not %lld", d, (long long)zeros);
    }
    return VN_OK;
}

static vn_status_t plan(vn_eval_t *e, gather_block_t *g) {
    for (int k = DATA; k <= SCALES; ++k) VN_TRY(vn_move_need(e, k));
    const vn_tensor_t *x = e->in[DATA].t, *index = e->in[INDICES].t, *s = e->in[SCALES].t;
    *g = (gather_block_t){.bits = (int)vn_node_int(e->node, "bits", 4),
                          .block = vn_node_int(e->node, "block_size", 128),
                          .packed = 1,
                          .codes = vn_shape_of(x),
                          .small_float = vn_dtype_is_float(x->dtype)};
    if (vn_dtype_bits(x->dtype) == 0 || vn_dtype_bits(x->dtype) > 8 || (!g->small_float && !vn_dtype_is_int(x->dtype)))
        return vn_eval_fail(e, VN_ERR_DTYPE, "data of type %s", vn_dtype_name(x->dtype));
    if (!vn_dtype_is_float(s->dtype) || vn_dtype_bits(s->dtype) < 16)
        return vn_eval_fail(e, VN_ERR_DTYPE, "scales of type %s", vn_dtype_name(s->dtype));
    if (x->rank < 1 || s->rank != x->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "data of rank %d, scales of rank %d", x->rank, s->rank);
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "gather_axis", 0), x->rank, &g->gather));
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "quantize_axis", 1), x->rank, &g->quantize));
    if (g->small_float && vn_has(e, ZEROS)) return vn_eval_fail(e, VN_ERR_USAGE, "small floats have no zero points");
    if (g->small_float && g->block == 0) g->block = g->codes.d[g->quantize] ? g->codes.d[g->quantize] : 1;
    if (g->block < 16 && !(g->small_float && g->block == g->codes.d[g->quantize]))
        return vn_eval_fail(e, VN_ERR_RANGE, "block_size %lld", (long long)g->block);
    if (x->dtype == VN_U8) {
        if (g->bits != 2 && g->bits != 4 && g->bits != 8) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "codes of %d bits in bytes", g->bits);
        g->packed = 8 / g->bits;
        if (g->gather != 0 || g->quantize != x->rank - 1)
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "codes in bytes gathered along axis %d in blocks along axis %d", g->gather,
                                g->quantize);
        if (!vn_i64_mul(g->codes.d[x->rank - 1], g->packed, &g->codes.d[x->rank - 1]))
            return vn_eval_fail(e, VN_ERR_RANGE, "too many codes");
    }
    for (int d = 0; d < g->codes.rank; ++d) {
        if (d != g->gather) VN_TRY(vn_shape_add(e, &g->out, g->codes.d[d]));
        else
            for (int i = 0; i < index->rank; ++i) VN_TRY(vn_shape_add(e, &g->out, index->dims[i]));
    }
    VN_TRY(scales_fit(e, g));
    return vn_shape_check(e, s->dtype, &g->out);
}

static double packed_code(const vn_tensor_t *t, int bits, int64_t i) {
    const int64_t bit = i * bits;
    return ((const uint8_t *)t->data)[bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

/* Row-major number of the element of the scales (or, packed, of the zero points' codes) that belongs to a code at `at`. */
static int64_t scale_number(const gather_block_t *g, const int64_t *dims, const int64_t *at) {
    int64_t n = 0;
    for (int d = 0; d < g->codes.rank; ++d) {
        const int64_t i = d == g->quantize ? at[d] / g->block : at[d];
        n = n * dims[d] + (dims[d] == 1 ? 0 : i);
    }
    return n;
}

static double dequantised(const vn_eval_t *e, const gather_block_t *g, const double *scales, const int64_t *at) {
    const vn_tensor_t *x = e->in[DATA].t;
    int64_t number = 0, zero_dims[VN_MAX_RANK];
    for (int d = 0; d < g->codes.rank; ++d) number = number * g->codes.d[d] + at[d];
    const double s = scales[scale_number(g, e->in[SCALES].t->dims, at)];
    if (g->small_float) return vn_tensor_get_f64(x, number) * s;
    const bool bytes = x->dtype == VN_U8;
    double zero = bytes ? (double)(1 << (g->bits - 1)) : 0;
    if (vn_has(e, ZEROS)) {
        const vn_tensor_t *z = e->in[ZEROS].t;
        memcpy(zero_dims, z->dims, sizeof zero_dims);
        zero_dims[g->quantize] *= g->packed; /* rows of packed zero points are padded to whole bytes */
        int64_t n = 0;
        for (int d = 0; d < g->codes.rank; ++d) n = n * zero_dims[d] + (d == g->quantize ? at[d] / g->block : at[d]);
        zero = bytes ? packed_code(z, g->bits, n) : vn_tensor_get_f64(z, n);
    }
    return ((bytes ? packed_code(x, g->bits, number) : vn_tensor_get_f64(x, number)) - zero) * s;
}

vn_status_t vn_eval_ms_gather_block(vn_eval_t *e) {
    gather_block_t g;
    VN_TRY(plan(e, &g));
    VN_TRY(vn_out_float(e, 0, e->in[SCALES].t->dtype, g.out.rank, g.out.d));
    const double *scales = vn_arg_f64(e, SCALES);
    if (!scales) return VN_ERR_NOMEM;
    const int index_rank = e->in[INDICES].t->rank;
    vn_ref_t *r = &e->out[0];
    for (int64_t i = 0; i < r->count; ++i) {
        int64_t at[VN_MAX_RANK], rest = i, index = 0, step = 1;
        bool inside = true;
        for (int d = g.codes.rank - 1; d >= 0; --d) {
            if (d != g.gather) {
                at[d] = rest % g.codes.d[d];
                rest /= g.codes.d[d];
                continue;
            }
            for (int k = index_rank - 1; k >= 0; --k) {
                const int64_t n = e->in[INDICES].t->dims[k];
                index += rest % n * step;
                step *= n;
                rest /= n;
            }
            at[d] = vn_arg_int(e, INDICES, index);
            if (at[d] < 0) at[d] += g.codes.d[d];
            inside = at[d] >= 0 && at[d] < g.codes.d[d];
        }
        r->value[i] = inside ? dequantised(e, &g, scales, at) : 0;
    }
    vn_out_rounded(e, 0);
    return VN_OK;
}

vn_status_t vn_infer_ms_gather_block(vn_eval_t *e) {
    gather_block_t g;
    VN_TRY(plan(e, &g));
    return vn_move_infer(e, 0, e->in[SCALES].t->dtype, &g.out);
}
