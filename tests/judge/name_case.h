/* name_case.h -- a faulty result put to the judge, and the cause it must find. */
#ifndef VN_TEST_NAME_CASE_H
#define VN_TEST_NAME_CASE_H

#include "judge/judge_case.h"

enum { NC_MAX = 4096 };

/** n numbers of f32 with mean 0 and this spread. */
static inline void nc_fill(vn_rng_t *rng, double *x, int64_t n, double spread) {
    for (int64_t i = 0; i < n; ++i) x[i] = (float)(spread * vn_rng_normal(rng));
}

/** The judge's answer to `y` (rounded to the output's type) as output 0. */
static inline const vn_finding_t *nc_answer(vn_test_t *t, jc_t *c, const double *y) {
    const vn_ref_t *r = &c->refs[0];
    int64_t dims[VN_MAX_RANK + 1];
    memcpy(dims, r->tensor->dims, sizeof r->tensor->dims);
    dims[r->tensor->rank] = -1;
    jc_gives(c, 0, jc_tensor(t, r->tensor->dtype, dims, y));
    for (int k = 1; k < c->n_out; ++k) /* the other outputs are right */
        if (c->refs[k].tensor) jc_gives(c, k, vn_tensor_retain(c->refs[k].tensor));
    return jc_judge(t, c);
}

#define VN_ASSERT_CAUSE(t, c, y, wanted)                                                                                                   \
    do {                                                                                                                                   \
        const vn_finding_t *f_ = nc_answer(t, c, y);                                                                                       \
        if (strcmp(f_->cause, wanted) != 0)                                                                                                \
            vn_test_fail(t, __FILE__, __LINE__, "%s '%s', expected '%s'\n    %s\n    %s", vn_verdict_name(f_->verdict), f_->cause, wanted, \
                         f_->words, f_->rungs);                                                                                            \
        if (!vn_verdict_fails(f_->verdict))                                                                                                \
            vn_test_fail(t, __FILE__, __LINE__, "'%s' passes as %s", wanted, vn_verdict_name(f_->verdict));                                \
    } while (0)

/** Fails, and under none of the names (or beginnings of names) between blanks. */
#define VN_ASSERT_NOT_CAUSE(t, c, y, names)                                                                                               \
    do {                                                                                                                                  \
        const vn_finding_t *f_ = nc_answer(t, c, y);                                                                                      \
        if (!vn_verdict_fails(f_->verdict))                                                                                               \
            vn_test_fail(t, __FILE__, __LINE__, "a wrong result passes as %s", vn_verdict_name(f_->verdict));                             \
        const char *list_ = names;                                                                                                        \
        while (*list_) {                                                                                                                  \
            const size_t n_ = strcspn(list_, " ");                                                                                        \
            if (n_ && strncmp(f_->cause, list_, n_) == 0) vn_test_fail(t, __FILE__, __LINE__, "misnamed '%s': %s", f_->cause, f_->words); \
            list_ += n_ + (list_[n_] == ' ');                                                                                             \
        }                                                                                                                                 \
    } while (0)

#endif
