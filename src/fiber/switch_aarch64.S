/* SPDX-License-Identifier: MIT
 *
 * Stack switches on aarch64. See switch.h.
 *
 * A suspended stack holds, from its saved stack pointer upwards: x29 and x30, x19 to x28, d8 to
 * d15, and fpcr, which is written only if it differs. The hints are landing pads for branch target
 * identification (BTI); a plain return needs none. */
#include "fiber/switch.h"

#if AW__SWITCH_ASSEMBLY && defined(__aarch64__)

    .text
    .globl aw__switch
    .hidden aw__switch
    .type aw__switch, %function
    .p2align 4
aw__switch: /* x0: from, x1: to, x2: value */
    .cfi_startproc
    hint #34 /* bti c */
    stp x29, x30, [sp, #-176]!
    .cfi_def_cfa_offset 176
    .cfi_offset x29, -176
    .cfi_offset x30, -168
    stp x19, x20, [sp, #16]
    .cfi_offset x19, -160
    .cfi_offset x20, -152
    stp x21, x22, [sp, #32]
    .cfi_offset x21, -144
    .cfi_offset x22, -136
    stp x23, x24, [sp, #48]
    .cfi_offset x23, -128
    .cfi_offset x24, -120
    stp x25, x26, [sp, #64]
    .cfi_offset x25, -112
    .cfi_offset x26, -104
    stp x27, x28, [sp, #80]
    .cfi_offset x27, -96
    .cfi_offset x28, -88
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x10, sp
    str x10, [x0]
    mov w0, w2

    ldr x10, [x1]
    mov sp, x10
    ldr x11, [sp, #160]
    cmp x9, x11
    b.eq 1f
    msr fpcr, x11
1:  ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x27, x28, [sp, #80]
    ldp x25, x26, [sp, #64]
    ldp x23, x24, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #176
    .cfi_def_cfa_offset 0
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size aw__switch, . - aw__switch

/* Saves nothing of this stack. Restores the other one and jumps to `then`, which returns to the
 * caller of the switch that is suspended there. */
    .globl aw__switch_last
    .hidden aw__switch_last
    .type aw__switch_last, %function
    .p2align 4
aw__switch_last: /* x0: to, x1: then, x2: arg */
    .cfi_startproc
    hint #34 /* bti c */
    ldr x10, [x0]
    mov sp, x10
    ldr x11, [sp, #160]
    msr fpcr, x11
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x27, x28, [sp, #80]
    ldp x25, x26, [sp, #64]
    ldp x23, x24, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #176
    mov x16, x1
    mov x0, x2
    br x16 /* a branch through x16 may land on bti c */
    .cfi_endproc
    .size aw__switch_last, . - aw__switch_last

/* A new stack begins here: calls entry(arg), which does not return. Unwinding ends here. */
    .globl aw__switch_start
    .hidden aw__switch_start
    .type aw__switch_start, %function
    .p2align 4
aw__switch_start: /* x19: entry, x20: arg */
    .cfi_startproc
    .cfi_undefined x30
    hint #36 /* bti j */
    mov x0, x20
    blr x19
    brk #1
    .cfi_endproc
    .size aw__switch_start, . - aw__switch_start

#endif

#include "fiber/switch_note.inc"
