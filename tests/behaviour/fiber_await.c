/* SPDX-License-Identifier: MIT
 *
 * The forms of awaiting in a fiber, for every type of output, at any call depth; and the forms of
 * definition. What must not compile is in tests/compile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/checked_waker.h"
#include "support/clock.h"
#include "support/fiber_split.h"
#include "support/script.h"

/* ---- Every signed integer --------------------------------------------------------------------- */

/* Returns `value` after `pends` polls, also when it is cancelled. */
#define RETURNS(T, name)                                                                           \
    AW_FIBER(T, fiber_of_##name, T value; int pends;) {                                            \
        for (int i = 0; i < self->pends; i++)                                                      \
            if (aw_fiber_yield() < 0) break;                                                       \
        return self->value;                                                                        \
    }                                                                                              \
    AW_ASYNC(T, function_of_##name, T value; int pends; int i;) {                                  \
        AW_BEGIN;                                                                                  \
        for (self->i = 0; self->i < self->pends; self->i++)                                        \
            AW_YIELD;                                                                              \
        AW_RETURN(self->value);                                                                    \
        AW_END;                                                                                    \
    }
RETURNS(signed char, signed_char)
RETURNS(short, short)
RETURNS(int, int)
RETURNS(long, long)
RETURNS(long long, long_long)

#define SIGNED(name, T, low, high)                                                                 \
    AW_FIBER(int, awaits_##name) {                                                                 \
        for (int pends = 0; pends < 3; pends++) {                                                  \
            CHECK(aw_await(AW_CALL(fiber_of_##name, .value = (low), .pends = pends)) == (low));    \
            CHECK(aw_await(AW_CALL(function_of_##name, .value = (high), .pends = pends)) ==        \
                  (high));                                                                         \
            CHECK(aw_await_for(AW_SEC(1), AW_CALL(fiber_of_##name, .value = (high),                \
                                                  .pends = pends)) == (high));                     \
            T out = 0;                                                                             \
            CHECK_EQ(                                                                              \
                aw_await_into(&out, AW_CALL(function_of_##name, .value = (low), .pends = pends)),  \
                0);                                                                                \
            CHECK(out == (low));                                                                   \
        }                                                                                          \
        CHECK_EQ(aw_await(aw_never_ready()), -ECANCELED);                                          \
        T refused = aw_await(AW_CALL(fiber_of_##name, .value = 1));                                \
        CHECK_EQ(refused, -ECANCELED);                                                             \
        refused = aw_await_for(AW_SEC(1), AW_CALL(function_of_##name, .value = 1));                \
        CHECK_EQ(refused, -ECANCELED);                                                             \
        return 0;                                                                                  \
    }                                                                                              \
    TEST(an_output_of_##name##_is_the_value_of_the_await) {                                        \
        aw_runtime *rt = paused_runtime();                                                         \
        struct awaits_##name *task = aw_spawn_on(rt, AW_CALL(awaits_##name));                      \
        run_until(rt, aw_now(rt) + AW_SEC(10));                                                    \
        CHECK(!aw_task_is_finished(task));                                                         \
        aw_task_abort(task);                                                                       \
        CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);                                 \
        aw_task_drop(task);                                                                        \
        aw_runtime_free(rt);                                                                       \
    }
SIGNED(signed_char, signed char, -128, 127)
SIGNED(short, short, -32768, 32767)
SIGNED(int, int, -2147483647 - 1, 2147483647)
SIGNED(long, long, -123456789012L, 123456789012L)
SIGNED(long_long, long long, INT64_MIN, INT64_MAX)

/* ---- Every other output ----------------------------------------------------------------------- */

struct large {
    long numbers[40];
};

RETURNS(const char *, pointer)
RETURNS(struct large, large)
RETURNS(double, double)
RETURNS(unsigned, unsigned)
RETURNS(uint64_t, uint64)
RETURNS(bool, bool)

AW_FIBER(int, awaits_others, int *step;) {
    for (int pends = 0; pends < 2; pends++) {
        const char *p = NULL;
        CHECK_EQ(aw_await_into(&p, AW_CALL(fiber_of_pointer, .value = "text", .pends = pends)), 0);
        CHECK_STR(p, "text");
        struct large l = {{0}}, value_in = {{[7] = 77, [39] = 39}};
        CHECK_EQ(aw_await_into(&l, AW_CALL(fiber_of_large, .value = value_in, .pends = pends)), 0);
        CHECK(memcmp(&l, &value_in, sizeof l) == 0);
        l.numbers[7] = 0;
        CHECK_EQ(aw_await_into(&l, AW_CALL(function_of_large, .value = value_in, .pends = pends)),
                 0);
        CHECK(memcmp(&l, &value_in, sizeof l) == 0);
        double d = 0;
        CHECK_EQ(aw_await_into(&d, AW_CALL(fiber_of_double, .value = -0.25, .pends = pends)), 0);
        CHECK(d == -0.25);
        unsigned u = 0;
        CHECK_EQ(aw_await_into(&u, AW_CALL(fiber_of_unsigned, .value = ~0u, .pends = pends)), 0);
        CHECK(u == ~0u);
        uint64_t w = 0;
        CHECK_EQ(
            aw_await_into_for(AW_SEC(1), &w,
                              AW_CALL(fiber_of_uint64, .value = UINT64_MAX - 1, .pends = pends)),
            0);
        CHECK(w == UINT64_MAX - 1);
        bool b = false;
        CHECK_EQ(aw_await_into_by(aw_now(aw_runtime_current()) + AW_SEC(1), &b,
                                  AW_CALL(fiber_of_bool, .value = true, .pends = pends)),
                 0);
        CHECK(b);
    }
    *self->step = 1;
    struct large kept = {{5}};
    CHECK_EQ(aw_await(aw_never_ready()), -ECANCELED);
    CHECK_EQ(aw_await_into(&kept, AW_CALL(fiber_of_large)), -ECANCELED);
    CHECK_EQ(aw_await_into_for(AW_SEC(1), &kept, AW_CALL(fiber_of_large)), -ECANCELED);
    CHECK_EQ(kept.numbers[0], 5); /* untouched */
    *self->step = 2;
    return 0;
}

TEST(an_output_that_cannot_carry_an_error_is_stored_by_await_into) {
    int step = 0;
    aw_runtime *rt = paused_runtime();
    struct awaits_others *task = aw_spawn_on(rt, AW_CALL(awaits_others, .step = &step));
    run_until(rt, aw_now(rt) + AW_SEC(10));
    CHECK_EQ(step, 1);
    aw_task_abort(task);
    CHECK_EQ(aw_block_on(rt, aw_task_join(task)), -ECANCELED);
    CHECK_EQ(step, 2);
    aw_task_drop(task);
    aw_runtime_free(rt);
}

/* ---- Nothing ---------------------------------------------------------------------------------- */

static int voids;

AW_FIBER(void, nothing, int pends;) {
    for (int i = 0; i < self->pends; i++)
        aw_fiber_yield();
    voids++;
    if (self->pends == 1) return;
    voids++;
}
AW_FIBER(void, nothing_at_all) {
    voids += 100;
}
AW_FIBER(int, awaits_nothing) {
    CHECK_EQ(aw_await_status(AW_CALL(nothing)), 0);
    CHECK_EQ(voids, 2);
    CHECK_EQ(aw_await_status(AW_CALL(nothing, .pends = 1)), 0);
    CHECK_EQ(voids, 3);
    CHECK_EQ(aw_await_status(AW_CALL(nothing_at_all)), 0);
    CHECK_EQ(voids, 103);
    return 0;
}

TEST(a_fiber_may_return_nothing) {
    CHECK_EQ(aw_run(AW_CALL(awaits_nothing)), 0);
    CHECK_EQ(aw_run_status(AW_CALL(nothing_at_all)), 0);
    CHECK_EQ(voids, 203);
}

/* ---- Status, future --------------------------------------------------------------------------- */

AW_FIBER(int, awaits_statuses, struct script *s;) {
    CHECK_EQ(aw_await_status(leaf(&self->s[0])), 0);
    CHECK_EQ(self->s[0].discards, 1);
    struct leaf l = leaf(&self->s[1]);
    CHECK_EQ(aw_await_future(&l.future), 0);
    CHECK_EQ(l.out, self->s[1].out);
    ownership_release(l.out);
    CHECK_EQ(aw_await_status(leaf(&self->s[2])), -ECANCELED);
    l = leaf(&self->s[3]);
    CHECK_EQ(aw_await_future(&l.future), -ECANCELED);
    CHECK(!aw_future_finished(&l.future));
    return 0;
}

TEST(a_status_discards_the_output_and_a_future_keeps_it_in_place) {
    struct script s[4] = {{.pends = 1}, {.pends = 1}, {.pends = NEVER}, {.pends = 0}};
    struct awaits_statuses f = AW_CALL(awaits_statuses, .s = s);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);
    CHECK_EQ(s[1].discards + s[2].discards + s[3].discards, 0);
    ownership_check_balanced();
}

/* ---- Time ------------------------------------------------------------------------------------- */

AW_FIBER(double, sleeps_first) {
    CHECK_EQ(aw_await(aw_sleep_for(AW_SEC(9))), -ECANCELED);
    return 9;
}
AW_FIBER(int, keeps_time) {
    aw_runtime *rt = aw_runtime_current();
    uint64_t begin = aw_now(rt);
    double d = 1.5;
    CHECK_EQ(aw_await(aw_sleep_for(AW_SEC(2))), 0);
    CHECK_GE(aw_now(rt) - begin, AW_SEC(2));
    begin = aw_now(rt);
    CHECK_EQ(aw_await_for(AW_SEC(3), aw_sleep_for(AW_SEC(100))), -ETIMEDOUT);
    CHECK_GE(aw_now(rt) - begin, AW_SEC(3));
    CHECK_LT(aw_now(rt) - begin, AW_SEC(4));
    CHECK_EQ(aw_await_by(begin + AW_SEC(5), aw_sleep_for(AW_SEC(100))), -ETIMEDOUT);
    CHECK_GE(aw_now(rt) - begin, AW_SEC(5));
    CHECK_LT(aw_now(rt) - begin, AW_SEC(6));
    CHECK_EQ(aw_await_into_for(AW_SEC(1), &d, AW_CALL(sleeps_first)), -ETIMEDOUT);
    CHECK_GE(aw_now(rt) - begin, AW_SEC(6));
    CHECK_LT(aw_now(rt) - begin, AW_SEC(7));
    CHECK_EQ(aw_await_into_by(begin, &d, AW_CALL(fiber_of_double, .pends = 1)), -ETIMEDOUT);
    CHECK(d == 1.5);
    CHECK_EQ(aw_await_by(begin, aw_ready_now(6)), 6); /* past the deadline, but ready */
    CHECK_EQ(aw_await_for(0, aw_ready_now(7)), 7);
    CHECK(!aw_cancelled());
    return 0;
}

static uint64_t time_taken(void) {
    aw_runtime *rt = paused_runtime();
    uint64_t begin = aw_now(rt);
    CHECK_EQ(aw_block_on(rt, AW_CALL(keeps_time)), 0);
    uint64_t took = aw_now(rt) - begin;
    aw_runtime_free(rt);
    return took;
}

TEST(timed_awaits_keep_virtual_time_and_two_runs_are_the_same) {
    CHECK_EQ(time_taken(), time_taken());
}

/* ---- Several calls deep ----------------------------------------------------------------------- */

static int __attribute__((noinline)) deep(int levels, struct script *s) {
    volatile char pad[64];
    pad[0] = (char)levels;
    int r = levels ? deep(levels - 1, s) : aw_await(leaf(s));
    CHECK_EQ(pad[0], (char)levels);
    return r;
}

AW_FIBER(int, calls_deep, struct script *s;) {
    int r = deep(200, self->s);
    CHECK_EQ(aw_await(aw_ready_now(3)), 3);
    return r;
}

TEST(an_await_works_at_any_call_depth) {
    struct script s = {.pends = 2};
    struct calls_deep f = AW_CALL(calls_deep, .s = &s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    CHECK_EQ(f.out, s.out);
    script_take(&s);
    ownership_check_balanced();
}

/* Awaits in a callback of the C library. */
static int compares(const void *a, const void *b) {
    CHECK_EQ(aw_fiber_yield(), 0);
    return *(const int *)a - *(const int *)b;
}
AW_FIBER(int, sorts) {
    int numbers[32];
    for (int i = 0; i < 32; i++)
        numbers[i] = i * 7 % 32;
    qsort(numbers, 32, sizeof numbers[0], compares);
    for (int i = 0; i < 32; i++)
        CHECK_EQ(numbers[i], i);
    return 0;
}

TEST(a_callback_may_await) {
    CHECK_EQ(aw_run(AW_CALL(sorts)), 0);
}

/* ---- Nested awaits ---------------------------------------------------------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* each macro has a local of the same name */
static aw_ready plus_one(int n) {
    return aw_ready_now(n + 1);
}
AW_FIBER(int, awaits_its_arguments) {
    int one = aw_await(plus_one(aw_await(aw_ready_now(0))));
    return one + aw_await(aw_ready_now(aw_await_for(AW_SEC(1), plus_one(one))));
}

#pragma GCC diagnostic pop

TEST(an_await_may_be_an_argument_of_an_await) {
    CHECK_EQ(aw_run(AW_CALL(awaits_its_arguments)), 3);
}

/* ---- Declared in another file ----------------------------------------------------------------- */

TEST(a_declared_fiber_is_called_by_its_short_name) {
    struct split_sum f = split_sum(.a = 2, .b = 3);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, 5);
    f = AW_CALL(split_sum, .b = 3, .stack_size = 64 * 1024);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_EQ(f.out, 3);
    CHECK_EQ(sizeof f, aw_type_split_sum.size);
    CHECK_STR(aw_type_split_sum.name, "split_sum");
    CHECK(aw_type_split_sum.flags & AW_OUT_ERRNO);
    CHECK(!(aw_type_split_line.flags & AW_OUT_ERRNO));
}

AW_ASYNC(int, embeds, struct split_line line; struct split_sum sum;) {
    AW_BEGIN;
    AW_AWAIT(self->line, split_line(.n = 4, .mark = strdup("# ")));
    CHECK_STR(self->line.out, "# 8");
    free(self->line.out);
    AW_AWAIT(self->sum, split_sum(.a = 1));
    AW_RETURN((int)self->sum.out);
    AW_END;
}

TEST(a_declared_fiber_can_be_embedded_with_only_its_header) {
    CHECK_EQ(aw_run(AW_CALL(embeds)), 1);
}

/* The sanitizers would report a leak. */
TEST(a_declared_fiber_has_its_discard_and_its_drop_part) {
    struct split_line f = split_line(.n = 4, .mark = strdup("x"));
    CHECK_EQ(drive_cancel(&f.future), AW_CANCELLED);

    f = split_line(.n = 4, .mark = strdup("x"));
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    f.out = NULL;
    CHECK_EQ(drive_cancel_to_end(&f.future), AW_CANCELLED);

    f = split_line(.n = 4);
    CHECK_EQ(drive_poll_to_end(&f.future), AW_READY);
    CHECK_STR(f.out, "8");
    aw_future_discard(&f.future);
}

/* ---- A function and a pointer ----------------------------------------------------------------- */

static int adds(void *arg) {
    int *n = arg;
    for (int i = 0; i < 3; i++) {
        ++*n;
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    return *n;
}
AW_FIBER(int, awaits_plain_ones) {
    int a = 0, b = 10;
    CHECK_EQ(aw_await(aw_fiber_of(adds, &a)), 3);
    CHECK_EQ(aw_await(aw_fiber_with(adds, NULL, &b, 16 * 1024)), 13);
    aw_fiber *task = aw_spawn(aw_fiber_of(adds, &a));
    CHECK_EQ(aw_await(aw_task_join(task)), 0);
    CHECK_EQ(aw_task_take(task), 6);
    return 0;
}

TEST(a_function_and_a_pointer_are_a_fiber) {
    CHECK_EQ(aw_run(AW_CALL(awaits_plain_ones)), 0);
    int n = 5;
    CHECK_EQ(aw_run(aw_fiber_of(adds, &n)), 8);
    CHECK_EQ(aw_fiber_type.size, sizeof(aw_fiber));
}

/* ---- Text ------------------------------------------------------------------------------------- */

static char text[4096];

static const char *describe(const aw_future *f) {
    CHECK_EQ(aw_future_describe(f, text, sizeof text), (int)strlen(text));
    return text;
}

enum { BOTTOM_AWAITS = __LINE__ + 2, BOTTOM_YIELDS = __LINE__ + 3 };
AW_FIBER(int, bottom, struct script *s;) {
    int r = aw_await(leaf(self->s));
    CHECK_EQ(aw_fiber_yield(), 0);
    return r;
}
enum { MIDDLE_AWAITS = __LINE__ + 3 };
AW_ASYNC(int, middle, struct script *s; aw_box box;) {
    AW_BEGIN;
    AW_AWAIT(self->box, aw_box_new(AW_CALL(bottom, .s = self->s)));
    AW_RETURN(aw_box_take(struct bottom, &self->box));
    AW_END;
}
enum { TOP_AWAITS = __LINE__ + 2 };
AW_FIBER(int, top, struct script *s;) {
    return aw_await(AW_CALL(middle, .s = self->s));
}

TEST(a_chain_names_each_fiber_and_the_location_where_it_waits) {
    char expected[1024];
    struct script s = {.pends = NEVER};
    struct top f = AW_CALL(top, .s = &s);
    CHECK_STR(describe(&f.future), "top, not started\n");
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    snprintf(expected, sizeof expected,
             "top: waits at %s:%d\n"
             "  middle at %s:%d\n"
             "    box\n"
             "      bottom: waits at %s:%d\n"
             "        leaf\n",
             __FILE__, TOP_AWAITS, __FILE__, MIDDLE_AWAITS, __FILE__, BOTTOM_AWAITS);
    CHECK_STR(describe(&f.future), expected);

    script_finish(&s);
    CHECK_EQ(drive_poll(&f.future), AW_PENDING);
    snprintf(expected, sizeof expected, "      bottom: waits at %s:%d\n", __FILE__, BOTTOM_YIELDS);
    CHECK_CONTAINS(describe(&f.future), expected);
    CHECK(strstr(text, "leaf") == NULL);
    CHECK_EQ(drive_poll(&f.future), AW_READY);
    script_take(&s);
    CHECK(strstr(describe(&f.future), "waits at") == NULL); /* its stack is freed */
    ownership_check_balanced();
}

AW_FIBER(int, describes_itself, aw_runtime *rt;) {
    aw_runtime_describe(self->rt, text, sizeof text);
    CHECK_CONTAINS(text, "describes_itself");
    CHECK_EQ(aw_fiber_yield(), 0);
    aw_runtime_describe(self->rt, text, sizeof text);
    CHECK_CONTAINS(text, "fiber_await.c:");
    return 0;
}

TEST(a_running_fiber_may_ask_for_the_chains_of_its_runtime) {
    aw_runtime *rt = paused_runtime();
    CHECK_EQ(aw_block_on(rt, AW_CALL(describes_itself, .rt = rt)), 0);
    aw_runtime_free(rt);
}

#include "support/fiber_split.c"
