/* SPDX-License-Identifier: MIT
 *
 * Futures are lazy: calling an async function runs nothing of it.
 *
 * AW_CALL(hello, ...) only fills in a `struct hello`: a value, with the arguments and a note of
 * where the body stands. The body runs when the future is polled, and awaiting it is what polls it.
 *
 * Notice the order of the lines, and that nobody greets the moon: a future that was never polled
 * has acquired nothing, so it can simply be forgotten. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(int, hello, const char *name;) {
    AW_BEGIN;
    printf("hello, %s\n", self->name);
    AW_RETURN(0);
    AW_END;
}

/* What has to survive an await is a member of the frame, `self`: also the futures to await. */
AW_ASYNC(int, greet, struct hello world; struct hello moon;) {
    AW_BEGIN;
    self->world = AW_CALL(hello, .name = "world");
    self->moon = AW_CALL(hello, .name = "moon");
    printf("there are two futures, and nothing was printed\n");

    AW_AWAIT_FUTURE(self->world);
    printf("one of them was awaited\n");
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    struct greet future = AW_CALL(greet);
    printf("there is one future, and nothing was printed\n");
    return aw_run(future); /* polls it until it has ended, and returns its output */
}
