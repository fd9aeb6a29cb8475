/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.h - stretches of the runtime in which a tick has to wait.
 *
 * A uthread inside a region is not preempted: it may hold a spin lock, or
 * have a pointer to its worker in a register, and both must not outlive the
 * worker's CPU. The count is a word of the TLS block the code runs on, so
 * that entering and leaving is one addition each, and the signal handler,
 * which runs on the same block, reads it without asking who we are.
 *
 * A tick that comes in a region is kept in `pending` and taken by the
 * region_leave() that brings the count to 0.
 *
 * Every switch happens inside a region. The count belongs to the code, not
 * to the block: sched.c puts back what it was when a uthread comes back, on
 * whatever block that is (shared TLS: another worker's).
 */
#ifndef UTHREAD_REGION_H
#define UTHREAD_REGION_H

#include <stdint.h>

#include "arch.h"

struct uthread;
struct worker;

/*
 * Who runs on this TLS block. On a uthread's own block: itself, and the
 * worker that runs it. On a carrier's: the shared-TLS uthread that runs, or
 * NULL, and the worker. On a plain pthread's: NULL, NULL. Read these two
 * with uthread_current() and worker_current() only; two words side by side,
 * so that a yield does not have to load one to find the other, and all in one line,
 * which a uthread that has waited finds in no cache.
 */
struct here {
	struct uthread *self;
	struct worker *worker;
	uint32_t off; /* depth of regions; written by who runs here only */
	uint32_t pending; /* PENDING_*; written by handlers, too */
} __attribute__((aligned(32)));

extern __thread struct here uthread_here
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Why something waits for the end of a region. */
enum {
	PENDING_TICK = 1,
	PENDING_OTHER = 2, /* a signal of the program, a semaphore's post */
};

/* Hook, set by preempt_setup(): do what waited. */
extern void (*region_pending)(void);
/* Hook, set by sync/sem.c: post what handlers could not. */
extern void (*region_posts)(void);
/* The same, set by sync/futex.c: wake whom they could not. */
extern void (*region_wakes)(void);

static inline struct here *here_now(void)
{
	return ARCH_TLS_ADDR(uthread_here);
}

/* From a handler: something waits for the end of this region. A tick that
 * does is told apart, and stays. */
static inline void region_wait(struct here *h)
{
	uint32_t none = 0;

	__atomic_compare_exchange_n(&h->pending, &none, PENDING_OTHER, 0,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static inline void region_enter(void)
{
	struct here *h = here_now();

	__atomic_store_n(&h->off, h->off + 1, __ATOMIC_RELAXED);
	__asm__ volatile("" : : : "memory"); /* pairs: the handler, same CPU */
}

static inline void region_leave(void)
{
	struct here *h = here_now();
	uint32_t off = h->off - 1;

	__asm__ volatile("" : : : "memory"); /* pairs: the handler, same CPU */
	__atomic_store_n(&h->off, off, __ATOMIC_RELAXED);
	__asm__ volatile("" : : : "memory");
	if (__builtin_expect(
		    !off && __atomic_load_n(&h->pending, __ATOMIC_RELAXED), 0))
		region_pending();
}

static inline void region_guard_end(const char *unused)
{
	(void)unused;
	region_leave();
}

/*
 * The rest of the function is a region. Every wait needs one, from before
 * its waiter can be found by a waker until it is back: one that is preempted
 * in between would be in the run queue twice.
 */
#define REGION                                                       \
	const char region_guard_                                     \
		__attribute__((cleanup(region_guard_end), unused)) = \
			(region_enter(), 0)

#endif
