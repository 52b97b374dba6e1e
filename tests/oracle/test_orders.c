/* Bounds against real arithmetic: sums, products, norms, softmax and attention carried out in many orders never leave the bound, and their
 * errors are no larger than the variance says (claims CONTRACT-1, SUM-1 to SUM-5, SUM-V, SOFTMAX-1, SOFTMAX-2, NORM-1, NORM-3, NORM-5, SCAN-1, ATTN-1).
 *
 * Every operator draws shapes, data and arithmetics until its share of elements is judged: 10^5 in all in the quick tier, 10^7 with rows of up
 * to 10^6 terms with VERNIER_FULL=1. The oracle's values themselves are held against MPFR in test_twin_*.
 */
#include <stdio.h>

#include "orders.h"
#include "twin_case.h"

enum {
    ELEMENTS_QUICK = 110000,
    ELEMENTS_FULL = 10500000,
    SIZE = 4,
    COLUMNS = 3,
    TAPS = 3,
    SAMPLE = 12,
    LEAST_DRAWS = 30,
    LEAST_TERMS = 16,
    LEAST_CLUSTERS = 64,
    CHANNELS = 2 /* kind of a norm whose scale and bias belong to a channel */
};

typedef struct operator operator_t;

/* A draw: the node's operands as floats, and where an execution puts its result. */
typedef struct draw {
    const operator_t *op;
    arith_t arith;
    vn_dtype_t type;
    const char *contract;
    twin_data_t data;
    int64_t rows, n, w_count, v_count, out_count, work_count;
    float *x, *w, *v, *work, *out;
} draw_t;

struct operator{
    const char *name;
    int version;
    int kind;                  /* of the family: a tw_reduce_t, or 1 for the variant with a mean, a bias, a logarithm */
    void (*shape)(draw_t * d); /* counts of w, v, out, work for rows and n */
    void (*node)(vn_test_t * t, const draw_t *d, one_node_t *c);
    void (*run)(const draw_t *d, const order_t *o);
    bool positive, model; /* needs a positive sum; has a model of its errors */
};

/* ---- executions ---- */

static void run_reduce(const draw_t *d, const order_t *o) {
    const arith_t m = d->arith;
    for (int64_t r = 0; r < d->rows; ++r) {
        const float *x = d->x + r * d->n;
        float *w = d->work, top = -INFINITY, y;
        const int64_t n = d->n;
        for (int64_t i = 0; i < n; ++i) top = fmaxf(top, x[i]);
        for (int64_t i = 0; i < n; ++i)
            w[i] = d->op->kind == TW_L1 ? fabsf(x[i]) : d->op->kind == TW_LOGSUMEXP ? op_exp(m, op_sub(m, x[i], top)) : x[i];
        const bool squares = d->op->kind == TW_L2 || d->op->kind == TW_SQUARES;
        y = d->op->kind == TW_PROD ? product(m, o, x, n) : dot(m, o, w, squares ? w : NULL, n);
        if (d->op->kind == TW_MEAN) y = op_div(m, y, (float)n);
        if (d->op->kind == TW_L2) y = op_sqrt(m, y);
        if (d->op->kind == TW_LOGSUM) y = op_log(m, y);
        if (d->op->kind == TW_LOGSUMEXP) y = op_add(m, top, op_log(m, y));
        d->out[r] = y;
    }
}

static void run_prefix(const draw_t *d, const order_t *o) {
    for (int64_t r = 0; r < d->rows; ++r) prefix(d->arith, o, d->x + r * d->n, d->out + r * d->n, d->n);
}

/* Whole rows, or for blocked orders the online form: a running maximum, sums rescaled when it grows. */
static float exp_sum(const draw_t *d, const order_t *o, const float *x, float *top_out) {
    const arith_t m = d->arith;
    float top = -INFINITY, l = 0;
    if (o->kind != ORDER_BLOCKED) {
        for (int64_t i = 0; i < d->n; ++i) top = fmaxf(top, x[i]);
        for (int64_t i = 0; i < d->n; ++i) d->work[i] = op_exp(m, op_sub(m, x[i], top));
        l = dot(m, o, d->work, NULL, d->n);
    }
    for (int64_t from = 0; o->kind == ORDER_BLOCKED && from < d->n; from += o->size) {
        float local = top;
        const int64_t to = from + o->size < d->n ? from + o->size : d->n;
        for (int64_t i = from; i < to; ++i) local = fmaxf(local, x[i]);
        if (from && local > top) l = op_mul(m, l, op_exp(m, op_sub(m, top, local)));
        top = local;
        for (int64_t i = from; i < to; ++i) l = op_add(m, l, op_exp(m, op_sub(m, x[i], top)));
    }
    *top_out = top;
    return l;
}

static void run_softmax(const draw_t *d, const order_t *o) {
    const arith_t m = d->arith;
    for (int64_t r = 0; r < d->rows; ++r) {
        const float *x = d->x + r * d->n;
        float *y = d->out + r * d->n, top;
        const float l = exp_sum(d, o, x, &top), log_l = op_log(m, l);
        for (int64_t i = 0; i < d->n; ++i) {
            const float s = op_sub(m, x[i], top);
            y[i] = d->op->kind ? op_sub(m, s, log_l) : op_div(m, op_exp(m, s), l);
        }
    }
}

static void run_norm(const draw_t *d, const order_t *o) {
    const arith_t m = d->arith;
    const float eps = m.narrow ? narrowed(m.f, 1e-5f) : 1e-5f, n = (float)d->n;
    for (int64_t r = 0; r < d->rows; ++r) {
        const float *x = d->x + r * d->n, mean = d->op->kind ? op_div(m, dot(m, o, x, NULL, d->n), n) : 0;
        float *c = d->work;
        for (int64_t i = 0; i < d->n; ++i) c[i] = d->op->kind ? op_sub(m, x[i], mean) : x[i];
        const float inv = op_div(m, 1, op_sqrt(m, op_add(m, op_div(m, dot(m, o, c, c, d->n), n), eps)));
        for (int64_t i = 0; i < d->n; ++i) {
            const int64_t at = d->op->kind == CHANNELS ? r : i; /* scale and bias of a channel, or of an element */
            const float y = op_mul(m, op_mul(m, c[i], inv), d->w[at]);
            d->out[r * d->n + i] = d->op->kind ? op_add(m, y, d->v[at]) : y;
        }
    }
}

static void run_vector_norm(const draw_t *d, const order_t *o) {
    for (int64_t r = 0; r < d->rows; ++r) {
        const float *x = d->x + r * d->n, norm = op_sqrt(d->arith, dot(d->arith, o, x, x, d->n));
        for (int64_t i = 0; i < d->n; ++i) d->out[r * d->n + i] = norm == 0 ? 0 : op_div(d->arith, x[i], norm);
    }
}

/* w [n, COLUMNS] of a matrix product, v its bias; w is kept transposed. */
static void run_product(const draw_t *d, const order_t *o) {
    for (int64_t r = 0; r < d->rows; ++r)
        for (int64_t j = 0; j < COLUMNS; ++j) {
            const float y = dot(d->arith, o, d->x + r * d->n, d->w + j * d->n, d->n);
            d->out[r * COLUMNS + j] = d->op->kind ? op_add(d->arith, y, d->v[j]) : y;
        }
}

/* x [rows channels, n places], one filter with TAPS taps and padding of one: terms that lie on the padding are not there. */
static void run_convolution(const draw_t *d, const order_t *o) {
    float *a = d->work, *b = d->work + d->rows * TAPS;
    for (int64_t at = 0; at < d->n; ++at) {
        int64_t k = 0;
        for (int64_t c = 0; c < d->rows; ++c)
            for (int64_t p = 0; p < TAPS; ++p) {
                const int64_t i = at + p - 1;
                if (i < 0 || i >= d->n) continue;
                a[k] = d->x[c * d->n + i];
                b[k++] = d->w[c * TAPS + p];
            }
        d->out[at] = dot(d->arith, o, a, b, k);
    }
}

/* x: rows queries of SIZE; w: n keys of SIZE; v: n values of SIZE. */
static void run_attention(const draw_t *d, const order_t *o) {
    const arith_t m = d->arith;
    const float scale = m.narrow ? narrowed(m.f, 0.5) : 0.5f;
    float *s = d->work, *p = s + d->n, *column = p + d->n;
    for (int64_t r = 0; r < d->rows; ++r) {
        float top = -INFINITY;
        for (int64_t j = 0; j < d->n; ++j) {
            s[j] = op_mul(m, dot(m, &orders[0], d->x + r * SIZE, d->w + j * SIZE, SIZE), scale);
            top = fmaxf(top, s[j]);
        }
        for (int64_t j = 0; j < d->n; ++j) p[j] = op_exp(m, op_sub(m, s[j], top));
        const float l = dot(m, o, p, NULL, d->n);
        for (int c = 0; c < SIZE; ++c) {
            for (int64_t j = 0; j < d->n; ++j) column[j] = d->v[j * SIZE + c];
            d->out[r * SIZE + c] = op_div(m, dot(m, o, p, column, d->n), l);
        }
    }
}

/* ---- operators: shapes and nodes ---- */

static vn_tensor_t *floats(vn_test_t *t, const draw_t *d, int rank, const int64_t *dims, const float *x) {
    vn_tensor_t *v = one_tensor(t, d->type, rank, dims);
    for (int64_t i = 0; i < v->count; ++i) vn_tensor_set_f64(v, i, (double)x[i]);
    return v;
}
#define FLOATS(x, ...) floats(t, d, TWIN_DIMS(__VA_ARGS__), x)

static void shape_rows(draw_t *d) { d->out_count = d->rows, d->work_count = d->n; }
static void shape_elements(draw_t *d) { d->out_count = d->rows * d->n, d->work_count = d->n; }
static void shape_norm(draw_t *d) {
    shape_elements(d);
    d->w_count = d->n;
    d->v_count = d->n;
}
static void shape_channels(draw_t *d) {
    shape_elements(d);
    d->w_count = d->v_count = d->rows;
}
static void shape_product(draw_t *d) {
    d->w_count = d->n * COLUMNS;
    d->v_count = COLUMNS;
    d->out_count = d->rows * COLUMNS;
}
static void shape_convolution(draw_t *d) {
    d->w_count = d->rows * TAPS;
    d->out_count = d->n;
    d->work_count = 2 * d->rows * TAPS;
}
static void shape_attention(draw_t *d) {
    d->n = 1 + d->n / 4; /* SIZE times as many products */
    d->w_count = d->v_count = d->n * SIZE;
    d->out_count = d->rows * SIZE;
    d->work_count = 3 * d->n;
}

static void node_reduce(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, d->rows, d->n);
    c->in[1] = one_ints(t, VN_I64, 1, (int64_t[]){1});
    c->n_in = 2;
}
static void node_pool(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, 1, d->rows, d->n);
    c->n_in = 1;
}
static void node_prefix(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, d->rows, d->n);
    c->in[1] = one_scalar(t, VN_I64, 1);
    c->n_in = 2;
}
static void node_softmax(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, d->rows, d->n);
    c->n_in = 1;
}
static void node_norm(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, d->rows, d->n);
    c->in[1] = FLOATS(d->w, d->n);
    if (d->op->kind) c->in[2] = FLOATS(d->v, d->n);
    c->n_in = d->op->kind ? 3 : 2;
}
static void node_channels(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, 1, d->rows, d->n);
    c->in[1] = FLOATS(d->w, d->rows);
    c->in[2] = FLOATS(d->v, d->rows);
    c->n_in = 3;
}
static void node_groups(vn_test_t *t, const draw_t *d, one_node_t *c) {
    node_channels(t, d, c);
    c->attrs[0] = (one_attr_t){"num_groups", ONE_INT, (double)d->rows, NULL};
}
static void node_product(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, d->rows, d->n);
    c->in[1] = one_tensor(t, d->type, 2, (int64_t[]){d->n, COLUMNS});
    for (int64_t i = 0; i < d->w_count; ++i) vn_tensor_set_f64(c->in[1], i % d->n * COLUMNS + i / d->n, (double)d->w[i]);
    if (d->op->kind) c->in[2] = FLOATS(d->v, COLUMNS);
    c->n_in = d->op->kind ? 3 : 2;
}
static void node_einsum(vn_test_t *t, const draw_t *d, one_node_t *c) {
    node_product(t, d, c);
    c->attrs[0] = (one_attr_t){"equation", ONE_TEXT, 0, "ij,jk->ik"};
}
static void node_convolution(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, 1, d->rows, d->n);
    c->in[1] = FLOATS(d->w, 1, d->rows, TAPS);
    c->attrs[0] = (one_attr_t){"auto_pad", ONE_TEXT, 0, "SAME_UPPER"};
    c->n_in = 2;
}
static void node_attention(vn_test_t *t, const draw_t *d, one_node_t *c) {
    c->in[0] = FLOATS(d->x, 1, 1, d->rows, SIZE);
    c->in[1] = FLOATS(d->w, 1, 1, d->n, SIZE);
    c->in[2] = FLOATS(d->v, 1, 1, d->n, SIZE);
    c->attrs[0] = (one_attr_t){"scale", ONE_FLOAT, 0.5, NULL};
    c->n_in = 3;
}

static const operator_t operators[] = {
    {"ReduceSum", 18, TW_SUM, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceMean", 18, TW_MEAN, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceL1", 18, TW_L1, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceL2", 18, TW_L2, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceSumSquare", 18, TW_SQUARES, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceProd", 18, TW_PROD, shape_rows, node_reduce, run_reduce, false, true},
    {"ReduceLogSum", 18, TW_LOGSUM, shape_rows, node_reduce, run_reduce, true, true},
    {"ReduceLogSumExp", 18, TW_LOGSUMEXP, shape_rows, node_reduce, run_reduce, false, true},
    {"GlobalAveragePool", 1, TW_MEAN, shape_rows, node_pool, run_reduce, false, true},
    {"GlobalLpPool", 2, TW_L2, shape_rows, node_pool, run_reduce, false, true},
    {"CumSum", 14, 0, shape_elements, node_prefix, run_prefix, false, true},
    {"Softmax", 13, 0, shape_elements, node_softmax, run_softmax, false, false},
    {"LogSoftmax", 13, 1, shape_elements, node_softmax, run_softmax, false, false},
    {"LayerNormalization", 17, 1, shape_norm, node_norm, run_norm, false, false},
    {"RMSNormalization", 23, 0, shape_norm, node_norm, run_norm, false, false},
    {"InstanceNormalization", 22, CHANNELS, shape_channels, node_channels, run_norm, false, false},
    {"GroupNormalization", 21, CHANNELS, shape_channels, node_groups, run_norm, false, false},
    {"LpNormalization", 22, 0, shape_elements, node_softmax, run_vector_norm, false, false},
    {"MatMul", 13, 0, shape_product, node_product, run_product, false, true},
    {"Gemm", 13, 1, shape_product, node_product, run_product, false, true},
    {"Einsum", 12, 0, shape_product, node_einsum, run_product, false, true},
    {"Conv", 22, 0, shape_convolution, node_convolution, run_convolution, false, true},
    {"Attention", 23, 0, shape_attention, node_attention, run_attention, false, false},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

/* ---- draws ---- */

static const struct {
    vn_dtype_t type;
    vn_format_t acc;
    const char *contract;
    int share; /* of ten */
} arithmetics[] = {
    {VN_F32, VN_FMT_F32, "operand=f32,accumulator=f32", 6},     {VN_F16, VN_FMT_F32, "operand=f16,accumulator=f32", 1},
    {VN_BF16, VN_FMT_F32, "operand=bf16,accumulator=f32", 1},   {VN_F16, VN_FMT_F16, "operand=f16,accumulator=f16", 1},
    {VN_BF16, VN_FMT_BF16, "operand=bf16,accumulator=bf16", 1},
};

static float *plane(vn_test_t *t, vn_rng_t *rng, const draw_t *d, twin_data_t data, int64_t row, int64_t n) {
    float *p = vn_alloc((size_t)(n ? n : 1), sizeof *p);
    double *x = vn_alloc((size_t)(row ? row : 1), sizeof *x);
    VN_ASSERT(t, p && x);
    for (int64_t from = 0; from < n; from += row) {
        twin_fill(rng, data, vn_format_of(d->type), x, row);
        for (int64_t i = 0; i < row && from + i < n; ++i) p[from + i] = (float)(d->op->positive ? fabs(x[i]) : x[i]);
    }
    vn_free(x);
    return p;
}

static void draw_free(draw_t *d) {
    float *planes[] = {d->x, d->w, d->v, d->work, d->out};
    for (int k = 0; k < 5; ++k) vn_free(planes[k]);
}

/* Sizes are uniform in their logarithm; rows fill what work is left. */
static draw_t draw_new(vn_test_t *t, vn_rng_t *rng, const operator_t *op, uint64_t round) {
    const bool full = vn_test_full();
    int pick = (int)vn_rng_below(rng, 10), a = 0;
    while (pick >= arithmetics[a].share) pick -= arithmetics[a++].share;
    draw_t d = {.op = op, .type = arithmetics[a].type, .contract = arithmetics[a].contract};
    d.arith = (arith_t){.f = arithmetics[a].acc, .narrow = arithmetics[a].acc != VN_FMT_F32};
    d.data = (twin_data_t)(round % TWIN_DATA);
    const double most = d.arith.narrow ? 600 : full ? 1.05e6 : 5000, work = full ? 60000 : 6000;
    d.n = (int64_t)exp(log(most) * vn_rng_uniform(rng));
    if (d.n > 1000000) d.n = 1000000;
    d.rows = (int64_t)(work / (double)d.n);
    const bool many = vn_rng_below(rng, 4) == 0; /* enough rows for statistics */
    const int64_t rows = op->shape == shape_attention || op->shape == shape_convolution ? 4 : many ? 72 : full ? 24 : 3;
    d.rows = d.rows < 1 ? 1 : d.rows > rows ? rows : d.rows;
    op->shape(&d);
    d.x = plane(t, rng, &d, d.data, op->shape == shape_attention ? SIZE : d.n, d.rows * (op->shape == shape_attention ? SIZE : d.n));
    d.w = plane(t, rng, &d, op->shape == shape_norm || op->shape == shape_channels ? TWIN_RANDOM : d.data,
                op->shape == shape_product ? d.n : d.w_count, d.w_count);
    d.v = plane(t, rng, &d, TWIN_RANDOM, d.v_count, d.v_count);
    d.work = vn_alloc((size_t)(d.work_count ? d.work_count : 1), sizeof *d.work);
    d.out = vn_alloc((size_t)d.out_count, sizeof *d.out);
    VN_ASSERT(t, d.work && d.out);
    return d;
}

/* ---- judgement ---- */

typedef struct tally {
    int64_t judged, nothing_said, draws;
    double worst;     /* error / bound, f32 */
    double worst_rms; /* of error / sigma over a draw and an order */
    double worst_z, z_limit;
} tally_t;

static void leaves(vn_test_t *t, const draw_t *d, const order_t *o, const vn_ref_t *r, int64_t i, double got) {
    char operands[200] = "";
    int used = 0;
    for (int64_t k = 0; k < 4 && k < d->n && used < 150; ++k)
        used += snprintf(operands + used, sizeof operands - (size_t)used, " %a", (double)d->x[k]);
    vn_test_fail(
        t, __FILE__, __LINE__,
        "%s, %s, %s data, order %s, rows %lld, n %lld, element %lld: computed %a, value %a, error %a, bound %a (ratio %.6g), flags "
        "%d\n    operands begin%s",
        d->op->name, d->contract, twin_data_names[d->data], o->name, (long long)d->rows, (long long)d->n, (long long)i, got, r->value[i],
        fabs(got - r->value[i]), r->bound[i], fabs(got - r->value[i]) / r->bound[i], r->flags ? r->flags[i] : 0, operands);
}

/* Specials are allowed where the reference says so. */
static bool special_allowed(const vn_ref_t *r, int64_t i, double got) {
    const int flags = r->flags ? r->flags[i] : 0;
    if (got == r->value[i] || (isnan(got) && isnan(r->value[i]))) return true;
    if (isnan(got)) return flags & VN_EL_NAN_OK;
    if (isinf(got)) return flags & VN_EL_INF_OK;
    return got == 0 && flags & VN_EL_ZERO_OK;
}

/*
 * The model of the variance is one of independent roundings. It is void for data whose additions repeat (bounds sheet, B.23: TWIN-1 is for
 * them), hence also where the terms spread over less than a unit of the last place of their sum, 2u n level > spread; for fewer than
 * LEAST_TERMS terms; and for classes whose errors share a factor along the row (softmax, norms, attention: B.25). Squares crowd at 0 like
 * q^-1/2: a sum with the spacing h = 2u n loses about h^3/2 / 10 a term in one direction, against h / sqrt 12 of noise, so that the mean
 * error of n terms is n sqrt(2u) / 3 sigmas: kept near 1.
 */
static bool model_fits(const draw_t *d) {
    const twin_data_t k = d->data;
    const double level = k == TWIN_OFFSET ? 100 : 2; /* over the spread; squares and magnitudes included */
    const double spacing = 2 * vn_format_info(d->arith.f)->u, n = (double)d->n;
    return (k == TWIN_RANDOM || k == TWIN_POSITIVE || k == TWIN_WIDE || k == TWIN_OFFSET) && d->n >= LEAST_TERMS && d->op->model &&
           spacing * n * level <= 1 && n * sqrt(spacing) <= 4;
}

/* Claim PRINT-2 for clusters of equal standing: 3 and the sampling error at a tail of 10^-6 / 3. */
static double rms_limit(int64_t clusters) { return 3 * (1 + sqrt(-2 * log(1e-6 / 3)) * sqrt(4.4 / (double)clusters) / 2); }

/* Claim PRINT-1 with S' = 0, which has the widest tail, for one of `elements` elements at 10^-6: the smallest z that some t allows. */
static double extreme_limit(double elements) {
    double z = INFINITY;
    for (int i = 1; i < 314; ++i) {
        const double t = 0.01 * i;
        z = fmin(z, (log(2) + 0.5 * log(t / sin(t)) - log(1e-6 / elements)) / (t * sqrt(1.0 / 6)));
    }
    return z;
}

static void judge(vn_test_t *t, vn_rng_t *rng, const draw_t *d, const order_t *o, const vn_ref_t *r, tally_t *sum) {
    const vn_format_t store = vn_format_of(d->type);
    const bool all = d->out_count <= SAMPLE * d->rows;
    const int64_t count = all ? d->out_count : SAMPLE * d->rows;
    int64_t in_model = 0;
    double z2 = 0;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t i = all ? k : (int64_t)vn_rng_below(rng, (uint64_t)d->out_count);
        const double got = store == VN_FMT_F32 ? (double)d->out[i] : vn_round_to(store, (double)d->out[i], VN_RNE, false);
        const double bound = r->bound[i], e = fabs(got - r->value[i]);
        if (bound == INFINITY || (r->flags && r->flags[i] & VN_EL_VOID)) {
            sum->nothing_said++;
            continue;
        }
        sum->judged++;
        if (!(e <= bound + vn_ref_own(r, i)) && !special_allowed(r, i, got)) leaves(t, d, o, r, i, got);
        if (bound > 0 && isfinite(e) && e <= bound) {
            if (!d->arith.narrow && d->type == VN_F32) sum->worst = fmax(sum->worst, e / bound);
            if (r->var[i] > 0 && model_fits(d)) {
                const double z = e / sqrt(r->var[i]);
                z2 += z * z;
                ++in_model;
                sum->worst_z = fmax(sum->worst_z, z);
                if (!(z <= sum->z_limit))
                    vn_test_fail(t, __FILE__, __LINE__,
                                 "%s, %s, %s data, order %s, rows %lld, n %lld, element %lld: error %a is %.3g sigma", d->op->name,
                                 d->contract, twin_data_names[d->data], o->name, (long long)d->rows, (long long)d->n, (long long)i, e, z);
            }
        }
    }
    if (d->rows >= LEAST_CLUSTERS && in_model >= LEAST_CLUSTERS) {
        const double rms = sqrt(z2 / (double)in_model);
        sum->worst_rms = fmax(sum->worst_rms, rms);
        if (!(rms <= rms_limit(d->rows)))
            vn_test_fail(t, __FILE__, __LINE__, "%s, %s, %s data, order %s, rows %lld, n %lld: rms of error over sigma is %.3g, limit %.3g",
                         d->op->name, d->contract, twin_data_names[d->data], o->name, (long long)d->rows, (long long)d->n, rms,
                         rms_limit(d->rows));
    }
}

static tally_t operator_in_every_order(vn_test_t *t, const operator_t *op, int64_t elements) {
    vn_rng_t rng;
    tally_t sum = {.z_limit = extreme_limit(ELEMENTS_FULL)};
    for (uint64_t round = 0; sum.judged < elements || round < LEAST_DRAWS; ++round, ++sum.draws) {
        vn_rng_seed(&rng, t->seed + round * 0x9e3779b97f4a7c15u + (uint64_t)(op - operators));
        draw_t d = draw_new(t, &rng, op, round);
        one_node_t c = {.op = op->name, .version = op->version, .contract = d.contract, .want = VN_WANT_VARIANCE};
        op->node(t, &d, &c);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].count, d.out_count);
        for (int k = 0; k < ORDERS; ++k) {
            op->run(&d, &orders[k]);
            judge(t, &rng, &d, &orders[k], &c.out[0], &sum);
        }
        one_free(&c);
        draw_free(&d);
        VN_ASSERT(t, round < 1000000);
    }
    return sum;
}

static void family(vn_test_t *t, const char *const *names, int count) {
    const int64_t share = (vn_test_full() ? ELEMENTS_FULL : ELEMENTS_QUICK) / OPERATORS * vn_test_scale(t);
    for (int k = 0; k < count; ++k) {
        const operator_t *op = operators;
        while (strcmp(op->name, names[k])) ++op;
        const tally_t sum = operator_in_every_order(t, op, share);
        if (vn_test_full()) {
            printf("%-18s %8lld elements, %6lld draws, %7lld without a bound; largest error/bound (f32) %.3f, largest rms of z %.2f, "
                   "largest z %.1f\n",
                   op->name, (long long)sum.judged, (long long)sum.draws, (long long)sum.nothing_said, sum.worst, sum.worst_rms,
                   sum.worst_z);
            fflush(stdout);
        }
        VN_ASSERT(t, sum.nothing_said < sum.judged / 2);
        VN_ASSERT_GE(t, sum.worst, 0.02); /* the bounds are of the size of what happens */
    }
}
#define FAMILY(...) family(t, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

VN_TEST(orders, sums) { FAMILY("ReduceSum", "ReduceMean", "ReduceL1", "GlobalAveragePool", "CumSum"); }
VN_TEST(orders, powers_and_logarithms) {
    FAMILY("ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "GlobalLpPool");
}
VN_TEST(orders, contractions) { FAMILY("MatMul", "Gemm", "Einsum", "Conv"); }
VN_TEST(orders, softmax) { FAMILY("Softmax", "LogSoftmax"); }
VN_TEST(orders, norms) {
    FAMILY("LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization");
}
VN_TEST(orders, attention) { FAMILY("Attention"); }

VN_TEST_MAIN(VN_CASE(orders, sums), VN_CASE(orders, powers_and_logarithms), VN_CASE(orders, contractions), VN_CASE(orders, softmax),
             VN_CASE(orders, norms), VN_CASE(orders, attention))
