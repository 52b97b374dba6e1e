/* vjp_sums.c -- cotangents through reductions, products of matrices, convolutions and average pools.
 *
 * Claim GRAD-5: reductions spread g over what was reduced; C = A B gives dA = g B^T, dB = A^T g; a convolution gives the transposed convolution
 *   of g with the same weights for its input, and for its weights the convolution of input and g with batch and channels exchanged,
 *   strides and dilations exchanged.
 */
#include <string.h>

#include "oracle/vjp.h"

#define X vn_vjp_in(v, 0)
#define Y vn_vjp_out(v, 0)
#define G (v->cot[0])

/* ---- reductions ---- */

enum { SUM, MEAN, SQUARES, L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, MIN };

typedef struct reduced {
    const vn_inferred_value_t *x;
    bool along[VN_MAX_RANK];
    int64_t kept[VN_MAX_RANK]; /* shape of the result with its axes kept */
    int64_t count;             /* elements behind one result */
} reduced_t;

static bool reduced_axes(vn_vjp_t *v, reduced_t *r) {
    int64_t axes[VN_MAX_RANK], count = 0;
    int n = 0;
    *r = (reduced_t){.x = vn_vjp_fact(v, X), .count = 1};
    const int64_t *attr = vn_node_ints(&v->node, "axes", &count);
    if (attr && count <= VN_MAX_RANK) memcpy(axes, attr, (size_t)(n = (int)count) * sizeof *axes);
    else (void)vn_vjp_known_ints(v, 1, axes, VN_MAX_RANK, &n);
    if (v->status != VN_OK) return false;
    const bool all = n == 0 && !vn_node_int(&v->node, "noop_with_empty_axes", 0);
    for (int k = 0; k < n; ++k) {
        const int64_t d = axes[k] < 0 ? axes[k] + r->x->rank : axes[k];
        if (d < 0 || d >= r->x->rank) vn_vjp_fail(v, VN_ERR_RANGE, "axis %lld", (long long)axes[k]);
        else r->along[d] = true;
    }
    for (int d = 0; d < r->x->rank; ++d) {
        r->along[d] |= all;
        r->kept[d] = r->along[d] ? 1 : r->x->dims[d];
        if (r->along[d]) r->count *= r->x->dims[d];
    }
    return v->status == VN_OK;
}

static const char *spread(vn_vjp_t *v, const reduced_t *r, const char *kept) { return vn_vjp_expand(v, kept, r->x->rank, r->x->dims); }

static void reduce(vn_vjp_t *v, int kind) {
    reduced_t r;
    if (!reduced_axes(v, &r)) return;
    const int rank = r.x->rank;
    const char *g = vn_vjp_reshape(v, G, rank, r.kept), *y = NULL, *d;
    if (kind == L2 || kind == LOG_SUM_EXP || kind == MAX || kind == MIN) y = vn_vjp_reshape(v, Y, rank, r.kept);
    switch (kind) {
    case SUM: d = spread(v, &r, g); break;
    case MEAN: d = spread(v, &r, vn_vjp_div(v, g, vn_vjp_scalar(v, r.x->dtype, (double)r.count))); break;
    case SQUARES: d = vn_vjp_mul(v, vn_vjp_mul(v, g, vn_vjp_scalar(v, r.x->dtype, 2)), X); break;
    case L1: d = vn_vjp_mul(v, g, vn_vjp_1(v, "Sign", X)); break;
    case L2: d = vn_vjp_mul(v, vn_vjp_div(v, g, y), X); break;
    case LOG_SUM: d = spread(v, &r, vn_vjp_div(v, g, vn_vjp_sum(v, X, rank, r.along, true))); break;
    case LOG_SUM_EXP: d = vn_vjp_mul(v, g, vn_vjp_1(v, "Exp", vn_vjp_sub(v, X, y))); break;
    default: {
        const char *at = vn_vjp_2(v, "Equal", X, y);
        const char *share = vn_vjp_3(v, "Where", at, vn_vjp_scalar(v, r.x->dtype, 1), vn_vjp_scalar(v, r.x->dtype, 0));
        d = vn_vjp_mul(v, vn_vjp_div(v, g, vn_vjp_sum(v, share, rank, r.along, true)), share);
    }
    }
    vn_vjp_give(v, 0, d);
}

/* ---- products of matrices ---- */

static const char *swapped(vn_vjp_t *v, const char *x, int rank) {
    int64_t perm[VN_MAX_RANK];
    for (int d = 0; d < rank; ++d) perm[d] = d;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return vn_vjp_transpose(v, x, rank, perm);
}

/* An operand as a matrix, or a batch of them: vectors get an axis of length 1. */
static vn_inferred_value_t as_matrix(const vn_inferred_value_t *x, bool left) {
    vn_inferred_value_t m = *x;
    if (x->rank != 1) return m;
    m.rank = 2;
    m.dims[0] = left ? 1 : x->dims[0];
    m.dims[1] = left ? x->dims[0] : 1;
    return m;
}

static void give_matrix(vn_vjp_t *v, int k, const char *d, int rank, const int64_t *batch, const vn_inferred_value_t *m) {
    const vn_inferred_value_t *x = vn_vjp_fact(v, vn_vjp_in(v, k));
    int64_t dims[VN_MAX_RANK];
    memcpy(dims, batch, sizeof dims);
    dims[rank - 2] = m->dims[m->rank - 2];
    dims[rank - 1] = m->dims[m->rank - 1];
    d = vn_vjp_unbroadcast(v, d, rank, dims, m);
    vn_vjp_give(v, k, x->rank == m->rank ? d : vn_vjp_reshape(v, d, x->rank, x->dims));
}

static void matmul(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t a = as_matrix(vn_vjp_fact(v, vn_vjp_in(v, 0)), true), b = as_matrix(vn_vjp_fact(v, vn_vjp_in(v, 1)), false);
    if (v->status != VN_OK) return;
    if (a.rank < 2 || b.rank < 2) {
        vn_vjp_fail(v, VN_ERR_SHAPE, "a scalar operand");
        return;
    }
    const int rank = a.rank > b.rank ? a.rank : b.rank;
    int64_t dims[VN_MAX_RANK] = {0};
    for (int d = 0; d < rank - 2; ++d) {
        const int i = d - (rank - a.rank), j = d - (rank - b.rank);
        dims[d] = i < 0 ? b.dims[j] : j < 0 || b.dims[j] == 1 ? a.dims[i] : b.dims[j];
    }
    dims[rank - 2] = a.dims[a.rank - 2];
    dims[rank - 1] = b.dims[b.rank - 1];
    const char *g = vn_vjp_reshape(v, G, rank, dims);
    if (vn_vjp_needs(v, 0)) {
        const char *other = vn_vjp_reshape(v, vn_vjp_in(v, 1), b.rank, b.dims);
        give_matrix(v, 0, vn_vjp_2(v, "MatMul", g, swapped(v, other, b.rank)), rank, dims, &a);
    }
    if (vn_vjp_needs(v, 1)) {
        const char *other = vn_vjp_reshape(v, vn_vjp_in(v, 0), a.rank, a.dims);
        give_matrix(v, 1, vn_vjp_2(v, "MatMul", swapped(v, other, a.rank), g), rank, dims, &b);
    }
}

static const char *product(vn_vjp_t *v, const char *a, bool ta, const char *b, bool tb, float alpha) {
    vn_node_t *n;
    const char *const in[] = {a, b};
    if (v->version < 11) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "Gemm before opset 11");
    const char *y = vn_vjp_emit(v, "Gemm", 2, in, &n);
    vn_vjp_int(v, n, "transA", ta);
    vn_vjp_int(v, n, "transB", tb);
    if (v->status == VN_OK) v->status = vn_node_set_float(v->model, n, "alpha", alpha, v->err);
    return y;
}

static void gemm(vn_vjp_t *v, int param) {
    (void)param;
    const char *a = vn_vjp_in(v, 0), *b = vn_vjp_in(v, 1);
    const bool ta = vn_node_int(&v->node, "transA", 0) != 0, tb = vn_node_int(&v->node, "transB", 0) != 0;
    const float alpha = (float)vn_node_float(&v->node, "alpha", 1), beta = (float)vn_node_float(&v->node, "beta", 1);
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, ta ? product(v, b, tb, G, true, alpha) : product(v, G, false, b, !tb, alpha));
    if (vn_vjp_needs(v, 1)) vn_vjp_give(v, 1, tb ? product(v, G, true, a, ta, alpha) : product(v, a, !ta, G, false, alpha));
    if (!vn_vjp_needs(v, 2)) return;
    const vn_inferred_value_t *y = vn_vjp_fact(v, Y), *c = vn_vjp_fact(v, vn_vjp_in(v, 2));
    const char *g = beta == 1 ? G : vn_vjp_mul(v, G, vn_vjp_scalar(v, y->dtype, (double)beta));
    vn_vjp_give(v, 2, vn_vjp_unbroadcast(v, g, y->rank, y->dims, c));
}

/* ---- Einsum: the cotangent of one operand is the Einsum of g and the others ---- */

enum { MAX_TERMS = 8, MAX_LETTERS = 64 };
typedef struct equation {
    int n;
    char term[MAX_TERMS + 1][MAX_LETTERS]; /* term[n]: the result */
} equation_t;

static bool parse(vn_vjp_t *v, equation_t *q) {
    const char *s = vn_node_string(&v->node, "equation", "");
    int at = 0, length = 0;
    bool arrow = false;
    *q = (equation_t){.n = v->node.n_inputs};
    if (q->n > MAX_TERMS || strstr(s, "...") || !strstr(s, "->")) {
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "only equations with '->', without '...', of at most %d operands", MAX_TERMS);
        return false;
    }
    for (; *s; ++s) {
        if (*s == ' ') continue;
        if (*s == ',' || *s == '-') {
            ++at;
            length = 0;
            arrow |= *s == '-';
            if (*s == '-') ++s;
        } else if (at > q->n || length + 1 >= MAX_LETTERS || strchr(q->term[at], *s)) {
            vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "a letter occurs twice in one term");
            return false;
        } else {
            q->term[at][length++] = *s;
        }
    }
    if (!arrow || at != q->n) vn_vjp_fail(v, VN_ERR_SHAPE, "%d terms for %d operands", at, q->n);
    return v->status == VN_OK;
}

static void einsum(vn_vjp_t *v, int param) {
    (void)param;
    equation_t q;
    if (!parse(v, &q)) return;
    for (int k = 0; k < q.n; ++k) {
        if (!vn_vjp_needs(v, k)) continue;
        const vn_inferred_value_t *x = vn_vjp_fact(v, vn_vjp_in(v, k));
        const char *in[MAX_TERMS] = {G};
        char text[(MAX_TERMS + 2) * (MAX_LETTERS + 2)], present[MAX_LETTERS] = "";
        int n = 1, kept = 0;
        strcpy(text, q.term[q.n]);
        for (int i = 0; i < q.n; ++i) {
            if (i == k) continue;
            strcat(strcat(text, ","), q.term[i]);
            in[n++] = vn_vjp_in(v, i);
        }
        int64_t dims[VN_MAX_RANK];
        for (int d = 0; d < x->rank && q.term[k][d]; ++d) { /* letters found nowhere else were summed: g is the same along them */
            const bool elsewhere = strchr(text, q.term[k][d]) != NULL;
            if (elsewhere) present[kept++] = q.term[k][d];
            dims[d] = elsewhere ? x->dims[d] : 1;
        }
        strcat(strcat(text, "->"), present);
        vn_node_t *node;
        const char *d = vn_vjp_emit(v, "Einsum", n, in, &node);
        if (v->status == VN_OK) v->status = vn_node_set_string(v->model, node, "equation", text, v->err);
        if (kept < x->rank) d = vn_vjp_expand(v, vn_vjp_reshape(v, d, x->rank, dims), x->rank, x->dims);
        vn_vjp_give(v, k, d);
    }
}

/* ---- convolutions ---- */

typedef struct window {
    int n; /* spatial axes */
    int64_t kernel[VN_MAX_RANK], stride[VN_MAX_RANK], dilation[VN_MAX_RANK], pads[2 * VN_MAX_RANK], group;
} window_t;

/* big: the shape that is padded and walked over, small: the shape of window positions. */
static bool window_of(vn_vjp_t *v, const vn_inferred_value_t *big, const vn_inferred_value_t *small, const int64_t *kernel, window_t *w) {
    int64_t ns, nd, np;
    const int64_t *s = vn_node_ints(&v->node, "strides", &ns), *d = vn_node_ints(&v->node, "dilations", &nd),
                  *p = vn_node_ints(&v->node, "pads", &np);
    const char *mode = vn_node_string(&v->node, "auto_pad", "NOTSET");
    const bool same = strncmp(mode, "SAME", 4) == 0;
    *w = (window_t){.n = big->rank - 2, .group = vn_node_int(&v->node, "group", 1)};
    if (v->status != VN_OK) return false;
    if (w->n < 1 || small->rank != big->rank || (s && ns != w->n) || (d && nd != w->n) || (p && np != 2 * w->n) || w->group < 1)
        vn_vjp_fail(v, VN_ERR_SHAPE, "strides, dilations or pads do not fit rank %d", big->rank);
    for (int k = 0; k < w->n && v->status == VN_OK; ++k) {
        w->kernel[k] = kernel[k];
        w->stride[k] = s ? s[k] : 1;
        w->dilation[k] = d ? d[k] : 1;
        if (p && !same) {
            w->pads[k] = p[k];
            w->pads[w->n + k] = p[w->n + k];
        }
        if (!same) continue;
        int64_t total = (small->dims[k + 2] - 1) * w->stride[k] + (kernel[k] - 1) * w->dilation[k] + 1 - big->dims[k + 2];
        if (total < 0) total = 0;
        w->pads[k] = strcmp(mode, "SAME_LOWER") == 0 ? total - total / 2 : total / 2;
        w->pads[w->n + k] = total - w->pads[k];
    }
    return v->status == VN_OK;
}

static const char *convolve(vn_vjp_t *v, const char *op, const char *x, const char *weights, const window_t *w, const int64_t *stride,
                            const int64_t *dilation, const int64_t *output_padding) {
    vn_node_t *n;
    const char *const in[] = {x, weights};
    const char *y = vn_vjp_emit(v, op, 2, in, &n);
    vn_vjp_ints(v, n, "strides", stride, w->n);
    vn_vjp_ints(v, n, "dilations", dilation, w->n);
    vn_vjp_ints(v, n, "pads", w->pads, 2 * w->n);
    vn_vjp_int(v, n, "group", w->group);
    if (output_padding) vn_vjp_ints(v, n, "output_padding", output_padding, w->n);
    return y;
}

/* g spread back over the shape of `big`: the transposed convolution. */
static const char *transposed(vn_vjp_t *v, const char *g, const char *weights, const window_t *w, const vn_inferred_value_t *big,
                              const vn_inferred_value_t *small) {
    int64_t extra[VN_MAX_RANK];
    for (int k = 0; k < w->n; ++k) {
        const int64_t reach = (small->dims[k + 2] - 1) * w->stride[k] + (w->kernel[k] - 1) * w->dilation[k] + 1;
        extra[k] = big->dims[k + 2] - (reach - w->pads[k] - w->pads[w->n + k]);
        if (extra[k] < 0) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "windows reach beyond the padding along spatial axis %d", k);
    }
    return convolve(v, "ConvTranspose", g, weights, w, w->stride, w->dilation, extra);
}

/* [N, G C', S...] as [C', G N, S...] and [N, G M', P...] as [G M', N, P...]: their grouped convolution is [C', G M', K...]. */
static const char *weight_cotangent(vn_vjp_t *v, const char *big_name, const vn_inferred_value_t *big, const char *small_name,
                                    const window_t *w) {
    const int n = w->n;
    const int64_t groups = w->group, batch = big->dims[0], channels = big->dims[1] / groups;
    int64_t dims[VN_MAX_RANK], perm[VN_MAX_RANK], start[VN_MAX_RANK] = {0}, axes[VN_MAX_RANK], steps[VN_MAX_RANK];
    dims[0] = batch, dims[1] = groups, dims[2] = channels;
    perm[0] = 2, perm[1] = 1, perm[2] = 0;
    for (int k = 0; k < n; ++k) {
        dims[3 + k] = big->dims[2 + k];
        perm[3 + k] = 3 + k;
    }
    const char *x = vn_vjp_transpose(v, vn_vjp_reshape(v, big_name, n + 3, dims), n + 3, perm);
    dims[0] = channels, dims[1] = groups * batch;
    for (int k = 0; k < n; ++k) dims[2 + k] = big->dims[2 + k];
    x = vn_vjp_reshape(v, x, n + 2, dims);
    perm[0] = 1, perm[1] = 0;
    for (int k = 0; k < n; ++k) {
        perm[2 + k] = 2 + k;
        axes[k] = 2 + k;
        steps[k] = 1;
    }
    const char *g = vn_vjp_transpose(v, small_name, n + 2, perm);
    const char *y = convolve(v, "Conv", x, g, w, w->dilation, w->stride, NULL);
    y = vn_vjp_slice(v, y, n, start, w->kernel, axes, steps); /* input that no window reaches adds places behind the kernel */
    return vn_vjp_transpose(v, y, n + 2, perm);
}

static void give_channel_sums(vn_vjp_t *v, int k, const vn_inferred_value_t *y) {
    bool along[VN_MAX_RANK];
    for (int d = 0; d < y->rank; ++d) along[d] = d != 1;
    vn_vjp_give(v, k, vn_vjp_sum(v, G, y->rank, along, false));
}

static void conv(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y), *weights = vn_vjp_fact(v, vn_vjp_in(v, 1));
    window_t w;
    if (!window_of(v, x, y, weights->dims + 2, &w)) return;
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, transposed(v, G, vn_vjp_in(v, 1), &w, x, y));
    if (vn_vjp_needs(v, 1)) vn_vjp_give(v, 1, weight_cotangent(v, X, x, G, &w));
    if (vn_vjp_needs(v, 2)) give_channel_sums(v, 2, y);
}

static void conv_transpose(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y), *weights = vn_vjp_fact(v, vn_vjp_in(v, 1));
    window_t w;
    if (vn_node_attr(&v->node, "output_shape") || strcmp(vn_node_string(&v->node, "auto_pad", "NOTSET"), "NOTSET") != 0)
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "only explicit pads, without output_shape");
    if (!window_of(v, y, x, weights->dims + 2, &w)) return;
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, convolve(v, "Conv", G, vn_vjp_in(v, 1), &w, w.stride, w.dilation, NULL));
    if (vn_vjp_needs(v, 1)) vn_vjp_give(v, 1, weight_cotangent(v, G, y, X, &w));
    if (vn_vjp_needs(v, 2)) give_channel_sums(v, 2, y);
}

/* ---- pools ---- */

static void global_average(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    int64_t count = 1;
    for (int d = 2; d < x->rank; ++d) count *= x->dims[d];
    vn_vjp_give(v, 0, vn_vjp_expand(v, vn_vjp_div(v, G, vn_vjp_scalar(v, x->dtype, (double)count)), x->rank, x->dims));
}

/* Every window gives g / k to each of its elements: a transposed convolution, channel by channel, with ones. */
static void average_pool(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y);
    int64_t n, cells = 1, padded = 0;
    const int64_t *kernel = vn_node_ints(&v->node, "kernel_shape", &n);
    window_t w;
    if (!kernel || n != x->rank - 2) vn_vjp_fail(v, VN_ERR_SHAPE, "kernel_shape does not fit rank %d", x->rank);
    if (v->status != VN_OK || !window_of(v, x, y, kernel, &w)) return;
    vn_inferred_value_t ones = {.dtype = x->dtype, .rank = x->rank, .dims = {x->dims[1], 1}};
    for (int k = 0; k < w.n; ++k) {
        ones.dims[2 + k] = kernel[k];
        cells *= kernel[k];
        padded += w.pads[k] + w.pads[w.n + k];
    }
    if (vn_node_int(&v->node, "ceil_mode", 0) || (padded && !vn_node_int(&v->node, "count_include_pad", 0)))
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "windows of different sizes (ceil_mode, or padding that does not count)");
    w.group = x->dims[1];
    const char *g = vn_vjp_div(v, G, vn_vjp_scalar(v, x->dtype, (double)cells));
    vn_vjp_give(v, 0, transposed(v, g, vn_vjp_filled(v, &ones, 1), &w, x, y));
}

static const vn_vjp_rule_t rules[] = {
    {"ReduceSum", reduce, SUM},
    {"ReduceMean", reduce, MEAN},
    {"ReduceSumSquare", reduce, SQUARES},
    {"ReduceL1", reduce, L1},
    {"ReduceL2", reduce, L2},
    {"ReduceLogSum", reduce, LOG_SUM},
    {"ReduceLogSumExp", reduce, LOG_SUM_EXP},
    {"ReduceMax", reduce, MAX},
    {"ReduceMin", reduce, MIN},
    {"MatMul", matmul, 0},
    {"Gemm", gemm, 0},
    {"Einsum", einsum, 0},
    {"Conv", conv, 0},
    {"ConvTranspose", conv_transpose, 0},
    {"GlobalAveragePool", global_average, 0},
    {"AveragePool", average_pool, 0},
};

const vn_vjp_table_t vn_vjp_sums = {.rules = rules, .count = sizeof rules / sizeof *rules};
