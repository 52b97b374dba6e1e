/* npy.c -- NumPy .npy: the header (a Python dictionary of three known keys) and the array behind it. Texts: npy_text.c. */
#include "tensor/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/npy_text.h"

typedef struct npy_head {
    char order;    /* '<', '>', '|', '=' */
    char kind;     /* NumPy's letter */
    int64_t width; /* bytes, for U and S characters */
    bool fortran, have_descr, have_order, have_shape;
    int rank;
    int64_t dims[VN_MAX_RANK];
} npy_head_t;

typedef struct cursor {
    const char *p, *end;
} cursor_t;

/* ---- the dictionary ---- */

static void skip_space(cursor_t *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r')) ++c->p;
}

static bool accept(cursor_t *c, char wanted) {
    skip_space(c);
    if (c->p >= c->end || *c->p != wanted) return false;
    ++c->p;
    return true;
}

/* A quoted text without escapes, up to size-1 characters. */
static bool quoted(cursor_t *c, char *out, size_t size) {
    skip_space(c);
    if (c->p >= c->end || (*c->p != '\'' && *c->p != '"')) return false;
    const char quote = *c->p++;
    size_t n = 0;
    while (c->p < c->end && *c->p != quote) {
        if (*c->p == '\\' || n + 1 >= size) return false;
        out[n++] = *c->p++;
    }
    out[n] = '\0';
    return accept(c, quote);
}

static bool word(cursor_t *c, const char *text) {
    skip_space(c);
    const size_t n = strlen(text);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0) return false;
    c->p += n;
    return true;
}

static bool number(cursor_t *c, int64_t *out) {
    skip_space(c);
    int64_t x = 0;
    const char *start = c->p;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; ++c->p)
        if (!vn_i64_mul(x, 10, &x) || !vn_i64_add(x, *c->p - '0', &x)) return false;
    *out = x;
    const bool digits = c->p > start;
    if (digits && c->p < c->end && *c->p == 'L') ++c->p; /* written by Python 2 */
    return digits;
}

/* "(3, 4)", "(3,)", "()". */
static const char *read_shape(cursor_t *c, npy_head_t *h) {
    if (!accept(c, '(')) return "its shape is not a tuple";
    h->rank = 0;
    while (!accept(c, ')')) {
        int64_t d;
        if (!number(c, &d)) return "its shape holds something other than sizes";
        if (h->rank == VN_MAX_RANK) return "it has more than 16 dimensions";
        h->dims[h->rank++] = d;
        if (!accept(c, ',')) {
            if (!accept(c, ')')) return "its shape does not end";
            break;
        }
    }
    h->have_shape = true;
    return NULL;
}

static const char *read_descr(cursor_t *c, npy_head_t *h) {
    char text[32];
    skip_space(c);
    if (c->p < c->end && *c->p == '[') return "its elements are records, which are not supported";
    if (!quoted(c, text, sizeof text)) return "its descr is not a text";
    cursor_t t = {text, text + strlen(text)};
    h->order = '=';
    if (t.p < t.end && strchr("<>|=", *t.p)) h->order = *t.p++;
    if (t.p >= t.end) return "its descr is empty";
    h->kind = *t.p++;
    h->width = 0;
    if (t.p < t.end && (!number(&t, &h->width) || (t.p != t.end && *t.p != '['))) return "its descr is not known"; /* '[': a unit of time */
    h->have_descr = true;
    return NULL;
}

static const char *read_entry(cursor_t *c, npy_head_t *h) {
    char key[32];
    if (!quoted(c, key, sizeof key) || !accept(c, ':')) return "its header is not a dictionary of texts";
    if (strcmp(key, "descr") == 0) return read_descr(c, h);
    if (strcmp(key, "shape") == 0) return read_shape(c, h);
    if (strcmp(key, "fortran_order") == 0) {
        h->fortran = word(c, "True");
        h->have_order = true;
        return h->fortran || word(c, "False") ? NULL : "fortran_order is neither True nor False";
    }
    return "its header has an unknown key";
}

static const char *read_dictionary(cursor_t c, npy_head_t *h) {
    if (!accept(&c, '{')) return "its header is not a dictionary";
    while (!accept(&c, '}')) {
        const char *fault = read_entry(&c, h);
        if (fault) return fault;
        if (!accept(&c, ',')) {
            if (!accept(&c, '}')) return "its header does not end";
            break;
        }
    }
    skip_space(&c);
    if (c.p != c.end) return "its header has text after the dictionary";
    if (!h->have_descr || !h->have_order || !h->have_shape) return "its header lacks descr, fortran_order or shape";
    return NULL;
}

/* ---- element types ---- */

typedef struct npy_type {
    char kind;
    int width; /* bytes */
    vn_dtype_t dtype;
    int part; /* bytes that change places on a big-endian file */
} npy_type_t;

static const npy_type_t types[] = {
    {'b', 1, VN_BOOL, 1}, {'i', 1, VN_I8, 1},  {'i', 2, VN_I16, 2}, {'i', 4, VN_I32, 4},   {'i', 8, VN_I64, 8},
    {'u', 1, VN_U8, 1},   {'u', 2, VN_U16, 2}, {'u', 4, VN_U32, 4}, {'u', 8, VN_U64, 8},   {'f', 2, VN_F16, 2},
    {'f', 4, VN_F32, 4},  {'f', 8, VN_F64, 8}, {'c', 8, VN_C64, 4}, {'c', 16, VN_C128, 8},
};
static const npy_type_t opaque_types[] = {{'V', 1, VN_U8, 1}, {'V', 2, VN_U16, 2}};

static const npy_type_t *find_type(const npy_head_t *h, bool opaque) {
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
        if (types[k].kind == h->kind && types[k].width == h->width) return &types[k];
    for (size_t k = 0; opaque && k < sizeof opaque_types / sizeof *opaque_types; ++k)
        if (opaque_types[k].kind == h->kind && opaque_types[k].width == h->width) return &opaque_types[k];
    return NULL;
}

static void swap_parts(unsigned char *p, size_t bytes, size_t part) {
    for (size_t i = 0; i + part <= bytes; i += part)
        for (size_t k = 0; k < part / 2; ++k) {
            const unsigned char keep = p[i + k];
            p[i + k] = p[i + part - 1 - k];
            p[i + part - 1 - k] = keep;
        }
}

/* The file lists the first axis fastest: read with axes reversed, then turned around. */
static vn_status_t turn(vn_tensor_t **t, vn_error_t *err) {
    int axes[VN_MAX_RANK];
    vn_tensor_t *view, *dense;
    for (int k = 0; k < (*t)->rank; ++k) axes[k] = (*t)->rank - 1 - k;
    vn_status_t s = vn_tensor_permute(*t, axes, &view, err);
    if (s == VN_OK) {
        s = vn_tensor_contiguous(view, &dense, err);
        vn_tensor_free(view);
    }
    vn_tensor_free(*t);
    *t = s == VN_OK ? dense : NULL;
    return s;
}

/* ---- the file ---- */

enum { KEEP_IN_PLACE = 4096 };

static vn_status_t read_elements(const npy_type_t *type, const npy_head_t *h, const int64_t *dims, const unsigned char *data, size_t bytes,
                                 vn_source_t *source, vn_tensor_t **out, vn_error_t *err) {
    const bool aligned = (uintptr_t)data % (unsigned)type->part == 0;
    if (source && aligned && h->order != '>' && bytes >= KEEP_IN_PLACE) {
        const vn_status_t s = vn_tensor_wrap(type->dtype, h->rank, dims, (void *)(uintptr_t)data, bytes, vn_source_free, source, out, err);
        if (s == VN_OK) vn_source_retain(source);
        return s;
    }
    VN_TRY(vn_tensor_new_raw(type->dtype, h->rank, dims, out, err));
    if (bytes) memcpy((*out)->data, data, bytes);
    if (h->order == '>' && type->part > 1) swap_parts((*out)->data, bytes, (size_t)type->part);
    return VN_OK;
}

static vn_status_t read_array(const npy_head_t *h, const unsigned char *data, size_t size, const char *label, vn_source_t *source,
                              bool opaque, vn_tensor_t **out, vn_error_t *err) {
    int64_t dims[VN_MAX_RANK], count = 1;
    bool good = true;
    for (int k = 0; k < h->rank; ++k) {
        dims[k] = h->dims[h->fortran ? h->rank - 1 - k : k];
        good = good && vn_i64_mul(count, dims[k], &count);
    }
    if (!good) return vn_fail(err, VN_ERR_RANGE, "%s: the number of its elements overflows", label);
    const bool text = h->kind == 'U' || h->kind == 'S' || h->kind == 'a';
    const npy_type_t *type = find_type(h, opaque);
    if (h->kind == 'O') return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: holds Python objects, which are never unpickled", label);
    if (!type && !text)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: NumPy element type %c%" PRId64 " is not supported%s", label, h->kind, h->width,
                       h->kind == 'V' ? " here; in .npz a suffix such as __bf16 tells what it is" : "");
    if (text && h->width == 0)
        return vn_fail(err, VN_ERR_PARSE, "%s: texts of width 0", label); /* nothing in the file would bound their number */
    int64_t bytes, unit = text ? h->width : type->width;
    if (h->kind == 'U' && !vn_i64_mul(unit, 4, &unit)) good = false;
    if (!good || !vn_i64_mul(count, unit, &bytes)) return vn_fail(err, VN_ERR_RANGE, "%s: its size overflows", label);
    if ((uint64_t)bytes != size)
        return vn_fail(err, VN_ERR_PARSE, "%s: %" PRId64 " elements need %" PRId64 " bytes, %zu follow the header; is the file complete?",
                       label, count, bytes, size);
    if (text) VN_TRY(vn_npy_texts(h->rank, dims, h->kind == 'U', h->width, h->order == '>', data, label, out, err));
    else VN_TRY(read_elements(type, h, dims, data, size, source, out, err));
    return h->fortran && h->rank > 1 ? turn(out, err) : VN_OK;
}

vn_status_t vn_npy_decode(const unsigned char *data, size_t size, const char *label, vn_source_t *source, bool opaque, vn_tensor_t **out,
                          vn_error_t *err) {
    *out = NULL;
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0) return vn_fail(err, VN_ERR_PARSE, "%s: is not a NumPy .npy array", label);
    const unsigned version = data[6];
    if (version < 1 || version > 3) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: .npy version %u is not known; 1 to 3 are", label, version);
    size_t start = version == 1 ? 10 : 12, length = (size_t)data[8] | (size_t)data[9] << 8;
    if (version > 1 && size >= 12) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (size < start || length > size - start)
        return vn_fail(err, VN_ERR_PARSE, "%s: its header runs past the end of the file (%zu bytes); is the file complete?", label, size);
    npy_head_t head = {0};
    const char *text = (const char *)data + start, *fault = read_dictionary((cursor_t){text, text + length}, &head);
    if (fault) return vn_fail(err, VN_ERR_PARSE, "%s: %s (header at offset %zu)", label, fault, start);
    start += length;
    const vn_status_t s = read_array(&head, data + start, size - start, label, source, opaque, out, err);
    if (s != VN_OK) {
        vn_tensor_free(*out);
        *out = NULL;
    }
    return s;
}

vn_status_t vn_npy_parse(const void *data, size_t size, const char *label, vn_tensor_t **out, vn_error_t *err) {
    return vn_npy_decode(data, size, label, NULL, false, out, err);
}

vn_status_t vn_npy_read(const char *path, vn_tensor_t **out, vn_error_t *err) {
    vn_source_t *source;
    *out = NULL;
    VN_TRY(vn_source_map(path, &source, err));
    const vn_status_t s = vn_npy_decode(source->data, source->size, path, source, false, out, err);
    vn_source_free(source);
    return s;
}

/* ---- writing ---- */

static void write_header(vn_text_t *h, const char *descr, const vn_tensor_t *t) {
    vn_text_addn(h, "\x93NUMPY\1\0\0\0", 10);
    vn_text_printf(h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int k = 0; k < t->rank; ++k) vn_text_printf(h, "%s%" PRId64, k ? ", " : "", t->dims[k]);
    vn_text_add(h, t->rank == 1 ? ",), }" : "), }");
    while ((h->length + 1) % 64 && !h->failed) vn_text_add(h, " ");
    vn_text_add(h, "\n");
    if (h->failed) return;
    h->data[8] = (char)((h->length - 10) & 0xff); /* at most 16 dims of 19 digits: two bytes are enough */
    h->data[9] = (char)((h->length - 10) >> 8);
}

vn_status_t vn_npy_encode(const vn_tensor_t *t, const char *label, vn_text_t *header, vn_tensor_t **dense, size_t *bytes, vn_error_t *err) {
    char descr[32];
    *dense = NULL;
    *bytes = 0;
    if (t->dtype == VN_STRING) {
        int64_t width;
        VN_TRY(vn_npy_from_texts(t, label, dense, &width, err));
        snprintf(descr, sizeof descr, "<U%" PRId64, width);
        *bytes = (size_t)((*dense)->count * 4);
    } else {
        const npy_type_t *type = NULL;
        for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
            if (types[k].dtype == t->dtype) type = &types[k];
        if (!type)
            return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: .npy has no element type for %s; .npz and .safetensors do", label,
                           vn_dtype_name(t->dtype));
        snprintf(descr, sizeof descr, "%c%c%d", type->part > 1 ? '<' : '|', type->kind, type->width);
        VN_TRY(vn_tensor_contiguous(t, dense, err));
        vn_dtype_storage(t->dtype, t->count, bytes);
    }
    write_header(header, descr, t);
    if (!header->failed) return VN_OK;
    vn_tensor_free(*dense);
    *dense = NULL;
    return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
}

vn_status_t vn_npy_write(const char *path, const vn_tensor_t *t, vn_error_t *err) {
    vn_text_t file = {0};
    vn_tensor_t *dense;
    size_t bytes;
    vn_status_t s = vn_npy_encode(t, path, &file, &dense, &bytes, err);
    if (s == VN_OK) {
        vn_text_addn(&file, dense->data, bytes);
        s = file.failed ? vn_fail(err, VN_ERR_NOMEM, "%s: no memory for %zu bytes", path, bytes)
                        : vn_write_file(path, file.data, file.length, err);
        vn_tensor_free(dense);
    }
    vn_text_free(&file);
    return s;
}
