/* SPDX-License-Identifier: MIT
 *
 * For models of objects with a queue of waiters: simulated threads poll futures. Each thread
 * parks on a token and has two wakers for it: one that may be woken under the lock, like a
 * task's, and one that must be cloned. Include this after support/model.h and before the code
 * under test. */
#ifndef AWAKE_TEST_MODEL_WAITING_H
#define AWAKE_TEST_MODEL_WAITING_H

#include <sched.h>
#define sched_yield() model_yield()

#define aw__lock_slow aw__lock_slow_modelled /* next to the library's */
#include "os/lock.c"

#include <awake/future.h>

static uint32_t tokens[MODEL_THREADS];

static void token_wake(void *word) {
    model_unpark((uint32_t *)word);
}
static void token_drop(void *word) {
    (void)word;
}
static aw_waker token_clone(void *word);
static const aw_waker_type cloned_type = {
    sizeof(aw_waker_type), "cloned", 0, token_clone, token_wake, token_wake, token_drop, NULL};
static const aw_waker_type task_type = {sizeof(aw_waker_type),
                                        "task",
                                        AW_WAKES_UNDER_LOCK,
                                        NULL,
                                        token_wake,
                                        token_wake,
                                        token_drop,
                                        NULL};
static aw_waker token_clone(void *word) {
    return (aw_waker){&cloned_type, word};
}

/* The first thread uses the waker that must be cloned. */
static aw_waker thread_waker(void) {
    int i = model_self();
    return (aw_waker){i == 0 ? &cloned_type : &task_type, &tokens[i < 0 ? 0 : i]};
}

__attribute__((unused)) static aw_poll poll_once(aw_future *f) {
    aw_waker waker = thread_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(f, &cx);
}
__attribute__((unused)) static aw_poll cancel_once(aw_future *f) {
    aw_waker waker = thread_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_cancel(f, &cx);
}
/* The first thread also polls once without having been woken. */
__attribute__((unused)) static void wait_for(aw_future *f) {
    if (model_self() == 0 && poll_once(f) == AW_READY) return;
    while (poll_once(f) == AW_PENDING)
        model_park(&tokens[model_self()]);
}

static void setup_waiting(void) {
    memset(tokens, 0, sizeof tokens);
}

#endif
