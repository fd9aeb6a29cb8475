/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt.S (x86-64) - where an interrupted uthread goes on when its tick is
 * taken: either of
 *
 * preempt_call: as if the interrupted instruction had called it. The handler
 * has stored the interrupted address below the red zone and pointed rsp at
 * it. Everything a function may change is saved here: flags, nine registers
 * and, by XSAVEC, the vector and FP state in use (XINUSE), so that a thread
 * that never touched AVX-512 or AMX does not pay for it. Then back without
 * the kernel: `ret $128` takes the address and jumps over the red zone.
 *
 * preempt_frame: rsp points at a copy of the kernel's signal frame. The way
 * back is rt_sigreturn, which restores everything from that copy.
 */
#include "base/context.h"
#include "preempt/preempt_asm.h"

#define RED_ZONE 128
#define AMX_BITS 0x60000
#define SYS_rt_sigreturn 15

/*
 * For unwinders: a copy of the kernel's frame lies where register `base` points, and in
 * it, at `at`, register `reg`. DW_CFA_expression, of DW_OP_breg0 + base with two bytes.
 * The frame's address is the interrupted stack pointer (168).
 */
#define CFI_IN_FRAME(base, reg, at) \
	.cfi_escape 0x10, reg, 3, 0x70 + (base), ((at) & 0x7f) | 0x80, (at) >> 7
#define CFI_FRAME(base) \
	.cfi_escape 0x0f, 4, 0x70 + (base), 0xa8, 0x01, 0x06; \
	CFI_IN_FRAME(base, 0, 152) /* rax */; \
	CFI_IN_FRAME(base, 1, 144) /* rdx */; \
	CFI_IN_FRAME(base, 2, 160) /* rcx */; \
	CFI_IN_FRAME(base, 3, 136) /* rbx */; \
	CFI_IN_FRAME(base, 4, 120) /* rsi */; \
	CFI_IN_FRAME(base, 5, 112) /* rdi */; \
	CFI_IN_FRAME(base, 6, 128) /* rbp */; \
	CFI_IN_FRAME(base, 8, 48); \
	CFI_IN_FRAME(base, 9, 56); \
	CFI_IN_FRAME(base, 10, 64); \
	CFI_IN_FRAME(base, 11, 72); \
	CFI_IN_FRAME(base, 12, 80); \
	CFI_IN_FRAME(base, 13, 88); \
	CFI_IN_FRAME(base, 14, 96); \
	CFI_IN_FRAME(base, 15, 104); \
	CFI_IN_FRAME(base, 16, 176) /* rip */

	.text
	.globl	preempt_call
	.hidden	preempt_call
	.type	preempt_call, @function
	.p2align 4
preempt_call:
	.cfi_startproc
	/* Not the address behind a call: unwinders take it as it is. */
	.cfi_signal_frame
	.cfi_def_cfa rsp, 8 + RED_ZONE
	.cfi_offset rip, -(8 + RED_ZONE)
	pushfq
	.cfi_adjust_cfa_offset 8
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	cld
	pushq	%rax
	.cfi_offset rax, -(32 + RED_ZONE)
	pushq	%rcx
	.cfi_offset rcx, -(40 + RED_ZONE)
	pushq	%rdx
	.cfi_offset rdx, -(48 + RED_ZONE)
	pushq	%rsi
	.cfi_offset rsi, -(56 + RED_ZONE)
	pushq	%rdi
	.cfi_offset rdi, -(64 + RED_ZONE)
	pushq	%r8
	.cfi_offset r8, -(72 + RED_ZONE)
	pushq	%r9
	.cfi_offset r9, -(80 + RED_ZONE)
	pushq	%r10
	.cfi_offset r10, -(88 + RED_ZONE)
	pushq	%r11
	.cfi_offset r11, -(96 + RED_ZONE)
	movl	$1, %ecx
	xgetbv
	movq	preempt_small(%rip), %rcx
	testl	$AMX_BITS, %eax
	je	1f
	movq	preempt_full(%rip), %rcx
1:	subq	%rcx, %rsp
	andq	$-64, %rsp
	/* XRSTOR wants the header's unused words zero; XSAVEC leaves them. */
	xorl	%ecx, %ecx
	movq	%rcx, 512(%rsp)
	movq	%rcx, 520(%rsp)
	movq	%rcx, 528(%rsp)
	movq	%rcx, 536(%rsp)
	movq	%rcx, 544(%rsp)
	movq	%rcx, 552(%rsp)
	movq	%rcx, 560(%rsp)
	movq	%rcx, 568(%rsp)
	movl	%eax, %ecx
	orl	$3, %eax	/* MXCSR counts even where no register does */
	xsavec64 (%rsp)
	/* Who runs next may expect an empty x87 stack, as after any call. */
	testb	$1, %cl
	je	2f
	fninit
2:
	callq	preempt_now
	movl	$-1, %eax
	movl	$-1, %edx
	xrstor64 (%rsp)
	leaq	-72(%rbp), %rsp
	popq	%r11
	.cfi_restore r11
	popq	%r10
	.cfi_restore r10
	popq	%r9
	.cfi_restore r9
	popq	%r8
	.cfi_restore r8
	popq	%rdi
	.cfi_restore rdi
	popq	%rsi
	.cfi_restore rsi
	popq	%rdx
	.cfi_restore rdx
	popq	%rcx
	.cfi_restore rcx
	popq	%rax
	.cfi_restore rax
	popq	%rbp
	.cfi_def_cfa rsp, 16 + RED_ZONE
	.cfi_restore %rbp
	popfq
	.cfi_adjust_cfa_offset -8
	ret	$RED_ZONE
	.cfi_endproc
	.size	preempt_call, .-preempt_call
	.globl	preempt_call_end
	.hidden	preempt_call_end
preempt_call_end:

	.globl	preempt_frame
	.hidden	preempt_frame
	.type	preempt_frame, @function
	.p2align 4
preempt_frame:
	.cfi_startproc
	.cfi_signal_frame
	/* The next tick may come before the first instruction. */
	CFI_FRAME(7)
	movq	%rsp, %rbx
	CFI_FRAME(3)
	andq	$-16, %rsp
	xorl	%ebp, %ebp
	cld
	fninit
	callq	preempt_now
	/*
	 * sigreturn installs the alternate stack named in the frame: it must
	 * be that of the worker we are on now. No tick is taken between here
	 * and there, and a handler of the program that comes here returns to
	 * the label (mechanism_at_work(), mechanism_rewind()).
	 */
	.globl	preempt_frame_back
	.hidden	preempt_frame_back
preempt_frame_back:
	movq	uthread_here@gottpoff(%rip), %rax
	movq	%fs:HERE_WORKER(%rax), %rax
	movq	WORKER_ALTSTACK(%rax), %rax
	movq	%rax, 8 + UC_ALTSTACK(%rbx)
	/* The kernel looks for the frame behind the address of its restorer. */
	leaq	8(%rbx), %rsp
	movl	$SYS_rt_sigreturn, %eax
	syscall
	ud2
	.cfi_endproc
	.size	preempt_frame, .-preempt_frame
	.globl	preempt_frame_end
	.hidden	preempt_frame_end
preempt_frame_end:

/*
 * signal_return(uc, mask, raised): the end of a handler of the program's. The kernel gets
 * back what is in the frame, but for the alternate stack, which is that of the
 * worker we are on now; and the uthread and its worker know the mask. As above:
 * begun again when it is interrupted. If a signal waits for the uthread that is in
 * `mask`, raised(uc) sees to it: none comes to wait from here on.
 */
	.globl	signal_return
	.hidden	signal_return
	.type	signal_return, @function
	.p2align 4
signal_return:
	.cfi_startproc
	.cfi_undefined rip
	movq	%rdi, %rbx
	movq	%rsi, %r12
	movq	%rdx, %r13
	.globl	signal_return_back
	.hidden	signal_return_back
signal_return_back:
	movq	uthread_here@gottpoff(%rip), %rdx
	movq	%fs:HERE_SELF(%rdx), %rcx
	movq	%fs:HERE_WORKER(%rdx), %rax
	movq	WORKER_ALTSTACK(%rax), %rdx
	movq	%rdx, UC_ALTSTACK(%rbx)
	movq	UC_SIGMASK(%rbx), %rdx
	movq	%rdx, UTHREAD_MASK(%rcx)
	orq	WORKER_POISON(%rax), %rdx
	movq	%rdx, WORKER_MASK(%rax)
	testq	%r12, UTHREAD_RAISED(%rcx)
	jnz	1f
	movq	%rbx, %rsp
	movl	$SYS_rt_sigreturn, %eax
	syscall
	ud2
1:	movq	%rbx, %rdi
	leaq	-128(%rbx), %rsp
	andq	$-16, %rsp
	callq	*%r13
	ud2
	.cfi_endproc
	.size	signal_return, .-signal_return
	.globl	signal_return_end
	.hidden	signal_return_end
signal_return_end:

/*
 * signal_go(sig, si, uc, frame, fn): fn(sig, si, uc) as if the kernel had
 * delivered the signal where `frame` is.
 */
	.globl	signal_go
	.hidden	signal_go
	.type	signal_go, @function
	.p2align 4
signal_go:
	.cfi_startproc
	.cfi_undefined rip
	movq	%rcx, %rsp
	xorl	%ebp, %ebp
	jmp	*%r8
	.cfi_endproc
	.size	signal_go, .-signal_go

/*
 * signal_call(sig, si, uc, top, fn): call fn(sig, si, uc) on the stack that
 * ends at `top`, and come back.
 */
	.globl	signal_call
	.hidden	signal_call
	.type	signal_call, @function
	.p2align 4
signal_call:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	andq	$-16, %rcx
	movq	%rcx, %rsp
	callq	*%r8
	movq	%rbp, %rsp
	popq	%rbp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	signal_call, .-signal_call

#include "elf_notes.inc"
