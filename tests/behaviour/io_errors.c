/* SPDX-License-Identifier: MIT
 *
 * The errors of awake/io.h that do not come from the peer, for each operation that would have to
 * wait. */
#include "net/listener.h"
#include "support/io_ends.h"
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its flavour itself");

/* No operation on these can complete at once: nothing to read, no space to write, no client, no
 * answer. */
struct stuck {
    aw_conn *ends[2], *udp;
    aw_listener *listener;
    black_hole hole;
};

static void stuck_open(struct stuck *s) {
    aw_addr at, any = aw_addr_loopback(AF_INET, 0);
    io_pair(s->ends);
    fill(s->ends[0]);
    CHECK_EQ(aw_udp_bind(&s->udp, &any, NULL), 0);
    s->listener = listen_loopback(AF_INET, NULL, &at);
    black_hole_open(&s->hole, "127.0.0.1:0");
}

static void stuck_close(struct stuck *s) {
    aw_close(s->ends[0]);
    aw_close(s->ends[1]);
    aw_close(s->udp);
    aw_listener_close(s->listener);
    black_hole_close(&s->hole);
}

#define EACH_IS(run, s, error)                                                                     \
    do {                                                                                           \
        char byte_ = 0;                                                                            \
        struct iovec part_ = {&byte_, 1};                                                          \
        aw_conn *conn_;                                                                            \
        CHECK_EQ(run(aw_read((s)->ends[0], &byte_, 1)), (error));                                  \
        CHECK_EQ(run(aw_readv((s)->ends[0], &part_, 1)), (error));                                 \
        CHECK_EQ(run(aw_readable((s)->ends[0])), (error));                                         \
        CHECK_EQ(run(aw_write((s)->ends[0], "x", 1)), (error));                                    \
        CHECK_EQ(run(aw_writev((s)->ends[0], &part_, 1)), (error));                                \
        CHECK_EQ(run(aw_writable((s)->ends[0])), (error));                                         \
        CHECK_EQ(run(aw_recv_from((s)->udp, &byte_, 1, NULL, NULL)), (error));                     \
        CHECK_EQ(run(aw_accept((s)->listener, &conn_)), (error));                                  \
        CHECK_EQ(run(aw_connect(&conn_, &(s)->hole.at)), (error));                                 \
    } while (0)

TEST(what_would_have_to_wait_without_a_runtime_says_so) {
    struct stuck s;
    stuck_open(&s);
    EACH_IS(aw_wait, &s, -ENXIO);
    stuck_close(&s);
}

TEST(what_would_have_to_wait_where_the_runtime_sleeps_in_its_own_way_says_so) {
    static sleeper seam;
    struct stuck s;
    aw_runtime *rt = runtime_new(NULL, NULL, sleeper_init(&seam), false);
    stuck_open(&s);
#define IN_RUNTIME(...) aw_block_on(rt, __VA_ARGS__)
    EACH_IS(IN_RUNTIME, &s, -ENOTSUP);
    stuck_close(&s);
    aw_runtime_free(rt);
}

TEST(what_can_be_done_at_once_needs_no_runtime) {
    aw_conn *ends[2], *conn, *other;
    aw_addr at;
    char byte;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    io_pair(ends);
    CHECK_EQ(aw_wait(aw_write(ends[0], "x", 1)), 1);
    CHECK_EQ(aw_wait(aw_readable(ends[1])), 0);
    CHECK_EQ(aw_wait(aw_read(ends[1], &byte, 1)), 1);
    CHECK_EQ(aw_wait(aw_shutdown(ends[0])), 0);
    int client = plain_client(&at);
    CHECK_EQ(aw_wait(aw_accept(l, &conn)), 0);
    aw_close(conn);
    close(client);
    aw_listener_close(l);
    CHECK_EQ(aw_addr_of_abstract(&at, "awake-io-errors", 15), 0);
    CHECK_EQ(aw_listen(&l, &at, NULL), 0);
    CHECK_EQ(aw_wait(aw_connect(&other, &at)), 0);
    aw_close(other);
    aw_listener_close(l);
    aw_close(ends[0]);
    aw_close(ends[1]);
}

/* ---- The end of the runtime ---------------------------------------------------------------------- */

struct accepts {
    aw_runtime *rt;
    aw_listener *listener;
    int out;
};

static void *accept_on_a_thread(void *arg) {
    struct accepts *a = arg;
    aw_conn *conn;
    aw_runtime *before = aw_enter(a->rt);
    a->out = aw_wait(aw_accept(a->listener, &conn));
    aw_leave(before);
    return NULL;
}

ON_DRIVERS(an_accept_that_waits_is_told_that_the_runtime_ends) {
    memory m;
    aw_addr at;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    struct accepts a = {.rt = rt, .listener = listen_loopback(AF_INET, NULL, &at)};
    pthread_t thread = thread_start(accept_on_a_thread, &a);
    WAIT_UNTIL(io_waiting(a.listener->conn, 0) == 1);
    workers_end(rt, NULL);
    thread_end(thread);
    CHECK_EQ(a.out, -ESHUTDOWN);
    aw_listener_close(a.listener);
    CHECK_EQ(memory_in_use(&m), 0);
}
