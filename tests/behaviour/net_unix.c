/* SPDX-License-Identifier: MIT
 *
 * Unix sockets: streams, messages and datagrams by path and by abstract name; passing
 * descriptors; credentials of the peer; pipes. */
#define _GNU_SOURCE
#include "support/net.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

ALL_ON_THIS_THREAD("each test chooses its own runtime");

/* A path that no other process uses. */
static aw_addr path_of(const char *name) {
    static char folder[] = "/tmp/awake-unix-XXXXXX";
    static bool made;
    char path[100];
    aw_addr a;
    if (!made) CHECK(mkdtemp(folder) != NULL);
    made = true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_EQ(aw_addr_of_path(&a, path), 0);
    return a;
}

static void remove_path(const aw_addr *a) {
    char folder[sizeof a->u.local.sun_path];
    memcpy(folder, a->u.local.sun_path, sizeof folder);
    unlink(folder);
    *strrchr(folder, '/') = 0;
    rmdir(folder);
}

static aw_addr name_of(const char *name) {
    aw_addr a;
    char text[64];
    int n = snprintf(text, sizeof text, "awake-%d-%s", (int)getpid(), name);
    CHECK_EQ(aw_addr_of_abstract(&a, text, (size_t)n), 0);
    return a;
}

/* ---- Streams and messages -------------------------------------------------------------------- */

static void exchange(struct io_setup how, aw_addr at, bool messages) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_listener *l;
    aw_conn *client, *server;
    aw_addr peer, local;
    char buf[16] = "";
    int error = aw_listen(&l, &at, AW_LISTEN(.seqpacket = messages));
    CHECK_EQ(error, 0);
    check_flags(aw_listener_fd(l));
    CHECK_EQ(aw_listener_addr(l, &local), 0);
    CHECK(aw_addr_equal(&local, &at));
    CHECK_EQ(
        aw_block_on(rt, messages ? aw_connect_seqpacket(&client, &at) : aw_connect(&client, &at)),
        0);
    CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &server, &peer)), 0);
    CHECK_EQ(aw_addr_family(&peer), AF_UNIX); /* without a name */
    check_flags(aw_conn_fd(client));
    check_flags(aw_conn_fd(server));
    CHECK_EQ(aw_conn_peer(client, &peer), 0);
    CHECK(aw_addr_equal(&peer, &at));
    CHECK_EQ(aw_block_on(rt, aw_write(client, "ab", 2)), 2);
    CHECK_EQ(aw_block_on(rt, aw_write(client, "cde", 3)), 3);
    CHECK_EQ(aw_block_on(rt, aw_read(server, buf, sizeof buf)), messages ? 2 : 5);
    if (messages) CHECK_EQ(aw_block_on(rt, aw_read(server, buf, sizeof buf)), 3);
    aw_close(client);
    CHECK_EQ(aw_block_on(rt, aw_read(server, buf, sizeof buf)), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(server, "x", 1)), -EPIPE); /* without SIGPIPE */
    aw_close(server);
    aw_listener_close(l);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(streams_are_found_by_path) {
    aw_addr at = path_of("stream");
    exchange(how, at, false);
    remove_path(&at);
}
ON_DRIVERS(streams_are_found_by_name) {
    exchange(how, name_of("stream"), false);
}
ON_DRIVERS(messages_keep_their_boundaries) {
    exchange(how, name_of("messages"), true);
}

ON_DRIVERS(a_connect_waits_while_the_backlog_is_full) {
    enum { MANY = 20 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at = name_of("full");
    aw_listener *l;
    aw_conn *clients[MANY], *server;
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.backlog = 1)), 0);
    typedef struct accept_one accept_one;
    CHECK_EQ(aw_block_on(rt, aw_connect(&clients[0], &at)), 0);
    CHECK_EQ(aw_block_on(rt, aw_connect(&clients[1], &at)), 0);
    typedef AW_TIMEOUT(aw_connect_future) patient;
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(patient, AW_MSEC(10), aw_connect(&clients[2], &at))),
             -ETIMEDOUT);
    for (int i = 2; i < MANY; i++) {
        accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &server));
        CHECK_EQ(aw_block_on(rt, aw_connect(&clients[i], &at)), 0);
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), 0);
        aw_close(server);
    }
    for (int i = 0; i < MANY; i++)
        aw_close(clients[i]);
    aw_listener_close(l);
    workers_end(rt, &m);
}

TEST(a_stale_path_is_replaced_if_asked_for) {
    size_t before = open_fds();
    aw_addr at = path_of("stale");
    aw_listener *l, *other;
    CHECK_EQ(aw_listen(&l, &at, NULL), 0);
    CHECK_EQ(aw_listen(&other, &at, NULL), -EADDRINUSE);
    CHECK_EQ(aw_listen(&other, &at, AW_LISTEN(.replace_stale = true)),
             -EADDRINUSE); /* it is in use */
    CHECK_EQ(aw_unix_remove_stale(&at), -EADDRINUSE);
    aw_listener_close(l);
    CHECK_EQ(aw_listen(&l, &at, NULL), -EADDRINUSE); /* the path still exists */
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.replace_stale = true)), 0);
    aw_listener_close(l);
    CHECK_EQ(aw_unix_remove_stale(&at), 0);
    CHECK_EQ(aw_unix_remove_stale(&at), -ENOENT);
    CHECK_EQ(open_fds(), before);
    remove_path(&at);
}

TEST(what_is_not_a_socket_is_never_replaced) {
    aw_addr at = path_of("file"), name = name_of("x"), inet = aw_addr_loopback(AF_INET, 1);
    aw_listener *l;
    struct stat about;
    close(open(at.u.local.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.replace_stale = true)), -EADDRINUSE);
    CHECK_EQ(aw_unix_remove_stale(&at), -ENOTSOCK);
    CHECK_EQ(stat(at.u.local.sun_path, &about), 0);
    CHECK_EQ(aw_unix_remove_stale(&name), -EINVAL);
    CHECK_EQ(aw_unix_remove_stale(&inet), -EINVAL);
    CHECK_EQ(aw_unix_remove_stale(NULL), -EINVAL);
    remove_path(&at);
}

/* A bound datagram socket also counts as in use. */
TEST(a_path_of_a_datagram_socket_is_stale_only_without_it) {
    aw_addr at = path_of("datagram");
    aw_conn *c;
    CHECK_EQ(aw_unix_datagram(&c, &at), 0);
    CHECK_EQ(aw_unix_remove_stale(&at), -EADDRINUSE);
    aw_close(c);
    CHECK_EQ(aw_unix_remove_stale(&at), 0);
    remove_path(&at);
}

/* ---- Datagrams ------------------------------------------------------------------------------- */

ON_DRIVERS(datagrams_say_where_they_come_from) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr a_at = name_of("a"), b_at = name_of("b"), from;
    aw_conn *a, *b, *unnamed;
    char buf[8];
    bool cut;
    CHECK_EQ(aw_unix_datagram(&a, &a_at), 0);
    CHECK_EQ(aw_unix_datagram(&b, &b_at), 0);
    CHECK_EQ(aw_unix_datagram(&unnamed, NULL), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_to(a, "hello", 5, &b_at)), 5);
    CHECK_EQ(aw_block_on(rt, aw_send_to(unnamed, "a long one", 10, &b_at)), 10);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(b, buf, 8, &from, &cut)), 5);
    CHECK(aw_addr_equal(&from, &a_at) && !cut);
    CHECK_EQ(aw_block_on(rt, aw_recv_from(b, buf, 8, &from, &cut)), 8);
    CHECK(!aw_addr_equal(&from, &a_at) && cut);
    CHECK_LE(from.size, sizeof(sa_family_t)); /* unnamed */
    CHECK_EQ(aw_datagram_connect(unnamed, &a_at), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(unnamed, "x", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(a, buf, 8)), 1);
    aw_close(b);
    CHECK_EQ(aw_block_on(rt, aw_send_to(a, "y", 1, &b_at)), -ECONNREFUSED);
    aw_close(a);
    aw_close(unnamed);
    CHECK_EQ(aw_unix_datagram(NULL, NULL), -EINVAL);
    aw_addr inet = aw_addr_loopback(AF_INET, 0);
    CHECK_EQ(aw_unix_datagram(&a, &inet), -EINVAL);
    workers_end(rt, &m);
}

enum { MESSAGES = 300 };

AW_ASYNC(int, flood, aw_conn *c; aw_addr to; int i; aw_datagram d;) {
    AW_BEGIN;
    for (self->i = 0; self->i < MESSAGES; self->i++) {
        AW_AWAIT(self->d, aw_send_to(self->c, &self->i, sizeof self->i, &self->to));
        CHECK_EQ(self->d.out, sizeof self->i);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, drink, aw_conn *c; int i, value; aw_datagram d;) {
    AW_BEGIN;
    for (self->i = 0; self->i < MESSAGES; self->i++) {
        AW_AWAIT(self->d, aw_recv_from(self->c, &self->value, sizeof self->value, NULL, NULL));
        CHECK_EQ(self->d.out, sizeof self->value);
        CHECK_EQ(self->value, self->i);
    }
    AW_RETURN(0);
    AW_END;
}

/* The receiver's queue is full long before all datagrams are sent. */
ON_DRIVERS(a_send_to_a_full_queue_waits) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at = name_of("queue");
    aw_conn *in, *out;
    CHECK_EQ(aw_unix_datagram(&in, &at), 0);
    CHECK_EQ(aw_unix_datagram(&out, NULL), 0);
    struct flood *f = aw_spawn_on(rt, AW_CALL(flood, .c = out, .to = at));
    run_a_while(rt);
    CHECK_EQ(aw_task_is_finished(f), false);
    struct drink *d = aw_spawn_on(rt, AW_CALL(drink, .c = in));
    CHECK_EQ(join_status(rt, &f->future), 0);
    CHECK_EQ(join_status(rt, &d->future), 0);
    aw_task_drop(f);
    aw_task_drop(d);
    f = aw_spawn_on(rt, AW_CALL(flood, .c = out, .to = at));
    run_a_while(rt);
    aw_task_abort(f); /* while it waits */
    CHECK_EQ(join_status(rt, &f->future), -ECANCELED);
    aw_task_drop(f);
    aw_close(in);
    aw_close(out);
    workers_end(rt, &m);
}

/* ---- Pairs, credentials, pipes --------------------------------------------------------------- */

ON_DRIVERS(pairs_are_connected) {
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int i = 0; i < 3; i++) {
        aw_conn *ends[2];
        char byte = 0;
        CHECK_EQ(aw_unix_pair(ends, kinds[i]), 0);
        check_flags(aw_conn_fd(ends[0]));
        check_flags(aw_conn_fd(ends[1]));
        CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "p", 1)), 1);
        CHECK_EQ(aw_block_on(rt, aw_read(ends[1], &byte, 1)), 1);
        CHECK_EQ(byte, 'p');
        aw_close(ends[0]);
        aw_close(ends[1]);
    }
    aw_conn *ends[2];
    CHECK_EQ(aw_unix_pair(ends, SOCK_RAW), -EINVAL);
    CHECK_EQ(aw_unix_pair(NULL, SOCK_STREAM), -EINVAL);
    workers_end(rt, &m);
}

ON_DRIVERS(the_credentials_of_the_peer_are_known) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2], *tcp[2];
    aw_unix_peer peer;
    CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
    CHECK_EQ(aw_conn_credentials(ends[0], &peer), 0);
    CHECK_EQ(peer.pid, getpid());
    CHECK_EQ(peer.uid, geteuid());
    CHECK_EQ(peer.gid, getegid());
    CHECK_EQ(aw_conn_credentials(ends[0], NULL), -EINVAL);
    aw_conn *alone;
    CHECK_EQ(aw_unix_datagram(&alone, NULL), 0);
    CHECK_EQ(aw_conn_credentials(alone, &peer), -ENOTCONN);
    aw_close(alone);
    connected_pair(rt, tcp);
    CHECK_EQ(aw_conn_credentials(tcp[0], &peer), -EOPNOTSUPP);
    for (int i = 0; i < 2; i++) {
        aw_close(ends[i]);
        aw_close(tcp[i]);
    }
    workers_end(rt, NULL);
}

/* Another process connects, under another user if permitted, sends its ids, and stays until the
 * connection is closed. */
static pid_t connect_as_another(const aw_addr *at) {
    enum { NOBODY_UID = 65534, NOGROUP_GID = 65533 };
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        aw_conn *c;
        aw_unix_peer peer;
        int listens = getppid();
        bool other = setresgid(NOGROUP_GID, NOGROUP_GID, NOGROUP_GID) == 0 &&
                     setresuid(NOBODY_UID, NOBODY_UID, NOBODY_UID) == 0;
        unsigned ids[2] = {geteuid(), getegid()};
        if (other) CHECK_EQ(ids[0], NOBODY_UID);
        int fd = plain_client(at);
        CHECK_EQ(send(fd, ids, sizeof ids, 0), sizeof ids);
        CHECK_EQ(aw_conn_of_fd(&c, fd), 0);
        CHECK_EQ(aw_conn_credentials(c, &peer), 0);
        CHECK_EQ(peer.pid, listens);
        struct pollfd until = {fd, POLLIN, 0};
        CHECK_EQ(poll(&until, 1, -1), 1);
        aw_close(c);
        _exit(0);
    }
    return child;
}

ON_DRIVERS(the_credentials_of_another_process_are_known) {
    io_needs(how.driver);
    aw_addr at = name_of("credentials");
    aw_listener *l;
    aw_conn *c;
    aw_unix_peer peer;
    unsigned ids[2];
    int status;
    CHECK_EQ(aw_listen(&l, &at, NULL), 0);
    pid_t child = connect_as_another(&at);
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    CHECK_EQ(aw_block_on(rt, aw_read_exact(c, ids, sizeof ids)), sizeof ids);
    CHECK_EQ(aw_conn_credentials(c, &peer), 0);
    CHECK_EQ(peer.pid, child);
    CHECK_EQ(peer.uid, ids[0]);
    CHECK_EQ(peer.gid, ids[1]);
    aw_close(c);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

ON_DRIVERS(what_is_written_to_a_pipe_is_read_from_it) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *reader, *writer;
    char byte = 0;
    CHECK_EQ(aw_pipe(&reader, &writer), 0);
    check_flags(aw_conn_fd(reader));
    check_flags(aw_conn_fd(writer));
    CHECK_EQ(aw_block_on(rt, aw_write(writer, "q", 1)), 1);
    CHECK_EQ(aw_block_on(rt, aw_read(reader, &byte, 1)), 1);
    CHECK_EQ(byte, 'q');
    aw_close(writer);
    CHECK_EQ(aw_block_on(rt, aw_read(reader, &byte, 1)), 0);
    aw_close(reader);
    CHECK_EQ(aw_pipe(&reader, &writer), 0);
    aw_close(reader);
    CHECK_EQ(aw_block_on(rt, aw_write(writer, "q", 1)), -EPIPE);
    aw_close(writer);
    CHECK_EQ(aw_pipe(NULL, &writer), -EINVAL);
    CHECK_EQ(aw_pipe(&reader, NULL), -EINVAL);
    workers_end(rt, &m);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static void new_pipes(int pipes[][2], int count) {
    for (int i = 0; i < count; i++)
        CHECK_EQ(pipe(pipes[i]), 0);
}

ON_DRIVERS(descriptors_travel_with_bytes) {
    size_t before = open_fds();
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    static const int counts[] = {1, 2, 3, AW_FDS_MAX};
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    for (int k = 0; k < 3; k++)
        for (int n = 0; n < 4; n++) {
            aw_conn *ends[2];
            int pipes[AW_FDS_MAX][2], send[AW_FDS_MAX], got[AW_FDS_MAX], count = -1;
            char buf[8] = "";
            CHECK_EQ(aw_unix_pair(ends, kinds[k]), 0);
            new_pipes(pipes, counts[n]);
            for (int i = 0; i < counts[n]; i++)
                send[i] = pipes[i][0];
            CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "with", 4, send, counts[n])), 4);
            for (int i = 0; i < counts[n]; i++)
                close(pipes[i][0]);
            CHECK_EQ(
                aw_block_on(rt, aw_recv_fds(ends[1], buf, sizeof buf, got, AW_FDS_MAX, &count)), 4);
            CHECK_STR(buf, "with");
            CHECK_EQ(count, counts[n]);
            for (int i = 0; i < count; i++) {
                char byte = 0;
                CHECK(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
                CHECK_EQ(write(pipes[i][1], &"0123456789"[i % 10], 1), 1);
                CHECK_EQ(read(got[i], &byte, 1), 1);
                CHECK_EQ(byte, '0' + i % 10);
                close(got[i]);
                close(pipes[i][1]);
            }
            CHECK_EQ(aw_block_on(rt, aw_write(ends[0], "none", 4)), 4);
            CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], buf, sizeof buf, got, 1, &count)), 4);
            CHECK_EQ(count, 0);
            aw_close(ends[0]);
            if (kinds[k] != SOCK_DGRAM) {
                count = -1;
                CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], buf, sizeof buf, got, 1, &count)), 0);
                CHECK_EQ(count, 0);
            }
            aw_close(ends[1]);
        }
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

/* Also where the padding of the control message would fit one more. */
ON_DRIVERS(more_descriptors_than_wanted_are_closed) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    char byte;
    for (int want = 0; want < 5; want++) {
        size_t before = open_of("pipe:");
        int pipes[1][2], send[5], got[5], count = -1;
        CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
        new_pipes(pipes, 1);
        for (int i = 0; i < 5; i++)
            send[i] = pipes[0][0];
        CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, send, want + 1)), 1);
        CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &byte, 1, got, want, &count)), -EMSGSIZE);
        CHECK_EQ(count, -1);
        close(pipes[0][0]);
        close(pipes[0][1]);
        aw_close(ends[0]);
        aw_close(ends[1]);
        CHECK_EQ(open_of("pipe:"), before);
    }
    workers_end(rt, NULL);
}

ON_DRIVERS(descriptors_that_are_discarded_are_closed) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    int pipes[2][2], got[2], count;
    char byte;
    CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
    new_pipes(pipes, 2);
    int send[2] = {pipes[0][0], pipes[1][0]};
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, send, 2)), 1);
    size_t before = open_of("pipe:");
    CHECK_EQ(aw_block_on_status(rt, aw_recv_fds(ends[1], &byte, 1, got, 2, &count)), 0);
    CHECK_EQ(open_of("pipe:"), before);
    CHECK_EQ(fcntl(got[0], F_GETFD), -1);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
        aw_close(ends[i]);
    }
    workers_end(rt, NULL);
}

ON_DRIVERS(what_cannot_be_sent_is_refused) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_conn *ends[2];
    int fds[AW_FDS_MAX + 1] = {0}, bad = 9999, count;
    char byte;
    CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 0, fds, 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, fds, AW_FDS_MAX + 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, fds, -1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, NULL, 1)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "x", 1, &bad, 1)), -EBADF);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &byte, 1, fds, AW_FDS_MAX + 1, &count)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &byte, 1, NULL, 1, &count)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &byte, 1, fds, 1, NULL)), -EINVAL);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}
