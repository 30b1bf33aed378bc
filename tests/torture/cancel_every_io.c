/* SPDX-License-Identifier: MIT
 *
 * Each kind of operation, on every driver, cancelled at every moment: before it began, while it
 * waits, after it was woken, twice, and while another thread makes it end. It is polled without a
 * task, with another waker at each call. Either the operation has its complete result, or it had no
 * effect. The memory lent to it is not accessed afterwards. */
#include "support/checked_waker.h"
#include "support/guard.h"
#include "support/io_ends.h"

/* ---- Kinds ----------------------------------------------------------------------------------- */

/* All memory that an operation may need. */
struct lent {
    char byte; /* read or written */
    struct iovec part;
    struct msghdr message;
    struct sockaddr_in at;
};

struct subject_io {
    aw_runtime *rt;
    uint32_t kind;
    aw_conn *conn; /* of the operation */
    int peer;      /* the other end, or the listener to connect to */
    int client;    /* connects, to be accepted */
    struct sockaddr_in at;
    struct lent *lent; /* from malloc: ASan knows its bounds */
    char byte;         /* the byte lent, when the operation had ended */
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

/* All ends are non-blocking. read and write work on pipes, too. */
static size_t take_all(int fd) {
    char bytes[4096];
    size_t total = 0;
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        total += (size_t)n;
    return total;
}
static void fill_up(int fd) {
    static const char zeros[4096];
    for (size_t size = sizeof zeros; size; size /= 2)
        while (write(fd, zeros, size) > 0)
            ;
}

/* fds[0] becomes the end that the operation uses. */
static void make_pipe(int fds[2], uint32_t kind) {
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    if (reads(kind) || kind == AW_IO_READABLE) return;
    int reader = fds[0];
    fds[0] = fds[1];
    fds[1] = reader;
}

/* Prepares an operation that would block. */
static void io_subject_begin(struct subject_io *s, aw_runtime *rt, uint32_t kind, bool pipe) {
    *s = (struct subject_io){.rt = rt, .kind = kind, .peer = -1, .client = -1};
    int fds[2];
    if (pipe) {
        make_pipe(fds, kind);
        s->peer = fds[1];
    } else if (kind == AW_IO_ACCEPT) {
        fds[0] = tcp_listen(&s->at, 8);
    } else if (kind == AW_IO_CONNECT) {
        s->peer = tcp_listen(&s->at, 8);
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } else {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        s->peer = fds[1];
    }
    CHECK_EQ(aw_conn_of_fd(&s->conn, fds[0]), 0);
    if (writes(kind) || kind == AW_IO_WRITABLE) fill_up(fds[0]);
    struct lent *l = s->lent = malloc(sizeof *l);
    *l = (struct lent){.byte = writes(kind) ? 'x' : 0, .at = s->at};
    l->part = (struct iovec){&l->byte, 1};
    l->message = (struct msghdr){.msg_iov = &l->part, .msg_iovlen = 1};
}

static aw_io io_subject_operation(struct subject_io *s) {
    struct lent *l = s->lent;
    switch (s->kind) {
    case AW_IO_READ:
    case AW_IO_WRITE: return aw__io(s->conn, s->kind, &l->byte, 1);
    case AW_IO_READV:
    case AW_IO_WRITEV: return aw__io(s->conn, s->kind, &l->part, 1);
    case AW_IO_RECVMSG:
    case AW_IO_SENDMSG: return aw__io(s->conn, s->kind, &l->message, 0);
    case AW_IO_CONNECT: return aw__io(s->conn, s->kind, &l->at, sizeof l->at);
    default: return aw__io(s->conn, s->kind, NULL, 0);
    }
}

/* Lets the operation finish. Any thread. */
static void io_subject_finish(struct subject_io *s) {
    if (reads(s->kind) || s->kind == AW_IO_READABLE)
        CHECK_EQ(write(s->peer, "x", 1), 1);
    else if (writes(s->kind) || s->kind == AW_IO_WRITABLE)
        CHECK_GT(take_all(s->peer), 0u);
    else if (s->kind == AW_IO_ACCEPT)
        s->client = client_of(&s->at);
}

/* Nothing is in flight any more: the effects must match the result. */
static void io_subject_check(struct subject_io *s, aw_io *op, aw_poll end, bool finished) {
    int fd = aw_conn_fd(s->conn);
    char byte = 0;
    if (end == AW_READY && reads(s->kind)) {
        CHECK_EQ(op->out, 1);
        CHECK_EQ(s->byte, 'x');
        CHECK_EQ(read(fd, &byte, 1), -1);
    } else if (reads(s->kind)) {
        CHECK_EQ(s->byte, 0);
        CHECK_EQ(read(fd, &byte, 1), finished ? 1 : -1);
    } else if (writes(s->kind)) {
        if (!finished) take_all(s->peer);
        if (end == AW_READY) CHECK_EQ(op->out, 1);
        /* The byte may have been drained together with those before it. */
        if (!finished || end != AW_READY) CHECK_EQ(take_all(s->peer), 0u);
    } else if (end == AW_READY && s->kind == AW_IO_ACCEPT) {
        CHECK_GE(op->out, 0);
        aw_future_discard(&op->future); /* closes what was accepted */
        CHECK_EQ(recv(s->client, &byte, 1, 0), 0);
    } else if (s->kind == AW_IO_ACCEPT && finished) {
        int taken = accept(fd, NULL, NULL);
        CHECK_GE(taken, 0);
        close(taken);
    } else if (end == AW_READY) {
        CHECK_EQ(op->out, 0);
    }
}

/* The operation has ended: its memory belongs to the test again. */
static void io_subject_guard(struct subject_io *s) {
    s->byte = s->lent->byte;
    guard(s->lent, sizeof *s->lent);
}

/* A late operation would use its memory now: there is a byte to read, or capacity to write. */
static void io_subject_provoke(struct subject_io *s, aw_poll end, bool finished) {
    if (!finished && !writes(s->kind)) io_subject_finish(s);
    run_a_while(s->rt);
    if (writes(s->kind)) CHECK_LE(take_all(s->peer), finished && end == AW_READY ? 1u : 0u);
    unguard(s->lent, sizeof *s->lent);
}

static void io_subject_end(struct subject_io *s) {
    free(s->lent);
    aw_close(s->conn);
    if (s->peer >= 0) close(s->peer);
    if (s->client >= 0) close(s->client);
}

/* ---- Moments --------------------------------------------------------------------------------- */

enum moment { UNSTARTED, PENDING, SUBMITTED, WOKEN, TWICE, REPOLLED, RACING, MOMENTS };

static void wait_for_wake(struct subject_io *s) {
    while (drive_wakes() == 0)
        run_a_while(s->rt);
}

static aw_poll cancel_to_end(struct subject_io *s, aw_io *op) {
    aw_poll r;
    while ((r = drive_cancel(&op->future)) == AW_PENDING)
        wait_for_wake(s);
    return r;
}

static void *finish_soon(void *arg) {
    struct subject_io *s = arg;
    uint64_t random = (uintptr_t)s ^ test_now_ns();
    jitter(&random);
    io_subject_finish(s);
    return NULL;
}

/* Returns how it ended. `finished`: it was allowed to finish. */
static aw_poll cut_operation(struct subject_io *s, aw_io *op, enum moment moment, bool *finished) {
    aw_poll r = moment == UNSTARTED ? drive_cancel(&op->future) : drive_poll(&op->future);
    if (r == AW_PENDING && moment == SUBMITTED) run_a_while(s->rt);
    if (moment == REPOLLED && r == AW_PENDING) r = drive_poll(&op->future);
    if (r == AW_PENDING && moment == WOKEN && s->kind != AW_IO_CONNECT) {
        io_subject_finish(s);
        *finished = true;
        wait_for_wake(s);
    }
    if (r == AW_PENDING && moment == TWICE) r = drive_cancel(&op->future);
    pthread_t other;
    bool races = r == AW_PENDING && moment == RACING;
    if (races) other = thread_start(finish_soon, s), *finished = true;
    if (r == AW_PENDING) r = cancel_to_end(s, op);
    io_subject_guard(s);
    if (races) thread_end(other);
    return r;
}

static void cut_at(struct subject_io *s, enum moment moment) {
    aw_io op = io_subject_operation(s);
    bool finished = false;
    aw_poll r = cut_operation(s, &op, moment, &finished);
    if (moment == UNSTARTED) CHECK_EQ(r, AW_CANCELLED);
    io_subject_check(s, &op, r, finished);
    io_subject_provoke(s, r, finished);
}

static bool is_for_pipes(uint32_t kind) {
    return kind <= AW_IO_WRITEV || kind == AW_IO_READABLE || kind == AW_IO_WRITABLE;
}

static void cut_every_operation(struct io_setup how, bool pipe) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL), *before = aw_enter(rt);
    size_t fds = 0;
    int races = stress_rounds(pipe ? 20 : 60);
    for (int round = 0; round < 2; round++)
        for (uint32_t kind = AW_IO_READ; kind <= AW_IO_SENDMSG; kind++)
            for (int moment = 0; moment < MOMENTS && (!pipe || is_for_pipes(kind)); moment++)
                for (int i = 0; i < (moment == RACING ? races : 1); i++) {
                    struct subject_io s;
                    io_subject_begin(&s, rt, kind, pipe);
                    cut_at(&s, (enum moment)moment);
                    io_subject_end(&s);
                    if (round == 0) fds = entries("/proc/self/fd");
                }
    CHECK_LE(entries("/proc/self/fd"), fds + 2 * (size_t)how.workers);
    aw_leave(before);
    workers_end(rt, &m);
}

/* cancel-at-every-await: aw_io */
ON_DRIVERS(every_operation_may_be_cancelled_at_every_moment) {
    cut_every_operation(how, false);
}
/* Reads of a pipe, too, belong to the kernel until they complete. */
ON_DRIVERS(every_operation_on_a_pipe_may_be_cancelled_at_every_moment) {
    cut_every_operation(how, true);
}
