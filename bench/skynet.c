/* SPDX-License-Identifier: MIT
 *
 * A tree of tasks: ten children each, down to a million leaves. A leaf returns its number; every
 * other task returns the sum of its children. */
#include "bench.h"

enum { LEAVES = 1000000, CHILDREN = 10 };

AW_ASYNC(long, node, long first; long leaves; int i; long sum; struct node * children[CHILDREN];
         aw_task_join_future join;) {
    AW_BEGIN;
    if (self->leaves == 1) AW_RETURN(self->first);
    for (int i = 0; i < CHILDREN; i++) {
        long part = self->leaves / CHILDREN;
        self->children[i] = aw_spawn(
            AW_CALL(node, .first = self->first + i * part, .leaves = part));
    }
    for (self->i = 0; self->i < CHILDREN; self->i++) {
        AW_AWAIT(self->join, aw_task_join(self->children[self->i]));
        self->sum += aw_task_take(self->children[self->i]);
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(node, .leaves = LEAVES)) == (long)LEAVES * (LEAVES - 1) / 2,
                "the sum");
    bench_report("tree", (double)(bench_now() - start) / 1e6, "ms");
}
