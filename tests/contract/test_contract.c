/* Built-in contracts, the text form and its errors. */
#include <string.h>

#include "support/vn_test.h"
#include "vernier/contract.h"

VN_TEST(contract, text_goes_round) {
    static const char *const texts[] = {
        "operand=f32,accumulator=f32,result=f32",
        "operand=tf32-rna,accumulator=f32",
        "accumulator=f16,function_ulp=2.5",
        "ieee",
        "portable",
        "fast",
        "operand=bf16,accumulator=f32,result=bf16,intermediate=f16,subnormals=ftz",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        vn_contract_t a, b;
        vn_error_t err = {0};
        char text[200];
        VN_ASSERT_OK_ERR(t, vn_contract_parse(texts[i], &a, &err), err);
        vn_contract_describe(&a, text, sizeof text);
        VN_ASSERT_STR(t, text, texts[i]);
        VN_ASSERT_OK_ERR(t, vn_contract_parse(text, &b, &err), err);
        VN_ASSERT(t, memcmp(&a, &b, sizeof a) == 0);
    }
}

VN_TEST(contract, errors_name_the_key) {
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"operand=f33", "'f33' is no value for 'operand'"},
        {"speed=fast", "unknown key 'speed'"},
        {"operand", "no KEY=VALUE"},
        {"function_ulp=-1", "'-1' is no value"},
        {"function_ulp=nan", "no value"},
        {",", "expected KEY=VALUE"},
        {"subnormals=maybe", "no value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        vn_contract_t c;
        vn_error_t err = {0};
        VN_ASSERT_EQ(t, vn_contract_parse(bad[i].text, &c, &err), VN_ERR_USAGE);
        VN_ASSERT_HAS(t, err.text, bad[i].says);
    }
}

VN_TEST(contract, resolves_by_type) {
    vn_contract_t c;
    VN_ASSERT(t, vn_contract_builtin("portable", &c));
    vn_contract_t h = vn_contract_resolve(&c, VN_F16), d = vn_contract_resolve(&c, VN_F64);
    VN_ASSERT_EQ(t, h.operand, VN_FMT_F16);
    VN_ASSERT_EQ(t, h.accumulator, VN_FMT_F32);
    VN_ASSERT_EQ(t, d.accumulator, VN_FMT_F64);
    VN_ASSERT_EQ(t, h.result, VN_FMT_NONE);
}

VN_TEST_MAIN(VN_CASE(contract, text_goes_round), VN_CASE(contract, errors_name_the_key), VN_CASE(contract, resolves_by_type))
