/* library.h -- one CBLAS, loaded by name or path: its products, its own words about itself. */
#ifndef VN_BLAS_LIBRARY_H
#define VN_BLAS_LIBRARY_H

#include "vernier/base.h"

/* Values of the C interface to the BLAS; int is 32 bits (LP64). */
enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };

typedef struct blas_library {
    void *handle;
    char path[4096];
    char name[16];    /* openblas, blis, mkl, netlib, or "other" */
    char version[64]; /* "" where it does not tell */
    char core[64];    /* kernel set that it chose for this processor, or "" */
    char build[512];  /* its own text about its build, or "" */
    int threads;
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
    void (*sgemv)(int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    void (*dgemv)(int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
} blas_library_t;

/**
 * what: openblas, blis, mkl, netlib, or a path (it has a slash). threads 0: the library's own default.
 * Errors     NOTFOUND (the command that brings it), USAGE (another name; threads of a library that cannot be told),
 *            UNSUPPORTED (64-bit integers only).
 */
vn_status_t blas_open(const char *what, int threads, blas_library_t *out, vn_error_t *err);

#endif
