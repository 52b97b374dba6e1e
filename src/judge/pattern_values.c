/* pattern_values.c -- what the wrong elements hold, and where: zeros, one constant, a limit, NaN, infinities, values unrelated to those due.
 *
 * Claim PATTERN-2: zeros (or one constant) that end with an axis or the buffer are `tail-unwritten`; periodic ones are `lane-unwritten`; other
 * zeros are `zeros`. Zeros that a bf16 intermediate of the output's size would have produced are no such pattern. NaN and infinities keep their
 * own names wherever they stand: a function that overflows does so for the last of sorted arguments as well.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/pattern.h"

static const double by_place = 0.5; /* a constant that is not zero: weighs less than what says where values come from */

static bool fits(const vn_pattern_t *p, const void *value, int64_t i) { return vn_explain_fits(p->e, i, *(const double *)value); }

static void noun(const vn_pattern_t *p, double c, char *out, size_t size) {
    if (c == 0) snprintf(out, size, "Zeros");
    else if (!vn_dtype_is_float(p->got->dtype)) snprintf(out, size, "The number %lld", (long long)vn_tensor_get_i64(p->got, p->at[0]));
    else snprintf(out, size, "The number %.9g (0x%llx)", c, (unsigned long long)vn_tensor_bits(p->got, p->at[0]));
}

/* ---- NaN and infinities ---- */

static bool classes(vn_pattern_t *p) {
    int64_t nan = 0, inf = 0, ignored = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const double x = p->e->x[p->at[k]], y = p->e->y[p->at[k]];
        nan += isnan(x) && !isnan(y);
        inf += isinf(x) && isfinite(y);
        ignored += isnan(y);
    }
    if (nan + inf + ignored == 0) return false;
    const char *what = nan == p->m ? "nan-produced" : inf == p->m ? "inf-produced" : ignored == p->m ? "nan-ignored" : NULL;
    if (!what) return true; /* several things are wrong: the general words stand */
    vn_explain_offer(p->e, VN_NAME_PATTERN, 1, VN_BUG, what, "%s in %s, where %s due.",
                     nan   ? "NaN"
                     : inf ? "Infinities"
                           : "Numbers",
                     p->where.text, ignored ? "NaN is" : "finite numbers are");
    return true;
}

/* ---- zeros and constants ---- */

/* The bits are one byte repeated: a pattern that memory is filled with, not a result. */
static bool filler(const vn_tensor_t *t, int64_t i) {
    const int bits = vn_dtype_bits(t->dtype);
    if (bits < 16 || bits > 64) return false;
    const uint64_t b = vn_tensor_bits(t, i);
    for (int k = 8; k < bits; k += 8)
        if ((b >> k & 0xff) != (b & 0xff)) return false;
    return b != 0;
}

/* Some zero stands where a value is due that even a bf16 intermediate as large as the largest one would have kept. */
static bool lost(const vn_pattern_t *p) {
    double largest = 0, due = 0;
    for (int64_t i = 0; i < p->n; ++i)
        if (isfinite(p->e->y[i]) && fabs(p->e->y[i]) > largest) largest = fabs(p->e->y[i]);
    for (int64_t k = 0; k < p->m; ++k)
        if (fabs(p->e->y[p->at[k]]) > due) due = fabs(p->e->y[p->at[k]]);
    return due > vn_format_info(VN_FMT_BF16)->u * largest;
}

static bool at_limit(vn_dtype_t t, double x) {
    const int bits = vn_dtype_bits(t);
    const vn_kind_t k = vn_dtype_kind(t);
    if (k == VN_KIND_FLOAT) return fabs(x) == vn_format_info(vn_format_of(t))->max; /* in place of an infinity, say */
    if (k == VN_KIND_SIGNED) return x == ldexp(1, bits - 1) - 1 || x == -ldexp(1, bits - 1);
    return k == VN_KIND_UNSIGNED && x == ldexp(1, bits) - 1;
}

static vn_status_t constant(vn_pattern_t *p, vn_error_t *err) {
    const double c = p->e->x[p->at[0]];
    for (int64_t k = 1; k < p->m; ++k)
        if (p->e->x[p->at[k]] != c) return VN_OK;
    const vn_kind_t kind = vn_dtype_kind(p->got->dtype);
    if (c == 0 && kind == VN_KIND_FLOAT && !lost(p)) return VN_OK;
    if (c != 0 && (p->m == 1 || kind == VN_KIND_BOOL || at_limit(p->got->dtype, c))) return VN_OK;
    vn_places_t where;
    VN_TRY(vn_pattern_where(p, fits, &c, &where, err));
    char what[64];
    noun(p, c, what, sizeof what);
    const bool all = where.kind == VN_PLACES_ALL, place = all || where.kind == VN_PLACES_BOX || where.kind == VN_PLACES_REST;
    const double weight = c == 0 ? 1 : by_place;
    if (c == 0 && all) vn_explain_offer(p->e, VN_NAME_PATTERN, weight, VN_BUG, "zeros", "All elements are zero.");
    else if (vn_places_tail(&where))
        vn_explain_offer(p->e, VN_NAME_PATTERN, weight, VN_BUG, "tail-unwritten",
                         "%s in %s: the rest is right, so this tail was not computed or not stored.", what, where.text);
    else if (vn_places_lanes(&where))
        vn_explain_offer(p->e, VN_NAME_PATTERN, weight, VN_BUG, "lane-unwritten",
                         "%s in %s: a periodic part of the output was not computed or not stored.", what, where.text);
    else if (c == 0 && (place || (kind == VN_KIND_FLOAT && !p->index)))
        vn_explain_offer(p->e, VN_NAME_PATTERN, weight, VN_BUG, "zeros", "Zeros in %s.", where.text);
    else if (c != 0 && (filler(p->got, p->at[0]) || (place && !all)))
        vn_explain_offer(p->e, VN_NAME_PATTERN, weight, VN_BUG, "stale-buffer",
                         "%s in %s, whatever is due there: memory that the kernel did not write.", what, where.text);
    return VN_OK;
}

/* ---- a limit ---- */

static const char *what_limit(double a) {
    static const struct {
        double value;
        const char *is;
    } table[] = {
        {127, ", the largest i8"},
        {128, ", the size of the smallest i8"},
        {255, ", the largest u8"},
        {240, ", the largest f8e4m3fnuz"},
        {448, ", the largest f8e4m3fn"},
        {32767, ", the largest i16"},
        {32768, ", the size of an i16"},
        {57344, ", the largest f8e5m2"},
        {65504, ", the largest f16"},
        {65535, ", the largest u16"},
        {65536, ", 2^16"},
        {2147483647.0, ", the largest i32"},
        {2147483648.0, ", the size of an i32"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k)
        if (fabs(a) == table[k].value) return table[k].is;
    return NULL;
}

/* Claim PATTERN-3: every wrong element stands at a limit, every value due beyond the limit is wrong, and none within it. */
static void saturated(vn_pattern_t *p) {
    double low = -INFINITY, high = INFINITY;
    for (int64_t k = 0; k < p->m; ++k) {
        const double x = p->e->x[p->at[k]], y = p->e->y[p->at[k]];
        if (!isfinite(x) || isnan(y)) return;
        double *limit = y > x ? &high : &low;
        if (isfinite(*limit) && *limit != x) return;
        *limit = x;
    }
    if (!(low < high)) return;
    int64_t beyond = 0, different = 0; /* values due beyond the limit that differ */
    double last = NAN;
    for (int64_t i = 0; i < p->n; ++i) {
        const double y = p->e->y[i], room = vn_pattern_room(p, i);
        const bool out = y > high + room || y < low - room;
        if (out && !p->e->wrong[i]) return;
        if (!out && p->e->wrong[i]) return;
        beyond += out;
        different += out && y != last;
        if (out) last = y;
    }
    const double which = isfinite(high) ? high : low;
    if (which == 0) return; /* zeros have names of their own */
    const char *is = what_limit(which);
    const vn_op_class_t cls = p->e->c->cls;
    if (!is && (cls == VN_CLASS_SCAN || cls == VN_CLASS_REDUCTION)) return; /* a sum that stands still: its terms are rounded away */
    const double chance = lgamma((double)p->n + 1) - lgamma((double)beyond + 1) - lgamma((double)(p->n - beyond) + 1);
    if (!is && (different < 3 || chance <= vn_pattern_limit(0))) return;
    char cause[64], other[48] = "";
    snprintf(cause, sizeof cause, "saturated:%.9g", which);
    if (isfinite(high) && isfinite(low)) snprintf(other, sizeof other, " (and %.9g)", low);
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, cause,
                     "Values beyond %.9g%s%s stand at that limit, the others are right: the result saturates, in %s.", which, other,
                     is ? is : "", p->where.text);
}

vn_status_t vn_pattern_values(vn_pattern_t *p, vn_error_t *err) {
    if (!p->e->x || p->e->c->m.outside == 0) return VN_OK;
    if (classes(p)) return VN_OK;
    if (!p->exact) saturated(p);
    return constant(p, err);
}
