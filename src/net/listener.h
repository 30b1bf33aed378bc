/* SPDX-License-Identifier: MIT
 *
 * A listener, and how many connections it may have.
 *
 * The socket is given back to the system with the last reference to the listener, while its connections go on. So
 * what counts them, the room, is apart: it belongs to the listener and to each connection, and the last one frees it.
 * A connection gives its permit back when its descriptor has been closed. */
#ifndef AW_NET_LISTENER_H
#define AW_NET_LISTENER_H

#include <awake/net.h>

#include "core/alloc.h"
#include "io/fd.h"

typedef struct aw__conn_room {
    aw__fd_end end; /* what connections are given */
    uint32_t refs;  /* atomic */
    aw_semaphore permits;
} aw__conn_room;

struct aw__ahead;

struct aw_listener {
    uint32_t refs;     /* atomic */
    uint32_t reported; /* atomic: that there is no more of something */
    aw_semaphore open; /* without permits: who pauses waits here, and a close ends that */
    aw_conn *conn;
    aw__conn_room *room;     /* or NULL */
    struct aw__ahead *ahead; /* or NULL: ahead.h */
    const aw_allocator *allocator;
};

#endif
