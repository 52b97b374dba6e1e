/* reveal_product.c -- MatMul and Gemm: checks, classes, a tree for each class, its arithmetic, and the proof by replay. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { SIGNATURES = 14, MATRIX_CALLS = 40, CHECKS = 200 };

/* Signatures: all answers of an element in one number. 52 bits of a mixing function: 64 classes fall together once in 2^40. */
enum { PRODUCTS = 2 };
typedef struct answers {
    double *folded; /* [m*n], whole numbers */
    double *l;      /* [m*n], the answers of one question */
} answers_t;

static void fold(answers_t *q, int64_t elements, const double *answer) {
    bool differ = false;
    for (int64_t e = 0; e < elements && !differ; e += 4096) { /* one answer of all elements parts none of them */
        const int64_t end = elements - e < 4096 ? elements : e + 4096;
        for (int64_t k = e; k < end; ++k) differ |= !(answer[k] == answer[0]);
    }
    for (int64_t e = 0; e < elements && differ; ++e) {
        const double value = answer[e] == 0 ? 0 : answer[e]; /* -0 is 0 */
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint64_t x = (bits ^ (uint64_t)q->folded[e] * 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        q->folded[e] = (double)((x ^ x >> 31) >> 12);
    }
}

/* Leaves that are rounded in some elements and fused in others leave no trace in l: the last leaf, often a block of its own, and the second. */
static vn_status_t product_signatures(vn_gemm_t *p, answers_t *q, vn_error_t *err) {
    const vn_dtype_t t = p->r->op->dtype;
    const double x = 1 + (t == VN_F64 ? 0x1p-27 : 0x1p-12);
    const int64_t elements = (int64_t)p->m * p->n;
    for (int s = 0; s < PRODUCTS && (t == VN_F32 || t == VN_F64) && p->k > s + 1; ++s) {
        const int64_t leaf = s ? 1 : p->k - 1;
        vn_gemm_fill(p, 0, 0);
        for (int32_t r = 0; r < p->m; ++r) {
            vn_gemm_put_a(p, (int64_t)r * p->k, -x);
            vn_gemm_put_a(p, (int64_t)r * p->k + leaf, x);
        }
        for (int32_t c = 0; c < p->n; ++c) {
            vn_gemm_put_b(p, c, x);
            vn_gemm_put_b(p, leaf * p->n + c, x);
        }
        VN_TRY(vn_gemm_run(p, err));
        fold(q, elements, p->out);
    }
    return VN_OK;
}

static vn_status_t signatures(vn_gemm_t *p, answers_t *q, vn_violation_t *v, vn_error_t *err) {
    const int32_t k = p->k;
    const int32_t fixed[][2] = {{0, k - 1}, {0, 1}, {0, 2}, {0, 4}, {0, 8}, {1, 3}, {k - 2, k - 1}, {k / 2, k - 1}};
    const int64_t elements = (int64_t)p->m * p->n;
    bool wide = k >= 3;
    for (int s = 0; s < SIGNATURES && k >= 2; ++s) {
        const bool given = s < (int)(sizeof fixed / sizeof *fixed);
        const int32_t i = given ? fixed[s][0] : (int32_t)vn_rng_below(&p->r->rng, (uint64_t)k);
        const int32_t j = given ? fixed[s][1] : (int32_t)vn_rng_below(&p->r->rng, (uint64_t)k);
        if (i == j || i < 0 || j < 0 || i >= k || j >= k) continue;
        VN_TRY(vn_gemm_signature(p, i, j, q->l, err));
        for (int64_t e = 0; e < elements && wide; ++e) wide = q->l[e] == 2;
        fold(q, elements, q->l);
    }
    if (!wide) return product_signatures(p, q, err);
    *v = (vn_violation_t){.kind = VN_TREE_WIDE, .i = 0, .j = k - 1, .k = -1, .value = 2};
    snprintf(v->what, sizeof v->what, "no small term is lost beside %g: the sum is wider than any order could show", p->readout.mask);
    return VN_OK;
}

/* ---- what the readout must allow for ---- */

/* Two terms at the ends: 1 and 1.5 u, of both signs (P7). To zero and up, masks leak by whole ulps of theirs, which a modulus takes out. */
static vn_status_t direction(vn_gemm_t *p, vn_error_t *err) {
    int32_t row = 0, column = 0;
    const vn_cell_t cell = {.rows = 1, .columns = 1, .row = &row, .column = &column};
    vn_probe_t probe[2] = {0};
    double out[2];
    if (p->r->op->dtype != VN_F32 || p->k < 2) return VN_OK;
    for (int s = 0; s < 2; ++s) {
        vn_probe_add(&probe[s], 0, s ? -1 : 1, 1);
        vn_probe_add(&probe[s], p->k - 1, (s ? -1.5 : 1.5) * 0x1p-24, 1);
    }
    VN_TRY(vn_gemm_probe(p, &cell, 2, probe, out, err));
    const bool up = out[0] == 1 + 0x1p-23, down = out[1] == -1 - 0x1p-23;
    if (out[0] != 1 && !up) return VN_OK; /* wider or narrower sums: not decided here */
    if ((up && down) || (!up && down)) return VN_OK;
    int bits = 1;
    while ((int64_t)1 << bits < 2 * (int64_t)p->k) ++bits;
    p->readout.modulo = ldexp(1, bits);
    p->readout.mask = 1.5 * ldexp(1, 23 + bits);
    return VN_OK;
}

/* f16: does the sum hold more than f16 does? 2^16 - 2^16 is no number in a sum of f16 (REVEAL-1). */
static vn_status_t range(vn_gemm_t *p, vn_error_t *err) {
    int32_t row = 0, column = 0;
    const vn_cell_t cell = {.rows = 1, .columns = 1, .row = &row, .column = &column};
    vn_probe_t probe = {0};
    double out;
    if (p->r->op->dtype != VN_F16 || p->k < 2) return VN_OK;
    vn_probe_add(&probe, 0, 0x1p15, 2);
    vn_probe_add(&probe, p->k - 1, -0x1p15, 2);
    VN_TRY(vn_gemm_probe(p, &cell, 1, &probe, &out, err));
    if (out == 0) return VN_OK;
    p->readout.unit = 0x1p-4;
    p->readout.most = 128;
    return VN_OK;
}

/* ---- a tree for each class ---- */

static vn_status_t by_matrix(vn_asker_t *q, vn_tree_t **tree, vn_violation_t *v, vn_error_t *err) {
    const int32_t k = q->p->k;
    double *l = vn_alloc((size_t)k * (size_t)k, sizeof *l);
    vn_status_t st = l ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for the pairs of %d leaves", k);
    /* whole strips: all pivots of a chunk of rows against a chunk of columns */
    for (int32_t row = 0; st == VN_OK && row < k; row += q->cell.rows) {
        const int32_t rows = k - row < q->cell.rows ? k - row : q->cell.rows;
        for (int32_t column = 0; st == VN_OK && column < k; column += q->cell.columns) {
            const int32_t columns = k - column < q->cell.columns ? k - column : q->cell.columns;
            if (column + columns <= row) continue; /* below the diagonal */
            st = vn_gemm_ask_block(q, row, rows, column, columns, l, err);
        }
    }
    if (st == VN_OK) st = vn_rebuild_matrix(k, l, tree, v, err);
    vn_free(l);
    return st;
}

static vn_status_t tree_of(vn_gemm_t *p, const vn_cell_t *cell, vn_tree_t **tree, vn_violation_t *v, vn_error_t *err) {
    vn_asker_t q = {p, *cell};
    const int64_t calls = (int64_t)((p->k + cell->rows - 1) / cell->rows) * ((p->k + cell->columns - 1) / cell->columns);
    if (p->k == 1) return vn_tree_from_brackets("0", tree, err);
    if (calls <= MATRIX_CALLS && !p->readout.one_side && p->k <= 8192) return by_matrix(&q, tree, v, err);
    return vn_rebuild_pairs(p->k, vn_rng_u64(&p->r->rng), CHECKS, vn_gemm_ask, &q, tree, v, err);
}

/* ---- the whole ---- */

static vn_status_t no_tree(vn_schedule_t *s, int64_t elements, const vn_violation_t *v, vn_error_t *err) {
    s->n_classes = 1;
    s->outputs = elements;
    s->classes = vn_alloc(1, sizeof *s->classes);
    if (!s->classes || !(s->classes->where = vn_strdup("*"))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    s->classes->elements = elements;
    s->classes->violation = *v;
    vn_reveal_say(s->reason, sizeof s->reason, "%s: %s", vn_violation_name(v->kind), v->what);
    return VN_OK;
}

/* Tree and arithmetic of one class. */
static vn_status_t one_class(vn_gemm_t *p, const vn_cell_t *cell, vn_schedule_class_t *k, vn_arithmetic_t *a, vn_error_t *err) {
    VN_TRY(tree_of(p, cell, &k->tree, &k->violation, err));
    if (!k->tree) return VN_OK;
    VN_TRY(vn_gemm_measure(p, cell, &k->tree, a, err));
    VN_TRY(vn_gemm_split(p, cell, a, &k->violation, err));
    if (k->violation.kind == VN_TREE_OK && p->c) return vn_gemm_attach_bias(p, cell, a, &k->tree, &k->violation, err);
    if (k->violation.kind == VN_TREE_OK) return VN_OK;
    vn_tree_free(k->tree);
    k->tree = NULL;
    return VN_OK;
}

static void forget_classes(vn_schedule_t *s) {
    for (int c = 0; c < s->n_classes; ++c) {
        vn_tree_free(s->classes[c].tree);
        vn_free(s->classes[c].text);
        vn_free(s->classes[c].where);
    }
    vn_free(s->classes);
    s->classes = NULL;
    s->n_classes = 0;
    s->reason[0] = '\0';
    s->notes[0] = '\0';
}

static vn_status_t with_classes(vn_gemm_t *p, const vn_classes_t *classes, uint8_t *differs, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    s->classes = vn_alloc((size_t)classes->count, sizeof *s->classes);
    if (!s->classes) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", classes->count);
    s->n_classes = classes->count;
    s->outputs = (int64_t)p->m * p->n;
    bool measured = false;
    for (int c = 0; c < classes->count; ++c) {
        vn_schedule_class_t *k = &s->classes[c];
        vn_arithmetic_t a = vn_arithmetic_default(VN_FMT_F32);
        k->elements = classes->elements[c];
        if (!(k->where = vn_strdup(classes->where[c]))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        VN_TRY(one_class(p, &classes->cell[c], k, &a, err));
        if (!k->tree) {
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
            continue;
        }
        if (!measured) s->arithmetic = a;
        else if (memcmp(&a, &s->arithmetic, sizeof a) != 0) {
            if (a.fma != s->arithmetic.fma) VN_TRY(vn_gemm_unify(s, c, &a, err));
            a.fma = s->arithmetic.fma;
            if (memcmp(&a, &s->arithmetic, sizeof a) != 0)
                vn_reveal_say(s->notes, sizeof s->notes, "class %d differs in its arithmetic", c + 1);
        }
        measured = true;
    }
    return vn_gemm_replay(p, classes, differs, err);
}

/* Which lines of one direction hold differences: first and last of them. */
typedef struct span {
    int32_t first, last;
} span_t;
static void span_of(const uint8_t *differs, int32_t lines, int32_t length, int64_t line, int64_t along, span_t *out) {
    *out = (span_t){.first = -1};
    for (int32_t x = 0; x < lines; ++x) {
        bool hit = false;
        for (int32_t y = 0; y < length && !hit; ++y) hit = differs[x * line + y * along];
        if (!hit) continue;
        if (out->first < 0) out->first = x;
        out->last = x;
    }
}

/* Only a few elements of a class show a difference on given data. Kernels part the output into ranges of rows or columns: the range that holds them
 * all is taken, in the direction in which they lie closer together, if it is at most half of the lines. */
static void widen(uint8_t *differs, int32_t m, int32_t n) {
    span_t rows, columns;
    span_of(differs, m, n, n, 1, &rows);
    span_of(differs, n, m, 1, n, &columns);
    const double r = (double)(rows.last - rows.first + 1) / m, c = (double)(columns.last - columns.first + 1) / n;
    if (r > 0.5 && c > 0.5) return;
    for (int64_t e = 0; e < (int64_t)m * n; ++e) {
        const int32_t x = (int32_t)(e / n), y = (int32_t)(e % n);
        differs[e] = r < c ? x >= rows.first && x <= rows.last : y >= columns.first && y <= columns.last;
    }
}

/* Elements whose replay differed are looked at once more as classes of their own. */
static vn_status_t look(vn_gemm_t *p, answers_t *q, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    const int64_t elements = (int64_t)p->m * p->n;
    vn_classes_t classes = {0};
    uint8_t *differs = vn_alloc((size_t)elements, sizeof *differs);
    vn_status_t st = differs ? vn_classes_of(p->m, p->n, 1, &q->folded, &classes, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) st = with_classes(p, &classes, differs, err);
    int64_t odd = 0;
    bool trees = true;
    for (int64_t e = 0; st == VN_OK && e < elements; ++e) odd += differs[e];
    for (int c = 0; c < s->n_classes; ++c) trees &= s->classes[c].tree != NULL;
    if (st == VN_OK && trees && odd > 0 && odd < elements && s->elements > 0) {
        vn_classes_t again = {0};
        widen(differs, p->m, p->n);
        for (int64_t e = 0; e < elements; ++e) q->l[e] = differs[e];
        fold(q, elements, q->l);
        vn_error_t many = {0};
        const vn_status_t parted = vn_classes_of(p->m, p->n, 1, &q->folded, &again, &many);
        if (parted == VN_OK) {
            const int64_t before = s->elements - s->replayed;
            forget_classes(s);
            st = with_classes(p, &again, NULL, err);
            if (st == VN_OK && 2 * (s->elements - s->replayed) > before) { /* no more than other data: the classes stay as they were */
                forget_classes(s);
                st = with_classes(p, &classes, NULL, err);
                vn_classes_clear(&again);
            } else {
                vn_classes_clear(&classes);
                classes = again;
            }
        }
    }
    if (st == VN_OK && classes.count > 1) {
        s->class_of = classes.of;
        classes.of = NULL;
    }
    vn_free(differs);
    vn_classes_clear(&classes);
    return st == VN_OK ? vn_reveal_identity(s, err) : st;
}

static vn_status_t reveal(vn_gemm_t *p, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    const size_t elements = (size_t)p->m * (size_t)p->n;
    answers_t q = {vn_alloc(elements, sizeof *q.folded), vn_alloc(elements, sizeof *q.l)};
    vn_violation_t v = {0};
    vn_status_t st = q.folded && q.l ? vn_gemm_checks(p, &v, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for signatures");
    if (st == VN_OK && v.kind == VN_TREE_OK) st = direction(p, err);
    if (st == VN_OK && v.kind == VN_TREE_OK) st = range(p, err);
    if (st == VN_OK && v.kind == VN_TREE_OK) st = signatures(p, &q, &v, err);
    if (st == VN_OK && v.kind == VN_TREE_OK) {
        st = look(p, &q, err);
    } else if (st == VN_OK) {
        s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
        st = no_tree(s, (int64_t)p->m * p->n, &v, err);
    }
    vn_free(q.folded);
    vn_free(q.l);
    if (st == VN_OK && p->r->op->batch > 1)
        vn_reveal_say(s->notes, sizeof s->notes, p->batches_differ ? "batches differ: only the first was read" : "same in every batch");
    return st;
}

/* Integer products: exact, so every order gives the same; the results must be the exact ones, in the 32 bits of the output. */
static vn_status_t integers(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    const int64_t m = op->m, k = op->k, n = op->n, a[2] = {m, k}, b[2] = {k, n};
    const vn_violation_t v = {.kind = VN_TREE_ORDER_FREE, .what = "integer products and sums are exact: every order gives the same bits"};
    vn_tensor_t *in[2] = {0};
    int64_t *x = vn_alloc((size_t)(m * k), sizeof *x), *y = vn_alloc((size_t)(k * n), sizeof *y);
    double *out = NULL;
    vn_status_t st =
        x && y ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a product of %lldx%lldx%lld", (long long)m, (long long)k, (long long)n);
    if (op->batch > 1 || op->transpose_a || op->transpose_b || op->addend)
        st = vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: integer products in batches, transposed or with an addend");
    if (st == VN_OK) st = vn_tensor_new(op->dtype, 2, a, &in[0], err);
    if (st == VN_OK) st = vn_tensor_new(op->dtype, 2, b, &in[1], err);
    const int64_t low = op->dtype == VN_I8 ? -128 : 0;
    for (int64_t e = 0; st == VN_OK && e < m * k; ++e) vn_tensor_set_i64(in[0], e, x[e] = low + (int64_t)vn_rng_below(&r->rng, 256));
    for (int64_t e = 0; st == VN_OK && e < k * n; ++e) vn_tensor_set_i64(in[1], e, y[e] = low + (int64_t)vn_rng_below(&r->rng, 256));
    if (st == VN_OK) st = vn_reveal_call(r, (const vn_tensor_t *const *)in, m * n, &out, err);
    if (st == VN_OK) st = no_tree(r->s, m * n, &v, err);
    if (st == VN_OK) {
        r->s->reason[0] = '\0';
        r->s->elements = m * n;
        for (int64_t e = 0; e < m * n; ++e) {
            int64_t sum = 0;
            for (int64_t t = 0; t < k; ++t) sum += x[e / n * k + t] * y[t * n + e % n];
            r->s->replayed += out[e] == (double)(int32_t)(uint32_t)(uint64_t)sum;
        }
        vn_reveal_say(r->s->reason, sizeof r->s->reason, "%s: %s%s", vn_violation_name(v.kind), v.what,
                      r->s->replayed == m * n ? "" : "; some results are not the exact ones");
        snprintf(r->s->arithmetic_text, sizeof r->s->arithmetic_text, "exact");
    }
    vn_tensor_free(in[0]);
    vn_tensor_free(in[1]);
    vn_free(x);
    vn_free(y);
    vn_free(out);
    return st;
}

vn_status_t vn_reveal_product(vn_reveal_run_t *r, vn_error_t *err) {
    vn_gemm_t p;
    const vn_sum_op_t *op = r->op;
    if (op->m < 1 || op->k < 1 || op->n < 1 || op->m > 1 << 20 || op->k > 1 << 20 || op->n > 1 << 20)
        return vn_fail(err, VN_ERR_RANGE, "reveal: a product of %lldx%lldx%lld", (long long)op->m, (long long)op->k, (long long)op->n);
    if (op->dtype == VN_I8 || op->dtype == VN_U8) return integers(r, err);
    if (op->dtype != VN_F32 && op->dtype != VN_F64 && op->dtype != VN_F16 && op->dtype != VN_BF16)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: products of %s cannot be read", vn_dtype_name(op->dtype));
    VN_TRY(vn_gemm_begin(&p, r, err));
    const vn_status_t st = reveal(&p, err);
    vn_gemm_end(&p);
    return st;
}
