/* SPDX-License-Identifier: MIT
 *
 * A fiber that runs out of stack touches the guard below it, which is a SIGSEGV. The handler here names
 * the fiber before the program ends; it needs a stack to run on, one for each thread. */
#ifndef AW_FIBER_OVERFLOW_H
#define AW_FIBER_OVERFLOW_H

#include "fiber/stack.h"

/* The first and the last thing that a thread does with its pool. */
void aw__overflow_thread_begins(aw__stacks *pool);
void aw__overflow_thread_ends(aw__stacks *pool);

#endif
