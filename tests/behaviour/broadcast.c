/* SPDX-License-Identifier: MIT
 *
 * Broadcast: every receiver gets every message, or is told exactly how many it has missed. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "support/callback_waker.h"
#include "support/by_hand.h"
#include "support/workers.h"

typedef AW_BROADCAST(int) ints;

static aw_flag flag, other;

static void init(ints *b, size_t capacity) {
    CHECK_EQ(aw_broadcast_init(b, capacity), 0);
}

static void send_all(ints *b, int from, int count) {
    for (int i = from; i < from + count; i++)
        CHECK_GT(aw_broadcast_send(b, &i), 0);
}

static int take(ints *b, aw_broadcast_receiver *r) {
    int n = -1;
    CHECK_EQ(aw_broadcast_try_recv(b, r, &n), 0);
    return n;
}

/* Elements that own something. */
typedef struct counted {
    uint32_t refs;
} counted;
typedef AW_BROADCAST(counted *) pointers;

static void counted_clone(void *to, const void *from) {
    counted *c = *(counted *const *)from;
    c->refs++;
    *(counted **)to = c;
}

static void counted_release(void *item) {
    (*(counted **)item)->refs--;
}

static counted objects[10];

static void init_owned(pointers *b, size_t capacity) {
    CHECK_EQ(aw_broadcast_init(b, capacity), 0);
    aw_broadcast_set_owned(b, counted_clone, counted_release);
}

static void send_object(pointers *b, int i) {
    counted *p = &objects[i];
    p->refs = 1;
    CHECK_GT(aw_broadcast_send(b, &p), 0);
}

/* ---- Messages --------------------------------------------------------------------------------- */

TEST(each_receiver_gets_what_was_sent_after_it_subscribed) {
    ints b;
    int n = 0;
    init(&b, 4);
    CHECK_EQ(aw_broadcast_send(&b, &n), -EPIPE);
    aw_broadcast_receiver first = aw_broadcast_subscribe(&b);
    CHECK_EQ(aw_broadcast_send(&b, &n), 1);
    aw_broadcast_receiver second = aw_broadcast_subscribe(&b);
    n = 1;
    CHECK_EQ(aw_broadcast_send(&b, &n), 2);
    CHECK_EQ(aw_broadcast_len(&b, &first), 2);
    CHECK_EQ(aw_broadcast_len(&b, &second), 1);
    CHECK_EQ(take(&b, &first), 0);
    CHECK_EQ(take(&b, &first), 1);
    CHECK_EQ(take(&b, &second), 1);
    CHECK_EQ(aw_broadcast_try_recv(&b, &first, &n), -EAGAIN);
    CHECK_EQ(aw_broadcast_try_recv(&b, &second, &n), -EAGAIN);
    aw_broadcast_unsubscribe(&b, &first);
    aw_broadcast_unsubscribe(&b, &second);
    CHECK_EQ(aw_broadcast_send(&b, &n), -EPIPE);
    aw_broadcast_free(&b);
}

TEST(all_that_wait_are_woken_by_a_message) {
    enum { WAITERS = 100 };
    ints b;
    static aw_flag flags[WAITERS];
    aw_broadcast_receiver r[WAITERS];
    aw_broadcast_future f[WAITERS];
    int n[WAITERS];
    AW_BROADCAST_STORAGE(int, 3) storage;
    CHECK_EQ(aw_broadcast_init_in(&b, &storage), 0);
    for (int i = 0; i < WAITERS; i++) {
        r[i] = aw_broadcast_subscribe(&b);
        f[i] = aw_broadcast_recv(&b, &r[i], &n[i]);
        CHECK_EQ(POLL(&f[i], &flags[i]), AW_PENDING);
    }
    send_all(&b, 7, 1);
    for (int i = 0; i < WAITERS; i++) {
        CHECK(aw_flag_take(&flags[i]));
        CHECK_EQ(POLL(&f[i], &flags[i]), AW_READY);
        CHECK_EQ(f[i].out, 0);
        CHECK_EQ(n[i], 7);
        aw_broadcast_unsubscribe(&b, &r[i]);
    }
    aw_broadcast_free(&b);
}

TEST(a_capacity_that_cannot_be_is_refused) {
    ints b;
    CHECK_EQ(aw_broadcast_init(&b, 0), -EINVAL);
    CHECK_EQ(aw_broadcast_init(&b, (size_t)AW_BROADCAST_MAX + 1), -EINVAL);
    memory m;
    aw_set_allocator(memory_init(&m));
    m.refuse = 1;
    CHECK_EQ(aw_broadcast_init(&b, 10), -ENOMEM);
}

enum { LARGE = 1 << 28, PAGE = 4096 };

static void *map_memory(void *data, size_t size) {
    (void)data;
    void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

static void unmap_memory(void *data, void *at, size_t size) {
    (void)data;
    munmap(at, size);
}

static size_t resident_pages(void *at, size_t size) {
    static unsigned char resident[LARGE / PAGE];
    size_t pages = size / PAGE, count = 0;
    CHECK_LE(pages, sizeof resident);
    CHECK_EQ(mincore(at, size, resident), 0);
    for (size_t i = 0; i < pages; i++)
        count += resident[i] & 1;
    return count;
}

TEST(a_large_broadcast_touches_only_the_memory_that_it_uses) {
    static const aw_allocator mapped = {map_memory, unmap_memory, NULL};
    typedef AW_BROADCAST(char) chars;
    chars b;
    char c = 'c';
    aw_set_allocator(&mapped);
    CHECK_EQ(aw_broadcast_init(&b, LARGE), 0);
    CHECK_LE(resident_pages(b.broadcast.items, LARGE), 1);
    CHECK_LE(resident_pages(b.broadcast.pending, LARGE), 1);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    CHECK_EQ(aw_broadcast_send(&b, &c), 1);
    c = 'd';
    CHECK_EQ(aw_broadcast_try_recv(&b, &r, &c), 0);
    CHECK_EQ(c, 'c');
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
}

/* The previous contents of the storage are ignored. */
TEST(a_broadcast_in_used_memory_releases_only_what_was_sent) {
    AW_BROADCAST_STORAGE(counted *, 3) storage;
    pointers b;
    memset(&storage, 0x5a, sizeof storage);
    CHECK_EQ(aw_broadcast_init_in(&b, &storage), 0);
    aw_broadcast_set_owned(&b, counted_clone, counted_release);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    for (int i = 0; i < 5; i++)
        send_object(&b, i);
    CHECK_EQ(objects[0].refs + objects[1].refs, 0);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(objects[i].refs, 0);
}

/* ---- Lag -------------------------------------------------------------------------------------- */

/* For each capacity and each number of missed messages: the lag is exact, then come the messages
 * still stored. */
TEST(lag_is_exact_for_each_receiver_and_then_the_oldest_kept_follows) {
    for (int capacity = 1; capacity <= 9; capacity++)
        for (int sent = 0; sent <= 30; sent++) {
            ints b;
            int n, missed = sent > capacity ? sent - capacity : 0;
            init(&b, (size_t)capacity);
            aw_broadcast_receiver slow = aw_broadcast_subscribe(&b), quick = slow;
            quick = aw_broadcast_subscribe(&b);
            for (int i = 0; i < sent; i++) {
                send_all(&b, i, 1);
                CHECK_EQ(take(&b, &quick), i);
            }
            CHECK_EQ(aw_broadcast_len(&b, &slow), (size_t)(sent - missed));
            if (missed) {
                CHECK_EQ(aw_broadcast_try_recv(&b, &slow, &n), -EOVERFLOW);
                CHECK_EQ(slow.lag, (uint64_t)missed);
            }
            for (int i = missed; i < sent; i++)
                CHECK_EQ(take(&b, &slow), i);
            CHECK_EQ(aw_broadcast_try_recv(&b, &slow, &n), -EAGAIN);
            CHECK_EQ(quick.lag, 0);
            aw_broadcast_unsubscribe(&b, &slow);
            aw_broadcast_unsubscribe(&b, &quick);
            aw_broadcast_free(&b);
        }
}

TEST(lag_that_grows_before_it_is_received_again_is_told_again) {
    ints b;
    int n;
    init(&b, 2);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    send_all(&b, 0, 5);
    CHECK_EQ(aw_broadcast_try_recv(&b, &r, &n), -EOVERFLOW);
    CHECK_EQ(r.lag, 3);
    send_all(&b, 5, 1);
    aw_broadcast_future f = aw_broadcast_recv(&b, &r, &n);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EOVERFLOW);
    CHECK_EQ(r.lag, 1);
    CHECK_EQ(take(&b, &r), 4);
    CHECK_EQ(take(&b, &r), 5);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
}

/* ---- The end ---------------------------------------------------------------------------------- */

TEST(what_was_sent_is_received_before_the_end) {
    ints b;
    int n = 0;
    init(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b), waits = aw_broadcast_subscribe(&b);
    send_all(&b, 1, 2);
    CHECK_EQ(take(&b, &waits), 1);
    CHECK_EQ(take(&b, &waits), 2);
    aw_broadcast_future f = aw_broadcast_recv(&b, &waits, &n);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_broadcast_sender_keep(&b);
    aw_broadcast_sender_drop(&b);
    CHECK(!aw_flag_take(&flag));
    aw_broadcast_sender_drop(&b);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EPIPE);
    CHECK_EQ(aw_broadcast_send(&b, &n), -EPIPE);
    CHECK_EQ(take(&b, &r), 1);
    CHECK_EQ(take(&b, &r), 2);
    CHECK_EQ(aw_broadcast_try_recv(&b, &r, &n), -EPIPE);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_unsubscribe(&b, &waits);
    aw_broadcast_free(&b);
}

TEST(a_sender_learns_that_the_last_receiver_has_unsubscribed) {
    ints b;
    init(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    aw_broadcast_future f = aw_broadcast_closed(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK(!aw_broadcast_is_closed(&b));
    aw_broadcast_unsubscribe(&b, &r);
    CHECK(aw_broadcast_is_closed(&b));
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    aw_broadcast_free(&b);
}

TEST(a_wait_for_the_last_receiver_goes_on_when_another_has_subscribed_before_it_is_polled) {
    ints b;
    init(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    aw_broadcast_future f = aw_broadcast_closed(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_broadcast_unsubscribe(&b, &r);
    CHECK(aw_flag_take(&flag));
    r = aw_broadcast_subscribe(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_broadcast_unsubscribe(&b, &r);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_broadcast_free(&b);
}

TEST(unsubscribing_twice_is_harmless) {
    ints b;
    int n;
    init(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b), other_one = aw_broadcast_subscribe(&b);
    aw_broadcast_receiver never = {0};
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_unsubscribe(&b, &never);
    CHECK(!aw_broadcast_is_closed(&b));
    CHECK_EQ(aw_broadcast_len(&b, &r), 0);
    send_all(&b, 7, 1);
    CHECK_EQ(aw_broadcast_len(&b, &r), 0);
    CHECK_EQ(take(&b, &other_one), 7);
    DIES(aw_broadcast_try_recv(&b, &r, &n), "receiver was used that is not subscribed");
    aw_broadcast_unsubscribe(&b, &other_one);
    CHECK(aw_broadcast_is_closed(&b));
    aw_broadcast_free(&b);
}

/* ---- Elements that own something -------------------------------------------------------------- */

TEST(each_receiver_has_its_own_and_the_last_one_gets_the_element) {
    pointers b;
    counted *p;
    init_owned(&b, 2);
    aw_broadcast_receiver r[3];
    for (int i = 0; i < 3; i++)
        r[i] = aw_broadcast_subscribe(&b);
    send_object(&b, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_broadcast_try_recv(&b, &r[i], &p), 0);
        CHECK_EQ(objects[0].refs, (uint32_t)(i < 2 ? i + 2 : 3));
    }
    for (int i = 0; i < 3; i++)
        aw_broadcast_unsubscribe(&b, &r[i]);
    aw_broadcast_free(&b);
    CHECK_EQ(objects[0].refs, 3); /* the receivers own what they received */
}

TEST(what_a_slow_receiver_misses_is_released) {
    pointers b;
    init_owned(&b, 2);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    for (int i = 0; i < 5; i++)
        send_object(&b, i);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(objects[i].refs, (uint32_t)(i >= 3));
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
}

TEST(a_slow_receiver_that_goes_away_frees_its_values) {
    pointers b;
    counted *p;
    init_owned(&b, 4);
    aw_broadcast_receiver slow = aw_broadcast_subscribe(&b), quick = aw_broadcast_subscribe(&b);
    for (int i = 0; i < 6; i++)
        send_object(&b, i);
    CHECK_EQ(aw_broadcast_try_recv(&b, &quick, &p), -EOVERFLOW);
    for (int i = 2; i < 5; i++) {
        CHECK_EQ(aw_broadcast_try_recv(&b, &quick, &p), 0);
        counted_release(&p);
    }
    aw_broadcast_unsubscribe(&b, &slow);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(objects[i].refs, 0);
    CHECK_EQ(objects[5].refs, 1); /* still pending for `quick` */
    aw_broadcast_unsubscribe(&b, &quick);
    CHECK_EQ(objects[5].refs, 0);
    aw_broadcast_free(&b);
}

TEST(freeing_releases_what_was_not_received) {
    pointers b;
    init_owned(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    (void)r;
    for (int i = 0; i < 6; i++)
        send_object(&b, i);
    aw_broadcast_free(&b);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(objects[i].refs, 0);
}

static pointers *sent_to;
static int resent;
static void release_and_send(void *item) {
    counted_release(item);
    if (!sent_to || ++resent > 3) return;
    send_object(sent_to, 6 + resent);
}

TEST(sending_from_inside_a_release_does_not_deadlock) {
    pointers b;
    init_owned(&b, 2);
    aw_broadcast_set_owned(&b, counted_clone, release_and_send);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b), keeps = aw_broadcast_subscribe(&b);
    sent_to = &b;
    for (int i = 0; i < 3; i++)
        send_object(&b, i); /* the third overwrites the first; its release sends, and so on */
    CHECK_EQ(resent, 4);
    resent = 0;
    counted *p;
    CHECK_EQ(aw_broadcast_try_recv(&b, &keeps, &p), -EOVERFLOW);
    CHECK_EQ(keeps.lag, 4);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(aw_broadcast_try_recv(&b, &keeps, &p), 0);
    aw_broadcast_unsubscribe(&b, &r); /* its releases send to `keeps` */
    CHECK_EQ(resent, 2);
    sent_to = NULL;
    aw_broadcast_unsubscribe(&b, &keeps);
    aw_broadcast_free(&b);
}

/* ---- Cancelling ------------------------------------------------------------------------------- */

/* cancel-at-every-await: aw_broadcast_recv */

TEST(a_receive_can_be_cancelled_at_any_moment) {
    ints b;
    int n = 0;
    init(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    aw_broadcast_future f = aw_broadcast_recv(&b, &r, &n);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    f = aw_broadcast_recv(&b, &r, &n);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(POLL(&f, &other), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    send_all(&b, 1, 1);
    CHECK(!aw_flag_take(&flag) && !aw_flag_take(&other));
    CHECK_EQ(take(&b, &r), 1);

    f = aw_broadcast_recv(&b, &r, &n);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    send_all(&b, 2, 1);
    CHECK(aw_flag_take(&flag));
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED); /* woken, but the message is still there */
    CHECK_EQ(take(&b, &r), 2);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
}

TEST(a_discarded_message_is_received_again) {
    pointers b;
    counted *p, *q;
    init_owned(&b, 3);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b), s = aw_broadcast_subscribe(&b);
    send_object(&b, 0);
    aw_broadcast_future f = aw_broadcast_recv(&b, &r, &p), g = aw_broadcast_recv(&b, &s, &q);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(POLL(&g, &flag), AW_READY); /* the last receiver gets the element itself */
    CHECK_EQ(objects[0].refs, 2);
    aw_future_discard(&g.future);
    aw_future_discard(&f.future);
    CHECK_EQ(objects[0].refs, 1);
    CHECK_EQ(aw_broadcast_try_recv(&b, &r, &p), 0);
    CHECK_EQ(aw_broadcast_try_recv(&b, &s, &q), 0);
    CHECK(p == &objects[0] && q == &objects[0]);
    CHECK_EQ(objects[0].refs, 2);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_unsubscribe(&b, &s);
    aw_broadcast_free(&b);
    CHECK_EQ(objects[0].refs, 2);
}

TEST(a_message_that_is_discarded_after_its_receiver_has_unsubscribed_is_released) {
    pointers b;
    counted *got;
    init_owned(&b, 4);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    send_object(&b, 0);
    aw_broadcast_future f = aw_broadcast_recv(&b, &r, &got);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    aw_broadcast_unsubscribe(&b, &r);
    aw_future_discard(&f.future);
    CHECK_EQ(objects[0].refs, 0);
    CHECK_EQ(r.next, 0);
    aw_broadcast_free(&b);
    CHECK_EQ(objects[0].refs, 0);
}

TEST(a_discarded_message_that_is_not_kept_any_more_counts_as_missed) {
    pointers b;
    counted *p;
    init_owned(&b, 2);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    send_object(&b, 0);
    aw_broadcast_future f = aw_broadcast_recv(&b, &r, &p);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    for (int i = 1; i < 4; i++)
        send_object(&b, i);
    aw_future_discard(&f.future);
    CHECK_EQ(objects[0].refs, 0);
    f = aw_broadcast_recv(&b, &r, &p);
    CHECK_EQ(POLL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, -EOVERFLOW);
    CHECK_EQ(r.lag, 2);
    aw_future_discard(&f.future); /* the lag was not reported */
    CHECK_EQ(aw_broadcast_try_recv(&b, &r, &p), -EOVERFLOW);
    CHECK_EQ(r.lag, 2);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
    CHECK_EQ(objects[1].refs + objects[2].refs + objects[3].refs, 0);
}

/* ---- While other receivers are being woken ----------------------------------------------------- */

enum { CROWD = 100 };
static ints crowd;
static aw_broadcast_receiver crowd_receivers[CROWD];
static aw_broadcast_future crowd_waits[CROWD];
static callback_waker crowd_wakers[CROWD];

static void take_before_it_is_woken(callback_waker *self) {
    (void)self;
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(take(&crowd, &crowd_receivers[i]), 7);
}

static void take_and_wait_again(callback_waker *self) {
    take_before_it_is_woken(self);
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
}

static void check_crowd_is_woken(void (*act)(callback_waker *)) {
    static int n[CROWD];
    init(&crowd, 4);
    for (int i = 0; i < CROWD; i++) {
        callback_waker_init(&crowd_wakers[i], i == 0 ? act : NULL);
        crowd_receivers[i] = aw_broadcast_subscribe(&crowd);
        crowd_waits[i] = aw_broadcast_recv(&crowd, &crowd_receivers[i], &n[i]);
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
    }
    send_all(&crowd, 7, 1);
    CHECK_EQ(crowd_wakers[CROWD - 1].wakes, 1);
    CHECK_EQ(POLL_WITH(&crowd_waits[0], &crowd_wakers[0]), AW_READY);
    CHECK_EQ(POLL_WITH(&crowd_waits[CROWD - 1], &crowd_wakers[CROWD - 1]), AW_READY);
    for (int i = 1; i < CROWD - 1; i++)
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_PENDING);
    send_all(&crowd, 8, 1);
    for (int i = 1; i < CROWD - 1; i++) {
        CHECK_EQ(POLL_WITH(&crowd_waits[i], &crowd_wakers[i]), AW_READY);
        CHECK_EQ(n[i], 8);
    }
    for (int i = 0; i < CROWD; i++)
        aw_broadcast_unsubscribe(&crowd, &crowd_receivers[i]);
    aw_broadcast_free(&crowd);
}

TEST(a_receiver_that_has_the_message_already_does_not_keep_it_from_others) {
    check_crowd_is_woken(take_before_it_is_woken);
}

TEST(a_receiver_that_waits_again_does_not_keep_the_message_from_others) {
    check_crowd_is_woken(take_and_wait_again);
}

/* cancel-at-every-await: aw_broadcast_closed */

TEST(a_wait_for_the_last_receiver_can_be_cancelled_at_any_moment) {
    ints b;
    init(&b, 1);
    aw_broadcast_receiver r = aw_broadcast_subscribe(&b);
    aw_broadcast_future f = aw_broadcast_closed(&b);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    f = aw_broadcast_closed(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    f = aw_broadcast_closed(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_broadcast_unsubscribe(&b, &r);
    CHECK_EQ(CANCEL(&f, &flag), AW_READY);
    CHECK_EQ(f.out, 0);
    r = aw_broadcast_subscribe(&b);
    f = aw_broadcast_closed(&b);
    CHECK_EQ(POLL(&f, &flag), AW_PENDING);
    aw_broadcast_unsubscribe(&b, &r);
    r = aw_broadcast_subscribe(&b); /* subscribed before the cancel: no longer closed */
    CHECK_EQ(CANCEL(&f, &flag), AW_CANCELLED);
    aw_broadcast_unsubscribe(&b, &r);
    aw_broadcast_free(&b);
}

/* ---- Tasks ------------------------------------------------------------------------------------ */

enum { MESSAGES = 2000, RECEIVERS = 8, SENDERS = 2 };

/* The numbers of each sender only grow. Received and missed messages add up to all that were
 * sent. */
AW_ASYNC(int, receives, ints *b; uint32_t * ready; int n, last[SENDERS]; uint64_t all;
         aw_broadcast_receiver r; aw_broadcast_future f;) {
    AW_BEGIN;
    self->r = aw_broadcast_subscribe(self->b);
    ADD(*self->ready, 1);
    for (;;) {
        AW_AWAIT(self->f, aw_broadcast_recv(self->b, &self->r, &self->n));
        if (self->f.out == -EPIPE) break;
        if (self->f.out == -EOVERFLOW) {
            self->all += self->r.lag;
            continue;
        }
        CHECK_EQ(self->f.out, 0);
        CHECK_GT(self->n / SENDERS + 1, self->last[self->n % SENDERS]);
        self->last[self->n % SENDERS] = self->n / SENDERS + 1;
        self->all++;
    }
    CHECK_EQ(self->all, (uint64_t)MESSAGES * SENDERS);
    aw_broadcast_unsubscribe(self->b, &self->r);
    AW_RETURN(0);
    AW_END;
}

static void send_some(void *arg, int index, uint64_t *random) {
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ(aw_broadcast_send((ints *)arg, &(int){i * SENDERS + index}), RECEIVERS);
        if (i % 8 == 0) jitter(random);
    }
    aw_broadcast_sender_drop((ints *)arg);
}

ON_BOTH(received_and_missed_is_all_that_was_sent) {
    ints b;
    uint64_t random = test_seed();
    uint32_t ready = 0;
    thread_group s;
    struct receives *h[RECEIVERS];
    init(&b, 16);
    aw_broadcast_sender_keep(&b);
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int i = 0; i < RECEIVERS; i++)
        h[i] = aw_spawn_on(rt, AW_CALL(receives, .b = &b, .ready = &ready));
    run_a_while(rt);
    CHECK_EQ(LOAD(ready), RECEIVERS);
    thread_group_create(&s, SENDERS, &random, send_some, &b);
    thread_group_go(&s);
    for (int i = 0; i < RECEIVERS; i++) {
        must_finish(rt, &h[i]->future);
        aw_task_drop(h[i]);
    }
    thread_group_join(&s);
    aw_runtime_free(rt);
    aw_broadcast_free(&b);
}
