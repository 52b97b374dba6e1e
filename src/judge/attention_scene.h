/* attention_scene.h -- an attention node as the judge's families see it: who looks at whom, and the same node with another mask or other heads. */
#ifndef VN_JUDGE_ATTENTION_SCENE_H
#define VN_JUDGE_ATTENTION_SCENE_H

#include "judge/explain.h"

/** Where an attention operator keeps what; -1 and NULL: it has no such thing. */
typedef struct vn_attention_role {
    const char *domain, *op;
    int key, value, past_key, past_value;
    int mask;   /* operand of ai.onnx's kind: boolean, or added to the scores */
    int bias;   /* operand that is only added to the scores, [batch or 1, heads or 1, queries, keys] */
    int padded; /* operand that says which keys are padding, beside the mask */
    const char *causal, *heads, *kv_heads;
    bool causal_default;
} vn_attention_role_t;

typedef struct vn_scene {
    vn_variant_t *v;
    const vn_attention_role_t *role;
    bool flat; /* 3-D operands: heads inside the last dimension */
    int64_t batch, heads, kv_heads, queries, fresh, past, keys, size, v_size;
    bool causal;
    int64_t left, right; /* window, -1: open */
    int64_t *offset;     /* per sample: query i stands at position i + offset */
    int64_t *valid; /* per sample: keys that are no padding; NULL: the node does not say, or not in a way that a mask could take over */
    const vn_tensor_t *mask;
    int64_t mask_step[4]; /* of the mask, 0 where it broadcasts */
    int64_t mask_keys;    /* keys from here on are forbidden */
    bool mask_is_bool;
    double scale, softcap;
} vn_scene_t;

/** What a query without any key becomes. */
typedef enum vn_empty { VN_EMPTY_ZERO, VN_EMPTY_NAN, VN_EMPTY_MEAN, VN_EMPTY_ALL, VN_EMPTY_KINDS } vn_empty_t;

/** Another rule who looks at whom. Zero-initialised and with `scene` set it forbids nothing. */
typedef struct vn_rule {
    const vn_scene_t *scene;
    bool causal, padding, masked;       /* obey the causal rule, the padding length, the mask operand */
    int64_t left, right, moved, longer; /* window; added to every offset; added to every valid length */
    const int64_t *offset;              /* NULL: the scene's */
    vn_empty_t empty;
    /** Replaces what the mask operand says about a pair: added to its score, -Inf forbids. NULL: vn_scene_mask. */
    double (*mask)(const struct vn_rule *r, int64_t b, int64_t h, int64_t i, int64_t j);
    const void *ctx;
    int64_t a, d; /* for mask() */
} vn_rule_t;

/** Reads the node. False: not an attention node, or its operands do not say enough. Release with vn_scene_free. Errors: NOMEM. */
vn_status_t vn_scene_open(vn_variant_t *v, vn_scene_t *out, bool *is, vn_error_t *err);
void vn_scene_free(vn_scene_t *s);
/** What the mask operand adds to a pair, -Inf where it forbids, 0 without a mask. */
double vn_scene_mask(const vn_scene_t *s, int64_t b, int64_t h, int64_t i, int64_t j);
/** The rule that the node asks for. */
vn_rule_t vn_scene_rule(const vn_scene_t *s);
/** Added to the score of a pair under the rule, -Inf: forbidden. */
double vn_rule_at(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j);
/** Number of queries (of all heads and samples) that see no key under the rule. */
int64_t vn_rule_empty(const vn_rule_t *r);
/** The node is edited so that it follows the rule; *can false (and nothing edited): this operator has no operand for it. Errors: NOMEM, INTERNAL. */
vn_status_t vn_rule_edit(vn_variant_t *v, const vn_rule_t *r, bool *can, vn_error_t *err);
/** Edits the node by the rule and asks; *held as of vn_variant_ask. A rule under which nobody sees anything is not asked. */
vn_status_t vn_rule_ask(vn_variant_t *v, const vn_rule_t *r, const char *cause, bool *held, vn_error_t *err, const char *words, ...)
    VN_PRINTF(6, 7);
/**
 * A cheap look at a few wrong rows before a large node is evaluated: false if the rule (and map: key and value head of each query head, NULL: as due)
 * brings them no nearer, so that the whole result cannot come out. True for small nodes, and where the operands are not known.
 */
bool vn_scene_promises(const vn_rule_t *r, const int64_t *map, int which);
/** Scores before the mask, scaled and capped, [batch, heads, queries, keys] in f64; NULL: no memory, or operands unknown or too large. */
double *vn_scene_scores(const vn_scene_t *s);
/** Query head h reads key head map[h] (which & 1) and value head map[h] (which & 2). Errors: NOMEM, INTERNAL. */
vn_status_t vn_scene_heads(const vn_scene_t *s, const int64_t *map, int which, bool *can, vn_error_t *err);

#endif
