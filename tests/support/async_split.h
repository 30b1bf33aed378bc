/* SPDX-License-Identifier: MIT
 *
 * Async functions as a library declares them: the frames are visible, so that callers can embed
 * them; the bodies are in async_split.c. */
#ifndef AWAKE_TEST_ASYNC_SPLIT_H
#define AWAKE_TEST_ASYNC_SPLIT_H

#include <awake.h>

struct split_add {
    AW_FRAME(long);
    int a, b;
    aw_yield pause;
};
AW_ASYNC_DECL(split_add);
#define split_add(...) AW_CALL(split_add, __VA_ARGS__)

/* The output is malloc'ed: free() it. */
struct split_text {
    AW_FRAME(char *);
    int n;
    struct split_add add;
};
AW_ASYNC_DECL(split_text);
#define split_text(...) AW_CALL(split_text, __VA_ARGS__)

#endif
