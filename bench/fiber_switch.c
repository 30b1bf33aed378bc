/* SPDX-License-Identifier: MIT
 *
 * The parts of a fiber: a bare switch between two stacks; and a fiber that is created, run and
 * ended in one poll, without a scheduler. */
#include "versus.h"

#include "../src/fiber/switch.h"

enum { SWITCHES = 10000000, FIBERS = 1000000 };

static aw__cpu_context here, there;
static char stack[65536] __attribute__((aligned(16)));

static void back_and_forth(void *arg) {
    (void)arg;
    for (;;)
        aw__switch(&there, &here, 0);
}

static void switches(void) {
    for (int i = 0; i < SWITCHES / 2; i++)
        aw__switch(&here, &there, 0);
}

AW_FIBER(int, nothing, int n;) {
    return self->n;
}

/* Each fiber reuses the stack of the one before. */
static void lives(void) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    long sum = 0;
    for (int i = 0; i < FIBERS; i++) {
        struct nothing f = AW_CALL(nothing, .n = i);
        bench_check(aw_future_poll(&f.future, &cx) == AW_READY, "it ends in one poll");
        sum += f.out;
    }
    bench_check(sum == (long)FIBERS * (FIBERS - 1) / 2, "every fiber runs");
}

AW_FIBER(int, resumed) {
    for (int i = 0; i < SWITCHES; i++)
        aw_fiber_yield();
    return 0;
}

/* To a fiber and back, with the work of a poll and a yield. */
static void resumes(void) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    struct resumed f = AW_CALL(resumed);
    int polls = 0;
    while (aw_future_poll(&f.future, &cx) == AW_PENDING)
        polls++;
    bench_check(polls == SWITCHES, "every yield returns");
}

int main(void) {
    aw__cpu_context_init(&there, stack, stack + sizeof stack, back_and_forth, NULL);
    versus ways[] = {
        {"switch", switches, SWITCHES, {0}},
        {"life", lives, FIBERS, {0}},
        {"poll", resumes, SWITCHES, {0}},
    };
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
