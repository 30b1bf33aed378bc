/* SPDX-License-Identifier: MIT
 *
 * awake/duplex.h: a pair of connections in memory.
 *
 *     aw_conn *a, *b;
 *     aw_duplex(&a, &b, 4096);                a write to `a` is read from `b`, and vice versa
 *
 * They work like sockets, without the kernel: for tests, and between tasks, threads and runtimes.
 * Each direction holds `capacity` bytes; when it is full, writes wait until some are read.
 * aw_shutdown ends one direction. After one end is closed, the other reads what is left and then
 * the end; its writes give -EPIPE. */
#ifndef AWAKE_DUPLEX_H
#define AWAKE_DUPLEX_H

#include <awake/io.h>

AW_C_BEGIN

/* 0; -EINVAL: no capacity; -ENOMEM. Close each end like any connection; closing both frees the
 * memory. Any thread. */
AW_API int aw_duplex(aw_conn **a, aw_conn **b, size_t capacity);

AW_C_END

#endif
