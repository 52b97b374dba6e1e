/* check.c -- the main job: read, start the back ends, isolated operators, whole graphs, one record. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"

static void close_all(vn_study_t *s) {
    for (int b = 0; s->backends && b < s->n_backends; ++b) {
        vn_bundle_free(&s->backends[b].ends);
        vn_worker_stop(s->backends[b].worker);
        vn_study_forget_schedules(&s->backends[b]);
    }
    vn_free(s->backends);
    vn_free(s->values);
    vn_bundle_free(&s->inputs);
    vn_bundle_free(&s->ends);
    vn_bundle_free(&s->constants);
    vn_model_free(s->model);
}

static vn_status_t open_backends(vn_study_t *s, vn_error_t *err) {
    const vn_check_options_t *o = s->o;
    const vn_worker_options_t wo = {.timeout_s = o->timeout_s, .memory_bytes = o->memory_bytes, .cache = o->cache};
    for (int b = 0; b < o->n_backends; ++b) {
        vn_error_t why = {0};
        vn_backend_record_t *rec = &s->record->backends[b];
        s->backends[b].index = b;
        s->backends[b].text = rec->spec;
        if (o->progress) o->progress(o->progress_ctx, rec->spec, b, o->n_backends);
        if (vn_worker_start(&s->backends[b].spec, &wo, &s->backends[b].worker, &why) != VN_OK) {
            rec->error = vn_record_string(s->record, why.text);
            continue;
        }
        rec->identity_json = vn_record_string(s->record, vn_worker_identity(s->backends[b].worker));
        rec->environment_json = vn_record_string(s->record, vn_worker_environment(s->backends[b].worker));
        if (!rec->identity_json || !rec->environment_json) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    return VN_OK;
}

/* All specs are parsed before anything starts: a typing error must not cost a run. */
static vn_status_t parse_specs(vn_study_t *s, vn_error_t *err) {
    const vn_check_options_t *o = s->o;
    if (o->n_backends < 1) return vn_fail(err, VN_ERR_USAGE, "no back end given: use -b SPEC (vernier backends lists them)");
    s->backends = vn_alloc((size_t)o->n_backends, sizeof *s->backends);
    s->record->backends = vn_arena_alloc(s->record->arena, (size_t)o->n_backends, sizeof *s->record->backends);
    if (!s->backends || !s->record->backends) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int b = 0; b < o->n_backends; ++b) {
        VN_TRY(vn_spec_parse(o->backends[b], &s->backends[b].spec, err));
        for (int a = 0; a < b; ++a)
            if (strcmp(o->backends[a], o->backends[b]) == 0)
                return vn_fail(err, VN_ERR_USAGE,
                               "back end '%s' is given twice; two environments of one back end are written NAME@ENVIRONMENT",
                               o->backends[b]);
        s->record->backends[b] = (vn_backend_record_t){
            .spec = vn_record_string(s->record, o->backends[b]), .observer_max = NAN, .drift_max = NAN, .drift_relative = NAN};
        if (!s->record->backends[b].spec) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    s->n_backends = s->record->n_backends = o->n_backends;
    return VN_OK;
}

/* The end outputs of two back ends side by side: no verdict, but the first thing that somebody who compares them sees. */
static vn_status_t compare_pair(vn_study_t *s, const vn_backend_t *a, const vn_backend_t *b) {
    const char *most = NULL;
    vn_metrics_t largest = {0};
    for (int k = 0; k < a->ends.count; ++k) {
        const char *name = a->ends.items[k].name;
        const vn_tensor_t *other = vn_bundle_find(&b->ends, name);
        vn_metrics_t m;
        vn_error_t why = {0};
        if (!other || vn_dtype_kind(other->dtype) == VN_KIND_STRING) continue;
        if (vn_metrics(a->ends.items[k].tensor, other, &m, &why) != VN_OK) {
            VN_TRY(vn_record_note(s->record, "%s and %s: output %s: %s", a->text, b->text, name, why.text));
        } else if (m.unequal && (!most || m.rms_relative > largest.rms_relative)) {
            most = name;
            largest = m;
        }
    }
    if (!most) return VN_OK;
    return vn_record_note(s->record, "%s and %s: output %s differs in %lld of %lld elements, by at most %.3g (rms %.3g of the output's)",
                          a->text, b->text, most, (long long)largest.unequal, (long long)largest.count, largest.max_abs,
                          largest.rms_relative);
}

static vn_status_t run(vn_study_t *s, vn_error_t *err) {
    const vn_check_options_t *o = s->o;
    VN_TRY(parse_specs(s, err));
    VN_TRY(vn_model_read(o->model_path, &s->model, err));
    VN_TRY(vn_study_inputs(s->model, o, &s->inputs, err));
    VN_TRY(vn_record_model(s->record, s->model, &s->inputs, err));
    s->record->command = "check";
    s->record->seeded = o->inputs_path == NULL;
    s->record->seed = o->seed;
    s->total_steps = s->model->graph->n_nodes;
    /* 10^-6 per run, shared by node x output x back end x mode (isolated, with weights, in situ) x test (bounds.md, calculus 1) */
    int64_t outputs = 0;
    for (int i = 0; i < s->model->graph->n_nodes; ++i) outputs += s->model->graph->nodes[i].n_outputs;
    s->alpha = VN_RUN_ALPHA / ((double)(outputs + 1) * o->n_backends * 3 * 3);
    VN_TRY(open_backends(s, err));
    VN_TRY(vn_study_isolated(s, err));
    for (int b = 0; b < s->n_backends; ++b)
        if (s->backends[b].worker && !(o->skip_graph && o->skip_in_situ)) VN_TRY(vn_study_whole(s, &s->backends[b], err));
    for (int b = 0; b < s->n_backends; ++b) {
        if (!s->backends[b].worker) continue;
        s->record->backends[b].peak_bytes = vn_worker_peak_bytes(s->backends[b].worker);
        const int restarts = vn_worker_restarts(s->backends[b].worker);
        if (restarts) VN_TRY(vn_record_note(s->record, "%s: its process was started anew %d times", s->backends[b].text, restarts));
        if (s->backends[b].not_probed)
            VN_TRY(vn_record_note(
                s->record, "%s: integer probes were run on %lld failing operators, not on %lld more of the same kind (--effort deep does)",
                s->backends[b].text, (long long)s->backends[b].probed, (long long)s->backends[b].not_probed));
    }
    for (int a = 0; a < s->n_backends; ++a)
        for (int b = a + 1; b < s->n_backends; ++b) VN_TRY(compare_pair(s, &s->backends[a], &s->backends[b]));
    char blas[160];
    vn_oracle_blas(blas, sizeof blas);
    s->record->oracle_blas = vn_record_string(s->record, blas);
    return VN_OK;
}

vn_status_t vn_check(const vn_check_options_t *o, vn_record_t **out, vn_error_t *err) {
    *out = NULL;
    vn_study_t *s = vn_alloc(1, sizeof *s); /* large: the pack */
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    const double start = vn_now();
    s->o = o;
    s->record = vn_record_new();
    vn_status_t st = s->record ? run(s, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) {
        s->record->seconds = vn_now() - start;
        s->record->peak_bytes = vn_peak_resident();
        *out = s->record;
    } else {
        vn_record_free(s->record);
    }
    close_all(s);
    vn_free(s);
    return st;
}
