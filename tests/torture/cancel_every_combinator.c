/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: timeouts, boxes, arrays and sets, in the chains of support/cancel_every_await.h. */
#include <errno.h>

#include "support/cancel_every_await.h"

/* cancel-at-every-await: AW_TIMEOUT */
typedef AW_TIMEOUT(struct leaf) leaf_timeout;
typedef AW_TIMEOUT(leaf_timeout) two_timeouts;
static two_timeouts timeout;

static aw_future *make_timeout_in_time(void) {
    timeout = AW_TIMEOUT_OF(two_timeouts, AW_SEC(2),
                            AW_TIMEOUT_OF(leaf_timeout, AW_SEC(1), chain_leaf(2, 0)));
    return &timeout.future;
}
/* The outer timeout expires first, or both at once. */
static aw_future *make_timeout_too_late(void) {
    uint64_t outer = chain.style & 1 ? AW_MSEC(1) : AW_MSEC(2);
    timeout = AW_TIMEOUT_OF(two_timeouts, outer,
                            AW_TIMEOUT_OF(leaf_timeout, AW_MSEC(2), chain_leaf(NEVER, 0)));
    return &timeout.future;
}
static void take_timeout(aw_future *f) {
    (void)f;
    CHECK(timeout.out == 0 || timeout.out == -ETIMEDOUT);
    if (timeout.out == 0 && timeout.inner.out == 0) ownership_release(timeout.inner.inner.out);
}
TEST(timeout_in_time) {
    cancel_everywhere((struct specimen){make_timeout_in_time, take_timeout, NULL, NULL, NULL});
}
TEST(timeout_too_late) {
    cancel_everywhere((struct specimen){make_timeout_too_late, take_timeout, NULL, NULL, NULL});
}

/* cancel-at-every-await: aw_box */
static aw_box box;
static aw_future *make_box(void) {
    aw_box inner = aw_box_new(chain_leaf(2, 0));
    box = aw_box_new(inner);
    return &box.future;
}
static void take_box_in_box(aw_future *f) {
    (void)f;
    ownership_release(aw_box_take(struct leaf, AW_BOX_AS(aw_box, &box)));
    aw_box_free(&box);
}
TEST(box) {
    cancel_everywhere((struct specimen){make_box, take_box_in_box, NULL, NULL, NULL});
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_all */
static struct leaf array[40];
static aw_all all;
static const aw_future_type *all_kind;
static int all_count;

static aw_future *make_all(void) {
    for (int i = 0; i < all_count; i++) {
        array[i] = chain_leaf(all_kind == &aw_select_all_type ? 3 - i % 3 : i % 4, 0);
        bool fails = all_kind == &aw_try_join_all_type && chain.style & 1 && i % 3 == 2;
        if (fails) array[i].script->error = -EIO;
    }
    all = aw_all_of(all_kind, &array[0].future, sizeof array[0], (size_t)all_count);
    return &all.future;
}
static void take_select_all(void) {
    if (chain.style & 2) {
        ownership_release(array[aw_select_all_winner(&all)].out);
        return;
    }
    ptrdiff_t i;
    while ((i = aw_select_all_next(&all)) >= 0)
        ownership_release(array[i].out);
}
static void take_all(aw_future *f) {
    (void)f;
    if (all_kind == &aw_select_all_type)
        take_select_all();
    else if (all.out == 0)
        for (int i = 0; i < all_count; i++)
            ownership_release(array[i].out);
    else
        CHECK_EQ(all.out, -EIO);
}

#define ARRAY_TEST(kind, count, size)                                                              \
    TEST(kind##_of_##size) {                                                                       \
        all_kind = &aw_##kind##_type;                                                              \
        all_count = count;                                                                         \
        cancel_everywhere((struct specimen){make_all, take_all, NULL, NULL, NULL});                \
    }
ARRAY_TEST(join_all, 4, few)
ARRAY_TEST(join_all, 40, many)
ARRAY_TEST(try_join_all, 4, few)
ARRAY_TEST(try_join_all, 40, many)
ARRAY_TEST(select_all, 4, few)
ARRAY_TEST(select_all, 40, many)

/* ---- Sets ------------------------------------------------------------------------------------ */

static aw_set set;
static aw_set_next_future next;
static aw_set_clear_future clear;

static void fill_set(void) {
    aw_set_init(&set, sizeof(aw_box));
    for (int i = 0; i < 10; i++)
        CHECK_EQ(aw_set_push(&set, aw_box_new(chain_leaf(2 + i % 3, 0))), 0);
}
static aw_future *make_clear(void) {
    clear = aw_set_clear(&set);
    return &clear.future;
}
static void free_set(void) {
    CHECK_EQ(set.count, 0);
    aw_set_free(&set);
}

/* cancel-at-every-await: aw_set_next */
static aw_future *make_next(void) {
    fill_set();
    next = aw_set_next(&set);
    return &next.future;
}
static void take_next(aw_future *f) {
    (void)f;
    CHECK_EQ(set.count, 9);
    ownership_release(aw_box_take(struct leaf, AW_SET_AS(aw_box, &next)));
}
TEST(set_next) {
    cancel_everywhere((struct specimen){make_next, take_next, make_clear, free_set, NULL});
}

/* Clears children that have been polled. */
/* cancel-at-every-await: aw_set_clear */
AW_ASYNC(int, fill_and_clear, AW_SELECT(aw_set_next_future, struct leaf) s;
         aw_set_clear_future clear;) {
    AW_BEGIN;
    fill_set();
    AW_AWAIT_SELECT_BIASED(self->s, aw_set_next(&set), chain_leaf(chain.style & 4 ? 1 : 9, 0));
    if (aw_select_winner(&self->s) == 0)
        ownership_release(aw_box_take(struct leaf, AW_SET_AS(aw_box, &self->s.f0)));
    else
        ownership_release(self->s.f1.out);
    AW_AWAIT(self->clear, aw_set_clear(&set));
    CHECK_EQ(self->clear.out, 0);
    CHECK_EQ(set.count, 0);
    AW_RETURN(0);
    AW_END;
}
static struct fill_and_clear filled;
static aw_future *make_filled(void) {
    set = (aw_set){.count = 0};
    filled = AW_CALL(fill_and_clear);
    return &filled.future;
}
TEST(set_clear) {
    cancel_everywhere((struct specimen){make_filled, NULL, make_clear, free_set, NULL});
}
