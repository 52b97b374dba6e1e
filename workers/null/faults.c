/* faults.c -- every way in which a worker can fail, as an option: crashes, silence, memory, refusals, bad outputs, bad replies.
 *
 * State     one static structure: the operations of a worker have no closure, and a worker is one thread.
 * Raw lines go to a duplicate of descriptor 1 that is taken before the frame takes the original.
 */
#include "faults.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fault fault_t;
struct fault {
    const char *key;
    vn_status_t (*before)(const char *value, vn_run_request_t *rq, vn_error_t *err); /* rq NULL outside run */
    vn_status_t (*after)(const char *value, vn_run_request_t *rq, vn_error_t *err);
    bool skip_work;
};

static struct {
    vn_worker_ops_t inner;
    const fault_t *fault;
    char value[64], at[16];
    int raw_fd;
    long long requests; /* seen so far: the id of the current one, since the host counts from 1 */
} state;

/* ---- ends, silence, memory ---- */

static vn_status_t do_exit(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)rq, (void)err;
    fprintf(stderr, "null: leaving with status %s as asked\n", value);
    _exit(atoi(value));
}

static vn_status_t do_signal(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"SEGV", SIGSEGV}, {"ABRT", SIGABRT}, {"FPE", SIGFPE},  {"BUS", SIGBUS},
                   {"ILL", SIGILL},   {"KILL", SIGKILL}, {"TERM", SIGTERM}};
    (void)rq;
    fprintf(stderr, "null: raising SIG%s as asked\n", value);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
        if (strcmp(signals[i].name, value) == 0) {
            signal(signals[i].number, SIG_DFL); /* a sanitizer's handler would turn it into an exit status */
            raise(signals[i].number);
        }
    return vn_fail(err, VN_ERR_INTERNAL, "signal %s did not end the process", value);
}

static vn_status_t do_hang(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value, (void)rq, (void)err;
    while (true) pause();
    return VN_OK;
}

static vn_status_t do_slow(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)rq, (void)err;
    usleep((useconds_t)(1000 * atoi(value)));
    return VN_OK;
}

/* Grows by 16 MiB at a time, touched, and stays there a moment: the host looks every 50 ms. */
static vn_status_t do_hugememory(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)rq;
    const size_t step = (size_t)16 << 20;
    char *blocks[4096];
    int n = 0;
    for (long left = atol(value); left > 0 && n < 4096; left -= 16, ++n) {
        if (!(blocks[n] = malloc(step))) break;
        memset(blocks[n], 1, step);
    }
    const int got = n;
    usleep(200000);
    while (n > 0) free(blocks[--n]);
    return got < 4096 && (long)got * 16 < atol(value) ? vn_fail(err, VN_ERR_NOMEM, "no memory after %d blocks of 16 MiB", got) : VN_OK;
}

static vn_status_t do_refuse(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    static const struct {
        const char *name;
        vn_status_t status;
    } kinds[] = {{"unsupported", VN_ERR_UNSUPPORTED}, {"error", VN_ERR_WORKER}, {"notfound", VN_ERR_NOTFOUND}, {"memory", VN_ERR_NOMEM}};
    (void)rq;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (strcmp(kinds[i].name, value) == 0) return vn_fail(err, kinds[i].status, "refused as asked (%s)", value);
    return VN_OK;
}

/* ---- bad outputs ---- */

static vn_status_t do_few(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value, (void)err;
    if (!rq || rq->n_outputs == 0) return VN_OK;
    vn_io_t *last = &rq->outputs[rq->n_outputs - 1];
    vn_tensor_free(last->tensor);
    last->tensor = NULL;
    return VN_OK;
}

static vn_status_t do_misshapen(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value;
    for (int i = 0; rq && i < rq->n_outputs; ++i) {
        const vn_tensor_t *t = rq->outputs[i].tensor;
        int64_t dims[VN_MAX_RANK] = {1};
        vn_tensor_t *fresh;
        if (t->rank == VN_MAX_RANK) continue;
        memcpy(dims + 1, t->dims, (size_t)t->rank * sizeof *dims);
        VN_TRY(vn_worker_output(&rq->outputs[i], t->dtype, t->rank + 1, dims, &fresh, err));
    }
    return VN_OK;
}

static vn_status_t do_wrongtype(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value;
    for (int i = 0; rq && i < rq->n_outputs; ++i) {
        const vn_tensor_t t = *rq->outputs[i].tensor;
        vn_tensor_t *fresh;
        VN_TRY(vn_worker_output(&rq->outputs[i], t.dtype == VN_F64 ? VN_F32 : VN_F64, t.rank, t.dims, &fresh, err));
    }
    return VN_OK;
}

static vn_status_t poke(vn_run_request_t *rq, bool before) {
    for (int i = 0; rq && i < rq->n_outputs; ++i) {
        vn_tensor_t *t = rq->outputs[i].tensor;
        size_t bytes;
        if (!t || !vn_dtype_storage(t->dtype, t->count, &bytes)) continue;
        volatile unsigned char *p = t->data;
        if (before) p[-1] ^= 0xFF;
        else p[bytes] ^= 0xFF;
    }
    return VN_OK;
}

static vn_status_t do_overrun(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value, (void)err;
    return poke(rq, false);
}

static vn_status_t do_underrun(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    (void)value, (void)err;
    return poke(rq, true);
}

/* ---- bad replies: %1$lld is the id, %2$s the first output's name ---- */

#define RUN(outputs) "{\"id\":%1$lld,\"ok\":true,\"seconds\":0,\"outputs\":[" outputs "]}\n"
#define TENSOR(fields) RUN("{\"name\":\"%2$s\",\"kind\":\"tensor\"," fields "}")

static const struct {
    const char *name, *line;
    bool go_on; /* the true reply follows */
} garbage[] = {
    {"text", "Segmentation fault (no, just text) %1$lld %2$s\n", false},
    {"array", "[%1$lld,\"%2$s\"]\n", false},
    {"truncated", "{\"id\":%1$lld,\"ok\":tr \"%2$s\"\n", false},
    {"binary", "\x80\xff\xfe{\"id\":%1$lld} %2$s\n", false},
    {"id", "{\"id\":4711,\"ok\":true,\"was\":%1$lld,\"name\":\"%2$s\"}\n", false},
    {"noid", "{\"ok\":true,\"was\":%1$lld,\"name\":\"%2$s\"}\n", false},
    {"ok", "{\"id\":%1$lld,\"ok\":\"yes\",\"name\":\"%2$s\"}\n", false},
    {"error", "{\"id\":%1$lld,\"ok\":false,\"error\":{\"kind\":\"weather\",\"text\":\"%2$s\"}}\n", false},
    {"kindless", "{\"id\":%1$lld,\"ok\":false,\"name\":\"%2$s\"}\n", false},
    {"outputs", "{\"id\":%1$lld,\"ok\":true,\"outputs\":\"%2$s\"}\n", false},
    {"many", RUN("{\"name\":\"%2$s\",\"kind\":\"tensor\",\"host\":true},{\"name\":\"one too many\",\"kind\":\"absent\"}"), false},
    {"duplicate", RUN("{\"name\":\"%2$s\",\"kind\":\"tensor\",\"host\":true},{\"name\":\"%2$s\",\"kind\":\"tensor\",\"host\":true}"),
     false},
    {"noname", RUN("{\"nam\":\"%2$s\"}"), false},
    {"kind", RUN("{\"name\":\"%2$s\",\"kind\":\"matrix\"}"), false},
    {"hostopen", RUN("{\"name\":\"%2$s\",\"kind\":\"tensor\",\"host\":\"yes\"}"), false},
    {"nodtype", TENSOR("\"dims\":[1],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"dtype", TENSOR("\"dtype\":\"float99\",\"dims\":[1],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"dims", TENSOR("\"dtype\":\"f32\",\"dims\":[1.5],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"rank", TENSOR("\"dtype\":\"f32\",\"dims\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"negative", TENSOR("\"dtype\":\"f32\",\"dims\":[-1],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"overflow", TENSOR("\"dtype\":\"f32\",\"dims\":[4294967296,4294967296],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"bytes", TENSOR("\"dtype\":\"f32\",\"dims\":[2],\"shm\":\"/x\",\"offset\":0,\"bytes\":4"), false},
    {"offset", TENSOR("\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/x\",\"offset\":1,\"bytes\":4"), false},
    {"foreign", TENSOR("\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/somebody-elses\",\"offset\":0,\"bytes\":4"), false},
    {"seconds", "{\"id\":%1$lld,\"ok\":true,\"seconds\":-1,\"outputs\":[{\"name\":\"%2$s\",\"kind\":\"tensor\",\"host\":true}]}\n", false},
    {"twice", "{\"id\":%1$lld,\"ok\":true,\"comment\":\"%2$s\"}\n", true},
    {"cut", "{\"id\":%1$lld,\"ok\":true,\"%2$s", false},
};

static void say(const char *text, size_t n) {
    while (n > 0) {
        const ssize_t k = write(state.raw_fd, text, n);
        if (k <= 0) _exit(1); /* the host has had enough */
        text += k;
        n -= (size_t)k;
    }
}

/* `times` copies of a piece, then a line feed. */
static void say_much(const char *piece, size_t times) {
    char block[65536];
    const size_t n = strlen(piece), per = sizeof block / n;
    for (size_t i = 0; i < per; ++i) memcpy(block + i * n, piece, n);
    for (size_t done = 0; done < times; done += per) say(block, (times - done < per ? times - done : per) * n);
    say("\n", 1);
}

static vn_status_t do_garbage(const char *value, vn_run_request_t *rq, vn_error_t *err) {
    if (strcmp(value, "deep") == 0) say_much("[", 1000000);
    if (strcmp(value, "long") == 0) say_much("0123456789abcdef", (size_t)VN_MAX_LINE / 16 + 65536);
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; ++i) {
        if (strcmp(garbage[i].name, value) != 0) continue;
        char line[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        const int n = snprintf(line, sizeof line, garbage[i].line, state.requests, rq && rq->n_outputs ? rq->outputs[0].name : "y");
#pragma GCC diagnostic pop
        say(line, (size_t)n);
        if (garbage[i].go_on) return VN_OK;
        if (strcmp(value, "cut") == 0) _exit(0);
    }
    return do_hang(value, rq, err);
}

/* ---- the layer ---- */

static const fault_t faults[] = {
    {"exit", do_exit, NULL, false},
    {"signal", do_signal, NULL, false},
    {"hang", do_hang, NULL, false},
    {"silent", do_hang, NULL, false},
    {"slow", do_slow, NULL, false},
    {"hugememory", do_hugememory, NULL, false},
    {"refuse", do_refuse, NULL, false},
    {"garbage", do_garbage, NULL, false},
    {"few", NULL, do_few, false},
    {"misshapen", NULL, do_misshapen, false},
    {"wrongtype", NULL, do_wrongtype, false},
    {"overrun", NULL, do_overrun, false},
    {"underrun", NULL, do_underrun, false},
    {"poison", NULL, NULL, true},
};

static bool due(const char *at) {
    ++state.requests;
    return state.fault && strcmp(state.at, at) == 0;
}

/* True if the argument is a fault's; it is remembered and must not reach the worker. */
static bool take_option(const char *arg) {
    const char *eq = strchr(arg, '=');
    if (!eq) return false;
    const size_t k = (size_t)(eq - arg);
    if (strncmp(arg, "at=", 3) == 0) {
        snprintf(state.at, sizeof state.at, "%s", eq + 1);
        return true;
    }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i)
        if (strlen(faults[i].key) == k && strncmp(arg, faults[i].key, k) == 0) {
            state.fault = &faults[i];
            snprintf(state.value, sizeof state.value, "%s", eq + 1);
            if (strcmp(faults[i].key, "silent") == 0) strcpy(state.at, "hello");
            return true;
        }
    return false;
}

static vn_status_t wrapped_start(int argc, char **argv, void **self, vn_error_t *err) {
    char *rest[64];
    int n = 0;
    for (int i = 0; i < argc && n < 64; ++i)
        if (!take_option(argv[i])) rest[n++] = argv[i];
    if (due("hello") && state.fault->before) VN_TRY(state.fault->before(state.value, NULL, err));
    return state.inner.start(n, rest, self, err);
}

static vn_status_t wrapped_load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    if (due("load") && state.fault->before) VN_TRY(state.fault->before(state.value, NULL, err));
    return state.inner.load(self, rq, out, err);
}

static vn_status_t wrapped_run(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    const fault_t *f = due("run") ? state.fault : NULL;
    if (f && f->before) VN_TRY(f->before(state.value, rq, err));
    if (!f || !f->skip_work) VN_TRY(state.inner.run(self, s, rq, err));
    return f && f->after ? f->after(state.value, rq, err) : VN_OK;
}

static void wrapped_unload(void *self, vn_worker_session_t *s) {
    ++state.requests;
    state.inner.unload(self, s);
}

void null_faults_wrap(vn_worker_ops_t *ops) {
    state.inner = *ops;
    state.raw_fd = dup(STDOUT_FILENO);
    strcpy(state.at, "run");
    ops->start = wrapped_start;
    ops->load = wrapped_load;
    ops->run = wrapped_run;
    ops->unload = wrapped_unload;
}
