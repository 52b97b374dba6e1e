/* table_case.h -- rows of a text table as one-node models: operator, attributes and tensors from text, evaluated, compared token by token.
 *
 * Columns, separated by one tab: class, operator (domain:name outside ai.onnx), opset, attributes, inputs, expected, source.
 * Attributes  name=value; ... value: 1, 1.0, 'text', [1,2], [1.0,2.0], f32[2]{1 2}; "-": none.
 * Tensors     type[dims]{elements}, separated by ";"; "-": absent. Elements: numbers of strtod or strtoll, nan, inf, "text" in double quotes.
 * Expected    one entry per output: a tensor; "open: NAME = tensor | NAME = tensor ..." (the oracle's own value, then its readings, all of
 *             them, by name); "-" where the output is not asked for; "sequence": any sequence or optional; or, for all, "error STATUS".
 *             Elements: a number (bits, the sign of zero included; NaN by class), ~0 a zero of either sign (where the result is a
 *             plane of numbers, or has VN_EL_ZERO_OK or a second value: the judge then takes both), a/b the second
 *             acceptable value, * an element without a value (VN_EL_VOID). After "?": i an infinity, n a NaN, z a zero is explainable.
 *             Flags must be exactly these.
 */
#ifndef VN_TEST_TABLE_CASE_H
#define VN_TEST_TABLE_CASE_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

enum { TC_COLUMNS = 7, TC_INPUTS = 16, TC_OUTPUTS = 4, TC_TEXT = 700 };

typedef struct tc_row {
    int line;
    char *cell[TC_COLUMNS]; /* class operator opset attributes inputs expected source */
} tc_row_t;

typedef struct tc_table {
    char *text;
    tc_row_t *rows;
    int count;
} tc_table_t;

/* ---- reading ---- */

/** Splits a table file in place; every row must have all columns. */
static inline void tc_read(vn_test_t *t, const char *path, tc_table_t *out) {
    vn_map_t map;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, vn_map_file(path, &map, &err), err);
    memset(out, 0, sizeof *out);
    out->text = vn_strndup((const char *)map.data, map.size);
    vn_unmap(&map);
    VN_ASSERT(t, out->text != NULL);
    int lines = 1;
    for (const char *p = out->text; *p; ++p) lines += *p == '\n';
    out->rows = vn_alloc((size_t)lines, sizeof *out->rows);
    VN_ASSERT(t, out->rows != NULL);
    char *next = out->text;
    for (int line = 1; next; ++line) {
        char *at = next;
        next = strchr(at, '\n');
        if (next) *next++ = '\0';
        if (*at == '#' || *at == '\0') continue;
        tc_row_t *r = &out->rows[out->count++];
        r->line = line;
        for (int c = 0; c < TC_COLUMNS; ++c) {
            r->cell[c] = at;
            char *tab = strchr(at, '\t');
            if ((tab != NULL) != (c + 1 < TC_COLUMNS)) vn_test_fail(t, path, line, "a row has %d columns", TC_COLUMNS);
            if (tab) *tab = '\0', at = tab + 1;
        }
    }
}

static inline void tc_free(tc_table_t *table) {
    vn_free(table->rows);
    vn_free(table->text);
}

/* Cuts the next part off *s at `mark` outside of quotes; trims blanks. NULL at the end. */
static inline char *tc_part(char **s, char mark) {
    if (!*s) return NULL;
    char *begin = *s, quote = '\0', *p = begin;
    for (; *p && (quote || *p != mark); ++p)
        if (*p == '"' && (!quote || quote == '"')) quote = quote ? '\0' : '"';
    *s = *p ? p + 1 : NULL;
    *p = '\0';
    while (*begin == ' ') ++begin;
    while (p > begin && p[-1] == ' ') *--p = '\0';
    return begin;
}

/** What is wrong with a row; empty: nothing. */
typedef struct tc_report {
    char text[TC_TEXT];
} tc_report_t;
static inline bool tc_wrong(tc_report_t *r, const char *fmt, ...) VN_PRINTF(2, 3);
static inline bool tc_wrong(tc_report_t *r, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!*r->text) vsnprintf(r->text, sizeof r->text, fmt, args);
    va_end(args);
    return false;
}

/* ---- tensors ---- */

/** Header of a literal: type, dims; *elements points behind the brace. */
static inline bool tc_header(char *s, vn_dtype_t *type, int *rank, int64_t *dims, char **elements, tc_report_t *r) {
    char name[16] = "";
    char *open = strchr(s, '['), *brace = strchr(s, '{'), *end = strrchr(s, '}');
    if (!open || !brace || !end || brace < open || (size_t)(open - s) >= sizeof name) return tc_wrong(r, "no tensor: %s", s);
    memcpy(name, s, (size_t)(open - s));
    *type = vn_dtype_from_name(name);
    if (*type == VN_UNDEFINED) return tc_wrong(r, "no element type: %s", name);
    *rank = 0;
    for (char *p = open + 1; *p != ']';) {
        dims[(*rank)++] = strtoll(p, &p, 10);
        if (*p == ',') ++p;
        else if (*p != ']' || *rank == VN_MAX_RANK) return tc_wrong(r, "no shape: %s", open);
    }
    *end = '\0';
    *elements = brace + 1;
    return true;
}

/** The next element of a list; quoted ones keep their quotes. */
static inline char *tc_token(char **s) {
    while (**s == ' ') ++*s;
    if (!**s) return NULL;
    char *begin = *s, *p = begin;
    if (*p == '"') {
        for (++p; *p && *p != '"'; ++p) {}
        if (*p) ++p;
    } else {
        while (*p && *p != ' ') ++p;
    }
    *s = *p ? p + 1 : p;
    *p = '\0';
    return begin;
}

static inline bool tc_store(vn_tensor_t *t, int64_t i, char *word, tc_report_t *r) {
    char *end = word;
    errno = 0;
    if (t->dtype == VN_STRING) {
        const size_t n = strlen(word);
        if (n < 2 || *word != '"') return tc_wrong(r, "no text: %s", word);
        return vn_tensor_set_string(t, i, word + 1, n - 2, NULL) == VN_OK || tc_wrong(r, "no memory");
    }
    if (t->dtype == VN_C64) { /* real,imaginary */
        float *c = (float *)t->data + 2 * i;
        c[0] = strtof(word, &end);
        if (*end != ',') return tc_wrong(r, "no complex number: %s", word);
        c[1] = strtof(end + 1, &end);
    } else if (vn_dtype_is_float(t->dtype)) {
        vn_tensor_set_f64(t, i, strtod(word, &end));
        errno = 0; /* subnormal numbers are no error */
    } else if (t->dtype == VN_U64) {
        vn_tensor_set_i64(t, i, (int64_t)strtoull(word, &end, 10));
    } else {
        vn_tensor_set_i64(t, i, strtoll(word, &end, 10));
    }
    return (*end == '\0' && end > word && !errno) || tc_wrong(r, "no %s: %s", vn_dtype_name(t->dtype), word);
}

static inline bool tc_tensor(char *s, vn_tensor_t **out, tc_report_t *r) {
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    char *list, *word;
    *out = NULL;
    if (!tc_header(s, &type, &rank, dims, &list, r)) return false;
    if (vn_tensor_new(type, rank, dims, out, NULL) != VN_OK) return tc_wrong(r, "no tensor of that shape: %s", s);
    int64_t n = 0;
    for (; (word = tc_token(&list)) != NULL; ++n)
        if (n >= (*out)->count || !tc_store(*out, n, word, r)) break;
    if (n == (*out)->count && !word) return true;
    vn_tensor_free(*out);
    *out = NULL;
    return tc_wrong(r, "%lld elements are not those of the shape: %s", (long long)n, s);
}

/* ---- the model ---- */

static inline bool tc_attribute(vn_model_t *m, vn_node_t *n, char *s, tc_report_t *r) {
    char *value = strchr(s, '=');
    vn_status_t status = VN_OK;
    if (!value) return tc_wrong(r, "no attribute: %s", s);
    *value++ = '\0';
    const size_t length = strlen(value);
    if (*value == '\'') {
        value[length - 1] = '\0';
        status = vn_node_set_string(m, n, s, value + 1, NULL);
    } else if (*value == '[') {
        const bool reals = strpbrk(value, ".n") != NULL;
        int64_t ints[VN_MAX_RANK] = {0};
        float floats[VN_MAX_RANK] = {0};
        int count = 0;
        for (char *p = value + 1; *p && *p != ']' && count < VN_MAX_RANK; p += *p == ',') {
            char *from = p;
            if (reals) floats[count++] = strtof(p, &p);
            else ints[count++] = strtoll(p, &p, 10);
            if (p == from) return tc_wrong(r, "no list: %s", value);
        }
        status = reals ? vn_node_set_floats(m, n, s, floats, count, NULL) : vn_node_set_ints(m, n, s, ints, count, NULL);
    } else if (strchr(value, '{')) {
        vn_tensor_t *t;
        if (!tc_tensor(value, &t, r)) return false;
        status = vn_node_set_tensor(m, n, s, t, NULL);
        vn_tensor_free(t);
    } else if (strpbrk(value, ".np")) {
        status = vn_node_set_float(m, n, s, strtof(value, NULL), NULL);
    } else {
        status = vn_node_set_int(m, n, s, strtoll(value, NULL, 10), NULL);
    }
    return status == VN_OK || tc_wrong(r, "attribute %s: %s", s, vn_status_name(status));
}

/** A row as it runs. */
typedef struct tc_case {
    vn_model_t *model;
    int n_in, n_out;
    vn_value_t *in[TC_INPUTS];
    vn_ref_t out[TC_OUTPUTS];
    char *expected[TC_OUTPUTS]; /* cut out of the row */
    vn_status_t status;
    vn_error_t err;
} tc_case_t;

static inline void tc_done(tc_case_t *c) {
    for (int k = 0; k < TC_INPUTS; ++k) vn_value_free(c->in[k]);
    for (int k = 0; k < TC_OUTPUTS; ++k) vn_ref_free(&c->out[k]);
    vn_model_free(c->model);
    memset(c, 0, sizeof *c);
}

static inline bool tc_inputs(tc_case_t *c, char *list, tc_report_t *r) {
    char *s = strcmp(list, "-") == 0 ? NULL : list, *part;
    while ((part = tc_part(&s, ';')) != NULL) {
        vn_tensor_t *t;
        if (c->n_in == TC_INPUTS) return tc_wrong(r, "more than %d inputs", TC_INPUTS);
        if (strcmp(part, "-") == 0) {
            ++c->n_in;
            continue;
        }
        if (!tc_tensor(part, &t, r)) return false;
        if (!(c->in[c->n_in++] = vn_value_tensor(t))) return tc_wrong(r, "no memory");
    }
    return true;
}

/** Builds the model of a row, which is cut up, and evaluates it. False: the row itself is wrong. */
static inline bool tc_run(tc_row_t *row, int want, tc_case_t *c, tc_report_t *r) {
    static const char *const names[TC_INPUTS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
    static const char *const out_names[TC_OUTPUTS] = {"y0", "y1", "y2", "y3"};
    const char *inputs[TC_INPUTS], *outputs[TC_OUTPUTS], *domain = "";
    char *op = row->cell[1], *colon = strchr(op, ':'), *s = row->cell[5], *part;
    vn_contract_t contract;
    vn_node_t *node;
    memset(c, 0, sizeof *c);
    *r->text = '\0';
    if (colon) *colon = '\0', domain = op, op = colon + 1;
    if (!tc_inputs(c, row->cell[4], r)) return false;
    while ((part = tc_part(&s, ';')) != NULL) {
        if (c->n_out == TC_OUTPUTS) return tc_wrong(r, "more than %d outputs", TC_OUTPUTS);
        outputs[c->n_out] = strcmp(part, "-") == 0 ? "" : out_names[c->n_out];
        c->expected[c->n_out++] = part;
    }
    vn_status_t status = vn_contract_builtin("portable", &contract) ? vn_model_new(10, &c->model, &c->err) : VN_ERR_INTERNAL;
    if (status == VN_OK) status = vn_model_set_opset(c->model, "", 21, &c->err);
    if (status == VN_OK) status = vn_model_set_opset(c->model, domain, strtoll(row->cell[2], NULL, 10), &c->err);
    for (int k = 0; k < c->n_in && status == VN_OK; ++k) {
        inputs[k] = c->in[k] ? names[k] : "";
        const vn_tensor_t *t = c->in[k] ? c->in[k]->tensor : NULL;
        if (t) status = vn_graph_add_input(c->model->graph, names[k], t->dtype, t->rank, t->dims, &c->err);
    }
    if (status == VN_OK) status = vn_graph_add_node(c->model->graph, "n", op, domain, c->n_in, inputs, c->n_out, outputs, &node, &c->err);
    s = strcmp(row->cell[3], "-") == 0 ? NULL : row->cell[3];
    while (status == VN_OK && (part = tc_part(&s, ';')) != NULL)
        if (!tc_attribute(c->model, node, part, r)) return false;
    for (int k = 0; k < c->n_out && status == VN_OK; ++k)
        if (*outputs[k]) status = vn_graph_add_output(c->model->graph, outputs[k], VN_F32, -1, NULL, &c->err);
    if (status == VN_OK) status = vn_model_finish(c->model, &c->err);
    if (status != VN_OK) return tc_wrong(r, "the model is not built: %s", c->err.text);
    c->status =
        vn_oracle_node(c->model, &c->model->graph->nodes[0], (const vn_value_t *const *)c->in, NULL, &contract, want, c->out, &c->err);
    return true;
}

/* ---- comparing ---- */

/** Same bits; NaN by class; `zero`: either sign of zero. */
static inline bool tc_same(const vn_tensor_t *a, const vn_tensor_t *b, int64_t i, bool zero) {
    if (a->dtype == VN_STRING) {
        const vn_string_t *x = (const vn_string_t *)a->data + i, *y = (const vn_string_t *)b->data + i;
        return x->length == y->length && (x->length == 0 || memcmp(x->text, y->text, x->length) == 0);
    }
    if (a->dtype == VN_C64) return memcmp((const float *)a->data + 2 * i, (const float *)b->data + 2 * i, 8) == 0;
    if (vn_dtype_is_float(a->dtype)) {
        const double x = vn_tensor_get_f64(a, i), y = vn_tensor_get_f64(b, i);
        if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
        if (zero && x == 0 && y == 0) return true;
    }
    return vn_tensor_bits(a, i) == vn_tensor_bits(b, i);
}

static inline void tc_spell(const vn_tensor_t *t, int64_t i, char *out, size_t size) {
    if (t->dtype == VN_STRING) {
        const vn_string_t *s = (const vn_string_t *)t->data + i;
        snprintf(out, size, "\"%.*s\"", (int)s->length, s->text ? s->text : "");
    } else if (vn_dtype_is_float(t->dtype)) {
        const double v = vn_tensor_get_f64(t, i);
        snprintf(out, size, "%a (%.9g)", v, v);
    } else {
        snprintf(out, size, "%lld", (long long)vn_tensor_get_i64(t, i));
    }
}

/** Compares a tensor with an expected literal; ref NULL: a reading, values only. */
static inline bool tc_compare(char *literal, const vn_tensor_t *got, const vn_ref_t *ref, tc_report_t *r) {
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    char *list, *word, is[64], was[64], shape[128];
    vn_tensor_t *want;
    if (!tc_header(literal, &type, &rank, dims, &list, r)) return false;
    if (!got) return tc_wrong(r, "no tensor was given");
    vn_tensor_describe(got, shape, sizeof shape);
    bool same = got->dtype == type && got->rank == rank;
    for (int d = 0; d < rank && same; ++d) same = got->dims[d] == dims[d];
    if (!same) return tc_wrong(r, "the result is %s, expected %s", shape, literal);
    if (vn_tensor_new(type, rank, dims, &want, NULL) != VN_OK) return tc_wrong(r, "no memory");
    bool good = true;
    int64_t i = 0;
    for (; good && (word = tc_token(&list)) != NULL; ++i) {
        int flags = 0;
        bool zero = false;
        char *mark = type == VN_STRING ? NULL : strchr(word, '?'), *second = type == VN_STRING || *word == '*' ? NULL : strchr(word, '/');
        if (i >= want->count) good = tc_wrong(r, "more elements than the shape has");
        if (!good) break;
        if (mark) {
            *mark = '\0';
            flags |= strchr(mark + 1, 'i') ? VN_EL_INF_OK : 0;
            flags |= strchr(mark + 1, 'n') ? VN_EL_NAN_OK : 0;
            flags |= strchr(mark + 1, 'z') ? VN_EL_ZERO_OK : 0;
        }
        if (second) *second++ = '\0';
        if (*word == '~') ++word, zero = true;
        if (strcmp(word, "*") == 0) flags |= VN_EL_VOID;
        else if (!tc_store(want, i, word, r)) good = false;
        else if (!tc_same(want, got, i, zero)) {
            tc_spell(want, i, is, sizeof is);
            tc_spell(got, i, was, sizeof was);
            good = tc_wrong(r, "element %lld is %s, expected %s", (long long)i, was, is);
        }
        if (!good || !ref) continue;
        int given = ref->flags ? ref->flags[i] : 0;
        if (zero && !ref->value && !ref->either && !(given & VN_EL_ZERO_OK))
            good = tc_wrong(r, "element %lld: the sign of zero is not left open", (long long)i);
        if (zero) given &= ~VN_EL_ZERO_OK;
        if (given != flags && !(flags & VN_EL_VOID && given & VN_EL_VOID))
            good = tc_wrong(r, "element %lld (%s) has the permissions %d, expected %d", (long long)i, word, given, flags);
        if (second && good)
            good = tc_store(want, i, second, r) && ref->either &&
                   (tc_same(want, ref->either, i, false) || tc_wrong(r, "element %lld: the second value differs", (long long)i));
        if (second && !ref->either) good = tc_wrong(r, "element %lld has no second value", (long long)i);
        if (!second && good && ref->either && !zero && !(flags & VN_EL_VOID) && !tc_same(got, ref->either, i, false))
            good = tc_wrong(r, "element %lld has a second value, expected one", (long long)i);
    }
    if (good && i != want->count) good = tc_wrong(r, "%lld elements expected, the shape has %lld", (long long)i, (long long)want->count);
    vn_tensor_free(want);
    return good;
}

/** Planes hold no NaN and nothing negative, whatever the operands. */
static inline bool tc_planes(const vn_ref_t *ref, tc_report_t *r) {
    const struct {
        const char *name;
        const double *at;
    } planes[] = {{"bound", ref->bound}, {"var", ref->var}, {"own", ref->own}, {"wide", ref->wide}};
    for (size_t p = 0; p < sizeof planes / sizeof *planes; ++p)
        for (int64_t i = 0; planes[p].at && i < ref->count; ++i)
            if (!(planes[p].at[i] >= 0) && !(ref->flags && ref->flags[i] & VN_EL_VOID) && (!ref->value || isfinite(ref->value[i])))
                return tc_wrong(r, "%s[%lld] is %g", planes[p].name, (long long)i, planes[p].at[i]);
    return true;
}

/** One output against its entry. */
static inline bool tc_output(char *entry, const vn_ref_t *ref, tc_report_t *r) {
    if (strcmp(entry, "-") == 0) return true;
    if (strcmp(entry, "sequence") == 0) return ref->nested != NULL || tc_wrong(r, "the result is no sequence and no optional");
    if (!tc_planes(ref, r)) return false;
    if (strncmp(entry, "open: ", 6) != 0) {
        if (!tc_compare(entry, ref->tensor, ref, r)) return false;
        return ref->n_readings == 0 || tc_wrong(r, "a reading is not in the table: %s", ref->readings[0].name);
    }
    char *s = entry + 6, *part;
    int n = 0;
    for (; (part = tc_part(&s, '|')) != NULL; ++n) {
        char *equals = strstr(part, " = ");
        if (!equals) return tc_wrong(r, "no reading: %s", part);
        *equals = '\0';
        if (n == 0) {
            if (!tc_compare(equals + 3, ref->tensor, ref, r)) return false;
            continue;
        }
        const vn_reading_t *found = NULL;
        for (int k = 0; k < ref->n_readings; ++k)
            if (strcmp(ref->readings[k].name, part) == 0) found = &ref->readings[k];
        if (!found)
            return tc_wrong(r, "no reading of that name: %s (there are %d%s%s)", part, ref->n_readings,
                            ref->n_readings ? ", the first: " : "", ref->n_readings ? ref->readings[0].name : "");
        if (!tc_compare(equals + 3, found->value, NULL, r)) {
            const size_t length = strlen(r->text);
            snprintf(r->text + length, sizeof r->text - length, " (reading '%s')", part);
            return false;
        }
    }
    return n - 1 == ref->n_readings || tc_wrong(r, "%d readings are given, the table has %d", ref->n_readings, n - 1);
}

/** Evaluates a row and compares everything. */
static inline bool tc_check(tc_row_t *row, tc_report_t *r) {
    tc_case_t c;
    bool good = tc_run(row, VN_WANT_VARIANCE, &c, r);
    if (good && strncmp(c.expected[0], "error ", 6) == 0) {
        if (strcmp(vn_status_name(c.status), c.expected[0] + 6) != 0)
            good =
                tc_wrong(r, "%s (%s), expected %s", vn_status_name(c.status), c.status == VN_OK ? "a result" : c.err.text, c.expected[0]);
    } else if (good && c.status != VN_OK) {
        good = tc_wrong(r, "%s", c.err.text);
    } else {
        for (int k = 0; k < c.n_out && good; ++k)
            if (!tc_output(c.expected[k], &c.out[k], r)) {
                const size_t length = strlen(r->text);
                if (c.n_out > 1) snprintf(r->text + length, sizeof r->text - length, " (output %d)", k);
                good = false;
            }
    }
    tc_done(&c);
    return good;
}

#endif
