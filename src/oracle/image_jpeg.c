/* image_jpeg.c -- JPEG by libjpeg, with the accurate transform and the chroma interpolation that the operator's text describes.
 *
 * Claim IMAGE-3: a decoder whose inverse transform meets IEEE 1180 / ISO 23002-1 (peak error 1 of the rounded exact one) is within 2 of
 *   another in every sample of Y, Cb, Cr. Interpolation by the weights of the text adds nothing along one axis (the same monotone
 *   rounding on both sides), and 1 along two, where a second rounding may stand between the passes: c = 2 or 3. Two roundings to 8 bits differ by
 *   at most 1 more than what they round: R within floor(2 + 1.402 c + 1), G floor(2 + (0.344136 + 0.714136) c + 1), B floor(2 + 1.772 c + 1).
 *   Chroma reduced by factors other than 2 has no interpolation in the text: values are open.
 * Reading luma-as-it-is: Grayscale is the plane Y.
 */
#include "oracle/image.h"

#ifdef VN_HAS_JPEG

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "oracle/late.h"

static struct {
    __typeof__(&jpeg_std_error) std_error;
    __typeof__(&jpeg_CreateDecompress) create;
    __typeof__(&jpeg_destroy_decompress) destroy;
    __typeof__(&jpeg_mem_src) source;
    __typeof__(&jpeg_read_header) head;
    __typeof__(&jpeg_start_decompress) start;
    __typeof__(&jpeg_read_scanlines) lines;
    __typeof__(&jpeg_finish_decompress) finish;
} api;

static const vn_late_symbol_t symbols[] = {
    VN_LATE_SYMBOL(api, std_error, jpeg_std_error),        VN_LATE_SYMBOL(api, create, jpeg_CreateDecompress),
    VN_LATE_SYMBOL(api, destroy, jpeg_destroy_decompress), VN_LATE_SYMBOL(api, source, jpeg_mem_src),
    VN_LATE_SYMBOL(api, head, jpeg_read_header),           VN_LATE_SYMBOL(api, start, jpeg_start_decompress),
    VN_LATE_SYMBOL(api, lines, jpeg_read_scanlines),       VN_LATE_SYMBOL(api, finish, jpeg_finish_decompress),
};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof api / sizeof(void *), "every function is looked up");

/* The number behind ".so." follows the layout of the structures, which the header states. */
static vn_late_t library = {.what = "libjpeg",
                            .package = "libjpeg62-turbo",
#if JPEG_LIB_VERSION == 62
                            .files = {"libjpeg.so.62"},
#elif JPEG_LIB_VERSION == 70
                            .files = {"libjpeg.so.7"},
#else
                            .files = {"libjpeg.so.8"},
#endif
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};

/* The picture is built here, so that a jump out of libjpeg leaves nothing in registers. */
typedef struct job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf out;
    const uint8_t *data;
    size_t size;
    vn_image_t *m;
    vn_error_t *err;
    vn_status_t status;
    char warning[JMSG_LENGTH_MAX];
} job_t;

static void on_error(j_common_ptr p) {
    job_t *j = p->client_data;
    char text[JMSG_LENGTH_MAX];
    const int code = p->err->msg_code;
    const bool unknown =
        code == JERR_SOF_UNSUPPORTED || code == JERR_BAD_PRECISION || code == JERR_CONVERSION_NOTIMPL || code == JERR_ARITH_NOTIMPL;
    p->err->format_message(p, text);
    if (j->status == VN_OK) j->status = vn_fail(j->err, unknown ? VN_ERR_UNSUPPORTED : VN_ERR_PARSE, "%s", text);
    longjmp(j->out, 1);
}

static void on_message(j_common_ptr p, int level) {
    job_t *j = p->client_data;
    if (level < 0 && !*j->warning) p->err->format_message(p, j->warning);
}

static void on_output(j_common_ptr p) { (void)p; }

static void stop(job_t *j) {
    if (j->status != VN_OK) longjmp(j->out, 1);
}

static void read_rows(job_t *j, uint8_t *out, int channels) {
    api.start(&j->jpeg);
    if (j->jpeg.output_components != channels)
        j->status = vn_fail(j->err, VN_ERR_UNSUPPORTED, "%d samples a pixel", j->jpeg.output_components);
    stop(j);
    while (j->jpeg.output_scanline < j->jpeg.output_height) {
        JSAMPROW row = out + (size_t)j->jpeg.output_scanline * j->jpeg.output_width * (size_t)channels;
        api.lines(&j->jpeg, &row, 1);
    }
    api.finish(&j->jpeg);
}

static void read_head(job_t *j) {
    api.source(&j->jpeg, j->data, (unsigned long)j->size);
    api.head(&j->jpeg, TRUE);
    j->jpeg.dct_method = JDCT_ISLOW;
    j->jpeg.do_fancy_upsampling = TRUE;
}

/* How far other decoders may be; see the claim. */
static void rooms(job_t *j) {
    const struct jpeg_decompress_struct *d = &j->jpeg;
    vn_image_t *m = j->m;
    double chroma = 0;
    int axes = 0;
    for (int c = 0; c < d->num_components; ++c) {
        const int h = d->comp_info[c].h_samp_factor, v = d->comp_info[c].v_samp_factor;
        const bool known = d->max_h_samp_factor % h == 0 && d->max_v_samp_factor % v == 0 && d->max_h_samp_factor / h <= 2 &&
                           d->max_v_samp_factor / v <= 2;
        const int reduced = (d->max_h_samp_factor != h) + (d->max_v_samp_factor != v);
        if (!known || (c == 0 && reduced)) m->open = "chroma reduced by a factor other than 2";
        if (reduced > axes) axes = reduced;
    }
    const double sample = 2; /* claim IMAGE-3 */
    if (d->jpeg_color_space == JCS_YCbCr) {
        chroma = axes == 2 ? sample + 1 : sample;
        m->room[0] = floor(sample + 1.402 * chroma + 1);
        m->room[1] = floor(sample + (0.344136 + 0.714136) * chroma + 1);
        m->room[2] = floor(sample + 1.772 * chroma + 1);
    } else {
        for (int c = 0; c < 3; ++c) m->room[c] = sample;
    }
}

static void read_picture(job_t *j) {
    api.create(&j->jpeg, JPEG_LIB_VERSION, sizeof j->jpeg);
    read_head(j);
    const J_COLOR_SPACE space = j->jpeg.jpeg_color_space;
    if (space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB)
        j->status = vn_fail(j->err, VN_ERR_UNSUPPORTED, "colours other than grey, YCbCr and RGB");
    stop(j);
    const int channels = space == JCS_GRAYSCALE ? 1 : 3;
    j->status = vn_image_new(j->m, j->jpeg.image_height, j->jpeg.image_width, channels, 8, j->err);
    stop(j);
    j->jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    rooms(j);
    read_rows(j, j->m->samples, channels);
    if (space == JCS_YCbCr) {
        j->m->luma = vn_alloc((size_t)(j->m->height * j->m->width), 1);
        if (!j->m->luma) j->status = vn_fail(j->err, VN_ERR_NOMEM, "no memory for the plane Y");
        stop(j);
        read_head(j);
        j->jpeg.out_color_space = JCS_GRAYSCALE;
        read_rows(j, j->m->luma, 1);
    }
    if (*j->warning)
        j->status = vn_fail(j->err, VN_ERR_UNSUPPORTED, "the stream is damaged but not lost, and the standard does not say what is due: %s",
                            j->warning);
}

vn_status_t vn_image_jpeg(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_late_open(&library, err));
    job_t *j = vn_alloc(1, sizeof *j);
    if (!j) return vn_fail(err, VN_ERR_NOMEM, "no memory to decode with");
    j->data = data;
    j->size = size;
    j->m = m;
    j->err = err;
    j->jpeg.err = api.std_error(&j->errors);
    j->jpeg.client_data = j;
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    if (!setjmp(j->out)) read_picture(j);
    api.destroy(&j->jpeg);
    const vn_status_t s = j->status;
    vn_free(j);
    if (s != VN_OK) vn_image_free(m);
    return s;
}

#else

vn_status_t vn_image_jpeg(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    (void)data, (void)size, (void)m;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "built without libjpeg: install Debian package libjpeg62-turbo-dev and build again");
}

#endif
