/* ml_tree.c -- reads and checks decision trees, and walks them.
 *
 * Node lists come from files: every index is checked once, and a depth-first search shows that every path ends in a leaf, so that a walk needs no
 * checks and cannot run in a circle.
 */
#include "oracle/ml_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vn_forest_free(vn_forest_t *f) {
    vn_free(f->nodes);
    vn_free(f->roots);
    vn_free(f->leaf_first);
    vn_free(f->votes);
    vn_free(f->members);
    vn_free(f->base);
    *f = (vn_forest_t){0};
}

/* ---- walking ---- */

static bool member(const vn_forest_t *f, const vn_tree_node_t *n, double x) {
    for (int64_t i = 0; i < n->set_n; ++i)
        if (f->members[n->set_at + i] == x) return true;
    return false;
}

static bool decide(const vn_forest_t *f, const vn_tree_node_t *n, double x) {
    if (isnan(x)) return n->missing_true;
    switch (n->mode) {
    case VN_BRANCH_LEQ: return x <= n->split;
    case VN_BRANCH_LT: return x < n->split;
    case VN_BRANCH_GTE: return x >= n->split;
    case VN_BRANCH_GT: return x > n->split;
    case VN_BRANCH_EQ: return x == n->split;
    case VN_BRANCH_NEQ: return x != n->split;
    case VN_BRANCH_MEMBER: return member(f, n, x);
    case VN_BRANCH_LEAF: break;
    }
    return false;
}

int64_t vn_forest_leaf(const vn_forest_t *f, int64_t t, const double *x) {
    int64_t at = f->roots[t];
    while (at >= 0) at = f->nodes[at].next[decide(f, &f->nodes[at], x[f->nodes[at].feature])];
    return ~at;
}

/* ---- checks ---- */

enum { FRESH, OPEN, DONE };

/* No path from `root` meets a node that it has met before. stack: n_nodes entries; state: one a node, kept between calls. */
static bool acyclic(const vn_forest_t *f, int64_t root, uint8_t *state, int64_t *stack, uint8_t *turn) {
    int64_t depth = 0;
    if (state[root] == DONE) return true;
    stack[depth++] = root;
    state[root] = OPEN;
    turn[root] = 0;
    while (depth) {
        const int64_t at = stack[depth - 1];
        if (turn[at] == 2) {
            state[at] = DONE;
            --depth;
            continue;
        }
        const int64_t next = f->nodes[at].next[turn[at]++];
        if (next < 0 || state[next] == DONE) continue;
        if (state[next] == OPEN) return false;
        state[next] = OPEN;
        turn[next] = 0;
        stack[depth++] = next;
    }
    return true;
}

static vn_status_t check(vn_eval_t *e, const vn_forest_t *f, int64_t features) {
    for (int64_t i = 0; i < f->n_nodes; ++i) {
        const vn_tree_node_t *n = &f->nodes[i];
        if (n->mode != VN_BRANCH_LEAF && (n->feature < 0 || n->feature >= features))
            return vn_eval_fail(e, VN_ERR_RANGE, "nodes_featureids[%lld] is %lld, the input has %lld features", (long long)i,
                                (long long)n->feature, (long long)features);
    }
    for (int64_t i = 0; i < f->n_votes; ++i)
        if (f->votes[i].target < 0 || f->votes[i].target >= f->targets)
            return vn_eval_fail(e, VN_ERR_RANGE, "a leaf votes for target %lld of %lld", (long long)f->votes[i].target,
                                (long long)f->targets);
    const size_t n = (size_t)(f->n_nodes ? f->n_nodes : 1);
    uint8_t *state = vn_alloc(n, 1), *turn = vn_alloc(n, 1);
    int64_t *stack = vn_alloc(n, sizeof *stack);
    vn_status_t s = state && turn && stack ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld nodes", (long long)f->n_nodes);
    for (int64_t i = 0; i < f->n_nodes && s == VN_OK; ++i) /* also those that no root reaches */
        if (!acyclic(f, i, state, stack, turn)) s = vn_eval_fail(e, VN_ERR_RANGE, "a path from node %lld runs in a cycle", (long long)i);
    vn_free(state);
    vn_free(turn);
    vn_free(stack);
    return s;
}

static vn_status_t same_length(vn_eval_t *e, const char *name, int64_t n, int64_t due) {
    if (n == due) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld entries, %lld are due", name, (long long)n, (long long)due);
}

/* Integers `name`, exactly n of them. */
static vn_status_t ints_of(vn_eval_t *e, const char *name, int64_t n, const int64_t **out) {
    int64_t count;
    *out = vn_ml_ints(e, name, &count);
    return same_length(e, name, count, n);
}

static vn_status_t targets_of(vn_eval_t *e, int64_t given, vn_forest_t *f) {
    f->targets = given ? given : vn_node_int(e->node, "n_targets", 0);
    if (f->targets >= 1) return VN_OK;
    return vn_eval_fail(e, VN_ERR_RANGE, "n_targets is %lld", (long long)f->targets);
}

static vn_status_t room_for(vn_eval_t *e, vn_forest_t *f, int64_t nodes, int64_t leaves, int64_t votes, int64_t trees) {
    f->n_nodes = nodes;
    f->n_leaves = leaves;
    f->n_votes = votes;
    f->n_trees = trees;
    f->nodes = vn_alloc((size_t)(nodes + 1), sizeof *f->nodes);
    f->votes = vn_alloc((size_t)(votes + 1), sizeof *f->votes);
    f->roots = vn_alloc((size_t)(trees + 1), sizeof *f->roots);
    f->leaf_first = vn_alloc((size_t)(leaves + 2), sizeof *f->leaf_first);
    if (f->nodes && f->votes && f->roots && f->leaf_first) return VN_OK;
    return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld nodes", (long long)nodes);
}

/* ---- TreeEnsemble: interior nodes and leaves in lists of their own ---- */

static vn_status_t branch_to(vn_eval_t *e, const vn_forest_t *f, int64_t leaf, int64_t id, int64_t *out) {
    const int64_t n = leaf ? f->n_leaves : f->n_nodes;
    if (id < 0 || id >= n)
        return vn_eval_fail(e, VN_ERR_RANGE, "a branch leads to %s %lld of %lld", leaf ? "leaf" : "node", (long long)id, (long long)n);
    *out = leaf ? ~id : id;
    return VN_OK;
}

/* Sets of the MEMBER nodes, in the order of the nodes, each ended by a NaN. */
static vn_status_t read_members(vn_eval_t *e, vn_forest_t *f) {
    int64_t at = 0;
    VN_TRY(vn_ml_numbers(e, "", "membership_values", &f->members, &f->n_members));
    for (int64_t i = 0; i < f->n_nodes; ++i) {
        if (f->nodes[i].mode != VN_BRANCH_MEMBER) continue;
        f->nodes[i].set_at = at;
        while (at < f->n_members && !isnan(f->members[at])) ++at;
        f->nodes[i].set_n = at - f->nodes[i].set_at;
        if (at == f->n_members && f->nodes[i].set_n == 0)
            return vn_eval_fail(e, VN_ERR_SHAPE, "membership_values has no set for node %lld", (long long)i);
        if (at < f->n_members) ++at; /* the last set may stand without its NaN */
    }
    if (at != f->n_members) return vn_eval_fail(e, VN_ERR_SHAPE, "membership_values has more sets than nodes of mode MEMBER");
    return VN_OK;
}

static vn_status_t read_new(vn_eval_t *e, vn_forest_t *f, const double *splits, const double *modes, const double *weights) {
    static const char *const names[] = {"nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs",
                                        "nodes_falseleafs"};
    enum { FEATURE, TRUE_ID, FALSE_ID, TRUE_LEAF, FALSE_LEAF, LISTS };
    const int64_t *list[LISTS], *targets, *roots, *missing;
    int64_t n_missing;
    for (int k = 0; k < LISTS; ++k) VN_TRY(ints_of(e, names[k], f->n_nodes, &list[k]));
    VN_TRY(ints_of(e, "leaf_targetids", f->n_leaves, &targets));
    VN_TRY(ints_of(e, "tree_roots", f->n_trees, &roots));
    missing = vn_ml_ints(e, "nodes_missing_value_tracks_true", &n_missing);
    if (missing) VN_TRY(same_length(e, "nodes_missing_value_tracks_true", n_missing, f->n_nodes));
    for (int64_t i = 0; i < f->n_nodes; ++i) {
        vn_tree_node_t *n = &f->nodes[i];
        if (!(modes[i] >= VN_BRANCH_LEQ && modes[i] <= VN_BRANCH_MEMBER))
            return vn_eval_fail(e, VN_ERR_RANGE, "nodes_modes[%lld] is %g", (long long)i, modes[i]);
        n->mode = (vn_branch_t)(int)modes[i];
        n->feature = list[FEATURE][i];
        n->split = splits[i];
        n->missing_true = missing && missing[i] != 0;
        VN_TRY(branch_to(e, f, list[TRUE_LEAF][i], list[TRUE_ID][i], &n->next[1]));
        VN_TRY(branch_to(e, f, list[FALSE_LEAF][i], list[FALSE_ID][i], &n->next[0]));
    }
    for (int64_t i = 0; i < f->n_leaves; ++i) {
        f->votes[i] = (vn_tree_vote_t){.target = targets[i], .weight = weights[i]};
        f->leaf_first[i + 1] = i + 1;
    }
    for (int64_t t = 0; t < f->n_trees; ++t) VN_TRY(branch_to(e, f, 0, roots[t], &f->roots[t]));
    return read_members(e, f);
}

vn_status_t vn_forest_new(vn_eval_t *e, int64_t features, int64_t targets, vn_forest_t *f) {
    double *splits = NULL, *modes = NULL, *weights = NULL;
    int64_t nodes, n_modes = 0, leaves = 0, trees = 0;
    *f = (vn_forest_t){0};
    vn_status_t s = targets_of(e, targets, f);
    if (s == VN_OK) s = vn_ml_numbers(e, "", "nodes_splits", &splits, &nodes);
    if (s == VN_OK) s = vn_ml_numbers(e, "", "nodes_modes", &modes, &n_modes);
    if (s == VN_OK) s = vn_ml_numbers(e, "", "leaf_weights", &weights, &leaves);
    if (s == VN_OK) s = same_length(e, "nodes_modes", n_modes, nodes);
    vn_ml_ints(e, "tree_roots", &trees);
    if (s == VN_OK) s = room_for(e, f, nodes, leaves, leaves, trees);
    if (s == VN_OK) s = read_new(e, f, splits, modes, weights);
    vn_free(splits);
    vn_free(modes);
    vn_free(weights);
    return s == VN_OK ? check(e, f, features) : s;
}

/* ---- TreeEnsembleClassifier, TreeEnsembleRegressor: nodes by (tree, id), leaves among them ---- */

typedef struct place {
    int64_t tree, id, at;
} place_t;

static int by_id(const void *a, const void *b) {
    const place_t *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int64_t find_place(const place_t *sorted, int64_t n, int64_t tree, int64_t id) {
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (sorted[mid].tree < tree || (sorted[mid].tree == tree && sorted[mid].id < id)) lo = mid + 1;
        else hi = mid;
    }
    return lo < n && sorted[lo].tree == tree && sorted[lo].id == id ? sorted[lo].at : -1;
}

/* Everything that the lists of one node give. */
typedef struct lists {
    const int64_t *tree, *id, *feature, *on_true, *on_false, *missing, *vote_tree, *vote_id, *vote_target;
    const vn_string_t *mode;
    double *split, *weight;
    place_t *sorted;
    int64_t *leaf_of; /* place among the leaves, -1: a branch */
    uint8_t *has_parent;
} lists_t;

static vn_status_t read_mode(vn_eval_t *e, const vn_string_t *s, int64_t i, vn_branch_t *out) {
    static const char *const names[] = {
        [VN_BRANCH_LEQ] = "BRANCH_LEQ", [VN_BRANCH_LT] = "BRANCH_LT",   [VN_BRANCH_GTE] = "BRANCH_GTE", [VN_BRANCH_GT] = "BRANCH_GT",
        [VN_BRANCH_EQ] = "BRANCH_EQ",   [VN_BRANCH_NEQ] = "BRANCH_NEQ", [VN_BRANCH_LEAF] = "LEAF"};
    for (int k = 0; k <= VN_BRANCH_LEAF; ++k)
        if (names[k] && strcmp(s->text, names[k]) == 0) {
            *out = (vn_branch_t)k;
            return VN_OK;
        }
    return vn_eval_fail(e, VN_ERR_RANGE, "nodes_modes[%lld] is '%.40s'", (long long)i, s->text);
}

static vn_status_t link_branch(vn_eval_t *e, const vn_forest_t *f, lists_t *l, int64_t i, const char *name, int64_t id, int64_t *out) {
    const int64_t to = find_place(l->sorted, f->n_nodes, l->tree[i], id);
    if (to < 0)
        return vn_eval_fail(e, VN_ERR_RANGE, "%s[%lld] is %lld, which tree %lld does not have", name, (long long)i, (long long)id,
                            (long long)l->tree[i]);
    l->has_parent[to] = 1;
    *out = l->leaf_of[to] >= 0 ? ~l->leaf_of[to] : to;
    return VN_OK;
}

static vn_status_t read_nodes(vn_eval_t *e, vn_forest_t *f, lists_t *l) {
    f->n_leaves = 0;
    for (int64_t i = 0; i < f->n_nodes; ++i) {
        vn_tree_node_t *n = &f->nodes[i];
        VN_TRY(read_mode(e, &l->mode[i], i, &n->mode));
        n->feature = l->feature ? l->feature[i] : 0;
        n->split = l->split ? l->split[i] : 0;
        n->missing_true = l->missing && l->missing[i] != 0;
        l->leaf_of[i] = n->mode == VN_BRANCH_LEAF ? f->n_leaves++ : -1;
        l->sorted[i] = (place_t){.tree = l->tree[i], .id = l->id[i], .at = i};
    }
    qsort(l->sorted, (size_t)f->n_nodes, sizeof *l->sorted, by_id);
    for (int64_t i = 1; i < f->n_nodes; ++i)
        if (l->sorted[i].tree == l->sorted[i - 1].tree && l->sorted[i].id == l->sorted[i - 1].id)
            return vn_eval_fail(e, VN_ERR_RANGE, "node %lld of tree %lld stands twice", (long long)l->sorted[i].id,
                                (long long)l->sorted[i].tree);
    for (int64_t i = 0; i < f->n_nodes; ++i) {
        vn_tree_node_t *n = &f->nodes[i];
        n->next[0] = n->next[1] = ~l->leaf_of[i];
        if (n->mode == VN_BRANCH_LEAF) continue;
        VN_TRY(link_branch(e, f, l, i, "nodes_truenodeids", l->on_true[i], &n->next[1]));
        VN_TRY(link_branch(e, f, l, i, "nodes_falsenodeids", l->on_false[i], &n->next[0]));
    }
    return VN_OK;
}

/* The node of each tree to which no branch leads. */
static vn_status_t read_roots(vn_eval_t *e, vn_forest_t *f, const lists_t *l) {
    f->n_trees = 0;
    for (int64_t i = 0; i < f->n_nodes;) {
        const int64_t tree = l->sorted[i].tree;
        int64_t root = -1;
        for (; i < f->n_nodes && l->sorted[i].tree == tree; ++i) {
            const int64_t at = l->sorted[i].at;
            if (l->has_parent[at]) continue;
            if (root >= 0) return vn_eval_fail(e, VN_ERR_RANGE, "tree %lld has two nodes to which no branch leads", (long long)tree);
            root = at;
        }
        if (root < 0) return vn_eval_fail(e, VN_ERR_RANGE, "tree %lld has a cycle: a branch leads to every node", (long long)tree);
        f->roots[f->n_trees++] = l->leaf_of[root] >= 0 ? ~l->leaf_of[root] : root;
    }
    return VN_OK;
}

/* Votes in order of their leaves; leaf_first counts, then becomes where each leaf begins. */
static vn_status_t read_votes(vn_eval_t *e, vn_forest_t *f, const lists_t *l, const char *prefix) {
    int64_t *next = NULL;
    for (int64_t i = 0; i < f->n_votes; ++i) {
        const int64_t at = find_place(l->sorted, f->n_nodes, l->vote_tree[i], l->vote_id[i]);
        if (at < 0 || l->leaf_of[at] < 0)
            return vn_eval_fail(e, VN_ERR_RANGE, "%s_nodeids[%lld] is %lld, no leaf of tree %lld", prefix, (long long)i,
                                (long long)l->vote_id[i], (long long)l->vote_tree[i]);
        ++f->leaf_first[l->leaf_of[at] + 1];
    }
    for (int64_t i = 0; i < f->n_leaves; ++i) f->leaf_first[i + 1] += f->leaf_first[i];
    next = vn_alloc((size_t)(f->n_leaves + 1), sizeof *next);
    if (!next) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld leaves", (long long)f->n_leaves);
    memcpy(next, f->leaf_first, (size_t)f->n_leaves * sizeof *next);
    for (int64_t i = 0; i < f->n_votes; ++i) {
        const int64_t leaf = l->leaf_of[find_place(l->sorted, f->n_nodes, l->vote_tree[i], l->vote_id[i])];
        f->votes[next[leaf]++] = (vn_tree_vote_t){.target = l->vote_target[i], .weight = l->weight[i]};
    }
    vn_free(next);
    return VN_OK;
}

static vn_status_t read_lists(vn_eval_t *e, const char *prefix, vn_forest_t *f, lists_t *l) {
    char name[4][40], as_tensor[40];
    int64_t n, n_modes, n_split, n_weight, n_missing, votes;
    l->tree = vn_ml_ints(e, "nodes_treeids", &n);
    l->mode = vn_ml_strings(e, "nodes_modes", &n_modes);
    VN_TRY(same_length(e, "nodes_modes", n_modes, n));
    VN_TRY(ints_of(e, "nodes_nodeids", n, &l->id));
    VN_TRY(ints_of(e, "nodes_featureids", n, &l->feature));
    VN_TRY(ints_of(e, "nodes_truenodeids", n, &l->on_true));
    VN_TRY(ints_of(e, "nodes_falsenodeids", n, &l->on_false));
    l->missing = vn_ml_ints(e, "nodes_missing_value_tracks_true", &n_missing);
    if (l->missing) VN_TRY(same_length(e, "nodes_missing_value_tracks_true", n_missing, n));
    VN_TRY(vn_ml_numbers(e, "nodes_values", "nodes_values_as_tensor", &l->split, &n_split));
    VN_TRY(same_length(e, "nodes_values", n_split, n));
    static const char *const parts[] = {"treeids", "nodeids", "ids", "weights"};
    for (int k = 0; k < 4; ++k) snprintf(name[k], sizeof name[k], "%s_%s", prefix, parts[k]);
    snprintf(as_tensor, sizeof as_tensor, "%s_weights_as_tensor", prefix);
    l->vote_tree = vn_ml_ints(e, name[0], &votes);
    VN_TRY(ints_of(e, name[1], votes, &l->vote_id));
    VN_TRY(ints_of(e, name[2], votes, &l->vote_target));
    VN_TRY(vn_ml_numbers(e, name[3], as_tensor, &l->weight, &n_weight));
    VN_TRY(same_length(e, name[3], n_weight, votes));
    VN_TRY(room_for(e, f, n, n, votes, n));
    const size_t room = (size_t)(n + 1);
    l->sorted = vn_alloc(room, sizeof *l->sorted);
    l->leaf_of = vn_alloc(room, sizeof *l->leaf_of);
    l->has_parent = vn_alloc(room, 1);
    return l->sorted && l->leaf_of && l->has_parent ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld nodes", (long long)n);
}

vn_status_t vn_forest_old(vn_eval_t *e, const char *prefix, int64_t features, int64_t targets, vn_forest_t *f) {
    lists_t l = {0};
    *f = (vn_forest_t){0};
    vn_status_t s = targets_of(e, targets, f);
    if (s == VN_OK) s = read_lists(e, prefix, f, &l);
    if (s == VN_OK) s = read_nodes(e, f, &l);
    if (s == VN_OK) s = read_roots(e, f, &l);
    if (s == VN_OK) s = read_votes(e, f, &l, prefix);
    if (s == VN_OK) s = vn_ml_numbers(e, "base_values", "base_values_as_tensor", &f->base, &f->n_base);
    vn_free(l.split);
    vn_free(l.weight);
    vn_free(l.sorted);
    vn_free(l.leaf_of);
    vn_free(l.has_parent);
    return s == VN_OK ? check(e, f, features) : s;
}
