/* Values of resampling, spectra, powers and quantisation against MPFR: inside the oracle's own error; codes equal, tie windows exact. */
#include <stdio.h>

#include "twin_case.h"

static const vn_dtype_t types[] = {VN_F32, VN_F64};

/* ---- resampling: a plane of H x W ---- */

enum { H = 7, W = 5 };

/* Weight of a tap at distance d of the coordinate: linear, or cubic with a = -3/4. */
static void weight(mpfr_t w, const mpfr_t distance, bool cubic) {
    const double a = -0.75;
    mpfr_t d;
    mpfr_init2(d, TW_BITS);
    mpfr_abs(d, distance, MPFR_RNDN);
    mpfr_set_zero(w, 1);
    const bool near = mpfr_cmp_ui(d, 1) <= 0, inside = mpfr_cmp_ui(d, cubic ? 2 : 1) < 0;
    if (inside && !cubic) {
        mpfr_ui_sub(w, 1, d, MPFR_RNDN);
    } else if (inside) { /* Horner in d */
        const double c[4] = {near ? a + 2 : a, near ? -(a + 3) : -5 * a, near ? 0 : 8 * a, near ? 1 : -4 * a};
        mpfr_set_d(w, c[0], MPFR_RNDN);
        for (int k = 1; k < 4; ++k) {
            mpfr_mul(w, w, d, MPFR_RNDN);
            mpfr_add_d(w, w, c[k], MPFR_RNDN);
        }
    }
    mpfr_clear(d);
}

typedef struct axis {
    int n;
    mpfr_t c, w[8];
    int at[8], count;
    bool zeros; /* taps outside are 0; else the border's */
} axis_t;

static void axis_taps(axis_t *x, bool cubic) {
    mpfr_t d;
    mpfr_init2(d, TW_BITS);
    mpfr_floor(d, x->c);
    const int base = (int)mpfr_get_si(d, MPFR_RNDN);
    x->count = 0;
    for (int k = base - 1; k <= base + 2; ++k) {
        mpfr_sub_si(d, x->c, k, MPFR_RNDN);
        weight(x->w[x->count], d, cubic);
        const int in = k < 0 ? 0 : k >= x->n ? x->n - 1 : k;
        x->at[x->count++] = x->zeros && in != k ? -1 : in;
    }
    mpfr_clear(d);
}

static void sample(mpfr_t y, const double *x, axis_t *row, axis_t *col, bool cubic) {
    mpfr_t p;
    mpfr_init2(p, TW_BITS);
    axis_taps(row, cubic);
    axis_taps(col, cubic);
    mpfr_set_zero(y, 1);
    for (int i = 0; i < row->count; ++i)
        for (int j = 0; j < col->count; ++j) {
            if (row->at[i] < 0 || col->at[j] < 0) continue;
            mpfr_mul(p, row->w[i], col->w[j], MPFR_RNDN);
            mpfr_mul_d(p, p, x[row->at[i] * W + col->at[j]], MPFR_RNDN);
            mpfr_add(y, y, p, MPFR_RNDN);
        }
    mpfr_clear(p);
}

static void axes_new(axis_t *x) {
    mpfr_init2(x->c, TW_BITS);
    for (int k = 0; k < 8; ++k) mpfr_init2(x->w[k], TW_BITS);
}
static void axes_free(axis_t *x) {
    mpfr_clear(x->c);
    for (int k = 0; k < 8; ++k) mpfr_clear(x->w[k]);
}

static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric"};

static void source(mpfr_t c, int mode, int64_t i, int64_t in, int64_t out) {
    if (mode == 1) {
        mpfr_set_si(c, out == 1 ? 0 : (long)(i * (in - 1)), MPFR_RNDN);
        if (out > 1) mpfr_div_si(c, c, (long)(out - 1), MPFR_RNDN);
        return;
    }
    mpfr_set_d(c, mode == 0 ? (double)i + 0.5 : (double)i, MPFR_RNDN);
    mpfr_mul_si(c, c, (long)in, MPFR_RNDN);
    mpfr_div_si(c, c, (long)out, MPFR_RNDN);
    if (mode == 0) mpfr_sub_d(c, c, 0.5, MPFR_RNDN);
}

VN_TEST(signals, resize) {
    static const int64_t outs[][2] = {{13, 9}, {4, 3}, {7, 20}, {1, 1}, {14, 10}};
    vn_rng_t rng = vn_test_rng(t);
    axis_t row = {.n = H}, col = {.n = W};
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    axes_new(&row);
    axes_new(&col);
    for (int run = 0; run < 2 * 2 * 3 * 5 * 3; ++run) {
        static const twin_data_t data[] = {TWIN_RANDOM, TWIN_ALTERNATING, TWIN_SUBNORMAL};
        const vn_dtype_t type = types[run % 2];
        const bool cubic = run / 2 % 2;
        const int mode = run / 4 % 3, size = run / 12 % 5, d = run / 60;
        const int64_t oh = outs[size][0], ow = outs[size][1];
        double x[H * W];
        char what[160];
        if (type == VN_F64 && data[d] == TWIN_SUBNORMAL) continue;
        twin_fill(&rng, data[d], vn_format_of(type), x, H * W);
        one_node_t c = {.op = "Resize",
                        .version = 19,
                        .n_in = 4,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"mode", ONE_TEXT, 0, cubic ? "cubic" : "linear"},
                                  {"coordinate_transformation_mode", ONE_TEXT, 0, coordinates[mode]}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(H, W), x);
        c.in[3] = one_ints(t, VN_I64, 2, outs[size]);
        one_run(t, &c);
        snprintf(what, sizeof what, "Resize %s %s to %d x %d, %s, %s data", cubic ? "cubic" : "linear", coordinates[mode], (int)oh, (int)ow,
                 vn_dtype_name(type), twin_data_names[data[d]]);
        for (int64_t i = 0; i < oh * ow; ++i) {
            source(row.c, mode, i / ow, H, oh);
            source(col.c, mode, i % ow, W, ow);
            sample(y, x, &row, &col, cubic);
            mpfr_prec_round(y, TW_BITS / 2,
                            MPFR_RNDN); /* an exact value whose coordinates are cut at TW_BITS; none is smaller than 2^-400 */
            if (fabs(mpfr_get_d(y, MPFR_RNDN)) < 0x1p-400) mpfr_set_zero(y, 1);
            twin_value(t, what, &c.out[0], i, y);
            mpfr_set_prec(y, TW_BITS);
        }
        one_free(&c);
    }
    axes_free(&row);
    axes_free(&col);
    mpfr_clear(y);
}

VN_TEST(signals, grid_sample) {
    enum { POINTS = 60 };
    vn_rng_t rng = vn_test_rng(t);
    axis_t row = {.n = H}, col = {.n = W};
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    axes_new(&row);
    axes_new(&col);
    for (int run = 0; run < 8; ++run) {
        const vn_dtype_t type = types[run % 2];
        const bool border = run / 2 % 2, corners = run / 4 % 2;
        double x[H * W], g[2 * POINTS];
        char what[120];
        twin_fill(&rng, TWIN_RANDOM, vn_format_of(type), x, H * W);
        for (int i = 0; i < 2 * POINTS; ++i) g[i] = vn_round_to(vn_format_of(type), 2.6 * vn_rng_uniform(&rng) - 1.3, VN_RNE, false);
        one_node_t c = {.op = "GridSample",
                        .version = 20,
                        .n_in = 2,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"mode", ONE_TEXT, 0, "linear"},
                                  {"padding_mode", ONE_TEXT, 0, border ? "border" : "zeros"},
                                  {"align_corners", ONE_INT, corners, NULL}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, 1, H, W), x);
        c.in[1] = twin_tensor(t, type, TWIN_DIMS(1, 1, POINTS, 2), g);
        one_run(t, &c);
        snprintf(what, sizeof what, "GridSample %s, corners %d, %s", border ? "border" : "zeros", corners, vn_dtype_name(type));
        for (int i = 0; i < POINTS; ++i) {
            axis_t *const axes[2] = {&col, &row};
            for (int a = 0; a < 2; ++a) { /* ((g + 1) n - 1) / 2, or (g + 1) (n - 1) / 2 */
                mpfr_set_d(axes[a]->c, g[2 * i + a], MPFR_RNDN);
                mpfr_add_ui(axes[a]->c, axes[a]->c, 1, MPFR_RNDN);
                mpfr_mul_si(axes[a]->c, axes[a]->c, axes[a]->n - corners, MPFR_RNDN);
                if (!corners) mpfr_sub_ui(axes[a]->c, axes[a]->c, 1, MPFR_RNDN);
                mpfr_div_ui(axes[a]->c, axes[a]->c, 2, MPFR_RNDN);
                axes[a]->zeros = !border;
                if (border && mpfr_sgn(axes[a]->c) < 0) mpfr_set_zero(axes[a]->c, 1);
                if (border && mpfr_cmp_si(axes[a]->c, axes[a]->n - 1) > 0) mpfr_set_si(axes[a]->c, axes[a]->n - 1, MPFR_RNDN);
            }
            sample(y, x, &row, &col, false);
            twin_value(t, what, &c.out[0], i, y);
        }
        one_free(&c);
    }
    axes_free(&row);
    axes_free(&col);
    mpfr_clear(y);
}

/* ---- spectra ---- */

/* Where the oracle's value is exact: what functions of 300 bits leave beside a number is not there. */
static void snapped(mpfr_t y) {
    mpfr_prec_round(y, 200, MPFR_RNDN);
    if (fabs(mpfr_get_d(y, MPFR_RNDN)) < 0x1p-250) mpfr_set_zero(y, 1);
    mpfr_prec_round(y, 300, MPFR_RNDN);
}

VN_TEST(signals, transforms) {
    static const int64_t lengths[] = {1, 2, 7, 16, 30, 37};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t a, b;
    mpfr_inits2(300, a, b, (mpfr_ptr)0);
    for (int run = 0; run < 2 * 2 * 6; ++run) {
        const vn_dtype_t type = types[run % 2];
        const bool inverse = run / 2 % 2;
        const int64_t n = lengths[run / 4];
        double x[2 * 37], re[37], im[37];
        char what[80];
        twin_fill(&rng, TWIN_RANDOM, vn_format_of(type), x, 2 * n);
        for (int64_t i = 0; i < n; ++i) re[i] = x[2 * i], im[i] = x[2 * i + 1];
        one_node_t c = {.op = "DFT", .version = 20, .n_in = 1, .want = VN_WANT_BOUND, .attrs = {{"inverse", ONE_INT, inverse, NULL}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, n, 2), x);
        one_run(t, &c);
        snprintf(what, sizeof what, "DFT of %d, inverse %d, %s", (int)n, inverse, vn_dtype_name(type));
        for (int64_t k = 0; k < n; ++k) {
            tw_fourier(a, b, re, im, n, k, inverse);
            snapped(a);
            snapped(b);
            twin_value(t, what, &c.out[0], 2 * k, a);
            twin_value(t, what, &c.out[0], 2 * k + 1, b);
        }
        one_free(&c);
    }
    mpfr_clears(a, b, (mpfr_ptr)0);
}

/* Frames of a windowed signal; the product of sample and window is exact in f64 for f32 data. */
VN_TEST(signals, frames) {
    enum { LENGTH = 40, FRAME = 16, HOP = 6 };
    vn_rng_t rng = vn_test_rng(t);
    double x[LENGTH], w[FRAME], z[FRAME];
    mpfr_t a, b;
    mpfr_inits2(300, a, b, (mpfr_ptr)0);
    twin_fill(&rng, TWIN_RANDOM, VN_FMT_F32, x, LENGTH);
    twin_fill(&rng, TWIN_POSITIVE, VN_FMT_F32, w, FRAME);
    one_node_t c = {.op = "STFT", .version = 17, .n_in = 3, .want = VN_WANT_BOUND};
    c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, LENGTH, 1), x);
    c.in[1] = one_scalar(t, VN_I64, HOP);
    c.in[2] = one_vector(t, VN_F32, FRAME, w);
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dims[2], FRAME / 2 + 1);
    for (int64_t f = 0; f < c.out[0].dims[1]; ++f)
        for (int64_t k = 0; k < FRAME / 2 + 1; ++k) {
            for (int i = 0; i < FRAME; ++i) z[i] = x[f * HOP + i] * w[i];
            tw_fourier(a, b, z, NULL, FRAME, k, false);
            snapped(a);
            snapped(b);
            twin_value(t, "STFT", &c.out[0], 2 * (f * (FRAME / 2 + 1) + k), a);
            twin_value(t, "STFT", &c.out[0], 2 * (f * (FRAME / 2 + 1) + k) + 1, b);
        }
    mpfr_clears(a, b, (mpfr_ptr)0);
    one_free(&c);
}

/* ---- powers ---- */

VN_TEST(signals, powers) {
    enum { MANY = 800 };
    vn_rng_t rng = vn_test_rng(t);
    static double x[MANY], e[MANY];
    mpfr_t y, b;
    mpfr_inits2(TW_BITS, y, b, (mpfr_ptr)0);
    for (int k = 0; k < 2; ++k) {
        const vn_format_t f = vn_format_of(types[k]);
        for (int i = 0; i < MANY; ++i) { /* wide bases, bases near 1, whole and half exponents, negative bases */
            const double g = vn_rng_normal(&rng);
            x[i] = vn_round_to(f,
                               i % 4 == 0   ? 1 + g * 1e-3
                               : i % 4 == 1 ? exp(4 * g)
                               : i % 4 == 2 ? fabs(g) + 0.01
                                            : -fabs(g) - 0.01,
                               VN_RNE, false);
            e[i] = vn_round_to(f,
                               i % 4 == 0   ? 300 * vn_rng_normal(&rng)
                               : i % 4 == 1 ? 2 * vn_rng_normal(&rng)
                                            : (double)((int)vn_rng_below(&rng, 21) - 10) / (i % 4 == 2 ? 2 : 1),
                               VN_RNE, false);
        }
        one_node_t c = {.op = "Pow", .version = 15, .n_in = 2, .want = VN_WANT_BOUND};
        c.in[0] = one_vector(t, types[k], MANY, x);
        c.in[1] = one_vector(t, types[k], MANY, e);
        one_run(t, &c);
        for (int i = 0; i < MANY; ++i) {
            mpfr_set_d(y, x[i], MPFR_RNDN);
            mpfr_set_d(b, e[i], MPFR_RNDN);
            mpfr_pow(y, y, b, MPFR_RNDN);
            twin_value(t, "Pow", &c.out[0], i, y);
        }
        one_free(&c);
    }
    mpfr_clears(y, b, (mpfr_ptr)0);
}

/* ---- quantisation ---- */

/* Code (u8, zero point 7) of the last f32 number before the end q factor of the window, seen from q. */
static double code_of(mpfr_t q, double factor) {
    mpfr_t end, r;
    mpfr_init2(end, TW_BITS);
    mpfr_init2(r, 24);
    mpfr_mul_d(end, q, factor, MPFR_RNDN);
    mpfr_set(r, end, mpfr_cmp(end, q) < 0 ? MPFR_RNDU : MPFR_RNDD);
    mpfr_rint(r, r, MPFR_RNDN);
    const double code = fmin(fmax(mpfr_get_d(r, MPFR_RNDN) + 7, 0), 255);
    mpfr_clears(end, r, (mpfr_ptr)0);
    return code;
}

/* The code is that of the rounded quotient; the other neighbour is open exactly where an f32 number within 2u of the quotient has it. */
VN_TEST(signals, codes) {
    enum { MANY = 3000 };
    static double x[MANY];
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t q;
    mpfr_init2(q, TW_BITS);
    int open = 0, closed = 0;
    for (int run = 0; run < 4; ++run) {
        const double scale = (float)(0.01 + 0.2 * vn_rng_uniform(&rng)), zero = 7;
        for (int i = 0; i < MANY; ++i) { /* near ties, a few units in the last place away */
            const double tie = scale * ((double)(int)vn_rng_below(&rng, 250) - 8 + 0.5);
            x[i] = i % 3 ? (float)(tie + ((double)(int)vn_rng_below(&rng, 9) - 4) * vn_ulp(VN_FMT_F32, tie))
                         : (float)(20 * vn_rng_normal(&rng));
        }
        one_node_t c = {.op = "QuantizeLinear", .version = 21, .n_in = 3, .contract = "portable", .want = VN_WANT_BOUND};
        c.in[0] = one_vector(t, VN_F32, MANY, x);
        c.in[1] = one_scalar(t, VN_F32, scale);
        c.in[2] = one_scalar(t, VN_U8, zero);
        one_run(t, &c);
        for (int i = 0; i < MANY; ++i) {
            mpfr_set_d(q, x[i], MPFR_RNDN);
            mpfr_div_d(q, q, scale, MPFR_RNDN);
            /* the window is 2u wide; a number on its very edge may count as in or out */
            const double low = code_of(q, 1 - 0x1.fffp-24), high = code_of(q, 1 + 0x1.fffp-24);
            const double lowest = code_of(q, 1 - 0x1.001p-23), highest = code_of(q, 1 + 0x1.001p-23);
            const double rounded = fmin(fmax(rint(tw_round(VN_FMT_F32, q)) + 7, 0), 255);
            const double got = vn_tensor_get_f64(c.out[0].tensor, i), other = c.out[0].either ? vn_tensor_get_f64(c.out[0].either, i) : got;
            VN_ASSERT_DEQ(t, got, rounded);
            if (lowest == highest) {
                VN_ASSERT_DEQ(t, other, got);
                ++closed;
            } else if (low != high) {
                VN_ASSERT_DEQ(t, fmin(got, other), fmin(low, high));
                VN_ASSERT_DEQ(t, fmax(got, other), fmax(low, high));
                ++open;
            }
        }
        one_free(&c);
    }
    VN_ASSERT(t, open > 500 && closed > 500);
    mpfr_clear(q);
}

/* (q - z) s is one rounding. */
VN_TEST(signals, codes_scaled_back) {
    static const vn_dtype_t results[] = {VN_F32, VN_F16, VN_BF16};
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 3; ++k)
        for (int run = 0; run < 20; ++run) {
            const double scale = vn_round_to(vn_format_of(results[k]), 0.1 * fabs(vn_rng_normal(&rng)) + 1e-3, VN_RNE, false),
                         zero = (double)vn_rng_below(&rng, 256);
            double x[256];
            for (int i = 0; i < 256; ++i) x[i] = i;
            one_node_t c = {.op = "DequantizeLinear", .version = 21, .n_in = 3, .contract = "ieee", .want = VN_WANT_BOUND};
            c.in[0] = one_vector(t, VN_U8, 256, x);
            c.in[1] = one_scalar(t, results[k], scale);
            c.in[2] = one_scalar(t, VN_U8, zero);
            one_run(t, &c);
            for (int i = 0; i < 256; ++i) {
                mpfr_t y;
                mpfr_init2(y, 200);
                mpfr_set_d(y, scale, MPFR_RNDN);
                mpfr_mul_d(y, y, i - zero, MPFR_RNDN);
                twin_value(t, "DequantizeLinear", &c.out[0], i, y);
                VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), tw_round(vn_format_of(results[k]), y));
                mpfr_clear(y);
            }
            one_free(&c);
        }
}

VN_TEST_MAIN(VN_CASE(signals, resize), VN_CASE(signals, grid_sample), VN_CASE(signals, transforms), VN_CASE(signals, frames),
             VN_CASE(signals, powers), VN_CASE(signals, codes), VN_CASE(signals, codes_scaled_back))
