/* Special values: every row of specials.tsv, whose expected values come from the operators' texts, IEEE 754 and the C standard. */
#include "oracle/table_case.h"

/* VN_SPECIALS_LINE=123 runs one line of the table. */
VN_TEST(specials, table) {
    const char *only = getenv("VN_SPECIALS_LINE");
    const int one = only ? atoi(only) : 0;
    tc_table_t table;
    tc_report_t report;
    int wrong = 0, seen = 0;
    tc_read(t, VN_TEST_SOURCE "/tests/oracle/specials.tsv", &table);
    for (int i = 0; i < table.count; ++i) {
        tc_row_t *row = &table.rows[i];
        char *name = row->cell[1];
        if (one && row->line != one) continue;
        ++seen;
        if (tc_check(row, &report)) continue;
        ++wrong;
        fprintf(stderr, "specials.tsv:%d: %s opset %s: %s\n    rerun: VN_SPECIALS_LINE=%d test_oracle_specials\n", row->line, name,
                row->cell[2], report.text, row->line);
    }
    tc_free(&table);
    if (wrong) vn_test_fail(t, __FILE__, __LINE__, "%d of %d rows differ", wrong, seen);
    if (!one) VN_ASSERT(t, seen >= 400);
}

/* The comparison has teeth: each of these rows is wrong in one way, and is refused for it. */
VN_TEST(specials, wrong_rows_are_refused) {
    static const struct {
        const char *op, *opset, *attributes, *inputs, *expected, *because;
    } rows[] = {
        {"Neg", "13", "-", "f32[2]{1 0}", "f32[2]{-1 0}", "element 1"},                               /* the sign of zero */
        {"Neg", "13", "-", "f32[1]{1}", "f32[1]{-0x1.000002p0}", "element 0"},                        /* one ulp */
        {"Neg", "13", "-", "f32[1]{nan}", "f32[1]{inf}", "element 0"},                                /* the class */
        {"Neg", "13", "-", "f32[2]{1 2}", "f32[2,1]{-1 -2}", "the result is"},                        /* the shape */
        {"Neg", "13", "-", "f32[1]{1}", "f64[1]{-1}", "the result is"},                               /* the type */
        {"Neg", "13", "-", "f32[2]{1 2}", "f32[2]{-1}", "elements expected"},                         /* too few */
        {"Neg", "13", "-", "f32[1]{1}", "f32[1]{-1?n}", "permissions"},                               /* a permission that is not given */
        {"Add", "14", "-", "f32[1]{0x1p127}; f32[1]{0x1p127}", "f32[1]{inf}", "permissions"},         /* one that is */
        {"Relu", "14", "-", "f32[1]{nan}", "f32[1]{nan}", "not in the table"},                        /* a reading left out */
        {"Relu", "14", "-", "f32[1]{nan}", "open: a = f32[1]{nan} | b = f32[1]{0}", "no reading of"}, /* another name */
        {"Add", "14", "-", "u8[1]{255}; u8[1]{1}", "open: a = u8[1]{0} | integer overflow saturates = u8[1]{254}", "reading '"},
        {"Pow", "15", "-", "i32[1]{4}; f32[1]{0.5}", "i32[1]{2}", "second value"},
        {"Pow", "15", "-", "i32[1]{4}; f32[1]{0.5}", "i32[1]{2/3}", "second value"},
        {"Add", "14", "-", "f32[2]{1 2}; f32[3]{1 2 3}", "error range", "expected error range"},
        {"Neg", "13", "-", "f32[1]{1}", "error shape", "expected error shape"},
        {"Neg", "13", "-", "f32[1]{x}", "f32[1]{1}", "no f32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        char text[6][200];
        const char *const from[] = {"class", rows[i].op, rows[i].opset, rows[i].attributes, rows[i].inputs, rows[i].expected};
        tc_row_t row = {.line = (int)i};
        tc_report_t report;
        for (int k = 0; k < 6; ++k) {
            snprintf(text[k], sizeof text[k], "%s", from[k]);
            row.cell[k] = text[k];
        }
        if (tc_check(&row, &report)) vn_test_fail(t, __FILE__, __LINE__, "row %zu (%s) is taken", i, rows[i].expected);
        VN_ASSERT_HAS(t, report.text, rows[i].because);
    }
}

VN_TEST_MAIN(VN_CASE(specials, table), VN_CASE(specials, wrong_rows_are_refused))
