/* run.c -- one run: inputs and outputs laid out in shared memory, the reply decoded with distrust. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/internal.h"

enum { MAX_SEGMENTS = 64, MAX_VALUE_DEPTH = 8 };

static bool add_aligned(size_t *at, size_t bytes) {
    if (!vn_size_add(*at, bytes, at) || !vn_size_add(*at, VN_OFFSET_ALIGN - 1, at)) return false;
    *at &= ~(size_t)(VN_OFFSET_ALIGN - 1);
    return true;
}

/* ---- inputs ---- */

/* Makes w->input at least `size` bytes; kept from run to run, so that its pages are made once. */
static vn_status_t reserve_input(vn_worker_t *w, size_t size, vn_error_t *err) {
    if (w->input.data && w->input.size >= size) return VN_OK;
    size_t room = 2 * w->input.size;
    if (room < size) room = size;
    if (room < 65536) room = 65536;
    vn_shm_close(&w->input);
    char name[64];
    vn_worker_segment_name(w, name);
    return vn_shm_create(name, room, &w->input, err);
}

static vn_status_t put_inputs(vn_worker_t *w, const vn_bundle_t *b, json_t *list, vn_error_t *err) {
    size_t total = 0, bytes;
    for (int i = 0; i < b->count; ++i) {
        VN_TRY(vn_packed_size(b->items[i].tensor, &bytes, err));
        if (!add_aligned(&total, bytes)) return vn_fail(err, VN_ERR_RANGE, "inputs are too large");
    }
    VN_TRY(reserve_input(w, total, err));
    size_t at = 0;
    for (int i = 0; i < b->count; ++i) {
        const vn_tensor_t *t = b->items[i].tensor;
        vn_desc_t d = {.dtype = t->dtype, .rank = t->rank, .offset = at};
        memcpy(d.dims, t->dims, sizeof d.dims);
        memcpy(d.shm, w->input.name, sizeof d.shm);
        VN_TRY(vn_packed_size(t, &d.bytes, err));
        VN_TRY(vn_packed_put(t, (unsigned char *)w->input.data + at, err));
        json_t *o = json_pack("{s:s,s:s}", "name", b->items[i].name, "kind", "tensor");
        if (!o || !vn_desc_put(o, &d) || json_array_append_new(list, o) != 0)
            return vn_fail(err, VN_ERR_NOMEM, "input '%.100s': out of memory, or its name is not UTF-8", b->items[i].name);
        add_aligned(&at, d.bytes);
    }
    return VN_OK;
}

/* ---- outputs: [guard][output][guard][output][guard], data aligned to 64, slack counts as guard ---- */

static bool is_open(const vn_output_spec_t *s) { return s->rank < 0 || s->dtype == VN_UNDEFINED || s->dtype == VN_STRING; }

static vn_status_t place_outputs(vn_worker_t *w, int n, const vn_output_spec_t *specs, vn_output_place_t *places, vn_segment_t **segment,
                                 vn_error_t *err) {
    size_t at = VN_GUARD_BYTES;
    bool any = false;
    for (int i = 0; i < n; ++i) {
        vn_desc_t *d = &places[i].desc;
        if (is_open(&specs[i])) continue;
        if (specs[i].rank > VN_MAX_RANK) return vn_fail(err, VN_ERR_RANGE, "output '%.100s': rank %d", specs[i].name, specs[i].rank);
        places[i].host = any = true;
        *d = (vn_desc_t){.dtype = specs[i].dtype, .rank = specs[i].rank, .count = 1, .offset = at};
        memcpy(d->dims, specs[i].dims, sizeof d->dims);
        for (int k = 0; k < d->rank; ++k)
            if (d->dims[k] < 0 || !vn_i64_mul(d->count, d->dims[k], &d->count))
                return vn_fail(err, VN_ERR_RANGE, "output '%.100s': dims are negative or overflow", specs[i].name);
        if (!vn_dtype_storage(d->dtype, d->count, &d->bytes) || !add_aligned(&at, d->bytes) || !add_aligned(&at, VN_GUARD_BYTES))
            return vn_fail(err, VN_ERR_RANGE, "output '%.100s' is too large", specs[i].name);
    }
    if (!any) return VN_OK;
    char name[64];
    vn_shm_t shm;
    vn_worker_segment_name(w, name);
    VN_TRY(vn_shm_create(name, at, &shm, err));
    *segment = vn_segment_new(&shm);
    if (!*segment) return vn_fail(err, VN_ERR_NOMEM, "outputs: out of memory");
    unsigned char *base = (*segment)->shm.data;
    size_t clean = 0; /* everything before it is filled */
    for (int i = 0; i < n; ++i) {
        const vn_desc_t *d = &places[i].desc;
        if (!places[i].host) continue;
        memset(base + clean, VN_GUARD_PATTERN, d->offset - clean);
        vn_poison_fill(d->dtype, base + d->offset, d->count);
        clean = d->offset + d->bytes;
        strcpy(places[i].desc.shm, name);
    }
    memset(base + clean, VN_GUARD_PATTERN, at - clean);
    return VN_OK;
}

static json_t *output_requests(int n, const vn_output_spec_t *specs, const vn_output_place_t *places) {
    json_t *list = json_array();
    for (int i = 0; i < n; ++i) {
        json_t *o = json_pack("{s:s}", "name", specs[i].name);
        if (!o || (places[i].host && !vn_desc_put(o, &places[i].desc)) || json_array_append_new(list, o) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Bytes before and after an output, up to its neighbours' data. */
static bool guards_broken(const vn_segment_t *s, const vn_desc_t *d) {
    const unsigned char *p = (const unsigned char *)s->shm.data + d->offset, *end = p + d->bytes;
    const unsigned char *base = s->shm.data, *limit = base + s->shm.size;
    size_t after = VN_GUARD_BYTES + (VN_OFFSET_ALIGN - d->bytes % VN_OFFSET_ALIGN) % VN_OFFSET_ALIGN;
    if (after > (size_t)(limit - end)) after = (size_t)(limit - end);
    for (const unsigned char *g = p - VN_GUARD_BYTES; g < p; ++g)
        if (*g != VN_GUARD_PATTERN) return true;
    for (size_t i = 0; i < after; ++i)
        if (end[i] != VN_GUARD_PATTERN) return true;
    return false;
}

/* ---- decoding ---- */

typedef struct decode {
    const char *prefix;
    vn_segment_t *segments[MAX_SEGMENTS]; /* the worker's, attached on first mention */
    int n_segments;
    vn_error_t *err;
} decode_t;

static vn_status_t find_segment(decode_t *c, const vn_desc_t *d, const char *what, vn_segment_t **out) {
    vn_segment_t *s = NULL;
    for (int i = 0; i < c->n_segments && !s; ++i)
        if (strcmp(c->segments[i]->shm.name, d->shm) == 0) s = c->segments[i];
    if (!s) {
        const size_t k = strlen(c->prefix);
        if (strncmp(d->shm, c->prefix, k) != 0 || d->shm[k] != '-' || d->shm[k + 1] == 'h')
            return vn_fail(c->err, VN_ERR_PARSE, "%s: segment '%s' is not one of this worker's", what, d->shm);
        if (c->n_segments == MAX_SEGMENTS) return vn_fail(c->err, VN_ERR_PARSE, "%s: more than %d segments", what, MAX_SEGMENTS);
        vn_shm_t shm;
        vn_status_t status = vn_shm_attach(d->shm, 0, true, &shm, c->err);
        if (status != VN_OK) { /* a name that cannot be opened is the worker's lie, not an I/O error of ours */
            vn_fail_prefix(c->err, "%s", what);
            if (c->err) c->err->status = VN_ERR_PARSE;
            return VN_ERR_PARSE;
        }
        shm_unlink(shm.name); /* the mapping lives on, the name is no longer needed */
        if (!(s = vn_segment_new(&shm))) return vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
        c->segments[c->n_segments++] = s;
    }
    if (d->offset > s->shm.size || d->bytes > s->shm.size - d->offset)
        return vn_fail(c->err, VN_ERR_PARSE, "%s: offset %zu + %zu bytes run past the segment's %zu", what, d->offset, d->bytes,
                       s->shm.size);
    *out = s;
    return VN_OK;
}

static vn_status_t wrap(vn_segment_t *s, const vn_desc_t *d, vn_tensor_t **out, vn_error_t *err) {
    vn_segment_retain(s);
    vn_status_t status =
        vn_tensor_wrap(d->dtype, d->rank, d->dims, (unsigned char *)s->shm.data + d->offset, d->bytes, vn_segment_release, s, out, err);
    if (status != VN_OK) vn_segment_release(s);
    return status;
}

static vn_status_t decode_tensor(decode_t *c, const json_t *o, const char *what, vn_value_t **out) {
    vn_desc_t d;
    vn_segment_t *s = NULL;
    vn_tensor_t *t = NULL;
    VN_TRY(vn_desc_read(o, what, &d, c->err));
    VN_TRY(find_segment(c, &d, what, &s));
    if (d.dtype == VN_STRING) VN_TRY(vn_packed_strings(&d, (unsigned char *)s->shm.data + d.offset, what, &t, c->err));
    else VN_TRY(wrap(s, &d, &t, c->err));
    *out = vn_value_tensor(t);
    return *out ? VN_OK : vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
}

static vn_status_t decode_value(decode_t *c, const json_t *o, const char *what, int depth, vn_value_t **out);

static vn_status_t decode_list(decode_t *c, const json_t *o, vn_value_kind_t kind, const char *what, int depth, vn_value_t **out) {
    const json_t *list = json_object_get(o, "items");
    const char *elem = vn_json_text(o, "elem");
    const vn_dtype_t t = elem ? vn_dtype_from_name(elem) : VN_UNDEFINED;
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return vn_fail(c->err, VN_ERR_PARSE, "%s: \"items\" is not an array", what);
    if (!elem || (t == VN_UNDEFINED && strcmp(elem, vn_dtype_name(VN_UNDEFINED)) != 0))
        return vn_fail(c->err, VN_ERR_PARSE, "%s: \"elem\" is not the name of a dtype", what);
    if (kind == VN_VALUE_OPTIONAL && n > 1) return vn_fail(c->err, VN_ERR_PARSE, "%s: an optional with %zu items", what, n);
    vn_value_t **items = vn_alloc(n, sizeof(vn_value_t *));
    if (!items) return vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
    vn_status_t s = VN_OK;
    for (size_t i = 0; i < n && s == VN_OK; ++i) s = decode_value(c, json_array_get(list, i), what, depth + 1, &items[i]);
    if (s == VN_OK && !(*out = vn_value_list(kind, t, items, (int64_t)n))) s = vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
    for (size_t i = 0; i < n; ++i) vn_value_free(items[i]);
    vn_free(items);
    return s;
}

static const struct {
    const char *name;
    vn_value_kind_t kind;
} kinds[] = {
    {"tensor", VN_VALUE_TENSOR},
    {"sequence", VN_VALUE_SEQUENCE},
    {"optional", VN_VALUE_OPTIONAL},
    {"absent", VN_VALUE_ABSENT},
};

static vn_status_t decode_value(decode_t *c, const json_t *o, const char *what, int depth, vn_value_t **out) {
    const char *name = vn_json_text(o, "kind");
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; ++i) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        if (kinds[i].kind == VN_VALUE_TENSOR) return decode_tensor(c, o, what, out);
        if (kinds[i].kind == VN_VALUE_ABSENT) {
            *out = vn_value_list(VN_VALUE_ABSENT, VN_UNDEFINED, NULL, 0);
            return *out ? VN_OK : vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
        }
        if (depth >= MAX_VALUE_DEPTH) return vn_fail(c->err, VN_ERR_PARSE, "%s: nested deeper than %d", what, MAX_VALUE_DEPTH);
        return decode_list(c, o, kinds[i].kind, what, depth, out);
    }
    return vn_fail(c->err, VN_ERR_PARSE, "%s: unknown kind '%.40s'", what, name ? name : "");
}

/* How a value that the worker allocated differs from what the host declared; "" if it does not. */
static void compare_form(const vn_output_spec_t *spec, const vn_value_t *v, char *out, size_t size) {
    static const char *const names[] = {"nothing", "a tensor", "a sequence", "an optional"};
    if (spec->dtype == VN_UNDEFINED && spec->rank < 0) return;
    if (v->kind != VN_VALUE_TENSOR) {
        snprintf(out, size, "a tensor was declared, %s returned", names[v->kind]);
        return;
    }
    const vn_tensor_t *t = v->tensor;
    const bool dtype = spec->dtype == VN_UNDEFINED || spec->dtype == t->dtype;
    const bool dims =
        spec->rank < 0 || (spec->rank == t->rank && (t->rank == 0 || memcmp(spec->dims, t->dims, (size_t)t->rank * sizeof *t->dims) == 0));
    if (dtype && dims) return;
    char got[80], want[80] = "";
    vn_tensor_describe(t, got, sizeof got);
    if (spec->rank < 0) {
        snprintf(want, sizeof want, "%s of any shape", vn_dtype_name(spec->dtype));
    } else {
        vn_tensor_t model = {.dtype = spec->dtype == VN_UNDEFINED ? t->dtype : spec->dtype, .rank = spec->rank};
        memcpy(model.dims, spec->dims, sizeof model.dims);
        vn_tensor_describe(&model, want, sizeof want);
    }
    snprintf(out, size, "%s was declared, %s returned", want, got);
}

static vn_status_t decode_output(decode_t *c, const json_t *o, const vn_output_spec_t *spec, const vn_output_place_t *place,
                                 vn_segment_t *mine, vn_output_t *out) {
    char what[160];
    snprintf(what, sizeof what, "reply to run: output '%.100s'", spec->name);
    const json_t *host = json_object_get(o, "host");
    if (host && !json_is_boolean(host)) return vn_fail(c->err, VN_ERR_PARSE, "%s: \"host\" is not true or false", what);
    if (!json_is_true(host)) {
        VN_TRY(decode_value(c, o, what, 0, &out->value));
        out->worker_allocated = true;
        compare_form(spec, out->value, out->form_error, sizeof out->form_error);
        return VN_OK;
    }
    if (!place->host || !mine) return vn_fail(c->err, VN_ERR_PARSE, "%s: the host gave no memory for it", what);
    vn_tensor_t *t = NULL;
    VN_TRY(wrap(mine, &place->desc, &t, c->err));
    out->poison_left = vn_poison_count(t);
    out->value = vn_value_tensor(t);
    return out->value ? VN_OK : vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", what);
}

vn_status_t vn_run_decode(const json_t *reply, const char *prefix, int n, const vn_output_spec_t *specs, const vn_output_place_t *places,
                          vn_segment_t *outputs_segment, vn_output_t *outputs, vn_error_t *err) {
    const json_t *list = json_object_get(reply, "outputs"), *o;
    if (!json_is_array(list)) return vn_fail(err, VN_ERR_PARSE, "reply to run: \"outputs\" is not an array");
    decode_t c = {.prefix = prefix, .err = err};
    vn_status_t s = VN_OK;
    size_t i;
    json_array_foreach(list, i, o) {
        const char *name = vn_json_text(o, "name");
        int k = 0;
        while (name && k < n && strcmp(specs[k].name, name) != 0) ++k;
        if (!name) s = vn_fail(err, VN_ERR_PARSE, "reply to run: output %zu has no name", i);
        else if (k == n) s = vn_fail(err, VN_ERR_PARSE, "reply to run: output '%.100s' was not asked for", name);
        else if (outputs[k].value) s = vn_fail(err, VN_ERR_PARSE, "reply to run: output '%.100s' comes twice", name);
        else s = decode_output(&c, o, &specs[k], &places[k], outputs_segment, &outputs[k]);
        if (s != VN_OK) break;
    }
    for (int k = 0; s == VN_OK && k < n; ++k)
        if (places[k].host) outputs[k].guard_broken = guards_broken(outputs_segment, &places[k].desc);
    for (int k = 0; k < c.n_segments; ++k) vn_segment_release(c.segments[k]);
    return s;
}

void vn_output_free(vn_output_t *o) {
    vn_value_free(o->value);
    memset(o, 0, sizeof *o);
}

/* ---- the run ---- */

static vn_status_t take_seconds(const json_t *reply, double wall, double *seconds, vn_error_t *err) {
    const json_t *v = json_object_get(reply, "seconds");
    if (v && (!json_is_number(v) || !(json_number_value(v) >= 0) || !isfinite(json_number_value(v))))
        return vn_fail(err, VN_ERR_PARSE, "reply to run: \"seconds\" is not a number >= 0");
    if (seconds) *seconds = v ? json_number_value(v) : wall;
    return VN_OK;
}

static vn_status_t run(vn_worker_t *w, int64_t session, const vn_bundle_t *inputs, int n, const vn_output_spec_t *specs,
                       vn_output_place_t *places, vn_segment_t **segment, vn_output_t *outputs, double *seconds, vn_error_t *err) {
    json_t *in = json_array(), *reply = NULL;
    vn_status_t s = in ? put_inputs(w, inputs, in, err) : vn_fail(err, VN_ERR_NOMEM, "run: out of memory");
    if (s == VN_OK) s = place_outputs(w, n, specs, places, segment, err);
    if (s != VN_OK) {
        json_decref(in);
        return s;
    }
    json_t *rq = json_pack("{s:s,s:I,s:o,s:o}", "cmd", "run", "session", (json_int_t)session, "inputs", in, "outputs",
                           output_requests(n, specs, places));
    const double begin = vn_now();
    VN_TRY(vn_worker_ask(w, rq, "run", &reply, err));
    s = take_seconds(reply, vn_now() - begin, seconds, err);
    if (*segment) { /* both sides have it mapped: the name can go */
        shm_unlink((*segment)->shm.name);
        (*segment)->shm.owner = false;
    }
    if (s == VN_OK) s = vn_run_decode(reply, w->prefix, n, specs, places, *segment, outputs, err);
    json_decref(reply);
    if (s == VN_ERR_PARSE) {
        vn_fail_prefix(err, "back end %s", w->spec.name);
        vn_worker_drop(w);
    }
    return s;
}

vn_status_t vn_worker_run(vn_worker_t *w, int64_t session, const vn_bundle_t *inputs, int n, const vn_output_spec_t *specs,
                          vn_output_t *outputs, double *seconds, vn_error_t *err) {
    memset(outputs, 0, (size_t)n * sizeof *outputs);
    if (seconds) *seconds = 0;
    if (!w->process || !vn_worker_has_session(w, session))
        return vn_fail(err, VN_ERR_NOTFOUND, "back end %s: no session %lld%s", w->spec.name, (long long)session,
                       w->process ? "" : ": the process has ended since it was loaded");
    vn_output_place_t *places = vn_alloc((size_t)n, sizeof *places);
    if (!places) return vn_fail(err, VN_ERR_NOMEM, "run: out of memory");
    vn_segment_t *segment = NULL;
    vn_status_t s = run(w, session, inputs, n, specs, places, &segment, outputs, seconds, err);
    if (s != VN_OK)
        for (int i = 0; i < n; ++i) vn_output_free(&outputs[i]);
    vn_segment_release(segment);
    vn_free(places);
    return s;
}
