/* SPDX-License-Identifier: MIT
 *
 * Worker threads: the same tasks, run by as many threads as there are processors.
 *
 * Nothing in a task says on which thread it runs, and after each await it may be another one. What it spawns goes
 * to its own worker first; a worker that has nothing to do takes half of what another one has. So a tree of tasks
 * that begins at one place soon keeps all of them busy.
 *
 * Notice that tasks share nothing here: each has its own frame, and hands its sum to the one that joins it. */
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

/* Two halves are tasks of their own, until there is little left to share. */
AW_ASYNC(long, primes, long from; long to; struct primes * low; struct primes * high;
         aw_task_join_future join;) {
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
    printf("%s\n", polls >= 511 ? "each task was polled at least once" : "some were not");
    aw_runtime_free(rt);
    return error != 0;
}
