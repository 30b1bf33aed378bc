/* SPDX-License-Identifier: MIT
 *
 * Accepting ahead: one multishot accept of io_uring takes all incoming connections and queues them
 * until they are asked for. Completions arrive on any thread; acceptors poll on any thread. All
 * state is under `lock`.
 *
 *   1. A new connection goes to the waiter that has waited longest, or into the queue. When the
 *      queue has reached `limit`, the operation is cancelled.
 *   2. While no operation is in flight, `idle` is set. An acceptor that finds the queue empty then
 *      submits one from its poll, because only a poll has a driver. When the operation ends, or was
 *      not submitted after all, all waiters are woken to retry, and the first of them submits. No
 *      future owns the submission between two polls, so a future that is cancelled or never polled
 *      again cannot lose it.
 *   3. So at any time the operation is in flight, or a poll is about to submit it, or `idle` is
 *      set. If `idle` is set, every waiter has been woken.
 *   4. The operation is not submitted while connections are pending in the kernel: the kernel would
 *      deliver all of them at once, and exceed the limit again if that is why the last operation
 *      was cancelled. The poll accepts one of them inline instead.
 *   5. An error of the operation goes to one waiter, as if that waiter had called accept itself.
 *      The other waiters retry, and each pauses on its own. Without a waiter the error is kept for
 *      the next acceptor. That may be the one that submitted the operation and was not queued yet.
 *   6. An acceptor on a driver that cannot complete operations (`disables`) has to wait for
 *      readiness of the socket, and would not see what the operation accepts. So the first such
 *      acceptor sets `off`: the operation is cancelled and never submitted again, and when it has
 *      ended all waiters retry and accept on their own. A poll that submits checks `off` once more
 *      afterwards, because the cancel request may have come before there was an operation to
 *      cancel.
 *      An acceptor that cannot wait at all (`bypass`), for example without a runtime, leaves `off`
 *      alone. It accepts on its own, which takes a pending connection or fails.
 *   7. After a fork the child has only copies of the parent's state: an operation that does not
 *      complete there, waiters, and connections that would be served twice. The first use in the
 *      child resets all of it (`generation`). */
#ifndef AW_NET_ACCEPT_AHEAD_H
#define AW_NET_ACCEPT_AHEAD_H

#include "io/driver_for_thread.h"
#include "io/multishot.h"
#include "net/listener.h"

enum { AW__ACCEPT_AHEAD_MAX = 1 << 20 };
enum { AW__ACCEPT_AHEAD_OFF = AW__IO_YIELDED + 1 }; /* `out`: accept without the queue */

typedef struct aw__accept_ahead {
    aw__multishot accept;
    /* Atomic: one of the listener, and one of the operation while it is in flight. */
    uint32_t refs;
    uint32_t lock;       /* guards what follows */
    uint32_t generation; /* fork generation of the owning process; atomic to peek at */
    bool idle, closed, off;
    int error; /* not reported yet, or 0 */
    /* Descriptors in `ring`, which has `slots` entries. It grows when a batch exceeds `limit`. */
    uint32_t limit, first, count, slots;
    int *ring;
    aw__waiters waiters;
    const aw_allocator *allocator;
} aw__accept_ahead;

/* With one reference. It is usable after aw__accept_ahead_open, which borrows the socket. */
aw__accept_ahead *aw__accept_ahead_new(const aw_allocator *a, uint32_t limit);
void aw__accept_ahead_open(aw__accept_ahead *a, aw_conn *listener);
void aw__accept_ahead_drop(aw__accept_ahead *a);
/* Waiters and later acceptors get -EBADF. Queued connections are closed. */
void aw__accept_ahead_close(aw__accept_ahead *a);

/* `out`: a descriptor, AW__ACCEPT_AHEAD_OFF, or a negative errno. Call it in the poll that begins
 * to wait. */
aw__accept_ahead_future aw__accept_ahead_next(aw__accept_ahead *a, const aw_cx *cx);

#endif
