/* op_flex_attention.c -- FlexAttention of ai.onnx.preview: attention whose scores and weights may pass through graphs of the user.
 *
 * Without graphs: ATTN-1. With graphs: claim ATTN-FLEX, the standard's body as a region (REGION-1): scale, Q K^T, Cast to softmax_precision,
 * the graph, Softmax, the graph, Cast back, times V, each a row with its own bound, composed. Q and K are both scaled by sqrt(scale) first:
 * 2 u sum |q k| pays for every place where an implementation may put the factor.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"
#include "oracle/frame.h"
#include "oracle/items.h"

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

/* ---- with graphs: the standard's body, operator by operator ---- */

enum { BODY_OPSET = 23 };

/* The region in which the body's own operators run: those of the standard, whatever the model imports. */
static vn_oracle_run_t body_run(const vn_eval_t *e) {
    static const vn_opset_t opsets[] = {{"", BODY_OPSET}};
    vn_oracle_run_t run = *e->run;
    run.region = true;
    run.opsets = opsets;
    run.n_opsets = 1;
    run.fn = NULL;
    run.given = NULL;
    return run;
}

static void arg_of(const vn_item_t *i, vn_arg_t *a) {
    *a = (vn_arg_t){.t = i->value->tensor, .v = i->value, .unknown = i->plane[VN_ITEM_MARKS] != NULL};
    if (!i->plane[VN_ITEM_BOUND]) return;
    a->value = i->plane[VN_ITEM_VALUE]->data;
    a->err = i->plane[VN_ITEM_BOUND]->data;
    if (i->plane[VN_ITEM_VAR]) a->var = i->plane[VN_ITEM_VAR]->data;
}

/* *x <- op(*x, y); y may be NULL. */
static vn_status_t step(vn_eval_t *e, const char *op, vn_attr_t *attr, vn_item_t *x, const vn_item_t *y) {
    vn_oracle_run_t run = body_run(e);
    static const char *names[] = {"x", "y"}, *result[] = {"z"};
    const vn_node_t node = {.name = "",
                            .path = e->node->path,
                            .op = op,
                            .domain = "",
                            .overload = "",
                            .n_inputs = y ? 2 : 1,
                            .n_outputs = 1,
                            .inputs = names,
                            .outputs = result,
                            .n_attrs = attr ? 1 : 0,
                            .attrs = attr};
    vn_arg_t in[2] = {{.t = NULL}};
    vn_ref_t out = {0};
    arg_of(x, &in[0]);
    if (y) arg_of(y, &in[1]);
    vn_status_t s = vn_frame_node(&run, NULL, &node, in, NULL, &out, e->err);
    vn_arg_clear(&in[0]);
    vn_arg_clear(&in[1]);
    vn_item_clear(x);
    vn_value_t *v = s == VN_OK ? vn_ref_value(&out) : NULL;
    if (s == VN_OK && !v) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_item_of_ref(e->err, v, &out, x);
    vn_value_free(v);
    vn_ref_free(&out);
    return s;
}

static vn_status_t cast(vn_eval_t *e, vn_dtype_t to, vn_item_t *x) {
    vn_attr_t attr = {.name = "to", .kind = VN_ATTR_INT, .i = to};
    return x->value->tensor->dtype == to ? VN_OK : step(e, "Cast", &attr, x, NULL);
}

/* Value and planes under other dims. */
static vn_status_t reshape(vn_eval_t *e, int rank, const int64_t *dims, vn_item_t *x) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_reshape(x->value->tensor, rank, dims, &t, e->err));
    vn_value_free(x->value);
    if (!(x->value = vn_value_tensor(t))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int p = 0; p < VN_ITEM_PLANES; ++p) {
        if (!x->plane[p]) continue;
        VN_TRY(vn_tensor_reshape(x->plane[p], rank, dims, &t, e->err));
        vn_tensor_free(x->plane[p]);
        x->plane[p] = t;
    }
    return VN_OK;
}

/* *x <- graph(*x); shape and type must come back. */
static vn_status_t modify(vn_eval_t *e, const char *name, vn_item_t *x) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    if (!a || !a->g) return VN_OK;
    vn_oracle_run_t run = *e->run;
    vn_eval_t inner = *e;
    vn_item_t out;
    char before[300], after[300] = "";
    run.region = true;
    run.fn = NULL;
    inner.run = &run;
    VN_TRY(vn_run_items(&inner, a->g, name, 1, x, 1, &out));
    vn_tensor_describe(x->value->tensor, before, sizeof before);
    if (out.value->kind == VN_VALUE_TENSOR) vn_tensor_describe(out.value->tensor, after, sizeof after);
    vn_item_clear(x);
    *x = out;
    return strcmp(before, after) == 0 ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "%s changes the type or shape of its operand", name);
}

/* sqrt(scale) in the operand's type, as a scalar whose own rounding is uncertain. */
static vn_status_t root_of(vn_eval_t *e, double scale, vn_dtype_t t, vn_item_t *out) {
    vn_tensor_t *one;
    *out = (vn_item_t){.value = NULL};
    VN_TRY(vn_tensor_new(t, 0, NULL, &one, e->err));
    const double root = sqrt(scale), u = vn_format_info(vn_format_of(t))->u;
    vn_tensor_set_f64(one, 0, root);
    if (!(out->value = vn_value_tensor(one))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const double planes[] = {root, u * root, u * u * root * root / 3};
    for (int p = VN_ITEM_VALUE; p <= VN_ITEM_VAR; ++p) {
        VN_TRY(vn_tensor_new(VN_F64, 0, NULL, &out->plane[p], e->err));
        vn_tensor_set_f64(out->plane[p], 0, planes[p]);
    }
    return VN_OK;
}

static vn_status_t compose(vn_eval_t *e, const flex_t *f, vn_item_t *q, vn_item_t *k, vn_item_t *v) {
    static const int64_t swap[] = {0, 1, 2, 4, 3};
    const int64_t group = f->kv_heads ? f->heads / f->kv_heads : 0;
    vn_attr_t perm = {.name = "perm", .kind = VN_ATTR_INTS, .count = 5, .ints = swap},
              axis = {.name = "axis", .kind = VN_ATTR_INT, .i = -1};
    vn_item_t root;
    if (!(f->scale >= 0)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a scale of %g together with graphs", f->scale);
    vn_status_t s = root_of(e, f->scale, e->in[0].t->dtype, &root);
    if (s == VN_OK) s = reshape(e, 5, (int64_t[]){f->batch, f->kv_heads, group, f->queries, f->size}, q);
    if (s == VN_OK) s = reshape(e, 5, (int64_t[]){f->batch, f->kv_heads, 1, f->keys, f->size}, k);
    if (s == VN_OK) s = reshape(e, 5, (int64_t[]){f->batch, f->kv_heads, 1, f->keys, f->v_size}, v);
    if (s == VN_OK) s = step(e, "Mul", NULL, q, &root);
    if (s == VN_OK) s = step(e, "Mul", NULL, k, &root);
    if (s == VN_OK) s = step(e, "Transpose", &perm, k, NULL);
    if (s == VN_OK) s = step(e, "MatMul", NULL, q, k);
    if (s == VN_OK) s = cast(e, f->precision, q);
    if (s == VN_OK) s = reshape(e, 4, (int64_t[]){f->batch, f->heads, f->queries, f->keys}, q);
    if (s == VN_OK) s = modify(e, "score_mod", q);
    if (s == VN_OK) s = step(e, "Softmax", &axis, q, NULL);
    if (s == VN_OK) s = modify(e, "prob_mod", q);
    if (s == VN_OK) s = cast(e, e->in[0].t->dtype, q);
    if (s == VN_OK) s = reshape(e, 5, (int64_t[]){f->batch, f->kv_heads, group, f->queries, f->keys}, q);
    if (s == VN_OK) s = step(e, "MatMul", NULL, q, v);
    if (s == VN_OK) s = reshape(e, 4, (int64_t[]){f->batch, f->heads, f->queries, f->v_size}, q);
    vn_item_clear(&root);
    return s;
}

static vn_status_t with_graphs(vn_eval_t *e, const flex_t *f) {
    vn_item_t x[3] = {{.value = NULL}};
    vn_status_t s = VN_OK;
    for (int i = 0; i < 3 && s == VN_OK; ++i) s = vn_item_of_arg(e, i, &x[i]);
    if (s == VN_OK) s = compose(e, f, &x[0], &x[1], &x[2]);
    if (s == VN_OK) s = vn_item_out(e, 0, &x[0]);
    for (int i = 0; i < 3; ++i) vn_item_clear(&x[i]);
    return s;
}

vn_status_t vn_eval_flex(vn_eval_t *e) {
    flex_t f;
    VN_TRY(plan(e, &f));
    if (vn_node_attr(e->node, "score_mod") || vn_node_attr(e->node, "prob_mod")) return with_graphs(e, &f);
    const double *q, *k, *v;
    double *own[3] = {NULL, NULL, NULL};
    vn_status_t s = vn_read_operand(e, 0, vn_arg_f64(e, 0), e->in[0].t->count, e->in[0].t->dtype, &q, &own[0]);
    if (s == VN_OK) s = vn_read_operand(e, 1, vn_arg_f64(e, 1), e->in[1].t->count, e->in[1].t->dtype, &k, &own[1]);
    if (s == VN_OK) s = vn_read_operand(e, 1, vn_arg_f64(e, 2), e->in[2].t->count, e->in[2].t->dtype, &v, &own[2]);
    if (s == VN_OK) s = vn_out_float(e, 0, e->in[0].t->dtype, 4, (int64_t[]){f.batch, f.heads, f.queries, f.v_size});
    if (s == VN_OK) {
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
