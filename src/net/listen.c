/* SPDX-License-Identifier: MIT
 *
 * Listeners: made, shared, closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "net/ahead.h"
#include "net/listener.h"
#include "net/socket.h"
#include "runtime/options.h"

/* ---- Room for connections --------------------------------------------------------------------- */

static void room_drop(aw__conn_room *r) {
    if (aw__fetch_sub(&r->refs, 1u) == 1) aw__release(r->end.allocator, r, sizeof *r);
}

static void conn_is_gone(aw__fd_end *end) {
    aw__conn_room *r = (aw__conn_room *)(void *)end;
    aw_semaphore_release(&r->permits, 1);
    room_drop(r);
}

static aw__conn_room *room_new(const aw_allocator *a, uint32_t permits) {
    aw__conn_room *r = aw__alloc(a, sizeof *r);
    if (r)
        *r = (aw__conn_room){
            .end = {conn_is_gone, a}, .refs = 1, .permits = aw_semaphore_of(permits)};
    return r;
}

/* ---- Life ------------------------------------------------------------------------------------- */

/* Of a socket that listens, or is about to, and is the caller's if this fails. */
static int make(aw_listener **to, int fd, const aw_listen_options *o) {
    const aw_allocator *a = aw__allocator_for(NULL);
    aw_listener *l = aw__alloc(a, sizeof *l);
    if (!l) return -ENOMEM;
    *l = (aw_listener){.refs = 1, .open = AW_SEMAPHORE_INIT(0), .allocator = a};
    int error = -ENOMEM;
    if (o->max_connections && !(l->room = room_new(a, o->max_connections))) goto failed;
    if (o->ahead && !(l->ahead = aw__ahead_new(a, o->ahead))) goto failed;
    error = aw_conn_of_fd(&l->conn, fd);
    if (error) goto failed;
    if (l->ahead) aw__ahead_open(l->ahead, l->conn);
    *to = l;
    return 0;
failed:
    if (l->ahead) aw__ahead_drop(l->ahead);
    if (l->room) room_drop(l->room);
    aw__release(a, l, sizeof *l);
    return error;
}

void aw_listener_keep(aw_listener *l) {
    if (l) aw__fetch_add_relaxed(&l->refs, 1u);
}

void aw_listener_drop(aw_listener *l) {
    if (!l || aw__fetch_sub(&l->refs, 1u) != 1) return;
    if (l->ahead) aw__ahead_close(l->ahead);
    aw_conn_drop(l->conn);
    if (l->ahead) aw__ahead_drop(l->ahead);
    if (l->room) room_drop(l->room);
    aw__release(l->allocator, l, sizeof *l);
}

void aw_listener_close(aw_listener *l) {
    if (!l) return;
    if (l->ahead) aw__ahead_close(l->ahead);
    aw_conn_keep(l->conn); /* for the close: others may have the listener, and find out */
    aw_close(l->conn);
    if (l->room) aw_semaphore_close(&l->room->permits);
    aw_semaphore_close(&l->open);
    aw_listener_drop(l);
}

int aw_listener_fd(const aw_listener *l) {
    return l ? aw_conn_fd(l->conn) : -EBADF;
}

int aw_listener_addr(const aw_listener *l, aw_addr *addr) {
    return l ? aw_conn_local(l->conn, addr) : -EBADF;
}

/* ---- Listening -------------------------------------------------------------------------------- */

static int copy_options(aw_listen_options *o, const aw_listen_options *given) {
    *o = (aw_listen_options)AW_LISTEN_OPTIONS;
    if (given && !aw__copy_sized(o, sizeof *o, given)) return -EINVAL;
    o->self_size = sizeof *o; /* of this one, with the defaults of what was not given */
    bool fits = o->max_connections <= AW_SEMAPHORE_MAX && o->ahead <= AW__AHEAD_MAX;
    return o->backlog < 0 || !fits || (o->max_connections && o->ahead) ? -EINVAL : 0;
}

/* Before it is bound. What is set here holds for the connections too: they inherit it. */
static int prepare_inet(int fd, int family, const aw_listen_options *o) {
    int error = o->exclusive ? 0 : aw__socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!error && o->reuse_port) error = aw__socket_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && family == AF_INET6)
        error = aw__socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, o->v6_only);
    if (!error && !o->delay) error = aw__socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
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
    error = make(&made, fd, &o); /* first: what is bound to a path would leave it behind */
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
            error = aw_listener_addr(ls[0], &at); /* port 0: the one it got */
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
    error = make(l, fd, &o);
    if (!error) aw__socket_set(fd, IPPROTO_TCP, TCP_NODELAY, !o.delay); /* if it is TCP */
    return error;
}
