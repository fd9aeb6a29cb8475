/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - slots that nobody uses, kept by each worker for the next uthread.
 *
 * A slot is kept with its TLS block, by class and by whether it has one: up to two
 * magazines per worker without a lock, the others together (rest.c). One magazine is
 * filled and emptied; who has two full ones gives the older away, and who has two empty
 * ones gets one. So a worker that takes and gives in turn never comes to that.
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
 * Who has slept for REST_NS (idle.c) gives all that it keeps to the others, where it is
 * trimmed: what a server takes at rest does not depend on who ended what last.
 *
 * Rejected: one pool (a lock for each create and end); trimming at every put (two
 * system calls, for a stack that the next one may need as deep); asking the kernel at
 * every put how deep it was (one).
 */
#include "base/san.h"
#include "stack/rest.h"
#include "stack/stack.h"

#define DEEP_MAX 32
#define DEEP_KEEP 8
#define WANTED_KEEP 8

/* Atomic, and no more than a hint: some pool may have none, others more. */
static uint32_t wanted[STACK_KINDS];

static inline unsigned kind_of(unsigned class, unsigned own)
{
	return (class - STACK_CLASS_MIN) * 2 + own;
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

/* False: there is a fork. */
static bool give_older(struct pool *p, unsigned kind, bool deep)
{
	if (p->older) {
		magazine_is(p->older, p->older_count);
		if (!rest_put(p->older, kind, deep, true))
			return false;
	}
	p->older = NULL;
	return true;
}

/* Keep the newer ones here: their caches are warm, and the newest may still
 * be running. */
static __attribute__((noinline)) void pool_turn(struct pool *p, unsigned kind)
{
	if (load_relaxed(&fork_gate) || !give_older(p, kind, false))
		return; /* the next time */
	p->older = p->head;
	p->older_count = p->count;
	store_relaxed(&p->head, NULL);
	p->count = 0;
}

static __attribute__((noinline)) void pool_spill(struct pool *p, unsigned kind,
						 uint32_t keep, bool deep)
{
	struct uthread *last = p->head;
	uint32_t i;

	if (load_relaxed(&fork_gate))
		return; /* the next time */
	p->deep = 0;
	if (!give_older(p, kind, deep) || p->count <= keep)
		return;
	for (i = 1; i < keep; i++)
		last = last->next;
	p->older = last->next;
	p->older_count = p->count - keep;
	last->next = NULL;
	p->count = keep;
	give_older(p, kind, deep);
}

static void pool_ask(unsigned kind)
{
	if (!load_relaxed(&wanted[kind]))
		store_relaxed(&wanted[kind], 1);
}

static __attribute__((noinline)) bool pool_refill(struct pool *p, unsigned kind)
{
	bool last;

	if (p->older) {
		store_relaxed(&p->head, p->older);
		p->count = p->older_count;
		p->older = NULL;
		return true;
	}
	store_relaxed(&p->head, rest_get(kind, &last));
	if (last)
		pool_ask(kind);
	if (!p->head)
		return false;
	p->count = magazine_count(p->head);
	return true;
}

/* One of the worker's own, which has some. */
static inline struct uthread *pool_pop(struct worker *w, struct pool *p)
{
	struct uthread *ut = p->head;

	store_relaxed(&p->head, ut->next);
	p->count--;
	STAT_INC(w->stats.reuses);
	return ut;
}

static __attribute__((noinline)) struct uthread *get_slowly(struct worker *w,
							    unsigned kind)
{
	struct uthread *ut = NULL;

	if (!w)
		ut = rest_get_one(kind);
	else if (w->pool[kind].head || pool_refill(&w->pool[kind], kind))
		ut = pool_pop(w, &w->pool[kind]);
	if (ut)
		stack_wait_left(ut);
	return ut;
}

struct uthread *stack_get(struct worker *w, unsigned class, bool own)
{
	const unsigned kind = kind_of(class, own);
	struct pool *p;

	if (unlikely(!w))
		return get_slowly(w, kind);
	p = &w->pool[kind];
	if (unlikely(!p->head || load_acquire(&p->head->ctx.busy)))
		return get_slowly(w, kind);
	return pool_pop(w, p);
}

static void give_one(struct uthread *ut, unsigned kind, bool deep)
{
	ut->next = NULL;
	magazine_is(ut, 1);
	rest_put(ut, kind, deep, false);
}

void stack_unused(struct uthread *ut)
{
	give_one(ut, kind_of(ut->class, false), false);
}

void stack_pool_give(struct worker *w)
{
	const uint32_t put = w->put;
	struct pool *p;
	unsigned kind;

	w->put_given = put;
	for (kind = 0; kind < STACK_KINDS; kind++) {
		p = &w->pool[kind];
		if (!give_older(p, kind, false) || !p->head)
			continue;
		p->older = p->head;
		p->older_count = p->count;
		store_relaxed(&p->head, NULL);
		p->count = 0;
		give_older(p, kind, false);
	}
}

/* Others have none, and it has more than a few. */
static inline bool is_to_give(const struct pool *p, unsigned kind)
{
	return load_relaxed(&wanted[kind]) &&
	       (p->older || p->count > WANTED_KEEP);
}

static __attribute__((noinline)) void
put_more(struct pool *p, const struct uthread *ut, unsigned kind)
{
	if (p->count >= MAGAZINE) {
		pool_turn(p, kind);
	} else if (ut->deep && ++p->deep >= DEEP_MAX) {
		pool_spill(p, kind, DEEP_KEEP, true);
	} else if (is_to_give(p, kind)) {
		store_relaxed(&wanted[kind], 0);
		pool_spill(p, kind, WANTED_KEEP, false);
	}
}

void stack_put(struct worker *w, struct uthread *ut)
{
	const uint32_t flags = load_relaxed(&ut->flags);
	const unsigned kind = kind_of(ut->class, !!(flags & UT_TLS_BLOCK));
	struct pool *p;

	if (unlikely(flags & UT_MAIN))
		return;
	uthread_become(ut, UT_FREE);
	san_stack_fresh(ut->stack_low, (size_t)(ut->stack_top - ut->stack_low));
	if (unlikely(!w)) {
		give_one(ut, kind, ut->deep);
		return;
	}
	p = &w->pool[kind];
	w->put++;
	pool_push(p, ut);
	if (unlikely(p->count >= MAGAZINE || ut->deep || is_to_give(p, kind)))
		put_more(p, ut, kind);
}
