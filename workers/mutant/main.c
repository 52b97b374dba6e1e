/* main.c -- the back end `mutant`: plain kernels in C with a chosen arithmetic and a chosen fault; runs graphs node by node on vn_worker_main.
 * Called with --list it prints its operators and its faults instead, one a line, fields separated by tabs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutant.h"
#include "steps/steps.h"
#include "vernier/protocol.h"

typedef struct mutant {
    animal_t animal;
    int threads;
} mutant_t;

struct vn_worker_session {
    steps_t *steps;
    int runs;
};

static vn_status_t mutant_start(int argc, char **argv, void **self, vn_error_t *err) {
    mutant_t *m = vn_alloc(1, sizeof *m);
    if (!m) return vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
    m->threads = 1;
    for (int i = 0; i < argc; ++i) {
        if (strncmp(argv[i], "threads=", 8) == 0) m->threads = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "device=cpu") != 0 && strncmp(argv[i], "cache=", 6) != 0) {
            vn_status_t s = animal_option(&m->animal, argv[i], err);
            if (s == VN_OK) continue;
            vn_free(m);
            return s;
        }
    }
    vn_threads_set(m->threads); /* rows and tiles are shared out; no result depends on it */
    *self = m;
    return VN_OK;
}

static vn_status_t mutant_identity(void *self, vn_text_t *json, vn_error_t *err) {
    const mutant_t *m = self;
    vn_text_printf(json, "{\"framework\":\"mutant\",\"version\":\"%s\",\"device\":\"cpu\",\"threads\":%d,\"settings\":{", vn_version(),
                   m->threads);
    mutant_describe(&m->animal.arithmetic, json);
    const fault_t *f = &m->animal.fault;
    if (f->row) vn_text_printf(json, ",\"fault\":\"%s%s%s\"", f->row->name, f->value[0] ? ":" : "", f->value);
    vn_text_add(json, "},\"capabilities\":{\"intermediates\":true,\"strings\":true},");
    vn_worker_library(json, "/proc/self/exe");
    vn_text_add(json, ",\"cpu_features\":");
    vn_worker_cpu_features(json);
    vn_text_add(json, "}");
    return json->failed ? vn_fail(err, VN_ERR_NOMEM, "identity: out of memory") : VN_OK;
}

static vn_status_t find(void *self, const vn_node_t *n, int64_t opset, const void **op, vn_error_t *err) {
    (void)self, (void)opset;
    if ((*op = mutant_find(n->domain, n->op))) return VN_OK;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "operator %s%s%s of node %s", n->domain, n->domain[0] ? "." : "", n->op, n->path);
}

/* Some node must be of an operator that shows the fault. */
static vn_status_t check_fault(const mutant_t *m, const steps_t *p, vn_error_t *err) {
    bool fits = !m->animal.fault.row;
    for (int i = 0; i < steps_count(p) && !fits; ++i) {
        const vn_node_t *n = steps_at(p, i)->node;
        fits = fault_for(&m->animal.fault, n->op).row && (!m->animal.node[0] || !strcmp(m->animal.node, n->path));
    }
    if (fits) return VN_OK;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "fault %s: no operator of this model can show it", m->animal.fault.row->name);
}

static void mutant_unload(void *self, vn_worker_session_t *s) {
    (void)self;
    steps_free(s->steps);
    vn_free(s);
}

static vn_status_t mutant_load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    vn_status_t status = steps_load(rq, find, self, &s->steps, err);
    if (status == VN_OK) status = check_fault(self, s->steps, err);
    if (status == VN_OK) *out = s;
    else mutant_unload(self, s);
    return status;
}

/* ---- run ---- */

typedef struct execution {
    const mutant_t *m;
    int turn;
    int64_t changed; /* elements that the fault has changed */
} execution_t;

static vn_status_t run_step(void *self, step_call_t *q) {
    execution_t *e = self;
    int64_t changed = 0;
    call_t c = {.turn = e->turn,
                .node = q->step->node,
                .opset = q->step->opset,
                .n_in = q->n_in,
                .n_out = q->n_out,
                .in = q->in,
                .out = q->out,
                .err = q->err};
    const vn_status_t status = animal_run(&e->m->animal, q->step->op, &c, &changed);
    e->changed += changed;
    return status;
}

static vn_status_t mutant_run(void *self, vn_worker_session_t *session, vn_run_request_t *rq, vn_error_t *err) {
    execution_t e = {.m = self, .turn = session->runs++};
    VN_TRY(steps_run(session->steps, run_step, &e, rq, err));
    if (e.m->animal.fault.row && e.changed == 0)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "fault %s: it changes no element of this model on these operands",
                       e.m->animal.fault.row->name);
    return VN_OK;
}

static void mutant_stop(void *self) { vn_free(self); }

static int list(void) {
    for (int i = 0; mutant_op(i); ++i) printf("operator\t%s\n", mutant_op(i)->name);
    for (int i = 0; fault_row(i); ++i) {
        const fault_row_t *f = fault_row(i);
        printf("fault\t%s\t%s\t%s\t%s\t%s\n", f->name, fault_kind_name(f->kind), f->operators, f->value ? f->value : "-", f->words);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    const vn_worker_ops_t ops = {"mutant", mutant_start, mutant_identity, mutant_load, mutant_run, mutant_unload, mutant_stop};
    return vn_worker_main(argc, argv, &ops);
}
