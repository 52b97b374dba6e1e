/* locate.c -- where the program, the script and the interpreter of a back end are, and what to do when one is missing. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/internal.h"

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool join(char *out, size_t size, const char *a, const char *b, const char *c) {
    const int n = snprintf(out, size, "%s%s%s", a, b, c);
    return n > 0 && (size_t)n < size;
}

/* Cuts the last component off. */
static void to_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
}

/* The folder of the running program (0), or of the object that holds this code (1): a Python binding is not the program. */
static bool home(int which, char out[4096]) {
    if (which == 0) {
        const ssize_t n = readlink("/proc/self/exe", out, 4095);
        if (n <= 0) return false;
        out[n] = '\0';
    } else {
        Dl_info info;
        char *real = dladdr((void *)(uintptr_t)&vn_backends, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : NULL;
        const bool good = real && join(out, 4096, real, "", "");
        free(real);
        if (!good) return false;
    }
    to_folder(out);
    return true;
}

/* Looks for `file` under $VERNIER_WORKERS, then in `places` relative to the homes. */
static bool find(const char *file, const char *below, const char *const *places, int n, char out[4096]) {
    const char *own = getenv("VERNIER_WORKERS");
    char dir[4096], tail[512];
    if (own && *own && join(tail, sizeof tail, below, "/", file) && join(out, 4096, own, tail, "") && is_file(out)) return true;
    for (int which = 0; which < 2; ++which)
        for (int i = 0; i < n && home(which, dir); ++i)
            if (join(tail, sizeof tail, places[i], "/", file) && join(out, 4096, dir, tail, "") && is_file(out)) return true;
    return false;
}

static const char *const program_places[] = {"/workers", "/../workers", "/../libexec/vernier/workers"};
static const char *const script_places[] = {"/../libexec/vernier/workers/python"};

static vn_status_t find_script(const vn_backend_row_t *row, char out[4096], vn_error_t *err) {
    if (find(row->file, "/python", script_places, 1, out)) return VN_OK;
    if (join(out, 4096, VN_DEFAULT_SCRIPTS, "/", row->file) && is_file(out)) return VN_OK;
    return vn_fail(err, VN_ERR_NOTFOUND,
                   "back end %s: its script %s is missing; is Vernier installed completely? (VERNIER_WORKERS names another folder)",
                   row->info->name, row->file);
}

/* Interpreter: the spec's environment, $VERNIER_PYTHON, .venv beside the build, the one of the build. */
static vn_status_t find_python(const vn_spec_t *spec, const vn_backend_row_t *row, char out[4096], vn_error_t *err) {
    if (spec->environment[0]) {
        if (join(out, 4096, spec->environment, "/bin/python", "") && is_file(out)) return VN_OK;
        return vn_fail(err, VN_ERR_NOTFOUND, "back end %s: no Python in %s (looked for bin/python); make one with: python3 -m venv %s",
                       row->info->name, spec->environment, spec->environment);
    }
    const char *own = getenv("VERNIER_PYTHON");
    if (own && *own) {
        if (join(out, 4096, own, "", "") && is_file(out)) return VN_OK;
        return vn_fail(err, VN_ERR_NOTFOUND, "back end %s: VERNIER_PYTHON=%s is not a file", row->info->name, own);
    }
    char dir[4096];
    for (int which = 0; which < 2; ++which)
        if (home(which, dir) && join(out, 4096, dir, "/../.venv/bin/python", "") && is_file(out)) return VN_OK;
    if (join(out, 4096, VN_DEFAULT_PYTHON, "", "") && is_file(out)) return VN_OK;
    return vn_fail(err, VN_ERR_NOTFOUND,
                   "back end %s: no Python environment (%s is not there); make it with tools/setup, or name one: %s@/path/of/venv",
                   row->info->name, VN_DEFAULT_PYTHON, row->info->alias ? row->info->alias : row->info->name);
}

/* True if <root>/lib/python3.x/{site,dist}-packages/<module> exists; *any: such a folder of packages was seen at all. */
static bool has_module(const char *root, const char *module, bool *any) {
    static const char *const libs[] = {"/lib", "/lib64", "/local/lib"}, *const kinds[] = {"/site-packages", "/dist-packages"};
    for (int l = 0; l < 3; ++l) {
        char lib[4096];
        DIR *dir = join(lib, sizeof lib, root, libs[l], "") ? opendir(lib) : NULL;
        if (!dir) continue;
        bool found = false;
        for (struct dirent *e; !found && (e = readdir(dir));) {
            if (strncmp(e->d_name, "python3", 7) != 0) continue;
            for (int k = 0; k < 2 && !found; ++k) {
                char packages[4096 + 300], path[4096 + 400];
                snprintf(packages, sizeof packages, "%s/%s%s", lib, e->d_name, kinds[k]);
                if (!is_folder(packages)) continue;
                *any = true;
                snprintf(path, sizeof path, "%s/%s", packages, module);
                found = is_folder(path);
            }
        }
        closedir(dir);
        if (found) return true;
    }
    return false;
}

/* An environment that shows the system's packages too: only its interpreter can tell. */
static bool is_leaky(const char *root) {
    char path[4096];
    vn_map_t map;
    if (!join(path, sizeof path, root, "/pyvenv.cfg", "") || vn_map_file(path, &map, NULL) != VN_OK) return false;
    static const char key[] = "include-system-site-packages = true";
    const bool leaky = memmem(map.data, map.size, key, sizeof key - 1) != NULL;
    vn_unmap(&map);
    return leaky;
}

static vn_status_t check_module(const vn_backend_row_t *row, const char *root, vn_error_t *err) {
    bool any = false;
    if (!row->module || has_module(root, row->module, &any) || !any || is_leaky(root)) return VN_OK;
    return vn_fail(err, VN_ERR_NOTFOUND, "back end %s: Python package '%s' is not in %s; install it with: %s/bin/pip install %s",
                   row->info->name, row->module, root, root, row->info->packages);
}

vn_status_t vn_locate(const vn_spec_t *spec, const vn_backend_row_t *row, vn_place_t *out, vn_error_t *err) {
    memset(out, 0, sizeof *out);
    if (row->form == VN_FORM_MISSING)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "unsupported: back end '%s' is not part of this build", row->info->name);
    char python[4096] = "";
    if (row->module) {
        VN_TRY(find_python(spec, row, python, err));
        memcpy(out->environment, python, sizeof python);
        to_folder(out->environment);
        to_folder(out->environment);
        VN_TRY(check_module(row, out->environment, err));
    }
    if (row->form == VN_FORM_SCRIPT) {
        memcpy(out->program, python, sizeof python);
        return find_script(row, out->script, err);
    }
    if (find(row->file, "", program_places, 3, out->program)) return VN_OK;
    return vn_fail(err, VN_ERR_NOTFOUND,
                   "back end %s: its worker %s is missing; build it (cmake --build BUILD --target %s) or name its folder in "
                   "VERNIER_WORKERS",
                   row->info->name, row->file, row->file);
}

vn_status_t vn_backend_available(const vn_spec_t *spec, vn_error_t *err) {
    const vn_backend_row_t *row = vn_backend_row(spec->name);
    if (!row) return vn_fail(err, VN_ERR_USAGE, "unknown back end '%s'", spec->name);
    vn_place_t *place = vn_alloc(1, sizeof *place);
    if (!place) return vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory", spec->name);
    vn_status_t s = vn_locate(spec, row, place, err);
    vn_free(place);
    return s;
}
