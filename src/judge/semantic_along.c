/* semantic_along.c -- operators along one axis, applied along another set of axes that their attribute cannot say.
 *
 * A softmax over all axes from the given one on (as versions before 13 had it), over everything, or over one axis where these versions flatten;
 * a normalisation over another axis with scale and bias where they were. The operand's axes are moved behind the others and joined, the oracle
 * is asked, and its values are put back.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

enum { MOST_AXES = 8 };

/* What is asked: the axes in `mask` of x, of shape dims. */
typedef struct along {
    const vn_tensor_t *x, *scale, *bias;
    int rank, order[VN_MAX_RANK]; /* the axes as they are moved */
    int64_t joined[2];
} along_t;

static void plan(along_t *a, unsigned mask) {
    int n = 0;
    a->joined[0] = a->joined[1] = 1;
    for (int in = 0; in < 2; ++in)
        for (int k = 0; k < a->rank; ++k) {
            if ((int)(mask >> k & 1) != in) continue;
            a->order[n++] = k;
            a->joined[in] *= a->x->dims[k];
        }
}

static vn_status_t moved(const along_t *a, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *view = NULL, *flat = NULL;
    *out = NULL;
    vn_status_t s = vn_tensor_permute(a->x, a->order, &view, err);
    if (s == VN_OK) s = vn_tensor_contiguous(view, &flat, err);
    if (s == VN_OK) s = vn_tensor_reshape(flat, 2, a->joined, out, err);
    vn_tensor_free(view);
    vn_tensor_free(flat);
    return s;
}

/* Place of element `flat` of x in the moved tensor. */
static int64_t place(const along_t *a, int64_t flat) {
    int64_t at[VN_MAX_RANK], to = 0;
    for (int k = a->rank - 1; k >= 0; --k) {
        at[k] = flat % a->x->dims[k];
        flat /= a->x->dims[k];
    }
    for (int k = 0; k < a->rank; ++k) to = to * a->x->dims[a->order[k]] + at[a->order[k]];
    return to;
}

static vn_status_t ask(vn_variant_t *v, along_t *a, unsigned mask, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    vn_tensor_t *t;
    plan(a, mask);
    VN_TRY(moved(a, &t, err));
    VN_TRY(vn_variant_input(v, 0, t, err));
    VN_TRY(vn_variant_int(v, "axis", 1, err));
    if (a->scale) { /* ones, of the length of the joined axes */
        VN_TRY(vn_tensor_new(a->scale->dtype, 1, &a->joined[1], &t, err));
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, 1);
        VN_TRY(vn_variant_input(v, 1, t, err));
        if (a->bias) VN_TRY(vn_variant_drop_input(v, 2, err));
    }
    vn_ref_t r;
    vn_status_t s = vn_variant_eval(v, VN_WANT_BOUND | VN_WANT_PLAIN, &r, err);
    vn_variant_reset(v);
    double *y2 = s == VN_OK && r.value && r.count == e->n ? vn_alloc((size_t)e->n, 2 * sizeof *y2) : NULL;
    if (s == VN_OK && r.value && r.count == e->n && !y2) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    if (y2) {
        const double u = vn_format_info(vn_format_of(e->c->actual->dtype))->u;
        double *room = y2 + e->n;
        for (int64_t i = 0; i < e->n; ++i) {
            const int64_t k = place(a, i);
            const double at = vn_room(&r, k);
            const double g = a->scale ? vn_tensor_get_f64(a->scale, vn_name_spread(a->scale, a->rank, a->x->dims, i)) : 1;
            const double b = a->bias ? vn_tensor_get_f64(a->bias, vn_name_spread(a->bias, a->rank, a->x->dims, i)) : 0;
            y2[i] = r.value[k] * g + b;
            /* scale and bias are two roundings more */
            room[i] = at < 0 ? at : at * fabs(g) + (a->scale ? 2 * u * (fabs(r.value[k] * g) + fabs(y2[i])) : 0);
        }
        char list[32] = "", cause[96];
        size_t n = 0;
        for (int k = 0; k < a->rank && n < sizeof list; ++k)
            if (mask >> k & 1) n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", n ? "," : "", k);
        snprintf(cause, sizeof cause, "axis:%s", list);
        vn_explain_plane(v->e, y2, room, VN_BUG, cause, NULL, "%s over the axes %s together gives the whole result.", v->node->op, list);
        vn_free(y2);
    }
    vn_ref_free(&r);
    return s;
}

static vn_status_t one(vn_variant_t *v, vn_error_t *err) {
    const bool soft = vn_name_in("Softmax LogSoftmax Hardmax", v->node->op),
               norm = vn_name_in("LayerNormalization RMSNormalization", v->node->op);
    along_t a = {.x = vn_variant_operand(v, 0)};
    const vn_explain_t *e = v->e;
    if ((!soft && !norm && !vn_name_in("LpNormalization", v->node->op)) || !e->x || !a.x || a.x->count != e->n || !vn_name_judged(v, 0) ||
        vn_format_of(e->c->actual->dtype) == VN_FMT_NONE)
        return VN_OK;
    a.rank = a.x->rank;
    if (norm) {
        a.scale = vn_variant_operand(v, 1);
        a.bias = v->node->n_inputs > 2 && *v->node->inputs[2] ? vn_variant_operand(v, 2) : NULL;
        if (!a.scale || (v->node->n_inputs > 2 && *v->node->inputs[2] && !a.bias)) return VN_OK;
    }
    const int64_t given = (int64_t)vn_name_attr_number(v->node, "axis", soft && vn_variant_version(v) < 13 ? 1 : -1);
    const int axis = (int)(given < 0 ? given + a.rank : given);
    if (a.rank < 2 || a.rank > MOST_AXES || axis < 0 || axis >= a.rank) return VN_OK;
    const unsigned all = (1u << a.rank) - 1;
    const bool flattens = norm || (soft && vn_variant_version(v) < 13); /* what the attribute means now: that axis, or all from it on */
    const unsigned asked = flattens ? all & ~((1u << axis) - 1) : 1u << axis;
    for (int k = 0; k < a.rank; ++k) {
        const unsigned single = 1u << k, suffix = all & ~((1u << k) - 1);
        if (flattens && single != asked) VN_TRY(ask(v, &a, single, err));
        if (suffix != asked && suffix != single && (norm || k == axis || k == 0)) VN_TRY(ask(v, &a, suffix, err));
    }
    return VN_OK;
}

vn_status_t vn_name_along(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, one, err); }
