/* inputs.c -- the tensors of a run: seeded, or from a file and then checked against the model. */
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"

static vn_status_t check_one(const vn_value_info_t *info, const vn_tensor_t *t, const char *label, vn_error_t *err) {
    char want[256], got[256];
    vn_type_describe(&info->type, want, sizeof want);
    vn_tensor_describe(t, got, sizeof got);
    bool fits = info->type.kind != VN_TYPE_TENSOR || info->type.dtype == VN_UNDEFINED || info->type.dtype == t->dtype;
    if (fits && info->type.kind == VN_TYPE_TENSOR && info->type.rank >= 0) {
        fits = info->type.rank == t->rank;
        for (int d = 0; fits && d < t->rank; ++d) fits = info->type.dims[d].value < 0 || info->type.dims[d].value == t->dims[d];
    }
    return fits ? VN_OK : vn_fail(err, VN_ERR_USAGE, "%s: input '%s' is %s, the model wants %s", label, info->name, got, want);
}

vn_status_t vn_check_inputs(const vn_model_t *m, const vn_bundle_t *given, const char *label, vn_error_t *err) {
    const vn_graph_t *g = m->graph;
    for (int i = 0; i < g->n_inputs; ++i) {
        const vn_tensor_t *t = vn_bundle_find(given, g->inputs[i].name);
        if (t) {
            VN_TRY(check_one(&g->inputs[i], t, label, err));
        } else if (!vn_graph_init(g, g->inputs[i].name)) {
            char want[256];
            vn_type_describe(&g->inputs[i].type, want, sizeof want);
            return vn_fail(err, VN_ERR_USAGE, "%s: input '%s' (%s) is missing", label, g->inputs[i].name, want);
        }
    }
    for (int i = 0; i < given->count; ++i)
        if (!vn_graph_input(g, given->items[i].name)) {
            char names[300] = "";
            for (int k = 0; k < g->n_inputs && strlen(names) + 64 < sizeof names; ++k)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.40s", k ? ", " : "", g->inputs[k].name);
            return vn_fail(err, VN_ERR_USAGE, "%s: '%s' is no input of the model; its inputs are %s", label, given->items[i].name, names);
        }
    return VN_OK;
}

vn_status_t vn_study_inputs(const vn_model_t *m, const vn_check_options_t *o, vn_bundle_t *out, vn_error_t *err) {
    if (!o->inputs_path) return vn_probe_inputs(m, o->seed, o->n_shapes, o->shapes, out, err);
    VN_TRY(vn_tensors_read(o->inputs_path, out, err));
    return vn_check_inputs(m, out, o->inputs_path, err);
}
