/* SPDX-License-Identifier: MIT
 *
 * Two connections in memory: two rings, one for each direction, under one short lock.
 *
 *   1. An operation holds a reference on its end from its first poll until it has ended, so the queues outlive all
 *      who wait, and whoever wakes them.
 *   2. Who changes a ring (bytes, room, an end) ends all waits for it with -EAGAIN; they look again when they are
 *      polled. One that was woken and is cancelled then has taken nothing, and the others were woken too.
 *   3. When the last reference on an end is gone, it is closed; when both are, the memory is free. */
#include <awake/duplex.h>

#include <limits.h>
#include <string.h>

#include "core/alloc.h"
#include "sync/waiters.h"

/* Bytes that are moved while the lock is held. */
enum { MOST = 16384 };

enum { HELD = 1 }; /* what an operation has */

typedef struct ring {
    char *data;
    size_t start, size;
    bool ended; /* nothing more is written */
    bool gone;  /* nobody will read */
    aw__waiters readers, writers;
} ring;

typedef struct end {
    aw_conn conn;
    uint32_t refs; /* atomic */
    bool closed;   /* under the lock */
    ring *in, *out;
    struct duplex *duplex;
} end;

typedef struct duplex {
    uint32_t lock;
    uint32_t ends; /* that are there; atomic */
    size_t capacity;
    ring rings[2];
    end sides[2];
    const aw_allocator *allocator;
    char data[];
} duplex;

static const aw_conn_type duplex_type;

static size_t size_of(size_t capacity) {
    return sizeof(duplex) + 2 * capacity;
}

int aw_duplex(aw_conn **a, aw_conn **b, size_t capacity) {
    if (!a || !b || !capacity) return -EINVAL;
    if (capacity > (SIZE_MAX - sizeof(duplex)) / 2) return -ENOMEM;
    const aw_allocator *allocator = aw__allocator_for(NULL);
    duplex *d = aw__alloc(allocator, size_of(capacity));
    if (!d) return -ENOMEM;
    *d = (duplex){.ends = 2, .capacity = capacity, .allocator = allocator};
    for (int i = 0; i < 2; i++) {
        d->rings[i].data = d->data + (size_t)i * capacity;
        d->sides[i] = (end){.conn = {&duplex_type},
                            .refs = 1,
                            .in = &d->rings[i],
                            .out = &d->rings[1 - i],
                            .duplex = d};
    }
    *a = &d->sides[0].conn;
    *b = &d->sides[1].conn;
    return 0;
}

/* ---- Who waits -------------------------------------------------------------------------------- */

/* With the lock; without it afterwards. */
static void wake_and_unlock(duplex *d, aw__waiters *const *queues, int count) {
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

static void close_and_unlock(end *e) {
    e->closed = true;
    e->in->gone = true;
    e->in->size = 0;
    e->out->ended = true;
    wake_and_unlock(
        e->duplex,
        (aw__waiters *[]){&e->in->readers, &e->in->writers, &e->out->readers, &e->out->writers}, 4);
}

static void let_go(end *e) {
    if (aw__fetch_sub(&e->refs, 1u) != 1) return;
    duplex *d = e->duplex;
    aw__lock(&d->lock);
    close_and_unlock(e);
    if (aw__fetch_sub(&d->ends, 1u) == 1) aw__release(d->allocator, d, size_of(d->capacity));
}

static void duplex_keep(aw_conn *c) {
    aw__fetch_add_relaxed(&((end *)c)->refs, 1u);
}
static void duplex_drop(aw_conn *c) {
    let_go((end *)c);
}
static void duplex_close(aw_conn *c) {
    end *e = (end *)c;
    aw__lock(&e->duplex->lock);
    close_and_unlock(e);
    let_go(e);
}

/* ---- Bytes, under the lock -------------------------------------------------------------------- */

static void copy_out(ring *r, size_t capacity, char *to, size_t size) {
    size_t first = capacity - r->start < size ? capacity - r->start : size;
    memcpy(to, r->data + r->start, first);
    memcpy(to + first, r->data, size - first);
    r->start = (r->start + size) % capacity;
    r->size -= size;
}

static void copy_in(ring *r, size_t capacity, const char *from, size_t size) {
    size_t at = (r->start + r->size) % capacity,
           first = capacity - at < size ? capacity - at : size;
    memcpy(r->data + at, from, first);
    memcpy(r->data, from + first, size - first);
    r->size += size;
}

static bool reads(const aw_io *op) {
    return op->wants == AW_IO_READ || op->wants == AW_IO_READV;
}

static ring *ring_of(const aw_io *op) {
    end *e = (end *)op->conn;
    return reads(op) ? e->in : e->out;
}

static aw__waiters *queue_of(const aw_io *op) {
    return reads(op) ? &ring_of(op)->readers : &ring_of(op)->writers;
}

static int move(const aw_io *op, size_t most) {
    bool many = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    struct iovec one = {op->data, op->size};
    const struct iovec *parts = many ? op->data : &one;
    size_t count = many ? op->size : 1, capacity = ((end *)op->conn)->duplex->capacity, moved = 0;
    ring *r = ring_of(op);
    if (most > MOST) most = MOST;
    for (size_t i = 0; i < count && moved < most; i++) {
        size_t size = parts[i].iov_len < most - moved ? parts[i].iov_len : most - moved;
        if (!size) continue;
        if (reads(op))
            copy_out(r, capacity, parts[i].iov_base, size);
        else
            copy_in(r, capacity, parts[i].iov_base, size);
        moved += size;
    }
    return (int)moved;
}

static bool asks_for_nothing(const aw_io *op) {
    if (op->wants == AW_IO_READ || op->wants == AW_IO_WRITE) return !op->size;
    for (size_t i = 0; i < op->size; i++)
        if (((const struct iovec *)op->data)[i].iov_len) return false;
    return true;
}

/* The result; -EAGAIN: it has to wait. */
static int attempt(const aw_io *op) {
    end *e = (end *)op->conn;
    ring *r = ring_of(op);
    bool many = op->wants == AW_IO_READV || op->wants == AW_IO_WRITEV;
    if (e->closed) return -EBADF;
    if (many && op->size > INT_MAX) return -EINVAL;
    switch (op->wants) {
    case AW_IO_READ:
    case AW_IO_READV:
        if (asks_for_nothing(op)) return 0;
        if (r->size) return move(op, r->size);
        return r->ended ? 0 : -EAGAIN;
    case AW_IO_WRITE:
    case AW_IO_WRITEV:
        if (r->ended || r->gone) return -EPIPE;
        if (asks_for_nothing(op)) return 0;
        return r->size < e->duplex->capacity ? move(op, e->duplex->capacity - r->size) : -EAGAIN;
    case AW_IO_SHUTDOWN: r->ended = true; return 0;
    default: return -EOPNOTSUPP;
    }
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* With the lock. What it did lets the other side go on, and after a shutdown those of this side. */
static aw_poll finish(aw_io *op, int out, aw_cx *cx) {
    end *e = (end *)op->conn;
    ring *r = ring_of(op);
    aw__waiters *const queues[] = {reads(op) ? &r->writers : &r->readers, &r->writers};
    wake_and_unlock(e->duplex, queues, out < 0 ? 0 : op->wants == AW_IO_SHUTDOWN ? 2 : 1);
    op->out = out;
    let_go(e);
    aw_cx_spend(cx);
    return AW_READY;
}

static aw_poll duplex_poll(aw_io *op, aw_cx *cx) {
    end *e = (end *)op->conn;
    duplex *d = e->duplex;
    if (aw__wait_goes_on((aw__waiter *)op, &d->lock, cx)) return AW_PENDING;
    if (!(op->has & HELD)) duplex_keep(op->conn);
    op->has |= HELD;

    aw__lock(&d->lock);
    uint32_t state = op->future.state;
    int out = state == AW__WAITING ? -EAGAIN : attempt(op);
    if (out != -EAGAIN) {
        if (state == AW__WAIT_DONE) aw__wait_disarm((aw__waiter *)op, cx);
        return finish(op, out, cx);
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
    end *e = (end *)op->conn;
    if (!(op->has & HELD)) return AW_CANCELLED;
    aw__lock(&e->duplex->lock);
    aw__wait_leave(queue_of(op), (aw__waiter *)op);
    aw__unlock(&e->duplex->lock);
    aw__wait_disarm((aw__waiter *)op, cx);
    let_go(e);
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
