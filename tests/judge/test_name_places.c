/* Where elements stand, in words: every form, EITHER elements, and sets that have no form. */
#include <string.h>

#include "judge/places.h"
#include "support/vn_test.h"

enum { MAX = 4096 };

typedef struct spot {
    uint8_t mark[MAX];
    vn_places_t p;
} spot_t;

static void find(vn_test_t *t, spot_t *s, int rank, const int64_t *dims) {
    VN_ASSERT_OK(t, vn_places_find(s->mark, rank, dims, &s->p, NULL));
}

#define SAYS(t, s, wanted)                                                                                                        \
    do {                                                                                                                          \
        if (strcmp((s)->p.text, (wanted)) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s' instead of '%s'", (s)->p.text, wanted); \
    } while (0)

VN_TEST(places, ends_and_ranges_of_axes) {
    spot_t s = {.mark = {0}};
    const int64_t dims[] = {6, 10};
    find(t, &s, 2, dims);
    SAYS(t, &s, "no element");
    for (int i = 0; i < 60; ++i) s.mark[i] = i / 10 == 3;
    find(t, &s, 2, dims);
    SAYS(t, &s, "row 3");
    VN_ASSERT(t, vn_places_slices(&s.p) && !vn_places_tail(&s.p) && !vn_places_lanes(&s.p));
    for (int i = 0; i < 60; ++i) s.mark[i] = i % 10 >= 7;
    find(t, &s, 2, dims);
    SAYS(t, &s, "the last 3 columns");
    VN_ASSERT(t, vn_places_slices(&s.p) && vn_places_tail(&s.p));
    for (int i = 0; i < 60; ++i) s.mark[i] = i % 10 >= 2 && i % 10 < 5 && i / 10 >= 1 && i / 10 < 3;
    find(t, &s, 2, dims);
    SAYS(t, &s, "rows 1-2, columns 2-4");
    VN_ASSERT(t, !vn_places_slices(&s.p) && !vn_places_tail(&s.p));
    for (int i = 0; i < 60; ++i) s.mark[i] = !(i % 10 < 8 && i / 10 < 4);
    find(t, &s, 2, dims);
    SAYS(t, &s, "all but the first 4 rows, the first 8 columns");
    VN_ASSERT(t, vn_places_tail(&s.p));
    for (int i = 0; i < 60; ++i) s.mark[i] = i >= 37;
    find(t, &s, 2, dims);
    SAYS(t, &s, "the last 23 elements in memory order");
    VN_ASSERT(t, vn_places_tail(&s.p));
    for (int i = 0; i < 60; ++i) s.mark[i] = 1;
    find(t, &s, 2, dims);
    SAYS(t, &s, "all elements");
    memset(s.mark, 0, sizeof s.mark);
    s.mark[42] = 1;
    find(t, &s, 2, dims);
    SAYS(t, &s, "one element, row 4, column 2");
    VN_ASSERT(t, !vn_places_tail(&s.p) && !vn_places_slices(&s.p));
    s.mark[7] = s.mark[18] = s.mark[55] = s.mark[31] = s.mark[32] = 1;
    find(t, &s, 2, dims);
    VN_ASSERT_EQ(t, s.p.kind, VN_PLACES_SCATTERED);
    VN_ASSERT(t, strncmp(s.p.text, "6 scattered elements", 20) == 0);
}

VN_TEST(places, periods) {
    spot_t s = {.mark = {0}};
    const int64_t dims[] = {3, 1, 256};
    for (int i = 0; i < 768; ++i) s.mark[i] = i % 64 >= 48;
    find(t, &s, 3, dims);
    SAYS(t, &s, "indices 48-63 of every 64 of axis 2");
    VN_ASSERT(t, vn_places_lanes(&s.p));
    for (int i = 0; i < 768; ++i) s.mark[i] = i % 256 % 8 != 5;
    find(t, &s, 3, dims);
    SAYS(t, &s, "all but index 5 of every 8 of axis 2");
    const int64_t flat[] = {7, 11};
    for (int i = 0; i < 77; ++i) s.mark[i] = i % 4 == 1;
    find(t, &s, 2, flat);
    SAYS(t, &s, "element 1 of every 4 in memory order");
    VN_ASSERT(t, vn_places_lanes(&s.p));
    const int64_t few[] = {5};
    for (int i = 0; i < 5; ++i) s.mark[i] = i % 2; /* two periods are no evidence: the indices are named */
    find(t, &s, 1, few);
    VN_ASSERT(t, !vn_places_lanes(&s.p));
    for (int i = 0; i < 8; ++i) s.mark[i] = i == 1 || i == 2 || i == 6;
    find(t, &s, 1, (int64_t[]){8});
    SAYS(t, &s, "elements 1, 2, 6");
}

/* Zeros where zeros are due belong to a missing row or not: the row is whole all the same. */
VN_TEST(places, either_completes_a_form) {
    spot_t s = {.mark = {0}};
    const int64_t dims[] = {8, 16};
    for (int i = 0; i < 128; ++i) s.mark[i] = i / 16 == 5 ? (i % 3 ? VN_PLACE_MARKED : VN_PLACE_EITHER) : i % 7 == 0 ? VN_PLACE_EITHER : 0;
    find(t, &s, 2, dims);
    SAYS(t, &s, "row 5");
    for (int i = 0; i < 128; ++i) s.mark[i] = i % 16 >= 12 ? (i % 5 ? VN_PLACE_MARKED : VN_PLACE_EITHER) : 0;
    find(t, &s, 2, dims);
    SAYS(t, &s, "the last 4 columns");
    for (int i = 0; i < 128; ++i) s.mark[i] = i % 4 == 2 ? VN_PLACE_NOT : i % 9 ? VN_PLACE_MARKED : VN_PLACE_EITHER;
    find(t, &s, 2, dims);
    SAYS(t, &s, "all but column 2 of every 4");
    s.mark[2 + 64] = VN_PLACE_MARKED; /* one of the others is marked: no period any more */
    find(t, &s, 2, dims);
    VN_ASSERT(t, !vn_places_lanes(&s.p));
}

/* A seeded set of boxes: what is described is what was marked. */
VN_TEST(places, boxes_are_found_again) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 5);
    for (int run = 0; run < 200; ++run) {
        spot_t s = {.mark = {0}};
        int64_t dims[3], a[3], b[3], n = 1, inside = 1;
        for (int k = 0; k < 3; ++k) {
            dims[k] = 2 + (int64_t)vn_rng_below(&rng, 12);
            a[k] = (int64_t)vn_rng_below(&rng, (uint64_t)dims[k]);
            b[k] = a[k] + 1 + (int64_t)vn_rng_below(&rng, (uint64_t)(dims[k] - a[k]));
            n *= dims[k];
            inside *= b[k] - a[k];
        }
        for (int64_t i = 0; i < n; ++i) {
            const int64_t at[3] = {i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]};
            s.mark[i] = 1;
            for (int k = 0; k < 3; ++k) s.mark[i] = s.mark[i] && at[k] >= a[k] && at[k] < b[k];
        }
        find(t, &s, 3, dims);
        VN_ASSERT_EQ(t, s.p.count, inside);
        if (inside == n || inside == 1) continue;
        VN_ASSERT_EQ(t, s.p.kind, VN_PLACES_BOX);
        for (int k = 0; k < 3; ++k) {
            const vn_axis_places_t *x = &s.p.axes[k];
            if (b[k] - a[k] == dims[k]) VN_ASSERT_EQ(t, x->form, VN_AXIS_ALL);
            else VN_ASSERT(t, x->begin == a[k] && x->count == b[k] - a[k]);
        }
    }
}

VN_TEST_MAIN(VN_CASE(places, ends_and_ranges_of_axes), VN_CASE(places, periods), VN_CASE(places, either_completes_a_form),
             VN_CASE(places, boxes_are_found_again))
