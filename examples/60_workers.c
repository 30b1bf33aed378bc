/* SPDX-License-Identifier: MIT
 *
 * Worker threads: the same tasks, run by as many threads as there are processors.
 *
 * Nothing in a task says on which thread it runs, and after each await it may be another thread. A
 * spawned task goes to the queue of the worker that spawns it. A worker with an empty queue steals
 * half of another one's. So a tree of tasks that starts on one worker soon keeps all of them busy.
 *
 * Notice that the tasks share no data: each has its own frame, and passes its sum to the task that
 * joins it. */
#include <awake.h>
#include <stdio.h>

enum { LEAF = 1000 };

static long count_primes(long from, long to) {
    long found = 0;
    for (long n = from < 2 ? 2 : from; n < to; n++) {
        long d = 2;
        while (d * d <= n && n % d)
            d++;
        found += d * d > n;
    }
    return found;
}

/* Splits the range into two tasks until it is small. */
struct primes {
    AW_FRAME(long);
    long from, to;
    struct primes *low, *high;
    aw_task_join_future join;
};
AW_ASYNC_STATIC(primes) {
    AW_BEGIN;
    if (self->to - self->from <= LEAF) AW_RETURN(count_primes(self->from, self->to));
    {
        long middle = self->from + (self->to - self->from) / 2;
        self->low = aw_spawn(AW_CALL(primes, .from = self->from, .to = middle));
        self->high = aw_spawn(AW_CALL(primes, .from = middle, .to = self->to));
    }
    AW_AWAIT(self->join, aw_task_join(self->low));
    if (self->join.out) AW_RETURN(self->join.out);
    AW_AWAIT(self->join, aw_task_join(self->high));
    if (self->join.out) AW_RETURN(self->join.out);
    AW_RETURN(self->low->out + self->high->out);
    AW_FINALLY;
    if (self->low) aw_task_drop(self->low);
    if (self->high) aw_task_drop(self->high);
    AW_END;
}

int main(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.flavour = AW_MULTI_THREAD;
    int error = aw_runtime_new(&rt, &options);
    if (error) return 1;

    struct primes *all = aw_spawn_on(rt, AW_CALL(primes, .from = 0, .to = 200000));
    error = aw_block_on(rt, aw_task_join(all));
    if (!error) printf("%ld primes below 200000\n", all->out);
    aw_task_drop(all);

    uint64_t polls = 0;
    for (uint32_t i = 0; i < aw_runtime_workers(rt); i++) {
        aw_worker_counters c;
        aw_runtime_counters(rt, i, &c);
        polls += c.polls;
    }
    printf("%s\n",
           polls >= 511 ? "each task was polled at least once" : "some tasks were not polled");
    aw_runtime_free(rt);
    return error != 0;
}
