/* SPDX-License-Identifier: MIT
 *
 * System calls that fail when they are told to: a program that includes this is linked with FAULTS_LINK's options, so
 * that the library's calls come here first. Each kind of call fails every so often, before it is made, or moves fewer
 * bytes than it was asked to. Any thread. */
#ifndef AWAKE_TEST_FAULTS_H
#define AWAKE_TEST_FAULTS_H

#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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
    X(poll)                                                                                        \
    X(ppoll)                                                                                       \
    X(epoll_create1)                                                                               \
    X(epoll_ctl)                                                                                   \
    X(epoll_wait)                                                                                  \
    X(epoll_pwait2)                                                                                \
    X(eventfd)                                                                                     \
    X(pipe2)                                                                                       \
    X(io_uring_setup)                                                                              \
    X(io_uring_enter)                                                                              \
    X(io_uring_register)

#define FAULT_ENUM(name) F_##name,
enum fault_call { EVERY_CALL(FAULT_ENUM) FAULT_CALLS };

/* All atomic. */
static struct fault {
    int error;      /* 0: none */
    uint32_t every; /* so many calls succeed, and then one fails; 0: each fails */
    uint32_t left;  /* how many fail at most */
    uint32_t calls, failed;
} faults[FAULT_CALLS];
static size_t fault_most; /* bytes at a time; 0: as many as there are */

__attribute__((unused)) static void fault_set(enum fault_call call, int error, uint32_t every,
                                              uint32_t times) {
    struct fault *f = &faults[call];
    __atomic_store_n(&f->every, every, __ATOMIC_RELAXED);
    __atomic_store_n(&f->left, times, __ATOMIC_RELAXED);
    __atomic_store_n(&f->error, error, __ATOMIC_RELEASE);
}

__attribute__((unused)) static uint32_t fault_count(enum fault_call call) {
    return __atomic_load_n(&faults[call].failed, __ATOMIC_RELAXED);
}

/* True: errno says why. */
static bool fault(enum fault_call call) {
    struct fault *f = &faults[call];
    uint32_t n = __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    int error = __atomic_load_n(&f->error, __ATOMIC_ACQUIRE);
    if (!error) return false;
    uint32_t every = __atomic_load_n(&f->every, __ATOMIC_RELAXED);
    if (every && n % (every + 1) != every) return false;
    uint32_t left = __atomic_load_n(&f->left, __ATOMIC_RELAXED);
    do
        if (!left) return false;
    while (!__atomic_compare_exchange_n(&f->left, &left, left - 1, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    __atomic_fetch_add(&f->failed, 1, __ATOMIC_RELAXED);
    errno = error;
    return true;
}

static size_t fault_size(size_t size) {
    size_t most = __atomic_load_n(&fault_most, __ATOMIC_RELAXED);
    return most && size > most ? most : size;
}

/* ---- The calls ---------------------------------------------------------------------------------- */

#define WRAP(type, name, parameters, ...)                                                          \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return fault(F_##name) ? (type)-1 : __real_##name(__VA_ARGS__);                            \
    }

/* What happens in the middle of a read that would block; by one thread. */
static void (*fault_after_read)(void);

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
    return fault(F_recv) ? -1 : fault_read(__real_recv(fd, to, fault_size(size), flags));
}

WRAP(ssize_t, write, (int fd, const void *from, size_t size), fd, from, fault_size(size))
WRAP(ssize_t, readv, (int fd, const struct iovec *parts, int n), fd, parts, n)
WRAP(ssize_t, writev, (int fd, const struct iovec *parts, int n), fd, parts, n)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), fd, m, flags)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), fd, m, flags)
WRAP(ssize_t, send, (int fd, const void *from, size_t size, int flags), fd, from, fault_size(size),
     flags)
WRAP(int, accept4, (int fd, struct sockaddr *at, socklen_t *size, int flags), fd, at, size, flags)
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

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_io_uring_setup && fault(F_io_uring_setup)) return -1;
    if (number == SYS_io_uring_enter && fault(F_io_uring_enter)) return -1;
    if (number == SYS_io_uring_register && fault(F_io_uring_register)) return -1;
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
