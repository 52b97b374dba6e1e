/* infer_fact.c -- facts: what is known about a value, how two of them meet, and the names that hold them. */
#include "oracle/infer.h"

#include <string.h>

void vn_fact_forget(vn_fact_t *f) {
    vn_value_free(f->v.value);
    vn_tensor_free(f->part);
    vn_tensor_free(f->mask);
    f->v.value = NULL;
    f->part = f->mask = NULL;
}

void vn_fact_clear(vn_fact_t *f) {
    const char *name = f->v.name;
    vn_fact_forget(f);
    *f = (vn_fact_t){.v = {.name = name, .rank = -1, .length = -1}};
}

void vn_fact_copy(vn_fact_t *to, const vn_fact_t *from) {
    const char *name = to->v.name;
    *to = *from;
    to->v.name = name;
    to->v.value = vn_value_retain(from->v.value);
    to->part = vn_tensor_retain(from->part);
    to->mask = vn_tensor_retain(from->mask);
}

void vn_fact_tensor(vn_fact_t *f, vn_dtype_t t, int rank, const int64_t *dims) {
    vn_fact_clear(f);
    f->v.kind = VN_TYPE_TENSOR;
    f->v.dtype = t;
    f->v.rank = rank;
    f->v.length = 1;
    for (int k = 0; k < rank; ++k) f->v.dims[k] = dims && dims[k] >= 0 ? dims[k] : -1;
}

/* Sequences and optionals: what all tensors inside agree on. */
static void note_item(vn_fact_t *f, const vn_value_t *v, bool *first) {
    if (v->kind != VN_VALUE_TENSOR) {
        for (int64_t i = 0; i < v->count; ++i) note_item(f, v->items[i], first);
        return;
    }
    const vn_tensor_t *t = v->tensor;
    if (*first) {
        f->v.rank = t->rank;
        memcpy(f->v.dims, t->dims, sizeof f->v.dims);
    } else if (f->v.rank != t->rank) {
        f->v.rank = -1;
    } else {
        for (int k = 0; k < t->rank; ++k)
            if (f->v.dims[k] != t->dims[k]) f->v.dims[k] = -1;
    }
    *first = false;
}

vn_status_t vn_fact_value(vn_fact_t *f, vn_value_t *v, vn_error_t *err) {
    vn_fact_clear(f);
    if (!v) return vn_fail(err, VN_ERR_NOMEM, "inference: no memory for %s", f->v.name ? f->v.name : "a value");
    bool first = true;
    static const vn_type_kind_t kinds[] = {[VN_VALUE_ABSENT] = VN_TYPE_OPTIONAL,
                                           [VN_VALUE_TENSOR] = VN_TYPE_TENSOR,
                                           [VN_VALUE_SEQUENCE] = VN_TYPE_SEQUENCE,
                                           [VN_VALUE_OPTIONAL] = VN_TYPE_OPTIONAL,
                                           [VN_VALUE_MAP] = VN_TYPE_MAP};
    f->v.kind = kinds[v->kind];
    f->v.dtype = v->elem;
    f->v.length = v->kind == VN_VALUE_TENSOR ? 1 : v->count;
    note_item(f, v, &first);
    f->v.value = v;
    return VN_OK;
}

static bool dims_known(const vn_inferred_value_t *v) {
    for (int k = 0; k < v->rank; ++k)
        if (v->dims[k] < 0) return false;
    return v->rank >= 0;
}

bool vn_fact_shaped(const vn_fact_t *f) { return f->v.kind == VN_TYPE_TENSOR && f->v.dtype != VN_UNDEFINED && dims_known(&f->v); }

bool vn_fact_known(const vn_fact_t *f) {
    if (f->v.kind == VN_TYPE_TENSOR) return vn_fact_shaped(f);
    if (f->v.kind != VN_TYPE_SEQUENCE && f->v.kind != VN_TYPE_OPTIONAL) return false;
    return f->v.dtype != VN_UNDEFINED && f->v.length >= 0 && (f->v.length == 0 || dims_known(&f->v));
}

static bool same_value(const vn_value_t *a, const vn_value_t *b) {
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind || a->count != b->count) return false;
    if (a->kind == VN_VALUE_TENSOR) return vn_tensor_equal_bits(a->tensor, b->tensor);
    for (int64_t i = 0; i < a->count; ++i)
        if (!same_value(a->items[i], b->items[i])) return false;
    return true;
}

void vn_fact_join(vn_fact_t *a, const vn_fact_t *b, bool *changed) {
    const char *why = a->v.reason ? a->v.reason : b->v.reason;
    if (a->v.kind != b->v.kind) {
        *changed |= a->v.kind != VN_TYPE_NONE;
        vn_fact_clear(a);
        a->v.reason = why;
        return;
    }
    if (a->v.value && !same_value(a->v.value, b->v.value)) {
        vn_fact_forget(a);
        *changed = true;
    }
    if (a->part && !(b->part && vn_tensor_equal_bits(a->part, b->part) && vn_tensor_equal_bits(a->mask, b->mask))) {
        vn_fact_forget(a);
        *changed = true;
    }
    if (a->v.dtype != b->v.dtype && a->v.dtype != VN_UNDEFINED) {
        a->v.dtype = VN_UNDEFINED;
        *changed = true;
    }
    if (a->v.rank != b->v.rank && a->v.rank >= 0) {
        a->v.rank = -1;
        *changed = true;
    }
    for (int k = 0; k < a->v.rank; ++k)
        if (a->v.dims[k] != b->v.dims[k] && a->v.dims[k] >= 0) {
            a->v.dims[k] = -1;
            *changed = true;
        }
    if (a->v.length != b->v.length && a->v.length >= 0) {
        a->v.length = -1;
        *changed = true;
    }
    a->v.declared |= b->v.declared;
    a->v.reason = vn_fact_known(a) ? NULL : why;
}

/* ---- integers ---- */

static bool integral(vn_dtype_t t) { return vn_dtype_is_int(t) || t == VN_BOOL; }

bool vn_fact_ints(const vn_fact_t *f, int max, int64_t *v, bool *known, int *n) {
    *n = 0;
    if (!vn_fact_shaped(f) || f->v.rank > 1 || !integral(f->v.dtype)) return false;
    const int64_t count = f->v.rank ? f->v.dims[0] : 1;
    if (count > max) return false;
    const vn_tensor_t *t = f->v.value ? f->v.value->tensor : f->part;
    for (int64_t i = 0; i < count; ++i) {
        known[i] = t && (f->v.value || vn_tensor_get_i64(f->mask, i));
        v[i] = known[i] ? vn_tensor_get_i64(t, i) : -1;
    }
    *n = (int)count;
    return true;
}

bool vn_fact_all_ints(const vn_fact_t *f, int max, int64_t *v, int *n) {
    bool known[VN_INFER_PART];
    if (max > VN_INFER_PART || !vn_fact_ints(f, max, v, known, n)) return false;
    for (int i = 0; i < *n; ++i)
        if (!known[i]) return false;
    return true;
}

bool vn_fact_int(const vn_fact_t *f, int64_t *v) {
    int n;
    return vn_fact_all_ints(f, 1, v, &n) && n == 1;
}

vn_status_t vn_fact_set_part(vn_fact_t *f, const int64_t *v, const bool *known, int n, vn_error_t *err) {
    int have = 0;
    for (int i = 0; i < n; ++i) have += known[i];
    vn_fact_forget(f);
    if (have == n) {
        vn_tensor_t *t;
        VN_TRY(vn_tensor_new(f->v.dtype, f->v.rank, f->v.dims, &t, err));
        for (int i = 0; i < n; ++i) vn_tensor_set_i64(t, i, v[i]);
        f->v.value = vn_value_tensor(t);
        return f->v.value ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "inference: no memory");
    }
    if (!have) return VN_OK;
    VN_TRY(vn_tensor_new(VN_I64, f->v.rank, f->v.dims, &f->part, err));
    VN_TRY(vn_tensor_new(VN_I64, f->v.rank, f->v.dims, &f->mask, err));
    for (int i = 0; i < n; ++i) {
        vn_tensor_set_i64(f->part, i, known[i] ? v[i] : 1);
        vn_tensor_set_i64(f->mask, i, known[i]);
    }
    return VN_OK;
}

/* ---- names ---- */

static uint64_t hash(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; ++s) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static int *place(const vn_fact_scope_t *s, const char *name) {
    size_t i = (size_t)hash(name) & (s->n_slots - 1);
    while (s->slots[i] >= 0 && strcmp(s->facts[s->slots[i]]->v.name, name) != 0) i = (i + 1) & (s->n_slots - 1);
    return &s->slots[i];
}

static vn_status_t grow(vn_fact_scope_t *s, vn_error_t *err) {
    const int capacity = s->capacity ? 2 * s->capacity : 32;
    vn_fact_t **facts = vn_realloc(s->facts, (size_t)capacity, sizeof *facts);
    if (facts) s->facts = facts;
    int *slots = facts ? vn_alloc((size_t)capacity * 2, sizeof *slots) : NULL;
    if (!slots) return vn_fail(err, VN_ERR_NOMEM, "inference: no memory for %d names", capacity);
    vn_free(s->slots);
    s->slots = slots;
    s->n_slots = (size_t)capacity * 2;
    s->capacity = capacity;
    for (size_t i = 0; i < s->n_slots; ++i) slots[i] = -1;
    for (int i = 0; i < s->count; ++i) *place(s, s->facts[i]->v.name) = i;
    return VN_OK;
}

vn_status_t vn_facts_put(vn_fact_scope_t *s, const char *name, vn_fact_t **out, vn_error_t *err) {
    *out = NULL;
    if (s->count == s->capacity) VN_TRY(grow(s, err));
    int *slot = place(s, name);
    if (*slot >= 0) {
        *out = s->facts[*slot];
    } else {
        if (!(*out = vn_alloc(1, sizeof **out))) return vn_fail(err, VN_ERR_NOMEM, "inference: no memory for %s", name);
        *slot = s->count;
        s->facts[s->count++] = *out;
    }
    (*out)->v.name = name;
    vn_fact_clear(*out);
    return VN_OK;
}

const vn_fact_t *vn_facts_find(const vn_fact_scope_t *s, const char *name) {
    for (; s; s = s->outer) {
        const int *slot = s->n_slots ? place(s, name) : NULL;
        if (slot && *slot >= 0) return s->facts[*slot];
    }
    return NULL;
}

void vn_facts_clear(vn_fact_scope_t *s) {
    for (int i = 0; i < s->count; ++i) {
        vn_fact_clear(s->facts[i]);
        vn_free(s->facts[i]);
    }
    vn_free(s->facts);
    vn_free(s->slots);
    *s = (vn_fact_scope_t){0};
}
