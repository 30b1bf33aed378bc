/* SPDX-License-Identifier: MIT
 *
 * The io_uring backend: submit and reap. Rules 1, 2, 3, 4 (the eventfd) and 8 of uring_state.h.
 *
 * Any thread may submit, flush and interrupt. Any thread may collect, but only a thread that may
 * enter the ring reaps; any other thread interrupts the owner instead. "Under the lock": the caller
 * holds the driver's lock. The other functions take it themselves. */
#define _GNU_SOURCE
#include "io/uring_state.h"

#include <errno.h>

#ifdef AW_URING

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/driver_for_thread.h"
#include "io/multishot.h"
#include "os/fork.h"
#include "os/lock.h"
#include "os/park.h"

enum { MAX_SQE_LEN = 0x7ffff000 }; /* most bytes of one Linux call: MAX_RW_COUNT */
/* Both since Linux 6.10, missing in older headers. */
enum { ACCEPT_DONTWAIT = 2, FEAT_RECVSEND_BUNDLE = 1 << 14 };

/* ---- Open and close -------------------------------------------------------------------------- */

static int open_wake_fd(const aw__driver *d) {
    const uring_driver *primary = (const uring_driver *)d->primary;
    return primary ? fcntl(primary->wake_fd, F_DUPFD_CLOEXEC, 0)
                   : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int uring_open(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    d->table.size = sizeof(uintptr_t);
    int error = aw__uring_open(&u->ring, AW__URING_SUBMISSIONS, AW__URING_COMPLETIONS, d->owner);
    if (error == -ENOSYS && d->owner) {
        d->owner = NULL;
        error = aw__uring_open(&u->ring, AW__URING_SUBMISSIONS, AW__URING_COMPLETIONS, false);
    }
    if (error) return error;
    u->wake_fd = open_wake_fd(d);
    error = u->wake_fd < 0 ? -errno
            : d->primary   ? io_uring_register_eventfd(&u->ring, u->wake_fd)
                           : 0;
    u->armed = d->primary;
    if (!error) return 0;
    if (u->wake_fd >= 0) close(u->wake_fd);
    aw__uring_close(&u->ring);
    return error;
}

static void uring_close(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    close(u->wake_fd);
    if (d->generation == aw__fork_generation)
        aw__uring_close(&u->ring);
    else /* not mapped in a forked child: another mapping may be at its address */
        close(u->ring.ring_fd);
}

/* ---- Submit ---------------------------------------------------------------------------------- */

static uint32_t sqe_len(size_t size) {
    return (uint32_t)(size < MAX_SQE_LEN ? size : MAX_SQE_LEN);
}

/* Offset -1 is the current file position. */
static void prep_op(uring_driver *u, struct io_uring_sqe *s, const aw_io *op) {
    const aw__fd *f = (const aw__fd *)op->conn;
    struct msghdr *head = &u->msghdrs[s - u->ring.sq.sqes];
    uint32_t size = sqe_len(op->size);
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
        s->ioprio = op->flags & AW__IO_MULTISHOT ? IORING_ACCEPT_MULTISHOT : ACCEPT_DONTWAIT;
        break;
    case AW_IO_CONNECT: io_uring_prep_connect(s, f->fd, op->data, size); break;
    }
}

/* Under the lock. */
static bool sq_has_space(const uring_driver *u, uint32_t entries) {
    return aw__uring_queued(&u->ring) + entries <= u->ring.sq.ring_entries;
}

/* Under the lock. Not published: the accept follows. */
static void prep_linked_poll(uring_driver *u, const struct aw_io *op) {
    struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
    io_uring_prep_poll_add(s, ((aw__fd *)op->conn)->fd, POLLIN);
    s->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(s, aw__uring_linked_poll_user_data(op));
    aw__count_one(&u->driver.counters.waits);
}

/* Under the lock. The SQ has space. */
static void push_op(uring_driver *u, struct aw_io *op, uint32_t poll) {
    struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);
    if (poll)
        io_uring_prep_poll_add(s, ((aw__fd *)op->conn)->fd,
                               poll == AW__READABLE ? POLLIN | POLLRDHUP | POLLPRI : POLLOUT);
    else
        prep_op(u, s, op);
    io_uring_sqe_set_data(s, op);
    aw__uring_push(&u->ring);
    u->unfinished++;
    aw__driver_counters *counters = &u->driver.counters;
    aw__count_one(poll ? &counters->waits : &counters->operations);
}

static int uring_submit(aw__driver *d, struct aw_io *op, uint32_t poll) {
    uring_driver *u = (uring_driver *)d;
    bool linked = aw__uring_has_linked_poll(op);
    aw__lock(&d->lock);
    int error = d->closed ? -ESHUTDOWN : aw__load_relaxed(&u->forbidden);
    if (!error && !sq_has_space(u, linked ? 2 : 1)) error = -EBUSY;
    if (!error && !aw__slots_put(&d->table, d->allocator, op, &op->index)) error = -ENOMEM;
    if (!error && linked) prep_linked_poll(u, op);
    if (!error) push_op(u, op, poll);
    aw__unlock(&d->lock);
    return error;
}

/* ---- Enter ----------------------------------------------------------------------------------- */

static void uring_interrupt(aw__driver *d) {
    int saved = errno;
    eventfd_write(((uring_driver *)d)->wake_fd, 1);
    errno = saved;
}

/* Rule 3: submit the whole queue. The kernel skips GETEVENTS if it consumed fewer SQEs than it was
 * told. So sleeping, or flushing completions into the CQ, takes a second enter. */
static int enter_multi_issuer(uring_driver *u, uint64_t deadline) {
    int error = 0;
    bool queued = aw__uring_queued(&u->ring);
    if (queued) {
        error = aw__uring_enter(&u->ring, u->ring.sq.ring_entries, 0);
        bool more = deadline || aw__uring_cq_needs_flush(&u->ring);
        if (!more || error || aw__uring_queued(&u->ring) || !aw__uring_is_empty(&u->ring))
            return error;
        aw__count_call(&u->driver);
    }
    return aw__uring_enter(&u->ring, 0, deadline);
}

static void enter_ring(uring_driver *u, uint64_t deadline) {
    aw__count_call(&u->driver);
    aw__fetch_add_seq(&u->entering, 1u);
    int error = aw__load_seq(&u->forbidden);
    if (!error)
        error = aw__load_acquire(&u->driver.owner)
                    ? aw__uring_enter(&u->ring, aw__uring_queued(&u->ring), deadline)
                    : enter_multi_issuer(u, deadline);
    if (error) aw__uring_mark_forbidden(u, error);
    aw__fetch_sub_seq(&u->entering, 1u);
    /* The kernel was short of a resource. The owner may be asleep: interrupt it, so that it
     * retries. */
    if (aw__uring_queued(&u->ring) && !aw__driver_is_mine(&u->driver)) uring_interrupt(&u->driver);
}

/* Submit the queue and the cancel backlog: usually nothing, or one enter. */
static void flush_queue(uring_driver *u) {
    enum { MAX_TRIES = 100 }; /* enter may fail; the next thread that enters goes on */
    for (int i = 0; i < MAX_TRIES; i++) {
        if (!aw__uring_queued(&u->ring) && !aw__load_relaxed(&u->cancel_backlog)) return;
        aw__lock(&u->driver.lock);
        aw__uring_push_cancel_backlog(u);
        aw__unlock(&u->driver.lock);
        if (aw__uring_queued(&u->ring)) enter_ring(u, 0);
    }
}

static void uring_flush(aw__driver *d) {
    uring_driver *u = (uring_driver *)d;
    if (!aw__uring_may_adopt(d) || !aw__uring_can_enter(u))
        uring_interrupt(d); /* the owner submits it; no other thread would reap the completion */
    else
        flush_queue(u);
}

/* ---- Reap ------------------------------------------------------------------------------------ */

/* Under the lock. With a full SQ the next collect arms it; until then this thread does not
 * sleep. */
static void arm_wake(uring_driver *u) {
    struct io_uring_sqe *s = u->armed ? NULL : io_uring_get_sqe(&u->ring);
    if (!s) return;
    io_uring_prep_poll_multishot(s, u->wake_fd, POLLIN);
    io_uring_sqe_set_data64(s, AW__URING_TAG_WAKE);
    aw__uring_push(&u->ring);
    u->armed = true;
}

int aw__uring_reap(uring_driver *u, aw__event *events, bool *woken) {
    int count = 0;
    uint32_t head, seen = 0;
    struct io_uring_cqe *c;
    io_uring_for_each_cqe(&u->ring, head, c) {
        if (count == AW__EVENTS) break;
        seen++;
        if (c->user_data == AW__URING_TAG_WAKE) {
            u->armed = c->flags & IORING_CQE_F_MORE;
            *woken = true;
        }
        bool is_cancel = (c->user_data & AW__URING_TAG_MASK) == AW__URING_TAG_CANCEL;
        if (is_cancel && c->res == -ENOENT) aw__uring_retry_cancel(u, c->user_data);
        if (c->user_data == AW__URING_TAG_WAKE || is_cancel) continue;
        aw__event *e = &events[count++];
        *e = (aw__event){.op = (struct aw_io *)(uintptr_t)(c->user_data & ~(uint64_t)1),
                         .result = c->res,
                         .more = c->flags & IORING_CQE_F_MORE};
        if (e->more)
            aw__multishot_count(e->op);
        else
            aw__uring_release_slot(u, e->op);
    }
    io_uring_cq_advance(&u->ring, seen);
    return count;
}

/* A thread that did not sleep took an interrupt. The owner may be about to sleep, or another event
 * loop may wait for the ring's descriptor (sched/embed.c): interrupt again. */
static void pass_on_interrupt(uring_driver *u) {
    bool armed = false;
    for (int tries = 0; tries < 2 && !armed; tries++) { /* the SQ may be full, once */
        aw__lock(&u->driver.lock);
        arm_wake(u);
        armed = u->armed;
        aw__unlock(&u->driver.lock);
        if (aw__uring_queued(&u->ring)) enter_ring(u, 0);
    }
    if (!aw__driver_is_mine(&u->driver)) uring_interrupt(&u->driver);
}

/* For rings that are polled often, and mostly in vain. */
static bool is_idle(const uring_driver *u) {
    return aw__uring_is_empty(&u->ring) && !aw__uring_queued(&u->ring) &&
           !aw__uring_cq_needs_flush(&u->ring) && !aw__load_relaxed(&u->cancel_backlog);
}

static bool uring_is_idle(const aw__driver *d) {
    return is_idle((const uring_driver *)d);
}

/* By a thread that may not enter. The lock: the next owner may be replacing the ring. */
static void interrupt_owner_if_queued(uring_driver *u) {
    aw__lock(&u->driver.lock);
    bool queued = aw__uring_queued(&u->ring) || u->cancel_backlog;
    aw__unlock(&u->driver.lock);
    if (queued) uring_interrupt(&u->driver);
}

/* By a thread that may enter. */
static int collect_entering(uring_driver *u, aw__event *events, uint64_t deadline) {
    aw__driver *d = &u->driver;
    bool woken = false, poll_only = !deadline;
    aw__lock(&d->lock);
    arm_wake(u);
    int count = aw__uring_reap(u, events, &woken);
    aw__uring_push_cancel_backlog(u);
    if (!u->armed || u->cancel_backlog) deadline = 0;
    aw__unlock(&d->lock);
    if (count || woken) deadline = 0;
    if (deadline || aw__uring_queued(&u->ring) || (!count && aw__uring_cq_needs_flush(&u->ring)))
        enter_ring(u, deadline);
    if (count == 0) {
        aw__lock(&d->lock);
        count = aw__uring_reap(u, events, &woken);
        aw__unlock(&d->lock);
    }
    /* A call that sleeps has submitted the queue with its sleep, or its thread collects again. */
    if (poll_only) flush_queue(u);
    if (woken && poll_only && !aw__load_relaxed(&d->owner)) pass_on_interrupt(u);
    return count;
}

static int uring_collect(aw__driver *d, aw__event *events, uint64_t deadline) {
    uring_driver *u = (uring_driver *)d;
    if (d->primary && !deadline && is_idle(u)) return 0;
    if (!aw__uring_may_adopt(d)) {
        interrupt_owner_if_queued(u);
        return 0;
    }
    if (AW__UNLIKELY(aw__load_relaxed(&u->forbidden)))
        return aw__uring_collect_without_entering(u, events, deadline);
    if (AW__LIKELY(aw__uring_adopt(u))) return collect_entering(u, events, deadline);
    if (deadline) aw__os_nap(); /* short of descriptors or memory: retry soon */
    return 0;
}

static int uring_pollable(aw__driver *d) {
    return ((uring_driver *)d)->ring.ring_fd;
}

const aw__driver_type aw__uring_driver = {
    .name = "uring",
    .size = sizeof(uring_driver),
    .open = uring_open,
    .close = uring_close,
    .submit = uring_submit,
    .cancel = aw__uring_cancel,
    .flush = uring_flush,
    .collect = uring_collect,
    .is_idle = uring_is_idle,
    .interrupt = uring_interrupt,
    .pollable = uring_pollable,
    .drain = aw__uring_drain,
    .share = aw__uring_share,
};

/* ---- The probe ------------------------------------------------------------------------------- */

static bool has_accept_dontwait; /* atomic */

bool aw__uring_has_accept_dontwait(void) {
    return aw__load_relaxed(&has_accept_dontwait);
}

/* Whether the kernel knows and permits everything that is used here. */
static int probe(void) {
    static const uint8_t needed[] = {IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_RECV,
                                     IORING_OP_SEND,     IORING_OP_RECVMSG,      IORING_OP_SENDMSG,
                                     IORING_OP_ACCEPT,   IORING_OP_CONNECT,      IORING_OP_READ,
                                     IORING_OP_READV};
    aw__uring u;
    int error = aw__uring_open(&u, 4, 8, false);
    if (error) return error;
    aw__store_relaxed(&has_accept_dontwait, u.features & FEAT_RECVSEND_BUNDLE);
    union {
        struct io_uring_probe head; /* its `ops` follow */
        char bytes[sizeof(struct io_uring_probe) + 256 * sizeof(struct io_uring_probe_op)];
    } known = {.bytes = {0}};
    error = io_uring_register_probe(&u, &known.head, 256);
    for (size_t i = 0; i < sizeof needed && !error; i++)
        if (!io_uring_opcode_supported(&known.head, needed[i])) error = -ENOSYS;
    /* A ring that must not be entered is of no use. */
    if (!error) error = io_uring_get_events(&u);
    aw__uring_close(&u);
    return error;
}

#else

static int probe(void) {
    return -ENOSYS;
}

bool aw__uring_has_accept_dontwait(void) {
    return false;
}

const aw__driver_type aw__uring_driver = {.name = "uring"};

#endif

int aw__uring_works(void) {
    static int cached = 1; /* atomic; 1: not probed yet; several threads may probe at once */
    int known = aw__load_relaxed(&cached);
    if (known <= 0) return known;
    known = probe();
    if (known != -ENOMEM && known != -EMFILE && known != -ENFILE) aw__store_relaxed(&cached, known);
    return known;
}
