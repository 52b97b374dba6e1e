/* measure_block.c -- rungs 3 to 6 for 512 simple elements at a time, at the speed of memory.
 *
 * Each plane is read once. Sums and maxima live in LANES independent accumulators, added in a fixed order: the loop vectorises without any
 * reordering. Anything that needs a rule (NaN, infinities, elements outside, second values) sends the block to the plain loop of measure.c.
 */
#include "judge/measure_block.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/clones.h"

enum { LANES = 4 };

VN_CLONES static void widen_f32(const float *restrict x, double *restrict out) {
    for (int i = 0; i < VN_BLOCK; ++i) out[i] = x[i];
}
VN_CLONES static void widen_bf16(const uint16_t *restrict x, double *restrict out) {
    uint32_t wide[VN_BLOCK];
    float value[VN_BLOCK];
    for (int i = 0; i < VN_BLOCK; ++i) wide[i] = (uint32_t)x[i] << 16;
    memcpy(value, wide, sizeof value);
    for (int i = 0; i < VN_BLOCK; ++i) out[i] = value[i];
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

/* differ[i] = 1 where the bits differ, else 0. */
VN_CLONES static void compare16(const uint16_t *restrict a, const uint16_t *restrict b, double *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? 1 : 0;
}
VN_CLONES static void compare32(const uint32_t *restrict a, const uint32_t *restrict b, double *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? 1 : 0;
}
VN_CLONES static void compare64(const uint64_t *restrict a, const uint64_t *restrict b, double *restrict differ) {
    for (int i = 0; i < VN_BLOCK; ++i) differ[i] = a[i] != b[i] ? 1 : 0;
}

static bool compare(const vn_tensor_t *a, const vn_tensor_t *b, int64_t begin, double *differ) {
    switch (vn_dtype_bits(a->dtype)) {
    case 16: compare16((const uint16_t *)a->data + begin, (const uint16_t *)b->data + begin, differ); return true;
    case 32: compare32((const uint32_t *)a->data + begin, (const uint32_t *)b->data + begin, differ); return true;
    case 64: compare64((const uint64_t *)a->data + begin, (const uint64_t *)b->data + begin, differ); return true;
    default: return false;
    }
}

/* Four doubles; operators act lane by lane. A comparison gives all ones or all zeros per lane. */
typedef double vec_t __attribute__((vector_size(8 * LANES)));
typedef double plane_t __attribute__((vector_size(8 * LANES), aligned(8), may_alias)); /* as it lies in memory */
typedef int64_t mask_t __attribute__((vector_size(8 * LANES)));

#define ALL(x) ((vec_t){(x), (x), (x), (x)})
#define PICK(mask, yes, no) ((vec_t)(((mask_t)(yes) & (mask)) | ((mask_t)(no) & ~(mask))))
#define SIZE_OF(x) ((vec_t)((mask_t)(x)&INT64_MAX))
#define LARGER(a, b) PICK((a) > (b), a, b) /* b where a is no number */
#define AT(plane, i) ((vec_t) * (const plane_t *)((plane) + (i)))

/* A block of doubles is a page, and the machine's own prefetch ends there. Only a hint: an address beyond the plane does no harm. */
#define AHEAD(plane, i) __builtin_prefetch((const char *)(plane) + 8 * (VN_BLOCK + (i)))

typedef struct lanes {
    vec_t y2, z2, clipped, sign, max_abs, z2_max;
    mask_t unequal, voids, sigmas; /* counts, negative: a lane that holds is -1 */
    mask_t bad;                    /* not finite, or outside */
    mask_t over;                   /* some ratio is larger than those known */
} lanes_t;

/* The three largest ratios: error / room of unequal elements, own error / bound, room / |y|. */
typedef struct ratios {
    double error, own, weak;
} ratios_t;

/* The oracle's own error where it is no plane (vn_ref_own). */
VN_CLONES static void own_errors(const double *restrict y, double own_abs, double own_rel, double *restrict own) {
    for (int i = 0; i < VN_BLOCK; ++i) own[i] = own_abs + own_rel * fabs(y[i]);
}

VN_CLONES static void bounded(const double *restrict x, const double *restrict y, const double *restrict bound,
                              const double *restrict own_plane, const double *restrict differ, const ratios_t *known, lanes_t *out) {
    lanes_t t = {0};
    const vec_t zero = ALL(0), max = ALL(DBL_MAX);
    const vec_t error = ALL(known->error), own_most = ALL(known->own), weak = ALL(known->weak);
    for (int i = 0; i < VN_BLOCK; i += LANES) {
        AHEAD(y, i);
        AHEAD(bound, i);
        const vec_t e = SIZE_OF(AT(x, i) - AT(y, i)), ay = SIZE_OF(AT(y, i)), b = AT(bound, i), d = AT(differ, i);
        const vec_t own = AT(own_plane, i), room = b + own;
        const mask_t off = d > zero;
        t.unequal += off;
        t.bad |= ~(e <= max) | (~(e <= room) & off); /* a NaN is never <= */
        t.voids += b > max;
        t.y2 += ay * ay;
        t.max_abs = LARGER(e, t.max_abs);
        t.over |= ((e > error * room) & off) | (own > own_most * b) | ((room > weak * ay) & (ay > zero));
    }
    *out = t;
}

/* Quotients are slow and records are rare: only a block that holds one comes here (one that is larger by a rounding may be missed). */
VN_CLONES static void find_ratios(const double *restrict x, const double *restrict y, const double *restrict bound,
                                  const double *restrict own_plane, const double *restrict differ, vec_t *out) {
    vec_t error = ALL(0), most = ALL(0), weak = ALL(0);
    const vec_t zero = ALL(0), inf = ALL(INFINITY);
    for (int i = 0; i < VN_BLOCK; i += LANES) {
        const vec_t e = SIZE_OF(AT(x, i) - AT(y, i)), ay = SIZE_OF(AT(y, i)), b = AT(bound, i), own = AT(own_plane, i), room = b + own;
        const vec_t r = AT(differ, i) * e / room, o = own / PICK(b > zero, b, inf), w = room / PICK(ay > zero, ay, inf);
        error = LARGER(r, error); /* of equal elements: 0, or NaN where there is no room */
        most = LARGER(o, most);
        weak = LARGER(w, weak);
    }
    out[0] = error;
    out[1] = most;
    out[2] = weak;
}

/* z^2, 0 where there is no variance; also as f32, whose roots are enough for a mean of signs. */
VN_CLONES static void squares(const double *restrict x, const double *restrict y, const double *restrict var, double *restrict z2,
                              float *restrict coarse) {
    const vec_t zero = ALL(0), one = ALL(1);
    for (int i = 0; i < VN_BLOCK; i += LANES) {
        AHEAD(var, i);
        const mask_t has = AT(var, i) > zero;
        const vec_t d = (vec_t)((mask_t)(AT(x, i) - AT(y, i)) & has), q = d * d / PICK(has, AT(var, i), one);
        *(plane_t *)(z2 + i) = q;
    }
    for (int i = 0; i < VN_BLOCK; ++i) coarse[i] = sqrtf((float)z2[i]);
}

VN_CLONES static void deviations(const double *restrict x, const double *restrict y, const double *restrict var, const double *restrict z2,
                                 const float *restrict coarse, double clip, lanes_t *out) {
    lanes_t t = *out;
    double size[VN_BLOCK];
    const vec_t zero = ALL(0), most = ALL(clip), most2 = ALL(clip * clip);
    for (int i = 0; i < VN_BLOCK; ++i) size[i] = coarse[i];
    for (int i = 0; i < VN_BLOCK; i += LANES) {
        const vec_t q = AT(z2, i), cut = PICK(AT(size, i) > most, most, AT(size, i));
        const mask_t sign = ((mask_t)(AT(x, i) - AT(y, i)) ^ (mask_t)AT(y, i)) & INT64_MIN; /* the other one where y is negative */
        t.sigmas += AT(var, i) > zero;
        t.z2 += q;
        t.clipped += PICK(q > most2, most2, q);
        t.sign += (vec_t)((mask_t)cut ^ sign);
        t.z2_max = LARGER(q, t.z2_max);
    }
    *out = t;
}

/* Bits equal, and no bound is stated: only the size of the values is of interest. */
VN_CLONES static void plain(const double *restrict x, lanes_t *out) {
    lanes_t t = {0};
    const vec_t max = ALL(DBL_MAX);
    for (int i = 0; i < VN_BLOCK; i += LANES) {
        const vec_t v = AT(x, i);
        t.bad |= ~(SIZE_OF(v) <= max);
        t.y2 += v * v;
    }
    *out = t;
}

static inline double larger(double a, double b) { return a > b ? a : b; }
#define SUM(v) (((v)[0] + (v)[1]) + ((v)[2] + (v)[3]))
#define MOST(v) larger(larger((v)[0], (v)[1]), larger((v)[2], (v)[3]))

/* First element of the block whose ratio is the largest. */
static int64_t find_worst(const vn_ref_t *r, int64_t begin, const double *x, const double *differ, double ratio) {
    for (int64_t i = 0; i < VN_BLOCK; ++i) {
        const double e = fabs(x[i] - r->value[begin + i]), room = r->bound[begin + i] + vn_ref_own(r, begin + i);
        if (differ[i] != 0 && e / room == ratio) return begin + i;
    }
    return -1;
}

static bool any_void(const uint8_t *flags) {
    uint64_t word, all = 0;
    for (int i = 0; i < VN_BLOCK; i += 8) {
        memcpy(&word, flags + i, sizeof word);
        all |= word;
    }
    return (all & UINT64_C(0x0101010101010101) * VN_EL_VOID) != 0;
}

bool vn_block_measure(const vn_ref_t *r, const vn_tensor_t *actual, int64_t begin, const double *x, vn_measure_t *m) {
    double differ[VN_BLOCK], own[VN_BLOCK], z2[VN_BLOCK];
    float coarse[VN_BLOCK];
    lanes_t t;
    if (r->flags && any_void(r->flags + begin)) return false;
    if (!r->value || !r->bound) {
        if (r->value || r->bound || r->var || vn_dtype_bits(actual->dtype) < 8) return false;
        const size_t size = (size_t)vn_dtype_bits(actual->dtype) / 8, at = (size_t)begin * size;
        if (memcmp((const char *)actual->data + at, (const char *)r->tensor->data + at, VN_BLOCK * size) != 0) return false;
        plain(x, &t);
        if (SUM(t.bad) != 0) return false;
        m->sum_y2 += SUM(t.y2);
        return true;
    }
    if (!compare(actual, r->tensor, begin, differ)) return false;
    const double *y = r->value + begin, rel = r->own_rel > 0 ? r->own_rel : 0x1p-52;
    if (!r->own) own_errors(y, r->own_abs, rel, own);
    const double *own_plane = r->own ? r->own + begin : own;
    const ratios_t known = {m->worst_ratio, m->oracle_ratio, m->weakest};
    bounded(x, y, r->bound + begin, own_plane, differ, &known, &t);
    const int64_t unequal = -SUM(t.unequal);
    if (SUM(t.bad) != 0 || (unequal != 0 && (r->demand_equal || r->undecided))) return false;
    if (r->var) {
        squares(x, y, r->var + begin, z2, coarse);
        deviations(x, y, r->var + begin, z2, coarse, vn_clip_z(), &t);
    }
    m->unequal += unequal;
    m->voids -= SUM(t.voids);
    m->sum_y2 += SUM(t.y2);
    m->max_abs = larger(MOST(t.max_abs), m->max_abs);
    if (unequal != 0 && m->first_unequal < 0)
        for (int64_t i = 0; i < VN_BLOCK && m->first_unequal < 0; ++i)
            if (differ[i] != 0) m->first_unequal = begin + i;
    if (SUM(t.over) != 0) {
        vec_t found[3];
        find_ratios(x, y, r->bound + begin, own_plane, differ, found);
        const double ratio = MOST(found[0]);
        m->oracle_ratio = larger(MOST(found[1]), m->oracle_ratio);
        m->weakest = larger(MOST(found[2]), m->weakest);
        if (ratio > m->worst_ratio) {
            m->worst_ratio = ratio;
            m->worst = find_worst(r, begin, x, differ, ratio);
        }
    }
    if (r->var) {
        m->sigmas -= SUM(t.sigmas);
        m->sum_z2 += SUM(t.z2);
        m->sum_clipped += SUM(t.clipped);
        m->sum_signed += SUM(t.sign);
        m->sum_signed2 += SUM(t.clipped);
        m->z_max = larger(sqrt(MOST(t.z2_max)), m->z_max);
    }
    return true;
}
