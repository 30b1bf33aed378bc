/* SPDX-License-Identifier: MIT
 *
 * Two tasks that exchange a million notifications. A round is there and back. */
#include "bench.h"

enum { ROUNDS = 500000 };

static aw_notify ping = AW_NOTIFY_INIT, pong = AW_NOTIFY_INIT;

AW_ASYNC(int, echo, int n; aw_notified wait;) {
    AW_BEGIN;
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        AW_AWAIT(self->wait, aw_notify_wait(&ping));
        aw_notify_one(&pong);
    }
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(int, call, int n; struct echo * echo; aw_notified wait; aw_task_join_future join;) {
    AW_BEGIN;
    self->echo = aw_spawn(AW_CALL(echo));
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        aw_notify_one(&ping);
        AW_AWAIT(self->wait, aw_notify_wait(&pong));
    }
    AW_AWAIT(self->join, aw_task_join(self->echo));
    AW_RETURN(aw_task_take(self->echo));
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(call)) == ROUNDS, "every notification is answered");
    bench_report_each("round", start, ROUNDS);
}
