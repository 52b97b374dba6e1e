/* terms_other.c -- summands of Einsum of one or two operands and of ConvTranspose. */
#include <string.h>

#include "oracle/terms.h"

/* ---- Einsum ---- */

enum { LETTERS = 128, OPERANDS = 2 };

typedef struct sums {
    char result[VN_MAX_RANK + 1], summed[2 * VN_MAX_RANK + 1];
    int64_t size[LETTERS], stride[OPERANDS][LETTERS]; /* 0: not a letter of that operand */
    int count[LETTERS];                               /* in the operands */
} sums_t;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static void add_letter(char *list, char c) {
    const size_t n = strlen(list);
    if (strchr(list, c) || n >= 2 * VN_MAX_RANK) return;
    list[n] = c;
    list[n + 1] = '\0';
}

static vn_status_t refused(vn_eval_t *e) { return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "this equation is no plain sum of products"); }

/* Letters of operand k from its last axis back. */
static vn_status_t read_operand(vn_eval_t *e, int k, const char *letters, size_t n, sums_t *s) {
    const vn_tensor_t *x = e->in[k].t;
    if (!x || n != (size_t)x->rank) return refused(e);
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; --d) {
        const int c = (unsigned char)letters[d];
        if (s->size[c] && s->size[c] != x->dims[d]) return refused(e);
        s->size[c] = x->dims[d];
        s->stride[k][c] += stride; /* a repeated letter walks the diagonal */
        s->count[c]++;
        stride *= x->dims[d];
    }
    return VN_OK;
}

static vn_status_t read_equation(vn_eval_t *e, sums_t *s) {
    const char *text = vn_node_string(e->node, "equation", "");
    char letters[VN_MAX_RANK + 1];
    size_t n = 0;
    int k = 0;
    bool arrow = false;
    for (const char *p = text;; ++p) {
        if (*p == ' ') continue;
        if (*p && is_letter(*p)) {
            if (n >= VN_MAX_RANK) return refused(e);
            letters[n++] = *p;
            continue;
        }
        if (*p && *p != ',' && !(p[0] == '-' && p[1] == '>')) return refused(e); /* dots */
        if (arrow) {
            memcpy(s->result, letters, n);
            s->result[n] = '\0';
        } else {
            if (k >= e->n_in || k >= OPERANDS) return refused(e);
            VN_TRY(read_operand(e, k++, letters, n, s));
        }
        n = 0;
        if (!*p) break;
        if (*p == '-') arrow = true, ++p;
    }
    if (k != e->n_in) return refused(e);
    for (int c = 0; c < LETTERS; ++c) /* without an arrow: the letters that occur once, in order */
        if (!arrow && s->count[c] == 1) add_letter(s->result, (char)c);
    for (int c = 0; c < LETTERS; ++c)
        if (s->count[c] && !strchr(s->result, c)) add_letter(s->summed, (char)c);
    return VN_OK;
}

vn_status_t vn_terms_einsum(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    sums_t s = {.result = ""};
    VN_TRY(read_equation(e, &s));
    const double *x[OPERANDS] = {vn_arg_f64(e, 0), e->n_in > 1 ? vn_arg_f64(e, 1) : NULL};
    if (!x[0] || (e->n_in > 1 && !x[1])) return VN_ERR_NOMEM;
    int64_t at[OPERANDS] = {0}, terms = 1;
    for (size_t d = strlen(s.result); d-- > 0;) {
        const int c = (unsigned char)s.result[d];
        if (s.size[c] < 1) return refused(e);
        for (int o = 0; o < OPERANDS; ++o) at[o] += i % s.size[c] * s.stride[o][c];
        i /= s.size[c];
    }
    for (const char *p = s.summed; *p; ++p) terms *= s.size[(unsigned char)*p];
    *n = terms;
    for (int64_t t = 0; t < terms && t < max; ++t) {
        int64_t rest = t, place[OPERANDS] = {at[0], at[1]};
        for (size_t d = strlen(s.summed); d-- > 0;) {
            const int c = (unsigned char)s.summed[d];
            for (int o = 0; o < OPERANDS; ++o) place[o] += rest % s.size[c] * s.stride[o][c];
            rest /= s.size[c];
        }
        out[t] = vn_terms_rounded(e, 0, x[0][place[0]]) * (e->n_in > 1 ? vn_terms_rounded(e, 1, x[1][place[1]]) : 1);
    }
    return VN_OK;
}

/* ---- ConvTranspose ---- */

/* The size of the result along spatial axis d and the padding before it; false: by auto_pad or output_shape, which other shapes decide. */
static bool spread_axis(const vn_eval_t *e, int d, int64_t in, int64_t kernel, int64_t *size, int64_t *begin, int64_t *stride,
                        int64_t *dilation) {
    int64_t count;
    const int spatial = e->in[0].t->rank - 2;
    const char *mode = vn_node_string(e->node, "auto_pad", "NOTSET");
    const int64_t *strides = vn_node_ints(e->node, "strides", &count), *dilations = vn_node_ints(e->node, "dilations", &count),
                  *pads = vn_node_ints(e->node, "pads", &count), *extra = vn_node_ints(e->node, "output_padding", &count);
    if (vn_node_attr(e->node, "output_shape") || (strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)) return false;
    if (strcmp(mode, "VALID") == 0) pads = NULL;
    *stride = strides ? strides[d] : 1;
    *dilation = dilations ? dilations[d] : 1;
    *begin = pads ? pads[d] : 0;
    *size = (in - 1) * *stride + (extra ? extra[d] : 0) + (kernel - 1) * *dilation + 1 - *begin - (pads ? pads[d + spatial] : 0);
    return *size > 0;
}

vn_status_t vn_terms_conv_transpose(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *x = e->in[0].t, *w = e->in[1].t;
    const double *v = vn_arg_f64(e, 0), *f = vn_arg_f64(e, 1);
    if (!v || !f) return VN_ERR_NOMEM;
    const int spatial = x->rank - 2;
    if (spatial < 1 || w->rank != x->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "ranks %d and %d", x->rank, w->rank);
    int64_t place[VN_MAX_RANK], stride[VN_MAX_RANK], dilation[VN_MAX_RANK], taps = 1, image = 1, rest = i;
    for (int d = spatial - 1; d >= 0; --d) {
        int64_t size, begin;
        if (!spread_axis(e, d, x->dims[d + 2], w->dims[d + 2], &size, &begin, &stride[d], &dilation[d]))
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "summands of a padding that is worked out");
        place[d] = rest % size + begin;
        rest /= size;
        taps *= w->dims[d + 2];
        image *= x->dims[d + 2];
    }
    const int64_t groups = vn_node_int(e->node, "group", 1), deep = w->dims[1], channels = deep * groups, channel = rest % channels,
                  batch = rest / channels, inputs = x->dims[1] / groups, first = channel / deep * inputs;
    *n = 0;
    for (int64_t c = first; c < first + inputs; ++c)
        for (int64_t t = 0; t < taps; ++t) {
            int64_t tap = t, offset = 0, unit = 1;
            bool inside = true;
            for (int d = spatial - 1; d >= 0; --d) { /* which input place reaches here through this tap */
                const int64_t from = place[d] - tap % w->dims[d + 2] * dilation[d];
                tap /= w->dims[d + 2];
                inside = inside && from >= 0 && from % stride[d] == 0 && from / stride[d] < x->dims[d + 2];
                offset += from / stride[d] * unit;
                unit *= x->dims[d + 2];
            }
            if (!inside) continue;
            if (*n < max)
                out[*n] = vn_terms_rounded(e, 0, v[(batch * x->dims[1] + c) * image + offset]) *
                          vn_terms_rounded(e, 1, f[(c * deep + channel % deep) * taps + t]);
            ++*n;
        }
    if (!vn_has(e, 2)) return VN_OK;
    const double *bias = vn_arg_f64(e, 2);
    if (!bias) return VN_ERR_NOMEM;
    if (*n < max) out[*n] = bias[channel];
    ++*n;
    return VN_OK;
}
