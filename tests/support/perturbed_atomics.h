/* SPDX-License-Identifier: MIT
 *
 * Atomics that pause at random, briefly or long, in place of base/atomic.h. For code that is
 * compiled into the test after this header. Other threads can then run between any two steps of
 * that code, even if only a few instructions lie between them. */
#ifndef AWAKE_TEST_PERTURBED_ATOMICS_H
#define AWAKE_TEST_PERTURBED_ATOMICS_H

#define AW_BASE_ATOMIC_H /* replaces base/atomic.h */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "test.h"

__attribute__((noinline)) static void between(void) {
    static uint64_t seeds;
    static _Thread_local uint64_t random;
    if (!random)
        random = 88172645463325252u ^ test_seed() * __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED);
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    if (random % 512 == 0)
        nanosleep(&(struct timespec){0, (long)(random >> 32) % 100000}, NULL);
    else if (random % 32 == 0)
        sched_yield();
    else if (random % 4 == 0)
        for (volatile int i = (int)(random >> 16 & 63); i > 0; i--)
            ;
}

#define aw__load_relaxed(p)               (between(), __atomic_load_n((p), __ATOMIC_RELAXED))
#define aw__load_acquire(p)               (between(), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define aw__store_relaxed(p, v)           (between(), __atomic_store_n((p), (v), __ATOMIC_RELAXED))
#define aw__store_release(p, v)           (between(), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define aw__exchange(p, v)                (between(), __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL))
#define aw__fetch_add(p, v)               (between(), __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL))
#define aw__fetch_sub(p, v)               (between(), __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL))
#define aw__fetch_or(p, v)                (between(), __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL))
#define aw__fetch_and(p, v)               (between(), __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL))
#define aw__fetch_add_relaxed(p, v)       (between(), __atomic_fetch_add((p), (v), __ATOMIC_RELAXED))
#define aw__load_seq(p)                   (between(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define aw__store_seq(p, v)               (between(), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define aw__fetch_add_seq(p, v)           (between(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define aw__cas_seq(p, expected, desired) aw__cas(p, expected, desired)
#define aw__cas(p, expected, desired)                                                              \
    __extension__({                                                                                \
        between();                                                                                 \
        bool done_ = __atomic_compare_exchange_n((p), (expected), (desired), false,                \
                                                 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);              \
        between(); /* plain code may follow */                                                     \
        done_;                                                                                     \
    })

static inline void aw__spin_hint(void) {}

/* Public macros declare a local with the name of a type that is visible here. */
#pragma GCC diagnostic ignored "-Wshadow"

#endif
