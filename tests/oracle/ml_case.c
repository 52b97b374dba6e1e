/* ml_case.c -- recorded results of one-node models of ai.onnx.ml against the oracle: FOLDER..., each with model.onnx, in.npz and want.npz.
 *
 * The node is evaluated alone under the portable contract. Inputs by name; a map X as X/keys and X/values. Outputs by name; a sequence of maps Z as
 * Z/keys (the same for all) and Z/values [n, keys]. One line per output: FOLDER, output, verdict, detail, separated by tabs. Verdicts: exact,
 * inside (detail: largest error over bound), wide (its note), either, reading (its name), open, outside, error (its text).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vernier/oracle.h"

enum { MOST = 16 };

static void say(const char *folder, const char *output, const char *verdict, const char *detail) {
    printf("%s\t%s\t%s\t%s\n", folder, output, verdict, detail);
}

static vn_value_t *input(const vn_bundle_t *b, const char *name) {
    char key[200], value[200];
    const vn_tensor_t *t = vn_bundle_find(b, name);
    if (t) return vn_value_tensor(vn_tensor_retain(t));
    snprintf(key, sizeof key, "%.180s/keys", name);
    snprintf(value, sizeof value, "%.180s/values", name);
    const vn_tensor_t *k = vn_bundle_find(b, key), *v = vn_bundle_find(b, value);
    if (!k || !v) return NULL;
    vn_value_t *items[] = {vn_value_tensor(vn_tensor_retain(k)), vn_value_tensor(vn_tensor_retain(v))};
    vn_value_t *map = vn_value_list(VN_VALUE_MAP, v->dtype, items, 2);
    vn_value_free(items[0]);
    vn_value_free(items[1]);
    return map;
}

/* Element i of two tensors of one type. */
static bool same(const vn_tensor_t *a, const vn_tensor_t *b, int64_t i) {
    if (a->dtype == VN_STRING) {
        const vn_string_t *x = &((const vn_string_t *)a->data)[i], *y = &((const vn_string_t *)b->data)[i];
        return x->length == y->length && memcmp(x->text, y->text, x->length) == 0;
    }
    if (vn_dtype_is_float(a->dtype) && isnan(vn_tensor_get_f64(a, i)) && isnan(vn_tensor_get_f64(b, i))) return true;
    return vn_tensor_bits(a, i) == vn_tensor_bits(b, i);
}

static const char *element(const vn_ref_t *r, const vn_tensor_t *got, int64_t i, double *ratio) {
    const uint8_t flags = r->flags ? r->flags[i] : 0;
    if (same(r->tensor, got, i)) return "exact";
    if (r->either && same(r->either, got, i)) return "either";
    if (flags & VN_EL_VOID) return "open";
    if (!r->value) return "outside";
    const double x = vn_tensor_get_f64(got, i), y = r->value[i], e = fabs(x - y), own = vn_ref_own(r, i);
    if (isnan(x) || isnan(y) || isinf(y)) return isnan(x) && (flags & VN_EL_NAN_OK) ? "inside" : "outside";
    if (isinf(r->bound[i])) return "open";
    if (r->bound[i] > 0 && e / r->bound[i] > *ratio && e <= r->bound[i]) *ratio = e / r->bound[i];
    if (e <= r->bound[i] + own) return "inside";
    return r->wide && e <= r->wide[i] + own ? "wide" : "outside";
}

static void describe(const vn_tensor_t *t, int64_t i, char *out, size_t size) {
    if (t->dtype == VN_STRING) snprintf(out, size, "'%s'", ((const vn_string_t *)t->data)[i].text);
    else snprintf(out, size, "%.9g", vn_tensor_get_f64(t, i));
}

static void check(const char *folder, const char *name, const vn_ref_t *r, const vn_tensor_t *got) {
    static const char *const order[] = {"exact", "inside", "either", "open", "wide", "outside"};
    char a[120], b[120], text[600];
    double ratio = 0;
    size_t worst = 0;
    int64_t at = 0;
    vn_tensor_describe(r->tensor, a, sizeof a);
    vn_tensor_describe(got, b, sizeof b);
    for (int k = 0; strcmp(a, b) != 0 && k < r->n_readings; ++k)
        if (vn_reading_holds(&r->readings[k], got)) {
            say(folder, name, "reading", r->readings[k].name);
            return;
        }
    if (strcmp(a, b) != 0) {
        snprintf(text, sizeof text, "oracle %s, got %s", a, b);
        say(folder, name, "outside", text);
        return;
    }
    for (int64_t i = 0; i < got->count; ++i) {
        const char *v = element(r, got, i, &ratio);
        for (size_t k = worst + 1; k < sizeof order / sizeof *order; ++k)
            if (v == order[k] || strcmp(v, order[k]) == 0) worst = k, at = i;
    }
    for (int k = 0; strcmp(order[worst], "outside") == 0 && k < r->n_readings; ++k)
        if (vn_reading_holds(&r->readings[k], got)) {
            say(folder, name, "reading", r->readings[k].name);
            return;
        }
    describe(r->tensor, at, a, sizeof a);
    describe(got, at, b, sizeof b);
    if (strcmp(order[worst], "wide") == 0) snprintf(text, sizeof text, "%s", r->wide_note);
    else if (strcmp(order[worst], "outside") == 0)
        snprintf(text, sizeof text, "[%lld] oracle %s, got %s, bound %.3g, wide %.3g", (long long)at, a, b, r->bound ? r->bound[at] : 0.0,
                 r->wide ? r->wide[at] : 0.0);
    else snprintf(text, sizeof text, "%.3g", ratio);
    say(folder, name, order[worst], text);
}

static void check_maps(const char *folder, const char *name, const vn_ref_t *r, const vn_bundle_t *want) {
    char key[200], value[200];
    snprintf(key, sizeof key, "%.180s/keys", name);
    snprintf(value, sizeof value, "%.180s/values", name);
    const vn_tensor_t *k = vn_bundle_find(want, key), *v = vn_bundle_find(want, value);
    bool good = k && v && r->nested && v->rank == 2 && v->dims[0] == r->nested->count;
    for (int64_t i = 0; good && i < r->nested->count; ++i) {
        const vn_value_t *m = r->nested->items[i];
        good = m->kind == VN_VALUE_MAP && m->count == 2 && vn_tensor_equal_bits(m->items[0]->tensor, k);
        const vn_tensor_t *row = good ? m->items[1]->tensor : NULL;
        good = good && row->dtype == v->dtype && row->count == v->dims[1] &&
               memcmp(row->data, (const char *)v->data + (size_t)(i * row->count) * sizeof(float), (size_t)row->count * sizeof(float)) == 0;
    }
    say(folder, name, good ? "exact" : "outside", "maps");
}

static void evaluate(const char *folder, const vn_model_t *m, const vn_bundle_t *in, const vn_bundle_t *want) {
    const vn_node_t *n = &m->graph->nodes[0];
    vn_value_t *values[MOST] = {0};
    vn_ref_t refs[MOST] = {0};
    vn_error_t err = {0};
    vn_contract_t c;
    vn_contract_builtin("portable", &c);
    for (int k = 0; k < n->n_inputs && k < MOST; ++k) values[k] = input(in, n->inputs[k]);
    const bool fits = m->graph->n_nodes == 1 && n->n_inputs <= MOST && n->n_outputs <= MOST;
    const vn_status_t s = fits ? vn_oracle_node(m, n, (const vn_value_t *const *)values, NULL, &c, VN_WANT_VARIANCE, refs, &err)
                               : vn_fail(&err, VN_ERR_USAGE, "not a model of one node");
    if (s != VN_OK) {
        char text[700];
        snprintf(text, sizeof text, "%s: %s", vn_status_name(s), err.text);
        say(folder, "-", "error", text);
    }
    for (int k = 0; s == VN_OK && k < n->n_outputs; ++k) {
        const vn_tensor_t *got = vn_bundle_find(want, n->outputs[k]);
        if (got && refs[k].tensor) check(folder, n->outputs[k], &refs[k], got);
        else check_maps(folder, n->outputs[k], &refs[k], want);
        vn_ref_free(&refs[k]);
    }
    for (int k = 0; k < n->n_inputs && k < MOST; ++k) vn_value_free(values[k]);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        char path[3][1000];
        static const char *const files[] = {"model.onnx", "in.npz", "want.npz"};
        vn_error_t err = {0};
        vn_model_t *m = NULL;
        vn_bundle_t in = {0}, want = {0};
        for (int k = 0; k < 3; ++k) snprintf(path[k], sizeof path[k], "%.900s/%s", argv[i], files[k]);
        if (vn_model_read(path[0], &m, &err) || vn_npz_read(path[1], &in, &err) || vn_npz_read(path[2], &want, &err))
            say(argv[i], "-", "error", err.text);
        else evaluate(argv[i], m, &in, &want);
        vn_bundle_free(&in);
        vn_bundle_free(&want);
        vn_model_free(m);
    }
    return 0;
}
