/* SPDX-License-Identifier: MIT */
#include "net/accept_ahead.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <awake/runtime.h>

#include "base/misuse.h"
#include "context/context.h"
#include "future/waiters.h"
#include "os/fork.h"

/* Internal values of `out`: the poll has to retry, or to submit the operation. */
enum { AHEAD_RETRY = AW__IO_AGAIN, AHEAD_SUBMIT = AW__IO_PENDING };

/* ---- Queue of descriptors: all under the lock ------------------------------------------------ */

static int ahead_pop(aw__accept_ahead *a) {
    int fd = a->ring[a->first];
    a->first = (a->first + 1) % a->slots;
    a->count--;
    return fd;
}

static bool ahead_grow(aw__accept_ahead *a) {
    int *ring = aw__alloc(a->allocator, 2 * a->slots * sizeof *ring);
    if (!ring) return false;
    uint32_t tail_count = a->slots - a->first;
    memcpy(ring, a->ring + a->first, tail_count * sizeof *ring);
    memcpy(ring + tail_count, a->ring, a->first * sizeof *ring);
    aw__free(a->allocator, a->ring, a->slots * sizeof *ring);
    a->ring = ring;
    a->first = 0;
    a->slots *= 2;
    return true;
}

static bool ahead_push(aw__accept_ahead *a, int fd) {
    if (a->count == a->slots && !ahead_grow(a)) return false;
    a->ring[(a->first + a->count++) % a->slots] = fd;
    return true;
}

/* ---- Completions and waiters ----------------------------------------------------------------- */

/* Under the lock, which is released while a full batch of wakers runs. */
static void ahead_complete_waiters(aw__accept_ahead *a, int out, aw__wakes *wakes) {
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

/* The operation is not in flight. `error` goes to one waiter or to the next acceptor; AHEAD_RETRY:
 * there is none. */
static void ahead_set_idle(aw__accept_ahead *a, int error) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&a->lock);
    a->idle = true;
    if (a->waiters.first)
        aw__waiter_end(&a->waiters, a->waiters.first, error, &wakes);
    else if (error != AHEAD_RETRY)
        a->error = error;
    ahead_complete_waiters(a, AHEAD_RETRY, &wakes);
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
}

static void ahead_accepted(aw__multishot *m, int fd) {
    aw__accept_ahead *a = (aw__accept_ahead *)(void *)m;
    aw__wakes wakes = {.count = 0};
    int refused = 0;
    aw__lock(&a->lock);
    if (a->closed)
        refused = -EBADF;
    else if (a->waiters.first)
        aw__waiter_end(&a->waiters, a->waiters.first, fd, &wakes);
    else if (!ahead_push(a, fd))
        refused = -ENOMEM;
    bool full = a->count >= a->limit;
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
    if (refused) close(fd);
    if (refused == -ENOMEM)
        aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
                   "a connection that was accepted ahead is dropped: no memory to queue it");
    if (full) aw__multishot_cancel(m);
}

/* The socket is not at fault when the operation was cancelled (-ECANCELED), or when the submitting
 * thread (-EINTR) or its runtime (-ESHUTDOWN) has ended. */
static bool is_op_error(int error) {
    return error != -ECANCELED && error != -EINTR && error != -ESHUTDOWN;
}

static void ahead_op_ended(aw__multishot *m, int error) {
    aw__accept_ahead *a = (aw__accept_ahead *)(void *)m;
    ahead_set_idle(a, is_op_error(error) ? error : AHEAD_RETRY);
    aw__accept_ahead_drop(a);
}

/* Under the lock. */
static int ahead_try_next(aw__waiter *w) {
    aw__accept_ahead *a = ((aw__accept_ahead_future *)w)->accept_ahead;
    if (a->closed) return -EBADF;
    if (a->count) return ahead_pop(a);
    if (a->error) {
        int error = a->error;
        a->error = 0;
        return error;
    }
    if (((aw__accept_ahead_future *)w)->bypass) return AW__ACCEPT_AHEAD_OFF;
    if (((aw__accept_ahead_future *)w)->disables) a->off = true;
    if (!a->idle) return -EAGAIN;
    if (a->off) return AW__ACCEPT_AHEAD_OFF;
    a->idle = false;
    return AHEAD_SUBMIT;
}

static bool is_off(aw__accept_ahead *a) {
    aw__lock(&a->lock);
    bool off = a->off;
    aw__unlock(&a->lock);
    return off;
}

/* A descriptor, AW__IO_AGAIN, or a negative errno. */
static int accept_now(const aw__accept_ahead *a) {
    aw_io op = aw__io(a->accept.op.conn, AW_IO_ACCEPT, NULL, 0);
    int n = aw__load_relaxed(&((aw__fd *)op.conn)->error);
    if (!n)
        while ((n = aw__io_syscall(&op)) == -EINTR)
            ;
    return n;
}

/* AW__IO_PENDING: in flight. AW__IO_YIELDED: not submitted, and the task has been woken. Otherwise
 * the result of an inline accept, or a negative errno. */
static int ahead_submit(aw__accept_ahead *a, aw_cx *cx) {
    int n = accept_now(a);
    if (n != AW__IO_AGAIN) return n;
    aw__fetch_add_relaxed(&a->refs, 1u);
    n = aw__multishot_submit(&a->accept, cx);
    if (n != AW__IO_PENDING) aw__accept_ahead_drop(a);
    return n;
}

static aw_poll ahead_poll(aw_future *self, aw_cx *cx) {
    aw__accept_ahead_future *n = (aw__accept_ahead_future *)self;
    aw__accept_ahead *a = n->accept_ahead;
    for (;;) {
        if (aw__wait_poll((aw__waiter *)n, &a->lock, &a->waiters, ahead_try_next, cx) ==
            AW_PENDING) {
            if (n->disables) aw__multishot_cancel(&a->accept);
            return AW_PENDING;
        }
        if (n->out != AHEAD_RETRY && n->out != AHEAD_SUBMIT) return AW_READY;
        n->future.state = AW__WAIT_FRESH;
        if (n->out == AHEAD_RETRY) continue;
        n->out = ahead_submit(a, cx);
        if (n->out == AW__IO_PENDING) {
            n->disables = is_off(a);
            continue;
        }
        /* The driver of this thread may have changed. */
        if (n->out == AW__IO_YIELDED) n->disables = !aw__thread_completes(cx);
        ahead_set_idle(a, AHEAD_RETRY);
        return n->out == AW__IO_YIELDED ? AW_PENDING : AW_READY;
    }
}

static aw_poll ahead_cancel(aw_future *self, aw_cx *cx) {
    aw__accept_ahead_future *n = (aw__accept_ahead_future *)self;
    aw__waiter *w = (aw__waiter *)n;
    if (!aw__wait_began(w)) return AW_CANCELLED;
    aw__lock(&n->accept_ahead->lock);
    bool left = aw__wait_leave(&n->accept_ahead->waiters, w);
    aw__unlock(&n->accept_ahead->lock);
    aw_poll p = aw__wait_cancelled(w, left, cx);
    return n->out == AHEAD_RETRY ? AW_CANCELLED : p;
}

static void ahead_discard(aw_future *self) {
    const aw__accept_ahead_future *n = (const aw__accept_ahead_future *)self;
    if (n->out >= 0) close(n->out);
}

static const aw_future_type ahead_type = {AW_TYPE_OF(aw__accept_ahead_future, "accept_ahead"),
                                          .flags = AW_OUT_ERRNO, .poll = ahead_poll,
                                          .cancel = ahead_cancel, .discard = ahead_discard};

static void ahead_reset_after_fork(aw__accept_ahead *a) {
    aw__wakes wakes = {.count = 0};
    aw__lock(&a->lock);
    if (a->generation != aw__fork_generation) {
        aw__store_relaxed(&a->generation, aw__fork_generation);
        while (a->count)
            close(ahead_pop(a));
        ahead_complete_waiters(a, -EOWNERDEAD, &wakes);
        if (aw__multishot_forget(&a->accept))
            aw__fetch_sub(&a->refs, 1u); /* the operation's; not the last */
        a->idle = true;
    }
    aw__unlock(&a->lock);
    aw__wakes_run(&wakes);
}

static void ahead_check_fork(aw__accept_ahead *a) {
    if (AW__UNLIKELY(aw__load_relaxed(&a->generation) != aw__fork_generation))
        ahead_reset_after_fork(a);
}

static bool can_wait(const aw_cx *cx) {
    aw__driver *d;
    return aw_cx_runtime(cx) && aw__driver_for_thread(cx, &d) == 0;
}

aw__accept_ahead_future aw__accept_ahead_next(aw__accept_ahead *a, const aw_cx *cx) {
    ahead_check_fork(a);
    bool disables = !aw__thread_completes(cx);
    return (aw__accept_ahead_future){AW__WAITER_INIT(&ahead_type, 0), .accept_ahead = a,
                                     .disables = disables, .bypass = disables && !can_wait(cx)};
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

aw__accept_ahead *aw__accept_ahead_new(const aw_allocator *allocator, uint32_t limit) {
    aw__accept_ahead *a = aw__alloc(allocator, sizeof *a);
    if (!a) return NULL;
    *a = (aw__accept_ahead){.accept = {.on_result = ahead_accepted, .on_end = ahead_op_ended},
                            .refs = 1,
                            .generation = aw__fork_generation,
                            .idle = true,
                            .limit = limit,
                            .slots = limit,
                            .ring = aw__alloc(allocator, limit * sizeof(int)),
                            .allocator = allocator};
    if (a->ring) return a;
    aw__free(allocator, a, sizeof *a);
    return NULL;
}

void aw__accept_ahead_open(aw__accept_ahead *a, aw_conn *listener) {
    a->accept.op = aw__io(listener, AW_IO_ACCEPT, NULL, 0);
}

void aw__accept_ahead_drop(aw__accept_ahead *a) {
    if (aw__fetch_sub(&a->refs, 1u) != 1) return;
    aw__free(a->allocator, a->ring, a->slots * sizeof *a->ring);
    aw__free(a->allocator, a, sizeof *a);
}

void aw__accept_ahead_close(aw__accept_ahead *a) {
    aw__wakes wakes = {.count = 0};
    ahead_check_fork(a);
    aw__lock(&a->lock);
    a->closed = true; /* from now on waiters and queue only shrink */
    while (a->waiters.first || a->count) {
        int fd = a->count ? ahead_pop(a) : -1;
        if (a->waiters.first) aw__waiter_end(&a->waiters, a->waiters.first, -EBADF, &wakes);
        aw__unlock(&a->lock);
        aw__wakes_run(&wakes);
        if (fd >= 0) close(fd);
        aw__lock(&a->lock);
    }
    aw__unlock(&a->lock);
    aw__multishot_cancel(&a->accept);
}
