/* SPDX-License-Identifier: MIT
 *
 * Creating listeners: their options hold for each of them, and a failed creation leaves nothing
 * behind. */
#include "support/net.h"

#include <stdlib.h>

ALL_ON_THIS_THREAD("nothing here runs tasks");

/* ---- Options --------------------------------------------------------------------------------- */

/* Whether connections of the listener use Nagle's algorithm. */
static bool uses_nagle(aw_listener *l) {
    aw_addr at;
    CHECK_EQ(aw_listener_addr(l, &at), 0);
    int client = plain_client(&at);
    struct pollfd comes = {aw_listener_fd(l), POLLIN, 0};
    CHECK_EQ(poll(&comes, 1, 10000), 1);
    int fd = accept(comes.fd, NULL, NULL);
    bool delay = !socket_option(fd, IPPROTO_TCP, TCP_NODELAY);
    close(fd);
    close(client);
    return delay;
}

TEST(connections_of_an_adopted_socket_follow_the_nagle_option) {
    for (int i = 0; i < 4; i++) {
        bool before = i & 1, wanted = i & 2;
        aw_listener *l, *taken;
        aw_addr at;
        l = listen_loopback(AF_INET, AW_LISTEN(.nagle = before), &at);
        CHECK_EQ(uses_nagle(l), before);
        int fd = dup(aw_listener_fd(l));
        aw_listener_close(l);
        int error = aw_listener_of_fd(&taken, fd, AW_LISTEN(.nagle = wanted));
        CHECK_EQ(error, 0);
        CHECK_EQ(uses_nagle(taken), wanted);
        aw_listener_close(taken);
    }
}

/* The options of a program that was built when there were fewer of them. */
TEST(several_listeners_share_a_port_with_few_options) {
    aw_listen_options few = {.self_size = sizeof few.self_size};
    aw_addr any_port = aw_addr_loopback(AF_INET, 0), at[2];
    aw_listener *ls[2];
    CHECK_EQ(aw_listen_each(ls, 2, &any_port, &few), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_listener_addr(ls[i], &at[i]), 0);
    CHECK(aw_addr_equal(&at[0], &at[1]));
    for (int i = 0; i < 2; i++)
        aw_listener_close(ls[i]);
}

/* ---- Without memory -------------------------------------------------------------------------- */

static int allocations_left;

static void *alloc_few(void *data, size_t size) {
    (void)data;
    return allocations_left-- > 0 ? malloc(size) : NULL;
}
static void release(void *data, void *at, size_t size) {
    (void)data;
    (void)size;
    free(at);
}
static const aw_allocator few = {alloc_few, release, NULL};

static int listen_at_path(const aw_addr *at, aw_listener **l, aw_conn **c) {
    (void)c;
    return aw_listen(l, at, AW_LISTEN(.max_connections = 3));
}
static int bind_to_path(const aw_addr *at, aw_listener **l, aw_conn **c) {
    (void)l;
    return aw_unix_datagram(c, at);
}

/* Allows one more allocation each time, until creation succeeds. It would fail with EADDRINUSE
 * if an earlier attempt had left the path behind. */
static void make_with_little_memory(int (*make)(const aw_addr *, aw_listener **, aw_conn **)) {
    char folder[] = "/tmp/awake-listen-XXXXXX", path[64];
    size_t before = open_fds();
    aw_listener *l = NULL;
    aw_conn *c = NULL;
    aw_addr at;
    int error = -ENOMEM;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/socket", folder);
    CHECK_EQ(aw_addr_of_path(&at, path), 0);
    for (int n = 0; error; n++) {
        aw_set_allocator(&few);
        allocations_left = n;
        error = make(&at, &l, &c);
        aw_set_allocator(NULL);
        if (!error) CHECK_GT(n, 0);
        if (!error) break;
        CHECK_EQ(error, -ENOMEM);
        CHECK(!l && !c);
        CHECK_EQ(access(path, F_OK), -1);
        CHECK_EQ(open_fds(), before);
    }
    aw_listener_close(l);
    aw_close(c);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(folder), 0);
}

TEST(a_listener_without_memory_leaves_no_path) {
    make_with_little_memory(listen_at_path);
}
TEST(a_datagram_socket_without_memory_leaves_no_path) {
    make_with_little_memory(bind_to_path);
}

/* ---- Null listeners -------------------------------------------------------------------------- */

TEST(a_null_listener_behaves_as_a_closed_one) {
    aw_addr at;
    CHECK_EQ(aw_listener_fd(NULL), -EBADF);
    CHECK_EQ(aw_listener_addr(NULL, &at), -EBADF);
    CHECK_EQ(aw_listener_for_exec(NULL), -EBADF);
    aw_listener_keep(NULL);
    aw_listener_drop(NULL);
    aw_listener_close(NULL);
}
