/* text.c -- growing text. */
#include "vernier/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(vn_text_t *t, size_t more) {
    size_t need;
    if (t->failed) return false;
    if (!vn_size_add(t->length, more, &need) || !vn_size_add(need, 1, &need)) return !(t->failed = true);
    if (need <= t->capacity) return true;
    size_t cap = t->capacity ? t->capacity : 256;
    while (cap < need)
        if (!vn_size_mul(cap, 2, &cap)) return !(t->failed = true);
    char *data = vn_realloc(t->data, cap, 1);
    if (!data) return !(t->failed = true);
    t->data = data;
    t->capacity = cap;
    return true;
}

void vn_text_addn(vn_text_t *t, const char *s, size_t n) {
    if (!reserve(t, n)) return;
    if (n) memcpy(t->data + t->length, s, n);
    t->length += n;
    t->data[t->length] = '\0';
}

void vn_text_add(vn_text_t *t, const char *s) { vn_text_addn(t, s, strlen(s)); }

void vn_text_printf(vn_text_t *t, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->data + t->length, (size_t)n + 1, fmt, again);
        t->length += (size_t)n;
    }
    va_end(again);
}

void vn_text_free(vn_text_t *t) {
    vn_free(t->data);
    *t = (vn_text_t){0};
}
