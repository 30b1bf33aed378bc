/* SPDX-License-Identifier: MIT
 *
 * The join handle again, in a loop that listens to its wakers.
 *
 * This waker raises a flag. When the flag is up, somebody has become able to go on since he was last
 * polled, so the loop goes round once more instead of sleeping. It does not know who it was, and polls
 * everybody; polling too often is harmless.
 *
 * Notice how little has changed since 24: three lines. The handle was right all the time. */
#include <awake.h>
#include <stdio.h>

#include "joins.h"

int main(void) {
    struct start start = AW_CALL(start);
    aw_flag flag = {0};
    aw_waker waker = aw_flag_waker(&flag);
    aw_cx cx = aw_cx_from_waker(&waker);

    while (aw_future_poll(&start.future, &cx) == AW_PENDING) {
        poll_tasks(&cx);
        if (aw_flag_take(&flag)) continue;
        if (!sleep_until_first_nap_ends()) {
            printf("nothing to wait for, but the main future is pending: sleep for ever?\n");
            aw_future_cancel(&start.future, &cx);
            return 1;
        }
    }
    printf("the sum is %d\n", start.out);
    return 0;
}
