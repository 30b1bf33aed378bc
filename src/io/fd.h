/* SPDX-License-Identifier: MIT
 *
 * A descriptor and who waits for it.
 *
 *   1. An operation first tries the system call. If that would block, it waits for readiness: `ready` has a bit for each
 *      direction and a tick that grows with each event. Who was told "would block" clears its bit only if the tick
 *      is still the one that it saw before the call: an event that came in between is not lost.
 *      On a TCP connection a read that got less than it asked for has left nothing, and clears the bit as well. (Elsewhere
 *      it may have: a Unix socket stops where the sender changes, or passes descriptors.) An event that says more than that
 *      there is data sets AW__MORE: then the next read tries, whatever the last one got.
 *   2. Who waits looks at `ready` once more under the lock, and then links itself. Who has an event sets `ready`, and then
 *      takes the lock and wakes all that are linked: one of them sees the other.
 *   3. It begins with both bits set, and is registered with a driver only when it has to wait for the first time;
 *      with that of another runtime, when it has to wait there and nobody waits for it elsewhere.
 *   4. Each operation holds a reference from its first poll to its end, whoever closes meanwhile: the number is
 *      given back to the system (close) when the last one is gone, so no call goes to another's descriptor. A
 *      close ends all that wait, and what comes later, with -EBADF. */
#ifndef AW_IO_FD_H
#define AW_IO_FD_H

#include <limits.h>

#include <awake/io.h>

#include "core/atomic.h"
#include "driver/driver.h"

typedef struct aw__fd aw__fd;

/* Who wants to know that a descriptor has been closed: told once, by whoever let go last. */
typedef struct aw__fd_end {
    void (*gone)(struct aw__fd_end *end);
    const aw_allocator *allocator; /* of the descriptor too */
} aw__fd_end;

/* Many programs have little else than many of these: with what malloc adds it is 64 bytes. */
struct aw__fd {
    aw_conn conn;
    uint32_t refs;  /* atomic */
    uint32_t ready; /* atomic: AW__READABLE, AW__WRITABLE, AW__MORE, AW__SHUT, and the tick */
    int fd;
    bool socket : 1, borrowed : 1;
    bool drains : 1;     /* a read that gets less than it asked for has left nothing: TCP */
    int16_t error;       /* why nothing goes on any more, or 0; atomic to peek at */
    uint32_t lock;       /* guards that, and what follows */
    uint32_t index;      /* with the driver */
    aw__driver *driver;  /* NULL: not registered; atomic to peek at */
    aw__waiter *waiters; /* the first of those that wait; its `prev` is the last */
    uintptr_t owner;     /* its allocator; or, odd, its aw__fd_end, which knows that */
};
_Static_assert(sizeof(aw__fd) <= 56, "see above");

extern const aw_conn_type aw__fd_type;

static inline void aw__fd_keep(aw__fd *f) {
    aw__fetch_add_relaxed(&f->refs, 1u);
}
/* Of one that is found in a table: false, when the last one has just let go, and is about to take it out. */
static inline bool aw__fd_try_keep(aw__fd *f) {
    uint32_t refs = aw__load_relaxed(&f->refs);
    while (refs && !aw__cas(&f->refs, &refs, refs + 1))
        ;
    return refs;
}
void aw__fd_let_go(aw__fd *f);
/* Of one that does not block, and is closed on exec. And of one of the same kind as a listener; `end` may be NULL. */
int aw__fd_new(aw_conn **out, int fd);
int aw__fd_new_accepted(aw_conn **out, int fd, const aw__fd *listener, aw__fd_end *end);

/* Who waits, first come first; under the lock. */
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

/* Of operations, in both files: what is to be given back, and how far it is; while it waits, under the lock. `out` of
 * a wait that is over, but has no result yet, is AW__IO_AGAIN. */
enum {
    AW__IO_HELD = 1,        /* a reference */
    AW__IO_CONNECTING = 2,  /* the call has been made */
    AW__IO_BY_HAND = 4,     /* the system will only say when */
    AW__IO_POLLED = 8,      /* it is asked to */
    AW__IO_ASKED_BACK = 16, /* by a cancel, a close, or a shutdown */
    AW__IO_MANY = 32,       /* it comes back more than once: many.h */
    AW__IO_GUEST = 64       /* it waits with the driver of another runtime */
};
/* In `ready` of a descriptor: it has been shut down, and is writable: a write fails at once. Not every kind says so. */
enum { AW__SHUT = 8 };
enum { AW__IO_AGAIN = INT_MIN, AW__IO_WAITS, AW__IO_LATER };

/* AW__READABLE or AW__WRITABLE. */
static inline uint32_t aw__io_direction(const aw_io *op) {
    const uint32_t readers = 1u << AW_IO_READ | 1u << AW_IO_READV | 1u << AW_IO_RECVMSG |
                             1u << AW_IO_ACCEPT | 1u << AW_IO_READABLE;
    return readers >> op->wants & 1 ? AW__READABLE : AW__WRITABLE;
}
bool aw__io_has_too_many_parts(const aw_io *op);
/* The system call: its result, or AW__IO_AGAIN where it would block. */
int aw__io_call(aw_io *op);
/* given.c: have the system do it. Its result, AW__IO_AGAIN, AW__IO_WAITS; or AW__IO_LATER: not now, and it has been
 * woken. */
int aw__io_give(aw_io *op, aw_cx *cx);
/* Whether the system has it, or had it and it has not been taken. */
bool aw__io_is_given(aw_io *op);
/* What has come back. */
int aw__io_take(aw_io *op);
aw_poll aw__io_take_back(aw_io *op, aw_cx *cx);
/* With the lock of the descriptor, and again afterwards: ask for this one, or for all of these directions, if the system
 * has it. */
void aw__fd_ask_for(aw__fd *f, aw_io *op);
void aw__fd_ask_back(aw__fd *f, uint32_t directions);

/* By the driver: this is done, or with `more` one part of it; */
void aw__fd_came_back(aw_io *op, int result, bool more);
/* this is ready; and: there is no driver any more. */
void aw__fd_ready(aw__fd *f, uint32_t directions);
void aw__fd_orphan(aw__fd *f);

#endif
