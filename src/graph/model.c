/* model.c -- memory of a model: arena, held tensors, growing arrays; release; opsets and functions. */
#include "internal.h"

#include <limits.h>
#include <string.h>

vn_status_t vn_no_memory(vn_error_t *err, const char *doing) { return vn_fail(err, VN_ERR_NOMEM, "out of memory while %s", doing); }

const char *vn_domain_name(const char *domain) { return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

void *vn_array_grow(vn_arena_t *arena, void *array, int count, int *capacity, size_t size) {
    if (*capacity < count) *capacity = count; /* an array that was made elsewhere is full */
    if (count < *capacity) return array;
    if (*capacity > INT_MAX / 2) return NULL;
    int room = *capacity < 4 ? 4 : *capacity * 2;
    void *bigger = vn_arena_alloc(arena, (size_t)room, size);
    if (!bigger) return NULL;
    if (count) memcpy(bigger, array, (size_t)count * size);
    *capacity = room;
    return bigger;
}

vn_status_t vn_model_empty(vn_model_t **out, vn_error_t *err) {
    *out = NULL;
    vn_arena_t *arena = vn_arena_new();
    vn_model_t *m = arena ? vn_arena_alloc(arena, 1, sizeof *m) : NULL;
    vn_storage_t *storage = m ? vn_arena_alloc(arena, 1, sizeof *storage) : NULL;
    if (!storage) {
        vn_arena_free(arena);
        return vn_no_memory(err, "making a model");
    }
    m->arena = arena;
    m->storage = storage;
    m->producer = m->producer_version = m->domain = "";
    *out = m;
    return VN_OK;
}

void vn_model_free(vn_model_t *m) {
    if (!m) return;
    vn_storage_t *storage = m->storage;
    for (size_t i = 0; i < storage->n_held; ++i) vn_tensor_free(storage->held[i]);
    vn_free(storage->held);
    vn_arena_free(m->arena); /* m itself and storage lie in it */
}

vn_status_t vn_model_take(vn_model_t *m, vn_tensor_t *t, vn_error_t *err) {
    vn_storage_t *s = m->storage;
    if (s->n_held == s->cap_held) {
        size_t room = s->cap_held ? s->cap_held * 2 : 16;
        vn_tensor_t **held = vn_realloc(s->held, room, sizeof *held);
        if (!held) {
            vn_tensor_free(t);
            return vn_no_memory(err, "adding a tensor to a model");
        }
        s->held = held;
        s->cap_held = room;
    }
    s->held[s->n_held++] = t;
    return VN_OK;
}

vn_status_t vn_model_hold(vn_model_t *m, const vn_tensor_t *t, vn_error_t *err) { return vn_model_take(m, vn_tensor_retain(t), err); }

vn_graph_private_t *vn_graph_private(vn_graph_t *g) {
    if (!g->index) g->index = vn_arena_alloc(g->model->arena, 1, sizeof(vn_graph_private_t));
    return g->index;
}

void vn_graph_touch(vn_graph_t *g) {
    vn_graph_private_t *p = g->index;
    if (p) p->indexed = false;
}

vn_status_t vn_graph_create(vn_model_t *m, const char *name, vn_graph_t *outer, vn_graph_t **out, vn_error_t *err) {
    *out = NULL;
    vn_graph_t *g = vn_arena_alloc(m->arena, 1, sizeof *g);
    if (!g) return vn_no_memory(err, "making a graph");
    g->model = m;
    g->outer = outer;
    g->name = vn_arena_strdup(m->arena, name ? name : "");
    if (!g->name || !vn_graph_private(g)) return vn_no_memory(err, "making a graph");
    *out = g;
    return VN_OK;
}

vn_status_t vn_model_new(int64_t ir_version, vn_model_t **out, vn_error_t *err) {
    vn_model_t *m;
    VN_TRY(vn_model_empty(&m, err));
    m->ir_version = ir_version;
    m->producer = "vernier";
    m->producer_version = vn_version();
    vn_status_t s = vn_graph_create(m, "vernier", NULL, &m->graph, err);
    if (s != VN_OK) {
        vn_model_free(m);
        m = NULL;
    }
    *out = m;
    return s;
}

int64_t vn_model_opset(const vn_model_t *m, const char *domain) {
    domain = vn_domain_name(domain);
    for (int i = 0; i < m->n_opsets; ++i)
        if (strcmp(m->opsets[i].domain, domain) == 0) return m->opsets[i].version;
    return -1;
}

vn_status_t vn_model_set_opset(vn_model_t *m, const char *domain, int64_t version, vn_error_t *err) {
    vn_storage_t *s = m->storage;
    domain = vn_domain_name(domain);
    if (version < 1) return vn_fail(err, VN_ERR_RANGE, "opset import '%s': version %lld is not positive", domain, (long long)version);
    for (int i = 0; i < m->n_opsets; ++i)
        if (strcmp(m->opsets[i].domain, domain) == 0) {
            m->opsets[i].version = version;
            return VN_OK;
        }
    vn_opset_t *opsets = vn_array_grow(m->arena, m->opsets, m->n_opsets, &s->cap_opsets, sizeof *opsets);
    const char *copy = vn_arena_strdup(m->arena, domain);
    if (!opsets || !copy) return vn_no_memory(err, "importing an opset");
    m->opsets = opsets;
    m->opsets[m->n_opsets++] = (vn_opset_t){.domain = copy, .version = version};
    return VN_OK;
}
