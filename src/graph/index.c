/* index.c -- looking things up by name: the index of a graph, and the lookups that use it (or scan, while a graph is being edited). */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shown(const vn_graph_t *g) { return g->name && g->name[0] ? g->name : "(unnamed)"; }

static vn_status_t no_name(const vn_graph_t *g, const char *what, int k, vn_error_t *err) {
    return vn_fail(err, VN_ERR_PARSE, "graph '%.100s': %s %d has no name; every one needs its own", shown(g), what, k);
}

/* Graph-level arrays: a name may stand once in each. */
static vn_status_t put_all(vn_graph_t *g, vn_names_t *names, int slot, bool unique, vn_error_t *err) {
    static const char *const what[VN_SLOTS] = {"input", "output", "initialiser", "value_info", "node"};
    const int counts[VN_SLOTS] = {g->n_inputs, g->n_outputs, g->n_inits, g->n_infos, 0};
    for (int k = 0; k < counts[slot]; ++k) {
        const char *name = slot == VN_SLOT_INPUT    ? g->inputs[k].name
                           : slot == VN_SLOT_OUTPUT ? g->outputs[k].name
                           : slot == VN_SLOT_INIT   ? g->inits[k].name
                                                    : g->infos[k].name;
        if (!name[0]) {
            if (slot == VN_SLOT_INFO) continue;
            return no_name(g, what[slot], k, err);
        }
        vn_name_entry_t *e = vn_names_put(names, name, NULL);
        if (!e) return vn_no_memory(err, "indexing a graph");
        if (e->slot[slot] < 0) e->slot[slot] = k;
        else if (unique)
            return vn_fail(err, VN_ERR_PARSE, "graph '%.100s': %s '%.200s' is there twice; rename or remove one", shown(g), what[slot],
                           name);
    }
    return VN_OK;
}

vn_status_t vn_graph_build_index(vn_graph_t *g, bool top, vn_error_t *err) {
    vn_graph_private_t *p = vn_graph_private(g);
    if (!p) return vn_no_memory(err, "indexing a graph");
    p->indexed = false;
    size_t expected = (size_t)g->n_inputs + (size_t)g->n_outputs + (size_t)g->n_inits + (size_t)g->n_infos;
    for (int i = 0; i < g->n_nodes; ++i) expected += (size_t)g->nodes[i].n_outputs;
    if (!vn_names_init(&p->names, expected, g->model->arena)) return vn_no_memory(err, "indexing a graph");
    VN_TRY(put_all(g, &p->names, VN_SLOT_INPUT, true, err));
    VN_TRY(put_all(g, &p->names, VN_SLOT_INIT, true, err));
    VN_TRY(put_all(g, &p->names, VN_SLOT_OUTPUT, top, err));
    VN_TRY(put_all(g, &p->names, VN_SLOT_INFO, false, err));
    for (int i = 0; i < g->n_nodes; ++i)
        for (int k = 0; k < g->nodes[i].n_outputs; ++k) {
            const char *name = g->nodes[i].outputs[k];
            if (!name[0]) continue;
            char first[300], second[300];
            vn_name_entry_t *e = vn_names_put(&p->names, name, NULL);
            if (!e) return vn_no_memory(err, "indexing a graph");
            if (e->slot[VN_SLOT_NODE] >= 0)
                return vn_fail(err, VN_ERR_PARSE, "%s writes '%.150s', which %s writes too; every value needs its own name",
                               vn_node_where(g, &g->nodes[i], first, sizeof first), name,
                               vn_node_where(g, &g->nodes[e->slot[VN_SLOT_NODE]], second, sizeof second));
            if (e->slot[VN_SLOT_INPUT] >= 0 || e->slot[VN_SLOT_INIT] >= 0)
                return vn_fail(err, VN_ERR_PARSE, "%s writes '%.150s', which is also %s of graph '%.100s'; every value needs its own name",
                               vn_node_where(g, &g->nodes[i], first, sizeof first), name,
                               e->slot[VN_SLOT_INIT] >= 0 ? "an initialiser" : "an input", shown(g));
            e->slot[VN_SLOT_NODE] = i;
        }
    p->indexed = true;
    return VN_OK;
}

const vn_name_entry_t *vn_graph_entry(const vn_graph_t *g, const char *name) {
    const vn_graph_private_t *p = g->index;
    return p ? vn_names_find(&p->names, name) : NULL;
}

static int scan(const vn_graph_t *g, int slot, const char *name) {
    switch (slot) {
    case VN_SLOT_INPUT:
        for (int k = 0; k < g->n_inputs; ++k)
            if (strcmp(g->inputs[k].name, name) == 0) return k;
        break;
    case VN_SLOT_OUTPUT:
        for (int k = 0; k < g->n_outputs; ++k)
            if (strcmp(g->outputs[k].name, name) == 0) return k;
        break;
    case VN_SLOT_INIT:
        for (int k = 0; k < g->n_inits; ++k)
            if (strcmp(g->inits[k].name, name) == 0) return k;
        break;
    case VN_SLOT_INFO:
        for (int k = 0; k < g->n_infos; ++k)
            if (strcmp(g->infos[k].name, name) == 0) return k;
        break;
    default:
        for (int i = 0; i < g->n_nodes; ++i)
            for (int k = 0; k < g->nodes[i].n_outputs; ++k)
                if (strcmp(g->nodes[i].outputs[k], name) == 0) return i;
        break;
    }
    return -1;
}

static int position(const vn_graph_t *g, int slot, const char *name) {
    const vn_graph_private_t *p = g->index;
    if (!name || !name[0]) return -1;
    if (!p || !p->indexed) return scan(g, slot, name);
    const vn_name_entry_t *e = vn_names_find(&p->names, name);
    return e ? e->slot[slot] : -1;
}

bool vn_graph_defines(const vn_graph_t *g, const char *name) {
    return position(g, VN_SLOT_INPUT, name) >= 0 || position(g, VN_SLOT_INIT, name) >= 0 || position(g, VN_SLOT_NODE, name) >= 0;
}

const vn_tensor_t *vn_graph_init(const vn_graph_t *g, const char *name) {
    int k = position(g, VN_SLOT_INIT, name);
    return k < 0 ? NULL : g->inits[k].tensor;
}

const vn_value_info_t *vn_graph_input(const vn_graph_t *g, const char *name) {
    int k = position(g, VN_SLOT_INPUT, name);
    return k < 0 ? NULL : &g->inputs[k];
}

const vn_value_info_t *vn_graph_info(const vn_graph_t *g, const char *name) {
    int k = position(g, VN_SLOT_INPUT, name);
    if (k >= 0) return &g->inputs[k];
    k = position(g, VN_SLOT_OUTPUT, name);
    if (k >= 0 && g->outputs[k].type.kind != VN_TYPE_NONE) return &g->outputs[k];
    int info = position(g, VN_SLOT_INFO, name);
    if (info >= 0) return &g->infos[info];
    return k < 0 ? NULL : &g->outputs[k];
}

int vn_graph_producer(const vn_graph_t *g, const char *name) { return position(g, VN_SLOT_NODE, name); }

bool vn_graph_is_output(const vn_graph_t *g, const char *name) { return position(g, VN_SLOT_OUTPUT, name) >= 0; }

int vn_graph_run_inputs(const vn_graph_t *g, int *indices) {
    int n = 0;
    for (int k = 0; k < g->n_inputs; ++k) {
        if (position(g, VN_SLOT_INIT, g->inputs[k].name) >= 0) continue;
        if (indices) indices[n] = k;
        ++n;
    }
    return n;
}

/* ---- functions ---- */

static int compare_key(const vn_function_t *f, const char *domain, const char *name, const char *overload) {
    int c = strcmp(f->name, name);
    if (c == 0) c = strcmp(f->domain, domain);
    return c ? c : strcmp(f->overload, overload);
}

static int compare_functions(const void *a, const void *b) {
    const vn_function_t *x = *(const vn_function_t *const *)a, *y = *(const vn_function_t *const *)b;
    return compare_key(x, y->domain, y->name, y->overload);
}

void vn_model_order_functions(vn_model_t *m, const vn_function_t **order) {
    vn_storage_t *s = m->storage;
    for (int i = 0; i < m->n_functions; ++i) order[i] = &m->functions[i];
    qsort(order, (size_t)m->n_functions, sizeof *order, compare_functions);
    s->function_order = order;
}

const vn_function_t *vn_model_function(const vn_model_t *m, const char *domain, const char *name, const char *overload) {
    const vn_storage_t *s = m->storage;
    domain = vn_domain_name(domain);
    if (!overload) overload = "";
    if (!s->function_order) {
        for (int i = 0; i < m->n_functions; ++i)
            if (compare_key(&m->functions[i], domain, name, overload) == 0) return &m->functions[i];
        return NULL;
    }
    for (int lo = 0, hi = m->n_functions; lo < hi;) {
        int mid = lo + (hi - lo) / 2, c = compare_key(s->function_order[mid], domain, name, overload);
        if (c == 0) return s->function_order[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}
