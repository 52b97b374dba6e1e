/* Schedules as text: every text seen on a back end, all golden trees, random and kernel-like trees. Claim SCHED-1. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

/* Expanding a text that was seen on a back end, and compressing the tree again. Another text for the same tree is fine
 * as long as the texts do not grow; another tree is not. */
VN_TEST(text, seen_on_back_ends) {
    FILE *file = fopen(VN_TEST_DATA "/schedule/texts.txt", "r");
    char line[4096];
    int seen = 0, same = 0;
    size_t given = 0, made = 0;
    VN_ASSERT(t, file);
    while (fgets(line, sizeof line, file)) {
        vn_tree_t *tree, *again;
        vn_error_t err = {0};
        char *text;
        line[strcspn(line, "\n")] = '\0';
        if (vn_schedule_expand(line, &tree, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "'%s': %s", line, err.text);
        VN_ASSERT(t, vn_schedule_compress(tree, &text, &err) == VN_OK);
        if (vn_schedule_expand(text, &again, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "'%s': %s", text, err.text);
        if (!vn_tree_equal(tree, again)) vn_test_fail(t, __FILE__, __LINE__, "'%s' became '%s', another tree", line, text);
        given += strlen(line);
        made += strlen(text);
        same += strcmp(text, line) == 0;
        ++seen;
        vn_tree_free(tree);
        vn_tree_free(again);
        vn_free(text);
    }
    fclose(file);
    VN_ASSERT(t, seen >= 100 && made <= given);
    if (same < seen * 3 / 4) vn_test_fail(t, __FILE__, __LINE__, "%d of %d texts come back as they were", same, seen);
}

static void round_trip(vn_test_t *t, const vn_tree_t *tree, const char *label) {
    vn_tree_t *again, *sorted;
    vn_error_t err = {0};
    char *text, *second;
    VN_ASSERT(t, vn_schedule_compress(tree, &text, &err) == VN_OK);
    if (vn_schedule_expand(text, &again, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s: '%s': %s", label, text, err.text);
    if (!vn_tree_equal(tree, again)) vn_test_fail(t, __FILE__, __LINE__, "%s: '%s' is another tree", label, text);
    VN_ASSERT(t, vn_tree_copy(again, &sorted, &err) == VN_OK && vn_schedule_compress(sorted, &second, &err) == VN_OK);
    if (strcmp(text, second) != 0) vn_test_fail(t, __FILE__, __LINE__, "%s: '%s' and '%s' for one tree", label, text, second);
    vn_tree_free(again);
    vn_tree_free(sorted);
    vn_free(text);
    vn_free(second);
}

VN_TEST(text, golden_trees) {
    json_t *file = json_load_file(VN_TEST_DATA "/schedule/schedules.json", 0, NULL), *entry;
    size_t at;
    static const char *const due[][2] = {{"sequential", "32||S"},        {"reverse-sequential", "32||R"},
                                         {"pairwise-adjacent", "32||A"}, {"kblock4-sequential", "32||S<4{S}"},
                                         {"fused4-chained", "32||G4"},   {"lanes8-adjacent", "32|0+4*8+8*1|A<4{S}"}};
    int named = 0;
    VN_ASSERT(t, file);
    json_array_foreach(json_object_get(file, "schedules"), at, entry) {
        vn_tree_t *tree;
        vn_error_t err = {0};
        char *text;
        const char *name = json_string_value(json_object_get(entry, "name"));
        VN_ASSERT(t, vn_tree_from_brackets(json_string_value(json_object_get(entry, "tree")), &tree, &err) == VN_OK);
        round_trip(t, tree, name);
        VN_ASSERT(t, vn_schedule_compress(tree, &text, &err) == VN_OK);
        for (size_t k = 0; k < sizeof due / sizeof *due; ++k)
            if (tree->n == 32 && strcmp(name, due[k][0]) == 0) {
                if (strcmp(text, due[k][1]) != 0) vn_test_fail(t, __FILE__, __LINE__, "%s is '%s', not '%s'", name, text, due[k][1]);
                ++named;
            }
        vn_free(text);
        vn_tree_free(tree);
    }
    VN_ASSERT(t, named == 6);
    json_decref(file);
}

static void random_part(vn_text_t *out, vn_rng_t *rng, const int *leaf, int n, int widest, bool marks) {
    if (n == 1) {
        vn_text_printf(out, "%s%d", marks && vn_rng_u64(rng) % 5 == 0 ? "P" : "", leaf[0]);
        return;
    }
    int parts = 2 + (int)(vn_rng_u64(rng) % (uint64_t)(widest - 1)), at = 0;
    if (parts > n) parts = n;
    vn_text_add(out, "(");
    for (int p = 0; p < parts; ++p) {
        const int room = n - at - (parts - p - 1), size = p == parts - 1 ? room : 1 + (int)(vn_rng_u64(rng) % (uint64_t)room);
        if (p) vn_text_add(out, ",");
        random_part(out, rng, leaf + at, size, widest, marks);
        at += size;
    }
    vn_text_add(out, ")");
}

VN_TEST(text, irregular_trees) {
    vn_rng_t rng = vn_test_rng(t);
    const int rounds = vn_test_full() ? 4000 : 250;
    for (int round = 0; round < rounds; ++round) {
        const int n = 1 + (int)(vn_rng_u64(&rng) % 50);
        int leaf[64];
        vn_text_t text = {0};
        vn_tree_t *tree;
        for (int k = 0; k < n; ++k) {
            const int p = round % 4 ? (int)(vn_rng_u64(&rng) % (uint64_t)(k + 1)) : k;
            leaf[k] = leaf[p];
            leaf[p] = k;
        }
        random_part(&text, &rng, leaf, n, round % 3 ? 2 : 6, round % 5 == 0);
        VN_ASSERT(t, vn_tree_from_brackets(text.data, &tree, NULL) == VN_OK);
        round_trip(t, tree, text.data);
        vn_tree_free(tree);
        vn_text_free(&text);
    }
}

/* What kernels do: blocks over K, lanes inside, unrolled accumulators, joins of four kinds, tails, swapped pairs, an initial value. */
static void join(vn_text_t *out, char kind, char **part, int n) {
    if (n == 1) {
        vn_text_add(out, part[0]);
    } else if (kind == 'N') {
        for (int k = 0; k < n; ++k) vn_text_printf(out, "%s%s", k ? "," : "(", part[k]);
        vn_text_add(out, ")");
    } else {
        const int left = kind == 'S' ? n - 1 : kind == 'R' ? 1 : kind == 'H' ? n / 2 : n - n / 2;
        vn_text_add(out, "(");
        join(out, kind, part, left);
        vn_text_add(out, ",");
        join(out, kind, part + left, n - left);
        vn_text_add(out, ")");
    }
}

static char *kernel(vn_rng_t *rng, int begin, int n, int lanes, char lane_join) {
    char *lane[64];
    int used = 0;
    vn_text_t out = {0};
    for (int l = 0; l < lanes && l < n; ++l) {
        vn_text_t chain = {0};
        const bool swapped = vn_rng_u64(rng) % 8 == 0;
        int count = 0;
        for (int k = l; k < n; k += lanes) ++count;
        for (int k = 1; k < count; ++k) vn_text_add(&chain, "(");
        for (int k = 0; k < count; ++k) {
            const int at = begin + l + lanes * (swapped && count > 1 && k < 2 ? 1 - k : k);
            vn_text_printf(&chain, k ? ",%d)" : "%d", at);
        }
        lane[used++] = chain.data;
    }
    join(&out, lane_join, lane, used);
    for (int k = 0; k < used; ++k) vn_free(lane[k]);
    return out.data;
}

VN_TEST(text, kernel_like_trees) {
    vn_rng_t rng = vn_test_rng(t);
    const int rounds = vn_test_full() ? 6000 : 200, most = vn_test_full() ? 4096 : 700;
    int64_t longest = 0;
    for (int round = 0; round < rounds; ++round) {
        const int n = 1 + (int)(vn_rng_u64(&rng) % (uint64_t)(round % 8 ? 200 : most)), block = 1 + (int)(vn_rng_u64(&rng) % 130);
        const int lanes = 1 << vn_rng_u64(&rng) % 5;
        const char joins[] = "SRHUN", lane_join = joins[vn_rng_u64(&rng) % 5], block_join = joins[vn_rng_u64(&rng) % 2];
        const bool initial = vn_rng_u64(&rng) % 3 == 0;
        char *part[4100];
        int used = 0;
        vn_text_t text = {0};
        vn_tree_t *tree;
        vn_error_t err = {0};
        for (int begin = 0; begin < n; begin += block)
            part[used++] = kernel(&rng, begin, n - begin < block ? n - begin : block, lanes, lane_join);
        if (initial) vn_text_add(&text, "(c,");
        join(&text, block_join, part, used);
        if (initial) vn_text_add(&text, ")");
        if (vn_tree_from_brackets(text.data, &tree, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s", err.text);
        round_trip(t, tree, "kernel");
        char *short_text;
        VN_ASSERT(t, vn_schedule_compress(tree, &short_text, &err) == VN_OK);
        if ((int64_t)strlen(short_text) > longest) longest = (int64_t)strlen(short_text);
        vn_free(short_text);
        vn_tree_free(tree);
        for (int k = 0; k < used; ++k) vn_free(part[k]);
        vn_text_free(&text);
    }
}

VN_TEST(text, hostile) {
    static const char *const bad[] = {"",
                                      "8",
                                      "8|",
                                      "8||",
                                      "0||S",
                                      "-1||S",
                                      "8||Q",
                                      "8||S<0{S}",
                                      "8||S<4{S",
                                      "8||S<4{S}}",
                                      "8||G",
                                      "8||.",
                                      "8||P",
                                      "8||S[3:S,4:S]",
                                      "8||S[4:S,4:S",
                                      "8||S[9:S]",
                                      "8||S[4,4:S]",
                                      "8|0+4*2|S",
                                      "8|0+2*1+2*1|S",
                                      "8|0+8*1,|S",
                                      "8|0+9999999*9999999|S",
                                      "8|0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16|S",
                                      "99999999999||S",
                                      "8|x|S",
                                      "8||S<@1{S}",
                                      "8|0+4*2+2*1|S<@9{S}",
                                      "8|=((0,1),2)",
                                      "8|=",
                                      "8+c''||S",
                                      "8||S;S",
                                      "8||S<4{S;}",
                                      "8||S<4{;S}",
                                      "4194305||S",
                                      "8|0+2000000*1+2000000*1+2000000*1|S",
                                      "8||[1,7:S]",
                                      "8||S[]",
                                      "8||S[1*8:S,]"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
        vn_tree_t *tree;
        vn_error_t err = {0};
        if (vn_schedule_expand(bad[k], &tree, &err) == VN_OK || tree || !*err.text)
            vn_test_fail(t, __FILE__, __LINE__, "'%s' was taken", bad[k]);
    }
    /* nesting is bounded */
    vn_text_t deep = {0};
    vn_tree_t *tree;
    vn_error_t err = {0};
    vn_text_add(&deep, "1000000||");
    for (int k = 0; k < 3000; ++k) vn_text_add(&deep, "S<2{");
    VN_ASSERT(t, vn_schedule_expand(deep.data, &tree, &err) != VN_OK);
    vn_text_free(&deep);
    /* random damage to good texts never crashes, and what is taken is a tree of its own text */
    vn_rng_t rng = vn_test_rng(t);
    static const char *const good[] = {"200+c||S[1,128:S,72:S]", "1024|0+128*8+8*1|S<4{S}<128{S}", "100|0+7*16+16*1|A<@1{S}",
                                       "9+c|0+2*3,1+2*5,7+2*-3+2*-2,8|N[1,9:S]"};
    for (int round = 0; round < 3000; ++round) {
        char text[64];
        snprintf(text, sizeof text, "%s", good[vn_rng_u64(&rng) % 4]);
        const size_t n = strlen(text), at = vn_rng_u64(&rng) % n;
        text[at] = "0123456789+*-|<{}[]SRAHUFGNP.@;,c="[vn_rng_u64(&rng) % 34];
        if (vn_rng_u64(&rng) % 4 == 0) text[vn_rng_u64(&rng) % n] = '\0';
        if (vn_schedule_expand(text, &tree, NULL) != VN_OK) continue;
        if (tree->n < 5000) round_trip(t, tree, text);
        vn_tree_free(tree);
    }
}

VN_TEST_MAIN(VN_CASE(text, seen_on_back_ends), VN_CASE(text, golden_trees), VN_CASE(text, irregular_trees),
             VN_CASE(text, kernel_like_trees), VN_CASE(text, hostile))
