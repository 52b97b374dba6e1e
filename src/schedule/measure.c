/* measure.c -- arithmetic of a product whose tree is known: operand and product rounding, accumulator, subnormals, first value (probes P1 to P15). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/draft.h"
#include "schedule/reveal.h"

bool vn_tree_three(const vn_tree_t *t, int32_t leaf[3]) {
    /* a node of leaves only is as deep as any: its first two leaves, and any leaf of its parent's other children */
    const int32_t leaves = vn_tree_leaves(t);
    for (int32_t k = 0; k + 1 < t->nodes; ++k) {
        int32_t found = 0;
        for (int32_t c = t->first[k]; c < t->first[k + 1] && found < 2; ++c)
            if (t->child[c] < t->n) leaf[found++] = t->child[c];
        if (found < 2) continue;
        for (int32_t up = k + 1; up < t->nodes; ++up) {
            bool parent = false;
            for (int32_t c = t->first[up]; c < t->first[up + 1]; ++c) parent |= t->child[c] == leaves + k;
            if (!parent) continue;
            for (int32_t c = t->first[up]; c < t->first[up + 1]; ++c) {
                int32_t other = t->child[c];
                if (other == leaves + k) continue;
                while (other >= leaves) other = t->child[t->first[other - leaves]];
                if (other == t->n) continue;
                leaf[2] = other;
                return true;
            }
        }
    }
    return false;
}

/* One element of the cell: a and b at some leaves, 0 elsewhere. */
typedef struct probe {
    vn_gemm_t *p;
    const vn_cell_t *cell;
} probe_t;

static vn_status_t element(const probe_t *q, int n, const int32_t *leaf, const double *a, const double *b, double *out, vn_error_t *err) {
    vn_probe_t probe = {0};
    for (int k = 0; k < n; ++k) vn_probe_add(&probe, leaf[k], a[k], b[k]);
    return vn_gemm_probe(q->p, q->cell, 1, &probe, out, err);
}

static vn_status_t one_product(const probe_t *q, int32_t leaf, double a, double b, double *out, vn_error_t *err) {
    return element(q, 1, &leaf, &a, &b, out, err);
}

/* Operand `side`: 1 + 2^-t survives down to t; the formats between differ in their last bit. Then how the half of that bit is rounded. */
static vn_status_t operand(const probe_t *q, int32_t leaf, int side, int most, vn_arithmetic_t *a, vn_error_t *err) {
    const struct {
        int bits;
        vn_format_t format;
    } formats[] = {{45, VN_FMT_NONE}, {23, most > 23 ? VN_FMT_F32 : VN_FMT_NONE}, {10, VN_FMT_TF32}, {7, VN_FMT_BF16}, {3, VN_FMT_F8E4M3FN},
                   {2, VN_FMT_F8E5M2}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
        double out;
        if (formats[f].bits > most) continue;
        const double x = 1 + exp2(-formats[f].bits);
        VN_TRY(one_product(q, leaf, side ? 1 : x, side ? x : 1, &out, err));
        if (out != x) continue;
        a->operand[side] = formats[f].format;
        break;
    }
    if (a->operand[side] == VN_FMT_NONE) return VN_OK;
    const int p = vn_format_info(a->operand[side])->p;
    const double ulp = exp2(1 - p);
    if (a->operand[side] == VN_FMT_TF32) { /* f16 has the same bits, and a range that ends at 65504 */
        double out;
        VN_TRY(one_product(q, leaf, side ? 1 : 0x1p17, side ? 0x1p17 : 1, &out, err));
        if (out != 0x1p17) a->operand[side] = VN_FMT_F16;
    }
    double tie, odd, above;
    VN_TRY(one_product(q, leaf, side ? 1 : 1 + ulp / 2, side ? 1 + ulp / 2 : 1, &tie, err));
    VN_TRY(one_product(q, leaf, side ? 1 : 1 + 1.5 * ulp, side ? 1 + 1.5 * ulp : 1, &odd, err));
    VN_TRY(one_product(q, leaf, side ? 1 : 1 + 0.75 * ulp, side ? 1 + 0.75 * ulp : 1, &above, err));
    a->operand_rounding[side] = above == 1 ? VN_RZ : tie == 1 && odd == 1 + 2 * ulp ? VN_RNE : VN_RNA;
    return VN_OK;
}

/* ---- accumulator ---- */

/* Largest t for which 1 + 2^-t - 1 is not lost: the bits of the running sum. */
static vn_status_t accumulator(const probe_t *q, const int32_t leaf[3], vn_arithmetic_t *a, vn_error_t *err) {
    static const struct {
        int bits;
        vn_format_t format;
    } formats[] = {{52, VN_FMT_F64}, {23, VN_FMT_F32}, {10, VN_FMT_F16}, {7, VN_FMT_BF16}};
    const double ones[3] = {1, 1, 1};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
        double out;
        const double terms[3] = {1, exp2(-formats[f].bits), -1};
        if (q->p->r->op->dtype == VN_F16 && formats[f].bits > 24) continue;
        VN_TRY(element(q, 3, leaf, terms, ones, &out, err));
        if (out == 0) continue;
        a->accumulator = formats[f].format;
        break;
    }
    /* rounding: 1 + 3/4 ulp goes up to nearest, stays toward zero; -1 - 3/4 ulp tells down from zero */
    const vn_format_info_t *info = vn_format_info(a->accumulator);
    const double part = 1.5 * info->u;
    double up, down;
    if (q->p->r->op->dtype == VN_F16 && info->p > 20) return VN_OK; /* 2^-24 times 1.5 is no number of the operands */
    if (q->p->r->op->dtype == VN_BF16 && info->p < 9) return VN_OK;
    const double plus[3] = {1, part, -1}, minus[3] = {-1, -part, 1};
    VN_TRY(element(q, 3, leaf, plus, ones, &up, err));
    VN_TRY(element(q, 3, leaf, minus, ones, &down, err));
    if (up == 0 && down == 0) a->rounding = VN_RZ;
    else if (up == 0) a->rounding = VN_RD;
    else if (down == 0) a->rounding = VN_RU;
    return VN_OK;
}

/* What the sum is rounded to before it is written: 1 + 2^-t from two leaves, with nothing taken away again (P21). */
static vn_status_t store(const probe_t *q, vn_arithmetic_t *a, vn_error_t *err) {
    static const struct {
        int bits;
        vn_format_t format;
    } formats[] = {{23, VN_FMT_F32}, {10, VN_FMT_F16}, {7, VN_FMT_BF16}};
    enum { FORMATS = sizeof formats / sizeof *formats };
    const vn_format_t own = vn_format_of(q->p->r->op->dtype);
    const int sum = vn_format_info(a->accumulator)->p, out = vn_format_info(own)->p, least = sum < out ? sum : out;
    vn_probe_t probe[FORMATS + 1] = {0};
    double got[FORMATS + 1];
    a->store = out < sum ? own : VN_FMT_NONE;
    if (q->p->k < 2) return VN_OK;
    for (int f = 0; f <= FORMATS; ++f) {
        vn_probe_add(&probe[f], 0, 1, 1);
        vn_probe_add(&probe[f], q->p->k - 1, exp2(f == FORMATS ? 1 - least : -formats[f].bits), 1);
    }
    VN_TRY(vn_gemm_probe(q->p, q->cell, FORMATS + 1, probe, got, err));
    if (got[FORMATS] != 1) return VN_OK; /* the last bit of sum and output is there */
    for (int f = 0; f < FORMATS; ++f) {
        if (formats[f].bits + 1 >= least || got[f] == 1) continue;
        a->store = formats[f].format;
        break;
    }
    return VN_OK;
}

static vn_status_t subnormals(const probe_t *q, int32_t leaf, vn_arithmetic_t *a, vn_error_t *err) {
    double out;
    const vn_dtype_t t = q->p->r->op->dtype;
    const double small = t == VN_F16 ? 0x1p-24 : t == VN_F64 ? 0x1p-140 : 0x1p-130, large = t == VN_F16 ? 0x1p10 : 0x1p60;
    if (t == VN_F64) return VN_OK; /* operands made of f32 values do not reach f64's subnormals */
    for (int side = 0; side < 2; ++side) {
        VN_TRY(one_product(q, leaf, side ? large : small, side ? small : large, &out, err));
        a->daz |= out == 0;
    }
    if (t == VN_F16) return VN_OK;
    VN_TRY(one_product(q, leaf, 0x1p-70, 0x1p-60, &out, err));
    a->ftz |= out == 0;
    return VN_OK;
}

/* ---- product rounding, leaf by leaf ---- */

vn_status_t vn_tree_partners(const vn_tree_t *t, int32_t *partner, bool *pair, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *least = vn_alloc((size_t)t->nodes + 1, sizeof *least); /* a leaf below each node, the bias only if there is no other */
    if (!least) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int32_t k = 0; k < leaves; ++k) partner[k] = -1;
    for (int32_t k = 0; k < t->nodes; ++k) {
        int32_t some[2] = {-1, -1};
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) {
            const int32_t child = t->child[c], leaf = child < leaves ? child : least[child - leaves];
            if (c - t->first[k] < 2) some[c - t->first[k]] = leaf;
        }
        least[k] = some[0] == t->n && some[1] >= 0 ? some[1] : some[0];
        if (t->first[k + 1] - t->first[k] != 2) continue;
        const int32_t a = t->child[t->first[k]], b = t->child[t->first[k] + 1];
        if (a < t->n && some[1] != t->n) partner[a] = some[1];
        if (b < t->n && some[0] != t->n) partner[b] = some[0];
        if (a < t->n && b < t->n) pair[a] = pair[b] = true;
    }
    vn_free(least);
    return VN_OK;
}

/* x = 1 + 2^-h everywhere, h half the accumulator's bits, rounded up; -x at the partner and x at the leaf in the other operand. 2^-2h: the leaf is
 * fused; 0: it is rounded; -2^-2h: the partner is fused, and the leaf comes first. */
static vn_status_t ask_products(const probe_t *q, int bits, const int32_t *partner, double *answer, vn_error_t *err) {
    const int32_t n = q->p->k;
    const double x = 1 + ldexp(1, -((bits + 1) / 2));
    const bool by_row = q->cell->rows > q->cell->columns;
    vn_probe_t *probe = vn_alloc((size_t)n, sizeof *probe);
    if (!probe) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d questions", n);
    for (int32_t leaf = 0; leaf < n; ++leaf) {
        const int32_t other = partner[leaf];
        if (other >= 0) vn_probe_add(&probe[leaf], other, by_row ? -x : x, by_row ? x : -x);
        vn_probe_add(&probe[leaf], leaf, x, x);
        if (other < 0) probe[leaf].n = 0; /* nothing to ask: an element of zeros */
    }
    const vn_status_t st = vn_gemm_probe(q->p, q->cell, n, probe, answer, err);
    for (int32_t leaf = 0; leaf < n && st == VN_OK; ++leaf)
        if (partner[leaf] < 0) answer[leaf] = 0;
    vn_free(probe);
    return st;
}

vn_status_t vn_tree_mark(vn_tree_t **tree, const double *answer, const int32_t *partner, const bool *pair, bool fma, vn_error_t *err) {
    const vn_tree_t *t = *tree;
    const int32_t leaves = vn_tree_leaves(t);
    vn_draft_t d;
    vn_tree_t *marked;
    VN_TRY(vn_draft_begin(&d, t->n, t->initial, t->nodes + 1, err));
    vn_status_t st = VN_OK;
    int32_t id = 0;
    for (int32_t k = 0; k < t->nodes && st == VN_OK; ++k) {
        const int32_t a = t->child[t->first[k]], b = t->child[t->first[k] + 1];
        st = vn_draft_node(&d, &id, err);
        if (st != VN_OK) break;
        if (fma && t->first[k + 1] - t->first[k] == 2 && a < t->n && b < t->n && answer[b] < 0) {
            vn_draft_attach(&d, id, b);
            vn_draft_attach(&d, id, a);
        } else {
            for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) vn_draft_attach(&d, id, t->child[c]);
        }
    }
    for (int32_t leaf = 0; leaf < t->n && st == VN_OK && fma; ++leaf) {
        const bool rounded = partner[leaf] >= 0 && answer[leaf] == 0;
        /* in a pair one product is rounded anyway; both answers 0: the second is rounded, too */
        if (rounded && (!pair[leaf] || (answer[partner[leaf]] == 0 && leaf > partner[leaf]))) st = vn_draft_mark_rounded(&d, leaf, err);
    }
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    VN_TRY(vn_draft_finish(&d, t->nodes ? leaves + t->nodes - 1 : 0, true, &marked, err));
    vn_tree_free(*tree);
    *tree = marked;
    return VN_OK;
}

vn_status_t vn_tree_turn_pairs(const vn_tree_t *t, vn_tree_t **out, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    vn_draft_t d;
    int32_t id = 0;
    VN_TRY(vn_draft_begin(&d, t->n, t->initial, t->nodes + 1, err));
    vn_status_t st = VN_OK;
    for (int32_t k = 0; k < t->nodes && st == VN_OK; ++k) {
        const int32_t begin = t->first[k], end = t->first[k + 1];
        const bool pair = end - begin == 2 && t->child[begin] < t->n && t->child[begin + 1] < t->n;
        st = vn_draft_node(&d, &id, err);
        for (int32_t c = begin; c < end && st == VN_OK; ++c) vn_draft_attach(&d, id, t->child[pair ? begin + end - 1 - c : c]);
    }
    for (int32_t leaf = 0; leaf < leaves && st == VN_OK && t->rounded; ++leaf)
        if (t->rounded[leaf]) st = vn_draft_mark_rounded(&d, leaf, err);
    if (st == VN_OK) return vn_draft_finish(&d, t->nodes ? leaves + t->nodes - 1 : 0, true, out, err);
    vn_draft_clear(&d);
    return st;
}

/* Every product of the tree is rounded: marks on all leaves but the first of each pair, whose product is rounded anyway. */
static vn_status_t mark_all(vn_tree_t *t, vn_error_t *err) {
    t->rounded = vn_alloc((size_t)vn_tree_leaves(t), sizeof *t->rounded);
    if (!t->rounded) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d marks", t->n);
    memset(t->rounded, 1, (size_t)t->n);
    for (int32_t k = 0; k < t->nodes; ++k) {
        const int32_t begin = t->first[k], a = t->child[begin], b = t->child[begin + 1];
        if (t->first[k + 1] - begin == 2 && a < t->n && b < t->n) t->rounded[a] = 0;
    }
    return vn_tree_canonical(t, err);
}

vn_status_t vn_gemm_unify(vn_schedule_t *s, int c, const vn_arithmetic_t *a, vn_error_t *err) {
    if (!a->fma) return mark_all(s->classes[c].tree, err);
    s->arithmetic.fma = true; /* the classes before have none */
    for (int k = 0; k < c; ++k)
        if (s->classes[k].tree) VN_TRY(mark_all(s->classes[k].tree, err));
    return VN_OK;
}

/* Where the order within pairs shows in nothing, the text that is shorter stands. */
static vn_status_t shorter_pairs(vn_tree_t **tree, vn_error_t *err) {
    vn_tree_t *other = NULL;
    char *text = NULL, *turned = NULL;
    vn_status_t st = vn_tree_turn_pairs(*tree, &other, err);
    if (st == VN_OK) st = vn_schedule_compress(*tree, &text, err);
    if (st == VN_OK) st = vn_schedule_compress(other, &turned, err);
    if (st == VN_OK && strlen(turned) < strlen(text)) {
        vn_tree_free(*tree);
        *tree = other;
        other = NULL;
    }
    vn_tree_free(other);
    vn_free(text);
    vn_free(turned);
    return st;
}

static vn_status_t products(const probe_t *q, vn_tree_t **tree, vn_arithmetic_t *a, vn_error_t *err) {
    const int32_t n = (*tree)->n;
    int32_t *partner = vn_alloc((size_t)n + 1, sizeof *partner);
    bool *pair = vn_alloc((size_t)n + 1, sizeof *pair);
    double *answer = vn_alloc((size_t)n + 1, sizeof *answer);
    vn_status_t st = partner && pair && answer ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) st = vn_tree_partners(*tree, partner, pair, err);
    if (st == VN_OK) st = ask_products(q, vn_format_info(a->accumulator)->p, partner, answer, err);
    for (int32_t k = 0; st == VN_OK && k < n; ++k) a->fma |= answer[k] != 0;
    if (st == VN_OK) st = vn_tree_mark(tree, answer, partner, pair, a->fma, err);
    vn_free(partner);
    vn_free(pair);
    vn_free(answer);
    return st;
}

vn_status_t vn_gemm_measure(vn_gemm_t *p, const vn_cell_t *cell, vn_tree_t **tree, vn_arithmetic_t *a, vn_error_t *err) {
    const vn_dtype_t t = p->r->op->dtype;
    const probe_t q = {p, cell};
    const int most = t == VN_BF16 ? 7 : t == VN_F16 ? 10 : t == VN_F64 ? 45 : 23;
    int32_t three[3];
    *a = vn_arithmetic_default(t == VN_F64 ? VN_FMT_F64 : VN_FMT_F32);
    /* operands: their own bits come back exactly where the output holds them, so a 1 there decides */
    VN_TRY(operand(&q, 0, 0, most, a, err));
    VN_TRY(operand(&q, 0, 1, most, a, err));
    if (t == VN_BF16 || t == VN_F16)
        for (int side = 0; side < 2; ++side)
            if ((t == VN_F16 && a->operand[side] == VN_FMT_TF32) || vn_format_of(t) == a->operand[side]) a->operand[side] = VN_FMT_NONE;
    if (vn_tree_three(*tree, three)) VN_TRY(accumulator(&q, three, a, err));
    VN_TRY(subnormals(&q, 0, a, err));
    VN_TRY(store(&q, a, err));
    /* products of narrow operands are exact in the accumulator: fused or not is the same */
    int bits = 0;
    for (int side = 0; side < 2; ++side) bits += vn_format_info(a->operand[side] != VN_FMT_NONE ? a->operand[side] : vn_format_of(t))->p;
    if (bits <= vn_format_info(a->accumulator)->p) {
        a->fma = true;
        VN_TRY(shorter_pairs(tree, err));
    } else {
        VN_TRY(products(&q, tree, a, err));
    }
    if (vn_tree_widest(*tree) > 2) a->rounding = VN_RNE; /* what was seen is the groups' own rounding */
    VN_TRY(vn_gemm_groups(p, cell, *tree, a, err));
    if (t == VN_BF16 || t == VN_F16) VN_TRY(vn_gemm_narrow(p, cell, *tree, a, err));
    if (vn_tree_widest(*tree) > 2) return VN_OK; /* fused units give +0 */
    return vn_gemm_zero(p, cell, a, err);
}
