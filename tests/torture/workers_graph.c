/* SPDX-License-Identifier: MIT
 *
 * Random graphs of tasks on workers, for a fixed number of seeds. A node yields, sleeps, waits for
 * a letter, spawns nodes (async functions and fibers), joins, aborts or detaches them, or fails.
 * Threads deliver letters, and wake waiting nodes without a reason. Each node is released once,
 * each output is taken or discarded once, each letter arrives, and no memory remains. */
#include "support/workers.h"

enum { SLOTS = 32, CHILDREN = 3, DEPTH = 6 };

/* At most one node waits at each. */
typedef struct slot {
    pthread_mutex_t lock;
    aw_waker waker;
    bool taken, delivered;
} slot;

typedef struct world {
    aw_runtime *rt;
    slot slots[SLOTS];
    uint32_t made, ended;               /* nodes */
    uint32_t outputs_made, outputs_got; /* taken, or discarded */
    uint32_t sent, received, lost;      /* letters; lost: the waiter was cancelled */
    uint32_t stop;
} world;

/* ---- A letter -------------------------------------------------------------------------------- */

struct letter {
    aw_future future;
    int out;
    world *world;
    int at; /* the slot, counted from 1 */
};

static slot *slot_of(struct letter *l) {
    return &l->world->slots[l->at - 1];
}

/* Frees the slot. True: a letter had arrived. */
static bool leave_slot(struct letter *l) {
    slot *s = slot_of(l);
    pthread_mutex_lock(&s->lock);
    aw_waker w = aw_waker_take(&s->waker);
    bool delivered = s->delivered;
    s->taken = s->delivered = false;
    pthread_mutex_unlock(&s->lock);
    if (w.type) aw_waker_drop(w);
    l->at = 0;
    return delivered;
}

static aw_poll letter_poll(aw_future *self, aw_cx *cx) {
    struct letter *l = (struct letter *)self;
    for (int i = 0; i < SLOTS && !l->at; i++) {
        slot *s = &l->world->slots[((uintptr_t)self / 64 + (uintptr_t)i) % SLOTS];
        pthread_mutex_lock(&s->lock);
        if (!s->taken) {
            s->taken = true;
            l->at = (int)(s - l->world->slots) + 1;
        }
        pthread_mutex_unlock(&s->lock);
    }
    if (!l->at) return AW_READY; /* all slots are taken: does not wait */
    slot *s = slot_of(l);
    pthread_mutex_lock(&s->lock);
    bool delivered = s->delivered;
    if (!delivered) aw_waker_set(&s->waker, aw_cx_waker(cx));
    pthread_mutex_unlock(&s->lock);
    if (!delivered) return AW_PENDING;
    leave_slot(l);
    ADD(l->world->received, 1);
    return AW_READY;
}

static aw_poll letter_cancel(aw_future *self, aw_cx *cx) {
    struct letter *l = (struct letter *)self;
    (void)cx;
    if (l->at && leave_slot(l)) ADD(l->world->lost, 1);
    return AW_CANCELLED;
}

static const aw_future_type letter_type = {AW_TYPE_OF(struct letter, "letter"), .poll = letter_poll,
                                           .cancel = letter_cancel};

static struct letter letter(world *w) {
    return (struct letter){AW_FUTURE_INIT(&letter_type), 0, w, 0};
}

/* A thread that delivers letters, and wakes without a reason. */
static void post(void *arg, int index, uint64_t *random) {
    world *w = arg;
    (void)index;
    while (!LOAD(w->stop)) {
        slot *s = &w->slots[test_random(random) % SLOTS];
        aw_waker waker = {NULL, NULL};
        pthread_mutex_lock(&s->lock);
        if (s->taken && !s->delivered && s->waker.type) {
            s->delivered = chance(random, 2);
            if (s->delivered) ADD(w->sent, 1);
            waker = aw_waker_clone(&s->waker);
        }
        pthread_mutex_unlock(&s->lock);
        jitter(random);
        if (waker.type && chance(random, 2)) aw_waker_wake_by_ref(&waker);
        if (waker.type) aw_waker_wake(waker);
        if (chance(random, 8)) sched_yield();
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

typedef AW_TIMEOUT(aw_task_join_future) join_timeout;
typedef AW_SELECT(struct letter, aw_task_join_future, aw_sleep) three_ways;

struct node {
    AW_FRAME(int);
    world *world;
    uint64_t random;
    int depth, steps, count, i;
    aw_future *children[CHILDREN];
    AW_SHARE(aw_yield pause; aw_sleep sleep; struct letter letter; aw_task_join_future join;
             join_timeout timeout; three_ways select;);
};

struct thread_of_nodes {
    AW_FIBER_FRAME(int);
    world *world;
    uint64_t random;
    int depth;
};

static void discard_node(aw_future *self) {
    ADD(((struct node *)self)->world->outputs_got, 1);
}
static void discard_fiber(aw_future *self) {
    ADD(((struct thread_of_nodes *)self)->world->outputs_got, 1);
}

AW_ASYNC_DECL(node);
AW_FIBER_DECL(thread_of_nodes);

static aw_future *spawn_node(world *w, uint64_t random, int depth) {
    ADD(w->made, 1);
    if (chance(&random, 4))
        return AW_TASK(aw_spawn_on(
            w->rt, AW_CALL(thread_of_nodes, .world = w, .random = random, .depth = depth)));
    return AW_TASK(aw_spawn_on(w->rt, AW_CALL(node, .world = w, .random = random, .depth = depth)));
}

/* After a join. */
static void release_child(world *w, aw_future *task, int status) {
    CHECK(status == 0 || status == -ECANCELED || status == -EPROTO);
    if (status == 0) ADD(w->outputs_got, 1);
    aw__task_drop(task);
}

static aw_future *take_child(struct node *self) {
    return self->children[--self->count];
}

AW_ASYNC_DEF(node, .discard = discard_node) {
    AW_BEGIN;
    for (self->steps = 2 + (int)(test_random(&self->random) % 5); self->steps > 0; self->steps--) {
        self->i = (int)(test_random(&self->random) % 10);
        if (self->i < 4 && self->count < CHILDREN && self->depth < DEPTH) {
            self->children[self->count++] = spawn_node(self->world, test_random(&self->random),
                                                       self->depth + 1);
        } else if (self->i == 4) {
            AW_AWAIT(self->pause, aw_yield_now());
        } else if (self->i == 5) {
            AW_AWAIT(self->sleep, aw_sleep_for(test_random(&self->random) % AW_USEC(200)));
        } else if (self->i == 6) {
            AW_AWAIT(self->letter, letter(self->world));
        } else if (self->i == 7 && self->count) {
            aw__task_abort(self->children[self->count - 1]);
            if (chance(&self->random, 2)) aw__task_drop(take_child(self));
        } else if (self->i == 8 && self->count) {
            AW_AWAIT_FOR(self->timeout, AW_USEC(100),
                         aw__task_join(self->children[self->count - 1]));
            if (self->timeout.out == 0)
                release_child(self->world, take_child(self), self->timeout.inner.out);
        } else if (self->i == 9 && self->count) {
            AW_AWAIT_SELECT(self->select, letter(self->world),
                            aw__task_join(self->children[self->count - 1]),
                            aw_sleep_for(AW_USEC(100)));
            AW_SELECT_EACH(branch, &self->select) {
                if (branch == 1) release_child(self->world, take_child(self), self->select.f1.out);
            }
        }
    }
    if (chance(&self->random, 12)) AW_FAIL(-EPROTO);
    while (self->count > 1) {
        AW_AWAIT(self->join, aw__task_join(self->children[self->count - 1]));
        release_child(self->world, take_child(self), self->join.out);
    }
    ADD(self->world->outputs_made, 1);
    AW_RETURN(1);
    AW_FINALLY;
    while (self->count) { /* after a cancel or a failure; or the last one */
        if (chance(&self->random, 2)) aw__task_abort(self->children[self->count - 1]);
        if (chance(&self->random, 3)) {
            aw__task_drop(take_child(self));
            continue;
        }
        AW_AWAIT(self->join, aw__task_join(self->children[self->count - 1]));
        release_child(self->world, take_child(self), self->join.out);
    }
    ADD(self->world->ended, 1);
    AW_END;
}

AW_FIBER_DEF(thread_of_nodes, .discard = discard_fiber) {
    world *w = self->world;
    pthread_t thread = pthread_self();
    aw_future *child = self->depth < DEPTH
                           ? spawn_node(w, test_random(&self->random), self->depth + 1)
                           : NULL;
    aw_await(letter(w));
    aw_await_for(AW_USEC(100), aw_sleep_for(test_random(&self->random) % AW_USEC(200)));
    CHECK(pthread_equal(thread, pthread_self()));
    if (child) {
        int status = 1;
        if (chance(&self->random, 3)) aw__task_abort(child);
        AW_SHIELD {
            status = aw_await(aw__task_join(child));
        }
        release_child(w, child, status);
    }
    CHECK(pthread_equal(thread, pthread_self()));
    ADD(w->ended, 1);
    ADD(w->outputs_made, 1); /* also if it fails: the output is discarded */
    return chance(&self->random, 12) ? aw_fiber_fail(-EPROTO) : 1;
}
AW_FIBER_DROP(thread_of_nodes) {
    ADD(self->world->ended, 1);
}

/* ---- One graph ------------------------------------------------------------------------------- */

static void run_graph(uint32_t workers, uint64_t seed) {
    enum { ROOTS = 5, POSTMEN = 2 };
    uint64_t random = seed;
    memory m;
    kept_log log = KEPT_LOG;
    thread_group postmen;
    world w = {.rt = workers_new(workers, &m, &log)};
    aw_future *roots[ROOTS];
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&w.slots[i].lock, NULL);
    thread_group_create(&postmen, POSTMEN, &random, post, &w);
    thread_group_go(&postmen);
    for (int i = 0; i < ROOTS; i++)
        roots[i] = spawn_node(&w, test_random(&random), 0);
    bool cut = chance(&random, 3); /* the runtime ends before the roots are joined */
    for (int i = 0; i < ROOTS && !cut; i++) {
        if (chance(&random, 4)) aw__task_abort(roots[i]);
        release_child(&w, roots[i], join_status(w.rt, roots[i]));
    }
    aw_runtime_free(w.rt);
    for (int i = 0; i < ROOTS && cut; i++)
        aw__task_drop(roots[i]);
    STORE(w.stop, 1);
    thread_group_join(&postmen);
    if (w.made != w.ended || w.outputs_made != w.outputs_got || w.sent != w.received + w.lost)
        FAIL("seed %llu: %u nodes made, %u ended; %u outputs made, %u got; %u letters sent, %u "
             "received, %u lost",
             (unsigned long long)seed, w.made, w.ended, w.outputs_made, w.outputs_got, w.sent,
             w.received, w.lost);
    if (memory_in_use(&m)) FAIL("seed %llu: memory remains", (unsigned long long)seed);
    if (log.length) FAIL("seed %llu: %s", (unsigned long long)seed, log.text);
}

ON_WORKERS_LIMIT(random_graphs_of_tasks_end_and_leave_nothing, 60) {
    int seeds = stress_rounds(300);
    for (int i = 0; i < seeds; i++)
        run_graph(workers, test_seed() + (uint64_t)i);
}
