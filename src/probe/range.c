/* range.c -- follows integer inputs forward to the operators that use them as indices. */
#include "range.h"

#include <string.h>

#include "graph/bodies.h"
#include "graph/names.h"

/* Operators whose output holds only values of their first input (Concat: of any). */
static const char *const carriers[] = {"Identity", "Cast",  "Unsqueeze", "Squeeze", "Reshape",
                                       "Flatten",  "Slice", "Transpose", "Expand",  "Tile"};

/* Operators whose output has the shape of input 0: a table that is gathered from may be dequantised or cast on its way. */
static const char *const same_shape[] = {"Identity", "Cast", "DequantizeLinear", "QuantizeLinear"};

/* Index uses: `indices` is the input that holds indices into `data`; the axis comes from the attribute (NULL: axis 0). */
typedef struct index_use {
    const char *domain, *op;
    int indices, data;
    const char *axis;
    bool all_axes; /* indices go into several axes: the smallest counts */
} index_use_t;
static const index_use_t uses[] = {
    {"", "Gather", 1, 0, "axis", false},
    {"", "GatherElements", 1, 0, "axis", false},
    {"", "ScatterElements", 1, 0, "axis", false},
    {"", "Scatter", 1, 0, "axis", false},
    {"", "GatherND", 1, 0, NULL, true},
    {"", "ScatterND", 1, 0, NULL, true},
    {"com.microsoft", "GatherBlockQuantized", 1, 0, "gather_axis", false},
    {"com.microsoft", "EmbedLayerNormalization", 0, 2, NULL, false},
    {"com.microsoft", "EmbedLayerNormalization", 1, 4, NULL, false},
};

typedef struct tracker {
    vn_names_t origin; /* value -> graph input that it carries, in slot 0 */
    int64_t *limits;
    vn_error_t *err;
} tracker_t;

static bool listed(const char *op, const char *const *list, size_t n) {
    for (size_t k = 0; k < n; ++k)
        if (strcmp(op, list[k]) == 0) return true;
    return false;
}
#define LISTED(op, list) listed(op, list, sizeof(list) / sizeof *(list))

/* Rank and dims (-1 = unknown) of a value, as far as the file says them. */
static bool known_shape(const vn_graph_t *g, const char *name, int *rank, int64_t *dims) {
    enum { LONGEST_WAY = 16 };
    for (int step = 0; step < LONGEST_WAY && g; ++step) {
        const vn_tensor_t *t = vn_graph_init(g, name);
        int producer = vn_graph_producer(g, name);
        if (!t && producer >= 0 && strcmp(g->nodes[producer].op, "Constant") == 0) {
            const vn_attr_t *a = vn_node_attr(&g->nodes[producer], "value");
            if (a && a->kind == VN_ATTR_TENSOR) t = a->t;
        }
        if (t) {
            *rank = t->rank;
            memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
            return true;
        }
        const vn_value_info_t *info = vn_graph_info(g, name);
        if (info && info->type.kind == VN_TYPE_TENSOR && info->type.rank >= 0) {
            *rank = info->type.rank;
            for (int k = 0; k < *rank; ++k) dims[k] = info->type.dims[k].value;
            return true;
        }
        if (producer >= 0) {
            const vn_node_t *n = &g->nodes[producer];
            if (!LISTED(n->op, same_shape) || n->n_inputs == 0) return false;
            name = n->inputs[0];
        } else if (!info) {
            g = g->outer; /* captured */
        } else {
            return false;
        }
    }
    return false;
}

static void apply_use(tracker_t *t, const vn_graph_t *g, const vn_node_t *n, const index_use_t *u, int input) {
    int rank;
    int64_t dims[VN_MAX_RANK], size = INT64_MAX;
    if (u->data >= n->n_inputs || !n->inputs[u->data][0] || !known_shape(g, n->inputs[u->data], &rank, dims)) return;
    if (u->all_axes) {
        for (int k = 0; k < rank; ++k)
            if (dims[k] >= 0 && dims[k] < size) size = dims[k];
    } else {
        int64_t axis = u->axis ? vn_node_int(n, u->axis, 0) : 0;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || dims[axis] < 0) return;
        size = dims[axis];
    }
    if (size < t->limits[input]) t->limits[input] = size;
}

static int origin_of(const tracker_t *t, const vn_node_t *n, int k) {
    const vn_name_entry_t *e = k < n->n_inputs && n->inputs[k][0] ? vn_names_find(&t->origin, n->inputs[k]) : NULL;
    return e ? e->slot[0] : -1;
}

static vn_status_t carry(tracker_t *t, const char *name, int input) {
    vn_name_entry_t *e = name[0] ? vn_names_put(&t->origin, name, NULL) : NULL;
    if (name[0] && !e) return vn_fail(t->err, VN_ERR_NOMEM, "out of memory while following the inputs");
    if (e) e->slot[0] = input;
    return VN_OK;
}

/* Nodes stand in topological order, so that one pass sees everything. Bodies see the values around them. */
static vn_status_t follow(tracker_t *t, const vn_graph_t *g) {
    for (int i = 0; i < g->n_nodes; ++i) {
        const vn_node_t *n = &g->nodes[i];
        for (size_t u = 0; u < sizeof uses / sizeof *uses; ++u) {
            if (strcmp(n->op, uses[u].op) != 0 || strcmp(n->domain, uses[u].domain) != 0) continue;
            int input = origin_of(t, n, uses[u].indices);
            if (input >= 0) apply_use(t, g, n, &uses[u], input);
        }
        int from = -1;
        if (!n->domain[0] && LISTED(n->op, carriers)) from = origin_of(t, n, 0);
        if (!n->domain[0] && strcmp(n->op, "Concat") == 0)
            for (int k = 0; k < n->n_inputs && from < 0; ++k) from = origin_of(t, n, k);
        if (from >= 0 && n->n_outputs > 0) VN_TRY(carry(t, n->outputs[0], from));
        for (int a = 0; a < n->n_attrs; ++a)
            for (int64_t b = 0; b < vn_attr_graph_count(&n->attrs[a]); ++b) VN_TRY(follow(t, vn_attr_graph(&n->attrs[a], b)));
    }
    return VN_OK;
}

vn_status_t vn_probe_limits(const vn_model_t *m, int64_t *limits, vn_error_t *err) {
    tracker_t t = {.limits = limits, .err = err};
    const vn_graph_t *g = m->graph;
    if (!vn_names_init(&t.origin, (size_t)g->n_inputs, NULL)) return vn_fail(err, VN_ERR_NOMEM, "out of memory while following the inputs");
    vn_status_t s = VN_OK;
    for (int k = 0; k < g->n_inputs && s == VN_OK; ++k) {
        limits[k] = INT64_MAX;
        if (vn_dtype_is_int(g->inputs[k].type.dtype)) s = carry(&t, g->inputs[k].name, k);
    }
    if (s == VN_OK) s = follow(&t, g);
    vn_names_free(&t.origin);
    return s;
}
