/* SPDX-License-Identifier: MIT
 *
 * Where policy forbids io_uring: the next best driver is used, and the counters say why. Each test is a process of its own,
 * and forbids it to itself. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* From now on these fail with this error, in all threads. */
static void forbid(const int *calls, size_t count, int error) {
    struct sock_filter code[16];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0,
                                                 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                                 SECCOMP_RET_ERRNO | (unsigned)error);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        SKIP("no seccomp here");
}

static const int setup[] = {SYS_io_uring_setup}, registers[] = {SYS_io_uring_register},
                 enters[] = {SYS_io_uring_enter},
                 all[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};

static void wait_for_a_byte(aw_runtime *rt, int expected) {
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    if (expected == 1) {
        io_wait_for(rt, ends[1], 0, 1);
        CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    }
    CHECK_EQ(io_join(rt, t), expected);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

static void fall_back(const char *driver, uint32_t workers, const int *calls, size_t count,
                      int error) {
    memory m;
    size_t fds = entries("/proc/self/fd");
    forbid(calls, count, error);
    unsetenv("AWAKE_DRIVER");
    memory_init(&m);
    aw_runtime_options o = workers_options(workers, &m, NULL);
    o.flavour = workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    o.driver = driver;
    o.keep_tasks = !workers;
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    for (int i = 0; i < 3; i++)
        wait_for_a_byte(rt, 1);
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    CHECK_STR(c.driver, "epoll");
    CHECK_EQ(c.fallback, -error);
    CHECK_EQ(c.operations, 0u);
    workers_end(rt, &m);
    CHECK_EQ(entries("/proc/self/fd"), fds);
}

#define FALLS_BACK(name, calls, error)                                                             \
    TEST(name) {                                                                                   \
        fall_back(NULL, 0, calls, sizeof calls / sizeof *calls, error);                            \
    }                                                                                              \
    TEST(name##_on_8_workers) {                                                                    \
        fall_back(NULL, 8, calls, sizeof calls / sizeof *calls, error);                            \
    }                                                                                              \
    TEST(name##_though_it_was_asked_for) {                                                         \
        fall_back("uring", 2, calls, sizeof calls / sizeof *calls, error);                         \
    }
FALLS_BACK(rings_that_are_forbidden_are_not_used, setup, EPERM)
FALLS_BACK(rings_that_are_unknown_are_not_used, setup, ENOSYS)
FALLS_BACK(rings_that_cannot_be_asked_are_not_used, registers, EPERM)
FALLS_BACK(rings_that_cannot_be_entered_are_not_used, enters, EPERM)
FALLS_BACK(rings_that_are_forbidden_altogether_are_not_used, all, EACCES)

/* A program that has begun, and gives up what it does not need any more. */
TEST(who_needs_a_ring_that_is_forbidden_later_is_told) {
    if (aw__uring_works()) SKIP("no io_uring here");
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, NULL, NULL);
    forbid(setup, 1, EPERM);
    wait_for_a_byte(rt, -EPERM);
    workers_end(rt, NULL);
}

TEST(rings_that_are_there_are_used_when_more_are_forbidden) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, NULL, NULL);
    wait_for_a_byte(rt, 1);
    forbid(setup, 1, EPERM);
    wait_for_a_byte(rt, 1);
    workers_end(rt, NULL);
}
