/* SPDX-License-Identifier: MIT
 *
 * Counting borrows per task and fiber: see future/borrow_check.h. Called by the thread that polls
 * the borrowing future. */
#ifndef AW_TASK_TASK_BORROWS_H
#define AW_TASK_TASK_BORROWS_H

#include "future/borrow_check.h"

struct aw__task;

/* At the first poll. `what` is named in a report. */
void aw__borrow_begin(aw__borrow *b, const aw_future *what, aw_cx *cx);
/* At every further poll. If another task polls it, that task counts it from now on. */
void aw__borrow_polled(aw__borrow *b, aw_cx *cx);
/* No effect on a borrow that is not open. */
void aw__borrow_end(aw__borrow *b, aw_cx *cx);

/* The same for a borrow that is opened often: while suspended it has no mark, but its task still
 * counts it. */
static inline void aw__borrow_resume(aw__borrow *b, const aw_future *what, aw_cx *cx) {
    if (AW__LIKELY(b->what == what))
        b->mark = aw__borrow_mark(b);
    else
        aw__borrow_begin(b, what, cx);
}
static inline void aw__borrow_suspend(aw__borrow *b, aw_cx *cx) {
    if (AW__LIKELY(!b->fiber))
        b->mark = 0;
    else
        aw__borrow_end(b, cx);
}

/* A task, or the future of block_on, has ended with a nonzero count of borrows. */
void aw__borrow_check_task(struct aw__task *t);
void aw__borrow_check_main(const aw_future *f, uint32_t borrows);

#endif
