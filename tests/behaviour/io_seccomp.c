/* SPDX-License-Identifier: MIT
 *
 * Where policy forbids io_uring, or the kernel does not support all of it: the next best driver
 * is used, and the counters say why. Each test is a process of its own, and forbids the calls to
 * itself. */
/* link: -Wl,--wrap=io_uring_register_probe */
#define _GNU_SOURCE
#include "support/seccomp.h"
#include "support/io_ends.h"
#include "support/net.h"

static void forbid(const int *calls, size_t count, int error) {
    if (!forbid_calls(calls, count, error)) SKIP("no seccomp here");
}

static const int setup[] = {SYS_io_uring_setup}, registers[] = {SYS_io_uring_register},
                 enters[] = {SYS_io_uring_enter};

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

/* There is no fallback where AWAKE_DRIVER names a driver. */
static void need_a_choice(void) {
    if (getenv("AWAKE_DRIVER")) SKIP("it needs two drivers");
}

static void fall_back(const char *driver, uint32_t workers, int error) {
    memory m;
    need_a_choice();
    size_t fds = entries("/proc/self/fd");
    memory_init(&m);
    kept_log log = KEPT_LOG;
    aw_runtime_options o = workers_options(workers, &m, &log);
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
    CHECK_STR(log.text, ""); /* only the counters report it */
    CHECK_EQ(entries("/proc/self/fd"), fds);
}

#define FALLS_BACK(name, calls, error)                                                             \
    TEST(name) {                                                                                   \
        forbid(calls, sizeof calls / sizeof *calls, error);                                        \
        fall_back(NULL, 0, error);                                                                 \
    }                                                                                              \
    TEST(name##_on_8_workers) {                                                                    \
        forbid(calls, sizeof calls / sizeof *calls, error);                                        \
        fall_back(NULL, 8, error);                                                                 \
    }                                                                                              \
    TEST(name##_though_it_was_asked_for) {                                                         \
        forbid(calls, sizeof calls / sizeof *calls, error);                                        \
        fall_back("uring", 2, error);                                                              \
    }
FALLS_BACK(rings_that_are_forbidden_are_not_used, setup, EPERM)
FALLS_BACK(rings_that_are_unknown_are_not_used, setup, ENOSYS)
FALLS_BACK(rings_that_cannot_be_probed_are_not_used, registers, EPERM)
FALLS_BACK(rings_that_cannot_be_entered_are_not_used, enters, EPERM)
FALLS_BACK(rings_that_are_forbidden_altogether_are_not_used, uring_calls, EACCES)

/* ---- What the kernel does not support ----------------------------------------------------------- */

#ifdef AW_URING
#include "io/uring_ring.h"

static int unknown = -1; /* the opcode that the probe hides */

int __real_io_uring_register_probe(struct io_uring *u, struct io_uring_probe *p, unsigned count);
int __wrap_io_uring_register_probe(struct io_uring *u, struct io_uring_probe *p, unsigned count);
int __wrap_io_uring_register_probe(struct io_uring *u, struct io_uring_probe *p, unsigned count) {
    int error = __real_io_uring_register_probe(u, p, count);
    if (unknown >= 0) p->ops[unknown].flags &= (uint16_t)~IO_URING_OP_SUPPORTED;
    return error;
}

/* Not by aw__uring_works, which caches its result. */
static void need_rings(void) {
    aw__uring u;
    need_a_choice();
    if (aw__uring_open(&u, 4, 8, false)) SKIP("no io_uring here");
    io_uring_queue_exit(&u);
}

#define FALLS_BACK_WITHOUT(operation)                                                              \
    TEST(rings_without_##operation##_are_not_used) {                                               \
        need_rings();                                                                              \
        unknown = IORING_OP_##operation;                                                           \
        fall_back(NULL, 0, ENOSYS);                                                                \
    }
FALLS_BACK_WITHOUT(POLL_ADD)
FALLS_BACK_WITHOUT(ASYNC_CANCEL)
FALLS_BACK_WITHOUT(RECV)
FALLS_BACK_WITHOUT(SEND)
FALLS_BACK_WITHOUT(RECVMSG)
FALLS_BACK_WITHOUT(SENDMSG)
FALLS_BACK_WITHOUT(ACCEPT)
FALLS_BACK_WITHOUT(CONNECT)
FALLS_BACK_WITHOUT(READ)
FALLS_BACK_WITHOUT(READV)

/* The probe reports what this kernel supports, except for one opcode that is not needed. */
TEST(rings_without_what_is_not_needed_are_used_by_uring) {
    unknown = IORING_OP_FALLOCATE;
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, NULL, NULL);
    wait_for_a_byte(rt, 1);
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    CHECK_STR(c.driver, "uring");
    CHECK_EQ(c.fallback, 0);
    workers_end(rt, NULL);
}
#endif

/* ---- Forbidden later ---------------------------------------------------------------------------- */

/* A program that drops privileges after it has started. */

static void check_driver(aw_runtime *rt, const char *driver, int fallback) {
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    CHECK_STR(c.driver, driver);
    CHECK_EQ(c.fallback, fallback);
}

ON_URING(a_runtime_that_begins_when_rings_are_forbidden_uses_none) {
    aw_runtime *before = io_runtime(how, NULL, NULL);
    wait_for_a_byte(before, 1); /* they were allowed */
    forbid(setup, 1, EPERM);
    memory m;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = io_runtime(how, &m, &log);
    for (int i = 0; i < 3; i++)
        wait_for_a_byte(rt, 1);
    check_driver(rt, "epoll", -EPERM);
    check_driver(before, "uring", 0);
    workers_end(rt, &m);
    CHECK_STR(log.text, "");
    workers_end(before, NULL);
}

static void check_accept(aw_runtime *rt, int expected) {
    aw_conn *client, *server;
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    struct accept_one *a = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &server));
    if (expected == 0) CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(aw_task_take(a), expected);
    if (expected == 0) {
        aw_close(client);
        aw_close(server);
    }
    aw_listener_close(l);
}

ON_URING(accepting_goes_on_where_rings_are_forbidden_before_the_first) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    forbid(setup, 1, ENOSYS);
    check_accept(rt, 0);
    check_driver(rt, "epoll", -ENOSYS);
    workers_end(rt, NULL);
}

static void forbid_more(uint32_t workers) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", workers, false}, NULL, NULL);
    wait_for_a_byte(rt, 1);
    forbid(setup, 1, EPERM);
    for (int i = 0; i < 100; i++)
        wait_for_a_byte(rt, 1);
    check_accept(rt, 0);
    check_driver(rt, "uring", 0);
    workers_end(rt, NULL);
}
TEST(rings_that_are_there_are_used_when_more_are_forbidden_by_uring) {
    forbid_more(0);
}
/* Tasks run on all workers: a worker without a ring uses that of another. */
TEST(rings_that_are_there_are_used_when_more_are_forbidden_by_uring_on_8_workers) {
    forbid_more(8);
}

/* The listener learns this only when it begins to wait, and then waits like one without
 * accept_ahead. */
TEST(accept_ahead_waits_where_rings_are_forbidden_by_uring) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 1, false}, NULL, NULL);
    aw_worker_counters before, after;
    aw_addr at;
    aw_conn *server;
    forbid(setup, 1, EPERM);
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = 8), &at);
    struct accept_one *a = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &server));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(10))), 0);
    CHECK_EQ(aw_runtime_counters(rt, 0, &before), 0);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(20))), 0);
    CHECK_EQ(aw_runtime_counters(rt, 0, &after), 0);
    CHECK_LE(after.polls - before.polls, 2);
    int client = plain_client(&at);
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(aw_task_take(a), 0);
    check_driver(rt, "epoll", -EPERM);
    aw_close(server);
    close(client);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* With a thread per core each worker has its own ring, and none is shared. */
TEST(operations_of_a_worker_that_needs_a_ring_later_fail_by_uring) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 2, true}, NULL, NULL);
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    struct io_task *first = aw_spawn_at(rt, 0, AW_CALL(io_task, .io = aw_read(ends[1], &to, 1)));
    io_wait_for(rt, ends[1], 0, 1);
    forbid(setup, 1, EPERM);
    struct io_task *second = aw_spawn_at(rt, 1, AW_CALL(io_task, .io = aw_read(ends[1], &to, 1)));
    CHECK_EQ(io_join(rt, second), -EACCES);
    aw_listener *l = listen_loopback(AF_INET, NULL, &(aw_addr){0});
    aw_conn *c;
    struct accept_one *a = aw_spawn_at(rt, 1, AW_CALL(accept_one, .l = l, .conn = &c));
    CHECK_EQ(join_status(rt, &a->future), 0);
    CHECK_EQ(aw_task_take(a), -EACCES); /* without a busy loop */
    CHECK_EQ(write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, first), 1);
    aw_listener_close(l);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

/* The ring exists, but its owner has not enabled it yet: that needs the call that is forbidden. */
TEST(a_ring_that_its_owner_cannot_enable_is_not_waited_for_by_uring) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, NULL, NULL);
    aw_runtime *before = aw_enter(rt);
    aw_conn *ends[2];
    aw_flag flag = {0};
    char to;
    io_pair(ends);
    aw_io op = aw_read(ends[1], &to, 1);
    CHECK_EQ(POLL(&op, &flag), AW_PENDING); /* on the shared ring: this thread does not run it */
    aw_leave(before);
    forbid(registers, 1, EPERM);
    wait_for_a_byte(rt, -EACCES);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    before = aw_enter(rt);
    CHECK_EQ(CANCEL_TO_ITS_END(&op, &flag), AW_CANCELLED);
    aw_leave(before);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}
