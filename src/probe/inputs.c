/* inputs.c -- seeded inputs for every run input of a model. */
#include "vernier/probe.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "range.h"
#include "shape.h"

enum { DEFAULT_LIMIT = 10 }; /* integers that index nothing: 0 .. 9 */

/* FNV-1a of the name: the numbers of an input depend on the seed and its own name, not on its neighbours. */
static uint64_t hash_name(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; ++s) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static bool looks_like_mask(const char *name) {
    static const char word[] = "mask";
    for (; *name; ++name) {
        size_t k = 0;
        while (word[k] && tolower((unsigned char)name[k]) == word[k]) ++k;
        if (!word[k]) return true;
    }
    return false;
}

/* Largest value of an integer type that is not larger than INT64_MAX. */
static int64_t largest(vn_dtype_t t) {
    int bits = vn_dtype_bits(t) - (vn_dtype_kind(t) == VN_KIND_SIGNED);
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static void fill_integers(vn_tensor_t *t, vn_rng_t *rng, int64_t limit) {
    if (limit == INT64_MAX) limit = DEFAULT_LIMIT;
    if (limit > largest(t->dtype)) limit = largest(t->dtype) + (largest(t->dtype) < INT64_MAX);
    if (limit < 1) limit = 1; /* an empty table cannot be indexed at all */
    for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(t, i, (int64_t)vn_rng_below(rng, (uint64_t)limit));
}

static void fill_floats(vn_tensor_t *t, vn_rng_t *rng) {
    bool positive_only = t->dtype == VN_F8E8M0;
    for (int64_t i = 0; i < t->count; ++i) {
        double x = vn_rng_normal(rng);
        vn_tensor_set_f64(t, i, positive_only ? fabs(x) : x);
    }
}

static void fill_complex(vn_tensor_t *t, vn_rng_t *rng) {
    for (int64_t i = 0; i < 2 * t->count; ++i) {
        double x = vn_rng_normal(rng);
        if (t->dtype == VN_C64) ((float *)t->data)[i] = (float)x;
        else ((double *)t->data)[i] = x;
    }
}

static vn_status_t fill(vn_tensor_t *t, const char *name, uint64_t seed, int64_t limit, vn_error_t *err) {
    vn_rng_t rng;
    vn_rng_seed(&rng, seed ^ hash_name(name));
    bool mask = looks_like_mask(name);
    switch (vn_dtype_kind(t->dtype)) {
    case VN_KIND_FLOAT: fill_floats(t, &rng); return VN_OK;
    case VN_KIND_COMPLEX: fill_complex(t, &rng); return VN_OK;
    case VN_KIND_BOOL:
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(t, i, mask ? 1 : (int64_t)vn_rng_below(&rng, 2));
        return VN_OK;
    case VN_KIND_SIGNED:
    case VN_KIND_UNSIGNED:
        if (!mask) {
            fill_integers(t, &rng, limit);
            return VN_OK;
        }
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(t, i, 1);
        return VN_OK;
    case VN_KIND_STRING:
        for (int64_t i = 0; i < t->count; ++i) {
            char letter = (char)('a' + vn_rng_below(&rng, 26));
            VN_TRY(vn_tensor_set_string(t, i, &letter, 1, err));
        }
        return VN_OK;
    default: return vn_fail(err, VN_ERR_UNSUPPORTED, "input '%.150s': nothing can be generated for type %s", name, vn_dtype_name(t->dtype));
    }
}

static vn_status_t generate(const vn_value_info_t *in, const vn_shape_arg_t *shape, uint64_t seed, int64_t limit, vn_bundle_t *out,
                            vn_error_t *err) {
    vn_tensor_t *t;
    vn_status_t s = vn_tensor_new(in->type.dtype, shape->rank, shape->dims, &t, err);
    if (s != VN_OK) {
        vn_fail_prefix(err, "input '%.150s'", in->name);
        return s;
    }
    s = fill(t, in->name, seed, limit, err);
    if (s == VN_OK) s = vn_bundle_add(out, in->name, t, err);
    vn_tensor_free(t);
    return s;
}

vn_status_t vn_probe_inputs(const vn_model_t *m, uint64_t seed, int n_shapes, const vn_shape_arg_t *shapes, vn_bundle_t *out,
                            vn_error_t *err) {
    const vn_graph_t *g = m->graph;
    *out = (vn_bundle_t){0};
    int *indices = vn_alloc((size_t)g->n_inputs, sizeof *indices);
    int64_t *limits = vn_alloc((size_t)g->n_inputs, sizeof *limits);
    vn_shape_arg_t *chosen = NULL;
    vn_status_t s = indices && limits ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "out of memory while generating inputs");
    int n = s == VN_OK ? vn_graph_run_inputs(g, indices) : 0;
    if (s == VN_OK) s = vn_probe_shapes(m, n, indices, n_shapes, shapes, &chosen, err);
    if (s == VN_OK) s = vn_probe_limits(m, limits, err);
    for (int k = 0; k < n && s == VN_OK; ++k) s = generate(&g->inputs[indices[k]], &chosen[k], seed, limits[indices[k]], out, err);
    if (s != VN_OK) vn_bundle_free(out);
    vn_free(indices);
    vn_free(limits);
    vn_free(chosen);
    return s;
}
