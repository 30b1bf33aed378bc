/* SPDX-License-Identifier: MIT
 *
 * Locks: acquired and released by one task without contention; and by four tasks that contend for
 * one lock, and yield while they hold it. */
#include "bench.h"

enum { FREE = 5000000, WANTED = 200000, TASKS = 4 };

static aw_mutex mutex = AW_MUTEX_INIT;
static aw_semaphore semaphore = AW_SEMAPHORE_INIT(1);
static aw_rwlock rwlock = AW_RWLOCK_INIT;
static long inside, times;

/* ---- Free ------------------------------------------------------------------------------------ */

/* For a lock: the type of its future, and the calls that acquire and release it. */
#define LOCK(name, future, take, give)                                                             \
    AW_ASYNC(int, name##_free, int n; future lock;) {                                              \
        AW_BEGIN;                                                                                  \
        for (self->n = 0; self->n < FREE; self->n++) {                                             \
            AW_AWAIT(self->lock, take);                                                            \
            give;                                                                                  \
        }                                                                                          \
        AW_RETURN(self->n);                                                                        \
        AW_END;                                                                                    \
    }

LOCK(mutex, aw_mutex_lock_future, aw_mutex_lock(&mutex), aw_mutex_unlock(&mutex))
LOCK(semaphore, aw_acquire, aw_semaphore_acquire(&semaphore, 1),
     aw_semaphore_release(&semaphore, 1))
LOCK(read, aw_rwlock_future, aw_rwlock_read(&rwlock), aw_rwlock_read_unlock(&rwlock))
LOCK(write, aw_rwlock_future, aw_rwlock_write(&rwlock), aw_rwlock_write_unlock(&rwlock))

/* ---- Contended ------------------------------------------------------------------------------- */

typedef enum kind { MUTEX, SEMAPHORE, WRITE } kind;

static void give_back(kind kind) {
    if (kind == MUTEX) aw_mutex_unlock(&mutex);
    if (kind == SEMAPHORE) aw_semaphore_release(&semaphore, 1);
    if (kind == WRITE) aw_rwlock_write_unlock(&rwlock);
}

AW_ASYNC(int, wants, kind kind; int n; AW_SHARE(aw_mutex_lock_future lock; aw_acquire acquire;);) {
    AW_BEGIN;
    for (self->n = 0; self->n < WANTED; self->n++) {
        if (self->kind == MUTEX)
            AW_AWAIT(self->lock, aw_mutex_lock(&mutex));
        else if (self->kind == SEMAPHORE)
            AW_AWAIT(self->acquire, aw_semaphore_acquire(&semaphore, 1));
        else
            AW_AWAIT(self->acquire, aw_rwlock_write(&rwlock));
        bench_check(bench_add(inside, 1) == 1, "one at a time");
        AW_YIELD;
        times++;
        bench_add(inside, -1);
        give_back(self->kind);
    }
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(long, all_want, kind kind; int n; struct wants * tasks[TASKS]; aw_task_join_future join;) {
    AW_BEGIN;
    times = 0;
    for (int i = 0; i < TASKS; i++)
        self->tasks[i] = aw_spawn(AW_CALL(wants, .kind = self->kind));
    for (self->n = 0; self->n < TASKS; self->n++) {
        AW_AWAIT(self->join, aw_task_join(self->tasks[self->n]));
        aw_task_drop(self->tasks[self->n]);
    }
    AW_RETURN(times);
    AW_END;
}

static void measure_wanted(kind kind, const char *name) {
    uint64_t start = bench_now();
    long turns = bench_run(AW_CALL(all_want, .kind = kind));
    bench_check(turns == (long)TASKS * WANTED, "every lock is acquired");
    bench_report_each(name, start, (double)turns);
}

#define MEASURE_FREE(name)                                                                         \
    start = bench_now();                                                                           \
    bench_check(bench_run(AW_CALL(name##_free)) == FREE, "every lock is acquired");                \
    bench_report_each(#name "-free", start, FREE)

int main(int argc, char **argv) {
    uint64_t start;
    bench_begin(argc, argv);
    MEASURE_FREE(mutex);
    MEASURE_FREE(semaphore);
    MEASURE_FREE(read);
    MEASURE_FREE(write);
    measure_wanted(MUTEX, "mutex-wanted");
    measure_wanted(SEMAPHORE, "semaphore-wanted");
    measure_wanted(WRITE, "write-wanted");
}
