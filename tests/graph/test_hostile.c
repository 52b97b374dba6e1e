/* Bad input: every one gives an error with file and field, or a valid model; nothing crashes, leaks or runs away. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made.h"
#include "protos.h"

/* A model with a body, weights above and below the inline limit, strings and a function: most fields of the format. */
static unsigned char *sample(vn_test_t *t, size_t *size) {
    vn_error_t err = {0};
    vn_model_t *m = made_if(t);
    void *data;
    vn_tensor_t *s;
    const int64_t dims[] = {3, 7};
    vn_tensor_t *w = made_f32(t, 2, dims, 0.5f);
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 1, (const int64_t[]){2}, &s, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(s, 0, "text", 4, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "strings", s, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "large", w, NULL));
    VN_ASSERT_OK(t, vn_node_set_ints(m, &m->graph->nodes[0], "axes", (const int64_t[]){-1, 300}, 2, NULL));
    VN_ASSERT_OK(t, vn_node_set_string(m, &m->graph->nodes[0], "mode", "nearest", NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_bytes(m, &data, size, &err), err);
    vn_tensor_free(s);
    vn_tensor_free(w);
    vn_model_free(m);
    return data;
}

/* Parses; a model that comes out must be usable: written, read, freed. A text that comes out must be one line. */
static vn_status_t try(vn_test_t *t, const void *data, size_t size) {
    vn_error_t err = {0};
    vn_model_t *m = (vn_model_t *)&err, *back;
    vn_status_t s = vn_model_parse(data, size, "bytes", NULL, &m, &err);
    if (s != VN_OK) {
        VN_ASSERT(t, !m && err.status == s && err.text[0] && !strchr(err.text, '\n'));
        VN_ASSERT_HAS(t, err.text, "bytes: ");
        return s;
    }
    void *again;
    size_t n;
    VN_ASSERT_OK_ERR(t, vn_model_bytes(m, &again, &n, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_parse(again, n, "again", NULL, &back, &err), err);
    vn_free(again);
    vn_model_free(back);
    vn_model_free(m);
    return s;
}

VN_TEST(hostile, every_prefix_is_refused_or_valid) {
    size_t size;
    unsigned char *data = sample(t, &size);
    int refused = 0;
    VN_ASSERT_EQ(t, try(t, data, size), VN_OK);
    for (size_t n = 0; n < size; ++n) {
        unsigned char *exact = vn_alloc(n, 1); /* its own block: reading one byte too far is seen by the sanitizer */
        memcpy(exact, data, n);
        refused += try(t, exact, n) != VN_OK;
        vn_free(exact);
    }
    VN_ASSERT(t, refused > (int)size * 9 / 10); /* only cuts between the last fields of the model leave a model */
    vn_free(data);
}

VN_TEST(hostile, single_byte_corruption) {
    vn_rng_t rng = vn_test_rng(t);
    size_t size;
    unsigned char *data = sample(t, &size);
    for (int i = 0; i < 600 * vn_test_scale(t); ++i) {
        size_t at = (size_t)vn_rng_below(&rng, size);
        unsigned char old = data[at];
        data[at] = (unsigned char)vn_rng_u64(&rng);
        try(t, data, size);
        data[at] = old;
    }
    VN_ASSERT_EQ(t, try(t, data, size), VN_OK);
    vn_free(data);
}

VN_TEST(hostile, random_bytes) {
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 300 * vn_test_scale(t); ++i) {
        unsigned char data[64];
        size_t n = (size_t)vn_rng_below(&rng, sizeof data + 1);
        for (size_t k = 0; k < n; ++k) data[k] = (unsigned char)vn_rng_u64(&rng);
        VN_ASSERT(t, try(t, data, n) != VN_OK);
    }
}

VN_TEST(hostile, what_is_no_model_is_called_so) {
    static const struct {
        const char *data;
        size_t size;
        const char *want;
    } rows[] = {
        {"", 0, "empty"},
        {"hello, this is a text file\n", 27, "not an ONNX model"},
        {"PK\003\004aaaaaaaaaaaaaaaa", 20, "zip"},
        {"\x08\x0a", 2, "graph"},                                                 /* ir_version 10 and nothing else */
        {"\x3a\x00", 2, "ir_version"},                                            /* an empty graph and nothing else */
        {"\x08\x7f\x3a\x00", 4, "newer"},                                         /* IR version 127 */
        {"\x08\x0a\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 12, "past the end"}, /* a graph of 2^63 bytes */
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_error_t err = {0};
        vn_model_t *m;
        VN_ASSERT(t, vn_model_parse(rows[k].data, rows[k].size, "bytes", NULL, &m, &err) != VN_OK);
        VN_ASSERT_HAS(t, err.text, "bytes: ");
        VN_ASSERT_HAS(t, err.text, rows[k].want);
    }
    vn_error_t err = {0};
    vn_model_t *m;
    VN_ASSERT_EQ(t, vn_model_read("/nonexistent/model.onnx", &m, &err), VN_ERR_IO);
    VN_ASSERT_HAS(t, err.text, "/nonexistent/model.onnx");
    VN_ASSERT_EQ(t, vn_model_read("/", &m, &err), VN_ERR_IO);
}

typedef void (*spoil_fn)(protos_t *p);
static const int64_t one[] = {1}, minus[] = {-5}, huge[] = {INT64_MAX, 4}, many[17] = {1};

static void newer_ir(protos_t *p) { p->model->ir_version = 99; }
static void no_ir(protos_t *p) { p->model->has_ir_version = false; }
static void two_opsets(protos_t *p) { PUSH(p, p->model, opset_import, proto_opset(p, "ai.onnx", 20)); }
static void zero_opset(protos_t *p) { p->model->opset_import[0]->version = 0; }
static void no_opset(protos_t *p) { p->model->n_opset_import = 0; }
static void unknown_type(protos_t *p) { p->graph->input[0]->type->tensor_type->elem_type = 77; }
static void six_bit_float(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 27, 1, one, "x", 1)); }
static void unknown_init(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 99, 1, one, "x", 1)); }
static void negative_dim(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 1, 1, minus, "", 0)); }
static void huge_dim(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 1, 2, huge, "abcd", 4)); }
static void high_rank(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 1, 17, many, "abcd", 4)); }
static void short_raw(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "w", 1, 1, one, "abc", 3)); }
static void negative_shape(protos_t *p) { PUSH(p, p->graph, value_info, proto_info(p, "v", 1, 1, minus)); }
static void high_rank_shape(protos_t *p) { PUSH(p, p->graph, value_info, proto_info(p, "v", 1, 17, many)); }
static void nameless_init(protos_t *p) { PUSH(p, p->graph, initializer, proto_tensor(p, "", 1, 1, one, "abcd", 4)); }
static void nameless_attr(protos_t *p) { proto_attr(p, p->graph->node[0], "", 2); }
static void bad_attr_type(protos_t *p) { proto_attr(p, p->graph->node[0], "a", 55); }
static void empty_attr(protos_t *p) { proto_attr(p, p->graph->node[0], "a", 0); }
static void tensorless_attr(protos_t *p) { proto_attr(p, p->graph->node[0], "a", 4); }
static void graphless_attr(protos_t *p) { proto_attr(p, p->graph->node[0], "a", 5); }
static void twin_attr(protos_t *p) {
    proto_attr(p, p->graph->node[0], "a", 2);
    proto_attr(p, p->graph->node[0], "a", 2);
}
static void many_twin_attrs(protos_t *p) {
    for (int k = 0; k < 20; ++k) proto_attr(p, p->graph->node[0], k == 19 ? "a3" : vn_arena_printf(p->arena, "a%d", k), 2);
}
static void cycle(protos_t *p) {
    PUSH(p, p->graph, node, proto_node(p, "Abs", "q", "r"));
    PUSH(p, p->graph, node, proto_node(p, "Abs", "r", "q"));
}
static void nobody(protos_t *p) { PUSH(p, p->graph, node, proto_node(p, "Abs", "nobody", "q")); }
static void twice(protos_t *p) { PUSH(p, p->graph, node, proto_node(p, "Abs", "x", "y")); }
static void function_of_itself(protos_t *p) {
    for (int k = 0; k < 2; ++k) {
        Onnx__FunctionProto *f = PROTO(p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
        f->name = proto_text(p, k ? "G" : "F");
        f->domain = proto_text(p, "local");
        Onnx__NodeProto *n = proto_node(p, k ? "F" : "G", NULL, "o");
        n->domain = proto_text(p, "local");
        PUSH(p, f, node, n);
        PUSH(p, p->model, functions, f);
    }
}
static void long_chain(protos_t *p) {
    for (int k = 0; k < 100; ++k) {
        Onnx__FunctionProto *f = PROTO(p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
        f->name = vn_arena_printf(p->arena, "F%d", (k * 37) % 100); /* in no helpful order */
        f->domain = proto_text(p, "local");
        Onnx__NodeProto *n = proto_node(p, vn_arena_printf(p->arena, "F%d", (k * 37) % 100 + 1), NULL, "o");
        n->domain = proto_text(p, "local");
        PUSH(p, f, node, n);
        PUSH(p, p->model, functions, f);
    }
}
static void twin_functions(protos_t *p) {
    Onnx__FunctionProto *f = PROTO(p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
    f->name = proto_text(p, "F");
    f->domain = proto_text(p, "local");
    PUSH(p, p->model, functions, f);
    PUSH(p, p->model, functions, f);
}
static void nobody_in_function(protos_t *p) {
    Onnx__FunctionProto *f = PROTO(p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
    f->name = proto_text(p, "F");
    f->domain = proto_text(p, "local");
    PUSH(p, f, node, proto_node(p, "Neg", "x", "o")); /* the caller's x is not visible */
    PUSH(p, p->model, functions, f);
}
static void opaque(protos_t *p) {
    p->graph->input[0]->type->value_case = ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE;
    p->graph->input[0]->type->opaque_type = PROTO(p, TypeProto__Opaque, ONNX__TYPE_PROTO__OPAQUE__INIT);
}

VN_TEST(hostile, fields_that_cannot_be) {
    static const struct {
        spoil_fn spoil;
        vn_status_t status;
        const char *want;
    } rows[] = {
        {newer_ir, VN_ERR_UNSUPPORTED, "ir_version 99"},
        {no_ir, VN_ERR_PARSE, "ir_version is missing"},
        {two_opsets, VN_ERR_PARSE, "version 21 and for version 20"},
        {zero_opset, VN_ERR_PARSE, "version 0"},
        {no_opset, VN_ERR_PARSE, "no opset_import for the default domain (ai.onnx), so the meaning of node number 0 (Neg)"},
        {unknown_type, VN_ERR_UNSUPPORTED, "type of value 'x': element type number 77"},
        {six_bit_float, VN_ERR_UNSUPPORTED, "'w'"},
        {unknown_init, VN_OK, "'w'"},
        {negative_dim, VN_ERR_RANGE, "initialiser 'w'"},
        {huge_dim, VN_ERR_RANGE, "initialiser 'w'"},
        {high_rank, VN_OK, "initialiser 'w'"},
        {short_raw, VN_ERR_PARSE, "initialiser 'w'"},
        {negative_shape, VN_ERR_RANGE, "value 'v': dimension 0 of a shape is -5"},
        {high_rank_shape, VN_ERR_UNSUPPORTED, "value 'v': a shape of rank 17"},
        {nameless_init, VN_ERR_PARSE, "initialiser 0 has no name"},
        {nameless_attr, VN_ERR_PARSE, "(Neg): an attribute has no name"},
        {bad_attr_type, VN_ERR_PARSE, "attribute 'a': its type (55)"},
        {empty_attr, VN_ERR_PARSE, "attribute 'a'"},
        {tensorless_attr, VN_ERR_PARSE, "field 't'"},
        {graphless_attr, VN_ERR_PARSE, "field 'g'"},
        {twin_attr, VN_ERR_PARSE, "attribute 'a' twice"},
        {many_twin_attrs, VN_ERR_PARSE, "attribute 'a3' twice"},
        {cycle, VN_ERR_PARSE, "cycle: node number "},
        {nobody, VN_ERR_PARSE, "node number 1 (Abs) reads 'nobody'"},
        {twice, VN_ERR_PARSE, "writes 'y', which node number 0 (Neg) writes too"},
        {function_of_itself, VN_ERR_PARSE, "calls itself"},
        {long_chain, VN_ERR_RANGE, "calls go more than 64 deep"},
        {twin_functions, VN_ERR_PARSE, "function 'F' (domain 'local', overload '') is there twice"},
        {nobody_in_function, VN_ERR_PARSE, "function 'F': node number 0 (Neg) reads 'x'"},
        {opaque, VN_ERR_UNSUPPORTED, "opaque"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_error_t err = {0};
        vn_model_t *m;
        protos_t p = proto_model(t);
        rows[k].spoil(&p);
        vn_status_t s = proto_parse(&p, NULL, &m, &err);
        if (s == VN_OK || (rows[k].status != VN_OK && s != rows[k].status))
            vn_test_fail(t, __FILE__, __LINE__, "row %zu (%s): status %s: %s", k, rows[k].want, vn_status_name(s), err.text);
        VN_ASSERT_HAS(t, err.text, "made: ");
        VN_ASSERT_HAS(t, err.text, rows[k].want);
    }
}

/* ir_version 10 */
static const unsigned char head[] = {0x08, 0x0a};

/* Wraps data[0, size) as a length-delimited field. Consumes data. */
static unsigned char *wrap(int field, unsigned char *data, size_t *size) {
    unsigned char *out = vn_alloc(*size + 12, 1);
    size_t n = 0, length = *size;
    out[n++] = (unsigned char)(field << 3 | 2);
    do {
        out[n++] = (unsigned char)((length & 127) | (length > 127 ? 128 : 0));
        length >>= 7;
    } while (length);
    memcpy(out + n, data, *size);
    vn_free(data);
    *size += n;
    return out;
}

/* graph { node { attribute { g { ... } } } } and type { sequence { elem { ... } } }, 10,000 levels. */
VN_TEST(hostile, deep_nesting) {
    static const int graph_fields[] = {1, 5, 6}, type_fields[] = {4, 1};
    for (int kind = 0; kind < 2; ++kind) {
        size_t size = 0;
        unsigned char *data = vn_alloc(1, 1);
        for (int level = 0; level < 10000; ++level)
            data = wrap(kind ? type_fields[(9999 - level) % 2] : graph_fields[(9999 - level) % 3], data, &size);
        if (kind) data = wrap(11, wrap(2, data, &size), &size);
        data = wrap(7, data, &size);
        vn_error_t err = {0};
        vn_model_t *m;
        unsigned char *whole = vn_alloc(size + sizeof head, 1);
        memcpy(whole, head, sizeof head);
        memcpy(whole + sizeof head, data, size);
        VN_ASSERT(t, vn_model_parse(whole, size + sizeof head, "bytes", NULL, &m, &err) != VN_OK);
        VN_ASSERT_HAS(t, err.text, "deep");
        vn_free(whole);
        vn_free(data);
    }
}

/* Bodies nested as deep as the format's limit of 64 messages allows do work; memory structures of any depth do not. */
VN_TEST(hostile, nesting_of_structures) {
    vn_error_t err = {0};
    vn_model_t *inner = made_model(t);
    NODE(inner->graph, "", "Neg", IN("x"), "r");
    vn_status_t s = VN_OK;
    int depth = 1;
    for (; depth < 200 && s == VN_OK; ++depth) {
        vn_model_t *m = made_model(t);
        vn_node_t *n = NODE(m->graph, "", "If", IN("x"), "r");
        vn_attr_t a = {.name = "then_branch", .kind = VN_ATTR_GRAPH, .g = inner->graph};
        s = vn_node_set_attr(m, n, &a, &err);
        vn_model_free(inner);
        inner = m;
    }
    VN_ASSERT_EQ(t, s, VN_ERR_RANGE);
    VN_ASSERT(t, depth > VN_MAX_NESTING && depth < VN_MAX_NESTING + 4);
    VN_ASSERT_HAS(t, err.text, "64");
    vn_model_free(inner);
}

static void set_entry(protos_t *p, Onnx__TensorProto *x, const char *key, const char *value) {
    Onnx__StringStringEntryProto *e = PROTO(p, StringStringEntryProto, ONNX__STRING_STRING_ENTRY_PROTO__INIT);
    e->key = proto_text(p, key);
    e->value = proto_text(p, value);
    PUSH(p, x, external_data, e);
}

VN_TEST(hostile, external_data) {
    static const struct {
        const char *location, *offset, *length;
        bool good;
    } rows[] = {
        {"w.bin", "0", "16", true},     {"w.bin", NULL, NULL, true},
        {"w.bin", "4", "16", false},    {"w.bin", "8", "8", false},
        {"w.bin", "-4", "16", false},   {"none.bin", "0", "16", false},
        {"../w.bin", "0", "16", false}, {"/etc/passwd", "0", "16", false},
        {"link.bin", "0", "16", false}, {"w.bin", "18446744073709551615", "16", false},
        {".", "0", "16", false},
    };
    char path[300], outside[300];
    const float data[4] = {1, 2, 3, 4};
    const int64_t dims[] = {4};
    snprintf(path, sizeof path, "mkdir -p %s/folder", vn_test_tmp());
    VN_ASSERT_EQ(t, system(path), 0);
    snprintf(path, sizeof path, "%s/folder/w.bin", vn_test_tmp());
    snprintf(outside, sizeof outside, "%s/w.bin", vn_test_tmp());
    VN_ASSERT_OK(t, vn_write_file(path, data, sizeof data, NULL));
    VN_ASSERT_OK(t, vn_write_file(outside, data, sizeof data, NULL));
    snprintf(path, sizeof path, "ln -s ../w.bin %s/folder/link.bin", vn_test_tmp());
    VN_ASSERT_EQ(t, system(path), 0);
    snprintf(path, sizeof path, "%s/folder", vn_test_tmp());
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_error_t err = {0};
        vn_model_t *m;
        protos_t p = proto_model(t);
        Onnx__TensorProto *x = proto_tensor(&p, "w", 1, 1, dims, "", 0);
        x->has_raw_data = false;
        x->has_data_location = true;
        x->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        set_entry(&p, x, "location", rows[k].location);
        if (rows[k].offset) set_entry(&p, x, "offset", rows[k].offset);
        if (rows[k].length) set_entry(&p, x, "length", rows[k].length);
        PUSH(&p, p.graph, initializer, x);
        vn_status_t s = proto_parse(&p, path, &m, &err);
        if ((s == VN_OK) != rows[k].good) vn_test_fail(t, __FILE__, __LINE__, "row %zu: %s %s", k, vn_status_name(s), err.text);
        if (rows[k].good) {
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(vn_graph_init(m->graph, "w"), 3), 4);
            vn_model_free(m);
        } else {
            VN_ASSERT_HAS(t, err.text, "initialiser 'w'");
        }
    }
}

/* Two bytes a node in the file are over a hundred in memory: such a file is refused before it takes gigabytes. */
VN_TEST(hostile, amplification_is_bounded) {
    size_t n = (size_t)2 << 20, size = n;
    unsigned char *data = vn_alloc(n, 1);
    for (size_t i = 0; i < n; i += 2) data[i] = 1 << 3 | 2; /* node {} */
    data = wrap(7, data, &size);
    unsigned char *whole = vn_alloc(size + sizeof head, 1);
    memcpy(whole, head, sizeof head);
    memcpy(whole + sizeof head, data, size);
    vn_error_t err = {0};
    vn_model_t *m;
    VN_ASSERT_EQ(t, vn_model_parse(whole, size + sizeof head, "bytes", NULL, &m, &err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, err.text, "unfold");
    vn_free(whole);
    vn_free(data);
}

/* Allocation 1, 2, 3 ... fails, until reading, cloning and writing succeed. */
VN_TEST(hostile, every_allocation_may_fail) {
    size_t size;
    unsigned char *data = sample(t, &size);
    vn_status_t s = VN_ERR_NOMEM;
    int k = 1;
    for (; s != VN_OK && k < 5000; ++k) {
        vn_error_t err = {0};
        vn_model_t *m = NULL, *clone = NULL;
        void *bytes = NULL;
        size_t n;
        vn_alloc_fail_at(k);
        s = vn_model_parse(data, size, "bytes", NULL, &m, &err);
        if (s == VN_OK) s = vn_model_clone(m, &clone, &err);
        if (s == VN_OK) s = vn_model_bytes(clone, &bytes, &n, &err);
        vn_alloc_fail_at(0);
        if (s != VN_OK && s != VN_ERR_NOMEM) vn_test_fail(t, __FILE__, __LINE__, "allocation %d: %s: %s", k, vn_status_name(s), err.text);
        vn_free(bytes);
        vn_model_free(clone);
        vn_model_free(m);
    }
    VN_ASSERT_EQ(t, s, VN_OK);
    VN_ASSERT(t, k > 100);
    vn_free(data);
}

VN_TEST_MAIN(VN_CASE(hostile, every_prefix_is_refused_or_valid), VN_CASE(hostile, single_byte_corruption), VN_CASE(hostile, random_bytes),
             VN_CASE(hostile, what_is_no_model_is_called_so), VN_CASE(hostile, fields_that_cannot_be), VN_CASE(hostile, deep_nesting),
             VN_CASE(hostile, nesting_of_structures), VN_CASE(hostile, external_data), VN_CASE(hostile, amplification_is_bounded),
             VN_CASE(hostile, every_allocation_may_fail))
