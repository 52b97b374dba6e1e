/* Names for indices, positions and rotations (claims NAME-1, NAME-INDEX-1, NAME-POSITION-1). Expected values are made by plain loops. */
#include "judge/name_case.h"

#define OURS                                                                                                                           \
    "negative-index chunk-offset position-offset duplicates-dropped term-dropped interleave rotation cos-sin rotary-part argmax-last " \
    "sign-lost"

static double x[NC_MAX], y[NC_MAX], u[NC_MAX], id[NC_MAX], cosine[256], sine[256];

static int64_t wrap(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

VN_TEST(index, gather_negative_and_shifted) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 9, W = 5, M = 6 };
    const double ids[M] = {1, -2, 8, -9, 3, -1};
    jc_t c;
    nc_fill(&rng, x, N * W, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F16, JC_DIMS(N, W), x);
    jc_in(t, &c, VN_I64, JC_DIMS(M), ids);
    jc_op(t, &c, "Gather", 13, 1);
    jc_oracle(t, &c);
    for (int way = 0; way < 4; ++way) {
        for (int i = 0; i < M * W; ++i) {
            const int64_t n = (int64_t)ids[i / W], right = wrap(n, N);
            const int64_t from = way == 0   ? (n < 0 ? 0 : n)
                                 : way == 1 ? (n < 0 ? N - 1 : n)
                                 : way == 2 ? right
                                            : (right + 1 < N ? right + 1 : N - 1);
            y[i] = way == 2 && n < 0 ? 0 : x[from * W + i % W];
        }
        VN_ASSERT_CAUSE(t, &c, y, way < 3 ? "negative-index" : "position-offset");
    }
    for (int i = 0; i < M * W; ++i) y[i] = x[wrap((int64_t)ids[i / W], N) * W + i % W];
    y[4] += 1; /* one element of a positive index */
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(index, gather_elements_in_chunks) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 900, M = 40 };
    jc_t c;
    nc_fill(&rng, x, 2 * N, 1);
    for (int i = 0; i < 2 * M; ++i) id[i] = (double)vn_rng_below(&rng, N);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(2, N), x);
    jc_in(t, &c, VN_I32, JC_DIMS(2, M), id);
    jc_op(t, &c, "GatherElements", 13, 1);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "axis", 1, &c.err), c.err);
    jc_oracle(t, &c);
    for (int i = 0; i < 2 * M; ++i) y[i] = x[i / M * N + (int64_t)id[i] % 256];
    VN_ASSERT_CAUSE(t, &c, y, "chunk-offset");
    for (int i = 0; i < 2 * M; ++i) y[i] = vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* ScatterND of rows with add: rows 1 and 3 have several updates, one index is negative. */
VN_TEST(index, scatter_loses_updates) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 5, W = 4, M = 6 };
    const double ids[M] = {1, 3, 1, -5, 3, 3};
    jc_t c;
    nc_fill(&rng, x, N * W, 1);
    nc_fill(&rng, u, M * W, 1);
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(N, W), x);
    jc_in(t, &c, VN_I64, JC_DIMS(M, 1), ids);
    jc_in(t, &c, VN_F32, JC_DIMS(M, W), u);
    jc_op(t, &c, "ScatterND", 18, 1);
    VN_ASSERT_OK_ERR(t, vn_node_set_string(c.model, c.node, "reduction", "add", &c.err), c.err);
    jc_oracle(t, &c);
    for (int way = 0; way < 5; ++way) { /* all, last, first, a mixture, negative dropped */
        memcpy(y, x, N * W * sizeof *y);
        for (int m = 0; m < M; ++m)
            for (int w = 0; w < W; ++w) {
                const int64_t to = wrap((int64_t)ids[m], N);
                bool later = false, earlier = false;
                for (int n = 0; n < M; ++n) later |= n > m && ids[n] == ids[m], earlier |= n < m && ids[n] == ids[m];
                const bool keep = way == 0 || (way == 1 && !later) || (way == 2 && !earlier) || (way == 3 && (w % 2 ? !later : !earlier)) ||
                                  (way == 4 && ids[m] >= 0);
                if (keep) y[to * W + w] += u[m * W + w];
            }
        if (way == 0) VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
        else VN_ASSERT_CAUSE(t, &c, y, way == 4 ? "negative-index" : "duplicates-dropped");
    }
    y[0] += 0.25;
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* ---- rotary embedding: [2, 2, 5, 6], four of six components rotated ---- */

enum { B = 2, H = 2, T = 5, D = 6, R = 4, ROWS = 20 };

static void rotate(const double *ids, int by, bool interleaved, double sign, double *out) {
    for (int i = 0; i < B * H * T * D; ++i) {
        const int at = i % D, b = i / (H * T * D), token = i / D % T, row = (int)ids[b * T + token] + by;
        if (at >= R) {
            out[i] = x[i];
            continue;
        }
        const int p = interleaved ? at / 2 : at % (R / 2), one = interleaved ? 2 * p : p, two = interleaved ? one + 1 : p + R / 2;
        const double c = cosine[row * (R / 2) + p], s = sign * sine[row * (R / 2) + p], x1 = x[i - at + one], x2 = x[i - at + two];
        out[i] = at == one ? c * x1 - s * x2 : s * x1 + c * x2;
    }
}

VN_TEST(rotary, positions_and_layout) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    nc_fill(&rng, x, B * H * T * D, 1);
    for (int i = 0; i < ROWS * R / 2; ++i) {
        const double angle = (i / (R / 2)) * (i % (R / 2) ? 0.1 : 1);
        cosine[i] = (float)cos(angle), sine[i] = (float)sin(angle);
    }
    for (int i = 0; i < B * T; ++i) id[i] = i % T + (i / T ? 7 : 3);
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(B, H, T, D), x);
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, R / 2), cosine);
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, R / 2), sine);
    jc_in(t, &c, VN_I64, JC_DIMS(B, T), id);
    jc_op(t, &c, "RotaryEmbedding", 23, 1);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "rotary_embedding_dim", R, &c.err), c.err);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "interleaved", 1, &c.err), c.err);
    jc_oracle(t, &c);
    rotate(id, 0, true, 1, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    static const int by[] = {1, -1, 5};
    for (size_t i = 0; i < sizeof by / sizeof *by; ++i) {
        rotate(id, by[i], true, 1, y);
        VN_ASSERT_CAUSE(t, &c, y, "position-offset");
    }
    for (int i = 0; i < B * T; ++i) u[i] = i % T; /* position_ids ignored */
    rotate(u, 0, true, 1, y);
    VN_ASSERT_CAUSE(t, &c, y, "position-offset");
    rotate(id, 0, false, 1, y);
    VN_ASSERT_CAUSE(t, &c, y, "interleave-ignored");
    rotate(id, 0, true, -1, y);
    VN_ASSERT_CAUSE(t, &c, y, "rotation-reversed");
    for (int i = 0; i < B * H * T * D; ++i) y[i] = vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* TopK along the first axis: the first places that reach the threshold, distinct values, equals from behind. */
VN_TEST(index, topk_rules) {
    enum { N = 8, W = 2, K = 3 };
    const double line[N] = {1, 5, 3, 5, 2, 7, 5, 3}, k[1] = {K};
    static const double reach[K] = {5, 5, 7}, distinct[K] = {7, 5, 3}, ties[K] = {5, 6, 3};
    jc_t c;
    jc_new(t, &c, "ieee");
    for (int i = 0; i < N * W; ++i) x[i] = line[i % W ? N - 1 - i / W : i / W];
    jc_in(t, &c, VN_F32, JC_DIMS(N, W), x);
    jc_in(t, &c, VN_I64, JC_DIMS(1), k);
    jc_op(t, &c, "TopK", 11, 2);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "axis", 0, &c.err), c.err);
    jc_oracle(t, &c);
    /* the second column is the first one reversed: its own first three that reach 5 are 5, 7, 5 */
    for (int i = 0; i < K * W; ++i) y[i] = i % W ? (i / W == 1 ? 7 : 5) : reach[i / W];
    VN_ASSERT_CAUSE(t, &c, y, "duplicates-dropped");
    for (int i = 0; i < K * W; ++i) y[i] = distinct[i / W];
    VN_ASSERT_CAUSE(t, &c, y, "duplicates-dropped");
    jc_gives(&c, 0, vn_tensor_retain(c.refs[0].tensor));
    for (int i = 0; i < K * W; ++i) y[i] = i % W ? (i / W == 0 ? 2 : i / W == 1 ? 6 : 4) : i / W == 0 ? 5 : ties[i / W];
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(K, W), y));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c) + 1, VN_BUG);
    VN_ASSERT(t, strcmp(c.found[1].cause, "argmax-last") == 0);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(index, gather_negative_and_shifted), VN_CASE(index, gather_elements_in_chunks), VN_CASE(index, scatter_loses_updates),
             VN_CASE(index, topk_rules), VN_CASE(rotary, positions_and_layout))
