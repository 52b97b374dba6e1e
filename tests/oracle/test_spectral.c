/* Claims SPECTRAL-1 to SPECTRAL-4: transforms of smooth and prime lengths against direct sums, f32 executions, windows, mel bands. */
#include "oracle/fourier.h"
#include "oracle/one_node.h"
#include "oracle/simulate.h"

static const long double pi2 = 6.283185307179586476925286766559L;

VN_TEST(spectral, transforms_of_every_length) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 1; n <= 130; n = n < 20 ? n + 1 : n * 2 + n % 3) {
        double re[300], im[300], yr[300], yi[300], work[600], sum = 0;
        for (int i = 0; i < n; ++i) re[i] = vn_rng_normal(&rng), im[i] = vn_rng_normal(&rng), sum += fabs(re[i]) + fabs(im[i]);
        vn_fourier_t *f = vn_fourier_new(n);
        VN_ASSERT(t, f != NULL);
        for (int inverse = 0; inverse < 2; ++inverse) {
            vn_fourier_run(f, inverse, re, im, yr, yi, work);
            for (int k = 0; k < n; ++k) {
                long double a = 0, b = 0;
                for (int i = 0; i < n; ++i) {
                    const long double w = (inverse ? pi2 : -pi2) * (long double)(k * i % n) / n;
                    a += re[i] * cosl(w) - im[i] * sinl(w);
                    b += re[i] * sinl(w) + im[i] * cosl(w);
                }
                VN_ASSERT_LE(t, fabs((double)(yr[k] - a)), vn_fourier_gain(f) * 0x1p-53 * sum);
                VN_ASSERT_LE(t, fabs((double)(yi[k] - b)), vn_fourier_gain(f) * 0x1p-53 * sum);
            }
        }
        vn_fourier_free(f);
    }
}

VN_TEST(spectral, direct_f32_sums_are_inside) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0;
    for (int n = 2; n <= 64; n += 7) {
        double x[64];
        for (int i = 0; i < n; ++i) x[i] = sim(VN_FMT_F32, vn_rng_normal(&rng));
        one_node_t c = {.op = "DFT", .version = 20, .n_in = 1, .contract = "operand=f32,accumulator=f32", .want = VN_WANT_VARIANCE};
        c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){1, n, 1});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].count, 2 * n);
        for (int k = 0; k < n; ++k) {
            float a = 0, b = 0;
            for (int i = 0; i < n; ++i) {
                const double w = -6.283185307179586 * (k * i % n) / n;
                a += (float)x[i] * (float)cos(w);
                b += (float)x[i] * (float)sin(w);
            }
            worst = fmax(worst, fmax(sim_ratio(a, c.out[0].value[2 * k], c.out[0].bound[2 * k]),
                                     sim_ratio(b, c.out[0].value[2 * k + 1], c.out[0].bound[2 * k + 1])));
        }
        one_free(&c);
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.001);
}

VN_TEST(spectral, one_sided_and_back) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 5; n <= 6; ++n) {
        double x[6], half[8];
        for (int i = 0; i < n; ++i) x[i] = vn_rng_normal(&rng);
        one_node_t c = {.op = "DFT", .version = 20, .n_in = 1, .want = VN_WANT_BOUND, .attrs = {{"onesided", ONE_INT, 1, NULL}}};
        c.in[0] = one_tensor(t, VN_F64, 3, (int64_t[]){1, n, 1});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].dims[1], n / 2 + 1);
        for (int i = 0; i < 2 * (n / 2 + 1); ++i) half[i] = c.out[0].value[i];
        one_node_t d = {.op = "DFT",
                        .version = 20,
                        .n_in = 2,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"onesided", ONE_INT, 1, NULL}, {"inverse", ONE_INT, 1, NULL}}};
        d.in[0] = one_tensor(t, VN_F64, 3, (int64_t[]){1, n / 2 + 1, 2});
        vn_tensor_from_f64(d.in[0], half, VN_RNE, false);
        d.in[1] = one_scalar(t, VN_I64, n);
        one_run(t, &d);
        VN_ASSERT_EQ(t, d.out[0].count, n);
        for (int i = 0; i < n; ++i) VN_ASSERT_LE(t, fabs(d.out[0].value[i] - x[i]), 1e-14);
        one_free(&c);
        one_free(&d);
    }
}

VN_TEST(spectral, frames_of_a_signal) {
    enum { L = 20, N = 6, HOP = 5 };
    double x[L], w[N];
    for (int i = 0; i < L; ++i) x[i] = i * 0.5 - 3;
    for (int i = 0; i < N; ++i) w[i] = 1 + i;
    one_node_t c = {.op = "STFT", .version = 17, .n_in = 3, .want = VN_WANT_BOUND};
    c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){1, L, 1});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[1] = one_scalar(t, VN_I64, HOP);
    c.in[2] = one_vector(t, VN_F32, N, w);
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 3);
    VN_ASSERT_EQ(t, c.out[0].dims[2], N / 2 + 1);
    for (int f = 0; f < 3; ++f) {
        double dc = 0;
        for (int i = 0; i < N; ++i) dc += x[f * HOP + i] * w[i];
        VN_ASSERT_LE(t, fabs(c.out[0].value[f * (N / 2 + 1) * 2] - dc), 1e-13);
    }
    one_free(&c);
}

VN_TEST(spectral, windows) {
    static const char *const names[] = {"HannWindow", "HammingWindow", "BlackmanWindow"};
    for (int k = 0; k < 3; ++k)
        for (int periodic = 0; periodic < 2; ++periodic) {
            one_node_t c = {.op = names[k],
                            .version = 17,
                            .n_in = 1,
                            .contract = "operand=f32,accumulator=f32",
                            .want = VN_WANT_BOUND,
                            .attrs = {{"periodic", ONE_INT, periodic, NULL}}};
            c.in[0] = one_scalar(t, VN_I64, 50);
            one_run(t, &c);
            for (int i = 0; i < 50; ++i) {
                const long double w = pi2 * i / (periodic ? 50 : 49);
                const long double y = k == 0   ? 0.5L - 0.5L * cosl(w)
                                      : k == 1 ? 25.0L / 46 - 21.0L / 46 * cosl(w)
                                               : 0.42L - 0.5L * cosl(w) + 0.08L * cosl(2 * w);
                VN_ASSERT_LE(t, fabs((double)(y - c.out[0].value[i])), 1e-15);
                const float theta = 6.2831853f * (float)i / (periodic ? 50.0f : 49.0f);
                const float got = k == 0   ? 0.5f - 0.5f * cosf(theta)
                                  : k == 1 ? 0.54347826f - 0.45652174f * cosf(theta)
                                           : 0.42f - 0.5f * cosf(theta) + 0.08f * cosf(2 * theta);
                VN_ASSERT_LE(t, fabs(got - (double)y), c.out[0].bound[i]);
                VN_ASSERT_LE(t, c.out[0].bound[i], 1e-5);
            }
            one_free(&c);
        }
    one_node_t c = {.op = "HannWindow", .version = 17, .n_in = 1, .want = VN_WANT_BOUND, .attrs = {{"periodic", ONE_INT, 0, NULL}}};
    c.in[0] = one_scalar(t, VN_I64, 1);
    one_run(t, &c);
    VN_ASSERT(t, isnan(c.out[0].value[0]));
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "ones");
    one_free(&c);
}

VN_TEST(spectral, mel_bands_are_triangles) {
    one_node_t c = {.op = "MelWeightMatrix", .version = 17, .n_in = 5, .want = VN_WANT_BOUND};
    c.in[0] = one_scalar(t, VN_I64, 8);
    c.in[1] = one_scalar(t, VN_I64, 64);
    c.in[2] = one_scalar(t, VN_I64, 8000);
    c.in[3] = one_scalar(t, VN_F32, 0);
    c.in[4] = one_scalar(t, VN_F32, 4000);
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 33);
    for (int b = 0; b < 8; ++b) {
        double top = 0;
        for (int k = 0; k < 33; ++k) top = fmax(top, c.out[0].value[k * 8 + b]);
        VN_ASSERT_DEQ(t, top, 1);
    }
    one_free(&c);
}

VN_TEST_MAIN(VN_CASE(spectral, transforms_of_every_length), VN_CASE(spectral, direct_f32_sums_are_inside),
             VN_CASE(spectral, one_sided_and_back), VN_CASE(spectral, frames_of_a_signal), VN_CASE(spectral, windows),
             VN_CASE(spectral, mel_bands_are_triangles))
