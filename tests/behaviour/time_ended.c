/* SPDX-License-Identifier: MIT
 *
 * Sleeps of threads outside the runtime when the runtime ends: they end with -ESHUTDOWN, and the
 * memory that they point to stays until they have ended. Each test runs on all flavours, for
 * each way to end a runtime. */
#include "support/by_hand.h"
#include "support/workers.h"

typedef enum ending { BY_FREE, BY_ABANDON, BY_SHUTDOWN, ENDINGS } ending;

/* Ended sleeps are logged as information, not as an error. */
static uint32_t reports; /* atomic: how often */
static void log_info(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_INFO);
    if (strstr(message, " sleeps of outside threads were pending when the runtime ended"))
        ADD(reports, 1);
}

static aw_runtime *runtime_of(aw_flavour flavour, memory *m) {
    aw_runtime_options o = workers_options(2, m, NULL);
    aw_runtime *rt;
    o.log = log_info;
    if (m) memory_init(m);
    o.flavour = flavour;
    o.keep_tasks = true;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static void end_runtime(aw_runtime *rt, ending how) {
    if (how == BY_FREE) aw_runtime_free(rt);
    if (how == BY_ABANDON) aw_runtime_abandon(rt);
    if (how == BY_SHUTDOWN) CHECK_EQ(aw_runtime_shutdown(rt, AW_SEC(10)), 0);
}

/* An abandoned runtime with workers ends on its own, so what ends with it has to be awaited. */
static void wait_for_flag(aw_flag *flag) {
    WAIT_UNTIL(aw_flag_take(flag));
}

/* Frees the runtime if that is still missing, and checks that no memory remains. */
static void check_gone(aw_runtime *rt, ending how, memory *m) {
    if (how == BY_SHUTDOWN) aw_runtime_free(rt);
    WAIT_UNTIL(memory_in_use(m) == 0);
}

static size_t sleeps_set(aw_runtime *rt) {
    aw__wheel *w = rt->base.wheels;
    aw__lock(&w->lock);
    size_t n = w->count;
    aw__unlock(&w->lock);
    return n;
}

/* ---- A waiting thread ------------------------------------------------------------------------ */

typedef AW_TIMEOUT(aw_never) never_timeout;

typedef struct waiting {
    aw_runtime *rt;
    int (*wait)(void);
    event entered;
    int out;
} waiting;

static int wait_for_sleep(void) {
    return aw_wait_for(AW_SEC(100), aw_sleep_for(AW_SEC(3600)));
}
static int wait_for_tick(void) {
    aw_interval i;
    CHECK_EQ(aw_interval_from(&i, aw_now(NULL) + AW_SEC(3600), AW_SEC(1), AW_BURST), 0);
    int out = aw_wait_for(AW_SEC(100), aw_interval_tick(&i));
    CHECK_GT(i.next, aw_now(NULL)); /* no tick was taken */
    return out;
}
static int wait_for_timeout(void) {
    return aw_wait_for(AW_SEC(100), AW_TIMEOUT_OF(never_timeout, AW_SEC(3600), aw_never_ready()));
}

static void *wait_entered(void *arg) {
    waiting *w = arg;
    aw_runtime *before = aw_enter(w->rt);
    event_post(&w->entered);
    w->out = w->wait();
    aw_leave(before);
    return NULL;
}

static void check_wait_ends(aw_flavour flavour, ending how, int (*wait)(void)) {
    memory m;
    waiting w = {.rt = runtime_of(flavour, &m), .wait = wait};
    event_init(&w.entered);
    pthread_t thread = thread_start(wait_entered, &w);
    event_wait(&w.entered);
    WAIT_UNTIL(sleeps_set(w.rt) == 1);
    end_runtime(w.rt, how);
    thread_end(thread);
    CHECK_EQ(w.out, -ESHUTDOWN);
    check_gone(w.rt, how, &m);
}

ON_FLAVOURS(a_sleep_of_an_entered_thread_ends_with_the_runtime) {
    for (ending how = BY_FREE; how < ENDINGS; how++)
        check_wait_ends(flavour, how, wait_for_sleep);
}

ON_FLAVOURS(a_tick_of_an_entered_thread_ends_with_the_runtime) {
    for (ending how = BY_FREE; how < ENDINGS; how++)
        check_wait_ends(flavour, how, wait_for_tick);
}

/* The deadline has not come, and never will: it is not -ETIMEDOUT. */
ON_FLAVOURS(a_timeout_on_a_clock_that_has_ended_says_so) {
    for (ending how = BY_FREE; how < ENDINGS; how++)
        check_wait_ends(flavour, how, wait_for_timeout);
}

/* ---- Polled directly: every call that may come after the end --------------------------------- */

static aw_flag flag, other; /* may be raised a moment after the sleep has ended */

/* A thread that entered the runtime, with a pending sleep. */
typedef struct outsider {
    aw_runtime *rt, *before;
    memory m;
    aw_sleep sleep;
} outsider;

static void outsider_begin(outsider *o, aw_flavour flavour) {
    o->rt = runtime_of(flavour, &o->m);
    o->before = aw_enter(o->rt);
    o->sleep = aw_sleep_for(AW_SEC(3600));
    aw_flag_take(&flag);
    aw_flag_take(&other);
    CHECK_EQ(POLL(&o->sleep, &flag), AW_PENDING);
}

static void outsider_end(outsider *o, ending how) {
    aw_leave(o->before);
    check_gone(o->rt, how, &o->m);
}

/* The sleep alone keeps what it points to alive. */
ON_FLAVOURS(memory_stays_until_the_last_sleep_is_gone) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        aw_sleep second = aw_sleep_for(AW_SEC(7200));
        CHECK_EQ(POLL(&second, &other), AW_PENDING);
        aw_leave(o.before);
        end_runtime(o.rt, how);
        wait_for_flag(&flag);
        wait_for_flag(&other);
        CHECK_GT(memory_in_use(&o.m), 0);
        CHECK_EQ(CANCEL(&second, &other), AW_READY);
        CHECK_EQ(second.out, -ESHUTDOWN);
        CHECK_GT(memory_in_use(&o.m), 0);
        if (how == BY_SHUTDOWN) aw_runtime_free(o.rt);
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        WAIT_UNTIL(memory_in_use(&o.m) == 0);
    }
}

ON_FLAVOURS(an_ended_sleep_wakes_its_latest_waker) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        /* With another waker: only the latest is woken. */
        CHECK_EQ(POLL(&o.sleep, &other), AW_PENDING);
        end_runtime(o.rt, how);
        wait_for_flag(&other);
        CHECK(!aw_flag_take(&flag));
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        outsider_end(&o, how);
    }
}

ON_FLAVOURS(a_cancel_after_the_end_finds_the_sleep_ended) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        end_runtime(o.rt, how);
        wait_for_flag(&flag);
        CHECK_EQ(CANCEL(&o.sleep, &other), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        outsider_end(&o, how);
    }
}

ON_FLAVOURS(a_reset_after_the_end_does_not_bring_a_sleep_back) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        end_runtime(o.rt, how);
        wait_for_flag(&flag);
        aw_sleep_reset(&o.sleep, test_now_ns() + AW_SEC(3600));
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        aw_sleep_reset(&o.sleep, test_now_ns() + AW_SEC(3600)); /* and it can be polled again */
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        outsider_end(&o, how);
    }
}

ON_FLAVOURS(a_description_after_the_end_says_that_there_is_no_clock) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        char text[256];
        outsider o;
        outsider_begin(&o, flavour);
        end_runtime(o.rt, how);
        wait_for_flag(&flag);
        aw_future_describe(&o.sleep.future, text, sizeof text);
        CHECK_CONTAINS(text, "its runtime has ended");
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        outsider_end(&o, how);
        aw_future_describe(&o.sleep.future, text, sizeof text); /* freed memory is not accessed */
        CHECK_CONTAINS(text, "sleep");
    }
}

ON_FLAVOURS(a_sleep_that_begins_after_the_end_ends_at_once) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        end_runtime(o.rt, how);
        wait_for_flag(&flag);
        aw_sleep late = aw_sleep_for(AW_SEC(1)), past = aw_sleep_for(0);
        CHECK_EQ(POLL(&late, &flag), AW_READY);
        CHECK_EQ(late.out, -ESHUTDOWN);
        CHECK_EQ(POLL(&past, &flag), AW_READY);
        CHECK_EQ(past.out, 0);
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        outsider_end(&o, how);
    }
}

/* It fired in time, and stays so. */
ON_FLAVOURS(a_sleep_that_fired_before_the_end_is_no_error) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        aw_sleep_reset(&o.sleep, aw_now(o.rt));
        /* So that the timer fires on every flavour. */
        CHECK_EQ(aw_block_on(o.rt, aw_sleep_for(1)), 0);
        wait_for_flag(&flag);
        end_runtime(o.rt, how);
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, 0);
        outsider_end(&o, how);
    }
}

/* ... unless it is moved: then it has not fired. */
ON_FLAVOURS(a_fired_sleep_that_is_moved_after_the_end_ends_with_it) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        outsider o;
        outsider_begin(&o, flavour);
        aw_sleep second = aw_sleep_for(AW_SEC(3600));
        CHECK_EQ(POLL(&second, &other), AW_PENDING);
        aw_sleep_reset(&o.sleep, aw_now(o.rt));
        CHECK_EQ(aw_block_on(o.rt, aw_sleep_for(1)), 0);
        wait_for_flag(&flag);
        end_runtime(o.rt, how);
        wait_for_flag(&other);
        aw_sleep_reset(&o.sleep, test_now_ns() + AW_SEC(3600));
        CHECK(aw_flag_take(&flag));
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        CHECK_EQ(CANCEL(&second, &other), AW_READY);
        outsider_end(&o, how);
    }
}

/* ---- What is logged -------------------------------------------------------------------------- */

ON_FLAVOURS(the_end_says_once_that_it_ended_sleeps) {
    outsider o;
    outsider_begin(&o, flavour);
    CHECK_EQ(aw_runtime_shutdown(o.rt, AW_SEC(100)), 0);
    CHECK_EQ(LOAD(reports), 1);
    CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
    aw_leave(o.before);
    aw_runtime_free(o.rt);
    CHECK_EQ(LOAD(reports), 1);
    CHECK_EQ(memory_in_use(&o.m), 0);
}

/* Tasks are awaited first: their sleeps go on, in cleanup too. */
AW_ASYNC(int, sleeps_to_clean_up, uint32_t *begun; int *cleaned; aw_never wait; aw_sleep nap;) {
    AW_BEGIN;
    STORE(*self->begun, 1);
    AW_AWAIT(self->wait, aw_never_ready());
    AW_RETURN(0);
    AW_FINALLY;
    AW_AWAIT(self->nap, aw_sleep_for(AW_MSEC(1)));
    *self->cleaned = self->nap.out == 0;
    AW_END;
}

ON_FLAVOURS(sleeps_of_tasks_go_on_while_the_runtime_ends) {
    for (ending how = BY_FREE; how < ENDINGS; how++) {
        if (how == BY_ABANDON) continue; /* on the current thread nothing runs them any more */
        int cleaned = 0;
        uint32_t begun = 0;
        outsider o;
        outsider_begin(&o, flavour);
        struct sleeps_to_clean_up task = AW_CALL(sleeps_to_clean_up, .begun = &begun,
                                                 .cleaned = &cleaned);
        aw_task_drop(aw_spawn_on(o.rt, task));
        if (flavour == AW_CURRENT_THREAD) CHECK_EQ(aw_block_on(o.rt, yields(2)), 0);
        WAIT_UNTIL(LOAD(begun));
        end_runtime(o.rt, how);
        CHECK(cleaned);
        CHECK_EQ(POLL(&o.sleep, &flag), AW_READY);
        CHECK_EQ(o.sleep.out, -ESHUTDOWN);
        outsider_end(&o, how);
    }
}

/* ---- An entered thread ----------------------------------------------------------------------- */

ON_FLAVOURS(an_entered_thread_keeps_the_memory_and_is_refused) {
    memory m;
    aw_runtime *rt = runtime_of(flavour, &m);
    aw_runtime *before = aw_enter(rt);
    aw_runtime_free(rt);
    CHECK_EQ(aw_runtime_current(), rt);
    CHECK_EQ(aw_wait(aw_sleep_for(AW_SEC(1))), -ESHUTDOWN);
    CHECK_EQ(aw_block_on(rt, aw_ready_now(1)), -ESHUTDOWN);
    CHECK_EQ(aw_task_error(aw_spawn(aw_ready_now(1))), -ECANCELED);
    CHECK_GT(memory_in_use(&m), 0);
    aw_leave(before);
    CHECK_EQ(memory_in_use(&m), 0);
}
