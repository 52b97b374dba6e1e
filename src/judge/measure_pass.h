/* measure_pass.h -- the loop of measure_block.c for one width of vectors. Included by that file alone, once a width: WIDTH (4 or 8 doubles), and STEP
 * and PASS, the names of the two functions.
 *
 * "Larger than" is the sign bit of a difference: exact for finite numbers; those that are not finite are found by their exponent. A difference
 * that is a NaN (of an infinite room) may have a sign as well: that only makes a block looked at again.
 */

/* Elements [i, i + WIDTH): sums to s, the rest to t. */
static inline __attribute__((always_inline)) void STEP(const block_t *k, int i, bool own_plane, bool variance, VECTOR(sums) * s,
                                                       VECTOR(marks) * t) {
    typedef VECTOR(vec) vec_t;
    typedef VECTOR(mask) mask_t;
    const vec_t y = AT(k->y, i), b = AT(k->bound, i), d = AT(k->x, i) - y, e = SIZE_OF(d), ay = SIZE_OF(y);
    const vec_t own = own_plane ? AT(k->own, i) : k->own_abs + k->own_rel * ay, room = b + own;
    const mask_t differ = MASK_AT(k->differ, i);
    const vec_t off = (vec_t)((mask_t)e & differ);
    t->unequal += differ;
    s->y2 += y * y;
    t->odd |= ODD(e); /* e is not finite */
    t->open |= ODD(room) | (mask_t)room;
    t->outside |= (mask_t)(room - off);
    t->over |= OVER(k->error, k->ratio, k->weak);
    t->max_abs = LARGER(e, t->max_abs);
    if (!variance) return;
    const vec_t v = AT(k->var, i), none = (vec_t){0};
    const mask_t has = v > none;
    const vec_t q = d * d / PICK(has, v, none + INFINITY);
    t->sigmas += has;
    s->z2 += q;
    t->z2_max = LARGER(q, t->z2_max);
    VECTOR(half) coarse = __builtin_convertvector(q, VECTOR(half)); /* a root of f32 is enough for a mean of signs */
    for (int l = 0; l < WIDTH; ++l) coarse[l] = sqrtf(coarse[l]);
    const vec_t size = __builtin_convertvector(coarse, vec_t);
    s->sign += (vec_t)((mask_t)size ^ (((mask_t)d ^ (mask_t)y) & INT64_MIN)); /* the other sign where y is negative */
}

static inline __attribute__((always_inline)) void PASS(const block_t *k, bool own_plane, bool variance, totals_t *out) {
    VECTOR(sums) a = {0};
    VECTOR(marks) t = {0};
#if WIDTH == 4
    VECTOR(sums) b = {0};
#endif
    for (int i = 0; i < VN_BLOCK; i += 8) {
        AHEAD(k->y, i);
        AHEAD(k->bound, i);
        if (variance) AHEAD(k->var, i);
        STEP(k, i, own_plane, variance, &a, &t);
#if WIDTH == 4
        STEP(k, i + 4, own_plane, variance, &b, &t);
#endif
    }
    *out = (totals_t){0};
    for (int l = 0; l < WIDTH; ++l) {
        out->unequal -= t.unequal[l];
        out->sigmas -= t.sigmas[l];
        out->outside |= t.outside[l];
        out->over |= t.over[l];
        out->odd |= t.odd[l];
        out->open |= t.open[l];
        out->max_abs = t.max_abs[l] > out->max_abs ? t.max_abs[l] : out->max_abs;
        out->z2_max = t.z2_max[l] > out->z2_max ? t.z2_max[l] : out->z2_max;
    }
#if WIDTH == 4
    out->y2 = SUM8(a.y2, b.y2);
    out->z2 = SUM8(a.z2, b.z2);
    out->sign = SUM8(a.sign, b.sign);
#else
    const double *y2 = (const double *)&a.y2, *z2 = (const double *)&a.z2, *sign = (const double *)&a.sign;
    out->y2 = SUM8(y2, (y2 + 4));
    out->z2 = SUM8(z2, (z2 + 4));
    out->sign = SUM8(sign, (sign + 4));
#endif
}
