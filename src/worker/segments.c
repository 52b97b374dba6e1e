/* segments.c -- names and lives of shared memory on the host's side. A host that was killed leaves names behind; the next one removes them. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/internal.h"

/* A process number means something inside its namespace only: two containers may share /dev/shm. */
static unsigned pid_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned)st.st_ino : 0;
}

void vn_segment_prefix(char out[40]) {
    static atomic_uint next; /* the only state of this room: two workers of one process must not share names */
    snprintf(out, 40, "/vernier-%x-%x-%x", pid_namespace(), (unsigned)getpid(), atomic_fetch_add(&next, 1));
}

void vn_segment_sweep(const char *prefix) {
    DIR *dir = opendir("/dev/shm");
    if (!dir) return;
    const unsigned here = pid_namespace();
    for (struct dirent *e; (e = readdir(dir));) {
        char name[sizeof e->d_name + 1];
        snprintf(name, sizeof name, "/%s", e->d_name);
        unsigned space, pid;
        bool stale;
        if (prefix) {
            const size_t k = strlen(prefix);
            stale = strncmp(name, prefix, k) == 0 && name[k] == '-';
        } else {
            stale = sscanf(name, "/vernier-%x-%x-", &space, &pid) == 2 && space == here && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
        }
        if (stale) shm_unlink(name);
    }
    closedir(dir);
}

vn_segment_t *vn_segment_new(vn_shm_t *shm) {
    vn_segment_t *s = vn_alloc(1, sizeof *s);
    if (s) *s = (vn_segment_t){.shm = *shm, .refs = 1};
    else vn_shm_close(shm);
    *shm = (vn_shm_t){0};
    return s;
}

void vn_segment_retain(vn_segment_t *s) { __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED); }

void vn_segment_release(void *p) {
    vn_segment_t *s = p;
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    vn_shm_close(&s->shm);
    vn_free(s);
}
