/* SPDX-License-Identifier: MIT
 *
 * A frame may point into itself; therefore it stays where it is once it runs.
 *
 * `last` is kept across an await and points to a member of the same frame. Copied elsewhere, the
 * frame would have a `last` that still points into the old one. So a future can be moved freely
 * until its first poll, and not from then until its end. One that must move after all goes into a
 * box: then the box moves, and what is inside stays.
 *
 * Notice the last line: the library remembers the address of the first poll, reports the line that
 * polls the future at another one, and aborts. */
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
    aw_waker waker = aw_noop_waker(); /* polling by hand: nobody has to be woken */
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
