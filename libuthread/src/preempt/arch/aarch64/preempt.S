/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt.S (arm64) - where an interrupted uthread goes on when its tick is
 * taken. sp points at a copy of the kernel's signal frame, and the way back
 * is rt_sigreturn: arm64 has no instruction that loads the program counter
 * together with the last register, so only the kernel can put back all 31.
 */
#include "base/context.h"
#include "preempt/preempt_asm.h"

#define SYS_rt_sigreturn 139

	.text
	.globl	preempt_frame
	.hidden	preempt_frame
	.type	preempt_frame, %function
	.p2align 4
preempt_frame:
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	mov	x19, sp
	mov	x29, xzr
	mov	x30, xzr
	bl	preempt_now
	/*
	 * sigreturn installs the alternate stack named in the frame: it must
	 * be that of the worker we are on now. No tick is taken between here
	 * and there (refuse() knows these addresses).
	 */
	adrp	x1, :gottprel:uthread_here
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

	.section .note.GNU-stack, "", %progbits

/* AArch64 feature note: BTI only. */
	.section .note.gnu.property, "a"
	.p2align 3
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
