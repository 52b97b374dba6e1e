/* executor.c -- graphs in order of execution: the reference trajectory, regions judged as one operator, bodies of control flow, functions. */
#include <stdio.h>
#include <string.h>

#include "oracle/frame.h"
#include "oracle/items.h"

enum { MAX_DEPTH = VN_MAX_NESTING };

/* ---- how often a name is read: tensors die after their last use ---- */

static vn_status_t count_read(vn_scope_t *plan, const char *name, vn_error_t *err) {
    if (!*name) return VN_OK;
    vn_slot_t *slot = vn_scope_local(plan, name);
    if (!slot) return vn_scope_put(plan, name, NULL, NULL, 1, err);
    if (slot->uses >= 0) slot->uses++;
    return VN_OK;
}

static bool has_body(const vn_node_t *n) {
    for (int a = 0; a < n->n_attrs; ++a)
        if (n->attrs[a].kind == VN_ATTR_GRAPH || n->attrs[a].kind == VN_ATTR_GRAPHS) return true;
    return false;
}

/* Calls fn for every name a node reads, those that its bodies capture included. */
typedef vn_status_t (*name_fn)(void *ctx, const char *name, vn_error_t *err);
static vn_status_t each_read(const vn_node_t *n, name_fn fn, void *ctx, vn_error_t *err) {
    for (int k = 0; k < n->n_inputs; ++k) VN_TRY(fn(ctx, n->inputs[k], err));
    if (!has_body(n)) return VN_OK;
    for (int a = 0; a < n->n_attrs; ++a) {
        int64_t graphs = n->attrs[a].kind == VN_ATTR_GRAPH ? 1 : n->attrs[a].kind == VN_ATTR_GRAPHS ? n->attrs[a].count : 0;
        for (int64_t g = 0; g < graphs; ++g) {
            const char **names;
            int count;
            VN_TRY(vn_graph_captures(n->attrs[a].kind == VN_ATTR_GRAPH ? n->attrs[a].g : n->attrs[a].graphs[g], &names, &count, err));
            vn_status_t s = VN_OK;
            for (int i = 0; i < count && s == VN_OK; ++i) s = fn(ctx, names[i], err);
            vn_free(names);
            VN_TRY(s);
        }
    }
    return VN_OK;
}

static vn_status_t plan_read(void *ctx, const char *name, vn_error_t *err) { return count_read(ctx, name, err); }

static vn_status_t drop_read(void *ctx, const char *name, vn_error_t *err) {
    (void)err;
    vn_slot_t *slot = *name ? vn_scope_local(ctx, name) : NULL;
    if (slot && slot->uses > 0 && --slot->uses == 0) {
        vn_value_free(slot->value);
        slot->value = NULL;
        if (slot->ref) vn_ref_free(slot->ref);
        vn_free(slot->ref);
        slot->ref = NULL;
        slot->uses = 0;
    }
    return VN_OK;
}

/* ---- operands ---- */

static bool all_zero(const double *p, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        if (p[i] != 0) return false;
    return true;
}

/* Some element is no statement: void, one of two in a tie that nobody can foresee, or drawn. */
static bool unknown_elements(const vn_ref_t *r) {
    if (r->is_random && !r->bound) return true;
    if (!r->value && r->bound && !all_zero(r->bound, r->count)) return true; /* integers within a few steps */
    for (int64_t i = 0; r->flags && i < r->count; ++i)
        if (r->flags[i] & VN_EL_VOID) return true;
    return r->dtype != VN_BOOL && r->either && r->tensor && !vn_tensor_equal_bits(r->either, r->tensor);
}

static vn_status_t take_operand(const vn_oracle_run_t *run, const vn_scope_t *scope, const vn_node_t *node, int k, vn_arg_t *arg,
                                vn_value_t **hold, vn_tensor_t **contiguous, vn_error_t *err) {
    const char *name = node->inputs[k];
    const vn_tensor_t *given;
    if (!*name) return VN_OK;
    vn_slot_t *slot = vn_scope_find(scope, name, &given);
    if (!slot && !given) return vn_fail(err, VN_ERR_NOTFOUND, "node %s: input %s was not computed", node->path, name);
    if (slot && !slot->value)
        return vn_fail(err, VN_ERR_NOTFOUND, "node %s: input %s was not computed (the operator before it has no oracle)", node->path, name);
    vn_value_t *v = slot ? vn_value_retain(slot->value) : vn_value_tensor(vn_tensor_retain(given));
    if (!v) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    *hold = v;
    arg->v = v;
    if (v->kind != VN_VALUE_TENSOR) {
        arg->unknown = run->region && slot && slot->ref && slot->ref->nested_open;
        return VN_OK;
    }
    VN_TRY(vn_tensor_contiguous(v->tensor, contiguous, err));
    arg->t = *contiguous;
    if (run->region && slot && slot->ref) arg->unknown = unknown_elements(slot->ref);
    if (run->region && slot && slot->ref && slot->ref->dtype == VN_BOOL) arg->either = slot->ref->either;
    if (run->region && slot && slot->ref && slot->ref->value) {
        const vn_ref_t *r = slot->ref;
        arg->value = r->value;
        arg->terms = r->terms;
        if (r->bound && !all_zero(r->bound, r->count)) {
            arg->err = r->bound;
            arg->var = r->var;
        }
    }
    return VN_OK;
}

vn_status_t vn_run_attrs(const vn_oracle_run_t *run, const vn_node_t *node, vn_arena_t **arena, vn_node_t *copy, vn_error_t *err) {
    bool any = false;
    for (int a = 0; a < node->n_attrs; ++a) any |= node->attrs[a].ref != NULL;
    *copy = *node;
    if (!any || !run->function) return VN_OK;
    if (!*arena && !(*arena = vn_arena_new())) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_attr_t *attrs = vn_arena_alloc(*arena, (size_t)node->n_attrs, sizeof *attrs);
    if (!attrs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    int n = 0;
    for (int a = 0; a < node->n_attrs; ++a) {
        const vn_attr_t *from = &node->attrs[a];
        if (from->ref) {
            const char *name = from->name, *ref = from->ref;
            from = vn_node_attr(run->call, ref);
            for (int d = 0; !from && d < run->function->n_attr_defaults; ++d)
                if (strcmp(run->function->attr_defaults[d].name, ref) == 0) from = &run->function->attr_defaults[d];
            if (!from) continue; /* not given: the attribute is absent */
            attrs[n] = *from;
            attrs[n++].name = name;
        } else {
            attrs[n++] = *from;
        }
    }
    copy->attrs = attrs;
    copy->n_attrs = n;
    return VN_OK;
}

static void row_path(const vn_oracle_run_t *run, const vn_node_t *node, char *out, size_t size) {
    if (!*run->prefix) {
        snprintf(out, size, "%s", node->path);
        return;
    }
    const char *last = strrchr(node->path, '/');
    snprintf(out, size, "%s/%s", run->prefix, last && run->depth ? last + 1 : node->path);
}

/* ---- one node ---- */

static vn_status_t run_node(vn_oracle_run_t *run, vn_scope_t *scope, const vn_scope_t *plan, const vn_graph_t *g, const vn_node_t *original,
                            vn_error_t *err) {
    vn_arena_t *arena = NULL;
    vn_node_t node;
    vn_error_t why = {0};
    vn_status_t s = vn_run_attrs(run, original, &arena, &node, err);
    if (s != VN_OK) {
        vn_arena_free(arena);
        return s;
    }
    const size_t ni = node.n_inputs ? (size_t)node.n_inputs : 1, no = node.n_outputs ? (size_t)node.n_outputs : 1;
    vn_arg_t *in = vn_alloc(ni, sizeof *in);
    vn_value_t **hold = vn_alloc(ni, sizeof *hold);
    vn_tensor_t **contiguous = vn_alloc(ni, sizeof *contiguous);
    vn_ref_t *out = vn_alloc(no, sizeof *out);
    vn_status_t step = VN_OK;
    char path[1024];
    row_path(run, &node, path, sizeof path);
    if (!in || !hold || !contiguous || !out) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < node.n_inputs && s == VN_OK && step == VN_OK; ++k)
        step = take_operand(run, scope, &node, k, &in[k], &hold[k], &contiguous[k], &why);
    if (s == VN_OK && step == VN_OK) {
        vn_scope_t *saved = run->scope;
        run->scope = scope;
        step = vn_frame_node(run, g, &node, in, scope->bundle, out, &why);
        run->scope = saved;
    }
    if (s == VN_OK && step == VN_ERR_NOMEM) s = vn_fail(err, step, "%s", why.text);
    /* Without anybody to tell (regions, bodies of isolated nodes) a node that fails ends the run. */
    if (s == VN_OK && step != VN_OK && !run->fn) s = vn_fail(err, step, "%s", why.text);
    if (s == VN_OK && run->fn) {
        vn_step_t show = {.node = &node,
                          .path = path,
                          .graph = g,
                          .inputs = (const vn_value_t *const *)hold,
                          .outer = scope->bundle,
                          .refs = out,
                          .status = step,
                          .error = &why,
                          .top = run->depth == 0};
        s = run->fn(run->fn_ctx, &show, err);
    }
    for (int k = 0; out && k < node.n_outputs; ++k) {
        const char *name = original->outputs[k];
        vn_slot_t *reads = *name ? vn_scope_local(plan, name) : NULL;
        const bool wanted = reads && s == VN_OK && step == VN_OK;
        vn_value_t *value = wanted ? vn_ref_value(&out[k]) : NULL;
        vn_ref_t *keep = NULL;
        if (wanted && !value) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
        if (wanted && run->region && value) {
            keep = vn_alloc(1, sizeof *keep);
            if (keep) {
                *keep = out[k];
                out[k] = (vn_ref_t){0};
            } else {
                s = vn_fail(err, VN_ERR_NOMEM, "no memory");
            }
        }
        if (*name && reads && (s == VN_OK || value)) {
            vn_status_t put = vn_scope_put(scope, name, value, keep, reads->uses, err);
            if (s == VN_OK) s = put;
        }
        vn_ref_free(&out[k]);
    }
    for (int k = 0; k < node.n_inputs; ++k) {
        if (in) vn_arg_clear(&in[k]);
        if (contiguous) vn_tensor_free(contiguous[k]);
        if (hold) vn_value_free(hold[k]);
    }
    vn_free(in);
    vn_free(hold);
    vn_free(contiguous);
    vn_free(out);
    vn_arena_free(arena);
    if (s == VN_OK) s = each_read(original, drop_read, scope, err);
    return s;
}

vn_status_t vn_run_graph(vn_oracle_run_t *run, vn_scope_t *scope, const vn_graph_t *g, vn_error_t *err) {
    if (run->depth > MAX_DEPTH) return vn_fail(err, VN_ERR_RANGE, "bodies and functions nested deeper than %d", MAX_DEPTH);
    vn_scope_t plan = {0};
    vn_status_t s = VN_OK;
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) s = each_read(&g->nodes[i], plan_read, &plan, err);
    for (int i = 0; i < g->n_outputs && s == VN_OK; ++i) s = vn_scope_put(&plan, g->outputs[i].name, NULL, NULL, -1, err);
    for (int i = 0; i < g->n_inits && s == VN_OK; ++i) {
        vn_slot_t *given = vn_scope_local(scope, g->inits[i].name), *reads = vn_scope_local(&plan, g->inits[i].name);
        if (given || !reads) continue; /* a run input of that name replaces the initialiser */
        vn_value_t *v = vn_value_tensor(vn_tensor_retain(g->inits[i].tensor));
        s = v ? vn_scope_put(scope, g->inits[i].name, v, NULL, reads->uses, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) s = run_node(run, scope, &plan, g, &g->nodes[i], err);
    vn_scope_clear(&plan);
    return s;
}

/* ---- bodies and functions ---- */

/* Outputs of a body that has run: values with what is uncertain about them (NULL refs outside regions). */
static vn_status_t take_items(vn_eval_t *e, const vn_scope_t *scope, const vn_graph_t *body, const char *where, int n, vn_item_t *out) {
    for (int k = 0; k < n; ++k) {
        const vn_tensor_t *given;
        const vn_slot_t *slot = vn_scope_find(scope, body->outputs[k].name, &given);
        if (slot && slot->value) {
            VN_TRY(vn_item_of_ref(e->err, slot->value, slot->ref, &out[k]));
        } else if (given) {
            if (!(out[k].value = vn_value_tensor(vn_tensor_retain(given)))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        } else {
            return vn_eval_fail(e, VN_ERR_NOTFOUND, "body '%s': output %s was not computed", where, body->outputs[k].name);
        }
    }
    return VN_OK;
}

vn_status_t vn_run_items(vn_eval_t *e, const vn_graph_t *body, const char *where, int n_in, const vn_item_t *in, int n_out,
                         vn_item_t *out) {
    vn_oracle_run_t *run = e->run;
    vn_scope_t scope = {.outer = run->scope};
    vn_status_t s = VN_OK;
    for (int k = 0; k < n_out; ++k) out[k] = (vn_item_t){.value = NULL};
    if (n_in > body->n_inputs || n_out > body->n_outputs)
        return vn_eval_fail(e, VN_ERR_SHAPE, "body '%s' takes %d inputs and gives %d outputs, %d and %d are needed", where, body->n_inputs,
                            body->n_outputs, n_in, n_out);
    for (int k = 0; k < n_in && s == VN_OK; ++k) {
        vn_ref_t *ref = NULL;
        s = run->region ? vn_item_ref(e->err, &in[k], &ref) : VN_OK;
        if (s == VN_OK) s = vn_scope_put(&scope, body->inputs[k].name, vn_value_retain(in[k].value), ref, -1, e->err);
    }
    char own[1024], prefix[1024];
    row_path(run, e->node, own, sizeof own);
    snprintf(prefix, sizeof prefix, "%.900s/%s", own, where);
    const char *saved = run->prefix;
    run->prefix = prefix;
    run->depth++;
    if (s == VN_OK) s = vn_run_graph(run, &scope, body, e->err);
    run->depth--;
    run->prefix = saved;
    if (s == VN_OK) s = take_items(e, &scope, body, where, n_out, out);
    for (int k = 0; k < n_out && s != VN_OK; ++k) vn_item_clear(&out[k]);
    vn_scope_clear(&scope);
    return s;
}

/* Moves the ref of a graph output out of the scope; exact values (inputs, initialisers) become exact refs. */
static vn_status_t take_output(vn_scope_t *scope, const char *name, vn_ref_t *out, vn_error_t *err) {
    const vn_tensor_t *given;
    vn_slot_t *slot = vn_scope_find(scope, name, &given);
    if (slot && slot->ref) {
        *out = *slot->ref;
        vn_free(slot->ref);
        slot->ref = NULL;
        return VN_OK;
    }
    const vn_value_t *v = slot ? slot->value : NULL;
    const vn_tensor_t *t = v && v->kind == VN_VALUE_TENSOR ? v->tensor : given;
    if (v && v->kind != VN_VALUE_TENSOR) {
        out->nested = vn_value_retain(v);
        return VN_OK;
    }
    if (!t) return vn_fail(err, VN_ERR_NOTFOUND, "output %s was not computed", name);
    out->dtype = t->dtype;
    out->rank = t->rank;
    memcpy(out->dims, t->dims, sizeof out->dims);
    out->count = t->count;
    return vn_tensor_contiguous(t, &out->tensor, err);
}

/* An operand handed into a function body keeps its planes (borrowed planes are copied: the scope owns what it holds). */
static vn_status_t put_operand(vn_scope_t *scope, const char *name, const vn_arg_t *arg, vn_error_t *err) {
    vn_ref_t *ref = NULL;
    if (!arg->v) return VN_OK;
    if (arg->err && arg->t) {
        const size_t n = (size_t)(arg->t->count ? arg->t->count : 1), bytes = (size_t)arg->t->count * sizeof(double);
        ref = vn_alloc(1, sizeof *ref);
        if (!ref) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        *ref = (vn_ref_t){
            .dtype = arg->t->dtype, .rank = arg->t->rank, .count = arg->t->count, .value = vn_alloc(n, 8), .bound = vn_alloc(n, 8)};
        memcpy(ref->dims, arg->t->dims, sizeof ref->dims);
        if (arg->var) ref->var = vn_alloc(n, 8);
        if (!ref->value || !ref->bound || (arg->var && !ref->var)) {
            vn_ref_free(ref);
            vn_free(ref);
            return vn_fail(err, VN_ERR_NOMEM, "no memory");
        }
        if (arg->value) memcpy(ref->value, arg->value, bytes);
        else vn_tensor_to_f64(arg->t, ref->value);
        memcpy(ref->bound, arg->err, bytes);
        if (arg->var) memcpy(ref->var, arg->var, bytes);
    }
    return vn_scope_put(scope, name, vn_value_retain(arg->v), ref, -1, err);
}

vn_status_t vn_frame_function(vn_oracle_run_t *run, const vn_function_t *f, const vn_node_t *node, vn_arg_t *in, vn_ref_t *out,
                              vn_error_t *err) {
    vn_scope_t scope = {0};
    vn_status_t s = VN_OK;
    vn_oracle_run_t sub = {.model = run->model,
                           .contract = run->contract,
                           .want = run->want,
                           .region = true,
                           .opsets = f->opsets,
                           .n_opsets = f->n_opsets,
                           .prefix = "",
                           .call = node,
                           .function = f,
                           .depth = run->depth + 1};
    if (sub.depth > MAX_DEPTH)
        return vn_fail(err, VN_ERR_RANGE, "functions nested deeper than %d (does %s call itself?)", MAX_DEPTH, f->name);
    for (int k = 0; k < f->n_inputs && k < node->n_inputs && s == VN_OK; ++k) s = put_operand(&scope, f->inputs[k], &in[k], err);
    if (s == VN_OK) s = vn_run_graph(&sub, &scope, f->body, err);
    for (int k = 0; k < node->n_outputs && k < f->n_outputs && s == VN_OK; ++k)
        if (*node->outputs[k]) s = take_output(&scope, f->outputs[k], &out[k], err);
    /* The planes already include each node's store; the frame of the call adds nothing. */
    for (int k = 0; k < node->n_outputs; ++k) out[k].bound_final = true;
    vn_scope_clear(&scope);
    return s;
}

/* ---- the public entries ---- */

vn_status_t vn_oracle_node(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_bundle_t *outer,
                           const vn_contract_t *c, int want, vn_ref_t *refs, vn_error_t *err) {
    return vn_oracle_steps(m, n, inputs, outer, c, want, NULL, refs, err);
}

vn_status_t vn_oracle_steps(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_bundle_t *outer,
                            const vn_contract_t *c, int want, const vn_value_t *const *given, vn_ref_t *refs, vn_error_t *err) {
    vn_scope_t scope = {.bundle = outer};
    vn_oracle_run_t run = {.model = m,
                           .contract = c,
                           .want = want & ~VN_WANT_PLAIN,
                           .plain = (want & VN_WANT_PLAIN) != 0,
                           .opsets = m->opsets,
                           .n_opsets = m->n_opsets,
                           .prefix = "",
                           .scope = &scope,
                           .given = given};
    for (int k = 0; k < n->n_outputs; ++k) refs[k] = (vn_ref_t){0};
    const size_t ni = n->n_inputs ? (size_t)n->n_inputs : 1;
    vn_arg_t *in = vn_alloc(ni, sizeof *in);
    vn_tensor_t **contiguous = vn_alloc(ni, sizeof *contiguous);
    vn_status_t s = in && contiguous ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < n->n_inputs && s == VN_OK; ++k) {
        if (!inputs[k]) continue;
        in[k].v = inputs[k];
        if (inputs[k]->kind != VN_VALUE_TENSOR) continue;
        s = vn_tensor_contiguous(inputs[k]->tensor, &contiguous[k], err);
        in[k].t = contiguous[k];
    }
    if (s == VN_OK) s = vn_frame_node(&run, NULL, n, in, outer, refs, err);
    for (int k = 0; k < n->n_inputs; ++k) {
        if (in) vn_arg_clear(&in[k]);
        if (contiguous) vn_tensor_free(contiguous[k]);
    }
    vn_free(in);
    vn_free(contiguous);
    vn_scope_clear(&scope);
    return s;
}

static vn_status_t put_input(vn_scope_t *scope, const vn_graph_t *g, int i, vn_value_t *v, vn_error_t *err) {
    if (!v && vn_graph_init(g, g->inputs[i].name)) return VN_OK;
    if (!v) return vn_fail(err, VN_ERR_USAGE, "input '%s' is not given", g->inputs[i].name);
    return vn_scope_put(scope, g->inputs[i].name, v, NULL, -1, err);
}

static vn_status_t put_inputs(vn_scope_t *scope, const vn_graph_t *g, const vn_bundle_t *inputs, vn_error_t *err) {
    for (int i = 0; i < g->n_inputs; ++i) {
        const vn_tensor_t *t = vn_bundle_find(inputs, g->inputs[i].name);
        vn_value_t *v = t ? vn_value_tensor(vn_tensor_retain(t)) : NULL;
        if (t && !v) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        VN_TRY(put_input(scope, g, i, v, err));
    }
    return VN_OK;
}

/* Inputs by name from a bundle, or, where that is NULL, by place from values. */
static vn_status_t run_region(const vn_model_t *m, const vn_bundle_t *inputs, const vn_value_t *const *values, const vn_contract_t *c,
                              int want, vn_ref_t *refs, vn_error_t *err) {
    vn_scope_t scope = {0};
    vn_oracle_run_t run = {.model = m,
                           .contract = c,
                           .want = want & ~VN_WANT_PLAIN,
                           .plain = (want & VN_WANT_PLAIN) != 0,
                           .region = true,
                           .opsets = m->opsets,
                           .n_opsets = m->n_opsets,
                           .prefix = ""};
    const vn_graph_t *g = m->graph;
    for (int k = 0; k < g->n_outputs; ++k) refs[k] = (vn_ref_t){0};
    vn_status_t s = inputs ? put_inputs(&scope, g, inputs, err) : VN_OK;
    for (int i = 0; !inputs && i < g->n_inputs && s == VN_OK; ++i) s = put_input(&scope, g, i, vn_value_retain(values[i]), err);
    if (s == VN_OK) s = vn_run_graph(&run, &scope, g, err);
    for (int k = 0; k < g->n_outputs && s == VN_OK; ++k) s = take_output(&scope, g->outputs[k].name, &refs[k], err);
    if (s != VN_OK)
        for (int k = 0; k < g->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_scope_clear(&scope);
    return s;
}

vn_status_t vn_oracle_region(const vn_model_t *m, const vn_bundle_t *inputs, const vn_contract_t *c, int want, vn_ref_t *refs,
                             vn_error_t *err) {
    return run_region(m, inputs, NULL, c, want, refs, err);
}

vn_status_t vn_oracle_region_values(const vn_model_t *m, const vn_value_t *const *values, const vn_contract_t *c, int want, vn_ref_t *refs,
                                    vn_error_t *err) {
    return run_region(m, NULL, values, c, want, refs, err);
}

vn_status_t vn_oracle_trajectory(const vn_model_t *m, const vn_bundle_t *inputs, const vn_contract_t *c, int want, vn_step_fn fn, void *ctx,
                                 vn_bundle_t *out, vn_error_t *err) {
    vn_scope_t scope = {0};
    vn_oracle_run_t run = {.model = m,
                           .contract = c,
                           .want = want & ~VN_WANT_PLAIN,
                           .plain = (want & VN_WANT_PLAIN) != 0,
                           .opsets = m->opsets,
                           .n_opsets = m->n_opsets,
                           .fn = fn,
                           .fn_ctx = ctx,
                           .prefix = ""};
    const vn_graph_t *g = m->graph;
    vn_status_t s = put_inputs(&scope, g, inputs, err);
    if (s == VN_OK) s = vn_run_graph(&run, &scope, g, err);
    for (int k = 0; k < g->n_outputs && s == VN_OK && out; ++k) {
        const vn_tensor_t *given;
        const vn_slot_t *slot = vn_scope_find(&scope, g->outputs[k].name, &given);
        if (slot && slot->value && slot->value->kind == VN_VALUE_TENSOR)
            s = vn_bundle_add(out, g->outputs[k].name, slot->value->tensor, err);
    }
    vn_scope_clear(&scope);
    return s;
}

bool vn_oracle_knows(const vn_model_t *m, const vn_node_t *n, vn_op_info_t *info) {
    const int64_t version = vn_model_opset(m, n->domain);
    const vn_op_t *row = version < 0 ? NULL : vn_registry_find(n->domain, n->op, version);
    if (row) {
        *info = vn_op_info(row);
        return true;
    }
    if (!vn_model_function(m, n->domain, n->op, n->overload)) return false;
    *info = (vn_op_info_t){.domain = n->domain, .name = n->op, .claim = "REGION-1", .cls = VN_CLASS_COMPOSITE};
    return true;
}
