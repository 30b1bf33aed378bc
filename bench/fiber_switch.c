/* SPDX-License-Identifier: MIT
 *
 * What fibers are made of: a switch from one stack to another and nothing else; and a fiber that is made,
 * run and over at once, without a scheduler. */
#include "versus.h"

#include "../src/fiber/switch.h"

enum { SWITCHES = 10000000, FIBERS = 1000000 };

static aw__context here, there;
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

/* Each takes the stack that the one before has left. */
static void lives(void) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    long sum = 0;
    for (int i = 0; i < FIBERS; i++) {
        struct nothing f = AW_CALL(nothing, .n = i);
        bench_check(aw_future_poll(&f.future, &cx) == AW_READY, "it is over at once");
        sum += f.out;
    }
    bench_check(sum == (long)FIBERS * (FIBERS - 1) / 2, "every fiber runs");
}

AW_FIBER(int, resumed) {
    for (int i = 0; i < SWITCHES; i++)
        aw_fiber_yield();
    return 0;
}

/* To a fiber and back, with what a poll and a yield have to do besides. */
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
    aw__context_init(&there, stack, stack + sizeof stack, back_and_forth, NULL);
    versus ways[] = {
        {"switch", switches, SWITCHES, {0}},
        {"life", lives, FIBERS, {0}},
        {"poll", resumes, SWITCHES, {0}},
    };
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
