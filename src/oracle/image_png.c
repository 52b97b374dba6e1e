/* image_png.c -- PNG by libpng: palettes and small depths expanded, nothing else changed (no gamma, no background). */
#include "oracle/image.h"

#ifdef VN_HAS_PNG

#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "oracle/late.h"

static struct {
    __typeof__(&png_create_read_struct) create;
    __typeof__(&png_create_info_struct) create_info;
    __typeof__(&png_destroy_read_struct) destroy;
    __typeof__(&png_set_longjmp_fn) jump;
    __typeof__(&png_set_read_fn) set_read;
    __typeof__(&png_get_error_ptr) error_of;
    __typeof__(&png_get_io_ptr) io_of;
    __typeof__(&png_error) fail;
    __typeof__(&png_longjmp) leave;
    __typeof__(&png_set_user_limits) limit;
    __typeof__(&png_read_info) info;
    __typeof__(&png_get_IHDR) head;
    __typeof__(&png_get_valid) has;
    __typeof__(&png_set_expand) expand;
    __typeof__(&png_set_swap) swap;
    __typeof__(&png_set_interlace_handling) interlace;
    __typeof__(&png_read_update_info) update;
    __typeof__(&png_get_channels) channels;
    __typeof__(&png_get_bit_depth) depth;
    __typeof__(&png_get_rowbytes) row_bytes;
    __typeof__(&png_read_row) row;
    __typeof__(&png_read_end) end;
} api;

static const vn_late_symbol_t symbols[] = {
    VN_LATE_SYMBOL(api, create, png_create_read_struct),
    VN_LATE_SYMBOL(api, create_info, png_create_info_struct),
    VN_LATE_SYMBOL(api, destroy, png_destroy_read_struct),
    VN_LATE_SYMBOL(api, jump, png_set_longjmp_fn),
    VN_LATE_SYMBOL(api, set_read, png_set_read_fn),
    VN_LATE_SYMBOL(api, error_of, png_get_error_ptr),
    VN_LATE_SYMBOL(api, io_of, png_get_io_ptr),
    VN_LATE_SYMBOL(api, fail, png_error),
    VN_LATE_SYMBOL(api, leave, png_longjmp),
    VN_LATE_SYMBOL(api, limit, png_set_user_limits),
    VN_LATE_SYMBOL(api, info, png_read_info),
    VN_LATE_SYMBOL(api, head, png_get_IHDR),
    VN_LATE_SYMBOL(api, has, png_get_valid),
    VN_LATE_SYMBOL(api, expand, png_set_expand),
    VN_LATE_SYMBOL(api, swap, png_set_swap),
    VN_LATE_SYMBOL(api, interlace, png_set_interlace_handling),
    VN_LATE_SYMBOL(api, update, png_read_update_info),
    VN_LATE_SYMBOL(api, channels, png_get_channels),
    VN_LATE_SYMBOL(api, depth, png_get_bit_depth),
    VN_LATE_SYMBOL(api, row_bytes, png_get_rowbytes),
    VN_LATE_SYMBOL(api, row, png_read_row),
    VN_LATE_SYMBOL(api, end, png_read_end),
};
_Static_assert(sizeof symbols / sizeof *symbols == sizeof api / sizeof(void *), "every function is looked up");

static vn_late_t library = {.what = "libpng",
                            .package = "libpng16-16",
                            .files = {"libpng16.so.16", "libpng16.so"},
                            .symbols = symbols,
                            .n_symbols = sizeof symbols / sizeof *symbols,
                            .lock = PTHREAD_MUTEX_INITIALIZER};

/* What the callbacks see. The picture is built here, so that a jump out of libpng leaves nothing in registers. */
typedef struct job {
    const uint8_t *data;
    size_t size, at;
    vn_image_t *m;
    vn_error_t *err;
    vn_status_t status;
    png_structp png;
    png_infop info;
} job_t;

static void on_error(png_structp png, png_const_charp text) {
    job_t *j = api.error_of(png);
    if (j->status == VN_OK) j->status = vn_fail(j->err, VN_ERR_PARSE, "%s", text);
    api.leave(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png; /* of the frame around the picture; wrong pixels are errors */
    (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n) {
    job_t *j = api.io_of(png);
    if (n > j->size - j->at) api.fail(png, "the stream is cut off");
    memcpy(out, j->data + j->at, n);
    j->at += n;
}

static void stop(job_t *j) {
    if (j->status != VN_OK) api.leave(j->png, 1);
}

static void read_picture(job_t *j) {
    png_uint_32 width, height;
    int bits, colour;
    api.set_read(j->png, j, on_read);
    api.limit(j->png, 0x7FFFFFFF, 0x7FFFFFFF); /* the size is checked below */
    api.info(j->png, j->info);
    api.head(j->png, j->info, &width, &height, &bits, &colour, NULL, NULL, NULL);
    if (colour == PNG_COLOR_TYPE_PALETTE || bits < 8 || api.has(j->png, j->info, PNG_INFO_tRNS)) api.expand(j->png);
    if (bits == 16) api.swap(j->png);
    const int passes = api.interlace(j->png);
    api.update(j->png, j->info);
    const int channels = api.channels(j->png, j->info), depth = api.depth(j->png, j->info);
    j->status = vn_image_new(j->m, height, width, channels, depth, j->err);
    stop(j);
    const size_t stride = api.row_bytes(j->png, j->info);
    if (stride != (size_t)width * (size_t)channels * (size_t)depth / 8)
        j->status = vn_fail(j->err, VN_ERR_UNSUPPORTED, "rows of %zu bytes for %u pixels", stride, (unsigned)width);
    stop(j);
    for (int pass = 0; pass < passes; ++pass)
        for (png_uint_32 y = 0; y < height; ++y) api.row(j->png, (png_bytep)j->m->samples + y * stride, NULL);
    api.end(j->png, NULL);
}

vn_status_t vn_image_png(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    VN_TRY(vn_late_open(&library, err));
    job_t *j = vn_alloc(1, sizeof *j);
    if (!j) return vn_fail(err, VN_ERR_NOMEM, "no memory to decode with");
    *j = (job_t){.data = data, .size = size, .m = m, .err = err};
    j->png = api.create(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    if (j->png) j->info = api.create_info(j->png);
    if (!j->info) j->status = vn_fail(err, VN_ERR_NOMEM, "libpng cannot start");
    else if (!setjmp(*api.jump(j->png, longjmp, sizeof(jmp_buf)))) read_picture(j);
    if (j->png) api.destroy(&j->png, &j->info, NULL);
    const vn_status_t s = j->status;
    vn_free(j);
    if (s != VN_OK) vn_image_free(m);
    return s;
}

#else

vn_status_t vn_image_png(const uint8_t *data, size_t size, vn_image_t *m, vn_error_t *err) {
    (void)data, (void)size, (void)m;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "built without libpng: install Debian package libpng-dev and build again");
}

#endif
