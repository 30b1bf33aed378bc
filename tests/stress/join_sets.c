/* SPDX-License-Identifier: MIT
 *
 * Join sets. Their tasks end on many workers and spawn more tasks into the set, while the set is
 * drained, aborted, shut down or detached. Each output is taken or discarded once. After shutdown
 * or detach, nothing accesses the set. */
#include <awake/join_set.h>

#include "support/workers.h"

struct book {
    uint32_t spawned, finished, cancelled, discarded, taken; /* atomic */
};

struct job {
    AW_FRAME(int);
    struct book *book;
    aw_join_set *set; /* to spawn into; NULL: does not spawn */
    uint64_t random;
    int yields;
    bool completed;
};
static void job_discard(aw_future *self) {
    ADD(((struct job *)self)->book->discarded, 1);
}
static void spawn(aw_join_set *set, aw_runtime *rt, struct book *book, uint64_t random, bool more);

AW_ASYNC_STATIC(job, .discard = job_discard) {
    AW_BEGIN;
    for (self->yields = (int)(test_random(&self->random) % 5); self->yields > 0; self->yields--)
        AW_YIELD;
    if (self->set && chance(&self->random, 2))
        spawn(self->set, NULL, self->book, self->random, false);
    self->completed = true;
    AW_RETURN(1);
    AW_FINALLY;
    ADD(*(self->completed ? &self->book->finished : &self->book->cancelled), 1);
    AW_END;
}

static void spawn(aw_join_set *set, aw_runtime *rt, struct book *book, uint64_t random, bool more) {
    ADD(book->spawned, 1);
    struct job *task = aw_join_set_spawn_on(
        set, rt, AW_CALL(job, .book = book, .set = more ? set : NULL, .random = random));
    int error = aw_task_error(task);
    CHECK(error == 0 || error == -ECANCELED);
}

enum how { WALK, SHUT_DOWN, DETACH, HOWS };

AW_ASYNC(int, user, struct book *book; uint64_t random; int count; enum how how; aw_join_set set;
         struct job * task; AW_SHARE(aw_join_set_next_future next; aw_join_set_shutdown_future end;
                                     AW_TIMEOUT(aw_join_set_next_future) timed;);) {
    AW_BEGIN;
    self->count = (int)(test_random(&self->random) % 20);
    self->how = (enum how)(test_random(&self->random) % HOWS);
    for (int i = 0; i < self->count; i++) /* detached tasks must not use the set */
        spawn(&self->set, NULL, self->book, test_random(&self->random), self->how != DETACH);
    if (chance(&self->random, 4)) aw_join_set_abort_all(&self->set);
    if (self->how != WALK) self->count /= 2;
    while (self->how == WALK || self->count-- > 0) {
        if (chance(&self->random, 4)) {
            AW_AWAIT_FOR(self->timed, test_random(&self->random) % AW_USEC(20),
                         aw_join_set_next(&self->set, &self->task));
            if (self->timed.out) continue;
        } else {
            AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->task));
        }
        if (!self->task) break;
        if (self->task->completed) ADD(self->book->taken, 1);
        aw_task_drop(self->task);
    }
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED && self->how == DETACH)
        aw_join_set_detach_all(&self->set);
    else if (AW_STARTED)
        AW_AWAIT(self->end, aw_join_set_shutdown(&self->set));
    memset(&self->set, 0xff, sizeof self->set);
    AW_END;
}

enum { USERS = 8 };

static void sets(uint32_t workers) {
    uint64_t random = test_seed() + workers;
    memory m;
    struct book book = {0, 0, 0, 0, 0};
    aw_runtime *rt = new_runtime(workers, &m, NULL);
    for (int round = stress_rounds(200); round > 0; round--) {
        struct user *users[USERS];
        for (int i = 0; i < USERS; i++)
            users[i] = aw_spawn_on(rt,
                                   AW_CALL(user, .book = &book, .random = test_random(&random)));
        for (int i = 0; i < USERS; i++) {
            jitter(&random);
            if (chance(&random, 4)) aw_task_abort(users[i]);
        }
        for (int i = 0; i < USERS; i++) {
            JOIN_STATUS(rt, users[i]);
            aw_task_drop(users[i]);
        }
    }
    workers_end(rt, &m);
    CHECK_EQ(book.spawned, book.finished + book.cancelled);
    CHECK_EQ(book.finished, book.taken + book.discarded);
    CHECK_GT(book.taken, 0);
    CHECK_GT(book.discarded, 0);
}
TEST_LIMIT(random_join_sets_on_the_current_thread, 60) {
    sets(0);
}
ON_WORKERS_LIMIT(random_join_sets, 60) {
    sets(workers);
}
