/* hash.c -- SHA-256 through OpenSSL. */
#include "vernier/base.h"

#include <openssl/evp.h>

struct vn_sha256 {
    EVP_MD_CTX *ctx;
};

vn_sha256_t *vn_sha256_new(void) {
    vn_sha256_t *h = vn_alloc(1, sizeof *h);
    if (!h) return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(h->ctx);
        vn_free(h);
        return NULL;
    }
    return h;
}

void vn_sha256_add(vn_sha256_t *h, const void *data, size_t n) {
    if (n) EVP_DigestUpdate(h->ctx, data, n);
}

void vn_sha256_finish(vn_sha256_t *h, char hex[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    static const char digits[] = "0123456789abcdef";
    EVP_DigestFinal_ex(h->ctx, digest, &n);
    for (unsigned i = 0; i < 32; ++i) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
    EVP_MD_CTX_free(h->ctx);
    vn_free(h);
}

void vn_sha256_hex(const void *data, size_t n, char hex[65]) {
    vn_sha256_t *h = vn_sha256_new();
    hex[0] = '\0';
    if (!h) return;
    vn_sha256_add(h, data, n);
    vn_sha256_finish(h, hex);
}
