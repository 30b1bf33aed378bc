/* SPDX-License-Identifier: MIT
 *
 * A paused clock and aw_block_in_place: the clock moves while a call in place waits, whatever else
 * is ready, and stands still while the call works. */
#include <awake.h>

#include "support/workers.h"

static aw_runtime *paused_runtime(uint32_t workers) {
    aw_runtime_options o = workers_options(workers, NULL, NULL);
    aw_runtime *rt;
    o.paused = true;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static long sleep_twice(void *arg) {
    aw_runtime *rt = arg;
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_SEC(3600))), 0);
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(3600));
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(3600))), 0);
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(7200));
    sched_yield();
    CHECK_EQ(aw_now(rt) - begin, AW_SEC(7200));
    return 7;
}

AW_ASYNC(int, in_place, aw_runtime *rt;) {
    AW_BEGIN;
    AW_RETURN((int)aw_block_in_place(sleep_twice, self->rt));
    AW_END;
}

ON_WORKERS(the_clock_moves_while_the_main_future_waits_in_place) {
    aw_runtime *rt = paused_runtime(workers);
    CHECK_EQ(aw_block_on(rt, AW_CALL(in_place, .rt = rt)), 7);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0); /* nothing holds the runtime any more */
    aw_runtime_free(rt);
}

/* The ready task runs only when the call returns: the only worker makes the call. */
AW_ASYNC(int, ready_task, uint32_t *ran;) {
    AW_BEGIN;
    aw__store_release(self->ran, 1u);
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, in_place_beside_a_ready_task, aw_runtime *rt; uint32_t * ran; int result;) {
    AW_BEGIN;
    aw_task_detach(aw_spawn(AW_CALL(ready_task, .ran = self->ran)));
    self->result = (int)aw_block_in_place(sleep_twice, self->rt);
    CHECK_EQ(aw__load_acquire(self->ran), 0);
    AW_RETURN(self->result);
    AW_END;
}

TEST(the_clock_moves_while_every_worker_waits_in_place_though_a_task_is_ready) {
    aw_runtime *rt = paused_runtime(1);
    uint32_t ran = 0;
    struct in_place_beside_a_ready_task *h = aw_spawn_on(
        rt, AW_CALL(in_place_beside_a_ready_task, .rt = rt, .ran = &ran));
    CHECK_EQ(aw_block_on(rt, aw_task_join(h)), 0);
    CHECK_EQ(aw_task_take(h), 7);
    CHECK_EQ(aw_block_on(rt, aw_sleep_for(AW_SEC(1))), 0);
    CHECK_EQ(aw__load_acquire(&ran), 1);
    aw_runtime_free(rt);
}
