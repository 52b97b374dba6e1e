#include "support/vn_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_name(const char *s) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a: every test has its own default seed */
    for (; *s; ++s) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

vn_test_t vn_test_begin(const char *name) {
    const char *seed = getenv("VN_SEED"), *scale = getenv("VN_SCALE");
    vn_test_t t = {.name = name, .seed = seed ? strtoull(seed, NULL, 0) : hash_name(name), .scale = scale ? atoi(scale) : 1};
    if (t.scale < 1) t.scale = 1;
    return t;
}

vn_rng_t vn_test_rng(vn_test_t *t) {
    vn_rng_t rng;
    vn_rng_seed(&rng, t->seed);
    return rng;
}

bool vn_test_full(void) {
    const char *full = getenv("VERNIER_FULL");
    return full && *full && strcmp(full, "0") != 0;
}

void vn_test_fail(const vn_test_t *t, const char *file, int line, const char *fmt, ...) {
    char program[512] = "test";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) program[n] = '\0';
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s:%d: %s: ", file, line, t->name);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n    seed 0x%" PRIx64 "; rerun: %sVN_SEED=0x%" PRIx64 " CMOCKA_TEST_FILTER=%s %s\n", t->seed,
            vn_test_full() ? "VERNIER_FULL=1 " : "", t->seed, t->name, program);
    fail();
}

void vn_test_filter(void) {
    const char *pattern = getenv("CMOCKA_TEST_FILTER");
    if (pattern) cmocka_set_test_filter(pattern);
}

static char scratch[64];

static void remove_scratch(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command) != 0) fprintf(stderr, "could not remove %s\n", scratch);
}

const char *vn_test_tmp(void) {
    if (!scratch[0]) {
        snprintf(scratch, sizeof scratch, "/tmp/vernier-test-XXXXXX");
        if (!mkdtemp(scratch)) abort();
        atexit(remove_scratch);
    }
    return scratch;
}
