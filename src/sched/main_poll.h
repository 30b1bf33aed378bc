/* SPDX-License-Identifier: MIT
 *
 * A main future that its own thread polls, while other threads run the tasks: block_on with
 * workers, and block_on of a current-thread runtime that another thread owns. */
#ifndef AW_SCHED_MAIN_POLL_H
#define AW_SCHED_MAIN_POLL_H

#include "task/runtime_state.h"

typedef struct aw__main_future {
    aw_future *future;
    aw__meter meter;
    int error;       /* why the future is being cancelled, or 0 */
    int32_t outside; /* waits that may end from outside the runtime, summed over its polls */
} aw__main_future;

/* With random numbers of its own. Any thread. */
static inline aw__main_future aw__main_future_of(aw_runtime *rt, aw_future *f) {
    return (aw__main_future){
        .future = f,
        .meter = {.random = aw__rt_next_seed(rt), .stack_size = rt->meter.stack_size},
    };
}

/* Polls the future once, or cancels it if there is an error. A failure (AW_FAIL) is such an error:
 * the cancel follows at once. `t` holds the counts of the future. */
aw_poll aw__main_poll(aw_runtime *rt, aw__main_future *m, aw__task *t, const aw_waker *waker);

#endif
