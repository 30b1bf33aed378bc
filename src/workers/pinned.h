/* SPDX-License-Identifier: MIT
 *
 * Tasks that only one worker may run: fibers, and those that asked for it. Nobody steals them.
 *
 *   1. What the worker's own thread wakes goes to `ready`, which nobody else touches.
 *   2. Other threads push onto `inbox`, a stack, by compare-and-swap, and then unpark that worker, whoever else is
 *      awake: the token is there before it sleeps, or ends its sleep. The push is seq_cst for who looks whether
 *      all sleep (quiet.h).
 *   3. The worker takes all of the stack with one exchange and turns it around: first come, first served. */
#ifndef AW_WORKERS_PINNED_H
#define AW_WORKERS_PINNED_H

#include "runtime/runtime.h"

typedef struct aw__pinned {
    aw__queue ready;
    uint64_t kept, taken; /* put into `ready` by the worker; taken out of it. Atomic to peek at */
    aw__task *inbox __attribute__((aligned(64))); /* atomic: newest first */
    uint64_t sent;                                /* atomic: put into `inbox` */
} aw__pinned;

/* By the worker. */
static inline void aw__pinned_keep(aw__pinned *p, aw__task *t) {
    aw__queue_push(&p->ready, t);
    aw__store_relaxed(&p->kept, p->kept + 1);
}

/* By others, who then unpark it. */
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

/* By the worker. */
static inline void aw__pinned_fetch(aw__pinned *p) {
    aw__task *newest = aw__exchange(&p->inbox, (aw__task *)NULL), *oldest = NULL;
    while (newest) {
        aw__task *older = newest->inbox_next;
        newest->inbox_next = oldest;
        oldest = newest;
        newest = older;
    }
    for (aw__task *t = oldest, *next; t; t = next) {
        next = t->inbox_next;
        aw__queue_push(&p->ready, t);
    }
}

static inline aw__task *aw__pinned_take(aw__pinned *p) {
    if (AW__UNLIKELY(aw__load_relaxed(&p->inbox) != NULL)) aw__pinned_fetch(p);
    aw__task *t = p->ready.head;
    if (!t) return NULL;
    p->ready.head = t->next;
    if (!p->ready.head) p->ready.tail = NULL;
    aw__store_relaxed(&p->taken, p->taken + 1);
    return t;
}

/* How many there are; by anybody. */
static inline int64_t aw__pinned_count(const aw__pinned *p) {
    uint64_t taken = aw__load_relaxed(&p->taken);
    return (int64_t)(aw__load_relaxed(&p->sent) + aw__load_relaxed(&p->kept) - taken);
}

#endif
