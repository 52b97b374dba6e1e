/* sum_case.h -- nodes that sum products, for tests: one node built by hand, its evaluation, and simulated executions in chosen orders. */
#ifndef VN_TEST_SUM_CASE_H
#define VN_TEST_SUM_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mpfr.h>

#include "oracle/registry.h"
#include "support/vn_test.h"
#include "vernier/oracle.h"

enum { SC_MAX = 10 };

typedef struct sc {
    vn_model_t model;
    vn_opset_t opset;
    vn_node_t node;
    vn_attr_t attrs[10];
    const char *in_names[SC_MAX], *out_names[SC_MAX];
    vn_value_t *in[SC_MAX];
    vn_contract_t contract;
    vn_ref_t out[2];
    vn_error_t err;
} sc_t;

/* c must stay where it is: the node points into it. */
static inline void sc_new(vn_test_t *t, sc_t *c, const char *domain, const char *op, int64_t version, const char *contract) {
    static const char *const names[SC_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    memset(c, 0, sizeof *c);
    c->opset = (vn_opset_t){.domain = domain, .version = version};
    c->model.opsets = &c->opset;
    c->model.n_opsets = 1;
    for (int k = 0; k < SC_MAX; ++k) c->in_names[k] = c->out_names[k] = names[k];
    c->node = (vn_node_t){.name = "node",
                          .path = "node",
                          .op = op,
                          .domain = domain,
                          .overload = "",
                          .inputs = c->in_names,
                          .outputs = c->out_names,
                          .attrs = c->attrs,
                          .n_outputs = 1};
    VN_ASSERT_OK_ERR(t, vn_contract_parse(contract, &c->contract, &c->err), c->err);
}

static inline vn_attr_t *sc_attr(sc_t *c, const char *name, vn_attr_kind_t kind) {
    vn_attr_t *a = &c->attrs[c->node.n_attrs++];
    *a = (vn_attr_t){.name = name, .kind = kind};
    return a;
}
static inline void sc_int(sc_t *c, const char *name, int64_t v) { sc_attr(c, name, VN_ATTR_INT)->i = v; }
static inline void sc_float(sc_t *c, const char *name, float v) { sc_attr(c, name, VN_ATTR_FLOAT)->f = v; }
static inline void sc_text(sc_t *c, const char *name, const char *v) {
    sc_attr(c, name, VN_ATTR_STRING)->s = (vn_string_t){.text = (char *)(uintptr_t)v, .length = strlen(v)};
}
/* v must outlive the run */
static inline void sc_ints(sc_t *c, const char *name, int64_t n, const int64_t *v) {
    vn_attr_t *a = sc_attr(c, name, VN_ATTR_INTS);
    a->ints = v;
    a->count = n;
}

/* Adds an input of the given values, rounded to its type; dims end with -1. Returns the tensor (owned by the case). */
static inline vn_tensor_t *sc_in(vn_test_t *t, sc_t *c, vn_dtype_t type, const int64_t *dims, const double *x) {
    vn_tensor_t *v;
    int rank = 0;
    while (dims[rank] >= 0) ++rank;
    VN_ASSERT_OK(t, vn_tensor_new(type, rank, dims, &v, NULL));
    if (vn_dtype_is_float(type)) vn_tensor_from_f64(v, x, VN_RNE, false);
    else
        for (int64_t i = 0; i < v->count; ++i) vn_tensor_set_i64(v, i, (int64_t)x[i]);
    c->in[c->node.n_inputs++] = vn_value_tensor(v);
    return v;
}
#define SC_DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})
static inline void sc_absent(sc_t *c) {
    c->in_names[c->node.n_inputs] = "";
    c->in[c->node.n_inputs++] = NULL;
}

static inline vn_status_t sc_try(sc_t *c, int want) {
    return vn_oracle_node(&c->model, &c->node, (const vn_value_t *const *)c->in, NULL, &c->contract, want, c->out, &c->err);
}
static inline vn_ref_t *sc_run(vn_test_t *t, sc_t *c, int want) {
    VN_ASSERT_OK_ERR(t, sc_try(c, want), c->err);
    return &c->out[0];
}
static inline void sc_clear(sc_t *c) { /* outputs only: the case may run again */
    for (int k = 0; k < 2; ++k) vn_ref_free(&c->out[k]);
}
static inline void sc_free(sc_t *c) {
    sc_clear(c);
    for (int k = 0; k < c->node.n_inputs; ++k) vn_value_free(c->in[k]);
}
static inline double sc_get(const sc_t *c, int k, int64_t i) { return vn_tensor_get_f64(c->in[k]->tensor, i); }

/* ---- data ---- */

typedef enum sc_data { SC_NORMAL, SC_POSITIVE, SC_WIDE, SC_CANCEL, SC_FEW, SC_INTEGER, SC_DATA } sc_data_t;
static inline void sc_fill(vn_rng_t *rng, sc_data_t kind, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const double g = vn_rng_normal(rng);
        switch (kind) {
        case SC_POSITIVE: x[i] = fabs(g) + 0.01; break;
        case SC_WIDE: x[i] = g * exp(5 * vn_rng_normal(rng) - 2); break;
        case SC_CANCEL: x[i] = i % 2 ? -x[i - 1] * (1 + 0x1p-9 * vn_rng_uniform(rng)) : g; break;
        case SC_FEW: x[i] = vn_rng_below(rng, 2) ? 0.1 : 0.3; break;
        case SC_INTEGER: x[i] = (double)vn_rng_below(rng, 15) - 7; break;
        default: x[i] = g;
        }
    }
}

/* ---- simulated executions: every operation rounded to `f` ---- */

typedef enum sc_order { SC_SEQ, SC_REV, SC_PAIRWISE, SC_LANES, SC_BLOCKS, SC_RANDOM, SC_ORDERS } sc_order_t;

static inline double sc_round(vn_format_t f, double x, bool ftz) {
    const double r = f == VN_FMT_F32 ? (double)(float)x : f == VN_FMT_F64 ? x : vn_round_to(f, x, VN_RNE, false);
    return ftz && fabs(r) < vn_format_info(f)->tau ? 0 : r;
}

static inline double sc_chain(vn_format_t f, const double *a, const double *b, const int64_t *at, int64_t n, int64_t step, bool fused,
                              bool ftz, double s) {
    for (int64_t i = 0; i < n; i += step) {
        const double x = a[at[i]], y = b[at[i]];
        if (fused) s = f == VN_FMT_F32 ? sc_round(f, (double)fmaf((float)x, (float)y, (float)s), ftz) : sc_round(f, fma(x, y, s), ftz);
        else s = sc_round(f, s + sc_round(f, x * y, ftz), ftz);
    }
    return s;
}

static inline double sc_pairwise(vn_format_t f, const double *a, const double *b, const int64_t *at, int64_t n, bool ftz) {
    if (n == 1) return sc_round(f, a[at[0]] * b[at[0]], ftz);
    return sc_round(f, sc_pairwise(f, a, b, at, n / 2, ftz) + sc_pairwise(f, a, b, at + n / 2, n - n / 2, ftz), ftz);
}

/* sum of a[i] b[i] (+ bias, first or last) in an order; `start` is what the chain begins with. */
static inline double sc_dot(vn_rng_t *rng, vn_format_t f, const double *a, const double *b, int64_t n, sc_order_t order, bool fused,
                            bool ftz, double bias, bool bias_first) {
    int64_t at[4096];
    double s = 0;
    for (int64_t i = 0; i < n; ++i) at[i] = order == SC_REV ? n - 1 - i : i;
    for (int64_t i = n - 1; order == SC_RANDOM && i > 0; --i) {
        const int64_t k = (int64_t)vn_rng_below(rng, (uint64_t)i + 1), x = at[i];
        at[i] = at[k];
        at[k] = x;
    }
    const double start = bias_first ? bias : 0;
    if (order == SC_PAIRWISE && n > 0) {
        s = sc_round(f, start + sc_pairwise(f, a, b, at, n, ftz), ftz);
    } else if (order == SC_LANES) {
        double lane[4] = {0};
        for (int64_t l = 0; l < 4 && l < n; ++l) lane[l] = sc_chain(f, a, b, at + l, n - l, 4, fused, ftz, l ? 0 : start);
        if (n == 0) lane[0] = start;
        s = sc_round(f, sc_round(f, lane[0] + lane[1], ftz) + sc_round(f, lane[2] + lane[3], ftz), ftz);
    } else if (order == SC_BLOCKS) {
        s = start;
        for (int64_t k = 0; k < n; k += 16) s = sc_round(f, s + sc_chain(f, a, b, at + k, n - k < 16 ? n - k : 16, 1, fused, ftz, 0), ftz);
    } else {
        s = sc_chain(f, a, b, at, n, 1, fused, ftz, start);
    }
    return bias_first ? s : sc_round(f, s + bias, ftz);
}

/* exact sum of a[i*as] b[i*bs] + c in `out` (initialised by the caller with at least 2500 bits) */
static inline void sc_exact(mpfr_t out, const double *a, int64_t as, const double *b, int64_t bs, int64_t n, double c) {
    mpfr_t p;
    mpfr_init2(p, 120);
    mpfr_set_d(out, c, MPFR_RNDN);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_set_d(p, a[i * as], MPFR_RNDN);
        mpfr_mul_d(p, p, b[i * bs], MPFR_RNDN);
        mpfr_add(out, out, p, MPFR_RNDN);
    }
    mpfr_clear(p);
}
/* |value + lo - exact| */
static inline double sc_distance(mpfr_t exact, double value, double lo) {
    mpfr_t d;
    mpfr_init2(d, 2500);
    mpfr_sub_d(d, exact, value, MPFR_RNDN);
    mpfr_sub_d(d, d, lo, MPFR_RNDN);
    const double r = fabs(mpfr_get_d(d, MPFR_RNDA));
    mpfr_clear(d);
    return r;
}

#endif
