/* value.c -- what flows along an edge: tensors, sequences, optionals; counted. */
#include "vernier/tensor.h"

vn_value_t *vn_value_tensor(vn_tensor_t *t) {
    vn_value_t *v = t ? vn_alloc(1, sizeof *v) : NULL;
    if (!v) {
        vn_tensor_free(t);
        return NULL;
    }
    *v = (vn_value_t){.kind = VN_VALUE_TENSOR, .tensor = t, .elem = t->dtype, .refs = 1};
    return v;
}

vn_value_t *vn_value_list(vn_value_kind_t kind, vn_dtype_t elem, vn_value_t **items, int64_t count) {
    if (count < 0 || (kind == VN_VALUE_OPTIONAL && count > 1)) return NULL;
    vn_value_t *v = vn_alloc(1, sizeof *v);
    vn_value_t **copy = v && count ? vn_alloc((size_t)count, sizeof *copy) : NULL;
    if (!v || (count && !copy)) {
        vn_free(v);
        return NULL;
    }
    for (int64_t i = 0; i < count; ++i) copy[i] = vn_value_retain(items[i]);
    *v = (vn_value_t){.kind = kind, .items = copy, .count = count, .elem = elem, .refs = 1};
    return v;
}

vn_value_t *vn_value_retain(const vn_value_t *v) {
    vn_value_t *x = (vn_value_t *)(uintptr_t)v; /* the count is not part of the value */
    if (x) __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
    return x;
}

void vn_value_free(vn_value_t *v) {
    if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    vn_tensor_free(v->tensor);
    for (int64_t i = 0; i < v->count; ++i) vn_value_free(v->items[i]);
    vn_free(v->items);
    vn_free(v);
}
