/* op_scatter.c -- updates written into a copy of the data: ScatterElements (Scatter), ScatterND, TensorScatter.
 *
 * Claim MOVE-7: without a reduction, an element that one update names is that update, bit for bit. The order of several updates of one
 * element is open: the tensor shows the last one in row-major order, `either` and the reading "first-update-wins" the first; an element
 * for which there are other candidates still is marked VN_EL_VOID.
 * Claim SCATTER-1: with `add` and m updates of an element, terms x_0 .. x_m, every order of the m additions is within m u sum |x_k| of
 * the exact sum ((n - 1) u T of bounds.md). An element without updates is the data, bit for bit. The text adds into the output tensor,
 * hence the second tier: the same with the roundoff of the tensor's type ("partial sums in the tensor's type").
 * Claim SCATTER-2: with `mul`, g(m) |y| + m (eta / 2) prod max(1, |x_k|).
 * max and min choose one candidate: exact; NaN wins, reading "nan-ignored"; zeros of either sign where both tie.
 */
#include <math.h>
#include <string.h>

#include "oracle/move.h"

typedef enum how { HOW_NONE, HOW_ADD, HOW_MUL, HOW_MAX, HOW_MIN } how_t;

/* Update run i goes to elements at[i] .. at[i] + run; negative: out of range (the clamped place is ~at[i]). */
typedef struct targets {
    int64_t runs, run;
    int64_t *at;
    bool bad;
    how_t how;
} targets_t;

static vn_status_t reduction_of(vn_eval_t *e, how_t *how) {
    static const struct {
        const char *name;
        how_t how;
        int since;
    } known[] = {{"none", HOW_NONE, 1}, {"add", HOW_ADD, 16}, {"mul", HOW_MUL, 16}, {"max", HOW_MAX, 18}, {"min", HOW_MIN, 18}};
    const char *name = vn_node_string(e->node, "reduction", "none");
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (!strcmp(name, known[i].name) && e->version >= known[i].since) {
            *how = known[i].how;
            return VN_OK;
        }
    return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "reduction '%s' is not part of opset %lld", name, (long long)e->version);
}

/* ---- reduction none ---- */

/* Writes all runs, forwards (the last of several wins) or backwards (the first wins). */
static void write_runs(const targets_t *w, const vn_tensor_t *updates, vn_tensor_t *all, bool backwards) {
    const size_t size = vn_plain_size(all), bytes = (size_t)w->run * size;
    for (int64_t n = 0; n < w->runs; ++n) {
        const int64_t i = backwards ? w->runs - 1 - n : n;
        if (w->at[i] >= 0) memcpy((char *)all->data + (size_t)w->at[i] * size, (const char *)updates->data + (size_t)i * bytes, bytes);
    }
}

static bool same_element(const vn_eval_t *e, const char *a, const char *b, size_t size) {
    if (e->in[0].t->dtype != VN_STRING) return memcmp(a, b, size) == 0;
    const vn_string_t *x = (const vn_string_t *)a, *y = (const vn_string_t *)b;
    return x->length == y->length && (x->length == 0 || memcmp(x->text, y->text, x->length) == 0);
}

/* Elements that several updates disagree about: flags for a third candidate; *open says whether there is any. */
static vn_status_t find_conflicts(vn_eval_t *e, const targets_t *w, const vn_tensor_t *updates, const vn_tensor_t *last,
                                  const vn_tensor_t *first, bool *open) {
    const size_t size = vn_plain_size(last);
    const char *l = last->data, *f = first->data, *u = updates->data;
    *open = false;
    for (int64_t i = 0; i < last->count && !*open; ++i) *open = !same_element(e, l + (size_t)i * size, f + (size_t)i * size, size);
    for (int64_t i = 0; i < w->runs; ++i)
        for (int64_t k = 0; k < w->run && w->at[i] >= 0; ++k) {
            const size_t to = (size_t)(w->at[i] + k) * size, from = (size_t)(i * w->run + k) * size;
            if (same_element(e, u + from, l + to, size) || same_element(e, u + from, f + to, size)) continue;
            VN_TRY(vn_out_flags(e, 0));
            e->out[0].flags[w->at[i] + k] = VN_EL_VOID;
            *open = true;
        }
    return VN_OK;
}

static vn_status_t mark_bad(vn_eval_t *e, const targets_t *w) {
    if (!w->bad) return VN_OK;
    VN_TRY(vn_out_flags(e, 0));
    for (int64_t i = 0; i < w->runs; ++i)
        if (w->at[i] < 0) memset(e->out[0].flags + ~w->at[i], VN_EL_VOID, (size_t)w->run);
    return VN_OK;
}

static vn_status_t overwrite(vn_eval_t *e, const targets_t *w) {
    const vn_tensor_t *t = e->in[0].t;
    const vn_shape_t shape = vn_shape_of(t);
    vn_tensor_t *data = NULL, *updates = NULL, *last = NULL, *first = NULL;
    bool open = false;
    vn_status_t s = vn_plain_from(e, t, &data);
    if (s == VN_OK) s = vn_plain_from(e, e->in[2].t, &updates);
    if (s == VN_OK) s = vn_plain_new(e, t->dtype, &shape, &last);
    if (s == VN_OK) s = vn_plain_new(e, t->dtype, &shape, &first);
    if (s == VN_OK) {
        const size_t bytes = (size_t)t->count * vn_plain_size(last);
        if (bytes) memcpy(last->data, data->data, bytes);
        if (bytes) memcpy(first->data, data->data, bytes);
        write_runs(w, updates, last, false);
        write_runs(w, updates, first, true);
        vn_tensor_t *real;
        s = vn_plain_seal(e, t->dtype, vn_tensor_retain(last), &real);
        if (s == VN_OK) s = vn_out_tensor(e, 0, real);
    }
    if (s == VN_OK) s = find_conflicts(e, w, updates, last, first, &open);
    if (s == VN_OK) s = mark_bad(e, w);
    if (s == VN_OK && open) {
        s = vn_plain_seal(e, t->dtype, first, &first);
        if (s == VN_OK) {
            e->out[0].either = vn_tensor_retain(first);
            s = vn_out_reading(e, 0, "first-update-wins", first);
        }
        first = NULL;
    }
    vn_tensor_free(data);
    vn_tensor_free(updates);
    vn_tensor_free(last);
    vn_tensor_free(first);
    return s;
}

/* ---- max, min: a choice by order ---- */

/* ties: an equal key replaces (shows the other zero); ignore: NaN never beats a number. */
static void choose(const targets_t *w, const uint64_t *data, const uint64_t *updates, bool is_float, uint64_t *key, const vn_tensor_t *from,
                   vn_tensor_t *all, bool ties, bool ignore) {
    const size_t size = vn_plain_size(all);
    memcpy(key, data, (size_t)all->count * sizeof *key);
    for (int64_t i = 0; i < w->runs; ++i)
        for (int64_t k = 0; k < w->run && w->at[i] >= 0; ++k) {
            const int64_t to = w->at[i] + k, u = i * w->run + k;
            const bool old_nan = is_float && key[to] == VN_KEY_NAN, new_nan = is_float && updates[u] == VN_KEY_NAN;
            bool better = w->how == HOW_MAX ? updates[u] > key[to] : updates[u] < key[to];
            if (updates[u] == key[to]) better = ties;
            if (old_nan != new_nan) better = ignore ? old_nan : new_nan;
            if (!better) continue;
            key[to] = updates[u];
            memcpy((char *)all->data + (size_t)to * size, (const char *)from->data + (size_t)u * size, size);
        }
}

static vn_status_t extremes(vn_eval_t *e, const targets_t *w) {
    const vn_tensor_t *t = e->in[0].t;
    const vn_shape_t shape = vn_shape_of(t);
    const bool is_float = vn_dtype_is_float(t->dtype);
    uint64_t *data = NULL, *updates = NULL, *key = vn_alloc((size_t)(t->count ? t->count : 1), sizeof *key);
    vn_tensor_t *plain = NULL, *from = NULL, *all[3] = {NULL};
    vn_status_t s = key ? vn_move_keys(e, 0, &data) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_move_keys(e, 2, &updates);
    if (s == VN_OK) s = vn_plain_from(e, t, &plain);
    if (s == VN_OK) s = vn_plain_from(e, e->in[2].t, &from);
    for (int i = 0; i < (is_float ? 3 : 1) && s == VN_OK; ++i) { /* as it is; the other zero; NaN ignored */
        s = vn_plain_new(e, t->dtype, &shape, &all[i]);
        if (s != VN_OK) break;
        if (t->count) memcpy(all[i]->data, plain->data, (size_t)t->count * vn_plain_size(plain));
        choose(w, data, updates, is_float, key, from, all[i], i == 1, i == 2);
        s = vn_plain_seal(e, t->dtype, all[i], &all[i]);
    }
    if (s == VN_OK) s = vn_out_tensor(e, 0, vn_tensor_retain(all[0]));
    if (s == VN_OK) s = mark_bad(e, w);
    if (s == VN_OK && is_float && !vn_tensor_equal_bits(all[0], all[1])) e->out[0].either = vn_tensor_retain(all[1]);
    if (s == VN_OK && is_float && !vn_tensor_equal_bits(all[0], all[2])) s = vn_out_reading(e, 0, "nan-ignored", vn_tensor_retain(all[2]));
    for (int i = 0; i < 3; ++i) vn_tensor_free(all[i]);
    vn_tensor_free(plain);
    vn_tensor_free(from);
    vn_free(data);
    vn_free(updates);
    vn_free(key);
    return s;
}

/* ---- integers: add and mul modulo 2^bits ---- */

static vn_status_t wrap_around(vn_eval_t *e, const targets_t *w) {
    const vn_tensor_t *t = e->in[0].t;
    if (!vn_dtype_is_int(t->dtype))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "reduction '%s' of %s", vn_node_string(e->node, "reduction", ""),
                            vn_dtype_name(t->dtype));
    int64_t *data = NULL, *updates = NULL;
    vn_status_t s = vn_move_i64(e, 0, &data);
    if (s == VN_OK) s = vn_move_i64(e, 2, &updates);
    if (s == VN_OK) s = vn_out_exact(e, 0, t->dtype, t->rank, t->dims);
    for (int64_t i = 0; i < w->runs && s == VN_OK; ++i)
        for (int64_t k = 0; k < w->run && w->at[i] >= 0; ++k) {
            uint64_t *x = (uint64_t *)&data[w->at[i] + k];
            const uint64_t u = (uint64_t)updates[i * w->run + k];
            *x = w->how == HOW_ADD ? *x + u : *x * u;
        }
    for (int64_t i = 0; i < t->count && s == VN_OK; ++i) vn_tensor_set_i64(e->out[0].tensor, i, data[i]);
    if (s == VN_OK) s = mark_bad(e, w);
    vn_free(data);
    vn_free(updates);
    return s;
}

/* ---- floats: add and mul with bounds; every reduction of uncertain operands ---- */

typedef struct planes {
    double *low, *size, *squares,
        *nodes; /* compensation; sum |x| (add) or prod max(1,|x|) (mul); sum x^2; sum of ulp^2 / 12 of the partials */
    int64_t *count;
    const double *err, *var; /* of the updates, NULL: exact */
} planes_t;

static void absorb(vn_eval_t *e, const targets_t *w, planes_t *p, int64_t to, double u, double err, double var) {
    vn_ref_t *r = &e->out[0];
    double *y = &r->value[to];
    const vn_format_t acc = e->contract->accumulator;
    const double old = *y;
    ++p->count[to];
    switch (w->how) {
    case HOW_NONE:
        *y = u;
        r->bound[to] = err;
        if (p->var && r->var) r->var[to] = var;
        return;
    case HOW_ADD: {
        const double sum = old + u, part = sum - old;
        p->low[to] += (old - (sum - part)) + (u - part);
        *y = sum;
        p->size[to] += fabs(u);
        p->squares[to] += u * u;
        r->bound[to] += err;
        break;
    }
    case HOW_MUL:
        *y = old * u;
        r->bound[to] = (fabs(old) + r->bound[to]) * (fabs(u) + err) - fabs(old * u);
        p->size[to] *= fmax(1, fabs(u));
        break;
    case HOW_MAX:
    case HOW_MIN:
        if (isnan(u) || (w->how == HOW_MAX ? u > old : u < old)) *y = u;
        r->bound[to] = fmax(r->bound[to], err);
        break;
    }
    if (r->var) {
        const double ulp = isfinite(*y) ? vn_ulp(acc, *y) : 0;
        if (w->how == HOW_ADD) r->var[to] += var;
        else if (w->how == HOW_MUL) r->var[to] = r->var[to] * u * u + var * old * old;
        else r->var[to] = fmax(r->var[to], var);
        p->nodes[to] += ulp * ulp / 12;
    }
}

/* The store of eval.c, applied here so that elements without an update keep a bound of 0. */
static double stored(const vn_eval_t *e, vn_dtype_t t, double bound, double y, double u) {
    const vn_format_info_t *acc = vn_format_info(e->contract->accumulator), *o = vn_format_info(vn_format_of(t));
    if (acc->p > o->p || acc->emin < o->emin || u > acc->u) bound = (1 + o->u) * bound + o->u * fabs(y) + o->eta / 2;
    if (e->contract->ftz && fabs(y) - bound < o->tau) bound += o->tau;
    return bound;
}

static double rounding(const vn_eval_t *e, const targets_t *w, const planes_t *p, int64_t i, double y, double u) {
    const double m = (double)p->count[i];
    if (w->how == HOW_ADD) return m * u * p->size[i];
    if (w->how == HOW_MUL) return vn_gamma(m, u) * fabs(y) + m * vn_eta(e) / 2 * p->size[i];
    return 0;
}

static double variance(const vn_eval_t *e, const targets_t *w, const planes_t *p, int64_t i, double y) {
    const double u = vn_u(e), n = (double)p->count[i] + 1;
    if (w->how == HOW_MUL) return (n - 1) * 0.18 * u * u * y * y;
    if (w->how != HOW_ADD || n < 2) return 0;
    const double q = p->squares[i], random = 0.18 * u * u * ((n + 1) / 2 * q + (n + 1) / 3 * (y * y - q) - q / n);
    return fmax(random, p->nodes[i]);
}

static vn_status_t close_planes(vn_eval_t *e, const targets_t *w, planes_t *p) {
    vn_ref_t *r = &e->out[0];
    const vn_dtype_t t = r->dtype;
    const double type_u = vn_format_info(vn_format_of(t))->u;
    const bool second = type_u > vn_u(e) && (w->how == HOW_ADD || w->how == HOW_MUL);
    VN_TRY(vn_out_own(e, 0));
    if (second && e->want >= VN_WANT_BOUND) VN_TRY(vn_out_wide(e, 0, "partial results in the tensor's type"));
    r->terms = 0;
    for (int64_t i = 0; i < r->count; ++i) {
        const double m = (double)p->count[i];
        if (p->count[i] + 1 > r->terms) r->terms = p->count[i] + 1;
        if (w->how == HOW_ADD) {
            const double y = r->value[i] + p->low[i];
            if (isfinite(y)) r->value[i] = y;
            r->own[i] = 0x1p-53 * fabs(r->value[i]) + m * m * 0x1p-105 * p->size[i];
        } else {
            r->own[i] = w->how == HOW_MUL ? m * 0x1p-53 * fabs(r->value[i]) + m * 0x1p-1074 * p->size[i] : 0;
        }
        const double y = r->value[i], given = r->bound[i];
        if (w->how == HOW_NONE && p->count[i] > 1) {
            VN_TRY(vn_out_flags(e, 0));
            r->flags[i] |= VN_EL_VOID;
            r->bound[i] = INFINITY;
            continue;
        }
        if (p->count[i] == 0 || !(w->how == HOW_ADD || w->how == HOW_MUL)) {
            if (r->wide) r->wide[i] = given;
            continue;
        }
        r->bound[i] = stored(e, t, given * (1 + m * vn_u(e)) + rounding(e, w, p, i, y, vn_u(e)), y, vn_u(e));
        if (r->wide) r->wide[i] = stored(e, t, given * (1 + m * type_u) + rounding(e, w, p, i, y, type_u), y, type_u);
        if (r->var) r->var[i] += variance(e, w, p, i, y);
    }
    vn_out_final(e, 0);
    return mark_bad(e, w);
}

static vn_status_t accumulate(vn_eval_t *e, const targets_t *w) {
    const vn_tensor_t *t = e->in[0].t;
    const size_t n = (size_t)(t->count ? t->count : 1);
    const double *x = vn_arg_f64(e, 0), *u = vn_arg_f64(e, 2);
    if (!x || !u) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t->dtype, t->rank, t->dims));
    vn_ref_t *r = &e->out[0];
    /* Also where no bound is asked for: absorb() keeps its books there. */
    if (!r->bound && !(r->bound = vn_alloc(n, sizeof *r->bound))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    planes_t p = {.low = vn_alloc(n, sizeof(double)),
                  .size = vn_alloc(n, sizeof(double)),
                  .squares = vn_alloc(n, sizeof(double)),
                  .nodes = vn_alloc(n, sizeof(double)),
                  .count = vn_alloc(n, sizeof *p.count),
                  .err = e->in[2].err,
                  .var = e->in[2].var};
    vn_status_t s =
        p.low && p.size && p.squares && p.nodes && p.count ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %zu elements", n);
    for (int64_t i = 0; i < t->count && s == VN_OK; ++i) {
        r->value[i] = x[i];
        p.size[i] = w->how == HOW_MUL ? fmax(1, fabs(x[i])) : fabs(x[i]);
        p.squares[i] = x[i] * x[i];
        if (e->in[0].err) r->bound[i] = e->in[0].err[i];
        if (e->in[0].var && r->var) r->var[i] = e->in[0].var[i];
    }
    for (int64_t i = 0; i < w->runs && s == VN_OK; ++i)
        for (int64_t k = 0; k < w->run && w->at[i] >= 0; ++k) {
            const int64_t from = i * w->run + k;
            absorb(e, w, &p, w->at[i] + k, u[from], p.err ? p.err[from] : 0, p.var ? p.var[from] : 0);
        }
    if (s == VN_OK) s = close_planes(e, w, &p);
    if (e->want < VN_WANT_BOUND) {
        vn_free(r->bound);
        r->bound = NULL;
    }
    vn_free(p.low);
    vn_free(p.size);
    vn_free(p.squares);
    vn_free(p.nodes);
    vn_free(p.count);
    return s;
}

static vn_status_t scatter(vn_eval_t *e, const targets_t *w) {
    const bool rounded = w->how == HOW_ADD || w->how == HOW_MUL;
    if (vn_dtype_is_float(e->in[0].t->dtype) && (rounded || e->in[0].err || e->in[2].err)) return accumulate(e, w);
    if (rounded) return wrap_around(e, w);
    return w->how == HOW_NONE ? overwrite(e, w) : extremes(e, w);
}

/* index in [0, size); clamps and sets *bad; RANGE error when nothing is there. */
static vn_status_t resolve(vn_eval_t *e, int64_t index, int64_t size, int axis, int64_t *out, bool *bad) {
    if (size == 0) return vn_eval_fail(e, VN_ERR_RANGE, "index %lld into axis %d, which has no entries", (long long)index, axis);
    *bad |= index < -size || index >= size;
    *out = index < -size ? 0 : index >= size ? size - 1 : index < 0 ? index + size : index;
    return VN_OK;
}

static vn_status_t three_operands(vn_eval_t *e) {
    for (int k = 0; k < 3; ++k) VN_TRY(vn_move_need(e, k));
    if (e->in[2].t->dtype == e->in[0].t->dtype) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "updates are %s, data are %s", vn_dtype_name(e->in[2].t->dtype), vn_dtype_name(e->in[0].t->dtype));
}

static vn_status_t infer_same(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}
vn_status_t vn_infer_scatter_elements(vn_eval_t *e) { return infer_same(e); }
vn_status_t vn_infer_scatter_nd(vn_eval_t *e) { return infer_same(e); }
vn_status_t vn_infer_tensor_scatter(vn_eval_t *e) { return infer_same(e); }

/* ---- ScatterElements ---- */

vn_status_t vn_move_scatter_elements(vn_eval_t *e) {
    targets_t w = {.run = 1};
    int axis;
    int64_t *index, c[VN_MAX_RANK] = {0};
    VN_TRY(three_operands(e));
    VN_TRY(reduction_of(e, &w.how));
    const vn_tensor_t *t = e->in[0].t, *ix = e->in[1].t, *u = e->in[2].t;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), t->rank, &axis));
    if (ix->rank != t->rank || u->rank != t->rank || memcmp(ix->dims, u->dims, (size_t)t->rank * sizeof *u->dims))
        return vn_eval_fail(e, VN_ERR_SHAPE, "indices and updates need one shape, of rank %d", t->rank);
    for (int k = 0; k < t->rank; ++k)
        if (k != axis && ix->dims[k] > t->dims[k])
            return vn_eval_fail(e, VN_ERR_RANGE, "indices have %lld entries along axis %d, the data have %lld", (long long)ix->dims[k], k,
                                (long long)t->dims[k]);
    VN_TRY(vn_move_i64(e, 1, &index));
    w.runs = ix->count;
    w.at = vn_alloc((size_t)(w.runs ? w.runs : 1), sizeof *w.at);
    vn_status_t s = w.at ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < w.runs && s == VN_OK; ++i) {
        bool bad = false;
        int64_t at = 0, place = 0;
        s = resolve(e, index[i], t->dims[axis], axis, &at, &bad);
        w.bad |= bad;
        for (int k = 0; k < t->rank; ++k) place = place * t->dims[k] + (k == axis ? at : c[k]);
        w.at[i] = bad ? ~place : place;
        for (int k = t->rank - 1; k >= 0 && ++c[k] == ix->dims[k]; --k) c[k] = 0;
    }
    if (s == VN_OK) s = scatter(e, &w);
    vn_free(index);
    vn_free(w.at);
    return s;
}

/* ---- ScatterND ---- */

vn_status_t vn_move_scatter_nd(vn_eval_t *e) {
    targets_t w = {.runs = 0};
    int64_t *index;
    VN_TRY(three_operands(e));
    VN_TRY(reduction_of(e, &w.how));
    const vn_tensor_t *t = e->in[0].t, *ix = e->in[1].t, *u = e->in[2].t;
    if (t->rank < 1 || ix->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "data and indices need rank 1 or more");
    const int64_t wide = ix->dims[ix->rank - 1];
    if (wide < 0 || wide > t->rank)
        return vn_eval_fail(e, VN_ERR_SHAPE, "tuples of %lld indices into data of rank %d", (long long)wide, t->rank);
    const int depth = (int)wide;
    bool fits = u->rank == ix->rank - 1 + t->rank - depth;
    for (int k = 0; fits && k < u->rank; ++k) fits = u->dims[k] == (k < ix->rank - 1 ? ix->dims[k] : t->dims[depth + k - (ix->rank - 1)]);
    if (!fits) return vn_eval_fail(e, VN_ERR_SHAPE, "the shape of updates is not indices[:-1] followed by data[%d:]", depth);
    VN_TRY(vn_move_i64(e, 1, &index));
    w.runs = vn_shape_product(ix->dims, 0, ix->rank - 1);
    w.run = vn_shape_product(t->dims, depth, t->rank);
    w.at = vn_alloc((size_t)(w.runs ? w.runs : 1), sizeof *w.at);
    vn_status_t s = w.at ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < w.runs && s == VN_OK; ++i) {
        bool bad = false;
        int64_t place = 0;
        for (int k = 0; k < depth && s == VN_OK; ++k) {
            int64_t at = 0;
            s = resolve(e, index[i * depth + k], t->dims[k], k, &at, &bad);
            place = place * t->dims[k] + at;
        }
        w.bad |= bad;
        w.at[i] = bad ? ~(place * w.run) : place * w.run;
    }
    if (s == VN_OK) s = scatter(e, &w);
    vn_free(index);
    vn_free(w.at);
    return s;
}

/* ---- TensorScatter: rows of `update` into a cache, from a write position per sample ---- */

static vn_status_t cache_axis(vn_eval_t *e, int *axis) {
    const vn_tensor_t *t = e->in[0].t, *u = e->in[1].t;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", -2), t->rank, axis));
    if (*axis == 0) return vn_eval_fail(e, VN_ERR_RANGE, "axis cannot be the batch axis");
    bool fits = u->rank == t->rank && u->dtype == t->dtype;
    for (int k = 0; fits && k < t->rank; ++k) fits = k == *axis ? u->dims[k] <= t->dims[k] : u->dims[k] == t->dims[k];
    return fits ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "update differs from past_cache in more than axis %d, or is longer there", *axis);
}

vn_status_t vn_move_tensor_scatter(vn_eval_t *e) {
    int axis;
    int64_t *start = NULL;
    vn_tensor_t *past = NULL, *update = NULL, *all = NULL;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    VN_TRY(cache_axis(e, &axis));
    const vn_tensor_t *t = e->in[0].t, *u = e->in[1].t;
    const char *mode = vn_node_string(e->node, "mode", "linear");
    const bool circular = strcmp(mode, "circular") == 0;
    if (!circular && strcmp(mode, "linear")) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode '%s' is neither linear nor circular", mode);
    if (vn_has(e, 2)) {
        if (e->in[2].t && e->in[2].t->count != t->dims[0])
            return vn_eval_fail(e, VN_ERR_SHAPE, "write_indices has %lld entries for a batch of %lld", (long long)e->in[2].t->count,
                                (long long)t->dims[0]);
        VN_TRY(vn_move_i64(e, 2, &start));
    }
    const int64_t outer = vn_shape_product(t->dims, 0, axis), inner = vn_shape_product(t->dims, axis + 1, t->rank);
    const int64_t room = t->dims[axis], steps = u->dims[axis], per_batch = vn_shape_product(t->dims, 1, axis);
    const vn_shape_t shape = vn_shape_of(t);
    vn_status_t s = vn_plain_from(e, t, &past);
    if (s == VN_OK) s = vn_plain_from(e, u, &update);
    if (s == VN_OK) s = vn_plain_new(e, t->dtype, &shape, &all);
    if (s == VN_OK && t->count) memcpy(all->data, past->data, (size_t)t->count * vn_plain_size(past));
    for (int64_t o = 0; o < outer && s == VN_OK && steps && inner; ++o) {
        const int64_t from = start ? start[o / per_batch] : 0;
        const size_t row = (size_t)inner * vn_plain_size(past);
        if (from < 0 || (!circular && from > room - steps)) {
            s = vn_eval_fail(e, VN_ERR_RANGE, "write_indices[%lld] = %lld: %lld entries do not fit a cache of %lld",
                             (long long)(o / per_batch), (long long)from, (long long)steps, (long long)room);
            break;
        }
        for (int64_t i = 0; i < steps; ++i)
            memcpy((char *)all->data + (size_t)(o * room + (from % room + i) % room) * row,
                   (const char *)update->data + (size_t)(o * steps + i) * row, row);
    }
    if (s == VN_OK) {
        s = vn_plain_out(e, 0, t->dtype, all);
        all = NULL;
    }
    vn_tensor_free(past);
    vn_tensor_free(update);
    vn_tensor_free(all);
    vn_free(start);
    return s;
}
