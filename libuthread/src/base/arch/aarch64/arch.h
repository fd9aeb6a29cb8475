/* SPDX-License-Identifier: Apache-2.0 */
/* arch.h (arm64) - thread pointer and the pause hint. */
#ifndef UTHREAD_ARCH_H
#define UTHREAD_ARCH_H

#include <stddef.h>
#include <stdint.h>

#define ARCH_NAME "arm64"

static inline void arch_pause(void)
{
	__asm__ volatile("yield");
}

static inline uintptr_t arch_tp(void)
{
	uintptr_t tp;

	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(tp));
	return tp;
}

static inline void arch_set_tp(uintptr_t tp)
{
	__asm__ volatile("msr tpidr_el0, %0" : : "r"(tp) : "memory");
}

/* TPIDR_EL0 is writable from user space on every arm64. */
static inline const char *arch_tp_unwritable(void)
{
	return NULL;
}

/*
 * A word of the runtime's one thread-local variable, read without letting
 * the compiler keep its address across a switch.
 */
#define ARCH_TLS_READ(var, offset)                                           \
	({                                                                   \
		void *v_;                                                    \
		uintptr_t o_;                                                \
		__asm__ volatile("adrp %1, :gottprel:" #var "\n\t"           \
				 "ldr %1, [%1, :gottprel_lo12:" #var "]\n\t" \
				 "mrs %0, tpidr_el0\n\t"                     \
				 "add %0, %0, %1\n\t"                        \
				 "ldr %0, [%0, #" #offset "]"                \
				 : "=&r"(v_), "=&r"(o_));                    \
		v_;                                                          \
	})

/* The runtime's one thread-local variable, found anew at each use: between
 * two uses its reader may have moved to another block. */
#define ARCH_TLS_ADDR(var)                                                   \
	({                                                                   \
		void *v_;                                                    \
		uintptr_t o_;                                                \
		__asm__ volatile("adrp %1, :gottprel:" #var "\n\t"           \
				 "ldr %1, [%1, :gottprel_lo12:" #var "]\n\t" \
				 "mrs %0, tpidr_el0\n\t"                     \
				 "add %0, %0, %1"                            \
				 : "=&r"(v_), "=&r"(o_));                    \
		v_;                                                          \
	})

#endif
