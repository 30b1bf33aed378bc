/* SPDX-License-Identifier: MIT
 *
 * Measuring how much stack the fibers of a definition use. */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/use_stack.h"
#include "support/settle.h"
#include "test.h"

enum { SMALL = 20000, LARGE = 150000 };

AW_FIBER(int, shallow) {
    return aw_fiber_yield();
}
AW_FIBER(int, uses_stack, size_t bytes;) {
    use_stack(self->bytes);
    int r = aw_fiber_yield();
    return r;
}
AW_FIBER(int, uses_stack_too, size_t bytes;) {
    use_stack(self->bytes);
    return 0;
}
AW_FIBER(int, never_run) {
    return 0;
}

/* A little more than requested: the last call. */
static void check_about(size_t measured, size_t used) {
    CHECK_GE(measured, used);
    CHECK_LT(measured, used + 4096);
}

TEST(nothing_is_measured_unless_asked_for) {
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = LARGE)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(uses_stack), 0);
    aw_fiber_measure(true);
    aw_fiber_measure(false);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = LARGE)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(uses_stack), 0);
}

TEST(the_deepest_use_of_a_definition_is_kept) {
    aw_fiber_measure(true);
    CHECK_EQ(AW_FIBER_HIGH_WATER(uses_stack), 0);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = SMALL)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), SMALL);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = LARGE)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), LARGE);
    /* On the same stack, which was painted anew. */
    size_t mark = AW_FIBER_HIGH_WATER(uses_stack);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = SMALL)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(uses_stack), mark);
}

TEST(each_definition_has_its_own_mark) {
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = LARGE)), 0);
    CHECK_EQ(aw_run(AW_CALL(uses_stack_too, .bytes = SMALL)), 0);
    CHECK_EQ(aw_run(AW_CALL(shallow)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), LARGE);
    check_about(AW_FIBER_HIGH_WATER(uses_stack_too), SMALL);
    CHECK_GT(AW_FIBER_HIGH_WATER(shallow), sizeof(aw__fiber));
    CHECK_LT(AW_FIBER_HIGH_WATER(shallow), SMALL);
    CHECK_EQ(AW_FIBER_HIGH_WATER(never_run), 0);
}

static int plain(void *bytes) {
    use_stack(*(size_t *)bytes);
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
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = SMALL)), 0);
    aw_fiber_measure(false);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = LARGE)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), SMALL);
}

/* A fiber that started before the measurement is not measured. */
AW_FIBER(int, begins_to_measure, bool on;) {
    aw_fiber_measure(!self->on);
    struct uses_stack *task = aw_spawn(AW_CALL(uses_stack, .bytes = LARGE));
    CHECK_EQ(aw_await(rounds(1)), 0); /* it has used its stack, and waits */
    aw_fiber_measure(self->on);
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    aw_task_drop(task);
    return 0;
}

TEST(a_fiber_that_was_begun_before_is_not_measured) {
    CHECK_EQ(aw_run(AW_CALL(begins_to_measure, .on = true)), 0);
    CHECK_EQ(AW_FIBER_HIGH_WATER(uses_stack), 0);
}

TEST(a_fiber_that_was_begun_meanwhile_is_measured_to_its_end) {
    CHECK_EQ(aw_run(AW_CALL(begins_to_measure, .on = false)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), LARGE);
}

AW_FIBER(int, uses_stack_when_cancelled) {
    int r = aw_await(aw_sleep_for(AW_SEC(1000)));
    use_stack(LARGE);
    return r;
}

AW_FIBER(int, cancels_one) {
    struct uses_stack_when_cancelled *task = aw_spawn(AW_CALL(uses_stack_when_cancelled));
    CHECK_EQ(aw_await(rounds(1)), 0);
    aw_task_abort(task);
    CHECK_EQ(aw_await(aw_task_join(task)), -ECANCELED);
    aw_task_drop(task);
    return 0;
}

TEST(a_cancelled_fiber_counts_with_its_cleanup) {
    aw_fiber_measure(true);
    CHECK_EQ(aw_run(AW_CALL(cancels_one)), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack_when_cancelled), LARGE);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *use_stack_on_a_thread(void *bytes) {
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = *(size_t *)bytes)), 0);
    CHECK_EQ(aw_run(AW_CALL(uses_stack, .bytes = SMALL)), 0);
    return NULL;
}

TEST(the_deepest_of_all_threads_counts) {
    enum { COUNT = 6 };
    pthread_t threads[COUNT];
    size_t bytes[COUNT];
    aw_fiber_measure(true);
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = i == 2 ? LARGE : (size_t)(SMALL + i * 10000);
        CHECK_EQ(pthread_create(&threads[i], NULL, use_stack_on_a_thread, &bytes[i]), 0);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    check_about(AW_FIBER_HIGH_WATER(uses_stack), LARGE);
}
