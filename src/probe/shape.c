/* shape.c -- shape overrides and the shapes that open dimensions get. */
#include "shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/names.h"

enum { FIRST_OPEN = 1, OTHER_OPEN = 16 };

vn_status_t vn_shape_parse(const char *text, vn_shape_arg_t *out, char *name, size_t name_size, vn_error_t *err) {
    const char *equals = strrchr(text, '=');
    *out = (vn_shape_arg_t){.name = ""};
    if (!equals || equals == text) return vn_fail(err, VN_ERR_USAGE, "shape '%.200s': write it as name=1x3x224x224", text);
    size_t length = (size_t)(equals - text);
    if (length >= name_size) return vn_fail(err, VN_ERR_USAGE, "shape '%.200s': the name is longer than %zu bytes", text, name_size - 1);
    int rank = 0;
    for (const char *p = equals + 1; *p;) {
        char *end;
        errno = 0;
        long long dim = *p >= '0' && *p <= '9' ? strtoll(p, &end, 10) : -1;
        if (dim < 0 || errno || (*end != 'x' && *end != '\0') || (*end == 'x' && !end[1]))
            return vn_fail(err, VN_ERR_USAGE, "shape '%.200s': dimension %d is not a number; write it as name=1x3x224x224", text, rank);
        if (rank == VN_MAX_RANK) return vn_fail(err, VN_ERR_USAGE, "shape '%.200s': more than %d dimensions", text, VN_MAX_RANK);
        out->dims[rank++] = dim;
        p = *end ? end + 1 : end;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    out->name = name;
    out->rank = rank;
    return VN_OK;
}

typedef struct solver {
    const vn_graph_t *g;
    vn_names_t params; /* slot 0: place in `values` */
    int64_t *values;
    int n_values;
    vn_error_t *err;
} solver_t;

/* Value of a symbolic dimension. It is given `value` if it has none yet. */
/* A parameter binds all dimensions of its name; "?" is how some exporters write "unknown" and names nothing. */
static vn_status_t bind(solver_t *s, const char *param, int64_t value, int64_t *bound) {
    bool fresh;
    if (strcmp(param, "?") == 0) {
        *bound = value;
        return VN_OK;
    }
    vn_name_entry_t *e = vn_names_put(&s->params, param, &fresh);
    if (!e) return vn_fail(s->err, VN_ERR_NOMEM, "out of memory while choosing input shapes");
    if (fresh) {
        int64_t *values = vn_realloc(s->values, (size_t)s->n_values + 1, sizeof *values);
        if (!values) return vn_fail(s->err, VN_ERR_NOMEM, "out of memory while choosing input shapes");
        s->values = values;
        e->slot[0] = s->n_values;
        s->values[s->n_values++] = value;
    }
    *bound = s->values[e->slot[0]];
    return VN_OK;
}

static const vn_shape_arg_t *override_of(int n, const vn_shape_arg_t *shapes, const char *name) {
    for (int k = 0; k < n; ++k)
        if (strcmp(shapes[k].name, name) == 0) return &shapes[k];
    return NULL;
}

static vn_status_t apply_override(solver_t *s, const vn_value_info_t *in, const vn_shape_arg_t *o, vn_shape_arg_t *out) {
    char type[160];
    vn_type_describe(&in->type, type, sizeof type);
    if (in->type.rank >= 0 && in->type.rank != o->rank)
        return vn_fail(s->err, VN_ERR_USAGE, "shape for '%.150s' has %d dimensions; the model declares %s", in->name, o->rank, type);
    for (int k = 0; k < o->rank; ++k) {
        int64_t bound = o->dims[k];
        const vn_dim_t *d = in->type.rank < 0 ? NULL : &in->type.dims[k];
        if (d && d->value >= 0 && d->value != bound)
            return vn_fail(s->err, VN_ERR_USAGE, "shape for '%.150s': dimension %d is %" PRId64 "; the model declares %s", in->name, k,
                           bound, type);
        if (d && d->value < 0 && d->param) VN_TRY(bind(s, d->param, o->dims[k], &bound));
        if (bound != o->dims[k])
            return vn_fail(s->err, VN_ERR_USAGE,
                           "shape for '%.150s': dimension %d is %" PRId64 ", but another override makes '%.60s' %" PRId64, in->name, k,
                           o->dims[k], d->param, bound);
        out->dims[k] = o->dims[k];
    }
    out->rank = o->rank;
    return VN_OK;
}

/* Open dimensions at place 0 (first) or elsewhere. */
static vn_status_t fill_open(solver_t *s, const vn_value_info_t *in, bool first, vn_shape_arg_t *out) {
    for (int k = first ? 0 : 1; k < (first && in->type.rank > 1 ? 1 : in->type.rank); ++k) {
        const vn_dim_t *d = &in->type.dims[k];
        out->dims[k] = d->value >= 0 ? d->value : first ? FIRST_OPEN : OTHER_OPEN;
        if (d->value < 0 && d->param) VN_TRY(bind(s, d->param, out->dims[k], &out->dims[k]));
    }
    return VN_OK;
}

static vn_status_t check_overrides(const solver_t *s, int n, const int *indices, int n_shapes, const vn_shape_arg_t *shapes) {
    for (int k = 0; k < n_shapes; ++k) {
        bool found = false;
        for (int i = 0; i < n && !found; ++i) found = strcmp(s->g->inputs[indices[i]].name, shapes[k].name) == 0;
        if (!found)
            return vn_fail(s->err, VN_ERR_USAGE,
                           "shape for '%.150s': the model has no run-time input of that name; the first of %d is '%.150s'", shapes[k].name,
                           n, n ? s->g->inputs[indices[0]].name : "");
        if (override_of(k, shapes, shapes[k].name))
            return vn_fail(s->err, VN_ERR_USAGE, "shape for '%.150s' is given twice", shapes[k].name);
    }
    return VN_OK;
}

static vn_status_t check_type(const solver_t *s, const vn_value_info_t *in, bool overridden) {
    char type[160];
    vn_type_describe(&in->type, type, sizeof type);
    if (in->type.kind != VN_TYPE_TENSOR || in->type.dtype == VN_UNDEFINED)
        return vn_fail(s->err, VN_ERR_UNSUPPORTED, "input '%.150s' is %s; only tensors can be generated: give the inputs in a file",
                       in->name, type);
    if (in->type.rank < 0 && !overridden)
        return vn_fail(s->err, VN_ERR_USAGE, "input '%.150s' has no declared rank; give a shape for it", in->name);
    return VN_OK;
}

/* Overrides bind symbolic names first, then first dimensions, then all others: so a batch that is the first dimension somewhere is 1
 * everywhere. */
static vn_status_t solve(solver_t *s, int n, const int *indices, int n_shapes, const vn_shape_arg_t *shapes, vn_shape_arg_t *out) {
    enum { OVERRIDES, FIRST, OTHERS, PASSES };
    VN_TRY(check_overrides(s, n, indices, n_shapes, shapes));
    for (int pass = OVERRIDES; pass < PASSES; ++pass)
        for (int k = 0; k < n; ++k) {
            const vn_value_info_t *in = &s->g->inputs[indices[k]];
            const vn_shape_arg_t *o = override_of(n_shapes, shapes, in->name);
            if (pass == OVERRIDES) {
                VN_TRY(check_type(s, in, o != NULL));
                out[k] = (vn_shape_arg_t){.name = in->name, .rank = in->type.rank};
                if (o) VN_TRY(apply_override(s, in, o, &out[k]));
            } else if (!o) {
                VN_TRY(fill_open(s, in, pass == FIRST, &out[k]));
            }
        }
    return VN_OK;
}

vn_status_t vn_probe_shapes(const vn_model_t *m, int n, const int *indices, int n_shapes, const vn_shape_arg_t *shapes,
                            vn_shape_arg_t **out, vn_error_t *err) {
    solver_t s = {.g = m->graph, .err = err};
    *out = vn_alloc((size_t)n, sizeof **out);
    if (!*out || !vn_names_init(&s.params, 0, NULL)) {
        vn_free(*out);
        *out = NULL;
        return vn_fail(err, VN_ERR_NOMEM, "out of memory while choosing input shapes");
    }
    vn_status_t status = solve(&s, n, indices, n_shapes, shapes, *out);
    vn_names_free(&s.params);
    vn_free(s.values);
    if (status == VN_OK) return VN_OK;
    vn_free(*out);
    *out = NULL;
    return status;
}
