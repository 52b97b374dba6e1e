/* study_internal.h -- what the phases of `check` share. */
#ifndef VN_STUDY_INTERNAL_H
#define VN_STUDY_INTERNAL_H

#include "vernier/graph.h"
#include "vernier/oracle.h"
#include "vernier/study.h"

/** Failing rows of one operator and cause, for rung 8. */
typedef struct vn_alike {
    const char *op;
    char cause[96];
    int count;
} vn_alike_t;
enum { VN_ALIKE_KINDS = 32 };

typedef struct vn_backend {
    vn_spec_t spec;
    const char *text;           /* as given */
    vn_worker_t *worker;        /* NULL: could not be started */
    int index;                  /* in record->backends */
    vn_hint_t hint;             /* hypotheses that held so far */
    vn_bundle_t ends;           /* outputs of the unobserved run of the whole graph */
    int64_t probed, not_probed; /* operators that rung 8 asked, and those left out below effort deep */
    vn_alike_t alike[VN_ALIKE_KINDS];
    struct vn_revealed *revealed; /* schedules that were read, for rung 9 */
    int n_revealed;
} vn_backend_t;

/** One operator of the trajectory, isolated. Owns its inputs and refs. */
typedef struct vn_task {
    vn_node_t node;   /* copy; arrays belong to the model */
    const char *path; /* in the record's arena */
    int64_t order;
    vn_value_t **inputs;
    bool *frozen;
    vn_ref_t *refs;
    size_t bytes;
    char key[65]; /* content hash, "" if too large to hash */
} vn_task_t;

enum { VN_PACK_TASKS = 96 };

/** False-alarm probability of a whole run, shared by all its questions. */
#define VN_RUN_ALPHA 1e-6 /* bounds.md, calculus 1 */

typedef struct vn_study {
    const vn_check_options_t *o;
    vn_model_t *model;
    vn_bundle_t inputs;
    vn_record_t *record;
    vn_backend_t *backends;
    int n_backends;
    double alpha; /* per question */
    /* isolated phase */
    vn_task_t pack[VN_PACK_TASKS];
    int packed;
    size_t pack_bytes;
    int64_t steps, total_steps;
    struct vn_seen *seen; /* hashes of tasks that ran, with their rows */
    int n_seen, seen_capacity;
    /* what the trajectory left for the later phases */
    vn_bundle_t ends;         /* graph outputs of the trajectory */
    vn_bundle_t constants;    /* values of Constant nodes */
    vn_output_spec_t *values; /* type and shape of every computed value of the top graph */
    int n_values, values_capacity;
} vn_study_t;

/* inputs.c */
vn_status_t vn_study_inputs(const vn_model_t *m, const vn_check_options_t *o, vn_bundle_t *out, vn_error_t *err);
vn_status_t vn_check_inputs(const vn_model_t *m, const vn_bundle_t *given, const char *label, vn_error_t *err);
/* rows.c */
vn_status_t vn_row_from(vn_record_t *r, const vn_finding_t *f, const char *path, const vn_node_t *node, int k, const char *backend,
                        const char *mode, int64_t order, vn_error_t *err);
vn_status_t vn_row_plain(vn_record_t *r, vn_verdict_t v, const char *words, const char *path, const vn_node_t *node, int k,
                         const char *backend, const char *mode, int64_t order, vn_error_t *err);
vn_verdict_t vn_verdict_of_status(vn_status_t s);
vn_status_t vn_record_model(vn_record_t *r, const vn_model_t *m, const vn_bundle_t *inputs, vn_error_t *err);
int64_t vn_peak_resident(void);
/* isolated.c */
vn_status_t vn_study_isolated(vn_study_t *s, vn_error_t *err);
/* weights.c */
/** Judges a product of the top graph once more, together with the operators that unpack its weights; rows of mode `with-weights`. Nothing where it has no such weights. */
vn_status_t vn_study_weights(vn_study_t *s, const vn_step_t *step, const char *path, vn_error_t *err);
/* probes.c */
/** Rung 8 for an isolated operator that was judged: integer ladders through the worker. Adds to rungs and words; may change the verdict. */
vn_status_t vn_study_probe(vn_study_t *s, vn_backend_t *b, const vn_task_t *t, vn_finding_t *f, vn_error_t *err);
/* replayed.c */
/** Rung 9 for an isolated sum that was judged: its schedule is read and applied to these inputs. May change EXPLAINED or SUSPECT to REPLAYED. */
vn_status_t vn_study_replay(vn_study_t *s, vn_backend_t *b, const vn_task_t *t, const vn_value_t *actual, vn_finding_t *f, vn_error_t *err);
void vn_study_forget_schedules(vn_backend_t *b);
/* whole.c */
vn_status_t vn_study_whole(vn_study_t *s, vn_backend_t *b, vn_error_t *err);

/* fused.c */
/** Value of a name as the back end captured it (or an input, an initialiser, a constant); *out NULL if it is not there. */
typedef vn_status_t (*vn_operand_fn)(const void *ctx, const char *name, vn_value_t **out, vn_error_t *err);
/**
 * A node that fails in situ may have been computed together with those before it. Judges ever larger groups that end in the node as one
 * operator with composed bounds, on the captured inputs of the group: by the contract and by the hypotheses of `ask`. ARITHMETICS comes after HINTED
 * and leaves out what was asked then. *explained: the findings now hold the group's pass or name, and its note.
 */
vn_status_t vn_study_fused(const vn_study_t *s, vn_backend_t *b, int node, vn_operand_fn operand, const void *ctx, vn_ask_t ask,
                           const vn_value_t *const *got, vn_finding_t *findings, bool *explained, vn_error_t *err);

#endif
