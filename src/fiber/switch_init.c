/* SPDX-License-Identifier: MIT
 *
 * The first frame of a new stack, in the layout that aw__switch saves. */
#include <stdint.h>
#include <string.h>

#include "fiber/switch.h"

#if AW__SWITCH_ASSEMBLY

void aw__switch_start(void);

void aw__cpu_context_init(aw__cpu_context *c, void *low, void *high, void (*entry)(void *arg),
                          void *arg) {
    (void)low;
    uint64_t *top = (uint64_t *)((uintptr_t)high & ~(uintptr_t)15);
#if defined(__x86_64__)
    uint64_t *frame = top - 8; /* control words, r15, r14, r13, r12, rbx, rbp, return address */
    memset(frame, 0, 8 * sizeof *frame);
    uint32_t sse;
    uint16_t x87;
    __asm__("stmxcsr %0" : "=m"(sse));
    __asm__("fnstcw %0" : "=m"(x87));
    frame[0] = sse | (uint64_t)x87 << 32;
    frame[3] = (uintptr_t)entry;
    frame[4] = (uintptr_t)arg;
    frame[7] = (uintptr_t)aw__switch_start;
#else
    uint64_t *frame = top - 22; /* x29, x30, x19 to x28, d8 to d15, control word, unused */
    memset(frame, 0, 22 * sizeof *frame);
    uint64_t fpcr;
    __asm__("mrs %0, fpcr" : "=r"(fpcr));
    frame[1] = (uintptr_t)aw__switch_start;
    frame[2] = (uintptr_t)entry;
    frame[3] = (uintptr_t)arg;
    frame[20] = fpcr;
#endif
    c->sp = frame;
}

#endif
