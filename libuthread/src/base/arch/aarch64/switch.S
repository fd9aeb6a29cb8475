/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch.S (arm64, AAPCS64) - exchange two contexts.
 *
 * What a parked context has on its stack, from its saved sp upwards:
 *
 *	+0   x19 x20  +16  x21 x22  +32  x23 x24  +48  x25 x26
 *	+64  x27 x28  +80  x29 x30
 *	+96  d8 d9    +112 d10 d11  +128 d12 d13  +144 d14 d15
 *	+160 FPCR     +168 TPIDR2, where there is SME (sme.S)
 *
 * FPCR is written only where it differs. The link register is saved unsigned
 * and returned to with `ret`, so the first frame of a new context needs no
 * signature (a signed/unsigned mix is the classic PAC crash). BTI is claimed;
 * GCS is not: the shadow stack pointer is not exchanged.
 */
#include "base/context.h"

#define FRAME 176

	.text

/* void context_switch(struct context *from (x0), struct context *to (x1)) */
	.globl	context_switch
	.hidden	context_switch
	.type	context_switch, %function
	.p2align 6
context_switch:
	.cfi_startproc
	hint	#34			/* bti c */
	sub	sp, sp, #FRAME
	.cfi_def_cfa_offset FRAME
	stp	x19, x20, [sp, #0]
	.cfi_offset x19, -FRAME
	.cfi_offset x20, -FRAME+8
	stp	x21, x22, [sp, #16]
	.cfi_offset x21, -FRAME+16
	.cfi_offset x22, -FRAME+24
	stp	x23, x24, [sp, #32]
	.cfi_offset x23, -FRAME+32
	.cfi_offset x24, -FRAME+40
	stp	x25, x26, [sp, #48]
	.cfi_offset x25, -FRAME+48
	.cfi_offset x26, -FRAME+56
	stp	x27, x28, [sp, #64]
	.cfi_offset x27, -FRAME+64
	.cfi_offset x28, -FRAME+72
	stp	x29, x30, [sp, #80]
	.cfi_offset x29, -FRAME+80
	.cfi_offset x30, -FRAME+88
	stp	d8, d9, [sp, #96]
	.cfi_offset d8, -FRAME+96
	.cfi_offset d9, -FRAME+104
	stp	d10, d11, [sp, #112]
	.cfi_offset d10, -FRAME+112
	.cfi_offset d11, -FRAME+120
	stp	d12, d13, [sp, #128]
	.cfi_offset d12, -FRAME+128
	.cfi_offset d13, -FRAME+136
	stp	d14, d15, [sp, #144]
	.cfi_offset d14, -FRAME+144
	.cfi_offset d15, -FRAME+152
	mrs	x9, fpcr
	str	x9, [sp, #160]
	adrp	x14, arch_sme
	ldr	w14, [x14, :lo12:arch_sme]
	cbnz	w14, 3f

4:	ldr	x10, [x0, #CTX_TP]
	ldr	x11, [x1, #CTX_TP]
	ldr	x12, [x1, #CTX_SP]
	mov	x13, sp
	str	x13, [x0, #CTX_SP]
	mov	sp, x12
	/*
	 * From here on the other stack; the frame has the same shape. The
	 * TLS base comes first: a signal handler that still finds `from` by
	 * TLS finds it on this worker. The release store lets another worker
	 * run `from`.
	 */
	cmp	x10, x11
	b.eq	1f
	msr	tpidr_el0, x11
1:	add	x13, x0, #CTX_BUSY
	stlr	wzr, [x13]
	ldr	x10, [sp, #160]
	cmp	x9, x10
	b.eq	2f
	msr	fpcr, x10
2:	cbnz	w14, 5f
	.cfi_remember_state
6:	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x29, x30, [sp, #80]
	ldp	x27, x28, [sp, #64]
	ldp	x25, x26, [sp, #48]
	ldp	x23, x24, [sp, #32]
	ldp	x21, x22, [sp, #16]
	ldp	x19, x20, [sp, #0]
	add	sp, sp, #FRAME
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore x29
	.cfi_restore x30
	.cfi_restore d8
	.cfi_restore d9
	.cfi_restore d10
	.cfi_restore d11
	.cfi_restore d12
	.cfi_restore d13
	.cfi_restore d14
	.cfi_restore d15
	.cfi_def_cfa_offset 0
	ret
	.cfi_restore_state
3:	bl	context_sme_leave
	b	4b
5:	ldr	x10, [sp, #168]
	msr	s3_3_c13_c0_5, x10	/* tpidr2_el0 */
	b	6b
	.cfi_endproc
	.size	context_switch, .-context_switch

/*
 * First code of a new context: context_make() left entry in x19 and its
 * argument in x20. An undefined x30 ends every backtrace here.
 */
	.globl	context_entry
	.hidden	context_entry
	.type	context_entry, %function
	.p2align 4
context_entry:
	.cfi_startproc
	.cfi_undefined x30
	hint	#36			/* bti j: also reachable by ret */
	mov	x0, x20
	mov	x29, xzr
	blr	x19
	brk	#1
	.cfi_endproc
	.size	context_entry, .-context_entry

#include "elf_notes.inc"
