/* SPDX-License-Identifier: MIT
 *
 * Latency histogram with 32 steps per power of two. A quantile is accurate to about three percent,
 * and adding a value costs a few instructions. Each thread has its own; they are merged at the
 * end. */
#ifndef AWAKE_BENCH_HISTOGRAM_H
#define AWAKE_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEPS = 32, HISTOGRAM_SIZE = 40 * HISTOGRAM_STEPS };

typedef struct histogram {
    uint64_t count[HISTOGRAM_SIZE];
    uint64_t all;
} histogram;

/* The first 32 values have a bucket each. Larger values share one by their upper six bits. */
static inline uint32_t histogram_place(uint64_t value) {
    if (value < HISTOGRAM_STEPS) return (uint32_t)value;
    uint32_t shift = 58 - (uint32_t)__builtin_clzll(value);
    uint32_t place = shift * HISTOGRAM_STEPS + (uint32_t)(value >> shift);
    return place < HISTOGRAM_SIZE ? place : HISTOGRAM_SIZE - 1;
}

/* The middle of a bucket. */
static inline double histogram_value(uint32_t place) {
    if (place < 2 * HISTOGRAM_STEPS) return place;
    uint32_t shift = place / HISTOGRAM_STEPS - 1;
    return ((double)(place - shift * HISTOGRAM_STEPS) + 0.5) * (double)(1ull << shift);
}

static inline void histogram_add(histogram *h, uint64_t value) {
    h->count[histogram_place(value)]++;
    h->all++;
}

static inline void histogram_merge(histogram *to, const histogram *from) {
    for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++)
        to->count[i] += from->count[i];
    to->all += from->all;
}

static inline double histogram_quantile(const histogram *h, double part) {
    uint64_t left = (uint64_t)(part * (double)h->all);
    for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++) {
        if (h->count[i] > left) return histogram_value(i);
        left -= h->count[i];
    }
    return 0;
}

#endif
