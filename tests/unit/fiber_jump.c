/* SPDX-License-Identifier: MIT
 *
 * What plain C may do with its stack, a fiber may do: longjmp out of nested calls, also across
 * awaits, and allocate memory on the stack. */
#include <awake.h>

#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "support/settle.h"
#include "test.h"

/* ---- Jumps ----------------------------------------------------------------------------------- */

struct landing {
    jmp_buf buf;
    int deep;
};

/* Waits on the way down, and jumps from the bottom. */
static void __attribute__((noinline, noreturn)) descend(struct landing *l, int depth, bool wait) {
    volatile char frame[200];
    memset((char *)frame, depth, sizeof frame);
    if (wait && depth % 3 == 0) CHECK_EQ(aw_fiber_yield(), 0);
    if (depth == l->deep) longjmp(l->buf, depth + 1);
    descend(l, depth + 1, wait);
}

AW_FIBER(int, jumps, int rounds; int deep; bool wait;) {
    struct landing l = {.deep = self->deep};
    volatile int landed = 0;
    char pattern[64];
    memset(pattern, 0x77, sizeof pattern);
    for (volatile int i = 0; i < self->rounds; i++) {
        int r = setjmp(l.buf);
        if (r == 0) descend(&l, 0, self->wait);
        CHECK_EQ(r, self->deep + 1);
        landed++;
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    for (size_t i = 0; i < sizeof pattern; i++)
        CHECK_EQ(pattern[i], 0x77);
    return landed;
}

TEST(a_jump_out_of_nested_calls) {
    CHECK_EQ(aw_run(AW_CALL(jumps, .rounds = 1, .deep = 20)), 1);
    CHECK_EQ(aw_run(AW_CALL(jumps, .rounds = 300, .deep = 20)), 300);
}

TEST(a_jump_out_of_calls_that_have_waited) {
    CHECK_EQ(aw_run(AW_CALL(jumps, .rounds = 100, .deep = 30, .wait = true)), 100);
}

/* As deep as the stack allows, repeatedly: a jump must leave nothing behind. */
TEST(a_jump_leaves_nothing_on_the_stack) {
    CHECK_EQ(aw_run(AW_CALL(jumps, .rounds = 200, .deep = 50, .stack_size = 128 * 1024)), 200);
}

AW_FIBER(int, many_that_jump) {
    enum { COUNT = 20 };
    struct jumps *tasks[COUNT];
    for (int i = 0; i < COUNT; i++)
        tasks[i] = aw_spawn(AW_CALL(jumps, .rounds = 20, .deep = i + 1, .wait = true));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_await(aw_task_join(tasks[i])), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 20);
    }
    return 0;
}

TEST(many_fibers_jump_each_on_its_own_stack) {
    CHECK_EQ(aw_run(AW_CALL(many_that_jump)), 0);
}

/* setjmp before an await, longjmp after it. */
AW_FIBER(int, marks_then_waits, aw_notify *wake;) {
    jmp_buf start;
    volatile int times = 0;
    int r = setjmp(start);
    CHECK_EQ(r, times);
    if (times < 10) {
        times++;
        CHECK_EQ(aw_await(aw_sleep_for(AW_USEC(50))), 0);
        CHECK_EQ(aw_await_for(AW_SEC(10), aw_notify_wait(self->wake)), 0);
        longjmp(start, times);
    }
    return times;
}

AW_FIBER(int, wakes_it) {
    static aw_notify wake;
    struct marks_then_waits *task = aw_spawn(AW_CALL(marks_then_waits, .wake = &wake));
    while (!aw_task_is_finished(task)) {
        aw_notify_one(&wake);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    return aw_task_take(task);
}

TEST(a_jump_back_over_awaits) {
    CHECK_EQ(aw_run(AW_CALL(wakes_it)), 10);
}

/* Error handling: a cancelled await jumps to the cleanup. */
static jmp_buf cleanup;
static int cleaned;

static void __attribute__((noinline)) wait_or_jump(int depth) {
    if (depth) {
        wait_or_jump(depth - 1);
    } else {
        int r = aw_await(aw_sleep_for(AW_SEC(1000)));
        if (r < 0) longjmp(cleanup, -r);
    }
    __asm__ volatile("" ::: "memory"); /* prevents a tail call */
}

AW_FIBER(int, cleans_up) {
    int error = setjmp(cleanup);
    if (error == 0) {
        wait_or_jump(10);
        return 1;
    }
    CHECK_EQ(error, ECANCELED);
    CHECK(aw_cancelled());
    AW_SHIELD CHECK_EQ(aw_await(aw_sleep_for(1)), 0);
    cleaned++;
    return -error;
}

AW_FIBER(int, aborts_it) {
    struct cleans_up *task = aw_spawn(AW_CALL(cleans_up));
    CHECK_EQ(aw_await(rounds(1)), 0);
    aw_task_abort(task);
    CHECK_EQ(aw_await(aw_task_join(task)), -ECANCELED);
    aw_task_drop(task);
    return 0;
}

TEST(a_cancelled_await_may_jump_to_the_cleanup) {
    CHECK_EQ(aw_run(AW_CALL(aborts_it)), 0);
    CHECK_EQ(cleaned, 1);
}

/* The next fiber on that stack is not affected. */
TEST(a_stack_that_was_jumped_on_is_used_again) {
    for (int i = 0; i < 200; i++)
        CHECK_EQ(aw_run(AW_CALL(jumps, .rounds = 2, .deep = i % 40, .wait = i % 2)), 2);
}

static void *jump_on_a_thread(void *unused) {
    (void)unused;
    CHECK_EQ(aw_run(AW_CALL(many_that_jump)), 0);
    return NULL;
}

TEST(threads_jump_at_the_same_time) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, jump_on_a_thread, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* ---- Memory on the stack --------------------------------------------------------------------- */

AW_FIBER(int, takes_from_the_stack, unsigned char mark;) {
    enum { COUNT = 20 };
    unsigned char *pieces[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        pieces[i] = alloca(100 + i * 50);
        memset(pieces[i], self->mark + (int)i, 100 + i * 50);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t n = 0; n < 100 + i * 50; n++)
            CHECK_EQ(pieces[i][n], (unsigned char)(self->mark + i));
    return 0;
}

/* These arrays have a variable length on purpose. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wvla"

static long __attribute__((noinline)) with_array(size_t length, int depth) {
    long array[length], sum = 0;
    for (size_t i = 0; i < length; i++)
        array[i] = (long)i * depth;
    CHECK_EQ(aw_fiber_yield(), 0);
    if (depth) sum = with_array(length + 7, depth - 1);
    for (size_t i = 0; i < length; i++) {
        CHECK_EQ(array[i], (long)i * depth);
        sum += array[i];
    }
    return sum;
}

AW_FIBER(long, uses_arrays, size_t length;) {
    long before = with_array(self->length, 10);
    for (int i = 0; i < 20; i++) {
        int array[i + 1];
        for (int n = 0; n <= i; n++)
            array[n] = i + n;
        CHECK_EQ(aw_await(aw_sleep_for(1)), 0);
        CHECK_EQ(array[i], 2 * i);
        CHECK_EQ(array[0], i);
    }
    return with_array(self->length, 10) - before;
}

#pragma GCC diagnostic pop

AW_FIBER(int, many_that_take) {
    enum { COUNT = 20 };
    struct takes_from_the_stack *a[COUNT];
    struct uses_arrays *b[COUNT];
    for (int i = 0; i < COUNT; i++) {
        a[i] = aw_spawn(AW_CALL(takes_from_the_stack, .mark = (unsigned char)(i * 11)));
        b[i] = aw_spawn(AW_CALL(uses_arrays, .length = (size_t)i + 1));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_await(aw_task_join(a[i])), 0);
        CHECK_EQ(aw_task_take(a[i]), 0);
        CHECK_EQ(aw_await(aw_task_join(b[i])), 0);
        CHECK_EQ(aw_task_take(b[i]), 0);
    }
    return 0;
}

TEST(memory_taken_from_the_stack_survives_awaits) {
    CHECK_EQ(aw_run(AW_CALL(many_that_take)), 0);
}
