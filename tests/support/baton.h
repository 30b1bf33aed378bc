/* SPDX-License-Identifier: MIT
 *
 * Two threads in step: a number that one sets and the other waits for. Who waits is busy for a moment,
 * because that is when the races are, and then sleeps, so that a loaded machine is no slower. */
#ifndef AWAKE_TEST_BATON_H
#define AWAKE_TEST_BATON_H

#include <awake/waker.h>

#include "test.h"

struct baton {
    unsigned value; /* atomic */
    aw_parker *parker;
};

static inline void baton_init(struct baton *b) {
    b->value = 0;
    b->parker = aw_parker_new();
    CHECK(b->parker != NULL);
}

static inline void baton_free(struct baton *b) {
    aw_parker_free(b->parker);
}

static inline void baton_set(struct baton *b, unsigned value) {
    __atomic_store_n(&b->value, value, __ATOMIC_RELEASE);
    aw_parker_unpark(b->parker);
}

/* Until it has at least that value. */
static inline void baton_wait(struct baton *b, unsigned value) {
    for (int n = 0; __atomic_load_n(&b->value, __ATOMIC_ACQUIRE) < value; n++)
        if (n > 2000) aw_parker_park(b->parker);
}

#endif
