/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registers.S (arm64) - for storm_registers.c: load everything, loop, store
 * everything. sub and cbnz change no flags.
 */
#define GPR(i) (8 * (i))
#define FLAGS 232
#define FPCR_AT 240
#define FPSR_AT 244
#define VECTORS 440

	.text
	.globl	registers_base
	.type	registers_base, %function
	.p2align 4
registers_base:
	hint	#34
	stp	x29, x30, [sp, #-192]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mrs	x2, fpcr
	stp	x0, x2, [sp, #160]
	str	x1, [sp, #176]
	add	x2, x0, #VECTORS
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ldr	q\n, [x2], #16
	.endr
	ldr	w2, [x0, #FPCR_AT]
	msr	fpcr, x2
	ldr	w2, [x0, #FPSR_AT]
	msr	fpsr, x2
	ldr	x2, [x0, #FLAGS]
	msr	nzcv, x2
	.irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
	ldr	x\n, [x0, #GPR(\n - 1)]
	.endr
	ldr	x0, [sp, #176]
1:	sub	x0, x0, #1
	cbnz	x0, 1b
	ldr	x0, [sp, #160]
	.irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
	str	x\n, [x0, #GPR(\n - 1)]
	.endr
	mrs	x2, nzcv
	str	x2, [x0, #FLAGS]
	mrs	x2, fpcr
	str	w2, [x0, #FPCR_AT]
	mrs	x2, fpsr
	str	w2, [x0, #FPSR_AT]
	add	x2, x0, #VECTORS
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	str	q\n, [x2], #16
	.endr
	ldr	x2, [sp, #168]
	msr	fpcr, x2
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	ldp	x29, x30, [sp], #192
	ret
	.size	registers_base, .-registers_base

	.section .note.GNU-stack, "", %progbits
