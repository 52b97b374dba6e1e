/* semantic_codes.c -- packed and quantised codes read wrongly: nibbles exchanged, signs, zero points, and which entry of a table of scales was used.
 *
 * The first are variants (claim NAME-1). Where the tables' usual wrong places do not hold, dequantised values tell their scale: claim
 * NAME-CODE-1: every wrong element is (q - z) s, rounded once, for some entry of the table of scales (and of zero points) or for one scale that is
 * in no table, and that is no accident: (8 u) to the power of the elements times (2 entries) to the power of the runs of one entry is below 10^-6.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"
#include "judge/names.h"

/* Operands that hold codes: packed in bytes (`bits` by attribute), or of a type of their own. */
static const struct {
    const char *domain, *op;
    int codes, zeros; /* -1: none */
    bool packed;
} table[] = {
    {"", "DequantizeLinear", 0, 2, false},
    {"", "Cast", 0, -1, false},
    {"", "MatMulInteger", 0, 2, false},
    {"com.microsoft", "MatMulNBits", 1, 3, true},
    {"com.microsoft", "GatherBlockQuantized", 0, 3, true},
    {"com.microsoft", "DequantizeLinear", 0, 2, false},
};

/* ---- order inside a byte ---- */

/* Codes of `bits` bits in reverse inside each byte; bytes: t holds bytes, else codes that are packed when stored. */
static vn_status_t reversed_bytes(const vn_tensor_t *t, int bits, bool bytes, vn_tensor_t **out, vn_error_t *err) {
    const int per = 8 / bits;
    *out = NULL;
    if (!bytes) {
        int64_t *index = vn_alloc((size_t)t->count + 1, sizeof *index);
        if (!index) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
        for (int64_t i = 0; i < t->count; ++i) {
            const int64_t j = i / per * per + (per - 1 - i % per);
            index[i] = j < t->count ? j : i;
        }
        const vn_status_t s = vn_edit_gather(t, t->rank, t->dims, index, out, err);
        vn_free(index);
        return s;
    }
    VN_TRY(vn_tensor_new(t->dtype, t->rank, t->dims, out, err));
    const unsigned mask = (1u << bits) - 1;
    for (int64_t i = 0; i < t->count; ++i) {
        const unsigned x = (unsigned)vn_tensor_get_i64(t, i) & 255u;
        unsigned y = 0;
        for (int k = 0; k < per; ++k) y |= (x >> k * bits & mask) << (per - 1 - k) * bits;
        vn_tensor_set_i64(*out, i, (int64_t)y);
    }
    return VN_OK;
}

static vn_status_t nibbles(vn_variant_t *v, int codes, int zeros, bool packed, bool *held, vn_error_t *err) {
    const vn_tensor_t *q = vn_variant_operand(v, codes), *z = zeros >= 0 ? vn_variant_operand(v, zeros) : NULL;
    if (!q || q->count > VN_EDIT_MOST) return VN_OK;
    const bool bytes = packed && vn_dtype_bits(q->dtype) == 8;
    const int bits = bytes ? (int)vn_node_int(v->node, "bits", 4) : vn_dtype_bits(q->dtype);
    if (bits != 4 && bits != 2) return VN_OK;
    for (int which = 1; which < 4 && !*held; ++which) { /* bit 0: codes, bit 1: zero points */
        const bool with_z = which & 2;
        if (with_z && (!z || (bytes ? z->dtype != VN_U8 : vn_dtype_bits(z->dtype) != bits))) continue;
        vn_status_t s = VN_OK;
        vn_error_t why;
        vn_tensor_t *copy;
        if (which & 1) {
            s = reversed_bytes(q, bits, bytes, &copy, &why);
            if (s == VN_OK) s = vn_variant_input(v, codes, copy, &why);
        }
        if (s == VN_OK && with_z) {
            s = reversed_bytes(z, bits, bytes, &copy, &why);
            if (s == VN_OK) s = vn_variant_input(v, zeros, copy, &why);
        }
        if (vn_edit_refused(v, &s)) {
            if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
            continue;
        }
        VN_TRY(vn_variant_ask(v, VN_BUG, "nibble-order", held, err,
                              "%s with the %s of each byte in the other order gives the whole result.", v->node->op,
                              which == 1   ? "codes"
                              : which == 2 ? "zero points"
                                           : "codes and zero points"));
    }
    return VN_OK;
}

/* ---- signs and zero points ---- */

/* Codes as if of the other signedness. The zero points come along: with the same bits, or with the same values where the type has them. */
static vn_status_t other_sign(vn_variant_t *v, int codes, int zeros, bool *held, vn_error_t *err) {
    const vn_tensor_t *q = vn_variant_operand(v, codes), *z = zeros >= 0 ? vn_variant_operand(v, zeros) : NULL;
    if (!q || q->count > VN_EDIT_MOST) return VN_OK;
    for (int values = 0; values < (z ? 2 : 1) && !*held; ++values) {
        vn_tensor_t *copy = NULL, *zero = NULL;
        vn_error_t why;
        vn_status_t s = vn_edit_resign(q, &copy, &why);
        if (s == VN_OK) s = vn_variant_input(v, codes, copy, &why);
        if (s == VN_OK && z) s = vn_edit_resign(z, &zero, &why);
        for (int64_t i = 0; s == VN_OK && z && values && i < z->count; ++i)
            if (vn_tensor_get_i64(zero, i) != vn_tensor_get_i64(z, i)) s = VN_ERR_RANGE;
        if (s == VN_OK && z) s = vn_variant_input(v, zeros, zero, &why);
        else vn_tensor_free(zero);
        if (vn_edit_refused(v, &s)) {
            if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
            continue;
        }
        VN_TRY(vn_variant_ask(v, VN_BUG, "sign-extension", held, err, "%s with its codes read as if they were %s gives the whole result.",
                              v->node->op, vn_dtype_kind(q->dtype) == VN_KIND_SIGNED ? "unsigned" : "signed"));
    }
    return VN_OK;
}

/* ---- dequantised values, one by one: x = (q - z) s ---- */

typedef struct codes {
    const vn_tensor_t *q, *s, *z;
    int64_t axis, length, inner, block, groups; /* of the table; block 0: one entry a channel, or one for all */
    double *scale, *zero;
    int64_t entries;
} codes_t;

static bool read_codes(const vn_variant_t *v, codes_t *c) {
    *c = (codes_t){.q = vn_variant_operand(v, 0), .s = vn_variant_operand(v, 1), .z = vn_variant_operand(v, 2)};
    const bool has_z = v->node->n_inputs > 2 && *v->node->inputs[2];
    const bool from_codes = vn_variant_is(v, "", "DequantizeLinear");
    if ((!from_codes && !vn_variant_is(v, "", "QuantizeLinear")) || !c->q || !c->s || (has_z && !c->z)) return false;
    if (from_codes != vn_dtype_is_int(c->q->dtype)) return false;
    c->axis = vn_node_int(v->node, "axis", 1);
    if (c->axis < 0) c->axis += c->q->rank;
    c->block = vn_node_int(v->node, "block_size", 0);
    c->entries = c->s->count;
    c->inner = 1;
    if (c->entries < 1 || (c->z && c->z->count != c->entries)) return false;
    if (c->entries == 1) return true;
    if (c->axis < 0 || c->axis >= c->q->rank) return false;
    c->length = c->q->dims[c->axis];
    for (int d = (int)c->axis + 1; d < c->q->rank; ++d) c->inner *= c->q->dims[d];
    c->groups = c->block > 0 ? (c->length + c->block - 1) / c->block : c->length;
    if (c->block > 0) return c->s->rank == c->q->rank && c->entries == c->q->count / c->length * c->groups;
    return c->entries == c->length;
}

static int64_t entry_of(const codes_t *c, int64_t i) {
    if (c->entries == 1) return 0;
    const int64_t at = i / c->inner % c->length;
    if (c->block <= 0) return at;
    return (i / c->inner / c->length * c->groups + at / c->block) * c->inner + i % c->inner;
}

typedef enum from { BOTH, SCALE, ZERO, NO_ZERO, ZERO_MINUS, ZERO_SIGN, FROMS } from_t;

static double value(const codes_t *c, int64_t i, int64_t own, int64_t other, from_t from, const double *codes) {
    const double zero = c->zero ? c->zero[from == BOTH || from == ZERO ? other : own] : 0,
                 s = c->scale[from == ZERO                                                 ? own
                              : from == NO_ZERO || from == ZERO_MINUS || from == ZERO_SIGN ? own
                                                                                           : other];
    if (from == NO_ZERO) return codes[i] * s;
    if (from == ZERO_MINUS) return (codes[i] + zero) * s;
    if (from == ZERO_SIGN) { /* the zero point with the other signedness of its type */
        const double full = ldexp(1, vn_dtype_bits(c->q->dtype));
        return (codes[i] - (vn_dtype_kind(c->q->dtype) == VN_KIND_SIGNED ? zero < 0 ? zero + full : zero
                            : zero >= full / 2                           ? zero - full
                                                                         : zero)) *
               s;
    }
    return (codes[i] - zero) * s;
}

static bool same(const vn_explain_t *e, double x, double y) {
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    return f != VN_FMT_NONE && (x == y || fabs(x - y) <= 2 * vn_ulp(f, y));
}

/* Every wrong element by an entry of the tables; the entry of the wrong element before is asked first. */
static bool by_entries(vn_explain_t *e, const codes_t *c, const double *codes, from_t from) {
    int64_t last = -1, runs = 0, used = 0, first_own = -1, first_other = -1;
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i]) continue;
        const int64_t own = entry_of(c, i);
        if (from >= NO_ZERO) {
            if (!same(e, e->x[i], value(c, i, own, own, from, codes))) return false;
            used++;
            continue;
        }
        if (last < 0 || !same(e, e->x[i], value(c, i, own, last, from, codes))) {
            if ((++runs & 63) == 0 && vn_spent() > e->deadline) {
                e->cut = true;
                return false;
            }
            int64_t j = 0; /* the nearest entries first: a step to either side, then further */
            for (; j < 2 * c->entries; ++j) {
                const int64_t at = own + (j & 1 ? -(j / 2 + 1) : j / 2 + 1);
                if (at >= 0 && at < c->entries && same(e, e->x[i], value(c, i, own, at, from, codes))) {
                    last = at;
                    break;
                }
            }
            if (j == 2 * c->entries) return false;
        }
        if (first_own < 0) {
            first_own = own;
            first_other = last;
        }
        used++;
    }
    static const char *const words[FROMS] = {"the scale and zero point of another place",
                                             "the scale of another place",
                                             "the zero point of another place",
                                             "no zero point",
                                             "a zero point of the other sign",
                                             "a zero point read with the other signedness"};
    if (from >= NO_ZERO) {
        vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, from == NO_ZERO ? "zero-point-ignored" : "zero-point-sign",
                         "Every wrong element is what %s gives.", words[from]);
        return true;
    }
    const double u = vn_format_info(vn_format_of(e->c->actual->dtype))->u;
    if ((double)used * log(8 * u) + (double)runs * log(2 * (double)c->entries) > log(VN_NAME_ACCIDENT))
        return false; /* may be an accident */
    vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, c->block > 0 ? "group-index" : "channel-scale",
                     "Every wrong element is what %s gives: entry %lld of the table instead of %lld at the first.", words[from],
                     (long long)first_other, (long long)first_own);
    return true;
}

/* QuantizeLinear whose codes keep their low bits where they must saturate. */
static void wraps(vn_explain_t *e, const codes_t *c, const double *x) {
    const int bits = vn_dtype_bits(e->c->actual->dtype);
    const double full = ldexp(1, bits), lo = vn_dtype_kind(e->c->actual->dtype) == VN_KIND_SIGNED ? -full / 2 : 0;
    if (!vn_dtype_is_int(e->c->actual->dtype) || bits > 16) return;
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i]) continue;
        const int64_t own = entry_of(c, i);
        const double v = x[i] / c->scale[own], window = 0x1p-20 * (1 + fabs(v)), zero = c->zero ? c->zero[own] : 0;
        if (!(fabs(v) < 0x1p31)) return;
        const double least = rint(v - window) + zero, most = rint(v + window) + zero;
        if (e->x[i] != least - full * floor((least - lo) / full) && e->x[i] != most - full * floor((most - lo) / full)) return;
    }
    vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, "wrap-i8",
                     "Every wrong code holds the low %d bits of a number that is too large for its type; it must saturate.", bits);
}

/* One scale for all wrong elements that stands in no table. */
static void one_scale(vn_explain_t *e, const codes_t *c, const double *codes) {
    double lo = 0, hi = INFINITY;
    int64_t used = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i]) continue;
        const int64_t own = entry_of(c, i);
        const double d = codes[i] - (c->zero ? c->zero[own] : 0), x = e->x[i];
        if (d == 0 || x == 0 || !isfinite(x)) return;
        const double ulp = vn_ulp(vn_format_of(e->c->actual->dtype), x), a = (fabs(x) - ulp) / fabs(d), b = (fabs(x) + ulp) / fabs(d);
        if ((x < 0) == (d > 0)) return;
        lo = fmax(lo, a);
        hi = fmin(hi, b);
        used++;
    }
    if (used < 4 || !(lo <= hi)) return;
    vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, "stale-buffer",
                     "Every wrong element was scaled by %.9g, which is not its scale and stands in no other place of the table.",
                     (lo + hi) / 2);
}

static vn_status_t solve(vn_variant_t *v, vn_error_t *err) {
    vn_explain_t *e = v->e;
    codes_t c;
    if (v->index >= 0 || !e->x || !read_codes(v, &c) || c.q->count != e->n) return VN_OK;
    double *codes = vn_alloc((size_t)c.q->count + 1, sizeof *codes);
    c.scale = vn_alloc((size_t)c.entries, sizeof *c.scale);
    c.zero = c.z ? vn_alloc((size_t)c.entries, sizeof *c.zero) : NULL;
    vn_status_t s = codes && c.scale && (!c.z || c.zero) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld codes", (long long)e->n);
    if (s == VN_OK) {
        vn_tensor_to_f64(c.q, codes);
        vn_tensor_to_f64(c.s, c.scale);
        if (c.z) vn_tensor_to_f64(c.z, c.zero);
        const bool quantises = vn_dtype_is_float(c.q->dtype);
        bool found = quantises;
        if (quantises) wraps(e, &c, codes);
        for (int from = c.z ? NO_ZERO : FROMS; from < FROMS && !found; ++from) found = by_entries(e, &c, codes, (from_t)from);
        for (int from = c.entries < 2 ? NO_ZERO : BOTH; from < (c.z ? NO_ZERO : SCALE) && !found; ++from)
            found = by_entries(e, &c, codes, (from_t)from);
        if (!found) one_scale(e, &c, codes);
    }
    vn_free(codes);
    vn_free(c.scale);
    vn_free(c.zero);
    return s;
}

/* Zero points left out: the operand is not read, or zero stands for the middle of the codes. */
static vn_status_t no_zero(vn_variant_t *v, bool *held, vn_error_t *err) {
    if (vn_variant_is(v, "", "QuantizeLinear") && vn_variant_operand(v, 2)) {
        vn_tensor_t *none;
        VN_TRY(vn_edit_fill(vn_variant_operand(v, 2), 0, &none, err));
        VN_TRY(vn_variant_input(v, 2, none, err));
        return vn_variant_ask(v, VN_BUG, "zero-point-ignored", held, err, "QuantizeLinear without its zero point gives the whole result.");
    }
    if (!vn_variant_is(v, "com.microsoft", "MatMulNBits")) return VN_OK;
    const int64_t n = vn_node_int(v->node, "N", 0), k = vn_node_int(v->node, "K", 0), block = vn_node_int(v->node, "block_size", 0),
                  bits = vn_node_int(v->node, "bits", 4);
    if (n < 1 || k < 1 || block < 1 || bits < 1 || bits > 8 || n > INT32_MAX || k > INT32_MAX) return VN_OK;
    if (vn_variant_operand(v, 3)) {
        VN_TRY(vn_variant_drop_input(v, 3, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "zero-point-ignored", held, err, "MatMulNBits without its zero points gives the whole result."));
    }
    if (*held) return VN_OK;
    vn_tensor_t *zero;
    VN_TRY(vn_tensor_new(VN_U8, 1, (const int64_t[]){n * (((k + block - 1) / block * bits + 7) / 8)}, &zero, err));
    VN_TRY(vn_variant_input(v, 3, zero, err));
    return vn_variant_ask(v, VN_BUG, "zero-point-ignored", held, err,
                          "MatMulNBits with zero points 0 gives the whole result: codes count as unsigned numbers.");
}

static vn_status_t packed(vn_variant_t *v, vn_error_t *err) {
    bool held = false;
    for (size_t i = 0; i < sizeof table / sizeof *table && !held; ++i) {
        if (!vn_variant_is(v, table[i].domain, table[i].op)) continue;
        VN_TRY(nibbles(v, table[i].codes, table[i].zeros, table[i].packed, &held, err));
        if (!held && !table[i].packed && strcmp(table[i].op, "MatMulInteger") != 0)
            VN_TRY(other_sign(v, table[i].codes, table[i].zeros, &held, err));
    }
    if (!held) VN_TRY(no_zero(v, &held, err));
    return held ? VN_OK : solve(v, err);
}

vn_status_t vn_name_codes(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, packed, err); }
