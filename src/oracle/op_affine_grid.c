/* op_affine_grid.c -- AffineGrid 20.
 *
 * Claim RESIZE-6. Positions p_i = (2 i + 1)/n - 1, or 2 i/(n - 1) - 1 with align_corners (n = 1: -1); each is off by at most 4 u in f32
 * (step, product, start, sum; steps added up: n u more). An output is theta . (x, y[, z], 1): k + 1 terms,
 * g(k+2) (sum |theta p| + |t|) + (4 + n) u sum |theta|. Second tier of 16-bit types, "16-bit-function-body": the standard's body computes the
 * positions and the product in the type, the same with its u. Own error: the same with u = 2^-53 and positions that are not added up.
 */
#include <math.h>

#include "oracle/resample.h"

static double position(int64_t i, int64_t n, bool corners) {
    if (corners) return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : -1;
    return (2 * (double)i + 1) / (double)n - 1;
}

typedef struct grid {
    const double *theta;
    int axes;
    int64_t dims[5];
    bool corners;
} grid_t;

/* The row of theta behind element i, and the place in the grid. */
static const double *row_of(const grid_t *j, int64_t i, int64_t index[3]) {
    int64_t rest = i / j->axes;
    for (int a = j->axes - 1; a >= 0; --a) {
        index[a] = rest % j->dims[1 + a];
        rest /= j->dims[1 + a];
    }
    return j->theta + (rest * j->axes + i % j->axes) * (j->axes + 1);
}

/* In more digits (claim PREC-9). */
static void element(void *ctx, int64_t i, vn_exact_t *out) {
    const grid_t *j = ctx;
    int64_t index[3];
    const double *row = row_of(j, i, index);
    vn_tracked_t sum = vn_tk(row[j->axes]), of = vn_tk(1); /* the output is sum / of */
    for (int c = 0; c < j->axes; ++c) {
        const double k = (double)index[j->axes - 1 - c], n = (double)j->dims[j->axes - c], parts = j->corners ? n > 1 ? n - 1 : 1 : n;
        const vn_tracked_t p = vn_tk((j->corners ? n > 1 ? 2 * k : 0 : 2 * k + 1) - parts); /* the position is p / parts */
        sum = vn_tk_add(vn_tk_mul(sum, vn_tk(parts)), vn_tk_mul(vn_tk_mul(vn_tk(row[c]), p), of));
        of = vn_tk_mul(of, vn_tk(parts));
    }
    const vn_tracked_t y = vn_tk_div(sum, of);
    if (vn_quad_finite(y.v)) *out = vn_tk_exact(y);
}

vn_status_t vn_eval_affine_grid(vn_eval_t *e) {
    const vn_tensor_t *t = e->in[0].t;
    int64_t size[5];
    int n;
    VN_TRY(vn_arg_ints(e, 1, size, 5, &n));
    const int axes = n - 2;
    if (n < 4 || t->rank != 3 || t->dims[1] != axes || t->dims[2] != axes + 1 || t->dims[0] != size[0])
        return vn_eval_fail(e, VN_ERR_SHAPE, "theta [N, k, k+1] and size [N, C, k axes] do not fit (k = 2 or 3)");
    grid_t j = {.axes = axes, .dims = {size[0]}, .corners = vn_node_int(e->node, "align_corners", 0) != 0};
    int64_t *dims = j.dims;
    for (int a = 0; a < axes; ++a) dims[1 + a] = size[2 + a];
    dims[1 + axes] = axes;
    VN_TRY(vn_out_float(e, 0, t->dtype, axes + 2, dims));
    j.theta = vn_arg_f64(e, 0);
    if (!j.theta) return VN_ERR_NOMEM;
    if (e->refine) {
        vn_refine_each(e, element, &j);
        return VN_OK;
    }
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, 0));
    const double u = fmax(vn_u(e), 0x1p-53), g = vn_gamma(axes + 2, u);
    vn_ref_t *r = &e->out[0];
    r->terms = axes + 1;
    const vn_format_info_t *type = vn_format_info(vn_format_of(t->dtype));
    const double ut = type->u, gt = vn_gamma(axes + 2, ut);
    const bool second = r->bound && e->contract->tier != VN_TIER_IEEE && type->u > u;
    if (second) VN_TRY(vn_out_wide(e, 0, "16-bit-function-body"));
    int64_t longest = 1;
    for (int a = 0; a < axes; ++a) longest = dims[1 + a] > longest ? dims[1 + a] : longest;
    for (int64_t i = 0; i < r->count; ++i) {
        int64_t index[3];
        const double *row = row_of(&j, i, index);
        double y = row[axes], sum = fabs(row[axes]), weight = 0;
        for (int c = 0; c < axes; ++c) { /* columns are x, y, z: the innermost axis first */
            const double p = position(index[axes - 1 - c], dims[axes - c], j.corners);
            y += row[c] * p;
            sum += fabs(row[c] * p);
            weight += fabs(row[c]);
        }
        r->value[i] = y;
        if (r->bound) r->bound[i] = isfinite(y) ? g * sum + (4 + (double)longest) * u * weight : 0;
        if (r->own) r->own[i] = isfinite(y) ? (vn_gamma(axes + 2, 0x1p-53) * sum + 0x1p-51 * weight) * (1 + 0x1p-40) : 0;
        if (second) r->wide[i] = isfinite(y) ? gt * sum + (4 + (double)longest) * ut * weight : 0;
        if (r->var) r->var[i] = u * u * (sum * sum + weight * weight);
    }
    return VN_OK;
}

vn_status_t vn_infer_affine_grid(vn_eval_t *e) {
    int64_t size[5], dims[5];
    int n;
    VN_TRY(vn_arg_ints(e, 1, size, 5, &n));
    if (n < 4) return vn_eval_fail(e, VN_ERR_SHAPE, "size has %d entries", n);
    dims[0] = size[0];
    for (int a = 1; a < n - 1; ++a) dims[a] = size[a + 1];
    dims[n - 1] = n - 2;
    vn_infer_put(e, 0, e->in[0].t->dtype, n, dims);
    return VN_OK;
}
