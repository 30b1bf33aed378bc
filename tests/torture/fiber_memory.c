/* SPDX-License-Identifier: MIT
 *
 * Programs with fibers, in which every allocation and every call for pages fails in turn: once, and
 * then with all after it. Each run ends with clean errors, and leaves nothing behind. What a fiber
 * owns is released exactly once: by its body, or by its drop part. */
/* link: -Wl,--wrap=mmap -Wl,--wrap=munmap -Wl,--wrap=madvise -Wl,--wrap=mprotect */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/by_hand.h"
#include "support/ownership.h"
#include "support/mappings.h"
#include "support/memory.h"

static struct memory memory;

/* Counts the errors of a run, which must all be -ENOMEM. */
static int refused;
static int note(int error) {
    if (error == -ENOMEM)
        ADD(refused, 1);
    else
        CHECK_EQ(error, 0);
    return error;
}

/* ---- Fibers that own something --------------------------------------------------------------- */

static int entered, dropped, made; /* each one made is entered or dropped */

static int argument(void) {
    ADD(made, 1);
    return ownership_token();
}

/* Its output is a token, too. */
struct works {
    AW_FIBER_FRAME(int);
    int token;
    int waits;
};

static void discard_token(aw_future *self) {
    int out = ((struct works *)self)->out;
    if (out > 0) ownership_release(out);
}

AW_FIBER_STATIC(works, .discard = discard_token) {
    char scratch[3000];
    ADD(entered, 1);
    memset(scratch, self->waits, sizeof scratch);
    for (int i = 0; i < self->waits && aw_fiber_yield() == 0; i++)
        CHECK_EQ(scratch[i * 100], self->waits);
    ownership_release(self->token);
    return ownership_token();
}
AW_FIBER_DROP(works) {
    ADD(dropped, 1);
    ownership_release(self->token);
}

/* Outputs that cannot hold an error. */
struct pair {
    int token;
    double number;
};

AW_FIBER(struct pair, makes_pair, int token; int waits;) {
    ADD(entered, 1);
    for (int i = 0; i < self->waits && aw_fiber_yield() == 0; i++)
        continue;
    return (struct pair){self->token, 0.5};
}
AW_FIBER_DROP(makes_pair) {
    ADD(dropped, 1);
    ownership_release(self->token);
}

AW_FIBER(void, returns_nothing, int token;) {
    ADD(entered, 1);
    aw_fiber_yield();
    ownership_release(self->token);
}
AW_FIBER_DROP(returns_nothing) {
    ADD(dropped, 1);
    ownership_release(self->token);
}

AW_FIBER(unsigned char, returns_a_byte, int token;) {
    ADD(entered, 1);
    ownership_release(self->token);
    return 200;
}
AW_FIBER_DROP(returns_a_byte) {
    ADD(dropped, 1);
    ownership_release(self->token);
}

static int plain(void *token) {
    ADD(entered, 1);
    int r = aw_fiber_yield();
    ownership_release((int)(intptr_t)token);
    return r;
}
static void plain_drop(void *token) {
    ADD(dropped, 1);
    ownership_release((int)(intptr_t)token);
}

#define WORKS(n)   AW_CALL(works, .token = argument(), .waits = (n))
#define PLAIN()    aw_fiber_with(plain, plain_drop, (void *)(intptr_t)argument(), 0)
#define PAIR(n)    AW_CALL(makes_pair, .token = argument(), .waits = (n))
#define NOTHING()  AW_CALL(returns_nothing, .token = argument())
#define AND_BYTE() AW_CALL(returns_a_byte, .token = argument())

/* Takes a token, or notes the error. */
static void take(int out) {
    if (out > 0)
        ownership_release(out);
    else
        note(out);
}

/* ---- In fibers ------------------------------------------------------------------------------- */

/* Awaits fibers in every form. If the output of a child cannot hold an error, its failure fails the
 * task: here -ECANCELED. */
AW_FIBER(int, awaits_all_forms) {
    take(aw_await(WORKS(0)));
    take(aw_await(WORKS(2)));
    note(aw_await(PLAIN()));
    take(aw_await_for(AW_SEC(100), WORKS(1)));
    int error = aw_await_status(WORKS(1));
    if (error) return error;
    aw_box box = aw_box_new(WORKS(1));
    error = aw_await_future(&box.future);
    if (error) return error;
    if (note(box.out) == 0) take(aw_box_take(struct works, &box));
    struct pair p = {0, 0};
    error = aw_await_into(&p, PAIR(1));
    if (error == 0) ownership_release(p.token);
    if (error) {
        /* Only the failure of the whole task cancels it. */
        CHECK_EQ(error, -ECANCELED);
        CHECK(aw_cancelled());
        CHECK_EQ(p.token, 0);
    }
    return error;
}

enum { TASKS = 12 };

AW_FIBER(int, spawns_many) {
    struct works *tasks[TASKS];
    struct makes_pair *pairs[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = aw_spawn(AW_CALL(works, .token = argument(), .waits = i % 3,
                                    .stack_size = i % 4 == 3 ? 65536 : 0));
        note(aw_task_error(tasks[i]));
        pairs[i] = aw_spawn(PAIR(i % 3));
        note(aw_task_error(pairs[i]));
        if (i == 5) aw_task_abort(tasks[i]); /* before it starts */
    }
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_task_abort(tasks[8]);
    for (int i = 0; i < TASKS; i++) {
        int error = aw_await(aw_task_join(tasks[i]));
        if (error == 0)
            take(aw_task_take(tasks[i]));
        else
            aw_task_drop(tasks[i]);
        if (error != -ECANCELED) note(error);
        error = note(aw_await(aw_task_join(pairs[i])));
        if (error == 0)
            ownership_release(aw_task_take(pairs[i]).token);
        else
            aw_task_drop(pairs[i]);
    }
    return 0;
}

/* ---- In async functions ---------------------------------------------------------------------- */

static int finally_runs;

/* The outputs of its children cannot hold an error, so a failure in the body fails the task, and
 * the cleanup runs. A failure in the cleanup is logged, and the cleanup goes on. */
AW_ASYNC(int, holds_fibers, int token;
         AW_SHARE(struct returns_nothing nothing; struct makes_pair pair;
                  struct returns_a_byte byte;);) {
    AW_BEGIN;
    AW_AWAIT(self->nothing, NOTHING());
    AW_AWAIT(self->pair, PAIR(1));
    ownership_release(self->pair.out.token);
    AW_AWAIT(self->byte, AND_BYTE());
    CHECK_EQ(self->byte.out, 200);
    AW_RETURN(0);
    AW_FINALLY;
    ADD(finally_runs, 1);
    if (AW_STARTED) {
        AW_AWAIT(self->nothing, NOTHING());
        AW_AWAIT(self->byte, AND_BYTE());
        CHECK(self->byte.out == 200 || self->byte.out == 0);
    }
    ownership_release(self->token);
    AW_END;
}

AW_ASYNC(int, joins_fibers, aw_task_join_future join; struct holds_fibers * held; aw_all all;
         struct works array[5]; int i; aw_set set; aw_set_next_future next;) {
    AW_BEGIN;
    self->held = aw_spawn(AW_CALL(holds_fibers, .token = ownership_token()));
    AW_AWAIT(self->join, aw_task_join(self->held));
    note(self->join.out);
    aw_task_drop(self->held);
    for (self->i = 0; self->i < 5; self->i++)
        self->array[self->i] = WORKS(self->i % 2);
    AW_AWAIT(self->all, aw_join_all(self->array, 5));
    CHECK_EQ(self->all.out, 0);
    for (self->i = 0; self->i < 5; self->i++)
        take(self->array[self->i].out);
    aw_set_init(&self->set, sizeof(struct works));
    for (self->i = 0; self->i < 10; self->i++)
        note(aw_set_push(&self->set, WORKS(self->i % 4)));
    while (self->set.count) {
        AW_AWAIT(self->next, aw_set_next(&self->set));
        take(AW_SET_AS(struct works, &self->next)->out);
    }
    aw_set_free(&self->set);
    AW_RETURN(0);
    AW_END;
}

/* ---- The programs ---------------------------------------------------------------------------- */

static void block_on_noted(aw_runtime *rt, aw_future *f, const int *out) {
    if (note(aw_block_on_future(rt, f)) == 0) note(*out);
}

static void run_inside(void) {
    aw_runtime_options options = AW_RUNTIME_OPTIONS;
    aw_runtime *rt;
    options.allocator = &memory.allocator;
    if (note(aw_runtime_new(&rt, &options))) return;
    struct awaits_all_forms forms = AW_CALL(awaits_all_forms);
    block_on_noted(rt, &forms.future, &forms.out);
    struct spawns_many many = AW_CALL(spawns_many);
    block_on_noted(rt, &many.future, &many.out);
    struct joins_fibers joins = AW_CALL(joins_fibers);
    block_on_noted(rt, &joins.future, &joins.out);
    take(aw_block_on(rt, WORKS(1)));
    note(aw_block_on(rt, PLAIN()));
    struct pair p = {0, 0};
    if (note(aw_block_on_into(rt, &p, PAIR(1))) == 0) ownership_release(p.token);
    note(aw_block_on_status(rt, NOTHING()));
    aw_runtime_free(rt);
}

static void *run_thread(void *unused) {
    (void)unused;
    take(aw_run(WORKS(2)));
    note(aw_run(PLAIN()));
    return NULL;
}

/* Uses the stack pool of a thread, which is freed when the thread ends. */
static void run_on_a_thread(void) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    memory_check_empty(&memory);
    CHECK_EQ(mappings.bytes, 0);
}

/* Without a task to fail, a failure is logged, and the output is all zero. */
static int logged;

#define POLL_TO_END(f)                                                                             \
    do {                                                                                           \
        aw_flag flag = {0};                                                                        \
        while (POLL(f, &flag) == AW_PENDING)                                                       \
            CHECK(aw_flag_take(&flag));                                                            \
    } while (0)

static void run_without_runtime(void) {
    for (int i = 0; i < 3; i++) {
        struct works w = WORKS(i);
        POLL_TO_END(&w);
        take(w.out);
        int before = logged;
        struct makes_pair p = PAIR(i);
        POLL_TO_END(&p);
        if (logged == before) {
            ownership_release(p.out.token);
        } else {
            CHECK_EQ(p.out.token, 0);
            CHECK(p.out.number == 0.0);
        }
        struct returns_nothing n = NOTHING();
        POLL_TO_END(&n);
        /* Cancelled before its first poll, or after it. */
        struct works c = WORKS(5);
        aw_flag flag = {0};
        if (i && POLL(&c, &flag) == AW_READY)
            take(c.out);
        else
            CHECK_EQ(CANCEL(&c, &flag), AW_CANCELLED);
    }
}

/* ---- Every failure --------------------------------------------------------------------------- */

static void expect_no_memory(void *data, aw_log_level level, const char *message) {
    (void)data;
    CHECK_EQ(level, AW_LOG_PROBLEM);
    CHECK_CONTAINS(message, "no memory for the stack of fiber '");
    ADD(logged, 1);
}

enum what { ALLOCATIONS, PAGES };

/* One run. Returns the number of calls that failed. */
static long run_failing(void (*run)(void), enum what what, long fail_at, bool fail_on) {
    enum marks marks = mappings.marks;
    memory_init(&memory);
    memset(&mappings, 0, sizeof mappings);
    mappings.marks = marks;
    if (what == ALLOCATIONS) {
        memory.fail_at = fail_at;
        memory.fail_on = fail_on;
    } else {
        mappings.fail_at = fail_at;
        mappings.fail_on = fail_on;
    }
    aw_set_allocator(&memory.allocator);
    aw_set_log(expect_no_memory, NULL);
    ownership_reset();
    entered = dropped = made = refused = logged = finally_runs = 0;
    run();
    aw_stacks_trim();
    ownership_check_balanced();
    CHECK_EQ(entered + dropped, made);
    memory_check_empty(&memory);
    CHECK_EQ(mappings.bytes, 0);
    return what == ALLOCATIONS ? memory.failures : mappings.failures;
}

static void fail_each(void (*run)(void), enum what what, bool fail_on, long at_least) {
    CHECK_EQ(run_failing(run, what, 0, false), 0);
    CHECK_EQ(refused + logged, 0);
    long n = 1, clean = 0;
    for (; run_failing(run, what, n, fail_on); n++)
        clean += refused + logged == 0;
    CHECK_GT(n, at_least); /* the last run had no failure */
    CHECK_LT(clean, n);    /* some failures had consequences */
}

static void fail_all(enum what what, bool fail_on) {
    fail_each(run_inside, what, fail_on, what == PAGES ? 5 : 30);
    fail_each(run_on_a_thread, what, fail_on, 2);
    fail_each(run_without_runtime, what, fail_on, 2);
}

TEST_LIMIT(each_allocation_fails_once, 60) {
    fail_all(ALLOCATIONS, false);
}
TEST_LIMIT(each_allocation_and_all_after_it_fail, 60) {
    fail_all(ALLOCATIONS, true);
}
TEST_LIMIT(each_call_for_pages_fails_once, 60) {
    fail_all(PAGES, false);
}
TEST_LIMIT(each_call_for_pages_and_all_after_it_fail, 60) {
    fail_all(PAGES, true);
}
TEST_LIMIT(each_call_for_pages_of_an_older_kernel_fails_once, 60) {
    mappings.marks = MARKS_UNKNOWN;
    fail_all(PAGES, false);
}
TEST_LIMIT(each_call_for_pages_of_an_older_kernel_and_all_after_it_fail, 60) {
    mappings.marks = MARKS_UNKNOWN;
    fail_all(PAGES, true);
}

/* ---- No pages at all ------------------------------------------------------------------------- */

static void refuse_pages(void) {
    memory_init(&memory);
    aw_set_allocator(&memory.allocator);
    aw_set_log(expect_no_memory, NULL);
    ownership_reset();
    mappings.fail_at = mappings.calls + 1;
    mappings.fail_on = true;
}

static void allow_pages(void) {
    mappings.fail_on = false;
    aw_stacks_trim();
    ownership_check_balanced();
    memory_check_empty(&memory);
    CHECK_EQ(mappings.bytes, 0);
}

AW_FIBER(signed char, returns_char) {
    return 1;
}
AW_FIBER(short, returns_short) {
    return 1;
}
AW_FIBER(long, returns_long) {
    return 1;
}
AW_FIBER(long long, returns_long_long) {
    return 1;
}

TEST(every_output_that_can_says_no_memory) {
    refuse_pages();
    CHECK_EQ(aw_run(AW_CALL(returns_char)), -ENOMEM);
    CHECK_EQ(aw_run(AW_CALL(returns_short)), -ENOMEM);
    CHECK_EQ(aw_run(WORKS(0)), -ENOMEM);
    CHECK_EQ(aw_run(AW_CALL(returns_long)), -ENOMEM);
    CHECK_EQ(aw_run(AW_CALL(returns_long_long)), -ENOMEM);
    CHECK_EQ(aw_run(PLAIN()), -ENOMEM);
    CHECK_EQ(entered, 0);
    CHECK_EQ(dropped, 2);
    allow_pages();
}

TEST(a_task_whose_output_cannot_say_so_fails_with_no_memory) {
    struct pair p = {7, 7.5};
    refuse_pages();
    CHECK_EQ(aw_run_into(&p, PAIR(0)), -ENOMEM);
    CHECK_EQ(p.token, 7);
    CHECK(p.number == 7.5);
    CHECK_EQ(aw_run_status(NOTHING()), -ENOMEM);
    CHECK_EQ(aw_run_status(AND_BYTE()), -ENOMEM);
    CHECK_EQ(dropped, 3);
    CHECK_EQ(logged, 0);
    allow_pages();
}

/* The task fails through all futures between it and the fiber. Failures in cleanup are logged. */
TEST(cleanup_that_cannot_have_a_fiber_is_logged_and_goes_on) {
    refuse_pages();
    CHECK_EQ(aw_run(AW_CALL(holds_fibers, .token = ownership_token())), -ENOMEM);
    CHECK_EQ(finally_runs, 1);
    CHECK_EQ(logged, 2);
    CHECK_EQ(entered, 0);
    CHECK_EQ(dropped, 3); /* one in the body, two in the cleanup */
    allow_pages();
}

TEST(without_a_runtime_it_is_logged_and_the_output_is_zero) {
    refuse_pages();
    struct makes_pair p = PAIR(0);
    memset(&p.out, 0xff, sizeof p.out);
    aw_flag flag = {0};
    CHECK_EQ(POLL(&p, &flag), AW_READY);
    CHECK_EQ(p.out.token, 0);
    CHECK(p.out.number == 0.0);
    CHECK_EQ(logged, 1);
    CHECK_EQ(dropped, 1);
    allow_pages();
}

TEST(when_there_is_memory_again_fibers_run_again) {
    refuse_pages();
    for (int i = 0; i < 10; i++)
        CHECK_EQ(aw_run(WORKS(1)), -ENOMEM);
    mappings.fail_on = false;
    ownership_release(aw_run(WORKS(1)));
    CHECK_EQ(entered, 1);
    allow_pages();
}
