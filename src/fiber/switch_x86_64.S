/* SPDX-License-Identifier: MIT
 *
 * Stack switches on x86-64. See switch.h.
 *
 * A suspended stack holds, from its saved stack pointer upwards: the control words of SSE (mxcsr, 4
 * bytes) and of x87 (2 bytes, and 2 unused), r15, r14, r13, r12, rbx, rbp, and the return address.
 * The layout is the same before and after the switch, so one unwind table serves both.
 *
 * Control words are loaded only if they differ: loading is slow, and they rarely differ. The low
 * six bits of mxcsr are exception flags, which no call preserves.
 *
 * The switch ends with a jump instead of a return: the processor predicts a return by the last
 * call, which was made on the other stack. The jump goes to the instruction after a call, which is
 * no landing pad (endbr64): hence notrack. A shadow stack would have to be switched, too. It is
 * not, so the note at the end claims only indirect branch tracking. */
#include "fiber/switch.h"

#if AW__SWITCH_ASSEMBLY && defined(__x86_64__)

    .text
    .globl aw__switch
    .hidden aw__switch
    .type aw__switch, @function
    .p2align 4
aw__switch: /* rdi: from, rsi: to, rdx: value */
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movl (%rsp), %r8d
    movzwl 4(%rsp), %ecx
    movq %rsp, (%rdi)
    movl %edx, %eax

    movq (%rsi), %rsp
    xorl (%rsp), %r8d
    testl $0xffc0, %r8d
    jne 3f
1:  cmpw 4(%rsp), %cx
    jne 4f
2:  addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    notrack jmp *%rcx
    .cfi_endproc

/* Rare: a control word differs. The frame is the same as before the jump. */
    .cfi_startproc
    .cfi_def_cfa rsp, 64
    .cfi_offset rbp, -16
    .cfi_offset rbx, -24
    .cfi_offset r12, -32
    .cfi_offset r13, -40
    .cfi_offset r14, -48
    .cfi_offset r15, -56
3:  ldmxcsr (%rsp)
    jmp 1b
4:  fldcw 4(%rsp)
    jmp 2b
    .cfi_endproc
    .size aw__switch, . - aw__switch

/* Saves nothing of this stack. Restores the other one and jumps to `then`, which returns to the
 * caller of the switch that is suspended there. */
    .globl aw__switch_last
    .hidden aw__switch_last
    .type aw__switch_last, @function
    .p2align 4
aw__switch_last: /* rdi: to, rsi: then, rdx: arg */
    .cfi_startproc
    endbr64
    movq (%rdi), %rsp
    .cfi_def_cfa rsp, 64
    .cfi_offset rbp, -16
    .cfi_offset rbx, -24
    .cfi_offset r12, -32
    .cfi_offset r13, -40
    .cfi_offset r14, -48
    .cfi_offset r15, -56
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    movq 8(%rsp), %r15
    movq 16(%rsp), %r14
    movq 24(%rsp), %r13
    movq 32(%rsp), %r12
    movq 40(%rsp), %rbx
    movq 48(%rsp), %rbp
    addq $56, %rsp
    .cfi_def_cfa_offset 8
    .cfi_restore rbp
    .cfi_restore rbx
    .cfi_restore r12
    .cfi_restore r13
    .cfi_restore r14
    .cfi_restore r15
    movq %rdx, %rdi
    jmp *%rsi
    .cfi_endproc
    .size aw__switch_last, . - aw__switch_last

/* A new stack begins here: calls entry(arg), which does not return. Unwinding ends here. */
    .globl aw__switch_start
    .hidden aw__switch_start
    .type aw__switch_start, @function
    .p2align 4
aw__switch_start: /* r13: entry, r12: arg */
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    movq %r12, %rdi
    call *%r13
    ud2
    .cfi_endproc
    .size aw__switch_start, . - aw__switch_start

#endif

#include "fiber/switch_note.inc"
