/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: the futures of the core. support/chain.h has the chains. */
#include <errno.h>

#include "support/chain.h"

/* ---- Leaves ----------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_ready */
static aw_ready ready;
static aw_future *make_ready(void) {
    ready = aw_ready_now(5);
    return &ready.future;
}
TEST(ready) {
    cut_everywhere((struct specimen){.make = make_ready});
}

/* It never ends by itself, so something beside it has to. */
/* cancel-at-every-await: aw_never */
static AW_SELECT(aw_never, struct leaf) never;
static aw_future *make_never(void) {
    never = AW_SELECT_OF(__typeof__(never), aw_never_ready(), chain_leaf(2, 0));
    return &never.future;
}
static void take_never(aw_future *f) {
    (void)f;
    CHECK_EQ(aw_select_winner(&never), 1);
    ledger_give_back(never.f1.out);
}
TEST(never) {
    cut_everywhere((struct specimen){make_never, take_never, NULL, NULL, NULL});
}

/* cancel-at-every-await: aw_yield */
static aw_yield yield;
static aw_future *make_yield(void) {
    yield = aw_yield_now();
    return &yield.future;
}
TEST(yield) {
    cut_everywhere((struct specimen){.make = make_yield});
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
    ledger_give_back(fn.token);
    return how;
}
static aw_poll fn_poll(void *arg, aw_cx *cx, int *out) {
    CHECK(arg == &fn);
    if (fn.calls++ == 0) fn.token = ledger_token();
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
    cut_everywhere((struct specimen){make_fn, take_fn, NULL, NULL, NULL});
}

/* ---- Groups ----------------------------------------------------------------------------------- */

/* cancel-at-every-await: AW_JOIN */
static AW_JOIN(struct leaf, struct leaf, aw_yield) join;
static aw_future *make_join(void) {
    join = AW_JOIN_OF(__typeof__(join), chain_leaf(1, 0), chain_leaf(3, 0), aw_yield_now());
    return &join.future;
}
static void take_join(aw_future *f) {
    (void)f;
    ledger_give_back(join.f0.out);
    ledger_give_back(join.f1.out);
}
TEST(join) {
    cut_everywhere((struct specimen){make_join, take_join, NULL, NULL, NULL});
}

/* Some of the leaves end with an error. */
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
    ledger_give_back(try_join.f0.out);
    ledger_give_back(try_join.f1.out);
    ledger_give_back(try_join.f2.out);
}
TEST(try_join) {
    cut_everywhere((struct specimen){make_try_join, take_try_join, NULL, NULL, NULL});
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
        ledger_give_back(leaves[aw_select_winner(&select_of)]->out);
        return;
    }
    int n = 0;
    AW_SELECT_EACH(i, &select_of) {
        ledger_give_back(leaves[i]->out);
        n++;
    }
    CHECK_GT(n, 0);
}
TEST(select) {
    cut_everywhere((struct specimen){make_select, take_select, NULL, NULL, NULL});
}

/* By reference, each of the three. */
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
        ledger_give_back(refs[aw_select_winner(&group)].out);
    else if (group.out == 0)
        for (int i = 0; i < 3; i++)
            ledger_give_back(refs[i].out);
}
TEST(group) {
    cut_everywhere((struct specimen){make_group, take_group, NULL, NULL, NULL});
}
