/* op_window.c -- HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.
 *
 * Claims:
 *   SPECTRAL-3  w = a0 - a1 cos(theta) + a2 cos(2 theta), theta = 2 pi n / N (Hann as sin^2(theta/2) or in this form): the angle is off by
 *               4 u theta, the cosine by 2 t u, the sum by 3 u of its terms: a1 (4 u theta + 2 t u) + a2 (8 u theta + 2 t u) + 4 u (a0 + a1 + a2).
 *               Own error: the same with u = 2^-53, t = 1, and angles of 3 roundings.
 *   SPECTRAL-4  mel: quotients of small integers, u |y|. Bin edges are floors: an edge within 2^-16 of an integer (relative) may fall either
 *               way, its columns are void.
 * A symmetric window of one sample divides 0 by 0: NaN, with the reading "ones".
 */
#include <math.h>
#include <string.h>

#include "oracle/spectral.h"

static vn_status_t scalar(vn_eval_t *e, int k, int64_t *out) {
    int n;
    VN_TRY(vn_arg_ints(e, k, out, 1, &n));
    return n == 1 ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "input %d is empty", k);
}

static vn_status_t output(vn_eval_t *e, int rank, const int64_t *dims, vn_dtype_t *type) {
    *type = (vn_dtype_t)vn_node_int(e->node, "output_datatype", VN_F32);
    if (!vn_dtype_is_float(*type) && !vn_dtype_is_int(*type)) return vn_eval_fail(e, VN_ERR_DTYPE, "output_datatype %d", (int)*type);
    return vn_out_float(e, 0, vn_dtype_is_float(*type) ? *type : VN_F64, rank, dims);
}

/* Integer outputs: the value is cut; within the bound of an integer the neighbour below is the other choice. */
static vn_status_t cut(vn_eval_t *e, vn_dtype_t type) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t, *other;
    VN_TRY(vn_tensor_new(type, r->rank, r->dims, &t, e->err));
    vn_status_t s = vn_tensor_new(type, r->rank, r->dims, &other, e->err);
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    for (int64_t i = 0; i < r->count; ++i) {
        const double v = isfinite(r->value[i]) ? r->value[i] : 0, near = rint(v), at = fabs(v - near) < 0x1p-18 ? near : trunc(v);
        vn_tensor_set_i64(t, i, (int64_t)at);
        vn_tensor_set_i64(other, i, (int64_t)(fabs(v - near) < 0x1p-18 && near > 0 ? near - 1 : at));
    }
    s = vn_out_tensor(e, 0, t);
    e->out[0].either = other;
    return s;
}

static vn_status_t reading_ones(vn_eval_t *e) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(e->out[0].dtype, 1, e->out[0].dims, &t, e->err));
    vn_tensor_set_f64(t, 0, 1);
    return vn_out_reading(e, 0, "ones", t);
}

/* (a0 - a1 cos(theta) + a2 cos(2 theta)) / of */
typedef struct form {
    const char *name;
    double a0, a1, a2, of;
} form_t;

typedef struct window {
    const form_t *form;
    int64_t period;
} window_t;

/* In more digits (claim PREC-9). Hann is sin^2(theta / 2), which keeps its digits beside 0. */
static void element(void *ctx, int64_t i, vn_exact_t *out) {
    const window_t *j = ctx;
    const form_t *f = j->form;
    vn_tracked_t c, s, c2;
    if (j->period < 1) return;
    const int64_t k = i % j->period;
    if (f->a0 == f->a1) {
        vn_tk_turn(k, 2 * j->period, &c, &s);
        *out = vn_tk_exact(vn_tk_mul(s, s));
        return;
    }
    vn_tk_turn(k, j->period, &c, &s);
    vn_tk_turn(2 * k % j->period, j->period, &c2, &s);
    const vn_tracked_t sum = vn_tk_add(vn_tk_sub(vn_tk(f->a0), vn_tk_mul(vn_tk(f->a1), c)), vn_tk_mul(vn_tk(f->a2), c2));
    *out = vn_tk_exact(vn_tk_div(sum, vn_tk(f->of)));
}

vn_status_t vn_eval_window(vn_eval_t *e) {
    static const form_t forms[] = {{"HannWindow", 1, 1, 0, 2}, {"HammingWindow", 25, 21, 0, 46}, {"BlackmanWindow", 42, 50, 8, 100}};
    int form = 0;
    for (int i = 0; i < 3; ++i)
        if (strcmp(e->node->op, forms[i].name) == 0) form = i;
    int64_t size;
    vn_dtype_t type;
    VN_TRY(scalar(e, 0, &size));
    if (size < 0 || size > INT64_C(1) << 40) return vn_eval_fail(e, VN_ERR_RANGE, "a window of %lld samples", (long long)size);
    VN_TRY(output(e, 1, &size, &type));
    const int64_t period = vn_node_int(e->node, "periodic", 1) ? size : size - 1;
    window_t job = {&forms[form], period};
    if (e->refine) {
        vn_refine_each(e, element, &job);
        return VN_OK;
    }
    if (e->want >= VN_WANT_BOUND && vn_dtype_is_float(type)) VN_TRY(vn_out_own(e, 0));
    const double of = forms[form].of, a0 = forms[form].a0 / of, a1 = forms[form].a1 / of, a2 = forms[form].a2 / of, u = vn_u(e),
                 t = vn_budget(e, "cos"), pi2 = 6.283185307179586;
    vn_ref_t *r = &e->out[0];
    for (int64_t i = 0; i < size; ++i) {
        const double theta = pi2 * (double)i / (double)period, half = sin(theta / 2);
        r->value[i] = form == 0 ? half * half : a0 - a1 * cos(theta) + a2 * cos(2 * theta);
        if (!r->bound || period == 0) continue;
        const double w = fmax(u, 0x1p-50);
        r->bound[i] = a1 * (4 * w * theta + 2 * t * w) + a2 * (8 * w * theta + 2 * t * w) + 4 * w * (a0 + a1 + a2);
        if (r->own) r->own[i] = (a1 * (3 * theta + 2) + a2 * (6 * theta + 2) + 4 * (a0 + a1 + a2)) * 0x1p-53;
        if (r->var) r->var[i] = r->bound[i] * r->bound[i] / 27;
    }
    if (!vn_dtype_is_float(type)) return cut(e, type);
    return period == 0 && size == 1 ? reading_ones(e) : VN_OK;
}

typedef struct edge {
    int64_t bin;
    bool open;
} edge_t;

static edge_t edge_at(double hertz, int64_t length, int64_t rate) {
    const double v = (double)(length + 1) * hertz / (double)rate, b = floor(v + 0x1p-16 * fmax(fabs(v), 1)),
                 a = floor(v - 0x1p-16 * fmax(fabs(v), 1));
    return (edge_t){.bin = (int64_t)floor(v), .open = a != b};
}

vn_status_t vn_eval_mel(vn_eval_t *e) {
    int64_t bands, length, rate;
    vn_dtype_t type;
    VN_TRY(scalar(e, 0, &bands));
    VN_TRY(scalar(e, 1, &length));
    VN_TRY(scalar(e, 2, &rate));
    if (bands < 1 || length < 1 || rate < 1 || bands > 1 << 24 || length > INT64_C(1) << 40)
        return vn_eval_fail(e, VN_ERR_RANGE, "%lld bands, length %lld, rate %lld", (long long)bands, (long long)length, (long long)rate);
    if (!e->in[3].t->data || !e->in[4].t->data || e->in[3].t->count != 1 || e->in[4].t->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "inputs 3 and 4 must be numbers");
    const double low = 2595 * log10(1 + vn_tensor_get_f64(e->in[3].t, 0) / 700),
                 high = 2595 * log10(1 + vn_tensor_get_f64(e->in[4].t, 0) / 700);
    const int64_t bins = length / 2 + 1, dims[2] = {bins, bands};
    if (!(high >= low) || !isfinite(high)) return vn_eval_fail(e, VN_ERR_RANGE, "edges of %g and %g mel", low, high);
    VN_TRY(output(e, 2, dims, &type));
    VN_TRY(vn_out_flags(e, 0));
    edge_t *edges = vn_alloc((size_t)bands + 2, sizeof *edges);
    if (!edges) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < bands + 2; ++i) {
        const double mel = low + (high - low) / (double)(bands + 2) * (double)i;
        edges[i] = edge_at(700 * (pow(10, mel / 2595) - 1), length, rate);
    }
    vn_ref_t *r = &e->out[0];
    r->own_rel = 0x1p-53; /* one rounding of a quotient of integers */
    for (int64_t i = 0; i < bands; ++i) {
        const int64_t left = edges[i].bin, centre = edges[i + 1].bin, right = edges[i + 2].bin;
        for (int64_t k = left; k <= right && k < bins; ++k) {
            if (k < 0) continue;
            double v = 0;
            if (k <= centre) v = centre == left ? (k == centre) : (double)(k - left) / (double)(centre - left);
            if (k >= centre && k < right) v = (double)(right - k) / (double)(right - centre);
            r->value[k * bands + i] = v;
            if (r->bound) r->bound[k * bands + i] = vn_u(e) * v;
        }
        for (int64_t k = 0; k < bins && (edges[i].open || edges[i + 1].open || edges[i + 2].open); ++k)
            r->flags[k * bands + i] = VN_EL_VOID;
    }
    vn_free(edges);
    return vn_dtype_is_float(type) ? VN_OK : cut(e, type);
}

/* ---- shapes ---- */

static vn_dtype_t declared(const vn_eval_t *e) { return (vn_dtype_t)vn_node_int(e->node, "output_datatype", VN_F32); }

vn_status_t vn_infer_window(vn_eval_t *e) {
    int64_t size;
    VN_TRY(scalar(e, 0, &size));
    if (size < 0) return vn_eval_fail(e, VN_ERR_RANGE, "a window of %lld samples", (long long)size);
    vn_infer_put(e, 0, declared(e), 1, &size);
    return VN_OK;
}

vn_status_t vn_infer_mel(vn_eval_t *e) {
    int64_t bands, length;
    VN_TRY(scalar(e, 0, &bands));
    VN_TRY(scalar(e, 1, &length));
    if (bands < 1 || length < 1) return vn_eval_fail(e, VN_ERR_RANGE, "%lld bands, length %lld", (long long)bands, (long long)length);
    vn_infer_put(e, 0, declared(e), 2, (int64_t[]){length / 2 + 1, bands});
    return VN_OK;
}
