/* Names inside small graphs: a scale, a mask, a node left out; a whole step that round-off decides (claims NAME-1, NAME-STEP-1). */
#include "judge/judge_case.h"

enum { S = 5, K = 7, D = 4 };

typedef struct graph {
    vn_model_t *model;
    vn_value_t *in[4];
    int n_in;
    vn_contract_t contract;
    vn_ref_t ref;
    vn_finding_t found;
    vn_error_t err;
} graph_t;

static double q[S * D], kt[D * K], v[K * D], mask[S * K], y[S * D];

static void begin(vn_test_t *t, graph_t *g) {
    memset(g, 0, sizeof *g);
    VN_ASSERT_OK_ERR(t, vn_contract_parse("portable", &g->contract, &g->err), g->err);
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &g->model, &g->err), g->err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(g->model, "", 21, &g->err), g->err);
}

static void input(vn_test_t *t, graph_t *g, const char *name, vn_dtype_t type, const int64_t *dims, const double *x) {
    vn_tensor_t *a = jc_tensor(t, type, dims, x);
    VN_ASSERT_OK_ERR(t, vn_graph_add_input(g->model->graph, name, type, a->rank, a->dims, &g->err), g->err);
    g->in[g->n_in++] = vn_value_tensor(a);
}

static void constant(vn_test_t *t, graph_t *g, const char *name, vn_dtype_t type, const int64_t *dims, const double *x) {
    vn_tensor_t *a = jc_tensor(t, type, dims, x);
    VN_ASSERT_OK_ERR(t, vn_graph_add_init(g->model->graph, name, a, &g->err), g->err);
    vn_tensor_free(a);
}

static void node(vn_test_t *t, graph_t *g, const char *op, const char *a, const char *b, const char *out) {
    const char *const in[2] = {a, b};
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(g->model->graph, "", op, "", b ? 2 : 1, in, 1, &out, NULL, &g->err), g->err);
}

static void finish(vn_test_t *t, graph_t *g) {
    VN_ASSERT_OK_ERR(t, vn_graph_add_output(g->model->graph, "y", VN_UNDEFINED, -1, NULL, &g->err), g->err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(g->model, &g->err), g->err);
    vn_bundle_t in = {0};
    for (int k = 0; k < g->n_in; ++k)
        VN_ASSERT_OK_ERR(t, vn_bundle_add(&in, g->model->graph->inputs[k].name, g->in[k]->tensor, &g->err), g->err);
    VN_ASSERT_OK_ERR(t, vn_oracle_region(g->model, &in, &g->contract, VN_WANT_VARIANCE, &g->ref, &g->err), g->err);
    vn_bundle_free(&in);
}

static const char *cause(vn_test_t *t, graph_t *g, const double *x) {
    vn_tensor_t *a;
    VN_ASSERT_OK(t, vn_tensor_new(g->ref.tensor->dtype, g->ref.tensor->rank, g->ref.tensor->dims, &a, NULL));
    for (int64_t i = 0; i < a->count; ++i)
        if (vn_dtype_is_float(a->dtype)) vn_tensor_set_f64(a, i, x[i]);
        else vn_tensor_set_i64(a, i, (int64_t)x[i]);
    vn_value_t *actual = vn_value_tensor(a);
    const vn_question_t question = {.model = g->model,
                                    .inputs = (const vn_value_t *const *)g->in,
                                    .contract = &g->contract,
                                    .refs = &g->ref,
                                    .n_outputs = 1,
                                    .actual = (const vn_value_t *const *)&actual,
                                    .alpha = 1e-6 / 6,
                                    .effort = VN_EFFORT_NORMAL};
    VN_ASSERT_OK_ERR(t, vn_judge(&question, &g->found, &g->err), g->err);
    vn_value_free(actual);
    return g->found.cause;
}

static void end(graph_t *g) {
    for (int k = 0; k < g->n_in; ++k) vn_value_free(g->in[k]);
    vn_ref_free(&g->ref);
    vn_model_free(g->model);
}

#define EXPECT(t, g, x, wanted)                                                                                                            \
    do {                                                                                                                                   \
        const char *c_ = cause(t, g, x);                                                                                                   \
        if (strcmp(c_, wanted) != 0)                                                                                                       \
            vn_test_fail(t, __FILE__, __LINE__, "%s '%s', expected '%s'\n    %s\n    %s", vn_verdict_name((g)->found.verdict), c_, wanted, \
                         (g)->found.words, (g)->found.rungs);                                                                              \
    } while (0)

/* softmax(Q K^T scale + mask) V, or with what `m` holds for a mask. */
static void attend(double scale, const double *m) {
    for (int i = 0; i < S; ++i) {
        double s[K], top = -INFINITY, sum = 0;
        for (int j = 0; j < K; ++j) {
            s[j] = 0;
            for (int c = 0; c < D; ++c) s[j] += q[i * D + c] * kt[c * K + j];
            s[j] = s[j] * scale + (m ? m[i * K + j] : 0);
            top = fmax(top, s[j]);
        }
        for (int j = 0; j < K; ++j) sum += s[j] = exp(s[j] - top);
        for (int c = 0; c < D; ++c) {
            y[i * D + c] = 0;
            for (int j = 0; j < K; ++j) y[i * D + c] += s[j] / sum * v[j * D + c];
        }
    }
}

static void fill(vn_rng_t *rng) {
    for (int i = 0; i < S * D; ++i) q[i] = (float)vn_rng_normal(rng);
    for (int i = 0; i < D * K; ++i) kt[i] = (float)vn_rng_normal(rng), v[i] = (float)vn_rng_normal(rng);
}

static void band(double *m, int width, int ahead) {
    for (int i = 0; i < S * K; ++i) {
        const int last = i / K + K - S + ahead;
        m[i] = i % K <= last && i % K > last - width ? 0 : -INFINITY;
    }
}

VN_TEST(scores, attention_of_nodes) {
    vn_rng_t rng = vn_test_rng(t);
    const double scale[1] = {0.375};
    double other[S * K];
    graph_t g;
    fill(&rng);
    band(mask, 3, 0);
    begin(t, &g);
    input(t, &g, "q", VN_F32, JC_DIMS(S, D), q);
    input(t, &g, "k", VN_F32, JC_DIMS(D, K), kt);
    input(t, &g, "v", VN_F32, JC_DIMS(K, D), v);
    constant(t, &g, "s", VN_F32, JC_DIMS(1), scale);
    constant(t, &g, "m", VN_F32, JC_DIMS(S, K), mask);
    node(t, &g, "MatMul", "q", "k", "a");
    node(t, &g, "Mul", "a", "s", "b");
    node(t, &g, "Add", "b", "m", "c");
    node(t, &g, "Softmax", "c", NULL, "p");
    node(t, &g, "MatMul", "p", "v", "y");
    finish(t, &g);
    attend(0.375, mask);
    (void)cause(t, &g, y);
    VN_ASSERT_PASSES(t, &g.found);
    attend(1, mask);
    EXPECT(t, &g, y, "scale-missing");
    attend(0.375 * 0.375, mask);
    EXPECT(t, &g, y, "scale-twice");
    attend(0.375, NULL);
    EXPECT(t, &g, y, "mask-ignored");
    band(other, 4, 0);
    attend(0.375, other);
    EXPECT(t, &g, y, "window-off-by-one");
    band(other, 2, 0);
    attend(0.375, other);
    EXPECT(t, &g, y, "window-off-by-one");
    for (int i = 0; i < S * D; ++i) y[i] = vn_rng_normal(&rng);
    EXPECT(t, &g, y, "");
    end(&g);
}

VN_TEST(scores, chosen_scores) {
    vn_rng_t rng = vn_test_rng(t);
    double low[1] = {-INFINITY}, a[S * K], keep[S * K], out[S * K];
    graph_t g;
    for (int i = 0; i < S * K; ++i) a[i] = (float)vn_rng_normal(&rng), keep[i] = i % K <= i / K;
    begin(t, &g);
    input(t, &g, "a", VN_F32, JC_DIMS(S, K), a);
    constant(t, &g, "keep", VN_BOOL, JC_DIMS(S, K), keep);
    constant(t, &g, "low", VN_F32, JC_DIMS(1), low);
    const char *const in[3] = {"keep", "a", "low"}, *const to = "b";
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(g.model->graph, "", "Where", "", 3, in, 1, &to, NULL, &g.err), g.err);
    node(t, &g, "Softmax", "b", NULL, "y");
    finish(t, &g);
    for (int way = 0; way < 3; ++way) { /* each query sees one key more; all keys; what it must not see */
        for (int i = 0; i < S; ++i) {
            double sum = 0;
            for (int j = 0; j < K; ++j) sum += out[i * K + j] = (way == 0 ? j <= i + 1 : way == 1 ? 1 : j > i) ? exp(a[i * K + j]) : 0;
            for (int j = 0; j < K; ++j) out[i * K + j] /= sum;
        }
        EXPECT(t, &g, out, way == 0 ? "causal-off-by-one" : way == 1 ? "mask-ignored" : "mask-inverted");
    }
    end(&g);
}

VN_TEST(scores, node_left_out) {
    vn_rng_t rng = vn_test_rng(t);
    double a[S * D], out[S * K];
    graph_t g;
    fill(&rng);
    memcpy(a, q, sizeof a);
    begin(t, &g);
    input(t, &g, "q", VN_F32, JC_DIMS(S, D), a);
    input(t, &g, "k", VN_F32, JC_DIMS(D, K), kt);
    node(t, &g, "MatMul", "q", "k", "a");
    node(t, &g, "Relu", "a", NULL, "y");
    finish(t, &g);
    for (int i = 0; i < S * K; ++i) {
        out[i] = 0;
        for (int c = 0; c < D; ++c) out[i] += a[i / K * D + c] * kt[c * K + i % K];
    }
    EXPECT(t, &g, out, "operator-missing:Relu");
    out[3] += 1;
    VN_ASSERT(t, strncmp(cause(t, &g, out), "operator-missing", 16) != 0);
    end(&g);
}

/* The sum of a softmax is one up to round-off; its floor is 0 or 1, and either is right. */
VN_TEST(scores, discrete_step) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 6, M = 30 };
    double a[N * M], axes[1] = {1}, out[N];
    graph_t g;
    for (int i = 0; i < N * M; ++i) a[i] = (float)vn_rng_normal(&rng);
    begin(t, &g);
    input(t, &g, "a", VN_F32, JC_DIMS(N, M), a);
    constant(t, &g, "axes", VN_I64, JC_DIMS(1), axes);
    node(t, &g, "Softmax", "a", NULL, "p");
    node(t, &g, "ReduceSum", "p", "axes", "s");
    node(t, &g, "Floor", "s", NULL, "y");
    finish(t, &g);
    for (int i = 0; i < N; ++i) out[i] = i % 2;
    EXPECT(t, &g, out, "discrete-step");
    VN_ASSERT(t, !vn_verdict_fails(g.found.verdict));
    out[2] = 5; /* no execution gives that */
    VN_ASSERT(t, strcmp(cause(t, &g, out), "discrete-step") != 0);
    VN_ASSERT(t, vn_verdict_fails(g.found.verdict));
    end(&g);
}

VN_TEST_MAIN(VN_CASE(scores, attention_of_nodes), VN_CASE(scores, chosen_scores), VN_CASE(scores, node_left_out),
             VN_CASE(scores, discrete_step))
