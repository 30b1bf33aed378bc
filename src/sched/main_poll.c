/* SPDX-License-Identifier: MIT */
#include "sched/main_poll.h"

#include "sched/run_task.h"
#include "task/task_borrows.h"

aw_poll aw__main_poll(aw_runtime *rt, aw__main_future *m, aw__task *t, const aw_waker *waker) {
    aw_cx cx = {waker, rt, &m->meter};
    aw_poll r;
    do {
        r = aw__run_task(rt, t, m->future, &cx, &m->meter, m->error != 0);
        m->outside += m->meter.outside;
        if (!m->error) m->error = m->meter.fail;
    } while (r == AW_PENDING && m->meter.fail);
    if (r != AW_PENDING) aw__borrow_check_main(m->future, t->borrows);
    return r;
}
