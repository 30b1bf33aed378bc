/* SPDX-License-Identifier: MIT
 *
 * What carries over from one block_on to the next: waits that go on, and counts that stay right. */
#include <awake.h>

#include <errno.h>
#include <pthread.h>

#include "test.h"

static aw_notify bell;
static aw_notified wait_for_bell;

static aw_poll poll_once(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    *out = aw_future_poll(&wait_for_bell.future, cx);
    return AW_READY;
}

static void *ring(void *arg) {
    aw_runtime *rt = arg;
    /* Held until here, because the other thread waits for this one in block_on. */
    aw_runtime_unhold(rt);
    aw_notify_one(&bell);
    return NULL;
}

/* The main future's waker is the same in each block_on, so the wait is not armed again. */
TEST(a_wait_that_was_begun_in_one_block_on_can_be_ended_in_the_next) {
    ON_THIS_THREAD("with workers the waker of a main future ends with its block_on");
    aw_runtime *rt;
    pthread_t thread;
    CHECK_EQ(aw_runtime_new(&rt, NULL), 0);
    wait_for_bell = aw_notify_wait(&bell);
    CHECK_EQ(aw_block_on(rt, aw_poll_fn_of(poll_once, NULL)), AW_PENDING);
    aw_runtime_hold(rt);
    CHECK_EQ(pthread_create(&thread, NULL, ring, rt), 0);
    CHECK_EQ(aw_block_on_future(rt, &wait_for_bell.future), 0);
    pthread_join(thread, NULL);
    aw_runtime_free(rt);
}

AW_ASYNC(int, fails) {
    AW_BEGIN;
    AW_FAIL(-EPERM);
    AW_END;
}

AW_ASYNC(int, fails_twice, struct fails again;) {
    AW_BEGIN;
    AW_FAIL(-EIO);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->again, AW_CALL(fails));
    AW_END;
}

static void run_fails_twice(void) {
    (void)aw_run(AW_CALL(fails_twice));
}

TEST(a_failure_in_the_cleanup_of_a_failed_task_is_caught) {
    DIES(run_fails_twice(), "AW_FAIL in async function 'fails'");
}
