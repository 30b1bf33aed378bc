/* SPDX-License-Identifier: MIT
 *
 * A kernel that interrupts calls, moves a byte at a time, and runs out of memory and
 * descriptors: nothing is lost, nothing leaks, and nothing retries in a busy loop. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include "support/faults.h"

/* ---- An exchange -------------------------------------------------------------------------------- */

AW_ASYNC(int, send_pattern, aw_conn *conn; uint64_t total; uint64_t at; bool by_parts;
         unsigned char bytes[300]; struct iovec parts[2]; size_t size; aw_io io;) {
    AW_BEGIN;
    while (self->at < self->total) {
        self->size = sizeof self->bytes;
        if (self->size > self->total - self->at) self->size = self->total - self->at;
        pattern_fill(1, self->at, self->bytes, self->size);
        self->parts[0] = (struct iovec){self->bytes, self->size / 2};
        self->parts[1] = (struct iovec){self->bytes + self->size / 2, self->size - self->size / 2};
        if (self->by_parts) {
            AW_AWAIT(self->io, aw_writev(self->conn, self->parts, 2));
        } else {
            AW_AWAIT(self->io, aw_write(self->conn, self->bytes, self->size));
        }
        CHECK_GT(self->io.out, 0);
        self->at += (uint64_t)self->io.out;
    }
    aw_close(self->conn);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, receive_pattern, aw_conn *conn; uint64_t at; bool by_parts; unsigned char bytes[200];
         struct iovec parts[2]; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        self->parts[0] = (struct iovec){self->bytes, 10};
        self->parts[1] = (struct iovec){self->bytes + 10, sizeof self->bytes - 10};
        if (self->by_parts) {
            AW_AWAIT(self->io, aw_readv(self->conn, self->parts, 2));
        } else {
            AW_AWAIT(self->io, aw_read(self->conn, self->bytes, sizeof self->bytes));
        }
        if (self->io.out <= 0) break;
        pattern_check(1, self->at, self->bytes, (size_t)self->io.out);
        self->at += (uint64_t)self->io.out;
    }
    CHECK_EQ(self->io.out, 0);
    aw_close(self->conn);
    AW_RETURN((int)self->at);
    AW_END;
}

static void exchange(aw_runtime *rt, void pair(aw_conn *ends[2]), bool by_parts, int total) {
    aw_conn *ends[2];
    pair(ends);
    struct receive_pattern *r = aw_spawn_on(
        rt, AW_CALL(receive_pattern, .conn = ends[1], .by_parts = by_parts));
    struct send_pattern *s = aw_spawn_on(
        rt, AW_CALL(send_pattern, .conn = ends[0], .total = (uint64_t)total, .by_parts = by_parts));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(join_status(rt, &r->future), 0);
    CHECK_EQ(r->out, total);
    aw_task_drop(s);
    aw_task_drop(r);
}

static void exchange_all(aw_runtime *rt, int total) {
    for (int i = 0; i < 2; i++) {
        exchange(rt, io_pair, i, total);
        exchange(rt, tcp_pair, i, total);
        exchange(rt, pipe_pair, i, total);
    }
}

static uint64_t io_calls(aw_runtime *rt) {
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    return c.calls;
}

/* ---- Shutdowns that the kernel overlooks --------------------------------------------------------- */

/* A shutdown wakes the writes that wait on a full Unix socket, but does not make it writable: so
 * it misses a write that is only about to wait. Here the first `overlooked` submissions miss it.
 * All of it in one block_on, because leaving it drains the ring. */
AW_ASYNC(int, write_to_what_is_shut_down, aw_runtime *rt; aw_conn * conn; int never; int overlooked;
         struct io_task * task; struct io_until_waiting until; aw_io io; aw_yield pause;
         aw_task_join_future join;) {
    AW_BEGIN;
    STORE(fault_poll_instead, self->never);
    self->task = io_spawn(self->rt, aw_write(self->conn, "x", 1));
    AW_AWAIT(self->until,
             AW_CALL(io_until_waiting, .conn = self->conn, .direction = 1, .count = 1));
    CHECK_EQ(LOAD(fault_poll_instead), 0);
    if (self->overlooked > 1) STORE(fault_poll_instead, self->never);
    AW_AWAIT(self->io, aw_shutdown(self->conn));
    while (LOAD(fault_poll_instead))
        AW_AWAIT(self->pause, aw_yield_now());
    if (self->overlooked > 1) aw_task_abort(self->task);
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out ? (aw_task_drop(self->task), self->join.out)
                             : aw_task_take(self->task));
    AW_END;
}

static void shut_down_unnoticed(struct io_setup how, int overlooked) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    aw_io_counters c;
    int never = eventfd(0, EFD_CLOEXEC);
    io_pair(ends);
    fill(ends[1]);
    struct write_to_what_is_shut_down w = AW_CALL(write_to_what_is_shut_down, .rt = rt,
                                                  .conn = ends[1], .never = never,
                                                  .overlooked = overlooked);
    CHECK_EQ(aw_block_on(rt, w), overlooked > 1 ? -ECANCELED : -EPIPE);
    aw_runtime_io(rt, &c);
    CHECK_EQ(c.operations, 2u);
    aw_close(ends[0]);
    aw_close(ends[1]);
    close(never);
    workers_end(rt, &m);
}

ON_URING(a_write_that_misses_a_shutdown_is_submitted_again) {
    shut_down_unnoticed(how, 1);
}
/* It was cancelled once already, to be submitted again: it can be cancelled again. */
ON_URING(a_write_that_was_submitted_again_can_be_cancelled) {
    shut_down_unnoticed(how, 2);
}

/* Submitting a read again would be useless. */
AW_ASYNC(int, read_from_what_is_shut_down, aw_runtime *rt; aw_conn * *ends; char to;
         struct io_task * task; struct io_until_waiting until; aw_io io;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->task = io_spawn(self->rt, aw_read(self->ends[1], &self->to, 1));
    AW_AWAIT(self->until,
             AW_CALL(io_until_waiting, .conn = self->ends[1], .direction = 0, .count = 1));
    AW_AWAIT(self->io, aw_shutdown(self->ends[1]));
    CHECK_EQ(write(aw_conn_fd(self->ends[0]), "y", 1), 1);
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(aw_task_take(self->task));
    AW_END;
}

ON_URING(a_shutdown_does_not_submit_reads_again) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    aw_io_counters c;
    io_pair(ends);
    CHECK_EQ(aw_block_on(rt, AW_CALL(read_from_what_is_shut_down, .rt = rt, .ends = ends)), 1);
    aw_runtime_io(rt, &c);
    CHECK_EQ(c.operations, 1u);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Interrupted, and byte by byte --------------------------------------------------------------- */

static void interrupt_everywhere(uint32_t every) {
    static const enum fault_call calls[] = {
        F_read, F_recv,  F_write,      F_readv,        F_writev,          F_sendmsg,       F_send,
        F_poll, F_ppoll, F_epoll_wait, F_epoll_pwait2, F_io_uring_enter2, F_aw__uring_push};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        fault_set(calls[i], EINTR, every, UINT32_MAX);
}

/* Whether each call that this driver makes was interrupted. With io_uring only writes to pipes
 * are plain system calls. */
static bool all_interrupted(const char *driver) {
    bool uring = strcmp(driver, "uring") == 0, epoll = strcmp(driver, "epoll") == 0;
    if (!fault_count(F_write) || !fault_count(F_writev)) return false;
    if (uring) return fault_count(F_aw__uring_push) && fault_count(F_io_uring_enter2);
    uint32_t sleeps = epoll ? fault_count(F_epoll_wait) + fault_count(F_epoll_pwait2)
                            : fault_count(F_poll) + fault_count(F_ppoll);
    return fault_count(F_read) && fault_count(F_readv) && fault_count(F_recv) &&
           fault_count(F_send) && fault_count(F_sendmsg) && sleeps;
}

ON_DRIVERS(an_interrupted_call_is_made_again) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    NEED_FAULTS(how);
    interrupt_everywhere(1);
    exchange_all(rt, 20000);
    interrupt_everywhere(5);
    do /* threads that never have to wait for each other do not sleep */
        exchange_all(rt, 20000);
    while (!all_interrupted(how.driver));
    workers_end(rt, &m);
}

ON_DRIVERS(a_few_bytes_at_a_time_are_all_there_in_the_end) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    void (*const pairs[])(aw_conn * ends[2]) = {io_pair, tcp_pair, pipe_pair};
    for (size_t limit = 1; limit < 8; limit += 3)
        for (int i = 0; i < 6; i++) {
            STORE(fault_max_bytes, limit);
            STORE(fault_short_calls, 0);
            exchange(rt, pairs[i / 2], i % 2, 1500);
            CHECK_GT(LOAD(fault_short_calls), 1500 / limit / 2); /* at one end at least */
        }
    workers_end(rt, &m);
}

ON_DRIVERS(whole_transfers_go_on_after_a_few_bytes) {
    enum { TOTAL = 3000 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    static unsigned char from[TOTAL], to[TOTAL];
    void (*const pairs[])(aw_conn * ends[2]) = {io_pair, tcp_pair, pipe_pair};
    pattern_fill(1, 0, from, TOTAL);
    STORE(fault_max_bytes, 7);
    for (int i = 0; i < 6; i++) {
        struct iovec parts[3] = {{from, 10}, {from + 10, 0}, {from + 10, TOTAL - 10}};
        aw_conn *ends[2];
        pairs[i / 2](ends);
        memset(to, 0, TOTAL);
        aw_transfer *r = aw_spawn_on(rt, aw_read_exact(ends[1], to, TOTAL));
        if (i % 2)
            CHECK_EQ(aw_block_on(rt, aw_writev_all(ends[0], parts, 3)), TOTAL);
        else
            CHECK_EQ(aw_block_on(rt, aw_write_all(ends[0], from, TOTAL)), TOTAL);
        CHECK_EQ(join_status(rt, &r->future), 0);
        CHECK_EQ(aw_task_take(r), TOTAL);
        pattern_check(1, 0, to, TOTAL);
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    workers_end(rt, &m);
}

/* ---- An event at the wrong moment ---------------------------------------------------------------- */

static aw_conn *late_ends[2];

/* The driver reports the event before the call returns, and will not report it again. */
static void write_and_report(void) {
    aw__fd *f = (aw__fd *)late_ends[1];
    uint32_t before = LOAD(f->ready);
    CHECK_EQ(__real_write(aw_conn_fd(late_ends[0]), "x", 1), 1);
    if (f->driver->type->want) /* as another waiter would */
        f->driver->type->want(f->driver, f->index, AW__READABLE);
    while (LOAD(f->ready) == before)
        aw__driver_poll(f->driver);
}

/* There is no such moment with io_uring. */
#define ON_READINESS(name)                                                                         \
    static void name##_body(struct io_setup how);                                                  \
    ON__DRIVER(name, epoll)                                                                        \
    ON__DRIVER(name, poll)                                                                         \
    static void name##_body(struct io_setup how)

ON_READINESS(an_event_between_would_block_and_the_wait_is_not_lost) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    static aw_flag flag; /* static: a worker may set it a moment later */
    char to[2] = "";
    io_pair(late_ends);
    aw_io first = aw_read(late_ends[1], to, 1), op;
    CHECK_EQ(POLL(&first, &flag), AW_PENDING); /* from now on the driver reports events */
    CHECK_EQ(__real_write(aw_conn_fd(late_ends[0]), "x", 1), 1);
    while (!aw_flag_take(&flag))
        aw__driver_poll(((aw__fd *)late_ends[1])->driver);
    CHECK_EQ(POLL(&first, &flag), AW_READY);
    for (int i = 0; i < 3; i++) {
        op = aw_read(late_ends[1], to, 1);
        to[0] = 0;
        fault_after_read = write_and_report;
        CHECK_EQ(POLL(&op, &flag), AW_READY);
        CHECK(fault_after_read == NULL);
        CHECK_EQ(op.out, 1);
        CHECK_STR(to, "x");
    }
    aw_leave(before);
    aw_close(late_ends[0]);
    aw_close(late_ends[1]);
    workers_end(rt, &m);
}

/* ---- Errors -------------------------------------------------------------------------------------- */

ON_DRIVERS(an_error_ends_one_operation_and_no_other) {
    static const int errors[] = {ENOBUFS, ENOMEM, EIO};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    NEED_FAULTS(how);
    aw_conn *ends[2];
    char to;
    struct iovec part = {&to, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    io_pair(ends);
    struct {
        enum fault_call call;
        aw_io io;
    } all[] = {
        {F_send, aw_write(ends[0], "x", 1)},
        {F_recv, aw_read(ends[1], &to, 1)},
        {F_sendmsg, aw_writev(ends[0], &part, 1)},
        {F_readv, aw_readv(ends[1], &part, 1)},
        {F_sendmsg, aw__io(ends[0], AW_IO_SENDMSG, &message, 0)},
        {F_recvmsg, aw__io(ends[1], AW_IO_RECVMSG, &message, 0)},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
            fault_set_both(all[k].call, errors[i], 0, 1);
            CHECK_EQ(aw_block_on(rt, all[k].io), -errors[i]);
        }
        fault_set_both(all[k].call, 0, 0, 0);
        CHECK_EQ(aw_block_on(rt, all[k].io), 1);
    }
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* A wait that cannot begin returns an error, and the next one works. */
static void refuse_once(struct io_setup how, enum fault_call call, int error) {
    memory m;
    size_t fds = entries("/proc/self/fd");
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to = 0;
    io_pair(ends);
    fault_set(call, error, 0, 1);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    CHECK_EQ(io_join(rt, t), -error);
    CHECK_EQ(fault_count(call), 1u);
    t = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    CHECK_EQ(__real_write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
    CHECK_EQ(entries("/proc/self/fd"), fds);
}

#define REFUSED(name, driver, call, error)                                                         \
    TEST(name##_by_##driver) {                                                                     \
        io_needs(#driver);                                                                         \
        refuse_once((struct io_setup){#driver, 0, false}, call, error);                            \
    }                                                                                              \
    TEST(name##_by_##driver##_on_8_workers) {                                                      \
        io_needs(#driver);                                                                         \
        refuse_once((struct io_setup){#driver, 8, false}, call, error);                            \
    }
REFUSED(no_memory_to_watch_is_an_error, epoll, F_epoll_ctl, ENOMEM)
REFUSED(too_many_watched_is_an_error, epoll, F_epoll_ctl, ENOSPC)
REFUSED(no_descriptor_for_the_driver_is_an_error, epoll, F_epoll_create1, EMFILE)
REFUSED(no_descriptor_for_the_interrupt_is_an_error, epoll, F_eventfd, EMFILE)
REFUSED(no_descriptor_for_the_interrupt_is_an_error, poll, F_pipe2, EMFILE)
REFUSED(no_descriptor_for_the_driver_is_an_error, uring, F_io_uring_queue_init_params, EMFILE)
REFUSED(no_memory_for_the_driver_is_an_error, uring, F_io_uring_queue_init_params, ENOMEM)
REFUSED(no_descriptor_for_the_interrupt_is_an_error, uring, F_eventfd, EMFILE)

/* ---- No busy loops -------------------------------------------------------------------------------- */

/* A read waits, and for a while nothing happens. */
static void idle_for_a_while(struct io_setup how, uint64_t max_calls) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char to;
    io_pair(ends);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    io_wait_for(rt, ends[1], 0, 1);
    run_a_while(rt);
    uint64_t before = io_calls(rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(30))), 0);
    CHECK_LE(io_calls(rt) - before, max_calls);
    aw_task_abort(t);
    CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
    aw_task_drop(t);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

ON_DRIVERS(a_wait_makes_no_calls) {
    idle_for_a_while(how, 12);
}

/* Old seccomp profiles of containers forbid epoll_pwait2. The other drivers do not use so new a
 * call. */
static void sleep_in_another_way(struct io_setup how) {
    fault_set(F_epoll_pwait2, EPERM, 0, UINT32_MAX);
    idle_for_a_while(how, 12);
    CHECK_GE(fault_count(F_epoll_pwait2), 1u);
}
TEST(a_sleep_that_is_forbidden_is_slept_in_another_way_by_epoll) {
    sleep_in_another_way((struct io_setup){"epoll", 0, false});
}
TEST(a_sleep_that_is_forbidden_is_slept_in_another_way_by_epoll_with_a_thread_per_core) {
    sleep_in_another_way((struct io_setup){"epoll", 2, true});
}

ON_URING(an_enter_that_fails_because_the_kernel_is_busy_is_repeated) {
    static const int errors[] = {EAGAIN, EBUSY, EINTR};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        uint32_t before = fault_count(F_io_uring_enter2);
        fault_set(F_io_uring_enter2, errors[i], 1, UINT32_MAX);
        exchange_all(rt, 20000);
        CHECK_GT(fault_count(F_io_uring_enter2), before);
    }
    workers_end(rt, &m);
}

/* A program that drops privileges after it has started. Timers still work, and nothing spins. */
static void forbid_for_good(struct io_setup how, int error) {
    memory m;
    kept_log log = KEPT_LOG;
    aw_runtime *rt = io_runtime(how, &m, &log);
    aw_conn *ends[2];
    char to;
    exchange(rt, io_pair, false, 100); /* opens the rings */
    io_pair(ends);
    fault_set(F_io_uring_enter2, error, 0, UINT32_MAX);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &to, 1)), -EACCES);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
    CHECK_EQ(io_join(rt, t), -EACCES);
    uint64_t before = io_calls(rt);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(30))), 0);
    CHECK_LE(io_calls(rt) - before, 40); /* a few of the eight workers find out only now */
    CHECK_GE(log_count(&log, "io_uring is not allowed any more"), 1);
    CHECK_LE(log_count(&log, "io_uring is not allowed any more"), how.workers ? how.workers : 1);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
ON_URING(operations_fail_once_entering_the_rings_is_forbidden) {
    forbid_for_good(how, EPERM);
}
ON_URING(operations_fail_once_io_uring_is_gone) {
    forbid_for_good(how, ENOSYS);
}

/* The owner cannot enable its ring at once. */
ON_URING(a_ring_that_cannot_be_enabled_yet_is_enabled_later) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    fault_set(F_io_uring_register, EAGAIN, 0, 5);
    exchange_all(rt, 1000);
    CHECK_EQ(fault_count(F_io_uring_register), !how.workers || how.per_core ? 5u : 0u);
    workers_end(rt, &m);
}

#ifdef AW_URING
/* Not in kernels before 6.1. */
static bool rings_can_have_owners(void) {
    struct io_uring u;
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    if (__real_io_uring_queue_init_params(1, &u, &p)) return false;
    io_uring_queue_exit(&u);
    return true;
}

/* So completions do not interrupt what the thread does outside of the runtime. Where tasks are
 * stolen, other threads enter the ring too. */
ON_URING(a_ring_belongs_to_one_thread_where_no_tasks_are_stolen) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    bool owned = !how.workers || how.per_core;
    if (!rings_can_have_owners()) SKIP("rings have no owners here");
    STORE(fault_rings_single, 0);
    STORE(fault_rings_shared, 0);
    exchange_all(rt, 1000);
    CHECK_EQ(LOAD(fault_rings_single) > 0, owned);
    CHECK_EQ(LOAD(fault_rings_shared) > 0, !owned);
    workers_end(rt, &m);
}
#endif

struct foreign {
    aw_runtime *rt;
    aw_conn *conn;
    int out;
};
static void *read_foreign(void *arg) {
    struct foreign *f = arg;
    char to;
    aw_runtime *before = aw_enter(f->rt);
    f->out = aw_wait(aw_read(f->conn, &to, 1));
    aw_leave(before);
    return NULL;
}

/* A plain thread cannot submit what it has queued, and goes to sleep: the owner submits it. */
static void fail_to_submit(uint32_t workers) {
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){"uring", workers, false}, &m, NULL);
    aw_conn *ends[2];
    io_pair(ends);
    exchange(rt, io_pair, false, 100); /* the workers have rings, and sleep in them */
    for (int i = 0; i < 20; i++) {
        WAIT_UNTIL(workers_sleep(rt->pool));
        struct foreign f = {.rt = rt, .conn = ends[1]};
        fault_set(F_io_uring_enter2, EAGAIN, 0, 1);
        pthread_t thread = thread_start(read_foreign, &f);
        WAIT_UNTIL(io_waiting(ends[1], 0) == 1);
        CHECK_EQ(__real_write(aw_conn_fd(ends[0]), "x", 1), 1);
        thread_end(thread);
        CHECK_EQ(f.out, 1);
        fault_set(F_io_uring_enter2, EAGAIN, 0, 0);
    }
    CHECK_EQ(fault_count(F_io_uring_enter2), 20u);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
/* Only on workers: a thread must run the runtime meanwhile. */
TEST(what_one_thread_fails_to_submit_another_submits_by_uring_on_2_workers) {
    fail_to_submit(2);
}
TEST(what_one_thread_fails_to_submit_another_submits_by_uring_on_8_workers) {
    fail_to_submit(8);
}

/* ---- Full queues ---------------------------------------------------------------------------------- */

enum { QUEUED = 1000, MANY_MORE = 6000 };

AW_ASYNC(int, read_all_at_once, aw_conn *conn; size_t count; aw_io * ops; char *to; aw_all all;) {
    AW_BEGIN;
    for (size_t i = 0; i < self->count; i++)
        self->ops[i] = aw_read(self->conn, &self->to[i], 1);
    AW_AWAIT(self->all, aw_join_all(self->ops, self->count));
    AW_RETURN(0);
    AW_END;
}

static void read_many_at_once(struct io_setup how, size_t count, bool by_close) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    aw_io *ops = calloc(count, sizeof *ops);
    char *to = calloc(count, 1), *from = calloc(count, 1);
    io_pair(ends);
    struct read_all_at_once *t = aw_spawn_on(
        rt, AW_CALL(read_all_at_once, .conn = ends[1], .count = count, .ops = ops, .to = to));
    io_wait_for(rt, ends[1], 0, (uint32_t)count);
    memset(from, 'x', count);
    if (by_close)
        aw_close(ends[1]); /* nothing is reaped before all of them are complete */
    else
        CHECK_EQ(__real_write(aw_conn_fd(ends[0]), from, count), (ssize_t)count);
    CHECK_EQ(join_status(rt, &t->future), 0);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(ops[i].out, by_close ? -EBADF : 1);
    if (!by_close) CHECK_EQ(memcmp(to, from, count), 0);
    aw_task_drop(t);
    if (!by_close) aw_close(ends[1]);
    aw_close(ends[0]);
    free(ops);
    free(to);
    free(from);
    workers_end(rt, &m);
}

ON_DRIVERS(more_operations_than_a_queue_holds) {
    read_many_at_once(how, QUEUED, false);
}
ON_DRIVERS(more_results_than_a_queue_holds) {
    read_many_at_once(how, MANY_MORE, true);
}

/* ---- No memory ------------------------------------------------------------------------------------ */

ON_DRIVERS(a_read_that_waits_while_there_is_no_memory_completes) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *others[2];
    char to, other;
    io_pair(ends);
    io_pair(others);
    struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1)),
                   *u = io_spawn(rt, aw_read(others[1], &other, 1));
    io_wait_for(rt, ends[1], 0, 1);
    io_wait_for(rt, others[1], 0, 1);
    STORE(m.refuse, 1);
    CHECK_EQ(__real_write(aw_conn_fd(others[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, u), 1);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(2))), 0); /* the runtime sleeps without memory */
    CHECK_EQ(__real_write(aw_conn_fd(ends[0]), "x", 1), 1);
    CHECK_EQ(io_join(rt, t), 1);
    STORE(m.refuse, 0);
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i]);
        aw_close(others[i]);
    }
    workers_end(rt, &m);
}

/* An allocator with an n-th allocation that fails. */
struct scarce {
    aw_allocator allocator;
    long calls, fail_at, blocks, failures; /* atomic */
};
static void *scarce_alloc(void *data, size_t size) {
    struct scarce *s = data;
    if (__atomic_add_fetch(&s->calls, 1, __ATOMIC_RELAXED) == s->fail_at) {
        ADD(s->failures, 1);
        return NULL;
    }
    ADD(s->blocks, 1);
    return malloc(size);
}
static void scarce_release(void *data, void *at, size_t size) {
    (void)size;
    ADD(((struct scarce *)data)->blocks, -1);
    free(at);
}

/* With 20 connections, so that the tables of the driver grow. */
static bool try_with(struct io_setup how, long fail_at) {
    enum { CONNS = 20 };
    struct scarce s = {.fail_at = fail_at};
    s.allocator = (aw_allocator){scarce_alloc, scarce_release, &s};
    aw_runtime_options o = workers_options(how.workers, NULL, NULL);
    o.flavour = how.per_core  ? AW_THREAD_PER_CORE
                : how.workers ? AW_MULTI_THREAD
                              : AW_CURRENT_THREAD;
    o.driver = how.driver;
    o.keep_tasks = !how.workers;
    o.allocator = &s.allocator;
    aw_runtime *rt;
    int error = aw_runtime_new(&rt, &o);
    if (error) {
        CHECK_EQ(error, -ENOMEM);
        CHECK_EQ(s.blocks, 0);
        return true;
    }
    for (int i = 0; i < CONNS; i++) {
        aw_conn *ends[2];
        char to = 0;
        io_pair(ends);
        struct io_task *t = io_spawn(rt, aw_read(ends[1], &to, 1));
        int status = 0;
        while (!aw_task_is_finished(t) && !io_waiting(ends[1], 0) && !status)
            status = aw_block_on(rt, yields(1));
        if (status) CHECK_EQ(status, -ENOMEM);
        CHECK_EQ(__real_write(aw_conn_fd(ends[0]), "x", 1), 1);
        int joined = -ENOMEM;
        while (joined == -ENOMEM && !aw_task_is_finished(t)) {
            aw_task_join_future join = aw_task_join(t);
            joined = aw_block_on_future(rt, &join.future);
        }
        if (aw_task_is_finished(t)) {
            aw_task_join_future join = aw_task_join(t);
            int none = aw_block_on_future(rt, &join.future);
            CHECK(none == 0 || none == -ENOMEM);
            if (none == 0 && join.out == 0) {
                int n = aw_task_take(t);
                CHECK(n == 1 || n == -ENOMEM);
            } else {
                aw_task_drop(t);
            }
        } else {
            aw_task_drop(t);
        }
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    aw_runtime_free(rt);
    CHECK_EQ(s.blocks, 0);
    return s.failures != 0;
}

ON_DRIVERS(memory_may_run_out_at_any_allocation) {
    io_needs(how.driver);
    long n = 1;
    while (try_with(how, n) && n < 200)
        n++;
    CHECK_GT(n, 3);
}
