/* Claims ML-LINEAR, ML-SCALE, ML-NORMAL, ML-KERNEL, ML-SVM, ML-PLATT, ML-VOTE, ML-1 to ML-5: f32 evaluations are inside, faults are not. */
#include <mpfr.h>

#include "oracle/ml_couple.h"
#include "oracle/ml_node.h"

enum { N = 6, F = 9, C = 3 };

static void fill(vn_rng_t *rng, float *x, int n, double scale) {
    for (int i = 0; i < n; ++i) x[i] = (float)(vn_rng_normal(rng) * scale);
}

static vn_value_t *matrix(vn_test_t *t, vn_dtype_t type, int rows, int columns, const float *x) {
    double wide[N * F];
    for (int i = 0; i < rows * columns; ++i) wide[i] = (double)x[i];
    return ml_matrix(t, type, rows, columns, wide);
}

#define FLOAT_LIST(attr, n, p) ML_LIST(attr, ML_FLOATS_KIND, n, p)

static float dot_f32(const float *x, const float *w, int n, bool back) {
    float s = 0;
    for (int k = 0; k < n; ++k) s += x[back ? n - 1 - k : k] * w[back ? n - 1 - k : k];
    return s;
}

/* Inside, and how near. */
static double inside(vn_test_t *t, const vn_ref_t *r, int64_t i, float got) {
    const double e = fabs((double)got - r->value[i]), room = fmax(r->bound[i], r->wide ? r->wide[i] : 0) + vn_ref_own(r, i);
    VN_ASSERT_LE(t, e, room);
    return room > 0 ? e / room : 0;
}

VN_TEST(linear, orders_and_transforms_are_inside) {
    static const char *const posts[] = {"NONE", "LOGISTIC", "SOFTMAX"};
    vn_rng_t rng = vn_test_rng(t);
    double tightest[3] = {0};
    for (int round = 0; round < 60 * vn_test_scale(t); ++round) {
        float x[N * F], w[C * F], b[C];
        fill(&rng, x, N * F, 2);
        fill(&rng, w, C * F, 1);
        fill(&rng, b, C, 1);
        const int post = round % 3;
        ml_node_t c = {.op = "LinearRegressor",
                       .n_in = 1,
                       .in = {matrix(t, VN_F32, N, F, x)},
                       .attrs = {FLOAT_LIST("coefficients", C * F, w), FLOAT_LIST("intercepts", C, b), ML_INT("targets", C),
                                 ML_TEXT("post_transform", posts[post])}};
        ml_run(t, &c);
        for (int i = 0; i < N; ++i) {
            float s[C], top = -INFINITY, sum = 0;
            for (int k = 0; k < C; ++k) {
                s[k] = dot_f32(x + i * F, w + k * F, F, round & 1) + b[k];
                top = fmaxf(top, s[k]);
            }
            for (int k = 0; k < C; ++k) sum += expf(s[k] - top);
            for (int k = 0; k < C; ++k) {
                const float y = post == 0 ? s[k] : post == 1 ? 1 / (1 + expf(-s[k])) : expf(s[k] - top) / sum;
                tightest[post] = fmax(tightest[post], inside(t, &c.out[0], i * C + k, y));
                if (post == 0) VN_ASSERT_GT(t, fabs((double)(y + 1e-3f) - c.out[0].value[i * C + k]), ml_room(&c.out[0], i * C + k));
            }
        }
        ml_free(&c);
    }
    for (int k = 0; k < 3; ++k) VN_ASSERT_GT(t, tightest[k], 0.01);
}

VN_TEST(linear, labels_within_the_error_are_either) {
    /* scores of the classes differ by 2^-26 of what f32 sums of this size may lose; then by far more */
    const float w[] = {1, 1, 1, -1, 1, 1, 1, -1};
    const double close[] = {3, 5, 7, 11, 3, 5, 7, 11};
    for (int far = 0; far < 2; ++far) {
        float v[8];
        memcpy(v, w, sizeof v);
        v[7] = far ? -1.5f : nextafterf(-1, 0);
        ml_node_t c = {.op = "LinearClassifier",
                       .n_in = 1,
                       .n_out = 2,
                       .in = {ml_matrix(t, VN_F32, 1, 4, close)},
                       .attrs = {FLOAT_LIST("coefficients", 8, v), ML_INTS("classlabels_ints", 20, 30)}};
        ml_run(t, &c);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), far ? 20 : 30);
        VN_ASSERT(t, far ? c.out[0].either == NULL : vn_tensor_get_i64(c.out[0].either, 0) == 20);
        ml_free(&c);
    }
}

VN_TEST(linear, one_row_of_coefficients) {
    ml_node_t c = {.op = "LinearClassifier",
                   .n_in = 1,
                   .n_out = 2,
                   .in = {ml_matrix(t, VN_F32, 2, 2, (double[]){1, 2, -3, 0.5})},
                   .attrs = {ML_FLOATS("coefficients", 0.5f, -0.125f), ML_FLOATS("intercepts", 0.25f), ML_INTS("classlabels_ints", 5, 7)}};
    ml_run(t, &c); /* scores 0.5 and -1.3125 */
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 7);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 1), 5);
    VN_ASSERT_DEQ(t, c.out[1].value[0], -0.5);
    VN_ASSERT_DEQ(t, c.out[1].value[1], 0.5);
    const vn_reading_t *other = ml_reading(&c.out[1], "one-minus");
    VN_ASSERT(t, other && vn_tensor_get_f64(other->value, 2) == 2.3125);
    vn_tensor_t *follows = NULL;
    VN_ASSERT_OK(t, vn_tensor_copy(other->value, &follows, NULL));
    VN_ASSERT(t, vn_reading_holds(other, follows));
    vn_tensor_set_f64(follows, 2, 2.3125 * (1 + 0x1p-22)); /* a rounding more */
    VN_ASSERT(t, vn_reading_holds(other, follows));
    vn_tensor_set_f64(follows, 2, 2.3135);
    VN_ASSERT(t, !vn_reading_holds(other, follows));
    vn_tensor_free(follows);
    ml_free(&c);
}

/* ---- probit ---- */

VN_TEST(probit, agrees_with_mpfr) {
    static const double p[] = {0x1p-149, 1e-30, 1e-9,     1e-4, 0.01, 0.1,  0.25,   0.4,        0.49,
                               0.499999, 0.5,   0.500001, 0.75, 0.9,  0.99, 0.9999, 1 - 0x1p-24};
    enum { COUNT = sizeof p / sizeof *p };
    ml_node_t c = {.op = "LinearRegressor",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F32, COUNT, 1, p)},
                   .attrs = {ML_FLOATS("coefficients", 1), ML_TEXT("post_transform", "PROBIT")}};
    ml_run(t, &c);
    mpfr_t y, phi, density, due;
    mpfr_inits2(300, y, phi, density, due, (mpfr_ptr)NULL);
    for (int i = 0; i < COUNT; ++i) {
        const double v = c.out[0].value[i];
        mpfr_set_d(y, v, MPFR_RNDN);
        mpfr_neg(phi, y, MPFR_RNDN);
        mpfr_set_d(density, 0.5, MPFR_RNDN);
        mpfr_sqrt(density, density, MPFR_RNDN);
        mpfr_mul(phi, phi, density, MPFR_RNDN);
        mpfr_erfc(phi, phi, MPFR_RNDN);
        mpfr_div_2ui(phi, phi, 1, MPFR_RNDN);
        mpfr_set_flt(due, (float)p[i], MPFR_RNDN);
        mpfr_sub(phi, phi, due, MPFR_RNDN); /* distance in probability; over the density: in y */
        mpfr_sqr(y, y, MPFR_RNDN);
        mpfr_div_2ui(y, y, 1, MPFR_RNDN);
        mpfr_exp(y, y, MPFR_RNDN);
        mpfr_mul(phi, phi, y, MPFR_RNDN);
        VN_ASSERT_LE(t, fabs(mpfr_get_d(phi, MPFR_RNDN)) * 2.5066282746310002, 0x1p-48 * fabs(v));
        const vn_reading_t *fit = ml_reading(&c.out[0], "probit-approximation");
        VN_ASSERT(t, fit != NULL);
        if (p[i] > 1e-9 && p[i] < 1 - 1e-6) VN_ASSERT_LE(t, fabs(fit->exact[i] - v), 5e-3 * fabs(v) + 1e-12);
    }
    mpfr_clears(y, phi, density, due, (mpfr_ptr)NULL);
    ml_free(&c);
}

VN_TEST(probit, outside_and_at_the_ends) {
    ml_node_t c = {.op = "LinearRegressor",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F32, 4, 1, (double[]){-0.5, 0, 1, 1.5})},
                   .attrs = {ML_FLOATS("coefficients", 1), ML_TEXT("post_transform", "PROBIT"), ML_INT("targets", 1)}};
    ml_run(t, &c);
    VN_ASSERT(t, isnan(c.out[0].value[0]) && isnan(c.out[0].value[3]) && c.out[0].value[1] == -INFINITY && c.out[0].value[2] == INFINITY);
    VN_ASSERT(t, !(c.out[0].flags[0] & VN_EL_VOID)); /* certainly no probability */
    VN_ASSERT(t, c.out[0].flags[2] & VN_EL_VOID);    /* within its rounding of one */
    ml_free(&c);
}

VN_TEST(softmax_zero, zeros_take_no_part) {
    /* classes by the rows of the identity: scores are the features themselves, up to one rounding each */
    const double x[] = {0, 1, 2, 0, 0, 0};
    ml_node_t c = {.op = "LinearClassifier",
                   .n_in = 1,
                   .n_out = 2,
                   .in = {ml_matrix(t, VN_F32, 2, 3, x)},
                   .attrs = {ML_FLOATS("coefficients", 1, 0, 0, 0, 1, 0, 0, 0, 1), ML_INTS("classlabels_ints", 0, 1, 2),
                             ML_TEXT("post_transform", "SOFTMAX_ZERO")}};
    ml_run(t, &c);
    const double p = 1 / (1 + exp(1.0));
    VN_ASSERT_LE(t, fabs(c.out[1].value[0]), 0);
    VN_ASSERT_LE(t, fabs(c.out[1].value[1] - p), 1e-15);
    VN_ASSERT_LE(t, fabs(c.out[1].value[2] - (1 - p)), 1e-15);
    for (int i = 3; i < 6; ++i) VN_ASSERT(t, c.out[1].flags[i] & VN_EL_VOID); /* nothing takes part: 0/0 */
    VN_ASSERT_LT(t, c.out[1].bound[1], 1e-5);
    ml_free(&c);
}

/* ---- Scaler, Normalizer ---- */

VN_TEST(scale, two_roundings) {
    vn_rng_t rng = vn_test_rng(t);
    float x[N * F], o[F], s[F];
    double tightest = 0;
    for (int round = 0; round < 20; ++round) {
        fill(&rng, x, N * F, 100);
        fill(&rng, o, F, 100);
        fill(&rng, s, F, 1);
        ml_node_t c = {.op = "Scaler",
                       .n_in = 1,
                       .in = {matrix(t, VN_F32, N, F, x)},
                       .attrs = {FLOAT_LIST("offset", F, o), FLOAT_LIST("scale", F, s)}};
        ml_run(t, &c);
        for (int i = 0; i < N * F; ++i) tightest = fmax(tightest, inside(t, &c.out[0], i, (x[i] - o[i % F]) * s[i % F]));
        ml_free(&c);
    }
    VN_ASSERT_GT(t, tightest, 0.5);
}

VN_TEST(scale, norms_and_their_readings) {
    vn_rng_t rng = vn_test_rng(t);
    static const char *const norms[] = {"MAX", "L1", "L2"}, *const readings[] = {"largest-magnitude", "signed-sum", "magnitudes"};
    for (int round = 0; round < 30 * vn_test_scale(t); ++round) {
        float x[N * F];
        const int k = round % 3;
        fill(&rng, x, N * F, round % 2 ? 1e-18 : 3);
        ml_node_t c = {.op = "Normalizer", .n_in = 1, .in = {matrix(t, VN_F32, N, F, x)}, .attrs = {ML_TEXT("norm", norms[k])}};
        ml_run(t, &c);
        VN_ASSERT(t, ml_reading(&c.out[0], readings[k]) != NULL);
        for (int i = 0; i < N; ++i) {
            float d = k ? 0 : -INFINITY;
            for (int f = 0; f < F; ++f) {
                const float v = x[i * F + f];
                d = k == 0 ? fmaxf(d, v) : k == 1 ? d + fabsf(v) : d + v * v;
            }
            if (k == 2) d = sqrtf(d);
            for (int f = 0; f < F; ++f) {
                const float y = x[i * F + f] / d;
                inside(t, &c.out[0], i * F + f, y);
                inside(t, &c.out[0], i * F + f, x[i * F + f] * (1 / d));
                if (round % 2 == 0) /* small squares underflow */
                    VN_ASSERT_GT(t, fabs((double)y * (1 + 0x1p-16) - c.out[0].value[i * F + f]), ml_room(&c.out[0], i * F + f));
            }
        }
        ml_free(&c);
    }
    ml_node_t zero = {.op = "Normalizer",
                      .n_in = 1,
                      .in = {ml_value(t, one_vector(t, VN_F32, 2, (double[]){0, -0.0}))},
                      .attrs = {ML_TEXT("norm", "L2")}};
    ml_run(t, &zero);
    VN_ASSERT(t, zero.out[0].value[0] == 0 && zero.out[0].rank == 1);
    ml_free(&zero);
}

/* ---- support vectors ---- */

static float kernel_f32(int kind, const float *x, const float *v, const float *p, bool back) {
    if (kind == 2) {
        float q = 0;
        for (int k = 0; k < F; ++k) q += (x[k] - v[k]) * (x[k] - v[k]);
        return expf(-p[0] * q);
    }
    const float d = dot_f32(x, v, F, back), z = p[0] * d + p[1];
    return kind == 0 ? d : kind == 1 ? powf(z, p[2]) : tanhf(z);
}

VN_TEST(svm, kernels_in_f32_are_inside) {
    static const char *const kernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    enum { SUPPORTS = 7 };
    vn_rng_t rng = vn_test_rng(t);
    double tightest[4] = {0};
    for (int round = 0; round < 80 * vn_test_scale(t); ++round) {
        float x[N * F], v[SUPPORTS * F], a[SUPPORTS], rho[1];
        const float p[] = {0.25f, 0.5f, (float)(1 + round / 4 % 4)};
        const int kind = round % 4;
        fill(&rng, x, N * F, 1);
        fill(&rng, v, SUPPORTS * F, 1);
        fill(&rng, a, SUPPORTS, 1);
        fill(&rng, rho, 1, 1);
        ml_node_t c = {.op = "SVMRegressor",
                       .n_in = 1,
                       .in = {matrix(t, VN_F32, N, F, x)},
                       .attrs = {FLOAT_LIST("coefficients", SUPPORTS, a), FLOAT_LIST("support_vectors", SUPPORTS * F, v),
                                 FLOAT_LIST("rho", 1, rho), FLOAT_LIST("kernel_params", 3, p), ML_TEXT("kernel_type", kernels[kind]),
                                 ML_INT("n_supports", SUPPORTS)}};
        ml_run(t, &c);
        for (int i = 0; i < N; ++i) {
            float s = rho[0], size = 1;
            for (int k = 0; k < SUPPORTS; ++k) {
                const float y = a[k] * kernel_f32(kind, x + i * F, v + k * F, p, round & 4);
                s += y;
                size += fabsf(y);
            }
            tightest[kind] = fmax(tightest[kind], inside(t, &c.out[0], i, s));
            VN_ASSERT_LT(t, c.out[0].bound[i], 2e-4 * (double)size * (kind == 1 ? 20 : 1)); /* a wrong kernel cannot hide */
        }
        ml_free(&c);
    }
    for (int k = 0; k < 4; ++k) VN_ASSERT_GT(t, tightest[k], 0.005);
}

VN_TEST(svm, votes_and_close_calls) {
    /* linear kernel, one vector a class, all kernels 1: pair scores rho0, 2 + rho1, rho2 */
    for (int close = 0; close < 2; ++close) {
        const float rho[] = {close ? 0x1p-26f : 1.0f, 1, 1};
        ml_node_t c = {.op = "SVMClassifier",
                       .n_in = 1,
                       .n_out = 2,
                       .in = {ml_matrix(t, VN_F32, 1, 1, (double[]){1})},
                       .attrs = {ML_FLOATS("coefficients", 1, -1, 1, 1, 1, -1), ML_FLOATS("support_vectors", 1, 1, 1),
                                 FLOAT_LIST("rho", 3, rho), ML_INTS("vectors_per_class", 1, 1, 1), ML_INTS("classlabels_ints", 4, 5, 6)}};
        ml_run(t, &c);
        for (int k = 0; k < 3; ++k) VN_ASSERT_DEQ(t, c.out[1].value[k], (double)rho[k] + (k == 1 ? 2 : 0));
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 4); /* wins against both */
        VN_ASSERT(t, close ? vn_tensor_get_i64(c.out[0].either, 0) == 5 : c.out[0].either == NULL);
        ml_free(&c);
    }
    ml_node_t c = {.op = "SVMRegressor",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F32, 3, 1, (double[]){2, -2, 0})},
                   .attrs = {ML_FLOATS("coefficients", 1), ML_FLOATS("support_vectors", 1), ML_FLOATS("rho", 0), ML_INT("n_supports", 1),
                             ML_INT("one_class", 1)}};
    ml_run(t, &c);
    for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), i ? -1 : 1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].either, 0), 1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].either, 2), 1);
    ml_free(&c);
}

/* ---- coupling ---- */

/* The iteration in f32, written down once more; k classes, r[i][j]. */
static void couple_f32(int k, const float r[4][4], float *p) {
    float q[4][4], qp[4];
    for (int i = 0; i < k; ++i) {
        p[i] = 1.0f / (float)k;
        q[i][i] = 0;
        for (int j = 0; j < k; ++j) {
            if (j == i) continue;
            q[i][i] += r[j][i] * r[j][i];
            q[i][j] = -r[j][i] * r[i][j];
        }
    }
    for (int round = 0; round < 100; ++round) {
        float pqp = 0, worst = 0;
        for (int i = 0; i < k; ++i) {
            qp[i] = 0;
            for (int j = 0; j < k; ++j) qp[i] += q[i][j] * p[j];
            pqp += p[i] * qp[i];
        }
        for (int i = 0; i < k; ++i) worst = fmaxf(worst, fabsf(qp[i] - pqp));
        if (worst < 0.005f / (float)k) return;
        for (int i = 0; i < k; ++i) {
            const float d = (pqp - qp[i]) / q[i][i];
            p[i] += d;
            pqp = (pqp + d * (d * q[i][i] + 2 * qp[i])) / (1 + d) / (1 + d);
            for (int j = 0; j < k; ++j) {
                qp[j] = (qp[j] + d * q[i][j]) / (1 + d);
                p[j] /= 1 + d;
            }
        }
    }
}

VN_TEST(svm, coupling_in_f32_is_inside) {
    vn_rng_t rng = vn_test_rng(t);
    int sharp = 0, runs = 0;
    for (int round = 0; round < 200 * vn_test_scale(t); ++round, ++runs) {
        const int k = 2 + round % 3;
        float r[4][4] = {{0}}, p[4];
        vn_ball_t balls[16], out[4], scratch[24];
        for (int i = 0; i < k; ++i)
            for (int j = i + 1; j < k; ++j) {
                r[i][j] = (float)(0.02 + 0.96 * vn_rng_uniform(&rng));
                r[j][i] = 1 - r[i][j];
            }
        for (int i = 0; i < k * k; ++i) balls[i] = (vn_ball_t){(double)r[i / k][i % k], 0};
        vn_couple(k, balls, 0x1p-24, out, scratch);
        couple_f32(k, r, p);
        double sum = 0;
        for (int i = 0; i < k; ++i) {
            VN_ASSERT_LE(t, fabs((double)p[i] - out[i].m), out[i].r);
            sum += out[i].m;
            sharp += out[i].r < 1e-3;
        }
        VN_ASSERT_LE(t, fabs(sum - 1), 1e-6);
    }
    VN_ASSERT_GT(t, sharp, runs);
}

VN_TEST(refused, models_that_lie) {
    struct {
        ml_node_t node;
        vn_status_t due;
        const char *says;
    } bad[] = {
        {{.op = "LinearRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2, 3)}}, VN_ERR_SHAPE, "3 coefficients for 2"},
        {{.op = "LinearRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_INT("targets", 2)}}, VN_ERR_SHAPE, "not 2 targets"},
        {{.op = "LinearRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_INT("targets", 0)}}, VN_ERR_RANGE, "targets is 0"},
        {{.op = "LinearRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("intercepts", 1, 2)}},
         VN_ERR_SHAPE,
         "2 intercepts"},
        {{.op = "LinearClassifier", .attrs = {ML_FLOATS("coefficients", 1, 2, 3, 4), ML_INTS("classlabels_ints", 1)}},
         VN_ERR_SHAPE,
         "1 labels for 2"},
        {{.op = "LinearClassifier", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_TEXT("post_transform", "SIGMOID")}},
         VN_ERR_RANGE,
         "'SIGMOID'"},
        {{.op = "SVMRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2)}}, VN_ERR_SHAPE, "rho"},
        {{.op = "SVMRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INT("n_supports", -1)}},
         VN_ERR_RANGE,
         "is -1"},
        {{.op = "SVMRegressor",
          .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INT("n_supports", 2), ML_FLOATS("support_vectors", 1)}},
         VN_ERR_SHAPE,
         "support_vectors has 1"},
        {{.op = "SVMRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INT("n_supports", 0x1p62)}},
         VN_ERR_SHAPE,
         ""},
        {{.op = "SVMRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_FLOATS("kernel_params", 1)}},
         VN_ERR_SHAPE,
         "kernel_params"},
        {{.op = "SVMRegressor", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_TEXT("kernel_type", "CUBIC")}},
         VN_ERR_RANGE,
         "'CUBIC'"},
        {{.op = "SVMClassifier", .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1)}}, VN_ERR_SHAPE, "no class labels"},
        {{.op = "SVMClassifier",
          .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INTS("classlabels_ints", 1, 2),
                    ML_INTS("vectors_per_class", 1, -1)}},
         VN_ERR_RANGE,
         "vectors_per_class[1] is -1"},
        {{.op = "SVMClassifier",
          .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INTS("classlabels_ints", 1, 2),
                    ML_INTS("vectors_per_class", 1)}},
         VN_ERR_SHAPE,
         "vectors_per_class has 1"},
        {{.op = "SVMClassifier",
          .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1, 2), ML_INTS("classlabels_ints", 1, 2),
                    ML_INTS("vectors_per_class", 1, 1), ML_FLOATS("support_vectors", 1, 2, 3, 4)}},
         VN_ERR_SHAPE,
         "rho has 2"},
        {{.op = "SVMClassifier",
          .attrs = {ML_FLOATS("coefficients", 1, 2), ML_FLOATS("rho", 1), ML_INTS("classlabels_ints", 1, 2), ML_FLOATS("prob_a", 1),
                    ML_INTS("vectors_per_class", 1, 1), ML_FLOATS("support_vectors", 1, 2, 3, 4)}},
         VN_ERR_SHAPE,
         "prob_b has 0"},
        {{.op = "Normalizer", .attrs = {ML_TEXT("norm", "L3")}}, VN_ERR_RANGE, "'L3'"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
        bad[k].node.n_in = 1;
        bad[k].node.n_out = 1;
        bad[k].node.in[0] = ml_matrix(t, VN_F32, 1, 2, (double[]){1, 2});
        VN_ASSERT_EQ(t, ml_try(t, &bad[k].node), bad[k].due);
        VN_ASSERT_HAS(t, bad[k].node.err.text, bad[k].says);
    }
}

VN_TEST(refused, allocation_faults) {
    const double x[] = {1, 0.25};
    ml_node_t c[] = {
        {.op = "SVMClassifier",
         .n_out = 2,
         .attrs = {ML_FLOATS("coefficients", 1, -1), ML_FLOATS("rho", 1), ML_INTS("classlabels_ints", 1, 2), ML_FLOATS("prob_a", 1),
                   ML_FLOATS("prob_b", 1), ML_INTS("vectors_per_class", 1, 1), ML_FLOATS("support_vectors", 1, 2, 3, 4)}},
        {.op = "LinearClassifier",
         .n_out = 2,
         .attrs = {ML_FLOATS("coefficients", 1, 2), ML_INTS("classlabels_ints", 1, 2), ML_TEXT("post_transform", "SOFTMAX_ZERO")}},
        {.op = "LinearRegressor", .attrs = {ML_FLOATS("coefficients", 0.25f, 0.5f), ML_TEXT("post_transform", "PROBIT")}},
        {.op = "Scaler", .attrs = {ML_FLOATS("scale", 1), ML_FLOATS("offset", 1)}},
        {.op = "Normalizer", .attrs = {ML_TEXT("norm", "L2")}}};
    for (size_t k = 0; k < sizeof c / sizeof *c; ++k) {
        c[k].n_in = 1;
        c[k].in[0] = ml_matrix(t, k % 2 ? VN_F64 : VN_F32, 1, 2, x);
        VN_ASSERT_GT(t, ml_faults(t, &c[k]), 4);
    }
}

VN_TEST_MAIN(VN_CASE(linear, orders_and_transforms_are_inside), VN_CASE(linear, labels_within_the_error_are_either),
             VN_CASE(linear, one_row_of_coefficients), VN_CASE(probit, agrees_with_mpfr), VN_CASE(probit, outside_and_at_the_ends),
             VN_CASE(softmax_zero, zeros_take_no_part), VN_CASE(scale, two_roundings), VN_CASE(scale, norms_and_their_readings),
             VN_CASE(svm, kernels_in_f32_are_inside), VN_CASE(svm, votes_and_close_calls), VN_CASE(svm, coupling_in_f32_is_inside),
             VN_CASE(refused, models_that_lie), VN_CASE(refused, allocation_faults))
