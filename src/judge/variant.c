/* variant.c -- the question under another computation: one node changed, the same inputs, the same actual result. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "judge/explain.h"

typedef struct saved {
    vn_node_t node;
    vn_model_t *scratch; /* its arena holds the edits */
    const char *inputs[VN_VARIANT_INPUTS];
    vn_attr_t *attrs; /* what the node starts from */
    const vn_value_t *given[VN_VARIANT_INPUTS];
    vn_value_t *own[VN_VARIANT_INPUTS];
    const vn_model_t *asked; /* node question: the question's model; region: the clone */
} saved_t;

static vn_status_t nomem(vn_error_t *err) { return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant"); }

/* The node's attributes and input names in memory of ours, as the question has them. */
static vn_status_t restore(vn_variant_t *v, vn_error_t *err) {
    saved_t *s = v->saved;
    const size_t n = (size_t)s->node.n_attrs;
    vn_attr_t *attrs = vn_arena_alloc(s->scratch->arena, n + 1, sizeof *attrs);
    const char **names = vn_arena_alloc(s->scratch->arena, VN_VARIANT_INPUTS, sizeof *names);
    if (!attrs || !names) return nomem(err);
    if (n) memcpy(attrs, s->node.attrs, n * sizeof *attrs);
    for (int k = 0; k < VN_VARIANT_INPUTS; ++k) names[k] = k < s->node.n_inputs ? s->node.inputs[k] : "";
    *v->node = s->node;
    v->node->attrs = attrs;
    v->node->inputs = names;
    v->contract = v->e->c->q->contract;
    return VN_OK;
}

void vn_variant_reset(vn_variant_t *v) {
    saved_t *s = v->saved;
    for (int k = 0; k < VN_VARIANT_INPUTS; ++k) {
        vn_value_free(s->own[k]);
        s->own[k] = NULL;
        v->given[k] = s->given[k];
    }
    *v->node = s->node; /* until the next edit */
    v->contract = v->e->c->q->contract;
    v->edited = false;
}

/* Before an edit: the node gets arrays of its own. */
static vn_status_t begin(vn_variant_t *v, vn_error_t *err) {
    if (v->edited) return VN_OK;
    const vn_contract_t *contract = v->contract;
    VN_TRY(restore(v, err));
    v->contract = contract;
    v->edited = true;
    return VN_OK;
}

bool vn_variant_is(const vn_variant_t *v, const char *domain, const char *op) {
    return strcmp(v->node->domain, domain) == 0 && strcmp(v->node->op, op) == 0;
}

int64_t vn_variant_version(const vn_variant_t *v) { return vn_model_opset(v->e->c->q->model, v->node->domain); }

const vn_tensor_t *vn_variant_operand(const vn_variant_t *v, int k) {
    if (k < 0 || k >= VN_VARIANT_INPUTS || !v->given[k] || v->given[k]->kind != VN_VALUE_TENSOR) return NULL;
    return v->given[k]->tensor;
}

bool vn_variant_shape(vn_variant_t *v, int k, vn_dtype_t *type, int *rank, int64_t *dims) {
    const vn_question_t *q = v->e->c->q;
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (t) {
        *type = t->dtype;
        *rank = t->rank;
        memcpy(dims, t->dims, sizeof t->dims);
        return true;
    }
    if (q->node || k < 0 || k >= v->node->n_inputs || !*v->node->inputs[k]) return false;
    vn_bundle_t in = {0};
    vn_inferred_t all = {0};
    vn_error_t why = {0};
    vn_status_t s = VN_OK;
    for (int i = 0; i < q->model->graph->n_inputs && s == VN_OK; ++i)
        if (q->inputs[i] && q->inputs[i]->kind == VN_VALUE_TENSOR)
            s = vn_bundle_add(&in, q->model->graph->inputs[i].name, q->inputs[i]->tensor, &why);
    if (s == VN_OK) s = vn_oracle_infer(q->model, &in, &all, &why);
    const vn_inferred_value_t *found = s == VN_OK ? vn_inferred_find(&all, v->node->inputs[k]) : NULL;
    bool known = found && found->kind == VN_TYPE_TENSOR && found->dtype != VN_UNDEFINED && found->rank >= 0;
    for (int d = 0; known && d < found->rank; ++d) known = found->dims[d] >= 0;
    if (known) {
        *type = found->dtype;
        *rank = found->rank;
        memcpy(dims, found->dims, sizeof found->dims);
    }
    vn_inferred_free(&all);
    vn_bundle_free(&in);
    return known;
}

vn_status_t vn_variant_int(vn_variant_t *v, const char *attr, int64_t x, vn_error_t *err) {
    VN_TRY(begin(v, err));
    return vn_node_set_int(((saved_t *)v->saved)->scratch, v->node, attr, x, err);
}
vn_status_t vn_variant_float(vn_variant_t *v, const char *attr, double x, vn_error_t *err) {
    VN_TRY(begin(v, err));
    return vn_node_set_float(((saved_t *)v->saved)->scratch, v->node, attr, (float)x, err);
}
vn_status_t vn_variant_string(vn_variant_t *v, const char *attr, const char *x, vn_error_t *err) {
    VN_TRY(begin(v, err));
    return vn_node_set_string(((saved_t *)v->saved)->scratch, v->node, attr, x, err);
}
vn_status_t vn_variant_ints(vn_variant_t *v, const char *attr, const int64_t *x, int64_t n, vn_error_t *err) {
    VN_TRY(begin(v, err));
    return vn_node_set_ints(((saved_t *)v->saved)->scratch, v->node, attr, x, n, err);
}

vn_status_t vn_variant_drop_attr(vn_variant_t *v, const char *attr, vn_error_t *err) {
    VN_TRY(begin(v, err));
    for (int k = 0; k < v->node->n_attrs; ++k) {
        if (strcmp(v->node->attrs[k].name, attr) != 0) continue;
        v->node->attrs[k] = v->node->attrs[--v->node->n_attrs];
        break;
    }
    return VN_OK;
}

vn_status_t vn_variant_drop_input(vn_variant_t *v, int k, vn_error_t *err) {
    VN_TRY(begin(v, err));
    if (k < 0 || k >= v->node->n_inputs) return VN_OK;
    v->node->inputs[k] = "";
    v->given[k] = NULL;
    return VN_OK;
}

vn_status_t vn_variant_input(vn_variant_t *v, int k, vn_tensor_t *t, vn_error_t *err) {
    saved_t *s = v->saved;
    if (!t) return nomem(err);
    vn_status_t st = k >= 0 && k < VN_VARIANT_INPUTS ? begin(v, err) : vn_fail(err, VN_ERR_INTERNAL, "a variant has no operand %d", k);
    const char *name = st == VN_OK ? vn_arena_printf(s->scratch->arena, "variant/%d/%d", v->e->variants, k) : NULL;
    if (st == VN_OK && !name) st = nomem(err);
    if (st == VN_OK && !v->e->c->q->node) st = vn_graph_add_init(v->model->graph, name, t, err);
    if (st != VN_OK) {
        vn_tensor_free(t);
        return st;
    }
    vn_value_free(s->own[k]);
    s->own[k] = vn_value_tensor(t);
    if (!s->own[k]) return nomem(err);
    v->given[k] = s->own[k];
    v->node->inputs[k] = name;
    if (k >= v->node->n_inputs) v->node->n_inputs = k + 1;
    return VN_OK;
}

vn_status_t vn_variant_op(vn_variant_t *v, const char *domain, const char *op, vn_error_t *err) {
    VN_TRY(begin(v, err));
    v->node->domain = vn_arena_strdup(((saved_t *)v->saved)->scratch->arena, domain);
    v->node->op = vn_arena_strdup(((saved_t *)v->saved)->scratch->arena, op);
    return v->node->domain && v->node->op ? VN_OK : nomem(err);
}

vn_status_t vn_variant_bypass(vn_variant_t *v, int k, vn_error_t *err) {
    if (k < 0 || k >= v->node->n_inputs || v->node->n_outputs != 1)
        return vn_fail(err, VN_ERR_INTERNAL, "a variant cannot leave out %s by operand %d", v->node->op, k);
    VN_TRY(vn_variant_op(v, "", "Identity", err));
    v->node->inputs[0] = v->node->inputs[k];
    v->given[0] = v->given[k];
    v->node->n_inputs = 1;
    v->node->n_attrs = 0;
    return VN_OK;
}

void vn_variant_contract(vn_variant_t *v, const vn_contract_t *c) {
    v->changed = *c;
    v->contract = &v->changed;
}

vn_status_t vn_variant_eval(vn_variant_t *v, int want, vn_ref_t *out, vn_error_t *err) {
    const vn_question_t *q = v->e->c->q;
    *out = (vn_ref_t){0};
    if (vn_spent() > v->e->deadline) {
        v->e->cut = true;
        return VN_OK;
    }
    v->e->variants++;
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs + 1, sizeof *refs);
    if (!refs) return nomem(err);
    vn_question_t other = *q;
    other.model = ((saved_t *)v->saved)->asked;
    if (q->node) {
        other.node = v->node;
        other.inputs = v->given;
    }
    vn_error_t why = {0};
    const vn_status_t s = vn_question_oracle(&other, v->contract, want, refs, &why);
    if (s == VN_OK) {
        *out = refs[v->e->c->k];
        refs[v->e->c->k] = (vn_ref_t){0};
    }
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    return s == VN_ERR_NOMEM ? nomem(err) : VN_OK; /* whatever else it refuses is not this variant */
}

static double step(vn_dtype_t t, double x) {
    const vn_format_t f = vn_format_of(t);
    return f == VN_FMT_NONE ? 1 : vn_ulp(f, x);
}

double vn_explain_gain(const vn_explain_t *e, const vn_ref_t *variant) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i]) continue;
        const double new = variant->value ? variant->value[i] : vn_tensor_get_f64(variant->tensor, i), x = e->x[i], y = e->y[i];
        const double far = isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        const double near = isfinite(x) && isfinite(new) ? fabs(x - new) : (isnan(x) && isnan(new)) || x == new ? 0 : INFINITY;
        const double ulp = isfinite(x) ? step(e->c->actual->dtype, x) : 1;
        const double gain = near == INFINITY ? 0 : far == INFINITY ? 40 : log((far + ulp) / (near + ulp));
        sum += gain < 40 ? gain : 40; /* beyond e^40 nothing is nearer */
        n++;
    }
    return n ? sum / (double)n : 0;
}

/* Every element keeps the variant's bound, and some element that was wrong is told anything by it. */
static vn_status_t holds(const vn_explain_t *e, const vn_ref_t *r, bool *held, vn_error_t *err) {
    const vn_tensor_t *a = e->c->actual;
    *held = false;
    if (!r->tensor || r->tensor->dtype != a->dtype || r->tensor->rank != a->rank ||
        memcmp(r->tensor->dims, a->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return VN_OK;
    vn_measure_t m;
    VN_TRY(vn_measure(r, a, &m, err));
    if (m.outside) return VN_OK;
    if (!e->x) return *held = true, VN_OK;
    for (int64_t i = 0; i < e->n && !*held; ++i) {
        if (!e->wrong[i] || (r->flags && (r->flags[i] & VN_EL_VOID))) continue;
        const double room = vn_room(r, i), y = e->y[i];
        if (isinf(room)) continue; /* no statement */
        *held = room < 0 || !isfinite(y) || !isfinite(e->x[i]) || room < fabs(e->x[i] - y);
    }
    return VN_OK;
}

vn_status_t vn_variant_ask(vn_variant_t *v, vn_verdict_t verdict, const char *cause, bool *held, vn_error_t *err, const char *words, ...) {
    bool yes = false;
    vn_ref_t r;
    vn_status_t s = vn_variant_eval(v, VN_WANT_BOUND | VN_WANT_PLAIN, &r, err);
    if (s == VN_OK) s = holds(v->e, &r, &yes, err);
    if (s == VN_OK && yes) {
        char text[sizeof v->e->words];
        va_list args;
        va_start(args, words);
        vsnprintf(text, sizeof text, words, args);
        va_end(args);
        vn_explain_offer(v->e, VN_NAME_VARIANT, v->e->x ? vn_explain_gain(v->e, &r) : 1, verdict, cause, "%s", text);
    }
    vn_ref_free(&r);
    vn_variant_reset(v);
    if (held) *held = yes;
    return s;
}

static vn_status_t visit(vn_explain_t *e, vn_model_t *clone, vn_node_t *node, int index, vn_variant_fn fn, vn_error_t *err) {
    const vn_question_t *q = e->c->q;
    if (node->n_inputs > VN_VARIANT_INPUTS) return VN_OK; /* a Concat of many; nothing to vary there */
    saved_t s = {.node = *node, .asked = q->node ? q->model : clone};
    VN_TRY(vn_model_new(10, &s.scratch, err));
    const vn_value_t *given[VN_VARIANT_INPUTS] = {NULL};
    vn_value_t *fixed[VN_VARIANT_INPUTS] = {NULL};
    vn_status_t st = VN_OK;
    for (int k = 0; k < node->n_inputs && st == VN_OK; ++k) {
        if (q->node) {
            s.given[k] = q->inputs[k];
            continue;
        }
        for (int i = 0; i < clone->graph->n_inputs; ++i)
            if (strcmp(clone->graph->inputs[i].name, node->inputs[k]) == 0) s.given[k] = q->inputs[i];
        const vn_tensor_t *t = s.given[k] ? NULL : vn_graph_init(clone->graph, node->inputs[k]);
        if (!t) continue;
        s.given[k] = fixed[k] = vn_value_tensor(vn_tensor_retain(t));
        if (!fixed[k]) st = nomem(err);
    }
    memcpy(given, s.given, sizeof given);
    vn_variant_t v = {.e = e, .model = clone, .node = node, .index = index, .given = given, .contract = q->contract, .saved = &s};
    if (st == VN_OK) st = fn(&v, err);
    vn_variant_reset(&v);
    for (int k = 0; k < VN_VARIANT_INPUTS; ++k) vn_value_free(fixed[k]);
    vn_model_free(s.scratch);
    return st;
}

vn_status_t vn_variants(vn_explain_t *e, vn_variant_fn fn, vn_error_t *err) {
    const vn_question_t *q = e->c->q;
    if (q->node) {
        vn_node_t copy = *q->node;
        return visit(e, NULL, &copy, -1, fn, err);
    }
    vn_model_t *clone;
    VN_TRY(vn_model_clone(q->model, &clone, err));
    vn_status_t s = VN_OK;
    for (int i = 0; i < clone->graph->n_nodes && s == VN_OK; ++i) s = visit(e, clone, &clone->graph->nodes[i], i, fn, err);
    vn_model_free(clone);
    return s;
}
