/* SPDX-License-Identifier: MIT
 *
 * Pairs of tasks that exchange notifications: a thousand pairs that may move, and one pair pinned
 * to two different workers, so that every notification crosses threads. A round is there and back.
 * With fewer than two workers the pair shares a thread. For comparison, two plain threads with
 * semaphores. */
#include "bench.h"

#include <pthread.h>
#include <semaphore.h>

enum { PAIRS = 1000, ROUNDS = 500, ROUNDS_APART = 10000 };

typedef struct pair {
    aw_notify ping, pong;
} pair;

AW_ASYNC(int, echo, pair *pair; int rounds; aw_notified wait;) {
    AW_BEGIN;
    for (; self->rounds; self->rounds--) {
        AW_AWAIT(self->wait, aw_notify_wait(&self->pair->ping));
        aw_notify_one(&self->pair->pong);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, call, pair *pair; int rounds; aw_notified wait;) {
    AW_BEGIN;
    for (; self->rounds; self->rounds--) {
        aw_notify_one(&self->pair->ping);
        AW_AWAIT(self->wait, aw_notify_wait(&self->pair->pong));
    }
    AW_RETURN(0);
    AW_END;
}

/* ---- Many pairs ------------------------------------------------------------------------------ */

AW_ASYNC(int, many, pair pairs[PAIRS]; struct echo * echoes[PAIRS]; struct call * calls[PAIRS];
         int i; aw_task_join_future join;) {
    AW_BEGIN;
    for (int i = 0; i < PAIRS; i++) {
        self->echoes[i] = aw_spawn(AW_CALL(echo, .pair = &self->pairs[i], .rounds = ROUNDS));
        self->calls[i] = aw_spawn(AW_CALL(call, .pair = &self->pairs[i], .rounds = ROUNDS));
    }
    for (self->i = 0; self->i < PAIRS; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->echoes[self->i]));
        aw_task_drop(self->echoes[self->i]);
        AW_AWAIT(self->join, aw_task_join(self->calls[self->i]));
        aw_task_drop(self->calls[self->i]);
    }
    AW_RETURN(0);
    AW_END;
}

/* ---- One pair on two workers ----------------------------------------------------------------- */

static pair apart;
static pthread_t first;
static int seated;
static uint64_t start;

/* Pins itself, and answers. */
AW_ASYNC(int, echo_here, struct echo echo;) {
    AW_BEGIN;
    aw_pin(cx);
    first = pthread_self();
    bench_add(seated, 1);
    while (bench_load(seated) < 2)
        AW_YIELD;
    AW_AWAIT(self->echo, AW_CALL(echo, .pair = &apart, .rounds = ROUNDS_APART));
    AW_RETURN(0);
    AW_END;
}

/* Yields until another worker runs it, pins itself, and calls. */
AW_ASYNC(int, call_elsewhere, struct call call;) {
    AW_BEGIN;
    while (!bench_load(seated) || (bench_workers > 1 && pthread_equal(first, pthread_self())))
        AW_YIELD;
    aw_pin(cx);
    bench_add(seated, 1);
    start = bench_now();
    AW_AWAIT(self->call, AW_CALL(call, .pair = &apart, .rounds = ROUNDS_APART));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(int, two, struct echo_here *echo; struct call_elsewhere * call;
         aw_task_join_future join;) {
    AW_BEGIN;
    self->echo = aw_spawn(AW_CALL(echo_here));
    self->call = aw_spawn(AW_CALL(call_elsewhere));
    AW_AWAIT(self->join, aw_task_join(self->echo));
    aw_task_drop(self->echo);
    AW_AWAIT(self->join, aw_task_join(self->call));
    aw_task_drop(self->call);
    AW_RETURN(0);
    AW_END;
}

/* ---- Plain threads --------------------------------------------------------------------------- */

static sem_t there, back;

static void *echo_thread(void *arg) {
    for (int i = 0; i < ROUNDS_APART; i++) {
        sem_wait(&there);
        sem_post(&back);
    }
    return arg;
}

static void threads(void) {
    pthread_t thread;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    bench_check(pthread_create(&thread, NULL, echo_thread, NULL) == 0, "a thread");
    uint64_t begin = bench_wall();
    for (int i = 0; i < ROUNDS_APART; i++) {
        sem_post(&there);
        sem_wait(&back);
    }
    bench_report("threads", (double)(bench_wall() - begin) / ROUNDS_APART, "ns");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t begin = bench_now();
    bench_check(bench_run(AW_CALL(many)) == 0, "every notification is answered");
    bench_report_each("many", begin, PAIRS * ROUNDS);

    bench_check(bench_run(AW_CALL(two)) == 0, "every notification is answered across workers");
    bench_report_each("apart", start, ROUNDS_APART);
    if (bench_workers > 1) threads();
}
