/* SPDX-License-Identifier: MIT
 *
 * An async function awaits another that is ready at once: the cost of a call that does not wait. */
#include "bench.h"

enum { CALLS = 10000000 };

AW_ASYNC(long, callee, long n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

AW_ASYNC(long, caller, long i; long sum; struct callee call;) {
    AW_BEGIN;
    for (self->i = 0; self->i < CALLS; self->i++) {
        AW_AWAIT(self->call, AW_CALL(callee, .n = self->i));
        self->sum += self->call.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(caller)) == (long)CALLS * (CALLS - 1) / 2, "every call returns");
    bench_report_each("call", start, CALLS);
}
