/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.S (x86-64) - trace_from(uc, fn, arg): call fn(arg) as if the code that `uc`
 * is of had done it. That is so for unwinders only: fn returns to us, and we to our
 * caller, but the caller that our unwind information names are the registers in `uc`.
 */
#include "base/context.h"

/* Register `reg` lies at rbx + `at`. DW_CFA_expression, of DW_OP_breg3. */
#define CFI_IN_UC(reg, at) \
	.cfi_escape 0x10, reg, 3, 0x73, ((at) & 0x7f) | 0x80, (at) >> 7

	.text
	.globl	trace_from
	.hidden	trace_from
	.type	trace_from, @function
	.p2align 4
trace_from:
	.cfi_startproc
	.cfi_signal_frame	/* the address in `uc` is not one behind a call */
	endbr64
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	movq	%rdi, %rbx
	.cfi_remember_state
	/* ucontext_t's stack pointer, at rbx + 160. */
	.cfi_escape 0x0f, 4, 0x73, 0xa0, 0x01, 0x06
	CFI_IN_UC(0, 144)	/* rax */
	CFI_IN_UC(1, 136)	/* rdx */
	CFI_IN_UC(2, 152)	/* rcx */
	CFI_IN_UC(3, 128)	/* rbx */
	CFI_IN_UC(4, 112)	/* rsi */
	CFI_IN_UC(5, 104)	/* rdi */
	CFI_IN_UC(6, 120)	/* rbp */
	CFI_IN_UC(8, 40)	/* r8 */
	CFI_IN_UC(9, 48)	/* r9 */
	CFI_IN_UC(10, 56)	/* r10 */
	CFI_IN_UC(11, 64)	/* r11 */
	CFI_IN_UC(12, 72)	/* r12 */
	CFI_IN_UC(13, 80)	/* r13 */
	CFI_IN_UC(14, 88)	/* r14 */
	CFI_IN_UC(15, 96)	/* r15 */
	CFI_IN_UC(16, 168)	/* rip */
	movq	%rdx, %rdi
	callq	*%rsi
	.cfi_restore_state
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	.cfi_endproc
	.size	trace_from, .-trace_from
	.globl	trace_from_end
	.hidden	trace_from_end
trace_from_end:

#include "elf_notes.inc"
