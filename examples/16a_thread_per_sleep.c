/* SPDX-License-Identifier: MIT
 *
 * A sleep written by hand, third attempt: one thread per sleep, which sleeps and then wakes.
 *
 * The first poll starts the thread and stores a clone of the waker. A clone may be kept, and woken
 * from any thread. If a later poll has a different waker, it replaces the stored one. Threads are
 * expensive, so their number is limited. The kernel may also refuse to create one. Each failure
 * ends only one sleep, with an error in its `out`.
 *
 * Notice that the program continues after both kinds of failure. Cancelling takes as long as
 * sleeping: the thread uses the frame, so cancel returns AW_PENDING until the thread is done. */
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
    bool over;      /* `over` and `waker` are shared with the thread, under the lock */
    aw_waker waker; /* a clone of the waker of the latest poll */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_attr_t attributes;
static int threads; /* not locked: all polls are on one thread */
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
        pthread_join(delay->thread, NULL); /* the thread is about to return */
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
    printf("job %d: %s\n", self->n, self->nap.out ? strerror(-self->nap.out) : "slept");
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
    printf("six jobs, limited to four threads:\n");
    int error = run_jobs();

    printf("six jobs, each thread with a stack of 2^60 bytes:\n");
    pthread_attr_setstacksize(&attributes, (size_t)1 << 60);
    if (!error) error = run_jobs();
    pthread_attr_destroy(&attributes);
    return error;
}
