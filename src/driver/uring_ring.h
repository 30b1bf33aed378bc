/* SPDX-License-Identifier: MIT
 *
 * The two queues that io_uring shares with the system, and nothing else. Not through liburing: several threads use one
 * ring here, and what they do under a lock and what without is the point (uring.c). */
#ifndef AW_DRIVER_URING_RING_H
#define AW_DRIVER_URING_RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "core/atomic.h"

/* Headers of 6.1. What a ring is used for here has been in the system since 5.19, but for one that is a single thread's. */
#if defined(IORING_SETUP_DEFER_TASKRUN) && defined(__NR_io_uring_setup)
#define AW__HAVE_URING 1
#endif

#ifdef AW__HAVE_URING

typedef struct aw__uring {
    int fd;
    uint32_t *sq_head, *sq_tail, *sq_flags, *cq_head, *cq_tail; /* atomic, but for our own ends */
    uint32_t sq_mask, cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *queues;
    size_t queues_size, sqes_size;
} aw__uring;

/* 0, or a negative errno; -ENOSYS also when the system is too old. */
int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool alone);
void aw__uring_close(aw__uring *u);
/* One that was opened `alone` can be entered from now on, by the calling thread and by no other. */
int aw__uring_enable(const aw__uring *u);

/* What is queued and not taken by the system. Any thread may look. */
static inline uint32_t aw__uring_queued(const aw__uring *u) {
    return aw__load_relaxed(u->sq_tail) - aw__load_acquire(u->sq_head);
}

/* A place in the queue, zeroed, or NULL when it is full; and: it is filled. Under the ring's lock. The system takes it in
 * the enter of any thread. */
struct io_uring_sqe *aw__uring_next(aw__uring *u);
static inline void aw__uring_push(aw__uring *u) {
    aw__store_release(u->sq_tail, *u->sq_tail + 1);
}

/* The oldest completion, or NULL; and: it has been read. Under the ring's lock. */
static inline struct io_uring_cqe *aw__uring_peek(const aw__uring *u) {
    uint32_t head = *u->cq_head;
    return head == aw__load_acquire(u->cq_tail) ? NULL : &u->cqes[head & u->cq_mask];
}
static inline void aw__uring_pop(aw__uring *u) {
    aw__store_release(u->cq_head, *u->cq_head + 1);
}

/* Completions that the system has not put into the queue, for it was full, or until it is asked. */
static inline bool aw__uring_holds_back(const aw__uring *u) {
    return aw__load_relaxed(u->sq_flags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

/* Hand over so many of those that are queued; then, with `deadline`, sleep until there is a completion, or it is
 * time. Any thread, without locks. Nothing of it is an error that the caller could do something about: it looks at
 * the queues. */
void aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline);

#endif
#endif
