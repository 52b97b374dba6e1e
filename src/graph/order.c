/* order.c -- stable topological order of a graph's nodes; a cycle is an error that names the nodes on it. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* deps[start[i] .. start[i+1]) are the nodes whose outputs node i (or a body of it) reads. */
typedef struct sorter {
    vn_graph_t *g;
    int n;
    int64_t *start;
    int *deps;
    int64_t n_deps, cap_deps;
    vn_error_t *err;
} sorter_t;

static vn_status_t nomem(sorter_t *s) { return vn_no_memory(s->err, "sorting a graph"); }

static bool known_outside(const vn_graph_t *g, const char *name) {
    for (const vn_graph_t *o = g->outer; o; o = o->outer)
        if (vn_graph_defines(o, name)) return true;
    return false;
}

/* direct: the node itself reads the name, so somebody must define it; captured names are checked when the body is sorted. */
static vn_status_t depend(sorter_t *s, int node, const char *name, bool direct) {
    if (!name[0]) return VN_OK;
    const vn_name_entry_t *e = vn_graph_entry(s->g, name);
    if (!e || (e->slot[VN_SLOT_NODE] < 0 && e->slot[VN_SLOT_INPUT] < 0 && e->slot[VN_SLOT_INIT] < 0)) {
        char where[300];
        if (!direct || known_outside(s->g, name)) return VN_OK;
        return vn_fail(s->err, VN_ERR_PARSE, "%s reads '%.200s', which no node, input or initialiser of graph '%.80s' provides",
                       vn_node_where(s->g, &s->g->nodes[node], where, sizeof where), name, s->g->name);
    }
    if (e->slot[VN_SLOT_NODE] < 0) return VN_OK;
    if (s->n_deps == s->cap_deps) {
        int64_t room = s->cap_deps ? s->cap_deps * 2 : 256;
        int *deps = vn_realloc(s->deps, (size_t)room, sizeof *deps);
        if (!deps) return nomem(s);
        s->deps = deps;
        s->cap_deps = room;
    }
    s->deps[s->n_deps++] = e->slot[VN_SLOT_NODE];
    return VN_OK;
}

static vn_status_t collect(sorter_t *s) {
    for (int i = 0; i < s->n; ++i) {
        const vn_node_t *n = &s->g->nodes[i];
        const char **captured = NULL;
        int count = 0;
        s->start[i] = s->n_deps;
        for (int k = 0; k < n->n_inputs; ++k) VN_TRY(depend(s, i, n->inputs[k], true));
        VN_TRY(vn_node_captures(n, &captured, &count, s->err));
        vn_status_t status = VN_OK;
        for (int k = 0; k < count && status == VN_OK; ++k) status = depend(s, i, captured[k], false);
        vn_free(captured);
        VN_TRY(status);
    }
    s->start[s->n] = s->n_deps;
    return VN_OK;
}

static bool in_order(const sorter_t *s) {
    for (int i = 0; i < s->n; ++i)
        for (int64_t d = s->start[i]; d < s->start[i + 1]; ++d)
            if (s->deps[d] >= i) return false;
    return true;
}

/* ---- a binary heap of node numbers, smallest first: among the nodes that are ready the first of the file goes first ---- */

static void heap_push(int *heap, int *count, int value) {
    int i = (*count)++;
    for (; i > 0 && heap[(i - 1) / 2] > value; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = value;
}

static int heap_pop(int *heap, int *count) {
    int least = heap[0], last = heap[--*count], i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= *count) break;
        if (child + 1 < *count && heap[child + 1] < heap[child]) ++child;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return least;
}

/* Some node was never ready. Going from it to a dependency that was not ready either, again and again, must come round. */
static vn_status_t report_cycle(const sorter_t *s, const int *waiting, int *mark) {
    int at = 0, first, shown = 0;
    while (waiting[at] == 0) ++at;
    for (int step = 1; !mark[at]; ++step) {
        mark[at] = step;
        for (int64_t d = s->start[at]; d < s->start[at + 1]; ++d)
            if (waiting[s->deps[d]] > 0) {
                at = s->deps[d];
                break;
            }
    }
    first = at;
    vn_text_t text = {0};
    do {
        char where[300];
        if (shown++ == 5) {
            vn_text_add(&text, " ... <- ");
            break;
        }
        vn_text_printf(&text, "%s <- ", vn_node_where(s->g, &s->g->nodes[at], where, sizeof where));
        for (int64_t d = s->start[at]; d < s->start[at + 1]; ++d)
            if (waiting[s->deps[d]] > 0) {
                at = s->deps[d];
                break;
            }
    } while (at != first);
    char where[300];
    vn_status_t status = vn_fail(s->err, VN_ERR_PARSE, "graph '%.80s' has a cycle: %s%s; no order of execution exists", s->g->name,
                                 text.failed ? "" : text.data, vn_node_where(s->g, &s->g->nodes[first], where, sizeof where));
    vn_text_free(&text);
    return status;
}

static vn_status_t reorder(sorter_t *s, const int *order) {
    vn_graph_t *g = s->g;
    vn_graph_private_t *p = vn_graph_private(g);
    vn_node_t *sorted = vn_arena_alloc(g->model->arena, (size_t)s->n, sizeof *sorted);
    if (!sorted) return nomem(s);
    for (int i = 0; i < s->n; ++i) sorted[i] = g->nodes[order[i]];
    g->nodes = sorted;
    p->cap_nodes = s->n;
    for (int i = 0; i < s->n; ++i)
        for (int k = 0; k < sorted[i].n_outputs; ++k)
            if (sorted[i].outputs[k][0]) {
                vn_name_entry_t *e = vn_names_put(&p->names, sorted[i].outputs[k], NULL); /* is there: cannot fail */
                if (e) e->slot[VN_SLOT_NODE] = i;
            }
    return VN_OK;
}

static vn_status_t kahn(sorter_t *s) {
    size_t n = (size_t)s->n;
    int *waiting = vn_alloc(n, sizeof *waiting), *heap = vn_alloc(n, sizeof *heap), *order = vn_alloc(n, sizeof *order);
    int *mark = vn_alloc(n, sizeof *mark), *readers = vn_alloc((size_t)s->n_deps, sizeof *readers);
    int64_t *place = vn_alloc(n + 1, sizeof *place);
    vn_status_t status = VN_OK;
    if (!waiting || !heap || !order || !mark || !readers || !place) {
        status = nomem(s);
        goto done;
    }
    for (int64_t d = 0; d < s->n_deps; ++d) place[s->deps[d] + 1]++;
    for (size_t i = 0; i < n; ++i) place[i + 1] += place[i];
    for (int i = 0; i < s->n; ++i) {
        waiting[i] = (int)(s->start[i + 1] - s->start[i]);
        for (int64_t d = s->start[i]; d < s->start[i + 1]; ++d) readers[place[s->deps[d]]++] = i;
    }
    for (size_t i = n; i > 0; --i) place[i] = place[i - 1]; /* filling moved every border one node on */
    place[0] = 0;
    int ready = 0, done = 0;
    for (int i = 0; i < s->n; ++i)
        if (waiting[i] == 0) heap_push(heap, &ready, i);
    while (ready) {
        int i = heap_pop(heap, &ready);
        order[done++] = i;
        for (int64_t r = place[i]; r < place[i + 1]; ++r)
            if (--waiting[readers[r]] == 0) heap_push(heap, &ready, readers[r]);
    }
    status = done < s->n ? report_cycle(s, waiting, mark) : reorder(s, order);
done:
    vn_free(waiting);
    vn_free(heap);
    vn_free(order);
    vn_free(mark);
    vn_free(readers);
    vn_free(place);
    return status;
}

vn_status_t vn_graph_sort(vn_graph_t *g, vn_error_t *err) {
    sorter_t s = {.g = g, .n = g->n_nodes, .err = err};
    s.start = vn_alloc((size_t)s.n + 1, sizeof *s.start);
    vn_status_t status = s.start ? collect(&s) : nomem(&s);
    if (status == VN_OK && !in_order(&s)) status = kahn(&s);
    vn_free(s.start);
    vn_free(s.deps);
    return status;
}
