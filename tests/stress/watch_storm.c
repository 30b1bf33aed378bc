/* SPDX-License-Identifier: MIT
 *
 * Watch and broadcast under random schedules, with elements that own something. Threads send,
 * subscribe, wait, cancel and unsubscribe. In the end every reference to an element has been
 * released. */
#include <errno.h>

#include "support/by_hand.h"
#include "support/workers.h"

/* ---- Elements that are counted --------------------------------------------------------------- */

typedef struct thing {
    uint32_t refs;
    int from, number;
} thing;

static long live;

static thing *thing_new(int from, int number) {
    thing *t = malloc(sizeof *t);
    *t = (thing){1, from, number};
    ADD(live, 1);
    return t;
}

static void thing_drop(thing *t) {
    uint32_t before = ADD(t->refs, -1);
    CHECK_GT(before, 0);
    if (before > 1) return;
    free(t);
    ADD(live, -1);
}

static void thing_clone(void *to, const void *from) {
    thing *t = *(thing *const *)from;
    ADD(t->refs, 1);
    memcpy(to, from, sizeof t);
}

static void thing_release(void *item) {
    thing_drop(*(thing **)item);
}

static aw_flag flags[MAX_THREADS];
enum { SENDERS = 2, RECEIVERS = 3, EACH = 300 };

/* Polls until ready, or cancels at a random moment. */
static aw_poll drive(aw_future *f, aw_flag *flag, uint64_t *random) {
    for (;;) {
        if (chance(random, 10)) return cancel_by_hand(f, flag);
        if (poll_by_hand(f, flag) == AW_READY) return AW_READY;
        while (!aw_flag_take(flag)) {
            if (chance(random, 50)) return cancel_by_hand(f, flag);
            sched_yield();
        }
    }
}

/* ---- Watch ----------------------------------------------------------------------------------- */

typedef AW_WATCH(thing *) watched;

static void watch_sends(watched *w, int index, uint64_t *random) {
    for (int i = 1; i <= EACH; i++) {
        thing *t = thing_new(index, i);
        if (chance(random, 2))
            aw_watch_set(w, &t);
        else if (aw_watch_send(w, &t) < 0)
            thing_drop(t); /* there is no receiver at the moment */
        jitter(random);
    }
    aw_watch_sender_drop(w);
}

/* A value of a sender is never followed by an older value of the same sender. */
static void watch_receives(watched *w, aw_flag *flag, uint64_t *random) {
    aw_watch_receiver r = aw_watch_subscribe(w);
    for (int last[SENDERS + 1] = {0};;) {
        aw_watch_future f = aw_watch_changed(&r);
        if (drive(&f.future, flag, random) == AW_READY) {
            if (f.out == -EPIPE) break;
            CHECK_EQ(f.out, 0);
            if (chance(random, 4)) {
                aw_future_discard(&f.future);
                CHECK_EQ(aw_watch_has_changed(&r), 1);
            }
            thing *t;
            aw_watch_get(w, &t);
            CHECK_GE(t->number, last[t->from]);
            last[t->from] = t->number;
            thing_drop(t);
        }
        if (!chance(random, 20)) continue;
        aw_watch_unsubscribe(&r);
        r = aw_watch_subscribe(w);
    }
    aw_watch_unsubscribe(&r);
}

static void watch_body(void *arg, int index, uint64_t *random) {
    if (index < SENDERS)
        watch_sends(arg, index, random);
    else
        watch_receives(arg, &flags[index], random);
}

TEST_LIMIT(watched_elements_are_released_once, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(20); round++) {
        watched w;
        thing *first = thing_new(SENDERS, 0);
        thread_group s;
        aw_watch_init(&w, &first);
        aw_watch_set_owned(&w, thing_clone, thing_release);
        for (int i = 1; i < SENDERS; i++)
            aw_watch_sender_keep(&w);
        thread_group_create(&s, SENDERS + RECEIVERS, &random, watch_body, &w);
        thread_group_go(&s);
        thread_group_join(&s);
        CHECK_EQ(w.watch.receiver_count, 0);
        aw_watch_free(&w);
        CHECK_EQ(live, 0);
    }
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

typedef AW_BROADCAST(thing *) broadcast;

static void broadcast_sends(broadcast *b, int index, uint64_t *random) {
    for (int i = 1; i <= EACH; i++) {
        thing *t = thing_new(index, i);
        int n = aw_broadcast_send(b, &t);
        CHECK(n == -EPIPE || (n > 0 && n <= RECEIVERS));
        if (n < 0) thing_drop(t);
        jitter(random);
    }
    aw_broadcast_sender_drop(b);
}

static void broadcast_receives(broadcast *b, aw_flag *flag, uint64_t *random) {
    aw_broadcast_receiver r = aw_broadcast_subscribe(b);
    for (int last[SENDERS] = {0};;) {
        thing *t;
        aw_broadcast_future f = aw_broadcast_recv(b, &r, &t);
        if (drive(&f.future, flag, random) == AW_READY) {
            if (f.out == -EPIPE) break;
            if (chance(random, 5)) {
                jitter(random);
                aw_future_discard(&f.future);
            } else if (f.out == 0) {
                CHECK_GT(t->number, last[t->from]);
                last[t->from] = t->number;
                thing_drop(t);
            } else {
                CHECK_EQ(f.out, -EOVERFLOW);
                CHECK_GT(r.lag, 0);
            }
        }
        if (!chance(random, 30)) continue;
        aw_broadcast_unsubscribe(b, &r);
        r = aw_broadcast_subscribe(b);
    }
    aw_broadcast_unsubscribe(b, &r);
}

static void broadcast_body(void *arg, int index, uint64_t *random) {
    if (index < SENDERS)
        broadcast_sends(arg, index, random);
    else
        broadcast_receives(arg, &flags[index], random);
}

TEST_LIMIT(broadcast_elements_are_released_once, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(20); round++) {
        broadcast b;
        thread_group s;
        CHECK_EQ(aw_broadcast_init(&b, (size_t)(1 + round % 7)), 0);
        aw_broadcast_set_owned(&b, thing_clone, thing_release);
        for (int i = 1; i < SENDERS; i++)
            aw_broadcast_sender_keep(&b);
        thread_group_create(&s, SENDERS + RECEIVERS, &random, broadcast_body, &b);
        thread_group_go(&s);
        thread_group_join(&s);
        CHECK_EQ(b.broadcast.receiver_count, 0);
        CHECK_EQ(live, 0); /* the last unsubscribe has released what was not received */
        aw_broadcast_free(&b);
    }
}
