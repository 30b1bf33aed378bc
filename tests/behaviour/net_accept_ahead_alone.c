/* SPDX-License-Identifier: MIT
 *
 * An accept that cannot wait (without a runtime, or in a runtime with a seam instead of a
 * driver) takes a pending connection or fails. It leaves accept_ahead working for other
 * acceptors. */
#include "net/accept_ahead.h"
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

enum { LIMIT = 8, CLIENTS = 10 };

/* Without a runtime, or in a runtime that cannot wait for descriptors. */
static int accept_alone(aw_listener *l, aw_conn **conn, bool seam) {
    static sleeper s;
    if (!seam) return aw_wait_for(AW_SEC(5), aw_accept(l, conn));
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&s), false);
    int out = aw_block_on(rt, aw_accept(l, conn));
    aw_runtime_free(rt);
    return out;
}

/* One after the other: each client connects once the previous connection was closed. */
static void *clients_come(void *arg) {
    for (int i = 0; i < CLIENTS; i++) {
        char byte;
        int fd = plain_client(arg);
        CHECK_EQ(recv(fd, &byte, 1, 0), 0);
        close(fd);
    }
    return NULL;
}

AW_ASYNC(int, accept_clients, aw_listener *l; int i; aw_conn * conn; aw_accept_future accept;) {
    AW_BEGIN;
    for (; self->i < CLIENTS; self->i++) {
        AW_AWAIT(self->accept, aw_accept(self->l, &self->conn));
        CHECK_EQ(self->accept.out, 0);
        aw_close(self->conn);
    }
    AW_RETURN(0);
    AW_END;
}

/* Returns the number of operations this took. */
static uint64_t accept_one_by_one(aw_runtime *rt, aw_listener *l, aw_addr *at) {
    aw_io_counters before, after;
    aw_runtime_io(rt, &before);
    struct accept_clients *t = aw_spawn_on(rt, AW_CALL(accept_clients, .l = l));
    pthread_t thread = thread_start(clients_come, at);
    CHECK_EQ(join_status(rt, &t->future), 0);
    aw_task_drop(t);
    thread_end(thread);
    aw_runtime_io(rt, &after);
    return after.operations - before.operations;
}

static void fail_alone(struct io_setup how, bool seam, int error) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conn;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(accept_alone(l, &conn, seam), error);
    CHECK(!l->accept_ahead->off);
    CHECK_LE(accept_one_by_one(rt, l, &at), 1u);
    CHECK_EQ(accept_alone(l, &conn, seam), error); /* while the operation is in flight */
    CHECK_LE(accept_one_by_one(rt, l, &at), 1u);
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_URING(an_accept_without_a_runtime_does_not_turn_accept_ahead_off) {
    fail_alone(how, false, -ENXIO);
}
ON_URING(an_accept_that_cannot_wait_does_not_turn_accept_ahead_off) {
    fail_alone(how, true, -ENOTSUP);
}

TEST(an_accept_without_a_runtime_takes_a_pending_connection) {
    aw_addr at;
    aw_conn *conn;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    int client = plain_client(&at);
    CHECK_EQ(accept_alone(l, &conn, false), 0);
    CHECK(!l->accept_ahead->off);
    aw_close(conn);
    close(client);
    aw_listener_close(l);
}
