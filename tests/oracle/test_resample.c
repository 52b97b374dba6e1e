/* Claims RESIZE-1 to RESIZE-6: a slow twin that evaluates each output on its own with f32 coordinates, ties, readings, grids. */
#include <stdio.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { H = 7, W = 5, MAX_OUT = 40 };
static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};

static float source(int mode, int64_t i, int64_t in, int64_t out) { /* in f32, as a kernel does it */
    const float scale = (float)out / (float)in, x = (float)i;
    if (mode == 1) return out == 1 ? 0 : x * (float)(in - 1) / (float)(out - 1);
    if (mode == 2) return x / scale;
    if (mode == 3 && out == 1) return 0;
    return (x + 0.5f) / scale - 0.5f;
}
static double source_exact(int mode, int64_t i, int64_t in, int64_t out) {
    const double scale = (double)out / (double)in, x = (double)i;
    if (mode == 1) return out == 1 ? 0 : x * (double)(in - 1) / (double)(out - 1);
    if (mode == 2) return x / scale;
    if (mode == 3 && out == 1) return 0;
    return (x + 0.5) / scale - 0.5;
}

static double kernel(bool cubic, double a, double d) {
    d = fabs(d);
    if (!cubic) return d < 1 ? 1 - d : 0;
    return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* One output by the definition: all taps of the plane, clamped, weights normalised where taps are excluded or stretched. */
static double twin(const double *x, double cy, double cx, double sy, double sx, bool cubic, bool exclude, bool antialias) {
    const double c[2] = {cy, cx}, s[2] = {antialias ? fmin(sy, 1) : 1, antialias ? fmin(sx, 1) : 1};
    const int n[2] = {H, W};
    double w[2][H] = {{0}};
    for (int d = 0; d < 2; ++d) {
        const double reach = (cubic ? 2 : 1) / s[d];
        double total = 0;
        for (int k = (int)floor(c[d] - reach) - 1; k <= (int)ceil(c[d] + reach) + 1; ++k) {
            const double v = exclude && (k < 0 || k >= n[d]) ? 0 : kernel(cubic, -0.75, (k - c[d]) * s[d]);
            w[d][k < 0 ? 0 : k >= n[d] ? n[d] - 1 : k] += v;
            total += v;
        }
        for (int k = 0; k < n[d]; ++k) w[d][k] /= total;
    }
    double y = 0;
    for (int i = 0; i < H; ++i)
        for (int j = 0; j < W; ++j) y += w[0][i] * w[1][j] * x[i * W + j];
    return y;
}

/* A kernel in f32: coordinates, weights and sums; lerp form for linear. */
static float f32_linear(const double *x, float cy, float cx) {
    float v[2];
    const int y0 = (int)floorf(cy), x0 = (int)floorf(cx);
    const float fy = cy - (float)y0, fx = cx - (float)x0;
    for (int i = 0; i < 2; ++i) {
        const int r = y0 + i < 0    ? 0
                      : y0 + i >= H ? H - 1
                                    : y0 + i,
                  a = x0 < 0    ? 0
                      : x0 >= W ? W - 1
                                : x0,
                  b = x0 + 1 < 0    ? 0
                      : x0 + 1 >= W ? W - 1
                                    : x0 + 1;
        const float p = (float)x[r * W + a], q = (float)x[r * W + b];
        v[i] = p + fx * (q - p);
    }
    return v[0] * (1 - fy) + v[1] * fy;
}
static float f32_cubic(const double *x, float cy, float cx) {
    float rows[4], w[2][4];
    const int at[2] = {(int)floorf(cy), (int)floorf(cx)};
    const float f[2] = {cy - (float)at[0], cx - (float)at[1]};
    for (int d = 0; d < 2; ++d)
        for (int k = 0; k < 4; ++k) {
            const float z = fabsf(f[d] + 1 - (float)k), a = -0.75f;
            w[d][k] = z <= 1 ? ((a + 2) * z - (a + 3)) * z * z + 1 : ((a * z - 5 * a) * z + 8 * a) * z - 4 * a;
        }
    for (int i = 0; i < 4; ++i) {
        const int r = at[0] - 1 + i < 0 ? 0 : at[0] - 1 + i >= H ? H - 1 : at[0] - 1 + i;
        rows[i] = 0;
        for (int j = 0; j < 4; ++j) {
            const int q = at[1] - 1 + j < 0 ? 0 : at[1] - 1 + j >= W ? W - 1 : at[1] - 1 + j;
            rows[i] += w[1][j] * (float)x[r * W + q];
        }
    }
    return w[0][0] * rows[0] + w[0][1] * rows[1] + w[0][2] * rows[2] + w[0][3] * rows[3];
}

static one_node_t resize(vn_test_t *t, const double *x, int64_t oh, int64_t ow, const char *mode, const char *coordinate,
                         const char *contract) {
    one_node_t c = {.op = "Resize",
                    .version = 19,
                    .n_in = 4,
                    .contract = contract,
                    .want = VN_WANT_VARIANCE,
                    .attrs = {{"mode", ONE_TEXT, 0, mode}, {"coordinate_transformation_mode", ONE_TEXT, 0, coordinate}}};
    c.in[0] = one_tensor(t, VN_F32, 2, (int64_t[]){H, W});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[3] = one_ints(t, VN_I64, 2, (int64_t[]){oh, ow});
    return c;
}

static void fill(vn_rng_t *rng, double *x, int n) {
    for (int i = 0; i < n; ++i) x[i] = sim(VN_FMT_F32, vn_rng_normal(rng));
}

static const int64_t sizes[][2] = {{13, 9}, {4, 3}, {7, 20}, {1, 1}, {14, 10}, {3, 11}};

VN_TEST(resample, linear_and_cubic_agree_with_the_twin) {
    vn_rng_t rng = vn_test_rng(t);
    double worst[2] = {0, 0};
    for (int mode = 0; mode < 4; ++mode)
        for (int cubic = 0; cubic < 2; ++cubic)
            for (int s = 0; s < 6; ++s) {
                double x[H * W];
                fill(&rng, x, H * W);
                one_node_t c =
                    resize(t, x, sizes[s][0], sizes[s][1], cubic ? "cubic" : "linear", coordinates[mode], "operand=f32,accumulator=f32");
                one_run(t, &c);
                VN_ASSERT_EQ(t, c.out[0].count, sizes[s][0] * sizes[s][1]);
                for (int64_t i = 0; i < c.out[0].count; ++i) {
                    const int64_t r = i / sizes[s][1], q = i % sizes[s][1];
                    const double y =
                        twin(x, source_exact(mode, r, H, sizes[s][0]), source_exact(mode, q, W, sizes[s][1]), 1, 1, cubic, false, false);
                    VN_ASSERT_LE(t, fabs(y - c.out[0].value[i]), 1e-13);
                    const float cy = source(mode, r, H, sizes[s][0]), cx = source(mode, q, W, sizes[s][1]),
                                got = cubic ? f32_cubic(x, cy, cx) : f32_linear(x, cy, cx);
                    const double ratio = sim_ratio(got, y, c.out[0].bound[i]);
                    if (ratio > 1)
                        vn_test_fail(t, __FILE__, __LINE__, "%s, cubic %d, element %lld: %a for %a, bound %a", coordinates[mode], cubic,
                                     (long long)i, (double)got, y, c.out[0].bound[i]);
                    worst[cubic] = fmax(worst[cubic], ratio);
                }
                one_free(&c);
            }
    VN_ASSERT_GE(t, worst[0], 0.2);
    VN_ASSERT_GE(t, worst[1], 0.05);
}

VN_TEST(resample, antialias_and_exclusion_agree_with_the_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 4; ++k)
        for (int s = 0; s < 6; ++s) {
            const bool cubic = k % 2, anti = k / 2;
            double x[H * W];
            fill(&rng, x, H * W);
            one_node_t c = resize(t, x, sizes[s][0], sizes[s][1], cubic ? "cubic" : "linear", "half_pixel", "portable");
            c.attrs[2] = (one_attr_t){anti ? "antialias" : "exclude_outside", ONE_INT, 1, NULL};
            one_run(t, &c);
            for (int64_t i = 0; i < c.out[0].count; ++i) {
                const int64_t r = i / sizes[s][1], q = i % sizes[s][1];
                const double y = twin(x, source_exact(0, r, H, sizes[s][0]), source_exact(0, q, W, sizes[s][1]), (double)sizes[s][0] / H,
                                      (double)sizes[s][1] / W, cubic, !anti, anti);
                VN_ASSERT_LE(t, fabs(y - c.out[0].value[i]), 1e-13);
                /* the coordinate moved as far as f32 may move it stays inside */
                const double cy = source_exact(0, r, H, sizes[s][0]), cx = source_exact(0, q, W, sizes[s][1]), e = 3 * 0x1p-24 * 0.99;
                const double ey = sizes[s][0] % H ? e : 0, ex = sizes[s][1] % W ? e : 0; /* scales of 1 and 2 are exact */
                const double z = twin(x, cy + ey * (fabs(cy) + 1), cx - ex * (fabs(cx) + 1), (double)sizes[s][0] / H,
                                      (double)sizes[s][1] / W, cubic, !anti, anti);
                VN_ASSERT_LE(t, fabs(z - y), c.out[0].bound[i]);
                VN_ASSERT_LE(t, c.out[0].bound[i], 1e-3);
            }
            one_free(&c);
        }
}

VN_TEST(resample, wrong_coordinates_are_outside) {
    vn_rng_t rng = vn_test_rng(t);
    double x[H * W];
    int outside = 0;
    fill(&rng, x, H * W);
    one_node_t c = resize(t, x, 13, 9, "linear", "half_pixel", "portable");
    one_run(t, &c);
    for (int i = 0; i < 13 * 9; ++i) {
        const double y = twin(x, source_exact(2, i / 9, H, 13), source_exact(2, i % 9, W, 9), 1, 1, false, false, false);
        outside += fabs(y - c.out[0].value[i]) > c.out[0].bound[i];
    }
    VN_ASSERT_GT(t, outside, 100);
    one_free(&c);
}

VN_TEST(resample, nearest_ties) {
    double x[H * W];
    for (int i = 0; i < H * W; ++i) x[i] = i;
    /* scale 2: every coordinate is dyadic, ties bind and there is no choice */
    one_node_t c = resize(t, x, 14, 10, "nearest", "half_pixel", "portable");
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].either == NULL);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 1), 0); /* 0.25 */
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 2), 1); /* 0.75 */
    one_free(&c);
    /* 5 to 6 columns asymmetric: 3 * 5/6 = 2.5 is a tie that f32 may miss */
    c = resize(t, x, 7, 6, "nearest", "asymmetric", "portable");
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].either != NULL);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 3), 2);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].either, 3), 3);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].either, 1), vn_tensor_get_f64(c.out[0].tensor, 1));
    one_free(&c);
}

VN_TEST(resample, scales_policies_and_crops) {
    double x[H * W];
    for (int i = 0; i < H * W; ++i) x[i] = i;
    one_node_t c = resize(t, x, 14, 15, "linear", "half_pixel", "portable");
    c.attrs[2] = (one_attr_t){"keep_aspect_ratio_policy", ONE_TEXT, 0, "not_larger"};
    one_run(t, &c); /* scale min(2, 3) = 2 */
    VN_ASSERT_EQ(t, c.out[0].dims[0], 14);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 10);
    one_free(&c);
    c = resize(t, x, 1, 1, "linear", "align_corners", "portable");
    vn_tensor_free(c.in[3]);
    c.in[3] = NULL;
    c.n_in = 3;
    c.in[2] = one_vector(t, VN_F32, 2, (const double[]){0.6, 0.6});
    one_run(t, &c); /* 4 x 3; the reference divides by 0.6 * 7 - 1 instead of 3 */
    VN_ASSERT_EQ(t, c.out[0].dims[0], 4);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 3);
    VN_ASSERT_DEQ(t, c.out[0].value[11], H * W - 1);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "real-length");
    one_free(&c);
    c = resize(t, x, 2, 3, "linear", "tf_crop_and_resize", "portable");
    c.attrs[2] = (one_attr_t){"extrapolation_value", ONE_FLOAT, -9, NULL};
    c.in[1] = one_vector(t, VN_F32, 4, (const double[]){0, 0.5, 0.5, 1.5});
    one_run(t, &c); /* rows 0 and 3; columns 2, 4 and 6 (outside) */
    const double y[6] = {2, 4, -9, 17, 19, -9};
    for (int i = 0; i < 6; ++i) VN_ASSERT_LE(t, fabs(c.out[0].value[i] - y[i]), 1e-12);
    one_free(&c);
}

static one_node_t grid(vn_test_t *t, const double *x, int n, const double *g, const char *mode, const char *pad) {
    one_node_t c = {.op = "GridSample",
                    .version = 22,
                    .n_in = 2,
                    .want = VN_WANT_VARIANCE,
                    .attrs = {{"mode", ONE_TEXT, 0, mode}, {"padding_mode", ONE_TEXT, 0, pad}}};
    c.in[0] = one_tensor(t, VN_F32, 4, (int64_t[]){1, 1, H, W});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[1] = one_tensor(t, VN_F32, 4, (int64_t[]){1, 1, n, 2});
    vn_tensor_from_f64(c.in[1], g, VN_RNE, false);
    return c;
}

VN_TEST(resample, grid_samples) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 200 };
    double x[H * W], g[2 * N], worst = 0;
    fill(&rng, x, H * W);
    for (int i = 0; i < 2 * N; ++i) g[i] = sim(VN_FMT_F32, 2.6 * vn_rng_uniform(&rng) - 1.3);
    one_node_t c = grid(t, x, N, g, "linear", "border");
    one_run(t, &c);
    for (int i = 0; i < N; ++i) {
        const double cx = fmin(fmax(((g[2 * i] + 1) * W - 1) / 2, 0), W - 1), cy = fmin(fmax(((g[2 * i + 1] + 1) * H - 1) / 2, 0), H - 1);
        const double y = twin(x, cy, cx, 1, 1, false, false, false);
        VN_ASSERT_LE(t, fabs(y - c.out[0].value[i]), 1e-13);
        const float fx = fminf(fmaxf((((float)g[2 * i] + 1) * W - 1) / 2, 0), W - 1),
                    fy = fminf(fmaxf((((float)g[2 * i + 1] + 1) * H - 1) / 2, 0), H - 1);
        worst = fmax(worst, sim_ratio(f32_linear(x, fy, fx), y, c.out[0].bound[i]));
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.05);
    one_free(&c);
    c = grid(t, x, N, g, "cubic", "border");
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 2);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "border-clamps-point");
    one_free(&c);
    /* reflection about the half-pixel border: -0.5 - a and -0.5 + a are one point */
    const double mirror[4] = {-1.2, 0.1, -0.8, 0.1};
    c = grid(t, x, 2, mirror, "linear", "reflection");
    one_run(t, &c);
    VN_ASSERT_LE(t, fabs(c.out[0].value[0] - c.out[0].value[1]), 1e-6);
    one_free(&c);
}

VN_TEST(resample, grids_from_matrices) {
    const double theta[6] = {2, 0, 0.5, 0, 1, -1};
    one_node_t c = {.op = "AffineGrid", .version = 20, .n_in = 2, .want = VN_WANT_BOUND};
    c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){1, 2, 3});
    vn_tensor_from_f64(c.in[0], theta, VN_RNE, false);
    c.in[1] = one_ints(t, VN_I64, 4, (int64_t[]){1, 1, 2, 4});
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].count, 16);
    VN_ASSERT_LE(t, fabs(c.out[0].value[0] - (2 * -0.75 + 0.5)), 1e-15);
    VN_ASSERT_LE(t, fabs(c.out[0].value[1] - (-0.5 - 1)), 1e-15);
    one_free(&c);
}

VN_TEST_MAIN(VN_CASE(resample, linear_and_cubic_agree_with_the_twin), VN_CASE(resample, antialias_and_exclusion_agree_with_the_twin),
             VN_CASE(resample, wrong_coordinates_are_outside), VN_CASE(resample, nearest_ties),
             VN_CASE(resample, scales_policies_and_crops), VN_CASE(resample, grid_samples), VN_CASE(resample, grids_from_matrices))
