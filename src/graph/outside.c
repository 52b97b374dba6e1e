/* outside.c -- the data file beside a large model. */
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

vn_status_t vn_outside_add(vn_outside_t *o, const vn_tensor_t *t, uint64_t bytes, uint64_t *offset, vn_error_t *err) {
    if (o->count == o->capacity) {
        size_t room = o->capacity ? o->capacity * 2 : 64;
        vn_outside_item_t *items = vn_realloc(o->items, room, sizeof *items);
        if (!items) return vn_fail(err, VN_ERR_NOMEM, "out of memory while laying out external data");
        o->items = items;
        o->capacity = room;
    }
    *offset = (o->end + VN_OUTSIDE_ALIGN - 1) / VN_OUTSIDE_ALIGN * VN_OUTSIDE_ALIGN;
    o->items[o->count++] = (vn_outside_item_t){.tensor = vn_tensor_retain(t), .offset = *offset, .bytes = bytes};
    o->end = *offset + bytes;
    return VN_OK;
}

static bool write_at(int fd, const char *p, uint64_t n, uint64_t offset) {
    enum { CHUNK = 1 << 30 }; /* one call writes at most 2 GiB */
    while (n) {
        ssize_t k = pwrite(fd, p, n < CHUNK ? (size_t)n : CHUNK, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (uint64_t)k;
        offset += (uint64_t)k;
    }
    return true;
}

vn_status_t vn_outside_write(const vn_outside_t *o, const char *path, vn_error_t *err) {
    char tmp[4096];
    int length = snprintf(tmp, sizeof tmp, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof tmp) return vn_fail(err, VN_ERR_IO, "%.200s...: path too long", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return vn_fail(err, VN_ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    bool good = true;
    for (size_t i = 0; i < o->count && good; ++i) good = write_at(fd, o->items[i].tensor->data, o->items[i].bytes, o->items[i].offset);
    good = good && fsync(fd) == 0;
    int why = errno;
    if (close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(tmp, path) != 0) {
        good = false;
        why = errno;
    }
    if (good) return VN_OK;
    unlink(tmp);
    return vn_fail(err, VN_ERR_IO, "%s: cannot write %llu bytes of external data: %s; nothing was changed", path,
                   (unsigned long long)o->end, strerror(why));
}

void vn_outside_free(vn_outside_t *o) {
    for (size_t i = 0; i < o->count; ++i) vn_tensor_free(o->items[i].tensor);
    vn_free(o->items);
    *o = (vn_outside_t){0};
}
