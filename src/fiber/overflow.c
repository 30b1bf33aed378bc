/* SPDX-License-Identifier: MIT
 *
 * The signal handler that reports stack overflows. It is installed once for the process. Every
 * other fault goes to the handler that was installed before. */
#include "fiber/overflow.h"

#include <awake/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "fiber/fiber_state.h"
#include "os/map.h"

enum { SIGNAL_STACK = 64 * 1024 };

static uint32_t mode;      /* atomic: aw_overflow */
static uint32_t installed; /* atomic: the handler is or was installed */
static struct sigaction previous;

/* ---- The handler: async-signal-safe calls only ----------------------------------------------- */

typedef struct line {
    char text[512];
    size_t length;
} line;

static void line_add(line *l, const char *text) {
    while (*text && l->length < sizeof l->text - 1)
        l->text[l->length++] = *text++;
}

static void line_add_number(line *l, size_t n) {
    char digits[24];
    int i = sizeof digits - 1;
    digits[i] = 0;
    do
        digits[--i] = (char)('0' + n % 10);
    while (n /= 10);
    line_add(l, digits + i);
}

static void report_overflow(const aw__fiber *f) {
    line l = {"", 0};
    line_add(&l, "awake: stack overflow in fiber '");
    line_add(&l, f->frame->future.type->name);
    line_add(&l, "': its stack of ");
    line_add_number(&l, (size_t)(f->stack->high - f->stack->low));
    line_add(&l, " bytes is used up");
    if (f->file) {
        line_add(&l, "; it waited last at ");
        line_add(&l, f->file);
        line_add(&l, ":");
        line_add_number(&l, (size_t)f->line);
    }
    line_add(&l, "\n");
    ssize_t written = write(STDERR_FILENO, l.text, l.length);
    (void)written;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const aw__fiber *f = aw__fiber_current;
    const char *at = info->si_addr;
    bool sent = info->si_code <= 0; /* by kill or raise: there was no access to memory */
    if (!sent && f && at < f->stack->low && at >= f->stack->low - aw__stack_guard()) {
        report_overflow(f);
        signal(number, SIG_DFL); /* the access is repeated, and ends the process */
        return;
    }
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        if (sent && previous.sa_handler == SIG_IGN) return;
        signal(number, SIG_DFL);
        if (sent) raise(number); /* no access is repeated; delivered on return */
    } else {
        previous.sa_handler(number);
    }
}

/* ---- Installing it --------------------------------------------------------------------------- */

/* `in_front`: install it even if there is another handler, which then gets the other faults. */
static int install_handler(bool in_front) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int error = 0;
    pthread_mutex_lock(&lock);
    struct sigaction ours, now;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) < 0) {
        error = -errno;
    } else if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) {
        /* already installed */
    } else if (in_front || (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)) {
        previous = now;
        if (sigaction(SIGSEGV, &ours, NULL) < 0) error = -errno;
        if (!error) aw__store_release(&installed, 1u);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

int aw_stack_overflow(aw_overflow wanted) {
    if (wanted != AW_OVERFLOW_AUTO && wanted != AW_OVERFLOW_REPORT && wanted != AW_OVERFLOW_LEAVE)
        return -EINVAL;
    aw__store_relaxed(&mode, (uint32_t)wanted);
    int error = wanted == AW_OVERFLOW_REPORT ? install_handler(true) : 0;
    if (!error && aw__stacks_of_thread) aw__overflow_thread_begins(aw__stacks_of_thread);
    return error;
}

/* A thread that already has an alternate stack keeps it. Without memory for one, an overflow still
 * ends the program, but is not reported. */
void aw__overflow_thread_begins(aw__stacks *pool) {
    if (aw__load_relaxed(&mode) == AW_OVERFLOW_AUTO && !aw__load_acquire(&installed))
        install_handler(false);
    if (!aw__load_acquire(&installed) || pool->signal_stack) return;
    stack_t now;
    if (sigaltstack(NULL, &now) < 0 || !(now.ss_flags & SS_DISABLE)) return;
    void *memory = aw__map(SIGNAL_STACK);
    if (!memory) return;
    stack_t ours = {.ss_sp = memory, .ss_size = SIGNAL_STACK};
    if (sigaltstack(&ours, NULL) < 0)
        aw__unmap(memory, SIGNAL_STACK);
    else
        pool->signal_stack = memory;
}

void aw__overflow_thread_ends(aw__stacks *pool) {
    if (!pool->signal_stack) return;
    stack_t now, off = {.ss_flags = SS_DISABLE};
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == pool->signal_stack) sigaltstack(&off, NULL);
    aw__unmap(pool->signal_stack, SIGNAL_STACK);
    pool->signal_stack = NULL;
}
