/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "io/uring_ring.h"

#include "io/uring.h"

#ifdef AW_URING

#include <errno.h>
#include <signal.h>

#include "os/park.h"

enum {
    NEEDED_FEATURES = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE |
                      IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG | IORING_FEAT_LINKED_FILE,
    SETUP_FLAGS = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL |
                  IORING_SETUP_TASKRUN_FLAG,
    /* Task work runs when the thread enters the kernel, without an interrupt. A blocking system
     * call of the thread may end with EINTR. */
    MULTI_ISSUER_FLAGS = IORING_SETUP_COOP_TASKRUN,
    /* Task work runs only when the owner enters for completions, in one batch. No other thread can
     * enter. Since 6.1. */
    SINGLE_ISSUER_FLAGS = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                          IORING_SETUP_R_DISABLED
};

/* Counts rings opened and closed, to order their memory for sanitizers. A new ring may be mapped
 * where a closed one was. The kernel orders the two, but liburing maps by raw system calls, which
 * sanitizers do not see. */
static uint32_t ring_changes;

int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool single_issuer) {
    struct io_uring_params p = {.flags = SETUP_FLAGS |
                                         (single_issuer ? SINGLE_ISSUER_FLAGS : MULTI_ISSUER_FLAGS),
                                .cq_entries = completions};
    int error = io_uring_queue_init_params(submissions, u, &p);
    if (error) return error == -EINVAL ? -ENOSYS : error;
    aw__fetch_add(&ring_changes, 1u);
    io_uring_ring_dontfork(u); /* a forked child has no mapping of it */
    if ((p.features & NEEDED_FEATURES) == NEEDED_FEATURES) return 0;
    aw__uring_close(u);
    return -ENOSYS;
}

void aw__uring_close(aw__uring *u) {
    aw__fetch_add(&ring_changes, 1u);
    io_uring_queue_exit(u);
}

void aw__uring_push(aw__uring *u) {
    aw__store_release(u->sq.ktail, u->sq.sqe_tail);
}

int aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline) {
    struct __kernel_timespec timeout = {0};
    struct io_uring_getevents_arg arg = {.sigmask_sz = _NSIG / 8};
    if (deadline && deadline != UINT64_MAX) {
        uint64_t now = aw__os_now(), ns = deadline > now ? deadline - now : 0;
        timeout.tv_sec = (long long)(ns / 1000000000u);
        timeout.tv_nsec = (long long)(ns % 1000000000u);
        arg.ts = (uint64_t)(uintptr_t)&timeout;
    }
    int n = io_uring_enter2((unsigned)u->ring_fd, submit, deadline ? 1 : 0,
                            IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (void *)&arg,
                            sizeof arg);
    return aw__uring_is_refused(n) ? n : 0;
}

#endif
