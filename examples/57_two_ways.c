/* SPDX-License-Identifier: MIT
 *
 * The same work as an async function and as a fiber.
 *
 * It asks a flaky server until it answers, and waits twice as long each time. In the async function
 * whatever lives across an await is a member of the frame; in the fiber it is a local. The fiber reads
 * more easily. The async function needs its frame and nothing else, known to the compiler, so that it may
 * be a member of another; the fiber needs a stack at least a page of which is real memory.
 *
 * As a rule: fibers where code is deep, or old, or calls back; async functions where there are very many,
 * and where memory counts.
 *
 * Notice the sizes. They are those of this machine. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

/* Fails for the first two attempts. */
AW_ASYNC(int, ask, int attempt; aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(1)));
    AW_RETURN(self->attempt < 3 ? -ECONNRESET : 42);
    AW_END;
}

AW_ASYNC(int, ask_async, int attempt; uint64_t pause; struct ask ask; aw_sleep nap;) {
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
    printf("  and of its stack:          %zu bytes\n", AW_FIBER_HIGH_WATER(ask_fiber));
    return 0;
}
