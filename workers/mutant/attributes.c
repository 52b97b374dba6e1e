/* attributes.c -- attributes as the operator reads them: right, or ignored by the fault that says so. */
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

/* The attribute that attribute-ignored means where it names none: the first that the node has, else the first of the list. */
static const struct {
    const char *operator, * names;
} usual[] = {
    {"Gemm", "transA transB beta alpha"},
    {"Conv", "dilations group"},
    {"ConvInteger", "dilations"},
    {"QLinearConv", "dilations"},
    {"ConvTranspose", "strides dilations"},
    {"AveragePool", "dilations"},
    {"MaxPool", "dilations"},
    {"Resize", "cubic_coeff_a exclude_outside nearest_mode mode"},
    {"GridSample", "mode padding_mode align_corners"},
    {"Pad", "mode"},
    {"Mod", "fmod"},
    {"Cast", "saturate"},
    {"CumSum", "exclusive reverse"},
    {"GRU", "linear_before_reset"},
    {"DepthToSpace", "mode"},
    {"LeakyRelu", "alpha"},
    {"Elu", "alpha"},
    {"Celu", "alpha"},
    {"Selu", "alpha gamma"},
    {"ThresholdedRelu", "alpha"},
    {"HardSigmoid", "alpha beta"},
    {"ScatterElements", "reduction"},
    {"ScatterND", "reduction"},
    {"TopK", "largest"},
    {"QuantizeLinear", "saturate"},
    {"DequantizeLinear", "block_size"},
    {"Attention", "is_causal"},
};

static bool is_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = list; *p;) {
        const size_t k = strcspn(p, " ");
        if (k == n && strncmp(p, word, n) == 0) return true;
        p += k + strspn(p + k, " ");
    }
    return false;
}

bool faulty(const call_t *c, fault_id_t id) { return c->fault && c->fault->row && c->fault->row->id == id; }

double fault_number(const call_t *c, double fallback) { return c->fault && c->fault->value[0] ? strtod(c->fault->value, NULL) : fallback; }

bool ignored(const call_t *c, const char *name) {
    if (!faulty(c, F_ATTRIBUTE_IGNORED)) return false;
    if (c->fault->value[0]) return strcmp(c->fault->value, name) == 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i) {
        if (strcmp(usual[i].operator, c->node->op) != 0) continue;
        for (int k = 0; k < c->node->n_attrs; ++k)
            if (is_word(usual[i].names, c->node->attrs[k].name)) return strcmp(c->node->attrs[k].name, name) == 0;
        return strcspn(usual[i].names, " ") == strlen(name) && strncmp(usual[i].names, name, strlen(name)) == 0;
    }
    return false;
}

int64_t attr_int(const call_t *c, const char *name, int64_t fallback) {
    const int64_t v = vn_node_int(c->node, name, fallback);
    if (!ignored(c, name)) return v;
    return v != fallback ? fallback : v ? 0 : 1;
}

double attr_float(const call_t *c, const char *name, double fallback) {
    return ignored(c, name) ? fallback : vn_node_float(c->node, name, fallback);
}

/* The other value of a text that is the default already. */
static const struct {
    const char *value, *other;
} others[] = {
    {"nearest", "linear"}, {"linear", "nearest"}, {"bilinear", "nearest"},
    {"cubic", "linear"},   {"constant", "edge"},  {"reflect", "edge"},
    {"edge", "constant"},  {"zeros", "border"},   {"round_prefer_floor", "floor"},
    {"DCR", "CRD"},        {"none", "add"},
};

const char *attr_string(const call_t *c, const char *name, const char *fallback) {
    const char *v = vn_node_string(c->node, name, fallback);
    if (!ignored(c, name)) return v;
    if (strcmp(v, fallback) != 0) return fallback;
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
        if (strcmp(others[i].value, v) == 0) return others[i].other;
    return v;
}

double epsilon_of(const call_t *c, double fallback) {
    const double eps = vn_node_float(c->node, "epsilon", fallback);
    return faulty(c, F_EPS) ? fault_number(c, 0) : eps;
}

int64_t axis_of(const call_t *c, int64_t axis, int rank) {
    if (!faulty(c, F_AXIS)) return axis;
    int64_t other = (int64_t)fault_number(c, axis == 0 || axis == -rank ? 1 : 0);
    if (other < 0) other += rank;
    return other >= 0 && other < rank ? other : axis;
}
