/* Names for products of small integers and for codes read wrongly (claims NAME-INTEGER-1, NAME-CODE-1). All values are exact integers here. */
#include "judge/name_case.h"

#define OURS "saturate-i16 wrap-i16 clamp-u8 zero-point sign-extension nibble-order bias-scale channel-scale group-index"

#define SCALAR ((const int64_t[]){-1})
enum { M = 5, K = 50, N = 4 };
static double a[NC_MAX], b[NC_MAX], y[NC_MAX];

static void codes(vn_rng_t *rng, double *x, int64_t n, double lo, double hi) {
    for (int64_t i = 0; i < n; ++i) x[i] = lo + (double)vn_rng_below(rng, (uint64_t)(hi - lo + 1));
}
static double in_16(double x, int wrap) {
    if (!wrap) return fmin(fmax(x, -32768), 32767);
    const int64_t low = (int64_t)x & 0xffff;
    return (double)(low >= 0x8000 ? low - 0x10000 : low);
}
static double mod_256(double x) { return x < 0 ? x + 256 : x; }

typedef struct fault {
    const char *cause;
    int group, wrap;      /* partial sums in 16 bits */
    double clamp, za, zb; /* largest left code; zero points */
    bool unsigned_b;
} fault_t;

static void product(const fault_t *f) {
    for (int64_t i = 0; i < M * N; ++i) {
        double total = 0, part = 0, right = 0;
        for (int64_t k = 0; k < K; ++k) {
            const double x = fmin(a[i / N * K + k], f->clamp), w0 = b[k * N + i % N], w = f->unsigned_b ? mod_256(w0) : w0;
            part += x * w;
            right += (x - f->za) * (w - f->zb) - x * w;
            if (f->group && ((k + 1) % f->group == 0 || k + 1 == K)) part = in_16(part, f->wrap);
            if (!f->group || (k + 1) % f->group == 0 || k + 1 == K) {
                total += part;
                part = 0;
            }
        }
        y[i] = total + right;
    }
}

static void integer_case(vn_test_t *t, jc_t *c, vn_rng_t *rng, double za, double zb) {
    codes(rng, a, M * K, 0, 255);
    codes(rng, b, K * N, -128, 127);
    jc_new(t, c, "ieee");
    jc_in(t, c, VN_U8, JC_DIMS(M, K), a);
    jc_in(t, c, VN_I8, JC_DIMS(K, N), b);
    jc_in(t, c, VN_U8, SCALAR, &za);
    jc_in(t, c, VN_I8, SCALAR, &zb);
    jc_op(t, c, "MatMulInteger", 10, 1);
    jc_oracle(t, c);
}

VN_TEST(quant, products_of_integers) {
    vn_rng_t rng = vn_test_rng(t);
    const double za = 130, zb = -3;
    const fault_t faults[] = {
        {"saturate-i16", 2, 0, 255, za, zb, false},
        {"wrap-i16", 2, 1, 255, za, zb, false},
        {"wrap-i16", K, 1, 255, za, zb, false},
        {"clamp-u8", 0, 0, 127, za, zb, false},
        {"zero-point-sign", 0, 0, 255, za - 256, zb, false},
        {"zero-point-sign", 0, 0, 255, za, -zb, false},
        {"zero-point-sign", 0, 0, 255, za, zb, true},
        {"zero-point-ignored", 0, 0, 255, 0, zb, false},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        jc_t c;
        integer_case(t, &c, &rng, za, zb);
        product(&faults[i]);
        VN_ASSERT_CAUSE(t, &c, y, faults[i].cause);
        const fault_t none = {"", 0, 0, 255, za, zb, false};
        product(&none);
        for (int64_t k = 0; k < M * N; ++k) y[k] += (double)vn_rng_below(&rng, 7) - 3 + (k == 0 ? 7 : 0);
        VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
        jc_free(&c);
    }
}

/* QLinearConv of u8[1,2,6] by i8[3,2,3], padding 1, per-channel scales and a bias. */
enum { L = 12, MAPS = 3 };
static const double xs = 0.5, ys = 6, zx = 120, zy = 128, ws[MAPS] = {0.0625, 0.03125, 0.125}, zw[MAPS] = {0, 0, 0},
                    bias[MAPS] = {900, -700, 400};

typedef struct qfault {
    const char *cause;
    double padding, clamp, bias_scale;
    bool bias_unscaled, first_scale;
} qfault_t;

static void qlinear(const qfault_t *f) {
    for (int64_t i = 0; i < MAPS * L; ++i) {
        const int64_t m = i / L;
        double s = 0;
        for (int64_t k = 0; k < 6; ++k) {
            const int64_t h = i % L + k % 3 - 1;
            s += ((h < 0 || h >= L ? f->padding : fmin(a[k / 3 * L + h], f->clamp)) - zx) * b[m * 6 + k];
        }
        const double g = xs * ws[f->first_scale ? 0 : m] / ys;
        y[i] = fmin(fmax(rint(s * g + (f->bias_unscaled ? bias[m] / 64 : f->bias_scale * bias[m] * g)) + zy, 0), 255);
    }
}

VN_TEST(quant, requantised_convolutions) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    codes(&rng, a, 2 * L, 0, 255);
    codes(&rng, b, MAPS * 6, -60, 60);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_U8, JC_DIMS(1, 2, L), a);
    jc_in(t, &c, VN_F32, SCALAR, &xs);
    jc_in(t, &c, VN_U8, SCALAR, &zx);
    jc_in(t, &c, VN_I8, JC_DIMS(MAPS, 2, 3), b);
    jc_in(t, &c, VN_F32, JC_DIMS(MAPS), ws);
    jc_in(t, &c, VN_I8, JC_DIMS(MAPS), zw);
    jc_in(t, &c, VN_F32, SCALAR, &ys);
    jc_in(t, &c, VN_U8, SCALAR, &zy);
    jc_in(t, &c, VN_I32, JC_DIMS(MAPS), bias);
    jc_op(t, &c, "QLinearConv", 10, 1);
    VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "pads", (const int64_t[]){1, 1}, 2, NULL));
    jc_oracle(t, &c);
    const qfault_t faults[] = {
        {"zero-point-pad", 0, 255, 1, false, false}, {"clamp-u8", zx, 127, 1, false, false},     {"bias-missing", zx, 255, 0, false, false},
        {"bias-twice", zx, 255, 2, false, false},    {"bias-scale", zx, 255, 0.5, false, false}, {"bias-scale", zx, 255, 1, true, false},
        {"channel-scale", zx, 255, 1, false, true},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        qlinear(&faults[i]);
        VN_ASSERT_CAUSE(t, &c, y, faults[i].cause);
    }
    const qfault_t none = {"", zx, 255, 1, false, false};
    qlinear(&none);
    for (int64_t i = 0; i < MAPS * L; i += 2) y[i] = fmin(255, y[i] + 3);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* DequantizeLinear of [R, 32] in groups of 8. */
enum { R = 4, W = 32, B = 8, G = W / B };

VN_TEST(quant, scales_of_other_groups) {
    vn_rng_t rng = vn_test_rng(t);
    double scale[R * G], zero[R * G];
    jc_t c;
    codes(&rng, a, R * W, 0, 255);
    codes(&rng, zero, R * G, 90, 160);
    for (int64_t i = 0; i < R * G; ++i) scale[i] = (float)(0.1 + fabs(vn_rng_normal(&rng)));
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_U8, JC_DIMS(R, W), a);
    jc_in(t, &c, VN_F32, JC_DIMS(R, G), scale);
    jc_in(t, &c, VN_U8, JC_DIMS(R, G), zero);
    jc_op(t, &c, "DequantizeLinear", 21, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "block_size", B, NULL));
    jc_oracle(t, &c);
    for (int fault = 0; fault < 6; ++fault) {
        const char *cause = fault == 4 ? "zero-point-ignored" : fault == 5 ? "zero-point-sign" : "group-index";
        for (int64_t i = 0; i < R * W; ++i) {
            const int64_t row = i / W, g = i % W / B, own = row * G + g;
            const int64_t s = fault == 0   ? row * G + (g + 1) % G       /* the next scale */
                              : fault == 1 ? row * G + (i % W) / 4 % G   /* groups of 4, round again */
                              : fault == 2 ? row * G + (i % W) / 16      /* groups of 16 */
                              : fault == 3 ? (row + 1) % R * G + (g ^ 1) /* no rule of the table: another row, the other of a pair */
                                           : own;
            const double z = fault == 0 ? zero[own] : fault == 4 ? 0 : fault == 5 ? -zero[own] : zero[s];
            y[i] = (a[i] - z) * scale[s];
        }
        VN_ASSERT_CAUSE(t, &c, y, cause);
    }
    for (int64_t i = 0; i < R * W; ++i) y[i] = (a[i] - zero[i / B]) * (i % 3 ? scale[i / B] : 0.37f);
    VN_ASSERT_CAUSE(t, &c, y, "stale-buffer");
    for (int64_t i = 0; i < R * W; ++i) y[i] = (a[i] - zero[i / B]) * scale[i / B] + 0.1 * vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(quant, packed_codes) {
    vn_rng_t rng = vn_test_rng(t);
    for (int is_signed = 0; is_signed < 2; ++is_signed) {
        double scale[R];
        jc_t c;
        codes(&rng, a, R * W, is_signed ? -8 : 0, is_signed ? 7 : 15);
        for (int64_t i = 0; i < R; ++i) scale[i] = (float)(0.1 + fabs(vn_rng_normal(&rng)));
        jc_new(t, &c, "ieee");
        jc_in(t, &c, is_signed ? VN_I4 : VN_U4, JC_DIMS(R, W), a);
        jc_in(t, &c, VN_F32, JC_DIMS(R), scale);
        jc_op(t, &c, "DequantizeLinear", 21, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "axis", 0, NULL));
        jc_oracle(t, &c);
        for (int64_t i = 0; i < R * W; ++i) y[i] = a[i ^ 1] * scale[i / W];
        VN_ASSERT_CAUSE(t, &c, y, "nibble-order");
        for (int64_t i = 0; i < R * W; ++i) y[i] = (is_signed ? a[i] < 0 ? a[i] + 16 : a[i] : a[i] > 7 ? a[i] - 16 : a[i]) * scale[i / W];
        VN_ASSERT_CAUSE(t, &c, y, "sign-extension");
        jc_free(&c);
    }
}

VN_TEST(quant, quantised_numbers) {
    vn_rng_t rng = vn_test_rng(t);
    const double scale = 0.25, zero = 9;
    jc_t c;
    nc_fill(&rng, a, R * W, 30);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(R, W), a);
    jc_in(t, &c, VN_F32, SCALAR, &scale);
    jc_in(t, &c, VN_I8, SCALAR, &zero);
    jc_op(t, &c, "QuantizeLinear", 21, 1);
    jc_oracle(t, &c);
    for (int64_t i = 0; i < R * W; ++i) y[i] = fmin(fmax(rint(a[i] / scale), -128), 127);
    VN_ASSERT_CAUSE(t, &c, y, "zero-point-ignored");
    for (int64_t i = 0; i < R * W; ++i) y[i] = (double)(int8_t)(uint8_t)((int64_t)(rint(a[i] / scale) + zero) & 255);
    VN_ASSERT_CAUSE(t, &c, y, "wrap-i8");
    for (int64_t i = 0; i < R * W; ++i) y[i] = fmin(fmax(rint(a[i] / scale) + zero + (double)vn_rng_below(&rng, 9) - 4, -128), 127);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS " wrap-i8");
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(quant, products_of_integers), VN_CASE(quant, requantised_convolutions), VN_CASE(quant, scales_of_other_groups),
             VN_CASE(quant, packed_codes), VN_CASE(quant, quantised_numbers))
