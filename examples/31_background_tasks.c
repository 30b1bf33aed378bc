/* SPDX-License-Identifier: MIT
 *
 * Background tasks: nobody waits for them, and they do not keep the program alive.
 *
 * To give back the handle of a task at once is to detach it: it goes on by itself. When the main future
 * has ended, the tasks that are left are cancelled where they wait, and the runtime stays until they are
 * gone. So what a task has to put away is put away: AW_FINALLY runs on every way out.
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
