/* SPDX-License-Identifier: MIT
 *
 * How streams affect the wait counts: a task that is stuck behind a stream is reported, and so
 * is one that has only used a stream before. A task that can still run is never reported. */
#include "support/workers.h"

/* Pending, and its waker is stored nowhere. */
static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)arg;
    (void)cx;
    (void)out;
    return AW_PENDING;
}

AW_GENERATOR(int, stuck, aw_poll_fn never;) {
    AW_BEGIN;
    AW_YIELD_VALUE(1);
    AW_AWAIT(self->never, aw_poll_fn_of(forget, NULL));
    AW_END;
}
AW_FIBER_GENERATOR(int, stuck_fiber) {
    int error = aw_yield_value(self, 1);
    return error ? error : aw_await(aw_poll_fn_of(forget, NULL));
}
AW_MAP_ASYNC(aw_poll_fn, stuck_map, int) {
    return aw_poll_fn_of(forget, NULL);
}
AW_CONCURRENT(aw_poll_fn, stuck_many, int) {
    return aw_poll_fn_of(forget, NULL);
}

/* Sleeps before each of three values. */
AW_GENERATOR(int, slow, int i; aw_sleep nap;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++) {
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(2)));
        AW_YIELD_VALUE(self->i);
    }
    AW_END;
}
AW_MAP_ASYNC(aw_sleep, slow_map, int) {
    return aw_sleep_for(AW_MSEC(2));
}
AW_CONCURRENT(aw_sleep, slow_many, int) {
    return aw_sleep_for(AW_MSEC(2));
}

static int numbers[3];

AW_ASYNC(int, behind, int kind; AW_ARRAY_STREAM(int) s; struct stuck g; struct stuck_fiber f;
         struct stuck_map map; struct stuck_many many; aw_stream_drain_future all;) {
    AW_BEGIN;
    aw_stream_array(&self->s, numbers, 3);
    self->g = AW_GENERATE(stuck);
    self->f = AW_GENERATE(stuck_fiber);
    self->map = AW_ADAPTER(stuck_map, &self->s);
    self->many = AW_UNORDERED(stuck_many, &self->s, 2);
    AW_AWAIT(self->all, aw_stream_drain_of(
                            ((aw_stream *[]){&self->g.stream, &self->f.stream, &self->map.stream,
                                             &self->many.stream})[self->kind]));
    AW_RETURN(0);
    AW_END;
}

/* Times out again and again, reaches the end (the last kind: the first item), and is then stuck
 * on its own. */
AW_ASYNC(int, after, int kind; AW_ARRAY_STREAM(int) s; struct slow g; struct slow_map map;
         struct slow_many many; AW_MERGE(int, 2) merge; AW_CHUNKS(int, 2) chunks; aw_stream * end;
         int late; AW_TIMEOUT(aw_stream_next_future) next; aw_poll_fn never;
         aw_stream_close_future close;) {
    AW_BEGIN;
    aw_stream_array(&self->s, numbers, 3);
    self->g = AW_GENERATE(slow);
    self->map = AW_ADAPTER(slow_map, &self->s);
    self->many = AW_UNORDERED(slow_many, &self->g, 2);
    aw_stream_merge(&self->merge, &self->g, &self->s);
    aw_stream_chunks(&self->chunks, &self->g, AW_MSEC(3));
    self->end = ((aw_stream *[]){&self->g.stream, &self->map.stream, &self->many.stream,
                                 &self->merge.stream, &self->chunks.stream,
                                 &self->g.stream})[self->kind];
    do {
        AW_AWAIT_FOR(self->next, AW_USEC(200), aw_stream_next_of(self->end));
        self->late += self->next.out == -ETIMEDOUT;
    } while (self->next.out || (self->next.inner.out && self->kind < 5));
    CHECK_GT(self->late, 0);
    AW_AWAIT(self->never, aw_poll_fn_of(forget, NULL));
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) AW_AWAIT(self->close, aw_stream_close_of(self->end));
    AW_END;
}

/* Time is virtual: when the second is over, every task that can run has run. */
static void run_with(aw_runtime *rt, aw_future *task) {
    aw__task_drop(task);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0);
}

ON_BOTH(a_task_that_is_stuck_behind_a_stream_is_reported) {
    static const char *const names[4] = {"stuck at ", "stuck_fiber: ", "poll_fn", "poll_fn"};
    for (int kind = 0; kind < 4; kind++) {
        kept_log *log = &(kept_log)KEPT_LOG;
        aw_runtime *rt = new_runtime(workers, NULL, log);
        CHECK_EQ(aw_clock_pause(rt), 0);
        run_with(rt, AW_TASK(aw_spawn_on(rt, AW_CALL(behind, .kind = kind))));
        /* Where only woken futures are polled, the future is reported as well, as in a set. */
        CHECK_EQ(log_count(log, "lost wake-up"), kind == 3 ? 2 : 1);
        CHECK_CONTAINS(log->text, names[kind]);
        aw_runtime_free(rt);
    }
}

ON_BOTH(a_task_that_has_used_a_stream_is_reported_when_it_is_stuck) {
    for (int kind = 0; kind < 6; kind++) {
        kept_log *log = &(kept_log)KEPT_LOG;
        aw_runtime *rt = new_runtime(workers, NULL, log);
        CHECK_EQ(aw_clock_pause(rt), 0);
        run_with(rt, AW_TASK(aw_spawn_on(rt, AW_CALL(after, .kind = kind))));
        CHECK_EQ(log_count(log, "lost wake-up"), 1);
        CHECK_CONTAINS(log->text, "after at ");
        aw_runtime_free(rt);
    }
}

/* A future that was cancelled while it waited has ended: its waits do not count for the next
 * one. */
AW_ASYNC(int, second_never, int n; aw_sleep nap; aw_poll_fn never;) {
    AW_BEGIN;
    if (self->n == 0)
        AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(2)));
    else
        AW_AWAIT(self->never, aw_poll_fn_of(forget, NULL));
    AW_RETURN(0);
    AW_END;
}
AW_MAP_ASYNC(struct second_never, second_stuck, int) {
    return AW_CALL(second_never, .n = *item);
}
AW_ASYNC(int, then_stuck, AW_ARRAY_STREAM(int) s; struct second_stuck map;
         AW_TIMEOUT(aw_stream_next_future) next; aw_stream_next_future last;
         aw_stream_close_future close;) {
    AW_BEGIN;
    numbers[1] = 1;
    aw_stream_array(&self->s, numbers, 2);
    self->map = AW_ADAPTER(second_stuck, &self->s);
    do {
        AW_AWAIT_FOR(self->next, AW_USEC(200), aw_stream_next(&self->map));
    } while (self->next.out);
    AW_AWAIT(self->last, aw_stream_next(&self->map));
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->close, aw_stream_close(&self->map));
    AW_END;
}
ON_BOTH(a_future_that_was_given_up_for_a_while_does_not_hide_the_next_one) {
    kept_log *log = &(kept_log)KEPT_LOG;
    aw_runtime *rt = new_runtime(workers, NULL, log);
    CHECK_EQ(aw_clock_pause(rt), 0);
    run_with(rt, AW_TASK(aw_spawn_on(rt, AW_CALL(then_stuck))));
    CHECK_EQ(log_count(log, "lost wake-up"), 1);
    CHECK_CONTAINS(log->text, "second_never at ");
    aw_runtime_free(rt);
}

/* ---- A cancel is bounded --------------------------------------------------------------------- */

/* Waits once, and then never again: only the budget stops it. */
static aw_semaphore first = AW_SEMAPHORE_INIT(0), others = AW_SEMAPHORE_INIT(1);
AW_GENERATOR(int, endless, aw_acquire take;) {
    AW_BEGIN;
    AW_AWAIT(self->take, aw_semaphore_acquire(&first, 1));
    for (;;) {
        AW_AWAIT(self->take, aw_semaphore_acquire(&others, 1));
        aw_semaphore_release(&others, 1);
    }
    AW_END;
}
TEST(a_loop_in_a_generator_does_not_hold_up_a_cancel) {
    struct endless g = AW_GENERATE(endless);
    aw_flag *flag = calloc(1, sizeof *flag);
    aw_waker waker = aw_flag_waker(flag);
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_stream_next_future f = aw_stream_next(&g);
    CHECK_EQ(aw_future_poll(&f.future, &cx), AW_PENDING);
    CHECK_EQ(aw_semaphore_release(&first, 1), 0);
    CHECK_EQ(aw_future_cancel(&f.future, &cx), AW_CANCELLED);
    aw_stream_close_future c = aw_stream_close(&g);
    CHECK_EQ(aw_future_poll(&c.future, &cx), AW_READY);
    CHECK_EQ(aw_semaphore_available(&others), 1);
    free(flag);
}
