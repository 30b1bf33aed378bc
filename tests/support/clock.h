/* SPDX-License-Identifier: MIT
 *
 * Virtual time: a runtime with a paused clock, and a function that runs it up to a point in
 * time. */
#ifndef AWAKE_TEST_CLOCK_H
#define AWAKE_TEST_CLOCK_H

#include <awake.h>

#include "support/settle.h"
#include "test.h"

static inline aw_runtime *paused_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.keep_tasks = true;
    options.paused = true;
    options.seed = 1;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

/* Ends after all timers that are due by then have fired, and their tasks have run. */
AW_ASYNC(int, aw_test_until, uint64_t when; aw_sleep sleep; struct rounds others;) {
    AW_BEGIN;
    AW_AWAIT(self->sleep, aw_sleep_until(self->when));
    AW_AWAIT(self->others, rounds(1));
    AW_RETURN(self->sleep.out);
    AW_END;
}

static inline void run_until(aw_runtime *rt, uint64_t when) {
    CHECK_EQ(aw_block_on(rt, AW_CALL(aw_test_until, .when = when)), 0);
}

#endif
