/* SPDX-License-Identifier: MIT
 *
 * A sleep written by hand, first attempt: it reads the clock and ignores its waker.
 *
 * Before a poll returns AW_PENDING, it must arrange for the waker in its context to be woken later.
 * Without a wake the future is not polled again. A job can leave this to the future that it awaits.
 * This delay awaits nothing: it is a leaf future.
 *
 * Notice the report. In other runtimes such a program hangs. Here the runtime detects that nothing
 * keeps the waker, and prints the await chain with file and line. aw_run returns -EDEADLK. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

struct delay {
    aw_future future;
    int out;
    uint64_t until;
};

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    (void)cx; /* the bug: the waker in the context is not used */
    return aw_now(NULL) >= ((struct delay *)self)->until ? AW_READY : AW_PENDING;
}

/* No `cancel`: there is nothing to undo. */
static const aw_future_type delay_type = {AW_TYPE_OF(struct delay, "delay"), .poll = delay_poll};

static struct delay delay_for(uint64_t duration) {
    return (struct delay){.future = AW_FUTURE_INIT(&delay_type), .until = aw_now(NULL) + duration};
}

AW_ASYNC(void, job, int n; struct delay nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, delay_for(AW_MSEC(100)));
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct job jobs[2] = {AW_CALL(job, .n = 1), AW_CALL(job, .n = 2)};
    int error = aw_run(aw_join_all(jobs, 2));
    printf("aw_run: %s\n", strerror(-error));
    return 0;
}
