/* op_ml_map.c -- look-up of elements: CategoryMapper and LabelEncoder.
 *
 * Claim ML-LABEL: exact. A repeated key counts where it stands last: LabelEncoder 4 says so, the others are silent (reading
 * "first-of-duplicates"). Float keys: LabelEncoder 2 compares bits, as its text says; version 4 says that a NaN matches every NaN, and numbers
 * are compared by value (reading "zeros-by-bits": keys +0 and -0 differ).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "oracle/ml_table.h"

typedef enum key_rule { BY_BITS, BY_VALUE, BY_BITS_BUT_NAN } key_rule_t;

/* One mapping: keys and results as tensors of one element each. Owned. */
typedef struct mapping {
    vn_tensor_t *keys, *values, *fallback; /* keys NULL: the place in `values` is the key */
    key_rule_t rule;
    bool last_by_text;
} mapping_t;

static void mapping_free(mapping_t *m) {
    vn_tensor_free(m->keys);
    vn_tensor_free(m->values);
    vn_tensor_free(m->fallback);
}

static vn_status_t from_strings(vn_eval_t *e, const vn_string_t *v, int64_t n, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(VN_STRING, 1, &n, out, e->err));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) s = vn_tensor_set_string(*out, i, v[i].text, v[i].length, e->err);
    if (s == VN_OK) return VN_OK;
    vn_tensor_free(*out);
    *out = NULL;
    return s;
}

static vn_status_t from_ints(vn_eval_t *e, const int64_t *v, int64_t n, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(VN_I64, 1, &n, out, e->err));
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_i64(*out, i, v ? v[i] : i);
    return VN_OK;
}

/* The one list of stem_floats, stem_int64s, stem_strings, stem_tensor that is given. */
static vn_status_t list_of(vn_eval_t *e, const char *stem, vn_tensor_t **out) {
    static const char *const kinds[] = {"floats", "int64s", "strings", "tensor"};
    char name[32];
    int given = 0;
    *out = NULL;
    for (int k = 0; k < 4; ++k) {
        snprintf(name, sizeof name, "%s_%s", stem, kinds[k]);
        const vn_attr_t *a = vn_node_attr(e->node, name);
        if (!a || (a->kind == VN_ATTR_TENSOR ? !a->t : a->count == 0)) continue;
        if (given++) return vn_eval_fail(e, VN_ERR_RANGE, "more than one of %s_* is given; the standard allows one", stem);
        if (a->kind == VN_ATTR_TENSOR) {
            VN_TRY(vn_tensor_contiguous(a->t, out, e->err));
        } else if (a->kind == VN_ATTR_STRINGS) {
            VN_TRY(from_strings(e, a->strings, a->count, out));
        } else if (a->kind == VN_ATTR_INTS) {
            VN_TRY(from_ints(e, a->ints, a->count, out));
        } else if (a->kind == VN_ATTR_FLOATS) {
            VN_TRY(vn_tensor_new(VN_F32, 1, &a->count, out, e->err));
            for (int64_t i = 0; i < a->count; ++i) vn_tensor_set_f64(*out, i, (double)a->floats[i]);
        } else {
            return vn_eval_fail(e, VN_ERR_DTYPE, "attribute %s is no list", name);
        }
    }
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "none of %s_* is given", stem);
}

/* What stands for keys that are not there, of type t. */
static vn_status_t fallback_of(vn_eval_t *e, vn_dtype_t t, vn_tensor_t **out) {
    const vn_attr_t *a = vn_node_attr(e->node, "default_tensor");
    if (a && a->kind == VN_ATTR_TENSOR && a->t) {
        if (a->t->dtype != t || a->t->count != 1) return vn_eval_fail(e, VN_ERR_DTYPE, "default_tensor must hold one %s", vn_dtype_name(t));
        return vn_tensor_contiguous(a->t, out, e->err);
    }
    VN_TRY(vn_tensor_new(t, 0, NULL, out, e->err));
    if (t == VN_STRING) {
        const char *text = vn_node_string(e->node, "default_string", "_Unused");
        return vn_tensor_set_string(*out, 0, text, strlen(text), e->err);
    }
    if (vn_dtype_is_float(t)) vn_tensor_set_f64(*out, 0, vn_node_float(e->node, "default_float", -0.0));
    else vn_tensor_set_i64(*out, 0, vn_node_int(e->node, "default_int64", -1));
    return VN_OK;
}

/* CategoryMapper and LabelEncoder 1: strings to integers, or back, by the type of the input. */
static vn_status_t category_mapping(vn_eval_t *e, const char *strings, const char *ints, mapping_t *m) {
    int64_t n, k = 0;
    VN_TRY(vn_move_need(e, 0));
    const vn_string_t *s = vn_ml_strings(e, strings, &n);
    const int64_t *v = ints ? vn_ml_ints(e, ints, &k) : NULL;
    if (ints && k != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld entries, %s has %lld", strings, (long long)n, ints, (long long)k);
    const bool text = e->in[0].t->dtype == VN_STRING;
    VN_TRY(from_strings(e, s, n, text ? &m->keys : &m->values));
    VN_TRY(from_ints(e, v, n, text ? &m->values : &m->keys));
    return fallback_of(e, text ? VN_I64 : VN_STRING, &m->fallback);
}

static vn_status_t label_mapping(vn_eval_t *e, mapping_t *m) {
    if (e->version < 2) return category_mapping(e, "classes_strings", NULL, m);
    VN_TRY(list_of(e, "keys", &m->keys));
    VN_TRY(list_of(e, "values", &m->values));
    m->rule = e->version < 4 ? BY_BITS : BY_VALUE;
    m->last_by_text = e->version >= 4;
    if (m->keys->count != m->values->count)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld keys and %lld values", (long long)m->keys->count, (long long)m->values->count);
    const vn_kind_t kind = vn_dtype_kind(m->keys->dtype), to = vn_dtype_kind(m->values->dtype);
    if ((kind != VN_KIND_FLOAT && kind != VN_KIND_SIGNED && kind != VN_KIND_STRING) ||
        (to != VN_KIND_FLOAT && to != VN_KIND_SIGNED && to != VN_KIND_STRING))
        return vn_eval_fail(e, VN_ERR_DTYPE, "keys of %s and values of %s", vn_dtype_name(m->keys->dtype), vn_dtype_name(m->values->dtype));
    return fallback_of(e, m->values->dtype, &m->fallback);
}

static vn_status_t mapping_of(vn_eval_t *e, bool label, mapping_t *m) {
    *m = (mapping_t){0};
    VN_TRY(vn_move_need(e, 0));
    if (label) VN_TRY(label_mapping(e, m));
    else VN_TRY(category_mapping(e, "cats_strings", "cats_int64s", m));
    if (m->keys->dtype == e->in[0].t->dtype) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, the keys are %s", vn_dtype_name(e->in[0].t->dtype), vn_dtype_name(m->keys->dtype));
}

static vn_status_t infer(vn_eval_t *e, bool label) {
    mapping_t m;
    vn_status_t s = mapping_of(e, label, &m);
    if (s == VN_OK) {
        const vn_shape_t shape = vn_shape_of(e->in[0].t);
        s = vn_move_infer(e, 0, m.values->dtype, &shape);
    }
    mapping_free(&m);
    return s;
}

/* A number as an integer that is equal exactly where the rule says so. */
static int64_t number_of(const vn_tensor_t *t, int64_t i, key_rule_t rule) {
    if (!vn_dtype_is_float(t->dtype)) return vn_tensor_get_i64(t, i);
    const double v = vn_tensor_get_f64(t, i);
    if (rule != BY_BITS && isnan(v)) return INT64_MAX; /* bits of a NaN: no number has them */
    return rule == BY_VALUE && v == 0 ? 0 : (int64_t)vn_tensor_bits(t, i);
}

static vn_status_t put(vn_eval_t *e, const vn_tensor_t *from, int64_t i, vn_tensor_t *to, int64_t k) {
    if (to->dtype == VN_STRING) {
        const vn_string_t *s = &((const vn_string_t *)from->data)[i];
        return vn_tensor_set_string(to, k, s->text, s->length, e->err);
    }
    const size_t size = (size_t)vn_dtype_bits(to->dtype) / 8;
    memcpy((char *)to->data + (size_t)k * size, (const char *)from->data + (size_t)i * size, size);
    return VN_OK;
}

static vn_status_t look_up(vn_eval_t *e, const mapping_t *m, const vn_ml_table_t *t, key_rule_t rule, bool last, vn_tensor_t **out) {
    const vn_tensor_t *x = e->in[0].t;
    const bool text = x->dtype == VN_STRING;
    VN_TRY(vn_tensor_new(m->values->dtype, x->rank, x->dims, out, e->err));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < x->count && s == VN_OK; ++i) {
        const vn_string_t *key = text ? &((const vn_string_t *)x->data)[i] : NULL;
        const int64_t at = vn_ml_table_find(t, text ? 0 : number_of(x, i, rule), key, last);
        s = at < 0 ? put(e, m->fallback, 0, *out, i) : put(e, m->values, at, *out, i);
    }
    if (s == VN_OK) return VN_OK;
    vn_tensor_free(*out);
    *out = NULL;
    return s;
}

/* One way to read the keys: the output itself (name NULL) or a reading. */
static vn_status_t give(vn_eval_t *e, const mapping_t *m, key_rule_t rule, bool last, const char *name) {
    vn_ml_table_t table = {0};
    vn_tensor_t *out = NULL;
    const int64_t n = m->keys->count;
    int64_t *numbers = vn_alloc((size_t)(n ? n : 1), sizeof *numbers);
    vn_status_t s = numbers ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld keys", (long long)n);
    vn_ml_labels_t list = {.count = n, .ints = numbers};
    if (m->keys->dtype == VN_STRING) list.text = m->keys->data;
    for (int64_t i = 0; s == VN_OK && !list.text && i < n; ++i) numbers[i] = number_of(m->keys, i, rule);
    if (s == VN_OK) s = vn_ml_table_new(e, &list, &table);
    if (s == VN_OK && (last || table.repeated)) s = look_up(e, m, &table, rule, last, &out);
    vn_ml_table_free(&table);
    vn_free(numbers);
    if (s != VN_OK || !out) return s;
    if (!name) return vn_out_tensor(e, 0, out);
    if (!vn_tensor_equal_bits(out, e->out[0].tensor)) return vn_out_reading(e, 0, name, out);
    vn_tensor_free(out);
    return VN_OK;
}

static vn_status_t eval(vn_eval_t *e, bool label) {
    mapping_t m;
    vn_status_t s = mapping_of(e, label, &m);
    if (s == VN_OK) s = give(e, &m, m.rule, true, NULL);
    if (s == VN_OK && !m.last_by_text) s = give(e, &m, m.rule, false, "first-of-duplicates");
    if (s == VN_OK && m.rule == BY_VALUE && vn_dtype_is_float(m.keys->dtype)) s = give(e, &m, BY_BITS_BUT_NAN, true, "zeros-by-bits");
    mapping_free(&m);
    return s;
}

vn_status_t vn_ml_category_mapper(vn_eval_t *e) { return eval(e, false); }
vn_status_t vn_infer_ml_category_mapper(vn_eval_t *e) { return infer(e, false); }
vn_status_t vn_ml_label_encoder(vn_eval_t *e) { return eval(e, true); }
vn_status_t vn_infer_ml_label_encoder(vn_eval_t *e) { return infer(e, true); }
