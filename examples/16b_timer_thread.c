/* SPDX-License-Identifier: MIT
 *
 * A sleep written by hand, fourth attempt: one timer thread for all sleeps, with a queue.
 *
 * A poll inserts the delay, with a clone of its waker, into a queue that is sorted by deadline. The
 * thread sleeps until the first deadline, removes that delay and wakes it. A new first entry
 * unparks the thread. This implementation is sound. The library's own sleep needs no second thread:
 * when the runtime's thread has nothing to run, it waits for the first timer itself.
 *
 * Notice cancel: it removes the delay from the queue, so the frame may go away afterwards. So the
 * queue can link the delays themselves, without allocating. */
#include <awake.h>
#include <pthread.h>
#include <stdio.h>

struct delay {
    aw_future future;
    int out;
    uint64_t until;
    struct delay *next; /* `next` and `waker` are protected by the lock */
    aw_waker waker;     /* empty while the delay is not in the queue */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct delay *queue;
static aw_parker *parker; /* the thread sleeps here */

static void *timer_thread(void *unused) {
    for (;;) { /* until the program exits */
        pthread_mutex_lock(&lock);
        uint64_t until = queue ? queue->until : AW_FOREVER;
        aw_waker due = {NULL, NULL};
        if (aw_now(NULL) >= until) {
            due = aw_waker_take(&queue->waker);
            queue = queue->next;
        }
        pthread_mutex_unlock(&lock);
        if (due.type)
            aw_waker_wake(due);
        else
            aw_parker_park_until(parker, until);
    }
    return unused;
}

static void leave_queue(struct delay *delay) {
    struct delay **at = &queue;
    while (*at != delay)
        at = &(*at)->next;
    *at = delay->next;
    aw_waker_drop(aw_waker_take(&delay->waker));
}

static void enter_queue(struct delay *delay, const aw_waker *waker) {
    struct delay **at = &queue;
    while (*at && (*at)->until <= delay->until)
        at = &(*at)->next;
    delay->next = *at;
    delay->waker = aw_waker_clone(waker);
    *at = delay;
    if (queue == delay) aw_parker_unpark(parker);
}

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    struct delay *delay = (struct delay *)self;
    bool over = aw_now(NULL) >= delay->until;
    pthread_mutex_lock(&lock);
    if (delay->waker.type) leave_queue(delay);
    if (!over) enter_queue(delay, aw_cx_waker(cx));
    pthread_mutex_unlock(&lock);
    return over ? AW_READY : AW_PENDING;
}

static aw_poll delay_cancel(aw_future *self, aw_cx *cx) {
    struct delay *delay = (struct delay *)self;
    (void)cx;
    pthread_mutex_lock(&lock);
    if (delay->waker.type) leave_queue(delay);
    pthread_mutex_unlock(&lock);
    return AW_CANCELLED;
}

static const aw_future_type delay_type = {
    AW_TYPE_OF(struct delay, "delay"),
    .poll = delay_poll,
    .cancel = delay_cancel,
};

static struct delay delay_for(uint64_t duration) {
    return (struct delay){.future = AW_FUTURE_INIT(&delay_type), .until = aw_now(NULL) + duration};
}

AW_ASYNC(void, job, int n; struct delay nap;) {
    AW_BEGIN;
    printf("start %d\n", self->n);
    AW_AWAIT(self->nap, delay_for(AW_MSEC(600 - 100 * self->n)));
    printf("end %d\n", self->n);
    AW_END;
}

int main(void) {
    struct job jobs[5];
    for (int i = 0; i < 5; i++)
        jobs[i] = AW_CALL(job, .n = i + 1);

    pthread_t thread;
    if (!(parker = aw_parker_new()) || pthread_create(&thread, NULL, timer_thread, NULL)) return 1;
    pthread_detach(thread);
    return aw_run(aw_join_all(jobs, 5));
}
