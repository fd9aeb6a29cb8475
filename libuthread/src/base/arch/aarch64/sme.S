/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sme.S (arm64) - what a context leaves behind of SME's array, ZA.
 *
 * Who calls a function that says nothing of ZA, such as any of ours, has ZA off
 * or *dormant*: TPIDR2_EL0 points at a block that says where to save it should
 * somebody else want it. Somebody else may come with each switch, so a switch
 * saves it there, as AAPCS64's __arm_za_disable() does, and turns it off. Who
 * comes back sees by TPIDR2_EL0 == 0 that it has to load it again.
 *
 *	+0	where to
 *	+8	slices of ZA (16 bits)
 *	+10	none
 *
 * In a handler of the program's ZA is off already and in its frame, while an
 * older kernel leaves TPIDR2_EL0 as it was: then it is kept.
 *
 * Only where the machine has SME (arch_sme); nowhere else do these instructions
 * exist.
 */
	.arch_extension sme

#define TPIDR2_EL0 s3_3_c13_c0_5
#define SVCR s3_3_c4_c2_2

	.text

/* From context_switch(), whose frame is at sp. Leaves x0 to x9 alone, and x14. */
	.globl	context_sme_leave
	.hidden	context_sme_leave
	.type	context_sme_leave, %function
	.p2align 4
context_sme_leave:
	.cfi_startproc
	hint	#34			/* bti c */
	mrs	x15, TPIDR2_EL0
	mrs	x16, SVCR
	tbz	x16, #1, 3f		/* off */
	cbz	x15, 2f
	ldr	x10, [x15]
	ldrh	w11, [x15, #8]
	cbz	x10, 2f
	mov	w12, #0
1:	cmp	w12, w11
	b.eq	2f
	str	za[w12, 0], [x10]
	addsvl	x10, x10, #1
	add	w12, w12, #1
	b	1b
2:	mov	x15, xzr
	smstop	za
3:	str	x15, [sp, #168]
	msr	TPIDR2_EL0, xzr
	ret
	.cfi_endproc
	.size	context_sme_leave, .-context_sme_leave

#include "elf_notes.inc"
