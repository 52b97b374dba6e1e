/* semantic_attributes.c -- an attribute that has no effect: the node without it is asked, that is with its default. */
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

static vn_status_t ignored(vn_variant_t *v, vn_error_t *err) {
    for (int k = 0; k < v->node->n_attrs; ++k) {
        const vn_attr_t *a = &v->node->attrs[k];
        if (a->kind == VN_ATTR_GRAPH || a->kind == VN_ATTR_GRAPHS) continue;
        char cause[96];
        snprintf(cause, sizeof cause, "attribute-ignored:%.60s", a->name);
        VN_TRY(vn_variant_drop_attr(v, a->name, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s without its attribute %s gives the whole result.", v->node->op, a->name));
    }
    return VN_OK;
}

vn_status_t vn_name_attributes(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, ignored, err); }
