/* SPDX-License-Identifier: MIT
 *
 * sync/mutex.c under every schedule: one at a time, nobody is left waiting, and who has unlocked last may free it. */
#include "support/model.h"

#include "support/model_waiting.h"
#include "sync/mutex.c"

static aw_mutex *mutex;
static aw_mutex_lock_future futures[MODEL_THREADS];
static int count, users;

static void setup_users(int n) {
    setup_waiting();
    mutex = model_alloc(sizeof *mutex);
    memset(futures, 0, sizeof futures);
    count = 0;
    users = n;
}
static void setup(void) {
    setup_users(0);
}
static void setup_two(void) {
    setup_users(2);
}
static void setup_three(void) {
    setup_users(3);
}

static void use(void) {
    model_write(&count, model_read(&count) + 1);
    aw_mutex_unlock(mutex);
}
static void wait_for_it(void) {
    aw_mutex_lock_future *f = &futures[model_self()];
    *f = aw_mutex_lock(mutex);
    wait_for(&f->future);
    model_check(f->out == 0);
}
static void wait_and_use(void) {
    wait_for_it();
    use();
}
static void try_and_use(void) {
    if (aw_mutex_try_lock(mutex) == 0) use();
}
/* Gives up when it would have to wait: true if it has it all the same. */
static bool hurry(void) {
    aw_mutex_lock_future *f = &futures[model_self()];
    *f = aw_mutex_lock(mutex);
    return poll_once(&f->future) == AW_READY || cancel_once(&f->future) == AW_READY;
}
static void hurry_and_use(void) {
    if (hurry()) use();
}
static void it_is_free(void) {
    model_check(!mutex->word && !mutex->lock && !mutex->waiters.first && !mutex->waiters.last);
    model_check(!mutex->holder);
}

MODEL(one_at_a_time, .setup = setup, .threads = {wait_and_use, wait_and_use, wait_and_use},
      .check = it_is_free, .stale = 1)
MODEL(one_at_a_time_for_those_who_do_not_wait, .setup = setup,
      .threads = {wait_and_use, wait_and_use, try_and_use}, .check = it_is_free, .stale = 1)
MODEL(who_gives_up_leaves_nobody_waiting, .setup = setup,
      .threads = {wait_and_use, hurry_and_use, wait_and_use}, .check = it_is_free, .stale = 1)

/* ---- It may be gone --------------------------------------------------------------------------- */

/* The last user frees what the mutex guards, and with it the mutex. */
static void unlock_and_leave(void) {
    model_write(&users, model_read(&users) - 1);
    bool last = model_read(&users) == 0;
    aw_mutex_unlock(mutex);
    if (last) model_free(mutex);
}
static void wait_and_leave(void) {
    wait_for_it();
    unlock_and_leave();
}
static void hurry_and_leave(void) {
    if (!hurry()) wait_for_it();
    unlock_and_leave();
}

MODEL(the_last_of_three_may_free_it, .setup = setup_three,
      .threads = {wait_and_leave, wait_and_leave, hurry_and_leave}, .stale = 1)
MODEL(the_last_of_two_may_free_it, .setup = setup_two, .threads = {wait_and_leave, hurry_and_leave},
      .preemptions = 4)

/* ---- Mistakes --------------------------------------------------------------------------------- */

/* Makes it free while the lock of the queue is still to be given back. */
static void wait_and_leave_wrongly(void) {
    wait_for_it();
    model_write(&users, model_read(&users) - 1);
    bool last = model_read(&users) == 0;
    uint32_t word = LOCKED;
    aw__store_relaxed(&mutex->holder, (uint64_t)0);
    if (!aw__cas(&mutex->word, &word, 0u)) {
        aw__wakes wakes = {.count = 0};
        aw__lock(&mutex->lock);
        if (mutex->waiters.first)
            hand_over(mutex, &wakes);
        else
            aw__store_release(&mutex->word, 0u);
        aw__unlock(&mutex->lock);
        aw__wakes_run(&wakes);
    }
    if (last) model_free(mutex);
}

MODEL_BROKEN(a_mutex_that_is_free_before_its_queue_is, "free", .setup = setup_two,
             .threads = {wait_and_leave_wrongly, hurry_and_leave}, .preemptions = 4)

/* ---- Orders ----------------------------------------------------------------------------------- */

/* What it guards is passed on from the unlock (release) to the lock (acquire), or by the lock of the queue. */
static const struct model_harmless harmless[] = {
    {"take", "aw__cas(", "release", "who locks has nothing to tell"},
    {"take", "aw__cas(", "failure", "nothing was taken"},
    {"hand_over", "aw__fetch_and(", "acquire", "a bit that goes with the lock"},
    {"hand_over", "aw__fetch_and(", "release", "likewise"},
    {"lock_cancel", "aw__fetch_and(", "acquire", "likewise"},
    {"lock_cancel", "aw__fetch_and(", "release", "likewise"},
    {"take_or_queue", "aw__cas(", "release", "who locks has nothing to tell"},
    {"take_or_queue", "aw__cas(", "failure", "it is tried again"},
    {"aw_mutex_unlock", "aw__cas(", "acquire", "who unlocks has nothing to learn"},
    {"aw_mutex_unlock", "aw__cas(", "failure", "likewise"},
    {0}};

/* Fewer preemptions are enough to miss any of them. */
static const struct model of_three = {.setup = setup,
                                      .threads = {wait_and_use, wait_and_use, wait_and_use},
                                      .check = it_is_free,
                                      .preemptions = 1,
                                      .stale = 1};
static const struct model of_two_and_a_try = {.setup = setup,
                                              .threads = {wait_and_use, wait_and_use, try_and_use},
                                              .check = it_is_free,
                                              .preemptions = 1,
                                              .stale = 1};
static const struct model of_a_hurry = {.setup = setup,
                                        .threads = {wait_and_use, hurry_and_use, wait_and_use},
                                        .check = it_is_free,
                                        .preemptions = 1,
                                        .stale = 1};

MODEL_ORDERS(the_orders_of_the_mutex, "sync/mutex.c", harmless, &of_three, &of_two_and_a_try,
             &of_a_hurry, &model_the_last_of_two_may_free_it)
