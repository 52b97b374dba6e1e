/* semantic_mask.c -- attention nodes: who looks at whom. Causal alignment, windows, padding lengths and the mask operand, each one changed.
 *
 * A query that sees no key is a row of zeros by the operator's text; where a changed rule leaves such rows, they may also come out as NaN, as the mean
 * of all values (a finite number for minus infinity that swallows the scores) or as attention over all keys (one that does not).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/attention_scene.h"
#include "judge/mask_edges.h"
#include "judge/names.h"

static const char *const empty_words[] = {"", "; queries without keys are NaN", "; queries without keys give the mean of all values",
                                          "; queries without keys see all keys"};

/* Asks the rule, and where it leaves queries without keys also what else may become of these. */
static vn_status_t ask(const vn_scene_t *s, vn_rule_t *r, const char *cause, vn_error_t *err, const char *words) {
    bool held;
    VN_TRY(vn_rule_ask(s->v, r, cause, &held, err, "%s", words));
    const vn_rule_t due = vn_scene_rule(s);
    if (held || vn_rule_empty(r) <= vn_rule_empty(&due)) return VN_OK;
    for (r->empty = VN_EMPTY_NAN; r->empty < VN_EMPTY_KINDS && !held; ++r->empty)
        VN_TRY(vn_rule_ask(s->v, r, cause, &held, err, "%s%s.", words, empty_words[r->empty]));
    r->empty = VN_EMPTY_ZERO;
    return VN_OK;
}

/* ---- causal alignment ---- */

static vn_status_t corners(const vn_scene_t *s, vn_error_t *err) {
    int64_t *offset = vn_alloc((size_t)s->batch, sizeof *offset);
    if (!offset) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_rule_t r = vn_scene_rule(s);
    vn_status_t st = VN_OK;
    static const char *const what[] = {
        "at the top left corner: query i sees keys up to i", "at the bottom right corner of all keys: the last query sees the last key",
        "behind the cache: query 0 sees the cached keys and one more", "at the bottom right corner of the valid keys"};
    r.offset = offset;
    for (int k = 0; k < 4 && st == VN_OK; ++k) {
        bool other = false;
        for (int64_t b = 0; b < s->batch; ++b) {
            offset[b] = k == 0 ? 0 : k == 1 ? s->keys - s->queries : k == 2 ? s->past : (s->valid ? s->valid[b] : s->keys) - s->queries;
            other |= offset[b] != s->offset[b];
        }
        char words[200];
        snprintf(words, sizeof words, "The whole result comes out with the causal mask aligned %s (%lld queries, %lld keys)", what[k],
                 (long long)s->queries, (long long)s->keys);
        if (other) st = ask(s, &r, "causal-corner", err, words);
    }
    vn_free(offset);
    return st;
}

static vn_status_t causal(const vn_scene_t *s, vn_error_t *err) {
    vn_rule_t r = vn_scene_rule(s);
    if (s->causal) {
        VN_TRY(corners(s, err));
        r.moved = 1;
        VN_TRY(ask(s, &r, "causal-off-by-one", err, "The whole result comes out if each query also sees the key after its own position"));
        r.moved = -1;
        VN_TRY(ask(s, &r, "causal-off-by-one", err, "The whole result comes out if no query sees the key at its own position"));
        r.moved = 0;
        r.causal = false;
        VN_TRY(ask(s, &r, "mask-ignored", err, "The whole result comes out without the causal mask"));
        r.causal = true;
        r.masked = r.padding = false;
        if (s->mask)
            VN_TRY(ask(s, &r, "mask-ignored", err, "The whole result comes out with the causal mask alone, the mask operand ignored"));
    }
    return VN_OK;
}

static vn_status_t windows(const vn_scene_t *s, vn_error_t *err) {
    static const int by[] = {1, -1};
    vn_rule_t r = vn_scene_rule(s);
    char words[200];
    for (int side = 0; side < 2; ++side) {
        const int64_t size = side ? s->right : s->left;
        if (size < 0) continue;
        for (size_t k = 0; k < 2; ++k) {
            if (size + by[k] < 0) continue;
            *(side ? &r.right : &r.left) = size + by[k];
            snprintf(words, sizeof words, "The whole result comes out with %lld keys %s each query in its window instead of %lld",
                     (long long)(size + by[k]), side ? "after" : "before", (long long)size);
            VN_TRY(ask(s, &r, "window-off-by-one", err, words));
        }
        *(side ? &r.right : &r.left) = -1;
        snprintf(words, sizeof words, "The whole result comes out without the window of %lld keys %s each query", (long long)size,
                 side ? "after" : "before");
        VN_TRY(ask(s, &r, "mask-ignored", err, words));
        *(side ? &r.right : &r.left) = size;
    }
    return VN_OK;
}

static vn_status_t padding(const vn_scene_t *s, vn_error_t *err) {
    if (!s->valid) return VN_OK;
    vn_rule_t r = vn_scene_rule(s);
    r.padding = false;
    VN_TRY(ask(s, &r, "mask-ignored", err, "The whole result comes out if keys beyond nonpad_kv_seqlen take part"));
    r.padding = true;
    r.longer = 1;
    VN_TRY(ask(s, &r, "padding-leaks", err, "The whole result comes out if one key beyond nonpad_kv_seqlen takes part"));
    r.longer = -1;
    VN_TRY(ask(s, &r, "k-tail-dropped:1", err, "The whole result comes out if the last valid key is left out"));
    int64_t *plain = vn_alloc((size_t)s->batch, sizeof *plain);
    if (!plain) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    r.longer = 0;
    r.padding = false;
    r.offset = plain;
    for (int64_t b = 0; b < s->batch; ++b) plain[b] = s->past;
    const vn_status_t st =
        s->causal ? ask(s, &r, "mask-ignored", err, "The whole result comes out if nonpad_kv_seqlen is ignored, also by the causal mask")
                  : VN_OK;
    vn_free(plain);
    return st;
}

/* ---- the mask operand ---- */

static double no_mask(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    return (void)r, (void)b, (void)h, (void)i, (void)j, 0;
}

static double inverted(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    return vn_scene_mask(r->scene, b, h, i, j) == 0 ? -INFINITY : 0;
}
static double as_number(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) { return vn_scene_mask(r->scene, b, h, i, j) == 0; }
static double nonzero_keeps(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    return vn_scene_mask(r->scene, b, h, i, j) != 0 ? 0 : -INFINITY;
}
static double times(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double m = vn_scene_mask(r->scene, b, h, i, j), f = *(const double *)r->ctx;
    return m == -INFINITY ? m : m * f;
}
static double of_place(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const vn_scene_t *s = r->scene;
    switch (r->a) {
    case 0: return vn_scene_mask(s, b, 0, i, j);
    case 1: return vn_scene_mask(s, 0, h, i, j);
    case 2: return vn_scene_mask(s, 0, 0, i, j);
    case 3: return vn_scene_mask(s, b, (h + 1) % s->heads, i, j);
    case 4: return vn_scene_mask(s, b, h / (s->heads / s->kv_heads), i, j);
    case 5: return vn_scene_mask(s, b, h % s->kv_heads, i, j);
    case 6: return vn_scene_mask(s, (b + 1) % s->batch, h, i, j);
    case 7: return vn_scene_mask(s, b, h, 0, j);
    case 8: return vn_scene_mask(s, b, h, j, i);
    default: return vn_scene_mask(s, b, h, i, s->keys - 1 - j);
    }
}

static bool has_dimension(const vn_scene_t *s, int d) { return s->mask_step[d] != 0; }

static vn_status_t places(const vn_scene_t *s, vn_error_t *err) {
    const bool heads = has_dimension(s, 1), batch = has_dimension(s, 0), rows = has_dimension(s, 2), groups = s->kv_heads > 1;
    const struct {
        bool applies;
        const char *cause, *what;
    } table[] = {
        {heads, "broadcast-axis", "the mask of head 0 used for every head"},
        {batch, "broadcast-axis", "the mask of sample 0 used for every sample"},
        {heads && batch, "broadcast-axis", "the mask of sample 0 and head 0 used for all"},
        {heads, "head-index", "the mask of the next head used for each head"},
        {heads && groups && s->heads > s->kv_heads, "head-index", "the mask taken by key/value head (h / group) instead of query head"},
        {heads && groups && s->heads > s->kv_heads, "head-index", "the mask taken by h mod key/value heads instead of query head"},
        {batch, "broadcast-axis", "the mask of the next sample used for each sample"},
        {rows, "broadcast-axis", "the mask row of query 0 used for every query"},
        {rows && s->queries == s->keys && s->mask_keys == s->keys, "transposed", "the mask transposed: queries and keys exchanged"},
        {s->mask_keys == s->keys, "permuted", "the mask read from the last key to the first"},
    };
    vn_rule_t r = vn_scene_rule(s);
    r.mask = of_place;
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        char words[160];
        r.a = (int64_t)k;
        snprintf(words, sizeof words, "The whole result comes out with %s", table[k].what);
        if (table[k].applies) VN_TRY(ask(s, &r, table[k].cause, err, words));
    }
    return VN_OK;
}

static vn_status_t numbers(const vn_scene_t *s, vn_error_t *err) {
    const struct {
        double factor;
        const char *cause, *what;
    } table[] = {
        {2, "bias-twice", "the mask added twice"},
        {-1, "sign-flipped", "the mask subtracted instead of added"},
        {s->scale, "bias-scale", "the mask multiplied by the scale of the scores: added before the scale"},
        {1 / s->scale, "bias-scale", "the mask divided by the scale of the scores"},
        {1.4426950408889634, "bias-scale", "the mask multiplied by log2(e)"},
        {0.6931471805599453, "bias-scale", "the mask multiplied by ln 2: added in units of base 2"},
    };
    vn_rule_t r = vn_scene_rule(s);
    r.mask = times;
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        char words[160];
        r.ctx = &table[k].factor;
        snprintf(words, sizeof words, "The whole result comes out with %s", table[k].what);
        if (isfinite(table[k].factor) && table[k].factor != 1) VN_TRY(ask(s, &r, table[k].cause, err, words));
    }
    return VN_OK;
}

static double from_plane(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const vn_scene_t *s = r->scene;
    return ((const double *)r->ctx)[((b * s->heads + h) * s->queries + i) * s->keys + j];
}

/* The cap applied behind the mask: a forbidden key keeps the score -cap, and so a weight. */
static vn_status_t cap_behind(const vn_scene_t *s, vn_error_t *err) {
    if (!(s->softcap > 0)) return VN_OK;
    double *score = vn_scene_scores(s);
    if (!score) return VN_OK;
    const vn_rule_t due = vn_scene_rule(s);
    vn_rule_t r = {.scene = s, .masked = true, .left = -1, .right = -1, .mask = from_plane, .ctx = score};
    int64_t at = 0;
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < s->queries; ++i)
                for (int64_t j = 0; j < s->keys; ++j, ++at) {
                    const double capped = score[at], m = vn_rule_at(&due, b, h, i, j), ratio = capped / s->softcap,
                                 raw = fabs(ratio) < 1 ? s->softcap * atanh(ratio) : copysign(INFINITY, ratio);
                    score[at] = m == 0 ? 0 : m == -INFINITY ? -s->softcap - capped : s->softcap * tanh((raw + m) / s->softcap) - capped;
                }
    char words[200];
    snprintf(words, sizeof words,
             "The whole result comes out with the cap of %.6g applied behind the mask: forbidden keys keep the score %.6g", s->softcap,
             -s->softcap);
    const vn_status_t st = ask(s, &r, "mask-finite", err, words);
    vn_free(score);
    return st;
}

/* Rows of queries that the text leaves without keys. */
static vn_status_t large_number(const vn_scene_t *s, vn_error_t *err) {
    vn_rule_t r = vn_scene_rule(s);
    const int64_t rows = vn_rule_empty(&r);
    static const char *const what[] = {NULL, NULL,
                                       "the mean of all values: a large negative number stands for minus infinity and swallows the scores",
                                       "attention over all keys: a large negative number stands for minus infinity"};
    for (r.empty = VN_EMPTY_MEAN; rows && r.empty < VN_EMPTY_KINDS; ++r.empty)
        VN_TRY(vn_rule_ask(s->v, &r, "mask-finite", NULL, err, "%lld queries of all heads see no key; there the result is %s.",
                           (long long)rows, what[r.empty]));
    return VN_OK;
}

/* One diagonal or one column of the mask more or less. */
static vn_status_t edges(const vn_scene_t *s, vn_error_t *err) {
    vn_status_t st = VN_OK;
    for (int k = 0; k < VN_MASK_MOVES && st == VN_OK; ++k) {
        vn_tensor_t *moved;
        const char *cause;
        char words[160];
        VN_TRY(vn_mask_move(s->mask, true, &vn_mask_moves[k], &moved, &cause, err));
        if (!moved) continue;
        vn_scene_t other = *s;
        other.mask = moved;
        vn_rule_t r = vn_scene_rule(&other);
        snprintf(words, sizeof words, "The whole result comes out if %s", vn_mask_moves[k].words);
        st = ask(s, &r, cause, err, words);
        vn_tensor_free(moved);
    }
    return st;
}

static vn_status_t operand(const vn_scene_t *s, vn_error_t *err) {
    if (!s->mask) return VN_OK;
    vn_rule_t r = vn_scene_rule(s);
    r.mask = no_mask;
    VN_TRY(ask(s, &r, "mask-ignored", err, "The whole result comes out without the mask operand"));
    if (s->mask_is_bool) {
        r.mask = inverted;
        VN_TRY(ask(s, &r, "mask-inverted", err, "The whole result comes out if true forbids and false allows"));
        r.mask = as_number;
        VN_TRY(ask(s, &r, "mask-kind", err, "The whole result comes out if the boolean mask is added to the scores as 1 and 0"));
    } else {
        r.mask = nonzero_keeps;
        VN_TRY(ask(s, &r, "mask-kind", err, "The whole result comes out if the additive mask is read as boolean: nonzero allows"));
        r.mask = inverted;
        VN_TRY(ask(s, &r, "mask-kind", err, "The whole result comes out if the additive mask is read as boolean: zero forbids"));
        VN_TRY(numbers(s, err));
    }
    VN_TRY(places(s, err));
    return edges(s, err);
}

static vn_status_t masks(vn_variant_t *v, vn_error_t *err) {
    vn_scene_t s;
    bool is;
    vn_status_t st = vn_scene_open(v, &s, &is, err);
    vn_status_t (*const asks[])(const vn_scene_t *, vn_error_t *) = {causal, windows, padding, operand, large_number, cap_behind};
    is = is && v->e->c->k != 1 && v->e->c->k != 2; /* caches do not look at anybody */
    for (size_t i = 0; is && i < sizeof asks / sizeof *asks && st == VN_OK; ++i) st = asks[i](&s, err);
    vn_scene_free(&s);
    return st;
}

vn_status_t vn_name_mask(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, masks, err); }
