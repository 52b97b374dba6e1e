/* main.c -- back end blas: MatMul and Gemm in f32 and f64 through a CBLAS, a matrix of a batch at a time. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "steps/steps.h"

typedef struct blas {
    blas_library_t library;
    bool gemv; /* a product with one row or one column goes to xGEMV */
} blas_t;

struct vn_worker_session {
    steps_t *steps;
};

typedef vn_status_t (*operator_fn)(const blas_t *b, step_call_t *c);

/* ---- one product ---- */

/* y[m][n] = alpha op(a) op(b) + beta y; rows of a and b are n_a and n_b apart. */
typedef struct product {
    vn_dtype_t type;
    int m, n, k;
    bool trans_a, trans_b;
    double alpha, beta;
} product_t;

static int at_least_one(int n) { return n > 0 ? n : 1; }

static void gemm(const blas_library_t *l, const product_t *p, const void *a, const void *b, void *y) {
    const int ta = p->trans_a ? BLAS_TRANS : BLAS_NO_TRANS, tb = p->trans_b ? BLAS_TRANS : BLAS_NO_TRANS;
    const int la = at_least_one(p->trans_a ? p->m : p->k), lb = at_least_one(p->trans_b ? p->k : p->n);
    if (p->type == VN_F64) l->dgemm(BLAS_ROW_MAJOR, ta, tb, p->m, p->n, p->k, p->alpha, a, la, b, lb, p->beta, y, p->n);
    else l->sgemm(BLAS_ROW_MAJOR, ta, tb, p->m, p->n, p->k, (float)p->alpha, a, la, b, lb, (float)p->beta, y, p->n);
}

/* One column: y = op(a) b. One row: y' = op(b)' a'. The vector lies without gaps either way. */
static void gemv(const blas_library_t *l, const product_t *p, const void *a, const void *b, void *y) {
    const bool column = p->n == 1;
    const void *matrix = column ? a : b, *x = column ? b : a;
    const bool turned = column ? p->trans_a : !p->trans_b;
    const int out = column ? p->m : p->n, rows = turned ? p->k : out, columns = turned ? out : p->k;
    const int t = turned ? BLAS_TRANS : BLAS_NO_TRANS;
    if (p->type == VN_F64) l->dgemv(BLAS_ROW_MAJOR, t, rows, columns, p->alpha, matrix, at_least_one(columns), x, 1, p->beta, y, 1);
    else l->sgemv(BLAS_ROW_MAJOR, t, rows, columns, (float)p->alpha, matrix, at_least_one(columns), x, 1, (float)p->beta, y, 1);
}

/* A sum of nothing is zero, whatever a library makes of it. */
static void multiply(const blas_t *w, const product_t *p, const void *a, const void *b, void *y) {
    if (p->m == 0 || p->n == 0) return;
    if (p->k == 0 && p->beta == 0) memset(y, 0, (size_t)p->m * (size_t)p->n * (p->type == VN_F64 ? 8 : 4));
    else if (w->gemv && (p->m == 1 || p->n == 1)) gemv(&w->library, p, a, b, y);
    else gemm(&w->library, p, a, b, y);
}

static vn_status_t operands(const step_call_t *c, vn_dtype_t *t) {
    const vn_node_t *n = c->step->node;
    for (int i = 0; i < 2; ++i)
        if (i >= c->n_in || !c->in[i]) return vn_fail(c->err, VN_ERR_PARSE, "%s (%s): input %d is missing", n->path, n->op, i);
    *t = c->in[0]->dtype;
    if (*t != VN_F32 && *t != VN_F64) return step_refuse(n, c->err, "element type %s: a BLAS has f32 and f64", vn_dtype_name(*t));
    if (c->in[1]->dtype != *t || (c->n_in > 2 && c->in[2] && c->in[2]->dtype != *t))
        return vn_fail(c->err, VN_ERR_DTYPE, "%s (%s): operands of different types", n->path, n->op);
    return VN_OK;
}

static vn_status_t lengths(const step_call_t *c, int64_t m, int64_t n, int64_t k, product_t *p) {
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX)
        return step_refuse(c->step->node, c->err, "a length beyond the 32-bit integers of this BLAS");
    p->m = (int)m;
    p->n = (int)n;
    p->k = (int)k;
    return VN_OK;
}

/* ---- MatMul ---- */

/* Element offset of matrix number `at` of a batch dims[0 .. rank) in an operand with `own` batch dimensions, which may be broadcast. */
static int64_t matrix_of(int64_t at, int rank, const int64_t *dims, int own, const int64_t *own_dims) {
    int64_t offset = 0, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
        const int64_t i = at % dims[d];
        const int k = d - (rank - own);
        at /= dims[d];
        if (k < 0) continue;
        if (own_dims[k] != 1) offset += i * step;
        step *= own_dims[k];
    }
    return offset;
}

static vn_status_t matmul(const blas_t *w, step_call_t *c) {
    const vn_node_t *node = c->step->node;
    product_t p = {.alpha = 1};
    VN_TRY(operands(c, &p.type));
    const vn_tensor_t *a = c->in[0], *b = c->in[1];
    if (a->rank == 0 || b->rank == 0) return vn_fail(c->err, VN_ERR_SHAPE, "%s (MatMul): a scalar operand", node->path);
    const int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    const int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1, k = a->dims[a->rank - 1];
    const int64_t k_b = b->rank > 1 ? b->dims[b->rank - 2] : b->dims[0], n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    if (k != k_b)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s (MatMul): inner dimensions %lld and %lld differ", node->path, (long long)k,
                       (long long)k_b);
    VN_TRY(lengths(c, m, n, k, &p));
    int64_t dims[VN_MAX_RANK], matrices = 1;
    int rank;
    VN_TRY(vn_broadcast_shape(batch_a, a->dims, batch_b, b->dims, &rank, dims, c->err));
    const int batch = rank;
    for (int d = 0; d < batch; ++d) matrices *= dims[d];
    if (a->rank > 1) dims[rank++] = m;
    if (b->rank > 1) dims[rank++] = n;
    vn_tensor_t *y;
    VN_TRY(step_output(c, 0, p.type, rank, dims, &y));
    const int64_t unit = p.type == VN_F64 ? 8 : 4;
    for (int64_t i = 0; i < matrices; ++i)
        multiply(w, &p, (const char *)a->data + unit * m * k * matrix_of(i, batch, dims, batch_a, a->dims),
                 (const char *)b->data + unit * k * n * matrix_of(i, batch, dims, batch_b, b->dims), (char *)y->data + unit * m * n * i);
    return VN_OK;
}

/* ---- Gemm: C is put where the product is added to it ---- */

static vn_status_t bias(step_call_t *c, const int64_t *dims, vn_tensor_t *y) {
    vn_tensor_t *view, *full;
    VN_TRY(vn_tensor_broadcast(c->in[2], 2, dims, &view, c->err));
    const vn_status_t s = vn_tensor_contiguous(view, &full, c->err);
    vn_tensor_free(view);
    if (s != VN_OK) return s;
    memcpy(y->data, full->data, (size_t)full->count * (full->dtype == VN_F64 ? 8 : 4));
    vn_tensor_free(full);
    return VN_OK;
}

static vn_status_t gemm_node(const blas_t *w, step_call_t *c) {
    const vn_node_t *node = c->step->node;
    product_t p = {.alpha = vn_node_float(node, "alpha", 1),
                   .trans_a = vn_node_int(node, "transA", 0) != 0,
                   .trans_b = vn_node_int(node, "transB", 0) != 0};
    VN_TRY(operands(c, &p.type));
    const vn_tensor_t *a = c->in[0], *b = c->in[1];
    if (a->rank != 2 || b->rank != 2) return vn_fail(c->err, VN_ERR_SHAPE, "%s (Gemm): operands must have rank 2", node->path);
    const int64_t dims[2] = {a->dims[p.trans_a], b->dims[!p.trans_b]}, k = a->dims[!p.trans_a];
    if (k != b->dims[p.trans_b]) return vn_fail(c->err, VN_ERR_SHAPE, "%s (Gemm): inner dimensions differ", node->path);
    VN_TRY(lengths(c, dims[0], dims[1], k, &p));
    vn_tensor_t *y;
    VN_TRY(step_output(c, 0, p.type, 2, dims, &y));
    if (c->n_in > 2 && c->in[2]) {
        p.beta = vn_node_float(node, "beta", 1);
        if (p.beta != 0) VN_TRY(bias(c, dims, y));
    }
    multiply(w, &p, a->data, b->data, y->data);
    return VN_OK;
}

/* ---- the worker ---- */

static const struct {
    const char *name;
    operator_fn run;
} operators[] = {{"MatMul", matmul}, {"Gemm", gemm_node}};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

static vn_status_t find(void *self, const vn_node_t *n, int64_t opset, const void **op, vn_error_t *err) {
    (void)self;
    for (int i = 0; i < N_OPERATORS && !n->domain[0]; ++i) {
        if (strcmp(operators[i].name, n->op) != 0) continue;
        if (strcmp(n->op, "Gemm") == 0 && opset < 7) return step_refuse(n, err, "opset %lld: read from 7 on", (long long)opset);
        *op = &operators[i];
        return VN_OK;
    }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "operator %s%s%s of node %s: a BLAS has MatMul and Gemm", n->domain, n->domain[0] ? "." : "",
                   n->op, n->path);
}

static vn_status_t run_step(void *self, step_call_t *c) {
    for (int i = 0; i < N_OPERATORS; ++i)
        if (c->step->op == &operators[i]) return operators[i].run(self, c);
    return step_refuse(c->step->node, c->err, "no such operator");
}

static vn_status_t configure(blas_t *w, int argc, char **argv, vn_error_t *err) {
    const char *library = "openblas";
    int threads = 0;
    w->gemv = true;
    for (int i = 0; i < argc; ++i) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : "";
        if (strncmp(argv[i], "lib=", 4) == 0) library = value;
        else if (strncmp(argv[i], "threads=", 8) == 0) threads = (int)strtol(value, NULL, 10);
        else if (strncmp(argv[i], "gemv=", 5) == 0) w->gemv = strcmp(value, "never") != 0;
        else if (strcmp(argv[i], "device=cpu") != 0 && strncmp(argv[i], "cache=", 6) != 0)
            return vn_fail(err, VN_ERR_USAGE, "blas: unknown option '%s'", argv[i]);
    }
    return blas_open(library, threads, &w->library, err);
}

static vn_status_t blas_start(int argc, char **argv, void **self, vn_error_t *err) {
    blas_t *w = vn_alloc(1, sizeof *w);
    if (!w) return vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
    const vn_status_t s = configure(w, argc, argv, err);
    if (s == VN_OK) *self = w;
    else vn_free(w);
    return s;
}

static vn_status_t blas_identity(void *self, vn_text_t *json, vn_error_t *err) {
    const blas_t *w = self;
    const blas_library_t *l = &w->library;
    json_t *names = json_array();
    for (int i = 0; i < N_OPERATORS; ++i) json_array_append_new(names, json_string(operators[i].name));
    json_t *o = json_pack("{s:s,s:s,s:s,s:i,s:{s:s,s:s,s:s},s:{s:b,s:b,s:b,s:o}}", "framework", l->name, "version",
                          l->version[0] ? l->version : "unknown", "device", "cpu", "threads", l->threads, "settings", "interface",
                          "cblas, 32-bit integers", "kernels", l->core[0] ? l->core : "not told", "vectors", w->gemv ? "gemv" : "gemm",
                          "capabilities", "intermediates", 1, "strings", 0, "sequences", 0, "operators", names);
    if (o && l->build[0]) json_object_set_new(o, "build", json_string(l->build));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text) return vn_fail(err, VN_ERR_NOMEM, "identity: out of memory");
    vn_text_addn(json, text, strlen(text) - 1); /* without the brace */
    free(text);
    vn_text_add(json, ",");
    vn_worker_library(json, l->path);
    vn_text_add(json, ",\"cpu_features\":");
    vn_worker_cpu_features(json);
    vn_text_add(json, "}");
    return json->failed ? vn_fail(err, VN_ERR_NOMEM, "identity: out of memory") : VN_OK;
}

static vn_status_t blas_load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    const vn_status_t status = steps_load(rq, find, self, &s->steps, err);
    if (status == VN_OK) *out = s;
    else vn_free(s);
    return status;
}

static vn_status_t blas_run(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    return steps_run(s->steps, run_step, self, rq, err);
}

static void blas_unload(void *self, vn_worker_session_t *s) {
    (void)self;
    steps_free(s->steps);
    vn_free(s);
}

static void blas_stop(void *self) { vn_free(self); }

int main(int argc, char **argv) {
    const vn_worker_ops_t ops = {"blas", blas_start, blas_identity, blas_load, blas_run, blas_unload, blas_stop};
    return vn_worker_main(argc, argv, &ops);
}
