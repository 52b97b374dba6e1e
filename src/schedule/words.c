/* words.c -- a schedule's text in words: "chain(128) >> chain(72)". What has no words is left as the text itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

enum { NESTING = 12, SHOWN = 4 };

typedef struct speaker {
    const char *text;
    vn_text_t out;
    bool initial; /* the first position is the initial value */
    int depth;
    bool lost; /* no words for this */
} speaker_t;

static void say(speaker_t *w, size_t at, size_t end, int64_t m, int64_t from);

static int opens(char c) { return (c == '{' || c == '[') - (c == '}' || c == ']'); }

static size_t outside(const speaker_t *w, size_t at, size_t end, char c) {
    for (int depth = 0; at < end && !(depth == 0 && w->text[at] == c); ++at) depth += opens(w->text[at]);
    return at;
}

static int64_t number(speaker_t *w, size_t *at, size_t end) {
    int64_t value = 0;
    const size_t begin = *at;
    while (*at < end && w->text[*at] >= '0' && w->text[*at] <= '9' && value <= VN_TREE_MAX_LEAVES)
        value = value * 10 + (w->text[(*at)++] - '0');
    if (*at == begin || value < 1 || value > VN_TREE_MAX_LEAVES) w->lost = true;
    return value;
}

/* What a letter does with terms, and how it joins blocks. */
static const struct letter {
    char letter;
    const char *word, *join;
} letters[] = {{'S', "chain", "in a chain"},
               {'R', "chain from the right", "in a chain from the right"},
               {'A', "pairwise", "pairwise"},
               {'H', "halves", "by halves"},
               {'U', "upper halves", "by upper halves"},
               {'F', "fused", "in one fused sum"}};
static const struct letter *known(char letter) {
    for (size_t k = 0; k < sizeof letters / sizeof *letters; ++k)
        if (letters[k].letter == letter) return &letters[k];
    return NULL;
}

static void say_letter(speaker_t *w, size_t at, size_t end, int64_t m, int64_t from) {
    const char letter = w->text[at];
    const struct letter *l = known(letter);
    if (letter != 'G' && letter != 'T' && end - at != 1) w->lost = true;
    else if (m == 1 && from == 0 && w->initial) vn_text_add(&w->out, "initial value");
    else if (letter == '.') vn_text_add(&w->out, "term");
    else if (letter == 'P') vn_text_add(&w->out, "rounded product");
    else if (letter == 'T') vn_text_printf(&w->out, "irregular(%lld)", (long long)m);
    else if (letter == 'G') vn_text_printf(&w->out, "chain of fused %.*s(%lld)", (int)(end - at - 1), w->text + at + 1, (long long)m);
    else if (l) vn_text_printf(&w->out, "%s(%lld)", l->word, (long long)m);
    else w->lost = true;
}

/* One block or item; a block of one term under any text but '.' is a rounded product. */
static void say_block(speaker_t *w, size_t at, size_t end, int64_t m, int64_t from) {
    if (m == 1 && !(from == 0 && w->initial)) vn_text_add(&w->out, end - at == 1 && w->text[at] == '.' ? "term" : "rounded product");
    else say(w, at, end, m, from);
}

static void say_blocks(speaker_t *w, size_t begin, size_t angle, size_t end, int64_t m, int64_t from) {
    size_t p = angle + 1;
    const bool runs = p < end && w->text[p] == '@';
    p += runs;
    const int64_t size = number(w, &p, end);
    if (w->lost || p >= end || w->text[p] != '{' || w->text[end - 1] != '}') {
        w->lost = true;
        return;
    }
    const size_t each = p + 1, each_end = outside(w, each, end - 1, ';');
    const size_t last = each_end < end - 1 ? each_end + 1 : each, last_end = each_end < end - 1 ? end - 1 : each_end;
    const int64_t count = runs ? 0 : (m + size - 1) / size, tail = m - (count - 1) * size;
    if (runs) {
        vn_text_printf(&w->out, "[each run of loop %lld: ", (long long)size);
        say(w, each, each_end, -1, from);
        vn_text_add(&w->out, "]");
    } else if (angle - begin == 1 && w->text[begin] == 'S' && count <= SHOWN) {
        for (int64_t k = 0; k < count; ++k) {
            if (k) vn_text_add(&w->out, " >> ");
            if (k == count - 1) say_block(w, last, last_end, tail, from + k * size);
            else say_block(w, each, each_end, size, from + k * size);
        }
        return;
    } else {
        const bool odd = tail != size || last != each;
        vn_text_printf(&w->out, "[%lld x ", (long long)(count - odd));
        say_block(w, each, each_end, size, from);
        if (odd) {
            vn_text_add(&w->out, " and ");
            say_block(w, last, last_end, tail, from + (count - 1) * size);
        }
        vn_text_add(&w->out, "]");
    }
    vn_text_add(&w->out, " joined ");
    if (angle - begin == 1 && known(w->text[begin])) {
        vn_text_add(&w->out, known(w->text[begin])->join);
        return;
    }
    vn_text_add(&w->out, "as (");
    say(w, begin, angle, runs ? -1 : count, 1); /* of blocks: no position is the initial value */
    vn_text_add(&w->out, ")");
}

static void say_list(speaker_t *w, size_t at, size_t end, int64_t m, int64_t from) {
    const char *between = w->text[at] == 'S' ? " >> " : w->text[at] == 'R' ? " << " : " + ";
    int64_t used = 0;
    vn_text_add(&w->out, "(");
    for (size_t p = at + 2; p < end - 1 && !w->lost;) {
        int64_t count = 1, size = number(w, &p, end);
        if (p < end && w->text[p] == '*') {
            count = size;
            ++p;
            size = number(w, &p, end);
        }
        const bool shaped = p < end && w->text[p] == ':';
        const size_t shape = p + 1, stop = shaped ? outside(w, shape, end - 1, ',') : p;
        if (used) vn_text_add(&w->out, between);
        if (count > 1) vn_text_printf(&w->out, "%lld x ", (long long)count);
        const bool blocks = shaped && outside(w, shape, stop, '<') < stop;
        if (blocks) vn_text_add(&w->out, "(");
        if (shaped) say(w, shape, stop, size, from + used);
        else vn_text_add(&w->out, from + used == 0 && w->initial ? "initial value" : "term");
        if (blocks) vn_text_add(&w->out, ")");
        used += count * size;
        p = stop + (stop < end - 1);
    }
    vn_text_add(&w->out, ")");
    if (m >= 0 && used != m) w->lost = true;
}

/* m -1: of any length. */
static void say(speaker_t *w, size_t at, size_t end, int64_t m, int64_t from) {
    size_t angle = end;
    int depth = 0;
    if (w->depth == NESTING || at >= end) w->lost = true;
    if (w->lost) return;
    w->depth++;
    for (size_t k = at; k < end; ++k) {
        if (depth == 0 && w->text[k] == '<') angle = k;
        depth += opens(w->text[k]);
    }
    const bool list = end - at > 2 && w->text[at + 1] == '[' && w->text[end - 1] == ']';
    if (m < 0 && (angle != end || list || !known(w->text[at]))) w->lost = true;
    else if (m < 0) vn_text_add(&w->out, known(w->text[at])->word);
    else if (angle != end) say_blocks(w, at, angle, end, m, from);
    else if (list) say_list(w, at, end, m, from);
    else say_letter(w, at, end, m, from);
    w->depth--;
}

/* "16 lanes: " for 0+9*16+16*1, else the loops themselves. */
static void say_order(speaker_t *w, size_t at, size_t end) {
    const int n = (int)(end - at);
    int used = 0;
    int start, count, stride;
    char buffer[64];
    if (n == 0) return;
    if (n < (int)sizeof buffer) {
        memcpy(buffer, w->text + at, (size_t)n);
        buffer[n] = '\0';
        if (sscanf(buffer, "%d+%d*%d%n", &start, &count, &stride, &used) == 3 && start == 0 && stride > 1 && buffer[used] == '+' &&
            !strchr(buffer, ',')) {
            vn_text_printf(&w->out, "%d lanes: ", stride);
            return;
        }
        if (strncmp(buffer, "1+2*-1+", 7) == 0 && !strchr(buffer, ',')) {
            vn_text_add(&w->out, "second of each pair first: ");
            return;
        }
    }
    vn_text_printf(&w->out, "order %.*s: ", n, w->text + at);
}

void vn_schedule_words(const char *text, char *out, size_t size) {
    speaker_t w = {.text = text};
    size_t at = 0;
    int64_t n = 0;
    while (text[at] >= '0' && text[at] <= '9' && n <= VN_TREE_MAX_LEAVES) n = n * 10 + (text[at++] - '0');
    w.initial = strncmp(text + at, "+c", 2) == 0;
    at += w.initial ? 2 : 0;
    const bool second = text[at] == '\'';
    const char *order = text[at + second] == '|' ? text + at + second + 1 : NULL, *bar = order ? strchr(order, '|') : NULL;
    if (bar && n >= 1 && n <= VN_TREE_MAX_LEAVES && !second) {
        say_order(&w, (size_t)(order - text), (size_t)(bar - text));
        say(&w, (size_t)(bar - text) + 1, strlen(text), n + w.initial, 0);
    }
    const bool words = w.out.data && !w.lost && !w.out.failed && bar && !second;
    if (size) snprintf(out, size, "%s", words ? w.out.data : text);
    vn_text_free(&w.out);
}
