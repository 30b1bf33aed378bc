/* SPDX-License-Identifier: MIT */
#include "net/ahead.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <awake/runtime.h>

#include "core/misuse.h"
#include "os/fork.h"
#include "sync/waiters.h"

enum { LOOK = AW__IO_AGAIN, BEGIN = AW__IO_WAITS }; /* `out` of who is to do that, in his poll */

/* ---- The queue: all under the lock ------------------------------------------------------------ */

static int pop(aw__ahead *a) {
    int fd = a->ring[a->first];
    a->first = (a->first + 1) % a->slots;
    a->count--;
    return fd;
}

static bool grow(aw__ahead *a) {
    int *ring = aw__alloc(a->allocator, 2 * a->slots * sizeof *ring);
    if (!ring) return false;
    uint32_t behind = a->slots - a->first;
    memcpy(ring, a->ring + a->first, behind * sizeof *ring);
    memcpy(ring + behind, a->ring, a->first * sizeof *ring);
    aw__release(a->allocator, a->ring, a->slots * sizeof *ring);
    a->ring = ring;
    a->first = 0;
    a->slots *= 2;
    return true;
}

static bool push(aw__ahead *a, int fd) {
    if (a->count == a->slots && !grow(a)) return false;
    a->ring[(a->first + a->count++) % a->slots] = fd;
    return true;
}

/* ---- Who comes, and who waits ----------------------------------------------------------------- */

/* With the lock, which is free for a while if many wait. */
static void end_waits(aw__ahead *a, int out, aw__wakes *wakes) {
    while (a->waiters.first) {
        if (aw__wakes_full(wakes)) {
            aw__unlock(&a->lock);
            aw__wakes_run(wakes);
            aw__lock(&a->lock);
            continue;
        }
        aw__waiter_end(&a->waiters, a->waiters.first, out, wakes);
    }
}

/* It is not with the system. `error`: why, for one who waits or the next who asks, or LOOK. */
static void be_idle(aw__ahead *a, int error) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&a->lock);
    a->idle = true;
    if (a->waiters.first)
        aw__waiter_end(&a->waiters, a->waiters.first, error, &wakes);
    else if (error != LOOK)
        a->error = error;
    end_waits(a, LOOK, &wakes);
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
}

static void came(aw__many *m, int fd) {
    aw__ahead *a = (aw__ahead *)(void *)m;
    aw__wakes wakes = {.count = 0};
    int refused = 0;
    aw__lock(&a->lock);
    if (a->closed)
        refused = -EBADF;
    else if (a->waiters.first)
        aw__waiter_end(&a->waiters, a->waiters.first, fd, &wakes);
    else if (!push(a, fd))
        refused = -ENOMEM;
    bool enough = a->count >= a->most;
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
    if (refused) close(fd);
    if (refused == -ENOMEM)
        aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
                   "a connection that was accepted ahead is dropped: no memory to keep it");
    if (enough) aw__many_ask_back(m);
}

/* Without a reason of its own when it was asked back, or the thread or the runtime ended that had handed it over. */
static bool is_error(int error) {
    return error != -ECANCELED && error != -EINTR && error != -ESHUTDOWN;
}

static void over(aw__many *m, int error) {
    aw__ahead *a = (aw__ahead *)(void *)m;
    be_idle(a, is_error(error) ? error : LOOK);
    aw__ahead_drop(a);
}

/* With the lock. */
static int try_next(aw__waiter *w) {
    aw__ahead *a = ((aw__ahead_future *)w)->ahead;
    if (a->closed) return -EBADF;
    if (a->count) return pop(a);
    if (a->error) {
        int error = a->error;
        a->error = 0;
        return error;
    }
    if (((aw__ahead_future *)w)->alone) return AW__AHEAD_OFF;
    if (((aw__ahead_future *)w)->elsewhere) a->off = true;
    if (!a->idle) return -EAGAIN;
    if (a->off) return AW__AHEAD_OFF;
    a->idle = false;
    return BEGIN;
}

static bool is_off(aw__ahead *a) {
    aw__lock(&a->lock);
    bool off = a->off;
    aw__unlock(&a->lock);
    return off;
}

/* A descriptor, AW__IO_AGAIN, or why not. */
static int accept_now(const aw__ahead *a) {
    aw_io op = aw__io(a->accept.op.conn, AW_IO_ACCEPT, NULL, 0);
    int n = aw__load_relaxed(&((aw__fd *)op.conn)->error);
    if (!n)
        while ((n = aw__io_call(&op)) == -EINTR)
            ;
    return n;
}

/* AW__IO_WAITS: it runs; AW__IO_LATER: not now, and this has been woken; or what comes of it instead. */
static int begin(aw__ahead *a, aw_cx *cx) {
    int n = accept_now(a);
    if (n != AW__IO_AGAIN) return n;
    aw__fetch_add_relaxed(&a->refs, 1u);
    n = aw__many_begin(&a->accept, cx);
    if (n != AW__IO_WAITS) aw__ahead_drop(a);
    return n;
}

static aw_poll next_poll(aw_future *self, aw_cx *cx) {
    aw__ahead_future *n = (aw__ahead_future *)self;
    aw__ahead *a = n->ahead;
    for (;;) {
        if (aw__wait_poll((aw__waiter *)n, &a->lock, &a->waiters, try_next, cx) == AW_PENDING) {
            if (n->elsewhere) aw__many_ask_back(&a->accept);
            return AW_PENDING;
        }
        if (n->out != LOOK && n->out != BEGIN) return AW_READY;
        n->future.state = AW__WAIT_FRESH;
        if (n->out == LOOK) continue;
        n->out = begin(a, cx);
        if (n->out == AW__IO_WAITS) {
            n->elsewhere = is_off(a);
            continue;
        }
        if (n->out == AW__IO_LATER) n->elsewhere = !aw__completes_here(cx); /* it may be, now */
        be_idle(a, LOOK);
        return n->out == AW__IO_LATER ? AW_PENDING : AW_READY;
    }
}

static aw_poll next_cancel(aw_future *self, aw_cx *cx) {
    aw__ahead_future *n = (aw__ahead_future *)self;
    aw__waiter *w = (aw__waiter *)n;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&n->ahead->lock);
    bool left = aw__wait_leave(&n->ahead->waiters, w);
    aw__unlock(&n->ahead->lock);
    aw_poll p = aw__wait_cancelled(w, left, cx);
    return n->out == LOOK ? AW_CANCELLED : p;
}

/* A connection that nobody takes. */
static void next_discard(aw_future *self) {
    const aw__ahead_future *n = (const aw__ahead_future *)self;
    if (n->out >= 0) close(n->out);
}

static const aw_future_type next_type = {AW_TYPE_OF(aw__ahead_future, "accept, ahead"),
                                         .flags = AW_OUT_ERRNO, .poll = next_poll,
                                         .cancel = next_cancel, .discard = next_discard};

static void begin_anew(aw__ahead *a) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&a->lock);
    if (a->generation != aw__fork_generation) {
        aw__store_relaxed(&a->generation, aw__fork_generation);
        while (a->count)
            close(pop(a));
        end_waits(a, -EOWNERDEAD, &wakes);
        if (aw__many_forget(&a->accept)) aw__fetch_sub(&a->refs, 1u); /* its own; not the last */
        a->idle = true;
    }
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
}

static void have_it_here(aw__ahead *a) {
    if (AW__UNLIKELY(aw__load_relaxed(&a->generation) != aw__fork_generation)) begin_anew(a);
}

static bool can_wait_here(const aw_cx *cx) {
    aw__driver *d;
    return aw_cx_runtime(cx) && aw__driver_here(cx, &d) == 0;
}

aw__ahead_future aw__ahead_next(aw__ahead *a, const aw_cx *cx) {
    have_it_here(a);
    bool elsewhere = !aw__completes_here(cx);
    return (aw__ahead_future){AW__WAITER_INIT(&next_type, 0), .ahead = a, .elsewhere = elsewhere,
                              .alone = elsewhere && !can_wait_here(cx)};
}

/* ---- Life ------------------------------------------------------------------------------------- */

aw__ahead *aw__ahead_new(const aw_allocator *allocator, uint32_t most) {
    aw__ahead *a = aw__alloc(allocator, sizeof *a);
    if (!a) return NULL;
    *a = (aw__ahead){.accept = {.came = came, .over = over},
                     .refs = 1,
                     .generation = aw__fork_generation,
                     .idle = true,
                     .most = most,
                     .slots = most,
                     .ring = aw__alloc(allocator, most * sizeof(int)),
                     .allocator = allocator};
    if (a->ring) return a;
    aw__release(allocator, a, sizeof *a);
    return NULL;
}

void aw__ahead_open(aw__ahead *a, aw_conn *listener) {
    a->accept.op = aw__io(listener, AW_IO_ACCEPT, NULL, 0);
}

void aw__ahead_drop(aw__ahead *a) {
    if (aw__fetch_sub(&a->refs, 1u) != 1) return;
    aw__release(a->allocator, a->ring, a->slots * sizeof *a->ring);
    aw__release(a->allocator, a, sizeof *a);
}

void aw__ahead_close(aw__ahead *a) {
    aw__wakes wakes = {.count = 0};
    have_it_here(a);
    aw__lock(&a->lock);
    a->closed = true; /* from now on both only become fewer */
    while (a->waiters.first || a->count) {
        int fd = a->count ? pop(a) : -1;
        if (a->waiters.first) aw__waiter_end(&a->waiters, a->waiters.first, -EBADF, &wakes);
        aw__unlock(&a->lock);
        aw__wakes_run(&wakes);
        if (fd >= 0) close(fd);
        aw__lock(&a->lock);
    }
    aw__unlock(&a->lock);
    aw__many_ask_back(&a->accept);
}
