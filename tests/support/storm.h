/* SPDX-License-Identifier: MIT
 *
 * What the stress tests share: threads that begin together, random delays, and a future that ends when it
 * is told to and counts every one of its ends. */
#ifndef AWAKE_TEST_STORM_H
#define AWAKE_TEST_STORM_H

#include <sched.h>

#include "support/tasks.h"

/* Sometimes nothing, sometimes a few cycles, sometimes the rest of the time slice. */
HELPER void jitter(uint64_t *random) {
    uint64_t r = test_random(random);
    if (r % 16 == 0)
        sched_yield();
    else if (r % 4 == 0)
        for (volatile int i = (int)(r >> 8 & 127); i > 0; i--)
            ;
}

/* A storm finds more the longer it lasts: less is cut where everything is slow, or comes again and again: the suites with
 * workers are three, and most rounds start and end their threads. */
HELPER int storm_rounds(int n) {
    if (test_on_workers()) n = (n + 2) / 3;
    return test_under_valgrind() ? test_scale(n) : test_under_sanitizer() ? (n + 2) / 3 : n;
}

HELPER bool chance(uint64_t *random, unsigned one_in) {
    return test_random(random) % one_in == 0;
}

/* ---- Threads that begin together -------------------------------------------------------------- */

enum { MAX_THREADS = 8 };

typedef struct storm {
    void (*body)(void *arg, int index, uint64_t *random);
    void *arg;
    uint32_t go;
    int count;
    struct storm_thread {
        struct storm *storm;
        int index;
        uint64_t random;
        pthread_t thread;
    } threads[MAX_THREADS];
} storm;

HELPER void *storm_thread(void *arg) {
    struct storm_thread *t = arg;
    while (!LOAD(t->storm->go))
        sched_yield();
    t->storm->body(t->storm->arg, t->index, &t->random);
    return NULL;
}

/* The threads exist, and wait for storm_go. */
HELPER void storm_make(storm *s, int count, uint64_t *random,
                       void (*body)(void *arg, int index, uint64_t *random), void *arg) {
    *s = (storm){.body = body, .arg = arg, .count = count};
    CHECK_LE(count, MAX_THREADS);
    for (int i = 0; i < count; i++) {
        s->threads[i].storm = s;
        s->threads[i].index = i;
        s->threads[i].random = test_random(random);
        s->threads[i].thread = thread_start(storm_thread, &s->threads[i]);
    }
}

HELPER void storm_go(storm *s) {
    STORE(s->go, 1);
}

HELPER void storm_end(storm *s) {
    for (int i = 0; i < s->count; i++)
        thread_end(s->threads[i].thread);
}

/* ---- A task that many can tell ---------------------------------------------------------------- */

/* Letters come from any thread; the task ends when it has had `wanted` of them. The slot holds a clone of
 * its waker; each sender clones that under the lock and wakes after it. */
typedef struct mailbox {
    pthread_mutex_t lock;
    aw_waker waker;
    uint32_t letters, wanted, had;
    uint32_t polls, finals, discards;
    pthread_t *runner; /* who must run it; NULL: anybody */
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
