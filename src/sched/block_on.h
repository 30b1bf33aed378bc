/* SPDX-License-Identifier: MIT
 *
 * Whether the calling thread may block, and what it is told if it may not. */
#ifndef AW_SCHED_BLOCK_ON_H
#define AW_SCHED_BLOCK_ON_H

#include "task/runtime_state.h"

/* The thread polls a task or a main future: it must not block. */
bool aw__in_poll(void);
void aw__name_polled(char *buf, size_t size);
/* The thread is in aw_block_in_place, and no other thread can run the runtime. */
bool aw__blocks_own_runtime(const aw_runtime *rt);
/* The thread is in aw_block_in_place or in a blocking call, for a task of the runtime. */
bool aw__blocks_for(const aw_runtime *rt);
/* Cancels `f`, logs, and returns -EPERM. */
int aw__refuse(aw_future *f, const char *what);

#endif
