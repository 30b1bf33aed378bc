/* SPDX-License-Identifier: MIT
 *
 * Wakers of their own for many children, so that only those that were woken are polled.
 *
 * A wakeset is one block: this header and a node per child. A child is polled with a waker whose data
 * is its node; waking puts the node on the woken list and wakes the parent. The block is counted: by
 * the combinator, and by each clone of a child's waker, which may outlive the combinator.
 *
 * Rules:
 *   1. `lock` guards the list, the nodes and `parent`.
 *   2. The parent's waker is borrowed: set by each poll, taken away before the combinator ends; it is
 *      used under the lock (ours), or cloned under it and woken after (any other kind).
 *   3. A poll takes the whole list first, and polls those; a child that wakes itself meanwhile is in
 *      the next one. Wakes during a poll (`polling`) do not wake the parent each: the poll's end does,
 *      once, when the list is not empty.
 *   4. Whether a child keeps its waker is seen in two numbers: `armed`, waits of leaves that borrow it,
 *      and the count of the block. With either, the parent counts one wait while it is pending. With
 *      neither, and nothing woken, no child can be polled again: that
 *      is reported, also when there is no runtime to notice. */
#ifndef AW_COMBINATORS_WAKESET_H
#define AW_COMBINATORS_WAKESET_H

#include <awake/alloc.h>
#include <awake/future.h>

typedef struct aw__wakeset aw__wakeset;

typedef struct aw__wakenode {
    aw__wakeset *set;
    struct aw__wakenode *next;
    uint32_t index;
    bool woken; /* in the list */
} aw__wakenode;

struct aw__wakeset {
    uint32_t lock;
    uint32_t refs;   /* atomic */
    aw__carry carry; /* by who polls: see rule 4 */
    bool polling;    /* under the lock */
    bool reported;
    uint32_t count;
    aw_waker parent; /* borrowed; {NULL, NULL} between ends */
    aw__wakenode *first, *last;
    const aw_allocator *allocator;
    size_t size;
    aw__wakenode nodes[];
};

/* NULL when there is no memory. `extra` bytes follow the nodes (16-byte aligned). No node is woken. */
aw__wakeset *aw__wakeset_new(const aw_allocator *a, uint32_t count, size_t extra);
void *aw__wakeset_extra(aw__wakeset *ws);
/* The combinator gives it up; the parent's waker is not used any more. */
void aw__wakeset_drop(aw__wakeset *ws);

/* The combinator does not wait for now: wakes are remembered, the parent's waker is not used. */
void aw__wakeset_orphan(aw__wakeset *ws);

/* Put a node on the list without waking the parent: a new child. */
void aw__wakeset_add(aw__wakeset *ws, uint32_t index);
/* Wake the parent, if it waits. */
bool aw__wakeset_wake_parent(aw__wakeset *ws);

/* One poll (or cancel) of a combinator, for each of its wakesets:
 *     aw__wakeset_begin(ws, &poll, cx);
 *     while ((i = aw__wakeset_next(&poll)) >= 0) ... poll child i with &poll.cx ...
 *     aw__wakeset_end(&poll, pending, self)
 * A poll may end before the list is empty: what is left stays woken. */
typedef struct aw__wakeset_poll {
    aw_cx cx; /* for the child */
    aw_waker waker;
    aw__wakeset *ws;
    aw__wakenode *list, *last; /* what is left to poll */
    aw_cx *parent;
    aw__meter meter; /* of the children */
} aw__wakeset_poll;

void aw__wakeset_begin(aw__wakeset *ws, aw__wakeset_poll *p, aw_cx *cx);
int64_t aw__wakeset_next(aw__wakeset_poll *p);
/* `pending`: children that have not ended; 0 when the combinator is about to end or will not wait.
 * `self` is the combinator, for a report. */
void aw__wakeset_end(aw__wakeset_poll *p, size_t pending, const aw_future *self);
/* The combinator ends, or will not wait any more: take back what counts as armed because of it. */
void aw__wakeset_disarm(aw__wakeset *ws, aw_cx *cx);

#endif
