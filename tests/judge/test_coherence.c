/* Claims COHERE-1 and COHERE-2: silent on correct schedules, also where roundings are not independent; it speaks for faults far inside the bound. */
#include "judge/coherence.h"

#include "judge/judge_case.h"

enum { M = 24, K = 192, N = 128 };
static double a[M * K], b[K * N], y[M * N], kept[M * N];

typedef enum fault { ROW, COLUMN, LANE, TILE, OFFSET, RATIO, EACH_COLUMN, FAULTS } fault_t;

/* Adds what the elements (i, j) of a fault have in common, of `size` predicted deviations. */
static void inject(fault_t fault, const vn_ref_t *r, double size, double *out) {
    double ratio = 0;
    for (int i = 0; i < M * N; ++i) ratio += sqrt(r->var[i]) / (M * N);
    double mean = 0;
    for (int i = 0; i < M * N; ++i) mean += fabs(r->value[i]) / (M * N);
    ratio *= size / mean;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            const double v = r->value[i * N + j], offset = size * sqrt(r->var[i * N + j]);
            double *x = &out[i * N + j];
            if (fault == ROW && i == 5) *x += v * ratio;
            if (fault == COLUMN && j == 77) *x += offset;
            if (fault == LANE && j % 16 == 9) *x += v * ratio;
            if (fault == TILE && i / 16 == 0 && j / 16 == 3) *x += offset;
            if (fault == OFFSET) *x += offset;
            if (fault == RATIO) *x += v * ratio;
            if (fault == EACH_COLUMN) *x += v * ratio * ((j * 2654435761u >> 7) & 1 ? 1 : -1);
        }
}

static vn_finding_t judged(vn_test_t *t, jc_t *c, const double *x) {
    jc_gives(c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), x));
    return *jc_judge(t, c);
}

VN_TEST(coherence, what_errors_share_is_told) {
    static const char *const says[FAULTS] = {
        "row 5 along axis 1", NULL, "index 9 modulo 16", "tile at row 0, column 48", "the whole output", "the whole output", "each column"};
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_matmul(t, &c, "portable", M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, kept);
    vn_finding_t f = judged(t, &c, kept);
    VN_ASSERT_PASSES(t, &f);
    VN_ASSERT(t, strstr(f.rungs, "coherence none") != NULL);
    for (int k = 0; k < FAULTS; ++k) {
        if (!says[k]) continue; /* a column has 24 elements: too few signs to prove anything */
        memcpy(y, kept, sizeof y);
        inject((fault_t)k, &c.refs[0], 2, y);
        f = judged(t, &c, y);
        VN_ASSERT_LT(t, f.error_over_bound, 0.3);                                        /* far inside */
        const bool accuses = strstr(f.rungs, "the whole output share a factor") != NULL; /* COHERE-3 */
        const char *told = accuses ? f.words : f.note;
        if (accuses) VN_ASSERT_VERDICT(t, &f, VN_SUSPECT);
        else VN_ASSERT_PASSES(t, &f);
        if (!strstr(told, says[k])) vn_test_fail(t, __FILE__, __LINE__, "fault %d: '%s' says nothing of '%s'", k, told, says[k]);
        if (!accuses) VN_ASSERT(t, strncmp(f.note, "coherent-errors: ", 17) == 0);
    }
    jc_free(&c);
}

/* The same sizes without anything in common: round-off of another size, which is the rms's business and inside its limit. */
VN_TEST(coherence, larger_noise_is_not_coherent) {
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_matmul(t, &c, "portable", M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, y);
    for (int i = 0; i < M * N; ++i) y[i] += 2 * sqrt(c.refs[0].var[i]) * vn_rng_normal(&rng);
    const vn_finding_t f = judged(t, &c, y);
    VN_ASSERT_PASSES(t, &f);
    jc_free(&c);
}

VN_TEST(coherence, correct_orders_on_awkward_data_are_no_suspects) {
    vn_rng_t rng = vn_test_rng(t);
    for (int kind = 0; kind < JC_DATA + 3; ++kind) {
        jc_t c;
        jc_fill(&rng, kind < JC_DATA ? (jc_data_t)kind : JC_NORMAL, a, M * K);
        jc_fill(&rng, kind < JC_DATA ? (jc_data_t)kind : JC_NORMAL, b, K * N);
        if (kind == JC_DATA) /* rows repeat, one of them turned, one scaled by a power of two */
            for (int i = 0; i < M * K; ++i) a[i] = a[i % K] * (i / K == 3 ? -1 : i / K == 7 ? 4 : 1);
        if (kind == JC_DATA + 1)
            for (int i = 0; i < M * K; ++i) a[i] = 0.1f; /* one value */
        if (kind == JC_DATA + 2)
            for (int i = 0; i < K * N; ++i) b[i] = b[i] > 1.2 ? b[i] : 0; /* nine of ten are zero */
        jc_matmul(t, &c, "portable", M, K, N, a, b);
        for (int order = 0; order < JC_ORDERS; ++order) {
            const jc_arithmetic_t right = {.acc = VN_FMT_F32, .order = (jc_order_t)order};
            jc_product(&right, M, K, N, a, b, y);
            const vn_finding_t f = judged(t, &c, y);
            if (!vn_verdict_passes(f.verdict))
                vn_test_fail(t, __FILE__, __LINE__, "data %d, order %d: %s\n    %s\n    %s", kind, order, vn_verdict_name(f.verdict),
                             f.words, f.rungs);
        }
        jc_free(&c);
    }
}

/* A mean multiplies by a rounded 1/n: one factor for all, up to 2u, that belongs to the operator. Ten times as much does not. */
VN_TEST(coherence, a_rounded_reciprocal_is_legitimate) {
    enum { ROWS = 300, LONG = 48 };
    static double x[ROWS * LONG], sums[ROWS];
    vn_rng_t rng = vn_test_rng(t);
    jc_fill(&rng, JC_POSITIVE, x, ROWS * LONG);
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, LONG), x);
    const double axis[] = {1};
    jc_in(t, &c, VN_I64, JC_DIMS(1), axis);
    jc_op(t, &c, "ReduceMean", 18, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
    jc_oracle(t, &c);
    const float reciprocal = (float)(1.0 / LONG);
    for (int fault = 0; fault < 2; ++fault) {
        for (int r = 0; r < ROWS; ++r)
            sums[r] = (float)(jc_sum(VN_FMT_F32, x + r * LONG, LONG, JC_PAIRWISE) * reciprocal * (fault ? 1 + 0x1p-20 : 1));
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(ROWS), sums));
        const vn_finding_t *f = jc_judge(t, &c);
        if (fault) VN_ASSERT_VERDICT(t, f, VN_SUSPECT);
        else VN_ASSERT_PASSES(t, f);
    }
    jc_free(&c);
}

VN_TEST(coherence, allocations_that_fail_are_errors) {
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_matmul(t, &c, "portable", M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, y);
    inject(RATIO, &c.refs[0], 4, y);
    vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(M, N), y);
    const vn_question_t q = jc_question(&c);
    vn_case_t k = {.q = &q, .ref = &c.refs[0], .actual = x, .cls = VN_CLASS_CONTRACTION, .f = &c.found[0]};
    VN_ASSERT_OK(t, vn_measure(&c.refs[0], x, &k.m, NULL));
    vn_status_t s = VN_ERR_NOMEM;
    vn_coherence_t out;
    for (int n = 1; s == VN_ERR_NOMEM && n < 200; ++n) {
        vn_alloc_fail_at(n);
        s = vn_coherence(&k, &out, NULL);
        vn_alloc_fail_at(0);
    }
    VN_ASSERT_OK(t, s);
    VN_ASSERT(t, out.found && out.share > 0.5 && out.twins < out.share / 2);
    vn_tensor_free(x);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(coherence, what_errors_share_is_told), VN_CASE(coherence, larger_noise_is_not_coherent),
             VN_CASE(coherence, correct_orders_on_awkward_data_are_no_suspects), VN_CASE(coherence, a_rounded_reciprocal_is_legitimate),
             VN_CASE(coherence, allocations_that_fail_are_errors))
