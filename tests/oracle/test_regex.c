/* Claim REGEX-1: RegexFullMatch by RE2's rules. Expected values by hand and, for random patterns, by a matcher that walks the tree. */
#include "oracle/text_node.h"

/* -1: whatever; else the answer for one text. Returns false where there is no matcher on this machine. */
static bool ask(vn_test_t *t, const char *pattern, size_t length, vn_string_t text, vn_status_t due, bool *yes) {
    text_node_t c = {.op = "RegexFullMatch", .version = 20, .n_in = 1, .in = {text_vector(t, 1, &text)}};
    c.attrs[0] = (vn_attr_t){.name = "pattern", .kind = VN_ATTR_STRING, .s = {(char *)(uintptr_t)pattern, length}};
    const vn_status_t s = text_try(t, &c);
    const bool absent = s == VN_ERR_UNSUPPORTED && strstr(c.err.text, "install Debian package");
    if (!absent && s != due) vn_test_fail(t, __FILE__, __LINE__, "pattern '%s': %s: %s", pattern, vn_status_name(s), s ? c.err.text : "");
    if (s == VN_OK) *yes = vn_tensor_get_i64(c.out[0].tensor, 0) != 0;
    text_free(&c);
    return !absent;
}

static const struct {
    const char *pattern;
    vn_string_t text;
    bool yes;
} table[] = {
    {"", TEXT(""), true},
    {"", TEXT("a"), false},
    {"a|b", TEXT("b"), true},
    {"a|ab", TEXT("ab"), true}, /* full match: the second branch */
    {"a*?", TEXT("aaa"), true}, /* lazy is no limit */
    {"(?U)a+b", TEXT("aab"), true},
    {"a.c", TEXT("a\nc"), false},
    {"(?s)a.c", TEXT("a\nc"), true},
    {"(?s:a.)c.", TEXT("a\nc\n"), false},
    {"[^a]", TEXT("\n"), true},
    {".", TEXT("\xE2\x82\xAC"), true}, /* one code point */
    {"..", TEXT("\xE2\x82\xAC"), false},
    {".", TEXT("\xFF"), false}, /* no UTF-8 */
    {".*", TEXT("a\xED\xA0\x80"), false},
    {"a$", TEXT("a\n"), false}, /* $ is the very end */
    {"(?m)a$\\n^b", TEXT("a\nb"), true},
    {"a$\\nb", TEXT("a\nb"), false},
    {"(?m)a\\n^", TEXT("a\n"), true}, /* even behind the last line break */
    {"\\Aa\\z", TEXT("a"), true},
    {"^*a", TEXT("a"), true},
    {"(?:\\b)+a\\B..", TEXT("abc"), true},
    {"\\s", TEXT("\v"), false}, /* RE2: [\t\n\f\r ] */
    {"\\S", TEXT("\v"), true},
    {"[[:space:]]", TEXT("\v"), true},
    {"\\v", TEXT("\v"), true}, /* the vertical tab only */
    {"\\v", TEXT("\n"), false},
    {"\\w", TEXT("\xC3\xA9"), false}, /* ASCII */
    {"\\W", TEXT("\xC3\xA9"), true},
    {"\\d", TEXT("\xD9\xA1"), false},
    {"[\\d_]+", TEXT("1_2"), true},
    {"[^\\d]", TEXT("x"), true},
    {"[[:^alpha:]x]+", TEXT("1x"), true},
    {"[]a]+", TEXT("]a"), true},
    {"[a-]+", TEXT("a-"), true},
    {"[\\w-z]+", TEXT("-z"), true},
    {"[[:alpha]+", TEXT("[:alph"), true}, /* no class: its characters */
    {"(?i)stra\xC3\x9F"
     "e",
     TEXT("STRA\xE1\xBA\x9E"
          "E"),
     true},
    {"(?i)k", TEXT("\xE2\x84\xAA"), true}, /* Kelvin sign */
    {"(?i)\\w", TEXT("\xC5\xBF"), true},   /* long s folds into \w */
    {"\\w", TEXT("\xC5\xBF"), false},
    {"(?i)\\W", TEXT("\xC5\xBF"), false},
    {"(?i)[\\W]", TEXT("s"), false},
    {"(?i)[^k]", TEXT("\xE2\x84\xAA"), false},
    {"(?i:a)b", TEXT("AB"), false},
    {"a(?i)b|c", TEXT("C"), true}, /* to the end of the group, across | */
    {"(a(?i)b)c", TEXT("aBC"), false},
    {"(?-i)a", TEXT("a"), true},
    {"a(?i)*", TEXT("aaa"), true}, /* a flag group is nothing: a is repeated */
    {"a{2}", TEXT("aa"), true},
    {"a{2,}", TEXT("a"), false},
    {"a{,2}", TEXT("a{,2}"), true}, /* no count: its characters */
    {"a{2,3}b", TEXT("aaaab"), false},
    {"x{02}", TEXT("x{02}"), true},
    {"{", TEXT("{"), true},
    {"\\Qa.b\\E+", TEXT("a.bb"), true},
    {"\\Q.\\E", TEXT("a"), false},
    {"\\x41\\x{1F600}\\101\\0",
     TEXT("A\xF0\x9F\x98\x80"
          "A\0"),
     true},
    {"\\.\\*\\-\\_", TEXT(".*-_"), true},
    {"(?P<n>a)(?<m>b)", TEXT("ab"), true},
    {"\\p{Greek}\\pL\\P{Lu}\\p{^Lu}",
     TEXT("\xCE\xB1"
          "abc"),
     true},
    {"[^\\p{L}]", TEXT("1"), true},
    {"\\p{Any}", TEXT("\xF0\x9F\x98\x80"), true},
    {"\\P{Any}", TEXT("a"), false},
    {"[^\\P{Any}]", TEXT("a"), true},
    {"\\p{Han}", TEXT("\xE3\x80\x82"), false}, /* script, not script extensions */
    {"\\pC", TEXT("\xF3\x90\x80\x80"), false}, /* unassigned is not in RE2's C */
    {"()", TEXT(""), true},
    {"(|a)*", TEXT("aaa"), true},
    {"(a*)*b", TEXT("aab"), true},
    {"www\\.[\\w.-]+\\.\\bcom\\b", TEXT("www.google.com"), true},
};

VN_TEST(regex, table_of_meanings) {
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        bool yes = false;
        if (!ask(t, table[i].pattern, strlen(table[i].pattern), table[i].text, VN_OK, &yes)) skip();
        if (yes != table[i].yes)
            vn_test_fail(t, __FILE__, __LINE__, "row %zu: pattern '%s' and '%s': %d", i, table[i].pattern, table[i].text.text, yes);
    }
}

static const struct {
    const char *pattern;
    vn_status_t due;
} refused[] = {
    {"*a", VN_ERR_RANGE},
    {"a**", VN_ERR_RANGE},
    {"a++", VN_ERR_RANGE},
    {"(*a)", VN_ERR_RANGE},
    {"|+", VN_ERR_RANGE},
    {"a{1001}", VN_ERR_RANGE},
    {"(a{100}){11}", VN_ERR_RANGE},
    {"a{3,2}", VN_ERR_RANGE},
    {"(a", VN_ERR_RANGE},
    {"a)", VN_ERR_RANGE},
    {"[a", VN_ERR_RANGE},
    {"[z-a]", VN_ERR_RANGE},
    {"[a-\\d]", VN_ERR_UNSUPPORTED},
    {"[[:foo:]]", VN_ERR_RANGE},
    {"[[:d:]]", VN_ERR_RANGE},
    {"\\", VN_ERR_RANGE},
    {"\\x4", VN_ERR_RANGE},
    {"\\x{110000}", VN_ERR_RANGE},
    {"\\x{}", VN_ERR_RANGE},
    {"\xFF", VN_ERR_RANGE},
    {"(?P<a>x)(?P<a>y)", VN_ERR_RANGE},
    {"(?P<a b>x)", VN_ERR_RANGE},
    {"(?-:a)", VN_ERR_RANGE},
    {"(?q)a", VN_ERR_RANGE},
    {"\\p{greek}", VN_ERR_RANGE},
    {"\\p{", VN_ERR_RANGE},
    {"\\p{Nosuch}", VN_ERR_UNSUPPORTED},
    {"(a)\\1", VN_ERR_UNSUPPORTED},
    {"(?=a)", VN_ERR_UNSUPPORTED},
    {"(?!a)", VN_ERR_UNSUPPORTED},
    {"(?<=a)b", VN_ERR_UNSUPPORTED},
    {"(?<!a)b", VN_ERR_UNSUPPORTED},
    {"(?>a)", VN_ERR_UNSUPPORTED},
    {"(?#c)", VN_ERR_UNSUPPORTED},
    {"(?x)a b", VN_ERR_UNSUPPORTED},
    {"(?P=n)", VN_ERR_UNSUPPORTED},
    {"(?R)", VN_ERR_UNSUPPORTED},
    {"\\C", VN_ERR_UNSUPPORTED},
    {"\\Z", VN_ERR_UNSUPPORTED},
    {"\\K", VN_ERR_UNSUPPORTED},
    {"\\h", VN_ERR_UNSUPPORTED},
    {"\\X", VN_ERR_UNSUPPORTED},
    {"\\G", VN_ERR_UNSUPPORTED},
    {"[\\b]", VN_ERR_UNSUPPORTED},
    {"(?i)\\pL", VN_ERR_UNSUPPORTED},
};

VN_TEST(regex, refuses_what_re2_has_not) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        bool yes;
        if (!ask(t, refused[i].pattern, strlen(refused[i].pattern), TEXT("a"), refused[i].due, &yes)) skip();
    }
}

VN_TEST(regex, effort_is_bounded) {
    /* Exponential for a matcher that tries one way after the other; a short walk for one that tries all at once. */
    char text[4001];
    bool yes = true;
    memset(text, 'a', sizeof text);
    if (!ask(t, "(a|aa|a*)+b", 11, (vn_string_t){text, 4000}, VN_OK, &yes)) skip();
    VN_ASSERT(t, !yes);
    char deep[500];
    memset(deep, '(', sizeof deep);
    VN_ASSERT(t, ask(t, deep, sizeof deep, TEXT("a"), VN_ERR_UNSUPPORTED, &yes));
}

VN_TEST(regex, shapes) {
    text_node_t c = {.op = "RegexFullMatch",
                     .version = 20,
                     .n_in = 1,
                     .in = {text_tensor(t, 2, (int64_t[]){2, 0}, NULL)},
                     .attrs = {attr_text("pattern", "a")}};
    if (text_try(t, &c) == VN_ERR_UNSUPPORTED) skip();
    VN_ASSERT(t, c.out[0].dtype == VN_BOOL && c.out[0].rank == 2 && c.out[0].dims[0] == 2 && c.out[0].dims[1] == 0);
    text_free(&c);
    text_node_t d = {.op = "RegexFullMatch", .version = 20, .n_in = 1, .in = {text_tensor(t, 1, (int64_t[]){0}, NULL)}};
    VN_ASSERT_EQ(t, text_try(t, &d), VN_ERR_USAGE); /* no pattern */
    text_free(&d);
}

/* ---- random patterns ---- */

typedef struct tree {
    int kind; /* 0 letter, 1 any, 2 class, 3 sequence, 4 choice, 5 repetition */
    char letter;
    int lo, hi; /* of a repetition; hi -1: no limit */
    struct tree *a, *b;
} tree_t;
typedef struct grove {
    tree_t trees[400];
    int n;
} grove_t;

static tree_t *grow(grove_t *g, vn_rng_t *rng, int depth) {
    tree_t *x = &g->trees[g->n++];
    *x = (tree_t){.kind = (int)vn_rng_below(rng, depth > 0 ? 6 : 3), .letter = "abc"[vn_rng_below(rng, 3)]};
    if (x->kind >= 3) x->a = grow(g, rng, depth - 1);
    if (x->kind == 3 || x->kind == 4) x->b = grow(g, rng, depth - 1);
    if (x->kind == 5) {
        x->lo = (int)vn_rng_below(rng, 3);
        x->hi = vn_rng_below(rng, 2) ? -1 : x->lo + (int)vn_rng_below(rng, 3);
    }
    return x;
}

static void spell(vn_text_t *out, const tree_t *x) {
    switch (x->kind) {
    case 0: vn_text_printf(out, "%c", x->letter); break;
    case 1: vn_text_add(out, "."); break;
    case 2: vn_text_printf(out, "[^%c]", x->letter); break;
    case 3:
        spell(out, x->a);
        spell(out, x->b);
        break;
    case 4:
        vn_text_add(out, "(");
        spell(out, x->a);
        vn_text_add(out, "|");
        spell(out, x->b);
        vn_text_add(out, ")");
        break;
    default:
        vn_text_add(out, "(?:");
        spell(out, x->a);
        if (x->hi < 0) vn_text_printf(out, "){%d,}", x->lo);
        else vn_text_printf(out, "){%d,%d}", x->lo, x->hi);
    }
}

/* Bit i of the result: the tree can end at i, when it may begin at each bit of `from`. */
static uint32_t ends(const tree_t *x, const char *s, int n, uint32_t from) {
    uint32_t to = 0;
    switch (x->kind) {
    case 3: return ends(x->b, s, n, ends(x->a, s, n, from));
    case 4: return ends(x->a, s, n, from) | ends(x->b, s, n, from);
    case 5:
        for (int k = 0; k <= (x->hi < 0 ? x->lo + n : x->hi); ++k) {
            if (k >= x->lo) to |= from;
            from = ends(x->a, s, n, from);
        }
        return to;
    default:
        for (int i = 0; i < n; ++i) {
            const bool fits = x->kind == 0 ? s[i] == x->letter : x->kind == 1 ? s[i] != '\n' : s[i] != x->letter;
            if (from >> i & 1 && fits) to |= UINT32_C(1) << (i + 1);
        }
        return to;
    }
}

VN_TEST(regex, agrees_with_walking_the_tree) {
    vn_rng_t rng = vn_test_rng(t);
    static grove_t g;
    int matched = 0, cases = 400 * vn_test_scale(t);
    for (int i = 0; i < cases; ++i) {
        char s[12];
        const int n = (int)vn_rng_below(&rng, sizeof s);
        for (int k = 0; k < n; ++k) s[k] = "abc\n"[vn_rng_below(&rng, i % 4 ? 3 : 4)];
        g.n = 0;
        const tree_t *x = grow(&g, &rng, 4);
        vn_text_t pattern = {0};
        spell(&pattern, x);
        bool yes = false;
        const bool due = ends(x, s, n, 1) >> n & 1, there = ask(t, pattern.data, pattern.length, (vn_string_t){s, (size_t)n}, VN_OK, &yes);
        if (there && yes != due) vn_test_fail(t, __FILE__, __LINE__, "pattern '%s' and '%.*s': %d", pattern.data, n, s, yes);
        matched += due;
        vn_text_free(&pattern);
        if (!there) skip();
    }
    VN_ASSERT(t, matched > cases / 20 && matched < cases);
}

VN_TEST(regex, allocations_may_fail) {
    text_node_t c = {.op = "RegexFullMatch",
                     .version = 20,
                     .n_in = 1,
                     .in = {text_vector(t, 2, (vn_string_t[]){TEXT("ab"), TEXT("")})},
                     .attrs = {attr_text("pattern", "(a|b{2,}|[[:alpha:]]\\pL)*")}};
    text_survives(t, &c);
}

VN_TEST_MAIN(VN_CASE(regex, allocations_may_fail), VN_CASE(regex, table_of_meanings), VN_CASE(regex, refuses_what_re2_has_not),
             VN_CASE(regex, effort_is_bounded), VN_CASE(regex, shapes), VN_CASE(regex, agrees_with_walking_the_tree))
