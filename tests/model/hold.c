/* SPDX-License-Identifier: MIT
 *
 * task/hold.c under every schedule: a thread that sleeps pauses its hold, a wake resumes it, and
 * the runtime's count is exact in the end. A thread that was woken holds the runtime. */
#include "support/model.h"
#include "support/model_park.h"

#include "base/allocate.h"
#define aw__alloc(a, size)   ((void)(a), model_alloc(size))
#define aw__free(a, p, size) ((void)(a), model_free(p))
#include "task/runtime_state.h"
/* Without the check for a deadlock. */
#define aw__rt_unhold(rt, count) ((void)(rt), (void)aw__fetch_sub(count, 1u))
#include "task/hold.c"

static aw_runtime rt;
static aw__hold_parker *parker;
static uint32_t hold;

static void setup(void) {
    rt = (aw_runtime){.holds = 1};
    hold = AW__HOLDS;
    aw__context = (struct aw__context){.held = &rt, .hold = &hold};
    parker = aw__hold_parker_new(&rt);
    aw__context = (struct aw__context){0};
}

static void park(void) {
    model_check(aw__hold_park(parker, UINT64_MAX));
    model_check(aw__load_relaxed(&hold) == AW__HOLDS && aw__load_relaxed(&rt.holds) == 1);
}
static void park_or_time_out(void) {
    aw__hold_park(parker, 0);
    model_check(aw__load_relaxed(&hold) == AW__HOLDS);
}
static void wake(void) {
    aw__hold_unpark(parker);
}
/* The clock must stand still from here on: the thread has not worked yet. */
static void wake_and_check(void) {
    wake();
    model_check(aw__load_relaxed(&rt.holds) >= 1);
}
static void give_up(void) {
    if (aw__hold_end(&hold)) aw__rt_unhold(&rt, &rt.holds);
}
static void park_whatever_happens(void) {
    aw__hold_park(parker, 0);
}

static void the_thread_counts(void) {
    model_check(rt.holds == 1 && hold == AW__HOLDS);
    aw__hold_parker_free(parker);
    model_check(model_allocated() == 0);
}
static void the_thread_counts_no_more(void) {
    model_check(rt.holds == 0 && hold == AW__HOLD_OVER);
    aw__hold_parker_free(parker);
}

MODEL(a_wake_resumes_the_hold, .setup = setup, .threads = {park, wake_and_check},
      .check = the_thread_counts)
MODEL(two_wakes_resume_the_hold_once, .setup = setup, .threads = {park_or_time_out, wake, wake},
      .check = the_thread_counts)
MODEL(a_hold_that_ends_is_counted_out_once, .setup = setup,
      .threads = {park_whatever_happens, wake, give_up}, .check = the_thread_counts_no_more)
