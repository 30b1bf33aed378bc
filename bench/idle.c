/* SPDX-License-Identifier: MIT
 *
 * Memory of an idle task: a million async functions that wait for a notification. A task consists
 * of its header and its frame; the frame includes that of the wait. */
#include "bench.h"
#include "memory.h"

enum { TASKS = 1000000 };

static aw_notify open = AW_NOTIFY_INIT;
static int arrived;

AW_ASYNC(int, visitor, aw_notified wait;) {
    AW_BEGIN;
    bench_add(arrived, 1);
    AW_AWAIT(self->wait, aw_notify_wait(&open));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, crowd) {
    AW_BEGIN;
    for (int i = 0; i < TASKS; i++)
        aw_task_drop(aw_spawn(AW_CALL(visitor)));
    do
        AW_YIELD;
    while (bench_load(arrived) < TASKS);
    memory_report();
    aw_notify_waiters(&open);
    AW_RETURN(0);
    AW_END;
}

/* Ten successive awaits: with a member each, and with shared storage. */
struct apart {
    AW_FRAME(int);
    aw_sleep naps[10];
};
struct shared {
    AW_FRAME(int);
    AW_SHARE(aw_sleep a; aw_sleep b; aw_sleep c; aw_sleep d; aw_sleep e; aw_sleep f; aw_sleep g;
             aw_sleep h; aw_sleep i; aw_sleep j;);
};

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    if (!bench_workers) { /* independent of the number of workers */
        bench_report("ten-apart", sizeof(struct apart), "bytes");
        bench_report("ten-shared", sizeof(struct shared), "bytes");
        bench_report("bytes-alone", AW_TASK_OVERHEAD + sizeof(struct visitor), "bytes");
        bench_report("frame", sizeof(struct visitor), "bytes");
        bench_report("frame-of-the-wait", sizeof(aw_notified), "bytes");
    }
    memory_begin(TASKS);
    bench_check(bench_run(AW_CALL(crowd)) == 0, "all wait");
}
