/* external.c -- external data: a location must stay inside the model's folder, textually and behind symbolic links. */
#include "tensor/external.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vn_proto_origin_free(vn_proto_origin_t *origin) {
    for (int i = 0; i < origin->n_externals; ++i) {
        vn_free(origin->externals[i].path);
        vn_source_free(origin->externals[i].source);
    }
    vn_free(origin->externals);
    vn_free(origin->real_folder);
    vn_source_free(origin->source);
    *origin = (vn_proto_origin_t){0};
}

static const char *entry(const Onnx__TensorProto *p, const char *key) {
    for (size_t i = 0; i < p->n_external_data; ++i)
        if (p->external_data[i]->key && strcmp(p->external_data[i]->key, key) == 0) return p->external_data[i]->value;
    return NULL;
}

/* A relative path without "..", "." or empty parts; a backslash would be a separator elsewhere. */
static bool stays_inside(const char *location) {
    if (!*location || strchr(location, '\\')) return false;
    for (const char *part = location;;) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && part[0] == '.' && part[1] == '.')) return false;
        if (part[n] == '\0') return true;
        part += n + 1;
    }
}

static bool read_number(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* realpath, into our own memory. */
static vn_status_t resolve(const char *path, const char *label, char **out, vn_error_t *err) {
    char real[PATH_MAX];
    *out = NULL;
    if (!realpath(path, real)) return vn_fail(err, VN_ERR_IO, "%s: external data %s: %s", label, path, strerror(errno));
    *out = vn_strdup(real);
    return *out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
}

static vn_status_t open_file(vn_proto_origin_t *origin, const char *real, const char *label, vn_source_t **out, vn_error_t *err) {
    for (int i = 0; i < origin->n_externals; ++i)
        if (strcmp(origin->externals[i].path, real) == 0) {
            *out = origin->externals[i].source;
            return VN_OK;
        }
    vn_source_t *source;
    const vn_status_t s = vn_source_map(real, &source, err);
    if (s != VN_OK) {
        vn_fail_prefix(err, "%s: external data", label);
        return s;
    }
    struct vn_proto_external *grown = vn_realloc(origin->externals, (size_t)origin->n_externals + 1, sizeof *grown);
    if (grown) origin->externals = grown;
    char *path = grown ? vn_strdup(real) : NULL;
    if (!path) {
        vn_source_free(source);
        return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", label);
    }
    origin->externals[origin->n_externals++] = (struct vn_proto_external){.path = path, .source = source};
    *out = source;
    return VN_OK;
}

static vn_status_t find_file(vn_proto_origin_t *origin, const char *location, const char *label, vn_source_t **out, vn_error_t *err) {
    char *real;
    if (!origin->real_folder) VN_TRY(resolve(*origin->folder ? origin->folder : ".", label, &origin->real_folder, err));
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", origin->real_folder, location);
    if (n < 0 || (size_t)n >= sizeof path) return vn_fail(err, VN_ERR_PARSE, "%s: the location of its external data is too long", label);
    VN_TRY(resolve(path, label, &real, err));
    const size_t head = strcmp(origin->real_folder, "/") == 0 ? 0 : strlen(origin->real_folder);
    vn_status_t s;
    if (strncmp(real, origin->real_folder, head) != 0 || real[head] != '/')
        s = vn_fail(err, VN_ERR_USAGE, "%s: external data %s leads out of the model's folder; it is not read", label, location);
    else s = open_file(origin, real, label, out, err);
    vn_free(real);
    return s;
}

vn_status_t vn_external_find(const Onnx__TensorProto *p, vn_proto_origin_t *origin, const char *label, size_t bytes, vn_source_t **source,
                             const unsigned char **data, vn_error_t *err) {
    const char *location = entry(p, "location"), *offset_text = entry(p, "offset"), *length_text = entry(p, "length");
    uint64_t offset = 0, length = bytes;
    *source = NULL;
    if (!location) return vn_fail(err, VN_ERR_PARSE, "%s: external data without a location", label);
    if (!origin || !origin->folder)
        return vn_fail(err, VN_ERR_USAGE, "%s: has external data (%s), and no folder is known where it may lie", label, location);
    if (!stays_inside(location))
        return vn_fail(err, VN_ERR_USAGE, "%s: the location %s of its external data leads out of the model's folder; it is not read", label,
                       location);
    if ((offset_text && !read_number(offset_text, &offset)) || (length_text && !read_number(length_text, &length)))
        return vn_fail(err, VN_ERR_PARSE, "%s: offset or length of its external data is not a number", label);
    if (length != bytes)
        return vn_fail(err, VN_ERR_PARSE, "%s: external data has %" PRIu64 " bytes, its dims need %zu", label, length, bytes);
    VN_TRY(find_file(origin, location, label, source, err));
    if (offset > (*source)->size || length > (*source)->size - offset)
        return vn_fail(err, VN_ERR_PARSE,
                       "%s: external data %s has %zu bytes; %" PRIu64 " at offset %" PRIu64 " are claimed; is the download complete?",
                       label, location, (*source)->size, length, offset);
    *data = (*source)->data + offset;
    return VN_OK;
}
