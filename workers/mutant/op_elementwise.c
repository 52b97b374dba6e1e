/* op_elementwise.c -- functions of one element, binary operators with broadcasting, comparisons, Clip, Where, Cast. A new one is a row. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* ---- unary: f32 by the f32 functions of libm, f64 by the double ones ---- */

enum { RELU, ABS, NEG, TANH, EXP, LOG, SQRT, ERF, FLOOR, CEIL, RECIPROCAL, LEAKY_RELU, SIGMOID, HARD_SIGMOID, HARD_SWISH };

typedef double (*unary_fn)(bool wide, double x, const double *p);

#define LIBM(name, single, twin)                               \
    static double name(bool wide, double x, const double *p) { \
        (void)p;                                               \
        return wide ? twin(x) : (double)single((float)x);      \
    }
LIBM(f_tanh, tanhf, tanh)
LIBM(f_exp, expf, exp)
LIBM(f_log, logf, log)
LIBM(f_sqrt, sqrtf, sqrt)
LIBM(f_erf, erff, erf)
LIBM(f_floor, floorf, floor)
LIBM(f_ceil, ceilf, ceil)
LIBM(f_abs, fabsf, fabs)

static double f_neg(bool wide, double x, const double *p) {
    (void)wide, (void)p;
    return -x;
}
static double f_relu(bool wide, double x, const double *p) {
    (void)wide, (void)p;
    return x < 0 ? 0 : x;
}
static double f_reciprocal(bool wide, double x, const double *p) {
    (void)p;
    return settle(wide, 1 / x);
}
static double f_leaky(bool wide, double x, const double *p) { return x < 0 ? settle(wide, p[0] * x) : x; }
static double f_sigmoid(bool wide, double x, const double *p) { return settle(wide, 1 / settle(wide, 1 + f_exp(wide, -x, p))); }
static double f_hard_sigmoid(bool wide, double x, const double *p) {
    const double y = settle(wide, settle(wide, p[0] * x) + p[1]);
    return y < 0 ? 0 : y > 1 ? 1 : y; /* NaN stays */
}
static double f_hard_swish(bool wide, double x, const double *p) { return settle(wide, x * f_hard_sigmoid(wide, x, p)); }

static const struct {
    unary_fn f;
    const char *attrs[2];
    double defaults[2];
    bool ints; /* exact on integers too */
} unaries[] = {
    [RELU] = {f_relu, {0}, {0}, true},
    [ABS] = {f_abs, {0}, {0}, true},
    [NEG] = {f_neg, {0}, {0}, true},
    [TANH] = {f_tanh, {0}, {0}, false},
    [EXP] = {f_exp, {0}, {0}, false},
    [LOG] = {f_log, {0}, {0}, false},
    [SQRT] = {f_sqrt, {0}, {0}, false},
    [ERF] = {f_erf, {0}, {0}, false},
    [FLOOR] = {f_floor, {0}, {0}, false},
    [CEIL] = {f_ceil, {0}, {0}, false},
    [RECIPROCAL] = {f_reciprocal, {0}, {0}, false},
    [LEAKY_RELU] = {f_leaky, {"alpha", NULL}, {0.01f, 0}, false},
    [SIGMOID] = {f_sigmoid, {0}, {0}, false},
    [HARD_SIGMOID] = {f_hard_sigmoid, {"alpha", "beta"}, {0.2f, 0.5f}, false},
    [HARD_SWISH] = {f_hard_swish, {0}, {(double)(1.0f / 6.0f), 0.5}, false},
};

static vn_status_t unary_ints(call_t *c, const vn_tensor_t *x) {
    int64_t *v = int_plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) {
        const bool negative = v[i] < 0;
        const int64_t minus = (int64_t)(0 - (uint64_t)v[i]);
        if (c->param == NEG) v[i] = minus;
        else if (negative && vn_dtype_kind(x->dtype) == VN_KIND_SIGNED) v[i] = c->param == ABS ? minus : 0;
    }
    return put_ints(c, 0, x->dtype, x->rank, x->dims, v);
}

static vn_status_t run_unary(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    if (unaries[c->param].ints && vn_dtype_is_int(x->dtype)) return unary_ints(c, x);
    VN_TRY(need_float(c, 0));
    double p[2], *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int k = 0; k < 2; ++k) {
        const char *name = unaries[c->param].attrs[k];
        p[k] = name ? vn_node_float(c->node, name, unaries[c->param].defaults[k]) : unaries[c->param].defaults[k];
    }
    const bool wide = is_wide(x->dtype);
    for (int64_t i = 0; i < x->count; ++i) v[i] = unaries[c->param].f(wide, v[i], p);
    return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
}

/* ---- binary ---- */

enum { ADD, SUB, MUL, DIV, POW, MIN, MAX, EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL };

typedef double (*binary_fn)(bool wide, double x, double y);
typedef int64_t (*binary_int_fn)(bool is_unsigned, int64_t x, int64_t y);

static double b_add(bool w, double x, double y) { return settle(w, x + y); }
static double b_sub(bool w, double x, double y) { return settle(w, x - y); }
static double b_mul(bool w, double x, double y) { return settle(w, x * y); }
static double b_div(bool w, double x, double y) { return settle(w, x / y); }
static double b_pow(bool w, double x, double y) { return w ? pow(x, y) : (double)powf((float)x, (float)y); }
static double b_min(bool w, double x, double y) {
    (void)w;
    return isnan(x) || x < y ? x : y;
}
static double b_max(bool w, double x, double y) {
    (void)w;
    return isnan(x) || x > y ? x : y;
}
static double b_equal(bool w, double x, double y) {
    (void)w;
    return x == y;
}
static double b_less(bool w, double x, double y) {
    (void)w;
    return x < y;
}
static double b_less_equal(bool w, double x, double y) {
    (void)w;
    return x <= y;
}
static double b_greater(bool w, double x, double y) {
    (void)w;
    return x > y;
}
static double b_greater_equal(bool w, double x, double y) {
    (void)w;
    return x >= y;
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
    [11] = {b_greater_equal, i_greater_equal, true, false, false},
};

/* x op y, both broadcast to dims. */
static vn_status_t combine(const call_t *c, const vn_tensor_t *x, const vn_tensor_t *y, vn_tensor_t **out) {
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(vn_broadcast_shape(x->rank, x->dims, y->rank, y->dims, &rank, dims, c->err));
    vn_tensor_t *xs = NULL, *ys = NULL;
    const vn_dtype_t t = binaries[c->param].compares ? VN_BOOL : x->dtype;
    call_t one = {.a = c->a, .node = c->node, .n_out = 1, .out = out, .err = c->err};
    vn_status_t s = vn_tensor_broadcast(x, rank, dims, &xs, c->err);
    if (s == VN_OK) s = vn_tensor_broadcast(y, rank, dims, &ys, c->err);
    if (s == VN_OK && !vn_dtype_is_float(x->dtype) && binaries[c->param].i) {
        int64_t *a = int_plane(c, xs), *b = int_plane(c, ys);
        const bool u = vn_dtype_kind(x->dtype) != VN_KIND_SIGNED;
        s = a && b ? VN_OK : VN_ERR_NOMEM;
        for (int64_t i = 0; s == VN_OK && i < xs->count; ++i) a[i] = binaries[c->param].i(u, a[i], b[i]);
        vn_free(b);
        if (s == VN_OK) s = put_ints(&one, 0, t, rank, dims, a);
        else vn_free(a);
    } else if (s == VN_OK) {
        double *a = plane(c, xs), *b = plane(c, ys);
        const bool wide = is_wide(x->dtype) || !vn_dtype_is_float(x->dtype);
        s = a && b ? VN_OK : VN_ERR_NOMEM;
        for (int64_t i = 0; s == VN_OK && i < xs->count; ++i) a[i] = binaries[c->param].f(wide, a[i], b[i]);
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
    double bound[2] = {vn_node_float(c->node, "min", -INFINITY), vn_node_float(c->node, "max", INFINITY)}, *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int k = 1; k <= 2; ++k)
        if (k < c->n_in && c->in[k] && c->in[k]->count == 1) bound[k - 1] = vn_tensor_get_f64(c->in[k], 0);
    for (int64_t i = 0; i < x->count; ++i) {
        if (v[i] < bound[0]) v[i] = bound[0];
        if (v[i] > bound[1]) v[i] = bound[1];
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
    vn_status_t s = broadcast_copy(c, c->in[0], rank, dims, &cond);
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
    const char *how = vn_node_string(c->node, "round_mode", "up");
    const vn_rounding_t mode = y->dtype != VN_F8E8M0 || strcmp(how, "nearest") == 0 ? VN_RNE : strcmp(how, "up") == 0 ? VN_RU : VN_RZ;
    const bool saturate = vn_dtype_bits(y->dtype) <= 8 && vn_node_int(c->node, "saturate", 1) != 0;
    vn_tensor_from_f64(y, v, mode, saturate);
    vn_free(v);
    return VN_OK;
}

/* To integers: floats are cut towards zero, integers wrap; to bool: not zero. */
static void cast_to_int(const vn_tensor_t *x, vn_tensor_t *y) {
    const bool from_float = vn_dtype_is_float(x->dtype), to_bool = y->dtype == VN_BOOL;
    for (int64_t i = 0; i < x->count; ++i) {
        if (to_bool) vn_tensor_set_i64(y, i, from_float ? vn_tensor_get_f64(x, i) != 0 : vn_tensor_get_i64(x, i) != 0);
        else if (from_float) vn_tensor_set_f64(y, i, vn_tensor_get_f64(x, i));
        else vn_tensor_set_i64(y, i, vn_tensor_get_i64(x, i));
    }
}

static vn_status_t run_cast(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    const int64_t to = vn_node_int(c->node, "to", 0);
    if (to <= VN_UNDEFINED || to >= VN_DTYPE_COUNT || to == VN_STRING || x->dtype == VN_STRING ||
        vn_dtype_kind((vn_dtype_t)to) == VN_KIND_COMPLEX || vn_dtype_kind(x->dtype) == VN_KIND_COMPLEX)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Cast): from %s to type %lld", c->node->path, vn_dtype_name(x->dtype),
                       (long long)to);
    VN_TRY(vn_tensor_new((vn_dtype_t)to, x->rank, x->dims, &c->out[0], c->err));
    if (vn_dtype_is_float((vn_dtype_t)to)) return cast_to_float(c, x, c->out[0]);
    cast_to_int(x, c->out[0]);
    return VN_OK;
}

static const op_row_t rows[] = {
    {"Relu", run_unary, RELU},
    {"Abs", run_unary, ABS},
    {"Neg", run_unary, NEG},
    {"Tanh", run_unary, TANH},
    {"Exp", run_unary, EXP},
    {"Log", run_unary, LOG},
    {"Sqrt", run_unary, SQRT},
    {"Erf", run_unary, ERF},
    {"Floor", run_unary, FLOOR},
    {"Ceil", run_unary, CEIL},
    {"Reciprocal", run_unary, RECIPROCAL},
    {"LeakyRelu", run_unary, LEAKY_RELU},
    {"Sigmoid", run_unary, SIGMOID},
    {"HardSigmoid", run_unary, HARD_SIGMOID},
    {"HardSwish", run_unary, HARD_SWISH},
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
    {"Not", run_not, 0},
    {"Clip", run_clip, 0},
    {"Where", run_where, 0},
    {"Cast", run_cast, 0},
};
const op_table_t elementwise_ops = {rows, sizeof rows / sizeof *rows};
