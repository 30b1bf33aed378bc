/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of the multi-thread runtime. Each test runs on 1, 2 and 8 workers: more
 * workers than processors find more. State that several tasks use is atomic (atomics.h) or
 * locked. */
#ifndef AWAKE_TEST_WORKERS_H
#define AWAKE_TEST_WORKERS_H

#include <dirent.h>

#include "support/stress.h"

/* Here, seeing the count also shows what was done before it. */
#undef ADD
#define ADD(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_ACQ_REL)

/* Defines three tests, each with its number of `workers`. */
#define ON_WORKERS(name) ON_WORKERS_LIMIT(name, TEST_DEFAULT_LIMIT)
#define ON_WORKERS_LIMIT(name, limit)                                                              \
    static void name##_body(uint32_t workers);                                                     \
    TEST_LIMIT(name##_on_1_worker, limit) {                                                        \
        name##_body(1);                                                                            \
    }                                                                                              \
    TEST_LIMIT(name##_on_2_workers, limit) {                                                       \
        name##_body(2);                                                                            \
    }                                                                                              \
    TEST_LIMIT(name##_on_8_workers, limit) {                                                       \
        name##_body(8);                                                                            \
    }                                                                                              \
    static void name##_body(uint32_t workers)

/* Defines three tests, each with its `flavour`. */
#define ON_FLAVOURS(name)                                                                          \
    static void name##_body(aw_flavour flavour);                                                   \
    TEST(name##_on_one_thread) {                                                                   \
        name##_body(AW_CURRENT_THREAD);                                                            \
    }                                                                                              \
    TEST(name##_with_workers) {                                                                    \
        name##_body(AW_MULTI_THREAD);                                                              \
    }                                                                                              \
    TEST(name##_with_a_thread_per_core) {                                                          \
        name##_body(AW_THREAD_PER_CORE);                                                           \
    }                                                                                              \
    static void name##_body(aw_flavour flavour)

/* Defines four tests, each with its number of `workers`; 0: the current-thread flavour. */
#define ON_BOTH(name)                                                                              \
    static void name##_body(uint32_t workers);                                                     \
    TEST(name##_on_the_current_thread) {                                                           \
        name##_body(0);                                                                            \
    }                                                                                              \
    TEST(name##_on_1_worker) {                                                                     \
        name##_body(1);                                                                            \
    }                                                                                              \
    TEST(name##_on_2_workers) {                                                                    \
        name##_body(2);                                                                            \
    }                                                                                              \
    TEST(name##_on_8_workers) {                                                                    \
        name##_body(8);                                                                            \
    }                                                                                              \
    static void name##_body(uint32_t workers)

HELPER aw_runtime_options workers_options(uint32_t workers, memory *m, kept_log *log) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.flavour = AW_MULTI_THREAD;
    o.workers = workers;
    if (m) o.allocator = &m->allocator;
    if (log) {
        o.log = keep_log;
        o.log_data = log;
    }
    return o;
}

/* `m` and `log` may be NULL. */
HELPER aw_runtime *workers_new(uint32_t workers, memory *m, kept_log *log) {
    aw_runtime_options o = workers_options(workers, m, log);
    aw_runtime *rt;
    if (m) memory_init(m);
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* For ON_BOTH. */
HELPER aw_runtime *new_runtime(uint32_t workers, memory *m, kept_log *log) {
    if (workers) return workers_new(workers, m, log);
    test_on_this_thread();
    if (m) memory_init(m);
    return runtime_new(m, log, NULL, false);
}

/* Whether all workers sleep with nothing to do, and `block_ons` threads sleep in block_on. */
HELPER bool all_sleep(aw_runtime *rt, int block_ons) {
    aw__lock(&rt->base.lock);
    for (const aw__block_on *m = rt->pool->block_ons; m; m = m->next)
        block_ons -= aw__load_acquire(&m->state) == AW__BLOCK_ON_ASLEEP;
    aw__unlock(&rt->base.lock);
    return block_ons == 0 && workers_sleep(rt->pool);
}

/* The number of entries in a directory, such as /proc/self/task or /proc/self/fd. */
HELPER size_t entries(const char *folder) {
    DIR *d = opendir(folder);
    CHECK(d != NULL);
    size_t n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Frees the runtime, and checks that it has freed all memory. */
HELPER void workers_end(aw_runtime *rt, memory *m) {
    aw_runtime_free(rt);
    if (m) CHECK_EQ(memory_in_use(m), 0);
}

HELPER void must_finish(aw_runtime *rt, aw_future *task) {
    CHECK_EQ(join_status(rt, task), 0);
}

/* Spawns and joins a task that must finish. Its value is the output. */
#define RUN(rt, ...)                                                                               \
    __extension__({                                                                                \
        __typeof__(__VA_ARGS__) *run_task_ = aw_spawn_on((rt), __VA_ARGS__);                       \
        must_finish((rt), &run_task_->future);                                                     \
        aw_task_take(run_task_);                                                                   \
    })

/* For what another thread does soon, and does not signal. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        while (!(condition))                                                                       \
            sched_yield();                                                                         \
    } while (0)

HELPER aw_worker_counters counters_of(const aw_runtime *rt, uint32_t worker) {
    aw_worker_counters c;
    CHECK_EQ(aw_runtime_counters(rt, worker, &c), 0);
    return c;
}

/* Sums a counter over all workers. */
#define COUNTER_SUM(rt, member)                                                                    \
    __extension__({                                                                                \
        uint64_t sum_ = 0;                                                                         \
        for (uint32_t i_ = 0; i_ < aw_runtime_workers(rt); i_++)                                   \
            sum_ += counters_of((rt), i_).member;                                                  \
        sum_;                                                                                      \
    })

/* ---- A future that waits until any thread opens its gate ------------------------------------- */

/* All threads may open it. Only the task changes the rest, which the test reads after its end,
 * except `waits` and `ends`. */
typedef struct gate {
    pthread_mutex_t lock;
    aw_waker waker;       /* a clone, while pending */
    bool open;            /* the next poll finishes */
    bool wins;            /* a cancel finds that it has finished */
    int stays;            /* this many cancels are pending, and woken at once */
    uint32_t waits, ends; /* atomic: pending polls; ends */
    int polls, cancels, finished, cancelled, discards;
    pthread_t ended_by;
} gate;

#define GATE                                                                                       \
    { .lock = PTHREAD_MUTEX_INITIALIZER }

struct through {
    aw_future future;
    int out;
    gate *gate;
};

HELPER void gate_keep(gate *g, const aw_waker *w) {
    pthread_mutex_lock(&g->lock);
    aw_waker_set(&g->waker, w);
    pthread_mutex_unlock(&g->lock);
}

HELPER void gate_forget(gate *g) {
    pthread_mutex_lock(&g->lock);
    aw_waker w = aw_waker_take(&g->waker);
    pthread_mutex_unlock(&g->lock);
    if (w.type) aw_waker_drop(w);
}

HELPER aw_poll gate_end(gate *g, aw_poll how) {
    gate_forget(g);
    *(how == AW_READY ? &g->finished : &g->cancelled) += 1;
    g->ended_by = pthread_self();
    ADD(g->ends, 1);
    return how;
}

HELPER aw_poll through_poll(aw_future *self, aw_cx *cx) {
    struct through *t = (struct through *)self;
    gate *g = t->gate;
    g->polls++;
    gate_keep(g, aw_cx_waker(cx));
    pthread_mutex_lock(&g->lock);
    bool open = g->open;
    pthread_mutex_unlock(&g->lock);
    if (!open) {
        ADD(g->waits, 1);
        return AW_PENDING;
    }
    t->out = 7;
    return gate_end(g, AW_READY);
}

HELPER aw_poll through_cancel(aw_future *self, aw_cx *cx) {
    gate *g = ((struct through *)self)->gate;
    g->cancels++;
    ((struct through *)self)->out = 8;
    if (g->stays-- > 0) {
        gate_keep(g, aw_cx_waker(cx));
        aw_waker_wake_by_ref(aw_cx_waker(cx));
        return AW_PENDING;
    }
    return gate_end(g, g->wins && aw_future_started(self) ? AW_READY : AW_CANCELLED);
}

HELPER void through_discard(aw_future *self) {
    ((struct through *)self)->gate->discards++;
}

__attribute__((unused)) static const aw_future_type through_type = {
    AW_TYPE_OF(struct through, "through"),
    .poll = through_poll,
    .cancel = through_cancel,
    .discard = through_discard,
};

HELPER struct through through(gate *g) {
    return (struct through){AW_FUTURE_INIT(&through_type), 0, g};
}

/* A clone of the waker; {NULL, NULL} if it does not wait. */
HELPER aw_waker gate_waker(gate *g) {
    pthread_mutex_lock(&g->lock);
    aw_waker w = g->waker.type ? aw_waker_clone(&g->waker) : g->waker;
    pthread_mutex_unlock(&g->lock);
    return w;
}

HELPER void gate_wake(gate *g) {
    aw_waker w = gate_waker(g);
    if (w.type) aw_waker_wake(w);
}

HELPER void gate_open(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_mutex_unlock(&g->lock);
    gate_wake(g);
}

/* Waits until the future has been pending this often. */
HELPER void gate_wait(gate *g, uint32_t waits) {
    WAIT_UNTIL(LOAD(g->waits) >= waits);
}

#endif
