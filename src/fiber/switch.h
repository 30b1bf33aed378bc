/* SPDX-License-Identifier: MIT
 *
 * Leaving one stack and going on with another. Everything that a called function has to keep is kept:
 * registers, and the control words of the floating point units (rounding, traps). On x86-64 and
 * aarch64 that is a page of assembly, switch_*.S; elsewhere, or with AW_FIBER_PORTABLE, it is the
 * ucontext calls of the C library, switch_ucontext.c, which also keep the signal mask and pay two system
 * calls for that. */
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

/* Where a stack was left. */
typedef struct aw__context {
#if AW__SWITCH_ASSEMBLY
    void *sp;
#else
    ucontext_t ucontext;
    int value; /* what the switch to it brings */
#endif
} aw__context;

/* The first switch to it calls entry(arg) on the stack [low, high). Entry must not return. */
void aw__context_init(aw__context *c, void *low, void *high, void (*entry)(void *arg), void *arg);

/* Leave this stack. Returns when somebody switches to `from`, with the value that he brings. As the last
 * thing of a function it should be a tail call, so that the way back leads straight to its caller: a
 * processor predicts returns by the calls before them, and those were made on the other stack. */
int aw__switch(aw__context *from, aw__context *to, int value);

#if AW__SWITCH_ASSEMBLY
/* Leave this stack for good. On the other one then(arg) is called, as if by the switch that waits there,
 * which returns its result. */
void aw__switch_last(aw__context *to, int (*then)(void *arg), void *arg) __attribute__((noreturn));
#endif

#endif

#endif
