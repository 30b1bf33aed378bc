/* SPDX-License-Identifier: MIT
 *
 * The growing set: the memory it takes, and wakers of its children that outlive it. */
#include <errno.h>
#include <pthread.h>

#include "support/lockstep.h"
#include "support/memory.h"
#include "support/composites.h"

enum { MAX_CHILDREN = 1000 };
static struct script s[MAX_CHILDREN];
static struct memory memory;
static aw_set set;

static void use_memory(void) {
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    aw_set_init(&set, sizeof(struct leaf));
}

static struct leaf *next_now(aw_set_next_future *next) {
    *next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next->future), AW_READY);
    return AW_SET_AS(struct leaf, next);
}

static void clear(void) {
    aw_set_clear_future c = aw_set_clear(&set);
    CHECK_EQ(drive_poll(&c.future), AW_READY);
    aw_set_free(&set);
    ownership_check_balanced();
}

TEST(a_set_takes_no_memory_before_its_first_child) {
    use_memory();
    CHECK_EQ(memory.calls, 0);
    aw_set_next_future next;
    CHECK(next_now(&next) == NULL);
    aw_set_free(&set);
    CHECK_EQ(memory.calls, 0);
}

TEST(memory_is_taken_in_blocks_that_double) {
    use_memory();
    for (int i = 0; i < MAX_CHILDREN; i++) {
        s[i] = (struct script){.pends = NEVER};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    CHECK_EQ(memory.calls, 7); /* 8 + 16 + … + 512 = 1016 */
    clear();
    memory_check_empty(&memory);
}

TEST(a_set_of_a_known_size_takes_one_allocation) {
    use_memory();
    CHECK_EQ(aw_set_reserve(&set, MAX_CHILDREN), 0);
    for (int i = 0; i < MAX_CHILDREN; i++) {
        s[i] = (struct script){.pends = NEVER};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    CHECK_EQ(memory.calls, 1);
    CHECK_EQ(aw_set_reserve(&set, 0), 0);
    CHECK_EQ(memory.calls, 1);
    CHECK_EQ(aw_set_reserve(&set, 3), 0);
    CHECK_EQ(aw_set_reserve(&set, 2), 0); /* that much is reserved already */
    CHECK_EQ(memory.calls, 2);
    CHECK_EQ(aw_set_reserve(&set, SIZE_MAX), -ENOMEM);
    clear();
    memory_check_empty(&memory);
}

TEST(a_set_that_is_used_for_long_reuses_its_slots) {
    use_memory();
    for (int n = 0; n < 10000; n++) {
        for (; set.count < 6; n++)
            CHECK_EQ(aw_set_push(&set, aw_yield_now()), 0);
        aw_set_next_future next = aw_set_next(&set);
        CHECK_EQ(drive_poll_to_end(&next.future), AW_READY);
    }
    CHECK_EQ(memory.calls, 1);
    clear();
    memory_check_empty(&memory);
}

TEST(a_push_without_memory_cancels_the_child_and_leaves_the_set_as_it_was) {
    use_memory();
    for (int i = 0; i < 8; i++) {
        s[i] = (struct script){.pends = 0};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    memory_refuse(&memory);
    s[8] = (struct script){.owns = true};
    CHECK_EQ(aw_set_push(&set, leaf(&s[8])), -ENOMEM);
    CHECK_EQ(s[8].cancelled, 1);
    CHECK_EQ(s[8].polls, 0);
    CHECK_EQ(set.count, 8);

    aw_set_next_future next;
    for (int i = 0; i < 8; i++)
        ownership_release(next_now(&next)->out);
    /* Slots are free again, except that of the last yielded child, which is freed by the
     * following next. */
    for (int i = 0; i < 7; i++) {
        s[i] = (struct script){.pends = NEVER};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    s[9] = (struct script){.owns = true};
    CHECK_EQ(aw_set_push(&set, leaf(&s[9])), -ENOMEM);
    clear();
    memory_check_empty(&memory);
}

TEST(a_set_in_a_runtime_takes_memory_from_its_allocator) {
    use_memory(); /* of the process */
    struct memory other;
    memory_init(&other);
    aw_runtime *rt;
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.allocator = &other.allocator;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    long before = other.calls;
    aw_enter(rt);
    aw_set_init(&set, sizeof(struct leaf));
    s[0] = (struct script){.pends = 0};
    CHECK_EQ(aw_set_push(&set, leaf(&s[0])), 0);
    CHECK_EQ(other.calls, before + 1);
    CHECK_EQ(memory.calls, 0);
    aw_leave(NULL);
    clear(); /* frees it with the allocator that it came from */
    aw_runtime_free(rt);
    memory_check_empty(&other);
}

/* ---- Wakers that outlive the set ------------------------------------------------------------- */

TEST(a_waker_keeps_the_memory_of_its_block_and_nothing_else) {
    use_memory();
    for (int i = 0; i < 20; i++) {
        s[i] = (struct script){.pends = NEVER};
        CHECK_EQ(aw_set_push(&set, leaf(&s[i])), 0);
    }
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(drive_poll(&next.future), AW_PENDING);
    aw_waker late = aw_waker_clone(&s[2].waker);
    CHECK_EQ(drive_cancel(&next.future), AW_CANCELLED);
    clear();
    CHECK_EQ(memory.blocks, 1);
    aw_waker_wake_by_ref(&late);
    aw_waker_wake(late);
    memory_check_empty(&memory);
}

/* A leaf that hands a clone of its waker to the thread and is ready after one wake. */
enum { HANDED = 24 };
static struct {
    aw_waker wakers[HANDED];
    struct lockstep round, done;
    bool stop;
    int polls[HANDED];
} hand;

struct handing {
    aw_future future;
    int out, n;
};
static aw_poll handing_poll(aw_future *self, aw_cx *cx) {
    struct handing *h = (struct handing *)self;
    if (hand.polls[h->n]++) return AW_READY;
    hand.wakers[h->n] = aw_waker_clone(cx->waker);
    return AW_PENDING;
}
/* The thread has the clone and will wake it at some time. That is allowed: this future does not
 * hold it any more. */
static const aw_future_type handing_type = {AW_TYPE_OF(struct handing, "handing"),
                                            .poll = handing_poll};

/* Every clone will be woken: nothing is lost, however late it is checked. */
static void no_reports(void *data, aw_log_level level, const char *message) {
    (void)data;
    (void)level;
    FAIL("%s", message);
}

static void *wake_all(void *unused) {
    (void)unused;
    for (unsigned round = 1;; round++) {
        lockstep_wait(&hand.round, round);
        if (hand.stop) return NULL;
        for (int i = 0; i < HANDED; i++) {
            aw_waker_wake_by_ref(&hand.wakers[i]);
            aw_waker_wake(hand.wakers[i]);
        }
        lockstep_set(&hand.done, round);
    }
}

static pthread_t thread;
#define ROUNDS (unsigned)test_scale(3000)

static void begin_waking(void) {
    aw_set_log(no_reports, NULL);
    lockstep_init(&hand.round);
    lockstep_init(&hand.done);
    use_memory();
    CHECK_EQ(pthread_create(&thread, NULL, wake_all, NULL), 0);
}
static void end_waking(void) {
    hand.stop = true;
    lockstep_set(&hand.round, ROUNDS + 1);
    pthread_join(thread, NULL);
    memory_check_empty(&memory);
    aw_set_allocator(NULL);
    lockstep_free(&hand.round);
    lockstep_free(&hand.done);
}

TEST(threads_may_wake_children_while_the_set_yields_is_cleared_and_freed) {
    begin_waking();
    for (unsigned round = 1; round <= ROUNDS; round++) {
        aw_waker waker = aw_parker_waker(hand.done.parker); /* this thread waits there, too */
        aw_cx cx = aw_cx_from_waker(&waker);
        memset(hand.polls, 0, sizeof hand.polls);
        aw_set_init(&set, sizeof(struct handing));
        for (int i = 0; i < HANDED; i++) {
            struct handing h = {AW_FUTURE_INIT(&handing_type), 0, i};
            CHECK_EQ(aw_set_push(&set, h), 0);
        }
        aw_set_next_future next = aw_set_next(&set);
        CHECK_EQ(aw_future_poll(&next.future, &cx), AW_PENDING);
        lockstep_set(&hand.round, round);
        /* Take a few of them, then cancel while the thread is still waking. */
        for (unsigned take = round % 5; take; take--) {
            while (aw_future_poll(&next.future, &cx) == AW_PENDING)
                aw_parker_park(hand.done.parker);
            next = aw_set_next(&set);
            if (aw_future_poll(&next.future, &cx) == AW_READY) next = aw_set_next(&set);
        }
        CHECK_EQ(aw_future_cancel(&next.future, &cx), AW_CANCELLED);
        aw_set_clear_future c = aw_set_clear(&set);
        CHECK_EQ(aw_future_poll(&c.future, &cx), AW_READY);
        aw_set_free(&set);
        lockstep_wait(&hand.done, round);
    }
    end_waking();
}

static struct handing jobs[64];

TEST(threads_may_wake_children_of_a_join_all_that_is_gone) {
    begin_waking();
    for (unsigned round = 1; round <= ROUNDS; round++) {
        struct checked_waker checked_waker = {0, 0, false};
        aw_waker waker = checked_waker_of(&checked_waker);
        aw_cx cx = aw_cx_from_waker(&waker);
        memset(hand.polls, 0, sizeof hand.polls);
        for (int i = 0; i < 64; i++) {
            jobs[i] = (struct handing){AW_FUTURE_INIT(&handing_type), 0, i};
            if (i >= HANDED) jobs[i].future.type = &aw_never_type;
        }
        aw_all a = aw_join_all(jobs, 64);
        CHECK_EQ(aw_future_poll(&a.future, &cx), AW_PENDING);
        lockstep_set(&hand.round, round);
        if (round % 2) CHECK_EQ(aw_future_poll(&a.future, &cx), AW_PENDING);
        CHECK_EQ(aw_future_cancel(&a.future, &cx), AW_CANCELLED);
        lockstep_wait(&hand.done, round);
        checked_waker_retire(&checked_waker);
    }
    end_waking();
}
