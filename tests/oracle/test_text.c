/* Claims TEXT-1 to TEXT-4: joining, splitting and normalising texts. Expected values by hand. */
#include "oracle/text_node.h"

#define VECTOR(...) text_vector(t, (int64_t)(sizeof((vn_string_t[]){__VA_ARGS__}) / sizeof(vn_string_t)), (vn_string_t[]){__VA_ARGS__})
#define IS_VECTOR(x, ...) \
    text_is(t, x, 1, (int64_t[]){(int64_t)(sizeof((vn_string_t[]){__VA_ARGS__}) / sizeof(vn_string_t))}, (vn_string_t[]){__VA_ARGS__})

/* ---- StringConcat ---- */

VN_TEST(concat, broadcasts_and_keeps_bytes) {
    const vn_string_t a[] = {TEXT("x"), TEXT("\xFF\0y")}, b[] = {TEXT("1"), TEXT(""), TEXT("\xC3\xA9")};
    text_node_t c = {.op = "StringConcat", .version = 20, .n_in = 2, .in = {text_tensor(t, 2, (int64_t[]){2, 1}, a), text_vector(t, 3, b)}};
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 2, (int64_t[]){2, 3},
            (vn_string_t[]){TEXT("x1"), TEXT("x"), TEXT("x\xC3\xA9"), TEXT("\xFF\0y1"), TEXT("\xFF\0y"), TEXT("\xFF\0y\xC3\xA9")});
    text_free(&c);
}

VN_TEST(concat, empty_tensors_and_bad_operands) {
    text_node_t c = {.op = "StringConcat", .version = 20, .n_in = 2, .in = {text_tensor(t, 2, (int64_t[]){0, 2}, NULL), VECTOR(TEXT("a"))}};
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 2, (int64_t[]){0, 2}, NULL);
    text_free(&c);
    text_node_t d = {
        .op = "StringConcat", .version = 20, .n_in = 2, .in = {VECTOR(TEXT("a"), TEXT("b")), VECTOR(TEXT("a"), TEXT("b"), TEXT("c"))}};
    VN_ASSERT_EQ(t, text_try(t, &d), VN_ERR_SHAPE);
    text_free(&d);
    text_node_t f = {.op = "StringConcat", .version = 20, .n_in = 1, .in = {VECTOR(TEXT("a"))}};
    VN_ASSERT(t, text_try(t, &f) != VN_OK);
    text_free(&f);
}

/* ---- StringSplit ---- */

static void split_is(vn_test_t *t, const char *text, const char *delimiter, int64_t most, int64_t n, const vn_string_t *parts) {
    vn_string_t s = {(char *)(uintptr_t)text, strlen(text)};
    text_node_t c = {.op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {text_tensor(t, 0, NULL, &s)}};
    int k = 0;
    if (delimiter) c.attrs[k++] = attr_text("delimiter", delimiter);
    if (most >= 0) c.attrs[k++] = attr_int("maxsplit", most);
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 1, &n, parts);
    VN_ASSERT_EQ(t, c.out[1].rank, 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, 0), n);
    text_free(&c);
}
#define SPLIT(text, delimiter, most, ...) \
    split_is(t, text, delimiter, most, (int64_t)(sizeof((vn_string_t[]){__VA_ARGS__}) / sizeof(vn_string_t)), (vn_string_t[]){__VA_ARGS__})

VN_TEST(split, by_delimiters) {
    SPLIT("a,b,,c", ",", -1, TEXT("a"), TEXT("b"), TEXT(""), TEXT("c"));
    SPLIT(",a,", ",", -1, TEXT(""), TEXT("a"), TEXT(""));
    SPLIT("a,b,c", ",", 1, TEXT("a"), TEXT("b,c"));
    SPLIT("a,b,c", ",", 0, TEXT("a,b,c"));
    SPLIT("aaaa", "aaa", -1, TEXT(""), TEXT("a"));
    SPLIT("\xC3\xA9\xC3\xA8\xC3\xA9", "\xC3\xA8", -1, TEXT("\xC3\xA9"), TEXT("\xC3\xA9"));
    SPLIT("", ",", -1, TEXT(""));
    SPLIT(" a b ", " ", -1, TEXT(""), TEXT("a"), TEXT("b"), TEXT(""));
}

VN_TEST(split, by_white_space) {
    SPLIT("  a \t b\nc ", NULL, -1, TEXT("a"), TEXT("b"), TEXT("c"));
    SPLIT("  a  b  c  ", "", 1, TEXT("a"), TEXT("b  c"));
    SPLIT("  a  b  ", NULL, 0, TEXT("a  b"));
    SPLIT("a\xE3\x80\x80"
          "b\xC2\xA0"
          "c",
          NULL, -1, TEXT("a"), TEXT("b"), TEXT("c")); /* ideographic and no-break space */
    split_is(t, "", NULL, -1, 0, NULL);
    split_is(t, " \t ", NULL, 3, 0, NULL);
}

VN_TEST(split, fills_rows_and_counts) {
    const vn_string_t x[] = {TEXT("a b c"), TEXT("d"), TEXT(""), TEXT("e f")};
    text_node_t c = {.op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {text_tensor(t, 2, (int64_t[]){2, 2}, x)}};
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 3, (int64_t[]){2, 2, 3},
            (vn_string_t[]){TEXT("a"), TEXT("b"), TEXT("c"), TEXT("d"), TEXT(""), TEXT(""), TEXT(""), TEXT(""), TEXT(""), TEXT("e"),
                            TEXT("f"), TEXT("")});
    const int64_t counts[] = {3, 1, 0, 2};
    for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, i), counts[i]);
    text_free(&c);
    text_node_t d = {.op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {text_tensor(t, 2, (int64_t[]){0, 2}, NULL)}};
    text_run(t, &d);
    text_is(t, d.out[0].tensor, 3, (int64_t[]){0, 2, 0}, NULL);
    VN_ASSERT_EQ(t, d.out[1].count, 0);
    text_free(&d);
}

VN_TEST(split, what_the_text_leaves_open) {
    text_node_t c = {
        .op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {VECTOR(TEXT("a b "))}, .attrs = {attr_int("maxsplit", 1)}};
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 2, (int64_t[]){1, 2}, (vn_string_t[]){TEXT("a"), TEXT("b")});
    const vn_tensor_t *kept = text_reading(&c.out[0], "last-part-keeps-its-end");
    VN_ASSERT(t, kept != NULL);
    text_is(t, kept, 2, (int64_t[]){1, 2}, (vn_string_t[]){TEXT("a"), TEXT("b ")});
    text_free(&c);
    text_node_t d = {.op = "StringSplit",
                     .version = 20,
                     .n_in = 1,
                     .n_out = 2,
                     .in = {VECTOR(TEXT("a\xC2\xA0"
                                        "b\x1C"
                                        "c"))}};
    text_run(t, &d);
    text_is(t, d.out[0].tensor, 2, (int64_t[]){1, 2},
            (vn_string_t[]){TEXT("a"), TEXT("b\x1C"
                                            "c")});
    text_is(t, text_reading(&d.out[0], "python-white-space"), 2, (int64_t[]){1, 3}, (vn_string_t[]){TEXT("a"), TEXT("b"), TEXT("c")});
    text_is(t, text_reading(&d.out[0], "ascii-white-space"), 2, (int64_t[]){1, 1},
            (vn_string_t[]){TEXT("a\xC2\xA0"
                                 "b\x1C"
                                 "c")});
    VN_ASSERT_EQ(t, vn_tensor_get_i64(text_reading(&d.out[1], "python-white-space"), 0), 3);
    text_free(&d);
    text_node_t f = {
        .op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {VECTOR(TEXT(""))}, .attrs = {attr_text("delimiter", ",")}};
    text_run(t, &f);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(f.out[1].tensor, 0), 1);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(text_reading(&f.out[1], "an-empty-text-has-no-parts"), 0), 0);
    text_free(&f);
    text_node_t g = {
        .op = "StringSplit", .version = 20, .n_in = 1, .n_out = 2, .in = {VECTOR(TEXT("a"))}, .attrs = {attr_int("maxsplit", -1)}};
    VN_ASSERT_EQ(t, text_try(t, &g), VN_ERR_UNSUPPORTED);
    text_free(&g);
}

/* The parts, joined again, are the text; none but the last holds the delimiter. */
VN_TEST(split, parts_join_to_the_text) {
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 300 * vn_test_scale(t); ++i) {
        char text[40];
        const size_t n = (size_t)vn_rng_below(&rng, sizeof text);
        for (size_t k = 0; k < n; ++k) text[k] = "ab,;"[vn_rng_below(&rng, 4)];
        const char *delimiter = vn_rng_below(&rng, 2) ? "," : ",;";
        const int64_t most = (int64_t)vn_rng_below(&rng, 6);
        const vn_string_t s = {text, n};
        text_node_t c = {.op = "StringSplit",
                         .version = 20,
                         .n_in = 1,
                         .n_out = 2,
                         .in = {text_vector(t, 1, &s)},
                         .attrs = {attr_text("delimiter", delimiter), attr_int("maxsplit", most)}};
        text_run(t, &c);
        const vn_string_t *part = c.out[0].tensor->data;
        const int64_t parts = vn_tensor_get_i64(c.out[1].tensor, 0);
        VN_ASSERT(t, parts == c.out[0].dims[1] && parts >= 1 && parts <= most + 1);
        size_t at = 0;
        for (int64_t k = 0; k < parts; ++k) {
            VN_ASSERT(t, at + part[k].length <= n && memcmp(text + at, part[k].text, part[k].length) == 0);
            at += part[k].length;
            if (k + 1 == parts) break;
            VN_ASSERT(t, !memmem(part[k].text, part[k].length, delimiter, strlen(delimiter)));
            VN_ASSERT(t, memcmp(text + at, delimiter, strlen(delimiter)) == 0);
            at += strlen(delimiter);
        }
        VN_ASSERT_EQ(t, at, n);
        VN_ASSERT(t, parts == most + 1 || !memmem(part[parts - 1].text, part[parts - 1].length, delimiter, strlen(delimiter)));
        text_free(&c);
    }
}

/* ---- StringNormalizer ---- */

static text_node_t normalizer(vn_tensor_t *x, const char *change, const char *locale) {
    text_node_t c = {.op = "StringNormalizer", .version = 10, .n_in = 1, .in = {x}, .attrs = {attr_text("case_change_action", change)}};
    if (locale) c.attrs[1] = attr_text("locale", locale);
    return c;
}

VN_TEST(normalizer, simple_and_full_case) {
    text_node_t c = normalizer(VECTOR(TEXT("Stra\xC3\x9F"
                                           "e"),
                                      TEXT("\xEF\xAC\x81"),
                                      TEXT("\xC3\xA9"
                                           "e\xCC\x81"),
                                      TEXT("i\xC4\xB1"), TEXT("")),
                               "UPPER", NULL);
    text_run(t, &c); /* sharp s, ligature fi, e acute both ways, dotless i */
    IS_VECTOR(c.out[0].tensor,
              TEXT("STRA\xC3\x9F"
                   "E"),
              TEXT("\xEF\xAC\x81"),
              TEXT("\xC3\x89"
                   "E\xCC\x81"),
              TEXT("II"), TEXT(""));
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    IS_VECTOR(text_reading(&c.out[0], "full-case-mapping"), TEXT("STRASSE"), TEXT("FI"),
              TEXT("\xC3\x89"
                   "E\xCC\x81"),
              TEXT("II"), TEXT(""));
    text_free(&c);
    text_node_t d =
        normalizer(VECTOR(TEXT("\xCE\x9F\xCE\xA3"), TEXT("\xCE\xA3\xCE\x9F"), TEXT("\xCE\xA3"), TEXT("\xC4\xB0"), TEXT("\xE1\xBA\x9E")),
                   "LOWER", "el_GR");
    text_run(t, &d); /* final sigma, dotted capital I, capital sharp s */
    IS_VECTOR(d.out[0].tensor, TEXT("\xCE\xBF\xCF\x83"), TEXT("\xCF\x83\xCE\xBF"), TEXT("\xCF\x83"), TEXT("i"), TEXT("\xC3\x9F"));
    IS_VECTOR(text_reading(&d.out[0], "full-case-mapping"), TEXT("\xCE\xBF\xCF\x82"), TEXT("\xCF\x83\xCE\xBF"), TEXT("\xCF\x83"),
              TEXT("i\xCC\x87"), TEXT("\xC3\x9F"));
    text_free(&d);
}

VN_TEST(normalizer, locales) {
    text_node_t c = normalizer(VECTOR(TEXT("iI\xC4\xB1\xC4\xB0")), "UPPER", "tr_TR.UTF-8");
    text_run(t, &c);
    IS_VECTOR(c.out[0].tensor, TEXT("\xC4\xB0II\xC4\xB0"));
    text_free(&c);
    text_node_t d = normalizer(VECTOR(TEXT("iI\xC4\xB1\xC4\xB0")), "LOWER", "az");
    text_run(t, &d);
    IS_VECTOR(d.out[0].tensor, TEXT("i\xC4\xB1\xC4\xB1i"));
    text_free(&d);
    text_node_t f = normalizer(VECTOR(TEXT("iI")), "LOWER", "lt_LT");
    VN_ASSERT_EQ(t, text_try(t, &f), VN_ERR_UNSUPPORTED);
    text_free(&f);
    text_node_t g = normalizer(VECTOR(TEXT("iI")), "NONE", "lt_LT"); /* nothing to map: no locale is asked */
    text_run(t, &g);
    IS_VECTOR(g.out[0].tensor, TEXT("iI"));
    text_free(&g);
}

VN_TEST(normalizer, stop_words) {
    const vn_string_t stops[] = {TEXT("monday"), TEXT("S")};
    text_node_t c = normalizer(VECTOR(TEXT("Monday"), TEXT("tuesday"), TEXT("monday"), TEXT("s")), "UPPER", NULL);
    c.attrs[1] = attr_texts("stopwords", 2, stops);
    c.attrs[2] = attr_int("is_case_sensitive", 1);
    text_run(t, &c);
    IS_VECTOR(c.out[0].tensor, TEXT("MONDAY"), TEXT("TUESDAY"), TEXT("S"));
    text_free(&c);
    text_node_t d = normalizer(VECTOR(TEXT("Monday"), TEXT("Tuesday"), TEXT("s")), "NONE", NULL);
    d.attrs[1] = attr_texts("stopwords", 2, stops);
    text_run(t, &d);
    IS_VECTOR(d.out[0].tensor, TEXT("Tuesday"));
    VN_ASSERT_EQ(t, d.out[0].n_readings, 0);
    text_free(&d);
    /* The long s equals s in upper case only: the text does not say in which case words are compared. */
    text_node_t f = normalizer(VECTOR(TEXT("\xC5\xBF"), TEXT("x")), "NONE", NULL);
    f.attrs[1] = attr_texts("stopwords", 2, stops);
    text_run(t, &f);
    IS_VECTOR(f.out[0].tensor, TEXT("\xC5\xBF"), TEXT("x"));
    IS_VECTOR(text_reading(&f.out[0], "stop-words-in-the-other-case"), TEXT("x"));
    text_free(&f);
}

VN_TEST(normalizer, nothing_left) {
    const vn_string_t stops[] = {TEXT("a")}, x[] = {TEXT("a"), TEXT("A")};
    text_node_t c = {.op = "StringNormalizer",
                     .version = 10,
                     .n_in = 1,
                     .in = {text_tensor(t, 2, (int64_t[]){1, 2}, x)},
                     .attrs = {attr_texts("stopwords", 1, stops)}};
    text_run(t, &c);
    text_is(t, c.out[0].tensor, 2, (int64_t[]){1, 1}, (vn_string_t[]){TEXT("")});
    text_free(&c);
    text_node_t d = {.op = "StringNormalizer", .version = 10, .n_in = 1, .in = {text_tensor(t, 1, (int64_t[]){0}, NULL)}};
    text_run(t, &d);
    IS_VECTOR(d.out[0].tensor, TEXT(""));
    text_free(&d);
}

VN_TEST(normalizer, refuses) {
    static const vn_string_t broken[] = {TEXT("\xC0\x80"),  TEXT("\xED\xA0\x80"), TEXT("\xF4\x90\x80\x80"),
                                         TEXT("a\xE2\x82"), TEXT("\x80"),         TEXT("\xC1\xBF")};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i) { /* overlong, surrogate, too large, cut off, stray, overlong */
        text_node_t c = normalizer(text_vector(t, 1, &broken[i]), "UPPER", NULL);
        VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_RANGE);
        text_free(&c);
        text_node_t d = normalizer(text_vector(t, 1, &broken[i]), "NONE", NULL); /* bytes pass where nothing reads them */
        text_run(t, &d);
        IS_VECTOR(d.out[0].tensor, broken[i]);
        text_free(&d);
    }
    const vn_string_t x[] = {TEXT("a"), TEXT("b")};
    text_node_t c = normalizer(text_tensor(t, 2, (int64_t[]){2, 1}, x), "UPPER", NULL);
    VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_SHAPE);
    text_free(&c);
    text_node_t d = normalizer(VECTOR(TEXT("a")), "TITLE", NULL);
    VN_ASSERT_EQ(t, text_try(t, &d), VN_ERR_RANGE);
    text_free(&d);
}

VN_TEST(text, allocations_may_fail) {
    text_node_t c = {.op = "StringConcat", .version = 20, .n_in = 2, .in = {VECTOR(TEXT("a"), TEXT("b")), VECTOR(TEXT("c"))}};
    text_survives(t, &c);
    text_node_t d = {.op = "StringSplit",
                     .version = 20,
                     .n_in = 1,
                     .n_out = 2,
                     .in = {VECTOR(TEXT("a\x1C"
                                        "b c "),
                                   TEXT(""))},
                     .attrs = {attr_int("maxsplit", 1)}};
    text_survives(t, &d);
    const vn_string_t stops[] = {TEXT("a"), TEXT("\xC3\x9F")};
    text_node_t f = normalizer(VECTOR(TEXT("A"), TEXT("ss"), TEXT("\xC5\xBF")), "UPPER", NULL);
    f.attrs[1] = attr_texts("stopwords", 2, stops);
    text_survives(t, &f);
}

VN_TEST_MAIN(VN_CASE(text, allocations_may_fail), VN_CASE(concat, broadcasts_and_keeps_bytes),
             VN_CASE(concat, empty_tensors_and_bad_operands), VN_CASE(split, by_delimiters), VN_CASE(split, by_white_space),
             VN_CASE(split, fills_rows_and_counts), VN_CASE(split, what_the_text_leaves_open), VN_CASE(split, parts_join_to_the_text),
             VN_CASE(normalizer, simple_and_full_case), VN_CASE(normalizer, locales), VN_CASE(normalizer, stop_words),
             VN_CASE(normalizer, nothing_left), VN_CASE(normalizer, refuses))
