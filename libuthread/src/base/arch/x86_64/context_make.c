/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_make.c (x86-64) - the first frame of a new context. Its shape is
 * the one switch.S restores; keep both in step.
 */
#include <string.h>

#include "base/context.h"

void context_entry(void);

struct frame {
	uint32_t mxcsr;
	uint16_t fcw;
	uint16_t pad;
	uint64_t r12, r13, r14, r15, rbx, rbp;
	uint64_t rip;
	uint64_t stop; /* where a return address of context_entry would be */
};

_Static_assert(sizeof(struct frame) == 72, "switch.S restores this frame");

void context_make(struct context *ctx, void *stack_top, void (*entry)(void *),
		  void *arg)
{
	uintptr_t top = (uintptr_t)stack_top & ~(uintptr_t)15;
	struct frame *f;

	/*
	 * context_entry starts as after a `ret` to it: rsp is 16-aligned
	 * there, so that its own call leaves entry() the alignment the ABI
	 * promises.
	 */
	f = (struct frame *)(top - 16 - offsetof(struct frame, stop));
	memset(f, 0, sizeof(*f));
	__asm__ volatile("stmxcsr %0" : "=m"(f->mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(f->fcw));
	f->rbx = (uint64_t)(uintptr_t)entry;
	f->r12 = (uint64_t)(uintptr_t)arg;
	f->rip = (uint64_t)(uintptr_t)context_entry;
	ctx->sp = f;
	__atomic_store_n(&ctx->busy, 0, __ATOMIC_RELEASE);
}
