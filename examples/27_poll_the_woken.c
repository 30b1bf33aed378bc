/* SPDX-License-Identifier: MIT
 *
 * A better executor: it polls only tasks that were woken, and sleeps when there are none.
 *
 * Here the task is the waker. It begins with an aw_counted. Waking it appends it to the executor's
 * queue, from any thread. The task is reference counted, because any holder may be the last: the
 * executor holds a reference until the task has ended, the queue while the task is queued, and so
 * does each waker.
 *
 * Another thread lets the jobs continue. It also wakes them without a reason, and after their end.
 *
 * Notice that these wakes do no harm, and that each task is freed once, with its last waker. */
#include <awake.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The executor ---------------------------------------------------------------------------- */

struct task {
    aw_counted counted; /* first member: a waker of the task points to it */
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

static void task_free(aw_counted *self) {
    printf("a task is freed\n");
    free(self);
}

static void spawn(aw_box future) {
    struct task *task = malloc(sizeof *task);
    if (!task) abort();
    *task = (struct task){.future = future};
    aw_counted_init(&task->counted, task_wake, task_free);
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
        task->queued = false; /* from here on a wake requests another poll */
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

/* ---- The tasks ------------------------------------------------------------------------------- */

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
        aw_waker_wake_by_ref(&wakers[i]); /* spurious: its gate is still closed */
        aw_notify_one(&gates[i]);
    }
    sem_wait(&over);
    for (int i = 0; i < JOBS; i++)
        aw_waker_wake(wakers[i]); /* the task has ended */
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
