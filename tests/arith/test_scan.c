/* The staged scan against golden digests that two other programs agree on. Claim ARITHM-2. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/arith.h"

/* Input rules of the goldens (tests/data/schedule/prefix_scan.json). */
static void fill(const char *rule, int64_t width, float *x) {
    uint32_t s = (uint32_t)width;
    for (int64_t k = 0; k < 2 * width; ++k) {
        if (strcmp(rule, "lcg") == 0) {
            s = s * 1664525u + 1013904223u;
            const uint32_t u = s >> 8;
            x[k] = (float)((double)((int64_t)u - 8388608) * (double)(1u << (u >> 5) % 12) * 0x1p-23);
            continue;
        }
        static const float cycle[4] = {1e8f, 1, -1e8f, 0};
        const int64_t at = k % width, t = at / 4, l = at % 4;
        const float v = t % 3 == 1 ? (l == 0 ? 1.0f : 0.0f) : cycle[l];
        x[k] = k < width ? v : -v;
    }
}

VN_TEST(scan, goldens) {
    json_t *file = json_load_file(VN_TEST_DATA "/schedule/prefix_scan.json", 0, NULL), *entry;
    size_t at;
    int seen = 0;
    VN_ASSERT(t, file);
    json_array_foreach(json_object_get(file, "cases"), at, entry) {
        const char *rule = json_string_value(json_object_get(entry, "rule"));
        const int64_t width = json_integer_value(json_array_get(json_object_get(entry, "shape"), 1));
        float *x = malloc(2 * (size_t)width * sizeof *x), *y = malloc(2 * (size_t)width * sizeof *y);
        char hex[65];
        vn_error_t err = {0};
        fill(rule, width, x);
        vn_sha256_hex(x, 2 * (size_t)width * sizeof *x, hex);
        VN_ASSERT(t, strcmp(hex, json_string_value(json_object_get(entry, "input_raw_f32le_sha256"))) == 0);
        for (int row = 0; row < 2; ++row) VN_ASSERT(t, vn_scan_staged(x + row * width, width, 0, y + row * width, &err) == VN_OK);
        vn_sha256_hex(y, 2 * (size_t)width * sizeof *y, hex);
        if (strcmp(hex, json_string_value(json_object_get(entry, "output_raw_f32le_sha256"))) != 0)
            vn_test_fail(t, __FILE__, __LINE__, "%s, width %lld: other bits", rule, (long long)width);
        /* a plain running sum differs where the goldens say so */
        int64_t differ = 0;
        for (int row = 0; row < 2; ++row) {
            float sum = x[row * width];
            for (int64_t k = 0; k < width; ++k) {
                if (k) sum = sum + x[row * width + k];
                differ += memcmp(&sum, &y[row * width + k], sizeof sum) != 0;
            }
        }
        VN_ASSERT(t, differ == json_integer_value(json_object_get(json_object_get(entry, "differs_from_sequential"), "count")));
        free(x);
        free(y);
        ++seen;
    }
    VN_ASSERT(t, seen == 18);
    json_decref(file);
}

VN_TEST(scan, carry_and_range) {
    const float x[3] = {1, -0.0f, 2};
    float y[3];
    vn_error_t err = {0};
    VN_ASSERT(t, vn_scan_staged(x, 3, 10, y, &err) == VN_OK && y[0] == 11 && y[1] == 11 && y[2] == 13);
    VN_ASSERT(t, vn_scan_staged(x, 0, 0, y, &err) == VN_ERR_RANGE && *err.text);
    VN_ASSERT(t, vn_scan_staged(x, 4097, 0, y, &err) == VN_ERR_RANGE);
}

VN_TEST_MAIN(VN_CASE(scan, goldens), VN_CASE(scan, carry_and_range))
