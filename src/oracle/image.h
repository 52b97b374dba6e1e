/* image.h -- a decoded picture as ImageDecoder's row sees it, and the decoders, one a format. */
#ifndef VN_ORACLE_IMAGE_H
#define VN_ORACLE_IMAGE_H

#include "oracle/registry.h"

/** Pictures of more samples than this are refused: a hostile header must not become an allocation. */
#define VN_IMAGE_MAX_SAMPLES ((int64_t)1 << 28)

/**
 * Samples row by row, channels last: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
 * room       how far another decoder that keeps the format's standard may be, per colour channel, in steps of the 8-bit result.
 * spread     the same per sample (height x width x 3) on top of it; NULL: nothing.
 * luma       the format's own grey picture of a coloured one (height x width); NULL: it has none.
 * open       the format's standard fixes no values; the note says why. NULL: it does.
 */
typedef struct vn_image {
    int64_t height, width;
    int channels;
    int bits; /* 8 or 16 */
    void *samples;
    double room[3];
    uint8_t *spread;
    uint8_t *luma;
    const char *open;
} vn_image_t;

void vn_image_free(vn_image_t *m);
/** Checks the size and allocates samples (zeroed). Errors: RANGE, NOMEM. */
vn_status_t vn_image_new(vn_image_t *m, int64_t height, int64_t width, int channels, int bits, vn_error_t *err);

/**
 * A decoder. Errors: PARSE: the stream is broken, which gives an empty matrix; UNSUPPORTED: it is not, or nobody can say; RANGE, NOMEM.
 * After an error *m holds nothing.
 */
typedef vn_status_t (*vn_image_fn)(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_bmp(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_pnm(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_png(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_jpeg(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_jpeg2000(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_tiff(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);
vn_status_t vn_image_webp(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err);

#endif
