/* outside.h -- the data file beside a model that is too large for one message: where each tensor goes, and writing it. */
#ifndef VN_GRAPH_OUTSIDE_H
#define VN_GRAPH_OUTSIDE_H

#include "vernier/tensor.h"

/** Offsets are multiples of this, so that readers can map a tensor by itself (the size of a memory page). */
enum { VN_OUTSIDE_ALIGN = 4096 };

typedef struct vn_outside_item {
    vn_tensor_t *tensor; /* contiguous, retained */
    uint64_t offset, bytes;
} vn_outside_item_t;

typedef struct vn_outside {
    const char *location; /* file name as the model says it: relative to its folder */
    vn_outside_item_t *items;
    size_t count, capacity;
    uint64_t end;
} vn_outside_t;

/** Gives `t` (contiguous, not strings) a place. */
vn_status_t vn_outside_add(vn_outside_t *o, const vn_tensor_t *t, uint64_t bytes, uint64_t *offset, vn_error_t *err);
/** Writes through a temporary file and a rename. */
vn_status_t vn_outside_write(const vn_outside_t *o, const char *path, vn_error_t *err);
void vn_outside_free(vn_outside_t *o);

#endif
