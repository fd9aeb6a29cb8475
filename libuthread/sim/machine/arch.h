/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arch.h - the simulator's in place of src/base/arch's: the runtime is told who it is
 * by the virtual CPU that runs it (../cpu.h), not by a register.
 */
#ifndef UTHREAD_ARCH_H
#define UTHREAD_ARCH_H

#include <stddef.h>
#include <stdint.h>

#define ARCH_NAME "simulated"

struct here;
struct here *sim_here(void);
void sim_pause(void);
uintptr_t sim_tp(void);

static inline void arch_pause(void)
{
	sim_pause();
}

static inline uintptr_t arch_tp(void)
{
	return sim_tp();
}

/* The offsets are those of struct here; `var` is its only variable. */
#define ARCH_TLS_READ(var, offset) \
	(*(void *volatile *)(void *)((char *)sim_here() + (offset)))
#define ARCH_TLS_ADDR(var) ((void *)sim_here())

#endif
