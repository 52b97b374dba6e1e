/* op_elementwise.c -- binary operators with broadcasting, comparisons, Mod, PRelu, Clip, Where, Cast. A new one is a row. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* ---- binary ---- */

enum { ADD, SUB, MUL, DIV, POW, MIN, MAX, EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, MOD, P_RELU };

typedef double (*binary_fn)(const call_t *c, bool wide, double x, double y);
typedef int64_t (*binary_int_fn)(bool is_unsigned, int64_t x, int64_t y);

static double b_add(const call_t *c, bool w, double x, double y) {
    (void)c;
    return settle(w, x + y);
}
static double b_sub(const call_t *c, bool w, double x, double y) {
    (void)c;
    return settle(w, x - y);
}
static double b_mul(const call_t *c, bool w, double x, double y) {
    (void)c;
    return settle(w, x * y);
}
static double b_div(const call_t *c, bool w, double x, double y) { return quotient(c, w, x, y); }
static double b_pow(const call_t *c, bool w, double x, double y) {
    (void)c;
    return w ? pow(x, y) : (double)powf((float)x, (float)y);
}
static double b_min(const call_t *c, bool w, double x, double y) {
    (void)w;
    if (faulty(c, F_NAN_IGNORED) && (isnan(x) || isnan(y))) return isnan(x) ? y : x;
    return isnan(x) || x < y ? x : y;
}
static double b_max(const call_t *c, bool w, double x, double y) {
    (void)w;
    if (faulty(c, F_NAN_IGNORED) && (isnan(x) || isnan(y))) return isnan(x) ? y : x;
    return isnan(x) || x > y ? x : y;
}
static double b_equal(const call_t *c, bool w, double x, double y) {
    (void)c, (void)w;
    return x == y;
}
static double b_less(const call_t *c, bool w, double x, double y) {
    (void)c, (void)w;
    return x < y;
}
static double b_less_equal(const call_t *c, bool w, double x, double y) {
    (void)c, (void)w;
    return x <= y;
}
static double b_greater(const call_t *c, bool w, double x, double y) {
    (void)c, (void)w;
    return x > y;
}
static double b_greater_equal(const call_t *c, bool w, double x, double y) {
    (void)c, (void)w;
    return x >= y;
}

/* fmod: the sign of the dividend; else that of the divisor. x - y floor(x/y) with a rounded quotient is a fault. */
static double b_mod(const call_t *c, bool w, double x, double y) {
    const bool fmod_rule = attr_int(c, "fmod", 0) != 0;
    if (c->a->reciprocal) {
        const double q = settle(w, x * settle(w, 1 / y));
        return settle(w, x - settle(w, y * (fmod_rule ? trunc(q) : floor(q))));
    }
    const double r = fmod(x, y);
    return fmod_rule || r == 0 || (r < 0) == (y < 0) ? r : settle(w, r + y);
}
static double b_prelu(const call_t *c, bool w, double x, double y) {
    (void)c;
    return x < 0 ? settle(w, x * y) : x;
}

/* Integers wrap, as two's complement hardware does. */
static int64_t i_add(bool u, int64_t x, int64_t y) {
    (void)u;
    return (int64_t)((uint64_t)x + (uint64_t)y);
}
static int64_t i_sub(bool u, int64_t x, int64_t y) {
    (void)u;
    return (int64_t)((uint64_t)x - (uint64_t)y);
}
static int64_t i_mul(bool u, int64_t x, int64_t y) {
    (void)u;
    return (int64_t)((uint64_t)x * (uint64_t)y);
}
static int64_t i_div(bool u, int64_t x, int64_t y) {
    if (y == 0) return 0; /* undefined by the standard; no trap */
    if (u) return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static int64_t i_mod(bool u, int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    if (u) return (int64_t)((uint64_t)x % (uint64_t)y);
    const int64_t r = x % y;
    return r == 0 || (r < 0) == (y < 0) ? r : r + y;
}
static int64_t i_fmod(bool u, int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    return u ? (int64_t)((uint64_t)x % (uint64_t)y) : x % y;
}
static bool i_lt(bool u, int64_t x, int64_t y) { return u ? (uint64_t)x < (uint64_t)y : x < y; }
static int64_t i_min(bool u, int64_t x, int64_t y) { return i_lt(u, x, y) ? x : y; }
static int64_t i_max(bool u, int64_t x, int64_t y) { return i_lt(u, y, x) ? x : y; }
static int64_t i_equal(bool u, int64_t x, int64_t y) {
    (void)u;
    return x == y;
}
static int64_t i_less(bool u, int64_t x, int64_t y) { return i_lt(u, x, y); }
static int64_t i_less_equal(bool u, int64_t x, int64_t y) { return !i_lt(u, y, x); }
static int64_t i_greater(bool u, int64_t x, int64_t y) { return i_lt(u, y, x); }
static int64_t i_greater_equal(bool u, int64_t x, int64_t y) { return !i_lt(u, x, y); }

static const struct {
    binary_fn f;
    binary_int_fn i;                /* NULL: by way of doubles */
    bool compares, variadic, mixed; /* mixed: the second operand may have another type */
} binaries[] = {
    [ADD] = {b_add, i_add, false, false, false},
    [SUB] = {b_sub, i_sub, false, false, false},
    [MUL] = {b_mul, i_mul, false, false, false},
    [DIV] = {b_div, i_div, false, false, false},
    [POW] = {b_pow, NULL, false, false, true},
    [MIN] = {b_min, i_min, false, true, false},
    [MAX] = {b_max, i_max, false, true, false},
    [EQUAL] = {b_equal, i_equal, true, false, false},
    [LESS] = {b_less, i_less, true, false, false},
    [LESS_EQUAL] = {b_less_equal, i_less_equal, true, false, false},
    [GREATER] = {b_greater, i_greater, true, false, false},
    [GREATER_EQUAL] = {b_greater_equal, i_greater_equal, true, false, false},
    [MOD] = {b_mod, i_mod, false, false, false},
    [P_RELU] = {b_prelu, NULL, false, false, false},
};

/* y as if its single long axis were the first of the result that has its length; whole where it is not broadcast. */
static vn_status_t misplaced(const call_t *c, const vn_tensor_t *y, int rank, const int64_t *dims, vn_tensor_t **out) {
    int64_t shape[VN_MAX_RANK];
    int d = 0;
    while (d < rank && dims[d] != y->count) ++d;
    if (y->count < 2 || d == rank) return refuse(c, "no axis on which the operand could be laid instead");
    for (int k = 0; k < rank; ++k) shape[k] = k == d ? y->count : 1;
    vn_tensor_t *view;
    VN_TRY(vn_tensor_reshape(y, rank, shape, &view, c->err));
    vn_status_t s = vn_tensor_broadcast(view, rank, dims, out, c->err);
    vn_tensor_free(view);
    return s;
}

/* x op y, both broadcast to dims. */
static vn_status_t combine(const call_t *c, const vn_tensor_t *x, const vn_tensor_t *y, vn_tensor_t **out) {
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(vn_broadcast_shape(x->rank, x->dims, y->rank, y->dims, &rank, dims, c->err));
    vn_tensor_t *xs = NULL, *ys = NULL;
    const vn_dtype_t t = binaries[c->param].compares ? VN_BOOL : x->dtype;
    call_t one = {.a = c->a, .fault = c->fault, .node = c->node, .n_out = 1, .out = out, .err = c->err};
    vn_status_t s = vn_tensor_broadcast(x, rank, dims, &xs, c->err);
    if (s == VN_OK && faulty(c, F_BROADCAST_AXIS)) s = misplaced(c, y, rank, dims, &ys);
    else if (s == VN_OK) s = vn_tensor_broadcast(y, rank, dims, &ys, c->err);
    if (s == VN_OK && !vn_dtype_is_float(x->dtype) && binaries[c->param].i) {
        int64_t *a = int_plane(c, xs), *b = int_plane(c, ys);
        const bool u = vn_dtype_kind(x->dtype) != VN_KIND_SIGNED;
        const binary_int_fn f = c->param == MOD && attr_int(c, "fmod", 0) ? i_fmod : binaries[c->param].i;
        s = a && b ? VN_OK : VN_ERR_NOMEM;
        for (int64_t i = 0; s == VN_OK && i < xs->count; ++i) a[i] = f(u, a[i], b[i]);
        vn_free(b);
        if (s == VN_OK) s = put_ints(&one, 0, t, rank, dims, a);
        else vn_free(a);
    } else if (s == VN_OK) {
        double *a = plane(c, xs), *b = plane(c, ys);
        const bool wide = is_wide(x->dtype) || !vn_dtype_is_float(x->dtype);
        s = a && b ? VN_OK : VN_ERR_NOMEM;
        for (int64_t i = 0; s == VN_OK && i < xs->count; ++i) a[i] = binaries[c->param].f(c, wide, a[i], b[i]);
        vn_free(b);
        if (s == VN_OK) s = put_plane(&one, 0, t, rank, dims, a);
        else vn_free(a);
    }
    vn_tensor_free(xs);
    vn_tensor_free(ys);
    return s;
}

static vn_status_t run_binary(call_t *c) {
    const int n = binaries[c->param].variadic ? c->n_in : 2;
    for (int k = 0; k < (n > 0 ? n : 1); ++k) {
        VN_TRY(need(c, k));
        const vn_dtype_t t = c->in[k]->dtype;
        if (t == VN_STRING || vn_dtype_kind(t) == VN_KIND_COMPLEX || (!binaries[c->param].mixed && t != c->in[0]->dtype))
            return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (%s): element types %s and %s", c->node->path, c->node->op,
                           vn_dtype_name(c->in[0]->dtype), vn_dtype_name(t));
    }
    vn_tensor_t *y = vn_tensor_retain(c->in[0]);
    for (int k = 1; k < n; ++k) {
        vn_tensor_t *next = NULL;
        vn_status_t s = combine(c, y, c->in[k], &next);
        vn_tensor_free(y);
        if (s != VN_OK) return s;
        y = next;
    }
    c->out[0] = y;
    return VN_OK;
}

/* ---- the rest ---- */

static vn_status_t run_not(call_t *c) {
    VN_TRY(need(c, 0));
    int64_t *v = int_plane(c, c->in[0]);
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < c->in[0]->count; ++i) v[i] = !v[i];
    return put_ints(c, 0, VN_BOOL, c->in[0]->rank, c->in[0]->dims, v);
}

/* Bounds are inputs 1 and 2 (opset 11 on) or attributes. */
static vn_status_t run_clip(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    if (x->dtype == VN_STRING || vn_dtype_kind(x->dtype) == VN_KIND_COMPLEX)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Clip): element type %s", c->node->path, vn_dtype_name(x->dtype));
    double bound[2] = {attr_float(c, "min", -INFINITY), attr_float(c, "max", INFINITY)}, *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int k = 1; k <= 2; ++k)
        if (k < c->n_in && c->in[k] && c->in[k]->count == 1) bound[k - 1] = vn_tensor_get_f64(c->in[k], 0);
    const int first = faulty(c, F_CLIP_ORDER) ? 1 : 0;
    for (int64_t i = 0; i < x->count; ++i) {
        if (isnan(v[i]) && faulty(c, F_NAN_IGNORED)) v[i] = bound[0];
        for (int k = 0; k < 2; ++k) {
            const int at = k ^ first;
            if (at ? v[i] > bound[1] : v[i] < bound[0]) v[i] = bound[at];
        }
    }
    return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
}

static vn_status_t broadcast_copy(const call_t *c, const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out) {
    vn_tensor_t *view;
    VN_TRY(vn_tensor_broadcast(t, rank, dims, &view, c->err));
    vn_status_t s = vn_tensor_copy(view, out, c->err);
    vn_tensor_free(view);
    return s;
}

static vn_status_t run_where(call_t *c) {
    for (int k = 0; k < 3; ++k) VN_TRY(need(c, k));
    const int bits = vn_dtype_bits(c->in[1]->dtype);
    if (bits < 8 || c->in[1]->dtype != c->in[2]->dtype)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Where): element types %s and %s", c->node->path, vn_dtype_name(c->in[1]->dtype),
                       vn_dtype_name(c->in[2]->dtype));
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(vn_broadcast_shape(c->in[1]->rank, c->in[1]->dims, c->in[2]->rank, c->in[2]->dims, &rank, dims, c->err));
    VN_TRY(vn_broadcast_shape(c->in[0]->rank, c->in[0]->dims, rank, dims, &rank, dims, c->err));
    vn_tensor_t *cond = NULL, *x = NULL, *y = NULL;
    vn_status_t s;
    if (faulty(c, F_BROADCAST_AXIS)) {
        vn_tensor_t *view = NULL;
        s = misplaced(c, c->in[0], rank, dims, &view);
        if (s == VN_OK) s = vn_tensor_copy(view, &cond, c->err);
        vn_tensor_free(view);
    } else {
        s = broadcast_copy(c, c->in[0], rank, dims, &cond);
    }
    if (s == VN_OK && faulty(c, F_OPERAND_TRANSPOSED) && rank >= 2) { /* the memory of the condition read by columns */
        const int64_t m = dims[rank - 2], n = dims[rank - 1];
        vn_tensor_t *old = cond;
        s = vn_tensor_copy(old, &cond, c->err);
        for (int64_t i = 0; s == VN_OK && i < cond->count; ++i) {
            const int64_t at = i % (m * n);
            vn_tensor_set_i64(cond, i, vn_tensor_get_i64(old, i - at + at % n * m + at / n));
        }
        vn_tensor_free(old);
    }
    if (s == VN_OK) s = broadcast_copy(c, c->in[1], rank, dims, &x);
    if (s == VN_OK) s = broadcast_copy(c, c->in[2], rank, dims, &y);
    if (s == VN_OK) {
        const size_t size = (size_t)bits / 8;
        for (int64_t i = 0; i < x->count; ++i)
            if (vn_tensor_get_i64(cond, i)) memcpy((char *)y->data + (size_t)i * size, (char *)x->data + (size_t)i * size, size);
        c->out[0] = vn_tensor_retain(y);
    }
    vn_tensor_free(cond);
    vn_tensor_free(x);
    vn_tensor_free(y);
    return s;
}

/* ---- Cast: no subnormal is flushed, nothing is computed ---- */

/* To floats: nearest even, 8-bit formats saturate unless told otherwise; e8m0 has its own choice of direction. */
static vn_status_t cast_to_float(call_t *c, const vn_tensor_t *x, vn_tensor_t *y) {
    double *v = vn_alloc((size_t)x->count, sizeof *v);
    if (!v) return no_memory(c);
    vn_tensor_to_f64(x, v);
    const char *how = attr_string(c, "round_mode", "up");
    const vn_rounding_t mode = y->dtype != VN_F8E8M0 || strcmp(how, "nearest") == 0 ? VN_RNE : strcmp(how, "up") == 0 ? VN_RU : VN_RZ;
    const bool saturate = vn_dtype_bits(y->dtype) <= 8 && attr_int(c, "saturate", 1) != 0;
    if (faulty(c, F_DOUBLE_ROUNDING)) /* by way of the next wider type */
        vn_round_array(x->dtype == VN_F64 ? VN_FMT_F32 : VN_FMT_F16, VN_RNE, v, x->count);
    if (c->a->result.format) vn_round_array(c->a->result.format, c->a->result.mode, v, x->count);
    vn_tensor_from_f64(y, v, faulty(c, F_TRUNCATED_STORE) ? VN_RZ : mode, saturate);
    vn_free(v);
    return VN_OK;
}

/* An integer as a kernel takes it that extends without the sign, or saturates where it should wrap. */
static int64_t cast_badly(const call_t *c, vn_dtype_t from, vn_dtype_t to, int64_t v) {
    if (faulty(c, F_SIGN_EXTENSION) && vn_dtype_kind(from) == VN_KIND_SIGNED && vn_dtype_bits(from) < 64)
        return v & (((int64_t)1 << vn_dtype_bits(from)) - 1);
    const int bits = vn_dtype_bits(to);
    if (!faulty(c, F_SATURATE_I8) || bits >= 64) return v;
    const bool sign = vn_dtype_kind(to) == VN_KIND_SIGNED;
    const int64_t most = sign ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1, least = sign ? -most - 1 : 0;
    return v > most ? most : v < least ? least : v;
}

/* To integers: floats are cut towards zero, integers wrap; to bool: not zero. */
static void cast_to_int(const call_t *c, const vn_tensor_t *x, vn_tensor_t *y) {
    const bool from_float = vn_dtype_is_float(x->dtype), to_bool = y->dtype == VN_BOOL;
    for (int64_t i = 0; i < x->count; ++i) {
        if (to_bool) vn_tensor_set_i64(y, i, from_float ? vn_tensor_get_f64(x, i) != 0 : vn_tensor_get_i64(x, i) != 0);
        else if (from_float) vn_tensor_set_f64(y, i, vn_tensor_get_f64(x, i));
        else vn_tensor_set_i64(y, i, cast_badly(c, x->dtype, y->dtype, vn_tensor_get_i64(x, i)));
    }
}

static vn_status_t run_cast(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    const int64_t to = attr_int(c, "to", 0);
    if (to <= VN_UNDEFINED || to >= VN_DTYPE_COUNT || to == VN_STRING || x->dtype == VN_STRING ||
        vn_dtype_kind((vn_dtype_t)to) == VN_KIND_COMPLEX || vn_dtype_kind(x->dtype) == VN_KIND_COMPLEX)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Cast): from %s to type %lld", c->node->path, vn_dtype_name(x->dtype),
                       (long long)to);
    VN_TRY(vn_tensor_new((vn_dtype_t)to, x->rank, x->dims, &c->out[0], c->err));
    if (vn_dtype_is_float((vn_dtype_t)to)) return cast_to_float(c, x, c->out[0]);
    cast_to_int(c, x, c->out[0]);
    return VN_OK;
}

static const op_row_t rows[] = {
    {"Add", run_binary, ADD},
    {"Sub", run_binary, SUB},
    {"Mul", run_binary, MUL},
    {"Div", run_binary, DIV},
    {"Pow", run_binary, POW},
    {"Min", run_binary, MIN},
    {"Max", run_binary, MAX},
    {"Equal", run_binary, EQUAL},
    {"Less", run_binary, LESS},
    {"LessOrEqual", run_binary, LESS_EQUAL},
    {"Greater", run_binary, GREATER},
    {"GreaterOrEqual", run_binary, GREATER_EQUAL},
    {"Mod", run_binary, MOD},
    {"PRelu", run_binary, P_RELU},
    {"Not", run_not, 0},
    {"Clip", run_clip, 0},
    {"Where", run_where, 0},
    {"Cast", run_cast, 0},
};
const op_table_t elementwise_ops = {rows, sizeof rows / sizeof *rows};
