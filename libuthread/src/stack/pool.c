/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - slots that nobody uses, kept for the next uthread.
 *
 * A slot is kept with its TLS block, by class and by whether it has one: a few
 * hundred per worker without a lock, the rest in global pools, where stacks
 * that were used deeply are trimmed.
 *
 * Invariants:
 *  - A worker's pool is touched by that worker alone, in a region.
 *  - A slot may be put into a pool by the very uthread that runs on it; who
 *    takes it waits for ctx.busy == 0.
 *  - While there is a fork no region waits for pool_lock: a worker keeps what it
 *    has and asks again the next time.
 *
 * A worker that ends uthreads one after the other takes the same few slots again, so
 * those below keep what was once committed there: a server with a buffer of 64 KiB on
 * each stack had 72 MB at rest where it needs 15. Whoever parked deep was deep; after
 * DEEP_MAX of these all but the newest go to the global pool, and are trimmed.
 *
 * Where one worker creates what others run, slots wander to the others. Who leaves
 * the global pool empty asks for more (`wanted`), and the next worker that puts one
 * back gives all but a few. Without it each worker hoards a few hundred before
 * the creator sees one of them again: a server of 100 connections at a time had 250
 * stacks, and was still getting more after minutes.
 *
 * Rejected: one global pool (a lock for each create and end); trimming at every
 * put (two system calls, for a stack that the next one may need as deep); asking the
 * kernel at every put how deep it was (one).
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/san.h"
#include "stack/stack.h"

#define POOL_MAX 256 /* slots a worker keeps, per class and mode */
#define TRIM_KEEP STACK_DEEP /* bytes at the top that stay committed */
#define DEEP_MAX 32
#define DEEP_KEEP 8
#define WANTED_KEEP 8

/* Guarded by pool_lock. */
static uint32_t pool_lock;
static struct pool pools[STACK_CLASSES][2];

/* Atomic, and no more than a hint: some pool may have none, others more. */
static uint32_t wanted[STACK_CLASSES][2];

static struct uthread *pool_pop(struct pool *p)
{
	struct uthread *ut = p->head;

	if (ut) {
		store_relaxed(&p->head, ut->next);
		p->count--;
	}
	return ut;
}

static void pool_push(struct pool *p, struct uthread *ut)
{
	ut->next = p->head;
	store_relaxed(&p->head, ut);
	p->count++;
}

void stack_wait_left(struct uthread *ut)
{
	unsigned n = 0;

	while (load_acquire(&ut->ctx.busy)) /* pairs: context_switch() */
		spin_pause(&n);
}

/* Give back what a deep call has committed, if any has. */
static void trim(struct uthread *ut)
{
	size_t bytes = (size_t)(ut->stack_top - ut->stack_low), i;
	unsigned char resident[256];
	const size_t page = stack_page();
	size_t n, step = sizeof(resident) * page;
	char *p = ut->stack_low, *end;
	int saved = errno;

	if (bytes <= TRIM_KEEP)
		return;
	end = (char *)(((uintptr_t)ut->stack_top - TRIM_KEEP) &
		       ~(uintptr_t)(page - 1));
	for (; p < end; p += n * page) {
		n = (size_t)(end - p) < step ? (size_t)(end - p) / page :
					       sizeof(resident);
		if (mincore(p, n * page, resident))
			break;
		for (i = 0; i < n; i++)
			if (resident[i] & 1)
				break;
		if (i < n) {
			madvise(p, (size_t)(end - p), MADV_DONTNEED);
			break;
		}
	}
	errno = saved;
}

/* In a region of a worker false, and nothing done, while there is a fork. */
static __attribute__((noinline)) bool
pool_to_global(struct uthread *first, unsigned c, unsigned own, bool in_region)
{
	struct uthread *ut, *next;

	for (ut = first; ut; ut = ut->next) {
		stack_wait_left(ut);
		trim(ut);
	}
	if (!in_region)
		spin_lock_gated(&pool_lock);
	else if (!spin_lock_unless_gated(&pool_lock))
		return false;
	for (ut = first; ut; ut = next) {
		next = ut->next;
		pool_push(&pools[c][own], ut);
	}
	spin_unlock(&pool_lock);
	return true;
}

/* Keep the newer ones here: their caches are warm, and the newest may still
 * be running. */
static __attribute__((noinline)) void pool_spill(struct pool *p, unsigned c,
						 unsigned own, uint32_t keep)
{
	struct uthread *last = p->head, *rest;
	const uint32_t before = p->count;
	uint32_t i;

	if (load_relaxed(&fork_gate))
		return; /* the next time */
	p->deep = 0;
	if (before <= keep)
		return;
	for (i = 1; i < keep; i++)
		last = last->next;
	rest = last->next;
	last->next = NULL;
	p->count = keep;
	if (!pool_to_global(rest, c, own, true)) {
		last->next = rest;
		p->count = before;
	}
}

static void pool_ask(unsigned c, unsigned own)
{
	if (!load_relaxed(&wanted[c][own]))
		store_relaxed(&wanted[c][own], 1);
}

static __attribute__((noinline)) struct uthread *
pool_from_global(struct worker *w, unsigned c, unsigned own)
{
	struct uthread *ut, *more;
	int n;

	if (!load_relaxed(&pools[c][own].head)) {
		pool_ask(c, own);
		return NULL;
	}
	if (!w)
		spin_lock_gated(&pool_lock);
	else if (!spin_lock_unless_gated(&pool_lock))
		return NULL; /* slot_new() waits for the fork */
	ut = pool_pop(&pools[c][own]);
	for (n = 0; w && n < POOL_MAX / 4; n++) {
		more = pool_pop(&pools[c][own]);
		if (!more)
			break;
		pool_push(&w->pool[c][own], more);
	}
	if (!pools[c][own].head)
		pool_ask(c, own);
	spin_unlock(&pool_lock);
	return ut;
}

struct uthread *stack_get(struct worker *w, unsigned class, bool own)
{
	unsigned c = class - STACK_CLASS_MIN;
	struct uthread *ut = NULL;

	if (w)
		ut = pool_pop(&w->pool[c][own]);
	if (!ut)
		ut = pool_from_global(w, c, own);
	if (!ut)
		return NULL;
	if (unlikely(load_acquire(&ut->ctx.busy)))
		stack_wait_left(ut);
	if (w)
		STAT_INC(w->stats.reuses);
	return ut;
}

void stack_unused(struct uthread *ut)
{
	ut->next = NULL;
	pool_to_global(ut, (unsigned)ut->class - STACK_CLASS_MIN, false, false);
}

void stack_pool_give(struct worker *w)
{
	unsigned c, own;
	struct pool *p;

	for (c = 0; c < STACK_CLASSES; c++) {
		for (own = 0; own < 2; own++) {
			p = &w->pool[c][own];
			if (!p->head || !pool_to_global(p->head, c, own, true))
				continue;
			p->head = NULL;
			p->count = 0;
		}
	}
}

void stack_put(struct worker *w, struct uthread *ut)
{
	unsigned c = (unsigned)ut->class - STACK_CLASS_MIN;
	unsigned own = !!(load_relaxed(&ut->flags) & UT_TLS_BLOCK);
	struct pool *p;

	if (unlikely(load_relaxed(&ut->flags) & UT_MAIN))
		return;
	uthread_become(ut, UT_FREE);
	san_stack_fresh(ut->stack_low, (size_t)(ut->stack_top - ut->stack_low));
	if (!w) {
		ut->next = NULL;
		pool_to_global(ut, c, own, false);
		return;
	}
	p = &w->pool[c][own];
	pool_push(p, ut);
	if (unlikely(p->count > POOL_MAX))
		pool_spill(p, c, own, POOL_MAX / 2);
	else if (unlikely(ut->deep) && ++p->deep >= DEEP_MAX)
		pool_spill(p, c, own, DEEP_KEEP);
	else if (unlikely(load_relaxed(&wanted[c][own])) &&
		 p->count > WANTED_KEEP) {
		store_relaxed(&wanted[c][own], 0);
		pool_spill(p, c, own, WANTED_KEEP);
	}
}

void pool_fork_lock(void)
{
	spin_lock(&pool_lock);
}

void pool_fork_unlock(void)
{
	spin_unlock(&pool_lock);
}
