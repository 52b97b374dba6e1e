/* api.c -- finds, loads and explains OpenVINO: library, functions, numbers of element types, error texts. */
#include "api.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

/* Names of its element types, as the header spells them. F8E5M3 is a slip of that header: its comment says f8e5m2, and so it behaves. */
static const struct {
    const char *name;
    vn_dtype_t type;
} type_names[] = {
    {"BOOLEAN", VN_BOOL},  {"BF16", VN_BF16},       {"F16", VN_F16},       {"F32", VN_F32},       {"F64", VN_F64},
    {"I4", VN_I4},         {"I8", VN_I8},           {"I16", VN_I16},       {"I32", VN_I32},       {"I64", VN_I64},
    {"U2", VN_U2},         {"U4", VN_U4},           {"U8", VN_U8},         {"U16", VN_U16},       {"U32", VN_U32},
    {"U64", VN_U64},       {"F8E4M3", VN_F8E4M3FN}, {"F8E5M3", VN_F8E5M2}, {"F8E5M2", VN_F8E5M2}, {"STRING", VN_STRING},
    {"F4E2M1", VN_F4E2M1}, {"F8E8M0", VN_F8E8M0},
};

static vn_dtype_t type_of_name(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; ++i)
        if (strlen(type_names[i].name) == length && memcmp(type_names[i].name, name, length) == 0) return type_names[i].type;
    return VN_UNDEFINED;
}

static bool is_word(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/* The enumerators between "typedef enum" and "} ov_element_type_e", counted from 0; text holds one comment at most a line. */
static bool read_types(const char *text, ov_api_t *out) {
    const char *end = strstr(text, "} ov_element_type_e"), *begin = NULL;
    for (const char *p = text; end && (p = strstr(p, "typedef enum")) && p < end; ++p) begin = p;
    if (!begin || !(begin = strchr(begin, '{')) || begin > end) return false;
    for (const char *p = begin + 1; p < end;) {
        if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (*p >= 'A' && *p <= 'Z') {
            size_t n = 0;
            while (is_word(p[n])) ++n;
            if (out->n_types == OV_MAX_TYPES) return false;
            out->types[out->n_types++] = type_of_name(p, n);
            p += n;
            while (p < end && *p != ',' && *p != '\n') ++p; /* "= 0U" */
        } else {
            ++p;
        }
    }
    return ov_type_number(out, VN_F32) >= 0;
}

static vn_status_t read_header(ov_api_t *out, vn_error_t *err) {
    char path[sizeof out->folder + 64];
    snprintf(path, sizeof path, "%s/../include/openvino/c/ov_common.h", out->folder);
    vn_map_t map;
    if (vn_map_file(path, &map, NULL) != VN_OK)
        return vn_fail(err, VN_ERR_NOTFOUND, "this OpenVINO package has no header %s, which numbers its element types; install a newer one",
                       path);
    char *text = vn_strndup((const char *)map.data, map.size);
    vn_unmap(&map);
    if (!text) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    const bool good = read_types(text, out);
    vn_free(text);
    return good ? VN_OK : vn_fail(err, VN_ERR_PARSE, "%s: no list of element types that this worker understands", path);
}

/* The C library under the environment's site-packages, whatever its version suffix. */
static vn_status_t find_library(const char *environment, char *out, size_t size, vn_error_t *err) {
    static const char *const places[] = {"lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages",
                                         "local/lib/python3*/dist-packages"};
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        char pattern[4200];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s/openvino/libs/libopenvino_c.so*", environment, places[i]);
        const bool here = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0 && strlen(found.gl_pathv[0]) < size;
        if (here) strcpy(out, found.gl_pathv[0]);
        globfree(&found);
        if (here) return VN_OK;
    }
    return vn_fail(err, VN_ERR_NOTFOUND, "Python package 'openvino' is not in %s; install it with: %s/bin/python -m pip install openvino",
                   environment, environment);
}

vn_status_t ov_api_open(const char *environment, ov_api_t *out, vn_error_t *err) {
    memset(out, 0, sizeof *out);
    if (!environment || !*environment) return vn_fail(err, VN_ERR_USAGE, "openvino: no Python environment was named");
    VN_TRY(find_library(environment, out->folder, sizeof out->folder, err));
    out->library = dlopen(out->folder, RTLD_NOW | RTLD_LOCAL);
    if (!out->library) return vn_fail(err, VN_ERR_NOTFOUND, "%s", dlerror());
    const char *missing = NULL;
    /* Through a union: ISO C has no cast from an object pointer to a function pointer. */
#define OV_FIND(result, name, parameters)                  \
    {                                                      \
        union {                                            \
            void *object;                                  \
            result(*function) parameters;                  \
        } symbol = {.object = dlsym(out->library, #name)}; \
        out->name = symbol.function;                       \
        if (!symbol.object) missing = #name;               \
    }
    OV_FUNCTIONS(OV_FIND)
#undef OV_FIND
    vn_status_t s = VN_OK;
    if (missing) s = vn_fail(err, VN_ERR_NOTFOUND, "%s has no function %s; install a newer openvino", out->folder, missing);
    *strrchr(out->folder, '/') = '\0';
    if (s == VN_OK) s = read_header(out, err);
    if (s != VN_OK) ov_api_close(out);
    return s;
}

void ov_api_close(ov_api_t *api) {
    if (api->library) dlclose(api->library);
    memset(api, 0, sizeof *api);
}

int ov_type_number(const ov_api_t *api, vn_dtype_t t) {
    for (int i = 0; i < api->n_types; ++i)
        if (t != VN_UNDEFINED && api->types[i] == t) return i;
    return -1;
}

/* Lines of its texts that say where in its own source the error was thrown, or what its manual offers. */
static bool is_noise(const char *line, size_t n) {
    static const char *const starts[] = {"Exception from ", "FrontEnd API failed with", "Check '", "To facilitate ",
                                         "Please, check your environment"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; ++i)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0) return true;
    return n == 0;
}

vn_status_t ov_fail(const ov_api_t *api, vn_error_t *err, vn_status_t status, const char *what, int code) {
    enum { ENOUGH = 420 }; /* characters: the text of an error is one line of a report */
    const char *said = code > OV_INVALID_PARAMETER ? api->ov_get_last_err_msg() : NULL, *name = api->ov_get_error_info(code);
    vn_text_t text = {0};
    for (const char *p = said; p && *p && text.length < ENOUGH;) {
        const size_t n = strcspn(p, "\n");
        if (!is_noise(p, n)) {
            if (text.length) vn_text_add(&text, " | ");
            vn_text_addn(&text, p, n);
        }
        p += n + (p[n] != '\0');
    }
    vn_fail(err, status, "%s: %.*s", what, (int)ENOUGH, text.length ? text.data : said && *said ? said : name ? name : "no reason given");
    vn_text_free(&text);
    if (said) api->ov_free(said);
    return status;
}
