/* peers.c -- the criteria of other tools, written anew from their documentation: each compares with the oracle rounded to the type. */
#include <math.h>

#include "detection.h"

const char *const peer_names[N_PEERS] = {
    "allclose 1e-5, 1e-5, both exceeded",
    "allclose 1e-3, 1e-3, both exceeded",
    "defaults by type (f32 1.3e-6, 1e-5; f16 1e-3, 1e-5; bf16 1.6e-2, 1e-5)",
    "NMSE 5e-4 contractions, 1e-7 else",
    "RMS 1e-3 of the largest",
    "cosine 0.99",
    "Pearson correlation 0.99",
    "per tensor gamma(n) n max max",
    "|b-a| / (|a| + 1e-6) at most 2e-3",
    "error at most twice the usual kernel's",
};

typedef struct sums {
    double d2, a2, b2, ab, a, b, max_a, max_b, max_d, plain_d;
    bool both_5, both_3, by_type, relative; /* some element exceeds */
    bool classes;                           /* NaN or infinity on one side only */
} sums_t;

static double expected(const vn_ref_t *r, int64_t i) { return vn_tensor_get_f64(r->tensor, i); }

static void add(sums_t *s, double a, double b, double rtol, double atol) {
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) {
        s->classes |= !(isnan(a) && isnan(b)) && a != b;
        return;
    }
    const double d = fabs(a - b);
    s->d2 += d * d, s->a2 += a * a, s->b2 += b * b, s->ab += a * b, s->a += a, s->b += b;
    s->max_a = fmax(s->max_a, fabs(a)), s->max_b = fmax(s->max_b, fabs(b)), s->max_d = fmax(s->max_d, d);
    s->both_5 |= d > 1e-5 && d > 1e-5 * fabs(b);
    s->both_3 |= d > 1e-3 && d > 1e-3 * fabs(b);
    s->by_type |= d > atol + rtol * fabs(b);
    s->relative |= d / (fabs(a) + 1e-6) > 2e-3;
}

static double correlation(const sums_t *s, double n) {
    const double va = s->a2 - s->a * s->a / n, vb = s->b2 - s->b * s->b / n;
    if (va <= 0 || vb <= 0) return s->d2 == 0 ? 1 : 0;
    return (s->ab - s->a * s->b / n) / sqrt(va * vb);
}

static char verdict(bool passes) { return passes ? 'p' : 'f'; }

void peers_judge(const peer_question_t *q, char verdicts[N_PEERS + 1]) {
    const vn_ref_t *r = q->ref;
    const int64_t n = r->count;
    const bool floats = r->value != NULL;
    const double rtol = !floats               ? 0
                        : r->dtype == VN_F16  ? 1e-3
                        : r->dtype == VN_BF16 ? 1.6e-2
                        : r->dtype == VN_F64  ? 1e-7
                                              : 1.3e-6,
                 atol = !floats              ? 0
                        : r->dtype == VN_F64 ? 1e-7
                                             : 1e-5;
    sums_t s = {0};
    for (int64_t i = 0; i < n; ++i) {
        add(&s, vn_tensor_get_f64(q->actual, i), expected(r, i), rtol, atol);
        if (floats && isfinite(r->value[i])) {
            const double d = fabs(vn_tensor_get_f64(q->plain, i) - r->value[i]), e = fabs(vn_tensor_get_f64(q->actual, i) - r->value[i]);
            s.plain_d = fmax(s.plain_d, d);
            s.max_d = fmax(s.max_d, e);
        }
    }
    const double nmse = s.d2 == 0  ? 0
                        : s.b2 > 0 ? s.d2 / s.b2
                                   : INFINITY,
                 top = fmax(s.max_a, s.max_b),
                 rms = s.d2 == 0 ? 0
                       : top > 0 ? sqrt(s.d2 / (double)n) / top
                                 : INFINITY,
                 cosine = s.a2 > 0 && s.b2 > 0 ? s.ab / sqrt(s.a2 * s.b2) : s.d2 == 0;
    const double terms = (double)(r->terms > 0 ? r->terms : 1), u = floats ? 0x1p-24 : 0, gamma = terms * u / (1 - terms * u),
                 uo = floats && vn_format_of(r->dtype) ? vn_format_info(vn_format_of(r->dtype))->u : 0,
                 room = gamma * terms * q->largest_product + uo * s.max_b;
    const char out[N_PEERS] = {
        verdict(!s.both_5),
        verdict(!s.both_3),
        verdict(!s.by_type),
        verdict(nmse <= (q->contraction ? 5e-4 : 1e-7)),
        verdict(rms <= 1e-3),
        verdict(cosine >= 0.99),
        verdict(n < 2 || correlation(&s, (double)n) >= 0.99),
        floats && isfinite(q->largest_product) ? verdict(s.max_d <= room) : '-',
        verdict(!s.relative),
        floats ? verdict(s.max_d <= 2 * s.plain_d) : '-',
    };
    for (int k = 0; k < N_PEERS; ++k) verdicts[k] = out[k] == 'p' && s.classes ? 'f' : out[k];
    verdicts[N_PEERS] = '\0';
}
