/* SPDX-License-Identifier: MIT
 *
 * The hold of a thread that runs no task, but that a task waits for: a thread in a blocking call,
 * or a worker's thread in aw_block_in_place. It holds the runtime (aw_runtime_hold), so a paused
 * clock stands still while it works. While the thread itself waits, in aw_wait or in block_on of
 * that runtime, the hold is paused: the thread may be waiting for the clock.
 *
 *   HOLDS    the thread works, and counts in `holds`
 *   PAUSED   the thread waits, and does not count, or is about to decrement the count
 *   OVER     the task has given up the call: the thread does not count any more
 *
 * Pausing and ending decrement the count only if they change HOLDS. Resuming increments it first,
 * and then changes PAUSED; if that has become OVER, it decrements again. So each increment is
 * undone exactly once.
 *
 * Pausing has two steps where another thread may resume: the thread changes HOLDS to PAUSED, then
 * publishes that it sleeps, and then decrements the count. A wake that comes in between increments
 * it first, so the count does not reach 0 although the thread has been woken. */
#ifndef AW_TASK_HOLD_H
#define AW_TASK_HOLD_H

#include "task/runtime_state.h"

enum { AW__HOLDS, AW__HOLD_PAUSED, AW__HOLD_OVER };

/* Called by that thread. True: it has changed HOLDS, and must decrement the count. */
static inline bool aw__hold_mark_paused(uint32_t *hold) {
    uint32_t holds = AW__HOLDS;
    return aw__cas(hold, &holds, (uint32_t)AW__HOLD_PAUSED);
}
static inline void aw__hold_pause(aw_runtime *rt, uint32_t *hold) {
    if (aw__hold_mark_paused(hold)) aw__rt_unhold(rt, &rt->holds);
}
/* Called by that thread, or by the thread that wakes it. */
static inline void aw__hold_resume(aw_runtime *rt, uint32_t *hold) {
    uint32_t paused = AW__HOLD_PAUSED;
    aw__fetch_add(&rt->holds, 1u);
    if (!aw__cas(hold, &paused, (uint32_t)AW__HOLDS)) aw__rt_unhold(rt, &rt->holds);
}
/* Called by the task. True: the hold was counted, and the caller must decrement the count. */
static inline bool aw__hold_end(uint32_t *hold) {
    return aw__exchange(hold, (uint32_t)AW__HOLD_OVER) == AW__HOLDS;
}

/* A parker for a thread that may hold `rt` (NULL: none). The hold is paused while the thread
 * sleeps, and the wake resumes it. So when a timer of a paused clock wakes the thread, the clock
 * stands still until the thread has done its work. */
typedef struct aw__hold_parker aw__hold_parker;
aw__hold_parker *aw__hold_parker_new(const aw_runtime *rt); /* NULL: out of memory */
void aw__hold_parker_free(aw__hold_parker *p);
aw_waker aw__hold_parker_waker(aw__hold_parker *p);
bool aw__hold_park(aw__hold_parker *p, uint64_t deadline); /* false: the deadline has passed */
void aw__hold_unpark(aw__hold_parker *p);                  /* any thread */

#endif
