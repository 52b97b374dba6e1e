/* .npy: headers as NumPy writes them, every layout, hostile files. */
#include <math.h>
#include <stdlib.h>

#include "tensor/corrupt.h"

/* A file with the given header text (padded as NumPy does) and data. */
static size_t build(unsigned char *out, int version, const char *dict, const void *data, size_t bytes) {
    size_t start = version == 1 ? 10 : 12, n = start + strlen(dict) + 1;
    const size_t padded = (n + 63) / 64 * 64, length = padded - start;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (size_t k = 8; k < start; ++k) out[k] = (unsigned char)(length >> (8 * (k - 8)));
    memset(out + start, ' ', length);
    memcpy(out + start, dict, strlen(dict));
    out[padded - 1] = '\n';
    if (bytes) memcpy(out + padded, data, bytes);
    return padded + bytes;
}

static vn_status_t read_it(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_tensor_t *x;
    const vn_status_t s = vn_npy_parse(data, size, "t.npy", &x, err);
    vn_tensor_free(x);
    return s;
}

VN_TEST(npy, reads_all_layouts) {
    static const struct {
        const char *dict;
        int version;
        unsigned char data[16];
        size_t bytes;
        vn_dtype_t d;
        double first, last;
    } rows[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 1, {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, 8, VN_F32, 1, 2},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 2, {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0}, 8, VN_F32, 1, 2},
        {"{'shape': (2L, 1L), 'fortran_order': True, 'descr': '=i2'}", 3, {1, 0, 0xff, 0xff}, 4, VN_I16, 1, -1},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 1)}", 1, {1, 0}, 2, VN_BOOL, 1, 0},
        {"{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": ()}", 1, {200}, 1, VN_U8, 200, 200},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", 1, {0, 0x3c, 1, 0x80}, 4, VN_F16, 1, -0x1p-24},
        {"{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", 1, {0x40, 0, 0, 0, 0x3f, 0x80, 0, 0}, 8, VN_C64, 2, 2},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }", 1, {1, 0, 0, 0, 0, 0, 0, 0x80}, 8, VN_U64, 0x1p63, 0x1p63},
    };
    unsigned char file[512];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_tensor_t *x;
        vn_error_t err;
        const size_t n = build(file, rows[k].version, rows[k].dict, rows[k].data, rows[k].bytes);
        VN_ASSERT_OK_ERR(t, vn_npy_parse(file, n, "t.npy", &x, &err), err);
        VN_ASSERT_EQ(t, x->dtype, rows[k].d);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, 0), rows[k].first);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, x->count - 1), rows[k].last);
        vn_tensor_free(x);
    }
}

VN_TEST(npy, turns_fortran_order) {
    unsigned char file[512];
    const int8_t columns[] = {0, 3, 1, 4, 2, 5}; /* [[0, 1, 2], [3, 4, 5]] column by column */
    vn_tensor_t *x;
    const size_t n = build(file, 1, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", columns, 6);
    VN_ASSERT_OK(t, vn_npy_parse(file, n, "t.npy", &x, NULL));
    VN_ASSERT(t, x->dims[0] == 2 && x->dims[1] == 3 && vn_tensor_is_contiguous(x));
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(x, i), i);
    vn_tensor_free(x);
}

VN_TEST(npy, reads_texts) {
    unsigned char file[512];
    vn_tensor_t *x;
    vn_error_t err;
    const uint32_t wide[] = {0x68, 0xe9, 0, 0x20ac, 0x1f600, 0};
    size_t n = build(file, 1, "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", wide, sizeof wide);
    VN_ASSERT_OK(t, vn_npy_parse(file, n, "t.npy", &x, NULL));
    VN_ASSERT_STR(t, ((vn_string_t *)x->data)[0].text, "h\xc3\xa9");
    VN_ASSERT_STR(t, ((vn_string_t *)x->data)[1].text, "\xe2\x82\xac\xf0\x9f\x98\x80");
    char path[4200];
    snprintf(path, sizeof path, "%s/texts.npy", vn_test_tmp());
    VN_ASSERT_OK(t, vn_npy_write(path, x, NULL));
    vn_tensor_t *back;
    VN_ASSERT_OK(t, vn_npy_read(path, &back, NULL));
    VN_ASSERT(t, vn_tensor_equal_bits(x, back));
    VN_ASSERT_OK(t, vn_tensor_set_string(back, 0, "\xff", 1, NULL));
    VN_ASSERT_EQ(t, vn_npy_write(path, back, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_OK(t, vn_tensor_set_string(back, 0, "a\0", 2, NULL));
    VN_ASSERT_EQ(t, vn_npy_write(path, back, &err), VN_ERR_UNSUPPORTED);
    vn_tensor_free(back);
    vn_tensor_free(x);
    n = build(file, 1, "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }", "abc\0", 4);
    VN_ASSERT_OK(t, vn_npy_parse(file, n, "t.npy", &x, NULL));
    VN_ASSERT_STR(t, ((vn_string_t *)x->data)[0].text, "ab");
    VN_ASSERT_EQ(t, ((vn_string_t *)x->data)[1].length, 1);
    vn_tensor_free(x);
    const uint32_t surrogate[] = {0xd800};
    n = build(file, 1, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", surrogate, 4);
    VN_ASSERT_EQ(t, vn_npy_parse(file, n, "t.npy", &x, &err), VN_ERR_PARSE);
}

VN_TEST(npy, refuses_with_a_reason) {
    static const struct {
        const char *dict;
        vn_status_t status;
        const char *text;
    } rows[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", VN_ERR_UNSUPPORTED, "Python objects"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", VN_ERR_UNSUPPORTED, "f16 is not supported"},
        {"{'descr': '<M8[D]', 'fortran_order': False, 'shape': (1,), }", VN_ERR_UNSUPPORTED, "M8"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", VN_ERR_PARSE, "records"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", VN_ERR_PARSE, "3 elements need 12 bytes, 8 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", VN_ERR_PARSE, "1 elements need 4 bytes, 8 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", VN_ERR_PARSE, "something other than sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", VN_ERR_RANGE, "overflows"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }", VN_ERR_RANGE, "overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", VN_ERR_PARSE, "something other than sizes"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", VN_ERR_PARSE, "neither True nor False"},
        {"{'descr': '<f4', 'shape': (2,), }", VN_ERR_PARSE, "lacks"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", VN_ERR_PARSE, "unknown key"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", VN_ERR_PARSE, "after the dictionary"},
        {"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", VN_ERR_PARSE, "width 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2), }", VN_ERR_PARSE, "more than 16"},
    };
    unsigned char file[512];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_tensor_t *x;
        vn_error_t err;
        const size_t n = build(file, 1, rows[k].dict, "12345678", 8);
        VN_ASSERT_EQ(t, vn_npy_parse(file, n, "t.npy", &x, &err), rows[k].status);
        VN_ASSERT_HAS(t, err.text, rows[k].text);
        VN_ASSERT_HAS(t, err.text, "t.npy: ");
        VN_ASSERT(t, x == NULL);
    }
    vn_tensor_t *x;
    vn_error_t err;
    VN_ASSERT_EQ(t, vn_npy_parse("PK\3\4..........", 14, "t.npy", &x, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "not a NumPy");
    VN_ASSERT_EQ(t, vn_npy_read("/nonexistent/t.npy", &x, &err), VN_ERR_IO);
}

VN_TEST(npy, writes_what_it_reads) {
    char path[4200];
    snprintf(path, sizeof path, "%s/w.npy", vn_test_tmp());
    static const vn_dtype_t kinds[] = {VN_BOOL, VN_I8, VN_U16, VN_I32, VN_U64, VN_F16, VN_F32, VN_F64, VN_C64, VN_C128};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        for (int big = 0; big < 2; ++big) { /* the larger one stays in the map */
            vn_tensor_t *x, *p, *back;
            VN_ASSERT_OK(t, vn_tensor_new(kinds[k], 3, (int64_t[]){2, 3, big ? 1000 : 1}, &x, NULL));
            for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, i % 100);
            VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){2, 0, 1}, &p, NULL));
            VN_ASSERT_OK(t, vn_npy_write(path, p, NULL));
            VN_ASSERT_OK(t, vn_npy_read(path, &back, NULL));
            VN_ASSERT(t, vn_tensor_equal_bits(p, back));
            vn_tensor_free(x);
            vn_tensor_free(p);
            vn_tensor_free(back);
        }
    vn_tensor_t *x;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_tensor_new(VN_BF16, 0, NULL, &x, NULL));
    VN_ASSERT_EQ(t, vn_npy_write(path, x, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "bf16");
    vn_tensor_free(x);
}

VN_TEST(npy, survives_damage) {
    unsigned char file[512], text[512];
    const uint32_t wide[] = {0x68, 0xe9, 0, 0x20ac, 0x1f600, 0};
    const size_t n = build(file, 1, "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }", "0123456789abcdefghijklmn", 24);
    const size_t m = build(text, 2, "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", wide, sizeof wide);
    corrupt_truncate(t, read_it, file, n, 1);
    corrupt_truncate(t, read_it, text, m, 1);
    corrupt_flip(t, read_it, file, n, 5000);
    corrupt_flip(t, read_it, text, m, 5000);
    VN_ASSERT_GE(t, corrupt_allocations(t, read_it, file, n), 4);
    VN_ASSERT_GE(t, corrupt_allocations(t, read_it, text, m), 4);
}

VN_TEST_MAIN(VN_CASE(npy, reads_all_layouts), VN_CASE(npy, turns_fortran_order), VN_CASE(npy, reads_texts),
             VN_CASE(npy, refuses_with_a_reason), VN_CASE(npy, writes_what_it_reads), VN_CASE(npy, survives_damage))
