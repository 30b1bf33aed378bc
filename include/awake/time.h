/* SPDX-License-Identifier: MIT
 *
 * awake/time.h: sleeps, intervals, and the clock of a runtime.
 *
 *     AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(100)));
 *
 *     aw_interval_every(&self->interval, AW_SEC(1), AW_SKIP);
 *     for (;;) {
 *         AW_AWAIT(self->tick, aw_interval_tick(&self->interval));
 *
 * Points in time are nanoseconds of the runtime's clock (aw_now), by default CLOCK_MONOTONIC. No
 * timer fires early. A sleep that is polled without a runtime uses the one that the thread has
 * entered (aw_enter); without one it ends at once with -ENXIO and a message. */
#ifndef AWAKE_TIME_H
#define AWAKE_TIME_H

#include <awake/future.h>

AW_C_BEGIN

struct aw__wheel;

/* Sleep until a point in time, or for a duration that counts from the first poll. A deadline in the
 * past is ready at the first poll. The timer is part of the struct: setting, moving and cancelling
 * it allocates nothing. Until it ends, a sleep keeps the memory of its runtime alive.
 *
 * `out` is 0; -ENXIO without a runtime; -EOWNERDEAD in the child of a fork; or -ESHUTDOWN if the
 * runtime ended first: by aw_runtime_free, aw_runtime_abandon, or an aw_runtime_shutdown that left
 * no task. Only threads outside the runtime see -ESHUTDOWN, because its tasks end before.
 *
 * A sleep counts by the clock of the runtime that polled it last. When another runtime polls it, in
 * a task or in block_on, it moves there with the time that is left. That is the same deadline if
 * both use CLOCK_MONOTONIC, but not with a paused clock or the clock of a seam. A sleep also moves
 * if its runtime has ended, instead of ending with -ESHUTDOWN. If that runtime had the clock of a
 * seam, the time left is counted from its end. */
/* aw-future: aw_sleep */
typedef struct aw_sleep {
    aw_future future;
    int out;
    uint32_t slot; /* private: its position in the wheel */
    uint64_t when; /* the deadline; of a relative sleep, its duration until the first poll */
    /* Private. */
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

/* Move the deadline: earlier, later or into the past. Call it only where you may poll the sleep. A
 * pending sleep is woken by the new deadline. A sleep that has ended may be polled again: the one
 * exception to the rule that nothing is called after the end. If its runtime has ended, a sleep
 * still ends with -ESHUTDOWN.
 *
 * The deadline is in the clock of the caller's runtime. If that is not the sleep's runtime, the
 * sleep leaves its runtime, wakes its poller, and begins where it is polled next. */
AW_API void aw_sleep_reset(aw_sleep *s, uint64_t deadline);

/* ---- Interval ------------------------------------------------------------------------------ */

typedef enum aw_missed {
    AW_BURST, /* tick without delay until it has caught up */
    AW_DELAY, /* the next tick is one period after this one */
    AW_SKIP   /* the next tick is at the next multiple of the period */
} aw_missed;

/* Ticks at start, start + period, ...; the first tick of aw_interval_every is immediate. For one
 * task at a time. Must outlive its ticks. `next` is in the clock of the runtime that had the last
 * tick. */
typedef struct aw_interval {
    uint64_t period; /* you may assign it: used from the next tick on */
    /* When the next tick is due; AW_FOREVER: at the first poll. You may assign it while no tick is
     * pending. A pending tick does not notice, and overwrites it: call aw_interval_reset_at
     * instead. */
    uint64_t next;
    aw_missed missed;
    struct aw_tick *waiting; /* private: the pending tick */
} aw_interval;

/* Return 0, or -EINVAL if the period is zero. */
AW_API int aw_interval_every(aw_interval *i, uint64_t period, aw_missed missed);
AW_API int aw_interval_from(aw_interval *i, uint64_t start, uint64_t period, aw_missed missed);

/* Restart: the next tick is due one period from now, at a deadline, after a duration, or at once.
 * More ticks follow one period apart. A pending tick is moved, and woken by its new deadline. Call
 * these from the task that takes the ticks, not in the poll of a tick. They use the clock of the
 * caller's runtime (aw_now). */
AW_API void aw_interval_reset(aw_interval *i);
AW_API void aw_interval_reset_at(aw_interval *i, uint64_t deadline);
AW_API void aw_interval_reset_after(aw_interval *i, uint64_t duration);
AW_API void aw_interval_reset_immediately(aw_interval *i);

/* The next tick. `at` is when it was due, `out` is as for aw_sleep. If cancelled, no tick is
 * lost. */
/* aw-future: aw_tick */
typedef struct aw_tick {
    aw_future future;
    int out;
    aw_interval *interval;
    uint64_t at;
    uint64_t next; /* private: the value that it gave interval->next */
    aw_sleep sleep;
} aw_tick;

AW_API extern const aw_future_type aw_tick_type;
AW_API aw_tick aw_interval_tick(aw_interval *i);

/* ---- Clock --------------------------------------------------------------------------------- */

/* The time in nanoseconds, by the clock of `rt`. If `rt` is NULL: of the current or entered
 * runtime; without one, CLOCK_MONOTONIC. */
AW_API uint64_t aw_now(const aw_runtime *rt);

/* Stop the clock. It then moves only by aw_clock_advance, and by jumps to the next timer when every
 * task is idle. It does not wait for threads outside the runtime, unless they hold it
 * (aw_runtime_hold), and does not jump while no thread is in block_on.
 *
 * Call these three from the thread that runs the runtime, or while no thread does; with workers,
 * from any task or thread. -EINVAL: pausing a paused clock, or resuming a running one. */
AW_API int aw_clock_pause(aw_runtime *rt);
AW_API int aw_clock_resume(aw_runtime *rt);
/* Timers that become due fire when the runtime next checks them. -EINVAL unless paused. */
AW_API int aw_clock_advance(aw_runtime *rt, uint64_t duration);

AW_C_END

#endif
