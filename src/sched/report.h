/* SPDX-License-Identifier: MIT
 *
 * What a runtime detects by itself: see report.c. */
#ifndef AW_SCHED_REPORT_H
#define AW_SCHED_REPORT_H

#include "task/runtime_state.h"

void aw__report_if_lost(aw_runtime *rt, aw__task *t);
void aw__report_lost(const aw_runtime *rt, const aw__task *t);
bool aw__is_deadlock(aw_runtime *rt);
void aw__report_deadlock(const aw_runtime *rt);
void aw__report_remaining(const aw_runtime *rt, const char *format, ...) AW_PRINTF(2, 3);
void aw__report_sleeps(const aw_runtime *rt, size_t count);
/* After a shutdown: ends the sleeps of outside threads, or names the tasks that remain. */
void aw__report_shutdown(aw_runtime *rt, size_t remaining, uint64_t limit);

/* Update the number of cancels in progress in a task. True: they have just begun. */
bool aw__count_cancels(aw__task *t, int32_t change, bool ended);
void aw__cancel_watch_begin(aw_runtime *rt);
void aw__cancel_watch_again(aw_runtime *rt, uint64_t now);

/* Messages collected under locks, and logged after: the log callback is user code. */
typedef struct aw__reports {
    size_t length, left_out;
    char text[16384]; /* zero-terminated strings, one after the other */
} aw__reports;
void aw__reports_add(aw__reports *r, const char *message);
void aw__reports_log(const aw_runtime *rt, const aw__reports *r);

/* True: the task must be watched again. */
bool aw__cancel_watch_task(aw_runtime *rt, aw__task *t, aw__reports *reports);
void aw__cancel_watch(aw_runtime *rt, uint64_t now);

#endif
