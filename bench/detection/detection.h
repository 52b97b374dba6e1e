/* detection.h -- the bench of false alarms and missed faults: cases as text, operands as data, the criteria of the judge's peers. */
#ifndef VN_BENCH_DETECTION_H
#define VN_BENCH_DETECTION_H

#include "vernier/graph.h"
#include "vernier/oracle.h"

/**
 * One operator with operands. Text, blanks are free:
 *   attributes  key=3  key=0.5  key=word  key=[1,2]
 *   operands    type[dims]generator, separated by ';'; "-" is an absent one. Type T is the one that the case is tried with.
 * The generators stand in cases.c.
 */
typedef struct case_text {
    const char *op, *attributes, *operands;
    int outputs;
    const char *types; /* blank-separated: what T stands for */
} case_text_t;

typedef enum corpus {
    CORPUS_FAULTS,     /* small shapes with data on which faults show; also judged clean */
    CORPUS_DISPATCH,   /* products at the sizes where back ends change their kernels */
    CORPUS_REDUCTIONS, /* everything else with sums, at such sizes */
} corpus_t;
/** Case i of a corpus, made up where it is a grid (then valid until the next call); NULL past the last. */
const case_text_t *corpus_case(corpus_t which, int i);

enum { MAX_OPERANDS = 10, MAX_RESULTS = 4 };
typedef struct bench_case {
    vn_model_t *model;
    vn_node_t *node;
    int n_in, n_out;
    vn_value_t *in[MAX_OPERANDS];
    vn_tensor_t *operands[MAX_OPERANDS]; /* borrowed from `in` */
} bench_case_t;
/** Builds model and operands; T is `type`. Errors: PARSE shows the text. */
vn_status_t case_make(const case_text_t *text, vn_dtype_t type, uint64_t seed, bench_case_t *out, vn_error_t *err);
void case_free(bench_case_t *c);

/* ---- peers.c ---- */

enum { N_PEERS = 10 };
extern const char *const peer_names[N_PEERS];
typedef struct peer_question {
    const vn_ref_t *ref;
    const vn_tensor_t *actual, *plain; /* plain: the usual kernel's result, for the rule that compares three */
    bool contraction;
    double largest_product; /* largest |a| times largest |b|; NaN: the rule of operands does not apply */
} peer_question_t;
/** verdicts[k]: 'p' passes, 'f' fails, '-' the rule does not apply. */
void peers_judge(const peer_question_t *q, char verdicts[N_PEERS + 1]);

#endif
