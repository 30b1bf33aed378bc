/* SPDX-License-Identifier: MIT
 *
 * Limits: whatever exceeds one gets -EAGAIN at once, and a permit is free again as soon as its
 * holder has ended. */
#include "support/workers.h"

static aw_runtime *limited(aw_flavour flavour, uint32_t tasks, uint32_t stacks, memory *m) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    if (m) o.allocator = memory_init(m);
    o.flavour = flavour;
    o.workers = 2;
    o.max_tasks = tasks;
    o.max_stacks = stacks;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

enum { LIMIT = 3 };

struct visit {
    aw_runtime *rt;
    gate gates[LIMIT], refused, late;
    struct through *h[LIMIT];
};

/* On the thread that runs the runtime, on a worker, or outside. */
static void *spawn_too_many(void *arg) {
    struct visit *v = arg;
    for (int i = 0; i < LIMIT; i++) {
        v->gates[i] = (gate)GATE;
        v->h[i] = aw_spawn_on(v->rt, through(&v->gates[i]));
        CHECK_EQ(aw_task_error(v->h[i]), 0);
    }
    v->refused = v->late = (gate)GATE;
    for (int i = 1; i <= 2; i++) {
        struct through *h = aw_spawn_on(v->rt, through(&v->refused));
        CHECK_EQ(aw_task_error(h), -EAGAIN);
        CHECK_EQ(v->refused.cancelled, i); /* the unstarted future is released */
        aw_task_drop(h);
    }
    return NULL;
}

AW_FIBER(int, fills_up, struct visit *v; bool outside;) {
    struct visit *v = self->v;
    if (self->outside)
        on_a_thread(spawn_too_many, v);
    else
        spawn_too_many(v);

    struct through *error = aw_spawn(through(&v->refused));
    CHECK_EQ(aw_await(aw_task_join(error)), -EAGAIN);
    aw_task_drop(error);

    for (int i = 0; i < LIMIT; i++) {
        if (i == 1)
            aw_task_abort(v->h[i]);
        else
            gate_open(&v->gates[i]);
        CHECK_EQ(aw_await(aw_task_join(v->h[i])), i == 1 ? -ECANCELED : 0);
        /* It has ended, so its permit is free although the handle still exists. */
        struct through *h = aw_spawn(through(&v->late));
        CHECK_EQ(aw_task_error(h), 0);
        aw_task_abort(h);
        CHECK_EQ(aw_await(aw_task_join(h)), -ECANCELED);
        aw_task_drop(h);
    }
    for (int i = 0; i < LIMIT; i++)
        aw_task_drop(v->h[i]);
    return 0;
}

static void visit(aw_flavour flavour, bool outside) {
    static struct visit v;
    memory m;
    v.rt = limited(flavour, LIMIT, 0, &m);
    CHECK_EQ(aw_block_on(v.rt, AW_CALL(fills_up, .v = &v, .outside = outside)), 0);
    workers_end(v.rt, &m);
}

ON_FLAVOURS(a_task_too_many_is_refused) {
    visit(flavour, false);
}
ON_FLAVOURS(a_task_too_many_from_another_thread_is_refused) {
    visit(flavour, true);
}

/* A worker spawns there. */
AW_ASYNC(int, spawns_on_a_worker, aw_never *h[LIMIT]; int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < LIMIT - 1; self->i++) { /* it holds a permit itself */
        self->h[self->i] = aw_spawn(aw_never_ready());
        CHECK_EQ(aw_task_error(self->h[self->i]), 0);
    }
    CHECK_EQ(aw_task_error(aw_spawn(aw_never_ready())), -EAGAIN);
    for (self->i = 0; self->i < LIMIT - 1; self->i++) {
        aw_task_abort(self->h[self->i]);
        AW_AWAIT(self->join, aw_task_join(self->h[self->i]));
        aw_task_drop(self->h[self->i]);
        aw_task_drop(aw_spawn(aw_ready_now(0)));
    }
    AW_RETURN(0);
    AW_END;
}

ON_FLAVOURS(a_task_too_many_of_a_task_is_refused) {
    memory m;
    aw_runtime *rt = limited(flavour, LIMIT, 0, &m);
    CHECK_EQ(RUN(rt, AW_CALL(spawns_on_a_worker)), 0);
    workers_end(rt, &m);
}

ON_FLAVOURS(a_spawn_that_fails_otherwise_takes_no_permit) {
    static AW_TASK_STORAGE(aw_never) storage;
    memory m;
    aw_runtime *rt = limited(flavour, 2, 0, &m);
    aw_enter(rt);
    aw_never *h = aw_spawn_in(&storage, aw_never_ready());
    for (int i = 0; i < 5; i++)
        CHECK_EQ(aw_task_error(aw_spawn_in(&storage, aw_never_ready())), -EBUSY);
    __atomic_store_n(&m.refuse, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(aw_task_error(aw_spawn(aw_never_ready())), -ENOMEM);
    __atomic_store_n(&m.refuse, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(aw_task_error(aw_spawn_at(rt, 1000, aw_never_ready())), -EINVAL);
    aw_never *last = aw_spawn(aw_never_ready());
    CHECK_EQ(aw_task_error(last), 0);
    CHECK_EQ(aw_task_error(aw_spawn(aw_never_ready())), -EAGAIN);
    aw_leave(NULL);
    aw_task_drop(h);
    aw_task_drop(last);
    workers_end(rt, &m);
}

ON_FLAVOURS(storage_of_a_refused_task_is_still_free) {
    static AW_TASK_STORAGE(aw_never) storage;
    aw_runtime *rt = limited(flavour, 1, 0, NULL);
    aw_enter(rt);
    aw_never *h = aw_spawn(aw_never_ready());
    CHECK_EQ(aw_task_error(aw_spawn_in(&storage, aw_never_ready())), -EAGAIN);
    CHECK(aw_task_storage_free(&storage));
    aw_leave(NULL);
    aw_task_drop(h);
    workers_end(rt, NULL);
}

/* Threads and tasks compete for a few permits. The limit is never exceeded, and no permit is
 * lost. */
enum { FEW = 4 };
static uint32_t alive, max_alive, accepted, refusals;

static void is_alive(void) {
    uint32_t n = ADD(alive, 1) + 1, seen = LOAD(max_alive);
    while (n > seen && !__atomic_compare_exchange_n(&max_alive, &seen, n, false, __ATOMIC_ACQ_REL,
                                                    __ATOMIC_ACQUIRE)) {
    }
}

static void dies(void) {
    ADD(alive, -1);
}

AW_ASYNC(int, lives, int n; struct rounds pause;) {
    AW_BEGIN;
    is_alive();
    AW_AWAIT(self->pause, rounds(self->n));
    AW_RETURN(0);
    AW_FINALLY;
    if (AW_STARTED) dies();
    AW_END;
}

static void try_to_spawn(aw_runtime *rt, int n) {
    struct lives *h = aw_spawn_on(rt, AW_CALL(lives, .n = n));
    int error = aw_task_error(h);
    if (error) CHECK_EQ(error, -EAGAIN);
    ADD(*(error ? &refusals : &accepted), 1);
    aw_task_drop(h);
}

static void spawns_from_outside(void *rt, int index, uint64_t *random) {
    (void)index;
    for (int i = stress_rounds(2000); i; i--) {
        try_to_spawn(rt, (int)(test_random(random) % 3));
        jitter(random);
    }
}

AW_ASYNC(int, spawns_too, int i; aw_yield pause; uint32_t * over;) {
    AW_BEGIN;
    while (!LOAD(*self->over)) {
        try_to_spawn(aw_runtime_current(), 1);
        AW_AWAIT(self->pause, aw_yield_now());
    }
    AW_RETURN(0);
    AW_END;
}

struct ends_storm {
    thread_group *thread_group;
    uint32_t *over;
};
static void *end_storm(void *arg) {
    struct ends_storm *e = arg;
    thread_group_join(e->thread_group);
    STORE(*e->over, 1);
    return NULL;
}

ON_FLAVOURS(permits_are_neither_lost_nor_granted_twice) {
    uint64_t random = 42;
    uint32_t over = 0;
    thread_group s;
    aw_runtime *rt = limited(flavour, FEW, 0, NULL);
    thread_group_create(&s, 3, &random, spawns_from_outside, rt);
    struct ends_storm e = {&s, &over};
    pthread_t end = thread_start(end_storm, &e);
    thread_group_go(&s);
    CHECK_EQ(aw_block_on(rt, AW_CALL(spawns_too, .over = &over)), 0);
    thread_end(end);
    if (flavour != AW_CURRENT_THREAD) WAIT_UNTIL(aw_runtime_task_count(rt) == 0);
    while (aw_runtime_task_count(rt))
        CHECK_EQ(aw_block_on(rt, rounds(3)), 0);
    CHECK_GT(LOAD(accepted), 0);
    CHECK_LE(LOAD(max_alive), FEW);
    aw_never *h[FEW];
    for (int i = 0; i < FEW; i++) {
        h[i] = aw_spawn_on(rt, aw_never_ready());
        CHECK_EQ(aw_task_error(h[i]), 0);
    }
    CHECK_EQ(aw_task_error(aw_spawn_on(rt, aw_never_ready())), -EAGAIN);
    for (int i = 0; i < FEW; i++)
        aw_task_drop(h[i]);
    workers_end(rt, NULL);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static uint32_t entered, dropped;

AW_FIBER(int, waits_at_gate, gate *gate;) {
    ADD(entered, 1);
    return aw_await(through(self->gate));
}
AW_FIBER_DROP(waits_at_gate) {
    CHECK(self->gate != NULL);
    ADD(dropped, 1);
}

AW_FIBER(const char *, says, gate *gate;) {
    return aw_await(through(self->gate)) == 7 ? "seven" : NULL;
}

/* Fibers that are awaited inside a task have stacks too. */
AW_ASYNC(int, awaits_one, gate *gate; struct waits_at_gate fiber;) {
    AW_BEGIN;
    AW_AWAIT(self->fiber, AW_CALL(waits_at_gate, .gate = self->gate));
    AW_RETURN(self->fiber.out);
    AW_END;
}

/* The main future of the following test. It has no stack of its own. */
AW_ASYNC(int, stacks_run_out, gate *g; struct waits_at_gate * h[LIMIT], *refused;
         struct says * pointer; struct awaits_one * one; struct waits_at_gate inside; int i;
         aw_yield pause; aw_task_join_future join;) {
    AW_BEGIN;
    for (self->i = 0; self->i < LIMIT; self->i++)
        self->h[self->i] = aw_spawn(AW_CALL(waits_at_gate, .gate = &self->g[self->i]));
    for (self->i = 0; self->i < LIMIT; self->i++)
        while (!LOAD(self->g[self->i].waits))
            AW_AWAIT(self->pause, aw_yield_now());
    CHECK_EQ(LOAD(entered), LIMIT);

    self->refused = aw_spawn(AW_CALL(waits_at_gate, .gate = &self->g[LIMIT]));
    AW_AWAIT(self->join, aw_task_join(self->refused));
    CHECK_EQ(self->join.out, 0); /* the task has finished; its output is the error */
    CHECK_EQ(aw_task_take(self->refused), -EAGAIN);
    CHECK_EQ(LOAD(dropped), 1);

    self->pointer = aw_spawn(AW_CALL(says, .gate = &self->g[LIMIT]));
    AW_AWAIT(self->join, aw_task_join(self->pointer));
    CHECK_EQ(self->join.out, -EAGAIN); /* the output type cannot hold an error */
    aw_task_drop(self->pointer);

    self->one = aw_spawn(AW_CALL(awaits_one, .gate = &self->g[LIMIT]));
    AW_AWAIT(self->join, aw_task_join(self->one));
    CHECK_EQ(aw_task_take(self->one), -EAGAIN);
    AW_AWAIT(self->inside, AW_CALL(waits_at_gate, .gate = &self->g[LIMIT]));
    CHECK_EQ(self->inside.out, -EAGAIN);
    CHECK_EQ(LOAD(dropped), 3);
    CHECK_EQ(LOAD(entered), LIMIT);

    for (self->i = 0; self->i < LIMIT; self->i++) {
        if (self->i == 1)
            aw_task_abort(self->h[self->i]);
        else
            gate_open(&self->g[self->i]);
        AW_AWAIT(self->join, aw_task_join(self->h[self->i]));
        CHECK_EQ(self->join.out, self->i == 1 ? -ECANCELED : 0);
        /* It has ended, so a stack is free for this fiber, which finds its gate open. */
        gate_open(&self->g[LIMIT]);
        self->one = aw_spawn(AW_CALL(awaits_one, .gate = &self->g[LIMIT]));
        AW_AWAIT(self->join, aw_task_join(self->one));
        CHECK_EQ(aw_task_take(self->one), 7);
        aw_task_drop(self->h[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

ON_FLAVOURS(a_fiber_too_many_gets_no_stack) {
    aw_runtime *rt = limited(flavour, 0, LIMIT, NULL);
    gate g[LIMIT + 1];
    for (int i = 0; i <= LIMIT; i++)
        g[i] = (gate)GATE;
    CHECK_EQ(aw_block_on(rt, AW_CALL(stacks_run_out, .g = g)), 0);
    aw_runtime_free(rt);
}

/* A fiber that gets no memory for its stack holds no permit either. */
ON_FLAVOURS(a_stack_that_cannot_be_allocated_takes_no_permit) {
    aw_runtime *rt = limited(flavour, 0, 1, NULL);
    gate g = GATE;
    gate_open(&g);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(RUN(rt, AW_CALL(waits_at_gate, .gate = &g, .stack_size = UINT32_MAX)), -ENOMEM);
    CHECK_EQ(RUN(rt, AW_CALL(waits_at_gate, .gate = &g)), 7);
    aw_runtime_free(rt);
}

/* Polls another future once, and finishes. */
struct once {
    aw_future future;
    int out;
    aw_future *other;
};
static aw_poll once_poll(aw_future *self, aw_cx *cx) {
    struct once *o = (struct once *)self;
    o->out = aw_future_poll(o->other, cx);
    return AW_READY;
}
static const aw_future_type once_type = {AW_TYPE_OF(struct once, "once"), .poll = once_poll};

TEST(a_fiber_that_ends_in_another_runtime_leaves_that_alone) {
    gate g = GATE;
    struct waits_at_gate fiber = AW_CALL(waits_at_gate, .gate = &g);
    aw_runtime *a = limited(AW_CURRENT_THREAD, 0, 1, NULL);
    struct once o = {AW_FUTURE_INIT(&once_type), 0, &fiber.future};
    CHECK_EQ(aw_block_on_future(a, &o.future), 0);
    CHECK_EQ(o.out, AW_PENDING);
    gate_forget(&g);
    aw_runtime_free(a);
    gate_open(&g);
    aw_runtime *b = limited(AW_CURRENT_THREAD, 0, 1, NULL);
    CHECK_EQ(aw_block_on_future(b, &fiber.future), 0);
    CHECK_EQ(fiber.out, 7);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(aw_block_on(b, AW_CALL(waits_at_gate, .gate = &g)), 7);
    aw_runtime_free(b);
}

/* Cleanup cannot be cut short, so the failure is logged. */
static kept_log log_of_cleanup = KEPT_LOG;
AW_ASYNC(int, cleans_up_by_fiber, gate *g; aw_never never; struct says fiber;) {
    AW_BEGIN;
    AW_AWAIT(self->never, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->fiber, AW_CALL(says, .gate = self->g));
    CHECK(self->fiber.out == NULL);
    AW_END;
}
AW_FIBER(int, has_the_only_stack, gate *g;) {
    struct cleans_up_by_fiber *h = aw_spawn(AW_CALL(cleans_up_by_fiber, .g = self->g));
    CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_task_abort(h);
    CHECK_EQ(aw_await(aw_task_join(h)), -EAGAIN); /* the reason why it ended so */
    aw_task_drop(h);
    return 0;
}

TEST(cleanup_without_a_stack_goes_on_and_is_reported) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    gate g = GATE;
    o.flavour = AW_CURRENT_THREAD;
    o.max_stacks = 1;
    o.log = keep_log;
    o.log_data = &log_of_cleanup;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(has_the_only_stack, .g = &g)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(log_count(&log_of_cleanup, "no stack for fiber 'says': max_stacks is reached"), 1);
}

/* ---- Blocking calls -------------------------------------------------------------------------- */

enum { THREADS = 2, WAITING = 3, CALLS = THREADS + WAITING };
static event begun, go;
static uint32_t calls, released;

static long blocks(void *unused) {
    (void)unused;
    event_post(&begun);
    event_wait(&go);
    ADD(calls, 1);
    return 5;
}
static void release_arg(void *unused) {
    (void)unused;
    ADD(released, 1);
}

/* A future that holds all calls and polls each of them on demand. */
struct caller {
    aw_future future;
    int out;
    int step, finished;
    aw_blocking_future calls[CALLS + 2];
    bool pending[CALLS + 2];
};

static void begin_call(struct caller *c, int i, aw_cx *cx) {
    c->calls[i] = aw_blocking(blocks, NULL);
    CHECK_EQ(aw_future_poll(&c->calls[i].future, cx), AW_PENDING);
    c->pending[i] = true;
}

static void check_refused(aw_cx *cx) {
    aw_blocking_future borrows = aw_blocking(blocks, NULL);
    CHECK_EQ(aw_future_poll(&borrows.future, cx), AW_READY);
    CHECK_EQ(borrows.out, -EAGAIN);
    aw_blocking_future owns = aw_blocking_owned(blocks, release_arg, NULL);
    uint32_t before = LOAD(released);
    CHECK_EQ(aw_future_poll(&owns.future, cx), AW_READY);
    CHECK_EQ(owns.out, -EAGAIN);
    CHECK_EQ(LOAD(released), before + 1);
}

/* Returns a call that waits for a thread. */
static int waiting_call(const struct caller *c) {
    for (int i = 0;; i++) {
        char text[64] = "";
        aw_blocking_type.describe(&c->calls[i].future, text, sizeof text);
        if (strcmp(text, "waits for a thread") == 0) return i;
    }
}

static void poll_calls(struct caller *c, aw_cx *cx) {
    for (int i = 0; i < CALLS + 2; i++) {
        if (!c->pending[i] || aw_future_poll(&c->calls[i].future, cx) == AW_PENDING) continue;
        CHECK_EQ(c->calls[i].out, 5);
        c->pending[i] = false;
        c->finished++;
    }
}

static aw_poll caller_poll(aw_future *self, aw_cx *cx) {
    struct caller *c = (struct caller *)self;
    if (c->step == 0) {
        for (int i = 0; i < CALLS; i++)
            begin_call(c, i, cx);
        check_refused(cx);
        for (int i = 0; i < THREADS; i++)
            event_wait(&begun);
        check_refused(cx);
        int cancelled = waiting_call(c);
        CHECK_EQ(aw_future_cancel(&c->calls[cancelled].future, cx), AW_CANCELLED);
        begin_call(c, cancelled, cx); /* instead of it */
        check_refused(cx);
        c->step = 1;
        event_post(&go);
        return AW_PENDING;
    }
    poll_calls(c, cx);
    if (c->step == 1 && c->finished) {
        for (int i = 0; i < c->finished; i++)
            begin_call(c, CALLS + i, cx);
        check_refused(cx);
        c->step = 2;
        for (int i = 0; i < CALLS; i++)
            event_post(&go);
    }
    return c->finished == CALLS + 1 ? AW_READY : AW_PENDING;
}
static const aw_future_type caller_type = {AW_TYPE_OF(struct caller, "caller"),
                                           .poll = caller_poll};

ON_FLAVOURS(a_call_too_many_is_refused) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    event_init(&begun);
    event_init(&go);
    o.flavour = flavour;
    o.workers = 2;
    o.blocking_threads = THREADS;
    o.max_blocking = WAITING;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct caller main_future = {.future = AW_FUTURE_INIT(&caller_type)};
    CHECK_EQ(aw_block_on_future(rt, &main_future.future), 0);
    CHECK_EQ(LOAD(calls), CALLS + 1);
    aw_runtime_free(rt);
}

/* The abandoned call still has its thread, and so its permit. */
AW_FIBER(int, gives_up, char unused;) {
    aw_blocking_future *h = aw_spawn(aw_blocking_owned(blocks, release_arg, NULL));
    CHECK_EQ(aw_fiber_yield(), 0);
    event_wait(&begun);
    aw_task_abort(h);
    CHECK_EQ(aw_await(aw_task_join(h)), -ECANCELED);
    aw_task_drop(h);
    h = aw_spawn(aw_blocking(blocks, NULL)); /* waits for a thread */
    CHECK_EQ(aw_fiber_yield(), 0);
    CHECK_EQ(aw_await(aw_blocking(blocks, NULL)), -EAGAIN);
    event_post(&go);
    event_post(&go);
    CHECK_EQ(aw_await(aw_task_join(h)), 0);
    CHECK_EQ(aw_task_take(h), 5);
    event_post(&go);
    CHECK_EQ(aw_await(aw_blocking(blocks, NULL)), 5);
    return 0;
}

TEST(a_call_that_was_given_up_has_its_permit_until_it_returns) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    event_init(&begun);
    event_init(&go);
    o.flavour = AW_CURRENT_THREAD;
    o.blocking_threads = 1;
    o.max_blocking = 1;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    CHECK_EQ(aw_block_on(rt, AW_CALL(gives_up)), 0);
    aw_runtime_free(rt);
    CHECK_EQ(LOAD(released), 1);
}
