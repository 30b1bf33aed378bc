/* SPDX-License-Identifier: MIT
 *
 * awake/duplex.h: two connections in memory, each other's ends.
 *
 *     aw_conn *a, *b;
 *     aw_duplex(&a, &b, 4096);                what is written to `a` is read from `b`, and the other way round
 *
 * They are as sockets are, without the system: for tests, and between tasks, threads and runtimes. Each direction
 * holds `capacity` bytes; who writes more waits until some are read. aw_shutdown ends one direction. Closing one end
 * lets the other read what is left, and then the end; its writes give -EPIPE. */
#ifndef AWAKE_DUPLEX_H
#define AWAKE_DUPLEX_H

#include <awake/io.h>

AW_C_BEGIN

/* 0; -EINVAL without a capacity; -ENOMEM. Each end is closed as any connection; the memory is free when both are. Any
 * thread. */
AW_API int aw_duplex(aw_conn **a, aw_conn **b, size_t capacity);

AW_C_END

#endif
