/* SPDX-License-Identifier: MIT
 *
 * A delay with a thread of its own, first version: one thread per poll.
 *
 * The runtime cannot wake a future that waits for something unknown to it. This delay starts a
 * thread, which sleeps and then wakes a clone of the waker. It works. But a future is polled
 * whenever its task is polled: here also for a sibling that yields ten times. And when the delay is
 * cancelled, its threads keep running.
 *
 * Notice the number of threads for one delay. 33 fixes it. */
#include <awake.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static struct alarm {
    pthread_t thread;
    uint64_t end;
    aw_waker waker;
} alarms[100];
static int alarm_count;

static void *ring(void *arg) {
    struct alarm *alarm = arg;
    struct timespec end = {(time_t)(alarm->end / AW_SEC(1)), (long)(alarm->end % AW_SEC(1))};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    aw_waker_wake(alarm->waker);
    return NULL;
}

struct delay {
    aw_future future;
    int out;
    uint64_t end;
};

static aw_poll delay_poll(aw_future *self, aw_cx *cx) {
    struct delay *delay = (struct delay *)self;
    if (aw_now(NULL) >= delay->end) return AW_READY;
    struct alarm *alarm = &alarms[alarm_count++];
    alarm->end = delay->end;
    alarm->waker = aw_waker_clone(aw_cx_waker(cx));
    delay->out = -pthread_create(&alarm->thread, NULL, ring, alarm);
    if (delay->out == 0) return AW_PENDING;
    aw_waker_drop(alarm->waker);
    alarm_count--;
    return AW_READY;
}

static const aw_future_type delay_type = {AW_TYPE_OF(struct delay, "delay"), .poll = delay_poll};

static struct delay delay_for(uint64_t duration) {
    return (struct delay){.future = AW_FUTURE_INIT(&delay_type), .end = aw_now(NULL) + duration};
}

AW_ASYNC(void, busy, int i;) {
    AW_BEGIN;
    for (self->i = 0; self->i < 10; self->i++)
        AW_YIELD;
    printf("the sibling has ended\n");
    AW_END;
}

AW_ASYNC(int, start, AW_JOIN(struct delay, struct busy) both;) {
    AW_BEGIN;
    AW_AWAIT_JOIN(self->both, delay_for(AW_MSEC(500)), AW_CALL(busy));
    printf("the delay is over: %d\n", self->both.f0.out);
    AW_RETURN(self->both.f0.out);
    AW_END;
}

int main(void) {
    int error = aw_run(AW_CALL(start));
    for (int i = 0; i < alarm_count; i++)
        pthread_join(alarms[i].thread, NULL);
    printf("threads: %d\n", alarm_count);
    return error;
}
