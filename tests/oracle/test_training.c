/* Claims TRAIN-1 to TRAIN-4: Adagrad, Adam and Momentum against MPFR, and f32 and f64 kernels in several forms inside the bound. */
#include <mpfr.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

#define DOMAIN "ai.onnx.preview.training"
enum { BITS = 400, N = 24 };

typedef enum algorithm { ADAGRAD, ADAM, STANDARD, NESTEROV, ALGORITHMS } algorithm_t;
typedef struct setting {
    algorithm_t algorithm;
    double norm, post, alpha, beta, epsilon, decay, rate; /* members of f32 */
    int64_t count;
} setting_t;

static const char *const names[] = {"Adagrad", "Adam", "Momentum", "Momentum"};
static int states(algorithm_t a) { return a == ADAM ? 2 : 1; }

/* ---- the pseudo-code in any arithmetic: one stack of numbers, one rounding after each operation ---- */

typedef struct machine {
    vn_format_t f; /* NONE: MPFR */
    int form;      /* kernels only: 0 as written, 1 fused, 2 another association */
} machine_t;

static double simulated(const machine_t *m, const setting_t *s, double x, double g, const double *state, double *out) {
    const vn_format_t f = m->f;
#define R(v) sim(f, v)
#define MAD(a, b, c) (m->form == 1 ? R(fma(a, b, c)) : R(R((a) * (b)) + (c)))
    const double gr = s->norm == 0 ? g : MAD(s->norm, x, g);
    double step, v = 0, h = 0;
    if (s->algorithm == ADAGRAD) {
        const double r = R(s->rate / R(1 + R((double)s->count * s->decay)));
        h = MAD(gr, gr, state[0]);
        const double a = R(R(sqrt(h)) + s->epsilon);
        step = m->form == 2 ? R(r * R(gr / a)) : R(R(r * gr) / a);
        out[1] = h;
        return out[0] = R(x - step);
    }
    if (s->algorithm == ADAM) {
        const double ra = R(1 - s->alpha), rb = R(1 - s->beta), gg = R(gr * gr);
        v = m->form == 2 ? R(state[0] + R(ra * R(gr - state[0]))) : MAD(ra, gr, R(s->alpha * state[0]));
        h = m->form == 2 ? R(R(s->beta * state[1]) + R(R(rb * gr) * gr)) : MAD(rb, gg, R(s->beta * state[1]));
        const double d = R(R(sqrt(h)) + s->epsilon);
        double r = s->rate;
        if (s->count > 0) {
            double pa = 1, pb = 1;
            for (int64_t k = 0; k < s->count && m->form == 2; ++k) pa = R(pa * s->alpha), pb = R(pb * s->beta);
            if (m->form != 2) pa = R(pow(s->alpha, (double)s->count)), pb = R(pow(s->beta, (double)s->count));
            r = R(R(r * R(sqrt(R(1 - pb)))) / R(1 - pa));
        }
        step = m->form == 2 ? R(r * R(v / d)) : R(R(r * v) / d);
        out[1] = v;
        out[2] = h;
        const double fresh = R(x - step);
        return out[0] = s->post == 0 ? fresh : R(R(1 - s->post) * fresh);
    }
    const double fresh = s->count > 0 ? R(s->beta * gr) : gr;
    v = m->form == 1 ? R(fma(s->alpha, state[0], fresh)) : R(R(s->alpha * state[0]) + fresh);
    const double direction = s->algorithm == NESTEROV ? MAD(s->alpha, v, gr) : v;
    out[1] = v;
    return out[0] = m->form == 1 ? R(fma(-s->rate, direction, x)) : R(x - R(s->rate * direction));
#undef R
#undef MAD
}

/* The same in 400 bits. */
static void exact(const setting_t *s, double x, double g, const double *state, mpfr_t *out) {
    mpfr_t gr, t, u, v;
    mpfr_inits2(BITS, gr, t, u, v, (mpfr_ptr)NULL);
    mpfr_set_d(gr, x, MPFR_RNDN);
    mpfr_mul_d(gr, gr, s->norm, MPFR_RNDN);
    mpfr_add_d(gr, gr, g, MPFR_RNDN);
    if (s->algorithm == ADAGRAD) {
        mpfr_sqr(out[1], gr, MPFR_RNDN);
        mpfr_add_d(out[1], out[1], state[0], MPFR_RNDN);
        mpfr_sqrt(t, out[1], MPFR_RNDN);
        mpfr_add_d(t, t, s->epsilon, MPFR_RNDN);
        mpfr_set_d(u, s->decay, MPFR_RNDN);
        mpfr_mul_si(u, u, (long)s->count, MPFR_RNDN);
        mpfr_add_si(u, u, 1, MPFR_RNDN);
        mpfr_d_div(u, s->rate, u, MPFR_RNDN);
        mpfr_mul(u, u, gr, MPFR_RNDN);
        mpfr_div(u, u, t, MPFR_RNDN);
        mpfr_d_sub(out[0], x, u, MPFR_RNDN);
    } else if (s->algorithm == ADAM) {
        mpfr_set_d(t, s->alpha, MPFR_RNDN);
        mpfr_si_sub(u, 1, t, MPFR_RNDN);
        mpfr_mul_d(t, t, state[0], MPFR_RNDN);
        mpfr_mul(u, u, gr, MPFR_RNDN);
        mpfr_add(out[1], t, u, MPFR_RNDN);
        mpfr_set_d(t, s->beta, MPFR_RNDN);
        mpfr_si_sub(u, 1, t, MPFR_RNDN);
        mpfr_mul_d(t, t, state[1], MPFR_RNDN);
        mpfr_mul(u, u, gr, MPFR_RNDN);
        mpfr_mul(u, u, gr, MPFR_RNDN);
        mpfr_add(out[2], t, u, MPFR_RNDN);
        mpfr_sqrt(t, out[2], MPFR_RNDN);
        mpfr_add_d(t, t, s->epsilon, MPFR_RNDN);
        mpfr_set_d(v, s->rate, MPFR_RNDN);
        if (s->count > 0) {
            mpfr_set_d(u, s->beta, MPFR_RNDN);
            mpfr_pow_si(u, u, (long)s->count, MPFR_RNDN);
            mpfr_si_sub(u, 1, u, MPFR_RNDN);
            mpfr_sqrt(u, u, MPFR_RNDN);
            mpfr_mul(v, v, u, MPFR_RNDN);
            mpfr_set_d(u, s->alpha, MPFR_RNDN);
            mpfr_pow_si(u, u, (long)s->count, MPFR_RNDN);
            mpfr_si_sub(u, 1, u, MPFR_RNDN);
            mpfr_div(v, v, u, MPFR_RNDN);
        }
        mpfr_mul(v, v, out[1], MPFR_RNDN);
        mpfr_div(v, v, t, MPFR_RNDN);
        mpfr_d_sub(out[0], x, v, MPFR_RNDN);
        mpfr_set_d(u, s->post, MPFR_RNDN);
        mpfr_si_sub(u, 1, u, MPFR_RNDN);
        mpfr_mul(out[0], out[0], u, MPFR_RNDN);
    } else {
        mpfr_set(t, gr, MPFR_RNDN);
        if (s->count > 0) mpfr_mul_d(t, t, s->beta, MPFR_RNDN);
        mpfr_set_d(u, state[0], MPFR_RNDN);
        mpfr_mul_d(u, u, s->alpha, MPFR_RNDN);
        mpfr_add(out[1], t, u, MPFR_RNDN);
        mpfr_set(t, out[1], MPFR_RNDN);
        if (s->algorithm == NESTEROV) {
            mpfr_mul_d(t, t, s->alpha, MPFR_RNDN);
            mpfr_add(t, t, gr, MPFR_RNDN);
        }
        mpfr_mul_d(t, t, s->rate, MPFR_RNDN);
        mpfr_d_sub(out[0], x, t, MPFR_RNDN);
    }
    mpfr_clears(gr, t, u, v, (mpfr_ptr)NULL);
}

/* ---- the operator: two tensors of N and of 3 elements ---- */

static void open_node(vn_test_t *t, one_node_t *c, const setting_t *s, vn_dtype_t type, vn_rng_t *rng) {
    const int64_t sizes[] = {N, 3};
    const int groups = 2 + states(s->algorithm);
    *c = (one_node_t){.domain = DOMAIN, .op = names[s->algorithm], .version = 1, .n_in = 2 + 2 * groups, .want = VN_WANT_VARIANCE};
    c->n_in = 2 + groups; /* one tensor: the test of two is `several_tensors` */
    c->n_out = groups - 1;
    c->in[0] = one_scalar(t, type, s->rate);
    c->in[1] = one_scalar(t, VN_I64, (double)s->count);
    for (int k = 0; k < groups; ++k) {
        c->in[2 + k] = one_tensor(t, type, 1, sizes);
        for (int64_t i = 0; i < N; ++i) {
            double v = vn_rng_normal(rng) * ldexp(1, (int)vn_rng_below(rng, 8) - 4);
            if (k == groups - 1 && s->algorithm <= ADAM) v = fabs(v); /* accumulated squares */
            vn_tensor_set_f64(c->in[2 + k], i, type == VN_F32 ? (float)v : v);
        }
    }
    int a = 0;
    c->attrs[a++] = (one_attr_t){"norm_coefficient", ONE_FLOAT, s->norm, NULL};
    if (s->algorithm != ADAGRAD) c->attrs[a++] = (one_attr_t){"alpha", ONE_FLOAT, s->alpha, NULL};
    if (s->algorithm != ADAGRAD) c->attrs[a++] = (one_attr_t){"beta", ONE_FLOAT, s->beta, NULL};
    if (s->algorithm == ADAM) c->attrs[a++] = (one_attr_t){"norm_coefficient_post", ONE_FLOAT, s->post, NULL};
    if (s->algorithm <= ADAM) c->attrs[a++] = (one_attr_t){"epsilon", ONE_FLOAT, s->epsilon, NULL};
    if (s->algorithm == ADAGRAD) c->attrs[a++] = (one_attr_t){"decay_factor", ONE_FLOAT, s->decay, NULL};
    if (s->algorithm > ADAM) c->attrs[a++] = (one_attr_t){"mode", ONE_TEXT, 0, s->algorithm == NESTEROV ? "nesterov" : "standard"};
}

static setting_t setting(vn_rng_t *rng, algorithm_t a, int round) {
    static const int64_t counts[] = {0, 1, 2, 50, 1000};
    return (setting_t){.algorithm = a,
                       .norm = round % 2 ? (double)(float)0.01f : 0,
                       .post = round % 3 == 1 ? (double)0.1f : 0,
                       .alpha = round % 4 == 3 ? (double)0.1f : (double)0.9f,
                       .beta = (double)0.999f,
                       .epsilon = (double)1e-6f,
                       .decay = round % 2 ? (double)0.1f : 0,
                       .rate = (float)(0.01 + vn_rng_uniform(rng)),
                       .count = counts[round % 5]};
}

VN_TEST(training, value_bound_and_forms) {
    vn_rng_t rng = vn_test_rng(t);
    double best = 0;
    mpfr_t want[3], off;
    mpfr_inits2(BITS, want[0], want[1], want[2], off, (mpfr_ptr)NULL);
    for (int round = 0; round < 20 * vn_test_scale(t); ++round)
        for (algorithm_t a = 0; a < ALGORITHMS; ++a) {
            const vn_dtype_t type = round % 3 == 2 ? VN_F64 : VN_F32;
            const setting_t s = setting(&rng, a, round);
            one_node_t c;
            open_node(t, &c, &s, type, &rng);
            one_run(t, &c);
            for (int64_t i = 0; i < N; ++i) {
                const double x = vn_tensor_get_f64(c.in[2], i), g = vn_tensor_get_f64(c.in[3], i);
                double state[2] = {vn_tensor_get_f64(c.in[4], i), c.n_in > 5 ? vn_tensor_get_f64(c.in[5], i) : 0};
                exact(&s, x, g, state, want);
                for (int k = 0; k < c.n_out; ++k) {
                    const vn_ref_t *r = &c.out[k];
                    const double y = mpfr_get_d(want[k], MPFR_RNDN);
                    mpfr_sub_d(off, want[k], r->value[i], MPFR_RNDN);
                    if (r->lo) mpfr_sub_d(off, off, r->lo[i], MPFR_RNDN);
                    VN_ASSERT_LE(t, fabs(mpfr_get_d(off, MPFR_RNDA)), r->own[i]);
                    if (!(r->own[i] <= 0x1p-10 * r->bound[i]))
                        vn_test_fail(t, __FILE__, __LINE__, "%s of %s, output %d, T %lld: own %g, bound %g, y %g", names[a],
                                     vn_dtype_name(type), k, (long long)s.count, r->own[i], r->bound[i], y);
                    const double u = vn_format_info(vn_format_of(type))->u;
                    /* sharp: a few roundings, but for powers near 1, which cancel */
                    const double step = fabs(y - x), cancel = a == ADAM && k == 0 && s.count ? 500 / (1 - pow(s.beta, (double)s.count)) : 0;
                    VN_ASSERT_LE(
                        t, r->bound[i],
                        u * (16 * (fabs(x) + fabs(y) + fabs(state[0]) + fabs(g) + g * g + x * x) + (16 + cancel) * (step + fabs(x))));
                }
                for (int form = 0; form < 3; ++form) {
                    const machine_t m = {.f = vn_format_of(type), .form = form};
                    double got[3];
                    simulated(&m, &s, x, g, state, got);
                    for (int k = 0; k < c.n_out; ++k) {
                        mpfr_d_sub(off, got[k], want[k], MPFR_RNDN);
                        const double e = fabs(mpfr_get_d(off, MPFR_RNDD));
                        if (!(e <= c.out[k].bound[i] + c.out[k].own[i]))
                            vn_test_fail(t, __FILE__, __LINE__, "%s output %d, form %d, T %lld: off by %g, bound %g", names[a], k, form,
                                         (long long)s.count, e, c.out[k].bound[i]);
                        best = fmax(best, e / c.out[k].bound[i]);
                    }
                }
            }
            one_free(&c);
        }
    VN_ASSERT_GT(t, best, 0.5); /* tight: some kernel uses half of it */
    mpfr_clears(want[0], want[1], want[2], off, (mpfr_ptr)NULL);
}

/* Two tensors of different shapes are optimised as if alone. */
VN_TEST(training, several_tensors) {
    const double v[] = {1, -2, 0.5}, w[] = {3};
    const setting_t s = {.algorithm = STANDARD, .alpha = (double)0.9f, .beta = 1, .rate = 0.5};
    one_node_t c = {.domain = DOMAIN,
                    .op = "Momentum",
                    .version = 1,
                    .n_in = 8,
                    .n_out = 4,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"norm_coefficient", ONE_FLOAT, 0, NULL},
                              {"alpha", ONE_FLOAT, s.alpha, NULL},
                              {"beta", ONE_FLOAT, 1, NULL},
                              {"mode", ONE_TEXT, 0, "standard"}}};
    c.in[0] = one_scalar(t, VN_F32, 0.5);
    c.in[1] = one_scalar(t, VN_I64, 3);
    for (int k = 0; k < 3; ++k) {
        c.in[2 + 2 * k] = one_vector(t, VN_F32, 3, v);
        c.in[3 + 2 * k] = one_vector(t, VN_F64, 1, w);
    }
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].count, 3);
    VN_ASSERT_EQ(t, c.out[1].count, 1);
    VN_ASSERT_EQ(t, c.out[1].dtype, VN_F64);
    VN_ASSERT_DEQ(t, c.out[3].value[0], s.alpha * 3 + 3);
    VN_ASSERT_LE(t, fabs(c.out[0].value[1] - (-2 - 0.5 * (s.alpha * -2 - 2))), 0x1p-52);
    one_free(&c);
}

/* Squares that overflow f32, a zero denominator, NaN and infinities. */
VN_TEST(training, specials) {
    const setting_t s = {.algorithm = ADAGRAD, .rate = 1};
    const double x[] = {1, 1, 1, 1}, g[] = {0x1p70, 0, NAN, 1}, h[] = {0, 0, 1, INFINITY};
    one_node_t c = {.domain = DOMAIN,
                    .op = "Adagrad",
                    .version = 1,
                    .n_in = 5,
                    .n_out = 2,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"epsilon", ONE_FLOAT, 0, NULL}}};
    c.in[0] = one_scalar(t, VN_F32, s.rate);
    c.in[1] = one_scalar(t, VN_I64, 0);
    c.in[2] = one_vector(t, VN_F32, 4, x);
    c.in[3] = one_vector(t, VN_F32, 4, g);
    c.in[4] = one_vector(t, VN_F32, 4, h);
    one_run(t, &c);
    VN_ASSERT_DEQ(t, c.out[0].value[0], 0); /* x - g / |g| */
    VN_ASSERT_GE(t, c.out[0].bound[0], 1);  /* or x alone, where H is infinite */
    VN_ASSERT(t, c.out[1].flags && (c.out[1].flags[0] & VN_EL_INF_OK));
    VN_ASSERT(t, isnan(c.out[0].value[1])); /* 0 / 0 */
    VN_ASSERT(t, isnan(c.out[0].value[2]) && isnan(c.out[1].value[2]));
    VN_ASSERT_DEQ(t, c.out[0].value[3], 1); /* a step of 1 / inf */
    VN_ASSERT(t, isinf(c.out[1].value[3]));
    one_free(&c);
}

VN_TEST(training, refusals) {
    vn_rng_t rng = vn_test_rng(t);
    const setting_t s = setting(&rng, NESTEROV, 1);
    one_node_t c;
    open_node(t, &c, &s, VN_F32, &rng);
    vn_tensor_free(c.in[4]);
    c.in[4] = one_scalar(t, VN_F32, 1); /* another shape than its X */
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_SHAPE);
    one_free(&c);
    open_node(t, &c, &s, VN_F32, &rng);
    c.attrs[1].name = "alpine";
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_USAGE);
    VN_ASSERT_HAS(t, c.err.text, "alpha");
    one_free(&c);
    open_node(t, &c, &s, VN_F32, &rng);
    c.attrs[3].text = "sideways";
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_UNSUPPORTED);
    one_free(&c);
    open_node(t, &c, &s, VN_F32, &rng);
    vn_tensor_free(c.in[4]);
    c.n_in = 4;
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_USAGE);
    one_free(&c);
}

VN_TEST_MAIN(VN_CASE(training, value_bound_and_forms), VN_CASE(training, several_tensors), VN_CASE(training, specials),
             VN_CASE(training, refusals))
