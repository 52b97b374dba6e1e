/* bench_detection.c -- false alarms and missed faults, counted: the mutant's operators in one process with the judge.
 *
 * usage: bench_detection [--quick] [--seeds N] [--part I/N] [--names N] [--only OPERATOR] [--fault ID]
 * --names N: of each fault's runs every N-th is asked for its cause too, which takes longer than the verdict; the others' cause is "?".
 * Prints one line a judgement, fields separated by tabs, for bench/detection.py:
 *   correct  operator type case association - - - and then as below
 *   fault    operator type case fault kind changed bits, and: peers; of each contract: verdict cause note e/bound rms z
 * The contracts are `declared` (the element type, f32 accumulation, functions within 4 ulp: what a kernel of that type promises; Gelu, whose tail
 * no usual kernel gives within that, keeps the portable budget) and `portable`.
 * `bits` is a hash of the faulty result: two faults with the same bits on the same case cannot be told apart.
 * --quick is the tier of ctest: one seed, the small cases; it prints what failed and ends with 1 if a correct run was rejected or a fault of
 * the data, the rules or the integers passed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detection.h"
#include "mutant/mutant.h"
#include "vernier/judge.h"

typedef struct settings {
    bool quick;
    int seeds, part, parts, names;
    const char *only, *fault;
    int64_t correct, alarms, faults, missed;
    int number;     /* of the case */
    int shown[256]; /* by row: cases that have shown the fault */
} settings_t;

/* The correct arithmetics: all orders, parts, a wider accumulator. */
static const char *const correct[] = {
    "association=sequential",
    "association=reversed",
    "association=pairwise",
    "association=lanes8",
    "association=lanes16",
    "association=blocks128",
    "association=fma",
    "split=8",
    "split=32",
    "accumulator=f64",
};

/* Operators whose result depends on the order. */
static bool sums(const vn_node_t *n) {
    static const char *const some[] = {"MatMul",     "Gemm", "Conv", "ConvTranspose", "Einsum",      "Attention",        "Softmax",
                                       "LogSoftmax", "LSTM", "GRU",  "RNN",           "AveragePool", "GlobalAveragePool"};
    for (size_t i = 0; i < sizeof some / sizeof *some; ++i)
        if (strcmp(some[i], n->op) == 0) return true;
    return strstr(n->op, "Normalization") || (strncmp(n->op, "Reduce", 6) == 0 && !strstr(n->op, "Max") && !strstr(n->op, "Min"));
}

/* ---- running ---- */

/* The result of an animal; `out` is released by free_results. */
static vn_status_t run(const bench_case_t *b, const animal_t *m, int turn, vn_tensor_t **out, int64_t *changed, vn_error_t *err) {
    const op_row_t *op = mutant_find("", b->node->op);
    if (!op) return vn_fail(err, VN_ERR_UNSUPPORTED, "the mutant has no operator %s", b->node->op);
    call_t c = {.turn = turn, .node = b->node, .opset = 24, .n_in = b->n_in, .n_out = b->n_out, .in = b->operands, .out = out, .err = err};
    return animal_run(m, op, &c, changed);
}

static void free_results(vn_tensor_t **out, int n) {
    for (int k = 0; k < n; ++k) {
        vn_tensor_free(out[k]);
        out[k] = NULL;
    }
}

enum { DECLARED, PORTABLE, N_CONTRACTS, QUICK_SHOWN = 1, SPARSE = 8 };

typedef struct judged {
    vn_contract_t contract[N_CONTRACTS];
    vn_ref_t refs[N_CONTRACTS][MAX_RESULTS];
    vn_tensor_t *plain[MAX_RESULTS]; /* of the usual kernel */
} judged_t;

typedef struct answer {
    vn_finding_t finding[N_CONTRACTS]; /* the worst over the outputs */
    char peers[N_PEERS + 1];
} answer_t;

static int badness(vn_verdict_t v) { return vn_verdict_fails(v) ? 100 + (int)v : v == VN_UNINFORMATIVE ? 50 : (int)v; }

/* Largest |a| of operand 0 times largest |b| of operand 1, for the rule of operands. */
static double largest_product(const bench_case_t *b) {
    double top[2] = {0, 1};
    const bool two = strcmp(b->node->op, "MatMul") == 0 || strcmp(b->node->op, "Gemm") == 0 || strstr(b->node->op, "Conv") ||
                     strcmp(b->node->op, "Einsum") == 0;
    if (!two && strncmp(b->node->op, "ReduceSum", 9) != 0) return NAN;
    for (int k = 0; k < (two ? 2 : 1); ++k) {
        top[k] = 0;
        for (int64_t i = 0; i < b->operands[k]->count; ++i) top[k] = fmax(top[k], fabs(vn_tensor_get_f64(b->operands[k], i)));
    }
    return top[0] * top[1];
}

static vn_status_t ask(const bench_case_t *b, const judged_t *j, int contract, vn_ask_t names, const vn_value_t *const *one,
                       const vn_value_t *const *two, vn_finding_t *worst, vn_error_t *err) {
    const vn_question_t q = {.model = b->model,
                             .node = b->node,
                             .inputs = (const vn_value_t *const *)b->in,
                             .contract = &j->contract[contract],
                             .refs = j->refs[contract],
                             .n_outputs = b->n_out,
                             .actual = one,
                             .actual2 = two,
                             .alpha = 1e-6 / (3.0 * (b->n_out + 1)),
                             .effort = VN_EFFORT_NORMAL,
                             .ask = names};
    vn_finding_t f[MAX_RESULTS];
    VN_TRY(vn_judge(&q, f, err));
    *worst = f[0];
    for (int k = 1; k < b->n_out; ++k)
        if (badness(f[k].verdict) > badness(worst->verdict)) *worst = f[k];
    return VN_OK;
}

static vn_status_t judge(const bench_case_t *b, const judged_t *j, vn_ask_t names, vn_tensor_t *const *one, vn_tensor_t *const *two,
                         answer_t *out, vn_error_t *err) {
    const vn_value_t *values[2][MAX_RESULTS] = {{0}};
    vn_value_t held[2][MAX_RESULTS] = {0};
    for (int k = 0; k < b->n_out; ++k)
        for (int r = 0; r < 2; ++r) {
            vn_tensor_t *t = r ? two ? two[k] : NULL : one[k];
            held[r][k] = (vn_value_t){.kind = VN_VALUE_TENSOR, .tensor = t, .refs = 1};
            values[r][k] = t ? &held[r][k] : NULL;
        }
    for (int c = 0; c < N_CONTRACTS; ++c)
        VN_TRY(ask(b, j, c, c == DECLARED ? names : VN_ASK_NONE, values[0], two ? values[1] : NULL, &out->finding[c], err));
    memset(out->peers, 'p', N_PEERS);
    out->peers[N_PEERS] = '\0';
    const double top = largest_product(b);
    for (int k = 0; k < b->n_out; ++k) {
        char v[N_PEERS + 1];
        const peer_question_t p = {&j->refs[DECLARED][k], one[k], j->plain[k], !isnan(top), top};
        peers_judge(&p, v);
        for (int i = 0; i < N_PEERS; ++i)
            if (v[i] == 'f' || (v[i] == '-' && k == 0)) out->peers[i] = v[i];
    }
    return VN_OK;
}

/* ---- lines ---- */

static uint64_t hash_of(vn_tensor_t *const *out, int n) {
    uint64_t h = 1469598103934665603u;
    for (int k = 0; k < n; ++k)
        for (int64_t i = 0; i < out[k]->count; ++i) h = (h ^ vn_tensor_bits(out[k], i)) * 1099511628211u;
    return h;
}

static void print_case(const char *kind, const bench_case_t *b, const char *type, const case_text_t *text) {
    printf("%s\t%s\t%s\t%s | %s\t", kind, b->node->op, type, text->operands, text->attributes);
}

static void print_answer(const answer_t *a, bool asked) {
    printf("%s", a->peers);
    for (int c = 0; c < N_CONTRACTS; ++c) {
        const vn_finding_t *f = &a->finding[c];
        const char *cause = !asked || c != DECLARED ? "?" : *f->cause ? f->cause : "-";
        printf("\t%s\t%s\t%s\t%.3g\t%.3g\t%.3g", vn_verdict_name(f->verdict), cause, *f->note ? f->note : "-", f->error_over_bound,
               f->rms_ratio, f->z_max);
    }
    printf("\n");
}

static vn_status_t one_correct(settings_t *s, const bench_case_t *b, const case_text_t *text, const char *type, const char *option,
                               const judged_t *j, vn_error_t *err) {
    animal_t m = {0};
    vn_tensor_t *out[MAX_RESULTS] = {0};
    answer_t a;
    VN_TRY(animal_option(&m, option, err));
    vn_status_t st = run(b, &m, 0, out, NULL, err);
    if (st == VN_OK) st = judge(b, j, VN_ASK_NONE, out, NULL, &a, err);
    free_results(out, b->n_out);
    VN_TRY(st);
    s->correct++;
    const bool alarm = vn_verdict_fails(a.finding[DECLARED].verdict) || vn_verdict_fails(a.finding[PORTABLE].verdict);
    s->alarms += alarm;
    if (s->quick && !alarm) return VN_OK;
    print_case("correct", b, type, text);
    printf("%s\t-\t-\t-\t", option);
    print_answer(&a, true);
    return VN_OK;
}

static vn_status_t one_fault(settings_t *s, const bench_case_t *b, const case_text_t *text, const char *type, int index, const judged_t *j,
                             vn_error_t *err) {
    const fault_row_t *row = fault_row(index);
    animal_t m = {.fault = {.row = row}};
    vn_tensor_t *out[MAX_RESULTS] = {0}, *again[MAX_RESULTS] = {0};
    int64_t changed = 0, changed_again = 0;
    answer_t a;
    const bool asked = !s->quick && s->shown[index] % s->names == 0;
    vn_status_t st = run(b, &m, 0, out, &changed, err);
    if (st == VN_OK && changed) st = run(b, &m, 1, again, &changed_again, err);
    if (st == VN_OK && changed) st = judge(b, j, asked ? VN_ASK_ALL : VN_ASK_NONE, out, again, &a, err);
    if (st == VN_OK && changed) {
        s->faults++;
        const vn_verdict_t v = a.finding[DECLARED].verdict;
        const bool missed = !vn_verdict_fails(v) && v != VN_SPEC_OPEN, mode = row->kind == FAULT_ARITHMETIC;
        s->missed += missed && !mode;
        if (!s->quick || (missed && !mode)) {
            print_case("fault", b, type, text);
            printf("%s\t%s\t%lld\t%016llx\t", row->name, fault_kind_name(row->kind), (long long)changed,
                   (unsigned long long)hash_of(out, b->n_out));
            print_answer(&a, asked);
        }
    }
    free_results(out, b->n_out);
    free_results(again, b->n_out);
    return st;
}

/* ---- cases ---- */

static vn_status_t prepare(const bench_case_t *b, const char *type, judged_t *j, vn_error_t *err) {
    char text[120];
    snprintf(text, sizeof text, "operand=%s,accumulator=%s,result=%s,function_ulp=4", type, strcmp(type, "f64") == 0 ? "f64" : "f32", type);
    if (!vn_contract_builtin("portable", &j->contract[PORTABLE])) return vn_fail(err, VN_ERR_INTERNAL, "no portable contract");
    VN_TRY(vn_contract_parse(strcmp(b->node->op, "Gelu") == 0 ? "portable" : text, &j->contract[DECLARED], err));
    for (int c = 0; c < N_CONTRACTS; ++c)
        VN_TRY(
            vn_oracle_node(b->model, b->node, (const vn_value_t *const *)b->in, NULL, &j->contract[c], VN_WANT_VARIANCE, j->refs[c], err));
    const animal_t usual = {0};
    return run(b, &usual, 0, j->plain, NULL, err);
}

static void release(judged_t *j, int n) {
    for (int k = 0; k < n; ++k)
        for (int c = 0; c < N_CONTRACTS; ++c) vn_ref_free(&j->refs[c][k]);
    free_results(j->plain, n);
}

static vn_status_t all_runs(settings_t *s, corpus_t which, const bench_case_t *b, const case_text_t *text, const char *type,
                            const judged_t *j, vn_error_t *err) {
    const int n = sums(b->node) ? (int)(sizeof correct / sizeof *correct) : 1;
    for (int i = 0; i < n && !s->fault; ++i) VN_TRY(one_correct(s, b, text, type, correct[i], j, err));
    for (int i = 0; fault_row(i); ++i) {
        const fault_row_t *row = fault_row(i);
        if (which != CORPUS_FAULTS && (i + s->number) % SPARSE) continue; /* of the grids every case takes some faults, in turn */
        if (!fault_fits(row, b->node->op) || (s->fault && strcmp(s->fault, row->name) != 0)) continue;
        if (s->quick && s->shown[i] >= QUICK_SHOWN) continue;
        const int64_t before = s->faults;
        VN_TRY(one_fault(s, b, text, type, i, j, err));
        s->shown[i] += s->faults > before;
    }
    return VN_OK;
}

static vn_status_t one_case(settings_t *s, corpus_t which, const case_text_t *text, const char *type, int seed, vn_error_t *err) {
    bench_case_t b;
    judged_t j = {0};
    VN_TRY(case_make(text, vn_dtype_from_name(type), 1 + (uint64_t)seed * 7919, &b, err));
    vn_status_t st = prepare(&b, type, &j, err);
    if (st == VN_OK) st = all_runs(s, which, &b, text, type, &j, err);
    release(&j, b.n_out);
    case_free(&b);
    return st == VN_OK ? st : vn_fail_prefix(err, "%s %s of %s", text->op, text->operands, type);
}

static vn_status_t one_corpus(settings_t *s, corpus_t which, vn_error_t *err) {
    const case_text_t *text;
    for (int i = 0; (text = corpus_case(which, i)); ++i) {
        if (s->only && strcmp(s->only, text->op) != 0) continue;
        for (const char *p = text->types; *p;) {
            char type[16];
            const size_t n = strcspn(p, " ");
            snprintf(type, sizeof type, "%.*s", (int)n, p);
            p += n + (p[n] == ' ');
            for (int seed = 0; seed < s->seeds; ++seed)
                if (s->number++ % s->parts == s->part) VN_TRY(one_case(s, which, text, type, seed, err));
            if (s->quick) break; /* one type a case */
        }
    }
    return VN_OK;
}

static bool take(settings_t *s, int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--quick") == 0) s->quick = true;
        else if (strcmp(argv[i], "--seeds") == 0) s->seeds = atoi(next), ++i;
        else if (strcmp(argv[i], "--part") == 0 && sscanf(next, "%d/%d", &s->part, &s->parts) == 2) ++i;
        else if (strcmp(argv[i], "--names") == 0) s->names = atoi(next), ++i;
        else if (strcmp(argv[i], "--only") == 0) s->only = next, ++i;
        else if (strcmp(argv[i], "--fault") == 0) s->fault = next, ++i;
        else return false;
    }
    return s->seeds >= 1 && s->names >= 1 && s->parts >= 1 && s->part >= 0 && s->part < s->parts;
}

int main(int argc, char **argv) {
    settings_t s = {.seeds = 1, .parts = 1, .names = 1};
    if (!take(&s, argc, argv)) {
        fprintf(stderr, "usage: bench_detection [--quick] [--seeds N] [--part I/N] [--names N] [--only OPERATOR] [--fault ID]\n");
        return 2;
    }
    if (s.parts > 1) vn_threads_set(1);
    vn_error_t err = {0};
    vn_status_t st = one_corpus(&s, CORPUS_FAULTS, &err);
    if (st == VN_OK && !s.quick) st = one_corpus(&s, CORPUS_DISPATCH, &err);
    if (st == VN_OK && !s.quick) st = one_corpus(&s, CORPUS_REDUCTIONS, &err);
    fprintf(stderr, "%lld correct runs, %lld rejected; %lld faults shown, %lld missed (arithmetics are counted by the script)\n",
            (long long)s.correct, (long long)s.alarms, (long long)s.faults, (long long)s.missed);
    if (st != VN_OK) fprintf(stderr, "bench_detection: %s\n", err.text);
    return st != VN_OK ? 2 : s.quick && (s.alarms || s.missed) ? 1 : 0;
}
