/* SPDX-License-Identifier: MIT
 *
 * The memory of an idle task: a million that wait for a notification, in an async function. Of its
 * bytes the task's own header comes first, then the frame: the function's part and that of the wait. */
#include "bench.h"
#include "memory.h"

enum { TASKS = 1000000 };

static aw_notify open = AW_NOTIFY_INIT;

AW_ASYNC(int, visitor, aw_notified wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, aw_notify_wait(&open));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, crowd, aw_yield behind;) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        aw_task_drop(aw_spawn(AW_CALL(visitor)));
    AW_AWAIT(self->behind, aw_yield_now()); /* all of them wait now */
    memory_report();
    aw_notify_waiters(&open);
    AW_RETURN(0);
    AW_END;
}

/* Ten awaits after each other: with a member for each, and with one room for all. */
struct apart {
    AW_FRAME(int);
    aw_sleep naps[10];
};
struct shared {
    AW_FRAME(int);
    AW_SHARE(aw_sleep a; aw_sleep b; aw_sleep c; aw_sleep d; aw_sleep e; aw_sleep f; aw_sleep g;
             aw_sleep h; aw_sleep i; aw_sleep j;);
};

int main(void) {
    bench_report("ten-apart", sizeof(struct apart), "bytes");
    bench_report("ten-shared", sizeof(struct shared), "bytes");
    bench_report("bytes-alone", AW_TASK_OVERHEAD + sizeof(struct visitor), "bytes");
    bench_report("frame", sizeof(struct visitor), "bytes");
    bench_report("frame-of-the-wait", sizeof(aw_notified), "bytes");
    memory_begin(TASKS);
    bench_check(aw_run(AW_CALL(crowd)) == 0, "all wait");
}
