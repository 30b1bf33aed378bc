/* SPDX-License-Identifier: MIT
 *
 * sync/semaphore.c and future/waiters.h under every schedule: a permit has one holder at a time,
 * none is lost, and the holder of the last one may free the semaphore. A batch of wakes holds
 * one waker, so that two wakes need more than one batch. */
#include "support/model.h"

#define AW__WAKES 1
#include "support/model_waiting.h"
#include "sync/semaphore.c"

static aw_semaphore *sem;
static aw_acquire futures[MODEL_THREADS];
static int count, gone;

static void setup_permits(uint32_t permits) {
    setup_waiting();
    sem = model_alloc(sizeof *sem);
    *sem = aw_semaphore_of(permits);
    memset(futures, 0, sizeof futures);
    count = gone = 0;
}
static void setup_none(void) {
    setup_permits(0);
}
static void setup_one(void) {
    setup_permits(1);
}

static aw_acquire *acquire(uint32_t permits) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, permits);
    wait_for(&f->future);
    return f;
}

static void permits_are(uint32_t permits) {
    model_check(sem->state == permits * SEM_PERMIT && !sem->lock);
    model_check(!sem->waiters.first && !sem->waiters.last);
}

/* ---- One permit ------------------------------------------------------------------------------ */

static void use(void) {
    model_write(&count, model_read(&count) + 1);
    model_check(aw_semaphore_release(sem, 1) == 0);
}
static void wait_and_use(void) {
    model_check(acquire(1)->out == 0);
    use();
}
static void try_and_use(void) {
    if (aw_semaphore_try_acquire(sem, 1) == 0) use();
}
/* Cancels if it would have to wait. */
static void acquire_or_cancel_and_use(void) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, 1);
    aw_poll r = poll_once(&f->future);
    if (r == AW_PENDING) r = cancel_once(&f->future);
    if (r == AW_READY) use();
}
static void one_is_there(void) {
    permits_are(1);
}

MODEL(a_permit_is_with_one_at_a_time, .setup = setup_one,
      .threads = {wait_and_use, wait_and_use, wait_and_use}, .check = one_is_there, .stale = 1)
MODEL(a_permit_is_with_one_at_a_time_with_try_acquire, .setup = setup_one,
      .threads = {wait_and_use, wait_and_use, try_and_use}, .check = one_is_there, .stale = 1)
MODEL(a_cancelled_acquire_passes_its_permit_on, .setup = setup_one,
      .threads = {wait_and_use, acquire_or_cancel_and_use, wait_and_use}, .check = one_is_there,
      .stale = 1)

/* ---- Several permits ------------------------------------------------------------------------- */

static void release_one(void) {
    model_check(aw_semaphore_release(sem, 1) == 0);
}
static void release_two(void) {
    model_check(aw_semaphore_release(sem, 2) == 0);
}
static void acquire_one(void) {
    model_check(acquire(1)->out == 0);
}
static void want_two_and_give_up(void) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, 2);
    if (poll_once(&f->future) == AW_PENDING && cancel_once(&f->future) == AW_CANCELLED) return;
    aw_future_discard(&f->future);
}
static void none_is_there(void) {
    permits_are(0);
}

MODEL(one_release_serves_two, .setup = setup_none,
      .threads = {acquire_one, acquire_one, release_two}, .check = none_is_there, .stale = 1)
MODEL(a_cancelled_large_acquire_unblocks_those_behind_it, .setup = setup_one,
      .threads = {want_two_and_give_up, acquire_one, want_two_and_give_up}, .check = none_is_there,
      .stale = 1)

/* The permits that remain after the waiters were served. */
static void write_and_release_two(void) {
    model_write(&count, 1);
    release_two();
}
static void try_and_look(void) {
    if (aw_semaphore_try_acquire(sem, 1) == 0) model_check(model_read(&count) == 1);
}

MODEL(remaining_permits_carry_what_was_done_before_the_release, .setup = setup_none,
      .threads = {acquire_one, write_and_release_two, try_and_look}, .preemptions = 1)

/* ---- Closing --------------------------------------------------------------------------------- */

static void acquire_or_find_closed(void) {
    int out = acquire(1)->out;
    model_check(out == 0 || out == -EPIPE);
    if (out == 0) aw__fetch_add(&count, 1);
}
static void close_it(void) {
    aw_semaphore_close(sem);
    model_check(aw_semaphore_try_acquire(sem, 1) == -EPIPE);
}
static void permits_are_somewhere(void) {
    model_check(sem->state == (uint32_t)((1 - count) * SEM_PERMIT | SEM_CLOSED) &&
                !sem->waiters.first);
}

MODEL(closing_ends_all_waits, .setup = setup_none,
      .threads = {acquire_or_find_closed, acquire_or_find_closed, close_it, release_one},
      .check = permits_are_somewhere, .preemptions = 1, .stale = 1)

/* ---- Freeing --------------------------------------------------------------------------------- */

static void wait_for_two_and_free(void) {
    model_check(acquire(2)->out == 0);
    model_free(sem);
}
/* The cancelled wait leaves the queue empty while a release is about to look at it. */
static void give_up_then_take(void) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, 1);
    aw_poll r = poll_once(&f->future);
    if (r == AW_PENDING) r = cancel_once(&f->future);
    if (r == AW_CANCELLED)
        while (aw_semaphore_try_acquire(sem, 1))
            model_yield();
}
static void give_up_then_take_and_free(void) {
    give_up_then_take();
    model_free(sem);
}
/* In the end each thread has one permit of the same release. The second may have cancelled a
 * wait before. */
static void leave(void) {
    if (aw__fetch_add(&gone, 1) == 1) model_free(sem);
}
static void take_one_and_leave(void) {
    model_check(acquire(1)->out == 0);
    leave();
}
static void give_up_then_take_and_leave(void) {
    give_up_then_take();
    leave();
}

/* The second may cancel while the release is between two wakes; then there are no more waiters. */
static void give_up_and_leave(void) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, 1);
    if (poll_once(&f->future) == AW_PENDING) cancel_once(&f->future);
    leave();
}

MODEL(the_last_of_two_may_free_it_when_one_gives_up, .setup = setup_none,
      .threads = {take_one_and_leave, give_up_and_leave, release_two}, .stale = 1)
MODEL(a_waiter_for_all_permits_may_free_it, .setup = setup_none,
      .threads = {wait_for_two_and_free, release_one, release_one}, .stale = 1)
MODEL(a_cancelled_waiter_that_acquires_later_may_free_it, .setup = setup_none,
      .threads = {give_up_then_take_and_free, release_one}, .preemptions = 4)
MODEL(the_last_of_two_may_free_it, .setup = setup_none,
      .threads = {take_one_and_leave, give_up_then_take_and_leave, release_two}, .stale = 1)

/* ---- Mistakes -------------------------------------------------------------------------------- */

/* Takes permits without checking the lock. */
static void give_up_then_grab_and_free(void) {
    aw_acquire *f = &futures[model_self()];
    *f = aw_semaphore_acquire(sem, 1);
    aw_poll r = poll_once(&f->future);
    if (r == AW_PENDING) r = cancel_once(&f->future);
    if (r == AW_CANCELLED)
        for (uint32_t one = SEM_PERMIT; !aw__cas(&sem->state, &one, 0u); one = SEM_PERMIT)
            model_yield();
    model_free(sem);
}
static void release_without_check(void) {
    aw__fetch_add(&sem->state, (uint32_t)SEM_PERMIT);
}

MODEL_BROKEN(taking_permits_without_checking_the_lock_frees_it_too_early, "free",
             .setup = setup_none, .threads = {give_up_then_grab_and_free, release_one},
             .preemptions = 4)
MODEL_BROKEN(a_release_that_ignores_waiters_leaves_one_stuck, "deadlock", .setup = setup_none,
             .threads = {acquire_one, release_without_check})

/* ---- Orders ---------------------------------------------------------------------------------- */

/* What a permit guards is passed on from the addition (release) to the subtraction (acquire),
 * or, through the queue, by the lock. */
static const struct model_harmless harmless[] = {
    {"semaphore_take_or_queue", "aw__cas(", "release", "taking permits passes on nothing"},
    {"semaphore_take_or_queue", "aw__cas(", "failure", "it is tried again"},
    {"semaphore_add", "aw__cas(", "acquire", "releasing permits acquires nothing"},
    {"semaphore_add", "aw__cas(", "failure", "likewise"},
    {"aw_semaphore_try_acquire", "aw__cas(", "release", "taking permits passes on nothing"},
    {"aw_semaphore_try_acquire", "aw__cas(", "failure", "it is tried again"},
    {0}};
static const struct model_harmless of_waiting[] = {
    {"aw__wait_began", "aw__load_acquire(", "acquire", "only its own thread changes FRESH"},
    {"aw__wakes_flush", "aw__exchange(", "release", "a reader of WAITING takes the lock next"},
    {"aw__wakes_flush", "aw__exchange(", "acquire",
     "it is for the stack frame of `busy`; its end is not modelled"},
    {"aw__waiters_drop_busy", "aw__exchange(", "release", "likewise"},
    {"aw__waiters_drop_busy", "aw__exchange(", "acquire",
     "a reader of WAITING takes the lock next"},
    {0}};

MODEL_ORDERS(the_orders_of_the_semaphore, "sync/semaphore.c", harmless,
             &model_a_permit_is_with_one_at_a_time,
             &model_a_permit_is_with_one_at_a_time_with_try_acquire,
             &model_a_cancelled_acquire_passes_its_permit_on,
             &model_a_waiter_for_all_permits_may_free_it,
             &model_a_cancelled_waiter_that_acquires_later_may_free_it,
             &model_remaining_permits_carry_what_was_done_before_the_release)
MODEL_ORDERS(the_orders_of_waiting, "future/waiters.h", of_waiting,
             &model_a_permit_is_with_one_at_a_time, &model_a_cancelled_acquire_passes_its_permit_on,
             &model_a_waiter_for_all_permits_may_free_it, &model_one_release_serves_two,
             &model_the_last_of_two_may_free_it_when_one_gives_up)
