/* op_attention.c -- Attention (mask, causal, grouped heads, past, cap), RotaryEmbedding; scores and weights are sums of sums.c. */
#include <math.h>
#include <string.h>

#include "mutant.h"

typedef struct heads {
    bool flat, wide;
    int64_t batch, heads, kv_heads, queries, fresh, past, keys, size, v_size;
    double *q, *k, *v; /* [batch][heads][length][size] */
    double *mask;      /* added to the scores, [batch][heads][queries][keys]; NULL: none */
    double scale, cap;
    bool causal;
    int64_t left, right;  /* window sizes, -1: open */
    const int64_t *valid; /* keys that count, per sample; NULL: all */
} heads_t;

static vn_status_t read_form(const call_t *c, heads_t *h) {
    const vn_tensor_t *q = c->in[0], *k = c->in[1], *v = c->in[2];
    h->flat = q->rank == 3;
    if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
        return refuse(c, "operands that are not of rank 3 or 4");
    h->batch = q->dims[0];
    h->heads = h->flat ? vn_node_int(c->node, "q_num_heads", 0) : q->dims[1];
    h->kv_heads = h->flat ? vn_node_int(c->node, "kv_num_heads", 0) : k->dims[1];
    if (h->heads < 1 || h->kv_heads < 1 || h->heads % h->kv_heads) return refuse(c, "these numbers of heads");
    h->queries = q->dims[q->rank - 2];
    h->fresh = k->dims[k->rank - 2];
    h->size = h->flat ? q->dims[2] / h->heads : q->dims[3];
    h->v_size = h->flat ? v->dims[2] / h->kv_heads : v->dims[3];
    h->past = given(c, 4) ? c->in[4]->dims[2] : 0;
    h->keys = h->past + h->fresh;
    const int64_t k_size = h->flat ? k->dims[2] / h->kv_heads : k->dims[3];
    const bool fits = k->dims[0] == h->batch && v->dims[0] == h->batch && k_size == h->size && v->dims[v->rank - 2] == h->fresh &&
                      (h->flat || v->dims[1] == h->kv_heads) && given(c, 4) == given(c, 5) &&
                      (!given(c, 4) || (c->in[4]->rank == 4 && c->in[5]->rank == 4 && c->in[5]->dims[2] == h->past &&
                                        c->in[4]->count == h->batch * h->kv_heads * h->past * h->size &&
                                        c->in[5]->count == h->batch * h->kv_heads * h->past * h->v_size));
    if (!fits || (h->flat && (q->dims[2] % h->heads || k->dims[2] % h->kv_heads || v->dims[2] % h->kv_heads)))
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: the operands do not fit", c->node->path);
    return VN_OK;
}

/* [batch][length][heads size] or [batch][heads][length][size] -> [batch][heads][offset + length of total][size] */
static void lay(const heads_t *h, const double *x, bool flat, int64_t heads, int64_t length, int64_t offset, int64_t total, int64_t size,
                double *to) {
    for (int64_t b = 0; b < h->batch; ++b)
        for (int64_t n = 0; n < heads; ++n)
            for (int64_t i = 0; i < length; ++i) {
                const int64_t from = flat ? ((b * length + i) * heads + n) * size : ((b * heads + n) * length + i) * size;
                memcpy(to + ((b * heads + n) * total + offset + i) * size, x + from, (size_t)size * sizeof *to);
            }
}

static double *laid(const call_t *c, const heads_t *h, int k, int k_past, int64_t heads, int64_t length, int64_t size) {
    const int64_t past = k_past ? h->past : 0, total = past + length;
    double *x = plane(c, c->in[k]), *old = past ? plane(c, c->in[k_past]) : NULL, *to = room_for(c, h->batch * heads * total * size);
    const bool fine = x && to && (!past || old);
    if (fine && past) lay(h, old, false, heads, past, 0, total, size, to);
    if (fine) lay(h, x, h->flat, heads, length, past, total, size, to);
    vn_free(x);
    vn_free(old);
    if (fine) return to;
    vn_free(to);
    return NULL;
}

/* The mask as addends: true is 0, false -Inf; one shorter than the keys forbids the rest. */
static vn_status_t read_mask(const call_t *c, heads_t *h) {
    if (!given(c, 3) || faulty(c, F_MASK_IGNORED)) return VN_OK;
    const vn_tensor_t *m = c->in[3];
    int64_t dims[4] = {h->batch, h->heads, h->queries, m->rank ? m->dims[m->rank - 1] : 1};
    const bool boolean = m->dtype == VN_BOOL;
    double *given_mask = NULL;
    if (faulty(c, F_BROADCAST_AXIS) && m->rank == 4 && m->dims[1] == h->heads) { /* the first head's for all */
        vn_tensor_t *first;
        const int64_t start[4] = {0}, length[4] = {m->dims[0], 1, m->dims[2], m->dims[3]}, step[4] = {1, 1, 1, 1};
        VN_TRY(vn_tensor_slice(m, start, length, step, &first, c->err));
        given_mask = plane_of(c, first, 4, dims);
        vn_tensor_free(first);
    } else {
        given_mask = plane_of(c, m, 4, dims);
    }
    h->mask = room_for(c, h->batch * h->heads * h->queries * h->keys);
    vn_status_t s = given_mask && h->mask ? VN_OK : VN_ERR_NOMEM;
    const double forbidden = faulty(c, F_MASK_FINITE) ? -10000 : -INFINITY;
    for (int64_t i = 0; s == VN_OK && i < h->batch * h->heads * h->queries * h->keys; ++i) {
        const int64_t row = i / h->keys, j = i % h->keys;
        double x = j < dims[3] ? given_mask[row * dims[3] + j] : boolean ? 0 : -INFINITY;
        if (boolean && faulty(c, F_WINDOW_OFF_BY_ONE) && !x) /* the key beside an allowed one counts as allowed */
            x = j + 1 < dims[3] ? given_mask[row * dims[3] + j + 1] : 0;
        if (boolean) x = x ? 0 : forbidden;
        else if (x == -INFINITY) x = forbidden;
        h->mask[i] = x;
    }
    vn_free(given_mask);
    return s;
}

/* Addend that the positions give: query i of sample b stands at i + offset. */
static double position_addend(const call_t *c, const heads_t *h, int64_t b, int64_t i, int64_t j) {
    const bool counted = h->valid && !faulty(c, F_MASK_IGNORED);
    int64_t at = i + (h->past ? h->past : counted ? h->valid[b] - h->queries : 0);
    if (faulty(c, F_CAUSAL_CORNER)) at = h->past || h->valid ? i : i + h->keys - h->queries;
    if (faulty(c, F_CAUSAL_OFF_BY_ONE)) ++at;
    const int64_t wider = faulty(c, F_WINDOW_OFF_BY_ONE) ? 1 : 0;
    const bool seen = !(h->causal && j > at) && !(h->left >= 0 && at - j > h->left + wider) &&
                      !(h->right >= 0 && j - at > h->right + wider) && (!counted || j < h->valid[b]);
    return seen ? 0 : faulty(c, F_MASK_FINITE) ? -10000 : -INFINITY;
}

/* Weights of one query: softmax of its scores; without any key, zeros. Not divided yet: *sum is what divides. */
static vn_status_t weigh(const call_t *c, const heads_t *h, double *scores, double *sum) {
    double top = -INFINITY;
    for (int64_t j = 0; j < h->keys; ++j) top = scores[j] > top ? scores[j] : top;
    const bool empty = top == -INFINITY;
    if (c->a->no_max) top = 0;
    for (int64_t j = 0; j < h->keys; ++j)
        scores[j] = empty || scores[j] == -INFINITY ? 0 : fn_exp(c, h->wide, settle(h->wide, scores[j] - top));
    VN_TRY(sum_each(c, h->wide, 1, h->keys, scores, sum));
    if (empty) *sum = 1;
    return VN_OK;
}

static vn_status_t attend(const call_t *c, const heads_t *h, int64_t b, int64_t n, double *y) {
    const int64_t kv = faulty(c, F_HEAD_INDEX) ? n % h->kv_heads : n / (h->heads / h->kv_heads);
    double *q = room_for(c, h->queries * h->size), *kt = room_for(c, h->size * h->keys), *v = room_for(c, h->keys * h->v_size),
           *scores = room_for(c, h->queries * h->keys);
    vn_status_t s = q && kt && v && scores ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK) {
        const double *keys = h->k + (b * h->kv_heads + kv) * h->keys * h->size;
        memcpy(q, h->q + (b * h->heads + n) * h->queries * h->size, (size_t)(h->queries * h->size) * sizeof *q);
        memcpy(v, h->v + (b * h->kv_heads + kv) * h->keys * h->v_size, (size_t)(h->keys * h->v_size) * sizeof *v);
        for (int64_t i = 0; i < h->keys * h->size; ++i) kt[i % h->size * h->keys + i / h->size] = keys[i];
        s = product(c, h->wide, h->queries, h->size, h->keys, q, kt, scores);
    }
    for (int64_t i = 0; s == VN_OK && i < h->queries; ++i) {
        double *row = scores + i * h->keys, sum;
        for (int64_t j = 0; j < h->keys; ++j) {
            double x = faulty(c, F_SCALE_MISSING) ? row[j] : settle(h->wide, row[j] * h->scale);
            x = hidden(c, h->wide, x);
            if (h->cap > 0 && !faulty(c, F_SOFTCAP_MISSING)) x = settle(h->wide, h->cap * fn_tanh(c, h->wide, settle(h->wide, x / h->cap)));
            if (h->mask) x = settle(h->wide, x + h->mask[((b * h->heads + n) * h->queries + i) * h->keys + j]);
            row[j] = settle(h->wide, x + position_addend(c, h, b, i, j));
        }
        s = weigh(c, h, row, &sum);
        for (int64_t j = 0; s == VN_OK && j < h->keys; ++j) row[j] = hidden(c, h->wide, quotient(c, h->wide, row[j], sum));
    }
    if (s == VN_OK) s = plain_product(c, h->wide, h->queries, h->keys, h->v_size, scores, v, y);
    vn_free(q);
    vn_free(kt);
    vn_free(v);
    vn_free(scores);
    return s;
}

/* present = past, then the fresh keys or values. */
static vn_status_t present(call_t *c, const heads_t *h, int k, const double *x, int64_t size) {
    if (k >= c->n_out) return VN_OK;
    const int64_t dims[4] = {h->batch, h->kv_heads, h->keys, size};
    double *v = room_for(c, product_of(dims, 4));
    if (!v) return VN_ERR_NOMEM;
    memcpy(v, x, (size_t)product_of(dims, 4) * sizeof *v);
    return put_plane(c, k, c->in[k]->dtype, 4, dims, v);
}

static vn_status_t all_heads(call_t *c, heads_t *h) {
    double *y = room_for(c, h->batch * h->heads * h->queries * h->v_size), *out = room_for(c, h->batch * h->heads * h->queries * h->v_size);
    vn_status_t s = y && out ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && i < h->batch * h->heads; ++i)
        s = attend(c, h, i / h->heads, i % h->heads, y + i * h->queries * h->v_size);
    const int64_t flat[3] = {h->batch, h->queries, h->heads * h->v_size}, deep[4] = {h->batch, h->heads, h->queries, h->v_size};
    const bool some = h->v_size > 0 && h->queries > 0 && h->heads > 0;
    for (int64_t i = 0; s == VN_OK && some && i < product_of(deep, 4); ++i) {
        const int64_t e = i % h->v_size, q = i / h->v_size % h->queries, n = i / h->v_size / h->queries % h->heads,
                      b = i / h->v_size / h->queries / h->heads;
        out[h->flat ? ((b * h->queries + q) * h->heads + n) * h->v_size + e : i] = y[i];
    }
    vn_free(y);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, h->flat ? 3 : 4, h->flat ? flat : deep, out);
    vn_free(out);
    return s;
}

static vn_status_t run_attention(call_t *c) {
    for (int k = 0; k < 3; ++k) VN_TRY(need_float(c, k));
    if (c->n_out > 3) return refuse(c, "scores as an output");
    heads_t h = {0};
    VN_TRY(read_form(c, &h));
    h.wide = is_wide(c->in[0]->dtype);
    h.scale = vn_node_attr(c->node, "scale") ? vn_node_float(c->node, "scale", 1) : settle(h.wide, 1 / sqrt((double)h.size));
    h.cap = vn_node_float(c->node, "softcap", 0);
    h.causal = attr_int(c, "is_causal", 0) != 0;
    h.left = vn_node_int(c->node, "left_window_size", -1);
    h.right = vn_node_int(c->node, "right_window_size", -1);
    int64_t *valid = given(c, 6) ? int_plane(c, c->in[6]) : NULL;
    h.valid = valid;
    h.q = laid(c, &h, 0, 0, h.heads, h.queries, h.size);
    h.k = laid(c, &h, 1, 4, h.kv_heads, h.fresh, h.size);
    h.v = laid(c, &h, 2, 5, h.kv_heads, h.fresh, h.v_size);
    vn_status_t s = h.q && h.k && h.v && (valid || !given(c, 6)) ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK) s = read_mask(c, &h);
    if (s == VN_OK) s = all_heads(c, &h);
    if (s == VN_OK) s = present(c, &h, 1, h.k, h.size);
    if (s == VN_OK) s = present(c, &h, 2, h.v, h.v_size);
    vn_free(h.q);
    vn_free(h.k);
    vn_free(h.v);
    vn_free(h.mask);
    vn_free(valid);
    return s;
}

/* ---- RotaryEmbedding ---- */

typedef struct rotation {
    int64_t batch, heads, length, size, rotated;
    bool flat, interleaved, wide;
    const double *cosine, *sine;
    const int64_t *position; /* NULL: caches are per token */
    int64_t cache_rows, offset;
} rotation_t;

static void rotate(const rotation_t *r, const double *x, double *y) {
    const int64_t half = r->rotated / 2;
    for (int64_t i = 0; i < r->batch * r->heads * r->length; ++i) {
        const int64_t b = i / (r->heads * r->length), h = i / r->length % r->heads, t = i % r->length;
        const int64_t base = (r->flat ? (b * r->length + t) * r->heads + h : i) * r->size;
        int64_t row = (r->position ? r->position[b * r->length + t] : b * r->length + t) + r->offset;
        row = row < 0 ? 0 : row >= r->cache_rows ? r->cache_rows - 1 : row;
        for (int64_t k = 0; k < r->size; ++k) y[base + k] = x[base + k];
        for (int64_t k = 0; k < half; ++k) {
            const int64_t i1 = base + (r->interleaved ? 2 * k : k), i2 = base + (r->interleaved ? 2 * k + 1 : half + k);
            const double cs = r->cosine[row * half + k], sn = r->sine[row * half + k];
            y[i1] = settle(r->wide, settle(r->wide, cs * x[i1]) - settle(r->wide, sn * x[i2]));
            y[i2] = settle(r->wide, settle(r->wide, sn * x[i1]) + settle(r->wide, cs * x[i2]));
        }
    }
}

static vn_status_t run_rotary(call_t *c) {
    for (int k = 0; k < 3; ++k) VN_TRY(need_float(c, k));
    const vn_tensor_t *x = c->in[0];
    rotation_t r = {.flat = x->rank == 3, .wide = is_wide(x->dtype)};
    if (x->rank != 3 && x->rank != 4) return refuse(c, "an operand that is not of rank 3 or 4");
    r.heads = r.flat ? vn_node_int(c->node, "num_heads", 0) : x->dims[1];
    if (r.heads < 1 || (r.flat && x->dims[2] % r.heads)) return refuse(c, "this number of heads");
    r.batch = x->dims[0];
    r.length = x->dims[x->rank - 2];
    r.size = r.flat ? x->dims[2] / r.heads : x->dims[3];
    r.rotated = vn_node_int(c->node, "rotary_embedding_dim", 0);
    if (r.rotated == 0) r.rotated = r.size;
    r.interleaved = (vn_node_int(c->node, "interleaved", 0) != 0) != faulty(c, F_INTERLEAVE);
    if (faulty(c, F_POSITION_OFFSET)) r.offset = (int64_t)fault_number(c, 1);
    double *cosine = plane(c, c->in[1]), *sine = plane(c, c->in[2]), *v = plane(c, x), *y = room_for(c, x->count);
    int64_t *position = given(c, 3) ? int_plane(c, c->in[3]) : NULL;
    vn_status_t s = cosine && sine && v && y && (position || !given(c, 3)) ? VN_OK : VN_ERR_NOMEM;
    r.cosine = cosine;
    r.sine = sine;
    r.position = position;
    const int64_t half = r.rotated / 2;
    r.cache_rows = half ? c->in[1]->count / half : 0;
    if (s == VN_OK && (r.rotated > r.size || half < 1 || c->in[2]->count != c->in[1]->count || r.cache_rows < 1 ||
                       (!position && r.cache_rows < r.batch * r.length)))
        s = vn_fail(c->err, VN_ERR_SHAPE, "%s: the caches do not fit", c->node->path);
    if (s == VN_OK) rotate(&r, v, y);
    vn_free(cosine);
    vn_free(sine);
    vn_free(v);
    vn_free(position);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, x->dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"Attention", run_attention, 0}, {"RotaryEmbedding", run_rotary, 0}};
const op_table_t attention_ops = {rows, sizeof rows / sizeof *rows};
