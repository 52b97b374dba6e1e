/* node.c -- one operator, clean or with the fault: it counts as shown only where bits of the result changed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mutant.h"

vn_status_t animal_option(animal_t *m, const char *text, vn_error_t *err) {
    if (strncmp(text, "fault=", 6) == 0) return fault_parse(text + 6, &m->fault, err);
    if (strncmp(text, "node=", 5) == 0 && text[5] && strlen(text + 5) < sizeof m->node) {
        strcpy(m->node, text + 5);
        return VN_OK;
    }
    if (mutant_option(&m->arithmetic, text)) return VN_OK;
    return vn_fail(err, VN_ERR_USAGE, "unknown option '%s'", text);
}

/* The options of a row, separated by commas, on top of what is chosen. */
static vn_status_t with_option(const arithmetic_t *base, const char *options, arithmetic_t *out, vn_error_t *err) {
    *out = *base;
    for (const char *p = options; p && *p;) {
        char one[64];
        const size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (!mutant_option(out, one)) return vn_fail(err, VN_ERR_INTERNAL, "the fault's option '%s' is none", one);
        p += n + (p[n] == ',');
    }
    return VN_OK;
}

static void free_outputs(vn_tensor_t **out, int n) {
    for (int k = 0; k < n; ++k) {
        vn_tensor_free(out[k]);
        out[k] = NULL;
    }
}

/* Elements that differ, NaNs being alike and zeros of either sign; -1: another form. */
static int64_t differing(const vn_tensor_t *a, const vn_tensor_t *b) {
    if (!a || !b) return a == b ? 0 : -1;
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) return -1;
    if (a->dtype == VN_STRING) return 0; /* no fault touches text */
    int64_t n = 0;
    const bool floats = vn_dtype_is_float(a->dtype);
    for (int64_t i = 0; i < a->count; ++i) {
        if (vn_tensor_bits(a, i) == vn_tensor_bits(b, i)) continue;
        const double x = floats ? vn_tensor_get_f64(a, i) : 0, y = floats ? vn_tensor_get_f64(b, i) : 1;
        n += x != y && !(isnan(x) && isnan(y));
    }
    return n;
}

enum { MAX_OUTPUTS = 256 };

static vn_status_t run_mutated(const animal_t *m, const op_row_t *op, call_t *c, const fault_t *fault, vn_tensor_t *const *clean) {
    arithmetic_t arithmetic;
    VN_TRY(with_option(&m->arithmetic, fault->row->option, &arithmetic, c->err));
    if (fault->row->id == F_ORDER_CHANGES) arithmetic.association = c->turn % 2 ? PAIRWISE : LANES8;
    c->a = &arithmetic;
    c->fault = fault;
    vn_status_t s = VN_OK;
    if (fault->row->kind != FAULT_STRUCTURAL) {
        s = op->run(c);
    } else {
        vn_tensor_t *changed = NULL;
        c->out[0] = clean[0]; /* the operator's own view of what it finished */
        s = structural(c, clean[0], &changed);
        c->out[0] = changed;
        for (int k = 1; k < c->n_out; ++k) c->out[k] = clean[k] ? vn_tensor_retain(clean[k]) : NULL;
    }
    c->a = &m->arithmetic;
    c->fault = NULL;
    return s;
}

vn_status_t animal_run(const animal_t *m, const op_row_t *op, call_t *c, int64_t *changed) {
    if (changed) *changed = 0;
    c->a = &m->arithmetic;
    c->fault = NULL;
    c->param = op->param;
    VN_TRY(op->run(c));
    const fault_t fault = fault_for(&m->fault, op->name);
    if (!fault.row || (m->node[0] && strcmp(m->node, c->node->path) != 0) || c->n_out > MAX_OUTPUTS || !c->out[0]) return VN_OK;
    vn_tensor_t *clean[MAX_OUTPUTS];
    memcpy(clean, c->out, (size_t)c->n_out * sizeof *clean);
    memset(c->out, 0, (size_t)c->n_out * sizeof *c->out);
    vn_status_t s = run_mutated(m, op, c, &fault, clean);
    int64_t n = 0;
    bool same_form = s == VN_OK;
    for (int k = 0; same_form && k < c->n_out; ++k) {
        const int64_t d = differing(clean[k], c->out[k]);
        same_form = d >= 0;
        n += d;
    }
    if (same_form && n > 0) {
        if (changed) *changed = n;
        free_outputs(clean, c->n_out);
        return VN_OK;
    }
    free_outputs(c->out, c->n_out); /* the fault is not to be seen here, or would need another form */
    memcpy(c->out, clean, (size_t)c->n_out * sizeof *clean);
    return s == VN_ERR_NOMEM ? s : VN_OK;
}
