/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.c - deadlines that a worker sees to by itself.
 *
 * While no worker sleeps, who parks with a deadline leaves it with its worker: it is
 * that one's next looks (look_around()) or its tick that find it due, so that who arms
 * it, or is woken before, touches no line of another worker. The one heap that all
 * share (timer.c) is for all else: who sleeps has to know the first deadline of all.
 *
 * Invariants:
 *  - While a worker sleeps, every deadline is in the shared heap, or somebody who is
 *    awake is about to move it there. Who arms one near looks whether anybody sleeps
 *    before and after; who goes to sleep as the first moves those of all, after it has
 *    said so. Its fence is the heavy one of go_idle(), the other's a full one, which
 *    sched_wake_for_timer() had before. A model of it: tests/relacy/near.cc.
 *  - A worker that has some has ticks, or a tick for the first of them, or will look
 *    before it runs anybody. One that stops having them has none left: by itself (it
 *    sleeps, or leaves), by the handler that finds it stuck, or by who drains it.
 *  - A waiter says where it is (`near`), which changes under the lock of where it is
 *    and only once, so who takes it out locks that, and looks again.
 *
 * A tick may be long in coming: to who has forbidden it, or computes in libc. So who
 * looks around looks at one other worker as well, in turn (look_near()), and nobody's
 * deadline depends on one worker alone. That is a line that travels once in
 * FAIR_TURNS * NEAR_LOOKS switches at the most, at any number of CPUs.
 *
 * Rejected: a heap for each worker and nothing else (each that goes to sleep would
 * have to look at those of all, and say to all that it does not any more); a
 * queue lock for the shared heap (the lines would be as many at each N, but who
 * sleeps on a hundred CPUs would stand in one queue).
 */
#include <string.h>

#include "sched/near.h"
#include "sched/sched.h"
#include "sched/theap.h"

#define NEAR_MAX 64 /* to be moved by who holds two locks */

/* Under its lock. */
static void publish(struct near *n)
{
	if (n->heap.first)
		store_relaxed(&n->next, n->heap.first->deadline);
}

static bool may_keep(const struct worker *w)
{
	return load_relaxed(&w->near.count) < NEAR_MAX &&
	       !load_relaxed(&rt.nidle) && w->kind != WORKER_RESCUER &&
	       !worker_is_stuck(w) && !worker_is_leaving(w);
}

bool near_add(struct worker *w, struct waiter *wt)
{
	struct near *n = &w->near;

	if (deadline_is_real(wt->deadline) || !may_keep(w))
		return false;
	spin_lock(&n->lock);
	store_relaxed(&wt->near, n);
	theap_add(&n->heap, wt);
	publish(n);
	store_relaxed(&n->count, n->count + 1);
	spin_unlock(&n->lock);
	return true;
}

void near_remove(struct near *n, struct waiter *wt)
{
	theap_remove(&n->heap, wt);
	publish(n);
	store_relaxed(&n->count, n->count - 1);
}

bool near_run(struct near *n)
{
	struct uthread_list due = { 0 };

	spin_lock(&n->lock);
	store_relaxed(&n->count, n->count - (uint32_t)theap_expire(
						    &n->heap, now_ns(), &due));
	publish(n);
	spin_unlock(&n->lock);
	return theap_ready(&due);
}

void near_spill(struct worker *w)
{
	struct near *n = &w->near;

	spin_lock(&n->lock);
	timer_take(&n->heap);
	store_relaxed(&n->count, 0);
	spin_unlock(&n->lock);
}

/* Not in a region of its own: at the end of that ticks are taken, and here is a handler. */
void near_try_spill(struct worker *w)
{
	struct near *n = &w->near;

	if (__atomic_exchange_n(&n->lock, 1, __ATOMIC_ACQUIRE))
		return;
	if (timer_try_take(&n->heap))
		store_relaxed(&n->count, 0);
	store_release(&n->lock, 0); /* pairs: spin_lock() */
}

void near_spill_all(void)
{
	int i;

	for (i = 0; i < load_acquire(&rt.existing); i++)
		if (near_has(rt.workers[i]))
			near_spill(rt.workers[i]);
}

void near_forked(struct worker *w)
{
	memset(&w->near, 0, sizeof(w->near));
}
