/* reveal_output.c -- a revealed schedule as text, JSON and SVG. */
#include "cli/reveal_output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void dims(char *out, size_t size, const vn_sum_op_t *op) {
    size_t at = 0;
    if (op->kind == VN_SUM_CONV) {
        snprintf(out, size, "%lldx%lldx%lldx%lld by %lld filters %lldx%lld, groups %lld%s", (long long)op->batch, (long long)op->channels,
                 (long long)op->height, (long long)op->width, (long long)op->filters, (long long)op->kernel[0], (long long)op->kernel[1],
                 (long long)op->groups, op->addend ? ", bias" : "");
    } else if (op->kind == VN_SUM_ATTENTION) {
        snprintf(out, size, "%lld heads, %lld queries, %lld keys of %lld", (long long)op->heads, (long long)op->m, (long long)op->keys,
                 (long long)op->head_size);
    } else if (op->kind == VN_SUM_MATMUL_NBITS) {
        snprintf(out, size, "%lldx%lldx%lld, %d bits in blocks of %lld%s, accuracy_level %d", (long long)op->m, (long long)op->k,
                 (long long)op->n, op->bits, (long long)op->block, op->zero_points ? " with zero points" : "", op->accuracy);
    } else if (op->kind == VN_SUM_MATMUL) {
        if (op->batch > 1) at = (size_t)snprintf(out, size, "%lldx", (long long)op->batch);
        snprintf(out + at, size - at, "%lldx%lldx%lld%s%s%s", (long long)op->m, (long long)op->k, (long long)op->n,
                 op->transpose_a ? " transA" : "", op->transpose_b ? " transB" : "", op->addend ? " + C" : "");
    } else {
        snprintf(out, size, "%lld rows of %lld", (long long)op->m, (long long)op->n);
    }
}

static void line(vn_text_t *out, const char *label, const char *value) { vn_text_printf(out, "%-12s%s\n", label, value); }

static void card_line(vn_text_t *out, const vn_card_row_t *r) { vn_text_printf(out, "  %-5s %-30s %s\n", r->id, r->subject, r->finding); }

static bool of_the_addend(const vn_card_row_t *r) {
    return strcmp(r->id, "P17") == 0 || strcmp(r->id, "P18") == 0 || strcmp(r->id, "P19") == 0;
}

void vn_reveal_print_card(vn_text_t *out, const vn_card_t *card, const vn_card_t *with_addend) {
    for (int i = 0; i < card->n; ++i) {
        const vn_card_row_t *r = &card->rows[i];
        for (int k = 0; with_addend && of_the_addend(r) && k < with_addend->n; ++k)
            if (strcmp(with_addend->rows[k].id, r->id) == 0) {
                r = &with_addend->rows[k];
                break;
            }
        card_line(out, r);
    }
}

void vn_reveal_print(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why) {
    char shape[160], words[400];
    if (!got) {
        vn_text_printf(out, "%s  not revealed: %s\n", r->backend, why->text);
        return;
    }
    const vn_schedule_t *s = got->schedule;
    dims(shape, sizeof shape, &s->op);
    vn_text_printf(out, "%s  %s %s %s  %d class%s", r->backend, vn_sum_kind_name(s->op.kind), vn_dtype_name(s->op.dtype), shape,
                   s->n_classes, s->n_classes == 1 ? "" : "es");
    if (s->elements) vn_text_printf(out, ", %lld of %lld elements replayed bit for bit", (long long)s->replayed, (long long)s->elements);
    vn_text_add(out, "\n");
    for (int c = 0; c < s->n_classes; ++c) {
        const vn_schedule_class_t *k = &s->classes[c];
        if (!k->tree) {
            vn_text_printf(out, "no tree     %s: %s%s%s\n", vn_violation_name(k->violation.kind), k->violation.what,
                           s->n_classes > 1 ? ", at " : "", s->n_classes > 1 ? k->where : "");
            continue;
        }
        vn_schedule_words(k->text, words, sizeof words);
        vn_text_printf(out, "schedule    %s", k->text);
        if (strcmp(words, k->text) != 0) vn_text_printf(out, "   %s", words);
        if (s->n_classes > 1) vn_text_printf(out, "   at %s (%lld elements)", k->where, (long long)k->elements);
        vn_text_add(out, "\n");
        if (!k->mean_text) continue;
        vn_schedule_words(k->mean_text, words, sizeof words);
        vn_text_printf(out, "mean        %s", k->mean_text);
        if (strcmp(words, k->mean_text) != 0) vn_text_printf(out, "   %s", words);
        vn_text_add(out, "\n");
    }
    line(out, "arithmetic", s->arithmetic_text);
    if (*s->mean_arithmetic_text) line(out, "of the mean", s->mean_arithmetic_text);
    if (*s->form) line(out, "form", s->form);
    if (*s->sha256) vn_text_printf(out, "identity    sched:%s\n", s->sha256);
    if (*s->reason) line(out, "reason", s->reason);
    if (*s->notes) line(out, "notes", s->notes);
    vn_text_printf(out, "calls       %lld (%.2f ms each), %lld load%s, transfer %.1f ms, host %.1f ms\n", (long long)s->calls,
                   s->calls ? 1e3 * s->backend_seconds / (double)s->calls : 0, (long long)got->loads, got->loads == 1 ? "" : "s",
                   1e3 * s->transfer_seconds, 1e3 * s->host_seconds);
    if (got->card) {
        vn_text_add(out, "card\n");
        vn_reveal_print_card(out, got->card, NULL);
        vn_text_add(out, "  P25, P26 are of a back end, not of one product: vernier backends --measure\n");
    }
}

/* ---- JSON ---- */

static void string(vn_text_t *out, const char *s) {
    vn_text_add(out, "\"");
    for (; *s; ++s) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') vn_text_printf(out, "\\%c", c);
        else if (c < 0x20) vn_text_printf(out, "\\u%04x", c);
        else vn_text_addn(out, s, 1);
    }
    vn_text_add(out, "\"");
}

static void field(vn_text_t *out, const char *name, const char *value) {
    vn_text_printf(out, ", \"%s\": ", name);
    if (value && *value) string(out, value);
    else vn_text_add(out, "null");
}

void vn_reveal_json_begin(vn_text_t *out) {
    vn_text_printf(out, "{\"schema\": \"vernier-reveal-1\", \"version\": \"%s\", \"results\": [", vn_version());
}
void vn_reveal_json_end(vn_text_t *out) { vn_text_add(out, "\n]}\n"); }

static void classes(vn_text_t *out, const vn_schedule_t *s) {
    vn_text_add(out, ", \"classes\": [");
    for (int c = 0; c < s->n_classes; ++c) {
        const vn_schedule_class_t *k = &s->classes[c];
        vn_text_printf(out, "%s\n  {\"elements\": %lld", c ? "," : "", (long long)k->elements);
        field(out, "where", k->where);
        field(out, "schedule", k->text);
        field(out, "mean", k->mean_text);
        field(out, "violation", vn_violation_name(k->violation.kind));
        field(out, "what", k->violation.what);
        vn_text_add(out, "}");
    }
    vn_text_add(out, "]");
}

static void card_rows(vn_text_t *out, int n, const vn_card_row_t *rows) {
    for (int i = 0; i < n; ++i) {
        vn_text_printf(out, "%s\n  {\"id\": \"%s\"", i ? "," : "", rows[i].id);
        field(out, "subject", rows[i].subject);
        field(out, "finding", rows[i].finding);
        field(out, "numbers", rows[i].numbers);
        vn_text_add(out, "}");
    }
}

void vn_reveal_json_object(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why) {
    char shape[160];
    vn_text_add(out, "{\"backend\": ");
    string(out, r->backend);
    field(out, "model", r->model_path);
    field(out, "node", r->model_path ? r->node : NULL);
    field(out, "error", got ? NULL : why->text);
    if (!got) {
        vn_text_add(out, "}");
        return;
    }
    const vn_schedule_t *s = got->schedule;
    const vn_sum_op_t *op = &s->op;
    dims(shape, sizeof shape, op);
    field(out, "operator", vn_sum_kind_name(op->kind));
    field(out, "dtype", vn_dtype_name(op->dtype));
    field(out, "shape", shape);
    field(out, "schedule", s->n_classes > 0 ? s->classes[0].text : NULL);
    field(out, "schedule_sha256", s->sha256);
    classes(out, s);
    vn_text_printf(out, ", \"coverage\": ");
    if (s->elements) vn_text_printf(out, "%.17g", vn_schedule_coverage(s));
    else vn_text_add(out, "null");
    vn_text_printf(out, ", \"elements\": %lld, \"replayed\": %lld", (long long)s->elements, (long long)s->replayed);
    field(out, "arithmetic", s->arithmetic_text);
    field(out, "mean_arithmetic", s->mean_arithmetic_text);
    field(out, "form", s->form);
    field(out, "reason", s->reason);
    field(out, "notes", s->notes);
    vn_text_printf(out, ", \"calls\": %lld, \"loads\": %lld, \"backend_seconds\": %.6g, \"transfer_seconds\": %.6g, \"host_seconds\": %.6g",
                   (long long)s->calls, (long long)got->loads, s->backend_seconds, s->transfer_seconds, s->host_seconds);
    vn_text_add(out, ", \"card\": [");
    card_rows(out, got->card ? got->card->n : 0, got->card ? got->card->rows : NULL);
    vn_text_printf(out, "], \"identity\": %s, \"environment\": %s}", got->identity, got->environment);
}

/* ---- functions ---- */

static const char *symmetry_of(const vn_elementary_t *f) { return f->symmetry > 0 ? "even" : f->symmetry < 0 ? "odd" : NULL; }

/* "0.5012 ulp at 0x1.8p+0"; what a special value spoils has no number of ulp. */
static void say_worst(vn_text_t *out, const vn_worst_t *w) {
    if (isinf(w->ulp)) vn_text_printf(out, "a wrong special value at %a", w->at);
    else vn_text_printf(out, "%.4g ulp at %a", w->ulp, w->at);
}

/* How many rows from i on have row i's type, if none of them was measured and row i is the type's first; else 0. */
static int none_of(const vn_functions_result_t *got, int i) {
    int n = 0;
    if (i > 0 && got->rows[i - 1].dtype == got->rows[i].dtype) return 0;
    for (; i + n < got->n_rows && got->rows[i + n].dtype == got->rows[i].dtype; ++n)
        if (!*got->rows[i + n].why) return 0;
    return n;
}

void vn_functions_print(vn_text_t *out, const vn_functions_result_t *got) {
    for (int i = 0; i < got->n_divisions; ++i) card_line(out, &got->divisions[i]);
    for (int i = 0; i < got->n_rows; ++i) {
        const vn_elementary_row_t *r = &got->rows[i];
        char subject[48];
        const int missing = none_of(got, i);
        if (missing) { /* a type that the back end has not is one line */
            vn_text_printf(out, "  P26   %d functions %-18s %s\n", missing, vn_dtype_name(r->dtype), r->why);
            i += missing - 1;
            continue;
        }
        snprintf(subject, sizeof subject, "%s %s", r->function->name, vn_dtype_name(r->dtype));
        vn_text_printf(out, "  P26   %-30s ", subject);
        if (*r->why) {
            vn_text_printf(out, "%s\n", r->why);
            continue;
        }
        say_worst(out, &r->normal);
        if (r->all.ulp > r->normal.ulp) {
            vn_text_add(out, " (");
            say_worst(out, &r->all);
            vn_text_add(out, " outside the normal range)");
        }
        if (r->monotone == 1) vn_text_add(out, ", monotone");
        else if (r->monotone == 0) vn_text_printf(out, ", not monotone at %a", r->broken);
        if (r->symmetric == 1) vn_text_printf(out, ", %s", symmetry_of(r->function));
        else if (r->symmetric == 0) vn_text_printf(out, ", not %s at %a", symmetry_of(r->function), r->uneven);
        vn_text_printf(out, ", sha256 %.12s\n", r->sha256);
    }
}

static void number(vn_text_t *out, const char *name, double x) {
    if (isnan(x)) vn_text_printf(out, ", \"%s\": null", name);
    else if (isinf(x)) vn_text_printf(out, ", \"%s\": \"%s\"", name, x > 0 ? "inf" : "-inf");
    else vn_text_printf(out, ", \"%s\": %.17g", name, x);
}
static void hexadecimal(vn_text_t *out, const char *name, bool there, double x) {
    if (there) vn_text_printf(out, ", \"%s\": \"%a\"", name, x);
    else vn_text_printf(out, ", \"%s\": null", name);
}
static void answer(vn_text_t *out, const char *name, int yes) {
    vn_text_printf(out, ", \"%s\": %s", name, yes < 0 ? "null" : yes ? "true" : "false");
}

void vn_functions_json(vn_text_t *out, const vn_functions_result_t *got) {
    vn_text_add(out, "\"functions\": [");
    for (int i = 0; i < got->n_rows; ++i) {
        const vn_elementary_row_t *r = &got->rows[i];
        const bool measured = !*r->why;
        vn_text_printf(out, "%s\n  {\"function\": \"%s\", \"dtype\": \"%s\", \"inputs\": %lld", i ? "," : "", r->function->name,
                       vn_dtype_name(r->dtype), (long long)r->inputs);
        field(out, "why", r->why);
        number(out, "max_ulp", measured ? r->all.ulp : NAN);
        hexadecimal(out, "at", measured, r->all.at);
        number(out, "max_ulp_normal", measured ? r->normal.ulp : NAN);
        hexadecimal(out, "at_normal", measured, r->normal.at);
        answer(out, "monotone", r->monotone);
        hexadecimal(out, "monotone_break", r->monotone == 0, r->broken);
        field(out, "symmetry", symmetry_of(r->function));
        answer(out, "symmetric", r->symmetric);
        hexadecimal(out, "symmetry_break", r->symmetric == 0, r->uneven);
        field(out, "sha256", r->sha256);
        vn_text_add(out, "}");
    }
    vn_text_add(out, "], \"divisions\": [");
    card_rows(out, got->n_divisions, got->divisions);
    vn_text_add(out, "]");
}

void vn_reveal_json_add(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why) {
    vn_text_add(out, strchr(out->data, '\n') ? ",\n " : "\n ");
    vn_reveal_json_object(out, r, got, why);
}

vn_status_t vn_reveal_svg(const vn_reveal_result_t *got, const char *path, vn_error_t *err) {
    char *svg;
    if (vn_schedule_svg(got->schedule, &svg, err) != VN_OK) return vn_fail_prefix(err, "--svg");
    const vn_status_t st = vn_write_file(path, svg, strlen(svg), err);
    vn_free(svg);
    return st;
}
