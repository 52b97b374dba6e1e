/* image_bmp.c -- Windows and OS/2 bitmaps, read by hand: 1, 4, 8 bits with palette (plain or run-length coded), 16, 24 and 32 bits.
 *
 * Fields of fewer than 8 bits are rounded to v 255 / max; truncation and repeated bits are within one step of that (IMAGE-1). The fourth
 * byte of a 32-bit pixel without an alpha mask is no alpha.
 */
#include <string.h>

#include "oracle/image.h"

enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, FIELDS = 3, ALPHA_FIELDS = 6 };

typedef struct bmp {
    const uint8_t *data;
    size_t size, pixels; /* offset of the pixels */
    int64_t width, height;
    bool upside_down; /* the first row is the lowest, as usual */
    int bits, packing;
    uint8_t palette[256][3];
    int colours;
    uint32_t masks[4]; /* red, green, blue, alpha */
} bmp_t;

static uint32_t u16_at(const bmp_t *b, size_t at) { return b->data[at] | (uint32_t)b->data[at + 1] << 8; }
static uint32_t u32_at(const bmp_t *b, size_t at) { return u16_at(b, at) | u16_at(b, at + 2) << 16; }

static vn_status_t broken(vn_error_t *err, const char *what) { return vn_fail(err, VN_ERR_PARSE, "%s", what); }

/* A run of ones, or nothing. */
static bool is_field(uint32_t mask) {
    if (!mask) return true;
    while (!(mask & 1)) mask >>= 1;
    return (mask & (mask + 1)) == 0;
}

static vn_status_t read_head(bmp_t *b, vn_error_t *err) {
    if (b->size < 26) return broken(err, "the head is cut off");
    b->pixels = u32_at(b, 10);
    const size_t head = u32_at(b, 14);
    const bool old = head == 12; /* OS/2 */
    if ((!old && head < 40) || head > b->size - 14) return broken(err, "the head is cut off");
    b->width = old ? (int64_t)u16_at(b, 18) : (int64_t)(int32_t)u32_at(b, 18);
    const int64_t height = old ? (int64_t)u16_at(b, 20) : (int64_t)(int32_t)u32_at(b, 22);
    b->upside_down = height > 0;
    b->height = height < 0 ? -height : height;
    b->bits = (int)u16_at(b, old ? 24 : 28);
    b->packing = old ? PLAIN : (int)u32_at(b, 30);
    size_t at = 14 + head;
    const bool fields = b->packing == FIELDS || b->packing == ALPHA_FIELDS;
    if (fields && (b->bits == 16 || b->bits == 32)) {
        /* Masks stand behind a head of 40 bytes, inside a longer one. */
        const int n = head >= 56 || b->packing == ALPHA_FIELDS ? 4 : 3;
        if (b->size < 54 + 4 * (size_t)n) return broken(err, "the colour masks are cut off");
        for (int k = 0; k < n; ++k) b->masks[k] = u32_at(b, 54 + 4 * (size_t)k);
        for (int k = 0; k < 4; ++k)
            if (!is_field(b->masks[k]) || (k < 3 && !b->masks[k])) return broken(err, "a colour mask is no field");
        if (head == 40) at += 4 * (size_t)n;
    } else if (b->bits == 16) {
        memcpy(b->masks, (uint32_t[]){0x7C00, 0x03E0, 0x001F, 0}, sizeof b->masks);
    } else if (b->bits == 32) {
        memcpy(b->masks, (uint32_t[]){0xFF0000, 0xFF00, 0xFF, 0}, sizeof b->masks);
    }
    if (b->bits <= 8) {
        const size_t entry = old ? 3 : 4, all = (size_t)1 << b->bits;
        size_t n = old ? all : u32_at(b, 46);
        if (n == 0 || n > all) n = all;
        for (size_t i = 0; i < n && at + entry <= b->size && at + entry <= b->pixels; ++i, at += entry, ++b->colours)
            for (int c = 0; c < 3; ++c) b->palette[i][c] = b->data[at + 2 - (size_t)c];
        if (!b->colours) return broken(err, "the palette is missing");
    }
    if (b->pixels < 14 + head || b->pixels > b->size) return broken(err, "the pixels lie outside the stream");
    return VN_OK;
}

static vn_status_t check_packing(const bmp_t *b, vn_error_t *err) {
    static const struct {
        int bits, packing;
    } known[] = {{1, PLAIN}, {4, PLAIN}, {8, PLAIN},   {16, PLAIN},  {24, PLAIN},        {32, PLAIN},
                 {8, RLE8},  {4, RLE4},  {16, FIELDS}, {32, FIELDS}, {16, ALPHA_FIELDS}, {32, ALPHA_FIELDS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].bits == b->bits && known[i].packing == b->packing) {
            const bool runs = b->packing == RLE8 || b->packing == RLE4;
            return runs && !b->upside_down ? broken(err, "run-length codes from the top") : VN_OK;
        }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "%d bits in packing %d", b->bits, b->packing);
}

static uint8_t *row_of(const bmp_t *b, const vn_image_t *m, int64_t y) {
    return (uint8_t *)m->samples + (b->upside_down ? b->height - 1 - y : y) * b->width * m->channels;
}

static bool put_colour(const bmp_t *b, uint8_t *pixel, unsigned index) {
    if ((int)index >= b->colours) return false;
    memcpy(pixel, b->palette[index], 3);
    return true;
}

static uint8_t field(uint32_t pixel, uint32_t mask) {
    if (!mask) return 255;
    int shift = 0;
    while (!(mask >> shift & 1)) ++shift;
    const uint64_t most = mask >> shift, v = (pixel & mask) >> shift;
    return (uint8_t)((v * 255 + most / 2) / most);
}

static bool plain_pixels(const bmp_t *b, const vn_image_t *m) {
    const int64_t stride = (b->width * b->bits + 31) / 32 * 4;
    if (b->height > (int64_t)(b->size - b->pixels) / stride) return false;
    for (int64_t y = 0; y < b->height; ++y) {
        const size_t from = b->pixels + (size_t)(y * stride);
        uint8_t *out = row_of(b, m, y);
        for (int64_t x = 0; x < b->width; ++x, out += m->channels) {
            if (b->bits <= 8) {
                const int64_t at = x * b->bits;
                const unsigned index = (unsigned)b->data[from + (size_t)(at / 8)] >> (8 - b->bits - at % 8) & ((1U << b->bits) - 1);
                if (!put_colour(b, out, index)) return false;
            } else if (b->bits == 24) {
                for (int c = 0; c < 3; ++c) out[c] = b->data[from + (size_t)(3 * x + 2 - c)];
            } else {
                const uint32_t v = b->bits == 16 ? u16_at(b, from + (size_t)(2 * x)) : u32_at(b, from + (size_t)(4 * x));
                for (int c = 0; c < m->channels; ++c) out[c] = field(v, b->masks[c]);
            }
        }
    }
    return true;
}

/* Runs, literal stretches, ends of lines and jumps; what a jump leaves out has colour 0. */
static bool run_pixels(const bmp_t *b, const vn_image_t *m) {
    const bool small = b->packing == RLE4;
    int64_t x = 0, y = 0;
    uint8_t *all = m->samples;
    for (int64_t i = 0; i < b->width * b->height; ++i) put_colour(b, all + 3 * i, 0);
    size_t at = b->pixels;
    while (at + 1 < b->size) {
        const int64_t count = b->data[at];
        const uint8_t code = b->data[at + 1];
        at += 2;
        if (count == 0 && code == 1) return true;
        if (count == 0 && code == 0) {
            x = 0;
            ++y;
        } else if (count == 0 && code == 2) {
            if (at + 1 >= b->size) return false;
            x += b->data[at];
            y += b->data[at + 1];
            at += 2;
        } else {
            const int64_t n = count ? count : code;
            const size_t bytes = count ? 0 : (size_t)(small ? (n + 1) / 2 : n);
            if (y >= b->height || x + n > b->width || bytes > b->size - at) return false;
            for (int64_t k = 0; k < n; ++k, ++x) {
                const uint8_t v = count ? code : b->data[at + (size_t)(small ? k / 2 : k)];
                if (!put_colour(b, row_of(b, m, y) + 3 * x, small ? (k % 2 ? v & 15U : v >> 4) : v)) return false;
            }
            at += bytes + bytes % 2;
        }
    }
    return false;
}

vn_status_t vn_image_bmp(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    bmp_t b = {.data = data, .size = size};
    VN_TRY(read_head(&b, err));
    VN_TRY(check_packing(&b, err));
    VN_TRY(vn_image_new(m, b.height, b.width, b.masks[3] ? 4 : 3, 8, err));
    for (int c = 0; c < 3 && (b.bits == 16 || b.bits == 32); ++c) {
        uint32_t mask = b.masks[c];
        while (mask && !(mask & 1)) mask >>= 1;
        m->room[c] = mask == 255 ? 0 : 1;
    }
    if (b.packing == RLE8 || b.packing == RLE4 ? run_pixels(&b, m) : plain_pixels(&b, m)) return VN_OK;
    vn_image_free(m);
    return broken(err, "the pixels are cut off, or name colours that the palette has not");
}
