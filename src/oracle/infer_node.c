/* infer_node.c -- one operator under inference, in this order: the row's `infer` where every shape is known; the row's `eval` where all
 * operands have elements and the result is small; else the rules of infer_common.c, which also know dimensions that are open.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "oracle/infer.h"

vn_status_t vn_infer_fail(const vn_infer_node_t *n, vn_status_t s, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return vn_fail(n->err, s, "node %s (%s%s%s): %s", n->node->path, n->node->domain, *n->node->domain ? "." : "", n->node->op, text);
}

const char *vn_infer_why(const vn_infer_node_t *n, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *why = vn_arena_printf(n->ctx->arena, "node %s (%s%s%s): %s", n->node->path, n->node->domain, *n->node->domain ? "." : "",
                                      n->node->op, text);
    if (!why) n->ctx->starved = true;
    return why;
}

bool vn_infer_has(const vn_infer_node_t *n, int k) { return k < n->n_in && n->in[k] && n->in[k]->v.kind == VN_TYPE_TENSOR; }

/* ---- operands as rows see them ---- */

static void row_major(vn_tensor_t *t) {
    int64_t step = 1;
    for (int k = t->rank - 1; k >= 0; --k) {
        t->strides[k] = step;
        step *= t->dims[k] > 0 ? t->dims[k] : 1;
    }
}

/* A header that rows may read everything of but data. */
static vn_status_t bare_tensor(const vn_infer_node_t *n, int k, vn_tensor_t *t) {
    const vn_inferred_value_t *v = &n->in[k]->v;
    int64_t span = 1;
    size_t bytes;
    *t = (vn_tensor_t){.dtype = v->dtype, .rank = v->rank, .count = 1, .refs = 1};
    for (int d = 0; d < v->rank; ++d) {
        t->dims[d] = v->dims[d];
        if (!vn_i64_mul(span, v->dims[d] ? v->dims[d] : 1, &span) || !vn_dtype_storage(v->dtype, span, &bytes))
            return vn_infer_fail(n, VN_ERR_RANGE, "the size of input %d (%s) overflows", k, n->node->inputs[k]);
    }
    for (int d = 0; d < v->rank; ++d) t->count *= v->dims[d];
    row_major(t);
    return VN_OK;
}

vn_status_t vn_operands_open(const vn_infer_node_t *n, vn_operands_t *o) {
    const size_t ni = n->n_in ? (size_t)n->n_in : 1, no = n->n_out ? (size_t)n->n_out : 1;
    *o = (vn_operands_t){.args = vn_alloc(ni, sizeof *o->args),
                         .bare = vn_alloc(ni, sizeof *o->bare),
                         .out = vn_alloc(no, sizeof *o->out),
                         .shaped = true,
                         .known = true};
    if (!o->args || !o->bare || !o->out) return vn_infer_fail(n, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < n->n_in; ++k) {
        const vn_fact_t *f = n->in[k];
        if (!f) continue;
        if (f->v.value) {
            o->args[k].v = f->v.value;
            o->args[k].t = f->v.kind == VN_TYPE_TENSOR ? f->v.value->tensor : NULL;
            o->shaped &= f->v.kind == VN_TYPE_TENSOR;
            o->touched += f->v.kind == VN_TYPE_TENSOR ? o->args[k].t->count : 0;
            continue;
        }
        o->known = false;
        if (!vn_fact_shaped(f)) {
            o->shaped = false;
            continue;
        }
        VN_TRY(bare_tensor(n, k, &o->bare[k]));
        o->args[k].t = &o->bare[k];
    }
    return VN_OK;
}

void vn_operands_close(const vn_infer_node_t *n, vn_operands_t *o) {
    for (int k = 0; o->out && k < n->n_out; ++k) vn_ref_free(&o->out[k]);
    for (int k = 0; o->args && k < n->n_in; ++k) vn_arg_clear(&o->args[k]);
    vn_free(o->args);
    vn_free(o->bare);
    vn_free(o->out);
}

/* A row's own text names the node already; that of a helper below it does not. */
static vn_status_t named(const vn_infer_node_t *n, vn_status_t s) {
    if (s != VN_OK && strncmp(n->err->text, "node ", 5) != 0) vn_fail_prefix(n->err, "node %s (%s)", n->node->path, n->node->op);
    return s;
}

vn_status_t vn_infer_row(const vn_infer_node_t *n, vn_arg_t *args, vn_ref_t *out, vn_error_t *err) {
    vn_dtype_t main = VN_F32;
    for (int k = n->n_in - 1; k >= 0; --k)
        if (args[k].t && vn_dtype_is_float(args[k].t->dtype)) main = args[k].t->dtype;
    vn_contract_t contract = vn_contract_resolve(n->ctx->run.contract, main);
    vn_eval_t e = {.model = n->ctx->run.model,
                   .graph = n->graph,
                   .node = n->node,
                   .version = n->version,
                   .contract = &contract,
                   .want = VN_WANT_VALUE,
                   .n_in = n->n_in,
                   .n_out = n->n_out,
                   .in = args,
                   .out = out,
                   .run = &n->ctx->run,
                   .err = err};
    VN_TRY(vn_operands_check(&e));
    return n->row->infer(&e);
}

/* ---- results ---- */

static int64_t total(const vn_ref_t *out, int n) {
    int64_t sum = 0, one;
    for (int k = 0; k < n; ++k) {
        one = 1;
        for (int d = 0; d < out[k].rank; ++d)
            if (!vn_i64_mul(one, out[k].dims[d], &one)) return INT64_MAX;
        if (!vn_i64_add(sum, one, &sum)) return INT64_MAX;
    }
    return sum;
}

static void take_shapes(vn_infer_node_t *n, const vn_ref_t *out) {
    for (int k = 0; k < n->n_out; ++k) {
        if (!*n->node->outputs[k] || out[k].dtype == VN_UNDEFINED) continue;
        vn_fact_tensor(&n->out[k], out[k].dtype, out[k].rank, out[k].dims);
    }
}

/* A value that the oracle leaves open in some element (index out of range, draws) is not known. */
static bool decided(const vn_ref_t *r) {
    if (r->is_random) return false;
    for (int64_t i = 0; r->flags && i < r->count; ++i)
        if (r->flags[i] & VN_EL_VOID) return false;
    for (int i = 0; i < r->n_readings; ++i)
        if (r->readings[i].value->rank != r->rank || memcmp(r->readings[i].value->dims, r->dims, (size_t)r->rank * sizeof *r->dims))
            return false;
    return true;
}

static vn_status_t take_values(vn_infer_node_t *n, const vn_ref_t *out) {
    for (int k = 0; k < n->n_out; ++k) {
        vn_fact_t *f = &n->out[k];
        if (!*n->node->outputs[k] || (!out[k].tensor && !out[k].nested)) continue;
        VN_TRY(vn_fact_value(f, vn_ref_value(&out[k]), n->err));
        if (decided(&out[k])) continue;
        vn_fact_forget(f);
        bool changed = false; /* readings may differ in shape */
        for (int i = 0; i < out[k].n_readings; ++i) {
            vn_fact_t other = {.v = {.name = f->v.name}};
            vn_fact_tensor(&other, out[k].dtype, out[k].readings[i].value->rank, out[k].readings[i].value->dims);
            vn_fact_join(f, &other, &changed);
        }
        if (changed) f->v.reason = vn_infer_why(n, "the standard leaves the shape open (reading %s)", out[k].readings[0].name);
    }
    return VN_OK;
}

/* Small enough to compute, and the call has not computed too much already. */
static bool affordable(vn_infer_node_t *n, const vn_operands_t *o, bool shapes_known) {
    const int64_t results = shapes_known ? total(o->out, n->n_out) : 0;
    if (o->touched > 8 * VN_INFER_SMALL || results > VN_INFER_SMALL || n->ctx->work < 0) return false;
    n->ctx->work -= o->touched + results;
    return true;
}

static vn_status_t evaluate(vn_infer_node_t *n, vn_operands_t *o) {
    for (int k = 0; k < n->n_out; ++k) vn_ref_free(&o->out[k]);
    VN_TRY(named(n, vn_frame_node(&n->ctx->run, n->graph, n->node, o->args, NULL, o->out, n->err)));
    return take_values(n, o->out);
}

/* Their elements follow from the operand's shape alone; the rules give them, as far as it is known. */
static bool asks_for_shape(const vn_node_t *node) {
    return !*node->domain && (strcmp(node->op, "Shape") == 0 || strcmp(node->op, "Size") == 0);
}

static const char *keep_text(const vn_infer_node_t *n) {
    const char *text = vn_arena_strdup(n->ctx->arena, n->err->text);
    if (!text) n->ctx->starved = true;
    return text;
}

vn_status_t vn_infer_operator(vn_infer_node_t *n) {
    if (asks_for_shape(n->node)) return named(n, vn_infer_by_rule(n));
    vn_operands_t o;
    bool done = false, open = false;
    vn_status_t s = vn_operands_open(n, &o);
    if (s == VN_OK && o.shaped && n->row->infer) {
        s = named(n, vn_infer_row(n, o.args, o.out, n->err));
        done = s == VN_OK;
        open = s == VN_ERR_UNSUPPORTED;
        if (done) take_shapes(n, o.out);
    }
    if (open) {
        n->why = keep_text(n);
        s = VN_OK;
    }
    if (s == VN_OK && o.known && n->row->cls != VN_CLASS_RANDOM && affordable(n, &o, done)) {
        s = evaluate(n, &o);
        open = s == VN_ERR_UNSUPPORTED;
        done |= s == VN_OK;
        if (open) {
            n->why = keep_text(n);
            s = VN_OK;
        }
    }
    vn_operands_close(n, &o);
    if (s == VN_OK && !done) {
        s = named(n, vn_infer_by_rule(n));
        if (s == VN_ERR_UNSUPPORTED) s = VN_OK;
    }
    return s == VN_OK ? vn_infer_parts(n) : s;
}
