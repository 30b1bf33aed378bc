/* SPDX-License-Identifier: MIT
 *
 * Close a connection after the peer has closed its side. */
#include <errno.h>

#include <awake/net.h>

#include "time/timer_math.h"

AW_ASYNC_DEF(aw_linger_future) {
    AW_BEGIN;
    AW_AWAIT(self->shutdown, aw_shutdown(self->conn));
    if (self->shutdown.out < 0) AW_RETURN(self->shutdown.out);
    if (!aw_cx_runtime(cx)) AW_RETURN(-ENXIO);
    self->until = aw__time_add(aw_now(aw_cx_runtime(cx)), self->most);
    do { /* the limit also holds for a peer that never stops sending */
        if (aw_now(aw_cx_runtime(cx)) >= self->until) AW_RETURN(-ETIMEDOUT);
        AW_AWAIT_BY(self->read, self->until,
                    aw_read(self->conn, self->dropped, sizeof self->dropped));
        if (self->read.out < 0) AW_RETURN(self->read.out);
    } while (self->read.inner.out > 0);
    AW_RETURN(self->read.inner.out);
    AW_FINALLY;
    aw_close(self->conn);
    AW_END;
}

aw_linger_future aw_linger(aw_conn *c, uint64_t timeout) {
    return AW_CALL(aw_linger_future, .conn = c, .most = timeout);
}
