/* SPDX-License-Identifier: MIT
 *
 * The slow path of os/lock.h. The holder may be preempted, so after 64 spins each try yields the
 * CPU. */
#include "os/lock.h"

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
