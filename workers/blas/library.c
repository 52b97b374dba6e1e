/* library.c -- finds and loads a CBLAS and asks it what it is. It stays loaded: its threads may still be running its code. */
#include "library.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *files[4], *brings;
} known[] = {
    {"openblas", {"libopenblas.so.0", "libopenblas.so"}, "apt-get install libopenblas0-pthread"},
    {"blis", {"libblis.so.4", "libblis.so.3", "libblis.so"}, "apt-get install libblis4-pthread"},
    {"mkl", {"libmkl_rt.so.2", "libmkl_rt.so.1"}, "python -m pip install mkl, then lib=ENVIRONMENT/lib/libmkl_rt.so.2"},
    {"netlib", {"libcblas.so.3", "libcblas.so"}, "build the reference CBLAS of netlib as a shared library, then lib=/path/libcblas.so"},
};
enum { N_KNOWN = sizeof known / sizeof *known };

/* Through a union: ISO C has no cast from an object pointer to a function pointer. */
#define SYMBOL(pointer, handle, text)          \
    {                                          \
        union {                                \
            void *object;                      \
            __typeof__(pointer) function;      \
        } symbol_ = {dlsym((handle), (text))}; \
        (pointer) = symbol_.function;          \
    }

static vn_status_t load_named(const char *what, blas_library_t *out, vn_error_t *err) {
    for (int i = 0; i < N_KNOWN; ++i) {
        if (strcmp(known[i].name, what) != 0) continue;
        strcpy(out->name, what);
        for (int k = 0; k < 4 && known[i].files[k]; ++k)
            if ((out->handle = dlopen(known[i].files[k], RTLD_NOW | RTLD_LOCAL))) return VN_OK;
        return vn_fail(err, VN_ERR_NOTFOUND, "no %s on this machine (looked for %s); it comes with: %s", known[i].name, known[i].files[0],
                       known[i].brings);
    }
    return vn_fail(err, VN_ERR_USAGE, "lib=%.60s: not one of openblas, blis, mkl, netlib, and no path (a path has a slash)", what);
}

static vn_status_t load(const char *what, blas_library_t *out, vn_error_t *err) {
    if (!strchr(what, '/')) return load_named(what, out, err);
    out->handle = dlopen(what, RTLD_NOW | RTLD_LOCAL);
    return out->handle ? VN_OK : vn_fail(err, VN_ERR_NOTFOUND, "lib=%s: %s", what, dlerror());
}

static vn_status_t products(blas_library_t *l, vn_error_t *err) {
    SYMBOL(l->sgemm, l->handle, "cblas_sgemm");
    SYMBOL(l->dgemm, l->handle, "cblas_dgemm");
    SYMBOL(l->sgemv, l->handle, "cblas_sgemv");
    SYMBOL(l->dgemv, l->handle, "cblas_dgemv");
    if (l->sgemm && l->dgemm && l->sgemv && l->dgemv) return VN_OK;
    const bool wide = dlsym(l->handle, "cblas_sgemm64_") || dlsym(l->handle, "cblas_sgemm_64");
    return wide ? vn_fail(err, VN_ERR_UNSUPPORTED, "%s has 64-bit integers only (cblas_sgemm64_); name a build with 32-bit ones", l->path)
                : vn_fail(err, VN_ERR_NOTFOUND, "%s has no cblas_sgemm, cblas_dgemm, cblas_sgemv and cblas_dgemv", l->path);
}

static vn_status_t find_path(blas_library_t *l, vn_error_t *err) {
    struct link_map *map = NULL;
    if (dlinfo(l->handle, RTLD_DI_LINKMAP, &map) != 0 || !map)
        return vn_fail(err, VN_ERR_INTERNAL, "the path of the library is not known: %s", dlerror());
    char *real = realpath(map->l_name, NULL);
    const bool fits = real && strlen(real) < sizeof l->path;
    if (fits) strcpy(l->path, real);
    free(real);
    return fits ? VN_OK : vn_fail(err, VN_ERR_IO, "%s: no such file any more", map->l_name);
}

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
static bool ask_openblas(blas_library_t *l, int threads) {
    char *(*config)(void), *(*core)(void);
    void (*set)(int);
    int (*get)(void);
    SYMBOL(config, l->handle, "openblas_get_config");
    SYMBOL(core, l->handle, "openblas_get_corename");
    SYMBOL(set, l->handle, "openblas_set_num_threads");
    SYMBOL(get, l->handle, "openblas_get_num_threads");
    if (!config || !core || !set || !get) return false;
    strcpy(l->name, "openblas");
    if (threads) set(threads);
    l->threads = get();
    snprintf(l->build, sizeof l->build, "%s", config());
    snprintf(l->core, sizeof l->core, "%s", core());
    sscanf(l->build, "OpenBLAS %63s", l->version);
    return true;
}

static bool ask_blis(blas_library_t *l, int threads) {
    const char *(*version)(void), *(*arch)(int);
    int (*id)(void);
    void (*set)(int64_t);
    int64_t (*get)(void);
    SYMBOL(version, l->handle, "bli_info_get_version_str");
    SYMBOL(id, l->handle, "bli_arch_query_id");
    SYMBOL(arch, l->handle, "bli_arch_string");
    SYMBOL(set, l->handle, "bli_thread_set_num_threads");
    SYMBOL(get, l->handle, "bli_thread_get_num_threads");
    if (!version || !set || !get) return false;
    strcpy(l->name, "blis");
    if (threads) set(threads);
    l->threads = get() > 0 ? (int)get() : 1;
    snprintf(l->version, sizeof l->version, "%s", version());
    if (id && arch) snprintf(l->core, sizeof l->core, "%s", arch(id()));
    return true;
}

static bool ask_mkl(blas_library_t *l, int threads) {
    void (*version)(char *, int), (*set)(int);
    int (*get)(void);
    SYMBOL(version, l->handle, "MKL_Get_Version_String");
    SYMBOL(set, l->handle, "MKL_Set_Num_Threads");
    SYMBOL(get, l->handle, "MKL_Get_Max_Threads");
    if (!version || !set || !get) return false;
    strcpy(l->name, "mkl");
    if (threads) set(threads);
    l->threads = get();
    version(l->build, (int)sizeof l->build - 1);
    for (size_t n = strlen(l->build); n && isspace((unsigned char)l->build[n - 1]);) l->build[--n] = '\0';
    const char *digits = l->build + strcspn(l->build, "0123456789");
    snprintf(l->version, sizeof l->version, "%.*s", (int)strspn(digits, "0123456789."), digits);
    return true;
}

static vn_status_t ask(blas_library_t *l, int threads, vn_error_t *err) {
    if (ask_openblas(l, threads) || ask_blis(l, threads) || ask_mkl(l, threads)) return VN_OK;
    if (!l->name[0] || strcmp(l->name, "netlib") != 0) strcpy(l->name, "other");
    l->threads = 1;
    if (threads > 1) return vn_fail(err, VN_ERR_USAGE, "threads=%d: %s offers no way to set them", threads, l->path);
    return VN_OK;
}

vn_status_t blas_open(const char *what, int threads, blas_library_t *out, vn_error_t *err) {
    memset(out, 0, sizeof *out);
    VN_TRY(load(what, out, err));
    VN_TRY(find_path(out, err));
    VN_TRY(products(out, err));
    return ask(out, threads, err);
}
