/* safetensors: round trips, mapped data, headers that lie. */
#include <stdlib.h>

#include "tensor/corrupt.h"

/* A file of this header and `bytes` bytes of data counting up. */
static size_t build(unsigned char *out, const char *header, size_t bytes) {
    const size_t n = strlen(header);
    for (int k = 0; k < 8; ++k) out[k] = (unsigned char)((uint64_t)n >> (8 * k));
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < bytes; ++i) out[8 + n + i] = (unsigned char)i;
    return 8 + n + bytes;
}

static vn_status_t read_bytes(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_bundle_t b;
    const vn_status_t s = vn_safetensors_read(corrupt_memory(data, size), &b, err);
    vn_bundle_free(&b);
    return s;
}

VN_TEST(safetensors, reads_a_file_of_the_reference_writer) {
    unsigned char file[512];
    vn_bundle_t b;
    /* The first tensor is misaligned for its type: it is copied, the other stays mapped. */
    const size_t n = build(
        file,
        "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[0,3]},"
        "\"v\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[3,5]},\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[5,5]}}",
        5);
    VN_ASSERT_OK(t, vn_safetensors_read(corrupt_file("r.safetensors", file, n), &b, NULL));
    VN_ASSERT_EQ(t, b.count, 3);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(vn_bundle_find(&b, "w"), 2), 2);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(vn_bundle_find(&b, "v"), 0), 0x0403);
    VN_ASSERT_EQ(t, vn_bundle_find(&b, "e")->count, 0);
    vn_bundle_free(&b);
}

VN_TEST(safetensors, writes_what_it_reads) {
    static const vn_dtype_t kinds[] = {VN_U8,       VN_F64,    VN_F16,    VN_BF16,   VN_BOOL, VN_C64,
                                       VN_F8E4M3FN, VN_F8E5M2, VN_F8E8M0, VN_F4E2M1, VN_I64,  VN_F8E4M3FNUZ};
    enum { N = sizeof kinds / sizeof *kinds };
    vn_bundle_t b = {0}, back;
    vn_error_t err;
    char path[4200];
    for (int k = 0; k < N; ++k) {
        vn_tensor_t *x, *p;
        char name[40];
        VN_ASSERT_OK(t, vn_tensor_new(kinds[k], 2, (int64_t[]){3, 5}, &x, NULL));
        for (int64_t i = 0; i < 15; ++i) vn_tensor_set_f64(x, i, (double)(1 << i % 3));
        VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){1, 0}, &p, NULL));
        snprintf(name, sizeof name, "%s \"quoted\" \xc3\xa9", vn_dtype_name(kinds[k]));
        VN_ASSERT_OK(t, vn_bundle_add(&b, name, p, NULL));
        vn_tensor_free(x);
        vn_tensor_free(p);
    }
    snprintf(path, sizeof path, "%s/w.safetensors", vn_test_tmp());
    VN_ASSERT_OK_ERR(t, vn_safetensors_write(path, &b, &err), err);
    VN_ASSERT_OK_ERR(t, vn_safetensors_read(path, &back, &err), err);
    VN_ASSERT_EQ(t, back.count, N);
    for (int i = 0; i < N; ++i) VN_ASSERT(t, vn_tensor_equal_bits(b.items[i].tensor, vn_bundle_find(&back, b.items[i].name)));
    vn_bundle_free(&back);
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_I4, 0, NULL, &x, NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&b, "q", x, NULL));
    vn_tensor_free(x);
    VN_ASSERT_EQ(t, vn_safetensors_write(path, &b, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "i4");
    vn_bundle_free(&b);
    VN_ASSERT_OK(t, vn_safetensors_write(path, &b, NULL)); /* nothing at all */
    VN_ASSERT_OK(t, vn_safetensors_read(path, &back, NULL));
    VN_ASSERT_EQ(t, back.count, 0);
    vn_bundle_free(&back);
}

VN_TEST(safetensors, refuses_with_a_reason) {
    static const struct {
        const char *header;
        size_t bytes;
        vn_status_t status;
        const char *text;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6,
         VN_ERR_PARSE, "a and b overlap at byte 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8,
         VN_ERR_PARSE, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, VN_ERR_PARSE,
         "bytes 0 to 1 of the data belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5, VN_ERR_PARSE,
         "bytes 4 to 5 of the data belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3, VN_ERR_PARSE,
         "ends at byte 4 of 3 of data; is the download complete?"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, VN_ERR_PARSE, "span 4 bytes, dtype and shape need 8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, VN_ERR_PARSE, "other than sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, VN_ERR_PARSE, "other than sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, VN_ERR_PARSE, "other than sizes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807,9223372036854775807],\"data_offsets\":[0,1]}}", 1, VN_ERR_RANGE,
         "overflows"},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, VN_ERR_UNSUPPORTED, "F6_E2M3"},
        {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, VN_ERR_PARSE, "missing"},
        {"{\"a\":7}", 0, VN_ERR_PARSE, "missing"},
        {"[1]", 0, VN_ERR_PARSE, "not a JSON object"},
        {"{\"a\"", 0, VN_ERR_PARSE, "not JSON"},
    };
    unsigned char file[1024];
    vn_error_t err;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        const size_t n = build(file, rows[k].header, rows[k].bytes);
        VN_ASSERT_EQ(t, read_bytes(file, n, &err), rows[k].status);
        VN_ASSERT_HAS(t, err.text, rows[k].text);
    }
    memset(file, 0xff, 16);
    VN_ASSERT_EQ(t, read_bytes(file, 16, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "not a safetensors file");
}

VN_TEST(safetensors, survives_damage) {
    unsigned char file[512];
    const size_t n = build(
        file,
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[0,3]},\"v\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[3,5]}}",
        5);
    corrupt_truncate(t, read_bytes, file, n, 1);
    corrupt_flip(t, read_bytes, file, n, 1000);
    VN_ASSERT_GE(t, corrupt_allocations(t, read_bytes, file, n), 8);
}

VN_TEST_MAIN(VN_CASE(safetensors, reads_a_file_of_the_reference_writer), VN_CASE(safetensors, writes_what_it_reads),
             VN_CASE(safetensors, refuses_with_a_reason), VN_CASE(safetensors, survives_damage))
