/* SPDX-License-Identifier: MIT
 *
 * System calls on the descriptor of a connection, made by a future that holds a reference to the
 * connection. They do not block: on EAGAIN the future waits for aw_readable or aw_writable. */
#ifndef AW_BYTES_CONN_FD_H
#define AW_BYTES_CONN_FD_H

#include <errno.h>

#include "bytes/calls.h"
#include "io/fd.h"

/* The descriptor. -EOPNOTSUPP: there is none, or it is borrowed and may block. Another negative
 * errno: the connection has failed or was closed. */
static inline int aw__raw_fd(const aw_conn *c) {
    if (!c || c->type != &aw__fd_type) return -EOPNOTSUPP;
    const aw__fd *f = (const aw__fd *)c;
    int error = aw__load_relaxed(&f->error);
    return f->borrowed ? -EOPNOTSUPP : error ? error : f->fd;
}

/* A call that does nothing: it spends one unit of budget and returns 0. Use it between two system
 * calls. */
extern const aw_future_type aw__nop_type;

static inline bool aw__calls_nop(aw__calls *op) {
    op->io = (aw_io){.future = AW_FUTURE_INIT(&aw__nop_type)};
    return true;
}

#endif
