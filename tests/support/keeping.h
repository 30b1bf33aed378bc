/* SPDX-License-Identifier: MIT
 *
 * A runtime whose tasks go on from one block_on to the next. */
#ifndef AWAKE_TEST_KEEPING_H
#define AWAKE_TEST_KEEPING_H

#include <awake.h>

#include "test.h"

static inline aw_runtime *keeping_runtime(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.keep_tasks = true;
    CHECK_EQ(aw_runtime_new(&rt, &options), 0);
    return rt;
}

#endif
