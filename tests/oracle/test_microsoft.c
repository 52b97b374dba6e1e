/* test_microsoft.c -- claims MS-1 to MS-11: f32 kernels of several forms stay within the windows, the windows are narrow, exact rows equal integer
 * twins, shapes without data agree with those of the run, and hostile nodes are refused with a text. ONNX Runtime's own results:
 * test_microsoft_ort.py. */
#include "sum_case.h"

static const char ms[] = "com.microsoft";

static void codes(vn_rng_t *rng, vn_dtype_t type, double *x, int n) {
    for (int i = 0; i < n; ++i) x[i] = (double)vn_rng_below(rng, 256) - (type == VN_I8 ? 128 : 0);
}

static double scale(vn_rng_t *rng, double low, double high) { return (double)(float)exp2(low + (high - low) * vn_rng_uniform(rng)); }

static double clamp(vn_dtype_t type, double code) {
    const double lo = type == VN_I8 ? -128 : 0;
    return fmin(fmax(code, lo), lo + 255);
}

/* The code is one of the two that the oracle allows; counts those with two. */
static void allowed(vn_test_t *t, const vn_ref_t *r, int64_t i, double code, int *open) {
    const int64_t first = vn_tensor_get_i64(r->tensor, i), second = r->either ? vn_tensor_get_i64(r->either, i) : first;
    if ((int64_t)code != second) VN_ASSERT_EQ(t, code, first);
    *open += first != second;
}

/* The row's `infer`, shown only types, shapes and 32- or 64-bit integers, says what the run gave. */
static void shapes_agree(vn_test_t *t, sc_t *c) {
    const vn_op_t *row = vn_registry_find(ms, c->node.op, 1);
    vn_tensor_t bare[SC_MAX];
    vn_arg_t in[SC_MAX] = {0};
    vn_ref_t out[2] = {0};
    vn_error_t err = {0};
    for (int k = 0; k < c->node.n_inputs; ++k) {
        if (!c->in[k]) continue;
        bare[k] = *c->in[k]->tensor;
        if (bare[k].dtype != VN_I64 && bare[k].dtype != VN_I32) bare[k].data = NULL;
        in[k].t = &bare[k];
    }
    vn_eval_t e = {.node = &c->node,
                   .version = 1,
                   .contract = &c->contract,
                   .n_in = c->node.n_inputs,
                   .n_out = c->node.n_outputs,
                   .in = in,
                   .out = out,
                   .err = &err};
    VN_ASSERT(t, row && row->infer);
    VN_ASSERT_OK_ERR(t, row->infer(&e), err);
    for (int k = 0; k < c->node.n_outputs; ++k) {
        VN_ASSERT_EQ(t, out[k].dtype, c->out[k].dtype);
        VN_ASSERT_EQ(t, out[k].rank, c->out[k].rank);
        for (int d = 0; d < out[k].rank; ++d) VN_ASSERT_EQ(t, out[k].dims[d], c->out[k].dims[d]);
        vn_ref_free(&out[k]);
    }
}

/* ---- MS-2, MS-3 ---- */

enum { N = 600 };

typedef struct pair {
    vn_dtype_t type;
    float sa, sb, sc, za, zb, zc;
} pair_t;

/* Four f32 kernels: dequantise, add, divide; the same with a reciprocal; everything folded into two factors and a constant; that with fma. */
static double add_kernel(const pair_t *p, float a, float b, int form) {
    const float ra = p->sa / p->sc, rb = p->sb / p->sc;
    float v;
    if (form < 2) {
        const float sum = (a - p->za) * p->sa + (b - p->zb) * p->sb;
        v = form ? sum * (1 / p->sc) : sum / p->sc;
        return clamp(p->type, rintf(v) + p->zc);
    }
    const float constant = p->zc - (ra * p->za + rb * p->zb);
    v = form == 2 ? ra * a + (rb * b + constant) : fmaf(ra, a, fmaf(rb, b, constant));
    return clamp(p->type, rintf(v));
}

static double mul_kernel(const pair_t *p, float a, float b, int form) {
    const float product = (a - p->za) * (b - p->zb), all = p->sa * p->sb / p->sc;
    const float v = form == 0 ? product * all : form == 1 ? ((a - p->za) * p->sa) * ((b - p->zb) * p->sb) / p->sc : product * all + p->zc;
    return clamp(p->type, form < 2 ? rintf(v) + p->zc : rintf(v));
}

static void run_pair(vn_test_t *t, vn_rng_t *rng, bool product, bool grid, int *open, int *total) {
    static double a[N], b[N];
    const vn_dtype_t type = vn_rng_below(rng, 2) ? VN_I8 : VN_U8;
    double sa[1], sb[1], sy[1], za[1], zb[1], zy[1];
    sc_t c;
    sc_new(t, &c, ms, product ? "QLinearMul" : "QLinearAdd", 1, "portable");
    codes(rng, type, a, N);
    codes(rng, type, b, N);
    codes(rng, type, za, 1);
    codes(rng, type, zb, 1);
    codes(rng, type, zy, 1);
    sa[0] = grid ? 0.125 : scale(rng, -7, -2);
    sb[0] = grid ? 0.25 : scale(rng, -7, -2);
    sy[0] = grid ? 0.5 : scale(rng, -5, 0);
    const double *in[] = {a, sa, za, b, sb, zb, sy, zy};
    for (int k = 0; k < 8; ++k)
        sc_in(t, &c, in[k] == sa || in[k] == sb || in[k] == sy ? VN_F32 : type, k == 0 || k == 3 ? SC_DIMS(N) : SC_DIMS(1), in[k]);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->dtype, type);
    const pair_t p = {type, (float)sa[0], (float)sb[0], (float)sy[0], (float)za[0], (float)zb[0], (float)zy[0]};
    for (int i = 0; i < N; ++i) {
        const int forms = product ? 3 : 4;
        for (int f = 0; f < forms; ++f) {
            int once = 0;
            allowed(t, r, i, product ? mul_kernel(&p, (float)a[i], (float)b[i], f) : add_kernel(&p, (float)a[i], (float)b[i], f), &once);
            *open += f == 0 && once;
        }
        ++*total;
    }
    shapes_agree(t, &c);
    sc_free(&c);
}

VN_TEST(microsoft, sums_and_products_of_codes_in_every_form) {
    vn_rng_t rng = vn_test_rng(t);
    int open = 0, total = 0, ties = 0, grid = 0;
    for (int k = 0; k < 24; ++k) run_pair(t, &rng, k & 1, false, &open, &total);
    VN_ASSERT_LT(t, open, total / 200); /* sharp: few elements have a choice */
    for (int k = 0; k < 8; ++k) run_pair(t, &rng, k & 1, true, &ties, &grid);
    VN_ASSERT_GT(t, ties, grid / 50); /* on a grid of quarters every tie is one */
}

/* ---- MS-4, MS-5 ---- */

VN_TEST(microsoft, functions_of_codes) {
    vn_rng_t rng = vn_test_rng(t);
    double x[256];
    for (int k = 0; k < 12; ++k) {
        const vn_dtype_t type = k & 1 ? VN_I8 : VN_U8;
        const bool leaky = k & 2;
        double sx[1] = {scale(&rng, -7, -1)}, sy[1] = {k < 6 ? 1.0 / 256 : scale(&rng, -8, -3)}, zx[1], zy[1];
        const float alpha = 0.3f;
        for (int i = 0; i < 256; ++i) x[i] = i - (type == VN_I8 ? 128 : 0);
        codes(&rng, type, zx, 1);
        codes(&rng, type, zy, 1);
        sc_t c;
        sc_new(t, &c, ms, leaky ? "QLinearLeakyRelu" : "QLinearSigmoid", 1, "portable");
        if (leaky) sc_float(&c, "alpha", alpha);
        sc_in(t, &c, type, SC_DIMS(256), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sx);
        sc_in(t, &c, type, SC_DIMS(1), zx);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sy);
        sc_in(t, &c, type, SC_DIMS(1), zy);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        int open = 0;
        for (int i = 0; i < 256; ++i) {
            const float v = ((float)x[i] - (float)zx[0]) * (float)sx[0];
            const float f = leaky ? (v < 0 ? alpha * v : v) : 1 / (1 + expf(-v));
            allowed(t, r, i, clamp(type, rintf(f / (float)sy[0]) + zy[0]), &open);
            allowed(t, r, i, clamp(type, rintf(f * (1 / (float)sy[0])) + zy[0]), &open);
        }
        VN_ASSERT_LT(t, open, 20);
        shapes_agree(t, &c);
        sc_free(&c);
    }
}

VN_TEST(microsoft, codes_of_another_scale) {
    double a[6] = {0, 50, 255, 3, 128, 7}, b[2] = {200, 10}, yes[6] = {1, 0, 1, 1, 0, 0};
    double s1[1] = {0.5}, s2[1] = {0.25}, z1[1] = {100}, z2[1] = {20};
    sc_t c;
    sc_new(t, &c, ms, "QLinearConcat", 1, "portable");
    sc_int(&c, "axis", 1);
    sc_in(t, &c, VN_F32, SC_DIMS(1), s1);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z1);
    sc_in(t, &c, VN_U8, SC_DIMS(2, 3), a); /* same scale and zero point: unchanged */
    sc_in(t, &c, VN_F32, SC_DIMS(1), s1);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z1);
    sc_in(t, &c, VN_U8, SC_DIMS(2, 1), b); /* (code - 20) / 2 + 100 */
    sc_in(t, &c, VN_F32, SC_DIMS(1), s2);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z2);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->dims[1], 4);
    for (int i = 0; i < 2; ++i) {
        for (int k = 0; k < 3; ++k) VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, 4 * i + k), a[3 * i + k]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, 4 * i + 3), (b[i] - 20) / 2 + 100);
    }
    shapes_agree(t, &c);
    sc_free(&c);
    sc_new(t, &c, ms, "QLinearWhere", 1, "portable");
    sc_in(t, &c, VN_BOOL, SC_DIMS(2, 3), yes);
    sc_in(t, &c, VN_U8, SC_DIMS(2, 3), a);
    sc_in(t, &c, VN_F32, SC_DIMS(1), s1);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z1);
    sc_in(t, &c, VN_U8, SC_DIMS(2, 1), b);
    sc_in(t, &c, VN_F32, SC_DIMS(1), s2);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z2);
    sc_in(t, &c, VN_F32, SC_DIMS(1), s1);
    sc_in(t, &c, VN_U8, SC_DIMS(1), z1);
    r = sc_run(t, &c, VN_WANT_BOUND);
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, i), yes[i] ? a[i] : (b[i / 3] - 20) / 2 + 100);
    shapes_agree(t, &c);
    sc_free(&c);
}

/* ---- MS-6, MS-7 ---- */

VN_TEST(microsoft, reductions_of_codes) {
    enum { ROWS = 8, LONG = 50 };
    vn_rng_t rng = vn_test_rng(t);
    static double x[ROWS * LONG];
    for (int k = 0; k < 8; ++k) {
        const vn_dtype_t type = k & 1 ? VN_I8 : VN_U8;
        const bool mean = k & 2;
        const int64_t axes[1] = {1};
        double sx[1] = {scale(&rng, -6, -2)}, sy[1] = {mean ? scale(&rng, -6, -2) : 1.0 / 256}, zx[1], zy[1];
        codes(&rng, type, x, ROWS * LONG);
        codes(&rng, type, zx, 1);
        if (mean) codes(&rng, type, zy, 1);
        else zy[0] = type == VN_I8 ? -128 : 0;
        sc_t c;
        sc_new(t, &c, ms, mean ? "QLinearReduceMean" : "QLinearSoftmax", 1, "portable");
        if (mean) sc_ints(&c, "axes", 1, axes);
        if (mean) sc_int(&c, "keepdims", 0);
        else sc_int(&c, "opset", 13);
        sc_in(t, &c, type, SC_DIMS(ROWS, LONG), x);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sx);
        sc_in(t, &c, type, SC_DIMS(1), zx);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sy);
        sc_in(t, &c, type, SC_DIMS(1), zy);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_EQ(t, r->rank, mean ? 1 : 2);
        int open = 0;
        for (int i = 0; i < ROWS; ++i) {
            float max = -INFINITY, sum = 0, back = 0, v[LONG], w[LONG];
            for (int j = 0; j < LONG; ++j) v[j] = ((float)x[i * LONG + j] - (float)zx[0]) * (float)sx[0], max = fmaxf(max, v[j]);
            for (int j = 0; j < LONG; ++j) w[j] = mean ? v[j] : expf(v[j] - max);
            for (int j = 0; j < LONG; ++j) sum += w[j], back += w[LONG - 1 - j];
            if (mean) {
                allowed(t, r, i, clamp(type, rintf(sum / LONG / (float)sy[0]) + zy[0]), &open);
                allowed(t, r, i, clamp(type, rintf(back * (1.0f / LONG) / (float)sy[0]) + zy[0]), &open);
            }
            for (int j = 0; j < LONG && !mean; ++j) {
                allowed(t, r, i * LONG + j, clamp(type, rintf(w[j] / sum / (float)sy[0]) + zy[0]), &open);
                allowed(t, r, i * LONG + j, clamp(type, rintf(w[j] * (1 / back) / (float)sy[0]) + zy[0]), &open);
            }
        }
        VN_ASSERT_LT(t, open, 20);
        shapes_agree(t, &c);
        sc_free(&c);
    }
}

/* ---- MS-8, MS-9 ---- */

VN_TEST(microsoft, integer_products) {
    enum { M = 4, K = 33, C = 5 };
    vn_rng_t rng = vn_test_rng(t);
    static double a[M * K], b[K * C], zb[C], sb[C], bias[C];
    for (int k = 0; k < 8; ++k) {
        const bool ta = k & 1, tb = k & 2, coded = k & 4;
        double sa[1] = {scale(&rng, -6, -3)}, za[1] = {117}, sy[1] = {2.5}, zy[1] = {130};
        codes(&rng, VN_U8, a, M * K);
        codes(&rng, VN_I8, b, K * C);
        for (int i = 0; i < C; ++i) zb[i] = i - 2, sb[i] = scale(&rng, -6, -3), bias[i] = 1000.0 * i - 2000;
        sc_t c;
        sc_new(t, &c, ms, "QGemm", 1, "portable");
        sc_int(&c, "transA", ta);
        sc_int(&c, "transB", tb);
        sc_float(&c, "alpha", 1.25f);
        sc_in(t, &c, VN_U8, ta ? SC_DIMS(K, M) : SC_DIMS(M, K), a);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sa);
        sc_in(t, &c, VN_U8, SC_DIMS(1), za);
        sc_in(t, &c, VN_I8, tb ? SC_DIMS(C, K) : SC_DIMS(K, C), b);
        sc_in(t, &c, VN_F32, SC_DIMS(C), sb);
        sc_in(t, &c, VN_I8, SC_DIMS(C), zb);
        sc_in(t, &c, VN_I32, SC_DIMS(C), bias);
        if (coded) sc_in(t, &c, VN_F32, SC_DIMS(1), sy);
        if (coded) sc_in(t, &c, VN_U8, SC_DIMS(1), zy);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        int open = 0;
        for (int i = 0; i < M * C; ++i) {
            int64_t acc = (int64_t)bias[i % C];
            for (int j = 0; j < K; ++j)
                acc += (int64_t)((a[ta ? j * M + i / C : i / C * K + j] - za[0]) * (b[tb ? i % C * K + j : j * C + i % C] - zb[i % C]));
            const float factor = 1.25f * (float)sa[0] * (float)sb[i % C];
            if (coded) {
                allowed(t, r, i, clamp(VN_U8, rintf((float)acc * (factor / (float)sy[0])) + zy[0]), &open);
                continue;
            }
            const double exact = (double)acc * 1.25 * sa[0] * sb[i % C];
            VN_ASSERT_LE(t, fabs(r->value[i] - exact), 0x1p-51 * fabs(exact));
            VN_ASSERT_LE(t, fabs((double)((float)acc * factor) - exact), r->bound[i]);
            VN_ASSERT_LE(t, r->bound[i], 0x1p-21 * fabs(exact) + 0x1p-100); /* tight: a few roundings */
        }
        VN_ASSERT_LT(t, open, 3);
        shapes_agree(t, &c);
        sc_free(&c);
    }
    const double big[2] = {-32768, 32767}, other[2] = {-32768, 32767};
    sc_t c;
    sc_new(t, &c, ms, "MatMulInteger16", 1, "portable");
    sc_in(t, &c, VN_I16, SC_DIMS(1, 2), big);
    sc_in(t, &c, VN_I16, SC_DIMS(2, 1), other);
    const int64_t sum = INT64_C(32768) * 32768 + INT64_C(32767) * 32767;
    VN_ASSERT_EQ(t, vn_tensor_get_i64(sc_run(t, &c, VN_WANT_BOUND)->tensor, 0), (int32_t)(uint32_t)sum);
    shapes_agree(t, &c);
    sc_free(&c);
}

/* ---- MS-10 ---- */

VN_TEST(microsoft, gathered_blocks_are_exact) {
    enum { ROWS = 3, LONG = 40, BLOCK = 16, BLOCKS = 3 };
    vn_rng_t rng = vn_test_rng(t);
    double data[ROWS * LONG], bytes[ROWS * LONG / 2], zeros[ROWS * 2], scales[ROWS * BLOCKS];
    const double index[4] = {2, -3, 3, 0};
    for (int form = 0; form < 3; ++form) { /* i4; nibbles in bytes; those with zero points */
        const bool packed = form > 0, given = form == 2;
        for (int i = 0; i < ROWS * LONG; ++i) data[i] = (double)vn_rng_below(&rng, 16) - (packed ? 0 : 8);
        for (int i = 0; i < ROWS * LONG / 2; ++i) bytes[i] = data[2 * i] + 16 * data[2 * i + 1];
        for (int i = 0; i < ROWS * BLOCKS; ++i) scales[i] = (double)(float)vn_rng_normal(&rng);
        codes(&rng, VN_U8, zeros, ROWS * 2);
        sc_t c;
        sc_new(t, &c, ms, "GatherBlockQuantized", 1, "portable");
        sc_int(&c, "block_size", BLOCK);
        if (packed) sc_in(t, &c, VN_U8, SC_DIMS(ROWS, LONG / 2), bytes);
        else sc_in(t, &c, VN_I4, SC_DIMS(ROWS, LONG), data);
        sc_in(t, &c, VN_I64, SC_DIMS(4), index);
        sc_in(t, &c, VN_F32, SC_DIMS(ROWS, BLOCKS), scales);
        if (given) sc_in(t, &c, VN_U8, SC_DIMS(ROWS, 2), zeros);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT(t, r->demand_equal);
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < LONG; ++j) {
                const int row = (int)index[i] < 0 ? (int)index[i] + ROWS : (int)index[i], block = j / BLOCK;
                float want = 0; /* outside: zeros */
                if (row < ROWS) {
                    const int byte = (int)zeros[row * 2 + block / 2], zero = given ? byte >> (block % 2 * 4) & 15 : packed ? 8 : 0;
                    want = ((float)data[row * LONG + j] - (float)zero) * (float)scales[row * BLOCKS + block];
                }
                VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, i * LONG + j), (double)want);
            }
        shapes_agree(t, &c);
        sc_free(&c);
    }
}

/* ---- MS-13 ---- */

/* Gauss-Jordan with partial pivoting in f32. */
static void invert_f32(int n, const double *a, float *x) {
    float m[12][24];
    for (int i = 0; i < n; ++i)
        for (int c = 0; c < 2 * n; ++c) m[i][c] = c < n ? (float)a[i * n + c] : c - n == i;
    for (int k = 0; k < n; ++k) {
        int best = k;
        for (int i = k; i < n; ++i)
            if (fabsf(m[i][k]) > fabsf(m[best][k])) best = i;
        for (int c = 0; c < 2 * n; ++c) {
            const float t = m[k][c];
            m[k][c] = m[best][c];
            m[best][c] = t;
        }
        for (int i = k + 1; i < n; ++i) {
            const float l = m[i][k] / m[k][k];
            for (int c = k; c < 2 * n; ++c) m[i][c] -= l * m[k][c];
        }
    }
    for (int k = n - 1; k >= 0; --k)
        for (int c = n; c < 2 * n; ++c) {
            float s = m[k][c];
            for (int i = k + 1; i < n; ++i) s -= m[k][i] * x[i * n + c - n];
            x[k * n + c - n] = s / m[k][k];
        }
}

VN_TEST(microsoft, inverses_of_matrices) {
    vn_rng_t rng = vn_test_rng(t);
    double a[144], worst = 0, deviation = 0;
    int64_t elements = 0;
    for (int k = 0; k < 60; ++k) {
        const int n = 2 + (int)vn_rng_below(&rng, 11);
        float x[144];
        for (int i = 0; i < n * n; ++i) a[i] = (double)(float)vn_rng_normal(&rng);
        sc_t c;
        sc_new(t, &c, ms, "Inverse", 1, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(n, n), a);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        invert_f32(n, a, x);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
                double product = 0; /* A X = I, to f64 */
                for (int p = 0; p < n; ++p) product += a[i * n + p] * r->value[p * n + j];
                double size = 0;
                for (int p = 0; p < n; ++p) size += fabs(a[i * n + p] * r->value[p * n + j]);
                VN_ASSERT_LE(t, fabs(product - (i == j)), 16 * n * 0x1p-53 * (size + 1));
                const double b = r->bound[i * n + j], e = fabs((double)x[i * n + j] - r->value[i * n + j]);
                if (!isfinite(b)) continue;
                VN_ASSERT_LE(t, e, b);
                worst = fmax(worst, e / b);
                deviation += e * e / r->var[i * n + j];
                ++elements;
            }
        shapes_agree(t, &c);
        sc_free(&c);
    }
    VN_ASSERT_GT(t, elements, 1500);
    VN_ASSERT_GT(t, worst, 1.0 / 40);                              /* not vacuous */
    VN_ASSERT_LT(t, sqrt(deviation / (double)elements), 3);        /* the variance model is not beaten */
    VN_ASSERT_GT(t, sqrt(deviation / (double)elements), 1.0 / 50); /* nor far too wide */
    const double singular[4] = {1, 2, 2, 4}, tied[4] = {1, 1, 1, 2};
    sc_t c;
    sc_new(t, &c, ms, "Inverse", 1, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 2), singular);
    VN_ASSERT(t, sc_run(t, &c, VN_WANT_BOUND)->flags[0] & VN_EL_VOID);
    shapes_agree(t, &c);
    sc_free(&c);
    sc_new(t, &c, ms, "Inverse", 1, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 2), tied);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_DEQ(t, r->value[0], 2.0);
    VN_ASSERT_LT(t, r->bound[0], 0x1p-14);
    shapes_agree(t, &c);
    sc_free(&c);
}

/* ---- MS-1 ---- */

VN_TEST(microsoft, standard_operators_seen_from_other_operands) {
    const double start[1] = {3}, limit[1] = {7}, axis[1] = {-1}, x[6] = {2, 1, 1, 3, 4, 3}, pads[4] = {0, 1, 0, 0}, rows[4] = {1, 2, 3, 4};
    sc_t c;
    sc_new(t, &c, ms, "Range", 1, "portable");
    sc_in(t, &c, VN_I64, SC_DIMS(1), start);
    sc_in(t, &c, VN_I64, SC_DIMS(1), limit);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->count, 4);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, 3), 6);
    shapes_agree(t, &c);
    sc_free(&c);
    sc_new(t, &c, ms, "ExpandDims", 1, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 3), x);
    vn_value_free(c.in[c.node.n_inputs = 1]);
    vn_tensor_t *number;
    VN_ASSERT_OK(t, vn_tensor_new(VN_I32, 0, NULL, &number, NULL));
    vn_tensor_set_i64(number, 0, (int64_t)axis[0]);
    c.in[c.node.n_inputs++] = vn_value_tensor(number);
    r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->rank, 3);
    VN_ASSERT_EQ(t, r->dims[2], 1);
    shapes_agree(t, &c);
    sc_free(&c);
    sc_new(t, &c, ms, "Pad", 1, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 2), rows);
    sc_in(t, &c, VN_I64, SC_DIMS(1, 4), pads);
    r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->dims[1], 3);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, 3), 0.0);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, 4), 3.0);
    shapes_agree(t, &c);
    sc_free(&c);
    sc_new(t, &c, ms, "Unique", 1, "portable");
    c.node.n_outputs = 2;
    sc_in(t, &c, VN_F32, SC_DIMS(6), x);
    r = sc_run(t, &c, VN_WANT_BOUND);
    const double unique[4] = {2, 1, 3, 4}, place[6] = {0, 1, 1, 2, 3, 2};
    VN_ASSERT_EQ(t, r->count, 4);
    for (int i = 0; i < 4; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(r->tensor, i), unique[i]);
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, i), place[i]);
    sc_free(&c);
}

/* Channels last: the same codes as the standard's operator gives on the transposed image. */
VN_TEST(microsoft, images_with_channels_last) {
    enum { H = 5, W = 4, IN = 2, OUT = 3 };
    vn_rng_t rng = vn_test_rng(t);
    double last[H * W * IN], first[IN * H * W], w[OUT * IN * 3 * 2];
    const double sx[1] = {0.05}, zx[1] = {120}, sw[1] = {0.02}, zw[1] = {3}, sy[1] = {0.6}, zy[1] = {99};
    const int64_t kernel[2] = {3, 2}, pads[4] = {1, 0, 1, 1};
    codes(&rng, VN_U8, last, H * W * IN);
    codes(&rng, VN_U8, w, OUT * IN * 6);
    for (int i = 0; i < H * W; ++i)
        for (int k = 0; k < IN; ++k) first[k * H * W + i] = last[i * IN + k];
    sc_t c[2];
    const vn_ref_t *r[2];
    for (int pool = 0; pool < 2; ++pool) {
        for (int k = 0; k < 2; ++k) {
            sc_new(t, &c[k], k ? "" : ms, !pool ? "QLinearConv" : k ? "MaxPool" : "NhwcMaxPool", k ? 12 : 1, "portable");
            sc_ints(&c[k], "kernel_shape", 2, kernel);
            sc_ints(&c[k], "pads", 4, pads);
            if (!k && !pool) sc_int(&c[k], "channels_last", 1);
            sc_in(t, &c[k], VN_U8, k ? SC_DIMS(1, IN, H, W) : SC_DIMS(1, H, W, IN), k ? first : last);
            for (int i = 0; i < 7 && !pool; ++i) {
                const double *p[] = {sx, zx, w, sw, zw, sy, zy};
                sc_in(t, &c[k], i == 1 || i == 2 || i == 4 || i == 6 ? VN_U8 : VN_F32, i == 2 ? SC_DIMS(OUT, IN, 3, 2) : SC_DIMS(1), p[i]);
            }
            r[k] = sc_run(t, &c[k], VN_WANT_BOUND);
        }
        const int64_t channels = pool ? IN : OUT, size = r[1]->count / channels;
        VN_ASSERT_EQ(t, r[0]->count, r[1]->count);
        VN_ASSERT_EQ(t, r[0]->dims[3], channels);
        for (int64_t i = 0; i < size; ++i)
            for (int64_t k = 0; k < channels; ++k)
                VN_ASSERT_EQ(t, vn_tensor_get_i64(r[0]->tensor, i * channels + k), vn_tensor_get_i64(r[1]->tensor, k * size + i));
        shapes_agree(t, &c[0]);
        sc_free(&c[0]);
        sc_free(&c[1]);
    }
}

/* ---- refusals ---- */

/* Every row of the domain on nodes without sense: any number of operands of any type and shape. A status and a text, never a crash. */
VN_TEST(microsoft, hostile_nodes_are_refused) {
    static const vn_dtype_t types[] = {VN_U8, VN_I8, VN_F32, VN_F16, VN_I32, VN_I64, VN_BOOL, VN_I4, VN_F64};
    const vn_op_info_t *ops;
    const int n = vn_oracle_ops(&ops);
    vn_rng_t rng = vn_test_rng(t);
    double x[64];
    int rows = 0;
    for (int o = 0; o < n; ++o) {
        if (strcmp(ops[o].domain, ms)) continue;
        ++rows;
        for (int trial = 0; trial < 24; ++trial) {
            sc_t c;
            sc_new(t, &c, ms, ops[o].name, 1, "portable");
            sc_int(&c, "num_heads", (int64_t)vn_rng_below(&rng, 3));
            sc_int(&c, "axis", (int64_t)vn_rng_below(&rng, 5) - 2);
            sc_int(&c, "kv_num_heads", 1);
            if (vn_rng_below(&rng, 2)) sc_int(&c, "opset", 13);
            if (vn_rng_below(&rng, 2)) sc_int(&c, "channels_last", 1);
            const int inputs = (int)vn_rng_below(&rng, SC_MAX + 1);
            for (int k = 0; k < inputs; ++k) {
                for (int i = 0; i < 64; ++i) x[i] = (double)vn_rng_below(&rng, 4);
                int64_t dims[4] = {-1, -1, -1, -1};
                const int rank = (int)vn_rng_below(&rng, 4);
                for (int d = 0; d < rank; ++d) dims[d] = (int64_t)vn_rng_below(&rng, 4);
                if (vn_rng_below(&rng, 6) == 0) sc_absent(&c);
                else sc_in(t, &c, types[vn_rng_below(&rng, sizeof types / sizeof *types)], dims, x);
            }
            const vn_status_t s = sc_try(&c, VN_WANT_VARIANCE);
            if (s != VN_OK) VN_ASSERT(t, strlen(c.err.text) > 10);
            sc_free(&c);
        }
    }
    VN_ASSERT_GE(t, rows, 45);
}

VN_TEST(microsoft, failed_allocations_leave_nothing) {
    double a[12] = {1, 2, 3, 250, 5, 6, 7, 8, 9, 10, 11, 12}, s[1] = {0.3}, z[1] = {3};
    int good = 0;
    for (int64_t at = 1; at < 60 && !good; ++at) {
        sc_t c;
        sc_new(t, &c, ms, "QLinearSoftmax", 1, "portable");
        sc_int(&c, "opset", 13);
        sc_in(t, &c, VN_U8, SC_DIMS(3, 4), a);
        sc_in(t, &c, VN_F32, SC_DIMS(1), s);
        sc_in(t, &c, VN_U8, SC_DIMS(1), z);
        sc_in(t, &c, VN_F32, SC_DIMS(1), s);
        sc_in(t, &c, VN_U8, SC_DIMS(1), z);
        vn_alloc_fail_at(at);
        const vn_status_t status = sc_try(&c, VN_WANT_BOUND);
        vn_alloc_fail_at(0);
        if (status != VN_OK) VN_ASSERT_EQ(t, status, VN_ERR_NOMEM);
        good = status == VN_OK;
        sc_free(&c);
    }
    VN_ASSERT(t, good);
}

VN_TEST_MAIN(VN_CASE(microsoft, sums_and_products_of_codes_in_every_form), VN_CASE(microsoft, functions_of_codes),
             VN_CASE(microsoft, codes_of_another_scale), VN_CASE(microsoft, reductions_of_codes), VN_CASE(microsoft, integer_products),
             VN_CASE(microsoft, gathered_blocks_are_exact), VN_CASE(microsoft, inverses_of_matrices),
             VN_CASE(microsoft, standard_operators_seen_from_other_operands), VN_CASE(microsoft, images_with_channels_last),
             VN_CASE(microsoft, hostile_nodes_are_refused), VN_CASE(microsoft, failed_allocations_leave_nothing))
