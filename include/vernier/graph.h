/* vernier/graph.h -- an ONNX model in memory: read, look at, edit, cut, build, write. */
#ifndef VERNIER_GRAPH_H
#define VERNIER_GRAPH_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vn_graph vn_graph_t;
typedef struct vn_model vn_model_t;

enum { VN_MAX_NESTING = 64 }; /* messages, subgraphs and types deeper than this are refused before anything recurses */

/* All strings and arrays below live in the model's arena and die with the model; tensors are counted and released by it. */

typedef struct vn_dim {
    int64_t value;     /* >= 0, or -1 when unknown */
    const char *param; /* symbolic name, or NULL */
} vn_dim_t;

typedef enum vn_type_kind { VN_TYPE_NONE, VN_TYPE_TENSOR, VN_TYPE_SPARSE, VN_TYPE_SEQUENCE, VN_TYPE_OPTIONAL, VN_TYPE_MAP } vn_type_kind_t;
typedef struct vn_type {
    vn_type_kind_t kind;
    vn_dtype_t dtype; /* element type of a tensor; key type of a map */
    int rank;         /* -1: unknown */
    vn_dim_t *dims;
    struct vn_type *elem; /* sequence, optional, map value */
} vn_type_t;

typedef struct vn_value_info {
    const char *name;
    vn_type_t type;
} vn_value_info_t;

/** Numbers are those of AttributeProto.AttributeType. */
typedef enum vn_attr_kind {
    VN_ATTR_NONE = 0,
    VN_ATTR_FLOAT = 1,
    VN_ATTR_INT = 2,
    VN_ATTR_STRING = 3,
    VN_ATTR_TENSOR = 4,
    VN_ATTR_GRAPH = 5,
    VN_ATTR_FLOATS = 6,
    VN_ATTR_INTS = 7,
    VN_ATTR_STRINGS = 8,
    VN_ATTR_TENSORS = 9,
    VN_ATTR_GRAPHS = 10,
    VN_ATTR_SPARSE_TENSOR = 11,
    VN_ATTR_SPARSE_TENSORS = 12,
    VN_ATTR_TYPE = 13,
    VN_ATTR_TYPES = 14
} vn_attr_kind_t;

typedef struct vn_attr {
    const char *name;
    vn_attr_kind_t kind;
    const char *ref; /* ref_attr_name inside a function body, or NULL */
    int64_t count;   /* of the plural kinds */
    float f;
    int64_t i;
    vn_string_t s;
    vn_tensor_t *t; /* TENSOR; SPARSE_TENSOR as a dense tensor */
    vn_graph_t *g;
    const float *floats;
    const int64_t *ints;
    const vn_string_t *strings;
    vn_tensor_t **tensors;
    vn_graph_t **graphs;
    vn_type_t *types; /* TYPE: one, TYPES: count */
} vn_attr_t;

typedef struct vn_node {
    const char *name; /* "" if the file has none */
    const char *path; /* unique row id: name or OpType_k, inside bodies If_3/then/Add_5; set by vn_model_finish */
    const char *op;
    const char *domain; /* "" for ai.onnx */
    const char *overload;
    int n_inputs, n_outputs;
    const char **inputs;  /* "" = absent optional input */
    const char **outputs; /* "" = unused optional output */
    int n_attrs;
    vn_attr_t *attrs;
} vn_node_t;

typedef struct vn_init {
    const char *name;
    vn_tensor_t *tensor; /* sparse initialisers arrive dense */
} vn_init_t;

struct vn_graph {
    const char *name;
    vn_model_t *model;
    vn_graph_t *outer; /* enclosing graph, NULL at the top */
    int n_nodes, n_inputs, n_outputs, n_inits, n_infos;
    vn_node_t *nodes; /* topological order once vn_model_finish has run */
    vn_value_info_t *inputs;
    vn_value_info_t *outputs;
    vn_init_t *inits;
    vn_value_info_t *infos;
    void *index; /* private */
};

typedef struct vn_opset {
    const char *domain;
    int64_t version;
} vn_opset_t;

typedef struct vn_function {
    const char *domain, *name, *overload;
    int n_inputs, n_outputs, n_opsets, n_attr_names, n_attr_defaults;
    const char **inputs, **outputs, **attr_names;
    vn_attr_t *attr_defaults;
    vn_opset_t *opsets;
    vn_graph_t *body; /* inputs and outputs are named, untyped */
} vn_function_t;

typedef struct vn_meta {
    const char *key, *value;
} vn_meta_t;

struct vn_model {
    vn_arena_t *arena;
    int64_t ir_version, model_version;
    const char *producer, *producer_version, *domain;
    int n_opsets, n_functions, n_metas;
    vn_opset_t *opsets;
    vn_function_t *functions;
    vn_meta_t *metas;
    vn_graph_t *graph;
    const char *path;   /* file it came from, or NULL */
    const char *folder; /* where external data may lie, or NULL */
    char sha256[65];    /* of the file's bytes; "" for built models */
    void *storage;      /* private: file map, external maps */
};

/* ---- reading: a bounded wire scanner checks lengths and nesting first, then protobuf-c; raw data stays in the map ---- */

/**
 * Errors     IO, PARSE (names the field, the byte offset and what to do), RANGE for hostile sizes, UNSUPPORTED for an IR version
 *            newer than the one of the installed onnx package. *out is NULL then.
 * Ownership  vn_model_free. Initialisers point into the mapped file, which lives as long as any of them.
 */
VN_API vn_status_t vn_model_read(const char *path, vn_model_t **out, vn_error_t *err);
/** `data` is copied. folder may be NULL: external data is then refused. label names the source in errors. */
VN_API vn_status_t vn_model_parse(const void *data, size_t size, const char *label, const char *folder, vn_model_t **out, vn_error_t *err);
VN_API void vn_model_free(vn_model_t *m);

/**
 * Serialises; a model that is read back has the same structure and the same bits. Not kept in memory, and so not written: doc strings,
 * denotations, per-node and per-value metadata, training information, quantisation annotations, device configurations. Sparse
 * initialisers are written dense.
 * vn_model_bytes puts every tensor inside; release *data with vn_free. vn_model_write does so up to 1.9 GB; beyond that, initialisers of
 * more than 1 MiB go to PATH.data, each at a multiple of 4096 bytes. Both files are replaced as a whole, the data first.
 * Errors     UNSUPPORTED names the size of a message above protobuf's 2 GiB; IO; NOMEM.
 */
VN_API vn_status_t vn_model_bytes(const vn_model_t *m, void **data, size_t *size, vn_error_t *err);
/**
 * The same bytes piece by piece, nothing held in memory: begin(ctx, size) once (its failure ends the call), then append(ctx, data, n) in order,
 * `size` bytes in all. Errors: as vn_model_bytes, and begin's.
 */
VN_API vn_status_t vn_model_stream(const vn_model_t *m, vn_status_t (*begin)(void *ctx, size_t size, vn_error_t *err),
                                   void (*append)(void *ctx, const void *data, size_t n), void *ctx, vn_error_t *err);
VN_API vn_status_t vn_model_write(const vn_model_t *m, const char *path, vn_error_t *err);

/**
 * Sorts topologically (nodes that are in order stay where they are), checks names and cycles, sets node paths, builds the index; bodies
 * and functions included. Reading calls it; builders must, after the last edit. Until then lookups scan.
 * Paths      unique in the model, and in each function's body (there relative to the call). A node's name if it is the only one of that
 *            name in its graph and shorter than 512 bytes; else OpType_k, k its place in the sorted graph. Inside bodies after the path of
 *            the node and the attribute's name without _branch: If_3/then/Add_5.
 * Errors     PARSE: a value or an attribute is defined twice, a value is read that nothing provides, nodes form a cycle (the first five
 *            are named), no opset_import for ai.onnx, a function that calls itself. RANGE: nesting.
 * Threads    none concurrently; afterwards all looking functions may be called from any thread.
 */
VN_API vn_status_t vn_model_finish(vn_model_t *m, vn_error_t *err);

/* ---- looking ---- */
VN_API int64_t vn_model_opset(const vn_model_t *m, const char *domain); /* "" = ai.onnx; -1 if not imported */
VN_API const vn_function_t *vn_model_function(const vn_model_t *m, const char *domain, const char *name, const char *overload);
VN_API const vn_tensor_t *vn_graph_init(const vn_graph_t *g, const char *name); /* borrowed; NULL; this graph only */
VN_API const vn_value_info_t *vn_graph_input(const vn_graph_t *g, const char *name);
VN_API const vn_value_info_t *vn_graph_info(const vn_graph_t *g, const char *name); /* inputs, outputs, value_info */
VN_API int vn_graph_producer(const vn_graph_t *g, const char *name);                /* node index or -1 */
VN_API bool vn_graph_is_output(const vn_graph_t *g, const char *name);
/** Inputs that a run must be given: graph inputs that are not initialisers. Indices into g->inputs; returns how many. */
VN_API int vn_graph_run_inputs(const vn_graph_t *g, int *indices /* n_inputs entries, may be NULL */);
VN_API const vn_attr_t *vn_node_attr(const vn_node_t *n, const char *name); /* NULL if absent */
VN_API int64_t vn_node_int(const vn_node_t *n, const char *name, int64_t fallback);
VN_API double vn_node_float(const vn_node_t *n, const char *name, double fallback); /* the float32 value, widened */
VN_API const char *vn_node_string(const vn_node_t *n, const char *name, const char *fallback);
/** Pointer to the ints and their count; NULL and 0 if absent. */
VN_API const int64_t *vn_node_ints(const vn_node_t *n, const char *name, int64_t *count);
VN_API const float *vn_node_floats(const vn_node_t *n, const char *name, int64_t *count);
/** "f32[n,3,224,?]" */
VN_API void vn_type_describe(const vn_type_t *t, char *out, size_t size);

/* ---- building and editing (new strings and arrays are copied into the model's arena) ---- */
VN_API vn_status_t vn_model_new(int64_t ir_version, vn_model_t **out, vn_error_t *err); /* empty graph "vernier" */
VN_API vn_status_t vn_model_set_opset(vn_model_t *m, const char *domain, int64_t version, vn_error_t *err);
VN_API vn_status_t vn_graph_add_input(vn_graph_t *g, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err);
/** dims NULL and rank -1: shape left open. */
VN_API vn_status_t vn_graph_add_output(vn_graph_t *g, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err);
VN_API vn_status_t vn_graph_add_typed(vn_graph_t *g, bool output, const char *name, const vn_type_t *type, vn_error_t *err); /* deep copy */
VN_API vn_status_t vn_graph_add_init(vn_graph_t *g, const char *name, const vn_tensor_t *t, vn_error_t *err);                /* retains t */
/** *out (may be NULL) stays valid until the next vn_graph_add_node on g. */
VN_API vn_status_t vn_graph_add_node(vn_graph_t *g, const char *name, const char *op, const char *domain, int n_inputs,
                                     const char *const *inputs, int n_outputs, const char *const *outputs, vn_node_t **out,
                                     vn_error_t *err);
VN_API vn_status_t vn_node_set_int(vn_model_t *m, vn_node_t *n, const char *name, int64_t value, vn_error_t *err);
VN_API vn_status_t vn_node_set_float(vn_model_t *m, vn_node_t *n, const char *name, float value, vn_error_t *err);
VN_API vn_status_t vn_node_set_string(vn_model_t *m, vn_node_t *n, const char *name, const char *value, vn_error_t *err);
VN_API vn_status_t vn_node_set_ints(vn_model_t *m, vn_node_t *n, const char *name, const int64_t *v, int64_t count, vn_error_t *err);
VN_API vn_status_t vn_node_set_floats(vn_model_t *m, vn_node_t *n, const char *name, const float *v, int64_t count, vn_error_t *err);
VN_API vn_status_t vn_node_set_tensor(vn_model_t *m, vn_node_t *n, const char *name, const vn_tensor_t *t, vn_error_t *err);
/** Deep copy of an attribute (subgraphs included) from any model. */
VN_API vn_status_t vn_node_set_attr(vn_model_t *m, vn_node_t *n, const vn_attr_t *attr, vn_error_t *err);

/** Deep copy (tensors shared), finished; so errors are those of vn_model_finish, and NOMEM. */
VN_API vn_status_t vn_model_clone(const vn_model_t *m, vn_model_t **out, vn_error_t *err);
/**
 * Adds `names` (values of the top graph) to the outputs, typed by `types[i]` where given (kind not NONE) or by value_info, else left open;
 * names that are outputs already, inputs or initialisers are left out.
 * Errors     NOTFOUND names what the main graph does not hold (a value of a body, say); nothing is changed then.
 */
VN_API vn_status_t vn_model_mark_outputs(vn_model_t *m, int n, const char *const *names, const vn_type_t *types, vn_error_t *err);

/**
 * Appends `node` (of model `from`) to `into` as a component with no edge to any other: its values, those inside its bodies and symbolic
 * dimensions are renamed PREFIX + name, the node PREFIX + path. Call vn_model_finish after the last one.
 * Shapes     inputs[k] gives the tensor of input k (NULL: absent, and the node's name for it must be ""). frozen[k] true: it becomes an
 *            initialiser, else a run-time input typed by the tensor; frozen NULL: all are run-time inputs. A name that the node reads
 *            several times is one run-time input; if it is also read frozen, the initialiser is PREFIX + name + "/frozen".
 *            outputs are typed by out_types (NULL, or kind NONE: open).
 * Functions  model-local functions that the node needs are copied once, and into's IR version is raised to one that has them.
 * Captures   outer-scope values that the node's bodies read are given by `outer` (name -> tensor) and become run-time inputs of the
 *            component; one that `outer` does not give and that is an initialiser of an enclosing graph becomes an initialiser.
 * Opsets     into's imports must equal those of `from` (set when into has none); of the function, if the node stands in one.
 * Errors     USAGE: opsets differ, a tensor is missing or superfluous; UNSUPPORTED: the node takes an attribute of a function's caller.
 *            The model is as before then.
 */
typedef struct vn_component {
    const char *prefix;
    const vn_node_t *node;
    const vn_tensor_t *const *inputs;
    const bool *frozen;
    const vn_type_t *out_types;
    const vn_bundle_t *outer;
} vn_component_t;
VN_API vn_status_t vn_model_add_component(vn_model_t *into, const vn_model_t *from, const vn_component_t *c, vn_error_t *err);

/**
 * Names that a graph reads from outside: its nodes, their bodies, its outputs; in order of first use.
 * Ownership  *names: array of *n borrowed strings, vn_free the array.
 */
VN_API vn_status_t vn_graph_captures(const vn_graph_t *g, const char ***names, int *n, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
