/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h - the two locks of the runtime itself.
 *
 * struct spin: a test-and-set lock for sections of a few dozen instructions
 * (wait queues, pools). Nobody switches contexts while holding one. The
 * kernel may still preempt the holder, so a spinner soon gives its CPU away.
 *
 * struct bias: a lock that costs its owner no atomic read-modify-write, for
 * a worker's run queue, which its owner takes at every switch and a thief
 * takes once in a while. It is Dekker's algorithm with the fence on one
 * side only:
 *
 *	owner: owner = 1; (compiler barrier); if (remote) wait; ...; owner = 0
 *	thief: remote = 1; membarrier(2);     if (owner) wait;  ...; remote = 0
 *
 * membarrier(PRIVATE_EXPEDITED) makes every running thread of the process
 * execute a full fence, so at least one side sees the other. Without it
 * (old kernel, seccomp) bias_light_fence() is a full fence and the heavy
 * one too. A filter may also come later, of a program that shuts itself in
 * when it has started (spin.c). Rejected: Go's ring with a compare-and-swap
 * per pop (6 to 9 ns a yield here, more than the whole rest of it); queues
 * that are private and stolen from by request (a victim in a long computation
 * would not answer). A model of it is in tests/relacy/bias.cc.
 */
#ifndef UTHREAD_SPIN_H
#define UTHREAD_SPIN_H

#include <linux/membarrier.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"
#include "base/region.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Before the constructors of a program that has the library in it: these may make
 * threads, and are linked before it. */
#define AT_START __attribute__((constructor(101)))
/* Large, and mostly never touched. The linker puts these behind all other variables,
 * which so lie on a few pages: a new process and the child of a fork take a fault for
 * each that they touch, and these are dear. */
#define LARGE __attribute__((section(".bss.large")))
#define barrier() __asm__ volatile("" : : : "memory")

#define load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define full_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* A short wait, then longer ones: `*n` counts the rounds. */
static inline void spin_pause(unsigned *n)
{
	if (++*n < 128)
		arch_pause();
	else
		sched_yield();
}

/* ---- spin ---- */

/* From here to spin_unlock() the holder is not preempted: others spin. */
static inline void spin_lock(uint32_t *lock)
{
	unsigned n = 0;

	region_enter();
	while (unlikely(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)))
		while (load_relaxed(lock))
			spin_pause(&n);
}

/*
 * A fork holds some of these locks for long: it copies a whole address space,
 * and waits for the locks of malloc's arenas, whose holders may be ready behind
 * us. From before it takes the first of them the gate is shut; who finds one
 * held then waits, parked, until the fork is over.
 */
extern uint32_t fork_gate; /* atomic: 1 shut */
extern void (*fork_gate_wait)(void); /* set once: process/start.c */

/* spin_lock() for one of them; not in a region. */
static inline void spin_lock_gated(uint32_t *lock)
{
	unsigned n = 0;

	for (;;) {
		region_enter();
		if (likely(!__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)))
			return;
		region_leave();
		while (load_relaxed(lock)) {
			if (unlikely(load_relaxed(&fork_gate)))
				fork_gate_wait();
			else
				spin_pause(&n);
		}
	}
}

/* In a region nobody may park: false, and not taken, if a fork has it. */
static inline bool spin_lock_unless_gated(uint32_t *lock)
{
	unsigned n = 0;

	region_enter();
	while (unlikely(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)))
		while (load_relaxed(lock)) {
			if (load_relaxed(&fork_gate)) {
				region_leave();
				return false;
			}
			spin_pause(&n);
		}
	return true;
}

static inline void spin_unlock(uint32_t *lock)
{
	store_release(lock, 0); /* pairs with acquire in spin_lock() */
	region_leave();
}

/* ---- bias ---- */

struct bias {
	uint32_t owner; /* written by the owner only */
	uint32_t remote; /* 1: a thief holds it or is about to */
};

extern int bias_membarrier; /* atomic; 1: the kernel has it, and lets us */

void bias_setup(void);

/* Every thread of the process passes a full fence before this returns. */
void bias_heavy_fence(void);

/* The cheap partner of bias_heavy_fence(). */
static inline void bias_light_fence(void)
{
	if (likely(load_relaxed(&bias_membarrier)))
		barrier();
	else
		full_fence();
}

void bias_owner_wait(struct bias *b);

static inline void bias_lock(struct bias *b)
{
	store_relaxed(&b->owner, 1);
	bias_light_fence(); /* pairs with the heavy fence of the thief */
	if (unlikely(load_acquire(&b->remote))) /* pairs: bias_remote_unlock */
		bias_owner_wait(b);
}

static inline void bias_unlock(struct bias *b)
{
	store_release(&b->owner, 0); /* pairs: bias_remote_trylock */
}

/* False: another thief is at it, or the owner does not leave. */
bool bias_remote_trylock(struct bias *b);

static inline void bias_remote_unlock(struct bias *b)
{
	store_release(&b->remote, 0); /* pairs: bias_lock, bias_owner_wait */
}

#endif
