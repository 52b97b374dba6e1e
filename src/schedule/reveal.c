/* reveal.c -- the entry: which method reads which operator, calls counted, the identity of what was read. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schedule/reveal.h"

enum { MOST_CALLS = 5000, MOST_SECONDS = 60 };

static const struct {
    const char *name;
    vn_status_t (*reveal)(vn_reveal_run_t *r, vn_error_t *err);
} kinds[VN_SUM_KIND_COUNT] = {
    [VN_SUM_MATMUL] = {"MatMul", vn_reveal_product},
    [VN_SUM_CONV] = {"Conv", vn_reveal_conv},
    [VN_SUM_REDUCE_SUM] = {"ReduceSum", vn_reveal_rows},
    [VN_SUM_REDUCE_MEAN] = {"ReduceMean", vn_reveal_rows},
    [VN_SUM_REDUCE_L1] = {"ReduceL1", vn_reveal_squares},
    [VN_SUM_SQUARE] = {"ReduceSumSquare", vn_reveal_squares},
    [VN_SUM_L2] = {"ReduceL2", vn_reveal_squares},
    [VN_SUM_LOG_SUM_EXP] = {"ReduceLogSumExp", vn_reveal_log_sum_exp},
    [VN_SUM_SOFTMAX] = {"Softmax", vn_reveal_softmax},
    [VN_SUM_LAYER_NORM] = {"LayerNormalization", vn_reveal_norm},
    [VN_SUM_RMS_NORM] = {"RMSNormalization", vn_reveal_norm},
    [VN_SUM_CUMSUM] = {"CumSum", vn_reveal_scan},
    [VN_SUM_ATTENTION] = {"Attention", vn_reveal_attention},
    [VN_SUM_AVERAGE_POOL] = {"GlobalAveragePool", vn_reveal_rows},
    [VN_SUM_MATMUL_NBITS] = {"MatMulNBits", vn_reveal_nbits},
};

const char *vn_sum_kind_name(vn_sum_kind_t k) { return (unsigned)k < VN_SUM_KIND_COUNT ? kinds[k].name : "?"; }

void vn_schedule_free(vn_schedule_t *s) {
    if (!s) return;
    for (int c = 0; c < s->n_classes; ++c) {
        vn_tree_free(s->classes[c].tree);
        vn_free(s->classes[c].text);
        vn_tree_free(s->classes[c].mean);
        vn_free(s->classes[c].mean_text);
        vn_free(s->classes[c].where);
    }
    vn_free(s->classes);
    vn_free(s->class_of);
    vn_free(s);
}

void vn_reveal_say(char *text, size_t size, const char *fmt, ...) {
    const size_t at = strlen(text);
    char more[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(more, sizeof more, fmt, args);
    va_end(args);
    if (at + strlen(more) + 3 < size) snprintf(text + at, size - at, "%s%s", at ? "; " : "", more);
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double wall_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

vn_status_t vn_reveal_output(vn_reveal_run_t *r, const vn_tensor_t *const *inputs, int64_t count, vn_tensor_t **output, vn_error_t *err) {
    vn_tensor_t *out = NULL;
    *output = NULL;
    if (r->s->calls >= r->options.max_calls)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld calls were not enough; give more with --calls", (long long)r->s->calls);
    if (processor_seconds() - r->began > r->options.max_seconds)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %.0f processor seconds were not enough; give more with --seconds",
                       r->options.max_seconds);
    r->s->calls++;
    const double before = wall_seconds(), used = processor_seconds();
    const vn_status_t st = r->call->run(r->call->context, inputs, &out, err);
    r->s->backend_seconds += wall_seconds() - before;
    r->s->transfer_seconds += processor_seconds() - used;
    if (st != VN_OK) return st;
    if (out->count != count) {
        vn_fail(err, VN_ERR_WORKER, "reveal: the back end returns %lld elements, not %lld", (long long)out->count, (long long)count);
        vn_tensor_free(out);
        return VN_ERR_WORKER;
    }
    *output = out;
    return VN_OK;
}

vn_status_t vn_reveal_call(vn_reveal_run_t *r, const vn_tensor_t *const *inputs, int64_t count, double **values, vn_error_t *err) {
    vn_tensor_t *out;
    *values = NULL;
    VN_TRY(vn_reveal_output(r, inputs, count, &out, err));
    double *v = vn_alloc((size_t)count, sizeof *v);
    if (v) vn_tensor_to_f64(out, v);
    vn_tensor_free(out);
    *values = v;
    return v ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld results", (long long)count);
}

vn_status_t vn_reveal_identity(vn_schedule_t *s, vn_error_t *err) {
    const bool mean = s->op.kind == VN_SUM_LAYER_NORM;
    vn_arithmetic_text(&s->arithmetic, s->arithmetic_text, sizeof s->arithmetic_text);
    if (mean) vn_arithmetic_text(&s->mean_arithmetic, s->mean_arithmetic_text, sizeof s->mean_arithmetic_text);
    vn_sha256_t *h = NULL;
    for (int c = 0; c < s->n_classes; ++c) {
        vn_schedule_class_t *k = &s->classes[c];
        if (!k->tree) continue;
        vn_free(k->text);
        k->text = NULL;
        VN_TRY(vn_schedule_compress(k->tree, &k->text, err));
        vn_free(k->mean_text);
        k->mean_text = NULL;
        if (k->mean) VN_TRY(vn_schedule_compress(k->mean, &k->mean_text, err));
    }
    for (int c = 0; c < s->n_classes; ++c)
        if (!s->classes[c].tree || (mean && !s->classes[c].mean)) return VN_OK; /* no identity of what was not read */
    if (!(h = vn_sha256_new())) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int c = 0; c < s->n_classes; ++c) {
        vn_sha256_add(h, s->classes[c].text, strlen(s->classes[c].text) + 1);
        vn_sha256_add(h, s->classes[c].where, strlen(s->classes[c].where) + 1);
        if (mean) vn_sha256_add(h, s->classes[c].mean_text, strlen(s->classes[c].mean_text) + 1);
    }
    vn_sha256_add(h, s->arithmetic_text, strlen(s->arithmetic_text) + 1);
    if (mean) vn_sha256_add(h, s->mean_arithmetic_text, strlen(s->mean_arithmetic_text) + 1);
    if (*s->form) vn_sha256_add(h, s->form, strlen(s->form) + 1);
    vn_sha256_finish(h, s->sha256);
    return VN_OK;
}

vn_status_t vn_reveal(const vn_call_t *call, const vn_sum_op_t *op, const vn_reveal_options_t *o, vn_schedule_t **out, vn_error_t *err) {
    *out = NULL;
    if ((unsigned)op->kind >= VN_SUM_KIND_COUNT) return vn_fail(err, VN_ERR_USAGE, "reveal: no operator of number %d", (int)op->kind);
    if (!kinds[op->kind].reveal)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: the sums of %s cannot be read in this build", kinds[op->kind].name);
    vn_schedule_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_sum_op_t asked = *op;
    if (op->kind != VN_SUM_MATMUL_NBITS) asked.block = asked.bits = 0; /* other products have weights of any value */
    s->op = asked;
    vn_reveal_run_t r = {.call = call, .op = &asked, .s = s, .began = processor_seconds()};
    if (o) r.options = *o;
    if (r.options.max_calls <= 0) r.options.max_calls = MOST_CALLS;
    if (!(r.options.max_seconds > 0)) r.options.max_seconds = MOST_SECONDS;
    vn_rng_seed(&r.rng, r.options.seed);
    const vn_status_t st = kinds[op->kind].reveal(&r, err);
    s->host_seconds = processor_seconds() - r.began - s->transfer_seconds;
    if (st == VN_OK) *out = s;
    else vn_schedule_free(s);
    return st;
}
