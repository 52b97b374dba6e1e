/* Claim NGRAM-1: n-grams counted and weighted. Expected values by hand, and by a twin that compares every n-gram with every place. */
#include <math.h>

#include "oracle/text_node.h"

typedef struct ngrams {
    const char *mode;
    int64_t shortest, longest, skips;
    int64_t n_starts, n_indexes, n_pool;
    const int64_t *starts, *indexes, *pool;
    const float *weights;
} ngrams_t;

static text_node_t node_of(const ngrams_t *g, vn_tensor_t *x) {
    text_node_t c = {.op = "TfIdfVectorizer", .version = 9, .n_in = 1, .in = {x}};
    int k = 0;
    c.attrs[k++] = attr_text("mode", g->mode);
    c.attrs[k++] = attr_int("min_gram_length", g->shortest);
    c.attrs[k++] = attr_int("max_gram_length", g->longest);
    c.attrs[k++] = attr_int("max_skip_count", g->skips);
    c.attrs[k++] = attr_ints("ngram_counts", g->n_starts, g->starts);
    c.attrs[k++] = attr_ints("ngram_indexes", g->n_indexes, g->indexes);
    if (g->pool) c.attrs[k++] = attr_ints("pool_int64s", g->n_pool, g->pool);
    if (g->weights) c.attrs[k++] = attr_floats("weights", g->n_indexes, g->weights);
    return c;
}

static vn_tensor_t *tokens(vn_test_t *t, vn_dtype_t type, int rank, const int64_t *dims, const int64_t *v) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(type, rank, dims, &x, NULL));
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, v[i]);
    return x;
}

static void numbers_are(vn_test_t *t, const vn_tensor_t *x, int64_t n, const double *due) {
    VN_ASSERT_EQ(t, x->count, n);
    for (int64_t i = 0; i < n; ++i) {
        const double got = vn_tensor_get_f64(x, i);
        if (got != due[i]) vn_test_fail(t, __FILE__, __LINE__, "element %lld is %a, %a is due", (long long)i, got, due[i]);
    }
}

/* Two single tokens and three pairs; the indexes are no identity. */
static const int64_t starts[] = {0, 2}, indexes[] = {4, 0, 2, 1, 3}, pool[] = {7, 3, 94, 12, 17, 28, 7, 3},
                     row[] = {94, 17, 36, 12, 28, 7, 3, 7};
static const float weights[] = {0.5f, 3, 0.1f, -2, 7};

VN_TEST(ngrams, skips_and_modes) {
    ngrams_t g = {"TF", 1, 2, 2, 2, 5, 8, starts, indexes, pool, NULL};
    text_node_t c = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){8}, row));
    text_run(t, &c); /* 7: twice; 3: once; (94, 12) at distance 3; (17, 28) at 3; (7, 3) at 1 */
    numbers_are(t, c.out[0].tensor, 5, (double[]){1, 1, 1, 1, 2});
    VN_ASSERT(t, c.out[0].demand_equal && c.out[0].n_readings == 0);
    text_free(&c);
    g.skips = 1; /* distance 3 is out of reach */
    text_node_t d = node_of(&g, tokens(t, VN_I32, 1, (int64_t[]){8}, row));
    text_run(t, &d);
    numbers_are(t, d.out[0].tensor, 5, (double[]){1, 0, 0, 1, 2});
    text_free(&d);
    g.skips = 2;
    g.mode = "IDF";
    g.weights = weights;
    text_node_t f = node_of(&g, tokens(t, VN_I64, 2, (int64_t[]){1, 8}, row));
    text_run(t, &f); /* the weight of each n-gram at its own place */
    numbers_are(t, f.out[0].tensor, 5, (double[]){3, -2, (double)0.1f, 7, 0.5});
    const vn_tensor_t *other = text_reading(&f.out[0], "weights-by-element");
    VN_ASSERT(t, other != NULL);
    numbers_are(t, other, 5, (double[]){0.5, 3, (double)0.1f, -2, 7});
    text_free(&f);
    g.mode = "TFIDF";
    text_node_t h = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){8}, row));
    text_run(t, &h);
    numbers_are(t, h.out[0].tensor, 5, (double[]){3, -2, (double)0.1f, 7, 1});
    text_free(&h);
    g.shortest = 2; /* pairs only */
    text_node_t p = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){8}, row));
    text_run(t, &p);
    numbers_are(t, p.out[0].tensor, 5, (double[]){0, -2, (double)0.1f, 7, 0});
    text_free(&p);
}

VN_TEST(ngrams, of_texts) {
    const vn_string_t words[] = {TEXT("a"), TEXT("\xC3\xA9"), TEXT("a"), TEXT(""), TEXT("a"), TEXT("b")};
    const vn_string_t grams[] = {TEXT("a"), TEXT(""), TEXT("a"), TEXT("\xC3\xA9"), TEXT("A"), TEXT("b")};
    ngrams_t g = {"TF", 1, 2, 0, 2, 4, 0, (int64_t[]){0, 2}, (int64_t[]){0, 1, 2, 3}, NULL, NULL};
    text_node_t c = node_of(&g, text_tensor(t, 2, (int64_t[]){2, 3}, words));
    c.attrs[6] = attr_texts("pool_strings", 6, grams);
    text_run(t, &c);
    numbers_are(t, c.out[0].tensor, 8, (double[]){2, 0, 1, 0, 1, 1, 0, 0});
    text_free(&c);
}

VN_TEST(ngrams, empty_inputs) {
    const ngrams_t g = {"TF", 1, 2, 5, 2, 5, 8, starts, indexes, pool, NULL};
    text_node_t c = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){0}, NULL));
    text_run(t, &c);
    numbers_are(t, c.out[0].tensor, 5, (double[5]){0});
    text_free(&c);
    text_node_t d = node_of(&g, tokens(t, VN_I64, 2, (int64_t[]){0, 3}, NULL));
    text_run(t, &d);
    VN_ASSERT(t, d.out[0].rank == 2 && d.out[0].dims[0] == 0 && d.out[0].dims[1] == 5);
    text_free(&d);
}

/* Weights that are no numbers: an n-gram that is not there "has no effect", 0 times infinity is NaN; both are accepted. */
VN_TEST(ngrams, infinite_weights) {
    const float w[] = {INFINITY, 1, INFINITY, 1, 1};
    const int64_t x[] = {7, 3};
    const ngrams_t g = {"TFIDF", 1, 2, 0, 2, 5, 8, starts, indexes, pool, w};
    text_node_t c = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){2}, x));
    text_run(t, &c);
    numbers_are(t, c.out[0].tensor, 5, (double[]){1, 0, 0, 1, INFINITY});
    VN_ASSERT(t, c.out[0].flags && c.out[0].flags[2] == VN_EL_NAN_OK && !c.out[0].flags[4] && !c.out[0].flags[0]);
    text_free(&c);
}

/* N-grams that share an element: the bound holds for sums in f32 in both orders, is tight, and a lost n-gram is outside. */
VN_TEST(ngrams, shared_elements) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 40 };
    for (int i = 0; i < 50 * vn_test_scale(t); ++i) {
        int64_t grams[N], at[N] = {0}, x[3 * N];
        float w[N];
        for (int k = 0; k < N; ++k) {
            grams[k] = k;
            w[k] = (float)vn_rng_normal(&rng);
        }
        for (int k = 0; k < 3 * N; ++k) x[k] = (int64_t)vn_rng_below(&rng, N);
        const ngrams_t g = {"TFIDF", 1, 1, 0, 1, N, N, (int64_t[]){0}, at, grams, w};
        text_node_t c = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){3 * N}, x));
        text_run(t, &c);
        int64_t count[N] = {0};
        float forth = 0, back = 0;
        double size = 0, largest = 0;
        for (int k = 0; k < 3 * N; ++k) ++count[x[k]];
        for (int k = 0; k < N; ++k) {
            forth += (float)count[k] * w[k];
            back += (float)count[N - 1 - k] * w[N - 1 - k];
            size += fabs((double)count[k] * (double)w[k]);
            largest = fmax(largest, fabs((double)count[k] * (double)w[k]));
        }
        const double y = c.out[0].value[0], bound = c.out[0].bound[0];
        VN_ASSERT_LE(t, fabs(forth - y), bound); /* true */
        VN_ASSERT_LE(t, fabs(back - y), bound);
        VN_ASSERT_LE(t, bound, (N + 3) * 0x1p-24 * size); /* tight: the claim and a store */
        VN_ASSERT_GT(t, largest, bound);                  /* sharp: the largest one lost */
        text_free(&c);
    }
}

/* Every n-gram of the pool against every start and distance. */
VN_TEST(ngrams, agrees_with_comparing_all) {
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 200 * vn_test_scale(t); ++i) {
        enum { LONGEST = 3, EACH = 5 };
        int64_t where[LONGEST], at[EACH * LONGEST], grams[EACH * (1 + 2 + 3)], x[2 * 12], n = 0, total = 0;
        int64_t sizes[EACH * LONGEST], begin[EACH * LONGEST];
        for (int s = 1; s <= LONGEST; ++s) {
            where[s - 1] = total;
            for (int k = 0; k < EACH; ++k) {
                bool fresh = true;
                for (int j = 0; j < s; ++j) grams[total + j] = (int64_t)vn_rng_below(&rng, 5) - 2;
                for (int64_t o = 0; o < n; ++o)
                    fresh &= sizes[o] != s || memcmp(grams + begin[o], grams + total, (size_t)s * sizeof *grams) != 0;
                if (!fresh) continue;
                sizes[n] = s;
                begin[n] = total;
                at[n] = n; /* shuffled below */
                ++n;
                total += s;
            }
        }
        for (int64_t k = n - 1; k > 0; --k) {
            const int64_t o = (int64_t)vn_rng_below(&rng, (uint64_t)k + 1), keep = at[k];
            at[k] = at[o];
            at[o] = keep;
        }
        const int64_t columns = (int64_t)vn_rng_below(&rng, 13), shortest = 1 + (int64_t)vn_rng_below(&rng, 3);
        for (int64_t k = 0; k < 2 * columns; ++k) x[k] = (int64_t)vn_rng_below(&rng, 6) - 2;
        const ngrams_t g = {"TF", shortest, LONGEST, (int64_t)vn_rng_below(&rng, 5), LONGEST, n, total, where, at, grams, NULL};
        double due[2 * EACH * LONGEST] = {0};
        for (int64_t r = 0; r < 2; ++r)
            for (int64_t k = 0; k < n; ++k)
                for (int64_t d = 1; d <= g.skips + 1 && sizes[k] >= shortest; ++d) {
                    if (d > 1 && sizes[k] == 1) break;
                    for (int64_t from = 0; from + (sizes[k] - 1) * d < columns; ++from) {
                        bool same = true;
                        for (int64_t j = 0; j < sizes[k]; ++j) same &= grams[begin[k] + j] == x[r * columns + from + j * d];
                        due[r * n + at[k]] += same;
                    }
                }
        text_node_t c = node_of(&g, tokens(t, VN_I64, 2, (int64_t[]){2, columns}, x));
        text_run(t, &c);
        numbers_are(t, c.out[0].tensor, 2 * n, due);
        text_free(&c);
    }
}

VN_TEST(ngrams, refuses) {
    const ngrams_t good = {"TF", 1, 2, 2, 2, 5, 8, starts, indexes, pool, weights};
    const int64_t twice[] = {7, 7, 94, 12, 17, 28, 7, 3}, odd[] = {0, 3}, back[] = {0, 9}, negative[] = {4, 0, -1, 1, 3};
    ngrams_t bad[8];
    for (int i = 0; i < 8; ++i) bad[i] = good;
    bad[0].mode = "tf";
    bad[1].shortest = 0;
    bad[2].longest = 0;
    bad[3].skips = -1;
    bad[4].starts = odd;
    bad[5].starts = back;
    bad[6].indexes = negative;
    bad[7].pool = twice;
    for (int i = 0; i < 8; ++i) {
        text_node_t c = node_of(&bad[i], tokens(t, VN_I64, 1, (int64_t[]){8}, row));
        VN_ASSERT_EQ(t, text_try(t, &c), i == 7 ? VN_ERR_UNSUPPORTED : VN_ERR_RANGE);
        text_free(&c);
    }
    text_node_t c = node_of(&good, text_vector(t, 1, (vn_string_t[]){TEXT("a")}));
    VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_DTYPE);
    text_free(&c);
    ngrams_t none = good;
    none.pool = NULL;
    text_node_t d = node_of(&none, tokens(t, VN_I64, 1, (int64_t[]){8}, row));
    VN_ASSERT_EQ(t, text_try(t, &d), VN_ERR_USAGE);
    text_free(&d);
}

VN_TEST(ngrams, allocations_may_fail) {
    const ngrams_t g = {"TFIDF", 1, 2, 2, 2, 5, 8, starts, indexes, pool, weights};
    text_node_t c = node_of(&g, tokens(t, VN_I64, 1, (int64_t[]){8}, row));
    text_survives(t, &c);
}

VN_TEST_MAIN(VN_CASE(ngrams, allocations_may_fail), VN_CASE(ngrams, skips_and_modes), VN_CASE(ngrams, of_texts),
             VN_CASE(ngrams, empty_inputs), VN_CASE(ngrams, infinite_weights), VN_CASE(ngrams, shared_elements),
             VN_CASE(ngrams, agrees_with_comparing_all), VN_CASE(ngrams, refuses))
