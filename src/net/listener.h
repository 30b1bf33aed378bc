/* SPDX-License-Identifier: MIT
 *
 * A listener and its limit of connections.
 *
 * The socket is closed with the last reference to the listener; its connections live on. So the
 * limit is a separate allocation, referenced by the listener and by each connection. A connection
 * returns its permit when its descriptor has been closed. */
#ifndef AW_NET_LISTENER_H
#define AW_NET_LISTENER_H

#include <awake/net.h>

#include "base/allocate.h"
#include "io/fd.h"

typedef struct aw__conn_limit {
    aw__fd_close_hook close_hook; /* of each connection */
    uint32_t refs;                /* atomic */
    aw_semaphore permits;
} aw__conn_limit;

struct aw__accept_ahead;

struct aw_listener {
    uint32_t refs;     /* atomic */
    uint32_t reported; /* atomic: an accept failure was logged */
    aw_semaphore open; /* has no permits: a pausing accept waits here until the close */
    aw_conn *conn;
    aw__conn_limit *conn_limit;            /* or NULL */
    struct aw__accept_ahead *accept_ahead; /* or NULL: net/accept_ahead.h */
    const aw_allocator *allocator;
};

#endif
