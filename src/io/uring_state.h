/* SPDX-License-Identifier: MIT
 *
 * The io_uring backend: its state, its protocol, and the functions that its files share. An
 * operation is submitted with the caller's own buffer, which the kernel uses until the operation
 * completes. "The lock" in these files is the driver's, which is taken after the descriptor's.
 *
 *     uring.c            open and close; submit, enter, reap and sleep; the probe
 *     uring_cancel.c     cancel requests; failing operations that are still queued
 *     uring_owner.c      ring ownership: adopt, replace, drain, share
 *     uring_forbidden.c  once the process may not enter its rings any more
 *     uring_ring.h       an io_uring instance
 *
 *   1. Several threads use a ring: its worker, threads that cancel or close, and the monitor when
 *      the worker is stuck. The driver's lock guards filling the SQ and reaping the CQ. System
 *      calls are made without it.
 *   2. What a worker queues on its own ring is submitted when it collects events or goes to sleep,
 *      all in one call. A thread that queues on another ring calls `flush`.
 *   3. The user_data of an operation is its address. Odd values belong to the backend. An accept is
 *      two SQEs: a poll, and linked to it an accept that does not wait. The user_data of the poll
 *      is the address plus 1, which the reap maps back to the operation. A cancel names the poll,
 *      and the accept is cancelled with it. The pair posts one CQE: that of the accept, or of a
 *      poll that failed (the kernel skips the accept's when a poll with CQE_SKIP_SUCCESS fails).
 *      This holds only if one enter submits both. So both are queued at once; and where several
 *      threads enter, each submits all that is queued when the kernel looks. A count taken earlier
 *      would be wrong: other threads may have submitted some meanwhile.
 *   4. SQEs with an odd user_data, other than that poll:
 *      - A multishot poll of an eventfd ends a sleep: each write is one completion.
 *      - The user_data of a cancel names the table slot of its operation.
 *      - The kernel does not find an operation that it is about to retry (-ENOENT). If the slot
 *        still holds an operation to be cancelled, the cancel is queued again.
 *      - When a cancel finds the SQ full, `cancel_backlog` is set: the next thread that enters
 *        queues cancels for all marked operations. So the call that cancels never waits for space
 *        in the SQ.
 *   5. When a thread exits, the kernel cancels what that thread submitted. It is submitted again
 *      (io/completion.c).
 *   6. A ring with an owner (SINGLE_ISSUER) is entered by that thread only. DEFER_TASKRUN:
 *      completions run only when the owner enters the ring, so they never interrupt its other work.
 *      Other threads queue cancels there, and interrupt the owner's sleep. The ring belongs to the
 *      thread that first collected from it. A later owner opens a new ring and takes over the
 *      queue; so an owner that leaves drains everything in flight. Before Linux 6.1 there are no
 *      such rings: the driver then has no owner.
 *   7. Once the process is forbidden to enter its rings (seccomp), new operations are refused, and
 *      queued ones fail with -EACCES. They fail only while no thread that could submit them is in
 *      the kernel: a thread increments `entering` before it loads `forbidden`, both sequentially
 *      consistent. The owner then sleeps on the eventfd alone. Operations in flight are lost,
 *      unless the kernel completes them by itself.
 *   8. A shared ring (rule 6 of driver.h) has no owner, and no eventfd of its own: the kernel
 *      writes to the primary's eventfd for each completion. That eventfd is never read (except by
 *      rule 7), so a poll that is armed later completes at once: no completion is missed between
 *      two polls, at the price of one extra wake-up per arming. (The kernel ends the multishot poll
 *      each time, so that rings cannot wake each other in circles.) */
#ifndef AW_IO_URING_STATE_H
#define AW_IO_URING_STATE_H

#include "io/uring.h"

#ifdef AW_URING /* built with liburing */

#include <sys/socket.h>

#include "base/atomic.h"
#include "io/fd.h"
#include "io/uring_ring.h"
#include "os/thread.h"

/* Entries of the SQ and of the CQ. */
enum { AW__URING_SUBMISSIONS = 256, AW__URING_COMPLETIONS = 4096 };
/* Tags of user_data. The other bits of a cancel are the slot of its operation plus 1; or 0: no
 * operation, a no-op in place of a queued operation that was failed. */
enum { AW__URING_TAG_WAKE = 1, AW__URING_TAG_CANCEL = 3, AW__URING_TAG_MASK = 3 };

typedef struct uring_driver {
    aw__driver driver;
    aw__uring ring;
    int wake_fd;
    uint64_t adopter;       /* atomic: thread that adopted a ring with an owner; 0: none yet */
    bool armed;             /* the eventfd is polled; of a shared ring: by the primary */
    uint32_t unfinished;    /* operations that are queued or in flight */
    bool cancel_backlog;    /* some cancels are not queued (rule 4); atomic for unlocked reads */
    uint32_t cancel_cursor; /* the next slot to look at for the backlog */
    int forbidden;          /* atomic: -EACCES once entering is forbidden (rule 7); or 0 */
    uint32_t entering;      /* atomic: threads that are in io_uring_enter */
    /* For the SQE of the same index. The kernel reads it at submission. */
    struct msghdr msghdrs[AW__URING_SUBMISSIONS];
} uring_driver;

/* ---- Operations ------------------------------------------------------------------------------ */

/* Whether it is an accept with a poll in front (rule 3), and the user_data of that poll. */
static inline bool aw__uring_has_linked_poll(const struct aw_io *op) {
    return op->wants == AW_IO_ACCEPT &&
           !(aw__load_relaxed(&op->flags) & (AW__IO_MULTISHOT | AW__IO_POLLED));
}
static inline uint64_t aw__uring_linked_poll_user_data(const struct aw_io *op) {
    return (uintptr_t)op + 1;
}

/* Under the lock: the kernel is done with the operation, or never got it. */
static inline void aw__uring_release_slot(uring_driver *u, const struct aw_io *op) {
    aw__slots_take(&u->driver.table, op->index);
    u->unfinished--;
}

/* uring.c. Under the lock: take up to AW__EVENTS completions out of the CQ. `woken`: there was an
 * interrupt. */
int aw__uring_reap(uring_driver *u, aw__event *events, bool *woken);

/* ---- Cancels: uring_cancel.c ----------------------------------------------------------------- */

/* `cancel` of the driver. Any thread, without the driver's lock; the descriptor's is held. */
void aw__uring_cancel(aw__driver *d, struct aw_io *op);

/* Under the lock: the cancel with this user_data completed with -ENOENT. */
void aw__uring_retry_cancel(uring_driver *u, uint64_t user_data);

/* Under the lock: queue the cancels that found the SQ full, as many as fit. */
void aw__uring_push_cancel_backlog_slow(uring_driver *u);
static inline void aw__uring_push_cancel_backlog(uring_driver *u) {
    if (AW__UNLIKELY(u->cancel_backlog)) aw__uring_push_cancel_backlog_slow(u);
}

/* Under the lock: queue cancels for all operations from slot `*cursor` on, as many as fit. Returns
 * how many SQEs to submit, with those queued before. */
uint32_t aw__uring_push_cancel_batch(uring_driver *u, uint32_t *cursor);

/* Under the lock: take up to AW__EVENTS operations out of the SQ, as completed with `error`. Only
 * while no thread can enter. */
int aw__uring_fail_queued(uring_driver *u, aw__event *events, int error);

/* Without the lock: fail all that is queued, or all multishot operations among it, with -ECANCELED,
 * and deliver that. Only while no other thread can enter. */
void aw__uring_fail_all_queued(uring_driver *u);
void aw__uring_fail_queued_multishots(uring_driver *u);

/* ---- Ownership: uring_owner.c ---------------------------------------------------------------- */

/* Whether this thread may adopt the ring: it is the owner, or there is none. */
static inline bool aw__uring_may_adopt(const aw__driver *d) {
    /* Acquire: a thread that sees NULL also sees the new ring (aw__uring_share). */
    const uint64_t *owner = aw__load_acquire(&d->owner);
    return !owner || aw__load_relaxed(owner) == aw__os_thread_number();
}

/* Whether the kernel lets this thread enter now: it has adopted the ring, or the ring has no
 * owner. */
static inline bool aw__uring_can_enter(const uring_driver *u) {
    return !aw__load_acquire(&u->driver.owner) ||
           aw__load_relaxed(&u->adopter) == aw__os_thread_number();
}

/* By a thread that may adopt the ring: make sure that it can enter. False: not possible now or, by
 * rule 7, ever. */
bool aw__uring_adopt_slow(uring_driver *u);
static inline bool aw__uring_adopt(uring_driver *u) {
    return AW__LIKELY(aw__uring_can_enter(u)) || aw__uring_adopt_slow(u);
}

/* `drain` and `share` of the driver. */
void aw__uring_drain(aw__driver *d);
int aw__uring_share(aw__driver *d);

/* ---- Rule 7: uring_forbidden.c --------------------------------------------------------------- */

/* Entering failed with `error`, for good. Logs it the first time. Any thread. */
void aw__uring_mark_forbidden(uring_driver *u, int error);

/* `collect` from then on. */
int aw__uring_collect_without_entering(uring_driver *u, aw__event *events, uint64_t deadline);

#endif
#endif
