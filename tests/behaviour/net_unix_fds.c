/* SPDX-License-Identifier: MIT
 *
 * Descriptors are received together with whatever else the kernel passes along with bytes:
 * credentials, a pidfd of the sender. */
#define _GNU_SOURCE
#include "support/net.h"

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

struct passing {
    aw_runtime *rt;
    aw_conn *ends[2];
    int fds[AW_FDS_MAX]; /* to be sent: all of the same pipe */
    int got[AW_FDS_MAX];
};

static struct passing *passing_new(struct io_setup how, int option) {
    static struct passing p;
    int on = 1, pipes[2];
    p.rt = io_runtime(how, NULL, NULL);
    CHECK_EQ(aw_unix_pair(p.ends, SOCK_STREAM), 0);
    if (setsockopt(aw_conn_fd(p.ends[1]), SOL_SOCKET, option, &on, sizeof on))
        SKIP("this system does not pass that");
    CHECK_EQ(pipe(pipes), 0);
    close(pipes[1]);
    for (int i = 0; i < AW_FDS_MAX; i++)
        p.fds[i] = pipes[0];
    return &p;
}

static void passing_end(struct passing *p) {
    close(p->fds[0]);
    aw_close(p->ends[0]);
    aw_close(p->ends[1]);
    workers_end(p->rt, NULL);
}

/* Sends `send` descriptors and receives up to `max`. Returns what aw_recv_fds returns. */
static int pass(struct passing *p, int send, int max, int *count) {
    char bytes[8];
    *count = -1;
    CHECK_EQ(aw_block_on(p->rt, aw_send_fds(p->ends[0], "abc", 3, p->fds, send)), 3);
    return aw_block_on(p->rt, aw_recv_fds(p->ends[1], bytes, sizeof bytes, p->got, max, count));
}

static void pass_all_numbers(struct passing *p) {
    static const int numbers[] = {0, 1, 2, 3, AW_FDS_MAX - 1, AW_FDS_MAX};
    size_t pairs = sizeof numbers / sizeof *numbers, before = open_fds();
    for (size_t i = 0; i < pairs * pairs; i++) {
        int send = numbers[i / pairs], max = numbers[i % pairs], count;
        bool fits = send <= max;
        CHECK_EQ(pass(p, send, max, &count), fits ? 3 : -EMSGSIZE);
        CHECK_EQ(count, fits ? send : -1);
        while (count > 0) {
            CHECK(fcntl(p->got[--count], F_GETFD) & FD_CLOEXEC);
            close(p->got[count]);
        }
        CHECK_EQ(open_fds(), before);
    }
}

/* Afterwards the driver has opened all its descriptors. */
static void warm_up(struct passing *p) {
    int count;
    for (int i = 0; i < 20; i++)
        CHECK_EQ(pass(p, 0, AW_FDS_MAX, &count), 3);
}

ON_DRIVERS(descriptors_are_received_together_with_credentials) {
    struct passing *p = passing_new(how, SO_PASSCRED);
    warm_up(p);
    pass_all_numbers(p);
    passing_end(p);
}

ON_DRIVERS(a_pidfd_of_the_sender_is_not_left_open) {
    struct passing *p = passing_new(how, SO_PASSPIDFD);
    int on = 1;
    CHECK_EQ(setsockopt(aw_conn_fd(p->ends[1]), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    warm_up(p);
    CHECK_EQ(open_of("anon_inode:[pidfd") + open_of("pidfd:"), 0u);
    pass_all_numbers(p);
    passing_end(p);
}

ON_DRIVERS(when_descriptors_do_not_fit_all_are_closed) {
    struct passing *p = passing_new(how, SO_PASSCRED);
    int count;
    warm_up(p);
    struct rlimit old = limit_descriptors(2);
    size_t before = open_of("pipe:");
    CHECK_EQ(pass(p, 3, AW_FDS_MAX, &count), -EMSGSIZE);
    CHECK_EQ(count, -1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_EQ(open_of("pipe:"), before);
    passing_end(p);
}
