/* op_einsum.c -- Einsum of one or two operands with distinct letters: brought to batches of products of matrices. */
#include <string.h>

#include "mutant.h"

enum { LETTERS = 128, MAX_OPERANDS = 2 };

typedef struct equation {
    int n_terms[MAX_OPERANDS + 1]; /* the last is the result's */
    char terms[MAX_OPERANDS + 1][VN_MAX_RANK + 1];
    int64_t size[LETTERS];
} equation_t;

static bool has(const char *term, char letter) { return strchr(term, letter) != NULL; }

static vn_status_t parse(const call_t *c, equation_t *q) {
    const char *text = vn_node_string(c->node, "equation", "");
    const bool arrow = strstr(text, "->") != NULL;
    int term = 0;
    for (const char *p = text; *p; ++p) {
        if (*p == ' ') continue;
        if (*p == ',' || *p == '-') {
            if (++term > c->n_in || term > MAX_OPERANDS) return refuse(c, "this equation");
            if (*p == '-') ++p;
            continue;
        }
        const bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!letter || q->n_terms[term] == VN_MAX_RANK || has(q->terms[term], *p)) return refuse(c, "repeated letters or dots");
        q->terms[term][q->n_terms[term]++] = *p;
    }
    if (!arrow || term != c->n_in) return refuse(c, "an equation without a result, or of another number of operands");
    if (c->n_in == 1) memcpy(q->terms[MAX_OPERANDS], q->terms[1], sizeof q->terms[1]);
    for (int k = 0; k < c->n_in; ++k) {
        if ((int)strlen(q->terms[k]) != c->in[k]->rank)
            return vn_fail(c->err, VN_ERR_SHAPE, "%s: operand %d has another rank", c->node->path, k);
        for (int d = 0; d < c->in[k]->rank; ++d) {
            int64_t *size = &q->size[(int)q->terms[k][d]];
            if (*size && *size != c->in[k]->dims[d]) return refuse(c, "letters of two sizes");
            *size = c->in[k]->dims[d];
        }
    }
    return VN_OK;
}

/* Operand k with its letters in the order of `order`; release with vn_free. */
static double *ordered(const call_t *c, const equation_t *q, int k, const char *order) {
    int axes[VN_MAX_RANK];
    for (int d = 0; order[d]; ++d) axes[d] = (int)(strchr(q->terms[k], order[d]) - q->terms[k]);
    vn_tensor_t *view;
    if (vn_tensor_permute(c->in[k], axes, &view, c->err) != VN_OK) return NULL;
    double *v = plane(c, view);
    vn_tensor_free(view);
    return v;
}

static void append(char *letters, char letter) {
    const size_t n = strlen(letters);
    letters[n] = letter;
    letters[n + 1] = '\0';
}

static int64_t size_of(const equation_t *q, const char *letters) {
    int64_t n = 1;
    for (; *letters; ++letters) n *= q->size[(int)*letters];
    return n;
}

/* y, laid out by `from`, into the order of the result. */
static void rearrange(const equation_t *q, const char *from, const char *to, const double *y, double *out) {
    const int rank = (int)strlen(to);
    int64_t dims[VN_MAX_RANK], at[VN_MAX_RANK];
    for (int d = 0; d < rank; ++d) dims[d] = q->size[(int)to[d]];
    for (int64_t i = 0; i < size_of(q, to); ++i) {
        unravel(i, rank, dims, at);
        int64_t flat = 0;
        for (const char *p = from; *p; ++p) flat = flat * q->size[(int)*p] + at[strchr(to, *p) - to];
        out[i] = y[flat];
    }
}

static vn_status_t run_einsum(call_t *c) {
    if (c->n_in < 1 || c->n_in > MAX_OPERANDS) return refuse(c, "more than two operands");
    for (int k = 0; k < c->n_in; ++k) VN_TRY(need_float(c, k));
    equation_t q = {0};
    VN_TRY(parse(c, &q));
    const char *result = q.terms[MAX_OPERANDS], *left = q.terms[0], *right = c->n_in == 2 ? q.terms[1] : "";
    char batch[VN_MAX_RANK + 1] = "", m[VN_MAX_RANK + 1] = "", k[2 * VN_MAX_RANK + 1] = "", n[VN_MAX_RANK + 1] = "",
                             order[3 * VN_MAX_RANK + 1];
    for (const char *p = left; *p; ++p) append(has(result, *p) ? has(right, *p) ? batch : m : k, *p);
    for (const char *p = right; *p; ++p) {
        if (has(left, *p)) continue;
        if (!has(result, *p)) return refuse(c, "a letter that only the right operand has is summed");
        append(n, *p);
    }
    for (const char *p = k; *p && c->n_in == 2; ++p)
        if (!has(right, *p)) return refuse(c, "a letter that only the left operand has is summed");
    for (const char *p = result; *p; ++p)
        if (!has(left, *p) && !has(right, *p)) return refuse(c, "a letter that no operand has");
    strcat(strcat(strcpy(order, batch), m), k);
    double *a = ordered(c, &q, 0, order), *b;
    strcat(strcat(strcpy(order, batch), k), n);
    b = c->n_in == 2 ? ordered(c, &q, 1, order) : room_for(c, size_of(&q, k));
    for (int64_t i = 0; b && c->n_in == 1 && i < size_of(&q, k); ++i) b[i] = 1;
    const int64_t mm = size_of(&q, m), kk = size_of(&q, k), nn = size_of(&q, n), count = size_of(&q, result);
    double *y = room_for(c, count), *out = room_for(c, count);
    vn_status_t s = a && b && y && out ? VN_OK : VN_ERR_NOMEM;
    const bool wide = is_wide(c->in[0]->dtype);
    for (int64_t i = 0; s == VN_OK && i < size_of(&q, batch); ++i)
        s = product(c, wide, mm, kk, nn, a + i * mm * kk, c->n_in == 2 ? b + i * kk * nn : b, y + i * mm * nn);
    strcat(strcat(strcpy(order, batch), m), n);
    if (s == VN_OK) rearrange(&q, order, result, y, out);
    vn_free(a);
    vn_free(b);
    vn_free(y);
    int64_t dims[VN_MAX_RANK];
    for (int d = 0; result[d]; ++d) dims[d] = q.size[(int)result[d]];
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, (int)strlen(result), dims, out);
    vn_free(out);
    return s;
}

static const op_row_t rows[] = {{"Einsum", run_einsum, 0}};
const op_table_t einsum_ops = {rows, sizeof rows / sizeof *rows};
