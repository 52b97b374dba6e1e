/* worker_main.c -- the frame of a C worker: reads requests, keeps sessions, moves tensors, writes replies. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/codec.h"

typedef struct open_session {
    int64_t id;
    vn_worker_session_t *session;
} open_session_t;

typedef struct frame {
    const vn_worker_ops_t *ops;
    int argc;
    char **argv; /* of the process, without its name: options for a run by hand */
    int reply_fd;
    bool started, quit;
    void *self;
    char prefix[40]; /* of segments that this worker makes */
    int64_t segments;
    open_session_t *sessions;
    int n_sessions, capacity;
} frame_t;

static const struct {
    vn_status_t status;
    const char *kind;
} error_kinds[] = {
    {VN_ERR_UNSUPPORTED, "unsupported"},
    {VN_ERR_NOTFOUND, "notfound"},
    {VN_ERR_USAGE, "usage"},
    {VN_ERR_NOMEM, "memory"},
};

static const char *kind_of(vn_status_t s) {
    for (size_t i = 0; i < sizeof error_kinds / sizeof *error_kinds; ++i)
        if (error_kinds[i].status == s) return error_kinds[i].kind;
    return "error";
}

static open_session_t *find_session(frame_t *f, int64_t id) {
    for (int i = 0; i < f->n_sessions; ++i)
        if (f->sessions[i].id == id) return &f->sessions[i];
    return NULL;
}

/* ---- hello ---- */

static char *option_text(const char *key, const char *value) {
    vn_text_t t = {0};
    vn_text_printf(&t, "%s=%s", key, value);
    if (t.failed) vn_text_free(&t);
    return t.data;
}

/* Options as start() sees them: those of the command line, device, environment, threads, cache, the rest. */
static vn_status_t build_options(frame_t *f, json_t *rq, char ***out, int *count, vn_error_t *err) {
    json_t *options = json_object_get(rq, "options");
    const size_t room = (size_t)f->argc + json_object_size(options) + 4;
    char **argv = vn_alloc(room, sizeof *argv);
    if (!argv) return vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
    int n = 0;
    bool good = true;
    for (int i = 0; i < f->argc; ++i) good &= (argv[n++] = vn_strdup(f->argv[i])) != NULL;
    static const char *const fields[] = {"device", "environment", "cache"};
    for (int i = 0; i < 3; ++i) {
        const char *v = vn_json_text(rq, fields[i]);
        if (v && *v) good &= (argv[n++] = option_text(fields[i], v)) != NULL;
    }
    int64_t threads;
    char number[24];
    if (vn_json_count(rq, "threads", &threads) && threads > 0) {
        snprintf(number, sizeof number, "%lld", (long long)threads);
        good &= (argv[n++] = option_text("threads", number)) != NULL;
    }
    const char *key;
    json_t *value;
    json_object_foreach(options, key, value) {
        const char *v = json_string_value(value);
        good &= (argv[n++] = option_text(key, v ? v : "")) != NULL;
    }
    *out = argv;
    *count = n;
    return good ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
}

/* What this frame can do; a worker's own "capabilities" object wins. */
static vn_status_t add_identity(frame_t *f, json_t *reply, vn_error_t *err) {
    vn_text_t text = {0};
    vn_status_t s = f->ops->identity(f->self, &text, err);
    json_error_t why;
    json_t *identity = s == VN_OK && text.data ? json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &why) : NULL;
    vn_text_free(&text);
    if (s != VN_OK) return s;
    if (!json_is_object(identity)) {
        json_decref(identity);
        return vn_fail(err, VN_ERR_INTERNAL, "identity is not a JSON object: %s", why.text);
    }
    json_t *can = json_pack("{s:[s],s:b,s:b,s:b,s:b}", "formats", "onnx", "graph", 1, "sequences", 0, "vjp", 0, "strings", 1);
    json_object_update(can, json_object_get(identity, "capabilities"));
    json_object_set_new(identity, "capabilities", can);
    json_object_set_new(reply, "identity", identity);
    return VN_OK;
}

static vn_status_t do_hello(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    if (f->started) return vn_fail(err, VN_ERR_USAGE, "hello: already said");
    int64_t version;
    const char *prefix = vn_json_text(rq, "shm_prefix");
    if (!vn_json_count(rq, "protocol", &version) || version != VN_PROTOCOL_VERSION)
        return vn_fail(err, VN_ERR_USAGE, "hello: this worker speaks protocol version %d only", VN_PROTOCOL_VERSION);
    if (!prefix || prefix[0] != '/' || strlen(prefix) >= sizeof f->prefix)
        return vn_fail(err, VN_ERR_USAGE, "hello: \"shm_prefix\" is not a segment name of at most %zu characters", sizeof f->prefix - 1);
    strcpy(f->prefix, prefix);
    char **argv = NULL;
    int argc = 0;
    vn_status_t s = build_options(f, rq, &argv, &argc, err);
    if (s == VN_OK) s = f->ops->start(argc, argv, &f->self, err);
    for (int i = 0; i < argc; ++i) vn_free(argv[i]);
    vn_free(argv);
    if (s != VN_OK) return s;
    f->started = true;
    json_object_set_new(reply, "protocol", json_integer(VN_PROTOCOL_VERSION));
    json_object_set_new(reply, "worker", json_string(f->ops->name));
    return add_identity(f, reply, err);
}

/* ---- load, unload, quit ---- */

static vn_status_t do_load(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    (void)reply;
    int64_t id, size;
    if (!vn_json_count(rq, "session", &id) || !vn_json_count(rq, "size", &size))
        return vn_fail(err, VN_ERR_USAGE, "load: \"session\" or \"size\" is missing");
    if (find_session(f, id)) return vn_fail(err, VN_ERR_USAGE, "load: session %lld is open", (long long)id);
    if (f->n_sessions == f->capacity) {
        const int room = f->capacity ? 2 * f->capacity : 8;
        open_session_t *more = vn_realloc(f->sessions, (size_t)room, sizeof *more);
        if (!more) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
        f->sessions = more;
        f->capacity = room;
    }
    vn_shm_t shm;
    VN_TRY(vn_shm_attach(vn_json_text(rq, "shm"), (size_t)size, false, &shm, err));
    vn_load_request_t load = {
        .format = vn_json_text(rq, "format"), .bytes = shm.data, .size = (size_t)size, .folder = vn_json_text(rq, "folder")};
    if (!load.format) load.format = "onnx";
    vn_worker_session_t *session = NULL;
    vn_status_t s = f->ops->load(f->self, &load, &session, err);
    vn_shm_close(&shm);
    if (s == VN_OK) f->sessions[f->n_sessions++] = (open_session_t){id, session};
    return s;
}

static vn_status_t do_unload(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    (void)reply;
    int64_t id = -1;
    open_session_t *s = vn_json_count(rq, "session", &id) ? find_session(f, id) : NULL;
    if (!s) return vn_fail(err, VN_ERR_NOTFOUND, "unload: no session %lld", (long long)id);
    f->ops->unload(f->self, s->session);
    *s = f->sessions[--f->n_sessions];
    return VN_OK;
}

static vn_status_t do_quit(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    (void)rq, (void)reply, (void)err;
    f->quit = true;
    return VN_OK;
}

/* ---- run ---- */

enum { MAX_ATTACHED = 64 };

typedef struct run {
    vn_run_request_t rq;
    vn_tensor_t **host; /* host-allocated outputs, NULL for open ones */
    vn_shm_t attached[MAX_ATTACHED];
    bool writable[MAX_ATTACHED]; /* inputs are mapped read-only: a back end that writes to them ends with a signal */
    int n_attached;
} run_t;

static vn_status_t locate(run_t *r, const vn_desc_t *d, bool writable, const char *what, void **data, vn_error_t *err) {
    vn_shm_t *shm = NULL;
    for (int i = 0; i < r->n_attached && !shm; ++i)
        if (r->writable[i] == writable && strcmp(r->attached[i].name, d->shm) == 0) shm = &r->attached[i];
    if (!shm) {
        if (r->n_attached == MAX_ATTACHED) return vn_fail(err, VN_ERR_USAGE, "run: more than %d segments", MAX_ATTACHED);
        VN_TRY(vn_shm_attach(d->shm, 0, writable, &r->attached[r->n_attached], err));
        r->writable[r->n_attached] = writable;
        shm = &r->attached[r->n_attached++];
    }
    if (d->offset > shm->size || d->bytes > shm->size - d->offset)
        return vn_fail(err, VN_ERR_PARSE, "%s: runs past the end of %s", what, d->shm);
    *data = (unsigned char *)shm->data + d->offset;
    return VN_OK;
}

static vn_status_t read_io(run_t *r, json_t *o, bool output, vn_io_t *io, vn_error_t *err) {
    const char *name = vn_json_text(o, "name"), *kind = vn_json_text(o, "kind");
    char what[160];
    snprintf(what, sizeof what, "%s '%.100s'", output ? "output" : "input", name ? name : "?");
    if (!name) return vn_fail(err, VN_ERR_USAGE, "%s: no \"name\"", what);
    if (!(io->name = vn_strdup(name))) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", what);
    io->rank = -1;
    if (kind && strcmp(kind, "absent") == 0) return VN_OK;
    if (kind && strcmp(kind, "tensor") != 0)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: this worker takes tensors only, not a %s", what, kind);
    if (output && !json_object_get(o, "shm")) return VN_OK;
    vn_desc_t d;
    VN_TRY(vn_desc_read(o, what, &d, err));
    io->dtype = d.dtype;
    io->rank = d.rank;
    memcpy(io->dims, d.dims, sizeof d.dims);
    void *data = NULL;
    VN_TRY(locate(r, &d, output, what, &data, err));
    if (d.dtype == VN_STRING) return vn_packed_strings(&d, data, what, &io->tensor, err);
    return vn_tensor_wrap(d.dtype, d.rank, d.dims, data, d.bytes, NULL, NULL, &io->tensor, err);
}

static vn_status_t read_run(run_t *r, json_t *rq, vn_error_t *err) {
    json_t *in = json_object_get(rq, "inputs"), *out = json_object_get(rq, "outputs");
    if (!json_is_array(in) || !json_is_array(out)) return vn_fail(err, VN_ERR_USAGE, "run: \"inputs\" or \"outputs\" is not an array");
    r->rq.inputs = vn_alloc(json_array_size(in), sizeof(vn_io_t));
    r->rq.outputs = vn_alloc(json_array_size(out), sizeof(vn_io_t));
    r->host = vn_alloc(json_array_size(out), sizeof *r->host);
    if (!r->rq.inputs || !r->rq.outputs || !r->host) return vn_fail(err, VN_ERR_NOMEM, "run: out of memory");
    r->rq.n_inputs = (int)json_array_size(in);
    r->rq.n_outputs = (int)json_array_size(out);
    for (int i = 0; i < r->rq.n_inputs; ++i) VN_TRY(read_io(r, json_array_get(in, (size_t)i), false, &r->rq.inputs[i], err));
    for (int i = 0; i < r->rq.n_outputs; ++i) {
        VN_TRY(read_io(r, json_array_get(out, (size_t)i), true, &r->rq.outputs[i], err));
        if (r->rq.outputs[i].tensor) r->host[i] = vn_tensor_retain(r->rq.outputs[i].tensor);
    }
    return VN_OK;
}

vn_status_t vn_worker_output(vn_io_t *io, vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (io->tensor && io->tensor->dtype == t && io->tensor->rank == rank &&
        (rank == 0 || memcmp(io->tensor->dims, dims, (size_t)rank * sizeof *dims) == 0)) {
        *out = io->tensor;
        return VN_OK;
    }
    vn_tensor_t *fresh;
    VN_TRY(vn_tensor_new(t, rank, dims, &fresh, err));
    vn_tensor_free(io->tensor);
    *out = io->tensor = fresh;
    return VN_OK;
}

/* Moves every output that is not in host memory into one new segment and describes it in `outputs`. */
static vn_status_t write_outputs(frame_t *f, run_t *r, json_t *outputs, vn_error_t *err) {
    size_t total = 0;
    for (int i = 0; i < r->rq.n_outputs; ++i) {
        const vn_tensor_t *t = r->rq.outputs[i].tensor;
        size_t bytes;
        if (!t || t == r->host[i]) continue;
        VN_TRY(vn_packed_size(t, &bytes, err));
        if (!vn_size_add(total, bytes, &total) || !vn_size_add(total, VN_OFFSET_ALIGN - 1, &total))
            return vn_fail(err, VN_ERR_RANGE, "outputs are too large");
        total &= ~(size_t)(VN_OFFSET_ALIGN - 1);
    }
    vn_shm_t shm = {0};
    char name[64];
    snprintf(name, sizeof name, "%s-%lld", f->prefix, (long long)++f->segments);
    vn_status_t s = VN_OK;
    size_t at = 0;
    for (int i = 0; i < r->rq.n_outputs && s == VN_OK; ++i) {
        const vn_tensor_t *t = r->rq.outputs[i].tensor;
        if (!t) continue;
        json_t *o = json_pack("{s:s,s:s}", "name", r->rq.outputs[i].name, "kind", "tensor");
        json_array_append_new(outputs, o);
        if (t == r->host[i]) {
            json_object_set_new(o, "host", json_true());
            continue;
        }
        vn_desc_t d = {.dtype = t->dtype, .rank = t->rank, .offset = at};
        memcpy(d.dims, t->dims, sizeof d.dims);
        strcpy(d.shm, name);
        if (!shm.data) s = vn_shm_create(name, total, &shm, err);
        if (s == VN_OK) s = vn_packed_size(t, &d.bytes, err);
        if (s == VN_OK) s = vn_packed_put(t, (unsigned char *)shm.data + at, err);
        if (s == VN_OK && !vn_desc_put(o, &d)) s = vn_fail(err, VN_ERR_NOMEM, "reply: out of memory");
        at = (at + d.bytes + VN_OFFSET_ALIGN - 1) & ~(size_t)(VN_OFFSET_ALIGN - 1);
    }
    if (s == VN_OK) shm.owner = false; /* the host unlinks it */
    vn_shm_close(&shm);
    return s;
}

static void free_ios(vn_io_t *io, int n) {
    for (int i = 0; i < n; ++i) {
        vn_tensor_free(io[i].tensor);
        vn_free(io[i].name);
    }
    vn_free(io);
}

static vn_status_t do_run(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    int64_t id = -1;
    open_session_t *session = vn_json_count(rq, "session", &id) ? find_session(f, id) : NULL;
    if (!session) return vn_fail(err, VN_ERR_NOTFOUND, "run: no session %lld", (long long)id);
    run_t r = {0};
    vn_status_t s = read_run(&r, rq, err);
    if (s == VN_OK) {
        const double begin = vn_now();
        s = f->ops->run(f->self, session->session, &r.rq, err);
        json_object_set_new(reply, "seconds", json_real(vn_now() - begin));
    }
    if (s == VN_OK) {
        json_t *outputs = json_array();
        json_object_set_new(reply, "outputs", outputs);
        s = write_outputs(f, &r, outputs, err);
    }
    for (int i = 0; r.host && i < r.rq.n_outputs; ++i) vn_tensor_free(r.host[i]);
    vn_free(r.host);
    free_ios(r.rq.inputs, r.rq.n_inputs);
    free_ios(r.rq.outputs, r.rq.n_outputs);
    for (int i = 0; i < r.n_attached; ++i) vn_shm_close(&r.attached[i]);
    return s;
}

/* ---- the loop ---- */

static const struct {
    const char *name;
    vn_status_t (*act)(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err);
    bool needs_start;
} commands[] = {
    {"hello", do_hello, false}, {"load", do_load, true}, {"run", do_run, true}, {"unload", do_unload, true}, {"quit", do_quit, false},
};

static vn_status_t act(frame_t *f, json_t *rq, json_t *reply, vn_error_t *err) {
    const char *cmd = vn_json_text(rq, "cmd");
    for (size_t i = 0; cmd && i < sizeof commands / sizeof *commands; ++i) {
        if (strcmp(commands[i].name, cmd) != 0) continue;
        if (commands[i].needs_start && !f->started) return vn_fail(err, VN_ERR_USAGE, "%s: say hello first", cmd);
        return commands[i].act(f, rq, reply, err);
    }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "unknown command '%.40s'", cmd ? cmd : "");
}

/* False when the host is gone. */
static bool answer(frame_t *f, const char *line, size_t length) {
    vn_error_t err = {0};
    json_error_t why;
    json_t *rq = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why), *reply = json_object();
    vn_status_t s =
        json_is_object(rq) ? act(f, rq, reply, &err) : vn_fail(&err, VN_ERR_USAGE, "request is not a JSON object: %s", why.text);
    if (s != VN_OK) { /* nothing of a half-made reply may stay */
        json_object_clear(reply);
        if (json_object_set_new(reply, "error", json_pack("{s:s,s:s}", "kind", kind_of(s), "text", err.text)) != 0)
            json_object_set_new(reply, "error", json_pack("{s:s,s:s}", "kind", kind_of(s), "text", vn_status_name(s)));
    }
    json_object_set_new(reply, "ok", json_boolean(s == VN_OK));
    json_t *id = json_object_get(rq, "id");
    if (id) json_object_set(reply, "id", id);
    char *text = json_dumps(reply, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;
    bool sent = false;
    if (text) {
        text[n] = '\n'; /* in place of the NUL: one write, one line */
        sent = vn_write_all(f->reply_fd, text, n + 1);
    }
    free(text);
    json_decref(reply);
    json_decref(rq);
    return sent;
}

int vn_worker_main(int argc, char **argv, const vn_worker_ops_t *ops) {
    frame_t f = {.ops = ops, .argc = argc > 1 ? argc - 1 : 0, .argv = argv + 1};
    f.reply_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (f.reply_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2; /* libraries print: never into the replies */
    signal(SIGPIPE, SIG_IGN);
    vn_lines_t lines = {0};
    bool alive = true;
    while (alive && !f.quit) {
        size_t length;
        char *line = vn_lines_take(&lines, &length);
        if (line) {
            alive = answer(&f, line, length);
            continue;
        }
        long n = vn_lines_fill(&lines, STDIN_FILENO);
        alive = n > 0 || (n < 0 && errno == EINTR && !lines.too_long && !lines.failed);
    }
    for (int i = 0; i < f.n_sessions; ++i) ops->unload(f.self, f.sessions[i].session);
    if (f.started && ops->stop) ops->stop(f.self);
    vn_free(f.sessions);
    vn_lines_free(&lines);
    close(f.reply_fd);
    return 0;
}
