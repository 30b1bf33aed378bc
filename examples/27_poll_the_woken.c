/* SPDX-License-Identifier: MIT
 *
 * A better executor: it polls only those tasks that were woken, and sleeps when there are none.
 *
 * Here the task is the waker. It begins with an aw_counted, and to wake it is to put it into the queue
 * of the executor, from whatever thread. It is counted because nobody can say who will hold it last: the
 * executor does until the task has ended, the queue while it is in there, and everyone with a waker.
 *
 * Another thread lets the jobs go on. It also wakes them for nothing before, and long after their end.
 *
 * Notice that neither does any harm, and that each task is released once: with the last waker. */
#include <awake.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The executor ------------------------------------------------------------------------------- */

struct task {
    aw_counted counted; /* first: what a waker of the task points to */
    aw_box future;
    bool queued, ended; /* under the lock */
    struct task *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static struct task *first, *last; /* the queue, under the lock */
static int running;               /* tasks that have not ended */

static void task_wake(aw_counted *self) {
    struct task *task = (struct task *)self;
    pthread_mutex_lock(&lock);
    if (!task->queued && !task->ended) {
        aw_counted_keep(self);
        task->queued = true;
        task->next = NULL;
        if (first)
            last->next = task;
        else
            first = task;
        last = task;
        pthread_cond_signal(&woken);
    }
    pthread_mutex_unlock(&lock);
}

static void task_release(aw_counted *self) {
    printf("a task is released\n");
    free(self);
}

static void spawn(aw_box future) {
    struct task *task = malloc(sizeof *task);
    if (!task) abort();
    *task = (struct task){.future = future};
    aw_counted_init(&task->counted, task_wake, task_release);
    running++;
    task_wake(&task->counted); /* for its first poll */
}

static struct task *take_woken(void) {
    pthread_mutex_lock(&lock);
    while (!first && running > 0)
        pthread_cond_wait(&woken, &lock);
    struct task *task = first;
    if (task) {
        first = task->next;
        task->queued = false; /* a wake from here on asks for another poll */
    }
    pthread_mutex_unlock(&lock);
    return task;
}

static void poll_task(struct task *task) {
    aw_waker waker = aw_counted_waker(&task->counted);
    aw_cx cx = aw_cx_from_waker(&waker);
    if (aw_future_poll(&task->future.future, &cx) == AW_PENDING) return;
    aw_box_free(&task->future);
    pthread_mutex_lock(&lock);
    task->ended = true;
    pthread_mutex_unlock(&lock);
    running--;
    aw_counted_drop(&task->counted); /* the executor's reference */
}

static void run(void) {
    for (struct task *task; (task = take_woken());) {
        if (!task->ended) poll_task(task); /* it may have been woken in its last poll */
        aw_counted_drop(&task->counted);   /* the queue's reference */
    }
}

/* ---- What it runs ------------------------------------------------------------------------------- */

enum { JOBS = 3 };

static aw_notify gates[JOBS];
static aw_waker wakers[JOBS]; /* for the other thread */
static sem_t waiting, over;

AW_ASYNC(void, job, int n; aw_notified gate;) {
    AW_BEGIN;
    wakers[self->n] = aw_waker_clone(aw_cx_waker(cx));
    sem_post(&waiting);
    AW_AWAIT(self->gate, aw_notify_wait(&gates[self->n]));
    printf("job %d has ended\n", self->n);
    AW_END;
}

static void *other_thread(void *arg) {
    for (int i = 0; i < JOBS; i++) {
        sem_wait(&waiting);
        aw_waker_wake_by_ref(&wakers[i]); /* for nothing: its gate is shut */
        aw_notify_one(&gates[i]);
    }
    sem_wait(&over);
    for (int i = 0; i < JOBS; i++)
        aw_waker_wake(wakers[i]); /* too late */
    return arg;
}

int main(void) {
    pthread_t thread;
    sem_init(&waiting, 0, 0);
    sem_init(&over, 0, 0);
    if (pthread_create(&thread, NULL, other_thread, NULL)) return EXIT_FAILURE;
    for (int i = 0; i < JOBS; i++)
        spawn(aw_box_new(AW_CALL(job, .n = i)));
    run();
    printf("all jobs have ended\n");
    sem_post(&over);
    pthread_join(thread, NULL);
    return EXIT_SUCCESS;
}
