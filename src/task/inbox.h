/* SPDX-License-Identifier: MIT
 *
 * The inbox: how other threads send requests to the owner of a current-thread runtime. Any thread
 * may push. It is a stack of tasks, linked through inbox_next. Its head also says whether the owner
 * sleeps:
 *
 *   NULL     empty; the owner is awake and will check, or the runtime has no owner
 *   PARKED   empty; the owner sleeps or is about to: a push onto this must unpark it
 *   CLOSED   the runtime has ended: nothing can be pushed
 *   a task   the newest request
 *
 * A push is a compare-and-swap (release: the request is visible to the owner). The owner goes to
 * sleep by changing NULL to PARKED. That fails if a request was pushed first, so no wake-up is lost
 * between the check and the sleep. The owner takes all requests with one exchange (acquire).
 *
 * A thread that pushes onto PARKED unparks the owner after the push. By then the owner, awake for
 * another reason, may have served the task and be about to end the runtime. So the owner counts in
 * `unparks_due` the sleeps after which the head is no longer PARKED: each is followed by one
 * unpark. The pusher increments `unparks_done` after its unpark, as its last access to the runtime.
 * The runtime is freed only when the two are equal. (Unparking before the push would be simpler,
 * but the owner may be asleep again before the push, any number of times.) */
#ifndef AW_TASK_INBOX_H
#define AW_TASK_INBOX_H

#include "base/mpsc_stack.h"
#include "task/owner_park.h"

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

/* Before a sleep. False: there are requests to serve first. */
static inline bool aw__inbox_park(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_PARKED);
}

/* After the sleep. */
static inline void aw__inbox_unpark(aw_runtime *rt) {
    aw__task *head = AW__INBOX_PARKED;
    if (!aw__cas(&rt->inbox, &head, (aw__task *)NULL)) rt->unparks_due++;
}

/* After it, nothing can be pushed. False: there are requests to serve first. */
static inline bool aw__inbox_close(aw_runtime *rt) {
    aw__task *head = NULL;
    return aw__cas(&rt->inbox, &head, AW__INBOX_CLOSED);
}

/* The newest request, not taken. Call it as the owner, or while there is no owner. */
static inline const aw__task *aw__inbox_first(const aw_runtime *rt) {
    const aw__task *t = aw__load_acquire(&rt->inbox);
    return t == AW__INBOX_PARKED || t == AW__INBOX_CLOSED ? NULL : t;
}

/* All requests, oldest first. */
static inline aw__task *aw__inbox_take(aw_runtime *rt) {
    return aw__mpsc_take(&rt->inbox, inbox_next);
}

#endif
