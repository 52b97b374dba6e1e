/* memory.c -- resident sizes of a process group, read from /proc. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/internal.h"

/* Reads a small /proc file; false if the process is gone. */
static bool read_small(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, out, size - 1);
    close(fd);
    if (n <= 0) return false;
    out[n] = '\0';
    return true;
}

int64_t vn_group_resident(int group) {
    DIR *dir = opendir("/proc");
    if (!dir) return 0;
    const int64_t page = sysconf(_SC_PAGESIZE);
    int64_t total = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        char path[300], text[1024];
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        if (!read_small(path, text, sizeof text)) continue;
        const char *p = strrchr(text, ')'); /* the name before it may hold anything */
        int parent, pgrp;
        if (!p || sscanf(p + 1, " %*c %d %d", &parent, &pgrp) != 2 || pgrp != group) continue;
        int field = 2; /* the character after ')' begins field 3; resident pages are field 24 */
        for (++p; *p && field < 24; ++p)
            if (*p == ' ') ++field;
        if (field == 24) total += page * strtoll(p, NULL, 10);
    }
    closedir(dir);
    return total;
}

int64_t vn_process_high_water(int pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    const char *p = read_small(path, text, sizeof text) ? strstr(text, "VmHWM:") : NULL;
    return p ? 1024 * strtoll(p + 6, NULL, 10) : 0;
}
