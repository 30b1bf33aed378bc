/* SPDX-License-Identifier: MIT
 *
 * The inbox: how other threads reach the owner. A stack of tasks, linked through inbox_next, whose
 * head is also where the owner says that it sleeps:
 *
 *   NULL     empty, the owner is awake (or nobody owns the runtime) and will look
 *   PARKED   empty, the owner sleeps or is about to: whoever pushes onto this wakes it
 *   CLOSED   the runtime has ended: nothing can be pushed
 *   a task   the newest request
 *
 * A push is a compare-and-swap (release: the request is visible to the owner). The owner goes to sleep
 * with NULL -> PARKED, which fails when something was pushed first, so no wake-up falls between
 * looking and sleeping. It takes everything with one exchange (acquire).
 *
 * Who pushes onto PARKED unparks the owner afterwards, when the task is not its own any more: the owner,
 * awake for another reason, may have served it and be about to end the runtime. So the owner counts the
 * unparks that are due, one for each sleep that is over and does not find PARKED there; who unparks says
 * when it has, as the last thing it touches; and the runtime is freed when the two are equal. (Waking
 * the owner first would be simpler, but it is back asleep before the push, again and again.) */
#ifndef AW_RUNTIME_INBOX_H
#define AW_RUNTIME_INBOX_H

#include "runtime/runtime.h"

#define AW__INBOX_PARKED ((aw__task *)16)
#define AW__INBOX_CLOSED ((aw__task *)32)

/* False: closed. */
static inline bool aw__inbox_push(aw_runtime *rt, aw__task *t) {
    aw__task *head = aw__load_acquire(&rt->inbox);
    do {
        if (head == AW__INBOX_CLOSED) return false;
        t->inbox_next = head == AW__INBOX_PARKED ? NULL : head;
    } while (!aw__cas(&rt->inbox, &head, t));
    if (head == AW__INBOX_PARKED) {
        aw__rt_unpark(rt);
        aw__fetch_add(&rt->unparks_done, 1u);
    }
    return true;
}

/* False: there is something to do first. */
static inline bool aw__inbox_park(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_PARKED);
}

/* The sleep is over. */
static inline void aw__inbox_unpark(aw_runtime *rt) {
    aw__task *head = AW__INBOX_PARKED;
    if (!aw__cas(&rt->inbox, &head, (aw__task *)NULL)) rt->unparks_due++;
}

/* False: there is something to do first. From then on nothing can be pushed. */
static inline bool aw__inbox_close(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_CLOSED);
}

/* The newest request, to look at: by the owner, or while there is none. */
static inline const aw__task *aw__inbox_first(const aw_runtime *rt) {
    const aw__task *t = aw__load_acquire(&rt->inbox);
    return t == AW__INBOX_PARKED || t == AW__INBOX_CLOSED ? NULL : t;
}

/* Everything that was pushed, oldest first. */
static inline aw__task *aw__inbox_take(aw_runtime *rt) {
    aw__task *t = aw__exchange(&rt->inbox, (aw__task *)NULL), *list = NULL;
    while (t) {
        aw__task *older = t->inbox_next;
        t->inbox_next = list;
        list = t;
        t = older;
    }
    return list;
}

#endif
