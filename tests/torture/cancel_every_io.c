/* SPDX-License-Identifier: MIT
 *
 * Each kind of operation, cancelled at every moment on every driver, by hand and with another waker at each call: before it
 * began, while it waits, when it was woken, twice, and while another thread makes it end. Either it has its result and
 * that is whole, or nothing of it happened. */
#include "support/beacon.h"
#include "support/io_ends.h"

/* ---- Kinds -------------------------------------------------------------------------------------- */

struct subject_io {
    aw_runtime *rt;
    uint32_t kind;
    aw_conn *conn; /* of the operation */
    int far;       /* the other end, or who listens there */
    int client;    /* who connects, to be accepted */
    char byte;     /* to be read or written */
    struct iovec part;
    struct msghdr message;
    struct sockaddr_in at;
};

static bool reads(uint32_t kind) {
    return kind == AW_IO_READ || kind == AW_IO_READV || kind == AW_IO_RECVMSG;
}
static bool writes(uint32_t kind) {
    return kind == AW_IO_WRITE || kind == AW_IO_WRITEV || kind == AW_IO_SENDMSG;
}

static int client_of(const struct sockaddr_in *at) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    return fd;
}

/* It would block. */
static void io_subject_begin(struct subject_io *s, aw_runtime *rt, uint32_t kind) {
    *s = (struct subject_io){.rt = rt, .kind = kind, .far = -1, .client = -1};
    int fds[2];
    if (kind == AW_IO_ACCEPT) {
        fds[0] = tcp_listen(&s->at, 8);
    } else if (kind == AW_IO_CONNECT) {
        s->far = tcp_listen(&s->at, 8);
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } else {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        s->far = fds[1];
    }
    CHECK_EQ(aw_conn_of_fd(&s->conn, fds[0]), 0);
    if (writes(kind) || kind == AW_IO_WRITABLE) fill(s->conn);
    s->byte = writes(kind) ? 'x' : 0;
    s->part = (struct iovec){&s->byte, 1};
    s->message = (struct msghdr){.msg_iov = &s->part, .msg_iovlen = 1};
}

static aw_io io_subject_operation(struct subject_io *s) {
    switch (s->kind) {
    case AW_IO_READ:
    case AW_IO_WRITE: return aw__io(s->conn, s->kind, &s->byte, 1);
    case AW_IO_READV:
    case AW_IO_WRITEV: return aw__io(s->conn, s->kind, &s->part, 1);
    case AW_IO_RECVMSG:
    case AW_IO_SENDMSG: return aw__io(s->conn, s->kind, &s->message, 0);
    case AW_IO_CONNECT: return aw__io(s->conn, s->kind, &s->at, sizeof s->at);
    default: return aw__io(s->conn, s->kind, NULL, 0);
    }
}

/* Let it go on. Any thread. */
static void io_subject_finish(struct subject_io *s) {
    if (reads(s->kind) || s->kind == AW_IO_READABLE)
        CHECK_EQ(send(s->far, "x", 1, MSG_NOSIGNAL), 1);
    else if (writes(s->kind) || s->kind == AW_IO_WRITABLE)
        CHECK_GT(drain_fd(s->far), 0u);
    else if (s->kind == AW_IO_ACCEPT)
        s->client = client_of(&s->at);
}

/* Nothing more comes from anybody. What happened is what it says. */
static void io_subject_check(struct subject_io *s, aw_io *op, aw_poll end, bool finished) {
    int fd = aw_conn_fd(s->conn);
    char byte = 0;
    if (end == AW_READY && reads(s->kind)) {
        CHECK_EQ(op->out, 1);
        CHECK_EQ(s->byte, 'x');
        CHECK_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    } else if (reads(s->kind)) {
        CHECK_EQ(s->byte, 0);
        CHECK_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), finished ? 1 : -1);
    } else if (writes(s->kind)) {
        if (!finished) drain_fd(s->far);
        if (end == AW_READY) CHECK_EQ(op->out, 1);
        /* With what was in front of it, it may have gone already. */
        if (!finished || end != AW_READY) CHECK_EQ(drain_fd(s->far), 0u);
    } else if (end == AW_READY && s->kind == AW_IO_ACCEPT) {
        CHECK_GE(op->out, 0);
        aw_future_discard(&op->future); /* nobody takes it */
        CHECK_EQ(recv(s->client, &byte, 1, 0), 0);
    } else if (s->kind == AW_IO_ACCEPT && finished) {
        int taken = accept(fd, NULL, NULL);
        CHECK_GE(taken, 0);
        close(taken);
    } else if (end == AW_READY) {
        CHECK_EQ(op->out, 0);
    }
}

static void io_subject_end(struct subject_io *s) {
    aw_close(s->conn);
    if (s->far >= 0) close(s->far);
    if (s->client >= 0) close(s->client);
}

/* ---- Moments ------------------------------------------------------------------------------------ */

enum moment { UNSTARTED, PENDING, WOKEN, TWICE, REPOLLED, RACING, MOMENTS };

/* Until it has been woken; somebody runs the runtime. */
static void wait_for_wake(void) {
    while (drive_wakes() == 0)
        sched_yield();
}

static aw_poll cancel_to_end(aw_io *op) {
    aw_poll r;
    while ((r = drive_cancel(&op->future)) == AW_PENDING)
        wait_for_wake();
    return r;
}

static void *finish_soon(void *arg) {
    struct subject_io *s = arg;
    uint64_t random = (uintptr_t)s ^ test_now_ns();
    jitter(&random);
    io_subject_finish(s);
    return NULL;
}

static void cut_at(struct subject_io *s, enum moment moment) {
    aw_io op = io_subject_operation(s);
    bool finished = false;
    if (moment == UNSTARTED) {
        CHECK_EQ(drive_cancel(&op.future), AW_CANCELLED);
        io_subject_check(s, &op, AW_CANCELLED, false);
        return;
    }
    aw_poll r = drive_poll(&op.future);
    if (moment == REPOLLED && r == AW_PENDING) r = drive_poll(&op.future);
    if (r == AW_PENDING && moment == WOKEN && s->kind != AW_IO_CONNECT) {
        io_subject_finish(s);
        finished = true;
        wait_for_wake();
    }
    if (r == AW_PENDING && moment == TWICE) r = drive_cancel(&op.future);
    pthread_t other;
    bool races = r == AW_PENDING && moment == RACING;
    if (races) other = thread_start(finish_soon, s), finished = true;
    if (r == AW_PENDING) r = cancel_to_end(&op);
    if (races) thread_end(other);
    io_subject_check(s, &op, r, finished);
}

static void cut_everywhere(struct io_setup how) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    size_t fds = 0;
    for (int round = 0; round < 2; round++)
        for (uint32_t kind = AW_IO_READ; kind <= AW_IO_SENDMSG; kind++)
            for (int moment = 0; moment < MOMENTS; moment++)
                for (int i = 0; i < (moment == RACING ? storm_rounds(60) : 1); i++) {
                    struct subject_io s;
                    io_subject_begin(&s, rt, kind);
                    cut_at(&s, (enum moment)moment);
                    io_subject_end(&s);
                    if (round == 0) fds = entries("/proc/self/fd");
                }
    CHECK_LE(entries("/proc/self/fd"), fds + 2 * (size_t)how.workers);
    aw_leave(before);
    workers_end(rt, &m);
}

/* cancel-at-every-await: aw_io */
TEST(every_operation_may_be_cancelled_at_every_moment_by_uring) {
    cut_everywhere((struct io_setup){"uring", 2, false});
}
TEST(every_operation_may_be_cancelled_at_every_moment_by_epoll) {
    cut_everywhere((struct io_setup){"epoll", 2, false});
}
TEST(every_operation_may_be_cancelled_at_every_moment_by_poll) {
    cut_everywhere((struct io_setup){"poll", 2, false});
}
