/* SPDX-License-Identifier: MIT
 *
 * The inbox: how other threads reach the owner. A stack of tasks, linked through inbox_next, whose
 * head is also where the owner says that it sleeps:
 *
 *   NULL     empty, the owner is awake (or nobody owns the runtime) and will look
 *   PARKED   empty, the owner sleeps or is about to: whoever wants to push wakes it first
 *   CLOSED   the runtime has ended: nothing can be pushed
 *   a task   the newest request
 *
 * A push is a compare-and-swap (release: the request is visible to the owner). The owner goes to sleep
 * with NULL -> PARKED, which fails when something was pushed first, so no wake-up falls between
 * looking and sleeping. It takes everything with one exchange (acquire). */
#ifndef AW_RUNTIME_INBOX_H
#define AW_RUNTIME_INBOX_H

#include "runtime/runtime.h"

#define AW__INBOX_PARKED ((aw__task *)16)
#define AW__INBOX_CLOSED ((aw__task *)32)

/* False: closed. The last thing that touches the runtime is the swap that puts the task in: from then
 * on the owner may serve it, and with it what kept the runtime alive. So the owner is woken before. */
static inline bool aw__inbox_push(aw_runtime *rt, aw__task *t) {
    aw__task *head = aw__load_acquire(&rt->inbox);
    for (;;) {
        if (head == AW__INBOX_CLOSED) return false;
        if (head == AW__INBOX_PARKED) {
            if (!aw__cas(&rt->inbox, &head, (aw__task *)NULL)) continue;
            aw__rt_unpark(rt);
            head = NULL;
        }
        t->inbox_next = head;
        if (aw__cas(&rt->inbox, &head, t)) return true;
    }
}

/* False: there is something to do first. */
static inline bool aw__inbox_park(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_PARKED);
}

/* False: there is something to do first. From then on nothing can be pushed. */
static inline bool aw__inbox_close(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_CLOSED);
}

/* Everything that was pushed, oldest first. */
static inline aw__task *aw__inbox_take(aw_runtime *rt) {
    aw__task *t = aw__exchange(&rt->inbox, (aw__task *)NULL), *list = NULL;
    while (t && t != AW__INBOX_PARKED) {
        aw__task *older = t->inbox_next;
        t->inbox_next = list;
        list = t;
        t = older;
    }
    return list;
}

#endif
