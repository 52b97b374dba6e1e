/* op_elementwise.c -- the rows of the elementwise family, and what its files share: doubt, flags, types and shapes without data. */
#include "oracle/elementwise.h"

VN_CLONES void vn_spacing_row(vn_spacing_t s, const double *y, int64_t n, double factor, double add, double *out) {
    for (int64_t i = 0; i < n; ++i) out[i] = factor * vn_spacing_at(s, y[i]) + add;
}

VN_CLONES void vn_spacing_square_row(vn_spacing_t s, const double *y, int64_t n, double factor, double *out) {
    for (int64_t i = 0; i < n; ++i) {
        const double ulp = vn_spacing_at(s, y[i]);
        out[i] = factor * ulp * ulp;
    }
}

vn_doubt_t vn_doubt(const vn_eval_t *e, int k) {
    if (k >= e->n_in) return (vn_doubt_t){0};
    return (vn_doubt_t){.err = e->in[k].err, .var = e->in[k].var, .tau = e->contract->daz ? vn_tau(e) : 0};
}

/* Bound and flags are made while pieces run in several threads: the plane is put in place by whoever is first. */
void vn_flag(vn_flagger_t *f, int64_t i, int bits) {
    vn_ref_t *r = &f->e->out[f->k];
    if (f->e->want < VN_WANT_BOUND) return;
    uint8_t *plane = __atomic_load_n(&r->flags, __ATOMIC_ACQUIRE);
    if (!plane) {
        uint8_t *fresh = vn_alloc((size_t)(r->count ? r->count : 1), 1);
        if (!fresh) {
            __atomic_store_n(&f->failed, 1, __ATOMIC_RELAXED);
            return;
        }
        if (__atomic_compare_exchange_n(&r->flags, &plane, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) plane = fresh;
        else vn_free(fresh);
    }
    plane[i] |= (uint8_t)bits;
}

static void set_shape(vn_ref_t *r, vn_dtype_t t, int rank, const int64_t *dims) {
    r->dtype = t;
    r->rank = rank;
    r->count = 1;
    for (int d = 0; d < rank; ++d) {
        r->dims[d] = dims[d];
        r->count *= dims[d];
    }
}

static vn_status_t infer_as(vn_eval_t *e, vn_dtype_t t) {
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    const vn_tensor_t *x = e->in[0].t;
    set_shape(&e->out[0], t == VN_UNDEFINED ? x->dtype : t, x->rank, x->dims);
    return VN_OK;
}

static vn_status_t infer_broadcast_as(vn_eval_t *e, vn_dtype_t t) {
    int rank = 0;
    int64_t dims[VN_MAX_RANK];
    for (int k = 0; k < e->n_in; ++k) {
        if (!vn_has(e, k) || !e->in[k].t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", k);
        int64_t merged[VN_MAX_RANK];
        int merged_rank;
        VN_TRY(vn_broadcast_shape(rank, dims, e->in[k].t->rank, e->in[k].t->dims, &merged_rank, merged, e->err));
        rank = merged_rank;
        memcpy(dims, merged, sizeof dims);
    }
    set_shape(&e->out[0], t == VN_UNDEFINED ? e->in[0].t->dtype : t, rank, dims);
    return VN_OK;
}

vn_status_t vn_infer_same(vn_eval_t *e) { return infer_as(e, VN_UNDEFINED); }
vn_status_t vn_infer_same_bool(vn_eval_t *e) { return infer_as(e, VN_BOOL); }
vn_status_t vn_infer_broadcast(vn_eval_t *e) { return infer_broadcast_as(e, VN_UNDEFINED); }
vn_status_t vn_infer_broadcast_bool(vn_eval_t *e) { return infer_broadcast_as(e, VN_BOOL); }

#define P VN_OP_PROPAGATES
#define FLAGS(cls) ((cls) >= VN_CLASS_ELEMENTARY ? P | VN_OP_REFINES : P) /* one rounding of an exact value leaves nothing open */
#define ROW(name, since, cls, claim, eval, infer, param) \
    { "", name, since, 0, cls, FLAGS(cls), claim, eval, infer, param }
#define EXACT_FN(name, since, id) ROW(name, since, VN_CLASS_ROUNDED, "ELEM-1", vn_eval_unary, vn_infer_same, id)
#define FUNCTION(name, since, id) \
    { "", name, since, 0, VN_CLASS_ELEMENTARY, P | VN_OP_REFINES | VN_OP_LEAN, "ELEM-2", vn_eval_unary, vn_infer_same, id }
#define ACTIVATION(name, since, cls, claim, id) ROW(name, since, cls, claim, vn_eval_activation, vn_infer_same, id)
#define PAIR(name, since, op) ROW(name, since, VN_CLASS_ROUNDED, "ELEM-1", vn_eval_binary, vn_infer_broadcast, op)
#define MS(name, id, infer) \
    { "com.microsoft", name, 1, 0, VN_CLASS_ELEMENTARY, P | VN_OP_REFINES, "ELEM-2", vn_eval_ms_gelu, infer, id }
#define INTEGER(name, since, eval, infer, param) \
    { "", name, since, 0, VN_CLASS_EXACT, 0, "ELEM-INT", eval, infer, param }

static const vn_op_t rows[] = {
    EXACT_FN("Neg", 6, VN_F_NEG),
    EXACT_FN("Abs", 6, VN_F_ABS),
    EXACT_FN("Sign", 9, VN_F_SIGN),
    EXACT_FN("Floor", 6, VN_F_FLOOR),
    EXACT_FN("Ceil", 6, VN_F_CEIL),
    EXACT_FN("Round", 11, VN_F_ROUND),
    EXACT_FN("Relu", 6, VN_F_RELU),
    EXACT_FN("Sqrt", 6, VN_F_SQRT),
    EXACT_FN("Reciprocal", 6, VN_F_RECIPROCAL),
    FUNCTION("Exp", 6, VN_F_EXP),
    FUNCTION("Log", 6, VN_F_LOG),
    FUNCTION("Sin", 7, VN_F_SIN),
    FUNCTION("Cos", 7, VN_F_COS),
    FUNCTION("Tan", 7, VN_F_TAN),
    FUNCTION("Asin", 7, VN_F_ASIN),
    FUNCTION("Acos", 7, VN_F_ACOS),
    FUNCTION("Atan", 7, VN_F_ATAN),
    FUNCTION("Sinh", 9, VN_F_SINH),
    FUNCTION("Cosh", 9, VN_F_COSH),
    FUNCTION("Tanh", 6, VN_F_TANH),
    FUNCTION("Asinh", 9, VN_F_ASINH),
    FUNCTION("Acosh", 9, VN_F_ACOSH),
    FUNCTION("Atanh", 9, VN_F_ATANH),
    FUNCTION("Erf", 9, VN_F_ERF),
    FUNCTION("Sigmoid", 6, VN_F_SIGMOID),
    FUNCTION("Softplus", 1, VN_F_SOFTPLUS),
    FUNCTION("Mish", 18, VN_F_MISH),
    ROW("HardSwish", 14, VN_CLASS_ELEMENTARY, "ELEM-3", vn_eval_unary, vn_infer_same, VN_F_HARD_SWISH),
    ROW("Softsign", 1, VN_CLASS_ELEMENTARY, "ELEM-3", vn_eval_unary, vn_infer_same, VN_F_SOFTSIGN),
    ACTIVATION("LeakyRelu", 6, VN_CLASS_ROUNDED, "ELEM-1", VN_F_LEAKY),
    ACTIVATION("ThresholdedRelu", 10, VN_CLASS_ROUNDED, "ELEM-1", VN_F_THRESHOLDED),
    ACTIVATION("Shrink", 9, VN_CLASS_ROUNDED, "ELEM-1", VN_F_SHRINK),
    ACTIVATION("Elu", 6, VN_CLASS_ELEMENTARY, "ELEM-2", VN_F_ELU),
    ACTIVATION("Selu", 6, VN_CLASS_ELEMENTARY, "ELEM-2", VN_F_SELU),
    ACTIVATION("Celu", 12, VN_CLASS_ELEMENTARY, "ELEM-2", VN_F_CELU),
    ACTIVATION("Swish", 24, VN_CLASS_ELEMENTARY, "ELEM-2", VN_F_SWISH),
    ACTIVATION("HardSigmoid", 6, VN_CLASS_ELEMENTARY, "ELEM-3", VN_F_HARD_SIGMOID),
    {"", "Gelu", 20, 0, VN_CLASS_ELEMENTARY, P | VN_OP_REFINES | VN_OP_LEAN, "ELEM-2", vn_eval_gelu, vn_infer_same, VN_F_GELU},
    MS("Gelu", VN_F_GELU, vn_infer_same),
    MS("FastGelu", VN_F_GELU_TANH, vn_infer_same),
    MS("QuickGelu", VN_F_SWISH, vn_infer_same),
    MS("BiasGelu", VN_F_GELU, vn_infer_broadcast),
    PAIR("Add", 7, VN_PAIR_ADD),
    PAIR("Sub", 7, VN_PAIR_SUB),
    PAIR("Mul", 7, VN_PAIR_MUL),
    PAIR("Div", 7, VN_PAIR_DIV),
    ROW("Pow", 7, VN_CLASS_ELEMENTARY, "ELEM-9", vn_eval_pow, vn_infer_broadcast, VN_PAIR_POW),
    ROW("Mod", 10, VN_CLASS_ROUNDED, "ELEM-1", vn_eval_mod, vn_infer_broadcast, VN_PAIR_FMOD),
    ROW("PRelu", 7, VN_CLASS_ROUNDED, "ELEM-1", vn_eval_prelu, vn_infer_same, VN_PAIR_PRELU),
    ROW("Max", 6, VN_CLASS_ROUNDED, "ELEM-10", vn_eval_nary, vn_infer_broadcast, 0),
    ROW("Min", 6, VN_CLASS_ROUNDED, "ELEM-10", vn_eval_nary, vn_infer_broadcast, 1),
    ROW("Sum", 6, VN_CLASS_REDUCTION, "ELEM-11", vn_eval_nary, vn_infer_broadcast, 2),
    ROW("Mean", 6, VN_CLASS_REDUCTION, "ELEM-11", vn_eval_nary, vn_infer_broadcast, 3),
    ROW("Clip", 6, VN_CLASS_ROUNDED, "ELEM-10", vn_eval_clip, vn_infer_same, 0),
    INTEGER("IsNaN", 9, vn_eval_class, vn_infer_same_bool, 0),
    INTEGER("IsInf", 10, vn_eval_class, vn_infer_same_bool, 1),
    INTEGER("And", 7, vn_eval_logic, vn_infer_broadcast, 0),
    INTEGER("Or", 7, vn_eval_logic, vn_infer_broadcast, 1),
    INTEGER("Xor", 7, vn_eval_logic, vn_infer_broadcast, 2),
    INTEGER("Not", 1, vn_eval_logic, vn_infer_same, 3),
    INTEGER("BitwiseAnd", 18, vn_eval_bitwise, vn_infer_broadcast, 0),
    INTEGER("BitwiseOr", 18, vn_eval_bitwise, vn_infer_broadcast, 1),
    INTEGER("BitwiseXor", 18, vn_eval_bitwise, vn_infer_broadcast, 2),
    INTEGER("BitwiseNot", 18, vn_eval_bitwise, vn_infer_same, 3),
    INTEGER("BitShift", 11, vn_eval_shift, vn_infer_broadcast, 4),
};

const vn_family_t vn_family_elementwise = {.name = "elementwise", .rows = rows, .count = sizeof rows / sizeof *rows};
