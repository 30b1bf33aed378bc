/* SPDX-License-Identifier: MIT
 *
 * A race of connects that is cancelled returns its error if every attempt was answered. If an
 * attempt was cut off or never begun, the race counts as cancelled. */
#include "support/net.h"

ALL_ON_THIS_THREAD("each test chooses its own runtime");

/* Polled once, then cancelled. Returns the result of the timeout. */
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

/* Only operations of io_uring can complete while they are being cancelled. */
ON_URING(a_cancelled_race_with_all_attempts_answered_returns_its_error) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at[2];
    int refuses[2] = {refusing_port(AF_INET, &at[0]), refusing_port(AF_INET, &at[1])};
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut_one, .at = at)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 1)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2)), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut_host, .port = aw_addr_port(at))), 0);
    close(refuses[0]);
    close(refuses[1]);
    workers_end(rt, &m);
}

ON_DRIVERS(a_race_with_an_attempt_that_was_cut_off_is_cancelled) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    black_hole hole;
    aw_addr at[2];
    int refuses = refusing_port(AF_INET, &at[0]);
    black_hole_open(&hole, "127.0.0.1:0");
    at[1] = hole.at;
    CHECK_EQ(aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2)), -ETIMEDOUT);
    black_hole_close(&hole);
    close(refuses);
    workers_end(rt, &m);
}

/* Only with io_uring: there the first attempt is not answered yet when it is cancelled. On other
 * drivers it is, and the second attempt begins. */
ON_URING(a_race_with_an_address_that_was_not_tried_is_cancelled) {
    memory m;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    aw_addr at[2];
    int refuses[2] = {refusing_port(AF_INET, &at[0]), refusing_port(AF_INET, &at[1])};
    CHECK_EQ(
        aw_block_on(rt, AW_CALL(begin_and_cut, .addrs = at, .count = 2, .stagger = AW_SEC(3600))),
        -ETIMEDOUT);
    close(refuses[0]);
    close(refuses[1]);
    workers_end(rt, &m);
}
