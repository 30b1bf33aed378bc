/* SPDX-License-Identifier: MIT
 *
 * An io_uring instance, through liburing. Two steps are done here instead, because several threads
 * use one ring. A filled SQE is published at once, so that any thread may submit it. Entering takes
 * no lock and changes none of liburing's private state. */
#ifndef AW_IO_URING_RING_H
#define AW_IO_URING_RING_H

#ifdef AW_URING /* built with liburing */

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

typedef struct io_uring aw__uring;

/* 0, or a negative errno; -ENOSYS also when the kernel is too old. A `single_issuer` ring starts
 * disabled; only the thread that enables it may enter it. (io_uring_enable_rings is missing in the
 * shared liburing 2.3.) */
int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool single_issuer);
void aw__uring_close(aw__uring *u);
static inline int aw__uring_enable(const aw__uring *u) {
    return io_uring_register((unsigned)u->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* SQEs that the kernel has not consumed yet. Any thread. */
static inline uint32_t aw__uring_queued(const aw__uring *u) {
    return aw__load_relaxed(u->sq.ktail) - aw__load_acquire(u->sq.khead);
}

/* Publish the SQEs that io_uring_get_sqe returned, once they are filled. Under the ring's lock,
 * as that call. (Not inline: tests wrap it to make operations fail, or transfer less than
 * requested.) */
void aw__uring_push(aw__uring *u);

/* Whether there is no CQE to reap. Any thread. */
static inline bool aw__uring_is_empty(const aw__uring *u) {
    return aw__load_relaxed(u->cq.khead) == aw__load_acquire(u->cq.ktail);
}

/* The kernel has completions that are not in the CQ: it overflowed, or task work waits for an
 * enter. */
static inline bool aw__uring_cq_needs_flush(const aw__uring *u) {
    return aw__load_relaxed(u->sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

/* Submit up to `submit` SQEs; then, with `deadline`, sleep until there is a CQE or the deadline
 * passes. Any thread, without locks. Returns 0 even if nothing was submitted: see the queues for
 * the outcome. A negative errno: entering is forbidden. */
int aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline);

#endif
#endif
