/* op_integer.c -- elementwise operators on integers and bool: exact, by two's complement; where the text is silent, readings and free elements.
 *
 * Claim ELEM-INT: Add, Sub, Mul, Neg, Abs, Pow give the exact integer reduced to the type's low bits; where that differs from the integer, the
 *   saturated result is a reading. Div truncates, Mod follows the sign of the divisor (fmod=0) or of the dividend (fmod=1). Division by zero
 *   is not defined by the text: such elements are free, and the results of common hardware are readings.
 */
#include "oracle/elementwise.h"

__extension__ typedef __int128 wide_t; /* holds every sum and product of two 64-bit integers */

typedef struct outcome {
    int64_t value, alternative; /* alternative: saturated, or what hardware gives instead */
    bool differs, undefined;
} outcome_t;

typedef struct job {
    int op;
    vn_dtype_t t;
    bool is_u64;
    const int64_t *a, *b;
    int64_t *out, *alternative;
    int differs; /* atomic: some alternative is another value */
    vn_flagger_t flags;
} job_t;

static wide_t widen(const job_t *j, int64_t x) { return j->is_u64 ? (wide_t)(uint64_t)x : (wide_t)x; }

static outcome_t settle(const job_t *j, wide_t exact) {
    const wide_t lo = widen(j, vn_int_min(j->t)), hi = widen(j, vn_int_max(j->t));
    outcome_t o = {.value = vn_wrap(j->t, (int64_t)(uint64_t)exact)};
    o.differs = exact < lo || exact > hi;
    o.alternative = exact < lo ? (int64_t)lo : exact > hi ? (int64_t)(uint64_t)hi : o.value;
    return o;
}

static outcome_t undefined_as(int64_t value, int64_t alternative) {
    return (outcome_t){.value = value, .alternative = alternative, .differs = value != alternative, .undefined = true};
}

static outcome_t pair(const job_t *j, int64_t x, int64_t y) {
    const wide_t a = widen(j, x), b = widen(j, y);
    switch ((vn_pair_op_t)j->op) {
    case VN_PAIR_ADD: return settle(j, a + b);
    case VN_PAIR_SUB: return settle(j, a - b);
    case VN_PAIR_MUL: return settle(j, a * b); /* |a|, |b| < 2^64 and not both unsigned 64: below 2^127; u64 products below */
    case VN_PAIR_DIV: return b == 0 ? undefined_as(0, vn_wrap(j->t, -1)) : settle(j, a / b);
    case VN_PAIR_FMOD: return b == 0 ? undefined_as(0, x) : settle(j, a % b);
    case VN_PAIR_FLOOR_MOD: {
        if (b == 0) return undefined_as(0, x);
        wide_t r = a % b;
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        return settle(j, r);
    }
    case VN_PAIR_PRELU: return settle(j, a < 0 ? a * b : a);
    case VN_PAIR_POW: break;
    }
    return undefined_as(0, 0);
}

/* The product of two u64 needs 128 bits without a sign. */
static outcome_t product_u64(uint64_t a, uint64_t b) {
    uint64_t r;
    const bool over = __builtin_mul_overflow(a, b, &r);
    return (outcome_t){.value = (int64_t)r, .alternative = over ? -1 : (int64_t)r, .differs = over};
}

static void put(job_t *j, int64_t i, outcome_t o) {
    j->out[i] = o.value;
    j->alternative[i] = o.alternative;
    if (o.differs) __atomic_store_n(&j->differs, 1, __ATOMIC_RELAXED);
    if (o.undefined) vn_flag(&j->flags, i, VN_EL_VOID);
}

static void pair_piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    const bool u64_product = j->is_u64 && j->op == VN_PAIR_MUL;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t x = j->a[p->at[0] + i * p->step[0]], y = j->b[p->at[1] + i * p->step[1]];
        put(j, p->out + i, u64_product ? product_u64((uint64_t)x, (uint64_t)y) : pair(j, x, y));
    }
}

static vn_status_t int_tensor(vn_eval_t *e, const vn_ref_t *r, const int64_t *v, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(r->dtype, r->rank, r->dims, out, e->err));
    vn_ints_store(*out, v);
    return VN_OK;
}

/* Runs fn over a broadcast of n operands with integer planes; stores the result and, where it differs, one reading. */
static vn_status_t run(vn_eval_t *e, int op, int n, vn_piece_fn fn, const char *reading) {
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, n, (const int[]){0, 1}, &plan));
    const vn_dtype_t t = e->in[0].t->dtype;
    VN_TRY(vn_out_exact(e, 0, t, plan.out_rank, plan.out_dims));
    job_t j = {.op = op, .t = t, .is_u64 = t == VN_U64, .flags = {.e = e, .k = 0}};
    const size_t count = (size_t)(plan.count ? plan.count : 1);
    int64_t *a = vn_ints_of(e, e->in[0].t), *b = n > 1 && a ? vn_ints_of(e, e->in[1].t) : NULL;
    j.a = a;
    j.b = b;
    j.out = vn_alloc(count, sizeof(int64_t));
    j.alternative = vn_alloc(count, sizeof(int64_t));
    vn_status_t s = VN_OK;
    if (!a || (n > 1 && !b) || !j.out || !j.alternative) {
        s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integers");
    } else {
        vn_bcast_run(&plan, fn, &j);
        vn_ints_store(e->out[0].tensor, j.out);
        if (j.flags.failed) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
        if (s == VN_OK && j.differs && e->want >= VN_WANT_BOUND) {
            vn_tensor_t *other = NULL;
            s = int_tensor(e, &e->out[0], j.alternative, &other);
            if (s == VN_OK) s = vn_out_reading(e, 0, reading, other);
        }
    }
    vn_free(a);
    vn_free(b);
    vn_free(j.out);
    vn_free(j.alternative);
    return s;
}

vn_status_t vn_eval_pair_int(vn_eval_t *e, vn_pair_op_t op) {
    static const char *const readings[] = {
        [VN_PAIR_DIV] = "a quotient by zero is -1, overflow saturates",
        [VN_PAIR_FMOD] = "a remainder by zero is the dividend",
        [VN_PAIR_FLOOR_MOD] = "a remainder by zero is the dividend",
    };
    const char *reading = op <= VN_PAIR_FLOOR_MOD ? readings[op] : NULL;
    return run(e, op, 2, pair_piece, reading ? reading : "integer overflow saturates");
}

/* ---- one operand ---- */

static void unary_piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const wide_t x = widen(j, j->a[p->at[0] + i * p->step[0]]);
        outcome_t o;
        switch ((vn_fn_id_t)j->op) {
        case VN_F_NEG: o = settle(j, -x); break;
        case VN_F_ABS: o = settle(j, x < 0 ? -x : x); break;
        case VN_F_SIGN: o = settle(j, (x > 0) - (x < 0)); break;
        default: o = settle(j, x > 0 ? x : 0); break; /* Relu: the only other one that takes integers */
        }
        put(j, p->out + i, o);
    }
}

vn_status_t vn_eval_unary_int(vn_eval_t *e, vn_fn_id_t id) {
    if (id != VN_F_NEG && id != VN_F_ABS && id != VN_F_SIGN && id != VN_F_RELU)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s; a floating-point type is needed", vn_dtype_name(e->in[0].t->dtype));
    return run(e, id, 1, unary_piece, "integer overflow saturates");
}

/* Shrink on integers: the bounds are real numbers; the result is x -+ bias, whose fraction the type cannot hold. */
vn_status_t vn_eval_shrink_int(vn_eval_t *e, double lambd, double bias) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, x->dims));
    int64_t *v = vn_ints_of(e, x);
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) {
        const double d = x->dtype == VN_U64 ? (double)(uint64_t)v[i] : (double)v[i];
        const double y = d < -lambd ? d + bias : d > lambd ? d - bias : 0;
        v[i] = vn_wrap(x->dtype, y >= 0x1p63 ? (int64_t)(uint64_t)fmin(y, 0x1.fffffffffffffp63) : y > -0x1p63 ? (int64_t)y : INT64_MIN);
    }
    vn_ints_store(e->out[0].tensor, v);
    vn_free(v);
    return VN_OK;
}

/* ---- Pow with an integer base ---- */

/* b^n for n >= 0, wrapped, with the saturated alternative. */
static outcome_t power(const job_t *j, int64_t base, uint64_t n) {
    const int64_t b = base;
    uint64_t wrapped = 1, square = (uint64_t)b;
    long double size = 1, factor = fabsl((long double)widen(j, b)); /* magnitude only: decides overflow, with room at the border below */
    bool negative = !j->is_u64 && b < 0 && (n & 1);
    for (uint64_t k = n; k; k >>= 1) {
        if (k & 1) {
            wrapped *= square;
            size *= factor;
        }
        square *= square;
        factor *= factor;
    }
    outcome_t o = {.value = vn_wrap(j->t, (int64_t)wrapped)};
    const int64_t lo = vn_int_min(j->t), hi = vn_int_max(j->t);
    const long double limit = negative ? -(long double)widen(j, lo) : (long double)widen(j, hi);
    o.differs = size > limit; /* powers of integers up to 2^64 are exact in 64 bits of long double */
    o.alternative = !o.differs ? o.value : negative ? lo : hi;
    return o;
}

typedef struct pow_job {
    job_t base;
    const double *exponent; /* NULL: integer exponents */
    bool exponent_u64;
    uint8_t *near; /* the real power lies so close to an integer that truncation may go either way */
    int any_near;
} pow_job_t;

static outcome_t power_any(const job_t *j, int64_t base, int64_t n, bool n_is_u64) {
    if (n >= 0 || n_is_u64) return power(j, base, (uint64_t)n);
    const wide_t b = widen(j, base);
    if (b == 0) return undefined_as(0, vn_int_min(j->t));
    if (b == 1) return settle(j, 1);
    return settle(j, b == -1 ? (n & 1 ? -1 : 1) : 0);
}

static void pow_piece(void *ctx, const vn_piece_t *p) {
    pow_job_t *q = ctx;
    job_t *j = &q->base;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t base = j->a[p->at[0] + i * p->step[0]], kb = p->at[1] + i * p->step[1], o = p->out + i;
        if (!q->exponent) {
            put(j, o, power_any(j, base, j->b[kb], q->exponent_u64));
            continue;
        }
        const double n = q->exponent[kb];
        if (n == rint(n) && fabs(n) < 0x1p62) {
            put(j, o, power_any(j, base, (int64_t)n, false));
            continue;
        }
        const long double y = powl((long double)widen(j, base), n), whole = truncl(y);
        if (!(y >= (long double)widen(j, vn_int_min(j->t)) && y <= (long double)widen(j, vn_int_max(j->t)))) {
            put(j, o, undefined_as(0, vn_int_min(j->t))); /* NaN or out of range: no conversion is defined */
            continue;
        }
        put(j, o, settle(j, (wide_t)whole));
        if (whole != 0 && fabsl(y - rintl(y)) <= 0x1p-20L * fabsl(y)) { /* 16 ulp of f32, the largest budget of pow */
            j->alternative[o] = (int64_t)(whole - (rintl(y) == whole ? copysignl(1, y) : -copysignl(1, y)));
            __atomic_store_n(&j->differs, 1, __ATOMIC_RELAXED);
        }
    }
}

/* A power computed in floating point and converted back: out of range is the lowest integer on common hardware. */
static vn_status_t reading_indefinite(vn_eval_t *e, job_t *j) {
    vn_tensor_t *t = NULL;
    for (int64_t i = 0; i < e->out[0].count; ++i)
        if (j->alternative[i] != j->out[i]) j->alternative[i] = vn_int_min(j->t);
    VN_TRY(int_tensor(e, &e->out[0], j->alternative, &t));
    return vn_out_reading(e, 0, "out of range: the indefinite integer", t);
}

vn_status_t vn_eval_pow_int(vn_eval_t *e) {
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 2, (const int[]){0, 1}, &plan));
    const vn_dtype_t t = e->in[0].t->dtype, te = e->in[1].t->dtype;
    VN_TRY(vn_out_exact(e, 0, t, plan.out_rank, plan.out_dims));
    pow_job_t q = {.base = {.t = t, .is_u64 = t == VN_U64, .flags = {.e = e, .k = 0}}, .exponent_u64 = te == VN_U64};
    const size_t count = (size_t)(plan.count ? plan.count : 1);
    int64_t *a = vn_ints_of(e, e->in[0].t), *b = vn_dtype_is_int(te) ? vn_ints_of(e, e->in[1].t) : NULL;
    q.base.a = a;
    q.base.b = b;
    q.base.out = vn_alloc(count, sizeof(int64_t));
    q.base.alternative = vn_alloc(count, sizeof(int64_t));
    if (!vn_dtype_is_int(te)) q.exponent = vn_arg_f64(e, 1);
    vn_status_t s = VN_OK;
    if (!a || (!b && !q.exponent) || !q.base.out || !q.base.alternative) {
        s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integers");
    } else {
        vn_bcast_run(&plan, pow_piece, &q);
        vn_ints_store(e->out[0].tensor, q.base.out);
        if (q.base.flags.failed) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
        vn_tensor_t *other = NULL;
        if (s == VN_OK && q.base.differs && e->want >= VN_WANT_BOUND) s = int_tensor(e, &e->out[0], q.base.alternative, &other);
        if (other && b) s = vn_out_reading(e, 0, "integer overflow saturates", other);
        if (s == VN_OK && other && b && vn_dtype_kind(t) == VN_KIND_SIGNED) s = reading_indefinite(e, &q.base);
        if (other && !b) /* real exponents: overflow and near integers are both per element */
            e->out[0].either = other;
    }
    vn_free(a);
    vn_free(b);
    vn_free(q.base.out);
    vn_free(q.base.alternative);
    return s;
}

/* ---- bits ---- */

typedef enum bit_op { BIT_AND, BIT_OR, BIT_XOR, BIT_NOT, BIT_LEFT, BIT_RIGHT } bit_op_t;

static void bit_piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    const int bits = j->t == VN_BOOL ? 1 : vn_dtype_bits(j->t);
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t x = j->a[p->at[0] + i * p->step[0]], y = j->b ? j->b[p->at[1] + i * p->step[1]] : 0;
        outcome_t o = {0};
        switch ((bit_op_t)j->op) {
        case BIT_AND: o.value = x & y; break;
        case BIT_OR: o.value = x | y; break;
        case BIT_XOR: o.value = x ^ y; break;
        case BIT_NOT: o.value = j->t == VN_BOOL ? !x : vn_wrap(j->t, ~x); break;
        case BIT_LEFT:
        case BIT_RIGHT: {
            const bool over = j->is_u64 ? (uint64_t)y >= 64 : y < 0 || y >= bits;
            const int modulo = (int)((uint64_t)y & (uint64_t)(bits - 1));
            const bool left = j->op == BIT_LEFT;
            const int64_t other = left        ? vn_wrap(j->t, (int64_t)((uint64_t)x << modulo))
                                  : j->is_u64 ? (int64_t)((uint64_t)x >> modulo)
                                              : x >> modulo;
            const bool negative = vn_dtype_kind(j->t) == VN_KIND_SIGNED && x < 0;
            o.value = !over ? other : !left && negative ? -1 : 0;
            o.alternative = other;
            o.differs = over && other != o.value;
            put(j, p->out + i, o);
            continue;
        }
        }
        o.alternative = o.value;
        put(j, p->out + i, o);
    }
}

static vn_status_t check_type(vn_eval_t *e, int n, bool logic) {
    for (int k = 0; k < n; ++k) {
        if (!vn_has(e, k) || !e->in[k].t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", k);
        const vn_dtype_t t = e->in[k].t->dtype;
        if (t != e->in[0].t->dtype || (logic ? t != VN_BOOL : !vn_dtype_is_int(t)))
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; %s needed", k, vn_dtype_name(t),
                                logic ? "bool is" : "equal integer types are");
    }
    return VN_OK;
}

static vn_status_t bits(vn_eval_t *e, bool logic) {
    const int op = vn_registry_find(e->node->domain, e->node->op, e->version)->param, n = op == BIT_NOT ? 1 : 2;
    VN_TRY(check_type(e, n, logic));
    return run(e, op, n, bit_piece, "");
}

vn_status_t vn_eval_logic(vn_eval_t *e) { return bits(e, true); }
vn_status_t vn_eval_bitwise(vn_eval_t *e) { return bits(e, false); }

/* From opset 28 the text gives shifts by the width or more; before, hardware that reduces the count is another reading. */
vn_status_t vn_eval_shift(vn_eval_t *e) {
    const char *direction = vn_node_string(e->node, "direction", "");
    const bool left = strcmp(direction, "LEFT") == 0;
    if (!left && strcmp(direction, "RIGHT") != 0)
        return vn_eval_fail(e, VN_ERR_USAGE, "direction=\"%s\"; LEFT or RIGHT is needed", direction);
    VN_TRY(check_type(e, 2, false));
    VN_TRY(run(e, left ? BIT_LEFT : BIT_RIGHT, 2, bit_piece, "the shift count is taken modulo the width"));
    if (e->version >= 28 && e->out[0].n_readings) vn_tensor_free(e->out[0].readings[--e->out[0].n_readings].value);
    return VN_OK;
}
