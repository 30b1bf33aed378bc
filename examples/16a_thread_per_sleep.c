/* SPDX-License-Identifier: MIT
 *
 * A sleep of one's own, third attempt: a thread for each, which sleeps and then wakes.
 *
 * The first poll starts the thread and leaves it a clone of the waker, which may be kept, and woken
 * from any thread. A later poll may bring another waker; then that one counts. Threads are dear, so
 * there is a bound; and the system may refuse one as well. Either is an error of that one sleep, in
 * its `out`.
 *
 * Notice that the program goes on after both kinds of failure. And that cancelling takes as long as
 * sleeping: the thread uses the frame, so until it is done cancel answers AW_PENDING. */
#include <awake.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct delay {
    aw_future future;
    int out;
    pthread_t thread;
    bool over;      /* these two are shared with the thread, under the lock */
    aw_waker waker; /* a clone of the latest poll's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_attr_t attributes;
static int threads; /* counted by polls, which are all on one thread */
enum { MAX_THREADS = 4 };

static void *sleep_and_wake(void *arg) {
    struct delay *delay = arg;
    usleep(100 * 1000);
    pthread_mutex_lock(&lock);
    delay->over = true;
    aw_waker waker = aw_waker_take(&delay->waker);
    pthread_mutex_unlock(&lock);
    aw_waker_wake(waker);
    return NULL;
}

static int start_thread(struct delay *delay) {
    if (threads == MAX_THREADS) return -EAGAIN;
    int error = pthread_create(&delay->thread, &attributes, sleep_and_wake, delay);
    if (!error) threads++;
    return -error;
}

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    struct delay *delay = (struct delay *)self;
    pthread_mutex_lock(&lock);
    bool over = delay->over, first = !delay->waker.type;
    if (!over) aw_waker_set(&delay->waker, aw_cx_waker(cx));
    pthread_mutex_unlock(&lock);
    if (over) {
        pthread_join(delay->thread, NULL); /* it has nothing left to do */
        threads--;
        return AW_READY;
    }
    if (first) delay->out = start_thread(delay);
    if (delay->out == 0) return AW_PENDING;
    aw_waker_drop(aw_waker_take(&delay->waker));
    return AW_READY;
}

static aw_poll delay_cancel(aw_future *self, aw_cx *cx) {
    return aw_future_started(self) ? delay_poll(self, cx) : AW_CANCELLED;
}

static const aw_future_type delay_type = {
    AW_TYPE_OF(struct delay, "delay"),
    .poll = delay_poll,
    .cancel = delay_cancel,
};

AW_ASYNC(void, job, int n; struct delay nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, (struct delay){.future = AW_FUTURE_INIT(&delay_type)});
    printf("job %d: %s\n", self->n, self->nap.out ? strerror(-self->nap.out) : "has slept");
    AW_END;
}

static int run_jobs(void) {
    struct job jobs[6];
    for (int i = 0; i < 6; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);
    return aw_run(aw_join_all(jobs, 6));
}

int main(void) {
    pthread_attr_init(&attributes);
    printf("six jobs, at most four threads:\n");
    int error = run_jobs();

    printf("six jobs, each thread with a stack that no system has:\n");
    pthread_attr_setstacksize(&attributes, (size_t)1 << 60);
    if (!error) error = run_jobs();
    pthread_attr_destroy(&attributes);
    return error;
}
