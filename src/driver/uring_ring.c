/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "driver/uring_ring.h"

#ifdef AW__HAVE_URING

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* It is not there in the child of a fork. */
static void *map(int fd, size_t size, off_t what) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (p == MAP_FAILED) return NULL;
    madvise(p, size, MADV_DONTFORK);
    return p;
}

static uint32_t *at(const aw__uring *u, uint32_t offset) {
    return (uint32_t *)(void *)((char *)u->queues + offset);
}

static int map_queues(aw__uring *u, const struct io_uring_params *p) {
    size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t),
           cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    u->queues_size = sq > cq ? sq : cq;
    u->sqes_size = p->sq_entries * sizeof(struct io_uring_sqe);
    u->queues = map(u->fd, u->queues_size, IORING_OFF_SQ_RING);
    u->sqes = map(u->fd, u->sqes_size, IORING_OFF_SQES);
    if (!u->queues || !u->sqes) return -ENOMEM;
    u->sq_head = at(u, p->sq_off.head);
    u->sq_tail = at(u, p->sq_off.tail);
    u->sq_flags = at(u, p->sq_off.flags);
    u->cq_head = at(u, p->cq_off.head);
    u->cq_tail = at(u, p->cq_off.tail);
    u->sq_mask = p->sq_entries - 1;
    u->cq_mask = p->cq_entries - 1;
    u->cqes = (struct io_uring_cqe *)(void *)at(u, p->cq_off.cqes);
    for (uint32_t i = 0; i < p->sq_entries; i++)
        at(u, p->sq_off.array)[i] = i;
    return 0;
}

int aw__uring_open(aw__uring *u, uint32_t submissions, uint32_t completions, bool alone) {
    struct io_uring_params p = {.flags = FLAGS | (alone ? ALONE : SHARED),
                                .cq_entries = completions};
    memset(u, 0, sizeof *u);
    u->fd = (int)syscall(__NR_io_uring_setup, submissions, &p);
    if (u->fd < 0) return errno == EINVAL ? -ENOSYS : -errno;
    int error = (p.features & NEEDED) == NEEDED ? map_queues(u, &p) : -ENOSYS;
    if (error) aw__uring_close(u);
    return error;
}

int aw__uring_enable(const aw__uring *u) {
    long n = syscall(__NR_io_uring_register, u->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    return n < 0 ? -errno : 0;
}

void aw__uring_close(aw__uring *u) {
    if (u->queues) munmap(u->queues, u->queues_size);
    if (u->sqes) munmap(u->sqes, u->sqes_size);
    close(u->fd);
}

struct io_uring_sqe *aw__uring_next(aw__uring *u) {
    if (aw__uring_queued(u) > u->sq_mask) return NULL;
    struct io_uring_sqe *s = &u->sqes[*u->sq_tail & u->sq_mask];
    memset(s, 0, sizeof *s);
    return s;
}

void aw__uring_enter(const aw__uring *u, uint32_t submit, uint64_t deadline) {
    int saved = errno;
    struct __kernel_timespec left = {0};
    struct io_uring_getevents_arg arg = {.sigmask_sz = _NSIG / 8};
    if (deadline && deadline != UINT64_MAX) {
        uint64_t now = aw__os_now(), ns = deadline > now ? deadline - now : 0;
        left.tv_sec = (long long)(ns / 1000000000u);
        left.tv_nsec = (long long)(ns % 1000000000u);
        arg.ts = (uint64_t)(uintptr_t)&left;
    }
    syscall(__NR_io_uring_enter, u->fd, submit, deadline ? 1 : 0,
            IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    errno = saved;
}

#endif
