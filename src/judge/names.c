/* names.c -- the list of families. */
#include "judge/names.h"

const vn_name_family_t vn_name_families[] = {
    {"patterns", vn_name_patterns},
    {"mask", vn_name_mask}, /* before the attributes: sharper ids for the same computation */
    {"attention", vn_name_attention},
    {"blocks", vn_name_blocks},
    {"rotary", vn_name_rotary},
    {"index", vn_name_index},
    {"topk", vn_name_topk},
    {"scan", vn_name_scan},
    {"recurrent", vn_name_recurrent},
    {"scores", vn_name_scores},
    {"attributes", vn_name_attributes},
    {"axis", vn_name_axis},
    {"along", vn_name_along},
    {"eps", vn_name_eps},
    {"window", vn_name_window},
    {"round", vn_name_round},
    {"resample", vn_name_resample},
    {"rule", vn_name_rule},
    {"bias", vn_name_bias},
    {"borders", vn_name_borders},
    {"terms", vn_name_terms},
    {"integers", vn_name_integers},
    {"operands", vn_name_operands},
    {"codes", vn_name_codes},
    {"channels", vn_name_channels},
    {"tails", vn_name_tails},
    {"norms", vn_name_norms},
    {"parameter", vn_name_parameter}, /* fits a number: only where no rule is found */
    {"operator", vn_name_operator},   /* only where nothing else has a name */
    {"guesses", vn_name_guesses},     /* the same, after that */
    {NULL, NULL},
};
