/* ml_couple.c -- coupling of pairwise probabilities, in balls.
 *
 * Minimise sum over i < j of (r_ji p_i - r_ij p_j)^2 under sum p = 1: Q p = lambda 1 with Q_tt = sum r_jt^2, Q_tj = -r_jt r_tj. One round walks over
 * the classes: p_t += (p Q p - (Q p)_t) / Q_tt, then everything is scaled by 1 / (1 + that step).
 */
#include "oracle/ml_couple.h"

#include <math.h>
#include <string.h>

static vn_ball_t rounded(double m, double r, double u) { return (vn_ball_t){m, (r + u * fabs(m)) * (1 + 4 * u) + 0x1p-149}; }

static vn_ball_t add(vn_ball_t a, vn_ball_t b, double u) { return rounded(a.m + b.m, a.r + b.r, u); }
static vn_ball_t sub(vn_ball_t a, vn_ball_t b, double u) { return rounded(a.m - b.m, a.r + b.r, u); }
static vn_ball_t mul(vn_ball_t a, vn_ball_t b, double u) { return rounded(a.m * b.m, fabs(a.m) * b.r + fabs(b.m) * a.r + a.r * b.r, u); }
static vn_ball_t over(vn_ball_t a, vn_ball_t b, double u) {
    const double m = a.m / b.m, room = fabs(b.m) - b.r;
    return room > 0 ? rounded(m, (a.r + fabs(m) * b.r) / room, 2 * u) : (vn_ball_t){m, INFINITY}; /* or a reciprocal and a product */
}

/* Sum of products, any order. */
static vn_ball_t dot(int64_t n, const vn_ball_t *a, const vn_ball_t *b, double u) {
    double m = 0, r = 0, abs = 0;
    for (int64_t i = 0; i < n; ++i) {
        m += a[i].m * b[i].m;
        r += fabs(a[i].m) * b[i].r + fabs(b[i].m) * a[i].r + a[i].r * b[i].r;
        abs += (fabs(a[i].m) + a[i].r) * (fabs(b[i].m) + b[i].r);
    }
    return (vn_ball_t){m, (r + (double)n * u * abs) * (1 + 4 * (double)n * u) + 0x1p-149};
}

static void make_q(int64_t k, const vn_ball_t *r, double u, vn_ball_t *q) {
    for (int64_t t = 0; t < k; ++t)
        for (int64_t j = 0; j < k; ++j) {
            if (j != t) {
                q[t * k + j] = mul(r[j * k + t], r[t * k + j], u);
                q[t * k + j].m = -q[t * k + j].m;
                continue;
            }
            vn_ball_t s = {0, 0};
            for (int64_t i = 0; i < k; ++i)
                if (i != t) s = add(s, mul(r[i * k + t], r[i * k + t], u), (double)k * u);
            q[t * k + t] = s;
        }
}

static void one_round(int64_t k, const vn_ball_t *q, vn_ball_t *p, vn_ball_t *qp, vn_ball_t pqp, double u) {
    const vn_ball_t one = {1, 0};
    for (int64_t t = 0; t < k; ++t) {
        const vn_ball_t d = over(sub(pqp, qp[t], u), q[t * k + t], u), scale = add(one, d, u);
        p[t] = add(p[t], d, u);
        const vn_ball_t inner = add(mul(d, q[t * k + t], u), add(qp[t], qp[t], 0), u);
        pqp = over(add(pqp, mul(d, inner, u), u), mul(scale, scale, u), 2 * u);
        for (int64_t j = 0; j < k; ++j) {
            qp[j] = over(add(qp[j], mul(d, q[t * k + j], u), u), scale, u);
            p[j] = over(p[j], scale, u);
        }
    }
}

/* Largest row sum of |M^-1| over the residual columns, M = [Q 1; 1' 0], by Gauss and Jordan with pivots; +Inf: singular, or too large. */
static double sensitivity(int64_t k, const vn_ball_t *q) {
    enum { MOST = 32 };
    double a[MOST][2 * MOST];
    const int64_t n = k + 1;
    if (n > MOST) return INFINITY;
    memset(a, 0, sizeof a);
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) a[i][j] = i < k && j < k ? q[i * k + j].m : i == j ? 0 : 1;
        a[i][n + i] = 1;
    }
    for (int64_t c = 0; c < n; ++c) {
        int64_t best = c;
        for (int64_t i = c; i < n; ++i)
            if (fabs(a[i][c]) > fabs(a[best][c])) best = i;
        if (fabs(a[best][c]) < 0x1p-20) return INFINITY;
        for (int64_t j = 0; j < 2 * n; ++j) {
            const double x = a[best][j];
            a[best][j] = a[c][j];
            a[c][j] = x;
        }
        for (int64_t i = 0; i < n; ++i) {
            const double f = i == c ? 0 : a[i][c] / a[c][c];
            for (int64_t j = 0; f != 0 && j < 2 * n; ++j) a[i][j] -= f * a[c][j];
        }
        const double d = a[c][c];
        for (int64_t j = 0; j < 2 * n; ++j) a[c][j] /= d;
    }
    double worst = 0;
    for (int64_t i = 0; i < k; ++i) {
        double s = 0;
        for (int64_t j = 0; j < k; ++j) s += fabs(a[i][n + j]);
        worst = fmax(worst, s);
    }
    return worst;
}

void vn_couple(int64_t k, const vn_ball_t *r, double u, vn_ball_t *p, vn_ball_t *scratch) {
    vn_ball_t *q = scratch, *qp = q + k * k;
    const double end = 0.005 / (double)k;
    const int64_t most = k > 100 ? k : 100;
    bool decided = true, ended = false;
    make_q(k, r, u, q);
    double doubt = 0; /* of the entries of Q */
    for (int64_t i = 0; i < k * k; ++i) doubt = fmax(doubt, q[i].r);
    for (int64_t t = 0; t < k; ++t) p[t] = rounded(1 / (double)k, 0, u);
    for (int64_t round = 0; round < most && !ended; ++round) {
        double error = 0, radius = 0;
        for (int64_t t = 0; t < k; ++t) qp[t] = dot(k, q + t * k, p, u);
        const vn_ball_t pqp = dot(k, p, qp, u);
        for (int64_t t = 0; t < k; ++t) {
            const vn_ball_t d = sub(qp[t], pqp, u);
            error = fmax(error, fabs(d.m));
            radius = fmax(radius, d.r);
        }
        ended = error < end;
        decided = decided && fabs(error - end) > radius && isfinite(radius);
        if (!ended) one_round(k, q, p, qp, pqp, u);
    }
    /* Both runs end with residuals below `end`; an uncertain Q moves the solution by at most doubt k / (1 - ...) more. */
    const double inverse = sensitivity(k, q), shift = inverse * doubt * (double)k;
    const double residual = ended && shift < 0.5 ? 2 * inverse * (end * (1 + 0x1p-10) + doubt * (double)k) / (1 - shift) : INFINITY;
    for (int64_t t = 0; t < k; ++t) p[t].r = fmin(decided ? p[t].r : INFINITY, residual);
}
