/* SPDX-License-Identifier: MIT
 *
 * Accept one connection. Failures that may pass are retried, after a pause if they persist. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <awake/runtime.h>

#include "base/backoff.h"
#include "base/misuse.h"
#include "context/context.h"
#include "net/accept_ahead.h"
#include "net/listener.h"
#include "net/socket.h"

enum { FAST_RETRIES = 16 /* consecutive failed connections that are retried without a pause */ };
static const uint64_t ACCEPT_PAUSE_MIN = AW_MSEC(5), ACCEPT_PAUSE_MAX = AW_SEC(1);

/* The connection failed before it was accepted: the next one may succeed. */
static bool is_conn_error(int error) {
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
    case EPERM: return true; /* firewall rule */
    default: return false;
    }
}

/* The process or the machine is out of descriptors or memory, until some are freed. */
static bool is_resource_error(int error) {
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

static void accept_report(aw_listener *l, int error) {
    if (!aw__exchange(&l->reported, 1u))
        aw__rt_log(aw_runtime_current(), AW_LOG_PROBLEM,
                   "a listener cannot accept: %s; it tries again until it can", strerror(-error));
}

/* Wraps an accepted descriptor in a connection: 0 or a negative errno. On success the permit
 * belongs to the connection, and its close hook returns it. */
static int accept_take(aw_accept_future *self, int fd) {
    aw_conn *accepted;
    aw_addr peer;
    int error = self->peer ? aw__socket_name(fd, getpeername, &peer) : 0;
    if (error == -ENOTCONN) {
        error = -ECONNABORTED; /* the peer has disconnected already */
    } else if (error) {
        /* A peer address that aw_addr cannot hold must not make the accept fail. */
        peer = (aw_addr){0};
        error = 0;
    }
    aw__conn_limit *limit = self->listener->conn_limit;
    if (!error)
        error = aw__fd_new_accepted(&accepted, fd, (aw__fd *)self->listener->conn,
                                    limit ? &limit->close_hook : NULL);
    if (error) {
        close(fd);
        return error;
    }
    if (limit) aw__fetch_add_relaxed(&limit->refs, 1u);
    self->permit = false;
    if (self->peer) *self->peer = peer;
    *self->conn = accepted;
    return 0;
}

/* False: `error` is final. True: try again, after `pause` if it is not 0. */
static bool accept_should_retry(aw_accept_future *self, int error) {
    bool exhausted = is_resource_error(error);
    if (!exhausted && !is_conn_error(error)) return false;
    if (!exhausted && ++self->failed < FAST_RETRIES) return true;
    accept_report(self->listener, error);
    self->pause = aw__backoff_next(self->pause, ACCEPT_PAUSE_MIN, ACCEPT_PAUSE_MAX);
    return true;
}

static void accept_discard(aw_future *f) {
    aw_accept_future *self = (aw_accept_future *)f;
    if (self->out == 0) aw_close(*self->conn);
}

AW_ASYNC_DEF(aw_accept_future, .discard = accept_discard) {
    AW_BEGIN;
    if (!self->listener) AW_RETURN(-EBADF);
    if (!self->conn) AW_RETURN(-EINVAL);
    aw_listener_keep(self->listener);
    self->kept = true;
    if (self->listener->conn_limit) {
        AW_AWAIT(self->acquire, aw_semaphore_acquire(&self->listener->conn_limit->permits, 1));
        if (self->acquire.out < 0) AW_RETURN(-EBADF); /* listener closed */
        self->permit = true;
    }
    for (;;) {
        self->got = AW__ACCEPT_AHEAD_OFF;
        if (self->listener->accept_ahead) {
            AW_AWAIT(self->next, aw__accept_ahead_next(self->listener->accept_ahead, cx));
            self->got = self->next.out;
        }
        if (self->got == AW__ACCEPT_AHEAD_OFF) {
            AW_AWAIT(self->io, aw__io(self->listener->conn, AW_IO_ACCEPT, NULL, 0));
            self->got = self->io.out;
        }
        if (self->got >= 0) self->got = accept_take(self, self->got);
        if (self->got == 0 || !accept_should_retry(self, self->got)) AW_RETURN(self->got);
        if (!self->pause) continue;
        AW_AWAIT_FOR(self->nap, self->pause, aw_semaphore_acquire(&self->listener->open, 1));
        if (self->nap.out < 0 && self->nap.out != -ETIMEDOUT) AW_RETURN(self->nap.out);
    }
    AW_FINALLY;
    if (self->kept) {
        aw_listener *l = self->listener;
        if (l && self->permit) aw_semaphore_release(&l->conn_limit->permits, 1);
        aw_listener_drop(l);
    }
    AW_END;
}

aw_accept_future aw_accept_from(aw_listener *l, aw_conn **conn, aw_addr *peer) {
    return AW_CALL(aw_accept_future, .listener = l, .conn = conn, .peer = peer);
}

aw_accept_future aw_accept(aw_listener *l, aw_conn **conn) {
    return aw_accept_from(l, conn, NULL);
}
