/* SPDX-License-Identifier: MIT
 *
 * The first part of a task's end, which is the same in both schedulers. */
#ifndef AW_TASK_TASK_END_H
#define AW_TASK_TASK_END_H

#include <errno.h>

#include "task/locals.h"
#include "task/task_borrows.h"
#include "task/task_header.h"

/* Called by the thread that polled the task, before other threads can see its end. Returns the
 * status; `*error` is what a member reports, taken before the output is discarded. */
static inline int aw__task_end(aw__task *t, aw_poll result, int *error) {
    int status = result == AW_READY ? AW__FINISHED : t->fail ? t->fail : -ECANCELED;
    if (AW_CHECKS && AW__UNLIKELY(t->borrows)) aw__borrow_check_task(t);
    if (AW__UNLIKELY(t->location & 1)) aw__locals_release(t);
    *error = AW__UNLIKELY(aw__task_member(t) != NULL) ? aw__member_error(t, status) : 0;
    return status;
}

#endif
