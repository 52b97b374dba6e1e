/* Trees: brackets, canonical form, leaf counts; rebuilding from matrices, pairs and triplets. The goldens of tests/data/schedule/schedules.json
 * were made by two other programs. Claims SCHED-3, SCHED-4. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

static json_t *goldens(void) { return json_load_file(VN_TEST_DATA "/schedule/schedules.json", 0, NULL); }

/* Answers read from a matrix; flip: every flip-th question gets another answer, as a racing kernel gives. */
typedef struct oracle {
    const uint32_t *l;
    int32_t n;
    int64_t asked, flip, calls;
} oracle_t;

static vn_status_t answer_pairs(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    oracle_t *o = context;
    (void)err;
    o->calls++;
    for (int64_t p = 0; p < pairs; ++p) {
        o->asked++;
        l[p] = o->l[(size_t)i[p] * (size_t)o->n + (size_t)j[p]];
        if (o->flip && o->asked % o->flip == 0) l[p] = l[p] > 2 ? l[p] - 1 : l[p] + 1;
    }
    return VN_OK;
}

static vn_status_t answer_triplets(void *context, int64_t count, const int32_t *t, const int32_t *i, const int32_t *j, uint8_t *yes,
                                   vn_error_t *err) {
    oracle_t *o = context;
    (void)err;
    o->calls++;
    o->asked += count;
    for (int64_t p = 0; p < count; ++p)
        yes[p] = o->l[(size_t)i[p] * (size_t)o->n + (size_t)j[p]] < o->l[(size_t)i[p] * (size_t)o->n + (size_t)t[p]];
    return VN_OK;
}

VN_TEST(tree, goldens) {
    json_t *file = goldens(), *entry;
    size_t at;
    int seen = 0;
    VN_ASSERT(t, file);
    json_array_foreach(json_object_get(file, "schedules"), at, entry) {
        const char *text = json_string_value(json_object_get(entry, "tree"));
        const int32_t n = (int32_t)json_integer_value(json_object_get(entry, "n"));
        vn_tree_t *tree, *again;
        vn_error_t err = {0};
        vn_violation_t v;
        char *back, hex[65];
        VN_ASSERT(t, vn_tree_from_brackets(text, &tree, &err) == VN_OK);
        VN_ASSERT(t, vn_tree_to_brackets(tree, &back, &err) == VN_OK && strcmp(back, text) == 0);
        VN_ASSERT(t, vn_tree_height(tree) == json_integer_value(json_object_get(entry, "height")));
        VN_ASSERT(t, vn_tree_widest(tree) == json_integer_value(json_object_get(entry, "max_children")));
        uint32_t *l = malloc((size_t)n * (size_t)n * sizeof *l);
        double *asked = malloc((size_t)n * (size_t)n * sizeof *asked);
        VN_ASSERT(t, vn_tree_matrix(tree, l, &err) == VN_OK);
        vn_sha256_hex(l, (size_t)n * (size_t)n * sizeof *l, hex); /* little-endian words, as the golden's */
        VN_ASSERT(t, strcmp(hex, json_string_value(json_object_get(entry, "l_matrix_sha256"))) == 0);
        for (int64_t k = 0; k < (int64_t)n * n; ++k) asked[k] = l[k];
        VN_ASSERT(t, vn_rebuild_matrix(n, asked, &again, &v, &err) == VN_OK && again && vn_tree_equal(tree, again));
        vn_tree_free(again);
        oracle_t o = {.l = l, .n = n};
        VN_ASSERT(t, vn_rebuild_pairs(n, 7 + at, 50, answer_pairs, &o, &again, &v, &err) == VN_OK && again && vn_tree_equal(tree, again));
        vn_tree_free(again);
        VN_ASSERT(t, vn_rebuild_triplets(n, 7 + at, 50, answer_triplets, &o, &again, &v, &err) == VN_OK);
        if (vn_tree_widest(tree) <= 2) VN_ASSERT(t, again && vn_tree_equal(tree, again));
        else VN_ASSERT(t, !again && v.kind == VN_TREE_ULTRAMETRIC); /* fused nodes: no pair meets first */
        vn_tree_free(again);
        vn_tree_free(tree);
        vn_free(back);
        free(l);
        free(asked);
        ++seen;
    }
    VN_ASSERT(t, seen == 70);
    json_decref(file);
}

/* A random tree in brackets: parts of random sizes, leaves in random order. */
static void random_brackets(vn_text_t *out, vn_rng_t *rng, const int32_t *leaves, int32_t n, int32_t widest) {
    if (n == 1) {
        vn_text_printf(out, "%d", leaves[0]);
        return;
    }
    int32_t parts = 2 + (int32_t)(vn_rng_u64(rng) % (uint64_t)(widest - 1)), at = 0;
    if (parts > n) parts = n;
    vn_text_add(out, "(");
    for (int32_t p = 0; p < parts; ++p) {
        const int32_t left = parts - p - 1, room = n - at - left;
        const int32_t size = left == 0 ? room : 1 + (int32_t)(vn_rng_u64(rng) % (uint64_t)room);
        if (p) vn_text_add(out, ",");
        random_brackets(out, rng, leaves + at, size, widest);
        at += size;
    }
    vn_text_add(out, ")");
}

/* By definition: a node's set of leaves; the smallest set that holds both. The twin of vn_tree_pairs. */
static uint32_t slow_ancestor(const vn_tree_t *tree, int32_t i, int32_t j) {
    const int32_t leaves = vn_tree_leaves(tree);
    uint32_t best = 0;
    for (int32_t k = 0; k < tree->nodes; ++k) {
        int32_t stack[4096], depth = 0;
        uint32_t count = 0;
        bool has_i = false, has_j = false;
        stack[depth++] = leaves + k;
        while (depth) {
            const int32_t id = stack[--depth];
            if (id < leaves) {
                ++count;
                has_i |= id == i;
                has_j |= id == j;
            } else {
                for (int32_t c = tree->first[id - leaves]; c < tree->first[id - leaves + 1]; ++c) stack[depth++] = tree->child[c];
            }
        }
        if (has_i && has_j && (!best || count < best)) best = count;
    }
    return best;
}

VN_TEST(tree, random_trees) {
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 300 * vn_test_scale(t); ++round) {
        const int32_t n = 2 + (int32_t)(vn_rng_u64(&rng) % 60), widest = round % 3 ? 2 : 5;
        int32_t leaves[64];
        vn_text_t text = {0};
        vn_tree_t *tree, *again;
        vn_error_t err = {0};
        vn_violation_t v;
        uint32_t l[64 * 64], pair;
        double asked[64 * 64];
        for (int32_t k = 0; k < n; ++k) {
            const int32_t p = (int32_t)(vn_rng_u64(&rng) % (uint64_t)(k + 1));
            leaves[k] = leaves[p];
            leaves[p] = k;
        }
        random_brackets(&text, &rng, leaves, n, widest);
        VN_ASSERT(t, vn_tree_from_brackets(text.data, &tree, &err) == VN_OK);
        VN_ASSERT(t, vn_tree_matrix(tree, l, &err) == VN_OK);
        const int32_t i = (int32_t)(vn_rng_u64(&rng) % (uint64_t)n), j = (i + 1 + (int32_t)(vn_rng_u64(&rng) % (uint64_t)(n - 1))) % n;
        VN_ASSERT(t, vn_tree_pairs(tree, 1, &i, &j, &pair, &err) == VN_OK && pair == slow_ancestor(tree, i, j));
        VN_ASSERT(t, pair == l[i * n + j] && pair == l[j * n + i]);
        for (int32_t k = 0; k < n * n; ++k) asked[k] = l[k];
        VN_ASSERT(t, vn_tree_canonical(tree, &err) == VN_OK);
        VN_ASSERT(t, vn_rebuild_matrix(n, asked, &again, &v, &err) == VN_OK && again);
        vn_tree_t *sorted = again; /* random brackets may hold pairs in falling order, which no l shows */
        oracle_t o = {.l = l, .n = n};
        VN_ASSERT(t, vn_rebuild_pairs(n, (uint64_t)round, 20, answer_pairs, &o, &again, &v, &err) == VN_OK && again &&
                         vn_tree_equal(sorted, again));
        vn_tree_free(again);
        for (int32_t k = 0; k < n * n; ++k) asked[k] = l[k];
        uint32_t *m = malloc((size_t)n * (size_t)n * sizeof *m);
        VN_ASSERT(t, vn_tree_matrix(sorted, m, &err) == VN_OK && memcmp(m, l, (size_t)n * (size_t)n * sizeof *m) == 0);
        /* one wrong answer among all pairs is never a tree */
        if (n >= 4) {
            const size_t low = (size_t)(i < j ? i : j), high = (size_t)(i < j ? j : i);
            asked[low * (size_t)n + high] += asked[low * (size_t)n + high] < n ? 1 : -1;
            VN_ASSERT(t, vn_rebuild_matrix(n, asked, &again, &v, &err) == VN_OK);
            if (again) { /* unless it is one: then it must give back what was answered */
                VN_ASSERT(t, vn_tree_matrix(again, m, &err) == VN_OK);
                for (int32_t p = 0; p < n; ++p)
                    for (int32_t q = p + 1; q < n; ++q) VN_ASSERT(t, m[p * n + q] == asked[p * n + q]);
            } else {
                VN_ASSERT(t, v.kind == VN_TREE_ULTRAMETRIC || v.kind == VN_TREE_RANGE);
            }
            vn_tree_free(again);
        }
        free(m);
        vn_tree_free(sorted);
        vn_tree_free(tree);
        vn_text_free(&text);
    }
}

/* Long chains: no recursion, about 2n questions, few rounds. */
VN_TEST(tree, long_chain) {
    enum { N = 4096 };
    uint32_t *l = malloc((size_t)N * N * sizeof *l);
    vn_tree_t *tree;
    vn_error_t err = {0};
    vn_violation_t v;
    VN_ASSERT(t, l);
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) l[(size_t)i * N + (size_t)j] = i == j ? 1 : (uint32_t)(i > j ? i : j) + 1;
    oracle_t o = {.l = l, .n = N};
    VN_ASSERT(t, vn_rebuild_pairs(N, t->seed, 100, answer_pairs, &o, &tree, &v, &err) == VN_OK && tree);
    VN_ASSERT(t, vn_tree_height(tree) == N - 1 && o.asked < 4 * N + 100 && o.calls < 40);
    vn_tree_free(tree);
    o = (oracle_t){.l = l, .n = N};
    VN_ASSERT(t, vn_rebuild_triplets(N, t->seed, 100, answer_triplets, &o, &tree, &v, &err) == VN_OK && tree);
    VN_ASSERT(t, vn_tree_height(tree) == N - 1 && o.calls < 80);
    vn_tree_free(tree);
    /* answers that change from call to call are found, by a node that is no set or by the checks */
    o = (oracle_t){.l = l, .n = N, .flip = 97};
    VN_ASSERT(t, vn_rebuild_pairs(N, t->seed, 500, answer_pairs, &o, &tree, &v, &err) == VN_OK && !tree);
    VN_ASSERT(t, v.kind == VN_TREE_ULTRAMETRIC || v.kind == VN_TREE_RANGE || v.kind == VN_TREE_NONDETERMINISTIC);
    VN_ASSERT(t, *v.what);
    free(l);
}

VN_TEST(tree, hostile_brackets) {
    static const char *const bad[] = {"",       "(",      "()",    "(0)",      "(0,1",       "(0,1))", "(0,0)", "(0,2)",
                                      "(0,1)x", "(0,,1)", "(0 1)", "((0,1),)", "(0,c,c)",    "(1,2)",  "0,1",   "(0,99999999999)",
                                      "P",      "(0,-1)", "(,)",   "((0),1)",  "(0,1)(2,3)", "(c)",    "c",     "(0,1),2"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
        vn_tree_t *tree;
        vn_error_t err = {0};
        VN_ASSERT(t, vn_tree_from_brackets(bad[k], &tree, &err) != VN_OK && !tree && *err.text);
    }
}

VN_TEST(tree, restrict_to_present) {
    vn_tree_t *tree, *part, *due;
    vn_error_t err = {0};
    const uint8_t keep[] = {1, 0, 1, 1, 0, 1, 1};
    VN_ASSERT(t, vn_tree_from_brackets("(c,(((0,1),2),((3,4),5)))", &tree, &err) == VN_OK);
    VN_ASSERT(t, vn_tree_restrict(tree, keep, &part, &err) == VN_OK);
    VN_ASSERT(t, vn_tree_from_brackets("(c,((0,1),(2,3)))", &due, &err) == VN_OK && vn_tree_equal(part, due));
    vn_tree_free(part);
    vn_tree_free(due);
    const uint8_t two[] = {0, 0, 0, 0, 1, 1, 0};
    VN_ASSERT(t, vn_tree_restrict(tree, two, &part, &err) == VN_OK);
    VN_ASSERT(t, vn_tree_from_brackets("(0,1)", &due, &err) == VN_OK && vn_tree_equal(part, due));
    vn_tree_free(part);
    vn_tree_free(due);
    vn_tree_free(tree);
}

VN_TEST_MAIN(VN_CASE(tree, goldens), VN_CASE(tree, random_trees), VN_CASE(tree, long_chain), VN_CASE(tree, hostile_brackets),
             VN_CASE(tree, restrict_to_present))
