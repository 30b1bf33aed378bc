/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of tasks and runtimes: a counting allocator, a captured log, threads and
 * events, a runtime with observable parks, and a future that acts on request and records
 * the calls. */
#ifndef AWAKE_TEST_TASKS_H
#define AWAKE_TEST_TASKS_H

#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "os/park.h"
#include "support/atomics.h"
#include "support/settle.h"
#include "test.h"

#define HELPER __attribute__((unused)) static

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Checks that each block is freed with its size. All threads. */
typedef struct memory {
    aw_allocator allocator;
    size_t taken, given;             /* calls */
    size_t taken_bytes, given_bytes; /* sums */
    uint32_t refuse;                 /* from now on allocations fail */
} memory;

HELPER void *memory_alloc(void *data, size_t size) {
    memory *m = data;
    if (__atomic_load_n(&m->refuse, __ATOMIC_RELAXED)) return NULL;
    size_t *block = malloc(size + 16);
    if (!block) return NULL;
    block[0] = size;
    __atomic_fetch_add(&m->taken, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->taken_bytes, size, __ATOMIC_RELAXED);
    return block + 2;
}

HELPER void memory_release(void *data, void *at, size_t size) {
    memory *m = data;
    size_t *block = (size_t *)at - 2;
    CHECK_EQ(block[0], size);
    free(block);
    __atomic_fetch_add(&m->given_bytes, size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->given, 1, __ATOMIC_ACQ_REL);
}

HELPER const aw_allocator *memory_init(memory *m) {
    *m = (memory){.allocator = {memory_alloc, memory_release, m}};
    return &m->allocator;
}

HELPER size_t memory_in_use(const memory *m) {
    return __atomic_load_n(&m->taken, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&m->given, __ATOMIC_ACQUIRE);
}

/* ---- Log ------------------------------------------------------------------------------------- */

typedef struct kept_log {
    pthread_mutex_t lock;
    size_t length;
    char text[32768];
} kept_log;

#define KEPT_LOG                                                                                   \
    { .lock = PTHREAD_MUTEX_INITIALIZER }

HELPER void keep_log(void *data, aw_log_level level, const char *message) {
    kept_log *log = data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    pthread_mutex_lock(&log->lock);
    size_t space = sizeof log->text - log->length;
    int n = snprintf(log->text + log->length, space, "%s\n", message);
    CHECK(n > 0 && (size_t)n < space);
    log->length += (size_t)n;
    pthread_mutex_unlock(&log->lock);
}

/* The number of occurrences of `words`. */
HELPER int log_count(kept_log *log, const char *words) {
    int n = 0;
    pthread_mutex_lock(&log->lock);
    for (const char *at = log->text; (at = strstr(at, words)); at++)
        n++;
    pthread_mutex_unlock(&log->lock);
    return n;
}

/* ---- Threads --------------------------------------------------------------------------------- */

HELPER pthread_t thread_start(void *(*body)(void *), void *arg) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    return thread;
}

HELPER void thread_end(pthread_t thread) {
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Runs `body` on a thread, and joins it. */
HELPER void on_a_thread(void *(*body)(void *), void *arg) {
    thread_end(thread_start(body, arg));
}

/* Each post lets one wait return. */
typedef sem_t event;

HELPER void event_init(event *e) {
    CHECK_EQ(sem_init(e, 0, 0), 0);
}
HELPER void event_post(event *e) {
    CHECK_EQ(sem_post(e), 0);
}
HELPER void event_wait(event *e) {
    while (sem_wait(e) != 0)
        CHECK_EQ(errno, EINTR);
}

/* ---- A runtime with observable parks --------------------------------------------------------- */

/* Parks like the runtime itself, but posts `asleep` first: each time that the runtime has
 * nothing to do. */
typedef struct sleeper {
    aw_seam seam;
    event asleep;
    uint32_t word;
    uint32_t parks, unparks;
} sleeper;

HELPER void sleeper_park(void *data, uint64_t deadline) {
    sleeper *s = data;
    __atomic_fetch_add(&s->parks, 1, __ATOMIC_RELAXED);
    event_post(&s->asleep);
    aw__os_park(&s->word, deadline);
}

HELPER void sleeper_unpark(void *data) {
    sleeper *s = data;
    __atomic_fetch_add(&s->unparks, 1, __ATOMIC_RELAXED);
    aw__os_unpark(&s->word);
}

HELPER const aw_seam *sleeper_init(sleeper *s) {
    memset(s, 0, sizeof *s);
    event_init(&s->asleep);
    s->seam = (aw_seam){
        .self_size = sizeof(aw_seam), .data = s, .park = sleeper_park, .unpark = sleeper_unpark};
    return &s->seam;
}

/* ---- Runtimes -------------------------------------------------------------------------------- */

/* The pointers may be NULL. */
HELPER aw_runtime *runtime_new(memory *m, kept_log *log, const aw_seam *seam, bool paused) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    o.keep_tasks = true;
    o.allocator = m ? &m->allocator : NULL;
    if (log) {
        o.log = keep_log;
        o.log_data = log;
    }
    o.seam = seam;
    o.paused = paused;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

/* A thread that runs a runtime until host_stop. */
typedef struct host {
    aw_runtime *rt;
    sleeper sleeper;
    aw_notify stop;
    pthread_t thread;
} host;

HELPER void *host_body(void *arg) {
    host *h = arg;
    CHECK_EQ(aw_block_on(h->rt, aw_notify_wait(&h->stop)), 0);
    return NULL;
}

/* Returns when the runtime runs, and sleeps because it has nothing to do. */
HELPER void host_start(host *h, memory *m) {
    memset(h, 0, sizeof *h);
    h->rt = runtime_new(m, NULL, sleeper_init(&h->sleeper), false);
    h->thread = thread_start(host_body, h);
    event_wait(&h->sleeper.asleep);
}

/* Stops the thread. The caller frees the runtime. */
HELPER void host_stop(host *h) {
    aw_notify_one(&h->stop);
    thread_end(h->thread);
}

/* ---- A future that records its calls --------------------------------------------------------- */

/* What was done to a probe, and what it does next: `answer` is the result of the next poll,
 * `cancel_answer` of the next cancel. While pending it keeps a clone of the latest waker in
 * `waker`, unless `careless`. */
typedef struct probe_state {
    int polls, cancels, discards;
    aw_poll answer, cancel_answer;
    bool careless;
    aw_waker waker;
    pthread_t polled_by, cancelled_by, discarded_by;
    void (*during_poll)(struct probe_state *l, aw_cx *cx);
    event *after_poll; /* posted when the waker is stored */
    void *arg;
} probe_state;

struct probe {
    aw_future future;
    int out;
    probe_state *state;
};

HELPER aw_poll probe_step(probe_state *l, aw_cx *cx, aw_poll answer) {
    if (answer == AW_PENDING && !l->careless) {
        aw_waker_set(&l->waker, aw_cx_waker(cx));
    } else if (l->waker.type) {
        aw_waker_drop(aw_waker_take(&l->waker));
    }
    return answer;
}

HELPER aw_poll probe_poll(aw_future *self, aw_cx *cx) {
    struct probe *p = (struct probe *)self;
    probe_state *l = p->state;
    l->polls++;
    l->polled_by = pthread_self();
    if (l->during_poll) l->during_poll(l, cx);
    p->out = 100 + l->polls;
    aw_poll answer = probe_step(l, cx, l->answer);
    if (l->after_poll) event_post(l->after_poll);
    return answer;
}

HELPER aw_poll probe_cancel(aw_future *self, aw_cx *cx) {
    struct probe *p = (struct probe *)self;
    probe_state *l = p->state;
    l->cancels++;
    l->cancelled_by = pthread_self();
    p->out = 200 + l->cancels;
    /* A future that never started cannot have finished. */
    return probe_step(l, cx, aw_future_started(self) ? l->cancel_answer : AW_CANCELLED);
}

HELPER void probe_discard(aw_future *self) {
    probe_state *l = ((struct probe *)self)->state;
    l->discards++;
    l->discarded_by = pthread_self();
}

__attribute__((unused)) static const aw_future_type probe_type = {
    AW_TYPE_OF(struct probe, "probe"),
    .poll = probe_poll,
    .cancel = probe_cancel,
    .discard = probe_discard,
};

/* Pending until changed; ends at once when cancelled. */
#define PROBE_STATE                                                                                \
    { .answer = AW_PENDING, .cancel_answer = AW_CANCELLED }

HELPER struct probe probe_of(probe_state *l) {
    return (struct probe){AW_FUTURE_INIT(&probe_type), 0, l};
}

/* Wakes the waiter, as an external event does. */
HELPER void probe_wake(probe_state *l) {
    CHECK(l->waker.type != NULL);
    aw_waker_wake_by_ref(&l->waker);
}

/* Makes the next poll return READY, and wakes. */
HELPER void probe_finish(probe_state *l) {
    l->answer = AW_READY;
    probe_wake(l);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Blocks on the join of a task and returns its status. The output then counts as taken. */
#define JOIN_STATUS(rt, h) join_status((rt), AW_TASK(h))
HELPER int join_status(aw_runtime *rt, aw_future *task) {
    aw_task_join_future join = aw__task_join(task);
    CHECK_EQ(aw_block_on_future(rt, &join.future), 0);
    return join.out;
}

#endif
