/* wire.c -- the bounded protobuf scanner and its skeletons. */
#include "tensor/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/wire_schema.h"

typedef struct frame {
    wire_message_t message;
    const char *field; /* by which it hangs on its parent; NULL at the top */
    int64_t index;     /* of a repeated field, else -1 */
    int64_t seen[WIRE_MAX_FIELDS];
} frame_t;

typedef struct scan {
    const unsigned char *data;
    size_t size;
    const char *label;
    vn_wire_kind_t kind;
    vn_text_t out;
    vn_wire_scan_t *result;
    vn_error_t *err;
    int64_t known; /* fields of the schema met so far */
    frame_t stack[VN_WIRE_MAX_NESTING + 1];
} scan_t;

static const struct {
    const char *start;
    size_t at, length;
    const char *what;
} magics[] = {
    {"PK\003\004", 0, 4, "a zip archive"},
    {"\037\213", 0, 2, "gzip-compressed data"},
    {"\x93NUMPY", 0, 6, "a NumPy array"},
    {"\x89HDF", 0, 4, "an HDF5 file"},
    {"GGUF", 0, 4, "a GGUF file"},
    {"TFL3", 4, 4, "a TensorFlow Lite model"},
    {"ORTM", 4, 4, "a model in the ORT flat-buffer format"},
    {"version https://git-lfs", 0, 23, "a Git LFS pointer, not the file itself"},
    {"{", 0, 1, "JSON text"},
    {"<", 0, 1, "XML or HTML text"},
};

static const char *const kind_names[] = {
    [VN_WIRE_MODEL] = "an ONNX model",        [VN_WIRE_GRAPH] = "an ONNX GraphProto",
    [VN_WIRE_NODE] = "an ONNX NodeProto",     [VN_WIRE_FUNCTION] = "an ONNX FunctionProto",
    [VN_WIRE_TENSOR] = "an ONNX TensorProto", [VN_WIRE_SPARSE] = "an ONNX SparseTensorProto",
    [VN_WIRE_TYPE] = "an ONNX TypeProto",
};

static const char *looks_like(const unsigned char *data, size_t size) {
    for (size_t k = 0; k < sizeof magics / sizeof *magics; ++k)
        if (size >= magics[k].at + magics[k].length && memcmp(data + magics[k].at, magics[k].start, magics[k].length) == 0)
            return magics[k].what;
    size_t printable = 0, head = size < 64 ? size : 64;
    for (size_t i = 0; i < head; ++i) printable += (data[i] >= 0x20 && data[i] < 0x7f) || (data[i] >= '\t' && data[i] <= '\r');
    return head && printable == head ? "text" : NULL;
}

/* ---- errors: the path of the field, with the indices of repeated ones ---- */

enum { PATH_ROOM = (VN_WIRE_MAX_NESTING + 2) * 64, PATH_SHOWN = 320 };

static void write_path(const scan_t *s, int depth, const wire_field_t *f, int64_t index, char out[PATH_ROOM]) {
    size_t n = 0;
    const size_t size = PATH_ROOM;
    out[0] = '\0';
    for (int k = 1; k <= depth + (f != NULL) && n + 1 < size; ++k) {
        const char *name = k <= depth ? s->stack[k].field : f->name;
        const int64_t i = k <= depth ? s->stack[k].index : index;
        int m = snprintf(out + n, size - n, "%s%s", k > 1 ? "." : "", name);
        n += m > 0 ? (size_t)m : 0;
        if (i >= 0 && n < size) {
            m = snprintf(out + n, size - n, "[%" PRId64 "]", i);
            n += m > 0 ? (size_t)m : 0;
        }
    }
    if (n <= PATH_SHOWN) return;
    const size_t tail = PATH_SHOWN / 2; /* a deep path: its beginning and its end say most */
    memcpy(out + PATH_SHOWN - tail, "...", 3);
    memmove(out + PATH_SHOWN - tail + 3, out + n - tail, tail + 1);
}

static const wire_field_t *find_field(wire_message_t m, uint64_t number, int *place) {
    const wire_row_t *row = &vn_wire_schema[m];
    for (int k = 0; k < row->count; ++k)
        if (row->fields[k].number == number) {
            *place = k;
            return &row->fields[k];
        }
    return NULL;
}

/* How often field `number` has been met in the outermost message. */
static int64_t seen(const scan_t *s, uint64_t number) {
    int place = 0;
    return find_field(s->stack[0].message, number, &place) ? s->stack[0].seen[place] : 0;
}

/* Whether what was read so far is of the kind it should be; if not, an error says so before any detail. */
static bool plausible(const scan_t *s) {
    if (s->kind == VN_WIRE_MODEL) return seen(s, 1) || seen(s, 7) || seen(s, 8); /* ir_version, graph, opset_import */
    return s->known > 0;
}

static vn_status_t refuse_alien(const scan_t *s, size_t offset, const char *why) {
    const char *what = looks_like(s->data, s->size);
    if (what) return vn_fail(s->err, VN_ERR_PARSE, "%s: is not %s: it looks like %s", s->label, kind_names[s->kind], what);
    return vn_fail(s->err, VN_ERR_PARSE, "%s: is not %s: %s (offset %zu of %zu)", s->label, kind_names[s->kind], why, offset, s->size);
}

static vn_status_t refuse(const scan_t *s, int depth, const wire_field_t *f, int64_t index, size_t offset, const char *why) {
    char path[PATH_ROOM];
    write_path(s, depth, f, index, path);
    if (!plausible(s)) return refuse_alien(s, offset, why);
    return vn_fail(s->err, VN_ERR_PARSE, "%s: %s%s%s (offset %zu of %zu)", s->label, path, *path ? ": " : "", why, offset, s->size);
}

static vn_status_t refuse_cut(const scan_t *s, int depth, const wire_field_t *f, int64_t index, size_t offset) {
    char path[PATH_ROOM];
    write_path(s, depth, f, index, path);
    if (!plausible(s)) return refuse_alien(s, offset, "a field runs past the end of the file");
    return vn_fail(s->err, VN_ERR_PARSE, "%s: %s%sfield runs past the end of the file (offset %zu of %zu); is the download complete?",
                   s->label, path, *path ? ": " : "", offset, s->size);
}

/* ---- reading and writing ---- */

typedef enum varint_result { VARINT_OK, VARINT_ENDS, VARINT_LONG } varint_result_t;

static varint_result_t read_varint(const unsigned char *data, size_t *at, size_t end, uint64_t *out) {
    uint64_t x = 0;
    size_t p = *at;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p >= end) return VARINT_ENDS;
        const unsigned char b = data[p++];
        if (shift == 63 && b > 1) return VARINT_LONG;
        x |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *at = p;
            *out = x;
            return VARINT_OK;
        }
    }
    return VARINT_LONG;
}

static size_t varint_bytes(uint64_t x, unsigned char out[10]) {
    size_t n = 0;
    while (x >= 0x80) {
        out[n++] = (unsigned char)(x | 0x80);
        x >>= 7;
    }
    out[n++] = (unsigned char)x;
    return n;
}

static void put_varint(scan_t *s, uint64_t x) {
    unsigned char b[10];
    vn_text_addn(&s->out, (const char *)b, varint_bytes(x, b));
}

/* Bytes of a payload of a wire type that is not length-delimited; 0: varint. */
static size_t fixed_size(unsigned wire) { return wire == 1 ? 8 : wire == 5 ? 4 : 0; }

/* The wire type that a single value of a schema type has. */
static unsigned single_wire(const wire_field_t *f) {
    return f->type == WIRE_VARINT ? 0 : f->type == WIRE_FIX64 ? 1 : f->type == WIRE_FIX32 ? 5 : 2;
}

static bool wire_fits(const wire_field_t *f, unsigned wire) {
    return wire == single_wire(f) || (wire == 2 && f->repeated && f->type <= WIRE_FIX64); /* packed */
}

static vn_status_t scan_message(scan_t *s, int depth, size_t begin, size_t end);

/* What a packed array may hold: whole numbers of its width, or varints that end inside it. */
static const char *packed_fault(const scan_t *s, const wire_field_t *f, size_t begin, size_t end) {
    uint64_t x;
    if (f->type == WIRE_FIX32) return (end - begin) % 4 ? "a packed array of 4-byte numbers has a ragged end" : NULL;
    if (f->type == WIRE_FIX64) return (end - begin) % 8 ? "a packed array of 8-byte numbers has a ragged end" : NULL;
    while (begin < end)
        if (read_varint(s->data, &begin, end, &x) != VARINT_OK) return "a packed array holds a broken number";
    return NULL;
}

static void put_raw(scan_t *s, size_t begin, size_t length) {
    unsigned char ref[17] = {1};
    if (length <= VN_WIRE_INLINE) {
        put_varint(s, length + 1);
        vn_text_addn(&s->out, "\0", 1);
        vn_text_addn(&s->out, (const char *)s->data + begin, length);
        return;
    }
    for (int k = 0; k < 8; ++k) {
        ref[1 + k] = (unsigned char)((uint64_t)begin >> (8 * k));
        ref[9 + k] = (unsigned char)((uint64_t)length >> (8 * k));
    }
    put_varint(s, sizeof ref);
    vn_text_addn(&s->out, (const char *)ref, sizeof ref);
    ++s->result->raw_count;
    s->result->raw_bytes += length;
}

/* A message inside a message. Its new length is known only afterwards: room for the old one is left, and corrected if it was wrong. */
static vn_status_t scan_child(scan_t *s, int depth, const wire_field_t *f, int64_t index, size_t begin, size_t end) {
    if (depth >= VN_WIRE_MAX_NESTING) return refuse(s, depth, f, index, begin, "messages are nested deeper than 64 levels");
    if (++s->result->messages > VN_WIRE_MAX_MESSAGES) return refuse(s, depth, f, index, begin, "more than 8388608 messages");
    frame_t *child = &s->stack[depth + 1];
    child->message = (wire_message_t)f->message;
    child->field = f->name;
    child->index = index;
    memset(child->seen, 0, sizeof child->seen);
    unsigned char length[10];
    const size_t guess = varint_bytes(end - begin, length), place = s->out.length;
    vn_text_addn(&s->out, (const char *)length, guess);
    VN_TRY(scan_message(s, depth + 1, begin, end));
    if (s->out.failed) return VN_OK; /* reported once, at the end */
    const size_t body = s->out.length - place - guess, n = varint_bytes(body, length);
    if (n > guess) vn_text_addn(&s->out, "          ", n - guess);
    if (s->out.failed) return VN_OK;
    memmove(s->out.data + place + n, s->out.data + place + guess, body);
    memcpy(s->out.data + place, length, n);
    s->out.length = place + n + body;
    return VN_OK;
}

/* A length-delimited field of the schema, its payload at [begin, end). */
static vn_status_t scan_delimited(scan_t *s, int depth, const wire_field_t *f, int64_t index, size_t begin, size_t end) {
    const char *fault = NULL;
    put_varint(s, (uint64_t)f->number << 3 | 2);
    if (f->type == WIRE_MESSAGE) return scan_child(s, depth, f, index, begin, end);
    if (f->type == WIRE_RAW) {
        put_raw(s, begin, end - begin);
        return VN_OK;
    }
    if (f->type == WIRE_TEXT && memchr(s->data + begin, 0, end - begin)) fault = "a text holds a NUL byte";
    if (f->type <= WIRE_FIX64) fault = packed_fault(s, f, begin, end);
    if (fault) return refuse(s, depth, f, index, begin, fault);
    put_varint(s, end - begin);
    vn_text_addn(&s->out, (const char *)s->data + begin, end - begin);
    return VN_OK;
}

static vn_status_t scan_field(scan_t *s, int depth, size_t *at, size_t end) {
    const size_t start = *at;
    uint64_t tag, length;
    const varint_result_t head = read_varint(s->data, at, end, &tag);
    if (head == VARINT_ENDS && end == s->size) return refuse_cut(s, depth, NULL, -1, end);
    if (head != VARINT_OK || tag > UINT32_MAX) return refuse(s, depth, NULL, -1, start, "a field's tag is broken");
    const unsigned wire = (unsigned)(tag & 7);
    int place = 0;
    const wire_field_t *f = find_field(s->stack[depth].message, tag >> 3, &place);
    const int64_t before = f ? s->stack[depth].seen[place] : 0, index = f && f->repeated ? before : -1;
    if (tag >> 3 == 0) return refuse(s, depth, NULL, -1, start, "a field has the number 0");
    if (wire != 0 && wire != 1 && wire != 2 && wire != 5) return refuse(s, depth, f, index, start, "a field has an unknown wire type");
    if (f && before && !f->repeated && f->type >= WIRE_RAW) return refuse(s, depth, f, index, start, "the field occurs twice");
    if (f && !wire_fits(f, wire)) return refuse(s, depth, f, index, start, "the field has another wire type than in the ONNX format");
    if (f) ++s->stack[depth].seen[place];

    if (wire != 2) {
        const size_t begin = *at, n = fixed_size(wire);
        const varint_result_t r = n ? (n <= end - begin ? VARINT_OK : VARINT_ENDS) : read_varint(s->data, at, end, &length);
        if (r == VARINT_LONG) return refuse(s, depth, f, index, begin, "a number is longer than 10 bytes");
        if (r == VARINT_ENDS) {
            if (end == s->size) return refuse_cut(s, depth, f, index, n ? begin + n : end + 1);
            return refuse(s, depth, f, index, begin, "a number runs past the end of its message");
        }
        if (n) *at = begin + n;
        if (!f) return VN_OK; /* unknown fields are left out */
        put_varint(s, tag);
        vn_text_addn(&s->out, (const char *)s->data + begin, *at - begin);
        ++s->known;
        return VN_OK;
    }

    const varint_result_t r = read_varint(s->data, at, end, &length);
    if (r == VARINT_ENDS && end == s->size) return refuse_cut(s, depth, f, index, end + 1);
    if (r != VARINT_OK) return refuse(s, depth, f, index, start, "a field's length is broken");
    const size_t begin = *at;
    if (length > end - begin) {
        /* Past the end of the file, unless an enclosing message ends earlier: then that one, or this, lies. */
        if (end != s->size) return refuse(s, depth, f, index, start, "the field is longer than the message around it");
        const uint64_t claimed = length > UINT64_MAX - begin ? UINT64_MAX : begin + length;
        if (f && f->type == WIRE_MESSAGE) VN_TRY(scan_child(s, depth, f, index, begin, end)); /* the innermost cut field names itself */
        return refuse_cut(s, depth, f, index, (size_t)claimed);
    }
    *at = begin + (size_t)length;
    if (!f) return VN_OK;
    ++s->known;
    return scan_delimited(s, depth, f, index, begin, *at);
}

static vn_status_t scan_message(scan_t *s, int depth, size_t begin, size_t end) {
    while (begin < end) VN_TRY(scan_field(s, depth, &begin, end));
    return VN_OK;
}

/* ---- the whole ---- */

static const wire_message_t roots[] = {
    [VN_WIRE_MODEL] = M_MODEL,   [VN_WIRE_GRAPH] = M_GRAPH,   [VN_WIRE_NODE] = M_NODE, [VN_WIRE_FUNCTION] = M_FUNCTION,
    [VN_WIRE_TENSOR] = M_TENSOR, [VN_WIRE_SPARSE] = M_SPARSE, [VN_WIRE_TYPE] = M_TYPE,
};

vn_status_t vn_wire_scan(const void *data, size_t size, vn_wire_kind_t kind, const char *label, vn_wire_scan_t *out, vn_error_t *err) {
    *out = (vn_wire_scan_t){0};
    scan_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
    *s = (scan_t){.data = data, .size = size, .label = label, .kind = kind, .result = out, .err = err};
    s->stack[0] = (frame_t){.message = roots[kind], .index = -1};
    vn_status_t status;
    if (size == 0 && (kind == VN_WIRE_MODEL || kind == VN_WIRE_TENSOR))
        status = vn_fail(err, VN_ERR_PARSE, "%s: is not %s: the file is empty", label, kind_names[kind]);
    else status = scan_message(s, 0, 0, size);
    if (status == VN_OK && kind == VN_WIRE_MODEL && !seen(s, 7)) status = refuse(s, 0, NULL, -1, size, "it holds no graph");
    if (status == VN_OK && !s->out.failed && !s->out.data) vn_text_add(&s->out, ""); /* an empty message has an address too */
    if (status == VN_OK && s->out.failed) status = vn_fail(err, VN_ERR_NOMEM, "%s: no memory for a skeleton of the model", label);
    if (status == VN_OK && s->out.length > INT32_MAX)
        status = vn_fail(err, VN_ERR_UNSUPPORTED, "%s: more than 2 GiB besides raw data", label);
    if (status == VN_OK) {
        out->skeleton = (unsigned char *)s->out.data;
        out->size = s->out.length;
    } else {
        vn_text_free(&s->out);
        *out = (vn_wire_scan_t){0};
    }
    vn_free(s);
    return status;
}

void vn_wire_scan_free(vn_wire_scan_t *scan) {
    vn_free(scan->skeleton);
    *scan = (vn_wire_scan_t){0};
}

bool vn_wire_raw(const void *field, size_t field_size, const unsigned char *source, size_t size, const unsigned char **data,
                 size_t *length) {
    const unsigned char *p = field;
    *data = NULL;
    *length = 0;
    if (field_size == 0) return false;
    if (p[0] == 0) {
        *data = p + 1;
        *length = field_size - 1;
        return true;
    }
    if (p[0] != 1 || field_size != 17) return false;
    uint64_t offset = 0, n = 0;
    for (int k = 7; k >= 0; --k) {
        offset = offset << 8 | p[1 + k];
        n = n << 8 | p[9 + k];
    }
    if (offset > size || n > size - offset) return false;
    *data = source + offset;
    *length = (size_t)n;
    return true;
}
