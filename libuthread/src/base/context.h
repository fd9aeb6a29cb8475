/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - the one door to the assembly: make a context, exchange two.
 *
 * A context is a stack pointer, the callee-saved registers and FP control
 * words parked on that stack, and the TLS base to run with. uthreads and
 * coroutines are both built on it.
 *
 * Invariants:
 *  - `busy` is 1 from the moment somebody decides to run a context until the
 *    context that replaced it has left its stack. Only a context with
 *    busy == 0 may be resumed or have its stack reused. The assembly clears
 *    `from->busy` with release semantics after the stack pointer has left
 *    the old stack, so a signal can never land on a stack that another
 *    worker already runs on.
 *  - offsets below are shared with switch.S and proved by _Static_assert.
 */
#ifndef UTHREAD_CONTEXT_H
#define UTHREAD_CONTEXT_H

#define CTX_SP 0
#define CTX_TP 8
#define CTX_BUSY 16

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct context {
	void *sp; /* saved stack pointer; valid while busy == 0 */
	uintptr_t tp; /* TLS base to run with; equal values are not exchanged */
	uint32_t busy; /* pairs: release in the assembly, acquire in whoever resumes */
	uint32_t note; /* not ours; for what its user wants in this line */
};

_Static_assert(offsetof(struct context, sp) == CTX_SP, "asm offset");
_Static_assert(offsetof(struct context, tp) == CTX_TP, "asm offset");
_Static_assert(offsetof(struct context, busy) == CTX_BUSY, "asm offset");

/*
 * Save the caller in `from`, resume `to`. Returns when somebody resumes
 * `from`. The caller has set to->busy to 1 and seen it 0 with acquire.
 * If from->tp != to->tp the TLS base is exchanged too (needs FSGSBASE on
 * x86-64).
 */
void context_switch(struct context *from, struct context *to);

/*
 * Prepare `ctx` so that the first switch to it calls entry(arg) on the stack
 * that ends (exclusively) at `stack_top`. entry must never return. The frame
 * is the last one of a backtrace. The FP control words are the caller's.
 */
void context_make(struct context *ctx, void *stack_top, void (*entry)(void *),
		  void *arg);

#endif /* __ASSEMBLER__ */
#endif
