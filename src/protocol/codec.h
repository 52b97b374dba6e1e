/* codec.h -- what both ends of the wire share: descriptors of tensors, strings in bytes, lines on a descriptor (docs/worker-protocol.md). */
#ifndef VN_PROTOCOL_CODEC_H
#define VN_PROTOCOL_CODEC_H

#include <jansson.h>

#include "vernier/protocol.h"

enum {
    VN_OFFSET_ALIGN = 64, /* every offset into a segment is a multiple of this */
    VN_READ_CHUNK = 1 << 16
};

/** Where a tensor lies. shm "" in a request: the worker allocates. */
typedef struct vn_desc {
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    int64_t count; /* product of dims */
    char shm[64];
    size_t offset, bytes;
} vn_desc_t;

/** Adds dtype, dims, shm, offset, bytes to object `o`. False: out of memory. */
bool vn_desc_put(json_t *o, const vn_desc_t *d);

/**
 * Reads them back, every field checked: known dtype, rank and dims in range, product and size without overflow, offset aligned, bytes equal
 * to what dtype and dims need (strings: at least their offsets). The segment itself is not looked at.
 * Errors     PARSE names `what` and the field.
 */
vn_status_t vn_desc_read(const json_t *o, const char *what, vn_desc_t *out, vn_error_t *err);

/** A string field of an object; NULL if it is missing or no string. Borrowed. */
const char *vn_json_text(const json_t *o, const char *key);
/** An integer field >= 0; false if missing, no integer or negative. */
bool vn_json_count(const json_t *o, const char *key, int64_t *out);

/* ---- bytes of a tensor as they lie in a segment: contiguous storage; strings as i64[n+1] offsets, then UTF-8 ---- */

vn_status_t vn_packed_size(const vn_tensor_t *t, size_t *bytes, vn_error_t *err);
/** Writes vn_packed_size bytes. t may be strided. Errors: NOMEM. */
vn_status_t vn_packed_put(const vn_tensor_t *t, void *out, vn_error_t *err);
/** Strings back into a tensor (copied). Errors: PARSE when offsets run backwards or past `bytes`. */
vn_status_t vn_packed_strings(const vn_desc_t *d, const void *data, const char *what, vn_tensor_t **out, vn_error_t *err);

/* ---- lines ---- */

typedef struct vn_lines {
    char *data;
    size_t start, end, capacity, scanned; /* unread bytes are [start, end); no line feed before `scanned` */
    bool too_long, failed;                /* a line above VN_MAX_LINE; out of memory */
} vn_lines_t;

/** The next whole line without its line feed, NUL-terminated, valid until the next call; NULL if there is none yet. */
char *vn_lines_take(vn_lines_t *l, size_t *length);
/** One read(2). > 0: bytes; 0: end of file; < 0: errno (EAGAIN, EINTR included) or a set flag. */
long vn_lines_fill(vn_lines_t *l, int fd);
void vn_lines_free(vn_lines_t *l);

/** Writes all bytes; for blocking descriptors. */
bool vn_write_all(int fd, const void *data, size_t n);

#endif
