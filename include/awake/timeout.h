/* SPDX-License-Identifier: MIT
 *
 * awake/timeout.h: cancel any future that takes too long.
 *
 *     AW_ASYNC(int, patient, AW_TIMEOUT(struct fetch) t;) {
 *         AW_BEGIN;
 *         AW_AWAIT_FOR(self->t, AW_SEC(3), AW_CALL(fetch, .url = u));
 *         if (self->t.out == -ETIMEDOUT) ...
 *         AW_RETURN(self->t.inner.out);
 *
 * `out` is
 *
 *   0            the inner future finished, its output is in `inner.out`
 *   -ETIMEDOUT   the inner future was cancelled because the time was up
 *   -ENXIO       it was cancelled because there is no runtime
 *   -ESHUTDOWN   it was cancelled because the runtime of a plain thread ended before the deadline
 *
 * The inner future is polled before the clock is checked: an output that is available counts,
 * however late it is. So a timeout of 0 takes what is available now: the bytes that the kernel has,
 * the message in a channel. When the time is up, the inner future is polled a last time and then
 * cancelled, which may take a while. If it finishes meanwhile, its output counts too. */
#ifndef AWAKE_TIMEOUT_H
#define AWAKE_TIMEOUT_H

#include <awake/async.h>
#include <awake/detail/timeout.h>
#include <awake/time.h>

AW_C_BEGIN

/* aw-future: AW_TIMEOUT */
#define AW_TIMEOUT(F)                                                                              \
    struct {                                                                                       \
        aw_future future;                                                                          \
        int out;                                                                                   \
        uint32_t inner_at;                                                                         \
        aw_sleep timer;                                                                            \
        F inner;                                                                                   \
    }

AW_API extern const aw_future_type aw_timeout_type;

#ifndef __cplusplus

/* Values of a named type: typedef AW_TIMEOUT(struct fetch) fetch_timeout; */
#define AW_TIMEOUT_OF(T, duration, ...)    AW__TIMEOUT_OF(T, aw_sleep_for(duration), __VA_ARGS__)
#define AW_TIMEOUT_AT_OF(T, deadline, ...) AW__TIMEOUT_OF(T, aw_sleep_until(deadline), __VA_ARGS__)

#define AW_AWAIT_FOR(child, duration, ...)                                                         \
    AW_AWAIT(child, AW_TIMEOUT_OF(__typeof__(child), duration, __VA_ARGS__))
#define AW_AWAIT_BY(child, deadline, ...)                                                          \
    AW_AWAIT(child, AW_TIMEOUT_AT_OF(__typeof__(child), deadline, __VA_ARGS__))

#endif

AW_C_END

#endif
