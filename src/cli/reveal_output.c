/* reveal_output.c -- a revealed schedule as text, JSON and SVG. */
#include "cli/reveal_output.h"

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
    } else if (op->kind == VN_SUM_MATMUL) {
        if (op->batch > 1) at = (size_t)snprintf(out, size, "%lldx", (long long)op->batch);
        snprintf(out + at, size - at, "%lldx%lldx%lld%s%s%s", (long long)op->m, (long long)op->k, (long long)op->n,
                 op->transpose_a ? " transA" : "", op->transpose_b ? " transB" : "", op->addend ? " + C" : "");
    } else {
        snprintf(out, size, "%lld rows of %lld", (long long)op->m, (long long)op->n);
    }
}

static void line(vn_text_t *out, const char *label, const char *value) { vn_text_printf(out, "%-12s%s\n", label, value); }

void vn_reveal_print_card(vn_text_t *out, const vn_card_t *card) {
    for (int i = 0; i < card->n; ++i)
        vn_text_printf(out, "  %-5s %-30s %s\n", card->rows[i].id, card->rows[i].subject, card->rows[i].finding);
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
    vn_text_printf(out, "calls       %lld (%.2f ms each), %lld load%s, host %.1f ms\n", (long long)s->calls,
                   s->calls ? 1e3 * s->backend_seconds / (double)s->calls : 0, (long long)got->loads, got->loads == 1 ? "" : "s",
                   1e3 * s->host_seconds);
    if (got->card) {
        vn_text_add(out, "card\n");
        vn_reveal_print_card(out, got->card);
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
    vn_text_printf(out, ", \"calls\": %lld, \"loads\": %lld, \"backend_seconds\": %.6g, \"host_seconds\": %.6g", (long long)s->calls,
                   (long long)got->loads, s->backend_seconds, s->host_seconds);
    vn_text_add(out, ", \"card\": [");
    for (int i = 0; got->card && i < got->card->n; ++i) {
        const vn_card_row_t *c = &got->card->rows[i];
        vn_text_printf(out, "%s\n  {\"id\": \"%s\"", i ? "," : "", c->id);
        field(out, "subject", c->subject);
        field(out, "finding", c->finding);
        field(out, "numbers", c->numbers);
        vn_text_add(out, "}");
    }
    vn_text_printf(out, "], \"identity\": %s, \"environment\": %s}", got->identity, got->environment);
}

void vn_reveal_json_add(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why) {
    vn_text_add(out, strchr(out->data, '\n') ? ",\n " : "\n ");
    vn_reveal_json_object(out, r, got, why);
}

vn_status_t vn_reveal_svg(const vn_reveal_result_t *got, const char *path, vn_error_t *err) {
    const vn_schedule_t *s = got->schedule;
    for (int c = 0; c < s->n_classes; ++c) {
        char *svg;
        if (!s->classes[c].tree) continue;
        VN_TRY(vn_tree_svg(s->classes[c].tree, &svg, err));
        const vn_status_t st = vn_write_file(path, svg, strlen(svg), err);
        vn_free(svg);
        return st;
    }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "--svg: no tree was revealed");
}
