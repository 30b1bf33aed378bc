/* SPDX-License-Identifier: MIT
 *
 * The queue that all workers share: for tasks that are spawned or woken by other threads, and for what
 * does not fit into a worker's ring.
 *
 *   1. Anyone pushes onto `incoming`, a stack, by compare-and-swap (seq_cst: the task is visible to who
 *      takes it, and see idle.h). No lock: sixteen threads that push wait for a cache line at most.
 *   2. A worker that finds `ready` empty takes all of the stack with one exchange and turns it around:
 *      first come, first served. `ready` is guarded by a lock that only workers take.
 *   3. Closed, nothing can be pushed any more; what is inside can still be taken. */
#ifndef AW_WORKERS_INJECT_H
#define AW_WORKERS_INJECT_H

#include "core/lock.h"
#include "runtime/task.h"

#define AW__INJECT_CLOSED ((aw__task *)16)

typedef struct aw__inject {
    aw__task *incoming
        __attribute__((aligned(64)));           /* atomic: newest first, or CLOSED at the end */
    uint32_t lock __attribute__((aligned(64))); /* guards what follows */
    aw__task *ready;                            /* oldest first; atomic to peek at */
} aw__inject;

/* A list upside down. */
static inline aw__task *aw__inject_turn(aw__task *t) {
    aw__task *turned = NULL;
    while (t && t != AW__INJECT_CLOSED) {
        aw__task *next = t->next;
        t->next = turned;
        turned = t;
        t = next;
    }
    return turned;
}

/* A list, first to last, linked by `next`. False: closed. Any thread. */
static inline bool aw__inject_push(aw__inject *q, aw__task *first, aw__task *last) {
    aw__task *head = aw__load_acquire(&q->incoming);
    last->next = NULL;
    aw__inject_turn(first);
    do {
        if (head == AW__INJECT_CLOSED) return false;
        first->next = head;
    } while (!aw__cas_seq(&q->incoming, &head, last));
    return true;
}

/* By a worker: the next task, and up to `more` further ones as a list. */
static inline aw__task *aw__inject_pop(aw__inject *q, uint32_t more, aw__task **rest) {
    *rest = NULL;
    aw__lock(&q->lock);
    aw__task *t = q->ready;
    if (!t) {
        const aw__task *newest = aw__load_acquire(&q->incoming);
        if (newest && newest != AW__INJECT_CLOSED)
            t = aw__inject_turn(aw__exchange(&q->incoming, (aw__task *)NULL));
    }
    if (t) {
        aw__task *last = t;
        for (*rest = t->next; more && last->next; more--)
            last = last->next;
        aw__store_seq(&q->ready, last->next);
        if (last == t) *rest = NULL;
        last->next = NULL;
    }
    aw__unlock(&q->lock);
    return t;
}

/* Nothing can be pushed any more. */
static inline void aw__inject_close(aw__inject *q) {
    aw__lock(&q->lock);
    aw__task *rest = aw__inject_turn(aw__exchange(&q->incoming, AW__INJECT_CLOSED)), *t = q->ready;
    while (t && t->next)
        t = t->next;
    if (t)
        t->next = rest;
    else
        aw__store_seq(&q->ready, rest); /* somebody may glance at it */
    aw__unlock(&q->lock);
}

/* By anyone: a glance. */
static inline bool aw__inject_is_empty(const aw__inject *q) {
    const aw__task *t = aw__load_seq(&q->incoming);
    return (!t || t == AW__INJECT_CLOSED) && !aw__load_seq(&q->ready);
}

#endif
