/* SPDX-License-Identifier: MIT
 *
 * A thousand children that return at once, a thousand times: in a scope, in a join set, and spawned
 * and joined one by one. */
#include "bench.h"

enum { CHILDREN = 1000, ROUNDS = 1000 };

AW_ASYNC(int, child, long *into; long n;) {
    AW_BEGIN;
    *self->into = self->n;
    AW_RETURN(0);
    AW_END;
}

static long sum_of(const long *values) {
    long sum = 0;
    for (int i = 0; i < CHILDREN; i++)
        sum += values[i];
    return sum;
}

AW_ASYNC(int, children, aw_scope *scope; long *values;) {
    AW_BEGIN;
    for (int i = 0; i < CHILDREN; i++)
        aw_scope_spawn(self->scope, AW_CALL(child, .into = &self->values[i], .n = i));
    AW_RETURN(0);
    AW_END;
}

AW_ASYNC(long, in_scopes, long *values; int round; long sum; AW_SCOPE(struct children) s;) {
    AW_BEGIN;
    for (self->round = 0; self->round < ROUNDS; self->round++) {
        AW_AWAIT_SCOPE(self->s, AW_CALL(children, .values = self->values));
        self->sum += sum_of(self->values);
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, in_sets, long *values; int round; long sum; aw_join_set set; struct child * task;
         aw_join_set_next_future next;) {
    AW_BEGIN;
    for (self->round = 0; self->round < ROUNDS; self->round++) {
        for (int i = 0; i < CHILDREN; i++)
            aw_join_set_spawn(&self->set, AW_CALL(child, .into = &self->values[i], .n = i));
        for (;;) {
            AW_AWAIT(self->next, aw_join_set_next(&self->set, &self->task));
            if (!self->task) break;
            aw_task_drop(self->task);
        }
        self->sum += sum_of(self->values);
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, joined, long *values; struct child * *tasks; int round, i; long sum;
         aw_task_join_future join;) {
    AW_BEGIN;
    for (self->round = 0; self->round < ROUNDS; self->round++) {
        for (int i = 0; i < CHILDREN; i++)
            self->tasks[i] = aw_spawn(AW_CALL(child, .into = &self->values[i], .n = i));
        for (self->i = 0; self->i < CHILDREN; self->i++) {
            AW_AWAIT(self->join, aw_task_join(self->tasks[self->i]));
            aw_task_drop(self->tasks[self->i]);
        }
        self->sum += sum_of(self->values);
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    static long values[CHILDREN];
    static struct child *tasks[CHILDREN];
    bench_begin(argc, argv);
    const long expected = (long)CHILDREN * (CHILDREN - 1) / 2 * ROUNDS;

    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(in_scopes, .values = values)) == expected, "in scopes");
    bench_report_each("child", start, (double)CHILDREN * ROUNDS);

    start = bench_now();
    bench_check(bench_run(AW_CALL(in_sets, .values = values)) == expected, "in join sets");
    bench_report_each("in-a-set", start, (double)CHILDREN * ROUNDS);

    start = bench_now();
    bench_check(bench_run(AW_CALL(joined, .values = values, .tasks = tasks)) == expected, "joined");
    bench_report_each("joined", start, (double)CHILDREN * ROUNDS);
}
