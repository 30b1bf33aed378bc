/* SPDX-License-Identifier: MIT
 *
 * The current-thread scheduler: the thread in block_on runs the tasks. Owner only, except where it
 * says so. */
#ifndef AW_SCHED_CURRENT_CURRENT_H
#define AW_SCHED_CURRENT_CURRENT_H

#include "task/runtime_state.h"

extern const aw__scheduler aw__current_scheduler;

/* current_loop.c */
typedef enum aw__until { AW__MAIN_ENDED, AW__ALL_ENDED, AW__EITHER_ENDED } aw__until;
int aw__rt_run(aw_runtime *rt, aw__until until); /* 0, or -EDEADLK */
/* Run what is ready, without sleeping. True: more is ready. */
bool aw__rt_run_once(aw_runtime *rt);
/* When to run next, in the seam's clock, if nothing is ready. */
uint64_t aw__rt_next_deadline(aw_runtime *rt);
void aw__rt_drain_inbox(aw_runtime *rt);

/* current_block_on.c. Any thread: become the owner; false: another thread is. */
bool aw__rt_own(aw_runtime *rt);
void aw__rt_disown(aw_runtime *rt);
void aw__rt_disown_keep_tasks(aw_runtime *rt);
int aw__current_block_on(aw_runtime *rt, aw_future *f);
/* Cancel all tasks, and wait until they have ended: at most `limit` of the runtime's clock. */
void aw__rt_end_tasks(aw_runtime *rt, uint32_t closing, uint64_t limit);

/* current_shutdown.c: by a plain thread, which becomes the owner. */
size_t aw__current_shutdown(aw_runtime *rt, uint64_t limit);
void aw__current_end(aw_runtime *rt);
void aw__current_abandon(aw_runtime *rt);
void aw__current_free_memory(aw_runtime *rt);

/* current_fork.c: in the child of a fork. */
void aw__current_forget(aw_runtime *rt);

#endif
