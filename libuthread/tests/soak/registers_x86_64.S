/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registers.S (x86-64) - for storm_registers.c: load everything, loop, store
 * everything. lea, jrcxz and jmp change no flags, nor do the moves after.
 */
#define GPR(i) (8 * (i))
#define FLAGS 112
#define MXCSR 120
#define X87_CW 124
#define MASKS 128
#define X87 192
#define VECTORS 320

	.text

	.macro sse way
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.ifc \way, load
	movups	VECTORS + 64 * \n(%rdi), %xmm\n
	.else
	movups	%xmm\n, VECTORS + 64 * \n(%rdi)
	.endif
	.endr
	.endm

	.macro avx way
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.ifc \way, load
	vmovups	VECTORS + 64 * \n(%rdi), %ymm\n
	.else
	vmovups	%ymm\n, VECTORS + 64 * \n(%rdi)
	.endif
	.endr
	.ifc \way, store
	vzeroupper
	.endif
	.endm

	.macro avx512 way
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	.ifc \way, load
	vmovups	VECTORS + 64 * \n(%rdi), %zmm\n
	.else
	vmovups	%zmm\n, VECTORS + 64 * \n(%rdi)
	.endif
	.endr
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7
	.ifc \way, load
	kmovq	MASKS + 8 * \n(%rdi), %k\n
	.else
	kmovq	%k\n, MASKS + 8 * \n(%rdi)
	.endif
	.endr
	.ifc \way, store
	.irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vpxord	%zmm\n, %zmm\n, %zmm\n
	.endr
	vzeroupper
	.endif
	.endm

	.macro function name, vectors
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	subq	$24, %rsp
	movq	%rdi, (%rsp)
	stmxcsr	8(%rsp)
	fnstcw	12(%rsp)
	movq	%rsi, %rcx
	ldmxcsr	MXCSR(%rdi)
	fldcw	X87_CW(%rdi)
	.set	i, 7
	.rept	8
	fldt	X87 + 16 * i(%rdi)
	.set	i, i - 1
	.endr
	\vectors load
	pushq	FLAGS(%rdi)
	popfq
	movq	GPR(0)(%rdi), %rax
	movq	GPR(1)(%rdi), %rbx
	movq	GPR(2)(%rdi), %rdx
	movq	GPR(3)(%rdi), %rsi
	movq	GPR(5)(%rdi), %rbp
	movq	GPR(6)(%rdi), %r8
	movq	GPR(7)(%rdi), %r9
	movq	GPR(8)(%rdi), %r10
	movq	GPR(9)(%rdi), %r11
	movq	GPR(10)(%rdi), %r12
	movq	GPR(11)(%rdi), %r13
	movq	GPR(12)(%rdi), %r14
	movq	GPR(13)(%rdi), %r15
	movq	GPR(4)(%rdi), %rdi
1:	jrcxz	2f
	leaq	-1(%rcx), %rcx
	jmp	1b
2:	xchgq	%rdi, (%rsp)
	movq	%rax, GPR(0)(%rdi)
	movq	%rbx, GPR(1)(%rdi)
	movq	%rdx, GPR(2)(%rdi)
	movq	%rsi, GPR(3)(%rdi)
	movq	%rbp, GPR(5)(%rdi)
	movq	%r8, GPR(6)(%rdi)
	movq	%r9, GPR(7)(%rdi)
	movq	%r10, GPR(8)(%rdi)
	movq	%r11, GPR(9)(%rdi)
	movq	%r12, GPR(10)(%rdi)
	movq	%r13, GPR(11)(%rdi)
	movq	%r14, GPR(12)(%rdi)
	movq	%r15, GPR(13)(%rdi)
	pushfq
	cld
	popq	%rax
	andl	$0xcd5, %eax
	movq	%rax, FLAGS(%rdi)
	movq	(%rsp), %rax
	movq	%rax, GPR(4)(%rdi)
	\vectors store
	.set	i, 0
	.rept	8
	fstpt	X87 + 16 * i(%rdi)
	.set	i, i + 1
	.endr
	stmxcsr	MXCSR(%rdi)
	movl	$0, X87_CW(%rdi)
	fnstcw	X87_CW(%rdi)
	andl	$~0x40, X87_CW(%rdi)
	fldcw	12(%rsp)
	ldmxcsr	8(%rsp)
	addq	$24, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret
	.size	\name, .-\name
	.endm

	function registers_base, sse
	function registers_avx, avx
	function registers_avx512, avx512

	.section .note.GNU-stack, "", @progbits
