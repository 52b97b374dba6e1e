/* infer_body.c -- If, Loop, Scan, SequenceMap under inference (claim INFER-2). A branch that is known is followed alone; of an unknown one counts what both
 * agree on. A loop is followed iteration by iteration while its count and condition are known, then by what holds for every iteration.
 */
#include <string.h>

#include "oracle/infer_rules.h"

typedef struct facts {
    vn_fact_t *at;
    int n;
} facts_t;

static vn_status_t facts_new(const vn_infer_node_t *n, int count, facts_t *f) {
    f->n = count;
    f->at = vn_alloc(count > 0 ? (size_t)count : 1, sizeof *f->at);
    if (!f->at) return vn_infer_fail(n, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < count; ++k) vn_fact_clear(&f->at[k]);
    return VN_OK;
}

static void facts_free(facts_t *f) {
    for (int k = 0; f->at && k < f->n; ++k) vn_fact_clear(&f->at[k]);
    vn_free(f->at);
    f->at = NULL;
}

static void replace(vn_fact_t *to, const vn_fact_t *from) {
    vn_fact_t copy = {.v = {.rank = -1}};
    vn_fact_copy(&copy, from);
    vn_fact_clear(to);
    vn_fact_copy(to, &copy);
    vn_fact_clear(&copy);
}

static vn_status_t run_body(const vn_infer_node_t *n, const vn_graph_t *g, const facts_t *in, facts_t *out, vn_error_t *err) {
    vn_fact_scope_t scope = {.outer = n->scope};
    vn_status_t s = VN_OK;
    n->ctx->depth++;
    for (int k = 0; k < in->n && k < g->n_inputs && s == VN_OK; ++k) {
        vn_fact_t *f;
        s = vn_facts_put(&scope, g->inputs[k].name, &f, err);
        if (s == VN_OK) vn_fact_copy(f, &in->at[k]);
    }
    if (s == VN_OK) s = vn_infer_graph(n->ctx, &scope, g, err);
    for (int k = 0; k < out->n && k < g->n_outputs && s == VN_OK; ++k) {
        const vn_fact_t *f = vn_facts_find(&scope, g->outputs[k].name);
        vn_fact_clear(&out->at[k]);
        if (f) vn_fact_copy(&out->at[k], f);
    }
    vn_facts_clear(&scope);
    n->ctx->depth--;
    return s;
}

static const vn_graph_t *body_of(const vn_infer_node_t *n, const char *name) {
    const vn_attr_t *a = vn_node_attr(n->node, name);
    return a && a->kind == VN_ATTR_GRAPH ? a->g : NULL;
}

static void give(vn_infer_node_t *n, int k, const vn_fact_t *f) {
    if (k < n->n_out && *n->node->outputs[k]) replace(&n->out[k], f);
}

static bool fatal(vn_status_t s) { return s == VN_ERR_NOMEM || s == VN_ERR_INTERNAL; }

/* A body that may not run at all: its error is a reason, not a failure. */
static vn_status_t tolerate(vn_infer_node_t *n, vn_status_t s, const vn_error_t *err) {
    if (s == VN_OK) return VN_OK;
    if (fatal(s)) return vn_fail(n->err, s, "%s", err->text);
    const char *why = vn_infer_why(n, "a body cannot run on these shapes (%.200s)", err->text);
    for (int k = 0; k < n->n_out; ++k) {
        vn_fact_clear(&n->out[k]);
        n->out[k].v.reason = why;
    }
    return VN_OK;
}

/* ---- If ---- */

/* A branch that cannot run on these shapes is not the one that will; when neither can, the graph cannot. */
static vn_status_t both_branches(vn_infer_node_t *n, const vn_graph_t *const *g, facts_t *out) {
    const facts_t none = {NULL, 0};
    vn_error_t err[2] = {{0}, {0}};
    vn_status_t s[2];
    for (int i = 0; i < 2; ++i) {
        s[i] = run_body(n, g[i], &none, &out[i], &err[i]);
        if (fatal(s[i])) return vn_fail(n->err, s[i], "%s", err[i].text);
    }
    if (s[0] != VN_OK && s[1] != VN_OK)
        return vn_infer_fail(n, s[1], "neither branch can run (then: %.150s; else: %.150s)", err[1].text, err[0].text);
    for (int k = 0; k < n->n_out; ++k) {
        bool changed = false;
        if (s[0] == VN_OK && s[1] == VN_OK) vn_fact_join(&out[0].at[k], &out[1].at[k], &changed);
        give(n, k, &out[s[0] == VN_OK ? 0 : 1].at[k]);
        if (changed && !vn_fact_known(&n->out[k]) && !n->out[k].v.reason)
            n->out[k].v.reason = vn_infer_why(n, "the branches differ in output %d", k);
    }
    return VN_OK;
}

static vn_status_t infer_if(vn_infer_node_t *n) {
    const vn_graph_t *g[2] = {body_of(n, "else_branch"), body_of(n, "then_branch")};
    const facts_t none = {NULL, 0};
    facts_t out[2] = {{NULL, 0}, {NULL, 0}};
    int64_t yes;
    if (!g[0] || !g[1]) return vn_infer_fail(n, VN_ERR_SHAPE, "attribute then_branch or else_branch is missing");
    for (int i = 0; i < 2; ++i)
        if (g[i]->n_outputs < n->n_out)
            return vn_infer_fail(n, VN_ERR_SHAPE, "a branch gives %d values, the node has %d outputs", g[i]->n_outputs, n->n_out);
    vn_status_t s = facts_new(n, n->n_out, &out[0]);
    if (s == VN_OK) s = facts_new(n, n->n_out, &out[1]);
    if (s == VN_OK && vn_infer_has(n, 0) && vn_fact_int(n->in[0], &yes)) {
        s = run_body(n, g[yes != 0], &none, &out[0], n->err);
        for (int k = 0; k < n->n_out && s == VN_OK; ++k) give(n, k, &out[0].at[k]);
    } else if (s == VN_OK) {
        s = both_branches(n, g, out);
    }
    facts_free(&out[0]);
    facts_free(&out[1]);
    return s;
}

/* ---- Loop ---- */

typedef struct loop {
    const vn_graph_t *body;
    int carried, scans;
    int64_t trips;         /* -1: no limit, or not known */
    bool counted, guarded; /* trip count, condition given */
    facts_t in, out, item; /* of the body; item: what each scan output has been so far */
    int64_t done;          /* iterations followed; -1: any number */
} loop_t;

/* Iteration number and condition as the body gets them; not certain: any iteration. */
static vn_status_t enter(const vn_infer_node_t *n, loop_t *l, int64_t i, bool certain) {
    const bool known = true;
    const int64_t one = 1;
    vn_fact_tensor(&l->in.at[0], VN_I64, 0, NULL);
    vn_fact_tensor(&l->in.at[1], VN_BOOL, 0, NULL);
    if (!certain) return VN_OK;
    VN_TRY(vn_fact_set_part(&l->in.at[0], &i, &known, 1, n->err));
    return vn_fact_set_part(&l->in.at[1], &one, &known, 1, n->err);
}

static void note_items(loop_t *l, bool first) {
    bool changed = false;
    for (int k = 0; k < l->scans; ++k) {
        const vn_fact_t *made = &l->out.at[1 + l->carried + k];
        if (first) replace(&l->item.at[k], made);
        else vn_fact_join(&l->item.at[k], made, &changed);
        vn_fact_forget(&l->item.at[k]);
    }
}

/* Follows iterations while it is certain that they run. *open: more may follow. */
static vn_status_t unroll(vn_infer_node_t *n, loop_t *l, bool *open) {
    int64_t going = 1, i = 0;
    *open = false;
    if (l->guarded && !vn_fact_int(n->in[1], &going)) {
        *open = true;
        return VN_OK;
    }
    if (l->counted && l->trips < 0) {
        *open = true;
        return VN_OK;
    }
    for (; going && (!l->counted || i < l->trips); ++i) {
        if (i >= VN_INFER_UNROLL || n->ctx->steps > VN_INFER_STEPS / 2) {
            *open = true;
            break;
        }
        VN_TRY(enter(n, l, i, true));
        VN_TRY(run_body(n, l->body, &l->in, &l->out, n->err));
        for (int k = 0; k < l->carried; ++k) replace(&l->in.at[2 + k], &l->out.at[1 + k]);
        note_items(l, i == 0);
        if (l->guarded && !vn_fact_int(&l->out.at[0], &going)) {
            *open = true;
            ++i;
            break;
        }
    }
    l->done = i;
    return VN_OK;
}

/* What holds whatever number of further iterations runs. */
static vn_status_t settle(vn_infer_node_t *n, loop_t *l, vn_error_t *err) {
    bool first = l->done == 0, always = true;
    for (bool changed = true; changed;) {
        int64_t going;
        changed = false;
        VN_TRY(enter(n, l, 0, false));
        VN_TRY(run_body(n, l->body, &l->in, &l->out, err));
        note_items(l, first);
        first = false;
        for (int k = 0; k < l->carried; ++k) {
            vn_fact_t *state = &l->in.at[2 + k];
            vn_fact_join(state, &l->out.at[1 + k], &changed);
            if (!vn_fact_known(state) && !state->v.reason) state->v.reason = vn_infer_why(n, "value %d changes with the iterations", k);
        }
        always = !l->guarded || (vn_fact_int(&l->out.at[0], &going) && going);
    }
    /* a condition that is true at the start and after every iteration ends nothing */
    int64_t start;
    const bool starts = !l->guarded || (vn_infer_has(n, 1) && vn_fact_int(n->in[1], &start) && start);
    l->done = always && starts && l->counted ? l->trips : -1;
    return VN_OK;
}

static void loop_result(vn_infer_node_t *n, loop_t *l) {
    for (int k = 0; k < n->n_out && k < l->carried; ++k) give(n, k, &l->in.at[2 + k]);
    for (int k = 0; k < l->scans; ++k) {
        vn_fact_t *f = &l->item.at[k];
        int64_t d[VN_MAX_RANK];
        const vn_type_t *t = &l->body->outputs[1 + l->carried + k].type;
        if (l->done == 0 && t->kind == VN_TYPE_TENSOR &&
            t->rank < VN_MAX_RANK) { /* no iteration: open dimensions count as 0, as in CONTROL-1 */
            for (int i = 0; i < t->rank; ++i) d[i] = t->dims[i].value < 0 ? 0 : t->dims[i].value;
            vn_fact_tensor(f, t->dtype, t->rank, d);
        }
        if (f->v.kind != VN_TYPE_TENSOR) continue;
        const int rank = f->v.rank < 0 || f->v.rank >= VN_MAX_RANK ? -1 : f->v.rank + 1;
        d[0] = l->done;
        for (int i = 1; i < rank; ++i) d[i] = f->v.dims[i - 1];
        if (l->carried + k >= n->n_out || !*n->node->outputs[l->carried + k]) continue;
        vn_fact_t *to = &n->out[l->carried + k];
        vn_fact_tensor(to, f->v.dtype, rank, d);
        to->v.reason = f->v.reason;
    }
    if (l->done < 0) {
        const char *why = vn_infer_why(n, "the number of iterations is not known");
        for (int k = 0; k < n->n_out; ++k)
            if (!n->out[k].v.reason && !vn_fact_known(&n->out[k])) n->out[k].v.reason = why;
    }
}

static vn_status_t infer_loop(vn_infer_node_t *n) {
    loop_t l = {.body = body_of(n, "body"), .trips = -1, .carried = n->n_in > 2 ? n->n_in - 2 : 0};
    if (!l.body) return vn_infer_fail(n, VN_ERR_SHAPE, "attribute body is missing");
    l.scans = l.body->n_outputs - 1 - l.carried;
    if (l.scans < 0 || l.body->n_inputs < 2 + l.carried || n->n_out > l.carried + l.scans)
        return vn_infer_fail(n, VN_ERR_SHAPE, "the body takes %d and gives %d values; the node carries %d and has %d outputs",
                             l.body->n_inputs, l.body->n_outputs, l.carried, n->n_out);
    l.counted = n->n_in > 0 && n->in[0];
    l.guarded = n->n_in > 1 && n->in[1];
    if (l.counted && vn_fact_int(n->in[0], &l.trips) && l.trips < 0) l.trips = 0;
    vn_status_t s = facts_new(n, 2 + l.carried, &l.in);
    if (s == VN_OK) s = facts_new(n, l.body->n_outputs, &l.out);
    if (s == VN_OK) s = facts_new(n, l.scans, &l.item);
    for (int k = 0; k < l.carried && s == VN_OK; ++k) {
        if (!n->in[2 + k]) s = vn_infer_fail(n, VN_ERR_SHAPE, "input %d is missing", 2 + k);
        else vn_fact_copy(&l.in.at[2 + k], n->in[2 + k]);
    }
    bool open = false;
    vn_error_t err = {0};
    if (s == VN_OK) s = unroll(n, &l, &open);
    if (s == VN_OK && open) {
        s = settle(n, &l, &err);
        if (s != VN_OK) {
            s = tolerate(n, s, &err);
            open = false;
            l.scans = -1;
        }
    }
    if (s == VN_OK && !open && l.done == 0 && l.scans > 0) { /* no iteration: the body only tells types */
        s = enter(n, &l, 0, false);
        if (s == VN_OK) s = run_body(n, l.body, &l.in, &l.out, &err);
        if (s == VN_OK) note_items(&l, true);
        if (s != VN_OK) s = fatal(s) ? vn_fail(n->err, s, "%s", err.text) : VN_OK;
    }
    if (s == VN_OK && l.scans >= 0) loop_result(n, &l);
    facts_free(&l.in);
    facts_free(&l.out);
    facts_free(&l.item);
    return s;
}

/* ---- Scan ---- */

/* f with dimension `axis` (of rank + 1 when put in) taken out or put in. */
static bool cut_axis(vn_fact_t *f, int axis) {
    if (f->v.kind != VN_TYPE_TENSOR || f->v.rank < 1 || axis < 0 || axis >= f->v.rank) return false;
    int64_t d[VN_MAX_RANK];
    int r = 0;
    for (int k = 0; k < f->v.rank; ++k)
        if (k != axis) d[r++] = f->v.dims[k];
    vn_fact_tensor(f, f->v.dtype, r, d);
    return true;
}

static void put_axis(vn_fact_t *f, int64_t axis, int64_t size) {
    if (f->v.kind != VN_TYPE_TENSOR) return;
    const int rank = f->v.rank < 0 || f->v.rank >= VN_MAX_RANK ? -1 : f->v.rank + 1;
    const char *why = f->v.reason;
    int64_t d[VN_MAX_RANK];
    if (axis < 0) axis += rank;
    for (int k = 0, from = 0; k < rank; ++k) d[k] = k == axis ? size : f->v.dims[from++];
    vn_fact_tensor(f, f->v.dtype, rank, d);
    f->v.reason = why;
}

static vn_status_t infer_scan(vn_infer_node_t *n) {
    const vn_graph_t *body = body_of(n, "body");
    const int first = n->version < 9 ? 1 : 0, batch = first; /* opset 8: lengths come first, operands have a batch dimension */
    const int64_t m = vn_node_int(n->node, "num_scan_inputs", 0);
    if (!body) return vn_infer_fail(n, VN_ERR_SHAPE, "attribute body is missing");
    if (m < 1 || m > n->n_in - first) return vn_infer_fail(n, VN_ERR_RANGE, "num_scan_inputs is %lld", (long long)m);
    const int inputs = (int)m, states = n->n_in - first - inputs, outputs = body->n_outputs - states;
    if (outputs < 0 || body->n_inputs < states + inputs || n->n_out > states + outputs)
        return vn_infer_fail(n, VN_ERR_SHAPE,
                             "the body takes %d and gives %d values; the node has %d states, %d scan inputs and %d outputs", body->n_inputs,
                             body->n_outputs, states, inputs, n->n_out);
    int64_t count_in = 0, count_out = 0, steps = -1, samples = -1;
    const int64_t *axis_in = batch ? NULL : vn_node_ints(n->node, "scan_input_axes", &count_in);
    const int64_t *axis_out = batch ? NULL : vn_node_ints(n->node, "scan_output_axes", &count_out);
    if ((axis_in && count_in != inputs) || (axis_out && count_out != outputs))
        return vn_infer_fail(n, VN_ERR_SHAPE, "axes do not match the body");
    facts_t in, out = {NULL, 0};
    vn_error_t err = {0};
    vn_status_t s = facts_new(n, states + inputs, &in);
    if (s == VN_OK) s = facts_new(n, body->n_outputs, &out);
    for (int k = 0; k < states + inputs && s == VN_OK; ++k) {
        const vn_fact_t *from = n->in[first + k];
        if (!from) {
            s = vn_infer_fail(n, VN_ERR_SHAPE, "input %d is missing", first + k);
            break;
        }
        vn_fact_copy(&in.at[k], from);
        vn_fact_forget(&in.at[k]);
        if (batch && from->v.rank > 0 && from->v.dims[0] >= 0) samples = from->v.dims[0];
        if (batch && !cut_axis(&in.at[k], 0)) vn_fact_tensor(&in.at[k], from->v.dtype, -1, NULL);
        if (k < states) continue;
        int axis = 0;
        const int rank = in.at[k].v.rank;
        if (axis_in && rank >= 0) s = vn_rule_axis(n, axis_in[k - states], rank, &axis);
        if (s == VN_OK && rank > 0 && in.at[k].v.dims[axis] >= 0) {
            if (steps >= 0 && steps != in.at[k].v.dims[axis])
                s = vn_infer_fail(n, VN_ERR_SHAPE, "scan input %d has another length", k - states);
            steps = in.at[k].v.dims[axis];
        }
        if (!cut_axis(&in.at[k], axis)) vn_fact_tensor(&in.at[k], from->v.dtype, -1, NULL);
    }
    bool bodied = false;
    for (bool changed = true; changed && s == VN_OK;) {
        changed = false;
        s = run_body(n, body, &in, &out, &err);
        if (s != VN_OK) {
            s = steps > 0 ? vn_fail(n->err, s, "%s", err.text) : tolerate(n, s, &err);
            bodied = false;
            break;
        }
        bodied = true;
        for (int k = 0; k < states; ++k) vn_fact_join(&in.at[k], &out.at[k], &changed);
    }
    for (int k = 0; k < n->n_out && s == VN_OK && bodied; ++k) {
        vn_fact_t *f = k < states ? &in.at[k] : &out.at[k];
        if (k >= states) put_axis(f, axis_out ? axis_out[k - states] : 0, steps);
        if (batch) put_axis(f, 0, samples);
        vn_fact_forget(f);
        give(n, k, f);
    }
    facts_free(&in);
    facts_free(&out);
    return s;
}

/* ---- SequenceMap ---- */

static vn_status_t infer_map(vn_infer_node_t *n) {
    const vn_graph_t *body = body_of(n, "body");
    facts_t in, out = {NULL, 0};
    vn_error_t err = {0};
    int64_t length = -1;
    if (!body) return vn_infer_fail(n, VN_ERR_SHAPE, "attribute body is missing");
    if (n->n_out > body->n_outputs)
        return vn_infer_fail(n, VN_ERR_SHAPE, "the body gives %d values, the node has %d outputs", body->n_outputs, n->n_out);
    vn_status_t s = facts_new(n, n->n_in, &in);
    if (s == VN_OK) s = facts_new(n, body->n_outputs, &out);
    for (int k = 0; k < n->n_in && s == VN_OK; ++k) {
        const vn_fact_t *from = n->in[k];
        if (!from) continue;
        if (from->v.kind != VN_TYPE_SEQUENCE) {
            vn_fact_copy(&in.at[k], from);
            continue;
        }
        if (from->v.length >= 0) length = from->v.length;
        vn_fact_tensor(&in.at[k], from->v.dtype, from->v.rank, from->v.dims);
        in.at[k].v.reason = from->v.reason;
    }
    if (s == VN_OK) s = run_body(n, body, &in, &out, &err);
    for (int k = 0; k < n->n_out && s == VN_OK; ++k) {
        vn_fact_forget(&out.at[k]);
        out.at[k].v.kind = VN_TYPE_SEQUENCE;
        out.at[k].v.length = length;
        give(n, k, &out.at[k]);
    }
    if (s != VN_OK && *err.text) s = length > 0 ? vn_fail(n->err, s, "%s", err.text) : tolerate(n, s, &err);
    facts_free(&in);
    facts_free(&out);
    return s;
}

/* ---- which ---- */

static const struct {
    const char *op;
    vn_status_t (*fn)(vn_infer_node_t *n);
} control[] = {{"If", infer_if}, {"Loop", infer_loop}, {"Scan", infer_scan}, {"SequenceMap", infer_map}};

bool vn_infer_is_control(const vn_node_t *node) {
    for (size_t i = 0; i < sizeof control / sizeof *control; ++i)
        if (!*node->domain && strcmp(node->op, control[i].op) == 0) return true;
    return false;
}

bool vn_infer_spent(vn_infer_node_t *n) {
    if (n->ctx->steps <= VN_INFER_STEPS) return false;
    const char *why = vn_infer_why(n, "more than %lld nodes were followed through bodies and functions", (long long)VN_INFER_STEPS);
    for (int k = 0; k < n->n_out; ++k) n->out[k].v.reason = why;
    return true;
}

vn_status_t vn_infer_control(vn_infer_node_t *n) {
    if (vn_infer_spent(n)) return VN_OK;
    for (size_t i = 0; i < sizeof control / sizeof *control; ++i)
        if (strcmp(n->node->op, control[i].op) == 0) return control[i].fn(n);
    return VN_ERR_INTERNAL;
}
