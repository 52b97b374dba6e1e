/* attention_scene.c -- reads an attention node, and edits it to another rule who looks at whom.
 *
 * Any rule is one full mask: what causal alignment, windows, padding lengths and the mask operand say together is written into the operand that is
 * added to the scores (or, where nothing is added, a boolean one), and the node's own rules are switched off. So a variant keeps the operator's own
 * bound (ATTN-1), with one addition a score at most.
 */
#include "judge/attention_scene.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const vn_attention_role_t roles[] = {
    {"", "Attention", 1, 2, 4, 5, 3, -1, 6, "is_causal", "q_num_heads", "kv_num_heads", false},
    {"com.microsoft", "MultiHeadAttention", 1, 2, 6, 7, -1, 5, -1, "unidirectional", "num_heads", NULL, false},
    {"com.microsoft", "GroupQueryAttention", 1, 2, 3, 4, -1, 10, -1, "causal", "num_heads", "kv_num_heads", true},
};

enum { LARGEST = 1 << 26 }; /* pairs in a mask that is written out */

static bool shape_of(vn_variant_t *v, int k, vn_dtype_t *type, int *rank, int64_t *dims) {
    return k >= 0 && vn_variant_shape(v, k, type, rank, dims);
}

static bool read_mask(vn_scene_t *s) {
    const vn_attention_role_t *r = s->role;
    const int k = r->mask >= 0 ? r->mask : r->bias;
    if (k < 0 || k >= s->v->node->n_inputs || !*s->v->node->inputs[k]) return true;
    const vn_tensor_t *t = vn_variant_operand(s->v, k);
    if (!t || t->rank < 1 || t->rank > 4) return false;
    const int64_t full[4] = {s->batch, s->heads, s->queries, s->keys};
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; --d) {
        const int to = d + 4 - t->rank;
        if (to != 3 && t->dims[d] != 1 && t->dims[d] != full[to]) return false;
        s->mask_step[to] = t->dims[d] == 1 ? 0 : step;
        step *= t->dims[d];
    }
    const int64_t last = t->dims[t->rank - 1];
    s->mask = t;
    s->mask_keys = last == 1 ? s->keys : last;
    s->mask_is_bool = t->dtype == VN_BOOL;
    return s->mask_is_bool || vn_dtype_is_float(t->dtype);
}

static vn_status_t read_lengths(vn_scene_t *s, bool *is, vn_error_t *err) {
    const vn_attention_role_t *r = s->role;
    s->offset = vn_alloc((size_t)s->batch + 1, sizeof *s->offset);
    if (!s->offset) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < s->batch; ++b) s->offset[b] = s->past;
    if (strcmp(r->op, "GroupQueryAttention") == 0) { /* lengths stay the node's own: they also place the new keys in the cache */
        const vn_tensor_t *ends = vn_variant_operand(s->v, 5), *total = vn_variant_operand(s->v, 6);
        if (!ends || !total || ends->count != s->batch || total->count != 1) return *is = false, VN_OK;
        const int64_t all = vn_tensor_get_i64(total, 0);
        s->keys = all > s->past ? all : s->past;
        for (int64_t b = 0; b < s->batch; ++b) s->offset[b] = s->past ? vn_tensor_get_i64(ends, b) + 1 - s->queries : 0;
        return VN_OK;
    }
    const vn_tensor_t *t = vn_variant_operand(s->v, r->padded);
    if (r->padded < 0 || r->padded >= s->v->node->n_inputs || !*s->v->node->inputs[r->padded]) return VN_OK;
    if (!t || t->count != s->batch) return *is = false, VN_OK;
    s->valid = vn_alloc((size_t)s->batch + 1, sizeof *s->valid);
    if (!s->valid) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < s->batch; ++b) {
        s->valid[b] = vn_tensor_get_i64(t, b);
        if (!s->past) s->offset[b] = s->valid[b] - s->queries;
    }
    return VN_OK;
}

static bool read_shape(vn_scene_t *s) {
    const vn_attention_role_t *r = s->role;
    const vn_node_t *n = s->v->node;
    vn_dtype_t type;
    int qr, kr, vr, pr;
    int64_t q[VN_MAX_RANK], k[VN_MAX_RANK], v[VN_MAX_RANK], p[VN_MAX_RANK];
    if (!shape_of(s->v, 0, &type, &qr, q) || !shape_of(s->v, r->key, &type, &kr, k) || !shape_of(s->v, r->value, &type, &vr, v))
        return false;
    if (qr != kr || qr != vr || (qr != 3 && qr != 4)) return false;
    s->flat = qr == 3;
    s->batch = q[0];
    s->heads = s->flat || *r->domain ? vn_node_int(n, r->heads, 0) : q[1];
    s->kv_heads = !r->kv_heads ? s->heads : s->flat || *r->domain ? vn_node_int(n, r->kv_heads, 0) : k[1];
    if (s->batch < 1 || s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads) return false;
    const int seq = s->flat ? 1 : 2;
    s->queries = q[seq];
    s->fresh = k[seq];
    s->size = s->flat ? q[2] / s->heads : q[3];
    s->v_size = s->flat ? v[2] / s->kv_heads : v[3];
    if (r->past_key >= 0 && r->past_key < n->n_inputs && *n->inputs[r->past_key]) {
        if (!shape_of(s->v, r->past_key, &type, &pr, p) || pr != 4) return false;
        if (!r->kv_heads && n->n_inputs > 8 && *n->inputs[8]) return false; /* a shared buffer, filled in part */
        s->past = p[2];
    }
    s->keys = s->past + s->fresh;
    return s->queries > 0 && s->keys > 0 && s->size > 0 && s->v_size > 0;
}

vn_status_t vn_scene_open(vn_variant_t *v, vn_scene_t *out, bool *is, vn_error_t *err) {
    *out = (vn_scene_t){.v = v, .left = -1, .right = -1};
    *is = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; ++i)
        if (vn_variant_is(v, roles[i].domain, roles[i].op)) out->role = &roles[i];
    if (!out->role || !read_shape(out)) return VN_OK;
    *is = true;
    VN_TRY(read_lengths(out, is, err));
    const vn_node_t *n = v->node;
    *is = *is && read_mask(out);
    out->causal = vn_node_int(n, out->role->causal, out->role->causal_default) != 0;
    if (out->role->mask >= 0) {
        out->left = vn_node_int(n, "left_window_size", -1);
        out->right = vn_node_int(n, "right_window_size", -1);
    } else if (out->role->kv_heads) {
        const int64_t window = vn_node_int(n, "local_window_size", -1);
        out->left = window > 0 ? window - 1 : -1;
    }
    out->scale = vn_node_float(n, "scale", 0);
    if (out->scale == 0 && !(vn_node_attr(n, "scale") && out->role->mask >= 0)) out->scale = 1 / sqrt((double)out->size);
    out->softcap = vn_node_float(n, "softcap", 0);
    return VN_OK;
}

void vn_scene_free(vn_scene_t *s) {
    vn_free(s->offset);
    vn_free(s->valid);
    s->offset = s->valid = NULL;
}

double vn_scene_mask(const vn_scene_t *s, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!s->mask) return 0;
    if (j >= s->mask_keys) return -INFINITY;
    const double x = vn_tensor_get_f64(s->mask, b * s->mask_step[0] + h * s->mask_step[1] + i * s->mask_step[2] + j * s->mask_step[3]);
    return !s->mask_is_bool ? x : x != 0 ? 0 : -INFINITY;
}

vn_rule_t vn_scene_rule(const vn_scene_t *s) {
    return (vn_rule_t){.scene = s, .causal = s->causal, .padding = true, .masked = true, .left = s->left, .right = s->right};
}

double vn_rule_at(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const vn_scene_t *s = r->scene;
    const int64_t at = i + (r->offset ? r->offset : s->offset)[b] + r->moved;
    if ((r->causal && j > at) || (r->left >= 0 && at - j > r->left) || (r->right >= 0 && j - at > r->right)) return -INFINITY;
    if (r->padding && s->valid && j >= s->valid[b] + r->longer) return -INFINITY;
    return !r->masked ? 0 : r->mask ? r->mask(r, b, h, i, j) : vn_scene_mask(s, b, h, i, j);
}

static bool sees(const vn_rule_t *r, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < r->scene->keys; ++j)
        if (vn_rule_at(r, b, h, i, j) != -INFINITY) return true;
    return false;
}

int64_t vn_rule_empty(const vn_rule_t *r) {
    const vn_scene_t *s = r->scene;
    int64_t n = 0;
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < s->queries; ++i) n += !sees(r, b, h, i);
    return n;
}

/* Queries that see no key get another vector: zeros make every key alike, a NaN makes the row NaN. */
static vn_status_t edit_queries(vn_variant_t *v, const vn_rule_t *r, bool *can, vn_error_t *err) {
    const vn_scene_t *s = r->scene;
    const vn_tensor_t *q = vn_variant_operand(v, 0);
    if (r->empty == VN_EMPTY_ZERO || r->empty == VN_EMPTY_ALL) return VN_OK;
    if (!q || *s->role->domain) return *can = false, VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_copy(q, &t, err));
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < s->queries; ++i) {
                if (sees(r, b, h, i)) continue;
                const int64_t at = (s->flat ? (b * s->queries + i) * s->heads + h : (b * s->heads + h) * s->queries + i) * s->size;
                for (int64_t c = 0; c < s->size; ++c) vn_tensor_set_f64(t, at + c, r->empty == VN_EMPTY_NAN ? NAN : 0);
            }
    return vn_variant_input(v, 0, t, err);
}

vn_status_t vn_rule_edit(vn_variant_t *v, const vn_rule_t *r, bool *can, vn_error_t *err) {
    const vn_scene_t *s = r->scene;
    const vn_attention_role_t *role = s->role;
    int64_t n;
    *can = vn_i64_mul(s->batch * s->heads, s->queries * s->keys, &n) && n <= LARGEST;
    if (!*can) return VN_OK;
    double *plane = vn_alloc((size_t)n, sizeof *plane);
    if (!plane) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld scores", (long long)n);
    bool adds = role->mask < 0;
    int64_t at = 0;
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < s->queries; ++i) {
                double *row = plane + at;
                bool any = false;
                for (int64_t j = 0; j < s->keys; ++j) {
                    row[j] = vn_rule_at(r, b, h, i, j);
                    any |= row[j] != -INFINITY;
                    adds |= row[j] != 0 && row[j] != -INFINITY;
                }
                for (int64_t j = 0; !any && r->empty != VN_EMPTY_ZERO && j < s->keys; ++j) row[j] = 0;
                at += s->keys;
            }
    const int64_t dims[4] = {s->batch, s->heads, s->queries, s->keys};
    vn_tensor_t *t;
    vn_status_t st = vn_tensor_new(adds ? VN_F64 : VN_BOOL, 4, dims, &t, err);
    if (st == VN_OK) {
        if (adds) memcpy(t->data, plane, (size_t)n * sizeof *plane);
        for (int64_t i = 0; !adds && i < n; ++i) ((uint8_t *)t->data)[i] = plane[i] == 0;
        st = edit_queries(v, r, can, err);
        if (st != VN_OK || !*can) vn_tensor_free(t);
        else st = vn_variant_input(v, role->mask >= 0 ? role->mask : role->bias, t, err);
    }
    vn_free(plane);
    if (st != VN_OK || !*can) return st;
    VN_TRY(vn_variant_int(v, role->causal, 0, err));
    if (role->mask >= 0) {
        VN_TRY(vn_variant_drop_attr(v, "left_window_size", err));
        VN_TRY(vn_variant_drop_attr(v, "right_window_size", err));
        return vn_variant_drop_input(v, role->padded, err);
    }
    return vn_variant_drop_attr(v, "local_window_size", err);
}

/* Vector i of head h of sample b in a fresh operand or behind a cache. */
static int64_t vector_at(const vn_scene_t *s, int64_t b, int64_t h, int64_t i, int64_t heads, int64_t length, int64_t size) {
    return (s->flat ? (b * length + i) * heads + h : (b * heads + h) * length + i) * size;
}

enum { SAMPLES = 8, SMALL = 1 << 20 }; /* rows looked at; products below which the whole node is evaluated at once */

/* Component c of key or value j of head g. */
static double component(const vn_scene_t *s, const vn_tensor_t *fresh, const vn_tensor_t *past, int64_t b, int64_t g, int64_t j,
                        int64_t size, int64_t c) {
    if (j < s->past) return vn_tensor_get_f64(past, ((b * s->kv_heads + g) * s->past + j) * size + c);
    return vn_tensor_get_f64(fresh, vector_at(s, b, g, j - s->past, s->kv_heads, s->fresh, size) + c);
}

/* Row (b, h, i) of the result under the rule, in w the weights. */
static void one_row(const vn_rule_t *r, const vn_tensor_t *const t[5], int64_t gk, int64_t gv, int64_t b, int64_t h, int64_t i, double *w,
                    double *out) {
    const vn_scene_t *s = r->scene;
    double top = -INFINITY, sum = 0;
    const bool sees_some = sees(r, b, h, i);
    for (int64_t j = 0; j < s->keys; ++j) {
        const double m = sees_some ? vn_rule_at(r, b, h, i, j) : 0;
        double x = 0;
        for (int64_t c = 0; m != -INFINITY && c < s->size; ++c)
            x += vn_tensor_get_f64(t[0], vector_at(s, b, h, i, s->heads, s->queries, s->size) + c) *
                 component(s, t[1], t[3], b, gk, j, s->size, c);
        x *= s->scale;
        if (!sees_some && r->empty == VN_EMPTY_MEAN) x = 0;
        w[j] = m == -INFINITY ? m : (s->softcap > 0 ? s->softcap * tanh(x / s->softcap) : x) + m;
        top = fmax(top, w[j]);
    }
    for (int64_t j = 0; j < s->keys; ++j) sum += w[j] = exp(w[j] - top);
    for (int64_t c = 0; c < s->v_size; ++c) {
        out[c] = 0;
        for (int64_t j = 0; j < s->keys; ++j)
            if (w[j] > 0) out[c] += w[j] / sum * component(s, t[2], t[4], b, gv, j, s->v_size, c);
        if (!sees_some && r->empty == VN_EMPTY_ZERO) out[c] = 0;
        if (!sees_some && r->empty == VN_EMPTY_NAN) out[c] = NAN;
    }
}

bool vn_scene_promises(const vn_rule_t *r, const int64_t *map, int which) {
    const vn_scene_t *s = r->scene;
    const vn_explain_t *e = s->v->e;
    const vn_attention_role_t *role = s->role;
    const vn_tensor_t *t[5] = {vn_variant_operand(s->v, 0), vn_variant_operand(s->v, role->key), vn_variant_operand(s->v, role->value),
                               s->past ? vn_variant_operand(s->v, role->past_key) : NULL,
                               s->past ? vn_variant_operand(s->v, role->past_value) : NULL};
    int64_t products;
    if (*role->domain || !e->c->q->node || e->c->k != 0 || !e->x || !t[0] || !t[1] || !t[2] || (s->past && (!t[3] || !t[4]))) return true;
    if (vn_i64_mul(s->batch * s->heads * s->queries, s->keys * s->size, &products) && products <= SMALL) return true;
    double *w = vn_alloc((size_t)s->keys, sizeof *w), *y2 = vn_alloc((size_t)s->v_size, sizeof *y2), before = 0, after = 0;
    if (w && y2) {
        const int64_t step = e->n_wrong / SAMPLES + 1;
        int64_t seen = 0;
        for (int64_t n = 0; n < e->n; ++n) {
            if (!e->wrong[n] || seen++ % step) continue;
            const int64_t row = n / s->v_size, per = s->heads * s->queries, b = row / per,
                          h = s->flat ? row % s->heads : row / s->queries % s->heads,
                          i = s->flat ? row / s->heads % s->queries : row % s->queries, g = h / (s->heads / s->kv_heads),
                          base = row * s->v_size;
            one_row(r, t, map && (which & 1) ? map[h] : g, map && (which & 2) ? map[h] : g, b, h, i, w, y2);
            for (int64_t c = 0; c < s->v_size; ++c) {
                const double x = e->x[base + c], y = e->y[base + c];
                before += isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
                after += isfinite(x) && isfinite(y2[c]) ? fabs(x - y2[c]) : isnan(x) && isnan(y2[c]) ? 0 : INFINITY;
            }
        }
    }
    vn_free(w);
    vn_free(y2);
    return after < before / 2 || (isinf(before) && isinf(after)); /* what holds leaves round-off, far less than the fault */
}

vn_status_t vn_rule_ask(vn_variant_t *v, const vn_rule_t *r, const char *cause, bool *held, vn_error_t *err, const char *words, ...) {
    bool can = false;
    if (held) *held = false;
    if (vn_rule_empty(r) == r->scene->batch * r->scene->heads * r->scene->queries) return VN_OK; /* a result of zeros would prove nothing */
    if (!vn_scene_promises(r, NULL, 0)) return VN_OK;
    vn_status_t s = vn_rule_edit(v, r, &can, err);
    if (s != VN_OK || !can) {
        vn_variant_reset(v);
        return s;
    }
    char text[sizeof v->e->words];
    va_list args;
    va_start(args, words);
    vsnprintf(text, sizeof text, words, args);
    va_end(args);
    return vn_variant_ask(v, VN_BUG, cause, held, err, "%s", text);
}

double *vn_scene_scores(const vn_scene_t *s) {
    const vn_tensor_t *q = vn_variant_operand(s->v, 0), *k = vn_variant_operand(s->v, s->role->key),
                      *past = s->past ? vn_variant_operand(s->v, s->role->past_key) : NULL;
    int64_t n;
    if (*s->role->domain || !q || !k || (s->past && !past) || !vn_i64_mul(s->batch * s->heads, s->queries * s->keys, &n) || n > LARGEST)
        return NULL;
    double *out = vn_alloc((size_t)n, sizeof *out), *qs = vn_alloc((size_t)q->count, sizeof *qs),
           *ks = vn_alloc((size_t)k->count, sizeof *ks), *ps = vn_alloc(past ? (size_t)past->count : 1, sizeof *ps);
    if (out && qs && ks && ps) {
        vn_tensor_to_f64(q, qs);
        vn_tensor_to_f64(k, ks);
        if (past) vn_tensor_to_f64(past, ps);
        int64_t at = 0;
        for (int64_t b = 0; b < s->batch; ++b)
            for (int64_t h = 0; h < s->heads; ++h)
                for (int64_t i = 0; i < s->queries; ++i)
                    for (int64_t j = 0; j < s->keys; ++j) {
                        const int64_t g = h / (s->heads / s->kv_heads);
                        const double *x = qs + vector_at(s, b, h, i, s->heads, s->queries, s->size),
                                     *y = j < s->past ? ps + ((b * s->kv_heads + g) * s->past + j) * s->size
                                                      : ks + vector_at(s, b, g, j - s->past, s->kv_heads, s->fresh, s->size);
                        double sum = 0;
                        for (int64_t c = 0; c < s->size; ++c) sum += x[c] * y[c];
                        sum *= s->scale;
                        out[at++] = s->softcap > 0 ? s->softcap * tanh(sum / s->softcap) : sum;
                    }
    } else {
        vn_free(out);
        out = NULL;
    }
    vn_free(qs);
    vn_free(ks);
    vn_free(ps);
    return out;
}

static vn_status_t expand(const vn_scene_t *s, int k, bool cache, int64_t size, const int64_t *map, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(s->v, k);
    const bool flat = s->flat && !cache;
    const int64_t length = cache ? s->past : s->fresh, dims[4] = {s->batch, s->heads, length, size},
                  packed[3] = {s->batch, length, s->heads * size};
    const size_t line = (size_t)vn_dtype_bits(t->dtype) / 8 * (size_t)size;
    vn_tensor_t *flatten, *out = NULL;
    VN_TRY(vn_tensor_contiguous(t, &flatten, err));
    vn_status_t st = flat ? vn_tensor_new_raw(t->dtype, 3, packed, &out, err) : vn_tensor_new_raw(t->dtype, 4, dims, &out, err);
    for (int64_t b = 0; st == VN_OK && b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < length; ++i) {
                const int64_t from = flat ? (b * length + i) * s->kv_heads + map[h] : (b * s->kv_heads + map[h]) * length + i,
                              to = flat ? (b * length + i) * s->heads + h : (b * s->heads + h) * length + i;
                memcpy((char *)out->data + (size_t)to * line, (const char *)flatten->data + (size_t)from * line, line);
            }
    vn_tensor_free(flatten);
    return st == VN_OK ? vn_variant_input(s->v, k, out, err) : st;
}

vn_status_t vn_scene_heads(const vn_scene_t *s, const int64_t *map, int which, bool *can, vn_error_t *err) {
    const vn_attention_role_t *r = s->role;
    const int operand[4] = {r->key, r->value, r->past_key, r->past_value};
    *can = true;
    for (int k = 0; k < 4; ++k) {
        if (k >= 2 && !s->past) continue;
        const vn_tensor_t *t = vn_variant_operand(s->v, operand[k]);
        *can = *can && t && vn_dtype_bits(t->dtype) >= 8 && (k < 2 ? t->rank == (s->flat ? 3 : 4) : t->rank == 4 && t->dims[2] == s->past);
    }
    if (!*can) return VN_OK;
    int64_t *own = vn_alloc((size_t)s->heads, sizeof *own);
    if (!own) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t h = 0; h < s->heads; ++h) own[h] = h / (s->heads / s->kv_heads);
    vn_status_t st = VN_OK;
    for (int k = 0; k < 4 && st == VN_OK; ++k) {
        if (k >= 2 && !s->past) continue;
        st = expand(s, operand[k], k >= 2, k % 2 ? s->v_size : s->size, which & (k % 2 ? 2 : 1) ? map : own, err);
    }
    vn_free(own);
    if (st == VN_OK && r->kv_heads && (s->flat || *r->domain)) st = vn_variant_int(s->v, r->kv_heads, s->heads, err);
    return st;
}
