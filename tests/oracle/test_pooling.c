/* test_pooling.c -- claims POOL-1 to POOL-8: pooling against its definition, simulated kernels, and what the standard leaves open. */
#include "sum_case.h"

/* ---- POOL-1 ---- */

/* An average as kernels form it: sum in an order, then division, reciprocal, or terms scaled first. */
static double average(vn_rng_t *rng, vn_format_t f, const double *x, int64_t n, double d, sc_order_t order, int form) {
    static double scaled[512], ones[512];
    const double r = sc_round(f, 1 / d, false);
    for (int64_t i = 0; i < n; ++i) {
        ones[i] = 1;
        scaled[i] = form == 2 ? sc_round(f, x[i] * r, false) : x[i];
    }
    const double s = sc_dot(rng, f, scaled, ones, n, order, true, false, 0, false);
    return form == 0 ? sc_round(f, s / d, false) : form == 1 ? sc_round(f, s * r, false) : s;
}

static void check_average(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, sc_data_t kind, bool include, bool ceil_mode, double *worst) {
    enum { H = 7, W = 9 };
    static double x[2 * H * W], window[64];
    const int64_t kernel[2] = {3, 4}, strides[2] = {2, 3}, pads[4] = {1, 2, 1, 1};
    sc_t c;
    sc_fill(rng, kind, x, 2 * H * W);
    sc_new(t, &c, "", "AveragePool", 11, "portable");
    sc_in(t, &c, type, SC_DIMS(1, 2, H, W), x);
    sc_ints(&c, "kernel_shape", 2, kernel);
    sc_ints(&c, "strides", 2, strides);
    sc_ints(&c, "pads", 4, pads);
    sc_int(&c, "count_include_pad", include);
    sc_int(&c, "ceil_mode", ceil_mode);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    VN_ASSERT_EQ(t, r->dims[2], 4);
    VN_ASSERT_EQ(t, r->dims[3], ceil_mode ? 4 : 3);
    const vn_format_t acc = type == VN_F64 ? VN_FMT_F64 : VN_FMT_F32, store = vn_format_of(type);
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t oh = i / r->dims[3] % r->dims[2], ow = i % r->dims[3], ch = i / r->dims[3] / r->dims[2];
        int64_t n = 0, inside = 0;
        long double sum = 0, magnitude = 0;
        for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 4; ++b) {
                const int64_t y = oh * 2 - 1 + a, z = ow * 3 - 2 + b;
                inside += y < H + 1 && z < W + 1;
                if (y < 0 || z < 0 || y >= H || z >= W) continue;
                window[n] = sc_get(&c, 0, (ch * H + y) * W + z);
                sum += window[n];
                magnitude += fabsl((long double)window[n++]);
            }
        const double d = (double)(include ? inside : n), y = (double)(sum / (long double)d);
        VN_ASSERT_LE(t, fabs(y - r->value[i]), 0x1p-52 * fabs(y) + 0x1p-62 * (double)magnitude);
        for (int order = 0; order < SC_ORDERS; ++order)
            for (int form = 0; form < 3; ++form) {
                const double v = sc_round(store, average(rng, acc, window, n, d, (sc_order_t)order, form), false);
                const double e = fabs((double)((long double)v - sum / (long double)d));
                VN_ASSERT_LE(t, e, r->bound[i] + 0x1p-62 * (double)magnitude);
                if (r->bound[i] > 0) *worst = fmax(*worst, e / r->bound[i]);
            }
        VN_ASSERT_LE(t, r->bound[i],
                     14 * vn_format_info(acc)->u * (double)magnitude / d * 1.01 +
                         (acc == store ? 0 : vn_format_info(store)->u * (fabs(y) * 1.01 + 1e-4)));
    }
    sc_free(&c);
}

VN_TEST(pooling, averages_lie_inside_in_every_form) {
    static const vn_dtype_t types[] = {VN_F32, VN_F16, VN_F64};
    vn_rng_t rng = vn_test_rng(t);
    for (int ty = 0; ty < 3; ++ty) {
        double worst = 0;
        for (int kind = 0; kind < SC_DATA; ++kind)
            for (int form = 0; form < 4; ++form)
                if (types[ty] != VN_F16 || kind != SC_WIDE) check_average(t, &rng, types[ty], (sc_data_t)kind, form & 1, form & 2, &worst);
        VN_ASSERT_GT(t, worst, 0.2);
    }
}

VN_TEST(pooling, exact_averages_demand_equality) {
    const double x[4] = {3, 8, -1, 6};
    sc_t c;
    sc_new(t, &c, "", "GlobalAveragePool", 1, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 2, 2), x);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    VN_ASSERT(t, r->value[0] == 4 && r->bound[0] == 0 && r->var[0] == 0);
    sc_free(&c);
    sc_new(t, &c, "", "GlobalAveragePool", 1, "portable"); /* a third is not dyadic */
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 3), x);
    VN_ASSERT_GT(t, sc_run(t, &c, VN_WANT_BOUND)->bound[0], 0);
    sc_free(&c);
}

VN_TEST(pooling, overhang_is_a_second_reading) {
    const double x[5] = {1, 2, 3, 4, 5};
    const int64_t kernel[1] = {3}, strides[1] = {2}, pads[2] = {0, 1};
    sc_t c;
    sc_new(t, &c, "", "AveragePool", 19, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 5), x);
    sc_ints(&c, "kernel_shape", 1, kernel);
    sc_ints(&c, "strides", 1, strides);
    sc_ints(&c, "pads", 2, pads);
    sc_int(&c, "ceil_mode", 1);
    sc_int(&c, "count_include_pad", 1);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->count, 3);
    VN_ASSERT_DEQ(t, r->value[2], 2.5); /* 5 and one zero of the padding; the window hangs over by one more */
    VN_ASSERT_EQ(t, r->n_readings, 1);
    VN_ASSERT_LE(t, fabs(vn_tensor_get_f64(r->readings[0].value, 2) - 5.0 / 3), 1e-7);
    sc_free(&c);
}

VN_TEST(pooling, average_variance) {
    static double x[3 * 400];
    vn_rng_t rng = vn_test_rng(t);
    double sum = 0;
    for (int run = 0; run < 10; ++run) {
        sc_t c;
        sc_fill(&rng, SC_NORMAL, x, 1200);
        sc_new(t, &c, "", "GlobalAveragePool", 1, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, 3, 400), x);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        for (int ch = 0; ch < 3; ++ch) {
            double row[400];
            for (int i = 0; i < 400; ++i) row[i] = sc_get(&c, 0, ch * 400 + i);
            const double e = average(&rng, VN_FMT_F32, row, 400, 400, SC_SEQ, 0) - r->value[ch];
            sum += e * e / r->var[ch] / 30;
        }
        sc_free(&c);
    }
    VN_ASSERT_LT(t, sum, 3);
    VN_ASSERT_GT(t, sum, 0.1);
}

/* ---- POOL-2 ---- */

VN_TEST(pooling, lp_norms_lie_inside) {
    enum { N = 12 };
    static double x[8 * N];
    vn_rng_t rng = vn_test_rng(t);
    for (int p = 1; p <= 4; ++p)
        for (int tiny = 0; tiny < 2; ++tiny) {
            sc_t c;
            sc_fill(&rng, SC_NORMAL, x, 8 * N);
            for (int i = 0; i < 8 * N; ++i) x[i] *= tiny ? 1e-21 : 1;
            sc_new(t, &c, "", "GlobalLpPool", 2, "portable");
            sc_in(t, &c, VN_F32, SC_DIMS(2, 4, N), x);
            sc_int(&c, "p", p);
            const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
            double worst = 0;
            for (int i = 0; i < 8; ++i) {
                float s = 0, squares = 0;
                long double exact = 0;
                for (int k = 0; k < N; ++k) {
                    const float m = fabsf((float)sc_get(&c, 0, i * N + k));
                    s += powf(m, (float)p);
                    squares += m * m;
                    exact += powl((long double)m, (long double)p);
                }
                exact = powl(exact, 1 / (long double)p);
                VN_ASSERT_LE(t, fabs((double)(exact - (long double)r->value[i] - (long double)r->lo[i])), r->own[i] + 1e-60);
                const double general = fabs((double)((long double)powf(s, 1 / (float)p) - exact)),
                             root = fabs((double)((long double)sqrtf(squares) - exact));
                VN_ASSERT_LE(t, general, r->wide ? r->wide[i] : r->bound[i]);
                if (p == 2) VN_ASSERT_LE(t, root, r->bound[i]);
                worst = fmax(worst, (p == 2 ? root : general) / r->bound[i]);
                if (!tiny) VN_ASSERT_LE(t, r->bound[i], 100 * 0x1p-24 * r->value[i]);
            }
            if (p < 3 && !tiny) VN_ASSERT_GT(t, worst, 0.01);
            sc_free(&c);
        }
}

/* ---- POOL-4 ---- */

VN_TEST(pooling, maxima_and_their_indices) {
    const double x[12] = {1, 5, 2, 5, -1, 0, 3, 3, 9, -2, 4, 7};
    const int64_t kernel[2] = {2, 2}, strides[2] = {1, 2};
    for (int storage = 0; storage < 2; ++storage) {
        sc_t c;
        sc_new(t, &c, "", "MaxPool", 12, "portable");
        c.node.n_outputs = 2;
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 3, 4), x);
        sc_ints(&c, "kernel_shape", 2, kernel);
        sc_ints(&c, "strides", 2, strides);
        sc_int(&c, "storage_order", storage);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND), *index = &c.out[1];
        static const double want[4] = {5, 5, 9, 7};
        static const int64_t rows[4] = {1, 3, 8, 11}, columns[4] = {3, 9, 2, 11};
        VN_ASSERT_EQ(t, r->count, 4);
        VN_ASSERT(t, r->demand_equal);
        for (int i = 0; i < 4; ++i) {
            VN_ASSERT_DEQ(t, r->value[i], want[i]);
            VN_ASSERT_EQ(t, vn_tensor_get_i64(index->tensor, i), storage ? columns[i] : rows[i]);
        }
        sc_free(&c);
    }
    const double y[6] = {2, 2, NAN, 1, 0.0, -0.0}; /* ties, NaN, zeros of both signs */
    const int64_t two[1] = {2};
    sc_t c;
    sc_new(t, &c, "", "MaxPool", 12, "portable");
    c.node.n_outputs = 2;
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 6), y);
    sc_ints(&c, "kernel_shape", 1, two);
    sc_ints(&c, "strides", 1, two);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND), *index = &c.out[1];
    VN_ASSERT_EQ(t, vn_tensor_get_i64(index->tensor, 0), 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(index->either, 0), 1);
    VN_ASSERT_DEQ(t, r->value[1], 1);
    VN_ASSERT(t, (r->flags[1] & VN_EL_NAN_OK) && !(r->flags[0] & VN_EL_NAN_OK));
    VN_ASSERT(t, r->flags[2] & VN_EL_ZERO_OK);
    sc_free(&c);
    const double z[4] = {-3, 7, -128, 127};
    sc_new(t, &c, "", "MaxPool", 12, "portable");
    sc_in(t, &c, VN_I8, SC_DIMS(1, 1, 4), z);
    sc_ints(&c, "kernel_shape", 1, two);
    sc_ints(&c, "strides", 1, two);
    r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT(t, vn_tensor_get_i64(r->tensor, 0) == 7 && vn_tensor_get_i64(r->tensor, 1) == 127);
    sc_free(&c);
}

VN_TEST(pooling, uncertain_maxima) {
    const double x[4] = {1, 1.25, 3, 0}, err[4] = {0.2, 0.1, 0.5, 0};
    const int64_t two[1] = {2};
    sc_t c;
    sc_new(t, &c, "", "MaxPool", 12, "portable");
    c.node.n_outputs = 2;
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 4), x);
    sc_ints(&c, "kernel_shape", 1, two);
    sc_ints(&c, "strides", 1, two);
    const vn_op_t *row = vn_registry_find("", "MaxPool", 12);
    const vn_contract_t contract = vn_contract_resolve(&c.contract, VN_F32);
    vn_arg_t in[1] = {{.t = c.in[0]->tensor, .err = (double *)(uintptr_t)err}};
    vn_eval_t e = {.model = &c.model,
                   .node = &c.node,
                   .version = 12,
                   .contract = &contract,
                   .want = VN_WANT_BOUND,
                   .n_in = 1,
                   .n_out = 2,
                   .in = in,
                   .out = c.out,
                   .err = &c.err};
    VN_ASSERT_OK_ERR(t, row->eval(&e), c.err);
    VN_ASSERT(t, c.out[0].bound[0] == 0.2 && c.out[0].bound[1] == 0.5);
    VN_ASSERT(t, c.out[1].flags[0] == VN_EL_VOID && c.out[1].flags[1] == 0); /* the second window has a clear winner */
    vn_free(in[0].value);
    sc_free(&c);
}

/* ---- POOL-5 ---- */

VN_TEST(pooling, unpooling_scatters) {
    const double x[4] = {1, 2, 3, 4}, index[4] = {5, 7, 13, 15}, wide[4] = {1, 1, 5, 5}, bad[4] = {5, 7, 13, 16};
    const int64_t two[2] = {2, 2};
    for (int form = 0; form < 3; ++form) {
        sc_t c;
        sc_new(t, &c, "", "MaxUnpool", 11, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 2, 2), x);
        sc_in(t, &c, VN_I64, SC_DIMS(1, 1, 2, 2), form == 2 ? bad : index);
        if (form == 1) sc_in(t, &c, VN_I64, SC_DIMS(4), wide);
        sc_ints(&c, "kernel_shape", 2, two);
        sc_ints(&c, "strides", 2, two);
        if (form == 2) {
            VN_ASSERT_EQ(t, sc_try(&c, VN_WANT_BOUND), VN_ERR_RANGE);
        } else {
            const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
            VN_ASSERT_EQ(t, r->count, form ? 25 : 16);
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, form ? 6 : 5), 1);
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, form ? 18 : 15), 4);
            VN_ASSERT_EQ(t, r->n_readings, form);
            if (form) VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->readings[0].value, 5), 1);
        }
        sc_free(&c);
    }
}

/* ---- POOL-7 ---- */

VN_TEST(pooling, roi_align_bounds_an_f32_kernel) {
    static double x[64];
    vn_rng_t rng = vn_test_rng(t);
    sc_fill(&rng, SC_NORMAL, x, 64);
    const double rois[4] = {0.7, 1.3, 6.1, 5.2}, batch[1] = {0};
    sc_t c;
    sc_new(t, &c, "", "RoiAlign", 16, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(1, 1, 8, 8), x);
    sc_in(t, &c, VN_F32, SC_DIMS(1, 4), rois);
    sc_in(t, &c, VN_I64, SC_DIMS(1), batch);
    sc_int(&c, "output_height", 2);
    sc_int(&c, "output_width", 3);
    sc_int(&c, "sampling_ratio", 2);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->count, 6);
    const float x0 = (float)rois[0] - 0.5f, y0 = (float)rois[1] - 0.5f, bw = ((float)rois[2] - 0.5f - x0) / 3,
                bh = ((float)rois[3] - 0.5f - y0) / 2;
    for (int i = 0; i < 6; ++i) {
        float sum = 0;
        for (int q = 0; q < 4; ++q) {
            const float y = y0 + (float)(i / 3) * bh + ((float)(q / 2) + 0.5f) * bh / 2,
                        z = x0 + (float)(i % 3) * bw + ((float)(q % 2) + 0.5f) * bw / 2;
            const int a = (int)y, b = (int)z;
            const float fy = y - (float)a, fz = z - (float)b;
            for (int k = 0; k < 4; ++k)
                sum += (k / 2 ? fy : 1 - fy) * (k % 2 ? fz : 1 - fz) * (float)sc_get(&c, 0, (a + k / 2) * 8 + b + k % 2);
        }
        VN_ASSERT_LE(t, fabs((double)(sum / 4) - r->value[i]), r->bound[i]);
        VN_ASSERT_LT(t, r->bound[i], 1e-4);
    }
    sc_free(&c);
}

/* ---- POOL-8 ---- */

VN_TEST(pooling, quantised_averages) {
    static double x[2 * 20];
    vn_rng_t rng = vn_test_rng(t);
    const double sx[1] = {0.02}, zx[1] = {100}, sy[1] = {0.013}, zy[1] = {120};
    for (int i = 0; i < 40; ++i) x[i] = (double)vn_rng_below(&rng, 256);
    for (int last = 0; last < 2; ++last) {
        sc_t c;
        sc_new(t, &c, "com.microsoft", "QLinearGlobalAveragePool", 1, "portable");
        if (last) sc_in(t, &c, VN_U8, SC_DIMS(1, 4, 5, 2), x);
        else sc_in(t, &c, VN_U8, SC_DIMS(1, 2, 4, 5), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sx);
        sc_in(t, &c, VN_U8, SC_DIMS(1), zx);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sy);
        sc_in(t, &c, VN_U8, SC_DIMS(1), zy);
        sc_int(&c, "channels_last", last);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_EQ(t, r->dims[last ? 3 : 1], 2);
        for (int ch = 0; ch < 2; ++ch) {
            double sum = 0;
            for (int i = 0; i < 20; ++i) sum += x[last ? i * 2 + ch : ch * 20 + i] - 100;
            const double v = sum / 20 * sc_get(&c, 1, 0) / sc_get(&c, 3, 0), code = fmin(fmax(rint(v) + 120, 0), 255);
            VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, ch), code);
            if (fabs(v - floor(v) - 0.5) > 1e-3) VN_ASSERT_EQ(t, vn_tensor_get_i64(r->either, ch), code);
        }
        sc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(pooling, averages_lie_inside_in_every_form), VN_CASE(pooling, exact_averages_demand_equality),
             VN_CASE(pooling, overhang_is_a_second_reading), VN_CASE(pooling, average_variance), VN_CASE(pooling, lp_norms_lie_inside),
             VN_CASE(pooling, maxima_and_their_indices), VN_CASE(pooling, uncertain_maxima), VN_CASE(pooling, unpooling_scatters),
             VN_CASE(pooling, roi_align_bounds_an_f32_kernel), VN_CASE(pooling, quantised_averages))
