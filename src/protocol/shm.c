/* shm.c -- POSIX shared memory segments by name: reserved in full when they are made, so that a full /dev/shm is an error, not a SIGBUS. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vernier/protocol.h"

static vn_status_t take_name(const char *name, vn_shm_t *out, vn_error_t *err) {
    *out = (vn_shm_t){0};
    if (!name || name[0] != '/' || strchr(name + 1, '/') || strlen(name) >= sizeof out->name)
        return vn_fail(err, VN_ERR_PARSE, "'%.80s' is not the name of a shared memory segment", name ? name : "");
    strcpy(out->name, name);
    return VN_OK;
}

vn_status_t vn_shm_create(const char *name, size_t size, vn_shm_t *out, vn_error_t *err) {
    VN_TRY(take_name(name, out, err));
    const size_t room = size ? size : 1; /* nothing cannot be mapped */
    if (room > PTRDIFF_MAX) return vn_fail(err, VN_ERR_RANGE, "shared memory of %zu bytes", size);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return vn_fail(err, VN_ERR_IO, "%s: cannot create shared memory: %s", name, strerror(errno));
    int why;
    do why = posix_fallocate(fd, 0, (off_t)room);
    while (why == EINTR);
    void *p = MAP_FAILED;
    if (why == 0) {
        p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) why = errno;
    }
    close(fd);
    if (p == MAP_FAILED) {
        shm_unlink(name);
        return vn_fail(err, VN_ERR_IO,
                       "%s: cannot reserve %zu bytes of shared memory: %s; is /dev/shm large enough (containers: --shm-size)?", name, size,
                       strerror(why));
    }
    out->data = p;
    out->size = size;
    out->owner = true;
    return VN_OK;
}

vn_status_t vn_shm_attach(const char *name, size_t size, bool writable, vn_shm_t *out, vn_error_t *err) {
    VN_TRY(take_name(name, out, err));
    int fd = shm_open(name, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
    if (fd < 0) return vn_fail(err, VN_ERR_IO, "%s: cannot open shared memory: %s", name, strerror(errno));
    struct stat st;
    vn_status_t s = VN_OK;
    if (fstat(fd, &st) != 0) {
        s = vn_fail(err, VN_ERR_IO, "%s: cannot stat shared memory: %s", name, strerror(errno));
    } else if (st.st_size < 1 || (uintmax_t)st.st_size < size) {
        s = vn_fail(err, VN_ERR_PARSE, "%s: the segment has %lld bytes, %zu were announced", name, (long long)st.st_size, size);
    } else {
        const size_t room = size ? size : (size_t)st.st_size;
        void *p = mmap(NULL, room, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            s = vn_fail(err, VN_ERR_IO, "%s: cannot map %zu bytes: %s", name, room, strerror(errno));
        } else {
            out->data = p;
            out->size = room;
        }
    }
    close(fd);
    return s;
}

void vn_shm_close(vn_shm_t *s) {
    if (s->data) munmap(s->data, s->size ? s->size : 1);
    if (s->owner) shm_unlink(s->name);
    *s = (vn_shm_t){0};
}
