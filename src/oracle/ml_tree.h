/* ml_tree.h -- decision trees of both encodings as one structure: nodes, leaves with votes, checked once. */
#ifndef VN_ORACLE_ML_TREE_H
#define VN_ORACLE_ML_TREE_H

#include "oracle/ml.h"

typedef enum vn_branch {
    VN_BRANCH_LEQ,
    VN_BRANCH_LT,
    VN_BRANCH_GTE,
    VN_BRANCH_GT,
    VN_BRANCH_EQ,
    VN_BRANCH_NEQ,
    VN_BRANCH_MEMBER,
    VN_BRANCH_LEAF /* only while reading */
} vn_branch_t;

/** Where a branch leads: a node, or ~i for leaf i. */
typedef struct vn_tree_node {
    int64_t feature, next[2]; /* [0] false, [1] true */
    double split;
    vn_branch_t mode;
    bool missing_true;
    int64_t set_at, set_n; /* members of VN_BRANCH_MEMBER */
} vn_tree_node_t;

typedef struct vn_tree_vote {
    int64_t target;
    double weight;
} vn_tree_vote_t;

/**
 * Ownership  vn_forest_free. Invariants: every path from a root ends in a leaf; features are below `features`, targets below `targets`.
 */
typedef struct vn_forest {
    int64_t n_nodes, n_leaves, n_trees, n_votes, targets;
    vn_tree_node_t *nodes;
    int64_t *roots;      /* node or ~leaf */
    int64_t *leaf_first; /* votes of leaf i: leaf_first[i] .. leaf_first[i + 1] */
    vn_tree_vote_t *votes;
    double *members, *base;
    int64_t n_members, n_base;
} vn_forest_t;

/**
 * The forest of a node: TreeEnsemble (leaf_* attributes), or TreeEnsembleClassifier ("class") and TreeEnsembleRegressor ("target").
 * targets: classes, or 0 for attribute n_targets.
 * Errors     SHAPE: lists of unequal length; RANGE: an id, feature, target or branch outside its list, a cycle, a node that stands twice, a
 *            tree without a root or with two, an unknown mode; NOMEM. Call vn_forest_free after an error too.
 */
vn_status_t vn_forest_new(vn_eval_t *e, int64_t features, int64_t targets, vn_forest_t *out);
vn_status_t vn_forest_old(vn_eval_t *e, const char *prefix, int64_t features, int64_t targets, vn_forest_t *out);
void vn_forest_free(vn_forest_t *f);
/** The leaf that a row reaches in tree t. Claim ML-TREE: exact comparisons; a NaN goes the way of nodes_missing_value_tracks_true. */
int64_t vn_forest_leaf(const vn_forest_t *f, int64_t t, const double *x);

#endif
