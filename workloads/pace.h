/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * pace.h - work of a known number of cycles, which tells how long one is.
 *
 * What took a processor of 120 MHz seconds takes one of today milliseconds, and shares
 * of the work can be compared only if the work is measured in the processor's
 * own steps. An exclusive or of two registers takes one cycle on every processor that
 * we know, and each needs the result of the last. Rejected: performance counters
 * (virtual machines have none), the time-stamp counter (its rate is not the
 * processor's), what the kernel says (virtual machines do not know), additions (some
 * processors do several in one cycle, though each needs the last).
 */
#ifndef WORKLOADS_PACE_H
#define WORKLOADS_PACE_H

#include "port.h"

#define PACE_CYCLES 10000

/* Takes PACE_CYCLES cycles, and a few. */
static inline uint64_t pace_run(void)
{
	uint64_t value = 1;
	uint64_t other = 3;
	int i;

	for (i = 0; i < PACE_CYCLES / 100; i++) {
#if defined(__x86_64__)
		__asm__ volatile(".rept 100\n\txorq %1, %0\n\t.endr"
				 : "+r"(value)
				 : "r"(other)
				 : "cc");
#elif defined(__aarch64__)
		__asm__ volatile(".rept 100\n\teor %0, %0, %1\n\t.endr"
				 : "+r"(value)
				 : "r"(other));
#else
#error "which instruction takes one cycle here?"
#endif
	}
	return value;
}

/* Of the time that pace_run() took: picoseconds of one cycle. */
static inline uint64_t pace_ps(uint64_t ns)
{
	return ns / (PACE_CYCLES / 1000);
}

#endif
