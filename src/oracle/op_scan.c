/* op_scan.c -- family "scan": CumSum, CumProd.
 *
 * Claims (bounds.md "scan", "prod"; prefix of m terms, T its sum of absolute terms):
 *   SCAN-1  (m-1) u T in any association of the prefix; 0 where no order of the whole row can round (SUM-EXACT).
 *           Second tier "prefix-by-subtraction" (not trees of the prefix): exclusive as inclusive - x, + u |S_incl| and one term more;
 *           reverse as total - prefix: n u sum |x| over the whole row, + u |y|.
 *   SCAN-2  g(m-1) |y| + (m-1) (eta/2) prod max(1, |x|).
 * Integers wrap. An exclusive scan starts with an exact 0 or 1.
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/sums.h"

typedef struct scan {
    vn_eval_t *e;
    bool product, exclusive, reverse;
    double u, eta, tau, most;
    vn_format_t acc;
    int overflow; /* atomic */
} scan_t;

__extension__ typedef __int128 wide_t; /* holds every sum and product of two 64-bit integers, unsigned products apart */

enum { Y, LO, BOUND, WIDE, VAR, FLAGS, OWN };

static int64_t place(const scan_t *j, int64_t n, int64_t k) { return j->reverse ? n - 1 - k : k; }

/* `size`: of the terms that may be added before this element; an infinite term is none of an overflow, but a subtraction from a total
 * that holds it gives NaN. `finite`: without such terms. */
static void flag(scan_t *j, const vn_row_t *row, int64_t at, double size, double finite) {
    if (!row->out[FLAGS]) return;
    if (!j->exclusive && !j->reverse) size = finite;
    row->out[FLAGS][at] = size >= j->most;
    if (size >= j->most) __atomic_store_n(&j->overflow, 1, __ATOMIC_RELAXED);
}

static void sum_row(scan_t *j, const vn_row_t *row) {
    const int64_t n = row->n;
    const double *x = row->in[0], *err = row->in[1], u = j->u;
    const bool bound = row->out[BOUND] != NULL;
    double hi = 0, lo = 0, size = 0, finite = 0, doubt = 0, doubt_var = 0, whole = 0;
    bool exact = false;
    if (bound) {
        const vn_sum2_t t = vn_sum2(x, n);
        whole = t.abs;
        for (int64_t k = 0; err && k < n; ++k) whole += err[k];
        exact = !err && !j->e->contract->ftz && !j->e->contract->daz && vn_sum_exact(x, n, t.abs, j->acc);
        if (row->out[VAR]) {
            double *order = row->work, *var = order + n;
            for (int64_t k = 0; k < n; ++k) order[k] = x[place(j, n, k)], var[k] = 0;
            if (!exact && isfinite(whole)) vn_prefix_variance(j->acc, order, n, var);
        }
    }
    for (int64_t k = 0; k < n; ++k) {
        const int64_t at = place(j, n, k);
        double before_hi = hi, before_lo = lo, before_size = size, before_doubt = doubt, before_var = doubt_var;
        if (isfinite(hi) && isfinite(x[at])) {
            vn_two_sum_add(&hi, &lo, x[at]);
            const double t = hi + lo;
            lo -= t - hi;
            hi = t;
        } else {
            hi += x[at];
            lo = 0;
        }
        size += fabs(x[at]);
        finite += isfinite(x[at]) ? fabs(x[at]) : 0;
        doubt += err ? err[at] : 0;
        doubt_var += row->in[2] ? row->in[2][at] : 0;
        const double incl = hi;
        if (!j->exclusive) before_hi = hi, before_lo = lo, before_size = size, before_doubt = doubt, before_var = doubt_var;
        row->out[Y][at] = before_hi;
        if (row->out[LO]) row->out[LO][at] = isfinite(before_hi) ? before_lo : 0;
        /* each addition loses half a unit of the low part, itself below one of the high one */
        row->out[OWN][at] =
            isfinite(before_hi) ? 0x1p-103 * (double)n * before_size + (row->out[LO] ? 0 : fabs(before_lo) * (1 + 0x1p-52)) : 0;
        if (!bound) continue;
        const double m = (double)(j->exclusive ? k : k + 1), grow = 1 + (double)n * 0x1p-52, T = (before_size + before_doubt) * grow;
        double b = exact || m < 1 ? 0 : (m - 1) * u * T + before_doubt * grow + vn_flushed(j->e, m - 1, m);
        if (!isfinite(before_hi)) b = 0;
        row->out[BOUND][at] = b;
        if (row->out[WIDE]) {
            double w = b;
            if (j->exclusive && !exact) w = fmax(w, m * u * (size + doubt) * grow + u * fabs(incl) + before_doubt * grow);
            if (j->reverse && !exact) w = fmax(w, (double)n * u * whole * grow + u * fabs(before_hi) + before_doubt * grow);
            row->out[WIDE][at] = w;
        }
        if (row->out[VAR]) row->out[VAR][at] = (m < 1 ? 0 : row->work[n + (j->exclusive ? k - 1 : k)]) + before_var;
        flag(j, row, at, (1 + m * u) * T, m > 1 ? (1 + m * u) * (finite + before_doubt) * grow : 0);
    }
}

static void product_row(scan_t *j, const vn_row_t *row) {
    const int64_t n = row->n;
    const double *x = row->in[0], *err = row->in[1];
    long double y = 1;
    double grown = 0, doubt = 0;
    for (int64_t k = 0; k < n; ++k) {
        const int64_t at = place(j, n, k);
        const long double before = y;
        const double grown_before = grown, doubt_before = doubt;
        y *= x[at];
        grown += fabs(x[at]) > 1 && isfinite(x[at]) ? log2(fabs(x[at])) : 0;
        if (err) doubt += x[at] != 0 ? err[at] / fabs(x[at]) : err[at] > 0 ? INFINITY : 0;
        const double v = (double)(j->exclusive ? before : y), m = (double)(j->exclusive ? k : k + 1);
        row->out[Y][at] = v;
        row->out[OWN][at] = isfinite(v) ? m * 0x1p-63 * fabs(v) + (row->out[LO] ? 0 : 0x1p-53 * fabs(v)) + (m > 1 ? 0x1p-1074 : 0) : 0;
        if (row->out[LO]) row->out[LO][at] = isfinite(v) ? (double)((j->exclusive ? before : y) - v) : 0;
        if (!row->out[BOUND]) continue;
        const double most = exp2((j->exclusive ? grown_before : grown) * (1 + 0x1p-40) + 0x1p-30), d = j->exclusive ? doubt_before : doubt;
        const double g = m > 1 ? vn_gamma(m - 1, j->u) : 0, rel = err ? (d < 1 ? expm1(d) * 1.1 : INFINITY) : 0;
        double b = m < 1 ? 0 : (g + rel + g * rel) * fabs(v) + (m - 1) * (j->eta / 2) * most + vn_flushed(j->e, m - 1, m) * most;
        row->out[BOUND][at] = isfinite(v) ? (isnan(b) ? INFINITY : b) : 0;
        if (row->out[WIDE]) row->out[WIDE][at] = row->out[BOUND][at];
        if (row->out[VAR]) row->out[VAR][at] = m > 1 && isfinite(v) ? (m - 1) * 0.18 * j->u * j->u * v * v : 0;
        flag(j, row, at, m > 1 ? most : 0, m > 1 ? most : 0);
    }
}

static void on_row(void *ctx, const vn_row_t *row) {
    scan_t *j = ctx;
    if (j->product) product_row(j, row);
    else sum_row(j, row);
}

static vn_status_t eval_ints(vn_eval_t *e, const scan_t *j, const vn_rows_t *s) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, x->dims));
    const int64_t step = s->n_inner ? s->inner_step[0] : 0;
    const bool is_unsigned = vn_dtype_kind(x->dtype) == VN_KIND_UNSIGNED;
    const int bits = vn_dtype_bits(x->dtype);
    const wide_t most = ((wide_t)1 << (is_unsigned ? bits : bits - 1)) - 1, least = is_unsigned ? 0 : -most - 1;
    vn_tensor_t *clamped; /* every step kept within the type: a reading, because the text names no arithmetic beyond it */
    bool overflows = false;
    VN_TRY(vn_tensor_new(x->dtype, x->rank, x->dims, &clamped, e->err));
    for (int64_t r = 0; r < s->rows; ++r) {
        const int64_t base = vn_rows_base(s, r);
        uint64_t acc = j->product;
        wide_t kept = j->product;
        for (int64_t k = 0; k < s->n; ++k) {
            const int64_t at = base + place(j, s->n, k) * step;
            const uint64_t before = acc, v = (uint64_t)vn_tensor_get_i64(x, at);
            acc = j->product ? acc * v : acc + v;
            vn_tensor_set_i64(e->out[0].tensor, at, (int64_t)(j->exclusive ? before : acc));
            const wide_t kept_before = kept, w = is_unsigned ? (wide_t)v : (wide_t)(int64_t)v;
            if (j->product ? __builtin_mul_overflow(kept, w, &kept) : __builtin_add_overflow(kept, w, &kept)) kept = most;
            kept = kept > most ? most : kept < least ? least : kept;
            vn_tensor_set_i64(clamped, at, (int64_t)(uint64_t)(j->exclusive ? kept_before : kept));
            overflows |= vn_tensor_get_i64(clamped, at) != vn_tensor_get_i64(e->out[0].tensor, at);
        }
    }
    if (overflows && e->want >= VN_WANT_BOUND) return vn_out_reading(e, 0, "integer overflow saturates", clamped);
    vn_tensor_free(clamped);
    return VN_OK;
}

/* ---- single elements in more digits (claim PREC-3): the prefix once, from its beginning ---- */

typedef struct refine {
    const scan_t *j;
    const vn_rows_t *rows;
    const double *x;
} refine_t;

static void refine_row(void *ctx, const vn_refine_row_t *row) {
    const refine_t *r = ctx;
    const scan_t *j = r->j;
    double *x = vn_alloc((size_t)(row->n ? row->n : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_rows_read(r->rows, r->x, row->index, 1, x);
    vn_quad_sum_t s = {0};
    vn_quad_t y = 1, factors = 0; /* factors: of a product that was rounded */
    const vn_quad_t far = (vn_quad_t)0x1p-1000 * 0x1p-1000;
    int64_t done = 0; /* terms in the prefix */
    for (int64_t i = 0; i < row->count; ++i) {
        const int64_t which = j->reverse ? row->count - 1 - i : i, k = place(j, row->n, row->k[which]), terms = k + !j->exclusive;
        for (; done < terms; ++done) {
            const double v = x[place(j, row->n, done)];
            if (!j->product) {
                vn_quad_add(&s, v);
                continue;
            }
            const vn_quad_t next = y * v;
            if (factors > 0 || vn_qfma(y, v, -next) != 0) factors += 1;
            y = next;
        }
        const bool known = !j->product || (vn_quad_finite(y) && (y == 0 || vn_qabs(y) > far));
        if (known)
            *row->out[which] = j->product ? (vn_exact_t){.value = y, .own = vn_qabs(y) * factors * (2 * VN_QUAD_U)} : vn_exact_sum(&s);
    }
    vn_free(x);
}

static vn_status_t eval(vn_eval_t *e, bool product) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t axis64;
    int n, axis;
    bool along[VN_MAX_RANK] = {false};
    VN_TRY(vn_arg_ints(e, 1, &axis64, 1, &n));
    if (n != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "axis is empty");
    VN_TRY(vn_eval_axis(e, axis64, x->rank, &axis));
    along[axis] = true;
    vn_rows_t s;
    vn_rows_plan(x->rank, x->dims, along, &s);
    const vn_format_info_t *acc = vn_format_info(e->contract->accumulator);
    scan_t j = {.e = e,
                .product = product,
                .exclusive = vn_node_int(e->node, "exclusive", 0) != 0,
                .reverse = vn_node_int(e->node, "reverse", 0) != 0,
                .u = acc->u,
                .eta = acc->eta,
                .tau = acc->tau,
                .most = acc->max,
                .acc = e->contract->accumulator};
    if (!vn_dtype_is_float(x->dtype)) return eval_ints(e, &j, &s);
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    if (e->refine) {
        const double *p = vn_arg_f64(e, 0);
        return p ? vn_refine_rows(e, &s, refine_row, &(refine_t){.j = &j, .rows = &s, .x = p}) : VN_ERR_NOMEM;
    }
    vn_ref_t *r = &e->out[0];
    VN_TRY(vn_out_own(e, 0));
    const bool bound = e->want >= VN_WANT_BOUND;
    if (x->dtype == VN_F64) VN_TRY(vn_out_lo(e, 0));
    if (bound && e->contract->tier != VN_TIER_IEEE && !product && (j.exclusive || j.reverse))
        VN_TRY(vn_out_wide(e, 0, "prefix-by-subtraction"));
    const double *plane = vn_arg_f64(e, 0);
    double *flags = bound ? vn_alloc((size_t)(x->count ? x->count : 1), sizeof *flags) : NULL;
    if (!plane || (bound && !flags)) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_row_job_t job = {.shape = &s,
                        .in = {plane, vn_arg_err(e, 0), e->in[0].var},
                        .out = {r->value, r->lo, r->bound, r->wide, r->var, flags, r->own},
                        .work = 2,
                        .fn = on_row,
                        .ctx = &j};
    vn_status_t st = vn_rows_run(e, &job);
    if (st == VN_OK && j.overflow) st = vn_out_flags(e, 0);
    for (int64_t i = 0; st == VN_OK && j.overflow && i < r->count; ++i)
        if (flags[i] != 0) r->flags[i] = VN_EL_INF_OK | VN_EL_NAN_OK;
    vn_free(flags);
    r->terms = s.n;
    return st;
}

static vn_status_t eval_sum(vn_eval_t *e) { return eval(e, false); }
static vn_status_t eval_product(vn_eval_t *e) { return eval(e, true); }

static vn_status_t infer(vn_eval_t *e) {
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = e->in[0].t->rank;
    memcpy(e->out[0].dims, e->in[0].t->dims, sizeof e->out[0].dims);
    return VN_OK;
}

static const vn_op_t rows[] = {
    {"", "CumSum", 11, 0, VN_CLASS_SCAN, VN_OP_REFINES | VN_OP_SHAPE_LIKE_1 | VN_OP_PROPAGATES, "SCAN-1", eval_sum, infer, 0},
    {"", "CumProd", 26, 0, VN_CLASS_SCAN, VN_OP_REFINES | VN_OP_SHAPE_LIKE_1 | VN_OP_PROPAGATES, "SCAN-2", eval_product, infer, 0},
};

const vn_family_t vn_family_scan = {"scan", rows, sizeof rows / sizeof *rows};
