/* SPDX-License-Identifier: MIT
 *
 * A chain of tasks: each spawns the next and ends, a million times. */
#include "bench.h"

enum { LINKS = 1000000 };

static aw_notify end = AW_NOTIFY_INIT;

AW_ASYNC(int, link, int left;) {
    AW_BEGIN;
    if (self->left)
        aw_task_detach(aw_spawn(AW_CALL(link, .left = self->left - 1)));
    else
        aw_notify_one(&end);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, chain, aw_notified wait;) {
    AW_BEGIN;
    aw_task_detach(aw_spawn(AW_CALL(link, .left = LINKS)));
    AW_AWAIT(self->wait, aw_notify_wait(&end));
    AW_RETURN(0);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(chain)) == 0, "the last one is reached");
    bench_report_each("link", start, LINKS);
}
