/* TensorProto: every element type from raw and typed data, back again; external data inside its folder only; sparse tensors; damage. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/corrupt.h"
#include "tensor/tensor_proto.h"
#include "tensor/wire.h"

static vn_tensor_t *sample(vn_dtype_t d, int64_t n) {
    vn_tensor_t *x;
    if (vn_tensor_new(d, 1, &n, &x, NULL) != VN_OK) return NULL;
    for (int64_t i = 0; i < n; ++i) {
        if (d == VN_STRING) (void)!vn_tensor_set_string(x, i, "text\0s", (size_t)(i % 7), NULL);
        else vn_tensor_set_f64(x, i, (double)(i % 2 + 1) * (i % 3 == 1 && vn_dtype_kind(d) == VN_KIND_SIGNED ? -1 : 1));
    }
    return x;
}

/* The packed message, through the scanner and back. */
static vn_status_t through_wire(const Onnx__TensorProto *p, const char *folder, vn_tensor_t **out, vn_error_t *err) {
    const size_t n = onnx__tensor_proto__get_packed_size(p);
    unsigned char *packed = vn_alloc(n, 1);
    onnx__tensor_proto__pack(p, packed);
    vn_proto_origin_t origin = {.skeleton = true, .folder = folder};
    vn_wire_scan_t scan;
    *out = NULL;
    vn_status_t s = vn_source_adopt(packed, n, &origin.source, err);
    if (s == VN_OK) s = vn_wire_scan(packed, n, VN_WIRE_TENSOR, "t.pb", &scan, err);
    if (s == VN_OK) {
        Onnx__TensorProto *q = onnx__tensor_proto__unpack(NULL, scan.size, scan.skeleton);
        vn_wire_scan_free(&scan);
        s = q ? vn_tensor_from_proto(q, &origin, "t.pb", out, err) : vn_fail(err, VN_ERR_NOMEM, "unpack");
        if (q) onnx__tensor_proto__free_unpacked(q, NULL);
    }
    vn_proto_origin_free(&origin); /* the tensor keeps what it needs */
    return s;
}

VN_TEST(tensor_proto, every_type_goes_out_and_comes_back) {
    for (int d = 1; d < VN_DTYPE_COUNT; ++d)
        for (int64_t n = 0; n < 300; n = 3 * n + 1) {
            vn_tensor_t *x = sample((vn_dtype_t)d, n), *back, *plain;
            vn_arena_t *arena = vn_arena_new();
            Onnx__TensorProto p;
            vn_error_t err;
            VN_ASSERT_OK(t, vn_tensor_to_proto(x, "w", arena, &p, NULL));
            VN_ASSERT_OK_ERR(t, through_wire(&p, NULL, &back, &err), err);
            VN_ASSERT(t, vn_tensor_equal_bits(x, back));
            VN_ASSERT_OK(t, vn_tensor_from_proto(&p, NULL, "w", &plain, NULL));
            VN_ASSERT(t, vn_tensor_equal_bits(x, plain));
            vn_tensor_free(plain);
            vn_tensor_free(back);
            vn_tensor_free(x);
            vn_arena_free(arena);
        }
    vn_tensor_t *x = sample(VN_I16, 6), *m, *turned, *back;
    vn_arena_t *arena = vn_arena_new();
    Onnx__TensorProto p;
    VN_ASSERT_OK(t, vn_tensor_reshape(x, 2, (int64_t[]){2, 3}, &m, NULL));
    VN_ASSERT_OK(t, vn_tensor_permute(m, (int[]){1, 0}, &turned, NULL));
    VN_ASSERT_OK(t, vn_tensor_to_proto(turned, NULL, arena, &p, NULL)); /* strided: written densely */
    VN_ASSERT_OK(t, through_wire(&p, NULL, &back, NULL));
    VN_ASSERT(t, vn_tensor_equal_bits(turned, back));
    vn_tensor_free(back);
    vn_tensor_free(turned);
    vn_tensor_free(m);
    vn_tensor_free(x);
    vn_arena_free(arena);
}

static Onnx__TensorProto proto(vn_dtype_t d, int64_t *dim) {
    Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
    p.has_data_type = 1;
    p.data_type = (int32_t)d;
    p.n_dims = 1;
    p.dims = dim;
    return p;
}

VN_TEST(tensor_proto, typed_fields) {
    static const struct {
        vn_dtype_t d;
        int32_t ints[5];
        int n;
        double want[5];
    } rows[] = {
        {VN_F16, {0x3c00, 0xbc00, 0x7c00, 1, 0}, 5, {1, -1, INFINITY, 0x1p-24, 0}},
        {VN_BF16, {0x3f80, 0xc000, 0, 0, 0}, 5, {1, -2, 0, 0, 0}},
        {VN_I8, {-128, 127, 0, 1, -1}, 5, {-128, 127, 0, 1, -1}},
        {VN_U8, {255, 0, 1, 2, 3}, 5, {255, 0, 1, 2, 3}},
        {VN_U16, {65535, 0, 1, 2, 3}, 5, {65535, 0, 1, 2, 3}},
        {VN_I16, {-32768, 0, 1, 2, 3}, 5, {-32768, 0, 1, 2, 3}},
        {VN_I32, {INT32_MIN, 0, 1, 2, 3}, 5, {INT32_MIN, 0, 1, 2, 3}},
        {VN_BOOL, {1, 0, 1, 0, 0}, 5, {1, 0, 1, 0, 0}},
        {VN_I4, {0x7f, 0x98, 0x01}, 3, {-1, 7, -8, -7, 1}},
        {VN_U4, {0x1f, 0x32, 0x04}, 3, {15, 1, 2, 3, 4}},
        {VN_F4E2M1, {0x21, 0x73, 0x0f}, 3, {0.5, 1, 1.5, 6, -6}},
        {VN_I2, {0xe4, 0x01}, 2, {0, 1, -2, -1, 1}},
        {VN_U2, {0xe4, 0x01}, 2, {0, 1, 2, 3, 1}},
        {VN_F8E4M3FN, {0x38, 0xb8, 0x7e, 0, 1}, 5, {1, -1, 448, 0, 0x1p-9}},
        {VN_F8E8M0, {127, 128, 0, 254, 126}, 5, {1, 2, 0x1p-127, 0x1p127, 0.5}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        int64_t five = 5;
        Onnx__TensorProto p = proto(rows[k].d, &five);
        vn_tensor_t *x;
        vn_error_t err;
        p.int32_data = (int32_t *)(uintptr_t)rows[k].ints;
        p.n_int32_data = (size_t)rows[k].n;
        VN_ASSERT_OK_ERR(t, through_wire(&p, NULL, &x, &err), err);
        for (int i = 0; i < 5; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, i), rows[k].want[i]);
        vn_tensor_free(x);
    }
    int64_t two = 2;
    vn_tensor_t *x;
    Onnx__TensorProto p = proto(VN_C64, &two);
    p.float_data = (float[]){1, 2, 3, 4};
    p.n_float_data = 4;
    VN_ASSERT_OK(t, through_wire(&p, NULL, &x, NULL));
    VN_ASSERT(t, ((float *)x->data)[3] == 4.0f);
    vn_tensor_free(x);
    p = proto(VN_U32, &two);
    p.uint64_data = (uint64_t[]){UINT32_MAX, 7};
    p.n_uint64_data = 2;
    VN_ASSERT_OK(t, through_wire(&p, NULL, &x, NULL));
    VN_ASSERT_EQ(t, vn_tensor_get_i64(x, 0), UINT32_MAX);
    vn_tensor_free(x);
    p = proto(VN_F64, &two);
    p.double_data = (double[]){0.1, 0.2};
    p.n_double_data = 2;
    p.has_raw_data = 1; /* empty, beside the field that counts: some exporters do that */
    VN_ASSERT_OK(t, through_wire(&p, NULL, &x, NULL));
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, 1), 0.2);
    vn_tensor_free(x);
}

VN_TEST(tensor_proto, contents_and_dims_must_agree) {
    int64_t three = 3, minus = -3, huge = INT64_MAX;
    vn_tensor_t *x;
    vn_error_t err;
    static uint8_t raw[8];
    Onnx__TensorProto p = proto(VN_F32, &three);
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "f32[3] holds no data");
    p.has_raw_data = 1;
    p.raw_data = (ProtobufCBinaryData){8, raw};
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "raw_data has 8 bytes, f32[3] needs 12");
    p.float_data = (float[]){1};
    p.n_float_data = 1;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "more than one field");
    p.has_raw_data = 0;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "float_data has 1 entries, f32[3] needs 3");
    p.data_type = VN_I64;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "belongs into int64_data");
    p = proto(VN_F32, &minus);
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_RANGE);
    p = proto(VN_F32, &huge);
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, err.text, "t.pb: tensor: the size of f32[9223372036854775807] overflows");
    p = proto(VN_U8, &three);
    p.int32_data = (int32_t[]){1, 2, 256};
    p.n_int32_data = 3;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "int32_data[2] = 256 does not fit");
    p.data_type = 27;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "FLOAT6E2M3");
    p.data_type = 0;
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_PARSE);
}

/* ---- external data ---- */

typedef struct pairs {
    Onnx__StringStringEntryProto entry[3];
    Onnx__StringStringEntryProto *list[3];
} pairs_t;

static Onnx__TensorProto external(pairs_t *e, int64_t *dim, const char *location, const char *offset, const char *length) {
    Onnx__TensorProto p = proto(VN_F32, dim);
    const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
    p.has_data_location = 1;
    p.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    p.external_data = e->list;
    for (int k = 0; k < 3; ++k) {
        if (!values[k]) continue;
        onnx__string_string_entry_proto__init(&e->entry[k]);
        e->entry[k].key = (char *)(uintptr_t)keys[k];
        e->entry[k].value = (char *)(uintptr_t)values[k];
        e->list[p.n_external_data++] = &e->entry[k];
    }
    return p;
}

VN_TEST(tensor_proto, external_data_stays_in_its_folder) {
    static float data[200];
    char folder[4300], path[4400];
    for (int i = 0; i < 200; ++i) data[i] = (float)i;
    snprintf(folder, sizeof folder, "%s/model", vn_test_tmp());
    mkdir(folder, 0777);
    corrupt_file("secret.bin", data, sizeof data);
    corrupt_file("model/w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/out.bin", folder);
    VN_ASSERT_EQ(t, symlink("../secret.bin", path), 0);
    snprintf(path, sizeof path, "%s/in.bin", folder);
    VN_ASSERT_EQ(t, symlink("w.bin", path), 0);
    snprintf(path, sizeof path, "%s2", folder); /* a sibling whose name begins alike */
    mkdir(path, 0777);
    corrupt_file("model2/w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/side", folder);
    VN_ASSERT_EQ(t, symlink("../model2", path), 0);

    static const struct {
        const char *location, *offset, *length;
        vn_status_t status;
        const char *text;
    } rows[] = {
        {"w.bin", "0", "400", VN_OK, ""},
        {"w.bin", "400", NULL, VN_OK, ""},
        {"w.bin", "2", "400", VN_OK, ""},
        {"in.bin", NULL, NULL, VN_OK, ""},
        {"./w.bin", NULL, NULL, VN_OK, ""},
        {"out.bin", "0", "400", VN_ERR_USAGE, "leads out"},
        {"../secret.bin", "0", "400", VN_ERR_USAGE, "leads out"},
        {"side/w.bin", "0", "400", VN_ERR_USAGE, "leads out"},
        {"/etc/passwd", "0", "400", VN_ERR_USAGE, "leads out"},
        {"a/../../secret.bin", NULL, NULL, VN_ERR_USAGE, "leads out"},
        {"", NULL, NULL, VN_ERR_USAGE, "leads out"},
        {"..\\secret.bin", NULL, NULL, VN_ERR_USAGE, "leads out"},
        {NULL, "0", "400", VN_ERR_PARSE, "without a location"},
        {"none.bin", "0", "400", VN_ERR_IO, "none.bin"},
        {"w.bin", "404", "400", VN_ERR_PARSE, "is the download complete?"},
        {"w.bin", "18446744073709551615", "400", VN_ERR_PARSE, "claimed"},
        {"w.bin", "-4", "400", VN_ERR_PARSE, "not a number"},
        {"w.bin", "99999999999999999999", "400", VN_ERR_PARSE, "not a number"},
        {"w.bin", "4x", NULL, VN_ERR_PARSE, "not a number"},
        {"w.bin", "0", "396", VN_ERR_PARSE, "external data has 396 bytes, its dims need 400"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        int64_t hundred = 100;
        pairs_t e;
        vn_tensor_t *x;
        vn_error_t err = {0};
        Onnx__TensorProto p = external(&e, &hundred, rows[k].location, rows[k].offset, rows[k].length);
        VN_ASSERT_EQ(t, through_wire(&p, folder, &x, &err), rows[k].status);
        if (rows[k].status != VN_OK) VN_ASSERT_HAS(t, err.text, rows[k].text);
        else if (k != 2) VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, 99), k == 1 ? 199.0 : 99.0);
        else VN_ASSERT(t, (uintptr_t)x->data % 4 == 0); /* misaligned in the file: copied */
        vn_tensor_free(x);
    }
    int64_t hundred = 100;
    pairs_t e;
    vn_tensor_t *x;
    vn_error_t err;
    Onnx__TensorProto p = external(&e, &hundred, "w.bin", NULL, NULL);
    VN_ASSERT_EQ(t, through_wire(&p, NULL, &x, &err), VN_ERR_USAGE);
    VN_ASSERT_HAS(t, err.text, "no folder is known");
    vn_bundle_t b; /* a file finds its neighbours */
    const size_t n = onnx__tensor_proto__get_packed_size(&p);
    unsigned char *packed = vn_alloc(n, 1);
    onnx__tensor_proto__pack(&p, packed);
    VN_ASSERT_OK(t, vn_tensors_read(corrupt_file("model/t.pb", packed, n), &b, NULL));
    VN_ASSERT_EQ(t, b.items[0].tensor->count, 100);
    vn_bundle_free(&b);
    vn_free(packed);
}

/* ---- sparse ---- */

VN_TEST(tensor_proto, sparse_becomes_dense) {
    int64_t two = 2, pair[] = {2, 2}, dims[] = {3, 4};
    Onnx__TensorProto values = proto(VN_F32, &two), linear = proto(VN_I64, &two), full = proto(VN_I64, pair);
    Onnx__SparseTensorProto s = ONNX__SPARSE_TENSOR_PROTO__INIT;
    vn_tensor_t *x;
    vn_error_t err;
    values.float_data = (float[]){5, 6};
    values.n_float_data = 2;
    int64_t at[] = {2, 11}, where[] = {0, 2, 2, 3};
    linear.int64_data = at;
    linear.n_int64_data = 2;
    full.n_dims = 2;
    full.int64_data = where;
    full.n_int64_data = 4;
    s.values = &values;
    s.n_dims = 2;
    s.dims = dims;
    for (int k = 0; k < 2; ++k) {
        s.indices = k ? &full : &linear;
        VN_ASSERT_OK_ERR(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), err);
        double sum = 0;
        for (int64_t i = 0; i < x->count; ++i) sum += vn_tensor_get_f64(x, i);
        VN_ASSERT(t, x->count == 12 && vn_tensor_get_f64(x, 2) == 5 && vn_tensor_get_f64(x, 11) == 6 && sum == 11);
        vn_tensor_free(x);
    }
    where[3] = 4;
    VN_ASSERT_EQ(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "sparse index 1 lies outside");
    s.indices = &linear;
    at[0] = -1;
    VN_ASSERT_EQ(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), VN_ERR_PARSE);
    at[0] = 2;
    dims[0] = INT64_C(1) << 40;
    VN_ASSERT_EQ(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), VN_ERR_UNSUPPORTED);
    dims[0] = INT64_MAX;
    VN_ASSERT_EQ(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), VN_ERR_RANGE);
    s.values = NULL;
    VN_ASSERT_EQ(t, vn_sparse_from_proto(&s, NULL, "s", &x, &err), VN_ERR_PARSE);
}

/* ---- damage ---- */

static vn_status_t read_file(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_bundle_t b;
    const vn_status_t s = vn_tensorproto_read(corrupt_memory(data, size), &b, err);
    vn_bundle_free(&b);
    return s;
}

VN_TEST(tensor_proto, survives_damage) {
    static const vn_dtype_t kinds[] = {VN_F32, VN_STRING, VN_I4};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
        vn_tensor_t *x = sample(kinds[k], 30);
        vn_arena_t *arena = vn_arena_new();
        Onnx__TensorProto p;
        VN_ASSERT_OK(t, vn_tensor_to_proto(x, NULL, arena, &p, NULL)); /* unnamed: the data comes last, so every cut shows */
        const size_t n = onnx__tensor_proto__get_packed_size(&p);
        unsigned char *packed = vn_alloc(n, 1);
        onnx__tensor_proto__pack(&p, packed);
        corrupt_truncate(t, read_file, packed, n, 1);
        corrupt_flip(t, read_file, packed, n, 500);
        VN_ASSERT_GE(t, corrupt_allocations(t, read_file, packed, n), 6);
        vn_free(packed);
        vn_tensor_free(x);
        vn_arena_free(arena);
    }
}

VN_TEST(tensor_proto, files_are_known_by_their_ending) {
    vn_bundle_t b;
    vn_error_t err;
    vn_tensor_t *x = sample(VN_F32, 3);
    char path[4200];
    snprintf(path, sizeof path, "%s/some.name.npy", vn_test_tmp());
    VN_ASSERT_OK(t, vn_npy_write(path, x, NULL));
    VN_ASSERT_OK(t, vn_tensors_read(path, &b, NULL));
    VN_ASSERT_STR(t, b.items[0].name, "some.name");
    vn_bundle_free(&b);
    vn_tensor_free(x);
    VN_ASSERT_EQ(t, vn_tensors_read("x.onnx", &b, &err), VN_ERR_USAGE);
    VN_ASSERT_HAS(t, err.text, "x.onnx: not a file of tensors");
    VN_ASSERT_EQ(t, vn_tensors_read("/nonexistent/x.pb", &b, &err), VN_ERR_IO);
}

VN_TEST_MAIN(VN_CASE(tensor_proto, every_type_goes_out_and_comes_back), VN_CASE(tensor_proto, typed_fields),
             VN_CASE(tensor_proto, contents_and_dims_must_agree), VN_CASE(tensor_proto, external_data_stays_in_its_folder),
             VN_CASE(tensor_proto, sparse_becomes_dense), VN_CASE(tensor_proto, survives_damage),
             VN_CASE(tensor_proto, files_are_known_by_their_ending))
