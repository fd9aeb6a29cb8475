/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - the slow halves of the biased lock; the essay is in spin.h. */
#include "base/spin.h"

#include <errno.h>

#include "base/clock.h"

int bias_membarrier;

uint32_t fork_gate;

/* Until a uthread exists. */
static void yield(void)
{
	sched_yield();
}

void (*fork_gate_wait)(void) = yield;

void bias_setup(void)
{
	/* Registration must precede use; it is cheap while single-threaded. */
	bias_membarrier = !syscall(SYS_membarrier,
				   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
				   0) &&
			  !syscall(SYS_membarrier,
				   MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/*
 * It was allowed, and is no more. From now on everybody fences; who was just about
 * to go without has stored its word before or does so within the nanoseconds that
 * a store takes to be seen, so the caller waits for very much longer, once.
 */
#define LOST_NS 1000000

static void membarrier_lost(void)
{
	uint64_t end;

	store_relaxed(&bias_membarrier, 0);
	full_fence();
	for (end = now_ns() + LOST_NS; now_ns() < end;)
		arch_pause();
}

void bias_heavy_fence(void)
{
	const int saved = errno;

	if (likely(load_relaxed(&bias_membarrier)) &&
	    likely(!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0,
			    0)))
		return;
	if (load_relaxed(&bias_membarrier))
		membarrier_lost();
	full_fence();
	errno = saved;
}

/* The owner met a thief: step back, wait, try again. */
void bias_owner_wait(struct bias *b)
{
	unsigned n = 0;

	do {
		store_release(&b->owner, 0);
		while (load_acquire(&b->remote))
			spin_pause(&n);
		store_relaxed(&b->owner, 1);
		bias_light_fence();
	} while (load_acquire(&b->remote));
}

bool bias_remote_trylock(struct bias *b)
{
	unsigned n;

	if (load_relaxed(&b->remote) ||
	    __atomic_exchange_n(&b->remote, 1, __ATOMIC_ACQUIRE))
		return false;
	bias_heavy_fence(); /* pairs with the light fence in bias_lock() */
	/*
	 * The owner's sections are short; if it stays, the kernel has
	 * preempted it inside one. Another victim is better than waiting.
	 */
	for (n = 0; n < 256; n++) {
		if (!load_acquire(&b->owner)) /* pairs: bias_unlock */
			return true;
		arch_pause();
	}
	bias_remote_unlock(b);
	return false;
}
