/* registry.c -- all operator rows: look-up by domain, name and version, and the sorted table that users see. */
#include "oracle/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const vn_family_t *const families[] = {
    &vn_family_ml,       &vn_family_legacy,        &vn_family_text,        &vn_family_image,       &vn_family_elementwise,
    &vn_family_compare,  &vn_family_cast,          &vn_family_quantise,    &vn_family_movement,    &vn_family_index,
    &vn_family_control,  &vn_family_contraction,   &vn_family_convolution, &vn_family_pooling,     &vn_family_reduction,
    &vn_family_softmax,  &vn_family_normalisation, &vn_family_scan,        &vn_family_attention,   &vn_family_recurrent,
    &vn_family_resample, &vn_family_spectral,      &vn_family_microsoft,   &vn_family_determinant, &vn_family_training,
};
enum { FAMILIES = sizeof families / sizeof *families };

static const vn_op_t **sorted;
static vn_op_info_t *infos;
static int total;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b) {
    const vn_op_t *x = *(const vn_op_t *const *)a, *y = *(const vn_op_t *const *)b;
    int c = strcmp(x->domain, y->domain);
    if (!c) c = strcmp(x->name, y->name);
    return c ? c : (x->since > y->since) - (x->since < y->since);
}

vn_op_info_t vn_op_info(const vn_op_t *r) {
    static const unsigned flags[] = {VN_OP_SHAPE_LIKE_0, VN_OP_SHAPE_LIKE_1, VN_OP_SHAPE_LIKE_2, VN_OP_SHAPE_LIKE_3, VN_OP_SHAPE_LIKE_4};
    vn_op_info_t info = {.domain = r->domain, .name = r->name, .claim = r->claim, .since = r->since, .until = r->until, .cls = r->cls};
    for (unsigned k = 0; k < sizeof flags / sizeof *flags; ++k)
        if (r->flags & flags[k]) info.shape_like |= 1u << k;
    return info;
}

/* Kept for the life of the process: the table is static data that happens to be sorted at first use. */
static void build(void) {
    int n = 0;
    for (int f = 0; f < FAMILIES; ++f) n += families[f]->count;
    sorted = vn_alloc((size_t)n, sizeof *sorted);
    infos = vn_alloc((size_t)n, sizeof *infos);
    if (!sorted || !infos) return;
    for (int f = 0; f < FAMILIES; ++f)
        for (int i = 0; i < families[f]->count; ++i) sorted[total++] = &families[f]->rows[i];
    qsort(sorted, (size_t)total, sizeof *sorted, by_name);
    for (int i = 0; i < total; ++i) {
        infos[i] = vn_op_info(sorted[i]);
    }
}

const vn_op_t *vn_registry_find(const char *domain, const char *name, int64_t version) {
    pthread_once(&once, build);
    int lo = 0, hi = total;
    while (lo < hi) { /* first row of (domain, name) */
        int mid = (lo + hi) / 2, c = strcmp(sorted[mid]->domain, domain);
        if (!c) c = strcmp(sorted[mid]->name, name);
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    for (; lo < total && !strcmp(sorted[lo]->domain, domain) && !strcmp(sorted[lo]->name, name); ++lo)
        if (version >= sorted[lo]->since && (sorted[lo]->until == 0 || version <= sorted[lo]->until)) return sorted[lo];
    return NULL;
}

int vn_oracle_ops(const vn_op_info_t **out) {
    pthread_once(&once, build);
    *out = infos;
    return total;
}

const char *vn_op_class_name(vn_op_class_t c) {
    static const char *const names[] = {
        [VN_CLASS_MOVEMENT] = "movement",
        [VN_CLASS_EXACT] = "exact",
        [VN_CLASS_ROUNDED] = "rounded",
        [VN_CLASS_ELEMENTARY] = "elementary",
        [VN_CLASS_CONTRACTION] = "contraction",
        [VN_CLASS_REDUCTION] = "reduction",
        [VN_CLASS_NORMALISATION] = "normalisation",
        [VN_CLASS_SOFTMAX] = "softmax",
        [VN_CLASS_SCAN] = "scan",
        [VN_CLASS_QUANTISE] = "quantise",
        [VN_CLASS_COMPOSITE] = "composite",
        [VN_CLASS_RANDOM] = "random",
        [VN_CLASS_CONTROL] = "control",
    };
    return (unsigned)c < sizeof names / sizeof *names ? names[c] : "unknown";
}
