/* SPDX-License-Identifier: MIT
 *
 * Wait group: a wait ends when all work is done. */
#include "support/callback_waker.h"
#include "support/by_hand.h"
#include "support/workers.h"

enum { CROWD = 30 }; /* more than one batch of wakes */

TEST(a_wait_for_an_empty_group_ends_at_once) {
    static aw_wait_group g;
    aw_flag flag = {0};
    aw_wait_group_future w = aw_wait_group_wait(&g);
    CHECK_EQ(aw_wait_group_try_wait(&g), 0);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
    CHECK_EQ(w.out, 0);
}

TEST(all_waits_end_with_the_last_that_is_done) {
    static aw_wait_group_future w[CROWD];
    static aw_flag flags[CROWD];
    aw_wait_group g = AW_WAIT_GROUP_INIT;
    CHECK_EQ(aw_wait_group_add(&g, 2), 0);
    CHECK_EQ(aw_wait_group_add(&g, 1), 0);
    for (int i = 0; i < CROWD; i++) {
        w[i] = aw_wait_group_wait(&g);
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_PENDING);
    }
    aw_wait_group_done(&g);
    aw_wait_group_done(&g);
    CHECK_EQ(aw_wait_group_count(&g), 1);
    CHECK_EQ(aw_wait_group_try_wait(&g), -EAGAIN);
    CHECK(!aw_flag_take(&flags[0]));
    aw_wait_group_done(&g);
    CHECK_EQ(aw_wait_group_add(&g, 1), 0); /* the next job: the waits have ended before it */
    for (int i = 0; i < CROWD; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&w[i], &flags[i]), AW_READY);
        CHECK_EQ(w[i].out, 0);
    }
    CHECK(!g.waiters.first);
}

static aw_wait_group *gone;
static aw_wait_group_future waits[CROWD];
static callback_waker wakers[CROWD];

/* Some waiters have been woken. The rest are cancelled here, so that no waiter remains. */
static void end_all_and_free(callback_waker *self) {
    if (self != &wakers[0]) return;
    for (int i = 0; i < CROWD; i++)
        if (CANCEL_WITH(&waits[i], &wakers[i]) == AW_CANCELLED) self->wakes += 100;
    free(gone);
}

/* The address sanitizer catches violations. */
TEST(a_group_may_be_freed_when_all_waits_have_ended_also_by_being_cancelled) {
    gone = malloc(sizeof *gone);
    CHECK(gone != NULL);
    *gone = (aw_wait_group)AW_WAIT_GROUP_INIT;
    CHECK_EQ(aw_wait_group_add(gone, 1), 0);
    for (int i = 0; i < CROWD; i++) {
        callback_waker_init(&wakers[i], end_all_and_free);
        waits[i] = aw_wait_group_wait(gone);
        CHECK_EQ(POLL_WITH(&waits[i], &wakers[i]), AW_PENDING);
    }
    aw_wait_group_done(gone);
    CHECK_GT(wakers[0].wakes, 100); /* some had not been woken */
}

TEST(a_closed_group_refuses_new_work) {
    aw_wait_group g = AW_WAIT_GROUP_INIT;
    aw_flag flag = {0};
    CHECK_EQ(aw_wait_group_add(&g, 1), 0);
    aw_wait_group_close(&g);
    CHECK_EQ(aw_wait_group_add(&g, 1), -EPIPE);
    CHECK_EQ(aw_wait_group_count(&g), 1);
    aw_wait_group_future w = aw_wait_group_wait(&g);
    CHECK_EQ(POLL(&w, &flag), AW_PENDING);
    aw_wait_group_done(&g);
    CHECK_EQ(POLL(&w, &flag), AW_READY);
    CHECK_EQ(aw_wait_group_add(&g, 1), -EPIPE);
}

TEST(too_many_and_too_few_are_noticed) {
    aw_wait_group g = AW_WAIT_GROUP_INIT;
    DIES(aw_wait_group_done(&g), "a wait group was marked done more often than added to");
    CHECK_EQ(aw_wait_group_add(&g, UINT32_MAX), 0);
    CHECK_EQ(aw_wait_group_add(&g, 1), -EOVERFLOW);
    CHECK_EQ(aw_wait_group_count(&g), UINT32_MAX);
}

/* cancel-at-every-await: aw_wait_group_wait */

TEST(a_wait_can_be_cancelled_at_any_moment) {
    aw_wait_group g = AW_WAIT_GROUP_INIT;
    aw_flag flag = {0}, other = {0};
    aw_wait_group_future never_polled = aw_wait_group_wait(&g), pending = aw_wait_group_wait(&g),
                         over = aw_wait_group_wait(&g);
    CHECK_EQ(aw_wait_group_add(&g, 1), 0);
    CHECK_EQ(CANCEL(&never_polled, &flag), AW_CANCELLED);
    CHECK_EQ(POLL(&pending, &flag), AW_PENDING);
    CHECK_EQ(POLL(&over, &flag), AW_PENDING);
    CHECK_EQ(POLL(&over, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&pending, &other), AW_CANCELLED);
    DIES(CANCEL(&pending, &other), "cancelled after it had been cancelled");
    aw_wait_group_done(&g);
    CHECK(!aw_flag_take(&flag) && aw_flag_take(&other));
    CHECK_EQ(CANCEL(&over, &flag), AW_READY);
    CHECK(!g.waiters.first);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

typedef struct work {
    aw_wait_group g;
    uint32_t finished; /* atomic */
} work;

/* Each spawns two more, three levels deep. */
AW_ASYNC(int, branches, work *w; int depth; aw_yield pause;) {
    AW_BEGIN;
    AW_AWAIT(self->pause, aw_yield_now());
    for (int i = 0; self->depth && i < 2; i++) {
        CHECK_EQ(aw_wait_group_add(&self->w->g, 1), 0);
        aw_task_detach(aw_spawn(AW_CALL(branches, .w = self->w, .depth = self->depth - 1)));
    }
    ADD(self->w->finished, 1);
    aw_wait_group_done(&self->w->g);
    AW_RETURN(0);
    AW_END;
}

/* The memory may be freed when the wait has ended: the last `done` does not touch it. */
AW_ASYNC(int, waits_and_frees, aw_runtime *rt; work * w; aw_wait_group_future wait;) {
    AW_BEGIN;
    self->w = calloc(1, sizeof *self->w);
    CHECK(self->w != NULL);
    CHECK_EQ(aw_wait_group_add(&self->w->g, 1), 0);
    aw_task_detach(aw_spawn_on(self->rt, AW_CALL(branches, .w = self->w, .depth = 3)));
    AW_AWAIT(self->wait, aw_wait_group_wait(&self->w->g));
    CHECK_EQ(LOAD(self->w->finished), 15);
    free(self->w);
    AW_RETURN(0);
    AW_END;
}

ON_BOTH(work_that_is_added_meanwhile_is_waited_for) {
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < test_scale(200); i++)
        CHECK_EQ(RUN(rt, AW_CALL(waits_and_frees, .rt = rt)), 0);
    workers_end(rt, NULL);
}

static void thread_is_done(void *arg, int index, uint64_t *random) {
    work *w = arg;
    (void)index;
    jitter(random);
    ADD(w->finished, 1);
    aw_wait_group_done(&w->g);
}

TEST(a_plain_thread_waits_for_plain_threads_and_frees_the_group) {
    uint64_t random = test_seed();
    for (int i = 0; i < test_scale(300); i++) {
        work *w = calloc(1, sizeof *w);
        CHECK(w != NULL);
        CHECK_EQ(aw_wait_group_add(&w->g, 4), 0);
        thread_group threads;
        thread_group_create(&threads, 4, &random, thread_is_done, w);
        thread_group_go(&threads);
        while (aw_wait_for(test_random(&random) % AW_USEC(50), aw_wait_group_wait(&w->g)))
            ;
        CHECK_EQ(LOAD(w->finished), 4);
        free(w);
        thread_group_join(&threads);
    }
}
