/* functions.c -- elementary functions and division of a back end: one small model each, run on all arguments at once, beside the oracle's values. */
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"
#include "vernier/oracle.h"
#include "vernier/study.h"

enum { IR = 9 };

/* x -> y by one operator, or two in a row; Div has its second operand as a weight or as a second input. */
typedef struct small {
    const char *op, *then;
    int64_t opset;
    vn_dtype_t dtype;
    int64_t count;
    vn_tensor_t *divisor; /* NULL: no division */
    bool constant;
} small_t;

static vn_status_t build(const small_t *s, vn_model_t **out, vn_error_t *err) {
    static const char *const x[] = {"x", "d"}, *const middle[] = {"m"}, *const y[] = {"y"};
    vn_model_t *m;
    VN_TRY(vn_model_new(IR, &m, err));
    vn_graph_t *g = m->graph;
    vn_status_t st = vn_model_set_opset(m, "", s->opset, err);
    if (st == VN_OK) st = vn_graph_add_input(g, "x", s->dtype, 1, &s->count, err);
    if (st == VN_OK && s->divisor && s->constant) st = vn_graph_add_init(g, "d", s->divisor, err);
    else if (st == VN_OK && s->divisor) st = vn_graph_add_input(g, "d", s->dtype, 1, s->divisor->dims, err);
    if (st == VN_OK) st = vn_graph_add_node(g, "first", s->op, "", s->divisor ? 2 : 1, x, 1, s->then ? middle : y, NULL, err);
    if (st == VN_OK && s->then) st = vn_graph_add_node(g, "second", s->then, "", 1, middle, 1, y, NULL, err);
    if (st == VN_OK) st = vn_graph_add_output(g, "y", s->dtype, 1, &s->count, err);
    if (st == VN_OK) st = vn_model_finish(m, err);
    if (st == VN_OK) *out = m;
    else vn_model_free(m);
    return st;
}

static vn_status_t run(vn_worker_t *w, const vn_model_t *m, const small_t *s, vn_tensor_t *in, vn_tensor_t **out, vn_error_t *err) {
    const vn_output_spec_t spec = {.name = "y", .dtype = s->dtype, .rank = 1, .dims = {s->count}};
    vn_bundle_t bundle = {0};
    vn_output_t got = {0};
    int64_t session = 0;
    double seconds;
    vn_status_t st = vn_worker_load_model(w, m, NULL, &session, err);
    if (st == VN_OK) st = vn_bundle_add(&bundle, "x", in, err);
    if (st == VN_OK && s->divisor && !s->constant) st = vn_bundle_add(&bundle, "d", s->divisor, err);
    if (st == VN_OK) st = vn_worker_run(w, session, &bundle, 1, &spec, &got, &seconds, err);
    if (st == VN_OK && (!got.value || got.value->kind != VN_VALUE_TENSOR || got.form_error[0]))
        st = vn_fail(err, VN_ERR_WORKER, "the result of %s is %s", s->op, got.form_error[0] ? got.form_error : "missing");
    if (st == VN_OK) st = vn_tensor_copy(got.value->tensor, out, err);
    vn_output_free(&got);
    vn_bundle_free(&bundle);
    if (session > 0) vn_worker_unload(w, session);
    return st;
}

/* ---- functions (P26) ---- */

/* A back end that has not the operator, or dies over it, is a row with its reason. */
static vn_status_t one_function(vn_worker_t *w, const vn_elementary_t *f, vn_dtype_t t, uint64_t seed, vn_elementary_row_t *row,
                                vn_error_t *err) {
    vn_tensor_t *in = NULL, *out = NULL;
    vn_model_t *m = NULL;
    vn_bundle_t bundle = {0};
    vn_ref_t ref = {0};
    vn_contract_t contract;
    vn_error_t why = {0};
    *row = (vn_elementary_row_t){.function = f, .dtype = t, .monotone = -1, .symmetric = -1};
    VN_TRY(vn_elementary_inputs(f, t, seed, &in, err));
    const small_t s = {.op = f->op, .then = f->then, .opset = f->opset, .dtype = t, .count = in->count};
    vn_status_t st = vn_contract_builtin("ieee", &contract) ? build(&s, &m, err) : vn_fail(err, VN_ERR_INTERNAL, "no contract ieee");
    const vn_status_t ran = st == VN_OK ? run(w, m, &s, in, &out, &why) : st;
    if (st == VN_OK && ran == VN_ERR_NOMEM) st = vn_fail(err, ran, "%s", why.text);
    if (st == VN_OK && ran != VN_OK) snprintf(row->why, sizeof row->why, "not measured: %.180s", why.text);
    if (st == VN_OK && ran == VN_OK) {
        st = vn_bundle_add(&bundle, "x", in, err);
        if (st == VN_OK) st = vn_oracle_region(m, &bundle, &contract, VN_WANT_BOUND | VN_WANT_PLAIN, &ref, err);
        for (int64_t k = 0; st == VN_OK && ref.flags && k < ref.count; ++k) ref.flags[k] &= VN_EL_INF_OK | VN_EL_NAN_OK | VN_EL_VOID;
        if (st == VN_OK) st = vn_elementary_measure(f, in, out, ref.value, ref.lo, ref.flags, row, err);
    }
    vn_ref_free(&ref);
    vn_bundle_free(&bundle);
    vn_model_free(m);
    vn_tensor_free(in);
    vn_tensor_free(out);
    return st;
}

/* ---- division (P25) ---- */

static vn_status_t one_division(vn_worker_t *w, float divisor, bool constant, uint64_t seed, vn_card_row_t *row, vn_error_t *err) {
    static const vn_elementary_t anything = {.name = "division", .low = 1, .high = 2};
    const int64_t one = 1;
    vn_tensor_t *in = NULL, *out = NULL, *d = NULL;
    vn_model_t *m = NULL;
    vn_error_t why = {0};
    char subject[48];
    snprintf(subject, sizeof subject, "x/%g, %g is %s", (double)divisor, (double)divisor, constant ? "a weight" : "an input");
    vn_status_t st = vn_elementary_inputs(&anything, VN_F32, seed, &in, err);
    if (st == VN_OK) st = vn_tensor_new(VN_F32, 1, &one, &d, err);
    if (st == VN_OK) vn_tensor_set_f64(d, 0, divisor);
    const small_t s = {.op = "Div", .opset = 14, .dtype = VN_F32, .count = in ? in->count : 0, .divisor = d, .constant = constant};
    if (st == VN_OK) st = build(&s, &m, err);
    const vn_status_t ran = st == VN_OK ? run(w, m, &s, in, &out, &why) : st;
    if (st == VN_OK && ran == VN_ERR_NOMEM) st = vn_fail(err, ran, "%s", why.text);
    *row = (vn_card_row_t){.id = "P25"};
    if (st == VN_OK && ran == VN_OK) st = vn_division_measure(divisor, in, out, row, err);
    else if (st == VN_OK) snprintf(row->finding, sizeof row->finding, "not measured: %.100s", why.text);
    memcpy(row->subject, subject, sizeof row->subject);
    vn_model_free(m);
    vn_tensor_free(in);
    vn_tensor_free(out);
    vn_tensor_free(d);
    return st;
}

vn_status_t vn_study_functions(const vn_functions_request_t *r, vn_functions_result_t *out, vn_error_t *err) {
    static const vn_dtype_t types[] = {VN_F32, VN_F16, VN_BF16};
    static const float divisors[] = {3, 10};
    enum { TYPES = sizeof types / sizeof *types, DIVISIONS = 4 };
    const vn_elementary_t *functions;
    const int n = vn_elementaries(&functions);
    const vn_worker_options_t wo = {.timeout_s = r->timeout_s, .memory_bytes = r->memory_bytes};
    vn_spec_t spec;
    vn_worker_t *w = NULL;
    *out = (vn_functions_result_t){0};
    vn_status_t st = vn_spec_parse(r->backend, &spec, err);
    if (st == VN_OK) st = vn_backend_available(&spec, err);
    if (st == VN_OK) st = vn_worker_start(&spec, &wo, &w, err);
    if (st == VN_OK) {
        out->rows = vn_alloc((size_t)n * TYPES, sizeof *out->rows);
        out->divisions = vn_alloc(DIVISIONS, sizeof *out->divisions);
        if (!out->rows || !out->divisions) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int t = 0; t < TYPES && st == VN_OK; ++t)
        for (int k = 0; k < n && st == VN_OK; ++k) st = one_function(w, &functions[k], types[t], r->seed, &out->rows[out->n_rows++], err);
    for (int k = 0; k < DIVISIONS && st == VN_OK; ++k)
        st = one_division(w, divisors[k / 2], k % 2 == 0, r->seed, &out->divisions[out->n_divisions++], err);
    vn_worker_stop(w);
    if (st != VN_OK) vn_functions_result_free(out);
    return st;
}

void vn_functions_result_free(vn_functions_result_t *r) {
    vn_free(r->rows);
    vn_free(r->divisions);
    *r = (vn_functions_result_t){0};
}
