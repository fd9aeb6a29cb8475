/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt.S (arm64) - where an interrupted uthread goes on when its tick is
 * taken. sp points at a copy of the kernel's signal frame, and the way back
 * is rt_sigreturn: arm64 has no instruction that loads the program counter
 * together with the last register, so only the kernel can put back all 31.
 *
 * Streaming mode and ZA are on again, if they were: the sigreturn that led here
 * has put back what the frame says. C, and whoever runs next, must not have
 * them; the copy has, for the sigreturn at the end. TPIDR2_EL0 is in the frame
 * only with Linux 6.3 and later, so it is kept in x20.
 */
#include "base/context.h"
#include "preempt/preempt_asm.h"

#define SYS_rt_sigreturn 139

/*
 * For unwinders: a copy of the kernel's frame lies where register `base` points: 128
 * bytes of siginfo, then ucontext; in it, at `at`, register `reg`. DW_CFA_expression, of
 * DW_OP_breg0 + base with two bytes. The frame's address is the interrupted stack pointer
 * (560). Where it was is not in the link register, but in the column that is for that
 * (cancel.S).
 */
#define CFI_IN_FRAME(base, reg, at) \
	.cfi_escape 0x10, reg, 3, 0x70 + (base), ((at) & 0x7f) | 0x80, (at) >> 7
#define CFI_FRAME(base) \
	.cfi_escape 0x0f, 4, 0x70 + (base), 0xb0, 0x04, 0x06; \
	CFI_IN_FRAME(base, 0, 312); \
	CFI_IN_FRAME(base, 1, 320); \
	CFI_IN_FRAME(base, 2, 328); \
	CFI_IN_FRAME(base, 3, 336); \
	CFI_IN_FRAME(base, 4, 344); \
	CFI_IN_FRAME(base, 5, 352); \
	CFI_IN_FRAME(base, 6, 360); \
	CFI_IN_FRAME(base, 7, 368); \
	CFI_IN_FRAME(base, 8, 376); \
	CFI_IN_FRAME(base, 9, 384); \
	CFI_IN_FRAME(base, 10, 392); \
	CFI_IN_FRAME(base, 11, 400); \
	CFI_IN_FRAME(base, 12, 408); \
	CFI_IN_FRAME(base, 13, 416); \
	CFI_IN_FRAME(base, 14, 424); \
	CFI_IN_FRAME(base, 15, 432); \
	CFI_IN_FRAME(base, 16, 440); \
	CFI_IN_FRAME(base, 17, 448); \
	CFI_IN_FRAME(base, 18, 456); \
	CFI_IN_FRAME(base, 19, 464); \
	CFI_IN_FRAME(base, 20, 472); \
	CFI_IN_FRAME(base, 21, 480); \
	CFI_IN_FRAME(base, 22, 488); \
	CFI_IN_FRAME(base, 23, 496); \
	CFI_IN_FRAME(base, 24, 504); \
	CFI_IN_FRAME(base, 25, 512); \
	CFI_IN_FRAME(base, 26, 520); \
	CFI_IN_FRAME(base, 27, 528); \
	CFI_IN_FRAME(base, 28, 536); \
	CFI_IN_FRAME(base, 29, 544); \
	CFI_IN_FRAME(base, 30, 552); \
	CFI_IN_FRAME(base, 96, 568) /* pc */

	.text
	.globl	preempt_frame
	.hidden	preempt_frame
	.type	preempt_frame, %function
	.p2align 4
preempt_frame:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_return_column 96
	/* The next tick may come before the first instruction. */
	CFI_FRAME(31)
	hint	#34 /* bti c */
	mov	x19, sp
	CFI_FRAME(19)
	mov	x29, xzr
	mov	x30, xzr
	adrp	x1, arch_sme
	ldr	w1, [x1, :lo12:arch_sme]
	cbz	w1, 1f
	.arch_extension sme
	mrs	x20, s3_3_c13_c0_5 /* tpidr2_el0 */
	msr	s3_3_c13_c0_5, xzr
	smstop
1:	bl	preempt_now
	/*
	 * sigreturn installs the alternate stack named in the frame: it must
	 * be that of the worker we are on now. No tick is taken between here
	 * and there, and a handler of the program that comes here returns to
	 * the label (mechanism_at_work(), mechanism_rewind()).
	 */
	.globl	preempt_frame_back
	.hidden	preempt_frame_back
preempt_frame_back:
	adrp	x1, arch_sme
	ldr	w1, [x1, :lo12:arch_sme]
	cbz	w1, 2f
	msr	s3_3_c13_c0_5, x20
2:	adrp	x1, :gottprel:uthread_here
	ldr	x1, [x1, :gottprel_lo12:uthread_here]
	mrs	x0, tpidr_el0
	add	x0, x0, x1
	ldr	x0, [x0, #HERE_WORKER]
	ldr	x0, [x0, #WORKER_ALTSTACK]
	str	x0, [x19, #(128 + UC_ALTSTACK)]
	mov	sp, x19
	mov	x8, #SYS_rt_sigreturn
	svc	#0
	brk	#1
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
	.type	signal_return, %function
	.p2align 4
signal_return:
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	mov	x19, x0
	mov	x20, x1
	mov	x21, x2
	.globl	signal_return_back
	.hidden	signal_return_back
signal_return_back:
	adrp	x1, :gottprel:uthread_here
	ldr	x1, [x1, :gottprel_lo12:uthread_here]
	mrs	x0, tpidr_el0
	add	x0, x0, x1
	ldr	x2, [x0, #HERE_SELF]
	ldr	x0, [x0, #HERE_WORKER]
	ldr	x1, [x0, #WORKER_ALTSTACK]
	str	x1, [x19, #UC_ALTSTACK]
	ldr	x1, [x19, #UC_SIGMASK]
	str	x1, [x2, #UTHREAD_MASK]
	ldr	x3, [x0, #WORKER_POISON]
	orr	x1, x1, x3
	str	x1, [x0, #WORKER_MASK]
	ldr	x1, [x2, #UTHREAD_RAISED]
	tst	x1, x20
	b.ne	1f
	sub	x1, x19, #128 /* siginfo is in front of it */
	mov	sp, x1
	mov	x8, #SYS_rt_sigreturn
	svc	#0
	brk	#1
1:	mov	x0, x19
	sub	x1, x19, #128
	mov	sp, x1
	blr	x21
	brk	#1
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
	.type	signal_go, %function
	.p2align 4
signal_go:
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	mov	sp, x3
	mov	x29, xzr
	mov	x30, xzr
	mov	x16, x4
	br	x16
	.cfi_endproc
	.size	signal_go, .-signal_go

/*
 * signal_call(sig, si, uc, top, fn): call fn(sig, si, uc) on the stack that
 * ends at `top`, and come back.
 */
	.globl	signal_call
	.hidden	signal_call
	.type	signal_call, %function
	.p2align 4
signal_call:
	.cfi_startproc
	hint	#34 /* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	x29, sp
	.cfi_def_cfa_register 29
	and	x3, x3, #-16
	mov	sp, x3
	blr	x4
	mov	sp, x29
	.cfi_def_cfa_register 31
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size	signal_call, .-signal_call

#include "elf_notes.inc"
