/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_x86_64.S - fill the registers, switch, look at what is left of them.
 *
 * void regs_switch(struct context *from (rdi), struct context *to (rsi),
 *		    const uint64_t in[] (rdx), uint64_t out[] (rcx))
 *
 * Order in both arrays: rbx rbp r12 r13 r14 r15 mxcsr x87-control-word.
 */
	.text
	.globl	regs_switch
	.type	regs_switch, @function
regs_switch:
	.cfi_startproc
	endbr64
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 72
	.cfi_rel_offset %rbp, 64
	.cfi_rel_offset %rbx, 56
	.cfi_rel_offset %r12, 48
	.cfi_rel_offset %r13, 40
	.cfi_rel_offset %r14, 32
	.cfi_rel_offset %r15, 24
	movq	%rcx, 0(%rsp)
	stmxcsr	8(%rsp)
	fnstcw	12(%rsp)
	movq	0(%rdx), %rbx
	movq	8(%rdx), %rbp
	movq	16(%rdx), %r12
	movq	24(%rdx), %r13
	movq	32(%rdx), %r14
	movq	40(%rdx), %r15
	ldmxcsr	48(%rdx)
	fldcw	56(%rdx)
	call	context_switch
	movq	0(%rsp), %rax
	movq	%rbx, 0(%rax)
	movq	%rbp, 8(%rax)
	movq	%r12, 16(%rax)
	movq	%r13, 24(%rax)
	movq	%r14, 32(%rax)
	movq	%r15, 40(%rax)
	movq	$0, 48(%rax)
	stmxcsr	48(%rax)
	movq	$0, 56(%rax)
	fnstcw	56(%rax)
	ldmxcsr	8(%rsp)
	fldcw	12(%rsp)
	addq	$24, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -72
	ret
	.cfi_endproc
	.size	regs_switch, .-regs_switch

	.section .note.GNU-stack, "", @progbits
