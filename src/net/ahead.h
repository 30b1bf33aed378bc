/* SPDX-License-Identifier: MIT
 *
 * Accepting ahead: one operation of io_uring accepts whoever comes, and the connections wait here for who asks.
 *
 *   1. Who comes is given to who has waited longest, or put into a queue. When as many as wanted are in it, the
 *      operation is asked back.
 *   2. An operation that is not with the system (`idle`) is begun by who finds the queue empty, in his poll, as only that
 *      has a driver. When it ends, or that one did not begin it after all, all who wait are woken to look again: the
 *      first of them begins it. It is in nobody's hands between two polls, so no future that is cancelled, or not polled
 *      any more, takes it with it.
 *   3. So at any time the operation is with the system, or a poll is about to begin it, or `idle` is set; and in the last
 *      case nobody waits who has not been woken.
 *   4. It is not begun while somebody waits in the system: the kernel would hand over all of them at once, as it did
 *      before, when it was asked back because they were too many. That one is accepted by hand.
 *   5. An error of the operation is told to one who waits, as it would be had he accepted by himself; the others look again,
 *      and each of them then pauses by himself. When nobody waits, it is told to the next who asks: that may be the one who
 *      began it, and was not in the queue yet.
 *   6. Who asks where the driver cannot do this (`elsewhere`) has to wait for the socket itself, and would not hear of
 *      who came by the operation. So with the first of them it is over (`off`): the operation is asked back, nobody begins
 *      it again, and when it has ended all look again, and accept by themselves. Who was about to begin it looks once more
 *      when he has, as the question may have come before there was anything to ask for.
 *      Who cannot wait at all, for want of a runtime, say (`alone`), needs none of that: he accepts by himself, which gives
 *      him who is there, or fails.
 *   7. In the child of a fork all of it is the parent's: the operation, which does not come back there, who waits, and the
 *      connections, which would be given out twice. It begins anew with whoever uses it first (`generation`). */
#ifndef AW_NET_AHEAD_H
#define AW_NET_AHEAD_H

#include "io/here.h"
#include "io/many.h"
#include "net/listener.h"

enum { AW__AHEAD_MAX = 1 << 20 };
enum { AW__AHEAD_OFF = AW__IO_LATER + 1 }; /* `out` of who is to accept by himself */

typedef struct aw__ahead {
    aw__many accept;
    uint32_t refs;       /* atomic: of the listener, and of the operation while it runs */
    uint32_t lock;       /* guards what follows */
    uint32_t generation; /* atomic to peek at: of the process whose it is */
    bool idle, closed, off;
    int error;                          /* that nobody has been told, or 0 */
    uint32_t most, first, count, slots; /* of descriptors in the ring */
    int *ring;
    aw__waiters waiters;
    const aw_allocator *allocator;
} aw__ahead;

/* Of one reference. It can be used when it has been opened, with the socket, which it only borrows. */
aw__ahead *aw__ahead_new(const aw_allocator *a, uint32_t most);
void aw__ahead_open(aw__ahead *a, aw_conn *listener);
void aw__ahead_drop(aw__ahead *a);
/* Who waits is told -EBADF, and so is who comes later; those in the queue are closed. */
void aw__ahead_close(aw__ahead *a);

/* `out`: a descriptor, AW__AHEAD_OFF, or a negative errno. For a wait that begins in this poll. */
aw__ahead_future aw__ahead_next(aw__ahead *a, const aw_cx *cx);

#endif
