/* SPDX-License-Identifier: MIT
 *
 * Cancel at every await: waits for the runtime or for another task, in the chains of
 * support/cancel_every_await.h. Time is virtual. Another task ends the wait, after a sleep. */
#include <errno.h>
#include <pthread.h>

#include "os/lock.h"
#include "support/cancel_every_await.h"

/* Calls a function after a millisecond. */
AW_ASYNC(int, later, void (*call)(void); aw_sleep nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    self->call();
    AW_RETURN(0);
    AW_END;
}
static void call_later(void (*call)(void)) {
    aw_task_drop(aw_spawn(AW_CALL(later, .call = call)));
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* cancel-at-every-await: aw_sleep */
static aw_sleep nap;
static aw_future *make_sleep(void) {
    if (chain.style & 1)
        nap = aw_sleep_for(AW_MSEC(1));
    else
        nap = aw_sleep_until(aw_now(NULL) + AW_MSEC(1));
    return &nap.future;
}
static void take_sleep(aw_future *f) {
    (void)f;
    CHECK_EQ(nap.out, 0);
    CHECK_GE(aw_now(NULL), nap.when);
}
TEST(sleep) {
    cancel_everywhere((struct specimen){make_sleep, take_sleep, NULL, NULL, NULL});
}

/* cancel-at-every-await: aw_tick */
static aw_interval interval;
static aw_tick tick;
static uint64_t due;
static aw_future *make_tick(void) {
    due = aw_now(NULL) + AW_MSEC(1);
    CHECK_EQ(aw_interval_from(&interval, due, AW_MSEC(3), AW_BURST), 0);
    tick = aw_interval_tick(&interval);
    return &tick.future;
}
static void take_tick(aw_future *f) {
    (void)f;
    CHECK_EQ(tick.at, due);
    CHECK_EQ(interval.next, due + AW_MSEC(3));
    due += AW_MSEC(3);
}
/* A tick that was not taken is still due. */
static void check_tick(void) {
    CHECK_EQ(interval.next, due);
}
TEST(tick) {
    cancel_everywhere((struct specimen){make_tick, take_tick, NULL, check_tick, NULL});
}

/* ---- Notify ---------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_notified */
static aw_notify notify;
static aw_notified notified;
static int rung, heard;

static void ring(void) {
    rung++;
    aw_notify_one(&notify);
}
static aw_future *make_notified(void) {
    notify = (aw_notify)AW_NOTIFY_INIT;
    rung = heard = 0;
    call_later(ring);
    notified = aw_notify_wait(&notify);
    return &notified.future;
}
static void take_notified(aw_future *f) {
    (void)f;
    heard++;
}
static void check_no_waiter(void) {
    aw__lock(&notify.lock); /* a notify may be in progress */
    CHECK(notify.first == NULL);
    aw__unlock(&notify.lock);
}
/* Each notification was received once, or is still there. */
static void check_heard(void) {
    CHECK_EQ(rung, heard + (int)notify.permit);
}
TEST(notified_one) {
    cancel_everywhere(
        (struct specimen){make_notified, take_notified, NULL, check_no_waiter, check_heard});
}

static void ring_all(void) {
    aw_notify_waiters(&notify);
}
static aw_future *make_notified_by_all(void) {
    notify = (aw_notify)AW_NOTIFY_INIT;
    call_later(ring_all);
    notified = aw_notify_wait(&notify);
    return &notified.future;
}
static void check_no_permit(void) {
    CHECK_EQ(notify.permit, 0);
}
TEST(notified_all) {
    cancel_everywhere(
        (struct specimen){make_notified_by_all, NULL, NULL, check_no_waiter, check_no_permit});
}

/* ---- Oneshot --------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_oneshot_recv */
static AW_ONESHOT(int) channel;
static aw_oneshot_future half;
static bool sent, received;

static void send_token(void) {
    CHECK_EQ(aw_oneshot_send(&channel, ownership_token()), 0);
    sent = true;
}
static aw_future *make_recv(void) {
    channel = (__typeof__(channel))AW_ONESHOT_INIT;
    sent = received = false;
    call_later(send_token);
    half = aw_oneshot_recv(&channel);
    return &half.future;
}
static void take_recv(aw_future *f) {
    (void)f;
    CHECK_EQ(half.out, 0);
    ownership_release(channel.value);
    received = true;
}
static void check_no_receiver(void) {
    aw__lock(&channel.channel.lock);
    CHECK(channel.channel.receiver == NULL);
    CHECK(channel.channel.closed == NULL);
    aw__unlock(&channel.channel.lock);
}
/* A value that was sent and not received is still in the channel. */
static void check_received(void) {
    int status = aw_oneshot_try_recv(&channel);
    if (status == 0) ownership_release(channel.value);
    CHECK_EQ(status == 0, sent && !received);
}
TEST(oneshot_recv) {
    cancel_everywhere(
        (struct specimen){make_recv, take_recv, NULL, check_no_receiver, check_received});
}

static void close_sender(void) {
    aw_oneshot_close_sender(&channel);
}
static aw_future *make_recv_of_nothing(void) {
    channel = (__typeof__(channel))AW_ONESHOT_INIT;
    call_later(close_sender);
    half = aw_oneshot_recv(&channel);
    return &half.future;
}
static void take_nothing(aw_future *f) {
    (void)f;
    CHECK_EQ(half.out, -EPIPE);
}
TEST(oneshot_recv_of_nothing) {
    cancel_everywhere(
        (struct specimen){make_recv_of_nothing, take_nothing, NULL, check_no_receiver, NULL});
}

/* cancel-at-every-await: aw_oneshot_closed */
static void close_receiver(void) {
    aw_oneshot_close_receiver(&channel);
}
static aw_future *make_closed(void) {
    channel = (__typeof__(channel))AW_ONESHOT_INIT;
    call_later(close_receiver);
    half = aw_oneshot_closed(&channel);
    return &half.future;
}
static void take_closed(aw_future *f) {
    (void)f;
    CHECK_EQ(half.out, 0);
    CHECK_EQ(aw_oneshot_send(&channel, 1), -EPIPE);
}
TEST(oneshot_closed) {
    cancel_everywhere((struct specimen){make_closed, take_closed, NULL, check_no_receiver, NULL});
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_task_join */
static struct leaf *task;
static pthread_mutex_t task_lock = PTHREAD_MUTEX_INITIALIZER;
static aw_task_join_future task_join;
static bool abort_it;

static aw_future *make_task_join(void) {
    task = aw_spawn(chain_leaf(2, 0));
    if (abort_it) aw_task_abort(task);
    task_join = aw_task_join(task);
    return &task_join.future;
}
/* Takes the handle: no other code uses it from here on. */
static struct leaf *claim_task(void) {
    pthread_mutex_lock(&task_lock);
    struct leaf *claimed = task;
    task = NULL;
    pthread_mutex_unlock(&task_lock);
    return claimed;
}
static void take_task(aw_future *f) {
    (void)f;
    CHECK(task_join.out == 0 || task_join.out == -ECANCELED);
    if (task_join.out == 0)
        ownership_release(aw_task_take(claim_task()));
    else
        aw_task_drop(claim_task());
}
/* A cut join does not affect the task: it goes on, and its output is discarded. */
static void drop_task(void) {
    struct leaf *claimed = claim_task();
    if (claimed) aw_task_drop(claimed);
}
TEST(task_join) {
    cancel_everywhere((struct specimen){make_task_join, take_task, NULL, drop_task, NULL});
}
TEST(task_join_of_an_aborted_task) {
    abort_it = true;
    cancel_everywhere((struct specimen){make_task_join, take_task, NULL, drop_task, NULL});
}

/* Aborts the task while it waits. */
static void abort_task(void) {
    pthread_mutex_lock(&task_lock);
    if (task) aw_task_abort(task);
    pthread_mutex_unlock(&task_lock);
}
static aw_future *make_late_abort(void) {
    task = aw_spawn(chain_leaf(NEVER, 0));
    call_later(abort_task);
    task_join = aw_task_join(task);
    return &task_join.future;
}
TEST(task_join_of_a_task_that_is_aborted_later) {
    cancel_everywhere((struct specimen){make_late_abort, take_task, NULL, drop_task, NULL});
}
