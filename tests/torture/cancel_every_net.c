/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: sockets. Each future runs against another end that acts a little later. It
 * is cancelled after each of its polls, at once or when it has been woken, and again; on each
 * driver, on this thread and on workers. Whether it was cut or finished, taken or discarded: no
 * socket, pipe or memory remains. */
#include "support/net.h"

#include <limits.h>

#include "support/cancel_at.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

struct subject {
    void (*begin)(void);
    aw_future *(*make)(void);
    void (*act)(void);         /* by the other end */
    void (*take)(aw_future *); /* of a finished future; NULL: nothing to release */
    void (*end)(void);
    /* The last poll after which it is cut, if it never finishes by itself. 0: it does. */
    int polls;
    bool waits; /* pending at least once */
    /* Woken by another thread: run on workers only. */
    bool threads;
};

AW_ASYNC(int, other_end, void (*act)(void); struct rounds wait;) {
    AW_BEGIN;
    AW_AWAIT(self->wait, yields(3));
    if (self->act) self->act();
    AW_RETURN(0);
    AW_END;
}

/* True: the cut was reached. */
static bool cut_net_once(const struct subject *s, struct io_setup how, struct cancel_plan plan,
                         bool discard) {
    size_t sockets = open_of("socket:"), pipes = open_of("pipe:");
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    s->begin();
    struct other_end *other = aw_spawn_on(rt, AW_CALL(other_end, .act = s->act));
    aw_future *f = s->make();
    struct cancel_at k = cancel_at(f, plan);
    CHECK_EQ(aw_block_on_future(rt, &k.future), 0);
    CHECK(k.out == AW_READY || k.cancelling);
    if (k.out == AW_READY && discard)
        aw_future_discard(f);
    else if (k.out == AW_READY && s->take)
        s->take(f);
    CHECK_EQ(join_status(rt, &other->future), 0);
    aw_task_drop(other);
    if (s->end) s->end();
    WAIT_UNTIL(open_of("socket:") == sockets); /* a worker may be about to close one */
    aw_runtime_free(rt);
    CHECK_EQ(open_of("pipe:"), pipes);  /* some drivers use pipes */
    WAIT_UNTIL(memory_in_use(&m) == 0); /* a cancelled lookup may still run */
    return k.cancelling;
}

static void cut_net_on(const struct subject *s, struct io_setup how) {
    int runs = 0;
    for (int again = 0; again < 3; again++)
        for (int woken = 0; woken < 2; woken++) {
            struct cancel_plan plan = {woken, woken, again};
            int polls = s->polls ? s->polls + 1 - woken : INT_MAX;
            for (; plan.at < polls && plan.at < 12 && cut_net_once(s, how, plan, runs % 2);
                 plan.at++)
                runs++;
        }
    /* With workers, the other end may be faster. */
    CHECK_GE(runs, s->waits && !how.workers ? 9 : 3);
}

/* All drivers, or the one that AWAKE_DRIVER names. */
static bool is_driver_enabled(const char *driver) {
    const char *only = getenv("AWAKE_DRIVER");
    if (only && strcmp(only, driver) != 0) return false;
    return strcmp(driver, "uring") != 0 || aw__uring_works() == 0;
}

static void cut_net(const struct subject *s) {
    static const struct io_setup setups[] = {{"epoll", 0, false}, {"poll", 0, false},
                                             {"uring", 0, false}, {"epoll", 2, false},
                                             {"poll", 2, false},  {"uring", 2, false}};
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
        if (is_driver_enabled(setups[i].driver) && (setups[i].workers || !s->threads))
            cut_net_on(s, setups[i]);
}

/* ---- Accept ---------------------------------------------------------------------------------- */

static aw_listener *listener;
static aw_addr at;
static aw_conn *conn, *first;
static int client, early;
static aw_accept_future accepting;

static void begin_with(const aw_listen_options *o) {
    listener = listen_loopback(AF_INET, o, &at);
    client = early = -1;
    conn = first = NULL;
}
static void begin_accept(void) {
    begin_with(NULL);
}
static aw_future *make_accept(void) {
    static aw_addr peer;
    accepting = aw_accept_from(listener, &conn, &peer);
    return &accepting.future;
}
static void connect_client(void) {
    client = plain_client(&at);
}
static void take_accept(aw_future *f) {
    (void)f;
    CHECK_EQ(accepting.out, 0);
    aw_close(conn);
}
static void end_accept(void) {
    aw_listener_close(listener);
    close(client);
    if (early >= 0) close(early);
}
/* cancel-at-every-await: aw_accept */
TEST_LIMIT(accept_is_cut, 60) {
    cut_net(&(struct subject){begin_accept, make_accept, connect_client, take_accept, end_accept,
                              .waits = true});
}

/* Where the driver supports it, by a multishot accept, which goes on without the future. */
static void begin_accept_ahead(void) {
    begin_with(AW_LISTEN(.accept_ahead = 4));
}
TEST_LIMIT(accept_ahead_is_cut, 60) {
    cut_net(&(struct subject){begin_accept_ahead, make_accept, connect_client, take_accept,
                              end_accept, .waits = true});
}

/* Waits first for a permit, then for a client. */
static void begin_limited(void) {
    listener = listen_loopback(AF_INET, AW_LISTEN(.max_connections = 1), &at);
    client = -1;
    early = plain_client(&at);
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.flavour = AW_CURRENT_THREAD;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, aw_accept(listener, &first)), 0);
    aw_runtime_free(rt);
}
static void close_and_connect(void) {
    aw_close(first);
    client = plain_client(&at);
}
TEST_LIMIT(accept_with_a_limit_is_cut, 60) {
    cut_net(&(struct subject){begin_limited, make_accept, close_and_connect, take_accept,
                              end_accept, .waits = true});
}

/* ---- Connect --------------------------------------------------------------------------------- */

static black_hole hole;
static aw_connect_future connecting;
static aw_connect_any_future racing;
static aw_connect_host_future finding;
static aw_addr several[4];
static int refuses;

static void begin_hole(void) {
    black_hole_open(&hole, "127.0.0.1:0");
    conn = NULL;
}
static aw_future *make_connect_to_hole(void) {
    connecting = aw_connect(&conn, &hole.at);
    return &connecting.future;
}
static void end_hole(void) {
    black_hole_close(&hole);
}
/* cancel-at-every-await: aw_connect */
TEST_LIMIT(connect_is_cut_while_the_peer_does_not_answer, 60) {
    cut_net(&(struct subject){begin_hole, make_connect_to_hole, NULL, NULL, end_hole, .polls = 1});
}

static aw_future *make_connect(void) {
    connecting = aw_connect(&conn, &at);
    return &connecting.future;
}
static void take_connect(aw_future *f) {
    (void)f;
    aw_close(conn);
}
static void do_nothing(void) {}
static void end_listener(void) {
    aw_listener_close(listener);
}
TEST_LIMIT(connect_is_cut_or_connects, 60) {
    cut_net(&(struct subject){begin_accept, make_connect, do_nothing, take_connect, end_listener,
                              .waits = false});
}

/* A Unix listener with a full backlog: connect sleeps, and tries again. */
static void begin_full(void) {
    char name[32];
    int n = snprintf(name, sizeof name, "awake-cut-%d", (int)getpid());
    CHECK_EQ(aw_addr_of_abstract(&at, name, (size_t)n), 0);
    CHECK_EQ(aw_listen(&listener, &at, AW_LISTEN(.backlog = 1)), 0);
    client = plain_client(&at);
    early = plain_client(&at);
    conn = NULL;
}
static void accept_one(void) {
    int fd;
    WAIT_UNTIL((fd = accept(aw_listener_fd(listener), NULL, NULL)) >= 0);
    close(fd);
}
TEST_LIMIT(connect_to_a_full_listener_is_cut, 60) {
    cut_net(&(struct subject){begin_full, make_connect, accept_one, take_connect, end_accept,
                              .waits = true});
}

static void begin_race(void) {
    begin_hole();
    listener = listen_loopback(AF_INET6, NULL, &at);
    refuses = refusing_port(AF_INET, &several[1]);
    several[0] = several[2] = hole.at;
    several[3] = at;
}
static aw_future *make_race(void) {
    racing = aw_connect_any(&conn, several, 4);
    racing.stagger = AW_MSEC(1);
    return &racing.future;
}
static void take_race(aw_future *f) {
    (void)f;
    CHECK_EQ(racing.out, 0);
    aw_close(conn);
}
static void end_race(void) {
    close(refuses);
    aw_listener_close(listener);
    black_hole_close(&hole);
}
/* cancel-at-every-await: aw_connect_any */
TEST_LIMIT(a_race_of_connects_is_cut, 100) {
    cut_net(
        &(struct subject){begin_race, make_race, do_nothing, take_race, end_race, .waits = true});
}

static aw_future *make_host(void) {
    finding = aw_connect_host(&conn, "localhost", aw_addr_port(&at));
    return &finding.future;
}
static void take_host(aw_future *f) {
    (void)f;
    CHECK_EQ(finding.out, 0);
    aw_close(conn);
}
/* cancel-at-every-await: aw_connect_host */
TEST_LIMIT(connecting_to_a_name_is_cut, 60) {
    cut_net(&(struct subject){begin_accept, make_host, do_nothing, take_host, end_listener,
                              .waits = true, .threads = true});
}

static aw_resolve_future resolving;
static aw_future *make_resolve(void) {
    resolving = aw_resolve(several, 4, "localhost", 1);
    return &resolving.future;
}
static void take_resolve(aw_future *f) {
    (void)f;
    CHECK_GT(resolving.out, 0);
}
/* cancel-at-every-await: aw_resolve */
TEST_LIMIT(resolving_is_cut, 60) {
    cut_net(&(struct subject){do_nothing, make_resolve, do_nothing, take_resolve, do_nothing,
                              .waits = true, .threads = true});
}

/* ---- Datagrams ------------------------------------------------------------------------------- */

static aw_conn *ends[2];
static aw_datagram datagram;
static aw_addr from;
static char bytes[16];

static void begin_datagrams(void) {
    aw_addr loopback = aw_addr_loopback(AF_INET6, 0);
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ(aw_udp_bind(&ends[1], &loopback, NULL), 0);
    CHECK_EQ(aw_conn_local(ends[1], &at), 0);
    CHECK_EQ(aw_udp_connect(&ends[0], &at), 0);
}
static aw_future *make_recv_from(void) {
    datagram = aw_recv_from(ends[1], bytes, sizeof bytes, &from, NULL);
    return &datagram.future;
}
static void send_one(void) {
    CHECK_EQ(send(aw_conn_fd(ends[0]), "hello", 5, 0), 5);
}
static void take_recv_from(aw_future *f) {
    (void)f;
    CHECK_EQ(datagram.out, 5);
    CHECK_STR(bytes, "hello");
}
static void end_pair(void) {
    aw_close(ends[0]);
    aw_close(ends[1]);
}
/* cancel-at-every-await: aw_datagram */
TEST_LIMIT(receiving_a_datagram_is_cut, 60) {
    cut_net(&(struct subject){begin_datagrams, make_recv_from, send_one, take_recv_from, end_pair,
                              .waits = true});
}

/* The queue of the receiver is full. */
static void begin_flood(void) {
    char name[32];
    int n = snprintf(name, sizeof name, "awake-cut-%d", (int)getpid());
    CHECK_EQ(aw_addr_of_abstract(&at, name, (size_t)n), 0);
    CHECK_EQ(aw_unix_datagram(&ends[1], &at), 0);
    CHECK_EQ(aw_unix_datagram(&ends[0], NULL), 0);
    while (sendto(aw_conn_fd(ends[0]), "x", 1, 0, &at.u.any, at.size) == 1)
        ;
    CHECK_EQ(errno, EAGAIN);
}
static aw_future *make_send_to(void) {
    datagram = aw_send_to(ends[0], "last", 4, &at);
    return &datagram.future;
}
static void drain(void) {
    while (recv(aw_conn_fd(ends[1]), bytes, sizeof bytes, 0) >= 0)
        ;
}
static void take_send_to(aw_future *f) {
    (void)f;
    CHECK_EQ(datagram.out, 4);
}
TEST_LIMIT(sending_a_datagram_to_a_full_queue_is_cut, 60) {
    cut_net(
        &(struct subject){begin_flood, make_send_to, drain, take_send_to, end_pair, .waits = true});
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static aw_fds passing;
static int got[2], got_count;

static void begin_passing(void) {
    CHECK_EQ(aw_unix_pair(ends, SOCK_STREAM), 0);
}
static aw_future *make_recv_fds(void) {
    passing = aw_recv_fds(ends[1], bytes, sizeof bytes, got, 2, &got_count);
    return &passing.future;
}
static void pass_two(void) {
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    char control[CMSG_SPACE(sizeof fds)] __attribute__((aligned(8))) = {0};
    struct iovec part = {(char[]){"two"}, 3};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    CHECK_EQ(sendmsg(aw_conn_fd(ends[0]), &message, 0), 3);
    close(fds[0]);
    close(fds[1]);
}
static void take_two(aw_future *f) {
    (void)f;
    CHECK_EQ(passing.out, 3);
    CHECK_EQ(got_count, 2);
    close(got[0]);
    close(got[1]);
}
/* cancel-at-every-await: aw_fds */
TEST_LIMIT(receiving_descriptors_is_cut, 60) {
    cut_net(&(struct subject){begin_passing, make_recv_fds, pass_two, take_two, end_pair,
                              .waits = true});
}

static void begin_full_stream(void) {
    static char much[4096];
    begin_passing();
    while (send(aw_conn_fd(ends[0]), much, sizeof much, MSG_NOSIGNAL) > 0)
        ;
}
static aw_future *make_send_fds(void) {
    static int stdin_fd = 0;
    passing = aw_send_fds(ends[0], "mine", 4, &stdin_fd, 1);
    return &passing.future;
}
static void take_send_fds(aw_future *f) {
    (void)f;
    CHECK_EQ(passing.out, 4);
}
static void drain_stream(void) {
    static char much[4096];
    while (recv(aw_conn_fd(ends[1]), much, sizeof much, 0) > 0)
        ;
}
TEST_LIMIT(sending_descriptors_into_a_full_stream_is_cut, 60) {
    cut_net(&(struct subject){begin_full_stream, make_send_fds, drain_stream, take_send_fds,
                              end_pair, .waits = true});
}

/* ---- Lingering ------------------------------------------------------------------------------- */

static aw_linger_future lingering;

static void begin_linger(void) {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_EQ(aw_conn_of_fd(&conn, fds[0]), 0);
    client = fds[1];
}
static aw_future *make_linger(void) {
    lingering = aw_linger(conn, AW_SEC(60));
    return &lingering.future;
}
static void close_client(void) {
    close(client);
}
/* cancel-at-every-await: aw_linger */
TEST_LIMIT(lingering_is_cut, 60) {
    cut_net(&(struct subject){begin_linger, make_linger, close_client, NULL, NULL, .waits = true});
}
