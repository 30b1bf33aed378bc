/* SPDX-License-Identifier: MIT
 *
 * Keeps two threads in lockstep: one thread sets a number, the other waits for it. The waiter
 * spins briefly, because races need both threads to run, and then parks, so that a loaded
 * machine is not slowed down. */
#ifndef AWAKE_TEST_LOCKSTEP_H
#define AWAKE_TEST_LOCKSTEP_H

#include <awake/waker.h>

#include "test.h"

struct lockstep {
    unsigned value; /* atomic */
    aw_parker *parker;
};

static inline void lockstep_init(struct lockstep *b) {
    b->value = 0;
    b->parker = aw_parker_new();
    CHECK(b->parker != NULL);
}

static inline void lockstep_free(struct lockstep *b) {
    aw_parker_free(b->parker);
}

static inline void lockstep_set(struct lockstep *b, unsigned value) {
    __atomic_store_n(&b->value, value, __ATOMIC_RELEASE);
    aw_parker_unpark(b->parker);
}

/* Waits until the number is at least `value`. */
static inline void lockstep_wait(struct lockstep *b, unsigned value) {
    for (int n = 0; __atomic_load_n(&b->value, __ATOMIC_ACQUIRE) < value; n++)
        if (n > 2000) aw_parker_park(b->parker);
}

#endif
