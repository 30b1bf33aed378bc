/* SPDX-License-Identifier: MIT
 *
 * Makes system calls fail. A program that includes this is linked so that calls of the library
 * come here first. Each kind of call can be set to fail at intervals, before the call is made,
 * or to transfer fewer bytes. Submissions to io_uring pass through here as well
 * (F_aw__uring_push): a failing operation is replaced by one that completes with the error. All
 * threads. */
/* clang-format off */
/* link: -Wl,--wrap=read,--wrap=recv,--wrap=write,--wrap=readv,--wrap=writev,--wrap=recvmsg,--wrap=sendmsg,--wrap=send,--wrap=accept4,--wrap=connect,--wrap=splice,--wrap=sendfile,--wrap=sigtimedwait,--wrap=poll,--wrap=ppoll,--wrap=epoll_create1,--wrap=epoll_ctl,--wrap=epoll_wait,--wrap=epoll_pwait2,--wrap=eventfd,--wrap=pipe2,--wrap=io_uring_queue_init_params,--wrap=io_uring_register,--wrap=io_uring_enter2,--wrap=aw__uring_push */
/* clang-format on */
#ifndef AWAKE_TEST_FAULTS_H
#define AWAKE_TEST_FAULTS_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <signal.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EVERY_CALL(X)                                                                              \
    X(read)                                                                                        \
    X(write)                                                                                       \
    X(readv)                                                                                       \
    X(writev)                                                                                      \
    X(recvmsg)                                                                                     \
    X(sendmsg)                                                                                     \
    X(send)                                                                                        \
    X(recv)                                                                                        \
    X(accept4)                                                                                     \
    X(connect)                                                                                     \
    X(splice)                                                                                      \
    X(sendfile)                                                                                    \
    X(sigtimedwait)                                                                                \
    X(poll)                                                                                        \
    X(ppoll)                                                                                       \
    X(epoll_create1)                                                                               \
    X(epoll_ctl)                                                                                   \
    X(epoll_wait)                                                                                  \
    X(epoll_pwait2)                                                                                \
    X(eventfd)                                                                                     \
    X(pipe2)                                                                                       \
    X(io_uring_queue_init_params)                                                                  \
    X(io_uring_register)                                                                           \
    X(io_uring_enter2)                                                                             \
    X(aw__uring_push)

#define FAULT_ENUM(name) F_##name,
enum fault_call { EVERY_CALL(FAULT_ENUM) FAULT_CALLS };

/* All members are atomic. */
static struct fault {
    int error; /* 0: none */
    /* This many calls succeed, then one fails; 0: all fail. */
    uint32_t every;
    uint32_t remaining; /* how many more calls fail */
    uint32_t calls, failed;
    /* If set, one error per failing call, used from last to first. */
    const int *errors;
} faults[FAULT_CALLS];
static size_t fault_max_bytes;     /* bytes per call; 0: no limit */
static uint32_t fault_short_calls; /* how many calls were shortened */
/* A descriptor, if not 0: the next operation of io_uring polls it instead, and misses its own
 * event. Atomic. */
__attribute__((unused)) static int fault_poll_instead;

/* Each n-th call yields to other threads, after the checks of the library and before the call is
 * made. 0: never. Atomic. */
static uint32_t fault_yield_every;

__attribute__((unused)) static void fault_set(enum fault_call call, int error, uint32_t every,
                                              uint32_t times) {
    struct fault *f = &faults[call];
    __atomic_store_n(&f->every, every, __ATOMIC_RELAXED);
    __atomic_store_n(&f->remaining, times, __ATOMIC_RELAXED);
    __atomic_store_n(&f->error, error, __ATOMIC_RELEASE);
}

/* The next `count` calls fail, each with its own error, from the last to the first. */
__attribute__((unused)) static void fault_each(enum fault_call call, const int *errors,
                                               uint32_t count) {
    __atomic_store_n(&faults[call].errors, errors, __ATOMIC_RELAXED);
    fault_set(call, EIO, 0, count);
}

/* Sets the fault for a call and for the operation of io_uring that replaces it. */
__attribute__((unused)) static void fault_set_both(enum fault_call call, int error, uint32_t every,
                                                   uint32_t times) {
    fault_set(call, error, every, times);
    fault_set(F_aw__uring_push, error, every, times);
}

__attribute__((unused)) static uint32_t fault_count(enum fault_call call) {
    return __atomic_load_n(&faults[call].failed, __ATOMIC_RELAXED);
}

/* True: the call fails, and errno is set. */
static bool fault(enum fault_call call) {
    struct fault *f = &faults[call];
    uint32_t n = __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    uint32_t hesitates = __atomic_load_n(&fault_yield_every, __ATOMIC_RELAXED);
    if (hesitates && n % hesitates == 0) sched_yield();
    int error = __atomic_load_n(&f->error, __ATOMIC_ACQUIRE);
    if (!error) return false;
    uint32_t every = __atomic_load_n(&f->every, __ATOMIC_RELAXED);
    if (every && n % (every + 1) != every) return false;
    uint32_t remaining = __atomic_load_n(&f->remaining, __ATOMIC_RELAXED);
    do
        if (!remaining) return false;
    while (!__atomic_compare_exchange_n(&f->remaining, &remaining, remaining - 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    __atomic_fetch_add(&f->failed, 1, __ATOMIC_RELAXED);
    const int *errors = __atomic_load_n(&f->errors, __ATOMIC_RELAXED);
    errno = errors ? errors[remaining - 1] : error;
    return true;
}

static size_t fault_size(size_t size) {
    size_t max = __atomic_load_n(&fault_max_bytes, __ATOMIC_RELAXED);
    if (!max || size <= max) return size;
    __atomic_fetch_add(&fault_short_calls, 1, __ATOMIC_RELAXED);
    return max;
}

/* Keeps only the first part that is not empty, shortened: a result of 0 for an empty part would
 * say nothing about the others. */
static int fault_parts(struct iovec *first, const struct iovec **parts, int n) {
    int i = 0;
    if (!__atomic_load_n(&fault_max_bytes, __ATOMIC_RELAXED)) return n;
    while (i < n - 1 && (*parts)[i].iov_len == 0)
        i++;
    if (i >= n) return n;
    *first = (struct iovec){(*parts)[i].iov_base, fault_size((*parts)[i].iov_len)};
    *parts = first;
    return 1;
}

/* ---- System calls ---------------------------------------------------------------------------- */

#define WRAP(type, name, parameters, ...)                                                          \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return fault(F_##name) ? (type)-1 : __real_##name(__VA_ARGS__);                            \
    }

/* Called once by this thread, when a read has failed and before its result is returned. */
static _Thread_local void (*fault_after_read)(void);

static ssize_t fault_read(ssize_t n) {
    int error = errno;
    if (n < 0 && fault_after_read) {
        void (*f)(void) = fault_after_read;
        fault_after_read = NULL;
        f();
    }
    errno = error;
    return n;
}

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size) {
    return fault(F_read) ? -1 : fault_read(__real_read(fd, to, fault_size(size)));
}

ssize_t __real_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags) {
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (fault(F_recv)) return -1;
    /* recv on TCP must return all available bytes: the library relies on it (io/fd.h). */
    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length);
    if (protocol != IPPROTO_TCP) size = fault_size(size);
    return fault_read(__real_recv(fd, to, size, flags));
}

WRAP(ssize_t, write, (int fd, const void *from, size_t size), fd, from, fault_size(size))
#define WRAP_PARTS(name)                                                                           \
    ssize_t __real_##name(int fd, const struct iovec *parts, int n);                               \
    ssize_t __wrap_##name(int fd, const struct iovec *parts, int n);                               \
    ssize_t __wrap_##name(int fd, const struct iovec *parts, int n) {                              \
        struct iovec first;                                                                        \
        if (fault(F_##name)) return -1;                                                            \
        n = fault_parts(&first, &parts, n);                                                        \
        return __real_##name(fd, parts, n);                                                        \
    }
WRAP_PARTS(readv)
WRAP_PARTS(writev)

static struct msghdr fault_message(const struct msghdr *m, struct iovec *first) {
    struct msghdr fewer = *m;
    const struct iovec *parts = m->msg_iov;
    fewer.msg_iovlen = (size_t)fault_parts(first, &parts, (int)m->msg_iovlen);
    fewer.msg_iov = (struct iovec *)(uintptr_t)parts;
    return fewer;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
    struct iovec first;
    struct msghdr fewer = fault_message(m, &first);
    return fault(F_sendmsg) ? -1 : __real_sendmsg(fd, &fewer, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags) {
    struct iovec first;
    struct msghdr fewer = fault_message(m, &first);
    if (fault(F_recvmsg)) return -1;
    ssize_t n = __real_recvmsg(fd, &fewer, flags);
    m->msg_namelen = fewer.msg_namelen;
    m->msg_controllen = fewer.msg_controllen;
    m->msg_flags = fewer.msg_flags;
    return n;
}

WRAP(ssize_t, send, (int fd, const void *from, size_t size, int flags), fd, from, fault_size(size),
     flags)
WRAP(int, accept4, (int fd, struct sockaddr *at, socklen_t *size, int flags), fd, at, size, flags)
WRAP(int, connect, (int fd, const struct sockaddr *at, socklen_t size), fd, at, size)
WRAP(ssize_t, splice, (int from, off64_t *at, int to, off64_t *there, size_t size, unsigned flags),
     from, at, to, there, size, flags)
WRAP(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), to, from, at, size)
WRAP(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout), set,
     info, timeout)
WRAP(int, poll, (struct pollfd * set, nfds_t n, int timeout), set, n, timeout)
WRAP(int, ppoll,
     (struct pollfd * set, nfds_t n, const struct timespec *timeout, const sigset_t *mask), set, n,
     timeout, mask)
WRAP(int, epoll_create1, (int flags), flags)
WRAP(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *e), epoll, what, fd, e)
WRAP(int, epoll_wait, (int epoll, struct epoll_event *events, int n, int timeout), epoll, events, n,
     timeout)
WRAP(int, epoll_pwait2,
     (int epoll, struct epoll_event *events, int n, const struct timespec *timeout,
      const sigset_t *mask),
     epoll, events, n, timeout, mask)
WRAP(int, eventfd, (unsigned count, int flags), count, flags)
WRAP(int, pipe2, (int fds[2], int flags), fds, flags)

/* Functions of liburing return a negative errno. */
#ifdef AW_URING
#include <liburing.h>

#define WRAP_URING(name, parameters, ...)                                                          \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters {                                                                 \
        return fault(F_##name) ? -errno : __real_##name(__VA_ARGS__);                              \
    }

/* Rings created for one thread, and for all threads. Atomic. */
static uint32_t fault_rings_single, fault_rings_shared;

static void fault_note_ring(uint32_t flags) {
    const uint32_t alone = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                           IORING_SETUP_R_DISABLED;
    if ((flags & alone) == alone) __atomic_fetch_add(&fault_rings_single, 1, __ATOMIC_RELAXED);
    if ((flags & alone) == 0) __atomic_fetch_add(&fault_rings_shared, 1, __ATOMIC_RELAXED);
}

int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *u,
                                      struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *u,
                                      struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *u,
                                      struct io_uring_params *p) {
    if (fault(F_io_uring_queue_init_params)) return -errno;
    uint32_t flags = p->flags;
    int error = __real_io_uring_queue_init_params(entries, u, p);
    if (!error) fault_note_ring(flags);
    return error;
}

WRAP_URING(io_uring_register, (unsigned fd, unsigned what, const void *about, unsigned count), fd,
           what, about, count)

/* Called once by this thread, when it has counted its submissions and is about to enter the
 * ring. */
static _Thread_local void (*fault_before_enter)(void);

int __real_io_uring_enter2(unsigned fd, unsigned submit, unsigned min_complete, unsigned flags,
                           sigset_t *arg, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned min_complete, unsigned flags,
                           sigset_t *arg, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned min_complete, unsigned flags,
                           sigset_t *arg, size_t size) {
    void (*f)(void) = submit ? fault_before_enter : NULL;
    if (f) {
        fault_before_enter = NULL;
        f();
    }
    return fault(F_io_uring_enter2)
               ? -errno
               : __real_io_uring_enter2(fd, submit, min_complete, flags, arg, size);
}

/* ---- Submissions to io_uring ----------------------------------------------------------------- */

enum { FAULT_INJECT = 1 /* IORING_NOP_INJECT_RESULT, of Linux 6.10 */, FAULT_SLOTS = 8192 };

static void fault_operation(struct io_uring_sqe *s, int error) {
    uint64_t data = s->user_data;
    io_uring_prep_nop(s);
    s->rw_flags = FAULT_INJECT;
    s->len = (uint32_t)error;
    s->user_data = data;
}

/* Whether this kernel can inject the result of an operation. */
__attribute__((unused)) static bool fault_of_operations(void) {
    struct io_uring u;
    struct io_uring_cqe *c;
    if (io_uring_queue_init(1, &u, 0)) return false;
    fault_operation(io_uring_get_sqe(&u), -EIO);
    bool can = io_uring_submit_and_wait(&u, 1) == 1 && io_uring_peek_cqe(&u, &c) == 0 &&
               c->res == -EIO;
    io_uring_queue_exit(&u);
    return can;
}

/* The kernel copies these when the operation is submitted. */
static struct {
    struct msghdr head;
    struct iovec first;
} fault_slots[FAULT_SLOTS];
static uint32_t fault_slot;

/* Not for IORING_OP_RECVMSG: the kernel writes into the caller's own msghdr. */
static void fault_shorten(struct io_uring_sqe *s) {
    uint32_t i = __atomic_fetch_add(&fault_slot, 1, __ATOMIC_RELAXED) % FAULT_SLOTS;
    const void *at = (const void *)(uintptr_t)s->addr;
    const struct iovec *parts = at;
    switch (s->opcode) {
    case IORING_OP_READ:
    case IORING_OP_RECV:
    case IORING_OP_SEND: s->len = (uint32_t)fault_size(s->len); break;
    case IORING_OP_READV:
        s->len = (uint32_t)fault_parts(&fault_slots[i].first, &parts, (int)s->len);
        s->addr = (uintptr_t)parts;
        break;
    case IORING_OP_SENDMSG:
        fault_slots[i].head = fault_message(at, &fault_slots[i].first);
        s->addr = (uintptr_t)&fault_slots[i].head;
    }
}

static void fault_replace_by_poll(struct io_uring_sqe *s, int fd) {
    uint64_t data = s->user_data;
    io_uring_prep_poll_add(s, fd, POLLIN);
    s->user_data = data;
}

/* Also replaces a linked operation in front, which would otherwise wait. */
static void fault_operations(struct io_uring *u, uint32_t count, int error) {
    fault_operation(&u->sq.sqes[(u->sq.sqe_tail - 1) & u->sq.ring_mask], error);
    struct io_uring_sqe *front = &u->sq.sqes[(u->sq.sqe_tail - 2) & u->sq.ring_mask];
    uint8_t flags = front->flags;
    if (count < 2) return;
    fault_operation(front, 0);
    front->flags = flags;
}

void __real_aw__uring_push(struct io_uring *u);
void __wrap_aw__uring_push(struct io_uring *u);
void __wrap_aw__uring_push(struct io_uring *u) {
    struct io_uring_sqe *s = &u->sq.sqes[(u->sq.sqe_tail - 1) & u->sq.ring_mask];
    uint32_t count = u->sq.sqe_tail - *u->sq.ktail;
    bool fresh = (count == 1 || count == 2) && s->opcode != IORING_OP_NOP;
    int saved = errno;
    if (fresh && !(s->user_data & 1)) { /* others are the driver's own */
        int deaf = __atomic_exchange_n(&fault_poll_instead, 0, __ATOMIC_RELAXED);
        if (deaf)
            fault_replace_by_poll(s, deaf);
        else if (fault(F_aw__uring_push))
            fault_operations(u, count, -errno);
        else if (__atomic_load_n(&fault_max_bytes, __ATOMIC_RELAXED))
            fault_shorten(s);
    }
    errno = saved;
    __real_aw__uring_push(u);
}
#else
__attribute__((unused)) static bool fault_of_operations(void) {
    return false;
}
#endif

/* For a test in which operations fail. */
#define NEED_FAULTS(how)                                                                           \
    do {                                                                                           \
        if (strcmp((how).driver, "uring") == 0 && !fault_of_operations())                          \
            SKIP("this io_uring cannot inject results");                                           \
    } while (0)

#endif
