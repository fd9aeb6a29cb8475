/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.S (x86-64) - where a uthread that is cancelled asynchronously goes on:
 * as if the interrupted instruction had called it, with its address below the red
 * zone (asked.c). It never returns; the unwinder goes on with who was interrupted,
 * all of whose registers are still there.
 */
#include "base/context.h"

#define RED_ZONE 128

	.text
	.globl	cancel_here
	.hidden	cancel_here
	.type	cancel_here, @function
	.p2align 4
cancel_here:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa rsp, 8 + RED_ZONE
	.cfi_offset rip, -(8 + RED_ZONE)
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	andq	$-16, %rsp
	callq	cancel_now
	ud2
	.cfi_endproc
	.size	cancel_here, .-cancel_here

#include "elf_notes.inc"
