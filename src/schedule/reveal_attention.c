/* reveal_attention.c -- attention: the sum over keys in P V, read with equal scores; the sum over head_size in Q K^T is reveal_scores.c.
 *
 * Claim REVEAL-21: with equal scores every weight is the same number w, so that +M and -M at the keys i and j of a column of V and ones elsewhere give
 * (n - l(i,j)) w: M w and -M w cancel to the bit. Online rescaling multiplies by exp(0) = 1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/heads.h"

enum { DRAWS = 4, CHECKS = 200 };

/* How weights meet values: normalised before the sum, or the sum divided by S or multiplied by 1/S. */
typedef enum form { BEFORE, QUOTIENT, RECIPROCAL, FORMS } form_t;
static const char *const form_names[FORMS] = {"weights are normalised before the sum over keys",
                                              "the sum over keys is divided by the sum of weights",
                                              "the sum over keys is multiplied by 1 / sum of weights"};

/* Columns of V that may hold a question each, and the row of the output that shows its answer. */
typedef struct line {
    int32_t plane, row, column;
} line_t;
typedef struct asker {
    vn_heads_t *p;
    line_t *line;
    int32_t lines;
    const double *weight; /* [rows], of every key */
} asker_t;

static void fill(vn_heads_t *p, float x) {
    for (int64_t e = 0; e < (int64_t)p->planes * p->keys * p->size; ++e) p->v[e] = x;
}

/* Keys that are counted in one call: with weights that are no power of two, a count of k is off by k (k + 3) u. */
enum { PART = 2048 };
static bool is_power(double w) {
    int e;
    return frexp(w, &e) == 0.5;
}
static double units(double weight, int32_t counted, double out) {
    const double x = out / weight, slack = is_power(weight) ? 0 : (double)counted * (counted + 3) * 0x1p-24;
    return fabs(x - rint(x)) <= slack ? rint(x) : x;
}

/* Ones at the keys [from, to), masks in one line each. */
static vn_status_t ask_part(asker_t *q, int32_t from, int32_t to, int32_t count, const int32_t *i, const int32_t *j, double *l,
                            vn_error_t *err) {
    vn_heads_t *p = q->p;
    const float mask = (float)vn_readout_of(VN_F32).mask;
    fill(p, 0);
    for (int32_t plane = 0; plane < p->planes; ++plane)
        for (int32_t k = from; k < to; ++k)
            for (int32_t c = 0; c < p->size; ++c) *vn_heads_value(p, plane, k, c) = 1;
    for (int32_t x = 0; x < count; ++x) {
        *vn_heads_value(p, q->line[x].plane, i[x], q->line[x].column) = mask;
        *vn_heads_value(p, q->line[x].plane, j[x], q->line[x].column) = -mask;
    }
    VN_TRY(vn_heads_run(p, err));
    for (int32_t x = 0; x < count; ++x)
        l[x] -= units(q->weight[q->line[x].row], to - from, p->out[(int64_t)q->line[x].row * p->size + q->line[x].column]);
    return VN_OK;
}

static vn_status_t ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    asker_t *q = context;
    const int32_t n = q->p->keys, part = n <= PART || is_power(q->weight[q->line[0].row]) ? n : PART;
    for (int64_t p = 0; p < pairs; ++p) l[p] = n;
    for (int64_t from = 0; from < pairs; from += q->lines) {
        const int32_t count = (int32_t)(pairs - from < q->lines ? pairs - from : q->lines);
        for (int32_t at = 0; at < n; at += part)
            VN_TRY(ask_part(q, at, at + part < n ? at + part : n, count, i + from, j + from, l + from, err));
    }
    return VN_OK;
}

/* Lines of a class: each of its columns in each plane that has a row of it. */
static vn_status_t lines_of(asker_t *q, const vn_cell_t *cell, vn_error_t *err) {
    q->lines = 0;
    q->line = vn_alloc((size_t)cell->rows * (size_t)cell->columns, sizeof *q->line);
    if (!q->line) return vn_fail(err, VN_ERR_NOMEM, "no memory for questions");
    for (int32_t x = 0; x < cell->rows; ++x) {
        const int32_t plane = vn_heads_plane(q->p, cell->row[x]);
        if (x > 0 && vn_heads_plane(q->p, cell->row[x - 1]) == plane) continue;
        for (int32_t c = 0; c < cell->columns; ++c) q->line[q->lines++] = (line_t){plane, cell->row[x], cell->column[c]};
    }
    return VN_OK;
}

/* Some terms of V in one line's column, zeros elsewhere. */
static vn_status_t terms(asker_t *q, int n, const int32_t *key, const double *value, double *out, vn_error_t *err) {
    const line_t *line = &q->line[0];
    fill(q->p, 0);
    for (int k = 0; k < n; ++k) *vn_heads_value(q->p, line->plane, key[k], line->column) = (float)value[k];
    VN_TRY(vn_heads_run(q->p, err));
    *out = q->p->out[(int64_t)line->row * q->p->size + line->column];
    return VN_OK;
}

/* ---- arithmetic ---- */

static vn_status_t flags(vn_heads_t *p, int n, const int32_t *key, uint8_t **active, vn_error_t *err) {
    *active = vn_alloc((size_t)p->keys, 1);
    if (!*active) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d keys", p->keys);
    for (int k = 0; k < n; ++k) (*active)[key[k]] = 1;
    return VN_OK;
}

/* One key alone has the weight 1: what comes out of 1 + 2^-t is the format of V. */
static vn_status_t operand(asker_t *q, vn_arithmetic_t *a, vn_error_t *err) {
    static const struct {
        int bits;
        vn_format_t format;
    } formats[] = {{23, VN_FMT_NONE}, {10, VN_FMT_TF32}, {7, VN_FMT_BF16}};
    const int32_t key = 0;
    uint8_t *active;
    VN_TRY(flags(q->p, 1, &key, &active, err));
    vn_heads_equal(q->p, active);
    vn_free(active);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
        double out;
        const double x = 1 + ldexp(1, -formats[f].bits);
        VN_TRY(terms(q, 1, &key, &x, &out, err));
        if (out != x) continue;
        a->operand[1] = formats[f].format;
        break;
    }
    if (a->operand[1] == VN_FMT_NONE) return VN_OK;
    const double ulp = ldexp(1, 1 - vn_format_info(a->operand[1])->p), tie = 1 + ulp / 2, odd = 1 + 1.5 * ulp, above = 1 + 0.75 * ulp;
    double got[3];
    VN_TRY(terms(q, 1, &key, &tie, &got[0], err));
    VN_TRY(terms(q, 1, &key, &odd, &got[1], err));
    VN_TRY(terms(q, 1, &key, &above, &got[2], err));
    a->operand_rounding[1] = got[2] == 1 ? VN_RZ : got[0] == 1 && got[1] == 1 + 2 * ulp ? VN_RNE : VN_RNA;
    return VN_OK;
}

/* Four keys of weight 1/4, three of them 1, 2^-t and -1. */
static vn_status_t accumulator(asker_t *q, const vn_tree_t *t, vn_arithmetic_t *a, vn_error_t *err) {
    static const struct {
        int bits;
        vn_format_t format;
    } formats[] = {{52, VN_FMT_F64}, {23, VN_FMT_F32}, {10, VN_FMT_F16}, {7, VN_FMT_BF16}};
    int32_t key[4];
    uint8_t *active;
    if (q->p->keys < 4 || !vn_tree_three(t, key)) return VN_OK;
    for (key[3] = 0; key[3] == key[0] || key[3] == key[1] || key[3] == key[2];) ++key[3];
    VN_TRY(flags(q->p, 4, key, &active, err));
    vn_heads_equal(q->p, active);
    vn_free(active);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; ++f) {
        const double value[3] = {1, ldexp(1, -formats[f].bits), -1};
        double out;
        VN_TRY(terms(q, 3, key, value, &out, err));
        if (out == 0) continue;
        a->accumulator = formats[f].format;
        break;
    }
    const double part = 1.5 * vn_format_info(a->accumulator)->u, plus[3] = {1, part, -1}, minus[3] = {-1, -part, 1};
    double up, down;
    VN_TRY(terms(q, 3, key, plus, &up, err));
    VN_TRY(terms(q, 3, key, minus, &down, err));
    if (up == 0 && down == 0) a->rounding = VN_RZ;
    else if (up == 0) a->rounding = VN_RD;
    else if (down == 0) a->rounding = VN_RU;
    if (a->accumulator == VN_FMT_F64) a->store = VN_FMT_F32;
    return VN_OK;
}

/* A key to leave out so that the others' weight is no power of two; -1: none need be, -2: no such weight. */
static int32_t left_out(const vn_heads_t *p) { return p->keys & (p->keys - 1) ? -1 : p->keys < 4 ? -2 : p->keys - 1; }
static vn_status_t leave_out(vn_heads_t *p, int32_t key, vn_error_t *err) {
    if (key < 0) {
        vn_heads_equal(p, NULL);
        return VN_OK;
    }
    uint8_t *active = vn_alloc((size_t)p->keys, 1);
    if (!active) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d keys", p->keys);
    memset(active, 1, (size_t)p->keys);
    active[key] = 0;
    vn_heads_equal(p, active);
    vn_free(active);
    return VN_OK;
}

/* x of as many bits as V keeps, with w x no number of 24 bits if there is one. */
static double telling(double w, int bits) {
    const double ulp = ldexp(1, 1 - bits);
    double x = 1 + ulp;
    for (int k = 1; k < 64 && w * x == (double)(float)(w * x); ++k) x = 1 + (2 * k + 1) * ulp;
    return x;
}

/* Which leaves are asked with one key left out: those that do not touch it, or (again) those that touch the key that was left out before. */
typedef struct turn {
    int32_t out, before;
    bool again;
    int bits; /* of V as it is multiplied */
} turn_t;
static bool touches(const int32_t *partner, int32_t leaf, int32_t key) { return key >= 0 && (leaf == key || partner[leaf] == key); }
static bool asks(const turn_t *t, const int32_t *partner, int32_t leaf) {
    return partner[leaf] >= 0 && !touches(partner, leaf, t->out) && (!t->again || touches(partner, leaf, t->before));
}

/* Another key to leave out, which no question about the first one touches; -1: there is none. */
static int32_t another(const int32_t *partner, int32_t n, int32_t first) {
    for (int32_t k = 0; k < n && first >= 0; ++k)
        if (k != first && k != partner[first] && partner[k] != first) return k;
    return -1;
}

/* One question a line, as many as there are lines, from leaf *next on. */
static vn_status_t ask_products(asker_t *q, const turn_t *t, const int32_t *partner, const double *w, int32_t *next, double *answer,
                                vn_error_t *err) {
    enum { MOST = 1024 };
    vn_heads_t *p = q->p;
    int32_t asked[MOST], count = 0;
    fill(p, 0);
    for (; *next < p->keys && count < q->lines && count < MOST; ++*next) {
        if (!asks(t, partner, *next)) continue;
        const line_t *line = &q->line[count];
        const double x = telling(w[line->row], t->bits);
        *vn_heads_value(p, line->plane, partner[*next], line->column) = (float)-x;
        *vn_heads_value(p, line->plane, *next, line->column) = (float)x;
        asked[count++] = *next;
    }
    if (count) VN_TRY(vn_heads_run(p, err));
    for (int32_t x = 0; x < count; ++x) {
        const line_t *line = &q->line[x];
        const double product = w[line->row] * telling(w[line->row], t->bits), lost = product - (double)(float)product;
        answer[asked[x]] = p->out[(int64_t)line->row * p->size + line->column] * (lost < 0 ? -1 : 1);
    }
    return VN_OK;
}

/* The weight that all active keys have, by row. */
static vn_status_t weight_of(vn_heads_t *p, int32_t key, double *out, vn_error_t *err) {
    fill(p, 0);
    for (int32_t plane = 0; plane < p->planes; ++plane)
        for (int32_t c = 0; c < p->size; ++c) *vn_heads_value(p, plane, key, c) = 1;
    VN_TRY(vn_heads_run(p, err));
    for (int64_t row = 0; row < p->rows; ++row) out[row] = p->out[row * p->size];
    return VN_OK;
}

/* Whether weights enter the sum as bf16: 1 / active shows it where it has more bits. */
static void narrow_weights(const vn_heads_t *p, const double *w, int32_t active, vn_arithmetic_t *a) {
    static const vn_rounding_t ways[] = {VN_RNE, VN_RZ};
    const double whole = (double)(1 / (float)active);
    for (size_t k = 0; k < sizeof ways / sizeof *ways && a->operand[0] == VN_FMT_NONE; ++k) {
        const double narrow = vn_round_to(VN_FMT_BF16, whole, ways[k], false);
        bool all = narrow != whole;
        for (int32_t row = 0; row < p->rows && all; ++row) all = w[row] == narrow;
        if (!all) continue;
        a->operand[0] = VN_FMT_BF16;
        a->operand_rounding[0] = ways[k];
    }
}

/* Products that the sum holds whole: fused or not is the same. */
static bool exact_products(const vn_arithmetic_t *a) {
    int bits = 0;
    for (int side = 0; side < 2; ++side) bits += a->operand[side] == VN_FMT_NONE ? 24 : vn_format_info(a->operand[side])->p;
    return bits <= vn_format_info(a->accumulator)->p;
}

/* -x at the partner and x at the key, both of a weight w for which w x is rounded: REVEAL-2 with w x - fl(w x) for 2^-2h. */
static vn_status_t products(asker_t *q, vn_tree_t **tree, vn_arithmetic_t *a, vn_error_t *err) {
    vn_heads_t *p = q->p;
    const int32_t n = p->keys, first = left_out(p);
    const int bits = a->operand[1] == VN_FMT_NONE ? 24 : vn_format_info(a->operand[1])->p;
    int32_t *partner = vn_alloc((size_t)n + 1, sizeof *partner);
    bool *pair = vn_alloc((size_t)n + 1, sizeof *pair), exact = false;
    double *answer = vn_alloc((size_t)n + 1, sizeof *answer), *w = vn_alloc((size_t)p->rows, sizeof *w);
    vn_status_t st = partner && pair && answer && w ? vn_tree_partners(*tree, partner, pair, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int again = 0; again < 2 && st == VN_OK && first != -2; ++again) {
        const turn_t t = {.out = again ? another(partner, n, first) : first, .before = first, .again = again, .bits = bits};
        if (again && t.out < 0) break;
        st = leave_out(p, t.out, err);
        if (st == VN_OK) st = weight_of(p, t.out == 0 ? 1 : 0, w, err);
        if (st == VN_OK && !again) narrow_weights(p, w, t.out < 0 ? n : n - 1, a);
        if ((exact = exact_products(a))) break;
        for (int32_t next = 0; next < n && st == VN_OK;) st = ask_products(q, &t, partner, w, &next, answer, err);
    }
    for (int32_t k = 0; st == VN_OK && k < n; ++k) a->fma |= exact || answer[k] != 0;
    if (st == VN_OK && !exact) st = vn_tree_mark(tree, answer, partner, pair, a->fma, err);
    vn_free(partner);
    vn_free(pair);
    vn_free(answer);
    vn_free(w);
    return st;
}

static vn_status_t arithmetic(asker_t *q, vn_tree_t **tree, vn_arithmetic_t *a, vn_error_t *err) {
    double out;
    VN_TRY(operand(q, a, err));
    VN_TRY(accumulator(q, *tree, a, err));
    if (vn_tree_widest(*tree) <= 2) VN_TRY(products(q, tree, a, err));
    vn_heads_equal(q->p, NULL);
    fill(q->p, -0.0f);
    VN_TRY(vn_heads_run(q->p, err));
    out = q->p->out[(int64_t)q->line[0].row * q->p->size + q->line[0].column];
    a->zero_start = !signbit(out) && a->rounding != VN_RD;
    return VN_OK;
}

/* ---- replay ---- */

typedef struct trial {
    const vn_classes_t *classes;
    const float *weights; /* [rows*keys], of the form */
    const vn_arithmetic_t *a;
    form_t form;
    float total; /* of the weights before they are normalised */
    int64_t equal;
} trial_t;

static float finish(const trial_t *q, float sum) {
    return q->form == QUOTIENT ? sum / q->total : q->form == RECIPROCAL ? sum * (1 / q->total) : sum;
}

/* Sums in f64 of one plane: products of f32 are exact in it; the store is the conversion. */
static vn_status_t wide_plane(vn_heads_t *p, const vn_replay_t *r, const float *w, const float *v, float *out, vn_error_t *err) {
    const int32_t rows = p->group * p->queries, n = p->size;
    const size_t count = (size_t)p->keys * (size_t)n;
    double *x = vn_alloc(count, sizeof *x), *y = vn_alloc(count, sizeof *y), *sum = vn_alloc((size_t)n, sizeof *sum);
    vn_status_t st = x && y && sum ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    for (size_t e = 0; e < count && st == VN_OK; ++e) y[e] = v[e];
    for (int64_t row = 0; row < rows && st == VN_OK; ++row) {
        for (size_t e = 0; e < count; ++e) x[e] = w[row * p->keys + (int64_t)(e / (size_t)n)];
        st = vn_replay_terms_f64(r, n, x, y, n, 1, sum, err);
        for (int32_t c = 0; c < n && st == VN_OK; ++c) out[row * n + c] = (float)sum[c];
    }
    vn_free(x);
    vn_free(y);
    vn_free(sum);
    return st;
}

static bool same(double got, float due, bool ftz) {
    if (ftz && fabsf(due) < 0x1p-126f) due = copysignf(0, due);
    return got == (double)due && !signbit(got) == !signbit(due);
}

/* Elements of the last result that are equal to their replay. */
static vn_status_t compare(vn_heads_t *p, trial_t *q, vn_error_t *err) {
    const vn_schedule_t *s = p->r->s;
    const int32_t each = p->group * p->queries;
    const bool wide = q->a->accumulator == VN_FMT_F64;
    vn_arithmetic_t a = *q->a;
    if (wide) a.store = VN_FMT_NONE;
    float *due = vn_alloc((size_t)each * (size_t)p->size, sizeof *due);
    vn_status_t st = due ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    q->equal = 0;
    for (int c = 0; c < q->classes->count && st == VN_OK; ++c) {
        vn_replay_t *r;
        if (!s->classes[c].tree) continue;
        st = vn_replay_compile(s->classes[c].tree, &a, &r, err);
        if (st != VN_OK) break;
        for (int32_t plane = 0; plane < p->planes && st == VN_OK; ++plane) {
            const int64_t row = (int64_t)plane * each, count = (int64_t)each * p->size;
            const float *weights = q->weights + row * p->keys, *values = vn_heads_value(p, plane, 0, 0);
            const vn_plane_t w = {weights, p->keys, 1}, v = {values, p->size, 1}, none = {0};
            st = wide ? wide_plane(p, r, weights, values, due, err) : vn_replay_product(r, each, p->size, w, v, none, due, p->size, err);
            for (int64_t e = 0; e < count && st == VN_OK; ++e)
                if (q->classes->of[row * p->size + e] == c) q->equal += same(p->out[row * p->size + e], finish(q, due[e]), q->a->ftz);
        }
        vn_replay_free(r);
    }
    vn_free(due);
    return st;
}

/* Data of a replay: scores, then values. */
typedef enum data { ONE_OUT, EQUAL, SPREAD, SCORES, TINY, DATA } data_t;
static const char *const data_names[DATA] = {"one key left out", "equal scores", "equal scores, exponents spread by 12", "random scores",
                                             "data near underflow"};

static vn_status_t draw_scores(vn_heads_t *p, data_t d, vn_error_t *err) {
    if (d == ONE_OUT) return leave_out(p, left_out(p), err);
    vn_heads_equal(p, NULL);
    for (int64_t e = 0; d == SCORES && e < (int64_t)p->rows * p->size; ++e) p->q[e] = (float)vn_rng_normal(&p->r->rng);
    for (int64_t e = 0; d == SCORES && e < (int64_t)p->planes * p->keys * p->size; ++e) p->k[e] = (float)vn_rng_normal(&p->r->rng);
    return VN_OK;
}

static void draw_values(vn_heads_t *p, data_t d) {
    for (int64_t e = 0; e < (int64_t)p->planes * p->keys * p->size; ++e) {
        double x = vn_rng_normal(&p->r->rng);
        if (d == SPREAD) x *= exp2((double)vn_rng_below(&p->r->rng, 25) - 12);
        if (d == TINY) x *= vn_rng_below(&p->r->rng, 4) ? 0x1p-124 : 0x1p-120;
        p->v[e] = (float)x;
    }
}

typedef struct proof {
    vn_heads_t *p;
    const vn_classes_t *classes;
    form_t form;
    bool told;        /* the form shows */
    double *measured; /* [rows*keys] */
    float *ones;      /* [rows*keys]: weights before they are normalised, of equal scores */
    float *weights;   /* [rows*keys], measured */
} proof_t;

/* An arithmetic without a replay fits nothing, and says so once. */
static vn_status_t try_form(proof_t *q, form_t f, const vn_arithmetic_t *a, int32_t active, int64_t *equal, vn_error_t *err) {
    vn_schedule_t *s = q->p->r->s;
    trial_t t = {.classes = q->classes, .weights = f == BEFORE ? q->weights : q->ones, .a = a, .form = f, .total = (float)active};
    vn_error_t why = {0};
    vn_status_t st = compare(q->p, &t, &why);
    if (st == VN_ERR_UNSUPPORTED) {
        if (!strstr(s->reason, why.text)) vn_reveal_say(s->reason, sizeof s->reason, "%s", why.text);
        t.equal = 0;
        st = VN_OK;
    }
    *equal = t.equal;
    return st == VN_OK ? VN_OK : vn_fail(err, st, "%s", why.text);
}

static vn_status_t prove_on(proof_t *q, data_t d, vn_error_t *err) {
    vn_heads_t *p = q->p;
    vn_schedule_t *s = p->r->s;
    const int64_t elements = (int64_t)p->rows * p->size;
    const int32_t out = d == ONE_OUT ? left_out(p) : -1, active = out >= 0 ? p->keys - 1 : p->keys;
    int64_t best = -1;
    VN_TRY(draw_scores(p, d, err));
    VN_TRY(vn_heads_weights(p, 0, p->keys, q->measured, err));
    for (int64_t e = 0; e < (int64_t)p->rows * p->keys; ++e) {
        q->weights[e] = (float)q->measured[e];
        q->ones[e] = e % p->keys != out;
    }
    draw_values(p, d);
    VN_TRY(vn_heads_run(p, err));
    s->elements += elements;
    if (d == SCORES && q->form != BEFORE) {
        vn_reveal_say(s->reason, sizeof s->reason,
                      "random scores: %lld of %lld elements not replayed: weights that are divided out at the end do not show singly",
                      (long long)elements, (long long)elements);
        return VN_OK;
    }
    vn_arithmetic_t a = s->arithmetic;
    int64_t fits[FORMS] = {0};
    for (form_t f = d == ONE_OUT ? BEFORE : q->form; f <= (d == ONE_OUT ? RECIPROCAL : q->form); f = (form_t)(f + 1)) {
        VN_TRY(try_form(q, f, &a, active, &fits[f], err));
        if (fits[f] <= best) continue;
        best = fits[f];
        q->form = f;
    }
    if (d == ONE_OUT) q->told = q->form != BEFORE || (fits[QUOTIENT] < best && fits[RECIPROCAL] < best);
    if (d == TINY && best < elements) { /* only small data tell */
        int64_t equal;
        a.daz = a.ftz = true;
        VN_TRY(try_form(q, q->form, &a, active, &equal, err));
        if (equal > best) {
            best = equal;
            s->arithmetic = a;
        }
    }
    s->replayed += best;
    if (best < elements)
        vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld elements differ from the replay", data_names[d],
                      (long long)(elements - best), (long long)elements);
    return VN_OK;
}

static vn_status_t prove(vn_heads_t *p, const vn_classes_t *classes, vn_error_t *err) {
    const size_t count = (size_t)p->rows * (size_t)p->keys;
    proof_t q = {.p = p,
                 .classes = classes,
                 .measured = vn_alloc(count, sizeof *q.measured),
                 .ones = vn_alloc(count, sizeof *q.ones),
                 .weights = vn_alloc(count, sizeof *q.weights)};
    vn_status_t st = q.measured && q.ones && q.weights ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %d weights", p->keys);
    for (data_t d = ONE_OUT; d < DATA && st == VN_OK; d = (data_t)(d + 1)) st = prove_on(&q, d, err);
    if (st == VN_OK)
        vn_reveal_say(p->r->s->notes, sizeof p->r->s->notes, "%s",
                      q.told ? form_names[q.form] : "where weights are normalised does not show");
    if (st == VN_OK && q.form == BEFORE)
        vn_reveal_say(p->r->s->notes, sizeof p->r->s->notes, "random scores: weights are measured, not replayed");
    vn_free(q.measured);
    vn_free(q.ones);
    vn_free(q.weights);
    return st;
}

/* ---- classes ---- */

/* The same values in every column, equal scores: elements with equal bits over several draws are one class. */
static vn_status_t classes_of(vn_heads_t *p, vn_classes_t *classes, vn_violation_t *v, vn_error_t *err) {
    double *sig[DRAWS] = {0};
    const int64_t elements = (int64_t)p->rows * p->size;
    vn_status_t st = VN_OK;
    vn_heads_equal(p, NULL);
    for (int d = 0; d < DRAWS && st == VN_OK; ++d) {
        for (int32_t k = 0; k < p->keys; ++k) {
            const float x = (float)vn_rng_normal(&p->r->rng);
            for (int32_t plane = 0; plane < p->planes; ++plane)
                for (int32_t c = 0; c < p->size; ++c) *vn_heads_value(p, plane, k, c) = x;
        }
        for (int again = 0; again < 2 && st == VN_OK; ++again) {
            st = vn_heads_run(p, err);
            for (int64_t e = 0; again && st == VN_OK && e < elements && v->kind == VN_TREE_OK; ++e) {
                if (sig[d][e] == p->out[e]) continue;
                *v = (vn_violation_t){.kind = VN_TREE_NONDETERMINISTIC, .i = (int32_t)(e / p->size), .j = (int32_t)(e % p->size), .k = -1};
                snprintf(v->what, sizeof v->what,
                         "element [%d,%d] is %.9g, then %.9g from the same operands: the order changes from run to run", v->i, v->j,
                         sig[d][e], p->out[e]);
            }
            if (st != VN_OK) break;
            vn_free(sig[d]);
            sig[d] = p->out;
            p->out = NULL;
        }
    }
    if (st == VN_OK) st = vn_classes_of(p->rows, p->size, DRAWS, sig, classes, err);
    for (int d = 0; d < DRAWS; ++d) vn_free(sig[d]);
    return st;
}

static vn_status_t one_class(asker_t *q, const vn_cell_t *cell, vn_schedule_class_t *k, vn_arithmetic_t *a, vn_error_t *err) {
    vn_heads_t *p = q->p;
    vn_heads_equal(p, NULL);
    vn_status_t st = lines_of(q, cell, err);
    if (st == VN_OK && p->keys == 1) st = vn_tree_from_brackets("0", &k->tree, err);
    else if (st == VN_OK) st = vn_rebuild_pairs(p->keys, vn_rng_u64(&p->r->rng), CHECKS, ask, q, &k->tree, &k->violation, err);
    if (st == VN_OK && k->tree) st = arithmetic(q, &k->tree, a, err);
    vn_free(q->line);
    return st;
}

static vn_status_t keys(vn_heads_t *p, const vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    double *weight = vn_alloc((size_t)p->rows, sizeof *weight);
    vn_heads_equal(p, NULL);
    vn_status_t st = weight ? weight_of(p, 0, weight, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %d rows", p->rows);
    bool measured = false;
    for (int c = 0; c < classes->count && st == VN_OK; ++c) {
        char where[160];
        vn_schedule_class_t *k;
        vn_arithmetic_t a = vn_arithmetic_default(VN_FMT_F32);
        asker_t q = {.p = p, .weight = weight};
        snprintf(where, sizeof where, "keys: %.140s", classes->where[c]);
        st = vn_heads_class(s, where, classes->elements[c], &k, err);
        if (st == VN_OK) st = one_class(&q, &classes->cell[c], k, &a, err);
        if (st != VN_OK) break;
        if (!k->tree) {
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
            continue;
        }
        if (!measured) s->arithmetic = a;
        else if (memcmp(&a, &s->arithmetic, sizeof a) != 0) {
            if (a.fma != s->arithmetic.fma) st = vn_gemm_unify(s, c, &a, err);
            a.fma = s->arithmetic.fma;
            if (memcmp(&a, &s->arithmetic, sizeof a) != 0)
                vn_reveal_say(s->notes, sizeof s->notes, "class %d differs in its arithmetic", c + 1);
        }
        measured = true;
    }
    vn_free(weight);
    return st;
}

static vn_status_t reveal(vn_heads_t *p, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    vn_classes_t classes = {0};
    vn_violation_t v = {0};
    s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    s->outputs = (int64_t)p->rows * p->size;
    vn_status_t st = classes_of(p, &classes, &v, err);
    if (st == VN_OK && v.kind != VN_TREE_OK) {
        vn_schedule_class_t *k;
        st = vn_heads_class(s, "keys: *", s->outputs, &k, err);
        if (st == VN_OK) k->violation = v;
        vn_reveal_say(s->reason, sizeof s->reason, "%s: %s", vn_violation_name(v.kind), v.what);
    } else if (st == VN_OK) {
        st = keys(p, &classes, err);
        if (st == VN_OK) st = prove(p, &classes, err);
        if (st == VN_OK && classes.count > 1) {
            s->class_of = classes.of;
            classes.of = NULL;
        }
        if (st == VN_OK) st = vn_reveal_rescaling(p, err);
        if (st == VN_OK) st = vn_reveal_scores(p, err);
    }
    vn_classes_clear(&classes);
    return st == VN_OK ? vn_reveal_identity(s, err) : st;
}

vn_status_t vn_reveal_attention(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    vn_heads_t p;
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: attention of %s cannot be read; f32 can", vn_dtype_name(op->dtype));
    if (op->batch < 1 || op->heads < 1 || op->kv_heads < 1 || op->heads % op->kv_heads || op->m < 1 || op->keys < 1 || op->head_size < 1 ||
        op->batch > 1 << 20 || op->heads > 1 << 20 || op->m > 1 << 20 || op->keys > 1 << 20 || op->head_size > 1 << 16 ||
        op->batch * op->heads > 1 << 20 || op->batch * op->heads * op->m > ((int64_t)1 << 30) / op->keys ||
        op->batch * op->heads * (op->m + op->keys) > ((int64_t)1 << 30) / op->head_size)
        return vn_fail(err, VN_ERR_RANGE, "reveal: attention of %lld batches, %lld heads of %lld, %lld queries and %lld keys",
                       (long long)op->batch, (long long)op->heads, (long long)op->head_size, (long long)op->m, (long long)op->keys);
    VN_TRY(vn_heads_begin(&p, r, err));
    const vn_status_t st = reveal(&p, err);
    vn_heads_end(&p);
    return st;
}
