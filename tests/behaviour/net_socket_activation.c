/* SPDX-License-Identifier: MIT
 *
 * Listeners received from another process and passed on to another process, with the connections
 * in their backlog. */
#include "support/net.h"

#include <stdlib.h>
#include <sys/wait.h>

ALL_ON_THIS_THREAD("each test chooses its own runtime");

static void set_variables(const char *fds, const char *pid, const char *names) {
    char own[32];
    snprintf(own, sizeof own, "%d", (int)getpid());
    if (fds) setenv("LISTEN_FDS", fds, 1);
    if (!fds) unsetenv("LISTEN_FDS");
    if (pid) setenv("LISTEN_PID", *pid ? pid : own, 1);
    if (!pid) unsetenv("LISTEN_PID");
    if (names) setenv("LISTEN_FDNAMES", names, 1);
    if (!names) unsetenv("LISTEN_FDNAMES");
}

/* A plain socket that listens, blocks and survives exec, as a service manager would create it. */
static int plain_listener(aw_addr *at) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *at = aw_addr_loopback(AF_INET, 0);
    CHECK_EQ(bind(fd, &at->u.any, at->size), 0);
    CHECK_EQ(listen(fd, 10), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    CHECK_EQ(aw_addr_of_sockaddr(at, (struct sockaddr *)&name, size), 0);
    return fd;
}

/* Moves the listeners to descriptors 3 and up. In a child, which needs none of the descriptors
 * that had these numbers. */
static void in_a_child(void (*body)(aw_addr at[2])) {
    pid_t child = fork();
    if (child == 0) {
        aw_addr at[2];
        for (int i = 0; i < 2; i++) {
            int fd = plain_listener(&at[i]), high = fcntl(fd, F_DUPFD, 50);
            close(fd);
            CHECK_EQ(dup2(high, 3 + i), 3 + i);
            close(high);
        }
        body(at);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static struct io_setup child_setup;

static void both_are_found(aw_addr at[2]) {
    aw_runtime *rt = io_runtime(child_setup, NULL, NULL);
    aw_inherited found[3];
    set_variables("2", "", "web:admin");
    CHECK_EQ(aw_inherited_fds(NULL, 0), 2);
    CHECK_EQ(aw_inherited_fds(found, 1), 2);
    CHECK_EQ(aw_inherited_fds(found, 3), 2);
    CHECK_STR(found[0].name, "web");
    CHECK_STR(found[1].name, "admin");
    for (int i = 0; i < 2; i++) {
        aw_listener *l;
        aw_addr where;
        aw_conn *c;
        CHECK_EQ(found[i].fd, 3 + i);
        CHECK(fcntl(found[i].fd, F_GETFD) & FD_CLOEXEC);
        int client = plain_client(&at[i]);
        CHECK_EQ(aw_listener_of_fd(&l, found[i].fd, NULL), 0);
        CHECK_EQ(aw_listener_addr(l, &where), 0);
        CHECK(aw_addr_equal(&where, &at[i]));
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
        check_flags(aw_conn_fd(c));
        aw_close(c);
        close(client);
        client = plain_client(&at[i]); /* a later connection inherits the listener's options */
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
        CHECK_NE(socket_option(aw_conn_fd(c), IPPROTO_TCP, TCP_NODELAY), 0);
        aw_close(c);
        close(client);
        aw_listener_close(l);
    }
    aw_runtime_free(rt);
}
ON_DRIVERS(sockets_that_the_program_was_started_with_are_found) {
    io_needs(how.driver);
    child_setup = how;
    in_a_child(both_are_found);
}

static void names_may_be_missing(aw_addr at[2]) {
    aw_inherited found[2];
    char longest[300];
    (void)at;
    set_variables("2", "", NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 2);
    CHECK_STR(found[0].name, "unknown");
    CHECK_STR(found[1].name, "unknown");
    set_variables("2", "", ":b");
    CHECK_EQ(aw_inherited_fds(found, 2), 2);
    CHECK_STR(found[0].name, "unknown");
    CHECK_STR(found[1].name, "b");
    set_variables("2", "", "only:");
    CHECK_EQ(aw_inherited_fds(found, 2), 2);
    CHECK_STR(found[0].name, "only");
    CHECK_STR(found[1].name, "unknown");
    memset(longest, 'n', sizeof longest);
    longest[299] = 0;
    set_variables("1", "", longest);
    CHECK_EQ(aw_inherited_fds(found, 2), 1);
    CHECK_EQ(strlen(found[0].name), 255);
}
TEST(sockets_without_names_are_unknown) {
    in_a_child(names_may_be_missing);
}

static void not_for_this_process(aw_addr at[2]) {
    aw_inherited found[2];
    (void)at;
    set_variables(NULL, NULL, NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 0);
    set_variables("2", NULL, NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 0);
    set_variables(NULL, "", NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 0);
    set_variables("2", "1", NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 0);
    set_variables("0", "", NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), 0);
    CHECK_EQ(fcntl(3, F_GETFD) & FD_CLOEXEC, 0); /* untouched */
}
TEST(sockets_of_another_process_are_left_alone) {
    in_a_child(not_for_this_process);
}

static void nonsense(aw_addr at[2]) {
    static const char *const fds[] = {"x", "-1", "2x", "99999999999999999999", "4000000000", " 1"};
    aw_inherited found[2];
    (void)at;
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        set_variables(fds[i], "", NULL);
        CHECK_EQ(aw_inherited_fds(found, 2), -EINVAL);
    }
    set_variables("2", "me", NULL);
    CHECK_EQ(aw_inherited_fds(found, 2), -EINVAL);
    set_variables("40", "", NULL); /* these descriptors do not exist */
    CHECK_EQ(aw_inherited_fds(found, 2), -EINVAL);
    set_variables("2", "", NULL);
    CHECK_EQ(aw_inherited_fds(found, -1), -EINVAL);
    CHECK_EQ(aw_inherited_fds(NULL, 1), -EINVAL);
}
TEST(variables_that_make_no_sense_are_refused) {
    in_a_child(nonsense);
}

/* ---- Handing over to another process --------------------------------------------------------- */

/* Connections in the backlog of the old listener are accepted by the new one. */
ON_DRIVERS(a_listener_goes_to_another_program_over_a_unix_socket) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *ends[2], *c;
    char byte;
    int fd, count;
    aw_listener *old = listen_loopback(AF_INET6, NULL, &at), *new;
    CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
    int client = plain_client(&at);
    fd = aw_listener_fd(old);
    CHECK_EQ(aw_block_on(rt, aw_send_fds(ends[0], "l", 1, &fd, 1)), 1);
    aw_listener_close(old);
    CHECK_EQ(aw_block_on(rt, aw_recv_fds(ends[1], &byte, 1, &fd, 1, &count)), 1);
    CHECK_EQ(count, 1);
    CHECK_EQ(aw_listener_of_fd(&new, fd, AW_LISTEN(.max_connections = 5)), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept(new, &c)), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(c, "x", 1)), 1);
    CHECK_EQ(read(client, &byte, 1), 1);
    aw_close(c);
    close(client);
    aw_listener_close(new);
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, NULL);
}

TEST(a_listener_survives_an_exec_if_asked_for) {
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    char command[100];
    int fd = aw_listener_for_exec(l);
    CHECK_GE(fd, 3);
    CHECK_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    /* Another program sees this descriptor, and not the listener's own. */
    snprintf(command, sizeof command, "test -e /proc/self/fd/%d && ! test -e /proc/self/fd/%d", fd,
             aw_listener_fd(l));
    CHECK_EQ(system(command), 0);
    aw_listener_close(l);
    int client = plain_client(&at); /* the socket still listens */
    close(client);
    close(fd);
}
