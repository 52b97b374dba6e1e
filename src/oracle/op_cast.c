/* op_cast.c -- Cast and CastLike between all element types.
 *
 * Claim CAST-1: float to float is one rounding to nearest even of the source value (f64 to f16 through f32 is another number); overflow gives
 *   infinity, or by the tables of the text for 8-bit floats: saturation, Inf or NaN.
 * Claim CAST-2: integer to float rounds the integer once, 64-bit integers included; integer to integer keeps the low bits.
 * Claim CAST-3: float to integer truncates; outside the range the text says undefined: such elements are free, and saturation, low bits and
 *   the indefinite integer of hardware are readings.
 * Claim CAST-4: a cast rounds inside a region too; an uncertain operand gives the largest change of the rounded value over its interval.
 */
#include <stdio.h>

#include "oracle/cast_text.h"
#include "oracle/elementwise.h"

typedef struct target {
    vn_dtype_t from, to;
    vn_format_t format; /* of `to`, floats only */
    bool saturate;
    bool inf_is_nan; /* 8-bit FNUZ before opset 24: an infinity becomes NaN even when saturating */
    vn_rounding_t rounding;
} target_t;

static double convert(const target_t *c, double x) {
    if (isinf(x) && c->inf_is_nan) return NAN;
    return vn_round_to(c->format, x, c->rounding, c->saturate);
}

/* An integer of 64 bits as a double rounded to odd: rounding that again to at most 51 bits is the rounding of the integer. */
static double to_odd(int64_t x, bool is_unsigned) {
    const bool negative = !is_unsigned && x < 0;
    const uint64_t m = negative ? 0 - (uint64_t)x : (uint64_t)x;
    if (m < (UINT64_C(1) << 53)) return negative ? -(double)m : (double)m;
    int shift = 11 - __builtin_clzll(m);
    const uint64_t kept = m >> shift, lost = m & ((UINT64_C(1) << shift) - 1);
    const double d = ldexp((double)(kept | (lost != 0)), shift);
    return negative ? -d : d;
}

/* ---- to float ---- */

/* The value is rounded already: no store follows; isolated, the frame's one-rounding rule (with its flush term) applies. */
static void demand(vn_eval_t *e, bool doubtful) {
    if (!doubtful) vn_out_rounded(e, 0);
    if (doubtful || vn_in_region(e)) vn_out_final(e, 0);
}

static bool is_small_float(vn_dtype_t t) { return vn_dtype_is_float(t) && vn_dtype_bits(t) <= 8; }

static vn_status_t float_to_float(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    if (!v) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, c->to, x->rank, x->dims));
    vn_ref_t *r = &e->out[0];
    const bool plain = !is_small_float(c->to);
    if (plain) {
        memcpy(r->value, v, (size_t)r->count * sizeof *v);
        if (c->to != VN_F64) vn_round_array(c->format, VN_RNE, r->value, r->count);
    } else {
        for (int64_t i = 0; i < r->count; ++i) r->value[i] = convert(c, v[i]);
    }
    if (e->want < VN_WANT_BOUND) return VN_OK;
    const vn_doubt_t d = vn_doubt(e, 0);
    const bool doubtful = vn_doubt_any(&d);
    vn_flagger_t flags = {.e = e, .k = 0};
    if (c->to == VN_F64) VN_TRY(vn_out_own(e, 0)); /* exact */
    for (int64_t i = 0; i < r->count; ++i) {
        if (c->to == VN_F8E8M0 && (v[i] < 0 || (v[i] == 0 && signbit(v[i])))) vn_flag(&flags, i, VN_EL_VOID); /* "unspecified" */
        if (c->to == VN_F4E2M1 && isnan(v[i])) vn_flag(&flags, i, VN_EL_VOID);
        if (!doubtful) continue;
        const double doubt = vn_doubt_at(&d, i, v[i]);
        if (doubt == 0) continue;
        const double wide = doubt * (1 + 0x1p-40) + 0x1p-52 * fabs(v[i]);
        const double a = convert(c, v[i] - wide), b = convert(c, v[i] + wide), y = r->value[i];
        const double far = fmax(fabs(a - y), fabs(b - y));
        r->bound[i] = isfinite(y) && isfinite(far) && !isnan(a) && !isnan(b) ? far : INFINITY;
        if (!isfinite(r->bound[i])) vn_flag(&flags, i, VN_EL_VOID);
        if (r->var && d.var) {
            const double ulp = isfinite(y) ? vn_ulp(c->format, y) : 0; /* the rounding is definite, but not where it lands */
            r->var[i] = d.var[i] + fmin(far * far, ulp * ulp / 12);
        }
    }
    if (flags.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    demand(e, doubtful);
    if (c->inf_is_nan && c->saturate) { /* the table of opset 24 says the largest number */
        bool any = false;
        for (int64_t i = 0; i < r->count && !any; ++i) any = isinf(v[i]);
        if (any) {
            target_t later = *c;
            later.inf_is_nan = false;
            vn_tensor_t *t;
            VN_TRY(vn_tensor_new(c->to, x->rank, x->dims, &t, e->err));
            for (int64_t i = 0; i < r->count; ++i) vn_tensor_set_f64(t, i, convert(&later, v[i]));
            VN_TRY(vn_out_reading(e, 0, "infinity saturates (table of opset 24)", t));
        }
    }
    return VN_OK;
}

static vn_status_t int_to_float(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t *v = vn_ints_of(e, x);
    if (!v) return VN_ERR_NOMEM;
    vn_status_t s = vn_out_float(e, 0, c->to, x->rank, x->dims);
    if (s == VN_OK && c->to == VN_F64 && e->want >= VN_WANT_BOUND) s = vn_out_own(e, 0);
    vn_flagger_t flags = {.e = e, .k = 0};
    const bool is_u64 = x->dtype == VN_U64;
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        e->out[0].value[i] = c->to == VN_F64 ? (is_u64 ? (double)(uint64_t)v[i] : (double)v[i]) : convert(c, to_odd(v[i], is_u64));
        if (c->to == VN_F8E8M0 && v[i] < 0 && !is_u64) vn_flag(&flags, i, VN_EL_VOID);
    }
    vn_free(v);
    VN_TRY(s);
    if (flags.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    demand(e, false);
    return VN_OK;
}

static vn_status_t text_to_float(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    const vn_string_t *text = x->data;
    VN_TRY(vn_out_float(e, 0, c->to, x->rank, x->dims));
    vn_flagger_t flags = {.e = e, .k = 0};
    for (int64_t i = 0; i < x->count; ++i) {
        double d;
        if (vn_read_float(text[i].text, text[i].length, &d)) {
            e->out[0].value[i] = convert(c, d);
        } else {
            e->out[0].value[i] = NAN; /* undefined by the text */
            vn_flag(&flags, i, VN_EL_VOID);
        }
    }
    if (flags.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    demand(e, false);
    return VN_OK;
}

/* ---- to integer ---- */

typedef struct ints_out {
    int64_t *value, *low, *indefinite; /* low and indefinite: readings, may be NULL */
    bool any_undefined;
} ints_out_t;

/* trunc(x) modulo 2^64; NaN, infinities and huge numbers have no low bits: 0. */
static int64_t low_bits(double x) {
    const double t = trunc(x);
    if (!(fabs(t) < 0x1p118)) return 0;
    const double rest = fmod(t, 0x1p64);
    return rest < 0 ? (int64_t)(0 - (uint64_t)-rest) : (int64_t)(uint64_t)rest;
}

static void truncate_one(const target_t *c, double x, int64_t i, ints_out_t *o, vn_flagger_t *flags) {
    const int bits = vn_dtype_bits(c->to);
    const bool is_signed = vn_dtype_kind(c->to) == VN_KIND_SIGNED;
    const double lo = is_signed ? -ldexp(1, bits - 1) : 0, end = ldexp(1, is_signed ? bits - 1 : bits), t = trunc(x);
    if (t >= lo && t < end) {
        o->value[i] = vn_wrap(c->to, low_bits(x));
        if (o->low) o->low[i] = o->indefinite[i] = o->value[i];
        return;
    }
    o->any_undefined = true;
    vn_flag(flags, i, VN_EL_VOID);
    o->value[i] = isnan(x) ? 0 : x < 0 ? vn_int_min(c->to) : vn_int_max(c->to);
    if (!o->low) return;
    o->low[i] = vn_wrap(c->to, low_bits(x));
    /* Narrow types are truncated from the 32-bit conversion, whose result outside its range is the lowest integer. */
    const int width = bits == 64 || (bits == 32 && !is_signed) ? 64 : 32;
    const double half = ldexp(1, width - 1);
    o->indefinite[i] = vn_wrap(c->to, fabs(t) < half ? low_bits(x) : (int64_t)(~UINT64_C(0) << (width - 1)));
}

static vn_status_t add_reading(vn_eval_t *e, const char *name, const int64_t *v) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(r->dtype, r->rank, r->dims, &t, e->err));
    vn_ints_store(t, v);
    return vn_out_reading(e, 0, name, t);
}

/* Where an uncertain operand may fall on either side of an integer, the other integer stands in `either`; more than two: free. */
static vn_status_t uncertain_integer(vn_eval_t *e, const target_t *c, const double *v, const int64_t *value, int64_t *other,
                                     vn_flagger_t *flags) {
    const vn_doubt_t d = vn_doubt(e, 0);
    if (!vn_doubt_any(&d)) return VN_OK;
    bool any = false;
    ints_out_t o = {.value = other};
    for (int64_t i = 0; i < e->out[0].count; ++i) {
        const double w = vn_doubt_at(&d, i, v[i]);
        other[i] = value[i];
        if (w == 0) continue;
        int64_t low, high;
        truncate_one(c, v[i] - w, i, &o, flags);
        low = other[i];
        truncate_one(c, v[i] + w, i, &o, flags);
        high = other[i];
        other[i] = low != value[i] ? low : high;
        if (c->to == VN_BOOL) other[i] = fabs(v[i]) <= w ? !value[i] : value[i];
        any |= other[i] != value[i];
        if (low != value[i] && high != value[i] && low != high) vn_flag(flags, i, VN_EL_VOID);
    }
    if (!any) return VN_OK;
    VN_TRY(vn_out_either(e, 0));
    vn_ints_store(e->out[0].either, other);
    return VN_OK;
}

static vn_status_t float_to_int(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    if (!v) return VN_ERR_NOMEM;
    VN_TRY(vn_out_exact(e, 0, c->to, x->rank, x->dims));
    const size_t n = (size_t)(x->count ? x->count : 1);
    ints_out_t o = {.value = vn_alloc(n, sizeof(int64_t)), .low = vn_alloc(n, sizeof(int64_t)), .indefinite = vn_alloc(n, sizeof(int64_t))};
    vn_flagger_t flags = {.e = e, .k = 0};
    vn_status_t s = o.value && o.low && o.indefinite ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integers");
    if (s == VN_OK) {
        for (int64_t i = 0; i < x->count; ++i)
            if (c->to == VN_BOOL) o.value[i] = v[i] != 0; /* NaN is not zero */
            else truncate_one(c, v[i], i, &o, &flags);
        vn_ints_store(e->out[0].tensor, o.value);
        if (o.any_undefined && e->want >= VN_WANT_BOUND) {
            s = add_reading(e, "out of range: low bits of the truncated number", o.low);
            if (s == VN_OK) s = add_reading(e, "out of range: the indefinite integer", o.indefinite);
        }
        if (s == VN_OK) s = uncertain_integer(e, c, v, o.value, o.low, &flags);
        if (s == VN_OK && flags.failed) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    }
    vn_free(o.value);
    vn_free(o.low);
    vn_free(o.indefinite);
    return s;
}

static vn_status_t int_to_int(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_exact(e, 0, c->to, x->rank, x->dims));
    int64_t *v = vn_ints_of(e, x);
    if (!v) return VN_ERR_NOMEM;
    vn_ints_store(e->out[0].tensor, v); /* low bits; bool: not zero */
    vn_free(v);
    return VN_OK;
}

static vn_status_t text_to_int(vn_eval_t *e, const target_t *c) {
    const vn_tensor_t *x = e->in[0].t;
    const vn_string_t *text = x->data;
    VN_TRY(vn_out_exact(e, 0, c->to, x->rank, x->dims));
    vn_flagger_t flags = {.e = e, .k = 0};
    int64_t *v = vn_alloc((size_t)(x->count ? x->count : 1), sizeof *v);
    if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integers");
    for (int64_t i = 0; i < x->count; ++i) {
        bool whole;
        const bool ok = vn_read_int(text[i].text, text[i].length, c->to == VN_U64, &v[i], &whole);
        const bool fits = ok && whole && (c->to == VN_BOOL || vn_wrap(c->to, v[i]) == v[i]);
        if (!fits) vn_flag(&flags, i, VN_EL_VOID); /* "2.718" to an integer, words, overflow: undefined by the text */
        if (!ok) v[i] = 0;
    }
    vn_ints_store(e->out[0].tensor, v);
    vn_free(v);
    return flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}

/* ---- to string ---- */

static int spell(const vn_tensor_t *x, int64_t i, const double *v, vn_spelling_t how, char *out) {
    if (v) return vn_spell_float(x->dtype, v[i], how, out);
    const int64_t k = vn_tensor_get_i64(x, i);
    if (x->dtype == VN_BOOL) return snprintf(out, VN_CAST_TEXT_MAX, "%s", how == VN_SPELL_GENERAL ? (k ? "1" : "0") : k ? "True" : "False");
    if (x->dtype == VN_U64) return snprintf(out, VN_CAST_TEXT_MAX, "%llu", (unsigned long long)k);
    return snprintf(out, VN_CAST_TEXT_MAX, "%lld", (long long)k);
}

static vn_status_t fill_text(vn_eval_t *e, vn_tensor_t *t, const double *v, vn_spelling_t how) {
    char text[VN_CAST_TEXT_MAX];
    for (int64_t i = 0; i < t->count; ++i) {
        const int n = spell(e->in[0].t, i, v, how, text);
        VN_TRY(vn_tensor_set_string(t, i, text, (size_t)n, e->err));
    }
    return VN_OK;
}

static vn_status_t to_text(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    const bool is_float = vn_dtype_is_float(x->dtype);
    const double *v = is_float ? vn_arg_f64(e, 0) : NULL;
    if (is_float && !v) return VN_ERR_NOMEM;
    VN_TRY(vn_out_exact(e, 0, VN_STRING, x->rank, x->dims));
    VN_TRY(fill_text(e, e->out[0].tensor, v, VN_SPELL_PLAIN));
    if (e->want < VN_WANT_BOUND || vn_dtype_is_int(x->dtype)) return VN_OK;
    static const struct {
        vn_spelling_t how;
        const char *name;
    } readings[] = {{VN_SPELL_REPR, "shortest digits, exponent where it is large"},
                    {VN_SPELL_GENERAL, "8 digits (f64: 17), no trailing zeros"}};
    for (size_t k = 0; k < sizeof readings / sizeof *readings; ++k) {
        vn_tensor_t *t;
        VN_TRY(vn_tensor_new(VN_STRING, x->rank, x->dims, &t, e->err));
        const vn_status_t s = fill_text(e, t, v, readings[k].how);
        if (s != VN_OK || vn_tensor_equal_bits(t, e->out[0].tensor)) {
            vn_tensor_free(t);
            VN_TRY(s);
            continue;
        }
        VN_TRY(vn_out_reading(e, 0, readings[k].name, t));
    }
    return VN_OK;
}

/* ---- rows ---- */

static vn_status_t read_target(vn_eval_t *e, bool like, target_t *c) {
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    if (like && (!vn_has(e, 1) || !e->in[1].t)) return vn_eval_fail(e, VN_ERR_USAGE, "input 1 is missing or not a tensor");
    const int64_t to = like ? (int64_t)e->in[1].t->dtype : vn_node_int(e->node, "to", 0);
    if (to <= VN_UNDEFINED || to >= VN_DTYPE_COUNT)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "to=%lld is no element type known here", (long long)to);
    *c = (target_t){.from = e->in[0].t->dtype, .to = (vn_dtype_t)to, .format = vn_format_of((vn_dtype_t)to)};
    if (vn_dtype_kind(c->from) == VN_KIND_COMPLEX || vn_dtype_kind(c->to) == VN_KIND_COMPLEX)
        return vn_eval_fail(e, VN_ERR_DTYPE, "complex types are not cast");
    const bool fnuz = c->to == VN_F8E4M3FNUZ || c->to == VN_F8E5M2FNUZ;
    c->saturate = is_small_float(c->to) && vn_node_int(e->node, "saturate", 1) != 0;
    if (c->to == VN_F4E2M1) c->saturate = true;
    c->inf_is_nan = fnuz && (e->version < 24 || !c->saturate);
    if (c->to == VN_F8E8M0) {
        const char *mode = vn_node_string(e->node, "round_mode", "up");
        if (strcmp(mode, "up") == 0) c->rounding = VN_RU;
        else if (strcmp(mode, "down") == 0) c->rounding = VN_RD;
        else if (strcmp(mode, "nearest") != 0)
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "round_mode=\"%s\"; known are up, down, nearest", mode);
    }
    return VN_OK;
}

static vn_status_t cast(vn_eval_t *e, bool like) {
    target_t c;
    VN_TRY(read_target(e, like, &c));
    if (c.to == VN_STRING) {
        if (c.from != VN_STRING) return to_text(e);
        vn_tensor_t *t;
        VN_TRY(vn_tensor_copy(e->in[0].t, &t, e->err));
        return vn_out_tensor(e, 0, t);
    }
    const bool to_float = c.format != VN_FMT_NONE;
    if (c.from == VN_STRING) return to_float ? text_to_float(e, &c) : text_to_int(e, &c);
    if (vn_dtype_is_float(c.from)) return to_float ? float_to_float(e, &c) : float_to_int(e, &c);
    return to_float ? int_to_float(e, &c) : int_to_int(e, &c);
}

static vn_status_t eval_cast(vn_eval_t *e) { return cast(e, false); }
static vn_status_t eval_cast_like(vn_eval_t *e) { return cast(e, true); }

static vn_status_t infer_cast(vn_eval_t *e) {
    target_t c;
    VN_TRY(read_target(e, strcmp(e->node->op, "CastLike") == 0, &c));
    VN_TRY(vn_infer_same(e));
    e->out[0].dtype = c.to;
    return VN_OK;
}

/* ---- BitCast: the same bits under another name (claim CAST-6) ---- */

static vn_status_t bit_target(vn_eval_t *e, vn_dtype_t *to) {
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    const int64_t named = vn_node_int(e->node, "to", 0);
    const vn_dtype_t from = e->in[0].t->dtype;
    *to = named > VN_UNDEFINED && named < VN_DTYPE_COUNT ? (vn_dtype_t)named : VN_UNDEFINED;
    if (vn_dtype_bits(from) == 0 || vn_dtype_bits(*to) == 0)
        return vn_eval_fail(e, VN_ERR_DTYPE, "%s has no fixed width to be read as to=%lld", vn_dtype_name(from), (long long)named);
    if (vn_dtype_bits(from) != vn_dtype_bits(*to))
        return vn_eval_fail(e, VN_ERR_DTYPE, "%s has %d bits and %s has %d; equal widths are needed", vn_dtype_name(from),
                            vn_dtype_bits(from), vn_dtype_name(*to), vn_dtype_bits(*to));
    return VN_OK;
}

static vn_status_t eval_bit_cast(vn_eval_t *e) {
    vn_dtype_t to;
    size_t bytes;
    VN_TRY(bit_target(e, &to));
    const vn_tensor_t *t = e->in[0].t;
    if (!vn_dtype_storage(to, t->count, &bytes)) return vn_eval_fail(e, VN_ERR_RANGE, "%lld elements", (long long)t->count);
    VN_TRY(vn_out_exact(e, 0, to, t->rank, t->dims));
    if (bytes) memcpy(e->out[0].tensor->data, t->data, bytes);
    return VN_OK;
}

static vn_status_t infer_bit_cast(vn_eval_t *e) {
    vn_dtype_t to;
    VN_TRY(bit_target(e, &to));
    VN_TRY(vn_infer_same(e));
    e->out[0].dtype = to;
    return VN_OK;
}

static const vn_op_t rows[] = {
    {"", "BitCast", 26, 0, VN_CLASS_MOVEMENT, 0, "CAST-6", eval_bit_cast, infer_bit_cast, 0},
    {"", "Cast", 6, 0, VN_CLASS_ROUNDED, VN_OP_PROPAGATES, "CAST-1", eval_cast, infer_cast, 0},
    {"", "CastLike", 15, 0, VN_CLASS_ROUNDED, VN_OP_PROPAGATES, "CAST-1", eval_cast_like, infer_cast, 0},
};

const vn_family_t vn_family_cast = {.name = "cast", .rows = rows, .count = sizeof rows / sizeof *rows};
