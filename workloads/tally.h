/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * tally.h - the counter of study 003: every thread has one of its own and adds
 * one to it, an ordinary addition in memory.
 *
 * The study's counters are neighbours in an array, so threads on two CPUs
 * write to one cache line. Here each has a line: what is measured is threads,
 * not that line.
 */
#ifndef WORKLOADS_TALLY_H
#define WORKLOADS_TALLY_H

struct tally {
	long long value;
} __attribute__((aligned(64)));

/*
 * Add `n` ones; the asm barrier keeps them n additions. In a register: an addition to
 * memory waits for the store before it, six cycles or one as the processor's guesses at
 * that are on or off, and they go on and off by themselves some times a second. The same
 * work would take five times as long in one moment as in another.
 */
static inline void tally_add(struct tally *t, unsigned long long n)
{
	long long value = t->value;

	while (n--) {
		value++;
		__asm__ volatile("" : "+r"(value));
	}
	t->value = value;
}

#endif
