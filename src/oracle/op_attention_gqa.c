/* op_attention_gqa.c -- com.microsoft GroupQueryAttention: grouped heads, a cache that grows or stands in a buffer, rotary embedding inside.
 *
 * Sample b holds T = seqlens_k[b] + 1 tokens after this step; new token i has position P + i with P = T - length (0 in a first prompt, whose
 * samples may be padded on the right). With query_seqlens, sample b has Q = query_seqlens[b] new tokens, P = T - Q, and padding behind them.
 * Queries of padding are unspecified: void.
 * Claim ATTN-3: rotated components are off by g(2) (|c x1| + |s x2|) + eta; this enters ATTN-1 as uncertainty of Q and K.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention_planes.h"
#include "oracle/dd.h"

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINE,
    SINE,
    POSITIONS,
    SCORES,
    SINK,
    K_SCALE,
    V_SCALE,
    Q_NORM,
    K_NORM,
    QUERY_LENGTHS
};

typedef struct gqa {
    int64_t batch, length, heads, kv_heads, size, buffer, capacity;
    bool first;
    int64_t *total, *past, *fresh; /* per sample; fresh: new tokens that are no padding */
    vn_head_plane_t q, k, v, all_k, all_v;
} gqa_t;

static bool named(const vn_eval_t *e, int k) { return k < e->n_out && *e->node->outputs[k]; }

static void gqa_free(gqa_t *g) {
    vn_free(g->total);
    vn_free(g->past);
    vn_free(g->fresh);
    vn_head_plane_free(&g->q);
    vn_head_plane_free(&g->k);
    vn_head_plane_free(&g->v);
    vn_head_plane_free(&g->all_k);
    vn_head_plane_free(&g->all_v);
}

static vn_status_t refuse(vn_eval_t *e) {
    static const struct {
        int input;
        const char *what;
    } inputs[] = {
        {K_SCALE, "a quantised cache"}, {V_SCALE, "a quantised cache"}, {Q_NORM, "normalised queries"}, {K_NORM, "normalised keys"}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; ++i)
        if (vn_has(e, inputs[i].input)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "%s (input %d)", inputs[i].what, inputs[i].input);
    if (vn_node_int(e->node, "sliding_window_cache", 0)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a cache of window size");
    const int64_t scores = vn_node_int(e->node, "qk_output", 0);
    if (scores < 0 || scores > 2) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "qk_output %lld", (long long)scores);
    if (named(e, 3) && scores == 0) return vn_eval_fail(e, VN_ERR_USAGE, "output 3 without qk_output");
    return VN_OK;
}

static vn_status_t shapes(vn_eval_t *e, gqa_t *g) {
    const vn_tensor_t *q = e->in[QUERY].t;
    int64_t total;
    int n;
    g->heads = vn_node_int(e->node, "num_heads", 0);
    g->kv_heads = vn_node_int(e->node, "kv_num_heads", 0);
    if (q->rank != 3 || g->heads < 1 || g->kv_heads < 1 || g->heads % g->kv_heads)
        return vn_eval_fail(e, VN_ERR_SHAPE, "query of rank 3 and heads in groups are needed");
    g->batch = q->dims[0];
    g->length = q->dims[1];
    const bool packed = !vn_has(e, KEY);
    const int64_t parts = packed ? g->heads + 2 * g->kv_heads : g->heads;
    if (q->dims[2] % parts)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the hidden size %lld does not split into %lld heads", (long long)q->dims[2],
                            (long long)parts);
    g->size = q->dims[2] / parts;
    for (int k = KEY; k <= VALUE && !packed; ++k) {
        if (!vn_has(e, k)) return vn_eval_fail(e, VN_ERR_SHAPE, "key and value belong together");
        const vn_tensor_t *t = e->in[k].t;
        if (t->rank != 3 || t->dims[0] != g->batch || t->dims[1] != g->length || t->dims[2] != g->kv_heads * g->size)
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d does not fit the query", k);
    }
    for (int k = PAST_KEY; k <= PAST_VALUE; ++k) {
        if (!vn_has(e, k)) continue;
        const vn_tensor_t *t = e->in[k].t;
        if (t->rank != 4 || t->dims[0] != g->batch || t->dims[1] != g->kv_heads || t->dims[3] != g->size)
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d does not fit the heads", k);
        if (!vn_dtype_is_float(t->dtype)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a cache of %s", vn_dtype_name(t->dtype));
        g->buffer = t->dims[2];
    }
    VN_TRY(vn_arg_ints(e, TOTAL, &total, 1, &n));
    if (n != 1 || e->in[LENGTHS].t->count != g->batch)
        return vn_eval_fail(e, VN_ERR_SHAPE, "seqlens_k [batch] and total_sequence_length are needed");
    if (total < 0 || total > INT64_C(1) << 40) return vn_eval_fail(e, VN_ERR_RANGE, "total_sequence_length %lld", (long long)total);
    const bool chunks = vn_has(e, QUERY_LENGTHS);
    if (chunks && (e->in[QUERY_LENGTHS].t->count != g->batch || !vn_has(e, PAST_KEY) || !vn_node_int(e->node, "causal", 1)))
        return vn_eval_fail(e, VN_ERR_USAGE, "query_seqlens needs one length for each sample, a cache and a causal mask");
    g->first = !chunks && total == g->length;
    g->capacity = total > g->buffer ? total : g->buffer;
    g->total = vn_alloc((size_t)g->batch + 1, sizeof *g->total);
    g->past = vn_alloc((size_t)g->batch + 1, sizeof *g->past);
    g->fresh = vn_alloc((size_t)g->batch + 1, sizeof *g->fresh);
    if (!g->total || !g->past || !g->fresh) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < g->batch; ++b) {
        g->total[b] = vn_arg_int(e, LENGTHS, b) + 1;
        g->fresh[b] = chunks ? vn_arg_int(e, QUERY_LENGTHS, b) : g->length;
        if (g->fresh[b] < 0 || g->fresh[b] > g->length)
            return vn_eval_fail(e, VN_ERR_RANGE, "sample %lld has %lld tokens of %lld", (long long)b, (long long)g->fresh[b],
                                (long long)g->length);
        g->past[b] = g->first ? 0 : g->total[b] - g->fresh[b];
        if (g->total[b] < 0 || g->total[b] > g->capacity || g->past[b] < 0 || g->past[b] > g->buffer)
            return vn_eval_fail(e, VN_ERR_RANGE, "sample %lld would hold %lld tokens after %lld new ones", (long long)b,
                                (long long)g->total[b], (long long)g->length);
    }
    return VN_OK;
}

static vn_status_t fill(vn_eval_t *e, gqa_t *g) {
    const int64_t B = g->batch, S = g->length, h = g->size, N = g->heads, K = g->kv_heads;
    const bool packed = !vn_has(e, KEY);
    const int64_t wide = packed ? (N + 2 * K) * h : N * h, kv_wide = packed ? wide : K * h;
    vn_head_source_t q = {.at = vn_arg_f64(e, QUERY), .sb = S * wide, .sh = h, .si = wide}, k, v;
    if (!q.at) return VN_ERR_NOMEM;
    k = v = (vn_head_source_t){.at = q.at, .sb = S * kv_wide, .sh = h, .si = kv_wide};
    if (packed) {
        k.offset = N * h;
        v.offset = (N + K) * h;
    } else {
        k.at = vn_arg_f64(e, KEY);
        v.at = vn_arg_f64(e, VALUE);
        if (!k.at || !v.at) return VN_ERR_NOMEM;
    }
    VN_TRY(vn_head_plane_new(e, B, N, S, h, &g->q));
    VN_TRY(vn_head_plane_new(e, B, K, S, h, &g->k));
    VN_TRY(vn_head_plane_new(e, B, K, S, h, &g->v));
    vn_head_fill(e, &q, &g->q);
    vn_head_fill(e, &k, &g->k);
    vn_head_fill(e, &v, &g->v);
    return VN_OK;
}

/* Whether a x is the number p: nothing was lost, not even below the subnormal numbers. */
static bool whole(double a, double x, vn_dd_t p) { return p.lo == 0 && (a == 0 || x == 0 || fabs(p.hi) >= 0x1p-960); }

/* a x + b y in double-double; returns what it may be off by. */
static double turned(double a, double x, double b, double y, double *hi, double *lo) {
    vn_dd_t p, q;
    p.hi = vn_dd_two_prod(a, x, &p.lo);
    q.hi = vn_dd_two_prod(b, y, &q.lo);
    const vn_dd_t s = vn_dd_add(p, q);
    *hi = s.hi;
    *lo = s.lo;
    return whole(a, x, p) && whole(b, y, q) ? 0 : VN_DD_U * fabs(s.hi) + 0x1p-1070; /* of two numbers the sum is one such number */
}

static vn_status_t rotate(vn_eval_t *e, const gqa_t *g, vn_head_plane_t *p) {
    const vn_tensor_t *c = e->in[COSINE].t, *s = e->in[SINE].t;
    if (c->rank != 2 || s->rank != 2 || c->dims[1] != s->dims[1] || c->dims[0] != s->dims[0] || 2 * c->dims[1] > g->size)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the caches do not fit the head");
    const double *cosine = vn_arg_f64(e, COSINE), *sine = vn_arg_f64(e, SINE), u = vn_u(e);
    if (!cosine || !sine) return VN_ERR_NOMEM;
    const int64_t half = c->dims[1];
    const bool interleaved = vn_node_int(e->node, "rotary_interleaved", 0) != 0, given = vn_has(e, POSITIONS);
    for (int64_t b = 0; b < p->batch; ++b)
        for (int64_t i = 0; i < p->length; ++i) {
            const int64_t at =
                given && e->in[POSITIONS].t->count == p->batch * p->length ? vn_arg_int(e, POSITIONS, b * p->length + i) : g->past[b] + i;
            if (at < 0 || at >= c->dims[0])
                return vn_eval_fail(e, VN_ERR_RANGE, "position %lld outside the %lld rows of the caches", (long long)at,
                                    (long long)c->dims[0]);
            for (int64_t h = 0; h < p->heads; ++h) {
                const int64_t row = ((b * p->heads + h) * p->length + i) * p->size;
                double *v = p->v + row, *err = p->e + row, *lo = p->lo ? p->lo + row : NULL;
                for (int64_t k = 0; k < half; ++k) {
                    const int64_t a1 = interleaved ? 2 * k : k, a2 = interleaved ? 2 * k + 1 : half + k;
                    const double x1 = v[a1], x2 = v[a2], cs = cosine[at * half + k], sn = sine[at * half + k], eta = vn_eta(e);
                    if (lo) { /* claim PREC-10 */
                        err[a1] = turned(cs, x1, -sn, x2, &v[a1], &lo[a1]);
                        err[a2] = turned(sn, x1, cs, x2, &v[a2], &lo[a2]);
                        continue;
                    }
                    v[a1] = cs * x1 - sn * x2;
                    v[a2] = sn * x1 + cs * x2;
                    err[a1] = vn_gamma(2, u) * (fabs(cs * x1) + fabs(sn * x2)) + eta;
                    err[a2] = vn_gamma(2, u) * (fabs(sn * x1) + fabs(cs * x2)) + eta;
                }
            }
        }
    return VN_OK;
}

/* The cache after the step: old rows below past[b], the new tokens from there on. */
static vn_status_t cache(vn_eval_t *e, const gqa_t *g, int k_past, const vn_head_plane_t *fresh, vn_head_plane_t *all) {
    VN_TRY(vn_head_plane_new(e, g->batch, g->kv_heads, g->capacity, g->size, all));
    const double *past = vn_has(e, k_past) ? vn_arg_f64(e, k_past) : NULL;
    if (vn_has(e, k_past) && !past) return VN_ERR_NOMEM;
    for (int64_t b = 0; b < g->batch; ++b)
        for (int64_t h = 0; h < g->kv_heads; ++h) {
            const int64_t group = b * g->kv_heads + h, n = g->fresh[b] < g->capacity - g->past[b] ? g->fresh[b] : g->capacity - g->past[b];
            const int64_t to = group * g->capacity * g->size, from = group * g->length * g->size, at = to + g->past[b] * g->size;
            double *v = all->v + to, *err = all->e + to;
            if (past) memcpy(v, past + group * g->buffer * g->size, (size_t)(g->buffer * g->size) * sizeof *v);
            memcpy(v + g->past[b] * g->size, fresh->v + group * g->length * g->size, (size_t)(n * g->size) * sizeof *v);
            memcpy(err + g->past[b] * g->size, fresh->e + group * g->length * g->size, (size_t)(n * g->size) * sizeof *v);
            if (all->lo) memcpy(all->lo + at, fresh->lo + from, (size_t)(n * g->size) * sizeof *v);
        }
    return VN_OK;
}

/* Cache rows from total[b] on and output rows of padding are unspecified. */
static vn_status_t unspecified(vn_eval_t *e, const gqa_t *g) {
    for (int k = 1; k <= 2; ++k) {
        if (!named(e, k)) continue;
        VN_TRY(vn_out_flags(e, k));
        for (int64_t i = 0; i < e->out[k].count; ++i) {
            const int64_t b = i / (g->kv_heads * g->capacity * g->size), t = i / g->size % g->capacity;
            if (t < g->total[b]) continue;
            e->out[k].flags[i] = VN_EL_VOID;
            if (e->out[k].bound) e->out[k].bound[i] = 0;
            e->out[k].demand_equal = false;
        }
        vn_flags_settle(e, k);
    }
    VN_TRY(vn_out_flags(e, 0));
    const int64_t hidden = g->heads * g->size;
    for (int64_t i = 0; i < e->out[0].count; ++i)
        if (g->past[i / hidden / g->length] + i / hidden % g->length >= g->total[i / hidden / g->length]) e->out[0].flags[i] = VN_EL_VOID;
    vn_flags_settle(e, 0);
    return VN_OK;
}

static vn_status_t score_bias(vn_eval_t *e, const gqa_t *g, vn_score_bias_t *out) {
    if (!vn_has(e, SCORES)) return VN_OK;
    const vn_tensor_t *t = e->in[SCORES].t;
    if (t->rank != 4 || (t->dims[0] != 1 && t->dims[0] != g->batch) || (t->dims[1] != 1 && t->dims[1] != g->heads) ||
        t->dims[2] != g->length)
        return vn_eval_fail(e, VN_ERR_SHAPE, "attention_bias does not fit");
    const int64_t line = t->dims[3], head = g->length * line;
    *out = (vn_score_bias_t){.at = vn_arg_f64(e, SCORES),
                             .sb = t->dims[0] == 1 ? 0 : t->dims[1] * head,
                             .sh = t->dims[1] == 1 ? 0 : head,
                             .si = line,
                             .sj = 1,
                             .keys = line,
                             .adds = true};
    return out->at ? VN_OK : VN_ERR_NOMEM;
}

/*
 * Scores are given for total_sequence_length keys, not for the whole buffer. Forbidden pairs have no score before the softmax (void), and rows of
 * padding have none at all; after it the weight of a forbidden pair is 0.
 */
static vn_status_t crop_scores(vn_eval_t *e, const gqa_t *g, vn_ref_t *r) {
    const int64_t keys = vn_arg_int(e, TOTAL, 0);
    double *planes[] = {r->value, r->bound, r->var, r->wide, r->own};
    const bool before = vn_node_int(e->node, "qk_output", 0) == 1;
    r->dims[3] = keys;
    r->count = g->batch * g->heads * g->length * keys;
    VN_TRY(vn_out_flags(e, 3));
    for (int64_t at = 0; at < r->count; ++at) {
        const int64_t from = at / keys * g->capacity + at % keys, b = at / keys / g->length / g->heads, i = at / keys % g->length;
        for (size_t p = 0; p < sizeof planes / sizeof *planes; ++p)
            if (planes[p]) planes[p][at] = planes[p][from];
        const bool padding = g->past[b] + i >= g->total[b];
        if (!padding && !(before && isinf(r->value[at]))) continue;
        r->flags[at] = VN_EL_VOID;
        r->value[at] = 0;
        if (r->bound) r->bound[at] = 0;
    }
    vn_flags_settle(e, 3);
    return VN_OK;
}

static vn_status_t attend(vn_eval_t *e, gqa_t *g) {
    const int64_t dims[3] = {g->batch, g->length, g->heads * g->size}, window = vn_node_int(e->node, "local_window_size", -1);
    vn_attention_t a = {.e = e,
                        .batch = g->batch,
                        .heads = g->heads,
                        .kv_heads = g->kv_heads,
                        .queries = g->length,
                        .keys = g->capacity,
                        .size = g->size,
                        .v_size = g->size,
                        .q = vn_head_plane_view(&g->q),
                        .k = vn_head_plane_view(&g->all_k),
                        .v = vn_head_plane_view(&g->all_v),
                        .causal = vn_node_int(e->node, "causal", 1) != 0,
                        .left = window > 0 ? window - 1 : -1,
                        .right = -1,
                        .offset = g->past,
                        .valid = g->total,
                        .softcap = vn_node_float(e->node, "softcap", 0),
                        .sink = -INFINITY,
                        .k_tap = named(e, 3) ? 3 : -1,
                        .tap = !named(e, 3)                                ? VN_TAP_NONE
                               : vn_node_int(e->node, "qk_output", 0) == 1 ? VN_TAP_BIASED
                                                                           : VN_TAP_WEIGHTS,
                        .body16 = true,
                        .ob = g->length * g->heads * g->size,
                        .oh = g->size,
                        .oi = g->heads * g->size};
    const double scale = vn_node_float(e->node, "scale", 0);
    a.root_scale = scale == 0;
    a.scale = scale != 0 ? scale : 1 / sqrt((double)g->size);
    if (vn_node_int(e->node, "smooth_softmax", -1) == 1) a.sink = 0; /* one more exponential of 0 in the denominator */
    if (vn_has(e, SINK)) {
        if (e->in[SINK].t->count != g->heads)
            return vn_eval_fail(e, VN_ERR_SHAPE, "head_sink has %lld entries", (long long)e->in[SINK].t->count);
        a.sinks = vn_arg_f64(e, SINK);
        if (!a.sinks) return VN_ERR_NOMEM;
    }
    VN_TRY(score_bias(e, g, &a.bias[0]));
    VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, 3, dims));
    const int64_t shape[4] = {g->batch, g->heads, g->length, g->capacity};
    if (a.k_tap >= 0) VN_TRY(vn_out_float(e, a.k_tap, e->in[0].t->dtype, 4, shape));
    if (e->refine) return vn_refine_attention(&a);
    VN_TRY(vn_attention_run(&a));
    return a.k_tap >= 0 ? crop_scores(e, g, &e->out[a.k_tap]) : VN_OK;
}

vn_status_t vn_eval_group_query(vn_eval_t *e) {
    gqa_t g = {0};
    VN_TRY(refuse(e));
    vn_status_t s = shapes(e, &g);
    if (s == VN_OK) s = fill(e, &g);
    if (s == VN_OK && vn_node_int(e->node, "do_rotary", 0)) {
        s = vn_has(e, COSINE) && vn_has(e, SINE) ? rotate(e, &g, &g.q)
                                                 : vn_eval_fail(e, VN_ERR_SHAPE, "do_rotary needs cos_cache and sin_cache");
        if (s == VN_OK) s = rotate(e, &g, &g.k);
    }
    if (s == VN_OK) s = cache(e, &g, PAST_KEY, &g.k, &g.all_k);
    if (s == VN_OK) s = cache(e, &g, PAST_VALUE, &g.v, &g.all_v);
    if (s == VN_OK) s = attend(e, &g);
    if (e->refine) {
        if (s == VN_OK) vn_head_refine(e, e->refine->k == 1 ? &g.all_k : e->refine->k == 2 ? &g.all_v : NULL);
        gqa_free(&g);
        return s;
    }
    if (s == VN_OK) s = vn_head_output(e, 1, e->in[0].t->dtype, &g.all_k);
    if (s == VN_OK) s = vn_head_output(e, 2, e->in[0].t->dtype, &g.all_v);
    if (s == VN_OK) s = unspecified(e, &g);
    gqa_free(&g);
    return s;
}

vn_status_t vn_infer_group_query(vn_eval_t *e) {
    const vn_tensor_t *q = e->in[QUERY].t;
    const int64_t heads = vn_node_int(e->node, "num_heads", 0), kv = vn_node_int(e->node, "kv_num_heads", 0),
                  parts = vn_has(e, KEY) ? heads : heads + 2 * kv;
    if (q->rank != 3 || heads < 1 || kv < 1 || q->dims[2] % parts)
        return vn_eval_fail(e, VN_ERR_SHAPE, "query does not split into %lld heads", (long long)parts);
    const int64_t size = q->dims[2] / parts;
    vn_infer_put(e, 0, q->dtype, 3, (int64_t[]){q->dims[0], q->dims[1], heads * size});
    if (!named(e, 1) && !named(e, 2) && !named(e, 3)) return VN_OK;
    int64_t total = 0, buffer = vn_has(e, PAST_KEY) && e->in[PAST_KEY].t->rank == 4 ? e->in[PAST_KEY].t->dims[2] : 0;
    int n;
    VN_TRY(vn_arg_ints(e, TOTAL, &total, 1, &n)); /* unsupported where the data decide */
    for (int k = 1; k <= 2; ++k) vn_infer_put(e, k, q->dtype, 4, (int64_t[]){q->dims[0], kv, total > buffer ? total : buffer, size});
    vn_infer_put(e, 3, q->dtype, 4, (int64_t[]){q->dims[0], heads, q->dims[1], total});
    return VN_OK;
}
