/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.S (arm64) - trace_from(uc, fn, arg): call fn(arg) as if the code that `uc` is
 * of had done it. That is so for unwinders only: fn returns to us, and we to our
 * caller, but the caller that our unwind information names are the registers in `uc`.
 * The address where it was is not in the link register, which is in use there, but in
 * the column that is for that (as in cancel.S).
 */
	.text
	.globl	trace_from
	.hidden	trace_from
	.type	trace_from, %function
	.p2align 4

/* Register `reg` lies at x19 + `at`. DW_CFA_expression, of DW_OP_breg19. */
#define CFI_IN_UC(reg, at) \
	.cfi_escape 0x10, reg, 3, 0x83, ((at) & 0x7f) | 0x80, (at) >> 7

trace_from:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_return_column 96
	.cfi_undefined 96
	hint	#34 /* bti c */
	stp	x19, x30, [sp, #-16]!
	mov	x19, x0
	/* ucontext_t's stack pointer, at x19 + 432. */
	.cfi_escape 0x0f, 4, 0x83, 0xb0, 0x03, 0x06
	CFI_IN_UC(19, 336)
	CFI_IN_UC(20, 344)
	CFI_IN_UC(21, 352)
	CFI_IN_UC(22, 360)
	CFI_IN_UC(23, 368)
	CFI_IN_UC(24, 376)
	CFI_IN_UC(25, 384)
	CFI_IN_UC(26, 392)
	CFI_IN_UC(27, 400)
	CFI_IN_UC(28, 408)
	CFI_IN_UC(29, 416)
	CFI_IN_UC(30, 424)
	CFI_IN_UC(96, 440)
	mov	x0, x2
	blr	x1
	ldp	x19, x30, [sp], #16
	ret
	.cfi_endproc
	.size	trace_from, .-trace_from
	.globl	trace_from_end
	.hidden	trace_from_end
trace_from_end:

#include "elf_notes.inc"
