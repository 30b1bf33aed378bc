/* SPDX-License-Identifier: MIT
 *
 * Quiescence: all workers are parked, no queue has a task, and all threads in block_on sleep. Then
 * a paused clock jumps to the next timer. If there is no timer it may be a deadlock.
 *
 *   1. The last thread to fall asleep checks. A worker counts itself as parked, a thread in
 *      block_on sets ASLEEP (both seq_cst), and then each checks the other: at least one of them
 *      sees both. A thread that removes something else that rules out quiescence (a hold, a waker
 *      that is dropped) checks too.
 *   2. One thread checks at a time. It keeps the threads in block_on asleep (pool_block_on.h). It
 *      holds no lock of the workers while it reads the timers and the tasks. Instead it verifies
 *      before and after that all sleep, and that none has fallen asleep in between (`parks`): so
 *      none was awake.
 *   3. Threads outside the runtime may wake a task at any time. For the clock they are ignored. A
 *      deadlock requires that none of them has a waker: each task has no references but the
 *      runtime's and the handle's, and is not NOTIFIED. An earlier wake has then already queued its
 *      task, which the second check sees. */
#ifndef AW_SCHED_MULTI_QUIESCENCE_H
#define AW_SCHED_MULTI_QUIESCENCE_H

#include "sched/multi/pool.h"

/* Any thread; cheap unless all workers are parked. The caller has a reference on the pool. */
void aw__pool_check_quiescence(aw__pool *p);
/* Any thread: decrements a count that rules out a deadlock, and checks. */
void aw__pool_unhold(aw__pool *p, uint32_t *count);

#endif
