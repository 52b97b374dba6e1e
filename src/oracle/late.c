/* late.c -- opening a shared library at first use. */
#include "oracle/late.h"

#include <dlfcn.h>

static bool fill(vn_late_t *lib, void *handle) {
    for (int i = 0; i < lib->n_symbols; ++i) {
        void *f = dlsym(handle, lib->symbols[i].name);
        if (!f) return false;
        *(void **)lib->symbols[i].place = f;
    }
    return true;
}

vn_status_t vn_late_open(vn_late_t *lib, vn_error_t *err) {
    pthread_mutex_lock(&lib->lock);
    if (lib->state == VN_LATE_UNTRIED) {
        lib->state = VN_LATE_ABSENT;
        for (size_t i = 0; i < sizeof lib->files / sizeof *lib->files && lib->files[i] && lib->state == VN_LATE_ABSENT; ++i) {
            void *handle = dlopen(lib->files[i], RTLD_NOW | RTLD_LOCAL);
            if (!handle) continue;
            if (fill(lib, handle)) lib->state = VN_LATE_THERE;
            else dlclose(handle);
        }
    }
    const bool there = lib->state == VN_LATE_THERE;
    pthread_mutex_unlock(&lib->lock);
    return there ? VN_OK
                 : vn_fail(err, VN_ERR_UNSUPPORTED, "%s is not on this machine (%s): install Debian package %s", lib->what, lib->files[0],
                           lib->package);
}
