/* heads.c -- runs of attention on chosen operands. */
#include "schedule/heads.h"

#include <math.h>
#include <string.h>

vn_status_t vn_heads_begin(vn_heads_t *p, vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    *p = (vn_heads_t){.r = r,
                      .planes = (int32_t)(op->batch * op->kv_heads),
                      .group = (int32_t)(op->heads / op->kv_heads),
                      .queries = (int32_t)op->m,
                      .keys = (int32_t)op->keys,
                      .size = (int32_t)op->head_size};
    p->rows = p->planes * p->group * p->queries;
    p->scale = op->scale > 0 ? op->scale : 1 / sqrt((double)op->head_size);
    const size_t q = (size_t)p->rows * (size_t)p->size, k = (size_t)p->planes * (size_t)p->keys * (size_t)p->size;
    p->q = vn_alloc(q, sizeof *p->q);
    p->k = vn_alloc(k, sizeof *p->k);
    p->v = vn_alloc(k, sizeof *p->v);
    if (p->q && p->k && p->v) return VN_OK;
    vn_heads_end(p);
    return vn_fail(err, VN_ERR_NOMEM, "no memory for attention of %d rows and %d keys", p->rows, p->keys);
}

void vn_heads_end(vn_heads_t *p) {
    vn_free(p->q);
    vn_free(p->k);
    vn_free(p->v);
    vn_free(p->out);
    p->q = p->k = p->v = NULL;
    p->out = NULL;
}

vn_status_t vn_heads_run(vn_heads_t *p, vn_error_t *err) {
    const vn_sum_op_t *op = p->r->op;
    const int64_t q[4] = {op->batch, op->heads, op->m, op->head_size}, k[4] = {op->batch, op->kv_heads, op->keys, op->head_size};
    const float *const from[3] = {p->q, p->k, p->v};
    vn_tensor_t *in[3] = {0};
    vn_status_t st = VN_OK;
    for (int i = 0; i < 3 && st == VN_OK; ++i) {
        st = vn_tensor_new(VN_F32, 4, i ? k : q, &in[i], err);
        if (st == VN_OK) memcpy(in[i]->data, from[i], (size_t)in[i]->count * sizeof *from[i]);
    }
    vn_free(p->out);
    p->out = NULL;
    if (st == VN_OK) st = vn_reveal_call(p->r, (const vn_tensor_t *const *)in, (int64_t)p->rows * p->size, &p->out, err);
    for (int i = 0; i < 3; ++i) vn_tensor_free(in[i]);
    return st;
}

void vn_heads_equal(vn_heads_t *p, const uint8_t *active) {
    const float low = ldexpf(-1, 10 - ilogb(p->scale)); /* a score of -1024 or lower: exp is 0, or as good as 0 where it is clamped */
    memset(p->q, 0, (size_t)p->rows * (size_t)p->size * sizeof *p->q);
    memset(p->k, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->k);
    for (int64_t row = 0; active && row < p->rows; ++row) p->q[row * p->size] = 1;
    for (int64_t e = 0; active && e < (int64_t)p->planes * p->keys; ++e)
        if (!active[e % p->keys]) p->k[e * p->size] = low;
}

vn_status_t vn_heads_weights(vn_heads_t *p, int32_t from, int32_t to, double *w, vn_error_t *err) {
    for (int32_t at = from; at < to; at += p->size) {
        const int32_t count = to - at < p->size ? to - at : p->size;
        memset(p->v, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->v);
        for (int32_t plane = 0; plane < p->planes; ++plane)
            for (int32_t c = 0; c < count; ++c) *vn_heads_value(p, plane, at + c, c) = 1;
        VN_TRY(vn_heads_run(p, err));
        for (int64_t row = 0; row < p->rows; ++row)
            for (int32_t c = 0; c < count; ++c) w[row * p->keys + at + c] = p->out[row * p->size + c];
    }
    return VN_OK;
}

vn_status_t vn_heads_class(vn_schedule_t *s, const char *where, int64_t elements, vn_schedule_class_t **out, vn_error_t *err) {
    vn_schedule_class_t *more = vn_realloc(s->classes, (size_t)s->n_classes + 1, sizeof *more);
    if (!more) return vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    s->classes = more;
    *out = &more[s->n_classes];
    **out = (vn_schedule_class_t){.elements = elements, .where = vn_strdup(where)};
    if (!(*out)->where) return vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    s->n_classes++;
    return VN_OK;
}
