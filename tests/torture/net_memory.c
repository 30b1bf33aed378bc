/* SPDX-License-Identifier: MIT
 *
 * Sockets without memory: each allocation fails in turn. Each failure is reported, and nothing
 * remains. */
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include <awake.h>

#include "io/uring.h"
#include "support/memory.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

static struct memory taken;
static int dropped; /* atomic: connections accepted ahead and dropped */

AW_ASYNC(int, accept_and_close, aw_listener *l; aw_conn * c; aw_accept_future a;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->a, aw_accept(self->l, &self->c));
        if (self->a.out < 0) break;
        aw_close(self->c);
    }
    AW_RETURN(self->a.out);
    AW_FINALLY;
    aw_listener_drop(self->l); /* even if the task never ran */
    AW_END;
}

/* Clients that connect at once, and send nothing. */
enum { CROWD = 5 };
static void connect_crowd(int *fds, const aw_addr *at) {
    for (int i = 0; i < CROWD; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(connect(fds[i], &at->u.any, at->size), 0);
    }
}

/* Uses all that allocates: a listener with a limit, or with a queue that grows, a task, a connect
 * by name, connections, a pair, a pipe. */
AW_ASYNC(int, use_all, const aw_listen_options *options; int crowd[CROWD]; aw_listener * l;
         aw_addr at; struct accept_and_close * task; aw_conn * c; aw_conn * ends[2]; char byte;
         aw_connect_host_future h; AW_TIMEOUT(aw_io) io; aw_task_join_future join;) {
    AW_BEGIN;
    self->at = aw_addr_loopback(AF_INET, 0);
    self->crowd[0] = -1;
    self->out = aw_listen(&self->l, &self->at, self->options);
    if (self->out < 0) AW_RETURN(self->out);
    CHECK_EQ(aw_listener_addr(self->l, &self->at), 0);
    aw_listener_keep(self->l);
    self->task = aw_spawn(AW_CALL(accept_and_close, .l = self->l));
    if (aw_task_is_finished(self->task)) { /* no task would close the connection */
        aw_listener_close(self->l);
        aw_task_drop(self->task);
        AW_RETURN(-ENOMEM);
    }
    AW_AWAIT(self->h, aw_connect_host(&self->c, "127.0.0.1", aw_addr_port(&self->at)));
    self->out = self->h.out;
    if (self->out == 0) {
        if (self->options->accept_ahead) connect_crowd(self->crowd, &self->at);
        /* Ends when the connection is closed; times out if it was lost. */
        AW_AWAIT_FOR(self->io, AW_SEC(2), aw_read(self->c, &self->byte, 1));
        aw_close(self->c);
        self->out = self->io.out ? self->io.out : self->io.inner.out;
    }
    if (self->out == 0) {
        self->out = aw_unix_pair(self->ends, SOCK_STREAM);
        if (self->out == 0) {
            aw_close(self->ends[0]);
            aw_close(self->ends[1]);
        }
    }
    if (self->out == 0) {
        self->out = aw_pipe(&self->ends[0], &self->ends[1]);
        if (self->out == 0) {
            aw_close(self->ends[0]);
            aw_close(self->ends[1]);
        }
    }
    aw_listener_close(self->l);
    AW_AWAIT(self->join, aw_task_join(self->task));
    CHECK(self->join.out == 0 || self->join.out == -ENOMEM);
    if (self->join.out < 0) self->out = self->join.out;
    aw_task_drop(self->task);
    AW_RETURN(self->out);
    AW_FINALLY;
    for (int i = 0; i < CROWD && self->crowd[0] >= 0; i++)
        close(self->crowd[i]);
    AW_END;
}

static void check_log(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    if (strstr(message, "accepted ahead"))
        __atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
    else
        CHECK_CONTAINS(message, "Cannot allocate memory");
}

static int run(const char *driver, uint32_t workers, const aw_listen_options *options,
               long fail_at) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    memory_init(&taken);
    taken.fail_at = fail_at;
    o.flavour = workers ? AW_MULTI_THREAD : AW_CURRENT_THREAD;
    o.workers = workers;
    o.driver = driver;
    o.allocator = &taken.allocator;
    o.log = check_log;
    int error = aw_runtime_new(&rt, &o);
    if (!error) {
        error = aw_block_on(rt, AW_CALL(use_all, .options = options));
        aw_runtime_free(rt);
    }
    memory_check_empty(&taken);
    return error;
}

static void each_allocation_fails(const char *driver, uint32_t workers,
                                  const aw_listen_options *options) {
    long failed = 0;
    int last = dup(0);
    close(last);
    CHECK_EQ(run(driver, workers, options, 0), 0);
    for (long n = 1; n == 1 || taken.failures; n++) {
        int error = run(driver, workers, options, n), next = dup(0);
        CHECK(error == 0 || error == -ENOMEM);
        CHECK_EQ(next, last); /* no descriptor leaks */
        close(next);
        failed += error == -ENOMEM;
    }
    CHECK_GT(failed, 5);
}

#define WITH_LIMIT        AW_LISTEN(.max_connections = 3)
#define WITH_ACCEPT_AHEAD AW_LISTEN(.accept_ahead = 1)

static void needs(const char *driver) {
    if (strcmp(driver, "uring") == 0 && aw__uring_works()) SKIP("no io_uring here");
}

/* On workers several threads allocate: each run may fail another allocation. */
#define SCARCE(driver, name, options)                                                              \
    TEST(name##_by_##driver) {                                                                     \
        needs(#driver);                                                                            \
        each_allocation_fails(#driver, 0, options);                                                \
    }                                                                                              \
    TEST(name##_by_##driver##_on_2_workers) {                                                      \
        needs(#driver);                                                                            \
        each_allocation_fails(#driver, 2, options);                                                \
    }
SCARCE(epoll, each_allocation_fails_once, WITH_LIMIT)
SCARCE(poll, each_allocation_fails_once, WITH_LIMIT)
SCARCE(uring, each_allocation_fails_once, WITH_LIMIT)
SCARCE(epoll, each_allocation_of_accepting_ahead_fails_once, WITH_ACCEPT_AHEAD)
SCARCE(poll, each_allocation_of_accepting_ahead_fails_once, WITH_ACCEPT_AHEAD)

TEST(each_allocation_of_accepting_ahead_fails_once_by_uring) {
    needs("uring");
    each_allocation_fails("uring", 0, WITH_ACCEPT_AHEAD);
    CHECK_GT(dropped, 0); /* the growth of the queue failed, too */
}
TEST(each_allocation_of_accepting_ahead_fails_once_by_uring_on_2_workers) {
    needs("uring");
    each_allocation_fails("uring", 2, WITH_ACCEPT_AHEAD);
}
