/* SPDX-License-Identifier: MIT
 *
 * Joining a task of a multi-thread runtime: the functions of task/join.c for it. */
#ifndef AW_SCHED_MULTI_POOL_JOIN_H
#define AW_SCHED_MULTI_POOL_JOIN_H

#include "task/join.h"

aw_poll aw__pool_join_poll(struct aw_task_join_future *j, aw__task *t, aw_cx *cx);
aw_poll aw__pool_join_cancel(struct aw_task_join_future *j, aw__task *t, aw_cx *cx);

#endif
