/* SPDX-License-Identifier: MIT
 *
 * Completion drivers: every operation of a socket is submitted to the kernel, many of them in
 * one call. */
#include "support/net.h"

#include <awake/udp.h>
#include <awake/unix.h>

/* ---- Counting ----------------------------------------------------------------------------------- */

struct tally {
    aw_runtime *rt;
    bool submits; /* whether the driver submits operations to the kernel */
    aw_io_counters last;
};

static struct tally tally_of(aw_runtime *rt, struct io_setup how) {
    struct tally t = {.rt = rt, .submits = strcmp(how.driver, "uring") == 0};
    aw_runtime_io(rt, &t.last);
    return t;
}

/* Since the last check, so many operations and so many waits for readiness were submitted. Only
 * an accept is preceded by a wait. */
static void tally_check_waits(struct tally *t, uint64_t operations, uint64_t waits) {
    aw_io_counters now;
    aw_runtime_io(t->rt, &now);
    CHECK_EQ(now.operations - t->last.operations, t->submits ? operations : 0u);
    if (t->submits) CHECK_EQ(now.waits - t->last.waits, waits);
    t->last = now;
}
static void tally_check(struct tally *t, uint64_t operations) {
    tally_check_waits(t, operations, 0);
}

/* ---- Every operation ---------------------------------------------------------------------------- */

ON_DRIVERS(accepts_and_connects_are_submitted_to_the_kernel) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct tally t = tally_of(rt, how);
    for (int f = 0; f < INET_FAMILIES; f++) {
        aw_addr at;
        aw_conn *client, *server;
        aw_listener *l = listen_loopback(inet_families[f], NULL, &at);
        struct accept_one *a = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &server));
        CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
        CHECK_EQ(join_status(rt, &a->future), 0);
        CHECK_EQ(aw_task_take(a), 0);
        tally_check_waits(&t, 2, 1);
        aw_close(client);
        aw_close(server);
        aw_listener_close(l);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(reads_and_writes_are_submitted_to_the_kernel) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to[4];
    struct iovec out[2] = {{"ab", 2}, {"cd", 2}}, in[2] = {{to, 1}, {to + 1, 3}};
    connected_pair(rt, ends);
    struct tally t = tally_of(rt, how);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "abcd", 4)), 4);
    tally_check(&t, 1);
    CHECK_EQ(aw_block_on(rt, aw_read(ends[1], to, 4)), 4);
    tally_check(&t, 1);
    CHECK_EQ(aw_block_on(rt, aw_writev(ends[0], out, 2)), 4);
    tally_check(&t, 1);
    CHECK_EQ(aw_block_on(rt, aw_readv(ends[1], in, 2)), 4);
    tally_check(&t, 1);
    CHECK_EQ(memcmp(to, "abcd", 4), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(messages_are_submitted_to_the_kernel) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2], *udp;
    aw_addr any = aw_addr_loopback(AF_INET, 0), at, from;
    char to[4];
    int fd = 0, count = 0;
    io_pair(ends);
    struct tally t = tally_of(rt, how);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "fd", 2, &fd, 1)), 2);
    tally_check(&t, 1);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], to, 4, &fd, 1, &count)), 2);
    tally_check(&t, 1);
    CHECK_EQ(count, 1);
    close(fd);
    CHECK_EQ(aw_udp_bind(&udp, &any, NULL), 0);
    CHECK_EQ(aw_conn_local(udp, &at), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(udp, "udp", 3, &at)), 3);
    tally_check(&t, 1);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(udp, to, 4, &from, NULL)), 3);
    tally_check(&t, 1);
    aw_close(udp);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Many at once ------------------------------------------------------------------------------- */

enum { TASKS = 64 };

/* Returns the number of system calls that the writes of all tasks take. */
AW_ASYNC(int, write_by_tasks, aw_conn *conn; aw_io * tasks[TASKS]; int i; uint64_t before;
         aw_task_join_future join;) {
    AW_BEGIN;
    aw_io_counters c;
    aw_runtime_io(aw_runtime_current(), &c);
    self->before = c.calls;
    for (int i = 0; i < TASKS; i++)
        self->tasks[i] = aw_spawn(aw_write(self->conn, "x", 1));
    for (self->i = 0; self->i < TASKS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(aw_task_take(self->tasks[self->i]), 1);
    }
    aw_io_counters after;
    aw_runtime_io(aw_runtime_current(), &after);
    AW_RETURN((int)(after.calls - self->before));
    AW_END;
}

ON_DRIVERS(operations_of_many_tasks_are_submitted_in_a_few_calls) {
    memory m;
    how.workers = how.workers != 0; /* a single worker */
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to[TASKS];
    io_pair(ends);
    for (int i = 0; i < 3; i++) {
        CHECK_LE(RUN(rt, AW_CALL(write_by_tasks, .conn = ends[0])), TASKS / 4);
        CHECK_EQ(read(aw_conn_fd(ends[1]), to, TASKS), TASKS);
    }
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}
