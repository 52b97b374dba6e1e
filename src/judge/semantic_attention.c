/* semantic_attention.c -- attention nodes: scale, score cap, key and value heads, caches, and which scores output 3 shows. Masks: semantic_mask.c. */
#include <math.h>
#include <string.h>

#include "judge/attention_scene.h"
#include "judge/names.h"

static vn_status_t scales(const vn_scene_t *s, vn_error_t *err) {
    vn_variant_t *v = s->v;
    const double root = 1 / sqrt((double)s->size);
    const struct {
        double scale;
        const char *cause, *what;
    } table[] = {
        {1, "scale-missing", "no scale"},
        {s->scale * s->scale, "scale-twice", "the scale applied twice"},
        {sqrt(fabs(s->scale)), "scale-missing", "the scale's root, as when one of two operands alone was scaled by it"},
        {root, "attribute-ignored:scale", "the default scale 1/sqrt(head size)"},
        {1 / sqrt((double)(s->heads * s->size)), "scale-missing", "1/sqrt(hidden size) for a scale, all heads counted"},
        {1 / sqrt((double)s->v_size), "scale-missing", "1/sqrt(size of a value vector) for a scale"},
        {1 / s->scale, "scale-missing", "a division by the scale"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        const float asked = (float)table[i].scale;
        if (!(s->scale > 0) || fabs(table[i].scale - s->scale) <= 0x1p-20 * s->scale || !isfinite(asked)) continue;
        VN_TRY(vn_variant_float(v, "scale", table[i].scale, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, table[i].cause, NULL, err,
                              "Attention with %s gives the whole result (scores times %.6g instead of %.6g).", table[i].what,
                              table[i].scale, s->scale));
    }
    return VN_OK;
}

static vn_status_t caps(const vn_scene_t *s, vn_error_t *err) {
    vn_variant_t *v = s->v;
    if (!(s->softcap > 0)) return VN_OK;
    VN_TRY(vn_variant_float(v, "softcap", 0, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "softcap-missing", NULL, err, "Scores without the cap of %.6g give the whole result.", s->softcap));
    VN_TRY(vn_variant_float(v, "softcap", 1, err));
    VN_TRY(vn_variant_float(v, "scale", s->scale / s->softcap, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "softcap-missing", NULL, err,
                          "tanh(score / %.6g) without the factor %.6g behind it gives the whole result.", s->softcap, s->softcap));
    VN_TRY(vn_variant_float(v, "softcap", 1, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "softcap-missing", NULL, err, "A cap of 1 instead of %.6g gives the whole result.", s->softcap));
    return VN_OK;
}

/* ---- heads ---- */

typedef struct mapping {
    const char *words;
    int64_t (*at)(int64_t h, int64_t heads, int64_t kv);
} mapping_t;

static int64_t by_modulo(int64_t h, int64_t heads, int64_t kv) { return (void)heads, h % kv; }
static int64_t the_first(int64_t h, int64_t heads, int64_t kv) { return (void)h, (void)heads, (void)kv, 0; }
static int64_t the_last(int64_t h, int64_t heads, int64_t kv) { return (void)h, (void)heads, kv - 1; }
static int64_t the_next(int64_t h, int64_t heads, int64_t kv) { return (h / (heads / kv) + 1) % kv; }
static int64_t the_previous(int64_t h, int64_t heads, int64_t kv) { return (h / (heads / kv) + kv - 1) % kv; }
static int64_t clamped(int64_t h, int64_t heads, int64_t kv) { return (void)heads, h < kv ? h : kv - 1; }
static int64_t backwards(int64_t h, int64_t heads, int64_t kv) { return kv - 1 - h / (heads / kv); }
static int64_t paired(int64_t h, int64_t heads, int64_t kv) {
    const int64_t g = h / (heads / kv);
    return (g ^ 1) < kv ? g ^ 1 : g;
}

static const mapping_t maps[] = {
    {"query head h reads key/value head h mod heads instead of h / group", by_modulo},
    {"every query head reads key/value head 0", the_first},
    {"every query head reads the last key/value head", the_last},
    {"every query head reads the key/value head after its own", the_next},
    {"every query head reads the key/value head before its own", the_previous},
    {"query head h reads key/value head h, or the last, instead of h / group", clamped},
    {"the key/value heads are read in reverse order", backwards},
    {"neighbouring key/value heads are exchanged", paired},
};
static const char *const which_words[] = {"", "keys only", "values only", "keys and values"};

static vn_status_t one_map(const vn_scene_t *s, const mapping_t *m, const int64_t *map, int which, vn_error_t *err) {
    bool can;
    const vn_rule_t due = vn_scene_rule(s);
    if (!vn_scene_promises(&due, map, which)) return VN_OK;
    VN_TRY(vn_scene_heads(s, map, which, &can, err));
    if (!can) {
        vn_variant_reset(s->v);
        return VN_OK;
    }
    return vn_variant_ask(s->v, VN_BUG, "head-index", NULL, err, "The whole result comes out if %s (%lld heads, groups of %lld; %s).",
                          m->words, (long long)s->kv_heads, (long long)(s->heads / s->kv_heads), which_words[which]);
}

static vn_status_t heads(const vn_scene_t *s, vn_error_t *err) {
    if (s->kv_heads < 2 || s->v->e->c->k == 1 || s->v->e->c->k == 2) return VN_OK;
    int64_t *map = vn_alloc((size_t)s->heads * 2, sizeof *map);
    if (!map) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_status_t st = VN_OK;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; ++i) {
        bool other = false;
        for (int64_t h = 0; h < s->heads; ++h) {
            map[h] = maps[i].at(h, s->heads, s->kv_heads);
            other |= map[h] != h / (s->heads / s->kv_heads);
        }
        for (int which = 3; other && which > 0 && st == VN_OK; --which) st = one_map(s, &maps[i], map, which, err);
    }
    vn_free(map);
    return st;
}

/* ---- samples: keys or values of another sample of the batch ---- */

static vn_status_t other_sample(const vn_scene_t *s, int which, bool first, vn_error_t *err) {
    const int operand[4] = {s->role->key, s->role->value, s->role->past_key, s->role->past_value};
    for (int k = 0; k < 4; ++k) {
        if (!(which & (k % 2 ? 2 : 1)) || (k >= 2 && !s->past)) continue;
        const vn_tensor_t *t = vn_variant_operand(s->v, operand[k]);
        vn_tensor_t *copy;
        if (!t || t->dims[0] != s->batch || vn_dtype_bits(t->dtype) < 8) {
            vn_variant_reset(s->v);
            return VN_OK;
        }
        VN_TRY(vn_tensor_copy(t, &copy, err));
        const size_t part = (size_t)(t->count / s->batch) * (size_t)vn_dtype_bits(t->dtype) / 8;
        char *data = copy->data;
        if (first) {
            for (int64_t b = 1; b < s->batch; ++b) memcpy(data + (size_t)b * part, data, part);
        } else {
            vn_tensor_t *flat;
            const vn_status_t st = vn_tensor_contiguous(t, &flat, err);
            if (st != VN_OK) {
                vn_tensor_free(copy);
                return st;
            }
            for (int64_t b = 0; b < s->batch; ++b)
                memcpy(data + (size_t)b * part, (const char *)flat->data + (size_t)((b + 1) % s->batch) * part, part);
            vn_tensor_free(flat);
        }
        VN_TRY(vn_variant_input(s->v, operand[k], copy, err));
    }
    return vn_variant_ask(s->v, VN_BUG, "broadcast-axis", NULL, err, "%s of %s sample for every sample of the batch give the whole result.",
                          which == 3   ? "Keys and values"
                          : which == 1 ? "Keys"
                                       : "Values",
                          first ? "the first" : "the next");
}

static vn_status_t samples(const vn_scene_t *s, vn_error_t *err) {
    for (int which = 3; s->batch > 1 && which > 0; --which) {
        VN_TRY(other_sample(s, which, true, err));
        if (s->batch > 2) VN_TRY(other_sample(s, which, false, err));
    }
    return VN_OK;
}

/* ---- caches ---- */

/* Zeros in place of the cache, or the cache behind the new keys instead of before them. */
static vn_status_t cache_zero(const vn_scene_t *s, vn_error_t *err) {
    const int operand[2] = {s->role->past_key, s->role->past_value};
    for (int k = 0; k < 2; ++k) {
        const vn_tensor_t *t = vn_variant_operand(s->v, operand[k]);
        vn_tensor_t *zero;
        if (!t) {
            vn_variant_reset(s->v);
            return VN_OK;
        }
        VN_TRY(vn_tensor_new(t->dtype, t->rank, t->dims, &zero, err));
        VN_TRY(vn_variant_input(s->v, operand[k], zero, err));
    }
    return vn_variant_ask(s->v, VN_BUG, "state-ignored", NULL, err,
                          "Zeros in place of the %lld cached keys and values give the whole result: the cache was not read.",
                          (long long)s->past);
}

static vn_status_t cache_behind(const vn_scene_t *s, vn_error_t *err) {
    const int past[2] = {s->role->past_key, s->role->past_value}, fresh[2] = {s->role->key, s->role->value};
    const int at = s->v->e->c->k;
    if (s->flat || *s->role->domain) return VN_OK;
    for (int k = 0; k < 2; ++k) {
        const vn_tensor_t *old = vn_variant_operand(s->v, past[k]), *new = vn_variant_operand(s->v, fresh[k]);
        if (!old || !new) {
            vn_variant_reset(s->v);
            return VN_OK;
        }
        vn_tensor_t *a = vn_tensor_retain(old), *b = vn_tensor_retain(new);
        vn_status_t st = vn_variant_input(s->v, past[k], b, err);
        if (st != VN_OK) {
            vn_tensor_free(a);
            return st;
        }
        VN_TRY(vn_variant_input(s->v, fresh[k], a, err));
    }
    return vn_variant_ask(s->v, VN_BUG, "permuted", NULL, err, "%s comes out if the %lld cached keys stand behind the new ones.",
                          at == 1 || at == 2 ? "The whole output" : "The whole result", (long long)s->past);
}

/* The cache left out: as many keys less, and a mask without their columns. */
static vn_status_t cache_ignored(const vn_scene_t *s, vn_error_t *err) {
    vn_variant_t *v = s->v;
    if (*s->role->domain) return VN_OK;
    if (s->mask) {
        const int last = s->mask->rank - 1;
        int64_t start[VN_MAX_RANK] = {0}, step[VN_MAX_RANK], length[VN_MAX_RANK];
        for (int d = 0; d < s->mask->rank; ++d) length[d] = s->mask->dims[d], step[d] = 1;
        vn_tensor_t *part;
        if (length[last] != s->keys) return VN_OK;
        start[last] = s->past;
        length[last] = s->fresh;
        VN_TRY(vn_tensor_slice(s->mask, start, length, step, &part, err));
        vn_tensor_t *flat;
        const vn_status_t st = vn_tensor_contiguous(part, &flat, err);
        vn_tensor_free(part);
        VN_TRY(st);
        VN_TRY(vn_variant_input(v, s->role->mask, flat, err));
    }
    VN_TRY(vn_variant_drop_input(v, s->role->past_key, err));
    VN_TRY(vn_variant_drop_input(v, s->role->past_value, err));
    return vn_variant_ask(v, VN_BUG, "state-ignored", NULL, err,
                          "Attention over the new keys alone, without the %lld cached ones, gives the whole result.", (long long)s->past);
}

static vn_status_t caches(const vn_scene_t *s, vn_error_t *err) {
    if (!s->past) return VN_OK;
    VN_TRY(cache_zero(s, err));
    VN_TRY(cache_ignored(s, err));
    return cache_behind(s, err);
}

static vn_status_t modes(const vn_scene_t *s, vn_error_t *err) {
    static const char *const what[] = {"raw scores", "scores behind the cap", "scores with the mask", "weights behind the softmax"};
    const int64_t asked = vn_node_int(s->v->node, "qk_matmul_output_mode", 0);
    if (s->role->mask < 0 || s->v->e->c->k != 3) return VN_OK;
    for (int64_t mode = 0; mode < 4; ++mode) {
        if (mode == asked) continue;
        VN_TRY(vn_variant_int(s->v, "qk_matmul_output_mode", mode, err));
        VN_TRY(vn_variant_ask(s->v, VN_BUG, "attribute-ignored:qk_matmul_output_mode", NULL, err,
                              "The output holds %s (qk_matmul_output_mode %lld); mode %lld is asked.", what[mode], (long long)mode,
                              (long long)asked));
    }
    return VN_OK;
}

static vn_status_t attention(vn_variant_t *v, vn_error_t *err) {
    vn_scene_t s;
    bool is;
    vn_status_t st = vn_scene_open(v, &s, &is, err);
    vn_status_t (*const ask[])(const vn_scene_t *, vn_error_t *) = {scales, caps, caches, modes, samples, heads};
    for (size_t i = 0; is && i < sizeof ask / sizeof *ask && st == VN_OK; ++i) st = ask[i](&s, err);
    vn_scene_free(&s);
    return st;
}

vn_status_t vn_name_attention(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, attention, err); }
