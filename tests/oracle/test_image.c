/* Claims IMAGE-1 to IMAGE-5: pictures written here byte by byte, and small ones of data/images that other encoders wrote from known pixels. */
#include <math.h>
#include <stdio.h>

#include "oracle/text_node.h"

typedef struct bytes {
    uint8_t b[4096];
    size_t n;
} bytes_t;

static void put(bytes_t *o, const void *data, size_t n) {
    memcpy(o->b + o->n, data, n);
    o->n += n;
}
static void put_le(bytes_t *o, uint32_t v, int n) {
    for (int k = 0; k < n; ++k) o->b[o->n++] = k < 4 ? (uint8_t)(v >> 8 * k) : 0;
}
static void put_be(bytes_t *o, uint32_t v, int n) {
    for (int k = n - 1; k >= 0; --k) o->b[o->n++] = (uint8_t)(v >> 8 * k);
}

static text_node_t decoder(vn_test_t *t, const void *data, size_t n, const char *pixel_format) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_U8, 1, (int64_t[]){(int64_t)n}, &x, NULL));
    if (n) memcpy(x->data, data, n);
    return (text_node_t){.op = "ImageDecoder", .version = 20, .n_in = 1, .in = {x}, .attrs = {attr_text("pixel_format", pixel_format)}};
}

/* False: the library is not here. */
static bool decoded(vn_test_t *t, text_node_t *c) {
    const vn_status_t s = text_try(t, c);
    if (s == VN_ERR_UNSUPPORTED && strstr(c->err.text, "install Debian package")) return false;
    VN_ASSERT_OK_ERR(t, s, c->err);
    return true;
}

static void pixels_are(vn_test_t *t, const vn_tensor_t *x, int64_t h, int64_t w, int64_t channels, const uint8_t *due) {
    VN_ASSERT(t, x->dtype == VN_U8 && x->rank == 3 && x->dims[0] == h && x->dims[1] == w && x->dims[2] == channels);
    for (int64_t i = 0; i < x->count; ++i)
        if (((const uint8_t *)x->data)[i] != due[i])
            vn_test_fail(t, __FILE__, __LINE__, "sample %lld is %d, %d is due", (long long)i, ((const uint8_t *)x->data)[i], due[i]);
}

static void gives(vn_test_t *t, const bytes_t *o, const char *pixel_format, int64_t h, int64_t w, int64_t channels, const uint8_t *due) {
    text_node_t c = decoder(t, o->b, o->n, pixel_format);
    if (!decoded(t, &c)) {
        text_free(&c);
        skip();
    }
    pixels_are(t, c.out[0].tensor, h, w, channels, due);
    text_free(&c);
}

static void gives_nothing(vn_test_t *t, const void *data, size_t n) {
    text_node_t c = decoder(t, data, n, "RGB");
    VN_ASSERT_OK_ERR(t, text_try(t, &c), c.err);
    VN_ASSERT(t, c.out[0].rank == 3 && c.out[0].dims[0] == 0 && c.out[0].dims[1] == 0 && c.out[0].count == 0);
    VN_ASSERT(t, text_reading(&c.out[0], "empty-with-channels")->dims[2] == 3);
    text_free(&c);
}

/* ---- portable bitmaps ---- */

static const uint8_t four[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}; /* 2 x 2 RGB */
static const uint8_t four_bgr[] = {30, 20, 10, 60, 50, 40, 90, 80, 70, 120, 110, 100};

VN_TEST(image, portable_bitmaps) {
    bytes_t o = {.n = 0};
    put(&o, "P6 # size\n2 2\n255\n", 18);
    put(&o, four, sizeof four);
    gives(t, &o, "RGB", 2, 2, 3, four);
    gives(t, &o, "BGR", 2, 2, 3, four_bgr);
    gives(t, &o, "Grayscale", 2, 2, 1, (uint8_t[]){18, 48, 78, 108}); /* 18.15, 48.15, ... */
    for (size_t cut = 2; cut < o.n; ++cut) gives_nothing(t, o.b, cut);
    bytes_t text = {.n = 0};
    put(&text, "P2\n3 1\n100\n0 50\n100", 19);
    gives(t, &text, "Grayscale", 1, 3, 1, (uint8_t[]){0, 128, 255}); /* 127.5 up */
    bytes_t bits = {.n = 0};
    put(&bits, "P4\n10 2\n\xAA\x40\x55\x80", 12);
    gives(t, &bits, "Grayscale", 2, 10, 1, (uint8_t[]){0, 255, 0, 255, 0, 255, 0, 255, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 0, 255});
    bytes_t plain = {.n = 0};
    put(&plain, "P1 3 1 010", 10);
    gives(t, &plain, "RGB", 1, 3, 3, (uint8_t[]){255, 255, 255, 0, 0, 0, 255, 255, 255});
    bytes_t wide = {.n = 0};
    put(&wide, "P5 2 1 65535\n\x80\x80\xFF\xFF", 17);
    gives(t, &wide, "Grayscale", 1, 2, 1, (uint8_t[]){128, 255});
    static const char *const broken[] = {"P6",          "P6 0 1 255 ",  "P5 1 1 0 a",           "P5 1 1 70000 aa",
                                         "P2 1 1 9 10", "P3 1 1 9 1 2", "P5 9999999999 1 255 a"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i) gives_nothing(t, broken[i], strlen(broken[i]));
    text_node_t c = decoder(t, "P5 999999999 999999999 255 a", 28, "RGB"); /* more than is decoded here */
    VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_RANGE);
    text_free(&c);
}

VN_TEST(image, grey_ties_leave_a_choice) {
    /* 299 R + 587 G + 114 B = 500 mod 1000 for (0, 0, 250): 28.5; (0, 0, 251): 28.614 is none. */
    text_node_t c = decoder(t, "P6 2 1 255\n\0\0\xFA\0\0\xFB", 17, "Grayscale");
    text_run(t, &c);
    const uint8_t *y = c.out[0].tensor->data, *z = c.out[0].either->data;
    VN_ASSERT(t, y[0] == 29 && z[0] == 28 && y[1] == 29 && z[1] == 29);
    text_free(&c);
}

/* ---- Windows bitmaps ---- */

static bytes_t bitmap(int bits, int packing, int32_t width, int32_t height, int colours, const uint8_t (*palette)[3], const void *data,
                      size_t n) {
    bytes_t o = {.n = 0};
    put(&o, "BM", 2);
    put_le(&o, 0, 8);
    put_le(&o, (uint32_t)(54 + 4 * colours + (packing == 3 ? 12 : 0)), 4);
    put_le(&o, 40, 4);
    put_le(&o, (uint32_t)width, 4);
    put_le(&o, (uint32_t)height, 4);
    put_le(&o, 1, 2);
    put_le(&o, (uint32_t)bits, 2);
    put_le(&o, (uint32_t)packing, 4);
    put_le(&o, 0, 12);
    put_le(&o, (uint32_t)colours, 4);
    put_le(&o, 0, 4);
    if (packing == 3) {
        put_le(&o, 0xF800, 4);
        put_le(&o, 0x07E0, 4);
        put_le(&o, 0x001F, 4);
    }
    for (int i = 0; i < colours; ++i) {
        put_le(&o, palette[i][2], 1);
        put_le(&o, palette[i][1], 1);
        put_le(&o, palette[i][0], 2);
    }
    put(&o, data, n);
    return o;
}

VN_TEST(image, bitmaps) {
    static const uint8_t palette[][3] = {{1, 2, 3}, {40, 50, 60}, {200, 100, 0}};
    static const uint8_t low_first[] = {90, 80, 70, 120, 110, 100, 0, 0, 30, 20, 10, 60, 50, 40, 0, 0};
    bytes_t o = bitmap(24, 0, 2, 2, 0, NULL, low_first, sizeof low_first);
    gives(t, &o, "RGB", 2, 2, 3, four);
    for (size_t cut = 2; cut < o.n; ++cut) gives_nothing(t, o.b, cut);
    bytes_t down = bitmap(24, 0, 2, -2, 0, NULL, low_first, sizeof low_first);
    gives(t, &down, "RGB", 2, 2, 3, (uint8_t[]){70, 80, 90, 100, 110, 120, 10, 20, 30, 40, 50, 60});
    bytes_t eight = bitmap(8, 0, 3, 1, 3, palette, (uint8_t[]){2, 0, 1, 0}, 4);
    static const uint8_t three[] = {200, 100, 0, 1, 2, 3, 40, 50, 60};
    gives(t, &eight, "RGB", 1, 3, 3, three);
    bytes_t nibbles = bitmap(4, 0, 3, 1, 3, palette, (uint8_t[]){0x20, 0x10, 0, 0}, 4);
    gives(t, &nibbles, "RGB", 1, 3, 3, three);
    bytes_t one = bitmap(1, 0, 3, 1, 2, palette, (uint8_t[]){0x40, 0, 0, 0}, 4);
    gives(t, &one, "RGB", 1, 3, 3, (uint8_t[]){1, 2, 3, 40, 50, 60, 1, 2, 3});
    bytes_t unknown = bitmap(8, 0, 1, 1, 3, palette, (uint8_t[]){3, 0, 0, 0}, 4);
    gives_nothing(t, unknown.b, unknown.n); /* a colour that is not there */
    bytes_t wide = bitmap(32, 0, 1, 1, 0, NULL, (uint8_t[]){3, 2, 1, 0}, 4);
    gives(t, &wide, "RGB", 1, 1, 3, (uint8_t[]){1, 2, 3}); /* the fourth byte is no alpha */
}

VN_TEST(image, bitmaps_of_short_fields_have_room) {
    bytes_t o = bitmap(16, 3, 2, 1, 0, NULL, (uint8_t[]){0x10, 0x84, 0xFF, 0xFF}, 4); /* 5-6-5: (16, 32, 16), white */
    text_node_t c = decoder(t, o.b, o.n, "RGB");
    text_run(t, &c);
    pixels_are(t, c.out[0].tensor, 1, 2, 3, (uint8_t[]){132, 130, 132, 255, 255, 255}); /* 131.6, 129.5, 131.6 */
    for (int i = 0; i < 6; ++i) VN_ASSERT(t, c.out[0].bound && c.out[0].bound[i] == 1);
    text_free(&c);
    bytes_t five = bitmap(16, 0, 1, 1, 0, NULL, (uint8_t[]){0x1F, 0x00, 0, 0}, 4);
    gives(t, &five, "BGR", 1, 1, 3, (uint8_t[]){255, 0, 0});
}

VN_TEST(image, bitmaps_of_runs) {
    static const uint8_t palette[][3] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}};
    /* Lower row: 2 x colour 1, literal 2 0 1 (filled up to 4 bytes); upper row: one step to the right, 1 x colour 2. */
    static const uint8_t runs[] = {2, 1, 0, 3, 2, 0, 1, 0, 0, 0, 0, 2, 1, 0, 1, 2, 0, 1};
    bytes_t o = bitmap(8, 1, 5, 2, 3, palette, runs, sizeof runs);
    gives(t, &o, "Grayscale", 2, 5, 1, (uint8_t[]){1, 3, 1, 1, 1, 2, 2, 3, 1, 2});
    for (size_t cut = 2; cut < o.n - 1; ++cut) gives_nothing(t, o.b, cut);
    static const uint8_t pairs[] = {3, 0x12, 0, 1};
    bytes_t four_bits = bitmap(4, 2, 3, 1, 3, palette, pairs, sizeof pairs);
    gives(t, &four_bits, "Grayscale", 1, 3, 1, (uint8_t[]){2, 3, 2});
    bytes_t beyond = bitmap(8, 1, 2, 1, 3, palette, (uint8_t[]){3, 1, 0, 1}, 4);
    gives_nothing(t, beyond.b, beyond.n);
}

/* ---- PNG ---- */

static uint32_t crc(const uint8_t *p, size_t n) {
    uint32_t c = 0xFFFFFFFF;
    for (size_t i = 0; i < n; ++i) {
        c ^= p[i];
        for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0xEDB88320 : c >> 1;
    }
    return ~c;
}

static void chunk(bytes_t *o, const char *name, const void *data, size_t n) {
    put_be(o, (uint32_t)n, 4);
    const size_t from = o->n;
    put(o, name, 4);
    if (n) put(o, data, n);
    put_be(o, crc(o->b + from, o->n - from), 4);
}

/* Rows (each with its filter byte in front) in one stored block. */
static bytes_t png(uint32_t width, uint32_t height, int depth, int colour, const uint8_t (*palette)[3], int colours, const uint8_t *rows,
                   size_t n) {
    bytes_t o = {.n = 0}, head = {.n = 0}, z = {.n = 0};
    put(&o, "\x89PNG\r\n\x1A\n", 8);
    put_be(&head, width, 4);
    put_be(&head, height, 4);
    put(&head, (uint8_t[]){(uint8_t)depth, (uint8_t)colour, 0, 0, 0}, 5);
    chunk(&o, "IHDR", head.b, head.n);
    if (palette) chunk(&o, "PLTE", palette, 3 * (size_t)colours);
    put(&z, "\x78\x01\x01", 3);
    put_le(&z, (uint32_t)n, 2);
    put_le(&z, ~(uint32_t)n, 2);
    put(&z, rows, n);
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; ++i) {
        a = (a + rows[i]) % 65521;
        b = (b + a) % 65521;
    }
    put_be(&z, b << 16 | a, 4);
    chunk(&o, "IDAT", z.b, z.n);
    chunk(&o, "IEND", NULL, 0);
    return o;
}

VN_TEST(image, png) {
    static const uint8_t rows[] = {0, 10, 20, 30, 40, 50, 60, 2, 60, 60, 60, 60, 60, 60}; /* the second row as differences */
    bytes_t o = png(2, 2, 8, 2, NULL, 0, rows, sizeof rows);
    gives(t, &o, "RGB", 2, 2, 3, four);
    static const uint8_t palette[][3] = {{1, 2, 3}, {40, 50, 60}};
    bytes_t indexed = png(3, 1, 1, 3, palette, 2, (uint8_t[]){0, 0x40}, 2);
    gives(t, &indexed, "RGB", 1, 3, 3, (uint8_t[]){1, 2, 3, 40, 50, 60, 1, 2, 3});
    bytes_t two_bits = png(4, 1, 2, 0, NULL, 0, (uint8_t[]){0, 0x1B}, 2);
    gives(t, &two_bits, "RGB", 1, 4, 3, (uint8_t[]){0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255});
    for (size_t cut = 8; cut + 12 < o.n; cut += 5) gives_nothing(t, o.b, cut);
    o.b[45] ^= 1; /* inside the pixels: the check sum fails */
    gives_nothing(t, o.b, o.n);
}

VN_TEST(image, png_alpha_and_16_bits) {
    bytes_t o = png(1, 1, 8, 6, NULL, 0, (uint8_t[]){0, 1, 2, 3, 128}, 5);
    text_node_t c = decoder(t, o.b, o.n, "BGR");
    if (!decoded(t, &c)) {
        text_free(&c);
        skip();
    }
    pixels_are(t, c.out[0].tensor, 1, 1, 3, (uint8_t[]){3, 2, 1}); /* alpha is dropped */
    pixels_are(t, text_reading(&c.out[0], "alpha-kept"), 1, 1, 4, (uint8_t[]){3, 2, 1, 128});
    text_free(&c);
    bytes_t deep = png(2, 1, 16, 0, NULL, 0, (uint8_t[]){0, 0x12, 0xFF, 0xFF, 0x00}, 5); /* 0x12FF / 257 = 18.9, 0xFF00 / 257 = 254.0 */
    text_node_t d = decoder(t, deep.b, deep.n, "Grayscale");
    text_run(t, &d);
    pixels_are(t, d.out[0].tensor, 1, 2, 1, (uint8_t[]){19, 254});
    pixels_are(t, text_reading(&d.out[0], "low-byte-dropped"), 1, 2, 1, (uint8_t[]){18, 255});
    text_free(&d);
}

/* ---- TIFF ---- */

static bytes_t tiff(bool big, int width, int height, int samples, int bits, int photometric, const uint8_t *data, size_t n) {
    bytes_t o = {.n = 0};
    void (*put_n)(bytes_t *, uint32_t, int) = big ? put_be : put_le;
    const uint32_t pixels = 8;
    put(&o, big ? "MM" : "II", 2);
    put_n(&o, 42, 2);
    put_n(&o, (uint32_t)(pixels + n), 4);
    put(&o, data, n);
    const struct {
        uint32_t tag, type, value;
    } fields[] = {{256, 3, (uint32_t)width},       {257, 3, (uint32_t)height},
                  {258, 3, (uint32_t)bits},        {259, 3, 1},
                  {262, 3, (uint32_t)photometric}, {273, 4, pixels},
                  {277, 3, (uint32_t)samples},     {278, 3, (uint32_t)height},
                  {279, 4, (uint32_t)n},           {284, 3, 1}};
    const int count = (int)(sizeof fields / sizeof *fields);
    put_n(&o, (uint32_t)count, 2);
    for (int i = 0; i < count; ++i) {
        put_n(&o, fields[i].tag, 2);
        put_n(&o, fields[i].type, 2);
        put_n(&o, 1, 4);
        put_n(&o, fields[i].value, fields[i].type == 3 ? 2 : 4);
        if (fields[i].type == 3) put_n(&o, 0, 2);
    }
    put_n(&o, 0, 4);
    return o;
}

VN_TEST(image, tiff) {
    for (int big = 0; big < 2; ++big) {
        bytes_t o = tiff(big, 2, 2, 3, 8, 2, four, sizeof four);
        gives(t, &o, "RGB", 2, 2, 3, four);
        bytes_t white_is_zero = tiff(big, 2, 1, 1, 8, 0, (uint8_t[]){0, 200}, 2);
        gives(t, &white_is_zero, "Grayscale", 1, 2, 1, (uint8_t[]){255, 55});
        bytes_t deep = tiff(big, 1, 1, 1, 16, 1, big ? (uint8_t[]){0x12, 0xFF} : (uint8_t[]){0xFF, 0x12}, 2);
        gives(t, &deep, "Grayscale", 1, 1, 1, (uint8_t[]){19});
    }
    bytes_t ink = tiff(false, 1, 1, 4, 8, 5, (uint8_t[]){1, 2, 3, 4}, 4);
    text_node_t c = decoder(t, ink.b, ink.n, "RGB");
    VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_UNSUPPORTED);
    text_free(&c);
}

/* ---- what others wrote ---- */

static bytes_t file(vn_test_t *t, const char *name) {
    char path[512];
    vn_map_t m;
    bytes_t o = {.n = 0};
    snprintf(path, sizeof path, "%s/images/%s", VN_TEST_DATA, name);
    VN_ASSERT_OK(t, vn_map_file(path, &m, NULL));
    VN_ASSERT(t, m.size <= sizeof o.b);
    put(&o, m.data, m.size);
    vn_unmap(&m);
    return o;
}

enum { HIGH = 9, WIDE = 13 };
/* The picture that was given to the encoders. */
static const uint8_t *pattern(void) {
    static uint8_t p[HIGH * WIDE * 3];
    for (int y = 0; y < HIGH; ++y)
        for (int x = 0; x < WIDE; ++x)
            for (int c = 0; c < 3; ++c) p[3 * (y * WIDE + x) + c] = (uint8_t)(37 * y + 11 * x + 71 * c + y * x);
    return p;
}

VN_TEST(image, lossless_webp) {
    bytes_t o = file(t, "lossless.webp");
    gives(t, &o, "RGB", HIGH, WIDE, 3, pattern());
    gives_nothing(t, o.b, 30);
    gives_nothing(t, o.b, o.n - 8);
}

VN_TEST(image, reversible_jpeg2000) {
    bytes_t o = file(t, "reversible.jp2"), bare = file(t, "reversible.j2k");
    gives(t, &o, "RGB", HIGH, WIDE, 3, pattern());
    gives(t, &bare, "RGB", HIGH, WIDE, 3, pattern());
    gives_nothing(t, bare.b, 60);
}

VN_TEST(image, irreversible_jpeg2000_is_open) {
    bytes_t o = file(t, "irreversible.jp2");
    text_node_t c = decoder(t, o.b, o.n, "RGB");
    const bool there = decoded(t, &c);
    for (int64_t i = 0; there && i < c.out[0].count; ++i) VN_ASSERT(t, c.out[0].flags && c.out[0].flags[i] == VN_EL_VOID);
    text_free(&c);
    if (!there) skip();
}

/* Flat halves of 8 columns: Y, U and V are constant there, so the room is that of the roundings only, and wider at the border. */
VN_TEST(image, lossy_webp_has_room_at_edges) {
    bytes_t o = file(t, "lossy.webp");
    text_node_t c = decoder(t, o.b, o.n, "RGB");
    if (!decoded(t, &c)) {
        text_free(&c);
        skip();
    }
    const uint8_t *y = c.out[0].tensor->data;
    const double *bound = c.out[0].bound;
    VN_ASSERT(t, c.out[0].count == 16 * 16 * 3 && bound && y[0] > y[3 * 15]); /* 200 on the left, 30 on the right */
    for (int r = 0; r < 16; ++r)
        for (int k = 0; k < 3; ++k) {
            VN_ASSERT_LE(t, bound[3 * (16 * r + 2) + k], 3);
            VN_ASSERT_LE(t, bound[3 * (16 * r + 13) + k], 3);
        }
    /* On either side of the border another decoder may take the chroma of the other side: red 170, blue 160 apart, by far the most of it chroma. */
    for (int x = 6; x <= 9; ++x)
        for (int k = 0; k < 3; k += 2) VN_ASSERT_GT(t, bound[3 * (16 * 8 + x) + k], 40);
    text_free(&c);
}

/* One grey level in each block of 8 x 8: only the constant coefficient is there, and 8 (v - 128) is divided by its step, here small. */
VN_TEST(image, grey_jpeg) {
    bytes_t o = file(t, "grey.jpg");
    text_node_t c = decoder(t, o.b, o.n, "RGB");
    if (!decoded(t, &c)) {
        text_free(&c);
        skip();
    }
    const uint8_t *y = c.out[0].tensor->data;
    VN_ASSERT(t, c.out[0].dims[0] == 8 && c.out[0].dims[1] == 16 && c.out[0].dims[2] == 3);
    for (int i = 0; i < 128; ++i)
        for (int k = 0; k < 3; ++k) {
            VN_ASSERT_LE(t, fabs(y[3 * i + k] - (i % 16 < 8 ? 77.0 : 201.0)), 1); /* a step of 3 in 8 (v - 128) */
            VN_ASSERT(t, c.out[0].bound[3 * i + k] == 2);
        }
    text_free(&c);
}

VN_TEST(image, colour_jpeg) {
    static const struct {
        const char *name;
        double room[3];
    } files[] = {{"flat444.jpg", {5, 5, 6}}, {"flat420.jpg", {7, 6, 8}}};
    static const double colour[] = {180, 60, 100};
    for (size_t f = 0; f < sizeof files / sizeof *files; ++f) {
        bytes_t o = file(t, files[f].name);
        text_node_t c = decoder(t, o.b, o.n, "RGB");
        if (!decoded(t, &c)) {
            text_free(&c);
            skip();
        }
        for (int64_t i = 0; i < c.out[0].count; ++i) {
            VN_ASSERT_LE(t, fabs(((const uint8_t *)c.out[0].tensor->data)[i] - colour[i % 3]),
                         3); /* three roundings of steps of quality 95 */
            VN_ASSERT(t, c.out[0].bound[i] == files[f].room[i % 3]);
        }
        text_free(&c);
        text_node_t g = decoder(t, o.b, o.n, "Grayscale");
        text_run(t, &g); /* 100.44 */
        VN_ASSERT_LE(t, fabs(((const uint8_t *)g.out[0].tensor->data)[0] - 100.44), 2);
        text_free(&g);
    }
}

VN_TEST(image, jpeg_that_is_open_or_broken) {
    bytes_t edge = file(t, "edge422.jpg"), other = file(t, "factor4.jpg");
    text_node_t c = decoder(t, other.b, other.n, "RGB");
    if (!decoded(t, &c)) {
        text_free(&c);
        skip();
    }
    VN_ASSERT(t, c.out[0].flags && c.out[0].flags[0] == VN_EL_VOID); /* the text interpolates by 2 only */
    text_free(&c);
    text_node_t d = decoder(t, edge.b, edge.n, "RGB");
    text_run(t, &d);
    VN_ASSERT(t, !d.out[0].flags && d.out[0].bound[0] == 5); /* one axis: no second rounding */
    text_free(&d);
    gives_nothing(t, edge.b, 100); /* no picture yet */
    text_node_t f = decoder(t, edge.b, edge.n - 40, "RGB");
    VN_ASSERT_EQ(t, text_try(t, &f), VN_ERR_UNSUPPORTED); /* damaged, not lost */
    text_free(&f);
}

/* ---- everything else ---- */

VN_TEST(image, formats_and_operands) {
    gives_nothing(t, "", 0);
    gives_nothing(t, "GIF89a", 6);
    gives_nothing(t, "RIFF1234WAVE", 12);
    text_node_t c = decoder(t, "P7\n", 3, "RGB");
    VN_ASSERT_EQ(t, text_try(t, &c), VN_ERR_UNSUPPORTED);
    text_free(&c);
    text_node_t d = decoder(t, "P1 1 1 0", 8, "RGBA");
    VN_ASSERT_EQ(t, text_try(t, &d), VN_ERR_RANGE);
    text_free(&d);
    text_node_t f = {.op = "ImageDecoder", .version = 20, .n_in = 1, .in = {text_vector(t, 1, (vn_string_t[]){TEXT("a")})}};
    VN_ASSERT_EQ(t, text_try(t, &f), VN_ERR_DTYPE);
    text_free(&f);
}

enum { KINDS = 13 };
/* One picture of each kind. */
static bytes_t picture(vn_test_t *t, int kind) {
    static const char *const names[] = {"lossless.webp", "lossy.webp",     "grey.jpg",       "edge422.jpg",
                                        "flat420.jpg",   "reversible.jp2", "reversible.j2k", "irreversible.jp2"};
    static const uint8_t palette[][3] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}, runs[] = {2, 1, 0, 3, 2, 0, 1, 0, 0, 0, 0, 1};
    bytes_t o = {.n = 0};
    if (kind < 8) return file(t, names[kind]);
    if (kind == 8) return bitmap(8, 1, 5, 2, 3, palette, runs, sizeof runs);
    if (kind == 9) return bitmap(24, 0, 2, 1, 0, NULL, runs, 8);
    if (kind == 10) return png(2, 1, 8, 2, NULL, 0, (uint8_t[]){0, 1, 2, 3, 4, 5, 6}, 7);
    if (kind == 11) return tiff(false, 2, 2, 3, 8, 2, four, sizeof four);
    put(&o, "P6 2 2 255\n", 11);
    put(&o, four, sizeof four);
    return o;
}

/* Whatever bytes are changed, a decoder answers: a picture, nothing, or a refusal; never a crash or a read outside (under the sanitizers). */
VN_TEST(image, changed_bytes) {
    vn_rng_t rng = vn_test_rng(t);
    for (int kind = 0; kind < KINDS; ++kind) {
        const bytes_t whole = picture(t, kind);
        for (int i = 0; i < 5 * vn_test_scale(t); ++i) {
            bytes_t o = whole;
            for (int k = 0; k < 3; ++k) o.b[3 + vn_rng_below(&rng, o.n - 3)] = (uint8_t)vn_rng_u64(&rng);
            if (vn_rng_below(&rng, 4) == 0) o.n -= (size_t)vn_rng_below(&rng, o.n / 2);
            text_node_t c = decoder(t, o.b, o.n, "RGB");
            const vn_status_t s = text_try(t, &c);
            VN_ASSERT(t, s == VN_OK || s == VN_ERR_UNSUPPORTED || s == VN_ERR_RANGE || s == VN_ERR_NOMEM);
            text_free(&c);
        }
    }
}

VN_TEST(image, allocations_may_fail) {
    for (int kind = 0; kind < KINDS; ++kind) {
        const bytes_t o = picture(t, kind);
        text_node_t c = decoder(t, o.b, o.n, kind % 2 ? "RGB" : "Grayscale");
        text_survives(t, &c);
    }
}

VN_TEST_MAIN(VN_CASE(image, portable_bitmaps), VN_CASE(image, grey_ties_leave_a_choice), VN_CASE(image, bitmaps),
             VN_CASE(image, bitmaps_of_short_fields_have_room), VN_CASE(image, bitmaps_of_runs), VN_CASE(image, png),
             VN_CASE(image, png_alpha_and_16_bits), VN_CASE(image, tiff), VN_CASE(image, lossless_webp),
             VN_CASE(image, reversible_jpeg2000), VN_CASE(image, irreversible_jpeg2000_is_open),
             VN_CASE(image, lossy_webp_has_room_at_edges), VN_CASE(image, grey_jpeg), VN_CASE(image, colour_jpeg),
             VN_CASE(image, jpeg_that_is_open_or_broken), VN_CASE(image, formats_and_operands), VN_CASE(image, changed_bytes),
             VN_CASE(image, allocations_may_fail))
