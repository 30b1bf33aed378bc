/* SPDX-License-Identifier: MIT
 *
 * Fibers as a library declares them: the frames are visible, so that callers can embed them; the
 * bodies are in fiber_split.c. */
#ifndef AWAKE_TEST_FIBER_SPLIT_H
#define AWAKE_TEST_FIBER_SPLIT_H

#include <awake.h>

struct split_sum {
    AW_FIBER_FRAME(long);
    int a, b;
};
AW_FIBER_DECL(split_sum);
#define split_sum(...) AW_CALL(split_sum, __VA_ARGS__)

/* The output is malloc'ed: free() it. `mark` may be NULL; otherwise it is malloc'ed, too, and
 * the fiber frees it, even if it never starts. */
struct split_line {
    AW_FIBER_FRAME(char *);
    int n;
    char *mark;
};
AW_FIBER_DECL(split_line);
#define split_line(...) AW_CALL(split_line, __VA_ARGS__)

#endif
