/* bench_operator.c -- time of the oracle for the graph of a one-node model: value, and value with bound (and variance).
 *
 * Usage: bench_operator MODEL.onnx INPUTS.npz [repeats]. Prints three lines "value|bound|variance <best milliseconds>".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "vernier/oracle.h"

int main(int argc, char **argv) {
    static const char *const names[] = {"value", "bound", "variance"};
#ifdef __GLIBC__ /* as the command does (src/cli/main.c) */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    vn_error_t err = {0};
    vn_model_t *m = NULL;
    vn_bundle_t in = {0};
    const int repeats = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    if (argc < 3 || repeats < 1) return fprintf(stderr, "usage: bench_operator MODEL.onnx INPUTS.npz [repeats]\n"), 2;
    if (vn_model_read(argv[1], &m, &err) != VN_OK || vn_npz_read(argv[2], &in, &err) != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
    const vn_node_t *n = &m->graph->nodes[0];
    if (m->graph->n_nodes != 1 || n->n_inputs > 16 || n->n_outputs > 16) return fprintf(stderr, "%s: not one node\n", argv[1]), 2;
    vn_value_t *values[16] = {0};
    for (int k = 0; k < n->n_inputs; ++k) {
        const vn_tensor_t *t = vn_bundle_find(&in, n->inputs[k]);
        if (!t) t = vn_graph_init(m->graph, n->inputs[k]);
        if (!t && *n->inputs[k]) return fprintf(stderr, "%s has no tensor %s\n", argv[2], n->inputs[k]), 2;
        values[k] = t ? vn_value_tensor(vn_tensor_retain(t)) : NULL;
    }
    vn_contract_t contract;
    vn_contract_builtin("portable", &contract);
    double best[3] = {0};
    vn_status_t s = VN_OK;
    for (int r = 0; r < repeats && s == VN_OK; ++r)
        for (int want = VN_WANT_VALUE; want <= VN_WANT_VARIANCE && s == VN_OK; ++want) {
            vn_ref_t refs[16] = {0};
            const double start = vn_now();
            s = vn_oracle_node(m, n, (const vn_value_t *const *)values, NULL, &contract, want, refs, &err);
            const double took = vn_now() - start;
            if (best[want] == 0 || took < best[want]) best[want] = took;
            for (int k = 0; k < n->n_outputs; ++k) vn_ref_free(&refs[k]);
        }
    if (s == VN_OK)
        for (int want = VN_WANT_VALUE; want <= VN_WANT_VARIANCE; ++want) printf("%s %.3f\n", names[want], 1e3 * best[want]);
    else fprintf(stderr, "%s\n", err.text);
    for (int k = 0; k < n->n_inputs; ++k) vn_value_free(values[k]);
    vn_bundle_free(&in);
    vn_model_free(m);
    return s == VN_OK ? 0 : 2;
}
