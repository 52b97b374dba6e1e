/* op_flex_attention.c -- FlexAttention of ai.onnx.preview: attention whose scores and weights may pass through graphs of the user.
 *
 * Without graphs: ATTN-1. With graphs, the scores (and weights) are rounded to softmax_precision, given to the graph, and taken back: the
 * value follows the standard's body; the graph's rounding is not bounded here, the outputs are void (no statement).
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"

typedef struct flex {
    int64_t batch, heads, kv_heads, queries, keys, size, v_size;
    double scale;
    vn_dtype_t precision;
} flex_t;

static vn_status_t plan(vn_eval_t *e, flex_t *f) {
    const vn_tensor_t *q = e->in[0].t, *k = e->in[1].t, *v = e->in[2].t;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->dims[1] < 1 || q->dims[1] % k->dims[1] || q->dims[0] != k->dims[0] ||
        k->dims[0] != v->dims[0] || k->dims[1] != v->dims[1] || k->dims[2] != v->dims[2] || q->dims[3] != k->dims[3])
        return vn_eval_fail(e, VN_ERR_SHAPE, "Q, K and V must be [batch, heads, length, size] and fit");
    *f = (flex_t){.batch = q->dims[0],
                  .heads = q->dims[1],
                  .kv_heads = k->dims[1],
                  .queries = q->dims[2],
                  .keys = k->dims[2],
                  .size = q->dims[3],
                  .v_size = v->dims[3]};
    f->scale = vn_node_attr(e->node, "scale") ? vn_node_float(e->node, "scale", 1) : 1 / sqrt((double)f->size);
    f->precision = (vn_dtype_t)vn_node_int(e->node, "softmax_precision", q->dtype == VN_F64 ? VN_F64 : VN_F32);
    return vn_dtype_is_float(f->precision) ? VN_OK : vn_eval_fail(e, VN_ERR_DTYPE, "softmax_precision %d", (int)f->precision);
}

vn_status_t vn_infer_flex(vn_eval_t *e) {
    flex_t f;
    VN_TRY(plan(e, &f));
    vn_infer_put(e, 0, e->in[0].t->dtype, 4, (int64_t[]){f.batch, f.heads, f.queries, f.v_size});
    return VN_OK;
}

/* plane <- graph(plane), in the softmax precision; shape and type must come back. */
static vn_status_t modify(vn_eval_t *e, const flex_t *f, const char *name, double *plane) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    if (!a || !a->g) return VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new_raw(f->precision, 4, (int64_t[]){f->batch, f->heads, f->queries, f->keys}, &t, e->err));
    vn_tensor_from_f64(t, plane, VN_RNE, false);
    vn_value_t *in = vn_value_tensor(t), *out = NULL;
    if (!in) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const int64_t count = t->count;
    vn_status_t s = vn_run_body(e, a->g, name, 1, (const vn_value_t *const[]){in}, 1, &out);
    if (s == VN_OK && (!out || out->kind != VN_VALUE_TENSOR || out->tensor->dtype != f->precision || out->tensor->count != count))
        s = vn_eval_fail(e, VN_ERR_SHAPE, "%s changes the type or shape of its operand", name);
    if (s == VN_OK) vn_tensor_to_f64(out->tensor, plane);
    vn_value_free(in);
    vn_value_free(out);
    return s;
}

static void softmax(double *s, int64_t n) {
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; ++j) top = fmax(top, s[j]);
    for (int64_t j = 0; j < n; ++j) sum += s[j] = exp(s[j] - top);
    for (int64_t j = 0; j < n; ++j) s[j] /= sum;
}

static vn_status_t with_graphs(vn_eval_t *e, const flex_t *f, const double *q, const double *k, const double *v) {
    const int64_t rows = f->batch * f->heads * f->queries, n = f->keys;
    int64_t cells;
    if (!vn_i64_mul(rows, n, &cells)) return vn_eval_fail(e, VN_ERR_RANGE, "too many scores");
    double *s = vn_alloc((size_t)cells + 1, sizeof *s);
    if (!s) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t g = 0; g < f->batch * f->heads; ++g) {
        const int64_t kv = g / f->heads * f->kv_heads + g % f->heads / (f->heads / f->kv_heads);
        vn_dgemm(f->queries, n, f->size, q + g * f->queries * f->size, f->size, false, k + kv * n * f->size, f->size, true,
                 s + g * f->queries * n, n, false);
    }
    for (int64_t i = 0; i < cells; ++i) s[i] *= f->scale;
    vn_status_t st = modify(e, f, "score_mod", s);
    for (int64_t i = 0; st == VN_OK && i < rows; ++i) softmax(s + i * n, n);
    if (st == VN_OK) st = modify(e, f, "prob_mod", s);
    for (int64_t g = 0; st == VN_OK && g < f->batch * f->heads; ++g) {
        const int64_t kv = g / f->heads * f->kv_heads + g % f->heads / (f->heads / f->kv_heads);
        vn_dgemm(f->queries, f->v_size, n, s + g * f->queries * n, n, false, v + kv * n * f->v_size, f->v_size, false,
                 e->out[0].value + g * f->queries * f->v_size, f->v_size, false);
    }
    vn_free(s);
    VN_TRY(st);
    VN_TRY(vn_out_flags(e, 0));
    memset(e->out[0].flags, VN_EL_VOID, (size_t)e->out[0].count);
    for (int64_t i = 0; e->out[0].bound && i < e->out[0].count; ++i) e->out[0].bound[i] = INFINITY;
    return VN_OK;
}

vn_status_t vn_eval_flex(vn_eval_t *e) {
    flex_t f;
    VN_TRY(plan(e, &f));
    const double *q, *k, *v;
    double *own[3] = {NULL, NULL, NULL};
    vn_status_t s = vn_read_operand(e, 0, vn_arg_f64(e, 0), e->in[0].t->count, e->in[0].t->dtype, &q, &own[0]);
    if (s == VN_OK) s = vn_read_operand(e, 1, vn_arg_f64(e, 1), e->in[1].t->count, e->in[1].t->dtype, &k, &own[1]);
    if (s == VN_OK) s = vn_read_operand(e, 1, vn_arg_f64(e, 2), e->in[2].t->count, e->in[2].t->dtype, &v, &own[2]);
    if (s == VN_OK) s = vn_out_float(e, 0, e->in[0].t->dtype, 4, (int64_t[]){f.batch, f.heads, f.queries, f.v_size});
    if (s == VN_OK && (vn_node_attr(e->node, "score_mod") || vn_node_attr(e->node, "prob_mod"))) {
        s = with_graphs(e, &f, q, k, v);
    } else if (s == VN_OK) {
        vn_attention_t a = {.e = e,
                            .batch = f.batch,
                            .heads = f.heads,
                            .kv_heads = f.kv_heads,
                            .queries = f.queries,
                            .keys = f.keys,
                            .size = f.size,
                            .v_size = f.v_size,
                            .q = {q, vn_arg_err(e, 0), f.heads * f.queries * f.size, f.queries * f.size, f.size},
                            .k = {k, vn_arg_err(e, 1), f.kv_heads * f.keys * f.size, f.keys * f.size, f.size},
                            .v = {v, vn_arg_err(e, 2), f.kv_heads * f.keys * f.v_size, f.keys * f.v_size, f.v_size},
                            .scale = f.scale,
                            .left = -1,
                            .right = -1,
                            .sink = -INFINITY,
                            .k_out = 0,
                            .ob = f.heads * f.queries * f.v_size,
                            .oh = f.queries * f.v_size,
                            .oi = f.v_size,
                            .k_tap = -1,
                            .tap = VN_TAP_NONE,
                            .body16 = true};
        s = vn_attention_run(&a);
    }
    for (int i = 0; i < 3; ++i) vn_free(own[i]);
    return s;
}
