/* vernier/base.h -- what every room stands on: status, checked sizes, memory, text, hashes, threads, random numbers. */
#ifndef VERNIER_BASE_H
#define VERNIER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VN_API __attribute__((visibility("default")))
#define VN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define VN_NODISCARD __attribute__((warn_unused_result))
#else
#define VN_API
#define VN_PRINTF(f, a)
#define VN_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Result of every function that can fail. Stored in evidence: append, never renumber. */
typedef enum vn_status {
    VN_OK = 0,
    VN_ERR_NOMEM = 1,         /* an allocation failed */
    VN_ERR_USAGE = 2,         /* the caller's argument or option is wrong */
    VN_ERR_IO = 3,            /* open, read, write, map */
    VN_ERR_PARSE = 4,         /* a file or message breaks its format */
    VN_ERR_SHAPE = 5,         /* ranks or dimensions do not fit */
    VN_ERR_DTYPE = 6,         /* element type not allowed here */
    VN_ERR_RANGE = 7,         /* a number outside its domain, an overflowing size */
    VN_ERR_UNSUPPORTED = 8,   /* known, named, and not done here */
    VN_ERR_NOTFOUND = 9,      /* a name that is not there */
    VN_ERR_WORKER = 10,       /* a worker answered with an error */
    VN_ERR_CRASHED = 11,      /* a worker ended without an answer */
    VN_ERR_TIMEOUT = 12,      /* a worker did not answer in time */
    VN_ERR_MEMORY_LIMIT = 13, /* a worker grew past its memory limit */
    VN_ERR_INTERNAL = 14,     /* an invariant of ours is broken */
} vn_status_t;

/** Text of a failure: one line, names file, field and offset where there are any. Caller-owned; every `err` may be NULL. */
typedef struct vn_error {
    vn_status_t status;
    char text[600];
} vn_error_t;

/** Writes `fmt` into err (if not NULL) and returns `status`. The text never holds a line break. */
VN_API vn_status_t vn_fail(vn_error_t *err, vn_status_t status, const char *fmt, ...) VN_PRINTF(3, 4);

/** Puts "prefix: " before a text that is already in err. Returns err->status. */
VN_API vn_status_t vn_fail_prefix(vn_error_t *err, const char *fmt, ...) VN_PRINTF(2, 3);

/** Spelling used in reports, e.g. "shape". Never NULL. */
VN_API const char *vn_status_name(vn_status_t status);

/** Verdicts of a judgement (design 1). Stored in evidence: append, never renumber. Wire spelling by vn_verdict_name. */
typedef enum vn_verdict {
    VN_NOT_RUN = 0,
    VN_EXACT = 1,
    VN_REPLAYED = 2,
    VN_EXPLAINED = 3,
    VN_SPEC_OPEN = 4, /* pass: 1..4 */
    VN_CONTRACT_MISMATCH = 5,
    VN_SUSPECT = 6,
    VN_BUG = 7,
    VN_NONDETERMINISTIC = 8, /* fail: 5..8 */
    VN_UNINFORMATIVE = 9,
    VN_UNSUPPORTED = 10,
    VN_CRASHED = 11,
    VN_TIMEOUT = 12, /* neither: 0, 9..12 */
    VN_VERDICT_COUNT = 13
} vn_verdict_t;
VN_API const char *vn_verdict_name(vn_verdict_t v);
VN_API bool vn_verdict_from_name(const char *name, vn_verdict_t *out);
VN_API bool vn_verdict_passes(vn_verdict_t v);
VN_API bool vn_verdict_fails(vn_verdict_t v);

/** Library version, "MAJOR.MINOR.PATCH". */
VN_API const char *vn_version(void);

#define VN_TRY(expr)                          \
    do {                                      \
        vn_status_t vn_try_ = (expr);         \
        if (vn_try_ != VN_OK) return vn_try_; \
    } while (0)

/* ---- checked sizes: every count from outside goes through these; false means overflow ---- */
VN_API bool vn_size_mul(size_t a, size_t b, size_t *out);
VN_API bool vn_size_add(size_t a, size_t b, size_t *out);
VN_API bool vn_i64_mul(int64_t a, int64_t b, int64_t *out);
VN_API bool vn_i64_add(int64_t a, int64_t b, int64_t *out);

/* ---- memory: malloc family with checked products; zeroed; NULL on failure; release with vn_free ---- */
VN_API void *vn_alloc(size_t count, size_t size);
VN_API void *vn_realloc(void *old, size_t count, size_t size); /* new part is NOT zeroed */
VN_API void vn_free(void *p);
VN_API char *vn_strdup(const char *s);
VN_API char *vn_strndup(const char *s, size_t n);
/** Fault loops: the n-th following allocation of this process fails (1 = next); 0 switches off. For tests. */
VN_API void vn_alloc_fail_at(int64_t n);

/** Arena: many small blocks, one release. Threads: one arena, one thread. Blocks are zeroed and aligned to 16. */
typedef struct vn_arena vn_arena_t;
VN_API vn_arena_t *vn_arena_new(void);
VN_API void vn_arena_free(vn_arena_t *arena);
VN_API void *vn_arena_alloc(vn_arena_t *arena, size_t count, size_t size);
VN_API char *vn_arena_strdup(vn_arena_t *arena, const char *s);
VN_API char *vn_arena_strndup(vn_arena_t *arena, const char *s, size_t n);
VN_API char *vn_arena_printf(vn_arena_t *arena, const char *fmt, ...) VN_PRINTF(2, 3);

/** Growing text. After a failed allocation `failed` stays set and further calls do nothing. */
typedef struct vn_text {
    char *data; /* NUL-terminated once anything was added; NULL before */
    size_t length, capacity;
    bool failed;
} vn_text_t;
VN_API void vn_text_add(vn_text_t *text, const char *s);
VN_API void vn_text_addn(vn_text_t *text, const char *s, size_t n);
VN_API void vn_text_printf(vn_text_t *text, const char *fmt, ...) VN_PRINTF(2, 3);
VN_API void vn_text_free(vn_text_t *text);

/* ---- SHA-256 (OpenSSL). Hex is lower case, 64 characters and NUL. ---- */
typedef struct vn_sha256 vn_sha256_t;
VN_API vn_sha256_t *vn_sha256_new(void);
VN_API void vn_sha256_add(vn_sha256_t *h, const void *data, size_t n);
VN_API void vn_sha256_finish(vn_sha256_t *h, char hex[65]); /* releases h */
VN_API void vn_sha256_hex(const void *data, size_t n, char hex[65]);

/* ---- files ---- */
/** Whole file, read-only, mapped (empty file: data = "", size 0). Release with vn_unmap. Errors: VN_ERR_IO names the path. */
typedef struct vn_map {
    const unsigned char *data;
    size_t size;
    void *base; /* NULL if nothing is mapped */
} vn_map_t;
VN_API vn_status_t vn_map_file(const char *path, vn_map_t *out, vn_error_t *err);
VN_API void vn_unmap(vn_map_t *map);
/** Writes to `path` through a temporary file beside it, fsync, rename: old content or new, never a mixture. "-" is stdout. */
VN_API vn_status_t vn_write_file(const char *path, const void *data, size_t n, vn_error_t *err);

/* ---- threads ---- */
/** Worker threads of this process (default: online processors, at most 64). Results never depend on it. */
VN_API void vn_threads_set(int n);
VN_API int vn_threads_get(void);
/**
 * Calls fn(ctx, begin, end) over [0, n) in chunks of `grain` (the last may be shorter); chunk borders do not depend on the number of
 * threads. Chunks run concurrently; returns when all are done. Nested calls run in the calling thread. grain < 1 counts as 1.
 */
typedef void (*vn_range_fn)(void *ctx, int64_t begin, int64_t end);
VN_API void vn_parallel(int64_t n, int64_t grain, vn_range_fn fn, void *ctx);

/* ---- random numbers: xoshiro256++, seeded by splitmix64; the same on every machine ---- */
typedef struct vn_rng {
    uint64_t s[4];
    double spare;
    bool has_spare;
} vn_rng_t;
VN_API void vn_rng_seed(vn_rng_t *rng, uint64_t seed);
VN_API uint64_t vn_rng_u64(vn_rng_t *rng);
VN_API uint64_t vn_rng_below(vn_rng_t *rng, uint64_t n); /* 0 .. n-1, unbiased; n > 0 */
VN_API double vn_rng_uniform(vn_rng_t *rng);             /* [0, 1), 53 bits */
VN_API double vn_rng_normal(vn_rng_t *rng);              /* N(0, 1), polar method */

/** Monotonic seconds, for progress lines and benchmarks only. */
VN_API double vn_now(void);

#ifdef __cplusplus
}
#endif
#endif
