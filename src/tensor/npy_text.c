/* npy_text.c -- fixed-width texts of .npy: UTF-32 to UTF-8 and back. */
#include "tensor/npy_text.h"

#include <inttypes.h>
#include <string.h>

#include "tensor/walk.h"

/* Writes code point c; 0 if it is none. */
static int to_utf8(uint32_t c, char out[4]) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int k = n - 1; k > 0; --k) {
        out[k] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Reads one code point at p < end; 0 bytes if the text is no UTF-8 (over-long forms and surrogates included). */
static int from_utf8(const unsigned char *p, const unsigned char *end, uint32_t *c) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
    if (n == 0 || end - p < n) return 0;
    *c = n == 1 ? *p : *p & (0xffu >> (n + 1));
    for (int k = 1; k < n; ++k) {
        if ((p[k] & 0xc0) != 0x80) return 0;
        *c = *c << 6 | (p[k] & 0x3f);
    }
    return *c < least[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : n;
}

static uint32_t load32(const unsigned char *p, bool big) {
    return big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
               : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static vn_status_t read_unicode(vn_tensor_t *t, int64_t i, const unsigned char *p, int64_t width, bool big, const char *label,
                                vn_text_t *text, vn_error_t *err) {
    while (width > 0 && load32(p + 4 * (width - 1), big) == 0) --width;
    text->length = 0;
    for (int64_t k = 0; k < width; ++k) {
        char c[4];
        const int n = to_utf8(load32(p + 4 * k, big), c);
        if (n == 0) return vn_fail(err, VN_ERR_PARSE, "%s: text %" PRId64 " holds something that is no character", label, i);
        vn_text_addn(text, c, (size_t)n);
    }
    if (text->failed) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
    return vn_tensor_set_string(t, i, text->data, text->length, err);
}

vn_status_t vn_npy_texts(int rank, const int64_t *dims, bool unicode, int64_t width, bool big, const unsigned char *data, const char *label,
                         vn_tensor_t **out, vn_error_t *err) {
    vn_text_t text = {0};
    VN_TRY(vn_tensor_new(VN_STRING, rank, dims, out, err));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < (*out)->count && s == VN_OK; ++i) {
        if (unicode) {
            s = read_unicode(*out, i, data + 4 * width * i, width, big, label, &text, err);
            continue;
        }
        const char *p = (const char *)data + width * i;
        int64_t n = width;
        while (n > 0 && p[n - 1] == '\0') --n;
        s = vn_tensor_set_string(*out, i, p, (size_t)n, err);
    }
    vn_text_free(&text);
    if (s != VN_OK) {
        vn_tensor_free(*out);
        *out = NULL;
    }
    return s;
}

/* Characters of a text, -1 if .npy cannot hold it. */
static int64_t characters(const vn_string_t *s) {
    const unsigned char *p = (const unsigned char *)s->text, *end = p + s->length;
    int64_t n = 0;
    uint32_t c = 1;
    for (int step; p < end; p += step, ++n)
        if ((step = from_utf8(p, end, &c)) == 0) return -1;
    return c == 0 ? -1 : n; /* a NUL at the end would be taken for padding */
}

vn_status_t vn_npy_from_texts(const vn_tensor_t *t, const char *label, vn_tensor_t **out, int64_t *width, vn_error_t *err) {
    vn_walk_t walk;
    vn_walk_init(&walk, t);
    const vn_string_t *base = t->data;
    *width = 1;
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t n = characters(base + vn_walk_offset(&walk, i));
        if (n < 0)
            return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: .npy cannot hold text %" PRId64 " (not UTF-8, or it ends in a NUL)", label, i);
        if (n > *width) *width = n;
    }
    VN_TRY(vn_tensor_new(VN_U32, 2, (int64_t[]){t->count, *width}, out, err));
    uint32_t *to = (*out)->data;
    for (int64_t i = 0; i < t->count; ++i) {
        const vn_string_t *s = base + vn_walk_offset(&walk, i);
        const unsigned char *p = (const unsigned char *)s->text, *end = p + s->length;
        for (int64_t k = 0; p < end; ++k) p += from_utf8(p, end, &to[i * *width + k]);
    }
    return VN_OK;
}
