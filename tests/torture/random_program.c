/* SPDX-License-Identifier: MIT
 *
 * Ten thousand random programs of async functions: see support/program.h for what is in them and what
 * holds at their end. And each runs twice, to the same trace; on workers, where there is none, once. */
#include "support/program.h"

static void run_seeds(uint64_t first) {
    for (uint64_t seed = first; seed < first + (uint64_t)test_scale(1000); seed++) {
        uint64_t once = run_once(seed);
        if (!test_on_workers() && once != run_once(seed))
            FAIL("program %llu: two runs differ", (unsigned long long)seed);
    }
}

#define PROGRAMS(n)                                                                                \
    TEST(a_thousand_random_programs_end_balanced_and_repeat_##n) {                                 \
        run_seeds(n##000);                                                                         \
    }
PROGRAMS(1)
PROGRAMS(2)
PROGRAMS(3)
PROGRAMS(4)
PROGRAMS(5)
PROGRAMS(6)
PROGRAMS(7)
PROGRAMS(8)
PROGRAMS(9)

TEST(a_thousand_programs_of_a_random_seed_end_balanced_and_repeat) {
    run_seeds(test_seed() * 1000000);
}
