/* SPDX-License-Identifier: MIT
 *
 * Ending a runtime: aw_runtime_free waits for the tasks, aw_runtime_shutdown waits with a time
 * limit, aw_runtime_abandon does not wait. Called by a plain thread. What a scheduler does then is
 * in sched/current/current_shutdown.c and sched/multi/pool_shutdown.c. */
#include "sched/shutdown.h"

#include "base/allocate.h"
#include "base/misuse.h"
#include "blocking/blocking_pool.h"
#include "os/lock.h"
#include "sched/block_on.h"
#include "sched/embedded.h"

/* Runtimes with tasks that can never end. They are leaked on purpose; this list keeps them
 * reachable for leak checkers. Atomic. */
static aw_runtime *leaked_runtimes;

void aw__rt_leave_alive(aw_runtime *rt) {
    aw_runtime *head = aw__load_relaxed(&leaked_runtimes);
    do
        rt->next_leaked = head;
    while (!aw__cas(&leaked_runtimes, &head, rt));
}

/* All three calls may block, and may make this thread the owner of a runtime: they are refused
 * inside any poll. A poll by an executor outside the library is not noticed. */
static void check_outside(const char *call) {
    if (!aw__in_poll() && !aw__context.waits) return;
    char name[256];
    aw__name_polled(name, sizeof name);
    aw__misuse("%s inside %s: it may block. Call it from a plain thread, or by aw_blocking", call,
               name);
}

/* It would wait for a task that waits for the blocking call. */
static void check_not_own_call(const aw_runtime *rt, const char *call) {
    if (aw__blocks_for(rt))
        aw__misuse(
            "%s inside a blocking call of the same runtime: it would wait for that call. Call it "
            "from a plain thread, or use aw_runtime_abandon",
            call);
}

void aw__rt_free_memory(aw_runtime *rt) {
    aw__blocking_drop(rt);
    if (!rt->base.in_storage) aw__free(rt->base.allocator, rt, sizeof *rt);
}

void aw__rt_end_drivers(aw_runtime *rt) {
    aw__embedded_end(rt);
    aw__lock(&rt->base.lock);
    rt->base.io_closed = true; /* a thread that has entered the runtime cannot open a driver */
    aw__unlock(&rt->base.lock);
    aw__thread_io *io;
    for (uint32_t n = 0; (io = rt->base.sched->nth_thread_io(rt, n)); n++)
        aw__thread_io_close(io);
}

/* No task is left, so only outside threads may have blocking calls. Those that are queued fail with
 * -ESHUTDOWN; those that run are waited for, except detached ones. */
void aw__rt_end_blocking(aw_runtime *rt) {
    aw__blocking *b = aw__blocking_stop(rt);
    uint32_t remaining = b ? aw__blocking_join(b) : 0;
    if (remaining)
        aw__rt_log(rt, AW_LOG_PROBLEM, "%u blocking calls that were given up still run", remaining);
}

size_t aw_runtime_shutdown(aw_runtime *rt, uint64_t limit) {
    check_outside("aw_runtime_shutdown");
    if (aw__rt_forked(rt)) return aw_runtime_task_count(rt);
    check_not_own_call(rt, "aw_runtime_shutdown");
    return rt->base.sched->shutdown(rt, limit);
}

void aw_runtime_free(aw_runtime *rt) {
    if (!rt) return;
    check_outside("aw_runtime_free");
    if (aw__rt_forked(rt)) {
        rt->base.sched->forget(rt);
        return;
    }
    check_not_own_call(rt, "aw_runtime_free");
    rt->base.sched->end(rt);
}

void aw_runtime_abandon(aw_runtime *rt) {
    if (!rt) return;
    check_outside("aw_runtime_abandon");
    if (aw__rt_forked(rt))
        rt->base.sched->forget(rt);
    else
        rt->base.sched->abandon(rt);
}
