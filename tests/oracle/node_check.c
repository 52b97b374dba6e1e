/* node_check.c -- one case of the ONNX backend suite against the oracle. */
#include "oracle/node_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_OUTPUTS = 64, MANY_NODES = 64 };

const char *node_state_name(node_state_t s) {
    static const char *const names[] = {"inside", "random", "outside", "unsupported", "broken"};
    return names[s];
}

/* What one output is called in a line. */
typedef struct place {
    node_report_t *report;
    const vn_model_t *model;
    const char *name;
    int set;
    bool drawn; /* some node of the graph is random: what we make no statement about may be its doing */
    bool alone; /* one node that runs no body: what we make no statement about is what the standard leaves undefined */
} place_t;

static void say(const place_t *p, bool failed, const char *fmt, ...) VN_PRINTF(3, 4);
static void say(const place_t *p, bool failed, const char *fmt, ...) {
    char text[1000], op[120];
    const vn_graph_t *g = p->model->graph;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (g->n_nodes == 0) snprintf(op, sizeof op, "no operator");
    else
        snprintf(op, sizeof op, "%.40s%s%.60s%s", g->nodes[0].domain, *g->nodes[0].domain ? "." : "", g->nodes[0].op,
                 g->n_nodes > 1 ? " ..." : "");
    if (p->report->want_lines) vn_text_printf(&p->report->lines, "%s, set %d, output %s: %s\n", op, p->set, p->name, text);
    if (!failed) return;
    if (!*p->report->failure)
        snprintf(p->report->failure, sizeof p->report->failure, "%s, set %d, output %.80s: %.1000s", op, p->set, p->name, text);
    p->report->state = NODE_OUTSIDE;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Bits are equal; NaNs are alike whatever they carry. */
static bool equal_element(const vn_tensor_t *a, const vn_tensor_t *b, int64_t i) {
    if (vn_dtype_bits(a->dtype) > 64) /* complex128: compared as a whole by its bytes */
        return memcmp((const char *)a->data + 16 * i, (const char *)b->data + 16 * i, 16) == 0;
    if (vn_tensor_bits(a, i) == vn_tensor_bits(b, i)) return true;
    return vn_dtype_is_float(a->dtype) && isnan(vn_tensor_get_f64(a, i)) && isnan(vn_tensor_get_f64(b, i));
}

static bool follows(const vn_tensor_t *reading, const vn_tensor_t *got) {
    if (reading->dtype == VN_STRING) return vn_tensor_equal_bits(reading, got);
    for (int64_t i = 0; i < got->count; ++i)
        if (!equal_element(reading, got, i)) return false;
    return true;
}

/* How one expected element stands to ours. */
typedef enum fate { FATE_GOOD, FATE_UNDEFINED, FATE_OPEN_GOOD, FATE_OPEN_BAD, FATE_BAD } fate_t;

static double room_of(const vn_ref_t *r, int64_t i) {
    return r->bound && r->wide && r->wide[i] > r->bound[i] ? r->wide[i] : r->bound ? r->bound[i] : 0;
}

static fate_t fate(const place_t *p, const vn_ref_t *r, const vn_tensor_t *got, int64_t i, double *ratio) {
    const uint8_t flags = r->flags ? r->flags[i] : 0;
    const bool equal = equal_element(r->tensor, got, i) || (r->either && equal_element(r->either, got, i));
    if (flags & VN_EL_VOID) {
        if (p->alone && (!r->bound || isfinite(r->bound[i]))) return FATE_UNDEFINED;
        return equal ? FATE_OPEN_GOOD : FATE_OPEN_BAD;
    }
    if (equal) return FATE_GOOD;
    if (!vn_dtype_is_float(got->dtype) && !r->bound) return FATE_BAD; /* integers with a bound: lossy pictures */
    const double x = vn_tensor_get_f64(got, i), y = r->value ? r->value[i] : vn_tensor_get_f64(r->tensor, i);
    if (same(x, y) || (isnan(x) && (flags & VN_EL_NAN_OK)) || (isinf(x) && (flags & VN_EL_INF_OK)) || (x == 0 && (flags & VN_EL_ZERO_OK)))
        return FATE_GOOD;
    const double room = room_of(r, i), e = fabs(x - y);
    if (!r->bound && !(p->report->decimals > 0)) return FATE_BAD;
    if (!isfinite(room)) return isfinite(y) ? FATE_OPEN_BAD : FATE_BAD;
    if (e / room > *ratio) *ratio = e / room;
    const double digits = p->report->decimals > 0 ? pow(10, -p->report->decimals) : 0;
    return e <= room + digits + vn_ref_own(r, i) ? FATE_GOOD : FATE_BAD;
}

static void index_text(const vn_tensor_t *t, int64_t i, char *out, size_t size) {
    int64_t at[VN_MAX_RANK] = {0};
    size_t n = 0;
    for (int k = t->rank - 1; k >= 0; --k) {
        at[k] = t->dims[k] ? i % t->dims[k] : 0;
        i = t->dims[k] ? i / t->dims[k] : 0;
    }
    out[0] = 0;
    for (int k = 0; k < t->rank && n + 24 < size; ++k) n += (size_t)snprintf(out + n, size - n, "%s%lld", k ? "," : "", (long long)at[k]);
}

static bool in_range(const vn_ref_t *r, const vn_tensor_t *got) {
    for (int64_t i = 0; i < got->count; ++i) {
        const double x = vn_tensor_get_f64(got, i);
        if (!(x >= r->range_lo && x <= r->range_hi)) return false;
    }
    return true;
}

static void count_random(const place_t *p) {
    if (p->report->state == NODE_INSIDE) p->report->state = NODE_RANDOM;
}

/* Every bound is wider than the largest result: an output of anything like that size would pass. f16 and wider; a code of 8 bits is one of few. */
static bool says_nothing(const vn_ref_t *r) {
    double largest = 0, narrowest = INFINITY;
    if (!r->value || !r->bound || vn_dtype_bits(r->dtype) < 16) return false;
    for (int64_t i = 0; i < r->count; ++i) {
        if (isfinite(r->value[i])) largest = fmax(largest, fabs(r->value[i]));
        narrowest = fmin(narrowest, r->bound[i]);
    }
    return r->count && isfinite(narrowest) && largest > 0 && narrowest > largest;
}

static void check_elements(const place_t *p, const vn_ref_t *r, const vn_tensor_t *got, const char *type) {
    int64_t outside = 0, open = 0, undefined = 0, first = -1;
    double worst = 0;
    for (int64_t i = 0; i < got->count; ++i) {
        const fate_t f = fate(p, r, got, i, &worst);
        undefined += f == FATE_UNDEFINED;
        open += f == FATE_OPEN_GOOD || f == FATE_OPEN_BAD;
        const bool bad = f == FATE_BAD || (f == FATE_OPEN_BAD && !p->drawn);
        if (bad && first < 0) first = i;
        outside += bad;
    }
    p->report->undefined += undefined;
    if (undefined && undefined == got->count) {
        say(p, true, "%s: the standard leaves every element undefined: the check could not fail", type);
    } else if (says_nothing(r)) {
        say(p, true, "%s: every bound is wider than the largest result: the check says nothing", type);
    } else if (!outside && open && p->drawn) {
        count_random(p);
        say(p, false, "%s drawn, type and shape agree", type);
    } else if (!outside) {
        p->report->open |= open > 0;
        say(p, false, "%s inside, error/bound %.3g%s%s", type, worst, open ? ", no bound: the rounded value itself" : "",
            undefined ? ", some left undefined by the standard" : "");
    } else {
        char at[200];
        const double x = vn_tensor_get_f64(got, first), y = r->value ? r->value[first] : vn_tensor_get_f64(r->tensor, first);
        index_text(got, first, at, sizeof at);
        say(p, true,
            "%s: %lld of %lld outside, first at [%s]: expected %a (%.9g, bits 0x%llx), oracle %a (%.17g, bits 0x%llx), bound %a, "
            "largest error/bound %.3g%s",
            type, (long long)outside, (long long)got->count, at, x, x,
            vn_dtype_bits(got->dtype) <= 64 ? (unsigned long long)vn_tensor_bits(got, first) : 0, y, y,
            vn_dtype_bits(got->dtype) <= 64 ? (unsigned long long)vn_tensor_bits(r->tensor, first) : 0, r->bound ? room_of(r, first) : 0.0,
            worst, open ? " (some elements without a bound)" : "");
    }
}

static void check_tensor(const place_t *p, const vn_ref_t *r, const vn_tensor_t *got) {
    char ours[400], theirs[400];
    vn_tensor_describe(got, theirs, sizeof theirs);
    if (!r->tensor) {
        say(p, true, "no tensor, expected %s", theirs);
        return;
    }
    vn_tensor_describe(r->tensor, ours, sizeof ours);
    if (strcmp(ours, theirs) != 0) {
        say(p, true, "oracle %s, expected %s", ours, theirs);
    } else if (r->is_random) {
        const bool good = in_range(r, got);
        say(p, !good, "%s random, type and shape agree, range [%g, %g]%s", ours, r->range_lo, r->range_hi, good ? "" : " is left");
        count_random(p);
    } else if (got->dtype == VN_STRING) {
        bool good = vn_tensor_equal_bits(r->tensor, got);
        for (int k = 0; k < r->n_readings; ++k) good |= vn_reading_holds(&r->readings[k], got);
        say(p, !good, "%s strings %s", ours, good ? "agree" : "differ");
    } else {
        for (int k = 0; k < r->n_readings; ++k)
            if (vn_reading_holds(&r->readings[k], got)) {
                say(p, false, "%s reading %s", ours, r->readings[k].name);
                return;
            }
        check_elements(p, r, got, ours);
    }
}

/* ---- values ---- */

static const char *const kind_names[] = {"nothing", "a tensor", "a sequence", "an optional"};

/* An optional that holds something is what it holds: backends hand both forms out, and the standard's own data do. */
static const vn_value_t *inner(const vn_value_t *v) {
    while (v && v->kind == VN_VALUE_OPTIONAL && v->count == 1) v = v->items[0];
    return v;
}

/* Structure and bits of what is nested; where says which item differs. */
static bool equal_values(const vn_value_t *a, const vn_value_t *b, char *where, size_t size) {
    a = inner(a);
    b = inner(b);
    const vn_value_kind_t ka = a ? a->kind : VN_VALUE_ABSENT, kb = b ? b->kind : VN_VALUE_ABSENT;
    if (ka != kb) {
        snprintf(where, size, "is %s instead of %s", kind_names[ka], kind_names[kb]);
        return false;
    }
    if (ka == VN_VALUE_TENSOR) {
        char ours[300], theirs[300];
        vn_tensor_describe(a->tensor, ours, sizeof ours);
        vn_tensor_describe(b->tensor, theirs, sizeof theirs);
        bool good = strcmp(ours, theirs) == 0;
        if (!good) snprintf(where, size, "is %.100s instead of %.100s", ours, theirs);
        else if (!(good = follows(a->tensor, b->tensor))) snprintf(where, size, "differs, %.100s", ours);
        return good;
    }
    const int64_t na = a ? a->count : 0, nb = b ? b->count : 0;
    if (na != nb) {
        snprintf(where, size, "holds %lld instead of %lld", (long long)na, (long long)nb);
        return false;
    }
    for (int64_t i = 0; i < na; ++i) {
        char deeper[300];
        if (!equal_values(a->items[i], b->items[i], deeper, sizeof deeper)) {
            snprintf(where, size, "[%lld] %.250s", (long long)i, deeper);
            return false;
        }
    }
    return true;
}

static void check_value(const place_t *p, const vn_ref_t *r, const vn_value_t *want) {
    char where[400] = "";
    const vn_value_t *plain = inner(want);
    if (plain && plain->kind == VN_VALUE_TENSOR && !r->nested) {
        check_tensor(p, r, plain->tensor);
        return;
    }
    vn_value_t *own = r->nested ? vn_value_retain(r->nested) : r->tensor ? vn_value_tensor(vn_tensor_retain(r->tensor)) : NULL;
    const bool good = equal_values(own, want, where, sizeof where);
    vn_value_free(own);
    say(p, !good, "%s %s%s", kind_names[want->kind], good ? "agrees in structure and bits" : "", where);
}

/* ---- one data set ---- */

static bool is_alone(const vn_model_t *m) {
    vn_op_info_t info;
    return m->graph->n_nodes == 1 && vn_oracle_knows(m, &m->graph->nodes[0], &info) && info.cls != VN_CLASS_CONTROL;
}

static bool has_random(const vn_model_t *m) {
    for (int i = 0; i < m->graph->n_nodes; ++i) {
        vn_op_info_t info;
        if (vn_oracle_knows(m, &m->graph->nodes[i], &info) && info.cls == VN_CLASS_RANDOM) return true;
    }
    return false;
}

static void broken(node_report_t *report, vn_status_t s, const char *text) {
    report->state = s == VN_ERR_UNSUPPORTED ? NODE_UNSUPPORTED : NODE_BROKEN;
    if (!*report->failure) snprintf(report->failure, sizeof report->failure, "%s: %.1200s", vn_status_name(s), text);
    if (report->want_lines) vn_text_printf(&report->lines, "%s: %s\n", vn_status_name(s), text);
}

/* want[k] belongs to graph output k; NULL: nothing is expected of it. */
static void run_set(const vn_model_t *m, const vn_value_t *const *in, const vn_value_t *const *want, int set, node_report_t *report) {
    vn_ref_t refs[MAX_OUTPUTS] = {0};
    vn_error_t err = {0};
    vn_contract_t c;
    vn_contract_builtin("portable", &c);
    /* Variances are not judged here, but computing them runs their code; whole networks would take twice as long. */
    const int want_planes = m->graph->n_nodes > MANY_NODES ? VN_WANT_BOUND : VN_WANT_VARIANCE;
    const vn_status_t s = vn_oracle_region_values(m, in, &c, want_planes, refs, &err);
    if (s != VN_OK) broken(report, s, err.text);
    for (int k = 0; k < m->graph->n_outputs && s == VN_OK; ++k) {
        const place_t p = {report, m, m->graph->outputs[k].name, set, has_random(m), is_alone(m)};
        if (want[k]) check_value(&p, &refs[k], want[k]);
        vn_ref_free(&refs[k]);
    }
}

void node_check_bundles(const vn_model_t *m, const vn_bundle_t *in, const vn_bundle_t *want, node_report_t *report) {
    const int ni = m->graph->n_inputs, no = m->graph->n_outputs;
    vn_value_t **values = vn_alloc((size_t)(ni ? ni : 1), sizeof *values), *expected[MAX_OUTPUTS] = {0};
    if (!values || no > MAX_OUTPUTS) {
        broken(report, VN_ERR_RANGE, "too many inputs or outputs");
        vn_free(values);
        return;
    }
    for (int i = 0; i < ni; ++i) {
        const vn_tensor_t *t = vn_bundle_find(in, m->graph->inputs[i].name);
        values[i] = t ? vn_value_tensor(vn_tensor_retain(t)) : NULL;
    }
    for (int k = 0; k < no; ++k) {
        const vn_tensor_t *t = vn_bundle_find(want, m->graph->outputs[k].name);
        expected[k] = t ? vn_value_tensor(vn_tensor_retain(t)) : NULL;
    }
    run_set(m, (const vn_value_t *const *)values, (const vn_value_t *const *)expected, 0, report);
    for (int i = 0; i < ni; ++i) vn_value_free(values[i]);
    for (int k = 0; k < no; ++k) vn_value_free(expected[k]);
    vn_free(values);
}

/* ---- folders ---- */

static vn_dtype_t elem_of(const vn_type_t *t) {
    while (t && t->kind != VN_TYPE_TENSOR) t = t->elem;
    return t ? t->dtype : VN_UNDEFINED;
}

/* FOLDER/STEM_J.pb as the declared type says; NULL and VN_OK where there is no such file. */
static vn_status_t read_value(const char *folder, const char *stem, int j, const vn_value_info_t *info, vn_value_t **out, vn_error_t *err) {
    char path[2000];
    struct stat st;
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s_%d.pb", folder, stem, j);
    if (stat(path, &st) != 0) return VN_OK;
    const vn_type_kind_t k = info->type.kind;
    const vn_value_kind_t kind = k == VN_TYPE_SEQUENCE ? VN_VALUE_SEQUENCE : k == VN_TYPE_OPTIONAL ? VN_VALUE_OPTIONAL : VN_VALUE_TENSOR;
    return vn_value_read(path, kind, elem_of(&info->type), out, err);
}

static bool check_set(const vn_model_t *m, const char *folder, int set, node_report_t *report) {
    const vn_graph_t *g = m->graph;
    const size_t ni = (size_t)(g->n_inputs ? g->n_inputs : 1);
    vn_value_t **in = vn_alloc(ni, sizeof *in), *want[MAX_OUTPUTS] = {0};
    int *run = vn_alloc(ni, sizeof *run), expected = 0;
    vn_error_t err = {0};
    vn_status_t s = in && run ? VN_OK : vn_fail(&err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK && g->n_outputs > MAX_OUTPUTS) s = vn_fail(&err, VN_ERR_RANGE, "%d outputs", g->n_outputs);
    const int n = s == VN_OK ? vn_graph_run_inputs(g, run) : 0;
    for (int j = 0; j < n && s == VN_OK; ++j) s = read_value(folder, "input", j, &g->inputs[run[j]], &in[run[j]], &err);
    for (int k = 0; k < g->n_outputs && s == VN_OK; ++k) {
        s = read_value(folder, "output", k, &g->outputs[k], &want[k], &err);
        expected += want[k] != NULL;
    }
    if (s == VN_OK && !expected) s = vn_fail(&err, VN_ERR_NOTFOUND, "%s: nothing is expected: the check could not fail", folder);
    if (s != VN_OK) broken(report, s, err.text);
    else run_set(m, (const vn_value_t *const *)in, (const vn_value_t *const *)want, set, report);
    for (int i = 0; in && i < g->n_inputs; ++i) vn_value_free(in[i]);
    for (int k = 0; k < MAX_OUTPUTS; ++k) vn_value_free(want[k]);
    vn_free(in);
    vn_free(run);
    return s == VN_OK;
}

void node_check_folder(const char *folder, node_report_t *report) {
    char path[1500];
    struct stat st;
    vn_error_t err = {0};
    vn_model_t *m = NULL;
    report->state = NODE_INSIDE;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    const vn_status_t s = vn_model_read(path, &m, &err);
    if (s != VN_OK) {
        broken(report, s, err.text);
        return;
    }
    int set = 0;
    for (;; ++set) {
        snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
        if (stat(path, &st) != 0 || !check_set(m, path, set, report)) break;
    }
    if (set == 0 && !*report->failure) broken(report, VN_ERR_NOTFOUND, "there is no test_data_set_0");
    vn_model_free(m);
}
