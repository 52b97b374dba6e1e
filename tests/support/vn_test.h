/* vn_test.h -- a thin wrapper over cmocka: named tests, seeds printed on failure, values as hexadecimal floats.
 *
 *   VN_TEST(reduce_sum, bound_true) { vn_rng_t rng = vn_test_rng(t); ... VN_ASSERT_LE(t, error, bound); }
 *   VN_TEST_MAIN(VN_CASE(reduce_sum, bound_true), ...)
 *
 * Environment: VN_SEED=0x... repeats a failure; VN_SCALE=10 multiplies the effort; VERNIER_FULL=1 is the full tier.
 */
#ifndef VN_TEST_H
#define VN_TEST_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vernier/base.h"
#include "vernier/tensor.h"

typedef struct vn_test {
    const char *name;
    uint64_t seed;
    int scale;
} vn_test_t;

vn_test_t vn_test_begin(const char *name);
vn_rng_t vn_test_rng(vn_test_t *t);
static inline int vn_test_scale(const vn_test_t *t) { return t->scale; }
/** VERNIER_FULL=1: everything, minutes long; else a share that takes about a second. */
bool vn_test_full(void);
/** Prints message, seed and the one-line rerun, then fails the test. */
void vn_test_fail(const vn_test_t *t, const char *file, int line, const char *fmt, ...) VN_PRINTF(4, 5);
/** Honours CMOCKA_TEST_FILTER, the one-line rerun's way to one test. */
void vn_test_filter(void);
/** A scratch folder of this test program, removed at exit. */
const char *vn_test_tmp(void);

#define VN_TEST(group, what)                           \
    static void group##_##what##_body(vn_test_t *t);   \
    static void group##_##what(void **state) {         \
        (void)state;                                   \
        vn_test_t t = vn_test_begin(#group "_" #what); \
        group##_##what##_body(&t);                     \
    }                                                  \
    static void group##_##what##_body(vn_test_t *t)
#define VN_CASE(group, what) cmocka_unit_test(group##_##what)
#define VN_TEST_MAIN(...)                                 \
    int main(void) {                                      \
        const struct CMUnitTest tests[] = {__VA_ARGS__};  \
        vn_test_filter();                                 \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

#define VN_ASSERT(t, cond)                                                       \
    do {                                                                         \
        (void)(t);                                                               \
        if (!(cond)) vn_test_fail(t, __FILE__, __LINE__, "not true: %s", #cond); \
    } while (0)
#define VN_ASSERT_OK(t, expr)                                                                      \
    do {                                                                                           \
        vn_status_t s_ = (expr);                                                                   \
        if (s_ != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s: %s", #expr, vn_status_name(s_)); \
    } while (0)
/** err is the vn_error_t that expr filled; its text is printed. */
#define VN_ASSERT_OK_ERR(t, expr, err)                                                                             \
    do {                                                                                                           \
        vn_status_t s_ = (expr);                                                                                   \
        if (s_ != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s: %s: %s", #expr, vn_status_name(s_), (err).text); \
    } while (0)
#define VN_ASSERT_EQ(t, a, b)                                                                                                     \
    do {                                                                                                                          \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                                       \
        if (a_ != b_)                                                                                                             \
            vn_test_fail(t, __FILE__, __LINE__, "%s = %lld (0x%llx), %s = %lld (0x%llx)", #a, a_, (unsigned long long)a_, #b, b_, \
                         (unsigned long long)b_);                                                                                 \
    } while (0)
#define VN_ASSERT_CMP_(t, a, op, b)                                                                                                   \
    do {                                                                                                                              \
        double a_ = (a), b_ = (b);                                                                                                    \
        if (!(a_ op b_)) vn_test_fail(t, __FILE__, __LINE__, "%s = %a (%.9g) is not " #op " %s = %a (%.9g)", #a, a_, a_, #b, b_, b_); \
    } while (0)
#define VN_ASSERT_LE(t, a, b) VN_ASSERT_CMP_(t, a, <=, b)
#define VN_ASSERT_LT(t, a, b) VN_ASSERT_CMP_(t, a, <, b)
#define VN_ASSERT_GT(t, a, b) VN_ASSERT_CMP_(t, a, >, b)
#define VN_ASSERT_GE(t, a, b) VN_ASSERT_CMP_(t, a, >=, b)
#define VN_ASSERT_DEQ(t, a, b) VN_ASSERT_CMP_(t, a, ==, b)
#define VN_ASSERT_STR(t, a, b)                                                                                               \
    do {                                                                                                                     \
        const char *a_ = (a), *b_ = (b);                                                                                     \
        if (!a_ || !b_ || __builtin_strcmp(a_, b_))                                                                          \
            vn_test_fail(t, __FILE__, __LINE__, "%s = \"%s\", expected \"%s\"", #a, a_ ? a_ : "(null)", b_ ? b_ : "(null)"); \
    } while (0)
/** `needle` occurs in `text`. */
#define VN_ASSERT_HAS(t, text, needle)                                                                     \
    do {                                                                                                   \
        const char *h_ = (text), *n_ = (needle);                                                           \
        if (!h_ || !__builtin_strstr(h_, n_))                                                              \
            vn_test_fail(t, __FILE__, __LINE__, "\"%s\" does not contain \"%s\"", h_ ? h_ : "(null)", n_); \
    } while (0)

#endif
