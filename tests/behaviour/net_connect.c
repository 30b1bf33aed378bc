/* SPDX-License-Identifier: MIT
 *
 * Connecting: to an address, to any of several, to a name. Connections that are not taken are
 * closed, and a cancelled connect leaves nothing behind. */
/* link: -Wl,--wrap=getaddrinfo,--wrap=freeaddrinfo */
#define _GNU_SOURCE
#include "support/net.h"

#include <netdb.h>

#include "support/by_hand.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

/* ---- Invented names -------------------------------------------------------------------------- */

enum { MAX_KNOWN = 300 };
static aw_addr known[MAX_KNOWN];
static struct addrinfo records[MAX_KNOWN];
static int known_count;          /* 0: call the real getaddrinfo */
static int name_error;           /* EAI_... */
static event *entered, *allowed; /* posted at the start of the call; awaited before it goes on */
static uint32_t freed;           /* atomic */

int __real_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found) {
    if (entered) event_post(entered);
    if (allowed) event_wait(allowed);
    if (name_error) return name_error;
    if (!known_count) return __real_getaddrinfo(name, service, hints, found);
    for (int i = 0; i < known_count; i++)
        records[i] = (struct addrinfo){.ai_family = aw_addr_family(&known[i]),
                                       .ai_addr = &known[i].u.any,
                                       .ai_addrlen = known[i].size,
                                       .ai_next = i + 1 < known_count ? &records[i + 1] : NULL};
    *found = records;
    return 0;
}
void __real_freeaddrinfo(struct addrinfo *);
void __wrap_freeaddrinfo(struct addrinfo *);
void __wrap_freeaddrinfo(struct addrinfo *found) {
    if (found != records) __real_freeaddrinfo(found);
    ADD(freed, 1);
}

/* ---- One address ----------------------------------------------------------------------------- */

ON_DRIVERS(a_connect_that_fails_returns_the_error) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *c = NULL;
    aw_addr at;
    for (int f = 0; f < INET_FAMILIES; f++) {
        int bound = refusing_port(inet_families[f], &at);
        CHECK_EQ(aw_block_on(rt, aw_connect(&c, &at)), -ECONNREFUSED);
        close(bound);
    }
    CHECK_EQ(aw_addr_parse(&at, "255.255.255.255:9"), 0);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &at)), -ENETUNREACH);
    CHECK_EQ(aw_addr_parse(&at, "unix:/nowhere/at/all"), 0);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &at)), -ENOENT);
    CHECK_EQ(aw_addr_parse(&at, "unix:@awake-unbound"), 0);
    CHECK_EQ(aw_block_on(rt, aw_connect(&c, &at)), -ECONNREFUSED);
    CHECK(c == NULL);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

typedef AW_TIMEOUT(aw_connect_future) connect_timeout;

ON_DRIVERS(a_connect_that_is_never_answered_can_be_given_up) {
    black_hole hole;
    black_hole_open(&hole, "127.0.0.1:0");
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *c = NULL;
    size_t before = open_sockets();
    CHECK_EQ(aw_block_on(rt, AW_TIMEOUT_OF(connect_timeout, AW_MSEC(5), aw_connect(&c, &hole.at))),
             -ETIMEDOUT);
    WAIT_UNTIL(open_sockets() == before); /* a worker allowed only just have seen the cancel */
    CHECK(c == NULL);
    black_hole_close(&hole);
    workers_end(rt, &m);
}

ON_DRIVERS(a_connection_that_is_discarded_is_closed) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_conn *c, *server;
    char byte;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    for (int i = 0; i < 3; i++) {
        if (i == 0) CHECK_EQ(aw_block_on_status(rt, aw_connect(&c, &at)), 0);
        if (i == 1) CHECK_EQ(aw_block_on_status(rt, aw_connect_any(&c, &at, 1)), 0);
        if (i == 2)
            CHECK_EQ(aw_block_on_status(rt, aw_connect_host(&c, "127.0.0.1", aw_addr_port(&at))),
                     0);
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
        CHECK_EQ(aw_block_on(rt, aw_read(server, &byte, 1)), 0);
        aw_close(server);
    }
    aw_listener_close(l);
    workers_end(rt, &m);
}

/* ---- Any of several -------------------------------------------------------------------------- */

static aw_connect_any_future race(aw_conn **c, const aw_addr *addrs, int count, uint64_t stagger) {
    aw_connect_any_future f = aw_connect_any(c, addrs, count);
    CHECK_EQ(f.stagger, AW_MSEC(250));
    f.stagger = stagger;
    return f;
}

static void check_connected_to(aw_conn *c, const aw_addr *at) {
    aw_addr peer;
    CHECK_EQ(aw_conn_peer(c, &peer), 0);
    CHECK(aw_addr_equal(&peer, at));
}

ON_DRIVERS(when_an_address_refuses_the_next_is_tried_at_once) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr addrs[3];
    aw_conn *c;
    int bound[2] = {refusing_port(AF_INET6, &addrs[0]), refusing_port(AF_INET, &addrs[1])};
    aw_listener *l = listen_loopback(AF_INET, NULL, &addrs[2]);
    /* The stagger would never end. */
    CHECK_EQ(aw_block_on(rt, race(&c, addrs, 3, AW_SEC(3600))), 0);
    check_connected_to(c, &addrs[2]);
    aw_close(c);
    aw_listener_close(l);
    close(bound[0]);
    close(bound[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(an_address_that_does_not_answer_is_overtaken) {
    black_hole hole;
    black_hole_open(&hole, "127.0.0.2:0");
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr addrs[3] = {hole.at, hole.at};
    aw_conn *c;
    aw_listener *l = listen_loopback(AF_INET6, NULL, &addrs[2]);
    size_t before = open_sockets();
    CHECK_EQ(aw_block_on(rt, race(&c, addrs, 3, AW_MSEC(5))), 0);
    check_connected_to(c, &addrs[2]);
    aw_close(c);
    WAIT_UNTIL(open_sockets() == before); /* the losers are closed */
    aw_listener_close(l);
    black_hole_close(&hole);
    workers_end(rt, &m);
}

/* The next attempt begins after the stagger, measured on the runtime's clock. */
ON_EACH_DRIVER(a_second_attempt_begins_a_quarter_of_a_second_later_timing) {
    black_hole hole;
    black_hole_open(&hole, "127.0.0.2:0");
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr addrs[2] = {hole.at};
    aw_conn *c;
    aw_listener *l = listen_loopback(AF_INET, NULL, &addrs[1]);
    uint64_t begin = test_now_ns();
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, addrs, 2)), 0);
    uint64_t took = test_now_ns() - begin;
    CHECK_GE(took, AW_MSEC(250));
    CHECK_LT(took, AW_MSEC(1000));
    aw_close(c);
    aw_listener_close(l);
    black_hole_close(&hole);
    workers_end(rt, NULL);
}

ON_DRIVERS(of_several_that_succeed_one_is_taken_and_the_others_are_closed) {
    enum { MANY = 6 };
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at, addrs[MANY];
    aw_conn *c, *server;
    char byte;
    int alive = 0, come = 0;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    for (int i = 0; i < MANY; i++)
        addrs[i] = at;
    CHECK_EQ(aw_block_on(rt, race(&c, addrs, MANY, 0)), 0);
    CHECK_EQ(aw_block_on(rt, aw_write(c, "x", 1)), 1);
    /* Losers that connected earlier or together with the winner read end-of-file at once. */
    while (alive == 0) {
        CHECK_EQ(aw_block_on(rt, aw_accept(l, &server)), 0);
        int n = aw_block_on(rt, aw_read(server, &byte, 1));
        CHECK(n == 1 || n == 0 || n == -ECONNRESET);
        alive += n == 1;
        come++;
        aw_close(server);
    }
    CHECK_LE(come, MANY);
    aw_close(c);
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_DRIVERS(when_all_fail_the_error_is_that_of_the_first) {
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr addrs[3];
    aw_conn *c = NULL;
    int bound = refusing_port(AF_INET, &addrs[0]);
    CHECK_EQ(aw_addr_parse(&addrs[1], "255.255.255.255:9"), 0);
    CHECK_EQ(aw_addr_parse(&addrs[2], "unix:/nowhere/at/all"), 0);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, addrs, 3)), -ECONNREFUSED);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, addrs + 1, 2)), -ENETUNREACH);
    CHECK_EQ(aw_block_on(rt, aw_connect_any(&c, addrs + 2, 1)), -ENOENT);
    CHECK(c == NULL);
    close(bound);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
}

/* Each address refuses on its own port, so the order of attempts is the order of refusals. */
ON_DRIVERS(address_families_alternate) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    static const struct {
        const char *listed, *tried;
    } cases[] = {{"666444", "646464"}, {"4466", "4646"}, {"66664", "64666"},
                 {"4", "4"},           {"444", "444"},   {"6446", "6464"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int n = (int)strlen(cases[k].listed), at[2] = {0, 0};
        aw_addr addrs[8];
        int bound[8];
        for (int i = 0; i < n; i++)
            bound[i] = refusing_port(cases[k].listed[i] == '6' ? AF_INET6 : AF_INET, &addrs[i]);
        /* The listener moves from index to index: all addresses before it were tried, and none
         * behind it. */
        for (int w = 0; w < n; w++) {
            bool six = cases[k].tried[w] == '6';
            int nth = at[six]++, index = 0;
            for (int seen = -1; seen < nth; index++)
                seen += (cases[k].listed[index] == '6') == six;
            aw_addr with[8];
            aw_conn *c;
            memcpy(with, addrs, sizeof with);
            aw_listener *l = listen_loopback(aw_addr_family(&addrs[index - 1]), NULL,
                                             &with[index - 1]);
            aw_connect_any_future f = race(&c, with, n, AW_SEC(3600));
            CHECK_EQ(aw_block_on_future(rt, &f.future), 0);
            CHECK_EQ(f.out, 0);
            CHECK_EQ(f.begun, w + 1);
            check_connected_to(c, &with[index - 1]);
            aw_close(c);
            aw_listener_close(l);
        }
        for (int i = 0; i < n; i++)
            close(bound[i]);
    }
    workers_end(rt, NULL);
}

AW_ASYNC(int, race_task, aw_conn **c; const aw_addr *addrs; int count; aw_connect_any_future f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, race(self->c, self->addrs, self->count, 0));
    AW_RETURN(self->f.out);
    AW_END;
}

ON_DRIVERS(a_cancelled_race_closes_all_attempts) {
    black_hole hole;
    black_hole_open(&hole, "127.0.0.3:0");
    size_t before = open_fds();
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr addrs[5] = {hole.at, hole.at, hole.at, hole.at, hole.at};
    aw_conn *c = NULL;
    for (int i = 0; i < 5; i++) {
        struct race_task *t = aw_spawn_on(rt,
                                          AW_CALL(race_task, .c = &c, .addrs = addrs, .count = 5));
        for (int k = 0; k < i; k++)
            run_a_while(rt);
        aw_task_abort(t);
        CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
        aw_task_drop(t);
    }
    CHECK(c == NULL);
    workers_end(rt, &m);
    CHECK_EQ(open_fds(), before);
    black_hole_close(&hole);
}

/* ---- Names ----------------------------------------------------------------------------------- */

ON_DRIVERS(a_name_is_connected_to_by_the_address_that_answers) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    uint16_t port = aw_addr_port(&at);
    aw_conn *c;
    CHECK_EQ(aw_addr_parse(&known[0], "255.255.255.255:1"), 0); /* the port is ignored */
    known[1] = aw_addr_loopback(AF_INET, 2);
    known_count = 2;
    CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "made.up", port)), 0);
    check_connected_to(c, &at);
    aw_close(c);
    CHECK_EQ(LOAD(freed), 1);
    aw_listener_close(l);
    CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "made.up", port)), -ENETUNREACH);
    workers_end(rt, &m);
}

/* All but the last one refuse at once. */
ON_DRIVERS(however_many_addresses_a_name_has_all_are_tried) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    aw_conn *c;
    static const int counts[] = {1, 33, 40, MAX_KNOWN};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        char text[40];
        known_count = counts[k];
        for (int i = 0; i < known_count - 1; i++) {
            snprintf(text, sizeof text, "127.77.%d.%d", 1 + i / 200, 1 + i % 200);
            CHECK_EQ(aw_addr_of_ip(&known[i], text, 1), 0);
        }
        known[known_count - 1] = aw_addr_loopback(AF_INET, 1);
        CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "made.up", aw_addr_port(&at))), 0);
        check_connected_to(c, &at);
        aw_close(c);
    }
    aw_listener_close(l);
    workers_end(rt, &m);
}

ON_DRIVERS(localhost_is_found) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr at, found[4];
    aw_conn *c;
    aw_listener *l = listen_loopback(AF_INET, NULL, &at);
    int n = aw_block_on(rt, aw_resolve(found, 4, "localhost", 77));
    CHECK_GE(n, 1);
    for (int i = 0; i < n; i++) {
        aw_addr here = aw_addr_loopback(aw_addr_family(&found[i]), 77);
        CHECK(aw_addr_equal(&found[i], &here));
    }
    CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "localhost", aw_addr_port(&at))), 0);
    check_connected_to(c, &at);
    aw_close(c);
    aw_listener_close(l);
    workers_end(rt, NULL);
}

ON_DRIVERS(numbers_are_found_without_a_thread) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr found[2], six = aw_addr_loopback(AF_INET6, 80), four = aw_addr_loopback(AF_INET, 81);
    name_error = EAI_FAIL; /* getaddrinfo must not be called */
    CHECK_EQ(aw_block_on(rt, aw_resolve(found, 2, "::1", 80)), 1);
    CHECK(aw_addr_equal(&found[0], &six));
    CHECK_EQ(aw_block_on(rt, aw_resolve(found, 2, "127.0.0.1", 81)), 1);
    CHECK(aw_addr_equal(&found[0], &four));
    CHECK_EQ(aw_wait(aw_resolve(found, 2, "127.0.0.1", 81)), 1); /* no runtime needed either */
    CHECK_EQ(aw_block_on(rt, aw_resolve(found, 2, "fe80::1%no-such-if", 81)), -ENODEV);
    workers_end(rt, NULL);
}

ON_DRIVERS(no_more_addresses_are_stored_than_fit) {
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr found[8];
    for (int i = 0; i < 5; i++)
        known[i] = aw_addr_loopback(i % 2 ? AF_INET : AF_INET6, (uint16_t)i);
    known_count = 5;
    for (int max = 1; max < 8; max++) {
        int n = max < 5 ? max : 5;
        memset(found, 0, sizeof found);
        CHECK_EQ(aw_block_on(rt, aw_resolve(found, max, "made.up", 9)), n);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(aw_addr_family(&found[i]), i >= n ? AF_UNSPEC : i % 2 ? AF_INET : AF_INET6);
    }
    CHECK_EQ(LOAD(freed), 7);
    workers_end(rt, NULL);
}

ON_DRIVERS(lookup_failures_have_distinct_errors) {
    static const struct {
        int eai, error;
    } cases[] = {{EAI_NONAME, -ENOENT},
                 {EAI_AGAIN, -EAGAIN},
                 {EAI_FAIL, -EIO},
                 {EAI_MEMORY, -ENOMEM},
                 {EAI_NODATA, -ENOENT}};
    aw_runtime *rt = io_runtime(how, NULL, NULL);
    aw_addr found;
    aw_conn *c;
    char name[300];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        name_error = cases[i].eai;
        CHECK_EQ(aw_block_on(rt, aw_resolve(&found, 1, "made.up", 9)), cases[i].error);
        CHECK_EQ(aw_block_on(rt, aw_connect_host(&c, "made.up", 9)), cases[i].error);
    }
    memset(name, 'a', sizeof name);
    name[255] = 0;
    CHECK_EQ(aw_block_on(rt, aw_resolve(&found, 1, name, 9)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_resolve(&found, 1, "", 9)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_resolve(&found, 1, NULL, 9)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_resolve(NULL, 1, "a", 9)), -EINVAL);
    CHECK_EQ(aw_block_on(rt, aw_resolve(&found, 0, "a", 9)), -EINVAL);
    CHECK_EQ(aw_wait(aw_resolve(&found, 1, "a", 9)), -ENXIO);
    workers_end(rt, NULL);
}

AW_ASYNC(int, host_task, aw_conn **c; aw_connect_host_future f;) {
    AW_BEGIN;
    AW_AWAIT(self->f, aw_connect_host(self->c, "made.up", 9));
    AW_RETURN(self->f.out);
    AW_END;
}

/* The thread finishes the lookup in the background. Neither the cancel nor the shutdown waits
 * for it. */
ON_DRIVERS(a_lookup_that_is_given_up_goes_on_by_itself) {
    static event is_entered, may_go;
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_conn *c = NULL;
    event_init(&is_entered);
    event_init(&may_go);
    entered = &is_entered;
    allowed = &may_go;
    known[0] = aw_addr_loopback(AF_INET, 0);
    known_count = 1;
    struct host_task *t = aw_spawn_on(rt, AW_CALL(host_task, .c = &c));
    run_a_while(rt);
    event_wait(entered);
    aw_task_abort(t);
    CHECK_EQ(join_status(rt, &t->future), -ECANCELED);
    aw_task_drop(t);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(freed), 0);
    event_post(allowed);
    WAIT_UNTIL(LOAD(freed) == 1);
    WAIT_UNTIL(memory_in_use(&m) == 0);
    CHECK(c == NULL);
}
