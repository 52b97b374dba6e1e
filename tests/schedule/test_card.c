/* test_card.c -- the arithmetic card: for each probe a simulated back end that has the property and one that has not; the lines tell them apart. */
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "support/vn_test.h"

/* The card of `sim`; its schedule is read off `order` where that is given: a kernel of the same order. */
static vn_card_t *card_of(vn_test_t *t, const char *label, sim_t sim, const sim_t *order) {
    sim_t read = order ? *order : sim;
    read.op = sim.op;
    const vn_call_t call = sim_call(&sim), reading = sim_call(&read);
    vn_schedule_t *s = NULL;
    vn_card_t *card = NULL;
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_reveal(&reading, &sim.op, NULL, &s, &err), err);
    if (!s->classes[0].tree) vn_test_fail(t, __FILE__, __LINE__, "%s: no tree: %s", label, s->reason);
    VN_ASSERT_OK_ERR(t, vn_measure_product(&call, &sim.op, s, &card, &err), err);
    if (sim.op.addend && sim.op.dtype == VN_F32) {
        sim_t scaled = sim;
        scaled.alpha = VN_CARD_ALPHA;
        const vn_call_t other = sim_call(&scaled);
        VN_ASSERT_OK_ERR(t, vn_measure_alpha(&other, &sim.op, s, card, &err), err);
    }
    vn_schedule_free(s);
    return card;
}

/* A line of the card that must come out, by its beginning. */
typedef struct line {
    const char *label, *id, *due;
    sim_t sim;
    const sim_t *order;
    vn_dtype_t dtype;
    int64_t m, k, n;
    bool addend;
} line_t;

static void check(vn_test_t *t, const line_t *l) {
    sim_t sim = l->sim;
    sim.op = sim_product(l->dtype ? l->dtype : VN_F32, l->m ? l->m : 6, l->k ? l->k : 40, l->n ? l->n : 9);
    sim.op.addend = l->addend;
    vn_card_t *card = card_of(t, l->label, sim, l->order);
    const vn_card_row_t *row = NULL;
    for (int r = 0; r < card->n; ++r)
        if (strcmp(card->rows[r].id, l->id) == 0) row = &card->rows[r];
    if (!row || strncmp(row->finding, l->due, strlen(l->due)) != 0)
        vn_test_fail(t, __FILE__, __LINE__, "%s: %s must say '%s', not '%s' (%s)", l->label, l->id, l->due, row ? row->finding : "nothing",
                     row ? row->numbers : "");
    vn_card_free(card);
}
#define CHECK_ALL(t, lines) \
    for (size_t k_ = 0; k_ < sizeof lines / sizeof *lines; ++k_) check(t, &lines[k_])
#define SIM(...) .sim = {__VA_ARGS__}

static const sim_t fma_chain = {.kernel = SIM_CHAIN, .fma = true};

VN_TEST(card, parts_of_operands) {
    static const line_t lines[] = {
        {"fma", "P5", "there: nine products", SIM(.kernel = SIM_CHAIN, .fma = true)},
        {"nine parts", "P5", "there: nine products", SIM(.kernel = SIM_PARTS, .width = 9), .order = &fma_chain},
        {"six parts", "P5", "missing: six products", SIM(.kernel = SIM_PARTS, .width = 6), .order = &fma_chain},
        {"six parts", "P4", "there", SIM(.kernel = SIM_PARTS, .width = 6), .order = &fma_chain},
        {"three parts", "P4", "missing: three products", SIM(.kernel = SIM_PARTS, .width = 3), .order = &fma_chain},
        {"three parts", "P3", "more than one part", SIM(.kernel = SIM_PARTS, .width = 3), .order = &fma_chain},
        {"one part", "P3", "one part of bfloat16", SIM(.kernel = SIM_PARTS, .width = 1), .order = &fma_chain},
        {"rounded products", "P5", "cannot be seen", SIM(.kernel = SIM_CHAIN)},
        {"bf16 operands", "P5", "not measured: operands", SIM(.kernel = SIM_CHAIN, .fma = true, .operand = VN_FMT_BF16)},
        {"neighbours in pairs", "P5", "not measured: no term is added to a sum of three", SIM(.kernel = SIM_LANES, .width = 32), .k = 64},
    };
    CHECK_ALL(t, lines);
}

VN_TEST(card, normalisation_and_carries) {
    static const line_t lines[] = {
        {"chain", "P9", "after every addition", SIM(.kernel = SIM_CHAIN, .fma = true)},
        {"chain, cut off", "P9", "after every addition", SIM(.kernel = SIM_CHAIN, .rounding = VN_RZ)},
        {"groups", "P9", "late", SIM(.kernel = SIM_FUSED, .width = 8, .bits = 24, .operand = VN_FMT_TF32)},
        {"groups of bf16", "P9", "late", SIM(.kernel = SIM_FUSED, .width = 8, .bits = 24), .dtype = VN_BF16},
        {"chain of bf16", "P9", "after every addition", SIM(.kernel = SIM_CHAIN, .fma = true), .dtype = VN_BF16},
        {"chain of f16", "P9", "after every addition", SIM(.kernel = SIM_CHAIN, .fma = true), .dtype = VN_F16},
        {"few alignment bits", "P9", "not measured: the group's grid of 13",
         SIM(.kernel = SIM_FUSED, .width = 16, .bits = 13, .operand = VN_FMT_TF32)},
        {"two terms at a time", "P10", "not measured: numbers are added two", SIM(.kernel = SIM_CHAIN, .fma = true)},
        {"small groups", "P10", "not measured: a group of 4", SIM(.kernel = SIM_FUSED, .width = 4, .bits = 23, .operand = VN_FMT_TF32)},
        {"no limit", "P10", "3 or more", SIM(.kernel = SIM_FUSED, .width = 16, .bits = 25), .dtype = VN_BF16, .k = 32},
        {"one carry bit", "P10", "1: the last of 24", SIM(.kernel = SIM_FUSED, .width = 16, .bits = 24, .carry = 1, .operand = VN_FMT_TF32),
         .k = 64},
        {"two carry bits", "P10", "2: the last of 24",
         SIM(.kernel = SIM_FUSED, .width = 16, .bits = 24, .carry = 2, .operand = VN_FMT_TF32), .k = 64},
        {"three carry bits", "P10", "3 or more", SIM(.kernel = SIM_FUSED, .width = 16, .bits = 24, .carry = 3, .operand = VN_FMT_TF32),
         .k = 64},
    };
    CHECK_ALL(t, lines);
}

VN_TEST(card, epilogues) {
    static const line_t lines[] = {
        {"no addend", "P17", "not measured: the operator has no addend", SIM(.kernel = SIM_CHAIN, .fma = true)},
        {"f32 throughout", "P17", "the addend joins", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1), .addend = true},
        {"bf16 first", "P17", "the sum is rounded to bf16", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .before = VN_FMT_BF16),
         .addend = true, .order = &fma_chain},
        {"f16 first", "P17", "the sum is rounded to f16", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .before = VN_FMT_F16),
         .addend = true, .order = &fma_chain},
        {"stored as bf16 once", "P17", "the addend joins", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1), .addend = true,
         .dtype = VN_BF16},
        {"stored as bf16 twice", "P17", "the sum is rounded to bf16",
         SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .before = VN_FMT_BF16), .addend = true, .dtype = VN_BF16, .order = &fma_chain},
        {"stored as f16 twice", "P17", "the sum is rounded to f16", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .before = VN_FMT_F16),
         .addend = true, .dtype = VN_F16, .order = &fma_chain},
        {"alpha fused", "P18", "fused: one rounding", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .alpha_form = SIM_ALPHA_FUSED),
         .addend = true},
        {"alpha rounded", "P18", "alpha times the sum is rounded",
         SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .alpha_form = SIM_ALPHA_ROUNDED), .addend = true},
        {"alpha in a", "P18", "the first operand", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .alpha_form = SIM_ALPHA_IN_A),
         .addend = true},
        {"alpha in b", "P18", "the second operand", SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .alpha_form = SIM_ALPHA_IN_B),
         .addend = true},
        {"alpha in a, rounded products", "P18", "an operand, or each product",
         SIM(.kernel = SIM_CHAIN, .bias = 1, .alpha_form = SIM_ALPHA_IN_A), .addend = true},
    };
    CHECK_ALL(t, lines);
}

VN_TEST(card, partial_sums) {
    static const sim_t blocks = {.kernel = SIM_BLOCKS, .width = 8, .fma = true};
    static const line_t lines[] = {
        {"one chain", "P20", "not measured: no two partial sums", SIM(.kernel = SIM_CHAIN, .fma = true)},
        {"blocks", "P20", "handed on with 23 bits (f32), those of the running sum; added with 23",
         SIM(.kernel = SIM_BLOCKS, .width = 8, .fma = true)},
        {"blocks by bf16", "P20", "handed on with 7 bits (bf16); the running sum has 23; added with 23",
         SIM(.kernel = SIM_BLOCKS, .width = 8, .fma = true, .partial = VN_FMT_BF16), .order = &blocks},
        {"blocks by f16", "P20", "handed on with 10 bits (f16 or tf32)",
         SIM(.kernel = SIM_BLOCKS, .width = 8, .fma = true, .partial = VN_FMT_F16), .order = &blocks},
        {"lanes", "P20", "handed on with 23 bits", SIM(.kernel = SIM_LANES, .width = 4)},
    };
    CHECK_ALL(t, lines);
}

/* Every probe that a product can be asked has one line, in the order of the numbers. */
VN_TEST(card, is_complete) {
    static const int due[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    static const vn_dtype_t types[] = {VN_F32, VN_F64, VN_F16, VN_BF16};
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
        sim_t sim = {.kernel = SIM_CHAIN, .fma = true, .op = sim_product(types[k], 6, 20, 9)};
        if (types[k] == VN_F64) sim.accumulator = VN_FMT_F64;
        vn_card_t *card = card_of(t, vn_dtype_name(types[k]), sim, NULL);
        VN_ASSERT_EQ(t, card->n, (int)(sizeof due / sizeof *due));
        for (int r = 0; r < card->n; ++r) {
            char id[8];
            snprintf(id, sizeof id, "P%d", due[r]);
            if (strcmp(card->rows[r].id, id) != 0 || !*card->rows[r].finding)
                vn_test_fail(t, __FILE__, __LINE__, "%s: row %d is %s '%s'", vn_dtype_name(types[k]), r, card->rows[r].id,
                             card->rows[r].finding);
        }
        vn_card_free(card);
    }
}

/* Every allocation fails once: no half card is handed out. */
VN_TEST(card, without_memory) {
    sim_t sim = {.kernel = SIM_BLOCKS, .width = 4, .fma = true, .op = sim_product(VN_F32, 2, 12, 2)};
    const vn_call_t call = sim_call(&sim);
    vn_schedule_t *s = NULL;
    vn_card_t *card = NULL;
    vn_error_t err = {0};
    bool done = false;
    VN_ASSERT_OK_ERR(t, vn_reveal(&call, &sim.op, NULL, &s, &err), err);
    for (int64_t at = 1; !done && at < 5000; ++at) {
        vn_alloc_fail_at(at);
        const vn_status_t st = vn_measure_product(&call, &sim.op, s, &card, &err);
        vn_alloc_fail_at(0);
        done = st == VN_OK;
        VN_ASSERT(t, done || (st == VN_ERR_NOMEM && card == NULL));
        vn_card_free(card);
    }
    VN_ASSERT(t, done);
    vn_schedule_free(s);
}

VN_TEST_MAIN(VN_CASE(card, parts_of_operands), VN_CASE(card, normalisation_and_carries), VN_CASE(card, epilogues),
             VN_CASE(card, partial_sums), VN_CASE(card, is_complete), VN_CASE(card, without_memory))
