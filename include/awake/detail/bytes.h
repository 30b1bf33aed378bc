/* SPDX-License-Identifier: MIT
 *
 * awake/detail/bytes.h: private. The head of futures that make several calls on a connection, one
 * after the other. */
#ifndef AWAKE_DETAIL_BYTES_H
#define AWAKE_DETAIL_BYTES_H

#include <sys/types.h>

#include <awake/io.h>

#define AW__CALLS                                                                                  \
    aw_future future;                                                                              \
    ssize_t out;                                                                                   \
    size_t done;   /* bytes so far */                                                              \
    aw_conn *conn; /* referenced from the first call to the end */                                 \
    aw_io io       /* the current call */

#define AW__CALLS_INIT(type, conn)                                                                 \
    AW_FUTURE_INIT(type), 0, 0, (conn), {                                                          \
        AW__WAITER_INIT(NULL, 0), NULL, NULL, 0, NULL, 0, 0                                        \
    }

#endif
