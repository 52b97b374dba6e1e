/* onednn.h -- what the files of this worker share: the engine, memory descriptors of tensors, one run of one primitive, rows of operators. */
#ifndef VN_ONEDNN_H
#define VN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "steps/steps.h"

typedef struct dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_fpmath_mode_t math;
    const char *math_name;
    bool plain; /* layout=plain: operands of products and convolutions as they lie, no blocked layouts */
    int threads;
} dnn_t;

typedef struct op_row {
    const char *domain, *name;
    vn_status_t (*run)(const dnn_t *d, step_call_t *c, int param);
    int param;
} op_row_t;
typedef struct op_table {
    const op_row_t *rows;
    int count;
} op_table_t;
extern const op_table_t product_ops, convolution_ops, elementwise_ops, row_ops, spatial_ops, movement_ops;

/* ---- execute.c ---- */

/** Its number of an element type; dnnl_data_type_undef where it has none. */
dnnl_data_type_t dnn_type(vn_dtype_t t);
/** Row-major dims of a type. rank 0 counts as one dimension of 1. Errors: UNSUPPORTED (type, more than 12 dimensions). */
vn_status_t dnn_desc(const step_call_t *c, vn_dtype_t t, int rank, const int64_t *dims, dnnl_memory_desc_t *out);
/** The same with dims as they are counted and strides in elements. */
vn_status_t dnn_desc_strided(const step_call_t *c, vn_dtype_t t, int rank, const int64_t *dims, const int64_t *strides,
                             dnnl_memory_desc_t *out);
/** The same dims and type, layout left to the primitive; unless the worker keeps plain layouts. */
dnnl_memory_desc_t dnn_any(const dnn_t *d, const dnnl_memory_desc_t *md);

/** An argument of a primitive: where its data lie, and how. Where the primitive wants another layout it is reordered, outputs back. */
typedef struct dnn_arg {
    int id; /* DNNL_ARG_... */
    const dnnl_memory_desc_t *md;
    void *data;
} dnn_arg_t;

/** Scales and sums that come after a primitive. */
typedef struct dnn_after {
    float scale; /* of the result; 1: none */
    float sum;   /* times what lies in the output already; 0: nothing is added */
} dnn_after_t;

/**
 * Makes the primitive of an operation descriptor and runs it. after NULL: nothing.
 * Errors     UNSUPPORTED (no implementation of this form), NOMEM, WORKER.
 */
vn_status_t dnn_run(const dnn_t *d, step_call_t *c, const_dnnl_op_desc_t op, const dnn_after_t *after, int n, const dnn_arg_t *args);
/** The same of a primitive descriptor, which is destroyed. created: what making it returned. */
vn_status_t dnn_execute(const dnn_t *d, step_call_t *c, dnnl_status_t created, dnnl_primitive_desc_t pd, int n, const dnn_arg_t *args);
/** OK, or the error that a call of the library stands for. */
vn_status_t dnn_check(const step_call_t *c, dnnl_status_t s, const char *what);

/** Input k is there; of type `like` (UNDEFINED: any that the library has). */
vn_status_t dnn_need(const step_call_t *c, int k, vn_dtype_t like);
static inline bool dnn_given(const step_call_t *c, int k) { return k < c->n_in && c->in[k]; }
/** A negative axis from the end; a wrong one is an error. */
vn_status_t dnn_axis(const step_call_t *c, int64_t *axis, int rank);
/** Only output 0 is wanted of an operator that may have more. */
vn_status_t dnn_one_output(const step_call_t *c);

#endif
