/* op_ml_feature.c -- exact operators on features: ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, OneHotEncoder.
 *
 * Claim ML-FEATURE: no arithmetic. Comparisons are of exact numbers (an f32 threshold against the operand's own type); conversions to f32 are one
 * rounding to nearest. Binarizer: a NaN is not greater than the threshold: 0. Imputer: a NaN to be replaced matches every NaN, zeros of both
 * signs are equal. OneHotEncoder: floats are truncated; what has no integer leaves its row open; of a category that is listed twice the last
 * place counts (reading "first-of-duplicates"); without `zeros` an unknown category is an error, as the text says.
 * Errors: an index outside the last dimension, an imputed integer that the type cannot hold: RANGE.
 */
#include <math.h>
#include <string.h>

#include "oracle/ml.h"
#include "oracle/ml_table.h"

/* ---- ArrayFeatureExtractor ---- */

static vn_status_t extracted(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *x = e->in[0].t, *y = e->in[1].t;
    if (y->dtype != VN_I64) return vn_eval_fail(e, VN_ERR_DTYPE, "input 1 is %s, not i64", vn_dtype_name(y->dtype));
    if (x->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is a scalar: it has no features");
    *s = vn_shape_of(x);
    if (x->rank == 1) *s = (vn_shape_t){.rank = 2, .d = {1}}; /* a vector is one row */
    s->d[s->rank - 1] = y->count;
    return VN_OK;
}

vn_status_t vn_infer_ml_array_feature_extractor(vn_eval_t *e) {
    vn_shape_t s;
    VN_TRY(extracted(e, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

static vn_status_t extract(vn_eval_t *e, const vn_shape_t *s, const int64_t *index) {
    const vn_tensor_t *x = e->in[0].t;
    const int64_t f = x->dims[x->rank - 1], n = s->d[s->rank - 1], rows = f ? x->count / f : 0;
    vn_tensor_t *plain, *all;
    for (int64_t k = 0; k < n; ++k)
        if (index[k] < 0 || index[k] >= f)
            return vn_eval_fail(e, VN_ERR_RANGE, "index %lld outside %lld features", (long long)index[k], (long long)f);
    VN_TRY(vn_shape_check(e, x->dtype, s));
    VN_TRY(vn_plain_from(e, x, &plain));
    const vn_status_t st = vn_plain_new(e, x->dtype, s, &all);
    const size_t size = vn_plain_size(plain);
    for (int64_t i = 0; st == VN_OK && i < rows; ++i)
        for (int64_t k = 0; k < n; ++k)
            memcpy((char *)all->data + (size_t)(i * n + k) * size, (const char *)plain->data + (size_t)(i * f + index[k]) * size, size);
    vn_tensor_free(plain);
    return st == VN_OK ? vn_plain_out(e, 0, x->dtype, all) : st;
}

vn_status_t vn_ml_array_feature_extractor(vn_eval_t *e) {
    vn_shape_t s;
    int64_t *index;
    VN_TRY(extracted(e, &s));
    VN_TRY(vn_move_i64(e, 1, &index));
    const vn_status_t st = extract(e, &s, index);
    vn_free(index);
    return st;
}

/* ---- Binarizer ---- */

vn_status_t vn_infer_ml_binarizer(vn_eval_t *e) {
    VN_TRY(vn_ml_number_type(e, 0, false));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

/* a > t, exactly. */
static bool integer_beyond(int64_t a, double t) {
    if (isnan(t) || t >= 0x1p63) return false;
    return t < -0x1p63 || a > (int64_t)floor(t);
}

vn_status_t vn_ml_binarizer(vn_eval_t *e) {
    VN_TRY(vn_ml_number_type(e, 0, false));
    const vn_tensor_t *x = e->in[0].t;
    const double threshold = vn_node_float(e->node, "threshold", 0);
    const bool is_float = vn_dtype_is_float(x->dtype);
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; ++i) {
        const bool one = is_float ? vn_tensor_get_f64(x, i) > threshold : integer_beyond(vn_tensor_get_i64(x, i), threshold);
        if (is_float) vn_tensor_set_f64(e->out[0].tensor, i, one);
        else vn_tensor_set_i64(e->out[0].tensor, i, one);
    }
    return VN_OK;
}

/* ---- FeatureVectorizer ---- */

/* Rows and width of operand k; a vector is one row. */
static vn_status_t part(vn_eval_t *e, int k, int64_t *rows, int64_t *width) {
    VN_TRY(vn_ml_number_type(e, k, false));
    const vn_tensor_t *x = e->in[k].t;
    if (x->rank < 1 || x->rank > 2) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has rank %d, not [N, C] or [C]", k, x->rank);
    *rows = x->rank == 2 ? x->dims[0] : 1;
    *width = x->dims[x->rank - 1];
    return VN_OK;
}

/* Columns that operand k fills. */
static int64_t room(const int64_t *dims, int k, int64_t width) { return dims ? dims[k] : width; }

static vn_status_t vectorized(vn_eval_t *e, vn_shape_t *s) {
    int64_t n;
    const int64_t *dims = vn_ml_ints(e, "inputdimensions", &n);
    if (dims && n != e->n_in) return vn_eval_fail(e, VN_ERR_SHAPE, "%lld inputdimensions for %d inputs", (long long)n, e->n_in);
    *s = (vn_shape_t){.rank = 2};
    for (int k = 0; k < e->n_in; ++k) {
        int64_t rows, width;
        VN_TRY(part(e, k, &rows, &width));
        if (e->in[k].t->dtype != e->in[0].t->dtype) return vn_eval_fail(e, VN_ERR_DTYPE, "input %d has another type than input 0", k);
        if (k && rows != s->d[0])
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld rows, input 0 has %lld", k, (long long)rows, (long long)s->d[0]);
        s->d[0] = rows;
        if (room(dims, k, width) < 0 || !vn_i64_add(s->d[1], room(dims, k, width), &s->d[1]))
            return vn_eval_fail(e, VN_ERR_RANGE, "inputdimensions[%d] is %lld", k, (long long)dims[k]);
    }
    return VN_OK;
}

vn_status_t vn_infer_ml_feature_vectorizer(vn_eval_t *e) {
    vn_shape_t s;
    VN_TRY(vectorized(e, &s));
    return vn_move_infer(e, 0, VN_F32, &s);
}

/* One rounding of element i to f32: integers convert from all their bits. */
static float to_f32(const vn_tensor_t *x, int64_t i) {
    return vn_dtype_is_float(x->dtype) ? (float)vn_tensor_get_f64(x, i) : (float)vn_tensor_get_i64(x, i);
}

vn_status_t vn_ml_feature_vectorizer(vn_eval_t *e) {
    vn_shape_t s;
    int64_t n, at = 0;
    const int64_t *dims = vn_ml_ints(e, "inputdimensions", &n);
    VN_TRY(vectorized(e, &s));
    VN_TRY(vn_shape_check(e, VN_F32, &s));
    VN_TRY(vn_out_exact(e, 0, VN_F32, 2, s.d));
    float *out = e->out[0].tensor->data;
    for (int k = 0; k < e->n_in; ++k) {
        int64_t rows, width;
        VN_TRY(part(e, k, &rows, &width));
        const int64_t wide = room(dims, k, width), copied = wide < width ? wide : width; /* cut, or filled up with zeros */
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t c = 0; c < copied; ++c) out[i * s.d[1] + at + c] = to_f32(e->in[k].t, i * width + c);
        at += wide;
    }
    return VN_OK;
}

/* ---- Imputer ---- */

static vn_status_t imputed(vn_eval_t *e, int64_t *f) {
    VN_TRY(vn_ml_number_type(e, 0, false));
    const vn_tensor_t *x = e->in[0].t;
    *f = x->rank ? x->dims[x->rank - 1] : 1;
    return VN_OK;
}

vn_status_t vn_infer_ml_imputer(vn_eval_t *e) { return vn_infer_ml_binarizer(e); }

static vn_status_t lengths(vn_eval_t *e, int64_t n, int64_t f, const char *name) {
    if (n == 1 || (n == f && n > 0)) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld values for %lld features: 1 or all are due", name, (long long)n, (long long)f);
}

static vn_status_t impute_floats(vn_eval_t *e, int64_t f) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t n;
    double *values;
    VN_TRY(vn_ml_numbers(e, "imputed_value_floats", NULL, &values, &n));
    vn_status_t s = lengths(e, n, f, "imputed_value_floats");
    if (s == VN_OK) s = vn_out_exact(e, 0, x->dtype, x->rank, x->dims);
    const double from = vn_node_float(e->node, "replaced_value_float", 0);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        const double v = vn_tensor_get_f64(x, i);
        const bool hit = v == from || (isnan(v) && isnan(from));
        vn_tensor_set_f64(e->out[0].tensor, i, hit ? values[n == 1 ? 0 : i % f] : v);
    }
    vn_free(values);
    return s;
}

static vn_status_t impute_ints(vn_eval_t *e, int64_t f) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t n;
    const int64_t *values = vn_ml_ints(e, "imputed_value_int64s", &n), from = vn_node_int(e->node, "replaced_value_int64", 0);
    VN_TRY(lengths(e, n, f, "imputed_value_int64s"));
    for (int64_t k = 0; k < n; ++k)
        if (x->dtype == VN_I32 && values[k] != (int32_t)values[k])
            return vn_eval_fail(e, VN_ERR_RANGE, "imputed value %lld does not fit i32", (long long)values[k]);
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; ++i) {
        const int64_t v = vn_tensor_get_i64(x, i);
        vn_tensor_set_i64(e->out[0].tensor, i, v == from ? values[n == 1 ? 0 : i % f] : v);
    }
    return VN_OK;
}

vn_status_t vn_ml_imputer(vn_eval_t *e) {
    int64_t f;
    VN_TRY(imputed(e, &f));
    return vn_dtype_is_float(e->in[0].t->dtype) ? impute_floats(e, f) : impute_ints(e, f);
}

/* ---- OneHotEncoder ---- */

static vn_status_t encoder(vn_eval_t *e, vn_ml_labels_t *cats, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *x = e->in[0].t;
    if (x->dtype != VN_STRING) VN_TRY(vn_ml_number_type(e, 0, false));
    VN_TRY(vn_ml_labels_of(e, "cats_int64s", "cats_strings", cats));
    if (!cats->count) return vn_eval_fail(e, VN_ERR_SHAPE, "no categories are given");
    if ((x->dtype == VN_STRING) != (cats->text != NULL))
        return vn_eval_fail(e, VN_ERR_DTYPE, "categories of %s for an input of %s", cats->text ? "strings" : "integers",
                            vn_dtype_name(x->dtype));
    *s = vn_shape_of(x);
    return vn_shape_add(e, s, cats->count);
}

vn_status_t vn_infer_ml_one_hot_encoder(vn_eval_t *e) {
    vn_ml_labels_t cats;
    vn_shape_t s;
    VN_TRY(encoder(e, &cats, &s));
    return vn_move_infer(e, 0, VN_F32, &s);
}

/* Place of element i among the categories, -1: none. *open: a float without an integer. */
static int64_t place(const vn_ml_table_t *t, const vn_tensor_t *x, int64_t i, bool last, bool *open) {
    *open = false;
    if (x->dtype == VN_STRING) return vn_ml_table_find(t, 0, &((const vn_string_t *)x->data)[i], last);
    const double v = vn_tensor_get_f64(x, i);
    *open = vn_dtype_is_float(x->dtype) && !(v > -0x1p63 - 1 && v < 0x1p63);
    return *open ? -1 : vn_ml_table_find(t, vn_tensor_get_i64(x, i), NULL, last);
}

static vn_status_t mark_ones(vn_eval_t *e, const vn_ml_table_t *t, bool last, vn_tensor_t *out, int64_t c) {
    const vn_tensor_t *x = e->in[0].t;
    const bool zeros = vn_node_int(e->node, "zeros", 1) != 0;
    float *to = out->data;
    for (int64_t i = 0; i < x->count; ++i) {
        bool open;
        const int64_t at = place(t, x, i, last, &open);
        if (at >= 0) to[i * c + at] = 1;
        if (at < 0 && !open && !zeros)
            return vn_eval_fail(e, VN_ERR_RANGE, "element %lld is no category, and without zeros the operator fails", (long long)i);
        if (!open) continue;
        VN_TRY(vn_out_flags(e, 0));
        memset(e->out[0].flags + i * c, VN_EL_VOID, (size_t)c);
    }
    return VN_OK;
}

static vn_status_t encode(vn_eval_t *e, const vn_ml_table_t *t, const vn_shape_t *s, int64_t c) {
    vn_tensor_t *other;
    VN_TRY(vn_shape_check(e, VN_F32, s));
    VN_TRY(vn_out_exact(e, 0, VN_F32, s->rank, s->d));
    VN_TRY(mark_ones(e, t, true, e->out[0].tensor, c));
    if (!t->repeated) return VN_OK;
    VN_TRY(vn_tensor_new(VN_F32, s->rank, s->d, &other, e->err));
    const vn_status_t st = mark_ones(e, t, false, other, c);
    if (st == VN_OK && !vn_tensor_equal_bits(other, e->out[0].tensor)) return vn_out_reading(e, 0, "first-of-duplicates", other);
    vn_tensor_free(other);
    return st;
}

vn_status_t vn_ml_one_hot_encoder(vn_eval_t *e) {
    vn_ml_labels_t cats;
    vn_ml_table_t t = {0};
    vn_shape_t s;
    VN_TRY(encoder(e, &cats, &s));
    vn_status_t st = vn_ml_table_new(e, &cats, &t);
    if (st == VN_OK) st = encode(e, &t, &s, cats.count);
    vn_ml_table_free(&t);
    return st;
}
