/* SPDX-License-Identifier: MIT
 *
 * awake/time.h: sleeping, intervals, and the clock of a runtime.
 *
 * Points in time are nanoseconds of the runtime's clock (aw_now), by default CLOCK_MONOTONIC.
 * Nothing fires early, ever. A sleep in a poll that has no runtime uses the one that the thread has
 * entered (aw_enter), or ends at once with -ENXIO and a message. */
#ifndef AWAKE_TIME_H
#define AWAKE_TIME_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__wheel;

/* Sleep until a point in time, or for a duration counted from the first poll. `out` is 0, or -ENXIO
 * without a runtime. A past deadline is ready at the first poll. The timer is part of the struct:
 * setting, moving and cancelling one allocates nothing. */
/* aw-future: aw_sleep */
typedef struct aw_sleep {
    aw_future future;
    int out;
    uint32_t slot; /* private: where in the wheel it is */
    uint64_t when; /* the deadline; before the first poll of a relative sleep its duration */
    struct aw_sleep *next, *prev;
    struct aw__wheel *wheel;
    aw_waker waker;
} aw_sleep;

AW_API extern const aw_future_type aw_sleep_type;

static inline aw_sleep aw_sleep_for(uint64_t duration) {
    aw_sleep f = {AW_FUTURE_INIT(&aw_sleep_type), 0, 0, duration, NULL, NULL, NULL, {NULL, NULL}};
    return f;
}
static inline aw_sleep aw_sleep_until(uint64_t deadline) {
    aw_sleep f = {{&aw_sleep_type, 1, 0}, 0, 0, deadline, NULL, NULL, NULL, {NULL, NULL}};
    return f;
}

/* Move the deadline, by whoever may poll the sleep: earlier, later, into the past. A sleep that was
 * polled is woken by the new deadline; one that has ended can be polled again (the one exception
 * to the rule that nothing is called after the end). */
AW_API void aw_sleep_reset(aw_sleep *s, uint64_t deadline);

/* ---- Interval --------------------------------------------------------------------------------- */

typedef enum aw_missed {
    AW_BURST, /* tick without delay until caught up */
    AW_DELAY, /* the next tick is one period after this one */
    AW_SKIP   /* the next tick is at the next multiple of the period */
} aw_missed;

/* Ticks at start, start + period, …; the first tick of aw_interval_every is immediate. One task at a
 * time. The interval outlives its ticks. */
typedef struct aw_interval {
    uint64_t period;
    uint64_t next; /* when the next tick is due; AW_FOREVER: at the first poll */
    aw_missed missed;
} aw_interval;

/* -EINVAL when the period is zero. */
AW_API int aw_interval_every(aw_interval *i, uint64_t period, aw_missed missed);
AW_API int aw_interval_from(aw_interval *i, uint64_t start, uint64_t period, aw_missed missed);

/* The next tick: `at` is when it was due. Cancelled, it takes no tick. `out` is as aw_sleep's. */
/* aw-future: aw_tick */
typedef struct aw_tick {
    aw_future future;
    int out;
    aw_interval *interval;
    uint64_t at;
    aw_sleep sleep;
} aw_tick;

AW_API extern const aw_future_type aw_tick_type;
AW_API aw_tick aw_interval_tick(aw_interval *i);

/* ---- Clock ------------------------------------------------------------------------------------ */

/* Nanoseconds now, of the runtime given, or of the current or entered one when it is NULL; without
 * any, CLOCK_MONOTONIC. */
AW_API uint64_t aw_now(const aw_runtime *rt);

/* Stop the clock: from now on it stands still, except that it jumps to the next timer when every
 * task is idle, and that aw_clock_advance moves it. Threads outside the runtime are not seen as
 * work, unless they hold it (aw_runtime_hold); it does not jump while nobody is in block_on. All three are
 * called from the thread that runs it, or while nobody does; with workers from any task or thread.
 * Pausing a paused clock and
 * resuming a running one are -EINVAL. */
AW_API int aw_clock_pause(aw_runtime *rt);
AW_API int aw_clock_resume(aw_runtime *rt);
/* Timers that are due by then fire when the runtime next looks. -EINVAL unless paused. */
AW_API int aw_clock_advance(aw_runtime *rt, uint64_t duration);

AW_C_END

#endif
