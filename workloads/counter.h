/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * counter.h - the shared atomic counter of studies 000 and 001: every thread
 * adds one to the same word, one locked increment an iteration.
 *
 * Rule of this folder: every file compiles in user space and in the kernel,
 * allocates nothing, calls nothing outside and uses no floating point, so
 * that both halves of the lab measure the same instructions.
 *
 * The study intervenes where i % every == 0, i = 0 included, before the
 * increment. So a thread of n iterations is a row of chunks: intervene, then
 * counter_add_chunk() with the iterations up to the next intervention.
 */
#ifndef WORKLOADS_COUNTER_H
#define WORKLOADS_COUNTER_H

#ifdef __KERNEL__
#include <linux/atomic.h>

/*
 * The kernel's own atomics, which its tools for finding races know. On x86-64 this
 * is the one `lock add` of the user's half. On arm64 a compiler would have to decide
 * between LL/SC and LSE at build time; the kernel decides when it boots, and
 * gives with a result the same ldaddal that a pthread gets.
 */
struct counter {
	atomic64_t value;
} __attribute__((aligned(128)));

static inline void counter_add(struct counter *c)
{
#ifdef CONFIG_ARM64
	atomic64_fetch_add(1, &c->value);
#else
	atomic64_add(1, &c->value);
#endif
}

static inline unsigned long long counter_read(const struct counter *c)
{
	return (unsigned long long)atomic64_read(&c->value);
}
#else
/* Alone in its cache line: the contention measured is the counter's own. */
struct counter {
	long long value;
} __attribute__((aligned(128)));

/* seq_cst is what the study's __sync_fetch_and_add() means. */
static inline void counter_add(struct counter *c)
{
	__atomic_fetch_add(&c->value, 1, __ATOMIC_SEQ_CST);
}
#endif

/*
 * Add `n` ones. The asm barrier keeps the compiler from merging iterations
 * or unrolling them into one addition.
 */
static inline void counter_add_chunk(struct counter *c, unsigned long long n)
{
	while (n--) {
		counter_add(c);
		__asm__ volatile("" : : : "memory");
	}
}

/*
 * The same without an atomic instruction, for a counter that no other thread
 * touches: study 001's coroutines add so. The barrier makes every one an
 * addition in memory, as of a field that somebody may read.
 *
 * It takes one cycle or six: the addition waits for the store before it, unless
 * the processor guesses what that stored, and some stop guessing for tenths of
 * a second. What is counted so varies by several times from one invocation to
 * the next. It stays in memory all the same, as the study's counter is, and as
 * the atomic one beside it; tally.h, where threads are measured and not
 * additions, counts in a register.
 */
#ifndef __KERNEL__
static inline void counter_add_plain_chunk(struct counter *c,
					   unsigned long long n)
{
	while (n--) {
		c->value++;
		__asm__ volatile("" : : : "memory");
	}
}
#endif

/* The length of the chunk that starts at iteration `i` of `total`. */
static inline unsigned long long counter_chunk(unsigned long long i,
					       unsigned long long total,
					       unsigned long long every)
{
	unsigned long long left = total - i;

	return every && every < left ? every : left;
}

#endif
