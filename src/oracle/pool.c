/* pool.c -- which elements a pooling window holds. */
#include "oracle/pool.h"

#include <string.h>

#include "oracle/require.h"

vn_status_t vn_pool_plan(vn_eval_t *e, vn_pool_form_t form, vn_pool_t *p) {
    VN_TRY(vn_require(e, 1));
    const vn_tensor_t *x = e->in[0].t;
    *p = (vn_pool_t){.rank = x->rank};
    if (x->rank < 2) return vn_eval_fail(e, VN_ERR_SHAPE, "an input of rank %d has no batch and channels", x->rank);
    p->dims[0] = x->dims[0];
    p->dims[1] = x->dims[1];
    if (!vn_i64_mul(x->dims[0], x->dims[1], &p->planes)) return vn_eval_fail(e, VN_ERR_RANGE, "too many channels");
    if (form == VN_POOL_GLOBAL) {
        p->w = (vn_windows_t){.n = x->rank - 2, .positions = 1, .taps = 1, .in_size = 1};
        for (int d = 0; d < p->w.n; ++d) {
            p->w.axis[d] = (vn_window_t){.in = x->dims[2 + d], .out = 1, .kernel = x->dims[2 + d], .stride = 1, .dilation = 1};
            p->w.in_size *= x->dims[2 + d];
        }
        p->w.taps = p->w.in_size;
    } else {
        VN_TRY(vn_windows_read(e, x->rank - 2, x->dims + 2, NULL, form == VN_POOL_WINDOWS, &p->w));
    }
    for (int d = 0; d < p->w.n; ++d) p->dims[2 + d] = p->w.axis[d].out;
    return VN_OK;
}

vn_status_t vn_pool_infer(vn_eval_t *e, bool global) {
    vn_pool_t p;
    VN_TRY(vn_pool_plan(e, global ? VN_POOL_GLOBAL : VN_POOL_WINDOWS, &p));
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = p.rank;
    memcpy(e->out[0].dims, p.dims, sizeof p.dims);
    return VN_OK;
}

vn_status_t vn_pool_unpadded_reading(vn_eval_t *e, vn_status_t (*run)(vn_eval_t *e, vn_pool_form_t form)) {
    vn_pool_t p;
    bool differs = false;
    VN_TRY(vn_pool_plan(e, VN_POOL_WINDOWS, &p));
    for (int d = 0; d < p.w.n; ++d) differs = differs || p.w.axis[d].lo < 0;
    if (!differs) return VN_OK;
    vn_ref_t out[2] = {{0}};
    vn_eval_t sub = *e;
    sub.out = out;
    sub.n_out = e->n_out < 2 ? e->n_out : 2;
    sub.want = VN_WANT_VALUE;
    vn_status_t s = run(&sub, VN_POOL_WINDOWS_UNCROPPED);
    for (int k = 0; k < sub.n_out && s == VN_OK; ++k) {
        vn_tensor_t *t = NULL;
        if (out[k].value) {
            s = vn_tensor_new_raw(out[k].dtype, out[k].rank, out[k].dims, &t, e->err);
            if (s == VN_OK) vn_tensor_from_f64(t, out[k].value, VN_RNE, false);
        } else if (out[k].tensor) {
            t = vn_tensor_retain(out[k].tensor);
        }
        if (t) s = vn_out_reading(e, k, "no-negative-padding", t);
    }
    for (int k = 0; k < 2; ++k) vn_ref_free(&out[k]);
    return s;
}

void vn_pool_span(const vn_pool_t *p, int64_t position, vn_pool_span_t *s) {
    s->present = s->inside = 1;
    for (int d = p->w.n - 1; d >= 0; --d) {
        const vn_window_t *w = &p->w.axis[d];
        const int64_t begin = position % w->out * w->stride - w->lo; /* coordinate of tap 0 */
        position /= w->out;
        int64_t first = begin >= 0 ? 0 : (-begin + w->dilation - 1) / w->dilation;
        int64_t end = begin >= w->in ? 0 : (w->in - 1 - begin) / w->dilation + 1; /* taps before the input's end */
        int64_t inside = begin >= w->in + w->hi ? 0 : (w->in + w->hi - 1 - begin) / w->dilation + 1;
        if (end > w->kernel) end = w->kernel;
        if (inside > w->kernel) inside = w->kernel;
        if (first > end) first = end;
        s->first[d] = first;
        s->count[d] = end - first;
        s->present *= s->count[d];
        s->inside *= inside;
    }
}

int64_t vn_pool_offset(const vn_pool_t *p, int64_t position, const vn_pool_span_t *s, int64_t i) {
    int64_t offset = 0, step = 1;
    for (int d = p->w.n - 1; d >= 0; --d) {
        const vn_window_t *w = &p->w.axis[d];
        const int64_t begin = position % w->out * w->stride - w->lo;
        position /= w->out;
        offset += (begin + (s->first[d] + i % s->count[d]) * w->dilation) * step;
        i /= s->count[d];
        step *= w->in;
    }
    return offset;
}

void vn_pool_read(const vn_pool_t *p, int64_t position, const vn_pool_span_t *s, const double *plane, double *out) {
    if (s->present == 0) return;
    const int last = p->w.n - 1;
    const int64_t row = last < 0 ? 1 : s->count[last], step = last < 0 ? 1 : p->w.axis[last].dilation;
    for (int64_t i = 0; i < s->present; i += row) {
        const double *from = plane + vn_pool_offset(p, position, s, i);
        for (int64_t k = 0; k < row; ++k) out[i + k] = from[k * step];
    }
}
