/* node_case.c -- one recorded case against the oracle.
 *
 *   node_case FOLDER                            a case in the ONNX backend suite's form
 *   node_case MODEL.onnx INPUTS.npz EXPECTED.npz
 *
 * Prints one line per output; exit 0 all inside (or random), 1 some outside, 2 unreadable or refused, 3 unsupported. The rules: node_check.h.
 */
#include <stdio.h>

#include "oracle/node_check.h"

static int from_files(char **argv, node_report_t *report) {
    vn_error_t err = {0};
    vn_model_t *m = NULL;
    vn_bundle_t in = {0}, want = {0};
    int bad = 0;
    if (vn_model_read(argv[1], &m, &err) || vn_npz_read(argv[2], &in, &err) || vn_npz_read(argv[3], &want, &err)) {
        fprintf(stderr, "node_case: %s\n", err.text);
        bad = 2;
    } else {
        node_check_bundles(m, &in, &want, report);
    }
    vn_bundle_free(&in);
    vn_bundle_free(&want);
    vn_model_free(m);
    return bad;
}

int main(int argc, char **argv) {
    static const int status[] = {[NODE_INSIDE] = 0, [NODE_RANDOM] = 0, [NODE_OUTSIDE] = 1, [NODE_UNSUPPORTED] = 3, [NODE_BROKEN] = 2};
    node_report_t report = {.want_lines = true};
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "node_case: usage: FOLDER | MODEL.onnx INPUTS.npz EXPECTED.npz\n");
        return 2;
    }
    if (argc == 4 && from_files(argv, &report)) return 2;
    if (argc == 2) node_check_folder(argv[1], &report);
    if (report.lines.data) fputs(report.lines.data, stdout);
    if (argc == 2 && report.state > NODE_RANDOM) printf("rerun: %s %s\n", argv[0], argv[1]);
    vn_text_free(&report.lines);
    return status[report.state];
}
