/* SPDX-License-Identifier: MIT
 *
 * A scope: children on other threads fill an array in the frame of their parent.
 *
 * Each child has a pointer into that array, and runs on any worker. That is safe, because a scope
 * ends only when all its children have ended: after they have finished, after one has failed and
 * the others were cancelled, and also when the parent is cancelled. Nothing is copied, reference
 * counted or locked for it.
 *
 * Notice that the third report is in local variables: a fiber lends them in the same way. */
#include <awake.h>
#include <errno.h>
#include <stdio.h>

enum { CITIES = 4 };
static const char *const cities[CITIES] = {"Lima", "Oslo", "Pune", "Rome"};

/* Writes the temperature of a city into borrowed memory. */
struct ask {
    AW_FRAME(int);
    int city;
    bool fails;
    int *degrees;
    aw_sleep nap;
};
AW_ASYNC_STATIC(ask) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(10 * self->city)));
    if (self->fails) AW_RETURN(-EHOSTUNREACH);
    *self->degrees = 10 + 3 * self->city;
    AW_RETURN(0);
    AW_END;
}

/* The body of the scope: spawns the children. Two of them run at a time. */
struct ask_all {
    AW_FRAME(int);
    aw_scope *scope;
    int *degrees;
    bool fails;
};
AW_ASYNC_STATIC(ask_all) {
    AW_BEGIN;
    aw_scope_limit(self->scope, 2);
    for (int i = 0; i < CITIES; i++)
        aw_scope_spawn(self->scope, AW_CALL(ask, .city = i, .degrees = &self->degrees[i],
                                            .fails = self->fails && i == 1));
    AW_RETURN(0);
    AW_END;
}

static void report(int error, const int *degrees) {
    if (error) printf("no report: %s\n", error == -EHOSTUNREACH ? "a city cannot be reached" : "?");
    for (int i = 0; i < CITIES && !error; i++)
        printf("%s %d%s", cities[i], degrees[i], i + 1 < CITIES ? ", " : "\n");
}

AW_ASYNC(int, weather, int degrees[CITIES]; AW_SCOPE(struct ask_all) s;) {
    AW_BEGIN;
    AW_AWAIT_SCOPE(self->s, AW_CALL(ask_all, .degrees = self->degrees));
    report(self->s.out, self->degrees);

    /* One child fails. The await ends after the others have ended. */
    AW_AWAIT_SCOPE(self->s, AW_CALL(ask_all, .degrees = self->degrees, .fails = true));
    report(self->s.out, self->degrees);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, weather_on_a_stack) {
    int degrees[CITIES] = {0};
    int error = aw_await_scope(AW_CALL(ask_all, .degrees = degrees));
    report(error, degrees);
    return error;
}

int main(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.flavour = AW_MULTI_THREAD;
    if (aw_runtime_new(&rt, &options)) return 1;
    int error = aw_block_on(rt, AW_CALL(weather));
    if (!error) error = aw_block_on(rt, AW_CALL(weather_on_a_stack));
    aw_runtime_free(rt);
    return error != 0;
}
