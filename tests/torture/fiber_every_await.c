/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: fibers, plain and defined, and what they await, in the chains of
 * support/cancel_every_await.h. */
#include <errno.h>

#include "support/cancel_every_await.h"

/* Awaits a leaf, and releases its output. */
static int await_leaf(int pends, int parent) {
    int r = aw_await(chain_leaf(pends, parent));
    if (r > 0) ownership_release(r);
    return r;
}

/* ---- Plain fibers: a function and a pointer -------------------------------------------------- */

static struct { int entered, dropped, argument; } calls;

/* Three awaits, and a cleanup that awaits. The argument is a token. */
static int plain_main(void *arg) {
    CHECK(arg == &calls);
    calls.entered++;
    int holder = ownership_enter(0), r = await_leaf(1, holder);
    if (r >= 0) r = aw_fiber_yield();
    if (r >= 0) r = await_leaf(0, holder);
    AW_SHIELD {
        CHECK_GT(await_leaf(1, holder), 0);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    ownership_leave(holder);
    ownership_release(calls.argument);
    return r;
}
static void plain_drop(void *arg) {
    CHECK(arg == &calls);
    calls.dropped++;
    ownership_release(calls.argument);
}

/* cancel-at-every-await: aw_fiber */
static aw_fiber plain;
static aw_future *make_plain(void) {
    calls.entered = calls.dropped = 0;
    calls.argument = ownership_token();
    plain = aw_fiber_with(plain_main, plain_drop, &calls, 0);
    return &plain.future;
}
static void take_plain(aw_future *f) {
    CHECK_EQ(calls.entered, 1);
    CHECK_EQ(calls.dropped, 0);
    CHECK_GE(*(int *)aw_future_out(f), 0);
}
static void after_plain(void) {
    CHECK_LE(calls.entered + calls.dropped, 1);
}
TEST(plain_fiber) {
    cancel_everywhere((struct specimen){make_plain, take_plain, NULL, NULL, after_plain});
}

/* ---- Defined fibers, which own their argument and output ------------------------------------- */

struct defined {
    AW_FIBER_FRAME(int);
    int argument;
};
static void defined_discard(aw_future *self) {
    int out = ((struct defined *)self)->out;
    if (out > 0) ownership_release(out);
}
AW_FIBER_STATIC(defined, .discard = defined_discard) {
    int holder = ownership_enter(0);
    /* In half of the runs it returns a token even when it is cut: that token is discarded. */
    int out = chain.style & 16 ? ownership_token() : 0;
    int r = await_leaf(2, holder);
    if (r >= 0) r = aw_await(aw_sleep_for(AW_USEC(100)));
    if (r >= 0) r = aw_await(chain_leaf(1, holder));
    if (r > 0) {
        if (out) ownership_release(out);
        out = r;
    }
    ownership_leave(holder);
    ownership_release(self->argument);
    return out ? out : r;
}
AW_FIBER_DROP(defined) {
    ownership_release(self->argument);
}
static struct defined call_defined(void) {
    return AW_CALL(defined, .argument = ownership_token());
}

/* cancel-at-every-await: AW_FIBER */
static struct defined defined;
static aw_future *make_defined(void) {
    defined = call_defined();
    return &defined.future;
}
static void take_defined(aw_future *f) {
    ownership_release(((struct defined *)f)->out);
}
TEST(defined_fiber) {
    cancel_everywhere((struct specimen){make_defined, take_defined, NULL, NULL, NULL});
}

AW_ASYNC(int, around_defined, struct defined f; struct leaf leaf;) {
    AW_BEGIN;
    AW_AWAIT(self->f, call_defined());
    AW_RETURN(self->f.out);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, chain_leaf(1, 0));
        ownership_release(self->leaf.out);
    }
    AW_END;
}

/* ---- Everything that a fiber may await ------------------------------------------------------- */

typedef AW_JOIN(struct defined, struct leaf) defined_and_leaf;
typedef AW_SELECT(struct leaf, struct defined) leaf_or_defined;

/* Takes the outputs of a select. */
static void take_choice(leaf_or_defined *s) {
    AW_SELECT_EACH(i, s)
        ownership_release(i == 0 ? s->f0.out : s->f1.out);
}

AW_FIBER(int, mixed, int part;) {
    int holder = ownership_enter(0), r = 0;
    if (self->part == 0) {
        r = aw_await(call_defined());
        if (r > 0) ownership_release(r);
    } else if (self->part == 1) {
        r = aw_await_for(AW_USEC(chain.style % 3 * 100), call_defined());
        if (r > 0) ownership_release(r);
    } else if (self->part == 2) {
        defined_and_leaf j = AW_JOIN_OF(defined_and_leaf, call_defined(), chain_leaf(2, holder));
        r = aw_await_future(&j.future);
        if (r == 0) ownership_release(j.f0.out), ownership_release(j.f1.out);
    } else if (self->part == 3) {
        leaf_or_defined s = AW_SELECT_OF(leaf_or_defined, chain_leaf(4, holder), call_defined());
        r = aw_await_future(&s.future);
        if (r == 0) take_choice(&s);
    } else if (self->part == 4) {
        aw_box b = aw_box_new(AW_CALL(around_defined));
        r = aw_await_future(&b.future);
        if (r == 0) ownership_release(aw_box_take(struct around_defined, &b));
    } else {
        struct defined *task = aw_spawn(call_defined());
        r = aw_await(aw_task_join(task));
        if (r < 0) aw_task_abort(task);
        AW_SHIELD {
            int status = r < 0 ? aw_await(aw_task_join(task)) : r;
            if (status == 0) ownership_release(task->out);
        }
        aw_task_drop(task);
    }
    AW_SHIELD {
        await_leaf(1, holder);
    }
    ownership_leave(holder);
    return r;
}

static struct mixed mixed;
static int part;
static aw_future *make_mixed(void) {
    mixed = AW_CALL(mixed, .part = part);
    return &mixed.future;
}

TEST(a_fiber_in_a_fiber) {
    part = 0;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
TEST(a_timeout_in_a_fiber) {
    part = 1;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
TEST(a_join_in_a_fiber) {
    part = 2;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
TEST(a_select_in_a_fiber) {
    part = 3;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
TEST(a_boxed_function_around_a_fiber_in_a_fiber) {
    part = 4;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
TEST(a_task_of_a_fiber) {
    part = 5;
    cancel_everywhere((struct specimen){.make = make_mixed});
}
