/* semantic_rule.c -- rules of single operators that no attribute says: order of Clip's bounds, sign of Mod, what Einsum sums, how a matrix is read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

/* Optional operands that do the work of an attribute. */
static const struct {
    const char *op, *name;
    int operand;
} knobs[] = {
    {"Clip", "min", 1},   {"Clip", "max", 2},    {"Pad", "constant_value", 2}, {"Pad", "axes", 3},       {"Trilu", "k", 1},
    {"Slice", "axes", 3}, {"Slice", "steps", 4}, {"OneHot", "depth", 1},       {"DFT", "dft_length", 1},
};

static vn_status_t dropped_knobs(vn_variant_t *v, vn_error_t *err) {
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; ++i) {
        if (!vn_variant_is(v, "", knobs[i].op) || knobs[i].operand >= v->node->n_inputs || !*v->node->inputs[knobs[i].operand]) continue;
        char cause[96];
        snprintf(cause, sizeof cause, "attribute-ignored:%s", knobs[i].name);
        VN_TRY(vn_variant_drop_input(v, knobs[i].operand, err));
        VN_TRY(
            vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s without its operand %s gives the whole result.", v->node->op, knobs[i].name));
    }
    return VN_OK;
}

/* Clip as max(min(x, high), low), and with its bounds exchanged. */
static vn_status_t clip(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *low = vn_variant_operand(v, 1), *high = vn_variant_operand(v, 2);
    const vn_attr_t *min = vn_node_attr(v->node, "min"), *max = vn_node_attr(v->node, "max");
    if (low && high) {
        if (vn_tensor_get_f64(low, 0) > vn_tensor_get_f64(high, 0)) { /* the last comparison decides */
            VN_TRY(vn_variant_input(v, 2, vn_tensor_retain(low), err));
            VN_TRY(vn_variant_ask(
                v, VN_BUG, "clip-order", NULL, err,
                "Clip that applies the upper bound first gives the whole result: min %.9g is above max %.9g, and max is due.",
                vn_tensor_get_f64(low, 0), vn_tensor_get_f64(high, 0)));
        }
        VN_TRY(vn_variant_input(v, 1, vn_tensor_retain(high), err));
        VN_TRY(vn_variant_input(v, 2, vn_tensor_retain(low), err));
    } else if (min && max && min->kind == VN_ATTR_FLOAT && max->kind == VN_ATTR_FLOAT) {
        const double a = (double)min->f, b = (double)max->f;
        VN_TRY(vn_variant_float(v, "min", b, err));
        VN_TRY(vn_variant_float(v, "max", a, err));
    } else {
        return VN_OK;
    }
    return vn_variant_ask(v, VN_BUG, "clip-order", NULL, err, "Clip with its two bounds exchanged gives the whole result.");
}

/* Mod of floats: the sign of the divisor (floor) where fmod = 1 asks for that of the dividend. */
static vn_status_t modulo(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *a = vn_variant_operand(v, 0), *b = vn_variant_operand(v, 1), *out = v->e->c->actual;
    if (!v->e->c->q->node || !a || !b || !v->e->x || !vn_dtype_is_float(out->dtype)) return VN_OK;
    double *y2 = vn_alloc((size_t)v->e->n, sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    for (int64_t i = 0; i < v->e->n; ++i) {
        const double p = vn_tensor_get_f64(a, vn_name_spread(a, out->rank, out->dims, i));
        const double q = vn_tensor_get_f64(b, vn_name_spread(b, out->rank, out->dims, i)), r = fmod(p, q);
        y2[i] = r != 0 && (r < 0) != (q < 0) ? r + q : r;
    }
    vn_explain_plane(v->e, y2, NULL, VN_BUG, "attribute-ignored:fmod", NULL,
                     "Mod with the sign of the divisor (fmod = 0) in place of that of the dividend gives the whole result.");
    vn_free(y2);
    return VN_OK;
}

/* Gelu as x / (1 + exp(-1.702 x)). */
static vn_status_t logistic_gelu(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    if (!v->e->c->q->node || !x || x->count != v->e->n || !v->e->x) return VN_OK;
    double *y2 = vn_alloc((size_t)v->e->n, 2 * sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    double *room = y2 + v->e->n;
    for (int64_t i = 0; i < v->e->n; ++i) {
        const double a = vn_tensor_get_f64(x, i), own = vn_room(v->e->c->ref, i);
        y2[i] = a / (1 + exp(-1.702 * a));
        room[i] = fmax(own, 0) + 0x1p-20 * fabs(y2[i]) * (1 + fabs(a)); /* an exponential of f32 and its argument */
    }
    vn_explain_plane(v->e, y2, room, VN_BUG, "low-order-fit", NULL,
                     "x / (1 + exp(-1.702 x)), a fit of Gelu good to 0.02, gives the whole result.");
    vn_free(y2);
    return VN_OK;
}

/* A matrix that is read in its memory order as if the flag were the other one: the operand keeps its bytes and changes its shape. */
static vn_status_t raw_matrix(vn_variant_t *v, int k, const char *flag, vn_error_t *err) {
    const vn_tensor_t *m = vn_variant_operand(v, k);
    if (!m || m->rank != 2 || m->dims[0] == m->dims[1] || vn_dtype_bits(m->dtype) < 8) return VN_OK;
    const int64_t dims[2] = {m->dims[1], m->dims[0]}, now = (int64_t)vn_name_attr_number(v->node, flag, 0);
    vn_tensor_t *flat, *t;
    char cause[96];
    VN_TRY(vn_tensor_contiguous(m, &flat, err));
    vn_status_t s = vn_tensor_new(m->dtype, 2, dims, &t, err);
    if (s == VN_OK) memcpy(t->data, flat->data, (size_t)m->count * (size_t)vn_dtype_bits(m->dtype) / 8);
    vn_tensor_free(flat);
    if (s != VN_OK) return s;
    snprintf(cause, sizeof cause, "attribute-ignored:%s", flag);
    VN_TRY(vn_variant_input(v, k, t, err));
    VN_TRY(vn_variant_int(v, flag, !now, err));
    return vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s that reads the memory of operand %c as if %s were %d gives the whole result.",
                          v->node->op, 'A' + k, flag, !now);
}

/* Transpose by the inverse permutation, or not at all. */
static vn_status_t transpose(vn_variant_t *v, vn_error_t *err) {
    const vn_attr_t *a = vn_node_attr(v->node, "perm");
    if (!a || a->kind != VN_ATTR_INTS || a->count > VN_MAX_RANK) return VN_OK;
    int64_t inverse[VN_MAX_RANK] = {0}, same[VN_MAX_RANK];
    const int64_t n = a->count;
    for (int64_t i = 0; i < n; ++i) {
        if (a->ints[i] < 0 || a->ints[i] >= n) return VN_OK;
        inverse[a->ints[i]] = i;
        same[i] = i;
    }
    VN_TRY(vn_variant_ints(v, "perm", inverse, n, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "attribute-ignored:perm", NULL, err, "Transpose by the inverse of perm gives the whole result."));
    VN_TRY(vn_variant_ints(v, "perm", same, n, err));
    return vn_variant_ask(v, VN_BUG, "attribute-ignored:perm", NULL, err, "The operand, not transposed, gives the whole result.");
}

/* ---- Einsum ---- */

enum { LETTERS = 52, EQUATION = 256 };

typedef struct equation {
    char terms[VN_VARIANT_INPUTS][VN_MAX_RANK + 1], out[VN_MAX_RANK + 1];
    int n;
} equation_t;

static bool parse(const vn_node_t *node, equation_t *q) {
    const vn_attr_t *a = vn_node_attr(node, "equation");
    if (!a || a->kind != VN_ATTR_STRING || a->s.length >= EQUATION) return false;
    *q = (equation_t){.n = 1};
    char *at = q->terms[0];
    bool output = false;
    for (size_t i = 0; i < a->s.length; ++i) {
        const char c = a->s.text[i];
        if (c == ' ') continue;
        if (c == ',' && !output && q->n < VN_VARIANT_INPUTS) at = q->terms[q->n++];
        else if (c == '-' && i + 1 < a->s.length && a->s.text[i + 1] == '>') {
            output = true;
            at = q->out;
            ++i;
        } else if (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && strlen(at) < VN_MAX_RANK) {
            at[strlen(at)] = c;
        } else {
            return false; /* an ellipsis: not looked at */
        }
    }
    return output && q->n == node->n_inputs;
}

static void write_equation(const equation_t *q, char *out, size_t size) {
    size_t n = 0;
    for (int k = 0; k < q->n && n < size; ++k) n += (size_t)snprintf(out + n, size - n, "%s%s", k ? "," : "", q->terms[k]);
    if (n < size) snprintf(out + n, size - n, "->%s", q->out);
}

/* Only the first (or last) of a summed index. */
static vn_status_t one_of_sum(vn_variant_t *v, const equation_t *q, char letter, bool last, vn_error_t *err) {
    bool possible = false;
    for (int k = 0; k < q->n; ++k)
        for (int d = 0; q->terms[k][d]; ++d) {
            if (q->terms[k][d] != letter) continue;
            const vn_tensor_t *t = vn_variant_operand(v, k);
            vn_tensor_t *one = NULL;
            if (t && d < t->rank) VN_TRY(vn_name_resize(t, d, last ? t->dims[d] - 1 : 0, 1, &one, err));
            if (!one) {
                vn_variant_reset(v);
                return VN_OK;
            }
            possible = true;
            VN_TRY(vn_variant_input(v, k, one, err));
        }
    if (!possible) return VN_OK;
    return vn_variant_ask(v, VN_BUG, "term-dropped", NULL, err,
                          "Einsum that takes only the %s value of index %c, in place of the sum over it, gives the whole result.",
                          last ? "last" : "first", letter);
}

static vn_status_t einsum(vn_variant_t *v, vn_error_t *err) {
    equation_t q;
    char text[EQUATION];
    if (!parse(v->node, &q)) return VN_OK;
    char seen[LETTERS + 1] = "";
    for (int k = 0; k < q.n; ++k)
        for (int d = 0; q.terms[k][d]; ++d) {
            const char c = q.terms[k][d];
            const char *again = strchr(q.terms[k] + d + 1, c);
            for (int way = 0; again && way < 4; ++way) { /* a diagonal taken as two indices: the second summed, or its first value alone */
                equation_t other = q;
                const int at = way % 2 ? d : (int)(again - q.terms[k]);
                char fresh = 'a';
                write_equation(&q, text, sizeof text);
                while (fresh < 'z' && strchr(text, fresh)) ++fresh;
                other.terms[k][at] = fresh;
                write_equation(&other, text, sizeof text);
                const vn_tensor_t *t = vn_variant_operand(v, k);
                vn_tensor_t *first = NULL;
                if (way >= 2 && t && at < t->rank) VN_TRY(vn_name_resize(t, at, 0, 1, &first, err));
                if (way >= 2 && !first) continue;
                if (first) VN_TRY(vn_variant_input(v, k, first, err));
                VN_TRY(vn_variant_string(v, "equation", text, err));
                VN_TRY(vn_variant_ask(v, VN_BUG, "attribute-ignored:equation", NULL, err,
                                      "Einsum by %s%s in place of the diagonal gives the whole result.", text,
                                      first ? " with the first value alone of the new index" : ""));
            }
            if (strchr(q.out, c) || strchr(seen, c) || strlen(seen) >= LETTERS) continue;
            seen[strlen(seen)] = c;
            for (int last = 0; last < 2; ++last) VN_TRY(one_of_sum(v, &q, c, last, err));
        }
    return VN_OK;
}

static vn_status_t rules(vn_variant_t *v, vn_error_t *err) {
    VN_TRY(dropped_knobs(v, err));
    if (vn_variant_is(v, "", "Clip")) return clip(v, err);
    if (vn_variant_is(v, "", "Mod")) return modulo(v, err);
    if (vn_variant_is(v, "", "Gelu")) return logistic_gelu(v, err);
    if (vn_variant_is(v, "", "Transpose")) return transpose(v, err);
    if (vn_variant_is(v, "", "Einsum")) return einsum(v, err);
    if (vn_name_in("Gemm FusedMatMul TransposeMatMul FusedGemm", v->node->op)) {
        VN_TRY(raw_matrix(v, 0, "transA", err));
        return raw_matrix(v, 1, "transB", err);
    }
    return VN_OK;
}

vn_status_t vn_name_rule(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, rules, err); }
