/* SPDX-License-Identifier: MIT
 *
 * Tasks that begin other tasks, while the loop is polling.
 *
 * A task that is being polled may call spawn(), so the list that the loop walks must not change under
 * it. New tasks go to a second list. It has a lock, so that any thread could spawn, and there are two
 * things to get right:
 *   - the loop does not hold the lock while it polls, or a task that spawns would wait for ever;
 *   - it polls new tasks before it sleeps, or it would not know when to wake up for them.
 *
 * A box holds a future in memory of its own. So boxes are all of one size, whatever is in them, and a
 * box can move from list to list while the future inside stays where it is.
 *
 * Notice that each job spawns its echo before its own first await, in the very poll that the loop makes
 * of a new task. */
#include <awake.h>
#include <pthread.h>
#include <stdio.h>

#include "naps.h"

enum { MOST = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static aw_box new_tasks[MOST];
static int new_count, new_taken;

static void spawn(aw_box task) {
    pthread_mutex_lock(&lock);
    new_tasks[new_count++] = task;
    pthread_mutex_unlock(&lock);
}

static bool take_new(aw_box *task) {
    pthread_mutex_lock(&lock);
    bool any = new_taken < new_count;
    if (any)
        *task = new_tasks[new_taken++];
    else
        new_count = new_taken = 0;
    pthread_mutex_unlock(&lock);
    return any;
}

static bool still_pending(aw_box *task, aw_cx *cx) {
    if (aw_future_poll(&task->future, cx) == AW_PENDING) return true;
    aw_box_free(task);
    return false;
}

AW_ASYNC(void, echo, int n; struct nap nap;) {
    AW_BEGIN;
    AW_AWAIT(self->nap, nap_for(AW_MSEC(10 * self->n + 30)));
    printf("echo %d\n", self->n);
    AW_END;
}

AW_ASYNC(void, job, int n; struct nap nap;) {
    AW_BEGIN;
    spawn(aw_box_new(AW_CALL(echo, .n = self->n)));
    AW_AWAIT(self->nap, nap_for(AW_MSEC(10 * self->n)));
    printf("job %d\n", self->n);
    AW_END;
}

AW_ASYNC(void, start) {
    AW_BEGIN;
    for (int n = 1; n <= 3; n++)
        spawn(aw_box_new(AW_CALL(job, .n = n)));
    AW_END;
}

int main(void) {
    aw_waker waker = aw_noop_waker();
    aw_cx cx = aw_cx_from_waker(&waker);
    aw_box tasks[MOST], task;
    int count = 0;

    spawn(aw_box_new(AW_CALL(start)));
    do {
        int pending = 0;
        for (int i = 0; i < count; i++)
            if (still_pending(&tasks[i], &cx)) tasks[pending++] = tasks[i];
        count = pending;
        while (take_new(&task))
            if (still_pending(&task, &cx)) tasks[count++] = task;
    } while (count > 0 && sleep_until_first_nap_ends());
    printf("no task is left\n");
    return 0;
}
