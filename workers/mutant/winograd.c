/* winograd.c -- Y = A^T [(G g G^T) . (B^T d B)] A, the matrices made from the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity. */
#include "winograd.h"

#include <string.h>

enum { KERNEL = 3, MAX_TILE = 8 };

typedef struct form {
    int out, tile; /* n outputs of a tile of n + 2 inputs, each way */
    double at[MAX_TILE][MAX_TILE], g[MAX_TILE][KERNEL], bt[MAX_TILE][MAX_TILE];
} form_t;

/* coefficients of the product of (x - p[k]) over k != skip */
static void polynomial(const double *p, int n, int skip, double *coefficients) {
    memset(coefficients, 0, MAX_TILE * sizeof *coefficients);
    coefficients[0] = 1;
    for (int k = 0, degree = 0; k < n; ++k) {
        if (k == skip) continue;
        ++degree;
        for (int i = degree; i >= 0; --i) coefficients[i] = (i ? coefficients[i - 1] : 0) - p[k] * coefficients[i];
    }
}

static form_t make_form(int out) {
    static const double points[] = {0, 1, -1, 2, -2, 0.5, -0.5};
    form_t f = {.out = out, .tile = out + KERNEL - 1};
    const int n = f.tile - 1; /* finite points */
    for (int j = 0; j < n; ++j) {
        double power = 1, norm = 1;
        for (int k = 0; k < n; ++k) norm *= k == j ? 1 : points[j] - points[k];
        for (int i = 0; i < out || i < KERNEL; ++i) {
            if (i < out) f.at[i][j] = power;
            if (i < KERNEL) f.g[j][i] = power / norm;
            power *= points[j];
        }
        polynomial(points, n, j, f.bt[j]);
    }
    f.at[out - 1][n] = f.g[n][KERNEL - 1] = 1;
    polynomial(points, n, -1, f.bt[n]);
    return f;
}

/* y[rows][columns] = m[rows][inner] x[inner][columns], each step rounded. */
static void apply(bool wide, int rows, int inner, int columns, const double *m, int m_stride, const double *x, int x_stride, double *y,
                  int y_stride) {
    for (int r = 0; r < rows; ++r)
        for (int col = 0; col < columns; ++col) {
            double s = 0;
            for (int k = 0; k < inner; ++k) s = settle(wide, s + settle(wide, settle(wide, m[r * m_stride + k]) * x[k * x_stride + col]));
            y[r * y_stride + col] = s;
        }
}

/* out = m x m^T for a square x of `inner`, m of rows x inner. */
static void sandwich(bool wide, int rows, int inner, const double *m, int m_stride, const double *x, int x_stride, double *out) {
    double half[MAX_TILE * MAX_TILE], turned[MAX_TILE * MAX_TILE], back[MAX_TILE * MAX_TILE];
    apply(wide, rows, inner, inner, m, m_stride, x, x_stride, half, MAX_TILE);
    for (int i = 0; i < inner; ++i)
        for (int r = 0; r < rows; ++r) turned[i * MAX_TILE + r] = half[r * MAX_TILE + i];
    apply(wide, rows, inner, rows, m, m_stride, turned, MAX_TILE, back, MAX_TILE);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < rows; ++j) out[i * MAX_TILE + j] = back[j * MAX_TILE + i];
}

bool winograd_fits(const windows_t *w) {
    bool fits = w->rank == 2;
    for (int d = 0; fits && d < 2; ++d) fits = w->kernel[d] == KERNEL && w->strides[d] == 1 && w->dilations[d] == 1;
    return fits;
}

/* One tile of the padded image. */
static void read_tile(const windows_t *w, const form_t *f, const double *image, int64_t row, int64_t column, double *d) {
    for (int i = 0; i < f->tile; ++i)
        for (int j = 0; j < f->tile; ++j) {
            const int64_t y = row * f->out + i - w->begin[0], x = column * f->out + j - w->begin[1];
            d[i * MAX_TILE + j] = y < 0 || y >= w->in[0] || x < 0 || x >= w->in[1] ? 0 : image[y * w->in[1] + x];
        }
}

static void write_tile(const windows_t *w, const form_t *f, const double *tile, int64_t row, int64_t column, double *y) {
    for (int i = 0; i < f->out; ++i)
        for (int j = 0; j < f->out; ++j) {
            const int64_t r = row * f->out + i, x = column * f->out + j;
            if (r < w->out[0] && x < w->out[1]) y[r * w->out[1] + x] = tile[i * MAX_TILE + j];
        }
}

vn_status_t winograd(const call_t *c, const windows_t *w, int64_t out_channels, int64_t in_channels, const double *weights,
                     const double *image, double *y) {
    const form_t f = make_form(c->a->winograd);
    const bool wide = is_wide(c->in[0]->dtype);
    const int64_t tall = (w->out[0] + f.out - 1) / f.out, broad = (w->out[1] + f.out - 1) / f.out, tiles = tall * broad,
                  cells = (int64_t)f.tile * f.tile;
    double *u = room_for(c, cells * out_channels * in_channels), *v = room_for(c, cells * in_channels * tiles),
           *m = room_for(c, cells * out_channels * tiles), work[MAX_TILE * MAX_TILE], turned[MAX_TILE * MAX_TILE];
    vn_status_t s = u && v && m ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && i < out_channels * in_channels; ++i) {
        sandwich(wide, f.tile, KERNEL, &f.g[0][0], KERNEL, weights + i * KERNEL * KERNEL, KERNEL, turned);
        for (int64_t e = 0; e < cells; ++e) u[e * out_channels * in_channels + i] = turned[e / f.tile * MAX_TILE + e % f.tile];
    }
    for (int64_t i = 0; s == VN_OK && i < in_channels * tiles; ++i) {
        read_tile(w, &f, image + i / tiles * w->in_size, i % tiles / broad, i % tiles % broad, work);
        sandwich(wide, f.tile, f.tile, &f.bt[0][0], MAX_TILE, work, MAX_TILE, turned);
        for (int64_t e = 0; e < cells; ++e) v[e * in_channels * tiles + i] = turned[e / f.tile * MAX_TILE + e % f.tile];
    }
    for (int64_t e = 0; s == VN_OK && e < cells; ++e)
        s = plain_product(c, wide, out_channels, in_channels, tiles, u + e * out_channels * in_channels, v + e * in_channels * tiles,
                          m + e * out_channels * tiles);
    for (int64_t i = 0; s == VN_OK && i < out_channels * tiles; ++i) {
        for (int64_t e = 0; e < cells; ++e) work[e / f.tile * MAX_TILE + e % f.tile] = m[e * out_channels * tiles + i];
        sandwich(wide, f.out, f.tile, &f.at[0][0], MAX_TILE, work, MAX_TILE, turned);
        write_tile(w, &f, turned, i % tiles / broad, i % tiles % broad, y + i / tiles * w->out_size);
    }
    vn_free(u);
    vn_free(v);
    vn_free(m);
    return s;
}
