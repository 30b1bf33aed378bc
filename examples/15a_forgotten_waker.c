/* SPDX-License-Identifier: MIT
 *
 * A sleep of one's own, first attempt: it looks at the clock, and forgets its waker.
 *
 * Poll has a third duty besides working and answering: before it answers AW_PENDING it must see to
 * it that the waker in its context is woken later. Until then nobody calls again. A job can leave
 * this to the future that it awaits; this one awaits nothing, it is a leaf.
 *
 * Notice the report. Elsewhere such a program hangs; here the runtime sees that nobody has the
 * waker, says who waits for what and in which line, and aw_run returns -EDEADLK. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

struct delay {
    aw_future future;
    int out;
    uint64_t until;
};

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    (void)cx; /* the mistake: the waker is in there */
    return aw_now(NULL) >= ((struct delay *)self)->until ? AW_READY : AW_PENDING;
}

/* Without `cancel`: nothing has to be undone when it is given up. */
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
