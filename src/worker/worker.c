/* worker.c -- a back end as an object: started, greeted, loaded, asked again after a crash, stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vernier/graph.h"
#include "worker/internal.h"

static const double default_timeout_s = 300, stop_grace_s = 2;

/* ---- start and handshake ---- */

static vn_status_t launch(vn_worker_t *w, vn_error_t *err) {
    char **envp = NULL;
    char label[64];
    vn_free(w->environment);
    w->environment = NULL;
    VN_TRY(vn_policy_build(&w->spec, w->row, w->threads, &envp, &w->environment, err));
    static char isolated[] = "-I", no_files[] = "-B"; /* nothing of the caller's Python settings; no files beside the script */
    char *argv[5] = {w->place.program};
    if (w->place.script[0]) {
        argv[1] = isolated;
        argv[2] = no_files;
        argv[3] = w->place.script;
    }
    snprintf(label, sizeof label, "back end %s", w->spec.name);
    vn_process_options_t o = {
        .argv = argv, .envp = envp, .label = label, .memory_bytes = w->memory_bytes, .address_limit = !w->row->wide_addresses};
#ifdef VN_SANITIZE
    o.address_limit = false; /* shadow memory reserves terabytes of addresses */
#endif
    vn_status_t s = vn_process_start(&o, &w->process, err);
    vn_policy_free(envp);
    if (w->launched) ++w->restarts;
    w->launched = true;
    return s;
}

static json_t *hello_request(const vn_worker_t *w) {
    json_t *options = json_object();
    for (int i = 0; i < w->spec.n_options; ++i) {
        const char *key = w->spec.options[i].key;
        if (strcmp(key, "threads") == 0 || strncmp(key, "env.", 4) == 0) continue;
        json_object_set_new(options, key, json_string(w->spec.options[i].value));
    }
    json_t *rq =
        json_pack("{s:s,s:i,s:s,s:s,s:s,s:s,s:i,s:o}", "cmd", "hello", "protocol", VN_PROTOCOL_VERSION, "shm_prefix", w->prefix, "backend",
                  w->spec.name, "device", w->spec.device, "environment", w->place.environment, "threads", w->threads, "options", options);
    if (rq && w->cache) json_object_set_new(rq, "cache", json_string(w->cache));
    return rq;
}

static vn_status_t take_identity(vn_worker_t *w, const json_t *reply, vn_error_t *err) {
    static const char *const needed[] = {"framework", "version", "device"};
    int64_t version;
    json_t *identity = json_object_get(reply, "identity");
    if (!vn_json_count(reply, "protocol", &version) || version != VN_PROTOCOL_VERSION)
        return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to hello: \"protocol\" is not %d", w->spec.name, VN_PROTOCOL_VERSION);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i)
        if (!vn_json_text(identity, needed[i]))
            return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to hello: identity has no text \"%s\"", w->spec.name, needed[i]);
    char *text = json_dumps(identity, JSON_COMPACT | JSON_SORT_KEYS);
    vn_free(w->identity);
    w->identity = text ? vn_strdup(text) : NULL;
    free(text);
    return w->identity ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory", w->spec.name);
}

static vn_status_t greet(vn_worker_t *w, vn_error_t *err) {
    json_t *reply;
    VN_TRY(vn_worker_ask(w, hello_request(w), "hello", &reply, err));
    vn_status_t s = take_identity(w, reply, err);
    json_decref(reply);
    return s;
}

/* The process, running and greeted. */
static vn_status_t ensure(vn_worker_t *w, vn_error_t *err) {
    if (w->process) return VN_OK;
    VN_TRY(launch(w, err));
    vn_status_t s = greet(w, err);
    if (s != VN_OK) vn_worker_drop(w);
    return s;
}

vn_status_t vn_worker_start(const vn_spec_t *spec, const vn_worker_options_t *o, vn_worker_t **out, vn_error_t *err) {
    *out = NULL;
    const vn_backend_row_t *row = vn_backend_row(spec->name);
    if (!row) return vn_fail(err, VN_ERR_USAGE, "unknown back end '%s'", spec->name);
    vn_worker_t *w = vn_alloc(1, sizeof *w);
    if (!w) return vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory", spec->name);
    w->spec = *spec;
    w->row = row;
    w->timeout_s = o && o->timeout_s > 0 ? o->timeout_s : default_timeout_s;
    w->memory_bytes = o ? o->memory_bytes : 0;
    const char *threads = vn_spec_option(spec, "threads");
    w->threads = threads ? atoi(threads) : o ? o->threads : 0;
    vn_status_t s = VN_OK;
    if (o && o->cache && !(w->cache = vn_strdup(o->cache))) s = vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory", spec->name);
    vn_segment_prefix(w->prefix);
    vn_segment_sweep(NULL);
    if (s == VN_OK) s = vn_locate(spec, row, &w->place, err);
    if (s == VN_OK) s = ensure(w, err);
    if (s != VN_OK) {
        vn_worker_stop(w);
        return s;
    }
    *out = w;
    return VN_OK;
}

/* ---- asking ---- */

void vn_worker_drop(vn_worker_t *w) {
    if (!w->process) return;
    vn_process_t *p = w->process;
    const int64_t peak = vn_process_peak(p);
    if (peak > w->peak) w->peak = peak;
    w->process = NULL;
    vn_process_free(p);
    vn_shm_close(&w->input); /* the sweep would take its name */
    vn_segment_sweep(w->prefix);
    w->n_sessions = 0;
}

static const struct {
    const char *kind;
    vn_status_t status;
} error_kinds[] = {
    {"unsupported", VN_ERR_UNSUPPORTED}, {"notfound", VN_ERR_NOTFOUND}, {"usage", VN_ERR_USAGE},
    {"memory", VN_ERR_MEMORY_LIMIT},     {"error", VN_ERR_WORKER},
};

/* The worker said "ok": false. */
static vn_status_t refused(vn_worker_t *w, const json_t *reply, const char *what, vn_error_t *err) {
    const json_t *e = json_object_get(reply, "error");
    const char *kind = vn_json_text(e, "kind"), *text = vn_json_text(e, "text");
    if (!kind || !text) return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to %s: an error without kind or text", w->spec.name, what);
    for (size_t i = 0; i < sizeof error_kinds / sizeof *error_kinds; ++i)
        if (strcmp(kind, error_kinds[i].kind) == 0) return vn_fail(err, error_kinds[i].status, "back end %s: %s", w->spec.name, text);
    return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to %s: unknown kind of error '%.40s'", w->spec.name, what, kind);
}

static vn_status_t read_reply(vn_worker_t *w, const char *text, size_t length, int64_t id, const char *what, json_t **out,
                              vn_error_t *err) {
    json_error_t why;
    json_t *reply = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    *out = reply;
    if (!json_is_object(reply))
        return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to %s is not a JSON object: %s: '%.80s'", w->spec.name, what,
                       reply ? "another type" : why.text, text);
    const json_t *got = json_object_get(reply, "id"), *ok = json_object_get(reply, "ok");
    if (!json_is_integer(got) || json_integer_value(got) != id)
        return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to %s has not the id %lld", w->spec.name, what, (long long)id);
    if (!json_is_boolean(ok))
        return vn_fail(err, VN_ERR_PARSE, "back end %s: reply to %s: \"ok\" is not true or false", w->spec.name, what);
    return json_is_true(ok) ? VN_OK : refused(w, reply, what, err);
}

vn_status_t vn_worker_ask(vn_worker_t *w, json_t *rq, const char *what, json_t **reply, vn_error_t *err) {
    *reply = NULL;
    const int64_t id = ++w->next_id;
    char *line = NULL;
    if (rq && json_object_set_new(rq, "id", json_integer(id)) == 0) line = json_dumps(rq, JSON_COMPACT);
    json_decref(rq);
    if (!line) return vn_fail(err, VN_ERR_NOMEM, "back end %s: cannot write the request %s", w->spec.name, what);
    const size_t n = strlen(line);
    line[n] = '\n'; /* in place of the NUL */
    char *text;
    size_t length;
    vn_status_t s = vn_process_ask(w->process, line, n + 1, w->timeout_s, what, &text, &length, err);
    free(line);
    if (s == VN_OK) s = read_reply(w, text, length, id, what, reply, err);
    if (s != VN_OK) {
        json_decref(*reply);
        *reply = NULL;
    }
    /* A refusal in order leaves it as it is. Dead, babbling, or out of memory: nothing that it holds is trusted any more. */
    const bool in_order = s == VN_OK || s == VN_ERR_UNSUPPORTED || s == VN_ERR_NOTFOUND || s == VN_ERR_USAGE || s == VN_ERR_WORKER;
    if (!in_order) vn_worker_drop(w);
    return s;
}

void vn_worker_segment_name(vn_worker_t *w, char out[64]) {
    snprintf(out, 64, "%s-h%lld", w->prefix, (long long)++w->next_segment); /* h: the host's; a worker numbers its own without it */
}

/* ---- sessions ---- */

bool vn_worker_has_session(const vn_worker_t *w, int64_t session) {
    for (int i = 0; i < w->n_sessions; ++i)
        if (w->sessions[i] == session) return true;
    return false;
}

/* A segment that is being filled front to back; what is written may leave our resident memory at once. */
typedef struct filling {
    vn_worker_t *w;
    vn_shm_t shm;
    size_t used, dropped;
} filling_t;

static vn_status_t fill_begin(void *ctx, size_t size, vn_error_t *err) {
    filling_t *f = ctx;
    char name[64];
    vn_worker_segment_name(f->w, name);
    return vn_shm_create(name, size, &f->shm, err);
}

static void fill_append(void *ctx, const void *data, size_t n) {
    enum { STEP = 4 << 20 }; /* a multiple of every page size */
    filling_t *f = ctx;
    while (n) {
        const size_t part = n < STEP ? n : STEP;
        memcpy((char *)f->shm.data + f->used, data, part);
        f->used += part;
        data = (const char *)data + part;
        n -= part;
        const size_t whole = f->used / STEP * STEP;
        if (whole > f->dropped) {
            madvise((char *)f->shm.data + f->dropped, whole - f->dropped, MADV_DONTNEED);
            f->dropped = whole;
        }
    }
}

static vn_status_t room_for_session(vn_worker_t *w, vn_error_t *err) {
    if (w->n_sessions < w->session_room) return VN_OK;
    const int room = w->session_room ? 2 * w->session_room : 16;
    int64_t *more = vn_realloc(w->sessions, (size_t)room, sizeof *more);
    if (!more) return vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory", w->spec.name);
    w->sessions = more;
    w->session_room = room;
    return VN_OK;
}

/* Asks the worker to load what the segment holds; closes the segment. */
static vn_status_t load_segment(vn_worker_t *w, vn_shm_t *shm, size_t size, const char *format, const char *folder, int64_t *session,
                                vn_error_t *err) {
    const int64_t id = ++w->next_session;
    json_t *rq = json_pack("{s:s,s:I,s:s,s:s,s:I}", "cmd", "load", "session", (json_int_t)id, "format", format ? format : "onnx", "shm",
                           shm->name, "size", (json_int_t)size);
    if (rq && folder) json_object_set_new(rq, "folder", json_string(folder));
    json_t *reply;
    vn_status_t s = vn_worker_ask(w, rq, "load", &reply, err);
    vn_shm_close(shm);
    if (s != VN_OK) return s;
    json_decref(reply);
    w->sessions[w->n_sessions++] = id;
    *session = id;
    return VN_OK;
}

vn_status_t vn_worker_load(vn_worker_t *w, const void *model, size_t size, const char *format, const char *folder, int64_t *session,
                           vn_error_t *err) {
    filling_t f = {.w = w};
    *session = 0;
    VN_TRY(ensure(w, err));
    VN_TRY(room_for_session(w, err));
    VN_TRY(fill_begin(&f, size, err));
    fill_append(&f, model, size);
    return load_segment(w, &f.shm, size, format, folder, session, err);
}

vn_status_t vn_worker_load_model(vn_worker_t *w, const struct vn_model *m, const char *folder, int64_t *session, vn_error_t *err) {
    filling_t f = {.w = w};
    *session = 0;
    VN_TRY(ensure(w, err));
    VN_TRY(room_for_session(w, err));
    const vn_status_t s = vn_model_stream(m, fill_begin, fill_append, &f, err);
    if (s != VN_OK) {
        vn_shm_close(&f.shm);
        return s;
    }
    return load_segment(w, &f.shm, f.used, "onnx", folder, session, err);
}

void vn_worker_unload(vn_worker_t *w, int64_t session) {
    if (!w->process || !vn_worker_has_session(w, session)) return;
    json_t *reply;
    for (int i = 0; i < w->n_sessions; ++i)
        if (w->sessions[i] == session) w->sessions[i--] = w->sessions[--w->n_sessions];
    if (vn_worker_ask(w, json_pack("{s:s,s:I}", "cmd", "unload", "session", (json_int_t)session), "unload", &reply, NULL) == VN_OK)
        json_decref(reply);
}

/* ---- the rest ---- */

void vn_worker_stop(vn_worker_t *w) {
    if (!w) return;
    if (w->process) {
        char line[64], *text;
        size_t length;
        const int n = snprintf(line, sizeof line, "{\"id\":%lld,\"cmd\":\"quit\"}\n", (long long)++w->next_id);
        if (vn_process_ask(w->process, line, (size_t)n, stop_grace_s, "quit", &text, &length, NULL) == VN_OK)
            vn_process_wait(w->process, stop_grace_s);
        vn_worker_drop(w);
    }
    vn_shm_close(&w->input);
    vn_free(w->sessions);
    vn_free(w->identity);
    vn_free(w->environment);
    vn_free(w->cache);
    vn_free(w);
}

const char *vn_worker_identity(const vn_worker_t *w) { return w->identity; }
const char *vn_worker_environment(const vn_worker_t *w) { return w->environment; }

int64_t vn_worker_peak_bytes(const vn_worker_t *w) {
    const int64_t now = w->process ? vn_process_peak(w->process) : 0;
    return now > w->peak ? now : w->peak;
}

int vn_worker_restarts(const vn_worker_t *w) { return w->restarts; }
