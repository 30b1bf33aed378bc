/* SPDX-License-Identifier: MIT
 *
 * A select between a sleep and a message: go on with whichever comes first.
 *
 * The branches are members of the select, f0 and f1. As soon as one has finished the other is cancelled,
 * and when that is gone the select ends; aw_select_winner says who it was. Should both finish in the
 * same moment nothing is lost: a message that was not taken stays in its channel.
 *
 * Notice the sender in the second round, who learns that nobody is waiting any more. */
#include <awake.h>
#include <stdio.h>
#include <string.h>

typedef AW_ONESHOT(const char *) letter;

AW_ASYNC(void, sender, letter *to; uint64_t after; aw_sleep nap; int error;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(self->after));
    self->error = aw_oneshot_send(self->to, "hello");
    printf("sender: %s\n", strerror(-self->error));
    AW_END;
}

AW_ASYNC(void, receiver, letter *from; uint64_t patience;
         AW_SELECT(aw_sleep, aw_oneshot_future) first;) {
    AW_BEGIN;
    AW_AWAIT_SELECT(self->first, aw_sleep_for(self->patience), aw_oneshot_recv(self->from));
    if (aw_select_winner(&self->first) == 1) {
        printf("receiver: %s\n", self->from->value);
    } else {
        printf("receiver: nothing came\n");
        aw_oneshot_close_receiver(self->from);
    }
    AW_END;
}

AW_ASYNC(int, start, letter a; letter b; AW_JOIN(struct sender, struct receiver) both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, AW_CALL(sender, .to = &self->a, .after = AW_MSEC(10)),
                  AW_CALL(receiver, .from = &self->a, .patience = AW_SEC(10)));
    AW_AWAIT_JOIN(self->both, AW_CALL(sender, .to = &self->b, .after = AW_MSEC(300)),
                  AW_CALL(receiver, .from = &self->b, .patience = AW_MSEC(10)));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
