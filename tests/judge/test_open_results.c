/* Results that the standard leaves open in shape, or fixes up to a few steps: readings of another shape, pictures of lossy formats. */
#include <stdio.h>

#include "judge/judge_case.h"

/* StringSplit of one text at white space. */
static void split_case(vn_test_t *t, jc_t *c, const char *text) {
    jc_new(t, c, "portable");
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 1, (int64_t[]){1}, &x, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(x, 0, text, strlen(text), NULL));
    VN_ASSERT_OK_ERR(t, vn_graph_add_input(c->model->graph, "a", VN_STRING, 1, x->dims, &c->err), c->err);
    c->in[c->n_in++] = vn_value_tensor(x);
    jc_op(t, c, "StringSplit", 20, 2);
    jc_oracle(t, c);
}

static vn_tensor_t *parts(vn_test_t *t, int64_t n, const char *const *v) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 2, (int64_t[]){1, n}, &x, NULL));
    for (int64_t i = 0; i < n; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, v[i], strlen(v[i]), NULL));
    return x;
}

VN_TEST(open, a_reading_may_have_another_shape) {
    jc_t c;
    split_case(t, &c,
               "a\xC2\xA0"
               "b"); /* a no-break space: white space or not */
    jc_gives(&c, 0, parts(t, 2, (const char *const[]){"a", "b"}));
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(1), (double[]){2}));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &f[0], VN_EXACT);
    VN_ASSERT_VERDICT(t, &f[1], VN_EXACT);
    jc_gives(&c, 0,
             parts(t, 1,
                   (const char *const[]){"a\xC2\xA0"
                                         "b"}));
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(1), (double[]){1}));
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &f[0], VN_SPEC_OPEN);
    VN_ASSERT(t, strcmp(f[0].note, "ascii-white-space") == 0 && !*f[0].cause);
    VN_ASSERT_VERDICT(t, &f[1], VN_SPEC_OPEN);
    jc_gives(&c, 0, parts(t, 1, (const char *const[]){"a"})); /* that shape, and not that reading */
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(1), (double[]){3}));
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &f[0], VN_BUG);
    VN_ASSERT(t, strcmp(f[0].cause, "shape") == 0);
    VN_ASSERT_VERDICT(t, &f[1], VN_BUG);
    c.guard[0] = true; /* a reading forgives no broken memory */
    jc_gives(&c, 0,
             parts(t, 1,
                   (const char *const[]){"a\xC2\xA0"
                                         "b"}));
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &f[0], VN_BUG);
    jc_free(&c);
}

/* A 5-6-5 bitmap: 8-bit samples are fixed up to one step. */
VN_TEST(open, integers_within_their_bound) {
    static const unsigned char bmp[] = {'B', 'M', 0, 0, 0,  0, 0, 0,    0, 0, 66,   0, 0, 0, 40,   0, 0, 0, 1,    0,    0, 0, 1, 0,
                                        0,   0,   1, 0, 16, 0, 3, 0,    0, 0, 0,    0, 0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0,
                                        0,   0,   0, 0, 0,  0, 0, 0xF8, 0, 0, 0xE0, 7, 0, 0, 0x1F, 0, 0, 0, 0x10, 0x84, 0, 0};
    jc_t c;
    double bytes[sizeof bmp];
    for (size_t i = 0; i < sizeof bmp; ++i) bytes[i] = bmp[i];
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_U8, JC_DIMS((int64_t)sizeof bmp), bytes);
    jc_op(t, &c, "ImageDecoder", 20, 1);
    jc_oracle(t, &c);
    static const struct {
        double pixel[3];
        vn_verdict_t due;
    } cases[] = {{{132, 130, 132}, VN_EXACT},
                 {{131, 129, 132}, VN_EXPLAINED},
                 {{132, 131, 132}, VN_EXPLAINED},
                 {{132, 132, 132}, VN_BUG},
                 {{130, 130, 132}, VN_BUG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        jc_gives(&c, 0, jc_tensor(t, VN_U8, JC_DIMS(1, 1, 3), cases[i].pixel));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, cases[i].due);
        VN_ASSERT(t, f->detection_caught > 0 && f->detection_caught < f->detection_of); /* a step of one is not noticed, zeros are */
    }
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(open, a_reading_may_have_another_shape), VN_CASE(open, integers_within_their_bound))
