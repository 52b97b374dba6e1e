/* items.c -- values on their way through bodies of control flow, with the planes of their uncertainty.
 *
 * Claim CONTROL-2: inside a region the bound of what a body gives passes through If, Loop and Scan as it is: control flow adds no rounding, it
 * only picks, joins and carries. A branch or an iteration count that hangs on an uncertain value makes every output void.
 */
#include "oracle/items.h"

#include <string.h>

#include "oracle/move.h"

void vn_item_clear(vn_item_t *i) {
    vn_value_free(i->value);
    for (int p = 0; p < VN_ITEM_PLANES; ++p) vn_tensor_free(i->plane[p]);
    *i = (vn_item_t){.value = NULL};
}

vn_item_t vn_item_copy(const vn_item_t *i) {
    vn_item_t c = {.value = vn_value_retain(i->value), .open = i->open};
    for (int p = 0; p < VN_ITEM_PLANES; ++p) c.plane[p] = i->plane[p] ? vn_tensor_retain(i->plane[p]) : NULL;
    return c;
}

void vn_items_free(vn_item_t *v, int64_t n) {
    for (int64_t i = 0; v && i < n; ++i) vn_item_clear(&v[i]);
    vn_free(v);
}

vn_status_t vn_items_new(vn_eval_t *e, int64_t n, vn_item_t **out) {
    *out = vn_alloc((size_t)(n > 0 ? n : 1), sizeof **out);
    return *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld values", (long long)n);
}

bool vn_item_uncertain(const vn_item_t *i) {
    bool any = i->open;
    for (int p = 0; p < VN_ITEM_PLANES; ++p) any |= i->plane[p] != NULL;
    return any;
}

/* ---- planes from and to arrays ---- */

static vn_status_t plane_new(vn_error_t *err, vn_dtype_t t, const vn_tensor_t *like, const void *from, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new_raw(t, like->rank, like->dims, out, err));
    if (like->count) memcpy((*out)->data, from, (size_t)like->count * (size_t)vn_dtype_bits(t) / 8);
    return VN_OK;
}

static vn_status_t float_planes(vn_error_t *err, const double *value, const double *bound, const double *var, vn_item_t *out) {
    const vn_tensor_t *t = out->value->tensor;
    VN_TRY(plane_new(err, VN_F64, t, value, &out->plane[VN_ITEM_VALUE]));
    VN_TRY(plane_new(err, VN_F64, t, bound, &out->plane[VN_ITEM_BOUND]));
    return var ? plane_new(err, VN_F64, t, var, &out->plane[VN_ITEM_VAR]) : VN_OK;
}

vn_status_t vn_item_of_arg(vn_eval_t *e, int k, vn_item_t *out) {
    const vn_arg_t *a = &e->in[k];
    *out = (vn_item_t){.value = vn_move_value(a)};
    if (!out->value) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing", k);
    if (!a->t || !a->err) return VN_OK; /* elements that are not known at all make the whole node void, in the frame */
    const double *value = vn_arg_f64(e, k);
    const vn_status_t s = value ? float_planes(e->err, value, a->err, a->var, out) : VN_ERR_NOMEM;
    if (s != VN_OK) vn_item_clear(out);
    return s;
}

static bool any_set(const double *p, int64_t n) {
    for (int64_t i = 0; p && i < n; ++i)
        if (p[i] != 0) return true;
    return false;
}

static vn_status_t marks_of(vn_error_t *err, const vn_ref_t *r, vn_item_t *out) {
    const vn_tensor_t *t = out->value->tensor;
    const bool drawn = r->is_random && !r->bound;
    bool any = drawn;
    for (int64_t i = 0; r->flags && !any && i < r->count; ++i) any = (r->flags[i] & VN_EL_VOID) != 0;
    if (r->either && !any) any = !vn_tensor_equal_bits(r->either, r->tensor ? r->tensor : t);
    if (!any) return VN_OK;
    VN_TRY(vn_tensor_new(VN_U8, t->rank, t->dims, &out->plane[VN_ITEM_MARKS], err));
    uint8_t *marks = out->plane[VN_ITEM_MARKS]->data;
    for (int64_t i = 0; i < r->count; ++i)
        marks[i] = drawn || (r->flags && (r->flags[i] & VN_EL_VOID)) ||
                   (r->either && vn_tensor_bits(r->either, i) != vn_tensor_bits(r->tensor ? r->tensor : t, i));
    return VN_OK;
}

vn_status_t vn_item_of_ref(vn_error_t *err, const vn_value_t *v, const vn_ref_t *r, vn_item_t *out) {
    vn_status_t s = VN_OK;
    *out = (vn_item_t){.value = vn_value_retain(v)};
    if (!r) return VN_OK;
    out->open = r->nested_open;
    if (v->kind != VN_VALUE_TENSOR || r->count != v->tensor->count) return VN_OK;
    if (r->value && any_set(r->bound, r->count)) s = float_planes(err, r->value, r->bound, r->var, out);
    if (s == VN_OK) s = marks_of(err, r, out);
    if (s != VN_OK) vn_item_clear(out);
    return s;
}

static double *array_of(const vn_tensor_t *plane) {
    double *p = vn_alloc((size_t)(plane->count ? plane->count : 1), sizeof *p);
    if (p && plane->count) memcpy(p, plane->data, (size_t)plane->count * sizeof *p);
    return p;
}

/* Fills the planes of a ref (dims and dtype are there). */
static bool fill_ref(const vn_item_t *i, vn_ref_t *r) {
    double **place[] = {&r->value, &r->bound, &r->var};
    bool good = true;
    for (int p = VN_ITEM_VALUE; p <= VN_ITEM_VAR; ++p)
        if (i->plane[p]) good &= (*place[p] = array_of(i->plane[p])) != NULL;
    if (i->plane[VN_ITEM_MARKS]) {
        const uint8_t *marks = i->plane[VN_ITEM_MARKS]->data;
        r->flags = vn_alloc((size_t)(r->count ? r->count : 1), 1);
        for (int64_t k = 0; r->flags && k < r->count; ++k) r->flags[k] = marks[k] ? VN_EL_VOID : 0;
        good &= r->flags != NULL;
    }
    return good;
}

vn_status_t vn_item_ref(vn_error_t *err, const vn_item_t *i, vn_ref_t **out) {
    *out = NULL;
    if (!vn_item_uncertain(i)) return VN_OK;
    vn_ref_t *r = vn_alloc(1, sizeof *r);
    if (!r) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    r->nested_open = i->open;
    bool good = true;
    if (i->value->kind == VN_VALUE_TENSOR) {
        const vn_tensor_t *t = i->value->tensor;
        r->dtype = t->dtype;
        r->rank = t->rank;
        r->count = t->count;
        memcpy(r->dims, t->dims, sizeof r->dims);
        good = fill_ref(i, r);
    }
    if (!good) {
        vn_ref_free(r);
        vn_free(r);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    *out = r;
    return VN_OK;
}

vn_status_t vn_item_out(vn_eval_t *e, int k, vn_item_t *i) {
    vn_status_t s = vn_move_out_value(e, k, vn_value_retain(i->value));
    vn_ref_t *r = &e->out[k];
    if (s == VN_OK && i->value->kind == VN_VALUE_TENSOR && !fill_ref(i, r)) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (r->value) vn_out_final(e, k);
    r->nested_open = i->open;
    vn_item_clear(i);
    return s;
}

/* ---- parts and series ---- */

vn_status_t vn_item_part(vn_eval_t *e, const vn_item_t *i, int axis, int64_t at, vn_item_t *out) {
    vn_tensor_t *part;
    *out = (vn_item_t){.value = NULL};
    VN_TRY(vn_move_part(e, i->value->tensor, axis, at, 1, true, &part));
    out->value = vn_value_tensor(part);
    vn_status_t s = out->value ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int p = 0; p < VN_ITEM_PLANES && s == VN_OK; ++p)
        if (i->plane[p]) s = vn_move_part(e, i->plane[p], axis, at, 1, true, &out->plane[p]);
    if (s != VN_OK) vn_item_clear(out);
    return s;
}

vn_status_t vn_series_add(vn_eval_t *e, vn_series_t *s, const vn_item_t *i) {
    if (i->value->kind != VN_VALUE_TENSOR) return vn_eval_fail(e, VN_ERR_DTYPE, "a scan output must be a tensor");
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 16;
        vn_item_t *more = vn_realloc(s->parts, (size_t)room, sizeof *more);
        if (!more) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld iterations", (long long)room);
        s->parts = more;
        s->room = room;
    }
    s->parts[s->n++] = vn_item_copy(i);
    return VN_OK;
}

void vn_series_free(vn_series_t *s) {
    vn_items_free(s->parts, s->n);
    *s = (vn_series_t){.n = 0};
}

void vn_series_reverse(vn_series_t *s) {
    for (int64_t i = 0; i < s->n / 2; ++i) {
        const vn_item_t t = s->parts[i];
        s->parts[i] = s->parts[s->n - 1 - i];
        s->parts[s->n - 1 - i] = t;
    }
}

/* What an exact part holds in plane p: its own value, else zeros. */
static vn_status_t exact_plane(vn_eval_t *e, const vn_tensor_t *t, int p, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(p == VN_ITEM_MARKS ? VN_U8 : VN_F64, t->rank, t->dims, out, e->err));
    if (p == VN_ITEM_VALUE) vn_tensor_to_f64(t, (*out)->data);
    return VN_OK;
}

static vn_status_t join_plane(vn_eval_t *e, const vn_series_t *s, int p, int64_t axis, const vn_tensor_t **parts, vn_tensor_t **out) {
    bool any = false;
    *out = NULL;
    for (int64_t i = 0; i < s->n && !any; ++i) any = s->parts[i].plane[p] != NULL;
    if (!any) return VN_OK;
    vn_tensor_t **made = vn_alloc((size_t)s->n, sizeof *made);
    vn_status_t status = made ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < s->n && status == VN_OK; ++i) {
        if (!s->parts[i].plane[p]) status = exact_plane(e, s->parts[i].value->tensor, p, &made[i]);
        parts[i] = s->parts[i].plane[p] ? s->parts[i].plane[p] : made[i];
    }
    if (status == VN_OK) status = vn_move_join(e, (int)s->n, parts, axis, true, out);
    for (int64_t i = 0; made && i < s->n; ++i) vn_tensor_free(made[i]);
    vn_free(made);
    return status;
}

vn_status_t vn_series_join(vn_eval_t *e, const vn_series_t *s, int64_t axis, vn_item_t *out) {
    *out = (vn_item_t){.value = NULL};
    const vn_tensor_t **parts = vn_alloc((size_t)s->n, sizeof *parts);
    vn_tensor_t *t = NULL;
    if (!parts) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < s->n; ++i) parts[i] = s->parts[i].value->tensor;
    vn_status_t status = vn_move_join(e, (int)s->n, parts, axis, true, &t);
    if (status == VN_OK && !(out->value = vn_value_tensor(t))) status = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int p = 0; p < VN_ITEM_PLANES && status == VN_OK; ++p) status = join_plane(e, s, p, axis, parts, &out->plane[p]);
    vn_free(parts);
    if (status != VN_OK) vn_item_clear(out);
    return status;
}
