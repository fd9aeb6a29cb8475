/* SPDX-License-Identifier: Apache-2.0 */
/* arch.h (x86-64) - thread pointer, CPU features and the pause hint. */
#ifndef UTHREAD_ARCH_H
#define UTHREAD_ARCH_H

#include <stdint.h>
#include <sys/auxv.h>

#define ARCH_NAME "x86-64"
#define ARCH_HWCAP2_FSGSBASE (1ul << 1)

static inline void arch_pause(void)
{
	__builtin_ia32_pause();
}

/* Reads the self pointer of the TCB: needs no FSGSBASE. */
static inline uintptr_t arch_tp(void)
{
	uintptr_t tp;

	__asm__ volatile("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}

/* Only where arch_tp_writable(). */
static inline void arch_set_tp(uintptr_t tp)
{
	__asm__ volatile("wrfsbase %0" : : "r"(tp) : "memory");
}

static inline const char *arch_tp_unwritable(void)
{
	if (getauxval(AT_HWCAP2) & ARCH_HWCAP2_FSGSBASE)
		return NULL;
	return "the kernel does not let programs write the FS base (FSGSBASE)";
}

/*
 * A word of the runtime's one thread-local variable, read without letting
 * the compiler keep its address across a switch.
 */
#define ARCH_TLS_READ(var, offset)                                       \
	({                                                               \
		void *v_;                                                \
		__asm__ volatile("movq " #var "@gottpoff(%%rip), %0\n\t" \
				 "movq %%fs:" #offset "(%0), %0"         \
				 : "=r"(v_));                            \
		v_;                                                      \
	})

/* The runtime's one thread-local variable, found anew at each use: between
 * two uses its reader may have moved to another block. */
#define ARCH_TLS_ADDR(var)                                               \
	({                                                               \
		void *v_;                                                \
		__asm__ volatile("movq " #var "@gottpoff(%%rip), %0\n\t" \
				 "addq %%fs:0, %0"                       \
				 : "=r"(v_)                              \
				 :                                       \
				 : "cc");                                \
		v_;                                                      \
	})

#endif
