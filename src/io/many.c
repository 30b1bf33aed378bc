/* SPDX-License-Identifier: MIT */
#include "io/many.h"

#include <errno.h>

#include "io/here.h"
#include "sync/waiters.h"

int aw__many_begin(aw__many *m, aw_cx *cx) {
    aw__fd *f = (aw__fd *)m->op.conn;
    aw__fd_keep(f);
    aw__store_relaxed(&m->parts, 1u);
    m->result = -ECANCELED;
    m->op.has = AW__IO_MANY;
    int n = aw__io_give(&m->op, cx);
    if (n == AW__IO_WAITS) return n; /* and may be over by now */
    aw__store_relaxed(&m->parts, 0u);
    aw__fd_let_go(f);
    if (n != AW__IO_AGAIN) return n;
    aw_cx_yield(cx); /* it is not completed here any more */
    return AW__IO_LATER;
}

static void unlink_op(aw__many *m, aw__fd *f) {
    aw__lock(&f->lock);
    if (m->op.future.state == AW__WAITING) aw__fd_unlink(f, &m->op);
    m->op.future.state = AW__WAIT_FRESH;
    m->op.driver = NULL;
    aw__unlock(&f->lock);
}

static void end(aw__many *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    unlink_op(m, f);
    m->over(m, m->result);
    aw__fd_let_go(f);
}

void aw__many_tell(aw_io *op, int result, bool more) {
    aw__many *m = (aw__many *)(void *)op;
    if (result >= 0)
        m->came(m, result);
    else if (!more)
        m->result = result;
    if (aw__fetch_sub(&m->parts, 1u) == 1) end(m);
}

void aw__many_ask_back(aw__many *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    aw__lock(&f->lock);
    aw__fd_ask_for(f, &m->op);
    aw__unlock(&f->lock);
}

bool aw__many_forget(aw__many *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    if (!aw__load_relaxed(&m->parts)) return false;
    aw__store_relaxed(&m->parts, 0u);
    unlink_op(m, f);
    aw__fd_let_go(f);
    return true;
}
