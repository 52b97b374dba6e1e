/* ladder.c -- integer ladders: inputs of a sum that make every order of summation exact up to a chosen number of bits.
 *
 * Claim LADDER-1: if all terms are multiples of a unit G and the sum of their magnitudes T is at most 2^p G, every partial sum in every order is a
 * multiple of G below 2^p G, so an accumulator of p bits holds each of them exactly, and every execution gives the same bits: those of the exact
 * sum, stored once (bounds.md, exactness). A result that differs is a proof, whatever the schedule. The caller computes T on the magnitudes of
 * these very inputs and judges only elements with T <= 2^p G.
 * Two ladders. Sums: few-bit numbers whose sums need p bits; where exactness ends the accumulator is measured. Operands: numbers of exactly p
 * significant bits, one a sum; where exactness ends the operand (or the store) is measured.
 */
#include <math.h>
#include <string.h>

#include "vernier/probe.h"

enum { SIGNIFICANT = 7, MOST = (1 << SIGNIFICANT) - 1 }; /* bits of the small numbers: bf16 and everything wider holds them, shifted too */

typedef struct row {
    const char *domain, *op;
    int factors, addend;
    const char *scale; /* attribute that multiplies the sum */
    bool mean;
} row_t;
static const row_t rows[] = {
    {"", "MatMul", 2, -1, NULL, false},
    {"", "Gemm", 2, 2, "alpha", false},
    {"", "Conv", 2, 2, NULL, false},
    {"", "ConvTranspose", 2, 2, NULL, false},
    {"", "Einsum", 2, -1, NULL, false},
    {"", "ReduceSum", 1, -1, NULL, false},
    {"", "ReduceL1", 1, -1, NULL, false},
    {"", "CumSum", 1, -1, NULL, false},
    {"", "ReduceMean", 1, -1, NULL, true},
    {"", "GlobalAveragePool", 1, -1, NULL, true},
    {"com.microsoft", "FusedMatMul", 2, -1, "alpha", false},
};

static bool power_of_two(double x) {
    int e;
    return x > 0 && frexp(x, &e) == 0.5;
}

bool vn_ladder_of(const vn_node_t *n, int64_t terms, vn_ladder_op_t *out, const char **why) {
    *out = (vn_ladder_op_t){.factor = {0, 1}, .addend = -1, .unit = 1};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
        if (strcmp(n->op, rows[r].op) != 0 || strcmp(n->domain, rows[r].domain) != 0) continue;
        const double scale = rows[r].scale ? vn_node_float(n, rows[r].scale, 1) : 1, beta = vn_node_float(n, "beta", 1);
        out->n_factors = rows[r].factors;
        out->mean = rows[r].mean;
        if (rows[r].addend >= 0 && rows[r].addend < n->n_inputs && *n->inputs[rows[r].addend]) out->addend = rows[r].addend;
        *why = NULL;
        if (terms < 1) *why = "the number of terms is not known";
        else if (n->n_inputs < rows[r].factors || (strcmp(n->op, "Einsum") == 0 && n->n_inputs != 2)) *why = "another number of operands";
        else if (rows[r].factors == 2 && strcmp(n->inputs[0], n->inputs[1]) == 0) *why = "both operands are one tensor";
        else if (!power_of_two(scale) || (out->addend >= 0 && (beta != 1 || scale > 1))) *why = "alpha or beta is no power of two";
        else if (rows[r].mean && !power_of_two((double)terms)) *why = "the mean is not over a power of two of terms";
        if (scale < 1) out->unit = scale;
        if (rows[r].mean) out->unit = 1 / (double)terms;
        return *why == NULL;
    }
    *why = "the operator is no plain sum";
    return false;
}

static double sign(vn_rng_t *rng) { return vn_rng_u64(rng) & 1 ? 1 : -1; }

/* Magnitudes 1 .. most, `share` of the elements; half of them times 2^shift. */
static void small_numbers(vn_rng_t *rng, double *x, int64_t n, int64_t most, double share, int shift, bool positive) {
    for (int64_t i = 0; i < n; ++i) {
        const double v = (positive ? 1 : sign(rng)) * (double)(1 + vn_rng_below(rng, (uint64_t)most));
        const bool there = vn_rng_uniform(rng) < share, large = vn_rng_u64(rng) >> 63;
        x[i] = there ? ldexp(v, large ? shift : 0) : 0;
    }
}

static int largest_shift(vn_dtype_t t) { return t == VN_F16 ? 8 : t == VN_F64 ? 40 : 16; } /* f16 ends at 2^16 */

static int64_t clamp(double x, int64_t most) { return x < 1 ? 1 : x > (double)most ? most : (int64_t)x; }

/* Sum rung: an average term of 2^(bits - 1) / terms, made of numbers of at most SIGNIFICANT bits. All positive, so that the running sum needs all
 * bits, unless the result's type cannot hold such a sum: then the signs let it come back to where it can. */
static void sum_values(const vn_ladder_op_t *op, const vn_ladder_t *rung, int which, vn_dtype_t t, vn_rng_t *rng, double *x, int64_t n) {
    const double each = ldexp(0.5, rung->bits) / (double)rung->terms;
    const bool positive = vn_format_info(vn_format_of(t))->p >= rung->bits;
    if (which < 0) { /* the addend is one more term */
        small_numbers(rng, x, n, clamp(each, MOST), 1, 0, positive);
    } else if (each < 1) {
        small_numbers(rng, x, n, 1, which == 0 ? each : 1, 0, positive);
    } else {
        const int64_t most = clamp(op->n_factors == 2 ? 2 * sqrt(each) : 2 * each, MOST);
        const double average = op->n_factors == 2 ? (double)(most * most) / 4 : (double)most / 2;
        int shift = average < each ? (int)floor(log2(each / average)) : 0;
        if (shift > largest_shift(t)) shift = largest_shift(t);
        small_numbers(rng, x, n, most, 1, which == 0 ? shift : 0, positive);
    }
}

/* Operand rung: odd numbers of exactly `bits` bits on one side, here and there a sign on the other. */
static void operand_values(const vn_ladder_op_t *op, const vn_ladder_t *rung, int which, vn_rng_t *rng, double *x, int64_t n) {
    const double share = 1 / (double)rung->terms;
    if (which < 0) {
        memset(x, 0, (size_t)n * sizeof *x);
    } else if (which != rung->operand) {
        small_numbers(rng, x, n, 1, share, 0, false);
    } else {
        const uint64_t half = (uint64_t)1 << (rung->bits - 1);
        for (int64_t i = 0; i < n; ++i) {
            const double v = sign(rng) * (double)(half | vn_rng_below(rng, half) | 1);
            x[i] = op->n_factors == 1 && vn_rng_uniform(rng) >= share ? 0 : v;
        }
    }
}

vn_status_t vn_ladder_fill(const vn_ladder_op_t *op, const vn_ladder_t *rung, int k, const vn_tensor_t *like, vn_tensor_t **out,
                           vn_error_t *err) {
    *out = NULL;
    int which = k == op->addend ? -1 : -2;
    for (int f = 0; f < op->n_factors; ++f)
        if (k == op->factor[f]) which = f;
    if (which == -2) return VN_OK;
    const vn_format_info_t *f = vn_format_info(vn_format_of(like->dtype));
    if (!f || f->p < (rung->operand >= 0 && which == rung->operand ? rung->bits : SIGNIFICANT) || rung->bits < 2 || rung->bits > 53)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s does not hold integers of %d bits", vn_dtype_name(like->dtype), rung->bits);
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(like->dtype, like->rank, like->dims, &t, err));
    double *x = vn_alloc((size_t)like->count + 1, sizeof *x);
    if (!x) {
        vn_tensor_free(t);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)like->count);
    }
    vn_rng_t rng;
    vn_rng_seed(&rng, rung->seed + 1000003u * (uint64_t)(k + 1));
    if (rung->operand < 0) sum_values(op, rung, which, like->dtype, &rng, x, like->count);
    else operand_values(op, rung, which, &rng, x, like->count);
    vn_tensor_from_f64(t, x, VN_RNE, false);
    vn_free(x);
    *out = t;
    return VN_OK;
}
