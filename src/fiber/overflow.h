/* SPDX-License-Identifier: MIT
 *
 * Reports stack overflows. A fiber that runs out of stack accesses the guard below it, which raises
 * SIGSEGV. The handler names the fiber before the program ends. It runs on an alternate stack, one
 * for each thread. */
#ifndef AW_FIBER_OVERFLOW_H
#define AW_FIBER_OVERFLOW_H

#include "fiber/stack.h"

/* Called by a thread after it has created its pool, and before it frees it. */
void aw__overflow_thread_begins(aw__stacks *pool);
void aw__overflow_thread_ends(aw__stacks *pool);

#endif
