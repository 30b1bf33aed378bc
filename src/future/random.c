/* SPDX-License-Identifier: MIT
 *
 * Random choices (aw_cx_random). The state is in the meter of the poll; a poll without a meter uses
 * that of its thread. */
#include <awake/future.h>

#include "base/atomic.h"
#include "base/random.h"

/* xorshift64*: good enough for fair choices, and reproducible from its seed. */
static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state ? *state : 0x9e3779b97f4a7c15u;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}

/* For polls without a meter: each thread has its own sequence. */
static uint64_t *thread_random(void) {
    static uint64_t threads; /* atomic: how many have a sequence */
    static _Thread_local uint64_t state;
    if (!state) state = aw__random_seed(0, aw__fetch_add_relaxed(&threads, (uint64_t)1));
    return &state;
}

uint64_t aw_cx_random(aw_cx *cx) {
    return next_random(cx->meter ? &cx->meter->random : thread_random()) >> 16;
}
