/* Matrix units against measured hardware: 9,600 results of eight devices, none may differ; and how many differ under a wrong rule, as an independent
 * program counted them. Claim ARITHM-1. A slow twin in MPFR covers what the measured vectors leave out. */
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/arith.h"

enum { CONFIGS = 48, VECTORS = 200, MOST = 32 };

static vn_format_t format_of(const char *name) {
    static const struct {
        const char *name;
        vn_format_t format;
    } names[] = {{"fp16", VN_FMT_F16},    {"bf16", VN_FMT_BF16},     {"tf32", VN_FMT_TF32},
                 {"e5m2", VN_FMT_F8E5M2}, {"e4m3", VN_FMT_F8E4M3FN}, {"fp32", VN_FMT_F32}};
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
        if (strcmp(names[k].name, name) == 0) return names[k].format;
    return VN_FMT_NONE;
}

static double decode(vn_format_t f, const char *hex) {
    const uint32_t bits = (uint32_t)strtoul(hex, NULL, 16);
    if (f == VN_FMT_F32 || f == VN_FMT_TF32) {
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    return vn_decode_small(vn_format_info(f)->dtype, (uint16_t)bits);
}

typedef struct vector {
    char device[16];
    vn_format_t in, out;
    int n;
    double a[MOST], b[MOST], c, d;
} vector_t;

static vector_t *read_vectors(int *count) {
    FILE *file = fopen(VN_TEST_DATA "/schedule/tensor_core_vectors.tsv", "r");
    vector_t *v = calloc(CONFIGS * VECTORS, sizeof *v);
    char line[2048];
    *count = 0;
    while (file && v && fgets(line, sizeof line, file) && *count < CONFIGS * VECTORS) {
        char *field[10] = {0}, *at = line;
        if (*line == '#') continue;
        for (int k = 0; k < 9; ++k) field[k] = strsep(&at, "\t\n");
        vector_t *w = &v[(*count)++];
        snprintf(w->device, sizeof w->device, "%s", field[0]);
        w->in = format_of(field[1]);
        w->out = format_of(field[2]);
        for (int side = 0; side < 2; ++side) {
            char *list = field[4 + side], *item;
            w->n = 0;
            while ((item = strsep(&list, ",")) && w->n < MOST) (side ? w->b : w->a)[w->n++] = decode(w->in, item);
        }
        w->c = decode(w->out, field[6]);
        w->d = decode(w->out, field[7]);
    }
    if (file) fclose(file);
    return v;
}

static int mismatches(vn_test_t *t, const vector_t *v, const vn_fused_unit_t *u) {
    int wrong = 0;
    for (int k = 0; k < VECTORS; ++k) {
        double out;
        vn_error_t err = {0};
        VN_ASSERT(t, vn_fused_dot(u, v[k].n, 1, v[k].a, v[k].b, 1, &v[k].c, &out, &err) == VN_OK);
        wrong += out != v[k].d;
    }
    return wrong;
}

VN_TEST(fused, hardware_vectors) {
    int count;
    vector_t *v = read_vectors(&count);
    FILE *check = fopen(VN_TEST_DATA "/schedule/tensor_core_check.tsv", "r");
    char line[256];
    int config = 0;
    VN_ASSERT(t, count == CONFIGS * VECTORS && check);
    while (fgets(line, sizeof line, check)) {
        char device[16], in[8], out[8], form[8];
        int vectors, one, less, more, half, nearest, split, floor_hit;
        if (*line == '#') continue;
        VN_ASSERT(t, sscanf(line, "%15s %7s %7s %d %d %d %d %d %d %d %d %7s", device, in, out, &vectors, &one, &less, &more, &half,
                            &nearest, &split, &floor_hit, form) == 12);
        const vector_t *w = v + (ptrdiff_t)config++ * VECTORS;
        VN_ASSERT(t, strcmp(w->device, device) == 0 && w->in == format_of(in) && w->out == format_of(out));
        const vn_fused_unit_t *u = vn_fused_unit(device, format_of(in), format_of(out));
        VN_ASSERT(t, u && u->products == w->n);
        const int got = mismatches(t, w, u);
        if (got) vn_test_fail(t, __FILE__, __LINE__, "%s %s %s: %d of %d vectors differ", device, in, out, got, VECTORS);
        if (strcmp(form, "one") != 0) continue;
        /* the wrong rules miss as many as the other program found */
        vn_fused_unit_t wrong = *u;
        wrong.bits = u->bits - 1;
        VN_ASSERT(t, mismatches(t, w, &wrong) == less);
        wrong.bits = u->bits + 1;
        VN_ASSERT(t, mismatches(t, w, &wrong) == more);
        wrong = *u;
        wrong.group = (u->group < w->n ? u->group : w->n) / 2;
        if (mismatches(t, w, &wrong) != half)
            vn_test_fail(t, __FILE__, __LINE__, "%s %s %s: groups of %d: %d differ, not %d", device, in, out, wrong.group,
                         mismatches(t, w, &wrong), half);
    }
    VN_ASSERT(t, config == CONFIGS);
    fclose(check);
    free(v);
}

/* ---- the twin: exact integers of any size by MPFR ---- */

static long floor_log2(double x, long emin) {
    int e;
    frexp(x, &e);
    return e - 1 < emin ? emin : e - 1;
}

static double twin_group(const vn_fused_unit_t *u, int n, const double *a, const double *b, int64_t ld, double c) {
    const long emin = vn_format_info(u->in)->emin;
    long largest = LONG_MIN;
    mpfr_t term, sum;
    for (int i = 0; i < n; ++i) {
        if (a[i] == 0 || b[i * ld] == 0) continue;
        const long e = floor_log2(a[i], emin) + floor_log2(b[i * ld], emin);
        if (e > largest) largest = e;
    }
    if (c != 0 && floor_log2(c, -126) > largest) largest = floor_log2(c, -126);
    if (largest == LONG_MIN) return 0;
    mpfr_init2(term, 300);
    mpfr_init2(sum, 300);
    mpfr_set_zero(sum, 1);
    for (int i = 0; i <= n; ++i) {
        if (i < n) {
            mpfr_set_d(term, a[i], MPFR_RNDN);
            mpfr_mul_d(term, term, b[i * ld], MPFR_RNDN);
        } else {
            mpfr_set_d(term, c, MPFR_RNDN);
        }
        mpfr_mul_2si(term, term, u->bits - largest, MPFR_RNDN);
        mpfr_trunc(term, term);
        mpfr_add(sum, sum, term, MPFR_RNDN);
    }
    mpfr_mul_2si(sum, sum, largest - u->bits, MPFR_RNDN);
    mpfr_t out;
    mpfr_init2(out, u->kept_bits + 1);
    mpfr_set(out, sum, u->final == VN_RZ ? MPFR_RNDZ : MPFR_RNDN);
    const double d = mpfr_get_d(out, MPFR_RNDN);
    mpfr_clears(term, sum, out, (mpfr_ptr)0);
    return d;
}

VN_TEST(fused, twin) {
    const vn_fused_unit_t *units;
    const int n_units = vn_fused_units(&units);
    vn_rng_t rng = vn_test_rng(t);
    VN_ASSERT(t, n_units == CONFIGS);
    for (int round = 0; round < 60 * vn_test_scale(t); ++round) {
        const vn_fused_unit_t *u = &units[vn_rng_below(&rng, (uint64_t)n_units)];
        enum { COLUMNS = 41 };
        double a[96], b[96 * COLUMNS], c[COLUMNS], out[COLUMNS];
        vn_error_t err = {0};
        if (u->form != VN_FUSED_GROUPS || u->out != VN_FMT_F32) continue;
        const int n = 1 + (int)vn_rng_below(&rng, 96);
        const int emin = vn_format_info(u->in)->emin;
        for (int i = 0; i < n * (COLUMNS + 1); ++i) { /* subnormals and zeros among them */
            double *to = i < n ? &a[i] : &b[i - n];
            const double x =
                vn_rng_normal(&rng) * exp2(emin < -100 ? (double)vn_rng_below(&rng, 40) - 20 : (double)vn_rng_below(&rng, 12) + emin - 3);
            *to = vn_rng_below(&rng, 9) ? vn_round_to(u->in, x, VN_RNE, true) : 0;
        }
        for (int j = 0; j < COLUMNS; ++j)
            c[j] = vn_rng_below(&rng, 7)
                       ? vn_round_to(VN_FMT_F32, vn_rng_normal(&rng) * exp2((double)vn_rng_below(&rng, 30) - 20), VN_RNE, false)
                       : 0;
        VN_ASSERT(t, vn_fused_dot(u, n, COLUMNS, a, b, COLUMNS, c, out, &err) == VN_OK);
        for (int j = 0; j < COLUMNS; ++j) {
            double due = c[j];
            for (int i = 0; i < n; i += u->group)
                due = twin_group(u, n - i < u->group ? n - i : u->group, a + i, b + i * COLUMNS + j, COLUMNS, due);
            if (out[j] != due) vn_test_fail(t, __FILE__, __LINE__, "%s, %d products, column %d: %a, twin %a", u->device, n, j, out[j], due);
        }
    }
}

VN_TEST(fused, special_values) {
    const vn_fused_unit_t *u = vn_fused_unit("H100", VN_FMT_F16, VN_FMT_F32);
    const double one[1] = {1}, inf[1] = {INFINITY}, zero[1] = {0}, c = 2, minus = -INFINITY;
    double out;
    vn_error_t err = {0};
    VN_ASSERT(t, u);
    VN_ASSERT(t, vn_fused_dot(u, 1, 1, inf, one, 1, &c, &out, &err) == VN_OK && isinf(out) && out > 0);
    VN_ASSERT(t, vn_fused_dot(u, 1, 1, inf, zero, 1, &c, &out, &err) == VN_OK && isnan(out));
    VN_ASSERT(t, vn_fused_dot(u, 1, 1, inf, one, 1, &minus, &out, &err) == VN_OK && isnan(out));
    VN_ASSERT(t, vn_fused_dot(u, 1, 1, zero, zero, 1, zero, &out, &err) == VN_OK && out == 0 && !signbit(out));
    const double large = 65504, c_large = 0x1.fffffep127;
    VN_ASSERT(t, vn_fused_dot(u, 1, 1, &large, &large, 1, &c_large, &out, &err) == VN_OK && out == c_large); /* cut: the product is lost */
    const vn_fused_unit_t *split = vn_fused_unit("B200", VN_FMT_F8E5M2, VN_FMT_F32);
    VN_ASSERT(t, split && vn_fused_dot(split, 16, 1, one, one, 1, &c, &out, &err) == VN_ERR_USAGE);
    VN_ASSERT(t, !vn_fused_unit("A100", VN_FMT_F8E5M2, VN_FMT_F32));
}

VN_TEST_MAIN(VN_CASE(fused, hardware_vectors), VN_CASE(fused, twin), VN_CASE(fused, special_values))
