/* SPDX-License-Identifier: MIT
 *
 * Background tasks: they are not joined, and do not keep the program alive.
 *
 * Dropping the handle of a task detaches it: the task continues. When the main future has ended,
 * the remaining tasks are cancelled where they wait, and the runtime waits until they have ended.
 * So a task can always clean up: AW_FINALLY runs on every way out.
 *
 * Notice the order of the last three lines. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(void, heartbeat, aw_sleep nap;) {
    AW_BEGIN;
    for (;;) {
        printf("background: alive\n");
        AW_AWAIT(self->nap, aw_sleep_for(AW_SEC(3600)));
    }
    AW_FINALLY;
    printf("background: cleaned up\n");
    AW_END;
}

AW_ASYNC(int, start, aw_sleep nap;) {
    AW_BEGIN;
    aw_task_drop(aw_spawn(AW_CALL(heartbeat)));
    printf("main: working\n");
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    printf("main: done\n");
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    int error = aw_run(AW_CALL(start));
    printf("the runtime has ended\n");
    return error;
}
