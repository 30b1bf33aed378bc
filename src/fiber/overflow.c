/* SPDX-License-Identifier: MIT
 *
 * The handler of a stack overflow. It is installed once for the process, and passes on every fault that
 * is not one of ours to whoever was there before. */
#include "fiber/overflow.h"

#include <awake/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/atomic.h"
#include "fiber/fiber.h"
#include "os/map.h"

enum { SIGNAL_STACK = 64 * 1024 };

static uint32_t mode;      /* atomic: aw_overflow */
static uint32_t installed; /* atomic: our handler is, or was, in place */
static struct sigaction before;

/* ---- The handler: only what is safe in one ---------------------------------------------------- */

typedef struct line {
    char text[512];
    size_t length;
} line;

static void add(line *l, const char *text) {
    while (*text && l->length < sizeof l->text - 1)
        l->text[l->length++] = *text++;
}

static void add_number(line *l, size_t n) {
    char digits[24];
    int i = sizeof digits - 1;
    digits[i] = 0;
    do
        digits[--i] = (char)('0' + n % 10);
    while (n /= 10);
    add(l, digits + i);
}

static void tell(const aw__fiber *f) {
    line l = {"", 0};
    add(&l, "awake: stack overflow in fiber '");
    add(&l, f->frame->future.type->name);
    add(&l, "': its stack of ");
    add_number(&l, (size_t)(f->stack->high - f->stack->low));
    add(&l, " bytes is used up");
    if (f->file) {
        add(&l, "; it waited last at ");
        add(&l, f->file);
        add(&l, ":");
        add_number(&l, (size_t)f->line);
    }
    add(&l, "\n");
    ssize_t written = write(STDERR_FILENO, l.text, l.length);
    (void)written;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const aw__fiber *f = aw__fiber_here;
    const char *at = info->si_addr;
    bool sent = info->si_code <= 0; /* by kill or raise: there was no access */
    if (!sent && f && at < f->stack->low && at >= f->stack->low - aw__stack_guard()) {
        tell(f);
        signal(number, SIG_DFL); /* the same access again, and the usual end */
        return;
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        if (sent && before.sa_handler == SIG_IGN) return;
        signal(number, SIG_DFL);
        if (sent) raise(number); /* nothing will be accessed again; it comes when we return */
    } else {
        before.sa_handler(number);
    }
}

/* ---- Putting it in place ---------------------------------------------------------------------- */

static int install(bool in_front) {
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
        /* it is there already */
    } else if (in_front || (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)) {
        before = now;
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
    int error = wanted == AW_OVERFLOW_REPORT ? install(true) : 0;
    if (!error && aw__stacks_here) aw__overflow_thread_begins(aw__stacks_here);
    return error;
}

/* A thread that brings an alternate stack keeps it. Without memory for one an overflow still ends the
 * program, but unnamed. */
void aw__overflow_thread_begins(aw__stacks *pool) {
    if (aw__load_relaxed(&mode) == AW_OVERFLOW_AUTO && !aw__load_acquire(&installed))
        install(false);
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
