/* execute.c -- tensors as memory of oneDNN, primitives made and run, layouts changed where a primitive asks for it. */
#include <string.h>

#include "onednn.h"

enum { MAX_ARGS = 66 };

/* ---- errors ---- */

vn_status_t dnn_check(const step_call_t *c, dnnl_status_t s, const char *what) {
    const vn_node_t *n = c->step->node;
    switch (s) {
    case dnnl_success: return VN_OK;
    case dnnl_unimplemented: return step_refuse(n, c->err, "oneDNN has no implementation of this %s", what);
    case dnnl_invalid_arguments: return step_refuse(n, c->err, "oneDNN does not take this form of %s", what);
    case dnnl_out_of_memory: return vn_fail(c->err, VN_ERR_NOMEM, "%s (%s): oneDNN is out of memory", n->path, n->op);
    default: return vn_fail(c->err, VN_ERR_WORKER, "%s (%s): oneDNN fails in %s with status %d", n->path, n->op, what, (int)s);
    }
}

vn_status_t dnn_need(const step_call_t *c, int k, vn_dtype_t like) {
    const vn_node_t *n = c->step->node;
    if (!dnn_given(c, k)) return vn_fail(c->err, VN_ERR_PARSE, "%s (%s): input %d is missing", n->path, n->op, k);
    const vn_dtype_t t = c->in[k]->dtype;
    if (dnn_type(t) == dnnl_data_type_undef) return step_refuse(n, c->err, "oneDNN has no element type %s", vn_dtype_name(t));
    if (like != VN_UNDEFINED && t != like)
        return vn_fail(c->err, VN_ERR_DTYPE, "%s (%s): input %d is %s, not %s", n->path, n->op, k, vn_dtype_name(t), vn_dtype_name(like));
    return VN_OK;
}

vn_status_t dnn_axis(const step_call_t *c, int64_t *axis, int rank) {
    if (*axis < -rank || *axis >= (rank ? rank : 1))
        return vn_fail(c->err, VN_ERR_RANGE, "%s (%s): axis %lld is outside rank %d", c->step->node->path, c->step->node->op,
                       (long long)*axis, rank);
    if (*axis < 0) *axis += rank;
    return VN_OK;
}

vn_status_t dnn_one_output(const step_call_t *c) {
    return c->n_out > 1 ? step_refuse(c->step->node, c->err, "more than its first output") : VN_OK;
}

/* ---- descriptors ---- */

dnnl_data_type_t dnn_type(vn_dtype_t t) {
    switch (t) {
    case VN_F32: return dnnl_f32;
    case VN_F16: return dnnl_f16;
    case VN_BF16: return dnnl_bf16;
    case VN_I32: return dnnl_s32;
    case VN_I8: return dnnl_s8;
    case VN_U8:
    case VN_BOOL: return dnnl_u8;
    default: return dnnl_data_type_undef;
    }
}

vn_status_t dnn_desc_strided(const step_call_t *c, vn_dtype_t t, int rank, const int64_t *dims, const int64_t *strides,
                             dnnl_memory_desc_t *out) {
    dnnl_dims_t d = {0}, s = {0};
    if (dnn_type(t) == dnnl_data_type_undef) return step_refuse(c->step->node, c->err, "oneDNN has no element type %s", vn_dtype_name(t));
    if (rank > DNNL_MAX_NDIMS) return step_refuse(c->step->node, c->err, "rank %d; oneDNN has %d dimensions", rank, DNNL_MAX_NDIMS);
    for (int i = 0; i < rank; ++i) {
        d[i] = dims[i];
        s[i] = strides[i];
    }
    return dnn_check(c, dnnl_memory_desc_init_by_strides(out, rank, d, dnn_type(t), s), "memory");
}

vn_status_t dnn_desc(const step_call_t *c, vn_dtype_t t, int rank, const int64_t *dims, dnnl_memory_desc_t *out) {
    static const int64_t one = 1;
    int64_t strides[VN_MAX_RANK], step = 1;
    if (rank == 0) return dnn_desc_strided(c, t, 1, &one, &one, out);
    for (int i = rank - 1; i >= 0; --i) {
        strides[i] = step;
        step *= dims[i] > 0 ? dims[i] : 1;
    }
    return dnn_desc_strided(c, t, rank, dims, strides, out);
}

dnnl_memory_desc_t dnn_any(const dnn_t *d, const dnnl_memory_desc_t *md) {
    dnnl_memory_desc_t any = *md;
    if (!d->plain) dnnl_memory_desc_init_by_tag(&any, md->ndims, md->dims, md->data_type, dnnl_format_tag_any);
    return any;
}

/* ---- running ---- */

static bool is_output(int id) { return id == DNNL_ARG_DST; }

static dnnl_status_t reorder(const dnn_t *d, dnnl_memory_t from, const dnnl_memory_desc_t *from_md, dnnl_memory_t to,
                             const dnnl_memory_desc_t *to_md) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t p = NULL;
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(&pd, from_md, d->engine, to_md, d->engine, NULL);
    if (s == dnnl_success) s = dnnl_primitive_create(&p, pd);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (s == dnnl_success) s = dnnl_primitive_execute(p, d->stream, 2, args);
    if (s == dnnl_success) s = dnnl_stream_wait(d->stream);
    dnnl_primitive_destroy(p);
    dnnl_primitive_desc_destroy(pd);
    return s;
}

/* One argument as the primitive wants it: own is the tensor's memory, used what the primitive sees (the same where layouts agree). */
typedef struct bound {
    const dnnl_memory_desc_t *wanted;
    dnnl_memory_t own, used;
} bound_t;

static dnnl_status_t bind(const dnn_t *d, const_dnnl_primitive_desc_t pd, const dnn_arg_t *a, bool read, bound_t *b) {
    b->wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, a->id);
    if (!b->wanted || b->wanted->ndims == 0) b->wanted = a->md;
    dnnl_status_t s = dnnl_memory_create(&b->own, a->md, d->engine, a->data);
    if (s != dnnl_success) return s;
    b->used = b->own;
    if (dnnl_memory_desc_equal(b->wanted, a->md)) return dnnl_success;
    s = dnnl_memory_create(&b->used, b->wanted, d->engine, DNNL_MEMORY_ALLOCATE);
    return s == dnnl_success && read ? reorder(d, b->own, a->md, b->used, b->wanted) : s;
}

static dnnl_status_t execute(const dnn_t *d, const_dnnl_primitive_desc_t pd, bool sums, int n, const dnn_arg_t *args) {
    dnnl_primitive_t p = NULL;
    bound_t bound[MAX_ARGS] = {{0}};
    dnnl_exec_arg_t list[MAX_ARGS];
    dnnl_status_t s = dnnl_primitive_create(&p, pd);
    for (int i = 0; i < n && s == dnnl_success; ++i) {
        s = bind(d, pd, &args[i], sums || !is_output(args[i].id), &bound[i]);
        list[i] = (dnnl_exec_arg_t){args[i].id, bound[i].used};
    }
    if (s == dnnl_success) s = dnnl_primitive_execute(p, d->stream, n, list);
    if (s == dnnl_success) s = dnnl_stream_wait(d->stream);
    for (int i = 0; i < n && s == dnnl_success; ++i)
        if (is_output(args[i].id) && bound[i].used != bound[i].own)
            s = reorder(d, bound[i].used, bound[i].wanted, bound[i].own, args[i].md);
    for (int i = 0; i < n; ++i) {
        if (bound[i].used != bound[i].own) dnnl_memory_destroy(bound[i].used);
        dnnl_memory_destroy(bound[i].own);
    }
    dnnl_primitive_destroy(p);
    return s;
}

vn_status_t dnn_execute(const dnn_t *d, step_call_t *c, dnnl_status_t created, dnnl_primitive_desc_t pd, int n, const dnn_arg_t *args) {
    VN_TRY(dnn_check(c, created, "operator"));
    const dnnl_status_t s = n > MAX_ARGS ? dnnl_unimplemented : execute(d, pd, false, n, args);
    dnnl_primitive_desc_destroy(pd);
    return dnn_check(c, s, "operator");
}

static dnnl_status_t attributes(const dnn_t *d, const dnn_after_t *after, dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(out);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_fpmath_mode(*out, d->math);
    if (s == dnnl_success && after && after->scale != 1) s = dnnl_primitive_attr_set_output_scales(*out, 1, 0, &after->scale);
    if (s != dnnl_success || !after || after->sum == 0) return s;
    s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success) s = dnnl_post_ops_append_sum(ops, after->sum);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(*out, ops); /* copied */
    dnnl_post_ops_destroy(ops);
    return s;
}

vn_status_t dnn_run(const dnn_t *d, step_call_t *c, const_dnnl_op_desc_t op, const dnn_after_t *after, int n, const dnn_arg_t *args) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = attributes(d, after, &attr);
    if (s == dnnl_success) s = dnnl_primitive_desc_create(&pd, op, attr, d->engine, NULL);
    if (s == dnnl_success) s = execute(d, pd, after && after->sum != 0, n, args);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return dnn_check(c, s, "operator");
}
