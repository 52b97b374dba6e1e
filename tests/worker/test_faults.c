/* Every way in which the null worker can misbehave gives exactly one verdict, and the next call finds a fresh process. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/vn_test.h"
#include "worker/models.h"
#include "worker/processes.h"

typedef struct affine_run {
    vn_worker_t *worker;
    int64_t session;
    vn_output_t y;
    vn_error_t err;
} affine_run_t;

static const vn_output_spec_t y_spec = {.name = "y", .dtype = VN_F32, .rank = 2, .dims = {2, 2}};

/* Start, load, run with one spec; returns the first status that is not OK. */
static vn_status_t go(const char *spec_text, double timeout, int64_t memory, affine_run_t *r) {
    static const double x[] = {1, 2, 3, 4, 5, 6};
    memset(r, 0, sizeof *r);
    vn_spec_t spec;
    VN_TRY(vn_spec_parse(spec_text, &spec, &r->err));
    const vn_worker_options_t o = {.timeout_s = timeout, .memory_bytes = memory};
    VN_TRY(vn_worker_start(&spec, &o, &r->worker, &r->err));
    vn_test_model_t m;
    VN_TRY(vn_test_affine(&m, &r->err));
    vn_status_t s = vn_worker_load(r->worker, m.bytes, m.size, "onnx", NULL, &r->session, &r->err);
    vn_free(m.bytes);
    if (s != VN_OK) return s;
    vn_bundle_t in = {0};
    VN_TRY(vn_test_input(&in, "x", 2, (const int64_t[]){2, 3}, x, &r->err));
    s = vn_worker_run(r->worker, r->session, &in, 1, &y_spec, &r->y, NULL, &r->err);
    vn_bundle_free(&in);
    return s;
}

static void finish(affine_run_t *r) {
    vn_output_free(&r->y);
    vn_worker_stop(r->worker);
}

typedef struct fault_case {
    const char *spec;
    vn_status_t status;
    const char *text; /* occurs in the error */
} fault_case_t;

static void check_cases(vn_test_t *t, const fault_case_t *cases, size_t n, double timeout, int64_t memory) {
    for (size_t i = 0; i < n; ++i) {
        affine_run_t r;
        const vn_status_t s = go(cases[i].spec, timeout, memory, &r);
        if (s != cases[i].status || !strstr(r.err.text, cases[i].text))
            vn_test_fail(t, __FILE__, __LINE__, "%s: %s: '%s', expected %s with '%s'", cases[i].spec, vn_status_name(s), r.err.text,
                         vn_status_name(cases[i].status), cases[i].text);
        finish(&r);
    }
}

#define CHECK(t, cases, timeout, memory) check_cases(t, cases, sizeof(cases) / sizeof *(cases), timeout, memory)

VN_TEST(faults, none_gives_zeros) {
    affine_run_t r;
    VN_ASSERT_OK_ERR(t, go("null", 30, 0, &r), r.err);
    VN_ASSERT(t, r.y.value && r.y.value->kind == VN_VALUE_TENSOR);
    for (int i = 0; i < 4; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(r.y.value->tensor, i), 0);
    VN_ASSERT(t, !r.y.guard_broken && r.y.poison_left == 0 && !r.y.worker_allocated);
    VN_ASSERT_STR(t, r.y.form_error, "");
    VN_ASSERT_EQ(t, vn_worker_restarts(r.worker), 0);
    VN_ASSERT(t, vn_worker_peak_bytes(r.worker) > 100000);
    finish(&r);
}

VN_TEST(faults, ends) {
    static const fault_case_t cases[] = {
        {"null,exit=3", VN_ERR_CRASHED,
         "back end null ended with exit status 3 during run; last line of its log: null: leaving with status 3"},
        {"null,exit=0", VN_ERR_CRASHED, "exit status 0 during run"},
        {"null,exit=7,at=load", VN_ERR_CRASHED, "exit status 7 during load"},
        {"null,exit=1,at=hello", VN_ERR_CRASHED, "exit status 1 during hello"},
        {"null,signal=SEGV", VN_ERR_CRASHED,
         "ended by signal SIGSEGV (Segmentation fault) during run; last line of its log: null: raising SIGSEGV"},
        {"null,signal=ABRT,at=load", VN_ERR_CRASHED, "SIGABRT"},
        {"null,signal=KILL", VN_ERR_CRASHED, "out-of-memory killer"},
        {"null,signal=BUS,at=hello", VN_ERR_CRASHED, "SIGBUS"},
    };
    CHECK(t, cases, 30, 0);
}

VN_TEST(faults, silence) {
    static const fault_case_t cases[] = {
        {"null,hang", VN_ERR_TIMEOUT, "back end null did not answer run within 0.1 s"},
        {"null,hang,at=load", VN_ERR_TIMEOUT, "did not answer load"},
        {"null,silent", VN_ERR_TIMEOUT, "did not answer hello"},
        {"null,slow=2000", VN_ERR_TIMEOUT, "did not answer run"},
    };
    CHECK(t, cases, 0.1, 0);
    affine_run_t r;
    VN_ASSERT_OK_ERR(t, go("null,slow=60", 30, 0, &r), r.err); /* slow is not silent */
    finish(&r);
}

VN_TEST(faults, memory) {
    static const fault_case_t cases[] = {
        {"null,hugememory=160", VN_ERR_MEMORY_LIMIT, "during run, the limit is 100 MiB"},
        {"null,hugememory=160,at=load", VN_ERR_MEMORY_LIMIT, "during load, the limit is 100 MiB"},
        {"null,refuse=memory", VN_ERR_MEMORY_LIMIT, "refused as asked"},
    };
    CHECK(t, cases, 30, (int64_t)100 << 20);
    affine_run_t r;
    VN_ASSERT_OK_ERR(t, go("null,hugememory=64", 30, 0, &r), r.err); /* no limit, no verdict */
    VN_ASSERT(t, vn_worker_peak_bytes(r.worker) >= (int64_t)64 << 20);
    finish(&r);
}

VN_TEST(faults, refusals) {
    static const fault_case_t cases[] = {
        {"null,refuse=unsupported,at=load", VN_ERR_UNSUPPORTED, "back end null: refused as asked (unsupported)"},
        {"null,refuse=error,at=load", VN_ERR_WORKER, "refused as asked (error)"},
        {"null,refuse=error", VN_ERR_WORKER, "refused as asked (error)"},
        {"null,refuse=notfound,at=hello", VN_ERR_NOTFOUND, "refused as asked (notfound)"},
    };
    CHECK(t, cases, 30, 0);
}

VN_TEST(faults, garbage) {
    static const fault_case_t cases[] = {
        {"null,garbage=text", VN_ERR_PARSE, "reply to run is not a JSON object"},
        {"null,garbage=text,at=hello", VN_ERR_PARSE, "reply to hello is not a JSON object"},
        {"null,garbage=text,at=load", VN_ERR_PARSE, "reply to load is not a JSON object"},
        {"null,garbage=array", VN_ERR_PARSE, "not a JSON object: another type"},
        {"null,garbage=truncated", VN_ERR_PARSE, "not a JSON object"},
        {"null,garbage=cut", VN_ERR_CRASHED, "exit status 0 during run"},
        {"null,garbage=binary", VN_ERR_PARSE, "not a JSON object"},
        {"null,garbage=deep", VN_ERR_PARSE, "not a JSON object"},
        {"null,garbage=long", VN_ERR_PARSE, "a line of more than 67108864 bytes"},
        {"null,garbage=id", VN_ERR_PARSE, "has not the id 3"},
        {"null,garbage=noid", VN_ERR_PARSE, "has not the id 3"},
        {"null,garbage=noid,at=hello", VN_ERR_PARSE, "has not the id 1"},
        {"null,garbage=twice,at=load", VN_ERR_PARSE, "reply to run has not the id 3"},
        {"null,garbage=ok", VN_ERR_PARSE, "\"ok\" is not true or false"},
        {"null,garbage=error", VN_ERR_PARSE, "unknown kind of error 'weather'"},
        {"null,garbage=kindless", VN_ERR_PARSE, "an error without kind or text"},
        {"null,garbage=outputs", VN_ERR_PARSE, "\"outputs\" is not an array"},
        {"null,garbage=many", VN_ERR_PARSE, "output 'one too many' was not asked for"},
        {"null,garbage=duplicate", VN_ERR_PARSE, "output 'y' comes twice"},
        {"null,garbage=noname", VN_ERR_PARSE, "output 0 has no name"},
        {"null,garbage=kind", VN_ERR_PARSE, "unknown kind 'matrix'"},
        {"null,garbage=hostopen", VN_ERR_PARSE, "\"host\" is not true or false"},
        {"null,garbage=nodtype", VN_ERR_PARSE, "no \"dtype\""},
        {"null,garbage=dtype", VN_ERR_PARSE, "unknown dtype 'float99'"},
        {"null,garbage=dims", VN_ERR_PARSE, "\"dims\"[0] is not an integer >= 0"},
        {"null,garbage=rank", VN_ERR_PARSE, "rank 17 is above 16"},
        {"null,garbage=negative", VN_ERR_PARSE, "\"dims\"[0] is not an integer >= 0"},
        {"null,garbage=overflow", VN_ERR_PARSE, "overflows"},
        {"null,garbage=bytes", VN_ERR_PARSE, "\"bytes\" is 4, dtype and dims need 8"},
        {"null,garbage=offset", VN_ERR_PARSE, "offset 1 is not a multiple of 64"},
        {"null,garbage=foreign", VN_ERR_PARSE, "segment '/somebody-elses' is not one of this worker's"},
        {"null,garbage=seconds", VN_ERR_PARSE, "\"seconds\" is not a number >= 0"},
    };
    CHECK(t, cases, 30, 0);
}

VN_TEST(faults, outputs) {
    affine_run_t r;
    VN_ASSERT_OK_ERR(t, go("null,few", 30, 0, &r), r.err);
    VN_ASSERT(t, !r.y.value);
    finish(&r);
    VN_ASSERT_OK_ERR(t, go("null,misshapen", 30, 0, &r), r.err);
    VN_ASSERT(t, r.y.value && r.y.worker_allocated && !r.y.guard_broken);
    VN_ASSERT_STR(t, r.y.form_error, "f32[2,2] was declared, f32[1,2,2] returned");
    finish(&r);
    VN_ASSERT_OK_ERR(t, go("null,wrongtype", 30, 0, &r), r.err);
    VN_ASSERT_STR(t, r.y.form_error, "f32[2,2] was declared, f64[2,2] returned");
    finish(&r);
    VN_ASSERT_OK_ERR(t, go("null,overrun", 30, 0, &r), r.err);
    VN_ASSERT(t, r.y.guard_broken && r.y.poison_left == 0);
    finish(&r);
    VN_ASSERT_OK_ERR(t, go("null,underrun", 30, 0, &r), r.err);
    VN_ASSERT(t, r.y.guard_broken);
    finish(&r);
    VN_ASSERT_OK_ERR(t, go("null,poison", 30, 0, &r), r.err);
    VN_ASSERT(t, !r.y.guard_broken);
    VN_ASSERT_EQ(t, r.y.poison_left, 4);
    finish(&r);
}

/* After a crash the old session is gone, the next load starts a process, and everything works again. */
VN_TEST(faults, restart) {
    static const double x[] = {0, 0, 0, 0, 0, 0};
    affine_run_t r;
    VN_ASSERT_EQ(t, go("null,exit=1", 30, 0, &r), VN_ERR_CRASHED);
    vn_bundle_t in = {0};
    VN_ASSERT_OK(t, vn_test_input(&in, "x", 2, (const int64_t[]){2, 3}, x, NULL));
    VN_ASSERT_EQ(t, vn_worker_run(r.worker, r.session, &in, 1, &y_spec, &r.y, NULL, &r.err), VN_ERR_NOTFOUND);
    VN_ASSERT_HAS(t, r.err.text, "the process has ended since it was loaded");
    VN_ASSERT_EQ(t, vn_worker_restarts(r.worker), 0);
    vn_test_model_t m;
    int64_t session;
    VN_ASSERT_OK(t, vn_test_affine(&m, NULL));
    VN_ASSERT_OK_ERR(t, vn_worker_load(r.worker, m.bytes, m.size, "onnx", NULL, &session, &r.err), r.err);
    VN_ASSERT_EQ(t, vn_worker_restarts(r.worker), 1);
    VN_ASSERT(t, session > r.session);
    VN_ASSERT_EQ(t, vn_worker_run(r.worker, r.session, &in, 1, &y_spec, &r.y, NULL, &r.err), VN_ERR_NOTFOUND);
    VN_ASSERT_EQ(t, vn_worker_run(r.worker, session, &in, 1, &y_spec, &r.y, NULL, &r.err), VN_ERR_CRASHED);
    vn_free(m.bytes);
    vn_bundle_free(&in);
    finish(&r);
}

/* A host that is killed takes its workers along at once; what it leaves in shared memory goes when the next worker starts. */
VN_TEST(faults, workers_die_with_the_host) {
    int report[2], numbers[2] = {0, 0};
    VN_ASSERT_EQ(t, pipe(report), 0);
    const pid_t host = fork();
    if (host == 0) {
        affine_run_t r;
        numbers[0] = go("null", 30, 0, &r) == VN_OK;
        numbers[1] = vn_test_child();
        _exit(write(report[1], numbers, sizeof numbers) == (ssize_t)sizeof numbers ? pause() : 1);
    }
    VN_ASSERT_EQ(t, read(report[0], numbers, sizeof numbers), (ssize_t)sizeof numbers);
    VN_ASSERT(t, numbers[0] == 1 && numbers[1] > 0);
    char path[64], part[64];
    snprintf(path, sizeof path, "/proc/%d/exe", numbers[1]);
    snprintf(part, sizeof part, "-%x-", (unsigned)host);
    VN_ASSERT(t, vn_test_segments(part) > 0);
    kill(host, SIGKILL);
    VN_ASSERT_EQ(t, waitpid(host, NULL, 0), host);
    char exe[16];
    for (int i = 0; i < 4000 && readlink(path, exe, sizeof exe) > 0; ++i) usleep(500); /* a zombie has no program any more */
    VN_ASSERT(t, readlink(path, exe, sizeof exe) < 0);
    affine_run_t r;
    VN_ASSERT_OK_ERR(t, go("null", 30, 0, &r), r.err);
    VN_ASSERT_EQ(t, vn_test_segments(part), 0);
    finish(&r);
    close(report[0]);
    close(report[1]);
}

/* The n-th allocation of the host fails, for every n until nothing fails any more: an error each time, never an end, nothing lost. */
VN_TEST(faults, allocations_of_the_host) {
    static const double x[] = {1, 2, 3, 4, 5, 6};
    vn_spec_t spec;
    vn_test_model_t m;
    vn_bundle_t in = {0};
    VN_ASSERT_OK(t, vn_spec_parse("null", &spec, NULL));
    VN_ASSERT_OK(t, vn_test_affine(&m, NULL));
    VN_ASSERT_OK(t, vn_test_input(&in, "x", 2, (int64_t[]){2, 3}, x, NULL));
    const vn_worker_options_t o = {.timeout_s = 30, .cache = "/nowhere"};
    vn_status_t s = VN_ERR_NOMEM;
    int64_t n = 0;
    while (s != VN_OK && n < 2000) {
        vn_worker_t *w = NULL;
        vn_output_t y = {0};
        int64_t session = 0;
        vn_error_t err = {0};
        vn_alloc_fail_at(++n);
        s = vn_worker_start(&spec, &o, &w, &err);
        if (s == VN_OK) s = vn_worker_load(w, m.bytes, m.size, "onnx", NULL, &session, &err);
        if (s == VN_OK) s = vn_worker_run(w, session, &in, 1, &y_spec, &y, NULL, &err);
        vn_alloc_fail_at(0);
        VN_ASSERT(t, s == VN_OK || s == VN_ERR_NOMEM);
        VN_ASSERT(t, s == VN_OK || err.text[0]);
        vn_output_free(&y);
        vn_worker_stop(w);
    }
    VN_ASSERT(t, s == VN_OK && n > 10);
    vn_bundle_free(&in);
    vn_free(m.bytes);
}

VN_TEST_MAIN(VN_CASE(faults, workers_die_with_the_host), VN_CASE(faults, allocations_of_the_host), VN_CASE(faults, none_gives_zeros),
             VN_CASE(faults, ends), VN_CASE(faults, silence), VN_CASE(faults, memory), VN_CASE(faults, refusals), VN_CASE(faults, garbage),
             VN_CASE(faults, outputs), VN_CASE(faults, restart))
