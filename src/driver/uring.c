/* SPDX-License-Identifier: MIT
 *
 * io_uring: an operation is given to the system, with the caller's own buffer, and comes back when it is done.
 *
 *   1. The ring is used by several threads: its worker, those that have work for its operations (a cancel, a close), and the
 *      monitor when the worker is stuck. Filling the one queue and emptying the other is under the driver's lock;
 *      system calls are made without it.
 *   2. What a worker queues on its own ring is handed over when it looks for events or goes to sleep, all in one call. Who
 *      queues something elsewhere calls `flush`.
 *   3. An operation has its own address as its mark; the odd ones are of this file.
 *   4. An eventfd that is polled ends a sleep: each write to it is one completion.
 *   5. When a thread ends, the system cancels what that thread had handed over: it is given again (io/given.c). */
#define _GNU_SOURCE
#include "driver/uring.h"

#include <errno.h>

#include "driver/uring_ring.h"

#ifdef AW__HAVE_URING

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lock.h"
#include "io/fd.h"
#include "os/park.h"

enum { SUBMISSIONS = 256, COMPLETIONS = 4096, MOST = 0x7ffff000 };
enum { WAKE = 1, IGNORED = 3 }; /* marks */

typedef struct uring_driver {
    aw__driver driver;
    aw__uring ring;
    int wake;
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
    int error = aw__uring_open(&u->ring, SUBMISSIONS, COMPLETIONS);
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
    aw__uring_close(&u->ring);
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

static int uring_submit(aw__driver *d, struct aw_io *op, uint32_t poll) {
    uring_driver *u = (uring_driver *)d;
    aw__lock(&d->lock);
    struct io_uring_sqe *s = d->closed ? NULL : aw__uring_next(&u->ring);
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

static void enter(uring_driver *u, uint64_t deadline) {
    aw__count_call(&u->driver);
    aw__uring_enter(&u->ring, deadline);
}

static void uring_flush(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    if (aw__uring_queued(&u->ring)) enter(u, 0);
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

/* Under the lock. */
static int reap(uring_driver *u, aw__event *events) {
    int count = 0;
    struct io_uring_cqe *c;
    for (; count < AW__EVENTS && (c = aw__uring_peek(&u->ring)); aw__uring_pop(&u->ring)) {
        if (c->user_data == WAKE) u->armed = c->flags & IORING_CQE_F_MORE;
        if (c->user_data & 1) continue;
        events[count].op = pointer(c->user_data);
        events[count++].result = c->res;
        u->inside--;
    }
    return count;
}

static int uring_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    uring_driver *u = (uring_driver *)d;
    aw__lock(&d->lock);
    arm(u);
    if (!u->armed) deadline = 0;
    int count = reap(u, events);
    aw__unlock(&d->lock);
    if (count) deadline = 0;
    if (deadline || aw__uring_queued(&u->ring) || (!count && aw__uring_holds_back(&u->ring)))
        enter(u, deadline);
    if (count == 0) {
        aw__lock(&d->lock);
        count = reap(u, events);
        aw__unlock(&d->lock);
    }
    return count;
}

static void uring_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((uring_driver *)d)->wake, 1);
    errno = saved;
}

static int uring_pollable(aw__driver *d) {
    return ((uring_driver *)d)->ring.fd;
}

/* Everything that the system has comes back before the memory goes. */
static void uring_drain(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    aw__event events[AW__EVENTS];
    for (;;) {
        aw__lock(&d->lock);
        uint32_t inside = u->inside;
        struct io_uring_sqe *s = inside ? aw__uring_next(&u->ring) : NULL;
        if (s) {
            prepare(s, IORING_OP_ASYNC_CANCEL, -1, NULL, 0);
            s->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
            s->user_data = IGNORED;
            aw__uring_push(&u->ring);
        }
        aw__unlock(&d->lock);
        if (!inside) return;
        aw__driver_tell(d, events, uring_collect(d, events, aw__os_now() + 10000000));
    }
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
};

/* Whether all that is used is known to this system, and allowed. */
static int probe(void) {
    static const uint8_t needed[] = {IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_RECV,
                                     IORING_OP_SEND,     IORING_OP_RECVMSG,      IORING_OP_SENDMSG,
                                     IORING_OP_ACCEPT,   IORING_OP_CONNECT,      IORING_OP_READ,
                                     IORING_OP_READV};
    aw__uring u;
    int error = aw__uring_open(&u, 4, 8);
    if (error) return error;
    union {
        struct io_uring_probe head; /* its `ops` follow it */
        char room[sizeof(struct io_uring_probe) + 256 * sizeof(struct io_uring_probe_op)];
    } known = {.room = {0}};
    if (syscall(__NR_io_uring_register, u.fd, IORING_REGISTER_PROBE, &known, 256) < 0)
        error = -errno;
    for (size_t i = 0; i < sizeof needed && !error; i++)
        if (!(known.head.ops[needed[i]].flags & IO_URING_OP_SUPPORTED)) error = -ENOSYS;
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
