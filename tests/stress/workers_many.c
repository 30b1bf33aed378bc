/* SPDX-License-Identifier: MIT
 *
 * Makes and ends ten thousand runtimes with workers, with everything that a runtime may contain.
 * None of them leaves a thread, a descriptor or memory behind. */
#include "support/workers.h"

/* Resident pages of this process. */
static size_t pages(void) {
    size_t n = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%*u %zu", &n) == 1);
    fclose(f);
    return n;
}

static long call(void *arg) {
    ADD(*(uint32_t *)arg, 1);
    return 0;
}

AW_FIBER(int, naps, uint32_t *ends;) {
    aw_await(aw_sleep_for(AW_USEC(1)));
    ADD(*self->ends, 1);
    return 0;
}

enum what { NOTHING, TASKS, WAITING, TIMERS, FIBERS, CALLS, MAIN, BACKGROUND, KINDS };

static void make_and_end(enum what what, uint32_t workers, memory *m) {
    uint32_t ends = 0;
    gate g = GATE;
    aw_runtime *rt = workers_new(workers, m, NULL);
    switch (what) {
    case TASKS:
        for (int i = 0; i < 5; i++)
            CHECK_EQ(RUN(rt, rounds(i)), 0);
        break;
    case WAITING: aw_task_drop(aw_spawn_on(rt, through(&g))); break;
    case TIMERS:
        CHECK_EQ(RUN(rt, aw_sleep_for(AW_USEC(1))), 0);
        aw_task_drop(aw_spawn_on(rt, aw_sleep_for(AW_SEC(3600))));
        break;
    case FIBERS:
        CHECK_EQ(RUN(rt, AW_CALL(naps, .ends = &ends)), 0);
        CHECK_EQ(ends, 1);
        break;
    case CALLS:
        CHECK_EQ(RUN(rt, aw_blocking(call, &ends)), 0);
        CHECK_EQ(ends, 1);
        break;
    case MAIN: CHECK_EQ(aw_block_on(rt, rounds(2)), 0); break;
    default: break;
    }
    if (what == BACKGROUND) {
        aw_task_drop(aw_spawn_on(rt, through(&g)));
        aw_runtime_abandon(rt);
    } else {
        aw_runtime_free(rt);
    }
    WAIT_UNTIL(memory_in_use(m) == 0); /* a thread that is not joined may free the last of it */
    CHECK_EQ(g.ends, what == WAITING || what == BACKGROUND);
}

TEST_LIMIT(ten_thousand_runtimes_leave_nothing_behind, 300) {
    int count = test_scale(10000);
    size_t threads = 0, files = 0, before = 0;
    for (int i = 0; i < count; i++) {
        memory m;
        make_and_end((enum what)(i % KINDS), 1 + (uint32_t)(i / KINDS) % 4, &m);
        if (i != 8 * KINDS) continue; /* by now, all that stays for good is allocated */
        threads = entries("/proc/self/task");
        files = entries("/proc/self/fd");
        before = pages();
    }
    WAIT_UNTIL(entries("/proc/self/task") <= threads); /* threads that are not joined end soon */
    CHECK_EQ(entries("/proc/self/fd"), files);
    /* The C library keeps some memory of threads. A page for each runtime would be more than ten
     * times that. */
    printf("%zu pages before, %zu after\n", before, pages());
    if (!test_under_sanitizer() && !test_under_valgrind()) CHECK_LT(pages(), before + 1000);
}
