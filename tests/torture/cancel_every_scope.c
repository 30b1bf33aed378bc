/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: scopes, in the chains of support/cancel_every_await.h. Children are leaves and
 * functions, run as tasks. They and the body end before the function around the scope. */
#include <errno.h>

#include "support/cancel_every_await.h"

/* A child with a frame of its own, which ends before the one around the scope. */
AW_ASYNC(int, chain_child, aw_scope *scope; int parent, holder, more; struct leaf leaf;) {
    AW_BEGIN;
    self->holder = ownership_enter(self->parent);
    AW_AWAIT(self->leaf, chain_leaf(2, self->holder));
    ownership_release(self->leaf.out);
    if (self->more) {
        int error = aw_scope_spawn(self->scope, chain_leaf(1, self->parent));
        CHECK(error == 0 || error == -ECANCELED);
    }
    AW_RETURN(chain.style & 16 && self->more ? -EIO : 0);
    AW_FINALLY;
    if (AW_STARTED) {
        AW_AWAIT(self->leaf, chain_leaf(1, self->holder));
        ownership_release(self->leaf.out);
        ownership_leave(self->holder);
    }
    AW_END;
}

static bool waits_for_slot;

struct chain_body {
    AW_FRAME(int);
    aw_scope *scope;
    int parent, holder;
    struct leaf leaf;
    aw_scope_slot_future slot;
};
static void body_discard(aw_future *self) {
    int token = ((struct chain_body *)self)->out;
    if (token > 0) ownership_release(token);
}
AW_ASYNC_STATIC(chain_body, .discard = body_discard) {
    AW_BEGIN;
    self->holder = ownership_enter(self->parent);
    aw_scope_limit(self->scope, waits_for_slot ? 1 : chain.style >> 2 & 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(aw_scope_spawn(self->scope, AW_CALL(chain_child, .scope = self->scope,
                                                     .parent = self->parent, .more = i)),
                 0);
    CHECK_EQ(aw_scope_spawn(self->scope, chain_leaf(4, self->parent)), 0);
    if (waits_for_slot) AW_AWAIT(self->slot, aw_scope_slot(self->scope));
    AW_AWAIT(self->leaf, chain_leaf(2, self->holder));
    AW_RETURN(self->leaf.out);
    AW_FINALLY;
    if (AW_STARTED) ownership_leave(self->holder);
    AW_END;
}
typedef AW_SCOPE(struct chain_body) chain_scope;

/* cancel-at-every-await: AW_SCOPE */
static chain_scope scope;
static int around;

static aw_future *make_scope(void) {
    around = ownership_enter(0);
    scope = AW_SCOPE_OF(chain_scope, AW_CALL(chain_body, .parent = around));
    return &scope.future;
}
static void take_scope(aw_future *f) {
    (void)f;
    CHECK(scope.out == 0 || scope.out == -EIO);
    if (scope.out == 0) ownership_release(scope.body.out);
}
static void leave_scope(void) {
    if (around) ownership_leave(around); /* nothing is inside any more */
    around = 0;
}
TEST_LIMIT(scope, 60) {
    cancel_everywhere((struct specimen){make_scope, take_scope, NULL, leave_scope, NULL});
}

/* cancel-at-every-await: aw_scope_slot */
TEST_LIMIT(scope_slot, 60) {
    waits_for_slot = true;
    cancel_everywhere((struct specimen){make_scope, take_scope, NULL, leave_scope, NULL});
}

/* A scope inside a timeout inside a scope. */
AW_ASYNC(int, nests, aw_scope *scope; int parent; AW_TIMEOUT(chain_scope) inner;) {
    AW_BEGIN;
    CHECK_EQ(aw_scope_spawn(self->scope, chain_leaf(3, self->parent)), 0);
    AW_AWAIT_FOR(self->inner, AW_SEC(100),
                 AW_SCOPE_OF(chain_scope, AW_CALL(chain_body, .parent = self->parent)));
    CHECK_EQ(self->inner.out, 0);
    if (self->inner.inner.out == 0) ownership_release(self->inner.inner.body.out);
    AW_RETURN(self->inner.inner.out);
    AW_END;
}
typedef AW_SCOPE(struct nests) nests_scope;
static nests_scope nested;
static aw_future *make_nested(void) {
    around = ownership_enter(0);
    nested = AW_SCOPE_OF(nests_scope, AW_CALL(nests, .parent = around));
    return &nested.future;
}
static void take_nested(aw_future *f) {
    (void)f;
    CHECK(nested.out == 0 || nested.out == -EIO);
}
TEST_LIMIT(scope_in_a_scope, 60) {
    cancel_everywhere((struct specimen){make_nested, take_nested, NULL, leave_scope, NULL});
}

/* ---- Join sets ------------------------------------------------------------------------------- */

static aw_join_set set;
static struct leaf *task;
static aw_join_set_next_future next;
static aw_join_set_shutdown_future end, end_again;

static void fill_set(void) {
    set = (aw_join_set)AW_JOIN_SET_INIT;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(aw_task_error(aw_join_set_spawn(&set, chain_leaf(1 + i % 3, 0))), 0);
}
static aw_future *make_end_again(void) {
    end_again = aw_join_set_shutdown(&set);
    return &end_again.future;
}
static void check_set(void) {
    CHECK_EQ(aw_join_set_count(&set), 0);
}

/* cancel-at-every-await: aw_join_set_next */
static aw_future *make_next(void) {
    fill_set();
    next = aw_join_set_next(&set, &task);
    return &next.future;
}
static void take_next(aw_future *f) {
    (void)f;
    CHECK_EQ(next.out, 0);
    CHECK_EQ(aw_join_set_count(&set), 3);
    ownership_release(aw_task_take(task));
}
TEST(join_set_next) {
    cancel_everywhere((struct specimen){make_next, take_next, make_end_again, check_set, NULL});
}

/* cancel-at-every-await: aw_join_set_shutdown */
static aw_future *make_end(void) {
    fill_set();
    end = aw_join_set_shutdown(&set);
    return &end.future;
}
static void take_end(aw_future *f) {
    (void)f;
    CHECK_EQ(end.out, 0);
    check_set();
}
TEST(join_set_shutdown) {
    cancel_everywhere((struct specimen){make_end, take_end, make_end_again, check_set, NULL});
}
