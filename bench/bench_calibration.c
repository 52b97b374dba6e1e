/* bench_calibration.c -- the limits of rung 6 by experiment: correct schedules of sums and products on data of many kinds (docs/calibration.md).
 *
 * Usage: bench_calibration [runs per row [seed]]. Each run draws a shape and data, evaluates the oracle once and the operator in nine correct
 * ways in f32, and judges each at the error probability of one question. Printed per kind of data, as a table: judgements, alarms by each test,
 * the largest statistic over its limit (z, rms), the coherence test that came nearest (nats over its limit, below 0 is silent), and faults.
 * The second table: faults inside the bound, and how many of them rung 6 notices.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/coherence.h"

enum { MOST = 1 << 20, KINDS = 10, ORDERS = 9, ALPHA_SHARE = 6 };

static const char *const kinds[KINDS] = {"normal", "positive",      "offset 100 sigma", "wide e^+-9",         "two values",
                                         "sorted", "sparse (relu)", "equal rows",       "blocks of one sign", "small integers"};
static const char *const orders[ORDERS] = {"sequential", "reversed",  "pairwise", "8 lanes",  "16 lanes",
                                           "blocks 128", "blocks 32", "fused",    "split-K 4"};

static void fill(vn_rng_t *rng, int kind, double *x, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows * n; ++i) {
        double v = vn_rng_normal(rng);
        if (kind == 1) v = vn_rng_uniform(rng);
        if (kind == 2) v = 1 + 0.01 * v;
        if (kind == 3) v = (v < 0 ? -1 : 1) * exp(18 * vn_rng_uniform(rng) - 9);
        if (kind == 4) v = vn_rng_u64(rng) & 1 ? 0.1 : 0.3;
        if (kind == 5) v = ((double)(i % n) + vn_rng_uniform(rng)) / (double)n - 0.3;
        if (kind == 6) v = v > 1.3 ? v : 0;
        if (kind == 7) v = 0.1 * (double)(i / n + 1);
        if (kind == 8) v = (i % n / 32 & 1 ? -1 : 1) * vn_rng_uniform(rng);
        if (kind == 9) v = (double)(int)(3 * v);
        x[i] = (float)v;
    }
}

static float chain(const float *t, int64_t n, int64_t step) {
    float s = 0;
    for (int64_t i = 0; i < n; i += step) s += t[i];
    return s;
}

static float pairwise(const float *t, int64_t n) {
    if (n <= 8) return chain(t, n, 1);
    const int64_t h = n / 2;
    return pairwise(t, h) + pairwise(t + h, n - h);
}

static float lanes(const float *t, int64_t n, int width) {
    float part[16];
    for (int l = 0; l < width; ++l) part[l] = l < n ? chain(t + l, n - l, width) : 0;
    return chain(part, width, 1);
}

static float blocks(const float *t, int64_t n, int64_t size) {
    float s = 0;
    for (int64_t b = 0; b < n; b += size) s += chain(t + b, n - b < size ? n - b : size, 1);
    return s;
}

/* Terms a[k] b[k]; b NULL: a plain sum. */
static float sum(int order, const double *a, const double *b, int64_t n, float *t) {
    for (int64_t k = 0; k < n; ++k) t[k] = b ? (float)(a[k] * b[k]) : (float)a[k];
    switch (order) {
    case 0: return chain(t, n, 1);
    case 1: {
        float s = 0;
        for (int64_t k = n - 1; k >= 0; --k) s += t[k];
        return s;
    }
    case 2: return pairwise(t, n);
    case 3: return lanes(t, n, 8);
    case 4: return lanes(t, n, 16);
    case 5: return blocks(t, n, 128);
    case 6: return blocks(t, n, 32);
    case 7: {
        float s = 0;
        for (int64_t k = 0; k < n; ++k) s = b ? fmaf((float)a[k], (float)b[k], s) : s + (float)a[k];
        return s;
    }
    default: return blocks(t, n, (n + 3) / 4);
    }
}

typedef struct tally {
    int64_t judged, rms, extreme, together, outside;
    double rms_most, z_most, margin;
} tally_t;

typedef struct problem {
    vn_model_t *model;
    vn_node_t *node;
    vn_value_t *in[2];
    vn_ref_t ref;
    vn_contract_t contract;
    int64_t m, k, n;
    double *a, *b; /* b by columns: n rows of k */
    bool product;
} problem_t;

static void die(const vn_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    exit(2);
}

static vn_value_t *tensor(int rank, const int64_t *dims, const double *x) {
    vn_tensor_t *t;
    vn_error_t err;
    if (vn_tensor_new(VN_F32, rank, dims, &t, &err) != VN_OK) die(&err);
    for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, x[i]);
    return vn_value_tensor(t);
}

static void make(problem_t *p, vn_rng_t *rng, int kind, double *scratch) {
    static const int64_t ms[] = {1, 4, 9, 32, 64}, ks[] = {16, 64, 127, 512, 1000, 4096}, ns[] = {1, 8, 33, 64, 256};
    vn_error_t err = {0};
    do {
        p->m = ms[vn_rng_below(rng, 5)];
        p->k = ks[vn_rng_below(rng, 6)];
        p->n = ns[vn_rng_below(rng, 5)];
    } while (p->m * p->k * p->n > MOST || p->m * p->k > MOST / 4 || p->k * p->n > MOST / 4);
    p->product = vn_rng_u64(rng) & 1;
    if (!p->product) p->m *= p->n; /* rows of a sum */
    if (p->m * p->k > MOST) p->m = MOST / p->k;
    fill(rng, kind, p->a, p->m, p->k);
    const char *const names[] = {"a", "b"}, *out = "y";
    if (vn_model_new(10, &p->model, &err) != VN_OK || vn_model_set_opset(p->model, "", 18, &err) != VN_OK) die(&err);
    p->in[0] = tensor(2, (const int64_t[]){p->m, p->k}, p->a);
    if (p->product) {
        fill(rng, kind, p->b, p->n, p->k);
        for (int64_t j = 0; j < p->n; ++j)
            for (int64_t i = 0; i < p->k; ++i) scratch[i * p->n + j] = p->b[j * p->k + i];
        p->in[1] = tensor(2, (const int64_t[]){p->k, p->n}, scratch);
    } else {
        vn_tensor_t *axes;
        if (vn_tensor_new(VN_I64, 1, (const int64_t[]){1}, &axes, &err) != VN_OK) die(&err);
        vn_tensor_set_i64(axes, 0, 1);
        p->in[1] = vn_value_tensor(axes);
    }
    if (vn_graph_add_node(p->model->graph, "node", p->product ? "MatMul" : "ReduceSum", "", 2, names, 1, &out, &p->node, &err) != VN_OK)
        die(&err);
    vn_contract_builtin("portable", &p->contract);
    if (vn_oracle_node(p->model, p->node, (const vn_value_t *const *)p->in, NULL, &p->contract, VN_WANT_VARIANCE, &p->ref, &err) != VN_OK)
        die(&err);
}

static void drop(problem_t *p) {
    vn_ref_free(&p->ref);
    for (int k = 0; k < 2; ++k) vn_value_free(p->in[k]);
    vn_model_free(p->model);
    p->model = NULL;
}

static void run(const problem_t *p, int order, float *y, float *terms) {
    if (!p->product)
        for (int64_t i = 0; i < p->m; ++i) y[i] = sum(order, p->a + i * p->k, NULL, p->k, terms);
    else
        for (int64_t i = 0; i < p->m; ++i)
            for (int64_t j = 0; j < p->n; ++j) y[i * p->n + j] = sum(order, p->a + i * p->k, p->b + j * p->k, p->k, terms);
}

/* The verdict of the whole ladder; the tests' own figures into the tally. */
static vn_verdict_t judge(const problem_t *p, const float *y, tally_t *t) {
    vn_error_t err = {0};
    vn_tensor_t *x;
    if (vn_tensor_new(VN_F32, p->ref.rank, p->ref.dims, &x, &err) != VN_OK) die(&err);
    memcpy(x->data, y, (size_t)x->count * sizeof *y);
    vn_value_t *v = vn_value_tensor(x);
    const vn_value_t *actual = v;
    vn_question_t q = {.model = p->model,
                       .node = p->node,
                       .inputs = (const vn_value_t *const *)p->in,
                       .contract = &p->contract,
                       .refs = &p->ref,
                       .n_outputs = 1,
                       .actual = &actual,
                       .alpha = 1e-6 / ALPHA_SHARE,
                       .ask = VN_ASK_NONE};
    vn_finding_t f;
    if (vn_judge(&q, &f, &err) != VN_OK) die(&err);
    vn_case_t c = {.q = &q, .ref = &p->ref, .actual = x, .cls = vn_question_class(&q), .f = &f};
    vn_coherence_t together;
    if (vn_measure(&p->ref, x, &c.m, &err) != VN_OK || vn_coherence(&c, &together, &err) != VN_OK) die(&err);
    const vn_fingerprint_t print = vn_fingerprint(&p->ref, &c.m, c.cls, q.alpha);
    t->judged++;
    t->outside += c.m.outside > 0;
    if (f.verdict == VN_SUSPECT) {
        t->rms += print.verdict == VN_PRINT_RMS;
        t->extreme += print.verdict == VN_PRINT_EXTREME;
        t->together += print.verdict == VN_PRINT_OK;
    }
    if (isfinite(print.rms_limit) && print.rms / print.rms_limit > t->rms_most) t->rms_most = print.rms / print.rms_limit;
    if (print.z_max / print.z_limit > t->z_most) t->z_most = print.z_max / print.z_limit;
    if (together.tried && together.margin > t->margin) t->margin = together.margin;
    vn_value_free(v);
    return f.verdict;
}

/* ---- faults inside the bound ---- */

static const char *const faults[] = {"one row x (1 + c)", "each row x (1 + c)",      "each column x (1 + c)",
                                     "all x (1 + c)",     "one lane of 8 x (1 + c)", "one 16 x 16 tile + c",
                                     "all + c",           "bf16 operands",           "truncated sum"};
enum { FAULTS = sizeof faults / sizeof *faults };

/* c is chosen so that the change is `strength` predicted deviations on average. */
static void inject(const problem_t *p, int fault, double strength, vn_rng_t *rng, float *y, float *terms) {
    const int64_t cols = p->product ? p->n : 1, count = p->ref.count;
    double size = 0, sigma = 0;
    for (int64_t i = 0; i < count; ++i) {
        size += fabs(p->ref.value[i]);
        sigma += sqrt(p->ref.var[i]);
    }
    const double c = strength * sigma / size, offset = strength * sigma / (double)count;
    double factor[4096];
    for (int k = 0; k < 4096; ++k) factor[k] = vn_rng_u64(rng) & 1 ? c : -c;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t row = i / cols, col = i % cols;
        double v = y[i];
        if (fault == 0 && row == p->m / 2) v *= 1 + c;
        if (fault == 1) v *= 1 + factor[row % 4096];
        if (fault == 2) v *= 1 + factor[col % 4096];
        if (fault == 3) v *= 1 + c;
        if (fault == 4 && col % 8 == 3) v *= 1 + c;
        if (fault == 5 && row / 16 == 0 && col / 16 == 0) v += offset;
        if (fault == 6) v += offset;
        if (fault == 7) {
            double s = 0;
            for (int64_t k = 0; k < p->k; ++k) {
                const double a = vn_round_to(VN_FMT_BF16, p->a[row * p->k + k], VN_RNE, false);
                s = (float)(s + a * (p->product ? vn_round_to(VN_FMT_BF16, p->b[col * p->k + k], VN_RNE, false) : 1));
            }
            v = s;
        }
        if (fault == 8) {
            double s = 0;
            for (int64_t k = 0; k < p->k; ++k)
                s = vn_round_to(VN_FMT_F32, s + p->a[row * p->k + k] * (p->product ? p->b[col * p->k + k] : 1), VN_RZ, false);
            v = s;
        }
        y[i] = (float)v;
    }
    (void)terms;
}

int main(int argc, char **argv) {
    const int64_t runs = argc > 1 ? strtol(argv[1], NULL, 10) : 60, seed = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    if (runs < 1 || seed < 0) return fprintf(stderr, "usage: bench_calibration [runs per row [seed]]\n"), 2;
    problem_t p = {.a = vn_alloc(MOST, sizeof(double)), .b = vn_alloc(MOST, sizeof(double))};
    double *scratch = vn_alloc(MOST, sizeof *scratch);
    float *y = vn_alloc(MOST, sizeof *y), *terms = vn_alloc(MOST, sizeof *terms);
    if (!p.a || !p.b || !scratch || !y || !terms) return fprintf(stderr, "no memory\n"), 2;
    vn_rng_t rng;
    vn_rng_seed(&rng, (uint64_t)seed);
    printf("| data | judgements | outside | alarms: rms | extreme | coherence | largest rms / limit | largest z / limit | nearest "
           "coherence, nats |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < KINDS; ++kind) {
        tally_t t = {.margin = -INFINITY};
        for (int64_t r = 0; r < runs; ++r) {
            make(&p, &rng, kind, scratch);
            for (int o = 0; o < ORDERS; ++o) {
                run(&p, o, y, terms);
                const vn_verdict_t v = judge(&p, y, &t);
                if (v == VN_SUSPECT)
                    fprintf(stderr, "alarm: %s, %s, %s m %d k %d n %d\n", kinds[kind], orders[o], p.product ? "product" : "sum", (int)p.m,
                            (int)p.k, (int)p.n);
            }
            drop(&p);
        }
        printf("| %s | %lld | %lld | %lld | %lld | %lld | %.2f | %.2f | %.1f |\n", kinds[kind], (long long)t.judged, (long long)t.outside,
               (long long)t.rms, (long long)t.extreme, (long long)t.together, t.rms_most, t.z_most, t.margin);
    }
    static const double strengths[] = {1, 3, 10, 100};
    printf("\n| fault | 1 deviation | 3 | 10 | 100 |\n|---|---|---|---|---|\n");
    for (int f = 0; f < FAULTS; ++f) {
        printf("| %s ", faults[f]);
        for (int s = 0; s < (f < 7 ? 4 : 1); ++s) {
            int64_t caught = 0, named = 0, tried = 0;
            for (int64_t r = 0; r < runs; ++r) {
                tally_t t = {0};
                do {
                    if (p.model) drop(&p);
                    make(&p, &rng, 0, scratch);
                } while (p.ref.count < 1024 || (f == 0 && (!p.product || p.n < 64)) || ((f == 2 || f == 4 || f == 5) && !p.product));
                run(&p, (int)(r % ORDERS), y, terms);
                inject(&p, f, strengths[s], &rng, y, terms);
                const vn_verdict_t v = judge(&p, y, &t);
                tried++;
                caught += v == VN_SUSPECT;
                named += v == VN_BUG;
                drop(&p);
            }
            printf("| %lld + %lld of %lld ", (long long)caught, (long long)named, (long long)tried);
        }
        printf("|\n");
    }
    vn_free(p.a);
    vn_free(p.b);
    vn_free(scratch);
    vn_free(y);
    vn_free(terms);
    return 0;
}
