/* svg.c -- pictures: a tree with at most 64 boxes, each a leaf or a subtree that is told by its text; the classes of output elements as a map. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/draft.h"

enum { BOXES = 64, BOX_WIDTH = 22, ROW = 34, LABEL = 60 };

typedef struct drawing {
    const vn_tree_t *t;
    const int32_t *size;
    bool *open;     /* [nodes] drawn with its children */
    double *x;      /* [leaves + nodes] middle of what is drawn */
    int32_t *level; /* [nodes] */
    double width;
    int32_t depth;
    vn_text_t out;
} drawing_t;

/* Opens the largest nodes as long as there are not too many boxes. */
static void open_nodes(drawing_t *d) {
    const int32_t leaves = vn_tree_leaves(d->t);
    int32_t boxes = 1;
    if (d->t->nodes == 0) return;
    while (boxes < BOXES) {
        int32_t pick = -1;
        for (int32_t k = d->t->nodes - 1; k >= 0; --k) { /* a node may be opened once its parent is */
            const bool root = k == d->t->nodes - 1;
            if (d->open[k] || (!root && d->level[k] < 0)) continue;
            if (boxes + d->t->first[k + 1] - d->t->first[k] - 1 > BOXES) continue; /* too wide: stays a box */
            if (pick < 0 || d->size[leaves + k] > d->size[leaves + pick]) pick = k;
        }
        if (pick < 0) return;
        const int32_t n = d->t->first[pick + 1] - d->t->first[pick];
        d->open[pick] = true;
        if (d->level[pick] < 0) d->level[pick] = 0;
        if (d->level[pick] + 1 > d->depth) d->depth = d->level[pick] + 1;
        boxes += n - 1;
        for (int32_t c = d->t->first[pick]; c < d->t->first[pick + 1]; ++c)
            if (d->t->child[c] >= leaves) d->level[d->t->child[c] - leaves] = d->level[pick] + 1;
    }
}

/* Text of a closed subtree: its leaves renumbered from 0. */
static vn_status_t subtree_text(const drawing_t *d, int32_t k, char *label, size_t size, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(d->t);
    uint8_t *keep = vn_alloc((size_t)leaves, 1);
    int32_t *stack = vn_alloc((size_t)leaves + (size_t)d->t->nodes, sizeof *stack), depth = 0, first = INT32_MAX, last = -1;
    vn_tree_t *part = NULL;
    char *text = NULL;
    vn_status_t st = keep && stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
    if (st == VN_OK) stack[depth++] = leaves + k;
    while (depth > 0) {
        const int32_t id = stack[--depth];
        if (id >= leaves) {
            for (int32_t c = d->t->first[id - leaves]; c < d->t->first[id - leaves + 1]; ++c) stack[depth++] = d->t->child[c];
            continue;
        }
        keep[id] = 1;
        if (id < d->t->n && id < first) first = id;
        if (id < d->t->n && id > last) last = id;
    }
    if (st == VN_OK) st = vn_tree_restrict(d->t, keep, &part, err);
    if (st == VN_OK) st = vn_schedule_compress(part, &text, err);
    if (st == VN_OK) snprintf(label, size, "%d..%d  %s", first, last, text);
    vn_free(text);
    vn_tree_free(part);
    vn_free(stack);
    vn_free(keep);
    return st;
}

static void escape(vn_text_t *out, const char *s) {
    for (; *s; ++s) {
        if (*s == '<') vn_text_add(out, "&lt;");
        else if (*s == '>') vn_text_add(out, "&gt;");
        else if (*s == '&') vn_text_add(out, "&amp;");
        else vn_text_addn(out, s, 1);
    }
}

static vn_status_t box(drawing_t *d, int32_t id, double y, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(d->t);
    char label[LABEL + 40] = "";
    if (id >= leaves) VN_TRY(subtree_text(d, id - leaves, label, sizeof label, err));
    else if (id == d->t->n) snprintf(label, sizeof label, "c");
    else snprintf(label, sizeof label, "%s%d", d->t->rounded && d->t->rounded[id] ? "P" : "", id);
    if (strlen(label) > LABEL) memcpy(label + LABEL - 3, "...", 4);
    vn_text_printf(&d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/><text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(60 %.1f %.1f)\">",
                   d->x[id], y, d->x[id] + 2, y + 12, d->x[id] + 2, y + 12);
    escape(&d->out, label);
    vn_text_add(&d->out, "</text>\n");
    return VN_OK;
}

/* Places the open part of the tree, left to right, and draws it: children first. */
static vn_status_t draw(drawing_t *d, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(d->t), root = d->t->nodes ? leaves + d->t->nodes - 1 : 0;
    int32_t *stack = vn_alloc(4 * BOXES + (size_t)vn_tree_widest(d->t) + 8, sizeof *stack), depth = 0;
    double at = BOX_WIDTH;
    vn_status_t st = stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
    if (st == VN_OK) stack[depth++] = root;
    while (st == VN_OK && depth > 0) {
        const int32_t top = stack[depth - 1], id = top < 0 ? ~top : top, k = id - leaves;
        if (id < leaves || !d->open[k]) {
            --depth;
            d->x[id] = at;
            at += BOX_WIDTH;
        } else if (top >= 0) {
            stack[depth - 1] = ~id;
            for (int32_t c = d->t->first[k + 1] - 1; c >= d->t->first[k]; --c) stack[depth++] = d->t->child[c];
        } else {
            --depth;
            const double y = ROW * (d->level[k] + 1);
            d->x[id] = (d->x[d->t->child[d->t->first[k]]] + d->x[d->t->child[d->t->first[k + 1] - 1]]) / 2;
            for (int32_t c = d->t->first[k]; st == VN_OK && c < d->t->first[k + 1]; ++c) {
                const int32_t child = d->t->child[c];
                const bool closed = child < leaves || !d->open[child - leaves];
                vn_text_printf(&d->out, "<path d=\"M%.1f %.1fL%.1f %.1f\"/>\n", d->x[id], y, d->x[child], y + ROW);
                if (closed) st = box(d, child, y + ROW, err);
            }
        }
    }
    if (st == VN_OK && (d->t->nodes == 0 || !d->open[d->t->nodes - 1])) st = box(d, root, ROW, err);
    d->width = at + 260;
    vn_free(stack);
    return st;
}

/* Everything of the picture but the frame. *width, *height: what it takes. */
static vn_status_t tree_body(const vn_tree_t *t, vn_text_t *out, double *width, double *height, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *size = NULL;
    drawing_t d = {.t = t};
    vn_status_t st = vn_tree_sizes(t, &size, err);
    d.size = size;
    d.open = vn_alloc((size_t)t->nodes + 1, sizeof *d.open);
    d.level = vn_alloc((size_t)t->nodes + 1, sizeof *d.level);
    d.x = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *d.x);
    if (st == VN_OK && !(d.open && d.level && d.x)) st = vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) d.level[k] = -1;
    if (st == VN_OK) open_nodes(&d);
    if (st == VN_OK) st = draw(&d, err);
    if (st == VN_OK) {
        *width = d.width;
        *height = ROW * (d.depth + 2) + 220;
        vn_text_add(out, "<g stroke=\"#888\" fill=\"#222\" stroke-width=\"1\">\n<style>text{stroke:none}</style>\n");
        if (d.out.data) vn_text_add(out, d.out.data);
        vn_text_add(out, "</g>\n");
        if (out->failed || d.out.failed) st = vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
    }
    vn_text_free(&d.out);
    vn_free(size);
    vn_free(d.open);
    vn_free(d.level);
    vn_free(d.x);
    return st;
}

static vn_status_t framed(const char *title, const vn_text_t *body, double width, double height, char **svg, vn_error_t *err) {
    vn_text_t whole = {0};
    vn_text_printf(
        &whole,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
        "font-size=\"10\" fill=\"#222\" stroke=\"none\">\n<title>",
        width, height, width, height);
    escape(&whole, title);
    vn_text_add(&whole, "</title>\n");
    vn_text_add(&whole, body->data ? body->data : "");
    vn_text_add(&whole, "</svg>\n");
    const bool complete = !whole.failed && (*svg = vn_strdup(whole.data)) != NULL;
    vn_text_free(&whole);
    return complete ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
}

vn_status_t vn_tree_svg(const vn_tree_t *t, char **svg, vn_error_t *err) {
    vn_text_t body = {0};
    char *text = NULL;
    double width = 0, height = 0;
    *svg = NULL;
    vn_status_t st = tree_body(t, &body, &width, &height, err);
    if (st == VN_OK) st = vn_schedule_compress(t, &text, err);
    if (st == VN_OK) st = framed(text, &body, width, height, svg, err);
    vn_text_free(&body);
    vn_free(text);
    return st;
}

/* ---- classes of output elements ---- */

enum { CELLS = 100, MAP_SIDE = 400, SWATCH = 12, LEGEND = 16, MIXED = -1 };

/* Output elements as a matrix: rows of a product; images and filters of a convolution; one row for sums of rows. */
static void matrix_of(const vn_schedule_t *s, int64_t *rows, int64_t *columns) {
    const int64_t images = (s->op.batch > 1 ? s->op.batch : 1) * s->op.filters;
    *rows = s->op.kind == VN_SUM_MATMUL ? s->op.m : s->op.kind == VN_SUM_CONV ? images : 1;
    if (*rows < 1 || s->outputs % *rows) *rows = 1;
    *columns = s->outputs / *rows;
}

/* Elements a side that share a cell. */
static int64_t step_of(int64_t lines) { return (lines + CELLS - 1) / CELLS; }

/* The class of a cell, MIXED if its elements are of several. */
static int cell_class(const vn_schedule_t *s, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    if (!s->class_of) return 0;
    const int64_t down = row + step_of(rows) < rows ? row + step_of(rows) : rows,
                  right = column + step_of(columns) < columns ? column + step_of(columns) : columns;
    const int first = s->class_of[row * columns + column];
    for (int64_t r = row; r < down; ++r)
        for (int64_t c = column; c < right; ++c)
            if (s->class_of[r * columns + c] != first) return MIXED;
    return first;
}

/* Colours far apart for neighbours in number: steps of the golden angle. */
static void colour(vn_text_t *out, int class) {
    if (class == MIXED) vn_text_add(out, " fill=\"#222\"");
    else vn_text_printf(out, " fill=\"hsl(%d,60%%,62%%)\"", (210 + class * 1375 / 10) % 360);
}

static void rectangle(vn_text_t *out, double x, double y, double width, double height, int class) {
    vn_text_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", x, y, width, height);
    colour(out, class);
    vn_text_add(out, "/>\n");
}

/* Draws the map from `top` down; cells of one class in a row are one block. Returns where it ends; *width grows to what it takes. */
static double class_map(const vn_schedule_t *s, double top, double *width, vn_text_t *out) {
    int64_t rows, columns;
    matrix_of(s, &rows, &columns);
    const int64_t down = step_of(rows), right = step_of(columns), across = (columns + right - 1) / right, along = (rows + down - 1) / down;
    const double side = (double)MAP_SIDE / (double)(across > along ? across : along), size = side > SWATCH ? SWATCH : side;
    bool mixed = false;
    vn_text_add(out, "<g class=\"map\">\n");
    vn_text_printf(out, "<text x=\"%d\" y=\"%.1f\">classes of %lld x %lld output elements", SWATCH, top, (long long)rows,
                   (long long)columns);
    if (down > 1 || right > 1) vn_text_printf(out, "; a cell is %lld x %lld of them", (long long)down, (long long)right);
    vn_text_add(out, "</text>\n");
    top += SWATCH;
    for (int64_t r = 0; r < along; ++r)
        for (int64_t c = 0; c < across;) {
            const int class = cell_class(s, rows, columns, r * down, c * right);
            int64_t end = c + 1;
            while (end < across && cell_class(s, rows, columns, r * down, end * right) == class) ++end;
            rectangle(out, SWATCH + size * (double)c, top + size * (double)r, size * (double)(end - c), size, class);
            mixed |= class == MIXED;
            c = end;
        }
    vn_text_add(out, "</g>\n<g class=\"legend\">\n");
    double y = top + size * (double)along + 2 * SWATCH;
    for (int k = 0; k < s->n_classes && k < LEGEND; ++k) {
        const vn_schedule_class_t *c = &s->classes[k];
        char line[LABEL * 3 + 1];
        const int n = snprintf(line, sizeof line, "%lld elements at %s: %s", (long long)c->elements, c->where,
                               c->text ? c->text : vn_violation_name(c->violation.kind));
        if (n >= (int)sizeof line) memcpy(line + sizeof line - 4, "...", 4);
        rectangle(out, SWATCH, y - 9, SWATCH, SWATCH, k);
        vn_text_printf(out, "<text x=\"%d\" y=\"%.1f\">", 3 * SWATCH, y);
        escape(out, line);
        vn_text_add(out, "</text>\n");
        if (3 * SWATCH + 6 * (double)strlen(line) > *width) *width = 3 * SWATCH + 6 * (double)strlen(line);
        y += 1.5 * SWATCH;
    }
    if (s->n_classes > LEGEND) {
        vn_text_printf(out, "<text x=\"%d\" y=\"%.1f\">and %d further classes</text>\n", 3 * SWATCH, y, s->n_classes - LEGEND);
        y += 1.5 * SWATCH;
    }
    if (mixed) {
        rectangle(out, SWATCH, y - 9, SWATCH, SWATCH, MIXED);
        vn_text_printf(out, "<text x=\"%d\" y=\"%.1f\">several classes in one cell</text>\n", 3 * SWATCH, y);
        y += 1.5 * SWATCH;
    }
    vn_text_add(out, "</g>\n");
    if (size * (double)across + 2 * SWATCH > *width) *width = size * (double)across + 2 * SWATCH;
    return y + SWATCH;
}

vn_status_t vn_schedule_svg(const vn_schedule_t *s, char **svg, vn_error_t *err) {
    vn_text_t body = {0};
    double width = MAP_SIDE, height = SWATCH;
    const vn_schedule_class_t *first = NULL;
    *svg = NULL;
    for (int c = 0; c < s->n_classes && !first; ++c)
        if (s->classes[c].tree) first = &s->classes[c];
    if (!first) return vn_fail(err, VN_ERR_UNSUPPORTED, "no tree was revealed: there is nothing to draw");
    vn_status_t st = tree_body(first->tree, &body, &width, &height, err);
    if (st == VN_OK) height = class_map(s, height + SWATCH, &width, &body);
    if (st == VN_OK && body.failed) st = vn_fail(err, VN_ERR_NOMEM, "no memory for a picture");
    if (st == VN_OK) st = framed(first->text ? first->text : "", &body, width, height, svg, err);
    vn_text_free(&body);
    return st;
}
