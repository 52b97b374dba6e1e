/* processes.h -- children of a process, by /proc: tests need the number of a worker that its interface does not tell. */
#ifndef VN_TEST_WORKER_PROCESSES_H
#define VN_TEST_WORKER_PROCESSES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** A child of this process, 0 if there is none. With one worker running it is that worker's leader. */
static inline int vn_test_child(void) {
    DIR *dir = opendir("/proc");
    int child = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], text[512] = "";
        int parent;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        const char *p = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        if (p && sscanf(p + 1, " %*c %d", &parent) == 1 && parent == getpid()) child = atoi(e->d_name);
        fclose(f);
    }
    if (dir) closedir(dir);
    return child;
}

/** Names in /dev/shm that hold `part`. */
static inline int vn_test_segments(const char *part) {
    DIR *dir = opendir("/dev/shm");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) n += strstr(e->d_name, part) != NULL;
    if (dir) closedir(dir);
    return n;
}

#endif
