/* attr.c -- attributes of a node: reading with a fallback, setting. */
#include "internal.h"

#include <string.h>

const vn_attr_t *vn_node_attr(const vn_node_t *n, const char *name) {
    for (int k = 0; k < n->n_attrs; ++k)
        if (strcmp(n->attrs[k].name, name) == 0) return &n->attrs[k];
    return NULL;
}

/* An attribute that only refers to one of the enclosing function has no value of its own. */
static const vn_attr_t *valued(const vn_node_t *n, const char *name, vn_attr_kind_t kind) {
    const vn_attr_t *a = vn_node_attr(n, name);
    return a && a->kind == kind && !a->ref ? a : NULL;
}

int64_t vn_node_int(const vn_node_t *n, const char *name, int64_t fallback) {
    const vn_attr_t *a = valued(n, name, VN_ATTR_INT);
    return a ? a->i : fallback;
}

double vn_node_float(const vn_node_t *n, const char *name, double fallback) {
    const vn_attr_t *a = valued(n, name, VN_ATTR_FLOAT);
    return a ? (double)a->f : fallback;
}

const char *vn_node_string(const vn_node_t *n, const char *name, const char *fallback) {
    const vn_attr_t *a = valued(n, name, VN_ATTR_STRING);
    return a ? a->s.text : fallback;
}

const int64_t *vn_node_ints(const vn_node_t *n, const char *name, int64_t *count) {
    const vn_attr_t *a = valued(n, name, VN_ATTR_INTS);
    *count = a ? a->count : 0;
    return a ? a->ints : NULL;
}

const float *vn_node_floats(const vn_node_t *n, const char *name, int64_t *count) {
    const vn_attr_t *a = valued(n, name, VN_ATTR_FLOATS);
    *count = a ? a->count : 0;
    return a ? a->floats : NULL;
}

/* ---- setting: `value` lies in the arena already ---- */

static vn_status_t set(vn_model_t *m, vn_node_t *n, const char *name, vn_attr_t value, vn_error_t *err) {
    for (int k = 0; k < n->n_attrs; ++k)
        if (strcmp(n->attrs[k].name, name) == 0) {
            value.name = n->attrs[k].name;
            n->attrs[k] = value;
            return VN_OK;
        }
    size_t count = (size_t)n->n_attrs;
    vn_attr_t *attrs = vn_arena_alloc(m->arena, count + 1, sizeof *attrs);
    value.name = vn_arena_strdup(m->arena, name);
    if (!attrs || !value.name) return vn_no_memory(err, "setting an attribute");
    if (count) memcpy(attrs, n->attrs, count * sizeof *attrs);
    attrs[count] = value;
    n->attrs = attrs;
    n->n_attrs++;
    return VN_OK;
}

vn_status_t vn_node_set_int(vn_model_t *m, vn_node_t *n, const char *name, int64_t value, vn_error_t *err) {
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_INT, .i = value}, err);
}

vn_status_t vn_node_set_float(vn_model_t *m, vn_node_t *n, const char *name, float value, vn_error_t *err) {
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_FLOAT, .f = value}, err);
}

vn_status_t vn_node_set_string(vn_model_t *m, vn_node_t *n, const char *name, const char *value, vn_error_t *err) {
    char *copy = vn_arena_strdup(m->arena, value);
    if (!copy) return vn_no_memory(err, "setting an attribute");
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_STRING, .s = {.text = copy, .length = strlen(copy)}}, err);
}

/* Never NULL for an empty list: NULL means "absent" to readers. */
static void *copy_list(vn_model_t *m, const void *v, int64_t count, size_t size) {
    if (count < 0) return NULL;
    void *copy = vn_arena_alloc(m->arena, (size_t)count, size);
    if (copy && count) memcpy(copy, v, (size_t)count * size);
    return copy;
}

vn_status_t vn_node_set_ints(vn_model_t *m, vn_node_t *n, const char *name, const int64_t *v, int64_t count, vn_error_t *err) {
    int64_t *copy = copy_list(m, v, count, sizeof *v);
    if (!copy) return vn_no_memory(err, "setting an attribute");
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_INTS, .count = count, .ints = copy}, err);
}

vn_status_t vn_node_set_floats(vn_model_t *m, vn_node_t *n, const char *name, const float *v, int64_t count, vn_error_t *err) {
    float *copy = copy_list(m, v, count, sizeof *v);
    if (!copy) return vn_no_memory(err, "setting an attribute");
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_FLOATS, .count = count, .floats = copy}, err);
}

vn_status_t vn_node_set_tensor(vn_model_t *m, vn_node_t *n, const char *name, const vn_tensor_t *t, vn_error_t *err) {
    vn_tensor_t *held = vn_tensor_retain(t);
    VN_TRY(vn_model_take(m, held, err));
    return set(m, n, name, (vn_attr_t){.kind = VN_ATTR_TENSOR, .t = held}, err);
}

vn_status_t vn_node_set_attr(vn_model_t *m, vn_node_t *n, const vn_attr_t *attr, vn_error_t *err) {
    vn_attr_t copy;
    VN_TRY(vn_copy_attr(&(vn_copier_t){.into = m}, attr, &copy, err));
    return set(m, n, attr->name, copy, err);
}
