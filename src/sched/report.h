/* SPDX-License-Identifier: MIT
 *
 * What a runtime detects by itself: see report.c. */
#ifndef AW_SCHED_REPORT_H
#define AW_SCHED_REPORT_H

#include "task/runtime_state.h"

/* The task is pending, and no waker of it exists: report it, unless a wait remains that is not for
 * what the task holds itself. `f` is its future. */
void aw__report_lost(const aw_runtime *rt, const aw__task *t, const aw_future *f);
void aw__report_deadlock(const aw_runtime *rt);
void aw__report_remaining(const aw_runtime *rt, const char *format, ...) AW_PRINTF(2, 3);
void aw__report_sleeps(const aw_runtime *rt, size_t count);
/* After a shutdown: ends the sleeps of outside threads, or names the tasks that remain. */
void aw__report_shutdown(aw_runtime *rt, size_t remaining, uint64_t limit);

/* Update the number of cancels in progress in a task. True: they have just begun. */
bool aw__count_cancels(aw__task *t, int32_t change, bool ended);
void aw__cancel_watch_begin(aw_runtime *rt);
void aw__cancel_watch_again(aw_runtime *rt, uint64_t now);

/* Reports cancels that have taken too long. */
void aw__cancel_watch(aw_runtime *rt, uint64_t now);

#endif
