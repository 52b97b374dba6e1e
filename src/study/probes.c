/* probes.c -- rung 8: integer ladders on the very operator, shape and attributes that fail (or, at --effort deep, on all plain sums).
 *
 * All rungs of one operator are disjoint components of one model: one load and one run. Claim LADDER-1 (src/probe/ladder.c) makes a difference a
 * proof as long as the rung asks for no more bits than the contract promises; beyond that it is a measurement.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/pack.h"

enum { BITS = 3, LADDERS = 3, RUNGS = BITS * LADDERS, DRAWS = 4, LEAST = 4, QUICK_LIMIT = 16, ALIKE_LIMIT = 3 };
static const size_t pack_bytes = 24u << 20;

typedef struct rung {
    vn_ladder_t ask;
    bool there;        /* the type holds such numbers */
    vn_task_t task;    /* owns its inputs and refs */
    double *magnitude; /* T of each element */
    int64_t judged, wrong;
    int64_t whole; /* wrong by half a unit or more: no rounding of integers this small, but other terms */
} rung_t;

static void rung_clear(rung_t *g) {
    for (int k = 0; g->task.inputs && k < g->task.node.n_inputs; ++k) vn_value_free(g->task.inputs[k]);
    if (g->task.refs) vn_ref_free(g->task.refs);
    vn_free(g->task.inputs);
    vn_free(g->task.refs);
    vn_free(g->magnitude);
    *g = (rung_t){0};
}

/* The oracle on the magnitudes of the inputs gives the sum of the magnitudes of the terms. */
static vn_status_t magnitudes(const vn_study_t *s, const vn_ladder_op_t *op, rung_t *g, bool *known, vn_error_t *err) {
    const vn_node_t *n = &g->task.node;
    vn_value_t **in = vn_alloc((size_t)n->n_inputs + 1, sizeof *in);
    vn_ref_t ref = {0};
    vn_error_t why = {0};
    vn_status_t st = in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    *known = false;
    for (int k = 0; k < n->n_inputs && st == VN_OK; ++k) {
        const vn_value_t *v = g->task.inputs[k];
        if (!v) continue;
        if (k != op->factor[0] && k != op->addend && !(op->n_factors == 2 && k == op->factor[1])) {
            in[k] = vn_value_retain(v);
            continue;
        }
        vn_tensor_t *t;
        st = vn_tensor_copy(v->tensor, &t, err);
        for (int64_t i = 0; st == VN_OK && i < t->count; ++i) vn_tensor_set_f64(t, i, fabs(vn_tensor_get_f64(t, i)));
        if (st == VN_OK && !(in[k] = vn_value_tensor(t))) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    if (st == VN_OK) {
        const vn_status_t asked =
            vn_oracle_node(s->model, n, (const vn_value_t *const *)in, NULL, &s->o->contract, VN_WANT_VALUE | VN_WANT_PLAIN, &ref, &why);
        if (asked == VN_ERR_NOMEM) st = vn_fail(err, asked, "no memory");
        *known = asked == VN_OK && ref.value && ref.count == g->task.refs[0].count;
        if (*known) {
            g->magnitude = ref.value;
            ref.value = NULL;
        }
    }
    for (int k = 0; in && k < n->n_inputs; ++k) vn_value_free(in[k]);
    vn_free(in);
    vn_ref_free(&ref);
    return st;
}

/* Elements about which the rung can speak. */
static int64_t speaking(const vn_ladder_op_t *op, const rung_t *g) {
    const double limit = ldexp(op->unit, g->ask.bits);
    int64_t n = 0;
    for (int64_t i = 0; i < g->task.refs[0].count; ++i) n += g->magnitude[i] <= limit && g->magnitude[i] > 0;
    return n;
}

static vn_status_t prepare(const vn_study_t *s, const vn_task_t *t, const vn_ladder_op_t *op, rung_t *g, vn_error_t *err) {
    g->task = (vn_task_t){.node = t->node, .path = t->path, .order = t->order, .frozen = t->frozen};
    g->task.inputs = vn_alloc((size_t)t->node.n_inputs + 1, sizeof *g->task.inputs);
    g->task.refs = vn_alloc(1, sizeof *g->task.refs);
    if (!g->task.inputs || !g->task.refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < t->node.n_inputs; ++k) {
        vn_tensor_t *fresh = NULL;
        vn_error_t why = {0};
        if (!t->inputs[k]) continue;
        const vn_status_t st = vn_ladder_fill(op, &g->ask, k, t->inputs[k]->tensor, &fresh, &why);
        if (st == VN_ERR_UNSUPPORTED) return VN_OK; /* not there */
        if (st != VN_OK) return vn_fail(err, st, "%s", why.text);
        g->task.inputs[k] = fresh ? vn_value_tensor(fresh) : vn_value_retain(t->inputs[k]);
        if (!g->task.inputs[k]) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    vn_error_t why = {0};
    const vn_status_t asked = vn_oracle_node(s->model, &g->task.node, (const vn_value_t *const *)g->task.inputs, NULL, &s->o->contract,
                                             VN_WANT_BOUND, g->task.refs, &why);
    if (asked == VN_ERR_NOMEM) return vn_fail(err, asked, "no memory");
    if (asked != VN_OK || !g->task.refs[0].value || !g->task.refs[0].tensor) return VN_OK;
    return magnitudes(s, op, g, &g->there, err);
}

/* Every element whose sum is exact in so many bits must hold the exact sum, stored once. */
static void judge(const vn_ladder_op_t *op, rung_t *g, const vn_value_t *got) {
    const vn_ref_t *r = g->task.refs;
    const double limit = ldexp(op->unit, g->ask.bits);
    const vn_tensor_t *a = got && got->kind == VN_VALUE_TENSOR ? got->tensor : NULL;
    for (int64_t i = 0; i < r->count; ++i) {
        if (!(g->magnitude[i] <= limit) || g->magnitude[i] == 0) continue;
        g->judged++;
        const double due = vn_tensor_get_f64(r->tensor, i), x = a && a->count == r->count ? vn_tensor_get_f64(a, i) : NAN;
        if (x == due) continue;
        g->wrong++;
        g->whole += !(fabs(x - r->value[i]) < op->unit / 2);
    }
}

static vn_status_t run_rungs(vn_study_t *s, vn_backend_t *b, const vn_ladder_op_t *op, rung_t *rungs, int n, char *failed, size_t size,
                             vn_error_t *err) {
    vn_task_t tasks[RUNGS];
    int which[RUNGS], there = 0;
    size_t each = 1;
    for (int i = 0; i < n; ++i) {
        if (!rungs[i].there) continue;
        size_t bytes = 0, one;
        for (int k = 0; k < rungs[i].task.node.n_inputs; ++k)
            if (rungs[i].task.inputs[k] &&
                vn_dtype_storage(rungs[i].task.inputs[k]->tensor->dtype, rungs[i].task.inputs[k]->tensor->count, &one))
                bytes += one;
        if (bytes > each) each = bytes;
        which[there] = i;
        tasks[there++] = rungs[i].task;
    }
    const int together = pack_bytes / each > RUNGS ? RUNGS : pack_bytes / each < 1 ? 1 : (int)(pack_bytes / each);
    *failed = '\0';
    for (int begin = 0; begin < there && !*failed; begin += together) {
        const int end = begin + together < there ? begin + together : there;
        vn_pack_t p = {.s = s, .b = b, .tasks = tasks, .begin = begin, .end = end};
        vn_error_t why = {0};
        vn_status_t run;
        VN_TRY(vn_pack_run(&p, false, &run, &why, err));
        if (run != VN_OK) snprintf(failed, size, "%.100s", why.text);
        for (int i = begin; i < end && run == VN_OK; ++i) judge(op, &rungs[which[i]], p.first[i - begin].value);
        vn_pack_clear(&p);
    }
    return VN_OK;
}

/* ---- what the rungs say together ---- */

/* Largest rung of a ladder up to which all are exact, the first that is not (NULL: none), and whether any could speak. */
typedef struct reach {
    int exact;
    const rung_t *wrong;
    bool asked;
} reach_t;

static reach_t reach_of(const rung_t *rungs, int n, int operand) {
    reach_t r = {0};
    for (int i = 0; i < n; ++i) {
        if (rungs[i].ask.operand != operand || !rungs[i].there || rungs[i].judged == 0) continue;
        r.asked = true;
        if (rungs[i].wrong) {
            r.wrong = &rungs[i];
            break;
        }
        r.exact = rungs[i].ask.bits;
    }
    return r;
}

static void say(char *out, size_t size, const char *what, const reach_t *r) {
    const size_t at = strlen(out);
    if (!r->asked || at >= size) return;
    const char *comma = at ? ", " : "";
    if (!r->wrong) snprintf(out + at, size - at, "%s%s exact with %d bits", comma, what, r->exact);
    else if (r->exact)
        snprintf(out + at, size - at, "%s%s exact with %d bits, not with %d (%lld of %lld wrong)", comma, what, r->exact,
                 r->wrong->ask.bits, (long long)r->wrong->wrong, (long long)r->wrong->judged);
    else
        snprintf(out + at, size - at, "%s%s wrong even with %d bits (%lld of %lld)", comma, what, r->wrong->ask.bits,
                 (long long)r->wrong->wrong, (long long)r->wrong->judged);
}

/* Adds a sentence if there is room for all of it. */
static void append(char *text, size_t size, const char *more) {
    const size_t n = strlen(text);
    if (n + strlen(more) + 2 < size) snprintf(text + n, size - n, "%s%s", n ? " " : "", more);
}

static void conclude(const vn_ladder_op_t *op, const rung_t *rungs, int n, const vn_contract_t *contract, vn_finding_t *f) {
    const reach_t sums = reach_of(rungs, n, -1), left = reach_of(rungs, n, 0), right = reach_of(rungs, n, 1);
    const int promised = vn_format_info(contract->accumulator)->p, operand = vn_format_info(contract->operand)->p;
    const int least = operand < promised ? operand : promised;
    char text[360] = "", line[460];
    say(text, sizeof text, "sums", &sums);
    say(text, sizeof text, op->n_factors == 2 ? "first operand" : "operand", &left);
    say(text, sizeof text, "second operand", &right);
    if (!*text) return;
    snprintf(line, sizeof line, "Integer probes: %s.", text);
    const size_t at = strlen(f->rungs);
    if (at + strlen(text) + 10 < sizeof f->rungs) snprintf(f->rungs + at, sizeof f->rungs - at, "; probes: %s", text);
    const reach_t *ladders[LADDERS] = {&sums, &left, &right};
    bool proof = false, complete = false, terms = false, operands = false;
    for (int l = 0; l < LADDERS; ++l) {
        const rung_t *w = ladders[l]->wrong;
        if (!w || w->ask.bits > (l ? least : promised)) continue; /* more bits than promised: a measurement */
        proof = true;
        operands |= l > 0;
        terms |= !ladders[l]->exact && w->whole > 0;
        complete |= ladders[l]->exact && w->wrong == w->judged && w->judged >= LEAST;
    }
    if (sums.wrong && sums.wrong->ask.bits <= promised) operands = false; /* then operands cannot be told from the sum */
    /* Terms lost or misplaced are wrong by whole units however few the bits. A format of fewer bits is exact up to its bits, and then never: each
     * integer of the next rung needs all of them. What is wrong here and there, by fractions, mixes the terms in another way (Winograd). */
    const bool fails = vn_verdict_fails(f->verdict);
    if (proof && (f->verdict == VN_SUSPECT || !fails) && (terms || complete)) {
        const bool passed = !fails;
        f->verdict = terms ? VN_BUG : VN_CONTRACT_MISMATCH;
        if (!terms && !*f->cause) snprintf(f->cause, sizeof f->cause, operands ? "operands-narrow" : "accumulator-narrow");
        if (passed)
            snprintf(f->words, sizeof f->words,
                     "On these inputs nothing shows; integers, for which every order of summation is exact, come out wrong.");
        append(f->words, sizeof f->words, line);
    } else if (fails) {
        append(f->words, sizeof f->words, line);
    } else if (proof) {
        append(f->note, sizeof f->note,
               f->note[0] ? "; exact-integers-rounded" : "exact-integers-rounded: no plain sum of the products (integer probes)");
    }
}

/* The same operator with the same named cause tells nothing new after three times; what has no name is always asked. */
static bool told_before(vn_backend_t *b, const vn_node_t *n, const vn_finding_t *f) {
    for (int k = 0; *f->cause && k < VN_ALIKE_KINDS; ++k) {
        vn_alike_t *a = &b->alike[k];
        if (!a->op) {
            a->op = n->op;
            snprintf(a->cause, sizeof a->cause, "%s", f->cause);
        }
        if (strcmp(a->op, n->op) == 0 && strcmp(a->cause, f->cause) == 0) return a->count++ >= ALIKE_LIMIT;
    }
    return false;
}

vn_status_t vn_study_probe(vn_study_t *s, vn_backend_t *b, const vn_task_t *t, vn_finding_t *f, vn_error_t *err) {
    static const int narrow[BITS] = {8, 11, 24}, wide[BITS] = {11, 24, 53};
    const vn_ref_t *r = t->refs;
    vn_ladder_op_t op;
    const char *why;
    if (t->node.n_outputs != 1 || !r->value || !vn_dtype_is_float(r->dtype) || r->count == 0) return VN_OK;
    if (!vn_ladder_of(&t->node, r->terms, &op, &why)) return VN_OK;
    if ((s->o->effort == VN_EFFORT_QUICK && b->probed >= QUICK_LIMIT) || (s->o->effort < VN_EFFORT_DEEP && told_before(b, &t->node, f))) {
        b->not_probed++;
        return VN_OK;
    }
    b->probed++;
    const vn_contract_t contract = vn_contract_resolve(&s->o->contract, r->dtype);
    rung_t *rungs = vn_alloc(RUNGS, sizeof *rungs);
    if (!rungs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    int n = 0;
    vn_status_t st = VN_OK;
    for (int l = -1; l < op.n_factors; ++l)
        for (int i = 0; i < BITS && st == VN_OK; ++i, ++n)
            for (int draw = 0; draw < DRAWS && st == VN_OK; ++draw) { /* sparse operands may leave no sum with one term: draw again */
                const int bits = contract.accumulator == VN_FMT_F64 ? wide[i] : narrow[i];
                rung_clear(&rungs[n]);
                rungs[n].ask = (vn_ladder_t){.bits = bits,
                                             .operand = l,
                                             .terms = r->terms,
                                             .seed = 1u + (uint64_t)bits + 64u * (uint64_t)(l + 1) + 256u * (uint64_t)draw};
                st = prepare(s, t, &op, &rungs[n], err);
                if (!rungs[n].there || speaking(&op, &rungs[n]) > 0) break;
            }
    char failed[128] = "";
    if (st == VN_OK) st = run_rungs(s, b, &op, rungs, n, failed, sizeof failed, err);
    if (st == VN_OK && *failed) {
        const size_t at = strlen(f->rungs);
        if (at + strlen(failed) + 24 < sizeof f->rungs) snprintf(f->rungs + at, sizeof f->rungs - at, "; probes did not run: %s", failed);
    } else if (st == VN_OK) {
        conclude(&op, rungs, n, &contract, f);
    }
    for (int i = 0; i < n; ++i) rung_clear(&rungs[i]);
    vn_free(rungs);
    return st;
}
