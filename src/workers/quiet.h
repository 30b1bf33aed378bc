/* SPDX-License-Identifier: MIT
 *
 * What is known when everybody sleeps: all workers are parked, no queue has a task in it, and so do the threads
 * in block_on. Then a clock that is paused jumps to the next timer; and without a timer it may be a deadlock.
 *
 *   1. The last one to fall asleep looks, whoever that is. A worker counts itself as parked, a thread in
 *      block_on says ASLEEP (both seq_cst), and then each looks at the other: one of them sees both. Who takes
 *      away what else spoke against it (a hold, a waker that is dropped) looks too.
 *   2. One looks at a time. It keeps those in block_on asleep (main.h). No lock of the workers is held while it
 *      looks at the timers and the tasks; instead it makes sure before and after that all sleep, and that
 *      none has fallen asleep in between (`parks`): so none was awake.
 *   3. Threads outside may wake somebody at any time. For the clock they are not seen. A deadlock is only one when
 *      none of them has a waker: each task has no references but the runtime's and the handle's, and it is
 *      not NOTIFIED; a wake that came before is then in a queue, which the second look sees. */
#ifndef AW_WORKERS_QUIET_H
#define AW_WORKERS_QUIET_H

#include "workers/pool.h"

/* Any thread; cheap unless all workers are parked. The caller keeps the pool. */
void aw__pool_look(aw__pool *p);
/* Any thread: one less of what speaks against a deadlock. */
void aw__pool_unhold(aw__pool *p, uint32_t *count);

#endif
