/* corrupt.h -- files cut at every byte and flipped at random: a reader must answer with an error or a value, never with a crash or a leak. */
#ifndef VN_TESTS_CORRUPT_H
#define VN_TESTS_CORRUPT_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/vn_test.h"

/** A reader under test: bytes in, everything it made released. */
typedef vn_status_t (*corrupt_reader)(const unsigned char *data, size_t size, vn_error_t *err);

/** Every proper prefix must be refused with a text. The block is allocated to size, so that ASan sees any read behind it. */
static inline void corrupt_truncate(vn_test_t *t, corrupt_reader read, const unsigned char *data, size_t size, size_t step) {
    for (size_t n = 0; n < size; n += step) {
        unsigned char *copy = vn_alloc(n, 1);
        vn_error_t err = {0};
        memcpy(copy, data, n);
        if (read(copy, n, &err) == VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%zu of %zu bytes were accepted", n, size);
        if (!err.text[0]) vn_test_fail(t, __FILE__, __LINE__, "%zu of %zu bytes: no error text", n, size);
        vn_free(copy);
    }
}

/** Random bytes in random places; whatever comes out is fine, if it comes back. */
static inline void corrupt_flip(vn_test_t *t, corrupt_reader read, const unsigned char *data, size_t size, int trials) {
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < trials * vn_test_scale(t); ++k) {
        unsigned char *copy = vn_alloc(size, 1);
        vn_error_t err = {0};
        memcpy(copy, data, size);
        for (uint64_t n = 1 + vn_rng_below(&rng, 4); n > 0; --n) copy[vn_rng_below(&rng, size)] = (unsigned char)vn_rng_u64(&rng);
        if (read(copy, size, &err) != VN_OK && !err.text[0]) vn_test_fail(t, __FILE__, __LINE__, "no error text");
        vn_free(copy);
    }
}

/** Fails allocation 1, 2, 3 ... until the reader succeeds; returns how often it failed. */
static inline int corrupt_allocations(vn_test_t *t, corrupt_reader read, const unsigned char *data, size_t size) {
    for (int n = 1;; ++n) {
        vn_error_t err = {0};
        vn_alloc_fail_at(n);
        const vn_status_t s = read(data, size, &err);
        vn_alloc_fail_at(0);
        if (s == VN_OK) return n - 1;
        if (s != VN_ERR_NOMEM) vn_test_fail(t, __FILE__, __LINE__, "allocation %d: %s: %s", n, vn_status_name(s), err.text);
    }
}

/** The bytes as a file that never touches a disk, for loops; one at a time. */
static inline const char *corrupt_memory(const void *data, size_t size) {
    static char path[64];
    static int fd = -1;
    if (fd < 0) fd = memfd_create("corrupt", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size ? path : "/nonexistent";
}

/** The bytes as a file of this name in the scratch folder. */
static inline const char *corrupt_file(const char *name, const void *data, size_t size) {
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", vn_test_tmp(), name);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(data, 1, size, f);
        fclose(f);
    }
    return path;
}

#endif
