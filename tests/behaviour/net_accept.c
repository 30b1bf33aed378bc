/* SPDX-License-Identifier: MIT
 *
 * Accepting: it goes on whatever happens to one connection or is used up for a while, does not spin, and knows a limit. */
/* link: -Wl,--wrap=accept4 */
#include "support/net.h"

#include <sys/resource.h>
#include <time.h>

#include "support/by_hand.h"

ALL_ON_THIS_THREAD("each test says itself on what it runs");

/* ---- Failures, one after the other -------------------------------------------------------------- */

static const int *failures; /* the errors of the next calls; NULL: as it is */
static uint32_t failures_left, calls;

int __real_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags) {
    ADD(calls, 1);
    if (LOAD(failures_left)) {
        errno = failures[--failures_left];
        return -1;
    }
    return __real_accept4(fd, name, size, flags);
}

/* All of them, and then one connection. Time is virtual: how long it waited is exact. */
static uint64_t accept_after(const int *errors, uint32_t count, kept_log *log) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_CURRENT_THREAD;
    o.driver = "epoll";
    o.paused = true;
    o.log = keep_log;
    o.log_data = log;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    aw_addr at;
    aw_conn *c;
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    int client = plain_client(&at);
    uint64_t begin = aw_now(rt);
    failures = errors;
    failures_left = count;
    calls = 0;
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    CHECK_EQ(calls, count + 1); /* no more */
    uint64_t took = aw_now(rt) - begin;
    close(client);
    aw_close(c);
    aw_listener_close(l);
    aw_runtime_free(rt);
    return took;
}

TEST(connections_that_failed_are_passed_over_at_once) {
    static const int errors[] = {ECONNABORTED, EPROTO,      ENOPROTOOPT, EHOSTDOWN, EHOSTUNREACH,
                                 ENETDOWN,     ENETUNREACH, ENONET,      EPERM,     ETIMEDOUT};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(errors, 10, &log), 0);
    CHECK_EQ(log.length, 0);
}

TEST(what_is_used_up_is_waited_for_longer_and_longer) {
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(errors, 4, &log), AW_MSEC(5 + 10 + 20 + 40));
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
}

TEST(it_waits_no_longer_than_a_second) {
    static const int errors[] = {EMFILE, EMFILE, EMFILE, EMFILE, EMFILE,
                                 EMFILE, EMFILE, EMFILE, EMFILE, EMFILE};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(errors, 10, &log),
             AW_MSEC(5 + 10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000 + 1000));
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
}

TEST(an_error_that_goes_on_for_ever_does_not_spin) {
    static int errors[100];
    kept_log log = KEPT_LOG;
    for (int i = 0; i < 100; i++)
        errors[i] = ENETDOWN;
    CHECK_GT(accept_after(errors, 100, &log), AW_SEC(50));
}

TEST(other_errors_are_told) {
    static const int errors[] = {EFAULT};
    aw_runtime *rt = io_runtime((struct io_setup){"epoll", 0, false}, NULL, NULL);
    aw_addr at;
    aw_conn *c;
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    failures = errors;
    failures_left = 1;
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), -EFAULT);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- The real thing ---------------------------------------------------------------------------- */

static uint64_t cpu_time(void) {
    struct timespec t;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ON_DRIVERS(accept_outlives_a_lack_of_descriptors_without_spinning) {
    kept_log log = KEPT_LOG;
    aw_runtime *rt = io_runtime(how, NULL, &log);
    aw_addr at;
    aw_conn *c = NULL, *one = NULL;
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    struct accept_one *first = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &one));
    int client = plain_client(&at), waits = plain_client(&at);
    CHECK_EQ(join_status(rt, &first->future), 0); /* from now on the driver is there */
    CHECK_EQ(aw_task_take(first), 0);

    struct rlimit old, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    int next = dup(0);
    close(next);
    few.rlim_cur = (rlim_t)next;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    uint64_t before = cpu_time();
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(200))), 0);
    CHECK_LT(cpu_time() - before, AW_MSEC(100));
    CHECK_EQ(aw_task_is_finished(t), false);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
    aw_close(one);
    aw_close(c);
    close(client);
    close(waits);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

ON_DRIVERS(who_has_gone_before_the_accept_is_not_asked_for_an_address) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, peer, local;
    aw_conn *c, *client;
    struct linger reset = {1, 0};
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    int gone = plain_client(&at);
    CHECK_EQ(setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(gone);
    CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &c, &peer)), 0);
    CHECK_EQ(aw_conn_local(client, &local), 0);
    CHECK(aw_addr_equal(&peer, &local));
    aw_close(c);
    aw_close(client);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- Ends -------------------------------------------------------------------------------------- */

ON_DRIVERS(a_close_ends_all_who_wait_to_accept) {
    enum { TASKS = 20 };
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    uint32_t begun = 0;
    struct accept_one *tasks[TASKS];
    aw_listener *l = listen_here(AF_INET6, NULL, &at);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c, .begun = &begun));
    run_a_while(rt);
    if (how.workers) WAIT_UNTIL(LOAD(begun) == TASKS);
    aw_listener_keep(l);
    aw_listener_close(l);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), -EBADF);
    }
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), -EBADF); /* who still has it */
    aw_listener_drop(l);
    CHECK(c == NULL);
    for (int n = 0, fd; n == 0; close(fd)) { /* now it is closed, or when a worker has let go */
        fd = socket(AF_INET6, SOCK_STREAM, 0);
        n = connect(fd, &at.u.any, at.size);
        if (n) CHECK_EQ(errno, ECONNREFUSED);
    }
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(an_accepted_connection_that_nobody_takes_is_closed) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    char byte;
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    int client = plain_client(&at);
    CHECK_EQ(aw_block_on_status(rt, aw_accept(l, &c)), 0); /* its output is discarded */
    CHECK_EQ(read(client, &byte, 1), 0);
    close(client);
    client = plain_client(&at);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    aw_close(c);
    CHECK_EQ(read(client, &byte, 1), 0);
    close(client);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- A limit ----------------------------------------------------------------------------------- */

/* Whether it is still waiting after all had their turn. */
static void check_waits(aw_runtime *rt, struct accept_one *t) {
    for (int i = 0; i < 20; i++)
        run_a_while(rt);
    CHECK_EQ(aw_task_is_finished(t), false);
}

ON_DRIVERS(no_more_connections_than_allowed_are_accepted) {
    enum { LIMIT = 2 };
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[LIMIT], *next[2];
    int clients[LIMIT + 2];
    aw_listener *l = listen_here(AF_INET, AW_LISTEN(.max_connections = LIMIT), &at);
    for (int i = 0; i < LIMIT + 2; i++)
        clients[i] = plain_client(&at);
    for (int i = 0; i < LIMIT; i++)
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &conns[i])), 0);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &next[0]));
    check_waits(rt, t);
    aw_conn_keep(conns[0]);
    aw_conn_drop(conns[0]);
    check_waits(rt, t); /* somebody still has it */
    aw_conn_drop(conns[0]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &next[1]));
    check_waits(rt, t);
    aw_conn_abort(conns[1]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    aw_listener_close(l); /* before its connections */
    aw_close(next[0]);
    aw_close(next[1]);
    for (int i = 0; i < LIMIT + 2; i++)
        close(clients[i]);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(who_waits_for_room_ends_with_the_listener) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c, *next = NULL;
    aw_listener *l = listen_here(AF_INET, AW_LISTEN(.max_connections = 1), &at);
    int client = plain_client(&at);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &next));
    check_waits(rt, t);
    aw_listener_close(l);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), -EBADF);
    aw_close(c);
    close(client);
    workers_end(rt, &m);
}

/* A cancelled accept had a place, and gives it back. */
ON_DRIVERS(a_cancelled_accept_leaves_its_place_to_the_next) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    aw_listener *l = listen_here(AF_INET, AW_LISTEN(.max_connections = 1), &at);
    for (int i = 0; i < 10; i++) {
        struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
        run_a_while(rt);
        aw_task_abort(t);
        CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
        aw_task_drop(t);
    }
    int client = plain_client(&at);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    aw_close(c);
    close(client);
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* Without memory for a connection it is lost, and the listener goes on. */
TEST(a_lack_of_memory_is_outlived) {
    kept_log log = KEPT_LOG;
    memory m;
    aw_runtime *rt = io_runtime((struct io_setup){"epoll", 0, false}, &m, &log);
    aw_addr at;
    aw_conn *c = NULL;
    char byte;
    aw_listener *l = listen_here(AF_INET, NULL, &at);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    run_a_while(rt);
    int lost = plain_client(&at);
    STORE(m.refuse, 1);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    CHECK_EQ(read(lost, &byte, 1), 0);
    STORE(m.refuse, 0);
    int client = plain_client(&at);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    CHECK_EQ(log_count(&log, "Cannot allocate memory"), 1);
    aw_close(c);
    close(lost);
    close(client);
    aw_listener_close(l);
    workers_end(rt, &m);
}
