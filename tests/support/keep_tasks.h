/* SPDX-License-Identifier: MIT
 *
 * A runtime that keeps its tasks from one block_on to the next. */
#ifndef AWAKE_TEST_KEEP_TASKS_H
#define AWAKE_TEST_KEEP_TASKS_H

#include <awake.h>

#include "test.h"

static inline aw_runtime *keep_tasks_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.keep_tasks = true;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

#endif
