/* SPDX-License-Identifier: MIT
 *
 * Runs tasks until all of them wait, on both flavours. On the current thread it yields to them;
 * with workers it waits until all of these sleep. From then on the tasks do nothing until
 * another event, and this thread sees everything they did. */
#ifndef AWAKE_TEST_SETTLE_H
#define AWAKE_TEST_SETTLE_H

#include <awake.h>

#include <sched.h>

#include "test.h"
#include "sched/multi/pool.h"
#include "sched/multi/schedule.h"

/* `stamp` changes whenever a worker has been awake. */
__attribute__((unused)) static bool workers_parked(aw__pool *p, uint64_t *stamp) {
    aw__lock(&p->idle.lock);
    bool all = aw__idle_parked(aw__load_relaxed(&p->idle.word)) == p->count;
    *stamp = p->idle.parks;
    aw__unlock(&p->idle.lock);
    return all;
}

__attribute__((unused)) static bool workers_sleep(aw__pool *p) {
    uint64_t stamp, again;
    if (!workers_parked(p, &stamp)) return false;
    for (uint32_t i = 0; i < p->count; i++) {
        aw__worker *w = &p->workers[i];
        /* A due timer: the clock was advanced, and this worker is about to wake up. */
        if (aw__pinned_sent(&w->pinned) || aw__wheel_next(&w->wheel, true) <= aw_now(p->rt))
            return false;
    }
    if (aw__pool_has_work(p)) return false;
    /* No worker may have woken since, and taken work from a queue before it was checked. */
    return workers_parked(p, &again) && again == stamp;
}

/* Yields n times: tasks that were ready have then run n times. Awaited in a block_on of a
 * runtime with workers, it waits until they have nothing to do: ready tasks have run, and those
 * that they woke. */
struct rounds {
    aw_future future;
    int out;
    int remaining;
    bool settles;
};

__attribute__((unused)) static aw_poll rounds_poll(aw_future *self, aw_cx *cx) {
    struct rounds *r = (struct rounds *)self;
    aw_runtime *rt = aw_runtime_current();
    if (r->remaining-- > 0) {
        aw_cx_yield(cx);
        return AW_PENDING;
    }
    if (r->settles && rt && rt->pool && !aw__context.worker)
        while (!workers_sleep(rt->pool))
            sched_yield();
    return AW_READY;
}

__attribute__((unused)) static const aw_future_type rounds_type = {
    AW_TYPE_OF(struct rounds, "rounds"),
    .poll = rounds_poll,
};

__attribute__((unused)) static struct rounds rounds(int n) {
    return (struct rounds){AW_FUTURE_INIT(&rounds_type), 0, n, true};
}
/* Only yields, for tests that act while tasks run: with workers it does not wait for them. */
__attribute__((unused)) static struct rounds yields(int n) {
    return (struct rounds){AW_FUTURE_INIT(&rounds_type), 0, n, false};
}

/* Runs the runtime for a few rounds, so that ready tasks run. */
__attribute__((unused)) static void run_a_while(aw_runtime *rt) {
    CHECK_EQ(aw_block_on(rt, rounds(3)), 0);
}

#endif
