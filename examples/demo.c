/* SPDX-License-Identifier: MIT
 *
 * A tour of Awake in three seconds: a kitchen, on one thread. `make demo` runs it.
 *
 * Each number in the output is one of the async functions below, in the same order. */
#include <awake.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t opened;

static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%7.2f s  ", (double)(aw_now(NULL) - opened) / 1e9);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* After the name come the arguments, and what has to live across an await. */
AW_ASYNC(void, cook, const char *dish; uint64_t duration; aw_sleep work;) {
    AW_BEGIN;
    say("%s: begun", self->dish);
    AW_AWAIT(self->work, aw_sleep_for(self->duration));
    say("%s: done", self->dish);
    AW_END;
}
#define cook(...) AW_CALL(cook, __VA_ARGS__) /* a shorter call: cook(.dish = "tea") */

AW_ASYNC(void, together, AW_JOIN(struct cook, struct cook, struct cook) dishes;) {
    AW_BEGIN;
    printf("1. Three dishes at once take as long as the longest.\n");
    AW_AWAIT_JOIN(self->dishes, cook(.dish = "tea", .duration = AW_MSEC(300)),
                  cook(.dish = "eggs", .duration = AW_MSEC(600)),
                  cook(.dish = "toast", .duration = AW_MSEC(450)));
    say("breakfast is ready");
    AW_END;
}

AW_ASYNC(void, patience, AW_TIMEOUT(struct cook) stew;) {
    AW_BEGIN;
    printf("2. Anything can be given a timeout.\n");
    AW_AWAIT_FOR(self->stew, AW_MSEC(500), cook(.dish = "stew", .duration = AW_SEC(7200)));
    say("stew: %s", self->stew.out == -ETIMEDOUT ? "we could not wait" : "at last");
    AW_END;
}

AW_ASYNC(void, choice, AW_SELECT(struct cook, struct cook) drinks;) {
    AW_BEGIN;
    printf("3. Select takes the first; the others are cancelled and gone.\n");
    AW_AWAIT_SELECT(self->drinks, cook(.dish = "coffee", .duration = AW_SEC(5)),
                    cook(.dish = "juice", .duration = AW_MSEC(400)));
    say("we drink %s", aw_select_winner(&self->drinks) == 0 ? "coffee" : "juice");
    AW_END;
}

enum { GUESTS = 100 };

AW_ASYNC(int, guest, int pays; aw_sleep meal;) {
    AW_BEGIN;
    AW_AWAIT(self->meal, aw_sleep_for(AW_MSEC(500)));
    AW_RETURN(self->pays);
    AW_END;
}

AW_ASYNC(void, full_house, struct guest *guests[GUESTS]; aw_task_join_future left; int i;
         int sum;) {
    AW_BEGIN;
    printf("4. A spawned task runs by itself until it is joined.\n");
    for (int i = 0; i < GUESTS; i++)
        self->guests[i] = aw_spawn(AW_CALL(guest, .pays = i + 1));
    say("%d guests are eating", GUESTS);
    for (; self->i < GUESTS; self->i++) {
        AW_AWAIT(self->left, aw_task_join(self->guests[self->i]));
        if (self->left.out == 0) self->sum += self->guests[self->i]->out;
    }
    say("all have left, and paid %d", self->sum);
    AW_FINALLY; /* what follows runs on every way out */
    for (int i = 0; AW_STARTED && i < GUESTS; i++)
        aw_task_drop(self->guests[i]);
    AW_END;
}

AW_ASYNC(void, oven, aw_sleep wait;) {
    AW_BEGIN;
    say("oven: on");
    AW_AWAIT(self->wait, aw_sleep_for(AW_FOREVER));
    AW_FINALLY;
    if (AW_STARTED) {
        say("oven: off");
        AW_AWAIT(self->wait, aw_sleep_for(AW_MSEC(400)));
        say("oven: cold");
    }
    AW_END;
}

AW_ASYNC(void, closing_time, struct oven *oven; aw_sleep nap; aw_task_join_future join;) {
    AW_BEGIN;
    printf("5. An aborted task cleans up first, and may take its time.\n");
    self->oven = aw_spawn(AW_CALL(oven));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(400)));
    say("abort!");
    aw_task_abort(self->oven);
    AW_AWAIT(self->join, aw_task_join(self->oven));
    say("the join says: %s", strerror(-self->join.out));
    AW_FINALLY;
    if (AW_STARTED) aw_task_drop(self->oven);
    AW_END;
}

static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx, (void)out;
    return AW_PENDING; /* a bug: nobody was told when to poll again */
}

AW_ASYNC(void, waiter, aw_poll_fn order;) {
    AW_BEGIN;
    AW_AWAIT(self->order, aw_poll_fn_of(forget, NULL));
    AW_END;
}

AW_ASYNC(void, lost, aw_sleep nap;) {
    AW_BEGIN;
    printf("6. A task that nobody can wake any more is found at once.\n");
    aw_task_drop(aw_spawn(AW_CALL(waiter))); /* without its handle it goes on by itself */
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    say("we close; what still runs is cancelled");
    AW_END;
}

/* Children that are never alive together share their room in the frame. */
AW_ASYNC(int, tour,
         AW_SHARE(struct together together; struct patience patience; struct choice choice;
                  struct full_house full_house; struct closing_time closing_time;
                  struct lost lost;);) {
    AW_BEGIN;
    AW_AWAIT(self->together, AW_CALL(together));
    AW_AWAIT(self->patience, AW_CALL(patience));
    AW_AWAIT(self->choice, AW_CALL(choice));
    AW_AWAIT(self->full_house, AW_CALL(full_house));
    AW_AWAIT(self->closing_time, AW_CALL(closing_time));
    AW_AWAIT(self->lost, AW_CALL(lost));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* in order with stderr, also in a pipe */
    opened = aw_now(NULL);
    return aw_run(AW_CALL(tour));
}
