/* refine_attention.c -- single elements of attention in 113 bits, by queries (claim PREC-3).
 *
 * A score s is wrong by e: 4 units of itself for the scale (a root and a quotient), 16 for a softcap, one for an added mask. A weight exp(s - max)
 * is wrong relatively by e + e_max + |s - max| units + 8 units =: a, so that with W = sum w
 *   |o^ - o| <= [sum w a |v| + |o| sum w a + (n + 4) units sum w |v|] / W + 8 units |o|.
 * Before that, where scores are products and nothing else, the same with weights in f64 (claim PREC-8): scores in twice the working precision, of
 * which both parts enter the exponential (3 u), sums in twice the working precision: |o^ - o| <= (sum w |v| + |o|) a / W, a = 3 u + what
 * the scores are wrong by. That is a hundred times less than a plain evaluation in f64 may lose, and decides nearly every element.
 */
#include "oracle/attention.h"
#include "oracle/dd.h"
#include "oracle/escalate.h"
#include "oracle/sums.h"
#include "oracle/vmath.h"

typedef struct job {
    const vn_attention_t *a;
    const vn_refine_t *q;
    const int64_t *first; /* of query number g: elements first[g] .. first[g+1) of the request */
    vn_quad_t scale;
} job_t;

typedef struct place {
    int64_t b, h, i, c;
} place_t;

static place_t place_of(const vn_attention_t *a, int64_t at) {
    place_t p = {.b = at / a->ob};
    int64_t rest = at % a->ob;
    const bool query_first = a->oi > a->oh; /* [batch, queries, heads, size] */
    p.i = query_first ? rest / a->oi : rest % a->oh / a->oi;
    if (query_first) rest %= a->oi;
    p.h = rest / a->oh;
    p.c = rest % (query_first ? a->oh : a->oi);
    return p;
}

static bool seen(const vn_attention_t *a, const place_t *p, int64_t j) {
    const int64_t at = p->i + (a->offset ? a->offset[p->b] : 0);
    if ((a->causal && j > at) || (a->left >= 0 && at - j > a->left) || (a->right >= 0 && j - at > a->right)) return false;
    return !a->valid || j < a->valid[p->b];
}

/*
 * Claim PREC-10: of double-double operands the products of first and second halves are added to what Dot2 lost, each below 2^-53 of its product, so that
 * their roundings and the products of two second halves are below (2 n + 4) 2^-105 of the magnitudes; errors of operands by their sizes.
 */
static double second_halves(const vn_attention_t *a, const double *q, const double *k, double magnitude, double *lost) {
    const double *ql = a->q.lo ? a->q.lo + (q - a->q.at) : NULL, *kl = a->k.lo ? a->k.lo + (k - a->k.at) : NULL,
                 *qe = a->q.err ? a->q.err + (q - a->q.at) : NULL, *ke = a->k.err ? a->k.err + (k - a->k.at) : NULL;
    double off = 0;
    for (int64_t c = 0; c < a->size; ++c) {
        const double eq = qe ? qe[c] : 0, ek = ke ? ke[c] : 0;
        *lost += (ql ? ql[c] * k[c] : 0) + (kl ? kl[c] * q[c] : 0);
        off += eq * fabs(k[c]) + ek * fabs(q[c]) + eq * ek;
    }
    return (off * (1 + 0x1p-40) + (2 * (double)a->size + 4) * 0x1p-105 * magnitude) * (1 + 0x1p-40) + 0x1p-1060;
}

/* Score of key j and what it may be wrong by; false: the key is forbidden. */
static bool score(const job_t *job, const place_t *p, int64_t j, vn_quad_t *s, vn_quad_t *wrong) {
    const vn_attention_t *a = job->a;
    const int64_t kv = p->h / (a->heads / a->kv_heads);
    const double *q = a->q.at + p->b * a->q.sb + p->h * a->q.sh + p->i * a->q.si,
                 *k = a->k.at + p->b * a->k.sb + kv * a->k.sh + j * a->k.si;
    vn_quad_sum_t dot = {0};
    if (!seen(a, p, j)) return false;
    double sum = 0, lost = 0, magnitude = 0; /* twice the working precision leaves far less than the weights lose */
    for (int64_t c = 0; c < a->size; ++c) vn_dd_add_product(q[c], k[c], &sum, &lost, &magnitude);
    if (!(magnitude < 0x1p960) && (a->q.lo || a->k.lo)) { /* no statement */
        *s = INFINITY;
        *wrong = 0;
        return true;
    }
    const double more = a->q.lo || a->k.lo ? second_halves(a, q, k, magnitude, &lost) : 0;
    if (magnitude < 0x1p960) dot = (vn_quad_sum_t){.hi = sum, .lo = lost, .lost = vn_dd_dot_own(a->size, magnitude) + more};
    else
        for (int64_t c = 0; c < a->size; ++c) vn_quad_add(&dot, (vn_quad_t)q[c] * k[c]);
    *s = (dot.hi + dot.lo) * job->scale;
    *wrong = vn_qabs(*s) * (4 * VN_QUAD_U) + dot.lost * vn_qabs(job->scale);
    if (a->softcap > 0) {
        *s = a->softcap * vn_qtanh(*s / a->softcap);
        *wrong += vn_qabs(*s) * (16 * VN_QUAD_U);
    }
    for (int m = 0; m < 2; ++m) {
        const vn_score_bias_t *bias = &a->bias[m];
        if (!bias->at) continue;
        const double v = j < bias->keys ? bias->at[p->b * bias->sb + p->h * bias->sh + p->i * bias->si + j * bias->sj] : -INFINITY;
        if (v == -INFINITY) return false;
        *s += v;
        *wrong += vn_qabs(*s) * VN_QUAD_U;
    }
    return true;
}

/* Weights w[j] (0: forbidden) and their relative errors; returns their sum, 0 if a score is no number. */
static vn_quad_t weights(const job_t *job, const place_t *p, vn_quad_t *w, vn_quad_t *wrong, vn_quad_t *relative) {
    const vn_attention_t *a = job->a;
    const double sink = a->sinks ? a->sinks[p->h] : a->sink;
    vn_quad_t max = sink, max_wrong = 0, total = 0;
    bool any = sink > -INFINITY;
    for (int64_t j = 0; j < a->keys; ++j) {
        if (!score(job, p, j, &w[j], &wrong[j])) {
            wrong[j] = -1;
            continue;
        }
        if (!vn_quad_finite(w[j])) return 0;
        if (!any || w[j] > max) max = w[j], max_wrong = wrong[j];
        any = true;
    }
    *relative = 0;
    if (sink > -INFINITY) {
        total = vn_qexp(sink - max);
        *relative = total * ((8 + max - sink) * VN_QUAD_U + max_wrong);
    }
    for (int64_t j = 0; j < a->keys; ++j) {
        if (wrong[j] < 0) {
            w[j] = wrong[j] = 0;
            continue;
        }
        const vn_quad_t d = w[j] - max;
        w[j] = vn_qexp(d);
        wrong[j] += max_wrong + (8 - d) * VN_QUAD_U;
        total += w[j];
        *relative += w[j] * wrong[j];
    }
    if (total > 0) *relative = *relative / total + (double)(a->keys + 1) * VN_QUAD_U;
    return total;
}

/* ---- weights in f64 ---- */

/* Products of q with eight vectors side by side, each in twice the working precision. */
enum { SIDE = 8 };
VN_CLONES static void products_8(const double *q, const double *k, int64_t step, int64_t n, double *sum, double *lost, double *magnitude) {
    double s[SIDE] = {0}, l[SIDE] = {0}, m[SIDE] = {0};
    for (int64_t c = 0; c < n; ++c)
        for (int i = 0; i < SIDE; ++i) vn_dd_add_product(q[c], k[i * step + c], &s[i], &l[i], &m[i]);
    for (int i = 0; i < SIDE; ++i) sum[i] = s[i], lost[i] = l[i], magnitude[i] = m[i];
}

/* w[j] = exp(score - max) within a relative error of *wrong, lo: scratch of n. False: the way above is needed. */
static bool near_weights(const job_t *job, const place_t *p, double *w, double *lo, double *wrong) {
    const vn_attention_t *a = job->a;
    const int64_t kv = p->h / (a->heads / a->kv_heads);
    const double *q = a->q.at + p->b * a->q.sb + p->h * a->q.sh + p->i * a->q.si, *k = a->k.at + p->b * a->k.sb + kv * a->k.sh;
    const double scale_hi = (double)job->scale;
    const vn_dd_t scale = {scale_hi, (double)(job->scale - scale_hi)};
    vn_dd_t max = {-INFINITY, 0};
    double most = 0;
    double sum[SIDE], lost[SIDE], magnitude[SIDE];
    for (int64_t j = 0; j < a->keys; ++j) {
        const int i = (int)(j % SIDE);
        if (i == 0 && j + SIDE <= a->keys) {
            products_8(q, k + j * a->k.si, a->k.si, a->size, sum, lost, magnitude);
        } else if (j + SIDE - i > a->keys) { /* the last few */
            sum[i] = lost[i] = magnitude[i] = 0;
            for (int64_t c = 0; c < a->size; ++c) vn_dd_add_product(q[c], k[j * a->k.si + c], &sum[i], &lost[i], &magnitude[i]);
        }
        w[j] = -INFINITY;
        if (!seen(a, p, j)) continue;
        if (!(magnitude[i] < 0x1p500)) return false;
        vn_dd_t s;
        s.hi = vn_dd_fast_sum(sum[i], lost[i], &s.lo);
        s = vn_dd_mul(s, scale);
        const double e = vn_dd_dot_own(a->size, magnitude[i]) * fabs(scale_hi) * (1 + 0x1p-50) + fabs(s.hi) * (4 * VN_DD_U) + 0x1p-1000;
        most = e > most ? e : most;
        w[j] = s.hi;
        lo[j] = s.lo;
        if (s.hi > max.hi) max = s;
    }
    if (!(max.hi > -INFINITY)) return false;
    for (int64_t j = 0; j < a->keys; ++j) {
        if (w[j] == -INFINITY) {
            w[j] = 0;
            continue;
        }
        const vn_dd_t d = vn_dd_add((vn_dd_t){w[j], lo[j]}, vn_dd_neg(max));
        w[j] = d.hi < -700 ? 0 : vn_v_exp_with(d.hi, d.lo); /* what is left out is below 2^-1009 of the largest weight */
        most = fabs(d.hi) * (4 * VN_DD_U) > most ? fabs(d.hi) * (4 * VN_DD_U) : most;
    }
    *wrong = 3 * 0x1p-53 + 4 * most;
    return *wrong < 0x1p-40;
}

/* Elements that these weights decide; returns how many of the query's are left. */
static int64_t near_query(const job_t *job, const place_t *p, const double *v, int64_t first, int64_t last, double *w, double *lo) {
    const vn_attention_t *a = job->a;
    double wrong;
    const bool bare =
        !a->q.lo && !a->k.lo && !a->v.lo && a->softcap <= 0 && !a->bias[0].at && !a->bias[1].at && !a->sinks && a->sink == -INFINITY;
    if (!bare || job->q->format == VN_FMT_F64 || !near_weights(job, p, w, lo, &wrong)) return last - first;
    const vn_sum2_t total = vn_sum2(w, a->keys);
    const vn_quad_t W = (vn_quad_t)total.hi + total.lo;
    int64_t left = 0;
    for (int64_t i = first; i < last; ++i) {
        const int64_t c = place_of(a, job->q->at[i]).c;
        double o = 0, lost = 0, size = 0, all = 0;
        for (int64_t j = 0; j < a->keys; ++j) {
            const double x = v[j * a->v.si + c];
            if (w[j] == 0) {
                all += isfinite(x) ? fabs(x) : 0; /* a forbidden key adds nothing, whatever it holds */
                continue;
            }
            vn_dd_add_product(w[j], x, &o, &lost, &size);
        }
        vn_exact_t r = {.value = ((vn_quad_t)o + lost) / W, .own = INFINITY};
        if (size < 0x1p900)
            r.own = ((vn_quad_t)(size + fabs(o)) * (wrong * 1.01) + vn_dd_dot_own(a->keys, size) + all * 0x1p-1000) / W +
                    vn_qabs(r.value) * (vn_quad_t)0x1p-90;
        if (r.own < (vn_quad_t)INFINITY && vn_exact_decided(job->q->format, &r)) job->q->out[i] = r;
        else ++left;
    }
    return left;
}

static void queries(void *ctx, int64_t begin, int64_t end) {
    const job_t *job = ctx;
    const vn_attention_t *a = job->a;
    const size_t n = (size_t)(a->keys > 0 ? a->keys : 1);
    vn_quad_t *w = vn_alloc(n, sizeof *w), *wrong = vn_alloc(n, sizeof *wrong); /* no memory: not refined, counted as undecided */
    double *near = vn_alloc(n, 2 * sizeof *near);
    for (int64_t g = begin; g < end && w && wrong && near; ++g) {
        const place_t p = place_of(a, job->q->at[job->first[g]]);
        const double *v = a->v.at + p.b * a->v.sb + p.h / (a->heads / a->kv_heads) * a->v.sh;
        const double *v_lo = a->v.lo ? a->v.lo + (v - a->v.at) : NULL, *v_err = a->v.err ? a->v.err + (v - a->v.at) : NULL;
        if (near_query(job, &p, v, job->first[g], job->first[g + 1], near, near + n) == 0) continue;
        vn_quad_t relative, total = weights(job, &p, w, wrong, &relative);
        for (int64_t i = job->first[g]; i < job->first[g + 1] && total > 0; ++i) {
            if (job->q->out[i].own < (vn_quad_t)INFINITY) continue;
            const int64_t c = place_of(a, job->q->at[i]).c;
            vn_quad_t o = 0, size = 0, moved = 0;
            for (int64_t j = 0; j < a->keys; ++j) {
                if (w[j] == 0) continue; /* a key without weight adds nothing, whatever it holds */
                const int64_t vc = j * a->v.si + c;
                const vn_quad_t x = w[j] * (v[vc] + (v_lo ? (vn_quad_t)v_lo[vc] : 0));
                o += x;
                size += vn_qabs(x);
                moved += vn_qabs(x) * wrong[j] + (v_err ? w[j] * (1 + wrong[j]) * v_err[vc] : 0);
            }
            const vn_quad_t y = o / total;
            if (!vn_quad_finite(y)) continue;
            job->q->out[i] = (vn_exact_t){.value = y};
            job->q->out[i].own = (moved + size * ((double)(a->keys + 4) * VN_QUAD_U)) / total + vn_qabs(y) * (relative + 8 * VN_QUAD_U);
        }
    }
    vn_free(w);
    vn_free(wrong);
    vn_free(near);
}

vn_status_t vn_refine_attention(const vn_attention_t *a) {
    const vn_refine_t *q = a->e->refine;
    if (q->k != a->k_out) return VN_OK; /* scores are not refined */
    int64_t groups = 0, *first = vn_alloc((size_t)q->n + 1, sizeof *first);
    if (!first) return vn_eval_fail(a->e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)q->n);
    for (int64_t i = 0; i < q->n; ++i) /* elements of one query follow one another */
        if (i == 0 || q->at[i] / a->v_size != q->at[i - 1] / a->v_size) first[groups++] = i;
    first[groups] = q->n;
    job_t job = {.a = a, .q = q, .first = first, .scale = a->scale};
    if (a->root_scale) job.scale = 1 / vn_qsqrt((vn_quad_t)a->size);
    vn_parallel(groups, 1, queries, &job);
    vn_free(first);
    return VN_OK;
}
