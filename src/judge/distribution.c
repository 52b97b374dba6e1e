/* distribution.c -- random outputs: bits cannot be judged; range, admissible values and the distribution of the draws can.
 *
 * Every test below has an error probability that holds for the given number of draws, not in a limit; the question's alpha is divided by the
 * number of tests, so that a generator of the stated law and independent draws fails with probability at most alpha. L = ln(2 / alpha of
 * the test). What a draw may have lost by rounding to its type, or by a generator of 23 bits (or of the type's own), is given as slack.
 * Claim DRAW-1 (continuous laws): P(sup |F_n - F| >= sqrt(L / 2n)) <= alpha (Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant).
 * Claim DRAW-2 (moments): z = (x - mean)/scale: |sum z| <= sqrt(2 n L) and n - 2 sqrt(n L) <= sum z^2 <= n + 2 sqrt(n L) + 2 L (Laurent and
 *   Massart 2000, lemma 1). Uniform v = F - 1/2: |sum v| <= sqrt(n L / 6) (strictly sub-Gaussian with variance 1/12),
 *   |sum (v^2 - 1/12)| <= sqrt(n L / 32) (Hoeffding, range 1/4).
 * Claim DRAW-3 (independence): for a lag l the products v_i v_(i+l) are differences of a martingale, sub-Gaussian with proxy v_i^2 / 12 <= 1/48:
 *   |sum| <= sqrt(n L / 24). Lags: 1, the length of each row, plane ..., and half of all.
 * Claim DRAW-4 (discrete laws): sums of centred indicators by Bernstein, |S| <= M L/3 + sqrt((M L/3)^2 + 2 V L) with variance V and largest
 *   term M; lagged products by Freedman, with the conditional variances at their largest. Bernoulli: the sum, and the sum weighted
 *   with p_i - mean p. Choice: each class over all rows, and in each row. Values of probability 0 may not occur at all.
 * Claim DRAW-5 (dropout): each element is zero or the scaled operand; the pattern is tested as Bernoulli and must be that of the mask.
 * Power: faults (constant, shifted, scaled, another law, repeated) are put into the draws and tested again; none caught: uninformative.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"

enum { MAX_LAGS = VN_MAX_RANK + 2 };

/* The draws of one output, and the worst of the tests on them. */
typedef struct draws {
    const vn_law_t *law;
    int64_t n;
    double *x;     /* the draws; dropout: 1 kept, 0 dropped */
    double *p;     /* probabilities of 1, discrete laws with two values */
    double *v;     /* scratch: centred */
    double *slack; /* scratch: what v may be off */
    double *sorted;
    int64_t lag[MAX_LAGS], row; /* row: draws per row of weights (choice) */
    int n_lags;
    vn_format_t format;
    double alpha; /* of one test */
    double worst; /* largest statistic over its limit */
    char what[120];
} draws_t;

static double log_of(const draws_t *d) { return log(2 / d->alpha); }

static void verdict_of(draws_t *d, const char *what, double statistic, double slack, double limit) {
    const double ratio = fmax(fabs(statistic) - slack, 0) / limit;
    if (!(ratio > d->worst)) return;
    d->worst = ratio;
    snprintf(d->what, sizeof d->what, "%s %.4g, limit %.4g", what, statistic, limit + slack);
}

static double bernstein(double variance, double largest, double l) {
    const double a = largest * l / 3;
    return a + sqrt(a * a + 2 * variance * l);
}

/* ---- continuous laws ---- */

static double cdf(const vn_law_t *law, double x) {
    if (law->kind == VN_LAW_UNIFORM) return fmin(fmax((x - law->a) / (law->b - law->a), 0), 1);
    return 0.5 * erfc(-(x - law->a) / law->b * 0.70710678118654752440);
}

/* Half a spacing of the type around x, and the grid of a generator with 23 bits or with those of the type. */
static double coarse(const draws_t *d, double x) {
    const vn_law_t *w = d->law;
    const vn_format_info_t *f = vn_format_info(d->format);
    const double width = w->kind == VN_LAW_UNIFORM ? fabs(w->b - w->a) : fabs(w->b);
    return vn_ulp(d->format, x) / 2 + width * fmax(0x1p-22, 2 * f->u);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_cdf(draws_t *d) {
    double over = 0;
    memcpy(d->sorted, d->x, (size_t)d->n * sizeof *d->x);
    qsort(d->sorted, (size_t)d->n, sizeof *d->sorted, ascending);
    for (int64_t i = 0; i < d->n; ++i) {
        const double x = d->sorted[i], h = coarse(d, x);
        over = fmax(over, (double)(i + 1) / (double)d->n - cdf(d->law, x + h));
        over = fmax(over, cdf(d->law, x - h) - (double)i / (double)d->n);
    }
    verdict_of(d, "largest distance of the distribution functions", over, 0, sqrt(log_of(d) / (2 * (double)d->n)));
}

static void test_normal_moments(draws_t *d) {
    const double n = (double)d->n, l = log_of(d);
    double sum = 0, squares = 0, slack = 0, slack2 = 0;
    for (int64_t i = 0; i < d->n; ++i) {
        const double z = (d->x[i] - d->law->a) / d->law->b, h = coarse(d, d->x[i]) / fabs(d->law->b);
        sum += z;
        squares += z * z;
        slack += h;
        slack2 += (2 * fabs(z) + h) * h;
    }
    verdict_of(d, "mean in deviations x draws", sum, slack, sqrt(2 * n * l));
    const double off = squares - n;
    verdict_of(d, "sum of squares less its mean", off, slack2, off > 0 ? 2 * sqrt(n * l) + 2 * l : 2 * sqrt(n * l));
}

static void test_uniform_moments(draws_t *d) {
    const double n = (double)d->n, l = log_of(d);
    double sum = 0, squares = 0, slack = 0;
    for (int64_t i = 0; i < d->n; ++i) {
        sum += d->v[i];
        squares += d->v[i] * d->v[i] - 1.0 / 12;
        slack += d->slack[i];
    }
    verdict_of(d, "mean in widths x draws", sum, slack, sqrt(n * l / 6));
    verdict_of(d, "sum of squares less its mean", squares, slack, sqrt(n * l / 32));
}

static double lagged(const draws_t *d, int64_t lag, double *slack) {
    double sum = 0;
    *slack = 0;
    for (int64_t i = 0; i + lag < d->n; ++i) {
        sum += d->v[i] * d->v[i + lag];
        *slack += d->slack[i] + d->slack[i + lag];
    }
    return sum;
}

static void test_continuous(draws_t *d) {
    for (int64_t i = 0; i < d->n; ++i) {
        const double h = coarse(d, d->x[i]);
        d->v[i] = cdf(d->law, d->x[i]) - 0.5;
        d->slack[i] = fmax(cdf(d->law, d->x[i] + h) - cdf(d->law, d->x[i]), cdf(d->law, d->x[i]) - cdf(d->law, d->x[i] - h));
    }
    test_cdf(d);
    if (d->law->kind == VN_LAW_NORMAL) test_normal_moments(d);
    else test_uniform_moments(d);
    for (int k = 0; k < d->n_lags; ++k) {
        double slack;
        const double sum = lagged(d, d->lag[k], &slack);
        char what[80];
        snprintf(what, sizeof what, "correlation at lag %lld", (long long)d->lag[k]);
        verdict_of(d, what, sum, slack, sqrt((double)(d->n - d->lag[k]) * log_of(d) / 24));
    }
}

/* ---- discrete laws ---- */

/* v: centred draws; slack: their variances. */
static void test_discrete_lags(draws_t *d) {
    for (int k = 0; k < d->n_lags; ++k) {
        const int64_t lag = d->lag[k];
        double sum = 0, variance = 0;
        for (int64_t i = 0; i + lag < d->n; ++i) {
            sum += d->v[i] * d->v[i + lag];
            variance += d->slack[i + lag];
        }
        char what[80];
        snprintf(what, sizeof what, "correlation at lag %lld", (long long)lag);
        verdict_of(d, what, sum, 0, bernstein(variance, 1, log_of(d)));
    }
}

static void test_bernoulli(draws_t *d) {
    const double l = log_of(d), grid = (double)d->n * (d->format == VN_FMT_NONE ? 0x1p-22 : fmax(0x1p-22, vn_format_info(d->format)->u));
    double sum = 0, variance = 0, mean = 0, sloped = 0, variance2 = 0, largest = 0;
    for (int64_t i = 0; i < d->n; ++i) mean += d->p[i] / (double)d->n;
    for (int64_t i = 0; i < d->n; ++i) {
        const double q = d->p[i] * (1 - d->p[i]), w = d->p[i] - mean;
        d->v[i] = d->x[i] - d->p[i];
        d->slack[i] = q;
        sum += d->v[i];
        variance += q;
        sloped += d->v[i] * w;
        variance2 += q * w * w;
        largest = fmax(largest, fabs(w));
    }
    verdict_of(d, "ones beyond the expected number", sum, grid, bernstein(variance, 1, l));
    if (largest > 0x1p-20) verdict_of(d, "ones following their probabilities", sloped, grid, bernstein(variance2, largest, l));
    test_discrete_lags(d);
}

static void test_choice(draws_t *d) {
    const int64_t classes = d->law->classes, rows = d->row ? d->n / d->row : 0;
    const double l = log(2 * (double)(classes * (rows + 1)) / d->alpha); /* each class, in each row and over all */
    for (int64_t c = 0; c < classes; ++c) {
        double total = 0, variance = 0;
        for (int64_t r = 0; r < rows; ++r) {
            const double p = d->law->weight[r * classes + c], n = (double)d->row;
            double count = 0;
            for (int64_t i = 0; i < d->row; ++i) count += d->x[r * d->row + i] == (double)c;
            total += count - n * p;
            variance += n * p * (1 - p);
            char what[80];
            snprintf(what, sizeof what, "class %lld in row %lld beyond its number", (long long)c, (long long)r);
            verdict_of(d, what, count - n * p, n * 0x1p-20, bernstein(n * p * (1 - p), 1, l));
        }
        char what[80];
        snprintf(what, sizeof what, "class %lld beyond its number", (long long)c);
        verdict_of(d, what, total, (double)d->n * 0x1p-20, bernstein(variance, 1, l));
    }
    for (int64_t i = 0; d->row > 0 && i < d->n; ++i) { /* centred class number, within [-1, 1] */
        const double *p = d->law->weight + i / d->row * classes;
        double mean = 0, square = 0;
        for (int64_t c = 0; c < classes; ++c) {
            mean += p[c] * (double)c;
            square += p[c] * (double)c * (double)c;
        }
        d->v[i] = (d->x[i] - mean) / (double)classes;
        d->slack[i] = fmax(square - mean * mean, 0) / (double)(classes * classes);
    }
    test_discrete_lags(d);
}

static void run_tests(draws_t *d) {
    d->worst = 0;
    d->what[0] = '\0';
    switch (d->law->kind) {
    case VN_LAW_NORMAL:
    case VN_LAW_UNIFORM: test_continuous(d); break;
    case VN_LAW_BERNOULLI:
    case VN_LAW_DROPOUT: test_bernoulli(d); break;
    case VN_LAW_CHOICE: test_choice(d); break;
    case VN_LAW_NONE: break;
    }
}

static void find_lags(draws_t *d, const vn_ref_t *r) {
    int64_t step = 1;
    d->n_lags = 0;
    d->lag[d->n_lags++] = 1;
    for (int k = r->rank - 1; k > 0; --k) {
        step *= r->dims[k];
        if (step > d->lag[d->n_lags - 1] && step < d->n) d->lag[d->n_lags++] = step;
    }
    const int64_t half = (d->n + 1) / 2;
    bool there = false;
    for (int k = 0; k < d->n_lags; ++k) there |= d->lag[k] == half;
    if (!there && half < d->n) d->lag[d->n_lags++] = half;
}

/* ---- power: what these tests would have caught in this many draws ---- */

enum { FAULT_CONSTANT, FAULT_SHIFTED, FAULT_SCALED, FAULT_OTHER_LAW, FAULT_REPEATED, FAULTS };

static double faulty_continuous(const draws_t *d, const double *x, int64_t i, int fault) {
    const vn_law_t *w = d->law;
    const bool normal = w->kind == VN_LAW_NORMAL;
    const double centre = normal ? w->a : (w->a + w->b) / 2, sigma = normal ? w->b : (w->b - w->a) * 0.28867513459481287;
    switch (fault) {
    case FAULT_CONSTANT: return x[0];
    case FAULT_SHIFTED: return x[i] + sigma;
    case FAULT_SCALED: return centre + 2 * (x[i] - centre);
    case FAULT_OTHER_LAW:
        return normal ? centre + (cdf(w, x[i]) - 0.5) * 3.4641016151377544 * sigma : centre + (x[i] - centre) * fabs(x[i] - centre) / sigma;
    default: return x[i % ((d->n + 1) / 2)];
    }
}

static double faulty_discrete(const draws_t *d, const double *x, int64_t i, int fault) {
    const double last = d->law->kind == VN_LAW_CHOICE ? (double)(d->law->classes - 1) : 1;
    switch (fault) {
    case FAULT_CONSTANT: return x[0];
    case FAULT_SHIFTED: return x[i] == last ? 0 : x[i] + 1;
    case FAULT_SCALED: return 0;
    case FAULT_OTHER_LAW: return last;
    default: return x[i % ((d->n + 1) / 2)];
    }
}

/* More draws only catch more: the power is asked of the first 2^16. */
static vn_status_t power(draws_t *d, const vn_ref_t *r, vn_finding_t *f, vn_error_t *err) {
    const int64_t all = d->n;
    const bool continuous = d->law->kind == VN_LAW_NORMAL || d->law->kind == VN_LAW_UNIFORM;
    double *kept = d->x, *wrong = vn_alloc((size_t)d->n, sizeof *wrong);
    if (!wrong) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld draws", (long long)d->n);
    if (d->n > 1 << 16) d->n = 1 << 16;
    if (d->law->kind == VN_LAW_CHOICE) d->n = d->n < d->row ? d->row : d->n / d->row * d->row; /* whole rows */
    find_lags(d, r);
    f->detection_of = FAULTS;
    f->detection_caught = 0;
    for (int fault = 0; fault < FAULTS; ++fault) {
        for (int64_t i = 0; i < d->n; ++i)
            wrong[i] = continuous ? faulty_continuous(d, kept, i, fault) : faulty_discrete(d, kept, i, fault);
        d->x = wrong;
        run_tests(d);
        f->detection_caught += d->worst > 1;
    }
    d->x = kept;
    d->n = all;
    vn_free(wrong);
    return VN_OK;
}

/* ---- values that no draw can have ---- */

static void VN_PRINTF(4, 5) impossible(vn_case_t *c, int64_t i, const char *cause, const char *fmt, ...) {
    char where[160], text[200];
    c->f->verdict = VN_BUG;
    c->f->outside++;
    if (c->f->outside > 1) return;
    vn_index_text(c->actual, i, where, sizeof where);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(c->f->cause, sizeof c->f->cause, "%s", cause);
    snprintf(c->f->words, sizeof c->f->words, "element %s is %.9g, %s", where, vn_tensor_get_f64(c->actual, i), text);
    vn_set_divergence(c->ref, c->actual, i, &c->f->first);
    c->f->first.expected = NAN; /* one draw of the oracle's says nothing about another */
}

static void check_values(vn_case_t *c, const double *x) {
    const vn_ref_t *r = c->ref;
    const vn_law_t *law = &r->law;
    const int64_t row = law->kind == VN_LAW_CHOICE && r->rank == 2 ? r->dims[1] : 1;
    for (int64_t i = 0; i < r->count; ++i) {
        const bool two = law->kind == VN_LAW_BERNOULLI;
        const double p = !two ? 0.5 : law->weight ? law->weight[i] : law->a;
        if (!(x[i] >= r->range_lo && x[i] <= r->range_hi)) impossible(c, i, "", "outside [%.9g, %.9g]", r->range_lo, r->range_hi);
        else if (two && x[i] != 0 && x[i] != 1) impossible(c, i, "", "neither 0 nor 1");
        else if (two && ((p == 0 && x[i] == 1) || (p == 1 && x[i] == 0)))
            impossible(c, i, "distribution", "which has probability 0 (p = %g)", p);
        else if (law->kind == VN_LAW_CHOICE && law->weight[i / row * law->classes + (int64_t)x[i]] == 0)
            impossible(c, i, "distribution", "a class of probability 0 in its row of %lld classes", (long long)law->classes);
    }
}

/* ---- dropout ---- */

/* Zero or the scaled operand; the pattern of those that tell the two apart goes to d. */
static void dropout(vn_case_t *c, draws_t *d, const double *y) {
    const vn_law_t *law = &c->ref->law;
    const vn_question_t *q = c->q;
    const vn_value_t *other = q->n_outputs > c->k + 1 ? q->actual[c->k + 1] : NULL;
    const vn_tensor_t *mask = other && other->kind == VN_VALUE_TENSOR && other->tensor->count == c->ref->count ? other->tensor : NULL;
    d->n = 0;
    for (int64_t i = 0; i < c->ref->count; ++i) {
        const double w = law->weight[i], room = law->b * fabs(w) + law->c;
        if (!isfinite(w) || !(fabs(w) > 2 * room)) continue; /* both look alike */
        const bool kept = fabs(y[i] - w) <= room, dropped = y[i] == 0;
        if (!kept && !dropped) impossible(c, i, "", "neither 0 nor the scaled operand %.9g", w);
        else if (mask && (vn_tensor_get_i64(mask, i) != 0) != kept)
            impossible(c, i, "dropout-mask", "and the mask says %s", kept ? "dropped" : "kept");
        d->p[d->n] = law->a;
        d->x[d->n++] = kept;
    }
}

/* ---- the whole ---- */

static bool testable(const vn_law_t *law) {
    switch (law->kind) {
    case VN_LAW_NORMAL: return law->b > 0 && isfinite(law->a) && isfinite(law->b);
    case VN_LAW_UNIFORM: return law->b > law->a && isfinite(law->b - law->a);
    case VN_LAW_BERNOULLI:
    case VN_LAW_CHOICE:
    case VN_LAW_DROPOUT: return true;
    case VN_LAW_NONE: return false;
    }
    return false;
}

static void finish(vn_case_t *c, const draws_t *d, double worst, const char *what) {
    vn_finding_t *f = c->f;
    vn_rung(f, "distribution %s, %.3g of the limit", worst > 1 ? "rejected" : "kept", worst);
    if (worst > 1) {
        f->verdict = VN_BUG;
        snprintf(f->cause, sizeof f->cause, "distribution");
        snprintf(f->words, sizeof f->words, "The draws do not follow the operator's distribution: %s (error probability %.1g).", what,
                 c->q->alpha);
    } else if (f->detection_caught == 0) {
        f->verdict = VN_UNINFORMATIVE;
        snprintf(f->note, sizeof f->note, "random operator: type, shape and range agree; %lld draws are too few to test a distribution",
                 (long long)d->n);
    } else {
        f->verdict = VN_EXPLAINED;
        snprintf(f->note, sizeof f->note, "random operator: the distribution was tested, bits cannot be judged");
    }
}

static vn_status_t test(vn_case_t *c, draws_t *d, vn_error_t *err) {
    vn_finding_t *f = c->f;
    const vn_law_t *law = &c->ref->law;
    check_values(c, d->x);
    if (law->kind == VN_LAW_BERNOULLI)
        for (int64_t i = 0; i < d->n; ++i) d->p[i] = law->weight ? law->weight[i] : law->a;
    if (law->kind == VN_LAW_DROPOUT && f->verdict != VN_BUG) dropout(c, d, d->v);
    vn_rung(f, "values %s", f->verdict == VN_BUG ? "impossible" : "possible");
    if (f->verdict == VN_BUG) return VN_OK;
    for (int64_t i = 0; law->kind == VN_LAW_BERNOULLI && i < d->n; ++i)
        if (!(d->p[i] >= 0 && d->p[i] <= 1)) d->n = 0; /* no probabilities: the operator's text asks for [0, 1] */
    if (!testable(law) || d->n < 2) {
        finish(c, d, 0, "");
        return VN_OK;
    }
    find_lags(d, c->ref);
    d->alpha = c->q->alpha / (3 + d->n_lags);
    run_tests(d);
    const double worst = d->worst;
    char what[sizeof d->what];
    memcpy(what, d->what, sizeof what);
    VN_TRY(power(d, c->ref, f, err));
    finish(c, d, worst, what);
    return VN_OK;
}

static vn_status_t judge_law(vn_case_t *c, vn_error_t *err) {
    const vn_ref_t *r = c->ref;
    const size_t n = (size_t)(r->count ? r->count : 1);
    draws_t d = {.law = &r->law, .n = r->count, .format = vn_format_of(r->dtype), .row = r->rank == 2 ? r->dims[1] : r->count};
    c->f->count = r->count;
    c->f->verdict = VN_NOT_RUN;
    double *room = NULL;
    size_t all;
    if (vn_size_mul(n, 5, &all)) room = vn_alloc(all, sizeof *room);
    if (!room) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld draws", (long long)r->count);
    d.x = room;
    d.p = room + n;
    d.v = room + 2 * n;
    d.slack = room + 3 * n;
    d.sorted = room + 4 * n;
    vn_tensor_to_f64(c->actual, d.x);
    memcpy(d.v, d.x, (size_t)r->count * sizeof *d.x); /* dropout overwrites x with its pattern */
    const vn_status_t s = test(c, &d, err);
    vn_free(room);
    return s;
}

/* The text of Bernoulli draws 1 with probability p, the function body that the standard gives with it draws 1 where a uniform number is
 * greater than p: with probability 1 - p. Draws that follow the body throughout are another reading. */
static vn_status_t complementary(vn_case_t *c, vn_error_t *err) {
    const vn_finding_t first = *c->f;
    vn_ref_t other = *c->ref;
    vn_case_t again = *c;
    other.law.weight = vn_alloc((size_t)(other.law.n_weights ? other.law.n_weights : 1), sizeof(double));
    if (!other.law.weight) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld weights", (long long)other.law.n_weights);
    for (int64_t i = 0; i < other.law.n_weights; ++i) other.law.weight[i] = 1 - c->ref->law.weight[i];
    again.ref = &other;
    c->f->outside = 0;
    c->f->cause[0] = c->f->words[0] = '\0';
    c->f->first = (vn_divergence_t){.index = -1, .expected = NAN, .actual = NAN};
    const vn_status_t s = judge_law(&again, err);
    if (c->f->verdict == VN_EXPLAINED) {
        c->f->verdict = VN_SPEC_OPEN;
        snprintf(c->f->note, sizeof c->f->note, "ones-with-probability-1-p");
        snprintf(c->f->words, sizeof c->f->words,
                 "The draws are 1 with probability 1 - p, as the standard's own function body has it against its text.");
    } else {
        *c->f = first;
    }
    vn_free(other.law.weight);
    return s;
}

vn_status_t vn_judge_draw(vn_case_t *c, vn_error_t *err) {
    VN_TRY(judge_law(c, err));
    const bool two_readings = c->ref->law.kind == VN_LAW_BERNOULLI && c->ref->law.weight != NULL;
    return two_readings && c->f->verdict == VN_BUG ? complementary(c, err) : VN_OK;
}
