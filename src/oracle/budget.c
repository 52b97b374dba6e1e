/* budget.c -- how accurate elementary functions must be: the default budgets per tier (claims BUDGET-1 to BUDGET-3).
 *
 * An error budget of t ulp means |result - y| <= t ulp(y), ulp of the exact value in the working format; relative to y that is at most
 * 2 t u. The body allowance c means c u scale(x) on top: what the evaluation of the standard's own formula in the working format may lose
 * where it cancels (1 + erf, exp - 1, ...); the scale of each function stands in unary_functions.c.
 *
 * Sources
 *   ieee      basic operations rounded to nearest; functions within 1 ulp (design 4).
 *   portable  largest errors of four shipped CPU back ends over 10^6 f32 arguments each, rounded up, and the limits of the OpenCL C
 *             specification (full profile) where those are smaller than what was seen; basic operations correctly rounded.
 *   fast      documented errors of native instructions and intrinsics: exp2/log2/sin/cos/rcp/rsqrt/div in approximate form (PTX ISA,
 *             "approx" rows; CUDA C++ Programming Guide, intrinsic functions: exp 2 + |1.173 x| ulp, log 2^-21.41 near 1, sin and cos
 *             2^-21.41 on [-pi, pi], quotient 2 ulp), and the least accurate functions measured on the four back ends (Erf 8.4 u
 *             absolute, 9.5 u by its AVX-512 form, Softplus 128 u, Gelu 5.3 u |x|, sinh and cosh 24 ulp, sin and cos 14 ulp). Hardware tanh (2^-11) is not among
 *             them: it must be declared.
 */
#include <math.h>
#include <string.h>

#include "oracle/registry.h"

typedef struct budget {
    const char *name;
    bool basic; /* + - x / sqrt: a promise about functions does not concern it */
    double ieee, portable, fast;
    double portable_body, fast_body;
} budget_t;

static const budget_t table[] = {
    {"sqrt", true, 0.5, 0.5, 3, 0, 0}, {"reciprocal", true, 0.5, 0.5, 1, 0, 0}, {"div", true, 0.5, 0.5, 2, 0, 0},
    {"rsqrt", false, 1, 2, 2, 0, 0},   {"exp", false, 1, 6, 6, 0, 2.4},         {"exp2", false, 1, 6, 6, 0, 0},
    {"expm1", false, 1, 6, 6, 0, 2.4}, {"log", false, 1, 4, 4, 0, 8},           {"log2", false, 1, 4, 4, 0, 8},
    {"log1p", false, 1, 4, 4, 0, 8},   {"sin", false, 1, 4, 14, 0, 8},          {"cos", false, 1, 4, 14, 0, 8},
    {"tan", false, 1, 4, 14, 0, 16},   {"asin", false, 1, 5, 8, 0, 0},          {"acos", false, 1, 5, 8, 0, 0},
    {"atan", false, 1, 5, 8, 0, 0},    {"sinh", false, 1, 4, 24, 0, 0},         {"cosh", false, 1, 4, 24, 0, 0},
    {"tanh", false, 1, 6, 16, 0, 0},   {"asinh", false, 1, 5, 8, 0, 0},         {"acosh", false, 1, 5, 8, 0, 0},
    {"atanh", false, 1, 5, 8, 0, 0},   {"erf", false, 1, 6, 6, 0, 10},          {"pow", false, 1, 16, 16, 0, 8},
    {"sigmoid", false, 1, 4, 8, 3, 8}, {"softplus", false, 1, 4, 8, 3, 128},    {"elu", false, 1, 4, 8, 3, 8},
    {"selu", false, 1, 4, 8, 3, 8},    {"celu", false, 1, 4, 8, 3, 8},          {"gelu", false, 1, 4, 8, 3, 8},
    {"mish", false, 1, 4, 8, 3, 8},    {"swish", false, 1, 4, 8, 3, 8},
};

static const budget_t *find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* A function without a budget has no promise: the bound is infinite, not a guess. */
double vn_budget(const vn_eval_t *e, const char *function) {
    const budget_t *b = find(function);
    if (!b) return INFINITY;
    if (!b->basic && e->contract->has_function_ulp) return e->contract->function_ulp;
    switch (e->contract->tier) {
    case VN_TIER_IEEE: return b->ieee;
    case VN_TIER_PORTABLE: return b->portable;
    case VN_TIER_FAST: return b->fast;
    }
    return INFINITY;
}

double vn_body_budget(const vn_eval_t *e, const char *function) {
    const budget_t *b = find(function);
    if (!b || e->contract->has_function_ulp) return 0;
    return e->contract->tier == VN_TIER_PORTABLE ? b->portable_body : e->contract->tier == VN_TIER_FAST ? b->fast_body : 0;
}
