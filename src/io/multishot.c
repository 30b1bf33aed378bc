/* SPDX-License-Identifier: MIT */
#include "io/multishot.h"

#include <errno.h>

#include "future/waiters.h"
#include "io/driver_for_thread.h"

int aw__multishot_submit(aw__multishot *m, aw_cx *cx) {
    aw__fd *f = (aw__fd *)m->op.conn;
    aw__fd_ref(f);
    aw__store_relaxed(&m->undelivered, 1u);
    m->result = -ECANCELED;
    m->op.flags = AW__IO_MULTISHOT;
    int n = aw__io_submit(&m->op, cx);
    if (n == AW__IO_PENDING) return n; /* and it may have ended by now */
    aw__store_relaxed(&m->undelivered, 0u);
    aw__fd_unref(f);
    if (n != AW__IO_AGAIN) return n;
    aw_cx_yield(cx); /* the runtime fell back to a readiness driver */
    return AW__IO_YIELDED;
}

static void multishot_unlink(aw__multishot *m, aw__fd *f) {
    aw__lock(&f->lock);
    if (m->op.future.state == AW__WAITING) aw__fd_unlink(f, &m->op);
    m->op.future.state = AW__WAIT_FRESH;
    m->op.driver = NULL;
    aw__unlock(&f->lock);
}

static void multishot_end(aw__multishot *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    multishot_unlink(m, f);
    m->on_end(m, m->result);
    aw__fd_unref(f);
}

void aw__multishot_complete(aw_io *op, int result, bool more) {
    aw__multishot *m = (aw__multishot *)(void *)op;
    if (result >= 0)
        m->on_result(m, result);
    else if (!more)
        m->result = result;
    if (aw__fetch_sub(&m->undelivered, 1u) == 1) multishot_end(m);
}

void aw__multishot_cancel(aw__multishot *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    aw__lock(&f->lock);
    aw__fd_cancel_op(f, &m->op);
    aw__unlock(&f->lock);
}

bool aw__multishot_forget(aw__multishot *m) {
    aw__fd *f = (aw__fd *)m->op.conn;
    if (!aw__load_relaxed(&m->undelivered)) return false;
    aw__store_relaxed(&m->undelivered, 0u);
    multishot_unlink(m, f);
    aw__fd_unref(f);
    return true;
}
