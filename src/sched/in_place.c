/* SPDX-License-Identifier: MIT
 *
 * aw_block_in_place: a poll that blocks its thread. */
#include <awake/blocking.h>

#include "fiber/fiber_state.h"
#include "sched/block_on.h"
#include "sched/multi/monitor.h"
#include "sched/multi/pool.h"
#include "task/hold.h"

/* NULL: the thread is not in block_on of a runtime with workers. */
static aw__block_on *block_on_of_thread(void) {
    return aw__context.main ? aw__block_on_of(aw__context.main) : NULL;
}

static void in_place_begin(aw__in_place *in) {
    aw_runtime *rt = aw_runtime_current();
    aw__worker *w = aw__context.worker;
    aw__block_on *b = block_on_of_thread();
    *in = (aw__in_place){.before = aw__context,
                         .task = aw__current_task(),
                         .fiber = aw__fiber_current,
                         .hold = AW__HOLDS};
    if (w) aw__worker_leave(w);
    if (b) aw__block_on_leave(b);
    bool holds = w || b;
    aw__context = (struct aw__context){.entered = rt,
                                       .task = &in->task,
                                       .held = holds ? rt : in->before.held,
                                       .hold = holds ? &in->hold : in->before.hold,
                                       .in_place = in};
}

static void in_place_end(const aw__in_place *in) {
    aw__context = in->before;
    aw__block_on *b = block_on_of_thread();
    if (aw__context.worker) aw__worker_return(aw__context.worker);
    if (b) aw__block_on_return(b);
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
