/* SPDX-License-Identifier: MIT
 *
 * A race of connects that is cancelled when each of its attempts has been answered says what they said; if one of them was
 * cut off, or never begun, it is gone. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test says itself on what it runs");

/* Polled once, and then cancelled. What the timeout says. */
AW_ASYNC(int, begin_and_cut, aw_conn *c; const aw_addr *addrs; int count; uint64_t stagger;
         aw_connect_any_future race; AW_TIMEOUT(aw_connect_any_future) any;) {
    AW_BEGIN;
    self->race = aw_connect_any(&self->c, self->addrs, self->count);
    self->race.stagger = self->stagger;
    AW_AWAIT_FOR(self->any, 0, self->race);
    if (self->any.out == 0) CHECK_EQ(self->any.inner.out, -ECONNREFUSED);
    AW_RETURN(self->any.out);
    AW_END;
}

AW_ASYNC(int, begin_and_cut_one, aw_conn *c; const aw_addr *at;
         AW_TIMEOUT(aw_connect_future) one;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->one, 0, aw_connect(&self->c, self->at));
    if (self->one.out == 0) CHECK_EQ(self->one.inner.out, -ECONNREFUSED);
    AW_RETURN(self->one.out);
    AW_END;
}

AW_ASYNC(int, begin_and_cut_host, aw_conn *c; uint16_t port;
         AW_TIMEOUT(aw_connect_host_future) host;) {
    AW_BEGIN;
    AW_AWAIT_FOR(self->host, 0, aw_connect_host(&self->c, "127.0.0.1", self->port));
    if (self->host.out == 0) CHECK_EQ(self->host.inner.out, -ECONNREFUSED);
    AW_RETURN(self->host.out);
    AW_END;
}

/* Only operations of io_uring may be answered while they are cancelled. */
ON_URING(a_race_whose_attempts_are_all_answered_stands) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at[2];
    int refuses[2] = {refusing(AF_INET, &at[0]), refusing(AF_INET, &at[1])};
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut_one, .at = at)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 1)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut_host, .port = aw_addr_port(at))), 0);
    close(refuses[0]);
    close(refuses[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_race_with_an_attempt_that_was_cut_off_is_gone) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    black_hole hole;
    aw_addr at[2];
    int refuses = refusing(AF_INET, &at[0]);
    black_hole_open(&hole, "127.0.0.1:0");
    at[1] = hole.at;
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2)), -ETIMEDOUT);
    black_hole_close(&hole);
    close(refuses);
    workers_end(rt, &m);
}

/* By io_uring the first is not answered yet when it is cancelled; otherwise it is, and the second begins. */
ON_URING(a_race_with_an_address_that_was_not_tried_is_gone) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at[2];
    int refuses[2] = {refusing(AF_INET, &at[0]), refusing(AF_INET, &at[1])};
    CHECK_EQ(
        aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2, .stagger = AW_SEC(3600))),
        -ETIMEDOUT);
    close(refuses[0]);
    close(refuses[1]);
    workers_end(rt, &m);
}
