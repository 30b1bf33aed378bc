/* SPDX-License-Identifier: MIT
 *
 * Stack switches. A switch preserves what a called function must preserve: the callee-saved
 * registers, and the control words of the floating-point units (rounding, traps). On x86-64 and
 * aarch64 it is assembly, switch_*.S. Elsewhere, or with AW_FIBER_PORTABLE, it uses ucontext of the
 * C library, switch_ucontext.c, which also preserves the signal mask, at the price of two system
 * calls. */
#ifndef AW_FIBER_SWITCH_H
#define AW_FIBER_SWITCH_H

#if !defined(AW_FIBER_PORTABLE) &&                                                                 \
    ((defined(__x86_64__) && defined(__LP64__)) || (defined(__aarch64__) && defined(__LP64__)))
#define AW__SWITCH_ASSEMBLY 1
#else
#define AW__SWITCH_ASSEMBLY 0
#endif

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>
#if !AW__SWITCH_ASSEMBLY
#include <ucontext.h>
#endif

/* A suspended stack. */
typedef struct aw__cpu_context {
#if AW__SWITCH_ASSEMBLY
    void *sp;
#else
    ucontext_t ucontext;
    int value; /* passed by the switch to it */
#endif
} aw__cpu_context;

/* The first switch to `c` calls entry(arg) on the stack [low, high). `entry` must not return. */
void aw__cpu_context_init(aw__cpu_context *c, void *low, void *high, void (*entry)(void *arg),
                          void *arg);

/* Suspends this stack in `from` and resumes `to`: the switch that suspended `to` returns `value`.
 * Returns when another switch resumes `from`, with the value of that switch. Make it a tail call
 * where possible, so that it returns straight to the caller of the calling function: the processor
 * predicts a return by the calls before it, and those were made on the other stack. */
int aw__switch(aw__cpu_context *from, aw__cpu_context *to, int value);

#if AW__SWITCH_ASSEMBLY
/* Leaves this stack for good. Calls then(arg) on the stack of `to`, in place of the switch that is
 * suspended there: its caller gets the result. */
void aw__switch_last(aw__cpu_context *to, int (*then)(void *arg), void *arg)
    __attribute__((noreturn));
#endif

#endif

#endif
