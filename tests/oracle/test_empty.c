/* Empty tensors: every operator's result on zero-size dimensions (empties.tsv, and the empty rows of specials.tsv), value and types alone;
 * every operator of ai.onnx has a row, or its reason to have none. */
#include "oracle/registry.h"
#include "oracle/table_case.h"

/* The row's infer, with data only in shape-like operands, says what eval gave; it may leave the answer to the data. */
static bool infer_agrees(tc_row_t *row, tc_report_t *r) {
    static const unsigned shape_like[] = {VN_OP_SHAPE_LIKE_0, VN_OP_SHAPE_LIKE_1, VN_OP_SHAPE_LIKE_2, VN_OP_SHAPE_LIKE_3,
                                          VN_OP_SHAPE_LIKE_4};
    tc_case_t c;
    vn_tensor_t bare[TC_INPUTS];
    vn_arg_t in[TC_INPUTS] = {{0}};
    vn_ref_t out[TC_OUTPUTS] = {{0}};
    if (!tc_run(row, VN_WANT_VALUE, &c, r)) return false;
    const vn_node_t *node = &c.model->graph->nodes[0];
    const vn_op_t *op = vn_registry_find(node->domain, node->op, vn_model_opset(c.model, node->domain));
    bool good = true;
    if (op && op->infer && c.status == VN_OK) {
        for (int k = 0; k < c.n_in; ++k) {
            if (!c.in[k]) continue;
            bare[k] = *c.in[k]->tensor;
            if (k >= 5 || !(op->flags & shape_like[k])) bare[k].data = NULL;
            in[k] = (vn_arg_t){.t = &bare[k], .v = c.in[k]};
        }
        vn_eval_t e = {.model = c.model, .graph = c.model->graph, .node = node, .n_in = c.n_in, .n_out = c.n_out, .in = in, .out = out};
        e.version = vn_model_opset(c.model, node->domain);
        e.err = &c.err;
        vn_contract_t contract;
        if (!vn_contract_builtin("portable", &contract)) return tc_wrong(r, "no contract");
        contract = vn_contract_resolve(&contract, VN_F32);
        e.contract = &contract;
        const vn_status_t s = op->infer(&e);
        for (int k = 0; k < c.n_out && s == VN_OK; ++k) {
            const vn_ref_t *a = &out[k], *b = &c.out[k];
            if (!*node->outputs[k] || !b->tensor) continue;
            bool same = a->dtype == b->dtype && a->rank == b->rank;
            for (int d = 0; d < b->rank && same; ++d) same = a->dims[d] == b->dims[d];
            if (!same) good = tc_wrong(r, "infer of output %d says something else than eval", k);
        }
        if (s != VN_OK && s != VN_ERR_UNSUPPORTED) good = tc_wrong(r, "infer: %s", c.err.text);
    }
    tc_done(&c);
    return good;
}

/* A private copy of a row, because running cuts it up. */
static tc_row_t copy_row(const tc_row_t *row, char *room, size_t size) {
    tc_row_t out = *row;
    for (int k = 0; k < TC_COLUMNS; ++k) {
        const int n = snprintf(room, size, "%s", row->cell[k]) + 1;
        if (n < 1 || (size_t)n > size) abort();
        out.cell[k] = room;
        room += n;
        size -= (size_t)n;
    }
    return out;
}

static int run_table(const char *file, const tc_table_t *table, const char *cls) {
    static char room[2][1 << 15];
    tc_report_t report;
    int wrong = 0;
    for (int i = 0; i < table->count; ++i) {
        const tc_row_t *row = &table->rows[i];
        if (strcmp(row->cell[0], cls) != 0) continue;
        tc_row_t first = copy_row(row, room[0], sizeof room[0]), second = copy_row(row, room[1], sizeof room[1]);
        if (tc_check(&first, &report) && infer_agrees(&second, &report)) continue;
        ++wrong;
        fprintf(stderr, "%s:%d: %s opset %s: %s\n", file, row->line, row->cell[1], row->cell[2], report.text);
    }
    return wrong;
}

VN_TEST(empty, shapes) {
    tc_table_t tables[2];
    tc_read(t, VN_TEST_SOURCE "/tests/oracle/empties.tsv", &tables[0]);
    tc_read(t, VN_TEST_SOURCE "/tests/oracle/specials.tsv", &tables[1]);
    const int wrong = run_table("empties.tsv", &tables[0], "empty") + run_table("specials.tsv", &tables[1], "empty");
    if (wrong) vn_test_fail(t, __FILE__, __LINE__, "%d rows differ", wrong);
    for (int k = 0; k < 2; ++k) tc_free(&tables[k]);
}

/* An operand, or the result, has a dimension of 0. */
static bool has_empty(const tc_row_t *row) {
    for (int k = 4; k <= 5; ++k)
        if (strstr(row->cell[k], "[0,") || strstr(row->cell[k], ",0,") || strstr(row->cell[k], ",0]") || strstr(row->cell[k], "[0]"))
            return true;
    return strcmp(row->cell[5], "sequence") == 0;
}

VN_TEST(empty, every_operator_has_a_row) {
    const vn_op_info_t *ops;
    tc_table_t tables[2];
    tc_read(t, VN_TEST_SOURCE "/tests/oracle/empties.tsv", &tables[0]);
    tc_read(t, VN_TEST_SOURCE "/tests/oracle/specials.tsv", &tables[1]);
    const int n = vn_oracle_ops(&ops);
    int missing = 0;
    for (int i = 0; i < n; ++i) {
        bool found = *ops[i].domain != '\0'; /* other domains are not the standard's: what is there is run, no more is asked */
        for (int k = 0; k < 2 && !found; ++k)
            for (int r = 0; r < tables[k].count && !found; ++r) {
                const tc_row_t *row = &tables[k].rows[r];
                found = strcmp(row->cell[1], ops[i].name) == 0 && (has_empty(row) || strcmp(row->cell[0], "none") == 0);
            }
        missing += !found;
        if (!found) fprintf(stderr, "no row with an empty tensor, and no reason for that: %s\n", ops[i].name);
    }
    if (missing) vn_test_fail(t, __FILE__, __LINE__, "%d rows of the registry have no case in empties.tsv", missing);
    for (int k = 0; k < 2; ++k) tc_free(&tables[k]);
}

VN_TEST_MAIN(VN_CASE(empty, shapes), VN_CASE(empty, every_operator_has_a_row))
