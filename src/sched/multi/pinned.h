/* SPDX-License-Identifier: MIT
 *
 * Tasks that only one worker may run: fibers, and tasks that were pinned on request. They are never
 * stolen.
 *
 *   1. The worker's own thread pushes to `ready`, which no other thread touches.
 *   2. Other threads push onto `inbox`, a stack, by compare-and-swap, and then unpark the worker,
 *      even if other workers are awake: the token is set before it sleeps, or ends its sleep. The
 *      push is seq_cst for the quiescence check (quiescence.h).
 *   3. The worker takes the whole stack with one exchange and reverses it: first in, first out.
 *   4. A task in `ready` records the position at which the worker's ring ended when it was
 *      appended: tasks in the ring before that position are older. So the worker can run the tasks
 *      of both queues in the order in which they became ready. */
#ifndef AW_SCHED_MULTI_PINNED_H
#define AW_SCHED_MULTI_PINNED_H

#include "base/mpsc_stack.h"
#include "task/runtime_state.h"

typedef struct aw__pinned {
    aw__queue ready;
    uint32_t nonyielded;    /* tasks in `ready` without AW__YIELDED */
    uint64_t pushed, taken; /* atomic: pushed by the worker; taken out of `ready` */
    aw__task *inbox __attribute__((aligned(64))); /* atomic: newest first */
    uint64_t sent;                                /* atomic: pushed onto `inbox` */
} aw__pinned;

static inline void aw__pinned_append(aw__pinned *p, aw__task *t, uint32_t ring_end) {
    t->ring_at = ring_end;
    aw__queue_push(&p->ready, t);
    p->nonyielded += !(t->flags & AW__YIELDED);
}

/* Rule 1. Worker only. */
static inline void aw__pinned_push(aw__pinned *p, aw__task *t, uint32_t ring_end) {
    aw__pinned_append(p, t, ring_end);
    aw__store_relaxed(&p->pushed, p->pushed + 1);
}

/* Rule 2. Any other thread, which then unparks the worker. */
static inline void aw__pinned_send(aw__pinned *p, aw__task *t) {
    aw__fetch_add_relaxed(&p->sent, (uint64_t)1);
    aw__task *head = aw__load_acquire(&p->inbox);
    do
        t->inbox_next = head;
    while (!aw__cas_seq(&p->inbox, &head, t));
}

static inline bool aw__pinned_sent(const aw__pinned *p) {
    return aw__load_seq(&p->inbox) != NULL;
}

/* Rule 3. Worker only. */
static inline void aw__pinned_fetch(aw__pinned *p, uint32_t ring_end) {
    if (AW__LIKELY(!aw__load_relaxed(&p->inbox))) return;
    for (aw__task *t = aw__mpsc_take(&p->inbox, inbox_next), *next; t; t = next) {
        next = t->inbox_next;
        aw__pinned_append(p, t, ring_end);
    }
}

/* Worker only. */
static inline aw__task *aw__pinned_take(aw__pinned *p) {
    aw__task *t = p->ready.head;
    if (!t) return NULL;
    p->ready.head = t->next;
    if (!p->ready.head) p->ready.tail = NULL;
    p->nonyielded -= !(t->flags & AW__YIELDED);
    aw__store_relaxed(&p->taken, p->taken + 1);
    return t;
}

/* Any thread; a snapshot. */
static inline int64_t aw__pinned_count(const aw__pinned *p) {
    uint64_t taken = aw__load_relaxed(&p->taken);
    return (int64_t)(aw__load_relaxed(&p->sent) + aw__load_relaxed(&p->pushed) - taken);
}

#endif
