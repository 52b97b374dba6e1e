/* image_plain.c -- portable bitmaps (PBM, PGM, PPM, text and raw), read by hand.
 *
 * Samples of a largest value other than 255 are rounded to v 255 / max; truncation and other rescaling is within one step of that (IMAGE-1).
 */
#include <ctype.h>

#include "oracle/image.h"

typedef struct reader {
    const uint8_t *data;
    size_t size, at;
} reader_t;

static void skip_blanks(reader_t *r) {
    while (r->at < r->size) {
        if (r->data[r->at] == '#')
            while (r->at < r->size && r->data[r->at] != '\n' && r->data[r->at] != '\r') ++r->at;
        else if (isspace(r->data[r->at])) ++r->at;
        else return;
    }
}

/* A decimal number of at most nine digits after white space and comments. */
static bool number(reader_t *r, int64_t *v) {
    skip_blanks(r);
    const size_t begin = r->at;
    *v = 0;
    while (r->at < r->size && isdigit(r->data[r->at]) && r->at - begin < 9) *v = *v * 10 + (r->data[r->at++] - '0');
    return r->at > begin && (r->at == r->size || !isdigit(r->data[r->at]));
}

/* A bit of a text bitmap: they may stand without blanks between them. */
static bool bit(reader_t *r, int64_t *v) {
    skip_blanks(r);
    if (r->at >= r->size || (r->data[r->at] != '0' && r->data[r->at] != '1')) return false;
    *v = r->data[r->at++] == '1';
    return true;
}

static uint8_t scaled(int64_t v, int64_t most) { return (uint8_t)((v * 255 + most / 2) / most); }

/* Rows of packed bits, each begun anew; 1 is black. */
static bool raw_bits(reader_t *r, const vn_image_t *m) {
    uint8_t *out = m->samples;
    const int64_t bytes = (m->width + 7) / 8;
    if ((size_t)(bytes * m->height) > r->size - r->at) return false;
    for (int64_t y = 0; y < m->height; ++y)
        for (int64_t x = 0; x < m->width; ++x)
            out[y * m->width + x] = r->data[r->at + (size_t)(y * bytes + x / 8)] >> (7 - x % 8) & 1 ? 0 : 255;
    return true;
}

static bool raw_samples(reader_t *r, const vn_image_t *m, int64_t most) {
    uint8_t *out = m->samples;
    const int64_t n = m->height * m->width * m->channels, bytes = most > 255 ? 2 : 1;
    if ((size_t)(n * bytes) > r->size - r->at) return false;
    const uint8_t *from = r->data + r->at;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t v = bytes == 2 ? from[2 * i] << 8 | from[2 * i + 1] : from[i];
        if (v > most) return false;
        out[i] = scaled(v, most);
    }
    return true;
}

static bool text_samples(reader_t *r, const vn_image_t *m, int64_t most, bool bits) {
    uint8_t *out = m->samples;
    for (int64_t i = 0; i < m->height * m->width * m->channels; ++i) {
        int64_t v;
        if (bits ? !bit(r, &v) : !number(r, &v) || v > most) return false;
        out[i] = bits ? (v ? 0 : 255) : scaled(v, most);
    }
    return true;
}

vn_status_t vn_image_pnm(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    reader_t r = {.data = data, .size = size, .at = 2};
    const int kind = data[1] - '0';
    const bool bits = kind == 1 || kind == 4, raw = kind >= 4;
    int64_t width, height, most = 1;
    if (!number(&r, &width) || !number(&r, &height) || (!bits && (!number(&r, &most) || most < 1 || most > 65535)) ||
        (raw && (r.at >= size || !isspace(data[r.at]))))
        return vn_fail(err, VN_ERR_PARSE, "the head is broken");
    if (raw) ++r.at; /* exactly one blank */
    const int channels = kind == 3 || kind == 6 ? 3 : 1;
    VN_TRY(vn_image_new(m, height, width, channels, 8, err));
    if (!bits && most != 255)
        for (int c = 0; c < 3; ++c) m->room[c] = 1;
    if (raw ? bits ? raw_bits(&r, m) : raw_samples(&r, m, most) : text_samples(&r, m, most, bits)) return VN_OK;
    vn_image_free(m);
    return vn_fail(err, VN_ERR_PARSE, "samples are missing, or larger than the head says");
}
