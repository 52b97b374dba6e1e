/* Resize, GridSample, RoiAlign and AffineGrid in more digits (claims PREC-9, RESIZE-8): every element is the exact value rounded once, own errors
 * are true, and small against the bound in f64. The twin is MPFR with 2000 bits, by the definition: all samples, each with its weight.
 */
#include <stdio.h>

#include "oracle/twin_case.h"

enum { BITS = 2000, H = 7, W = 5, MAX_OUT = 20, POINTS = 40 };

static const vn_dtype_t types[] = {VN_F32, VN_F64, VN_F16, VN_BF16};

/* Data on a coarse grid give ties, data of any digits do not. */
static void fill(vn_rng_t *rng, vn_format_t f, bool coarse, double *x, int n) {
    for (int i = 0; i < n; ++i) x[i] = coarse ? (double)vn_rng_below(rng, 4097) - 2048 : vn_round_to(f, vn_rng_normal(rng), VN_RNE, false);
    for (int i = 0; coarse && i < n; ++i) x[i] = vn_round_to(f, x[i], VN_RNE, false);
}

static void check(vn_test_t *t, const char *what, const one_node_t *c, int64_t i, mpfr_t exact, int64_t *seen) {
    const vn_ref_t *r = &c->out[0];
    mpfr_prec_round(exact, BITS / 2, MPFR_RNDN);                                /* quotients cut at BITS: a tie is a tie again, */
    if (fabs(mpfr_get_d(exact, MPFR_RNDN)) < 0x1p-400) mpfr_set_zero(exact, 1); /* and what cancels is zero: no other value is that small */
    twin_value(t, what, r, i, exact);
    mpfr_prec_round(exact, BITS, MPFR_RNDN);
    const double due = tw_round(vn_format_of(r->dtype), exact), got = vn_tensor_get_f64(r->tensor, i);
    if (got != due) vn_test_fail(t, __FILE__, __LINE__, "%s: element %lld is %a, exactly %a", what, (long long)i, got, due);
    if (r->dtype == VN_F64 && r->bound[i] > 0) VN_ASSERT_LE(t, vn_ref_own(r, i), 0x1p-10 * r->bound[i]);
    if (r->undecided) vn_test_fail(t, __FILE__, __LINE__, "%s: %lld elements are undecided", what, (long long)r->undecided);
    if (i == 0) *seen += r->escalated;
}

/* ---- weights of one axis, for all its samples ---- */

typedef struct axis {
    int n;
    mpfr_t c, w[16], s, a, z;
} axis_t;

static void axis_new(axis_t *x, int n) {
    x->n = n;
    mpfr_inits2(BITS, x->c, x->s, x->a, x->z, (mpfr_ptr)0);
    for (int k = 0; k < 16; ++k) mpfr_init2(x->w[k], BITS);
}
static void axis_free(axis_t *x) {
    mpfr_clears(x->c, x->s, x->a, x->z, (mpfr_ptr)0);
    for (int k = 0; k < 16; ++k) mpfr_clear(x->w[k]);
}

/* Kernel at the distance in x->z, into x->s. */
static void kernel(axis_t *x, bool cubic, double a) {
    mpfr_abs(x->z, x->z, MPFR_RNDN);
    mpfr_set_zero(x->s, 1);
    if (!cubic) {
        if (mpfr_cmp_ui(x->z, 1) < 0) mpfr_ui_sub(x->s, 1, x->z, MPFR_RNDN);
        return;
    }
    const bool near = mpfr_cmp_ui(x->z, 1) <= 0;
    const double c[2][4] = {{a, -5 * a, 8 * a, -4 * a}, {a + 2, -(a + 3), 0, 1}}; /* a = -3/4, -1/2: all numbers */
    if (mpfr_cmp_ui(x->z, 2) >= 0) return;
    for (int k = 0; k < 4; ++k) {
        mpfr_mul(x->s, x->s, x->z, MPFR_RNDN);
        mpfr_add_d(x->s, x->s, c[near][k], MPFR_RNDN);
    }
}

/* pad: what a sample outside counts as. */
typedef enum pad { CLAMP, ZERO, MIRROR, MIRROR_EDGE, EXCLUDE } pad_t;

static int at_pad(pad_t pad, int k, int n) {
    if (k >= 0 && k < n) return k;
    if (pad == CLAMP) return k < 0 ? 0 : n - 1;
    if (pad == ZERO || pad == EXCLUDE) return -1;
    const int period = pad == MIRROR ? 2 * n : 2 * n - 2; /* edge samples twice, or once */
    k = ((k % period) + period) % period;
    return k < n ? k : period - k - (pad == MIRROR);
}

/* Weights at c; scale below 1 (as num / den) stretches the kernel; normalised where it is stretched or samples are left out. */
static void weights(axis_t *x, bool cubic, double a, pad_t pad, double num, double den, bool normalise) {
    const double scale = num / den < 1 && normalise ? num / den : 1, c = mpfr_get_d(x->c, MPFR_RNDN), reach = 2 / scale + 2;
    for (int k = 0; k < x->n; ++k) mpfr_set_zero(x->w[k], 1);
    mpfr_set_zero(x->a, 1);
    for (int k = (int)floor(c - reach); k <= (int)ceil(c + reach); ++k) {
        const int at = at_pad(pad, k, x->n);
        mpfr_si_sub(x->z, k, x->c, MPFR_RNDN);
        if (scale < 1) mpfr_mul_d(x->z, x->z, num, MPFR_RNDN), mpfr_div_d(x->z, x->z, den, MPFR_RNDN);
        kernel(x, cubic, a);
        if (at >= 0) mpfr_add(x->w[at], x->w[at], x->s, MPFR_RNDN);
        if (at >= 0 || pad != EXCLUDE) mpfr_add(x->a, x->a, x->s, MPFR_RNDN);
    }
    for (int k = 0; k < x->n && normalise; ++k) mpfr_div(x->w[k], x->w[k], x->a, MPFR_RNDN);
}

static void sum_of(mpfr_t y, const double *x, const axis_t *row, const axis_t *col) {
    mpfr_t p;
    mpfr_init2(p, BITS);
    mpfr_set_zero(y, 1);
    for (int i = 0; i < row->n; ++i)
        for (int j = 0; j < col->n; ++j) {
            mpfr_mul(p, row->w[i], col->w[j], MPFR_RNDN);
            mpfr_mul_d(p, p, x[i * W + j], MPFR_RNDN);
            mpfr_add(y, y, p, MPFR_RNDN);
        }
    mpfr_clear(p);
}

/* ---- Resize ---- */

static const char *const coordinates[] = {"half_pixel",           "align_corners",      "asymmetric",
                                          "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"};

/* Scale num / den. */
static void source(mpfr_t c, int mode, int64_t i, int64_t in, int64_t out, double num, double den) {
    mpfr_t b;
    mpfr_init2(b, BITS);
    if (mode == 1) {
        mpfr_set_si(c, out == 1 ? 0 : (long)(i * (in - 1)), MPFR_RNDN);
        if (out > 1) mpfr_div_si(c, c, (long)(out - 1), MPFR_RNDN);
    } else if (mode == 4 && out == 1) {
        mpfr_set_zero(c, 1);
    } else {
        mpfr_set_d(c, mode == 2 ? (double)i : (double)i + 0.5, MPFR_RNDN);
        mpfr_mul_d(c, c, den, MPFR_RNDN);
        mpfr_div_d(c, c, num, MPFR_RNDN);
        if (mode != 2 && mode != 5) mpfr_sub_d(c, c, 0.5, MPFR_RNDN);
        if (mode == 3) { /* in/2 (1 - out / (scale in)) */
            mpfr_set_d(b, (double)out * den / 2, MPFR_RNDN);
            mpfr_div_d(b, b, num, MPFR_RNDN);
            mpfr_d_sub(b, (double)in / 2, b, MPFR_RNDN);
            mpfr_add(c, c, b, MPFR_RNDN);
        }
    }
    mpfr_clear(b);
}

typedef struct resize_case {
    vn_dtype_t type;
    bool cubic, coarse, antialias, exclude, scales;
    int mode;
    double a;
    int64_t out[2];
} resize_case_t;

static void resize(vn_test_t *t, vn_rng_t *rng, const resize_case_t *q, int64_t *seen) {
    axis_t row, col;
    mpfr_t y;
    double x[H * W], num[2] = {(double)q->out[0], (double)q->out[1]}, den[2] = {H, W};
    char what[200];
    int64_t out[2] = {q->out[0], q->out[1]};
    mpfr_init2(y, BITS);
    axis_new(&row, H);
    axis_new(&col, W);
    fill(rng, vn_format_of(q->type), q->coarse, x, H * W);
    one_node_t c = {.op = "Resize",
                    .version = 19,
                    .n_in = 4,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"mode", ONE_TEXT, 0, q->cubic ? "cubic" : "linear"},
                              {"coordinate_transformation_mode", ONE_TEXT, 0, coordinates[q->mode]},
                              {"antialias", ONE_INT, q->antialias, NULL},
                              {"exclude_outside", ONE_INT, q->exclude, NULL}}};
    c.in[0] = twin_tensor(t, q->type, TWIN_DIMS(H, W), x);
    if (q->scales) {
        for (int d = 0; d < 2; ++d) {
            num[d] = (double)((float)q->out[d] / (float)den[d] * 1.03f);
            out[d] = (int64_t)floor((double)((float)den[d] * (float)num[d]));
            den[d] = 1;
        }
        c.n_in = 3;
        c.in[2] = twin_tensor(t, VN_F32, TWIN_DIMS(2), num);
    } else {
        c.in[3] = one_ints(t, VN_I64, 2, out);
    }
    one_run(t, &c);
    snprintf(what, sizeof what, "Resize %s %s to %d x %d%s%s%s, %s, %s data", q->cubic ? "cubic" : "linear", coordinates[q->mode],
             (int)out[0], (int)out[1], q->antialias ? ", antialias" : "", q->exclude ? ", exclude" : "", q->scales ? ", scales" : "",
             vn_dtype_name(q->type), q->coarse ? "coarse" : "normal");
    for (int64_t i = 0; i < out[0] * out[1]; ++i) {
        const pad_t pad = q->exclude ? EXCLUDE : CLAMP;
        source(row.c, q->mode, i / out[1], H, out[0], num[0], den[0]);
        source(col.c, q->mode, i % out[1], W, out[1], num[1], den[1]);
        weights(&row, q->cubic, q->a, pad, q->antialias ? num[0] : 1, q->antialias ? den[0] : 1, q->antialias || q->exclude);
        weights(&col, q->cubic, q->a, pad, q->antialias ? num[1] : 1, q->antialias ? den[1] : 1, q->antialias || q->exclude);
        sum_of(y, x, &row, &col);
        check(t, what, &c, i, y, seen);
    }
    one_free(&c);
    axis_free(&row);
    axis_free(&col);
    mpfr_clear(y);
}

VN_TEST(escalate_resample, resize) {
    static const int64_t outs[][2] = {{14, 10}, {13, 9}, {4, 3}, {7, 15}, {1, 1}};
    vn_rng_t rng = vn_test_rng(t);
    int64_t seen = 0;
    const int runs = vn_test_full() ? 4 * 2 * 2 * 2 * 2 * 2 * 6 * 5 : 300;
    for (int run = 0; run < runs; ++run) {
        const int k = vn_test_full() ? run : (int)vn_rng_below(&rng, 4 * 2 * 2 * 2 * 2 * 2 * 6 * 5);
        const int size = k / 768;
        const resize_case_t q = {.type = types[k % 4],
                                 .cubic = k / 4 % 2,
                                 .coarse = k / 8 % 2,
                                 .antialias = k / 16 % 2,
                                 .exclude = k / 32 % 2 && k / 4 % 2,
                                 .scales = k / 64 % 2,
                                 .mode = k / 128 % 6,
                                 .a = -0.75,
                                 .out = {outs[size][0], outs[size][1]}};
        resize(t, &rng, &q, &seen);
    }
    VN_ASSERT_GT(t, seen, 500);
}

/* ---- GridSample ---- */

VN_TEST(escalate_resample, grid_sample) {
    static const char *const pads[] = {"zeros", "border", "reflection"};
    vn_rng_t rng = vn_test_rng(t);
    int64_t seen = 0;
    axis_t row, col;
    mpfr_t y;
    mpfr_init2(y, BITS);
    axis_new(&row, H);
    axis_new(&col, W);
    for (int run = 0; run < 4 * 2 * 2 * 3; ++run) {
        const vn_dtype_t type = types[run % 4];
        const bool cubic = run / 4 % 2, corners = run / 8 % 2;
        const int pad = run / 16;
        double x[H * W], g[2 * POINTS];
        char what[120];
        fill(&rng, vn_format_of(type), run % 3 == 0, x, H * W);
        for (int i = 0; i < 2 * POINTS; ++i) /* eighths, and any */
            g[i] = i % 4 < 2 ? ((double)vn_rng_below(&rng, 33) - 16) / 8
                             : vn_round_to(vn_format_of(type), 3 * vn_rng_uniform(&rng) - 1.5, VN_RNE, false);
        one_node_t c = {.op = "GridSample",
                        .version = 20,
                        .n_in = 2,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"mode", ONE_TEXT, 0, cubic ? "cubic" : "linear"},
                                  {"padding_mode", ONE_TEXT, 0, pads[pad]},
                                  {"align_corners", ONE_INT, corners, NULL}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, 1, H, W), x);
        c.in[1] = twin_tensor(t, type, TWIN_DIMS(1, 1, POINTS, 2), g);
        one_run(t, &c);
        snprintf(what, sizeof what, "GridSample %s %s, corners %d, %s", cubic ? "cubic" : "linear", pads[pad], corners,
                 vn_dtype_name(type));
        for (int i = 0; i < POINTS; ++i) {
            axis_t *const axes[2] = {&col, &row};
            for (int a = 0; a < 2; ++a) { /* ((g + 1) n - 1) / 2, or (g + 1) (n - 1) / 2 */
                axis_t *s = axes[a];
                mpfr_set_d(s->c, g[2 * i + a], MPFR_RNDN);
                mpfr_add_ui(s->c, s->c, 1, MPFR_RNDN);
                mpfr_mul_si(s->c, s->c, s->n - corners, MPFR_RNDN);
                if (!corners) mpfr_sub_ui(s->c, s->c, 1, MPFR_RNDN);
                mpfr_div_ui(s->c, s->c, 2, MPFR_RNDN);
                if (pad == 1 && !cubic) { /* the point itself is held inside */
                    if (mpfr_sgn(s->c) < 0) mpfr_set_zero(s->c, 1);
                    if (mpfr_cmp_si(s->c, s->n - 1) > 0) mpfr_set_si(s->c, s->n - 1, MPFR_RNDN);
                }
                /* mirrored samples of a point outside are the samples beside its mirror image: the kernel is even */
                weights(s, cubic, -0.75, pad == 0 ? ZERO : pad == 1 ? CLAMP : corners ? MIRROR_EDGE : MIRROR, 1, 1, false);
            }
            sum_of(y, x, &row, &col);
            check(t, what, &c, i, y, &seen);
        }
        one_free(&c);
    }
    VN_ASSERT_GT(t, seen, 100);
    axis_free(&row);
    axis_free(&col);
    mpfr_clear(y);
}

/* ---- RoiAlign ---- */

VN_TEST(escalate_resample, roi_align) {
    enum { ROIS = 3, OUT = 2 };
    vn_rng_t rng = vn_test_rng(t);
    int64_t seen = 0;
    axis_t row, col;
    mpfr_t y, v, total;
    mpfr_inits2(BITS, y, v, total, (mpfr_ptr)0);
    axis_new(&row, H);
    axis_new(&col, W);
    for (int run = 0; run < 4 * 2 * 2 * 2; ++run) {
        const vn_dtype_t type = types[run % 4];
        const bool half = run / 4 % 2, maximum = run / 8 % 2;
        const int ratio = 1 + run / 16;
        double x[H * W], boxes[4 * ROIS];
        char what[120];
        fill(&rng, vn_format_of(type), run % 3 == 0, x, H * W);
        for (int r = 0; r < ROIS; ++r)
            for (int k = 0; k < 4; ++k)
                boxes[4 * r + k] = vn_round_to(vn_format_of(type), (k < 2 ? 0 : 3.25) + 4 * vn_rng_uniform(&rng) - 1, VN_RNE, false);
        one_node_t c = {.op = "RoiAlign",
                        .version = 16,
                        .n_in = 3,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"mode", ONE_TEXT, 0, maximum ? "max" : "avg"},
                                  {"coordinate_transformation_mode", ONE_TEXT, 0, half ? "half_pixel" : "output_half_pixel"},
                                  {"sampling_ratio", ONE_INT, ratio, NULL},
                                  {"output_height", ONE_INT, OUT, NULL},
                                  {"output_width", ONE_INT, OUT, NULL}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, 1, H, W), x);
        c.in[1] = twin_tensor(t, type, TWIN_DIMS(ROIS, 4), boxes);
        c.in[2] = one_ints(t, VN_I64, ROIS, (int64_t[ROIS]){0});
        one_run(t, &c);
        snprintf(what, sizeof what, "RoiAlign %s, half_pixel %d, ratio %d, %s", maximum ? "max" : "avg", half, ratio, vn_dtype_name(type));
        for (int i = 0; i < ROIS * OUT * OUT; ++i) {
            const double *box = boxes + i / (OUT * OUT) * 4;
            bool none = true;
            mpfr_set_zero(total, 1);
            for (int s = 0; s < ratio * ratio; ++s) {
                axis_t *const axes[2] = {&col, &row};
                const int bin[2] = {i % OUT, i / OUT % OUT}, step[2] = {s % ratio, s / ratio};
                bool outside = false;
                for (int a = 0; a < 2; ++a) {
                    axis_t *q = axes[a];
                    mpfr_set_d(v, box[2 + a], MPFR_RNDN);
                    mpfr_sub_d(v, v, box[a], MPFR_RNDN);
                    if (!half && mpfr_cmp_ui(v, 1) < 0) mpfr_set_ui(v, 1, MPFR_RNDN);
                    mpfr_mul_d(v, v, bin[a] * ratio + step[a] + 0.5, MPFR_RNDN);
                    mpfr_div_ui(v, v, (unsigned)(OUT * ratio), MPFR_RNDN);
                    mpfr_add_d(q->c, v, box[a], MPFR_RNDN);
                    if (half) mpfr_sub_d(q->c, q->c, 0.5, MPFR_RNDN);
                    outside |= mpfr_cmp_si(q->c, -1) < 0 || mpfr_cmp_si(q->c, q->n) > 0;
                    if (mpfr_sgn(q->c) < 0) mpfr_set_zero(q->c, 1);
                    if (mpfr_cmp_si(q->c, q->n - 1) > 0) mpfr_set_si(q->c, q->n - 1, MPFR_RNDN);
                    weights(q, false, 0, CLAMP, 1, 1, false);
                }
                if (!maximum) {
                    sum_of(y, x, &row, &col);
                    if (!outside) mpfr_add(total, total, y, MPFR_RNDN);
                    continue;
                }
                for (int k = 0; k < H * W; ++k) { /* the neighbours: floor(c) and the one after, weight 0 included */
                    const long fy = (long)mpfr_get_si(row.c, MPFR_RNDD), fx = (long)mpfr_get_si(col.c, MPFR_RNDD);
                    if (!outside && (k / W < fy || k / W > fy + 1 || k % W < fx || k % W > fx + 1)) continue;
                    mpfr_mul(v, row.w[k / W], col.w[k % W], MPFR_RNDN);
                    mpfr_mul_d(v, v, x[k], MPFR_RNDN);
                    if (outside) mpfr_set_zero(v, 1);
                    if (none || mpfr_cmp(v, total) > 0) mpfr_set(total, v, MPFR_RNDN);
                    none = false;
                }
                /* on the last row or column the neighbour after it is that one again, with weight 0 */
                const bool last = mpfr_cmp_si(row.c, H - 1) == 0 || mpfr_cmp_si(col.c, W - 1) == 0;
                if (last && mpfr_sgn(total) < 0) mpfr_set_zero(total, 1);
            }
            if (!maximum) mpfr_div_ui(total, total, (unsigned)(ratio * ratio), MPFR_RNDN);
            check(t, what, &c, i, total, &seen);
        }
        one_free(&c);
    }
    VN_ASSERT_GT(t, seen, 20);
    axis_free(&row);
    axis_free(&col);
    mpfr_clears(y, v, total, (mpfr_ptr)0);
}

/* ---- AffineGrid ---- */

VN_TEST(escalate_resample, affine_grid) {
    enum { Y = 3, X = 4 };
    vn_rng_t rng = vn_test_rng(t);
    int64_t seen = 0;
    mpfr_t y, p;
    mpfr_inits2(BITS, y, p, (mpfr_ptr)0);
    for (int run = 0; run < 40; ++run) {
        const vn_dtype_t type = types[run % 4];
        const bool corners = run / 4 % 2;
        double theta[6];
        fill(&rng, vn_format_of(type), run % 3 == 0, theta, 6);
        one_node_t c = {
            .op = "AffineGrid", .version = 20, .n_in = 2, .want = VN_WANT_BOUND, .attrs = {{"align_corners", ONE_INT, corners, NULL}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, 2, 3), theta);
        c.in[1] = one_ints(t, VN_I64, 4, (int64_t[]){1, 1, Y, X});
        one_run(t, &c);
        for (int i = 0; i < Y * X * 2; ++i) {
            const int at[2] = {i / 2 % X, i / 2 / X}, n[2] = {X, Y};
            mpfr_set_d(y, theta[i % 2 * 3 + 2], MPFR_RNDN);
            for (int a = 0; a < 2; ++a) {
                mpfr_set_si(p, corners ? 2 * at[a] : 2 * at[a] + 1, MPFR_RNDN);
                mpfr_div_si(p, p, corners ? n[a] - 1 : n[a], MPFR_RNDN);
                mpfr_sub_ui(p, p, 1, MPFR_RNDN);
                mpfr_mul_d(p, p, theta[i % 2 * 3 + a], MPFR_RNDN);
                mpfr_add(y, y, p, MPFR_RNDN);
            }
            check(t, "AffineGrid", &c, i, y, &seen);
        }
        one_free(&c);
    }
    VN_ASSERT_GT(t, seen, 50);
    mpfr_clears(y, p, (mpfr_ptr)0);
}

VN_TEST_MAIN(VN_CASE(escalate_resample, resize), VN_CASE(escalate_resample, grid_sample), VN_CASE(escalate_resample, roi_align),
             VN_CASE(escalate_resample, affine_grid))
