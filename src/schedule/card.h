/* card.h -- what the probes of an arithmetic card share: the product under study, its tree, the rows. */
#ifndef VN_SCHEDULE_CARD_H
#define VN_SCHEDULE_CARD_H

#include "schedule/reveal.h"

/** Probes of one product. three: the first two leaves meet before the third. */
typedef struct vn_card_bench {
    vn_gemm_t *p;
    const vn_schedule_t *s;
    const vn_tree_t *tree;
    vn_card_t *card;
    int32_t three[3];
    bool has_three;
    int bits; /* of the running sum, as P15 found them; 0: not measured */
} vn_card_bench_t;

/** A fresh row; findings and numbers are empty. There is room for every probe once. */
vn_card_row_t *vn_card_row(vn_card_bench_t *b, const char *id, const char *subject);
/** "not measured: ..." */
void vn_card_skip(vn_card_row_t *r, const char *fmt, ...) VN_PRINTF(2, 3);
/** Adds " what=value" to the row's numbers, the value as a hexadecimal float. */
void vn_card_number(vn_card_row_t *r, const char *what, double value);
/** a[k] b[k] at n leaves, 0 elsewhere, `start` as addend where there is one: the element [0,0]. */
vn_status_t vn_card_element(vn_card_bench_t *b, int n, const int32_t *leaf, const double *x, const double *y, double start, double *out,
                            vn_error_t *err);
/** Both operands of f32 as they are, and a running sum of f32 to nearest. */
bool vn_card_plain(const vn_card_bench_t *b);

/* ---- leaves in a certain order (card_leaves.c) ---- */

/** Up to `want` terms under the id (leaf or inner node). Returns how many. */
int vn_card_below(const vn_tree_t *t, int32_t id, int want, int32_t *leaf, vn_status_t *st, vn_error_t *err);
/** A term that is added alone to a sum of at least `want` others: leaf[want] joins leaf[0..want). Terms whose product is fused are preferred. */
vn_status_t vn_card_joined(const vn_tree_t *t, int want, int32_t *leaf, bool *found, vn_error_t *err);
/** `steps` terms that are added one after the other (leaf[heads..)) to a sum of at least `heads` terms (leaf[0..heads)). */
vn_status_t vn_card_run(const vn_tree_t *t, int heads, int steps, int32_t *leaf, bool *found, vn_error_t *err);
/** The same with nodes of more than two children: `heads` terms of one, then its parent's `steps` terms, then one term after both (`after`). */
vn_status_t vn_card_groups(const vn_tree_t *t, int heads, int steps, bool after, int32_t *leaf, bool *found, vn_error_t *err);
/** All terms of the widest node of more than two children, at most `most`. Returns how many. */
int vn_card_group(const vn_tree_t *t, int most, int32_t *leaf);
/**
 * Two partial sums that meet: leaf[0], leaf[1] in one, leaf[2] in the other. between: leaf[0] and leaf[1] are in partial sums of their own, too.
 */
vn_status_t vn_card_slices(const vn_tree_t *t, bool between, int32_t leaf[3], bool *found, vn_error_t *err);

/* ---- probes (card_sums.c) ---- */

vn_status_t vn_card_parts(vn_card_bench_t *b, vn_error_t *err);         /* P3, P4, P5 */
vn_status_t vn_card_normalisation(vn_card_bench_t *b, vn_error_t *err); /* P9 */
vn_status_t vn_card_carries(vn_card_bench_t *b, vn_error_t *err);       /* P10 */
vn_status_t vn_card_epilogue(vn_card_bench_t *b, vn_error_t *err);      /* P17 */
vn_status_t vn_card_partial_sums(vn_card_bench_t *b, vn_error_t *err);  /* P20 */

#endif
