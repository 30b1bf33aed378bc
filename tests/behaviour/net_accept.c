/* SPDX-License-Identifier: MIT
 *
 * Accepting: a listener survives failed connections and exhausted resources, does not spin, and
 * enforces its limit. */
#define _GNU_SOURCE
#include "support/net.h"

#include <time.h>

#include "support/by_hand.h"
#include "support/faults.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

/* ---- Failures in sequence -------------------------------------------------------------------- */

/* A client that connects once all injected errors have been returned. */
struct late {
    aw_addr at;
    const struct fault *f;
    uint32_t calls; /* of the faulty call before the client connects */
    int fd;
};
static void *come_late(void *arg) {
    struct late *l = arg;
    WAIT_UNTIL(LOAD(l->f->calls) >= l->calls);
    l->fd = plain_client(&l->at);
    return NULL;
}

/* Injects all errors, then accepts one connection. Time is virtual, so the measured wait is
 * exact. With accept_ahead the client connects late: the operation is submitted only while
 * no connection is pending. */
static uint64_t accept_one_after(struct io_setup how, bool accept_ahead, const int *errors,
                                 uint32_t count, kept_log *log) {
    bool completes = strcmp(how.driver, "uring") == 0;
    enum fault_call call = completes ? F_aw__uring_push : F_accept4;
    aw_runtime *rt = io_runtime(how, NULL, log);
    NEED_FAULTS(how);
    CHECK_EQ(aw_clock_pause(rt), 0);
    struct late late = {.f = &faults[call]};
    aw_conn *c;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = accept_ahead), &late.at);
    pthread_t thread;
    uint64_t begin = aw_now(rt);
    late.calls = LOAD(late.f->calls) + count + 1;
    fault_each(call, errors, count);
    if (accept_ahead)
        thread = thread_start(come_late, &late);
    else
        late.fd = plain_client(&late.at);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    CHECK_EQ(LOAD(late.f->calls), late.calls); /* no further calls */
    uint64_t took = aw_now(rt) - begin;
    if (accept_ahead) thread_end(thread);
    close(late.fd);
    aw_close(c);
    aw_listener_close(l);
    aw_runtime_free(rt);
    return took;
}

static uint64_t accept_after(struct io_setup how, const int *errors, uint32_t count,
                             kept_log *log) {
    uint64_t took = accept_one_after(how, false, errors, count, log);
    if (strcmp(how.driver, "uring")) return took;
    *log = (kept_log)KEPT_LOG;
    CHECK_EQ(accept_one_after(how, true, errors, count, log), took);
    return took;
}

ON_DRIVERS(connections_that_failed_are_passed_over_at_once) {
    static const int errors[] = {ECONNABORTED, EPROTO,      ENOPROTOOPT, EHOSTDOWN, EHOSTUNREACH,
                                 ENETDOWN,     ENETUNREACH, ENONET,      EPERM,     ETIMEDOUT};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(how, errors, 10, &log), 0);
    CHECK_EQ(log.length, 0);
}

ON_DRIVERS(an_interrupted_accept_is_not_a_failure) {
    static const int errors[] = {EINTR, EINTR, EINTR};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(how, errors, 3, &log), 0);
    CHECK_EQ(log.length, 0);
}

ON_DRIVERS(exhausted_resources_are_retried_with_growing_pauses) {
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(how, errors, 4, &log), AW_MSEC(5 + 10 + 20 + 40));
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
}

ON_DRIVERS(a_pause_is_no_longer_than_a_second) {
    static const int errors[] = {EMFILE, EMFILE, EMFILE, EMFILE, EMFILE,
                                 EMFILE, EMFILE, EMFILE, EMFILE, EMFILE};
    kept_log log = KEPT_LOG;
    CHECK_EQ(accept_after(how, errors, 10, &log),
             AW_MSEC(5 + 10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000 + 1000));
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
}

ON_DRIVERS(an_error_that_goes_on_for_ever_does_not_spin) {
    static int errors[100];
    kept_log log = KEPT_LOG;
    for (int i = 0; i < 100; i++)
        errors[i] = ENETDOWN;
    CHECK_GT(accept_after(how, errors, 100, &log), AW_SEC(50));
    CHECK_EQ(log_count(&log, "a listener cannot accept"), 1);
}

ON_DRIVERS(other_errors_are_returned) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    NEED_FAULTS(how);
    for (uint32_t accept_ahead = 0; accept_ahead < 2; accept_ahead++) {
        aw_addr at;
        aw_conn *c;
        aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = accept_ahead), &at);
        fault_set_both(F_accept4, EFAULT, 0, 1);
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), -EFAULT);
        aw_listener_close(l);
    }
    workers_end(rt, NULL);
}

/* ---- Real exhaustion ------------------------------------------------------------------------- */

static uint64_t cpu_time(void) {
    struct timespec t;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The limit is set from the start: io_uring reads it when an operation is submitted. */
static void outlive_a_lack_of_descriptors(struct io_setup how, const aw_listen_options *options) {
    enum { FEW = 100 };
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = FEW;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    kept_log log = KEPT_LOG;
    aw_runtime *rt = io_runtime(how, NULL, &log);
    aw_addr at;
    aw_conn *c = NULL, *one = NULL;
    aw_listener *l = listen_loopback(AF_INET, options, &at);
    struct accept_one *first = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &one));
    int client = plain_client(&at), waits = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(join_status(rt, &first->future), 0); /* from now on the driver is open */
    CHECK_EQ(aw_task_take(first), 0);

    int used_up[FEW], count = 0;
    while ((used_up[count] = dup(0)) >= 0)
        count++;
    CHECK_EQ(errno, EMFILE);
    CHECK_EQ(connect(waits, &at.u.any, at.size), 0);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    while (log_count(&log, "a listener cannot accept") == 0)
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    uint64_t before = cpu_time();
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(200))), 0);
    CHECK_LT(cpu_time() - before, AW_MSEC(100));
    CHECK_EQ(aw_task_is_finished(t), false);
    while (count > 0)
        close(used_up[--count]);
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

/* The pause would be long and time is virtual, so only the close can end it. */
ON_EACH_READINESS_DRIVER(a_close_ends_the_pause_of_an_accept_without_descriptors) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_CURRENT_THREAD;
    o.driver = how.driver;
    o.paused = true;
    o.keep_tasks = true;
    o.log = keep_log;
    kept_log log = KEPT_LOG;
    o.log_data = &log;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    aw_addr at;
    aw_conn *c = NULL;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    int client = plain_client(&at);
    fault_set(F_accept4, EMFILE, 0, 3);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(5 + 10 + 1))), 0);
    CHECK_EQ(fault_count(F_accept4), 3u); /* the third pause has begun */
    uint64_t begin = aw_now(rt);
    aw_listener_close(l);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_now(rt), begin);
    CHECK_EQ(aw_task_take(t), -EBADF);
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(late, &at.u.any, at.size), -1); /* nothing listens */
    close(late);
    close(client);
    aw_runtime_free(rt);
}

ON_DRIVERS(accept_outlives_a_lack_of_descriptors_without_spinning) {
    outlive_a_lack_of_descriptors(how, NULL);
}
ON_DRIVERS(accept_ahead_outlives_a_lack_of_descriptors_without_spinning) {
    outlive_a_lack_of_descriptors(how, AW_LISTEN(.accept_ahead = 4));
}

ON_DRIVERS(a_client_that_resets_before_the_accept_is_not_asked_for_its_address) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, peer, local;
    aw_conn *c, *client;
    struct linger reset = {1, 0};
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
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

/* An unterminated path of the maximum length: the kernel reports its length as one byte more
 * than the buffer holds. */
ON_DRIVERS(a_client_with_an_unterminated_address_is_accepted) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, peer;
    aw_conn *c;
    aw_listener *l;
    char folder[] = "/tmp/awake-accept-XXXXXX", path[109] = {0};
    struct sockaddr_un from = {.sun_family = AF_UNIX};
    CHECK(mkdtemp(folder) != NULL);
    memset(path, 'x', 108);
    memcpy(path, folder, strlen(folder));
    path[strlen(folder)] = '/';
    memcpy(from.sun_path, path, 108);
    CHECK_EQ(aw_addr_of_abstract(&at, folder, strlen(folder)), 0);
    CHECK_EQ(aw_listen(&l, &at, NULL), 0);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(client, (struct sockaddr *)&from, sizeof from), 0);
    CHECK_EQ(connect(client, &at.u.any, at.size), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(folder), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &c, &peer)), 0);
    CHECK_EQ(memcmp(peer.u.local.sun_path, path, 108), 0);
    aw_close(c);
    close(client);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void close_ends_all_waiters(struct io_setup how, const aw_listen_options *options) {
    enum { TASKS = 20 };
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    uint32_t begun = 0;
    struct accept_one *tasks[TASKS];
    aw_listener *l = listen_loopback(AF_INET6, options, &at);
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
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), -EBADF); /* through the remaining reference */
    aw_listener_drop(l);
    CHECK(c == NULL);
    /* Closed now, or as soon as a worker has dropped its reference. */
    for (int n = 0, fd; n == 0; close(fd)) {
        fd = socket(AF_INET6, SOCK_STREAM, 0);
        n = connect(fd, &at.u.any, at.size);
        if (n) CHECK_EQ(errno, ECONNREFUSED);
    }
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(a_close_ends_all_waiting_accepts) {
    close_ends_all_waiters(how, NULL);
}
ON_DRIVERS(a_close_ends_all_waiting_accepts_with_accept_ahead) {
    close_ends_all_waiters(how, AW_LISTEN(.accept_ahead = 4));
}

static void unclaimed_connection_is_closed(struct io_setup how, const aw_listen_options *options) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    char byte;
    aw_listener *l = listen_loopback(AF_INET, options, &at);
    int client = plain_client(&at);
    CHECK_EQ(aw_block_on_status(rt, aw_accept(l, &c)), 0); /* the output is discarded */
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

ON_DRIVERS(an_accepted_connection_that_is_discarded_is_closed) {
    unclaimed_connection_is_closed(how, NULL);
}
ON_DRIVERS(a_connection_of_accept_ahead_that_is_discarded_is_closed) {
    unclaimed_connection_is_closed(how, AW_LISTEN(.accept_ahead = 4));
}

/* A client connects while both tasks wait, and before the first task has seen that it is
 * cancelled or closed. All within one block_on: leaving it would make both tasks submit again. */
AW_ASYNC(int, connect_and_end, struct accept_one *tasks[2]; aw_conn * *conns; aw_listener * l;
         bool by_close; const aw_addr *at; const uint32_t *begun; int *client;
         struct until_counted both; aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->both, AW_CALL(until_counted, .count = self->begun, .want = 2));
    /* Both accepts are known to the kernel by then. */
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    *self->client = plain_client(self->at);
    if (self->by_close)
        aw_listener_close(self->l);
    else
        aw_task_abort(self->tasks[0]);
    while (!aw_task_is_finished(self->tasks[0]))
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    while (!self->conns[0] && !aw_task_is_finished(self->tasks[1]))
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(0);
    AW_END;
}

static void connect_while_one_ends(struct io_setup how, bool by_close) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c[2] = {NULL, NULL};
    struct accept_one *tasks[2];
    uint32_t begun = 0;
    int client;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at), *same;
    /* As a successor process would have it. */
    CHECK_EQ(aw_listener_of_fd(&same, dup(aw_listener_fd(l)), NULL), 0);
    tasks[0] = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c[0], .begun = &begun));
    tasks[1] = aw_spawn_on(rt, AW_CALL(accept_one, .l = same, .conn = &c[1], .begun = &begun));
    aw_listener_keep(l);
    CHECK_EQ(aw_block_on(rt, AW_CALL(connect_and_end, .tasks = {tasks[0], tasks[1]}, .conns = c,
                                     .l = l, .by_close = by_close, .at = &at, .begun = &begun,
                                     .client = &client)),
             0);
    CHECK_EQ(!c[0] + !c[1], 1);
    if (!by_close) aw_listener_close(l);
    aw_listener_close(same);
    for (int i = 0; i < 2; i++) {
        int status = join_status(rt, &tasks[i]->future);
        aw_task_drop(tasks[i]);
        if (status == 0) aw_close(c[i]); /* a cancelled task has closed it already */
    }
    aw_listener_drop(l);
    close(client);
    workers_end(rt, &m);
}

ON_DRIVERS(a_cancelled_accept_leaves_the_connection_to_another) {
    connect_while_one_ends(how, false);
}
ON_DRIVERS(a_listener_that_is_closed_leaves_the_connection_to_its_successor) {
    connect_while_one_ends(how, true);
}

/* ---- A limit --------------------------------------------------------------------------------- */

/* The task is still waiting after all other tasks have run. */
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
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.max_connections = LIMIT), &at);
    for (int i = 0; i < LIMIT + 2; i++)
        clients[i] = plain_client(&at);
    for (int i = 0; i < LIMIT; i++)
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &conns[i])), 0);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &next[0]));
    check_waits(rt, t);
    aw_conn_keep(conns[0]);
    aw_conn_drop(conns[0]);
    check_waits(rt, t); /* a reference remains */
    aw_conn_drop(conns[0]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &next[1]));
    check_waits(rt, t);
    aw_conn_abort(conns[1]);
    CHECK_EQ(join_status(rt, &t->future), 0);
    CHECK_EQ(aw_task_take(t), 0);
    aw_listener_close(l); /* before its connections are closed */
    aw_close(next[0]);
    aw_close(next[1]);
    for (int i = 0; i < LIMIT + 2; i++)
        close(clients[i]);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(an_accept_that_waits_for_a_permit_ends_with_the_listener) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c, *next = NULL;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.max_connections = 1), &at);
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

/* The cancelled accept held a permit, and returns it. */
ON_DRIVERS(a_cancelled_accept_leaves_its_permit_to_the_next) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.max_connections = 1), &at);
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

/* A connection without memory is closed, and the listener goes on. */
ON_DRIVERS(a_lack_of_memory_is_outlived) {
    kept_log log = KEPT_LOG;
    memory m;
    aw_runtime *rt = io_runtime(how, &m, &log);
    aw_addr at;
    aw_conn *c = NULL;
    char byte;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &c));
    run_a_while(rt);
    STORE(m.refuse, 1);
    int lost = plain_client(&at);
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
