/* rng.c -- xoshiro256++ (Blackman, Vigna 2018), seeded by splitmix64; normal numbers by Marsaglia's polar method. */
#include "vernier/base.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

void vn_rng_seed(vn_rng_t *rng, uint64_t seed) {
    for (int i = 0; i < 4; ++i) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->s[i] = z ^ (z >> 31);
    }
    rng->has_spare = false;
    rng->spare = 0;
}

uint64_t vn_rng_u64(vn_rng_t *rng) {
    uint64_t *s = rng->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t vn_rng_below(vn_rng_t *rng, uint64_t n) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x; /* the largest multiple of n: values beyond it would favour small results */
    do x = vn_rng_u64(rng);
    while (x >= limit);
    return x % n;
}

double vn_rng_uniform(vn_rng_t *rng) { return (double)(vn_rng_u64(rng) >> 11) * 0x1p-53; }

double vn_rng_normal(vn_rng_t *rng) {
    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare;
    }
    double x, y, r;
    do {
        x = 2 * vn_rng_uniform(rng) - 1;
        y = 2 * vn_rng_uniform(rng) - 1;
        r = x * x + y * y;
    } while (r >= 1 || r == 0);
    double f = sqrt(-2 * log(r) / r);
    rng->spare = y * f;
    rng->has_spare = true;
    return x * f;
}
