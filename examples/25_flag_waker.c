/* SPDX-License-Identifier: MIT
 *
 * The join handle of 24, in a loop that uses its waker.
 *
 * This waker sets a flag. When the flag is set, at least one future can make progress, so the loop
 * polls again instead of sleeping. It does not know which future was woken, and polls all of them.
 * Polling too often is harmless.
 *
 * Notice how little has changed since 24: three lines. The handle was correct. */
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
            printf("deadlock: the main future is pending, and no nap is left\n");
            aw_future_cancel(&start.future, &cx);
            return 1;
        }
    }
    printf("the sum is %d\n", start.out);
    return 0;
}
