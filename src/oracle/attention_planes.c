/* attention_planes.c -- heads as contiguous planes with errors. */
#include "oracle/attention_planes.h"

#include <math.h>
#include <string.h>

vn_status_t vn_head_plane_new(vn_eval_t *ev, int64_t batch, int64_t heads, int64_t length, int64_t size, vn_head_plane_t *p) {
    int64_t n;
    *p = (vn_head_plane_t){.batch = batch, .heads = heads, .length = length, .size = size};
    if (!vn_i64_mul(batch, heads, &n) || !vn_i64_mul(n, length, &n) || !vn_i64_mul(n, size, &n) ||
        !(p->v = vn_alloc((size_t)n + 1, sizeof(double))) || !(p->e = vn_alloc((size_t)n + 1, sizeof(double)))) {
        vn_head_plane_free(p);
        return vn_eval_fail(ev, VN_ERR_NOMEM, "no memory for %lld heads of %lld x %lld", (long long)heads, (long long)length,
                            (long long)size);
    }
    return VN_OK;
}

void vn_head_plane_free(vn_head_plane_t *p) {
    vn_free(p->v);
    vn_free(p->e);
    p->v = p->e = NULL;
}

vn_heads_t vn_head_plane_view(const vn_head_plane_t *p) {
    return (vn_heads_t){.at = p->v, .err = p->e, .sb = p->heads * p->length * p->size, .sh = p->length * p->size, .si = p->size};
}

void vn_head_fill(const vn_eval_t *e, const vn_head_source_t *s, vn_head_plane_t *p) {
    const double u = vn_u(e);
    int64_t to = 0;
    for (int64_t b = 0; b < p->batch; ++b)
        for (int64_t h = 0; h < p->heads; ++h)
            for (int64_t i = 0; i < p->length; ++i)
                for (int64_t c = 0; c < p->size; ++c, ++to) {
                    const int64_t at = s->offset + b * s->sb + h * s->sh + i * s->si + c;
                    const double add = s->bias ? s->bias[h * p->size + c] : 0, doubt = s->err ? s->err[at] : 0;
                    p->v[to] = s->at[at] + add;
                    p->e[to] = doubt + (add != 0 ? u * (fabs(p->v[to]) + doubt) : 0);
                }
}

vn_status_t vn_head_join(vn_eval_t *e, const double *past, int64_t past_rows, vn_head_plane_t *p) {
    vn_head_plane_t all;
    VN_TRY(vn_head_plane_new(e, p->batch, p->heads, past_rows + p->length, p->size, &all));
    for (int64_t g = 0; g < p->batch * p->heads; ++g) {
        double *v = all.v + g * all.length * p->size, *err = all.e + g * all.length * p->size;
        if (past_rows) memcpy(v, past + g * past_rows * p->size, (size_t)(past_rows * p->size) * sizeof *v);
        memcpy(v + past_rows * p->size, p->v + g * p->length * p->size, (size_t)(p->length * p->size) * sizeof *v);
        memcpy(err + past_rows * p->size, p->e + g * p->length * p->size, (size_t)(p->length * p->size) * sizeof *v);
    }
    vn_head_plane_free(p);
    *p = all;
    return VN_OK;
}

vn_status_t vn_head_output(vn_eval_t *e, int k, vn_dtype_t type, const vn_head_plane_t *p) {
    if (k >= e->n_out || !*e->node->outputs[k]) return VN_OK;
    const int64_t dims[4] = {p->batch, p->heads, p->length, p->size};
    VN_TRY(vn_out_float(e, k, type, 4, dims));
    vn_ref_t *r = &e->out[k];
    memcpy(r->value, p->v, (size_t)r->count * sizeof(double));
    bool exact = true;
    for (int64_t i = 0; i < r->count; ++i) {
        exact &= p->e[i] == 0;
        if (r->bound) r->bound[i] = p->e[i];
        if (r->var) r->var[i] = p->e[i] * p->e[i] / 3;
    }
    if (exact) vn_out_rounded(e, k); /* moved, not computed */
    return VN_OK;
}
