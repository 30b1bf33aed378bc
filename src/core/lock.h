/* SPDX-License-Identifier: MIT
 *
 * A lock of one word for sections of a few instructions: taking it is one exchange, giving it back
 * one store. It is never held across a call into user code other than the runtime's own task waker,
 * which touches only a queue. Who finds it taken spins a little and then lets others run. */
#ifndef AW_CORE_LOCK_H
#define AW_CORE_LOCK_H

#include <stdint.h>

#include "core/atomic.h"

void aw__lock_slow(uint32_t *lock);

static inline void aw__lock(uint32_t *lock) {
    if (__builtin_expect(aw__exchange(lock, 1u) != 0, 0)) aw__lock_slow(lock);
}
static inline void aw__unlock(uint32_t *lock) {
    aw__store_release(lock, 0u);
}

#endif
