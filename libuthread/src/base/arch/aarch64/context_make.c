/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_make.c (arm64) - the first frame of a new context. Its shape is
 * the one switch.S restores; keep both in step.
 */
#include <string.h>
#include <sys/auxv.h>

#include "base/context.h"
#include "base/spin.h"

void context_entry(void);

struct frame {
	uint64_t x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30;
	uint64_t d[8];
	uint64_t fpcr;
	uint64_t tpidr2;
};

_Static_assert(sizeof(struct frame) == 176, "switch.S restores this frame");

#ifndef HWCAP2_SME
#define HWCAP2_SME (1ul << 23)
#endif

/* Read by the assembly: not 0 on a machine with SME (sme.S). */
uint32_t arch_sme __attribute__((visibility("hidden")));

AT_START static void find_sme(void)
{
	arch_sme = !!(getauxval(AT_HWCAP2) & HWCAP2_SME);
}

void context_make(struct context *ctx, void *stack_top, void (*entry)(void *),
		  void *arg)
{
	uintptr_t top = (uintptr_t)stack_top & ~(uintptr_t)15;
	struct frame *f = (struct frame *)(top - sizeof(*f));

	memset(f, 0, sizeof(*f));
	__asm__ volatile("mrs %0, fpcr" : "=r"(f->fpcr));
	f->x19 = (uint64_t)(uintptr_t)entry;
	f->x20 = (uint64_t)(uintptr_t)arg;
	f->x30 = (uint64_t)(uintptr_t)context_entry;
	ctx->sp = f;
	__atomic_store_n(&ctx->busy, 0, __ATOMIC_RELEASE);
}
