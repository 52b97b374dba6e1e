/* Schedules as text: every text seen on a back end, all golden trees, random and kernel-like trees. Claim SCHED-1. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

/* Expanding a text that was seen on a back end, and compressing the tree again: the same text. */
VN_TEST(text, seen_on_back_ends) {
    FILE *file = fopen(VN_TEST_DATA "/schedule/texts.txt", "r");
    char line[4096];
    int seen = 0;
    VN_ASSERT(t, file);
    while (fgets(line, sizeof line, file)) {
        vn_tree_t *tree;
        vn_error_t err = {0};
        char *text;
        line[strcspn(line, "\n")] = '\0';
        if (vn_schedule_expand(line, &tree, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "'%s': %s", line, err.text);
        if (vn_schedule_compress(tree, &text, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "'%s': %s", line, err.text);
        if (strcmp(text, line) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s' became '%s'", line, text);
        ++seen;
        vn_tree_free(tree);
        vn_free(text);
    }
    fclose(file);
    VN_ASSERT(t, seen == 102);
}

static void round_trip(vn_test_t *t, const vn_tree_t *tree, const char *label) {
    vn_tree_t *again, *sorted;
    vn_error_t err = {0};
    char *text, *second = NULL;
    if (vn_schedule_compress(tree, &text, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s: %s", label, err.text);
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

/* Chains that turn at every step, long spines of odd items, all sizes: no recursion, bounded work, still a round trip. */
VN_TEST(text, deep_and_large) {
    vn_rng_t rng = vn_test_rng(t);
    const int sizes[] = {3, 200, vn_test_full() ? 4096 : 1000};
    for (int kind = 0; kind < 6; ++kind)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            const int n = sizes[s];
            vn_text_t head = {0}, tail = {0};
            vn_tree_t *tree;
            int low = 0, high = n;
            while (high - low > 1) { /* takes a term from one side, the other, or a random one */
                const bool left = kind == 0 || (kind > 1 && (kind == 2 ? (high - low) % 2 == 0 : vn_rng_below(&rng, 2) == 0));
                vn_text_t *out = &head;
                const bool three = kind == 4 && high - low > 2 && vn_rng_below(&rng, 3) == 0;
                vn_text_add(out, "(");
                if (left) {
                    vn_text_printf(out, three ? "(%d,%d)," : "%d,", low, low + 1);
                    low += three ? 2 : 1;
                    vn_text_add(&tail, ")");
                } else { /* written backwards, turned below */
                    char item[40];
                    if (three) snprintf(item, sizeof item, ",(%d,%d))", high - 2, high - 1);
                    else snprintf(item, sizeof item, kind == 5 && high % 7 == 0 ? ",P%d)" : ",%d)", high - 1);
                    high -= three ? 2 : 1;
                    for (size_t c = strlen(item); c > 0; --c) vn_text_addn(&tail, item + c - 1, 1);
                }
            }
            vn_text_printf(&head, "%d", low);
            for (size_t c = tail.length; c > 0; --c) vn_text_addn(&head, tail.data + c - 1, 1);
            vn_error_t err = {0};
            if (vn_tree_from_brackets(head.data, &tree, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "kind %d: %s", kind, err.text);
            VN_ASSERT(t, tree->n == n);
            round_trip(t, tree, "spine");
            vn_tree_free(tree);
            vn_text_free(&head);
            vn_text_free(&tail);
        }
    static const char *const large[] = {"100000||S", "100000||R", "65536||A", "32768|0+2048*16+16*1|A<2048{S}", "50000||S<1000{G16}"};
    for (size_t k = 0; k < sizeof large / sizeof *large; ++k) {
        vn_tree_t *tree;
        char *text = NULL;
        VN_ASSERT(t, vn_schedule_expand(large[k], &tree, NULL) == VN_OK && vn_schedule_compress(tree, &text, NULL) == VN_OK);
        if (strcmp(text, large[k]) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s' became '%s'", large[k], text);
        vn_tree_free(tree);
        vn_free(text);
    }
}

/* Random expressions of the grammar: expanded, compressed, expanded again. */
static void random_shape(vn_text_t *out, vn_rng_t *rng, int depth) {
    static const char letters[] = "SSAHRUF";
    const int kind = depth > 2 ? 0 : (int)vn_rng_below(rng, 3);
    if (kind == 0) {
        if (vn_rng_below(rng, 8) == 0) vn_text_printf(out, "G%d", 2 + (int)vn_rng_below(rng, 15));
        else vn_text_addn(out, &letters[vn_rng_below(rng, 7)], 1);
        return;
    }
    random_shape(out, rng, depth + 1);
    vn_text_printf(out, "<%d{", 1 + (int)vn_rng_below(rng, 40));
    random_shape(out, rng, depth + 1);
    if (vn_rng_below(rng, 4) == 0) {
        vn_text_add(out, ";");
        random_shape(out, rng, depth + 1);
    }
    vn_text_add(out, "}");
}

VN_TEST(text, random_expressions) {
    vn_rng_t rng = vn_test_rng(t);
    const int rounds = vn_test_full() ? 4000 : 400;
    static const char *const orders[] = {"", "", "0+%d*2+2*1", "1+2*-1+%d*2", "0+%d*4+4*1"};
    int taken = 0;
    for (int round = 0; round < rounds; ++round) {
        const int n = 1 + (int)vn_rng_below(&rng, round % 10 ? 150 : 1500), o = (int)vn_rng_below(&rng, 5), step = o == 4 ? 4 : 2;
        vn_text_t text = {0};
        vn_tree_t *tree;
        vn_text_printf(&text, "%d%s|", n, vn_rng_below(&rng, 4) == 0 ? "+c" : "");
        if (n % step == 0) vn_text_printf(&text, orders[o], n / step);
        vn_text_add(&text, "|");
        random_shape(&text, &rng, 0);
        vn_error_t err = {0};
        if (vn_schedule_expand(text.data, &tree, &err) == VN_OK) { /* a letter may not go with its positions */
            ++taken;
            round_trip(t, tree, text.data);
            vn_tree_free(tree);
        }
        vn_text_free(&text);
    }
    VN_ASSERT(t, taken > rounds / 2);
}

VN_TEST(text, words) {
    static const char *const due[][2] = {
        {"200||S<128{S}", "chain(128) >> chain(72)"},
        {"129||S<128{S}", "chain(128) >> rounded product"},
        {"1024||S<128{S}", "[8 x chain(128)] joined in a chain"},
        {"200+c||S[1,128:S,72:S]", "(initial value >> chain(128) >> chain(72))"},
        {"1024|0+128*8+8*1|S<4{S}<128{S}", "8 lanes: [8 x chain(128)] joined as (chain(4) >> chain(4))"},
        {"129|0+9*16+16*1|A<@1{S}", "16 lanes: [each run of loop 1: chain] joined pairwise"},
        {"64|1+2*-1+32*2|S", "second of each pair first: chain(64)"},
        {"256||S<32{F}", "[8 x fused(32)] joined in a chain"},
        {"1000||S[448:S,2*276:S]", "(chain(448) >> 2 x chain(276))"},
        {"129||H<64{S;.}", "[2 x chain(64) and term] joined by halves"},
        {"no schedule", "no schedule"},
        {"8||Q", "8||Q"},
        {"8||S<", "8||S<"},
        {"8||S[", "8||S["},
        {"", ""},
    };
    char out[200];
    for (size_t k = 0; k < sizeof due / sizeof *due; ++k) {
        vn_schedule_words(due[k][0], out, sizeof out);
        if (strcmp(out, due[k][1]) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s' is '%s' in words", due[k][0], out);
    }
    vn_schedule_words("200||S<128{S}", out, 6);
    VN_ASSERT(t, strcmp(out, "chain") == 0);
}

/* Well formed: every element is closed, nothing but text between, the text is escaped. */
static bool well_formed(const char *xml) {
    char open[64][16];
    int depth = 0;
    for (const char *p = xml; *p; ++p) {
        if (*p == '&' && strncmp(p, "&lt;", 4) != 0 && strncmp(p, "&gt;", 4) != 0 && strncmp(p, "&amp;", 5) != 0) return false;
        if (*p != '<') continue;
        const char *end = strchr(p, '>');
        const bool closing = p[1] == '/';
        const char *name = p + 1 + closing;
        const size_t n = strcspn(name, " />");
        if (!end || n == 0 || n >= 16) return false;
        if (closing) {
            if (depth == 0 || strlen(open[depth - 1]) != n || strncmp(open[--depth], name, n) != 0) return false;
        } else if (end[-1] != '/') {
            if (depth == 64) return false;
            memcpy(open[depth], name, n);
            open[depth++][n] = '\0';
        }
        p = end;
    }
    return depth == 0;
}

VN_TEST(text, pictures) {
    static const char *const texts[] = {"1||.",          "2||S",
                                        "32||S",         "1+c||S",
                                        "200||S<128{S}", "4096||F",
                                        "4096||S<64{F}", "20000||S",
                                        "8192||A",       "200+c||S[1,128:S,72:S]",
                                        "129||S<128{S}", "1024|0+128*8+8*1|S<4{S}<128{S}"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; ++k) {
        vn_tree_t *tree;
        char *svg = NULL;
        vn_error_t err = {0};
        VN_ASSERT(t, vn_schedule_expand(texts[k], &tree, &err) == VN_OK && vn_tree_svg(tree, &svg, &err) == VN_OK);
        if (!well_formed(svg) || strncmp(svg, "<svg ", 5) != 0) vn_test_fail(t, __FILE__, __LINE__, "picture of '%s'", texts[k]);
        VN_ASSERT(t, strlen(svg) < 40000); /* for every size */
        vn_free(svg);
        vn_tree_free(tree);
    }
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) ++n;
    return n;
}

/* 3 x 250 elements, two classes side by side from column 125 on: 84 cells of 3 columns, of which one holds both. */
VN_TEST(text, class_maps) {
    enum { M = 3, N = 250 };
    static char texts[2][8] = {"32||S", "32||A"}, where[2][16] = {"r* c0-124", "r* c125-249"};
    vn_schedule_class_t classes[2] = {{.text = texts[0], .where = where[0], .elements = M * 125},
                                      {.text = texts[1], .where = where[1], .elements = M * 125}};
    int32_t of[M * N];
    vn_error_t err = {0};
    char *svg = NULL;
    for (int e = 0; e < M * N; ++e) of[e] = e % N >= 125;
    vn_schedule_t s = {
        .op = {.kind = VN_SUM_MATMUL, .m = M, .k = 32, .n = N}, .n_classes = 2, .classes = classes, .class_of = of, .outputs = M * N};
    VN_ASSERT_EQ(t, vn_schedule_svg(&s, &svg, &err), VN_ERR_UNSUPPORTED); /* no tree yet */
    VN_ASSERT(t, svg == NULL);
    for (int c = 0; c < 2; ++c) VN_ASSERT_OK_ERR(t, vn_schedule_expand(texts[c], &classes[c].tree, &err), err);
    VN_ASSERT_OK_ERR(t, vn_schedule_svg(&s, &svg, &err), err);
    VN_ASSERT(t, well_formed(svg));
    VN_ASSERT(t, strstr(svg, "classes of 3 x 250 output elements; a cell is 1 x 3 of them") != NULL);
    VN_ASSERT_EQ(t, count_of(svg, "<rect "), 3 * 3 + 3);      /* blocks by row, and the legend */
    VN_ASSERT_EQ(t, count_of(svg, "fill=\"#222\"/>"), 3 + 1); /* both classes in one cell */
    VN_ASSERT(t, strstr(svg, "several classes in one cell") != NULL);
    VN_ASSERT(t, strstr(svg, "375 elements at r* c125-249: 32||A<") != NULL);
    vn_free(svg);
    s.op.n = s.outputs = 84; /* one cell each: nothing is mixed */
    s.op.m = 1;
    VN_ASSERT_OK_ERR(t, vn_schedule_svg(&s, &svg, &err), err);
    VN_ASSERT(t, strstr(svg, "a cell is") == NULL && strstr(svg, "several") == NULL);
    VN_ASSERT_EQ(t, count_of(svg, "<rect "), 1 + 2);
    vn_free(svg);
    s.class_of = NULL; /* one class has no map of its own */
    s.n_classes = 1;
    VN_ASSERT_OK_ERR(t, vn_schedule_svg(&s, &svg, &err), err);
    VN_ASSERT_EQ(t, count_of(svg, "<rect "), 1 + 1);
    vn_free(svg);
    bool done = false;
    for (int64_t at = 1; !done && at < 3000; ++at) { /* every allocation fails once */
        vn_alloc_fail_at(at);
        const vn_status_t st = vn_schedule_svg(&s, &svg, &err);
        vn_alloc_fail_at(0);
        done = st == VN_OK;
        VN_ASSERT(t, done || (st == VN_ERR_NOMEM && svg == NULL));
        vn_free(svg);
    }
    VN_ASSERT(t, done);
    for (int c = 0; c < 2; ++c) vn_tree_free(classes[c].tree);
}

/* Every allocation fails once: the error says so, nothing is left behind (the sanitizer sees to that), nothing half made is handed out. */
VN_TEST(text, without_memory) {
    static const char *const texts[] = {"40+c|0+10*4+4*1|N[1,40:A<10{S}]", "37|0+10*4+4*1|A<@1{S}",
                                        "30||S[1,2:S,3:R,4:T((..)(..)),20:S<6{G3}]", "9+c|0+2*3,1+2*5,7+2*-3+2*-2,8|N[1,9:S]"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; ++k) {
        vn_tree_t *tree = NULL, *again = NULL;
        char *text = NULL, *svg = NULL;
        vn_error_t err = {0};
        bool done = false;
        char *due = NULL;
        VN_ASSERT(t, vn_schedule_expand(texts[k], &tree, &err) == VN_OK && vn_schedule_compress(tree, &due, &err) == VN_OK);
        for (int64_t at = 1; !done && at < 3000; ++at) {
            vn_alloc_fail_at(at);
            vn_status_t st = vn_schedule_compress(tree, &text, &err);
            if (st == VN_OK) st = vn_schedule_expand(text, &again, &err);
            if (st == VN_OK) st = vn_tree_svg(again, &svg, &err);
            vn_alloc_fail_at(0);
            done = st == VN_OK;
            VN_ASSERT(t, done || st == VN_ERR_NOMEM);
            VN_ASSERT(t, !text || strcmp(text, due) == 0); /* short of memory is no reason for another text */
            vn_tree_free(again);
            vn_free(text);
            vn_free(svg);
            again = NULL;
            text = svg = NULL;
        }
        VN_ASSERT(t, done);
        vn_tree_free(tree);
        vn_free(due);
    }
}

VN_TEST_MAIN(VN_CASE(text, seen_on_back_ends), VN_CASE(text, golden_trees), VN_CASE(text, irregular_trees),
             VN_CASE(text, kernel_like_trees), VN_CASE(text, deep_and_large), VN_CASE(text, random_expressions), VN_CASE(text, hostile),
             VN_CASE(text, words), VN_CASE(text, pictures), VN_CASE(text, class_maps), VN_CASE(text, without_memory))
