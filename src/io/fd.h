/* SPDX-License-Identifier: MIT
 *
 * A descriptor and the operations that wait for it. With a driver that submits operations see
 * completion.c; otherwise:
 *
 *   1. An operation first tries its system call. If that would block, it waits for readiness:
 *      `ready` has a bit for each direction, and a tick that grows with each event. A call that
 *      would block clears its bit only if the tick is the one read before the call: an event that
 *      came in between is not lost. On a TCP connection a short read has left nothing, and clears
 *      the bit as well. (Elsewhere it may leave data: a Unix socket stops where the sender changes,
 *      or where descriptors are passed.) An event that reports more than data sets AW__MORE: then
 *      the next read tries, whatever the last one returned.
 *   2. A waiter checks `ready` once more under the lock, then links itself. An event sets
 *      `ready` first, then takes the lock and wakes all that are linked. So one of the two sees
 *      the other.
 *   3. A descriptor begins with both bits set. It is registered with a driver when it first has to
 *      wait. It moves to another runtime's driver when it has to wait there, and no operation waits
 *      for it elsewhere.
 *   4. Each operation holds a reference from its first poll to its end, also across a close. The
 *      last reference calls close(2), so no system call ever hits a reused number. A close ends all
 *      waits, and all later operations, with -EBADF. */
#ifndef AW_IO_FD_H
#define AW_IO_FD_H

#include <limits.h>

#include <awake/io.h>

#include "base/atomic.h"
#include "io/driver.h"

typedef struct aw__fd aw__fd;

/* `closed` is called once, after close(2), by the thread that drops the last reference. */
typedef struct aw__fd_close_hook {
    void (*closed)(struct aw__fd_close_hook *hook);
    const aw_allocator *allocator; /* also of the aw__fd */
} aw__fd_close_hook;

/* Many programs consist mostly of these: with what malloc adds it is 64 bytes. */
struct aw__fd {
    aw_conn conn;
    uint32_t refs;  /* atomic */
    uint32_t ready; /* atomic: AW__READABLE, AW__WRITABLE, AW__MORE, AW__SHUT, and the tick */
    int fd;
    bool socket : 1, borrowed : 1;
    bool restores_nonblock : 1; /* not a socket, taken over by aw_conn_of_fd: see nonblock.h */
    bool tcp : 1;               /* TCP: a short read has left nothing */
    int16_t error;              /* why all operations fail, or 0; atomic for unlocked reads */
    uint32_t lock;              /* guards `error`, and the members below */
    uint32_t index;             /* slot in the driver's table */
    aw__driver *driver;         /* NULL: not registered; atomic for unlocked reads */
    aw__waiter *waiters;        /* the first waiter; its `prev` is the last */
    uintptr_t owner;            /* its allocator; or, tagged odd, its aw__fd_close_hook */
};
_Static_assert(sizeof(aw__fd) <= 56, "see above");

extern const aw_conn_type aw__fd_type;

static inline void aw__fd_ref(aw__fd *f) {
    aw__fetch_add_relaxed(&f->refs, 1u);
}
/* For a descriptor found in a table. False: the last reference is gone, and it is about to be
 * removed from the table. */
static inline bool aw__fd_try_ref(aw__fd *f) {
    uint32_t refs = aw__load_relaxed(&f->refs);
    while (refs && !aw__cas(&f->refs, &refs, refs + 1))
        ;
    return refs;
}
void aw__fd_unref(aw__fd *f);
/* `fd` is non-blocking and close-on-exec already. An accepted descriptor is of the same kind as its
 * listener; `hook` may be NULL. */
int aw__fd_new(aw_conn **out, int fd);
int aw__fd_new_accepted(aw_conn **out, int fd, const aw__fd *listener, aw__fd_close_hook *hook);

/* The waiters, in order of arrival; under the lock. Not a tailq (base/list.h): the pointer to the
 * last waiter is in the first one, because a second pointer here would exceed the 56 bytes. */
static inline void aw__fd_link(aw__fd *f, aw_io *op) {
    aw__waiter *w = (aw__waiter *)op, *first = f->waiters;
    w->prev = first ? first->prev : w;
    w->next = NULL;
    if (!first) {
        f->waiters = w;
        return;
    }
    w->prev->next = w;
    first->prev = w;
}
static inline void aw__fd_unlink(aw__fd *f, aw_io *op) {
    aw__waiter *w = (aw__waiter *)op;
    if (w->next)
        w->next->prev = w->prev;
    else
        f->waiters->prev = w->prev; /* it was the last */
    if (f->waiters == w)
        f->waiters = w->next;
    else
        w->prev->next = w->next;
    w->next = w->prev = NULL;
}

/* Flags of an operation: what to release, and how far it is. While the operation waits, they change
 * under the lock; and atomically while it is in a driver's table, because the driver reads them
 * without this lock. A wait that is over without a result has AW__IO_AGAIN as `out`. */
enum {
    AW__IO_REFERENCED = 1,        /* holds a reference */
    AW__IO_CONNECTING = 2,        /* connect(2) has been called */
    AW__IO_INLINE = 4,            /* made by a system call here; the kernel only polls */
    AW__IO_POLLED = 8,            /* a poll for readiness is submitted */
    AW__IO_CANCEL_REQUESTED = 16, /* by a cancel, a close, or a shutdown */
    AW__IO_MULTISHOT = 32,        /* completes more than once: multishot.h */
    AW__IO_FOREIGN = 64           /* waits with the driver of another runtime */
};
/* In `ready`: shut down for writing, so that a write fails at once. Not every kind of socket
 * reports that as writable. */
enum { AW__SHUT = 8 };
enum { AW__IO_AGAIN = INT_MIN, AW__IO_PENDING, AW__IO_YIELDED };

/* AW__READABLE or AW__WRITABLE. */
static inline uint32_t aw__io_direction(const aw_io *op) {
    const uint32_t readers = 1u << AW_IO_READ | 1u << AW_IO_READV | 1u << AW_IO_RECVMSG |
                             1u << AW_IO_ACCEPT | 1u << AW_IO_READABLE;
    return readers >> op->wants & 1 ? AW__READABLE : AW__WRITABLE;
}
bool aw__io_has_too_many_parts(const aw_io *op);
/* Makes the operation's system call: its result, or AW__IO_AGAIN where it would block. */
int aw__io_syscall(aw_io *op);
/* poll(2) of one descriptor, without waiting: 0, AW__IO_AGAIN, or a negative errno. */
int aw__io_poll_now(int fd, short events);
/* completion.c: submit it to the kernel. Its result, AW__IO_AGAIN, AW__IO_PENDING; or
 * AW__IO_YIELDED: not possible now, and the task has been woken. */
int aw__io_submit(aw_io *op, aw_cx *cx);
/* Takes the result of a completed operation. */
int aw__io_take_result(aw_io *op);
/* Cancels an operation with `driver` set; `*answer` is that of the cancel. The
 * result AW__IO_AGAIN, as after -ECANCELED, becomes CANCELLED; any other is READY. False: in a
 * forked child, where it counts as never submitted (rule 5 of completion.c). */
bool aw__io_cancel_submitted(aw_io *op, aw_cx *cx, aw_poll *answer);
/* Called and return with the descriptor's lock held: cancel this operation, or all of these
 * directions, if in flight. */
void aw__fd_cancel_op(aw__fd *f, aw_io *op);
void aw__fd_cancel_ops(aw__fd *f, uint32_t directions);

/* By the driver: an operation has completed, or with `more` one part of it. */
void aw__fd_complete(aw_io *op, int result, bool more);
/* By the driver: the descriptor is ready; or the driver is closed. */
void aw__fd_ready(aw__fd *f, uint32_t directions);
void aw__fd_driver_gone(aw__fd *f, const aw__driver *d);

#endif
