/* names.h -- the families that explain.c asks, in this order: of equal offers the earlier one stays. */
#ifndef VN_JUDGE_NAMES_H
#define VN_JUDGE_NAMES_H

#include "judge/explain.h"

typedef struct vn_name_family {
    const char *name;
    vn_explain_fn fn;
} vn_name_family_t;
/** Ends with fn NULL. */
extern const vn_name_family_t vn_name_families[];

vn_status_t vn_name_mask(vn_explain_t *e, vn_error_t *err);       /* semantic_mask.c */
vn_status_t vn_name_rotary(vn_explain_t *e, vn_error_t *err);     /* semantic_rotary.c */
vn_status_t vn_name_index(vn_explain_t *e, vn_error_t *err);      /* semantic_index.c */
vn_status_t vn_name_scan(vn_explain_t *e, vn_error_t *err);       /* semantic_scan.c */
vn_status_t vn_name_recurrent(vn_explain_t *e, vn_error_t *err);  /* semantic_recurrent.c */
vn_status_t vn_name_scores(vn_explain_t *e, vn_error_t *err);     /* semantic_scores.c */
vn_status_t vn_name_blocks(vn_explain_t *e, vn_error_t *err);     /* semantic_blocks.c */
vn_status_t vn_name_topk(vn_explain_t *e, vn_error_t *err);       /* semantic_topk.c */
vn_status_t vn_name_attention(vn_explain_t *e, vn_error_t *err);  /* semantic_attention.c */
vn_status_t vn_name_patterns(vn_explain_t *e, vn_error_t *err);   /* pattern.c */
vn_status_t vn_name_guesses(vn_explain_t *e, vn_error_t *err);    /* pattern.c */
vn_status_t vn_name_attributes(vn_explain_t *e, vn_error_t *err); /* semantic_attributes.c */
vn_status_t vn_name_axis(vn_explain_t *e, vn_error_t *err);       /* semantic_axis.c */
vn_status_t vn_name_along(vn_explain_t *e, vn_error_t *err);      /* semantic_along.c */
vn_status_t vn_name_eps(vn_explain_t *e, vn_error_t *err);        /* semantic_eps.c */
vn_status_t vn_name_window(vn_explain_t *e, vn_error_t *err);     /* semantic_window.c */
vn_status_t vn_name_round(vn_explain_t *e, vn_error_t *err);      /* semantic_round.c */
vn_status_t vn_name_resample(vn_explain_t *e, vn_error_t *err);   /* semantic_resample.c */
vn_status_t vn_name_rule(vn_explain_t *e, vn_error_t *err);       /* semantic_rule.c */
vn_status_t vn_name_parameter(vn_explain_t *e, vn_error_t *err);  /* semantic_parameter.c */
vn_status_t vn_name_operator(vn_explain_t *e, vn_error_t *err);   /* semantic_operator.c */
vn_status_t vn_name_bias(vn_explain_t *e, vn_error_t *err);       /* terms_bias.c */
vn_status_t vn_name_borders(vn_explain_t *e, vn_error_t *err);    /* terms_border.c */
vn_status_t vn_name_terms(vn_explain_t *e, vn_error_t *err);      /* terms_sum.c */
vn_status_t vn_name_tails(vn_explain_t *e, vn_error_t *err);      /* terms_region.c */
vn_status_t vn_name_norms(vn_explain_t *e, vn_error_t *err);      /* terms_norm.c */
vn_status_t vn_name_operands(vn_explain_t *e, vn_error_t *err);   /* semantic_operand.c */
vn_status_t vn_name_integers(vn_explain_t *e, vn_error_t *err);   /* semantic_integer.c */
vn_status_t vn_name_codes(vn_explain_t *e, vn_error_t *err);      /* semantic_codes.c */
vn_status_t vn_name_channels(vn_explain_t *e, vn_error_t *err);   /* semantic_channel.c */

#endif
