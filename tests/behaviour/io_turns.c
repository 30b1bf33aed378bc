/* SPDX-License-Identifier: MIT
 *
 * Nobody keeps a thread to himself who never has to wait: after 128 operations the others have their turn. */
#include "support/io_ends.h"

enum { OPERATIONS = 1000 };

/* Always ready, until it is told; counts its turns. */
struct take_turns {
    aw_future future;
    int out;
    const uint32_t *done;
    uint32_t *turns;
};

static aw_poll take_turns_poll(aw_future *self, aw_cx *cx) {
    struct take_turns *t = (struct take_turns *)self;
    if (LOAD(*t->done)) return AW_READY;
    ADD(*t->turns, 1);
    aw_waker_wake_by_ref(aw_cx_waker(cx));
    return AW_PENDING;
}

static const aw_future_type take_turns_type = {
    AW_TYPE_OF(struct take_turns, "take_turns"),
    .poll = take_turns_poll,
};

static struct take_turns take_turns(const uint32_t *done, uint32_t *turns) {
    return (struct take_turns){AW_FUTURE_INIT(&take_turns_type), 0, done, turns};
}

/* How many turns the other one had, beside a loop in which each operation could be done at once. */
AW_ASYNC(int, do_in_a_loop, aw_conn *conn; uint32_t what; uint32_t turns, done, before; int i;
         char byte; struct take_turns * other; aw_task_join_future join; aw_yield pause;
         aw_io io;) {
    AW_BEGIN;
    self->other = aw_spawn(take_turns(&self->done, &self->turns));
    while (!LOAD(self->turns))
        AW_AWAIT(self->pause, aw_yield_now());
    self->before = LOAD(self->turns);
    for (self->i = 0; self->i < OPERATIONS; self->i++) {
        AW_AWAIT(self->io, aw__io(self->conn, self->what, &self->byte, 1));
        CHECK_GE(self->io.out, 0);
    }
    self->before = LOAD(self->turns) - self->before;
    STORE(self->done, 1);
    AW_AWAIT(self->join, aw_task_join(self->other));
    aw_task_drop(self->other);
    AW_RETURN((int)self->before);
    AW_END;
}

/* On one thread, whatever the flavour. */
static void loop_beside_another(struct io_setup how, aw_conn *ends[2], uint32_t what) {
    memory m;
    how.workers = how.workers != 0;
    aw_runtime *rt = io_runtime(how, &m, NULL);
    int turns = RUN(rt, AW_CALL(do_in_a_loop, .conn = ends[0], .what = what));
    CHECK_GE(turns,
             OPERATIONS / 128 / 4); /* a worker may run what was woken last a few times in a row */
    aw_close(ends[0]);
    aw_close(ends[1]);
    workers_end(rt, &m);
}

static void tcp_pair_with_bytes(aw_conn *ends[2]) {
    static const char zeros[OPERATIONS];
    tcp_pair(ends);
    CHECK_EQ(write(aw_conn_fd(ends[1]), zeros, sizeof zeros), sizeof zeros);
}

ON_DRIVERS(who_reads_what_is_there_lets_others_have_their_turn) {
    aw_conn *ends[2];
    tcp_pair_with_bytes(ends);
    loop_beside_another(how, ends, AW_IO_READ);
}
ON_DRIVERS(who_writes_where_there_is_room_lets_others_have_their_turn) {
    aw_conn *ends[2];
    tcp_pair(ends);
    loop_beside_another(how, ends, AW_IO_WRITE);
}
/* Of this the system is given nothing by any driver. */
ON_DRIVERS(who_writes_to_a_pipe_lets_others_have_their_turn) {
    aw_conn *ends[2];
    pipe_pair(ends);
    loop_beside_another(how, ends, AW_IO_WRITE);
}
ON_DRIVERS(who_asks_again_and_again_lets_others_have_their_turn) {
    aw_conn *ends[2];
    tcp_pair_with_bytes(ends);
    loop_beside_another(how, ends, AW_IO_READABLE);
}
