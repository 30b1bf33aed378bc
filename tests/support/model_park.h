/* SPDX-License-Identifier: MIT
 *
 * os/park.c in a model: the real code on the modelled futex. A wait with a deadline may always
 * time out. Include this after model.h. */
#ifndef AWAKE_TEST_MODEL_PARK_H
#define AWAKE_TEST_MODEL_PARK_H

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define syscall(number, word, operation, value, limit, ...)                                        \
    ((operation) == FUTEX_WAKE_PRIVATE ? (void)model_futex_wake(word, value)                       \
                                       : model_futex_wait(word, value, (limit) != NULL))
#define sched_yield()             model_yield()
#define clock_gettime(clock, now) ((void)(*(now) = (struct timespec){0})) /* time stands still */

#include "os/park.c"

#undef syscall
#undef sched_yield
#undef clock_gettime

#endif
