/* Values in .pb files: sequences and optionals of tensors, nested, empty; damage. The messages are written here byte by byte. */
#include <string.h>

#include "tensor/corrupt.h"
#include "tensor/tensor_proto.h"

typedef struct bytes {
    unsigned char data[4096];
    size_t n;
} bytes_t;

static void put(bytes_t *b, unsigned field, const void *data, size_t n) {
    size_t length = n;
    b->data[b->n++] = (unsigned char)(field << 3 | 2);
    do b->data[b->n++] = (unsigned char)((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
    while ((length >>= 7) != 0);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static vn_tensor_t *ramp(vn_dtype_t d, int64_t n) {
    vn_tensor_t *x;
    if (vn_tensor_new(d, 1, &n, &x, NULL) != VN_OK) return NULL;
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_f64(x, i, (double)(i + 1));
    return x;
}

static void put_tensor(bytes_t *b, const vn_tensor_t *x) {
    unsigned char packed[2048];
    vn_arena_t *arena = vn_arena_new();
    Onnx__TensorProto p;
    if (vn_tensor_to_proto(x, "item", arena, &p, NULL) == VN_OK) put(b, 3, packed, onnx__tensor_proto__pack(&p, packed));
    vn_arena_free(arena);
}

/* A sequence named "list" of a long tensor (raw data that the scanner leaves in place), a short one, and one of nothing. */
static bytes_t list_of(vn_tensor_t *const *x, int n) {
    bytes_t b = {.n = 0};
    put(&b, 1, "list", 4);
    b.data[b.n++] = 2 << 3;
    b.data[b.n++] = 1; /* elem_type: tensors */
    for (int i = 0; i < n; ++i) put_tensor(&b, x[i]);
    return b;
}

VN_TEST(value_file, sequences_and_optionals) {
    vn_tensor_t *x[] = {ramp(VN_F32, 100), ramp(VN_I64, 3), ramp(VN_BF16, 0)};
    const bytes_t list = list_of(x, 3);
    vn_value_t *v;
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_value_parse(list.data, list.n, "l", NULL, VN_VALUE_SEQUENCE, VN_UNDEFINED, &v, &err), err);
    VN_ASSERT_EQ(t, v->kind, VN_VALUE_SEQUENCE);
    VN_ASSERT_EQ(t, v->count, 3);
    VN_ASSERT_EQ(t, v->elem, VN_F32);
    for (int i = 0; i < 3; ++i) VN_ASSERT(t, vn_tensor_equal_bits(v->items[i]->tensor, x[i]));
    vn_value_free(v);

    bytes_t some = {.n = 0}, outer = {.n = 0};
    put(&some, 5, list.data, list.n); /* an optional sequence */
    VN_ASSERT_OK_ERR(t, vn_value_parse(some.data, some.n, "o", NULL, VN_VALUE_OPTIONAL, VN_UNDEFINED, &v, &err), err);
    VN_ASSERT_EQ(t, v->count, 1);
    VN_ASSERT_EQ(t, v->items[0]->kind, VN_VALUE_SEQUENCE);
    VN_ASSERT(t, vn_tensor_equal_bits(v->items[0]->items[1]->tensor, x[1]));
    vn_value_free(v);
    put(&outer, 7, some.data, some.n); /* a sequence of optionals */
    put(&outer, 7, "", 0);
    VN_ASSERT_OK_ERR(t, vn_value_parse(outer.data, outer.n, "s", NULL, VN_VALUE_SEQUENCE, VN_UNDEFINED, &v, &err), err);
    VN_ASSERT_EQ(t, v->count, 2);
    VN_ASSERT_EQ(t, v->items[0]->count, 1);
    VN_ASSERT_EQ(t, v->items[1]->count, 0);
    vn_value_free(v);

    VN_ASSERT_OK(t, vn_value_parse("", 0, "e", NULL, VN_VALUE_SEQUENCE, VN_F16, &v, NULL));
    VN_ASSERT(t, v->count == 0 && v->elem == VN_F16);
    vn_value_free(v);

    const char *path = corrupt_file("list.pb", list.data, list.n);
    VN_ASSERT_OK_ERR(t, vn_value_read(path, VN_VALUE_SEQUENCE, VN_UNDEFINED, &v, &err), err);
    VN_ASSERT_EQ(t, v->count, 3);
    vn_value_free(v);
    VN_ASSERT_EQ(t, vn_value_read("/nonexistent/list.pb", VN_VALUE_SEQUENCE, VN_UNDEFINED, &v, &err), VN_ERR_IO);
    VN_ASSERT_EQ(t, vn_value_read(path, VN_VALUE_ABSENT, VN_UNDEFINED, &v, &err), VN_ERR_USAGE);
    for (int i = 0; i < 3; ++i) vn_tensor_free(x[i]);
}

static vn_status_t refused(const bytes_t *b, vn_value_kind_t kind, vn_error_t *err) {
    vn_value_t *v;
    const vn_status_t s = vn_value_parse(b->data, b->n, "bad", NULL, kind, VN_UNDEFINED, &v, err);
    vn_value_free(v);
    return s;
}

VN_TEST(value_file, refusals) {
    vn_tensor_t *x = ramp(VN_F32, 4);
    vn_error_t err = {0};
    bytes_t two = {.n = 0}, map = {.n = 0}, wrong = {.n = 0};
    put_tensor(&two, x);
    put_tensor(&two, x);
    VN_ASSERT_EQ(t, refused(&two, VN_VALUE_OPTIONAL, &err), VN_ERR_PARSE);
    VN_ASSERT(t, strstr(err.text, "two values"));
    put(&map, 6, "", 0);
    VN_ASSERT_EQ(t, refused(&map, VN_VALUE_SEQUENCE, &err), VN_ERR_UNSUPPORTED);
    wrong.data[wrong.n++] = 3 << 3; /* a tensor as a number */
    wrong.data[wrong.n++] = 1;
    VN_ASSERT_EQ(t, refused(&wrong, VN_VALUE_SEQUENCE, &err), VN_ERR_PARSE);
    bytes_t deep = {.n = 0};
    for (int level = 0; level < 80; ++level) {
        bytes_t outer = {.n = 0};
        put(&outer, 7, deep.data, deep.n);
        deep = outer;
        if (level == 40) VN_ASSERT_OK_ERR(t, refused(&deep, VN_VALUE_OPTIONAL, &err), err);
    }
    VN_ASSERT_EQ(t, refused(&deep, VN_VALUE_OPTIONAL, &err), VN_ERR_PARSE);
    VN_ASSERT(t, strstr(err.text, "nested deeper"));
    vn_tensor_free(x);
}

static vn_status_t read_list(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_value_t *v;
    const vn_status_t s = vn_value_parse(data, size, "hostile", NULL, VN_VALUE_SEQUENCE, VN_UNDEFINED, &v, err);
    vn_value_free(v);
    return s;
}

VN_TEST(value_file, damage) {
    vn_tensor_t *x[] = {ramp(VN_F32, 40), ramp(VN_U8, 5)};
    const bytes_t list = list_of(x, 2);
    corrupt_flip(t, read_list, list.data, list.n, 20000);
    VN_ASSERT_GT(t, corrupt_allocations(t, read_list, list.data, list.n), 0);
    for (int i = 0; i < 2; ++i) vn_tensor_free(x[i]);
}

VN_TEST_MAIN(VN_CASE(value_file, sequences_and_optionals), VN_CASE(value_file, refusals), VN_CASE(value_file, damage))
