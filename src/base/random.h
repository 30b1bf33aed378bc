/* SPDX-License-Identifier: MIT
 *
 * Derives seeds for independent generators (aw_cx_random) from one seed. */
#ifndef AW_BASE_RANDOM_H
#define AW_BASE_RANDOM_H

#include <stdint.h>

/* The n-th number of splitmix64: neighbouring seeds are uncorrelated. */
static inline uint64_t aw__random_seed(uint64_t seed, uint64_t n) {
    uint64_t x = seed + (n + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
