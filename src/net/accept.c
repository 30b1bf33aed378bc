/* SPDX-License-Identifier: MIT
 *
 * Accepting, and going on when it fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <awake/runtime.h>

#include "core/misuse.h"
#include "net/ahead.h"
#include "net/listener.h"
#include "net/socket.h"

enum { FEW = 16 /* failed connections in a row that are passed over at once */ };
static const uint64_t SHORTEST = AW_MSEC(5), LONGEST = AW_SEC(1);

/* Of a connection that failed before it was accepted: the next one may be good. */
static bool is_of_connection(int error) {
    switch (-error) {
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case ETIMEDOUT:
    case ECONNRESET:
    case EPERM: return true; /* a firewall */
    default: return false;
    }
}

/* Used up, here or in the whole system: somebody may give some back. */
static bool is_of_resources(int error) {
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

static void report(aw_listener *l, int error) {
    if (!aw__exchange(&l->reported, 1u))
        aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
                   "a listener cannot accept: %s; it tries again until it can", strerror(-error));
}

/* One has come: 0, or why it is none. What limits connections is from now on told by the connection itself. */
static int take(aw_accept_future *self, int fd) {
    aw_conn *c;
    aw_addr peer;
    int error = self->peer ? aw__socket_name(fd, getpeername, &peer) : 0;
    if (error == -ENOTCONN) {
        error = -ECONNABORTED; /* and has gone */
    } else if (error) {
        peer = (aw_addr){0}; /* of another kind: who connects must not end the listening */
        error = 0;
    }
    aw__conn_room *r = self->listener->room;
    if (!error)
        error = aw__fd_new_accepted(&c, fd, (aw__fd *)self->listener->conn, r ? &r->end : NULL);
    if (error) {
        close(fd);
        return error;
    }
    if (r) aw__fetch_add_relaxed(&r->refs, 1u);
    self->permit = false;
    if (self->peer) *self->peer = peer;
    *self->conn = c;
    return 0;
}

/* How long to wait before the next attempt; false: it is over. */
static bool goes_on(aw_accept_future *self, int error) {
    bool used_up = is_of_resources(error);
    if (!used_up && !is_of_connection(error)) return false;
    if (!used_up && ++self->failed < FEW) return true;
    report(self->listener, error);
    self->pause = aw__longer(self->pause, SHORTEST, LONGEST);
    return true;
}

static void accept_discard(aw_future *f) {
    aw_accept_future *self = (aw_accept_future *)f;
    if (self->out == 0) aw_close(*self->conn);
}

AW_ASYNC_DEF(aw_accept_future, .discard = accept_discard) {
    AW_BEGIN;
    if (!self->listener || !self->conn) AW_RETURN(-EINVAL);
    aw_listener_keep(self->listener);
    self->kept = true;
    if (self->listener->room) {
        AW_AWAIT(self->acquire, aw_semaphore_acquire(&self->listener->room->permits, 1));
        if (self->acquire.out < 0) AW_RETURN(-EBADF); /* closed */
        self->permit = true;
    }
    for (;;) {
        self->got = AW__AHEAD_OFF;
        if (self->listener->ahead) {
            AW_AWAIT(self->next, aw__ahead_next(self->listener->ahead, cx));
            self->got = self->next.out;
        }
        if (self->got == AW__AHEAD_OFF) {
            AW_AWAIT(self->io, aw__io(self->listener->conn, AW_IO_ACCEPT, NULL, 0));
            self->got = self->io.out;
        }
        if (self->got >= 0) self->got = take(self, self->got);
        if (self->got == 0 || !goes_on(self, self->got)) AW_RETURN(self->got);
        if (!self->pause) continue;
        AW_AWAIT_FOR(self->nap, self->pause, aw_semaphore_acquire(&self->listener->open, 1));
        if (self->nap.out < 0 && self->nap.out != -ETIMEDOUT) AW_RETURN(self->nap.out);
    }
    AW_FINALLY;
    if (self->kept) {
        if (self->permit) aw_semaphore_release(&self->listener->room->permits, 1);
        aw_listener_drop(self->listener);
    }
    AW_END;
}

aw_accept_future aw_accept_from(aw_listener *l, aw_conn **conn, aw_addr *peer) {
    return AW_CALL(aw_accept_future, .listener = l, .conn = conn, .peer = peer);
}

aw_accept_future aw_accept(aw_listener *l, aw_conn **conn) {
    return aw_accept_from(l, conn, NULL);
}
