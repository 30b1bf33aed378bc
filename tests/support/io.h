/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of I/O. Each test runs on each driver, on the current thread and on workers. */
#ifndef AWAKE_TEST_IO_H
#define AWAKE_TEST_IO_H

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <awake/io.h>

#include "io/uring.h"
#include "support/workers.h"

struct io_setup {
    const char *driver;
    uint32_t workers; /* 0: the current-thread flavour */
    bool per_core;
};

/* Under tests/tools/no_uring, tests for io_uring name no driver, and the runtime falls back to
 * this one. */
static const char io_fallback[] = "epoll";
HELPER struct io_setup io_setup_of(const char *driver, uint32_t workers, bool per_core) {
    bool falls_back = getenv("AWAKE_TEST_NO_URING") && strcmp(driver, "uring") == 0;
    return (struct io_setup){falls_back ? io_fallback : driver, workers, per_core};
}

/* Skips the test if the driver does not work here. */
HELPER void io_needs(const char *driver) {
    if (strcmp(driver, "uring") == 0 && aw__uring_works()) SKIP("no io_uring here");
}

/* Defines nine tests. Each passes its driver and flavour as `how`. */
#define ON_DRIVERS(name)                                                                           \
    static void name##_body(struct io_setup how);                                                  \
    ON__DRIVER(name, uring)                                                                        \
    ON__DRIVER(name, epoll)                                                                        \
    ON__DRIVER(name, poll)                                                                         \
    static void name##_body(struct io_setup how)
/* Defines three tests that need io_uring. */
#define ON_URING(name)                                                                             \
    static void name##_rings(struct io_setup how);                                                 \
    static void name##_body(struct io_setup how) {                                                 \
        io_needs("uring");                                                                         \
        name##_rings(how);                                                                         \
    }                                                                                              \
    ON__DRIVER(name, uring)                                                                        \
    static void name##_rings(struct io_setup how)
/* Defines three tests on the current thread, for tests that measure time, or in which I/O may
 * only progress while the test runs the runtime. */
#define ON_EACH_DRIVER(name)                                                                       \
    static void name##_body(struct io_setup how);                                                  \
    ON__DRIVER_CURRENT_THREAD(name, uring)                                                         \
    ON__DRIVER_CURRENT_THREAD(name, epoll)                                                         \
    ON__DRIVER_CURRENT_THREAD(name, poll)                                                          \
    static void name##_body(struct io_setup how)
/* Defines two tests on the current thread, for drivers that report readiness: a call is made
 * after the event. */
#define ON_EACH_READINESS_DRIVER(name)                                                             \
    static void name##_body(struct io_setup how);                                                  \
    ON__DRIVER_CURRENT_THREAD(name, epoll)                                                         \
    ON__DRIVER_CURRENT_THREAD(name, poll)                                                          \
    static void name##_body(struct io_setup how)
#define ON__DRIVER(name, driver)                                                                   \
    ON__DRIVER_CURRENT_THREAD(name, driver)                                                        \
    TEST(name##_by_##driver##_with_a_thread_per_core) {                                            \
        name##_body(io_setup_of(#driver, 2, true));                                                \
    }                                                                                              \
    TEST(name##_by_##driver##_on_8_workers) {                                                      \
        name##_body(io_setup_of(#driver, 8, false));                                               \
    }

#define ON__DRIVER_CURRENT_THREAD(name, driver)                                                    \
    TEST(name##_by_##driver) {                                                                     \
        name##_body(io_setup_of(#driver, 0, false));                                               \
    }

HELPER aw_runtime *io_runtime(struct io_setup how, memory *m, kept_log *log) {
    aw_runtime_options o = workers_options(how.workers, m, log);
    aw_runtime *rt;
    io_needs(how.driver);
    if (m) memory_init(m);
    o.driver = how.driver == io_fallback ? NULL : how.driver;
    o.flavour = how.per_core  ? AW_THREAD_PER_CORE
                : how.workers ? AW_MULTI_THREAD
                              : AW_CURRENT_THREAD;
    o.keep_tasks = !how.workers;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* From now on the process can open only `more` more descriptors. Returns the old limit, for
 * setrlimit at the end. */
HELPER struct rlimit limit_descriptors(int more) {
    struct rlimit old, few;
    int next = dup(0);
    close(next);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = (rlim_t)(next + more);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    return old;
}

/* Makes a connected pair. */
HELPER void io_pair(aw_conn *ends[2]) {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[0], fds[0]), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[1]), 0);
}

#endif
