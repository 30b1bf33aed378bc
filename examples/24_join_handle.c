/* SPDX-License-Identifier: MIT
 *
 * Waiting for a task: a join handle made by hand, and the bug that comes with it.
 *
 * joins.h has the handle, which is a future with four states, and a main future that spawns ten jobs and
 * joins them. The program is over when the main future is.
 *
 * Notice the end: every job has ended, yet the program never gets its sum. Up to now only naps made
 * anyone wait, and of those the loop knows when they are over. But the main future waits for tasks. The
 * loop polled it first, when they had not ended; then it polled them, and the last one woke the main
 * future as it should: with a waker that does nothing. Nobody tells the loop to poll once more. */
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
            printf("nothing to wait for, but the main future is pending: sleep for ever?\n");
            aw_future_cancel(&start.future, &cx);
            return 1;
        }
    }
    printf("the sum is %d\n", start.out);
    return 0;
}
