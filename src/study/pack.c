/* pack.c -- several isolated operators as disjoint components of one model, loaded and run on one back end. */
#include "study/pack.h"

#include <stdio.h>
#include <string.h>

void vn_pack_clear(vn_pack_t *p) {
    for (int i = 0; i < p->n_specs; ++i) {
        if (p->first) vn_output_free(&p->first[i]);
        if (p->second) vn_output_free(&p->second[i]);
    }
    vn_free(p->specs);
    vn_arena_free(p->names);
    vn_free(p->first);
    vn_free(p->second);
    p->n_specs = 0;
    p->specs = NULL;
    p->names = NULL;
    p->first = p->second = NULL;
}

static void prefix_of(int i, char *out, size_t size) { snprintf(out, size, "t%d_", i); }

/* The name that a component's value has in the pack; exporters join the names of fused layers to hundreds of bytes. */
static const char *packed_name(vn_pack_t *p, const char *prefix, const char *name, vn_error_t *err) {
    if (!p->names) p->names = vn_arena_new();
    const char *s = p->names ? vn_arena_printf(p->names, "%s%s", prefix, name) : NULL;
    if (!s) vn_fail(err, VN_ERR_NOMEM, "no memory");
    return s;
}

static vn_status_t build(vn_pack_t *p, vn_model_t **model, vn_bundle_t *run_inputs, vn_error_t *err) {
    vn_study_t *s = p->s;
    VN_TRY(vn_model_new(s->model->ir_version, model, err));
    for (int i = p->begin; i < p->end; ++i) {
        const vn_task_t *t = &p->tasks[i];
        char prefix[24];
        prefix_of(i, prefix, sizeof prefix);
        const vn_tensor_t **in = vn_alloc((size_t)t->node.n_inputs + 1, sizeof *in);
        vn_type_t *types = vn_alloc((size_t)t->node.n_outputs + 1, sizeof *types);
        vn_dim_t *dims = vn_alloc((size_t)t->node.n_outputs * VN_MAX_RANK + 1, sizeof *dims);
        vn_status_t st = in && types && dims ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int k = 0; k < t->node.n_inputs && st == VN_OK; ++k) in[k] = t->inputs[k] ? t->inputs[k]->tensor : NULL;
        for (int k = 0; k < t->node.n_outputs && st == VN_OK; ++k) {
            const vn_ref_t *r = &t->refs[k];
            types[k] = (vn_type_t){.kind = r->nested ? VN_TYPE_NONE : VN_TYPE_TENSOR,
                                   .dtype = r->dtype,
                                   .rank = r->rank,
                                   .dims = dims + (size_t)k * VN_MAX_RANK};
            for (int d = 0; d < r->rank; ++d) types[k].dims[d].value = r->dims[d];
        }
        const vn_component_t c = {.prefix = prefix, .node = &t->node, .inputs = in, .frozen = t->frozen, .out_types = types};
        if (st == VN_OK) st = vn_model_add_component(*model, s->model, &c, err);
        for (int k = 0; k < t->node.n_inputs && st == VN_OK; ++k) {
            if (!in[k] || t->frozen[k]) continue;
            const char *name = packed_name(p, prefix, t->node.inputs[k], err);
            if (!name) st = VN_ERR_NOMEM;
            if (name && !vn_bundle_find(run_inputs, name)) st = vn_bundle_add(run_inputs, name, (vn_tensor_t *)(uintptr_t)in[k], err);
        }
        vn_free(in);
        vn_free(types);
        vn_free(dims);
        VN_TRY(st);
    }
    return vn_model_finish(*model, err);
}

static vn_status_t list_outputs(vn_pack_t *p, vn_error_t *err) {
    int n = 0;
    for (int i = p->begin; i < p->end; ++i) n += p->tasks[i].node.n_outputs;
    p->specs = vn_alloc((size_t)n + 1, sizeof *p->specs);
    p->first = vn_alloc((size_t)n + 1, sizeof *p->first);
    p->second = vn_alloc((size_t)n + 1, sizeof *p->second);
    if (!p->specs || !p->first || !p->second) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int i = p->begin; i < p->end; ++i) {
        const vn_task_t *t = &p->tasks[i];
        char prefix[24];
        prefix_of(i, prefix, sizeof prefix);
        for (int k = 0; k < t->node.n_outputs; ++k) {
            if (!*t->node.outputs[k]) continue;
            const vn_ref_t *r = &t->refs[k];
            vn_output_spec_t *spec = &p->specs[p->n_specs];
            const char *name = packed_name(p, prefix, t->node.outputs[k], err);
            if (!name) return VN_ERR_NOMEM;
            *spec = (vn_output_spec_t){.name = name, .dtype = r->dtype, .rank = r->rank};
            memcpy(spec->dims, r->dims, sizeof spec->dims);
            if (r->nested || r->dtype == VN_STRING) {
                spec->dtype = VN_UNDEFINED;
                spec->rank = -1;
            }
            p->n_specs++;
        }
    }
    return VN_OK;
}

/* Errors of ours end the study; those of the back end end in rows. */
static bool back_ends_fault(vn_status_t s) {
    return s == VN_ERR_UNSUPPORTED || s == VN_ERR_WORKER || s == VN_ERR_CRASHED || s == VN_ERR_TIMEOUT || s == VN_ERR_MEMORY_LIMIT ||
           s == VN_ERR_PARSE || s == VN_ERR_NOTFOUND;
}

vn_status_t vn_pack_run(vn_pack_t *p, bool twice, vn_status_t *run, vn_error_t *why, vn_error_t *err) {
    vn_backend_t *b = p->b;
    vn_model_t *model = NULL;
    vn_bundle_t in = {0};
    int64_t session = 0;
    double seconds = 0, once = 0;
    *run = VN_OK;
    vn_status_t st = build(p, &model, &in, err);
    if (st == VN_OK) st = list_outputs(p, err);
    if (st == VN_OK) *run = vn_worker_load_model(b->worker, model, p->s->model->folder, &session, why);
    vn_model_free(model);
    if (st == VN_OK && *run == VN_OK) *run = vn_worker_run(b->worker, session, &in, p->n_specs, p->specs, p->first, &once, why);
    seconds += once;
    if (st == VN_OK && *run == VN_OK && twice) {
        *run = vn_worker_run(b->worker, session, &in, p->n_specs, p->specs, p->second, &once, why);
        seconds += once;
    }
    if (session) vn_worker_unload(b->worker, session);
    p->s->record->backends[b->index].seconds += seconds;
    vn_bundle_free(&in);
    if (st == VN_OK && *run != VN_OK && !back_ends_fault(*run)) st = vn_fail(err, *run, "%s", why->text);
    if (st != VN_OK) vn_pack_clear(p);
    return st;
}
