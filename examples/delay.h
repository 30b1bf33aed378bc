/* SPDX-License-Identifier: MIT
 *
 * A delay with a thread of its own, used by 33 and 34.
 *
 * The first poll starts the thread. The delay and the thread share an alarm, in which each poll
 * stores its waker for the thread. The alarm has a mutex and two references; the last reference
 * frees it. A cancelled delay takes its waker back, so the thread wakes nothing.
 *
 * The delay points to the alarm, and nothing points to the delay. So it may be moved between polls,
 * and its type has the flag AW_UNPIN. */
#ifndef DELAY_H
#define DELAY_H

#include <awake.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct alarm {
    pthread_mutex_t lock;
    int references;
    uint64_t end;
    bool rang;
    aw_waker waker;
};

struct delay {
    aw_future future;
    int out; /* 0, or a negative errno: no memory, no thread */
    uint64_t end;
    struct alarm *alarm;
};

static int delay_polls, delay_threads;

static void alarm_unref(struct alarm *alarm) {
    pthread_mutex_lock(&alarm->lock);
    bool last = --alarm->references == 0;
    pthread_mutex_unlock(&alarm->lock);
    if (last) free(alarm);
}

static void *ring(void *arg) {
    struct alarm *alarm = arg;
    struct timespec end = {(time_t)(alarm->end / AW_SEC(1)), (long)(alarm->end % AW_SEC(1))};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    pthread_mutex_lock(&alarm->lock);
    alarm->rang = true;
    aw_waker waker = aw_waker_take(&alarm->waker);
    pthread_mutex_unlock(&alarm->lock);
    if (waker.type) aw_waker_wake(waker); /* outside the lock: a wake may run any code */
    alarm_unref(alarm);
    return NULL;
}

static int start_thread(struct delay *delay) {
    struct alarm *alarm = malloc(sizeof *alarm);
    if (!alarm) return -ENOMEM;
    *alarm = (struct alarm){.lock = PTHREAD_MUTEX_INITIALIZER, .references = 2, .end = delay->end};
    pthread_t thread;
    int error = pthread_create(&thread, NULL, ring, alarm);
    if (error) {
        free(alarm);
        return -error;
    }
    pthread_detach(thread);
    delay->alarm = alarm;
    delay_threads++;
    return 0;
}

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    struct delay *delay = (struct delay *)self;
    delay_polls++;
    if (!delay->alarm && (delay->out = start_thread(delay)) < 0) return AW_READY;
    struct alarm *alarm = delay->alarm;
    pthread_mutex_lock(&alarm->lock);
    bool rang = alarm->rang;
    if (!rang) aw_waker_set(&alarm->waker, aw_cx_waker(cx)); /* clones only a different waker */
    pthread_mutex_unlock(&alarm->lock);
    if (!rang) return AW_PENDING;
    alarm_unref(alarm);
    return AW_READY;
}

static aw_poll delay_cancel(aw_future *self, aw_cx *cx) {
    struct alarm *alarm = ((struct delay *)self)->alarm;
    (void)cx;
    if (!alarm) return AW_CANCELLED;
    pthread_mutex_lock(&alarm->lock);
    aw_waker waker = aw_waker_take(&alarm->waker);
    pthread_mutex_unlock(&alarm->lock);
    if (waker.type) aw_waker_drop(waker);
    alarm_unref(alarm);
    return AW_CANCELLED;
}

static const aw_future_type delay_type = {
    AW_TYPE_OF(struct delay, "delay"),
    .flags = AW_UNPIN,
    .poll = delay_poll,
    .cancel = delay_cancel,
};

static inline struct delay delay_for(uint64_t duration) {
    return (struct delay){.future = AW_FUTURE_INIT(&delay_type), .end = aw_now(NULL) + duration};
}

#endif
