/* The wire scanner: skeletons say what the source says, damage is named by its field, and protobuf-c accepts whatever passes. */
#include <stdlib.h>

#include "onnx-ml.pb-c.h"

#include "tensor/corrupt.h"
#include "tensor/wire.h"

/* ---- a small encoder of our own, so that messages can be wrong in any way ---- */

typedef struct bytes {
    unsigned char data[1 << 16];
    size_t n;
} bytes_t;

static void put(bytes_t *b, uint64_t x) {
    for (; x >= 0x80; x >>= 7) b->data[b->n++] = (unsigned char)(x | 0x80);
    b->data[b->n++] = (unsigned char)x;
}
static void put_int(bytes_t *b, unsigned field, uint64_t x) {
    put(b, field << 3);
    put(b, x);
}
static void put_bytes(bytes_t *b, unsigned field, const void *p, size_t n) {
    put(b, field << 3 | 2);
    put(b, n);
    memcpy(b->data + b->n, p, n);
    b->n += n;
}
static void put_text(bytes_t *b, unsigned field, const char *s) { put_bytes(b, field, s, strlen(s)); }

static bytes_t scratch_a, scratch_b, scratch_c, scratch_d;

/* ir_version 8; graph of 20 nodes with 4 attributes, the last of each a tensor of 100 raw bytes; one opset. */
static void model(bytes_t *out) {
    bytes_t *graph = &scratch_a, *node = &scratch_b, *attr = &scratch_c, *tensor = &scratch_d;
    graph->n = out->n = 0;
    for (int i = 0; i < 20; ++i) {
        node->n = 0;
        put_text(node, 1, "x");
        put_text(node, 2, "y");
        put_text(node, 4, "Op");
        for (int k = 0; k < 4; ++k) {
            attr->n = tensor->n = 0;
            put_text(attr, 1, "a");
            if (k < 3) {
                put_int(attr, 3, 7);
                put_int(attr, 20, 2);
            } else {
                unsigned char raw[100];
                memset(raw, i, sizeof raw);
                put_int(tensor, 1, 25);
                put_int(tensor, 2, 1);
                put_bytes(tensor, 9, raw, sizeof raw);
                put_bytes(attr, 5, tensor->data, tensor->n);
                put_int(attr, 20, 4);
            }
            put_bytes(node, 5, attr->data, attr->n);
        }
        put_bytes(graph, 1, node->data, node->n);
    }
    put_text(graph, 2, "g");
    put_int(out, 1, 8);
    put_bytes(out, 7, graph->data, graph->n);
    put_bytes(out, 8, "\x10\x11", 2);
}

static bytes_t file;

static vn_status_t scan_and_unpack(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_wire_scan_t s;
    VN_TRY(vn_wire_scan(data, size, VN_WIRE_MODEL, "m.onnx", &s, err));
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, s.size, s.skeleton);
    vn_wire_scan_free(&s);
    if (!m) return vn_fail(err, VN_ERR_INTERNAL, "protobuf-c refuses what the scanner passed");
    onnx__model_proto__free_unpacked(m, NULL);
    return VN_OK;
}

static const char *refusal(vn_test_t *t, const unsigned char *data, size_t size) {
    static vn_error_t err;
    vn_wire_scan_t s;
    VN_ASSERT_EQ(t, vn_wire_scan(data, size, VN_WIRE_MODEL, "m.onnx", &s, &err), VN_ERR_PARSE);
    VN_ASSERT(t, s.skeleton == NULL);
    VN_ASSERT_HAS(t, err.text, "m.onnx: ");
    return err.text;
}

VN_TEST(wire, the_skeleton_is_the_message) {
    vn_wire_scan_t s;
    vn_error_t err;
    model(&file);
    VN_ASSERT_OK_ERR(t, vn_wire_scan(file.data, file.n, VN_WIRE_MODEL, "m.onnx", &s, &err), err);
    VN_ASSERT(t, s.raw_count == 20 && s.raw_bytes == 2000 && s.size < file.n - 20 * 80);
    Onnx__ModelProto *a = onnx__model_proto__unpack(NULL, file.n, file.data), *b = onnx__model_proto__unpack(NULL, s.size, s.skeleton);
    VN_ASSERT(t, a && b && b->graph->n_node == 20);
    for (int i = 0; i < 20; ++i) { /* put the data back: then the two pack to the same bytes */
        Onnx__TensorProto *x = b->graph->node[i]->attribute[3]->t;
        const unsigned char *data;
        size_t n;
        VN_ASSERT(t, vn_wire_raw(x->raw_data.data, x->raw_data.len, file.data, file.n, &data, &n) && n == 100 && data[50] == i);
        VN_ASSERT(t, data > file.data && data + n <= file.data + file.n);
        free(x->raw_data.data);
        x->raw_data.data = malloc(n);
        x->raw_data.len = n;
        memcpy(x->raw_data.data, data, n);
    }
    const size_t na = onnx__model_proto__get_packed_size(a), nb = onnx__model_proto__get_packed_size(b);
    unsigned char *pa = malloc(na), *pb = malloc(nb);
    onnx__model_proto__pack(a, pa);
    onnx__model_proto__pack(b, pb);
    VN_ASSERT(t, na == nb && memcmp(pa, pb, na) == 0);
    free(pa);
    free(pb);
    onnx__model_proto__free_unpacked(a, NULL);
    onnx__model_proto__free_unpacked(b, NULL);
    vn_wire_scan_free(&s);
}

VN_TEST(wire, small_data_travels_inside) {
    for (size_t n = 0; n < 200; ++n) {
        vn_wire_scan_t s;
        unsigned char raw[200] = {0};
        const unsigned char *data;
        size_t length;
        raw[0] = 1; /* data that looks like a reference */
        file.n = 0;
        put_int(&file, 2, 3);
        put_bytes(&file, 9, raw, n);
        VN_ASSERT_OK(t, vn_wire_scan(file.data, file.n, VN_WIRE_TENSOR, "t.pb", &s, NULL));
        VN_ASSERT_EQ(t, s.raw_count, n > VN_WIRE_INLINE);
        VN_ASSERT(t, s.size * 2 <= file.n * 3);
        Onnx__TensorProto *x = onnx__tensor_proto__unpack(NULL, s.size, s.skeleton);
        VN_ASSERT(t, vn_wire_raw(x->raw_data.data, x->raw_data.len, file.data, file.n, &data, &length));
        VN_ASSERT(t, length == n && memcmp(data, raw, n) == 0);
        VN_ASSERT(t, !vn_wire_raw(x->raw_data.data, x->raw_data.len, file.data, 3, &data, &length) || n <= VN_WIRE_INLINE);
        onnx__tensor_proto__free_unpacked(x, NULL);
        vn_wire_scan_free(&s);
    }
    const unsigned char *data;
    size_t length;
    VN_ASSERT(t, !vn_wire_raw("", 0, file.data, file.n, &data, &length) && !vn_wire_raw("\2xx", 3, file.data, file.n, &data, &length));
}

VN_TEST(wire, a_cut_is_named_by_its_field) {
    model(&file);
    const size_t tail = 4, graph_end = file.n - tail; /* opset_import: tag, length, 2 bytes */
    size_t node17 = 0;
    for (size_t n = 0; n < file.n; ++n) {
        if (n == graph_end) continue; /* a whole model without opset_import */
        const char *text = refusal(t, file.data, n);
        if (strstr(text, "graph.node[17].attribute[2]")) node17 = n;
        if (n > 100 && n < graph_end) VN_ASSERT_HAS(t, text, "is the download complete?");
    }
    VN_ASSERT_GT(t, (double)node17, 0);
    char want[200];
    const char *text = refusal(t, file.data, node17);
    snprintf(want, sizeof want, " of %zu); is the download complete?", node17);
    VN_ASSERT_HAS(t, text, "m.onnx: graph.node[17].attribute[2]");
    VN_ASSERT_HAS(t, text, "field runs past the end of the file (offset ");
    VN_ASSERT_HAS(t, text, want);
}

VN_TEST(wire, lies_about_lengths_are_named) {
    file.n = 0;
    put_int(&file, 1, 8);
    put_bytes(&file, 7, "\x0a\x05\x22\x0aOp.", 7); /* graph{ node{ op_type: 10 bytes, node has 5 } } */
    put_bytes(&file, 8, "\x10\x11", 2);
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "graph.node[0].op_type: the field is longer than the message around it");
    file.n = 0;
    put_int(&file, 1, 8);
    put_bytes(&file, 7, "\x12\x01\x00", 3);
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "graph.name: a text holds a NUL byte");
    file.n = 0;
    put_int(&file, 1, 8);
    put_bytes(&file, 7, "\x10\x01", 2); /* graph.name as a number */
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "graph.name: the field has another wire type");
    file.n = 0;
    put_int(&file, 1, 8);
    put_text(&file, 7, "");
    put_text(&file, 7, "");
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "graph: the field occurs twice");
    file.n = 0;
    put_int(&file, 1, 8);
    put_bytes(&file, 7, "\x2a\x04\x22\x02\0\0", 6); /* graph.initializer[0].float_data: 2 bytes */
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n),
                  "graph.initializer[0].float_data[0]: a packed array of 4-byte numbers has a ragged end");
    file.n = 0;
    put_int(&file, 1, 8);
    put_bytes(&file, 7, "\x2a\x05\x3a\x03\x01\x02\x80", 7); /* graph.initializer[0].int64_data ends inside a number */
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "a packed array holds a broken number");
    file.n = 0;
    memcpy(file.data, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11);
    VN_ASSERT_HAS(t, refusal(t, file.data, 11), "a number is longer than 10 bytes");
}

/* Wraps the message in `b` in field f, `times` times. */
static void nest(bytes_t *b, unsigned f, int times) {
    for (; times > 0; --times) {
        scratch_a.n = 0;
        put_bytes(&scratch_a, f, b->data, b->n);
        memcpy(b->data, scratch_a.data, scratch_a.n);
        b->n = scratch_a.n;
    }
}

VN_TEST(wire, nesting_is_bounded) {
    for (int depth = 20; depth < 40; ++depth) {
        vn_wire_scan_t s;
        vn_error_t err;
        file.n = 0;
        put_bytes(&file, 6, "x", 1);      /* TypeProto.denotation */
        for (int k = 0; k < depth; ++k) { /* TypeProto.sequence_type.elem_type: two levels each */
            nest(&file, 1, 1);
            nest(&file, 4, 1);
        }
        const vn_status_t got = vn_wire_scan(file.data, file.n, VN_WIRE_TYPE, "t", &s, &err);
        VN_ASSERT_EQ(t, got, 2 * depth <= VN_WIRE_MAX_NESTING ? VN_OK : VN_ERR_PARSE);
        if (got != VN_OK) VN_ASSERT_HAS(t, err.text, "elem_type.sequence_type: messages are nested deeper than 64 levels");
        vn_wire_scan_free(&s);
    }
}

VN_TEST(wire, what_is_no_model_is_called_so) {
    static const struct {
        const char *data;
        size_t n;
        const char *text;
    } rows[] = {
        {"", 0, "the file is empty"},
        {"{\"a\": 1}", 8, "JSON"},
        {"<!DOCTYPE html>", 15, "HTML"},
        {"hello world, this is a text", 27, "text"},
        {"PK\3\4xxxxxxxxxxx", 15, "zip"},
        {"\x93NUMPY\1\0", 8, "NumPy"},
        {"GGUF\3\0\0\0", 8, "GGUF"},
        {"\x18\0\0\0ORTM........", 16, "ORT"},
        {"version https://git-lfs.github.com/spec/v1\noid", 46, "Git LFS pointer"},
        {"\x1f\x8b\x08\0\0\0\0\0", 8, "gzip"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        const char *text = refusal(t, (const unsigned char *)rows[k].data, rows[k].n);
        VN_ASSERT_HAS(t, text, "is not an ONNX model");
        VN_ASSERT_HAS(t, text, rows[k].text);
    }
    file.n = 0;
    put_int(&file, 1, 8);
    VN_ASSERT_HAS(t, refusal(t, file.data, file.n), "it holds no graph");
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 3000 * vn_test_scale(t); ++k) {
        unsigned char noise[64];
        vn_error_t err;
        for (size_t i = 0; i < sizeof noise; ++i) noise[i] = (unsigned char)vn_rng_u64(&rng);
        VN_ASSERT(t, scan_and_unpack(noise, vn_rng_below(&rng, sizeof noise), &err) != VN_OK);
        VN_ASSERT_EQ(t, err.status, VN_ERR_PARSE);
    }
}

VN_TEST(wire, unknown_fields_are_left_out) {
    vn_wire_scan_t s;
    file.n = 0;
    put_int(&file, 1, 8);
    put_text(&file, 999, "unknown");
    put(&file, 998 << 3 | 1);
    file.n += 8;
    put_text(&file, 7, "");
    VN_ASSERT_OK(t, vn_wire_scan(file.data, file.n, VN_WIRE_MODEL, "m.onnx", &s, NULL));
    VN_ASSERT(t, s.size == 4 && memcmp(s.skeleton, "\x08\x08\x3a\x00", 4) == 0);
    vn_wire_scan_free(&s);
}

VN_TEST(wire, what_passes_protobuf_c_accepts) {
    vn_rng_t rng = vn_test_rng(t);
    model(&file);
    for (int k = 0; k < 4000 * vn_test_scale(t); ++k) {
        unsigned char *copy = vn_alloc(file.n, 1);
        vn_error_t err;
        memcpy(copy, file.data, file.n);
        for (uint64_t n = 1 + vn_rng_below(&rng, 3); n > 0; --n) copy[vn_rng_below(&rng, file.n)] = (unsigned char)vn_rng_u64(&rng);
        const vn_status_t s = scan_and_unpack(copy, file.n, &err);
        if (s != VN_OK && s != VN_ERR_PARSE) vn_test_fail(t, __FILE__, __LINE__, "trial %d: %s", k, err.text);
        vn_free(copy);
    }
    VN_ASSERT_GE(t, corrupt_allocations(t, scan_and_unpack, file.data, file.n), 2);
}

VN_TEST_MAIN(VN_CASE(wire, the_skeleton_is_the_message), VN_CASE(wire, small_data_travels_inside),
             VN_CASE(wire, a_cut_is_named_by_its_field), VN_CASE(wire, lies_about_lengths_are_named), VN_CASE(wire, nesting_is_bounded),
             VN_CASE(wire, what_is_no_model_is_called_so), VN_CASE(wire, unknown_fields_are_left_out),
             VN_CASE(wire, what_passes_protobuf_c_accepts))
