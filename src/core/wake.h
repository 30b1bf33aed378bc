/* SPDX-License-Identifier: MIT
 *
 * Waking a waiter whose waker is borrowed. */
#ifndef AW_CORE_WAKE_H
#define AW_CORE_WAKE_H

#include <awake/waker.h>

/* Called under the lock that guards the waker. A kind that only touches a queue is woken right here;
 * any other is cloned into *later, to be woken when the lock is free. True: it was cloned. */
static inline bool aw__wake_or_clone(const aw_waker *w, aw_waker *later) {
    if (w->type->flags & AW_WAKES_UNDER_LOCK) {
        w->type->wake_by_ref(w->data);
        return false;
    }
    *later = aw_waker_clone(w);
    return true;
}

#endif
