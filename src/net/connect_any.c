/* SPDX-License-Identifier: MIT
 *
 * Connect to any of several addresses, and to a name.
 *
 * The attempts are one allocation, in the order in which they begin. `begun` of them have been
 * polled; `running` of those have not ended. The timer runs while attempts remain to be begun. The
 * first success decides: the other attempts are cancelled. */
#include <errno.h>

#include <awake/net.h>

#include "base/allocate.h"
#include "context/context.h"
#include "net/lookup.h"

typedef struct aw__attempt {
    aw_connect_future connect;
    aw_conn *conn; /* result of `connect` */
} attempt;

typedef aw_connect_any_future any;

/* State. ANY_CANCELLED: an attempt was cancelled. ANY_DECIDED: an attempt has succeeded. */
enum { ANY_FRESH, ANY_RACING, ANY_CANCELLED, ANY_DECIDED };

/* ---- Begin ----------------------------------------------------------------------------------- */

/* The first address at or after `from` that is of `family` (or, with !same, is not); `count` if
 * there is none. */
static uint32_t next_address(const any *self, uint32_t from, int family, bool same) {
    while (from < self->count && (aw_addr_family(&self->addrs[from]) == family) != same)
        from++;
    return from;
}

/* The family of the first address alternates with the other families, while both have addresses. */
static void interleave_families(any *self) {
    int family = aw_addr_family(&self->addrs[0]);
    uint32_t at[2] = {next_address(self, 0, family, true), next_address(self, 0, family, false)};
    bool other = false;
    for (uint32_t i = 0; i < self->count; i++) {
        if (at[other] == self->count) other = !other;
        attempt *t = &self->attempts[i];
        t->conn = NULL;
        t->connect = aw_connect(&t->conn, &self->addrs[at[other]]);
        at[other] = next_address(self, at[other] + 1, family, !other);
        other = !other;
    }
}

static int any_begin(any *self, aw_cx *cx) {
    if (!self->conn || !self->addrs || self->count == 0) return -EINVAL;
    self->allocator = aw__allocator_for(aw_cx_runtime(cx));
    self->attempts = aw__alloc(self->allocator, self->count * sizeof(attempt));
    if (!self->attempts) return -ENOMEM;
    interleave_families(self);
    return 0;
}

static void any_stop_timer(any *self, aw_cx *cx) {
    aw_future *f = &self->timer.future;
    if (f->type && aw_future_started(f) && !aw_future_ended(f)) aw_future_cancel(f, cx);
}

static void begin_next_attempt(any *self, aw_cx *cx) {
    any_stop_timer(self, cx);
    self->begun++;
    self->running++;
    self->timer = aw_sleep_for(self->stagger);
}

/* ---- End ------------------------------------------------------------------------------------- */

static aw_poll any_end(any *self, aw_cx *cx, int out, aw_poll how) {
    any_stop_timer(self, cx);
    aw__free(self->allocator, self->attempts, self->count * sizeof(attempt));
    self->attempts = NULL;
    self->out = out;
    return how;
}

static void succeed(any *self, attempt *t) {
    *self->conn = t->conn;
    self->future.state = ANY_DECIDED;
}

/* The first success is the result. A later one is closed. */
static void attempt_ended(any *self, attempt *t) {
    self->running--;
    if (t->connect.out) return;
    if (self->future.state == ANY_DECIDED)
        aw_close(t->conn);
    else
        succeed(self, t);
}

/* Cancels all running attempts. True: none is left. */
static bool cancel_attempts(any *self, aw_cx *cx) {
    for (uint32_t i = 0; i < self->begun; i++) {
        attempt *t = &self->attempts[i];
        if (aw_future_ended(&t->connect.future)) continue;
        aw_poll r = aw_future_cancel(&t->connect.future, cx);
        if (r == AW_READY) attempt_ended(self, t);
        if (r == AW_CANCELLED) self->running--;
        if (r == AW_CANCELLED && self->future.state == ANY_RACING)
            self->future.state = ANY_CANCELLED;
    }
    return self->running == 0;
}

static aw_poll cancel_losers(any *self, aw_cx *cx) {
    any_stop_timer(self, cx); /* it holds the waker of an earlier poll */
    return cancel_attempts(self, cx) ? any_end(self, cx, 0, AW_READY) : AW_PENDING;
}

/* ---- Race ------------------------------------------------------------------------------------ */

/* True: an attempt has failed. */
static bool poll_attempts(any *self, aw_cx *cx) {
    bool failed = false;
    for (uint32_t i = 0; i < self->begun && self->future.state != ANY_DECIDED; i++) {
        attempt *t = &self->attempts[i];
        if (aw_future_ended(&t->connect.future)) continue;
        if (aw_future_poll(&t->connect.future, cx) == AW_PENDING) continue;
        attempt_ended(self, t);
        failed |= t->connect.out != 0;
    }
    return failed;
}

/* All attempts have failed: the error of the first. */
static aw_poll any_end_failed(any *self, aw_cx *cx) {
    return any_end(self, cx, self->attempts[0].connect.out, AW_READY);
}

static aw_poll any_poll(aw_future *f, aw_cx *cx) {
    any *self = (any *)f;
    if (f->state == ANY_FRESH) {
        self->out = any_begin(self, cx);
        if (self->out) return AW_READY;
        f->state = ANY_RACING;
        begin_next_attempt(self, cx);
    }
    while (f->state == ANY_RACING) {
        bool more = self->begun < self->count, failed = poll_attempts(self, cx);
        if (f->state == ANY_DECIDED) break;
        if (!more && self->running == 0) return any_end_failed(self, cx);
        if (!more || (!failed && aw_future_poll(&self->timer.future, cx) == AW_PENDING))
            return AW_PENDING;
        begin_next_attempt(self, cx);
    }
    return cancel_losers(self, cx);
}

static aw_poll any_cancel(aw_future *f, aw_cx *cx) {
    any *self = (any *)f;
    if (f->state == ANY_FRESH) return AW_CANCELLED;
    if (f->state == ANY_DECIDED) return cancel_losers(self, cx);
    any_stop_timer(self, cx);
    if (!cancel_attempts(self, cx)) return AW_PENDING;
    if (f->state == ANY_DECIDED) return any_end(self, cx, 0, AW_READY);
    if (f->state == ANY_CANCELLED || self->begun < self->count)
        return any_end(self, cx, -ECANCELED, AW_CANCELLED);
    return any_end_failed(self, cx);
}

static void any_discard(aw_future *f) {
    any *self = (any *)f;
    if (self->out == 0) aw_close(*self->conn);
}

static const aw_future *any_child(const aw_future *f, size_t n) {
    const any *self = (const any *)f;
    if (!self->attempts) return NULL;
    for (uint32_t i = 0; i < self->begun; i++)
        if (!aw_future_ended(&self->attempts[i].connect.future) && n-- == 0)
            return &self->attempts[i].connect.future;
    return NULL;
}

const aw_future_type aw_connect_any_type = {
    AW_TYPE_OF(aw_connect_any_future, "connect_any"),
    .flags = AW_OUT_ERRNO,
    .poll = any_poll,
    .cancel = any_cancel,
    .discard = any_discard,
    .child = any_child,
};

aw_connect_any_future aw_connect_any(aw_conn **conn, const aw_addr *addrs, int count) {
    return (any){.future = AW_FUTURE_INIT(&aw_connect_any_type),
                 .conn = conn,
                 .addrs = addrs,
                 .count = count < 0 ? 0 : (uint32_t)count,
                 .stagger = AW_MSEC(250)};
}

/* ---- By name --------------------------------------------------------------------------------- */

static void host_discard(aw_future *f) {
    aw_connect_host_future *self = (aw_connect_host_future *)f;
    if (self->out == 0) aw_close(*self->conn);
}

AW_ASYNC_DEF(aw_connect_host_future, .discard = host_discard) {
    AW_BEGIN;
    self->allocator = aw__allocator_for(aw_cx_runtime(cx));
    AW_AWAIT(self->resolve, aw__resolve_all(self->allocator, self->name, self->port));
    if (self->resolve.out < 0) AW_RETURN(self->resolve.out);
    self->found = self->resolve.to;
    self->found_capacity = self->resolve.max;
    AW_AWAIT(self->any, aw_connect_any(self->conn, self->found, self->resolve.out));
    AW_RETURN(self->any.out);
    AW_FINALLY;
    if (self->found)
        aw__free(self->allocator, self->found, (size_t)self->found_capacity * sizeof(aw_addr));
    AW_END;
}

aw_connect_host_future aw_connect_host(aw_conn **conn, const char *name, uint16_t port) {
    return AW_CALL(aw_connect_host_future, .conn = conn, .name = name, .port = port);
}
