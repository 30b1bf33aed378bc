/* SPDX-License-Identifier: MIT
 *
 * Futures are lazy: calling an async function runs none of its body.
 *
 * AW_CALL(hello, ...) only fills in a `struct hello`: a value that holds the arguments and the
 * position in the body. The body runs when the future is polled. Awaiting a future polls it.
 *
 * Notice the order of the lines. The moon is never greeted: a future that was never polled owns
 * nothing, so it needs no cleanup. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(int, hello, const char *name;) {
    AW_BEGIN;
    printf("hello, %s\n", self->name);
    AW_RETURN(0);
    AW_END;
}

/* The frame, `self`, holds everything that must survive an await, also the awaited futures. */
AW_ASYNC(int, greet, struct hello world; struct hello moon;) {
    AW_BEGIN;
    self->world = AW_CALL(hello, .name = "world");
    self->moon = AW_CALL(hello, .name = "moon");
    printf("two futures exist, neither has run\n");

    AW_AWAIT_FUTURE(self->world);
    printf("one of them was awaited\n");
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    struct greet future = AW_CALL(greet);
    printf("one future exists, it has not run\n");
    return aw_run(future); /* polls it until it ends, and returns its output */
}
