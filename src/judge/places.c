/* places.c -- finds the simplest description of a set of elements: a product of index sets, its complement, a range of the buffer, a period. */
#include "judge/places.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_PERIOD = 4096,
    FIRM = 10 /* each further index that follows a period halves the chance that it is none */
};

/* ---- one axis ---- */

/* Membership depends on i mod p only. */
static bool periodic(const uint8_t *s, int64_t d, int64_t p, uint8_t *class) {
    memset(class, VN_PLACE_EITHER, (size_t)p);
    for (int64_t i = 0, r = 0; i < d; ++i, r = r + 1 == p ? 0 : r + 1) {
        if (s[i] == VN_PLACE_EITHER) continue;
        if (class[r] == VN_PLACE_EITHER) class[r] = s[i];
        else if (class[r] != s[i]) return false;
    }
    return true;
}

/* A period before or after i stands an element of the other sort. */
static bool refuted(const uint8_t *s, int64_t d, int64_t i, int64_t p) {
    const uint8_t opposite = s[i] == VN_PLACE_MARKED ? VN_PLACE_NOT : VN_PLACE_MARKED;
    return (i >= p && s[i - p] == opposite) || (i + p < d && s[i + p] == opposite);
}

/* Residues that belong to the set: one run (cyclic) of marked ones, or one run of the others. */
static void lanes(const uint8_t *class, int64_t p, vn_axis_places_t *a) {
    int64_t runs = 0, begin = 0, marked = 0;
    for (int64_t r = 0; r < p; ++r) {
        const bool in = class[r] == VN_PLACE_MARKED, before = class[(r + p - 1) % p] == VN_PLACE_MARKED;
        marked += in;
        if (in && !before) {
            runs++;
            begin = r;
        }
    }
    a->period = p;
    a->begin = begin;
    a->width = marked;
    if (runs == 1 && begin + marked > p) { /* the others are the run */
        a->inverse = true;
        a->begin = begin + marked - p;
        a->width = p - marked;
    }
    if (runs > 1) a->width = -marked; /* several runs: named by their number only */
}

static vn_axis_places_t describe_axis(const uint8_t *s, int64_t d, uint8_t *class) {
    vn_axis_places_t a = {.size = d};
    int64_t first = -1, last = -1, other = -1, other_last = -1, firm = 0, before = 0, after = 0, between = 0;
    for (int64_t i = 0; i < d; ++i) {
        firm += s[i] != VN_PLACE_EITHER;
        if (s[i] == VN_PLACE_NOT) {
            if (other < 0) other = i;
            other_last = i;
        }
        if (s[i] == VN_PLACE_MARKED) {
            if (first < 0) first = i;
            between += after;
            after = 0;
            last = i;
            a.count++;
        } else if (s[i] == VN_PLACE_NOT) {
            if (first < 0) before++;
            else after++;
        }
    }
    if (before + between + after == 0) {
        a.form = VN_AXIS_ALL;
    } else if (a.count == 1) {
        a.form = VN_AXIS_ONE;
        a.begin = last;
    } else if (between == 0) {
        a.begin = first;
        a.count = last - first + 1;
        if (after == 0) {
            a.form = VN_AXIS_TAIL;
            a.count = d - first;
        } else if (before == 0) {
            a.form = VN_AXIS_HEAD;
            a.begin = 0;
            a.count = last + 1;
        } else {
            a.form = VN_AXIS_RANGE;
        }
    } else {
        a.form = VN_AXIS_SOME;
        for (int64_t p = 2; p <= d / 2 && p <= MAX_PERIOD; ++p) {
            /* the ends of the set, and of the rest, refute nearly every period at once */
            if (refuted(s, d, first, p) || refuted(s, d, last, p) || refuted(s, d, other, p) || refuted(s, d, other_last, p)) continue;
            if (!periodic(s, d, p, class)) continue;
            vn_axis_places_t of = a;
            lanes(class, p, &of);
            of.spare = firm - p;
            if (of.spare < (of.width < 0 ? FIRM : 3)) break; /* no pattern yet: the indices themselves say more */
            a = of;
            a.form = VN_AXIS_LANES;
            break;
        }
        for (int64_t i = 0, k = 0; i < d && k < 4; ++i)
            if (s[i] == VN_PLACE_MARKED) a.some[k++] = i;
    }
    return a;
}

/* ---- words ---- */

static void put(char *out, size_t size, const char *text) {
    const size_t n = strlen(out);
    if (n + 1 < size) snprintf(out + n, size - n, "%s", text);
}

/* The words for one index set; `one` and `many` are its nouns, or NULL: "of axis k". */
static void axis_words(const vn_axis_places_t *a, int axis, const char *one, const char *many, char *out, size_t size) {
    char of[32] = "", range[48];
    const long long b = (long long)a->begin, n = (long long)a->count, w = (long long)a->width, p = (long long)a->period;
    if (!one) {
        snprintf(of, sizeof of, " of axis %d", axis);
        one = "index";
        many = "indices";
    }
    switch (a->form) {
    case VN_AXIS_ALL: snprintf(out, size, "all %s%s", many, of); break;
    case VN_AXIS_ONE: snprintf(out, size, "%s %lld%s", one, b, of); break;
    case VN_AXIS_HEAD: snprintf(out, size, *of ? "the first %lld%s%s" : "the first %lld %s%s", n, *of ? "" : many, of); break;
    case VN_AXIS_TAIL: snprintf(out, size, *of ? "the last %lld%s%s" : "the last %lld %s%s", n, *of ? "" : many, of); break;
    case VN_AXIS_RANGE: snprintf(out, size, "%s %lld-%lld%s", many, b, b + n - 1, of); break;
    case VN_AXIS_LANES:
        if (w < 0) {
            snprintf(out, size, "%lld of every %lld %s%s", -w, p, many, of);
            break;
        }
        if (w == 1) snprintf(range, sizeof range, "%s %lld", one, b);
        else snprintf(range, sizeof range, "%s %lld-%lld", many, b, b + w - 1);
        snprintf(out, size, "%s%s of every %lld%s", a->inverse ? "all but " : "", range, p, of);
        break;
    case VN_AXIS_SOME:
        if (n > 4) {
            snprintf(out, size, "%lld of %lld %s%s", n, (long long)a->size, many, of);
            break;
        }
        snprintf(out, size, "%s", many);
        for (int64_t k = 0; k < n; ++k) {
            snprintf(range, sizeof range, "%s %lld", k ? "," : "", (long long)a->some[k]);
            put(out, size, range);
        }
        put(out, size, of);
        break;
    }
}

static void box_words(const vn_places_t *p, char *out, size_t size) {
    out[0] = '\0';
    for (int k = 0; k < p->rank; ++k) {
        if (p->axes[k].form == VN_AXIS_ALL) continue;
        char text[96];
        const bool pair = p->rank == 2;
        axis_words(&p->axes[k], k,
                   p->rank == 1 ? "element"
                   : pair       ? (k ? "column" : "row")
                                : NULL,
                   p->rank == 1 ? "elements"
                   : pair       ? (k ? "columns" : "rows")
                                : NULL,
                   text, sizeof text);
        if (*out) put(out, size, ", ");
        put(out, size, text);
    }
}

static void words(vn_places_t *p) {
    char box[160];
    box_words(p, box, sizeof box);
    const long long n = (long long)p->count;
    switch (p->kind) {
    case VN_PLACES_NONE: snprintf(p->text, sizeof p->text, "no element"); break;
    case VN_PLACES_ALL: snprintf(p->text, sizeof p->text, "all elements"); break;
    case VN_PLACES_ONE: snprintf(p->text, sizeof p->text, "one element%s%s", *box ? ", " : "", box); break;
    case VN_PLACES_BOX: snprintf(p->text, sizeof p->text, "%s", box); break;
    case VN_PLACES_REST: snprintf(p->text, sizeof p->text, "all but %s", box); break;
    case VN_PLACES_FLAT:
        axis_words(&p->flat, 0, "element", "elements", p->text, sizeof p->text);
        put(p->text, sizeof p->text, " in memory order");
        break;
    case VN_PLACES_SCATTERED: snprintf(p->text, sizeof p->text, "%lld scattered elements%s%s", n, *box ? " within " : "", box); break;
    }
}

/* ---- the set ---- */

typedef struct profile {
    int64_t *marked[VN_MAX_RANK], *others[VN_MAX_RANK]; /* how many elements of each index */
    uint8_t *state[VN_MAX_RANK];
} profile_t;

static void count(const uint8_t *mark, const vn_places_t *p, const int64_t *dims, profile_t *f) {
    int64_t at[VN_MAX_RANK] = {0};
    for (int64_t i = 0; i < p->total; ++i) {
        if (mark[i] != VN_PLACE_EITHER)
            for (int k = 0; k < p->rank; ++k) (mark[i] ? f->marked : f->others)[k][at[k]]++;
        for (int k = p->rank - 1; k >= 0 && ++at[k] == dims[k]; --k) at[k] = 0;
    }
}

/* Index sets of the elements with `mine` > 0; true if no element of the other sort lies in their product. */
static bool product(const uint8_t *mark, uint8_t other, const vn_places_t *p, const int64_t *dims, int64_t *const *mine,
                    int64_t *const *theirs, const profile_t *f) {
    for (int k = 0; k < p->rank; ++k)
        for (int64_t t = 0; t < dims[k]; ++t)
            f->state[k][t] = mine[k][t] > 0 ? VN_PLACE_MARKED : theirs[k][t] > 0 ? VN_PLACE_NOT : VN_PLACE_EITHER;
    int64_t at[VN_MAX_RANK] = {0};
    for (int64_t i = 0; i < p->total; ++i) {
        bool inside = mark[i] == other;
        for (int k = 0; k < p->rank && inside; ++k) inside = f->state[k][at[k]] == VN_PLACE_MARKED;
        if (inside) return false;
        for (int k = p->rank - 1; k >= 0 && ++at[k] == dims[k]; --k) at[k] = 0;
    }
    return true;
}

/* Elements that belong to either side let the product grow to a whole axis where nothing contradicts. */
static void extend(const uint8_t *mark, uint8_t other, const vn_places_t *p, const int64_t *dims, const profile_t *f) {
    for (int k = p->rank - 1; k >= 0; --k) {
        int64_t at[VN_MAX_RANK] = {0};
        bool free = true;
        for (int64_t i = 0; i < p->total && free; ++i) {
            bool inside = mark[i] == other;
            for (int a = 0; a < p->rank && inside; ++a) inside = a == k || f->state[a][at[a]] == VN_PLACE_MARKED;
            free = !inside;
            for (int a = p->rank - 1; a >= 0 && ++at[a] == dims[a]; --a) at[a] = 0;
        }
        if (free) memset(f->state[k], VN_PLACE_MARKED, (size_t)dims[k]);
    }
}

static void axes(vn_places_t *p, const int64_t *dims, const profile_t *f, uint8_t *class) {
    for (int k = 0; k < p->rank; ++k) p->axes[k] = describe_axis(f->state[k], dims[k], class);
}

static bool regular(const vn_places_t *p) {
    for (int k = 0; k < p->rank; ++k)
        if (p->axes[k].form == VN_AXIS_SOME) return false;
    return true;
}

vn_status_t vn_places_find(const uint8_t *mark, int rank, const int64_t *dims, vn_places_t *out, vn_error_t *err) {
    *out = (vn_places_t){.rank = rank, .total = 1};
    int64_t sum = 0, others = 0, first = 0;
    for (int k = 0; k < rank; ++k) {
        out->total *= dims[k]; /* of a tensor that exists */
        sum += dims[k];
    }
    for (int64_t i = out->total - 1; i >= 0; --i) {
        others += mark[i] == VN_PLACE_NOT;
        if (mark[i] != VN_PLACE_MARKED) continue;
        out->count++;
        first = i;
    }
    if (out->count == 0 || others == 0) {
        out->kind = out->count ? VN_PLACES_ALL : VN_PLACES_NONE;
        words(out);
        return VN_OK;
    }
    int64_t *counts = vn_alloc((size_t)sum * 2 + 1, sizeof *counts);
    uint8_t *state = vn_alloc((size_t)sum + MAX_PERIOD + 1, 1);
    if (!counts || !state) {
        vn_free(counts);
        vn_free(state);
        return vn_fail(err, VN_ERR_NOMEM, "no memory to describe %lld elements", (long long)out->total);
    }
    profile_t f;
    int64_t *c = counts;
    uint8_t *s = state + MAX_PERIOD;
    for (int k = 0; k < rank; ++k) {
        f.marked[k] = c;
        f.others[k] = c + dims[k];
        f.state[k] = s;
        c += 2 * dims[k];
        s += dims[k];
    }
    count(mark, out, dims, &f);
    const bool box = product(mark, VN_PLACE_NOT, out, dims, f.marked, f.others, &f);
    if (box && out->count + others < out->total) extend(mark, VN_PLACE_NOT, out, dims, &f);
    axes(out, dims, &f, state);
    out->kind = out->count == 1 ? VN_PLACES_ONE : box ? VN_PLACES_BOX : VN_PLACES_SCATTERED;
    if (out->kind == VN_PLACES_SCATTERED || (box && !regular(out))) {
        vn_places_t rest = *out;
        const vn_axis_places_t flat = describe_axis(mark, out->total, state);
        if (flat.form != VN_AXIS_SOME) {
            out->kind = VN_PLACES_FLAT;
            out->flat = flat;
        } else if (product(mark, VN_PLACE_MARKED, out, dims, f.others, f.marked, &f)) {
            axes(&rest, dims, &f, state);
            rest.kind = VN_PLACES_REST;
            if (regular(&rest) || !box) *out = rest;
        }
    }
    if (out->kind == VN_PLACES_ONE && rank == 0) out->flat.begin = first;
    words(out);
    vn_free(counts);
    vn_free(state);
    return VN_OK;
}

/* ---- what a reader of the set asks ---- */

bool vn_places_slices(const vn_places_t *p) {
    if (p->kind != VN_PLACES_BOX) return false;
    int restricted = 0, single = 0;
    for (int k = 0; k < p->rank; ++k) {
        restricted += p->axes[k].form != VN_AXIS_ALL;
        single += p->axes[k].form == VN_AXIS_ONE;
    }
    return restricted == 1 || single == restricted;
}

static bool last(const vn_axis_places_t *a) { return a->form == VN_AXIS_TAIL || (a->form == VN_AXIS_ONE && a->begin == a->size - 1); }

bool vn_places_tail(const vn_places_t *p) {
    bool tail = false, whole = true;
    switch (p->kind) {
    case VN_PLACES_FLAT: return last(&p->flat);
    case VN_PLACES_ONE:
        for (int k = 0; k < p->rank; ++k) whole = whole && (p->axes[k].form == VN_AXIS_ALL || last(&p->axes[k]));
        return whole && p->total > 1;
    case VN_PLACES_BOX:
        for (int k = 0; k < p->rank; ++k) tail = tail || last(&p->axes[k]);
        for (int k = 0; k < p->rank; ++k) whole = whole && (last(&p->axes[k]) || p->axes[k].form == VN_AXIS_ALL);
        return tail && whole;
    case VN_PLACES_REST: /* what is right is the beginning of every axis */
        for (int k = 0; k < p->rank; ++k) {
            const vn_axis_places_t *a = &p->axes[k];
            const bool head = a->form == VN_AXIS_HEAD || (a->form == VN_AXIS_ONE && a->begin == 0);
            tail = tail || head;
            whole = whole && (head || a->form == VN_AXIS_ALL);
        }
        return tail && whole;
    default: return false;
    }
}

bool vn_places_lanes(const vn_places_t *p) {
    if (p->kind == VN_PLACES_FLAT) return p->flat.form == VN_AXIS_LANES && p->flat.spare >= FIRM;
    if (p->kind != VN_PLACES_BOX && p->kind != VN_PLACES_REST) return false;
    for (int k = 0; k < p->rank; ++k)
        if (p->axes[k].form == VN_AXIS_LANES && p->axes[k].spare >= FIRM) return true;
    return false;
}
