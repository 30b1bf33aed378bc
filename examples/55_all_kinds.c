/* SPDX-License-Identifier: MIT
 *
 * Fibers and async functions await each other, and neither depends on what the other is.
 *
 * An async function is small, and its frame can be part of the frame that awaits it. A fiber can
 * wait inside existing code and callbacks. So each part of a program can be the kind that suits it.
 * Here `start`, an async function, awaits a join of both kinds. `serve`, a fiber, calls a plain
 * function, which awaits `fetch`, an async function. `fetch` awaits a sleep.
 *
 * Notice the await chain, which goes through all of them, with the lines where they wait. */
#include <awake.h>
#include <stdio.h>

AW_ASYNC(int, fetch, int n; aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(20)));
    AW_RETURN(self->n * 10);
    AW_END;
}

static int fetch_both(int a, int b) {
    int first = aw_await(AW_CALL(fetch, .n = a)); /* its frame is on this stack */
    if (first < 0) return first;
    int second = aw_await(AW_CALL(fetch, .n = b));
    return second < 0 ? second : first + second;
}

AW_FIBER(int, serve, int n;) {
    return fetch_both(self->n, self->n + 1);
}

AW_ASYNC(int, start, AW_JOIN(struct fetch, struct serve) both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, AW_CALL(fetch, .n = 1), AW_CALL(serve, .n = 2));
    printf("fetch: %d, serve: %d\n", self->both.f0.out, self->both.f1.out);
    AW_RETURN(0);
    AW_END;
}

/* Prints the await chain of `start` while it waits. */
AW_FIBER(int, inspect, struct start *start;) {
    char text[1000];
    int error = aw_await(aw_sleep_for(AW_MSEC(5)));
    if (error) return error;
    aw_future_describe(&self->start->future, text, sizeof text);
    printf("%s", text);
    return 0;
}

AW_FIBER(int, show) {
    struct start *start = aw_spawn(AW_CALL(start));
    int error = aw_await(AW_CALL(inspect, .start = start)); /* a fiber in a fiber */
    if (!error) error = aw_await(aw_task_join(start));
    aw_task_drop(start);
    return error;
}

int main(void) {
    return aw_run(AW_CALL(show));
}
