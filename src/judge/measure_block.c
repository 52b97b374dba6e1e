/* measure_block.c -- rungs 3 to 6 for 512 simple elements at a time, at the speed of memory.
 *
 * Each plane is read once. Sums live in eight independent accumulators, added in a fixed order: the loop (measure_pass.h) vectorises without any
 * reordering. Anything that needs a rule (NaN, infinities, elements outside, second values) sends the block to the plain loop of measure.c.
 */
#include "judge/measure_block.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/clones.h"

VN_CLONES static void widen_f32(const float *restrict x, double *restrict out) {
    for (int i = 0; i < VN_BLOCK; ++i) out[i] = x[i];
}
static inline float bf16(uint16_t x) {
    const uint32_t wide = (uint32_t)x << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
VN_CLONES static void widen_bf16(const uint16_t *restrict x, double *restrict out) {
    for (int i = 0; i < VN_BLOCK; ++i) out[i] = bf16(x[i]);
}

void vn_block_load(const vn_tensor_t *t, int64_t begin, int64_t n, double *out) {
    if (t->dtype == VN_F32 && n == VN_BLOCK) {
        widen_f32((const float *)t->data + begin, out);
    } else if (t->dtype == VN_BF16 && n == VN_BLOCK) {
        widen_bf16((const uint16_t *)t->data + begin, out);
    } else {
        vn_tensor_t part = *t; /* a view of the stretch; begin is a multiple of a byte's worth of elements */
        part.rank = 1;
        part.dims[0] = part.count = n;
        part.strides[0] = 1;
        part.data = (char *)t->data + begin * vn_dtype_bits(t->dtype) / 8;
        vn_tensor_to_f64(&part, out);
    }
}

/* differ[i]: all bits set where the bits of the two results differ, else 0. */
VN_CLONES static void compare16(const uint16_t *restrict a, const uint16_t *restrict b, int64_t *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? -1 : 0;
}
VN_CLONES static void compare32(const uint32_t *restrict a, const uint32_t *restrict b, int64_t *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? -1 : 0;
}
VN_CLONES static void compare64(const uint64_t *restrict a, const uint64_t *restrict b, int64_t *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? -1 : 0;
}

/* Of n < VN_BLOCK elements the rest are equal. */
static bool compare(const vn_tensor_t *a, const vn_tensor_t *b, int64_t begin, int64_t n, int64_t *differ) {
    const int bits = vn_dtype_bits(a->dtype);
    const size_t size = (size_t)bits / 8;
    if (bits != 16 && bits != 32 && bits != 64) return false;
    const char *x = (const char *)a->data + (size_t)begin * size, *y = (const char *)b->data + (size_t)begin * size;
    uint64_t p[VN_BLOCK], q[VN_BLOCK];
    if (n < VN_BLOCK) {
        memset(p, 0, VN_BLOCK * size);
        memset(q, 0, VN_BLOCK * size);
        x = memcpy(p, x, (size_t)n * size);
        y = memcpy(q, y, (size_t)n * size);
    }
    if (bits == 16) compare16((const uint16_t *)x, (const uint16_t *)y, differ);
    else if (bits == 32) compare32((const uint32_t *)x, (const uint32_t *)y, differ);
    else compare64((const uint64_t *)x, (const uint64_t *)y, differ);
    return true;
}

/* Four or eight doubles; operators act lane by lane. A comparison gives all ones or all zeros per lane. */
#define VECTORS(width)                                                                                          \
    typedef double vec##width __attribute__((vector_size(8 * width)));                                          \
    typedef double plane##width __attribute__((vector_size(8 * width), aligned(8), may_alias)); /* in memory */ \
    typedef int64_t mask##width __attribute__((vector_size(8 * width)));                                        \
    typedef int64_t bits##width __attribute__((vector_size(8 * width), aligned(8), may_alias));                 \
    typedef uint64_t word##width __attribute__((vector_size(8 * width)));                                       \
    typedef float half##width __attribute__((vector_size(4 * width)));                                          \
    typedef struct sums##width {                                                                                \
        vec##width y2, z2, sign;                                                                                \
    } sums##width;                                                                                              \
    typedef struct marks##width {                                                                               \
        vec##width max_abs, z2_max;                                                                             \
        mask##width unequal, sigmas;          /* counts, negative: a lane that holds is -1 */                   \
        mask##width outside, over, odd, open; /* as in totals_t */                                              \
    } marks##width
VECTORS(4);
VECTORS(8);

#define JOIN(a, b) a##b
#define JOINED(a, b) JOIN(a, b)
#define VECTOR(name) JOINED(name, WIDTH)
#define PICK(mask, yes, no) ((vec_t)(((mask_t)(yes) & (mask)) | ((mask_t)(no) & ~(mask))))
#define SIZE_OF(x) ((vec_t)((mask_t)(x)&INT64_MAX))
#define LARGER(a, b) PICK((a) > (b), a, b) /* b where a is no number */
#define AT(from, i) ((vec_t) * (const VECTOR(plane) *)((from) + (i)))
#define MASK_AT(from, i) ((mask_t) * (const VECTOR(bits) *)((from) + (i)))
#define ODD(size) ((mask_t)((VECTOR(word))(size) + UINT64_C(0x0010000000000000))) /* a sign where it is not finite */
#define SUM8(a, b) ((((a)[0] + (a)[1]) + ((a)[2] + (a)[3])) + (((b)[0] + (b)[1]) + ((b)[2] + (b)[3])))

/* A block of doubles is a page, and the machine's own prefetch ends there. Only a hint: an address beyond the plane does no harm. */
#define AHEAD(plane, i) __builtin_prefetch((const char *)(plane) + 8 * (VN_BLOCK + (i)))

/* A block as the fast loop sees it, and the records that stood before it. */
typedef struct block {
    const double *x, *y, *bound, *own, *var; /* own, var: NULL where there is no plane */
    const int64_t *differ;
    double own_abs, own_rel;
    double error, ratio, weak; /* error / room of unequal elements, own / bound, room / |y| */
} block_t;

/* What one pass finds. Below 0: some element is outside its room; some ratio is larger than those known; some error is not finite; some room is not. */
typedef struct totals {
    double y2, z2, sign, max_abs, z2_max;
    int64_t unequal, sigmas, outside, over, odd, open;
} totals_t;

/* Sign bit: a ratio of this element is larger than those known; that to |y| only where y is not 0. */
#define OVER(error, ratio, weak) \
    ((mask_t)((error)*room - off) | (mask_t)((ratio)*b - own) | ((mask_t)((weak)*ay - room) & (mask_t)(0 - ay)))

#define WIDTH 8
#define STEP step8
#define PASS pass8
#include "judge/measure_pass.h"
#undef WIDTH
#undef STEP
#undef PASS
#define WIDTH 4
#define STEP step4
#define PASS pass4
#include "judge/measure_pass.h"

/* Eight lanes of sums in both, so the bits are the same. */
VN_WIDE static void wide(const block_t *k, totals_t *out) {
    if (k->own && k->var) pass8(k, true, true, out);
    else if (k->own) pass8(k, true, false, out);
    else if (k->var) pass8(k, false, true, out);
    else pass8(k, false, false, out);
}
VN_NARROW static void narrow(const block_t *k, totals_t *out) {
    if (k->own && k->var) pass4(k, true, true, out);
    else if (k->own) pass4(k, true, false, out);
    else if (k->var) pass4(k, false, true, out);
    else pass4(k, false, false, out);
}

typedef vec4 vec_t; /* what follows is written for four */
typedef mask4 mask_t;

static double larger(double a, double b) { return a > b ? a : b; }

/* Quotients are slow and records are rare: only a block that holds one comes here, and only its lanes with one are divided. */
VN_CLONES static void find_ratios(block_t *k, int *worst) {
    for (int i = 0; i < VN_BLOCK; i += WIDTH) {
        const vec_t y = AT(k->y, i), b = AT(k->bound, i), e = SIZE_OF(AT(k->x, i) - y), ay = SIZE_OF(y), own = AT(k->own, i),
                    room = b + own;
        const vec_t off = (vec_t)((mask_t)e & MASK_AT(k->differ, i));
        const mask_t over = OVER(k->error, k->ratio, k->weak);
        for (int l = 0; l < WIDTH && (over[0] | over[1] | over[2] | over[3]) < 0; ++l) {
            if (off[l] / room[l] > k->error) {
                k->error = off[l] / room[l];
                *worst = i + l;
            }
            if (b[l] > 0 && own[l] / b[l] > k->ratio) k->ratio = own[l] / b[l];
            if (ay[l] > 0 && room[l] / ay[l] > k->weak) k->weak = room[l] / ay[l];
        }
    }
}

/* A block with elements to be clipped: sums of clipped squares and of sizes with their signs. */
VN_CLONES static void clip_far(const block_t *k, double clip, double *clipped, double *sign) {
    double squares = 0, sizes = 0;
    for (int i = 0; i < VN_BLOCK; ++i) {
        const double d = k->x[i] - k->y[i], q = k->var[i] > 0 ? d * d / k->var[i] : 0, size = q > clip * clip ? clip : sqrt(q);
        squares += size * size;
        sizes += (d < 0) != (k->y[i] < 0) ? -size : size;
    }
    *clipped = squares;
    *sign = sizes;
}

/* The oracle's own error where it is no plane (vn_ref_own). */
VN_CLONES static void own_errors(const double *restrict y, double own_abs, double own_rel, double *restrict own) {
    for (int i = 0; i < VN_BLOCK; ++i) own[i] = own_abs + own_rel * fabs(y[i]);
}

/* Bounds that say nothing; -1: some bound is no number. */
static int64_t infinite(const double *bound) {
    int64_t n = 0;
    for (int i = 0; i < VN_BLOCK; ++i) {
        if (isnan(bound[i])) return -1;
        n += bound[i] > DBL_MAX;
    }
    return n;
}

/* Bits equal, and no bound is stated: only the size of the values is of interest. */
VN_CLONES static double plain(const double *x) {
    vec_t y2 = {0};
    for (int i = 0; i < VN_BLOCK; i += WIDTH) y2 += AT(x, i) * AT(x, i);
    return (y2[0] + y2[1]) + (y2[2] + y2[3]);
}

static bool any_void(const uint8_t *flags, int64_t n) {
    uint64_t word, all = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, flags + i, sizeof word);
        all |= word;
    }
    for (; i < n; ++i) all |= flags[i];
    return (all & UINT64_C(0x0101010101010101) * VN_EL_VOID) != 0;
}

/* A stretch of a plane, filled up with zeros: equal elements without error, value and variance change no sum and are no record. */
static const double *whole(const double *plane, int64_t n, double *room) {
    if (!plane || n == VN_BLOCK) return plane;
    memcpy(room, plane, (size_t)n * sizeof *room);
    memset(room + n, 0, (size_t)(VN_BLOCK - n) * sizeof *room);
    return room;
}

static bool measure_plain(const vn_ref_t *r, const vn_tensor_t *actual, int64_t begin, int64_t n, const double *x, vn_measure_t *m) {
    if (r->value || r->bound || r->var || vn_dtype_bits(actual->dtype) < 8) return false;
    const size_t size = (size_t)vn_dtype_bits(actual->dtype) / 8, at = (size_t)begin * size;
    if (memcmp((const char *)actual->data + at, (const char *)r->tensor->data + at, (size_t)n * size) != 0) return false;
    const double sum = plain(x);
    if (!(sum <= DBL_MAX)) return false;
    m->sum_y2 += sum;
    return true;
}

bool vn_block_measure(const vn_ref_t *r, const vn_tensor_t *actual, int64_t begin, int64_t n, const double *x, vn_measure_t *m) {
    double planes[4][VN_BLOCK], own[VN_BLOCK];
    int64_t differ[VN_BLOCK];
    totals_t t;
    if (r->flags && any_void(r->flags + begin, n)) return false;
    if (!r->value || !r->bound) return measure_plain(r, actual, begin, n, x, m);
    if (!compare(actual, r->tensor, begin, n, differ)) return false;
    block_t k = {.x = x,
                 .y = whole(r->value + begin, n, planes[0]),
                 .bound = whole(r->bound + begin, n, planes[1]),
                 .own = r->own ? whole(r->own + begin, n, planes[2]) : NULL,
                 .var = r->var ? whole(r->var + begin, n, planes[3]) : NULL,
                 .differ = differ,
                 .own_abs = r->own_abs,
                 .own_rel = r->own_rel > 0 ? r->own_rel : 0x1p-52,
                 .error = m->worst_ratio,
                 .ratio = m->oracle_ratio,
                 .weak = m->weakest};
    if (VN_IS_WIDE()) wide(&k, &t);
    else narrow(&k, &t);
    const int64_t voids = t.open < 0 ? infinite(k.bound) : 0;
    if (t.outside < 0 || t.odd < 0 || voids < 0 || !(t.y2 <= DBL_MAX) || !(t.z2 <= DBL_MAX)) return false;
    if (t.unequal != 0 && (r->demand_equal || r->undecided)) return false;
    m->unequal += t.unequal;
    m->voids += voids;
    m->sum_y2 += t.y2;
    for (int64_t i = 0; t.unequal != 0 && m->first_unequal < 0; ++i)
        if (differ[i]) m->first_unequal = begin + i;
    m->max_abs = larger(t.max_abs, m->max_abs);
    if (t.over < 0) {
        int worst = -1;
        if (!k.own) own_errors(k.y, k.own_abs, k.own_rel, own);
        if (!k.own) k.own = own;
        find_ratios(&k, &worst);
        m->worst_ratio = k.error;
        m->oracle_ratio = k.ratio;
        m->weakest = k.weak;
        if (worst >= 0) m->worst = begin + worst;
    }
    if (!k.var) return true;
    const double clip = vn_clip_z();
    double clipped = t.z2, sign = t.sign;
    if (t.z2_max > clip * clip) clip_far(&k, clip, &clipped, &sign);
    m->sigmas += t.sigmas;
    m->sum_z2 += t.z2;
    m->sum_clipped += clipped;
    m->sum_signed += sign;
    m->sum_signed2 += clipped;
    m->z_max = larger(sqrt(t.z2_max), m->z_max);
    return true;
}
