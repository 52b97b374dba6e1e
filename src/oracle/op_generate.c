/* op_generate.c -- results made from attributes and shapes: Constant, ConstantOfShape, Shape, Size, EyeLike, OneHot, Range.
 *
 * Claim MOVE-8: these results are exact.
 * Claim MOVE-9 (Range, floats): element i is start + i delta, computed as one product and one sum: |error| <= (1 + u)(v + eta / 2) + u |y|
 * with v = u |i delta| (2 u where i itself needs rounding, i > 1/u); 0 where product and sum are numbers of the accumulator. Successive additions, or a step recomputed as
 * (start + delta) - start, stay within g(i) max(|start|, |y|): the second tier. The number of elements is the exact
 * ceil((limit - start) / delta); where the quotient rounded to the type gives another number, that is the reading "count-rounded".
 * Integers are exact. f16 and bf16 count and add in f32 (stash_type 1) and are rounded once.
 */
#include <math.h>
#include <string.h>

#include "oracle/move.h"

/* ---- Constant ---- */

static vn_status_t constant_value(vn_eval_t *e, vn_tensor_t **out) {
    static const char *const names[] = {"value",     "sparse_value", "value_float",  "value_floats",
                                        "value_int", "value_ints",   "value_string", "value_strings"};
    const vn_attr_t *a = NULL;
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !a; ++i) a = vn_node_attr(e->node, names[i]);
    if (!a) return vn_eval_fail(e, VN_ERR_SHAPE, "no value attribute");
    const int64_t one[1] = {a->count};
    vn_status_t s;
    switch (a->kind) {
    case VN_ATTR_TENSOR:
    case VN_ATTR_SPARSE_TENSOR:
        if (!a->t) return vn_eval_fail(e, VN_ERR_SHAPE, "attribute %s holds no tensor", a->name);
        return vn_tensor_contiguous(a->t, out, e->err);
    case VN_ATTR_FLOAT:
        s = vn_tensor_new(VN_F32, 0, NULL, out, e->err);
        if (s == VN_OK) memcpy((*out)->data, &a->f, sizeof a->f);
        return s;
    case VN_ATTR_FLOATS:
        s = vn_tensor_new(VN_F32, 1, one, out, e->err);
        if (s == VN_OK && a->count) memcpy((*out)->data, a->floats, (size_t)a->count * sizeof *a->floats);
        return s;
    case VN_ATTR_INT:
        s = vn_tensor_new(VN_I64, 0, NULL, out, e->err);
        if (s == VN_OK) memcpy((*out)->data, &a->i, sizeof a->i);
        return s;
    case VN_ATTR_INTS:
        s = vn_tensor_new(VN_I64, 1, one, out, e->err);
        if (s == VN_OK && a->count) memcpy((*out)->data, a->ints, (size_t)a->count * sizeof *a->ints);
        return s;
    case VN_ATTR_STRING:
        s = vn_tensor_new(VN_STRING, 0, NULL, out, e->err);
        if (s == VN_OK) s = vn_tensor_set_string(*out, 0, a->s.text, a->s.length, e->err);
        return s;
    case VN_ATTR_STRINGS:
        s = vn_tensor_new(VN_STRING, 1, one, out, e->err);
        for (int64_t i = 0; i < a->count && s == VN_OK; ++i)
            s = vn_tensor_set_string(*out, i, a->strings[i].text, a->strings[i].length, e->err);
        return s;
    default: return vn_eval_fail(e, VN_ERR_DTYPE, "attribute %s has kind %d", a->name, (int)a->kind);
    }
}

vn_status_t vn_move_constant(vn_eval_t *e) {
    vn_tensor_t *t;
    const vn_status_t s = constant_value(e, &t);
    if (s == VN_OK) return vn_out_tensor(e, 0, t);
    vn_tensor_free(t);
    return s;
}

vn_status_t vn_infer_constant(vn_eval_t *e) {
    vn_tensor_t *t;
    vn_status_t s = constant_value(e, &t);
    if (s == VN_OK) {
        const vn_shape_t shape = vn_shape_of(t);
        s = vn_move_infer(e, 0, t->dtype, &shape);
    }
    vn_tensor_free(t);
    return s;
}

/* ---- ConstantOfShape ---- */

static vn_status_t filled_shape(vn_eval_t *e, vn_shape_t *s, const vn_tensor_t **value, vn_dtype_t *t) {
    const vn_attr_t *a = vn_node_attr(e->node, "value");
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_arg_ints(e, 0, s->d, VN_MAX_RANK, &s->rank));
    *value = a ? a->t : NULL;
    *t = *value ? (*value)->dtype : VN_F32;
    if (*value && (*value)->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "value has %lld elements instead of one", (long long)(*value)->count);
    return vn_shape_check(e, *t, s);
}

vn_status_t vn_infer_constant_of_shape(vn_eval_t *e) {
    vn_shape_t s;
    const vn_tensor_t *value;
    vn_dtype_t t;
    VN_TRY(filled_shape(e, &s, &value, &t));
    return vn_move_infer(e, 0, t, &s);
}

vn_status_t vn_move_constant_of_shape(vn_eval_t *e) {
    vn_shape_t shape;
    const vn_tensor_t *value;
    vn_dtype_t t;
    vn_tensor_t *all, *one = NULL;
    VN_TRY(filled_shape(e, &shape, &value, &t));
    VN_TRY(vn_plain_new(e, t, &shape, &all));
    vn_status_t s = value ? vn_plain_from(e, value, &one) : VN_OK;
    if (s == VN_OK && one) vn_plain_fill(all->data, all->count, vn_plain_size(all), one->data);
    if (s == VN_OK) s = vn_plain_out(e, 0, t, all);
    else vn_tensor_free(all);
    vn_tensor_free(one);
    return s;
}

/* ---- Shape, Size ---- */

static vn_status_t shape_slice(vn_eval_t *e, int *first, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const int rank = e->in[0].t->rank;
    int64_t start = 0, end = rank;
    if (e->version >= 15) {
        start = vn_node_int(e->node, "start", 0);
        end = vn_node_int(e->node, "end", rank);
    }
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < 0 ? 0 : end > rank ? rank : end;
    *first = (int)start;
    *s = (vn_shape_t){.rank = 1, .d = {end > start ? end - start : 0}};
    return VN_OK;
}

vn_status_t vn_infer_shape(vn_eval_t *e) {
    int first;
    vn_shape_t s;
    VN_TRY(shape_slice(e, &first, &s));
    return vn_move_infer(e, 0, VN_I64, &s);
}

vn_status_t vn_move_shape(vn_eval_t *e) {
    int first;
    vn_shape_t s;
    VN_TRY(shape_slice(e, &first, &s));
    VN_TRY(vn_out_exact(e, 0, VN_I64, 1, s.d));
    for (int64_t i = 0; i < s.d[0]; ++i) vn_tensor_set_i64(e->out[0].tensor, i, e->in[0].t->dims[first + i]);
    return VN_OK;
}

vn_status_t vn_infer_size(vn_eval_t *e) {
    const vn_shape_t s = {.rank = 0};
    VN_TRY(vn_move_need(e, 0));
    return vn_move_infer(e, 0, VN_I64, &s);
}

vn_status_t vn_move_size(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_out_exact(e, 0, VN_I64, 0, NULL));
    vn_tensor_set_i64(e->out[0].tensor, 0, e->in[0].t->count);
    return VN_OK;
}

/* ---- EyeLike ---- */

static vn_status_t eye_type(vn_eval_t *e, vn_dtype_t *t) {
    VN_TRY(vn_move_need(e, 0));
    if (e->in[0].t->rank != 2) return vn_eval_fail(e, VN_ERR_SHAPE, "needs rank 2, not %d", e->in[0].t->rank);
    const int64_t named = vn_node_int(e->node, "dtype", e->in[0].t->dtype);
    *t = named > 0 && named < VN_DTYPE_COUNT ? (vn_dtype_t)named : VN_UNDEFINED;
    const vn_kind_t kind = vn_dtype_kind(*t);
    if (kind == VN_KIND_NONE || kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX)
        return vn_eval_fail(e, VN_ERR_DTYPE, "no identity matrix of dtype %lld", (long long)named);
    return VN_OK;
}

vn_status_t vn_infer_eye_like(vn_eval_t *e) {
    vn_dtype_t t;
    VN_TRY(eye_type(e, &t));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, t, &s);
}

vn_status_t vn_move_eye_like(vn_eval_t *e) {
    vn_dtype_t t;
    VN_TRY(eye_type(e, &t));
    const int64_t *d = e->in[0].t->dims, k = vn_node_int(e->node, "k", 0);
    VN_TRY(vn_out_exact(e, 0, t, 2, d));
    if (k <= -d[0] || k >= d[1]) return VN_OK; /* the diagonal lies outside */
    for (int64_t i = k < 0 ? -k : 0; i < d[0] && i + k < d[1]; ++i) {
        if (vn_dtype_is_float(t)) vn_tensor_set_f64(e->out[0].tensor, i * d[1] + i + k, 1);
        else vn_tensor_set_i64(e->out[0].tensor, i * d[1] + i + k, 1);
    }
    return VN_OK;
}

/* ---- OneHot ---- */

static vn_status_t one_hot_shape(vn_eval_t *e, int *axis, vn_shape_t *s) {
    for (int k = 0; k < 3; ++k) VN_TRY(vn_move_need(e, k));
    const vn_tensor_t *index = e->in[0].t, *depth = e->in[1].t;
    if (depth->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "depth holds %lld values", (long long)depth->count);
    if (!depth->data) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "depth decides the shape and is not known");
    if (e->in[2].t->count != 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "values holds %lld elements instead of two", (long long)e->in[2].t->count);
    if (index->dtype == VN_STRING || depth->dtype == VN_STRING) return vn_eval_fail(e, VN_ERR_DTYPE, "indices and depth must be numbers");
    *s = vn_shape_of(index);
    VN_TRY(vn_shape_add(e, s, 0));
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", -1), s->rank, axis));
    for (int k = s->rank - 1; k > *axis; --k) s->d[k] = s->d[k - 1];
    s->d[*axis] = vn_tensor_get_i64(depth, 0);
    return vn_shape_check(e, e->in[2].t->dtype, s);
}

vn_status_t vn_infer_one_hot(vn_eval_t *e) {
    int axis;
    vn_shape_t s;
    VN_TRY(one_hot_shape(e, &axis, &s));
    return vn_move_infer(e, 0, e->in[2].t->dtype, &s);
}

vn_status_t vn_move_one_hot(vn_eval_t *e) {
    int axis;
    vn_shape_t shape;
    vn_tensor_t *values, *all;
    VN_TRY(one_hot_shape(e, &axis, &shape));
    const vn_tensor_t *index = e->in[0].t;
    const vn_dtype_t t = e->in[2].t->dtype;
    const int64_t depth = shape.d[axis], inner = vn_shape_product(index->dims, axis, index->rank);
    VN_TRY(vn_plain_from(e, e->in[2].t, &values));
    vn_status_t s = vn_plain_new(e, t, &shape, &all);
    if (s == VN_OK) {
        const size_t size = vn_plain_size(all);
        const char *off = values->data, *on = off + size;
        vn_plain_fill(all->data, all->count, size, off);
        for (int64_t i = 0; i < index->count && all->count; ++i) {
            int64_t at = vn_tensor_get_i64(index, i);
            if (at < 0 && e->version >= 11) at += depth; /* before opset 11 only [0, depth) was in range */
            if (at < 0 || at >= depth) continue;
            memcpy((char *)all->data + (size_t)((i / inner * depth + at) * inner + i % inner) * size, on, size);
        }
        s = vn_plain_out(e, 0, t, all);
    }
    vn_tensor_free(values);
    return s;
}

/* ---- Range ---- */

typedef struct range {
    vn_dtype_t t;
    double start, limit, delta;
    __int128 istart, idelta;
    int64_t n;
} range_t;

/* Sign of start + k delta - limit, exact: the four terms are summed without loss until nothing changes. */
static int side_of_limit(const range_t *r, double k) {
    double x[4] = {r->start, -r->limit, k * r->delta, 0};
    x[3] = fma(k, r->delta, -x[2]);
    for (int pass = 0; pass < 6; ++pass)
        for (int i = 0; i < 3; ++i) { /* two-sum: x[i+1] takes the sum, x[i] the error */
            const double a = x[i], b = x[i + 1], sum = a + b, part = sum - a;
            x[i] = (a - (sum - part)) + (b - part);
            x[i + 1] = sum;
        }
    for (int i = 3; i >= 0; --i)
        if (x[i] != 0) return x[i] > 0 ? 1 : -1;
    return 0;
}

static vn_status_t range_count(vn_eval_t *e, range_t *r) {
    for (int k = 0; k < 3; ++k) {
        VN_TRY(vn_move_need(e, k));
        if (e->in[k].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d holds %lld values", k, (long long)e->in[k].t->count);
        if (!e->in[k].t->data) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "input %d decides the shape and is not known", k);
        if (e->in[k].t->dtype != e->in[0].t->dtype) return vn_eval_fail(e, VN_ERR_DTYPE, "start, limit and delta have different types");
    }
    r->t = e->in[0].t->dtype;
    double count;
    if (vn_dtype_is_int(r->t)) {
        const bool is_u64 = r->t == VN_U64;
        __int128 v[3];
        for (int k = 0; k < 3; ++k) {
            const int64_t x = vn_tensor_get_i64(e->in[k].t, 0);
            v[k] = is_u64 ? (__int128)(uint64_t)x : (__int128)x;
        }
        if (v[2] == 0) return vn_eval_fail(e, VN_ERR_RANGE, "delta is 0");
        const __int128 span = v[2] > 0 ? v[1] - v[0] : v[0] - v[1], step = v[2] > 0 ? v[2] : -v[2];
        const __int128 n = span > 0 ? (span - 1) / step + 1 : 0;
        r->istart = v[0];
        r->idelta = v[2];
        count = (double)n;
        r->n = count <= 0x1p40 ? (int64_t)n : 0;
    } else if (vn_dtype_is_float(r->t)) {
        r->start = vn_tensor_get_f64(e->in[0].t, 0);
        r->limit = vn_tensor_get_f64(e->in[1].t, 0);
        r->delta = vn_tensor_get_f64(e->in[2].t, 0);
        if (!isfinite(r->start) || !isfinite(r->limit) || !isfinite(r->delta) || r->delta == 0)
            return vn_eval_fail(e, VN_ERR_RANGE, "start %g, limit %g, delta %g", r->start, r->limit, r->delta);
        count = ceil((r->limit - r->start) / r->delta);
        if (count <= 0x1p40) {
            const int sign = r->delta > 0 ? 1 : -1;
            count = count < 0 ? 0 : count;
            while (count > 0 && sign * side_of_limit(r, count - 1) >= 0) --count; /* the rounded quotient is off by one at most */
            while (sign * side_of_limit(r, count) < 0) ++count;
            r->n = (int64_t)count;
        }
    } else {
        return vn_eval_fail(e, VN_ERR_DTYPE, "no range of %s", vn_dtype_name(r->t));
    }
    return count <= 0x1p40 ? VN_OK : vn_eval_fail(e, VN_ERR_RANGE, "%g elements", count);
}

vn_status_t vn_infer_range(vn_eval_t *e) {
    range_t r = {.n = 0};
    VN_TRY(range_count(e, &r));
    const vn_shape_t s = {.rank = 1, .d = {r.n}};
    return vn_move_infer(e, 0, r.t, &s);
}

/* The same range with the number of elements that the type's own arithmetic finds. */
static vn_status_t count_reading(vn_eval_t *e, const range_t *r) {
    const vn_format_t f = vn_format_of(vn_dtype_bits(r->t) < 32 ? VN_F32 : r->t);
    const double span = vn_round_to(f, r->limit - r->start, VN_RNE, false), q = vn_round_to(f, span / r->delta, VN_RNE, false);
    const double count = fmax(0, ceil(q));
    if (!(count <= 0x1p40) || (int64_t)count == r->n) return VN_OK;
    const int64_t n = (int64_t)count;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(r->t, 1, &n, &t, e->err));
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_f64(t, i, r->start + (double)i * r->delta);
    return vn_out_reading(e, 0, "count-rounded", t);
}

vn_status_t vn_move_range(vn_eval_t *e) {
    range_t r = {.n = 0};
    VN_TRY(range_count(e, &r));
    const vn_shape_t shape = {.rank = 1, .d = {r.n}};
    VN_TRY(vn_shape_check(e, r.t, &shape));
    if (vn_dtype_is_int(r.t)) {
        VN_TRY(vn_out_exact(e, 0, r.t, 1, shape.d));
        for (int64_t i = 0; i < r.n; ++i) vn_tensor_set_i64(e->out[0].tensor, i, (int64_t)(uint64_t)(r.istart + i * r.idelta));
        return VN_OK;
    }
    const int64_t stash = e->version >= 27 ? vn_node_int(e->node, "stash_type", 1) : 1;
    if (stash != 1 && vn_dtype_bits(r.t) < 32) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "stash_type %lld", (long long)stash);
    VN_TRY(vn_out_float(e, 0, r.t, 1, shape.d));
    const bool bounds = e->want >= VN_WANT_BOUND;
    VN_TRY(vn_out_lo(e, 0));
    if (bounds) VN_TRY(vn_out_wide(e, 0, "range by successive additions"));
    const vn_ref_t *o = &e->out[0];
    const double u = vn_u(e);
    const vn_format_t acc = e->contract->accumulator;
    for (int64_t i = 0; i < r.n; ++i) {
        const double k = (double)i, p = k * r.delta, sum = r.start + p, part = sum - r.start;
        o->lo[i] = (r.start - (sum - part)) + (p - part) + fma(k, r.delta, -p);
        o->value[i] = sum;
        if (!bounds || i == 0) continue;
        const bool exact =
            k * u <= 1 && o->lo[i] == 0 && vn_round_to(acc, p, VN_RNE, false) == p && vn_round_to(acc, sum, VN_RNE, false) == sum;
        const double v = (k * u > 1 ? 2 : 1) * u * fabs(p) + vn_eta(e) / 2;
        o->bound[i] = exact ? 0 : (1 + u) * v + u * fabs(sum);
        o->wide[i] = vn_gamma(k, u) * fmax(fabs(r.start), fabs(sum)) + vn_eta(e) / 2;
        if (o->wide[i] < o->bound[i]) o->wide[i] = o->bound[i];
        if (!o->var || exact) continue;
        const double a = vn_ulp(acc, p), b = vn_ulp(acc, sum);
        o->var[i] = (a * a + b * b) / 12;
    }
    return count_reading(e, &r);
}
