/* SPDX-License-Identifier: MIT
 *
 * Awaits in a fiber and in an async function: of a future that is ready at once, of an async
 * function that is, and of timeouts around a ready and a yielding future. */
#include "versus.h"

enum { AWAITS = 1000000 };

AW_ASYNC(long, callee, long n;) {
    AW_BEGIN;
    AW_RETURN(self->n);
    AW_END;
}

/* ---- In a fiber ------------------------------------------------------------------------------ */

AW_FIBER(long, ready_fiber) {
    long sum = 0;
    for (int i = 0; i < AWAITS; i++)
        sum += aw_await(aw_ready_now(1));
    return sum;
}

AW_FIBER(long, call_fiber) {
    long sum = 0;
    for (int i = 0; i < AWAITS; i++)
        sum += aw_await(AW_CALL(callee, .n = 1));
    return sum;
}

AW_FIBER(long, timed_ready_fiber) {
    long sum = 0;
    for (int i = 0; i < AWAITS; i++)
        sum += aw_await_for(AW_SEC(30), aw_ready_now(1));
    return sum;
}

AW_FIBER(long, timed_yield_fiber) {
    long sum = 0;
    for (int i = 0; i < AWAITS; i++)
        sum += aw_await_for(AW_SEC(30), aw_yield_now()) == 0;
    return sum;
}

/* ---- In an async function -------------------------------------------------------------------- */

AW_ASYNC(long, ready_async, int i; long sum; aw_ready child;) {
    AW_BEGIN;
    for (self->i = 0; self->i < AWAITS; self->i++) {
        AW_AWAIT(self->child, aw_ready_now(1));
        self->sum += self->child.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, call_async, int i; long sum; struct callee child;) {
    AW_BEGIN;
    for (self->i = 0; self->i < AWAITS; self->i++) {
        AW_AWAIT(self->child, AW_CALL(callee, .n = 1));
        self->sum += self->child.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, timed_ready_async, int i; long sum; AW_TIMEOUT(aw_ready) child;) {
    AW_BEGIN;
    for (self->i = 0; self->i < AWAITS; self->i++) {
        AW_AWAIT_FOR(self->child, AW_SEC(30), aw_ready_now(1));
        self->sum += self->child.inner.out;
    }
    AW_RETURN(self->sum);
    AW_END;
}

AW_ASYNC(long, timed_yield_async, int i; long sum; AW_TIMEOUT(aw_yield) child;) {
    AW_BEGIN;
    for (self->i = 0; self->i < AWAITS; self->i++) {
        AW_AWAIT_FOR(self->child, AW_SEC(30), aw_yield_now());
        self->sum += self->child.out == 0;
    }
    AW_RETURN(self->sum);
    AW_END;
}

#define RUN(name)                                                                                  \
    static void run_##name(void) {                                                                 \
        bench_check(bench_run(AW_CALL(name)) == AWAITS, #name);                                    \
    }
RUN(ready_fiber)
RUN(ready_async)
RUN(call_fiber)
RUN(call_async)
RUN(timed_ready_fiber)
RUN(timed_ready_async)
RUN(timed_yield_fiber)
RUN(timed_yield_async)

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    versus ways[] = {
        {"ready", run_ready_fiber, AWAITS, {0}},
        {"ready-async", run_ready_async, AWAITS, {0}},
        {"call", run_call_fiber, AWAITS, {0}},
        {"call-async", run_call_async, AWAITS, {0}},
        {"timeout-ready", run_timed_ready_fiber, AWAITS, {0}},
        {"timeout-ready-async", run_timed_ready_async, AWAITS, {0}},
        {"timeout-yielding", run_timed_yield_fiber, AWAITS, {0}},
        {"timeout-yielding-async", run_timed_yield_async, AWAITS, {0}},
    };
    versus_report(ways, sizeof ways / sizeof ways[0]);
}
