/* shape_name.c -- the shortest text of a shape. Claim SCHED-1: a function of
 * the shape alone.
 *
 * A base letter if one fits. Else, by least length + 6 for each level of
 * brackets, the first of equals: blocks J<b{E}> with b from the left spine,
 * large ones first; blocks that are runs of a loop of the order; a list of the
 * children; lists along the left and the right spine, cut where the items
 * change; and, 24 dearer, the tree written out. The cost of a shape is kept by
 * its number, so every shape is judged once. An explicit stack holds the shapes
 * whose parts are still open; the chosen text nests at most DEEPEST levels,
 * what would be deeper is written out.
 */
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

enum { DEEPEST = 40, BRACKET = 6, LITERAL = 24, SPINE_RUNS = 64, LIST_RUNS = 1024, BLOCK_CANDIDATES = 32 };

/* What is known of a shape from its children alone. */
enum { IS_S = 1, IS_R = 2, IS_A = 4, IS_H = 8, IS_U = 16, IS_F = 32, WHOLE_GROUPS = 64, HAS_ROUNDED = 128, OF_BLOCKS = 256 };
typedef struct fact {
    int32_t flags, group; /* group: of G; 0: none */
    int64_t literal;      /* characters of the tree written out */
} fact_t;

typedef enum choice { BASE, BLOCKS, LEVEL, CHILDREN, LEFT, RIGHT, WRITTEN } choice_t;
typedef struct memo {
    enum { FRESH, OPEN, DONE } state;
    choice_t choice;
    char letter;
    int32_t number; /* BASE: group; BLOCKS: size; LEVEL: level; LEFT, RIGHT: items
                     beside the spine */
    int32_t join, each, last;
    int64_t length;
    int32_t depth, levels; /* brackets; recursion of reader and writer */
    int32_t candidate, candidates;
} memo_t;

/* Blocks that the tree really has; last NONE: the last one is like the others.
 */
typedef struct candidate {
    int32_t number, join, each, last;
    bool level;
} candidate_t;

typedef struct namer {
    vn_shapes_t *s;
    const vn_runs_t *runs;
    int32_t whole;
    fact_t *fact;
    int32_t facts, fact_capacity;
    memo_t *memo;
    int32_t memos;
    candidate_t *candidate;
    int32_t candidates, candidate_capacity;
    int32_t *open; /* shapes to be judged */
    int64_t n_open, open_capacity;
    int32_t *spine, *value, *visit, *blocks; /* scratch, as large as the largest shape */
    int64_t work, most;
    vn_error_t *err;
} namer_t;

static vn_status_t nomem(const namer_t *w) { return vn_fail(w->err, VN_ERR_NOMEM, "no memory for the text of a tree"); }

/* ---- facts ---- */

static int32_t power_below(int32_t m) { /* largest power of two below m */
    int32_t p = 1;
    while (p < m - p) p *= 2;
    return p;
}

static fact_t pair_fact(const namer_t *w, int32_t a, int32_t b) {
    const int32_t left = w->s->size[a], m = left + w->s->size[b], fa = w->fact[a].flags, fb = w->fact[b].flags;
    const bool plain_a = a == VN_SHAPE_LEAF || a == VN_SHAPE_BLOCK, plain_b = b == VN_SHAPE_LEAF || b == VN_SHAPE_BLOCK;
    fact_t f = {0};
    if ((fa & IS_S) && plain_b) f.flags |= IS_S;
    if (plain_a && (fb & IS_R)) f.flags |= IS_R;
    if (fa & fb & IS_A && left == power_below(m)) f.flags |= IS_A;
    if (fa & fb & IS_H && left == m / 2) f.flags |= IS_H;
    if (fa & fb & IS_U && left == m - m / 2) f.flags |= IS_U;
    return f;
}

static fact_t fact_of(const namer_t *w, int32_t id) {
    const int32_t n = vn_shapes_arity(w->s, id), *child = vn_shapes_children(w->s, id);
    fact_t f = {.literal = 2};
    int32_t plain = 0;
    if (n == 0) {
        const int32_t all = IS_S | IS_R | IS_A | IS_H | IS_U;
        return (fact_t){.flags = id == VN_SHAPE_ROUNDED ? HAS_ROUNDED : id == VN_SHAPE_BLOCK ? all | OF_BLOCKS : all, .literal = 1};
    }
    if (n == 2) {
        f = pair_fact(w, child[0], child[1]);
        f.literal = 2;
    }
    for (int32_t k = 0; k < n; ++k) {
        f.flags |= w->fact[child[k]].flags & (HAS_ROUNDED | OF_BLOCKS);
        f.literal += w->fact[child[k]].literal;
        plain += child[k] == VN_SHAPE_LEAF || child[k] == VN_SHAPE_BLOCK;
    }
    if (plain == n) {
        f.flags |= IS_F | WHOLE_GROUPS;
        f.group = n;
    } else if (plain == n - 1 && child[0] >= VN_SHAPE_ATOMS && (w->fact[child[0]].flags & WHOLE_GROUPS) &&
               n - 1 <= w->fact[child[0]].group) {
        f.group = w->fact[child[0]].group;
        if (n - 1 == f.group) f.flags |= WHOLE_GROUPS;
    }
    return f;
}

static vn_status_t learn_facts(namer_t *w) {
    if (w->s->failed) return nomem(w);
    if (w->s->count > w->fact_capacity) {
        const int32_t more = w->s->count + w->s->count / 2 + 64;
        fact_t *fact = vn_realloc(w->fact, (size_t)more, sizeof *fact);
        if (!fact) return nomem(w);
        w->fact = fact;
        w->fact_capacity = more;
    }
    for (; w->facts < w->s->count; ++w->facts) w->fact[w->facts] = fact_of(w, w->facts);
    return VN_OK;
}

/* Facts and empty judgements for every shape there is. */
static vn_status_t learn(namer_t *w) {
    VN_TRY(learn_facts(w));
    if (w->s->count <= w->memos) return VN_OK;
    const int32_t more = w->s->count + w->s->count / 2 + 64;
    memo_t *memo = vn_realloc(w->memo, (size_t)more, sizeof *memo);
    if (!memo) return nomem(w);
    memset(memo + w->memos, 0, (size_t)(more - w->memos) * sizeof *memo);
    w->memo = memo;
    w->memos = more;
    return VN_OK;
}

static char base_letter(const namer_t *w, int32_t id, int32_t *group) {
    static const struct {
        int32_t flag;
        char letter;
    } letters[] = {{IS_S, 'S'}, {IS_A, 'A'}, {IS_H, 'H'}, {IS_U, 'U'}, {IS_R, 'R'}, {IS_F, 'F'}};
    const fact_t *f = &w->fact[id];
    *group = 0;
    if (id < VN_SHAPE_ATOMS) return id == VN_SHAPE_ROUNDED ? 'P' : '.';
    for (size_t k = 0; k < sizeof letters / sizeof *letters; ++k)
        if (f->flags & letters[k].flag) return letters[k].letter;
    *group = f->group;
    return f->group ? 'G' : '\0';
}

/* ---- which blocks a shape has ---- */

static int32_t left_spine(const namer_t *w, int32_t id) {
    int32_t n = 0;
    w->spine[n++] = id;
    while (id >= VN_SHAPE_ATOMS) w->spine[n++] = id = vn_shapes_children(w->s, id)[0];
    return n;
}

/* One attempt to see a shape as blocks. Uniform: of `size`, like `each`, the
 * last one may be shorter or different. Else between bounds[]. */
typedef struct cutting {
    int32_t m, size, each;
    const int32_t *bounds;
    int32_t at, block, last; /* position, blocks so far, what the last one is */
    bool intern;             /* second pass: makes the shape of the join */
} cutting_t;

/* Takes the subtree `id` in: 1 it is the next block, 0 it must be opened, -1 it
 * cuts across a border. */
static int take(const namer_t *w, cutting_t *c, int32_t id) {
    const int32_t size = w->s->size[id], room = c->m - c->at;
    const int32_t due = c->bounds ? c->bounds[c->block + 1] - c->at : room < c->size ? room : c->size;
    if (size > due) return 0;
    if (size < due) return -1;
    if (!c->bounds && id != c->each && size != room) return -1;
    if (c->bounds) w->blocks[c->block] = id;
    c->last = id;
    c->at += size;
    c->block++;
    return 1;
}

/* A subtree beside the spine, in blocks. The join's shape in *q (second pass).
 * values: how much of w->value is in use. */
static bool cut_subtree(namer_t *w, cutting_t *c, int32_t id, int32_t values, int32_t *q) {
    int32_t depth = 0; /* visit[2d], visit[2d + 1]: node, next child */
    const int32_t bottom = values;
    w->visit[0] = id;
    w->visit[1] = 0;
    ++depth;
    while (depth > 0) {
        const int32_t node = w->visit[2 * depth - 2], next = w->visit[2 * depth - 1];
        w->work++;
        if (next == 0) {
            const int taken = take(w, c, node);
            if (taken < 0) return false;
            if (taken > 0) {
                w->value[values++] = VN_SHAPE_BLOCK;
                --depth;
                continue;
            }
        }
        const int32_t n = vn_shapes_arity(w->s, node);
        if (next < n) {
            w->visit[2 * depth - 1]++;
            w->visit[2 * depth] = vn_shapes_children(w->s, node)[next];
            w->visit[2 * depth + 1] = 0;
            ++depth;
            continue;
        }
        values -= n;
        w->value[values] = c->intern ? vn_shapes_of(w->s, w->value + values, n) : VN_SHAPE_BLOCK;
        ++values;
        --depth;
    }
    *q = w->value[bottom];
    return true;
}

/* The whole shape: the first block is spine[from]. Along the spine, so that
 * chains that do not fit are seen at once. */
static bool cut(namer_t *w, cutting_t *c, int32_t from, int32_t *join) {
    int32_t q = VN_SHAPE_BLOCK;
    if (take(w, c, w->spine[from]) != 1) return false;
    for (int32_t k = from - 1; k >= 0; --k) {
        const int32_t n = vn_shapes_arity(w->s, w->spine[k]);
        w->value[0] = q;
        for (int32_t p = 1; p < n; ++p) {
            int32_t part;
            if (!cut_subtree(w, c, vn_shapes_children(w->s, w->spine[k])[p], p, &part)) return false;
            w->value[p] = part;
        }
        w->work += n;
        q = c->intern ? vn_shapes_of(w->s, w->value, n) : VN_SHAPE_BLOCK;
    }
    *join = q;
    return c->at == c->m;
}

static vn_status_t keep(namer_t *w, int32_t number, int32_t join, int32_t each, int32_t last, bool level) {
    if (w->candidates == w->candidate_capacity) {
        const int32_t more = w->candidate_capacity * 2 + 64;
        candidate_t *c = vn_realloc(w->candidate, (size_t)more, sizeof *c);
        if (!c) return nomem(w);
        w->candidate = c;
        w->candidate_capacity = more;
    }
    w->candidate[w->candidates++] = (candidate_t){number, join, each, last, level};
    return VN_OK;
}

static vn_status_t find_blocks(namer_t *w, int32_t id) {
    const int32_t n = left_spine(w, id), m = w->s->size[id], begin = w->candidates;
    w->work += n;
    for (int32_t from = 1; from < n && w->candidates - begin < BLOCK_CANDIDATES; ++from) {
        const int32_t each = w->spine[from], size = w->s->size[each];
        int32_t join;
        if (size == 1 && !(w->fact[id].flags & HAS_ROUNDED)) break;
        cutting_t c = {.m = m, .size = size, .each = each};
        w->work++;
        if (!cut(w, &c, from, &join)) continue;
        if (size == 1 && each == VN_SHAPE_LEAF && c.last == VN_SHAPE_LEAF) continue; /* the shape itself */
        c = (cutting_t){.m = m, .size = size, .each = each, .intern = true};
        if (!cut(w, &c, from, &join)) continue;
        VN_TRY(learn(w));
        VN_TRY(keep(w, size, join, each, c.last == each ? VN_SHAPE_NONE : c.last, false));
    }
    return VN_OK;
}

/* Blocks that are the runs of a loop whose runs differ in length, because the
 * order's last ones are clipped. */
static vn_status_t find_levels(namer_t *w, int32_t id) {
    const int32_t n = left_spine(w, id), m = w->s->size[id];
    for (int32_t level = 0; level < w->runs->levels; ++level) {
        const int32_t count = w->runs->count[level], *bounds = w->runs->at[level];
        int32_t from = 1, join;
        bool equal = true;
        for (int32_t k = 1; k < count; ++k) equal &= bounds[k + 1] - bounds[k] == bounds[1];
        if (count < 2 || equal || bounds[count] != m) continue;
        while (from < n && w->s->size[w->spine[from]] != bounds[1]) ++from;
        if (from == n) continue;
        cutting_t c = {.m = m, .bounds = bounds};
        if (!cut(w, &c, from, &join)) continue;
        c = (cutting_t){.m = m, .bounds = bounds, .intern = true};
        if (!cut(w, &c, from, &join)) continue;
        VN_TRY(learn(w));
        VN_TRY(keep(w, level + 1, join, w->blocks[0], VN_SHAPE_NONE, true));
    }
    return VN_OK;
}

/* ---- judging ---- */

static vn_status_t ask(namer_t *w, int32_t id) {
    if (w->memo[id].state == DONE) return VN_OK;
    if (w->n_open == w->open_capacity) {
        const int64_t more = w->open_capacity * 2 + 64;
        int32_t *open = vn_realloc(w->open, (size_t)more, sizeof *open);
        if (!open) return nomem(w);
        w->open = open;
        w->open_capacity = more;
    }
    w->open[w->n_open++] = id;
    return VN_OK;
}

static int digits(int64_t v) {
    int n = 1;
    for (; v >= 10; v /= 10) ++n;
    return n;
}

/* Sums up a list item by item. */
typedef struct tally {
    int64_t length;
    int32_t depth, levels, items;
} tally_t;
static void add_item(const namer_t *w, tally_t *t, int32_t id, int32_t run) {
    const memo_t *m = &w->memo[id];
    t->length += digits(w->s->size[id]) + 1 + (run > 1 ? digits(run) + 1 : 0);
    if (id != VN_SHAPE_LEAF && id != VN_SHAPE_BLOCK) t->length += 1 + m->length;
    if (m->depth > t->depth) t->depth = m->depth;
    if (m->levels > t->levels) t->levels = m->levels;
    t->items += run;
}

static void offer(memo_t *best, memo_t m) {
    if (m.levels <= DEEPEST && m.length + BRACKET * m.depth < best->length + BRACKET * best->depth) {
        m.candidate = best->candidate;
        m.candidates = best->candidates;
        *best = m;
    }
}

static void offer_list(memo_t *best, choice_t choice, int32_t number, tally_t t) {
    offer(best, (memo_t){.choice = choice, .number = number, .length = t.length + 2, .depth = t.depth + 1, .levels = t.levels + 1});
}

/* A walk along a spine: child `side` of each pair is an item, the other one
 * goes on. visit(): after each run, with the rest. */
typedef struct spine {
    int32_t at, run_id, run, items, runs;
    bool left;
} spine_t;
static bool next_run(namer_t *w, spine_t *p) {
    if (p->runs == SPINE_RUNS || vn_shapes_arity(w->s, p->at) != 2) return false;
    p->run_id = vn_shapes_children(w->s, p->at)[p->left];
    p->run = 0;
    while (vn_shapes_arity(w->s, p->at) == 2 && vn_shapes_children(w->s, p->at)[p->left] == p->run_id) {
        p->at = vn_shapes_children(w->s, p->at)[!p->left];
        p->run++;
        w->work++;
    }
    p->items += p->run;
    p->runs++;
    return true;
}

static vn_status_t ask_spine(namer_t *w, int32_t id, bool left) {
    spine_t p = {.at = id, .left = left};
    while (next_run(w, &p)) {
        VN_TRY(ask(w, p.run_id));
        if (p.items > 1) VN_TRY(ask(w, p.at));
    }
    return VN_OK;
}

static void judge_spine(namer_t *w, int32_t id, bool left, memo_t *best) {
    spine_t p = {.at = id, .left = left};
    tally_t t = {0};
    while (next_run(w, &p)) {
        add_item(w, &t, p.run_id, p.run);
        if (p.items < 2) continue; /* two items are a list of children */
        tally_t all = t;
        add_item(w, &all, p.at, 1);
        offer_list(best, left ? LEFT : RIGHT, p.items, all);
    }
}

static vn_status_t each_child(namer_t *w, int32_t id, memo_t *best) {
    const int32_t n = vn_shapes_arity(w->s, id);
    tally_t t = {0};
    int32_t runs = 0;
    for (int32_t k = 0; k < n;) {
        const int32_t *child = vn_shapes_children(w->s, id), one = child[k];
        int32_t run = 1;
        while (k + run < n && child[k + run] == one) ++run;
        k += run;
        w->work += run;
        if (++runs > LIST_RUNS) return VN_OK;
        if (best) add_item(w, &t, one, run);
        else VN_TRY(ask(w, one));
    }
    if (best) offer_list(best, CHILDREN, 0, t);
    return VN_OK;
}

static void write_name(const namer_t *w, int32_t id, vn_text_t *out);

/* Does the text of `each` name `id` over as many positions? */
static bool names_too(namer_t *w, int32_t each, int32_t id) {
    const int32_t m = w->s->size[id], atom = w->fact[id].flags & OF_BLOCKS ? VN_SHAPE_BLOCK : VN_SHAPE_LEAF;
    const memo_t *e = &w->memo[each];
    vn_text_t text = {0};
    int32_t made = VN_SHAPE_NONE;
    if (each == id) return true;
    if (m == 1 && atom == VN_SHAPE_LEAF) return each >= VN_SHAPE_ATOMS && id == VN_SHAPE_ROUNDED;
    if (e->choice == WRITTEN || each < VN_SHAPE_ATOMS) return false;
    write_name(w, each, &text);
    w->work += 2 * (int64_t)m + (int64_t)text.length;
    const vn_status_t st = text.failed ? VN_ERR_NOMEM : vn_shape_build(w->s, text.data, 0, text.length, atom, m, NULL, &made, NULL);
    vn_text_free(&text);
    if (st == VN_ERR_NOMEM) w->s->failed = true; /* no memory must not choose another text */
    return made == id;
}

static vn_status_t judge_blocks(namer_t *w, int32_t id) {
    const int32_t begin = w->memo[id].candidate, end = begin + w->memo[id].candidates;
    for (int32_t k = begin; k < end; ++k) {
        const candidate_t c = w->candidate[k];
        int32_t last = c.last;
        if (c.level) {
            bool fits = true;
            const int32_t level = c.number - 1, count = w->runs->count[level], *bounds = w->runs->at[level];
            int32_t join, from = 1;
            const int32_t n = left_spine(w, id); /* the blocks again: others were cut since */
            while (from < n && w->s->size[w->spine[from]] != bounds[1]) ++from;
            cutting_t again = {.m = w->s->size[id], .bounds = bounds};
            if (!cut(w, &again, from, &join)) continue;
            for (int32_t b = 1; b < count && fits; ++b) fits = w->blocks[b] == w->blocks[b - 1] || names_too(w, c.each, w->blocks[b]);
            if (!fits) continue;
        } else if (last >= 0 && names_too(w, c.each, last)) {
            last = VN_SHAPE_NONE;
        }
        VN_TRY(learn(w));
        const memo_t *j = &w->memo[c.join], *e = &w->memo[c.each], *l = last >= 0 ? &w->memo[last] : NULL;
        memo_t m = {.choice = c.level ? LEVEL : BLOCKS, .number = c.number, .join = c.join, .each = c.each, .last = last};
        m.length = j->length + c.level + digits(c.number) + 3 + e->length + (l ? 1 + l->length : 0);
        m.depth = 1 + (l && l->depth > e->depth ? l->depth : e->depth);
        if (j->depth > m.depth) m.depth = j->depth;
        m.levels = l && l->levels > e->levels ? l->levels : e->levels;
        m.levels = 1 + (j->levels > m.levels ? j->levels : m.levels);
        offer(&w->memo[id], m);
    }
    return VN_OK;
}

/* First visit: what the judgement of id rests on. */
static vn_status_t open_shape(namer_t *w, int32_t id) {
    int32_t group;
    const char letter = base_letter(w, id, &group);
    if (letter) {
        w->memo[id] = (memo_t){.state = DONE, .choice = BASE, .letter = letter, .number = group, .length = 1 + (group ? digits(group) : 0)};
        return VN_OK;
    }
    const int32_t begin = w->candidates;
    VN_TRY(find_blocks(w, id));
    if (w->runs && id == w->whole) VN_TRY(find_levels(w, id));
    w->memo[id] = (memo_t){.state = OPEN, .candidate = begin, .candidates = w->candidates - begin};
    VN_TRY(ask(w, id));
    for (int32_t k = begin; k < w->candidates; ++k) {
        const candidate_t c = w->candidate[k];
        VN_TRY(ask(w, c.join));
        VN_TRY(ask(w, c.each));
        if (c.last >= 0) VN_TRY(ask(w, c.last));
    }
    VN_TRY(each_child(w, id, NULL));
    VN_TRY(ask_spine(w, id, true));
    return ask_spine(w, id, false);
}

static vn_status_t close_shape(namer_t *w, int32_t id) {
    w->memo[id].length = INT64_MAX / 2;
    VN_TRY(judge_blocks(w, id)); /* may move the array */
    memo_t *m = &w->memo[id];
    VN_TRY(each_child(w, id, m));
    judge_spine(w, id, true, m);
    judge_spine(w, id, false, m);
    const int64_t written = 1 + w->fact[id].literal;
    if (written + LITERAL < m->length + BRACKET * m->depth) *m = (memo_t){.choice = WRITTEN, .length = written, .levels = 1};
    m->state = DONE;
    return VN_OK;
}

/* Too irregular: no part is named, the tree is written out. Bounded work,
 * counted, not timed, so that the text stays a function of the tree. */
static vn_status_t judge(namer_t *w, int32_t id) {
    VN_TRY(learn(w));
    VN_TRY(ask(w, id));
    while (w->n_open > 0) {
        const int32_t at = w->open[--w->n_open];
        if (w->work > w->most) {
            w->memo[id] = (memo_t){.state = DONE, .choice = WRITTEN};
            return VN_OK;
        }
        if (w->memo[at].state == FRESH) VN_TRY(open_shape(w, at));
        else if (w->memo[at].state == OPEN) VN_TRY(close_shape(w, at));
        w->work++;
    }
    return VN_OK;
}

/* ---- writing ---- */

static void write_tree(const namer_t *w, int32_t id, vn_text_t *out) {
    int32_t depth = 0;
    vn_text_add(out, "T");
    w->visit[0] = id;
    w->visit[1] = 0;
    ++depth;
    while (depth > 0) {
        const int32_t node = w->visit[2 * depth - 2], next = w->visit[2 * depth - 1], n = vn_shapes_arity(w->s, node);
        if (n == 0) {
            vn_text_add(out, node == VN_SHAPE_ROUNDED ? "P" : ".");
            --depth;
        } else if (next == n) {
            vn_text_add(out, ")");
            --depth;
        } else {
            if (next == 0) vn_text_add(out, "(");
            w->visit[2 * depth - 1]++;
            w->visit[2 * depth] = vn_shapes_children(w->s, node)[next];
            w->visit[2 * depth + 1] = 0;
            ++depth;
        }
    }
}

static void write_item(const namer_t *w, int32_t id, int32_t run, vn_text_t *out) {
    if (out->data && out->data[out->length - 1] != '[') vn_text_add(out, ",");
    if (run > 1) vn_text_printf(out, "%d*", run);
    vn_text_printf(out, "%d", w->s->size[id]);
    if (id == VN_SHAPE_LEAF || id == VN_SHAPE_BLOCK) return;
    vn_text_add(out, ":");
    write_name(w, id, out);
}

/* The items in the order of the leaves: the left spine's come from its far end.
 */
static void write_list(const namer_t *w, int32_t id, const memo_t *m, vn_text_t *out) {
    const bool children = m->choice == CHILDREN, left = m->choice == LEFT;
    const int32_t n = children ? vn_shapes_arity(w->s, id) : m->number;
    int32_t *item = vn_alloc((size_t)n + 1, sizeof *item), at = id;
    if (!item) {
        out->failed = true;
        return;
    }
    for (int32_t k = 0; k < n; ++k) {
        const int32_t *child = vn_shapes_children(w->s, at);
        item[left ? n - 1 - k : k] = children ? child[k] : child[left];
        if (!children) at = child[!left];
    }
    vn_text_add(out, children ? "N[" : left ? "S[" : "R[");
    if (left) write_item(w, at, 1, out);
    for (int32_t k = 0; k < n;) {
        int32_t run = 1;
        while (k + run < n && item[k + run] == item[k]) ++run;
        write_item(w, item[k], run, out);
        k += run;
    }
    if (!left && !children) write_item(w, at, 1, out);
    vn_text_add(out, "]");
    vn_free(item);
}

/* Depth is bounded by DEEPEST. */
static void write_name(const namer_t *w, int32_t id, vn_text_t *out) {
    const memo_t *m = &w->memo[id];
    switch (m->choice) {
    case BASE:
        vn_text_addn(out, &m->letter, 1);
        if (m->number) vn_text_printf(out, "%d", m->number);
        return;
    case BLOCKS:
    case LEVEL:
        write_name(w, m->join, out);
        vn_text_printf(out, "<%s%d{", m->choice == LEVEL ? "@" : "", m->number);
        write_name(w, m->each, out);
        if (m->last >= 0) {
            vn_text_add(out, ";");
            write_name(w, m->last, out);
        }
        vn_text_add(out, "}");
        return;
    case CHILDREN:
    case LEFT:
    case RIGHT: write_list(w, id, m, out); return;
    case WRITTEN: write_tree(w, id, out); return;
    }
}

static vn_status_t name_parts(namer_t *w, int32_t id, vn_text_t *out) {
    const size_t m = (size_t)w->s->size[id];
    w->spine = vn_alloc(m + 2, sizeof *w->spine);
    w->value = vn_alloc(2 * m + 4, sizeof *w->value);
    w->visit = vn_alloc(2 * m + 4, sizeof *w->visit);
    w->blocks = vn_alloc(m + 2, sizeof *w->blocks);
    vn_status_t st = w->spine && w->value && w->visit && w->blocks ? judge(w, id) : nomem(w);
    if (st == VN_OK) write_name(w, id, out);
    vn_free(w->spine);
    vn_free(w->value);
    vn_free(w->visit);
    vn_free(w->blocks);
    vn_free(w->memo);
    vn_free(w->candidate);
    vn_free(w->open);
    return st;
}

vn_status_t vn_shape_name(vn_shapes_t *s, int32_t id, int32_t whole, const vn_runs_t *runs, vn_text_t *out, vn_error_t *err) {
    namer_t w = {.s = s, .runs = runs, .whole = whole, .most = (1 << 20) + 64 * (int64_t)s->size[id], .err = err};
    int32_t group;
    vn_status_t st = learn_facts(&w);
    const char letter = st == VN_OK ? base_letter(&w, id, &group) : '\0';
    if (letter) {
        vn_text_addn(out, &letter, 1);
        if (group) vn_text_printf(out, "%d", group);
    } else if (st == VN_OK) {
        st = name_parts(&w, id, out);
    }
    vn_free(w.fact);
    return st == VN_OK && (out->failed || s->failed) ? nomem(&w) : st;
}
