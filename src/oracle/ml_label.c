/* ml_label.c -- from scores to class labels, open where two scores lie within their errors (claim ML-5).
 *
 * The text asks for the "top class" and is silent about equal scores: among them either is accepted, and more than two leave the row open. Two
 * scores whose difference is within the sum of their errors may change places under the contract's rounding; a label outside that window
 * is wrong.
 */
#include <math.h>
#include <string.h>

#include "oracle/ml.h"

vn_status_t vn_ml_choices_new(vn_eval_t *e, int64_t n, vn_ml_choices_t *c) {
    const size_t room = (size_t)(n ? n : 1);
    *c = (vn_ml_choices_t){
        .n = n, .best = vn_alloc(room, sizeof *c->best), .other = vn_alloc(room, sizeof *c->other), .open = vn_alloc(room, 1)};
    return c->best && c->other && c->open ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld labels", (long long)n);
}

void vn_ml_choices_free(vn_ml_choices_t *c) {
    vn_free(c->best);
    vn_free(c->other);
    vn_free(c->open);
    *c = (vn_ml_choices_t){0};
}

void vn_ml_top(const vn_ml_t *m, const vn_ml_scores_t *s, vn_ml_choices_t *c) {
    const double *err = s->err[m->last];
    for (int64_t i = 0; i < s->n; ++i) {
        const double *y = s->y + i * s->c, *e = err + i * s->c;
        int64_t best = 0, others = 0;
        bool nan = false;
        double floor = -INFINITY; /* the largest is at least this */
        for (int64_t j = 0; j < s->c; ++j) {
            nan |= isnan(y[j]);
            if (y[j] > y[best]) best = j;
            floor = fmax(floor, y[j] - e[j]);
        }
        c->best[i] = c->other[i] = best;
        for (int64_t j = 0; j < s->c; ++j) {
            if (j == best || y[j] + e[j] < floor) continue;
            c->other[i] = j;
            ++others;
        }
        c->open[i] = nan || others > 1;
    }
}

void vn_ml_beyond(const vn_ml_t *m, const vn_ml_scores_t *s, double threshold, vn_ml_choices_t *c) {
    const double *err = s->err[m->last];
    for (int64_t i = 0; i < s->n; ++i) {
        const double d = s->y[i * s->c] - threshold;
        c->best[i] = d > 0;
        c->other[i] = fabs(d) <= err[i * s->c] ? !c->best[i] : c->best[i];
        c->open[i] = isnan(d);
    }
}

/* ---- labels ---- */

static vn_status_t put(vn_eval_t *e, const vn_ml_labels_t *l, vn_tensor_t *t, int64_t i, int64_t index) {
    const bool inside = index < l->count;
    if (t->dtype == VN_STRING) {
        char digits[24];
        if (inside) return vn_tensor_set_string(t, i, l->text[index].text, l->text[index].length, e->err);
        digits[0] = (char)('0' + index); /* 0 or 1: the place of a label that the list does not hold */
        return vn_tensor_set_string(t, i, digits, 1, e->err);
    }
    vn_tensor_set_i64(t, i, inside ? l->ints[index] : index);
    return VN_OK;
}

static vn_status_t labels_of(vn_eval_t *e, const vn_ml_labels_t *l, int64_t n, const int64_t *index, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(l->text ? VN_STRING : VN_I64, 1, &n, out, e->err));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) s = put(e, l, *out, i, index[i]);
    if (s == VN_OK) return VN_OK;
    vn_tensor_free(*out);
    *out = NULL;
    return s;
}

vn_status_t vn_ml_label_out(vn_eval_t *e, int k, const vn_ml_labels_t *l, const vn_ml_choices_t *c) {
    if (!vn_move_wanted(e, k)) return VN_OK;
    vn_tensor_t *t;
    bool two = false, open = false;
    for (int64_t i = 0; i < c->n; ++i) {
        two |= c->other[i] != c->best[i];
        open |= c->open[i] != 0;
    }
    VN_TRY(labels_of(e, l, c->n, c->best, &t));
    VN_TRY(vn_out_tensor(e, k, t));
    if (two) VN_TRY(labels_of(e, l, c->n, c->other, &e->out[k].either));
    if (open) VN_TRY(vn_out_flags(e, k));
    for (int64_t i = 0; open && i < c->n; ++i)
        if (c->open[i]) e->out[k].flags[i] = VN_EL_VOID;
    return VN_OK;
}

static vn_status_t add_reading(vn_eval_t *e, int k, const vn_ml_labels_t *l, int64_t n, const int64_t *index, const char *name) {
    vn_tensor_t *t;
    VN_TRY(labels_of(e, l, n, index, &t));
    bool known = vn_tensor_equal_bits(t, e->out[k].tensor);
    for (int r = 0; r < e->out[k].n_readings && !known; ++r) known = vn_tensor_equal_bits(t, e->out[k].readings[r].value);
    if (!known) return vn_out_reading(e, k, name, t);
    vn_tensor_free(t);
    return VN_OK;
}

vn_status_t vn_ml_label_reading(vn_eval_t *e, int k, const vn_ml_labels_t *l, const vn_ml_choices_t *c, const char *name) {
    return vn_move_wanted(e, k) ? add_reading(e, k, l, c->n, c->best, name) : VN_OK;
}

vn_status_t vn_ml_label_transformed(vn_eval_t *e, int k, const vn_ml_labels_t *l, int k_scores) {
    if (!vn_move_wanted(e, k) || !vn_move_wanted(e, k_scores)) return VN_OK;
    const vn_ref_t *r = &e->out[k_scores];
    const int64_t n = r->dims[0], c = r->dims[1];
    int64_t *best = vn_alloc((size_t)(n ? n : 1), sizeof *best);
    if (!best) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld labels", (long long)n);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 1; j < c; ++j) {
            const double x = r->value[i * c + j], y = r->value[i * c + best[i]];
            if (x > y || (isnan(x) && !isnan(y))) best[i] = j;
        }
    const vn_status_t s = add_reading(e, k, l, n, best, "top-of-transformed");
    vn_free(best);
    return s;
}

vn_status_t vn_ml_infer_classes(vn_eval_t *e, const vn_ml_labels_t *l, int64_t c) {
    int64_t n, f;
    VN_TRY(vn_ml_matrix(e, false, &n, &f));
    const vn_shape_t labels = {.rank = 1, .d = {n}}, scores = {.rank = 2, .d = {n, c}};
    VN_TRY(vn_move_infer(e, 0, l->text ? VN_STRING : VN_I64, &labels));
    return vn_move_infer(e, 1, VN_F32, &scores);
}
