/* eval.c -- the frame around a registry row: contract and operands in; afterwards store, flush, overflow and the rounded tensor.
 *
 * Claim STORE-1: if a computed result r, held in an accumulator of unit roundoff u, satisfies |r - y| <= E, then stored to nearest in a
 * format with unit roundoff u_o > u it satisfies |fl(r) - y| <= (1 + u_o) E + u_o |y| + eta_o / 2, because |fl(r) - r| <= u_o |r| + eta_o / 2
 * and |r| <= |y| + E. With the accumulator's own format nothing is added: the row's E counts its last rounding.
 * Claim STORE-2 (flush): under ftz a result below tau may become 0: + tau_o where |y| - B < tau_o.
 * Claim STORE-3 (overflow): an infinity is explainable where |y| + E >= max + ulp(max)/2, the rounding threshold of the format.
 */
#include <math.h>
#include <string.h>

#include "oracle/blas.h"
#include "oracle/escalate.h"
#include "oracle/frame.h"
#include "tensor/clones.h"
#include "tensor/dense.h"

int64_t vn_run_version(const vn_oracle_run_t *run, const char *domain) {
    for (int i = 0; i < run->n_opsets; ++i)
        if (strcmp(run->opsets[i].domain, domain) == 0) return run->opsets[i].version;
    return -1;
}

/* The type that decides accumulator and operand formats: the first floating-point operand, else f32. */
static vn_dtype_t main_dtype(const vn_arg_t *in, int n) {
    for (int k = 0; k < n; ++k)
        if (in[k].t && vn_dtype_is_float(in[k].t->dtype)) return in[k].t->dtype;
    return VN_F32;
}

typedef struct vn_finish {
    vn_ref_t *r;
    const vn_contract_t *c;
    const vn_format_info_t *acc, *out;
    vn_format_t out_format;
    bool narrower; /* the store rounds once more */
    bool plain;    /* nothing is stored more narrowly or flushed */
    bool again;    /* out_format is not the tensor's own */
    double threshold;
    const vn_eval_t *ask; /* NULL: no element is to be evaluated again */
    int k;
    int failed, open; /* atomic: no memory for flags; some element is not decided, */
    uint8_t *marks;   /* and in which pieces of VN_OPEN_PIECE */
    int64_t done;     /* atomic: elements reported by the row */
    const vn_op_t *row;
    bool begun;
} finish_t;

static double store(const finish_t *f, double bound, double y) {
    double b = bound;
    if (f->narrower) b = (1 + f->out->u) * b + f->out->u * fabs(y) + f->out->eta / 2;
    if (f->c->ftz && fabs(y) - b < f->out->tau) b += f->out->tau;
    return b;
}

/* Bound, second tier and variance after the store. flags: NULL where no element comes near the threshold of overflow. */
static void finish_range(const finish_t *f, int64_t begin, int64_t end, uint8_t *flags) {
    vn_ref_t *r = f->r;
    for (int64_t i = begin; i < end; ++i) {
        const double y = r->value[i];
        if (!isfinite(y)) {
            if (r->bound && isnan(r->bound[i])) r->bound[i] = INFINITY;
            continue;
        }
        if (r->bound) {
            double e = r->bound[i];
            if (isnan(e)) e = INFINITY;
            if (flags && isfinite(e) && fabs(y) + e >= f->threshold) flags[i] |= VN_EL_INF_OK;
            if (r->demand_equal && !r->bound_final) {
                e = f->out->u * fabs(y) + f->out->eta / 2 + e; /* e: what the row adds, e.g. for an uncertain operand */
                if (f->c->ftz && fabs(y) - e < f->out->tau) e += f->out->tau;
            } else if (!r->bound_final) {
                e = store(f, e, y);
            }
            r->bound[i] = e;
        }
        if (r->wide && !r->bound_final) r->wide[i] = store(f, r->wide[i], y);
        if (r->var && (f->c->ftz || f->c->daz))
            r->var[i] += (double)(r->terms > 1 ? r->terms : 1) * f->acc->tau * f->acc->tau; /* flushes: each up to tau */
        if (r->var && r->terms > 1 && r->var[i] > 0)
            r->var[i] += (double)r->terms * f->acc->eta * f->acc->eta / 12; /* products that underflow */
        if (r->var && f->narrower && !r->bound_final) {
            const double ulp = vn_ulp(f->out_format, y);
            r->var[i] += ulp * ulp / 12;
        }
    }
}

/* Nothing is stored more narrowly, flushed or flagged: what remains of finish_range. */
VN_CLONES static bool any_nan(int64_t n, const double *x) {
    int64_t any = 0;
    for (int64_t i = 0; i < n; ++i) any |= x[i] != x[i];
    return any != 0;
}

VN_CLONES static void plain_variance(int64_t n, const double *value, double tiny, double *var) {
    for (int64_t i = 0; i < n; ++i) var[i] += var[i] > 0 && fabs(value[i]) < INFINITY ? tiny : 0;
}

static void plain_range(const finish_t *f, int64_t begin, int64_t end) {
    vn_ref_t *r = f->r;
    if (r->bound && any_nan(end - begin, r->bound + begin))
        for (int64_t i = begin; i < end; ++i) r->bound[i] = isnan(r->bound[i]) ? INFINITY : r->bound[i];
    if (r->var && r->terms > 1)
        plain_variance(end - begin, r->value + begin, (double)r->terms * f->acc->eta * f->acc->eta / 12, r->var + begin);
}

VN_CLONES static bool any_above(int64_t n, const double *value, const double *bound, double threshold) {
    int64_t any = 0;
    for (int64_t i = 0; i < n; ++i) any |= fabs(value[i]) + bound[i] >= threshold;
    return any != 0;
}

/* Pieces run in several threads: the plane is put in place by whoever is first. */
static uint8_t *flags_of(finish_t *f) {
    uint8_t *plane = __atomic_load_n(&f->r->flags, __ATOMIC_ACQUIRE);
    if (plane) return plane;
    uint8_t *fresh = vn_alloc((size_t)(f->r->count ? f->r->count : 1), 1);
    if (!fresh) {
        __atomic_store_n(&f->failed, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    if (__atomic_compare_exchange_n(&f->r->flags, &plane, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
    vn_free(fresh);
    return plane;
}

/* A piece is finished and rounded into the tensor while it is in the cache. Overflow flags are needed only near the threshold. */
static void finish_pieces(void *ctx, int64_t begin, int64_t end) {
    enum { PIECE = VN_OPEN_PIECE };
    finish_t *f = ctx;
    vn_ref_t *r = f->r;
    double rounded[PIECE];
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t n = end - at < PIECE ? end - at : PIECE;
        const double *y = r->value + at;
        const bool near = r->bound && any_above(n, y, r->bound + at, f->threshold);
        if (f->plain && !near) plain_range(f, at, at + n);
        else finish_range(f, at, at + n, near ? flags_of(f) : NULL);
        if (f->again) {
            memcpy(rounded, y, (size_t)n * sizeof *y);
            vn_round_array(f->out_format, VN_RNE, rounded, n);
            y = rounded;
        }
        vn_tensor_put_f64(r->tensor, at, n, y, VN_RNE, false);
        if (f->ask && vn_escalate_any(f->ask, f->k, at, n)) { /* a piece touches two marks at most */
            __atomic_store_n(&f->open, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&f->marks[at / VN_OPEN_PIECE], 1, __ATOMIC_RELAXED);
            __atomic_store_n(&f->marks[(at + n - 1) / VN_OPEN_PIECE], 1, __ATOMIC_RELAXED);
        }
    }
}

static vn_status_t begin(vn_eval_t *e, int k, finish_t *f) {
    vn_ref_t *r = f->r;
    f->c = e->contract;
    f->k = k;
    f->ask = vn_escalate_asks(e, f->row, k) ? e : NULL;
    const vn_format_t type = vn_format_of(r->dtype), named = e->contract->result;
    /* A narrower boundary than the tensor's type counts (bf16 results stored as f32); a wider one cannot. */
    f->out_format = named != VN_FMT_NONE && type != VN_FMT_NONE && vn_format_info(named)->p < vn_format_info(type)->p ? named : type;
    f->again = f->out_format != type;
    f->acc = vn_format_info(e->contract->accumulator);
    f->out = vn_format_info(f->out_format);
    if (!f->acc || !f->out) return vn_eval_fail(e, VN_ERR_INTERNAL, "output %d of type %s has value planes", k, vn_dtype_name(r->dtype));
    f->narrower = f->acc->p > f->out->p || f->acc->emin < f->out->emin;
    f->plain = (r->bound_final || (!f->narrower && !r->demand_equal)) && !f->c->ftz && !f->c->daz;
    f->threshold = f->out->max + vn_ulp(f->out_format, f->out->max) / 2;
    vn_tensor_free(r->tensor);
    r->tensor = NULL;
    VN_TRY(vn_tensor_new_raw(r->dtype, r->rank, r->dims, &r->tensor, e->err));
    if (f->ask && !(f->marks = vn_alloc((size_t)(r->count / VN_OPEN_PIECE) + 1, 1))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    f->begun = true;
    return VN_OK;
}

/* *open: elements are left whose rounding the value does not decide. */
static vn_status_t finish(vn_eval_t *e, int k, finish_t *f, bool *open) {
    vn_ref_t *r = &e->out[k];
    *open = false;
    if (!r->value) return VN_OK;
    if (!f->begun) {
        VN_TRY(begin(e, k, f));
        vn_parallel(r->count, 1 << 15, finish_pieces, f);
    } else if (f->done != r->count) {
        return vn_eval_fail(e, VN_ERR_INTERNAL, "output %d: %lld of %lld elements are finished", k, (long long)f->done,
                            (long long)r->count);
    }
    *open = f->open != 0;
    return f->failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}

vn_status_t vn_out_begin(vn_eval_t *e, int k) {
    if (!e->finish || e->refine || e->finish[k].r != &e->out[k]) return VN_OK; /* a row that another calls has outputs of its own */
    return begin(e, k, &e->finish[k]);
}

void vn_out_done(vn_eval_t *e, int k, int64_t first, int64_t n) {
    if (!e->finish || e->refine || e->finish[k].r != &e->out[k]) return;
    finish_pieces(&e->finish[k], first, first + n);
    __atomic_fetch_add(&e->finish[k].done, n, __ATOMIC_RELAXED);
}

/* ---- pure movement under uncertainty: the same row moves the planes ---- */

static vn_status_t wrap_plane(const double *p, const vn_tensor_t *like, vn_tensor_t **out, vn_error_t *err) {
    return vn_tensor_wrap(VN_F64, like->rank, like->dims, (void *)(uintptr_t)p, (size_t)like->count * sizeof *p, NULL, NULL, out, err);
}

/* Runs the row with every float operand replaced by a plane: its value, or its error (0 where exact), or its variance. */
static vn_status_t moved(vn_eval_t *e, const vn_op_t *row, int which, double **planes) {
    vn_eval_t sub = *e;
    vn_status_t s = VN_OK;
    vn_arg_t *in = vn_alloc((size_t)(e->n_in ? e->n_in : 1), sizeof *in);
    vn_ref_t *out = vn_alloc((size_t)(e->n_out ? e->n_out : 1), sizeof *out);
    vn_tensor_t **made = vn_alloc((size_t)(e->n_in ? e->n_in : 1), sizeof *made);
    if (!in || !out || !made) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < e->n_in && s == VN_OK; ++k) {
        in[k].t = e->in[k].t;
        in[k].v = e->in[k].v;
        if (!e->in[k].t || !vn_dtype_is_float(e->in[k].t->dtype)) continue;
        const double *p = which == 0 ? vn_arg_f64(e, k) : which == 1 ? e->in[k].err : e->in[k].var;
        if (which == 0 && !p) s = VN_ERR_NOMEM;
        if (s == VN_OK)
            s = p ? wrap_plane(p, e->in[k].t, &made[k], e->err)
                  : vn_tensor_new(VN_F64, e->in[k].t->rank, e->in[k].t->dims, &made[k], e->err);
        in[k].t = made[k];
    }
    sub.in = in;
    sub.out = out;
    if (s == VN_OK) s = row->eval(&sub);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        if (!out[k].tensor || out[k].tensor->dtype != VN_F64) continue;
        const int64_t n = out[k].count;
        planes[k] = vn_alloc((size_t)(n ? n : 1), sizeof(double));
        if (!planes[k]) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        else vn_tensor_to_f64(out[k].tensor, planes[k]);
    }
    for (int k = 0; out && k < e->n_out; ++k) vn_ref_free(&out[k]);
    for (int k = 0; made && k < e->n_in; ++k) {
        if (in) vn_arg_clear(&in[k]);
        vn_tensor_free(made[k]);
    }
    vn_free(in);
    vn_free(out);
    vn_free(made);
    return s;
}

static vn_status_t move_planes(vn_eval_t *e, const vn_op_t *row) {
    for (int which = 0; which < (e->want >= VN_WANT_VARIANCE ? 3 : 2); ++which) {
        double *planes[64] = {0};
        if (e->n_out > 64) return vn_eval_fail(e, VN_ERR_RANGE, "more than 64 outputs under uncertainty");
        vn_status_t s = moved(e, row, which, planes);
        for (int k = 0; k < e->n_out; ++k) {
            vn_ref_t *r = &e->out[k];
            if (s == VN_OK && planes[k] && vn_dtype_is_float(r->dtype) && r->tensor) {
                double **place = which == 0 ? &r->value : which == 1 ? &r->bound : &r->var;
                vn_free(*place);
                *place = planes[k];
                r->bound_final = true;
            } else {
                vn_free(planes[k]);
            }
        }
        VN_TRY(s);
    }
    return VN_OK;
}

static bool unknown(const vn_eval_t *e) {
    for (int k = 0; k < e->n_in; ++k)
        if (e->in[k].unknown) return true;
    return false;
}

/* Some operand may be either of two answers (claim CMP-1). */
static bool undecided(const vn_eval_t *e) {
    for (int k = 0; k < e->n_in; ++k)
        if (e->in[k].either) return true;
    return false;
}

static bool uncertain(const vn_eval_t *e) {
    for (int k = 0; k < e->n_in; ++k)
        if (e->in[k].err) return true;
    return false;
}

/* A row that cannot carry uncertainty makes no statement about its outputs. */
vn_status_t vn_frame_void(vn_eval_t *e) {
    for (int k = 0; k < e->n_out; ++k) {
        vn_ref_t *r = &e->out[k];
        r->nested_open = r->nested != NULL;
        if (!r->tensor && !r->value) continue;
        if (e->want >= VN_WANT_BOUND && vn_dtype_is_float(r->dtype)) {
            const size_t n = (size_t)(r->count ? r->count : 1);
            if (!r->value) { /* moved bits: dependants must see that nothing is known about them */
                r->value = vn_alloc(n, sizeof *r->value);
                if (r->value) vn_tensor_to_f64(r->tensor, r->value);
            }
            if (!r->bound) r->bound = vn_alloc(n, sizeof *r->bound);
            if (!r->value || !r->bound) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
            for (int64_t i = 0; i < r->count; ++i) r->bound[i] = INFINITY;
        }
        r->bound_final = true;
        r->demand_equal = false;
        VN_TRY(vn_out_flags(e, k));
        memset(r->flags, VN_EL_VOID, (size_t)r->count);
    }
    return VN_OK;
}

/* Inside a region of tier `fast` every second tier is allowed: the operators after it must see its room. What it adds is the error of an
 * approximation, the same at every call, and may be as large as it says: its square is the mean square that counts (claim REGION-4). */
static void take_wide(vn_ref_t *r) {
    if (!r->bound || !r->wide) return;
    for (int64_t i = 0; i < r->count; ++i) {
        const double more = r->wide[i] - r->bound[i];
        if (!(more > 0)) continue;
        r->bound[i] = r->wide[i];
        if (r->var) r->var[i] += more * more;
    }
}

/* Pointwise results of a region remember the sum that they come from: what is added to it later may enter it first. */
static void sums_behind(vn_eval_t *e) {
    int64_t most = 0;
    for (int k = 0; k < e->n_in; ++k)
        if (e->in[k].terms > most) most = e->in[k].terms;
    for (int k = 0; k < e->n_out; ++k)
        if (e->out[k].value && e->out[k].terms < most) e->out[k].terms = most;
}

vn_status_t vn_frame_node(vn_oracle_run_t *run, const vn_graph_t *graph, const vn_node_t *node, vn_arg_t *in, const vn_bundle_t *outer,
                          vn_ref_t *out, vn_error_t *err) {
    const int64_t version = vn_run_version(run, node->domain);
    const vn_op_t *row = version < 0 ? NULL : vn_registry_find(node->domain, node->op, version);
    vn_contract_t contract = vn_contract_resolve(run->contract, main_dtype(in, node->n_inputs));
    vn_eval_t e = {.model = run->model,
                   .graph = graph,
                   .node = node,
                   .version = version,
                   .contract = &contract,
                   .want = run->want,
                   .n_in = node->n_inputs,
                   .n_out = node->n_outputs,
                   .in = in,
                   .out = out,
                   .outer = outer,
                   .given = run->given,
                   .run = run,
                   .err = err};
    if (run->given && (!row || !(row->flags & VN_OP_STATES)))
        return vn_eval_fail(&e, VN_ERR_UNSUPPORTED, "the operator has no states that its outputs show");
    if (!row) {
        const vn_function_t *f = vn_model_function(run->model, node->domain, node->op, node->overload);
        if (f) return vn_frame_function(run, f, node, in, out, err);
        if (version < 0)
            return vn_eval_fail(&e, VN_ERR_UNSUPPORTED, "the model imports no operator set for domain '%s'",
                                *node->domain ? node->domain : "ai.onnx");
        return vn_eval_fail(&e, VN_ERR_UNSUPPORTED, "operator %s%s%s of opset %lld has no oracle", node->domain, *node->domain ? "." : "",
                            node->op, (long long)version);
    }
    vn_status_t s = vn_operands_check(&e);
    finish_t *finishers = vn_alloc((size_t)(node->n_outputs ? node->n_outputs : 1), sizeof *finishers);
    if (!finishers) s = vn_eval_fail(&e, VN_ERR_NOMEM, "no memory");
    for (int k = 0; finishers && k < node->n_outputs; ++k) finishers[k].row = row, finishers[k].r = &out[k];
    /* Where an operand is uncertain or without a statement, and in a region, planes may still change after eval. */
    e.finish = run->region || uncertain(&e) || undecided(&e) || unknown(&e) ? NULL : finishers;
    if (s == VN_OK) s = row->eval(&e);
    if (s == VN_OK && uncertain(&e) && row->cls != VN_CLASS_CONTROL) {
        if (row->flags & VN_OP_MAPS) s = move_planes(&e, row);
        else if (!(row->flags & VN_OP_PROPAGATES)) s = vn_frame_void(&e);
    }
    if (s == VN_OK && undecided(&e) && !(row->flags & VN_OP_EITHER)) s = vn_frame_void(&e);
    if (s == VN_OK && unknown(&e)) s = vn_frame_void(&e);
    for (int k = 0; k < node->n_outputs && s == VN_OK; ++k) out[k].nested_open |= out[k].nested && uncertain(&e);
    /* Outside a region what a body computes carries no bound: nodes inside are judged, the operator itself makes no statement. */
    if (s == VN_OK && row->cls == VN_CLASS_CONTROL && !run->fn && !run->region) s = vn_frame_void(&e);
    const bool open_operands = uncertain(&e);
    if (s == VN_OK && run->region && row->cls <= VN_CLASS_ELEMENTARY) sums_behind(&e);
    for (int k = 0; k < node->n_outputs && s == VN_OK; ++k) {
        bool open;
        s = finish(&e, k, &finishers[k], &open);
        if (run->region && contract.tier == VN_TIER_FAST) take_wide(&out[k]);
        if (s == VN_OK && open) s = vn_escalate(&e, row, k, finishers[k].marks);
        if (open_operands) out[k].demand_equal = false; /* one rounding of an uncertain operand is no longer one value */
    }
    for (int k = 0; k < node->n_outputs && s == VN_OK; ++k)
        if (*node->outputs[k] && !out[k].tensor && !out[k].nested)
            s = vn_eval_fail(&e, VN_ERR_UNSUPPORTED, "output %d (%s) is not evaluated", k, node->outputs[k]);
    for (int k = 0; finishers && k < node->n_outputs; ++k) vn_free(finishers[k].marks);
    vn_free(finishers);
    if (s != VN_OK)
        for (int k = 0; k < node->n_outputs; ++k) vn_ref_free(&out[k]);
    return s;
}
