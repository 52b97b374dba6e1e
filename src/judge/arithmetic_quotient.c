/* arithmetic_quotient.c -- quotients by multiplication with a rounded reciprocal, where the result jumps: remainders and quantisers.
 *
 * Claim ARITH-3: with m = RN(1 / b) in the type's arithmetic and q = RN(a m), a remainder a - b trunc(q) (or floor), a quotient trunc(q) and a code
 * round(q) + z differ from the exact ones exactly where q crosses a step. Carried out on the data they foretell every bit of the result.
 */
#include <math.h>
#include <string.h>

#include "judge/arithmetic.h"

/* Rounded to the working type: f32 for everything but f64. */
static double work(bool f64, double x) { return f64 ? x : (double)(float)x; }

/* Strides of operand `t` broadcast to the output, in elements of its contiguous plane. */
static bool broadcast(const vn_tensor_t *t, const vn_tensor_t *out, int64_t *stride) {
    int64_t s = 1;
    memset(stride, 0, VN_MAX_RANK * sizeof *stride);
    for (int d = 0; d < t->rank; ++d) {
        const int at = t->rank - 1 - d, to = out->rank - 1 - d;
        if (to < 0 || (t->dims[at] != 1 && t->dims[at] != out->dims[to])) return false;
        stride[to] = t->dims[at] == 1 ? 0 : s;
        s *= t->dims[at];
    }
    return true;
}

static int64_t at(const vn_tensor_t *out, const int64_t *stride, int64_t i) {
    int64_t offset = 0;
    for (int d = out->rank - 1; d >= 0; --d) {
        offset += i % out->dims[d] * stride[d];
        i /= out->dims[d];
    }
    return offset;
}

enum { FUSED = 1, FLOOR = 2, FORMS = 4 };

/* Remainders and integer quotients, in all forms that kernels take. */
static vn_status_t remainders(vn_arith_t *a, bool quotient, vn_error_t *err) {
    const vn_tensor_t *ta = vn_arith_operand(a, 0), *tb = vn_arith_operand(a, 1), *out = a->c->actual;
    int64_t sa[VN_MAX_RANK], sb[VN_MAX_RANK];
    if (!ta || !tb || ta->dtype != out->dtype || !broadcast(ta, out, sa) || !broadcast(tb, out, sb)) return VN_OK;
    const bool is_float = vn_dtype_is_float(out->dtype), wide = out->dtype == VN_F64;
    if (quotient && is_float) return VN_OK; /* a float quotient has a second tier of its own */
    const bool fmod_rule = vn_node_int(a->c->q->node, "fmod", 0) != 0;
    double *x = vn_arith_plane(a, 0), *y = vn_arith_plane(a, 1);
    vn_tensor_t *t = NULL;
    vn_status_t s = x && y ? vn_tensor_copy(out, &t, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int form = 0; form < FORMS && s == VN_OK; ++form) {
        if (quotient && (form & FUSED)) continue;
        if (fmod_rule && (form & FLOOR)) continue;
        for (int64_t i = 0; i < a->n; ++i) {
            const double p = x[at(out, sa, i)], b = y[at(out, sb, i)], inverse = work(wide, 1 / b), q = work(wide, p * inverse);
            const bool down = (form & FLOOR) || (!fmod_rule && !quotient);
            const double k = down ? floor(q) : trunc(q);
            const double r = quotient ? k : form & FUSED ? fma(-b, k, p) : p - work(wide, b * k);
            if (is_float) vn_tensor_set_f64(t, i, r);
            else vn_tensor_set_i64(t, i, fabs(r) < 0x1p62 ? (int64_t)r : 0);
            if (a->x[i] == 0 && r == 0 && is_float) vn_tensor_set_f64(t, i, a->x[i]); /* the sign of a zero is the sign rule's affair */
        }
        vn_arith_exact(a, "reciprocal-quotient", VN_ARITH_BUG, t, "%s by the rounded reciprocal of the divisor, %s%s",
                       quotient ? "integer quotient" : "remainder", (form & FLOOR) || (!fmod_rule && !quotient) ? "floor" : "truncation",
                       form & FUSED ? ", one fused multiply-subtract" : "");
    }
    vn_free(x);
    vn_free(y);
    vn_tensor_free(t);
    return s;
}

/* QuantizeLinear with the scale's reciprocal: per tensor, per axis, blocks. */
static vn_status_t codes(vn_arith_t *a, vn_error_t *err) {
    const vn_tensor_t *tx = vn_arith_operand(a, 0), *ts = vn_arith_operand(a, 1), *tz = vn_arith_operand(a, 2), *out = a->c->actual;
    if (!tx || !ts || !vn_dtype_is_int(out->dtype) || tx->count != out->count) return VN_OK;
    const vn_node_t *node = a->c->q->node;
    int64_t axis = vn_node_int(node, "axis", 1);
    if (axis < 0) axis += tx->rank;
    if (ts->count > 1 && (axis < 0 || axis >= tx->rank)) return VN_OK;
    double *x = vn_arith_plane(a, 0), *scale = vn_arith_plane(a, 1);
    vn_tensor_t *t = NULL;
    vn_status_t s = x && scale ? vn_tensor_copy(out, &t, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    const int bits = vn_dtype_bits(out->dtype);
    const bool sign = vn_dtype_kind(out->dtype) == VN_KIND_SIGNED;
    const double low = sign ? -ldexp(1, bits - 1) : 0, high = sign ? ldexp(1, bits - 1) - 1 : ldexp(1, bits) - 1;
    int64_t inner = 1;
    for (int d = (int)axis + 1; ts->count > 1 && d < tx->rank; ++d) inner *= tx->dims[d];
    const bool blocked = ts->rank == tx->rank && ts->rank > 1 && ts->count > 1;
    const int64_t length = ts->count > 1 ? tx->dims[axis] : 1, block = blocked ? vn_node_int(node, "block_size", 0) : 1;
    if (s == VN_OK && (ts->count == 1 || (blocked ? block > 0 : ts->count == length))) {
        const int64_t groups = blocked ? ts->dims[axis] : length;
        for (int64_t i = 0; i < a->n; ++i) {
            const int64_t along = i / inner % length,
                          j = ts->count == 1 ? 0 : (blocked ? (i / inner / length * groups + along / block) * inner + i % inner : along);
            const double q = (double)((float)x[i] * (float)(1 / scale[j])), z = tz && j < tz->count ? (double)vn_tensor_get_i64(tz, j) : 0;
            const double code = rint(q) + z;
            vn_tensor_set_i64(t, i, (int64_t)(code < low ? low : code > high ? high : code));
        }
        vn_arith_exact(a, "reciprocal-quotient", VN_ARITH_BUG, t, "codes by multiplication with the rounded reciprocal of the scale");
    }
    vn_free(x);
    vn_free(scale);
    vn_tensor_free(t);
    return s;
}

vn_status_t vn_arith_quotient(vn_arith_t *a, vn_error_t *err) {
    if (!a->c->q->node || a->c->m.outside == 0) return VN_OK;
    const bool mod = vn_arith_is(a, "Mod"), div = vn_arith_is(a, "Div"), quantise = vn_arith_is(a, "QuantizeLinear");
    if (!mod && !div && !quantise) return VN_OK;
    a->tried++;
    return quantise ? codes(a, err) : remainders(a, div, err);
}
