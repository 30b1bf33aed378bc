/* SPDX-License-Identifier: MIT
 *
 * A ring of io_uring, by liburing. Two things are done here and not there, because several threads use one ring: what is
 * filled can be taken by the enter of any thread at once, and entering is a call without locks that changes nothing of
 * what liburing keeps for itself. */
#ifndef AW_DRIVER_URING_RING_H
#define AW_DRIVER_URING_RING_H

#ifdef AW_URING /* liburing was there when the library was built */

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/atomic.h"

typedef struct io_uring aw__uring;

/* 0, or a negative errno; -ENOSYS also when the system is too old. One that is opened `alone` can be entered when
 * it has been enabled, by the thread that did that and by no other. (io_uring_enable_rings is missing in the shared
 * liburing 2.3.) */
int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool alone);
void aw__uring_close(aw__uring *u);
static inline int aw__uring_enable(const aw__uring *u) {
    return io_uring_register((unsigned)u->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* What is queued and not taken by the system. Any thread may look. */
static inline uint32_t aw__uring_queued(const aw__uring *u) {
    return aw__load_relaxed(u->sq.ktail) - aw__load_acquire(u->sq.khead);
}

/* What io_uring_get_sqe gave is filled. Under the ring's lock, as that. (Not inline: tests put themselves in between, and
 * have operations fail, or do less than they were asked to.) */
void aw__uring_push(aw__uring *u);

/* Whether there are completions. Any thread may look. */
static inline bool aw__uring_is_empty(const aw__uring *u) {
    return aw__load_relaxed(u->cq.khead) == aw__load_acquire(u->cq.ktail);
}

/* Completions that the system has not put into the queue, for it was full, or until it is asked. */
static inline bool aw__uring_holds_back(const aw__uring *u) {
    return aw__load_relaxed(u->sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

/* Hand over so many of those that are queued; then, with `deadline`, sleep until there is a completion, or it is
 * time. Any thread, without locks. What came of it is in the queues; 0, or a negative errno when it is not allowed any
 * more. */
int aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline);

#endif
#endif
