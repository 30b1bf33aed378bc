/* SPDX-License-Identifier: MIT
 *
 * A fiber that needs more stack than it has: the program ends and names the fiber, and no other
 * memory has been written. The program's own handler of SIGSEGV is respected. */
#include <awake.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber/fiber_state.h"
#include "test.h"

/* ---- How a process ends, and what it prints -------------------------------------------------- */

static char output[16384];

/* Runs a function in a child process, and returns its status. */
static int end_of(void (*body)(void)) {
    struct test_death death = test_death_begin(__FILE__, __LINE__);
    if (death.child == 0) {
        body();
        _exit(0);
    }
    size_t length = 0;
    for (ssize_t n; (n = read(death.output, output + length, sizeof output - 1 - length)) != 0;) {
        if (n > 0)
            length += (size_t)n;
        else
            CHECK_EQ(errno, EINTR);
    }
    output[length] = 0;
    close(death.output);
    int status;
    CHECK_EQ(waitpid(death.child, &status, 0), death.child);
    return status;
}

static void check_faults(void (*body)(void)) {
    int status = end_of(body);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
        FAIL("it should die by SIGSEGV, and not with status 0x%x\n%s", status, output);
}

static void check_exits(void (*body)(void), int code) {
    int status = end_of(body);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        FAIL("it should exit with %d, and not with status 0x%x\n%s", code, status, output);
}

/* A sanitizer handles SIGSEGV, so by default the library leaves the signal to it. */
static void needs_sigsegv_free(void) {
    if (test_under_sanitizer()) SKIP("the sanitizer has a handler of SIGSEGV of its own");
}

static void report(void) {
    CHECK_EQ(aw_stack_overflow(AW_OVERFLOW_REPORT), 0);
}

/* ---- Overflowing ----------------------------------------------------------------------------- */

static volatile int forever = 1;

static int __attribute__((noinline)) recurse(int n) {
    volatile char filler[256];
    filler[0] = (char)n;
    int r = forever ? recurse(n + 1) : 0;
    return r + filler[0];
}

AW_FIBER(int, overflows) {
    CHECK_EQ(aw_fiber_yield(), 0);
    return recurse(0);
}
enum { OVERFLOWS_LINE = __LINE__ - 3 };

static void run_overflow(void) {
    aw_run(AW_CALL(overflows, .stack_size = 65536));
}

static void check_named(void) {
    char location[64];
    CHECK_CONTAINS(output,
                   "awake: stack overflow in fiber 'overflows': its stack of 65536 bytes is used "
                   "up; it waited last at ");
    snprintf(location, sizeof location, "fiber_overflow.c:%d\n", OVERFLOWS_LINE);
    CHECK_CONTAINS(output, location);
}

TEST(an_overflow_ends_the_program_and_names_the_fiber) {
    needs_sigsegv_free();
    check_faults(run_overflow);
    check_named();
}

static void run_overflow_reported(void) {
    report();
    run_overflow();
}

TEST(it_is_reported_in_front_of_another_handler) {
    check_faults(run_overflow_reported);
    check_named();
}

AW_FIBER(int, overflows_at_once) {
    return recurse(0);
}

static void run_overflow_at_once(void) {
    report();
    aw_run(AW_CALL(overflows_at_once, .stack_size = 1));
}

TEST(a_fiber_that_never_waited_is_named_without_a_location) {
    check_faults(run_overflow_at_once);
    CHECK_CONTAINS(output, "stack overflow in fiber 'overflows_at_once': its stack of ");
    CHECK_CONTAINS(output, " bytes is used up\n");
}

static int overflow_plainly(void *unused) {
    (void)unused;
    return recurse(0);
}

static void run_plain(void) {
    report();
    aw_run(aw_fiber_with(overflow_plainly, NULL, NULL, 65536));
}

TEST(a_plain_function_is_named_too) {
    check_faults(run_plain);
    CHECK_CONTAINS(output, "stack overflow in fiber 'fiber'");
}

static void *thread_overflows(void *unused) {
    (void)unused;
    run_overflow();
    return NULL;
}

static void run_on_a_thread(void) {
    report();
    aw_run(aw_sleep_for(1)); /* no fiber has run on the first thread */
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, thread_overflows, NULL), 0);
    pthread_join(thread, NULL);
}

AW_FIBER(int, does_nothing) {
    return aw_fiber_yield();
}

static void run_on_a_second_thread(void) {
    report();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    run_on_a_thread();
}

TEST(every_thread_has_the_handler) {
    check_faults(run_on_a_thread);
    check_named();
    check_faults(run_on_a_second_thread);
    check_named();
}

static void run_after_trim(void) {
    report();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    aw_stacks_trim();
    run_overflow();
}

TEST(it_is_there_again_after_a_trim) {
    check_faults(run_after_trim);
    check_named();
}

/* ---- On workers ------------------------------------------------------------------------------ */

static void run_overflow_on(aw_flavour flavour) {
    aw_runtime_options o = AW_RUNTIME_OPTIONS;
    o.flavour = flavour;
    o.workers = 2;
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    struct overflows *h = aw_spawn_on(rt, AW_CALL(overflows, .stack_size = 65536));
    aw_block_on(rt, aw_task_join(h));
}

static void run_overflow_on_a_worker(void) {
    run_overflow_on(AW_MULTI_THREAD);
}
static void run_overflow_on_a_core(void) {
    run_overflow_on(AW_THREAD_PER_CORE);
}
static void run_overflow_on_a_worker_reported(void) {
    report();
    run_overflow_on(AW_MULTI_THREAD);
}

TEST(an_overflow_on_a_worker_names_the_fiber) {
    needs_sigsegv_free();
    check_faults(run_overflow_on_a_worker);
    check_named();
    check_faults(run_overflow_on_a_core);
    check_named();
}

TEST(an_overflow_on_a_worker_is_reported_in_front_of_another_handler) {
    check_faults(run_overflow_on_a_worker_reported);
    check_named();
}

static long overflow_blocking(void *unused) {
    (void)unused;
    run_overflow();
    return 0;
}

static void run_overflow_in_a_blocking_call(void) {
    report();
    aw_run(aw_blocking(overflow_blocking, NULL));
}

TEST(an_overflow_in_a_blocking_call_names_the_fiber) {
    check_faults(run_overflow_in_a_blocking_call);
    check_named();
}

/* ---- Nested fibers --------------------------------------------------------------------------- */

AW_FIBER(int, awaits_an_overflow) {
    return aw_await(AW_CALL(overflows, .stack_size = 65536));
}

static void run_inner(void) {
    report();
    aw_run(AW_CALL(awaits_an_overflow));
}

TEST(the_fiber_that_overflowed_is_named_and_not_the_one_that_awaits_it) {
    check_faults(run_inner);
    check_named();
}

AW_FIBER(int, returns_at_once) {
    return 1;
}

AW_FIBER(int, overflows_after_another) {
    CHECK_EQ(aw_await(AW_CALL(does_nothing)), 0);
    CHECK_EQ(aw_await(AW_CALL(returns_at_once)), 1);
    return recurse(0);
}

static void run_outer(void) {
    report();
    aw_run(AW_CALL(overflows_after_another));
}

TEST(a_fiber_that_has_awaited_another_is_named) {
    check_faults(run_outer);
    CHECK_CONTAINS(output, "stack overflow in fiber 'overflows_after_another'");
}

/* ---- The program's own handlers and stacks --------------------------------------------------- */

static sigjmp_buf after_fault;
static volatile int faults;
static char *volatile bad_address;

static void user_handler(int number) {
    CHECK_EQ(number, SIGSEGV);
    faults++;
    siglongjmp(after_fault, 1);
}

static void user_action(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGSEGV);
    CHECK(context != NULL);
    CHECK_EQ((char *)info->si_addr, bad_address);
    faults++;
    siglongjmp(after_fault, 1);
}

static void last_handler(int number) {
    (void)number;
    _exit(33);
}

/* An alternate stack of the program. */
static char user_stack[65536];

static void use_user_stack(void) {
    stack_t mine = {.ss_sp = user_stack, .ss_size = sizeof user_stack};
    CHECK_EQ(sigaltstack(&mine, NULL), 0);
}

static bool user_stack_is_used(void) {
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    return !(now.ss_flags & SS_DISABLE) && now.ss_sp == (void *)user_stack;
}

static void handle(void (*handler)(int), void (*action)(int, siginfo_t *, void *)) {
    struct sigaction s;
    memset(&s, 0, sizeof s);
    s.sa_flags = SA_ONSTACK;
    if (action) {
        s.sa_flags |= SA_SIGINFO;
        s.sa_sigaction = action;
    } else {
        s.sa_handler = handler;
    }
    CHECK_EQ(sigaction(SIGSEGV, &s, NULL), 0);
}

static void (*handler_now(void))(int) {
    struct sigaction now;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    return now.sa_handler;
}

/* Writes to an address that cannot be written. */
static void fault(void) {
    int before = faults;
    if (!sigsetjmp(after_fault, 1)) {
        *(volatile char *)bad_address = 1;
        FAIL("no fault at %p", (void *)bad_address);
    }
    CHECK_EQ(faults, before + 1);
}

AW_FIBER(int, faults_in_a_fiber) {
    for (int i = 0; i < 3; i++) {
        fault();
        CHECK_EQ(aw_fiber_yield(), 0);
    }
    return 0;
}

static void set_bad_address(void) {
    bad_address = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bad_address != MAP_FAILED);
}

static void run_other_faults(void) {
    set_bad_address();
    report();
    fault();
    CHECK_EQ(aw_run(AW_CALL(faults_in_a_fiber)), 0);
    fault();
    CHECK_EQ(faults, 5);
    run_overflow();
}

static void run_in_front_of_handler(void) {
    handle(user_handler, NULL);
    run_other_faults();
}
static void run_in_front_of_action(void) {
    handle(NULL, user_action);
    run_other_faults();
}

TEST(a_handler_behind_it_gets_all_other_faults) {
    check_faults(run_in_front_of_handler);
    check_named();
    check_faults(run_in_front_of_action);
    check_named();
}

static void run_auto_with_handler(void) {
    handle(last_handler, NULL);
    use_user_stack();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK(handler_now() == last_handler);
    CHECK(user_stack_is_used());
    run_overflow();
}

TEST(a_handler_that_was_there_before_is_left_alone) {
    check_exits(run_auto_with_handler, 33);
    CHECK(strstr(output, "overflow in fiber") == NULL);
}

static void run_auto_ignoring(void) {
    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK(handler_now() == SIG_IGN);
    CHECK_EQ(raise(SIGSEGV), 0); /* and is ignored */
}

TEST(a_program_that_ignores_the_signal_goes_on_to_do_so) {
    check_exits(run_auto_ignoring, 0);
}

static void run_report_ignoring(void) {
    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    report();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK_EQ(raise(SIGSEGV), 0);
    run_overflow();
}

TEST(a_program_that_ignores_the_signal_does_so_behind_the_handler) {
    check_faults(run_report_ignoring);
    check_named();
}

static void run_leave(void) {
    CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
    CHECK_EQ(aw_stack_overflow(AW_OVERFLOW_LEAVE), 0);
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK(handler_now() == SIG_DFL);
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    if (!test_under_sanitizer()) CHECK(now.ss_flags & SS_DISABLE);
    run_overflow();
}

TEST(left_alone_an_overflow_is_a_plain_fault) {
    check_faults(run_leave);
    CHECK(strstr(output, "overflow in fiber") == NULL);
}

static void run_leave_with_handler(void) {
    CHECK_EQ(aw_stack_overflow(AW_OVERFLOW_LEAVE), 0);
    run_auto_with_handler();
}

TEST(left_alone_a_handler_of_the_program_sees_it) {
    check_exits(run_leave_with_handler, 33);
    CHECK(strstr(output, "overflow in fiber") == NULL);
}

static void run_with_user_stack(void) {
    use_user_stack();
    report();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
        CHECK(user_stack_is_used());
        aw_stacks_trim();
        CHECK(user_stack_is_used());
    }
    run_overflow();
}

TEST(an_alternate_stack_of_the_program_is_kept_and_used) {
    check_faults(run_with_user_stack);
    check_named();
}

static void run_with_later_user_stack(void) {
    report();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    use_user_stack();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK(user_stack_is_used());
    aw_stacks_trim();
    CHECK(user_stack_is_used());
    run_overflow();
}

TEST(an_alternate_stack_that_comes_later_is_kept_and_used) {
    check_faults(run_with_later_user_stack);
    check_named();
}

/* A thread without an alternate stack has none after its fibers have ended. */
TEST(our_alternate_stack_goes_with_the_last_fiber) {
    stack_t before, now;
    CHECK_EQ(sigaltstack(NULL, &before), 0);
    if (!(before.ss_flags & SS_DISABLE)) SKIP("every thread has an alternate stack here");
    report();
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK(!(now.ss_flags & SS_DISABLE));
    aw_stacks_trim();
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK(now.ss_flags & SS_DISABLE);
}

/* ---- Faults that are no overflow ------------------------------------------------------------- */

AW_FIBER(int, writes_nowhere) {
    *(volatile char *)bad_address = 1;
    return 0;
}

static void run_bad_write(void) {
    set_bad_address();
    aw_run(AW_CALL(writes_nowhere));
}

TEST(another_fault_in_a_fiber_is_not_called_an_overflow) {
    needs_sigsegv_free();
    check_faults(run_bad_write);
    CHECK(strstr(output, "overflow in fiber") == NULL);
}

AW_FIBER(int, sends_the_signal, int how;) {
    if (self->how == 0) raise(SIGSEGV);
    if (self->how == 1) kill(getpid(), SIGSEGV);
    return 0;
}

static void run_raise(void) {
    aw_run(AW_CALL(sends_the_signal, .how = 0));
}
static void run_kill(void) {
    aw_run(AW_CALL(sends_the_signal, .how = 1));
}
static void run_raise_outside(void) {
    CHECK_EQ(aw_run(AW_CALL(does_nothing)), 0);
    raise(SIGSEGV);
}

/* As it would without the library. */
TEST(a_signal_that_was_sent_ends_the_program) {
    needs_sigsegv_free();
    check_faults(run_raise);
    CHECK(strstr(output, "overflow in fiber") == NULL);
    check_faults(run_kill);
    CHECK(strstr(output, "overflow in fiber") == NULL);
    check_faults(run_raise_outside);
}

TEST(an_unknown_mode_is_refused) {
    CHECK_EQ(aw_stack_overflow((aw_overflow)3), -EINVAL);
    CHECK_EQ(aw_stack_overflow((aw_overflow)-1), -EINVAL);
}

/* ---- Up to the guard, and the neighbours ----------------------------------------------------- */

enum { FRAME = 128 };

/* Fills the stack until `leave` bytes are left, waits there, and checks that nothing changed. */
static int __attribute__((noinline)) fill(const char *low, size_t leave, unsigned char mark) {
    volatile unsigned char filler[FRAME];
    for (int i = 0; i < FRAME; i++)
        filler[i] = (unsigned char)(mark + i);
    int depth = 1;
    if ((size_t)((char *)__builtin_frame_address(0) - low) > leave)
        depth += fill(low, leave, (unsigned char)(mark + 1));
    else
        for (int i = 0; i < 10; i++)
            CHECK_EQ(aw_fiber_yield(), 0);
    for (int i = 0; i < FRAME; i++)
        CHECK_EQ(filler[i], (unsigned char)(mark + i));
    return depth;
}

/* What the deepest call and its yield need. Instrumented frames are larger. */
static size_t reserve(void) {
    return test_under_sanitizer() || test_under_valgrind() ? 12 * 1024 : 3 * 1024;
}

AW_FIBER(int, fills, unsigned char mark; aw_notify * wait;) {
    return fill(aw__fiber_current->stack->low, reserve(), self->mark);
}

AW_FIBER(int, fill_many) {
    enum { COUNT = 50 };
    static struct fills *tasks[COUNT];
    for (int i = 0; i < COUNT; i++)
        tasks[i] = aw_spawn(AW_CALL(fills, .mark = (unsigned char)(i * 7), .stack_size = 65536));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(aw_await(aw_task_join(tasks[i])), 0);
        CHECK_GT(aw_task_take(tasks[i]), 10);
    }
    return 0;
}

TEST(every_byte_above_the_guard_can_be_used) {
    CHECK_EQ(aw_run(AW_CALL(fill_many)), 0);
}

/* The fiber on the adjacent stack below. A handler on its own stack compares that memory. */
static struct { char *low, *high; } neighbour, overflowing;
static unsigned char copy[65536];

/* Not instrumented: a sanitizer would report reads of another fiber's stack. */
#define UNINSTRUMENTED __attribute__((noinline, no_sanitize("address")))

static UNINSTRUMENTED void prepare_neighbour(void) {
    volatile char *low = neighbour.low;
    for (size_t i = 0; i < sizeof copy; i++) {
        if (i < sizeof copy / 2) low[i] = 0x3c; /* not yet used by the fiber */
        copy[i] = (unsigned char)low[i];
    }
}

static UNINSTRUMENTED void compare_neighbour(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    char *at = info->si_addr;
    if (at >= overflowing.low || at < overflowing.low - aw__stack_guard()) _exit(2);
    volatile char *low = neighbour.low;
    for (size_t i = 0; i < sizeof copy; i++)
        if ((unsigned char)low[i] != copy[i]) _exit(3);
    _exit(44);
}

AW_FIBER(int, is_neighbour, aw_notify *never;) {
    neighbour.low = aw__fiber_current->stack->low;
    neighbour.high = aw__fiber_current->stack->high;
    return aw_await(aw_notify_wait(self->never));
}

/* The second stack lies above the first: guard, first, guard, second. */
AW_FIBER(int, overflows_above, bool jump;) {
    static aw_notify never;
    struct is_neighbour *task = aw_spawn(
        AW_CALL(is_neighbour, .never = &never, .stack_size = 65536));
    CHECK_EQ(aw_fiber_yield(), 0);
    (void)task;
    CHECK_EQ(neighbour.high - neighbour.low, (long)sizeof copy);
    struct overflows *above = aw_spawn(AW_CALL(overflows, .stack_size = 65536));
    CHECK_EQ(aw_fiber_yield(), 0);
    overflowing.low = above->aw_fiber->stack->low;
    overflowing.high = above->aw_fiber->stack->high;
    CHECK_EQ(overflowing.low - neighbour.high, (long)aw__stack_guard());
    prepare_neighbour();
    /* Code without stack probes may skip as much as a frame. */
    if (self->jump) ((volatile char *)overflowing.low)[-65000] = 1;
    return aw_await_status(aw_task_join(above));
}

static void run_above_neighbour(bool jump) {
    CHECK_EQ(aw_stack_overflow(AW_OVERFLOW_LEAVE), 0);
    use_user_stack();
    handle(NULL, compare_neighbour);
    aw_run(AW_CALL(overflows_above, .jump = jump));
}
static void run_above_neighbour_step_by_step(void) {
    run_above_neighbour(false);
}
static void run_above_neighbour_with_a_jump(void) {
    run_above_neighbour(true);
}

TEST(the_neighbours_stack_is_not_touched) {
    ON_THIS_THREAD("the two have neighbouring stacks, of one thread");
    if (test_under_valgrind()) SKIP("to read the stack of another is an error there");
    check_exits(run_above_neighbour_step_by_step, 44);
    check_exits(run_above_neighbour_with_a_jump, 44);
}
