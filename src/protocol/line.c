/* line.c -- lines read from and written to a descriptor, with a limit on their length. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "protocol/codec.h"

char *vn_lines_take(vn_lines_t *l, size_t *length) {
    char *end = l->scanned < l->end ? memchr(l->data + l->scanned, '\n', l->end - l->scanned) : NULL;
    if (!end) {
        l->scanned = l->end;
        return NULL;
    }
    char *line = l->data + l->start;
    *end = '\0';
    *length = (size_t)(end - line);
    l->start = l->scanned = (size_t)(end - l->data) + 1;
    return line;
}

long vn_lines_fill(vn_lines_t *l, int fd) {
    if (l->start > 0) { /* what is left moves to the front: usually nothing */
        memmove(l->data, l->data + l->start, l->end - l->start);
        l->end -= l->start;
        l->scanned -= l->start;
        l->start = 0;
    }
    if (l->end > VN_MAX_LINE) {
        l->too_long = true;
        return -1;
    }
    if (l->capacity - l->end < VN_READ_CHUNK) {
        size_t room = l->capacity ? 2 * l->capacity : 2 * VN_READ_CHUNK;
        char *data = vn_realloc(l->data, room, 1);
        if (!data) {
            l->failed = true;
            errno = ENOMEM;
            return -1;
        }
        l->data = data;
        l->capacity = room;
    }
    ssize_t n = read(fd, l->data + l->end, l->capacity - l->end);
    if (n > 0) l->end += (size_t)n;
    return (long)n;
}

void vn_lines_free(vn_lines_t *l) {
    vn_free(l->data);
    *l = (vn_lines_t){0};
}

bool vn_write_all(int fd, const void *data, size_t n) {
    for (const char *p = data; n;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}
