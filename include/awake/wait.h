/* SPDX-License-Identifier: MIT
 *
 * awake/wait.h: await a future on a plain thread. No runtime is needed.
 *
 *     int n = aw_wait(aw_semaphore_acquire(&s, 1));          blocks this thread
 *     n = aw_wait_for(AW_SEC(1), aw_channel_recv(&c, &v));   -ETIMEDOUT: cancelled after a second
 *
 * In a task, await the future instead, or wait inside aw_block_in_place. A future that needs a
 * runtime (a sleep) uses the one that the thread has entered (aw_enter). */
#ifndef AWAKE_WAIT_H
#define AWAKE_WAIT_H

#include <awake/async.h>
#include <awake/detail/forms.h>
#include <awake/future.h>

AW_C_BEGIN

/*     T   aw_wait(future)                      T is a signed integer: the output or an error
 *     T   aw_wait_for(duration, future)
 *     int aw_wait_into(&out, future)           any output: 0, or an error and `out` untouched
 *     int aw_wait_into_for(duration, &out, future)
 *
 * Errors: -ETIMEDOUT: the time (CLOCK_MONOTONIC) was up and the future was cancelled; if it
 * finishes all the same, you get its output. -ENOMEM. -EPERM inside a task (but see
 * aw_block_in_place). */
#define aw_wait(...)               aw_wait_for(AW_FOREVER, __VA_ARGS__)
#define aw_wait_for(duration, ...) AW__VALUE(aw__waited, AW__WAIT(duration), __VA_ARGS__)
#define aw_wait_into(result, ...)  aw_wait_into_for(AW_FOREVER, result, __VA_ARGS__)
#define aw_wait_into_for(duration, result, ...)                                                    \
    AW__INTO(aw__waited, result, AW__WAIT(duration), __VA_ARGS__)
/* The type-erased form. 0: the future finished, its output is in place. */
AW_API int aw_wait_future(aw_future *f, uint64_t duration);

AW_C_END

#endif
