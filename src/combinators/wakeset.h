/* SPDX-License-Identifier: MIT
 *
 * A wakeset: one waker for each child of a combinator, so that only woken children are polled.
 *
 * A wakeset is one allocation: this header and a node for each child. The node is the data of the
 * waker that its child is polled with. Waking it puts the node on the woken list and wakes the
 * parent. The wakeset is reference counted: the combinator has a reference, and so has each clone
 * of a child's waker, which may outlive the combinator. Any thread may wake; only the thread that
 * uses the combinator calls the functions below.
 *
 * Rules:
 *   1. `lock` guards the list, the nodes and `parent`.
 *   2. The parent's waker is borrowed: each poll sets it, and it is cleared before the combinator
 *      ends. The runtime's own wakers are woken under the lock. Any other kind is cloned under the
 *      lock, and woken after unlocking.
 *   3. A poll takes the whole list first, and polls only those children. A child that is woken
 *      meanwhile is on the list of the next poll. Wakes during a poll (`polling`) do not wake the
 *      parent. The end of the poll does, once, if the list is not empty.
 *   4. Two numbers tell whether a child keeps its waker: `armed`, the waits of leaves that borrow
 *      it, and the reference count of the wakeset. If a wait is armed or a clone exists, the parent
 *      counts one wait while it is pending. Otherwise, and if no node is woken, no child can be
 *      polled again. That is reported, even without a runtime to detect it. */
#ifndef AW_COMBINATORS_WAKESET_H
#define AW_COMBINATORS_WAKESET_H

#include <awake/alloc.h>
#include <awake/future.h>

typedef struct aw__wakeset aw__wakeset;

typedef struct aw__wakenode {
    aw__wakeset *set;
    struct aw__wakenode *next;
    uint32_t index;
    bool woken; /* on the list */
} aw__wakenode;

struct aw__wakeset {
    uint32_t lock;
    uint32_t refs;               /* atomic */
    aw__child_waits child_waits; /* by the polling thread: see rule 4 */
    bool polling;                /* under the lock */
    bool reported;
    uint32_t count;
    aw_waker parent; /* borrowed; {NULL, NULL} while none waits */
    aw__wakenode *first, *last;
    const aw_allocator *allocator;
    size_t size;
    aw__wakenode nodes[];
};

/* NULL: no memory. `extra` bytes follow the nodes, 16-byte aligned. No node is woken. */
aw__wakeset *aw__wakeset_new(const aw_allocator *a, uint32_t count, size_t extra);
void *aw__wakeset_extra(aw__wakeset *ws);
/* Drops the reference of the combinator. The parent's waker is not used any more. */
void aw__wakeset_drop(aw__wakeset *ws);

/* The combinator stops waiting: wakes are still recorded, but the parent's waker is not used. */
void aw__wakeset_orphan(aw__wakeset *ws);

/* Puts a node on the list without waking the parent, for example that of a new child. */
void aw__wakeset_add(aw__wakeset *ws, uint32_t index);
/* Wakes the parent, if it waits. Returns whether it does. */
bool aw__wakeset_wake_parent(aw__wakeset *ws);

/* One poll (or cancel) of a combinator, for each of its wakesets:
 *     aw__wakeset_begin(ws, &poll, cx);
 *     while ((i = aw__wakeset_next(&poll)) >= 0) ... poll child i with &poll.cx ...
 *     aw__wakeset_end(&poll, pending, self)
 * A poll may end before all were polled: the remaining nodes stay woken. */
typedef struct aw__wakeset_poll {
    aw_cx cx; /* for the children */
    aw_waker waker;
    aw__wakeset *ws;
    aw__wakenode *list, *last; /* still to be polled */
    aw_cx *parent;
    aw__meter meter; /* of the children */
} aw__wakeset_poll;

void aw__wakeset_begin(aw__wakeset *ws, aw__wakeset_poll *p, aw_cx *cx);
int64_t aw__wakeset_next(aw__wakeset_poll *p);
/* `pending`: children that have not ended; 0 if the combinator is about to end or will not wait.
 * `self` is the combinator, for a report. */
void aw__wakeset_end(aw__wakeset_poll *p, size_t pending, const aw_future *self);
/* The combinator ends or stops waiting: disarms the one wait that its parent counts. */
void aw__wakeset_disarm(aw__wakeset *ws, aw_cx *cx);

#endif
