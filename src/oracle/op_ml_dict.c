/* op_ml_dict.c -- maps: CastMap, DictVectorizer, ZipMap.
 *
 * Claim ML-MAP: values are moved; CastMap to i64 truncates a float and reads a decimal text. Of a key that stands twice the later entry counts.
 * Open: the shape of a vectorised dictionary (the text says one dimension; reading "one-row": [1, n]), the spelling of a float as text
 * (readings of Cast), the value of a text that is no number (its element is open).
 * Errors: a key outside the vocabulary, or outside [0, max_map) of a sparse map: RANGE.
 */
#include <math.h>
#include <string.h>

#include "oracle/cast_text.h"
#include "oracle/ml_table.h"

/* Operand 0 as keys and values of equal length. */
static vn_status_t map_of(vn_eval_t *e, const vn_tensor_t **keys, const vn_tensor_t **values) {
    const vn_value_t *v = e->in[0].v;
    if (!v || v->kind != VN_VALUE_MAP || v->count != 2 || v->items[0]->kind != VN_VALUE_TENSOR || v->items[1]->kind != VN_VALUE_TENSOR)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is not a map");
    *keys = v->items[0]->tensor;
    *values = v->items[1]->tensor;
    if ((*keys)->dtype != VN_I64 && (*keys)->dtype != VN_STRING)
        return vn_eval_fail(e, VN_ERR_DTYPE, "the keys are %s, not i64 or string", vn_dtype_name((*keys)->dtype));
    if ((*keys)->count != (*values)->count)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld keys and %lld values", (long long)(*keys)->count, (long long)(*values)->count);
    return VN_OK;
}

/* ---- CastMap ---- */

typedef enum cast_to { TO_FLOAT, TO_STRING, TO_INT64 } cast_to_t;

static vn_status_t cast_plan(vn_eval_t *e, cast_to_t *to, bool *sparse, int64_t *max) {
    static const char *const types[] = {"TO_FLOAT", "TO_STRING", "TO_INT64", NULL}, *const forms[] = {"DENSE", "SPARSE", NULL};
    int t, f;
    VN_TRY(vn_ml_choice(e, "cast_to", "TO_FLOAT", types, &t));
    VN_TRY(vn_ml_choice(e, "map_form", "DENSE", forms, &f));
    *to = (cast_to_t)t;
    *sparse = f == 1;
    *max = vn_node_int(e->node, "max_map", 1);
    if (*sparse && *max < 1) return vn_eval_fail(e, VN_ERR_RANGE, "max_map is %lld", (long long)*max);
    return VN_OK;
}

static const vn_dtype_t cast_types[] = {[TO_FLOAT] = VN_F32, [TO_STRING] = VN_STRING, [TO_INT64] = VN_I64};

vn_status_t vn_infer_ml_cast_map(vn_eval_t *e) {
    cast_to_t to;
    bool sparse;
    int64_t max;
    VN_TRY(cast_plan(e, &to, &sparse, &max));
    if (!sparse && (!e->in[0].v || e->in[0].v->count != 2))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "the number of entries decides the shape and is not known");
    const vn_shape_t s = {.rank = 2, .d = {1, sparse ? max : e->in[0].v->items[0]->tensor->count}};
    return vn_move_infer(e, 0, cast_types[to], &s);
}

/* Value i of the map into element k. */
static vn_status_t cast_one(vn_eval_t *e, const vn_tensor_t *v, int64_t i, cast_to_t to, vn_tensor_t *out, int64_t k, vn_spelling_t how) {
    const bool text = v->dtype == VN_STRING;
    const vn_string_t *s = text ? &((const vn_string_t *)v->data)[i] : NULL;
    double x = text ? NAN : vn_tensor_get_f64(v, i);
    bool known = !text || vn_read_float(s->text, s->length, &x);
    if (to == TO_STRING) {
        char spelled[VN_CAST_TEXT_MAX];
        if (text) return vn_tensor_set_string(out, k, s->text, s->length, e->err);
        const int n = vn_spell_float(v->dtype, x, how, spelled);
        return vn_tensor_set_string(out, k, spelled, (size_t)n, e->err);
    }
    if (to == TO_FLOAT) {
        vn_tensor_set_f64(out, k, x);
    } else {
        bool whole;
        int64_t n = 0;
        if (text) known = vn_read_int(s->text, s->length, false, &n, &whole) && whole;
        else if ((known = x > -0x1p63 - 1 && x < 0x1p63)) n = (int64_t)x;
        vn_tensor_set_i64(out, k, n);
    }
    if (known) return VN_OK;
    VN_TRY(vn_out_flags(e, 0));
    e->out[0].flags[k] = VN_EL_VOID;
    return VN_OK;
}

typedef struct cast_job {
    const vn_tensor_t *keys, *values;
    const vn_ml_table_t *order;
    cast_to_t to;
    bool sparse;
} cast_job_t;

static vn_status_t fill(vn_eval_t *e, const cast_job_t *j, vn_tensor_t *out, vn_spelling_t how) {
    int64_t column = 0;
    for (int64_t i = 0; j->sparse && j->to == TO_STRING && i < out->count; ++i) VN_TRY(vn_tensor_set_string(out, i, "", 0, e->err));
    for (int64_t i = 0; i < j->order->count; ++i) {
        const vn_ml_key_t *key = &j->order->keys[i];
        const int64_t k = j->sparse ? key->number : column++;
        if (k < 0 || k >= out->count)
            return vn_eval_fail(e, VN_ERR_RANGE, "key %lld outside [0, max_map = %lld)", (long long)key->number, (long long)out->count);
        VN_TRY(cast_one(e, j->values, key->at, j->to, out, k, how));
    }
    return VN_OK;
}

static vn_status_t cast_all(vn_eval_t *e, const cast_job_t *j, int64_t columns) {
    static const struct {
        const char *name;
        vn_spelling_t how;
    } spellings[] = {{"repr", VN_SPELL_REPR}, {"general", VN_SPELL_GENERAL}};
    const int64_t dims[] = {1, columns};
    VN_TRY(vn_out_exact(e, 0, cast_types[j->to], 2, dims));
    VN_TRY(fill(e, j, e->out[0].tensor, VN_SPELL_PLAIN));
    for (size_t i = 0; j->to == TO_STRING && j->values->dtype != VN_STRING && i < sizeof spellings / sizeof *spellings; ++i) {
        vn_tensor_t *t;
        VN_TRY(vn_tensor_new(VN_STRING, 2, dims, &t, e->err));
        const vn_status_t s = fill(e, j, t, spellings[i].how);
        if (s == VN_OK && !vn_tensor_equal_bits(t, e->out[0].tensor)) {
            VN_TRY(vn_out_reading(e, 0, spellings[i].name, t));
            continue;
        }
        vn_tensor_free(t);
        VN_TRY(s);
    }
    return VN_OK;
}

vn_status_t vn_ml_cast_map(vn_eval_t *e) {
    cast_job_t j = {0};
    int64_t max;
    vn_ml_table_t order = {0};
    VN_TRY(cast_plan(e, &j.to, &j.sparse, &max));
    VN_TRY(map_of(e, &j.keys, &j.values));
    if (j.keys->dtype != VN_I64) return vn_eval_fail(e, VN_ERR_DTYPE, "the keys are strings, not i64");
    if (j.values->dtype != VN_F32 && j.values->dtype != VN_STRING)
        return vn_eval_fail(e, VN_ERR_DTYPE, "the values are %s, not f32 or string", vn_dtype_name(j.values->dtype));
    const vn_ml_labels_t list = {.ints = j.keys->data, .count = j.keys->count};
    vn_status_t s = vn_ml_table_new(e, &list, &order);
    j.order = &order;
    if (s == VN_OK) s = cast_all(e, &j, j.sparse ? max : j.keys->count);
    vn_ml_table_free(&order);
    return s;
}

/* ---- DictVectorizer ---- */

static vn_status_t vocabulary(vn_eval_t *e, vn_ml_labels_t *l) {
    VN_TRY(vn_ml_labels_of(e, "int64_vocabulary", "string_vocabulary", l));
    return l->count ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "no vocabulary is given");
}

vn_status_t vn_infer_ml_dict_vectorizer(vn_eval_t *e) {
    vn_ml_labels_t l;
    VN_TRY(vocabulary(e, &l));
    if (!e->in[0].v) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "the type of the map's values is not known");
    const vn_shape_t s = {.rank = 1, .d = {l.count}};
    return vn_move_infer(e, 0, e->in[0].v->elem, &s);
}

static vn_status_t vectorize(vn_eval_t *e, const vn_tensor_t *keys, const vn_tensor_t *values, const vn_ml_table_t *t) {
    vn_tensor_t *row;
    VN_TRY(vn_out_exact(e, 0, values->dtype, 1, &t->count));
    vn_tensor_t *out = e->out[0].tensor;
    for (int64_t i = 0; out->dtype == VN_STRING && i < out->count; ++i) VN_TRY(vn_tensor_set_string(out, i, "", 0, e->err));
    for (int64_t i = 0; i < keys->count; ++i) {
        const vn_string_t *text = t->text ? &((const vn_string_t *)keys->data)[i] : NULL;
        const int64_t at = vn_ml_table_find(t, text ? 0 : vn_tensor_get_i64(keys, i), text, true);
        if (at < 0) return vn_eval_fail(e, VN_ERR_RANGE, "key %lld of the map is not in the vocabulary", (long long)i);
        if (out->dtype == VN_STRING) {
            const vn_string_t *s = &((const vn_string_t *)values->data)[i];
            VN_TRY(vn_tensor_set_string(out, at, s->text, s->length, e->err));
        } else {
            const size_t size = (size_t)vn_dtype_bits(out->dtype) / 8;
            memcpy((char *)out->data + (size_t)at * size, (const char *)values->data + (size_t)i * size, size);
        }
    }
    VN_TRY(vn_tensor_reshape(out, 2, (int64_t[]){1, t->count}, &row, e->err));
    return vn_out_reading(e, 0, "one-row", row);
}

vn_status_t vn_ml_dict_vectorizer(vn_eval_t *e) {
    vn_ml_labels_t l;
    vn_ml_table_t t = {0};
    const vn_tensor_t *keys, *values;
    VN_TRY(vocabulary(e, &l));
    VN_TRY(map_of(e, &keys, &values));
    if ((keys->dtype == VN_STRING) != (l.text != NULL))
        return vn_eval_fail(e, VN_ERR_DTYPE, "keys of %s for a vocabulary of %s", vn_dtype_name(keys->dtype),
                            l.text ? "strings" : "integers");
    const vn_dtype_t v = values->dtype;
    if (v != VN_F32 && v != VN_F64 && v != VN_I64 && v != VN_STRING)
        return vn_eval_fail(e, VN_ERR_DTYPE, "the values are %s", vn_dtype_name(v));
    vn_status_t s = vn_ml_table_new(e, &l, &t);
    if (s == VN_OK) s = vectorize(e, keys, values, &t);
    vn_ml_table_free(&t);
    return s;
}

/* ---- ZipMap ---- */

/* The keys as a tensor that all maps share. */
static vn_status_t shared_keys(vn_eval_t *e, const vn_ml_labels_t *l, vn_value_t **out) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(l->text ? VN_STRING : VN_I64, 1, &l->count, &t, e->err));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < l->count && s == VN_OK; ++i) {
        if (l->text) s = vn_tensor_set_string(t, i, l->text[i].text, l->text[i].length, e->err);
        else vn_tensor_set_i64(t, i, l->ints[i]);
    }
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    *out = vn_value_tensor(t);
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for keys");
}

static vn_status_t one_map(vn_eval_t *e, vn_value_t *keys, int64_t row, vn_value_t **out) {
    const int64_t c = keys->tensor->count;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_F32, 1, &c, &t, e->err));
    memcpy(t->data, (const float *)e->in[0].t->data + row * c, (size_t)c * sizeof(float));
    vn_value_t *values = vn_value_tensor(t);
    *out = values ? vn_value_list(VN_VALUE_MAP, VN_F32, (vn_value_t *[]){keys, values}, 2) : NULL;
    vn_value_free(values);
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a map of %lld entries", (long long)c);
}

vn_status_t vn_ml_zip_map(vn_eval_t *e) {
    vn_ml_labels_t l;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_ml_labels_of(e, "classlabels_int64s", "classlabels_strings", &l));
    const vn_tensor_t *x = e->in[0].t;
    if (x->dtype != VN_F32) return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, not f32", vn_dtype_name(x->dtype));
    if (x->rank < 1 || x->rank > 2 || l.count == 0 || x->dims[x->rank - 1] != l.count)
        return vn_eval_fail(e, VN_ERR_SHAPE, "there must be as many columns as keys (%lld)", (long long)l.count);
    const int64_t n = x->rank == 2 ? x->dims[0] : 1;
    vn_value_t *keys = NULL, **items = vn_alloc((size_t)(n ? n : 1), sizeof *items);
    vn_status_t s = items ? shared_keys(e, &l, &keys) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld maps", (long long)n);
    for (int64_t i = 0; i < n && s == VN_OK; ++i) s = one_map(e, keys, i, &items[i]);
    if (s == VN_OK) s = vn_move_out_value(e, 0, vn_value_list(VN_VALUE_SEQUENCE, VN_F32, items, n));
    for (int64_t i = 0; items && i < n; ++i) vn_value_free(items[i]);
    vn_value_free(keys);
    vn_free(items);
    return s;
}
