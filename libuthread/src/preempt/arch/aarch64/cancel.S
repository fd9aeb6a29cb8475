/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.S (arm64) - where a uthread that is cancelled asynchronously goes on: as
 * if the interrupted instruction had called it. Its address lies on the stack, and
 * with it the link register, which is still in use there (asked.c). It never
 * returns; the unwinder finds the address in the column that is for that.
 */
	.text
	.globl	cancel_here
	.hidden	cancel_here
	.type	cancel_here, %function
	.p2align 4
cancel_here:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_return_column 96
	.cfi_def_cfa sp, 144
	.cfi_offset 96, -144
	.cfi_offset 30, -136
	hint	#34 /* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 160
	.cfi_offset 29, -160
	mov	x29, sp
	.cfi_def_cfa_register 29
	adrp	x1, arch_sme
	ldr	w1, [x1, :lo12:arch_sme]
	cbz	w1, 1f
	.arch_extension sme
	msr	s3_3_c13_c0_5, xzr /* tpidr2_el0 */
	smstop /* C must not be in streaming mode */
1:	bl	cancel_now
	brk	#1
	.cfi_endproc
	.size	cancel_here, .-cancel_here

#include "elf_notes.inc"
