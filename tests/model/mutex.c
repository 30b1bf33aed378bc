/* SPDX-License-Identifier: MIT
 *
 * sync/mutex.c under every schedule: one holder at a time, no waiter is stuck, and the thread
 * that unlocks last may free it. */
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
/* Cancels if it would have to wait. True: it has the mutex nevertheless. */
static bool lock_or_cancel(void) {
    aw_mutex_lock_future *f = &futures[model_self()];
    *f = aw_mutex_lock(mutex);
    return poll_once(&f->future) == AW_READY || cancel_once(&f->future) == AW_READY;
}
static void lock_or_cancel_and_use(void) {
    if (lock_or_cancel()) use();
}
static void it_is_free(void) {
    model_check(!mutex->word && !mutex->lock && !mutex->waiters.first && !mutex->waiters.last);
    model_check(!mutex->holder);
}

MODEL(one_at_a_time, .setup = setup, .threads = {wait_and_use, wait_and_use, wait_and_use},
      .check = it_is_free, .stale = 1)
MODEL(one_at_a_time_with_try_lock, .setup = setup,
      .threads = {wait_and_use, wait_and_use, try_and_use}, .check = it_is_free, .stale = 1)
MODEL(a_cancelled_lock_leaves_no_waiter_stuck, .setup = setup,
      .threads = {wait_and_use, lock_or_cancel_and_use, wait_and_use}, .check = it_is_free,
      .stale = 1)

/* ---- Freeing --------------------------------------------------------------------------------- */

/* The last user frees what the mutex guards, and the mutex with it. */
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
static void lock_or_cancel_and_leave(void) {
    if (!lock_or_cancel()) wait_for_it();
    unlock_and_leave();
}

MODEL(the_last_of_three_may_free_it, .setup = setup_three,
      .threads = {wait_and_leave, wait_and_leave, lock_or_cancel_and_leave}, .stale = 1)
MODEL(the_last_of_two_may_free_it, .setup = setup_two,
      .threads = {wait_and_leave, lock_or_cancel_and_leave}, .preemptions = 4)

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Makes the mutex free while the lock of its queue is still held. */
static void wait_and_leave_wrongly(void) {
    wait_for_it();
    model_write(&users, model_read(&users) - 1);
    bool last = model_read(&users) == 0;
    uint32_t word = MUTEX_LOCKED;
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
             .threads = {wait_and_leave_wrongly, lock_or_cancel_and_leave}, .preemptions = 4)

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Guarded data is passed on from the unlock (release) to the lock (acquire), or by the lock of
 * the queue. */
static const struct model_harmless harmless[] = {
    {"mutex_try_take", "aw__cas(", "release", "locking passes on nothing"},
    {"mutex_try_take", "aw__cas(", "failure", "nothing was taken"},
    {"hand_over", "aw__fetch_and(", "acquire", "a bit that is guarded by the lock"},
    {"hand_over", "aw__fetch_and(", "release", "likewise"},
    {"lock_cancel", "aw__fetch_and(", "acquire", "likewise"},
    {"lock_cancel", "aw__fetch_and(", "release", "likewise"},
    {"mutex_take_or_queue", "aw__cas(", "release", "locking passes on nothing"},
    {"mutex_take_or_queue", "aw__cas(", "failure", "it is tried again"},
    {"aw_mutex_unlock", "aw__cas(", "acquire", "unlocking acquires nothing"},
    {"aw_mutex_unlock", "aw__cas(", "failure", "likewise"},
    {0}};

/* Fewer preemptions suffice to show a missing order. */
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
static const struct model of_a_cancel = {
    .setup = setup,
    .threads = {wait_and_use, lock_or_cancel_and_use, wait_and_use},
    .check = it_is_free,
    .preemptions = 1,
    .stale = 1};

MODEL_ORDERS(the_orders_of_the_mutex, "sync/mutex.c", harmless, &of_three, &of_two_and_a_try,
             &of_a_cancel, &model_the_last_of_two_may_free_it)
