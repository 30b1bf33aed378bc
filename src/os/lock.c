/* SPDX-License-Identifier: MIT
 *
 * The slow path of core/lock.h. The holder may have been preempted, so spinning ends in sched_yield. */
#include "core/lock.h"

#include <sched.h>

void aw__lock_slow(uint32_t *lock) {
    for (unsigned spins = 0;; spins++) {
        if (aw__load_relaxed(lock) == 0 && aw__exchange(lock, 1u) == 0) return;
        if (spins < 64)
            aw__spin_hint();
        else
            sched_yield();
    }
}
