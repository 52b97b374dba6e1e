/* move_case.h -- one node built by hand and evaluated isolated; tensors of every type; element-wise comparison. For movement tests. */
#ifndef VN_TEST_MOVE_CASE_H
#define VN_TEST_MOVE_CASE_H

#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "oracle/registry.h"
#include "vernier/oracle.h"

enum { MC_MAX = 16 };

typedef struct mc {
    vn_model_t model;
    vn_opset_t opset;
    vn_node_t node;
    vn_attr_t attrs[8];
    const char *in_names[MC_MAX], *out_names[MC_MAX];
    vn_value_t *in[MC_MAX];
    vn_ref_t out[MC_MAX];
    vn_error_t err;
} mc_t;

/* c must stay where it is: the node points into it. */
static inline void mc_new(mc_t *c, const char *op, int64_t version) {
    static const char *const names[MC_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
    memset(c, 0, sizeof *c);
    c->opset = (vn_opset_t){.domain = "", .version = version};
    c->model.opsets = &c->opset;
    c->model.n_opsets = 1;
    for (int k = 0; k < MC_MAX; ++k) c->in_names[k] = c->out_names[k] = names[k];
    c->node = (vn_node_t){.name = "node",
                          .path = "node",
                          .op = op,
                          .domain = "",
                          .overload = "",
                          .inputs = c->in_names,
                          .outputs = c->out_names,
                          .attrs = c->attrs,
                          .n_outputs = 1};
}

/* Takes over t; NULL: absent. */
static inline void mc_in(mc_t *c, vn_tensor_t *t) {
    if (!t) c->in_names[c->node.n_inputs] = "";
    c->in[c->node.n_inputs++] = t ? vn_value_tensor(t) : NULL;
}
static inline void mc_in_value(mc_t *c, vn_value_t *v) { c->in[c->node.n_inputs++] = v; }

static inline vn_attr_t *mc_attr(mc_t *c, const char *name, vn_attr_kind_t kind) {
    vn_attr_t *a = &c->attrs[c->node.n_attrs++];
    *a = (vn_attr_t){.name = name, .kind = kind};
    return a;
}
static inline void mc_int(mc_t *c, const char *name, int64_t v) { mc_attr(c, name, VN_ATTR_INT)->i = v; }
static inline void mc_float(mc_t *c, const char *name, float v) { mc_attr(c, name, VN_ATTR_FLOAT)->f = v; }
static inline void mc_string(mc_t *c, const char *name, const char *v) {
    mc_attr(c, name, VN_ATTR_STRING)->s = (vn_string_t){.text = (char *)(uintptr_t)v, .length = strlen(v)};
}
/* v must outlive the run */
static inline void mc_ints(mc_t *c, const char *name, int64_t n, const int64_t *v) {
    vn_attr_t *a = mc_attr(c, name, VN_ATTR_INTS);
    a->ints = v;
    a->count = n;
}

static inline bool mc_shape_like(const vn_op_t *row, int k) {
    static const unsigned flags[] = {VN_OP_SHAPE_LIKE_0, VN_OP_SHAPE_LIKE_1, VN_OP_SHAPE_LIKE_2, VN_OP_SHAPE_LIKE_3, VN_OP_SHAPE_LIKE_4};
    return k < 5 && (row->flags & flags[k]);
}

/* The row's `infer`, with data only in shape-like operands, must say what `eval` gave. */
static inline vn_status_t mc_check_infer(mc_t *c) {
    const vn_op_t *row = vn_registry_find("", c->node.op, c->opset.version);
    vn_tensor_t bare[MC_MAX];
    vn_arg_t in[MC_MAX] = {{0}};
    vn_ref_t out[MC_MAX] = {{0}};
    vn_eval_t e = {.model = &c->model,
                   .node = &c->node,
                   .version = c->opset.version,
                   .n_in = c->node.n_inputs,
                   .n_out = c->node.n_outputs,
                   .in = in,
                   .out = out,
                   .err = &c->err};
    if (!row->infer) return VN_OK;
    for (int k = 0; k < c->node.n_inputs; ++k) {
        if (!c->in[k] || c->in[k]->kind != VN_VALUE_TENSOR) continue;
        bare[k] = *c->in[k]->tensor;
        if (!mc_shape_like(row, k)) bare[k].data = NULL;
        in[k] = (vn_arg_t){.t = &bare[k], .v = c->in[k]};
    }
    vn_status_t s = row->infer(&e);
    for (int k = 0; k < c->node.n_outputs && s == VN_OK; ++k) {
        const vn_ref_t *a = &out[k], *b = &c->out[k];
        const bool same =
            a->dtype == b->dtype && a->rank == b->rank && a->count == b->count && memcmp(a->dims, b->dims, (size_t)a->rank * 8) == 0;
        if (!same) s = vn_fail(&c->err, VN_ERR_INTERNAL, "infer of %s says something else than eval", c->node.op);
    }
    return s;
}

static inline vn_status_t mc_run_once(mc_t *c) {
    vn_contract_t contract;
    vn_contract_builtin("portable", &contract);
    return vn_oracle_node(&c->model, &c->node, (const vn_value_t *const *)c->in, NULL, &contract, VN_WANT_VARIANCE, c->out, &c->err);
}

static inline vn_status_t mc_run(mc_t *c) {
    VN_TRY(mc_run_once(c));
    return mc_check_infer(c);
}

/* Lets allocation 1, 2, 3 ... of the run fail until it succeeds: each failure is VN_ERR_NOMEM and leaves nothing behind. Returns how many. */
static inline int mc_faults(vn_test_t *t, mc_t *c) {
    const vn_op_info_t *ops;
    VN_ASSERT_GT(t, vn_oracle_ops(&ops), 0); /* the table of operators is made once, not by the run that is to fail */
    for (int n = 1;; ++n) {
        vn_alloc_fail_at(n);
        const vn_status_t s = mc_run_once(c);
        vn_alloc_fail_at(0);
        if (s == VN_OK) return n - 1;
        if (s != VN_ERR_NOMEM)
            vn_test_fail(t, __FILE__, __LINE__, "%s: allocation %d fails: %s (%s)", c->node.op, n, vn_status_name(s), c->err.text);
        for (int k = 0; k < c->node.n_outputs; ++k) vn_ref_free(&c->out[k]);
    }
}

static inline void mc_free(mc_t *c) {
    for (int k = 0; k < MC_MAX; ++k) {
        vn_value_free(c->in[k]);
        vn_ref_free(&c->out[k]);
    }
}

/* ---- tensors ---- */

static inline vn_tensor_t *mc_tensor(vn_dtype_t t, int rank, const int64_t *dims) {
    vn_tensor_t *x = NULL;
    if (vn_tensor_new(t, rank, dims, &x, NULL) != VN_OK) abort();
    return x;
}
static inline vn_tensor_t *mc_i64(int64_t n, const int64_t *v) {
    vn_tensor_t *x = mc_tensor(VN_I64, 1, &n);
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_i64(x, i, v[i]);
    return x;
}
static inline vn_tensor_t *mc_scalar(vn_dtype_t t, double v) {
    vn_tensor_t *x = mc_tensor(t, 0, NULL);
    if (vn_dtype_is_float(t)) vn_tensor_set_f64(x, 0, v);
    else vn_tensor_set_i64(x, 0, (int64_t)v);
    return x;
}
static inline vn_tensor_t *mc_f32(int rank, const int64_t *dims, const double *v) {
    vn_tensor_t *x = mc_tensor(VN_F32, rank, dims);
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_f64(x, i, v[i]);
    return x;
}
#define MC_I64(...) mc_i64((int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define MC_DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

/* Random bits (strings: short words), any type. */
static inline vn_tensor_t *mc_random(vn_rng_t *rng, vn_dtype_t t, int rank, const int64_t *dims) {
    vn_tensor_t *x = mc_tensor(t, rank, dims);
    size_t bytes = 0;
    if (t == VN_STRING) {
        char word[8];
        for (int64_t i = 0; i < x->count; ++i) {
            const size_t n = (size_t)vn_rng_below(rng, 8);
            for (size_t k = 0; k < n; ++k) word[k] = (char)('a' + vn_rng_below(rng, 26));
            if (vn_tensor_set_string(x, i, word, n, NULL) != VN_OK) abort();
        }
        return x;
    }
    if (!vn_dtype_storage(t, x->count, &bytes)) abort();
    for (size_t i = 0; i < bytes; ++i) ((unsigned char *)x->data)[i] = (unsigned char)vn_rng_u64(rng);
    for (size_t i = 0; t == VN_BOOL && i < bytes; ++i) ((unsigned char *)x->data)[i] &= 1;
    return x;
}

/* Element i of a has the bits of element j of b; j < 0: zero bytes, the empty string. */
static inline bool mc_same(const vn_tensor_t *a, int64_t i, const vn_tensor_t *b, int64_t j) {
    static const unsigned char zero[16];
    if (a->dtype == VN_STRING) {
        const vn_string_t *x = (const vn_string_t *)a->data + i, none = {.text = (char *)(uintptr_t) "", .length = 0};
        const vn_string_t *y = j < 0 ? &none : (const vn_string_t *)b->data + j;
        return x->length == y->length && (x->length == 0 || memcmp(x->text, y->text, x->length) == 0);
    }
    if (vn_dtype_bits(a->dtype) < 8) return vn_tensor_bits(a, i) == (j < 0 ? 0 : vn_tensor_bits(b, j));
    const size_t size = (size_t)vn_dtype_bits(a->dtype) / 8;
    return memcmp((const char *)a->data + (size_t)i * size, j < 0 ? (const char *)zero : (const char *)b->data + (size_t)j * size, size) ==
           0;
}

/* Coordinates of element i, by division. */
static inline void mc_coords(const vn_tensor_t *t, int64_t i, int64_t *c) {
    for (int k = t->rank - 1; k >= 0; --k) {
        c[k] = i % t->dims[k];
        i /= t->dims[k];
    }
}
static inline int64_t mc_flat(const vn_tensor_t *t, const int64_t *c) {
    int64_t i = 0;
    for (int k = 0; k < t->rank; ++k) i = i * t->dims[k] + c[k];
    return i;
}

/* One type of every storage width, signed, packed, complex and text. */
static const vn_dtype_t mc_types[] = {VN_F32, VN_U8, VN_I16, VN_F64, VN_C128, VN_I4, VN_U2, VN_STRING, VN_BOOL, VN_BF16};
enum { MC_TYPES = sizeof mc_types / sizeof *mc_types };

static inline int mc_random_dims(vn_rng_t *rng, int max_rank, int64_t max_dim, int64_t *dims) {
    const int rank = (int)vn_rng_below(rng, (uint64_t)max_rank + 1);
    for (int k = 0; k < rank; ++k) dims[k] = (int64_t)vn_rng_below(rng, (uint64_t)max_dim + 1);
    return rank;
}

#endif
