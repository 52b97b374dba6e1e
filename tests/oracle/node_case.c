/* node_case.c -- one recorded case against the oracle: MODEL.onnx INPUTS.npz EXPECTED.npz.
 *
 * The graph is evaluated as a region under the portable contract; every expected output must have the type and shape of ours, equal bits
 * where the result is exact (either of two where there is a tie window, or one reading throughout), and lie inside our bound for an f32
 * evaluation otherwise. Prints one line per output; exit 0 all inside, 1 some outside, 2 unreadable, 3 unsupported.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "vernier/oracle.h"

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool follows(const vn_tensor_t *want, const vn_tensor_t *got, int64_t *at) {
    for (int64_t i = 0; i < got->count; ++i)
        if (vn_tensor_bits(want, i) != vn_tensor_bits(got, i) &&
            !(vn_dtype_is_float(got->dtype) && same(vn_tensor_get_f64(want, i), vn_tensor_get_f64(got, i)))) {
            *at = i;
            return false;
        }
    return true;
}

static int check(const char *name, const vn_ref_t *r, const vn_tensor_t *got) {
    char a[200], b[200];
    vn_tensor_describe(got, b, sizeof b);
    if (!r->tensor) {
        printf("%s: no tensor\n", name);
        return 1;
    }
    vn_tensor_describe(r->tensor, a, sizeof a);
    if (strcmp(a, b)) {
        printf("%s: oracle %s, expected %s\n", name, a, b);
        return 1;
    }
    if (r->is_random) {
        printf("%s: random, type and shape agree\n", name);
        return 0;
    }
    if (got->dtype == VN_STRING) {
        bool good = vn_tensor_equal_bits(r->tensor, got);
        printf("%s: strings %s\n", name, good ? "agree" : "differ");
        return !good;
    }
    int64_t at = 0, outside = 0, first = -1;
    double worst = 0;
    for (int k = 0; k < r->n_readings; ++k)
        if (follows(r->readings[k].value, got, &at)) {
            printf("%s: reading %s\n", name, r->readings[k].name);
            return 0;
        }
    for (int64_t i = 0; i < got->count; ++i) {
        const uint64_t bits = vn_tensor_bits(got, i);
        bool good = bits == vn_tensor_bits(r->tensor, i) || (r->either && bits == vn_tensor_bits(r->either, i));
        if (!good && vn_dtype_is_float(got->dtype)) {
            const double x = vn_tensor_get_f64(got, i), y = r->value ? r->value[i] : vn_tensor_get_f64(r->tensor, i);
            const uint8_t flags = r->flags ? r->flags[i] : 0;
            good = same(x, y) || (isnan(x) && (flags & VN_EL_NAN_OK)) || (isinf(x) && (flags & VN_EL_INF_OK)) || (flags & VN_EL_VOID);
            if (!good && r->bound) {
                const double room = r->wide && r->wide[i] > r->bound[i] ? r->wide[i] : r->bound[i], e = fabs(x - y);
                if (e / room > worst) worst = e / room;
                good = e <= room + (r->own ? r->own[i] : 0x1p-52 * fabs(y));
            }
        }
        if (!good) {
            if (first < 0) first = i;
            outside++;
        }
    }
    if (outside) {
        printf("%s %s: %lld of %lld outside, first at %lld: expected %.9g (0x%llx), oracle %.17g (0x%llx), bound %.3g, worst %.3g\n", name,
               a, (long long)outside, (long long)got->count, (long long)first, vn_tensor_get_f64(got, first),
               (unsigned long long)vn_tensor_bits(got, first), r->value ? r->value[first] : vn_tensor_get_f64(r->tensor, first),
               (unsigned long long)vn_tensor_bits(r->tensor, first), r->bound ? r->bound[first] : 0.0, worst);
        return 1;
    }
    printf("%s %s: inside, error/bound %.3g\n", name, a, worst);
    return 0;
}

int main(int argc, char **argv) {
    vn_error_t err = {0};
    vn_model_t *m = NULL;
    vn_bundle_t in = {0}, want = {0};
    vn_contract_t c;
    if (argc != 4 || vn_model_read(argv[1], &m, &err) || vn_npz_read(argv[2], &in, &err) || vn_npz_read(argv[3], &want, &err)) {
        fprintf(stderr, "node_case: %s\n", argc == 4 ? err.text : "usage: MODEL.onnx INPUTS.npz EXPECTED.npz");
        return 2;
    }
    vn_contract_builtin("portable", &c);
    vn_ref_t refs[64] = {0};
    int bad = 0;
    vn_status_t s = m->graph->n_outputs <= 64 ? vn_oracle_region(m, &in, &c, VN_WANT_VARIANCE, refs, &err) : VN_ERR_RANGE;
    if (s != VN_OK) {
        printf("%s: %s\n", vn_status_name(s), err.text);
        bad = s == VN_ERR_UNSUPPORTED ? 3 : 1;
    }
    for (int k = 0; s == VN_OK && k < m->graph->n_outputs; ++k) {
        const vn_tensor_t *got = vn_bundle_find(&want, m->graph->outputs[k].name);
        if (got) bad |= check(m->graph->outputs[k].name, &refs[k], got);
        vn_ref_free(&refs[k]);
    }
    vn_bundle_free(&in);
    vn_bundle_free(&want);
    vn_model_free(m);
    return bad;
}
