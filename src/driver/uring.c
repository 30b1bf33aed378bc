/* SPDX-License-Identifier: MIT
 *
 * io_uring: an operation is given to the system, with the caller's own buffer, and comes back when it is done.
 *
 *   1. The ring is used by several threads: its worker, those that have work for its operations (a cancel, a close),
 *      and the monitor when the worker is stuck. Filling the one queue and emptying the other is under the driver's
 *      lock; system calls are made without it.
 *   2. What a worker queues on its own ring is handed over when it looks for events or goes to sleep, all in one call. Who
 *      queues something elsewhere calls `flush`.
 *   3. An operation has its own address as its mark; the odd ones are of this file. An accept has a wait in front, linked
 *      to it, whose mark is the next number: that is what is cancelled, and the accept with it. One completion comes of
 *      them: that of the accept, or of a wait that failed. But only if they are handed over together. Both are queued at
 *      once; and where several threads enter, each hands over all that there is when the system looks, not as many
 *      as there were before: others may have taken those meanwhile.
 *   4. An eventfd that is polled ends a sleep: each write to it is one completion.
 *      A cancel names the place of its operation in the table. The system does not find one that it is just about to try
 *      again: if it is still there, and still asked for, it is asked for again. That is also done for all, by whoever enters
 *      next, when a cancel finds the queue full (`unasked`): so who cancels or closes never waits for an owner.
 *   5. When a thread ends, the system cancels what that thread had handed over: it is given again (io/given.c).
 *   6. A ring with an owner is entered by that one only, and completes nothing while he does not ask, so that what he
 *      does elsewhere is not interrupted; others put cancels into its queue, and interrupt his sleep. It belongs to the
 *      thread that first looked into it: a later owner makes another one, and takes over what is queued. So who leaves
 *      has everything come back that the system has. Systems before 6.1 have no such rings: then it is like the others.
 *   7. When the program has been forbidden to enter its rings, new operations are refused, and what is queued goes back
 *      with -EACCES, when no thread is in the system that could hand it over: a thread says that it enters before
 *      it looks whether it may (both sequentially consistent). Its thread then sleeps by the eventfd alone. What
 *      the system has already is lost to it, unless it completes by itself.
 *   8. One that is beside such a ring has no owner, and no eventfd of its own: the system writes to the other's for each
 *      completion. That one is never read, so a poll of it that begins later completes at once: nothing is missed
 *      between two polls. (The system ends the poll each time, lest rings wake each other in circles.) */
#define _GNU_SOURCE
#include "driver/uring.h"

#include <errno.h>

#include "driver/uring_ring.h"

#ifdef AW_URING

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lock.h"
#include "core/misuse.h"
#include "io/fd.h"
#include "io/here.h"
#include "io/many.h"
#include "os/fork.h"
#include "os/park.h"
#include "os/thread.h"

enum { SUBMISSIONS = 256, COMPLETIONS = 4096, MOST = 0x7ffff000 };
enum {
    WAKE = 1,
    CANCEL = 3,
    MARK = 3
}; /* marks; of a cancel the rest is a place, counted from 1, or 0 */
enum {
    ACCEPT_DONTWAIT = 2,
    FEAT_RECVSEND_BUNDLE = 1 << 14
}; /* of 6.10 both, missing in older headers */

typedef struct uring_driver {
    aw__driver driver;
    aw__uring ring;
    int wake;
    uint64_t thread; /* atomic: with an owner: whose ring it is; 0: nobody's yet */
    bool armed;      /* the eventfd is polled; beside another: it is, over there */
    uint32_t inside; /* operations that the system has */
    bool unasked; /* some that are wanted back have not been asked for: rule 4; atomic to peek at */
    uint32_t at;  /* from there on */
    int refuses;  /* atomic: -EACCES, it cannot be entered any more; or 0 */
    uint32_t entered; /* atomic: threads that are in the system with it */
    /* For the submission in the same place, which reads it when it is handed over. */
    struct msghdr heads[SUBMISSIONS];
} uring_driver;

static int open_wake(const aw__driver *d) {
    const uring_driver *of = (const uring_driver *)d->beside;
    return of ? fcntl(of->wake, F_DUPFD_CLOEXEC, 0) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int uring_open(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    d->table.size = sizeof(uintptr_t);
    int error = aw__uring_open(&u->ring, SUBMISSIONS, COMPLETIONS, d->owner);
    if (error == -ENOSYS && d->owner) {
        d->owner = NULL;
        error = aw__uring_open(&u->ring, SUBMISSIONS, COMPLETIONS, false);
    }
    if (error) return error;
    u->wake = open_wake(d);
    error = u->wake < 0 ? -errno : d->beside ? io_uring_register_eventfd(&u->ring, u->wake) : 0;
    u->armed = d->beside;
    if (!error) return 0;
    if (u->wake >= 0) close(u->wake);
    aw__uring_close(&u->ring);
    return error;
}

static void uring_close(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    close(u->wake);
    if (d->generation == aw__fork_generation)
        aw__uring_close(&u->ring);
    else /* its memory is not there, and something else may be in its place */
        close(u->ring.ring_fd);
}

/* ---- Into the ring ---------------------------------------------------------------------------- */

static uint32_t at_most(size_t size) {
    return (uint32_t)(size < MOST ? size : MOST);
}

/* Of a file `-1` is wherever it stands. */
static void prepare(uring_driver *u, struct io_uring_sqe *s, const aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    struct msghdr *head = &u->heads[s - u->ring.sq.sqes];
    uint32_t size = at_most(op->size);
    switch (op->wants) {
    case AW_IO_READ:
        if (f->socket)
            io_uring_prep_recv(s, f->fd, op->data, size, 0);
        else
            io_uring_prep_read(s, f->fd, op->data, size, UINT64_MAX);
        break;
    case AW_IO_READV: io_uring_prep_readv(s, f->fd, op->data, size, UINT64_MAX); break;
    case AW_IO_WRITE: io_uring_prep_send(s, f->fd, op->data, size, MSG_NOSIGNAL); break;
    case AW_IO_WRITEV:
        *head = (struct msghdr){.msg_iov = op->data, .msg_iovlen = op->size};
        io_uring_prep_sendmsg(s, f->fd, head, MSG_NOSIGNAL);
        break;
    case AW_IO_RECVMSG: io_uring_prep_recvmsg(s, f->fd, op->data, size | MSG_CMSG_CLOEXEC); break;
    case AW_IO_SENDMSG: io_uring_prep_sendmsg(s, f->fd, op->data, size | MSG_NOSIGNAL); break;
    case AW_IO_ACCEPT:
        io_uring_prep_accept(s, f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        s->ioprio = op->has & AW__IO_MANY ? IORING_ACCEPT_MULTISHOT : ACCEPT_DONTWAIT;
        break;
    case AW_IO_CONNECT: io_uring_prep_connect(s, f->fd, op->data, size); break;
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

/* Under the lock. */
static bool has_room(const uring_driver *u, uint32_t places) {
    return aw__uring_queued(&u->ring) + places <= u->ring.sq.ring_entries;
}

/* Rule 3. */
static bool is_linked(const struct aw_io *op) {
    return op->wants == AW_IO_ACCEPT &&
           !(aw__load_relaxed(&op->has) & (AW__IO_MANY | AW__IO_POLLED));
}
static uint64_t mark_of_wait(const struct aw_io *op) {
    return (uintptr_t)op + 1;
}

static void push_wait_in_front(uring_driver *u, const struct aw_io *op) {
    struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
    io_uring_prep_poll_add(s, ((aw__fd *)op->conn)->fd, POLLIN);
    s->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(s, mark_of_wait(op));
    aw__count_one(&u->driver.counters.waits);
}

static int uring_submit(aw__driver *d, struct aw_io *op, uint32_t poll) {
    uring_driver *u = (uring_driver *)d;
    bool linked = is_linked(op);
    aw__lock(&d->lock);
    int error = d->closed ? -ESHUTDOWN : aw__load_relaxed(&u->refuses);
    if (!error && !has_room(u, linked ? 2 : 1)) error = -EBUSY;
    if (!error && !aw__slots_put(&d->table, d->allocator, op, &op->index)) error = -ENOMEM;
    if (!error) {
        if (linked) push_wait_in_front(u, op);
        struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
        if (poll)
            io_uring_prep_poll_add(s, ((aw__fd *)op->conn)->fd,
                                   poll == AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : POLLOUT);
        else
            prepare(u, s, op);
        io_uring_sqe_set_data(s, op);
        aw__uring_push(&u->ring);
        u->inside++;
        aw__count_one(poll ? &d->counters.waits : &d->counters.operations);
    }
    aw__unlock(&d->lock);
    return error;
}

/* Under the lock. False: the queue is full. */
static bool push_cancel(uring_driver *u, const struct aw_io *op) {
    struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
    if (!s) return false;
    io_uring_prep_cancel64(s, is_linked(op) ? mark_of_wait(op) : (uintptr_t)op, 0);
    io_uring_sqe_set_data64(s, ((uint64_t)op->index + 1) << 2 | CANCEL);
    aw__uring_push(&u->ring);
    return true;
}

/* The same; full or not, it will be done. */
static void ask_for(uring_driver *u, const struct aw_io *op) {
    if (push_cancel(u, op)) return;
    aw__store_relaxed(&u->unasked, true);
    u->at = 0;
}

static bool is_asked_for(const struct aw_io *op) {
    return op && aw__load_relaxed(&op->has) & AW__IO_ASKED_BACK;
}

/* Under the lock. To ask twice does no harm. */
static void ask_for_rest(uring_driver *u) {
    if (AW__LIKELY(!u->unasked)) return;
    for (; u->at < u->driver.table.count; u->at++) {
        const struct aw_io *op = aw__slots_at(&u->driver.table, u->at);
        if (is_asked_for(op) && !push_cancel(u, op)) return;
    }
    aw__store_relaxed(&u->unasked, false);
}

static void uring_cancel(aw__driver *d, struct aw_io *op) {
    aw__lock(&d->lock);
    ask_for((uring_driver *)d, op);
    aw__unlock(&d->lock);
}

static void uring_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((uring_driver *)d)->wake, 1);
    errno = saved;
}

/* Rule 7. */
static void begin_refusing(uring_driver *u, int error) {
    int none = 0;
    if (aw__cas_seq(&u->refuses, &none, -EACCES))
        aw__rt_log(u->driver.runtime, AW_LOG_PROBLEM,
                   "io_uring is not allowed any more: %s; what is with the system may stay there",
                   strerror(-error));
}

/* Rule 3. Only when the system has taken as many as it was told it sleeps, or gives what it holds back: that is another
 * call. */
static int enter_shared(uring_driver *u, uint64_t deadline) {
    int error = 0;
    bool queued = aw__uring_queued(&u->ring);
    if (queued) {
        error = aw__uring_enter(&u->ring, u->ring.sq.ring_entries, 0);
        bool more = deadline || aw__uring_holds_back(&u->ring);
        if (!more || error || aw__uring_queued(&u->ring) || !aw__uring_is_empty(&u->ring))
            return error;
        aw__count_call(&u->driver);
    }
    return aw__uring_enter(&u->ring, 0, deadline);
}

static void enter(uring_driver *u, uint64_t deadline) {
    aw__count_call(&u->driver);
    aw__fetch_add_seq(&u->entered, 1u);
    int error = aw__load_seq(&u->refuses);
    if (!error)
        error = aw__load_acquire(&u->driver.owner)
                    ? aw__uring_enter(&u->ring, aw__uring_queued(&u->ring), deadline)
                    : enter_shared(u, deadline);
    if (error) begin_refusing(u, error);
    aw__fetch_sub_seq(&u->entered, 1u);
    /* It failed: the system is short of something. The owner, who may sleep, tries again. */
    if (aw__uring_queued(&u->ring) && !aw__driver_is_own(&u->driver)) uring_interrupt(&u->driver);
}

/* What there is to be handed over, and asked for: mostly nothing, or once. */
static void hand_over_rest(uring_driver *u) {
    enum { MOST_TIMES = 100 }; /* it may fail: then who enters next goes on */
    for (int i = 0; i < MOST_TIMES; i++) {
        if (!aw__uring_queued(&u->ring) && !aw__load_relaxed(&u->unasked)) return;
        aw__lock(&u->driver.lock);
        ask_for_rest(u);
        aw__unlock(&u->driver.lock);
        if (aw__uring_queued(&u->ring)) enter(u, 0);
    }
}

static void uring_flush(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    if (!is_own(d) || !is_mine(u))
        uring_interrupt(d); /* the owner will do it; nobody else would find what comes back */
    else
        hand_over_rest(u);
}

/* ---- Out of the ring -------------------------------------------------------------------------- */

/* Under the lock. When the queue is full it is done next time: then this thread does not sleep either. */
static void arm(uring_driver *u) {
    struct io_uring_sqe *s = u->armed ? NULL : io_uring_get_sqe(&u->ring);
    if (!s) return;
    io_uring_prep_poll_multishot(s, u->wake, POLLIN);
    io_uring_sqe_set_data64(s, WAKE);
    aw__uring_push(&u->ring);
    u->armed = true;
}

/* Under the lock: the system has it no more. */
static void forget(uring_driver *u, const struct aw_io *op) {
    aw__slots_take(&u->driver.table, op->index);
    u->inside--;
}

/* Under the lock: a cancel did not find what it was for; or that has come back, and something else is in its place. */
static void ask_again(uring_driver *u, uint64_t mark) {
    uint32_t place = (uint32_t)(mark >> 2);
    const struct aw_io *op = place ? aw__slots_at(&u->driver.table, place - 1) : NULL;
    if (is_asked_for(op)) ask_for(u, op);
}

/* Under the lock. `woken`: an interrupt is among them. */
static int reap(uring_driver *u, aw__event *events, bool *woken) {
    int count = 0;
    uint32_t head, seen = 0;
    struct io_uring_cqe *c;
    io_uring_for_each_cqe(&u->ring, head, c) {
        if (count == AW__EVENTS) break;
        seen++;
        if (c->user_data == WAKE) {
            u->armed = c->flags & IORING_CQE_F_MORE;
            *woken = true;
        }
        if ((c->user_data & MARK) == CANCEL && c->res == -ENOENT) ask_again(u, c->user_data);
        if (c->user_data == WAKE || (c->user_data & MARK) == CANCEL) continue;
        aw__event *e = &events[count++];
        *e = (aw__event){.op = (struct aw_io *)(uintptr_t)(c->user_data & ~(uint64_t)1),
                         .result = c->res,
                         .more = c->flags & IORING_CQE_F_MORE};
        if (e->more)
            aw__many_count(e->op);
        else
            forget(u, e->op);
    }
    io_uring_cq_advance(&u->ring, seen);
    return count;
}

/* Under the lock: what was queued, in the same order. */
static void move_queue(uring_driver *u, const aw__uring *from, aw__uring *to) {
    struct msghdr heads[SUBMISSIONS];
    memcpy(heads, u->heads, sizeof heads);
    for (uint32_t at = aw__load_acquire(from->sq.khead); at != from->sq.sqe_tail; at++) {
        uint32_t place = at & from->sq.ring_mask;
        const struct io_uring_sqe *old = &from->sq.sqes[place];
        if (old->user_data == WAKE) continue; /* it will be armed again */
        struct io_uring_sqe *s = io_uring_get_sqe(to);
        *s = *old;
        if (old->addr == (uintptr_t)&u->heads[place]) {
            struct msghdr *head = &u->heads[s - to->sq.sqes];
            s->addr = (uintptr_t)head;
            *head = heads[place];
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

/* By the owner: make the ring his. False: that is not possible now, or, by rule 7, never. */
static bool adopt(uring_driver *u) {
    if (AW__LIKELY(is_mine(u))) return true;
    aw__lock(&u->driver.lock);
    int error = u->thread ? replace(u, true) : 0;
    if (!error) error = aw__uring_enable(&u->ring);
    if (!error) aw__store_relaxed(&u->thread, aw__os_thread_number());
    aw__unlock(&u->driver.lock);
    if (aw__uring_is_refused(error)) begin_refusing(u, error);
    return !error;
}

/* An interrupt was found by one who only looks: the owner may be about to sleep, or somebody else to wait for the ring
 * itself (runtime/embed.c). */
static void pass_on(uring_driver *u) {
    bool armed = false;
    for (int tries = 0; tries < 2 && !armed; tries++) { /* the queue may be full, once */
        aw__lock(&u->driver.lock);
        arm(u);
        armed = u->armed;
        aw__unlock(&u->driver.lock);
        if (aw__uring_queued(&u->ring)) enter(u, 0);
    }
    if (!aw__driver_is_own(&u->driver)) uring_interrupt(&u->driver);
}

/* A glance, for one that is looked into often, and mostly in vain. */
static bool has_nothing(const uring_driver *u) {
    return aw__uring_is_empty(&u->ring) && !aw__uring_queued(&u->ring) &&
           !aw__uring_holds_back(&u->ring) && !aw__load_relaxed(&u->unasked);
}

/* Under the lock: what is queued for a ring that nobody will enter. */
static int give_back(uring_driver *u, aw__event *events, int error) {
    int count = 0;
    struct io_uring_sq *q = &u->ring.sq;
    for (; count < AW__EVENTS && q->sqe_tail != aw__load_acquire(q->khead); q->sqe_tail--) {
        const struct io_uring_sqe *s = &q->sqes[(q->sqe_tail - 1) & q->ring_mask];
        if (s->user_data & 1) continue;
        aw__event *e = &events[count++];
        *e = (aw__event){.op = (struct aw_io *)(uintptr_t)s->user_data, .result = error};
        forget(u, e->op);
    }
    aw__uring_push(&u->ring);
    return count;
}

/* Rule 7: what can be done without entering. */
static int collect_outside(uring_driver *u, aw__event *events, uint64_t deadline) {
    enum { GLANCE = 10 /* ms: the system may complete something by itself */ };
    bool woken = false;
    aw__lock(&u->driver.lock);
    int count = reap(u, events, &woken);
    if (!count && !aw__load_seq(&u->entered))
        count = give_back(u, events, aw__load_relaxed(&u->refuses));
    aw__unlock(&u->driver.lock);
    if (count || !deadline) return count;
    uint64_t now = aw__os_now(), left = deadline > now ? (deadline - now) / 1000000 + 1 : 0;
    struct pollfd wake = {u->wake, POLLIN, 0};
    eventfd_t taken;
    if (poll(&wake, 1, left < GLANCE ? (int)left : GLANCE) == 1) eventfd_read(u->wake, &taken);
    return 0;
}

static int uring_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    uring_driver *u = (uring_driver *)d;
    bool woken = false, looks = !deadline;
    if (d->beside && looks && has_nothing(u)) return 0;
    if (!is_own(d)) {       /* nothing is there that its owner does not find */
        aw__lock(&d->lock); /* the next owner may be about to make another ring of it */
        bool queued = aw__uring_queued(&u->ring) || u->unasked;
        aw__unlock(&d->lock);
        if (queued) uring_interrupt(d);
        return 0;
    }
    if (AW__UNLIKELY(aw__load_relaxed(&u->refuses))) return collect_outside(u, events, deadline);
    if (!adopt(u)) {
        if (deadline) aw__os_nap(); /* too many descriptors, or no memory: it may be better soon */
        return 0;
    }
    aw__lock(&d->lock);
    arm(u);
    int count = reap(u, events, &woken);
    ask_for_rest(u);
    if (!u->armed || u->unasked) deadline = 0;
    aw__unlock(&d->lock);
    if (count || woken) deadline = 0;
    if (deadline || aw__uring_queued(&u->ring) || (!count && aw__uring_holds_back(&u->ring)))
        enter(u, deadline);
    if (count == 0) {
        aw__lock(&d->lock);
        count = reap(u, events, &woken);
        aw__unlock(&d->lock);
    }
    if (looks) hand_over_rest(u); /* who sleeps comes back to it, or it goes with the sleep */
    if (woken && looks && !aw__load_relaxed(&d->owner)) pass_on(u);
    return count;
}

static int uring_pollable(aw__driver *d) {
    return ((uring_driver *)d)->ring.ring_fd;
}

/* Under the lock: how many operations are queued, and not handed over. */
static uint32_t count_queued(const uring_driver *u) {
    uint32_t count = 0;
    const struct io_uring_sq *q = &u->ring.sq;
    for (uint32_t at = aw__load_acquire(q->khead); at != q->sqe_tail; at++)
        count += !(q->sqes[at & q->ring_mask].user_data & 1);
    return count;
}

/* Under the lock: ask for a batch of all that there is, from `*at` on. How many to hand over: those in front go with
 * them. (The system can cancel all it has by itself, but takes the square of their number for it.) */
static uint32_t push_cancels(uring_driver *u, uint32_t *at) {
    for (; *at < u->driver.table.count; ++*at) {
        struct aw_io *op = aw__slots_at(&u->driver.table, *at);
        if (op && !push_cancel(u, op)) break;
    }
    return aw__uring_queued(&u->ring);
}

/* Everything that the system has comes back. What is queued stays there for the next owner, unless it is the end. */
static void bring_back(uring_driver *u, bool all) {
    aw__event events[AW__EVENTS];
    bool woken = false;
    uint32_t at = 0;
    for (int round = 0;; round++) {
        aw__lock(&u->driver.lock);
        uint32_t inside = u->inside - (all ? 0 : count_queued(u)), submit = 0;
        /* Once should do: but what if it was too early for one of them? */
        if (round % 16 == 0 && at >= u->driver.table.count) at = 0;
        if (inside && at < u->driver.table.count) submit = push_cancels(u, &at);
        aw__unlock(&u->driver.lock);
        if (!inside) return;
        aw__count_call(&u->driver);
        if (submit && !u->driver.owner) submit = u->ring.sq.ring_entries; /* rule 3 */
        int error = aw__uring_enter(&u->ring, submit, aw__os_now() + 1000000);
        if (error) {
            begin_refusing(u, error);
            aw__os_nap();
        }
        aw__lock(&u->driver.lock);
        int count = reap(u, events, &woken);
        aw__unlock(&u->driver.lock);
        aw__driver_tell(&u->driver, events, count);
    }
}

/* Under the lock, by the owner who leaves: of what is queued the operations that work for others too (io/many.h), who
 * do not wait for the next owner of this ring. Nobody else enters it: so they can be made into nothing. */
static int give_back_many(uring_driver *u, aw__event *events) {
    int count = 0;
    const struct io_uring_sq *q = &u->ring.sq;
    for (uint32_t at = *q->khead; at != q->sqe_tail && count < AW__EVENTS; at++) {
        struct io_uring_sqe *s = &q->sqes[at & q->ring_mask];
        struct aw_io *op = (struct aw_io *)(uintptr_t)s->user_data;
        if (s->user_data & 1 || !(aw__load_relaxed(&op->has) & AW__IO_MANY)) continue;
        events[count++] = (aw__event){.op = op, .result = -ECANCELED};
        io_uring_prep_nop(s);
        io_uring_sqe_set_data64(s, CANCEL);
        forget(u, op);
    }
    return count;
}

static int give_back_rest(uring_driver *u, aw__event *events) {
    return give_back(u, events, -ECANCELED);
}

static void give_back_all(uring_driver *u, int (*give)(uring_driver *, aw__event *)) {
    aw__event events[AW__EVENTS];
    for (int count = 1; count;) {
        aw__lock(&u->driver.lock);
        count = give(u, events);
        aw__unlock(&u->driver.lock);
        aw__driver_tell(&u->driver, events, count);
    }
}

/* What the system has comes back before the only thread leaves that can ask for it, and at the end. Nothing can be
 * put into the queue any more then: what is in it goes as well, by way of the system where others may be handing it
 * over at this moment. */
static void uring_drain(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    bool closed = aw__load_relaxed(&d->closed);
    if (!closed) give_back_all(u, give_back_many);
    if (is_own(d) && is_mine(u))
        bring_back(u, closed);
    else if (closed)
        give_back_all(u, give_back_rest);
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

static bool accepts; /* atomic */

bool aw__uring_accepts(void) {
    return aw__load_relaxed(&accepts);
}

/* Whether all that is used is known to this system, and allowed. */
static int probe(void) {
    static const uint8_t needed[] = {IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_RECV,
                                     IORING_OP_SEND,     IORING_OP_RECVMSG,      IORING_OP_SENDMSG,
                                     IORING_OP_ACCEPT,   IORING_OP_CONNECT,      IORING_OP_READ,
                                     IORING_OP_READV};
    aw__uring u;
    int error = aw__uring_open(&u, 4, 8, false);
    if (error) return error;
    aw__store_relaxed(&accepts, u.features & FEAT_RECVSEND_BUNDLE);
    union {
        struct io_uring_probe head; /* its `ops` follow it */
        char room[sizeof(struct io_uring_probe) + 256 * sizeof(struct io_uring_probe_op)];
    } known = {.room = {0}};
    error = io_uring_register_probe(&u, &known.head, 256);
    for (size_t i = 0; i < sizeof needed && !error; i++)
        if (!io_uring_opcode_supported(&known.head, needed[i])) error = -ENOSYS;
    /* Forbidden, it would not sleep either. */
    if (!error) error = io_uring_get_events(&u);
    aw__uring_close(&u);
    return error;
}

#else

static int probe(void) {
    return -ENOSYS;
}

bool aw__uring_accepts(void) {
    return false;
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
