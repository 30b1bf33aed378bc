/* SPDX-License-Identifier: MIT
 *
 * The call that does nothing; see conn_fd.h. */
#include "bytes/conn_fd.h"

static aw_poll nop_poll(aw_future *self, aw_cx *cx) {
    ((aw_io *)self)->out = 0;
    return aw_cx_spend(cx) ? AW_READY : AW_PENDING;
}

const aw_future_type aw__nop_type = {
    AW_TYPE_OF(aw_io, "nop"),
    .flags = AW_OUT_ERRNO,
    .poll = nop_poll,
};
