/* op_matmul_nbits.c -- contrib MatMulNBits: A times the transpose of block-quantised weights.
 *
 * Weights W[n][k] = (q - z) s, with q packed low bits first, one scale and zero point per block of block_size along K; without zero points
 * z = 2^(bits-1).
 * Claim CONTRACT-13: weights are rounded once when they are dequantised (u each, or u of the contract's intermediate type), or the scale is
 * applied to a block's sum: E = (n + 2) u T with the rest as CONTRACT-1. Second tier: kernels that take the zero point out of the sum
 * (sum of q s a - z s sum a) round relative to |a| (|q| + |z|) s; and accuracy_level 2, 3, 4 allow the activations to be read as f16, bf16,
 * or blockwise as int8 (|da| <= max|a| of the block / 254).
 */
#include <math.h>
#include <string.h>

#include "oracle/matmul.h"
#include "oracle/require.h"

typedef struct nbits {
    int64_t m, n, k, block, blocks, blob;
    int bits, level;
} nbits_t;

enum { IN_A, IN_B, IN_SCALE, IN_ZERO, IN_GROUP, IN_BIAS };

static vn_status_t read_form(vn_eval_t *e, nbits_t *f) {
    VN_TRY(vn_require(e, 3));
    const vn_tensor_t *a = e->in[IN_A].t;
    *f = (nbits_t){.n = vn_node_int(e->node, "N", -1),
                   .k = vn_node_int(e->node, "K", -1),
                   .block = vn_node_int(e->node, "block_size", -1),
                   .bits = (int)vn_node_int(e->node, "bits", 4),
                   .level = (int)vn_node_int(e->node, "accuracy_level", 0)};
    if (f->bits != 2 && f->bits != 4 && f->bits != 8)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "weights of %d bits; 2, 4 and 8 are done", f->bits);
    if (f->n < 0 || f->k < 0 || f->block < 1 || f->n > INT32_MAX || f->k > INT32_MAX || f->block > INT32_MAX)
        return vn_eval_fail(e, VN_ERR_RANGE, "N %lld, K %lld, block_size %lld", (long long)f->n, (long long)f->k, (long long)f->block);
    if (!vn_dtype_is_float(a->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "A of type %s", vn_dtype_name(a->dtype));
    if (vn_has(e, IN_GROUP)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "g_idx (reordered groups)");
    if (a->rank < 1 || a->dims[a->rank - 1] != f->k)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the last dimension of A is not K = %lld", (long long)f->k);
    f->blocks = (f->k + f->block - 1) / f->block;
    f->blob = (f->block * f->bits + 7) / 8;
    f->m = f->k ? a->count / f->k : 0;
    return VN_OK;
}

vn_status_t vn_infer_matmul_nbits(vn_eval_t *e) {
    nbits_t f;
    VN_TRY(read_form(e, &f));
    const vn_tensor_t *a = e->in[IN_A].t;
    e->out[0].dtype = a->dtype;
    e->out[0].rank = a->rank;
    memcpy(e->out[0].dims, a->dims, sizeof a->dims);
    e->out[0].dims[a->rank - 1] = f.n;
    return VN_OK;
}

static unsigned code_at(const uint8_t *bytes, int bits, int64_t i) {
    const int64_t bit = i * bits;
    return bytes[bit / 8] >> (bit % 8) & ((1u << bits) - 1);
}

/* Dequantised weights [N, K] and their magnitudes (|q| + |z|) |s|. */
static vn_status_t dequantise(vn_eval_t *e, const nbits_t *f, double *w, double *loose) {
    const vn_tensor_t *b = e->in[IN_B].t, *z = vn_has(e, IN_ZERO) ? e->in[IN_ZERO].t : NULL;
    const double *s = vn_arg_f64(e, IN_SCALE);
    const int64_t zero_row = (f->blocks * f->bits + 7) / 8;
    const bool packed = z && z->dtype == VN_U8;
    if (!s) return VN_ERR_NOMEM;
    if (b->dtype != VN_U8 || b->count != f->n * f->blocks * f->blob)
        return vn_eval_fail(e, VN_ERR_SHAPE, "B has %lld bytes, N %lld times %lld blocks of %lld bytes are needed", (long long)b->count,
                            (long long)f->n, (long long)f->blocks, (long long)f->blob);
    if (e->in[IN_SCALE].t->count != f->n * f->blocks)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld scales for %lld blocks", (long long)e->in[IN_SCALE].t->count,
                            (long long)(f->n * f->blocks));
    if (z && z->count != f->n * (packed ? zero_row : f->blocks))
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld zero points for %lld blocks", (long long)z->count, (long long)(f->n * f->blocks));
    if (z && !packed && !vn_dtype_is_float(z->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "zero points of type %s", vn_dtype_name(z->dtype));
    const double *zf = z && !packed ? vn_arg_f64(e, IN_ZERO) : NULL;
    if (z && !packed && !zf) return VN_ERR_NOMEM;
    const uint8_t *bytes = b->data, *zeros = packed ? z->data : NULL;
    for (int64_t n = 0; n < f->n; ++n)
        for (int64_t g = 0; g < f->blocks; ++g) {
            const double scale = s[n * f->blocks + g];
            const double zero = zf      ? zf[n * f->blocks + g]
                                : zeros ? code_at(zeros + n * zero_row, f->bits, g)
                                        : (double)(1 << (f->bits - 1));
            const uint8_t *blob = bytes + (n * f->blocks + g) * f->blob;
            for (int64_t i = 0; i < f->block && g * f->block + i < f->k; ++i) {
                const double q = code_at(blob, f->bits, i);
                w[n * f->k + g * f->block + i] = (q - zero) * scale;
                if (loose) loose[n * f->k + g * f->block + i] = (q + fabs(zero)) * fabs(scale) * (1 + 0x1p-51);
            }
        }
    return VN_OK;
}

/* Second tier: everything that a kernel of this accuracy level may do, relative to the loose magnitudes. */
static vn_status_t loosen(vn_eval_t *e, const nbits_t *f, const double *loose) {
    const double *a = vn_arg_f64(e, IN_A);
    const double u16 = 0x1p-11, ubf = 0x1p-8, u = vn_u(e), n = (double)f->k;
    VN_TRY(vn_out_wide(e, 0,
                       f->level == 4   ? "int8-activations"
                       : f->level == 3 ? "bf16-activations"
                       : f->level == 2 ? "f16-activations"
                                       : "zero-point-outside-the-sum"));
    double *wide = e->out[0].wide;
    VN_TRY(vn_abs_gemm_upper(f->m, f->n, f->k, a, f->k, false, loose, f->k, true, wide, f->n, false));
    const double rel = f->level == 2 ? vn_gamma(n + 5, u16) : f->level == 3 ? vn_gamma(n + 5, u) + 2.01 * ubf : vn_gamma(n + 5, u);
    double *moved = NULL;
    if (f->level == 4) { /* |da| per element, spread over its block */
        double *da = vn_alloc((size_t)(f->m * f->k > 0 ? f->m * f->k : 1), sizeof *da);
        moved = vn_alloc((size_t)(f->m * f->n > 0 ? f->m * f->n : 1), sizeof *moved);
        vn_status_t s = da && moved ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        for (int64_t r = 0; s == VN_OK && r < f->m; ++r)
            for (int64_t g = 0; g < f->blocks; ++g) {
                double max = 0;
                const int64_t end = (g + 1) * f->block < f->k ? (g + 1) * f->block : f->k;
                for (int64_t k = g * f->block; k < end; ++k) max = fmax(max, fabs(a[r * f->k + k]));
                for (int64_t k = g * f->block; k < end; ++k) da[r * f->k + k] = max / 254 * (1 + 0x1p-12);
            }
        if (s == VN_OK) s = vn_abs_gemm_upper(f->m, f->n, f->k, da, f->k, false, loose, f->k, true, moved, f->n, false);
        vn_free(da);
        if (s != VN_OK) {
            vn_free(moved);
            return s;
        }
    }
    for (int64_t i = 0; i < e->out[0].count; ++i) {
        const double w = rel * wide[i] + (moved ? moved[i] * (1 + rel) : 0) + n * vn_eta(e);
        wide[i] = w > e->out[0].bound[i] ? w : e->out[0].bound[i];
    }
    vn_free(moved);
    return VN_OK;
}

vn_status_t vn_eval_matmul_nbits(vn_eval_t *e) {
    nbits_t f;
    VN_TRY(read_form(e, &f));
    VN_TRY(vn_infer_matmul_nbits(e));
    int64_t dims[VN_MAX_RANK], cells;
    const int rank = e->out[0].rank;
    memcpy(dims, e->out[0].dims, sizeof dims);
    if (!vn_i64_mul(f.n, f.k, &cells)) return vn_eval_fail(e, VN_ERR_RANGE, "too many weights");
    VN_TRY(vn_out_float(e, 0, e->in[IN_A].t->dtype, rank, dims));
    const bool bound = e->want >= VN_WANT_BOUND;
    double *w = vn_alloc((size_t)(cells ? cells : 1), sizeof *w),
           *loose = bound ? vn_alloc((size_t)(cells ? cells : 1), sizeof *loose) : NULL;
    vn_factor_t a = {0}, b = {0};
    vn_status_t s = w && (loose || !bound) ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld weights", (long long)cells);
    if (s == VN_OK) s = dequantise(e, &f, w, loose);
    if (s == VN_OK) s = vn_factor_input(e, IN_A, 0, &a);
    vn_factor_plane(w, NULL, NULL, cells, VN_FMT_NONE, &b);
    vn_bias_t bias = {0};
    if (s == VN_OK && vn_has(e, IN_BIAS)) {
        s = vn_bias_input(e, IN_BIAS, &bias);
        bias.cs = 1;
        if (s == VN_OK && bias.count != f.n)
            s = vn_eval_fail(e, VN_ERR_SHAPE, "bias of %lld elements for N = %lld", (long long)bias.count, (long long)f.n);
    }
    if (s == VN_OK) {
        vn_product_t p;
        s = vn_product_begin(&p, e, &a, &b, f.k, 1, 1, bias.c ? &bias : NULL);
        p.extra_rel += 2;
        if (e->contract->intermediate != VN_FMT_NONE) p.extra_format_u = vn_format_info(e->contract->intermediate)->u;
        p.exact_below = 0x1p-1074; /* codes times scales: no grid to rely on once weights are rounded */
        const int64_t zero = 0;
        const vn_batch_t g = {
            .count = 1, .m = f.m, .n = f.n, .k = f.k, .a_off = &zero, .b_off = &zero, .lda = f.k, .ldb = f.k, .tb = true, .bias = bias};
        if (s == VN_OK) s = vn_product_batch(&p, &g);
        vn_product_end(&p);
    }
    if (s == VN_OK && bound) s = loosen(e, &f, loose);
    vn_factor_free(&a);
    vn_free(w);
    vn_free(loose);
    return s;
}
