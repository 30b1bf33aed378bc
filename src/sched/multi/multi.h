/* SPDX-License-Identifier: MIT
 *
 * The multi-thread scheduler as a table, and the end of its memory. */
#ifndef AW_SCHED_MULTI_MULTI_H
#define AW_SCHED_MULTI_MULTI_H

#include "context/scheduler.h"

extern const aw__scheduler aw__multi_scheduler;

void aw__pool_free_memory(aw_runtime *rt); /* of the pool and of the runtime */

#endif
