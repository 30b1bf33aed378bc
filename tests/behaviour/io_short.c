/* SPDX-License-Identifier: MIT
 *
 * Short reads: the remaining bytes are found, whether or not another event reports them. */
#include "support/io_ends.h"

AW_ASYNC(int, read_all, aw_conn *conn; char *to; size_t size; int got; aw_io io;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->io,
                 aw_read(self->conn, self->to + self->got, self->size - (size_t)self->got));
        if (self->io.out <= 0) break;
        self->got += self->io.out;
    }
    AW_RETURN(self->io.out < 0 ? self->io.out : self->got);
    AW_END;
}

/* One event reports both, and no other follows. */
ON_DRIVERS(the_end_that_comes_with_the_last_bytes_is_seen) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 20; i++) {
        int fds[2];
        char to[100];
        aw_conn *c;
        tcp_pair_fds(fds);
        CHECK_EQ(aw_conn_of_fd(&c, fds[1]), 0);
        struct read_all *t = aw_spawn_on(rt,
                                         AW_CALL(read_all, .conn = c, .to = to, .size = sizeof to));
        io_wait_for(rt, c, 0, 1);
        CHECK_EQ(write(fds[0], "last", 4), 4);
        if (i % 2) io_wait_for(rt, c, 0, 1);
        close(fds[0]);
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), 4);
        aw_close(c);
    }
    workers_end(rt, &m);
}

/* A read stops in front of an urgent byte, though there is more behind it. */
ON_DRIVERS(what_is_behind_an_urgent_byte_is_read) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[2];
    char to[100];
    aw_conn *c;
    tcp_pair_fds(fds);
    CHECK_EQ(aw_conn_of_fd(&c, fds[1]), 0);
    struct read_all *t = aw_spawn_on(rt, AW_CALL(read_all, .conn = c, .to = to, .size = sizeof to));
    io_wait_for(rt, c, 0, 1);
    CHECK_EQ(write(fds[0], "before", 6), 6);
    CHECK_EQ(send(fds[0], "!", 1, MSG_OOB), 1);
    CHECK_EQ(write(fds[0], "behind", 6), 6);
    io_wait_for(rt, c, 0, 1);
    close(fds[0]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 12);
    CHECK_EQ(memcmp(to, "beforebehind", 12), 0);
    aw_close(c);
    workers_end(rt, &m);
}

static void pass(int to, const char *text, size_t size, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)(uintptr_t)text, size};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        head.msg_control = control;
        head.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&head);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    CHECK_EQ(sendmsg(to, &head, 0), (ssize_t)size);
}

/* On a Unix socket a read stops where descriptors are passed. */
ON_DRIVERS(what_is_behind_a_passed_descriptor_is_read) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *ends[2];
    char to[100];
    io_pair(ends);
    struct read_all *t = aw_spawn_on(
        rt, AW_CALL(read_all, .conn = ends[1], .to = to, .size = sizeof to));
    io_wait_for(rt, ends[1], 0, 1);
    pass(aw_conn_fd(ends[0]), "one", 3, -1);
    pass(aw_conn_fd(ends[0]), "two", 3, 1);
    pass(aw_conn_fd(ends[0]), "three", 5, -1);
    aw_close(ends[0]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 11);
    CHECK_EQ(memcmp(to, "onetwothree", 11), 0);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

/* As in the kernel, with every driver: nothing is waited for, and nothing is consumed. */
ON_DRIVERS(an_operation_of_no_bytes_does_not_wait) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[4];
    char to;
    struct iovec none = {&to, 0};
    tcp_pair_fds(fds);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds + 2), 0);
    for (int i = 0; i < 4; i += 2) {
        aw_conn *c;
        CHECK_EQ(aw_conn_of_fd(&c, fds[i]), 0);
        CHECK_EQ(aw_block_on(rt, aw_read(c, &to, 0)), 0);
        CHECK_EQ(aw_block_on(rt, aw_readv(c, &none, 1)), 0);
        CHECK_EQ(aw_block_on(rt, aw_readv(c, NULL, 0)), 0);
        CHECK_EQ(write(fds[i + 1], "x", 1), 1);
        CHECK_EQ(aw_block_on(rt, aw_read(c, &to, 0)), 0);
        CHECK_EQ(aw_block_on(rt, aw_read(c, &to, 1)), 1);
        CHECK_EQ(aw_block_on(rt, aw_write(c, &to, 0)), 0);
        aw_close(c);
        close(fds[i + 1]);
    }
    workers_end(rt, &m);
}

ON_DRIVERS(more_parts_than_the_kernel_takes_are_refused) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    static struct iovec parts[1025];
    aw_conn *ends[2];
    int fds[2];
    char byte = 'x';
    io_pair(ends);
    for (int i = 0; i < 1025; i++)
        parts[i] = (struct iovec){&byte, 1};
    CHECK_EQ(aw_block_on(rt, aw_writev(ends[0], parts, 1025)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_writev(ends[0], parts, -1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_writev(ends[0], parts, 1024)), 1024);
    CHECK_EQ(aw_block_on(rt, aw_readv(ends[1], parts, 1025)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_readv(ends[1], parts, -1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_readv(ends[1], parts, 1024)), 1024);
    aw_close(ends[0]);
    aw_close(ends[1]);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(aw_conn_of_fd(&ends[1], fds[1]), 0);
    CHECK_EQ(aw_block_on(rt, aw_writev(ends[1], parts, 1025)), -EINVAL);
    aw_close(ends[1]);
    close(fds[0]);
    workers_end(rt, &m);
}
