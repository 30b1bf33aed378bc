/* SPDX-License-Identifier: MIT
 *
 * The same work as an async function and as a fiber.
 *
 * It asks an unreliable server until it answers, and doubles the pause after each attempt. In the
 * async function, everything that lives across an await is a member of the frame; in the fiber it
 * is a local. The fiber is easier to read. The async function needs only its frame. The size of a
 * frame is known at compile time, so it can be a member of another frame. The fiber needs a stack,
 * of which at least one page is real memory.
 *
 * As a rule: use fibers for deep code, existing code and callbacks. Use async functions where there
 * are very many, and where memory matters.
 *
 * Notice the sizes. They are those of this machine. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

/* The first two attempts fail. */
AW_ASYNC(int, ask, int attempt; aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(self->attempt < 3 ? -ECONNRESET : 42);
    AW_END;
}

struct ask_async {
    AW_FRAME(int);
    int attempt;
    uint64_t pause;
    struct ask ask;
    aw_sleep nap;
};
AW_ASYNC_STATIC(ask_async) {
    AW_BEGIN;
    for (self->attempt = 1, self->pause = AW_MSEC(1); self->attempt < 10; self->attempt++) {
        AW_AWAIT(self->ask, AW_CALL(ask, .attempt = self->attempt));
        if (self->ask.out >= 0) break;
        AW_AWAIT(self->nap, aw_sleep_for(self->pause));
        self->pause *= 2;
    }
    printf("%d attempts\n", self->attempt);
    AW_RETURN(self->ask.out);
    AW_END;
}

AW_FIBER(int, ask_fiber) {
    uint64_t pause = AW_MSEC(1);
    int answer = -ECONNRESET, attempt;
    for (attempt = 1; attempt < 10; attempt++) {
        answer = aw_await(AW_CALL(ask, .attempt = attempt));
        if (answer >= 0 || aw_cancelled()) break;
        aw_await(aw_sleep_for(pause));
        pause *= 2;
    }
    printf("%d attempts\n", attempt);
    return answer;
}

int main(void) {
    aw_fiber_measure(true);
    printf("as an async function: %d\n", aw_run(AW_CALL(ask_async)));
    printf("as a fiber: %d\n\n", aw_run(AW_CALL(ask_fiber)));

    printf("frame of the async function: %zu bytes\n", sizeof(struct ask_async));
    printf("frame of the fiber:          %zu bytes\n", sizeof(struct ask_fiber));
    printf("stack used by the fiber:     %zu bytes\n", AW_FIBER_HIGH_WATER(ask_fiber));
    return 0;
}
