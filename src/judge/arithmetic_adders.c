/* arithmetic_adders.c -- sums of the same terms by other adders: partial sums kept in 16 bits, adders that cut. A sample of elements is summed again.
 *
 * Claim ARITH-6 (split-K): the terms fall into s slices of equal length; each slice's sum is rounded to bf16 or f16, and so is each sum of them
 * (or only the slices are). Carried out for s = 2 .. 64, two ways to cut a remainder and four ways to combine; where the order of combination is not among them, the
 * variance sum ulp(p)^2/12 over slices and their running sums is asked instead.
 * Claim ARITH-7 (cut): adders that round to zero, one term at a time or L aligned terms at once with F fraction bits below the largest
 * (bounds.md, truncating fused adder), are carried out in the orders of the table; where none gives the bits, the error must follow the
 * shrinkage sum ulp(s_v)/2 sign(s_v) of the running sums, all of it toward zero.
 * Elements outside the sample keep the sound bound of the arithmetic: 2 s u_p T, or twice the contract's own (u -> 2u), with T from the contract's bound.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

enum {
    SAMPLE = 96,
    MAX_TERMS = 1 << 18,
    ALL_TERMS = 1 << 21,
    MAX_SLICES = 64,
    LEAST_SLICE = 4 /* shorter ones are the running sum itself */
};

/* Terms of a sample of elements, and their places. */
typedef struct sample {
    int64_t count, terms; /* elements; terms of the longest */
    int64_t at[SAMPLE], n[SAMPLE];
    double *t[SAMPLE];
    bool bias;      /* the last term is a bias: the epilogue adds it to the sum of the others */
    double divisor; /* 0: none, else the sum is divided by its number of terms */
    double *pool;
} sample_t;

static void sample_free(sample_t *s) {
    vn_free(s->pool);
    *s = (sample_t){0};
}

static vn_status_t sample_of(const vn_arith_t *a, sample_t *s, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    *s = (sample_t){0};
    if (!q->node || !a->c->ref->value) return VN_OK;
    vn_terms_t *terms;
    vn_error_t why;
    const vn_status_t opened = vn_terms_open(q->model, q->node, q->inputs, q->contract, &terms, &why);
    if (opened != VN_OK) return opened == VN_ERR_NOMEM ? vn_fail(err, opened, "no memory") : VN_OK;
    if (vn_terms_after(terms) != VN_AFTER_FACTOR) { /* the sum itself does not show */
        vn_terms_close(terms);
        return VN_OK;
    }
    s->divisor = vn_arith_is(a, "ReduceMean") || vn_arith_is(a, "GlobalAveragePool");
    s->bias = (vn_arith_is(a, "Gemm") || vn_arith_is(a, "Conv")) && vn_arith_operand(a, 2);
    s->pool = vn_alloc(ALL_TERMS, sizeof *s->pool);
    vn_status_t st = s->pool ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    int64_t used = 0;
    for (int64_t k = 0; k < SAMPLE && st == VN_OK; ++k) {
        const int64_t i = a->n <= SAMPLE ? k : (int64_t)((double)k * (double)a->n / SAMPLE);
        int64_t n;
        if (i >= a->n) break;
        if (!isfinite(a->x[i]) || !isfinite(a->c->ref->value[i])) continue;
        const int64_t room = ALL_TERMS - used < MAX_TERMS ? ALL_TERMS - used : MAX_TERMS;
        if (vn_terms_get(terms, a->c->k, i, s->pool + used, room, &n, &why) != VN_OK || n > room) break;
        s->at[s->count] = i;
        s->n[s->count] = n;
        s->t[s->count++] = s->pool + used;
        used += n;
        if (n > s->terms) s->terms = n;
    }
    vn_terms_close(terms);
    if (st != VN_OK || s->count == 0) sample_free(s);
    return st;
}

/* What is stored of a sum. */
static double stored(const vn_arith_t *a, const sample_t *s, int64_t k, double sum) {
    if (s->divisor) sum = (double)(float)(sum / (double)s->n[k]);
    return vn_round_to(vn_format_of(a->c->actual->dtype), sum, VN_RNE, false);
}

static double h0_of(const vn_arith_t *a, const sample_t *s) {
    const vn_ref_t *r = a->c->ref;
    double sum = 0;
    for (int64_t k = 0; k < s->count; ++k) {
        const int64_t i = s->at[k];
        sum += vn_arith_log_mass(vn_format_of(r->dtype), a->x[i], r->value[i], r->var ? r->var[i] : 0);
    }
    return sum;
}

/* Every element keeps |x - y| <= factor E + add per unit of T, with T from the contract's bound E = n u T. */
static bool all_inside(const vn_arith_t *a, const sample_t *s, double factor, double per_t) {
    const vn_ref_t *r = a->c->ref;
    const double u = vn_format_info(vn_contract_resolve(a->c->q->contract, r->dtype).accumulator)->u;
    const vn_format_info_t *o = vn_format_info(vn_format_of(r->dtype));
    if (a->c->m.classes) return false; /* a NaN or an infinity that no sum gives */
    for (int64_t i = 0; i < a->n; ++i) {
        const double e = vn_arith_unstored(a, i), t = e / (u * (double)(s->terms > 1 ? s->terms - 1 : 1));
        if (!isfinite(a->x[i]) || !isfinite(r->value[i])) continue;
        if (!(fabs(a->x[i] - r->value[i]) <= factor * e + per_t * t + 2 * o->u * (fabs(r->value[i]) + e) + o->eta)) return false;
    }
    return true;
}

/* ---- partial sums in 16 bits ---- */

typedef enum combine { RUNNING, PAIRS, WIDE, BLOCKED, COMBINES } combine_t;
static const char *const combine_words[COMBINES] = {"added one after the other in the same format", "added in pairs in the same format",
                                                    "added in f32", "running sum of slices in that format"};

static double pairs(vn_format_t f, const double *p, int n) {
    if (n == 1) return p[0];
    const int half = (n + 1) / 2;
    return vn_round_to(f, pairs(f, p, half) + pairs(f, p + half, n - half), VN_RNE, false);
}

static double combined(vn_format_t f, combine_t how, double *p, int n) {
    double sum = 0;
    if (how != BLOCKED)
        for (int k = 0; k < n; ++k) p[k] = vn_round_to(f, p[k], VN_RNE, false);
    if (how == PAIRS) return pairs(f, p, n);
    for (int k = 0; k < n; ++k) sum = how == WIDE ? (double)(float)(sum + p[k]) : vn_round_to(f, sum + p[k], VN_RNE, false);
    return sum;
}

/* Sums of the slices of element k: by rounded-up length, or remainders spread over the first slices. */
static void slices(const double *prefix, int64_t n, int count, bool spread, double *p) {
    const int64_t up = (n + count - 1) / count, down = n / count, rest = n % count;
    int64_t begin = 0;
    for (int c = 0; c < count; ++c) {
        int64_t end = spread ? begin + down + (c < rest) : begin + up;
        if (end > n) end = n;
        p[c] = (double)(float)(prefix[end] - prefix[begin]);
        begin = end;
    }
}

typedef struct choice {
    vn_format_t format;
    combine_t how;
    int slices;
    bool spread;
    int64_t equal;
    double log_l;
} choice_t;

static vn_status_t prefixes(const sample_t *s, double **out, vn_error_t *err) {
    double *p = vn_alloc((size_t)s->count * (size_t)(s->terms + 1), sizeof *p);
    if (!p) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t k = 0; k < s->count; ++k) {
        double *row = p + k * (s->terms + 1), lost = 0;
        for (int64_t t = 0; t < s->n[k]; ++t) {
            const double sum = row[t] + s->t[k][t], z = sum - row[t];
            lost += (row[t] - (sum - z)) + (s->t[k][t] - z);
            row[t + 1] = sum;
        }
        for (int64_t t = 1; t <= s->n[k]; ++t)
            row[t] += lost * (double)t / (double)s->n[k]; /* what was lost is far below every partial's own rounding */
    }
    *out = p;
    return VN_OK;
}

static choice_t carried_out(const vn_arith_t *a, const sample_t *s, const double *prefix, int *tried) {
    static const vn_format_t formats[] = {VN_FMT_BF16, VN_FMT_F16};
    const vn_format_t out = vn_format_of(a->c->actual->dtype);
    choice_t best = {.log_l = -INFINITY};
    for (size_t f = 0; f < 2; ++f)
        for (int count = 2; count <= MAX_SLICES && count * LEAST_SLICE <= s->terms; ++count)
            for (int spread = 0; spread < ((s->terms - s->bias) % count ? 2 : 1); ++spread)
                for (int how = 0; how < COMBINES; ++how) {
                    choice_t now = {.format = formats[f], .how = (combine_t)how, .slices = count, .spread = spread != 0};
                    ++*tried;
                    for (int64_t k = 0; k < s->count; ++k) {
                        double p[MAX_SLICES];
                        const int64_t n = s->n[k] - s->bias;
                        slices(prefix + k * (s->terms + 1), n, count, spread != 0, p);
                        const double sum = combined(formats[f], (combine_t)how, p, count) + (s->bias ? s->t[k][n] : 0), x = a->x[s->at[k]],
                                     y = stored(a, s, k, (double)(float)sum), ulp = isfinite(y) ? vn_ulp(out, y) : 0;
                        now.equal += x == y;
                        now.log_l += isfinite(y) ? vn_arith_log_mass(out, x, y, ulp * ulp / 16) : -100;
                        if (k == 7 && now.equal == 0) { /* not this one */
                            now.log_l = -INFINITY;
                            break;
                        }
                    }
                    if (now.log_l > best.log_l) best = now;
                }
    return best;
}

/* The order of combination is unknown: variance of roundings of the slices and of their running sums. */
static choice_t modelled(const vn_arith_t *a, const sample_t *s, const double *prefix, int *tried, double *rms) {
    static const vn_format_t formats[] = {VN_FMT_BF16, VN_FMT_F16};
    const vn_format_t out = vn_format_of(a->c->actual->dtype);
    choice_t best = {.log_l = -INFINITY};
    for (size_t f = 0; f < 2; ++f)
        for (int count = 2; count <= MAX_SLICES && count * LEAST_SLICE <= s->terms; ++count) {
            choice_t now = {.format = formats[f], .how = RUNNING, .slices = count};
            double z2 = 0;
            ++*tried;
            for (int64_t k = 0; k < s->count; ++k) {
                const int64_t i = s->at[k];
                double p[MAX_SLICES], v = a->c->ref->var ? a->c->ref->var[i] : 0, sum = 0;
                slices(prefix + k * (s->terms + 1), s->n[k], count, false, p);
                const double scale = s->divisor ? 1 / (double)s->n[k] : 1;
                for (int c = 0; c < count; ++c) {
                    const double ulp = vn_ulp(formats[f], p[c]), step = vn_ulp(formats[f], sum += p[c]);
                    v += (ulp * ulp + (c ? step * step : 0)) / 12 * scale * scale;
                }
                const double e = a->x[i] - a->c->ref->value[i], ulp = vn_ulp(out, a->x[i]);
                z2 += e * e / (v + ulp * ulp / 12);
                now.log_l += vn_arith_log_mass(out, a->x[i], a->c->ref->value[i], v);
            }
            if (now.log_l > best.log_l) {
                best = now;
                *rms = sqrt(z2 / (double)s->count);
            }
        }
    return best;
}

static void partials_of(vn_arith_t *a, const sample_t *s, const double *prefix) {
    const double h0 = h0_of(a, s);
    int tried = 0;
    a->tried += 2;
    choice_t c = carried_out(a, s, prefix, &tried);
    char id[40];
    a->choices = log(tried > 1 ? tried : 1);
    if (10 * c.equal >= 9 * s->count) {
        snprintf(id, sizeof id, c.how == BLOCKED ? "accumulator-%s" : "splitk-partials-%s", vn_format_info(c.format)->name);
        if (all_inside(a, s, 1, 2 * c.slices * vn_format_info(c.format)->u))
            vn_arith_sampled(a, id, 0, s->count, c.log_l, h0, 0,
                             "%d partial sums, kept in %s, %s: %lld of %lld elements summed again are equal", c.slices,
                             vn_format_info(c.format)->name, combine_words[c.how], (long long)c.equal, (long long)s->count);
        return;
    }
    double rms = 0;
    tried = 0;
    c = modelled(a, s, prefix, &tried, &rms);
    a->choices = log(tried > 1 ? tried : 1);
    if (c.format == VN_FMT_NONE || s->count < 16 || !(rms <= 1.5) || !a->typical || !vn_arith_members(a, c.format) ||
        !all_inside(a, s, 1, 2 * c.slices * vn_format_info(c.format)->u))
        return;
    snprintf(id, sizeof id, "splitk-partials-%s", vn_format_info(c.format)->name);
    vn_arith_sampled(a, id, VN_ARITH_WIDE, s->count, c.log_l, h0, rms, "about %d partial sums kept in %s", c.slices,
                     vn_format_info(c.format)->name);
}

vn_status_t vn_arith_partials(vn_arith_t *a, vn_error_t *err) {
    if (a->c->cls != VN_CLASS_CONTRACTION && a->c->cls != VN_CLASS_REDUCTION) return VN_OK;
    sample_t s;
    double *prefix = NULL;
    VN_TRY(sample_of(a, &s, err));
    vn_status_t st = s.count && s.terms > 2 ? prefixes(&s, &prefix, err) : VN_OK;
    if (prefix) partials_of(a, &s, prefix);
    vn_free(prefix);
    sample_free(&s);
    return st;
}

/* ---- running sums in 16 bits ---- */

/* lanes 0: in order, -1: reversed. fused: the product is not rounded before it is added. */
static double running(vn_format_t f, const double *t, int64_t n, int lanes, bool fused) {
    double part[16] = {0}, sum = 0;
    const int count = lanes > 0 ? lanes : 1;
    for (int64_t k = 0; k < n; ++k) {
        const double term = t[lanes < 0 ? n - 1 - k : k];
        part[k % count] = vn_round_to(f, part[k % count] + (fused ? term : vn_round_to(f, term, VN_RNE, false)), VN_RNE, false);
    }
    for (int l = 0; l < count; ++l) sum = vn_round_to(f, sum + part[l], VN_RNE, false);
    return sum;
}

/* Every element is carried out (where the contract's sums are exact its bound tells no T): equal to that, or right. */
static bool all_running(const vn_arith_t *a, const sample_t *s, vn_format_t f, int lanes, bool fused) {
    const vn_question_t *q = a->c->q;
    vn_terms_t *terms;
    vn_error_t why;
    if ((double)a->n * (double)s->terms > 0x1p25 || vn_terms_open(q->model, q->node, q->inputs, q->contract, &terms, &why) != VN_OK)
        return false;
    const int64_t room = ALL_TERMS;
    bool good = true;
    for (int64_t i = 0; i < a->n && good; ++i) { /* the sample was counted before: its room may be used */
        int64_t n;
        good = vn_terms_get(terms, a->c->k, i, s->pool, room, &n, &why) == VN_OK && n <= room;
        if (!good) break;
        double sum = running(f, s->pool, n, lanes, fused);
        if (s->divisor) sum = (double)(float)(sum / (double)n);
        const double y = vn_round_to(vn_format_of(a->c->actual->dtype), sum, VN_RNE, false);
        good = a->x[i] == y || fabs(a->x[i] - a->c->ref->value[i]) <= vn_room(a->c->ref, i);
    }
    vn_terms_close(terms);
    return good;
}

/* Claim ARITH-17: the running sum carried out in f16 or bfloat16, in order, reversed or in lanes; where the bits of the sample agree and all elements are
 * within n u_p T, the sum was kept there, also where it stalls so long that the variance of roundings says nothing. */
vn_status_t vn_arith_running(vn_arith_t *a, vn_error_t *err) {
    static const vn_format_t formats[] = {VN_FMT_F16, VN_FMT_BF16};
    static const int orders[] = {0, -1, 4, 8, 16};
    enum { ORDERS = sizeof orders / sizeof *orders, CHOICES = 2 * ORDERS * 2 };
    if (a->c->cls != VN_CLASS_CONTRACTION && a->c->cls != VN_CLASS_REDUCTION && a->c->cls != VN_CLASS_SCAN) return VN_OK;
    sample_t s;
    VN_TRY(sample_of(a, &s, err));
    const vn_format_t out = vn_format_of(a->c->actual->dtype);
    for (int c = 0; c < CHOICES && s.count && s.terms > 2; ++c) {
        const vn_format_t f = formats[c % 2];
        int64_t equal = 0;
        double log_l = 0;
        a->tried++;
        for (int64_t k = 0; k < s.count; ++k) {
            const double x = a->x[s.at[k]], y = stored(a, &s, k, running(f, s.t[k], s.n[k], orders[c / 4], c / 2 % 2 != 0));
            equal += x == y;
            log_l += isfinite(y) ? vn_arith_log_mass(out, x, y, 0) : -100;
        }
        a->choices = log(CHOICES);
        if (10 * equal < 9 * s.count) continue;
        const double h0 = h0_of(a, &s);
        if (!all_inside(a, &s, 1, (double)s.terms * vn_format_info(f)->u)) {
            if (!all_running(a, &s, f, orders[c / 4], c / 2 % 2 != 0)) continue;
            c = CHOICES; /* the sample's terms are overwritten */
        }
        char id[32];
        snprintf(id, sizeof id, "accumulator-%s", vn_format_info(f)->name);
        vn_arith_sampled(a, id, 0, s.count, log_l, h0, 0, "running sum in %s: %lld of %lld elements summed again are equal",
                         vn_format_info(f)->name, (long long)equal, (long long)s.count);
    }
    sample_free(&s);
    return VN_OK;
}

/* ---- adders that cut ---- */

/* s + t rounded toward zero in f32. */
static double add_cut(double s, double t) {
    const double hi = s + t, z = hi - s, lost = (s - (hi - z)) + (t - z);
    const float f = (float)hi;
    const double r = (double)f;
    const bool over = hi > 0 ? r > hi || (r == hi && lost < 0) : r < hi || (r == hi && lost > 0);
    return over ? (double)nextafterf(f, 0) : r;
}

/* One chain of n terms from s, `step` apart. split: the product is cut before it is added. */
static double chain_cut(double s, const double *t, int64_t n, int64_t step, bool split) {
    for (int64_t k = 0; k < n; k += step) s = add_cut(s, split ? add_cut(0, t[k]) : t[k]);
    return s;
}

/* Groups of `width` terms and the running sum, aligned to the largest with `bits` fraction bits and cut; the total cut, or rounded, to f32. */
static double fused_cut(const double *t, int64_t n, int width, int bits, bool nearest) {
    double sum = 0;
    for (int64_t g = 0; g < n; g += width) {
        const int64_t end = n - g < width ? n : g + width;
        double top = fabs(sum);
        for (int64_t k = g; k < end; ++k) top = fmax(top, fabs(t[k]));
        if (top == 0) continue;
        int e;
        frexp(top, &e); /* top in [2^(e-1), 2^e) */
        const double unit = ldexp(1, e - 1 - bits), inverse = 1 / unit;
        double total = trunc(sum * inverse);
        for (int64_t k = g; k < end; ++k) total += trunc(t[k] * inverse);
        sum = nearest ? (double)(float)(total * unit) : add_cut(0, total * unit);
    }
    return sum;
}

typedef struct adder {
    int width, bits; /* fused groups; bits 0: single additions */
    bool split, nearest, reversed;
    int lanes, block;
} adder_t;

static double summed(const adder_t *d, const double *t, int64_t n, double *scratch) {
    if (d->bits) return fused_cut(t, n, d->width, d->bits, d->nearest);
    if (d->reversed) {
        for (int64_t k = 0; k < n; ++k) scratch[k] = t[n - 1 - k];
        t = scratch;
    }
    double s = 0;
    if (d->lanes) {
        for (int l = 0; l < d->lanes && l < n; ++l) s = add_cut(s, chain_cut(0, t + l, n - l, d->lanes, d->split));
        return s;
    }
    if (!d->block) return chain_cut(0, t, n, 1, d->split);
    for (int64_t b = 0; b < n; b += d->block) s = add_cut(s, chain_cut(0, t + b, n - b < d->block ? n - b : d->block, 1, d->split));
    return s;
}

enum { SINGLES = 18, WIDTHS = 5, BITS = 6, ADDERS = SINGLES + WIDTHS * BITS * 2 };

static adder_t adder_at(int k) {
    static const int widths[WIDTHS] = {4, 8, 16, 32, 64}, bits[BITS] = {23, 24, 25, 26, 27, 28};
    static const int lanes[] = {0, 0, 4, 8, 16, 0, 0, 0, 0}, blocks[] = {0, 0, 0, 0, 0, 32, 64, 128, 256};
    if (k < SINGLES) return (adder_t){.split = k % 2 != 0, .reversed = k / 2 == 1, .lanes = lanes[k / 2], .block = blocks[k / 2]};
    k -= SINGLES;
    return (adder_t){.width = widths[k / (BITS * 2)], .bits = bits[k / 2 % BITS], .nearest = k % 2 != 0};
}

/* Mean shrinkage of a sum over a few orders, one cut of half an ulp on average for each addition. */
static double shrink_of(const double *t, int64_t n, double *scratch) {
    enum { ORDERS = 6 };
    vn_rng_t rng;
    double total = 0;
    vn_rng_seed(&rng, 1);
    memcpy(scratch, t, (size_t)n * sizeof *t);
    for (int o = 0; o < ORDERS; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) {
            sum += scratch[o == 1 ? n - 1 - k : k];
            total += copysign(vn_ulp(VN_FMT_F32, sum), sum) / (2 * ORDERS);
        }
        for (int64_t k = n - 1; o > 0 && k > 0; --k) { /* as given, reversed, then shuffled */
            const int64_t j = (int64_t)vn_rng_below(&rng, (uint64_t)k + 1);
            const double swap = scratch[k];
            scratch[k] = scratch[j];
            scratch[j] = swap;
        }
    }
    return total;
}

/* The error as a whole: toward zero, in proportion to the shrinkage of the running sums, and no constant factor. */
static void shrinkage(vn_arith_t *a, const sample_t *s, double h0, double *scratch) {
    const vn_ref_t *r = a->c->ref;
    double em = 0, mm = 0, ee = 0, emem = 0, ey = 0, yy = 0, shrink[SAMPLE];
    int64_t toward = 0;
    if (s->count < 16 || !r->var) return;
    for (int64_t k = 0; k < s->count; ++k) {
        const double y = r->value[s->at[k]], e = a->x[s->at[k]] - y, m = shrink_of(s->t[k], s->n[k], scratch);
        shrink[k] = s->divisor ? m / (double)s->n[k] : m;
        em -= e * shrink[k];
        emem += e * e * shrink[k] * shrink[k];
        mm += shrink[k] * shrink[k];
        ee += e * e;
        ey += e * y;
        yy += y * y;
        toward += e * shrink[k] < 0;
    }
    if (!(mm > 0) || !(yy > 0) || !(em > sqrt(2 * a->margin * emem))) return; /* sign of the error and of the sum are not independent */
    const double slope = em / mm, unlike_factor = ee - ey * ey / yy;          /* slope 1: one cut per term; less: groups or lanes */
    if (!(slope > 1.0 / 128 && slope < 2.5) || unlike_factor < ee / 64) return;
    double rest = 0, log_l = 0, z2 = 0;
    for (int64_t k = 0; k < s->count; ++k) {
        const double y = r->value[s->at[k]] - slope * shrink[k], e = a->x[s->at[k]] - y;
        rest += e * e;
    }
    if (4 * rest > 3 * ee) return;
    for (int64_t k = 0; k < s->count; ++k) { /* what another order moves is as large as the rest */
        const int64_t i = s->at[k];
        const double y = r->value[i] - slope * shrink[k], e = a->x[i] - y, v = r->var[i] + rest / (double)s->count;
        z2 += e * e / v;
        log_l += vn_arith_log_mass(vn_format_of(r->dtype), a->x[i], y, v);
    }
    a->choices = log(ADDERS);
    vn_arith_sampled(a, "truncation-bias", 0, s->count, log_l, h0, sqrt(z2 / (double)s->count),
                     "the adders cut instead of rounding: the error is toward zero in %lld of %lld sums, %.2g of one cut per term",
                     (long long)toward, (long long)s->count, slope);
}

static vn_status_t cut_of(vn_arith_t *a, const sample_t *s, vn_error_t *err) {
    double *scratch = vn_alloc((size_t)s->terms + 1, sizeof *scratch);
    if (!scratch) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    const vn_format_t out = vn_format_of(a->c->actual->dtype);
    const double h0 = h0_of(a, s);
    int64_t best_equal = 0;
    double best_log = -INFINITY;
    adder_t best = {0};
    for (int d = 0; d < ADDERS && vn_arith_time(a); ++d) {
        const adder_t now = adder_at(d);
        int64_t equal = 0;
        double log_l = 0;
        for (int64_t k = 0; k < s->count; ++k) {
            const double x = a->x[s->at[k]], y = stored(a, s, k, summed(&now, s->t[k], s->n[k], scratch));
            equal += x == y;
            log_l += isfinite(y) ? vn_arith_log_mass(out, x, y, 0) : -100;
            if (k == 7 && equal == 0) {
                log_l = -INFINITY;
                break;
            }
        }
        if (log_l > best_log) {
            best_log = log_l;
            best_equal = equal;
            best = now;
        }
    }
    a->tried += ADDERS;
    a->choices = log(ADDERS);
    if (10 * best_equal >= 9 * s->count) {
        char how[96];
        if (best.bits)
            snprintf(how, sizeof how, "groups of %d terms aligned with %d fraction bits%s", best.width, best.bits,
                     best.nearest ? ", the total rounded" : "");
        else snprintf(how, sizeof how, "every addition rounded toward zero%s", best.split ? ", products too" : "");
        vn_arith_sampled(a, "truncation-bias", 0, s->count, best_log, h0, 0,
                         "adders that cut: %s; %lld of %lld elements summed again are equal", how, (long long)best_equal,
                         (long long)s->count);
    } else {
        shrinkage(a, s, h0, scratch);
    }
    vn_free(scratch);
    return VN_OK;
}

vn_status_t vn_arith_truncating(vn_arith_t *a, vn_error_t *err) {
    if (a->c->cls != VN_CLASS_CONTRACTION && a->c->cls != VN_CLASS_REDUCTION && a->c->cls != VN_CLASS_SCAN) return VN_OK;
    if (vn_contract_resolve(a->c->q->contract, a->c->actual->dtype).accumulator != VN_FMT_F32) return VN_OK;
    sample_t s;
    VN_TRY(sample_of(a, &s, err));
    vn_status_t st = VN_OK;
    if (s.count && s.terms > 1 && all_inside(a, &s, 2, 0)) st = cut_of(a, &s, err);
    sample_free(&s);
    return st;
}
