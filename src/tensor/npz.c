/* npz.c -- NumPy .npz: a zip archive of .npy members; types that NumPy lacks travel under a suffix of the name. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "tensor/npy.h"
#include "tensor/walk.h"

enum { RATIO_FREE_BYTES = 64 << 20 };

/* Suffix, type, and what it is stored as; sub-byte types take one element a byte. */
typedef struct suffix_row {
    const char *suffix;
    vn_dtype_t dtype, stored;
} suffix_row_t;

static const suffix_row_t suffixes[] = {
    {"__bf16", VN_BF16, VN_U16},
    {"__f8e4m3fn", VN_F8E4M3FN, VN_U8},
    {"__f8e4m3fnuz", VN_F8E4M3FNUZ, VN_U8},
    {"__f8e5m2", VN_F8E5M2, VN_U8},
    {"__f8e5m2fnuz", VN_F8E5M2FNUZ, VN_U8},
    {"__f8e8m0", VN_F8E8M0, VN_U8},
    {"__u4", VN_U4, VN_U8},
    {"__i4", VN_I4, VN_I8},
    {"__f4e2m1", VN_F4E2M1, VN_U8},
    {"__u2", VN_U2, VN_U8},
    {"__i2", VN_I2, VN_I8},
};
enum { N_SUFFIXES = sizeof suffixes / sizeof *suffixes };

static const suffix_row_t *suffix_of_name(const char *name, size_t length) {
    for (int k = 0; k < N_SUFFIXES; ++k) {
        const size_t n = strlen(suffixes[k].suffix);
        if (length > n && memcmp(name + length - n, suffixes[k].suffix, n) == 0) return &suffixes[k];
    }
    return NULL;
}

static const suffix_row_t *suffix_of_type(vn_dtype_t t) {
    for (int k = 0; k < N_SUFFIXES; ++k)
        if (suffixes[k].dtype == t) return &suffixes[k];
    return NULL;
}

/* ---- reading ---- */

static bool fits(vn_dtype_t t, int64_t v) {
    const int bits = vn_dtype_bits(t);
    return vn_dtype_kind(t) == VN_KIND_SIGNED ? v >= -(1 << (bits - 1)) && v < 1 << (bits - 1) : v >= 0 && v < 1 << bits;
}

/* `stored` seen as the type that the name promises. Takes over stored. */
static vn_status_t restore_type(const suffix_row_t *row, vn_tensor_t *stored, const char *label, vn_tensor_t **out, vn_error_t *err) {
    vn_status_t s = VN_OK;
    const int want = vn_dtype_bits(row->stored);
    *out = NULL;
    if (!vn_dtype_is_int(stored->dtype) || vn_dtype_bits(stored->dtype) != want) {
        s = vn_fail(err, VN_ERR_PARSE, "%s: is stored as %s; the suffix %s asks for %d-bit integers", label, vn_dtype_name(stored->dtype),
                    row->suffix, want);
    } else if (vn_dtype_bits(row->dtype) >= 8) { /* the same bits under another name */
        s = vn_tensor_reshape(stored, stored->rank, stored->dims, out, err);
        if (s == VN_OK) (*out)->dtype = row->dtype;
    } else {
        s = vn_tensor_new(row->dtype, stored->rank, stored->dims, out, err);
        for (int64_t i = 0; s == VN_OK && i < stored->count; ++i) {
            const int64_t v = vn_tensor_get_i64(stored, i);
            if (!fits(row->dtype, v)) {
                s = vn_fail(err, VN_ERR_PARSE, "%s: element %" PRId64 " is %" PRId64 ", outside %s", label, i, v,
                            vn_dtype_name(row->dtype));
                vn_tensor_free(*out);
                *out = NULL;
                break;
            }
            vn_packed_set((*out)->data, vn_dtype_bits(row->dtype), i, (unsigned)v & 0xffu);
        }
    }
    vn_tensor_free(stored);
    return s;
}

/* Refuses what a hostile archive claims before anything is inflated. */
static vn_status_t check_member(const zip_stat_t *st, const char *path, const char *label, vn_error_t *err) {
    const zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if ((st->valid & need) != need) return vn_fail(err, VN_ERR_PARSE, "%s: a member has no name or no size", path);
    if (st->encryption_method != ZIP_EM_NONE) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: is encrypted", label);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: compression method %d; stored and deflated members are supported", label,
                       (int)st->comp_method);
    if (st->size > RATIO_FREE_BYTES && st->size / VN_NPZ_MAX_RATIO >= st->comp_size)
        return vn_fail(err, VN_ERR_PARSE,
                       "%s: claims %" PRIu64 " bytes out of %" PRIu64 " compressed ones, more than %d to 1; not inflated", label,
                       (uint64_t)st->size, (uint64_t)st->comp_size, (int)VN_NPZ_MAX_RATIO);
    if (st->size > PTRDIFF_MAX) return vn_fail(err, VN_ERR_RANGE, "%s: claims %" PRIu64 " bytes", label, (uint64_t)st->size);
    return VN_OK;
}

static vn_status_t inflate_member(zip_t *archive, zip_uint64_t index, const zip_stat_t *st, const char *label, vn_source_t **out,
                                  vn_error_t *err) {
    *out = NULL;
    zip_file_t *f = zip_fopen_index(archive, index, 0);
    if (!f) return vn_fail(err, VN_ERR_PARSE, "%s: %s", label, zip_strerror(archive));
    const size_t size = (size_t)st->size;
    unsigned char *data = vn_realloc(NULL, size, 1);
    vn_status_t s = data ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "%s: no memory for %zu bytes", label, size);
    size_t at = 0;
    while (s == VN_OK && at < size) {
        const zip_int64_t n = zip_fread(f, data + at, size - at);
        if (n <= 0) s = vn_fail(err, VN_ERR_PARSE, "%s: %s at offset %zu of %zu", label, n < 0 ? zip_file_strerror(f) : "ends", at, size);
        else at += (size_t)n;
    }
    char rest; /* reading on to the end makes libzip compare the checksum */
    if (s == VN_OK) {
        const zip_int64_t n = zip_fread(f, &rest, 1);
        if (n != 0)
            s = vn_fail(err, VN_ERR_PARSE, "%s: %s after %zu bytes", label, n < 0 ? zip_file_strerror(f) : "more data than it claims",
                        size);
    }
    zip_fclose(f);
    if (s == VN_OK) return vn_source_adopt(data, size, out, err);
    vn_free(data);
    return s;
}

static vn_status_t read_member(zip_t *archive, zip_uint64_t index, const char *path, vn_bundle_t *out, vn_error_t *err) {
    zip_stat_t st;
    char label[512];
    zip_stat_init(&st);
    if (zip_stat_index(archive, index, 0, &st) != 0)
        return vn_fail(err, VN_ERR_PARSE, "%s: member %" PRIu64 ": %s", path, (uint64_t)index, zip_strerror(archive));
    snprintf(label, sizeof label, "%s: member %s", path, st.valid & ZIP_STAT_NAME ? st.name : "?");
    VN_TRY(check_member(&st, path, label, err));
    size_t length = strlen(st.name);
    if (length < 4 || strcmp(st.name + length - 4, ".npy") != 0) return vn_fail(err, VN_ERR_PARSE, "%s: is not named .npy", label);
    length -= 4;
    const suffix_row_t *row = suffix_of_name(st.name, length);
    vn_source_t *source;
    vn_tensor_t *t = NULL;
    VN_TRY(inflate_member(archive, index, &st, label, &source, err));
    vn_status_t s = vn_npy_decode(source->data, source->size, label, source, row != NULL, &t, err);
    vn_source_free(source);
    if (s == VN_OK && row) s = restore_type(row, t, label, &t, err);
    if (s != VN_OK) return s;
    char *name = vn_strndup(st.name, length - (row ? strlen(row->suffix) : 0));
    s = name ? vn_bundle_add(out, name, t, err) : vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
    vn_free(name);
    vn_tensor_free(t);
    return s;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static vn_status_t check_unique(const vn_bundle_t *b, const char *path, vn_error_t *err) {
    if (b->count < 2) return VN_OK;
    char **names = vn_alloc((size_t)b->count, sizeof *names);
    if (!names) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    for (int i = 0; i < b->count; ++i) names[i] = b->items[i].name;
    qsort(names, (size_t)b->count, sizeof *names, by_text);
    vn_status_t s = VN_OK;
    for (int i = 1; i < b->count && s == VN_OK; ++i)
        if (strcmp(names[i - 1], names[i]) == 0) s = vn_fail(err, VN_ERR_PARSE, "%s: two members are named %s", path, names[i]);
    vn_free(names);
    return s;
}

vn_status_t vn_npz_read(const char *path, vn_bundle_t *out, vn_error_t *err) {
    *out = (vn_bundle_t){0};
    int why = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &why);
    if (!archive) {
        zip_error_t e;
        zip_error_init_with_code(&e, why);
        const bool io = why == ZIP_ER_OPEN || why == ZIP_ER_NOENT || why == ZIP_ER_READ;
        const vn_status_t s = vn_fail(err, io ? VN_ERR_IO : VN_ERR_PARSE, "%s: cannot read as .npz: %s", path, zip_error_strerror(&e));
        zip_error_fini(&e);
        return s;
    }
    vn_status_t s = VN_OK;
    const zip_int64_t n = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < n && s == VN_OK; ++i) s = read_member(archive, (zip_uint64_t)i, path, out, err);
    zip_discard(archive);
    if (s == VN_OK) s = check_unique(out, path, err);
    if (s != VN_OK) vn_bundle_free(out);
    return s;
}

/* ---- writing: stored, so that the bytes depend on nothing but the tensors ---- */

typedef struct member {
    vn_text_t header;
    vn_tensor_t *dense;
    char *name;
    zip_buffer_fragment_t parts[2];
} member_t;

/* The tensor in a type that NumPy has. */
static vn_status_t storable(const vn_tensor_t *t, const suffix_row_t *row, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (!row) {
        *out = vn_tensor_retain(t);
        return VN_OK;
    }
    if (vn_dtype_bits(t->dtype) >= 8) {
        vn_tensor_t *dense;
        VN_TRY(vn_tensor_contiguous(t, &dense, err));
        const vn_status_t s = vn_tensor_reshape(dense, dense->rank, dense->dims, out, err);
        if (s == VN_OK) (*out)->dtype = row->stored;
        vn_tensor_free(dense);
        return s;
    }
    VN_TRY(vn_tensor_new(row->stored, t->rank, t->dims, out, err));
    const bool is_signed = vn_dtype_kind(t->dtype) == VN_KIND_SIGNED;
    for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(*out, i, is_signed ? vn_tensor_get_i64(t, i) : (int64_t)vn_tensor_bits(t, i));
    return VN_OK;
}

static vn_status_t prepare(const vn_named_t *item, const char *path, member_t *m, vn_error_t *err) {
    const suffix_row_t *row = suffix_of_type(item->tensor->dtype);
    vn_tensor_t *t;
    vn_text_t name = {0};
    if (!row && suffix_of_name(item->name, strlen(item->name)))
        return vn_fail(err, VN_ERR_USAGE, "%s: the name %s ends in a suffix that marks another type", path, item->name);
    vn_text_printf(&name, "%s%s.npy", item->name, row ? row->suffix : "");
    if (name.failed) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    m->name = name.data;
    VN_TRY(storable(item->tensor, row, &t, err));
    size_t bytes;
    const vn_status_t s = vn_npy_encode(t, item->name, &m->header, &m->dense, &bytes, err);
    vn_tensor_free(t);
    VN_TRY(s);
    m->parts[0] = (zip_buffer_fragment_t){.data = (zip_uint8_t *)m->header.data, .length = m->header.length};
    m->parts[1] = (zip_buffer_fragment_t){.data = m->dense->data, .length = bytes};
    return VN_OK;
}

static bool add_member(zip_t *archive, member_t *m) {
    zip_source_t *source = zip_source_buffer_fragment(archive, m->parts, m->parts[1].length ? 2 : 1, 0);
    if (!source) return false;
    const zip_int64_t index = zip_file_add(archive, m->name, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    enum { FIRST_OF_1980 = 1 << 5 | 1 }; /* the first day that zip knows */
    return zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(archive, (zip_uint64_t)index, 0, FIRST_OF_1980, 0) == 0;
}

static vn_status_t sync_file(const char *path, vn_error_t *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool good = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    return good ? VN_OK : vn_fail(err, VN_ERR_IO, "%s: cannot write to the disk: %s", path, strerror(why));
}

/* libzip writes beside the file and renames at the end. */
static vn_status_t write_archive(const char *path, member_t *members, int count, vn_error_t *err) {
    int why = 0;
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (!archive) {
        zip_error_t e;
        zip_error_init_with_code(&e, why);
        const vn_status_t s = vn_fail(err, VN_ERR_IO, "%s: cannot create: %s", path, zip_error_strerror(&e));
        zip_error_fini(&e);
        return s;
    }
    bool good = true;
    for (int i = 0; i < count && good; ++i) good = add_member(archive, &members[i]);
    if (good && zip_close(archive) == 0) return sync_file(path, err);
    const vn_status_t s = vn_fail(err, VN_ERR_IO, "%s: cannot write: %s; nothing was changed", path, zip_strerror(archive));
    zip_discard(archive);
    return s;
}

vn_status_t vn_npz_write(const char *path, const vn_bundle_t *b, vn_error_t *err) {
    /* libzip deletes an archive without members; NumPy's empty one is the bare end record. */
    if (b->count == 0) return vn_write_file(path, "PK\005\006\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22, err);
    if (strcmp(path, "-") == 0) return vn_fail(err, VN_ERR_USAGE, ".npz cannot be written to standard output");
    VN_TRY(check_unique(b, path, err));
    member_t *members = vn_alloc((size_t)b->count, sizeof *members);
    if (!members) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    vn_status_t s = VN_OK;
    for (int i = 0; i < b->count && s == VN_OK; ++i) s = prepare(&b->items[i], path, &members[i], err);
    if (s == VN_OK) s = write_archive(path, members, b->count, err);
    for (int i = 0; i < b->count; ++i) {
        vn_text_free(&members[i].header);
        vn_tensor_free(members[i].dense);
        vn_free(members[i].name);
    }
    vn_free(members);
    return s;
}
