/* cases.c -- cases from text: attributes, operands, generators of data on which rules and faults show. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detection.h"

/* ---- generators: a letter after the shape, a number where it takes one ---- */

typedef struct draw {
    vn_rng_t rng;
    double number;
    const vn_tensor_t *t;
} draw_t;
typedef double (*generator_fn)(draw_t *d, int64_t i);

static double normal(draw_t *d, int64_t i) {
    (void)i;
    return vn_rng_normal(&d->rng) * (d->number > 0 ? d->number : 1);
}
static double offset(draw_t *d, int64_t i) {
    (void)i;
    return vn_rng_normal(&d->rng) + (d->number > 0 ? d->number : 100);
}
static double positive(draw_t *d, int64_t i) {
    (void)i;
    return 0.5 + 1.5 * vn_rng_uniform(&d->rng);
}
static double uniform(draw_t *d, int64_t i) {
    (void)i;
    return (2 * vn_rng_uniform(&d->rng) - 1) * (d->number > 0 ? d->number : 1);
}
static double halves(draw_t *d, int64_t i) { /* ties of a rounding */
    (void)i;
    return (double)(int64_t)vn_rng_below(&d->rng, 41) / 2 - 10;
}
static double few(draw_t *d, int64_t i) { /* many equal values */
    (void)i;
    return (double)(int64_t)vn_rng_below(&d->rng, 9) - 4;
}
static double codes(draw_t *d, int64_t i) { /* the whole range of an integer type */
    (void)i;
    const int bits = vn_dtype_bits(d->t->dtype) < 16 ? vn_dtype_bits(d->t->dtype) : 16;
    const double v = (double)vn_rng_below(&d->rng, (uint64_t)1 << bits);
    return vn_dtype_kind(d->t->dtype) == VN_KIND_SIGNED ? v - ldexp(1, bits - 1) : v;
}
static double wide_codes(draw_t *d, int64_t i) {
    (void)i;
    return (double)(int64_t)vn_rng_below(&d->rng, 2001) - 1000;
}
static double subnormal(draw_t *d, int64_t i) { return vn_rng_normal(&d->rng) * (i % 3 ? 0x1p-127 : 0x1p-120); }
static double some_nan(draw_t *d, int64_t i) { return i % 11 == 3 ? NAN : vn_rng_normal(&d->rng); }
static double negative(draw_t *d, int64_t i) {
    (void)i;
    return -0.5 - vn_rng_uniform(&d->rng);
}
static double boolean(draw_t *d, int64_t i) { /* first of a row always true */
    return i % d->t->dims[d->t->rank - 1] == 0 || vn_rng_below(&d->rng, 4) > 0;
}
static double some_rows(draw_t *d, int64_t i) { /* every third row false throughout */
    return i / d->t->dims[d->t->rank - 1] % 3 != 1;
}
static double band(draw_t *d, int64_t i) { /* true within `number` places before the diagonal */
    const int64_t n = d->t->dims[d->t->rank - 1], column = i % n, row = i / n % d->t->dims[d->t->rank - 2];
    return column <= row && row - column <= (int64_t)d->number;
}
static double index_any(draw_t *d, int64_t i) { /* either sign, with repetitions */
    (void)i;
    return (double)vn_rng_below(&d->rng, (uint64_t)(2 * d->number)) - d->number;
}
static double index_plain(draw_t *d, int64_t i) {
    (void)i;
    return (double)vn_rng_below(&d->rng, (uint64_t)d->number);
}
static double cosines(draw_t *d, int64_t i) {
    const int64_t half = d->t->dims[d->t->rank - 1];
    return cos((double)(i / half) * pow(10000, -(double)(i % half) / (double)half));
}
static double sines(draw_t *d, int64_t i) {
    const int64_t half = d->t->dims[d->t->rank - 1];
    return sin((double)(i / half) * pow(10000, -(double)(i % half) / (double)half));
}
static double ramp(draw_t *d, int64_t i) {
    (void)d;
    return (double)i;
}

static const struct {
    char letter;
    generator_fn f;
} generators[] = {
    {'n', normal},     {'o', offset},      {'p', positive}, {'u', uniform},  {'h', halves},  {'f', few},  {'q', codes},
    {'w', wide_codes}, {'s', subnormal},   {'x', some_nan}, {'m', negative}, {'b', boolean}, {'d', band}, {'z', some_rows},
    {'i', index_any},  {'j', index_plain}, {'C', cosines},  {'S', sines},    {'r', ramp},
};

/* ---- text ---- */

typedef struct text {
    const char *p, *whole;
    vn_error_t *err;
} text_t;

static void blanks(text_t *t) {
    while (*t->p == ' ') ++t->p;
}
static vn_status_t wrong(const text_t *t, const char *what) {
    return vn_fail(t->err, VN_ERR_PARSE, "case text '%.200s': %s at '%.20s'", t->whole, what, t->p);
}
static size_t word(text_t *t, char *out, size_t size) {
    size_t n = 0;
    while (isalnum((unsigned char)*t->p) || *t->p == '_' || *t->p == '-' || *t->p == '.') {
        if (n + 1 < size) out[n++] = *t->p;
        ++t->p;
    }
    out[n] = '\0';
    return n;
}
static int integers(text_t *t, char close, int64_t *v, int room) {
    int n = 0;
    for (blanks(t); *t->p && *t->p != close && n < room; blanks(t)) {
        char *end;
        v[n++] = strtoll(t->p, &end, 10);
        if (end == t->p) return -1;
        t->p = end;
        blanks(t);
        if (*t->p == ',') ++t->p;
    }
    if (*t->p != close) return -1;
    ++t->p;
    return n;
}

static vn_status_t read_attribute(text_t *t, vn_model_t *m, vn_node_t *node) {
    char key[40], value[80];
    if (!word(t, key, sizeof key) || *t->p != '=') return wrong(t, "no attribute");
    ++t->p;
    if (*t->p == '[') {
        ++t->p;
        int64_t v[16];
        const int n = integers(t, ']', v, 16);
        return n < 0 ? wrong(t, "no list") : vn_node_set_ints(m, node, key, v, n, t->err);
    }
    if (*t->p == '\'') { /* any text between quotes */
        const size_t n = strcspn(++t->p, "'");
        if (n >= sizeof value || t->p[n] != '\'') return wrong(t, "no end of a quoted text");
        memcpy(value, t->p, n);
        value[n] = '\0';
        t->p += n + 1;
        return vn_node_set_string(m, node, key, value, t->err);
    }
    if (!word(t, value, sizeof value)) return wrong(t, "no value");
    char *end;
    const double x = strtod(value, &end);
    if (*end) return vn_node_set_string(m, node, key, value, t->err);
    if (strpbrk(value, ".eE")) return vn_node_set_float(m, node, key, (float)x, t->err);
    return vn_node_set_int(m, node, key, (int64_t)x, t->err);
}

static vn_status_t fill(text_t *t, vn_tensor_t *v, uint64_t seed) {
    if (*t->p == '{') {
        int64_t list[16];
        ++t->p;
        const int n = integers(t, '}', list, 16);
        if (n < 1) return wrong(t, "no list of values");
        for (int64_t i = 0; i < v->count; ++i) vn_tensor_set_f64(v, i, (double)list[i % n]);
        return VN_OK;
    }
    const char letter = *t->p;
    draw_t d = {.t = v};
    vn_rng_seed(&d.rng, seed);
    for (size_t g = 0; g < sizeof generators / sizeof *generators; ++g) {
        if (generators[g].letter != letter) continue;
        char *end;
        d.number = strtod(++t->p, &end);
        t->p = end;
        for (int64_t i = 0; i < v->count; ++i) {
            const double x = generators[g].f(&d, i);
            if (vn_dtype_is_float(v->dtype)) vn_tensor_set_f64(v, i, x);
            else vn_tensor_set_i64(v, i, (int64_t)x);
        }
        return VN_OK;
    }
    return wrong(t, "no generator");
}

static const char *const names[MAX_OPERANDS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, *const results[MAX_RESULTS] = {
                                                                                                       "y", "y2", "y3", "y4"};

static vn_status_t read_operands(text_t *t, vn_dtype_t type, uint64_t seed, bench_case_t *out, const char **used) {
    for (blanks(t); *t->p; blanks(t)) {
        const int k = out->n_in++;
        if (k == MAX_OPERANDS) return wrong(t, "too many operands");
        used[k] = names[k];
        if (*t->p == '-') {
            used[k] = "";
            ++t->p;
        } else {
            char name[16];
            int64_t dims[VN_MAX_RANK];
            word(t, name, sizeof name);
            const vn_dtype_t dtype = strcmp(name, "T") == 0 ? type : vn_dtype_from_name(name);
            if (dtype == VN_UNDEFINED || *t->p != '[') return wrong(t, "no type");
            ++t->p;
            const int rank = integers(t, ']', dims, VN_MAX_RANK);
            if (rank < 0) return wrong(t, "no shape");
            vn_tensor_t *v;
            VN_TRY(vn_tensor_new(dtype, rank, dims, &v, t->err));
            out->operands[k] = v;
            if (!(out->in[k] = vn_value_tensor(v))) return vn_fail(t->err, VN_ERR_NOMEM, "no memory");
            VN_TRY(fill(t, v, seed + 1000 * (uint64_t)k));
            VN_TRY(vn_graph_add_input(out->model->graph, names[k], dtype, rank, dims, t->err));
        }
        blanks(t);
        if (*t->p == ';') ++t->p;
        else if (*t->p) return wrong(t, "no ';'");
    }
    return VN_OK;
}

static vn_status_t make(const case_text_t *text, vn_dtype_t type, uint64_t seed, bench_case_t *out, vn_error_t *err) {
    const char *used[MAX_OPERANDS];
    text_t operands = {text->operands, text->operands, err}, attributes = {text->attributes, text->attributes, err};
    VN_TRY(vn_model_new(12, &out->model, err));
    VN_TRY(vn_model_set_opset(out->model, "", 24, err));
    VN_TRY(read_operands(&operands, type, seed, out, used));
    vn_node_t *node;
    VN_TRY(
        vn_graph_add_node(out->model->graph, "n", text->op, "", out->n_in, used, text->outputs, (const char *const *)results, &node, err));
    for (blanks(&attributes); *attributes.p; blanks(&attributes)) VN_TRY(read_attribute(&attributes, out->model, node));
    for (int k = 0; k < text->outputs; ++k) VN_TRY(vn_graph_add_output(out->model->graph, results[k], VN_UNDEFINED, -1, NULL, err));
    VN_TRY(vn_model_finish(out->model, err));
    out->node = &out->model->graph->nodes[0];
    out->n_out = text->outputs;
    return VN_OK;
}

vn_status_t case_make(const case_text_t *text, vn_dtype_t type, uint64_t seed, bench_case_t *out, vn_error_t *err) {
    *out = (bench_case_t){0};
    vn_status_t s = make(text, type, seed, out, err);
    if (s != VN_OK) case_free(out);
    return s;
}

void case_free(bench_case_t *c) {
    for (int k = 0; k < c->n_in; ++k) vn_value_free(c->in[k]);
    vn_model_free(c->model);
    *c = (bench_case_t){0};
}
