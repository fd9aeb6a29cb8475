/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread_bare.c - what a switch costs without a scheduler: the runtime's own
 * context_switch(), and the least a switch can be ("naked").
 *
 * Both sides of a ping-pong switch from the same call site. Returning from
 * the switch is a `ret`, whose target the processor predicts from the last
 * call it saw, and that was the other side's. From one call site the two
 * addresses are the same and the prediction is right, as it is between two
 * uthreads that both came through uthread_yield(). From two call sites every
 * switch is a misprediction, and its 15 to 20 cycles are all one measures.
 *
 * The FP control words are equal on both sides, so none is loaded.
 */
#include <stddef.h>

#include "arch.h"
#include "base/context.h"
#include "uthread_bench.h"

#define STACK_BYTES 65536

static char stack[STACK_BYTES] __attribute__((aligned(64)));
/* A thread pointer for the second side. It runs nothing that looks for a
 * thread-local variable, so a copy of the header is enough. */
static char fake_tls[8192] __attribute__((aligned(64)));
static struct context side[2];

/* ---- the runtime's switch ---- */

static BENCH_ONE_COPY void ping(struct context *me, struct context *other,
				uint64_t n)
{
	for (; n; n--)
		context_switch(me, other);
}

static void answer(void *arg)
{
	(void)arg;
	for (;;)
		ping(&side[1], &side[0], UINT64_MAX);
}

static void ping_batch(void *arg, uint64_t n)
{
	(void)arg;
	ping(&side[0], &side[1], n);
}

static uintptr_t second_tp(void)
{
	char *tp = fake_tls + sizeof(fake_tls) / 2;

	memcpy(tp, (void *)arch_tp(), 64);
#if defined(__x86_64__)
	((uintptr_t *)(void *)tp)[0] = (uintptr_t)tp; /* fs:0 is itself */
#endif
	return (uintptr_t)tp;
}

static uintptr_t second_tp_checked(void)
{
	if (arch_tp_unwritable())
		bench_die("own TLS: %s", arch_tp_unwritable());
	return second_tp();
}

void bench_bare(enum uthread_tls mode)
{
	struct bench_run r;

	context_make(&side[1], stack + sizeof(stack), answer, NULL);
	side[0].tp = arch_tp();
	side[1].tp = mode == UTHREAD_TLS_OWN ? second_tp_checked() : arch_tp();
	r = bench_grow(ping_batch, NULL, 100000);
	bench_result("bare", (double)r.ns / (double)(2 * r.n), 2 * r.n, "%s",
		     "");
}

/* ---- the least a switch can be ---- */

/* Save the callee-saved registers, exchange the stack pointer, restore. */
void naked_switch(void **save, void *to);

#if defined(__x86_64__)
#define NAKED_REGS 6
#define NAKED_PC 6 /* the return address lies above them */
__asm__(".pushsection .text\n"
	".p2align 6\n"
	".globl naked_switch\n"
	".type naked_switch, @function\n"
	"naked_switch:\n"
	"	endbr64\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size naked_switch, .-naked_switch\n"
	".popsection");
#elif defined(__aarch64__)
#define NAKED_REGS 20
#define NAKED_PC 11 /* x30 is among them */
__asm__(".pushsection .text\n"
	".p2align 6\n"
	".globl naked_switch\n"
	".type naked_switch, %function\n"
	"naked_switch:\n"
	"	hint #34\n"
	"	sub sp, sp, #160\n"
	"	stp x19, x20, [sp, #0]\n"
	"	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n"
	"	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n"
	"	str x9, [x0]\n"
	"	mov sp, x1\n"
	"	ldp x19, x20, [sp, #0]\n"
	"	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n"
	"	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #160\n"
	"	ret\n"
	".size naked_switch, .-naked_switch\n"
	".popsection");
#else
#error "no naked switch for this processor"
#endif

static void *naked_sp[2];

static BENCH_ONE_COPY void naked_ping(int me, uint64_t n)
{
	for (; n; n--)
		naked_switch(&naked_sp[me], naked_sp[!me]);
}

static void naked_answer(void)
{
	for (;;)
		naked_ping(1, UINT64_MAX);
}

static void naked_batch(void *arg, uint64_t n)
{
	(void)arg;
	naked_ping(0, n);
}

void bench_naked(void)
{
	/* One free word above: x86-64 wants entry as after a call. */
	void **frame =
		(void **)(void *)(stack + sizeof(stack) - 16) - NAKED_REGS;
	struct bench_run r;

	frame[NAKED_PC] = (void *)(uintptr_t)naked_answer;
	naked_sp[1] = frame;
	r = bench_grow(naked_batch, NULL, 100000);
	bench_result("naked", (double)r.ns / (double)(2 * r.n), 2 * r.n, "%s",
		     "");
}

/* ---- writing the TLS base, alone ---- */

static void tlsbase_batch(void *arg, uint64_t n)
{
	uintptr_t mine = arch_tp(), other = *(uintptr_t *)arg;

	for (; n; n--) {
		arch_set_tp(other);
		arch_set_tp(mine);
	}
}

void bench_tlsbase(void)
{
	uintptr_t tp = second_tp_checked();
	struct bench_run r = bench_grow(tlsbase_batch, &tp, 100000);

	bench_result("tlsbase", (double)r.ns / (double)(2 * r.n), 2 * r.n, "%s",
		     "");
}
