/* semantic_scan.c -- sums, maxima and softmax in blocks along one axis: blocks that are not merged or carried, and padding lanes that take part.
 *
 * Everything here follows from the expected values along a line of the axis, so block sizes and numbers of padding lanes are solved for. Rooms are
 * the contract's, scaled where a result is a multiple of the expected one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

/** Lines of the output along the axis: element i of line l is at[l] + i * step. */
typedef struct lines {
    vn_explain_t *e;
    int64_t n, count, step;
    double *y2, *room; /* planes of the output */
} lines_t;

static int64_t line_at(const lines_t *l, int64_t line) { return line / l->step * l->step * l->n + line % l->step; }

static vn_status_t lines_open(vn_explain_t *e, int64_t axis, lines_t *out, bool *is, vn_error_t *err) {
    const vn_tensor_t *t = e->c->actual;
    *out = (lines_t){.e = e, .step = 1};
    *is = false;
    if (axis < 0) axis += t->rank;
    if (!e->x || axis < 0 || axis >= t->rank || t->dims[axis] < 2) return VN_OK;
    for (int d = (int)axis + 1; d < t->rank; ++d) out->step *= t->dims[d];
    out->n = t->dims[axis];
    out->count = e->n / out->n;
    out->y2 = vn_alloc((size_t)e->n, sizeof *out->y2);
    out->room = vn_alloc((size_t)e->n, sizeof *out->room);
    *is = true;
    return out->y2 && out->room ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
}

static void lines_close(lines_t *l) {
    vn_free(l->y2);
    vn_free(l->room);
}

/* First wrong place of any line, counted from the other end if `reverse`; n: none. */
static int64_t first_wrong(const lines_t *l, bool reverse) {
    int64_t first = l->n;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        for (int64_t i = 0; i < first; ++i)
            if (l->e->wrong[base + (reverse ? l->n - 1 - i : i) * l->step]) first = i;
    }
    return first;
}

/* ---- cumulative sums ---- */

typedef struct scan {
    lines_t l;
    bool exclusive, reverse;
} scan_t;

static double scanned(const scan_t *s, int64_t base, int64_t i) { return s->l.e->y[base + (s->reverse ? s->l.n - 1 - i : i) * s->l.step]; }
/* Sum of all elements before place i of the scan. */
static double before(const scan_t *s, int64_t base, int64_t i) {
    return s->exclusive ? scanned(s, base, i) : i ? scanned(s, base, i - 1) : 0;
}

/* Blocks of `size`: each starts from zero (back 0), or from the total of the one block before it (back 1). */
static bool blocks(const scan_t *s, int64_t size, int back) {
    const lines_t *l = &s->l;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        for (int64_t i = 0; i < l->n; ++i) {
            const int64_t block = i / size - back, at = base + (s->reverse ? l->n - 1 - i : i) * l->step;
            l->y2[at] = l->e->y[at] - (block > 0 ? before(s, base, block * size) : 0);
        }
    }
    bool held;
    vn_explain_plane(
        l->e, l->y2, NULL, VN_BUG, "block-merge-missing", &held,
        back ? "The scan runs in blocks of %lld, and each starts from the total of the one block before it: earlier totals are lost."
             : "The scan runs in blocks of %lld, and the total of the blocks before is not carried into the next.",
        (long long)size);
    return held;
}

/* The difference is one number from place to place, and changes at multiples of one block size only: some totals are lost. */
static void steps_of(const scan_t *s) {
    const lines_t *l = &s->l;
    const vn_explain_t *e = l->e;
    int64_t size = 0, changes = 0;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        double d = 0, width = 0; /* of the current stretch: first difference and its room */
        for (int64_t i = 0; i < l->n; ++i) {
            const int64_t at = base + (s->reverse ? l->n - 1 - i : i) * l->step;
            const double room = vn_room(e->c->ref, at), here = e->y[at] - e->x[at];
            if (room < 0 || !isfinite(here) || isinf(room)) return;
            if (fabs(here - d) <= room + width) continue;
            int64_t a = size, b = i;
            while (b) {
                const int64_t c = a % b;
                a = b;
                b = c;
            }
            size = a;
            changes++;
            d = here;
            width = room;
        }
    }
    if (size < 2 || changes == 0 || changes * 4 > l->count * l->n) return;
    vn_explain_offer(
        l->e, VN_NAME_SOURCE, 1, VN_BUG, "block-merge-missing",
        "The error is one constant inside blocks of %lld places along the scan and changes only between them: totals of blocks are lost.",
        (long long)size);
}

static vn_status_t cumulative(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *axis = vn_variant_operand(v, 1);
    if (!vn_variant_is(v, "", "CumSum") || !axis || axis->count != 1) return VN_OK;
    scan_t s = {.exclusive = vn_node_int(v->node, "exclusive", 0) != 0, .reverse = vn_node_int(v->node, "reverse", 0) != 0};
    bool is;
    vn_status_t st = lines_open(v->e, vn_tensor_get_i64(axis, 0), &s.l, &is, err);
    if (st == VN_OK && is) {
        const int64_t first = first_wrong(&s.l, s.reverse);
        bool held = false;
        /* the first difference stands at the end of the first block; with one carried total, of the second; small totals may hide the first */
        const int64_t sizes[] = {first, first - first % 8, first - first % 32, first / 2};
        for (int k = 0; k < 4 && first < s.l.n && !held; ++k) {
            if (sizes[k] < 1 || (k && k < 3 && sizes[k] == sizes[k - 1])) continue;
            if (k < 3) held = blocks(&s, sizes[k], 0);
            if (!held && sizes[k] > 1) held = blocks(&s, sizes[k], 1);
        }
        if (!held) steps_of(&s);
    }
    lines_close(&s.l);
    return st;
}

/* ---- softmax ---- */

typedef struct soft {
    lines_t l;
    bool log;
    double *logit; /* of one line */
    const vn_tensor_t *in;
} soft_t;

/* Share i of the expected distribution. */
static double share(const soft_t *s, double y) { return s->log ? exp(y) : y; }

/* Element `at` of the variant whose shares are the expected ones times `factor`. */
static void scaled(const soft_t *s, int64_t at, double factor) {
    const lines_t *l = &s->l;
    const double y = l->e->y[at], room = vn_room(l->e->c->ref, at), u = 0x1p-53 * (double)(l->n + 8);
    if (s->log) {
        l->y2[at] = y + log(factor);
        l->room[at] =
            room < 0 ? room : room + u * (1 + fabs(l->y2[at])) + (room > 0 ? room / fmax(fabs(y), 1e-300) * fabs(log(factor)) : 0);
    } else {
        l->y2[at] = y * factor;
        l->room[at] = room < 0 ? room : fmax(room, room * factor) + u * fabs(l->y2[at]);
    }
}

static bool offer_soft(const soft_t *s, const char *cause, const char *words, int64_t figure) {
    bool held;
    vn_explain_plane(s->l.e, s->l.y2, s->l.room, VN_BUG, cause, &held, "The whole result comes out if %s (%lld).", words,
                     (long long)figure);
    return held;
}

static double line_sum(const soft_t *s, const double *plane, int64_t base, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; ++i) sum += share(s, plane[base + i * s->l.step]);
    return sum;
}

/* Each block divided by its own sum. */
static bool own_blocks(const soft_t *s, int64_t size) {
    const lines_t *l = &s->l;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        for (int64_t from = 0; from < l->n; from += size) {
            const int64_t to = from + size < l->n ? from + size : l->n;
            const double sum = line_sum(s, l->e->y, base, from, to);
            for (int64_t i = from; i < to; ++i) scaled(s, base + i * l->step, 1 / sum);
        }
    }
    return offer_soft(s, "block-merge-missing", "each block of the axis is divided by its own sum alone; length of a block", size);
}

/* All of a line divided by the sum of its first (or last) places alone. */
static bool part_of_sum(const soft_t *s, int64_t places, bool last) {
    const lines_t *l = &s->l;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        const double sum = last ? line_sum(s, l->e->y, base, l->n - places, l->n) : line_sum(s, l->e->y, base, 0, places);
        for (int64_t i = 0; i < l->n; ++i) scaled(s, base + i * l->step, 1 / sum);
    }
    return offer_soft(s, "block-merge-missing",
                      last ? "the divisor is the sum of the last places alone; their number"
                           : "the divisor is the sum of the first places alone; their number",
                      places);
}

static bool read_line(const soft_t *s, int64_t base, double *top) {
    *top = -INFINITY;
    for (int64_t i = 0; i < s->l.n; ++i) {
        s->logit[i] = vn_tensor_get_f64(s->in, base + i * s->l.step);
        if (!isfinite(s->logit[i])) return false;
        *top = fmax(*top, s->logit[i]);
    }
    return true;
}

/* `lanes` more terms exp(0) in every divisor. */
static bool zero_lanes(const soft_t *s, int64_t lanes) {
    const lines_t *l = &s->l;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        double top, sum = 0;
        if (!read_line(s, base, &top)) return false;
        for (int64_t i = 0; i < l->n; ++i) sum += exp(s->logit[i]);
        for (int64_t i = 0; i < l->n; ++i) scaled(s, base + i * l->step, isfinite(sum) ? sum / (sum + (double)lanes) : 1);
    }
    return offer_soft(s, "padding-leaks", "padding lanes of value 0 add to the divisor; their number", lanes);
}

/* A running maximum that grows without rescaling the sum that is there. */
static double unscaled_factor(const soft_t *s, int64_t size, double top) {
    double sum = 0, part = 0, running = -INFINITY;
    for (int64_t from = 0; from < s->l.n; from += size) {
        const int64_t to = from + size < s->l.n ? from + size : s->l.n;
        for (int64_t i = from; i < to; ++i) running = fmax(running, s->logit[i]);
        for (int64_t i = from; i < to; ++i) part += exp(s->logit[i] - running), sum += exp(s->logit[i] - top);
    }
    return sum / part;
}

static bool unscaled(const soft_t *s, int64_t size) {
    const lines_t *l = &s->l;
    for (int64_t k = 0; k < l->count; ++k) {
        const int64_t base = line_at(l, k);
        double top;
        if (!read_line(s, base, &top)) return false;
        const double factor = unscaled_factor(s, size, top);
        for (int64_t i = 0; i < l->n; ++i) scaled(s, base + i * l->step, factor);
    }
    return offer_soft(s, "block-merge-missing", "the sum is not rescaled when a later block has a larger maximum; length of a block", size);
}

enum { LONGEST = 4096 };

static vn_status_t ask_soft(soft_t *s) {
    const lines_t *l = &s->l;
    const vn_explain_t *e = l->e;
    /* the line that is furthest off tells most */
    int64_t best = -1;
    double ratio = 1;
    for (int64_t k = 0; k < l->count; ++k) {
        const double sum = line_sum(s, e->x, line_at(l, k), 0, l->n);
        if (!isfinite(sum) || !(sum > 0) || fabs(log(sum)) <= fabs(log(ratio))) continue;
        ratio = sum;
        best = k;
    }
    if (best < 0) return VN_OK;
    const int64_t base = line_at(l, best);
    if (ratio > 1.5 && ratio < (double)l->n) { /* as many ones as blocks */
        const int64_t many = (int64_t)llround(ratio), least = (l->n + many - 1) / many;
        for (int64_t size = least; size < l->n && (l->n + size - 1) / size == many; ++size)
            if (own_blocks(s, size)) return VN_OK;
    }
    if (ratio > 1) { /* terms of the divisor are missing */
        double first = 0, last = 0;
        for (int64_t i = 0; i + 1 < l->n; ++i) {
            first += share(s, e->y[base + i * l->step]);
            last += share(s, e->y[base + (l->n - 1 - i) * l->step]);
            const double room = vn_format_of(e->c->actual->dtype) ? 4 * vn_format_info(vn_format_of(e->c->actual->dtype))->u : 0;
            if (fabs(first * ratio - 1) <= room * sqrt((double)l->n) + room && part_of_sum(s, i + 1, false)) return VN_OK;
            if (fabs(last * ratio - 1) <= room * sqrt((double)l->n) + room && part_of_sum(s, i + 1, true)) return VN_OK;
        }
    }
    double top;
    if (!s->in || !read_line(s, base, &top)) return VN_OK;
    double sum = 0;
    for (int64_t i = 0; i < l->n; ++i) sum += exp(s->logit[i] - top);
    const double lanes = (1 / ratio - 1) * sum * exp(top);
    if (ratio < 1 && lanes > 0.5 && lanes < 1e6 && zero_lanes(s, llround(lanes))) return VN_OK;
    for (int64_t size = 1; size < l->n && vn_spent() < e->deadline; size = l->n <= LONGEST || size < 16 ? size + 1 : 2 * size) {
        if (!read_line(s, base, &top)) return VN_OK; /* unscaled() reads other lines */
        const double factor = unscaled_factor(s, size, top);
        if (fabs(factor / ratio - 1) < 0x1p-6 && unscaled(s, size)) return VN_OK;
    }
    return VN_OK;
}

static vn_status_t softmax(vn_variant_t *v, vn_error_t *err) {
    const bool log = vn_variant_is(v, "", "LogSoftmax");
    if (!v->e->c->q->node || (!log && !vn_variant_is(v, "", "Softmax")) || vn_variant_version(v) < 13) return VN_OK;
    soft_t s = {.log = log, .in = vn_variant_operand(v, 0)};
    bool is;
    vn_status_t st = lines_open(v->e, vn_node_int(v->node, "axis", -1), &s.l, &is, err);
    if (st == VN_OK && is) {
        s.logit = vn_alloc((size_t)s.l.n, sizeof *s.logit);
        st = s.logit ? ask_soft(&s) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    vn_free(s.logit);
    lines_close(&s.l);
    return st;
}

/* ---- maxima, minima and sums of exponentials: what a padding lane of zero does ---- */

static vn_status_t padded(vn_variant_t *v, vn_error_t *err) {
    static const struct {
        const char *op;
        int sense; /* 1: maximum, -1: minimum, 0: log of a sum of exponentials */
    } table[] = {{"ReduceMax", 1}, {"MaxPool", 1},    {"GlobalMaxPool", 1}, {"MaxRoiPool", 1},
                 {"Max", 1},       {"ReduceMin", -1}, {"Min", -1},          {"ReduceLogSumExp", 0}};
    vn_explain_t *e = v->e;
    int which = -1;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (vn_variant_is(v, "", table[i].op)) which = (int)i;
    if (which < 0 || !e->c->q->node || e->c->k != 0 || !e->x) return VN_OK;
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2), lanes = 0;
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
    int64_t touched = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        if (e->wrong[i] && lanes == 0) lanes = exp(e->x[i]) - exp(e->y[i]);
        touched += e->wrong[i];
    }
    lanes = isfinite(lanes) ? round(lanes) : 0;
    for (int64_t i = 0; i < e->n; ++i) {
        const double y = e->y[i];
        const int sense = table[which].sense;
        y2[i] = sense > 0 ? fmax(y, 0) : sense < 0 ? fmin(y, 0) : log(exp(y) + lanes);
        if (sense && !e->wrong[i]) y2[i] = e->x[i]; /* windows away from the padding are right */
    }
    if (table[which].sense || lanes >= 1) {
        if (table[which].sense)
            vn_explain_plane(e, y2, NULL, VN_BUG, "padding-leaks", NULL,
                             "Padding of value 0 takes part: %lld results of the other sign are 0.", (long long)touched);
        else
            vn_explain_plane(e, y2, NULL, VN_BUG, "padding-leaks", NULL,
                             "The whole result comes out with %.0f padding lanes of value 0, exp(0) each.", lanes);
    }
    vn_free(y2);
    return VN_OK;
}

/* ---- maxima and minima: which part of the line was looked at ---- */

/* Single reduced axis of the node; -1: another number of axes. */
static int64_t reduced_axis(vn_variant_t *v, int rank) {
    const vn_tensor_t *t = vn_variant_operand(v, 1);
    int64_t n = 0, axis;
    const int64_t *attr = vn_node_ints(v->node, "axes", &n);
    if (vn_variant_is(v, "", "ArgMax") || vn_variant_is(v, "", "ArgMin")) axis = vn_node_int(v->node, "axis", 0);
    else if (t && t->count == 1) axis = vn_tensor_get_i64(t, 0);
    else if (attr && n == 1) axis = attr[0];
    else return -1;
    return axis < 0 ? axis + rank : axis;
}

/* The roundest number from a to b: a multiple of the largest power of two. */
static int64_t roundest(int64_t a, int64_t b) {
    int64_t best = b;
    for (int64_t p = 1; p > 0 && p <= b; p *= 2)
        if (b / p * p >= a) best = b / p * p;
    return best;
}

/* Whether the first `limit` places (at_end: those from `limit` on) hold every result; then the part that was looked at is offered. */
static void looked_part(vn_explain_t *e, const double *a, int64_t axis, int64_t n, int64_t step, int at_end, int64_t limit, bool arg,
                        bool most) {
    int64_t need = at_end ? n : 0; /* places up to here (from here on) are needed */
    for (int64_t k = 0; k < e->n; ++k) {
        const int64_t base = k / step * step * n + k % step;
        const double x = e->x[k], got = arg ? a[base + (int64_t)x * step] : most ? x : -x;
        int64_t i = at_end ? n - 1 : 0;
        while (at_end ? i >= limit && a[base + i * step] != got : i < limit && a[base + i * step] != got) i += at_end ? -1 : 1;
        if (at_end ? i < limit : i >= limit) return;
        if (at_end ? i < need : i >= need) need = at_end ? i : i + 1;
    }
    if (at_end ? need > n - 2 : need < 2) return; /* one place for all lines: a constant, not a part */
    const int64_t cut = at_end ? roundest(limit, need) : roundest(need, limit), lost = at_end ? cut : n - cut;
    char cause[64];
    snprintf(cause, sizeof cause, at_end || lost * 2 >= n ? "block-merge-missing" : "k-tail-dropped:%lld", (long long)lost);
    vn_explain_offer(
        e, VN_NAME_VARIANT, 10, VN_BUG, cause,
        "Every result is the %s of places %lld to %lld alone; the %s of %lld along axis %lld were not looked at (a cut from %lld to %lld "
        "fits too).",
        most ? "largest" : "smallest", (long long)(at_end ? cut : 0), (long long)(at_end ? n - 1 : cut - 1), at_end ? "first" : "last",
        (long long)n, (long long)axis, (long long)(at_end ? limit : need), (long long)(at_end ? need : limit));
}

static vn_status_t looked_at(vn_variant_t *v, vn_error_t *err) {
    vn_explain_t *e = v->e;
    const bool arg = vn_variant_is(v, "", "ArgMax") || vn_variant_is(v, "", "ArgMin"),
               most = vn_variant_is(v, "", "ReduceMax") || vn_variant_is(v, "", "ArgMax");
    if ((!arg && !most && !vn_variant_is(v, "", "ReduceMin")) || !e->c->q->node || !e->x) return VN_OK;
    const vn_tensor_t *in = vn_variant_operand(v, 0);
    const int64_t axis = in ? reduced_axis(v, in->rank) : -1;
    if (axis < 0 || axis >= in->rank || in->dims[axis] < 2 || in->count / in->dims[axis] != e->n) return VN_OK;
    int64_t step = 1;
    const int64_t n = in->dims[axis];
    for (int d = (int)axis + 1; d < in->rank; ++d) step *= in->dims[d];
    double *a = vn_alloc((size_t)in->count, sizeof *a);
    if (!a) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)in->count);
    vn_tensor_to_f64(in, a);
    for (int64_t i = 0; !most && i < in->count; ++i) a[i] = -a[i];
    int64_t lowest = n, highest = -1; /* places that cannot have been looked at, over all lines */
    bool fits = true;
    for (int64_t k = 0; k < e->n && fits; ++k) {
        const int64_t base = k / step * step * n + k % step;
        const double x = e->x[k], got = arg ? (x >= 0 && x < (double)n ? a[base + (int64_t)x * step] : NAN) : most ? x : -x;
        fits = !isnan(got);
        for (int64_t i = 0; i < n; ++i) {
            if (!(a[base + i * step] > got)) continue;
            if (i < lowest) lowest = i;
            if (i > highest) highest = i;
        }
    }
    for (int end = 0; end < 2 && fits && highest >= 0; ++end) looked_part(e, a, axis, n, step, end, end ? highest + 1 : lowest, arg, most);
    vn_free(a);
    return VN_OK;
}

static vn_status_t scans(vn_variant_t *v, vn_error_t *err) {
    if (!v->e->c->q->node) return VN_OK; /* lines belong to the output of this node */
    VN_TRY(cumulative(v, err));
    VN_TRY(softmax(v, err));
    VN_TRY(padded(v, err));
    return looked_at(v, err);
}

vn_status_t vn_name_scan(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, scans, err); }
