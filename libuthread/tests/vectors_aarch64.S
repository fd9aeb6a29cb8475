/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.S (arm64) - for test_vectors.c: load everything, loop until the flag
 * is set, store everything. (from, to, flag)
 */
	.text

	.macro	around what, n:vararg
	.irp i, \n
	\what	\i
	.endr
	.endm

	.macro	load_z n
	ldr	z\n, [x0, #\n, mul vl]
	.endm
	.macro	store_z n
	str	z\n, [x1, #\n, mul vl]
	.endm
	.macro	load_p n
	ldr	p\n, [x3, #\n, mul vl]
	.endm
	.macro	store_p n
	str	p\n, [x4, #\n, mul vl]
	.endm

#define VECTORS 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
	18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
#define PREDICATES 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15

	.macro	save_d
	stp	d8, d9, [sp, #-64]!
	stp	d10, d11, [sp, #16]
	stp	d12, d13, [sp, #32]
	stp	d14, d15, [sp, #48]
	.endm
	.macro	restore_d
	ldp	d10, d11, [sp, #16]
	ldp	d12, d13, [sp, #32]
	ldp	d14, d15, [sp, #48]
	ldp	d8, d9, [sp], #64
	.endm

	.macro	wait_for_flag
1:	ldr	w5, [x2]
	cbz	w5, 1b
	.endm

/* z0..31, p0..15, the first fault register. */
	.arch_extension sve
	.globl	vectors_sve
	.type	vectors_sve, %function
	.p2align 4
vectors_sve:
	hint	#34
	save_d
	addvl	x3, x0, #31
	addvl	x3, x3, #1
	addvl	x4, x1, #31
	addvl	x4, x4, #1
	ldr	p0, [x3, #16, mul vl]
	wrffr	p0.b
	around	load_z, VECTORS
	around	load_p, PREDICATES
	wait_for_flag
	around	store_z, VECTORS
	around	store_p, PREDICATES
	rdffr	p0.b
	str	p0, [x4, #16, mul vl]
	restore_d
	ret
	.size	vectors_sve, .-vectors_sve

/* The same in streaming mode, where there is no first fault register, and ZA
 * behind it. */
	.arch_extension sme
	.globl	vectors_sme
	.type	vectors_sme, %function
	.p2align 4
vectors_sme:
	hint	#34
	save_d
	smstart
	addvl	x3, x0, #31
	addvl	x3, x3, #1
	addvl	x4, x1, #31
	addvl	x4, x4, #1
	addvl	x6, x3, #3
	addvl	x7, x4, #3
	rdvl	x8, #1
	mov	w12, #0
2:	ldr	za[w12, 0], [x6]
	addvl	x6, x6, #1
	add	w12, w12, #1
	cmp	w12, w8
	b.ne	2b
	around	load_z, VECTORS
	around	load_p, PREDICATES
	wait_for_flag
	around	store_z, VECTORS
	around	store_p, PREDICATES
	mov	w12, #0
3:	str	za[w12, 0], [x7]
	addvl	x7, x7, #1
	add	w12, w12, #1
	cmp	w12, w8
	b.ne	3b
	smstop
	restore_d
	ret
	.size	vectors_sme, .-vectors_sme

#define TPIDR2_EL0 s3_3_c13_c0_5
#define SVCR s3_3_c4_c2_2

/* (za, tpidr2, fn) */
	.globl	vectors_dormant
	.type	vectors_dormant, %function
	.p2align 4
vectors_dormant:
	hint	#34
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	smstart	za
	rdsvl	x8, #1
	mov	w12, #0
4:	ldr	za[w12, 0], [x0]
	add	x0, x0, x8
	add	w12, w12, #1
	cmp	w12, w8
	b.ne	4b
	msr	TPIDR2_EL0, x1
	blr	x2
	mrs	x0, TPIDR2_EL0
	msr	TPIDR2_EL0, xzr
	smstop	za
	ldp	x29, x30, [sp], #16
	ret
	.size	vectors_dormant, .-vectors_dormant

/* (tpidr2, flag) */
	.globl	vectors_streams
	.type	vectors_streams, %function
	.p2align 4
vectors_streams:
	hint	#34
	save_d
	smstart
	msr	TPIDR2_EL0, x0
5:	ldr	w5, [x1]
	cbz	w5, 5b
	mrs	x0, TPIDR2_EL0
	msr	TPIDR2_EL0, xzr
	smstop
	restore_d
	ret
	.size	vectors_streams, .-vectors_streams

	.globl	vectors_sme_state
	.type	vectors_sme_state, %function
	.p2align 4
vectors_sme_state:
	hint	#34
	mrs	x0, SVCR
	mrs	x1, TPIDR2_EL0
	orr	x0, x0, x1
	cmp	x0, #0
	cset	w0, ne
	ret
	.size	vectors_sme_state, .-vectors_sme_state

/* Bytes of a vector in streaming mode. */
	.globl	vectors_sme_bytes
	.type	vectors_sme_bytes, %function
	.p2align 4
vectors_sme_bytes:
	hint	#34
	rdsvl	x0, #1
	ret
	.size	vectors_sme_bytes, .-vectors_sme_bytes

	.globl	vectors_sve_bytes
	.type	vectors_sve_bytes, %function
	.p2align 4
vectors_sve_bytes:
	hint	#34
	rdvl	x0, #1
	ret
	.size	vectors_sve_bytes, .-vectors_sve_bytes

	.section .note.GNU-stack, "", %progbits
