/* .npz: round trips of every type, same bytes each time, hostile archives. */
#include <stdlib.h>

#include <zip.h>

#include "tensor/corrupt.h"

static const char *scratch(const char *name) {
    static char path[4][4200];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", vn_test_tmp(), name);
    return p;
}

static vn_bundle_t all_types(vn_test_t *t, int64_t width) {
    vn_bundle_t b = {0};
    for (int d = 1; d < VN_DTYPE_COUNT; ++d) {
        vn_tensor_t *x;
        char name[32];
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 2, (int64_t[]){3, width}, &x, NULL));
        for (int64_t i = 0; i < x->count; ++i) {
            if (d == VN_STRING) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, "abc", (size_t)(i % 4), NULL));
            else vn_tensor_set_f64(x, i, (double)(i % 3 + 1) * (i % 2 && vn_dtype_kind((vn_dtype_t)d) == VN_KIND_SIGNED ? -1 : 1));
        }
        snprintf(name, sizeof name, "dir/%s", vn_dtype_name((vn_dtype_t)d));
        VN_ASSERT_OK(t, vn_bundle_add(&b, name, x, NULL));
        vn_tensor_free(x);
    }
    return b;
}

static unsigned char *slurp(const char *path, size_t *size) {
    vn_map_t m;
    if (vn_map_file(path, &m, NULL) != VN_OK) return NULL;
    unsigned char *copy = vn_alloc(m.size, 1);
    memcpy(copy, m.data, m.size);
    *size = m.size;
    vn_unmap(&m);
    return copy;
}

/* An archive of one or two members made by libzip, deflated or stored. */
static const char *archive(const char *name, const char *a, const char *b, const void *data, size_t size, bool deflate) {
    const char *path = scratch(name);
    remove(path);
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    const char *names[] = {a, b};
    for (int k = 0; k < 2 && names[k]; ++k) {
        const zip_int64_t i = zip_file_add(z, names[k], zip_source_buffer(z, data, size, 0), 0);
        zip_set_file_compression(z, (zip_uint64_t)i, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 9);
    }
    zip_close(z);
    return path;
}

static vn_status_t read_bytes(const unsigned char *data, size_t size, vn_error_t *err) {
    vn_bundle_t b;
    const vn_status_t s = vn_npz_read(corrupt_memory(data, size), &b, err);
    vn_bundle_free(&b);
    return s;
}

VN_TEST(npz, every_type_comes_back_and_bytes_repeat) {
    for (int64_t width = 0; width < 2000; width = width * 30 + 5) {
        vn_bundle_t b = all_types(t, width), back;
        vn_error_t err;
        size_t n1 = 0, n2 = 0;
        VN_ASSERT_OK_ERR(t, vn_npz_write(scratch("a.npz"), &b, &err), err);
        VN_ASSERT_OK_ERR(t, vn_npz_read(scratch("a.npz"), &back, &err), err);
        VN_ASSERT_EQ(t, back.count, b.count);
        for (int i = 0; i < b.count; ++i) {
            VN_ASSERT_STR(t, back.items[i].name, b.items[i].name);
            VN_ASSERT(t, vn_tensor_equal_bits(back.items[i].tensor, b.items[i].tensor));
        }
        VN_ASSERT_OK_ERR(t, vn_npz_write(scratch("b.npz"), &back, &err), err);
        unsigned char *one = slurp(scratch("a.npz"), &n1), *two = slurp(scratch("b.npz"), &n2);
        VN_ASSERT(t, one && two && n1 == n2 && memcmp(one, two, n1) == 0);
        vn_free(one);
        vn_free(two);
        vn_bundle_free(&b);
        vn_bundle_free(&back);
    }
}

VN_TEST(npz, the_empty_archive) {
    vn_bundle_t b = {0}, back;
    VN_ASSERT_OK(t, vn_npz_write(scratch("empty.npz"), &b, NULL));
    VN_ASSERT_OK(t, vn_npz_read(scratch("empty.npz"), &back, NULL));
    VN_ASSERT_EQ(t, back.count, 0);
}

VN_TEST(npz, refuses_with_a_reason) {
    vn_bundle_t b;
    vn_error_t err;
    vn_tensor_t *x;
    size_t size = 0;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, (int64_t[]){3}, &x, NULL));
    VN_ASSERT_OK(t, vn_npy_write(scratch("x.npy"), x, NULL));
    unsigned char *npy = slurp(scratch("x.npy"), &size);
    VN_ASSERT_OK(t, vn_npz_read(archive("ok.npz", "x.npy", "y.npy", npy, size, true), &b, NULL));
    VN_ASSERT_EQ(t, b.count, 2);
    vn_bundle_free(&b);
    static const struct {
        const char *a, *b;
        vn_status_t status;
        const char *text;
    } rows[] = {
        {"x.txt", NULL, VN_ERR_PARSE, "member x.txt: is not named .npy"},
        {"x__bf16.npy", NULL, VN_ERR_PARSE, "suffix __bf16 asks for 16-bit integers"},
        {"x__i4.npy", NULL, VN_ERR_PARSE, "is stored as f32"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        VN_ASSERT_EQ(t, vn_npz_read(archive("bad.npz", rows[k].a, rows[k].b, npy, size, false), &b, &err), rows[k].status);
        VN_ASSERT_HAS(t, err.text, rows[k].text);
        VN_ASSERT(t, b.items == NULL && b.count == 0);
    }
    VN_ASSERT_EQ(t, vn_npz_read(archive("bad.npz", "x.npy", NULL, "garbage", 7, false), &b, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "member x.npy: is not a NumPy");
    VN_ASSERT_EQ(t, vn_npz_read(corrupt_file("text.npz", "hello", 5), &b, &err), VN_ERR_PARSE);
    VN_ASSERT_EQ(t, vn_npz_read("/nonexistent/x.npz", &b, &err), VN_ERR_IO);
    vn_bundle_t named = {0};
    VN_ASSERT_OK(t, vn_bundle_add(&named, "x__bf16", x, NULL));
    VN_ASSERT_EQ(t, vn_npz_write(scratch("n.npz"), &named, &err), VN_ERR_USAGE);
    vn_bundle_free(&named);
    VN_ASSERT_OK(t, vn_bundle_add(&named, "x", x, NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&named, "x", x, NULL));
    VN_ASSERT_EQ(t, vn_npz_write(scratch("n.npz"), &named, &err), VN_ERR_PARSE);
    vn_bundle_free(&named);
    VN_ASSERT_OK(t, vn_bundle_add(&named, "x", x, NULL));
    VN_ASSERT_EQ(t, vn_npz_write("/nonexistent/folder/x.npz", &named, &err), VN_ERR_IO);
    vn_bundle_free(&named);
    vn_free(npy);
    vn_tensor_free(x);
}

/* u16 tensors may carry a suffixed name once, so x__bf16 beside x meets the same name twice. */
VN_TEST(npz, refuses_names_that_meet) {
    vn_tensor_t *x;
    size_t size = 0;
    vn_bundle_t b;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_tensor_new(VN_U16, 1, (int64_t[]){3}, &x, NULL));
    VN_ASSERT_OK(t, vn_npy_write(scratch("x.npy"), x, NULL));
    unsigned char *npy = slurp(scratch("x.npy"), &size);
    VN_ASSERT_EQ(t, vn_npz_read(archive("twice.npz", "x.npy", "x__bf16.npy", npy, size, false), &b, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "two members are named x");
    /* The same name twice, which no writer makes: renamed in the bytes of both headers. */
    size_t n = 0;
    unsigned char *zip = slurp(archive("same.npz", "x.npy", "y.npy", npy, size, false), &n);
    for (size_t i = 0; i + 5 < n; ++i)
        if (memcmp(zip + i, "y.npy", 5) == 0) zip[i] = 'x';
    VN_ASSERT_EQ(t, read_bytes(zip, n, &err), VN_ERR_PARSE);
    vn_free(zip);
    vn_free(npy);
    vn_tensor_free(x);
}

/* 65 MiB of zeros that claim to come from a few bytes: the claim is refused, nothing is inflated. */
VN_TEST(npz, refuses_bombs_by_their_claim) {
    size_t n = 0;
    vn_error_t err;
    unsigned char *zip =
        slurp(archive("bomb.npz", "x.npy", NULL, "\x93NUMPY.............................................................", 64, true), &n);
    const uint32_t claim = 65u << 20;
    for (size_t i = 0; i + 46 < n; ++i) { /* uncompressed size in the local and the central header */
        if (memcmp(zip + i, "PK\3\4", 4) == 0) memcpy(zip + i + 22, &claim, 4);
        if (memcmp(zip + i, "PK\1\2", 4) == 0) memcpy(zip + i + 24, &claim, 4);
    }
    VN_ASSERT_EQ(t, read_bytes(zip, n, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "member x.npy: claims 68157440 bytes");
    vn_free(zip);
}

VN_TEST(npz, survives_damage) {
    vn_bundle_t b = {0};
    vn_tensor_t *x;
    size_t n = 0;
    VN_ASSERT_OK(t, vn_tensor_new(VN_BF16, 1, (int64_t[]){5}, &x, NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&b, "a", x, NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&b, "b", x, NULL));
    vn_tensor_free(x);
    VN_ASSERT_OK(t, vn_tensor_new(VN_I4, 1, (int64_t[]){5}, &x, NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&b, "c", x, NULL));
    VN_ASSERT_OK(t, vn_npz_write(scratch("d.npz"), &b, NULL));
    unsigned char *zip = slurp(scratch("d.npz"), &n);
    corrupt_truncate(t, read_bytes, zip, n, 1);
    corrupt_flip(t, read_bytes, zip, n, 200);
    VN_ASSERT_GE(t, corrupt_allocations(t, read_bytes, zip, n), 15);
    vn_free(zip);
    vn_tensor_free(x);
    vn_bundle_free(&b);
}

static vn_bundle_t to_write;

static vn_status_t write_npz(const unsigned char *data, size_t size, vn_error_t *err) {
    (void)data;
    (void)size;
    return vn_npz_write(scratch("f.npz"), &to_write, err);
}
static vn_status_t write_safetensors(const unsigned char *data, size_t size, vn_error_t *err) {
    (void)data;
    (void)size;
    return vn_safetensors_write(scratch("f.safetensors"), &to_write, err);
}

VN_TEST(npz, writers_survive_failed_allocations) {
    static const vn_dtype_t kinds[] = {VN_F32, VN_BF16};
    for (int k = 0; k < 2; ++k) {
        vn_tensor_t *x, *p;
        VN_ASSERT_OK(t, vn_tensor_new(kinds[k], 2, (int64_t[]){2, 3}, &x, NULL));
        VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){1, 0}, &p, NULL));
        VN_ASSERT_OK(t, vn_bundle_add(&to_write, vn_dtype_name(kinds[k]), p, NULL));
        vn_tensor_free(x);
        vn_tensor_free(p);
    }
    VN_ASSERT_GE(t, corrupt_allocations(t, write_npz, NULL, 0), 8);
    VN_ASSERT_GE(t, corrupt_allocations(t, write_safetensors, NULL, 0), 4);
    vn_bundle_free(&to_write);
}

/* A wrong byte in the data is found by the archive's checksum. */
VN_TEST(npz, checks_the_checksum) {
    vn_bundle_t b = {0};
    vn_tensor_t *x;
    vn_error_t err;
    size_t n = 0;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, (int64_t[]){100}, &x, NULL));
    for (int i = 0; i < 100; ++i) vn_tensor_set_f64(x, i, 1.0);
    VN_ASSERT_OK(t, vn_bundle_add(&b, "a", x, NULL));
    VN_ASSERT_OK(t, vn_npz_write(scratch("e.npz"), &b, NULL));
    unsigned char *zip = slurp(scratch("e.npz"), &n);
    VN_ASSERT_OK(t, read_bytes(zip, n, &err));
    zip[300] ^= 1; /* local header 35, .npy header 128: this lies in the elements */
    VN_ASSERT_EQ(t, read_bytes(zip, n, &err), VN_ERR_PARSE);
    vn_free(zip);
    vn_tensor_free(x);
    vn_bundle_free(&b);
}

VN_TEST_MAIN(VN_CASE(npz, every_type_comes_back_and_bytes_repeat), VN_CASE(npz, the_empty_archive), VN_CASE(npz, refuses_with_a_reason),
             VN_CASE(npz, refuses_names_that_meet), VN_CASE(npz, refuses_bombs_by_their_claim), VN_CASE(npz, survives_damage),
             VN_CASE(npz, writers_survive_failed_allocations), VN_CASE(npz, checks_the_checksum))
