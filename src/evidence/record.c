/* record.c -- rows of a run, and what counts as failed. */
#include "vernier/evidence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

vn_record_t *vn_record_new(void) {
    vn_record_t *r = vn_alloc(1, sizeof *r);
    if (r && !(r->arena = vn_arena_new())) {
        vn_free(r);
        r = NULL;
    }
    return r;
}

void vn_record_free(vn_record_t *r) {
    if (!r) return;
    vn_arena_free(r->arena);
    vn_free(r->rows);
    vn_free(r->notes);
    vn_free(r);
}

vn_row_t *vn_record_row(vn_record_t *r) {
    if (r->n_rows == r->rows_capacity) {
        const int capacity = r->rows_capacity ? 2 * r->rows_capacity : 256;
        vn_row_t *rows = capacity > r->rows_capacity ? vn_realloc(r->rows, (size_t)capacity, sizeof *rows) : NULL;
        if (!rows) return NULL;
        r->rows = rows;
        r->rows_capacity = capacity;
    }
    vn_row_t *row = &r->rows[r->n_rows++];
    *row = (vn_row_t){.error_over_bound = NAN,
                      .rms_ratio = NAN,
                      .z_max = NAN,
                      .sign_bias = NAN,
                      .ulp_max = NAN,
                      .max_abs_error = NAN,
                      .impact = NAN,
                      .oracle_over_bound = NAN,
                      .first_index = -1,
                      .first_expected = NAN,
                      .first_actual = NAN,
                      .deterministic = -1,
                      .detection_smallest = NAN,
                      .detection_worst = NAN};
    return row;
}

const char *vn_record_string(vn_record_t *r, const char *s) { return s ? vn_arena_strdup(r->arena, s) : NULL; }

vn_status_t vn_record_note(vn_record_t *r, const char *fmt, ...) {
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char **notes = vn_realloc(r->notes, (size_t)r->n_notes + 1, sizeof *notes);
    if (!notes) return VN_ERR_NOMEM;
    r->notes = notes;
    const char *copy = vn_record_string(r, text);
    if (!copy) return VN_ERR_NOMEM;
    notes[r->n_notes++] = copy;
    return VN_OK;
}

/* "a,b,c" holds `item`; an item that ends in ':' in the list matches every cause with that prefix. */
static bool listed(const char *list, const char *item) {
    if (!list || !item || !*item) return false;
    const size_t n = strlen(item);
    for (const char *p = list; *p;) {
        const size_t k = strcspn(p, ",");
        if ((k == n && strncmp(p, item, n) == 0) || (k && k < n && p[k - 1] == ':' && strncmp(p, item, k) == 0)) return true;
        p += k;
        if (*p) ++p;
    }
    return false;
}

bool vn_row_allowed(const vn_row_t *row, const vn_policy_t *p) {
    if (!p || vn_verdict_passes(row->verdict)) return false;
    return listed(p->allow, vn_verdict_name(row->verdict)) || listed(p->allow, row->cause);
}

bool vn_row_fails(const vn_row_t *row, const vn_policy_t *p) {
    if (p && (listed(p->fail_on, vn_verdict_name(row->verdict)) || listed(p->fail_on, row->cause) || listed(p->fail_on, row->note)))
        return true;
    return vn_verdict_fails(row->verdict) && !vn_row_allowed(row, p);
}

int vn_record_exit(const vn_record_t *r, const vn_policy_t *p) {
    bool open = r->n_rows == 0;
    for (int b = 0; b < r->n_backends; ++b) open |= r->backends[b].error != NULL;
    for (int i = 0; i < r->n_rows; ++i) {
        if (vn_row_fails(&r->rows[i], p)) return 1;
        open |= !vn_verdict_passes(r->rows[i].verdict) && !vn_row_allowed(&r->rows[i], p);
    }
    return open ? 3 : 0;
}
