/* pattern_index.c -- integers: indices that lack their chunk or count from the end, ties, and numbers that wrap, saturate or went through f32.
 *
 * Claim PATTERN-6: ties are facts, not guesses: every wrong index points to a value equal to the one under the right index. The other rules of this
 * file need evidence as PATTERN-1 says: an index that lacks a multiple of g is an accident with chance 1/g.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/pattern.h"

static int64_t got(const vn_pattern_t *p, int64_t k) { return vn_tensor_get_i64(p->got, p->at[k]); }
static int64_t due(const vn_pattern_t *p, int64_t k) { return vn_tensor_get_i64(p->want, p->at[k]); }

/* Operand k of the node that made the output, if its values are known. */
static const vn_tensor_t *operand(const vn_pattern_t *p, int k) {
    const vn_question_t *q = p->e->c->q;
    if (!p->node || k >= p->node->n_inputs) return NULL;
    if (q->node) return q->inputs[k] && q->inputs[k]->kind == VN_VALUE_TENSOR ? q->inputs[k]->tensor : NULL;
    const vn_graph_t *g = q->model->graph;
    for (int i = 0; i < g->n_inputs; ++i)
        if (q->inputs[i] && q->inputs[i]->kind == VN_VALUE_TENSOR && strcmp(g->inputs[i].name, p->node->inputs[k]) == 0)
            return q->inputs[i]->tensor;
    return vn_graph_init(g, p->node->inputs[k]);
}

static bool is(const vn_pattern_t *p, const char *op) { return p->node && !*p->node->domain && strcmp(p->node->op, op) == 0; }

/* ---- ties ---- */

typedef struct lines {
    const vn_tensor_t *x;
    int64_t d, inner, k; /* along the axis: of the operand, elements behind one index; of the output */
} lines_t;

static double value(const lines_t *l, int64_t out, int64_t t) {
    const int64_t o = out / (l->k * l->inner);
    return vn_tensor_get_f64(l->x, (o * l->d + t) * l->inner + out % l->inner);
}

static bool open_lines(const vn_pattern_t *p, lines_t *l) {
    const bool top = is(p, "TopK");
    l->x = top || is(p, "ArgMax") || is(p, "ArgMin") ? operand(p, 0) : NULL;
    if (!l->x || vn_dtype_kind(l->x->dtype) == VN_KIND_STRING || l->x->rank == 0) return false;
    int64_t axis = vn_node_int(p->node, "axis", top ? -1 : 0);
    if (axis < 0) axis += l->x->rank;
    if (axis < 0 || axis >= l->x->rank) return false;
    l->d = l->x->dims[axis];
    l->inner = 1;
    for (int k = (int)axis + 1; k < l->x->rank; ++k) l->inner *= l->x->dims[k];
    l->k = top ? p->got->dims[axis] : 1;
    return l->d > 0 && l->k > 0 && l->inner > 0 && l->x->count / l->d * l->k == p->n;
}

/* Element `out` is the index that the rule "the last of equals first" gives: of its equals, that many from the end as equals stand before it. */
static bool last_of_equals(const vn_pattern_t *p, const lines_t *l, int64_t out, int64_t x) {
    const double v = value(l, out, x);
    int64_t before = 0, after = 0;
    const int64_t place = out / l->inner % l->k, first = out - place * l->inner;
    for (int64_t j = 0; j < place; ++j) before += value(l, out, vn_tensor_get_i64(p->want, first + j * l->inner)) == v;
    for (int64_t t = x + 1; t < l->d; ++t) after += value(l, out, t) == v;
    return before == after;
}

static bool ties(vn_pattern_t *p) {
    enum { WORK = 1 << 26 };
    lines_t l;
    if (!open_lines(p, &l)) return false;
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t x = got(p, k), y = due(p, k);
        if (x < 0 || x >= l.d || y < 0 || y >= l.d || value(&l, p->at[k], x) != value(&l, p->at[k], y)) return false;
    }
    const int64_t step = p->m / (WORK / (l.d + l.k) + 1) + 1;
    bool last = true;
    double gain = 0;
    for (int64_t k = 0; k < p->m && last; k += step) last = last_of_equals(p, &l, p->at[k], got(p, k));
    for (int64_t k = 0; k < p->m; ++k) gain += log(1 + fabs((double)(got(p, k) - due(p, k))));
    if (last && !vn_node_int(p->node, "select_last_index", 0))
        vn_explain_offer(p->e, VN_NAME_VARIANT, gain / (double)p->m, VN_BUG, "argmax-last",
                         "Of equal values the last is taken where the first is due, in %s.", p->where.text);
    else
        vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "tie-order",
                         "The indices in %s differ from those due only among equal values: another order of ties.", p->where.text);
    return true;
}

/* ---- indices ---- */

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static double log_choices(int64_t n, int64_t m) { return lgamma((double)n + 1) - lgamma((double)m + 1) - lgamma((double)(n - m) + 1); }

static bool chunks(vn_pattern_t *p) {
    int64_t g = 0, most = 0, least = INT64_MAX, right = -1, low = INT64_MAX;
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t x = got(p, k), y = due(p, k);
        if (x < 0 || y <= x) return false;
        g = gcd(g, y - x);
        if (x > most) most = x;
        if (y < least) least = y;
        if (y - x < low) low = y - x;
    }
    if (g < 2) return false;
    for (int64_t i = 0; i < p->n; ++i)
        if (!p->e->wrong[i] && vn_tensor_get_i64(p->want, i) > right) right = vn_tensor_get_i64(p->want, i);
    if (g > most && least >= g && right < g) { /* x = y mod g, and only what is below g is right */
        const bool power = (g & (g - 1)) == 0;
        const double evidence = log_choices(p->n, p->m) + ((double)p->m - 1) * log((double)g) + (power ? log((double)g) : 0);
        if (evidence <= vn_pattern_limit(M_LN2)) return false;
        vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "chunk-offset",
                         "Indices from %lld on lack the start of their chunk: they are those due modulo %lld, in %s.", (long long)g,
                         (long long)g, p->where.text);
        return true;
    }
    return false;
}

static bool offset(vn_pattern_t *p) {
    const int64_t shift = got(p, 0) - due(p, 0);
    int64_t most = due(p, 0), least = most;
    bool negative = true;
    for (int64_t k = 0; k < p->m; ++k) {
        if (got(p, k) - due(p, k) != shift) return false;
        negative = negative && got(p, k) < 0;
        if (due(p, k) > most) most = due(p, k);
        if (due(p, k) < least) least = due(p, k);
    }
    if (negative && shift < 0 && most + shift < 0) { /* counted from the end of an axis of -shift elements */
        const vn_tensor_t *x = operand(p, 0);
        bool size = false;
        for (int a = 0; x && a < x->rank; ++a) size = size || x->dims[a] == -shift;
        if (size) {
            vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "negative-index",
                             "Indices are counted from the end of an axis of %lld, in %s: negative ones were not wrapped.",
                             (long long)-shift, p->where.text);
            return true;
        }
    }
    if (((double)p->m - 1) * log((double)(most - least) + 1) <= vn_pattern_limit(0)) return false;
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "chunk-offset", "Every wrong index is off by %+lld, in %s.", (long long)shift,
                     p->where.text);
    return true;
}

/* ---- numbers ---- */

static int64_t low_bits(int64_t v, int bits, bool is_signed) {
    const uint64_t mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0, b = (uint64_t)v & mask;
    if (is_signed && bits < 64 && b >> (bits - 1)) return (int64_t)(b | ~mask);
    return (int64_t)b;
}

/* The exact integer before it is stored; false where the operation or the numbers do not allow it. */
static bool before_store(const vn_pattern_t *p, const vn_tensor_t *const *op, int64_t i, int64_t *v) {
    const int64_t limit = INT64_C(1) << 31;
    const int64_t a = vn_tensor_get_i64(op[0], i), b = op[1] ? vn_tensor_get_i64(op[1], i) : 0;
    if (a < -limit || a > 2 * limit || b < -limit || b > 2 * limit) {
        *v = a;
        return is(p, "Cast");
    }
    if (is(p, "Cast")) *v = a;
    else if (is(p, "Add")) *v = a + b;
    else if (is(p, "Sub")) *v = a - b;
    else if (is(p, "Mul")) return !__builtin_mul_overflow(a, b, v);
    else if (is(p, "Neg")) *v = -a;
    else return false;
    return true;
}

static int64_t clamp(int64_t v, int bits, bool is_signed) {
    const int64_t high = is_signed ? (int64_t)(((uint64_t)1 << (bits - 1)) - 1) : (int64_t)(((uint64_t)1 << bits) - 1),
                  low = is_signed ? -high - 1 : 0;
    return v < low ? low : v > high ? high : v;
}

static void say_saturated(vn_pattern_t *p, vn_name_level_t level, int bits, const char *how) {
    char cause[32];
    snprintf(cause, sizeof cause, "saturate-i%d", bits);
    vn_explain_offer(p->e, level, 1, VN_BUG, cause, "%s stand at the limits of %d bits, where the low bits must be kept, in %s.", how, bits,
                     p->where.text);
}

/* Cast, Add, Sub, Mul, Neg: the exact result, cut at the limits of the type, is what was returned everywhere. */
static vn_status_t saturates(vn_pattern_t *p, bool *named, vn_error_t *err) {
    const int bits = vn_dtype_bits(p->got->dtype);
    const bool is_signed = vn_dtype_kind(p->got->dtype) == VN_KIND_SIGNED;
    if (bits > 32) return VN_OK;
    vn_tensor_t *op[2] = {NULL, NULL};
    vn_status_t s = VN_OK;
    bool all = p->node && p->node->n_inputs >= 1;
    for (int k = 0; k < 2 && k < (p->node ? p->node->n_inputs : 0) && all && s == VN_OK; ++k) {
        const vn_tensor_t *t = operand(p, k);
        vn_error_t why;
        all = t && (vn_dtype_is_int(t->dtype) || vn_dtype_kind(t->dtype) == VN_KIND_BOOL);
        if (!all) break;
        s = vn_tensor_broadcast(t, p->got->rank, p->got->dims, &op[k], &why);
        all = s == VN_OK;
        s = s == VN_ERR_NOMEM ? vn_fail(err, s, "no memory") : VN_OK;
    }
    for (int64_t i = 0; i < p->n && all && s == VN_OK; ++i) {
        int64_t v;
        all = op[0] && before_store(p, (const vn_tensor_t *const *)op, i, &v) && vn_tensor_get_i64(p->got, i) == clamp(v, bits, is_signed);
    }
    *named = all && s == VN_OK;
    if (*named) say_saturated(p, VN_NAME_VARIANT, bits, "Numbers that do not fit");
    vn_tensor_free(op[0]);
    vn_tensor_free(op[1]);
    return s;
}

/* The limits of the type are hit, or fled, by every wrong element. */
static bool limits(vn_pattern_t *p) {
    const int bits = vn_dtype_bits(p->got->dtype);
    const bool is_signed = vn_dtype_kind(p->got->dtype) == VN_KIND_SIGNED;
    if (bits > 32) return false;
    const int64_t high = clamp(INT64_MAX, bits, is_signed), low = clamp(INT64_MIN, bits, is_signed);
    int64_t hit = 0, fled = 0, share = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t x = got(p, k), y = due(p, k);
        hit += x == high || (x == low && low != 0);
        fled += y == high || (y == low && low != 0);
    }
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t y = vn_tensor_get_i64(p->want, i);
        share += y == high || y == low;
    }
    if (hit == p->m && fled == 0 && (double)p->m * (bits - 1) * M_LN2 > vn_pattern_limit(M_LN2)) {
        say_saturated(p, VN_NAME_PATTERN, bits, "All wrong values");
        return true;
    }
    if (fled == p->m && hit == 0 && (double)p->m * log((double)p->n / (double)share) > vn_pattern_limit(M_LN2)) {
        char cause[32];
        snprintf(cause, sizeof cause, "wrap-i%d", bits);
        vn_explain_offer(p->e, VN_NAME_PATTERN, 1, VN_BUG, cause,
                         "Only values that must saturate at the limits of %d bits are wrong, in %s: they wrap or were cut elsewhere.", bits,
                         p->where.text);
        return true;
    }
    return false;
}

/* A narrower integer on the way: its low bits, or its limits. */
static bool narrowed(vn_pattern_t *p) {
    static const int widths[] = {32, 16, 8}; /* the widest that explains says least */
    const int bits = vn_dtype_bits(p->got->dtype);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; ++w)
        for (int is_signed = 0; is_signed < 2; ++is_signed) {
            bool wraps = widths[w] < bits, cut = wraps;
            for (int64_t i = 0; i < p->n && (wraps || cut); ++i) {
                const int64_t x = vn_tensor_get_i64(p->got, i), y = vn_tensor_get_i64(p->want, i);
                wraps = wraps && x == low_bits(y, widths[w], is_signed);
                cut = cut && x == clamp(y, widths[w], is_signed);
            }
            if (!wraps && !cut) continue;
            if ((double)p->m * (widths[w] - 1) * M_LN2 <= vn_pattern_limit(log(2.0 * sizeof widths / sizeof *widths))) continue;
            char cause[32];
            if (wraps && widths[w] == 32) snprintf(cause, sizeof cause, "i64-as-i32");
            else snprintf(cause, sizeof cause, "%s-i%d", wraps ? "wrap" : "saturate", widths[w]);
            vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, cause, "Every value is %s %s %d-bit integer, in %s.",
                             wraps ? "the low bits of the one due, read as" : "the one due, cut at the limits of",
                             is_signed ? "a signed" : "an unsigned", widths[w], p->where.text);
            return true;
        }
    return false;
}

/* Integers of more than 24 bits came back as numbers that f32 can hold, near those due. */
static bool through_f32(vn_pattern_t *p) {
    if (vn_dtype_bits(p->got->dtype) < 32) return false;
    const double u = vn_format_info(VN_FMT_F32)->u, terms = p->e->c->ref->terms > 1 ? (double)p->e->c->ref->terms : 1;
    double evidence = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const double x = p->e->x[p->at[k]], y = p->e->y[p->at[k]];
        if ((double)(float)x != x || fabs(x - y) > 2 * u * terms * fabs(y) || fabs(y) < 0x1p24) return false;
        evidence += log(fabs(y) / 0x1p24) + M_LN2; /* numbers of this size between two of f32, and at least every second is none */
    }
    if (evidence <= vn_pattern_limit(0)) return false;
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "result-rounded-to-f32",
                     "Integers beyond 2^24 came back as numbers of f32, next to those due: the computation went through f32, in %s.",
                     p->where.text);
    return true;
}

vn_status_t vn_pattern_integers(vn_pattern_t *p, vn_error_t *err) {
    if (!vn_dtype_is_int(p->got->dtype)) return VN_OK;
    if (p->index) {
        if (!ties(p) && !chunks(p)) (void)offset(p);
        return VN_OK;
    }
    bool named = false;
    VN_TRY(saturates(p, &named, err));
    if (!named && !narrowed(p) && !limits(p)) (void)through_f32(p);
    return VN_OK;
}
