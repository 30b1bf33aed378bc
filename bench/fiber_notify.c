/* SPDX-License-Identifier: MIT
 *
 * Two tasks that exchange notifications, as fibers and as async functions. A round is there and
 * back. On two workers each fiber has its own worker, and every notification wakes a sleeping
 * thread: fewer rounds. */
#include "versus.h"

enum { ROUNDS = 200000, ROUNDS_APART = 5000 };

static int fiber_rounds = ROUNDS;

static aw_notify ping, pong;

AW_FIBER(int, echo_fiber) {
    int n = 0;
    for (; n < fiber_rounds; n++) {
        aw_await(aw_notify_wait(&ping));
        aw_notify_one(&pong);
    }
    return n;
}

AW_FIBER(int, call_fiber) {
    struct echo_fiber *echo = aw_spawn(AW_CALL(echo_fiber));
    for (int n = 0; n < fiber_rounds; n++) {
        aw_notify_one(&ping);
        aw_await(aw_notify_wait(&pong));
    }
    aw_await(aw_task_join(echo));
    return aw_task_take(echo);
}

AW_ASYNC(int, echo_async, int n; aw_notified wait;) {
    AW_BEGIN;
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        AW_AWAIT(self->wait, aw_notify_wait(&ping));
        aw_notify_one(&pong);
    }
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(int, call_async, int n; struct echo_async * echo; aw_notified wait;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->echo = aw_spawn(AW_CALL(echo_async));
    for (self->n = 0; self->n < ROUNDS; self->n++) {
        aw_notify_one(&ping);
        AW_AWAIT(self->wait, aw_notify_wait(&pong));
    }
    AW_AWAIT(self->join, aw_task_join(self->echo));
    AW_RETURN(aw_task_take(self->echo));
    AW_END;
}

static void fibers(void) {
    bench_check(bench_run(AW_CALL(call_fiber)) == fiber_rounds, "every notification is answered");
}
static void functions(void) {
    bench_check(bench_run(AW_CALL(call_async)) == ROUNDS, "every notification is answered");
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    if (bench_workers > 1) fiber_rounds = ROUNDS_APART;
    versus ways[] = {{"round", fibers, fiber_rounds, {0}}, {"round-async", functions, ROUNDS, {0}}};
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
