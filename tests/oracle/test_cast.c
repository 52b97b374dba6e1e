/* Claims CAST-1 to CAST-4: Cast between all types, against a twin that knows a format only as a sorted list of its members. */
#include "oracle/cast_text.h"
#include "oracle/elementwise.h"
#include "oracle/one_node.h"

/* ---- the twin: members of a small format from its definition, rounding by searching the list ---- */

typedef struct small {
    vn_dtype_t type;
    int exponent_bits, fraction_bits, bias;
    double max;
    bool inf, fnuz;
} small_t;

static const small_t formats[] = {
    {VN_F16, 5, 10, 15, 65504, true, false},   {VN_BF16, 8, 7, 127, 0x1.fep127, true, false},
    {VN_F8E4M3FN, 4, 3, 7, 448, false, false}, {VN_F8E4M3FNUZ, 4, 3, 8, 240, false, true},
    {VN_F8E5M2, 5, 2, 15, 57344, true, false}, {VN_F8E5M2FNUZ, 5, 2, 16, 57344, false, true},
    {VN_F4E2M1, 2, 1, 1, 6, false, false},
};

typedef struct list {
    double member[33000];
    int n; /* the last entry is the first number that does not exist: rounding to it is overflow */
} list_t;

static void build_list(const small_t *f, list_t *l) {
    l->n = 0;
    for (int code = 0; code < 1 << (f->exponent_bits + f->fraction_bits); ++code) {
        const int e = code >> f->fraction_bits, m = code & ((1 << f->fraction_bits) - 1);
        const double v = e ? ldexp((1 << f->fraction_bits) + m, e - f->bias - f->fraction_bits) : ldexp(m, 1 - f->bias - f->fraction_bits);
        if (v > f->max) break;
        l->member[l->n++] = v;
    }
    l->member[l->n] = 2 * l->member[l->n - 1] - l->member[l->n - 2]; /* same spacing */
    l->n++;
}

/* Nearest member; ties to the even code, which is the even index. NaN for overflow is told by *over. */
static double nearest(const list_t *l, double x, bool *over) {
    const double a = fabs(x);
    int lo = 0, hi = l->n - 1;
    *over = false;
    if (a >= l->member[hi]) {
        *over = true;
        return x;
    }
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (l->member[mid] <= a) lo = mid;
        else hi = mid;
    }
    const double below = a - l->member[lo], above = l->member[hi] - a;
    const int k = below < above || (below == above && lo % 2 == 0) ? lo : hi;
    *over = k == l->n - 1;
    return copysign(l->member[k], x);
}

static double twin(const small_t *f, const list_t *l, double x, bool saturate, int version) {
    if (isnan(x)) return NAN;
    const bool eight = vn_dtype_bits(f->type) <= 8;
    saturate = (saturate && eight) || f->type == VN_F4E2M1;
    if (isinf(x)) {
        if (f->fnuz && version < 24) return NAN;
        return saturate ? copysign(f->max, x) : f->inf ? x : NAN;
    }
    bool over;
    double y = nearest(l, x, &over);
    if (over) return saturate ? copysign(f->max, x) : f->inf ? copysign(INFINITY, x) : NAN;
    return f->fnuz && y == 0 ? 0 : y;
}

static void same_numbers(vn_test_t *t, const char *what, double x, double got, double want) {
    const bool equal = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
    if (!equal) vn_test_fail(t, __FILE__, __LINE__, "%s: cast of %a gives %a, expected %a", what, x, got, want);
}

static void cast_all(vn_test_t *t, vn_tensor_t *x, const small_t *f, const list_t *l, bool saturate, int version) {
    one_node_t c = {.op = "Cast",
                    .version = version,
                    .n_in = 1,
                    .in = {x},
                    .want = VN_WANT_BOUND,
                    .attrs = {{"to", ONE_INT, f->type, NULL}, {"saturate", ONE_INT, saturate, NULL}}};
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].demand_equal);
    for (int64_t i = 0; i < x->count; ++i) {
        const double v = vn_tensor_get_f64(x, i), want = twin(f, l, v, saturate, version);
        if (f->type == VN_F4E2M1 && isnan(v)) {
            VN_ASSERT(t, c.out[0].flags && (c.out[0].flags[i] & VN_EL_VOID));
            continue;
        }
        same_numbers(t, vn_dtype_name(f->type), v, vn_tensor_get_f64(c.out[0].tensor, i), want);
    }
    vn_ref_free(&c.out[0]);
}

VN_TEST(cast, every_f16_to_small_floats) {
    static list_t l;
    const int64_t count = 65536;
    vn_tensor_t *x = one_tensor(t, VN_F16, 1, &count);
    for (int i = 0; i < 65536; ++i) ((uint16_t *)x->data)[i] = (uint16_t)i;
    for (size_t k = 1; k < sizeof formats / sizeof *formats; ++k) {
        build_list(&formats[k], &l);
        cast_all(t, x, &formats[k], &l, true, 24);
        cast_all(t, x, &formats[k], &l, false, 24);
        if (formats[k].fnuz) cast_all(t, x, &formats[k], &l, true, 19);
    }
    vn_tensor_free(x);
}

/* f32 and f64 around every midpoint of the target: the tie, one unit to either side, and a hair that f32 cannot hold. */
VN_TEST(cast, midpoints_of_every_format) {
    static list_t l;
    static double v[4 * 33000];
    for (size_t k = 0; k < sizeof formats / sizeof *formats; ++k) {
        build_list(&formats[k], &l);
        int64_t n = 0;
        const int step = l.n > 4096 ? 37 : 1;
        for (int i = 0; i + 1 < l.n; i += step) {
            const double mid = (l.member[i] + l.member[i + 1]) / 2;
            v[n++] = mid;
            v[n++] = -nextafter(mid, 0);
            v[n++] = nextafter(mid, INFINITY);
            v[n++] = mid * (1 + 0x1p-30);
        }
        vn_tensor_t *x = one_vector(t, VN_F64, n, v);
        cast_all(t, x, &formats[k], &l, true, 24);
        vn_tensor_free(x);
        x = one_vector(t, VN_F32, n, v);
        cast_all(t, x, &formats[k], &l, false, 24);
        vn_tensor_free(x);
    }
}

/* Through f32 first, f64 to f16 gives another number: the very fault that must not pass. */
VN_TEST(cast, double_rounding_is_outside) {
    const double v = 1 + 0x1p-11 + 0x1p-40;
    one_node_t c = {.op = "Cast",
                    .version = 21,
                    .n_in = 1,
                    .in = {one_scalar(t, VN_F64, v)},
                    .attrs = {{"to", ONE_INT, VN_F16, NULL}},
                    .want = VN_WANT_BOUND};
    one_run(t, &c);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 0), 1 + 0x1p-10);
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F16, (double)(float)v, VN_RNE, false), 1.0);
    one_free(&c);
}

/* ---- integers ---- */

static int64_t cast_int(vn_test_t *t, vn_dtype_t from, int64_t v, vn_dtype_t to) {
    one_node_t c = {.op = "Cast", .version = 21, .n_in = 1, .in = {one_ints(t, from, 1, &v)}, .attrs = {{"to", ONE_INT, to, NULL}}};
    one_run(t, &c);
    const int64_t r = vn_tensor_get_i64(c.out[0].tensor, 0);
    one_free(&c);
    return r;
}

VN_TEST(cast, integers_keep_low_bits) {
    VN_ASSERT_EQ(t, cast_int(t, VN_I16, 200, VN_I8), -56);
    VN_ASSERT_EQ(t, cast_int(t, VN_I32, -1, VN_U8), 255);
    VN_ASSERT_EQ(t, cast_int(t, VN_I64, 0x1234567890, VN_U16), 0x7890);
    VN_ASSERT_EQ(t, cast_int(t, VN_I8, 9, VN_I4), -7);
    VN_ASSERT_EQ(t, cast_int(t, VN_U8, 255, VN_U4), 15);
    VN_ASSERT_EQ(t, cast_int(t, VN_I64, 256, VN_BOOL), 1);
    VN_ASSERT_EQ(t, cast_int(t, VN_BOOL, 1, VN_U64), 1);
}

/* 64-bit integers round once, however close to a tie they lie. */
VN_TEST(cast, wide_integers_round_once) {
    const int64_t v[] = {(INT64_C(1) << 62) + (INT64_C(1) << 38) + 1,
                         (INT64_C(1) << 62) + (INT64_C(1) << 38),
                         -((INT64_C(1) << 62) + (INT64_C(1) << 38) + 1),
                         INT64_MAX,
                         INT64_MIN,
                         (INT64_C(1) << 53) + 1,
                         (INT64_C(1) << 24) + 1};
    one_node_t c = {.op = "Cast", .version = 21, .n_in = 1, .in = {one_ints(t, VN_I64, 7, v)}, .attrs = {{"to", ONE_INT, VN_F32, NULL}}};
    one_run(t, &c);
    for (int i = 0; i < 7; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), (double)(float)v[i]); /* hardware rounds once */
    one_free(&c);
    const int64_t u[] = {-1, INT64_MIN + 1};
    one_node_t d = {.op = "Cast", .version = 21, .n_in = 1, .in = {one_ints(t, VN_U64, 2, u)}, .attrs = {{"to", ONE_INT, VN_F64, NULL}}};
    one_run(t, &d);
    for (int i = 0; i < 2; ++i) VN_ASSERT_DEQ(t, d.out[0].value[i], (double)(uint64_t)u[i]);
    one_free(&d);
}

VN_TEST(cast, float_to_integer_readings) {
    const double v[] = {3.7, -0.4, 260, -2, 1e9, NAN, 255.9};
    one_node_t c = {.op = "Cast",
                    .version = 13,
                    .n_in = 1,
                    .in = {one_vector(t, VN_F32, 7, v)},
                    .attrs = {{"to", ONE_INT, VN_U8, NULL}},
                    .want = VN_WANT_BOUND};
    one_run(t, &c);
    const int64_t saturated[] = {3, 0, 255, 0, 255, 0, 255}, low[] = {3, 0, 4, 254, 0, 0, 255};
    VN_ASSERT_EQ(t, c.out[0].n_readings, 2);
    for (int i = 0; i < 7; ++i) {
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), saturated[i]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].readings[0].value, i), low[i]);
        VN_ASSERT_EQ(t, c.out[0].flags[i] == VN_EL_VOID, i >= 2 && i <= 5);
    }
    one_free(&c);
    const double w[] = {3e9, -1.5, 0x1p62};
    one_node_t d = {.op = "Cast",
                    .version = 13,
                    .n_in = 1,
                    .in = {one_vector(t, VN_F32, 3, w)},
                    .attrs = {{"to", ONE_INT, VN_I32, NULL}},
                    .want = VN_WANT_BOUND};
    one_run(t, &d);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].tensor, 0), INT32_MAX);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].tensor, 1), -1);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].readings[1].value, 0), INT32_MIN); /* the indefinite integer */
    one_free(&d);
    const double b[] = {0, -0.0, NAN, 0x1p-149};
    one_node_t e = {.op = "Cast", .version = 13, .n_in = 1, .in = {one_vector(t, VN_F32, 4, b)}, .attrs = {{"to", ONE_INT, VN_BOOL, NULL}}};
    one_run(t, &e);
    for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(e.out[0].tensor, i), i >= 2);
    one_free(&e);
}

/* ---- f8e8m0 ---- */

VN_TEST(cast, powers_of_two) {
    static const struct {
        const char *mode;
        int saturate;
        double x, y;
    } table[] = {
        {"up", 1, 1.01, 2},
        {"down", 1, 1.99, 1},
        {"nearest", 1, 1.49, 1},
        {"nearest", 1, 1.5, 2},
        {"up", 1, 0, 0x1p-127},
        {"nearest", 0, 0, NAN},
        {"up", 1, INFINITY, 0x1p127},
        {"nearest", 0, INFINITY, NAN},
        {"up", 1, 0x1.8p127, 0x1p127},
        {"nearest", 0, 0x1.8p127, NAN},
        {"up", 1, NAN, NAN},
        {"up", 1, 4, 4},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        one_node_t c = {.op = "Cast",
                        .version = 24,
                        .n_in = 1,
                        .in = {one_scalar(t, VN_F32, table[k].x)},
                        .want = VN_WANT_BOUND,
                        .attrs = {{"to", ONE_INT, VN_F8E8M0, NULL},
                                  {"saturate", ONE_INT, table[k].saturate, NULL},
                                  {"round_mode", ONE_TEXT, 0, table[k].mode}}};
        one_run(t, &c);
        same_numbers(t, table[k].mode, table[k].x, vn_tensor_get_f64(c.out[0].tensor, 0), table[k].y);
        one_free(&c);
    }
}

/* ---- strings ---- */

static void spells(vn_test_t *t, vn_dtype_t type, double x, vn_spelling_t how, const char *want) {
    char text[VN_CAST_TEXT_MAX];
    const int n = vn_spell_float(type, x, how, text);
    VN_ASSERT_STR(t, text, want);
    VN_ASSERT_EQ(t, n, (int)strlen(want));
}

VN_TEST(cast, spelling) {
    spells(t, VN_F32, 0.1f, VN_SPELL_PLAIN, "0.1");
    spells(t, VN_F32, 314.15926f, VN_SPELL_PLAIN, "314.15927");
    spells(t, VN_F32, -2, VN_SPELL_PLAIN, "-2.0");
    spells(t, VN_F32, 0, VN_SPELL_PLAIN, "0.0");
    spells(t, VN_F32, -0.0, VN_SPELL_PLAIN, "-0.0");
    spells(t, VN_F32, 1e20f, VN_SPELL_PLAIN, "100000000000000000000.0");
    spells(t, VN_F32, 1e20f, VN_SPELL_REPR, "1e+20");
    spells(t, VN_F32, 1.5e-7f, VN_SPELL_PLAIN, "0.00000015");
    spells(t, VN_F32, 0.47892547f, VN_SPELL_GENERAL, "0.47892547");
    spells(t, VN_F64, 1.0 / 3, VN_SPELL_PLAIN, "0.3333333333333333");
    spells(t, VN_F16, 0.0999755859375, VN_SPELL_PLAIN, "0.1");
    spells(t, VN_F32, INFINITY, VN_SPELL_PLAIN, "INF");
    spells(t, VN_F32, NAN, VN_SPELL_PLAIN, "NaN");
    spells(t, VN_F32, 120, VN_SPELL_PLAIN, "120.0");
    char text[VN_CAST_TEXT_MAX];
    VN_ASSERT(t, vn_spell_float(VN_F64, -DBL_MAX, VN_SPELL_PLAIN, text) < VN_CAST_TEXT_MAX && strtod(text, NULL) == -DBL_MAX);
    VN_ASSERT(t, vn_spell_float(VN_F64, 0x1p-1074, VN_SPELL_PLAIN, text) < VN_CAST_TEXT_MAX && strtod(text, NULL) == 0x1p-1074);
}

VN_TEST(cast, reading_literals) {
    static const struct {
        const char *text;
        bool good;
        double value;
    } table[] = {
        {"3.14", true, 3.14},    {"1000", true, 1000},      {"1e-5", true, 1e-5}, {"1E8", true, 1e8},         {"+INF", true, INFINITY},
        {"inf", true, INFINITY}, {"-Inf", true, -INFINITY}, {"nAn", true, NAN},   {"Hello World!", false, 0}, {"", false, 0},
        {"0x10", false, 0},      {"1e", false, 0},          {" 1", false, 0},     {"1 ", false, 0},           {"infinity", false, 0},
        {".", false, 0},         {"-.5", true, -0.5},       {"--1", false, 0},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        double d = 0;
        VN_ASSERT_EQ(t, vn_read_float(table[k].text, strlen(table[k].text), &d), table[k].good);
        if (table[k].good) same_numbers(t, table[k].text, 0, d, table[k].value);
    }
    int64_t i;
    bool whole;
    VN_ASSERT(t, vn_read_int("-9223372036854775808", 20, false, &i, &whole) && whole && i == INT64_MIN);
    VN_ASSERT(t, !vn_read_int("9223372036854775808", 19, false, &i, &whole));
    VN_ASSERT(t, vn_read_int("18446744073709551615", 20, true, &i, &whole) && i == -1);
    VN_ASSERT(t, vn_read_int("100.5", 5, false, &i, &whole) && !whole && i == 100);
    VN_ASSERT(t, vn_read_int("100.0", 5, false, &i, &whole) && whole && i == 100);
    VN_ASSERT(t, !vn_read_int("1e30", 4, false, &i, &whole));
}

VN_TEST(cast, text_tensors) {
    vn_tensor_t *x = one_tensor(t, VN_STRING, 1, (const int64_t[]){3});
    static const char *const words[] = {"2.5", "-INF", "word"};
    for (int i = 0; i < 3; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, words[i], strlen(words[i]), NULL));
    one_node_t c = {.op = "Cast", .version = 13, .n_in = 1, .in = {x}, .attrs = {{"to", ONE_INT, VN_F32, NULL}}, .want = VN_WANT_BOUND};
    one_run(t, &c);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 0), 2.5);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 1), -INFINITY);
    VN_ASSERT(t, c.out[0].flags && c.out[0].flags[2] == VN_EL_VOID && c.out[0].flags[0] == 0);
    one_free(&c);
    const double v[] = {1, 0};
    one_node_t d = {.op = "Cast",
                    .version = 13,
                    .n_in = 1,
                    .in = {one_vector(t, VN_BOOL, 2, v)},
                    .attrs = {{"to", ONE_INT, VN_STRING, NULL}},
                    .want = VN_WANT_BOUND};
    one_run(t, &d);
    VN_ASSERT_STR(t, ((const vn_string_t *)d.out[0].tensor->data)[0].text, "True");
    VN_ASSERT_EQ(t, d.out[0].n_readings, 1);
    VN_ASSERT_STR(t, ((const vn_string_t *)d.out[0].readings[0].value->data)[1].text, "0");
    one_free(&d);
}

VN_TEST(cast, like_and_refusals) {
    const double v[] = {1.5, -2.5};
    one_node_t c = {.op = "CastLike", .version = 19, .n_in = 2, .in = {one_vector(t, VN_F32, 2, v), one_scalar(t, VN_I8, 0)}};
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dtype, VN_I8);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 1), -2);
    one_free(&c);
    one_node_t d = {.op = "Cast", .version = 28, .n_in = 1, .in = {one_scalar(t, VN_F32, 1)}, .attrs = {{"to", ONE_INT, 27, NULL}}};
    VN_ASSERT_EQ(t, one_try(t, &d), VN_ERR_UNSUPPORTED);
    one_free(&d);
}

VN_TEST_MAIN(VN_CASE(cast, every_f16_to_small_floats), VN_CASE(cast, midpoints_of_every_format), VN_CASE(cast, double_rounding_is_outside),
             VN_CASE(cast, integers_keep_low_bits), VN_CASE(cast, wide_integers_round_once), VN_CASE(cast, float_to_integer_readings),
             VN_CASE(cast, powers_of_two), VN_CASE(cast, spelling), VN_CASE(cast, reading_literals), VN_CASE(cast, text_tensors),
             VN_CASE(cast, like_and_refusals))
