/* SPDX-License-Identifier: MIT
 *
 * Eight threads wake and spawn tasks of one runtime. Every task ends once, every letter arrives,
 * and no wake-up is lost. */
#include "support/stress.h"

enum { THREADS = 8, READERS = 32 };

/* ---- Wakes ----------------------------------------------------------------------------------- */

struct post_office {
    mailbox boxes[READERS];
    uint32_t letters; /* that each thread sends to each box */
};

static void post_letters(void *arg, int index, uint64_t *random) {
    struct post_office *p = arg;
    (void)index;
    uint32_t unsent[READERS];
    for (int i = 0; i < READERS; i++)
        unsent[i] = p->letters;
    for (uint32_t sent = 0; sent < READERS * p->letters;) {
        int i = (int)(test_random(random) % READERS);
        while (!unsent[i])
            i = (i + 1) % READERS;
        uint32_t n = 1 + (uint32_t)(test_random(random) % 3);
        if (n > unsent[i]) n = unsent[i];
        mailbox_send(&p->boxes[i], n, chance(random, 2));
        unsent[i] -= n;
        sent += n;
        jitter(random);
    }
}

AW_ASYNC(int, read_all, struct post_office *office; struct reader * tasks[READERS]; int i;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < READERS; i++)
        self->tasks[i] = aw_spawn(read_from(&self->office->boxes[i]));
    for (self->i = 0; self->i < READERS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
        CHECK_EQ(self->join.out, 0);
        CHECK_EQ(aw_task_take(self->tasks[self->i]), THREADS * self->office->letters);
    }
    AW_RETURN(0);
    AW_END;
}

TEST_LIMIT(every_wake_of_eight_threads_is_delivered, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(50); round++) {
        static struct post_office office;
        memory m;
        thread_group s;
        memory_init(&m);
        office.letters = 20;
        for (int i = 0; i < READERS; i++)
            mailbox_init(&office.boxes[i], THREADS * office.letters);
        aw_runtime *rt = runtime_new(&m, NULL, NULL, false);
        thread_group_create(&s, THREADS, &random, post_letters, &office);
        thread_group_go(&s);
        CHECK_EQ(aw_block_on(rt, AW_CALL(read_all, .office = &office)), 0);
        if (round % 2) aw_runtime_free(rt); /* wakes may still be in progress */
        thread_group_join(&s);
        if (round % 2 == 0) aw_runtime_free(rt);
        for (int i = 0; i < READERS; i++) {
            CHECK_EQ(office.boxes[i].finals, 1);
            CHECK_EQ(office.boxes[i].discards, 0);
            CHECK_EQ(office.boxes[i].letters, 0);
        }
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* ---- Spawns ---------------------------------------------------------------------------------- */

struct workshop {
    aw_runtime *rt;
    uint32_t each, begun, ended, outputs, discarded, joined;
    aw_notify progress;
};

struct piece {
    AW_FRAME(int *);
    struct workshop *shop;
    struct rounds pause;
};

static void discard_piece(aw_future *self) {
    struct piece *p = (struct piece *)self;
    ADD(p->shop->discarded, 1);
    free(p->out);
}

AW_ASYNC_STATIC(piece, .discard = discard_piece) {
    AW_BEGIN;
    ADD(self->shop->begun, 1);
    AW_AWAIT(self->pause, rounds(2));
    self->out = malloc(sizeof(int));
    *self->out = 1;
    ADD(self->shop->outputs, 1);
    AW_FINALLY;
    ADD(self->shop->ended, 1);
    aw_notify_one(&self->shop->progress);
    AW_END;
}

static int join_without_runtime(aw_future *task, uint64_t *random) {
    aw_parker *parker[2] = {aw_parker_new(), aw_parker_new()};
    aw_task_join_future join = aw__task_join(task);
    for (unsigned i = 0;; i++) {
        aw_waker w = aw_parker_waker(parker[i % 2]);
        aw_cx cx = aw_cx_from_waker(&w);
        if (aw_future_poll(&join.future, &cx) == AW_READY) break;
        if (!chance(random, 3)) aw_parker_park(parker[i % 2]); /* or polls with the other */
    }
    aw_parker_free(parker[0]);
    aw_parker_free(parker[1]);
    return join.out;
}

static void spawn_pieces(void *arg, int index, uint64_t *random) {
    struct workshop *shop = arg;
    (void)index;
    for (uint32_t i = 0; i < shop->each; i++) {
        struct piece *h = aw_spawn_on(shop->rt, AW_CALL(piece, .shop = shop));
        CHECK_EQ(aw_task_error(h), 0);
        if (chance(random, 2)) {
            CHECK_EQ(join_without_runtime(&h->future, random), 0);
            CHECK_EQ(*h->out, 1);
            free(h->out);
            ADD(shop->joined, 1);
        }
        aw_task_drop(h);
        jitter(random);
    }
}

AW_ASYNC(int, wait_for_pieces, struct workshop *shop; uint32_t wanted; aw_notified wait;) {
    AW_BEGIN;
    while (LOAD(self->shop->ended) < self->wanted)
        AW_AWAIT(self->wait, aw_notify_wait(&self->shop->progress));
    AW_RETURN(0);
    AW_END;
}

TEST_LIMIT(every_task_spawned_by_eight_threads_ends_once, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(50); round++) {
        memory m;
        thread_group s;
        memory_init(&m);
        struct workshop shop = {.each = 50, .progress = AW_NOTIFY_INIT};
        shop.rt = runtime_new(&m, NULL, NULL, false);
        thread_group_create(&s, THREADS, &random, spawn_pieces, &shop);
        thread_group_go(&s);
        uint32_t all = THREADS * shop.each;
        CHECK_EQ(aw_block_on(shop.rt, AW_CALL(wait_for_pieces, .shop = &shop, .wanted = all)), 0);
        thread_group_join(&s);
        CHECK_EQ(shop.begun, all);
        CHECK_EQ(shop.ended, all);
        CHECK_EQ(shop.outputs, all);
        aw_runtime_free(shop.rt);
        CHECK_EQ(shop.joined + shop.discarded, all);
        CHECK_EQ(memory_in_use(&m), 0);
    }
}

/* ---- Wakes and aborts, while threads alternate in running the runtime ------------------------ */

struct market {
    aw_runtime *rt;
    mailbox boxes[READERS];
    struct reader *tasks[READERS];
};

static void trade(void *arg, int index, uint64_t *random) {
    struct market *m = arg;
    for (int i = 0; i < 200; i++) {
        mailbox_send(&m->boxes[test_random(random) % READERS], 1, chance(random, 2));
        if (index < 3 && chance(random, 8)) CHECK_EQ(aw_block_on(m->rt, yields(2)), 0);
        /* A handle is used by one thread at a time: each thread has its own. */
        if (chance(random, 64))
            aw_task_abort(m->tasks[test_random(random) % (READERS / THREADS) * THREADS + index]);
        jitter(random);
    }
}

TEST_LIMIT(wakes_and_aborts_are_served_while_threads_alternate_in_running_the_runtime, 60) {
    uint64_t random = test_seed();
    for (int round = 0; round < stress_rounds(50); round++) {
        static struct market market;
        memory m;
        thread_group s;
        memory_init(&m);
        memset(&market, 0, sizeof market);
        market.rt = runtime_new(&m, NULL, NULL, false);
        for (int i = 0; i < READERS; i++) {
            mailbox_init(&market.boxes[i], 30);
            market.tasks[i] = aw_spawn_on(market.rt, read_from(&market.boxes[i]));
        }
        thread_group_create(&s, THREADS, &random, trade, &market);
        thread_group_go(&s);
        thread_group_join(&s);
        /* No thread runs the runtime now. What is in the inbox is still served. */
        run_a_while(market.rt);
        for (int i = 0; i < READERS; i++) {
            mailbox *box = &market.boxes[i];
            CHECK_EQ(box->letters == 0 || box->finals == 1, true);
            aw_task_drop(market.tasks[i]);
        }
        aw_runtime_free(market.rt);
        for (int i = 0; i < READERS; i++) {
            CHECK_EQ(market.boxes[i].finals, 1);
            CHECK_LE(market.boxes[i].discards, 1);
        }
        CHECK_EQ(memory_in_use(&m), 0);
    }
}
