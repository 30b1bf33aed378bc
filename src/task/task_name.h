/* SPDX-License-Identifier: MIT
 *
 * Naming tasks in messages. */
#ifndef AW_TASK_TASK_NAME_H
#define AW_TASK_TASK_NAME_H

#include "task/task_header.h"

/* The name of a task, or "the main future". On the thread that polls the task. */
void aw__name_task(char *buf, size_t size, const aw__task *t);
/* The name of a spawned task. Any thread: reads nothing that changes while the task runs. */
void aw__name_spawned(char *buf, size_t size, const aw__task *t);

#endif
