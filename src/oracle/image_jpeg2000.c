/* image_jpeg2000.c -- JPEG 2000, file or bare codestream, by OpenJPEG.
 *
 * Claim IMAGE-5: the reversible transform (5-3) in full gives integers exactly. The irreversible one (9-7) leaves to the decoder where in its
 *   interval a quantised coefficient is rebuilt (ISO/IEC 15444-1, equation E-6: 0 <= r < 1), and the steps may be any: values are open.
 */
#include "oracle/image.h"

#ifdef VN_HAS_OPENJPEG

#include <openjpeg.h>
#include <string.h>

#include "oracle/late.h"

static struct {
    __typeof__(&opj_create_decompress) create;
    __typeof__(&opj_destroy_codec) destroy;
    __typeof__(&opj_set_default_decoder_parameters) defaults;
    __typeof__(&opj_setup_decoder) setup;
    __typeof__(&opj_stream_create) stream_new;
    __typeof__(&opj_stream_destroy) stream_free;
    __typeof__(&opj_stream_set_read_function) on_read;
    __typeof__(&opj_stream_set_skip_function) on_skip;
    __typeof__(&opj_stream_set_seek_function) on_seek;
    __typeof__(&opj_stream_set_user_data) set_user;
    __typeof__(&opj_stream_set_user_data_length) set_length;
    __typeof__(&opj_read_header) head;
    __typeof__(&opj_decode) decode;
    __typeof__(&opj_end_decompress) end;
    __typeof__(&opj_image_destroy) image_free;
    __typeof__(&opj_decoder_set_strict_mode) strict;
} api;

static const vn_late_symbol_t symbols[] = {
    VN_LATE_SYMBOL(api, create, opj_create_decompress),
    VN_LATE_SYMBOL(api, destroy, opj_destroy_codec),
    VN_LATE_SYMBOL(api, defaults, opj_set_default_decoder_parameters),
    VN_LATE_SYMBOL(api, setup, opj_setup_decoder),
    VN_LATE_SYMBOL(api, stream_new, opj_stream_create),
    VN_LATE_SYMBOL(api, stream_free, opj_stream_destroy),
    VN_LATE_SYMBOL(api, on_read, opj_stream_set_read_function),
    VN_LATE_SYMBOL(api, on_skip, opj_stream_set_skip_function),
    VN_LATE_SYMBOL(api, on_seek, opj_stream_set_seek_function),
    VN_LATE_SYMBOL(api, set_user, opj_stream_set_user_data),
    VN_LATE_SYMBOL(api, set_length, opj_stream_set_user_data_length),
    VN_LATE_SYMBOL(api, head, opj_read_header),
    VN_LATE_SYMBOL(api, decode, opj_decode),
    VN_LATE_SYMBOL(api, end, opj_end_decompress),
    VN_LATE_SYMBOL(api, image_free, opj_image_destroy),
    VN_LATE_SYMBOL(api, strict, opj_decoder_set_strict_mode),
};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof api / sizeof(void *), "every function is looked up");

static vn_late_t library = {.what = "OpenJPEG",
                            .package = "libopenjp2-7",
                            .files = {"libopenjp2.so.7", "libopenjp2.so"},
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct source {
    const uint8_t *data;
    size_t size, at;
} source_t;

static OPJ_SIZE_T read_some(void *out, OPJ_SIZE_T n, void *user) {
    source_t *s = user;
    const size_t left = s->size - s->at;
    if (!left) return (OPJ_SIZE_T)-1;
    if (n > left) n = left;
    memcpy(out, s->data + s->at, n);
    s->at += n;
    return n;
}

static OPJ_OFF_T skip_some(OPJ_OFF_T n, void *user) {
    source_t *s = user;
    const size_t left = s->size - s->at;
    if (n < 0) return -1;
    if ((size_t)n > left) {
        s->at = s->size;
        return left ? (OPJ_OFF_T)left : -1;
    }
    s->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek_to(OPJ_OFF_T to, void *user) {
    source_t *s = user;
    if (to < 0 || (size_t)to > s->size) return OPJ_FALSE;
    s->at = (size_t)to;
    return OPJ_TRUE;
}

/* Does any header of the codestream, the main one or a tile's, name the irreversible transform? */
static bool is_irreversible(const uint8_t *data, size_t size) {
    enum { SOC_SIZ = 0xFF4FFF51, SOT = 0xFF90, SOD = 0xFF93, COD = 0xFF52, COC = 0xFF53 };
    size_t at = 0, tile = 0, tile_size = 0;
    while (at + 4 <= size &&
           ((uint32_t)data[at] << 24 | (uint32_t)data[at + 1] << 16 | (uint32_t)data[at + 2] << 8 | data[at + 3]) != SOC_SIZ)
        ++at;
    for (at += 2; at + 4 <= size;) {
        const unsigned marker = (unsigned)data[at] << 8 | data[at + 1], length = (unsigned)data[at + 2] << 8 | data[at + 3];
        if (marker == SOD) { /* the tile's data: on to the next */
            if (tile_size < 14 || tile_size > size - tile) return false;
            at = tile + tile_size;
            continue;
        }
        if (length < 2 || length > size - at - 2) return false;
        if (marker == SOT && length == 10) {
            tile = at;
            tile_size = (size_t)data[at + 6] << 24 | (size_t)data[at + 7] << 16 | (size_t)data[at + 8] << 8 | data[at + 9];
        }
        if (marker == COD && length >= 12 && data[at + 13] == 0) return true;
        if (marker == COC && length >= 9 && data[at + 10] == 0) return true;
        at += 2 + length;
    }
    return false;
}

static vn_status_t take(const opj_image_t *p, vn_image_t *m, vn_error_t *err) {
    const opj_image_comp_t *c = p->comps;
    if (p->numcomps < 1 || p->numcomps > 4 || (c[0].prec != 8 && c[0].prec != 16))
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%u components of %u bits", (unsigned)p->numcomps, p->numcomps ? (unsigned)c[0].prec : 0);
    for (OPJ_UINT32 k = 0; k < p->numcomps; ++k)
        if (c[k].w != c[0].w || c[k].h != c[0].h || c[k].dx != 1 || c[k].dy != 1 || c[k].prec != c[0].prec || c[k].sgnd || !c[k].data)
            return vn_fail(err, VN_ERR_UNSUPPORTED, "components that differ in size or depth");
    if (p->color_space == OPJ_CLRSPC_SYCC || p->color_space == OPJ_CLRSPC_EYCC || p->color_space == OPJ_CLRSPC_CMYK)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "colours other than grey and RGB");
    VN_TRY(vn_image_new(m, c[0].h, c[0].w, (int)p->numcomps, (int)c[0].prec, err));
    const int64_t n = m->height * m->width;
    for (int64_t i = 0; i < n; ++i)
        for (int k = 0; k < m->channels; ++k) {
            if (m->bits == 8) ((uint8_t *)m->samples)[i * m->channels + k] = (uint8_t)c[k].data[i];
            else ((uint16_t *)m->samples)[i * m->channels + k] = (uint16_t)c[k].data[i];
        }
    return VN_OK;
}

vn_status_t vn_image_jpeg2000(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_late_open(&library, err));
    source_t source = {.data = data, .size = size};
    opj_dparameters_t parameters;
    opj_image_t *picture = NULL;
    api.defaults(&parameters);
    opj_codec_t *codec = api.create(data[0] == 0xFF ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = api.stream_new(1 << 16, OPJ_TRUE);
    vn_status_t s = codec && stream && api.setup(codec, &parameters) && api.strict(codec, OPJ_TRUE)
                        ? VN_OK
                        : vn_fail(err, VN_ERR_NOMEM, "OpenJPEG cannot start");
    if (s == VN_OK) {
        api.on_read(stream, read_some);
        api.on_skip(stream, skip_some);
        api.on_seek(stream, seek_to);
        api.set_user(stream, &source, NULL);
        api.set_length(stream, size);
        if (!api.head(stream, codec, &picture)) s = vn_fail(err, VN_ERR_PARSE, "the head is broken");
    }
    if (s == VN_OK) { /* before anything of that size is allocated */
        vn_image_t probe = {0};
        const int64_t height = (int64_t)picture->y1 - picture->y0, width = (int64_t)picture->x1 - picture->x0;
        s = vn_image_new(&probe, height, width, 4, 8, err);
        vn_image_free(&probe);
    }
    if (s == VN_OK && !(api.decode(codec, stream, picture) && api.end(codec, stream)))
        s = vn_fail(err, VN_ERR_PARSE, "the stream is broken");
    if (s == VN_OK) s = take(picture, m, err);
    if (s == VN_OK && is_irreversible(data, size)) m->open = "irreversible transform";
    if (picture) api.image_free(picture);
    if (stream) api.stream_free(stream);
    if (codec) api.destroy(codec);
    if (s != VN_OK) vn_image_free(m);
    return s;
}

#else

vn_status_t vn_image_jpeg2000(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    (void)data, (void)size, (void)m;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "built without OpenJPEG: install Debian package libopenjp2-7-dev and build again");
}

#endif
