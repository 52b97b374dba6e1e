/* Sums of rows, columns and tiles against adding element by element: odd widths, elements that do not count, several strips. */
#include "judge/coherence_cells.h"
#include "judge/judge_case.h"

static void against_elements(vn_test_t *t, int64_t rows, int64_t cols, bool flags, vn_rng_t *rng) {
    const int64_t n = rows * cols, tiles = cols / VN_CELL_SIDE + 1;
    vn_ref_t r = {.dtype = VN_F32, .count = n};
    double *x = vn_alloc((size_t)n, sizeof *x), *room = vn_alloc(vn_cell_room(cols), sizeof *room);
    vn_cell_t *row = vn_alloc((size_t)rows, sizeof *row), *col = vn_alloc((size_t)cols, sizeof *col);
    vn_cell_t *tile = vn_alloc((size_t)((rows / VN_CELL_SIDE + 1) * tiles), sizeof *tile), *due[3];
    due[0] = vn_alloc((size_t)rows, sizeof **due);
    due[1] = vn_alloc((size_t)cols, sizeof **due);
    due[2] = vn_alloc((size_t)((rows / VN_CELL_SIDE + 1) * tiles), sizeof **due);
    r.value = vn_alloc((size_t)n, sizeof *r.value);
    r.var = vn_alloc((size_t)n, sizeof *r.var);
    r.flags = flags ? vn_alloc((size_t)n, 1) : NULL;
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t kind = vn_rng_below(rng, 20);
        r.value[i] = kind == 0 ? INFINITY : vn_rng_normal(rng);
        r.var[i] = kind == 1 ? 0 : ldexp(1 + vn_rng_uniform(rng), (int)vn_rng_below(rng, 200) - 150);
        x[i] = kind == 2 ? NAN : r.value[i] + (kind == 3 ? 20 : 1) * sqrt(r.var[i]) * vn_rng_normal(rng);
        if (flags && kind == 4) r.flags[i] = VN_EL_VOID;
    }
    for (int64_t at = 0; at < rows; at += VN_CELL_SIDE)
        vn_cells_strip(&r, at * cols, rows - at < VN_CELL_SIDE ? rows - at : VN_CELL_SIDE, cols, x + at * cols, room, &row[at],
                       &tile[at / VN_CELL_SIDE * tiles]);
    vn_cells_columns(room, cols, col);
    double counted = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double d = x[i] - r.value[i], root = sqrt(r.var[i]), clip = vn_clip_z();
        double z, q;
        const bool counts = r.var[i] > 0 && isfinite(x[i]) && isfinite(r.value[i]);
        VN_ASSERT_EQ(t, vn_cell_element(x[i], r.value[i], r.var[i], &z, &q), counts);
        if (!counts || (flags && r.flags[i])) continue;
        VN_ASSERT_LE(t, fabs(z - fmax(-clip, fmin(clip, d / root))), 1e-12);
        VN_ASSERT_LE(t, fabs(q - r.value[i] / root), 1e-12 * fabs(q));
        const vn_cell_t one = {{1, z, z * z, z * q, z * q * z * q, q * q, fabs(q)}};
        vn_cell_add(&due[0][i / cols], &one);
        vn_cell_add(&due[1][i % cols], &one);
        vn_cell_add(&due[2][i / cols / VN_CELL_SIDE * tiles + i % cols / VN_CELL_SIDE], &one);
        counted++;
    }
    VN_ASSERT_LE(t, 1, counted);
    const vn_cell_t *got[] = {row, col, tile};
    const int64_t cells[] = {rows, cols, (rows / VN_CELL_SIDE + 1) * tiles};
    for (int kind = 0; kind < 3; ++kind)
        for (int64_t k = 0; k < cells[kind]; ++k) {
            const double *a = got[kind][k].sum, *b = due[kind][k].sum;
            VN_ASSERT_DEQ(t, a[VN_CELL_N], b[VN_CELL_N]);
            const double scale[] = {0,
                                    sqrt(b[VN_CELL_N] * b[VN_CELL_S2]),
                                    b[VN_CELL_S2],
                                    sqrt(b[VN_CELL_N] * b[VN_CELL_P2]),
                                    b[VN_CELL_P2],
                                    b[VN_CELL_Q2],
                                    b[VN_CELL_QA]};
            for (int s = 1; s < VN_CELL_SUMS; ++s) VN_ASSERT_LE(t, fabs(a[s] - b[s]), 1e-9 * scale[s]); /* Newton: 2^-34 each */
        }
    for (int k = 0; k < 3; ++k) vn_free(due[k]);
    vn_free(x), vn_free(room), vn_free(row), vn_free(col), vn_free(tile);
    vn_ref_free(&r);
}

VN_TEST(cells, as_element_by_element) {
    vn_rng_t rng = vn_test_rng(t);
    for (int flags = 0; flags < 2; ++flags) {
        against_elements(t, 1, 64, flags, &rng);
        against_elements(t, 19, 28, flags, &rng);
        against_elements(t, 40, 13, flags, &rng);
        against_elements(t, 9, 8, flags, &rng);
        against_elements(t, 8, 67, flags, &rng);
    }
}

VN_TEST_MAIN(VN_CASE(cells, as_element_by_element))
