/* SPDX-License-Identifier: MIT
 *
 * Wakes a waiter through a borrowed waker. */
#ifndef AW_FUTURE_WAKE_H
#define AW_FUTURE_WAKE_H

#include <awake/waker.h>

/* Called under the lock that guards the waker. A waker that only touches a queue is woken at once.
 * Any other waker is cloned into *later, and the caller wakes it after unlocking. True: it was
 * cloned. */
static inline bool aw__wake_or_clone(const aw_waker *w, aw_waker *later) {
    if (w->type->flags & AW_WAKES_UNDER_LOCK) {
        w->type->wake_by_ref(w->data);
        return false;
    }
    *later = aw_waker_clone(w);
    return true;
}

#endif
