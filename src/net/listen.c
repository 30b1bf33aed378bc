/* SPDX-License-Identifier: MIT
 *
 * Listeners: creation, references, close. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/sized_copy.h"
#include "net/accept_ahead.h"
#include "net/listener.h"
#include "net/socket.h"

#include "context/context.h"

/* ---- Connection limit ------------------------------------------------------------------------ */

static void conn_limit_unref(aw__conn_limit *limit) {
    if (aw__fetch_sub(&limit->refs, 1u) == 1)
        aw__free(limit->close_hook.allocator, limit, sizeof *limit);
}

static void conn_limit_conn_closed(aw__fd_close_hook *hook) {
    aw__conn_limit *limit = (aw__conn_limit *)(void *)hook;
    aw_semaphore_release(&limit->permits, 1);
    conn_limit_unref(limit);
}

static aw__conn_limit *conn_limit_new(const aw_allocator *a, uint32_t permits) {
    aw__conn_limit *limit = aw__alloc(a, sizeof *limit);
    if (limit)
        *limit = (aw__conn_limit){.close_hook = {conn_limit_conn_closed, a},
                                  .refs = 1,
                                  .permits = aw_semaphore_of(permits)};
    return limit;
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

/* `fd` listens already, or will. On failure it still belongs to the caller. */
static int listener_make(aw_listener **to, int fd, const aw_listen_options *o) {
    const aw_allocator *a = aw__allocator_for(NULL);
    aw_listener *l = aw__alloc(a, sizeof *l);
    if (!l) return -ENOMEM;
    *l = (aw_listener){.refs = 1, .open = AW_SEMAPHORE_INIT(0), .allocator = a};
    int error = -ENOMEM;
    if (o->max_connections && !(l->conn_limit = conn_limit_new(a, o->max_connections))) goto failed;
    if (o->accept_ahead && !(l->accept_ahead = aw__accept_ahead_new(a, o->accept_ahead)))
        goto failed;
    error = aw_conn_of_fd(&l->conn, fd);
    if (error) goto failed;
    if (l->accept_ahead) aw__accept_ahead_open(l->accept_ahead, l->conn);
    *to = l;
    return 0;
failed:
    if (l->accept_ahead) aw__accept_ahead_drop(l->accept_ahead);
    if (l->conn_limit) conn_limit_unref(l->conn_limit);
    aw__free(a, l, sizeof *l);
    return error;
}

void aw_listener_keep(aw_listener *l) {
    if (l) aw__fetch_add_relaxed(&l->refs, 1u);
}

void aw_listener_drop(aw_listener *l) {
    if (!l || aw__fetch_sub(&l->refs, 1u) != 1) return;
    if (l->accept_ahead) aw__accept_ahead_close(l->accept_ahead);
    aw_conn_drop(l->conn);
    if (l->accept_ahead) aw__accept_ahead_drop(l->accept_ahead);
    if (l->conn_limit) conn_limit_unref(l->conn_limit);
    aw__free(l->allocator, l, sizeof *l);
}

void aw_listener_close(aw_listener *l) {
    if (!l) return;
    if (l->accept_ahead) aw__accept_ahead_close(l->accept_ahead);
    /* aw_close takes a reference. The listener's own stays, because other holders of the listener
     * may still use `conn`: they get -EBADF. */
    aw_conn_keep(l->conn);
    aw_close(l->conn);
    if (l->conn_limit) aw_semaphore_close(&l->conn_limit->permits);
    aw_semaphore_close(&l->open);
    aw_listener_drop(l);
}

int aw_listener_fd(const aw_listener *l) {
    return l ? aw_conn_fd(l->conn) : -EBADF;
}

int aw_listener_addr(const aw_listener *l, aw_addr *addr) {
    return l ? aw_conn_local(l->conn, addr) : -EBADF;
}

/* ---- Listen ---------------------------------------------------------------------------------- */

static int copy_options(aw_listen_options *o, const aw_listen_options *from) {
    *o = (aw_listen_options)AW_LISTEN_OPTIONS;
    if (from && !aw__copy_sized(o, sizeof *o, from)) return -EINVAL;
    o->self_size = sizeof *o; /* complete now, with defaults for what `from` lacks */
    bool fits = o->max_connections <= AW_SEMAPHORE_MAX && o->accept_ahead <= AW__ACCEPT_AHEAD_MAX;
    return o->backlog < 0 || !fits || (o->max_connections && o->accept_ahead) ? -EINVAL : 0;
}

/* Before bind. Accepted connections inherit these options. */
static int prepare_inet(int fd, int family, const aw_listen_options *o) {
    int error = o->no_reuse_addr ? 0 : aw__socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!error && o->reuse_port) error = aw__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && family == AF_INET6)
        error = aw__socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, o->v6_only);
    if (!error && !o->nagle) error = aw__socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return error;
}

static int bind_to(int fd, const aw_addr *addr) {
    return bind(fd, &addr->u.any, addr->size) ? -errno : 0;
}

static int bind_and_listen(int fd, const aw_addr *addr, const aw_listen_options *o) {
    int family = aw_addr_family(addr), error = 0;
    if (family != AF_UNIX) error = prepare_inet(fd, family, o);
    if (!error) error = bind_to(fd, addr);
    if (error == -EADDRINUSE && o->replace_stale && family == AF_UNIX) {
        int stale = aw__socket_remove_stale(addr);
        if (stale == 0 || stale == -ENOENT) error = bind_to(fd, addr);
    }
    if (!error && listen(fd, o->backlog ? o->backlog : INT_MAX)) error = -errno;
    return error;
}

int aw_listen(aw_listener **l, const aw_addr *addr, const aw_listen_options *options) {
    aw_listen_options o;
    if (!l || !addr) return -EINVAL;
    int error = copy_options(&o, options), family = aw_addr_family(addr);
    if (error) return error;
    if (family == AF_UNSPEC || (o.seqpacket && family != AF_UNIX) ||
        (o.reuse_port && family == AF_UNIX))
        return -EINVAL;
    int fd = aw__socket(family, o.seqpacket ? SOCK_SEQPACKET : SOCK_STREAM);
    if (fd < 0) return fd;
    aw_listener *made;
    /* Allocate before bind: a failure after it would leave a Unix path behind. */
    error = listener_make(&made, fd, &o);
    if (error) {
        close(fd);
        return error;
    }
    error = bind_and_listen(fd, addr, &o);
    if (error)
        aw_listener_drop(made);
    else
        *l = made;
    return error;
}

int aw_listen_each(aw_listener **ls, int count, const aw_addr *addr,
                   const aw_listen_options *options) {
    aw_listen_options o;
    if (!ls || !addr || count <= 0 || aw_addr_family(addr) == AF_UNIX) return -EINVAL;
    int error = copy_options(&o, options), made = 0;
    aw_addr at = *addr;
    o.reuse_port = true;
    while (!error && made < count) {
        error = aw_listen(&ls[made], &at, &o);
        if (!error && made++ == 0)
            error = aw_listener_addr(ls[0], &at); /* port 0: the one that was chosen */
    }
    if (error)
        while (made > 0)
            aw_listener_close(ls[--made]);
    return error;
}

int aw_listener_of_fd(aw_listener **l, int fd, const aw_listen_options *options) {
    aw_listen_options o;
    int listens = 0, error = l ? copy_options(&o, options) : -EINVAL;
    socklen_t size = sizeof listens;
    if (error) return error;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size)) return -errno;
    if (!listens) return -EINVAL;
    error = listener_make(l, fd, &o);
    if (!error) aw__socket_set(fd, IPPROTO_TCP, TCP_NODELAY, !o.nagle); /* fails if it is not TCP */
    return error;
}
