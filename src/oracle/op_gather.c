/* op_gather.c -- results made of runs of the operand at computed places: Gather, GatherElements, GatherND, Compress, ReverseSequence.
 *
 * Claim MOVE-6: each operator is a list of places, one per run of the result; a run is copied unchanged. An index outside [-s, s-1] has
 * no value in the standard ("it is an error"): such runs are marked VN_EL_VOID, the tensor shows the clamped index, and the reading
 * "index-out-of-range:zero" shows zeros. All other elements are exact.
 */
#include <string.h>

#include "oracle/move.h"

/* The places: elements from the start of the operand; ~place marks an index out of range whose clamped place it is. */
typedef struct places {
    vn_shape_t out;
    int64_t runs, run; /* out has runs x run elements */
    int64_t *at;
    bool bad;
} places_t;

static vn_status_t places_new(vn_eval_t *e, places_t *p, int64_t runs, int64_t run) {
    p->runs = runs;
    p->run = run;
    p->bad = false;
    VN_TRY(vn_shape_check(e, e->in[0].t->dtype, &p->out));
    p->at = vn_alloc((size_t)(runs ? runs : 1), sizeof *p->at);
    return p->at ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld indices", (long long)runs);
}

/* index in [0, size) and *bad, or a RANGE error when there is nothing to clamp to. */
static vn_status_t resolve(vn_eval_t *e, int64_t index, int64_t size, int axis, int64_t *out, bool *bad) {
    if (size == 0) return vn_eval_fail(e, VN_ERR_RANGE, "index %lld into axis %d, which has no entries", (long long)index, axis);
    if (index < -size) {
        *bad = true;
        *out = 0;
    } else if (index >= size) {
        *bad = true;
        *out = size - 1;
    } else {
        *out = index < 0 ? index + size : index;
    }
    return VN_OK;
}

typedef struct job {
    const places_t *p;
    const char *from;
    char *to;
    size_t size;
    bool zero; /* bad runs stay zero */
} job_t;

static void copy_runs(void *ctx, int64_t begin, int64_t end) {
    const job_t *j = ctx;
    const size_t bytes = (size_t)j->p->run * j->size;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = j->p->at[i];
        if (at < 0 && j->zero) continue;
        const char *from = j->from + (size_t)(at < 0 ? ~at : at) * j->size;
        char *to = j->to + (size_t)i * bytes;
        switch (bytes) { /* single elements are the common short runs */
        case 1: memcpy(to, from, 1); break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        case 8: memcpy(to, from, 8); break;
        default: memcpy(to, from, bytes); break;
        }
    }
}

static vn_status_t copied(vn_eval_t *e, const places_t *p, const vn_tensor_t *plain, bool zero, vn_tensor_t **out) {
    VN_TRY(vn_plain_new(e, e->in[0].t->dtype, &p->out, out));
    const size_t size = vn_plain_size(plain), bytes = (size_t)p->run * size;
    job_t j = {.p = p, .from = plain->data, .to = (*out)->data, .size = size, .zero = zero};
    if ((*out)->count) vn_parallel(p->runs, (int64_t)((1 << 18) / (bytes ? bytes : 1)) + 1, copy_runs, &j);
    return VN_OK;
}

static vn_status_t mark_bad(vn_eval_t *e, const places_t *p, const vn_tensor_t *plain) {
    vn_tensor_t *zero;
    VN_TRY(vn_out_flags(e, 0));
    for (int64_t i = 0; i < p->runs; ++i)
        if (p->at[i] < 0) memset(e->out[0].flags + i * p->run, VN_EL_VOID, (size_t)p->run);
    VN_TRY(copied(e, p, plain, true, &zero));
    VN_TRY(vn_plain_seal(e, e->in[0].t->dtype, zero, &zero));
    return vn_out_reading(e, 0, "index-out-of-range:zero", zero);
}

/* Releases p->at. */
static vn_status_t give_runs(vn_eval_t *e, places_t *p) {
    vn_tensor_t *plain = NULL, *all;
    vn_status_t s = vn_plain_from(e, e->in[0].t, &plain);
    if (s == VN_OK) s = copied(e, p, plain, false, &all);
    if (s == VN_OK) s = vn_plain_out(e, 0, e->in[0].t->dtype, all);
    if (s == VN_OK && p->bad) s = mark_bad(e, p, plain);
    vn_tensor_free(plain);
    vn_free(p->at);
    return s;
}

/* ---- Gather ---- */

static vn_status_t gather_shape(vn_eval_t *e, int *axis, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t, *index = e->in[1].t;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), t->rank, axis));
    s->rank = 0;
    for (int k = 0; k < *axis; ++k) VN_TRY(vn_shape_add(e, s, t->dims[k]));
    for (int k = 0; k < index->rank; ++k) VN_TRY(vn_shape_add(e, s, index->dims[k]));
    for (int k = *axis + 1; k < t->rank; ++k) VN_TRY(vn_shape_add(e, s, t->dims[k]));
    return VN_OK;
}

vn_status_t vn_infer_gather(vn_eval_t *e) {
    int axis;
    vn_shape_t s;
    VN_TRY(gather_shape(e, &axis, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

vn_status_t vn_move_gather(vn_eval_t *e) {
    places_t p = {.runs = 0};
    int axis;
    int64_t *index;
    VN_TRY(gather_shape(e, &axis, &p.out));
    const vn_tensor_t *t = e->in[0].t;
    const int64_t outer = vn_shape_product(t->dims, 0, axis), inner = vn_shape_product(t->dims, axis + 1, t->rank);
    const int64_t n = e->in[1].t->count, dim = t->dims[axis];
    VN_TRY(vn_move_i64(e, 1, &index));
    vn_status_t s = places_new(e, &p, outer * n, inner);
    for (int64_t i = 0; i < n && s == VN_OK && p.runs && inner; ++i) {
        bool bad = false;
        int64_t at = 0;
        s = resolve(e, index[i], dim, axis, &at, &bad);
        p.bad |= bad;
        for (int64_t o = 0; o < outer; ++o) {
            const int64_t place = (o * dim + at) * inner;
            p.at[o * n + i] = bad ? ~place : place;
        }
    }
    vn_free(index);
    if (s == VN_OK) return give_runs(e, &p);
    vn_free(p.at);
    return s;
}

/* ---- GatherElements ---- */

static vn_status_t elements_shape(vn_eval_t *e, int *axis, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t, *index = e->in[1].t;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), t->rank, axis));
    if (index->rank != t->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "indices have rank %d, the data have rank %d", index->rank, t->rank);
    for (int k = 0; k < t->rank; ++k)
        if (k != *axis && index->dims[k] > t->dims[k])
            return vn_eval_fail(e, VN_ERR_RANGE, "indices have %lld entries along axis %d, the data have %lld", (long long)index->dims[k],
                                k, (long long)t->dims[k]);
    *s = vn_shape_of(index);
    return VN_OK;
}

vn_status_t vn_infer_gather_elements(vn_eval_t *e) {
    int axis;
    vn_shape_t s;
    VN_TRY(elements_shape(e, &axis, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

vn_status_t vn_move_gather_elements(vn_eval_t *e) {
    places_t p = {.runs = 0};
    int axis;
    int64_t *index, c[VN_MAX_RANK] = {0};
    VN_TRY(elements_shape(e, &axis, &p.out));
    const vn_tensor_t *t = e->in[0].t, *ix = e->in[1].t;
    VN_TRY(vn_move_i64(e, 1, &index));
    vn_status_t s = places_new(e, &p, ix->count, 1);
    for (int64_t i = 0; i < ix->count && s == VN_OK; ++i) {
        bool bad = false;
        int64_t at = 0, place = 0;
        s = resolve(e, index[i], t->dims[axis], axis, &at, &bad);
        p.bad |= bad;
        for (int k = 0; k < t->rank; ++k) place = place * t->dims[k] + (k == axis ? at : c[k]);
        p.at[i] = bad ? ~place : place;
        for (int k = t->rank - 1; k >= 0 && ++c[k] == ix->dims[k]; --k) c[k] = 0;
    }
    vn_free(index);
    if (s == VN_OK) return give_runs(e, &p);
    vn_free(p.at);
    return s;
}

/* ---- GatherND ---- */

typedef struct nd {
    int batch, depth; /* batch axes, entries of a tuple */
    vn_shape_t out;
} nd_t;

static vn_status_t nd_shape(vn_eval_t *e, nd_t *d) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t, *index = e->in[1].t;
    const int64_t batch = e->version >= 12 ? vn_node_int(e->node, "batch_dims", 0) : 0;
    if (t->rank < 1 || index->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "data and indices need rank 1 or more");
    if (batch < 0 || batch >= t->rank || batch >= index->rank)
        return vn_eval_fail(e, VN_ERR_RANGE, "batch_dims %lld for ranks %d and %d", (long long)batch, t->rank, index->rank);
    d->batch = (int)batch;
    const int64_t depth = index->dims[index->rank - 1];
    if (depth < 1 || depth > t->rank - batch)
        return vn_eval_fail(e, VN_ERR_SHAPE, "tuples of %lld indices into data of rank %d after %lld batch axes", (long long)depth, t->rank,
                            (long long)batch);
    d->depth = (int)depth;
    for (int k = 0; k < d->batch; ++k)
        if (t->dims[k] != index->dims[k])
            return vn_eval_fail(e, VN_ERR_SHAPE, "batch axis %d has %lld and %lld entries", k, (long long)t->dims[k],
                                (long long)index->dims[k]);
    d->out.rank = 0;
    for (int k = 0; k + 1 < index->rank; ++k) VN_TRY(vn_shape_add(e, &d->out, index->dims[k]));
    for (int k = d->batch + d->depth; k < t->rank; ++k) VN_TRY(vn_shape_add(e, &d->out, t->dims[k]));
    return VN_OK;
}

vn_status_t vn_infer_gather_nd(vn_eval_t *e) {
    nd_t d;
    VN_TRY(nd_shape(e, &d));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &d.out);
}

vn_status_t vn_move_gather_nd(vn_eval_t *e) {
    nd_t d;
    int64_t *index;
    VN_TRY(nd_shape(e, &d));
    const vn_tensor_t *t = e->in[0].t, *ix = e->in[1].t;
    places_t p = {.out = d.out};
    const int64_t run = vn_shape_product(t->dims, d.batch + d.depth, t->rank);
    const int64_t runs = vn_shape_product(ix->dims, 0, ix->rank - 1);
    const int64_t per_batch = vn_shape_product(ix->dims, d.batch, ix->rank - 1);
    VN_TRY(vn_move_i64(e, 1, &index));
    vn_status_t s = places_new(e, &p, runs, run);
    for (int64_t i = 0; i < runs && s == VN_OK && run; ++i) {
        bool bad = false;
        int64_t place = i / per_batch;
        for (int k = 0; k < d.depth && s == VN_OK; ++k) {
            int64_t at = 0;
            s = resolve(e, index[i * d.depth + k], t->dims[d.batch + k], d.batch + k, &at, &bad);
            place = place * t->dims[d.batch + k] + at;
        }
        p.bad |= bad;
        p.at[i] = bad ? ~(place * run) : place * run;
    }
    vn_free(index);
    if (s == VN_OK) return give_runs(e, &p);
    vn_free(p.at);
    return s;
}

/* ---- Compress ---- */

vn_status_t vn_move_compress(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t;
    const vn_attr_t *attr = vn_node_attr(e->node, "axis");
    int64_t *keep, outer = 1, dim = t->count, inner = 1, chosen = 0;
    places_t p = {.out = {.rank = 1}};
    int axis = 0;
    if (attr) {
        VN_TRY(vn_eval_axis(e, attr->i, t->rank, &axis));
        p.out = vn_shape_of(t);
        outer = vn_shape_product(t->dims, 0, axis);
        dim = t->dims[axis];
        inner = vn_shape_product(t->dims, axis + 1, t->rank);
    }
    VN_TRY(vn_move_i64(e, 1, &keep));
    const int64_t n = e->in[1].t->count;
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i)
        if (keep[i]) {
            ++chosen;
            if (i >= dim) s = vn_eval_fail(e, VN_ERR_RANGE, "condition[%lld] selects past %lld entries", (long long)i, (long long)dim);
        }
    p.out.d[axis] = chosen;
    if (s == VN_OK) s = places_new(e, &p, outer * chosen, inner);
    int64_t at = 0;
    for (int64_t o = 0; o < outer && s == VN_OK; ++o)
        for (int64_t i = 0; i < n; ++i)
            if (keep[i]) p.at[at++] = (o * dim + i) * inner;
    vn_free(keep);
    if (s == VN_OK) return give_runs(e, &p);
    vn_free(p.at);
    return s;
}

/* ---- ReverseSequence ---- */

vn_status_t vn_infer_reverse_sequence(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

vn_status_t vn_move_reverse_sequence(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t;
    const int64_t time = vn_node_int(e->node, "time_axis", 0), batch = vn_node_int(e->node, "batch_axis", 1);
    if (t->rank < 2) return vn_eval_fail(e, VN_ERR_SHAPE, "needs rank 2 or more, not %d", t->rank);
    if (time < 0 || time > 1 || batch < 0 || batch > 1 || time == batch)
        return vn_eval_fail(e, VN_ERR_RANGE, "time_axis %lld and batch_axis %lld must be 0 and 1 in some order", (long long)time,
                            (long long)batch);
    const int64_t steps = t->dims[time], samples = t->dims[batch], d1 = t->dims[1];
    if (e->in[1].t->count != samples)
        return vn_eval_fail(e, VN_ERR_SHAPE, "sequence_lens has %lld entries for a batch of %lld", (long long)e->in[1].t->count,
                            (long long)samples);
    int64_t *length;
    places_t p = {.out = vn_shape_of(t)};
    VN_TRY(vn_move_i64(e, 1, &length));
    const int64_t inner = vn_shape_product(t->dims, 2, t->rank);
    vn_status_t s = places_new(e, &p, steps * samples, inner);
    for (int64_t b = 0; b < samples && s == VN_OK; ++b) {
        if (length[b] < 0 || length[b] > steps)
            s = vn_eval_fail(e, VN_ERR_RANGE, "sequence_lens[%lld] is %lld for %lld steps", (long long)b, (long long)length[b],
                             (long long)steps);
        for (int64_t i = 0; i < steps && s == VN_OK; ++i) {
            const int64_t from = i < length[b] ? length[b] - 1 - i : i;
            const int64_t to_run = time == 0 ? i * d1 + b : b * d1 + i, from_run = time == 0 ? from * d1 + b : b * d1 + from;
            p.at[to_run] = from_run * inner;
        }
    }
    vn_free(length);
    if (s == VN_OK) return give_runs(e, &p);
    vn_free(p.at);
    return s;
}
