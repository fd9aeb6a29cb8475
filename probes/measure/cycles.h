/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cycles.h - a clock that is one instruction: the time-stamp counter, or the
 * generic timer's. clock_gettime() would do, but it is libc's code (the vDSO),
 * and a uthread there is not stopped: it would disturb what it measures.
 *
 * The unit is the counter's own; cycles_ns() needs two points of both clocks.
 */
#ifndef SWTCH_PROBE_CYCLES_H
#define SWTCH_PROBE_CYCLES_H

#include <stdint.h>

#include "measure/measure.h"

static inline uint64_t cycles_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
#error "no cycle counter for this architecture"
#endif
}

/* A moment of both clocks. */
struct moment {
	uint64_t cycles;
	int64_t ns;
};

/* Of several readings the one between which the least time passed: who loses its CPU
 * between the two clocks would have a scale that is wrong by that. */
static inline struct moment moment_now(void)
{
	struct moment m = { 0 };
	uint64_t least = UINT64_MAX, begin, took;
	int64_t ns;
	int i;

	for (i = 0; i < 8; i++) {
		begin = cycles_now();
		ns = clock_ns();
		took = cycles_now() - begin;
		if (took >= least)
			continue;
		least = took;
		m = (struct moment){ .cycles = begin + took / 2, .ns = ns };
	}
	return m;
}

/* Nanoseconds of one unit between two moments that lie apart. */
static inline double moment_scale(struct moment a, struct moment b)
{
	return b.cycles > a.cycles ?
		       (double)(b.ns - a.ns) / (double)(b.cycles - a.cycles) :
		       0.0;
}

#endif
