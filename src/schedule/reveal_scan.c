/* reveal_scan.c -- CumSum: the tree of the last prefix from pairs of masks, and the rule that gives every prefix, by replay.
 *
 * Claim REVEAL-7: a scan is not one tree but n of them. Known rules (one after the other; blocks, whose totals are scanned the same way; the staged scan
 * of one GPU block) are carried out on random rows; a rule stands if every prefix of every row is bit-equal, and if the tree of its last prefix
 * is the one that was read.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { CHECKS = 100, DISTRIBUTIONS = 2, STAGED_MOST = 4096 };

typedef struct scan {
    vn_reveal_run_t *r;
    int32_t m, n;
    float *x;    /* [m*n] */
    double *out; /* [m*n] */
} scan_t;

static vn_status_t run(scan_t *q, vn_error_t *err) {
    const int64_t dims[2] = {q->m, q->n};
    vn_tensor_t *x;
    VN_TRY(vn_tensor_new(VN_F32, 2, dims, &x, err));
    memcpy(x->data, q->x, (size_t)q->m * (size_t)q->n * sizeof *q->x);
    const vn_tensor_t *in[1] = {x};
    vn_free(q->out);
    q->out = NULL;
    const vn_status_t st = vn_reveal_call(q->r, in, (int64_t)q->m * q->n, &q->out, err);
    vn_tensor_free(x);
    return st;
}

static vn_status_t ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    scan_t *q = context;
    const vn_readout_t readout = vn_readout_of(VN_F32);
    for (int64_t from = 0; from < pairs; from += q->m) {
        const int32_t rows = (int32_t)(pairs - from < q->m ? pairs - from : q->m);
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = 1;
        for (int32_t k = 0; k < rows; ++k) {
            q->x[(int64_t)k * q->n + i[from + k]] = (float)readout.mask;
            q->x[(int64_t)k * q->n + j[from + k]] = (float)-readout.mask;
        }
        VN_TRY(run(q, err));
        for (int32_t k = 0; k < rows; ++k) l[from + k] = q->n - q->out[(int64_t)k * q->n + q->n - 1];
    }
    return VN_OK;
}

/* ---- rules ---- */

static void chain(const float *x, int32_t n, float *y) {
    float s = x[0];
    y[0] = s;
    for (int32_t k = 1; k < n; ++k) y[k] = s = s + x[k];
}

/* Blocks are scanned in order, their totals by this same rule; what comes before a block is added to each of its prefixes. scratch: 2n / block + 2 log. */
static void blocks(const float *x, int32_t n, int32_t block, float *y, float *scratch) {
    const int32_t count = (n + block - 1) / block;
    for (int32_t b = 0; b < count; ++b)
        chain(x + (int64_t)b * block, n - b * block < block ? n - b * block : block, y + (int64_t)b * block);
    if (count == 1) return;
    float *total = scratch, *before = scratch + count;
    for (int32_t b = 0; b < count; ++b) total[b] = y[(int64_t)(b + 1) * block < n ? (int64_t)(b + 1) * block - 1 : n - 1];
    blocks(total, count, block, before, scratch + 2 * (int64_t)count);
    for (int32_t k = block; k < n; ++k) y[k] = before[k / block - 1] + y[k];
}

typedef struct rule {
    int32_t block; /* 0: in order; -1: staged */
} rule_t;
static const rule_t rules[] = {{0}, {-1}, {4}, {8}, {16}, {32}, {64}, {128}, {256}, {512}, {1024}};
enum { RULES = sizeof rules / sizeof *rules };

static bool apply(rule_t rule, const float *x, int32_t n, float *y, float *scratch) {
    if (rule.block == 0) chain(x, n, y);
    else if (rule.block < 0) return n <= STAGED_MOST && vn_scan_staged(x, n, 0, y, NULL) == VN_OK;
    else if (rule.block < n) blocks(x, n, rule.block, y, scratch);
    else return false;
    return true;
}

static void name_of(rule_t rule, char *out, size_t size) {
    if (rule.block == 0) snprintf(out, size, "every prefix in order");
    else if (rule.block < 0) snprintf(out, size, "staged scan of one block: 4 a thread, 32 threads a warp");
    else snprintf(out, size, "blocks of %d in order, their totals the same way", rule.block);
}

/* Elements of all rows that equal the rule. */
static vn_status_t matches(const scan_t *q, rule_t rule, int64_t *equal, vn_error_t *err) {
    float *y = vn_alloc((size_t)q->n, sizeof *y), *scratch = vn_alloc(2 * (size_t)q->n + 64, sizeof *scratch);
    vn_status_t st = y && scratch ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a scan");
    *equal = 0;
    for (int32_t row = 0; row < q->m && st == VN_OK; ++row) {
        if (!apply(rule, q->x + (int64_t)row * q->n, q->n, y, scratch)) break;
        for (int32_t k = 0; k < q->n; ++k) *equal += q->out[(int64_t)row * q->n + k] == (double)y[k];
    }
    vn_free(y);
    vn_free(scratch);
    return st;
}

static vn_status_t prove(scan_t *q, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    const int64_t count = (int64_t)q->m * q->n;
    int found = -1;
    for (int d = 0; d < DISTRIBUTIONS; ++d) {
        int64_t best = -1;
        for (int64_t e = 0; e < count; ++e)
            q->x[e] = (float)(vn_rng_normal(&q->r->rng) * (d ? exp2((double)vn_rng_below(&q->r->rng, 25) - 12) : 1));
        VN_TRY(run(q, err));
        const int first = found < 0 ? 0 : found, last = found < 0 ? RULES - 1 : found;
        for (int k = first; k <= last && best < count; ++k) {
            int64_t equal;
            VN_TRY(matches(q, rules[k], &equal, err));
            if (equal > best) {
                best = equal;
                found = k;
            }
        }
        s->elements += count;
        s->replayed += best;
        if (best < count)
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld prefixes follow no rule known here",
                          d ? "exponents spread by 12" : "normal data", (long long)(count - best), (long long)count);
    }
    char name[120];
    name_of(rules[found], name, sizeof name);
    vn_reveal_say(s->notes, sizeof s->notes, "tree of the last prefix; %s", name);
    return VN_OK;
}

vn_status_t vn_reveal_scan(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    vn_schedule_t *s = r->s;
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: scans of %s cannot be read; f32 can", vn_dtype_name(op->dtype));
    if (op->m < 1 || op->n < 1 || op->m > 1 << 20 || op->n > 1 << 20 || op->m * op->n > (int64_t)1 << 28)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld rows of %lld terms", (long long)op->m, (long long)op->n);
    scan_t q = {.r = r, .m = (int32_t)op->m, .n = (int32_t)op->n};
    s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    s->classes = vn_alloc(1, sizeof *s->classes);
    q.x = vn_alloc((size_t)q.m * (size_t)q.n, sizeof *q.x);
    vn_status_t st = s->classes && q.x && (s->classes->where = vn_strdup("last prefix")) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) {
        s->n_classes = 1;
        s->outputs = s->classes->elements = (int64_t)q.m * q.n;
        st = vn_rebuild_pairs(q.n, vn_rng_u64(&r->rng), CHECKS, ask, &q, &s->classes->tree, &s->classes->violation, err);
    }
    if (st == VN_OK && !s->classes->tree)
        vn_reveal_say(s->reason, sizeof s->reason, "%s: %s", vn_violation_name(s->classes->violation.kind), s->classes->violation.what);
    if (st == VN_OK) st = prove(&q, err);
    if (st == VN_OK) st = vn_reveal_identity(s, err);
    vn_free(q.x);
    vn_free(q.out);
    return st;
}
