/* sums.c -- how nodes add: alignment bits of fused groups, running values that pass through a narrower format, chains that begin at +0. */
#include <math.h>
#include <string.h>

#include "schedule/draft.h"
#include "schedule/reveal.h"

/* Some leaf below each id that is not the initial value; -1 where there is no other. */
static int32_t *leaves_below(const vn_tree_t *t) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *some = vn_alloc((size_t)leaves + (size_t)t->nodes + 1, sizeof *some);
    for (int32_t k = 0; some && k < leaves; ++k) some[k] = k == t->n ? -1 : k;
    for (int32_t k = 0; some && k < t->nodes; ++k) {
        some[leaves + k] = -1;
        for (int32_t c = t->first[k]; c < t->first[k + 1] && some[leaves + k] < 0; ++c) some[leaves + k] = some[t->child[c]];
    }
    return some;
}

bool vn_tree_group(const vn_tree_t *t, int32_t leaf[8], int *found) {
    *found = 0;
    for (int32_t k = 0; k < t->nodes && *found < 3; ++k) {
        *found = 0;
        if (t->first[k + 1] - t->first[k] < 3) continue;
        for (int32_t c = t->first[k]; c < t->first[k + 1] && *found < 8; ++c)
            if (t->child[c] < t->n) leaf[(*found)++] = t->child[c];
    }
    return *found >= 3;
}

/* ---- fused groups (P6, P7, P7') ---- */

enum { MOST_BITS = 64, STEPS = MOST_BITS + 3 };

/* A power of two as a product of two factors that narrow types hold; alone where the type holds it: such probes share a line. */
static void power(const vn_gemm_t *p, vn_probe_t *q, int32_t leaf, double sign, int e) {
    const int half = p->r->op->dtype == VN_F32 || (e >= -14 && e <= 14) ? e : e / 2;
    vn_probe_add(q, leaf, sign * ldexp(1, half), ldexp(1, e - half));
}

vn_status_t vn_gemm_groups(vn_gemm_t *p, const vn_cell_t *cell, const vn_tree_t *t, vn_arithmetic_t *a, vn_error_t *err) {
    int32_t leaf[8];
    int found;
    double out[STEPS];
    vn_probe_t probe[STEPS] = {0};
    if (!vn_tree_group(t, leaf, &found)) return VN_OK;
    /* 1 + 2^-t - 1 within one group: the largest t that is seen. Narrow outputs show the power alone. */
    const int most = p->r->op->dtype == VN_F16 ? 24 : MOST_BITS;
    for (int k = 1; k <= most; ++k) {
        power(p, &probe[k - 1], leaf[0], 1, 0);
        power(p, &probe[k - 1], leaf[1], 1, -k);
        power(p, &probe[k - 1], leaf[2], -1, 0);
    }
    VN_TRY(vn_gemm_probe(p, cell, most, probe, out, err));
    a->fused_bits = 0;
    for (int k = 1; k <= most && out[k - 1] == ldexp(1, -k); ++k) a->fused_bits = k;
    if (p->r->op->dtype == VN_F16 && a->fused_bits == most) {
        /* f16 ends at 2^-24: everything 2^8 larger shows 2^-25 and below */
        memset(probe, 0, sizeof probe);
        for (int k = 1; k <= 8; ++k) {
            power(p, &probe[k - 1], leaf[0], 1, 14);
            power(p, &probe[k - 1], leaf[1], 1, 14 - most - k);
            power(p, &probe[k - 1], leaf[2], -1, 14);
        }
        VN_TRY(vn_gemm_probe(p, cell, 8, probe, out, err));
        for (int k = 1; k <= 8 && out[k - 1] == ldexp(1, 14 - most - k); ++k) a->fused_bits = most + k;
    }
    if (a->fused_bits == MOST_BITS) a->fused_bits = 0; /* no alignment: exact sums */
    a->fused_rounding = VN_RZ;
    if (a->fused_bits == 0) return VN_OK;
    /* Rounding of the result: a group whose sum has one bit more than f32, then a later group takes the leading part away. */
    const int32_t leaves = vn_tree_leaves(t);
    int32_t later = -1;
    for (int32_t k = 0; k < t->nodes && later < 0; ++k) { /* a term of the node above the group's */
        bool holds = false;
        for (int32_t c = t->first[k]; c < t->first[k + 1] && !holds; ++c) {
            const int32_t g = t->child[c] - leaves;
            for (int32_t d = g < 0 ? 0 : t->first[g]; g >= 0 && d < t->first[g + 1]; ++d) holds |= t->child[d] == leaf[0];
        }
        for (int32_t c = t->first[k]; holds && c < t->first[k + 1] && later < 0; ++c)
            if (t->child[c] < t->n) later = t->child[c];
    }
    const int32_t three[3] = {leaf[0], leaf[1], later};
    if (later < 0 || a->fused_bits < 24) return VN_OK;
    /* 1 + 2^-23 + 2^-24: to even 1 + 2^-22, toward zero 1 + 2^-23; what is left after -1 tells */
    memset(probe, 0, sizeof probe);
    power(p, &probe[0], three[0], 1, 0);
    power(p, &probe[0], three[1], 1, -23);
    power(p, &probe[0], leaf[2], 1, -24);
    power(p, &probe[0], three[2], -1, 0);
    for (int k = 0; k < probe[0].n; ++k) probe[1].leaf[k] = probe[0].leaf[k], probe[1].a[k] = -probe[0].a[k], probe[1].b[k] = probe[0].b[k];
    probe[1].n = probe[0].n;
    VN_TRY(vn_gemm_probe(p, cell, 2, probe, out, err));
    a->fused_rounding = out[0] == 0x1p-23 ? (out[1] == -0x1p-23 ? VN_RZ : VN_RD) : out[1] == -0x1p-22 ? VN_RNE : VN_RU;
    return VN_OK;
}

/* ---- a running value that is narrowed every c terms (P16) ---- */

/* For each node with two children whose parent has two: 1 on its first side, 2^-q on its second, -1 at the parent's other side. q lies between the
 * narrow format's bits and the accumulator's: 0 comes back where the value passes through the narrow format between the node and its parent. */
typedef struct spot {
    int32_t node, terms; /* terms: of the chain up to and with the node */
} spot_t;

vn_status_t vn_gemm_narrow(vn_gemm_t *p, const vn_cell_t *cell, const vn_tree_t *t, vn_arithmetic_t *a, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    const int accumulator = vn_format_info(a->accumulator)->p;
    const bool half = p->r->op->dtype == VN_F16;
    int32_t *below = leaves_below(t), *parent = vn_alloc((size_t)t->nodes + 1, sizeof *parent);
    int32_t *terms = vn_alloc((size_t)t->nodes + 1, sizeof *terms);
    vn_probe_t *probe = vn_alloc((size_t)t->nodes + 1, sizeof *probe);
    spot_t *spot = vn_alloc((size_t)t->nodes + 1, sizeof *spot);
    double *out = vn_alloc((size_t)t->nodes + 1, sizeof *out);
    vn_status_t st = below && parent && terms && probe && spot && out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    int32_t count = 0;
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) parent[k] = -1;
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) {
        const int32_t begin = t->first[k];
        if (t->first[k + 1] - begin != 2) continue;
        const int32_t x = t->child[begin], y = t->child[begin + 1];
        if (x >= leaves) parent[x - leaves] = k;
        if (y >= leaves) parent[y - leaves] = k;
        terms[k] = x < leaves && y < leaves ? (x != t->n) + (y != t->n)
                   : x < leaves             ? terms[y - leaves] + (x != t->n)
                   : y < leaves             ? terms[x - leaves] + (y != t->n)
                                            : 0;
    }
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) {
        if (parent[k] < 0 || t->first[k + 1] - t->first[k] != 2) continue;
        const int32_t up = parent[k], other = t->child[t->first[up]] == leaves + k ? t->child[t->first[up] + 1] : t->child[t->first[up]];
        const int32_t x = below[t->child[t->first[k]]], y = below[t->child[t->first[k] + 1]], z = below[other];
        if (x < 0 || y < 0 || z < 0) continue;
        spot[count] = (spot_t){k, terms[k]};
        power(p, &probe[count], x, 1, 0);
        power(p, &probe[count], y, 1, half ? -(accumulator > 12 ? 13 : 8) : -(accumulator > 13 ? 12 : 6));
        power(p, &probe[count++], z, -1, 0);
    }
    if (st == VN_OK) st = vn_gemm_probe(p, cell, count, probe, out, err);
    int32_t every = 0, lost = 0;
    for (int32_t k = 0; st == VN_OK && k < count; ++k) {
        if (out[k] != 0) continue;
        ++lost;
        if (spot[k].terms > 0 && (every == 0 || spot[k].terms < every)) every = spot[k].terms;
    }
    bool regular = every > 0;
    for (int32_t k = 0; st == VN_OK && k < count && regular; ++k)
        regular = (out[k] == 0) == (spot[k].terms > 0 && spot[k].terms % every == 0);
    if (st == VN_OK && lost && lost < count && regular) {
        a->narrow_every = every;
        a->narrow_format = half ? VN_FMT_F16 : VN_FMT_BF16;
        if (!half) { /* 1 + 2^-9 tells f16 from bf16 */
            double seen = 0;
            for (int32_t k = 0; k < count; ++k)
                if (out[k] == 0) {
                    vn_probe_t q = probe[k];
                    q.a[1] = 0x1p-4, q.b[1] = 0x1p-5;
                    st = vn_gemm_probe(p, cell, 1, &q, &seen, err);
                    break;
                }
            if (seen != 0) a->narrow_format = VN_FMT_F16;
        }
    }
    vn_free(below);
    vn_free(parent);
    vn_free(terms);
    vn_free(probe);
    vn_free(spot);
    vn_free(out);
    return st;
}

/* ---- the first value (P23) ---- */

vn_status_t vn_gemm_zero(vn_gemm_t *p, const vn_cell_t *cell, vn_arithmetic_t *a, vn_error_t *err) {
    vn_gemm_fill(p, -0.0f, 1);
    for (int64_t e = 0; p->c && e < (int64_t)p->m * p->n; ++e) p->c[e] = -0.0f;
    VN_TRY(vn_gemm_run(p, err));
    a->zero_start = !signbit(p->out[(int64_t)cell->row[0] * p->n + cell->column[0]]) && a->rounding != VN_RD;
    return VN_OK;
}
