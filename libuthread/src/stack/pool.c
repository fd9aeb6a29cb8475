/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - slots that nobody uses, kept by each worker for the next uthread.
 *
 * A slot is kept with its TLS block, by class and by whether it has one: a few
 * hundred per worker without a lock, the others together (rest.c).
 *
 * Invariants:
 *  - A worker's pool is touched by that worker alone, in a region.
 *  - A slot may be put into a pool by the very uthread that runs on it; who
 *    takes it waits for ctx.busy == 0.
 *
 * A worker that ends uthreads one after the other takes the same few slots again, so
 * those below keep what was once committed there: a server with a buffer of 64 KiB on
 * each stack had 72 MB at rest where it needs 15. Whoever parked deep was deep; after
 * DEEP_MAX of these all but the newest are given away, and trimmed at once.
 *
 * Where one worker creates what others run, slots wander to the others. Who leaves
 * no more for others asks for some (`wanted`), and the next worker that puts one
 * back gives all but a few. Without it each worker hoards a few hundred before
 * the creator sees one of them again: a server of 100 connections at a time had 250
 * stacks, and was still getting more after minutes.
 *
 * Rejected: one pool (a lock for each create and end); trimming at every put (two
 * system calls, for a stack that the next one may need as deep); asking the kernel at
 * every put how deep it was (one).
 */
#include "base/san.h"
#include "stack/rest.h"
#include "stack/stack.h"

#define POOL_MAX 256 /* slots a worker keeps, per class and mode */
#define DEEP_MAX 32
#define DEEP_KEEP 8
#define WANTED_KEEP 8

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

void stack_wait_left(struct uthread *ut)
{
	unsigned n = 0;

	while (load_acquire(&ut->ctx.busy)) /* pairs: context_switch() */
		spin_pause(&n);
}

/* Keep the newer ones here: their caches are warm, and the newest may still
 * be running. */
static __attribute__((noinline)) void
pool_spill(struct pool *p, unsigned c, unsigned own, uint32_t keep, bool deep)
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
	if (!rest_put(rest, c, own, deep, true)) {
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
pool_refill(struct worker *w, unsigned c, unsigned own)
{
	bool last;
	struct uthread *ut =
		rest_get(w ? &w->pool[c][own] : NULL, c, own, &last);

	if (last)
		pool_ask(c, own);
	return ut;
}

struct uthread *stack_get(struct worker *w, unsigned class, bool own)
{
	unsigned c = class - STACK_CLASS_MIN;
	struct uthread *ut = NULL;

	if (w)
		ut = pool_pop(&w->pool[c][own]);
	if (!ut)
		ut = pool_refill(w, c, own);
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
	rest_put(ut, (unsigned)ut->class - STACK_CLASS_MIN, false, false,
		 false);
}

void stack_pool_give(struct worker *w)
{
	unsigned c, own;
	struct pool *p;

	for (c = 0; c < STACK_CLASSES; c++) {
		for (own = 0; own < 2; own++) {
			p = &w->pool[c][own];
			if (!p->head || !rest_put(p->head, c, own, false, true))
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
		rest_put(ut, c, own, ut->deep, false);
		return;
	}
	p = &w->pool[c][own];
	pool_push(p, ut);
	if (unlikely(p->count > POOL_MAX))
		pool_spill(p, c, own, POOL_MAX / 2, false);
	else if (unlikely(ut->deep) && ++p->deep >= DEEP_MAX)
		pool_spill(p, c, own, DEEP_KEEP, true);
	else if (unlikely(load_relaxed(&wanted[c][own])) &&
		 p->count > WANTED_KEEP) {
		store_relaxed(&wanted[c][own], 0);
		pool_spill(p, c, own, WANTED_KEEP, false);
	}
}
