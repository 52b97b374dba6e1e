/* isolated.c -- every operator on the reference trajectory's tensors, packed as disjoint components of one model, on every back end.
 *
 * A pack that fails to load or run is halved until the operator that fails stands alone: its neighbours still get their verdicts.
 * Packs run twice where effort allows it: rung 2 needs a repeat at identical settings.
 */
#include <stdio.h>
#include <string.h>

#include "study/pack.h"

typedef struct vn_seen {
    char key[65];
    const char *path;
    int64_t order;
} vn_seen_t;

enum { HASH_LIMIT = 1 << 20 };              /* inputs beyond this are not hashed: such tasks always run */
static const size_t pack_limit = 24u << 20; /* bytes of inputs and planes that wait in one pack */

static void task_clear(vn_task_t *t) {
    for (int k = 0; t->inputs && k < t->node.n_inputs; ++k) vn_value_free(t->inputs[k]);
    for (int k = 0; t->refs && k < t->node.n_outputs; ++k) vn_ref_free(&t->refs[k]);
    vn_free(t->inputs);
    vn_free(t->frozen);
    vn_free(t->refs);
    *t = (vn_task_t){0};
}

/* ---- one pack (or part of it) on one back end ---- */

static vn_status_t judge_task(vn_pack_t *p, int i, int at, vn_error_t *err) {
    vn_study_t *s = p->s;
    const vn_task_t *t = &s->pack[i];
    const size_t n = (size_t)t->node.n_outputs + 1;
    const vn_value_t **first = vn_alloc(n, sizeof *first), **second = vn_alloc(n, sizeof *second);
    int64_t *poison = vn_alloc(n, sizeof *poison);
    bool *guard = vn_alloc(n, sizeof *guard);
    vn_finding_t *findings = vn_alloc(n, sizeof *findings);
    vn_status_t st = first && second && poison && guard && findings ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < t->node.n_outputs && st == VN_OK; ++k) {
        if (!*t->node.outputs[k]) continue;
        first[k] = p->first[at].value;
        second[k] = p->second[at].value;
        poison[k] = p->first[at].poison_left;
        guard[k] = p->first[at].guard_broken;
        at++;
    }
    vn_question_t q = {.model = s->model,
                       .node = &t->node,
                       .inputs = (const vn_value_t *const *)t->inputs,
                       .contract = &s->o->contract,
                       .refs = t->refs,
                       .n_outputs = t->node.n_outputs,
                       .actual = first,
                       .actual2 = s->o->effort > VN_EFFORT_QUICK ? second : NULL,
                       .poison_left = poison,
                       .guard_broken = guard,
                       .alpha = s->alpha,
                       .effort = s->o->effort,
                       .hint = &p->b->hint};
    if (st == VN_OK) st = vn_judge(&q, findings, err);
    if (st == VN_OK && (s->o->effort == VN_EFFORT_DEEP || vn_verdict_fails(findings[0].verdict)))
        st = vn_study_probe(s, p->b, t, &findings[0], err);
    if (st == VN_OK && (s->o->effort == VN_EFFORT_DEEP || findings[0].verdict == VN_SUSPECT))
        st = vn_study_replay(s, p->b, t, first[0], &findings[0], err);
    for (int k = 0; k < t->node.n_outputs && st == VN_OK; ++k) {
        if (!*t->node.outputs[k]) continue;
        st = vn_row_from(s->record, &findings[k], t->path, &t->node, k, p->b->text, "isolated", t->order, err);
    }
    vn_free(first);
    vn_free(second);
    vn_free(poison);
    vn_free(guard);
    vn_free(findings);
    return st;
}

static vn_status_t failed_task(const vn_pack_t *p, const vn_error_t *why, vn_error_t *err) {
    const vn_task_t *t = &p->s->pack[p->begin];
    for (int k = 0; k < t->node.n_outputs; ++k)
        if (*t->node.outputs[k])
            VN_TRY(vn_row_plain(p->s->record, vn_verdict_of_status(why->status), why->text, t->path, &t->node, k, p->b->text, "isolated",
                                t->order, err));
    return VN_OK;
}

static vn_status_t run_part(vn_study_t *s, vn_backend_t *b, int begin, int end, vn_error_t *err) {
    if (begin >= end) return VN_OK;
    vn_pack_t p = {.s = s, .b = b, .tasks = s->pack, .begin = begin, .end = end};
    vn_error_t why = {0};
    vn_status_t run = VN_OK, st = vn_pack_run(&p, s->o->effort > VN_EFFORT_QUICK, &run, &why, err);
    if (st == VN_OK && run != VN_OK) {
        vn_pack_clear(&p);
        if (end - begin == 1) return failed_task(&p, &why, err);
        const int middle = begin + (end - begin) / 2;
        VN_TRY(run_part(s, b, begin, middle, err));
        return run_part(s, b, middle, end, err);
    }
    for (int i = begin, at = 0; i < end && st == VN_OK; ++i) {
        st = judge_task(&p, i, at, err);
        for (int k = 0; k < s->pack[i].node.n_outputs; ++k) at += *s->pack[i].node.outputs[k] != '\0';
    }
    vn_pack_clear(&p);
    return st;
}

static vn_status_t flush(vn_study_t *s, vn_error_t *err) {
    vn_status_t st = VN_OK;
    for (int b = 0; b < s->n_backends && st == VN_OK; ++b) {
        if (!s->backends[b].worker) continue;
        st = run_part(s, &s->backends[b], 0, s->packed, err);
    }
    for (int i = 0; i < s->packed; ++i) task_clear(&s->pack[i]);
    s->packed = 0;
    s->pack_bytes = 0;
    if (s->o->progress) s->o->progress(s->o->progress_ctx, "isolated", s->steps, s->total_steps);
    return st;
}

/* ---- planning: one task a step ---- */

static void hash_attrs(vn_sha256_t *h, const vn_node_t *n) {
    char hex[65];
    for (int a = 0; a < n->n_attrs; ++a) {
        const vn_attr_t *t = &n->attrs[a];
        vn_sha256_add(h, t->name, strlen(t->name) + 1);
        vn_sha256_add(h, &t->kind, sizeof t->kind);
        vn_sha256_add(h, &t->f, sizeof t->f);
        vn_sha256_add(h, &t->i, sizeof t->i);
        vn_sha256_add(h, &t->count, sizeof t->count);
        if (t->s.text) vn_sha256_add(h, t->s.text, t->s.length);
        if (t->kind == VN_ATTR_INTS) vn_sha256_add(h, t->ints, (size_t)t->count * sizeof *t->ints);
        if (t->kind == VN_ATTR_FLOATS) vn_sha256_add(h, t->floats, (size_t)t->count * sizeof *t->floats);
        if (t->kind == VN_ATTR_STRINGS)
            for (int64_t i = 0; i < t->count; ++i) vn_sha256_add(h, t->strings[i].text, t->strings[i].length + 1);
        if (t->kind == VN_ATTR_TENSOR && t->t && vn_tensor_sha256(t->t, hex, NULL) == VN_OK) vn_sha256_add(h, hex, 64);
    }
}

static bool can_hash(const vn_task_t *t) {
    for (int a = 0; a < t->node.n_attrs; ++a)
        if (t->node.attrs[a].kind > VN_ATTR_STRINGS || t->node.attrs[a].kind == VN_ATTR_GRAPH) return false;
    size_t total = 0;
    for (int k = 0; k < t->node.n_inputs; ++k) {
        size_t n;
        if (!t->inputs[k]) continue;
        if (t->inputs[k]->kind != VN_VALUE_TENSOR) return false;
        if (!vn_dtype_storage(t->inputs[k]->tensor->dtype, t->inputs[k]->tensor->count, &n)) return false;
        total += n;
    }
    return total <= HASH_LIMIT;
}

static void task_key(vn_task_t *t) {
    char hex[65];
    if (!can_hash(t)) return;
    vn_sha256_t *h = vn_sha256_new();
    if (!h) return;
    vn_sha256_add(h, t->node.domain, strlen(t->node.domain) + 1);
    vn_sha256_add(h, t->node.op, strlen(t->node.op) + 1);
    vn_sha256_add(h, &t->node.n_outputs, sizeof t->node.n_outputs);
    for (int k = 0; k < t->node.n_inputs; ++k) {
        vn_sha256_add(h, &t->frozen[k], 1);
        if (t->inputs[k] && vn_tensor_sha256(t->inputs[k]->tensor, hex, NULL) == VN_OK) vn_sha256_add(h, hex, 64);
        else vn_sha256_add(h, "-", 1);
    }
    for (int k = 0; k < t->node.n_outputs; ++k) vn_sha256_add(h, *t->node.outputs[k] ? "+" : "-", 1);
    hash_attrs(h, &t->node);
    vn_sha256_finish(h, t->key);
}

static const vn_seen_t *seen_before(const vn_study_t *s, const char *key) {
    for (int i = 0; *key && i < s->n_seen; ++i)
        if (strcmp(s->seen[i].key, key) == 0) return &s->seen[i];
    return NULL;
}

static vn_status_t remember(vn_study_t *s, const vn_task_t *t, vn_error_t *err) {
    if (!*t->key) return VN_OK;
    if (s->n_seen == s->seen_capacity) {
        const int capacity = s->seen_capacity ? 2 * s->seen_capacity : 128;
        vn_seen_t *seen = vn_realloc(s->seen, (size_t)capacity, sizeof *seen);
        if (!seen) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        s->seen = seen;
        s->seen_capacity = capacity;
    }
    memcpy(s->seen[s->n_seen].key, t->key, sizeof t->key);
    s->seen[s->n_seen].order = t->order;
    s->seen[s->n_seen++].path = t->path;
    return VN_OK;
}

static bool is_constant(const vn_node_t *n) { return !*n->domain && strcmp(n->op, "Constant") == 0; }

/* Initialisers and Constant results stay fixed in the isolated model, so that a back end sees what it would see in the whole. */
static bool is_fixed(const vn_graph_t *g, const char *name) {
    for (; g; g = g->outer) {
        if (vn_graph_init(g, name)) return true;
        const int p = vn_graph_producer(g, name);
        if (p >= 0) return is_constant(&g->nodes[p]);
    }
    return false;
}

static vn_status_t all_rows(vn_study_t *s, const vn_step_t *step, vn_verdict_t v, const char *words, const char *path, vn_error_t *err) {
    for (int b = 0; b < s->n_backends; ++b) {
        if (!s->backends[b].worker) continue;
        for (int k = 0; k < step->node->n_outputs; ++k)
            if (*step->node->outputs[k])
                VN_TRY(vn_row_plain(s->record, v, words, path, step->node, k, s->backends[b].text, "isolated", s->steps, err));
    }
    return VN_OK;
}

static vn_status_t note_values(vn_study_t *s, const vn_step_t *step, vn_error_t *err) {
    if (!step->top || step->status != VN_OK) return VN_OK;
    for (int k = 0; k < step->node->n_outputs; ++k) {
        const vn_ref_t *r = &step->refs[k];
        if (!*step->node->outputs[k] || !r->tensor) continue;
        if (is_constant(step->node)) {
            VN_TRY(vn_bundle_add(&s->constants, step->node->outputs[k], r->tensor, err));
            continue;
        }
        if (s->n_values == s->values_capacity) {
            const int capacity = s->values_capacity ? 2 * s->values_capacity : 256;
            vn_output_spec_t *values = vn_realloc(s->values, (size_t)capacity, sizeof *values);
            if (!values) return vn_fail(err, VN_ERR_NOMEM, "no memory");
            s->values = values;
            s->values_capacity = capacity;
        }
        vn_output_spec_t *v = &s->values[s->n_values++];
        *v = (vn_output_spec_t){.name = step->node->outputs[k], .dtype = r->dtype, .rank = r->rank};
        memcpy(v->dims, r->dims, sizeof v->dims);
    }
    return VN_OK;
}

static vn_status_t take_task(vn_study_t *s, const vn_step_t *step, const vn_op_info_t *info, const char *path, vn_error_t *err) {
    vn_task_t t = {.node = *step->node, .path = path, .order = s->steps};
    const size_t ni = (size_t)t.node.n_inputs + 1, no = (size_t)t.node.n_outputs + 1;
    t.inputs = vn_alloc(ni, sizeof *t.inputs);
    t.frozen = vn_alloc(ni, sizeof *t.frozen);
    t.refs = vn_alloc(no, sizeof *t.refs);
    if (!t.inputs || !t.frozen || !t.refs) {
        task_clear(&t);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int k = 0; k < t.node.n_inputs; ++k) {
        size_t n = 0;
        if (!step->inputs[k]) continue;
        t.inputs[k] = vn_value_retain(step->inputs[k]);
        t.frozen[k] = (k < 32 && (info->shape_like >> k & 1)) || is_fixed(step->graph, t.node.inputs[k]);
        if (t.inputs[k]->kind == VN_VALUE_TENSOR && vn_dtype_storage(t.inputs[k]->tensor->dtype, t.inputs[k]->tensor->count, &n) &&
            !t.frozen[k])
            t.bytes += n;
    }
    task_key(&t);
    const vn_seen_t *seen = seen_before(s, t.key);
    if (seen) { /* its rows are copies of those of the first, made when all have been judged */
        for (int b = 0; b < s->n_backends; ++b) {
            if (!s->backends[b].worker) continue;
            for (int k = 0; k < t.node.n_outputs; ++k) {
                if (!*t.node.outputs[k]) continue;
                vn_status_t st =
                    vn_row_plain(s->record, VN_NOT_RUN, NULL, path, &t.node, k, s->backends[b].text, "isolated", s->steps, err);
                if (st != VN_OK) {
                    task_clear(&t);
                    return st;
                }
                vn_row_t *row = &s->record->rows[s->record->n_rows - 1];
                row->duplicate_of = seen->path;
                row->first_index = seen->order; /* these two find the row to copy, and are replaced by the copy */
                row->count = k;
            }
        }
        task_clear(&t);
        return VN_OK;
    }
    for (int k = 0; k < t.node.n_outputs; ++k) { /* planes move here; the tensor stays behind and is shared */
        vn_ref_t *r = &step->refs[k];
        t.refs[k] = *r;
        if (r->tensor) t.refs[k].tensor = vn_tensor_retain(r->tensor);
        if (r->nested) t.refs[k].nested = vn_value_retain(r->nested);
        *r = (vn_ref_t){.dtype = r->dtype, .rank = r->rank, .count = r->count, .tensor = r->tensor, .nested = r->nested};
        memcpy(r->dims, t.refs[k].dims, sizeof r->dims);
        t.bytes += (size_t)t.refs[k].count * (t.refs[k].value ? 32 : 8);
    }
    vn_status_t st = remember(s, &t, err);
    if (st == VN_OK && s->packed && s->pack_bytes + t.bytes > pack_limit) st = flush(s, err);
    if (st != VN_OK) {
        task_clear(&t);
        return st;
    }
    s->pack[s->packed++] = t;
    s->pack_bytes += t.bytes;
    return s->packed == VN_PACK_TASKS || s->pack_bytes > pack_limit ? flush(s, err) : VN_OK;
}

static vn_status_t on_step(void *ctx, const vn_step_t *step, vn_error_t *err) {
    vn_study_t *s = ctx;
    vn_op_info_t info;
    s->steps++;
    VN_TRY(note_values(s, step, err));
    if (is_constant(step->node)) return VN_OK;
    const char *path = vn_record_string(s->record, step->path);
    if (!path) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    const bool known = vn_oracle_knows(s->model, step->node, &info);
    if (step->top) s->record->judged_nodes++;
    if (step->status != VN_OK) {
        const vn_verdict_t v = step->status == VN_ERR_UNSUPPORTED ? VN_UNSUPPORTED : VN_NOT_RUN;
        return all_rows(s, step, v, step->error->text, path, err);
    }
    if (known && info.cls == VN_CLASS_CONTROL)
        return vn_record_note(s->record, "%s (%s): control flow, judged by the operators of the bodies that ran", path, step->node->op);
    for (int k = 0; k < step->node->n_inputs; ++k)
        if (step->inputs[k] && step->inputs[k]->kind != VN_VALUE_TENSOR)
            return all_rows(s, step, VN_NOT_RUN, "an input is a sequence or an optional: not run isolated", path, err);
    if (known && info.cls == VN_CLASS_CONTRACTION) VN_TRY(vn_study_weights(s, step, path, err));
    return take_task(s, step, &info, path, err);
}

/* Rows of duplicates become copies of the rows of the task that ran. */
static void fill_duplicates(vn_record_t *r) {
    for (int i = 0; i < r->n_rows; ++i) {
        vn_row_t *row = &r->rows[i];
        if (!row->duplicate_of) continue;
        int64_t skip = row->count, source = row->first_index;
        for (int j = 0; j < r->n_rows; ++j) {
            const vn_row_t *from = &r->rows[j];
            if (from->order != source || from->duplicate_of || strcmp(from->backend, row->backend) != 0) continue;
            if (skip-- > 0) continue;
            const vn_row_t mine = *row;
            *row = *from;
            row->node = mine.node;
            row->output = mine.output;
            row->duplicate_of = mine.duplicate_of;
            row->order = mine.order;
            break;
        }
    }
}

vn_status_t vn_study_isolated(vn_study_t *s, vn_error_t *err) {
    vn_status_t st = vn_oracle_trajectory(s->model, &s->inputs, &s->o->contract, VN_WANT_VARIANCE, on_step, s, &s->ends, err);
    if (st == VN_OK && s->packed) st = flush(s, err);
    for (int i = 0; i < s->packed; ++i) task_clear(&s->pack[i]);
    s->packed = 0;
    vn_free(s->seen);
    s->seen = NULL;
    if (st == VN_OK) fill_duplicates(s->record);
    return st;
}
