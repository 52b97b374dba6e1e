/* text.c -- the first screen: what was checked, what was not, who is wrong, since which operator, why, how sure, what to do next.
 *
 * Rows that pass are summed up; rows that fail are grouped by back end, mode, verdict and cause, worst impact first.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vernier/report.h"

typedef struct screen {
    const vn_record_t *r;
    const vn_report_options_t *o;
    vn_text_t *out;
} screen_t;

static const char *paint(const screen_t *s, const char *code) { return s->o->color ? code : ""; }
#define RED(s) paint(s, "\033[31m")
#define GREEN(s) paint(s, "\033[32m")
#define YELLOW(s) paint(s, "\033[33m")
#define PLAIN(s) paint(s, "\033[0m")

/* Wraps `text` at the screen's width, continuation lines indented; no line ends in a blank. */
static void wrapped(const screen_t *s, const char *indent, const char *text) {
    const size_t width = (size_t)(s->o->width > 40 ? s->o->width : 100);
    size_t column = strlen(indent);
    vn_text_add(s->out, indent);
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, " ");
        const bool first = p == text;
        if (!first && column + 1 + n > width) {
            vn_text_printf(s->out, "\n%s", indent);
            column = strlen(indent);
        } else if (!first) {
            vn_text_add(s->out, " ");
            ++column;
        }
        vn_text_addn(s->out, p, n);
        column += n;
        p += n;
        if (*p == ' ') ++p;
    }
    vn_text_add(s->out, "\n");
}

/* ---- header ---- */

static void identity_line(const screen_t *s, const vn_backend_record_t *b, const char *label) {
    if (b->error) {
        vn_text_printf(s->out, "%-9s %-14s %snot started%s: %s\n", label, b->spec, RED(s), PLAIN(s), b->error);
        return;
    }
    json_t *id = b->identity_json ? json_loads(b->identity_json, 0, NULL) : NULL;
    vn_text_printf(s->out, "%-9s %-14s", label, b->spec);
    static const char *const keys[] = {
        "framework",           "version", "device", "precision", "execution", "optimisation", "INFERENCE_PRECISION_HINT",
        "EXECUTION_MODE_HINT", "threads"};
    const char *separator = " ";
    for (size_t k = 0; k < sizeof keys / sizeof *keys; ++k) {
        json_t *v = json_object_get(id, keys[k]);
        if (!v) v = json_object_get(json_object_get(id, "settings"), keys[k]);
        if (json_is_string(v) && *json_string_value(v))
            vn_text_printf(s->out, "%s%s%s%s", separator, k > 2 ? keys[k] : "", k > 2 ? " " : "", json_string_value(v));
        else if (json_is_integer(v)) vn_text_printf(s->out, "%s%s %lld", separator, keys[k], (long long)json_integer_value(v));
        else continue;
        separator = k == 0 ? " " : ", ";
    }
    vn_text_add(s->out, "\n");
    json_decref(id);
}

static void header(const screen_t *s) {
    const vn_record_t *r = s->r;
    const char *name = strrchr(r->model_path, '/');
    vn_text_printf(s->out, "model     %s  sha256 %.8s…  opset %lld  %lld nodes, %lld judged (%lld constants)\n",
                   name ? name + 1 : r->model_path, r->model_sha256, (long long)r->opset, (long long)r->nodes, (long long)r->judged_nodes,
                   (long long)r->constants);
    vn_text_printf(s->out, "inputs    %s", r->inputs);
    if (r->seeded) vn_text_printf(s->out, "  seed %llu, floats N(0,1)", (unsigned long long)r->seed);
    vn_text_add(s->out, "\n");
    vn_text_printf(s->out, "oracle    float64, own error ≤ %.2g of the bounds used; %s\n", r->oracle_over_bound,
                   r->oracle_blas ? r->oracle_blas : "");
    for (int b = 0; b < r->n_backends; ++b) identity_line(s, &r->backends[b], b ? "" : "back ends");
}

/* ---- table of verdicts ---- */

static int by_double(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    if (!n) return NAN;
    qsort(v, (size_t)n, sizeof *v, by_double);
    return v[n / 2];
}

static void table_line(const screen_t *s, const char *backend, const char *mode) {
    const vn_record_t *r = s->r;
    int count[VN_VERDICT_COUNT] = {0}, rows = 0, n = 0;
    double *caught = vn_alloc((size_t)r->n_rows + 1, sizeof *caught), *small = vn_alloc((size_t)r->n_rows + 1, sizeof *small);
    double *of = vn_alloc((size_t)r->n_rows + 1, sizeof *of), worst = 0;
    int k = 0;
    for (int i = 0; i < r->n_rows; ++i) {
        const vn_row_t *row = &r->rows[i];
        if (strcmp(row->backend, backend) != 0 || strcmp(row->mode, mode) != 0) continue;
        count[row->verdict]++;
        rows++;
        if (caught && of && row->detection_of) {
            caught[n] = row->detection_caught;
            of[n++] = row->detection_of;
            if (row->detection_worst > worst) worst = row->detection_worst;
            if (small && isfinite(row->detection_smallest)) small[k++] = row->detection_smallest;
        }
    }
    if (rows) {
        const int open = count[VN_UNINFORMATIVE] + count[VN_UNSUPPORTED] + count[VN_CRASHED] + count[VN_TIMEOUT] + count[VN_NOT_RUN];
        vn_text_printf(s->out, "%-22.22s %-9s %6d %9d %10d %9d %8d %5d %11d", backend, strcmp(mode, "with-weights") == 0 ? "weights" : mode,
                       count[VN_EXACT], count[VN_REPLAYED], count[VN_EXPLAINED] + count[VN_SPEC_OPEN], count[VN_CONTRACT_MISMATCH],
                       count[VN_SUSPECT], count[VN_BUG] + count[VN_NONDETERMINISTIC], open);
        if (n) {
            vn_text_printf(s->out, "   %g of %g", median(caught, n), median(of, n));
            if (k) vn_text_printf(s->out, ", %.1e", median(small, k));
            if (k && worst > 0) vn_text_printf(s->out, " (worst %.1e)", worst);
        }
        vn_text_add(s->out, "\n");
    }
    vn_free(caught);
    vn_free(small);
    vn_free(of);
}

static void table(const screen_t *s) {
    static const char *const modes[] = {"isolated", "with-weights", "in-situ", "graph", "gradient"};
    const vn_record_t *r = s->r;
    vn_text_printf(s->out, "\n%-32s %6s %9s %10s %9s %8s %5s %11s   %s\n", "", "exact", "replayed", "explained", "mismatch", "suspect",
                   "bug", "not decided", "caught, one element from (median)");
    if (r->n_backends == 0) table_line(s, "dump", "isolated");
    if (r->n_backends == 0) table_line(s, "dump", "graph");
    for (int b = 0; b < r->n_backends; ++b)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) table_line(s, r->backends[b].spec, modes[m]);
}

/* ---- groups of rows that do not pass ---- */

typedef struct group {
    const vn_row_t *worst, *first;
    int rows;
    double impact;
} group_t;

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* Notes of one kind differ only after a colon ("fused: Mul+Add"). */
static bool same_kind(const char *a, const char *b) {
    if (!a || !b) return a == b;
    const size_t n = strcspn(a, ":"), m = strcspn(b, ":");
    return n == m && strncmp(a, b, n) == 0;
}

static bool together(const vn_row_t *a, const vn_row_t *b) {
    if (!same(a->backend, b->backend) || !same(a->mode, b->mode) || a->verdict != b->verdict || !same(a->cause, b->cause)) return false;
    if (a->verdict == VN_NOT_RUN) return true;
    if (vn_verdict_passes(a->verdict)) return same_kind(a->note, b->note);
    return a->cause ? true : same(a->op, b->op) && (vn_verdict_fails(a->verdict) || same(a->note, b->note));
}

static int by_impact(const void *a, const void *b) {
    const group_t *x = a, *y = b;
    const bool fx = vn_verdict_fails(x->worst->verdict), fy = vn_verdict_fails(y->worst->verdict);
    if (fx != fy) return fy - fx;
    if (x->impact != y->impact) return x->impact < y->impact ? 1 : -1;
    return (x->first->order > y->first->order) - (x->first->order < y->first->order);
}

static double impact_of(const vn_row_t *row) { return isnan(row->impact) ? 0 : row->impact; }

static bool shown(const vn_row_t *row) { return !vn_verdict_passes(row->verdict) || (row->note && row->verdict != VN_EXACT); }

static int collect(const vn_record_t *r, group_t **out) {
    group_t *g = vn_alloc((size_t)r->n_rows + 1, sizeof *g);
    int n = 0;
    for (int i = 0; g && i < r->n_rows; ++i) {
        const vn_row_t *row = &r->rows[i];
        if (!shown(row)) continue;
        int k = 0;
        while (k < n && !together(g[k].first, row)) ++k;
        if (k == n) g[n++] = (group_t){.worst = row, .first = row};
        g[k].rows++;
        if (row->order < g[k].first->order) g[k].first = row;
        if (impact_of(row) >= g[k].impact) {
            g[k].impact = impact_of(row);
            g[k].worst = row;
        }
    }
    if (g) qsort(g, (size_t)n, sizeof *g, by_impact);
    *out = g;
    return n;
}

static const char *advice(const vn_row_t *row) {
    if (row->cause && strncmp(row->cause, "operands-", 9) == 0 && strncmp(row->backend, "openvino", 8) == 0 &&
        !strstr(row->backend, "precision="))
        return "Not a bug: its INFERENCE_PRECISION_HINT chooses this; run with -b openvino,precision=f32, or declare it.";
    return NULL;
}

static void show_group(const screen_t *s, const group_t *g) {
    const vn_row_t *w = g->worst;
    const bool allowed = vn_row_allowed(w, &s->o->policy), fails = vn_row_fails(w, &s->o->policy);
    const char *color = fails ? RED(s) : YELLOW(s);
    char kind[64];
    snprintf(kind, sizeof kind, "%.*s", w->note ? (int)strcspn(w->note, ":") : 0, w->note ? w->note : "");
    const char *what = w->cause ? w->cause : w->note && vn_verdict_passes(w->verdict) ? kind : w->verdict == VN_NOT_RUN ? "" : w->op;
    char line[800];
    vn_text_printf(s->out, "\n%s  %d output%s %s   %s%s%s   %s%s\n", w->backend, g->rows, g->rows == 1 ? "" : "s", w->mode, color,
                   vn_verdict_name(w->verdict), PLAIN(s), what, allowed ? "   (allowed)" : "");
    if (w->words) wrapped(s, "  ", w->words);
    else if (w->note) wrapped(s, "  ", w->note);
    if (fails || isfinite(w->impact)) {
        snprintf(line, sizeof line, "First: %.80s (%.40s).", g->first->node, g->first->op);
        if (isfinite(w->impact) && w->impact > 0)
            snprintf(line + strlen(line), sizeof line - strlen(line), " Worst impact: %.80s, largest error %.2g %% of the output's rms.",
                     w->node, 100 * w->impact);
        wrapped(s, "  ", line);
    }
    if (advice(w)) wrapped(s, "  ", advice(w));
}

static void each_row(const screen_t *s) {
    vn_text_add(s->out, "\n");
    for (int i = 0; i < s->r->n_rows; ++i) {
        const vn_row_t *w = &s->r->rows[i];
        vn_text_printf(s->out, "%-14.30s %-9s %-40.60s %-22s %-17s %-22s error/bound %-9.3g rms %-9.3g impact %.2g%s%s\n", w->backend,
                       w->mode, w->node, w->op, vn_verdict_name(w->verdict),
                       w->cause  ? w->cause
                       : w->note ? w->note
                                 : "",
                       w->error_over_bound, w->rms_ratio, w->impact, w->duplicate_of ? "  = " : "", w->duplicate_of ? w->duplicate_of : "");
    }
}

static void footer(const screen_t *s) {
    const vn_record_t *r = s->r;
    for (int b = 0; b < r->n_backends; ++b) {
        const vn_backend_record_t *k = &r->backends[b];
        if (k->drift_output)
            vn_text_printf(
                s->out,
                "drift      %s: output %s is %.2g from the reference trajectory (%.2g of its rms); no verdict without an envelope\n",
                k->spec, k->drift_output, k->drift_max, k->drift_relative);
        if (k->observer) vn_text_printf(s->out, "observing  %s: %s\n", k->spec, k->observer);
    }
    for (int n = 0; n < r->n_notes; ++n) wrapped(s, "note       ", r->notes[n]);
}

static void last_lines(const screen_t *s) {
    const vn_record_t *r = s->r;
    const int code = vn_record_exit(r, &s->o->policy);
    if (r->n_backends) {
        int outside = 0, silent = 0;
        for (int b = 0; b < r->n_backends; ++b) {
            bool fails = false;
            for (int i = 0; i < r->n_rows && !fails; ++i)
                fails = same(r->rows[i].backend, r->backends[b].spec) && vn_row_fails(&r->rows[i], &s->o->policy);
            outside += fails;
            silent += r->backends[b].error != NULL;
        }
        vn_text_printf(s->out, "\n%d of %d back ends outside %s contract%s\n", outside, r->n_backends, outside == 1 ? "its" : "their",
                       silent ? ", and not all could be started" : "");
    }
    vn_text_printf(s->out, "%sexit %d%s (%s) in %.1f s, peak %lld MB (host)",
                   code == 0   ? GREEN(s)
                   : code == 1 ? RED(s)
                               : YELLOW(s),
                   code, PLAIN(s),
                   code == 0   ? "every verdict passes"
                   : code == 1 ? "at least one verdict fails"
                               : "nothing failed, not everything was decided",
                   r->seconds, (long long)(r->peak_bytes / 1000000));
    for (int b = 0; b < r->n_backends; ++b)
        if (r->backends[b].peak_bytes)
            vn_text_printf(s->out, ", %lld MB (%s)", (long long)(r->backends[b].peak_bytes / 1000000), r->backends[b].spec);
    vn_text_add(s->out, "\n");
}

vn_status_t vn_report_text(const vn_record_t *r, const vn_report_options_t *o, vn_text_t *out, vn_error_t *err) {
    const screen_t s = {.r = r, .o = o, .out = out};
    if (o->verbose >= 0) {
        header(&s);
        table(&s);
        group_t *groups;
        const int n = collect(r, &groups);
        if (!groups) return vn_fail(err, VN_ERR_NOMEM, "no memory for the report");
        for (int i = 0; i < n; ++i) show_group(&s, &groups[i]);
        vn_free(groups);
        if (o->verbose > 0) each_row(&s);
        vn_text_add(out, "\n");
        footer(&s);
    }
    last_lines(&s);
    return out->failed ? vn_fail(err, VN_ERR_NOMEM, "no memory for the report") : VN_OK;
}
