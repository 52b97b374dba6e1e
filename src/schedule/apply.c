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

/* MatMulNBits: codes, scales and zero points as weights [k, n]. in[3] NULL: the middle of the codes. */
static vn_status_t dequantised(const vn_sum_op_t *op, float *const *in, float **out, vn_error_t *err) {
    const int64_t blocks = (op->k + op->block - 1) / op->block, blob = op->block * op->bits / 8, zeros = (blocks * op->bits + 7) / 8;
    const int64_t mask = (1 << op->bits) - 1;
    *out = vn_alloc((size_t)(op->k * op->n) + 1, sizeof **out);
    if (!*out) return vn_fail(err, VN_ERR_NOMEM, "no memory to apply a schedule");
    for (int64_t c = 0; c < op->n; ++c)
        for (int64_t k = 0; k < op->k; ++k) {
            const int64_t g = k / op->block, bit = k % op->block * op->bits;
            const int64_t code = (int64_t)in[1][(c * blocks + g) * blob + bit / 8] >> bit % 8 & mask;
            const int64_t zero = in[3] ? (int64_t)in[3][c * zeros + g * op->bits / 8] >> g * op->bits % 8 & mask : 1 << (op->bits - 1);
            (*out)[k * op->n + c] = (float)(code - zero) * in[2][c * blocks + g];
        }
    return VN_OK;
}

static vn_status_t weights_in_codes(const vn_schedule_t *s, float *const *in, float *out, bool *known, vn_error_t *err) {
    float *operands[3] = {in[0], NULL, NULL};
    vn_status_t st = dequantised(&s->op, in, &operands[1], err);
    if (st == VN_OK) st = product(s, operands, out, known, err);
    vn_free(operands[1]);
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

/* ---- convolutions: a product of the filters with one column for each output position; taps in the padding are zeros ---- */

static void columns_of(const vn_sum_op_t *op, const float *x, int64_t oh, int64_t ow, float *out) {
    const int64_t positions = oh * ow;
    for (int64_t c = 0; c < op->channels / op->groups; ++c)
        for (int64_t ky = 0; ky < op->kernel[0]; ++ky)
            for (int64_t kx = 0; kx < op->kernel[1]; ++kx) {
                float *row = out + ((c * op->kernel[0] + ky) * op->kernel[1] + kx) * positions;
                for (int64_t y = 0; y < oh; ++y)
                    for (int64_t k = 0; k < ow; ++k) {
                        const int64_t iy = y * op->stride[0] - op->pad[0] + ky * op->dilation[0],
                                      ix = k * op->stride[1] - op->pad[1] + kx * op->dilation[1];
                        const bool inside = iy >= 0 && iy < op->height && ix >= 0 && ix < op->width;
                        row[y * ow + k] = inside ? x[(c * op->height + iy) * op->width + ix] : 0;
                    }
            }
}

static vn_status_t convolution(const vn_schedule_t *s, float *const *in, float *out, bool *known, vn_error_t *err) {
    const vn_sum_op_t *op = &s->op;
    int64_t size[2];
    for (int d = 0; d < 2; ++d) {
        const int64_t image = d ? op->width : op->height;
        size[d] = (image + op->pad[d] + op->pad[d + 2] - op->dilation[d] * (op->kernel[d] - 1) - 1) / op->stride[d] + 1;
    }
    const int64_t positions = size[0] * size[1], cg = op->channels / op->groups, og = op->filters / op->groups;
    const int64_t depth = cg * op->kernel[0] * op->kernel[1], plane = cg * op->height * op->width;
    float *columns = vn_alloc((size_t)(depth * positions) + 1, sizeof *columns),
          *fresh = vn_alloc((size_t)(og * positions) + 1, sizeof *fresh);
    vn_status_t st = columns && fresh ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory to apply a schedule");
    for (int c = 0; c < s->n_classes && st == VN_OK; ++c) {
        vn_replay_t *r;
        if (!s->classes[c].tree) continue;
        st = vn_replay_compile(s->classes[c].tree, &s->arithmetic, &r, err);
        if (st != VN_OK) break;
        for (int64_t z = 0; z < op->batch * op->groups && st == VN_OK; ++z) {
            const int64_t g = z % op->groups, from = (z / op->groups * op->filters + g * og) * positions;
            columns_of(op, in[0] + z * plane, size[0], size[1], columns);
            const vn_plane_t w = {in[1] + g * og * depth, depth, 1}, x = {columns, positions, 1},
                             bias = {in[2] ? in[2] + g * og : NULL, 1, 0};
            st = vn_replay_product(r, og, positions, w, x, bias, fresh, positions, err);
            if (st == VN_OK) take(s, c, from, og * positions, fresh, out, known);
        }
        vn_replay_free(r);
    }
    vn_free(columns);
    vn_free(fresh);
    return st;
}

vn_status_t vn_schedule_apply(const vn_schedule_t *s, int n_inputs, const vn_tensor_t *const *inputs, float *out, bool *known,
                              vn_error_t *err) {
    float *in[4] = {0};
    const bool is_conv = s->op.kind == VN_SUM_CONV, is_codes = s->op.kind == VN_SUM_MATMUL_NBITS,
               is_product = s->op.kind == VN_SUM_MATMUL || is_conv || is_codes;
    const int least = is_codes ? (s->op.zero_points ? 4 : 3) : is_product ? 2 : 1;
    if (!is_product && s->op.kind != VN_SUM_REDUCE_SUM)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "schedules of %s cannot be applied to given inputs in this build",
                       vn_sum_kind_name(s->op.kind));
    if (s->op.dtype == VN_F64) return vn_fail(err, VN_ERR_UNSUPPORTED, "schedules of f64 cannot be applied to given inputs in this build");
    if (n_inputs < least || n_inputs > (is_codes ? least : 3))
        return vn_fail(err, VN_ERR_USAGE, "%d inputs for a schedule of %s", n_inputs, vn_sum_kind_name(s->op.kind));
    memset(known, 0, (size_t)s->outputs * sizeof *known);
    vn_status_t st = VN_OK;
    for (int k = 0; k < n_inputs && st == VN_OK; ++k) st = values_of(inputs[k], &in[k], err);
    if (st == VN_OK && is_codes) st = weights_in_codes(s, in, out, known, err);
    else if (st == VN_OK && is_conv) st = convolution(s, in, out, known, err);
    else if (st == VN_OK) st = is_product ? product(s, in, out, known, err) : rows(s, in, out, known, err);
    for (int k = 0; k < 4; ++k) vn_free(in[k]);
    return st;
}
