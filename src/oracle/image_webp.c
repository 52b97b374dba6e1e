/* image_webp.c -- WebP by libwebp.
 *
 * Claim IMAGE-4: lossless pictures are exact. Of lossy ones RFC 6386 fixes the planes Y, U and V bit for bit, not how the halved planes
 *   U and V are brought to full size. Whatever weights a decoder takes, its U and V lie between the least and the greatest of the 3 x 3
 *   samples around; the colours of BT.601 (RFC 6386, 9.2) are monotone in each of Y, U, V, so their values at the ends, rounded outward with
 *   one step for each decoder's own rounding, enclose every result.
 */
#include "oracle/image.h"

#ifdef VN_HAS_WEBP

#include <math.h>
#include <string.h>
#include <webp/decode.h>

#include "oracle/late.h"

static struct {
    __typeof__(&WebPGetFeaturesInternal) features;
    __typeof__(&WebPDecodeRGBInto) rgb;
    __typeof__(&WebPDecodeRGBAInto) rgba;
    __typeof__(&WebPDecodeYUV) yuv;
    __typeof__(&WebPFree) release;
} api;

static const vn_late_symbol_t symbols[] = {VN_LATE_SYMBOL(api, features, WebPGetFeaturesInternal),
                                           VN_LATE_SYMBOL(api, rgb, WebPDecodeRGBInto), VN_LATE_SYMBOL(api, rgba, WebPDecodeRGBAInto),
                                           VN_LATE_SYMBOL(api, yuv, WebPDecodeYUV), VN_LATE_SYMBOL(api, release, WebPFree)};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof api / sizeof(void *), "every function is looked up");

static vn_late_t library = {.what = "libwebp",
                            .package = "libwebp7",
                            .files = {"libwebp.so.7", "libwebp.so.6", "libwebp.so"},
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct planes {
    const uint8_t *y, *u, *v;
    int stride, uv_stride;
    int64_t height, width; /* of U and V */
} planes_t;

/* Least and greatest sample of a halved plane around the pixel (y, x) of the whole picture. */
static void around(const planes_t *p, const uint8_t *plane, int64_t y, int64_t x, int *least, int *most) {
    *least = 255;
    *most = 0;
    for (int64_t i = y / 2 - 1; i <= y / 2 + 1; ++i)
        for (int64_t k = x / 2 - 1; k <= x / 2 + 1; ++k) {
            if (i < 0 || k < 0 || i >= p->height || k >= p->width) continue;
            const int s = plane[i * p->uv_stride + k];
            if (s < *least) *least = s;
            if (s > *most) *most = s;
        }
}

static double clamped(double v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* The larger distance of value from the ends, one step added. */
static uint8_t reach(double lo, double hi, int value) {
    const double far = fmax(value - floor(clamped(lo)), ceil(clamped(hi)) - value);
    return (uint8_t)fmin(255, far + 1);
}

static void spread_of(const planes_t *p, vn_image_t *m) {
    const uint8_t *rgb = m->samples;
    for (int64_t y = 0; y < m->height; ++y)
        for (int64_t x = 0; x < m->width; ++x) {
            int u[2], v[2];
            around(p, p->u, y, x, &u[0], &u[1]);
            around(p, p->v, y, x, &v[0], &v[1]);
            const double grey = 255.0 / 219 * (p->y[y * p->stride + x] - 16), scale = 255.0 / 112; /* BT.601, samples of 16 to 235 */
            const double kr = 0.299, kb = 0.114, kg = 1 - kr - kb;
            const double v_red = scale * (1 - kr), u_blue = scale * (1 - kb), u_green = u_blue * kb / kg, v_green = v_red * kr / kg;
            const uint8_t *at = rgb + (y * m->width + x) * m->channels;
            uint8_t *out = m->spread + 3 * (y * m->width + x);
            out[0] = reach(grey + v_red * (v[0] - 128), grey + v_red * (v[1] - 128), at[0]);
            out[1] = reach(grey - u_green * (u[1] - 128) - v_green * (v[1] - 128), grey - u_green * (u[0] - 128) - v_green * (v[0] - 128),
                           at[1]);
            out[2] = reach(grey + u_blue * (u[0] - 128), grey + u_blue * (u[1] - 128), at[2]);
        }
}

vn_status_t vn_image_webp(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    enum { LOSSLESS = 2 }; /* of WebPBitstreamFeatures.format */
    WebPBitstreamFeatures f;
    VN_TRY(vn_late_open(&library, err));
    if (api.features(data, size, &f, WEBP_DECODER_ABI_VERSION) != VP8_STATUS_OK) return vn_fail(err, VN_ERR_PARSE, "the head is broken");
    if (f.has_animation) return vn_fail(err, VN_ERR_UNSUPPORTED, "an animation is more than one picture");
    const int channels = f.has_alpha ? 4 : 3;
    VN_TRY(vn_image_new(m, f.height, f.width, channels, 8, err));
    const size_t bytes = (size_t)f.height * (size_t)f.width * (size_t)channels;
    const uint8_t *done = (f.has_alpha ? api.rgba : api.rgb)(data, size, m->samples, bytes, f.width * channels);
    vn_status_t s = done ? VN_OK : vn_fail(err, VN_ERR_PARSE, "the stream is broken");
    if (s == VN_OK && f.format != LOSSLESS) {
        int width, height;
        uint8_t *u, *v;
        planes_t p = {.height = (f.height + 1) / 2, .width = (f.width + 1) / 2};
        uint8_t *y = api.yuv(data, size, &width, &height, &u, &v, &p.stride, &p.uv_stride);
        p.y = y;
        p.u = u;
        p.v = v;
        m->spread = y ? vn_alloc((size_t)f.height * (size_t)f.width, 3) : NULL;
        if (m->spread) spread_of(&p, m);
        else s = vn_fail(err, VN_ERR_NOMEM, "no memory for the planes of a lossy picture");
        api.release(y);
    }
    if (s != VN_OK) vn_image_free(m);
    return s;
}

#else

vn_status_t vn_image_webp(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    (void)data, (void)size, (void)m;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "built without libwebp: install Debian package libwebp-dev and build again");
}

#endif
