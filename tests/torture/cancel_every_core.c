/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: the futures of the core, in the chains of support/cancel_every_await.h. */
#include <errno.h>

#include "support/cancel_every_await.h"

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_ready */
static aw_ready ready;
static aw_future *make_ready(void) {
    ready = aw_ready_now(5);
    return &ready.future;
}
TEST(ready) {
    cancel_everywhere((struct specimen){.make = make_ready});
}

/* It never ends by itself: a select ends it. */
/* cancel-at-every-await: aw_never */
static AW_SELECT(aw_never, struct leaf) never;
static aw_future *make_never(void) {
    never = AW_SELECT_OF(__typeof__(never), aw_never_ready(), chain_leaf(2, 0));
    return &never.future;
}
static void take_never(aw_future *f) {
    (void)f;
    CHECK_EQ(aw_select_winner(&never), 1);
    ownership_release(never.f1.out);
}
TEST(never) {
    cancel_everywhere((struct specimen){make_never, take_never, NULL, NULL, NULL});
}

/* cancel-at-every-await: aw_yield */
static aw_yield yield;
static aw_future *make_yield(void) {
    yield = aw_yield_now();
    return &yield.future;
}
TEST(yield) {
    cancel_everywhere((struct specimen){.make = make_yield});
}

/* Holds a waker while it is pending, and a token from its first poll on. */
/* cancel-at-every-await: aw_poll_fn */
static struct {
    aw_poll_fn future;
    aw_waker waker;
    int calls, cancels, token;
} fn;
static aw_poll fn_pending(aw_cx *cx) {
    aw_waker_set(&fn.waker, cx->waker);
    aw_waker_wake_by_ref(&fn.waker);
    return AW_PENDING;
}
static aw_poll fn_end(aw_poll how) {
    aw_waker waker = aw_waker_take(&fn.waker);
    if (waker.type) aw_waker_drop(waker);
    ownership_release(fn.token);
    return how;
}
static aw_poll fn_poll(void *arg, aw_cx *cx, int *out) {
    CHECK(arg == &fn);
    if (fn.calls++ == 0) fn.token = ownership_token();
    *out = fn.calls;
    return fn.calls > 2 ? fn_end(AW_READY) : fn_pending(cx);
}
static aw_poll fn_cancel(void *arg, aw_cx *cx, int *out) {
    CHECK(arg == &fn);
    *out = 77;
    if (fn.cancels++ < (int)(chain.style & 1)) return fn_pending(cx);
    return fn_end(chain.style & 2 ? AW_READY : AW_CANCELLED);
}
static aw_future *make_fn(void) {
    fn.calls = fn.cancels = 0;
    fn.future = aw_poll_fn_with(fn_poll, fn_cancel, &fn);
    return &fn.future.future;
}
static void take_fn(aw_future *f) {
    CHECK(*(int *)aw_future_out(f) == (fn.cancels ? 77 : 3));
    CHECK(fn.waker.type == NULL);
}
TEST(poll_fn) {
    cancel_everywhere((struct specimen){make_fn, take_fn, NULL, NULL, NULL});
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* cancel-at-every-await: AW_JOIN */
static AW_JOIN(struct leaf, struct leaf, aw_yield) join;
static aw_future *make_join(void) {
    join = AW_JOIN_OF(__typeof__(join), chain_leaf(1, 0), chain_leaf(3, 0), aw_yield_now());
    return &join.future;
}
static void take_join(aw_future *f) {
    (void)f;
    ownership_release(join.f0.out);
    ownership_release(join.f1.out);
}
TEST(join) {
    cancel_everywhere((struct specimen){make_join, take_join, NULL, NULL, NULL});
}

/* A leaf that may end with an error. */
static struct leaf failing_leaf(int pends, bool fails) {
    struct leaf l = chain_leaf(pends, 0);
    if (fails) l.script->error = -EIO;
    return l;
}

/* cancel-at-every-await: AW_TRY_JOIN */
static AW_TRY_JOIN(struct leaf, struct leaf, struct leaf) try_join;
static aw_future *make_try_join(void) {
    try_join = AW_TRY_JOIN_OF(__typeof__(try_join), failing_leaf(1, chain.style & 1),
                              failing_leaf(2, chain.style & 2), failing_leaf(3, chain.style & 4));
    return &try_join.future;
}
static void take_try_join(aw_future *f) {
    (void)f;
    if (try_join.out < 0) {
        CHECK_EQ(try_join.out, -EIO);
        return;
    }
    ownership_release(try_join.f0.out);
    ownership_release(try_join.f1.out);
    ownership_release(try_join.f2.out);
}
TEST(try_join) {
    cancel_everywhere((struct specimen){make_try_join, take_try_join, NULL, NULL, NULL});
}

/* cancel-at-every-await: AW_SELECT */
static AW_SELECT(struct leaf, struct leaf, struct leaf) select_of;
static aw_future *make_select(void) {
    if (chain.style & 1)
        select_of = AW_SELECT_BIASED_OF(__typeof__(select_of), chain_leaf(3, 0), chain_leaf(2, 0),
                                        chain_leaf(NEVER, 0));
    else
        select_of = AW_SELECT_OF(__typeof__(select_of), chain_leaf(3, 0), chain_leaf(2, 0),
                                 chain_leaf(NEVER, 0));
    return &select_of.future;
}
static void take_select(aw_future *f) {
    (void)f;
    struct leaf *leaves[] = {&select_of.f0, &select_of.f1, &select_of.f2};
    if (chain.style & 2) {
        ownership_release(leaves[aw_select_winner(&select_of)]->out);
        return;
    }
    int n = 0;
    AW_SELECT_EACH(i, &select_of) {
        ownership_release(leaves[i]->out);
        n++;
    }
    CHECK_GT(n, 0);
}
TEST(select) {
    cancel_everywhere((struct specimen){make_select, take_select, NULL, NULL, NULL});
}

/* Join, try_join and select, by reference. */
/* cancel-at-every-await: aw_group */
static struct leaf refs[3];
static aw_group group;
static aw_future *make_group(void) {
    for (int i = 0; i < 3; i++)
        refs[i] = failing_leaf(i + 1, chain.style >> i & 1 && chain.style % 3 == 1);
    if (chain.style % 3 == 0)
        group = aw_join_refs(&refs[0], &refs[1], &refs[2]);
    else if (chain.style % 3 == 1)
        group = aw_try_join_refs(&refs[0], &refs[1], &refs[2]);
    else
        group = aw_select_refs(&refs[0], &refs[1], &refs[2]);
    return &group.future;
}
static void take_group(aw_future *f) {
    (void)f;
    if (chain.style % 3 == 2)
        ownership_release(refs[aw_select_winner(&group)].out);
    else if (group.out == 0)
        for (int i = 0; i < 3; i++)
            ownership_release(refs[i].out);
}
TEST(group) {
    cancel_everywhere((struct specimen){make_group, take_group, NULL, NULL, NULL});
}
