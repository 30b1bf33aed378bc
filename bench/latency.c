/* SPDX-License-Identifier: MIT
 *
 * All threads of a runtime sleep, and a foreign thread notifies a task: the time until the task
 * runs. For comparison, a thread in pthread_cond_wait that is signalled. */
#include "bench.h"

#include <pthread.h>

enum { TIMES = 250 };

/* Longer than any thread of the runtime stays awake without work. */
static const struct timespec quiet = {0, 8000000};

static aw_notify ring = AW_NOTIFY_INIT;
static uint64_t rung;
static double late[TIMES];

static void *foreign(void *arg) {
    (void)arg;
    for (int i = 0; i < TIMES; i++) {
        nanosleep(&quiet, NULL);
        rung = bench_wall();
        aw_notify_one(&ring);
    }
    return NULL;
}

AW_ASYNC(int, sleeper, int n; aw_notified wait;) {
    AW_BEGIN;
    for (self->n = 0; self->n < TIMES; self->n++) {
        AW_AWAIT(self->wait, aw_notify_wait(&ring));
        late[self->n] = (double)(bench_wall() - rung) / 1e3;
    }
    AW_RETURN(0);
    AW_END;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int rings;

static void *plain(void *arg) {
    (void)arg;
    for (int i = 0; i < TIMES; i++) {
        nanosleep(&quiet, NULL);
        pthread_mutex_lock(&lock);
        rings++;
        rung = bench_wall();
        pthread_mutex_unlock(&lock);
        pthread_cond_signal(&changed);
    }
    return NULL;
}

static void plain_sleeper(void) {
    for (int i = 0; i < TIMES; i++) {
        pthread_mutex_lock(&lock);
        while (rings <= i)
            pthread_cond_wait(&changed, &lock);
        late[i] = (double)(bench_wall() - rung) / 1e3;
        pthread_mutex_unlock(&lock);
    }
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    pthread_t thread;
    bench_check(pthread_create(&thread, NULL, foreign, NULL) == 0, "a thread");
    bench_check(bench_run(AW_CALL(sleeper)) == 0, "every notification arrives");
    pthread_join(thread, NULL);
    bench_report("median", bench_quantile(late, TIMES, 0.5), "us");
    bench_report("p99", bench_quantile(late, TIMES, 0.99), "us");

    if (bench_workers) return 0; /* the rest does not depend on the workers */
    bench_check(pthread_create(&thread, NULL, plain, NULL) == 0, "a thread");
    plain_sleeper();
    pthread_join(thread, NULL);
    bench_report("thread-median", bench_quantile(late, TIMES, 0.5), "us");
    bench_report("thread-p99", bench_quantile(late, TIMES, 0.99), "us");
}
