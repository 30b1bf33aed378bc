/* SPDX-License-Identifier: MIT
 *
 * The whole current-thread runtime in a model: threads that wake, abort and drop a task, against
 * the owner that polls it. Nothing is lost, and the task is freed once, after its last use. */
#include "support/model.h"
#include "support/model_park.h"

#include <awake.h>

#define sched_yield() model_yield()
#include "os/lock.c"
#undef sched_yield

#include "time/clock.c"
#include "task/join.c"
#include "task/task_local.c"
#include "sched/report.c"
#include "task/slab.c"
#include "sched/runtime.c"
#include "sched/block_on.c"
#include "sched/current/current.c"
#include "sched/current/current_block_on.c"
#include "sched/current/current_loop.c"
#include "sched/current/current_shutdown.c"
#include "sched/shutdown.c"
#include "task/hold.c"
#include "time/interval.c"
#include "time/sleep.c"
#include "task/task.c"
#include "time/wheel.c"

enum { MAIN_GATE, TASK_GATE, GATES };

/* Ready when it has been told often enough. At its first poll it hands out two wakers. */
struct gate {
    aw_future future;
    int out, number;
};

static aw_runtime *rt;
static struct gate *handle;
static aw_waker wakers[GATES][2];
static uint32_t handed_out[GATES], told[GATES], needed[GATES], ended[GATES], polls;

static aw_poll gate_poll(aw_future *f, aw_cx *cx) {
    struct gate *g = (struct gate *)f;
    int n = g->number;
    polls++;
    if (aw__load_relaxed(&told[n]) >= needed[n]) {
        g->out = 1;
        ended[n]++;
        return AW_READY;
    }
    if (!aw__load_relaxed(&handed_out[n])) {
        for (int i = 0; i < 2; i++)
            wakers[n][i] = aw_waker_clone(cx->waker);
        aw__store_release(&handed_out[n], 1u);
    }
    return AW_PENDING;
}
static aw_poll gate_cancel(aw_future *f, aw_cx *cx) {
    (void)cx;
    ended[((struct gate *)f)->number]++;
    return AW_CANCELLED;
}
static const aw_future_type gate_type = {.self_size = sizeof(aw_future_type),
                                         .name = "gate",
                                         .size = sizeof(struct gate),
                                         .out_offset = offsetof(struct gate, out),
                                         .out_size = sizeof(int),
                                         .poll = gate_poll,
                                         .cancel = gate_cancel};

static struct gate gate(int number) {
    return (struct gate){AW_FUTURE_INIT(&gate_type), 0, number};
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static void *memory_alloc(void *data, size_t size) {
    (void)data;
    return model_alloc(size);
}
static void memory_free(void *data, void *memory, size_t size) {
    (void)data, (void)size;
    model_free(memory);
}

static void fail_with_problem(void *data, aw_log_level level, const char *message) {
    (void)data;
    if (level == AW_LOG_PROBLEM) model_fail("%s", message);
}

static void setup(void) {
    static const aw_allocator allocator = {memory_alloc, memory_free, NULL};
    memset(handed_out, 0, sizeof handed_out);
    memset(told, 0, sizeof told);
    memset(ended, 0, sizeof ended);
    polls = 0;
    aw__context = (struct aw__context){0};
    model_thread_local(&aw__context, sizeof aw__context);
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    options.allocator = &allocator;
    options.log = fail_with_problem;
    options.seed = 1;
    model_check(aw_runtime_new(&rt, &options) == 0);
    handle = NULL;
    needed[MAIN_GATE] = needed[TASK_GATE] = 1;
}

static void own(void) {
    struct gate g = gate(MAIN_GATE);
    model_check(aw_block_on_future(rt, &g.future) == 0);
    aw_runtime_free(rt);
}

static bool is_handed_out(void *number) {
    return handed_out[(intptr_t)number];
}
/* Takes a waker, which the caller must release. */
static aw_waker take_waker(int number, int i) {
    model_wait(is_handed_out, (void *)(intptr_t)number);
    aw__fetch_add(&handed_out[number], 0u); /* reads the newest value, and acquires it */
    return wakers[number][i];
}
static void tell(int number, int i) {
    aw_waker waker = take_waker(number, i);
    aw__fetch_add_relaxed(&told[number], 1u);
    aw_waker_wake(waker);
}

static void nothing_is_left(void) {
    model_check(model_allocated() == 0);
    model_check(ended[MAIN_GATE] == 1);
}

/* ---- Wakers of the main future --------------------------------------------------------------- */

static void wake_main(void) {
    tell(MAIN_GATE, model_self() - 1);
}
static void drop_main(void) {
    aw_waker_drop(take_waker(MAIN_GATE, 1));
}
static void setup_two_wakes(void) {
    setup();
    needed[MAIN_GATE] = 2;
}

MODEL(two_wakes_are_not_lost, .setup = setup_two_wakes, .threads = {own, wake_main, wake_main},
      .check = nothing_is_left, .stale = 1)
MODEL(a_waker_may_outlive_the_runtime, .setup = setup, .threads = {own, wake_main, drop_main},
      .check = nothing_is_left, .stale = 1)

/* ---- A task ---------------------------------------------------------------------------------- */

/* Spawned from outside, before the runtime runs. */
static void setup_task(void) {
    setup();
    handle = aw_spawn_on(rt, gate(TASK_GATE));
    model_check(handle && !aw_task_error(handle));
}
static void the_task_has_ended_too(void) {
    nothing_is_left();
    model_check(ended[TASK_GATE] == 1);
}
static void wake_task(void) {
    tell(TASK_GATE, 0);
}
static void drop_waker_abort_and_drop_handle(void) {
    aw_waker_drop(take_waker(TASK_GATE, 1));
    aw_task_abort(handle);
    aw_task_drop(handle);
    tell(MAIN_GATE, 0);
    aw_waker_drop(wakers[MAIN_GATE][1]);
}
static void look_drop_handle_and_wake(void) {
    if (aw_task_is_finished(handle) && aw_task_error(handle) == 0 && ended[TASK_GATE] == 1)
        (void)model_read(&handle->out);
    aw_task_drop(handle);
    tell(MAIN_GATE, 0);
    aw_waker_drop(wakers[MAIN_GATE][1]);
    aw_waker_wake(take_waker(TASK_GATE, 1));
}

MODEL(a_task_is_freed_once_when_it_is_woken_aborted_and_dropped, .setup = setup_task,
      .threads = {own, wake_task, drop_waker_abort_and_drop_handle},
      .check = the_task_has_ended_too, .preemptions = 1, .stale = 1)
MODEL(an_output_is_visible_once_the_task_is_seen_to_have_ended, .setup = setup_task,
      .threads = {own, wake_task, look_drop_handle_and_wake}, .check = the_task_has_ended_too,
      .preemptions = 1, .stale = 1)

/* ---- Orders ---------------------------------------------------------------------------------- */

#if defined(MODEL_SEES_PLAIN)
static const struct model_harmless harmless[] = {
    {"aw__task_request", "aw__cas(", "failure", "the next try acquires what it needs"},
    {"aw__task_serve_orphan", "aw__exchange(", "acquire",
     "aw__task_unref loads the word once more, with acquire, before anything is freed"},
    {"aw__task_unref", "aw__load_acquire(", "acquire",
     "the last thread that changed the count from outside either has pushed the task, "
     "and the exchange that served it has acquired that, or has passed its last reference to the "
     "owner, which orders it"},
    {0}};

MODEL_ORDERS(the_orders_of_a_task, "task/task.c", harmless,
             &model_a_task_is_freed_once_when_it_is_woken_aborted_and_dropped,
             &model_an_output_is_visible_once_the_task_is_seen_to_have_ended)
#else
TEST(the_orders_of_a_task) {
    SKIP("needs a compiler that reports plain accesses: MODEL_SEES_PLAIN");
}
#endif
