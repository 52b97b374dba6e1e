/* image_tiff.c -- TIFF by libtiff, the first picture of a file: grey, RGB and palettes of up to 8 bits, grey and RGB of 16 bits, with or
 * without alpha. Compressions that lose something, other colour models and turned pictures are refused by name.
 */
#include "oracle/image.h"

#ifdef VN_HAS_TIFF

#include <stdio.h>
#include <string.h>
#include <tiffio.h>

#include "oracle/late.h"

static struct {
    __typeof__(&TIFFClientOpen) open;
    __typeof__(&TIFFClose) close;
    __typeof__(&TIFFGetField) get;
    __typeof__(&TIFFGetFieldDefaulted) get_or;
    __typeof__(&TIFFReadRGBAImageOriented) rgba;
    __typeof__(&TIFFScanlineSize64) line_size;
    __typeof__(&TIFFReadScanline) line;
    __typeof__(&TIFFIsTiled) tiled;
    __typeof__(&TIFFIsCODECConfigured) codec;
    __typeof__(&TIFFSetErrorHandler) on_error;
    __typeof__(&TIFFSetWarningHandler) on_warning;
} api;

static const vn_late_symbol_t symbols[] = {
    VN_LATE_SYMBOL(api, open, TIFFClientOpen),
    VN_LATE_SYMBOL(api, close, TIFFClose),
    VN_LATE_SYMBOL(api, get, TIFFGetField),
    VN_LATE_SYMBOL(api, get_or, TIFFGetFieldDefaulted),
    VN_LATE_SYMBOL(api, rgba, TIFFReadRGBAImageOriented),
    VN_LATE_SYMBOL(api, line_size, TIFFScanlineSize64),
    VN_LATE_SYMBOL(api, line, TIFFReadScanline),
    VN_LATE_SYMBOL(api, tiled, TIFFIsTiled),
    VN_LATE_SYMBOL(api, codec, TIFFIsCODECConfigured),
    VN_LATE_SYMBOL(api, on_error, TIFFSetErrorHandler),
    VN_LATE_SYMBOL(api, on_warning, TIFFSetWarningHandler),
};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof api / sizeof(void *), "every function is looked up");

static vn_late_t library = {.what = "libtiff",
                            .package = "libtiff6",
                            .files = {"libtiff.so.6", "libtiff.so.5", "libtiff.so"},
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t quiet_once = PTHREAD_ONCE_INIT;

/* libtiff would print; its handlers are global to it. */
static void be_quiet(void) {
    api.on_error(NULL);
    api.on_warning(NULL);
}

typedef struct stream {
    const uint8_t *data;
    toff_t size, at;
} stream_t;

static tmsize_t read_some(thandle_t h, void *out, tmsize_t n) {
    stream_t *s = h;
    const toff_t left = s->at < s->size ? s->size - s->at : 0;
    if ((toff_t)n > left) n = (tmsize_t)left;
    memcpy(out, s->data + s->at, (size_t)n);
    s->at += (toff_t)n;
    return n;
}
static tmsize_t write_none(thandle_t h, void *data, tmsize_t n) {
    (void)h, (void)data, (void)n;
    return 0;
}
static toff_t seek(thandle_t h, toff_t to, int from) {
    stream_t *s = h;
    const toff_t base = from == SEEK_CUR ? s->at : from == SEEK_END ? s->size : 0;
    s->at = base + to; /* beyond the end: read_some finds nothing there */
    return s->at;
}
static int close_none(thandle_t h) {
    (void)h;
    return 0;
}
static toff_t size_of(thandle_t h) { return ((stream_t *)h)->size; }
static int map_none(thandle_t h, void **data, toff_t *size) {
    (void)h, (void)data, (void)size;
    return 0;
}
static void unmap_none(thandle_t h, void *data, toff_t size) { (void)h, (void)data, (void)size; }

typedef struct head {
    uint32_t width, height;
    uint16_t bits, samples, planar, photometric, compression, format, orientation, extras;
} head_t;

static vn_status_t read_head(TIFF *t, head_t *h, vn_error_t *err) {
    const uint16_t *kinds = NULL;
    *h = (head_t){.photometric = PHOTOMETRIC_MINISBLACK};
    if (!api.get(t, TIFFTAG_IMAGEWIDTH, &h->width) || !api.get(t, TIFFTAG_IMAGELENGTH, &h->height) ||
        !api.get(t, TIFFTAG_PHOTOMETRIC, &h->photometric))
        return vn_fail(err, VN_ERR_PARSE, "width, height or colour model are missing");
    api.get_or(t, TIFFTAG_BITSPERSAMPLE, &h->bits);
    api.get_or(t, TIFFTAG_SAMPLESPERPIXEL, &h->samples);
    api.get_or(t, TIFFTAG_PLANARCONFIG, &h->planar);
    api.get_or(t, TIFFTAG_COMPRESSION, &h->compression);
    api.get_or(t, TIFFTAG_SAMPLEFORMAT, &h->format);
    api.get_or(t, TIFFTAG_ORIENTATION, &h->orientation);
    api.get_or(t, TIFFTAG_EXTRASAMPLES, &h->extras, &kinds);
    const bool lossless = h->compression == COMPRESSION_NONE || h->compression == COMPRESSION_LZW ||
                          h->compression == COMPRESSION_PACKBITS || h->compression == COMPRESSION_ADOBE_DEFLATE ||
                          h->compression == COMPRESSION_DEFLATE || h->compression == COMPRESSION_CCITTRLE ||
                          h->compression == COMPRESSION_CCITTFAX3 || h->compression == COMPRESSION_CCITTFAX4 ||
                          h->compression == COMPRESSION_ZSTD || h->compression == COMPRESSION_LZMA;
    if (!lossless) return vn_fail(err, VN_ERR_UNSUPPORTED, "compression %u", h->compression);
    if (!api.codec(h->compression)) return vn_fail(err, VN_ERR_UNSUPPORTED, "libtiff was built without compression %u", h->compression);
    if (h->format != SAMPLEFORMAT_UINT) return vn_fail(err, VN_ERR_UNSUPPORTED, "samples that are no unsigned integers");
    if (h->orientation != ORIENTATION_TOPLEFT)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "orientation %u, and the standard does not say whether it is applied", h->orientation);
    return VN_OK;
}

/* Palettes, bits and plain colours without alpha: libtiff's own conversion to four bytes is exact for them. */
static vn_status_t by_rgba(TIFF *t, const head_t *h, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_image_new(m, h->height, h->width, 3, 8, err));
    const size_t n = (size_t)h->height * h->width;
    uint32_t *packed = vn_alloc(n, sizeof *packed);
    if (!packed) return vn_fail(err, VN_ERR_NOMEM, "no memory to decode with");
    vn_status_t s = VN_OK;
    if (!api.rgba(t, h->width, h->height, packed, ORIENTATION_TOPLEFT, 1)) s = vn_fail(err, VN_ERR_PARSE, "the pixels are broken");
    uint8_t *out = m->samples;
    for (size_t i = 0; i < n && s == VN_OK; ++i) {
        out[3 * i] = TIFFGetR(packed[i]);
        out[3 * i + 1] = TIFFGetG(packed[i]);
        out[3 * i + 2] = TIFFGetB(packed[i]);
    }
    vn_free(packed);
    return s;
}

static vn_status_t by_lines(TIFF *t, const head_t *h, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_image_new(m, h->height, h->width, h->samples, h->bits, err));
    const size_t stride = (size_t)h->width * h->samples * h->bits / 8;
    if (api.line_size(t) != stride) return vn_fail(err, VN_ERR_PARSE, "lines of another length than width and depth say");
    for (uint32_t y = 0; y < h->height; ++y)
        if (api.line(t, (uint8_t *)m->samples + y * stride, y, 0) < 0) return vn_fail(err, VN_ERR_PARSE, "line %u is broken", (unsigned)y);
    return VN_OK;
}

vn_status_t vn_image_tiff(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_late_open(&library, err));
    pthread_once(&quiet_once, be_quiet);
    stream_t stream = {.data = data, .size = size};
    TIFF *t = api.open("picture", "rm", &stream, read_some, write_none, seek, close_none, size_of, map_none, unmap_none);
    if (!t) return vn_fail(err, VN_ERR_PARSE, "the head is broken");
    head_t h;
    vn_status_t s = read_head(t, &h, err);
    const bool plain = h.photometric == PHOTOMETRIC_MINISBLACK || h.photometric == PHOTOMETRIC_RGB;
    const int colours = h.photometric == PHOTOMETRIC_RGB ? 3 : 1;
    const bool fits = h.samples == colours + h.extras && h.extras <= 1;
    if (s == VN_OK && h.bits <= 8 && h.extras == 0 && fits &&
        (plain || h.photometric == PHOTOMETRIC_MINISWHITE || h.photometric == PHOTOMETRIC_PALETTE))
        s = by_rgba(t, &h, m, err);
    else if (s == VN_OK && plain && fits && (h.bits == 8 || h.bits == 16) && (h.planar == PLANARCONFIG_CONTIG || h.samples == 1) &&
             !api.tiled(t))
        s = by_lines(t, &h, m, err);
    else if (s == VN_OK)
        s = vn_fail(err, VN_ERR_UNSUPPORTED, "%u samples of %u bits in colour model %u%s", h.samples, h.bits, h.photometric,
                    api.tiled(t) ? ", in tiles" : "");
    api.close(t);
    if (s != VN_OK) vn_image_free(m);
    return s;
}

#else

vn_status_t vn_image_tiff(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    (void)data, (void)size, (void)m;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "built without libtiff: install Debian package libtiff-dev and build again");
}

#endif
