/* semantic_rotary.c -- positions and rotations: rotary embeddings, and every operand that numbers the tokens.
 *
 * A shift of positions is solved for, not guessed: the rotation of one token under each row of the tables is compared with what was returned.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

typedef struct rotary {
    vn_variant_t *v;
    int k_cos, k_sin, k_ids; /* operands; k_ids -1: none */
    int64_t batch, heads, length, size, rotated, rows;
    int64_t sb, sh, st; /* strides of sample, head, token */
    bool interleaved;
} rotary_t;

static bool read_rotary(vn_variant_t *v, rotary_t *r) {
    const bool contrib = vn_variant_is(v, "com.microsoft", "RotaryEmbedding");
    if (!contrib && !vn_variant_is(v, "", "RotaryEmbedding")) return false;
    *r = (rotary_t){.v = v, .k_cos = contrib ? 2 : 1, .k_sin = contrib ? 3 : 2, .k_ids = contrib ? 1 : 3};
    const vn_tensor_t *x = vn_variant_operand(v, 0), *c = vn_variant_operand(v, r->k_cos), *s = vn_variant_operand(v, r->k_sin);
    if (!x || !c || !s || c->rank < 2 || c->count != s->count) return false;
    if (!vn_variant_operand(v, r->k_ids)) r->k_ids = -1;
    r->rotated = 2 * c->dims[c->rank - 1];
    r->rows = c->dims[c->rank - 2];
    int64_t heads = vn_node_int(v->node, "num_heads", 0);
    if (contrib && heads == 0 && x->rank == 3 && r->rotated > 0) heads = x->dims[2] / r->rotated;
    if (x->rank == 4) {
        r->batch = x->dims[0], r->heads = x->dims[1], r->length = x->dims[2], r->size = x->dims[3];
        r->sb = r->heads * r->length * r->size, r->sh = r->length * r->size, r->st = r->size;
    } else if (x->rank == 3 && heads > 0 && x->dims[2] % heads == 0) {
        r->batch = x->dims[0], r->length = x->dims[1], r->heads = heads, r->size = x->dims[2] / heads;
        r->sb = r->length * x->dims[2], r->sh = r->size, r->st = x->dims[2];
    } else {
        return false;
    }
    r->interleaved = vn_node_int(v->node, "interleaved", 0) != 0;
    return r->rotated > 0 && r->rotated <= r->size && r->batch > 0 && r->length > 0 && r->rows > 0;
}

/* ---- positions ---- */

/* Position of token t of sample b as asked. */
static int64_t asked(const rotary_t *r, int64_t b, int64_t t) {
    const vn_tensor_t *ids = vn_variant_operand(r->v, r->k_ids);
    if (ids->count == 1) return vn_tensor_get_i64(ids, 0) + t;
    return vn_tensor_get_i64(ids, b * r->length + t);
}

/* How far token t of sample b, head 0, is from its rotation by row p of the tables: the largest difference of a component. */
static double distance(const rotary_t *r, int64_t b, int64_t t, int64_t p, double stop) {
    const vn_tensor_t *x = vn_variant_operand(r->v, 0), *c = vn_variant_operand(r->v, r->k_cos), *s = vn_variant_operand(r->v, r->k_sin);
    const double *actual = r->v->e->x;
    const int64_t half = r->rotated / 2, base = b * r->sb + t * r->st;
    double worst = 0;
    for (int64_t k = 0; k < half && worst <= stop; ++k) {
        const int64_t a1 = base + (r->interleaved ? 2 * k : k), a2 = base + (r->interleaved ? 2 * k + 1 : half + k);
        const double cosine = vn_tensor_get_f64(c, p * half + k), sine = vn_tensor_get_f64(s, p * half + k), x1 = vn_tensor_get_f64(x, a1),
                     x2 = vn_tensor_get_f64(x, a2);
        worst = fmax(worst, fmax(fabs(actual[a1] - (cosine * x1 - sine * x2)), fabs(actual[a2] - (sine * x1 + cosine * x2))));
    }
    return isnan(worst) ? INFINITY : worst;
}

/* Row of the tables that gives token (b, t), nearest of all. */
static int64_t solve(const rotary_t *r, int64_t b, int64_t t) {
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t p = 0; p < r->rows; ++p) {
        const double d = distance(r, b, t, p, least);
        if (d >= least) continue;
        least = d;
        best = p;
    }
    return best;
}

typedef int64_t (*position_fn)(const rotary_t *r, int64_t b, int64_t t, int64_t by);
static int64_t shifted(const rotary_t *r, int64_t b, int64_t t, int64_t by) {
    const int64_t p = asked(r, b, t) + by;
    return p < 0 ? 0 : p < r->rows ? p : r->rows - 1;
}
static int64_t by_token(const rotary_t *r, int64_t b, int64_t t, int64_t by) {
    (void)b;
    return t + by < r->rows ? t + by : r->rows - 1;
}
static int64_t constant(const rotary_t *r, int64_t b, int64_t t, int64_t by) { return (void)r, (void)b, (void)t, by; }
static int64_t first_sample(const rotary_t *r, int64_t b, int64_t t, int64_t by) { return (void)b, (void)by, asked(r, 0, t); }
static int64_t first_token(const rotary_t *r, int64_t b, int64_t t, int64_t by) { return (void)t, (void)by, asked(r, b, 0); }
static int64_t backwards(const rotary_t *r, int64_t b, int64_t t, int64_t by) { return (void)by, asked(r, b, r->length - 1 - t); }

static vn_status_t ask_positions(const rotary_t *r, position_fn at, int64_t by, const char *words, vn_error_t *err) {
    const int64_t dims[2] = {r->batch, r->length};
    vn_tensor_t *ids;
    VN_TRY(vn_tensor_new(VN_I64, 2, dims, &ids, err));
    bool other = false;
    for (int64_t b = 0; b < r->batch; ++b)
        for (int64_t t = 0; t < r->length; ++t) {
            const int64_t p = at(r, b, t, by);
            vn_tensor_set_i64(ids, b * r->length + t, p);
            other |= p != asked(r, b, t);
        }
    if (!other) {
        vn_tensor_free(ids);
        return VN_OK;
    }
    VN_TRY(vn_variant_input(r->v, r->k_ids, ids, err));
    return vn_variant_ask(r->v, VN_BUG, "position-offset", NULL, err, "The whole result comes out with %s (%+lld).", words, (long long)by);
}

static vn_status_t positions(const rotary_t *r, vn_error_t *err) {
    if (r->k_ids < 0 || !r->v->e->x || r->v->e->c->q->node == NULL) return VN_OK;
    const int64_t b = r->batch - 1, t = r->length - 1, last = solve(r, b, t), by = last < 0 ? 0 : last - asked(r, b, t);
    if (by) VN_TRY(ask_positions(r, shifted, by, "every position moved by a constant", err));
    if (by != 1) VN_TRY(ask_positions(r, shifted, 1, "every position moved by a constant", err));
    if (by != -1) VN_TRY(ask_positions(r, shifted, -1, "every position moved by a constant", err));
    VN_TRY(ask_positions(r, by_token, 0, "the token's place for its position: position_ids ignored", err));
    if (last > t)
        VN_TRY(ask_positions(r, by_token, last - t, "the token's place and a constant for its position: position_ids ignored", err));
    if (last >= 0) VN_TRY(ask_positions(r, constant, last, "one position for all tokens", err));
    VN_TRY(ask_positions(r, first_token, 0, "the position of each sample's first token for all its tokens", err));
    VN_TRY(ask_positions(r, backwards, 0, "the positions of each sample in reverse order", err));
    if (r->batch > 1) VN_TRY(ask_positions(r, first_sample, 0, "the positions of sample 0 for every sample", err));
    return VN_OK;
}

/* Rows of both tables moved along the axis of tokens (by the same amount, the border repeated): caches that are given per token. */
static vn_status_t tables(const rotary_t *r, int64_t by, vn_error_t *err) {
    for (int k = r->k_cos; k <= r->k_sin; ++k) {
        const vn_tensor_t *t = vn_variant_operand(r->v, k);
        vn_tensor_t *moved;
        const int64_t width = t->dims[t->rank - 1];
        VN_TRY(vn_tensor_copy(t, &moved, err));
        for (int64_t i = 0; i < t->count; ++i) {
            const int64_t row = i / width % r->rows, to = row + by < 0 ? 0 : row + by < r->rows ? row + by : r->rows - 1;
            vn_tensor_set_f64(moved, i, vn_tensor_get_f64(t, i + (to - row) * width));
        }
        VN_TRY(vn_variant_input(r->v, k, moved, err));
    }
    return vn_variant_ask(r->v, VN_BUG, "position-offset", NULL, err,
                          "The whole result comes out if each token is rotated by the angles of token t%+lld.", (long long)by);
}

/* ---- the rotation ---- */

static vn_status_t signs(const rotary_t *r, vn_error_t *err) {
    const vn_tensor_t *c = vn_variant_operand(r->v, r->k_cos), *s = vn_variant_operand(r->v, r->k_sin);
    vn_tensor_t *t;
    VN_TRY(vn_tensor_copy(s, &t, err));
    for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, -vn_tensor_get_f64(s, i));
    VN_TRY(vn_variant_input(r->v, r->k_sin, t, err));
    VN_TRY(vn_variant_ask(r->v, VN_BUG, "rotation-reversed", NULL, err,
                          "The whole result comes out with the sine negated: rotated the other way round."));
    VN_TRY(vn_variant_input(r->v, r->k_cos, vn_tensor_retain(s), err));
    VN_TRY(vn_variant_input(r->v, r->k_sin, vn_tensor_retain(c), err));
    VN_TRY(vn_variant_ask(r->v, VN_BUG, "cos-sin-swapped", NULL, err,
                          "The whole result comes out with the two tables exchanged: sine for cosine."));
    VN_TRY(vn_tensor_new(s->dtype, s->rank, s->dims, &t, err));
    VN_TRY(vn_variant_input(r->v, r->k_sin, t, err));
    return vn_variant_ask(r->v, VN_BUG, "term-dropped", NULL, err, "The whole result comes out without the sine terms.");
}

/* Pairings that the operator does not know, computed here. One place of the output reads two of the operand. */
typedef enum pairing { WHOLE_HALVES, PART_AT_THE_END, ALL_LAYOUTS } pairing_t;

static bool place(const rotary_t *r, pairing_t how, int64_t k, int64_t *p, int64_t *other, bool *imaginary) {
    const int64_t half = r->rotated / 2, rest = r->size - r->rotated, from = how == PART_AT_THE_END ? rest : 0;
    if (how == WHOLE_HALVES) { /* component k of the first half with component k of the second half of the whole vector */
        const int64_t middle = r->size / 2, c = k % middle;
        *imaginary = k >= middle;
        *p = c;
        *other = *imaginary ? c : c + middle;
        return c < half && k < 2 * middle;
    }
    if (k < from || k >= from + r->rotated) return false;
    const int64_t c = k - from;
    *imaginary = r->interleaved ? c % 2 : c >= half;
    *p = r->interleaved ? c / 2 : c % half;
    *other = from + (r->interleaved ? c ^ 1 : *imaginary ? c - half : c + half);
    return true;
}

static vn_status_t layouts(const rotary_t *r, vn_error_t *err) {
    static const char *const what[] = {"pairs taken across the halves of the whole vector of a head instead of its rotated part",
                                       "the last components of each head rotated instead of the first"};
    const vn_explain_t *e = r->v->e;
    if (r->rotated == r->size || !e->x || e->c->q->node == NULL) return VN_OK;
    const vn_tensor_t *x = vn_variant_operand(r->v, 0), *c = vn_variant_operand(r->v, r->k_cos), *s = vn_variant_operand(r->v, r->k_sin);
    const vn_contract_t contract = vn_contract_resolve(e->c->q->contract, e->c->actual->dtype);
    const vn_format_t out = vn_format_of(e->c->actual->dtype);
    if (x->count != e->n || out == VN_FMT_NONE) return VN_OK;
    const double u = vn_format_info(contract.accumulator)->u, store = vn_format_info(out)->u, eta = vn_format_info(out)->eta;
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2), *room = vn_alloc((size_t)e->n, sizeof *room);
    vn_status_t st = y2 && room ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (pairing_t how = 0; how < ALL_LAYOUTS && st == VN_OK; ++how) {
        for (int64_t i = 0; i < e->n; ++i) {
            const int64_t b = i / r->sb, t = i % r->sb / r->st % r->length, k = i % r->size;
            const int64_t row = r->k_ids < 0 ? b * r->length + t : asked(r, b, t);
            int64_t p, other;
            bool imaginary;
            const double own = vn_tensor_get_f64(x, i);
            y2[i] = own;
            room[i] = 0;
            if (!place(r, how, k, &p, &other, &imaginary) || row < 0) continue;
            const double cosine = vn_tensor_get_f64(c, row * (r->rotated / 2) + p), sine = vn_tensor_get_f64(s, row * (r->rotated / 2) + p),
                         m1 = cosine * own, m2 = (imaginary ? sine : -sine) * vn_tensor_get_f64(x, i - k + other);
            y2[i] = m1 + m2;
            room[i] =
                2 * u * (1 + 4 * u) * (fabs(m1) + fabs(m2)) + store * (1 + 4 * u) * fabs(y2[i]) + 3 * eta; /* claim ATTN-2 and the store */
        }
        vn_explain_plane(r->v->e, y2, room, VN_BUG, "rotary-part", NULL,
                         "The whole result comes out with %s (%lld of %lld components are rotated).", what[how], (long long)r->rotated,
                         (long long)r->size);
    }
    vn_free(y2);
    vn_free(room);
    return st;
}

static vn_status_t rotary(const rotary_t *r, vn_error_t *err) {
    vn_variant_t *v = r->v;
    VN_TRY(vn_variant_int(v, "interleaved", !r->interleaved, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "interleave-ignored", NULL, err, "The whole result comes out if %s are rotated together.",
                          r->interleaved ? "components k and k + half" : "neighbouring components"));
    VN_TRY(positions(r, err));
    VN_TRY(tables(r, 1, err));
    VN_TRY(tables(r, -1, err));
    VN_TRY(signs(r, err));
    return layouts(r, err);
}

/* ---- rotation inside grouped-query attention ---- */

static vn_status_t grouped(vn_variant_t *v, vn_error_t *err) {
    if (!vn_variant_is(v, "com.microsoft", "GroupQueryAttention") || !vn_node_int(v->node, "do_rotary", 0)) return VN_OK;
    const bool interleaved = vn_node_int(v->node, "rotary_interleaved", 0) != 0;
    VN_TRY(vn_variant_int(v, "rotary_interleaved", !interleaved, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "interleave-ignored", NULL, err, "The whole result comes out if %s are rotated together.",
                          interleaved ? "components k and k + half" : "neighbouring components"));
    const vn_tensor_t *c = vn_variant_operand(v, 7), *s = vn_variant_operand(v, 8);
    if (!c || !s || c->rank != 2 || s->rank != 2) return VN_OK;
    rotary_t r = {.v = v, .k_cos = 7, .k_sin = 8, .k_ids = -1, .rows = c->dims[0]};
    VN_TRY(tables(&r, 1, err));
    VN_TRY(tables(&r, -1, err));
    return signs(&r, err);
}

/* ---- operands that number the tokens ---- */

/* Consecutive integers along one axis, the same for all others: at least two of them. */
static bool consecutive(const vn_tensor_t *t) {
    if (t->count < 2 || vn_dtype_kind(t->dtype) == VN_KIND_STRING || vn_dtype_kind(t->dtype) == VN_KIND_COMPLEX) return false;
    for (int axis = 0; axis < t->rank; ++axis) {
        if (t->dims[axis] < 2) continue;
        int64_t inner = 1;
        for (int d = axis + 1; d < t->rank; ++d) inner *= t->dims[d];
        bool fits = true;
        for (int64_t i = 0; i < t->count && fits; ++i) {
            const double x = vn_tensor_get_f64(t, i);
            fits = x == floor(x) && (i / inner % t->dims[axis] == 0 || x - vn_tensor_get_f64(t, i - inner) == 1);
        }
        if (fits) return true;
    }
    return false;
}

static vn_status_t renumber(vn_variant_t *v, int k, double by, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    vn_tensor_t *other;
    VN_TRY(vn_tensor_copy(t, &other, err));
    for (int64_t i = 0; i < t->count; ++i)
        if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(other, i, vn_tensor_get_f64(t, i) + by);
        else vn_tensor_set_i64(other, i, vn_tensor_get_i64(t, i) + (int64_t)by);
    VN_TRY(vn_variant_input(v, k, other, err));
    return vn_variant_ask(v, VN_BUG, "position-offset", NULL, err,
                          "The whole result comes out if operand %d of %s, consecutive whole numbers, is moved by %+g.", k, v->node->op,
                          by);
}

/* Not every sum of integers is about positions: only operands that select, or that are turned into angles behind this node. */
static bool numbers_tokens(const vn_variant_t *v, int k) {
    if (vn_variant_is(v, "", "Gather") || vn_variant_is(v, "", "GatherElements") || vn_variant_is(v, "", "GatherND")) return k == 1;
    if (!(vn_variant_is(v, "", "Mul") || vn_variant_is(v, "", "MatMul") || vn_variant_is(v, "", "Einsum") || vn_variant_is(v, "", "Cast") ||
          vn_variant_is(v, "", "Div") || vn_variant_is(v, "", "Sin") || vn_variant_is(v, "", "Cos")))
        return false;
    if (vn_variant_is(v, "", "Sin") || vn_variant_is(v, "", "Cos")) return true;
    for (int i = 0; v->model && i < v->model->graph->n_nodes; ++i)
        if (strcmp(v->model->graph->nodes[i].op, "Sin") == 0 || strcmp(v->model->graph->nodes[i].op, "Cos") == 0) return true;
    return false;
}

static vn_status_t tokens(vn_variant_t *v, vn_error_t *err) {
    for (int k = 0; k < v->node->n_inputs && k < VN_VARIANT_INPUTS; ++k) {
        const vn_tensor_t *t = vn_variant_operand(v, k);
        if (!t || !numbers_tokens(v, k) || !consecutive(t)) continue;
        const double first = vn_tensor_get_f64(t, 0);
        VN_TRY(renumber(v, k, 1, err));
        VN_TRY(renumber(v, k, -1, err));
        if (first != 0 && fabs(first) != 1) VN_TRY(renumber(v, k, -first, err));
    }
    return VN_OK;
}

static vn_status_t rotations(vn_variant_t *v, vn_error_t *err) {
    rotary_t r;
    if (read_rotary(v, &r)) return rotary(&r, err);
    VN_TRY(grouped(v, err));
    return tokens(v, err);
}

vn_status_t vn_name_rotary(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, rotations, err); }
