/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runq.h - a worker's own queue: what a switch touches, hence inline.
 *
 * First in, first out is the list in struct worker; any other policy keeps
 * its own queue (policy.h) and only the counts are here.
 */
#ifndef UTHREAD_RUNQ_H
#define UTHREAD_RUNQ_H

#include "base/nouns.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "tls/tls.h"

#define FETCH_LINES 15 /* of a stack, from where it was left */

#pragma GCC visibility push(hidden)

/* Under the bias lock. */
static inline void rq_push(struct worker *w, struct uthread *ut)
{
	ut_assert(load_relaxed(&ut->state) == UT_READY);
	if (unlikely(rt.policy))
		policy_put(w, ut);
	else
		list_push(&w->rq, ut);
	store_relaxed(&w->count, w->count + 1);
	if (unlikely(ut->bound >= 0))
		store_relaxed(&w->bound_count, w->bound_count + 1);
}

static inline struct uthread *rq_pop(struct worker *w)
{
	struct uthread *ut = unlikely(rt.policy) ? policy_take(w) :
						   list_pop(&w->rq);

	if (ut) {
		store_relaxed(&w->count, w->count - 1);
		if (unlikely(ut->bound >= 0))
			store_relaxed(&w->bound_count, w->bound_count - 1);
	}
	return ut;
}

/*
 * Out with the first, in with the running `ut`; NULL and nothing done if there is
 * none. What
 * a yield does: the counts stay, and so does a queue that is never empty.
 */
static inline struct uthread *rq_rotate(struct worker *w, struct uthread *ut)
{
	struct uthread *first = w->rq.head;

	if (!first)
		return NULL;
	uthread_become(ut, UT_READY);
	ut->next = NULL;
	w->rq.tail->next = ut; /* which may be the first's own */
	w->rq.tail = ut;
	w->rq.head = first->next;
	if (unlikely((ut->bound ^ first->bound) < 0)) /* one is, one is not */
		store_relaxed(&w->bound_count,
			      w->bound_count + (ut->bound < 0 ? -1u : 1u));
	return first;
}

/* The same, in front of all others; first in, first out only. */
static inline void rq_push_first(struct worker *w, struct uthread *ut)
{
	struct uthread *head = w->rq.head;

	if (!head) {
		rq_push(w, ut);
		return;
	}
	if (head->why == UTHREAD_READY_NEW)
		head->rq_prev = ut;
	ut->next = head;
	w->rq.head = ut;
	store_relaxed(&w->count, w->count + 1);
}

/* Under the bias lock: out of the middle, from behind `prev`. */
static inline void rq_take_behind(struct worker *w, struct uthread *prev,
				  struct uthread *ut)
{
	struct uthread *next = ut->next;

	prev->next = next;
	if (!next)
		w->rq.tail = prev;
	else if (next->why == UTHREAD_READY_NEW)
		next->rq_prev = prev;
	store_relaxed(&w->count, w->count - 1);
	if (unlikely(ut->bound >= 0))
		store_relaxed(&w->bound_count, w->bound_count - 1);
}

static inline struct uthread *local_pop(struct worker *w)
{
	struct uthread *ut;

	bias_lock(&w->bias);
	ut = rq_pop(w);
	bias_unlock(&w->bias);
	return ut;
}

/* Somebody was put into the own queue. In the base context nobody runs there who
 * is to be stopped: who is taken next may be all there is (sched_loop()). */
static inline void tick_want_here(struct worker *w)
{
	if (load_relaxed(&w->running))
		tick_want(w);
}

/*
 * Who is the next but one: what it will touch first, and of the one behind it the
 * struct, is on its way from memory while the next one runs. A thousand uthreads that
 * wait in turn have none of that in the cache. Under the bias lock; a stack pointer
 * out of date costs a line.
 */
static inline void rq_fetch(const struct uthread *ut)
{
	uintptr_t next, tp, sp;
	int i;

	if (!ut)
		return;
	next = (uintptr_t)ut->next;
	__builtin_prefetch((void *)next, 1);
	__builtin_prefetch((void *)(next + CACHE_LINE), 1);
	tp = ut->ctx.tp;
	__builtin_prefetch((void *)tp, 1);
	__builtin_prefetch((void *)(tp + (uintptr_t)tls_layout.self_off), 1);
	sp = (uintptr_t)load_relaxed(&ut->ctx.sp);
	for (i = 0; i < FETCH_LINES; i++)
		__builtin_prefetch((void *)(sp + i * CACHE_LINE), 1);
}

/* For who leaves to wait: it has time for that. */
static inline struct uthread *local_pop_fetch(struct worker *w)
{
	struct uthread *ut;

	bias_lock(&w->bias);
	ut = rq_pop(w);
	rq_fetch(w->rq.head);
	bias_unlock(&w->bias);
	return ut;
}

static inline void local_push(struct worker *w, struct uthread *ut)
{
	bias_lock(&w->bias);
	rq_push(w, ut);
	bias_unlock(&w->bias);
	tick_want_here(w);
}

/*
 * One that has never run, and that any worker may run: who is in front of it is noted,
 * so that it can be taken out of the middle (child_pop()). That holds as long as nobody
 * has taken from this queue (`taken`), and it has not run: who is in front goes first,
 * or goes out of the middle, too, by rq_take_behind().
 */
static inline void local_push_new(struct worker *w, struct uthread *ut)
{
	bias_lock(&w->bias);
	ut->rq_prev = w->rq.head ? w->rq.tail : NULL;
	store_relaxed(&ut->place, w->taken);
	rq_push(w, ut);
	bias_unlock(&w->bias);
	tick_want_here(w);
}

/* watch.c: somebody might look for work, and this worker has some more, */
void watch_added(struct worker *w);
/* and somebody has to come. */
void poke_watched(void);

void global_push(struct uthread *ut);
void global_push_all(struct uthread_list *l);
/* Somebody waits for whoever is there first, and nobody sleeps. */
void ticks_for_all(void);

/* May `w` run it at all? The rescuer (spare.c) runs only who can be stopped
 * in libc. */
static inline bool may_run(const struct worker *w, const struct uthread *ut)
{
	return likely(w->kind != WORKER_RESCUER) ||
	       load_relaxed(&ut->flags) & UT_OWN_TLS;
}

static inline void local_push_all(struct worker *w, struct uthread_list *l)
{
	struct uthread_list others = { 0 };
	struct uthread *ut;

	bias_lock(&w->bias);
	while ((ut = list_pop(l))) {
		if (may_run(w, ut))
			rq_push(w, ut);
		else
			list_push(&others, ut);
	}
	bias_unlock(&w->bias);
	bias_light_fence(); /* pairs with the heavy fence in go_idle() */
	if (unlikely(load_relaxed(&rt.watched)))
		watch_added(w);
	tick_want_here(w);
	if (unlikely(others.head))
		global_push_all(&others);
}

/* ---- idle.c: sleeping and waking workers ---- */

/* Wake one sleeper; which one does not matter. */
void wake_some(void);
void idle_wake(struct worker *w);
/* Sleep until woken, unless there is something to do after all. True: an event
 * ended it, and whom it concerns is ready. */
bool go_idle(struct worker *w);
/* Sleep for so long, or until a deadline or something for the inbox. */
void nap(struct worker *w, uint64_t ns);

/* Work that any worker may do was added: see that somebody comes. */
static inline void poke(void)
{
	bias_light_fence(); /* pairs with the heavy fence in go_idle() */
	if (unlikely(load_relaxed(&rt.watched)))
		poke_watched();
}

/* ---- share.c: work that is not in the worker's own queue ---- */

/* Into its own worker's inbox, from another. */
void inbox_push(struct worker *w, struct uthread *ut);
void ready_from(struct worker *w, struct uthread *ut);
/*
 * May it be taken out of its queue for another worker? Not while it is still
 * on its way off its stack, nor one that is bound: unless it is to be lent,
 * because its worker sleeps and cannot be stopped (spare.c).
 */
static inline bool may_move(const struct uthread *ut, bool lend)
{
	if (load_acquire(&ut->ctx.busy))
		return false;
	return ut->bound < 0 ||
	       (lend && ut->in_libc && load_relaxed(&ut->flags) & UT_OWN_TLS &&
		(ut->why == UTHREAD_READY_STOPPED ||
		 ut->why == UTHREAD_READY_MOVED));
}

/* Everything but the run queue; true: the run queue has something new. */
bool look_around(struct worker *w);
/*
 * Look at every other worker once; true: the first of what was found is w->handoff,
 * but with the rescuer, and the rest in the run queue. *active: somebody switches or
 * has something, so looking again soon is worth it. *late: it is not yet, but at
 * late_until().
 */
bool steal(struct worker *w, bool *active, bool *late);
/* Others of many, for the looks that follow: two at the same tell who moves. */
void steal_begin(struct worker *w);
/* Uthreads of `v` that may move. */
static inline uint32_t stealable(const struct worker *v)
{
	uint32_t n = load_relaxed(&v->count), b = load_relaxed(&v->bound_count);

	return n > b ? n - b : 0;
}

/* Somewhere but with `but` (NULL: with nobody) a uthread is ready that any worker
 * may run? */
bool anything_to_steal(const struct worker *but);
/* Until when who waits there is left to that worker (sched_ready_late()); 0: not. */
uint64_t late_until(const struct worker *v);
/* Anything a worker that goes to sleep would miss, of what no other worker has? */
bool anything_left(const struct worker *w);

static inline bool around_waits(const struct worker *w)
{
	return load_relaxed(&w->inbox_count) | load_relaxed(&rt.global_count);
}

static inline void belongs_to(struct worker *w, struct uthread *ut)
{
	if (likely(ut->worker == w))
		return;
	store_relaxed(&ut->worker, w);
	if (load_relaxed(&ut->flags) & UT_TLS_BLOCK)
		tls_of(ut)->worker = w;
}

/* `next` is ours and its context is free: make it run here. */
static inline void adopt(struct worker *w, struct uthread *next)
{
	store_relaxed(&next->ctx.busy, 1);
	uthread_become(next, UT_RUNNING);
	belongs_to(w, next);
	if (!(load_relaxed(&next->flags) & UT_OWN_TLS)) {
		next->ctx.tp = w->tp;
		w->tls->self = next;
		w->shared = true;
	}
	store_relaxed(&w->running, next);
	store_relaxed(&w->late_until, 0);
	if (unlikely(rt.policy))
		policy_begin(next);
	STAT_INC(w->stats.switches);
}

#pragma GCC visibility pop

#endif
