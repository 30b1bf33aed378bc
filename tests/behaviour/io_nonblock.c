/* SPDX-License-Identifier: MIT
 *
 * Descriptors that become connections: which ones can, and what happens to O_NONBLOCK of the
 * open file description, which may be shared. */
#define _GNU_SOURCE
#include "support/io_ends.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

ALL_ON_THIS_THREAD("each test chooses its flavour itself");

static bool blocks(int fd) {
    int flags = fcntl(fd, F_GETFL);
    CHECK_GE(flags, 0);
    return !(flags & O_NONBLOCK);
}

static aw_conn *take(int fd) {
    aw_conn *c;
    CHECK_EQ(aw_conn_of_fd(&c, fd), 0);
    return c;
}

TEST(what_cannot_be_waited_for_is_refused_and_stays_the_callers) {
    int fds[] = {memfd_create("awake", 0), open("/", O_RDONLY | O_DIRECTORY)};
    for (int i = 0; i < 2; i++) {
        aw_conn *c = NULL;
        CHECK_GE(fds[i], 0);
        CHECK_EQ(aw_conn_of_fd(&c, fds[i]), -EPERM);
        CHECK(c == NULL);
        CHECK(blocks(fds[i]));
        CHECK_EQ(fcntl(fds[i], F_GETFD), 0);
        CHECK_EQ(close(fds[i]), 0);
        CHECK_EQ(aw_conn_of_fd(&c, fds[i]), -EBADF);
    }
}

TEST(a_device_is_taken_over) {
    aw_conn *c = take(open("/dev/null", O_RDWR));
    char to;
    CHECK_EQ(aw_wait(aw_write(c, "x", 1)), 1);
    CHECK_EQ(aw_wait(aw_read(c, &to, 1)), 0);
    aw_close(c);
}

ON_DRIVERS(a_pipe_that_blocked_blocks_again_when_its_connection_is_closed) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int fds[2];
    char to;
    CHECK_EQ(pipe(fds), 0);
    int shared = dup(fds[0]);
    aw_conn *c = take(fds[0]);
    CHECK(!blocks(shared));
    struct io_task *t = io_spawn(rt, aw_read(c, &to, 1));
    io_wait_for(rt, c, 0, 1);
    aw_conn_keep(c);
    aw_close(c);
    CHECK_EQ(io_join(rt, t), -EBADF);
    CHECK(!blocks(shared)); /* there is still a reference */
    aw_conn_drop(c);
    CHECK(blocks(shared));
    close(shared);
    close(fds[1]);
    workers_end(rt, &m);
}

TEST(what_did_not_block_before_does_not_block_afterwards) {
    int fds[2];
    CHECK_EQ(pipe2(fds, O_NONBLOCK), 0);
    int shared = dup(fds[0]);
    aw_close(take(fds[0]));
    CHECK(!blocks(shared));
    close(shared);
    close(fds[1]);
}

TEST(a_file_does_not_block_as_long_as_a_connection_has_it) {
    for (int order = 0; order < 6; order++) {
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        int fds[2];
        aw_conn *c[3];
        CHECK_EQ(pipe(fds), 0);
        int shared = dup(fds[1]);
        aw_conn *reader = take(fds[0]); /* another file description of the same inode */
        for (int i = 0; i < 3; i++)
            c[i] = take(i ? dup(shared) : fds[1]);
        for (int i = 0; i < 3; i++) {
            CHECK(!blocks(shared));
            aw_close(c[orders[order][i]]);
        }
        CHECK(blocks(shared));
        CHECK(!blocks(aw_conn_fd(reader)));
        aw_close(reader);
        close(shared);
    }
}

/* Sockets are passed on to processes that do not block either. */
TEST(a_socket_stays_as_the_connection_had_it) {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    int shared = dup(fds[0]);
    aw_close(take(fds[0]));
    CHECK(!blocks(shared));
    close(shared);
    close(fds[1]);
}

TEST(the_child_of_a_fork_leaves_the_file_to_its_parent) {
    int fds[2], status;
    CHECK_EQ(pipe(fds), 0);
    int shared = dup(fds[0]);
    aw_conn *c = take(fds[0]);
    pid_t child = fork();
    if (child == 0) {
        aw_close(c);
        aw_conn *other = take(fds[1]); /* not taken over by the parent */
        aw_close(other);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(!blocks(shared));
    CHECK(blocks(fds[1]));
    aw_close(c);
    CHECK(blocks(shared));
    close(shared);
    close(fds[1]);
}

/* Two open files of one inode: the flag of one says nothing about the other. */
static void check_two_open_files(int blocking, int nonblocking) {
    for (int first = 0; first < 2; first++) {
        int shared[] = {dup(blocking), dup(nonblocking)};
        aw_conn *c[] = {take(dup(blocking)), take(dup(nonblocking))};
        aw_close(c[first]);
        aw_close(c[!first]);
        CHECK(blocks(shared[0]));
        CHECK(!blocks(shared[1]));
        close(shared[0]);
        close(shared[1]);
    }
    close(blocking);
    close(nonblocking);
}

TEST(a_flag_that_the_program_has_set_is_not_cleared_with_that_of_another_open_file) {
    char path[300];
    snprintf(path, sizeof path, "%s/awake-fifo-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(path) != NULL);
    char fifo[320];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK_EQ(mkfifo(fifo, 0600), 0);
    check_two_open_files(open(fifo, O_RDWR), open(fifo, O_RDWR | O_NONBLOCK));
    CHECK_EQ(unlink(fifo), 0);
    CHECK_EQ(rmdir(path), 0);
    check_two_open_files(eventfd(0, 0), eventfd(0, EFD_NONBLOCK));
}
