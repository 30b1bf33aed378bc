/* SPDX-License-Identifier: MIT
 *
 * A million timeouts around a future that is ready at once, and around one that yields and so needs
 * a timer set and cancelled. */
#include "bench.h"

enum { TIMEOUTS = 1000000 };

AW_ASYNC(int, around_ready, int i; int sum; AW_TIMEOUT(aw_ready) t;) {
    AW_BEGIN;
    for (self->i = 0; self->i < TIMEOUTS; self->i++) {
        AW_AWAIT_FOR(self->t, AW_SEC(30), aw_ready_now(1));
        self->sum += self->t.inner.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(int, around_yield, int i; int expired; AW_TIMEOUT(aw_yield) t;) {
    AW_BEGIN;
    for (self->i = 0; self->i < TIMEOUTS; self->i++) {
        AW_AWAIT_FOR(self->t, AW_SEC(30), aw_yield_now());
        self->expired += self->t.out != 0;
    }
    AW_RETURN(self->expired);
    AW_END;
}

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    uint64_t start = bench_now();
    bench_check(bench_run(AW_CALL(around_ready)) == TIMEOUTS, "all are ready");
    bench_report_each("ready", start, TIMEOUTS);

    start = bench_now();
    bench_check(bench_run(AW_CALL(around_yield)) == 0, "none expires");
    bench_report_each("yielding", start, TIMEOUTS);
}
