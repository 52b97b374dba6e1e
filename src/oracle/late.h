/* late.h -- a shared library that is opened at first use, so that the program starts without it and says which package is missing. */
#ifndef VN_ORACLE_LATE_H
#define VN_ORACLE_LATE_H

#include <pthread.h>

#include "vernier/base.h"

typedef struct vn_late_symbol {
    const char *name;
    void *place; /* of the function pointer */
} vn_late_symbol_t;

/** One static object a library; everything but the last two members is constant. */
typedef struct vn_late {
    const char *what, *package;
    const char *files[4]; /* names to try, NULL ends the list */
    const vn_late_symbol_t *symbols;
    int n_symbols;
    pthread_mutex_t lock; /* PTHREAD_MUTEX_INITIALIZER */
    enum { VN_LATE_UNTRIED, VN_LATE_THERE, VN_LATE_ABSENT } state;
} vn_late_t;

#define VN_LATE_SYMBOL(table, field, symbol) \
    { #symbol, &(table).field }

/**
 * Opens the library and fills its function pointers; afterwards only looks up what came of it. It stays open for the life of the process.
 * Errors     UNSUPPORTED names library and package.
 * Threads    any.
 */
vn_status_t vn_late_open(vn_late_t *lib, vn_error_t *err);

#endif
