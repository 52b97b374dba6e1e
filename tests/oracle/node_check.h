/* node_check.h -- one case of the ONNX backend suite against the oracle: a folder with model.onnx and test_data_set_K/{input,output}_J.pb. */
#ifndef VN_TESTS_NODE_CHECK_H
#define VN_TESTS_NODE_CHECK_H

#include "vernier/oracle.h"

typedef enum node_state {
    NODE_INSIDE,      /* every expected value has our type and shape, and lies inside our bound */
    NODE_RANDOM,      /* so, where bits can be judged; elsewhere type, shape and range agree */
    NODE_OUTSIDE,     /* some expected value does not */
    NODE_UNSUPPORTED, /* an operator has no oracle */
    NODE_BROKEN       /* unreadable, or the oracle refused it */
} node_state_t;

typedef struct node_report {
    node_state_t state;
    char failure[1400]; /* first failing output: operator, where, values, bound; "" if none */
    vn_text_t lines;    /* one line per output, if wanted */
    bool want_lines;
    int decimals;      /* in: > 0: inputs and expected floats are literals of so many decimals: a unit of the last is added to each bound */
    bool open;         /* out: inside only as the rounded value itself, some element has no bound */
    int64_t undefined; /* out: elements that the standard leaves undefined, whatever is expected of them */
} node_report_t;

/**
 * The graph is evaluated as a region under the portable contract (f32 accumulation, any order). An expected element must
 *   - of strings, integers, booleans, complex numbers, sequences and optionals: be equal (either of two in a tie window, or one reading throughout);
 *   - of floats: lie inside our bound for an execution in the declared types; where we make no statement, be the rounded value itself.
 * What a single operator's text leaves undefined is counted, not judged; an output of nothing else fails. What comes of random operators is
 * judged by type, shape and range.
 * Release report->lines with vn_text_free.
 */
void node_check_folder(const char *folder, node_report_t *report);

/** The same for one model with given inputs and expected outputs (tensors only), by name. */
void node_check_bundles(const vn_model_t *m, const vn_bundle_t *in, const vn_bundle_t *want, node_report_t *report);

const char *node_state_name(node_state_t s);

#endif
