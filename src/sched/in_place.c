/* SPDX-License-Identifier: MIT
 *
 * aw_block_in_place: a poll that blocks its thread. */
#include <awake/blocking.h>

#include "fiber/fiber_state.h"
#include "sched/block_on.h"
#include "task/hold.h"

static void in_place_begin(aw__in_place *in) {
    aw_runtime *rt = aw_runtime_current();
    *in = (aw__in_place){.before = aw__context,
                         .task = aw__current_task(),
                         .fiber = aw__fiber_current,
                         .hold = AW__HOLDS};
    bool holds = aw__context.runtime && aw__base(rt)->sched->in_place_begin();
    aw__context = (struct aw__context){.entered = rt,
                                       .task = &in->task,
                                       .held = holds ? rt : in->before.held,
                                       .hold = holds ? &in->hold : in->before.hold,
                                       .in_place = in};
}

static void in_place_end(const aw__in_place *in) {
    aw__context = in->before;
    const aw_runtime *rt = aw__context.runtime;
    if (rt) aw__base(rt)->sched->in_place_end();
}

long aw_block_in_place(long (*fn)(void *arg), void *arg) {
    if (!aw__in_poll()) return fn(arg);
    aw__in_place in;
    in_place_begin(&in);
    bool in_body = aw__fiber_blocks(in.fiber);
    long result = fn(arg);
    if (in_body) in.fiber->child = NULL;
    in_place_end(&in);
    return result;
}
