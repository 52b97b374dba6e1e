/* arithmetic_region.c -- arithmetics between the nodes of a group: a value handed on in 16 bits, a Cast without effect, a norm folded into a product.
 *
 * Claim ARITH-13: the group is changed and asked of the oracle: a pair of Casts put behind one value; a Cast (or a quantiser and its inverse)
 * left out; the weights of a product multiplied by the norm's factor and rounded to their type. Everything else keeps the contract, and so
 * does the bound. The words name the node.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

static vn_status_t ask_changed(vn_arith_t *a, vn_model_t *m, const char *id, const char *words, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    vn_error_t why;
    vn_status_t s = vn_model_finish(m, &why);
    if (s != VN_OK) return s == VN_ERR_NOMEM ? vn_fail(err, s, "no memory") : VN_OK;
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs + 1, sizeof *refs);
    if (!refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    s = vn_oracle_region_values(m, q->inputs, q->contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, refs, &why);
    a->tried++;
    if (s == VN_OK) s = vn_arith_consider(a, id, VN_ARITH_SHARP, &refs[a->c->k], err, "%s", words);
    else s = s == VN_ERR_NOMEM ? vn_fail(err, s, "no memory") : VN_OK; /* a refused change is no hypothesis */
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    return s;
}

static const char *name_of(const vn_node_t *n) { return *n->name ? n->name : n->path ? n->path : n->op; }

/* ---- a value handed on in another format ---- */

/* Everybody who reads `from` reads `to`, nodes [0, n). */
static void reread(vn_graph_t *g, int n, const char *from, const char *to) {
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < g->nodes[i].n_inputs; ++k)
            if (strcmp(g->nodes[i].inputs[k], from) == 0) g->nodes[i].inputs[k] = to;
}

static vn_status_t narrowed(vn_arith_t *a, const char *value, vn_dtype_t through, const char *id, const char *words, vn_error_t *err) {
    vn_model_t *m;
    VN_TRY(vn_model_clone(a->c->q->model, &m, err));
    vn_graph_t *g = m->graph;
    const int nodes = g->n_nodes;
    const char *in[1] = {value}, *mid[1] = {vn_arena_printf(m->arena, "%s/narrow", value)},
               *out[1] = {vn_arena_printf(m->arena, "%s/wide", value)};
    vn_node_t *n;
    vn_status_t s = mid[0] && out[0] ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) reread(g, nodes, value, out[0]);
    if (s == VN_OK) s = vn_graph_add_node(g, "", "Cast", "", 1, in, 1, mid, &n, err);
    if (s == VN_OK) s = vn_node_set_int(m, n, "to", through, err);
    const char *like[2] = {mid[0], value};
    if (s == VN_OK) s = vn_graph_add_node(g, "", "CastLike", "", 2, like, 1, out, &n, err);
    if (s == VN_OK) s = ask_changed(a, m, id, words, err);
    vn_model_free(m);
    return s;
}

static vn_status_t between(vn_arith_t *a, vn_error_t *err) {
    static const vn_dtype_t types[] = {VN_BF16, VN_F16};
    const vn_graph_t *g = a->c->q->model->graph;
    char id[48], words[256];
    if (vn_model_opset(a->c->q->model, "") < 15) return VN_OK; /* CastLike */
    for (size_t t = 0; t < 2; ++t) {
        const char *type = vn_dtype_name(types[t]);
        for (int i = 0; i < g->n_nodes; ++i)
            for (int k = 0; k < g->nodes[i].n_outputs && vn_arith_time(a); ++k) {
                const char *value = g->nodes[i].outputs[k];
                if (!*value || vn_graph_is_output(g, value)) continue;
                snprintf(id, sizeof id, "intermediate-%s", type);
                snprintf(words, sizeof words, "the result of %.80s (%.40s) is handed on in %s", name_of(&g->nodes[i]), g->nodes[i].op,
                         type);
                VN_TRY(narrowed(a, value, types[t], id, words, err));
            }
        for (int k = 0; k < g->n_inputs && vn_arith_time(a); ++k) {
            const vn_tensor_t *x = vn_arith_operand(a, k);
            if (!x || !vn_dtype_is_float(x->dtype) || vn_dtype_bits(x->dtype) <= 16) continue;
            snprintf(id, sizeof id, "operands-%s", type);
            snprintf(words, sizeof words, "operand %.120s is read in %s", g->inputs[k].name, type);
            VN_TRY(narrowed(a, g->inputs[k].name, types[t], id, words, err));
        }
    }
    return VN_OK;
}

/* ---- casts without effect ---- */

static vn_status_t to_identity(vn_model_t *m, vn_node_t *n, vn_error_t *err) {
    n->op = vn_arena_strdup(m->arena, "Identity");
    n->domain = vn_arena_strdup(m->arena, "");
    n->n_inputs = 1;
    n->n_attrs = 0;
    return n->op && n->domain ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
}

static bool is_cast(const vn_node_t *n) { return strcmp(n->op, "Cast") == 0 || strcmp(n->op, "CastLike") == 0; }
static bool is_quantiser(const vn_node_t *n) { return strcmp(n->op, "QuantizeLinear") == 0; }

/* only < 0: every Cast at once. */
static vn_status_t without_cast(vn_arith_t *a, int only, vn_error_t *err) {
    vn_model_t *m;
    char words[256];
    VN_TRY(vn_model_clone(a->c->q->model, &m, err));
    vn_graph_t *g = m->graph;
    vn_status_t s = VN_OK;
    const vn_node_t *said = only < 0 ? NULL : &a->c->q->model->graph->nodes[only];
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) {
        if (only >= 0 && i != only) continue;
        if (is_cast(&g->nodes[i])) s = to_identity(m, &g->nodes[i], err);
        if (s != VN_OK || !is_quantiser(&g->nodes[i])) continue;
        const char *codes = g->nodes[i].outputs[0];
        for (int j = 0; j < g->n_nodes && s == VN_OK; ++j)
            if (strcmp(g->nodes[j].op, "DequantizeLinear") == 0 && strcmp(g->nodes[j].inputs[0], codes) == 0)
                s = to_identity(m, &g->nodes[j], err);
        if (s == VN_OK) s = to_identity(m, &g->nodes[i], err);
    }
    if (said) snprintf(words, sizeof words, "%.120s (%.40s) has no effect: its rounding was removed", name_of(said), said->op);
    else snprintf(words, sizeof words, "no Cast of the group has any effect: their roundings were removed");
    if (s == VN_OK) s = ask_changed(a, m, "cast-dropped", words, err);
    vn_model_free(m);
    return s;
}

static vn_status_t casts(vn_arith_t *a, vn_error_t *err) {
    const vn_graph_t *g = a->c->q->model->graph;
    int count = 0;
    for (int i = 0; i < g->n_nodes && vn_arith_time(a); ++i) {
        if (!is_cast(&g->nodes[i]) && !is_quantiser(&g->nodes[i])) continue;
        count += is_cast(&g->nodes[i]);
        VN_TRY(without_cast(a, i, err));
    }
    return count > 1 && vn_arith_time(a) ? without_cast(a, -1, err) : VN_OK;
}

/* ---- batch normalisation folded into the product before it ---- */

static const vn_tensor_t *known(const vn_arith_t *a, const vn_graph_t *g, const char *name) {
    for (int k = 0; k < g->n_inputs; ++k)
        if (strcmp(g->inputs[k].name, name) == 0) {
            const vn_tensor_t *t = vn_arith_operand(a, k);
            if (t) return t;
        }
    return vn_graph_init(g, name);
}

static vn_status_t folded(vn_arith_t *a, int product, int norm, vn_error_t *err) {
    const vn_graph_t *g0 = a->c->q->model->graph;
    const vn_node_t *p0 = &g0->nodes[product], *n0 = &g0->nodes[norm];
    const vn_tensor_t *w = known(a, g0, p0->inputs[1]), *b = p0->n_inputs > 2 && *p0->inputs[2] ? known(a, g0, p0->inputs[2]) : NULL;
    const vn_tensor_t *p[4];
    for (int k = 0; k < 4; ++k)
        if (!(p[k] = known(a, g0, n0->inputs[k + 1]))) return VN_OK;
    if (!w || (p0->n_inputs > 2 && *p0->inputs[2] && !b) || w->rank < 2 || w->dims[0] != p[0]->count) return VN_OK;
    const int64_t channels = w->dims[0], each = channels ? w->count / channels : 0;
    const double eps = vn_node_float(n0, "epsilon", 1e-5); /* the standard's default, claim ARITH-13 */
    vn_model_t *m;
    VN_TRY(vn_model_clone(a->c->q->model, &m, err));
    vn_tensor_t *fw = NULL, *fb = NULL;
    vn_status_t s = vn_tensor_new(w->dtype, w->rank, w->dims, &fw, err);
    if (s == VN_OK) s = vn_tensor_new(w->dtype, 1, &channels, &fb, err);
    for (int64_t c = 0; s == VN_OK && c < channels; ++c) {
        const double scale = vn_tensor_get_f64(p[0], c) / sqrt(vn_tensor_get_f64(p[3], c) + eps);
        for (int64_t i = 0; i < each; ++i) vn_tensor_set_f64(fw, c * each + i, vn_tensor_get_f64(w, c * each + i) * scale);
        vn_tensor_set_f64(fb, c, vn_tensor_get_f64(p[1], c) + ((b ? vn_tensor_get_f64(b, c) : 0) - vn_tensor_get_f64(p[2], c)) * scale);
    }
    vn_graph_t *g = m->graph;
    const char **in = s == VN_OK ? vn_arena_alloc(m->arena, 3, sizeof *in) : NULL;
    if (s == VN_OK && !in) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_graph_add_init(g, "folded/w", fw, err);
    if (s == VN_OK) s = vn_graph_add_init(g, "folded/b", fb, err);
    if (s == VN_OK) {
        in[0] = g->nodes[product].inputs[0];
        in[1] = "folded/w";
        in[2] = "folded/b";
        g->nodes[product].inputs = in;
        g->nodes[product].n_inputs = 3;
        s = to_identity(m, &g->nodes[norm], err);
    }
    if (s == VN_OK)
        s = ask_changed(a, m, "bn-fold", "batch normalisation folded into the weights before it, which were rounded to their type", err);
    vn_tensor_free(fw);
    vn_tensor_free(fb);
    vn_model_free(m);
    return s;
}

static vn_status_t folds(vn_arith_t *a, vn_error_t *err) {
    const vn_graph_t *g = a->c->q->model->graph;
    for (int i = 0; i < g->n_nodes && vn_arith_time(a); ++i) {
        if (strcmp(g->nodes[i].op, "BatchNormalization") != 0 || g->nodes[i].n_inputs < 5) continue;
        const int from = vn_graph_producer(g, g->nodes[i].inputs[0]);
        if (from >= 0 && strcmp(g->nodes[from].op, "Conv") == 0) VN_TRY(folded(a, from, i, err));
    }
    return VN_OK;
}

vn_status_t vn_arith_region(vn_arith_t *a, vn_error_t *err) {
    if (a->c->q->node || !a->c->ref->value) return VN_OK;
    VN_TRY(casts(a, err));
    VN_TRY(folds(a, err));
    return between(a, err);
}
