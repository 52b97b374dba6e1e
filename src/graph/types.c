/* types.c -- value types as text. */
#include "internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct writer {
    char *out;
    size_t size, used;
} writer_t;

static void put(writer_t *w, const char *fmt, ...) VN_PRINTF(2, 3);
static void put(writer_t *w, const char *fmt, ...) {
    if (w->used + 1 >= w->size) return;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(w->out + w->used, w->size - w->used, fmt, args);
    va_end(args);
    size_t room = w->size - w->used - 1;
    w->used += n < 0 ? 0 : ((size_t)n < room ? (size_t)n : room);
}

static void describe(writer_t *w, const vn_type_t *t, int depth) {
    static const char *const open[] = {
        [VN_TYPE_NONE] = "?",
        [VN_TYPE_TENSOR] = "",
        [VN_TYPE_SPARSE] = "sparse ",
        [VN_TYPE_SEQUENCE] = "sequence(",
        [VN_TYPE_OPTIONAL] = "optional(",
        [VN_TYPE_MAP] = "map(",
    };
    put(w, "%s", open[t->kind]);
    switch (t->kind) {
    case VN_TYPE_NONE: return;
    case VN_TYPE_TENSOR:
    case VN_TYPE_SPARSE:
        put(w, "%s", vn_dtype_name(t->dtype));
        if (t->rank < 0) {
            put(w, "[...]");
            return;
        }
        put(w, "[");
        for (int k = 0; k < t->rank; ++k) {
            if (t->dims[k].value >= 0) put(w, "%s%" PRId64, k ? "," : "", t->dims[k].value);
            else put(w, "%s%s", k ? "," : "", t->dims[k].param ? t->dims[k].param : "?");
        }
        put(w, "]");
        return;
    case VN_TYPE_MAP: put(w, "%s, ", vn_dtype_name(t->dtype)); break;
    case VN_TYPE_SEQUENCE:
    case VN_TYPE_OPTIONAL: break;
    }
    if (t->elem && depth < VN_MAX_NESTING) describe(w, t->elem, depth + 1);
    else put(w, "?");
    put(w, ")");
}

void vn_type_describe(const vn_type_t *t, char *out, size_t size) {
    if (size == 0) return;
    out[0] = '\0';
    describe(&(writer_t){.out = out, .size = size}, t, 0);
}
