/* SPDX-License-Identifier: MIT
 *
 * Checks the order in which mutexes are locked, in builds with AWAKE_LOCK_ORDER; otherwise
 * empty. */
#ifndef AW_SYNC_LOCK_ORDER_H
#define AW_SYNC_LOCK_ORDER_H

#include <awake/mutex.h>

#ifdef AW_LOCK_ORDER
/* The current task or thread is about to lock the mutex, and may have to wait for it. */
void aw__order_waiting(aw_mutex *m, const aw_location *location);
/* The current task or thread holds the mutex. */
void aw__order_locked(aw_mutex *m, const aw_location *location);
/* Called by the holder before another lock can succeed. */
void aw__order_unlocked(const aw_mutex *m);
#else
static inline void aw__order_waiting(aw_mutex *m, const aw_location *location) {
    (void)m, (void)location;
}
static inline void aw__order_locked(aw_mutex *m, const aw_location *location) {
    (void)m, (void)location;
}
static inline void aw__order_unlocked(const aw_mutex *m) {
    (void)m;
}
#endif

#endif
