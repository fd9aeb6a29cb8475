/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_contend.h - CONTENDERS threads on one mutex for a while: each locks,
 * does a little inside, unlocks, and does a little outside. Time of one lock in
 * all, and the longest that anybody waited for one; go-bench does the same.
 * Included once by each program, which says what a lock is.
 */
#ifndef PEERS_BENCH_CONTEND_H
#define PEERS_BENCH_CONTEND_H

#include "bench.h"

#define CONTENDERS 8
#define CONTEND_NS 1000000000u
#define CONTEND_INSIDE 50 /* rounds of bench_work() */
#define CONTEND_OUTSIDE 50

struct contender {
	struct contend *all;
	uint64_t locks, longest_ns; /* its own */
	char pad[40];
};

struct contend {
	uint64_t until;
	uint64_t inside; /* guarded by the mutex */
	struct contender of[CONTENDERS];
};

/* A few instructions that no compiler leaves out. */
static inline void bench_work(int rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : : "r"(rounds));
}

static void contend_lock(void);
static void contend_unlock(void);

static void *contender(void *arg)
{
	struct contender *c = arg;
	struct contend *all = c->all;
	uint64_t before, now;

	do {
		before = bench_now();
		contend_lock();
		now = bench_now();
		all->inside++;
		bench_work(CONTEND_INSIDE);
		contend_unlock();
		bench_work(CONTEND_OUTSIDE);
		c->locks++;
		if (now - before > c->longest_ns)
			c->longest_ns = now - before;
	} while (now < all->until);
	return NULL;
}

static struct contend *contend_begin(void)
{
	static struct contend all;
	int i;

	all.until = bench_now() + CONTEND_NS;
	for (i = 0; i < CONTENDERS; i++)
		all.of[i].all = &all;
	return &all;
}

static void contend_end(const struct contend *all)
{
	uint64_t locks = 0, longest = 0, fewest = UINT64_MAX;
	int i;

	for (i = 0; i < CONTENDERS; i++) {
		locks += all->of[i].locks;
		if (all->of[i].longest_ns > longest)
			longest = all->of[i].longest_ns;
		if (all->of[i].locks < fewest)
			fewest = all->of[i].locks;
	}
	if (locks != all->inside)
		bench_die("%llu locks, but %llu times inside",
			  (unsigned long long)locks,
			  (unsigned long long)all->inside);
	bench_result("contend", (double)CONTEND_NS / (double)locks, locks,
		     ",\"longest_us\":%.1f,\"fewest\":%llu",
		     (double)longest / 1e3, (unsigned long long)fewest);
}

#endif
