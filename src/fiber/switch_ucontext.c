/* SPDX-License-Identifier: MIT
 *
 * Stack switches by ucontext, for processors without assembly here. */
#include <stdint.h>
#include <string.h>

#include "fiber/switch.h"

#if !AW__SWITCH_ASSEMBLY

/* makecontext passes ints, so each pointer is passed in two halves. */
static void ucontext_start(unsigned entry_high, unsigned entry_low, unsigned arg_high,
                           unsigned arg_low) {
    uintptr_t entry = (uintptr_t)((uint64_t)entry_high << 32 | entry_low);
    uintptr_t arg = (uintptr_t)((uint64_t)arg_high << 32 | arg_low);
    ((void (*)(void *))entry)((void *)arg);
}

void aw__cpu_context_init(aw__cpu_context *c, void *low, void *high, void (*entry)(void *arg),
                          void *arg) {
    uint64_t e = (uintptr_t)entry, a = (uintptr_t)arg;
    memset(c, 0, sizeof *c);
    getcontext(&c->ucontext);
    c->ucontext.uc_stack.ss_sp = low;
    c->ucontext.uc_stack.ss_size = (size_t)((char *)high - (char *)low);
    c->ucontext.uc_link = NULL;
    makecontext(&c->ucontext, (void (*)(void))ucontext_start, 4, (unsigned)(e >> 32), (unsigned)e,
                (unsigned)(a >> 32), (unsigned)a);
}

int aw__switch(aw__cpu_context *from, aw__cpu_context *to, int value) {
    to->value = value;
    swapcontext(&from->ucontext, &to->ucontext);
    return from->value;
}

#endif
