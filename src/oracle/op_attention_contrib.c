/* op_attention_contrib.c -- com.microsoft MultiHeadAttention and Attention (projection of Q, K and V inside).
 *
 * Claim ATTN-3. Projections are sums of in + 1 terms: g(in + 1) (|X||W| + |b|), biases one rounding u |x + b|; these errors enter ATTN-1 as
 * uncertainty of Q, K and V. Masks are additive: mask_filter_value where a key is padding; a causal mask forbids.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention_planes.h"
#include "oracle/dd.h"
#include "oracle/ms.h"
#include "tensor/clones.h"

typedef struct parts {
    vn_head_plane_t q, k, v;
    double *mask; /* key padding as an additive plane */
    vn_dtype_t type;
} parts_t;

static void parts_free(parts_t *p) {
    vn_head_plane_free(&p->q);
    vn_head_plane_free(&p->k);
    vn_head_plane_free(&p->v);
    vn_free(p->mask);
}

static bool named(const vn_eval_t *e, int k) { return k < e->n_out && *e->node->outputs[k]; }

/*
 * Integer masks of every shape the operators know, as [batch or 1, 1, queries or 1, keys] of 0 and mask_filter_value: [batch] ends, [2 batch] ends
 * and starts, [3 batch + 2] ends and two running sums that say the same, [batch, keys], [batch, queries, keys]. [batch, 1] and [1, 1] stand
 * for no mask, unless the first is the mask of one key.
 */
static vn_status_t key_mask(vn_eval_t *e, int k, int64_t batch, int64_t queries, int64_t keys, parts_t *p, vn_score_bias_t *out) {
    if (!vn_has(e, k)) return VN_OK;
    const vn_tensor_t *t = e->in[k].t;
    const double filter = vn_node_float(e->node, "mask_filter_value", -10000.0f);
    const bool both = t->rank == 1 && t->count == 2 * batch,
               ends = t->rank == 1 && (t->count == batch || (t->count == 3 * batch + 2 && !both));
    const bool flat = t->rank == 2 && t->dims[0] == batch && t->dims[1] == keys,
               full = t->rank == 3 && t->dims[0] == batch && t->dims[1] == queries && t->dims[2] == keys;
    if (!flat && t->rank == 2 && t->dims[1] == 1 && (t->dims[0] == 1 || t->dims[0] == batch)) return VN_OK;
    if (!ends && !both && !flat && !full) {
        char text[120];
        vn_tensor_describe(t, text, sizeof text);
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a mask of shape %s over %lld keys", text, (long long)keys);
    }
    const int64_t rows = full ? queries : 1;
    p->mask = vn_alloc((size_t)(batch * rows * keys) + 1, sizeof *p->mask);
    if (!p->mask) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < keys; ++j) {
                bool seen;
                if (ends || both) seen = j < vn_arg_int(e, k, b) && (!both || j >= vn_arg_int(e, k, batch + b));
                else seen = vn_arg_int(e, k, (b * rows + i) * keys + j) != 0;
                p->mask[(b * rows + i) * keys + j] = seen ? 0 : filter;
            }
    *out = (vn_score_bias_t){.at = p->mask, .sb = rows * keys, .si = full ? keys : 0, .sj = 1, .keys = keys, .adds = true};
    return VN_OK;
}

/* [batch or 1, heads or 1, queries, keys], added to the scores. */
static vn_status_t score_bias(vn_eval_t *e, int k, int64_t batch, int64_t heads, int64_t queries, int64_t keys, vn_score_bias_t *out) {
    if (!vn_has(e, k)) return VN_OK;
    const vn_tensor_t *t = e->in[k].t;
    if (t->rank != 4 || (t->dims[0] != 1 && t->dims[0] != batch) || (t->dims[1] != 1 && t->dims[1] != heads) || t->dims[2] != queries ||
        t->dims[3] < keys)
        return vn_eval_fail(e, VN_ERR_SHAPE, "attention_bias does not fit [%lld, %lld, %lld, %lld]", (long long)batch, (long long)heads,
                            (long long)queries, (long long)keys);
    const double *x = vn_arg_f64(e, k);
    if (!x) return VN_ERR_NOMEM;
    const int64_t line = t->dims[3], head = queries * line;
    *out = (vn_score_bias_t){.at = x,
                             .sb = t->dims[0] == 1 ? 0 : t->dims[1] * head,
                             .sh = t->dims[1] == 1 ? 0 : head,
                             .si = line,
                             .sj = 1,
                             .keys = t->dims[3],
                             .adds = true};
    return VN_OK;
}

static vn_status_t run(vn_eval_t *e, parts_t *p, int64_t past, int k_mask, int k_bias, int k_tap, int64_t *offset) {
    const int64_t B = p->q.batch, N = p->q.heads, S = p->q.length, T = p->k.length, h = p->q.size, hv = p->v.size, dims[3] = {B, S, N * hv};
    vn_attention_t a = {.e = e,
                        .batch = B,
                        .heads = N,
                        .kv_heads = p->k.heads,
                        .queries = S,
                        .keys = T,
                        .size = h,
                        .v_size = hv,
                        .q = vn_head_plane_view(&p->q),
                        .k = vn_head_plane_view(&p->k),
                        .v = vn_head_plane_view(&p->v),
                        .causal = vn_node_int(e->node, "unidirectional", 0) != 0,
                        .left = -1,
                        .right = -1,
                        .sink = -INFINITY,
                        .ob = S * N * hv,
                        .oh = hv,
                        .oi = N * hv,
                        .k_tap = k_tap,
                        .tap = k_tap >= 0 ? VN_TAP_BIASED : VN_TAP_NONE,
                        .body16 = true,
                        .offset = offset};
    const double scale = vn_node_float(e->node, "scale", 0);
    a.root_scale = scale == 0;
    a.scale = scale != 0 ? scale : 1 / sqrt((double)h);
    for (int64_t b = 0; b < B; ++b) offset[b] = past;
    VN_TRY(key_mask(e, k_mask, B, S, T, p, &a.bias[0]));
    VN_TRY(score_bias(e, k_bias, B, N, S, T, &a.bias[1]));
    VN_TRY(vn_out_float(e, 0, p->type, 3, dims));
    if (k_tap >= 0) {
        const int64_t shape[4] = {B, N, S, T};
        VN_TRY(vn_out_float(e, k_tap, p->type, 4, shape));
    }
    return e->refine ? vn_refine_attention(&a) : vn_attention_run(&a);
}

/* ---- MultiHeadAttention ---- */

enum { M_QUERY, M_KEY, M_VALUE, M_BIAS, M_MASK, M_SCORES, M_PAST_KEY, M_PAST_VALUE, M_PAST_LENGTH, M_CACHE };

static vn_status_t source(vn_eval_t *e, int k, vn_head_source_t *s) {
    s->at = vn_arg_f64(e, k);
    s->err = vn_arg_err(e, k);
    return s->at ? VN_OK : VN_ERR_NOMEM;
}

static vn_status_t multi_parts(vn_eval_t *e, int64_t heads, parts_t *p) {
    const vn_tensor_t *q = e->in[M_QUERY].t, *k = vn_has(e, M_KEY) ? e->in[M_KEY].t : NULL,
                      *v = vn_has(e, M_VALUE) ? e->in[M_VALUE].t : NULL;
    vn_head_source_t sq = {0}, sk = {0}, sv = {0};
    VN_TRY(source(e, M_QUERY, &sq));
    const double *bias = vn_has(e, M_BIAS) ? vn_arg_f64(e, M_BIAS) : NULL;
    const int64_t B = q->dims[0];
    if (q->rank == 5) { /* query, key and value in one: [B, S, N, 3, h] */
        const int64_t S = q->dims[1], h = q->dims[4];
        if (q->dims[2] != heads || q->dims[3] != 3 || k || v)
            return vn_eval_fail(e, VN_ERR_SHAPE, "a packed query must be [batch, length, heads, 3, size] and alone");
        sq.sb = S * heads * 3 * h, sq.si = heads * 3 * h, sq.sh = 3 * h;
        sk = sv = sq;
        sk.offset = h, sv.offset = 2 * h;
        VN_TRY(vn_head_plane_new(e, B, heads, S, h, &p->q));
        VN_TRY(vn_head_plane_new(e, B, heads, S, h, &p->k));
        VN_TRY(vn_head_plane_new(e, B, heads, S, h, &p->v));
    } else {
        if (q->rank != 3 || q->dims[2] % heads || !k)
            return vn_eval_fail(e, VN_ERR_SHAPE, "query must be [batch, length, heads * size] with a key");
        const int64_t S = q->dims[1], h = q->dims[2] / heads;
        int64_t L, hv;
        sq.sb = S * heads * h, sq.si = heads * h, sq.sh = h;
        VN_TRY(source(e, M_KEY, &sk));
        if (k->rank == 5) { /* key and value in one: [B, L, N, 2, h] */
            L = k->dims[1], hv = h;
            if (k->dims[0] != B || k->dims[2] != heads || k->dims[3] != 2 || k->dims[4] != h || v)
                return vn_eval_fail(e, VN_ERR_SHAPE, "a packed key must be [batch, length, heads, 2, size]");
            sk.sb = L * heads * 2 * h, sk.si = heads * 2 * h, sk.sh = 2 * h;
            sv = sk;
            sv.offset = h;
        } else {
            if (!v || v->rank != k->rank || k->dims[0] != B || v->dims[0] != B)
                return vn_eval_fail(e, VN_ERR_SHAPE, "key and value do not fit");
            VN_TRY(source(e, M_VALUE, &sv));
            const bool turned = k->rank == 4; /* [B, N, L, h]: the caches of cross attention, without bias */
            L = k->dims[turned ? 2 : 1];
            hv = turned ? v->dims[3] : v->dims[2] / heads;
            if (turned ? k->dims[1] != heads || k->dims[3] != h || v->dims[1] != heads || v->dims[2] != L
                       : k->rank != 3 || k->dims[2] != heads * h || v->dims[1] != L || v->dims[2] % heads)
                return vn_eval_fail(e, VN_ERR_SHAPE, "key and value do not fit the query");
            sk.sb = L * heads * h, sk.sh = turned ? L * h : h, sk.si = turned ? h : heads * h;
            sv.sb = L * heads * hv, sv.sh = turned ? L * hv : hv, sv.si = turned ? hv : heads * hv;
        }
        VN_TRY(vn_head_plane_new(e, B, heads, S, h, &p->q));
        VN_TRY(vn_head_plane_new(e, B, heads, L, h, &p->k));
        VN_TRY(vn_head_plane_new(e, B, heads, L, hv, &p->v));
    }
    if (bias) {
        const int64_t hidden = heads * p->q.size;
        if (e->in[M_BIAS].t->count != 2 * hidden + heads * p->v.size)
            return vn_eval_fail(e, VN_ERR_SHAPE, "bias has %lld entries", (long long)e->in[M_BIAS].t->count);
        const bool cached = k && k->rank == 4;
        sq.bias = bias;
        if (!cached) sk.bias = bias + hidden, sv.bias = bias + 2 * hidden;
    }
    vn_head_fill(e, &sq, &p->q);
    vn_head_fill(e, &sk, &p->k);
    vn_head_fill(e, &sv, &p->v);
    return VN_OK;
}

/* The first `rows` rows of a cache [batch, heads, room, size] come before p. */
static vn_status_t join_cache(vn_eval_t *e, const double *cache, int64_t room, int64_t rows, vn_head_plane_t *p) {
    if (rows == room) return vn_head_join(e, cache, rows, p);
    const int64_t heads = p->batch * p->heads;
    double *part = vn_alloc((size_t)(heads * rows * p->size) + 1, sizeof *part);
    if (!part) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t g = 0; g < heads; ++g)
        memcpy(part + g * rows * p->size, cache + g * room * p->size, (size_t)(rows * p->size) * sizeof *part);
    const vn_status_t s = vn_head_join(e, part, rows, p);
    vn_free(part);
    return s;
}

/* Past and present share a buffer: *rows of it are filled; otherwise all. */
static vn_status_t past_of(vn_eval_t *e, int k, vn_head_plane_t *p, int64_t *rows) {
    const vn_tensor_t *t = e->in[k].t;
    if (t->rank != 4 || t->dims[0] != p->batch || t->dims[1] != p->heads || t->dims[3] != p->size)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input %d does not fit the heads", k);
    const double *x = vn_arg_f64(e, k);
    if (!x) return VN_ERR_NOMEM;
    *rows = t->dims[2];
    if (vn_has(e, M_PAST_LENGTH)) {
        if (e->in[M_PAST_LENGTH].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "past_sequence_length must be one number");
        *rows = vn_arg_int(e, M_PAST_LENGTH, 0);
        if (*rows < 0 || *rows > t->dims[2] || p->length > t->dims[2] - *rows)
            return vn_eval_fail(e, VN_ERR_RANGE, "%lld filled and %lld new rows in a buffer of %lld", (long long)*rows,
                                (long long)p->length, (long long)t->dims[2]);
    }
    return join_cache(e, x, t->dims[2], *rows, p);
}

/* Present as output k: the plane, or the shared buffer, whose rows behind the filled ones are unspecified. */
static vn_status_t present_of(vn_eval_t *e, int k, int k_past, const vn_head_plane_t *p) {
    const vn_dtype_t type = e->in[M_QUERY].t->dtype;
    if (!named(e, k) || !vn_has(e, k_past) || !vn_has(e, M_PAST_LENGTH)) return vn_head_output(e, k, type, p);
    const int64_t room = e->in[k_past].t->dims[2], dims[4] = {p->batch, p->heads, room, p->size};
    const double *cache = vn_arg_f64(e, k_past);
    if (!cache) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, k, type, 4, dims));
    VN_TRY(vn_out_flags(e, k));
    vn_ref_t *r = &e->out[k];
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t group = i / (room * p->size), row = i / p->size % room, from = (group * p->length + row) * p->size + i % p->size;
        const bool filled = row < p->length;
        r->value[i] = filled ? p->v[from] : cache[i];
        if (!filled) r->flags[i] = VN_EL_VOID;
        if (r->bound) r->bound[i] = filled ? p->e[from] : 0;
        if (r->var) r->var[i] = filled ? p->e[from] * p->e[from] / 3 : 0;
    }
    vn_flags_settle(e, k);
    return VN_OK;
}

vn_status_t vn_eval_multi_head(vn_eval_t *e) {
    const int64_t heads = vn_node_int(e->node, "num_heads", 0);
    if (heads < 1) return vn_eval_fail(e, VN_ERR_RANGE, "num_heads %lld", (long long)heads);
    if (vn_has(e, M_CACHE)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "cache_indirection: the beams of a search");
    if (vn_has(e, M_PAST_LENGTH) && !vn_has(e, M_PAST_KEY)) return vn_eval_fail(e, VN_ERR_USAGE, "past_sequence_length without past_key");
    if (vn_has(e, M_PAST_KEY) != vn_has(e, M_PAST_VALUE)) return vn_eval_fail(e, VN_ERR_SHAPE, "past_key and past_value belong together");
    parts_t p = {.type = e->in[0].t->dtype};
    int64_t past = 0;
    vn_status_t s = multi_parts(e, heads, &p);
    if (s == VN_OK && vn_has(e, M_PAST_KEY)) s = past_of(e, M_PAST_KEY, &p.k, &past);
    if (s == VN_OK && vn_has(e, M_PAST_VALUE)) s = past_of(e, M_PAST_VALUE, &p.v, &past);
    int64_t *offset = s == VN_OK ? vn_alloc((size_t)p.q.batch + 1, sizeof *offset) : NULL;
    if (s == VN_OK && !offset) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = run(e, &p, past, M_MASK, M_SCORES, named(e, 3) ? 3 : -1, offset);
    if (e->refine) { /* elements of a shared buffer are left as they are */
        if (s == VN_OK && !vn_has(e, M_PAST_LENGTH)) vn_head_refine(e, e->refine->k == 1 ? &p.k : e->refine->k == 2 ? &p.v : NULL);
        vn_free(offset);
        parts_free(&p);
        return s;
    }
    if (s == VN_OK) s = present_of(e, 1, M_PAST_KEY, &p.k);
    if (s == VN_OK) s = present_of(e, 2, M_PAST_VALUE, &p.v);
    vn_free(offset);
    parts_free(&p);
    return s;
}

/* ---- Attention: projections inside ---- */

enum { A_INPUT, A_WEIGHTS, A_BIAS, A_MASK, A_PAST, A_SCORES, A_PAST_LENGTH };
enum { Q_INPUT, Q_WEIGHTS, Q_BIAS, Q_INPUT_SCALE, Q_WEIGHT_SCALE, Q_MASK, Q_INPUT_ZERO, Q_WEIGHT_ZERO, Q_PAST };

typedef struct projection {
    double *y, *err, *lo; /* [batch * length, columns]; lo where elements are evaluated again */
    int64_t columns;
} projection_t;

static vn_status_t projection_new(vn_eval_t *e, const vn_tensor_t *x, const vn_tensor_t *w, projection_t *p, int64_t *count) {
    p->columns = w->dims[1];
    if (!vn_i64_mul(x->dims[0] * x->dims[1], p->columns, count)) return vn_eval_fail(e, VN_ERR_RANGE, "the projection is too large");
    p->y = vn_alloc((size_t)*count + 1, sizeof *p->y);
    p->err = vn_alloc((size_t)*count + 1, sizeof *p->err);
    if (e->refine) p->lo = vn_alloc((size_t)*count + 1, sizeof *p->lo);
    return p->y && p->err && (p->lo || !e->refine) ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
}

/* ---- the projection in double-double ---- */

VN_CLONES static void add_row(int64_t n, const double *restrict w, double x, double *restrict sum, double *restrict lost,
                              double *restrict size) {
    for (int64_t j = 0; j < n; ++j) vn_dd_add_product(x, w[j], &sum[j], &lost[j], &size[j]);
}

typedef struct exact_rows {
    const double *x, *w, *bias;
    int64_t in, n;
    projection_t *p;
} exact_rows_t;

static void exact_range(void *ctx, int64_t begin, int64_t end) {
    const exact_rows_t *r = ctx;
    for (int64_t i = begin; i < end; ++i) {
        double *y = r->p->y + i * r->n, *lo = r->p->lo + i * r->n, *err = r->p->err + i * r->n;
        for (int64_t c = 0; c < r->in; ++c) add_row(r->n, r->w + c * r->n, r->x[i * r->in + c], y, lo, err);
        for (int64_t j = 0; j < r->n; ++j) {
            vn_dd_t s;
            s.hi = vn_dd_two_sum(y[j], lo[j], &s.lo);
            if (r->bias) s = vn_dd_add(s, (vn_dd_t){r->bias[j], 0});
            y[j] = s.hi;
            lo[j] = s.lo;
            err[j] = err[j] < 0x1p960 ? vn_dd_dot_own(r->in, err[j]) + VN_DD_U * fabs(s.hi) : INFINITY;
        }
    }
}

static vn_status_t project(vn_eval_t *e, projection_t *p) {
    const vn_tensor_t *x = e->in[A_INPUT].t, *w = e->in[A_WEIGHTS].t;
    const int64_t rows = x->dims[0] * x->dims[1], in = x->dims[2], n = w->dims[1];
    const double *bias = vn_has(e, A_BIAS) ? vn_arg_f64(e, A_BIAS) : NULL, *xs, *ws;
    double *own_x = NULL, *own_w = NULL;
    int64_t count;
    VN_TRY(projection_new(e, x, w, p, &count));
    vn_status_t s = vn_read_operand(e, 0, vn_arg_f64(e, A_INPUT), x->count, x->dtype, &xs, &own_x);
    if (s == VN_OK) s = vn_read_operand(e, 1, vn_arg_f64(e, A_WEIGHTS), w->count, w->dtype, &ws, &own_w);
    if (s == VN_OK && e->refine) {
        exact_rows_t r = {.x = xs, .w = ws, .bias = bias, .in = in, .n = n, .p = p};
        vn_parallel(rows, 1, exact_range, &r);
        vn_free(own_x);
        vn_free(own_w);
        return VN_OK;
    }
    if (s == VN_OK) {
        vn_dgemm(rows, n, in, xs, in, false, ws, n, false, p->y, n, false);
        s = vn_abs_gemm_upper(rows, n, in, xs, in, false, ws, n, false, p->err, n, false);
    }
    const double g = vn_gamma((double)in + 1, vn_u(e));
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        const double b = bias ? bias[i % n] : 0;
        p->y[i] += b;
        p->err[i] = g * (p->err[i] + fabs(b)) + (double)in * vn_eta(e) / 2;
    }
    vn_free(own_x);
    vn_free(own_w);
    return s;
}

/*
 * Claim MS-11, QAttention: the sums of (x - zx)(w - zw) are exact integers; scales and bias add roundings: v = sum sx sw, E = g(4)|v| + u(|v|
 * + |b|). This enters ATTN-1 as uncertainty of Q, K and V, as the projections of Attention do.
 */
static vn_status_t project_codes(vn_eval_t *e, projection_t *p) {
    const vn_tensor_t *x = e->in[Q_INPUT].t, *w = e->in[Q_WEIGHTS].t;
    const int64_t rows = x->dims[0] * x->dims[1], in = x->dims[2], n = w->dims[1], scales = e->in[Q_WEIGHT_SCALE].t->count,
                  zeros = vn_has(e, Q_WEIGHT_ZERO) ? e->in[Q_WEIGHT_ZERO].t->count : 1;
    if (e->in[Q_INPUT_SCALE].t->count != 1 || (vn_has(e, Q_INPUT_ZERO) && e->in[Q_INPUT_ZERO].t->count != 1) ||
        (scales != 1 && scales != n) || (zeros != 1 && zeros != n))
        return vn_eval_fail(e, VN_ERR_SHAPE, "scales and zero points must be one number, those of the weights one for each column");
    const double *bias = vn_arg_f64(e, Q_BIAS), *sw = vn_arg_f64(e, Q_WEIGHT_SCALE),
                 *zw = vn_has(e, Q_WEIGHT_ZERO) ? vn_arg_f64(e, Q_WEIGHT_ZERO) : NULL, u = vn_u(e),
                 sx = vn_tensor_get_f64(e->in[Q_INPUT_SCALE].t, 0),
                 zx = vn_has(e, Q_INPUT_ZERO) ? (double)vn_arg_int(e, Q_INPUT_ZERO, 0) : 0;
    if (!bias || !sw || (vn_has(e, Q_WEIGHT_ZERO) && !zw)) return VN_ERR_NOMEM;
    int64_t count;
    VN_TRY(projection_new(e, x, w, p, &count));
    double *xs = vn_alloc((size_t)x->count + 1, sizeof *xs), *ws = vn_alloc((size_t)w->count + 1, sizeof *ws);
    vn_status_t s = xs && ws ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) {
        vn_tensor_to_f64(x, xs);
        vn_tensor_to_f64(w, ws);
        for (int64_t i = 0; i < x->count; ++i) xs[i] -= zx;
        for (int64_t i = 0; zw && i < w->count; ++i) ws[i] -= zw[zeros == 1 ? 0 : i % n];
        if (count && in) vn_dgemm(rows, n, in, xs, in, false, ws, n, false, p->y, n, false);
    }
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        const double v = p->y[i] * sx * sw[scales == 1 ? 0 : i % n], b = bias[i % n];
        if (e->refine) { /* the sum of codes is an integer below 2^53 */
            const vn_dd_t scaled = vn_dd_mul(vn_dd_mul((vn_dd_t){p->y[i], 0}, (vn_dd_t){sx, 0}), (vn_dd_t){sw[scales == 1 ? 0 : i % n], 0}),
                          sum = vn_dd_add(scaled, (vn_dd_t){b, 0});
            p->y[i] = sum.hi;
            p->lo[i] = sum.lo;
            p->err[i] = 4 * VN_DD_U * (fabs(v) + fabs(b)) + 0x1p-1060;
            continue;
        }
        p->y[i] = v + b;
        p->err[i] = vn_gamma(4, u) * fabs(v) + u * (1 + 4 * u) * (fabs(v) + fabs(b)) + vn_eta(e) * (1 + fabs(v));
    }
    vn_free(xs);
    vn_free(ws);
    return s;
}

typedef vn_status_t (*project_fn)(vn_eval_t *e, projection_t *p);

static vn_status_t packed_parts(vn_eval_t *e, int64_t heads, project_fn fn, int k_past, parts_t *p, int64_t *past) {
    const vn_tensor_t *x = e->in[A_INPUT].t;
    projection_t r = {0};
    int64_t count = 0;
    const int64_t *sizes = vn_node_ints(e->node, "qkv_hidden_sizes", &count), B = x->dims[0], S = x->dims[1],
                  n = e->in[A_WEIGHTS].t->dims[1];
    const int64_t Q = count == 3 ? sizes[0] : n / 3, V = count == 3 ? sizes[2] : n / 3;
    if (Q < 1 || V < 1 || Q % heads || V % heads || 2 * Q + V != n)
        return vn_eval_fail(e, VN_ERR_SHAPE, "hidden sizes %lld and %lld over %lld heads and %lld columns", (long long)Q, (long long)V,
                            (long long)heads, (long long)n);
    vn_status_t s = fn(e, &r);
    const vn_head_source_t from = {.at = r.y, .err = r.err, .lo = r.lo, .sb = S * n, .si = n, .sh = Q / heads};
    vn_head_source_t k = from, v = from;
    k.offset = Q;
    v.offset = 2 * Q;
    v.sh = V / heads;
    if (s == VN_OK) s = vn_head_plane_new(e, B, heads, S, Q / heads, &p->q);
    if (s == VN_OK) s = vn_head_plane_new(e, B, heads, S, Q / heads, &p->k);
    if (s == VN_OK) s = vn_head_plane_new(e, B, heads, S, V / heads, &p->v);
    if (s == VN_OK) {
        vn_head_fill(e, &from, &p->q);
        vn_head_fill(e, &k, &p->k);
        vn_head_fill(e, &v, &p->v);
    }
    vn_free(r.y);
    vn_free(r.err);
    vn_free(r.lo);
    if (s != VN_OK || !vn_has(e, k_past)) return s;
    const vn_tensor_t *t = e->in[k_past].t;
    const double *at = vn_arg_f64(e, k_past);
    if (!at) return VN_ERR_NOMEM;
    if (t->rank != 5 || t->dims[0] != 2 || t->dims[1] != B || t->dims[2] != heads || t->dims[4] != Q / heads || Q != V)
        return vn_eval_fail(e, VN_ERR_SHAPE, "past must be [2, batch, heads, length, size]");
    *past = t->dims[3];
    s = vn_head_join(e, at, *past, &p->k);
    return s == VN_OK ? vn_head_join(e, at + t->count / 2, *past, &p->v) : s;
}

static vn_status_t present(vn_eval_t *e, const parts_t *p) {
    if (!named(e, 1)) return VN_OK;
    const int64_t dims[5] = {2, p->k.batch, p->k.heads, p->k.length, p->k.size};
    VN_TRY(vn_out_float(e, 1, p->type, 5, dims));
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, 1));
    vn_ref_t *r = &e->out[1];
    const int64_t half = r->count / 2;
    for (int64_t i = 0; i < r->count; ++i) {
        const vn_head_plane_t *from = i < half ? &p->k : &p->v;
        r->value[i] = from->v[i % half];
        if (r->bound) r->bound[i] = from->e[i % half];
        if (r->own) r->own[i] = from->e[i % half] * (0x1p-53 / vn_u(e)) + 0x1p-53 * fabs(r->value[i]); /* one such evaluation in f64 */
        if (r->var) r->var[i] = from->e[i % half] * from->e[i % half] / 9;
    }
    return VN_OK;
}

static vn_status_t present_again(vn_eval_t *e, const parts_t *p) {
    const vn_refine_t *q = e->refine;
    const int64_t half = p->k.batch * p->k.heads * p->k.length * p->k.size;
    for (int64_t i = 0; q->k == 1 && i < q->n; ++i) {
        const vn_head_plane_t *from = q->at[i] < half ? &p->k : &p->v;
        const int64_t at = q->at[i] % half;
        q->out[i] = (vn_exact_t){.value = (vn_quad_t)from->v[at] + from->lo[at], .own = from->e[at]};
    }
    return VN_OK;
}

typedef struct packed_form {
    project_fn project;
    int k_past, k_mask, k_scores;
    vn_dtype_t type;
} packed_form_t;

static vn_status_t packed(vn_eval_t *e, const packed_form_t *f) {
    const vn_tensor_t *x = e->in[A_INPUT].t, *w = e->in[A_WEIGHTS].t;
    const int64_t heads = vn_node_int(e->node, "num_heads", 0);
    if (x->rank != 3 || w->rank != 2 || w->dims[0] != x->dims[2] || heads < 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input [batch, length, in] and weights [in, columns] are needed");
    if (vn_has(e, A_BIAS) && e->in[A_BIAS].t->count != w->dims[1])
        return vn_eval_fail(e, VN_ERR_SHAPE, "bias has %lld entries for %lld columns", (long long)e->in[A_BIAS].t->count,
                            (long long)w->dims[1]);
    if (vn_node_int(e->node, "do_rotary", 0)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "rotary embedding inside Attention");
    if (vn_node_int(e->node, "past_present_share_buffer", 0))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "buffers shared between past and present");
    parts_t p = {.type = f->type};
    int64_t past = 0;
    vn_status_t s = packed_parts(e, heads, f->project, f->k_past, &p, &past);
    int64_t *offset = s == VN_OK ? vn_alloc((size_t)p.q.batch + 1, sizeof *offset) : NULL;
    if (s == VN_OK && !offset) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = run(e, &p, past, f->k_mask, f->k_scores, -1, offset);
    if (s == VN_OK) s = e->refine ? present_again(e, &p) : present(e, &p);
    vn_free(offset);
    parts_free(&p);
    return s;
}

vn_status_t vn_eval_packed_attention(vn_eval_t *e) {
    if (vn_has(e, A_PAST_LENGTH)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "buffers shared between past and present");
    return packed(e, &(packed_form_t){project, A_PAST, A_MASK, A_SCORES, e->in[A_INPUT].t->dtype});
}

vn_status_t vn_eval_ms_qattention(vn_eval_t *e) {
    for (int k = Q_INPUT; k <= Q_WEIGHTS; ++k)
        if (!vn_dtype_is_int(e->in[k].t->dtype) || vn_dtype_bits(e->in[k].t->dtype) > 8)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; 8-bit codes are needed", k, vn_dtype_name(e->in[k].t->dtype));
    if (!vn_dtype_is_float(e->in[Q_BIAS].t->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "the bias is no float");
    return packed(e, &(packed_form_t){project_codes, Q_PAST, Q_MASK, e->n_in, e->in[Q_BIAS].t->dtype});
}

/* ---- shapes ---- */

vn_status_t vn_infer_multi_head(vn_eval_t *e) {
    const int64_t heads = vn_node_int(e->node, "num_heads", 0);
    const vn_tensor_t *q = e->in[M_QUERY].t, *k = vn_has(e, M_KEY) ? e->in[M_KEY].t : NULL,
                      *v = vn_has(e, M_VALUE) ? e->in[M_VALUE].t : NULL;
    if (heads < 1 || (q->rank != 3 && q->rank != 5) ||
        (q->rank == 3 && (q->dims[2] % heads || !k || k->rank < 3 || (k->rank != 5 && (!v || v->rank != k->rank)))))
        return vn_eval_fail(e, VN_ERR_SHAPE, "query, key and value do not fit %lld heads", (long long)heads);
    const bool one = q->rank == 5, pair = !one && k->rank == 5, turned = !one && k->rank == 4;
    const int64_t B = q->dims[0], S = q->dims[1], h = one ? q->dims[4] : q->dims[2] / heads,
                  hv = one || pair ? h
                       : turned    ? v->dims[3]
                                   : v->dims[v->rank - 1] / heads;
    const int64_t past = vn_has(e, M_PAST_KEY) && e->in[M_PAST_KEY].t->rank == 4 ? e->in[M_PAST_KEY].t->dims[2] : 0,
                  T = past + (one ? S : k->dims[turned ? 2 : 1]);
    vn_infer_put(e, 0, q->dtype, 3, (int64_t[]){B, S, heads * hv});
    const bool shared = past && vn_has(e, M_PAST_LENGTH); /* the buffer stays as it is */
    vn_infer_put(e, 1, q->dtype, 4, (int64_t[]){B, heads, shared ? past : T, h});
    vn_infer_put(e, 2, q->dtype, 4, (int64_t[]){B, heads, shared ? past : T, hv});
    if (!shared) vn_infer_put(e, 3, q->dtype, 4, (int64_t[]){B, heads, S, T});
    return VN_OK;
}

static vn_status_t infer_packed(vn_eval_t *e, int k_past, vn_dtype_t type) {
    const vn_tensor_t *x = e->in[A_INPUT].t, *w = e->in[A_WEIGHTS].t;
    int64_t count = 0;
    const int64_t *sizes = vn_node_ints(e->node, "qkv_hidden_sizes", &count), heads = vn_node_int(e->node, "num_heads", 0);
    if (x->rank != 3 || w->rank != 2 || heads < 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input [batch, length, in] and weights [in, columns] are needed");
    const int64_t V = count == 3 ? sizes[2] : w->dims[1] / 3,
                  past = vn_has(e, k_past) && e->in[k_past].t->rank == 5 ? e->in[k_past].t->dims[3] : 0;
    vn_infer_put(e, 0, type, 3, (int64_t[]){x->dims[0], x->dims[1], V});
    vn_infer_put(e, 1, type, 5, (int64_t[]){2, x->dims[0], heads, past + x->dims[1], V / heads});
    return VN_OK;
}

vn_status_t vn_infer_packed_attention(vn_eval_t *e) { return infer_packed(e, A_PAST, e->in[A_INPUT].t->dtype); }
vn_status_t vn_infer_ms_qattention(vn_eval_t *e) { return infer_packed(e, Q_PAST, e->in[Q_BIAS].t->dtype); }
