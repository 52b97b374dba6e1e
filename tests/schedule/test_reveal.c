/* test_reveal.c -- products of simulated back ends: order, arithmetic and classes as they were built, every element replayed; or the named reason. */
#include <string.h>

#include "sim.h"
#include "support/vn_test.h"

/* What a simulated kernel must come out as. NULL: not compared. */
typedef struct due {
    const char *name;
    sim_t sim;
    vn_dtype_t dtype;
    int64_t m, k, n;
    const char *texts[3];   /* by class */
    const char *arithmetic; /* as text */
    vn_violation_kind_t violation;
} due_t;

static void check_trees(vn_test_t *t, const due_t *d, const vn_schedule_t *s) {
    for (int c = 0; c < 3 && d->texts[c]; ++c) {
        vn_tree_t *want;
        vn_error_t err = {0};
        VN_ASSERT_OK_ERR(t, vn_schedule_expand(d->texts[c], &want, &err), err);
        bool found = false;
        for (int k = 0; k < s->n_classes; ++k) found |= s->classes[k].tree && vn_tree_equal(want, s->classes[k].tree);
        vn_tree_free(want);
        if (!found)
            vn_test_fail(t, __FILE__, __LINE__, "%s: no class is %s; the first is %s %s", d->name, d->texts[c],
                         s->classes[0].text ? s->classes[0].text : "(no tree)", s->classes[0].violation.what);
        if (c + 1 == 3 || !d->texts[c + 1]) VN_ASSERT_EQ(t, s->n_classes, c + 1);
    }
}

static void check(vn_test_t *t, const due_t *d) {
    sim_t sim = d->sim;
    if (sim.op.kind == 0 && sim.op.m == 0) {
        const vn_sum_op_t extra = sim.op;
        sim.op = sim_product(d->dtype ? d->dtype : VN_F32, d->m, d->k, d->n);
        sim.op.addend = extra.addend;
        sim.op.addend_rows = extra.addend_rows;
        sim.op.transpose_a = extra.transpose_a;
        sim.op.transpose_b = extra.transpose_b;
        if (extra.batch) sim.op.batch = extra.batch;
    }
    const vn_call_t call = sim_call(&sim);
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_reveal(&call, &sim.op, NULL, &s, &err), err);
    VN_ASSERT_EQ(t, s->calls, sim.calls);
    if (d->violation != VN_TREE_OK) {
        if (s->classes[0].violation.kind != d->violation)
            vn_test_fail(t, __FILE__, __LINE__, "%s: '%s' is due, '%s' (%s) came; %s; coverage %g", d->name,
                         vn_violation_name(d->violation), vn_violation_name(s->classes[0].violation.kind), s->classes[0].violation.what,
                         s->reason, vn_schedule_coverage(s));
        VN_ASSERT(t, s->reason[0] != '\0');
        VN_ASSERT(t, s->classes[0].tree == NULL);
    } else {
        check_trees(t, d, s);
        if (d->arithmetic && strcmp(d->arithmetic, s->arithmetic_text) != 0)
            vn_test_fail(t, __FILE__, __LINE__, "%s: arithmetic '%s' is due, '%s' came; %s", d->name, d->arithmetic, s->arithmetic_text,
                         s->reason);
        if (s->replayed != s->elements || s->elements == 0)
            vn_test_fail(t, __FILE__, __LINE__, "%s: %lld of %lld elements replayed; %s; %s", d->name, (long long)s->replayed,
                         (long long)s->elements, s->reason, s->arithmetic_text);
        VN_ASSERT(t, s->reason[0] == '\0');
        VN_ASSERT_EQ(t, strlen(s->sha256), 64);
    }
    vn_schedule_free(s);
}

#define ROW(label, rows, terms, columns, ...) \
    { .name = label, .m = rows, .k = terms, .n = columns, __VA_ARGS__ }
#define SIM(...) .sim = {__VA_ARGS__}

static void check_all(vn_test_t *t, const due_t *rows, size_t n) {
    for (size_t k = 0; k < n; ++k) check(t, &rows[k]);
}
#define CHECK_ALL(t, rows) check_all(t, rows, sizeof rows / sizeof *rows)

VN_TEST(reveal, orders) {
    static const due_t rows[] = {
        ROW("chain", 9, 40, 11, SIM(.kernel = SIM_CHAIN, .fma = true), .texts = {"40||S"}, .arithmetic = "fma acc=f32"),
        ROW("chain, products rounded", 9, 40, 11, SIM(.kernel = SIM_CHAIN), .texts = {"40||S"}, .arithmetic = "mul+add acc=f32"),
        ROW("one term", 5, 1, 7, SIM(.kernel = SIM_CHAIN, .fma = true), .texts = {"1||S"}),
        ROW("two terms", 5, 2, 7, SIM(.kernel = SIM_CHAIN, .fma = true), .texts = {"2||S"}, .arithmetic = "fma acc=f32"),
        ROW("lanes", 6, 37, 9, SIM(.kernel = SIM_LANES, .width = 8), .arithmetic = "mul+add acc=f32"),
        ROW("blocks", 8, 40, 12, SIM(.kernel = SIM_BLOCKS, .width = 16, .fma = true), .texts = {"40||S<16{S}"},
            .arithmetic = "fma acc=f32"),
        ROW("tail of one rounded product", 8, 33, 12, SIM(.kernel = SIM_BLOCKS, .width = 16, .fma = true), .texts = {"33||S<16{S}"},
            .arithmetic = "fma acc=f32"),
        ROW("one element", 1, 33, 1, SIM(.kernel = SIM_BLOCKS, .width = 4, .fma = true), .texts = {"33||S<4{S}"}),
        ROW("matrix times vector", 1, 64, 20, SIM(.kernel = SIM_BLOCKS, .width = 4), .texts = {"64||S<4{S}"},
            .arithmetic = "mul+add acc=f32"),
        ROW("two classes", 6, 32, 20, SIM(.kernel = SIM_TWO_CLASSES, .width = 16, .fma = true),
            .texts = {"32||S<16{S}", "32|0+16*2+2*1|A<@1{S}"}),
        ROW("last product rounded or not", 6, 33, 20, SIM(.kernel = SIM_LAST_ROUNDED, .fma = true), .texts = {"33||S", "33||S<32{S}"},
            .arithmetic = "fma acc=f32"),
        ROW("inner product rounded or not: the second look", 120, 40, 20, SIM(.kernel = SIM_INNER_ROUNDED, .fma = true),
            .texts = {"40||S", "40||S[17:S,1:P,22*1]"}, .arithmetic = "fma acc=f32"),
        ROW("odd term first", 6, 32, 8, SIM(.kernel = SIM_ODD_FIRST, .fma = true), .texts = {"32|1+2*-1+16*2|S"},
            .arithmetic = "fma acc=f32"),
    };
    CHECK_ALL(t, rows);
}

VN_TEST(reveal, arithmetics) {
    static const due_t rows[] = {
        ROW("bf16 operands", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .operand = VN_FMT_BF16), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 operands=bf16-rne"),
        ROW("tf32 cut off", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .operand = VN_FMT_TF32, .operand_rounding = VN_RZ),
            .texts = {"24||S"}, .arithmetic = "fma acc=f32 operands=tf32-rz"),
        ROW("tf32, ties away", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .operand = VN_FMT_TF32, .operand_rounding = VN_RNA),
            .texts = {"24||S"}, .arithmetic = "fma acc=f32 operands=tf32-rna"),
        ROW("subnormals flushed", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .daz = true, .ftz = true), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 daz ftz"),
        ROW("subnormal operands read as zero", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .daz = true), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 daz"),
        ROW("subnormal results flushed", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .ftz = true), .texts = {"24||S"},
            .arithmetic = "mul+add acc=f32 ftz"),
        ROW("starts at +0", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .zero_start = true), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 zero-start"),
        ROW("bf16, odd term first, flushed", 7, 24, 10, .dtype = VN_BF16,
            SIM(.kernel = SIM_ODD_FIRST, .fma = true, .daz = true, .ftz = true), .texts = {"24|1+2*-1+12*2|S"}),
        ROW("bf16", 7, 24, 10, .dtype = VN_BF16, SIM(.kernel = SIM_CHAIN, .fma = true), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 store=bf16-rne"),
        ROW("f16", 7, 24, 10, .dtype = VN_F16, SIM(.kernel = SIM_CHAIN, .fma = true), .texts = {"24||S"},
            .arithmetic = "fma acc=f32 store=f16-rne"),
        ROW("f64", 7, 24, 10, .dtype = VN_F64, SIM(.kernel = SIM_CHAIN, .fma = true, .accumulator = VN_FMT_F64), .texts = {"24||S"},
            .arithmetic = "fma acc=f64"),
    };
    CHECK_ALL(t, rows);
}

VN_TEST(reveal, narrow_accumulators) {
    static const due_t rows[] = {
        ROW("f16 sums", 7, 24, 10, .dtype = VN_F16, SIM(.kernel = SIM_CHAIN, .accumulator = VN_FMT_F16), .texts = {"24||S"},
            .arithmetic = "mul+add acc=f16"),
        ROW("bf16 after 8 terms", 7, 32, 10, .dtype = VN_BF16, SIM(.kernel = SIM_CHAIN, .fma = true, .narrow = VN_FMT_BF16, .every = 8),
            .texts = {"32||S"}, .arithmetic = "fma acc=f32 narrow=bf16/8 store=bf16-rne"),
        ROW("sums cut off", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .rounding = VN_RZ), .texts = {"24||S"},
            .arithmetic = "mul+add acc=f32 round=rz"),
    };
    CHECK_ALL(t, rows);
}

VN_TEST(reveal, fused_groups) {
    static const due_t rows[] = {
        ROW("groups of 8, 24 bits", 7, 32, 10, .dtype = VN_F16, SIM(.kernel = SIM_FUSED, .width = 8, .bits = 24), .texts = {"32||G8"},
            .arithmetic = "fma acc=f32 fused=24-rz store=f16-rne"),
        ROW("groups of 16, 25 bits", 7, 32, 10, .dtype = VN_BF16, SIM(.kernel = SIM_FUSED, .width = 16, .bits = 25), .texts = {"32||G16"},
            .arithmetic = "fma acc=f32 fused=25-rz store=bf16-rne"),
    };
    CHECK_ALL(t, rows);
}

VN_TEST(reveal, bias) {
    static const due_t rows[] = {
        ROW("bias first", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .op = {.addend = true, .addend_rows = 1}), .texts = {"24+c||S"}),
        ROW("bias last", 7, 24, 10, SIM(.kernel = SIM_CHAIN, .fma = true, .bias = 1, .op = {.addend = true, .addend_rows = 1}),
            .texts = {"24+c||N[1,24:S]"}),
        ROW("bias matrix after blocks", 7, 40, 10,
            SIM(.kernel = SIM_BLOCKS, .width = 16, .fma = true, .bias = 1, .op = {.addend = true, .addend_rows = 7})),
    };
    CHECK_ALL(t, rows);
}

VN_TEST(reveal, layouts) {
    static const due_t rows[] = {
        ROW("transposed", 6, 40, 9, SIM(.kernel = SIM_BLOCKS, .width = 16, .fma = true, .op = {.transpose_a = true, .transpose_b = true}),
            .texts = {"40||S<16{S}"}),
        ROW("batch", 4, 40, 5, SIM(.kernel = SIM_BLOCKS, .width = 16, .fma = true, .op = {.batch = 3}), .texts = {"40||S<16{S}"}),
    };
    CHECK_ALL(t, rows);
}

/* A model whose second operand is a weight: what was loaded stays until other bits come than those that were kept. */
typedef struct model {
    vn_call_t inner;
    vn_tensor_t *kept, *loaded; /* kept: retained, as a caller does; loaded: a copy */
} model_t;
static vn_status_t run_model(void *context, const vn_tensor_t *const *in, vn_tensor_t **out, vn_error_t *err) {
    model_t *m = context;
    if (!m->kept || !vn_tensor_equal_bits(m->kept, in[1])) {
        vn_tensor_free(m->kept);
        vn_tensor_free(m->loaded);
        m->kept = vn_tensor_retain(in[1]);
        m->loaded = NULL;
        VN_TRY(vn_tensor_copy(in[1], &m->loaded, err));
    }
    const vn_tensor_t *held[2] = {in[0], m->loaded};
    return m->inner.run(m->inner.context, held, out, err);
}

VN_TEST(reveal, weights) {
    sim_t sim = {.kernel = SIM_BLOCKS, .width = 16, .fma = true, .op = sim_product(VN_F32, 6, 40, 9)};
    model_t m = {.inner = sim_call(&sim)};
    const vn_call_t call = {.run = run_model, .context = &m, .constant = 2};
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_reveal(&call, &sim.op, NULL, &s, &err), err);
    VN_ASSERT(t, s->classes[0].text && strcmp(s->classes[0].text, "40||S<16{S}") == 0);
    VN_ASSERT_EQ(t, s->replayed, s->elements);
    vn_schedule_free(s);
    vn_tensor_free(m.kept);
    vn_tensor_free(m.loaded);
}

VN_TEST(reveal, card) {
    sim_t sim = {.kernel = SIM_CHAIN, .fma = true, .operand = VN_FMT_BF16, .daz = true, .ftz = true, .op = sim_product(VN_F32, 6, 20, 9)};
    const vn_call_t call = sim_call(&sim);
    vn_schedule_t *s = NULL;
    vn_card_t *card = NULL;
    vn_error_t err = {0};
    static const char *const due[][2] = {{"P1", "rounded to bf16, to nearest, ties to even"},
                                         {"P2", "rounded to bf16, to nearest, ties to even"},
                                         {"P7", "to nearest"},
                                         {"P12", "read as zero"},
                                         {"P13", "flushed to zero"},
                                         {"P16", "none seen"},
                                         {"P23", "a sum of -0 is -0"}};
    VN_ASSERT_OK_ERR(t, vn_reveal(&call, &sim.op, NULL, &s, &err), err);
    VN_ASSERT_OK_ERR(t, vn_measure_product(&call, &sim.op, s, &card, &err), err);
    for (size_t k = 0; k < sizeof due / sizeof *due; ++k) {
        bool found = false;
        for (int r = 0; r < card->n; ++r)
            found |= strcmp(card->rows[r].id, due[k][0]) == 0 && strcmp(card->rows[r].finding, due[k][1]) == 0;
        if (!found) vn_test_fail(t, __FILE__, __LINE__, "no row %s says '%s'", due[k][0], due[k][1]);
    }
    vn_card_free(card);
    vn_schedule_free(s);
}

VN_TEST(reveal, limits) {
    sim_t sim = {.kernel = SIM_CHAIN, .op = sim_product(VN_F32, 6, 20, 9)};
    const vn_call_t call = sim_call(&sim);
    const vn_reveal_options_t few = {.max_calls = 5};
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    VN_ASSERT_EQ(t, vn_reveal(&call, &sim.op, &few, &s, &err), VN_ERR_RANGE);
    VN_ASSERT(t, s == NULL && strstr(err.text, "5 calls") != NULL);
    VN_ASSERT_EQ(t, sim.calls, 5);
    sim.op.dtype = VN_I32;
    VN_ASSERT_EQ(t, vn_reveal(&call, &sim.op, NULL, &s, &err), VN_ERR_UNSUPPORTED);
    sim.op = sim_product(VN_U8, 6, 20, 9);
    VN_ASSERT_OK_ERR(t, vn_reveal(&call, &sim.op, NULL, &s, &err), err);
    VN_ASSERT_EQ(t, s->classes[0].violation.kind, VN_TREE_ORDER_FREE);
    VN_ASSERT_EQ(t, s->replayed, 54);
    vn_schedule_free(s);
}

VN_TEST(reveal, no_trees) {
    static const due_t rows[] = {
        ROW("atomics", 6, 64, 9, SIM(.kernel = SIM_SPLIT_K, .width = 8, .fma = true), .violation = VN_TREE_NONDETERMINISTIC),
        ROW("bf16x3", 8, 32, 9, SIM(.kernel = SIM_SPLIT_BF16), .violation = VN_TREE_SPLIT),
        ROW("int8 activations", 8, 32, 9, SIM(.kernel = SIM_DYNAMIC), .violation = VN_TREE_VALUE_DEPENDENT),
        ROW("Strassen", 8, 32, 10, SIM(.kernel = SIM_STRASSEN), .violation = VN_TREE_CROSS_TALK),
        ROW("no rounding inside", 8, 32, 10, SIM(.kernel = SIM_EXACT), .violation = VN_TREE_WIDE),
    };
    CHECK_ALL(t, rows);
}

VN_TEST_MAIN(VN_CASE(reveal, orders), VN_CASE(reveal, arithmetics), VN_CASE(reveal, narrow_accumulators), VN_CASE(reveal, fused_groups),
             VN_CASE(reveal, bias), VN_CASE(reveal, layouts), VN_CASE(reveal, weights), VN_CASE(reveal, card), VN_CASE(reveal, limits),
             VN_CASE(reveal, no_trees))
