/* SPDX-License-Identifier: MIT
 *
 * accept_ahead: one multishot operation accepts connections and queues them until an accept
 * takes them. Whichever accepts are cancelled and whatever shuts down meanwhile, no connection
 * is lost, delivered twice or left open. */
#include "net/accept_ahead.h"

#include "os/lock.h"
#include "support/net.h"

#include <sys/wait.h>

#include "support/cancel_at.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

enum { LIMIT = 8, MAX_CLIENTS = 200 };

static bool completes(struct io_setup how) {
    return strcmp(how.driver, "uring") == 0;
}

static uint64_t operations(const aw_runtime *rt) {
    aw_io_counters c;
    aw_runtime_io(rt, &c);
    return c.operations;
}

/* ---- Numbered clients and their acceptors ---------------------------------------------------- */

/* All at once. Each sends its number as the first byte. */
static void clients_come(int *fds, int count, const aw_addr *at) {
    for (int i = 0; i < count; i++) {
        char number = (char)i;
        fds[i] = plain_client(at);
        CHECK_EQ(send(fds[i], &number, 1, 0), 1);
    }
}

static void clients_go(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* The number of the client at the other end. Also checks that the reverse direction works. */
static int number_of(aw_conn *c, const int *clients) {
    unsigned char number;
    char back = 0;
    struct pollfd p = {aw_conn_fd(c), POLLIN, 0};
    CHECK_EQ(poll(&p, 1, 10000), 1);
    CHECK_EQ(recv(p.fd, &number, 1, 0), 1);
    check_flags(p.fd);
    CHECK_EQ(send(p.fd, "y", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(recv(clients[number], &back, 1, 0), 1);
    CHECK_EQ(back, 'y');
    return number;
}

/* Each client is connected to exactly one of the connections. Closes all of them. */
static void check_each_once(aw_conn **conns, int *clients, int count) {
    bool seen[MAX_CLIENTS] = {false};
    for (int i = 0; i < count; i++) {
        int number = number_of(conns[i], clients);
        CHECK(!seen[number]);
        seen[number] = true;
        aw_close(conns[i]);
    }
    clients_go(clients, count);
}

AW_ASYNC(int, accept_some, aw_listener *l; aw_conn * *conns; int count, done; aw_accept_future a;) {
    AW_BEGIN;
    for (; self->done < self->count; self->done++) {
        AW_AWAIT(self->a, aw_accept(self->l, &self->conns[self->done]));
        if (self->a.out < 0) AW_RETURN(self->a.out);
    }
    AW_RETURN(0);
    AW_END;
}

/* Yields until `now` returns the wanted value. */
struct until {
    aw_future future;
    int out;
    size_t (*now)(const aw_listener *l);
    const aw_listener *l;
    size_t wanted;
};

static aw_poll until_poll(aw_future *self, aw_cx *cx) {
    const struct until *u = (const struct until *)self;
    if (u->now(u->l) == u->wanted) return AW_READY;
    aw_cx_yield(cx);
    return AW_PENDING;
}

static const aw_future_type until_type = {AW_TYPE_OF(struct until, "until"), .poll = until_poll};

static size_t queued_connections(const aw_listener *l) {
    aw__lock(&l->accept_ahead->lock);
    size_t count = l->accept_ahead->count;
    aw__unlock(&l->accept_ahead->lock);
    return count;
}
static struct until until_queued(const aw_listener *l, int count) {
    return (struct until){AW_FUTURE_INIT(&until_type), 0, queued_connections, l, (size_t)count};
}

static size_t sockets_now(const aw_listener *l) {
    (void)l;
    return open_sockets();
}
static struct until until_sockets(size_t wanted) {
    return (struct until){AW_FUTURE_INIT(&until_type), 0, sockets_now, NULL, wanted};
}

/* Submits an accept that times out, then connects `count` clients that no accept waits for.
 * Where the driver completes operations they are accepted all the same (`queued`: wait for
 * that). Then calls `then`, and accepts `count` connections if `conns` is set. */
AW_ASYNC(int, scene, aw_listener *l; const aw_addr *at; int *clients; int count; bool queued;
         void (*then)(struct scene *); aw_conn * *conns; aw_conn * conn;
         AW_TIMEOUT(aw_accept_future) a;
         AW_SHARE(struct until wait; struct rounds pause; struct accept_some rest;);) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->a, AW_USEC(1), aw_accept(self->l, &self->conn));
    CHECK_EQ(self->a.out, -ETIMEDOUT);
    clients_come(self->clients, self->count, self->at);
    if (self->queued) AW_AWAIT(self->wait, until_queued(self->l, self->count));
    if (self->then) self->then(self);
    if (self->then) AW_AWAIT(self->pause, yields(3));
    if (self->conns) {
        AW_AWAIT(self->rest,
                 AW_CALL(accept_some, .l = self->l, .conns = self->conns, .count = self->count));
        CHECK_EQ(self->rest.out, 0);
    }
    AW_RETURN(0);
    AW_END;
}

/* ---- Purpose --------------------------------------------------------------------------------- */

struct comers {
    const aw_runtime *rt;
    const aw_addr *at;
    int *clients, count;
};

static void *come_when_accepting(void *arg) {
    const struct comers *c = arg;
    WAIT_UNTIL(operations(c->rt) == 1);
    clients_come(c->clients, c->count, c->at);
    return NULL;
}

ON_URING(a_hundred_connections_are_accepted_by_one_operation) {
    enum { COUNT = 100 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    struct comers comers = {rt, &at, clients, COUNT};
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = 2 * COUNT), &at);
    pthread_t thread = thread_start(come_when_accepting, &comers);
    CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns, .count = COUNT)), 0);
    thread_end(thread);
    CHECK_EQ(operations(rt), 1);
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* `scene` itself waits until the connections are queued. */
ON_DRIVERS(connections_are_accepted_and_queued_before_an_accept_wants_them) {
    enum { COUNT = 5 };
    memory m;
    size_t before = open_fds();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    aw_listener *l = listen_loopback(AF_INET6, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                             .queued = completes(how), .conns = conns)),
             0);
    if (completes(how)) CHECK_EQ(operations(rt), 1);
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

/* All connect at once, while no task polls. */
ON_DRIVERS(no_connection_beyond_the_limit_is_lost) {
    enum { COUNT = 150 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = 1), &at);
    CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                             .conns = conns)),
             0);
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* With a full queue, or before the first accept, connections stay in the kernel's backlog. */
ON_DRIVERS(connections_in_the_backlog_stay_there_until_an_accept_wants_them) {
    enum { COUNT = 100 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    size_t before = open_sockets();
    clients_come(clients, COUNT, &at);
    CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns, .count = 1)), 0);
    run_a_while(rt);
    CHECK_LE(open_sockets() - before, COUNT + LIMIT + 2);
    CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns + 1, .count = COUNT - 1)), 0);
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_DRIVERS(accept_ahead_reports_the_address_of_the_client) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, peer, local;
    aw_conn *c, *client;
    aw_listener *l = listen_loopback(AF_INET6, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_block_on(rt, aw_connect(&client, &at)), 0);
        CHECK_EQ(aw_block_on(rt, aw_accept_from(l, &c, &peer)), 0);
        CHECK_EQ(aw_conn_local(client, &local), 0);
        CHECK(aw_addr_equal(&peer, &local));
        aw_close(c);
        aw_close(client);
    }
    aw_listener_close(l);
    workers_end(rt, NULL);
}

static void unix_listener_accepts(struct io_setup how, bool seqpacket) {
    enum { COUNT = 5 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_listener *l;
    aw_conn *client, *c;
    char name[32], bytes[8];
    int n = snprintf(name, sizeof name, "awake-ahead-%d", (int)getpid());
    CHECK_EQ(aw_addr_of_abstract(&at, name, (size_t)n), 0);
    aw_listen_options o = AW_LISTEN_OPTIONS;
    o.accept_ahead = LIMIT;
    o.seqpacket = seqpacket;
    CHECK_EQ(aw_listen(&l, &at, &o), 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_block_on(rt, seqpacket ? aw_connect_seqpacket(&client, &at)
                                           : aw_connect(&client, &at)),
                 0);
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
        CHECK_EQ(aw_block_on(rt, aw_write(client, "ab", 2)), 2);
        CHECK_EQ(aw_block_on(rt, aw_write(client, "c", 1)), 1);
        CHECK_EQ(aw_block_on(rt, aw_read(c, bytes, sizeof bytes)), seqpacket ? 2 : 3);
        aw_close(client);
        aw_close(c);
    }
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_DRIVERS(unix_listeners_accept_ahead) {
    unix_listener_accepts(how, false);
}
ON_DRIVERS(seqpacket_listeners_accept_ahead) {
    unix_listener_accepts(how, true);
}

AW_FIBER(int, accepting_fiber, aw_listener *l; aw_conn * *conns; int count;) {
    for (int i = 0; i < self->count; i++) {
        int error = aw_await(aw_accept(self->l, &self->conns[i]));
        if (error) return error;
    }
    return 0;
}

ON_DRIVERS(fibers_accept_ahead) {
    enum { FIBERS = 4, EACH = 10, COUNT = FIBERS * EACH };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    struct accepting_fiber *fibers[FIBERS];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int i = 0; i < FIBERS; i++)
        fibers[i] = aw_spawn_on(
            rt, AW_CALL(accepting_fiber, .l = l, .conns = conns + i * EACH, .count = EACH));
    run_a_while(rt);
    clients_come(clients, COUNT, &at);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(join_status(rt, &fibers[i]->future), 0);
        CHECK_EQ(aw_task_take(fibers[i]), 0);
    }
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* ---- Many acceptors -------------------------------------------------------------------------- */

ON_DRIVERS(each_connection_goes_to_exactly_one_acceptor) {
    enum { TASKS = 10, EACH = 15, COUNT = TASKS * EACH };
    memory m;
    size_t before = open_fds();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    struct accept_some *tasks[TASKS];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = aw_spawn_on(
            rt, AW_CALL(accept_some, .l = l, .conns = conns + i * EACH, .count = EACH));
    clients_come(clients, COUNT, &at);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(join_status(rt, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 0);
    }
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

static struct accept_one *accept_and_wait(aw_runtime *rt, aw_listener *l, aw_conn **c) {
    uint32_t begun = 0;
    struct accept_one *t = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = c, .begun = &begun));
    run_a_while(rt);
    if (rt->pool) WAIT_UNTIL(LOAD(begun) == 1 && workers_sleep(rt->pool));
    return t;
}

/* The first task submitted the operation, the last one is the newest waiter: whichever tasks are
 * cancelled, the remaining one is served. */
ON_DRIVERS(a_cancelled_accept_leaves_the_next_connection_to_another) {
    enum { TASKS = 3 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    for (int stays = 0; stays < TASKS; stays++) {
        aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
        aw_conn *conns[TASKS];
        struct accept_one *tasks[TASKS];
        for (int i = 0; i < TASKS; i++)
            tasks[i] = accept_and_wait(rt, l, &conns[i]);
        for (int i = 0; i < TASKS; i++) {
            if (i == stays) continue;
            aw_task_abort(tasks[i]);
            CHECK_EQ(join_status(rt, &tasks[i]->future), -ECANCELED);
            aw_task_drop(tasks[i]);
        }
        int client = plain_client(&at);
        CHECK_EQ(join_status(rt, &tasks[stays]->future), 0);
        CHECK_EQ(aw_task_take(tasks[stays]), 0);
        aw_close(conns[stays]);
        close(client);
        aw_listener_close(l);
    }
    workers_end(rt, &m);
}

/* In even rounds the tasks are cancelled before one of them has submitted the operation. */
ON_DRIVERS(when_all_accepts_were_cancelled_the_next_one_is_served) {
    enum { TASKS = 20 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c, *none = NULL;
    struct accept_one *tasks[TASKS];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < TASKS; i++)
            tasks[i] = aw_spawn_on(rt, AW_CALL(accept_one, .l = l, .conn = &none));
        if (round % 2) run_a_while(rt);
        for (int i = 0; i < TASKS; i++)
            aw_task_abort(tasks[i]);
        for (int i = 0; i < TASKS; i++) {
            CHECK_EQ(join_status(rt, &tasks[i]->future), -ECANCELED);
            aw_task_drop(tasks[i]);
        }
        int client = plain_client(&at);
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
        aw_close(c);
        close(client);
    }
    CHECK(none == NULL);
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void close_it(struct scene *s) {
    aw_listener_close(s->l);
}
static void drop_it(struct scene *s) {
    aw_listener_drop(s->l);
}

/* The connection was closed by the other end, perhaps with unread bytes. */
static void check_is_closed(int client) {
    char byte;
    ssize_t n = recv(client, &byte, 1, 0);
    if (n) CHECK_EQ(errno, ECONNRESET);
    CHECK_LE(n, 0);
    close(client);
}

static void queued_connections_are_closed(struct io_setup how, void (*end)(struct scene *)) {
    enum { COUNT = 5 };
    memory m;
    size_t before = open_fds();
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    int clients[COUNT];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                             .queued = completes(how), .then = end)),
             0);
    for (int i = 0; i < COUNT; i++)
        check_is_closed(clients[i]);
    for (int n = 0, fd; n == 0; close(fd)) { /* refused as soon as the operation has completed */
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        n = connect(fd, &at.u.any, at.size);
        if (n) CHECK_EQ(errno, ECONNREFUSED);
    }
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

ON_DRIVERS(a_close_closes_queued_connections) {
    queued_connections_are_closed(how, close_it);
}
ON_DRIVERS(dropping_the_last_reference_closes_queued_connections) {
    queued_connections_are_closed(how, drop_it);
}

ON_DRIVERS(a_listener_without_any_accept_can_be_closed) {
    aw_addr at;
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    size_t before = open_fds();
    aw_listener_close(listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at));
    aw_listener_drop(listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at));
    CHECK_EQ(open_fds(), before);
    workers_end(rt, &m);
}

/* With one waiting task, and with queued connections that no accept takes. */
ON_DRIVERS(a_listener_with_accept_ahead_outlives_its_runtime) {
    enum { COUNT = 5 };
    aw_addr at;
    aw_conn *conns[2 * COUNT], *none = NULL;
    int clients[2 * COUNT];
    size_t before = open_fds();
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int round = 0; round < 3; round++) {
        aw_runtime *rt = io_runtime(how, NULL, NULL);
        struct accept_one *t = accept_and_wait(rt, l, &none);
        aw_task_drop(t);
        workers_end(rt, NULL);
        rt = io_runtime(how, NULL, NULL);
        CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                                 .queued = completes(how))),
                 0);
        workers_end(rt, NULL);
        rt = io_runtime(how, NULL, NULL);
        clients_come(clients + COUNT, COUNT, &at);
        CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns, .count = 2 * COUNT)), 0);
        for (int i = 0; i < 2 * COUNT; i++)
            aw_close(conns[i]);
        clients_go(clients, 2 * COUNT);
        workers_end(rt, NULL);
    }
    CHECK(none == NULL);
    aw_listener_close(l);
    CHECK_EQ(open_fds(), before);
}

/* ---- Threads and runtimes -------------------------------------------------------------------- */

struct served {
    aw_runtime *rt;
    aw_listener *l;
    aw_addr at;
    int count;
};

static void *serve_some(void *arg) {
    const struct served *s = arg;
    for (int i = 0; i < s->count; i++) {
        aw_conn *c;
        CHECK_EQ(aw_block_on(s->rt, aw_accept(s->l, &c)), 0);
        aw_close(c);
    }
    return NULL;
}

ON_DRIVERS(block_on_accepts_again_and_again_from_one_thread_and_another) {
    enum { ROUNDS = 5, EACH = 3 };
    memory m;
    size_t before = open_fds();
    struct served s = {.rt = io_runtime(how, &m, NULL), .count = EACH};
    int clients[EACH];
    s.l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &s.at);
    for (int i = 0; i < ROUNDS; i++) {
        clients_come(clients, EACH, &s.at);
        serve_some(&s);
        clients_go(clients, EACH);
        clients_come(clients, EACH, &s.at);
        on_a_thread(serve_some, &s);
        clients_go(clients, EACH);
    }
    aw_listener_close(s.l);
    workers_end(s.rt, &m);
    CHECK_EQ(open_fds(), before);
}

static void two_runtimes_serve(struct io_setup one, struct io_setup other) {
    enum { EACH = 75 };
    struct served s[2] = {{.rt = io_runtime(one, NULL, NULL), .count = EACH},
                          {.rt = io_runtime(other, NULL, NULL), .count = EACH}};
    int clients[2 * EACH];
    pthread_t threads[2];
    aw_listener *l = s[0].l = s[1].l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT),
                                                       &s[0].at);
    for (int i = 0; i < 2; i++)
        threads[i] = thread_start(serve_some, &s[i]);
    clients_come(clients, 2 * EACH, &s[0].at);
    for (int i = 0; i < 2; i++)
        thread_end(threads[i]);
    clients_go(clients, 2 * EACH);
    aw_listener_close(l);
    for (int i = 0; i < 2; i++)
        workers_end(s[i].rt, NULL);
}

ON_DRIVERS(two_runtimes_accept_from_one_listener) {
    two_runtimes_serve(how, how);
}

/* The runtime that would submit the operation stops running before the kernel has seen it. */
ON_DRIVERS(a_runtime_that_is_not_run_keeps_no_connection_from_another) {
    aw_runtime *stopped = io_runtime(how, NULL, NULL), *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *c = NULL;
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    aw_accept_future a = aw_accept(l, &c);
    struct cancel_at k = cancel_at(&a.future, (struct cancel_plan){.at = 1});
    CHECK_EQ(aw_block_on_future(stopped, &k.future), 0); /* polled, and cancelled at once */
    CHECK_EQ(k.out, AW_CANCELLED);
    int client = plain_client(&at);
    CHECK_EQ(aw_block_on(rt, aw_accept(l, &c)), 0);
    aw_close(c);
    close(client);
    aw_listener_close(l);
    workers_end(stopped, NULL);
    workers_end(rt, NULL);
}

/* The tasks there have waited longest, and would be served first. */
TEST(a_waiter_in_a_runtime_that_is_not_run_keeps_no_connection_from_another_by_uring) {
    enum { TASKS = 3 };
    struct io_setup how = {"uring", 0, false};
    aw_runtime *stopped = io_runtime(how, NULL, NULL), *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *c, *conns[TASKS];
    int clients[TASKS];
    struct accept_one *tasks[TASKS];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = accept_and_wait(stopped, l, &conns[i]);
    for (int i = 0; i < TASKS; i++) {
        struct accept_one *t = accept_and_wait(rt, l, &c);
        int client = plain_client(&at);
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), 0);
        aw_close(c);
        close(client);
    }
    clients_come(clients, TASKS, &at);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(join_status(stopped, &tasks[i]->future), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 0);
    }
    check_each_once(conns, clients, TASKS);
    aw_listener_close(l);
    workers_end(stopped, NULL);
    workers_end(rt, NULL);
}

/* If AWAKE_DRIVER names a driver, there is no second one. */
static void needs_two_drivers(void) {
    if (getenv("AWAKE_DRIVER")) SKIP("needs two drivers");
}

/* One runtime has the operation but no waiter. A waiter in the other runtime is woken by its own
 * driver, or not at all. */
static void another_driver_is_served(const char *other) {
    enum { COUNT = 100 };
    needs_two_drivers();
    aw_runtime *uring = io_runtime((struct io_setup){"uring", 2, false}, NULL, NULL),
               *rt = io_runtime((struct io_setup){other, 0, false}, NULL, NULL);
    aw_addr at;
    aw_conn *c;
    int clients[COUNT];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(RUN(uring,
                 AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = 1, .queued = true)),
             0);
    for (int i = 0; i < COUNT; i++) {
        struct accept_one *t = accept_and_wait(rt, l, &c);
        if (i) clients[i] = plain_client(&at);
        sched_yield(); /* either runtime may be faster */
        CHECK_EQ(join_status(rt, &t->future), 0);
        CHECK_EQ(aw_task_take(t), 0);
        aw_close(c);
    }
    clients_go(clients, COUNT);
    clients_come(clients, 1, &at);
    CHECK_EQ(RUN(uring, AW_CALL(accept_some, .l = l, .conns = &c, .count = 1)), 0);
    check_each_once(&c, clients, 1);
    aw_listener_close(l);
    workers_end(uring, NULL);
    workers_end(rt, NULL);
}

TEST(a_waiter_by_epoll_is_served_while_another_runtime_has_the_operation) {
    another_driver_is_served("epoll");
}
TEST(a_waiter_by_poll_is_served_while_another_runtime_has_the_operation) {
    another_driver_is_served("poll");
}

#define ON_TWO_DRIVERS(one, other)                                                                 \
    TEST(runtimes_by_##one##_and_by_##other##_accept_from_one_listener) {                          \
        needs_two_drivers();                                                                       \
        two_runtimes_serve((struct io_setup){#one, 0, false},                                      \
                           (struct io_setup){#other, 0, false});                                   \
    }                                                                                              \
    TEST(runtimes_by_##one##_and_by_##other##_accept_from_one_listener_on_8_workers) {             \
        needs_two_drivers();                                                                       \
        two_runtimes_serve((struct io_setup){#one, 8, false},                                      \
                           (struct io_setup){#other, 8, false});                                   \
    }
ON_TWO_DRIVERS(uring, epoll)
ON_TWO_DRIVERS(poll, uring)

/* ---- A full queue ---------------------------------------------------------------------------- */

enum { READS = 256 /* fills the submission queue of a ring */ };

/* In one poll, `count` reads are queued that the kernel has not seen, and the listener is
 * dropped. Then the reads are cancelled. */
struct crowd {
    aw_future future;
    int out;
    int count;
    bool begun;
    aw_listener *l;
    aw_conn *conn;
    aw_io reads[READS];
    char bytes[READS];
};

static aw_poll crowd_poll(aw_future *self, aw_cx *cx) {
    struct crowd *c = (struct crowd *)self;
    int left = 0;
    for (int i = 0; i < c->count && !c->begun; i++) {
        c->reads[i] = aw_read(c->conn, &c->bytes[i], 1);
        CHECK_EQ(aw_future_poll(&c->reads[i].future, cx), AW_PENDING);
    }
    if (!c->begun) aw_listener_drop(c->l);
    c->begun = true;
    for (int i = 0; i < c->count; i++)
        if (!aw_future_ended(&c->reads[i].future))
            left += aw_future_cancel(&c->reads[i].future, cx) == AW_PENDING;
    return left ? AW_PENDING : AW_READY;
}

static const aw_future_type crowd_type = {AW_TYPE_OF(struct crowd, "crowd"), .poll = crowd_poll};

AW_ASYNC(int, drop_in_a_crowd, struct scene scene; struct crowd crowd; struct until wait;
         size_t sockets;) {
    AW_BEGIN;
    self->sockets = open_sockets();
    AW_AWAIT_FUTURE(self->scene);
    AW_AWAIT_FUTURE(self->crowd);
    AW_AWAIT(self->wait, until_sockets(self->sockets - 1)); /* the listening socket is closed */
    AW_RETURN(0);
    AW_END;
}

ON_DRIVERS(a_listener_closes_although_the_submission_queue_is_full) {
    for (int count = READS - 8; count <= READS; count++) {
        aw_runtime *rt = io_runtime(how, NULL, NULL);
        aw_addr at;
        aw_conn *ends[2];
        aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
        io_pair(ends);
        CHECK_EQ(RUN(rt, AW_CALL(drop_in_a_crowd, .scene = AW_CALL(scene, .l = l, .at = &at),
                                 .crowd = {.future = AW_FUTURE_INIT(&crowd_type),
                                           .count = count,
                                           .l = l,
                                           .conn = ends[0]})),
                 0);
        aw_close(ends[0]);
        aw_close(ends[1]);
        workers_end(rt, NULL);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static memory *scarce;

static void use_up(struct scene *s) {
    (void)s;
    STORE(scarce->refuse, 1);
}

/* More connections arrive at once than the limit allows, and the queue cannot grow. */
TEST(connections_that_there_is_no_memory_for_are_closed_and_the_listener_goes_on_by_uring) {
    enum { COUNT = 5 };
    kept_log log = KEPT_LOG;
    memory m;
    size_t before = open_fds();
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, &m, &log);
    aw_addr at;
    aw_conn *conns[2];
    int clients[COUNT + 1];
    aw_runtime *entered = aw_enter(rt); /* the listener takes its memory */
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = 1), &at);
    aw_leave(entered);
    scarce = &m;
    CHECK_EQ(aw_block_on(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                                     .then = use_up)),
             0);
    CHECK_EQ(log_count(&log, "no memory to queue it"), COUNT - 1);
    STORE(m.refuse, 0);
    clients[COUNT] = plain_client(&at);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &conns[i])), 0);
    CHECK_EQ(number_of(conns[0], clients), 0);
    for (int i = 1; i < COUNT; i++)
        check_is_closed(clients[i]);
    close(clients[0]);
    close(clients[COUNT]);
    aw_close(conns[0]);
    aw_close(conns[1]);
    aw_listener_close(l);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

/* ---- The child of a fork --------------------------------------------------------------------- */

static void check_child(pid_t child) {
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

ON_DRIVERS(a_child_that_closes_keeps_no_descriptor_and_takes_none_from_its_parent) {
    enum { COUNT = 5 };
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *conns[COUNT];
    int clients[COUNT];
    size_t before = open_sockets();
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = COUNT,
                             .queued = completes(how))),
             0);
    if (how.workers) WAIT_UNTIL(workers_sleep(rt->pool));
    pid_t child = fork();
    if (child == 0) {
        aw_listener_close(l);
        CHECK_EQ(open_sockets(), before + COUNT); /* the clients */
        _exit(0);
    }
    check_child(child);
    CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns, .count = COUNT)), 0);
    check_each_once(conns, clients, COUNT);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* The child competes with its parent, which accepts no more than its limit. */
static void accept_in_the_child(aw_listener *l, const aw_addr *at, const int *clients) {
    aw_runtime *rt = io_runtime((struct io_setup){"uring", 0, false}, NULL, NULL);
    aw_conn *c = NULL;
    int more[MAX_CLIENTS], count = 0;
    struct accept_one *t = accept_and_wait(rt, l, &c);
    while (!aw_task_is_finished(t)) {
        CHECK_LT(count, MAX_CLIENTS);
        more[count++] = plain_client(at);
        CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_MSEC(1))), 0);
    }
    CHECK_EQ(aw_task_take(t), 0);
    CHECK_EQ(send(aw_conn_fd(c), "z", 1, MSG_NOSIGNAL), 1);
    char byte;
    for (int i = 0; i < LIMIT / 2; i++) /* not one of the parent's connections */
        CHECK_EQ(recv(clients[i], &byte, 1, MSG_DONTWAIT), -1);
    aw_close(c);
    clients_go(more, count);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

ON_URING(a_child_accepts_by_itself_and_not_what_its_parent_has) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at;
    aw_conn *conns[LIMIT / 2];
    int clients[LIMIT / 2];
    aw_listener *l = listen_loopback(AF_INET, AW_LISTEN(.accept_ahead = LIMIT), &at);
    CHECK_EQ(RUN(rt, AW_CALL(scene, .l = l, .at = &at, .clients = clients, .count = LIMIT / 2,
                             .queued = completes(how))),
             0);
    if (how.workers) WAIT_UNTIL(workers_sleep(rt->pool));
    pid_t child = fork();
    if (child == 0) {
        accept_in_the_child(l, &at, clients);
        _exit(0);
    }
    check_child(child);
    CHECK_EQ(RUN(rt, AW_CALL(accept_some, .l = l, .conns = conns, .count = LIMIT / 2)), 0);
    check_each_once(conns, clients, LIMIT / 2);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

/* ---- Options --------------------------------------------------------------------------------- */

TEST(max_connections_and_accept_ahead_exclude_each_other) {
    aw_addr at = aw_addr_loopback(AF_INET, 0);
    aw_listener *l = NULL;
    size_t before = open_fds();
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.accept_ahead = 1, .max_connections = 1)), -EINVAL);
    CHECK_EQ(aw_listen_each(&l, 1, &at, AW_LISTEN(.accept_ahead = 1, .max_connections = 1)),
             -EINVAL);
    int fd = refusing_port(AF_INET, &at);
    CHECK_EQ(listen(fd, 1), 0);
    CHECK_EQ(aw_listener_of_fd(&l, fd, AW_LISTEN(.accept_ahead = 1, .max_connections = 1)),
             -EINVAL);
    close(fd);
    CHECK(l == NULL);
    CHECK_EQ(open_fds(), before);
}

TEST(accept_ahead_is_at_most_a_million) {
    aw_addr at = aw_addr_loopback(AF_INET, 0);
    aw_listener *l = NULL;
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.accept_ahead = (1 << 20) + 1)), -EINVAL);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.accept_ahead = UINT32_MAX)), -EINVAL);
    CHECK(l == NULL);
    CHECK_EQ(aw_listen(&l, &at, AW_LISTEN(.accept_ahead = 1 << 20)), 0);
    aw_listener_close(l);
}
