/* reveal_conv.c -- Conv: one window of the image is a product of the filters with one column, and is read as such; then every window is replayed.
 *
 * Claim REVEAL-8: with an image that is zero outside one window, the outputs of all filters at this window are the rows of a product with the column that
 * stands in the window. Its classes, trees and arithmetic are those of the convolution where the replay of all windows, borders included, says so:
 * a tap in the padding adds a zero, which changes no sum but the sign of a zero.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { NORMAL, SPREAD, TINY, DISTRIBUTIONS, SETS = 2, MORE = 3 };

typedef struct conv {
    vn_reveal_run_t *r; /* of the convolution */
    int64_t size[2];    /* of the output */
    int64_t at[2];      /* the window */
    int64_t depth;      /* terms */
} conv_t;

/* The middle of the windows that lie inside the image along axis d. False: there is none. */
static bool inner_window(const vn_sum_op_t *op, int d, int64_t size, int64_t *at) {
    const int64_t image = d ? op->width : op->height, reach = op->dilation[d] * (op->kernel[d] - 1);
    int64_t first = -1, last = -1;
    for (int64_t o = 0; o < size; ++o) {
        const int64_t begin = o * op->stride[d] - op->pad[d];
        if (begin < 0 || begin + reach >= image) continue;
        if (first < 0) first = o;
        last = o;
    }
    *at = (first + last) / 2;
    return first >= 0;
}

static vn_status_t image_of(const conv_t *q, const vn_tensor_t *column, vn_tensor_t **out, vn_error_t *err) {
    const vn_sum_op_t *op = q->r->op;
    const int64_t dims[4] = {op->batch, op->channels, op->height, op->width}, cg = op->channels / op->groups;
    VN_TRY(vn_tensor_new(op->dtype, 4, dims, out, err)); /* zeros */
    for (int64_t c = 0; c < op->channels; ++c)
        for (int64_t ky = 0; ky < op->kernel[0]; ++ky)
            for (int64_t kx = 0; kx < op->kernel[1]; ++kx) {
                const int64_t y = q->at[0] * op->stride[0] - op->pad[0] + ky * op->dilation[0],
                              x = q->at[1] * op->stride[1] - op->pad[1] + kx * op->dilation[1];
                const int64_t leaf = (c % cg * op->kernel[0] + ky) * op->kernel[1] + kx;
                vn_tensor_set_f64(*out, (c * op->height + y) * op->width + x, vn_tensor_get_f64(column, leaf));
            }
    return VN_OK;
}

/* The product's call: filters [O, depth], column [depth, 1], bias [O, 1] or [1]. */
static vn_status_t run_window(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err) {
    const conv_t *q = context;
    const vn_sum_op_t *op = q->r->op;
    const int64_t dims[4] = {op->filters, op->channels / op->groups, op->kernel[0], op->kernel[1]}, column[2] = {op->filters, 1};
    const int64_t positions = q->size[0] * q->size[1];
    vn_tensor_t *in[3] = {0}, *whole = NULL;
    vn_status_t st = image_of(q, inputs[1], &in[0], err);
    if (st == VN_OK) st = vn_tensor_reshape(inputs[0], 4, dims, &in[1], err);
    if (st == VN_OK && op->addend) st = vn_tensor_reshape(inputs[2], 1, &op->filters, &in[2], err);
    if (st == VN_OK) st = q->r->call->run(q->r->call->context, (const vn_tensor_t *const *)in, &whole, err);
    if (st == VN_OK && whole->count != op->batch * op->filters * positions)
        st = vn_fail(err, VN_ERR_WORKER, "reveal: the back end returns another shape");
    if (st == VN_OK) st = vn_tensor_new(whole->dtype, 2, column, output, err);
    for (int64_t o = 0; st == VN_OK && o < op->filters; ++o)
        vn_tensor_set_f64(*output, o, vn_tensor_get_f64(whole, o * positions + q->at[0] * q->size[1] + q->at[1]));
    for (int k = 0; k < 3; ++k) vn_tensor_free(in[k]);
    vn_tensor_free(whole);
    return st;
}

/* ---- every window ---- */

static vn_status_t random_tensor(conv_t *q, int rank, const int64_t *dims, int distribution, vn_tensor_t **out, vn_error_t *err) {
    const vn_dtype_t t = q->r->op->dtype;
    VN_TRY(vn_tensor_new(t, rank, dims, out, err));
    for (int64_t e = 0; e < (*out)->count; ++e) {
        double x = vn_rng_normal(&q->r->rng);
        if (distribution == SPREAD) x *= exp2((double)vn_rng_below(&q->r->rng, 25) - 12);
        if (distribution == TINY) x *= rank == 1 ? 0x1p-124 : vn_rng_below(&q->r->rng, 4) ? 0x1p-63 : 0x1p-62;
        vn_tensor_set_f64(*out, e, x);
    }
    return VN_OK;
}

/* Whether output element e stands where all taps lie inside the image. */
static bool interior(const conv_t *q, int64_t e) {
    const vn_sum_op_t *op = q->r->op;
    const int64_t place[2] = {e / q->size[1] % q->size[0], e % q->size[1]}, image[2] = {op->height, op->width};
    for (int d = 0; d < 2; ++d) {
        const int64_t begin = place[d] * op->stride[d] - op->pad[d];
        if (begin < 0 || begin + op->dilation[d] * (op->kernel[d] - 1) >= image[d]) return false;
    }
    return true;
}

static vn_status_t compare(conv_t *q, const vn_tensor_t *const *in, const double *got, int64_t *equal, int64_t *border, vn_error_t *err) {
    const vn_schedule_t *s = q->r->s;
    float *due = vn_alloc((size_t)s->outputs + 1, sizeof *due);
    bool *known = vn_alloc((size_t)s->outputs + 1, sizeof *known);
    vn_status_t st = due && known ? vn_schedule_apply(s, q->r->op->addend ? 3 : 2, in, due, known, err)
                                  : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    *equal = *border = 0;
    for (int64_t e = 0; st == VN_OK && e < s->outputs; ++e) {
        const bool same = known[e] && got[e] == (double)due[e] && (got[e] != 0 || !signbit(got[e]) == !signbit(due[e]) || !interior(q, e));
        *equal += same;
        *border += !same && !interior(q, e);
    }
    vn_free(due);
    vn_free(known);
    return st;
}

static vn_status_t random_inputs(conv_t *q, int distribution, vn_tensor_t **in, vn_error_t *err) {
    const vn_sum_op_t *op = q->r->op;
    const int64_t x[4] = {op->batch, op->channels, op->height, op->width},
                  w[4] = {op->filters, op->channels / op->groups, op->kernel[0], op->kernel[1]};
    VN_TRY(random_tensor(q, 4, x, distribution, &in[0], err));
    VN_TRY(random_tensor(q, 4, w, distribution, &in[1], err));
    return op->addend ? random_tensor(q, 1, &op->filters, distribution, &in[2], err) : VN_OK;
}

static vn_status_t prove(conv_t *q, vn_error_t *err) {
    static const char *const names[] = {"normal data", "exponents spread by 12", "data near underflow"};
    vn_schedule_t *s = q->r->s;
    const vn_sum_op_t *op = q->r->op;
    const int distributions = op->dtype == VN_F16 ? SPREAD : DISTRIBUTIONS;
    for (int d = 0; d < distributions; ++d) {
        vn_tensor_t *in[3] = {0};
        double *got = NULL;
        int64_t equal = 0, border = 0;
        vn_status_t st = random_inputs(q, d, in, err);
        if (st == VN_OK) st = vn_reveal_call(q->r, (const vn_tensor_t *const *)in, s->outputs, &got, err);
        if (st == VN_OK) st = compare(q, (const vn_tensor_t *const *)in, got, &equal, &border, err);
        for (int k = 0; k < 3; ++k) vn_tensor_free(in[k]);
        vn_free(got);
        VN_TRY(st);
        s->elements += s->outputs;
        s->replayed += equal;
        if (equal < s->outputs)
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld elements differ from the replay, %lld of them at the border",
                          names[d], (long long)(s->outputs - equal), (long long)s->outputs, (long long)border);
    }
    return VN_OK;
}

/* ---- windows that are computed otherwise ---- */

/* Two sets of normal data with their results. */
typedef struct data {
    vn_tensor_t *in[SETS][3];
    double *got[SETS];
} data_t;

static void data_clear(data_t *d) {
    for (int k = 0; k < SETS; ++k) {
        for (int i = 0; i < 3; ++i) vn_tensor_free(d->in[k][i]);
        vn_free(d->got[k]);
    }
}

static vn_status_t data_of(conv_t *q, data_t *d, vn_error_t *err) {
    for (int k = 0; k < SETS; ++k) {
        VN_TRY(random_inputs(q, NORMAL, d->in[k], err));
        VN_TRY(vn_reveal_call(q->r, (const vn_tensor_t *const *)d->in[k], q->r->s->outputs, &d->got[k], err));
    }
    return VN_OK;
}

/* fits[e]: class c gives element e in both sets. */
static vn_status_t fits_class(conv_t *q, const data_t *d, int c, uint8_t *fits, vn_error_t *err) {
    vn_schedule_t one = *q->r->s;
    one.classes += c;
    one.n_classes = 1;
    one.class_of = NULL;
    float *due = vn_alloc((size_t)one.outputs + 1, sizeof *due);
    bool *known = vn_alloc((size_t)one.outputs + 1, sizeof *known);
    vn_status_t st = due && known ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    memset(fits, 1, (size_t)one.outputs);
    for (int k = 0; k < SETS && st == VN_OK; ++k) {
        st = vn_schedule_apply(&one, q->r->op->addend ? 3 : 2, (const vn_tensor_t *const *)d->in[k], due, known, err);
        for (int64_t e = 0; e < one.outputs && st == VN_OK; ++e) fits[e] &= known[e] && d->got[k][e] == (double)due[e];
    }
    vn_free(due);
    vn_free(known);
    return st;
}

/* The interior position at which most elements differ from its class; -1: none. */
static int64_t worst_window(const conv_t *q, const int64_t *best) {
    const int64_t positions = q->size[0] * q->size[1], each = q->r->s->outputs / positions;
    int64_t worst = -1, most = 0;
    for (int64_t p = 0; p < positions; ++p)
        if (each - best[p] > most && interior(q, p)) {
            most = each - best[p];
            worst = p;
        }
    return worst;
}

/* The product of the filters with the column in window q->at, into s. */
static vn_status_t read_window(conv_t *q, vn_schedule_t *s, vn_error_t *err) {
    const vn_sum_op_t *op = q->r->op;
    const unsigned c = q->r->call->constant;
    /* inputs of the product: filters, column, bias; of the convolution: image, filters, bias */
    const vn_call_t window = {.run = run_window, .context = q, .constant = (c >> 1 & 1) | (c & 1) << 1 | (c & 4)};
    const vn_sum_op_t product = {.kind = VN_SUM_MATMUL,
                                 .dtype = op->dtype,
                                 .batch = 1,
                                 .m = op->filters,
                                 .k = q->depth,
                                 .n = 1,
                                 .addend = op->addend,
                                 .addend_rows = op->filters};
    vn_reveal_run_t inner = *q->r;
    inner.call = &window;
    inner.op = &product;
    inner.s = s;
    s->op = product;
    const vn_status_t st = vn_reveal_product(&inner, err);
    q->r->rng = inner.rng;
    if (s != q->r->s) {
        q->r->s->calls += s->calls;
        q->r->s->backend_seconds += s->backend_seconds;
    }
    return st;
}

/* Reads one more window; *added: its tree is new and became class n_classes - 1. */
static vn_status_t another_window(conv_t *q, int64_t position, bool *added, vn_error_t *err) {
    vn_schedule_t *s = q->r->s, *t = vn_alloc(1, sizeof *t);
    *added = false;
    if (!t) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    q->at[0] = position / q->size[1];
    q->at[1] = position % q->size[1];
    vn_status_t st = read_window(q, t, err);
    bool fresh =
        st == VN_OK && t->n_classes == 1 && t->classes[0].tree && memcmp(&t->arithmetic, &s->arithmetic, sizeof t->arithmetic) == 0;
    for (int c = 0; c < s->n_classes && fresh; ++c) fresh = !s->classes[c].tree || !vn_tree_equal(s->classes[c].tree, t->classes[0].tree);
    if (fresh) {
        vn_schedule_class_t *more = vn_realloc(s->classes, (size_t)s->n_classes + 1, sizeof *more);
        if (more) {
            s->classes = more;
            s->classes[s->n_classes++] = t->classes[0];
            t->classes[0] = (vn_schedule_class_t){0};
            *added = true;
        } else {
            st = vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
        }
    }
    vn_schedule_free(t);
    return st;
}

/* Elements and maps from the class of each element; windows are the columns. */
static vn_status_t describe(conv_t *q, const int32_t *of, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    const int64_t positions = q->size[0] * q->size[1];
    double *number = vn_alloc((size_t)s->outputs, sizeof *number);
    vn_classes_t classes = {0};
    if (!number) return vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    for (int64_t e = 0; e < s->outputs; ++e) number[e] = of[e];
    vn_status_t st = vn_classes_of((int32_t)(s->outputs / positions), (int32_t)positions, 1, &number, &classes, err);
    for (int c = 0; c < s->n_classes; ++c) s->classes[c].elements = 0;
    for (int64_t e = 0; e < s->outputs && st == VN_OK; ++e) s->classes[of[e]].elements++;
    for (int k = 0; k < classes.count && st == VN_OK; ++k) {
        const int64_t first = (int64_t)classes.cell[k].row[0] * positions + classes.cell[k].column[0];
        vn_schedule_class_t *c = &s->classes[of[first]];
        vn_free(c->where);
        if (!(c->where = vn_strdup(classes.where[k]))) st = vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    }
    vn_classes_clear(&classes);
    vn_free(number);
    return st;
}

/* A window is of one class: the one that gives most of its elements. best[p]: how many. */
static vn_status_t assign(conv_t *q, const data_t *d, int c, int32_t *of, int64_t *best, uint8_t *fits, vn_error_t *err) {
    const int64_t positions = q->size[0] * q->size[1], outputs = q->r->s->outputs;
    VN_TRY(fits_class(q, d, c, fits, err));
    for (int64_t p = 0; p < positions; ++p) {
        int64_t count = 0;
        for (int64_t e = p; e < outputs; e += positions) count += fits[e];
        if (count <= best[p]) continue;
        best[p] = count;
        for (int64_t e = p; e < outputs; e += positions) of[e] = c;
    }
    return VN_OK;
}

/* Where windows differ from the one that was read, up to MORE of them are read as well. Filters of several classes are left as they are. */
static vn_status_t second_look(conv_t *q, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    const int64_t at[2] = {q->at[0], q->at[1]};
    data_t d = {0};
    if (s->n_classes != 1 || !s->classes[0].tree) return VN_OK;
    int32_t *of = vn_alloc((size_t)s->outputs, sizeof *of);
    int64_t *best = vn_alloc((size_t)(q->size[0] * q->size[1]), sizeof *best);
    uint8_t *fits = vn_alloc((size_t)s->outputs, 1);
    vn_status_t st = of && best && fits ? data_of(q, &d, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    if (st == VN_OK) st = assign(q, &d, 0, of, best, fits, err);
    for (int round = 0; st == VN_OK && round < MORE; ++round) {
        const int64_t worst = worst_window(q, best);
        bool added;
        if (worst < 0) break;
        st = another_window(q, worst, &added, err);
        if (st != VN_OK || !added) break;
        st = assign(q, &d, s->n_classes - 1, of, best, fits, err);
    }
    if (st == VN_OK && s->n_classes > 1) {
        st = describe(q, of, err);
        if (st == VN_OK) {
            s->class_of = of;
            of = NULL;
        }
    }
    vn_free(of);
    vn_free(best);
    vn_free(fits);
    data_clear(&d);
    q->at[0] = at[0];
    q->at[1] = at[1];
    return st;
}

/* Classes of filters become classes of elements. */
static vn_status_t spread(conv_t *q, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    const int64_t filters = q->r->op->filters, positions = q->size[0] * q->size[1];
    const int32_t *of = s->class_of;
    s->outputs = q->r->op->batch * filters * positions;
    s->op = *q->r->op;
    for (int c = 0; c < s->n_classes; ++c) s->classes[c].elements *= q->r->op->batch * positions;
    if (!of) return VN_OK;
    int32_t *wide = vn_alloc((size_t)s->outputs, sizeof *wide);
    if (!wide) return vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    for (int64_t e = 0; e < s->outputs; ++e) wide[e] = of[e / positions % filters];
    vn_free(s->class_of);
    s->class_of = wide;
    return VN_OK;
}

vn_status_t vn_reveal_conv(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    conv_t q = {.r = r};
    if (op->dtype != VN_F32 && op->dtype != VN_F16 && op->dtype != VN_BF16)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: convolutions of %s cannot be read", vn_dtype_name(op->dtype));
    if (op->groups < 1 || op->channels < 1 || op->filters < 1 || op->channels % op->groups || op->filters % op->groups ||
        op->filters > 1 << 20)
        return vn_fail(err, VN_ERR_RANGE, "reveal: a convolution of %lld channels, %lld filters and %lld groups", (long long)op->channels,
                       (long long)op->filters, (long long)op->groups);
    for (int d = 0; d < 2; ++d) {
        const int64_t image = d ? op->width : op->height;
        if (op->kernel[d] < 1 || op->stride[d] < 1 || op->dilation[d] < 1 || op->pad[d] < 0 || op->pad[d + 2] < 0 || image < 1 ||
            image > 1 << 20)
            return vn_fail(err, VN_ERR_RANGE, "reveal: a window, stride, dilation or pad of the convolution is out of range");
        const int64_t room = image + op->pad[d] + op->pad[d + 2] - op->dilation[d] * (op->kernel[d] - 1) - 1;
        q.size[d] = room < 0 ? 0 : room / op->stride[d] + 1;
        if (!inner_window(op, d, q.size[d], &q.at[d]))
            return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: no window of the convolution lies inside the image");
    }
    q.depth = op->channels / op->groups * op->kernel[0] * op->kernel[1];
    VN_TRY(read_window(&q, r->s, err));
    vn_schedule_t *s = r->s;
    VN_TRY(spread(&q, err));
    if (!*s->sha256 && !s->classes[0].tree) return VN_OK; /* no tree: the reason stands */
    s->elements = s->replayed = 0;
    char window_reason[sizeof s->reason];
    memcpy(window_reason, s->reason, sizeof window_reason);
    s->reason[0] = '\0';
    VN_TRY(second_look(&q, err));
    VN_TRY(prove(&q, err));
    if (s->replayed < s->elements && *window_reason) vn_reveal_say(s->reason, sizeof s->reason, "one window alone: %.150s", window_reason);
    vn_reveal_say(s->notes, sizeof s->notes, "read at window %lld,%lld; borders are the tree with zeros for absent taps",
                  (long long)q.at[0], (long long)q.at[1]);
    return vn_reveal_identity(s, err);
}
