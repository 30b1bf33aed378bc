/* SPDX-License-Identifier: MIT
 *
 * Signals and the threads of a runtime. The signal of a fault reaches the handler of the
 * program, on whichever thread the fault is. A signal sent to the process is handled on one of
 * the program's own threads. */
#define _GNU_SOURCE
#include <awake.h>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/workers.h"

enum { PAGE = 65536, KINDS = 3 };

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
enum { FAULTS = sizeof faults / sizeof *faults };

static bool is_fault(int number) {
    for (int i = 0; i < FAULTS; i++)
        if (faults[i] == number) return true;
    return false;
}

static void handle(int number, void (*action)(int, siginfo_t *, void *)) {
    struct sigaction s = {.sa_sigaction = action, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(number, &s, NULL), 0);
}

/* A runtime with `start` as the start hook of its threads, after it has started one thread of
 * each kind. */
static aw_runtime *hooked(aw_flavour flavour,
                          void (*start)(void *data, aw_thread_kind kind, uint32_t index)) {
    aw_hooks hooks = {.self_size = sizeof hooks, .thread_start = start};
    aw_runtime_options o = workers_options(2, NULL, NULL);
    o.flavour = flavour;
    o.hooks = &hooks;
    aw_runtime *rt;
    CHECK_EQ(aw_runtime_new(&rt, &o), 0);
    return rt;
}

static uint32_t started[KINDS]; /* atomic: threads of each kind that have returned from the hook */

static void check_each_started(void) {
    WAIT_UNTIL(LOAD(started[AW_THREAD_WORKER]) == 2);
    WAIT_UNTIL(LOAD(started[AW_THREAD_MONITOR]) == 1);
    WAIT_UNTIL(LOAD(started[AW_THREAD_BLOCKING]) > 0);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static _Thread_local char *volatile page;
static _Thread_local volatile int handled[65];

/* Makes the access succeed when it is repeated. */
static void open_page(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!page || info->si_addr != page) _exit(3);
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE)) _exit(4);
    handled[number]++;
}

static long write_to_a_closed_page(void *unused) {
    (void)unused;
    int before = handled[SIGSEGV];
    page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    *(volatile char *)page = 1;
    CHECK_EQ(handled[SIGSEGV], before + 1);
    CHECK_EQ(munmap(page, PAGE), 0);
    return 7;
}

static void fault_in_hook(void *data, aw_thread_kind kind, uint32_t index) {
    (void)data, (void)index;
    write_to_a_closed_page(NULL);
    ADD(started[kind], 1);
}

AW_ASYNC(int, faults_in_a_task, aw_blocking_future job;) {
    AW_BEGIN;
    CHECK_EQ(write_to_a_closed_page(NULL), 7);
    AW_AWAIT(self->job, aw_blocking(write_to_a_closed_page, NULL));
    CHECK_EQ(self->job.out, 7);
    AW_RETURN(0);
    AW_END;
}

AW_FIBER(int, faults_in_a_fiber) {
    CHECK_EQ(write_to_a_closed_page(NULL), 7);
    return (int)aw_await(aw_blocking(write_to_a_closed_page, NULL)) - 7;
}

static void check_faults(aw_flavour flavour) {
    handle(SIGSEGV, open_page);
    aw_runtime *rt = hooked(flavour, fault_in_hook);
    CHECK_EQ(RUN(rt, AW_CALL(faults_in_a_task)), 0);
    CHECK_EQ(RUN(rt, AW_CALL(faults_in_a_fiber)), 0);
    check_each_started();
    aw_runtime_free(rt);
}

TEST(a_fault_on_any_thread_of_a_runtime_calls_the_handler_of_the_program) {
    check_faults(AW_MULTI_THREAD);
}

TEST(a_fault_with_a_thread_per_core_calls_the_handler_of_the_program) {
    check_faults(AW_THREAD_PER_CORE);
}

static void count_signal(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    handled[number]++;
}

static long raise_each_fault(void *unused) {
    (void)unused;
    for (int i = 0; i < FAULTS; i++) {
        int before = handled[faults[i]];
        CHECK_EQ(raise(faults[i]), 0);
        CHECK_EQ(handled[faults[i]], before + 1);
    }
    return 0;
}

static void raise_in_hook(void *data, aw_thread_kind kind, uint32_t index) {
    (void)data, (void)index;
    raise_each_fault(NULL);
    ADD(started[kind], 1);
}

AW_ASYNC(int, raises_in_a_task, aw_blocking_future job;) {
    AW_BEGIN;
    raise_each_fault(NULL);
    AW_AWAIT(self->job, aw_blocking(raise_each_fault, NULL));
    AW_RETURN(0);
    AW_END;
}

TEST(every_signal_of_a_fault_is_delivered_on_every_thread_of_a_runtime) {
    for (int i = 0; i < FAULTS; i++)
        handle(faults[i], count_signal);
    aw_runtime *rt = hooked(AW_MULTI_THREAD, raise_in_hook);
    CHECK_EQ(RUN(rt, AW_CALL(raises_in_a_task)), 0);
    check_each_started();
    aw_runtime_free(rt);
}

/* Whichever signals the thread that creates the runtime blocks. */
TEST(faults_are_delivered_although_the_creating_thread_blocks_them) {
    sigset_t all;
    sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    for (int i = 0; i < FAULTS; i++)
        handle(faults[i], count_signal);
    aw_runtime *rt = hooked(AW_MULTI_THREAD, raise_in_hook);
    CHECK_EQ(RUN(rt, AW_CALL(raises_in_a_task)), 0);
    check_each_started();
    aw_runtime_free(rt);
}

/* ---- Signals sent to the process ------------------------------------------------------------- */

static void check_blocked(void *data, aw_thread_kind kind, uint32_t index) {
    (void)data, (void)index;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int s = 1; s <= SIGRTMAX; s++) {
        bool free = is_fault(s) || s == SIGKILL || s == SIGSTOP;
        bool reserved = s >= 32 && s < SIGRTMIN; /* by the C library itself */
        if (!reserved) CHECK_EQ(sigismember(&blocked, s), !free);
    }
    ADD(started[kind], 1);
}

static long nothing(void *unused) {
    (void)unused;
    return 0;
}

AW_ASYNC(int, uses_each_thread, aw_blocking_future job;) {
    AW_BEGIN;
    AW_AWAIT(self->job, aw_blocking(nothing, NULL));
    AW_RETURN(0);
    AW_END;
}

/* While the only other thread blocks it, a signal stays pending until that thread takes it. */
TEST(a_signal_that_is_sent_to_the_process_is_handled_on_a_thread_of_the_program) {
    static const int sent[] = {SIGTERM, SIGINT,  SIGHUP,  SIGUSR1,
                               SIGUSR2, SIGCHLD, SIGALRM, SIGPIPE};
    aw_runtime *rt = hooked(AW_MULTI_THREAD, check_blocked);
    CHECK_EQ(RUN(rt, AW_CALL(uses_each_thread)), 0);
    check_each_started();
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, sent[i]);
        handle(sent[i], count_signal);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
        CHECK_EQ(kill(getpid(), sent[i]), 0);
        CHECK_EQ(RUN(rt, AW_CALL(uses_each_thread)), 0);
        CHECK_EQ(handled[sent[i]], 0);
        CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
        CHECK_EQ(handled[sent[i]], 1);
    }
    aw_runtime_free(rt);
}
