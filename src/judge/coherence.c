/* coherence.c -- rung 6, second part: errors inside the bound that belong together. Round-off of separate sums is independent; a factor or an
 * offset that a row, a column, a channel, a lane or a tile has in common is not round-off.
 *
 * Claim COHERE-1: let z_i be the errors of a group over their predicted deviations, independent and symmetric in sign, and w_i any fixed weights
 * (1: an offset; y_i / sigma_i: a factor). Given the sizes |z_i w_i| only their signs are random, so by Hoeffding's inequality
 *   X = |sum z w| / sqrt(sum z^2 w^2),   P(X > x) <= 2 exp(-x^2 / 2)
 * whatever the law of z and its scale: an unknown order does not matter. Over G groups: the largest X at p / G each; and their sum of squares,
 * P(sum X^2 > s) <= exp(-(s - G - G ln(s / G)) / 2) for s > G. Common factors that are part of the operator (a rounded 1/n, alpha: up to D) are
 * taken off first (bounds.md, calculus 7). Values y that repeat are the same sum twice: their number divides the exponent.
 * Claim COHERE-2: it accuses only if the common part is at least SHARE of the error, and correct orders of summation of this very data (twins)
 * show less than half of that: so data whose roundings are not independent cannot accuse.
 * Claim COHERE-3: only a factor common to the whole output accuses. Within a channel, a row or a lane correct kernels do share offsets: if the sum begins
 * with the terms that all windows have in common (a constant border, a saturated channel), all begin with the same roundings. Seen at p < e^-200 in
 * a convolution whose integer probes are exact (docs/findings.md, 28). There the finding is a note.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/coherence.h"
#include "judge/coherence_cells.h"

enum {
    SEGMENT = VN_CELL_SIDE,
    LANES = 64,
    SAMPLE = 1 << 16,
    BLOCK_ROWS = 32,
    LEAST = 64,
    LEAST_TERMS = 16,
    TWINS = 256,
    TESTS = 64,
    TILE_SIZES = 3,
    TERMS_AN_ELEMENT = 512
};
#define SHARE 0.375 /* 6 standard errors of TWINS elements (bounds.md, calculus 4) */

typedef enum kind { WHOLE, ROWS, COLUMNS, AXIS, LANE, TILE } kind_t;

typedef struct accused {
    kind_t kind;
    int64_t index, period; /* AXIS: the axis; LANE: of how many; TILE: side */
    bool factor, pooled;
    double exponent, x, n, size; /* of the evidence, in nats beyond the limit; X; elements; share of the error that is common */
} accused_t;

typedef struct plan {
    const vn_case_t *c;
    double *x, *room;           /* actual, a strip of rows; scratch */
    int64_t rows, cols, stride; /* rows looked at: blocks of BLOCK_ROWS, every `stride`-th block */
    int rank;                   /* of the output without axes of length 1 */
    int64_t dims[VN_MAX_RANK];
    int axes[VN_MAX_RANK];        /* their numbers in the output */
    bool folded;                  /* one long axis, seen as rows of LANES */
    double legitimate;            /* D */
    vn_cell_t *row, *col, *tiles; /* tiles: (rows / 8) x (cols / 8) */
    int64_t tile_rows, tile_cols;
    double budget, margin; /* ln(1 / p) of one test; largest excess over it */
    accused_t best;
} plan_t;

/* X^2 of a group. */
static double square_of(const vn_cell_t *g, bool factor, double legitimate) {
    const double *t = g->sum, square = t[factor ? VN_CELL_P2 : VN_CELL_S2];
    const double sum = factor ? fabs(t[VN_CELL_P]) - legitimate * t[VN_CELL_Q2] : fabs(t[VN_CELL_S]) - legitimate * t[VN_CELL_QA];
    return sum > 0 && square > 0 ? sum * sum / square : 0;
}

/* Largest X that n signs can give is sqrt(n): the share of the error that is common. */
static double share_of(const vn_cell_t *g, double x) { return g->sum[VN_CELL_N] > 0 ? x / sqrt(g->sum[VN_CELL_N]) : 0; }

static void offer(plan_t *p, accused_t a) {
    a.exponent -= p->budget;
    if (a.exponent > p->margin) p->margin = a.exponent;
    if (a.exponent <= 0 || a.size < SHARE) return;
    /* of several that speak, the one that fits best: a lane of 16 and not the lane of 8 that holds it, a whole row and not its tiles */
    if (a.exponent * a.size * a.size > p->best.exponent * p->best.size * p->best.size) p->best = a;
}

/* All groups of one kind, both weights, each alone and all together. */
static void test(plan_t *p, const vn_cell_t *g, int64_t groups, kind_t kind, int64_t period) {
    for (int factor = 0; factor < 2; ++factor) {
        double sum = 0, used = 0, elements = 0, largest = 0;
        accused_t most = {.kind = kind, .index = -1, .period = period, .factor = factor};
        for (int64_t k = 0; k < groups; ++k) {
            const double n = g[k].sum[VN_CELL_N], x2 = n < 4 ? 0 : square_of(&g[k], factor, p->legitimate);
            if (n < 4) continue;
            used++;
            sum += x2;
            elements += n;
            if (x2 > largest) {
                largest = x2;
                most.index = k;
            }
        }
        if (most.index >= 0) {
            most.x = sqrt(largest);
            most.n = g[most.index].sum[VN_CELL_N];
            most.size = share_of(&g[most.index], most.x);
        }
        if (used == 0) continue;
        most.exponent = largest / 2 - log(2 * used);
        offer(p, most);
        if (used < 4 || sum <= used) continue;
        const double mean = sum / used; /* without its own noise, as a share of a group's elements */
        accused_t all = {.kind = kind, .index = -1, .period = period, .factor = factor, .pooled = true, .n = elements};
        all.exponent = (sum - used - used * log(mean)) / 2;
        all.size = sqrt((mean - 1) / (elements / used));
        all.x = sqrt(sum);
        offer(p, all);
    }
}

/* Plain sums; D: the factor that their own epilogue may have in common. */
static bool model_of(const vn_case_t *c, double *legitimate) {
    static const struct {
        const char *domain, *op, *scale; /* attribute whose value other than 1 is a further product */
        bool mean;
    } rows[] = {
        {"", "MatMul", NULL, false},
        {"", "Gemm", "alpha", false},
        {"", "Conv", NULL, false},
        {"", "ConvTranspose", NULL, false},
        {"", "Einsum", NULL, false},
        {"", "ReduceSum", NULL, false},
        {"", "ReduceSumSquare", NULL, false},
        {"", "ReduceMean", NULL, true},
        {"", "GlobalAveragePool", NULL, true},
        {"", "AveragePool", NULL, true},
        {"com.microsoft", "FusedMatMul", "alpha", false},
    };
    const vn_node_t *n = c->q->node;
    const vn_contract_t k = vn_contract_resolve(c->q->contract, c->ref->dtype);
    for (size_t r = 0; n && r < sizeof rows / sizeof *rows; ++r) {
        if (strcmp(n->op, rows[r].op) != 0 || strcmp(n->domain, rows[r].domain) != 0) continue;
        const bool product = rows[r].mean || (rows[r].scale && vn_node_float(n, rows[r].scale, 1) != 1);
        *legitimate =
            product ? 4 * vn_format_info(k.accumulator)->u : 0; /* 1/n or alpha rounded, the product rounded; and the bias scaled */
        return true;
    }
    return false;
}

static void shape(plan_t *p) {
    const vn_ref_t *r = p->c->ref;
    for (int k = 0; k < r->rank; ++k)
        if (r->dims[k] != 1) {
            p->axes[p->rank] = k;
            p->dims[p->rank++] = r->dims[k];
        }
    p->folded = p->rank < 2;
    p->cols = p->folded ? LANES : p->dims[p->rank - 1];
    p->rows = r->count / p->cols;
    /* at effort quick in proportion to the oracle's own work, count x terms */
    const double worth = (double)r->count * (double)r->terms / TERMS_AN_ELEMENT;
    const int64_t sample = worth < SAMPLE ? (int64_t)worth : SAMPLE, blocks = (p->rows + BLOCK_ROWS - 1) / BLOCK_ROWS,
                  wanted = sample / (p->cols * BLOCK_ROWS) + 1;
    p->stride = p->c->q->effort == VN_EFFORT_QUICK && blocks > wanted ? (blocks + wanted - 1) / wanted : 1;
}

static bool looked_at(const plan_t *p, int64_t row) { return row / BLOCK_ROWS % p->stride == 0; }

static bool element(const plan_t *p, int64_t i, double actual, double *z, double *q) {
    const vn_ref_t *r = p->c->ref;
    return !(r->flags && (r->flags[i] & VN_EL_VOID)) && vn_cell_element(actual, r->value[i], r->var[i], z, q);
}

static void load_rows(const plan_t *p, int64_t first, int64_t rows) {
    vn_tensor_t part = *p->c->actual; /* contiguous; a float type, so whole bytes */
    part.rank = 1;
    part.dims[0] = part.count = rows * p->cols;
    part.strides[0] = 1;
    part.data = (char *)part.data + first * p->cols * vn_dtype_bits(part.dtype) / 8;
    vn_tensor_to_f64(&part, p->x);
}

static void collect(plan_t *p) {
    for (int64_t r = 0; r < p->rows; r += SEGMENT) { /* blocks are whole strips */
        if (!looked_at(p, r)) continue;
        const int64_t rows = p->rows - r < SEGMENT ? p->rows - r : SEGMENT;
        load_rows(p, r, rows);
        vn_cells_strip(p->c->ref, r * p->cols, rows, p->cols, p->x, p->room, &p->row[r], &p->tiles[r / SEGMENT * p->tile_cols]);
    }
    vn_cells_columns(p->room, p->cols, p->col);
}

static vn_status_t test_axes(plan_t *p, vn_error_t *err) {
    int64_t below = p->rows;
    for (int a = 0; a + 1 < p->rank && p->rank > 2; ++a) {
        below /= p->dims[a];
        vn_cell_t *g = vn_alloc((size_t)p->dims[a], sizeof *g);
        if (!g) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int64_t r = 0; r < p->rows; ++r) vn_cell_add(&g[r / below % p->dims[a]], &p->row[r]);
        test(p, g, p->dims[a], AXIS, a);
        vn_free(g);
    }
    return VN_OK;
}

static void test_lanes(plan_t *p) {
    vn_cell_t g[LANES] = {0};
    for (int64_t k = 0; k < p->cols; ++k) vn_cell_add(&g[k % LANES], &p->col[k]);
    for (int64_t period = LANES; period >= 2; period /= 2) {
        for (int64_t k = 0; k < period && period < LANES; ++k) vn_cell_add(&g[k], &g[k + period]);
        if (period < p->cols || p->folded) test(p, g, period, LANE, period);
    }
}

static vn_status_t test_tiles(plan_t *p, vn_error_t *err) {
    for (int size = 0; size < TILE_SIZES && !p->folded; ++size) {
        const int64_t rows = (p->tile_rows + (1 << size) - 1) >> size, cols = (p->tile_cols + (1 << size) - 1) >> size;
        if (rows * cols < 2) break;
        vn_cell_t *g = vn_alloc((size_t)(rows * cols), sizeof *g);
        if (!g) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int64_t r = 0; r < p->tile_rows; ++r)
            for (int64_t k = 0; k < p->tile_cols; ++k) vn_cell_add(&g[(r >> size) * cols + (k >> size)], &p->tiles[r * p->tile_cols + k]);
        test(p, g, rows * cols, TILE, (int64_t)SEGMENT << size);
        vn_free(g);
    }
    return VN_OK;
}

/* ---- the accused: who belongs to it, and what correct orders give there ---- */

static bool belongs(const plan_t *p, int64_t i) {
    const accused_t *a = &p->best;
    const int64_t r = i / p->cols, k = i % p->cols;
    if (r >= p->rows || !looked_at(p, r)) return false;
    if (a->pooled || a->kind == WHOLE) return true;
    switch (a->kind) {
    case ROWS: return r == a->index;
    case COLUMNS: return k == a->index;
    case LANE: return k % a->period == a->index;
    case TILE: return r / a->period * ((p->cols + a->period - 1) / a->period) + k / a->period == a->index;
    default: break;
    }
    int64_t below = p->rows;
    for (int d = 0; d <= a->period; ++d) below /= p->dims[d];
    return r / below % p->dims[a->period] == a->index;
}

static int64_t group_of(const plan_t *p, int64_t i) {
    const accused_t *a = &p->best;
    const int64_t r = i / p->cols, k = i % p->cols;
    switch (a->kind) {
    case ROWS: return r;
    case COLUMNS: return k;
    case LANE: return k % a->period;
    case TILE: return r / a->period * ((p->cols + a->period - 1) / a->period) + k / a->period;
    case AXIS: {
        int64_t below = p->rows;
        for (int d = 0; d <= a->period; ++d) below /= p->dims[d];
        return r / below % p->dims[a->period];
    }
    default: return 0;
    }
}

static int by_bits(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Elements over distinct sums: numbers whose digits agree are one sum, scaled or turned. */
static double repetition(const plan_t *p, vn_error_t *err, vn_status_t *s) {
    enum { MOST = 1 << 14 };
    const vn_ref_t *r = p->c->ref;
    double *m = vn_alloc(MOST, sizeof *m);
    int64_t n = 0, distinct = 0;
    *s = m ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; m && i < r->count && n < MOST; ++i) {
        int e;
        if (belongs(p, i) && r->var[i] > 0 && isfinite(r->value[i])) m[n++] = frexp(fabs(r->value[i]), &e);
    }
    if (m) qsort(m, (size_t)n, sizeof *m, by_bits);
    for (int64_t i = 0; i < n; ++i) distinct += i == 0 || m[i] != m[i - 1];
    vn_free(m);
    return distinct ? (double)n / (double)distinct : INFINITY;
}

static int by_group(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    if (x[0] != y[0]) return x[0] < y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Share of the error that is common in the accused group (mean over several) when the sums are taken in the usual orders. */
static vn_status_t twin_share(const plan_t *p, double *share, vn_error_t *err) {
    const accused_t *a = &p->best;
    const vn_ref_t *r = p->c->ref;
    int64_t(*chosen)[2] = vn_alloc(TWINS, sizeof *chosen);
    double(*errors)[VN_TWIN_ORDERS] = vn_alloc(TWINS, sizeof *errors);
    int64_t *at = vn_alloc(TWINS, sizeof *at), members = 0, n = 0, seen = 0, last = -1, groups = 0;
    vn_status_t s = chosen && errors && at ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    *share = INFINITY;
    for (int64_t i = 0; s == VN_OK && i < r->count; ++i) members += belongs(p, i) && r->var[i] > 0;
    const int64_t whole = a->pooled ? 16 : TWINS; /* elements a group: of many groups the first sixteen elements */
    if (s == VN_OK && a->pooled) {                /* the first groups, whole as far as they go */
        for (int64_t i = 0; i < r->count && n < TWINS; ++i) {
            if (!belongs(p, i) || !(r->var[i] > 0)) continue;
            const int64_t g = group_of(p, i);
            int64_t inside = 0, known = 0;
            for (int64_t k = 0; k < n; ++k) inside += chosen[k][0] == g;
            for (int64_t k = 0; k < n; ++k) known += k == 0 || chosen[k][0] != chosen[k - 1][0];
            if (inside >= whole || (inside == 0 && known >= TWINS)) continue;
            chosen[n][0] = g;
            chosen[n++][1] = i;
        }
    } else if (s == VN_OK) {
        const int64_t step = members / TWINS + 1;
        for (int64_t i = 0; i < r->count && n < TWINS; ++i)
            if (belongs(p, i) && r->var[i] > 0 && seen++ % step == 0) {
                chosen[n][0] = 0;
                chosen[n++][1] = i;
            }
    }
    if (s == VN_OK) qsort(chosen, (size_t)n, sizeof *chosen, by_group);
    for (int64_t k = 0; k < n; ++k) at[k] = chosen[k][1];
    bool known = false;
    if (s == VN_OK) s = vn_twin_errors(p->c, at, n, errors, &known, err);
    if (s == VN_OK && known) {
        double most = 0;
        for (int o = 0; o < VN_TWIN_ORDERS; ++o) {
            double sum = 0, per = 0;
            vn_cell_t g = {0};
            groups = 0;
            last = n ? chosen[0][0] : -1;
            for (int64_t k = 0; k <= n; ++k) {
                if (k == n || chosen[k][0] != last) {
                    sum += square_of(&g, a->factor, 0);
                    per += g.sum[VN_CELL_N];
                    groups++;
                    g = (vn_cell_t){0};
                    if (k < n) last = chosen[k][0];
                }
                double z, q;
                if (k < n && element(p, at[k], r->value[at[k]] + errors[k][o], &z, &q)) {
                    const vn_cell_t one = {{1, z, z * z, z * q, z * q * z * q, q * q, fabs(q)}};
                    vn_cell_add(&g, &one);
                }
            }
            const double mean = groups ? sum / (double)groups : 0, each = groups ? per / (double)groups : 1;
            const double common = a->pooled ? (mean > 1 ? sqrt((mean - 1) / each) : 0) : sqrt(mean / each);
            if (common > most) most = common;
        }
        *share = most;
    }
    vn_free(chosen);
    vn_free(errors);
    vn_free(at);
    return s;
}

static void describe(const plan_t *p, vn_coherence_t *out) {
    const accused_t *a = &p->best;
    const char *what = a->factor ? "a factor" : "an offset";
    const int axis = a->kind == AXIS ? p->axes[a->period] : p->rank ? p->axes[p->rank - 1] : 0;
    char where[120];
    switch (a->kind) {
    case ROWS:
        if (a->pooled) snprintf(where, sizeof where, "each row along axis %d", axis);
        else snprintf(where, sizeof where, "row %lld along axis %d", (long long)a->index, axis);
        break;
    case COLUMNS:
        if (p->folded && a->pooled) snprintf(where, sizeof where, "each lane of %d elements", LANES);
        else if (p->folded) snprintf(where, sizeof where, "elements %lld modulo %d", (long long)a->index, LANES);
        else if (a->pooled) snprintf(where, sizeof where, "each column (index on axis %d)", axis);
        else snprintf(where, sizeof where, "column %lld (index on axis %d)", (long long)a->index, axis);
        break;
    case AXIS:
        if (a->pooled) snprintf(where, sizeof where, "each slice of axis %d", axis);
        else snprintf(where, sizeof where, "slice %lld of axis %d", (long long)a->index, axis);
        break;
    case LANE:
        if (a->pooled) snprintf(where, sizeof where, "each lane of a period of %lld along axis %d", (long long)a->period, axis);
        else snprintf(where, sizeof where, "index %lld modulo %lld on axis %d", (long long)a->index, (long long)a->period, axis);
        break;
    case TILE:
        if (a->pooled) {
            snprintf(where, sizeof where, "each %lld x %lld tile", (long long)a->period, (long long)a->period);
        } else {
            const int64_t across = (p->cols + a->period - 1) / a->period;
            snprintf(where, sizeof where, "the %lld x %lld tile at row %lld, column %lld", (long long)a->period, (long long)a->period,
                     (long long)(a->index / across * a->period), (long long)(a->index % across * a->period));
        }
        break;
    default: snprintf(where, sizeof where, "the whole output");
    }
    snprintf(out->what, sizeof out->what, "the errors of %s share %s", where, what);
    out->share = a->size;
    out->log_p = -(a->exponent + p->budget);
}

vn_status_t vn_coherence(const vn_case_t *c, vn_coherence_t *out, vn_error_t *err) {
    *out = (vn_coherence_t){0};
    plan_t p = {.c = c, .margin = -INFINITY};
    if (c->m.outside || c->m.sigmas < LEAST || c->ref->terms < LEAST_TERMS || !c->ref->value || !c->ref->var || !c->actual ||
        !model_of(c, &p.legitimate))
        return VN_OK;
    shape(&p);
    if (p.rows < 1) return VN_OK;
    p.budget = log(3 * TESTS / c->q->alpha);
    p.tile_rows = p.rows / SEGMENT + 1;
    p.tile_cols = p.cols / SEGMENT + 1;
    p.x = vn_alloc((size_t)((p.rows < SEGMENT ? p.rows : SEGMENT) * p.cols), sizeof *p.x);
    p.room = vn_alloc(vn_cell_room(p.cols), sizeof *p.room);
    p.row = vn_alloc((size_t)p.rows, sizeof *p.row);
    p.col = vn_alloc((size_t)p.cols, sizeof *p.col);
    p.tiles = vn_alloc((size_t)(p.tile_rows * p.tile_cols), sizeof *p.tiles);
    vn_status_t s = p.x && p.room && p.row && p.col && p.tiles ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) {
        collect(&p);
        vn_cell_t all = {0};
        for (int64_t k = 0; k < p.cols; ++k) vn_cell_add(&all, &p.col[k]);
        test(&p, &all, 1, WHOLE, 0);
        if (!p.folded) test(&p, p.row, p.rows, ROWS, 0);
        if (!p.folded) test(&p, p.col, p.cols, COLUMNS, 0);
        test_lanes(&p);
        s = test_axes(&p, err);
        if (s == VN_OK) s = test_tiles(&p, err);
    }
    out->tried = true;
    out->margin = p.margin;
    if (s == VN_OK && p.best.exponent > 0) {
        const double times = repetition(&p, err, &s);
        double twins = INFINITY;
        if (s == VN_OK && (p.best.exponent + p.budget) / times > p.budget) s = twin_share(&p, &twins, err);
        if (s == VN_OK && twins < p.best.size / 2) {
            out->found = true;
            out->accuses = p.best.kind == WHOLE && p.best.factor;
            out->twins = twins;
            describe(&p, out);
        }
    }
    vn_free(p.x);
    vn_free(p.room);
    vn_free(p.row);
    vn_free(p.col);
    vn_free(p.tiles);
    return s;
}
