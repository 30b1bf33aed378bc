/* SPDX-License-Identifier: MIT
 *
 * The queue that all workers share: tasks that other threads spawn or wake, and tasks that do not
 * fit into a worker's ring.
 *
 *   1. Any thread pushes onto `incoming`, a stack, by compare-and-swap (seq_cst: it makes the task
 *      visible to the worker that takes it, and rule 1 of idle.h needs it). Without a lock, threads
 *      that push at the same time contend only for the cache line.
 *   2. A worker that finds `ready` empty takes the whole stack with one exchange and reverses it:
 *      first in, first out. `ready` is guarded by a lock that only workers and aw__inject_close
 *      take.
 *   3. Once closed, nothing can be pushed; the tasks inside can still be taken. */
#ifndef AW_SCHED_MULTI_INJECT_H
#define AW_SCHED_MULTI_INJECT_H

#include "base/mpsc_stack.h"
#include "os/lock.h"
#include "task/task_header.h"

#define AW__INJECT_CLOSED ((aw__task *)16)

typedef struct aw__inject {
    /* atomic: newest first; or AW__INJECT_CLOSED */
    aw__task *incoming __attribute__((aligned(64)));
    uint32_t lock __attribute__((aligned(64))); /* guards writes to `ready` */
    aw__task *ready;                            /* atomic: oldest first */
} aw__inject;

/* Push a list, first to last, linked by `next`. False: closed. Any thread. */
static inline bool aw__inject_push(aw__inject *q, aw__task *first, aw__task *last) {
    aw__task *head = aw__load_acquire(&q->incoming);
    last->next = NULL;
    (void)aw__mpsc_reverse(first, next); /* the stack has the newest first */
    do {
        if (head == AW__INJECT_CLOSED) return false;
        first->next = head;
    } while (!aw__cas_seq(&q->incoming, &head, last));
    return true;
}

/* Worker only: the next task, and up to `extra` further ones as a list. */
static inline aw__task *aw__inject_pop(aw__inject *q, uint32_t extra, aw__task **batch) {
    *batch = NULL;
    aw__lock(&q->lock);
    aw__task *t = q->ready;
    if (!t) {
        const aw__task *newest = aw__load_acquire(&q->incoming);
        if (newest && newest != AW__INJECT_CLOSED) t = aw__mpsc_take(&q->incoming, next);
    }
    if (t) {
        aw__task *last = t;
        for (*batch = t->next; extra && last->next; extra--)
            last = last->next;
        aw__store_seq(&q->ready, last->next);
        if (last == t) *batch = NULL;
        last->next = NULL;
    }
    aw__unlock(&q->lock);
    return t;
}

/* Rule 3. */
static inline void aw__inject_close(aw__inject *q) {
    aw__lock(&q->lock);
    aw__task *newest = aw__exchange(&q->incoming, AW__INJECT_CLOSED), *t = q->ready;
    if (newest == AW__INJECT_CLOSED) newest = NULL; /* closed before */
    aw__task *pending = aw__mpsc_reverse(newest, next);
    while (t && t->next)
        t = t->next;
    if (t)
        t->next = pending;
    else
        aw__store_seq(&q->ready, pending);
    aw__unlock(&q->lock);
}

/* Any thread; a snapshot. */
static inline bool aw__inject_is_empty(const aw__inject *q) {
    const aw__task *t = aw__load_seq(&q->incoming);
    return (!t || t == AW__INJECT_CLOSED) && !aw__load_seq(&q->ready);
}

#endif
