/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch.S (x86-64, System V) - exchange two contexts.
 *
 * What a parked context has on its stack, from its saved sp upwards:
 *
 *	+0   MXCSR (4 bytes)   +4   x87 control word (2 bytes)
 *	+8   r12   +16  r13   +24  r14   +32  r15   +40  rbx   +48  rbp
 *	+56  return address
 *
 * Loading the x87 control word is slow and it is nearly always equal on both
 * sides, so it is loaded only where it differs. MXCSR is always loaded: it
 * holds the exception flags too, which differ as soon as one side computed
 * something inexact, and then the branch costs more than the load. `ret` is used
 * rather than an indirect jump: it keeps calls and returns paired for the
 * return-address predictor. IBT is claimed (endbr64), shadow stacks are not:
 * SSP is not exchanged.
 */
#include "base/context.h"

	.text

/* void context_switch(struct context *from (rdi), struct context *to (rsi)) */
	.globl	context_switch
	.hidden	context_switch
	.type	context_switch, @function
	.p2align 6
context_switch:
	.cfi_startproc
	endbr64
	/*
	 * The TLS base first, while nothing else is in flight: wrfsbase waits
	 * for what came before it, and what follows can overlap. A signal
	 * here finds `to` by TLS, on this worker, and this stack still busy.
	 */
	movq	CTX_TP(%rsi), %rcx
	cmpq	CTX_TP(%rdi), %rcx
	jne	.Lbase
.Lbase_done:
	/* Into the red zone, early: their stores are slow to be loaded again. */
	stmxcsr	-56(%rsp)
	fnstcw	-52(%rsp)
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movzwl	4(%rsp), %edx

	movq	%rsp, CTX_SP(%rdi)
	movq	CTX_SP(%rsi), %rsp
	/*
	 * From here on the other stack. The frame has the same shape, so the
	 * CFI stays right. Whoever sees busy == 0 may run `from`.
	 */
	movl	$0, CTX_BUSY(%rdi)
	ldmxcsr	(%rsp)
	cmpw	4(%rsp), %dx
	jne	.Lfcw
.Lfcw_done:
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
.Lbase:
	wrfsbase %rcx
	jmp	.Lbase_done
	.cfi_adjust_cfa_offset 56
	.cfi_rel_offset %r12, 8
	.cfi_rel_offset %r13, 16
	.cfi_rel_offset %r14, 24
	.cfi_rel_offset %r15, 32
	.cfi_rel_offset %rbx, 40
	.cfi_rel_offset %rbp, 48
.Lfcw:
	fldcw	4(%rsp)
	jmp	.Lfcw_done
	.cfi_endproc
	.size	context_switch, .-context_switch

/*
 * First code of a new context: context_make() left entry in rbx and its
 * argument in r12. An undefined return address ends every backtrace here.
 */
	.globl	context_entry
	.hidden	context_entry
	.type	context_entry, @function
	.p2align 4
context_entry:
	.cfi_startproc
	.cfi_undefined %rip
	endbr64
	movq	%r12, %rdi
	xorl	%ebp, %ebp
	callq	*%rbx
	ud2
	.cfi_endproc
	.size	context_entry, .-context_entry

#include "elf_notes.inc"
