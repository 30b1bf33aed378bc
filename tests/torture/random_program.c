/* SPDX-License-Identifier: MIT
 *
 * Ten thousand random programs of async functions. support/random_program.h describes them, and what must
 * hold at their end. Each runs twice, with the same trace; on workers, where there is no trace,
 * once. */
#include "support/random_program.h"

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
