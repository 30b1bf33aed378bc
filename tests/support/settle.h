/* SPDX-License-Identifier: MIT
 *
 * Letting tasks run until they wait, on both flavours: by taking turns with them where they run on this thread, and
 * beside workers by waiting until these sleep. Nothing happens in their tasks then until somebody does something,
 * and this thread sees what they did. */
#ifndef AWAKE_TEST_SETTLE_H
#define AWAKE_TEST_SETTLE_H

#include <awake.h>

#include <sched.h>

#include "test.h"
#include "workers/pool.h"

/* The stamp is another one as soon as a worker was awake. */
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
        /* What is due will be seen by a worker that only seems to sleep: the clock was advanced. */
        if (aw__pinned_sent(&w->pinned) || aw__wheel_next(&w->wheel, true) <= aw_now(p->rt))
            return false;
    }
    if (aw__pool_anything(p)) return false;
    /* Nor has one woken up since, and taken what was in a queue before we looked there. */
    return workers_parked(p, &again) && again == stamp;
}

/* Yields n times: whatever was ready before has then run n times. Awaited in a block_on beside workers, it waits
 * until they have nothing to do: what was ready has run, and what that made ready. */
struct rounds {
    aw_future future;
    int out;
    int left;
    bool settles;
};

__attribute__((unused)) static aw_poll rounds_poll(aw_future *self, aw_cx *cx) {
    struct rounds *r = (struct rounds *)self;
    aw_runtime *rt = aw_runtime_current();
    if (r->left-- > 0) {
        aw_cx_yield(cx);
        return AW_PENDING;
    }
    if (r->settles && rt && rt->pool && !aw__thread.worker)
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
/* Only yields, for who wants to be in the middle of it: beside workers it waits for nobody. */
__attribute__((unused)) static struct rounds yields(int n) {
    return (struct rounds){AW_FUTURE_INIT(&rounds_type), 0, n, false};
}

/* Run a runtime for a few rounds, so that what is ready runs. */
__attribute__((unused)) static void run_a_while(aw_runtime *rt) {
    CHECK_EQ(aw_block_on(rt, rounds(3)), 0);
}

#endif
