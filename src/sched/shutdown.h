/* SPDX-License-Identifier: MIT
 *
 * The end of a runtime, for both schedulers: see shutdown.c. */
#ifndef AW_SCHED_SHUTDOWN_H
#define AW_SCHED_SHUTDOWN_H

#include "task/runtime_state.h"

/* When all tasks have ended. */
void aw__rt_end_blocking(aw_runtime *rt);
void aw__rt_end_drivers(aw_runtime *rt);
/* Frees what both schedulers have: the runtime itself comes last. */
void aw__rt_free_memory(aw_runtime *rt);
/* Keep a runtime with tasks that can never end reachable for leak checkers. */
void aw__rt_leave_alive(aw_runtime *rt);

#endif
