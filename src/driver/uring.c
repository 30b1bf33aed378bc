/* SPDX-License-Identifier: MIT
 *
 * io_uring: an operation is given to the system, with the caller's own buffer, and comes back when it is done.
 *
 *   1. The ring is used by several threads: its worker, those that have work for its operations (a cancel, a close),
 *      and the monitor when the worker is stuck. Filling the one queue and emptying the other is under the driver's
 *      lock; system calls are made without it.
 *   2. What a worker queues on its own ring is handed over when it looks for events or goes to sleep, all in one call. Who
 *      queues something elsewhere calls `flush`.
 *   3. An operation has its own address as its mark; the odd ones are of this file.
 *   4. An eventfd that is polled ends a sleep: each write to it is one completion.
 *   5. When a thread ends, the system cancels what that thread had handed over: it is given again (io/given.c).
 *   6. A ring with an owner is entered by that one only, and completes nothing while he does not ask, so that what he
 *      does elsewhere is not interrupted; others put into its queue, and interrupt his sleep. It belongs to the thread that first looked into it: a later owner makes another one, and takes over what
 *      is queued. So who leaves has everything come back that the system has. Systems before 6.1 have no such rings:
 *      then it is like the others. */
#define _GNU_SOURCE
#include "driver/uring.h"

#include <errno.h>

#include "driver/uring_ring.h"

#ifdef AW__HAVE_URING

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lock.h"
#include "io/fd.h"
#include "io/here.h"
#include "os/fork.h"
#include "os/park.h"
#include "os/thread.h"

enum { SUBMISSIONS = 256, COMPLETIONS = 4096, MOST = 0x7ffff000 };
enum { WAKE = 1, IGNORED = 3 }; /* marks */

typedef struct uring_driver {
    aw__driver driver;
    aw__uring ring;
    int wake;
    uint64_t thread; /* atomic: with an owner: whose ring it is; 0: nobody's yet */
    bool armed;      /* the eventfd is polled */
    uint32_t inside; /* operations that the system has */
    /* For the submission in the same place, which reads it when it is handed over. */
    struct msghdr heads[SUBMISSIONS];
} uring_driver;

static void *pointer(uint64_t mark) {
    return (void *)(uintptr_t)mark;
}
static uint64_t mark_of(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

static int uring_open(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    int error = aw__uring_open(&u->ring, SUBMISSIONS, COMPLETIONS, d->owner);
    if (error == -ENOSYS && d->owner) {
        d->owner = NULL;
        error = aw__uring_open(&u->ring, SUBMISSIONS, COMPLETIONS, false);
    }
    if (error) return error;
    u->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (u->wake >= 0) return 0;
    error = -errno;
    aw__uring_close(&u->ring);
    return error;
}

static void uring_close(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    close(u->wake);
    if (d->generation == aw__fork_generation)
        aw__uring_close(&u->ring);
    else
        close(u->ring.fd); /* its memory is not there, and something else may be in its place */
}

/* ---- Into the ring ---------------------------------------------------------------------------- */

static void prepare(struct io_uring_sqe *s, uint8_t what, int fd, const void *data, size_t size) {
    s->opcode = what;
    s->fd = fd;
    s->addr = mark_of(data);
    s->len = (uint32_t)(size < MOST ? size : MOST);
}

static void prepare_poll(struct io_uring_sqe *s, int fd, uint32_t events) {
    prepare(s, IORING_OP_POLL_ADD, fd, NULL, 0);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    events = events << 16 | events >> 16;
#endif
    s->poll32_events = events;
}

/* Those that move bytes: `-1` is wherever the file stands. */
static void prepare_file(struct io_uring_sqe *s, uint8_t what, int fd, const void *data,
                         size_t size) {
    prepare(s, what, fd, data, size);
    s->off = UINT64_MAX;
}

static void prepare_message(struct io_uring_sqe *s, uint8_t what, int fd, const void *head,
                            uint32_t flags) {
    prepare(s, what, fd, head, 1);
    s->msg_flags = flags;
}

static void prepare_operation(uring_driver *u, struct io_uring_sqe *s, const aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    struct msghdr *head = &u->heads[s - u->ring.sqes];
    switch (op->wants) {
    case AW_IO_READ:
        if (f->socket)
            prepare(s, IORING_OP_RECV, f->fd, op->data, op->size);
        else
            prepare_file(s, IORING_OP_READ, f->fd, op->data, op->size);
        break;
    case AW_IO_READV: prepare_file(s, IORING_OP_READV, f->fd, op->data, op->size); break;
    case AW_IO_WRITE:
        prepare(s, IORING_OP_SEND, f->fd, op->data, op->size);
        s->msg_flags = MSG_NOSIGNAL;
        break;
    case AW_IO_WRITEV:
        *head = (struct msghdr){.msg_iov = op->data, .msg_iovlen = op->size};
        prepare_message(s, IORING_OP_SENDMSG, f->fd, head, MSG_NOSIGNAL);
        break;
    case AW_IO_RECVMSG:
        prepare_message(s, IORING_OP_RECVMSG, f->fd, op->data,
                        (uint32_t)op->size | MSG_CMSG_CLOEXEC);
        break;
    case AW_IO_SENDMSG:
        prepare_message(s, IORING_OP_SENDMSG, f->fd, op->data, (uint32_t)op->size | MSG_NOSIGNAL);
        break;
    case AW_IO_ACCEPT:
        prepare(s, IORING_OP_ACCEPT, f->fd, NULL, 0);
        s->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
        break;
    case AW_IO_CONNECT:
        prepare(s, IORING_OP_CONNECT, f->fd, op->data, 0);
        s->off = op->size;
        break;
    }
}

/* Whether this thread may make the ring its own. */
static bool is_own(const aw__driver *d) {
    const uint64_t *owner = aw__load_acquire(&d->owner); /* and then the ring that all may enter */
    return !owner || aw__load_relaxed(owner) == aw__os_thread_number();
}

/* Whether it has. */
static bool is_mine(const uring_driver *u) {
    return !aw__load_acquire(&u->driver.owner) ||
           aw__load_relaxed(&u->thread) == aw__os_thread_number();
}

/* Under the lock. Others than the owner leave half of it, so that each of theirs can be asked back while nobody
 * empties it. */
static bool leaves_room(const uring_driver *u) {
    return aw__uring_queued(&u->ring) < SUBMISSIONS / 2 - 1;
}
static bool has_room(const uring_driver *u) {
    return is_mine(u) || leaves_room(u);
}

static int uring_submit(aw__driver *d, struct aw_io *op, uint32_t poll) {
    uring_driver *u = (uring_driver *)d;
    aw__lock(&d->lock);
    struct io_uring_sqe *s = d->closed || !has_room(u) ? NULL : aw__uring_next(&u->ring);
    int error = s ? 0 : d->closed ? -ESHUTDOWN : -EBUSY;
    if (s) {
        if (poll)
            prepare_poll(s, ((aw__fd *)op->conn)->fd,
                         poll == AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : POLLOUT);
        else
            prepare_operation(u, s, op);
        s->user_data = mark_of(op);
        aw__uring_push(&u->ring);
        u->inside++;
        aw__count_one(poll ? &d->counters.waits : &d->counters.operations);
    }
    aw__unlock(&d->lock);
    return error;
}

static int uring_cancel(aw__driver *d, struct aw_io *op) {
    uring_driver *u = (uring_driver *)d;
    aw__lock(&d->lock);
    struct io_uring_sqe *s = aw__uring_next(&u->ring);
    if (s) {
        prepare(s, IORING_OP_ASYNC_CANCEL, -1, op, 0);
        s->user_data = IGNORED;
        aw__uring_push(&u->ring);
    }
    aw__unlock(&d->lock);
    return s ? 0 : -EBUSY;
}

static void uring_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((uring_driver *)d)->wake, 1);
    errno = saved;
}

static void enter(uring_driver *u, uint64_t deadline) {
    aw__count_call(&u->driver);
    aw__uring_enter(&u->ring, aw__uring_queued(&u->ring), deadline);
    /* It failed: the system is short of something. The owner, who may sleep, tries again. */
    if (aw__uring_queued(&u->ring) && !aw__driver_is_own(&u->driver)) uring_interrupt(&u->driver);
}

static void uring_flush(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    if (!is_own(d) || !is_mine(u))
        uring_interrupt(d); /* the owner will do it; nobody else would find what comes back */
    else if (aw__uring_queued(&u->ring))
        enter(u, 0);
}

/* ---- Out of the ring -------------------------------------------------------------------------- */

/* Under the lock. When the queue is full it is done next time: then this thread does not sleep either. */
static void arm(uring_driver *u) {
    struct io_uring_sqe *s = u->armed ? NULL : aw__uring_next(&u->ring);
    if (!s) return;
    prepare_poll(s, u->wake, POLLIN);
    s->len = IORING_POLL_ADD_MULTI;
    s->user_data = WAKE;
    aw__uring_push(&u->ring);
    u->armed = true;
}

/* Under the lock. `woken`: an interrupt is among them. */
static int reap(uring_driver *u, aw__event *events, bool *woken) {
    int count = 0;
    struct io_uring_cqe *c;
    for (; count < AW__EVENTS && (c = aw__uring_peek(&u->ring)); aw__uring_pop(&u->ring)) {
        if (c->user_data == WAKE) {
            u->armed = c->flags & IORING_CQE_F_MORE;
            *woken = true;
        }
        if (c->user_data & 1) continue;
        events[count].op = pointer(c->user_data);
        events[count++].result = c->res;
        u->inside--;
    }
    return count;
}

/* Under the lock: what was queued, in the same order. */
static void move_queue(uring_driver *u, const aw__uring *from, aw__uring *to) {
    struct msghdr heads[SUBMISSIONS];
    memcpy(heads, u->heads, sizeof heads);
    for (uint32_t at = aw__load_acquire(from->sq_head); at != *from->sq_tail; at++) {
        uint32_t place = at & from->sq_mask;
        const struct io_uring_sqe *old = &from->sqes[place];
        if (old->user_data == WAKE) continue; /* it will be armed again */
        struct io_uring_sqe *s = aw__uring_next(to);
        *s = *old;
        if (old->addr == mark_of(&u->heads[place])) {
            s->addr = mark_of(&u->heads[s - to->sqes]);
            u->heads[s - to->sqes] = heads[place];
        }
        aw__uring_push(to);
    }
}

/* Under the lock. The system has nothing of the one that there is. */
static int replace(uring_driver *u, bool alone) {
    aw__uring ring;
    int error = aw__uring_open(&ring, SUBMISSIONS, COMPLETIONS, alone);
    if (error) return error;
    move_queue(u, &u->ring, &ring);
    aw__uring_close(&u->ring);
    u->ring = ring;
    u->armed = false;
    aw__store_relaxed(&u->thread, (uint64_t)0);
    return 0;
}

/* By the owner: make the ring his. False: that is not possible now. */
static bool adopt(uring_driver *u) {
    if (AW__LIKELY(is_mine(u))) return true;
    aw__lock(&u->driver.lock);
    int error = u->thread ? replace(u, true) : 0;
    if (!error) error = aw__uring_enable(&u->ring);
    if (!error) aw__store_relaxed(&u->thread, aw__os_thread_number());
    aw__unlock(&u->driver.lock);
    return !error;
}

/* An interrupt was found by one who only looks: the owner may be about to sleep. */
static void pass_on(uring_driver *u) {
    bool armed = false;
    for (int tries = 0; tries < 2 && !armed; tries++) { /* the queue may be full, once */
        aw__lock(&u->driver.lock);
        arm(u);
        armed = u->armed;
        aw__unlock(&u->driver.lock);
        if (aw__uring_queued(&u->ring)) enter(u, 0);
    }
    uring_interrupt(&u->driver);
}

static int uring_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    uring_driver *u = (uring_driver *)d;
    bool woken = false, looks = !deadline;
    if (!is_own(d)) {       /* nothing is there that its owner does not find */
        aw__lock(&d->lock); /* the next owner may be about to make another ring of it */
        bool queued = aw__uring_queued(&u->ring);
        aw__unlock(&d->lock);
        if (queued) uring_interrupt(d);
        return 0;
    }
    if (!adopt(u)) {
        if (deadline) aw__os_nap(); /* too many descriptors, or no memory: it may be better soon */
        return 0;
    }
    aw__lock(&d->lock);
    arm(u);
    if (!u->armed) deadline = 0;
    int count = reap(u, events, &woken);
    aw__unlock(&d->lock);
    if (count || woken) deadline = 0;
    if (deadline || aw__uring_queued(&u->ring) || (!count && aw__uring_holds_back(&u->ring)))
        enter(u, deadline);
    if (count == 0) {
        aw__lock(&d->lock);
        count = reap(u, events, &woken);
        aw__unlock(&d->lock);
    }
    if (woken && looks && !aw__driver_is_own(d)) pass_on(u);
    return count;
}

static int uring_pollable(aw__driver *d) {
    return ((uring_driver *)d)->ring.fd;
}

/* Under the lock: how many operations are queued, and not handed over. */
static uint32_t count_queued(const uring_driver *u) {
    uint32_t count = 0;
    for (uint32_t at = aw__load_acquire(u->ring.sq_head); at != *u->ring.sq_tail; at++)
        count += !(u->ring.sqes[at & u->ring.sq_mask].user_data & 1);
    return count;
}

/* Under the lock: cancel whatever there is. False: the queue is full. */
static bool push_cancel_all(uring_driver *u) {
    struct io_uring_sqe *s = aw__uring_next(&u->ring);
    if (!s) return false;
    prepare(s, IORING_OP_ASYNC_CANCEL, -1, NULL, 0);
    s->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
    s->user_data = IGNORED;
    aw__uring_push(&u->ring);
    return true;
}

/* Everything that the system has comes back. What is queued stays there for the next owner; unless it is the end, or
 * more than is left to others: then it is handed over first. */
static void bring_back(uring_driver *u, bool all) {
    aw__event events[AW__EVENTS];
    bool woken = false;
    for (int round = 0;; round++) {
        aw__lock(&u->driver.lock);
        bool full = round == 0 && !leaves_room(u);
        uint32_t inside = u->inside - (all || full ? 0 : count_queued(u)), submit = 0;
        /* Those in front of it go with it. Once should do: but what if it was too early for one of them? */
        if (inside && round % 16 == 0)
            submit = push_cancel_all(u) ? aw__uring_queued(&u->ring) : SUBMISSIONS;
        aw__unlock(&u->driver.lock);
        if (!inside) return;
        aw__count_call(&u->driver);
        aw__uring_enter(&u->ring, submit, aw__os_now() + 1000000);
        aw__lock(&u->driver.lock);
        int count = reap(u, events, &woken);
        aw__unlock(&u->driver.lock);
        aw__driver_tell(&u->driver, events, count);
    }
}

/* Under the lock: what is queued for a ring that nobody will enter. */
static int give_back(uring_driver *u, aw__event *events) {
    int count = 0;
    uint32_t at = *u->ring.sq_tail, head = aw__load_acquire(u->ring.sq_head);
    for (; count < AW__EVENTS && at != head; at--) {
        const struct io_uring_sqe *s = &u->ring.sqes[(at - 1) & u->ring.sq_mask];
        if (s->user_data & 1) continue;
        events[count].op = pointer(s->user_data);
        events[count++].result = -ECANCELED;
        u->inside--;
    }
    aw__store_release(u->ring.sq_tail, at);
    return count;
}

/* What the system has comes back before the only thread leaves that can ask for it, and at the end. Nothing can be
 * put into the queue any more then: what is in it goes as well, by way of the system where others may be handing it
 * over at this moment. */
static void uring_drain(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    aw__event events[AW__EVENTS];
    bool closed = aw__load_relaxed(&d->closed);
    if (is_own(d) && is_mine(u)) {
        bring_back(u, closed);
        return;
    }
    for (int count = closed; count;) {
        aw__lock(&d->lock);
        count = give_back(u, events);
        aw__unlock(&d->lock);
        aw__driver_tell(d, events, count);
    }
}

static int uring_share(aw__driver *d) {
    if (!d->owner) return 0;
    uring_drain(d);
    aw__lock(&d->lock);
    int error = replace((uring_driver *)d, false);
    if (!error) aw__store_release(&d->owner, (const uint64_t *)NULL);
    aw__unlock(&d->lock);
    return error;
}

const aw__driver_type aw__uring_driver = {
    .name = "uring",
    .size = sizeof(uring_driver),
    .open = uring_open,
    .close = uring_close,
    .submit = uring_submit,
    .cancel = uring_cancel,
    .flush = uring_flush,
    .collect = uring_collect,
    .interrupt = uring_interrupt,
    .pollable = uring_pollable,
    .drain = uring_drain,
    .share = uring_share,
};

/* Whether all that is used is known to this system, and allowed. */
static int probe(void) {
    static const uint8_t needed[] = {IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_RECV,
                                     IORING_OP_SEND,     IORING_OP_RECVMSG,      IORING_OP_SENDMSG,
                                     IORING_OP_ACCEPT,   IORING_OP_CONNECT,      IORING_OP_READ,
                                     IORING_OP_READV};
    aw__uring u;
    int error = aw__uring_open(&u, 4, 8, false);
    if (error) return error;
    union {
        struct io_uring_probe head; /* its `ops` follow it */
        char room[sizeof(struct io_uring_probe) + 256 * sizeof(struct io_uring_probe_op)];
    } known = {.room = {0}};
    if (syscall(__NR_io_uring_register, u.fd, IORING_REGISTER_PROBE, &known, 256) < 0)
        error = -errno;
    for (size_t i = 0; i < sizeof needed && !error; i++)
        if (!(known.head.ops[needed[i]].flags & IO_URING_OP_SUPPORTED)) error = -ENOSYS;
    /* Forbidden, it would not sleep either. */
    if (!error && syscall(__NR_io_uring_enter, u.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        error = -errno;
    aw__uring_close(&u);
    return error;
}

#else

static int probe(void) {
    return -ENOSYS;
}

const aw__driver_type aw__uring_driver = {.name = "uring"};

#endif

int aw__uring_works(void) {
    static int answer = 1; /* atomic: not asked yet, or by several at the same time */
    int known = aw__load_relaxed(&answer);
    if (known <= 0) return known;
    known = probe();
    if (known != -ENOMEM && known != -EMFILE && known != -ENFILE) aw__store_relaxed(&answer, known);
    return known;
}
