/* SPDX-License-Identifier: MIT
 *
 * A one-word spin lock for sections of a few instructions: one exchange to lock, one store to
 * unlock. Wakers called under it have AW_WAKES_UNDER_LOCK: they touch a queue, and unpark a thread
 * if it sleeps. Of user code, only a seam's `unpark` and the `clone` of a broadcast or watch value
 * may run under it. A thread that finds it locked spins for a while, then yields the CPU
 * (os/lock.c). */
#ifndef AW_OS_LOCK_H
#define AW_OS_LOCK_H

#include <stdint.h>

#include "base/atomic.h"

void aw__lock_slow(uint32_t *lock);

static inline void aw__lock(uint32_t *lock) {
    if (__builtin_expect(aw__exchange(lock, 1u) != 0, 0)) aw__lock_slow(lock);
}
static inline void aw__unlock(uint32_t *lock) {
    aw__store_release(lock, 0u);
}

#endif
