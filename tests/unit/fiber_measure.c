/* SPDX-License-Identifier: MIT
 *
 * How deep a definition uses its stacks, when that is measured. */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/dig.h"
#include "support/settle.h"
#include "test.h"

enum { SMALL = 20000, LARGE = 150000 };

AW_FIBER(int, shallow) {
    return aw_fiber_yield();
}
AW_FIBER(int, digs, size_t bytes;) {
    dig(self->bytes);
    int r = aw_fiber_yield();
    return r;
}
AW_FIBER(int, digs_too, size_t bytes;) {
    dig(self->bytes);
    return 0;
}
AW_FIBER(int, never_run) {
    return 0;
}

/* A little more than was dug for: the last call. */
static void check_about(size_t measured, size_t dug) {
    CHECK_GE(measured, dug);
    CHECK_LT(measured, dug + 4096);
}

TEST(nothing_is_measured_unless_asked_for) {
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = LARGE)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(digs), 0);
    aw_fiber_measure(true);
    aw_fiber_measure(false);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = LARGE)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(digs), 0);
}

TEST(the_deepest_use_of_a_definition_is_kept) {
    aw_fiber_measure(true);
    CHECK_EQ(AW_FIBER_HIGH_WATER(digs), 0);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = SMALL)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), SMALL);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = LARGE)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), LARGE);
    /* On the same stack, which was painted anew. */
    size_t mark = AW_FIBER_HIGH_WATER(digs);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = SMALL)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(digs), mark);
}

TEST(each_definition_has_its_own_mark) {
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = LARGE)), 0);
    CHECK_EQ(aw_run(AW_CALL(digs_too, .bytes = SMALL)), 0);
    CHECK_EQ(aw_run(AW_CALL(shallow)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), LARGE);
    check_about(AW_FIBER_HIGH_WATER(digs_too), SMALL);
    CHECK_GT(AW_FIBER_HIGH_WATER(shallow), sizeof(aw__fiber));
    CHECK_LT(AW_FIBER_HIGH_WATER(shallow), SMALL);
    CHECK_EQ(AW_FIBER_HIGH_WATER(never_run), 0);
}

static int plain(void *bytes) {
    dig(*(size_t *)bytes);
    return 0;
}

TEST(plain_functions_share_one) {
    size_t small = SMALL, large = LARGE;
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(aw_fiber_of(plain, &large)), 0);
    CHECK_EQ(aw_run(aw_fiber_of(plain, &small)), 0);
    check_about(aw_fiber_high_water(&aw_fiber_type), LARGE);
}

TEST(a_mark_stays_when_measuring_ends) {
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = SMALL)), 0);
    aw_fiber_measure(false);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = LARGE)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), SMALL);
}

/* What was begun before it was asked for cannot be measured. */
AW_FIBER(int, begins_to_measure, bool on;) {
    aw_fiber_measure(!self->on);
    struct digs *task = aw_spawn(AW_CALL(digs, .bytes = LARGE));
    CHECK_EQ(aw_await(rounds(1)), 0); /* it has dug, and waits */
    aw_fiber_measure(self->on);
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    aw_task_drop(task);
    return 0;
}

TEST(a_fiber_that_was_begun_before_is_not_measured) {
    CHECK_EQ(aw_run(AW_CALL(begins_to_measure, .on = true)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(digs), 0);
}

TEST(a_fiber_that_was_begun_meanwhile_is_measured_to_its_end) {
    CHECK_EQ(aw_run(AW_CALL(begins_to_measure, .on = false)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), LARGE);
}

AW_FIBER(int, digs_when_cancelled) {
    int r = aw_await(aw_sleep_for(AW_SEC(1000)));
    dig(LARGE);
    return r;
}

AW_FIBER(int, cancels_one) {
    struct digs_when_cancelled *task = aw_spawn(AW_CALL(digs_when_cancelled));
    CHECK_EQ(aw_await(rounds(1)), 0);
    aw_task_abort(task);
    CHECK_EQ(aw_await(aw_task_join(task)), -ECANCELED);
    aw_task_drop(task);
    return 0;
}

TEST(a_cancelled_fiber_counts_with_its_cleanup) {
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(AW_CALL(cancels_one)), 0);
    check_about(AW_FIBER_HIGH_WATER(digs_when_cancelled), LARGE);
}

/* ---- Threads ---------------------------------------------------------------------------------- */

static void *dig_on_a_thread(void *bytes) {
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = *(size_t *)bytes)), 0);
    CHECK_EQ(aw_run(AW_CALL(digs, .bytes = SMALL)), 0);
    return NULL;
}

TEST(the_deepest_of_all_threads_counts) {
    enum { COUNT = 6 };
    pthread_t threads[COUNT];
    size_t bytes[COUNT];
    aw_fiber_measure(true);
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = i == 2 ? LARGE : (size_t)(SMALL + i * 10000);
        CHECK_EQ(pthread_create(&threads[i], NULL, dig_on_a_thread, &bytes[i]), 0);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    check_about(AW_FIBER_HIGH_WATER(digs), LARGE);
}
