/* Descriptors, strings and lines: what goes out comes back, and nothing else is let in. */
#include "protocol/codec.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/vn_test.h"

static vn_status_t read_text(const char *text, vn_desc_t *d, vn_error_t *err) {
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    vn_status_t s = o ? vn_desc_read(o, "value", d, err) : VN_ERR_INTERNAL;
    json_decref(o);
    return s;
}

VN_TEST(codec, descriptors_round_trip) {
    const vn_desc_t cases[] = {
        {.dtype = VN_F32, .rank = 2, .dims = {3, 5}, .count = 15, .shm = "/vernier-1-2-3-4", .offset = 64, .bytes = 60},
        {.dtype = VN_BF16, .rank = 0, .count = 1, .shm = "/s", .bytes = 2},
        {.dtype = VN_I4, .rank = 1, .dims = {7}, .count = 7, .shm = "/s", .bytes = 4},
        {.dtype = VN_F64, .rank = 3, .dims = {4, 0, 9}, .count = 0, .shm = "/s", .bytes = 0},
        {.dtype = VN_STRING, .rank = 1, .dims = {2}, .count = 2, .shm = "/s", .offset = 128, .bytes = 31},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        json_t *o = json_object();
        vn_desc_t back;
        vn_error_t err;
        VN_ASSERT(t, vn_desc_put(o, &cases[i]));
        VN_ASSERT_OK_ERR(t, vn_desc_read(o, "value", &back, &err), err);
        VN_ASSERT(t, back.dtype == cases[i].dtype && back.rank == cases[i].rank && back.count == cases[i].count);
        VN_ASSERT(t, back.offset == cases[i].offset && back.bytes == cases[i].bytes && strcmp(back.shm, cases[i].shm) == 0);
        VN_ASSERT(t, memcmp(back.dims, cases[i].dims, sizeof back.dims) == 0);
        json_decref(o);
    }
}

VN_TEST(codec, bad_descriptors_are_refused) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{}", "no \"dtype\""},
        {"{\"dtype\":7}", "no \"dtype\""},
        {"{\"dtype\":\"f33\"}", "unknown dtype 'f33'"},
        {"{\"dtype\":\"undefined\",\"dims\":[]}", "unknown dtype"},
        {"{\"dtype\":\"f32\"}", "\"dims\" is not an array"},
        {"{\"dtype\":\"f32\",\"dims\":[2,true]}", "\"dims\"[1]"},
        {"{\"dtype\":\"f32\",\"dims\":[-2]}", "\"dims\"[0]"},
        {"{\"dtype\":\"f32\",\"dims\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "rank 17"},
        {"{\"dtype\":\"f32\",\"dims\":[4611686018427387904,4]}", "overflows"},
        {"{\"dtype\":\"f64\",\"dims\":[4611686018427387904],\"shm\":\"/s\",\"offset\":0,\"bytes\":0}", "overflows"},
        {"{\"dtype\":\"f32\",\"dims\":[1]}", "\"shm\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"s\"}", "\"shm\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/a/b\"}", "\"shm\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/0123456789012345678901234567890123456789012345678901234567890123\"}", "\"shm\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/s\",\"bytes\":4}", "\"offset\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/s\",\"offset\":-64,\"bytes\":4}", "\"offset\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/s\",\"offset\":65,\"bytes\":4}", "offset 65 is not a multiple of 64"},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/s\",\"offset\":64}", "\"bytes\""},
        {"{\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/s\",\"offset\":64,\"bytes\":8}", "\"bytes\" is 8, dtype and dims need 4"},
        {"{\"dtype\":\"string\",\"dims\":[2],\"shm\":\"/s\",\"offset\":0,\"bytes\":23}", "do not hold the offsets of 2 strings"},
        {"{\"dtype\":\"string\",\"dims\":[9223372036854775807],\"shm\":\"/s\",\"offset\":0,\"bytes\":8}", "do not hold the offsets"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_desc_t d;
        vn_error_t err = {0};
        VN_ASSERT_EQ(t, read_text(cases[i].text, &d, &err), VN_ERR_PARSE);
        VN_ASSERT_HAS(t, err.text, cases[i].why);
    }
}

VN_TEST(codec, strings_round_trip) {
    static const struct {
        const char *text;
        size_t n;
    } words[] = {{"", 0}, {"abc", 3}, {"a\0b", 3}, {"\xc3\xa4\xe2\x82\xac", 5}};
    vn_tensor_t *a, *b;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 2, (int64_t[]){2, 2}, &a, NULL));
    for (int i = 0; i < 4; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(a, i, words[i].text, words[i].n, NULL));
    vn_desc_t d = {.dtype = VN_STRING, .rank = 2, .dims = {2, 2}, .count = 4};
    VN_ASSERT_OK(t, vn_packed_size(a, &d.bytes, NULL));
    VN_ASSERT_EQ(t, d.bytes, 5 * 8 + 11);
    unsigned char *bytes = vn_alloc(d.bytes, 1);
    VN_ASSERT_OK(t, vn_packed_put(a, bytes, NULL));
    VN_ASSERT_OK(t, vn_packed_strings(&d, bytes, "value", &b, NULL));
    VN_ASSERT(t, vn_tensor_equal_bits(a, b));
    vn_tensor_free(a);
    vn_tensor_free(b);
    vn_free(bytes);
}

VN_TEST(codec, bad_string_offsets_are_refused) {
    static const int64_t tables[][4] = {
        {1, 2, 3, 4}, {0, -1, 3, 4}, {0, 3, 2, 4}, {0, 2, 3, 5}, {0, INT64_MAX, 3, 4}, {0, INT64_MIN, 3, 4},
    };
    unsigned char bytes[36] = {0};
    const vn_desc_t d = {.dtype = VN_STRING, .rank = 1, .dims = {3}, .count = 3, .bytes = 36};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
        vn_tensor_t *out;
        vn_error_t err;
        memcpy(bytes, tables[i], 32);
        VN_ASSERT_EQ(t, vn_packed_strings(&d, bytes, "value", &out, &err), VN_ERR_PARSE);
        VN_ASSERT(t, out == NULL);
    }
}

/* Strided tensors are packed in row-major order. */
VN_TEST(codec, strides_are_packed) {
    vn_tensor_t *a, *p;
    float out[6];
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 2, (int64_t[]){2, 3}, &a, NULL));
    for (int i = 0; i < 6; ++i) vn_tensor_set_f64(a, i, i);
    VN_ASSERT_OK(t, vn_tensor_permute(a, (int[]){1, 0}, &p, NULL));
    VN_ASSERT_OK(t, vn_packed_put(p, out, NULL));
    static const float want[] = {0, 3, 1, 4, 2, 5};
    VN_ASSERT(t, memcmp(out, want, sizeof want) == 0);
    vn_tensor_free(a);
    vn_tensor_free(p);
}

/* Lines arrive whole whatever the pieces in which they are read. */
VN_TEST(codec, lines_in_pieces) {
    int fd[2];
    VN_ASSERT_EQ(t, pipe(fd), 0);
    static const char *const lines[] = {"first", "", "a third one"};
    vn_lines_t l = {0};
    size_t n;
    VN_ASSERT(t, vn_lines_take(&l, &n) == NULL);
    int got = 0;
    for (int i = 0; i < 3; ++i) {
        for (const char *p = lines[i];; ++p) {
            const char c = *p ? *p : '\n';
            VN_ASSERT(t, vn_write_all(fd[1], &c, 1));
            VN_ASSERT_EQ(t, vn_lines_fill(&l, fd[0]), 1);
            char *line = vn_lines_take(&l, &n);
            VN_ASSERT_EQ(t, line != NULL, c == '\n');
            if (line) VN_ASSERT_STR(t, line, lines[got++]);
            if (!*p) break;
        }
    }
    VN_ASSERT(t, vn_write_all(fd[1], "x\ny\nrest", 8));
    VN_ASSERT_EQ(t, vn_lines_fill(&l, fd[0]), 8);
    VN_ASSERT_STR(t, vn_lines_take(&l, &n), "x");
    VN_ASSERT_STR(t, vn_lines_take(&l, &n), "y");
    VN_ASSERT(t, vn_lines_take(&l, &n) == NULL);
    close(fd[1]);
    VN_ASSERT_EQ(t, vn_lines_fill(&l, fd[0]), 0);
    VN_ASSERT(t, vn_lines_take(&l, &n) == NULL); /* a line without its line feed is no line */
    close(fd[0]);
    vn_lines_free(&l);
}

VN_TEST_MAIN(VN_CASE(codec, descriptors_round_trip), VN_CASE(codec, bad_descriptors_are_refused), VN_CASE(codec, strings_round_trip),
             VN_CASE(codec, bad_string_offsets_are_refused), VN_CASE(codec, strides_are_packed), VN_CASE(codec, lines_in_pieces))
