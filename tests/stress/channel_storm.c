/* SPDX-License-Identifier: MIT
 *
 * Channels under random schedules. Threads send, receive, cancel at random moments, and drop their
 * ends. A ledger records every message: none is lost, none arrives twice, and the messages of one
 * sender arrive in order. */
#include <errno.h>

#include "sync/channel_lock.h"

#include "support/by_hand.h"
#include "support/workers.h"

struct mail {
    uint32_t from, number;
};
typedef AW_CHANNEL(struct mail) mails;

enum { SENDERS = 3, RECEIVERS = 3, MAILS = 400, MANY = 5 };

typedef struct post {
    mails *c;
    int receivers;
    bool discards; /* receivers discard some of what they receive */
    uint32_t each;
    uint32_t seen[SENDERS * MAILS];
    uint32_t released;
} post;

/* Static: a wake may come after the thread has ended. */
static aw_flag flags[MAX_THREADS];

/* ---- Threads that poll their futures themselves ---------------------------------------------- */

/* Polls until ready, or cancels at a random moment. */
static aw_poll drive(aw_channel_future *f, aw_flag *flag, uint64_t *random) {
    for (;;) {
        if (chance(random, 8)) return CANCEL(f, flag);
        if (POLL(f, flag) == AW_READY) return AW_READY;
        jitter(random);
        while (!aw_flag_take(flag)) {
            if (chance(random, 50)) return CANCEL(f, flag);
            sched_yield();
        }
    }
}

/* True: sent. */
static bool send_once(mails *c, const struct mail *m, aw_flag *flag, uint64_t *random) {
    if (chance(random, 4)) {
        int r = aw_channel_try_send(c, m);
        CHECK(r == 0 || r == -EAGAIN);
        return r == 0;
    }
    bool reserve = aw_channel_capacity(c) != AW_UNBOUNDED && chance(random, 3);
    aw_channel_future f = reserve ? aw_channel_reserve(c) : aw_channel_send(c, m);
    if (drive(&f, flag, random) != AW_READY) return false;
    CHECK_EQ(f.out, 0);
    if (!reserve) return true;
    bool use = !chance(random, 3);
    if (use)
        CHECK_EQ(aw_channel_send_reserved(c, m), 0);
    else if (chance(random, 2))
        aw_future_discard(&f.future);
    else
        aw_channel_unreserve(c);
    return use;
}

static void sends(post *l, uint32_t from, aw_flag *flag, uint64_t *random) {
    for (struct mail m = {from, 0}; m.number < l->each;) {
        m.number += send_once(l->c, &m, flag, random);
        jitter(random);
    }
    aw_channel_sender_drop(l->c);
}

/* Returns the number of messages; 0: none this time; -EPIPE: the channel is closed. */
static int receive_once(post *l, struct mail *m, aw_flag *flag, uint64_t *random) {
    if (chance(random, 4)) {
        int r = aw_channel_try_recv(l->c, m);
        return r == 0 ? 1 : r == -EAGAIN ? 0 : r;
    }
    bool many = chance(random, 3);
    aw_channel_future f = many ? aw_channel_recv_many(l->c, m, MANY) : aw_channel_recv(l->c, m);
    if (drive(&f, flag, random) != AW_READY) return 0;
    if (f.out < 0) return f.out;
    if (l->discards && chance(random, 3)) {
        jitter(random);
        aw_future_discard(&f.future);
        return 0;
    }
    return many ? f.out : 1;
}

static void receives(post *l, aw_flag *flag, uint64_t *random) {
    uint32_t next[SENDERS] = {0};
    struct mail m[MANY];
    for (int got; (got = receive_once(l, m, flag, random)) != -EPIPE;) {
        for (int i = 0; i < got; i++) {
            uint32_t from = m[i].from, number = m[i].number;
            CHECK(from < SENDERS && number < l->each);
            CHECK_EQ(ADD(l->seen[from * MAILS + number], 1), 0);
            /* A message that another receiver discarded may arrive late. */
            if (!l->discards) CHECK_GE(number, next[from]);
            if (l->receivers == 1) CHECK_EQ(number, next[from]);
            next[from] = number + 1;
        }
        jitter(random);
    }
    aw_channel_receiver_drop(l->c);
}

static void thread_body(void *arg, int index, uint64_t *random) {
    post *l = arg;
    if (index < SENDERS)
        sends(l, (uint32_t)index, &flags[index], random);
    else
        receives(l, &flags[index], random);
}

/* `tail`: opens the tail (sync/channel_tail.h) wherever that is allowed. */
static mails *new_channel(size_t capacity, bool tail) {
    mails *c = aw_channel_new(mails, capacity);
    if (tail) aw__tail_always(&c->channel);
    return c;
}

static void storm_of(uint64_t *random, mails *c, int receivers, bool discards) {
    static post l;
    thread_group s;
    memset(&l, 0, sizeof l);
    l.c = c;
    l.each = (uint32_t)test_scale(MAILS);
    l.receivers = receivers;
    l.discards = discards;
    for (int i = 1; i < SENDERS; i++)
        aw_channel_sender_keep(l.c);
    for (int i = 1; i < receivers; i++)
        aw_channel_receiver_keep(l.c);
    aw_channel_downgrade(l.c); /* keeps the memory, for the checks at the end */
    thread_group_create(&s, SENDERS + receivers, random, thread_body, &l);
    thread_group_go(&s);
    thread_group_join(&s);
    for (uint32_t i = 0; i < SENDERS * MAILS; i++)
        CHECK_EQ(l.seen[i], i % MAILS < l.each);
    CHECK_EQ(l.c->channel.woken, 0);
    CHECK_EQ(l.c->channel.reserved, 0);
    aw_channel_weak_drop(l.c);
}

static void storms(int receivers, bool discards) {
    uint64_t random = test_seed();
    static const size_t capacities[] = {1, 2, 7, 40, AW_UNBOUNDED};
    memory m;
    aw_set_allocator(memory_init(&m));
    for (int i = 0; i < stress_rounds(20); i++)
        storm_of(&random, new_channel(capacities[i % 5], i % 2), receivers, discards);
    CHECK_EQ(memory_in_use(&m), 0);
}

TEST_LIMIT(receivers_that_are_cancelled_keep_the_order_of_each_sender, 60) {
    storms(RECEIVERS, false);
}

TEST_LIMIT(one_receiver_that_discards_gets_everything_in_order, 60) {
    storms(1, true);
}

TEST_LIMIT(receivers_that_discard_lose_nothing, 60) {
    storms(RECEIVERS, true);
}

/* ---- Closing and dropping in the middle ------------------------------------------------------ */

static post *releasing;
static void count_released(void *item) {
    const struct mail *m = item;
    ADD(releasing->released, 1);
    CHECK_EQ(ADD(releasing->seen[m->from * MAILS + m->number], 1), 0);
}

static uint32_t sent_count[SENDERS];

static void until_closed(void *arg, int index, uint64_t *random) {
    post *l = arg;
    aw_flag *flag = &flags[index];
    struct mail m[MANY] = {{(uint32_t)index, 0}};
    if (index < SENDERS) {
        while (m->number < l->each) {
            aw_channel_future f = aw_channel_send(l->c, m);
            if (drive(&f, flag, random) != AW_READY) continue;
            if (f.out == -EPIPE) break;
            CHECK_EQ(f.out, 0);
            m->number++;
        }
        STORE(sent_count[index], m->number);
        aw_channel_sender_drop(l->c);
        return;
    }
    for (int i = (int)(test_random(random) % 100); i > 0; i--) {
        int got = receive_once(l, m, flag, random);
        if (got < 0) break;
        for (int k = 0; k < got; k++)
            CHECK_EQ(ADD(l->seen[m[k].from * MAILS + m[k].number], 1), 0);
    }
    if (chance(random, 3)) aw_channel_close(l->c);
    aw_channel_receiver_drop(l->c);
}

/* A message that was sent is received or released, once. A refused message is neither. */
TEST_LIMIT(messages_in_the_channel_when_the_receivers_drop_are_released_once, 60) {
    uint64_t random = test_seed();
    static post l;
    memory m;
    aw_set_allocator(memory_init(&m));
    for (int round = 0; round < stress_rounds(60); round++) {
        thread_group s;
        memset(&l, 0, sizeof l);
        releasing = &l;
        l.c = new_channel(round % 4 == 3 ? AW_UNBOUNDED : (size_t)(1 + round % 4), round / 4 % 2);
        aw_channel_set_release(l.c, count_released);
        l.each = (uint32_t)test_scale(MAILS);
        l.receivers = RECEIVERS;
        l.discards = round % 2;
        for (int i = 1; i < SENDERS; i++)
            aw_channel_sender_keep(l.c);
        for (int i = 1; i < RECEIVERS; i++)
            aw_channel_receiver_keep(l.c);
        thread_group_create(&s, SENDERS + RECEIVERS, &random, until_closed, &l);
        thread_group_go(&s);
        thread_group_join(&s);
        for (uint32_t i = 0; i < SENDERS * MAILS; i++)
            CHECK_EQ(l.seen[i], i % MAILS < sent_count[i / MAILS]);
    }
    CHECK_EQ(memory_in_use(&m), 0);
}

/* ---- Tasks that are aborted ------------------------------------------------------------------ */

/* Each task continues the work of its index. An aborted task is replaced by a new one. */
AW_ASYNC(int, sender_task, post *l; uint32_t * next; struct mail m; aw_channel_future f;) {
    AW_BEGIN;
    while (LOAD(*self->next) < self->l->each) {
        self->m.number = LOAD(*self->next);
        AW_AWAIT(self->f, aw_channel_send(self->l->c, &self->m));
        CHECK_EQ(self->f.out, 0);
        STORE(*self->next, self->m.number + 1);
    }
    AW_RETURN(1);
    AW_END;
}

AW_ASYNC(int, receiver_task, post *l; int i; struct mail m[MANY]; aw_channel_future f;) {
    AW_BEGIN;
    for (;;) {
        AW_AWAIT(self->f, aw_channel_recv_many(self->l->c, self->m, MANY));
        if (self->f.out < 0) break;
        for (self->i = 0; self->i < self->f.out; self->i++)
            CHECK_EQ(ADD(self->l->seen[self->m[self->i].from * MAILS + self->m[self->i].number], 1),
                     0);
    }
    AW_RETURN(1);
    AW_END;
}

static aw_future *start(aw_runtime *rt, post *l, uint32_t *next, int i) {
    if (i >= SENDERS) return &aw_spawn_on(rt, AW_CALL(receiver_task, .l = l))->future;
    return &aw_spawn_on(rt,
                        AW_CALL(sender_task, .l = l, .next = &next[i], .m = {.from = (uint32_t)i}))
                ->future;
}

/* True: the task had finished. */
static bool stop(aw_runtime *rt, aw_future *task, bool abort) {
    if (abort) aw__task_abort(task);
    int status = join_status(rt, task);
    CHECK(status == 0 || (abort && status == -ECANCELED));
    aw__task_drop(task);
    return status == 0;
}

static void aborted_tasks(aw_runtime *rt, post *l, uint64_t *random) {
    enum { TASKS = SENDERS + RECEIVERS };
    uint32_t next[SENDERS] = {0};
    aw_future *h[TASKS];
    for (int i = 0; i < TASKS; i++)
        h[i] = start(rt, l, next, i);
    for (int aborts = test_scale(300); aborts > 0; aborts--) {
        int i = (int)(test_random(random) % TASKS);
        if (chance(random, 4)) run_a_while(rt);
        for (int n = (int)(test_random(random) % 4); n > 0; n--)
            jitter(random);
        stop(rt, h[i], true);
        h[i] = start(rt, l, next, i);
    }
    for (int i = 0; i < SENDERS; i++)
        stop(rt, h[i], false);
    aw_channel_close(l->c);
    for (int i = SENDERS; i < TASKS; i++)
        stop(rt, h[i], false);
}

ON_BOTH(aborted_tasks_lose_nothing) {
    static post l;
    uint64_t random = test_seed();
    aw_runtime *rt = new_runtime(workers, NULL, NULL);
    for (int round = 0; round < 5; round++) {
        memset(&l, 0, sizeof l);
        l.each = (uint32_t)test_scale(MAILS);
        l.c = new_channel(round == 4 ? AW_UNBOUNDED : (size_t)(1 + round), round / 2 % 2);
        aborted_tasks(rt, &l, &random);
        for (uint32_t i = 0; i < SENDERS * MAILS; i++)
            CHECK_EQ(l.seen[i], i % MAILS < l.each);
        CHECK_EQ(l.c->channel.woken, 0);
        aw_channel_sender_drop(l.c);
        aw_channel_receiver_drop(l.c);
    }
    aw_runtime_free(rt);
}
