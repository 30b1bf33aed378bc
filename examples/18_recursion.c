/* SPDX-License-Identifier: MIT
 *
 * An async function that calls itself needs a box.
 *
 * A frame contains the frames that it awaits, so a frame cannot contain its own type: with `struct
 * factorial below` in place of the box this does not compile. A box is a pointer to a frame in
 * memory of its own. If that memory cannot be allocated, `out` of the box is -ENOMEM.
 *
 * Notice the one allocation per level, and aw_box_take, which frees it. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(long, factorial, int n; aw_box below;) {
    AW_BEGIN;
    if (self->n < 2) AW_RETURN(1);
    AW_AWAIT(self->below, aw_box_new(AW_CALL(factorial, .n = self->n - 1)));
    if (self->below.out < 0) AW_RETURN(self->below.out);

    long value = aw_box_take(struct factorial, &self->below);
    AW_RETURN(value < 0 ? value : self->n * value);
    AW_END;
}

int main(void) {
    for (int n = 0; n <= 20; n += 5)
        printf("%2d! = %ld\n", n, aw_run(AW_CALL(factorial, .n = n)));
    return 0;
}
