/* file.c -- whole files: mapped for reading, replaced atomically for writing. */
#include "vernier/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

vn_status_t vn_map_file(const char *path, vn_map_t *out, vn_error_t *err) {
    *out = (vn_map_t){.data = (const unsigned char *)""};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return vn_fail(err, VN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    vn_status_t s = VN_OK;
    if (fstat(fd, &st) != 0) {
        s = vn_fail(err, VN_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        s = vn_fail(err, VN_ERR_IO, "%s: not a regular file", path);
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) s = vn_fail(err, VN_ERR_IO, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size, strerror(errno));
        else *out = (vn_map_t){.data = p, .size = (size_t)st.st_size, .base = p};
    }
    close(fd);
    return s;
}

void vn_unmap(vn_map_t *map) {
    if (map->base) munmap(map->base, map->size);
    *map = (vn_map_t){.data = (const unsigned char *)""};
}

static bool write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

vn_status_t vn_write_file(const char *path, const void *data, size_t n, vn_error_t *err) {
    if (strcmp(path, "-") == 0) {
        fflush(stdout);
        if (!write_all(STDOUT_FILENO, data, n)) return vn_fail(err, VN_ERR_IO, "standard output: cannot write: %s", strerror(errno));
        return VN_OK;
    }
    char tmp[4096];
    int len = snprintf(tmp, sizeof tmp, "%s.%ld.tmp", path, (long)getpid());
    if (len < 0 || (size_t)len >= sizeof tmp) return vn_fail(err, VN_ERR_IO, "%.200s...: path too long", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return vn_fail(err, VN_ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    bool good = write_all(fd, data, n) && fsync(fd) == 0;
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
    return vn_fail(err, VN_ERR_IO, "%s: cannot write %zu bytes: %s; nothing was changed", path, n, strerror(why));
}
