/* SPDX-License-Identifier: MIT
 *
 * A plain thread that waits for a future, without a runtime: it polls, and sleeps until it is woken. */
#include <awake/wait.h>

#include <errno.h>

#include "core/unstarted.h"
#include "os/park.h"
#include "runtime/runtime.h"

static aw_poll run(aw_future *f, aw_parker *parker, uint64_t deadline) {
    aw_waker waker = aw_parker_waker(parker);
    aw_cx cx = {&waker, aw_runtime_current(), NULL};
    aw_poll r;
    while ((r = aw_future_poll(f, &cx)) == AW_PENDING) {
        /* One that is always woken again must not outrun its time. */
        if (deadline != AW_FOREVER && aw__os_now() >= deadline) break;
        if (!aw_parker_park_until(parker, deadline)) break;
    }
    if (r != AW_PENDING) return r;
    while ((r = aw_future_cancel(f, &cx)) == AW_PENDING)
        aw_parker_park(parker);
    return r;
}

int aw_wait_future(aw_future *f, uint64_t duration) {
    if (aw__inside()) return aw__refuse(f, "a wait");
    aw_parker *parker = aw_parker_new();
    if (!parker) {
        aw__cancel_unstarted(f);
        return -ENOMEM;
    }
    uint64_t now = duration == AW_FOREVER ? 0 : aw__os_now();
    aw_poll r = run(f, parker, duration > AW_FOREVER - now ? AW_FOREVER : now + duration);
    aw_parker_free(parker);
    return r == AW_READY ? 0 : -ETIMEDOUT;
}
