/* Shared memory segments and the poison that fills them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/vn_test.h"
#include "vernier/protocol.h"

static void make_name(char out[64], const char *what) { snprintf(out, 64, "/vernier-test-%ld-%s", (long)getpid(), what); }

VN_TEST(shm, both_sides_see_the_same_bytes) {
    char name[64];
    vn_shm_t a, b, c;
    vn_error_t err;
    make_name(name, "same");
    VN_ASSERT_OK_ERR(t, vn_shm_create(name, 10000, &a, &err), err);
    VN_ASSERT_OK_ERR(t, vn_shm_attach(name, 10000, true, &b, &err), err);
    VN_ASSERT_OK_ERR(t, vn_shm_attach(name, 0, false, &c, &err), err);
    VN_ASSERT_EQ(t, c.size, 10000);
    memset(b.data, 7, 10000);
    VN_ASSERT_EQ(t, ((unsigned char *)a.data)[9999], 7);
    VN_ASSERT_EQ(t, ((unsigned char *)c.data)[9999], 7);
    VN_ASSERT_EQ(t, vn_shm_create(name, 1, &b, &err), VN_ERR_IO); /* the name is taken: b's mapping is lost to this test on purpose */
    vn_shm_close(&a);
    VN_ASSERT_EQ(t, vn_shm_attach(name, 1, false, &b, &err), VN_ERR_IO); /* the owner took the name away */
    VN_ASSERT_EQ(t, ((unsigned char *)c.data)[9999], 7);                 /* the mapping lives on */
    vn_shm_close(&c);
}

VN_TEST(shm, sizes_are_checked) {
    char name[64];
    vn_shm_t a, b;
    vn_error_t err;
    make_name(name, "size");
    VN_ASSERT_OK(t, vn_shm_create(name, 100, &a, NULL));
    VN_ASSERT_EQ(t, vn_shm_attach(name, 101, false, &b, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "has 100 bytes, 101 were announced");
    vn_shm_close(&a);
    VN_ASSERT_OK(t, vn_shm_create(name, 0, &a, NULL)); /* nothing is a size too */
    VN_ASSERT_OK(t, vn_shm_attach(name, 0, true, &b, NULL));
    vn_shm_close(&a);
    vn_shm_close(&b);
    VN_ASSERT_EQ(t, vn_shm_create("no-slash", 1, &a, &err), VN_ERR_PARSE);
    VN_ASSERT_EQ(t, vn_shm_create("/two/slashes", 1, &a, &err), VN_ERR_PARSE);
    VN_ASSERT_EQ(t, vn_shm_create(name, (size_t)1 << 60, &a, &err), VN_ERR_IO); /* more than there is: an error, not a SIGBUS later */
    VN_ASSERT_HAS(t, err.text, "/dev/shm");
}

VN_TEST(poison, every_element_counts_until_it_is_written) {
    for (int d = VN_F32; d < VN_DTYPE_COUNT; ++d) {
        if (d == VN_STRING) continue;
        vn_tensor_t *x;
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 2, (int64_t[]){37, 29}, &x, NULL));
        VN_ASSERT_EQ(t, vn_poison_count(x), 0);
        vn_poison_fill((vn_dtype_t)d, x->data, x->count);
        VN_ASSERT_EQ(t, vn_poison_count(x), 37 * 29);
        if (vn_dtype_bits((vn_dtype_t)d) >= 8) {
            memset(x->data, 0, (size_t)vn_dtype_bits((vn_dtype_t)d) / 8 * 100);
            VN_ASSERT_EQ(t, vn_poison_count(x), 37 * 29 - 100);
        }
        vn_tensor_free(x);
    }
}

/* A signalling NaN: no arithmetic returns one, so what is left of it was never written. */
VN_TEST(poison, floats_get_signalling_nans) {
    static const struct {
        vn_dtype_t t;
        uint64_t exponent, quiet, mantissa;
    } forms[] = {
        {VN_F16, 0x7C00, 0x0200, 0x03FF},
        {VN_BF16, 0x7F80, 0x0040, 0x007F},
        {VN_F32, 0x7F800000, 0x00400000, 0x007FFFFF},
        {VN_F64, 0x7FF0000000000000, 0x0008000000000000, 0x000FFFFFFFFFFFFF},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        vn_tensor_t *x;
        VN_ASSERT_OK(t, vn_tensor_new(forms[i].t, 1, (int64_t[]){3}, &x, NULL));
        vn_poison_fill(forms[i].t, x->data, 3);
        const uint64_t bits = vn_tensor_bits(x, 2);
        VN_ASSERT(t, (bits & forms[i].exponent) == forms[i].exponent && !(bits & forms[i].quiet) && (bits & forms[i].mantissa));
        VN_ASSERT(t, isnan(vn_tensor_get_f64(x, 1)));
        vn_tensor_free(x);
    }
}

VN_TEST(poison, strided_views_are_counted) {
    vn_tensor_t *x, *v;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 2, (int64_t[]){4, 6}, &x, NULL));
    vn_poison_fill(VN_F32, x->data, x->count);
    vn_tensor_set_f64(x, 7, 1);
    VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){1, 0}, &v, NULL));
    VN_ASSERT_EQ(t, vn_poison_count(v), 23);
    vn_tensor_free(v);
    vn_tensor_free(x);
}

VN_TEST_MAIN(VN_CASE(shm, both_sides_see_the_same_bytes), VN_CASE(shm, sizes_are_checked),
             VN_CASE(poison, every_element_counts_until_it_is_written), VN_CASE(poison, floats_get_signalling_nans),
             VN_CASE(poison, strided_views_are_counted))
