/* SPDX-License-Identifier: MIT
 *
 * The same delay without handling a waker: a thread that sleeps, and an aw_notify.
 *
 * Few futures have to be written by hand. aw_notify stores the waker of the latest poll, and any
 * thread may notify it, before or after a task waits. So the delay can be an async function.
 *
 * Notice AW_FINALLY, which runs on every way out: the thread uses the frame, so it must end before
 * the frame goes away. Cancelling this delay waits for the thread, which cannot be interrupted. */
#include <awake.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct sleeper {
    unsigned msec;
    aw_notify over;
};

static void *sleep_and_notify(void *arg) {
    struct sleeper *sleeper = arg;
    usleep(sleeper->msec * 1000);
    aw_notify_one(&sleeper->over);
    return NULL;
}

struct delay {
    AW_FRAME(int);
    struct sleeper sleeper;
    pthread_t thread;
    bool has_thread;
    aw_notified wait;
};
AW_ASYNC_STATIC(delay) {
    AW_BEGIN;
    self->has_thread = pthread_create(&self->thread, NULL, sleep_and_notify, &self->sleeper) == 0;
    if (!self->has_thread) AW_RETURN(-EAGAIN);
    AW_AWAIT(self->wait, aw_notify_wait(&self->sleeper.over));
    AW_RETURN(0);
    AW_FINALLY;
    if (self->has_thread) pthread_join(self->thread, NULL);
    AW_END;
}

AW_ASYNC(int, start, struct delay delay;) {
    AW_BEGIN;
    printf("start\n");
    AW_AWAIT(self->delay, AW_CALL(delay, .sleeper.msec = 100));
    printf("the delay is over: %d\n", self->delay.out);
    AW_RETURN(self->delay.out);
    AW_END;
}

int main(void) {
    return aw_run(AW_CALL(start));
}
