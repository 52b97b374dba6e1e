/* op_text.c -- StringConcat, StringSplit, StringNormalizer, and the rows of the text family.
 *
 * Claim TEXT-2: StringConcat joins bytes, broadcast by the NumPy rule.
 * Claim TEXT-3: StringSplit cuts at the leftmost delimiters; rows are filled up with empty texts. Open in the text, hence readings: which
 *   characters are white space, whether what follows the last cut keeps the white space at its end, how many parts an empty text has.
 * Claim TEXT-4: StringNormalizer drops elements that equal a stop word, then changes case (TEXT-1). Readings: SpecialCasing instead of
 *   simple mappings; stop words compared in the other case.
 */
#include <stdlib.h>
#include <string.h>

#include "oracle/bcast.h"
#include "oracle/elementwise.h"
#include "oracle/rows.h"
#include "oracle/text.h"

vn_status_t vn_text_need(vn_eval_t *e, int k) {
    if (k >= e->n_in || (!e->in[k].t && !e->in[k].v)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", k);
    if (!e->in[k].t || e->in[k].t->dtype != VN_STRING)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, not a tensor of strings", k,
                            e->in[k].t ? vn_dtype_name(e->in[k].t->dtype) : "a sequence or optional");
    return VN_OK;
}

static bool wanted(const vn_eval_t *e, int k) { return k < e->n_out && *e->node->outputs[k]; }

/* A tensor of texts that becomes an output or, if it differs from the output, a reading of it. Takes over t. */
static vn_status_t offer(vn_eval_t *e, int k, const char *reading, vn_tensor_t *t) {
    vn_ref_t *r = &e->out[k];
    bool known = !wanted(e, k) || r->n_readings == VN_MAX_READINGS || (r->tensor && vn_tensor_equal_bits(r->tensor, t));
    for (int i = 0; i < r->n_readings && !known; ++i) known = vn_tensor_equal_bits(r->readings[i].value, t);
    if (known) {
        vn_tensor_free(t);
        return VN_OK;
    }
    return r->tensor ? vn_out_reading(e, k, reading, t) : vn_out_tensor(e, k, t);
}

/* ---- StringConcat ---- */

typedef struct join {
    vn_eval_t *e;
    vn_string_t *out;
    int failed; /* atomic */
} join_t;

static void join_piece(void *ctx, const vn_piece_t *p) {
    join_t *j = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const vn_string_t *a = vn_text_at(j->e, 0, p->at[0] + i * p->step[0]), *b = vn_text_at(j->e, 1, p->at[1] + i * p->step[1]);
        vn_string_t *o = &j->out[p->out + i];
        size_t bytes, room;
        char *text = vn_size_add(a->length, b->length, &bytes) && vn_size_add(bytes, 1, &room) ? vn_alloc(room, 1) : NULL;
        if (!text) {
            __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
            return;
        }
        if (a->length) memcpy(text, a->text, a->length);
        if (b->length) memcpy(text + a->length, b->text, b->length);
        vn_free(o->text);
        *o = (vn_string_t){.text = text, .length = bytes};
    }
}

static vn_status_t eval_concat(vn_eval_t *e) {
    VN_TRY(vn_text_need(e, 0));
    VN_TRY(vn_text_need(e, 1));
    vn_bcast_t b;
    VN_TRY(vn_bcast_plan(e, 2, (int[]){0, 1}, &b));
    VN_TRY(vn_out_exact(e, 0, VN_STRING, b.out_rank, b.out_dims));
    join_t j = {.e = e, .out = e->out[0].tensor->data};
    vn_bcast_run(&b, join_piece, &j);
    return j.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for the texts") : VN_OK;
}

static vn_status_t infer_concat(vn_eval_t *e) {
    VN_TRY(vn_text_need(e, 0));
    VN_TRY(vn_text_need(e, 1));
    return vn_infer_broadcast(e);
}

/* ---- StringSplit ---- */

typedef struct splitter {
    const char *delimiter;
    size_t length; /* of the delimiter; 0: white space */
    int64_t most;  /* cuts */
    vn_blank_t blank;
    bool keep_end;      /* what follows the last cut keeps the white space at its end */
    bool nothing_in_it; /* an empty text has no parts */
} splitter_t;

typedef void (*part_fn)(void *ctx, const char *text, size_t length);

/* White space at s[at]; *end behind it. */
static bool blank_at(const splitter_t *w, const char *s, size_t n, size_t at, size_t *end) {
    uint32_t p;
    *end = at;
    return vn_utf8_next(s, n, end, &p) && vn_is_blank(w->blank, p);
}

static size_t skip(const splitter_t *w, const char *s, size_t n, size_t at, bool blank) {
    while (at < n) {
        size_t end;
        if (blank_at(w, s, n, at, &end) != blank) break;
        at = end > at ? end : at + 1;
    }
    return at;
}

static int64_t parts_of_words(const splitter_t *w, const char *s, size_t n, part_fn fn, void *ctx) {
    int64_t parts = 0;
    for (size_t at = skip(w, s, n, 0, true); at < n; ++parts) {
        size_t end = skip(w, s, n, at, false);
        if (parts == w->most) {
            end = n;
            if (!w->keep_end) { /* the end of the last word */
                for (size_t look = at; look < n;) {
                    end = skip(w, s, n, look, false);
                    look = skip(w, s, n, end, true);
                }
            }
            if (fn) fn(ctx, s + at, end - at);
            return parts + 1;
        }
        if (fn) fn(ctx, s + at, end - at);
        at = skip(w, s, n, end, true);
    }
    return parts;
}

/* Calls fn (may be NULL) on every part and returns their number. */
static int64_t parts_of(const splitter_t *w, const vn_string_t *text, part_fn fn, void *ctx) {
    const char *s = text->length ? text->text : "", *stop = s + text->length;
    if (w->length == 0) return parts_of_words(w, s, text->length, fn, ctx);
    if (text->length == 0 && w->nothing_in_it) return 0;
    int64_t parts = 1;
    for (; parts <= w->most; ++parts) {
        const char *cut = memmem(s, (size_t)(stop - s), w->delimiter, w->length);
        if (!cut) break;
        if (fn) fn(ctx, s, (size_t)(cut - s));
        s = cut + w->length;
    }
    if (fn) fn(ctx, s, (size_t)(stop - s));
    return parts;
}

typedef struct row {
    vn_eval_t *e;
    vn_tensor_t *out;
    int64_t at;
    vn_status_t status;
} row_t;

static void take_part(void *ctx, const char *text, size_t length) {
    row_t *r = ctx;
    if (r->status == VN_OK) r->status = vn_tensor_set_string(r->out, r->at++, text, length, r->e->err);
}

/* Both outputs under one reading of the text. */
static vn_status_t split(vn_eval_t *e, const splitter_t *w, const char *reading) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t dims[VN_MAX_RANK], most = 0;
    vn_tensor_t *numbers, *texts;
    VN_TRY(vn_tensor_new(VN_I64, x->rank, x->dims, &numbers, e->err));
    int64_t *n = numbers->data;
    for (int64_t i = 0; i < x->count; ++i) {
        n[i] = parts_of(w, vn_text_at(e, 0, i), NULL, NULL);
        if (n[i] > most) most = n[i];
    }
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[x->rank] = most;
    vn_status_t s = vn_tensor_new(VN_STRING, x->rank + 1, dims, &texts, e->err);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        row_t r = {.e = e, .out = texts, .at = i * most};
        parts_of(w, vn_text_at(e, 0, i), take_part, &r);
        s = r.status;
    }
    if (s != VN_OK) {
        vn_tensor_free(texts);
        vn_tensor_free(numbers);
        return s;
    }
    s = offer(e, 0, reading, texts);
    if (s == VN_OK) return offer(e, 1, reading, numbers);
    vn_tensor_free(numbers);
    return s;
}

static vn_status_t split_plan(vn_eval_t *e, splitter_t *w) {
    const vn_attr_t *delimiter = vn_node_attr(e->node, "delimiter"), *most = vn_node_attr(e->node, "maxsplit");
    VN_TRY(vn_text_need(e, 0));
    if (e->in[0].t->rank >= VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "parts of a tensor of rank %d", e->in[0].t->rank);
    *w = (splitter_t){.most = INT64_MAX - 1};
    if (delimiter && delimiter->kind == VN_ATTR_STRING) {
        w->delimiter = delimiter->s.text;
        w->length = delimiter->s.length;
    }
    if (!most) return VN_OK;
    if (most->i < 0)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "maxsplit is %lld, and the standard does not say what a negative limit means",
                            (long long)most->i);
    if (most->i < w->most) w->most = most->i;
    return VN_OK;
}

static vn_status_t eval_split(vn_eval_t *e) {
    splitter_t w;
    VN_TRY(split_plan(e, &w));
    VN_TRY(split(e, &w, NULL));
    if (w.length) {
        w.nothing_in_it = true;
        return split(e, &w, "an-empty-text-has-no-parts");
    }
    static const struct {
        vn_blank_t blank;
        bool keep_end;
        const char *name;
    } readings[] = {{VN_BLANK_UNICODE, true, "last-part-keeps-its-end"},
                    {VN_BLANK_PYTHON, true, "python-white-space"},
                    {VN_BLANK_ASCII, false, "ascii-white-space"},
                    {VN_BLANK_ASCII, true, "ascii-white-space, last-part-keeps-its-end"}};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; ++i) {
        w.blank = readings[i].blank;
        w.keep_end = readings[i].keep_end;
        VN_TRY(split(e, &w, readings[i].name));
    }
    return VN_OK;
}

static vn_status_t infer_split(vn_eval_t *e) {
    splitter_t w;
    VN_TRY(split_plan(e, &w));
    return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "the number of parts depends on the texts");
}

/* ---- StringNormalizer ---- */

typedef struct normalizer {
    enum { KEEP, LOWER, UPPER } change;
    bool exactly; /* stop words are compared as they are */
    vn_case_law_t law;
    int64_t n_stops;
    const vn_string_t *stops;
    const char *locale;
} normalizer_t;

/* How texts are read: case in which stop words are compared, and whether mappings are full. */
typedef struct folding {
    bool upper, full;
} folding_t;

static vn_status_t not_utf8(vn_eval_t *e, const char *what, int64_t i, const vn_string_t *s) {
    return vn_eval_fail(e, VN_ERR_RANGE, "%s %lld is no UTF-8 at byte %zu", what, (long long)i, vn_utf8_valid(s->text, s->length));
}

/* Stop words in the case in which they are compared, sorted. *folded is the caller's (texts too, unless compared as they are). */
static vn_status_t prepare_stops(vn_eval_t *e, const normalizer_t *z, folding_t f, vn_string_t **folded) {
    *folded = vn_alloc((size_t)(z->n_stops ? z->n_stops : 1), sizeof **folded);
    if (!*folded) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld stop words", (long long)z->n_stops);
    for (int64_t i = 0; i < z->n_stops; ++i) {
        if (z->exactly) {
            (*folded)[i] = z->stops[i];
            continue;
        }
        vn_text_t t = {0};
        vn_text_add(&t, "");
        if (!vn_case_add(&t, z->law, f.upper, f.full, z->stops[i].text, z->stops[i].length)) {
            vn_text_free(&t);
            return not_utf8(e, "stop word", i, &z->stops[i]);
        }
        if (t.failed) {
            vn_text_free(&t);
            return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for stop words");
        }
        (*folded)[i] = (vn_string_t){.text = t.data, .length = t.length};
    }
    qsort(*folded, (size_t)z->n_stops, sizeof **folded, vn_text_order);
    return VN_OK;
}

/* s in upper or lower case; *out is the caller's to free. */
static vn_status_t mapped(vn_eval_t *e, const normalizer_t *z, bool upper, bool full, int64_t i, vn_text_t *out) {
    const vn_string_t *s = vn_text_at(e, 0, i);
    *out = (vn_text_t){0};
    vn_text_add(out, "");
    if (!vn_case_add(out, z->law, upper, full, s->text, s->length)) return not_utf8(e, "element", i, s);
    return out->failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a text of %zu bytes", s->length) : VN_OK;
}

/* keep[i]: element i is no stop word. Returns how many are kept through *kept. */
static vn_status_t choose(vn_eval_t *e, const normalizer_t *z, folding_t f, const vn_string_t *stops, bool *keep, int64_t *kept) {
    *kept = 0;
    for (int64_t i = 0; i < e->in[0].t->count; ++i) {
        keep[i] = true;
        if (z->n_stops) {
            vn_text_t t = {0};
            vn_string_t key = *vn_text_at(e, 0, i);
            if (!z->exactly) {
                const vn_status_t s = mapped(e, z, f.upper, f.full, i, &t);
                if (s != VN_OK) {
                    vn_text_free(&t);
                    return s;
                }
                key = (vn_string_t){.text = t.data, .length = t.length};
            }
            keep[i] = !bsearch(&key, stops, (size_t)z->n_stops, sizeof key, vn_text_order);
            vn_text_free(&t);
        }
        *kept += keep[i];
    }
    return VN_OK;
}

static vn_status_t normalise(vn_eval_t *e, const normalizer_t *z, folding_t f, const char *reading) {
    const vn_tensor_t *x = e->in[0].t;
    vn_string_t *stops = NULL;
    bool *keep = vn_alloc((size_t)(x->count ? x->count : 1), sizeof *keep);
    vn_tensor_t *y = NULL;
    int64_t kept = 0, at = 0;
    vn_status_t s = keep ? prepare_stops(e, z, f, &stops) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = choose(e, z, f, stops, keep, &kept);
    const int64_t dims[2] = {1, kept ? kept : 1};
    if (s == VN_OK) s = vn_tensor_new(VN_STRING, x->rank, dims + 2 - x->rank, &y, e->err);
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        if (!keep[i]) continue;
        const vn_string_t *from = vn_text_at(e, 0, i);
        if (z->change == KEEP) {
            s = vn_tensor_set_string(y, at++, from->text, from->length, e->err);
            continue;
        }
        vn_text_t t;
        s = mapped(e, z, z->change == UPPER, f.full, i, &t);
        if (s == VN_OK) s = vn_tensor_set_string(y, at++, t.data, t.length, e->err);
        vn_text_free(&t);
    }
    if (s == VN_OK && !kept) s = vn_tensor_set_string(y, 0, "", 0, e->err); /* all dropped: one empty text */
    for (int64_t i = 0; stops && !z->exactly && i < z->n_stops; ++i) vn_free(stops[i].text);
    vn_free(stops);
    vn_free(keep);
    if (s == VN_OK) return offer(e, 0, reading, y);
    vn_tensor_free(y);
    return s;
}

static vn_status_t normalizer_plan(vn_eval_t *e, normalizer_t *z) {
    static const char *const changes[] = {[KEEP] = "NONE", [LOWER] = "LOWER", [UPPER] = "UPPER"};
    const char *change = vn_node_string(e->node, "case_change_action", "NONE");
    const vn_attr_t *stops = vn_node_attr(e->node, "stopwords");
    VN_TRY(vn_text_need(e, 0));
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank != 1 && !(x->rank == 2 && x->dims[0] == 1))
        return vn_eval_fail(e, VN_ERR_SHAPE, "the input must be of shape [C] or [1, C]");
    *z = (normalizer_t){.exactly = vn_node_int(e->node, "is_case_sensitive", 0) != 0, .locale = vn_node_string(e->node, "locale", "")};
    int k = 0;
    while (k < 3 && strcmp(change, changes[k]) != 0) ++k;
    if (k == 3) return vn_eval_fail(e, VN_ERR_RANGE, "case_change_action is '%s': NONE, LOWER or UPPER", change);
    z->change = k == 0 ? KEEP : k == 1 ? LOWER : UPPER;
    if (stops && stops->kind == VN_ATTR_STRINGS) {
        z->n_stops = stops->count;
        z->stops = stops->strings;
    }
    z->law = vn_case_law(z->locale);
    return VN_OK;
}

static vn_status_t eval_normalizer(vn_eval_t *e) {
    normalizer_t z;
    VN_TRY(normalizer_plan(e, &z));
    const bool compares = z.n_stops && !z.exactly;
    if (compares || z.change != KEEP) {
        if (z.law == VN_CASE_UNKNOWN)
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "letter case of locale '%s' has laws of its own that are not known here", z.locale);
        if (!vn_case_ready())
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "letter case needs a UTF-8 locale, and the C library has neither C.UTF-8 nor en_US");
    }
    const bool upper = z.change == UPPER;
    VN_TRY(normalise(e, &z, (folding_t){.upper = upper}, NULL));
    if (compares || z.change != KEEP) VN_TRY(normalise(e, &z, (folding_t){.upper = upper, .full = true}, "full-case-mapping"));
    return compares ? normalise(e, &z, (folding_t){.upper = !upper}, "stop-words-in-the-other-case") : VN_OK;
}

static vn_status_t infer_normalizer(vn_eval_t *e) {
    normalizer_t z;
    VN_TRY(normalizer_plan(e, &z));
    const vn_tensor_t *x = e->in[0].t;
    if (z.n_stops) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "how many elements are stop words depends on the texts");
    int64_t dims[2] = {1, x->dims[x->rank - 1] ? x->dims[x->rank - 1] : 1};
    vn_infer_put(e, 0, VN_STRING, x->rank, dims + 2 - x->rank);
    return VN_OK;
}

static vn_status_t infer_regex(vn_eval_t *e) {
    VN_TRY(vn_text_need(e, 0));
    return vn_infer_same_bool(e);
}

static const vn_op_t rows[] = {
    {"", "StringConcat", 20, 0, VN_CLASS_MOVEMENT, 0, "TEXT-2", eval_concat, infer_concat, 0},
    {"", "StringSplit", 20, 0, VN_CLASS_MOVEMENT, 0, "TEXT-3", eval_split, infer_split, 0},
    {"", "StringNormalizer", 10, 0, VN_CLASS_EXACT, 0, "TEXT-4", eval_normalizer, infer_normalizer, 0},
    {"", "RegexFullMatch", 20, 0, VN_CLASS_EXACT, 0, "REGEX-1", vn_text_regex, infer_regex, 0},
    {"", "TfIdfVectorizer", 9, 0, VN_CLASS_REDUCTION, 0, "NGRAM-1", vn_text_ngrams, vn_infer_ngrams, 0},
};

const vn_family_t vn_family_text = {.name = "text", .rows = rows, .count = sizeof rows / sizeof *rows};
