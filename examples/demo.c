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

static uint64_t begin;

static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%7.2f s  ", (double)(aw_now(NULL) - begin) / 1e9);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* The frame: the type of the output, then the arguments and what must live across an await. */
struct cook {
    AW_FRAME(void);
    const char *dish;
    uint64_t duration;
    aw_sleep work;
};
AW_ASYNC_STATIC(cook) {
    AW_BEGIN;
    say("%s: started", self->dish);
    AW_AWAIT(self->work, aw_sleep_for(self->duration));
    say("%s: done", self->dish);
    AW_END;
}
#define cook(...) AW_CALL(cook, __VA_ARGS__) /* a shorter call: cook(.dish = "tea") */

/* A frame of one or two members can be written as an argument. */
AW_ASYNC(void, together, AW_JOIN(struct cook, struct cook, struct cook) dishes;) {
    AW_BEGIN;
    printf("1. Three dishes at once take as long as the longest.\n");
    AW_AWAIT_JOIN(self->dishes, cook(.dish = "tea", .duration = AW_MSEC(300)),
                  cook(.dish = "eggs", .duration = AW_MSEC(600)),
                  cook(.dish = "toast", .duration = AW_MSEC(450)));
    say("breakfast is ready");
    AW_END;
}

AW_ASYNC(void, impatience, AW_TIMEOUT(struct cook) stew;) {
    AW_BEGIN;
    printf("2. Any future can have a timeout.\n");
    AW_AWAIT_FOR(self->stew, AW_MSEC(500), cook(.dish = "stew", .duration = AW_SEC(7200)));
    say("stew: %s", self->stew.out == -ETIMEDOUT ? "timed out" : "in time");
    AW_END;
}

AW_ASYNC(void, choice, AW_SELECT(struct cook, struct cook) drinks;) {
    AW_BEGIN;
    printf("3. Select takes the first; the others are cancelled before it ends.\n");
    AW_AWAIT_SELECT(self->drinks, cook(.dish = "coffee", .duration = AW_SEC(5)),
                    cook(.dish = "juice", .duration = AW_MSEC(400)));
    say("the drink is %s", aw_select_winner(&self->drinks) == 0 ? "coffee" : "juice");
    AW_END;
}

enum { GUESTS = 100 };

AW_ASYNC(int, guest, int pays; aw_sleep meal;) {
    AW_BEGIN;
    AW_AWAIT(self->meal, aw_sleep_for(AW_MSEC(500)));
    AW_RETURN(self->pays);
    AW_END;
}

struct full_house {
    AW_FRAME(void);
    struct guest *guests[GUESTS];
    aw_task_join_future join;
    int i, sum;
};
AW_ASYNC_STATIC(full_house) {
    AW_BEGIN;
    printf("4. A spawned task runs by itself until it is joined.\n");
    for (int i = 0; i < GUESTS; i++)
        self->guests[i] = aw_spawn(AW_CALL(guest, .pays = i + 1));
    say("%d guests are eating", GUESTS);
    for (; self->i < GUESTS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->guests[self->i]));
        if (self->join.out == 0) self->sum += self->guests[self->i]->out;
    }
    say("all guests have left, and paid %d", self->sum);
    AW_FINALLY; /* runs on every way out */
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

struct closing_time {
    AW_FRAME(void);
    struct oven *oven;
    aw_sleep nap;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(closing_time) {
    AW_BEGIN;
    printf("5. An aborted task cleans up first, and its cleanup may wait.\n");
    self->oven = aw_spawn(AW_CALL(oven));
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(400)));
    say("abort!");
    aw_task_abort(self->oven);
    AW_AWAIT(self->join, aw_task_join(self->oven));
    say("the join reports: %s", strerror(-self->join.out));
    AW_FINALLY;
    if (AW_STARTED) aw_task_drop(self->oven);
    AW_END;
}

static aw_poll forget(void *arg, aw_cx *cx, int *out) {
    (void)arg, (void)cx, (void)out;
    return AW_PENDING; /* a bug: the waker is not used, so no poll will follow */
}

AW_ASYNC(void, waiter, aw_poll_fn order;) {
    AW_BEGIN;
    AW_AWAIT(self->order, aw_poll_fn_of(forget, NULL));
    AW_END;
}

AW_ASYNC(void, lost, aw_sleep nap;) {
    AW_BEGIN;
    printf("6. A task that nothing can wake any more is reported at once.\n");
    aw_task_drop(aw_spawn(AW_CALL(waiter))); /* detached: it runs without its handle */
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
    say("the end: tasks that still run are cancelled");
    AW_END;
}

/* Children that are never alive together share storage in the frame. */
AW_ASYNC(int, tour,
         AW_SHARE(struct together together; struct impatience impatience; struct choice choice;
                  struct full_house full_house; struct closing_time closing_time;
                  struct lost lost;);) {
    AW_BEGIN;
    AW_AWAIT(self->together, AW_CALL(together));
    AW_AWAIT(self->impatience, AW_CALL(impatience));
    AW_AWAIT(self->choice, AW_CALL(choice));
    AW_AWAIT(self->full_house, AW_CALL(full_house));
    AW_AWAIT(self->closing_time, AW_CALL(closing_time));
    AW_AWAIT(self->lost, AW_CALL(lost));
    AW_RETURN(0);
    AW_END;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* keeps the order with stderr, also in a pipe */
    begin = aw_now(NULL);
    return aw_run(AW_CALL(tour));
}
