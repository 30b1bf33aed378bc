/* SPDX-License-Identifier: MIT
 *
 * Storms on workers: threads spawn, wake, abort, drop and join tasks at every moment of their life.
 * Each task ends once, is released once, and reports how it ended. */
#include "support/workers.h"

/* ---- One task, many threads ------------------------------------------------------------------ */

typedef struct target {
    aw_runtime *rt;
    gate gate;
    struct through *task;
    int joined;
} target;

/* Each thread does something else with the handle, which outlives the threads. */
static void hit(void *arg, int index, uint64_t *random) {
    target *t = arg;
    jitter(random);
    if (index == 0) {
        t->joined = JOIN_STATUS(t->rt, t->task);
    } else if (index == 1) {
        gate_open(&t->gate);
    } else if (index == 2) {
        jitter(random);
        aw_task_abort(t->task);
        jitter(random);
        aw_task_abort(t->task);
    } else {
        for (int i = 0; i < 4; i++) {
            aw_waker w = gate_waker(&t->gate);
            jitter(random);
            if (w.type && chance(random, 2)) aw_waker_wake_by_ref(&w);
            if (w.type) aw_waker_wake(w);
        }
    }
}

ON_WORKERS_LIMIT(completing_aborting_waking_and_joining_race, 60) {
    uint64_t random = test_seed();
    memory m;
    aw_runtime *rt = workers_new(workers, &m, NULL);
    for (int round = 0; round < stress_rounds(600); round++) {
        target t = {.rt = rt, .gate = GATE, .joined = 1};
        thread_group s;
        t.gate.wins = chance(&random, 2);
        t.gate.stays = (int)(test_random(&random) % 3);
        thread_group_create(&s, 5, &random, hit, &t);
        t.task = aw_spawn_on(rt, through(&t.gate));
        if (chance(&random, 2)) gate_wait(&t.gate, 1);
        thread_group_go(&s);
        thread_group_join(&s);
        CHECK_EQ(t.gate.ends, 1);
        CHECK_EQ(t.gate.finished + t.gate.cancelled, 1);
        CHECK_EQ(t.joined, t.gate.finished ? 0 : -ECANCELED);
        CHECK(t.gate.waker.type == NULL);
        aw_task_drop(t.task);
        CHECK_EQ(t.gate.discards, 0);
        WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    }
    workers_end(rt, &m);
}

/* ---- Many tasks, many threads ---------------------------------------------------------------- */

enum { SLOTS = 16, THREADS = 6 };

/* A handle in a slot belongs to the thread that takes it out. */
typedef struct bazaar {
    aw_runtime *rt;
    struct entry *slots[SLOTS]; /* atomic */
    uint32_t made, ends, discards, taken;
} bazaar;

struct entry {
    struct lives *task;
    aw_notify go;
    uint32_t refs; /* one of the slot, one of the task */
};

static void entry_drop(struct entry *e) {
    if (__atomic_fetch_sub(&e->refs, 1, __ATOMIC_ACQ_REL) == 1) free(e);
}

struct lives {
    AW_FRAME(int);
    bazaar *bazaar;
    struct entry *entry;
    uint64_t random;
    int i;
    AW_SHARE(aw_notified wait; aw_sleep sleep; struct rounds pause;);
};

static void discard_lives(aw_future *self) {
    ADD(((struct lives *)self)->bazaar->discards, 1);
}

AW_ASYNC_STATIC(lives, .discard = discard_lives) {
    AW_BEGIN;
    for (self->i = 0; self->i < 3; self->i++) {
        if (chance(&self->random, 3)) {
            AW_AWAIT(self->sleep, aw_sleep_for(test_random(&self->random) % AW_USEC(100)));
        } else if (chance(&self->random, 2)) {
            AW_AWAIT(self->pause, rounds(2));
        } else {
            AW_AWAIT(self->wait, aw_notify_wait(&self->entry->go));
        }
    }
    AW_RETURN(1);
    AW_FINALLY;
    ADD(self->bazaar->ends, 1);
    entry_drop(self->entry);
    AW_END;
}

static void settle_entry(bazaar *b, struct entry *e, uint64_t *random) {
    if (chance(random, 3)) aw_task_abort(e->task);
    for (int i = 0; i < 3; i++)
        aw_notify_one(&e->go);
    if (chance(random, 2)) {
        while (!aw_task_is_finished(e->task)) {
            aw_notify_one(&e->go);
            if (chance(random, 50)) aw_task_abort(e->task);
            sched_yield();
        }
        if (JOIN_STATUS(b->rt, e->task) == 0) {
            CHECK_EQ(aw_task_take(e->task), 1);
            ADD(b->taken, 1);
            entry_drop(e);
            return;
        }
    }
    aw_task_drop(e->task);
    entry_drop(e);
}

static void trade(void *arg, int index, uint64_t *random) {
    bazaar *b = arg;
    (void)index;
    for (int i = 0; i < 150; i++) {
        struct entry *e = calloc(1, sizeof *e);
        e->refs = 2;
        ADD(b->made, 1);
        e->task = aw_spawn_on(
            b->rt, AW_CALL(lives, .bazaar = b, .entry = e, .random = test_random(random)));
        jitter(random);
        e = __atomic_exchange_n(&b->slots[test_random(random) % SLOTS], e, __ATOMIC_ACQ_REL);
        if (e) settle_entry(b, e, random);
    }
}

ON_WORKERS_LIMIT(threads_trade_the_handles_of_running_tasks, 60) {
    uint64_t random = test_seed();
    uint32_t taken = 0;
    for (int round = 0; round < stress_rounds(8); round++) {
        memory m;
        thread_group s;
        bazaar b = {.rt = workers_new(workers, &m, NULL)};
        thread_group_create(&s, THREADS, &random, trade, &b);
        thread_group_go(&s);
        thread_group_join(&s);
        for (int i = 0; i < SLOTS; i++)
            if (b.slots[i]) settle_entry(&b, b.slots[i], &random);
        workers_end(b.rt, &m);
        CHECK_EQ(b.ends, b.made);
        CHECK_LE(b.taken + b.discards, b.made);
        taken += b.taken;
    }
    CHECK_GT(taken, 0);
}

/* ---- The runtime ends in between ------------------------------------------------------------- */

typedef struct closing {
    aw_runtime *rt;
    uint32_t finals, begun, accepted, refused;
    gate gates[8];
} closing;

AW_ASYNC(int, late, closing *closing; aw_never never; struct rounds pause;) {
    AW_BEGIN;
    ADD(self->closing->begun, 1);
    AW_AWAIT(self->pause, rounds(1));
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    ADD(self->closing->finals, 1);
    AW_END;
}

enum { EACH = 60 };
static void spawn_late(void *arg, int index, uint64_t *random) {
    closing *c = arg;
    for (int i = 0; i < EACH; i++) {
        struct late *h = aw_spawn_on(c->rt, AW_CALL(late, .closing = c));
        int error = aw_task_error(h);
        CHECK(error == 0 || error == -ECANCELED);
        ADD(*(error ? &c->refused : &c->accepted), 1);
        if (chance(random, 3)) aw_task_abort(h);
        gate_wake(&c->gates[index]);
        jitter(random);
        aw_task_drop(h);
    }
}

ON_WORKERS_LIMIT(spawns_and_wakes_of_threads_race_with_the_end, 60) {
    uint64_t random = test_seed();
    uint32_t accepted = 0, refused = 0;
    for (int round = 0; round < stress_rounds(120); round++) {
        memory m;
        thread_group s;
        static closing c;
        c = (closing){.rt = workers_new(workers, &m, NULL)};
        /* A thread that calls an ending runtime must own something that keeps its memory: here a
         * handle. */
        struct through *keeps_it[8];
        for (int i = 0; i < 8; i++) {
            c.gates[i] = (gate)GATE;
            keeps_it[i] = aw_spawn_on(c.rt, through(&c.gates[i]));
        }
        thread_group_create(&s, 8, &random, spawn_late, &c);
        thread_group_go(&s);
        uint32_t wanted = (uint32_t)(test_random(&random) % (8 * EACH));
        WAIT_UNTIL(LOAD(c.accepted) >= wanted);
        aw_runtime_free(c.rt);
        thread_group_join(&s);
        CHECK_EQ(c.accepted + c.refused, 8 * EACH);
        CHECK_EQ(c.finals, 8 * EACH); /* each was released once */
        CHECK_LE(c.begun, c.accepted);
        for (int i = 0; i < 8; i++) {
            CHECK(aw_task_is_finished(keeps_it[i]));
            CHECK_EQ(c.gates[i].ends, 1);
            aw_task_drop(keeps_it[i]);
        }
        CHECK_EQ(memory_in_use(&m), 0);
        accepted += c.accepted;
        refused += c.refused;
    }
    CHECK_GT(accepted, 0); /* both sides won some races */
    CHECK_GT(refused, 0);
}

/* ---- Threads that block ---------------------------------------------------------------------- */

typedef struct blocking {
    aw_runtime *rt;
    mailbox box[4];
} blocking;

AW_ASYNC(int, asks, mailbox *box; struct reader * task; aw_task_join_future join;) {
    AW_BEGIN;
    self->task = aw_spawn(read_from(self->box));
    AW_AWAIT(self->join, aw_task_join(self->task));
    AW_RETURN(self->join.out ? self->join.out : aw_task_take(self->task));
    AW_END;
}

/* Four threads wait, in block_on, for letters from four other threads. */
static void ask_or_answer(void *arg, int index, uint64_t *random) {
    blocking *b = arg;
    mailbox *box = &b->box[index % 4];
    if (index < 4) {
        CHECK_EQ(aw_block_on(b->rt, AW_CALL(asks, .box = box)), 5);
        return;
    }
    for (int i = 0; i < 5; i++) {
        jitter(random);
        mailbox_send(box, 1, i % 2);
    }
}

ON_WORKERS_LIMIT(threads_block_on_what_other_threads_wake, 60) {
    uint64_t random = test_seed();
    memory m;
    blocking b = {.rt = workers_new(workers, &m, NULL)};
    for (int round = 0; round < stress_rounds(400); round++) {
        thread_group s;
        for (int i = 0; i < 4; i++)
            mailbox_init(&b.box[i], 5);
        thread_group_create(&s, 8, &random, ask_or_answer, &b);
        thread_group_go(&s);
        thread_group_join(&s);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(b.box[i].finals, 1);
    }
    workers_end(b.rt, &m);
}
