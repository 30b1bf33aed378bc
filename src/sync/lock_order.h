/* SPDX-License-Identifier: MIT
 *
 * In which order mutexes are taken, for builds with AWAKE_LOCK_ORDER; in others this is nothing. */
#ifndef AW_SYNC_LOCK_ORDER_H
#define AW_SYNC_LOCK_ORDER_H

#include <awake/mutex.h>

#ifdef AW_LOCK_ORDER
/* The current task, or thread, is going to wait for it if it has to. */
void aw__order_wanted(aw_mutex *m, const aw_place *place);
/* It has it. */
void aw__order_taken(aw_mutex *m, const aw_place *place);
/* Whoever had it gives it back: before another can have it. */
void aw__order_given(const aw_mutex *m);
#else
static inline void aw__order_wanted(aw_mutex *m, const aw_place *place) {
    (void)m, (void)place;
}
static inline void aw__order_taken(aw_mutex *m, const aw_place *place) {
    (void)m, (void)place;
}
static inline void aw__order_given(const aw_mutex *m) {
    (void)m;
}
#endif

#endif
