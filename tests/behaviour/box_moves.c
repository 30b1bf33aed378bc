/* SPDX-License-Identifier: MIT
 *
 * Boxes: the boxed future has memory of its own and does not move when the box does.
 * Cancellation is in cancel_*.c. */
#include <errno.h>

#include "support/memory.h"
#include "support/composites.h"

static struct memory memory;

static void use_memory(void) {
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
}

static const struct script waits = {.pends = NEVER};

TEST(a_box_may_move_between_polls_while_what_is_inside_stays) {
    use_memory();
    struct script s = {.pends = 5, .busy = true};
    aw_box boxes[2];
    boxes[0] = aw_box_new(AW_CALL(relay, .script = &s));
    aw_future *inner = boxes[0].inner;
    for (int n = 0; n < 5; n++) {
        CHECK_EQ(drive_poll(&boxes[n % 2].future), AW_PENDING);
        boxes[(n + 1) % 2] = boxes[n % 2];
        memset(&boxes[n % 2], 0x55, sizeof boxes[0]);
    }
    CHECK_EQ(drive_poll(&boxes[1].future), AW_READY);
    CHECK(boxes[1].inner == inner);
    CHECK_EQ(aw_box_take(struct relay, &boxes[1]), s.out);
    script_take(&s);
    memory_check_empty(&memory);
    ownership_check_balanced();
}

TEST(a_box_may_move_while_it_is_being_cancelled) {
    use_memory();
    struct script s = {.pends = NEVER, .cancel_pends = 3, .busy = true};
    aw_box a = aw_box_new(AW_CALL(relay, .script = &s)), b;
    CHECK_EQ(drive_poll(&a.future), AW_PENDING);
    b = a;
    CHECK_EQ(drive_cancel(&b.future), AW_PENDING);
    a = b;
    CHECK_EQ(drive_cancel(&a.future), AW_PENDING);
    b = a;
    CHECK_EQ(drive_cancel_to_end(&b.future), AW_CANCELLED);
    CHECK(b.inner == NULL);
    memory_check_empty(&memory);
    ownership_check_balanced();
}

static void poll_while_cancelled(void) {
    struct script s = {.pends = NEVER, .cancel_pends = 9};
    aw_box a = aw_box_new(leaf(&s));
    drive_poll(&a.future);
    drive_cancel(&a.future);
    aw_box b = a;
    drive_poll(&b.future);
}

TEST(a_box_that_moved_is_still_caught_when_it_is_polled_after_a_cancel) {
    DIES(poll_while_cancelled(), "was polled while it is being cancelled");
}

TEST(a_box_frees_its_memory_when_it_is_taken_freed_discarded_or_cancelled) {
    use_memory();
    struct script s[5];
    for (int i = 0; i < 5; i++)
        s[i] = (struct script){.owns = true};
    aw_box b = aw_box_new(leaf(&s[0])); /* taken */
    CHECK_EQ(memory.blocks, 1);
    CHECK_EQ(drive_poll(&b.future), AW_READY);
    CHECK_EQ(memory.blocks, 1);
    ownership_release(aw_box_take(struct leaf, &b));
    memory_check_empty(&memory);

    b = aw_box_new(leaf(&s[1])); /* read, and freed */
    CHECK_EQ(drive_poll(&b.future), AW_READY);
    ownership_release(AW_BOX_AS(struct leaf, &b)->out);
    aw_box_free(&b);
    aw_box_free(&b);
    memory_check_empty(&memory);

    b = aw_box_new(leaf(&s[2])); /* discarded */
    CHECK_EQ(drive_poll(&b.future), AW_READY);
    aw_future_discard(&b.future);
    aw_box_free(&b);
    CHECK_EQ(s[2].discards, 1);
    memory_check_empty(&memory);

    b = aw_box_new(leaf(&s[3])); /* cancelled */
    CHECK_EQ(drive_cancel(&b.future), AW_CANCELLED);
    aw_box_free(&b);
    memory_check_empty(&memory);

    b = aw_box_new(leaf(&s[4])); /* never polled, and freed */
    aw_box_free(&b);
    CHECK_EQ(s[4].cancelled, 1);
    CHECK_EQ(s[4].polls, 0);
    memory_check_empty(&memory);
    ownership_check_balanced();
}

TEST(a_box_without_memory_cancels_its_future_and_returns_enomem) {
    use_memory();
    memory_refuse(&memory);
    struct script s = {.owns = true};
    aw_box b = aw_box_new(leaf(&s));
    CHECK_EQ(s.cancelled, 1);
    CHECK_EQ(s.polls, 0);
    ownership_check_balanced();
    CHECK_EQ(drive_poll(&b.future), AW_READY);
    CHECK_EQ(b.out, -ENOMEM);
    aw_future_discard(&b.future);
    aw_box_free(&b);

    s = (struct script){.owns = true};
    b = aw_box_new(leaf(&s));
    CHECK_EQ(drive_cancel(&b.future), AW_CANCELLED);
    ownership_check_balanced();
}

typedef AW_TRY_JOIN(aw_box, struct leaf) box_and_leaf;

TEST(a_try_join_ends_when_a_box_has_no_memory) {
    use_memory();
    memory_refuse(&memory);
    struct script in_box = {.pends = NEVER}, other = {.pends = NEVER};
    box_and_leaf j = AW_TRY_JOIN_OF(box_and_leaf, aw_box_new(leaf(&in_box)), leaf(&other));
    CHECK_EQ(drive_poll(&j.future), AW_READY);
    CHECK_EQ(j.out, -ENOMEM);
    CHECK_EQ(other.cancelled, 1);
    ownership_check_balanced();
}

/* ---- Misuse ----------------------------------------------------------------------------------- */

static void free_running(void) {
    struct script s = waits;
    aw_box b = aw_box_new(leaf(&s));
    drive_poll(&b.future);
    aw_box_free(&b);
}
static void take_twice(void) {
    aw_box b = aw_box_new(aw_ready_now(1));
    drive_poll(&b.future);
    CHECK_EQ(aw_box_take(aw_ready, &b), 1);
    (void)aw_box_take(aw_ready, &b);
}
static void take_as_another(void) {
    aw_box b = aw_box_new(aw_ready_now(1));
    drive_poll(&b.future);
    (void)aw_box_take(struct leaf, &b);
}

TEST(what_cannot_be_done_with_a_box_is_caught) {
    DIES(free_running(), "a box with a running 'leaf' was freed");
    DIES(take_twice(), "the box is empty");
    DIES(take_as_another(), "the box holds a 'ready'");
}

/* ---- Recursion -------------------------------------------------------------------------------- */

AW_ASYNC(long, fib, int n; long a; aw_box box;) {
    AW_BEGIN;
    if (self->n < 2) AW_RETURN(self->n);
    AW_AWAIT(self->box, aw_box_new(AW_CALL(fib, .n = self->n - 1)));
    if (self->box.out < 0) AW_RETURN(self->box.out);
    self->a = aw_box_take(struct fib, &self->box);
    if (self->a < 0) AW_RETURN(self->a);
    AW_AWAIT(self->box, aw_box_new(AW_CALL(fib, .n = self->n - 2)));
    if (self->box.out < 0) AW_RETURN(self->box.out);
    AW_RETURN(self->a + aw_box_take(struct fib, &self->box));
    AW_END;
}

TEST(a_function_calls_itself_through_a_box) {
    use_memory();
    struct fib f = AW_CALL(fib, .n = 15);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, 610);
    memory_check_empty(&memory);
}

AW_ASYNC(int, deep, int n; struct script * s; struct leaf l; aw_box box;) {
    AW_BEGIN;
    if (self->n == 0) {
        AW_AWAIT(self->l, leaf(self->s));
        AW_RETURN(self->l.out);
    }
    AW_AWAIT(self->box, aw_box_new(AW_CALL(deep, .n = self->n - 1, .s = self->s)));
    if (self->box.out < 0) AW_RETURN(self->box.out);
    AW_RETURN(aw_box_take(struct deep, &self->box));
    AW_END;
}

TEST(a_deep_recursion_runs_and_is_cancelled) {
    enum { DEPTH = 2000 };
    use_memory();
    struct script s = {.pends = 2, .busy = true};
    struct deep f = AW_CALL(deep, .n = DEPTH, .s = &s);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, s.out);
    script_take(&s);
    memory_check_empty(&memory);

    s = (struct script){.pends = NEVER, .cancel_pends = 2, .busy = true};
    f = AW_CALL(deep, .n = DEPTH, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(memory.blocks, DEPTH);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    memory_check_empty(&memory);
    ownership_check_balanced();
}

/* ---- Arrays of different futures -------------------------------------------------------------- */

TEST(unlike_futures_in_boxes_are_joined_as_an_array) {
    use_memory();
    struct script s = {.pends = 3, .busy = true};
    aw_box list[3] = {aw_box_new(leaf(&s)), aw_box_new(aw_ready_now(4)),
                      aw_box_new(AW_CALL(fib, .n = 10))};
    aw_all all = aw_join_all(list, 3);
    CHECK_EQ(drive_poll_to_end(&all.future), AW_READY);
    ownership_release(aw_box_take(struct leaf, &list[0]));
    CHECK_EQ(aw_box_take(aw_ready, &list[1]), 4);
    CHECK_EQ(aw_box_take(struct fib, &list[2]), 55);
    memory_check_empty(&memory);
    ownership_check_balanced();
}
