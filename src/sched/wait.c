/* SPDX-License-Identifier: MIT
 *
 * aw_wait: a plain thread waits for a future, without a runtime. It polls, and parks until it is
 * woken. */
#include <awake/wait.h>

#include <errno.h>

#include "future/unstarted.h"
#include "os/park.h"
#include "sched/block_on.h"
#include "task/hold.h"

static aw_poll wait_run(aw_future *f, aw__hold_parker *parker, uint64_t deadline) {
    aw_waker waker = aw__hold_parker_waker(parker);
    aw_cx cx = {&waker, aw_runtime_current(), NULL};
    aw_poll r;
    while ((r = aw_future_poll(f, &cx)) == AW_PENDING) {
        /* A future that is woken again and again must not outlast the deadline. */
        if (deadline != AW_FOREVER && aw__os_now() >= deadline) break;
        if (!aw__hold_park(parker, deadline)) break;
    }
    if (r == AW_PENDING) r = aw__poll_last(f, &cx);
    if (r != AW_PENDING) return r;
    while ((r = aw_future_cancel(f, &cx)) == AW_PENDING)
        aw__hold_park(parker, AW_FOREVER);
    return r;
}

int aw_wait_future(aw_future *f, uint64_t duration) {
    const aw_runtime *rt = aw_runtime_current();
    if (aw__in_poll() || (rt && aw__blocks_own_runtime(rt))) return aw__refuse(f, "a wait");
    aw__hold_parker *parker = aw__hold_parker_new(rt);
    if (!parker) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    uint64_t now = duration == AW_FOREVER ? 0 : aw__os_now();
    const aw_future *outer = aw__context.waits;
    aw__context.waits = f;
    aw_poll r = wait_run(f, parker, duration > AW_FOREVER - now ? AW_FOREVER : now + duration);
    aw__context.waits = outer;
    aw__hold_parker_free(parker);
    return r == AW_READY ? 0 : -ETIMEDOUT;
}
