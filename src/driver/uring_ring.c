/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "driver/uring_ring.h"

#include "driver/uring.h"

#ifdef AW_URING

#include <errno.h>
#include <signal.h>

#include "os/park.h"

enum {
    NEEDED = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE |
             IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG | IORING_FEAT_LINKED_FILE,
    FLAGS = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL |
            IORING_SETUP_TASKRUN_FLAG,
    /* Work for a thread is done when it enters the system anyway, and not by interrupting it. */
    SHARED = IORING_SETUP_COOP_TASKRUN,
    /* Or when it asks for completions, all at once; then nobody else can. Since 6.1. */
    ALONE = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED
};

/* How often one was made or ended: its memory may be that of another just now. The system sees to it that they do not meet,
 * but liburing asks it in a way that sanitizers do not see; this they do. */
static uint32_t rings;

int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool alone) {
    struct io_uring_params p = {.flags = FLAGS | (alone ? ALONE : SHARED),
                                .cq_entries = completions};
    int error = io_uring_queue_init_params(submissions, u, &p);
    if (error) return error == -EINVAL ? -ENOSYS : error;
    aw__fetch_add(&rings, 1u);
    io_uring_ring_dontfork(u); /* it is not there in the child of a fork */
    if ((p.features & NEEDED) == NEEDED) return 0;
    aw__uring_close(u);
    return -ENOSYS;
}

void aw__uring_close(aw__uring *u) {
    aw__fetch_add(&rings, 1u);
    io_uring_queue_exit(u);
}

void aw__uring_push(aw__uring *u) {
    aw__store_release(u->sq.ktail, u->sq.sqe_tail);
}

int aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline) {
    struct __kernel_timespec left = {0};
    struct io_uring_getevents_arg arg = {.sigmask_sz = _NSIG / 8};
    if (deadline && deadline != UINT64_MAX) {
        uint64_t now = aw__os_now(), ns = deadline > now ? deadline - now : 0;
        left.tv_sec = (long long)(ns / 1000000000u);
        left.tv_nsec = (long long)(ns % 1000000000u);
        arg.ts = (uint64_t)(uintptr_t)&left;
    }
    int n = io_uring_enter2((unsigned)u->ring_fd, submit, deadline ? 1 : 0,
                            IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (void *)&arg,
                            sizeof arg);
    return aw__uring_is_refused(n) ? n : 0;
}

#endif
