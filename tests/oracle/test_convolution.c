/* test_convolution.c -- claims CONV-1 to CONV-4: convolutions against their definition and simulated executions. */
#include "sum_case.h"

typedef struct shape {
    int n;                                /* spatial axes */
    int64_t batch, channels, maps, group; /* channels and maps in all */
    int64_t in[3], kernel[3], stride[3], dilation[3], pads[6], extra[3];
} shape_t;

static int64_t product(const int64_t *x, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; ++i) p *= x[i];
    return p;
}

static void split(int64_t at, const int64_t *dims, int n, int64_t *out) {
    for (int d = n - 1; d >= 0; --d) {
        out[d] = at % dims[d];
        at /= dims[d];
    }
}

/* Terms behind one output element by the definition: operands in order channel, tap. Returns how many are present. */
static int64_t terms_of(const shape_t *s, bool transposed, const int64_t *out_dims, int64_t image, int64_t map, int64_t position,
                        const sc_t *c, double *x, double *w) {
    const int64_t cg = s->channels / s->group, mg = s->maps / s->group, taps = product(s->kernel, s->n), size = product(s->in, s->n);
    int64_t o[3], t[3], n = 0;
    split(position, out_dims, s->n, o);
    for (int64_t i = 0; i < cg; ++i)
        for (int64_t k = 0; k < taps; ++k) {
            split(k, s->kernel, s->n, t);
            int64_t at = 0;
            bool there = true;
            for (int d = 0; d < s->n; ++d) {
                int64_t v =
                    transposed ? o[d] + s->pads[d] - t[d] * s->dilation[d] : o[d] * s->stride[d] - s->pads[d] + t[d] * s->dilation[d];
                if (transposed) {
                    there = there && v >= 0 && v % s->stride[d] == 0;
                    v = v >= 0 ? v / s->stride[d] : -1;
                }
                there = there && v >= 0 && v < s->in[d];
                at = at * s->in[d] + v;
            }
            if (!there) continue;
            const int64_t ch = map / mg * cg + i;
            x[n] = sc_get(c, 0, (image * s->channels + ch) * size + at);
            w[n++] = sc_get(c, 1, transposed ? (ch * mg + map % mg) * taps + k : (map * cg + i) * taps + k);
        }
    return n;
}

static void build(vn_test_t *t, vn_rng_t *rng, sc_t *c, const shape_t *s, bool transposed, bool bias, vn_dtype_t type, sc_data_t kind) {
    static double data[8192];
    int64_t xd[6] = {s->batch, s->channels},
            wd[6] = {transposed ? s->channels : s->maps, transposed ? s->maps / s->group : s->channels / s->group};
    for (int d = 0; d < s->n; ++d) {
        xd[2 + d] = s->in[d];
        wd[2 + d] = s->kernel[d];
    }
    xd[2 + s->n] = wd[2 + s->n] = -1;
    sc_new(t, c, "", transposed ? "ConvTranspose" : "Conv", 11, "portable");
    sc_fill(rng, kind, data, product(xd, 2 + s->n));
    sc_in(t, c, type, xd, data);
    sc_fill(rng, kind, data, product(wd, 2 + s->n));
    sc_in(t, c, type, wd, data);
    sc_fill(rng, kind, data, s->maps);
    if (bias) sc_in(t, c, type, SC_DIMS(s->maps), data);
    sc_int(c, "group", s->group);
    sc_ints(c, "strides", s->n, s->stride);
    sc_ints(c, "dilations", s->n, s->dilation);
    sc_ints(c, "pads", 2 * s->n, s->pads);
    if (transposed) sc_ints(c, "output_padding", s->n, s->extra);
}

static const shape_t shapes[] = {
    {1, 2, 3, 4, 1, {9}, {3}, {1}, {1}, {1, 1}, {0}},
    {2, 1, 4, 6, 2, {7, 6}, {3, 2}, {2, 1}, {1, 2}, {1, 0, 2, 1}, {1, 0}},
    {2, 2, 3, 3, 3, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {0, 0}}, /* depthwise */
    {3, 1, 2, 3, 1, {4, 5, 3}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1, 1, 0, 1}, {0, 1, 0}},
    {2, 1, 5, 7, 1, {8, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {0, 0}}, /* pointwise */
    {1, 1, 1, 1, 1, {6}, {2}, {3}, {1}, {2, 2}, {2}},                      /* windows of padding only */
};

static void check(vn_test_t *t, vn_rng_t *rng, const shape_t *s, bool transposed, bool bias, vn_dtype_t type, double *worst) {
    static double x[512], w[512];
    sc_t c;
    build(t, rng, &c, s, transposed, bias, type, SC_NORMAL);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    const int64_t positions = product(r->dims + 2, s->n);
    const vn_format_t store = vn_format_of(type);
    const double u_o = vn_format_info(store)->u;
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t n = terms_of(s, transposed, r->dims + 2, i / positions / s->maps, i / positions % s->maps, i % positions, &c, x, w);
        const double b = bias ? sc_get(&c, 2, i / positions % s->maps) : 0;
        double y = b, magnitude = fabs(b);
        for (int64_t k = 0; k < n; ++k) {
            y += x[k] * w[k];
            magnitude += fabs(x[k] * w[k]);
        }
        VN_ASSERT_LE(t, fabs(y - r->value[i]), r->own[i] + 0x1p-46 * magnitude);
        /* tight: only the terms that are there count */
        const double roundings = (double)n - (type == VN_F32 || n == 0 ? 0 : 1) + bias,
                     limit = roundings * 0x1p-24 * magnitude * 1.0001 + (type == VN_F32 ? 0 : u_o * (fabs(y) + 1e-6)) + 1e-38;
        VN_ASSERT_LE(t, r->bound[i], limit + (type == VN_F32 ? 0 : 0x1p-24));
        for (int order = 0; order < SC_ORDERS; ++order) {
            const double v = sc_round(store, sc_dot(rng, VN_FMT_F32, x, w, n, (sc_order_t)order, order & 1, false, b, order & 2), false);
            VN_ASSERT_LE(t, fabs(v - r->value[i]), r->bound[i]);
            if (r->bound[i] > 0) *worst = fmax(*worst, fabs(v - r->value[i]) / r->bound[i]);
        }
        if (n == 0 && !bias) VN_ASSERT_DEQ(t, r->value[i], 0);
    }
    sc_free(&c);
}

VN_TEST(convolution, equals_its_definition_and_bounds_every_order) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
        for (int form = 0; form < 4; ++form) {
            check(t, &rng, &shapes[i], form & 1, form & 2, VN_F32, &worst);
            check(t, &rng, &shapes[i], form & 1, form & 2, VN_F16, &worst);
        }
    VN_ASSERT_GT(t, worst, 0.3);
}

VN_TEST(convolution, padding_adds_no_terms) {
    const shape_t s = {2, 1, 2, 1, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {0, 0}};
    static double x[50], w[18];
    sc_t c;
    for (int i = 0; i < 50; ++i) x[i] = 0.1;
    for (int i = 0; i < 18; ++i) w[i] = 0.3;
    sc_new(t, &c, "", "Conv", 11, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(1, 2, 5, 5), x);
    sc_in(t, &c, VN_F32, SC_DIMS(1, 2, 3, 3), w);
    sc_ints(&c, "pads", 4, s.pads);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    const double term = sc_get(&c, 0, 0) * sc_get(&c, 1, 0);
    VN_ASSERT_LE(t, r->bound[0], 8 * 8 * term * 0x1p-24 * 1.0001);    /* corner: 4 taps of 2 channels */
    VN_ASSERT_LE(t, r->bound[12], 18 * 18 * term * 0x1p-24 * 1.0001); /* centre */
    VN_ASSERT_GE(t, r->bound[12], 18 * 18 * term * 0x1p-24);
    VN_ASSERT_GE(t, r->bound[0], 8 * 8 * term * 0x1p-24);
    sc_free(&c);
}

VN_TEST(convolution, auto_pad_sizes) {
    static const struct {
        const char *mode;
        int64_t in, kernel, stride, out;
        double first; /* of x = 1, 2, 3 ... with weights 1, 10, 100 ... */
    } cases[] = {{"SAME_UPPER", 5, 2, 1, 5, 21},  {"SAME_LOWER", 5, 2, 1, 5, 10},  {"SAME_UPPER", 5, 3, 2, 3, 210},
                 {"SAME_LOWER", 6, 3, 2, 3, 210}, {"SAME_UPPER", 6, 3, 2, 3, 321}, {"VALID", 6, 3, 2, 2, 321},
                 {"SAME_UPPER", 7, 1, 3, 3, 1},   {"NOTSET", 6, 3, 1, 4, 321}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        double x[8], w[3] = {1, 10, 100};
        sc_t c;
        for (int k = 0; k < 8; ++k) x[k] = k + 1;
        sc_new(t, &c, "", "Conv", 11, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, cases[i].in), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, cases[i].kernel), w);
        sc_text(&c, "auto_pad", cases[i].mode);
        sc_ints(&c, "strides", 1, &cases[i].stride);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_EQ(t, r->dims[2], cases[i].out);
        VN_ASSERT_DEQ(t, r->value[0], cases[i].first);
        VN_ASSERT_DEQ(t, r->bound[0], 0); /* integers */
        sc_free(&c);
    }
}

VN_TEST(convolution, transposed_sizes) {
    static const struct {
        const char *mode;
        int64_t shape, stride, kernel, out;
    } cases[] = {{"NOTSET", 0, 2, 3, 9}, {"SAME_UPPER", 0, 2, 3, 8}, {"SAME_LOWER", 0, 2, 3, 8},
                 {"VALID", 0, 3, 2, 11}, {"NOTSET", 10, 2, 3, 10},   {"NOTSET", 7, 2, 3, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const double x[4] = {1, 2, 3, 4}, w[3] = {1, 10, 100};
        sc_t c;
        sc_new(t, &c, "", "ConvTranspose", 11, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 4), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, cases[i].kernel), w);
        sc_text(&c, "auto_pad", cases[i].mode);
        sc_ints(&c, "strides", 1, &cases[i].stride);
        if (cases[i].shape) sc_ints(&c, "output_shape", 1, &cases[i].shape);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_EQ(t, r->dims[2], cases[i].out);
        if (i == 0) VN_ASSERT_DEQ(t, r->value[2], 100 + 2);
        if (i == 1) VN_ASSERT_DEQ(t, r->value[0], 1);  /* one place cut at the end */
        if (i == 2) VN_ASSERT_DEQ(t, r->value[0], 10); /* at the beginning */
        sc_free(&c);
    }
}

VN_TEST(convolution, infinite_weight_in_the_padding_is_open) {
    const double x[3] = {1, 2, 3}, w[3] = {INFINITY, 1, 1};
    const int64_t pads[2] = {1, 1};
    sc_t c;
    sc_new(t, &c, "", "Conv", 11, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 3), x);
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 3), w);
    sc_ints(&c, "pads", 2, pads);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT(t, r->flags[0] & VN_EL_NAN_OK); /* 0 times Inf if zeros are materialised */
    VN_ASSERT(t, !(r->flags[1] & VN_EL_NAN_OK));
    VN_ASSERT(t, r->value[1] == INFINITY);
    sc_free(&c);
}

VN_TEST(convolution, same_bits_for_every_thread_count) {
    const shape_t s = {2, 2, 8, 12, 2, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {0, 0}};
    sc_t c[3];
    for (int i = 0; i < 3; ++i) {
        vn_rng_t rng;
        vn_rng_seed(&rng, 5);
        vn_threads_set(i == 0 ? 1 : i == 1 ? 2 : 7);
        build(t, &rng, &c[i], &s, false, true, VN_F32, SC_NORMAL);
        const vn_ref_t *r = sc_run(t, &c[i], VN_WANT_VARIANCE), *first = &c[0].out[0];
        const size_t bytes = (size_t)r->count * sizeof(double);
        VN_ASSERT(t, memcmp(first->value, r->value, bytes) == 0 && memcmp(first->bound, r->bound, bytes) == 0 &&
                         memcmp(first->var, r->var, bytes) == 0);
    }
    vn_threads_set(0);
    for (int i = 0; i < 3; ++i) sc_free(&c[i]);
}

VN_TEST(convolution, variance_predicts_simulated_errors) {
    const shape_t s = {2, 1, 16, 6, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {0, 0}};
    static double x[512], w[512];
    vn_rng_t rng = vn_test_rng(t);
    sc_t c;
    build(t, &rng, &c, &s, false, false, VN_F32, SC_NORMAL);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    double sum = 0;
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t n = terms_of(&s, false, r->dims + 2, 0, i / 64, i % 64, &c, x, w);
        const double e = sc_dot(&rng, VN_FMT_F32, x, w, n, SC_SEQ, false, false, 0, false) - r->value[i];
        sum += e * e / r->var[i];
    }
    VN_ASSERT_LT(t, sqrt(sum / (double)r->count), 1.5);
    VN_ASSERT_GT(t, sqrt(sum / (double)r->count), 0.5);
    sc_free(&c);
}

/* ---- CONV-2 and 3 ---- */

VN_TEST(convolution, integer_and_requantised) {
    static double x[2 * 3 * 25], w[4 * 3 * 9], bias[4], zw[4], sw[4];
    const int64_t pads[4] = {1, 1, 1, 1};
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 150; ++i) x[i] = (double)vn_rng_below(&rng, 256);
    for (int i = 0; i < 108; ++i) w[i] = (double)vn_rng_below(&rng, 256) - 128;
    for (int i = 0; i < 4; ++i) {
        bias[i] = (double)vn_rng_below(&rng, 2000) - 1000;
        zw[i] = (double)vn_rng_below(&rng, 7) - 3;
        sw[i] = 0.003 + 0.002 * i;
    }
    const double zx[1] = {119}, sx[1] = {0.02}, sy[1] = {0.05}, zy[1] = {7};
    sc_t c, q;
    sc_new(t, &c, "", "ConvInteger", 10, "portable");
    sc_in(t, &c, VN_U8, SC_DIMS(2, 3, 5, 5), x);
    sc_in(t, &c, VN_I8, SC_DIMS(4, 3, 3, 3), w);
    sc_in(t, &c, VN_U8, SC_DIMS(1), zx);
    sc_in(t, &c, VN_I8, SC_DIMS(4), zw);
    sc_ints(&c, "pads", 4, pads);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    sc_new(t, &q, "", "QLinearConv", 10, "portable");
    sc_in(t, &q, VN_U8, SC_DIMS(2, 3, 5, 5), x);
    sc_in(t, &q, VN_F32, SC_DIMS(1), sx);
    sc_in(t, &q, VN_U8, SC_DIMS(1), zx);
    sc_in(t, &q, VN_I8, SC_DIMS(4, 3, 3, 3), w);
    sc_in(t, &q, VN_F32, SC_DIMS(4), sw);
    sc_in(t, &q, VN_I8, SC_DIMS(4), zw);
    sc_in(t, &q, VN_F32, SC_DIMS(1), sy);
    sc_in(t, &q, VN_U8, SC_DIMS(1), zy);
    sc_in(t, &q, VN_I32, SC_DIMS(4), bias);
    sc_ints(&q, "pads", 4, pads);
    const vn_ref_t *z = sc_run(t, &q, VN_WANT_BOUND);
    const shape_t s = {2, 2, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {0, 0}};
    static double a[64], b[64];
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t n = terms_of(&s, false, r->dims + 2, i / 100, i / 25 % 4, i % 25, &c, a, b);
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += (a[k] - 119) * (b[k] - zw[i / 25 % 4]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, i), sum);
        const double v = (sum + bias[i / 25 % 4]) * sc_get(&q, 1, 0) * sc_get(&q, 4, i / 25 % 4) / sc_get(&q, 6, 0),
                     code = fmin(fmax(rint(v) + 7, 0), 255);
        const float f =
            (float)(sum + bias[i / 25 % 4]) * ((float)sc_get(&q, 1, 0) * (float)sc_get(&q, 4, i / 25 % 4) / (float)sc_get(&q, 6, 0));
        const double in_f32 = fmin(fmax(rint((double)f) + 7, 0), 255);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(z->tensor, i), code);
        VN_ASSERT(t, in_f32 == code || in_f32 == (double)vn_tensor_get_i64(z->either, i));
        if (fabs(v - floor(v) - 0.5) > 1e-4) VN_ASSERT_EQ(t, vn_tensor_get_i64(z->either, i), code); /* sharp: no slack away from ties */
    }
    sc_free(&c);
    sc_free(&q);
}

VN_TEST(convolution, ties_leave_both_neighbours) {
    const double one[1] = {1}, x[4] = {1, 2, 3, 5}, s[1] = {0.5}, zero[1] = {0};
    sc_t q;
    sc_new(t, &q, "", "QLinearConv", 10, "portable");
    sc_in(t, &q, VN_U8, SC_DIMS(1, 1, 4), x);
    sc_in(t, &q, VN_F32, SC_DIMS(1), s);
    sc_in(t, &q, VN_U8, SC_DIMS(1), zero);
    sc_in(t, &q, VN_U8, SC_DIMS(1, 1, 1), one);
    sc_in(t, &q, VN_F32, SC_DIMS(1), one);
    sc_in(t, &q, VN_U8, SC_DIMS(1), zero);
    sc_in(t, &q, VN_F32, SC_DIMS(1), one);
    sc_in(t, &q, VN_U8, SC_DIMS(1), zero);
    const vn_ref_t *r = sc_run(t, &q, VN_WANT_BOUND);
    static const int64_t even[4] = {0, 1, 2, 2}, other[4] = {1, 1, 1, 3};
    for (int i = 0; i < 4; ++i) {
        VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, i), even[i]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(r->either, i), other[i]);
    }
    sc_free(&q);
}

/* ---- CONV-4 ---- */

VN_TEST(convolution, deformed_taps_read_between) {
    vn_rng_t rng = vn_test_rng(t);
    static double x[2 * 36], w[2 * 2 * 9], offset[18 * 16], mask[9 * 16], zeros[18 * 16];
    sc_fill(&rng, SC_NORMAL, x, 72);
    sc_fill(&rng, SC_NORMAL, w, 36);
    for (int i = 0; i < 18 * 16; ++i) offset[i] = 2 * vn_rng_normal(&rng);
    for (int i = 0; i < 9 * 16; ++i) mask[i] = vn_rng_uniform(&rng);
    for (int run = 0; run < 2; ++run) {
        sc_t c, plain;
        sc_new(t, &c, "", "DeformConv", 19, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, 2, 6, 6), x);
        sc_in(t, &c, VN_F32, SC_DIMS(2, 2, 3, 3), w);
        sc_in(t, &c, VN_F32, SC_DIMS(1, 18, 4, 4), run ? offset : zeros);
        sc_absent(&c);
        if (run) sc_in(t, &c, VN_F32, SC_DIMS(1, 9, 4, 4), mask);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        sc_new(t, &plain, "", "Conv", 11, "portable");
        sc_in(t, &plain, VN_F32, SC_DIMS(1, 2, 6, 6), x);
        sc_in(t, &plain, VN_F32, SC_DIMS(2, 2, 3, 3), w);
        const vn_ref_t *p = sc_run(t, &plain, VN_WANT_BOUND);
        for (int i = 0; i < 32; ++i) {
            if (!run) { /* no offset: an ordinary convolution */
                VN_ASSERT_LE(t, fabs(r->value[i] - p->value[i]), 1e-12);
                VN_ASSERT_GE(t, r->bound[i], p->bound[i]);
                continue;
            }
            float sum = 0; /* a plain f32 kernel */
            for (int ch = 0; ch < 2; ++ch)
                for (int k = 0; k < 9; ++k) {
                    const int at = i % 16;
                    const float y = (float)(at / 4 + k / 3) + (float)sc_get(&c, 2, (2 * k) * 16 + at),
                                z = (float)(at % 4 + k % 3) + (float)sc_get(&c, 2, (2 * k + 1) * 16 + at);
                    const float fy = floorf(y), fz = floorf(z);
                    float v = 0;
                    for (int q = 0; q < 4; ++q) {
                        const int a = (int)fy + q / 2, b = (int)fz + q % 2;
                        if (a < 0 || b < 0 || a > 5 || b > 5) continue;
                        v += (q / 2 ? y - fy : 1 - (y - fy)) * (q % 2 ? z - fz : 1 - (z - fz)) * (float)sc_get(&c, 0, ch * 36 + a * 6 + b);
                    }
                    sum += v * (float)sc_get(&c, 4, k * 16 + at) * (float)sc_get(&c, 1, (i / 16 * 2 + ch) * 9 + k);
                }
            VN_ASSERT_LE(t, fabs((double)sum - r->value[i]), r->bound[i]);
            VN_ASSERT_LT(t, r->bound[i], 1e-3);
        }
        sc_free(&c);
        sc_free(&plain);
    }
}

VN_TEST(convolution, bad_shapes_are_named) {
    static const double x[64], w[64];
    static const struct {
        int64_t xc, wc, group, kernel;
        const char *text;
    } cases[] = {{3, 2, 1, 3, "channels"}, {4, 4, 3, 3, "group 3"}, {2, 2, 1, 9, "window"}};
    for (int i = 0; i < 3; ++i) {
        sc_t c;
        sc_new(t, &c, "", "Conv", 11, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, cases[i].xc, 5), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1, cases[i].wc, cases[i].kernel), w);
        sc_int(&c, "group", cases[i].group);
        VN_ASSERT(t, sc_try(&c, VN_WANT_BOUND) != VN_OK);
        VN_ASSERT_HAS(t, c.err.text, cases[i].text);
        sc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(convolution, equals_its_definition_and_bounds_every_order), VN_CASE(convolution, padding_adds_no_terms),
             VN_CASE(convolution, auto_pad_sizes), VN_CASE(convolution, transposed_sizes),
             VN_CASE(convolution, infinite_weight_in_the_padding_is_open), VN_CASE(convolution, same_bits_for_every_thread_count),
             VN_CASE(convolution, variance_predicts_simulated_errors), VN_CASE(convolution, integer_and_requantised),
             VN_CASE(convolution, ties_leave_both_neighbours), VN_CASE(convolution, deformed_taps_read_between),
             VN_CASE(convolution, bad_shapes_are_named))
