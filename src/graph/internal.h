/* internal.h -- what the files of the graph room share: the name table, private parts of models and graphs, copying. */
#ifndef VN_GRAPH_INTERNAL_H
#define VN_GRAPH_INTERNAL_H

#include "bodies.h"
#include "names.h"
#include "vernier/graph.h"

/* ---- private parts ---- */

/** vn_model_t.storage */
typedef struct vn_storage {
    vn_tensor_t **held; /* every tensor that the model's structures point to, released with the model */
    size_t n_held, cap_held;
    int cap_opsets, cap_functions;
    const vn_function_t **function_order; /* sorted by name, domain, overload; NULL until finished */
} vn_storage_t;

/** vn_graph_t.index */
typedef struct vn_graph_private {
    int cap_nodes, cap_inputs, cap_outputs, cap_inits, cap_infos;
    bool indexed; /* `names` describes the arrays as they are */
    vn_names_t names;
} vn_graph_private_t;

/** Room for element `count` of an arena array. Returns the array (perhaps moved) or NULL without memory. */
void *vn_array_grow(vn_arena_t *arena, void *array, int count, int *capacity, size_t size);
vn_status_t vn_no_memory(vn_error_t *err, const char *doing);
/** NULL and "ai.onnx" are "". */
const char *vn_domain_name(const char *domain);

vn_status_t vn_model_empty(vn_model_t **out, vn_error_t *err); /* no graph yet */
vn_status_t vn_graph_create(vn_model_t *m, const char *name, vn_graph_t *outer, vn_graph_t **out, vn_error_t *err);
vn_graph_private_t *vn_graph_private(vn_graph_t *g); /* makes it if absent; NULL: no memory */
void vn_graph_touch(vn_graph_t *g);                  /* the arrays change: the index is no longer used */
/** The model takes over the holder's share of t, also when it fails. */
vn_status_t vn_model_take(vn_model_t *m, vn_tensor_t *t, vn_error_t *err);
/** The model becomes one more holder. */
vn_status_t vn_model_hold(vn_model_t *m, const vn_tensor_t *t, vn_error_t *err);

/* ---- index.c ---- */
/** Builds the index. PARSE: a name is defined twice. `top`: output names must differ too. */
vn_status_t vn_graph_build_index(vn_graph_t *g, bool top, vn_error_t *err);
/** Entry of a name in this graph; a built index is required. */
const vn_name_entry_t *vn_graph_entry(const vn_graph_t *g, const char *name);
/** Defined in g itself as input, initialiser or node output; works without an index. */
bool vn_graph_defines(const vn_graph_t *g, const char *name);
void vn_model_order_functions(vn_model_t *m, const vn_function_t **order); /* n_functions entries */

/* ---- capture.c ---- */
/** As vn_graph_captures, for all bodies of one node. */
vn_status_t vn_node_captures(const vn_node_t *n, const char ***names, int *count, vn_error_t *err);
/** "node 'conv1' (Conv)" or "node number 3 (Conv)" when it has no name. */
const char *vn_node_where(const vn_graph_t *g, const vn_node_t *n, char *out, size_t size);

/* ---- order.c ---- */
/** Stable topological sort; needs the index, and renews it when nodes move. */
vn_status_t vn_graph_sort(vn_graph_t *g, vn_error_t *err);

/* ---- clone.c: copies into a model; prefix (may be NULL) goes before every value, node and dimension name ---- */
typedef struct vn_copier {
    vn_model_t *into;
    const char *prefix;
    int depth; /* of graphs and types, checked against VN_MAX_NESTING */
} vn_copier_t;
vn_status_t vn_copy_name(vn_copier_t *c, const char *name, const char **out, vn_error_t *err); /* "" stays "" */
vn_status_t vn_copy_type(vn_copier_t *c, const vn_type_t *from, vn_type_t *to, vn_error_t *err);
vn_status_t vn_copy_attr(vn_copier_t *c, const vn_attr_t *from, vn_attr_t *to, vn_error_t *err);
vn_status_t vn_copy_graph(vn_copier_t *c, const vn_graph_t *from, vn_graph_t *outer, vn_graph_t **to, vn_error_t *err);
vn_status_t vn_copy_function(vn_copier_t *c, const vn_function_t *from, vn_function_t *to, vn_error_t *err);
vn_status_t vn_model_add_function(vn_model_t *m, const vn_function_t *from, vn_error_t *err); /* deep copy */

/* ---- write.c ---- */
/** vn_model_write with the size above which tensors go outside as a parameter, so that tests need no gigabytes. */
vn_status_t vn_model_write_limited(const vn_model_t *m, const char *path, uint64_t inline_total, uint64_t outside_from, vn_error_t *err);

#endif
