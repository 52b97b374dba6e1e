/* read(write(m)) is m: structure, order, and the bits of every tensor. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"
#include "made.h"
#include "protos.h"
#include "same.h"

static vn_model_t *again(vn_test_t *t, const vn_model_t *m) {
    vn_error_t err = {0};
    vn_model_t *back = NULL;
    void *data;
    size_t size;
    VN_ASSERT_OK_ERR(t, vn_model_bytes(m, &data, &size, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_parse(data, size, "again", NULL, &back, &err), err);
    vn_free(data);
    return back;
}

static void check(vn_test_t *t, const vn_model_t *m) {
    vn_error_t err = {0};
    vn_model_t *back = again(t, m), *clone;
    VN_ASSERT(t, same_model(m, back));
    VN_ASSERT_OK_ERR(t, vn_model_clone(back, &clone, &err), err);
    vn_model_free(back); /* the clone shares nothing that dies */
    VN_ASSERT(t, same_model(m, clone));
    vn_model_free(clone);
}

VN_TEST(roundtrip, bodies_and_initialisers) {
    vn_error_t err = {0};
    vn_model_t *m = made_if(t);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    check(t, m);
    vn_model_free(m);
}

/* Every element type, with random bits, ranks 0 to 3 and an empty tensor. */
VN_TEST(roundtrip, all_element_types) {
    vn_rng_t rng = vn_test_rng(t);
    vn_error_t err = {0};
    vn_model_t *m = made_model(t);
    for (int type = 1; type < VN_DTYPE_COUNT; ++type)
        for (int shape = 0; shape < 4; ++shape) {
            static const int64_t dims[4][3] = {{0}, {37}, {0, 5}, {3, 5, 7}};
            static const int ranks[] = {0, 1, 2, 3};
            char name[32];
            vn_tensor_t *x;
            size_t bytes;
            snprintf(name, sizeof name, "t%d_%d", type, shape);
            VN_ASSERT_OK_ERR(t, vn_tensor_new((vn_dtype_t)type, ranks[shape], dims[shape], &x, &err), err);
            if (type == VN_STRING) {
                for (int64_t i = 0; i < x->count; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, "a\0b\xff", (size_t)(i % 5), NULL));
            } else if (type == VN_BOOL) {
                for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, (int64_t)vn_rng_below(&rng, 2));
            } else {
                VN_ASSERT(t, vn_dtype_storage((vn_dtype_t)type, x->count, &bytes));
                if (vn_dtype_bits((vn_dtype_t)type) < 8)
                    bytes = bytes ? bytes - 1 : 0; /* the last byte may hold unused bits: they stay 0 */
                for (size_t i = 0; i < bytes; ++i) ((unsigned char *)x->data)[i] = (unsigned char)vn_rng_u64(&rng);
            }
            VN_ASSERT_OK(t, vn_graph_add_init(m->graph, name, x, NULL));
            vn_tensor_free(x);
        }
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    check(t, m);
    vn_model_free(m);
}

VN_TEST(roundtrip, views_are_written_as_they_look) {
    const int64_t dims[] = {3, 4};
    vn_error_t err = {0};
    vn_model_t *m = made_model(t), *back;
    vn_tensor_t *x = made_f32(t, 2, dims, 1), *turned;
    VN_ASSERT_OK(t, vn_tensor_permute(x, (const int[]){1, 0}, &turned, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "turned", turned, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    back = again(t, m);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(vn_graph_init(back->graph, "turned"), 1), 5);
    VN_ASSERT_EQ(t, vn_graph_init(back->graph, "turned")->dims[0], 4);
    vn_tensor_free(x);
    vn_tensor_free(turned);
    vn_model_free(back);
    vn_model_free(m);
}

/* Function F(a) with an attribute default, a reference, an overload, value_info and its own opsets; called twice. */
static void add_function(protos_t *p) {
    Onnx__FunctionProto *f = PROTO(p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
    f->name = proto_text(p, "F");
    f->domain = proto_text(p, "local");
    f->overload = proto_text(p, "o1");
    PUSH(p, f, input, proto_text(p, "a"));
    PUSH(p, f, output, proto_text(p, "b"));
    PUSH(p, f, attribute, proto_text(p, "slope"));
    Onnx__AttributeProto *d = proto_attr(p, NULL, "alpha", 1);
    d->has_f = true;
    d->f = 0.25f;
    PUSH(p, f, attribute_proto, d);
    PUSH(p, f, opset_import, proto_opset(p, "", 19));
    Onnx__NodeProto *n = proto_node(p, "LeakyRelu", "a", "m"), *e = proto_node(p, "Elu", "m", "b");
    proto_attr(p, n, "alpha", 1)->ref_attr_name = proto_text(p, "slope");
    proto_attr(p, e, "alpha", 1)->ref_attr_name = proto_text(p, "alpha");
    PUSH(p, f, node, n);
    PUSH(p, f, node, e);
    PUSH(p, f, value_info, proto_info(p, "m", 1, 0, NULL));
    PUSH(p, p->model, functions, f);
    PUSH(p, p->model, opset_import, proto_opset(p, "local", 1));
    Onnx__NodeProto *call = proto_node(p, "F", "y", "z");
    call->domain = proto_text(p, "local");
    call->overload = proto_text(p, "o1");
    Onnx__AttributeProto *slope = proto_attr(p, call, "slope", 1);
    slope->has_f = true;
    slope->f = 0.5f;
    PUSH(p, p->graph, node, call);
}

VN_TEST(roundtrip, functions) {
    vn_error_t err = {0};
    protos_t p = proto_model(t);
    vn_model_t *m;
    add_function(&p);
    VN_ASSERT_OK_ERR(t, proto_parse(&p, NULL, &m, &err), err);
    const vn_function_t *f = vn_model_function(m, "local", "F", "o1");
    VN_ASSERT(t, f && !vn_model_function(m, "local", "F", NULL) && !vn_model_function(m, "", "F", "o1"));
    VN_ASSERT_STR(t, f->body->nodes[0].attrs[0].ref, "slope");
    VN_ASSERT_EQ(t, f->body->nodes[0].attrs[0].kind, VN_ATTR_FLOAT);
    VN_ASSERT_STR(t, f->body->nodes[1].path, "Elu_1");
    VN_ASSERT_DEQ(t, f->attr_defaults[0].f, 0.25);
    VN_ASSERT_DEQ(t, vn_node_float(&f->body->nodes[0], "alpha", -1), -1); /* a reference has no value of its own */
    VN_ASSERT_EQ(t, f->opsets[0].version, 19);
    check(t, m);
    vn_model_free(m);
}

VN_TEST(roundtrip, attributes_of_every_kind) {
    vn_error_t err = {0};
    protos_t p = proto_model(t);
    Onnx__NodeProto *n = p.graph->node[0];
    const int64_t two[] = {2}, dims[] = {2, 3}, places[] = {1, 5};
    const float values[] = {1.5f, -2.5f};
    Onnx__SparseTensorProto *s = PROTO(&p, SparseTensorProto, ONNX__SPARSE_TENSOR_PROTO__INIT);
    s->values = proto_tensor(&p, "", 1, 1, two, values, sizeof values);
    s->indices = proto_tensor(&p, "", 7, 1, two, places, sizeof places);
    s->n_dims = 2;
    s->dims = (int64_t *)dims;
    Onnx__TypeProto *seq = PROTO(&p, TypeProto, ONNX__TYPE_PROTO__INIT);
    seq->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    seq->sequence_type = PROTO(&p, TypeProto__Sequence, ONNX__TYPE_PROTO__SEQUENCE__INIT);
    seq->sequence_type->elem_type = proto_info(&p, "", 10, 2, dims)->type;
    Onnx__TypeProto *map = PROTO(&p, TypeProto, ONNX__TYPE_PROTO__INIT);
    map->value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
    map->map_type = PROTO(&p, TypeProto__Map, ONNX__TYPE_PROTO__MAP__INIT);
    map->map_type->has_key_type = true;
    map->map_type->key_type = 8;
    map->map_type->value_type = seq;
    Onnx__GraphProto *body = PROTO(&p, GraphProto, ONNX__GRAPH_PROTO__INIT);
    body->name = proto_text(&p, "body");
    PUSH(&p, body, node, proto_node(&p, "Abs", "x", "q"));
    ProtobufCBinaryData text = {.len = 3, .data = (uint8_t *)"a\0c"};
    float floats[] = {0.1f, -0.0f};
    int64_t ints[] = {INT64_MIN, 0, INT64_MAX};
    Onnx__AttributeProto *a = proto_attr(&p, n, "string", 3);
    a->has_s = true;
    a->s = text;
    a = proto_attr(&p, n, "floats", 6), a->floats = floats, a->n_floats = 2;
    a = proto_attr(&p, n, "ints", 7), a->ints = ints, a->n_ints = 3;
    a = proto_attr(&p, n, "strings", 8), a->strings = &text, a->n_strings = 1;
    proto_attr(&p, n, "empty", 7);
    a = proto_attr(&p, n, "tensors", 9);
    PUSH(&p, a, tensors, s->values);
    PUSH(&p, a, tensors, s->indices);
    proto_attr(&p, n, "graphs", 10);
    PUSH(&p, n->attribute[6], graphs, body);
    PUSH(&p, n->attribute[6], graphs, body);
    proto_attr(&p, n, "sparse", 11)->sparse_tensor = s;
    a = proto_attr(&p, n, "sparses", 12);
    PUSH(&p, a, sparse_tensors, s);
    proto_attr(&p, n, "type", 13)->tp = map;
    a = proto_attr(&p, n, "types", 14);
    PUSH(&p, a, type_protos, seq);
    PUSH(&p, a, type_protos, map);
    a = proto_attr(&p, n, "untyped", 0), a->has_i = true, a->i = 5; /* IR version 1 left the type out */
    vn_model_t *m;
    VN_ASSERT_OK_ERR(t, proto_parse(&p, NULL, &m, &err), err);
    const vn_node_t *back = &m->graph->nodes[0];
    VN_ASSERT_EQ(t, vn_node_attr(back, "string")->s.length, 3);
    VN_ASSERT_EQ(t, vn_node_attr(back, "sparse")->t->count, 6);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(vn_node_attr(back, "sparse")->t, 5), -2.5);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(vn_node_attr(back, "sparse")->t, 4), 0);
    VN_ASSERT_EQ(t, vn_node_int(back, "untyped", 0), 5);
    VN_ASSERT_STR(t, vn_node_attr(back, "graphs")->graphs[1]->nodes[0].path, "Neg_0/graphs.1/Abs_0");
    check(t, m);
    vn_model_free(m);
}

VN_TEST(roundtrip, head_types_and_metadata) {
    vn_error_t err = {0};
    protos_t p = proto_model(t);
    const int64_t dims[] = {-1, 4};
    Onnx__ValueInfoProto *v = proto_info(&p, "w", 16, 2, dims);
    v->type->tensor_type->shape->dim[1]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    v->type->tensor_type->shape->dim[1]->dim_param = proto_text(&p, "width");
    PUSH(&p, p.graph, value_info, v);
    PUSH(&p, p.graph, value_info, proto_info(&p, "open", 7, -1, NULL));
    Onnx__ValueInfoProto *bare = PROTO(&p, ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    bare->name = proto_text(&p, "untyped");
    PUSH(&p, p.graph, value_info, bare);
    Onnx__StringStringEntryProto *e = PROTO(&p, StringStringEntryProto, ONNX__STRING_STRING_ENTRY_PROTO__INIT);
    e->key = proto_text(&p, "key");
    e->value = proto_text(&p, "value");
    PUSH(&p, p.model, metadata_props, e);
    PUSH(&p, p.model, opset_import, proto_opset(&p, "com.microsoft", 1));
    p.model->opset_import[0]->domain = proto_text(&p, "ai.onnx"); /* another spelling of "" */
    p.graph->node[0]->domain = proto_text(&p, "ai.onnx");
    p.model->producer_name = proto_text(&p, "maker");
    p.model->has_model_version = true;
    p.model->model_version = 3;
    vn_model_t *m;
    VN_ASSERT_OK_ERR(t, proto_parse(&p, NULL, &m, &err), err);
    VN_ASSERT_EQ(t, vn_model_opset(m, ""), 21);
    VN_ASSERT_EQ(t, vn_model_opset(m, "ai.onnx"), 21);
    VN_ASSERT_EQ(t, vn_model_opset(m, "ai.onnx.ml"), -1);
    VN_ASSERT_STR(t, m->graph->nodes[0].domain, "");
    const vn_value_info_t *w = vn_graph_info(m->graph, "w");
    VN_ASSERT_EQ(t, w->type.dims[0].value, -1);
    VN_ASSERT(t, !w->type.dims[0].param);
    VN_ASSERT_STR(t, w->type.dims[1].param, "width");
    VN_ASSERT_EQ(t, strlen(m->sha256), 64);
    check(t, m);
    vn_model_free(m);
}

VN_TEST(roundtrip, sparse_initialisers_arrive_dense) {
    vn_error_t err = {0};
    protos_t p = proto_model(t);
    const int64_t two[] = {2}, pairs[] = {2, 2}, dims[] = {2, 3}, places[] = {0, 1, 1, 2};
    const float values[] = {1.5f, -2.5f};
    Onnx__SparseTensorProto *s = PROTO(&p, SparseTensorProto, ONNX__SPARSE_TENSOR_PROTO__INIT);
    s->values = proto_tensor(&p, "w", 1, 1, two, values, sizeof values);
    s->indices = proto_tensor(&p, "", 7, 2, pairs, places, sizeof places);
    s->n_dims = 2;
    s->dims = (int64_t *)dims;
    PUSH(&p, p.graph, sparse_initializer, s);
    vn_model_t *m;
    VN_ASSERT_OK_ERR(t, proto_parse(&p, NULL, &m, &err), err);
    const vn_tensor_t *w = vn_graph_init(m->graph, "w");
    const double want[] = {0, 1.5, 0, 0, 0, -2.5};
    VN_ASSERT(t, w && w->rank == 2);
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(w, i), want[i]);
    check(t, m);
    vn_model_free(m);
}

VN_TEST(roundtrip, large_tensors_go_beside_the_model) {
    vn_error_t err = {0};
    const int64_t large[] = {1000}, small[] = {10};
    char path[200];
    snprintf(path, sizeof path, "%s/large.onnx", vn_test_tmp());
    vn_model_t *m = made_model(t), *back;
    vn_tensor_t *a = made_f32(t, 1, large, 0), *b = made_f32(t, 1, large, 7), *c = made_f32(t, 1, small, 3);
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "a", a, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "b", b, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "c", c, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_write_limited(m, path, 2000, 100, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_read(path, &back, &err), err);
    VN_ASSERT(t, same_model(m, back));
    VN_ASSERT_STR(t, back->path, path);
    VN_ASSERT_STR(t, back->folder, vn_test_tmp());
    vn_map_t map;
    VN_ASSERT_OK(t, vn_map_file(path, &map, NULL));
    VN_ASSERT(t, map.size < 600);
    vn_model_t *refused;
    VN_ASSERT(t, vn_model_parse(map.data, map.size, "bytes", NULL, &refused, &err) != VN_OK); /* no folder: no external data */
    VN_ASSERT(t, !refused);
    vn_unmap(&map);
    /* Over itself: the data that `back` maps are replaced, not overwritten. */
    VN_ASSERT_OK_ERR(t, vn_model_write_limited(back, path, 2000, 100, &err), err);
    vn_model_free(back);
    VN_ASSERT_OK_ERR(t, vn_model_read(path, &back, &err), err);
    VN_ASSERT(t, same_model(m, back));
    vn_model_free(back);
    VN_ASSERT_EQ(t, vn_model_write_limited(m, "-", 2000, 100, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "bytes");
    snprintf(path, sizeof path, "%s/whole.onnx", vn_test_tmp());
    VN_ASSERT_OK_ERR(t, vn_model_write(m, path, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_read(path, &back, &err), err);
    VN_ASSERT(t, same_model(m, back));
    vn_model_free(back);
    vn_model_free(m);
    vn_tensor_free(a);
    vn_tensor_free(b);
    vn_tensor_free(c);
}

/* 2 GiB need not exist: a broadcast view has the count without the memory. Sizes are known before anything is copied. */
VN_TEST(roundtrip, a_message_above_two_gigabytes_is_refused) {
    vn_error_t err = {0};
    const int64_t dims[] = {1 << 16, 1 << 16};
    static char byte[1];
    void *data;
    size_t size;
    vn_model_t *m = made_model(t);
    vn_tensor_t *x = vn_alloc(1, sizeof *x);
    VN_ASSERT(t, x);
    *x = (vn_tensor_t){.dtype = VN_U8,
                       .rank = 2,
                       .dims = {dims[0], dims[1]},
                       .strides = {dims[1], 1},
                       .count = dims[0] * dims[1],
                       .data = byte,
                       .refs = 2};
    m->graph->inits = vn_arena_alloc(m->arena, 1, sizeof *m->graph->inits); /* never held: nothing releases it */
    m->graph->inits[0] = (vn_init_t){.name = "x", .tensor = x};
    m->graph->n_inits = 1;
    VN_ASSERT_EQ(t, vn_model_bytes(m, &data, &size, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "4294967");
    VN_ASSERT(t, !data);
    vn_free(x);
    vn_model_free(m);
}

VN_TEST_MAIN(VN_CASE(roundtrip, bodies_and_initialisers), VN_CASE(roundtrip, all_element_types),
             VN_CASE(roundtrip, views_are_written_as_they_look), VN_CASE(roundtrip, functions),
             VN_CASE(roundtrip, attributes_of_every_kind), VN_CASE(roundtrip, head_types_and_metadata),
             VN_CASE(roundtrip, sparse_initialisers_arrive_dense), VN_CASE(roundtrip, large_tensors_go_beside_the_model),
             VN_CASE(roundtrip, a_message_above_two_gigabytes_is_refused))
