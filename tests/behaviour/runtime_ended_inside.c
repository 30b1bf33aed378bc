/* SPDX-License-Identifier: MIT
 *
 * Where a runtime may be shut down, and where not: one rule for every pair of flavours of the
 * calling thread's runtime and of the runtime that is shut down. */
#include "support/workers.h"

typedef void end_call(aw_runtime *rt);

static void by_free(aw_runtime *rt) {
    aw_runtime_free(rt);
}
static void by_shutdown(aw_runtime *rt) {
    aw_runtime_shutdown(rt, 0);
}
static void by_abandon(aw_runtime *rt) {
    aw_runtime_abandon(rt);
}

static aw_runtime *runtime_of(aw_flavour flavour) {
    aw_runtime_options o = workers_options(2, NULL, NULL);
    aw_runtime *rt;
    o.flavour = flavour;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static const aw_flavour flavours[] = {AW_CURRENT_THREAD, AW_MULTI_THREAD, AW_THREAD_PER_CORE};
enum { FLAVOURS = 3 };

/* Each test for all pairs. The call comes from inside `outer`. */
#define ON_PAIRS(name)                                                                             \
    static void name##_pair(aw_runtime *outer, aw_runtime *inner);                                 \
    ON_FLAVOURS(name) {                                                                            \
        for (int i = 0; i < FLAVOURS; i++) {                                                       \
            aw_runtime *outer = runtime_of(flavour), *inner = runtime_of(flavours[i]);             \
            name##_pair(outer, inner);                                                             \
            aw_runtime_free(outer);                                                                \
        }                                                                                          \
    }                                                                                              \
    static void name##_pair(aw_runtime *outer, aw_runtime *inner)

/* ---- Refused --------------------------------------------------------------------------------- */

/* All three calls are refused. Each message names the call, where it was made, and what to do
 * instead. */
static void check_refused(aw_runtime *rt, const char *where) {
    static const struct {
        end_call *end;
        const char *name;
    } calls[] = {{by_free, "aw_runtime_free"},
                 {by_shutdown, "aw_runtime_shutdown"},
                 {by_abandon, "aw_runtime_abandon"}};
    for (int i = 0; i < 3; i++) {
        char words[256];
        snprintf(words, sizeof words, "%s inside %s", calls[i].name, where);
        DIES(calls[i].end(rt), words);
        DIES(calls[i].end(rt), "Call it from a plain thread, or by aw_blocking");
    }
}

AW_ASYNC(int, ends_inside, aw_runtime *rt; const char *where;) {
    AW_BEGIN;
    check_refused(self->rt, self->where);
    AW_RETURN(7);
    AW_END;
}

AW_FIBER(int, ends_in_a_fiber, aw_runtime *rt; const char *where;) {
    check_refused(self->rt, self->where);
    return 7;
}

ON_PAIRS(a_task_may_not_end_a_runtime) {
    const char *where = "task 1 'ends_inside' (spawned at ";
    CHECK_EQ(RUN(outer, AW_CALL(ends_inside, .rt = inner, .where = where)), 7);
    /* Not its own either. */
    CHECK_EQ(RUN(outer, AW_CALL(ends_inside, .rt = outer, .where = "task ")), 7);
    aw_runtime_free(inner);
}

ON_PAIRS(a_fiber_may_not_end_a_runtime) {
    CHECK_EQ(RUN(outer, AW_CALL(ends_in_a_fiber, .rt = inner, .where = "task ")), 7);
    aw_runtime_free(inner);
}

ON_PAIRS(the_main_future_may_not_end_a_runtime) {
    struct ends_inside f = AW_CALL(ends_inside, .rt = inner, .where = "the main future");
    CHECK_EQ(aw_block_on(outer, f), 7);
    f = AW_CALL(ends_inside, .rt = outer, .where = "the main future");
    CHECK_EQ(aw_block_on(outer, f), 7);
    aw_runtime_free(inner);
}

/* Another thread runs the runtime meanwhile. */
ON_PAIRS(the_main_future_of_a_second_thread_may_not_end_a_runtime) {
    static gate g; /* static: the task may outlive this function, until the runtime ends */
    g = (gate)GATE;
    aw_task_drop(aw_spawn_on(outer, through(&g)));
    host h = {.rt = outer};
    h.thread = thread_start(host_body, &h);
    gate_wait(&g, 1);
    CHECK_EQ(aw_block_on(outer, AW_CALL(ends_inside, .rt = inner, .where = "the main future")), 7);
    host_stop(&h);
    aw_runtime_free(inner);
}

ON_FLAVOURS(a_future_in_aw_wait_may_not_end_a_runtime) {
    aw_runtime *rt = runtime_of(flavour);
    CHECK_EQ(aw_wait(AW_CALL(ends_inside, .rt = rt, .where = "'ends_inside', which aw_wait polls")),
             7);
    CHECK_EQ(aw_wait(AW_CALL(ends_in_a_fiber, .rt = rt, .where = "a fiber")), 7);
    aw_runtime_free(rt); /* now there is nothing to refuse */
}

/* ---- Allowed --------------------------------------------------------------------------------- */

typedef struct ending {
    aw_runtime *rt;
    end_call *end;
} ending;

static long end_in_call(void *arg) {
    const ending *e = arg;
    e->end(e->rt);
    return 7;
}

static void shut_down_and_free(aw_runtime *rt) {
    CHECK_EQ(aw_runtime_shutdown(rt, AW_FOREVER), 0);
    aw_runtime_free(rt);
}

/* A task that ends with the runtime. */
static gate ends_with_it;
static aw_runtime *with_a_task(aw_runtime *rt) {
    ends_with_it = (gate)GATE;
    aw_task_drop(aw_spawn_on(rt, through(&ends_with_it)));
    return rt;
}

ON_PAIRS(a_blocking_call_may_end_another_runtime) {
    ending e = {with_a_task(inner), by_free};
    CHECK_EQ(aw_block_on(outer, aw_blocking(end_in_call, &e)), 7);
    CHECK_EQ(LOAD(ends_with_it.ends), 1);
    e = (ending){with_a_task(runtime_of(AW_MULTI_THREAD)), shut_down_and_free};
    CHECK_EQ(RUN(outer, aw_blocking(end_in_call, &e)), 7);
    CHECK_EQ(LOAD(ends_with_it.ends), 1);
    e = (ending){runtime_of(AW_CURRENT_THREAD), by_abandon};
    CHECK_EQ(RUN(outer, aw_blocking(end_in_call, &e)), 7);
}

ON_PAIRS(an_entered_thread_may_end_a_runtime) {
    aw_runtime *before = aw_enter(outer);
    shut_down_and_free(with_a_task(inner));
    CHECK_EQ(LOAD(ends_with_it.ends), 1);
    aw_leave(before);
}

/* ---- A blocking call and its own runtime ----------------------------------------------------- */

/* It would wait for itself. */
static long end_its_own(void *rt) {
    DIES(by_free(rt), "aw_runtime_free inside a blocking call of the same runtime");
    DIES(by_shutdown(rt), "aw_runtime_shutdown inside a blocking call of the same runtime");
    return 7;
}

ON_FLAVOURS(a_blocking_call_that_ends_its_own_runtime_is_caught) {
    aw_runtime *rt = runtime_of(flavour);
    CHECK_EQ(aw_block_on(rt, aw_blocking(end_its_own, rt)), 7);
    aw_runtime_free(rt);
}

/* Abandoning does not wait. */
typedef struct abandoning {
    aw_runtime *rt;
    event begun, go, done;
} abandoning;

static long abandon_its_own(void *arg) {
    abandoning *a = arg;
    event_post(&a->begun);
    event_wait(&a->go);
    aw_runtime_abandon(a->rt);
    event_post(&a->done);
    return 7;
}

ON_FLAVOURS(a_blocking_call_may_abandon_its_own_runtime) {
    memory m;
    aw_runtime_options o = workers_options(2, &m, NULL);
    abandoning a;
    memory_init(&m);
    o.flavour = flavour;
    o.keep_tasks = true;
    kept_log log = KEPT_LOG;
    o.log = keep_log;
    o.log_data = &log;
    CHECK_EQ(aw_runtime_new(&a.rt, &o), 0);
    event_init(&a.begun);
    event_init(&a.go);
    event_init(&a.done);
    aw_task_drop(aw_spawn_on(a.rt, aw_blocking(abandon_its_own, &a)));
    if (flavour == AW_CURRENT_THREAD) CHECK_EQ(aw_block_on(a.rt, yields(2)), 0);
    event_wait(&a.begun);
    event_post(&a.go);
    event_wait(&a.done);
    if (flavour == AW_CURRENT_THREAD)
        CHECK_EQ(log_count(&log, "1 tasks were given up and stay alive"), 1);
    else
        WAIT_UNTIL(memory_in_use(&m) == 0); /* the workers end the task, then free everything */
}
