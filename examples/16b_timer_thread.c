/* SPDX-License-Identifier: MIT
 *
 * A sleep of one's own, fourth attempt: one thread for all, fed by a queue.
 *
 * A poll puts the delay into a queue, first to wake in front, with a clone of its waker. The thread
 * sleeps until the first is due, takes it out and wakes it; a new one in front makes it look again.
 * This is a good sleep. The library's own needs no second thread: the runtime's thread, which has
 * nothing to do just then, waits for the first timer itself.
 *
 * Notice cancel: after it the queue knows nothing of the delay, so its frame may go away. That is
 * why the queue can be made of the delays themselves, without allocating anything. */
#include <awake.h>
#include <pthread.h>
#include <stdio.h>

struct delay {
    aw_future future;
    int out;
    uint64_t until;
    struct delay *next; /* from here on under the lock */
    aw_waker waker;     /* none: not in the queue */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct delay *queue;
static aw_parker *parker; /* what the thread sleeps on */

static void *timer_thread(void *unused) {
    for (;;) { /* as long as the program lives */
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
