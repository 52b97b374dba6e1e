/* memory.c -- checked sizes, the allocation functions with their fault switch, arenas. */
#include "vernier/base.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vn_size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool vn_size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
bool vn_i64_mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool vn_i64_add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

static atomic_llong fail_at; /* 0 = off */

void vn_alloc_fail_at(int64_t n) { atomic_store(&fail_at, n); }

static bool must_fail(void) {
    if (atomic_load_explicit(&fail_at, memory_order_relaxed) == 0) return false;
    return atomic_fetch_sub(&fail_at, 1) == 1;
}

void *vn_alloc(size_t count, size_t size) {
    if (must_fail()) return NULL;
    size_t total;
    if (!vn_size_mul(count, size, &total) || total > PTRDIFF_MAX) return NULL;
    return calloc(total ? total : 1, 1);
}

void *vn_realloc(void *old, size_t count, size_t size) {
    if (must_fail()) return NULL;
    size_t total;
    if (!vn_size_mul(count, size, &total) || total > PTRDIFF_MAX) return NULL;
    return realloc(old, total ? total : 1);
}

void vn_free(void *p) { free(p); }

char *vn_strndup(const char *s, size_t n) {
    size_t room;
    if (!vn_size_add(n, 1, &room)) return NULL;
    char *copy = vn_alloc(room, 1);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *vn_strdup(const char *s) { return vn_strndup(s, strlen(s)); }

/* ---- arena ---- */

typedef struct block {
    struct block *next;
    size_t used, size;
    alignas(16) unsigned char data[];
} block_t;

struct vn_arena {
    block_t *blocks;
};

enum { BLOCK_BYTES = 1 << 14 };

vn_arena_t *vn_arena_new(void) { return vn_alloc(1, sizeof(vn_arena_t)); }

void vn_arena_free(vn_arena_t *arena) {
    if (!arena) return;
    for (block_t *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        vn_free(b);
    }
    vn_free(arena);
}

void *vn_arena_alloc(vn_arena_t *arena, size_t count, size_t size) {
    size_t n;
    if (!vn_size_mul(count, size, &n) || n > PTRDIFF_MAX - 64) return NULL;
    n = (n + 15) & ~(size_t)15;
    if (n == 0) n = 16;
    block_t *b = arena->blocks;
    if (!b || b->size - b->used < n) {
        size_t room = n > BLOCK_BYTES / 4 ? n : BLOCK_BYTES;
        block_t *fresh = vn_alloc(1, sizeof *fresh + room);
        if (!fresh) return NULL;
        fresh->size = room;
        if (b && room == n) { /* a large block of its own: the current one stays open */
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            arena->blocks = fresh;
        }
        b = fresh;
    }
    void *p = b->data + b->used;
    b->used += n;
    return p;
}

char *vn_arena_strndup(vn_arena_t *arena, const char *s, size_t n) {
    size_t room;
    if (!vn_size_add(n, 1, &room)) return NULL;
    char *copy = vn_arena_alloc(arena, room, 1);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *vn_arena_strdup(vn_arena_t *arena, const char *s) { return vn_arena_strndup(arena, s, strlen(s)); }

char *vn_arena_printf(vn_arena_t *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *out = n < 0 ? NULL : vn_arena_alloc(arena, (size_t)n + 1, 1);
    if (out) vsnprintf(out, (size_t)n + 1, fmt, again);
    va_end(again);
    return out;
}
