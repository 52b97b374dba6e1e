/* apply.c -- a schedule that was read, applied to given inputs: what the kernel must have returned. */
#include <math.h>
#include <string.h>

#include "vernier/schedule.h"

/* Values of an operand as f32 (every narrower type is exact in it), in row-major order. */
static vn_status_t values_of(const vn_tensor_t *t, float **out, vn_error_t *err) {
    float *v = vn_alloc((size_t)t->count + 1, sizeof *v);
    double *wide = vn_alloc((size_t)t->count + 1, sizeof *wide);
    vn_status_t st = v && wide ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory to apply a schedule");
    if (st == VN_OK) vn_tensor_to_f64(t, wide);
    for (int64_t k = 0; st == VN_OK && k < t->count; ++k) v[k] = (float)wide[k];
    vn_free(wide);
    if (st != VN_OK) {
        vn_free(v);
        v = NULL;
    }
    *out = v;
    return st;
}

/* Elements of class c among `count` from `from` on take their value from `fresh`. */
static void take(const vn_schedule_t *s, int c, int64_t from, int64_t count, const float *fresh, float *out, bool *known) {
    for (int64_t e = 0; e < count; ++e) {
        if (s->class_of && s->class_of[from + e] != c) continue;
        out[from + e] = fresh[e];
        known[from + e] = true;
    }
}

static vn_status_t product(const vn_schedule_t *s, float *const *in, float *out, bool *known, vn_error_t *err) {
    const vn_sum_op_t *op = &s->op;
    const int64_t m = op->m, k = op->k, n = op->n, batch = op->batch > 1 ? op->batch : 1;
    float *fresh = vn_alloc((size_t)(m * n) + 1, sizeof *fresh);
    vn_status_t st = fresh ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory to apply a schedule");
    for (int c = 0; c < s->n_classes && st == VN_OK; ++c) {
        vn_replay_t *r;
        if (!s->classes[c].tree) continue;
        st = vn_replay_compile(s->classes[c].tree, &s->arithmetic, &r, err);
        if (st != VN_OK) break;
        for (int64_t b = 0; b < batch && st == VN_OK; ++b) {
            const vn_plane_t pa = {in[0] + b * m * k, op->transpose_a ? 1 : k, op->transpose_a ? m : 1};
            const vn_plane_t pb = {in[1] + b * k * n, op->transpose_b ? 1 : n, op->transpose_b ? k : 1};
            const vn_plane_t pc = {in[2], op->addend_rows > 1 ? n : 0, 1};
            st = vn_replay_product(r, m, n, pa, pb, pc, fresh, n, err);
            if (st == VN_OK) take(s, c, b * m * n, m * n, fresh, out, known);
        }
        vn_replay_free(r);
    }
    vn_free(fresh);
    return st;
}

static vn_status_t rows(const vn_schedule_t *s, float *const *in, float *out, bool *known, vn_error_t *err) {
    const int64_t m = s->op.m, n = s->op.n;
    float *fresh = vn_alloc((size_t)m + 1, sizeof *fresh);
    vn_status_t st = fresh ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory to apply a schedule");
    for (int c = 0; c < s->n_classes && st == VN_OK; ++c) {
        vn_replay_t *r;
        const vn_plane_t x = {in[0], 1, n}, none = {0};
        if (!s->classes[c].tree) continue;
        st = vn_replay_compile(s->classes[c].tree, &s->arithmetic, &r, err);
        if (st != VN_OK) break;
        st = vn_replay_terms(r, m, x, none, none, fresh, err);
        if (st == VN_OK) take(s, c, 0, m, fresh, out, known);
        vn_replay_free(r);
    }
    vn_free(fresh);
    return st;
}

vn_status_t vn_schedule_apply(const vn_schedule_t *s, int n_inputs, const vn_tensor_t *const *inputs, float *out, bool *known, vn_error_t *err) {
    float *in[3] = {0};
    const bool is_product = s->op.kind == VN_SUM_MATMUL;
    if (!is_product && s->op.kind != VN_SUM_REDUCE_SUM)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "schedules of %s cannot be applied to given inputs in this build", vn_sum_kind_name(s->op.kind));
    if (s->op.dtype == VN_F64) return vn_fail(err, VN_ERR_UNSUPPORTED, "schedules of f64 cannot be applied to given inputs in this build");
    if (n_inputs < (is_product ? 2 : 1) || n_inputs > 3) return vn_fail(err, VN_ERR_USAGE, "%d inputs for a schedule of %s", n_inputs, vn_sum_kind_name(s->op.kind));
    memset(known, 0, (size_t)s->outputs * sizeof *known);
    vn_status_t st = VN_OK;
    for (int k = 0; k < n_inputs && st == VN_OK; ++k) st = values_of(inputs[k], &in[k], err);
    if (st == VN_OK) st = is_product ? product(s, in, out, known, err) : rows(s, in, out, known, err);
    for (int k = 0; k < 3; ++k) vn_free(in[k]);
    return st;
}
