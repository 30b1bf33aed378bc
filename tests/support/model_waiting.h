/* SPDX-License-Identifier: MIT
 *
 * For models of what has a queue of waiters: futures that are polled by simulated threads. Each thread has a token to
 * park on and two wakers of it: one that is woken under the lock, as a task's, and one that is cloned. After support/model.h
 * and before the code under test. */
#ifndef AWAKE_TEST_MODEL_WAITING_H
#define AWAKE_TEST_MODEL_WAITING_H

#include <sched.h>
#define sched_yield() model_yield()

#define aw__lock_slow aw__lock_slow_modelled /* beside the library's */
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

/* The first thread has the waker that is cloned. */
static aw_waker own_waker(void) {
    int i = model_self();
    return (aw_waker){i == 0 ? &cloned_type : &task_type, &tokens[i < 0 ? 0 : i]};
}

__attribute__((unused)) static aw_poll poll_once(aw_future *f) {
    aw_waker waker = own_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_poll(f, &cx);
}
__attribute__((unused)) static aw_poll cancel_once(aw_future *f) {
    aw_waker waker = own_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    return aw_future_cancel(f, &cx);
}
/* The first thread also polls once without a reason to. */
__attribute__((unused)) static void wait_for(aw_future *f) {
    if (model_self() == 0 && poll_once(f) == AW_READY) return;
    while (poll_once(f) == AW_PENDING)
        model_park(&tokens[model_self()]);
}

static void setup_waiting(void) {
    memset(tokens, 0, sizeof tokens);
}

#endif
