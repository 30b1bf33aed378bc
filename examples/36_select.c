/* SPDX-License-Identifier: MIT
 *
 * A select between a sleep and a message: continue with whichever comes first.
 *
 * The branches are members of the select, f0 and f1. When one has finished, the other is cancelled.
 * The select ends when both have ended, and aw_select_winner returns the index of the first. If
 * both finish at the same moment nothing is lost: a message that was not taken stays in its
 * channel.
 *
 * Notice the second sender: its send fails, because the receiver has closed the channel. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

typedef AW_ONESHOT(const char *) letter;

struct sender {
    AW_FRAME(void);
    letter *to;
    uint64_t after;
    aw_sleep nap;
};
AW_ASYNC_STATIC(sender) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(self->after));
    int error = aw_oneshot_send(self->to, "hello");
    printf("sender: %s\n", strerror(-error));
    AW_END;
}

struct receiver {
    AW_FRAME(void);
    letter *from;
    uint64_t timeout;
    AW_SELECT(aw_sleep, aw_oneshot_future) first;
};
AW_ASYNC_STATIC(receiver) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->first, aw_sleep_for(self->timeout), aw_oneshot_recv(self->from));
    if (aw_select_winner(&self->first) == 1) {
        printf("receiver: %s\n", self->from->value);
    } else {
        printf("receiver: timed out\n");
        aw_oneshot_close_receiver(self->from);
    }
    AW_END;
}

struct start {
    AW_FRAME(int);
    letter a, b;
    AW_JOIN(struct sender, struct receiver) both;
};
AW_ASYNC_STATIC(start) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, AW_CALL(sender, .to = &self->a, .after = AW_MSEC(10)),
                  AW_CALL(receiver, .from = &self->a, .timeout = AW_SEC(10)));
    AW_AWAIT_JOIN(self->both, AW_CALL(sender, .to = &self->b, .after = AW_MSEC(300)),
                  AW_CALL(receiver, .from = &self->b, .timeout = AW_MSEC(10)));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
