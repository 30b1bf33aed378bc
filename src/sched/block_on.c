/* SPDX-License-Identifier: MIT
 *
 * block_on, for both schedulers, and the calls that it refuses. */
#include "sched/block_on.h"

#include <errno.h>
#include <stdio.h>

#include "fiber/fiber_state.h"
#include "future/unstarted.h"
#include "task/task_name.h"

/* Blocking would stop the tasks of this thread, or the future that it polls. */
bool aw__in_poll(void) {
    const aw__in_place *in = aw__context.in_place;
    return aw__context.runtime || aw__fiber_current != (in ? in->fiber : NULL);
}

bool aw__blocks_own_runtime(const aw_runtime *rt) {
    for (const aw__in_place *in = aw__context.in_place; in; in = in->before.in_place)
        if (in->before.owned == rt) return true;
    return false;
}

bool aw__blocks_for(const aw_runtime *rt) {
    return aw__context.held == rt || aw__blocks_own_runtime(rt);
}

static int refuse_in_place(aw_future *f, const char *what) {
    aw__rt_log(
        aw_runtime_current(), AW_LOG_PROBLEM,
        "%s of '%s' was refused inside aw_block_in_place: this thread runs the runtime, and no "
        "task of it can run meanwhile: use aw_blocking, or await it",
        what, f->type->name);
    aw__cancel_unstarted(f);
    return -EPERM;
}

void aw__name_polled(char *buf, size_t size) {
    const aw__task *t = aw__current_task();
    if (aw__context.runtime && !aw__context.owned && !aw__context.worker)
        snprintf(buf, size, "the main future");
    else if (t)
        aw__name_task(buf, size, t);
    else if (aw__fiber_current)
        snprintf(buf, size, "a fiber");
    else if (aw__context.waits)
        snprintf(buf, size, "'%s', which aw_wait polls", aw__context.waits->type->name);
    else
        snprintf(buf, size, "a callback on a thread of a runtime");
}

int aw__refuse(aw_future *f, const char *what) {
    if (!aw__in_poll()) return refuse_in_place(f, what);
    const aw_runtime *rt = aw_runtime_current();
    char name[256];
    aw__name_polled(name, sizeof name);
    aw__rt_log(rt, AW_LOG_PROBLEM, "%s of '%s' was refused inside %s: await it instead", what,
               f->type->name, name);
    aw__cancel_unstarted(f);
    return -EPERM;
}

int aw_block_on_future(aw_runtime *rt, aw_future *f) {
    if (aw__in_poll() || aw__blocks_own_runtime(rt)) return aw__refuse(f, "block_on");
    bool forked = aw__rt_forked(rt);
    if (forked || aw__load_acquire(&rt->closing) == AW__CLOSING_FINALLY) {
        aw__cancel_unstarted(f);
        return forked ? -EOWNERDEAD : -ESHUTDOWN;
    }
    return rt->base.sched->block_on(rt, f);
}

int aw_run_future(aw_future *f) {
    if (aw__in_poll()) return aw__refuse(f, "block_on");
    aw_runtime *rt;
    int error = aw_runtime_new(&rt, NULL);
    if (error) {
        aw__cancel_unstarted(f);
        return error;
    }
    error = aw_block_on_future(rt, f);
    aw_runtime_free(rt);
    return error;
}
