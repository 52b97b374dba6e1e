/* coherence_cells.c -- z and q of four elements at a time, added to the sums of their row, their columns and their tile.
 *
 * A strip of eight rows is added column by column first; tiles and columns are taken from those sums. Lanes are columns, so neither the width of
 * vectors nor threads change a bit.
 */
#include "judge/coherence_cells.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/clones.h"

enum { LANES = 4 };

typedef double vec_t __attribute__((vector_size(8 * LANES)));
typedef double plane_t __attribute__((vector_size(8 * LANES), aligned(8), may_alias)); /* as it lies in memory */
typedef uint64_t bits_t __attribute__((vector_size(8 * LANES)));
typedef int64_t mask_t __attribute__((vector_size(8 * LANES)));

#define ALL(x) ((vec_t){(x), (x), (x), (x)})
#define PICK(mask, yes, no) ((vec_t)(((mask_t)(yes) & (mask)) | ((mask_t)(no) & ~(mask))))
#define SIZE_OF(x) ((vec_t)((mask_t)(x)&INT64_MAX))
#define AT(plane, i) (*(plane_t *)((plane) + (i)))
#define READ(plane, i) ((vec_t) * (const plane_t *)((plane) + (i)))
#define SUM(v) (((v)[0] + (v)[1]) + ((v)[2] + (v)[3]))

bool vn_cell_element(double actual, double value, double variance, double *z, double *q) {
    if (!(variance >= DBL_MIN) || !isfinite(actual) || !isfinite(value)) return false;
    const double over = 1 / sqrt(variance), d = (actual - value) * over, clip = vn_clip_z();
    *z = d > clip ? clip : d < -clip ? -clip : d;
    *q = value * over;
    return true;
}

static int64_t padded(int64_t cols) { return (cols + VN_CELL_SIDE - 1) / VN_CELL_SIDE * VN_CELL_SIDE; }

size_t vn_cell_room(int64_t cols) { return 2 * VN_CELL_SUMS * (size_t)padded(cols); }

/* 1 / sqrt of a normal number: half of the exponent, turned, is a first guess within 3.5 %; each of Newton's three steps squares that, to 2^-34.
 * Statistics need no more, and a root and a quotient would cost as much as all the rest. */
#define FIRST_GUESS UINT64_C(0x5fe6eb50c7b537a9)

#define NEWTON(over, v) (1.5 - 0.5 * (v) * (over) * (over))

/* To the row, and to its column. */
#define ADD(k, each)                       \
    do {                                   \
        t[k] += (each);                    \
        AT(sums + (k)*apart, i) += (each); \
    } while (0)

/* `n` elements, a multiple of LANES; sums[k]: of the strip so far, n columns each at a distance of `apart`. */
VN_CLONES static void add_row(const double *x, const double *y, const double *var, int64_t n, double clip, double *sums, int64_t apart,
                              vn_cell_t *row) {
    vec_t t[VN_CELL_SUMS] = {0};
    const vec_t least = ALL(DBL_MIN), one = ALL(1), most = ALL(clip);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec_t v = READ(var, i), value = READ(y, i), actual = READ(x, i);
        const mask_t has = v + ((actual - actual) + (value - value)) >= least; /* a NaN where a side is not finite */
        const vec_t var_or_one = PICK(has, v, one);
        vec_t over = (vec_t)(FIRST_GUESS - ((bits_t)var_or_one >> 1));
        over *= NEWTON(over, var_or_one);
        over *= NEWTON(over, var_or_one);
        over *= NEWTON(over, var_or_one);
        const vec_t d = (actual - value) * over, size = SIZE_OF(d);
        const vec_t cut = PICK(size > most, most, size), z = (vec_t)(((mask_t)cut | ((mask_t)d & INT64_MIN)) & has);
        const vec_t q = (vec_t)((mask_t)(value * over) & has), p = z * q;
        ADD(VN_CELL_N, (vec_t)((mask_t)one & has));
        ADD(VN_CELL_S, z);
        ADD(VN_CELL_S2, z * z);
        ADD(VN_CELL_P, p);
        ADD(VN_CELL_P2, p * p);
        ADD(VN_CELL_Q2, q * q);
        ADD(VN_CELL_QA, SIZE_OF(q));
    }
    for (int k = 0; k < VN_CELL_SUMS; ++k) row->sum[k] += SUM(t[k]);
}

void vn_cells_strip(const vn_ref_t *r, int64_t begin, int64_t rows, int64_t cols, const double *x, double *room, vn_cell_t *row,
                    vn_cell_t *tile) {
    const int64_t apart = padded(cols), even = cols / LANES * LANES, rest = cols - even;
    const double clip = vn_clip_z();
    double *strip = room + VN_CELL_SUMS * apart;
    memset(strip, 0, VN_CELL_SUMS * (size_t)apart * sizeof *strip);
    for (int64_t k = 0; k < rows; ++k) {
        const double *y = r->value + begin + k * cols, *var = r->var + begin + k * cols, *actual = x + k * cols;
        const uint8_t *flags = r->flags ? r->flags + begin + k * cols : NULL;
        double pieces[3][LANES]; /* a copy, where elements do not count or are no whole vector */
        for (int64_t at = 0; flags && at < even; at += LANES) {
            for (int l = 0; l < LANES; ++l) pieces[0][l] = flags[at + l] & VN_EL_VOID ? 0 : var[at + l];
            add_row(actual + at, y + at, pieces[0], LANES, clip, strip + at, apart, &row[k]);
        }
        if (!flags) add_row(actual, y, var, even, clip, strip, apart, &row[k]);
        if (!rest) continue;
        memset(pieces, 0, sizeof pieces);
        for (int64_t l = 0; l < rest; ++l) {
            pieces[0][l] = flags && (flags[even + l] & VN_EL_VOID) ? 0 : var[even + l];
            pieces[1][l] = y[even + l];
            pieces[2][l] = actual[even + l];
        }
        add_row(pieces[2], pieces[1], pieces[0], LANES, clip, strip + even, apart, &row[k]);
    }
    for (int k = 0; k < VN_CELL_SUMS; ++k)
        for (int64_t at = 0; at < apart; at += LANES) {
            const vec_t t = READ(strip + k * apart, at);
            AT(room + k * apart, at) += t;
            tile[at / VN_CELL_SIDE].sum[k] += SUM(t);
        }
}

void vn_cells_columns(const double *room, int64_t cols, vn_cell_t *col) {
    const int64_t apart = padded(cols);
    for (int k = 0; k < VN_CELL_SUMS; ++k)
        for (int64_t i = 0; i < cols; ++i) col[i].sum[k] = room[k * apart + i];
}
