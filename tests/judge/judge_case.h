/* judge_case.h -- one node, its oracle and what a back end is said to have returned, put as a question to the judge. */
#ifndef VN_TEST_JUDGE_CASE_H
#define VN_TEST_JUDGE_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"
#include "support/vn_test.h"
#include "vernier/judge.h"

enum { JC_MAX = 9 };

typedef struct jc {
    vn_model_t *model;
    vn_node_t *node;
    int n_in, n_out;
    vn_value_t *in[JC_MAX], *actual[JC_MAX], *again[JC_MAX];
    bool repeated; /* `again` is a second run */
    int64_t poison[JC_MAX];
    bool guard[JC_MAX];
    vn_contract_t contract;
    vn_ref_t refs[JC_MAX];
    vn_finding_t found[JC_MAX];
    vn_error_t err;
} jc_t;

static const char *const jc_in_names[JC_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"}, *const jc_out_names[JC_MAX] = {"y", "z", "w",
                                                                                                                             "v", "u", "t",
                                                                                                                             "s", "r", "q"};
#define JC_DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})

static inline int jc_rank(const int64_t *dims) {
    int rank = 0;
    while (dims[rank] >= 0) ++rank;
    return rank;
}

/** Tensor of the given numbers, rounded to the type; dims end with -1. */
static inline vn_tensor_t *jc_tensor(vn_test_t *t, vn_dtype_t type, const int64_t *dims, const double *x) {
    vn_tensor_t *v;
    VN_ASSERT_OK(t, vn_tensor_new(type, jc_rank(dims), dims, &v, NULL));
    for (int64_t i = 0; i < v->count; ++i)
        if (vn_dtype_is_float(type)) vn_tensor_set_f64(v, i, x[i]);
        else vn_tensor_set_i64(v, i, (int64_t)x[i]);
    return v;
}

static inline void jc_new(vn_test_t *t, jc_t *c, const char *contract) {
    memset(c, 0, sizeof *c);
    VN_ASSERT_OK_ERR(t, vn_contract_parse(contract, &c->contract, &c->err), c->err);
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &c->model, &c->err), c->err);
}

/** Next input. Returns the tensor, owned by the case. */
static inline vn_tensor_t *jc_in(vn_test_t *t, jc_t *c, vn_dtype_t type, const int64_t *dims, const double *x) {
    vn_tensor_t *v = jc_tensor(t, type, dims, x);
    VN_ASSERT_OK_ERR(t, vn_graph_add_input(c->model->graph, jc_in_names[c->n_in], type, v->rank, v->dims, &c->err), c->err);
    c->in[c->n_in++] = vn_value_tensor(v);
    return v;
}

/** The node, after its inputs; attributes may be set before jc_oracle. */
static inline void jc_op(vn_test_t *t, jc_t *c, const char *op, int64_t version, int n_out) {
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(c->model, "", version, &c->err), c->err);
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(c->model->graph, "n", op, "", c->n_in, jc_in_names, n_out, jc_out_names, &c->node, &c->err),
                     c->err);
    for (int k = 0; k < n_out; ++k)
        VN_ASSERT_OK_ERR(t, vn_graph_add_output(c->model->graph, jc_out_names[k], VN_UNDEFINED, -1, NULL, &c->err), c->err);
    c->n_out = n_out;
}

static inline void jc_oracle(vn_test_t *t, jc_t *c) {
    VN_ASSERT_OK_ERR(t, vn_model_finish(c->model, &c->err), c->err);
    c->node = &c->model->graph->nodes[0];
    VN_ASSERT_OK_ERR(
        t, vn_oracle_node(c->model, c->node, (const vn_value_t *const *)c->in, NULL, &c->contract, VN_WANT_VARIANCE, c->refs, &c->err),
        c->err);
}

/** The back end's output k (takes over v; NULL: not returned). */
static inline void jc_gives(jc_t *c, int k, vn_tensor_t *v) {
    vn_value_free(c->actual[k]);
    c->actual[k] = v ? vn_value_tensor(v) : NULL;
}
/** Output k of the second run. */
static inline void jc_gives_again(jc_t *c, int k, vn_tensor_t *v) {
    vn_value_free(c->again[k]);
    c->again[k] = v ? vn_value_tensor(v) : NULL;
    c->repeated = true;
}

static inline vn_question_t jc_question(const jc_t *c) {
    return (vn_question_t){.model = c->model,
                           .node = c->node,
                           .inputs = (const vn_value_t *const *)c->in,
                           .contract = &c->contract,
                           .refs = c->refs,
                           .n_outputs = c->n_out,
                           .actual = (const vn_value_t *const *)c->actual,
                           .actual2 = c->repeated ? (const vn_value_t *const *)c->again : NULL,
                           .poison_left = c->poison,
                           .guard_broken = c->guard,
                           .alpha = 1e-6 / 6,
                           .effort = VN_EFFORT_NORMAL};
}

static inline vn_finding_t *jc_judge(vn_test_t *t, jc_t *c) {
    const vn_question_t q = jc_question(c);
    VN_ASSERT_OK_ERR(t, vn_judge(&q, c->found, &c->err), c->err);
    return &c->found[0];
}

static inline void jc_free(jc_t *c) {
    for (int k = 0; k < JC_MAX; ++k) {
        vn_value_free(c->in[k]);
        vn_value_free(c->actual[k]);
        vn_value_free(c->again[k]);
        vn_ref_free(&c->refs[k]);
    }
    vn_model_free(c->model);
}

#define VN_ASSERT_VERDICT(t, finding, wanted)                                                                                            \
    do {                                                                                                                                 \
        const vn_finding_t *f_ = (finding);                                                                                              \
        if (f_->verdict != (wanted))                                                                                                     \
            vn_test_fail(t, __FILE__, __LINE__, "%s (cause '%s', note '%s'), expected %s\n    %s\n    %s", vn_verdict_name(f_->verdict), \
                         f_->cause, f_->note, vn_verdict_name(wanted), f_->words, f_->rungs);                                            \
    } while (0)
#define VN_ASSERT_PASSES(t, finding)                                                                              \
    do {                                                                                                          \
        const vn_finding_t *f_ = (finding);                                                                       \
        if (!vn_verdict_passes(f_->verdict))                                                                      \
            vn_test_fail(t, __FILE__, __LINE__, "%s (cause '%s', note '%s') on a correct result\n    %s\n    %s", \
                         vn_verdict_name(f_->verdict), f_->cause, f_->note, f_->words, f_->rungs);                \
    } while (0)

/* ---- products as a back end would compute them ---- */

typedef enum jc_order { JC_SEQUENTIAL, JC_REVERSED, JC_LANES, JC_PAIRWISE, JC_ORDERS } jc_order_t;

/** One arithmetic: operands rounded to `operand`, every product and addition to `acc`, the result to `result`; NONE leaves as it is. */
typedef struct jc_arithmetic {
    vn_format_t operand;
    vn_rounding_t rounding;
    vn_format_t acc, result;
    jc_order_t order;
} jc_arithmetic_t;

static inline double jc_round(vn_format_t f, double x) {
    return f == VN_FMT_F32 ? (double)(float)x : f == VN_FMT_NONE ? x : vn_round_to(f, x, VN_RNE, false);
}

static inline double jc_pairwise(vn_format_t f, const double *x, int64_t n) {
    if (n <= 2) return n == 1 ? x[0] : jc_round(f, x[0] + x[1]);
    return jc_round(f, jc_pairwise(f, x, n / 2) + jc_pairwise(f, x + n / 2, n - n / 2));
}

static inline double jc_sum(vn_format_t f, const double *x, int64_t n, jc_order_t order) {
    double s = 0, lane[8] = {0};
    if (order == JC_PAIRWISE) return n ? jc_pairwise(f, x, n) : 0;
    if (order == JC_LANES) {
        for (int64_t i = 0; i < n; ++i) lane[i % 8] = jc_round(f, lane[i % 8] + x[i]);
        return jc_pairwise(f, lane, 8);
    }
    for (int64_t i = 0; i < n; ++i) s = jc_round(f, s + x[order == JC_REVERSED ? n - 1 - i : i]);
    return s;
}

/** out[m,n] of a[m,k] b[k,n]; a and b are copied before they are rounded. */
static inline void jc_product(const jc_arithmetic_t *r, int64_t m, int64_t k, int64_t n, const double *a, const double *b, double *out) {
    double *x = vn_alloc((size_t)(m * k), sizeof *x), *y = vn_alloc((size_t)(k * n), sizeof *y), *p = vn_alloc((size_t)k, sizeof *p);
    for (int64_t i = 0; i < m * k; ++i) x[i] = r->operand ? vn_round_to(r->operand, a[i], r->rounding, false) : a[i];
    for (int64_t i = 0; i < k * n; ++i) y[i] = r->operand ? vn_round_to(r->operand, b[i], r->rounding, false) : b[i];
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            for (int64_t l = 0; l < k; ++l) p[l] = jc_round(r->acc, x[i * k + l] * y[l * n + j]);
            out[i * n + j] = jc_round(r->result, jc_sum(r->acc, p, k, r->order));
        }
    vn_free(x);
    vn_free(y);
    vn_free(p);
}

typedef enum jc_data { JC_NORMAL, JC_POSITIVE, JC_OFFSET, JC_SORTED, JC_FEW, JC_DATA } jc_data_t;
/** Numbers of f32. */
static inline void jc_fill(vn_rng_t *rng, jc_data_t kind, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const double g = vn_rng_normal(rng);
        x[i] = (float)(kind == JC_POSITIVE ? fabs(g)
                       : kind == JC_OFFSET ? 100 + g
                       : kind == JC_SORTED ? (double)i / (double)n - 0.5 + 0.01 * g
                       : kind == JC_FEW    ? (vn_rng_below(rng, 2) ? 0.1f : 0.3f)
                                           : g);
    }
}

/** MatMul of the two matrices, ready for jc_gives. */
static inline void jc_matmul(vn_test_t *t, jc_t *c, const char *contract, int64_t m, int64_t k, int64_t n, const double *a,
                             const double *b) {
    jc_new(t, c, contract);
    jc_in(t, c, VN_F32, JC_DIMS(m, k), a);
    jc_in(t, c, VN_F32, JC_DIMS(k, n), b);
    jc_op(t, c, "MatMul", 13, 1);
    jc_oracle(t, c);
}

#endif
