/* Rows of a run: what counts as failed, what the exit status says, growth, and allocations that fail. */
#include "vernier/evidence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/vn_test.h"

static vn_row_t *add(vn_test_t *t, vn_record_t *r, vn_verdict_t v, const char *cause) {
    vn_row_t *row = vn_record_row(r);
    VN_ASSERT(t, row != NULL);
    row->verdict = v;
    row->cause = cause;
    return row;
}

static int exit_of(vn_test_t *t, vn_verdict_t a, vn_verdict_t b, const char *cause, const char *allow, const char *fail_on) {
    vn_record_t *r = vn_record_new();
    const vn_policy_t p = {.allow = allow, .fail_on = fail_on};
    add(t, r, a, NULL);
    add(t, r, b, cause);
    const int code = vn_record_exit(r, &p);
    vn_record_free(r);
    return code;
}

VN_TEST(record, exit_status_of_every_verdict) {
    static const int status[VN_VERDICT_COUNT] = {
        [VN_NOT_RUN] = 3,           [VN_EXACT] = 0,   [VN_REPLAYED] = 0, [VN_EXPLAINED] = 0,        [VN_SPEC_OPEN] = 0,
        [VN_CONTRACT_MISMATCH] = 1, [VN_SUSPECT] = 1, [VN_BUG] = 1,      [VN_NONDETERMINISTIC] = 1, [VN_UNINFORMATIVE] = 3,
        [VN_UNSUPPORTED] = 3,       [VN_CRASHED] = 3, [VN_TIMEOUT] = 3};
    for (int v = 0; v < VN_VERDICT_COUNT; ++v) {
        VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, (vn_verdict_t)v, NULL, NULL, NULL), status[v]);
        VN_ASSERT_EQ(t, exit_of(t, VN_BUG, (vn_verdict_t)v, NULL, NULL, NULL), 1); /* a failure outranks all */
        VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, (vn_verdict_t)v, NULL, vn_verdict_name((vn_verdict_t)v), NULL),
                     0); /* every verdict can be allowed */
        VN_ASSERT_EQ(t, exit_of(t, VN_REPLAYED, (vn_verdict_t)v, NULL, NULL, vn_verdict_name((vn_verdict_t)v)), 1);
        vn_record_t *r = vn_record_new();
        add(t, r, (vn_verdict_t)v, NULL);
        VN_ASSERT_EQ(t, vn_record_exit(r, NULL), status[v]);
        vn_record_free(r);
    }
}

VN_TEST(record, nothing_is_passed_by_default) {
    vn_record_t *r = vn_record_new();
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 3); /* no row */
    VN_ASSERT_EQ(t, vn_record_row(r)->verdict, VN_NOT_RUN);
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 3);
    r->rows[0].verdict = VN_EXACT;
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 0);
    r->backends = vn_arena_alloc(r->arena, 1, sizeof *r->backends);
    r->n_backends = 1;
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 0);
    r->backends[0].error = "not installed";
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 3);
    r->rows[0].verdict = VN_BUG;
    VN_ASSERT_EQ(t, vn_record_exit(r, NULL), 1);
    vn_record_free(r);
}

VN_TEST(record, allow_and_fail_on) {
    /* by cause, by verdict, in a list, by prefix with a colon; never by a part of a word */
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "operands-bf16", "operands-bf16", NULL), 0);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "operands-bf16", "x,operands-bf16", NULL), 0);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "operands-bf16", "operands", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "operands-bf16", "operands-bf16x3", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "operands-bf16", "contract-mismatch", NULL), 0);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, "k-tail-dropped:3", "k-tail-dropped:", NULL), 0);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, "k-tail-dropped:3", "k-tail-dropped", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, "k-tail-dropped:3", "k-tail-dropped:3", NULL), 0);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, "k-tail-dropped:31", "k-tail-dropped:3", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, NULL, "", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_BUG, "", ",,", NULL), 1); /* an empty item is no cause */
    /* what is allowed does not excuse the rest */
    VN_ASSERT_EQ(t, exit_of(t, VN_SUSPECT, VN_CONTRACT_MISMATCH, "operands-bf16", "operands-bf16", NULL), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_TIMEOUT, VN_CONTRACT_MISMATCH, "operands-bf16", "operands-bf16", NULL), 3);
    /* fail-on names verdicts, causes and notes, and outranks allow */
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_UNSUPPORTED, NULL, NULL, "unsupported"), 1);
    VN_ASSERT_EQ(t, exit_of(t, VN_EXACT, VN_CONTRACT_MISMATCH, "ftz", "ftz", "ftz"), 1);
    vn_record_t *r = vn_record_new();
    add(t, r, VN_EXPLAINED, NULL)->note = "tail-cancellation";
    const vn_policy_t note = {.fail_on = "one-pass-variance,tail-cancellation"};
    VN_ASSERT_EQ(t, vn_record_exit(r, &note), 1);
    VN_ASSERT(t, vn_row_fails(&r->rows[0], &note));
    VN_ASSERT(t, !vn_row_fails(&r->rows[0], NULL));
    VN_ASSERT(t, !vn_row_allowed(&r->rows[0], &note)); /* a pass needs no permission */
    vn_record_free(r);
}

VN_TEST(record, a_new_row_knows_nothing) {
    vn_record_t *r = vn_record_new();
    const vn_row_t *row = vn_record_row(r);
    const double numbers[] = {
        row->error_over_bound, row->rms_ratio,         row->z_max,          row->sign_bias,    row->ulp_max,           row->max_abs_error,
        row->impact,           row->oracle_over_bound, row->first_expected, row->first_actual, row->detection_smallest};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) VN_ASSERT(t, isnan(numbers[i]));
    VN_ASSERT_EQ(t, row->first_index, -1);
    VN_ASSERT_EQ(t, row->deterministic, -1);
    VN_ASSERT(t, row->node == NULL && row->cause == NULL && row->note == NULL && row->duplicate_of == NULL);
    vn_record_free(r);
}

VN_TEST(record, grows_and_keeps_its_rows) {
    enum { ROWS = 3000 };
    vn_record_t *r = vn_record_new();
    for (int i = 0; i < ROWS; ++i) {
        vn_row_t *row = add(t, r, VN_EXACT, NULL);
        row->order = i;
        char name[32];
        snprintf(name, sizeof name, "node_%d", i);
        row->node = vn_record_string(r, name);
    }
    VN_ASSERT_EQ(t, r->n_rows, ROWS);
    for (int i = 0; i < ROWS; i += 97) {
        char name[32];
        snprintf(name, sizeof name, "node_%d", i);
        VN_ASSERT_EQ(t, r->rows[i].order, i);
        VN_ASSERT_STR(t, r->rows[i].node, name);
    }
    for (int i = 0; i < 100; ++i) VN_ASSERT_OK(t, vn_record_note(r, "note %d of %s", i, "many"));
    VN_ASSERT_EQ(t, r->n_notes, 100);
    VN_ASSERT_STR(t, r->notes[99], "note 99 of many");
    VN_ASSERT(t, vn_record_string(r, NULL) == NULL);
    vn_record_free(r);
    vn_record_free(NULL);
}

VN_TEST(record, allocations_that_fail_leave_the_record_whole) {
    for (int n = 1; n < 40; ++n) {
        vn_alloc_fail_at(n);
        vn_record_t *r = vn_record_new();
        int rows = 0, notes = 0;
        for (int i = 0; r && i < 600; ++i) {
            vn_row_t *row = vn_record_row(r);
            if (!row) break;
            rows++;
            if (i % 60 == 0 && vn_record_note(r, "row %d", i) == VN_OK) notes++;
        }
        vn_alloc_fail_at(0);
        if (!r) continue;
        VN_ASSERT_EQ(t, r->n_rows, rows);
        VN_ASSERT_EQ(t, r->n_notes, notes);
        VN_ASSERT(t, vn_record_row(r) != NULL); /* and goes on when there is memory again */
        vn_record_free(r);
    }
}

VN_TEST_MAIN(VN_CASE(record, exit_status_of_every_verdict), VN_CASE(record, nothing_is_passed_by_default),
             VN_CASE(record, allow_and_fail_on), VN_CASE(record, a_new_row_knows_nothing), VN_CASE(record, grows_and_keeps_its_rows),
             VN_CASE(record, allocations_that_fail_leave_the_record_whole))
