/* mask_edges.c -- masks as intervals of keys: reads both sides of every row and moves one of them by one. */
#include "judge/mask_edges.h"

#include <math.h>
#include <string.h>

const vn_mask_move_t vn_mask_moves[VN_MASK_MOVES] = {
    {true, -1, 0, "window-off-by-one", "the window of the mask reaches one key further back"},
    {true, 1, 0, "window-off-by-one", "the window of the mask is one key shorter"},
    {false, 1, 0, "causal-off-by-one", "each query also sees the key after the last that the mask allows"},
    {false, -1, 0, "causal-off-by-one", "each query misses the last key that the mask allows"},
    {false, 0, 1, "padding-leaks", "one key more than the mask's last column takes part"},
    {false, 0, -1, "k-tail-dropped:1", "the mask's last column of keys is left out"},
    {true, 0, -1, "padding-leaks", "one key before the mask's first column takes part"},
    {true, 0, 1, "term-dropped", "the mask's first column of keys is left out"},
};

typedef struct side {
    int64_t *at, *to; /* one entry a row; as read and as moved */
    bool sloped;
    int64_t ahead; /* of the sloped part: at[i] = i + ahead */
} side_t;

static bool allowed(const vn_tensor_t *m, int64_t i, bool allows) {
    const double x = vn_tensor_get_f64(m, i);
    return m->dtype == VN_BOOL ? (x != 0) == allows : x > -1e4; /* models often write a large number: here it marks the form of the rows */
}

/* Intervals of one matrix; an empty row has low->at > high->at. False: some row has holes. */
static bool read_rows(const vn_tensor_t *m, int64_t first, int64_t rows, int64_t keys, bool allows, side_t *low, side_t *high) {
    for (int64_t i = 0; i < rows; ++i) {
        int64_t seen = 0;
        low->at[i] = keys, high->at[i] = -1;
        for (int64_t j = 0; j < keys; ++j) {
            if (!allowed(m, first + i * keys + j, allows)) continue;
            if (!seen++) low->at[i] = j;
            high->at[i] = j;
        }
        if (seen && high->at[i] - low->at[i] + 1 != seen) return false;
    }
    return true;
}

/* at[i] = i + ahead, cut off at a limit; moved. False: the side has no such form. */
static bool move(side_t *s, const bool *used, int64_t rows, bool low, int64_t slope, int64_t flat, int64_t keys) {
    int64_t limit = low ? keys : -1;
    for (int64_t i = 0; i < rows; ++i)
        if (used[i] && (low ? s->at[i] < limit : s->at[i] > limit)) limit = s->at[i];
    s->sloped = false;
    for (int64_t i = 0; i < rows; ++i) {
        if (!used[i] || s->at[i] == limit) continue;
        if (s->sloped && s->at[i] - i != s->ahead) return false;
        s->ahead = s->at[i] - i;
        s->sloped = true;
    }
    bool clipped = !s->sloped; /* some row is cut off by the limit; else the border of the matrix is the limit */
    for (int64_t i = 0; i < rows; ++i) clipped |= used[i] && s->at[i] != i + s->ahead;
    if (!clipped) limit = low ? 0 : keys - 1;
    for (int64_t i = 0; i < rows; ++i) {
        if (!used[i]) continue;
        const int64_t line = i + s->ahead, y = !s->sloped ? limit : low ? (line > limit ? line : limit) : line < limit ? line : limit;
        if (y != s->at[i]) return false;
        const int64_t l = line + slope, m = limit + flat, to = !s->sloped ? m : low ? (l > m ? l : m) : l < m ? l : m;
        s->to[i] = low ? (to < 0 ? 0 : to) : to > keys - 1 ? keys - 1 : to;
    }
    return true;
}

static void write_rows(const vn_tensor_t *m, vn_tensor_t *out, int64_t first, int64_t rows, int64_t keys, bool allows, const bool *used,
                       const side_t *low, const side_t *high) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; used[i] && j < keys; ++j) {
            const bool due = j >= low->to[i] && j <= high->to[i];
            const int64_t at = first + i * keys + j;
            if (due == allowed(m, at, allows)) continue;
            if (m->dtype == VN_BOOL) vn_tensor_set_i64(out, at, due == allows);
            else vn_tensor_set_f64(out, at, due ? 0 : -INFINITY);
        }
}

vn_status_t vn_mask_move(const vn_tensor_t *mask, bool allows, const vn_mask_move_t *how, vn_tensor_t **out, const char **cause,
                         vn_error_t *err) {
    *out = NULL;
    *cause = how->cause;
    if (mask->rank < 2 || mask->count == 0 || (mask->dtype != VN_BOOL && !vn_dtype_is_float(mask->dtype))) return VN_OK;
    const int64_t rows = mask->dims[mask->rank - 2], keys = mask->dims[mask->rank - 1];
    int64_t *store = vn_alloc((size_t)rows * 4, sizeof *store);
    bool *used = vn_alloc((size_t)rows, sizeof *used), fits = true, slopes = false, window = false;
    vn_tensor_t *copy = NULL;
    vn_status_t s =
        store && used ? vn_tensor_copy(mask, &copy, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld rows", (long long)rows);
    for (int64_t first = 0; s == VN_OK && fits && first < mask->count; first += rows * keys) {
        side_t low = {.at = store, .to = store + rows}, high = {.at = store + 2 * rows, .to = store + 3 * rows};
        fits = read_rows(mask, first, rows, keys, allows, &low, &high);
        for (int64_t i = 0; i < rows; ++i) used[i] = high.at[i] >= low.at[i];
        fits = fits && move(&low, used, rows, true, how->low ? how->slope : 0, how->low ? how->flat : 0, keys) &&
               move(&high, used, rows, false, how->low ? 0 : how->slope, how->low ? 0 : how->flat, keys);
        if (!fits) break;
        slopes |= how->low ? low.sloped : high.sloped;
        window |= low.sloped && high.sloped && high.ahead > (keys > rows ? keys - rows : 0);
        write_rows(mask, copy, first, rows, keys, allows, used, &low, &high);
    }
    vn_free(store);
    vn_free(used);
    if (s == VN_OK && fits && (slopes || !how->slope) && !vn_tensor_equal_bits(mask, copy)) {
        *out = copy;
        if (window && how->slope) *cause = "window-off-by-one";
        return VN_OK;
    }
    vn_tensor_free(copy);
    return s;
}
