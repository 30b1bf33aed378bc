/* SPDX-License-Identifier: MIT
 *
 * A future that counts its polls, for tests of the budget. */
#ifndef AWAKE_TEST_POLL_COUNTER_H
#define AWAKE_TEST_POLL_COUNTER_H

#include "support/tasks.h"

/* Polls `inner` and counts. */
struct counter {
    aw_future future;
    int out;
    aw_future *inner;
    int *polls;
};

static aw_poll counter_poll(aw_future *self, aw_cx *cx) {
    struct counter *c = (struct counter *)self;
    ++*c->polls;
    return aw_future_poll(c->inner, cx);
}

static aw_poll counter_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_cancel(((struct counter *)self)->inner, cx);
}

static const aw_future_type counter_type = {
    AW_TYPE_OF(struct counter, "counter"),
    .poll = counter_poll,
    .cancel = counter_cancel,
};

/* How often an async function is polled that awaits `operations` ready operations in a loop: it
 * yields after each `budget` of them, if more follow. */
__attribute__((unused)) static int expected_polls(int operations, int budget) {
    return (operations - 1) / budget + 1;
}

#endif
