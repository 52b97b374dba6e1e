/* models.c -- models of the conformance suite: a product with a bias, an empty batch, external data, a sequence. */
#include "conformance/models.h"

#include <stdio.h>
#include <string.h>

#include "onnx-ml.pb-c.h"

vn_status_t cf_gemm(vn_test_model_t *out, vn_error_t *err) {
    vn_model_t *m;
    vn_tensor_t *w, *b;
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", 13, err));
    VN_TRY(vn_tensor_new(VN_F32, 2, (int64_t[]){3, 2}, &w, err));
    VN_TRY(vn_tensor_new(VN_F32, 1, (int64_t[]){2}, &b, err));
    for (int i = 0; i < 6; ++i) vn_tensor_set_f64(w, i, i + 1);
    vn_tensor_set_f64(b, 0, -30);
    vn_tensor_set_f64(b, 1, 1);
    VN_TRY(vn_graph_add_input(m->graph, "x", VN_F32, 2, (int64_t[]){2, 3}, err));
    VN_TRY(vn_graph_add_init(m->graph, "w", w, err));
    VN_TRY(vn_graph_add_init(m->graph, "b", b, err));
    vn_tensor_free(w);
    vn_tensor_free(b);
    VN_TRY(vn_graph_add_node(m->graph, "gemm", "Gemm", "", 3, (const char *[]){"x", "w", "b"}, 1, (const char *[]){"y"}, NULL, err));
    VN_TRY(vn_graph_add_output(m->graph, "y", VN_F32, 2, (int64_t[]){2, 2}, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}

vn_status_t cf_rows(int64_t rows, vn_test_model_t *out, vn_error_t *err) {
    const int64_t x[] = {rows, 3}, w[] = {3, 2}, y[] = {rows, 2};
    vn_model_t *m;
    vn_tensor_t *wt;
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", 13, err));
    VN_TRY(vn_tensor_new(VN_F32, 2, w, &wt, err));
    for (int i = 0; i < 6; ++i) vn_tensor_set_f64(wt, i, i + 1);
    VN_TRY(vn_graph_add_input(m->graph, "x", VN_F32, 2, x, err));
    VN_TRY(vn_graph_add_init(m->graph, "w", wt, err));
    vn_tensor_free(wt);
    VN_TRY(vn_graph_add_node(m->graph, "mm", "MatMul", "", 2, (const char *[]){"x", "w"}, 1, (const char *[]){"y"}, NULL, err));
    VN_TRY(vn_graph_add_output(m->graph, "y", VN_F32, 2, y, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}

vn_status_t cf_external(const char *folder, cf_model_fn model, vn_test_model_t *out, vn_error_t *err) {
    static const float w[] = {1, 2, 3, 4, 5, 6};
    char path[512];
    vn_test_model_t inside;
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    VN_TRY(vn_write_file(path, w, sizeof w, err));
    VN_TRY(model(&inside, err));
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, inside.size, inside.bytes);
    vn_free(inside.bytes);
    if (!m) return vn_fail(err, VN_ERR_INTERNAL, "cf_external: the model cannot be read back");
    Onnx__StringStringEntryProto entry = ONNX__STRING_STRING_ENTRY_PROTO__INIT, *entries[] = {&entry};
    entry.key = (char[]){"location"};
    entry.value = (char[]){"weights.bin"};
    for (size_t i = 0; i < m->graph->n_initializer; ++i) {
        Onnx__TensorProto *t = m->graph->initializer[i];
        if (strcmp(t->name, "w") != 0) continue;
        Onnx__TensorProto outside = ONNX__TENSOR_PROTO__INIT;
        outside.name = t->name;
        outside.has_data_type = 1;
        outside.data_type = t->data_type;
        outside.n_dims = t->n_dims;
        outside.dims = t->dims;
        outside.has_data_location = 1;
        outside.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        outside.n_external_data = 1;
        outside.external_data = entries;
        m->graph->initializer[i] = &outside;
        out->size = onnx__model_proto__get_packed_size(m);
        out->bytes = vn_alloc(out->size, 1);
        if (out->bytes) onnx__model_proto__pack(m, out->bytes);
        m->graph->initializer[i] = t;
    }
    onnx__model_proto__free_unpacked(m, NULL);
    return out->bytes ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "cf_external: out of memory");
}

vn_status_t cf_sequence(int64_t n, vn_test_model_t *out, vn_error_t *err) {
    vn_model_t *m;
    vn_node_t *node;
    vn_type_t elem = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32, .rank = -1}, sequence = {.kind = VN_TYPE_SEQUENCE, .elem = &elem};
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", 13, err));
    VN_TRY(vn_graph_add_input(m->graph, "x", VN_F32, 2, (int64_t[]){n, 2}, err));
    VN_TRY(vn_graph_add_node(m->graph, "split", "SplitToSequence", "", 1, (const char *[]){"x"}, 1, (const char *[]){"s"}, &node, err));
    VN_TRY(vn_node_set_int(m, node, "axis", 0, err));
    VN_TRY(vn_graph_add_typed(m->graph, true, "s", &sequence, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}
