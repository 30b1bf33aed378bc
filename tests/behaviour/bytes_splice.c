/* SPDX-License-Identifier: MIT
 *
 * Copies where the kernel cannot splice, or stops: urgent bytes, messages, and splice forbidden
 * by policy. */
#define _GNU_SOURCE
#include "support/seccomp.h"
#include "support/io_ends.h"

enum { BEFORE = 512 << 10, AFTER = 100 << 10, ALL = BEFORE + AFTER, BUFFER_SIZE = 64 << 10 };
enum { SPLICING = 4 /* `doing` of a copy that had a pipe */ };

/* ---- Sender and receiver: plain threads --------------------------------------------------------- */

struct route {
    int in[2], out[2];       /* in[0] sends, out[1] receives; what is between is copied */
    size_t buffer_size, all; /* size of the copy's buffer; bytes in total */
    size_t arrived;          /* atomic */
    bool stays;              /* shut down only after all has arrived */
};

static void send_from(int fd, size_t at, size_t size) {
    unsigned char bytes[4096];
    for (size_t end = at + size; at < end; at += sizeof bytes) {
        pattern_fill(1, at, bytes, sizeof bytes);
        for (size_t sent = 0; sent < sizeof bytes;) {
            ssize_t n = send(fd, bytes + sent, sizeof bytes - sent, MSG_NOSIGNAL);
            CHECK_GT(n, 0);
            sent += (size_t)n;
        }
    }
}

static void *receive_all(void *arg) {
    struct route *r = arg;
    unsigned char bytes[4096];
    for (ssize_t n; (n = recv(r->out[1], bytes, sizeof bytes, 0)) > 0;) {
        pattern_check(1, LOAD(r->arrived), bytes, (size_t)n);
        ADD(r->arrived, (size_t)n);
    }
    return NULL;
}

static void *send_with_an_urgent_byte(void *arg) {
    struct route *r = arg;
    send_from(r->in[0], 0, BEFORE);
    CHECK_EQ(send(r->in[0], "!", 1, MSG_OOB), 1);
    send_from(r->in[0], BEFORE, AFTER);
    if (r->stays) WAIT_UNTIL(LOAD(r->arrived) == ALL);
    CHECK_EQ(shutdown(r->in[0], SHUT_WR), 0);
    return NULL;
}

/* ---- The copy between them ---------------------------------------------------------------------- */

/* Returns the last value of `doing`. */
AW_ASYNC(int, copy_all, aw_conn *from; aw_conn * to; const struct route *route; aw_reader reader;
         aw_copy_future copy;) {
    AW_BEGIN;
    CHECK_EQ(aw_reader_init(&self->reader, self->from, self->route->buffer_size), 0);
    AW_AWAIT(self->copy, aw_copy(&self->reader, self->to));
    CHECK_EQ(self->copy.out, (ssize_t)self->route->all);
    aw_close(self->from);
    aw_close(self->to);
    AW_RETURN(self->copy.doing);
    AW_FINALLY;
    if (AW_STARTED) aw_reader_free(&self->reader);
    AW_END;
}

/* Closes all four descriptors. */
static int copy_route(aw_runtime *rt, struct route *r, void *(*sender)(void *),
                      void *(*receiver)(void *)) {
    aw_conn *from, *to;
    CHECK_EQ(aw_conn_of_fd(&from, r->in[1]), 0);
    CHECK_EQ(aw_conn_of_fd(&to, r->out[0]), 0);
    pthread_t in = thread_start(sender, r), out = thread_start(receiver, r);
    struct copy_all *c = aw_spawn_on(rt, AW_CALL(copy_all, .from = from, .to = to, .route = r));
    CHECK_EQ(join_status(rt, &c->future), 0);
    thread_end(in);
    thread_end(out);
    close(r->in[0]);
    close(r->out[1]);
    return aw_task_take(c);
}

/* ---- Urgent bytes ------------------------------------------------------------------------------- */

static void copy_past_an_urgent_byte(struct io_setup how, bool stays) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct route r = {.buffer_size = BUFFER_SIZE, .all = ALL, .stays = stays};
    tcp_pair_fds(r.in);
    tcp_pair_fds(r.out);
    CHECK_GE(copy_route(rt, &r, send_with_an_urgent_byte, receive_all), SPLICING);
    CHECK_EQ(r.arrived, ALL);
    workers_end(rt, &m);
}

ON_DRIVERS(an_urgent_byte_is_not_the_end_of_a_copy) {
    copy_past_an_urgent_byte(how, false);
}
ON_DRIVERS(an_urgent_byte_does_not_hold_up_a_copy) {
    copy_past_an_urgent_byte(how, true);
}

/* ---- Messages ----------------------------------------------------------------------------------- */

enum { MESSAGE = 100000, MESSAGES = 20 };

static void *send_messages(void *arg) {
    struct route *r = arg;
    static unsigned char bytes[MESSAGE];
    pattern_fill(2, 0, bytes, MESSAGE);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_EQ(send(r->in[0], bytes, MESSAGE, 0), MESSAGE);
    CHECK_EQ(shutdown(r->in[0], SHUT_WR), 0);
    return NULL;
}

static void *receive_messages(void *arg) {
    struct route *r = arg;
    static unsigned char bytes[MESSAGE + 1];
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ(recv(r->out[1], bytes, sizeof bytes, 0), MESSAGE);
        pattern_check(2, 0, bytes, MESSAGE);
    }
    CHECK_EQ(recv(r->out[1], bytes, sizeof bytes, 0), 0);
    return NULL;
}

/* A pipe does not keep message boundaries, so messages are not spliced. */
ON_DRIVERS(messages_are_copied_whole) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct route r = {.buffer_size = 3 * MESSAGE, .all = MESSAGES * MESSAGE};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, r.in), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, r.out), 0);
    CHECK_LT(copy_route(rt, &r, send_messages, receive_messages), SPLICING);
    workers_end(rt, &m);
}

/* ---- Forbidden ---------------------------------------------------------------------------------- */

static void *send_all(void *arg) {
    struct route *r = arg;
    send_from(r->in[0], 0, ALL);
    CHECK_EQ(shutdown(r->in[0], SHUT_WR), 0);
    return NULL;
}

/* By a seccomp policy, with each error that such policies use. */
ON_DRIVERS(where_splice_is_forbidden_a_copy_uses_its_buffer) {
    static const int calls[] = {SYS_splice}, errors[] = {EPERM, EACCES, ENOSYS, EOPNOTSUPP};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct route r = {.buffer_size = BUFFER_SIZE, .all = ALL};
        tcp_pair_fds(r.in);
        tcp_pair_fds(r.out);
        if (!forbid_calls(calls, 1, errors[i])) SKIP("no seccomp here");
        CHECK_EQ(splice(-1, NULL, -1, NULL, 1, 0), -1);
        CHECK_EQ(errno, errors[i]);
        CHECK_LT(copy_route(rt, &r, send_all, receive_all), SPLICING);
        CHECK_EQ(r.arrived, ALL);
    }
    workers_end(rt, &m);
}
