/* SPDX-License-Identifier: MIT
 *
 * Signal handlers that run on a fiber's stack, wherever it is interrupted: in its own code, in
 * an await, or in the middle of a switch. */
#include <awake.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "fiber/fiber_state.h"
#include "test.h"

static volatile sig_atomic_t signals, on_fibers;

/* Uses stack like any handler, and overwrites what it may. */
static void on_signal(int number) {
    (void)number;
    volatile unsigned char scratch[1024];
    for (size_t i = 0; i < sizeof scratch; i++)
        scratch[i] = 0xee;
    const aw__fiber *f = aw__fiber_current;
    const char *frame = __builtin_frame_address(0);
    signals++;
    if (f && frame > f->stack->low && frame < f->stack->high) on_fibers++;
}

static void catch_signal(int number) {
    struct sigaction s;
    memset(&s, 0, sizeof s);
    s.sa_handler = on_signal;
    s.sa_flags = SA_RESTART;
    CHECK_EQ(sigaction(number, &s, NULL), 0);
}

AW_FIBER(int, raises) {
    volatile int local = 1234;
    for (int i = 0; i < 100; i++) {
        errno = ERANGE;
        CHECK_EQ(raise(SIGUSR1), 0);
        CHECK_EQ(signals, i + 1);
        CHECK_EQ(local, 1234);
        CHECK_EQ(errno, ERANGE);
        CHECK_EQ(aw_fiber_yield(), 0);
        CHECK_EQ(local, 1234);
    }
    return 0;
}

TEST(a_handler_runs_on_the_stack_of_the_fiber_that_was_interrupted) {
    catch_signal(SIGUSR1);
    CHECK_EQ(aw_run(AW_CALL(raises)), 0);
    CHECK_EQ(signals, 100);
    CHECK_EQ(on_fibers, 100);
}

/* With all registers, which are many on some processors. */
TEST(a_handler_fits_on_the_smallest_stack) {
    catch_signal(SIGUSR1);
    CHECK_EQ(aw_run(AW_CALL(raises, .stack_size = 1)), 0);
    CHECK_EQ(on_fibers, 100);
}

/* ---- At any moment --------------------------------------------------------------------------- */

static void start_timer(long usec) {
    struct itimerval t = {{0, usec}, {0, usec}};
    CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void stop_timer(void) {
    struct itimerval t = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* The number of signals to wait for, and the time to give up: a slow machine delivers few. */
static int wanted;
static uint64_t give_up;

static bool enough(void) {
    return signals >= wanted || test_now_ns() > give_up;
}

static void begin(int n) {
    wanted = test_scale(n);
    give_up = test_now_ns() + 5000000000u;
    signals = on_fibers = 0;
    catch_signal(SIGALRM);
    start_timer(100);
}

/* A fiber has stopped the timer before the runtime ended: TSan does not survive a signal while a
 * thread is joined. */
static void check_signals(void) {
    CHECK_GE(signals, 5);
    CHECK_GE(on_fibers, 1);
}

/* Only switches, with values in as many registers as possible. */
AW_FIBER(int, switches, unsigned seed; long rounds;) {
    unsigned a = self->seed, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5;
    double x = a, y = 2 * x;
    long rounds = 0;
    do {
        for (int i = 0; i < 1000; i++) {
            CHECK_EQ(aw_fiber_yield(), 0);
            a++, b++, c++, d++, e++, f++, rounds++;
            x += 1, y += 2;
        }
        CHECK_EQ(a, self->seed + (unsigned)rounds);
        CHECK_EQ(b, a + 1);
        CHECK_EQ(c, a + 2);
        CHECK_EQ(d, a + 3);
        CHECK_EQ(e, a + 4);
        CHECK_EQ(f, a + 5);
        CHECK(x == (double)self->seed + (double)rounds);
        CHECK(y == 2 * x);
    } while (!enough());
    return 0;
}

AW_FIBER(int, switches_in_pairs) {
    enum { COUNT = 4 };
    struct switches *tasks[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        tasks[i] = aw_spawn(AW_CALL(switches, .seed = i * 1000));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_await(aw_task_join(tasks[i])), 0);
        CHECK_EQ(aw_task_take(tasks[i]), 0);
    }
    stop_timer();
    return 0;
}

TEST(signals_may_come_in_the_middle_of_a_switch) {
    ON_THIS_THREAD("the signals come to this thread");
    begin(3000);
    CHECK_EQ(aw_run(AW_CALL(switches_in_pairs)), 0);
    check_signals();
}

/* Stacks that are taken, abandoned and reused. */
AW_FIBER(int, is_short, int n;) {
    volatile int n = self->n;
    if (n % 3 == 0) CHECK_EQ(aw_fiber_yield(), 0);
    return n;
}

AW_FIBER(int, begins_and_ends_many) {
    int n = 0;
    do {
        for (int i = 0; i < 100; i++, n = (n + 1) % 1000)
            CHECK_EQ(aw_await(AW_CALL(is_short, .n = n)), n);
    } while (!enough());
    stop_timer();
    return 0;
}

TEST(signals_may_come_when_a_fiber_begins_or_ends) {
    begin(3000);
    CHECK_EQ(aw_run(AW_CALL(begins_and_ends_many)), 0);
    check_signals();
}

/* The runtime sleeps in the kernel, and is interrupted there. */
AW_FIBER(int, sleeps_in_between) {
    do {
        uint64_t before = test_now_ns();
        CHECK_EQ(aw_await(aw_sleep_for(AW_USEC(300))), 0);
        CHECK_GE(test_now_ns() - before, 300000);
        for (int i = 0; i < 100; i++)
            CHECK_EQ(aw_fiber_yield(), 0);
    } while (!enough() || !on_fibers);
    stop_timer();
    return 0;
}

TEST(signals_do_not_end_a_wait) {
    begin(500);
    CHECK_EQ(aw_run(AW_CALL(sleeps_in_between)), 0);
    check_signals();
}

/* ---- Masks and errors ------------------------------------------------------------------------ */

AW_FIBER(int, blocks_for_a_while) {
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &old), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(signals, 0);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    CHECK_EQ(signals, 1);
    CHECK_EQ(on_fibers, 1);
    return aw_fiber_yield();
}

TEST(a_signal_can_be_held_back_between_two_awaits) {
    catch_signal(SIGUSR1);
    CHECK_EQ(aw_run(AW_CALL(blocks_for_a_while)), 0);
}

/* A handler on an alternate stack of the program, while a fiber runs. */
static char other_stack[65536];
static volatile bool was_there;

static void on_other_stack(int number) {
    (void)number;
    const char *frame = __builtin_frame_address(0);
    was_there = frame > other_stack && frame < other_stack + sizeof other_stack;
}

AW_FIBER(int, raises_elsewhere) {
    for (int i = 0; i < 10; i++) {
        was_there = false;
        CHECK_EQ(raise(SIGUSR2), 0);
        CHECK(was_there);
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    return 0;
}

TEST(a_handler_may_have_a_stack_of_its_own) {
    struct sigaction s;
    stack_t alternate = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    memset(&s, 0, sizeof s);
    s.sa_handler = on_other_stack;
    s.sa_flags = SA_ONSTACK;
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR2, &s, NULL), 0);
    CHECK_EQ(aw_run(AW_CALL(raises_elsewhere)), 0);
    aw_stacks_trim();
    alternate.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
}
