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

/* How many taps from coordinate `begin` on lie before `end`. */
static int64_t taps_before(int64_t begin, int64_t end, int64_t dilation) {
    if (begin >= end) return 0;
    return dilation == 1 ? end - begin : (end - 1 - begin) / dilation + 1;
}

void vn_pool_span(const vn_pool_t *p, int64_t position, vn_pool_span_t *s) {
    s->present = s->inside = 1;
    s->origin = 0;
    for (int64_t d = p->w.n - 1, step = 1; d >= 0; --d) {
        const vn_window_t *w = &p->w.axis[d];
        const int64_t rest = position / w->out, begin = (position - rest * w->out) * w->stride - w->lo; /* coordinate of tap 0 */
        position = rest;
        int64_t first = taps_before(begin, 0, w->dilation), end = taps_before(begin, w->in, w->dilation);
        int64_t inside = taps_before(begin, w->in + w->hi, w->dilation);
        if (end > w->kernel) end = w->kernel;
        if (inside > w->kernel) inside = w->kernel;
        if (first > end) first = end;
        s->count[d] = end - first;
        s->step[d] = w->dilation * step;
        s->origin += (begin + first * w->dilation) * step;
        s->present *= s->count[d];
        s->inside *= inside;
        step *= w->in;
    }
}

int64_t vn_pool_offset(const vn_pool_t *p, const vn_pool_span_t *s, int64_t i) {
    int64_t offset = s->origin;
    for (int d = p->w.n - 1; d >= 0; --d) {
        offset += i % s->count[d] * s->step[d];
        i /= s->count[d];
    }
    return offset;
}

void vn_pool_read(const vn_pool_t *p, const vn_pool_span_t *s, const double *plane, double *out) {
    if (s->present == 0) return;
    const int last = p->w.n - 1;
    if (last < 0) {
        out[0] = plane[0];
        return;
    }
    const int64_t row = s->count[last], step = s->step[last];
    int64_t at[VN_MAX_RANK] = {0}, offset = s->origin;
    for (int64_t i = 0; i < s->present; i += row) {
        for (int64_t k = 0; k < row; ++k) out[i + k] = plane[offset + k * step];
        for (int d = last - 1; d >= 0; --d) {
            offset += s->step[d];
            if (++at[d] < s->count[d]) break;
            offset -= s->step[d] * s->count[d];
            at[d] = 0;
        }
    }
}
