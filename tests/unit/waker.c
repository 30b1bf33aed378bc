/* SPDX-License-Identifier: MIT
 *
 * The wakers that need no runtime, and the helpers that store one. */
#include <awake.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "support/checked_waker.h"
#include "test.h"

/* ---- No-op ----------------------------------------------------------------------------------- */

TEST(a_noop_waker_can_be_used_like_any_other) {
    aw_waker w = aw_noop_waker(), clone = aw_waker_clone(&w);
    CHECK(aw_waker_will_wake(&w, &clone));
    aw_waker_wake_by_ref(&w);
    aw_waker_wake(clone);
    aw_waker_drop(aw_waker_clone(&w));
}

/* ---- A flag ---------------------------------------------------------------------------------- */

TEST(waking_raises_the_flag_and_taking_lowers_it) {
    aw_flag flag = {0};
    aw_waker w = aw_flag_waker(&flag);
    CHECK(!aw_flag_take(&flag));
    aw_waker_wake_by_ref(&w);
    CHECK(aw_flag_take(&flag));
    CHECK(!aw_flag_take(&flag));
    aw_waker_wake(aw_waker_clone(&w));
    CHECK(aw_flag_take(&flag));
}

TEST(several_wakes_of_a_flag_count_as_one) {
    aw_flag flag = {0};
    aw_waker w = aw_flag_waker(&flag);
    for (int i = 0; i < 3; i++)
        aw_waker_wake_by_ref(&w);
    CHECK(aw_flag_take(&flag));
    CHECK(!aw_flag_take(&flag));
}

TEST(dropping_a_waker_wakes_nothing) {
    aw_flag flag = {0};
    aw_waker w = aw_flag_waker(&flag);
    aw_waker_drop(aw_waker_clone(&w));
    CHECK(!aw_flag_take(&flag));
}

struct handed {
    aw_flag flag;
    int value; /* plain: the flag says when it may be read */
};

static void *hand_over(void *arg) {
    struct handed *h = arg;
    h->value = 42;
    aw_waker_wake(aw_flag_waker(&h->flag));
    return NULL;
}

TEST(what_was_written_before_a_flag_was_raised_is_seen_after_it_was_taken) {
    struct handed h = {{0}, 0};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, hand_over, &h), 0);
    while (!aw_flag_take(&h.flag)) {
    }
    CHECK_EQ(h.value, 42);
    pthread_join(thread, NULL);
}

/* ---- A counted object ------------------------------------------------------------------------ */

struct bell {
    aw_counted counted;
    int rings, releases; /* atomic */
};
static void bell_ring(aw_counted *c) {
    __atomic_fetch_add(&((struct bell *)c)->rings, 1, __ATOMIC_RELAXED);
}
static void bell_release(aw_counted *c) {
    struct bell *b = (struct bell *)c;
    CHECK_EQ(b->releases++, 0);
}

TEST(a_counted_object_is_released_when_its_last_reference_is_gone) {
    struct bell b = {.rings = 0};
    aw_counted_init(&b.counted, bell_ring, bell_release);
    aw_waker borrowed = aw_counted_waker(&b.counted);
    aw_waker first = aw_waker_clone(&borrowed), second = aw_waker_clone(&first);
    aw_counted_keep(&b.counted);
    aw_counted_drop(&b.counted);
    aw_counted_drop(&b.counted); /* the initial reference */
    CHECK_EQ(b.releases, 0);
    aw_waker_drop(first);
    CHECK_EQ(b.releases, 0);
    aw_waker_drop(second);
    CHECK_EQ(b.releases, 1);
    CHECK_EQ(b.rings, 0);
}

TEST(wake_consumes_a_reference_and_wake_by_ref_does_not) {
    struct bell b = {.rings = 0};
    aw_counted_init(&b.counted, bell_ring, bell_release);
    aw_waker borrowed = aw_counted_waker(&b.counted), clone = aw_waker_clone(&borrowed);
    aw_counted_drop(&b.counted);
    aw_waker_wake_by_ref(&clone);
    aw_waker_wake_by_ref(&clone);
    CHECK_EQ(b.rings, 2);
    CHECK_EQ(b.releases, 0);
    aw_waker_wake(clone);
    CHECK_EQ(b.rings, 3);
    CHECK_EQ(b.releases, 1);
}

enum { THREADS = 4 };

struct ringer {
    aw_waker waker; /* owned */
    int times;
};

static void *ring_and_clone(void *arg) {
    struct ringer *r = arg;
    for (int i = 0; i < r->times; i++) {
        aw_waker clone = aw_waker_clone(&r->waker);
        aw_waker_wake_by_ref(&r->waker);
        if (i % 2)
            aw_waker_wake(clone);
        else
            aw_waker_drop(clone);
    }
    aw_waker_drop(r->waker);
    return NULL;
}

TEST(threads_that_clone_wake_and_drop_release_a_counted_object_once) {
    int times = test_scale(20000);
    struct bell b = {.rings = 0};
    pthread_t threads[THREADS];
    struct ringer ringers[THREADS];
    aw_counted_init(&b.counted, bell_ring, bell_release);
    aw_waker borrowed = aw_counted_waker(&b.counted);
    for (int i = 0; i < THREADS; i++) {
        ringers[i] = (struct ringer){aw_waker_clone(&borrowed), times};
        CHECK_EQ(pthread_create(&threads[i], NULL, ring_and_clone, &ringers[i]), 0);
    }
    aw_counted_drop(&b.counted);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(b.rings, THREADS * (times + times / 2));
    CHECK_EQ(b.releases, 1);
}

/* ---- will_wake, set and take ----------------------------------------------------------------- */

TEST(two_wakers_are_the_same_when_type_and_data_are) {
    aw_flag one = {0}, other = {0};
    struct checked_waker b = {0, 0, false};
    aw_waker w = aw_flag_waker(&one), same = aw_flag_waker(&one), data = aw_flag_waker(&other);
    aw_waker type = checked_waker_of(&b), none = {NULL, NULL};
    CHECK(aw_waker_will_wake(&w, &same));
    CHECK(!aw_waker_will_wake(&w, &data));
    CHECK(!aw_waker_will_wake(&w, &type));
    CHECK(!aw_waker_will_wake(&none, &w));
    CHECK(!aw_waker_will_wake(&w, &none));
}

static bool same_parity(const void *data, const aw_waker *other) {
    return ((uintptr_t)data - (uintptr_t)other->data) % 2 == 0;
}

TEST(a_type_may_know_better_which_wakers_are_the_same) {
    static char slots[4];
    aw_waker_type type = checked_waker_type;
    type.will_wake = same_parity;
    aw_waker a = {&type, &slots[0]}, b = {&type, &slots[2]}, c = {&type, &slots[1]};
    CHECK(aw_waker_will_wake(&a, &b));
    CHECK(!aw_waker_will_wake(&a, &c));
}

TEST(a_slot_clones_only_when_the_waker_changed) {
    struct checked_waker one = {0, 0, false}, two = {0, 0, false};
    aw_waker w1 = checked_waker_of(&one), w2 = checked_waker_of(&two), slot = {NULL, NULL};
    aw_waker_set(&slot, &w1);
    CHECK_EQ(one.refs, 1);
    one.retired = true; /* from now on a clone is a failure */
    for (int i = 0; i < 3; i++)
        aw_waker_set(&slot, &w1);
    CHECK_EQ(one.refs, 1);
    aw_waker_set(&slot, &w2);
    CHECK_EQ(one.refs, 0);
    CHECK_EQ(two.refs, 1);
    aw_waker_wake(aw_waker_take(&slot));
    CHECK_EQ(two.refs, 0);
    CHECK_EQ(two.wakes, 1);
    CHECK_EQ(one.wakes, 0);
}

TEST(a_slot_that_was_taken_is_empty) {
    struct checked_waker one = {0, 0, false};
    aw_waker w = checked_waker_of(&one), slot = {NULL, NULL};
    CHECK(aw_waker_take(&slot).type == NULL);
    aw_waker_set(&slot, &w);
    aw_waker taken = aw_waker_take(&slot);
    CHECK(aw_waker_will_wake(&taken, &w));
    CHECK(aw_waker_take(&slot).type == NULL);
    aw_waker_set(&slot, &w);
    CHECK_EQ(one.refs, 2);
    aw_waker_clear(&slot);
    CHECK(slot.type == NULL);
    aw_waker_clear(&slot);
    CHECK_EQ(one.refs, 1);
    aw_waker_drop(taken);
    CHECK_EQ(one.refs, 0);
}

/* ---- A parked thread ------------------------------------------------------------------------- */

TEST(a_wake_that_comes_before_the_park_is_remembered_and_several_count_as_one) {
    aw_parker *p = aw_parker_new();
    aw_waker w = aw_parker_waker(p);
    aw_waker_wake_by_ref(&w);
    aw_waker_wake(aw_waker_clone(&w));
    aw_parker_unpark(p);
    aw_parker_park(p);
    CHECK(!aw_parker_park_until(p, 0)); /* nothing is left */
    aw_parker_unpark(p);
    CHECK(aw_parker_park_until(p, 0)); /* a token counts even after the deadline */
    aw_parker_free(p);
}

TEST(a_park_with_a_deadline_does_not_end_early) {
    aw_parker *p = aw_parker_new();
    uint64_t deadline = test_now_ns() + AW_MSEC(20);
    CHECK(!aw_parker_park_until(p, deadline));
    CHECK_GE(test_now_ns(), deadline);
    aw_parker_free(p);
}

static void on_signal(int signal) {
    (void)signal;
}

struct nuisance {
    pthread_t target;
    bool stop; /* atomic */
};

static void *send_signals(void *arg) {
    struct nuisance *n = arg;
    while (!__atomic_load_n(&n->stop, __ATOMIC_RELAXED)) {
        pthread_kill(n->target, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

TEST(a_signal_does_not_end_a_park) {
    struct nuisance n = {pthread_self(), false};
    pthread_t thread;
    aw_parker *p = aw_parker_new();
    signal(SIGUSR1, on_signal);
    CHECK_EQ(pthread_create(&thread, NULL, send_signals, &n), 0);
    uint64_t deadline = test_now_ns() + AW_MSEC(20);
    CHECK(!aw_parker_park_until(p, deadline));
    CHECK_GE(test_now_ns(), deadline);
    __atomic_store_n(&n.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    aw_parker_free(p);
}

/* Two threads and one plain int, which belongs to the thread that was woken last. */
struct table {
    aw_parker *parkers[2];
    int ball, rounds;
};

static void *play_back(void *arg) {
    struct table *t = arg;
    for (int i = 0; i < t->rounds; i++) {
        aw_parker_park(t->parkers[1]);
        CHECK_EQ(t->ball, 2 * i + 1);
        t->ball++;
        aw_parker_unpark(t->parkers[0]);
    }
    return NULL;
}

TEST(what_was_written_before_a_wake_is_seen_after_the_park) {
    struct table t = {{aw_parker_new(), aw_parker_new()}, 0, test_scale(20000)};
    aw_waker other = aw_parker_waker(t.parkers[1]);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, play_back, &t), 0);
    for (int i = 0; i < t.rounds; i++) {
        t.ball++;
        aw_waker_wake_by_ref(&other);
        aw_parker_park(t.parkers[0]);
        CHECK_EQ(t.ball, 2 * i + 2);
    }
    pthread_join(thread, NULL);
    aw_parker_free(t.parkers[0]);
    aw_parker_free(t.parkers[1]);
}

struct sender {
    aw_waker waker; /* owned */
    int times;
    int *sent; /* atomic, shared by all senders */
};

static void *send_many(void *arg) {
    struct sender *s = arg;
    for (int i = 0; i < s->times; i++) {
        __atomic_fetch_add(s->sent, 1, __ATOMIC_RELAXED);
        if (i % 3)
            aw_waker_wake_by_ref(&s->waker);
        else
            aw_waker_wake(aw_waker_clone(&s->waker));
    }
    aw_waker_wake(s->waker);
    return NULL;
}

TEST(no_wake_of_several_threads_is_lost) {
    int times = test_scale(50000), sent = 0;
    aw_parker *p = aw_parker_new();
    aw_waker borrowed = aw_parker_waker(p);
    pthread_t threads[THREADS];
    struct sender senders[THREADS];
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){aw_waker_clone(&borrowed), times, &sent};
        CHECK_EQ(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
    }
    /* Each park returns after a wake that came after the last check. A lost wake hangs here. */
    while (__atomic_load_n(&sent, __ATOMIC_RELAXED) < THREADS * times)
        aw_parker_park(p);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    aw_parker_free(p);
}

TEST(a_parker_lives_until_every_clone_of_its_waker_is_gone) {
    for (int round = 0; round < test_scale(200); round++) {
        int sent = 0;
        aw_parker *p = aw_parker_new();
        aw_waker borrowed = aw_parker_waker(p);
        pthread_t threads[THREADS];
        struct sender senders[THREADS];
        for (int i = 0; i < THREADS; i++) {
            senders[i] = (struct sender){aw_waker_clone(&borrowed), 5, &sent};
            CHECK_EQ(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
        }
        aw_parker_free(p); /* while they wake it: the last reference frees it */
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

static void *no_memory(void *data, size_t size) {
    (void)data;
    (void)size;
    return NULL;
}
static void never_called(void *data, void *memory, size_t size) {
    (void)data;
    (void)memory;
    (void)size;
    FAIL("nothing was allocated");
}

TEST(without_memory_there_is_no_parker) {
    static const aw_allocator none = {no_memory, never_called, NULL};
    aw_set_allocator(&none);
    CHECK(aw_parker_new() == NULL);
    aw_parker_free(NULL);
    aw_set_allocator(NULL);
}
