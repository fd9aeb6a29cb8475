/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutex_pi.c - priority inheritance.
 *
 * A uthread has a priority of its own and a boost; the larger counts. Whoever
 * queues for a mutex raises its holder's boost to its own priority, and if
 * the holder waits for a CPU it moves up in that queue. `lenders` counts the
 * mutexes held for which somebody higher waits; with the last of them the
 * boost ends. With several at once it is the highest until then, which is
 * higher than need be for a while, and never too low.
 *
 * Not passed on: a holder that itself waits for another mutex does not boost
 * that one's holder. Rejected: the kernel's full chain walk, whose locking
 * order (every mutex and every queue on the way) would be most of the code.
 */
#include "sync/mutex.h"
#include "sched/policy.h"

static int priority_of(const struct waiter *wt)
{
	int p = -1;

	if (wt->ut)
		uthread_getpriority(wt->ut, &p);
	return p;
}

static void raise_to(struct uthread *ut, int priority)
{
	if (priority <= load_relaxed(&ut->boost))
		return;
	store_relaxed(&ut->boost, priority);
	sched_requeue(ut);
}

void pi_lend(uthread_mutex_t *m, const struct waiter *wt)
{
	struct uthread *holder = uthread_of_id(load_relaxed(&m->_owner));

	if (!holder)
		return; /* a plain pthread, or not yet known: mutex.c */
	if (WAITQ(m)->head == wt)
		__atomic_fetch_add(&holder->lenders, 1, __ATOMIC_RELAXED);
	raise_to(holder, priority_of(wt));
}

void pi_return(struct uthread *holder)
{
	if (holder && load_relaxed(&holder->lenders) &&
	    !__atomic_sub_fetch(&holder->lenders, 1, __ATOMIC_RELAXED))
		store_relaxed(&holder->boost, 0);
}

struct waiter *pi_best(struct waitq *q)
{
	struct waiter *wt, *best = NULL;

	for (wt = q->head; wt; wt = wt->next)
		if (load_relaxed(&wt->state) == WAITER_WAITING &&
		    (!best || priority_of(wt) > priority_of(best)))
			best = wt;
	return best;
}

void pi_inherit(struct uthread *ut, const struct waitq *q)
{
	const struct waiter *wt;

	if (!ut || !q->head)
		return;
	__atomic_fetch_add(&ut->lenders, 1, __ATOMIC_RELAXED);
	for (wt = q->head; wt; wt = wt->next)
		raise_to(ut, priority_of(wt));
}
