/* SPDX-License-Identifier: MIT
 *
 * A pair of connected in-memory connections: two byte rings, one per direction, under one short
 * lock. Each end may be used by any thread and any runtime.
 *
 *   1. An operation holds a reference to its end from its first poll until it has ended. So the
 *      queues outlive all waiters, and the threads that wake them.
 *   2. A change of a ring (bytes, space, or its end) completes all waits for it with -EAGAIN; the
 *      waiters retry when they are polled. So a waiter that is cancelled after its wake has
 *      consumed nothing, and the other waiters have been woken too.
 *   3. Dropping the last reference to an end closes it. When neither end has references, the memory
 *      is freed. */
#include <awake/duplex.h>

#include <limits.h>
#include <string.h>

#include "base/allocate.h"
#include "context/context.h"
#include "future/waiters.h"

/* Limit of bytes copied per operation, with the lock held. */
enum { MOVE_MAX = 16384 };

enum { DUPLEX_REFERENCED = 1 }; /* flag of an operation: rule 1 */

typedef struct duplex_ring {
    char *data;
    size_t start, size;
    bool ended;       /* nothing more will be written */
    bool reader_gone; /* nothing more will be read */
    aw__waiters readers, writers;
} duplex_ring;

typedef struct duplex_end {
    aw_conn conn;
    uint32_t refs; /* atomic */
    bool closed;   /* under the lock */
    duplex_ring *in, *out;
    struct duplex *duplex;
} duplex_end;

typedef struct duplex {
    uint32_t lock;
    uint32_t ends; /* atomic: ends that have references */
    size_t capacity;
    duplex_ring rings[2];
    duplex_end sides[2];
    const aw_allocator *allocator;
    char data[];
} duplex;

static const aw_conn_type duplex_type;

static size_t duplex_size(size_t capacity) {
    return sizeof(duplex) + 2 * capacity;
}

int aw_duplex(aw_conn **a, aw_conn **b, size_t capacity) {
    if (!a || !b || !capacity) return -EINVAL;
    if (capacity > (SIZE_MAX - sizeof(duplex)) / 2) return -ENOMEM;
    const aw_allocator *allocator = aw__allocator_for(NULL);
    duplex *d = aw__alloc(allocator, duplex_size(capacity));
    if (!d) return -ENOMEM;
    *d = (duplex){.ends = 2, .capacity = capacity, .allocator = allocator};
    for (int i = 0; i < 2; i++) {
        d->rings[i].data = d->data + (size_t)i * capacity;
        d->sides[i] = (duplex_end){.conn = {&duplex_type},
                                   .refs = 1,
                                   .in = &d->rings[i],
                                   .out = &d->rings[1 - i],
                                   .duplex = d};
    }
    *a = &d->sides[0].conn;
    *b = &d->sides[1].conn;
    return 0;
}

/* ---- Waiters, close -------------------------------------------------------------------------- */

/* Called with the lock held; releases it. */
static void duplex_wake_and_unlock(duplex *d, aw__waiters *const *queues, int count) {
    aw__wakes wakes = {.count = 0};
    for (int i = 0; i < count; i++)
        while (queues[i]->first) {
            if (aw__wakes_full(&wakes)) {
                aw__unlock(&d->lock);
                aw__wakes_run(&wakes);
                aw__lock(&d->lock);
                continue;
            }
            aw__waiter_end(queues[i], queues[i]->first, -EAGAIN, &wakes);
        }
    aw__unlock(&d->lock);
    aw__wakes_run(&wakes);
}

static void duplex_close_and_unlock(duplex_end *e) {
    e->closed = true;
    e->in->reader_gone = true;
    e->in->size = 0;
    e->out->ended = true;
    duplex_wake_and_unlock(
        e->duplex,
        (aw__waiters *[]){&e->in->readers, &e->in->writers, &e->out->readers, &e->out->writers}, 4);
}

static void duplex_end_unref(duplex_end *e) {
    if (aw__fetch_sub(&e->refs, 1u) != 1) return;
    duplex *d = e->duplex;
    aw__lock(&d->lock);
    duplex_close_and_unlock(e);
    if (aw__fetch_sub(&d->ends, 1u) == 1) aw__free(d->allocator, d, duplex_size(d->capacity));
}

static void duplex_keep(aw_conn *c) {
    aw__fetch_add_relaxed(&((duplex_end *)c)->refs, 1u);
}
static void duplex_drop(aw_conn *c) {
    duplex_end_unref((duplex_end *)c);
}
static void duplex_close(aw_conn *c) {
    duplex_end *e = (duplex_end *)c;
    aw__lock(&e->duplex->lock);
    duplex_close_and_unlock(e);
    duplex_end_unref(e);
}

/* ---- Bytes: all under the lock --------------------------------------------------------------- */

static void copy_out(duplex_ring *r, size_t capacity, char *to, size_t size) {
    size_t first = capacity - r->start < size ? capacity - r->start : size;
    memcpy(to, r->data + r->start, first);
    memcpy(to + first, r->data, size - first);
    r->start = (r->start + size) % capacity;
    r->size -= size;
}

static void copy_in(duplex_ring *r, size_t capacity, const char *from, size_t size) {
    size_t at = (r->start + r->size) % capacity,
           first = capacity - at < size ? capacity - at : size;
    memcpy(r->data + at, from, first);
    memcpy(r->data, from + first, size - first);
    r->size += size;
}

static bool is_read(const aw_io *op) {
    return op->wants == AW_IO_READ || op->wants == AW_IO_READV;
}

static duplex_ring *ring_of(const aw_io *op) {
    duplex_end *e = (duplex_end *)op->conn;
    return is_read(op) ? e->in : e->out;
}

static aw__waiters *queue_of(const aw_io *op) {
    return is_read(op) ? &ring_of(op)->readers : &ring_of(op)->writers;
}

static int duplex_move(const aw_io *op, size_t max) {
    bool vectored = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    struct iovec single = {op->data, op->size};
    const struct iovec *parts = vectored ? op->data : &single;
    size_t count = vectored ? op->size : 1, capacity = ((duplex_end *)op->conn)->duplex->capacity,
           moved = 0;
    duplex_ring *r = ring_of(op);
    if (max > MOVE_MAX) max = MOVE_MAX;
    for (size_t i = 0; i < count && moved < max; i++) {
        size_t size = parts[i].iov_len < max - moved ? parts[i].iov_len : max - moved;
        if (!size) continue;
        if (is_read(op))
            copy_out(r, capacity, parts[i].iov_base, size);
        else
            copy_in(r, capacity, parts[i].iov_base, size);
        moved += size;
    }
    return (int)moved;
}

static bool is_empty_request(const aw_io *op) {
    if (op->wants == AW_IO_READ || op->wants == AW_IO_WRITE) return !op->size;
    for (size_t i = 0; i < op->size; i++)
        if (((const struct iovec *)op->data)[i].iov_len) return false;
    return true;
}

/* The result; -EAGAIN: wait. */
static int duplex_attempt(const aw_io *op) {
    duplex_end *e = (duplex_end *)op->conn;
    duplex_ring *r = ring_of(op);
    bool vectored = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    if (e->closed) return -EBADF;
    if (vectored && op->size > INT_MAX) return -EINVAL;
    switch (op->wants) {
    case AW_IO_READ:
    case AW_IO_READV:
        if (is_empty_request(op)) return 0;
        if (r->size) return duplex_move(op, r->size);
        return r->ended ? 0 : -EAGAIN;
    case AW_IO_WRITE:
    case AW_IO_WRITEV:
        if (r->ended || r->reader_gone) return -EPIPE;
        if (is_empty_request(op)) return 0;
        return r->size < e->duplex->capacity ? duplex_move(op, e->duplex->capacity - r->size)
                                             : -EAGAIN;
    case AW_IO_SHUTDOWN: r->ended = true; return 0;
    default: return -EOPNOTSUPP;
    }
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Called with the lock held; releases it. Wakes the other side of the ring; after a shutdown also
 * the waiting writers. */
static aw_poll duplex_finish(aw_io *op, int out, aw_cx *cx) {
    duplex_end *e = (duplex_end *)op->conn;
    duplex_ring *r = ring_of(op);
    aw__waiters *const queues[] = {is_read(op) ? &r->writers : &r->readers, &r->writers};
    duplex_wake_and_unlock(e->duplex, queues, out < 0 ? 0 : op->wants == AW_IO_SHUTDOWN ? 2 : 1);
    op->out = out;
    duplex_end_unref(e);
    aw_cx_spend(cx);
    return AW_READY;
}

static aw_poll duplex_poll(aw_io *op, aw_cx *cx) {
    duplex_end *e = (duplex_end *)op->conn;
    duplex *d = e->duplex;
    if (aw__wait_stays_pending((aw__waiter *)op, &d->lock, cx)) return AW_PENDING;
    if (!(op->flags & DUPLEX_REFERENCED)) duplex_keep(op->conn);
    op->flags |= DUPLEX_REFERENCED;

    aw__lock(&d->lock);
    uint32_t state = op->future.state;
    int out = state == AW__WAITING ? -EAGAIN : duplex_attempt(op);
    if (out != -EAGAIN) {
        if (state == AW__WAIT_DONE) aw__wait_disarm((aw__waiter *)op, cx);
        return duplex_finish(op, out, cx);
    }
    bool arm = state == AW__WAIT_FRESH || !aw_waker_will_wake(&op->waker, cx->waker);
    if (state != AW__WAITING) aw__waiters_add(queue_of(op), (aw__waiter *)op);
    op->waker = *cx->waker;
    op->future.state = AW__WAITING;
    aw__unlock(&d->lock);
    if (arm) aw_cx_arm(cx);
    return AW_PENDING;
}

static aw_poll duplex_cancel(aw_io *op, aw_cx *cx) {
    duplex_end *e = (duplex_end *)op->conn;
    if (!(op->flags & DUPLEX_REFERENCED)) return AW_CANCELLED;
    aw__lock(&e->duplex->lock);
    aw__wait_leave(queue_of(op), (aw__waiter *)op);
    aw__unlock(&e->duplex->lock);
    aw__wait_disarm((aw__waiter *)op, cx);
    duplex_end_unref(e);
    return AW_CANCELLED;
}

static const aw_conn_type duplex_type = {
    .self_size = sizeof(aw_conn_type),
    .name = "duplex",
    .poll = duplex_poll,
    .cancel = duplex_cancel,
    .close = duplex_close,
    .keep = duplex_keep,
    .drop = duplex_drop,
};
