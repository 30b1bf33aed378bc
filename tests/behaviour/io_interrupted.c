/* SPDX-License-Identifier: MIT
 *
 * Signals interrupt system calls; each call is repeated, and the task that awaits it does not
 * notice. */
#define _GNU_SOURCE
#include "base/allocate.h"

#include "support/io_ends.h"
#include "support/net.h"

#include <awake/copy.h>
#include <awake/udp.h>
#include <awake/unix.h>
#include <signal.h>
#include <sys/mman.h>

#include "support/faults.h"

enum { TIMES = 3, MUCH = 1 << 20, SPLICING = 4 /* `doing` of a copy that had a pipe */ };

/* Interrupts the next TIMES calls, or the operations that are submitted instead of them. */
static void interrupt_next(enum fault_call call) {
    fault_set_both(call, EINTR, 0, TIMES);
}
static void check_interrupted(enum fault_call call, struct io_setup how) {
    bool submits = strcmp(how.driver, "uring") == 0;
    CHECK_EQ(fault_count(call), submits ? 0u : TIMES);
    if (submits) CHECK_EQ(LOAD(faults[F_aw__uring_push].remaining), 0u);
}

/* ---- Sockets ------------------------------------------------------------------------------------ */

ON_DRIVERS(an_interrupted_accept_and_connect_are_made_again) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    NEED_FAULTS(how);
    aw_addr at;
    aw_conn *client, *server;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    interrupt_next(F_connect);
    CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
    check_interrupted(F_connect, how);
    interrupt_next(F_accept4);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
    check_interrupted(F_accept4, how);
    aw_close(client);
    aw_close(server);
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_DRIVERS(an_interrupted_datagram_is_sent_and_received) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    NEED_FAULTS(how);
    aw_conn *c;
    aw_addr any = aw_addr_loopback(AF_INET, 0), at, from;
    char to[8] = "";
    CHECK_EQ(aw_udp_bind(&c, &any, NULL), 0);
    CHECK_EQ(aw_conn_local(c, &at), 0);
    interrupt_next(F_sendmsg);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "udp", 4, &at)), 4);
    check_interrupted(F_sendmsg, how);
    interrupt_next(F_recvmsg);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(c, to, sizeof to, &from, NULL)), 4);
    check_interrupted(F_recvmsg, how);
    CHECK_STR(to, "udp");
    aw_close(c);
    workers_end(rt, &m);
}

/* An inline system call with every driver. */
ON_DRIVERS(an_interrupted_datagram_to_a_name_is_sent) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *c;
    aw_addr at;
    char name[32], to[8] = "";
    int n = snprintf(name, sizeof name, "awake-interrupted-%d", (int)getpid());
    CHECK_EQ(aw_addr_of_abstract(&at, name, (size_t)n), 0);
    CHECK_EQ(aw_unix_datagram(&c, &at), 0);
    fault_set(F_sendmsg, EINTR, 0, TIMES);
    CHECK_EQ(aw_block_on(rt, aw_send_to(c, "unix", 5, &at)), 5);
    CHECK_EQ(fault_count(F_sendmsg), TIMES);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(c, to, sizeof to, NULL, NULL)), 5);
    CHECK_STR(to, "unix");
    aw_close(c);
    workers_end(rt, &m);
}

ON_DRIVERS(interrupted_descriptors_are_sent_and_received) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    NEED_FAULTS(how);
    aw_conn *ends[2];
    int sent = 0, got = -1, count = 0;
    char to;
    io_pair(ends);
    interrupt_next(F_sendmsg);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, &sent, 1)), 1);
    check_interrupted(F_sendmsg, how);
    interrupt_next(F_recvmsg);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &to, 1, &got, 1, &count)), 1);
    check_interrupted(F_recvmsg, how);
    CHECK_EQ(count, 1);
    CHECK_EQ(close(got), 0);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* ---- Inside the kernel -------------------------------------------------------------------------- */

static unsigned char *stream_of(uint32_t number) {
    unsigned char *bytes = malloc(MUCH);
    CHECK(bytes != NULL);
    pattern_fill(number, 0, bytes, MUCH);
    return bytes;
}

ON_DRIVERS(an_interrupted_splice_is_made_again) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    static char buffer[64 << 10];
    unsigned char *from = stream_of(1), *to = malloc(MUCH);
    aw_conn *in[2], *out[2];
    io_pair(in);
    io_pair(out);
    aw_reader r = aw_reader_of(in[1], buffer, sizeof buffer);
    fault_set(F_splice, EINTR, 1, UINT32_MAX);
    aw_copy_future *c = aw_spawn_on(rt, aw_copy(&r, out[0]));
    aw_transfer *s = aw_spawn_on(rt, aw_write_all(in[0], from, MUCH)),
                *t = aw_spawn_on(rt, aw_read_exact(out[1], to, MUCH));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(aw_task_take(s), MUCH);
    aw_close(in[0]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), MUCH);
    CHECK_EQ(join_status(rt, &c->future), 0);
    CHECK_EQ(aw_task_take(c), MUCH);
    CHECK_GT(fault_count(F_splice), 0u);
    pattern_check(1, 0, to, MUCH);
    aw_close(in[1]);
    aw_close(out[0]);
    aw_close(out[1]);
    free(from);
    free(to);
    workers_end(rt, &m);
}

/* The receiver does not read, and the copy is cancelled while bytes are in the pipe. */
ON_DRIVERS(what_is_in_the_pipe_is_saved_by_interrupted_calls) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    static aw_flag flag; /* static: a worker may set it a moment later */
    static char buffer[64 << 10];
    aw_conn *in[2], *out[2];
    io_pair(in);
    io_pair(out);
    aw_reader r = aw_reader_of(in[1], buffer, sizeof buffer);
    aw_copy_future f = aw_copy(&r, out[0]);
    while (f.doing < SPLICING || !f.piped || f.io.wants != AW_IO_WRITABLE) {
        fill(in[0]);
        CHECK_EQ(POLL(&f, &flag), AW_PENDING);
        run_a_while(rt);
        if (f.doing < SPLICING) drain_fd(aw_conn_fd(out[1]));
    }
    size_t piped = f.piped;
    fault_set(F_read, EINTR, 0, 20); /* a driver may use up some of them */
    aw_poll p = AW_PENDING;
    for (; p == AW_PENDING; p = CANCEL(&f, &flag))
        run_a_while(rt);
    CHECK_EQ(p, AW_CANCELLED);
    CHECK_EQ(fault_count(F_read), 20u);
    CHECK_EQ(aw_reader_peek(&r).size, piped);
    aw_leave(before);
    for (int i = 0; i < 2; i++) {
        aw_close(in[i]);
        aw_close(out[i]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(an_interrupted_sendfile_is_made_again) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    unsigned char *from = stream_of(2), *to = malloc(MUCH);
    aw_conn *ends[2];
    int file = memfd_create("interrupted", MFD_CLOEXEC);
    CHECK_EQ(__real_write(file, from, MUCH), MUCH);
    io_pair(ends);
    fault_set(F_sendfile, EINTR, 1, UINT32_MAX);
    aw_sendfile_future *s = aw_spawn_on(rt, aw_sendfile(ends[0], file, 0, MUCH));
    aw_transfer *t = aw_spawn_on(rt, aw_read_exact(ends[1], to, MUCH));
    CHECK_EQ(join_status(rt, &s->future), 0);
    CHECK_EQ(aw_task_take(s), MUCH);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), MUCH);
    CHECK_GT(fault_count(F_sendfile), 0u);
    pattern_check(2, 0, to, MUCH);
    aw_close(ends[0]);
    aw_close(ends[1]);
    close(file);
    free(from);
    free(to);
    workers_end(rt, &m);
}

/* ---- SIGPIPE, and interrupts of a driver -------------------------------------------------------- */

/* Another signal interrupts the call that consumes the SIGPIPE, which would kill the process. */
ON_DRIVERS(an_interrupted_write_without_a_reader_raises_no_signal) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    aw_conn *ends[2];
    pipe_pair(ends);
    aw_close(ends[1]);
    fault_set(F_sigtimedwait, EINTR, 0, TIMES);
    CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "x", 1)), -EPIPE);
    CHECK_EQ(fault_count(F_sigtimedwait), TIMES);
    aw_close(ends[0]);
    workers_end(rt, NULL);
}

/* The other drivers write to an eventfd, inside the C library, where the test cannot make the
 * call fail. */
TEST(an_interrupt_that_is_interrupted_ends_the_next_sleep_by_poll) {
    aw__driver *d;
    aw__event events[AW__EVENTS];
    uint64_t begin = test_now_ns();
    CHECK_EQ(aw__driver_open(&d, &aw__poll_driver, aw__allocator_for(NULL), NULL), 0);
    fault_set(F_write, EINTR, 0, TIMES);
    d->type->interrupt(d);
    CHECK_EQ(fault_count(F_write), TIMES);
    CHECK_EQ(d->type->collect(d, events, begin + AW_SEC(10)), 0);
    CHECK_LT(test_now_ns() - begin, AW_SEC(10));
    aw__driver_close(d);
    aw__driver_free(d);
}
