/* SPDX-License-Identifier: MIT
 *
 * Tasks that spawn tasks while the loop is polling.
 *
 * A task may call spawn() in its poll, but the list that the loop iterates over must not change. So
 * new tasks go to a second list. That list has a lock, so that any thread may spawn. Two rules:
 *   - The loop does not hold the lock while it polls, or a task that spawns would deadlock.
 *   - It polls new tasks before it sleeps, or it would not know their deadlines.
 *
 * A box holds a future in memory of its own. All boxes have the same size, and a box can move from
 * list to list while its future stays in place.
 *
 * Notice that each job spawns its echo in its first poll, before its first await. */
#include <awake.h>
#include <pthread.h>
#include <stdio.h>

#include "naps.h"

enum { MAX_TASKS = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static aw_box new_tasks[MAX_TASKS];
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
    aw_box tasks[MAX_TASKS], task;
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
