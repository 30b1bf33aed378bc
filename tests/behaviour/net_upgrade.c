/* SPDX-License-Identifier: MIT
 *
 * A program starts its successor, which takes over the listener, while clients keep connecting:
 * no client is refused, and none is cut off. */
#define _GNU_SOURCE
#include "support/net.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

ALL_ON_THIS_THREAD("each test chooses its own runtime");

enum { CLIENTS = 3, SOME = 30, ROUNDS = 4 };

/* ---- Clients --------------------------------------------------------------------------------- */

/* What the clients have seen, in shared memory. Atomic. */
struct seen {
    uint32_t by_old, by_new, stop;
};

static void ask_once(const aw_addr *at, struct seen *seen) {
    char answer = 0;
    int fd = plain_client(at);
    CHECK_EQ(send(fd, "?", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(recv(fd, &answer, 1, 0), 1);
    close(fd);
    CHECK(answer == 'o' || answer == 'n');
    ADD(*(answer == 'o' ? &seen->by_old : &seen->by_new), 1);
}

/* A child that does not outlive this process. Returns 0 in the child. */
static pid_t fork_mortal(void) {
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static pid_t start_client(const aw_listener *l, const aw_addr *at, struct seen *seen) {
    pid_t client = fork_mortal();
    if (client == 0) {
        close(aw_listener_fd(l)); /* or this process would hold the listener open too */
        while (!LOAD(seen->stop))
            ask_once(at, seen);
        _exit(0);
    }
    return client;
}

static void must_have_ended_well(pid_t process) {
    int status;
    CHECK_EQ(waitpid(process, &status, 0), process);
    CHECK_EQ(status, 0);
}

/* ---- The server, old or new ------------------------------------------------------------------ */

AW_ASYNC(int, reply, aw_conn *conn; char name; uint32_t * ended; char byte; aw_io io;) {
    AW_BEGIN;
    AW_AWAIT(self->io, aw_read(self->conn, &self->byte, 1));
    CHECK_EQ(self->io.out, 1);
    AW_AWAIT(self->io, aw_write(self->conn, &self->name, 1));
    CHECK_EQ(self->io.out, 1);
    aw_close(self->conn);
    ADD(*self->ended, 1);
    AW_RETURN(0);
    AW_END;
}

/* With its own reference. Returns how many connections it had accepted when the listener was
 * closed. */
AW_ASYNC(int, serve, aw_listener *l; char name; uint32_t * ended; int accepted; aw_conn * conn;
         aw_accept_future accept;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->accept, aw_accept(self->l, &self->conn));
        if (self->accept.out < 0) break;
        self->accepted++;
        aw_task_drop(
            aw_spawn(AW_CALL(reply, .conn = self->conn, .name = self->name, .ended = self->ended)));
    }
    CHECK_EQ(self->accept.out, -EBADF);
    aw_listener_drop(self->l);
    AW_RETURN(self->accepted);
    AW_END;
}

/* The successor runs this until it is killed. */
static void be_the_successor(struct io_setup how) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_inherited found;
    aw_listener *l;
    uint32_t ended = 0;
    CHECK_EQ(aw_inherited_fds(&found, 1), 1);
    CHECK_EQ(aw_listener_of_fd(&l, found.fd, NULL), 0);
    aw_block_on(rt, AW_CALL(serve, .l = l, .name = 'n', .ended = &ended));
    FAIL("it should have served for ever");
}

/* This program once more, with the same test to run. */
static pid_t start_the_successor(aw_listener *l) {
    static char program[] = "net_upgrade", name[256], fds[] = "LISTEN_FDS=1", pid[40];
    static char without[] = "AWAKE_TEST_NO_URING=1";
    char *argv[] = {program, name, NULL}, *env[] = {fds, pid, NULL, NULL};
    if (getenv("AWAKE_TEST_NO_URING")) env[2] = without;
    snprintf(name, sizeof name, "%s", test_name());
    int fd = aw_listener_for_exec(l);
    CHECK_GE(fd, 3);
    pid_t child = fork_mortal();
    if (child == 0) {
        snprintf(pid, sizeof pid, "LISTEN_PID=%d", (int)getpid());
        if (fd != 3 && (dup2(fd, 3) != 3 || close(fd))) _exit(1);
        execve("/proc/self/exe", argv, env);
        _exit(1);
    }
    close(fd);
    return child;
}

static void upgrade(struct io_setup how, struct seen *seen) {
    memory m;
    aw_addr at;
    uint32_t ended = 0;
    pid_t clients[CLIENTS];
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    *seen = (struct seen){0, 0, 0};
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = start_client(l, &at, seen);
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_listener_keep(l);
    struct serve *s = aw_spawn_on(rt, AW_CALL(serve, .l = l, .name = 'o', .ended = &ended));
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_counted, .count = &seen->by_old, .want = SOME)), 0);
    pid_t successor = start_the_successor(l);
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_counted, .count = &seen->by_new, .want = SOME)), 0);
    aw_listener_close(l); /* while its accept waits */
    CHECK_EQ(join_status(rt, &s->future), 0);
    uint32_t accepted = (uint32_t)aw_task_take(s);
    CHECK_EQ(aw_block_on(rt, AW_CALL(until_counted, .count = &ended, .want = accepted)), 0);
    workers_end(rt, &m);
    uint32_t before = LOAD(seen->by_new);
    WAIT_UNTIL(LOAD(seen->by_new) >= before + SOME);
    STORE(seen->stop, 1);
    for (int i = 0; i < CLIENTS; i++)
        must_have_ended_well(clients[i]);
    CHECK_EQ(LOAD(seen->by_old), accepted);
    int status;
    CHECK_EQ(kill(successor, SIGTERM), 0);
    CHECK_EQ(waitpid(successor, &status, 0), successor);
    CHECK_EQ(status, SIGTERM); /* not earlier, on its own */
}

ON_DRIVERS(no_client_is_refused_or_cut_off_when_a_new_program_takes_over) {
    io_needs(how.driver);
    if (getenv("LISTEN_FDS")) be_the_successor(how);
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0);
    CHECK(seen != MAP_FAILED);
    for (int i = 0; i < ROUNDS; i++)
        upgrade(how, seen);
    munmap(seen, sizeof *seen);
}
