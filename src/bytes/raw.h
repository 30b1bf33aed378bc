/* SPDX-License-Identifier: MIT
 *
 * Calls on the descriptor of a connection itself, by futures over it: they keep the connection meanwhile. Such a call
 * does not block; when it would, its future waits for aw_readable or aw_writable. */
#ifndef AW_BYTES_RAW_H
#define AW_BYTES_RAW_H

#include <errno.h>

#include "bytes/calls.h"
#include "io/fd.h"

/* Its number; -EOPNOTSUPP: it has none, or somebody else's that may block; or why it cannot be used any more. */
static inline int aw__raw_fd(const aw_conn *c) {
    if (!c || c->type != &aw__fd_type) return -EOPNOTSUPP;
    const aw__fd *f = (const aw__fd *)c;
    int error = aw__load_relaxed(&f->error);
    return f->borrowed ? -EOPNOTSUPP : error ? error : f->fd;
}

/* Instead of a call, between two of those: it costs one of the budget, and is over then with 0. */
extern const aw_future_type aw__pass_type;

static inline bool aw__calls_pass(aw__calls *op) {
    op->io = (aw_io){.future = AW_FUTURE_INIT(&aw__pass_type)};
    return true;
}

#endif
