/* op_binary.c -- + - * / Pow Mod PRelu on floats with broadcasting; integers go to op_integer.c.
 *
 * Claim ELEM-1 (one rounding): Add, Sub, Mul, Div equal the exact value rounded once. For f32, f16, bf16 the f64 result is enough: a f64
 *   carries more than 2p + 2 bits, so that rounding it again is the rounding of the exact value. For f64, value + lo is exact (sum,
 *   product) or within 2^-100 (quotient).
 * Claim ELEM-7 (quotient by reciprocal): x (1/y) is within 3u |q| + eta (|x| + 2) of q, a second tier named reciprocal-quotient.
 * Claim ELEM-8 (uncertain operands): sums ea + eb; products |a| eb + |b| ea + ea eb; quotients (ea + |q| eb) / (|b| - eb), no statement if
 *   eb >= |b|.
 * Claim REGION-2 (folding): a back end may multiply a constant factor into the weights of the sum before it, and start that sum from what is
 *   added after it, or join two constants: + 2u per product of a sum inside a region, + g(n + 1) |c| for an exact addend c after n terms.
 * Claim ELEM-9 (pow): t ulp(y) + tau; uncertain operands by the four corners, since x^b is monotone in either argument for x > 0.
 */
#include "oracle/elementwise.h"

typedef struct job {
    vn_pair_op_t op;
    const double *a, *b;
    vn_doubt_t da, db;
    bool doubtful, is_f64, demand;
    double *value, *lo, *bound, *wide, *var, *own;
    vn_spacing_t ulp, promised;
    double t, c, tau, u, eta, quotient; /* quotient: allowance of the reciprocal form in u, 0 = none */
    double fold_a, fold_b; /* relative allowance of an exact operand that may enter the sum behind the other (claim REGION-2) */
    vn_flagger_t flags;
} job_t;

/* ---- values: one plain loop per operation and per way the operands advance ---- */

#define LOOP(expr)                                    \
    do {                                              \
        if (sa && sb)                                 \
            for (int64_t i = 0; i < n; ++i) {         \
                const double x = a[i], y = b[i];      \
                out[i] = (expr);                      \
            }                                         \
        else if (sa)                                  \
            for (int64_t i = 0; i < n; ++i) {         \
                const double x = a[i], y = b[0];      \
                out[i] = (expr);                      \
            }                                         \
        else                                          \
            for (int64_t i = 0; i < n; ++i) {         \
                const double x = a[0], y = b[i * sb]; \
                out[i] = (expr);                      \
            }                                         \
    } while (0)

/* a - floor(a/b) b: the exact remainder of the sign of b, rounded once. */
static double floor_mod(double x, double y) {
    if (isinf(y) && isfinite(x)) return x == 0 ? copysign(0, y) : signbit(x) == signbit(y) ? x : y;
    const double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return isnan(r) || signbit(r) == signbit(y) ? r : r + y;
}

static void values(vn_pair_op_t op, int64_t n, const double *restrict a, int64_t sa, const double *restrict b, int64_t sb,
                   double *restrict out) {
    switch (op) {
    case VN_PAIR_ADD: LOOP(x + y); break;
    case VN_PAIR_SUB: LOOP(x - y); break;
    case VN_PAIR_MUL: LOOP(x * y); break;
    case VN_PAIR_DIV: LOOP(x / y); break;
    case VN_PAIR_POW: LOOP(pow(x, y)); break;
    case VN_PAIR_FMOD: LOOP(fmod(x, y)); break;
    case VN_PAIR_FLOOR_MOD: LOOP(floor_mod(x, y)); break;
    case VN_PAIR_PRELU: LOOP(x < 0 ? x * y : x); break;
    }
}

/* What the f64 result leaves behind, for f64 tensors. */
static double rest(vn_pair_op_t op, double a, double b, double r) {
    double low = 0;
    switch (op) {
    case VN_PAIR_SUB: b = -b; /* fall through */
    case VN_PAIR_ADD: {
        const double z = r - a;
        low = (a - (r - z)) + (b - z);
        break;
    }
    case VN_PAIR_PRELU:
        if (!(a < 0)) break; /* fall through */
    case VN_PAIR_MUL: low = fma(a, b, -r); break;
    case VN_PAIR_DIV: low = fma(-r, b, a) / b; break;
    case VN_PAIR_POW: {
        const long double w = powl(a, b);
        low = (double)(w - r);
        break;
    }
    case VN_PAIR_FLOOR_MOD: {
        const double m = fmod(a, b);
        if (m == 0 || signbit(m) == signbit(b)) break;
        const double z = r - m;
        low = (m - (r - z)) + (b - z);
        break;
    }
    case VN_PAIR_FMOD: break;
    }
    return isfinite(low) && isfinite(r) ? low : 0;
}

/* ---- uncertain operands ---- */

static double corner_spread(job_t *j, int64_t i, double a, double ea, double b, double eb, double y) {
    if (a - ea < 0 || (a - ea == 0 && b - eb < 0)) {
        if (eb == 0 && b == rint(b) && fabs(b) < 1e9 && (b >= 0 || fabs(a) > ea)) { /* x^n: |n| sup|x|^(n-1) e */
            const double far = b >= 1 ? fabs(a) + ea : fabs(a) - ea;
            return b == 0 ? 0 : fabs(b) * pow(far, b - 1) * ea;
        }
        vn_flag(&j->flags, i, VN_EL_VOID);
        return INFINITY;
    }
    double worst = 0;
    for (int k = 0; k < 4; ++k) worst = fmax(worst, fabs(pow(k & 1 ? a + ea : a - ea, k & 2 ? b + eb : b - eb) - y));
    return worst;
}

/* An exact infinity plus anything finite is that infinity, however uncertain the other is: masks. */
static bool absorbed(const job_t *j, double a, double ea, double b, double eb, double y) {
    return (j->op == VN_PAIR_ADD || j->op == VN_PAIR_SUB) && isinf(y) &&
           ((isinf(a) && ea == 0 && isfinite(b) && isfinite(eb)) || (isinf(b) && eb == 0 && isfinite(a) && isfinite(ea)));
}

static double spread(job_t *j, int64_t i, double a, double ea, double b, double eb, double y) {
    if ((ea == 0 && eb == 0) || absorbed(j, a, ea, b, eb, y)) return 0;
    if (!isfinite(ea) || !isfinite(eb) || !isfinite(y)) {
        vn_flag(&j->flags, i, VN_EL_VOID);
        return INFINITY;
    }
    double s = INFINITY;
    switch (j->op) {
    case VN_PAIR_ADD:
    case VN_PAIR_SUB: s = ea + eb; break;
    case VN_PAIR_MUL: s = fabs(a) * eb + fabs(b) * ea + ea * eb; break;
    case VN_PAIR_DIV:
        if (eb < fabs(b)) {
            s = (ea + fabs(y) * eb) / (fabs(b) - eb);
        } else {
            vn_flag(&j->flags, i, VN_EL_INF_OK | VN_EL_NAN_OK);
        }
        break;
    case VN_PAIR_POW: s = corner_spread(j, i, a, ea, b, eb, y); break;
    case VN_PAIR_PRELU: { /* piecewise linear in a with slopes 1 and b, |a| eb on the negative side */
        const double negative = fmax(0, ea - a);
        s = fmax(a + ea > 0 ? 1 : 0, a - ea < 0 ? fabs(b) + eb : 0) * ea + (a < 0 ? fabs(a) : negative) * eb;
        break;
    }
    case VN_PAIR_FMOD:
    case VN_PAIR_FLOOR_MOD: { /* inside one period the remainder moves with a; across a border it may be anything below |b| */
        const double room = fmin(fabs(y), fabs(b) - fabs(y));
        s = eb == 0 && ea < room ? ea : fabs(b) + eb;
        break;
    }
    }
    return s * (1 + 0x1p-40);
}

static double spread_variance(const job_t *j, double a, double va, double b, double vb, double y) {
    switch (j->op) {
    case VN_PAIR_ADD:
    case VN_PAIR_SUB: return va + vb;
    case VN_PAIR_MUL: return b * b * va + a * a * vb + va * vb;
    case VN_PAIR_DIV: return (va + y * y * vb) / (b * b);
    case VN_PAIR_POW: {
        const double by_a = a != 0 ? b * y / a : 0, by_b = a > 0 ? y * log(a) : 0;
        return by_a * by_a * va + by_b * by_b * vb;
    }
    case VN_PAIR_PRELU: return a < 0 ? b * b * va + a * a * vb : va;
    case VN_PAIR_FMOD:
    case VN_PAIR_FLOOR_MOD: return va;
    }
    return 0;
}

/* ---- bounds ---- */

/* Error of the operation itself on exact operands. */
static double local_error(const job_t *j, double y, double spread_by) {
    const double size = fabs(y) + (isfinite(spread_by) ? spread_by : 0);
    switch (j->op) {
    case VN_PAIR_FMOD: return 0;
    case VN_PAIR_POW: return j->t * vn_spacing_at(j->promised, size) + j->tau;
    case VN_PAIR_ADD:
    case VN_PAIR_SUB:
    case VN_PAIR_MUL:
    case VN_PAIR_DIV:
    case VN_PAIR_FLOOR_MOD:
    case VN_PAIR_PRELU: return j->demand ? 0 : j->t * vn_spacing_at(j->ulp, size);
    }
    return INFINITY;
}

static void flag_zero(job_t *j, int64_t i, double a, double b, double y) {
    if (y != 0) return;
    const bool open = (j->op == VN_PAIR_FMOD && a == 0 && signbit(a) && b > 0) || j->op == VN_PAIR_POW;
    if (open) vn_flag(&j->flags, i, VN_EL_ZERO_OK);
}

static void piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    const double *a = j->a + p->at[0], *b = j->b + p->at[1];
    const int64_t sa = p->step[0], sb = p->step[1];
    double *y = j->value + p->out;
    values(j->op, p->n, a, sa, b, sb, y);
    if (j->is_f64 && j->lo)
        for (int64_t i = 0; i < p->n; ++i) j->lo[p->out + i] = rest(j->op, a[i * sa], b[i * sb], y[i]);
    if (j->own) {
        const bool quotient = j->op == VN_PAIR_DIV; /* its rest is rounded */
        const double unit = quotient ? 0x1p-104 : j->is_f64 && LDBL_MANT_DIG >= 64 ? 0x1p-61 : 0x1p-52, least = quotient ? 0x1p-1074 : 0;
        for (int64_t i = 0; i < p->n; ++i) j->own[p->out + i] = isfinite(y[i]) ? unit * fabs(y[i]) + least : 0;
    }
    if (!j->bound) return;
    if (!j->doubtful && j->demand && !j->wide) { /* bounds stay 0: the frame adds the one rounding */
        if (j->var && j->op != VN_PAIR_FMOD) vn_spacing_square_row(j->ulp, y, p->n, 1.0 / 12, j->var + p->out);
    } else {
        for (int64_t i = 0; i < p->n; ++i) {
            const int64_t o = p->out + i, ka = p->at[0] + i * sa, kb = p->at[1] + i * sb;
            const double x = j->a[ka], z = j->b[kb];
            const double s = j->doubtful ? spread(j, o, x, vn_doubt_at(&j->da, ka, x), z, vn_doubt_at(&j->db, kb, z), y[i]) : 0;
            const double e = local_error(j, y[i], s) + s + j->fold_a * fabs(x) + j->fold_b * fabs(z);
            j->bound[o] = s == 0 && isinf(y[i]) && (isinf(x) || isinf(z)) ? 0 : e;
            if (j->wide && isfinite(y[i])) {
                double w = e;
                if (j->quotient > 0) w += j->quotient * j->u * (fabs(y[i]) + (isfinite(s) ? s : 0)) + j->eta * (fabs(x) + 2);
                if (j->c > 0) w += j->c * j->u * fabs(y[i]) * fabs(z) * (1 + fabs(log(fabs(x))));
                j->wide[o] = isnan(w) ? INFINITY : w;
            }
            if (!j->var) continue;
            const double ulp = vn_spacing_at(j->ulp, y[i]);
            double v = j->op == VN_PAIR_FMOD ? 0 : j->op == VN_PAIR_POW ? fmax(1.0 / 12, j->t * j->t / 16) * ulp * ulp : ulp * ulp / 12;
            if ((j->da.var || j->db.var) && isfinite(y[i]))
                v += spread_variance(j, x, j->da.var ? j->da.var[ka] : 0, z, j->db.var ? j->db.var[kb] : 0, y[i]);
            j->var[o] = v;
        }
    }
    if (j->op == VN_PAIR_FMOD || j->op == VN_PAIR_POW)
        for (int64_t i = 0; i < p->n; ++i) flag_zero(j, p->out + i, a[i * sa], b[i * sb], y[i]);
}

static vn_status_t run(vn_eval_t *e, vn_pair_op_t op) {
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 2, (const int[]){0, 1}, &plan));
    const vn_dtype_t t = e->in[0].t->dtype;
    const double *a = vn_arg_f64(e, 0), *b = vn_arg_f64(e, 1);
    if (!a || !b) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t, plan.out_rank, plan.out_dims));
    if (e->refine) return op == VN_PAIR_POW ? vn_refine_pow(e, a, b, &plan) : VN_OK; /* the others are decided: ELEM-1 */
    vn_ref_t *r = &e->out[0];
    const bool promise = e->contract->has_function_ulp, bare_ieee = e->contract->tier == VN_TIER_IEEE && !promise;
    const vn_format_t declared = e->contract->result != VN_FMT_NONE ? e->contract->result : vn_format_of(t);
    job_t j = {.op = op,
               .a = a,
               .b = b,
               .da = vn_doubt(e, 0),
               .db = vn_doubt(e, 1),
               .is_f64 = t == VN_F64,
               .u = vn_u(e),
               .eta = vn_eta(e),
               .flags = {.e = e, .k = 0}};
    j.doubtful = vn_doubt_any(&j.da) || vn_doubt_any(&j.db);
    j.ulp = vn_spacing(e->contract->accumulator);
    j.promised = vn_spacing(promise ? declared : e->contract->accumulator);
    j.t = op == VN_PAIR_POW ? vn_budget(e, "pow") : op == VN_PAIR_DIV ? vn_budget(e, "div") : 0.5;
    j.c = op == VN_PAIR_POW ? vn_body_budget(e, "pow") : 0;
    j.tau = op == VN_PAIR_POW && !bare_ieee ? vn_tau(e) : 0;
    j.demand = op != VN_PAIR_POW && j.t <= 0.5 && !j.doubtful && (op == VN_PAIR_FMOD || vn_one_rounding(e, t));
    j.quotient = op == VN_PAIR_DIV && e->contract->reciprocal_quotient ? 3 : 0;
    if (e->want >= VN_WANT_BOUND && (j.quotient > 0 || j.c > 0))
        VN_TRY(vn_out_wide(e, 0, j.quotient > 0 ? "reciprocal-quotient" : "native-approximation"));
    if (j.is_f64 && op != VN_PAIR_FMOD) VN_TRY(vn_out_lo(e, 0));
    if (j.is_f64 || op == VN_PAIR_POW) VN_TRY(vn_out_own(e, 0));
    j.value = r->value;
    j.lo = r->lo;
    j.bound = r->bound;
    j.wide = r->wide;
    j.var = r->var;
    j.own = op == VN_PAIR_POW || op == VN_PAIR_DIV ? r->own : NULL; /* elsewhere value + lo is exact */
    if (vn_in_region(e) && (op == VN_PAIR_ADD || op == VN_PAIR_SUB)) {
        if (vn_doubt_any(&j.da) && !vn_doubt_any(&j.db)) j.fold_b = vn_gamma((double)e->in[0].terms + 1, j.u);
        if (vn_doubt_any(&j.db) && !vn_doubt_any(&j.da)) j.fold_a = vn_gamma((double)e->in[1].terms + 1, j.u);
    }
    vn_bcast_run(&plan, piece, &j);
    if (j.flags.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    if (j.demand) vn_out_rounded(e, 0);
    if (op == VN_PAIR_FMOD && (vn_in_region(e) || j.doubtful)) vn_out_final(e, 0);
    return VN_OK;
}

/* Both operands given, same type; float types of at least 16 bits or integers. */
static vn_status_t check_pair(vn_eval_t *e, bool same_type) {
    for (int k = 0; k < 2; ++k)
        if (!vn_has(e, k) || !e->in[k].t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", k);
    const vn_dtype_t a = e->in[0].t->dtype, b = e->in[1].t->dtype;
    if (same_type && a != b)
        return vn_eval_fail(e, VN_ERR_DTYPE, "inputs are %s and %s; equal types are needed", vn_dtype_name(a), vn_dtype_name(b));
    for (int k = 0; k < 2; ++k) {
        const vn_dtype_t t = e->in[k].t->dtype;
        if (!vn_dtype_is_int(t) && !(vn_dtype_is_float(t) && vn_dtype_bits(t) >= 16))
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; numbers are needed", k, vn_dtype_name(t));
    }
    return VN_OK;
}

vn_status_t vn_eval_binary(vn_eval_t *e) {
    const int op = vn_registry_find(e->node->domain, e->node->op, e->version)->param;
    VN_TRY(check_pair(e, true));
    return vn_dtype_is_int(e->in[0].t->dtype) ? vn_eval_pair_int(e, (vn_pair_op_t)op) : run(e, (vn_pair_op_t)op);
}

vn_status_t vn_eval_pow(vn_eval_t *e) {
    VN_TRY(check_pair(e, e->version < 12));
    return vn_dtype_is_int(e->in[0].t->dtype) ? vn_eval_pow_int(e) : run(e, VN_PAIR_POW);
}

vn_status_t vn_eval_mod(vn_eval_t *e) {
    VN_TRY(check_pair(e, true));
    const bool c_rule = vn_node_int(e->node, "fmod", 0) != 0;
    const vn_dtype_t t = e->in[0].t->dtype;
    if (vn_dtype_is_int(t)) return vn_eval_pair_int(e, c_rule ? VN_PAIR_FMOD : VN_PAIR_FLOOR_MOD);
    if (!c_rule && e->version < 28)
        return vn_eval_fail(e, VN_ERR_DTYPE, "fmod=0 is for integers before opset 28, the inputs are %s", vn_dtype_name(t));
    return run(e, c_rule ? VN_PAIR_FMOD : VN_PAIR_FLOOR_MOD);
}

vn_status_t vn_eval_prelu(vn_eval_t *e) {
    VN_TRY(check_pair(e, true));
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(vn_bcast_shape(e, 2, (const int[]){0, 1}, &rank, dims));
    const vn_tensor_t *x = e->in[0].t;
    bool same = rank == x->rank;
    for (int d = 0; d < rank && same; ++d) same = dims[d] == x->dims[d];
    if (!same) return vn_eval_fail(e, VN_ERR_SHAPE, "the slope must broadcast to the shape of X, not beyond it");
    return vn_dtype_is_int(x->dtype) ? vn_eval_pair_int(e, VN_PAIR_PRELU) : run(e, VN_PAIR_PRELU);
}
