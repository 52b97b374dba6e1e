/* bench_judge.c -- what judging a passing operator costs at --effort quick, over its oracle evaluation (value, bound, variance).
 *
 * Usage: bench_judge [repeats [NAME]]: operators whose name begins with NAME. The actual result is the oracle's, correctly rounded, with every seventh element moved by one step inside the
 * bound, so no rung can stop at equality. Best of the repeats, oracle and judge in turns. The second
 * ratio is in processor seconds of all threads, which other work on the machine moves less.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"

typedef struct row {
    const char *name, *op;
    int inputs, rank[3];
    int64_t dims[3][4], axis; /* axis: an input of its own after the tensors, -99: none */
    bool demand;              /* one rounding: the rounded result itself */
} row_t;
static const row_t rows[] = {
    {"MatMul 64 x 64 x 64", "MatMul", 2, {2, 2}, {{64, 64}, {64, 64}}, -99, false},
    {"MatMul 512 x 512 x 512", "MatMul", 2, {2, 2}, {{512, 512}, {512, 512}}, -99, false},
    {"MatMul 2048 x 16 x 2048", "MatMul", 2, {2, 2}, {{2048, 16}, {16, 2048}}, -99, false},
    {"MatMul 1 x 1024 x 1024", "MatMul", 2, {2, 2}, {{1, 1024}, {1024, 1024}}, -99, false},
    {"Conv 32 -> 32, 3 x 3 at 28", "Conv", 2, {4, 4}, {{1, 32, 28, 28}, {32, 32, 3, 3}}, -99, false},
    {"ReduceSum 4096 x 256", "ReduceSum", 1, {2}, {{4096, 256}}, 1, false},
    {"LayerNormalization 512 x 768", "LayerNormalization", 2, {2, 1}, {{512, 768}, {768}}, -99, false},
    {"Softmax 512 x 512", "Softmax", 1, {2}, {{512, 512}}, -99, false},
    {"Gelu 1M", "Gelu", 1, {1}, {{1 << 20}}, -99, false},
    {"Gelu 1000", "Gelu", 1, {1}, {{1000}}, -99, false},
    {"Add 1M", "Add", 2, {1, 1}, {{1 << 20}, {1 << 20}}, -99, true},
    {"Relu 1M", "Relu", 1, {1}, {{1 << 20}}, -99, true},
    {"Transpose 1024 x 1024", "Transpose", 1, {2}, {{1024, 1024}}, -99, true},
};

static void must(vn_status_t s, const vn_error_t *err) {
    if (s == VN_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(2);
}

static void measure(const row_t *w, int repeats) {
    static const char *const names[] = {"a", "b", "c"}, *const out = "y";
    vn_error_t err = {0};
    vn_model_t *m;
    vn_node_t *node;
    vn_value_t *in[4] = {0};
    vn_contract_t contract;
    vn_rng_t rng;
    int n = w->inputs;
    must(vn_model_new(10, &m, &err), &err);
    must(vn_model_set_opset(m, "", 20, &err), &err);
    vn_rng_seed(&rng, 3);
    for (int k = 0; k < n; ++k) {
        vn_tensor_t *t;
        must(vn_tensor_new(VN_F32, w->rank[k], w->dims[k], &t, &err), &err);
        for (int64_t i = 0; i < t->count; ++i) ((float *)t->data)[i] = (float)vn_rng_normal(&rng);
        in[k] = vn_value_tensor(t);
    }
    if (w->axis != -99) {
        vn_tensor_t *t;
        must(vn_tensor_new(VN_I64, 1, (const int64_t[]){1}, &t, &err), &err);
        vn_tensor_set_i64(t, 0, w->axis);
        in[n++] = vn_value_tensor(t);
    }
    must(vn_graph_add_node(m->graph, "node", w->op, "", n, names, 1, &out, &node, &err), &err);
    vn_contract_builtin("portable", &contract);
    double oracle = 0, judged = 0, oracle_spent = 0, judged_spent = 0;
    vn_finding_t f;
    for (int r = 0; r < repeats; ++r) {
        vn_ref_t ref = {0};
        double start = vn_now(), spent = vn_spent();
        must(vn_oracle_node(m, node, (const vn_value_t *const *)in, NULL, &contract, VN_WANT_VARIANCE, &ref, &err), &err);
        const double took = vn_now() - start, cost = vn_spent() - spent;
        vn_tensor_t *x;
        must(vn_tensor_copy(ref.tensor, &x, &err), &err);
        for (int64_t i = 0; i < x->count && !w->demand; i += 7) {
            const double y = vn_tensor_get_f64(x, i), moved = y + vn_ulp(VN_FMT_F32, y);
            if (moved - ref.value[i] < ref.bound[i] / 2) vn_tensor_set_f64(x, i, moved);
        }
        vn_value_t *v = vn_value_tensor(x);
        const vn_value_t *actual = v;
        const vn_question_t q = {.model = m,
                                 .node = node,
                                 .inputs = (const vn_value_t *const *)in,
                                 .contract = &contract,
                                 .refs = &ref,
                                 .n_outputs = 1,
                                 .actual = &actual,
                                 .alpha = 1e-9,
                                 .effort = VN_EFFORT_QUICK};
        start = vn_now(), spent = vn_spent();
        must(vn_judge(&q, &f, &err), &err);
        const double asked = vn_now() - start, more = vn_spent() - spent;
        if (!oracle || took < oracle) oracle = took;
        if (!judged || asked < judged) judged = asked;
        if (!oracle_spent || cost < oracle_spent) oracle_spent = cost;
        if (!judged_spent || more < judged_spent) judged_spent = more;
        vn_value_free(v);
        vn_ref_free(&ref);
    }
    printf("%-32s oracle %9.3f ms   judge %8.3f ms   together %.2f x the oracle, %.2f x in processor seconds   (%s, caught %d of %d)\n",
           w->name, 1e3 * oracle, 1e3 * judged, 1 + judged / oracle, 1 + judged_spent / oracle_spent, vn_verdict_name(f.verdict),
           f.detection_caught, f.detection_of);
    for (int k = 0; k < n; ++k) vn_value_free(in[k]);
    vn_model_free(m);
}

int main(int argc, char **argv) {
    const int repeats = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 9;
    if (repeats < 1) return fprintf(stderr, "usage: bench_judge [repeats [NAME]]\n"), 2;
    printf("%d threads\n", vn_threads_get());
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k)
        if (argc < 3 || strncmp(rows[k].name, argv[2], strlen(argv[2])) == 0) measure(&rows[k], repeats);
    return 0;
}
