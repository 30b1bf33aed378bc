/* SPDX-License-Identifier: MIT
 *
 * Connecting to any of several addresses, and to a name.
 *
 * Attempts lie in one block, in the order in which they begin. `begun` of them have been polled; `running` of those
 * have not ended. The timer runs while there are more to begin. As soon as one has succeeded it is decided: the
 * others are cancelled. */
#include <errno.h>

#include <awake/net.h>

#include "core/alloc.h"
#include "net/resolve.h"

typedef struct aw__attempt {
    aw_connect_future connect;
    aw_conn *conn; /* where it is to be */
} attempt;

typedef aw_connect_any_future any;

enum { FRESH, RACING, CUT /* one of them was cancelled */, DECIDED }; /* state */

/* ---- Beginning -------------------------------------------------------------------------------- */

/* The next address from `from` on of this family (or not of it); `count` when there is none. */
static uint32_t next_of(const any *self, uint32_t from, int family, bool same) {
    while (from < self->count && (aw_addr_family(&self->addrs[from]) == family) != same)
        from++;
    return from;
}

/* The family of the first address and the others take turns, as long as there are both. */
static void put_in_order(any *self) {
    int family = aw_addr_family(&self->addrs[0]);
    uint32_t at[2] = {next_of(self, 0, family, true), next_of(self, 0, family, false)};
    bool other = false;
    for (uint32_t i = 0; i < self->count; i++) {
        if (at[other] == self->count) other = !other;
        attempt *t = &self->attempts[i];
        t->conn = NULL;
        t->connect = aw_connect(&t->conn, &self->addrs[at[other]]);
        at[other] = next_of(self, at[other] + 1, family, !other);
        other = !other;
    }
}

static int begin(any *self, aw_cx *cx) {
    if (!self->conn || !self->addrs || self->count == 0) return -EINVAL;
    self->allocator = aw__allocator_for(aw_cx_runtime(cx));
    self->attempts = aw__alloc(self->allocator, self->count * sizeof(attempt));
    if (!self->attempts) return -ENOMEM;
    put_in_order(self);
    return 0;
}

static void stop_timer(any *self, aw_cx *cx) {
    aw_future *f = &self->timer.future;
    if (f->type && aw_future_started(f) && !aw_future_ended(f)) aw_future_cancel(f, cx);
}

static void begin_next(any *self, aw_cx *cx) {
    stop_timer(self, cx);
    self->begun++;
    self->running++;
    self->timer = aw_sleep_for(self->stagger);
}

/* ---- Ending ----------------------------------------------------------------------------------- */

static aw_poll end(any *self, aw_cx *cx, int out, aw_poll how) {
    stop_timer(self, cx);
    aw__release(self->allocator, self->attempts, self->count * sizeof(attempt));
    self->attempts = NULL;
    self->out = out;
    return how;
}

static void succeed(any *self, attempt *t) {
    *self->conn = t->conn;
    self->future.state = DECIDED;
}

/* One that has ended: the first to succeed is taken, what comes later is closed. */
static void ended(any *self, attempt *t) {
    self->running--;
    if (t->connect.out) return;
    if (self->future.state == DECIDED)
        aw_close(t->conn);
    else
        succeed(self, t);
}

/* Cancel all that run. True: none is left. */
static bool cancel_all(any *self, aw_cx *cx) {
    for (uint32_t i = 0; i < self->begun; i++) {
        attempt *t = &self->attempts[i];
        if (aw_future_ended(&t->connect.future)) continue;
        aw_poll r = aw_future_cancel(&t->connect.future, cx);
        if (r == AW_READY) ended(self, t);
        if (r == AW_CANCELLED) self->running--;
        if (r == AW_CANCELLED && self->future.state == RACING) self->future.state = CUT;
    }
    return self->running == 0;
}

static aw_poll wind_up(any *self, aw_cx *cx) {
    stop_timer(self, cx); /* it would wake who polled before */
    return cancel_all(self, cx) ? end(self, cx, 0, AW_READY) : AW_PENDING;
}

/* ---- Racing ----------------------------------------------------------------------------------- */

/* True: one of them has failed. */
static bool poll_all(any *self, aw_cx *cx) {
    bool failed = false;
    for (uint32_t i = 0; i < self->begun && self->future.state != DECIDED; i++) {
        attempt *t = &self->attempts[i];
        if (aw_future_ended(&t->connect.future)) continue;
        if (aw_future_poll(&t->connect.future, cx) == AW_PENDING) continue;
        ended(self, t);
        failed |= t->connect.out != 0;
    }
    return failed;
}

/* None runs any more. */
static aw_poll end_of_all(any *self, aw_cx *cx) {
    return end(self, cx, self->attempts[0].connect.out, AW_READY);
}

static aw_poll any_poll(aw_future *f, aw_cx *cx) {
    any *self = (any *)f;
    if (f->state == FRESH) {
        self->out = begin(self, cx);
        if (self->out) return AW_READY;
        f->state = RACING;
        begin_next(self, cx);
    }
    while (f->state == RACING) {
        bool more = self->begun < self->count, failed = poll_all(self, cx);
        if (f->state == DECIDED) break;
        if (!more && self->running == 0) return end_of_all(self, cx);
        if (!more || (!failed && aw_future_poll(&self->timer.future, cx) == AW_PENDING))
            return AW_PENDING;
        begin_next(self, cx);
    }
    return wind_up(self, cx);
}

static aw_poll any_cancel(aw_future *f, aw_cx *cx) {
    any *self = (any *)f;
    if (f->state == FRESH) return AW_CANCELLED;
    if (f->state == DECIDED) return wind_up(self, cx);
    stop_timer(self, cx);
    if (!cancel_all(self, cx)) return AW_PENDING;
    if (f->state == DECIDED) return end(self, cx, 0, AW_READY);
    if (f->state == CUT || self->begun < self->count)
        return end(self, cx, -ECANCELED, AW_CANCELLED);
    return end_of_all(self, cx);
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

/* ---- By name ---------------------------------------------------------------------------------- */

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
    self->room = self->resolve.max;
    AW_AWAIT(self->any, aw_connect_any(self->conn, self->found, self->resolve.out));
    AW_RETURN(self->any.out);
    AW_FINALLY;
    if (self->found)
        aw__release(self->allocator, self->found, (size_t)self->room * sizeof(aw_addr));
    AW_END;
}

aw_connect_host_future aw_connect_host(aw_conn **conn, const char *name, uint16_t port) {
    return AW_CALL(aw_connect_host_future, .conn = conn, .name = name, .port = port);
}
