/* SPDX-License-Identifier: MIT
 *
 * awake/detail/net.h: private. The futures inside those of awake/net.h. */
#ifndef AWAKE_DETAIL_NET_H
#define AWAKE_DETAIL_NET_H

#include <awake/detail/waiter.h>
#include <awake/io.h>
#include <awake/semaphore.h>
#include <awake/timeout.h>

AW_C_BEGIN

/* The pause of an accept after an error. */
typedef AW_TIMEOUT(aw_acquire) aw__pause;

/* The next connection of a listener that accepts ahead. */
typedef struct aw__accept_ahead_future {
    AW__WAITER; /* `out`: a descriptor, or a negative errno */
    struct aw__accept_ahead *accept_ahead;
    bool disables, bypass;
} aw__accept_ahead_future;

/* A read of aw_linger. */
typedef AW_TIMEOUT(aw_io) aw__timed_read;

AW_C_END

#endif
