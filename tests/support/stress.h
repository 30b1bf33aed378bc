/* SPDX-License-Identifier: MIT
 *
 * Helpers for stress tests: threads that start together, random delays, and a future that ends
 * on request and counts how it ends. */
#ifndef AWAKE_TEST_STRESS_H
#define AWAKE_TEST_STRESS_H

#include <sched.h>

#include "support/tasks.h"

/* Nothing, a few cycles, or a sched_yield, at random. */
HELPER void jitter(uint64_t *random) {
    uint64_t r = test_random(random);
    if (r % 16 == 0)
        sched_yield();
    else if (r % 4 == 0)
        for (volatile int i = (int)(r >> 8 & 127); i > 0; i--)
            ;
}

/* Scales the rounds of a stress test, which finds more the longer it runs. Fewer where
 * everything is slow, and on workers: there are three such suites, and most rounds start and
 * join threads. */
HELPER int stress_rounds(int n) {
    if (test_on_workers()) n = (n + 2) / 3;
    return test_under_valgrind() ? test_scale(n) : test_under_sanitizer() ? (n + 2) / 3 : n;
}

HELPER bool chance(uint64_t *random, unsigned one_in) {
    return test_random(random) % one_in == 0;
}

/* ---- Threads that start together ------------------------------------------------------------- */

enum { MAX_THREADS = 8 };

typedef struct thread_group {
    void (*body)(void *arg, int index, uint64_t *random);
    void *arg;
    uint32_t go;
    int count;
    struct thread_group_thread {
        struct thread_group *thread_group;
        int index;
        uint64_t random;
        pthread_t thread;
    } threads[MAX_THREADS];
} thread_group;

HELPER void *thread_group_thread(void *arg) {
    struct thread_group_thread *t = arg;
    while (!LOAD(t->thread_group->go))
        sched_yield();
    t->thread_group->body(t->thread_group->arg, t->index, &t->random);
    return NULL;
}

/* Creates the threads. They wait until thread_group_go. */
HELPER void thread_group_create(thread_group *s, int count, uint64_t *random,
                                void (*body)(void *arg, int index, uint64_t *random), void *arg) {
    *s = (thread_group){.body = body, .arg = arg, .count = count};
    CHECK_LE(count, MAX_THREADS);
    for (int i = 0; i < count; i++) {
        s->threads[i].thread_group = s;
        s->threads[i].index = i;
        s->threads[i].random = test_random(random);
        s->threads[i].thread = thread_start(thread_group_thread, &s->threads[i]);
    }
}

HELPER void thread_group_go(thread_group *s) {
    STORE(s->go, 1);
}

HELPER void thread_group_join(thread_group *s) {
    for (int i = 0; i < s->count; i++)
        thread_end(s->threads[i].thread);
}

/* ---- A task with a mailbox ------------------------------------------------------------------- */

/* All threads may send letters. The task ends when it has received `wanted` of them. `waker` is
 * a clone of its waker; a sender clones it under the lock and wakes after unlocking. */
typedef struct mailbox {
    pthread_mutex_t lock;
    aw_waker waker;
    uint32_t letters, wanted, had;
    uint32_t polls, finals, discards;
    /* The thread that must end it; NULL: any thread. */
    pthread_t *runner;
} mailbox;

HELPER void mailbox_init(mailbox *m, uint32_t wanted) {
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->wanted = wanted;
}

HELPER void mailbox_send(mailbox *m, uint32_t letters, bool by_ref) {
    pthread_mutex_lock(&m->lock);
    m->letters += letters;
    aw_waker w = m->waker.type ? aw_waker_clone(&m->waker) : m->waker;
    pthread_mutex_unlock(&m->lock);
    if (!w.type) return;
    if (by_ref) {
        aw_waker_wake_by_ref(&w);
        aw_waker_drop(w);
    } else {
        aw_waker_wake(w);
    }
}

struct reader {
    aw_future future;
    int out;
    mailbox *box;
};

HELPER void reader_close(mailbox *m) {
    pthread_mutex_lock(&m->lock);
    aw_waker w = aw_waker_take(&m->waker);
    pthread_mutex_unlock(&m->lock);
    if (w.type) aw_waker_drop(w);
    if (m->runner) CHECK(pthread_equal(*m->runner, pthread_self()));
    m->finals++;
}

HELPER aw_poll reader_poll(aw_future *self, aw_cx *cx) {
    mailbox *m = ((struct reader *)self)->box;
    m->polls++;
    pthread_mutex_lock(&m->lock);
    m->had += m->letters;
    m->letters = 0;
    bool done = m->had >= m->wanted;
    if (!done) aw_waker_set(&m->waker, aw_cx_waker(cx));
    pthread_mutex_unlock(&m->lock);
    if (!done) return AW_PENDING;
    ((struct reader *)self)->out = (int)m->had;
    reader_close(m);
    return AW_READY;
}

HELPER aw_poll reader_cancel(aw_future *self, aw_cx *cx) {
    (void)cx;
    reader_close(((struct reader *)self)->box);
    return AW_CANCELLED;
}

HELPER void reader_discard(aw_future *self) {
    ADD(((struct reader *)self)->box->discards, 1);
}

__attribute__((unused)) static const aw_future_type reader_type = {
    AW_TYPE_OF(struct reader, "reader"),
    .poll = reader_poll,
    .cancel = reader_cancel,
    .discard = reader_discard,
};

HELPER struct reader read_from(mailbox *m) {
    return (struct reader){AW_FUTURE_INIT(&reader_type), 0, m};
}

#endif
