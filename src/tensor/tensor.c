/* tensor.c -- tensors: making, wrapping, counting, copying, comparing, hashing, describing. */
#include "vernier/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/buffer.h"
#include "tensor/walk.h"

enum { ALIGNMENT = 64, BLOCK_BYTES = 1 << 16 };

void vn_row_major(int rank, const int64_t *dims, int64_t *strides) {
    int64_t step = 1;
    for (int k = rank - 1; k >= 0; --k) {
        strides[k] = step;
        step *= dims[k] > 0 ? dims[k] : 1;
    }
}

static void shape_text(int rank, const int64_t *dims, char *out, size_t size) {
    size_t n = 0;
    out[0] = '\0';
    for (int k = 0; k < rank && n + 1 < size; ++k) {
        const int m = snprintf(out + n, size - n, "%s%" PRId64, k ? "," : "", dims[k]);
        if (m < 0) return;
        n += (size_t)m;
    }
}

vn_status_t vn_tensor_header(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, size_t *bytes, vn_error_t *err) {
    *out = NULL;
    if (t <= VN_UNDEFINED || t >= VN_DTYPE_COUNT) return vn_fail(err, VN_ERR_DTYPE, "tensor: element type %d is unknown", (int)t);
    if (rank < 0 || rank > VN_MAX_RANK)
        return vn_fail(err, VN_ERR_RANGE, "tensor: rank %d; at most %d dimensions are allowed", rank, (int)VN_MAX_RANK);
    /* Zero dims hide nothing: the product of the others must fit too, so that strides never overflow. */
    int64_t count = 1, span = 1;
    bool good = true;
    char text[256];
    for (int k = 0; k < rank; ++k) {
        if (dims[k] < 0) {
            shape_text(rank, dims, text, sizeof text);
            return vn_fail(err, VN_ERR_RANGE, "tensor: dimension %d of %s[%s] is negative", k, vn_dtype_name(t), text);
        }
        good = good && vn_i64_mul(span, dims[k] ? dims[k] : 1, &span);
        if (good) count *= dims[k];
    }
    size_t whole;
    good = good && vn_dtype_storage(t, span, &whole) && vn_dtype_storage(t, count, bytes);
    if (!good) {
        shape_text(rank, dims, text, sizeof text);
        return vn_fail(err, VN_ERR_RANGE, "tensor: the size of %s[%s] overflows", vn_dtype_name(t), text);
    }
    vn_tensor_t *x = vn_alloc(1, sizeof *x);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "tensor: out of memory");
    x->dtype = t;
    x->rank = rank;
    if (rank) memcpy(x->dims, dims, (size_t)rank * sizeof *dims);
    vn_row_major(rank, x->dims, x->strides);
    x->count = count;
    x->refs = 1;
    *out = x;
    return VN_OK;
}

static vn_status_t new_tensor(vn_dtype_t t, int rank, const int64_t *dims, bool zero, vn_tensor_t **out, vn_error_t *err) {
    size_t bytes, total;
    VN_TRY(vn_tensor_header(t, rank, dims, out, &bytes, err));
    vn_tensor_t *x = *out;
    *out = NULL;
    /* Buffer head and data in one block; the data starts at the next multiple of 64. */
    unsigned char *block = NULL;
    if (vn_size_add(bytes, sizeof(vn_buffer_t) + ALIGNMENT, &total))
        block = zero || t == VN_STRING ? vn_alloc(total, 1) : vn_realloc(NULL, total, 1);
    if (!block) {
        char text[256];
        vn_tensor_describe(x, text, sizeof text);
        vn_free(x);
        return vn_fail(err, VN_ERR_NOMEM, "tensor: no memory for %s (%zu bytes)", text, bytes);
    }
    x->buffer = (vn_buffer_t *)(void *)block;
    *x->buffer = (vn_buffer_t){.refs = 1};
    const uintptr_t start = ((uintptr_t)block + sizeof(vn_buffer_t) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    x->data = block + (start - (uintptr_t)block);
    if (t == VN_STRING) {
        x->buffer->strings = x->data;
        x->buffer->n_strings = x->count;
    }
    *out = x;
    return VN_OK;
}

vn_status_t vn_tensor_new(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    return new_tensor(t, rank, dims, true, out, err);
}

vn_status_t vn_tensor_new_raw(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    return new_tensor(t, rank, dims, false, out, err);
}

vn_status_t vn_tensor_wrap(vn_dtype_t t, int rank, const int64_t *dims, void *data, size_t bytes, void (*release)(void *), void *ctx,
                           vn_tensor_t **out, vn_error_t *err) {
    size_t need;
    VN_TRY(vn_tensor_header(t, rank, dims, out, &need, err));
    vn_tensor_t *x = *out;
    *out = NULL;
    if (need > bytes || (need && !data)) {
        char text[256];
        vn_tensor_describe(x, text, sizeof text);
        vn_free(x);
        return vn_fail(err, VN_ERR_RANGE, "tensor: %s needs %zu bytes, %zu are given", text, need, data ? bytes : 0);
    }
    x->buffer = vn_alloc(1, sizeof *x->buffer);
    if (!x->buffer) {
        vn_free(x);
        return vn_fail(err, VN_ERR_NOMEM, "tensor: out of memory");
    }
    *x->buffer = (vn_buffer_t){.refs = 1, .release = release, .ctx = ctx};
    static char nothing[ALIGNMENT]; /* an empty tensor has an address too */
    x->data = data ? data : nothing;
    *out = x;
    return VN_OK;
}

vn_status_t vn_tensor_view(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    *out = vn_alloc(1, sizeof **out);
    if (!*out) return vn_fail(err, VN_ERR_NOMEM, "tensor: out of memory");
    **out = *t;
    (*out)->refs = 1;
    __atomic_add_fetch(&t->buffer->refs, 1, __ATOMIC_RELAXED);
    return VN_OK;
}

vn_tensor_t *vn_tensor_retain(const vn_tensor_t *t) {
    vn_tensor_t *x = (vn_tensor_t *)(uintptr_t)t; /* the count is not part of the value */
    if (x) __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
    return x;
}

static void buffer_free(vn_buffer_t *b) {
    if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    for (int64_t i = 0; i < b->n_strings; ++i) vn_free(b->strings[i].text);
    if (b->release) b->release(b->ctx);
    vn_free(b);
}

void vn_tensor_free(vn_tensor_t *t) {
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    buffer_free(t->buffer);
    vn_free(t);
}

bool vn_tensor_is_contiguous(const vn_tensor_t *t) {
    if (t->count <= 1) return true;
    int64_t step = 1;
    for (int k = t->rank - 1; k >= 0; --k) {
        if (t->dims[k] != 1 && t->strides[k] != step) return false;
        step *= t->dims[k];
    }
    return true;
}

vn_status_t vn_tensor_contiguous(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    if (!vn_tensor_is_contiguous(t)) return vn_tensor_copy(t, out, err);
    *out = vn_tensor_retain(t);
    return VN_OK;
}

typedef struct copy_job {
    const vn_tensor_t *from;
    vn_walk_t walk;
    unsigned char *to;
    size_t size;
} copy_job_t;

static void copy_range(void *ctx, int64_t begin, int64_t end) {
    const copy_job_t *j = ctx;
    unsigned char *to = j->size ? j->to + (size_t)begin * j->size : j->to + begin * vn_dtype_bits(j->from->dtype) / 8;
    vn_walk_gather(&j->walk, j->from, begin, end - begin, to);
}

vn_status_t vn_tensor_copy(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    VN_TRY(vn_tensor_new_raw(t->dtype, t->rank, t->dims, out, err));
    vn_tensor_t *x = *out;
    copy_job_t job = {.from = t, .to = x->data, .size = vn_element_size(t->dtype)};
    vn_walk_init(&job.walk, t);
    if (t->dtype != VN_STRING) {
        vn_parallel(t->count, 1 << 18, copy_range, &job);
        return VN_OK;
    }
    for (int64_t i = 0; i < t->count; ++i) {
        const vn_string_t *s = (const vn_string_t *)t->data + vn_walk_offset(&job.walk, i);
        const vn_status_t status = vn_tensor_set_string(x, i, s->text, s->length, err);
        if (status != VN_OK) {
            vn_tensor_free(x);
            *out = NULL;
            return status;
        }
    }
    return VN_OK;
}

vn_status_t vn_tensor_set_string(vn_tensor_t *t, int64_t i, const char *text, size_t length, vn_error_t *err) {
    if (t->dtype != VN_STRING || !t->buffer->strings)
        return vn_fail(err, VN_ERR_DTYPE, "tensor: a text cannot be stored in a tensor of %s", vn_dtype_name(t->dtype));
    if (i < 0 || i >= t->count) return vn_fail(err, VN_ERR_RANGE, "tensor: element %" PRId64 " of %" PRId64 " does not exist", i, t->count);
    char *copy = vn_strndup(text ? text : "", text ? length : 0);
    if (!copy) return vn_fail(err, VN_ERR_NOMEM, "tensor: no memory for a text of %zu bytes", length);
    vn_walk_t walk;
    vn_walk_init(&walk, t);
    vn_string_t *s = (vn_string_t *)t->data + vn_walk_offset(&walk, i);
    vn_free(s->text);
    *s = (vn_string_t){.text = copy, .length = text ? length : 0};
    return VN_OK;
}

/* ---- elements in blocks, for comparing and hashing ---- */

/* Elements that one block of BLOCK_BYTES holds; a multiple of 8, so that packed types start at a byte. */
static int64_t block_count(vn_dtype_t t) {
    const size_t size = vn_element_size(t);
    return size ? BLOCK_BYTES / (int64_t)size : BLOCK_BYTES;
}

/* Bytes of n elements with the unused bits of the last byte cleared. */
static size_t tidy(vn_dtype_t t, unsigned char *block, int64_t n) {
    const int bits = t == VN_STRING ? 8 * (int)sizeof(vn_string_t) : vn_dtype_bits(t);
    const size_t bytes = (size_t)((n * bits + 7) / 8);
    const int used = (int)(n * bits % 8);
    if (used) block[bytes - 1] &= (unsigned char)((1 << used) - 1);
    return bytes;
}

static bool same_string(const vn_string_t *a, const vn_string_t *b) {
    return a->length == b->length && (a->length == 0 || memcmp(a->text, b->text, a->length) == 0);
}

bool vn_tensor_equal_bits(const vn_tensor_t *a, const vn_tensor_t *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; ++k)
        if (a->dims[k] != b->dims[k]) return false;
    vn_walk_t wa, wb;
    vn_walk_init(&wa, a);
    vn_walk_init(&wb, b);
    if (a->dtype == VN_STRING) {
        for (int64_t i = 0; i < a->count; ++i)
            if (!same_string((const vn_string_t *)a->data + vn_walk_offset(&wa, i), (const vn_string_t *)b->data + vn_walk_offset(&wb, i)))
                return false;
        return true;
    }
    size_t bytes;
    if (vn_dtype_bits(a->dtype) >= 8 && vn_tensor_is_contiguous(a) && vn_tensor_is_contiguous(b))
        return vn_dtype_storage(a->dtype, a->count, &bytes) && (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
    _Alignas(16) unsigned char pa[4096], pb[4096];
    const int64_t step = block_count(a->dtype) / (BLOCK_BYTES / 4096);
    for (int64_t i = 0; i < a->count; i += step) {
        const int64_t n = a->count - i < step ? a->count - i : step;
        vn_walk_gather(&wa, a, i, n, pa);
        vn_walk_gather(&wb, b, i, n, pb);
        tidy(a->dtype, pa, n);
        if (memcmp(pa, pb, tidy(b->dtype, pb, n)) != 0) return false;
    }
    return true;
}

static void hash_u64(vn_sha256_t *h, uint64_t x) {
    unsigned char le[8];
    for (int k = 0; k < 8; ++k) le[k] = (unsigned char)(x >> (8 * k));
    vn_sha256_add(h, le, sizeof le);
}

/* Text hashed: dtype name (no NUL), rank and dims as LE u64, then the elements. Machines here are little-endian. */
vn_status_t vn_tensor_sha256(const vn_tensor_t *t, char hex[65], vn_error_t *err) {
    hex[0] = '\0';
    unsigned char *block = vn_alloc(BLOCK_BYTES, 1);
    vn_sha256_t *h = block ? vn_sha256_new() : NULL;
    if (!h) {
        vn_free(block);
        return vn_fail(err, VN_ERR_NOMEM, "tensor: no memory for a hash");
    }
    const char *name = vn_dtype_name(t->dtype);
    vn_sha256_add(h, name, strlen(name));
    hash_u64(h, (uint64_t)t->rank);
    for (int k = 0; k < t->rank; ++k) hash_u64(h, (uint64_t)t->dims[k]);
    vn_walk_t walk;
    vn_walk_init(&walk, t);
    if (t->dtype == VN_STRING) {
        for (int64_t i = 0; i < t->count; ++i) {
            const vn_string_t *s = (const vn_string_t *)t->data + vn_walk_offset(&walk, i);
            hash_u64(h, s->length);
            if (s->length) vn_sha256_add(h, s->text, s->length);
        }
    } else {
        const int64_t step = block_count(t->dtype);
        for (int64_t i = 0; i < t->count; i += step) {
            const int64_t n = t->count - i < step ? t->count - i : step;
            vn_walk_gather(&walk, t, i, n, block);
            vn_sha256_add(h, block, tidy(t->dtype, block, n));
        }
    }
    vn_sha256_finish(h, hex);
    vn_free(block);
    return VN_OK;
}

void vn_tensor_describe(const vn_tensor_t *t, char *out, size_t size) {
    if (size == 0) return;
    char text[VN_MAX_RANK * 21 + 1];
    shape_text(t->rank, t->dims, text, sizeof text);
    snprintf(out, size, "%s[%s]", vn_dtype_name(t->dtype), text);
}
