/* SPDX-License-Identifier: MIT */
#include "sched/run_task.h"

aw_poll aw__run_special(aw__task *t, aw_future *f, aw_cx *cx, bool cancel) {
    if (t->flags & AW__UNBUDGETED) cx->meter->budget = UINT32_MAX;
    cx->meter->borrows = t->borrows;
    return cancel ? aw_future_cancel(f, cx) : aw_future_poll(f, cx);
}

void aw__run_count(aw_runtime *rt, aw__task *t, aw__meter *meter, aw_poll r) {
    const aw__scheduler *sched = rt->base.sched;
    aw__task_save_borrows(t, meter);
    if (meter->cancelling || t->flags & AW__COUNTED)
        sched->count_cancels(rt, t, meter->cancelling, r != AW_PENDING);
    if (!meter->fail || r == AW_READY) return;
    if (!t->fail) t->fail = (int16_t)meter->fail;
    if (r == AW_PENDING) sched->cancel_running(rt, t);
}
