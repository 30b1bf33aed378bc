/* SPDX-License-Identifier: MIT
 *
 * awake/timeout.h: give up on anything after a while.
 *
 *     AW_ASYNC(int, patient, AW_TIMEOUT(struct fetch) t;) {
 *         AW_BEGIN;
 *         AW_AWAIT_FOR(self->t, AW_SEC(3), AW_CALL(fetch, .url = u));
 *         if (self->t.out == -ETIMEDOUT) ...
 *         AW_RETURN(self->t.inner.out);
 *
 * `out` is 0 when the inner future finished, then its output is in `inner.out`; -ETIMEDOUT when it was
 * given up; another negative errno when there is no clock. The inner future is polled first: a value
 * that is there counts, whatever the time. When the time is up the inner future is cancelled, which may
 * take a while, and if it finishes in that while its value counts too. */
#ifndef AWAKE_TIMEOUT_H
#define AWAKE_TIMEOUT_H

#include <awake/async.h>
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

/* What all of them begin with. */
struct __attribute__((may_alias)) aw__timeout {
    aw_future future;
    int out;
    uint32_t inner_at;
    aw_sleep timer;
};

AW_API extern const aw_future_type aw_timeout_type;

#ifndef __cplusplus

/* Values of a named type: typedef AW_TIMEOUT(struct fetch) fetch_timeout; */
#define AW_TIMEOUT_OF(T, duration, ...)    AW__TIMEOUT_OF(T, aw_sleep_for(duration), __VA_ARGS__)
#define AW_TIMEOUT_AT_OF(T, deadline, ...) AW__TIMEOUT_OF(T, aw_sleep_until(deadline), __VA_ARGS__)
#define AW__TIMEOUT_OF(T, sleep, ...)                                                              \
    ((T){.future = AW_FUTURE_INIT(&aw_timeout_type),                                               \
         .out = 0, /* all members: gcc clears an incomplete struct with a slow instruction */      \
         .inner_at = offsetof(T, inner),                                                           \
         .timer = sleep,                                                                           \
         .inner = __VA_ARGS__})

#define AW_AWAIT_FOR(child, duration, ...)                                                         \
    AW_AWAIT(child, AW_TIMEOUT_OF(__typeof__(child), duration, __VA_ARGS__))
#define AW_AWAIT_BY(child, deadline, ...)                                                          \
    AW_AWAIT(child, AW_TIMEOUT_AT_OF(__typeof__(child), deadline, __VA_ARGS__))

#endif

AW_C_END

#endif
