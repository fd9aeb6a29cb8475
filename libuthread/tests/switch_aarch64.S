/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_aarch64.S - fill the registers, switch, look at what is left.
 *
 * void regs_switch(struct context *from (x0), struct context *to (x1),
 *		    const uint64_t in[] (x2), uint64_t out[] (x3))
 *
 * Order in both arrays: x19 to x28, x29, d8 to d15, fpcr.
 */
	.text
	.globl	regs_switch
	.type	regs_switch, %function
regs_switch:
	.cfi_startproc
	hint	#34			/* bti c */
	sub	sp, sp, #176
	.cfi_def_cfa_offset 176
	stp	x29, x30, [sp, #0]
	.cfi_offset x29, -176
	.cfi_offset x30, -168
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mrs	x9, fpcr
	stp	x3, x9, [sp, #160]
	ldp	x19, x20, [x2, #0]
	ldp	x21, x22, [x2, #16]
	ldp	x23, x24, [x2, #32]
	ldp	x25, x26, [x2, #48]
	ldp	x27, x28, [x2, #64]
	ldr	x29, [x2, #80]
	ldp	d8, d9, [x2, #88]
	ldp	d10, d11, [x2, #104]
	ldp	d12, d13, [x2, #120]
	ldp	d14, d15, [x2, #136]
	ldr	x9, [x2, #152]
	msr	fpcr, x9
	bl	context_switch
	ldp	x3, x10, [sp, #160]
	stp	x19, x20, [x3, #0]
	stp	x21, x22, [x3, #16]
	stp	x23, x24, [x3, #32]
	stp	x25, x26, [x3, #48]
	stp	x27, x28, [x3, #64]
	str	x29, [x3, #80]
	stp	d8, d9, [x3, #88]
	stp	d10, d11, [x3, #104]
	stp	d12, d13, [x3, #120]
	stp	d14, d15, [x3, #136]
	mrs	x9, fpcr
	str	x9, [x3, #152]
	msr	fpcr, x10
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	ldp	x29, x30, [sp, #0]
	add	sp, sp, #176
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size	regs_switch, .-regs_switch

	.section .note.GNU-stack, "", %progbits
