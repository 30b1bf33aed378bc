/* SPDX-License-Identifier: MIT
 *
 * A cancel that races with completion on another thread: the future either finishes or is
 * cancelled, and nothing is lost or released twice. The sender sends as soon as `go` is set, and
 * the canceller cancels at the same time. `delay` shifts the two against each other, so that
 * both orders occur. */
#include <errno.h>
#include <pthread.h>

#include "support/lockstep.h"
#include "support/checked_waker.h"

typedef AW_ONESHOT(int) channel;

enum { CHANNELS = 40 };

static struct race {
    channel channels[CHANNELS];
    aw_notify notify;
    int count;                /* channels that are sent to */
    struct lockstep go, done; /* the round to run, and the last one done */
    bool stop;
    unsigned delay;
} race;

static void spin(unsigned n) {
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static void *sender(void *unused) {
    (void)unused;
    for (unsigned round = 1;; round++) {
        lockstep_wait(&race.go, round);
        if (race.stop) return NULL;
        spin(race.delay % 64);
        for (int i = 0; i < race.count; i++)
            CHECK_EQ(aw_oneshot_send(&race.channels[i], 1 + i), 0);
        aw_notify_one(&race.notify);
        lockstep_set(&race.done, round);
    }
}

/* The waker that the sender uses: its references are counted, and checked after the round. */
static struct checked_waker checked_waker;
static aw_cx fresh_cx(aw_waker *waker) {
    checked_waker = (struct checked_waker){0, 0, false};
    *waker = checked_waker_of(&checked_waker);
    return aw_cx_from_waker(waker);
}

/* One round, with a future that was polled already: cancels it while the other thread sends.
 * Returns the result after the other thread is done. */
static aw_poll cancel_while_sending(aw_future *f, aw_cx *cx, unsigned round) {
    race.delay = round * 7;
    lockstep_set(&race.go, round);
    spin(round * 13 % 1024);
    aw_poll r;
    while ((r = aw_future_cancel(f, cx)) == AW_PENDING)
        ;
    int refs = __atomic_load_n(&checked_waker.refs, __ATOMIC_ACQUIRE);
    lockstep_wait(&race.done, round);
    CHECK_LE(refs, 1); /* a wake may be in progress */
    CHECK_EQ(checked_waker.refs, 0);
    return r;
}

static void run_rounds(int count, void (*one)(unsigned round)) {
    pthread_t thread;
    race.count = count;
    lockstep_init(&race.go);
    lockstep_init(&race.done);
    CHECK_EQ(pthread_create(&thread, NULL, sender, NULL), 0);
    unsigned rounds = (unsigned)test_scale(10000);
    for (unsigned round = 1; round <= rounds; round++) {
        for (int i = 0; i < count; i++)
            race.channels[i] = (channel)AW_ONESHOT_INIT;
        race.notify = (aw_notify)AW_NOTIFY_INIT;
        one(round);
    }
    race.stop = true;
    lockstep_set(&race.go, rounds + 1);
    pthread_join(thread, NULL);
    lockstep_free(&race.go);
    lockstep_free(&race.done);
}

/* A value was either received, or is still in its channel. */
static int remaining_in_channels(void) {
    int remaining = 0;
    for (int i = 0; i < race.count; i++)
        if (aw_oneshot_try_recv(&race.channels[i]) == 0) remaining++;
    return remaining;
}

static void receive_alone(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    aw_oneshot_future r = aw_oneshot_recv(&race.channels[0]);
    CHECK_EQ(aw_future_poll(&r.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&r.future, &cx, round);
    if (answer == AW_READY) {
        CHECK_EQ(r.out, 0);
        CHECK_EQ(race.channels[0].value, 1);
    }
    CHECK_EQ(remaining_in_channels(), answer == AW_READY ? 0 : 1);
}

TEST(a_receive_that_is_cancelled_while_a_thread_sends_loses_nothing) {
    run_rounds(1, receive_alone);
}

static void wait_alone(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    aw_notified w = aw_notify_wait(&race.notify);
    CHECK_EQ(aw_future_poll(&w.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&w.future, &cx, round);
    CHECK_EQ(race.notify.permit, answer == AW_READY ? 0 : 1);
}

TEST(a_wait_that_is_cancelled_while_a_thread_notifies_loses_nothing) {
    run_rounds(0, wait_alone);
}

typedef AW_JOIN(aw_oneshot_future, aw_oneshot_future) both;
typedef AW_SELECT(aw_oneshot_future, aw_oneshot_future) either;

static void receive_both(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    both j = AW_JOIN_OF(both, aw_oneshot_recv(&race.channels[0]),
                        aw_oneshot_recv(&race.channels[1]));
    CHECK_EQ(aw_future_poll(&j.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&j.future, &cx, round);
    CHECK_EQ(remaining_in_channels(), answer == AW_READY ? 0 : 2); /* cut: put back */
}

TEST(a_join_that_is_cut_while_a_thread_sends_gives_back_what_it_had) {
    run_rounds(2, receive_both);
}

static void receive_either(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    either s = AW_SELECT_OF(either, aw_oneshot_recv(&race.channels[0]),
                            aw_oneshot_recv(&race.channels[1]));
    CHECK_EQ(aw_future_poll(&s.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&s.future, &cx, round);
    CHECK_EQ(answer == AW_READY, s.out != 0);
    int took = 0;
    AW_SELECT_EACH(i, &s) {
        CHECK_EQ(race.channels[i].value, 1 + i);
        took++;
    }
    CHECK_EQ(took + remaining_in_channels(), 2);
}

TEST(a_select_that_is_cancelled_while_a_thread_sends_reports_what_came) {
    run_rounds(2, receive_either);
}

static aw_oneshot_future many[CHANNELS];

static void receive_many(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    for (int i = 0; i < CHANNELS; i++)
        many[i] = aw_oneshot_recv(&race.channels[i]);
    aw_all a = aw_join_all(many, CHANNELS);
    CHECK_EQ(aw_future_poll(&a.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&a.future, &cx, round);
    CHECK_EQ(remaining_in_channels(), answer == AW_READY ? 0 : CHANNELS);
}

TEST(a_join_all_that_is_cut_while_a_thread_sends_gives_back_what_it_had) {
    run_rounds(CHANNELS, receive_many);
}

static void select_many(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    for (int i = 0; i < CHANNELS; i++)
        many[i] = aw_oneshot_recv(&race.channels[i]);
    aw_all a = aw_select_all(many, CHANNELS);
    CHECK_EQ(aw_future_poll(&a.future, &cx), AW_PENDING);
    aw_poll answer = cancel_while_sending(&a.future, &cx, round);
    int took = 0;
    if (answer == AW_READY)
        while (aw_select_all_next(&a) >= 0)
            took++;
    CHECK_EQ(answer == AW_READY, took > 0);
    CHECK_EQ(took + remaining_in_channels(), CHANNELS);
}

TEST(a_select_all_that_is_cancelled_while_a_thread_sends_reports_what_came) {
    run_rounds(CHANNELS, select_many);
}

/* A cancelled next removes nothing from the set. */
static void set_of_many(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    aw_set set;
    aw_set_init(&set, sizeof(aw_oneshot_future));
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(aw_set_push(&set, aw_oneshot_recv(&race.channels[i])), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(aw_future_poll(&next.future, &cx), AW_PENDING);
    CHECK_EQ(cancel_while_sending(&next.future, &cx, round), AW_CANCELLED);
    CHECK_EQ(set.count, CHANNELS);
    for (int i = 0; i < CHANNELS; i++) {
        next = aw_set_next(&set);
        CHECK_EQ(aw_future_poll(&next.future, &cx), AW_READY);
        CHECK_EQ(AW_SET_AS(aw_oneshot_future, &next)->out, 0);
    }
    aw_set_free(&set);
    CHECK_EQ(remaining_in_channels(), 0);
}

TEST(a_next_that_is_cancelled_while_a_thread_sends_leaves_everything_in_the_set) {
    run_rounds(CHANNELS, set_of_many);
}

static void clear_of_many(unsigned round) {
    aw_waker waker;
    aw_cx cx = fresh_cx(&waker);
    aw_set set;
    aw_set_init(&set, sizeof(aw_oneshot_future));
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQ(aw_set_push(&set, aw_oneshot_recv(&race.channels[i])), 0);
    aw_set_next_future next = aw_set_next(&set);
    CHECK_EQ(aw_future_poll(&next.future, &cx), AW_PENDING);
    CHECK_EQ(aw_future_cancel(&next.future, &cx), AW_CANCELLED);

    race.delay = round * 7;
    lockstep_set(&race.go, round);
    spin(round * 13 % 1024);
    aw_set_clear_future clear = aw_set_clear(&set);
    CHECK_EQ(aw_future_poll(&clear.future, &cx), AW_READY);
    aw_set_free(&set); /* while the sender may still wake through one of its wakers */
    lockstep_wait(&race.done, round);
    CHECK_EQ(remaining_in_channels(), CHANNELS);
    CHECK_EQ(checked_waker.refs, 0);
}

TEST(a_set_that_is_cleared_and_freed_while_a_thread_sends_gives_everything_back) {
    run_rounds(CHANNELS, clear_of_many);
}
