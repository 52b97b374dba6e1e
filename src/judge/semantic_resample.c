/* semantic_resample.c -- resizing and sampling by a rule that no single attribute says: two attributes at once, a clamped point. */
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

/* Resize, nearest: another coordinate rule together with another rounding of the coordinate. */
static vn_status_t resize_pairs(vn_variant_t *v, vn_error_t *err) {
    static const char *const modes[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    char mode[72], coordinate[72], rounding[72], cause[96];
    vn_name_attr_text(v->node, "mode", "nearest", mode, sizeof mode);
    if (strcmp(mode, "nearest") != 0) return VN_OK;
    vn_name_attr_text(v->node, "coordinate_transformation_mode", "half_pixel", coordinate, sizeof coordinate);
    vn_name_attr_text(v->node, "nearest_mode", "round_prefer_floor", rounding, sizeof rounding);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m)
        for (size_t r = 0; r < sizeof nearest / sizeof *nearest; ++r) {
            if (strcmp(modes[m], coordinate) == 0 || strcmp(nearest[r], rounding) == 0) continue; /* one alone is asked elsewhere */
            snprintf(cause, sizeof cause, "coordinate-mode:%s", modes[m]);
            VN_TRY(vn_variant_string(v, "coordinate_transformation_mode", modes[m], err));
            VN_TRY(vn_variant_string(v, "nearest_mode", nearest[r], err));
            VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err,
                                  "Resize with coordinates %s rounded by %s (declared: %s, %s) gives the whole result.", modes[m],
                                  nearest[r], coordinate, rounding));
        }
    return VN_OK;
}

/* Resize with the ratio of the sizes in place of the scales that were given. */
static vn_status_t resize_scales(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *scales = vn_variant_operand(v, 2), *out = v->e->c->actual;
    if (!scales || scales->count != out->rank || !vn_name_judged(v, 0)) return VN_OK; /* some axes only: the others keep their size */
    const int64_t n = out->rank;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_I64, 1, &n, &t, err));
    for (int k = 0; k < out->rank; ++k) vn_tensor_set_i64(t, k, out->dims[k]);
    VN_TRY(vn_variant_drop_input(v, 2, err));
    VN_TRY(vn_variant_input(v, 3, t, err));
    return vn_variant_ask(v, VN_BUG, "attribute-ignored:scales", NULL, err,
                          "Resize by the ratio of output to input size, in place of the scales that were given, gives the whole result.");
}

/* GridSample with border padding: the point itself is moved to the border, then its taps are taken. */
static vn_status_t clamped_point(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *grid = vn_variant_operand(v, 1);
    char mode[72];
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    vn_name_attr_text(v->node, "padding_mode", "zeros", mode, sizeof mode);
    if (strcmp(mode, "border") != 0 || !grid || !vn_dtype_is_float(grid->dtype) || grid->rank < 4 ||
        !vn_variant_shape(v, 0, &type, &rank, dims) || rank != grid->rank || grid->dims[rank - 1] != rank - 2)
        return VN_OK;
    const bool corners = vn_name_attr_number(v->node, "align_corners", 0) != 0;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_copy(grid, &t, err));
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t size = dims[rank - 1 - i % (rank - 2)]; /* coordinates stand from the last axis to the first */
        const double most = corners ? 1 : 1 - 1 / (double)size, g = vn_tensor_get_f64(t, i);
        if (g > most || g < -most) vn_tensor_set_f64(t, i, g < 0 ? -most : most);
    }
    VN_TRY(vn_variant_input(v, 1, t, err));
    return vn_variant_ask(v, VN_BUG, "border-clamps-point", NULL, err,
                          "GridSample that moves the sample point itself into the image, in place of its taps, gives the whole result.");
}

static vn_status_t resample(vn_variant_t *v, vn_error_t *err) {
    if (vn_variant_is(v, "", "Resize")) {
        VN_TRY(resize_scales(v, err));
        if (v->e->level < VN_NAME_VARIANT) return resize_pairs(v, err);
    }
    if (vn_variant_is(v, "", "GridSample")) return clamped_point(v, err);
    return VN_OK;
}

vn_status_t vn_name_resample(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, resample, err); }
