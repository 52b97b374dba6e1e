/* Replies of a run that need a real segment to be wrong about: sizes, offsets, strings, sequences, forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/vn_test.h"
#include "worker/internal.h"

static const char prefix[] = "/vernier-decode-test";

/* Decodes one reply about output y. `bytes` become a segment of the worker's; %s in the reply is its name. */
static vn_status_t decode(const char *reply, const void *bytes, size_t size, const vn_output_spec_t *spec, vn_output_t *out,
                          vn_error_t *err) {
    static int count;
    char name[64], text[2048];
    vn_shm_t shm;
    json_error_t why;
    snprintf(name, sizeof name, "%s-%d%d", prefix, (int)getpid(), ++count);
    VN_TRY(vn_shm_create(name, size, &shm, err));
    memcpy(shm.data, bytes, size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, reply, name, name);
#pragma GCC diagnostic pop
    json_t *o = json_loads(text, 0, &why);
    const vn_output_place_t place = {.host = false};
    memset(out, 0, sizeof *out);
    vn_status_t s = o ? vn_run_decode(o, prefix, 1, spec, &place, NULL, out, err) : vn_fail(err, VN_ERR_INTERNAL, "test: %s", why.text);
    json_decref(o);
    vn_shm_close(&shm);
    return s;
}

static const vn_output_spec_t open_y = {.name = "y", .rank = -1};
#define Y(fields) "{\"outputs\":[{\"name\":\"y\"," fields "}]}"
#define F32(dims, offset, bytes) \
    "\"kind\":\"tensor\",\"dtype\":\"f32\",\"dims\":" dims ",\"shm\":\"%s\",\"offset\":" offset ",\"bytes\":" bytes

VN_TEST(decode, tensors) {
    float data[32] = {0};
    vn_output_t y;
    vn_error_t err;
    data[16] = 1.5f;
    data[17] = -2;
    VN_ASSERT_OK_ERR(t, decode(Y(F32("[2]", "64", "8")), data, sizeof data, &open_y, &y, &err), err);
    VN_ASSERT(t, y.worker_allocated && y.value->kind == VN_VALUE_TENSOR);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(y.value->tensor, 0), 1.5);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(y.value->tensor, 1), -2);
    vn_output_free(&y);
    VN_ASSERT_OK_ERR(t, decode(Y(F32("[0,7]", "128", "0")), data, sizeof data, &open_y, &y, &err), err);
    VN_ASSERT_EQ(t, y.value->tensor->count, 0);
    vn_output_free(&y);
}

VN_TEST(decode, lies) {
    static const struct {
        const char *reply, *why;
    } cases[] = {
        {Y(F32("[2]", "128", "8")), "run past the segment's 128"},
        {Y(F32("[33]", "0", "132")), "run past the segment's 128"},
        {Y(F32("[1]", "9223372036854775744", "4")), "run past the segment's"},
        {Y("\"kind\":\"tensor\",\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"%s9\",\"offset\":0,\"bytes\":4"), "cannot open shared memory"},
        {Y("\"kind\":\"tensor\",\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/vernier-decode-test-h1\",\"offset\":0,\"bytes\":4"),
         "not one of this worker's"},
        {Y("\"kind\":\"tensor\",\"dtype\":\"f32\",\"dims\":[1],\"shm\":\"/vernier-decode-testament\",\"offset\":0,\"bytes\":4"),
         "not one of this worker's"},
        {Y("\"kind\":\"tensor\",\"dtype\":\"string\",\"dims\":[1],\"shm\":\"%s\",\"offset\":0,\"bytes\":24"), "ends at"},
        {Y("\"host\":true"), "the host gave no memory for it"},
        {Y("\"kind\":\"sequence\",\"elem\":\"f32\""), "\"items\" is not an array"},
        {Y("\"kind\":\"sequence\",\"items\":[]"), "\"elem\" is not the name of a dtype"},
        {Y("\"kind\":\"sequence\",\"elem\":\"f77\",\"items\":[]"), "\"elem\" is not the name of a dtype"},
        {Y("\"kind\":\"optional\",\"elem\":\"f32\",\"items\":[{\"kind\":\"absent\"},{\"kind\":\"absent\"}]"), "an optional with 2 items"},
        {Y("\"kind\":\"sequence\",\"elem\":\"f32\",\"items\":[7]"), "unknown kind ''"},
        {"{\"outputs\":[7]}", "output 0 has no name"},
        {"{\"outputs\":{}}", "\"outputs\" is not an array"},
    };
    unsigned char data[128];
    memset(data, 0x7F, sizeof data);
    memset(data, 0, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_output_t y;
        vn_error_t err = {0};
        VN_ASSERT_EQ(t, decode(cases[i].reply, data, sizeof data, &open_y, &y, &err), VN_ERR_PARSE);
        VN_ASSERT_EQ(t, err.status, VN_ERR_PARSE);
        VN_ASSERT_HAS(t, err.text, cases[i].why);
        vn_output_free(&y);
    }
    char deep[2000] = "{\"outputs\":[{\"name\":\"y\"";
    for (int i = 0; i < 12; ++i) strcat(deep, ",\"kind\":\"sequence\",\"elem\":\"f32\",\"items\":[{\"x\":0");
    for (int i = 0; i < 12; ++i) strcat(deep, "}]");
    strcat(deep, "}]}");
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_EQ(t, decode(deep, data, sizeof data, &open_y, &y, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "nested deeper than 8");
}

VN_TEST(decode, strings_sequences_optionals) {
    struct {
        int64_t offsets[3];
        char text[8];
    } s = {{0, 2, 5}, "hithere"};
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t,
                     decode(Y("\"kind\":\"tensor\",\"dtype\":\"string\",\"dims\":[2],\"shm\":\"%s\",\"offset\":0,\"bytes\":31"), &s,
                            sizeof s, &open_y, &y, &err),
                     err);
    VN_ASSERT_STR(t, ((vn_string_t *)y.value->tensor->data)[1].text, "the");
    vn_output_free(&y);
    const float v[32] = {3, 4};
    VN_ASSERT_OK_ERR(t,
                     decode(Y("\"kind\":\"sequence\",\"elem\":\"f32\",\"items\":[{" F32("[1]", "0", "4") "},{" F32("[2,1]", "0", "8") "}]"),
                            v, sizeof v, &open_y, &y, &err),
                     err);
    VN_ASSERT(t, y.value->kind == VN_VALUE_SEQUENCE && y.value->count == 2 && y.value->elem == VN_F32);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(y.value->items[1]->tensor, 1), 4);
    vn_output_free(&y);
    VN_ASSERT_OK_ERR(t, decode(Y("\"kind\":\"optional\",\"elem\":\"f32\",\"items\":[]"), v, sizeof v, &open_y, &y, &err), err);
    VN_ASSERT(t, y.value->kind == VN_VALUE_OPTIONAL && y.value->count == 0);
    vn_output_free(&y);
    VN_ASSERT_OK_ERR(t, decode(Y("\"kind\":\"absent\""), v, sizeof v, &open_y, &y, &err), err);
    VN_ASSERT(t, y.value->kind == VN_VALUE_ABSENT);
    vn_output_free(&y);
}

VN_TEST(decode, forms_are_compared) {
    static const struct {
        vn_output_spec_t spec;
        const char *error;
    } cases[] = {
        {{.name = "y", .dtype = VN_F32, .rank = 1, .dims = {2}}, ""},
        {{.name = "y", .dtype = VN_F32, .rank = -1}, ""},
        {{.name = "y", .dtype = VN_UNDEFINED, .rank = 1, .dims = {2}}, ""},
        {{.name = "y", .dtype = VN_F64, .rank = 1, .dims = {2}}, "f64[2] was declared, f32[2] returned"},
        {{.name = "y", .dtype = VN_F16, .rank = -1}, "f16 of any shape was declared, f32[2] returned"},
        {{.name = "y", .dtype = VN_UNDEFINED, .rank = 2, .dims = {1, 2}}, "f32[1,2] was declared, f32[2] returned"},
        {{.name = "y", .dtype = VN_F32, .rank = 0}, "f32[] was declared, f32[2] returned"},
    };
    const float v[16] = {3, 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_output_t y;
        vn_error_t err;
        VN_ASSERT_OK_ERR(t, decode(Y(F32("[2]", "0", "8")), v, sizeof v, &cases[i].spec, &y, &err), err);
        VN_ASSERT_STR(t, y.form_error, cases[i].error);
        vn_output_free(&y);
    }
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, decode(Y("\"kind\":\"sequence\",\"elem\":\"f32\",\"items\":[]"), v, sizeof v, &cases[0].spec, &y, &err), err);
    VN_ASSERT_STR(t, y.form_error, "a tensor was declared, a sequence returned");
    vn_output_free(&y);
}

VN_TEST_MAIN(VN_CASE(decode, tensors), VN_CASE(decode, lies), VN_CASE(decode, strings_sequences_optionals),
             VN_CASE(decode, forms_are_compared))
