/* SPDX-License-Identifier: MIT
 *
 * Task-local values, for the end of a task: the values are released when the task ends, and the
 * list is freed with the task. */
#ifndef AW_TASK_LOCALS_H
#define AW_TASK_LOCALS_H

#include "task/task_header.h"

/* Only if the task has locals: bit 0 of `location`. */
void aw__locals_release(aw__task *t);
void aw__locals_free(aw__task *t);

/* Any thread that keeps the task alive. */
const aw_location *aw__location_of(const aw__task *t);

#endif
