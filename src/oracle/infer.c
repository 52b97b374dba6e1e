/* infer.c -- types and shapes without running the graph: inputs, the walk over nodes and functions, declarations, the public result. */
#include <stdlib.h>
#include <string.h>

#include "oracle/infer.h"

/* ---- functions ---- */

static vn_status_t infer_function(vn_infer_node_t *n, const vn_function_t *f) {
    vn_infer_t *ctx = n->ctx;
    vn_fact_scope_t scope = {0};
    vn_status_t s = VN_OK;
    const vn_oracle_run_t saved = ctx->run;
    if (vn_infer_spent(n)) return VN_OK;
    if (ctx->depth >= VN_MAX_NESTING) return vn_infer_fail(n, VN_ERR_RANGE, "functions nested deeper than %d", VN_MAX_NESTING);
    ctx->run.opsets = f->opsets;
    ctx->run.n_opsets = f->n_opsets;
    ctx->run.call = n->node;
    ctx->run.function = f;
    ctx->depth++;
    for (int k = 0; k < f->n_inputs && s == VN_OK; ++k) {
        vn_fact_t *in;
        if (k >= n->n_in || !n->in[k]) continue;
        s = vn_facts_put(&scope, f->inputs[k], &in, n->err);
        if (s == VN_OK) vn_fact_copy(in, n->in[k]);
    }
    if (s == VN_OK) s = vn_infer_graph(ctx, &scope, f->body, n->err);
    if (s != VN_OK) vn_fail_prefix(n->err, "in function %s called by node %s", f->name, n->node->path);
    for (int k = 0; k < n->n_out && k < f->n_outputs && s == VN_OK; ++k) {
        const vn_fact_t *from = vn_facts_find(&scope, f->outputs[k]);
        if (from) vn_fact_copy(&n->out[k], from);
    }
    ctx->depth--;
    ctx->run = saved;
    vn_facts_clear(&scope);
    return s;
}

/* ---- what the file says ---- */

static int64_t symbol(const vn_infer_t *ctx, const char *param) {
    for (int k = 0; param && k < ctx->top->n_inputs; ++k) {
        const vn_value_info_t *in = &ctx->top->inputs[k];
        const vn_tensor_t *t = ctx->inputs ? vn_bundle_find(ctx->inputs, in->name) : NULL;
        if (!t || in->type.kind != VN_TYPE_TENSOR || in->type.rank != t->rank) continue;
        for (int d = 0; d < t->rank; ++d)
            if (in->type.dims[d].param && strcmp(in->type.dims[d].param, param) == 0 && t->dims[d] >= 0) return t->dims[d];
    }
    return -1;
}

/* Lists of lists have no place in a fact: of them only the kind is taken. */
static const vn_type_t *element_type(const vn_type_t *t) {
    static const vn_type_t open = {.kind = VN_TYPE_TENSOR, .rank = -1};
    if (t->kind == VN_TYPE_TENSOR || t->kind == VN_TYPE_SPARSE) return t;
    return t->elem && t->elem->kind == VN_TYPE_TENSOR && t->kind != VN_TYPE_MAP ? t->elem : &open;
}

/* Fills what is open from a declaration. True: it had something to say. */
static bool adopt(const vn_infer_t *ctx, vn_fact_t *f, const vn_type_t *type) {
    const vn_type_t *t = element_type(type);
    bool took = false;
    if (type->kind == VN_TYPE_NONE || (f->v.kind != VN_TYPE_NONE && f->v.kind != type->kind)) return false;
    if (f->v.kind == VN_TYPE_NONE) {
        f->v.kind = type->kind;
        f->v.rank = -1;
        f->v.length = type->kind == VN_TYPE_TENSOR || type->kind == VN_TYPE_SPARSE ? 1 : -1;
        took = true;
    }
    if (f->v.dtype == VN_UNDEFINED && t->dtype != VN_UNDEFINED) {
        f->v.dtype = t->dtype;
        took = true;
    }
    if (f->v.dtype != t->dtype || t->rank < 0 || t->rank > VN_MAX_RANK) return took;
    if (f->v.rank < 0) {
        f->v.rank = t->rank;
        for (int d = 0; d < t->rank; ++d) f->v.dims[d] = -1;
        took = true;
    }
    for (int d = 0; d < t->rank && f->v.rank == t->rank; ++d) {
        const int64_t value = t->dims[d].value >= 0 ? t->dims[d].value : symbol(ctx, t->dims[d].param);
        if (f->v.dims[d] >= 0 || value < 0) continue;
        f->v.dims[d] = value;
        took = true;
    }
    return took;
}

/* After a node: declarations fill what is open; every open fact has a reason. */
static void settle(const vn_infer_node_t *n, vn_fact_t *f) {
    const char *why = f->v.reason;
    if (!vn_fact_known(f)) {
        const vn_value_info_t *info = vn_graph_info(n->graph, f->v.name);
        if (info && adopt(n->ctx, f, &info->type)) f->v.declared = true;
    }
    if (vn_fact_known(f)) {
        f->v.reason = NULL;
        return;
    }
    for (int k = 0; k < n->n_in && !why; ++k) /* the node where it began */
        if (n->in[k]) why = n->in[k]->v.reason;
    if (!why) why = n->why;
    f->v.reason = why ? why : vn_infer_why(n, "the data of its inputs decide, and are not known");
}

/* ---- graphs ---- */

static vn_status_t infer_node(vn_infer_t *ctx, vn_fact_scope_t *scope, const vn_graph_t *g, const vn_node_t *original, vn_error_t *err) {
    vn_arena_t *arena = NULL;
    vn_node_t node;
    VN_TRY(vn_run_attrs(&ctx->run, original, &arena, &node, err));
    vn_infer_node_t n = {.ctx = ctx,
                         .graph = g,
                         .scope = scope,
                         .node = &node,
                         .n_in = node.n_inputs,
                         .n_out = node.n_outputs,
                         .err = err,
                         .version = vn_run_version(&ctx->run, node.domain)};
    n.row = n.version < 0 ? NULL : vn_registry_find(node.domain, node.op, n.version);
    n.in = vn_alloc(node.n_inputs ? (size_t)node.n_inputs : 1, sizeof *n.in);
    n.out = vn_alloc(node.n_outputs ? (size_t)node.n_outputs : 1, sizeof *n.out);
    vn_status_t s = n.in && n.out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "node %s: no memory", node.path);
    for (int k = 0; k < node.n_inputs && s == VN_OK; ++k)
        if (*node.inputs[k]) n.in[k] = vn_facts_find(scope, node.inputs[k]); /* absent inputs of a function stay absent */
    for (int k = 0; k < node.n_outputs && s == VN_OK; ++k) {
        n.out[k].v.name = node.outputs[k];
        vn_fact_clear(&n.out[k]);
    }
    if (ctx->depth > 0) ctx->steps++;
    if (s == VN_OK && n.row) {
        s = vn_infer_is_control(&node) ? vn_infer_control(&n) : vn_infer_operator(&n);
    } else if (s == VN_OK) {
        const vn_function_t *f = vn_model_function(ctx->run.model, node.domain, node.op, node.overload);
        if (f) s = infer_function(&n, f);
        for (int k = 0; k < node.n_outputs && !f && s == VN_OK; ++k) n.out[k].v.reason = vn_infer_why(&n, "the operator has no oracle");
    }
    for (int k = 0; k < node.n_outputs && s == VN_OK; ++k) {
        vn_fact_t *to;
        if (!*node.outputs[k]) continue;
        settle(&n, &n.out[k]);
        s = vn_facts_put(scope, original->outputs[k], &to, err);
        if (s == VN_OK) vn_fact_copy(to, &n.out[k]);
    }
    for (int k = 0; n.out && k < node.n_outputs; ++k) vn_fact_clear(&n.out[k]);
    vn_free(n.in);
    vn_free(n.out);
    vn_arena_free(arena);
    return s;
}

static vn_status_t put_init(vn_fact_scope_t *scope, const vn_init_t *init, vn_error_t *err) {
    vn_fact_t *f;
    vn_tensor_t *t;
    VN_TRY(vn_facts_put(scope, init->name, &f, err));
    VN_TRY(vn_tensor_contiguous(init->tensor, &t, err));
    return vn_fact_value(f, vn_value_tensor(t), err);
}

vn_status_t vn_infer_graph(vn_infer_t *ctx, vn_fact_scope_t *scope, const vn_graph_t *g, vn_error_t *err) {
    if (ctx->depth > VN_MAX_NESTING) return vn_fail(err, VN_ERR_RANGE, "bodies and functions nested deeper than %d", VN_MAX_NESTING);
    for (int i = 0; i < g->n_inits; ++i) {
        vn_fact_scope_t own = *scope; /* a run input of that name replaces the initialiser */
        own.outer = NULL;
        if (!vn_facts_find(&own, g->inits[i].name)) VN_TRY(put_init(scope, &g->inits[i], err));
    }
    for (int i = 0; i < g->n_nodes; ++i) VN_TRY(infer_node(ctx, scope, g, &g->nodes[i], err));
    return VN_OK;
}

/* ---- the call ---- */

static vn_status_t check_declared(const vn_value_info_t *in, const vn_tensor_t *t, vn_error_t *err) {
    const vn_type_t *d = &in->type;
    if (d->kind != VN_TYPE_TENSOR) return VN_OK;
    if (d->dtype != VN_UNDEFINED && d->dtype != t->dtype)
        return vn_fail(err, VN_ERR_DTYPE, "input %s is %s, the model declares %s", in->name, vn_dtype_name(t->dtype),
                       vn_dtype_name(d->dtype));
    if (d->rank < 0 || t->rank < 0) return VN_OK;
    char text[300];
    vn_type_describe(d, text, sizeof text);
    if (d->rank != t->rank) return vn_fail(err, VN_ERR_SHAPE, "input %s has %d dimensions, the model declares %s", in->name, t->rank, text);
    for (int k = 0; k < t->rank; ++k)
        if (d->dims[k].value >= 0 && t->dims[k] >= 0 && d->dims[k].value != t->dims[k])
            return vn_fail(err, VN_ERR_SHAPE, "input %s has %lld at dimension %d, the model declares %s", in->name, (long long)t->dims[k],
                           k, text);
    return VN_OK;
}

static const char *open_input(vn_infer_t *ctx, const vn_value_info_t *in) {
    char text[300];
    vn_type_describe(&in->type, text, sizeof text);
    const char *why = vn_arena_printf(ctx->arena, "input %s is declared %s and not given", in->name, text);
    if (!why) ctx->starved = true;
    return why;
}

static vn_status_t put_given(vn_fact_scope_t *scope, const char *name, const vn_tensor_t *t, vn_fact_t **f, vn_error_t *err) {
    VN_TRY(vn_facts_put(scope, name, f, err));
    vn_fact_tensor(*f, t->dtype, t->rank, t->dims);
    if (!t->data) return VN_OK;
    vn_tensor_t *dense;
    VN_TRY(vn_tensor_contiguous(t, &dense, err));
    return vn_fact_value(*f, vn_value_tensor(dense), err);
}

static vn_status_t put_input(vn_infer_t *ctx, vn_fact_scope_t *scope, const vn_value_info_t *in, vn_error_t *err) {
    const vn_tensor_t *t = ctx->inputs ? vn_bundle_find(ctx->inputs, in->name) : NULL;
    vn_fact_t *f;
    if (t) {
        VN_TRY(check_declared(in, t, err));
        VN_TRY(put_given(scope, in->name, t, &f, err));
    } else if (vn_graph_init(ctx->top, in->name)) {
        return VN_OK; /* its default stands */
    } else {
        VN_TRY(vn_facts_put(scope, in->name, &f, err));
    }
    if (!vn_fact_known(f)) adopt(ctx, f, &in->type);
    if (!vn_fact_known(f)) f->v.reason = open_input(ctx, in);
    return VN_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const vn_inferred_value_t *const *)a)->name, (*(const vn_inferred_value_t *const *)b)->name);
}

static vn_status_t publish(vn_infer_t *ctx, vn_fact_scope_t *scope, vn_inferred_t *out, vn_error_t *err) {
    out->values = vn_arena_alloc(ctx->arena, scope->count ? (size_t)scope->count : 1, sizeof *out->values);
    out->by_name = vn_arena_alloc(ctx->arena, scope->count ? (size_t)scope->count : 1, sizeof *out->by_name);
    if (!out->values || !out->by_name) return vn_fail(err, VN_ERR_NOMEM, "inference: no memory for %d values", scope->count);
    for (int i = 0; i < scope->count; ++i) {
        vn_fact_t *f = scope->facts[i];
        out->known += vn_fact_known(f);
        out->values[i] = f->v;
        out->by_name[i] = &out->values[i];
        f->v.value = NULL; /* moved */
    }
    out->count = scope->count;
    qsort(out->by_name, (size_t)out->count, sizeof *out->by_name, by_name);
    return VN_OK;
}

vn_status_t vn_oracle_infer(const vn_model_t *m, const vn_bundle_t *inputs, vn_inferred_t *out, vn_error_t *err) {
    *out = (vn_inferred_t){.arena = vn_arena_new()};
    if (!out->arena) return vn_fail(err, VN_ERR_NOMEM, "inference: no memory");
    vn_contract_t contract;
    vn_error_t local = {0}; /* rows write texts that are looked at here */
    /* with bounds: only then rows say which elements are open (index out of range) */
    vn_infer_t ctx = {
        .run = {.model = m, .contract = &contract, .want = VN_WANT_BOUND, .opsets = m->opsets, .n_opsets = m->n_opsets, .prefix = ""},
        .arena = out->arena,
        .top = m->graph,
        .inputs = inputs,
        .work = VN_INFER_WORK};
    vn_fact_scope_t scope = {0};
    vn_status_t s = vn_contract_builtin("portable", &contract) ? VN_OK : vn_fail(&local, VN_ERR_INTERNAL, "no contract 'portable'");
    for (int k = 0; inputs && k < inputs->count && s == VN_OK; ++k) {
        const vn_named_t *in = &inputs->items[k];
        vn_fact_t *f;
        if (vn_graph_input(m->graph, in->name)) continue;
        if (vn_graph_init(m->graph, in->name)) s = put_given(&scope, in->name, in->tensor, &f, &local);
        else s = vn_fail(&local, VN_ERR_NOTFOUND, "the model has no input %s", in->name);
    }
    for (int k = 0; k < m->graph->n_inputs && s == VN_OK; ++k) s = put_input(&ctx, &scope, &m->graph->inputs[k], &local);
    if (s == VN_OK) s = vn_infer_graph(&ctx, &scope, m->graph, &local);
    if (s == VN_OK && ctx.starved) s = vn_fail(&local, VN_ERR_NOMEM, "inference: no memory");
    if (s == VN_OK) s = publish(&ctx, &scope, out, &local);
    vn_facts_clear(&scope);
    if (s == VN_OK) return VN_OK;
    vn_inferred_free(out);
    return vn_fail(err, s, "%s", local.text);
}

const vn_inferred_value_t *vn_inferred_find(const vn_inferred_t *r, const char *name) {
    const vn_inferred_value_t key = {.name = name}, *k = &key;
    const vn_inferred_value_t **at = r->count ? bsearch(&k, r->by_name, (size_t)r->count, sizeof *r->by_name, by_name) : NULL;
    return at ? *at : NULL;
}

void vn_inferred_free(vn_inferred_t *r) {
    for (int i = 0; i < r->count; ++i) vn_value_free(r->values[i].value);
    vn_arena_free(r->arena);
    *r = (vn_inferred_t){0};
}

vn_status_t vn_infer_input(vn_bundle_t *inputs, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err) {
    if (t <= VN_UNDEFINED || t >= VN_DTYPE_COUNT) return vn_fail(err, VN_ERR_DTYPE, "input %s: element type %d is unknown", name, (int)t);
    if (rank < -1 || rank > VN_MAX_RANK) return vn_fail(err, VN_ERR_RANGE, "input %s: rank %d", name, rank);
    vn_tensor_t *x = vn_alloc(1, sizeof *x);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "input %s: no memory", name);
    x->dtype = t;
    x->rank = rank;
    x->refs = 1;
    for (int k = 0; k < rank; ++k) x->dims[k] = dims && dims[k] >= 0 ? dims[k] : -1;
    const vn_status_t s = vn_bundle_add(inputs, name, x, err);
    vn_tensor_free(x);
    return s;
}
