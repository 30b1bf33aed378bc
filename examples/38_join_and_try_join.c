/* SPDX-License-Identifier: MIT
 *
 * Several futures of different types at once, in one task: join waits for all of them, try_join
 * stops at the first error.
 *
 * The futures are members f0, f1, ... of the group, each with its own type and output. Nothing is
 * allocated. A group is a future: it can be awaited, spawned, or be part of another group.
 *
 * Notice that the connection that would take an hour is cancelled, and that its cleanup runs before
 * the try_join ends. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

AW_ASYNC(const char *, lookup, aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(50)));
    AW_RETURN("192.0.2.1");
    AW_END;
}

AW_ASYNC(double, measure, aw_sleep net;) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(AW_MSEC(20)));
    AW_RETURN(0.5);
    AW_END;
}

struct connect_to {
    AW_FRAME(int);
    const char *host;
    uint64_t takes;
    int result;
    aw_sleep net;
};
AW_ASYNC_STATIC(connect_to) {
    AW_BEGIN;
    AW_AWAIT(self->net, aw_sleep_for(self->takes));
    AW_RETURN(self->result);
    AW_FINALLY;
    printf("%s: %s\n", self->host, AW_CANCELLING ? "cancelled" : strerror(-self->result));
    AW_END;
}

AW_ASYNC(int, start, AW_JOIN(struct lookup, struct measure, aw_sleep) all;
         AW_TRY_JOIN(struct connect_to, struct connect_to) pair;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->all, AW_CALL(lookup), AW_CALL(measure), aw_sleep_for(AW_MSEC(10)));
    printf("join: %s and %g\n", self->all.f0.out, self->all.f1.out);

    AW_AWAIT_TRY_JOIN(
        self->pair,
        AW_CALL(connect_to, .host = "near", .takes = AW_MSEC(10), .result = -ECONNREFUSED),
        AW_CALL(connect_to, .host = "far", .takes = AW_SEC(3600)));
    printf("try_join: %s\n", strerror(-self->pair.out));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
