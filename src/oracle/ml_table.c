/* ml_table.c -- look-up of keys: sorted once, found by halving. */
#include "oracle/ml_table.h"

#include <stdlib.h>
#include <string.h>

static int compare_text(const vn_string_t *a, const vn_string_t *b) {
    const size_t n = a->length < b->length ? a->length : b->length;
    const int c = n ? memcmp(a->text, b->text, n) : 0;
    return c ? c : (a->length > b->length) - (a->length < b->length);
}

static int compare(bool text, const vn_ml_key_t *a, const vn_ml_key_t *b) {
    return text ? compare_text(&a->text, &b->text) : (a->number > b->number) - (a->number < b->number);
}

static int by_place(const vn_ml_key_t *a, const vn_ml_key_t *b) { return (a->at > b->at) - (a->at < b->at); }

static int by_number(const void *a, const void *b) {
    const int c = compare(false, a, b);
    return c ? c : by_place(a, b);
}

static int by_text(const void *a, const void *b) {
    const int c = compare(true, a, b);
    return c ? c : by_place(a, b);
}

vn_status_t vn_ml_table_new(vn_eval_t *e, const vn_ml_labels_t *list, vn_ml_table_t *t) {
    *t = (vn_ml_table_t){.count = list->count, .text = list->text != NULL};
    t->keys = vn_alloc((size_t)(list->count ? list->count : 1), sizeof *t->keys);
    if (!t->keys) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld keys", (long long)list->count);
    for (int64_t i = 0; i < list->count; ++i) {
        t->keys[i].at = i;
        if (t->text) t->keys[i].text = list->text[i];
        else t->keys[i].number = list->ints[i];
    }
    qsort(t->keys, (size_t)t->count, sizeof *t->keys, t->text ? by_text : by_number);
    for (int64_t i = 1; i < t->count; ++i) t->repeated |= compare(t->text, &t->keys[i - 1], &t->keys[i]) == 0;
    return VN_OK;
}

void vn_ml_table_free(vn_ml_table_t *t) {
    vn_free(t->keys);
    *t = (vn_ml_table_t){0};
}

int64_t vn_ml_table_find(const vn_ml_table_t *t, int64_t number, const vn_string_t *text, bool last) {
    vn_ml_key_t key = {.number = number};
    if (text) key.text = *text;
    int64_t lo = 0, hi = t->count;
    while (lo < hi) { /* the first key that is not before, or (last) the first that is beyond */
        const int64_t mid = lo + (hi - lo) / 2;
        const int c = compare(t->text, &t->keys[mid], &key);
        if (c < 0 || (last && c == 0)) lo = mid + 1;
        else hi = mid;
    }
    const int64_t at = last ? lo - 1 : lo;
    return at >= 0 && at < t->count && compare(t->text, &t->keys[at], &key) == 0 ? t->keys[at].at : -1;
}
