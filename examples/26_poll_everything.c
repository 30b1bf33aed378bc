/* SPDX-License-Identifier: MIT
 *
 * The smallest executor: a queue of tasks. It takes the first, polls it, and puts it back if it is
 * pending.
 *
 * It runs any future in ten lines, and it is fair. But it ignores wakers, so it cannot know which
 * tasks can make progress. It polls all of them in turn until they end.
 *
 * Notice the number of polls: the program computes nothing, and keeps a processor busy. */
#include <awake.h>
#include <stdio.h>

/* ---- The executor ---------------------------------------------------------------------------- */

enum { CAPACITY = 16 };

static aw_box queue[CAPACITY]; /* a ring buffer */
static unsigned head, tail;

static void spawn(aw_box task) {
    queue[tail++ % CAPACITY] = task;
}

static long run(void) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    long polls = 0;
    for (; head != tail; polls++) {
        aw_box task = queue[head++ % CAPACITY];
        if (aw_future_poll(&task.future, &cx) == AW_PENDING)
            spawn(task);
        else
            aw_box_free(&task);
    }
    return polls;
}

/* ---- The tasks ------------------------------------------------------------------------------- */

struct delay {
    aw_future future;
    int out;
    uint64_t end;
};

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    if (aw_now(NULL) >= ((struct delay *)self)->end) return AW_READY;
    aw_waker_wake_by_ref(aw_cx_waker(cx)); /* requests another poll at once */
    return AW_PENDING;
}

static const aw_future_type delay_type = {AW_TYPE_OF(struct delay, "delay"), .poll = delay_poll};

AW_ASYNC(void, job, int n; struct delay delay;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    self->delay = (struct delay){AW_FUTURE_INIT(&delay_type), 0, aw_now(NULL) + AW_MSEC(100)};
    AW_AWAIT_FUTURE(self->delay);
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    for (int n = 1; n <= 10; n++)
        spawn(aw_box_new(AW_CALL(job, .n = n)));
    printf("%ld polls\n", run());
    return 0;
}
