/* row_sums.c -- rows of terms whose sum is one part of a larger operator (softmax, norms): calls, classes of rows, marks of squares. */
#include <stdio.h>
#include <string.h>

#include "schedule/draft.h"
#include "schedule/reveal.h"

vn_status_t vn_row_sums_begin(vn_row_sums_t *q, vn_reveal_run_t *r, int32_t width, int weights, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: sums of %s in %s cannot be read; f32 can", vn_sum_kind_name(op->kind),
                       vn_dtype_name(op->dtype));
    if (op->m < 1 || op->n < 1 || op->m > 1 << 22 || op->n > 1 << 22 || op->m * op->n > (int64_t)1 << 28)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld rows of %lld terms", (long long)op->m, (long long)op->n);
    *q = (vn_row_sums_t){.r = r, .m = (int32_t)op->m, .n = (int32_t)op->n, .width = width ? width : (int32_t)op->n};
    q->x = vn_alloc((size_t)q->m * (size_t)q->n, sizeof *q->x);
    bool complete = q->x != NULL;
    for (int k = 0; k < weights && complete; ++k) {
        complete = (q->weight[k] = vn_alloc((size_t)q->n, sizeof *q->weight[k])) != NULL;
        for (int32_t e = 0; e < q->n && complete && k == 0; ++e) q->weight[0][e] = 1;
    }
    return complete ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %d rows of %d", q->m, q->n);
}

void vn_row_sums_end(vn_row_sums_t *q) {
    vn_free(q->x);
    vn_free(q->weight[0]);
    vn_free(q->weight[1]);
    vn_free(q->out);
}

vn_status_t vn_row_sums_run(vn_row_sums_t *q, vn_error_t *err) {
    enum { INPUTS = 3 };
    const int64_t dims[2] = {q->m, q->n};
    const vn_tensor_t *in[INPUTS] = {0};
    vn_tensor_t *own[INPUTS] = {0};
    vn_status_t st = VN_OK;
    for (int k = 0; k < INPUTS && st == VN_OK; ++k) {
        const float *from = k ? q->weight[k - 1] : q->x;
        if (!from) break;
        st = vn_tensor_new(VN_F32, k ? 1 : 2, k ? dims + 1 : dims, &own[k], err);
        if (st == VN_OK) memcpy(own[k]->data, from, (size_t)own[k]->count * sizeof *from);
        in[k] = own[k];
    }
    vn_free(q->out);
    q->out = NULL;
    if (st == VN_OK) st = vn_reveal_call(q->r, in, (int64_t)q->m * q->width, &q->out, err);
    for (int k = 0; k < INPUTS; ++k) vn_tensor_free(own[k]);
    return st;
}

/* The first 52 bits of a hash of a row's outputs: a number that vn_classes_of can compare. */
static double digest(const double *x, int32_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int32_t k = 0; k < n; ++k) {
        uint64_t bits;
        memcpy(&bits, &x[k], sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (double)(h >> 12);
}

static vn_status_t same_rows(vn_row_sums_t *q, vn_classes_t *classes, vn_error_t *err) {
    enum { DRAWS = 6 };
    double *sig[DRAWS] = {0};
    vn_status_t st = VN_OK;
    for (int s = 0; s < DRAWS && st == VN_OK; ++s) {
        for (int32_t k = 0; k < q->n; ++k) {
            const float v = (float)vn_rng_normal(&q->r->rng);
            for (int32_t row = 0; row < q->m; ++row) q->x[(int64_t)row * q->n + k] = v;
        }
        st = vn_row_sums_run(q, err);
        if (st == VN_OK && !(sig[s] = vn_alloc((size_t)q->m, sizeof **sig))) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int32_t row = 0; row < q->m && st == VN_OK; ++row) sig[s][row] = digest(q->out + (int64_t)row * q->width, q->width);
    }
    if (st == VN_OK) st = vn_classes_of(q->m, 1, DRAWS, sig, classes, err);
    for (int s = 0; s < DRAWS; ++s) vn_free(sig[s]);
    return st;
}

vn_status_t vn_row_sums_classes(vn_row_sums_t *q, vn_classes_t *classes, vn_read_class_fn read, void *context, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    VN_TRY(same_rows(q, classes, err));
    s->classes = vn_alloc((size_t)classes->count, sizeof *s->classes);
    if (!s->classes) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", classes->count);
    s->n_classes = classes->count;
    s->outputs = (int64_t)q->m * q->width;
    for (int c = 0; c < classes->count; ++c) {
        vn_schedule_class_t *k = &s->classes[c];
        k->elements = classes->elements[c] * q->width;
        if (!(k->where = vn_strdup(classes->where[c]))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        q->row = classes->cell[c].row;
        q->n_rows = classes->cell[c].rows;
        VN_TRY(read(context, k, err));
        if (!k->tree)
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
    }
    return VN_OK;
}

int64_t vn_row_sums_draws(const vn_row_sums_t *q, int64_t elements, int64_t calls) {
    const int64_t a_draw = (int64_t)q->m * q->width, due = (elements + a_draw - 1) / a_draw;
    const int64_t room = (q->r->options.max_calls - q->r->s->calls) / 4 / calls;
    return due <= room ? due : room > 1 ? room : 1;
}

vn_status_t vn_tree_mark_squares(vn_tree_t **tree, const uint8_t *fused, bool *fma_used, vn_error_t *err) {
    const vn_tree_t *t = *tree;
    vn_draft_t d = {0};
    *fma_used = false;
    for (int32_t k = 0; k < t->n; ++k) *fma_used |= fused[k] != 0;
    vn_status_t st = vn_draft_begin(&d, t->n, false, t->nodes + 1, err);
    for (int32_t k = 0; k < t->nodes && st == VN_OK; ++k) {
        int32_t id;
        const int32_t a = t->child[t->first[k]], b = t->child[t->first[k] + 1];
        const bool pair = a < t->n && b < t->n;
        st = vn_draft_node(&d, &id, err);
        if (st != VN_OK) break;
        /* in a pair one square is rounded anyway: the one that is not fused comes first */
        const bool turned = *fma_used && pair && fused[a] && !fused[b];
        vn_draft_attach(&d, id, turned ? b : a);
        vn_draft_attach(&d, id, turned ? a : b);
        if (!*fma_used) continue;
        if (pair && !fused[a] && !fused[b]) st = vn_draft_mark_rounded(&d, b, err);
        if (!pair && a < t->n && !fused[a]) st = vn_draft_mark_rounded(&d, a, err);
        if (!pair && b < t->n && !fused[b] && st == VN_OK) st = vn_draft_mark_rounded(&d, b, err);
    }
    vn_tree_t *marked = NULL;
    if (st == VN_OK) st = vn_draft_finish(&d, t->nodes ? t->n + t->nodes - 1 : 0, true, &marked, err);
    vn_draft_clear(&d);
    if (st != VN_OK) return st;
    vn_tree_free(*tree);
    *tree = marked;
    return VN_OK;
}
