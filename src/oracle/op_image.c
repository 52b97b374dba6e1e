/* op_image.c -- ImageDecoder: the format by its first bytes, the decoder, then the pixel format that was asked for.
 *
 * Claim IMAGE-1: formats that lose nothing (BMP, PNM, PNG, TIFF, reversible JPEG 2000, lossless WebP) give their samples exactly: BGR is RGB in the
 *   other order, grey becomes three equal channels, alpha is dropped (reading alpha-kept), orientation tags are not applied. 16-bit
 *   samples are rounded to v / 257 (reading low-byte-dropped). A stream that cannot be decoded gives an empty matrix.
 * Claim IMAGE-2: Grayscale is the rounded 0.299 R + 0.587 G + 0.114 B of BT.601. Weights of 14 bits or more move it by at most
 *   3 x 255 x 2^-15 < 0.024: within that of a tie both neighbours are accepted.
 * Claims IMAGE-3 (JPEG), IMAGE-4 (WebP), IMAGE-5 (JPEG 2000, irreversible): what other decoders may do; see their files.
 */
#include <math.h>
#include <string.h>

#include "oracle/image.h"
#include "oracle/rows.h"

void vn_image_free(vn_image_t *m) {
    vn_free(m->samples);
    vn_free(m->spread);
    vn_free(m->luma);
    *m = (vn_image_t){0};
}

vn_status_t vn_image_new(vn_image_t *m, int64_t height, int64_t width, int channels, int bits, vn_error_t *err) {
    int64_t n;
    if (height < 1 || width < 1) return vn_fail(err, VN_ERR_PARSE, "a picture of %lld x %lld", (long long)height, (long long)width);
    if (!vn_i64_mul(height, width, &n) || !vn_i64_mul(n, channels, &n) || n > VN_IMAGE_MAX_SAMPLES)
        return vn_fail(err, VN_ERR_RANGE, "a picture of %lld x %lld is larger than any that is decoded here", (long long)height,
                       (long long)width);
    m->height = height;
    m->width = width;
    m->channels = channels;
    m->bits = bits;
    m->samples = vn_alloc((size_t)n, (size_t)bits / 8);
    return m->samples ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a picture of %lld x %lld", (long long)height, (long long)width);
}

/* ---- formats ---- */

typedef struct format {
    const char *name;
    const char *first; /* bytes that the stream begins with; '.' is any */
    size_t length;
    vn_image_fn decode; /* NULL: known, and not done here */
} format_t;

static const format_t formats[] = {
    {"BMP", "BM", 2, vn_image_bmp},
    {"JPEG", "\xFF\xD8\xFF", 3, vn_image_jpeg},
    {"PNG", "\x89PNG\r\n\x1A\n", 8, vn_image_png},
    {"WebP", "RIFF....WEBP", 12, vn_image_webp},
    {"TIFF", "II*\0", 4, vn_image_tiff},
    {"TIFF", "MM\0*", 4, vn_image_tiff},
    {"BigTIFF", "II+\0", 4, vn_image_tiff},
    {"BigTIFF", "MM\0+", 4, vn_image_tiff},
    {"JPEG 2000", "\0\0\0\x0CjP  \r\n\x87\n", 12, vn_image_jpeg2000},
    {"JPEG 2000 codestream", "\xFF\x4F\xFF\x51", 4, vn_image_jpeg2000},
    {"PBM", "P1", 2, vn_image_pnm},
    {"PGM", "P2", 2, vn_image_pnm},
    {"PPM", "P3", 2, vn_image_pnm},
    {"PBM", "P4", 2, vn_image_pnm},
    {"PGM", "P5", 2, vn_image_pnm},
    {"PPM", "P6", 2, vn_image_pnm},
    {"PAM", "P7", 2, NULL},
};

static const format_t *format_of(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
        const format_t *f = &formats[i];
        size_t k = 0;
        while (k < f->length && k < size && (f->first[k] == '.' || (uint8_t)f->first[k] == data[k])) ++k;
        if (k == f->length) return f;
    }
    return NULL;
}

/* ---- from samples to pixels ---- */

enum { RGB, BGR, GREY };

typedef struct render {
    const vn_image_t *m;
    int pixel_format;
    bool low_byte_dropped, keep_alpha;
} render_t;

static int channels_out(const render_t *r) { return r->pixel_format == GREY ? 1 : r->keep_alpha ? 4 : 3; }

static int sample(const render_t *r, int64_t i) {
    if (r->m->bits == 8) return ((const uint8_t *)r->m->samples)[i];
    const unsigned v = ((const uint16_t *)r->m->samples)[i];
    return (int)(r->low_byte_dropped ? v >> 8 : (v + 128) / 257);
}

/* Thousandths of the luminance of pixel i. */
static int luminance(const int rgb[3]) { return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2]; }

static void colours(const render_t *r, int64_t i, int rgb[3]) {
    const int n = r->m->channels;
    for (int c = 0; c < 3; ++c) rgb[c] = sample(r, i * n + (n >= 3 ? c : 0));
}

/* out: the pixels; other (may be NULL): the second value in a tie window. */
static void render(const render_t *r, uint8_t *out, uint8_t *other) {
    const int64_t n = r->m->height * r->m->width;
    const int channels = channels_out(r);
    for (int64_t i = 0; i < n; ++i) {
        int rgb[3];
        colours(r, i, rgb);
        if (r->pixel_format == GREY) {
            const int s = luminance(rgb), up = (s + 500) / 1000, from_tie = s % 1000 - 500;
            const bool grey = rgb[0] == rgb[1] && rgb[1] == rgb[2];
            out[i] = (uint8_t)up;
            if (other) other[i] = (uint8_t)(grey || from_tie >= 24 || from_tie < -24 ? up : from_tie >= 0 ? up - 1 : up + 1);
            continue;
        }
        for (int c = 0; c < 3; ++c) out[i * channels + c] = (uint8_t)rgb[r->pixel_format == BGR ? 2 - c : c];
        if (r->keep_alpha) out[i * channels + 3] = (uint8_t)sample(r, i * r->m->channels + r->m->channels - 1);
    }
}

/* The largest distance of another decoder's pixel, by element of the output. */
static void rooms(const render_t *r, double *bound) {
    static const double weight[3] = {0.299, 0.587, 0.114};
    const vn_image_t *m = r->m;
    const int64_t n = m->height * m->width;
    for (int64_t i = 0; i < n; ++i) {
        double room[3], grey = 0;
        for (int c = 0; c < 3; ++c) {
            room[c] = m->room[c] + (m->spread ? m->spread[3 * i + c] : 0);
            grey += weight[c] * room[c];
        }
        if (r->pixel_format == GREY) bound[i] = grey > 0 ? floor(grey + 1) : 0; /* two roundings of half a step */
        else
            for (int c = 0; c < 3; ++c) bound[3 * i + c] = room[r->pixel_format == BGR ? 2 - c : c];
    }
}

/* The same picture otherwise rendered, as a reading unless it is the same. */
static vn_status_t reading(vn_eval_t *e, const render_t *r, const char *name) {
    const int64_t dims[3] = {r->m->height, r->m->width, channels_out(r)};
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_U8, 3, dims, &t, e->err));
    render(r, t->data, NULL);
    if (!vn_tensor_equal_bits(t, e->out[0].tensor)) return vn_out_reading(e, 0, name, t);
    vn_tensor_free(t);
    return VN_OK;
}

static vn_status_t readings(vn_eval_t *e, const render_t *r) {
    if (r->m->bits == 16) {
        render_t low = *r;
        low.low_byte_dropped = true;
        VN_TRY(reading(e, &low, "low-byte-dropped"));
    }
    if (r->pixel_format != GREY && (r->m->channels == 2 || r->m->channels == 4)) {
        render_t alpha = *r;
        alpha.keep_alpha = true;
        VN_TRY(reading(e, &alpha, "alpha-kept"));
    }
    if (r->pixel_format == GREY && r->m->luma) {
        const render_t luma = {
            .m = &(vn_image_t){.height = r->m->height, .width = r->m->width, .channels = 1, .bits = 8, .samples = r->m->luma},
            .pixel_format = GREY};
        VN_TRY(reading(e, &luma, "luma-as-it-is"));
    }
    return VN_OK;
}

static vn_status_t give(vn_eval_t *e, const vn_image_t *m, int pixel_format) {
    const render_t r = {.m = m, .pixel_format = pixel_format};
    const int64_t dims[3] = {m->height, m->width, channels_out(&r)};
    VN_TRY(vn_out_exact(e, 0, VN_U8, 3, dims));
    if (pixel_format == GREY) VN_TRY(vn_out_either(e, 0));
    vn_ref_t *o = &e->out[0];
    render(&r, o->tensor->data, o->either ? o->either->data : NULL);
    VN_TRY(readings(e, &r));
    const bool loose = m->spread || m->room[0] > 0 || m->room[1] > 0 || m->room[2] > 0;
    if (loose && e->want >= VN_WANT_BOUND) {
        o->bound = vn_alloc((size_t)o->count, sizeof *o->bound);
        if (!o->bound) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for the bound of %lld pixels", (long long)o->count);
        rooms(&r, o->bound);
    }
    if (m->open) {
        VN_TRY(vn_out_flags(e, 0));
        memset(o->flags, VN_EL_VOID, (size_t)o->count);
    }
    return VN_OK;
}

/* "An empty matrix": no height and width; how many channels of nothing the text does not say. */
static vn_status_t give_nothing(vn_eval_t *e, int pixel_format) {
    const int64_t dims[3] = {0, 0, 0}, channels[3] = {0, 0, pixel_format == GREY ? 1 : 3};
    vn_tensor_t *t;
    VN_TRY(vn_out_exact(e, 0, VN_U8, 3, dims));
    VN_TRY(vn_tensor_new(VN_U8, 3, channels, &t, e->err));
    return vn_out_reading(e, 0, "empty-with-channels", t);
}

static vn_status_t plan(vn_eval_t *e, int *pixel_format) {
    static const char *const names[] = {[RGB] = "RGB", [BGR] = "BGR", [GREY] = "Grayscale"};
    const char *name = vn_node_string(e->node, "pixel_format", "RGB");
    if (e->n_in < 1 || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or no tensor");
    const vn_tensor_t *x = e->in[0].t;
    if (x->dtype != VN_U8) return vn_eval_fail(e, VN_ERR_DTYPE, "the stream is %s, u8 is due", vn_dtype_name(x->dtype));
    if (x->rank != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "the stream is of rank %d, 1 is due", x->rank);
    for (*pixel_format = 0; *pixel_format < 3; ++*pixel_format)
        if (strcmp(names[*pixel_format], name) == 0) return VN_OK;
    return vn_eval_fail(e, VN_ERR_RANGE, "pixel_format is '%s': RGB, BGR or Grayscale", name);
}

static vn_status_t eval_image(vn_eval_t *e) {
    int pixel_format;
    VN_TRY(plan(e, &pixel_format));
    const uint8_t *data = e->in[0].t->data;
    const size_t size = (size_t)e->in[0].t->count;
    const format_t *f = format_of(data, size);
    if (!f) return give_nothing(e, pixel_format);
    if (!f->decode) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "%s pictures are not decoded here", f->name);
    vn_image_t m = {0};
    vn_error_t why = {0};
    vn_status_t s = f->decode(data, size, &m, &why);
    if (s == VN_OK) s = give(e, &m, pixel_format);
    else if (s == VN_ERR_PARSE) s = give_nothing(e, pixel_format);
    else s = vn_eval_fail(e, s, "%s: %s", f->name, why.text);
    vn_image_free(&m);
    return s;
}

static vn_status_t infer_image(vn_eval_t *e) {
    int pixel_format;
    VN_TRY(plan(e, &pixel_format));
    return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "height and width stand in the stream");
}

static const vn_op_t rows[] = {
    {"", "ImageDecoder", 20, 0, VN_CLASS_EXACT, 0, "IMAGE-1", eval_image, infer_image, 0},
};

const vn_family_t vn_family_image = {.name = "image", .rows = rows, .count = sizeof rows / sizeof *rows};
