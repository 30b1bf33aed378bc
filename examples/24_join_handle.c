/* SPDX-License-Identifier: MIT
 *
 * Waiting for a task: a join handle written by hand, and a bug in the loop.
 *
 * joins.h has the handle, which is a future with four states, and a main future that spawns ten
 * jobs and joins them. The program ends with the main future.
 *
 * Notice the end: every job has ended, but the sum is never printed. Before, futures waited only
 * for naps, and the loop knows their deadlines. The main future waits for tasks. The loop polls it
 * while the tasks are still running. Then it polls the tasks, and the last one wakes the main
 * future, as it should: with a waker that does nothing. So the loop does not know that it must poll
 * again. */
#include <awake.h>
#include <stdio.h>

#include "joins.h"

int main(void) {
    struct start start = AW_CALL(start);
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);

    while (aw_future_poll(&start.future, &cx) == AW_PENDING) {
        poll_tasks(&cx);
        if (!sleep_until_first_nap_ends()) {
            printf("deadlock: the main future is pending, and no nap is left\n");
            aw_future_cancel(&start.future, &cx);
            return 1;
        }
    }
    printf("the sum is %d\n", start.out);
    return 0;
}
