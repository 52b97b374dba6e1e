/* attention_planes.c -- heads as contiguous planes with errors. */
#include "oracle/attention_planes.h"

#include "oracle/dd.h"

#include <math.h>
#include <string.h>

vn_status_t vn_head_plane_new(vn_eval_t *ev, int64_t batch, int64_t heads, int64_t length, int64_t size, vn_head_plane_t *p) {
    int64_t n;
    *p = (vn_head_plane_t){.batch = batch, .heads = heads, .length = length, .size = size};
    if (!vn_i64_mul(batch, heads, &n) || !vn_i64_mul(n, length, &n) || !vn_i64_mul(n, size, &n) ||
        !(p->v = vn_alloc((size_t)n + 1, sizeof(double))) || !(p->e = vn_alloc((size_t)n + 1, sizeof(double))) ||
        (ev->refine && !(p->lo = vn_alloc((size_t)n + 1, sizeof(double))))) {
        vn_head_plane_free(p);
        return vn_eval_fail(ev, VN_ERR_NOMEM, "no memory for %lld heads of %lld x %lld", (long long)heads, (long long)length,
                            (long long)size);
    }
    return VN_OK;
}

void vn_head_plane_free(vn_head_plane_t *p) {
    vn_free(p->v);
    vn_free(p->e);
    vn_free(p->lo);
    p->v = p->e = p->lo = NULL;
}

vn_heads_t vn_head_plane_view(const vn_head_plane_t *p) {
    const int64_t n = p->batch * p->heads * p->length * p->size;
    vn_heads_t h = {.at = p->v, .err = p->e, .sb = p->heads * p->length * p->size, .sh = p->length * p->size, .si = p->size};
    for (int64_t i = 0; p->lo && i < n && !h.lo; ++i)
        if (p->lo[i] != 0 || p->e[i] != 0) h.lo = p->lo;
    if (p->lo && !h.lo) h.err = NULL; /* numbers of f64, exact */
    return h;
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
                    if (p->lo) {
                        const vn_dd_t x = vn_dd_add((vn_dd_t){s->at[at], s->lo ? s->lo[at] : 0}, (vn_dd_t){add, 0});
                        p->v[to] = x.hi;
                        p->lo[to] = x.lo;
                        p->e[to] = doubt + (s->lo ? VN_DD_U * fabs(x.hi) : 0); /* a sum of two numbers is one such number */
                        continue;
                    }
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
        if (all.lo)
            memcpy(all.lo + (g * all.length + past_rows) * p->size, p->lo + g * p->length * p->size,
                   (size_t)(p->length * p->size) * sizeof *v);
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
    if (exact) {
        vn_out_rounded(e, k); /* moved, not computed */
        return VN_OK;
    }
    if (e->want < VN_WANT_BOUND) return VN_OK;
    VN_TRY(vn_out_own(e, k));
    for (int64_t i = 0; i < r->count; ++i) r->own[i] = p->e[i] * (0x1p-53 / vn_u(e)); /* the oracle is one such evaluation in f64 */
    return VN_OK;
}

void vn_head_refine(vn_eval_t *e, const vn_head_plane_t *p) {
    const vn_refine_t *q = e->refine;
    for (int64_t i = 0; p && i < q->n; ++i)
        q->out[i] = (vn_exact_t){.value = (vn_quad_t)p->v[q->at[i]] + p->lo[q->at[i]], .own = p->e[q->at[i]]};
}
