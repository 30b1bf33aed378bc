/* SPDX-License-Identifier: MIT
 *
 * A frame may point into itself, so it must not move once it runs.
 *
 * `last` is kept across an await and points to a member of the same frame. In a copy of the frame,
 * `last` would still point into the original. So a future may be moved freely until its first poll,
 * and not from then until its end. To move a running future, put it in a box: the box moves, and
 * the frame inside stays.
 *
 * Notice the last line: the library stores the address of the first poll, reports the line that
 * polls the future at another address, and aborts. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(void, walk, int steps[3]; int *last;) {
    AW_BEGIN;
    self->last = &self->steps[2];
    *self->last = 7;
    AW_YIELD; /* pending once */
    printf("  the last step is %d\n", *self->last);
    AW_END;
}

int main(void) {
    aw_waker waker = aw_noop_waker(); /* polled by hand: no wake is needed */
    aw_cx cx = aw_cx_from_waker(&waker);

    printf("moved before its first poll:\n");
    struct walk one = AW_CALL(walk), two = one;
    aw_future_poll(&two.future, &cx);
    aw_future_poll(&two.future, &cx);

    printf("moved in its box:\n");
    aw_box box = aw_box_new(AW_CALL(walk));
    aw_future_poll(&box.future, &cx);
    aw_box other = box;
    aw_future_poll(&other.future, &cx);
    aw_box_free(&other);

    printf("moved after its first poll:\n");
    struct walk three = AW_CALL(walk);
    aw_future_poll(&three.future, &cx);
    struct walk four = three;
    aw_future_poll(&four.future, &cx);
    return 0;
}
