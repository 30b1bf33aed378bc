/* SPDX-License-Identifier: MIT
 *
 * What a switch preserves: registers, the rounding mode, the control word of x87, errno; and
 * that unwinding ends at the bottom of a fiber's stack. */
/* link: -lm */
#include <awake.h>

#include <errno.h>
#include <fenv.h>
#include <unwind.h>

#include "fiber/switch.h"
#include "test.h"

static aw__cpu_context here, there;
static char stack[65536] __attribute__((aligned(16)));

static void back_and_forth(void *arg) {
    int *count = arg;
    for (int value = 1;; value++) {
        ++*count;
        value = aw__switch(&there, &here, value * 2);
    }
}

TEST(values_go_both_ways) {
    int count = 0;
    aw__cpu_context_init(&there, stack, stack + sizeof stack, back_and_forth, &count);
    CHECK_EQ(aw__switch(&here, &there, 0), 2);
    CHECK_EQ(aw__switch(&here, &there, 10), 22);
    CHECK_EQ(aw__switch(&here, &there, -5), -8);
    CHECK_EQ(count, 3);
}

typedef unsigned long word;

static word work(word a, word b, word c, word d, word e, word f, word g, int depth) {
    if (depth == 0) aw_fiber_yield();
    word r = depth > 0 ? work(b, c, d, e, f, g, a, depth - 1) : 0;
    return r * 31 + a + b * 3 + c * 5 + d * 7 + e * 11 + f * 13 + g * 17;
}

/* Many live values across a switch, in two fibers that alternate. */
AW_FIBER(long, calculate, long seed;) {
    word s = (word)self->seed, a = s + 1, b = s + 2, c = s * 3, d = s ^ 4, e = s - 5, f = s + 6,
         g = s + 7;
    double x = (double)s * 0.5, y = (double)s * 0.25, z = x * y;
    for (int i = 0; i < 100; i++) {
        aw_fiber_yield();
        a += b, b += c, c ^= d, d += e, e ^= f, f += g, g += a;
        a ^= work(a, b, c, d, e, f, g, i % 7);
        x = x * 1.0001 + y, y = y * 0.999 + z, z = z - x * 0.0001;
    }
    return (long)((a ^ b ^ c ^ d ^ e ^ f ^ g ^ (word)(long)(x + y + z)) >> 1);
}

AW_FIBER(int, calculate_two, long alone;) {
    struct calculate *one = aw_spawn(AW_CALL(calculate, .seed = 12345));
    struct calculate *two = aw_spawn(AW_CALL(calculate, .seed = 999));
    CHECK_EQ(aw_await(aw_task_join(one)), 0);
    CHECK_EQ(aw_await(aw_task_join(two)), 0);
    CHECK(one->out == self->alone);
    CHECK(two->out != self->alone);
    aw_task_drop(one);
    aw_task_drop(two);
    return 0;
}

TEST(registers_survive) {
    long alone = aw_run(AW_CALL(calculate, .seed = 12345));
    CHECK_EQ(aw_run(AW_CALL(calculate_two, .alone = alone)), 0);
}

static volatile double one = 1.0, three = 3.0;

AW_FIBER(int, rounds_up) {
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fesetround(FE_UPWARD);
    double up = one / three;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(fegetround(), FE_UPWARD);
        CHECK(one / three == up);
    }
    return 0;
}

AW_FIBER(int, rounds_down) {
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fesetround(FE_DOWNWARD);
    double down = one / three;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(fegetround(), FE_DOWNWARD);
        CHECK(one / three == down);
    }
    return 0;
}

AW_FIBER(int, rounds_both_ways) {
    struct rounds_up *up = aw_spawn(AW_CALL(rounds_up));
    struct rounds_down *down = aw_spawn(AW_CALL(rounds_down));
    CHECK_EQ(aw_await(aw_task_join(up)), 0);
    CHECK_EQ(aw_await(aw_task_join(down)), 0);
    aw_task_drop(up);
    aw_task_drop(down);
    return fegetround() == FE_TONEAREST ? 0 : -EINVAL;
}

TEST(each_fiber_has_its_rounding_mode) {
    CHECK_EQ(aw_run(AW_CALL(rounds_both_ways)), 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
}

AW_FIBER(int, sets_errno, int value;) {
    for (int i = 0; i < 5; i++) {
        errno = self->value;
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(errno, self->value);
        CHECK_EQ(aw_await(aw_sleep_for(1)), 0);
        CHECK_EQ(errno, self->value);
    }
    return 0;
}

AW_FIBER(int, sets_errno_twice) {
    struct sets_errno *a = aw_spawn(AW_CALL(sets_errno, .value = ERANGE));
    struct sets_errno *b = aw_spawn(AW_CALL(sets_errno, .value = EDOM));
    CHECK_EQ(aw_await(aw_task_join(a)), 0);
    CHECK_EQ(aw_await(aw_task_join(b)), 0);
    aw_task_drop(a);
    aw_task_drop(b);
    return 0;
}

TEST(errno_survives_a_switch) {
    CHECK_EQ(aw_run(AW_CALL(sets_errno_twice)), 0);
}

AW_FIBER(int, changes_errno) {
    errno = EDOM;
    return aw_fiber_yield();
}

AW_FIBER(int, awaits_one_that_changes_errno) {
    errno = ERANGE;
    CHECK_EQ(aw_await(AW_CALL(changes_errno)), 0);
    return errno == ERANGE ? 0 : -errno;
}

TEST(errno_survives_what_the_awaited_one_does_with_it) {
    CHECK_EQ(aw_run(AW_CALL(awaits_one_that_changes_errno)), 0);
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *arg) {
    (void)context;
    return ++*(int *)arg < 1000 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int __attribute__((noinline)) frames(int deep) {
    int n = 0;
    if (deep)
        n = frames(deep - 1);
    else
        _Unwind_Backtrace(count_frame, &n);
    __asm__ volatile("" : "+r"(n)); /* prevents a tail call */
    return n;
}

AW_FIBER(int, unwinds, int deep;) {
    CHECK_EQ(aw_fiber_yield(), 0);
    return frames(self->deep);
}

/* Only the stack of the fiber, not that of its poll. */
TEST(unwinding_ends_at_the_entry) {
    int shallow = aw_run(AW_CALL(unwinds, .deep = 0));
    int deep = aw_run(AW_CALL(unwinds, .deep = 7));
    CHECK_EQ(deep, shallow + 7);
    CHECK(shallow > 2);
    CHECK(shallow < 12);
}
