/* identity.c -- parts of an identity that every C worker reports alike: CPU features, the hash of the library that does the work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/codec.h"

/* Flags of /proc/cpuinfo by which numeric libraries choose kernels. */
static const char *const interesting[] = {
    "sse4_2",      "avx",      "f16c",        "fma",         "avx2",     "avx512f",  "avx512bw", "avx512vl",
    "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd",       "asimddp",  "asimdhp",     "bf16",        "i8mm",     "sve",      "sve2",
};

static bool has_word(const char *line, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = line; (p = strstr(p, word)); p += n)
        if ((p == line || p[-1] == ' ' || p[-1] == '\t') && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0')) return true;
    return false;
}

void vn_worker_cpu_features(vn_text_t *json) {
    char line[8192] = "";
    FILE *f = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) found = strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
    if (f) fclose(f);
    const char *comma = "";
    vn_text_add(json, "[");
    for (size_t i = 0; found && i < sizeof interesting / sizeof *interesting; ++i)
        if (has_word(line, interesting[i])) {
            vn_text_printf(json, "%s\"%s\"", comma, interesting[i]);
            comma = ",";
        }
    vn_text_add(json, "]");
}

void vn_worker_library(vn_text_t *json, const char *path) {
    json_t *o = json_object();
    char *real = realpath(path, NULL);
    json_object_set_new(o, "path", json_string(real ? real : path)); /* a path that is no UTF-8 is left out */
    free(real);
    vn_map_t map;
    if (vn_map_file(path, &map, NULL) == VN_OK) {
        char hex[65];
        vn_sha256_hex(map.data, map.size, hex);
        vn_unmap(&map);
        json_object_set_new(o, "sha256", json_string(hex));
    }
    char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    vn_text_printf(json, "\"library\":%s", text ? text : "{}");
    free(text);
    json_decref(o);
}
