/* SPDX-License-Identifier: MIT
 *
 * Recursion through boxes: deep, cancelled, and without memory. */
#include <awake.h>

#include <errno.h>
#include <stdlib.h>

#include "support/checked_waker.h"
#include "test.h"

AW_ASYNC(long, fib, int n; long sum; aw_box rest;) {
    AW_BEGIN;
    if (self->n < 2) AW_RETURN(self->n);
    AW_AWAIT(self->rest, aw_box_new(AW_CALL(fib, .n = self->n - 1)));
    if (self->rest.out < 0) AW_RETURN(self->rest.out);
    self->sum = aw_box_take(struct fib, &self->rest);
    AW_AWAIT(self->rest, aw_box_new(AW_CALL(fib, .n = self->n - 2)));
    if (self->rest.out < 0) AW_RETURN(self->rest.out);
    AW_RETURN(self->sum + aw_box_take(struct fib, &self->rest));
    AW_END;
}

TEST(a_function_calls_itself_through_a_box) {
    struct fib f = AW_CALL(fib, .n = 20);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, 6765);
}

static int inside, deepest;

/* Recurses, waits at the bottom, and returns. */
AW_ASYNC(long, dive, int depth; long below; aw_box rest;) {
    AW_BEGIN;
    if (++inside > deepest) deepest = inside;
    if (self->depth == 0) {
        AW_YIELD;
        AW_YIELD;
        AW_RETURN(0);
    }
    AW_AWAIT(self->rest, aw_box_new(AW_CALL(dive, .depth = self->depth - 1)));
    if (self->rest.out < 0) AW_RETURN(self->rest.out);
    self->below = aw_box_take(struct dive, &self->rest);
    if (self->below < 0) AW_RETURN(self->below);
    AW_RETURN(1 + self->below);
    AW_FINALLY;
    if (AW_STARTED) inside--;
    AW_END;
}

static int remaining, held;

static void *counting_alloc(void *data, size_t size) {
    (void)data;
    if (remaining-- <= 0) return NULL;
    held++;
    return malloc(size);
}
static void counting_free(void *data, void *memory, size_t size) {
    (void)data;
    (void)size;
    held--;
    free(memory);
}
static const aw_allocator counting = {counting_alloc, counting_free, NULL};

/* Polls nest on the C stack, and a sanitizer makes its frames several times as large. */
static int ten_thousand(void) {
    return test_scale(10000);
}

TEST(a_recursion_of_a_thousand_levels_waits_at_its_bottom_and_returns) {
    struct dive f = AW_CALL(dive, .depth = 1000);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, 1000);
    CHECK_EQ(deepest, 1001);
    CHECK_EQ(inside, 0);
}

TEST(a_recursion_of_ten_thousand_levels_waits_at_its_bottom_and_returns) {
    struct dive f = AW_CALL(dive, .depth = ten_thousand());
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, ten_thousand());
    CHECK_EQ(inside, 0);
}

TEST(a_deep_recursion_is_cancelled_from_its_bottom_up_and_gives_its_memory_back) {
    struct dive f = AW_CALL(dive, .depth = ten_thousand());
    aw_set_allocator(&counting);
    remaining = ten_thousand();
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(inside, ten_thousand() + 1);
    CHECK_EQ(held, ten_thousand());
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(inside, 0);
    CHECK_EQ(held, 0);
}

/* ---- Without memory -------------------------------------------------------------------------- */

TEST(a_recursion_that_runs_out_of_memory_comes_up_with_the_error_and_leaks_nothing) {
    aw_set_allocator(&counting);
    for (int allowed = 0; allowed <= 20; allowed++) {
        remaining = allowed;
        struct dive f = AW_CALL(dive, .depth = 20);
        CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
        CHECK_EQ(f.out, allowed < 20 ? -ENOMEM : 20);
        CHECK_EQ(held, 0);
        CHECK_EQ(inside, 0);
    }
}
