/* op_compare.c -- Equal, Greater, Less and kin, and Where.
 *
 * Claim CMP-1: comparisons of given bits are exact; NaN compares false with everything. An uncertain comparison (|a - b| <= ea + eb) may come
 *   out either way: the second answer stands in `either`.
 * Claim CMP-2: Where moves bits; with uncertain operands the chosen one's uncertainty passes through. Where the condition itself is undecided
 *   the other operand's value and uncertainty are inside as well.
 */
#include "oracle/elementwise.h"

typedef enum compare_op { C_EQUAL, C_GREATER, C_GREATER_EQUAL, C_LESS, C_LESS_EQUAL } compare_op_t;

typedef struct job {
    compare_op_t op;
    const double *a, *b;    /* floats */
    const int64_t *ia, *ib; /* integers and bool */
    uint64_t flip;          /* orders u64 patterns as signed ones */
    vn_doubt_t da, db;
    uint8_t *out, *open; /* open: 1 where the answer is undecided; NULL without doubt */
    int any_open;        /* atomic */
} job_t;

#define EACH(expr)                                 \
    for (int64_t i = 0; i < p->n; ++i) {           \
        const double x = a[i * sa], y = b[i * sb]; \
        out[i] = (expr);                           \
    }

static void float_piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    const double *a = j->a + p->at[0], *b = j->b + p->at[1];
    const int64_t sa = p->step[0], sb = p->step[1];
    uint8_t *out = j->out + p->out;
    switch (j->op) {
    case C_EQUAL: EACH(x == y) break;
    case C_GREATER: EACH(x > y) break;
    case C_GREATER_EQUAL: EACH(x >= y) break;
    case C_LESS: EACH(x < y) break;
    case C_LESS_EQUAL: EACH(x <= y) break;
    }
    if (!j->open) return;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t ka = p->at[0] + i * sa, kb = p->at[1] + i * sb;
        const double room = vn_doubt_at(&j->da, ka, j->a[ka]) + vn_doubt_at(&j->db, kb, j->b[kb]);
        if (room == 0 || fabs(j->a[ka] - j->b[kb]) > room) continue; /* NaN distances stay open */
        j->open[p->out + i] = 1;
        __atomic_store_n(&j->any_open, 1, __ATOMIC_RELAXED);
    }
}

static void int_piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t a = (int64_t)((uint64_t)j->ia[p->at[0] + i * p->step[0]] ^ j->flip);
        const int64_t b = (int64_t)((uint64_t)j->ib[p->at[1] + i * p->step[1]] ^ j->flip);
        bool r = false;
        switch (j->op) {
        case C_EQUAL: r = a == b; break;
        case C_GREATER: r = a > b; break;
        case C_GREATER_EQUAL: r = a >= b; break;
        case C_LESS: r = a < b; break;
        case C_LESS_EQUAL: r = a <= b; break;
        }
        j->out[p->out + i] = r;
    }
}

typedef struct text_job {
    const vn_string_t *a, *b;
    uint8_t *out;
} text_job_t;

static void text_piece(void *ctx, const vn_piece_t *p) {
    const text_job_t *j = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const vn_string_t *a = &j->a[p->at[0] + i * p->step[0]], *b = &j->b[p->at[1] + i * p->step[1]];
        j->out[p->out + i] = a->length == b->length && (a->length == 0 || memcmp(a->text, b->text, a->length) == 0);
    }
}

static vn_status_t set_either(vn_eval_t *e, const job_t *j) {
    VN_TRY(vn_out_either(e, 0));
    uint8_t *other = e->out[0].either->data;
    for (int64_t i = 0; i < e->out[0].count; ++i) other[i] = j->out[i] ^ j->open[i];
    return VN_OK;
}

static vn_status_t eval_compare(vn_eval_t *e) {
    const compare_op_t op = (compare_op_t)vn_registry_find(e->node->domain, e->node->op, e->version)->param;
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 2, (const int[]){0, 1}, &plan));
    const vn_tensor_t *a = e->in[0].t, *b = e->in[1].t;
    if (a->dtype != b->dtype)
        return vn_eval_fail(e, VN_ERR_DTYPE, "inputs are %s and %s; equal types are needed", vn_dtype_name(a->dtype),
                            vn_dtype_name(b->dtype));
    const vn_kind_t kind = vn_dtype_kind(a->dtype);
    if (kind == VN_KIND_COMPLEX || kind == VN_KIND_NONE || (kind == VN_KIND_STRING && op != C_EQUAL))
        return vn_eval_fail(e, VN_ERR_DTYPE, "%s cannot be compared here", vn_dtype_name(a->dtype));
    VN_TRY(vn_out_exact(e, 0, VN_BOOL, plan.out_rank, plan.out_dims));
    job_t j = {.op = op, .out = e->out[0].tensor->data, .flip = a->dtype == VN_U64 ? UINT64_C(1) << 63 : 0};
    if (kind == VN_KIND_STRING) {
        text_job_t text = {.a = a->data, .b = b->data, .out = j.out};
        vn_bcast_run(&plan, text_piece, &text);
        return VN_OK;
    }
    if (kind != VN_KIND_FLOAT) {
        int64_t *ia = vn_ints_of(e, a), *ib = ia ? vn_ints_of(e, b) : NULL;
        j.ia = ia;
        j.ib = ib;
        if (ib) vn_bcast_run(&plan, int_piece, &j);
        const bool done = ib != NULL;
        vn_free(ia);
        vn_free(ib);
        return done ? VN_OK : VN_ERR_NOMEM;
    }
    j.a = vn_arg_f64(e, 0);
    j.b = vn_arg_f64(e, 1);
    if (!j.a || !j.b) return VN_ERR_NOMEM;
    j.da = vn_doubt(e, 0);
    j.db = vn_doubt(e, 1);
    if ((vn_doubt_any(&j.da) || vn_doubt_any(&j.db)) && !(j.open = vn_alloc((size_t)(plan.count ? plan.count : 1), 1)))
        return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for undecided comparisons");
    vn_bcast_run(&plan, float_piece, &j);
    const vn_status_t s = j.any_open ? set_either(e, &j) : VN_OK;
    vn_free(j.open);
    return s;
}

/* ---- Where ---- */

typedef struct where {
    const uint8_t *condition;
    const char *x, *y;
    char *out;
    size_t size;
} where_t;

static void where_piece(void *ctx, const vn_piece_t *p) {
    const where_t *w = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const bool c = w->condition[p->at[0] + i * p->step[0]] != 0;
        const char *from = c ? w->x + (size_t)(p->at[1] + i * p->step[1]) * w->size : w->y + (size_t)(p->at[2] + i * p->step[2]) * w->size;
        memcpy(w->out + (size_t)(p->out + i) * w->size, from, w->size);
    }
}

typedef struct where_planes {
    const uint8_t *condition, *other; /* other: the condition where undecided comparisons go the other way, or NULL */
    const double *x, *y;
    const double *xe, *ye, *xv, *yv;
    double *value, *bound, *var;
} where_planes_t;

static void where_plane_piece(void *ctx, const vn_piece_t *p) {
    const where_planes_t *w = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t o = p->out + i, kx = p->at[1] + i * p->step[1], ky = p->at[2] + i * p->step[2];
        const bool c = w->condition[p->at[0] + i * p->step[0]] != 0;
        w->value[o] = c ? w->x[kx] : w->y[ky];
        if (w->bound) w->bound[o] = c ? (w->xe ? w->xe[kx] : 0) : (w->ye ? w->ye[ky] : 0);
        if (w->var) w->var[o] = c ? (w->xv ? w->xv[kx] : 0) : (w->yv ? w->yv[ky] : 0);
        if (!w->other || !w->bound || (w->other[p->at[0] + i * p->step[0]] != 0) == c) continue;
        const double apart = fabs(w->x[kx] - w->y[ky]), far = c ? (w->ye ? w->ye[ky] : 0) : (w->xe ? w->xe[kx] : 0);
        w->bound[o] = apart == 0 ? fmax(w->bound[o], far) : isnan(apart) ? INFINITY : fmax(w->bound[o], apart + far);
        if (w->var) w->var[o] += apart * apart;
    }
}

static vn_status_t where_strings(vn_eval_t *e, const vn_bcast_t *plan) {
    const vn_tensor_t *c = e->in[0].t, *x = e->in[1].t, *y = e->in[2].t;
    for (int64_t i = 0; i < plan->count; ++i) {
        int64_t rest = i, at[3] = {0};
        for (int d = plan->rank - 1; d >= 0; --d) {
            for (int k = 0; k < 3; ++k) at[k] += rest % plan->dims[d] * plan->step[k][d];
            rest /= plan->dims[d];
        }
        const vn_string_t *s =
            ((const uint8_t *)c->data)[at[0]] ? &((const vn_string_t *)x->data)[at[1]] : &((const vn_string_t *)y->data)[at[2]];
        VN_TRY(vn_tensor_set_string(e->out[0].tensor, i, s->text ? s->text : "", s->length, e->err));
    }
    return VN_OK;
}

static vn_status_t eval_where(vn_eval_t *e) {
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 3, (const int[]){0, 1, 2}, &plan));
    const vn_tensor_t *c = e->in[0].t, *x = e->in[1].t, *y = e->in[2].t;
    if (c->dtype != VN_BOOL) return vn_eval_fail(e, VN_ERR_DTYPE, "the condition is %s; bool is needed", vn_dtype_name(c->dtype));
    if (x->dtype != y->dtype)
        return vn_eval_fail(e, VN_ERR_DTYPE, "inputs are %s and %s; equal types are needed", vn_dtype_name(x->dtype),
                            vn_dtype_name(y->dtype));
    const vn_tensor_t *other = e->in[0].either;
    if (vn_uncertain(e, 1) || vn_uncertain(e, 2) || (other && vn_dtype_is_float(x->dtype))) {
        where_planes_t w = {.condition = c->data,
                            .other = other ? other->data : NULL,
                            .x = vn_arg_f64(e, 1),
                            .y = vn_arg_f64(e, 2),
                            .xe = e->in[1].err,
                            .ye = e->in[2].err,
                            .xv = e->in[1].var,
                            .yv = e->in[2].var};
        if (!w.x || !w.y) return VN_ERR_NOMEM;
        VN_TRY(vn_out_float(e, 0, x->dtype, plan.out_rank, plan.out_dims));
        w.value = e->out[0].value;
        w.bound = e->out[0].bound;
        w.var = e->out[0].var;
        vn_bcast_run(&plan, where_plane_piece, &w);
        vn_out_final(e, 0);
        return VN_OK;
    }
    VN_TRY(vn_out_exact(e, 0, x->dtype, plan.out_rank, plan.out_dims));
    if (other) { /* integers chosen by an undecided condition: no statement */
        VN_TRY(vn_out_flags(e, 0));
        memset(e->out[0].flags, VN_EL_VOID, (size_t)e->out[0].count);
    }
    if (x->dtype == VN_STRING) return where_strings(e, &plan);
    if (vn_dtype_bits(x->dtype) < 8) return vn_eval_fail(e, VN_ERR_DTYPE, "%s is no type of Where", vn_dtype_name(x->dtype));
    where_t w = {
        .condition = c->data, .x = x->data, .y = y->data, .out = e->out[0].tensor->data, .size = (size_t)vn_dtype_bits(x->dtype) / 8};
    vn_bcast_run(&plan, where_piece, &w);
    return VN_OK;
}

static vn_status_t infer_where(vn_eval_t *e) {
    VN_TRY(vn_infer_broadcast(e));
    e->out[0].dtype = e->in[1].t->dtype;
    return VN_OK;
}

#define COMPARE(name, since, op) \
    { "", name, since, 0, VN_CLASS_EXACT, VN_OP_PROPAGATES, "CMP-1", eval_compare, vn_infer_broadcast_bool, op }

static const vn_op_t rows[] = {
    COMPARE("Equal", 7, C_EQUAL),
    COMPARE("Greater", 7, C_GREATER),
    COMPARE("GreaterOrEqual", 12, C_GREATER_EQUAL),
    COMPARE("Less", 7, C_LESS),
    COMPARE("LessOrEqual", 12, C_LESS_EQUAL),
    {"", "Where", 9, 0, VN_CLASS_MOVEMENT, VN_OP_PROPAGATES | VN_OP_EITHER, "CMP-2", eval_where, infer_where, 0},
};

const vn_family_t vn_family_compare = {.name = "compare", .rows = rows, .count = sizeof rows / sizeof *rows};
